//! Actions and actors from the command line: found by name, checked with places, run with arguments.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use super::support::{CommandOutput, TestUser};

const RENAME: &str = include_str!("../../../../examples/actions/rename-symbol.yaml");

/// The example codemod without the check that needs a Rust project.
fn person_with_rename() -> TestUser {
    let person = TestUser::new();
    let action = RENAME.replace("  - cargo check --all-targets\n", "");
    assert_ne!(action, RENAME);
    person.write(".cleveragents/actions/rename-symbol.yaml", &action);
    person.write("src/lib.rs", "struct Foo;\nimpl Foo {}\nstruct Food;\n");
    person.write("notes.txt", "Foo\n");
    person
}

#[test]
fn an_action_is_run_by_its_name_with_arguments() {
    let person = person_with_rename();
    let said = person.json(&["run", "rename-symbol", "--arg", "from=Foo", "--arg", "to=Bar"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(said.data()["title"], json!("Rename Foo to Bar in all Rust sources"));
    assert_eq!(said.data()["validations"]["passed"], json!(3), "{said:?}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("src/lib.rs"), "struct Bar;\nimpl Bar {}\nstruct Food;\n");
    assert_eq!(person.read("notes.txt"), "Foo\n");
}

#[test]
fn an_action_that_was_edited_after_its_plan_was_made_does_not_touch_the_plan() {
    let person = person_with_rename();
    let made = person.json(&["plan", "use", "rename-symbol", "--arg", "from=Foo", "--arg", "to=Bar"]);
    assert_eq!(made.exit, 0, "{made:?}");
    person.write(".cleveragents/actions/rename-symbol.yaml", "description: a\nactor: {run: rm -r src}\n");
    assert_eq!(person.json(&["plan", "execute", "@last"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("src/lib.rs"), "struct Bar;\nimpl Bar {}\nstruct Food;\n");
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_stored() {
    let person = person_with_rename();
    let run = |args: &[&str]| person.json(&[&["run", "rename-symbol"][..], args].concat());
    for (args, code) in [
        (&["--arg", "from=Foo"][..], "ARG_MISSING"),
        (&["--arg", "from=Foo", "--arg", "to=B", "--arg", "form=x"], "ARG_UNKNOWN"),
        (&["--arg", "from=$(touch x)", "--arg", "to=B"], "ARG_INVALID"),
        (&["--arg", "from=a", "--arg", "from=b", "--arg", "to=B"], "ARG_INVALID"),
    ] {
        let said = run(args);
        assert_eq!((said.exit, said.code().as_str()), (2, code), "{args:?}: {said:?}");
    }
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

#[test]
fn a_word_is_an_action_a_file_or_a_task_and_never_guessed() {
    let person = TestUser::new();
    let code = |said: &CommandOutput| (said.exit, said.code());
    let said = person.json(&["run", "make"]);
    assert_eq!(code(&said), (3, "ACTION_NOT_FOUND".to_owned()), "{said:?}");
    let hints = said.envelope()["messages"][0]["suggestions"].to_string();
    assert!(hints.contains("agents run -- make"), "{hints}");
    let said = person.json(&["run", "none.yaml"]);
    assert_eq!(code(&said), (3, "ACTION_NOT_FOUND".to_owned()), "{said:?}");
    let mut command = person.command(&person.project(), &["run", "add a --json flag", "--format", "json"]);
    let said = super::support::answer(command.env("PATH", "/usr/bin:/bin").env("OLLAMA_HOST", "127.0.0.1:1"));
    assert_eq!(code(&said), (2, "NO_ACTOR".to_owned()), "{said:?}");
    let said = person.json(&["run", "do it", "--actor", "nobody"]);
    assert_eq!(code(&said), (3, "ACTOR_NOT_FOUND".to_owned()), "{said:?}");
    let said = person.json(&["run", "do it", "--actor", "coder"]);
    assert_eq!(code(&said), (4, "PREFLIGHT_FAILED".to_owned()), "no model is set: {said:?}");
    let said = person.json(&["run", "word", "--", "true"]);
    assert_eq!(code(&said), (2, "USAGE".to_owned()), "{said:?}");
    let said = person.json(&["run", "do it", "--actor", "codex", "--arg", "a=b"]);
    assert_eq!(code(&said), (2, "ARG_UNKNOWN".to_owned()), "{said:?}");
}

#[test]
fn a_task_from_the_standard_input_is_a_task() {
    let person = TestUser::new();
    person.write(".cleveragents/actors/worker.yaml", "run: echo done > made\n");
    let mut command =
        person.command(&person.project(), &["run", "-", "--actor", "worker", "--format", "json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"Make the file\nand more\n").unwrap();
    let said = CommandOutput::of(&child.wait_with_output().unwrap());
    assert_eq!((said.exit, &said.data()["title"]), (0, &json!("Make the file")), "{said:?}");
    let said = person.json(&["run", "-", "--actor", "worker"]);
    assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "an empty input says nothing: {said:?}");
}

#[test]
fn a_projects_definition_gets_no_more_than_its_user_allows() {
    let person = TestUser::new();
    let actor = "run: test -z \"$KEY\" || echo $KEY > made\npass_env: [KEY]\n";
    person.write(".cleveragents/actors/wants.yaml", actor);
    let run = |words: &[&str]| {
        let mut command =
            person.command(&person.project(), &[&["run", "--format", "json"][..], words].concat());
        super::support::answer(command.env("KEY", "secret-of-mine"))
    };
    for words in [&["a task", "--actor", "wants"][..], &["--actor", ".cleveragents/actors/wants.yaml"]] {
        let said = run(words);
        assert_eq!((said.exit, said.code()), (6, "CONSENT_NEEDED".to_owned()), "{said:?}");
    }
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0), "nothing ran");
    let said = run(&["a task", "--actor", "wants", "--trust"]);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(1)), "{said:?}");
    fs::create_dir_all(person.home().join(".config/cleveragents/actors")).unwrap();
    fs::write(person.home().join(".config/cleveragents/actors/mine.yaml"), actor).unwrap();
    assert_eq!(run(&["a task", "--actor", "mine"]).exit, 0, "the user's own needs no yes");
}

#[test]
fn checking_tells_all_faults_with_their_places() {
    let person = TestUser::new();
    person.write(".cleveragents/actors/good.yaml", "run: make\n");
    person.write(".cleveragents/actors/bad.yaml", "nodes:\n  a: {run: x, nedes: [b]}\n  b: {tol: read}\n");
    let said = person.agents(&["actor", "check", "good"]);
    assert!(said.exit == 0 && said.stdout.starts_with("good: ok"), "{said:?}");
    let said = person.agents(&["actor", "check", "bad"]);
    assert_eq!(said.exit, 2, "{said:?}");
    for words in [
        "error[DEFINITION_INVALID]",
        "bad.yaml:2:15: ",
        "did you mean `needs`?",
        "bad.yaml:3:6: ",
        "did you mean `tool`?",
    ] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
    let said = person.json(&["actor", "check"]);
    let findings = said.data()["findings"].as_array().unwrap().clone();
    assert!(said.exit == 2 && findings.len() == 3, "{said:?}");
    assert_eq!((&findings[0]["line"], &findings[0]["column"]), (&json!(2), &json!(15)));
    let sound = said.data()["sound"].as_array().unwrap().len();
    assert_eq!(sound, 8, "the built-in ones and the good one");
    let said = person.json(&["action", "check", "none"]);
    assert_eq!((said.exit, said.code()), (3, "ACTION_NOT_FOUND".to_owned()), "{said:?}");
}

#[test]
fn lists_show_what_is_hidden_and_what_is_not_sound() {
    let person = person_with_rename();
    person.write(".cleveragents/actors/codex.yaml", "run: my-codex\n");
    let own = person.home().join(".config/cleveragents/actors");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("codex.yaml"), "run: my-codex\n").unwrap();
    let said = person.json(&["actor", "list"]);
    let lines = said.data()["actors"].as_array().unwrap().clone();
    let codex: Vec<_> = lines.iter().filter(|line| line["name"] == "codex").collect();
    assert_eq!(
        codex.iter().map(|line| (&line["origin"], &line["hidden_by"])).collect::<Vec<_>>(),
        [(&json!("user"), &json!(null)), (&json!("built in"), &json!("user"))]
    );
    assert!(
        lines.iter().any(|line| line["name"] == "project:codex" && line["hidden_by"].is_null()),
        "{lines:?}"
    );
    let text = person.agents(&["actor", "list"]).stdout;
    assert!(text.contains("hidden by the one of the user"), "{text}");
    let text = person.agents(&["action", "list"]).stdout;
    assert!(text.contains("rename-symbol  project  Rename {{from}} to {{to}}"), "{text}");
    assert!(TestUser::new().agents(&["action", "list"]).stdout.contains("there is no action yet"));
}

#[test]
fn showing_prints_what_is_understood() {
    let person = person_with_rename();
    let said = person.agents(&["action", "show", "rename-symbol"]);
    assert_eq!(said.exit, 0, "{said:?}");
    for words in
        ["# rename-symbol of the project", "pattern:", "read_only: false", "mode: required", "max_files: 200"]
    {
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
    }
    let said = person.json(&["actor", "show", "coder"]);
    let node = &said.data()["definition"]["nodes"]["main"];
    assert_eq!(
        (&node["model"], &node["max_turns"], &node["timeout"]),
        (&json!("default"), &json!(250), &json!("4h"))
    );
    assert_eq!(person.agents(&["config", "set", "model.default=ollama/small"]).exit, 0);
    let said = person.json(&["actor", "show", "coder"]);
    assert_eq!(said.data()["definition"]["nodes"]["main"]["model"], json!("ollama/small"));
}
