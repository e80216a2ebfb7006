//! The pager of long answers, in a pseudo-terminal, and colour in a pipe.

use super::support::TestUser;
use super::terminal::{CTRL_C, Left, Terminal};

/// Calls the program at a terminal with this pager.
fn paged(person: &TestUser, pager: &str, args: &[&str]) -> Left {
    let mut command = person.command(&person.project(), args);
    command.env("TERM", "xterm").env("AGENTS_PAGER", pager);
    Terminal::start(&command).ends()
}

#[test]
fn answers_that_list_or_show_go_through_the_pager_at_a_terminal() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo two >> a.txt");
    for args in [&["diff"][..], &["list"], &["logs"], &["plan", "errors"], &["plan", "tree"]] {
        let left = paged(&person, "sed 's/^/|/'", args);
        assert_eq!(left.exit, Some(0), "{left:?}");
        let lines: Vec<&str> = left.text.lines().filter(|line| !line.trim().is_empty()).collect();
        let is_paged = |line: &&&str| line.starts_with('|');
        assert!(lines.iter().filter(is_paged).count() > 0, "{args:?} {left:?}");
        let left = paged(&person, "sed 's/^/|/'", &[args, &["--no-pager"]].concat());
        assert!(!left.text.contains('|'), "{args:?} {left:?}");
    }
    let left = paged(&person, "sed 's/^/|/'", &["status"]);
    assert!(!left.text.lines().any(|line| line.starts_with('|')), "only what lists or shows: {left:?}");
    let piped = person.command(&person.project(), &["diff"]).env("AGENTS_PAGER", "false").output().unwrap();
    assert!(String::from_utf8_lossy(&piped.stdout).contains("+two"), "nothing is paged in a pipe");
}

#[test]
fn the_pager_gets_our_colours_and_nothing_else_that_a_terminal_obeys() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("printf '\\033]0;owned\\007\\n' >> a.txt");
    let left = paged(&person, "cat -v", &["diff"]);
    assert!(left.text.contains("^[[32m  +\\x1B]0;owned\\x07^[[0m"), "{left:?}");
}

#[test]
fn a_pager_that_cannot_be_started_costs_nothing() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo two >> a.txt");
    let left = paged(&person, "no-such-pager", &["diff"]);
    assert!(left.exit == Some(0) && left.text.contains("+two"), "{left:?}");
    assert_eq!(person.agents(&["config", "set", "output.pager=no-such-pager,-x"]).exit, 0);
    let mut command = person.command(&person.project(), &["diff"]);
    command.env("TERM", "xterm").env_remove("AGENTS_PAGER");
    let left = Terminal::start(&command).ends();
    assert!(left.exit == Some(0) && left.text.contains("+two"), "{left:?}");
}

#[test]
fn ctrl_c_is_for_the_pager_and_the_program_waits_for_it() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo two >> a.txt");
    let mut command = person.command(&person.project(), &["diff"]);
    // A shell runs a trap between two commands, however early the signal comes.
    let pager = "trap 'echo heard; exit 0' INT; echo ready; while :; do :; done";
    command.env("TERM", "xterm").env("AGENTS_PAGER", pager);
    let mut terminal = Terminal::start(&command);
    terminal.sees("ready");
    terminal.types(CTRL_C);
    terminal.sees("heard");
    assert_eq!(terminal.ends().exit, Some(0));
}

#[test]
fn colour_that_is_wanted_always_is_in_a_pipe_too() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo two >> a.txt");
    let diff = person.agents(&["diff", "--color", "always"]).stdout;
    assert!(diff.contains("\x1b[32m  +two\x1b[0m") && diff.contains("a.txt#1"), "{diff:?}");
    assert!(!person.agents(&["diff"]).stdout.contains('\x1b'));
}
