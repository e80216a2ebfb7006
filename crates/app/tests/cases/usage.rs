//! Help, version, usage and formats.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::{TestUser, answer};

#[test]
fn without_a_word_the_three_most_useful_commands_are_shown() {
    let said = TestUser::new().agents::<&str>(&[]);
    assert_eq!((said.exit, said.stderr.as_str()), (0, ""));
    for command in ["agents run -- COMMAND", "agents diff", "agents apply", "agents --help"] {
        assert!(said.stdout.contains(command), "{command}");
    }
    assert!(said.stdout.lines().count() <= 10);
}

#[test]
fn version_and_help_touch_nothing() {
    let person = TestUser::new();
    let before = person.home().read_dir().unwrap().count();
    let version = person.agents(&["--version"]);
    assert_eq!((version.exit, version.stdout), (0, format!("agents {}\n", env!("CARGO_PKG_VERSION"))));
    let help = person.agents(&["plan", "apply", "--help"]);
    assert_eq!(help.exit, 0);
    assert!(help.stdout.contains("--reject"));
    assert_eq!(person.home().read_dir().unwrap().count(), before);
}

#[test]
fn a_wrong_word_is_told_with_what_was_meant() {
    let person = TestUser::new();
    let said = person.agents(&["plan", "aply"]);
    assert_eq!((said.exit, said.stdout.as_str()), (2, ""));
    assert!(said.stderr.starts_with("error[USAGE]: there is no command 'aply'\n"), "{}", said.stderr);
    assert!(said.stderr.contains("hint: did you mean `agents plan apply`?"), "{}", said.stderr);
}

#[test]
fn usage_is_told_in_the_format_that_was_asked_for() {
    let person = TestUser::new();
    let said = person.agents(&["plan", "aply", "--format", "json"]);
    assert_eq!((said.exit, said.stderr.as_str()), (2, ""));
    let envelope = said.envelope();
    assert_eq!(envelope["status"], "usage");
    assert_eq!(envelope["exit_code"], 2);
    assert_eq!(said.code(), "USAGE");
    let yaml = person.agents(&["--format=yaml", "plan", "aply"]);
    assert_eq!(yaml.exit, 2);
    assert!(yaml.stdout.contains("status: usage"), "{}", yaml.stdout);
}

#[test]
fn an_envelope_has_seven_keys_whatever_happened() {
    let person = TestUser::new();
    for (args, exit) in [(vec!["config", "list"], 0), (vec!["config", "get", "no.such"], 2)] {
        let said = person.json(&args);
        assert_eq!((said.exit, said.stderr.as_str()), (exit, ""));
        let Value::Object(envelope) = said.envelope() else { panic!("{said:?}") };
        let keys: Vec<&str> = envelope.keys().map(String::as_str).collect();
        let mut expected = ["v", "command", "status", "exit_code", "data", "timing", "messages"];
        expected.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
        assert!(envelope["timing"]["started"].as_str().unwrap().ends_with('Z'));
        assert!(envelope["timing"]["duration_ms"].is_u64());
    }
}

#[test]
fn yaml_is_the_same_envelope() {
    let person = TestUser::new();
    let said = person.agents(&["config", "get", "plan.concurrency", "--format", "yaml"]);
    assert_eq!(said.exit, 0);
    for line in ["command: config get", "status: ok", "exit_code: 0", "  key: plan.concurrency", "  value: 4"]
    {
        assert!(said.stdout.lines().any(|found| found == line), "{line}: {}", said.stdout);
    }
}

#[test]
fn the_format_can_be_chosen_by_a_variable() {
    let person = TestUser::new();
    let mut command = person.command(&person.project(), &["config", "get", "plan.concurrency"]);
    let said = answer(command.env("CLEVERAGENTS_FORMAT", "json"));
    assert_eq!(said.data()["value"], json!(4));
    let said = answer(command.env("CLEVERAGENTS_FORMAT", "xml"));
    assert_eq!(said.exit, 2);
}

#[test]
fn a_reader_that_goes_away_early_is_no_error() {
    let person = TestUser::new();
    let mut command = person.command(&person.project(), &["config", "list"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_command_without_two_dashes_is_shown_how_it_goes() {
    let said = TestUser::new().agents(&["run", "make"]);
    assert_eq!(said.exit, 3, "a word is the name of an action: {said:?}");
    assert!(
        said.stderr.contains("hint: a command goes after `--`, like `agents run -- make`"),
        "{}",
        said.stderr
    );
    let said = TestUser::new().agents(&["run", "mend", "--actor", "codex"]);
    let hint =
        "hint: a task of one word is read from the standard input: `echo mend | agents run - --actor codex`";
    assert!(said.exit == 3 && said.stderr.contains(hint), "{}", said.stderr);
    assert!(!said.stderr.contains("agents run -- mend"), "{}", said.stderr);
    let said = TestUser::new().agents(&["run", "mend it", "--", "make", "-j"]);
    assert!(said.exit == 2 && said.stderr.contains("`agents run -- make …`"), "{}", said.stderr);
    assert!(!said.stderr.contains("agents run -- mend"), "{}", said.stderr);
    let said = TestUser::new().agents(&["run"]);
    assert_eq!(said.exit, 2);
    assert!(said.stderr.contains("no command was given"), "{}", said.stderr);
}

#[test]
fn no_colour_is_used_where_nobody_sees_it() {
    let said = TestUser::new().agents(&["config", "get", "no.such"]);
    assert!(!said.stderr.contains('\x1b'), "{}", said.stderr);
    let said = TestUser::new().agents(&["config", "get", "no.such", "--color", "always"]);
    assert!(said.stderr.contains('\x1b'), "{}", said.stderr);
}
