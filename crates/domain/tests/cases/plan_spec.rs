//! What a plan was asked to do, as text, as JSON and on one line.

use domain::*;
use serde_json::json;

#[test]
fn bytes_are_text_in_json_where_they_can_be() {
    for (bytes, shown) in [
        (b"make".to_vec(), json!("make")),
        ("é\n\"".as_bytes().to_vec(), json!("é\n\"")),
        (Vec::new(), json!("")),
        (vec![0x66, 0xff, 0x00], json!([0x66, 0xff, 0x00])),
    ] {
        let text = ByteText(bytes);
        assert_eq!(serde_json::to_value(&text).unwrap(), shown);
        assert_eq!(serde_json::from_value::<ByteText>(shown).unwrap(), text);
    }
    for wrong in [json!(7), json!([256]), json!([-1]), json!({"a": 1}), json!(null)] {
        assert!(serde_json::from_value::<ByteText>(wrong.clone()).is_err(), "{wrong}");
    }
    assert_eq!(ByteText(vec![b'a', 0xff]).to_string(), "a\u{fffd}");
    assert_eq!(format!("{:>3}", ByteText::from("a")), "  a");
}

#[test]
fn a_command_is_a_list_or_a_line_for_the_shell() {
    let argv: Run = serde_json::from_value(json!(["make", "it's", [0xff]])).unwrap();
    let words = vec![ByteText::from("make"), "it's".into(), vec![0xff].into()];
    assert_eq!(argv, Run::Argv(words.clone()));
    assert_eq!(argv.argv(), words);
    let shell: Run = serde_json::from_value(json!("make && make test")).unwrap();
    assert_eq!(shell, Run::Shell("make && make test".to_owned()));
    assert_eq!(shell.argv(), ["sh", "-ec", "make && make test"].map(ByteText::from));
    for run in [argv, shell] {
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
    }
}

#[test]
fn a_shown_command_can_be_typed() {
    let shown = |words: &[&str]| Run::Argv(words.iter().map(|word| ByteText::from(*word)).collect()).shown();
    assert_eq!(shown(&["cargo", "test", "-p", "domain"]), "cargo test -p domain");
    assert_eq!(shown(&["a=b:c@d%e+f,g", "./x/_y-z.rs"]), "a=b:c@d%e+f,g ./x/_y-z.rs");
    for (word, typed) in [
        ("", "''"),
        (" ", "' '"),
        ("it's", r"'it'\''s'"),
        ("$HOME", "'$HOME'"),
        ("a;b", "'a;b'"),
        ("*", "'*'"),
        ("~", "'~'"),
        ("a\nb", "'a\nb'"),
        ("é", "é"),
    ] {
        assert_eq!(shown(&[word]), typed);
    }
    assert_eq!(Run::Shell("make | tee log".to_owned()).shown(), "make | tee log", "as it was written");
}

#[test]
fn the_shell_reads_a_shown_command_back() {
    let words = ["printf", "%s\\n", "", "it's", "a b", "$HOME `id`", "\"x\"", "*", "\\", "é", "a;b|c&d", "#"];
    let run = Run::Argv(words.iter().map(|word| ByteText::from(*word)).collect());
    let said = std::process::Command::new("sh").arg("-c").arg(run.shown()).output().unwrap();
    let lines: Vec<String> = String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines, words[2..]);
}

#[test]
fn a_spec_without_the_newer_fields_still_reads() {
    let spec: PlanSpec = serde_json::from_value(json!({
        "task": {"run": ["make"]}, "max_file_bytes": 10, "sandbox": "auto", "isolation_required": true,
        "time_limit_s": 60,
    }))
    .unwrap();
    assert_eq!(
        (spec.apply, spec.automation),
        (Gate::Ask, Automation::Review),
        "a person is asked unless somebody said otherwise"
    );
    let [only] = &spec.steps[..] else { panic!("a task is one step: {:?}", spec.steps) };
    let task = only.command().unwrap();
    assert_eq!((spec.validations.len(), task.network, task.timeout_s), (0, false, None));
    assert_eq!((only.node.as_str(), only.shown().as_str(), only.retries), ("execute", "make", None));
    let json = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<PlanSpec>(json).unwrap(), spec);
}

#[test]
fn a_level_of_automation_has_one_name_everywhere() {
    for level in Automation::ALL {
        assert_eq!(Automation::parse(level.as_str()), Some(level));
        assert_eq!(serde_json::to_value(level).unwrap(), json!(level.as_str()));
    }
    assert_eq!(Automation::ALL.map(Automation::as_str), ["manual", "review", "auto"]);
    assert_eq!(Automation::parse("Auto"), None);
}
