//! The standard input of a command: given with `--stdin`, stored with the plan, bounded.

use std::io::Write;
use std::process::{Command, Stdio};

use super::support::{CommandOutput, TestUser};

fn with_input(command: &mut Command, input: &[u8]) -> CommandOutput {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    CommandOutput::of(&child.wait_with_output().unwrap())
}

#[test]
fn a_command_reads_what_was_piped_and_reads_it_again_when_it_is_run_again() {
    let person = TestUser::new();
    let run = ["run", "--stdin", "--format", "json", "--", "sh", "-ec", "cat > got"];
    let input = b"diff --git\n\xff\xfe \0 end";
    let ran = with_input(&mut person.command(&person.project(), &run), input);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let plan = ran.data()["plan_id"].as_str().unwrap().to_owned();
    assert_eq!(person.agents(&["plan", "execute", &plan, "--again"]).exit, 0);
    assert_eq!(person.agents(&["apply", &plan, "--yes"]).exit, 0);
    assert_eq!(std::fs::read(person.project().join("got")).unwrap(), input);
}

#[test]
fn an_input_is_not_read_unless_it_is_asked_for_and_is_bounded() {
    let person = TestUser::new();
    let run = ["run", "--format", "json", "--", "sh", "-ec", "cat > got; test ! -s got"];
    let ran = with_input(&mut person.command(&person.project(), &run), b"text");
    assert_eq!(ran.exit, 0, "without `--stdin` a command reads nothing: {ran:?}");
    let run = ["run", "--stdin", "--format", "json", "--", "cat"];
    let ran = with_input(&mut person.command(&person.project(), &run), &vec![b'x'; 1024 * 1024 + 1]);
    assert_eq!((ran.exit, ran.code().as_str()), (2, "USAGE"), "{ran:?}");
    let without = person.json(&["run", "--stdin", "fix it"]);
    assert_eq!((without.exit, without.code().as_str()), (2, "USAGE"), "{without:?}");
}
