//! Templates: one pass, no value is read as anything but text, unknown paths are told.

use std::collections::{BTreeMap, BTreeSet};

use domain::*;
use proptest::prelude::*;
use serde_json::json;

fn values() -> Values {
    let run = NodeRun {
        attempt: 1,
        phase: Phase::Execute,
        path: "sub/check".to_owned(),
        tries: 1,
        outcome: NodeOutcome::Failed,
        exit: Some(3),
        text: "two {{task}}".to_owned(),
        json: json!({ "ok": false, "files": ["a", "b"], "deep": { "n": 1.5 } }),
        changed: 2,
        usage: TokenUsage::default(),
        guidance_seen: 0,
        started: WallMs(1),
        finished: WallMs(2),
    };
    let mut values = Values {
        prompt: "brief".to_owned(),
        task: "do {{it}}".to_owned(),
        attempt: 2,
        args: BTreeMap::from([("from".to_owned(), json!("Foo")), ("all".to_owned(), json!(["x", "y"]))]),
        ..Values::default()
    };
    values.add(&run);
    values
}

fn expanded(text: &str) -> String {
    Template::parse(text).unwrap().expand(&values()).unwrap()
}

#[test]
fn placeholders_become_values_in_one_pass() {
    for (text, becomes) in [
        ("", ""),
        ("plain } { text", "plain } { text"),
        ("{{prompt}}", "brief"),
        ("a {{ prompt }} b{{attempt}}", "a brief b2"),
        ("{{task}}", "do {{it}}"),
        ("{{from}}={{args.from}}", "Foo=Foo"),
        ("{{all}}", "x\ny"),
        ("\\{{from}}", "{{from}}"),
        ("\\\\{{from}}", "\\{{from}}"),
        ("{{nodes.sub/check.text}}", "two {{task}}"),
        ("{{nodes.sub/check.exit_code}} {{nodes.sub/check.outcome}}", "3 failed"),
        ("{{nodes.sub/check.json.files.1}} {{nodes.sub/check.json.deep.n}}", "b 1.5"),
        ("[{{nodes.sub/check.json.none.at.all}}]", "[]"),
        ("{{strategy}}|{{findings}}", "|"),
    ] {
        assert_eq!(expanded(text), becomes, "{text}");
    }
}

#[test]
fn what_is_no_template_says_where() {
    for (text, at) in
        [("a {{b", 2), ("{{}}", 0), ("{{a b}}", 0), ("x{{a..b}}", 1), ("{{.State}}", 0), ("{{a}} {{", 6)]
    {
        assert_eq!(Template::parse(text).unwrap_err().at, at, "{text}");
    }
    let unknown = Template::parse("{{nothing}}").unwrap().expand(&values());
    assert_eq!(unknown.unwrap_err().to_string(), "there is no value `nothing`");
}

#[test]
fn a_line_for_the_shell_has_no_placeholder() {
    for (line, found) in [
        ("echo {{from}}", Some(5)),
        ("echo ${{ from }}", Some(6)),
        ("docker inspect -f '{{.State}}'", None),
        ("awk '{{print}'", None),
        ("echo \\{{from}}", None),
        ("echo $ARG_FROM", None),
    ] {
        assert_eq!(Template::found_in(line), found, "{line}");
    }
}

#[test]
fn an_unknown_path_is_told_before_anything_runs() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let known =
        TemplateScope { args: set(&["from"]), nodes: set(&["survey"]), later: set(&["amend"]), in_run: true };
    let said = |path: &str| known.check(&TemplatePath::parse(path).unwrap()).err().map(|why| why.to_string());
    for fine in
        ["prompt", "from", "args.from", "nodes.survey.text", "nodes.survey.json", "nodes.survey.json.a.0.b"]
    {
        assert_eq!(said(fine), None);
    }
    for (path, why) in [
        ("promt", "there is no value `promt`; did you mean `prompt`?"),
        ("args.form", "there is no value `args.form`; did you mean `args.from`?"),
        ("nodes.surve.text", "there is no value `nodes.surve.text`; did you mean `nodes.survey.text`?"),
        (
            "nodes.amend.text",
            "there is no value `nodes.amend.text`: node `amend` is not settled by then; name it in `needs`",
        ),
        (
            "nodes.survey.txt",
            "there is no value `nodes.survey.txt`; of a node there are text, exit_code, outcome, changed, json; did you mean `text`?",
        ),
        ("nodes.survey.text.a", "there is no value `nodes.survey.text.a`: `text` has no parts"),
        ("prompt.a", "there is no value `prompt.a`: `prompt` has no parts"),
    ] {
        assert_eq!(said(path).as_deref(), Some(why));
    }
    let early = TemplateScope { in_run: false, ..known.clone() };
    assert!(early.check(&TemplatePath::parse("prompt").unwrap()).is_err(), "no plan is there yet");
    assert!(early.check(&TemplatePath::parse("from").unwrap()).is_ok());
}

#[test]
fn no_value_becomes_an_option_or_two_words() {
    let argv = |words: &[&str], from: &str| {
        let mut values = values();
        values.args.insert("from".to_owned(), json!(from));
        let words: Vec<ByteText> = words.iter().map(|word| ByteText::from(*word)).collect();
        expand_argv(&words, &values).map(|words| words.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(argv(&["grep", "{{from}}"], "a b; $(touch x)").unwrap(), ["grep", "a b; $(touch x)"]);
    assert_eq!(argv(&["grep", "-e{{from}}", "--x={{from}}"], "--v").unwrap(), ["grep", "-e--v", "--x=--v"]);
    assert_eq!(argv(&["grep", "--", "{{from}}"], "--v").unwrap(), ["grep", "--", "--v"]);
    assert!(matches!(argv(&["grep", "{{from}}"], "--v"), Err(ExpandError::LeadingDash { .. })));
    assert!(
        matches!(argv(&["grep", "{{from}}", "{{from}}"], "--"), Err(ExpandError::LeadingDash { .. })),
        "a value is no end of the options"
    );
    let most = "x".repeat(100 * 1024);
    assert!(argv(&["grep", "{{from}}"], &most).is_ok());
    let error = argv(&["grep", "{{from}}y"], &most).unwrap_err();
    assert!(error.to_string().contains("stdin"), "{error}");
}

#[test]
fn a_nested_actor_is_given_templates() {
    let inner = Template::parse("look at {{topic}}: {{nodes.a.text}}").unwrap();
    let by = |path: &TemplatePath| match path.node() {
        Some((node, rest)) => Some(Template::from_path(TemplatePath::of_node(&format!("sub/{node}"), rest))),
        None => Some(Template::parse("{{from}} \\{{x}}").unwrap()),
    };
    assert_eq!(
        inner.replace_paths(&by).unwrap().to_string(),
        "look at {{from}} \\{{x}}: {{nodes.sub/a.text}}"
    );
    let two = Template::parse("{{topic}}{{from}}").unwrap();
    let ends_with = |sign: &'static str| {
        move |path: &TemplatePath| (path.to_string() == "topic").then(|| Template::literal(sign))
    };
    for sign in ["\\", "{"] {
        assert_eq!(
            two.replace_paths(&ends_with(sign)),
            Err(sign.to_owned()),
            "it would be read as another template"
        );
    }
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(text in "([a{}\\\\. ]|\\{\\{a\\}\\}|\\{\\{b.c\\}\\}){0,12}") {
        if let Ok(template) = Template::parse(&text) {
            prop_assert_eq!(Template::parse(&template.to_string()), Ok(template));
        }
    }

    #[test]
    fn any_text_can_be_a_literal(text in "[a{}\\\\. ]{0,16}") {
        let template = Template::parse(&Template::literal(&text).to_string()).unwrap();
        prop_assert_eq!(template.plain(), Some(text));
    }

    #[test]
    fn a_value_goes_in_as_it_is(before in "[a-z ]{0,5}", value in ".{0,20}", after in "[a-z }]{0,5}") {
        let mut values = values();
        values.args.insert("from".to_owned(), json!(value));
        let text = Template::parse(&format!("{before}{{{{from}}}}{after}")).unwrap().expand(&values);
        prop_assert_eq!(text, Ok(format!("{before}{value}{after}")));
    }
}
