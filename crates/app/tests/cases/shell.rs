//! A shell in the sandbox of a finished plan, in a pseudo-terminal and without one.

use std::io::Write;
use std::process::Stdio;

use super::support::{CommandOutput, TestUser};
use super::terminal::Terminal;

#[test]
fn a_command_sees_the_changes_of_the_plan_and_its_own_are_recorded_as_the_persons() {
    let person = TestUser::new();
    person.write("a", "one\n");
    let plan = person.plan("echo two >> a; echo new > made");
    let ran = person.json(&[
        "plan",
        "shell",
        &plan,
        "--",
        "sh",
        "-ec",
        "grep two a; test -f made; echo mine >> a; rm made",
    ]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(ran.data()["changed"], serde_json::json!(["a", "made"]), "{ran:?}");
    assert_eq!(person.read("a"), "one\n", "your files are not touched");
    let files = person.json(&["diff", &plan]).data()["files"].clone();
    assert_eq!(files.as_array().unwrap().len(), 1, "{files}");
    assert_eq!(files[0]["calls"], serde_json::json!([1, 2]), "the second call is the person's: {files}");
    assert_eq!(person.agents(&["apply", &plan, "--yes"]).exit, 0);
    assert_eq!(person.read("a"), "one\ntwo\nmine\n");
    assert!(!person.project().join("made").exists());
    let late = person.json(&["plan", "shell", &plan, "--", "true"]);
    assert_eq!((late.exit, late.code().as_str()), (4, "PLAN_NOT_READY"), "{late:?}");
}

#[test]
fn a_command_that_changes_nothing_leaves_no_trace_and_its_status_is_told() {
    let person = TestUser::new();
    person.write("a", "one\n");
    let plan = person.plan("echo two >> a");
    let ran = person.agents(&["plan", "shell", &plan, "--", "sh", "-c", "cat a; echo oh >&2; exit 3"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(ran.stdout, "one\ntwo\noh\nthe command exited with 3: nothing changed\n", "{ran:?}");
    assert_eq!(person.json(&["logs", &plan]).data()["calls"].as_array().unwrap().len(), 1);
}

#[test]
fn a_check_does_not_count_for_what_was_changed_by_hand() {
    let person = TestUser::new();
    let run = person.json(&["run", "--check", "grep -q good a", "--", "sh", "-ec", "echo good > a"]);
    let plan = run.data()["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(person.agents(&["plan", "shell", &plan, "--", "sh", "-c", "echo bad > a"]).exit, 0);
    let refused = person.json(&["apply", &plan, "--yes"]);
    assert_eq!(refused.exit, 4, "{refused:?}");
    assert_eq!(refused.code(), "RECHECK_FAILED", "the check runs again, on what was changed: {refused:?}");
    assert!(!person.project().join("a").exists());
}

#[test]
fn the_shell_is_isolated_as_the_commands_of_the_plan_are() {
    let person = TestUser::new();
    let plan = person.plan("echo a > a");
    let outside = person.home().join("outside");
    let script = format!("echo x > {}; echo x > /etc/outside || echo refused", outside.display());
    let ran = person.agents(&["plan", "shell", &plan, "--", "sh", "-c", &script]);
    assert!(ran.stdout.contains("refused") && !outside.exists(), "{ran:?}");
}

#[test]
fn lines_from_a_pipe_are_typed_into_the_shell() {
    let person = TestUser::new();
    let plan = person.plan("echo a > a");
    let mut command = person.command(&person.project(), &["plan", "shell", &plan]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"cat a\necho b > b\n").unwrap();
    let ran = CommandOutput::of(&child.wait_with_output().unwrap());
    assert!(ran.exit == 0 && ran.stdout.starts_with("a\n"), "{ran:?}");
    assert!(ran.stdout.contains("1 changed file recorded as yours"), "{ran:?}");
}

#[test]
fn a_person_works_in_the_shell_at_a_terminal_and_gets_theirs_back() {
    let person = TestUser::new();
    let plan = person.plan("echo a > a");
    let mut command = person.command(&person.project(), &["plan", "shell", &plan]);
    command.env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut terminal = Terminal::start(&command);
    terminal.sees(") $ ");
    terminal.types("test -t 0 && echo at-a-$((1 + 1)) && stty size\r");
    terminal.sees("at-a-2");
    terminal.sees("40 160");
    terminal.types("echo by-hand >> a\r");
    terminal.types("exit\r");
    terminal.sees("1 changed file recorded as yours");
    let left = terminal.ends();
    assert!(left.exit == Some(0) && left.is_restored, "{left:?}");
}
