//! Conditions, held against a naive reading of the same tree.

use domain::expr::Compare;
use domain::{Expr, TemplatePath, TypeError};
use proptest::prelude::*;
use serde_json::{Value, json};

fn find(path: &TemplatePath) -> Option<Value> {
    Some(match path.to_string().as_str() {
        "yes" => json!(true),
        "n" => json!(3),
        "word" => json!("abc"),
        "list" => json!([1, "b", null]),
        "nodes.a-b/c.json.none" => Value::Null,
        "nodes.a-b/c.outcome" => json!("failed"),
        _ => return None,
    })
}

fn value(text: &str) -> Result<Value, String> {
    let expr = Expr::parse(text).map_err(|flaw| format!("{}: {flaw}", flaw.at))?;
    expr.value(&find).map_err(|error| error.to_string())
}

#[test]
fn conditions_mean_what_they_say() {
    for (text, is) in [
        ("true", true),
        ("not yes", false),
        ("not not yes", true),
        ("yes and n > 2", true),
        ("no_such and yes or yes", true),
        ("false and yes or yes", true),
        ("false and (yes or yes)", false),
        ("yes or no_such", true),
        ("false and no_such", false),
        ("not false and false", false),
        ("not (false and false)", true),
        ("n == 3.0", true),
        ("n == '3'", false),
        ("n != '3'", true),
        ("n>=3 and n<=3 and not n<3", true),
        ("18446744073709551615 > 18446744073709551614", true),
        ("-1 < 0 and 1e2 == 100", true),
        ("word < 'abd'", true),
        ("'b' in word", true),
        ("'x' in word", false),
        ("1 in list and null in list and not (2 in list)", true),
        ("n in [1, 2, 3]", true),
        ("word in []", false),
        ("1 in nodes.a-b/c.json.none", false),
        ("not nodes.a-b/c.json.none", true),
        ("nodes.a-b/c.json.none == null", true),
        ("nodes.a-b/c.outcome == \"failed\"", true),
        ("[1, 2] == [1.0, 2]", true),
        (
            r#""a\n\"\u00e9" == 'a
"é'"#,
            true,
        ),
    ] {
        let is = if text.starts_with("no_such") {
            Err("there is no value `no_such`".to_owned())
        } else {
            Ok(json!(is))
        };
        assert_eq!(value(text), is, "{text}");
    }
}

#[test]
fn values_that_do_not_go_together_are_an_error_and_no_guess() {
    for (text, why) in [
        ("n < word", "there is an order"),
        ("null < 1", "compares null with a number"),
        ("yes > false", "a boolean"),
        ("1 in n", "things are in a list"),
        ("1 in word", "looks for a number in a text"),
        ("not word", "`word` is a text, where true or false is wanted"),
        ("yes and n", "`n` is a number"),
    ] {
        let said = value(text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn what_is_no_condition_says_where_and_what_was_meant() {
    for (text, at, why) in [
        ("", 0, "missing at the end"),
        ("yes and", 7, "missing at the end"),
        ("and yes", 0, "missing before `and`"),
        ("n = 3", 2, "compare with `==`"),
        ("!yes", 0, "the opposite is `not`"),
        ("yes && yes", 4, "write `and`"),
        ("yes || yes", 4, "write `or`"),
        ("{{yes}}", 0, "without braces"),
        ("(yes", 4, "`)` is missing"),
        ("yes)", 3, "not expected"),
        ("1 < n < 5", 7, "do not follow each other"),
        ("'abc", 0, "does not end"),
        ("'a\\x'", 0, "no escape"),
        ("1.2.3", 0, "not a number"),
        ("a..b", 0, "names no value"),
        ("[1 2]", 3, "`,` is missing"),
    ] {
        let flaw = Expr::parse(text).unwrap_err();
        assert!(flaw.at == at && flaw.why.contains(why), "{text}: {flaw:?}");
    }
    assert!(Expr::parse(&format!("{}true", "not ".repeat(100))).is_err());
    assert!(Expr::parse(&format!("{}true{}", "(".repeat(100), ")".repeat(100))).is_err());
    assert!(Expr::parse(&"a".repeat(501)).unwrap_err().why.contains("500"));
}

/// The rules once more, written another way.
fn naive(expr: &Expr) -> Result<Value, ()> {
    let truth = |value: Value| match value {
        Value::Bool(is) => Ok(is),
        Value::Null => Ok(false),
        _ => Err(()),
    };
    let same = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    };
    match expr {
        Expr::Literal(value) => Ok(value.clone()),
        Expr::Path(path) => find(path).ok_or(()),
        Expr::List(items) => items.iter().map(naive).collect::<Result<Vec<_>, _>>().map(Value::Array),
        Expr::Not(inner) => Ok(json!(!truth(naive(inner)?)?)),
        Expr::And(a, b) => Ok(json!(if truth(naive(a)?)? { truth(naive(b)?)? } else { false })),
        Expr::Or(a, b) => Ok(json!(if truth(naive(a)?)? { true } else { truth(naive(b)?)? })),
        Expr::Compare(a, how, b) => {
            let (a, b) = (naive(a)?, naive(b)?);
            let sign = match (&a, &b) {
                (Value::Number(a), Value::Number(b)) => Some(
                    (a.as_f64().unwrap() - b.as_f64().unwrap()).signum() as i32
                        * i32::from(a.as_f64() != b.as_f64()),
                ),
                (Value::String(a), Value::String(b)) => Some(if a < b { -1 } else { i32::from(a > b) }),
                _ => None,
            };
            Ok(json!(match how {
                Compare::Equal => same(&a, &b),
                Compare::Unequal => !same(&a, &b),
                Compare::Less => sign.ok_or(())? < 0,
                Compare::AtMost => sign.ok_or(())? <= 0,
                Compare::More => sign.ok_or(())? > 0,
                Compare::AtLeast => sign.ok_or(())? >= 0,
                Compare::In => match &b {
                    Value::Array(items) => items.iter().any(|item| same(&a, item)),
                    Value::String(whole) => whole.contains(a.as_str().ok_or(())?),
                    Value::Null => false,
                    _ => return Err(()),
                },
            }))
        }
    }
}

fn any_expr() -> impl Strategy<Value = Expr> {
    let path = prop::sample::select(vec!["yes", "n", "word", "list", "nodes.a-b/c.json.none", "missing"]);
    let scalars = vec![
        json!(true),
        json!(false),
        json!(null),
        json!(3),
        json!(-1.5),
        json!("b"),
        json!("it's \"x\"\n"),
    ];
    let leaf = prop_oneof![
        path.prop_map(|path| Expr::Path(TemplatePath::parse(path).unwrap())),
        prop::sample::select(scalars).prop_map(Expr::Literal),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        let boxed = |(a, b): (Expr, Expr)| (Box::new(a), Box::new(b));
        prop_oneof![
            inner.clone().prop_map(|inner| Expr::Not(Box::new(inner))),
            pair.clone().prop_map(move |pair| {
                let (a, b) = boxed(pair);
                Expr::And(a, b)
            }),
            pair.clone().prop_map(move |pair| {
                let (a, b) = boxed(pair);
                Expr::Or(a, b)
            }),
            (pair, prop::sample::select(Compare::ALL.to_vec())).prop_map(move |(pair, how)| {
                let (a, b) = boxed(pair);
                Expr::Compare(a, how, b)
            }),
            prop::collection::vec(inner, 0..3).prop_map(Expr::List),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_condition_is_read_back_as_itself(expr in any_expr()) {
        prop_assert_eq!(Expr::parse_frozen(&expr.to_string()), Ok(expr));
    }

    #[test]
    fn conditions_agree_with_a_naive_reading(expr in any_expr()) {
        let ours: Result<Value, TypeError> = expr.value(&find);
        prop_assert_eq!(ours.map_err(drop), naive(&expr), "{}", expr);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-c.()\\[\\]'\"<>=!,0-9 notandri\\\\-]{0,40}") {
        let _ = Expr::parse(&text);
    }
}
