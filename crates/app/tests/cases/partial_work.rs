//! Work of a run that did not come to its end: it is interrupted, taken in part, or thrown away, and a
//! command says which exit statuses are no failure.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{TestUser, alive};

/// A command that a first run stops at, and a second one passes.
const ONCE: &str = "echo half >> list; if [ -e $GATE/done ]; then exit 0; fi; echo ready; sleep 600";

/// Starts the command, and waits until it has printed `ready`.
fn started(person: &TestUser) -> Child {
    started_as(person, "json")
}

fn started_as(person: &TestUser, format: &str) -> Child {
    let gate = person.home().join("gate");
    fs::create_dir_all(&gate).unwrap();
    let gate = gate.display().to_string();
    let set = format!("GATE={gate}");
    let args = ["run", "--format", format, "--env", &set, "--writable", &gate, "--", "sh", "-c", ONCE];
    let mut command = person.command(&person.project(), &args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was ready");
    }
    child
}

fn ctrl_c(child: &Child) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
}

fn answer(child: Child) -> (Option<i32>, Value, String) {
    let output = child.wait_with_output().unwrap();
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_plan_that_ctrl_c_interrupts_is_resumed_and_the_step_runs_again_from_its_beginning() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let child = started(&person);
    ctrl_c(&child);
    let (exit, envelope, _) = answer(child);
    let data = &envelope["data"];
    assert_eq!(
        (exit, &data["state"], &data["interrupted"]),
        (Some(5), &json!("errored"), &json!(true)),
        "{envelope}"
    );
    assert_eq!(alive(&person), 0, "nothing of it lives");
    let told = envelope["messages"].to_string();
    for hint in ["INTERRUPTED", "agents plan resume", "agents plan revise", "--partial"] {
        assert!(told.contains(hint), "{hint}: {told}");
    }
    let listed = person.agents(&["plan", "list"]).stdout;
    assert!(listed.contains("interrupted"), "{listed}");
    let status = person.agents(&["plan", "status"]).stdout;
    assert!(status.contains("execute     interrupted") && status.contains("agents apply"), "{status}");
    assert!(person.agents(&["top", "--once"]).stdout.contains("interrupted"));

    fs::write(person.home().join("gate/done"), "").unwrap();
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!((resumed.exit, &resumed.data()["interrupted"]), (0, &json!(false)), "{resumed:?}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("list"), "a\nhalf\n", "the step ran again from its beginning");
}

#[test]
fn what_ctrl_c_interrupted_is_applied_in_part_or_revised() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let child = started(&person);
    ctrl_c(&child);
    answer(child);
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "PLAN_NOT_READY"), "{refused:?}");
    assert!(refused.stdout.contains("was interrupted before it was done"), "{refused:?}");
    fs::write(person.home().join("gate/done"), "").unwrap();
    let revised = person.json(&["plan", "revise", "@last", "continue"]);
    assert_eq!((revised.exit, &revised.data()["attempt"]), (0, &json!(2)), "{revised:?}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("list"), "a\nhalf\nhalf\n", "it continued from what was there");

    fs::remove_file(person.home().join("gate/done")).unwrap();
    let child = started(&person);
    ctrl_c(&child);
    answer(child);
    let applied = person.json(&["apply", "@last", "--partial", "--yes"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(person.read("list"), "a\nhalf\nhalf\nhalf\n");
}

/// Reads the errors of the program up to the line with this word.
fn told(errors: &mut impl BufRead, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended without saying `{word}`");
    }
}

#[test]
fn a_second_ctrl_c_cancels_the_plan_and_its_changes_stay() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let mut child = started_as(&person, "plain");
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    // The store is locked, so that the interruption is still under way when the second one comes.
    let store = Connection::open(person.home().join("data/agents.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    ctrl_c(&child);
    told(&mut errors, "Ctrl-C again cancels it");
    ctrl_c(&child);
    told(&mut errors, "cancelling plan");
    store.execute_batch("COMMIT").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let cancelled = person.json(&["plan", "status"]);
    let data = cancelled.data();
    assert_eq!((&data["state"], &data["interrupted"]), (&json!("cancelled"), &json!(false)), "{cancelled:?}");
    let next = cancelled.data()["next"].to_string();
    assert!(next.contains("agents apply") && next.contains("--partial"), "{next}");
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "list\n");
    assert_eq!(person.json(&["apply", "@last", "--partial", "--yes"]).exit, 0, "the changes are not final");
    assert_eq!(person.read("list"), "a\nhalf\n");
}

#[test]
fn a_command_says_which_exit_statuses_are_no_failure() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let fixes = |status: &str| format!("echo b >> list; exit {status}");
    let ran = person.json(&["run", "--ok-exit", "0,1", "--", "sh", "-c", &fixes("1")]);
    assert_eq!((ran.exit, &ran.data()["state"]), (0, &json!("complete")), "{ran:?}");
    let logged = person.json(&["plan", "logs", "@last"]).data();
    assert_eq!(
        (&logged["calls"][0]["state"], &logged["calls"][0]["exit"]),
        (&json!("ok"), &json!(1)),
        "{logged}"
    );
    let failed = person.json(&["run", "--ok-exit", "0,1", "--", "sh", "-c", &fixes("2")]);
    assert_eq!(failed.data()["state"], json!("errored"), "{failed:?}");
    let unwanted = person.json(&["run", "--ok-exit", "1", "--", "sh", "-c", &fixes("0")]);
    assert!(unwanted.stdout.contains("exited with status 0, not 1"), "{unwanted:?}");
    let stepped =
        person.json(&["run", "--ok-exit", "0,3", "--step", &fixes("3"), "--step", "echo c >> list"]);
    assert_eq!(stepped.exit, 0, "{stepped:?}");
    for wrong in ["256", "x", "-1", "0,,1"] {
        let refused = person.json(&["run", &format!("--ok-exit={wrong}"), "--", "true"]);
        assert_eq!((refused.exit, refused.code().as_str()), (2, "USAGE"), "{wrong}");
    }
    let actor = "nodes:\n  lint: {run: 'echo c >> list; exit 1', ok_exit: [0, 1]}\n";
    person.write(".cleveragents/actors/linter.yaml", actor);
    let ran = person.json(&["run", "lint it", "--actor", "linter", "--trust"]);
    assert_eq!((ran.exit, &ran.data()["state"]), (0, &json!("complete")), "{ran:?}");
}

#[test]
fn discard_throws_a_plan_away_only_after_a_yes_and_never_one_that_is_applied() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let run = |word: &str| {
        let ran = person.json(&["run", "--title", word, "--", "sh", "-c", &format!("echo {word} >> list")]);
        ran.data()["short_id"].as_str().unwrap().to_owned()
    };
    let one = run("one");
    let asked = person.json(&["plan", "discard", &one]);
    assert_eq!((asked.exit, asked.code().as_str()), (6, "CONFIRMATION_NEEDED"), "{asked:?}");
    assert!(asked.stdout.contains("throws away plan"), "{asked:?}");
    assert_eq!(person.json(&["plan", "status", &one]).exit, 0, "it is still there");
    let gone = person.json(&["plan", "discard", &one, "--yes"]);
    assert_eq!((gone.exit, &gone.data()["discarded"]), (0, &json!(1)), "{gone:?}");
    assert_eq!(person.json(&["plan", "status", &one]).code(), "PLAN_NOT_FOUND");

    let applied = run("applied");
    assert_eq!(person.json(&["plan", "apply", &applied, "--yes"]).exit, 0);
    let refused = person.json(&["plan", "discard", &applied, "--yes"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "PLAN_FINAL"), "{refused:?}");
    let cancelled = run("cancelled");
    assert_eq!(person.json(&["plan", "cancel", &cancelled]).exit, 0);
    let waits = run("waits");
    let both = person.json(&["plan", "discard", &waits, &applied, "--yes"]);
    assert_eq!((both.exit, &both.data()["discarded"]), (4, &json!(1)), "{both:?}");
    run("rest");
    let all = person.json(&["plan", "discard", "--all", "--yes"]);
    assert_eq!((all.exit, &all.data()["discarded"]), (0, &json!(2)), "{all:?}");
    let left = person.json(&["plan", "list"]).data()["plans"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1, "the applied one: {left}");
    assert_eq!(person.json(&["plan", "undo", &applied, "--yes"]).exit, 0, "its undo is there");
    assert_eq!(person.json(&["plan", "discard", &applied, "--yes"]).exit, 0, "undone: it may go");
    let none = person.json(&["plan", "discard", "--all", "--yes"]);
    assert_eq!((none.exit, &none.data()["discarded"]), (0, &json!(0)), "{none:?}");
}

#[test]
fn discard_takes_a_batch_and_stops_a_plan_that_runs() {
    let person = TestUser::new();
    person.write("list", "a\n");
    fs::write(person.home().join("items"), "x\ny\n").unwrap();
    let items = person.home().join("items").display().to_string();
    let made =
        person.json(&["run", "--for-each", &items, "--batch", "two", "--", "sh", "-c", "echo $ITEM > $ITEM"]);
    assert_eq!(made.exit, 0, "{made:?}");
    assert_eq!(person.agents(&["plan", "watch", "--all"]).exit, 0);
    let gone = person.json(&["plan", "discard", "--batch", "two", "--yes"]);
    assert_eq!((gone.exit, &gone.data()["discarded"]), (0, &json!(2)), "{gone:?}");

    let mut child = started(&person);
    let gone = person.json(&["plan", "discard", "@last", "--yes"]);
    assert_eq!((gone.exit, &gone.data()["discarded"]), (0, &json!(1)), "{gone:?}");
    child.wait().unwrap();
    assert_eq!(alive(&person), 0);
    assert_eq!(person.json(&["plan", "list"]).data()["plans"], json!([]));
}
