//! What is seen of a plan while it works: at the terminal, by `plan watch` and by `plan logs --follow`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use serde_json::json;

use super::model_world::{ModelFixture, Wire, calls, says};
use super::support::TestUser;
use super::terminal::Terminal;

/// A command that prints, also what a terminal would obey, and goes on when `go` says so.
const SCRIPT: &str = "printf 'h\\033]0;owned\\007ot\\n'; echo made > made; echo re''ady; while test \"$(cat go)\" = hold; do sleep 0.05; done; echo fin''ished";

fn person_with_a_gate() -> TestUser {
    let person = TestUser::new();
    person.write("go", "hold\n");
    person
}

#[test]
fn the_last_lines_of_a_running_command_are_shown_and_none_is_obeyed() {
    let person = person_with_a_gate();
    let terminal = Terminal::call(&person, &["run", "--", "sh", "-c", SCRIPT]);
    terminal.sees("  runs sh -c");
    terminal.sees("  | ready");
    person.write("go", "go\n");
    let left = terminal.ends();
    assert_eq!((left.exit, left.is_restored), (Some(0), true), "{left:?}");
    assert!(left.text.contains("| h\\x1B]0;owned\\x07ot") && !left.text.contains("\x1b]0;"), "{left:?}");
    let after = left.text.rsplit("\x1b[2K").next().unwrap();
    assert!(after.contains("plan ") && !after.contains("| ready"), "the block is gone: {left:?}");
}

/// Starts a plan in another process, and waits until its command has printed its line.
fn running(person: &TestUser) -> Child {
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-c", SCRIPT]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("ready\n") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child
}

#[test]
fn a_plan_of_another_process_is_watched_in_plain_words_with_its_last_lines() {
    let person = person_with_a_gate();
    let mut child = running(&person);
    let terminal = Terminal::call(&person, &["plan", "watch"]);
    terminal.sees("  | ready");
    let status = person.agents(&["plan", "status"]).stdout;
    assert!(
        status.contains("  execute     running ") && status.contains(" s"),
        "it tells the time: {status}"
    );
    let does = person.json(&["top"]).data()["plans"][0]["step"]["does"].clone();
    assert!(does.as_str().unwrap().starts_with("runs sh -c "), "{does}");
    person.write("go", "go\n");
    let left = terminal.ends();
    assert_eq!(left.exit, Some(0), "{left:?}");
    assert!(left.text.contains("\x1b[32mdone\x1b[0m"), "with colour: {left:?}");
    assert!(child.wait().unwrap().success());
    let text = person.agents(&["plan", "watch"]).stdout;
    for words in ["  made: sh -c", "  starts\n", "  runs sh -c", "  done\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("execute/") && !text.contains("decision 1"), "{text}");
}

#[test]
fn logs_are_followed_until_the_plan_ends() {
    let person = person_with_a_gate();
    let mut child = running(&person);
    let mut command = person.command(&person.project(), &["plan", "logs", "--follow"]);
    let mut logs = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(logs.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("ready\n") {
        assert!(out.read_line(&mut seen).unwrap() > 0, "it ended: {seen}");
    }
    assert!(seen.starts_with("== call 1  execute  run_command sh -c"), "{seen}");
    person.write("go", "go\n");
    out.read_to_string(&mut seen).unwrap();
    assert!(logs.wait().unwrap().success() && child.wait().unwrap().success());
    assert!(seen.ends_with("ready\nfinished\n"), "{seen}");
    assert_eq!((seen.matches("ready\n").count(), seen.matches("== call").count()), (1, 1), "once: {seen}");
    // A plan that rests is printed and not waited for.
    let again = person.agents(&["plan", "logs", "-f"]);
    assert!(
        again.stdout.ends_with("ready\nfinished\n") && again.stderr.ends_with(" is ready\n"),
        "{again:?}"
    );
}

#[test]
fn each_call_of_a_model_is_told_and_its_last_words_are_shown() {
    let turns = [
        calls([("read_file", json!({"path": "price.sh"}))]),
        calls([("write_file", json!({"path": "new.txt", "content": "one\n"}))]),
        calls([("run_command", json!({"command": "exit 3"}))]),
        says("I made new.txt.\nNothing else."),
    ];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.agents(&["run", "Make it", "--actor", "mender"]);
    assert_eq!(said.exit, 0, "{said:?}");
    for words in [": reads price.sh\n", ": writes new.txt", ": runs exit 3"] {
        assert!(said.stderr.contains(words), "{words}: {said:?}");
    }
    assert!(
        said.stdout.contains("\n\nI made new.txt.\nNothing else.\n\nnext  agents plan diff "),
        "{said:?}"
    );
    let watched = world.person.agents(&["plan", "watch"]).stdout;
    assert!(watched.contains("  asks scripted/m-1\n") && watched.contains("  reads price.sh\n"), "{watched}");
}
