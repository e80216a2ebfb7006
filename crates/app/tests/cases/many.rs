//! Many plans at once: how they are stopped, and what is told when something around them goes wrong.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::mount::{MountFlags, mount_bind, mount_remount};
use serde_json::{Value, json};

use super::disk::with_own_mounts;
use super::support::{CommandOutput, TestUser, answer};

/// A plan that waits for somebody to execute it.
fn waiting(person: &TestUser, name: &str) -> String {
    let made = person.json(&["plan", "use", "--title", name, "--", "true"]);
    assert_eq!(made.exit, 0, "{made:?}");
    made.data()["plan_id"].as_str().unwrap().to_owned()
}

fn state(person: &TestUser, plan: &str) -> String {
    person.json(&["plan", "status", plan]).data()["state"].as_str().unwrap().to_owned()
}

fn worker(person: &TestUser) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = person.command(&person.project(), &["worker", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut news = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("ready") {
        assert_ne!(news.read_line(&mut said).unwrap(), 0, "{said}");
    }
    (child, news)
}

/// Waits for the end of a process that may never come.
fn until_ended(child: &mut Child) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::yield_now();
    }
}

#[test]
fn several_plans_are_cancelled_by_one_command_and_one_that_cannot_be_keeps_none_from_it() {
    let person = TestUser::new();
    let [first, second, third] = ["a", "b", "c"].map(|name| waiting(&person, name));
    let applied = person.plan("echo x > x");
    assert_eq!(person.agents(&["plan", "apply", &applied, "--yes"]).exit, 0);
    let said = person.json(&["plan", "cancel", &first, &applied, &second, &first]);
    assert_eq!(
        (said.code(), &said.data()["cancelled"]),
        ("CANCEL_TOO_LATE".to_owned(), &json!(2)),
        "{said:?}"
    );
    let cancelled: Vec<Value> =
        said.data()["plans"].as_array().unwrap().iter().map(|plan| plan["cancelled"].clone()).collect();
    assert_eq!(cancelled, [json!(true), json!(false), json!(true)]);
    assert_eq!(
        [&first, &second, &third].map(|plan| state(&person, plan)),
        ["cancelled", "cancelled", "queued"]
    );
}

#[test]
fn all_plans_that_wait_are_cancelled_in_this_project_or_everywhere() {
    let (here, elsewhere) = (TestUser::new(), TestUser::new());
    let data = here.home().join("data").display().to_string();
    let there = |args: &[&str]| -> CommandOutput {
        answer(elsewhere.command(&elsewhere.project(), args).env("CLEVERAGENTS_DATA_DIR", &data))
    };
    let mine = [waiting(&here, "a"), waiting(&here, "b")];
    let made = there(&["--format", "json", "plan", "use", "--", "true"]);
    let theirs = made.data()["plan_id"].as_str().unwrap().to_owned();
    // Nobody is here to say yes.
    let unasked = here.json(&["plan", "cancel", "--state", "queued"]);
    assert_eq!((unasked.exit, unasked.code()), (6, "CONFIRMATION_NEEDED".to_owned()), "{unasked:?}");
    assert_eq!(state(&here, &mine[0]), "queued");
    let said = here.agents(&["plan", "cancel", "--state", "queued", "--yes"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.ends_with("2 of 2 plans cancelled\n"), "{said:?}");
    let states = || [&mine[0], &mine[1], &theirs].map(|plan| state(&here, plan));
    assert_eq!(states(), ["cancelled", "cancelled", "queued"]);
    let none = here.agents(&["plan", "cancel", "--state", "queued", "--yes"]);
    assert!(none.stdout.contains("no plan of this project is queued"), "{none:?}");
    assert_eq!(
        here.json(&["plan", "cancel", "--state", "queued", "--all", "--yes"]).data()["cancelled"],
        json!(1)
    );
    assert_eq!(states(), ["cancelled", "cancelled", "cancelled"]);
}

#[test]
fn a_worker_whose_store_is_removed_or_replaced_ends_and_says_so() {
    for replaced in [false, true] {
        let person = TestUser::new();
        let (mut child, _news) = worker(&person);
        let data = person.home().join("data");
        for name in ["agents.db", "agents.db-wal", "agents.db-shm"] {
            let _ = fs::remove_file(data.join(name));
        }
        if replaced {
            waiting(&person, "in the new store");
        }
        until_ended(&mut child);
        let said = CommandOutput::of(&child.wait_with_output().unwrap());
        assert_eq!((said.exit, said.code()), (1, "STORE_FAILED".to_owned()), "{said:?}");
        assert!(said.stdout.contains("agents.db was removed or replaced"), "{said:?}");
        // It is counted on by nobody any more.
        let left = person.json(&["run", "--detach", "--", "true"]);
        assert_eq!((left.exit, &left.data()["worker_started"]), (0, &json!(true)), "{left:?}");
        let watched = person.json(&["plan", "watch", "@last"]);
        assert_eq!(watched.exit, 0, "{watched:?}");
    }
}

#[test]
fn the_job_of_a_killed_worker_is_listed_as_dead_at_once() {
    let person = TestUser::new();
    let (mut child, _news) = worker(&person);
    assert_eq!(person.agents(&["run", "--detach", "--", "sh", "-c", "echo ready; sleep 1000"]).exit, 0);
    while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
    let lease = || person.json(&["job", "list"]).data()["jobs"][0]["lease"].clone();
    assert_ne!(lease(), json!("dead"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(lease(), json!("dead"));
}

#[test]
fn an_answer_that_cannot_be_written_is_told_on_the_error_output() {
    let person = TestUser::new();
    waiting(&person, "a");
    for args in [&["plan", "list"][..], &["plan", "list", "--format", "json"], &["--help"], &[]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = person.command(&person.project(), args);
        let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = CommandOutput::of(&output);
        assert_eq!(said.exit, 1, "{args:?}: {said:?}");
        assert!(
            said.stderr.contains("error[IO_FAILED]: the answer cannot be written: No space left"),
            "{said:?}"
        );
    }
}

#[test]
fn a_read_only_data_directory_is_called_so() {
    with_own_mounts(|| {
        let person = TestUser::new();
        waiting(&person, "a");
        let data = person.home().join("data");
        mount_bind(&data, &data).unwrap();
        mount_remount(&data, MountFlags::RDONLY | MountFlags::BIND, c"").unwrap();
        let said = person.agents(&["plan", "list"]);
        assert_eq!(said.exit, 1, "{said:?}");
        assert!(said.stderr.contains("cannot be written: Read-only file system"), "{said:?}");
    });
}

#[test]
fn a_line_that_no_variable_can_hold_makes_no_plan() {
    let person = TestUser::new();
    fs::write(person.project().join("items"), b"one\n\xff\n").unwrap();
    assert_eq!(person.json(&["run", "--for-each", "items", "--", "true"]).data()["asked"], json!(2));
    fs::write(person.project().join("items"), b"one\na\0b\n").unwrap();
    let said = person.json(&["run", "--for-each", "items", "--", "true"]);
    assert_eq!((said.exit, said.code()), (2, "USAGE".to_owned()), "{said:?}");
    assert!(said.stdout.contains("line 2 has a NUL"), "{said:?}");
    let device = person.json(&["run", "--for-each", "/dev/zero", "--", "true"]);
    assert_eq!((device.exit, device.code()), (2, "USAGE".to_owned()), "{device:?}");
}

#[test]
fn one_plan_that_cannot_be_moved_on_keeps_neither_the_others_nor_the_worker() {
    let person = TestUser::new();
    let (mut first, _news) = worker(&person);
    let [older, newer] = ["older", "newer"].map(|name| {
        let left = person.json(&["run", "--detach", "--", "sh", "-c", &format!("echo x > {name}")]);
        let plan = left.data()["plan_id"].as_str().unwrap().to_owned();
        assert_eq!(person.json(&["plan", "watch", &plan]).exit, 0);
        plan
    });
    first.kill().unwrap();
    first.wait().unwrap();
    // As if the worker had died before it moved them on, and a part of the newer one cannot be read.
    let rows = Connection::open(person.home().join("data/agents.db")).unwrap();
    rows.execute("UPDATE plans SET spec = json_set(spec, '$.apply', 'auto')", ()).unwrap();
    let garbled =
        "UPDATE change_entries SET path = x'2e2e' WHERE head = (SELECT head FROM plans WHERE id = ?1)";
    assert_eq!(rows.execute(garbled, [&newer]), Ok(1));
    drop(rows);
    let mut second = person.command(&person.project(), &["worker", "--until-idle", "1s"]);
    let mut second = second.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_ended(&mut second);
    assert_eq!((state(&person, &older), person.read("older")), ("applied".to_owned(), "x\n".to_owned()));
    assert!(!person.project().join("newer").exists());
}
