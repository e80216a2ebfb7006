//! A git that stops working amid `apply --commit`, when the files are written and the ref is to be moved.

use std::process::Command;

use super::support::{CommandOutput, TestUser, answer};

/// A person with a commit, and a plan that edits a file, makes one and removes one.
fn person_with_plan() -> (TestUser, String) {
    let person = TestUser::new();
    person.write("edited", "old\n");
    person.write("removed", "there\n");
    person.git(&["add", "."]);
    person.git(&["commit", "-q", "-m", "first"]);
    let plan = person.plan("echo new > edited; echo made > made; rm removed");
    (person, plan)
}

/// `plan apply --commit` of the plan.
fn apply_command(person: &TestUser, plan: &str) -> Command {
    let words = ["plan", "apply", plan, "--yes", "--commit", "-m", "second"];
    let mut command = person.command(&person.project(), &words);
    for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command.env(format!("{name}_NAME"), "t").env(format!("{name}_EMAIL"), "t@example.com");
    }
    command
}

/// The same with a git that works no more from the moment that it is to move a ref: before it has moved it,
/// or after.
fn apply_with_git_that_breaks(person: &TestUser, plan: &str, is_ref_moved: bool) -> CommandOutput {
    let broken = person.project().join(".git/broken").display().to_string();
    let then = if is_ref_moved { "true" } else { "fail" };
    // Within its walls it starts no process, so the place of the real one is written into it.
    let real = Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout;
    let real = String::from_utf8(real).unwrap();
    let script = format!(
        "#!/bin/sh\n\
         fail() {{ echo 'fatal: the disk is on fire' >&2; exit 128; }}\n\
         [ \"$*\" = --exec-path ] && exit 1\n\
         [ -e {broken} ] && fail\n\
         case \"$*\" in *' update-ref '*) : > {broken}; {then};; esac\n\
         exec {} \"$@\"\n",
        real.trim()
    );
    person.write_home("bin/git", &script);
    let path = format!("{}/bin:{}", person.home().display(), std::env::var("PATH").unwrap());
    let said = answer(apply_command(person, plan).env("PATH", path));
    std::fs::remove_file(person.project().join(".git/broken")).unwrap();
    said
}

fn is_old(person: &TestUser) -> bool {
    let there = |path: &str| person.project().join(path).exists();
    person.read("edited") == "old\n" && there("removed") && !there("made")
}

fn assert_applied(person: &TestUser) {
    assert_eq!(person.read("edited"), "new\n");
    assert_eq!(person.git(&["log", "--format=%s"]), "second\nfirst\n");
    assert_eq!(person.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_commit_whose_ref_git_does_not_move_is_rolled_back_at_once() {
    let (person, plan) = person_with_plan();
    let said = apply_with_git_that_breaks(&person, &plan, false);
    assert_eq!(said.exit, 6, "{said:?}");
    assert!(is_old(&person), "{said:?}");
    assert!(said.stderr.contains("the disk is on fire") && said.stderr.contains("rolled back"), "{said:?}");
    assert!(!said.stderr.contains("nothing was written"), "{said:?}");
    assert_eq!(person.git(&["log", "--format=%s"]), "first\n");
    assert_eq!(person.git(&["status", "--porcelain"]), "");
    let said = answer(&mut apply_command(&person, &plan));
    assert_eq!(said.exit, 0, "{said:?}");
    assert_applied(&person);
}

#[test]
fn a_commit_that_cannot_be_rolled_back_says_so_and_the_next_command_does_it() {
    let (person, plan) = person_with_plan();
    let said = apply_with_git_that_breaks(&person, &plan, true);
    assert!(said.stderr.contains("error[JOURNAL_STUCK]") && !is_old(&person), "{said:?}");
    assert!(!said.stderr.contains("nothing was written"), "{said:?}");
    assert!(said.stderr.contains("can be neither finished nor rolled back"), "{said:?}");
    let said = person.agents(&["plan", "status", &plan]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(is_old(&person), "{said:?}");
    assert_eq!(person.git(&["log", "--format=%s"]), "first\n");
    assert_eq!(person.git(&["status", "--porcelain"]), "");
    let said = answer(&mut apply_command(&person, &plan));
    assert_eq!(said.exit, 0, "{said:?}");
    assert_applied(&person);
}
