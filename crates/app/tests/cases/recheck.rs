//! Checks belong to a tree: a result is believed for the changes and the tree that it ran on, and for no
//! others.

use std::fs;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::support::{CommandOutput, TestUser, answer};

/// Fails where both files have the new word.
const NOT_BOTH: &str = "! (grep -q new a.txt && grep -q new b.txt)";

/// A project in which each of two edits is fine, and both together are not.
fn person() -> TestUser {
    let person = TestUser::new();
    person.write("a.txt", "old a\n");
    person.write("b.txt", "old b\n");
    person.write("c.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
    person
}

fn checked_plan(person: &TestUser, check: &str, script: &str) -> String {
    let answer = person.json(&["run", "--check", check, "--", "sh", "-ec", script]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer.data()["plan_id"].as_str().unwrap().to_owned()
}

fn apply(person: &TestUser, plan: &str, flags: &[&str]) -> CommandOutput {
    person.json(&[&["plan", "apply", plan, "--yes"], flags].concat())
}

fn checked_on(answer: &CommandOutput) -> String {
    assert_eq!(answer.exit, 0, "{answer:?}");
    answer.data()["checks_at_apply"]["on"].as_str().unwrap().to_owned()
}

fn reasons(answer: &CommandOutput, kind: &str) -> Vec<String> {
    let envelope = answer.envelope();
    let messages = envelope["messages"].as_array().unwrap();
    let reasons = messages.iter().filter_map(|message| message["detail"]["reasons"].as_array()).flatten();
    let of_kind = reasons.filter(|reason| reason["kind"] == kind);
    of_kind.map(|reason| reason["subject"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_plans_that_are_green_alone_and_red_together_do_not_both_land() {
    let person = person();
    let first = checked_plan(&person, NOT_BOTH, "echo new > a.txt");
    let second = checked_plan(&person, NOT_BOTH, "echo new > b.txt");
    assert_eq!(checked_on(&apply(&person, &first, &[])), "this_tree");
    let refused = apply(&person, &second, &[]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "RECHECK_FAILED"), "{refused:?}");
    assert_eq!(reasons(&refused, "recheck"), [NOT_BOTH]);
    assert_eq!(reasons(&refused, "moved"), ["a.txt"]);
    assert_eq!(reasons(&refused, "applied_meanwhile"), [first.as_str()]);
    assert_eq!(person.read("b.txt"), "old b\n");
    let told = person.agents(&["plan", "apply", &second, "--yes"]);
    assert!(told.stderr.contains("passed alone, fails on your present tree"), "{told:?}");
    // What ran is a call of the plan, and no part of its own verdict.
    let logs = person.agents(&["plan", "logs", &second]);
    assert!(logs.stdout.contains(&format!("recheck/{NOT_BOTH}")), "{logs:?}");
    let status = person.json(&["plan", "status", &second]).data();
    assert_eq!(
        (&status["state"], &status["validations"]["verdict"]),
        (&"constrained".into(), &"passed".into())
    );
    // On a tree without the first it is fine, though that tree has other times.
    assert_eq!(person.agents(&["plan", "undo", &first, "--yes"]).exit, 0);
    let applied = person.agents(&["plan", "apply", &second, "--yes"]);
    assert!(applied.stdout.contains("re-run on the merged tree, passed"), "{applied:?}");
    assert_eq!(person.read("b.txt"), "new\n");
}

#[test]
fn an_apply_without_a_recheck_is_recorded_and_shown() {
    let person = person();
    let first = checked_plan(&person, NOT_BOTH, "echo new > a.txt");
    let second = checked_plan(&person, NOT_BOTH, "echo new > b.txt");
    let applied = person.agents(&["plan", "apply", &first, "--yes"]);
    assert!(applied.stdout.contains("checks passed on this tree"), "{applied:?}");
    assert_eq!(checked_on(&apply(&person, &second, &["--no-recheck"])), "not_compared");
    let status = person.agents(&["plan", "status", &second]);
    assert!(status.stdout.contains("checks not compared with this tree"), "{status:?}");
    let status = person.json(&["plan", "status", &second]).data();
    assert_eq!(status["checks_at_apply"]["on"], "not_compared");
    let mut never = person.command(&person.project(), &["plan", "undo", &second, "--yes"]);
    assert_eq!(answer(&mut never).exit, 0);
    let mut never = person.command(&person.project(), &["plan", "apply", &second, "--yes"]);
    assert_eq!(answer(never.env("CLEVERAGENTS_APPLY_RECHECK", "never")).exit, 0);
}

#[test]
fn a_plan_that_was_undone_is_checked_again_on_the_tree_that_it_comes_back_to() {
    let person = person();
    let first = checked_plan(&person, NOT_BOTH, "echo new > a.txt");
    assert_eq!(apply(&person, &first, &[]).exit, 0);
    assert_eq!(person.agents(&["plan", "undo", &first, "--yes"]).exit, 0);
    person.write("b.txt", "new\n");
    let refused = apply(&person, &first, &[]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "RECHECK_FAILED"), "{refused:?}");
    assert_eq!(person.read("a.txt"), "old a\n");
    person.write("b.txt", "old\n");
    let again = apply(&person, &first, &[]);
    assert_eq!(checked_on(&again), "merged_tree");
    assert_eq!(again.data()["checks_at_apply"]["ran"][0]["outcome"], "passed");
}

#[test]
fn whatever_moved_in_the_tree_calls_for_a_recheck_and_what_git_ignores_does_not() {
    let person = person();
    person.write(".gitignore", "*.o\n");
    person.write("sub/d.txt", "d\n");
    person.write("sub/e.txt", "e\n");
    person.write("x.o", "1\n");
    fs::create_dir(person.project().join("out")).unwrap();
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "first"]);
    let of = |change: &dyn Fn()| {
        let plan = checked_plan(&person, "true", "date +%N > a.txt");
        change();
        let applied = apply(&person, &plan, &[]);
        let on = checked_on(&applied);
        assert_eq!(person.agents(&["plan", "undo", &plan, "--yes"]).exit, 0);
        on
    };
    let path = |name: &str| person.project().join(name);
    assert_eq!(of(&|| {}), "this_tree");
    assert_eq!(of(&|| person.write("x.o", "2\n")), "this_tree");
    assert_eq!(of(&|| drop(person.git(&["commit", "-q", "--allow-empty", "-m", "other"]))), "this_tree");
    assert_eq!(of(&|| person.write("sub/d.txt", "D\n")), "merged_tree");
    assert_eq!(of(&|| person.write("sub/new.txt", "n\n")), "merged_tree");
    assert_eq!(of(&|| fs::remove_file(path("sub/new.txt")).unwrap()), "merged_tree");
    // A removal hides behind nothing that came in its place.
    assert_eq!(
        of(&|| {
            fs::remove_file(path("sub/e.txt")).unwrap();
            person.write("sub/y.o", "1\n");
        }),
        "merged_tree"
    );
    assert_eq!(of(&|| fs::rename(path("sub"), path("moved")).unwrap()), "merged_tree");
    assert_eq!(of(&|| fs::remove_dir(path("out")).unwrap()), "merged_tree");
    assert_eq!(of(&|| std::os::unix::fs::symlink("a.txt", path("link")).unwrap()), "merged_tree");
    // Always is always.
    let plan = checked_plan(&person, "true", "echo always > a.txt");
    assert_eq!(checked_on(&apply(&person, &plan, &["--recheck"])), "merged_tree");
}

#[test]
fn a_part_of_a_plan_is_checked_by_itself() {
    let person = person();
    let check = "test \"$(grep -c new a.txt)\" = \"$(grep -c new b.txt)\"";
    let plan = checked_plan(&person, check, "echo new > a.txt; echo new > b.txt");
    let refused = apply(&person, &plan, &["--only", "a.txt"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "RECHECK_FAILED"), "{refused:?}");
    assert_eq!(person.read("a.txt"), "old a\n");
    assert_eq!(checked_on(&apply(&person, &plan, &[])), "this_tree");
}

#[test]
fn what_is_merged_with_an_edit_is_checked_as_it_will_be() {
    let person = person();
    let check = "! (grep -q ONE c.txt && grep -q NINE c.txt)";
    let plan = checked_plan(&person, check, "sed -i s/one/ONE/ c.txt");
    person.write("c.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nNINE\n");
    let refused = apply(&person, &plan, &[]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "RECHECK_FAILED"), "{refused:?}");
    person.write("c.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nninety\n");
    assert_eq!(checked_on(&apply(&person, &plan, &[])), "merged_tree");
    assert_eq!(person.read("c.txt"), "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nninety\n");
}

#[test]
fn a_run_that_applies_by_itself_is_checked_on_the_tree_that_it_comes_to() {
    let person = person();
    // The tree moves while the plan works: its own check does not see that for certain.
    person.write("trigger", "hold 0\n");
    let check = format!("({NOT_BOTH}) && sh hold.sh");
    person.write("hold.sh", HOLD);
    let args =
        ["run", "--apply", "--check", &check, "--format", "json", "--", "sh", "-c", "echo new > b.txt"];
    let mut command = person.command(&person.project(), &args);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let plan = wait_for(|| {
        let plans = person.json(&["plan", "list"]).data();
        plans["plans"][0]["plan_id"].as_str().map(str::to_owned)
    });
    wait_for(|| person.agents(&["plan", "logs", &plan]).stdout.contains("held").then_some(()));
    person.write("a.txt", "new\n");
    person.write("trigger", "go\n");
    let ended = CommandOutput::of(&run.wait_with_output().unwrap());
    assert_eq!((ended.exit, ended.code().as_str()), (4, "RECHECK_FAILED"), "{ended:?}");
    assert_eq!(person.read("b.txt"), "old b\n");
}

/// Holds on while the trigger says so, until it says something else.
const HOLD: &str = "echo held; now=$(cat trigger)\ncase $now in hold*) while test \"$(cat trigger)\" = \"$now\"; do sleep 0.02; done;; esac\n";

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Waits until the step whose name begins so runs for the nth time.
fn wait_for_step(person: &TestUser, plan: &str, node: &str, tries: u64) {
    wait_for(|| {
        let status = person.json(&["plan", "status", plan]).data();
        let steps: Vec<Value> = status["steps"].as_array().cloned().unwrap_or_default();
        let is_it = |step: &Value| {
            let is_named = step["node"].as_str().is_some_and(|name| name.starts_with(node));
            is_named && step["outcome"] == "running" && step["tries"] == tries
        };
        steps.iter().any(is_it).then_some(())
    });
}

/// A plan whose check holds on as the trigger says, on a tree that moved since.
fn held_plan(person: &TestUser) -> String {
    person.write("trigger", "go\n");
    person.write("hold.sh", HOLD);
    let plan = checked_plan(person, "sh hold.sh", "echo new > b.txt");
    person.write("trigger", "hold 0\n");
    plan
}

fn begin_apply(person: &TestUser, plan: &str) -> Child {
    let args = ["plan", "apply", plan, "--yes", "--format", "json"];
    let mut command = person.command(&person.project(), &args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_tree_that_is_edited_during_every_recheck_is_never_written() {
    let person = person();
    let plan = held_plan(&person);
    let mut applying = begin_apply(&person, &plan);
    let mut edits = 0;
    while applying.try_wait().unwrap().is_none() {
        edits += 1;
        person.write("trigger", &format!("hold {edits}\n"));
    }
    let ended = CommandOutput::of(&applying.wait_with_output().unwrap());
    assert_eq!((ended.exit, ended.code().as_str()), (4, "TREE_MOVING"), "{ended:?}");
    assert_eq!(person.read("b.txt"), "old b\n");
    // One edit during the checks is noticed, and they run once more.
    let applying = begin_apply(&person, &plan);
    wait_for_step(&person, &plan, "recheck/", 4);
    person.write("trigger", "go\n");
    let ended = CommandOutput::of(&applying.wait_with_output().unwrap());
    assert_eq!(checked_on(&ended), "merged_tree");
    assert_eq!(person.read("b.txt"), "new\n");
}

#[test]
fn a_process_that_is_killed_during_a_recheck_leaves_the_plan_to_be_applied_again() {
    let person = person();
    let plan = held_plan(&person);
    let mut applying = begin_apply(&person, &plan);
    wait_for_step(&person, &plan, "recheck/", 1);
    applying.kill().unwrap();
    applying.wait().unwrap();
    assert_eq!(person.read("b.txt"), "old b\n");
    person.write("trigger", "go\n");
    assert_eq!(checked_on(&apply(&person, &plan, &[])), "merged_tree");
    assert_eq!(person.read("b.txt"), "new\n");
    let left = fs::read_dir(person.home().join("data/sandboxes")).unwrap().count();
    assert_eq!(left, 0);
}
