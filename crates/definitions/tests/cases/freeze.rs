//! The frozen form of definitions: actors in one list, arguments put in, and nothing that loosens what
//! was allowed.

use definitions::{
    ChosenActor, DefinitionError, DiagnosticKind, FreezeOptions, FrozenDefinition, Library,
    StrategistDefault, freeze_action, freeze_actor, preview_action, preview_actor,
};
use domain::{CommandLine, InvariantScope, NodeKind, PlanGraph, PlanSpec, PlanStep, Template, Values};
use serde_json::json;

use super::definitions_read::ProjectDir;

fn with_model() -> FreezeOptions {
    FreezeOptions { model_default: Some("ollama/small".to_owned()), ..FreezeOptions::default() }
}

fn freeze(
    place: &ProjectDir,
    text: &str,
    args: &[(&str, &str)],
) -> Result<FrozenDefinition, DefinitionError> {
    place.write("actions/a", text);
    let args: Vec<(String, String)> =
        args.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let library = place.library();
    freeze_action(&library, &library.action("a")?, &args, &with_model())
}

fn kinds(error: &DefinitionError) -> Vec<DiagnosticKind> {
    match error {
        DefinitionError::Invalid(findings) => findings.iter().map(|finding| finding.kind).collect(),
        other => panic!("{other}"),
    }
}

fn step<'a>(frozen: &'a FrozenDefinition, node: &str) -> &'a PlanStep {
    frozen.steps.iter().find(|step| step.node == node).unwrap_or_else(|| panic!("{node}: {:?}", frozen.steps))
}

#[test]
fn arguments_reach_texts_lists_and_the_shell_as_text() {
    let place = ProjectDir::new();
    let text = "description: Rename {{from}} to {{args.to}}\nargs: {from: , to: {default: Bar}}\n\
                actor:\n  nodes:\n    \
                sh: {run: 'sed \"s/$ARG_FROM/$ARG_TO/\"'}\n    \
                list: {run: [grep, -e, '--x={{from}}', --, '{{from}}'], stdin: '{{from}} {{prompt}}'}\n\
                validations: [{name: left, run: [grep, -e, 'x{{to}}']}]\n";
    let frozen = freeze(&place, text, &[("from", "$(touch x)")]).unwrap();
    assert_eq!((frozen.title.as_str(), frozen.action.as_deref()), ("Rename $(touch x) to Bar", Some("a")));
    assert_eq!(
        frozen.args,
        [("from".to_owned(), json!("$(touch x)")), ("to".to_owned(), json!("Bar"))].into()
    );
    let shell = step(&frozen, "sh").command().unwrap();
    assert_eq!(
        shell.run,
        CommandLine::Shell("sed \"s/$ARG_FROM/$ARG_TO/\"".to_owned()),
        "the shell's text has no value in it"
    );
    assert_eq!(shell.env, [("ARG_FROM".into(), "$(touch x)".into()), ("ARG_TO".into(), "Bar".into())]);
    assert!(!shell.expand, "nothing is left to be put in");
    let list = step(&frozen, "list").command().unwrap();
    assert_eq!(
        list.run,
        CommandLine::Argv(["grep", "-e", "--x=$(touch x)", "--", "$(touch x)"].map(Into::into).to_vec())
    );
    assert_eq!((list.stdin.clone(), list.expand), (Some("$(touch x) {{prompt}}".into()), true));
    assert_eq!(frozen.validations[0].run, CommandLine::Argv(["grep", "-e", "xBar"].map(Into::into).to_vec()));
}

#[test]
fn no_argument_becomes_an_option_or_a_placeholder() {
    let place = ProjectDir::new();
    let text = "description: a\nargs: {x: }\nactor: {run: [grep, '{{x}}']}\n";
    let error = freeze(&place, text, &[("x", "--help")]).unwrap_err();
    assert!(matches!(&error, DefinitionError::Args(errors) if errors.len() == 1), "{error}");
    assert!(error.to_string().contains("put `--` before it"), "{error}");
    let frozen = freeze(&place, text, &[("x", "{{task}}")]).unwrap();
    let command = step(&frozen, "main").command().unwrap();
    let CommandLine::Argv(argv) = &command.run else { panic!() };
    assert!(command.expand);
    let values = Values { task: "secret".to_owned(), ..Values::default() };
    let word = Template::parse(&argv[1].to_string()).unwrap().expand(&values);
    assert_eq!(word.as_deref(), Ok("{{task}}"), "a value is not expanded again");
}

#[test]
fn wrong_arguments_are_told_all_at_once() {
    let place = ProjectDir::new();
    let text = "description: a\nargs: {from: , n: {type: integer}}\nactor: {run: make}\n";
    let error = freeze(&place, text, &[("n", "x"), ("form", "b")]).unwrap_err();
    assert!(matches!(error, DefinitionError::Args(errors) if errors.len() == 3));
}

#[test]
fn a_nested_actor_becomes_steps_of_the_plan() {
    let place = ProjectDir::new();
    place.write(
        "actors/look",
        "nodes:\n  ask: {model: default, tools: [read], prompt: 'About {{topic}} of {{args.name}}: {{task}}'}\n  \
         sum: {needs: [ask], run: [wc, -w, '{{topic}}'], stdin: '{{nodes.ask.text}}', if: depth > 1}\n",
    );
    let text = "description: a\nargs: {name: {default: N}}\nactor:\n  nodes:\n    \
                first: {run: make}\n    \
                sub: {actor: look, needs: [first], if: nodes.first.exit_code == 0, with: {topic: 'T {{nodes.first.text}}', depth: 3}}\n    \
                last: {needs: [sub], run: [echo, 'x{{nodes.sub.text}}']}\n";
    let frozen = freeze(&place, text, &[]).unwrap();
    let names: Vec<&str> = frozen.steps.iter().map(|step| step.node.as_str()).collect();
    assert_eq!(names, ["first", "sub/ask", "sub/sum", "sub", "last"]);
    let NodeKind::Model(ask) = &step(&frozen, "sub/ask").does else { panic!() };
    assert_eq!(ask.prompt, "About T {{nodes.first.text}} of N: {{task}}");
    assert_eq!(ask.model, "ollama/small");
    let sum = step(&frozen, "sub/sum");
    let command = sum.command().unwrap();
    assert_eq!(command.stdin, Some("{{nodes.sub/ask.text}}".into()));
    assert_eq!(sum.needs, Some(vec!["sub/ask".to_owned()]));
    assert_eq!(sum.only_if.as_deref(), Some("(nodes.first.exit_code == 0) and (3 > 1)"));
    let variables: Vec<String> = command.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(variables, ["ARG_DEPTH=3", "ARG_NAME=N", "ARG_TOPIC=T {{nodes.first.text}}"]);
    let sub = step(&frozen, "sub");
    assert_eq!(sub.does, NodeKind::Actor { name: "look".to_owned(), result: "sub/sum".to_owned() });
    assert_eq!(sub.needs, Some(vec!["first".to_owned()]));
    assert!(PlanGraph::new(&frozen.steps).is_ok());
    let sources: Vec<&str> = frozen.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(sources, ["a", "look"]);
    assert!(frozen.sources.iter().all(|source| source.digest.len() == 64));
}

#[test]
fn actors_that_are_made_of_each_other_or_too_large_are_refused() {
    let place = ProjectDir::new();
    place.write("actors/one", "nodes: {x: {actor: two}}\n");
    place.write("actors/two", "nodes: {x: {actor: one}}\n");
    let error = freeze(&place, "description: a\nactor: one\n", &[]).unwrap_err();
    assert_eq!(kinds(&error), [DiagnosticKind::ActorCycle]);
    assert!(error.to_string().contains("one → two → one"), "{error}");

    for at in 0..9 {
        place.write(&format!("actors/deep{at}"), &format!("nodes: {{x: {{actor: deep{}}}}}\n", at + 1));
    }
    place.write("actors/deep9", "run: make\n");
    assert!(freeze(&place, "description: a\nactor: deep2\n", &[]).is_ok(), "eight deep");
    let error = freeze(&place, "description: a\nactor: deep1\n", &[]).unwrap_err();
    assert_eq!(kinds(&error), [DiagnosticKind::ActorTooLarge]);

    let many: String = (0..60).map(|at| format!("  n{at}: {{run: make}}\n")).collect();
    place.write("actors/many", &format!("nodes:\n{many}"));
    let eight: String = (0..8).map(|at| format!("  n{at}: {{actor: many}}\n")).collect();
    place.write("actors/most", &format!("nodes:\n{eight}"));
    assert_eq!(freeze(&place, "description: a\nactor: most\n", &[]).unwrap().steps.len(), 488);
    let nine: String = (0..9).map(|at| format!("  n{at}: {{actor: many}}\n")).collect();
    place.write("actors/most", &format!("nodes:\n{nine}"));
    let error = freeze(&place, "description: a\nactor: most\n", &[]).unwrap_err();
    assert!(kinds(&error).iter().all(|kind| *kind == DiagnosticKind::ActorTooLarge), "{error}");
}

#[test]
fn an_actor_that_is_missing_is_told_where_it_is_named() {
    let place = ProjectDir::new();
    let error = freeze(&place, "description: a\nactor: codx\n", &[]).unwrap_err();
    assert_eq!(kinds(&error), [DiagnosticKind::ActorNotFound]);
    assert!(
        error.to_string().contains("a.yaml:2:8: there is no actor `codx`; did you mean `codex`?"),
        "{error}"
    );
    let error = freeze(&place, "description: a\nactor: {nodes: {x: {actor: nobody}}}\n", &[]).unwrap_err();
    assert_eq!(kinds(&error), [DiagnosticKind::ActorNotFound]);
    let error = freeze(&place, "description: a\n", &[]).unwrap_err();
    assert!(matches!(error, DefinitionError::NoActor), "{error}");
}

#[test]
fn a_nested_actors_slip_is_told_when_its_arguments_are_known() {
    let place = ProjectDir::new();
    place.write("actors/look", "run: [echo, 'x{{topc}}']\n");
    let library = place.library();
    let alone = library.actor("look").unwrap();
    assert!(preview_actor(&library, &alone, &with_model()).is_ok(), "whoever uses it may give it");
    let error = freeze(&place, "description: a\nactor: {nodes: {x: {actor: look, with: {topic: a}}}}\n", &[])
        .unwrap_err();
    assert_eq!(kinds(&error), [DiagnosticKind::TemplateUnknown]);
    assert!(error.to_string().contains("did you mean `topic`?"), "{error}");
}

#[test]
fn a_strategist_only_reads() {
    let place = ProjectDir::new();
    let strategist = |node: &str| format!("description: a\nactor: {{run: make}}\nstrategist: {{{node}}}\n");
    for node in [
        "model: default, tools: [read, write]",
        "tool: write_file, with: {path: a, content: b}",
        "model: default, tools: [run_command]",
    ] {
        let error = freeze(&place, &strategist(node), &[]).unwrap_err();
        assert!(error.to_string().contains("may only read"), "{node}: {error}");
    }
    let frozen = freeze(&place, &strategist("model: default"), &[]).unwrap();
    let NodeKind::Model(task) = &frozen.strategist.unwrap().steps[0].does else { panic!() };
    assert_eq!(task.tools, ["read"]);
    let frozen = freeze(&place, &strategist("run: [cat, a]"), &[]).unwrap();
    assert!(!frozen.strategist.unwrap().steps[0].command().unwrap().writes);
}

#[test]
fn a_strategist_of_the_settings_thinks_for_those_who_listen() {
    let place = ProjectDir::new();
    let surroundings = FreezeOptions {
        strategist_default: StrategistDefault::Named(ChosenActor::by_user("strategist")),
        ..with_model()
    };
    let who = |text: &str| {
        place.write("actions/a", text);
        let library = place.library();
        let frozen = freeze_action(&library, &library.action("a").unwrap(), &[], &surroundings).unwrap();
        frozen.strategist.map(|strategist| strategist.name)
    };
    assert_eq!(who("description: a\nactor: coder\n").as_deref(), Some("strategist"));
    assert_eq!(who("description: a\nactor: codex\n").as_deref(), Some("strategist"));
    assert_eq!(who("description: a\nactor: coder\nstrategist: none\n"), None);
    assert_eq!(who("description: a\nactor: {run: make}\n"), None, "a command would not be told");
    assert_eq!(
        who("description: a\nactor: {run: make}\nstrategist: strategist\n").as_deref(),
        Some("strategist")
    );
}

#[test]
fn a_definition_only_makes_what_is_allowed_stricter() {
    let place = ProjectDir::new();
    let text = |automation: &str, limits: &str| {
        format!(
            "description: a\nactor: {{run: make, limits: {{steps: 9}}}}\nautomation: {automation}\nlimits: {limits}\n"
        )
    };
    let spec = || -> PlanSpec {
        let spec = json!({
            "task": {"run": ["x"]}, "max_file_bytes": 1, "sandbox": "auto", "isolation_required": true,
            "time_limit_s": 60, "limits": {"steps": 10, "tool_calls": 100, "tokens": null, "cost": 5},
        });
        serde_json::from_value(spec).unwrap()
    };
    let mut loose = spec();
    freeze(&place, &text("auto", "{time: 1h, tool_calls: 1000}"), &[]).unwrap().put_into(&mut loose);
    assert_eq!((loose.automation.name.as_str(), loose.time_limit_s), ("review", 60));
    assert_eq!((loose.limits.steps, loose.limits.tool_calls), (Some(9), Some(100)));
    let mut strict = spec();
    freeze(&place, &text("manual", "{time: 5s, cost: 0.000001, tokens: 7, parallel: 2}"), &[])
        .unwrap()
        .put_into(&mut strict);
    assert_eq!((strict.automation.name.as_str(), strict.time_limit_s, strict.parallel), ("manual", 5, 2));
    assert_eq!((strict.limits.cost, strict.limits.tokens), (Some(1), Some(7)));
}

#[test]
fn what_a_projects_file_asks_for_is_told_and_a_users_is_not() {
    let place = ProjectDir::new();
    let actor = "run: make\nnetwork: true\npass_env: [KEY]\nwritable: [~/.x]\n";
    place.write("actors/wants", actor);
    let frozen = freeze(&place, "description: a\nactor: wants\n", &[]).unwrap();
    assert_eq!(frozen.asks, ["the network", "to write ~/.x", "your variable KEY"]);
    place.write("user/actors/mine", actor);
    let library = place.library();
    let own = FreezeOptions { actor: Some(library.actor("mine").unwrap()), ..FreezeOptions::default() };
    assert!(freeze_actor(&library, "a task", &own).unwrap().asks.is_empty());
    // A project's file gets no more by naming what the user or the program wrote.
    assert_eq!(freeze(&place, "description: a\nactor: mine\n", &[]).unwrap().asks, frozen.asks);
    let codex = freeze(&place, "description: a\nactor: codex\n", &[]).unwrap();
    assert!(codex.asks.contains(&"the network".to_owned()), "{:?}", codex.asks);
    assert!(codex.asking.iter().all(|file| file.ends_with("actions/a.yaml")), "{:?}", codex.asking);
    let inline = "description: a\nactor: {run: make, network: true}\n";
    assert_eq!(freeze(&place, inline, &[]).unwrap().asks, ["the network"]);
}

#[test]
fn a_task_in_words_is_no_template() {
    let library = Library::default();
    let surroundings =
        FreezeOptions { actor: Some(library.actor("codex").unwrap()), ..FreezeOptions::default() };
    let task = "\n  Replace {{name}} by \\{{x}}\nin all files\n";
    let frozen = freeze_actor(&library, task, &surroundings).unwrap();
    assert_eq!((frozen.title.as_str(), frozen.prompt.as_str()), ("Replace {{name}} by \\{{x}}", task));
    assert_eq!((frozen.action, frozen.fix.as_deref(), frozen.result.as_str()), (None, Some("main"), "main"));
    assert_eq!(frozen.sources.len(), 1);
    let command = frozen.steps[0].command().unwrap();
    assert_eq!(
        (command.stdin.clone(), command.expand, command.network),
        (Some("{{prompt}}".into()), true, true)
    );
    assert!(
        freeze_actor(
            &library,
            "x",
            &FreezeOptions { actor: Some(library.actor("coder").unwrap()), ..FreezeOptions::default() }
        )
        .unwrap()
        .misses_model
    );
}

#[test]
fn who_mends_is_the_only_node_that_is_told_the_brief() {
    let place = ProjectDir::new();
    let fix =
        |actor: &str| freeze(&place, &format!("description: a\nactor: {{{actor}}}\n"), &[]).unwrap().fix;
    assert_eq!(fix("run: make"), None);
    assert_eq!(fix("run: [x, '{{prompt}}']").as_deref(), Some("main"));
    assert_eq!(fix("model: default").as_deref(), Some("main"));
    assert_eq!(fix("nodes: {a: {model: default}, b: {run: make}}"), None);
    assert_eq!(fix("nodes: {a: {model: default}, b: {run: make}}, fix: a").as_deref(), Some("a"));
}

#[test]
fn who_mends_in_an_actor_made_of_others_is_who_mends_there_or_whom_it_names() {
    let place = ProjectDir::new();
    place.write("actors/plain", "model: default\n");
    place.write("actors/fixer", "nodes:\n  a: {run: make}\n  m: {model: default, needs: [a]}\nfix: m\n");
    place.write("actors/alias", "actor: fixer\n");
    place.write("actors/nobody", "nodes: {a: {model: default}, b: {run: make}}\n");
    let frozen = |actor: &str| freeze(&place, &format!("description: a\nactor: {{{actor}}}\n"), &[]);
    for (actor, fix) in [
        ("actor: plain", Some("main/main")),
        ("actor: fixer", Some("main/m")),
        ("actor: alias", Some("main/main/m")),
        ("actor: coder", Some("main/main")),
        ("actor: nobody", None),
        ("nodes: {deep: {actor: fixer}, b: {run: make}}", None),
        ("nodes: {deep: {actor: fixer}, b: {run: make}}, fix: deep", Some("deep/m")),
        ("nodes: {deep: {actor: alias}, b: {run: make}}, fix: deep/main", Some("deep/main/m")),
        ("nodes: {deep: {actor: nobody}, b: {run: make}}, fix: deep/a", Some("deep/a")),
    ] {
        let frozen = frozen(actor).unwrap();
        assert_eq!(frozen.fix.as_deref(), fix, "{actor}");
        assert!(fix.is_none_or(|fix| !matches!(step(&frozen, fix).does, NodeKind::Actor { .. })), "{actor}");
    }
    for (actor, words) in [
        (
            "nodes: {deep: {actor: nobody}}, fix: deep",
            "an actor without a `fix` of its own: name one of its nodes",
        ),
        ("nodes: {deep: {actor: nobody}}, fix: deep/x", "not a node; `deep` has a, b"),
        ("nodes: {deep: {actor: alias}}, fix: deep/mian", "did you mean `deep/main`?"),
        ("nodes: {a: {run: make}}, fix: a/x", "node `a` has no nodes: it is not an actor"),
    ] {
        let error = frozen(actor).unwrap_err().to_string();
        assert!(error.contains(words), "{actor}: {error}");
    }
}

#[test]
fn what_bounds_an_actor_bounds_each_of_its_nodes() {
    let place = ProjectDir::new();
    place.write(
        "actors/work",
        "nodes:\n  short: {run: x, timeout: 1m, retries: 0, ignore: [a]}\n  long: {run: x, timeout: 2h}\n  \
         none: {model: default}\n  wait: {tool: wait, with: {seconds: 1}}\n",
    );
    place.write("actors/outer", "nodes: {in: {actor: work, timeout: 3m}}\n");
    let text = "description: a\nactor:\n  nodes:\n    w: {actor: outer, timeout: 5m, retries: 2, ignore: ['*.log']}\n    \
                o: {actor: work, timeout: 5m}\n";
    let frozen = freeze(&place, text, &[]).unwrap();
    let of = |node: &str| {
        let step = step(&frozen, node);
        (step.ends_after_s(), step.retries, step.ignore.clone())
    };
    let log = || vec!["*.log".to_owned()];
    assert_eq!(of("w/in/short"), (Some(60), Some(0), vec!["a".to_owned(), "*.log".to_owned()]));
    assert_eq!(of("w/in/long"), (Some(180), Some(2), log()), "the nearer actor ends it earlier");
    assert_eq!(of("w/in/none"), (Some(180), Some(2), log()));
    assert_eq!(of("o/long"), (Some(300), None, Vec::new()));
}

#[test]
fn steps_come_after_what_they_need_and_else_in_the_order_of_the_file() {
    let place = ProjectDir::new();
    let text = "description: a\nactor:\n  nodes:\n    z: {run: a, needs: [b]}\n    y: {tool: wait, with: {seconds: 2000}}\n    \
                b: {run: [b, c], retries: 2, timeout: 5m}\n";
    let frozen = freeze(&place, text, &[]).unwrap();
    let names: Vec<&str> = frozen.steps.iter().map(|step| step.node.as_str()).collect();
    assert_eq!(
        (names, frozen.result.as_str()),
        (vec!["y", "b", "z"], "y"),
        "the last of the file that nobody needs"
    );
    assert_eq!((step(&frozen, "b").retries, step(&frozen, "b").ends_after_s()), (Some(2), Some(300)));
    assert_eq!(step(&frozen, "y").ends_after_s(), None, "a wait ends by itself");
}

#[test]
fn the_examples_of_the_repository_are_sound_and_small() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let library = Library::default();
    let mut seen = 0;
    for kind in ["actions", "actors"] {
        for entry in std::fs::read_dir(examples.join(kind)).unwrap() {
            let path = entry.unwrap().path();
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines < 15, "{}: {lines} lines", path.display());
            let frozen = match kind {
                "actions" => preview_action(&library, &library.action_file(&path).unwrap(), &with_model()),
                _ => preview_actor(&library, &library.actor_file(&path).unwrap(), &with_model()),
            };
            assert!(!frozen.unwrap().steps.is_empty());
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn the_example_codemod_is_frozen_as_it_is_written() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/actions/rename-symbol.yaml");
    let library = Library::default();
    let action = library.action_file(&path).unwrap();
    let args = [("from", "Foo"), ("to", "Bar")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    let frozen = freeze_action(&library, &action, &args, &FreezeOptions::default()).unwrap();
    assert_eq!(frozen.title, "Rename Foo to Bar in all Rust sources");
    assert!(frozen.asks.is_empty() && frozen.strategist.is_none());
    assert_eq!(frozen.invariants.len(), 2);
    assert!(frozen.invariants.iter().all(|one| one.scope == InvariantScope::Action && one.rule.is_some()));
    assert_eq!(frozen.validations[1].name, "no leftovers");
    let wrong =
        [("from", "Foo; rm -rf"), ("to", "Bar")].map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert!(freeze_action(&library, &action, &wrong, &FreezeOptions::default()).is_err());
}
