//! Arguments: what is declared holds, and everything that is wrong is told.

use std::collections::BTreeMap;

use domain::arg::{resolve, variable};
use domain::{ARG_BYTES_MAX, Arg, ArgError, ArgType};
use proptest::prelude::*;
use serde_json::{Value, json};

fn of(kind: ArgType) -> Arg {
    Arg { kind, ..Arg::default() }
}

fn one(arg: Arg, given: &[&str]) -> Result<Value, Vec<ArgError>> {
    let declared = BTreeMap::from([("a".to_owned(), arg)]);
    let given: Vec<(String, String)> =
        given.iter().map(|text| ("a".to_owned(), (*text).to_owned())).collect();
    resolve(&declared, &given).map(|values| values["a"].clone())
}

#[test]
fn a_text_becomes_a_value_of_the_declared_type() {
    for (kind, text, value) in [
        (ArgType::String, "7", json!("7")),
        (ArgType::Integer, "-7", json!(-7)),
        (ArgType::Integer, "18446744073709551615", json!(u64::MAX)),
        (ArgType::Number, "1.5", json!(1.5)),
        (ArgType::Number, "2", json!(2)),
        (ArgType::Boolean, "true", json!(true)),
        (ArgType::List, "a", json!(["a"])),
    ] {
        assert_eq!(one(of(kind), &[text]), Ok(value), "{kind:?} {text}");
    }
    assert_eq!(one(of(ArgType::List), &["a", "b", "a"]), Ok(json!(["a", "b", "a"])));
    for (kind, text) in [
        (ArgType::Integer, "1.5"),
        (ArgType::Integer, "seven"),
        (ArgType::Number, "NaN"),
        (ArgType::Number, "inf"),
        (ArgType::Boolean, "yes"),
    ] {
        assert!(
            matches!(one(of(kind), &[text]), Err(errors) if matches!(errors[..], [ArgError::Invalid { .. }])),
            "{kind:?} {text}"
        );
    }
}

#[test]
fn every_rule_of_a_declaration_holds() {
    let pattern = Arg { pattern: Some("^[a-z]+$".to_owned()), ..Arg::default() };
    assert_eq!(one(pattern.clone(), &["ab"]), Ok(json!("ab")));
    for wrong in ["", "aB", "ab\n", "$(touch x)"] {
        assert!(one(pattern.clone(), &[wrong]).is_err(), "{wrong:?}");
    }
    let each = Arg { kind: ArgType::List, ..pattern };
    assert!(one(each.clone(), &["a", "b"]).is_ok() && one(each, &["a", "B"]).is_err());
    let bounds = Arg { min: Some(2.0), max: Some(3.0), ..Arg::default() };
    let fits = |arg: Arg, texts: &[&[&str]]| {
        texts.iter().map(|given| one(arg.clone(), given).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(fits(bounds.clone(), &[&["a"], &["äö"], &["abc"], &["abcd"]]), [false, true, true, false]);
    let number = Arg { kind: ArgType::Number, ..bounds.clone() };
    assert_eq!(fits(number, &[&["1.9"], &["2"], &["3.0"], &["3.1"]]), [false, true, true, false]);
    let list = Arg { kind: ArgType::List, ..bounds };
    assert_eq!(fits(list, &[&["a"], &["a"; 2], &["a"; 3], &["a"; 4]]), [false, true, true, false]);
    let choice = Arg { kind: ArgType::Integer, choices: vec![json!(1), json!(5)], ..Arg::default() };
    assert_eq!(fits(choice, &[&["1"], &["2"]]), [true, false]);
    assert!(one(Arg::default(), &[&"x".repeat(ARG_BYTES_MAX)]).is_ok());
    assert!(one(Arg::default(), &[&"x".repeat(ARG_BYTES_MAX + 1)]).is_err());
    assert!(one(Arg::default(), &["a\0b"]).is_err(), "no program could be given it");
    assert!(one(Arg::default(), &["a", "b"]).is_err(), "only a list is given twice");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let declared = BTreeMap::from([
        ("from".to_owned(), Arg { description: "the old name".to_owned(), ..Arg::default() }),
        ("count".to_owned(), of(ArgType::Integer)),
        ("mode".to_owned(), Arg { default: Some(json!("fast")), ..Arg::default() }),
    ]);
    let given = [("form", "a"), ("form", "b"), ("count", "many")];
    let given = given.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let said: Vec<String> = resolve(&declared, &given).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "there is no argument `form`; did you mean `from`?",
            "the argument `count` cannot be `many`: it has to be an integer",
            "the argument `from` is missing: it is a string (the old name)",
        ]
    );
}

#[test]
fn a_default_is_taken_and_held_to_the_rules() {
    let arg =
        |default| Arg { kind: ArgType::Integer, default: Some(default), max: Some(9.0), ..Arg::default() };
    assert_eq!(one(arg(json!(7)), &[]), Ok(json!(7)));
    assert_eq!(one(arg(json!(7)), &["3"]), Ok(json!(3)));
    assert!(arg(json!(7)).flaws().is_empty());
    for wrong in [json!(10), json!("7"), json!(null), json!([7])] {
        assert_eq!(arg(wrong.clone()).flaws().len(), 1, "{wrong}");
    }
}

#[test]
fn a_declaration_that_makes_no_sense_says_why() {
    for (arg, why) in [
        (Arg { pattern: Some("(".to_owned()), ..Arg::default() }, "not a regular expression"),
        (Arg { pattern: Some("a".to_owned()), ..of(ArgType::Number) }, "for a string or a list"),
        (Arg { min: Some(2.0), max: Some(1.0), ..Arg::default() }, "above"),
        (Arg { min: Some(2.0), ..of(ArgType::Boolean) }, "not for a boolean"),
        (Arg { choices: vec![json!("a")], ..of(ArgType::Integer) }, "a choice"),
        (Arg { pattern: Some("x{9999}{9999}".to_owned()), ..Arg::default() }, "not a regular expression"),
    ] {
        let flaws = arg.flaws();
        assert!(matches!(&flaws[..], [flaw] if flaw.contains(why)), "{why}: {flaws:?}");
    }
}

#[test]
fn a_variable_is_named_after_its_argument() {
    assert_eq!(
        (variable("from"), variable("base-url_2")),
        ("ARG_FROM".to_owned(), "ARG_BASE_URL_2".to_owned())
    );
}

proptest! {
    #[test]
    fn what_comes_out_keeps_the_declared_rules(
        kind in prop::sample::select(ArgType::ALL.to_vec()), min in 0..4_i32, span in 0..3_i32,
        given in prop::collection::vec("[a-c0-9.-]{0,4}", 0..5),
    ) {
        let bounds = kind != ArgType::Boolean;
        let (min, max) = (f64::from(min), f64::from(min + span));
        let arg = Arg { kind, min: bounds.then_some(min), max: bounds.then_some(max), ..Arg::default() };
        let texts: Vec<&str> = given.iter().map(String::as_str).collect();
        if let Ok(value) = one(arg.clone(), &texts) {
            prop_assert!(arg.check(&value).is_ok());
            let size = match &value {
                Value::String(text) => text.chars().count() as f64,
                Value::Array(items) => items.len() as f64,
                Value::Number(number) => number.as_f64().unwrap(),
                _ => min,
            };
            prop_assert!(size >= min && size <= max);
        }
    }
}
