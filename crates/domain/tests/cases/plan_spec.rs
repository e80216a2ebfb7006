//! The request of a plan, as text, as JSON and on one line.

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
    let argv: CommandLine = serde_json::from_value(json!(["make", "it's", [0xff]])).unwrap();
    let words = vec![ByteText::from("make"), "it's".into(), vec![0xff].into()];
    assert_eq!(argv, CommandLine::Argv(words.clone()));
    assert_eq!(argv.argv(), words);
    let shell: CommandLine = serde_json::from_value(json!("make && make test")).unwrap();
    assert_eq!(shell, CommandLine::Shell("make && make test".to_owned()));
    assert_eq!(shell.argv(), ["sh", "-ec", "make && make test"].map(ByteText::from));
    for run in [argv, shell] {
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(serde_json::from_value::<CommandLine>(json).unwrap(), run);
    }
}

#[test]
fn a_shown_command_can_be_typed() {
    let shown =
        |words: &[&str]| CommandLine::Argv(words.iter().map(|word| ByteText::from(*word)).collect()).render();
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
    assert_eq!(
        CommandLine::Shell("make | tee log".to_owned()).render(),
        "make | tee log",
        "as it was written"
    );
}

#[test]
fn the_shell_reads_a_shown_command_back() {
    let words = ["printf", "%s\\n", "", "it's", "a b", "$HOME `id`", "\"x\"", "*", "\\", "é", "a;b|c&d", "#"];
    let run = CommandLine::Argv(words.iter().map(|word| ByteText::from(*word)).collect());
    let said = std::process::Command::new("sh").arg("-c").arg(run.render()).output().unwrap();
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
        (spec.apply, &spec.automation),
        (GateDecision::Ask, &Automation::review()),
        "a person is asked unless somebody said otherwise"
    );
    let [only] = &spec.steps[..] else { panic!("a task is one step: {:?}", spec.steps) };
    let task = only.command().unwrap();
    assert_eq!((spec.validations.len(), task.network, task.timeout_s), (0, false, None));
    assert_eq!((only.node.as_str(), only.render().as_str(), only.retries), ("execute", "make", None));
    let json = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<PlanSpec>(json).unwrap(), spec);
}

#[test]
fn steps_of_an_older_plan_come_one_after_the_other_as_they_did() {
    let spec: PlanSpec = serde_json::from_value(json!({
        "steps": [
            {"node": "look", "read": {"path": "a"}, "retries": 2},
            {"node": "make", "command": {"run": "make {{all}}", "timeout_s": 5}},
            {"node": "wait", "wait": {"seconds": 1}},
        ],
        "max_file_bytes": 10, "sandbox": "auto", "isolation_required": true, "time_limit_s": 60,
    }))
    .unwrap();
    let [look, make, wait] = &spec.steps[..] else { panic!("{:?}", spec.steps) };
    assert_eq!((&look.needs, look.on, look.retries), (&None, NeedsCondition::Success, Some(2)));
    let command = make.command().unwrap();
    assert_eq!(
        (command.writes, command.expand, &command.stdin),
        (true, false, &None),
        "it is run as it stands"
    );
    assert_eq!((make.ends_after_s(), wait.ends_after_s()), (Some(5), None));
    let graph = PlanGraph::new(&spec.steps).unwrap();
    assert_eq!((graph.needs(0), graph.needs(1), graph.needs(2)), (&[][..], &[0][..], &[1][..]));
    assert_eq!((spec.parallel, spec.read_only, spec.strategist, spec.fix), (PARALLEL, false, None, None));
}

#[test]
fn a_spec_with_every_field_reads_back() {
    let command = CommandTask {
        stdin: Some("{{prompt}}".into()),
        allow_loopback: vec![8080],
        ok_exit: vec![0, 1],
        writes: false,
        expand: true,
        ..CommandTask::new(CommandLine::Argv(vec!["codex".into()]))
    };
    let model = ModelTask {
        model: "openai/gpt-5".to_owned(),
        system: String::new(),
        prompt: "{{prompt}}".to_owned(),
        tools: vec!["read".to_owned()],
        context_tokens: Some(10),
        max_turns: 5,
        nudge: false,
        output: Some(json!({"type": "object"})),
    };
    let whole = PlanStep {
        needs: Some(vec!["c".to_owned()]),
        on: NeedsCondition::Failure,
        only_if: Some("nodes.c.exit_code == 1".to_owned()),
        timeout_s: Some(9),
        retries: Some(1),
        ignore: vec!["*.log".to_owned()],
        repeat: Some(Repeat { until: "true".to_owned(), max: 3 }),
        ..PlanStep::new("m", NodeKind::Model(model))
    };
    let steps = vec![
        PlanStep::new("c", NodeKind::Command(command.clone())),
        whole,
        PlanStep::new("t", NodeKind::Tool { name: "read_file".to_owned(), with: json!({"path": "a"}) }),
        PlanStep::new("x", NodeKind::External(ExternalTask { command, prompt: "p".to_owned() })),
        PlanStep::new("s", NodeKind::Actor { name: "other".to_owned(), result: "s/main".to_owned() }),
    ];
    let old: PlanSpec = serde_json::from_value(json!({
        "task": {"run": ["make"]}, "max_file_bytes": 10, "sandbox": "auto", "isolation_required": true,
        "time_limit_s": 60,
    }))
    .unwrap();
    let rule = Some(InvariantRule::Never(vec!["*.snap".to_owned()]));
    let strategist = Strategist { name: "s".to_owned(), steps: steps.clone(), result: "m".to_owned() };
    let spec = PlanSpec {
        steps,
        parallel: 7,
        action: Some("fix".to_owned()),
        prompt: "do it".to_owned(),
        args: [("n".to_owned(), json!(3))].into(),
        definition_of_done: vec!["it is done".to_owned()],
        automation: Automation { name: "careful".to_owned(), ask_below: 0.6, ..Automation::auto() },
        instructions: vec![Instructions { alias: "shop".to_owned(), text: "be kind".to_owned() }],
        invariants: vec![Invariant { text: "t".to_owned(), scope: InvariantScope::Action, rule }],
        fix: Some("m".to_owned()),
        result: Some("x".to_owned()),
        read_only: true,
        batch: Some("fixes".to_owned()),
        strategist: Some(strategist),
        sources: vec![DefinitionSource {
            kind: "actor".to_owned(),
            name: "a".to_owned(),
            place: "built in".to_owned(),
            digest: "00".to_owned(),
        }],
        ..old
    };
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<PlanSpec>(&text).unwrap(), spec);
}

#[test]
fn a_variable_is_set_to_exactly_its_text() {
    let mut plain = CommandTask::new(CommandLine::Argv(Vec::new()));
    let mut open = CommandTask { expand: true, ..plain.clone() };
    for task in [&mut plain, &mut open] {
        task.set_variable("ITEM", &ByteText::from("{{prompt}}"));
    }
    assert_eq!(plain.env[0].1, ByteText::from("{{prompt}}"));
    let template = Template::parse(&open.env[0].1.to_string()).unwrap();
    assert_eq!(template.expand(&Values::default()).as_deref(), Ok("{{prompt}}"));
}
