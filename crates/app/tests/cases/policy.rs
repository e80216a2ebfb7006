//! The prohibitions that always hold: denied tools, and protected paths.

use std::fs;

use serde_json::{Value, json};

use super::model_world::{ModelFixture, ScriptedTurn, Wire, calls, says};
use super::support::TestUser;

fn settings(person: &TestUser, lines: &str) {
    let file = person.config_file();
    let before = fs::read_to_string(&file).unwrap_or_default();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, format!("{lines}\n{before}")).unwrap();
}

fn world(turns: &[ScriptedTurn], lines: &str) -> ModelFixture {
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(turns), "retries: 0\n");
    settings(&world.person, lines);
    world
}

fn offered(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// What the model was told of its last calls.
fn told(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_denied_tool_is_not_offered_and_refused_with_its_code() {
    let turns = [
        calls([
            ("run_command", json!({"command": "touch made"})),
            ("read_file", json!({"path": "price.sh"})),
        ]),
        says("I may not."),
    ];
    let world = world(&turns, "policy.deny_tools = [\"shell\"]");
    world.person.write(".cleveragents/config.toml", "policy.deny_tools = [\"delete_file\"]\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let names = offered(&world.server.asked().body);
    assert!(names.contains(&"read_file".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name == "run_command" || name == "delete_file"), "{names:?}");
    let results = told(&world.server.asked().body);
    assert!(
        results[0]
            .starts_with("error: NOT_ALLOWED: run_command is not allowed: `policy.deny_tools` names `shell`"),
        "{results:?}"
    );
    assert!(results[1].contains("total()"), "{results:?}");
    let logs = world.person.json(&["plan", "logs", "@last"]).envelope().to_string();
    assert!(logs.contains("NOT_ALLOWED"), "the refused call is kept: {logs}");
    assert_eq!(world.person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "");
}

#[test]
fn a_step_that_is_a_denied_tool_is_found_before_anything_runs() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    let refused = |words: &[&str], parts: &[&str]| {
        let said = person.json(words);
        assert_eq!((said.exit, said.code().as_str()), (4, "PREFLIGHT_FAILED"), "{said:?}");
        let told = said.envelope()["messages"].to_string();
        for part in parts {
            assert!(told.contains(part), "{part}: {told}");
        }
    };
    // A project may deny; that of another level stays denied.
    person.write(".cleveragents/config.toml", "policy.deny_tools = [\"run_command\"]\n");
    refused(&["run", "--", "touch", "made"], &["NOT_ALLOWED: run_command", "policy.deny_tools"]);
    settings(&person, "policy.deny_tools = [\"edit_file\"]");
    person.write(".cleveragents/config.toml", "policy.deny_tools = []\n");
    let edits = "nodes:\n  one: {tool: edit_file, with: {path: a.txt, old: one, new: two}}\n";
    person.write(".cleveragents/actors/edits.yaml", edits);
    refused(&["run", "edit it", "--actor", "edits"], &["step one: NOT_ALLOWED: edit_file"]);
    person.write(".cleveragents/config.toml", "policy.deny_tools = [\"run_comand\"]\n");
    refused(&["run", "--", "true"], &["would deny nothing", "did you mean `run_command`?"]);
    assert_eq!(person.json(&["plan", "list"]).data()["total"], 0);
}

#[test]
fn a_protected_path_is_refused_to_tools_and_left_out_of_what_commands_change() {
    let turns = [
        calls([
            ("write_file", json!({"path": "keys/new", "content": "x"})),
            ("read_file", json!({"path": "keys/old"})),
            ("edit_file", json!({"path": "keys/old", "old": "secret", "new": "x"})),
            ("delete_file", json!({"path": "keys", "recursive": true})),
            ("move_file", json!({"from": "price.sh", "to": "keys/price.sh"})),
            ("move_file", json!({"from": "lib", "to": "vendor"})),
            ("run_command", json!({"command": "echo x > keys/old; echo x > made"})),
        ]),
        says("I tried."),
    ];
    let world = world(&turns, "paths.protected = [\"keys/\"]");
    let person = &world.person;
    // What a project says adds to it; to take something back is not heeded.
    person.write(".cleveragents/config.toml", "paths.protected = [\"!keys/\", \"vendor/kept\"]\n");
    person.write("keys/old", "secret\n");
    person.write("lib/kept", "kept\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let _first = world.server.asked();
    let results = told(&world.server.asked().body);
    for (at, path) in
        [(0, "keys/new"), (2, "keys/old"), (3, "keys"), (4, "keys/price.sh"), (5, "vendor/kept")]
    {
        let expected = format!("error: PROTECTED_PATH: {path} is protected");
        assert!(results[at].starts_with(&expected), "{at}: {}", results[at]);
    }
    assert!(results[1].contains("secret"), "it may be read: {}", results[1]);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "made\n");
    let stat = person.agents(&["plan", "diff", "@last", "--stat"]).stdout;
    assert!(stat.contains("1 protected"), "{stat}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("keys/old"), "secret\n");
}

#[test]
fn a_step_that_writes_a_protected_path_fails_with_its_code() {
    let person = TestUser::new();
    settings(&person, "paths.protected = [\"*.lock\"]");
    person.write("made/a.lock", "one\n");
    let writes = "nodes:\n  one: {tool: write, with: {path: made/a.lock, text: two}}\n";
    person.write(".cleveragents/actors/writes.yaml", writes);
    let said = person.json(&["run", "write it", "--actor", "writes"]);
    assert_eq!(said.exit, 6, "{said:?}");
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    assert!(errors.contains("PROTECTED_PATH: made/a.lock is protected"), "{errors}");
}
