//! Commands that are stopped and whose changes take longer to capture than anybody waits: nothing is lost,
//! and it is told.
//!
//! The bound is set to nothing, and there is a file to capture that takes a while.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, alive};

/// Makes something worth keeping, and something that takes long to capture; then it waits, unless it may go
/// on.
const SLOW: &str = "echo precious > precious.txt; truncate -s 300M big; echo ready; test -e go || sleep 1000; echo whole > whole";

fn person_in_a_hurry() -> TestUser {
    let person = TestUser::new();
    assert_eq!(person.agents(&["config", "set", "capture.wait=0s"]).exit, 0);
    person
}

fn sandboxes(person: &TestUser) -> Vec<PathBuf> {
    let listed = fs::read_dir(person.home().join("data/sandboxes"));
    listed.map_or(Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect())
}

/// Whether a file of this name with this content lies somewhere below a directory.
fn holds(dir: &Path, name: &str, content: &str) -> bool {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            } else if entry.file_name() == name && fs::read_to_string(entry.path()).unwrap() == content {
                return true;
            }
        }
    }
    false
}

/// What the plan's history says of a sandbox that is kept.
fn told_errors(person: &TestUser) -> Vec<Value> {
    let errors = person.json(&["plan", "errors", "@last"]).data();
    let records = errors["records"].as_array().unwrap();
    let kept = records.iter().filter(|record| record["message"].as_str().unwrap().contains("is retained in"));
    kept.cloned().collect()
}

fn run_until_ready(person: &TestUser, args: &[&str]) -> Child {
    let mut command = person.command(&person.project(), &[args, &["--", "sh", "-ec", SLOW]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until_ready(person);
    child
}

fn wait_until_ready(person: &TestUser) {
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
}

fn worker(person: &TestUser) -> Child {
    let mut command = person.command(&person.project(), &["worker", "--format", "json"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut news = BufReader::new(child.stderr.as_mut().unwrap());
    while !said.contains("ready") {
        assert_ne!(news.read_line(&mut said).unwrap(), 0, "{said}");
    }
    child
}

fn kept_in(answer: &CommandOutput) -> PathBuf {
    PathBuf::from(answer.data()["cancel"]["sandbox_kept_in"].as_str().unwrap_or_else(|| panic!("{answer:?}")))
}

#[test]
fn a_cancel_whose_last_capture_is_late_keeps_the_sandbox_and_says_where() {
    let person = person_in_a_hurry();
    let mut running = run_until_ready(&person, &["run"]);
    let cancelled = person.json(&["plan", "cancel", "@last"]);
    assert_eq!((cancelled.exit, running.wait().unwrap().code()), (0, Some(5)), "{cancelled:?}");
    let dir = kept_in(&cancelled);
    assert!(holds(&dir, "precious.txt", "precious\n"), "{cancelled:?}");
    assert_eq!((told_errors(&person).len(), alive(&person)), (1, 0));
    // The call has an end, and the next who asks is told as well.
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(!logs.contains("running"), "{logs}");
    let status = person.agents(&["plan", "watch", "@last"]);
    assert!(
        format!("{}{}", status.stdout, status.stderr).contains("its sandbox is retained in"),
        "{status:?}"
    );
    let again = person.agents(&["plan", "cancel", "@last"]).stdout;
    assert!(again.contains(&format!("retained in {}", dir.display())), "{again}");
    assert!(person.agents(&["doctor"]).stdout.contains(&dir.display().to_string()));
    // Nothing clears it but who says so.
    assert_eq!(person.agents(&["run", "--", "true"]).exit, 0);
    assert!(holds(&dir, "precious.txt", "precious\n"));
    assert_eq!(person.json(&["plan", "gc"]).data()["sandboxes"], json!(1));
    assert_eq!(sandboxes(&person), Vec::<PathBuf>::new());
}

#[test]
fn what_a_time_limit_left_no_time_to_capture_is_captured_by_resume() {
    let person = person_in_a_hurry();
    let ran = person.json(&["run", "--limit", "time=1s", "--", "sh", "-ec", SLOW]);
    let told = told_errors(&person);
    assert_eq!((ran.exit, told.len(), sandboxes(&person).len()), (6, 1, 1), "{ran:?}");
    assert!(holds(&sandboxes(&person)[0], "precious.txt", "precious\n"));
    assert!(told[0]["command"].as_str().unwrap().starts_with("agents plan resume"), "{told:?}");
    assert_eq!(person.agents(&["config", "set", "capture.wait=2m"]).exit, 0);
    person.write("go", "");
    let resumed = person.json(&["plan", "resume", "@last", "--limit", "time=1h"]);
    assert_eq!((resumed.exit, sandboxes(&person)), (0, Vec::new()), "{resumed:?}");
    // What it had made was captured, and taken back before it ran again.
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("take_back"), "{logs}");
    let names = person.agents(&["plan", "diff", "@last", "--name-only"]).stdout;
    assert_eq!(names, "big\nprecious.txt\nwhole\n");
}

#[test]
fn a_worker_that_is_told_to_end_keeps_what_it_has_no_time_to_capture() {
    let person = person_in_a_hurry();
    assert_eq!(person.agents(&["config", "set", "async.drain=0s"]).exit, 0);
    let mut first = worker(&person);
    assert_eq!(person.agents(&["run", "--detach", "--", "sh", "-ec", SLOW]).exit, 0);
    wait_until_ready(&person);
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let kept = sandboxes(&person);
    assert_eq!((kept.len(), told_errors(&person).len(), alive(&person)), (1, 1, 0));
    assert!(holds(&kept[0], "precious.txt", "precious\n"));
    // Who takes the plan up next captures it, and begins the step anew.
    person.write("go", "");
    assert_eq!(person.agents(&["config", "set", "capture.wait=2m"]).exit, 0);
    let mut second = worker(&person);
    let watched = person.json(&["plan", "watch", "@last"]);
    assert_eq!(watched.exit, 0, "{watched:?}");
    let logs = person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("take_back"), "{logs}");
    kill_process(Pid::from_child(&second), Signal::TERM).unwrap();
    second.wait().unwrap();
    assert_eq!(sandboxes(&person), Vec::<PathBuf>::new());
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_its_last_capture_leaves_the_sandbox_kept() {
    let person = TestUser::new();
    let script = "echo precious > precious.txt; for n in 1 2 3 4; do truncate -s 1000M big$n; done; echo ready; sleep 1000";
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-ec", script]);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until_ready(&person);
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    let is_marked = || {
        let locks = sandboxes(&person).into_iter().map(|dir| fs::read(dir.join("lock")).unwrap_or_default());
        locks.filter(|lock| lock.starts_with(b"kept")).count() == 1
    };
    while !is_marked() {
        assert_eq!(running.try_wait().unwrap(), None, "it ended, and was never marked");
    }
    running.kill().unwrap();
    running.wait().unwrap();
    // The next process finishes the interruption, and sweeps nothing that is not stored.
    let status = person.json(&["plan", "status", "@last"]);
    assert_eq!(status.data()["state"], json!("errored"), "{status:?}");
    let kept = sandboxes(&person);
    assert!(kept.len() == 1 && holds(&kept[0], "precious.txt", "precious\n"), "{kept:?}");
    assert_eq!(told_errors(&person).len(), 1);
    assert!(person.agents(&["doctor"]).stdout.contains(&kept[0].display().to_string()));
}
