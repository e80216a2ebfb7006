//! Applies that were broken off: by real kills, with a journal or without, with the project or without, and
//! the next choice after them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use domain::{Lock, Ms};
use engine::{BootClock, wall_now};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use store::{LockStore, SqliteOptions, SqliteStore};

use super::support::{CommandOutput, TestUser, answer};

/// Somebody who lives and works on the project.
fn hold_project(person: &TestUser) -> File {
    let root = File::open(person.project()).unwrap();
    flock(&root, FlockOperation::NonBlockingLockExclusive).unwrap();
    root
}

fn start(person: &TestUser, args: &[&str]) -> Child {
    let mut command = person.command(&person.project(), args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill_hard(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn with_store<T>(person: &TestUser, act: impl AsyncFnOnce(&SqliteStore) -> T) -> T {
    let dir = person.home().join("data");
    let options = SqliteOptions { dir, clock: Arc::new(BootClock), wall: wall_now };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { act(&SqliteStore::open(options).unwrap()).await })
}

/// The lock rows that somebody holds, or held when it died.
fn rows(person: &TestUser) -> Vec<Lock> {
    let held = |lock: &Lock| lock.lease_until > Ms(0);
    with_store(person, async |store| store.locks().await.unwrap().into_iter().filter(held).collect())
}

/// An apply that has taken its rows and waits for the project, which the caller holds.
fn waiting_apply(person: &TestUser, args: &[&str]) -> Child {
    let mut child = start(person, args);
    while rows(person).len() < 2 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    child
}

const FILES: usize = 300;

/// A plan that changes many files.
fn large_plan(person: &TestUser) -> String {
    write_all(person, "old");
    person.plan("sed -i s/old/new/ f*")
}

fn changed(person: &TestUser) -> usize {
    (0..FILES).filter(|n| person.read(&format!("f{n:03}")).starts_with("new")).count()
}

fn journals(person: &TestUser) -> Vec<PathBuf> {
    let listed = fs::read_dir(person.home().join("data/journal")).unwrap();
    listed.flatten().map(|entry| entry.path()).collect()
}

/// Applies a large plan and kills that when some of the files are written and others are not.
fn half_applied(person: &TestUser) -> String {
    loop {
        let id = large_plan(person);
        let mut child = start(person, &["plan", "apply", &id, "--yes"]);
        while !person.read("f000").starts_with("new") {
            assert_eq!(child.try_wait().unwrap(), None, "it ended and did not write");
        }
        kill_hard(child);
        if !journals(person).is_empty() && (1..FILES).contains(&changed(person)) {
            return id;
        }
        // It was too fast to be met, and is brought to its end by the next command.
    }
}

fn state(person: &TestUser, id: &str) -> serde_json::Value {
    person.json(&["plan", "status", id]).data()["state"].clone()
}

/// The program, called outside of the project.
fn elsewhere(person: &TestUser, args: &[&str]) -> CommandOutput {
    let dir = person.home().join("elsewhere");
    fs::create_dir_all(&dir).unwrap();
    answer(&mut person.command(&dir, args))
}

#[test]
fn a_dead_apply_is_left_alone_while_somebody_works_on_its_project() {
    let person = TestUser::new();
    let id = half_applied(&person);
    let (held, half) = (hold_project(&person), changed(&person));
    let listed = person.agents(&["plan", "list"]);
    assert_eq!((listed.exit, changed(&person), journals(&person).len()), (0, half, 1), "{listed:?}");
    let open = person.json(&["doctor"]).data()["leftovers"]["open"].clone();
    assert_eq!((&open[0]["plan"], &open[0]["reason"]), (&json!(id), &json!("project_busy")), "{open}");
    let refused = person.json(&["plan", "gc", "--set-aside", &id]);
    assert_eq!((refused.exit, refused.code()), (4, "PLAN_BUSY".to_owned()), "{refused:?}");
    drop(held);
    let listed = person.agents(&["plan", "list"]);
    assert!(listed.stderr.contains("was finished now"), "{listed:?}");
    assert_eq!((changed(&person), journals(&person).len()), (FILES, 0));
    assert_eq!(state(&person, &id), "applied");
}

#[test]
fn of_many_processes_that_find_a_dead_apply_one_brings_it_to_its_end() {
    let person = TestUser::new();
    let id = half_applied(&person);
    let look = |_| {
        let mut command = person.command(&person.project(), &["plan", "list"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..8).map(look).collect();
    let mut told = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        told += usize::from(said.contains("was finished now"));
    }
    assert_eq!((told, changed(&person), journals(&person).len()), (1, FILES, 0));
    assert_eq!(state(&person, &id), "applied");
    let undone = person.agents(&["plan", "undo", &id, "--yes"]);
    assert_eq!((undone.exit, changed(&person)), (0, 0), "{undone:?}");
}

/// An apply of which some files are written, and whose journal is gone.
fn half_applied_without_journal(person: &TestUser) -> String {
    let id = half_applied(person);
    journals(person).iter().for_each(|path| fs::remove_file(path).unwrap());
    id
}

fn write_all(person: &TestUser, word: &str) {
    for n in 0..FILES {
        person.write(&format!("f{n:03}"), &format!("{word} {n}\n").repeat(20));
    }
}

#[test]
fn an_apply_without_journal_and_without_a_trace_never_began() {
    let person = TestUser::new();
    // As after a loss of power, when the seal was on the disk and the journal was not.
    let id = half_applied_without_journal(&person);
    write_all(&person, "old");
    let listed = person.agents(&["plan", "list"]);
    assert!(
        listed.stderr.contains("its journal is missing, and nothing of it is in your files"),
        "{listed:?}"
    );
    assert_eq!(person.agents(&["plan", "list"]).stderr, "", "it is told once");
    let status = person.json(&["plan", "status", &id]).data();
    assert_eq!((&status["state"], &status["broken_off"]), (&json!("processing"), &json!(true)));
    let applied = person.agents(&["plan", "apply", &id, "--yes"]);
    assert_eq!((applied.exit, changed(&person)), (0, FILES), "{applied:?}");
}

#[test]
fn an_apply_without_journal_of_which_a_part_is_there_constrains_its_plan() {
    let person = TestUser::new();
    let id = half_applied_without_journal(&person);
    let half = changed(&person);
    let listed = person.agents(&["plan", "list"]);
    assert!(listed.stderr.contains("is given up: its journal is missing"), "{listed:?}");
    assert!(listed.stderr.contains("of it these are there: f000"), "{listed:?}");
    let status = person.json(&["plan", "status", &id]).data();
    let reasons = status["constrained_by"].as_array().unwrap().len();
    assert_eq!((&status["state"], reasons, changed(&person)), (&json!("constrained"), half, half));
    let applied = person.agents(&["plan", "apply", &id, "--yes"]);
    assert_eq!((applied.exit, changed(&person)), (0, FILES), "{applied:?}");
}

#[test]
fn an_apply_without_journal_that_is_whole_is_applied_and_cannot_be_undone() {
    let person = TestUser::new();
    let id = half_applied_without_journal(&person);
    write_all(&person, "new");
    let listed = person.agents(&["plan", "list"]);
    assert!(listed.stderr.contains("is whole in your files, though its journal is missing"), "{listed:?}");
    assert_eq!(state(&person, &id), "applied");
    let undone = person.json(&["plan", "undo", &id, "--yes"]);
    assert_eq!((undone.exit, undone.code()), (4, "UNDO_EXPIRED".to_owned()), "{undone:?}");
}

#[test]
fn an_apply_whose_project_is_gone_is_shown_and_can_be_set_aside() {
    let person = TestUser::new();
    let id = half_applied(&person);
    let (half, away) = (changed(&person), person.home().join("away"));
    fs::rename(person.project(), &away).unwrap();
    let found = elsewhere(&person, &["doctor"]);
    let short = person.project().display().to_string();
    let line = found.stdout.lines().find(|line| line.starts_with("open apply of plan ")).unwrap_or_default();
    assert!(
        line.contains(&short) && line.contains(", begun ") && line.contains("does not exist"),
        "{found:?}"
    );
    assert!(line.contains("`agents plan gc --set-aside "), "{line}");
    let open = elsewhere(&person, &["doctor", "--format", "json"]).data()["leftovers"]["open"].clone();
    assert_eq!((&open[0]["plan"], &open[0]["reason"]), (&json!(id), &json!("project_absent")), "{open}");

    let set_aside = elsewhere(&person, &["plan", "gc", "--set-aside", &id]);
    assert!(set_aside.exit == 0 && set_aside.stdout.starts_with("abandoned: "), "{set_aside:?}");
    let found = elsewhere(&person, &["doctor", "--format", "json"]);
    assert_eq!(found.data()["leftovers"]["open"], json!([]), "{found:?}");
    let none = elsewhere(&person, &["plan", "gc", "--set-aside", &id, "--format", "json"]);
    assert_eq!((none.exit, none.code()), (3, "NO_OPEN_APPLY".to_owned()), "{none:?}");

    fs::rename(&away, person.project()).unwrap();
    assert_eq!(state(&person, &id), "constrained");
    assert_eq!((changed(&person), journals(&person).len()), (half, 0), "nothing was touched");
    let applied = person.agents(&["plan", "apply", &id, "--yes"]);
    assert_eq!((applied.exit, changed(&person)), (0, FILES), "{applied:?}");
}

#[test]
fn a_directory_made_anew_in_place_of_the_project_is_no_project_of_a_dead_apply() {
    let person = TestUser::new();
    let id = half_applied(&person);
    fs::rename(person.project(), person.home().join("away")).unwrap();
    fs::create_dir(person.project()).unwrap();
    person.git(&["init", "-q", "-b", "main"]);
    let other = person.plan("echo a > a");
    let applied = person.agents(&["plan", "apply", &other, "--yes"]);
    assert_eq!((applied.exit, person.read("a").as_str()), (0, "a\n"), "{applied:?}");
    let open = person.json(&["doctor"]).data()["leftovers"]["open"].clone();
    assert_eq!((&open[0]["plan"], &open[0]["reason"]), (&json!(id), &json!("project_absent")), "{open}");
}

#[test]
fn nothing_is_applied_over_a_dead_apply_that_waits_for_another_project() {
    let person = TestUser::new();
    let (second, away) = (person.home().join("second"), person.home().join("away"));
    fs::create_dir(&second).unwrap();
    fs::write(second.join("g"), "old\n").unwrap();
    write_all(&person, "old");
    let both = ["run", "--project", "a=.", "--project", "b=../second", "--format", "json", "--"];
    let script = "sed -i s/old/new/ f* ../second/g";
    let made = person.agents(&[&both[..], &["sh", "-ec", script]].concat());
    assert_eq!(made.exit, 0, "{made:?}");
    let id = made.data()["plan_id"].as_str().unwrap().to_owned();
    loop {
        let mut child = start(&person, &["plan", "apply", &id, "--yes"]);
        while !person.read("f000").starts_with("new") {
            assert_eq!(child.try_wait().unwrap(), None, "it ended and did not write");
        }
        kill_hard(child);
        if !journals(&person).is_empty() {
            break;
        }
        assert_eq!(person.agents(&["plan", "undo", &id, "--yes"]).exit, 0);
    }
    fs::rename(&second, &away).unwrap();
    let other = person.plan("echo mine > other");
    let refused = person.json(&["plan", "apply", &other, "--yes"]);
    assert!(refused.exit != 0 && !person.project().join("other").exists(), "{refused:?}");
    assert!(refused.stdout.contains("an interrupted apply of plan"), "{refused:?}");
    fs::rename(&away, &second).unwrap();
    let applied = person.agents(&["plan", "apply", &other, "--yes"]);
    assert_eq!((applied.exit, person.read("other").as_str()), (0, "mine\n"), "{applied:?}");
    assert_eq!((changed(&person), fs::read_to_string(second.join("g")).unwrap().as_str()), (FILES, "new\n"));
}

#[test]
fn nobody_waits_for_the_locks_of_a_killed_apply() {
    let person = TestUser::new();
    let id = person.plan("echo a > a");
    let held = hold_project(&person);
    let child = waiting_apply(&person, &["plan", "apply", &id, "--yes"]);
    kill_hard(child);
    // As if its leases were long: whoever waits for them does not get through.
    let dead = rows(&person);
    with_store(&person, async |store| {
        for row in &dead {
            assert!(store.renew_lock(row, Duration::from_secs(3600)).await.unwrap());
        }
    });
    drop(held);
    let applied = person.agents(&["plan", "apply", &id, "--yes"]);
    assert_eq!((applied.exit, person.read("a").as_str()), (0, "a\n"), "{applied:?}");
    let signs = fs::read_dir(person.home().join("data/workers")).unwrap().count();
    assert_eq!(signs, 0, "no life sign is left");
}

#[test]
fn a_lock_whose_holder_lives_is_not_taken_from_it() {
    let person = TestUser::new();
    let ids = [person.plan("echo a > a"), person.plan("echo b > b")];
    let held = hold_project(&person);
    let first = waiting_apply(&person, &["plan", "apply", &ids[0], "--yes"]);
    let before = rows(&person);
    let second = start(&person, &["plan", "apply", &ids[1], "--yes"]);
    while state(&person, &ids[1]) != "processing" {}
    // It has taken the row of its own plan and meets that of the project, again and again.
    while rows(&person).len() < 3 {}
    for held in &before {
        assert!(rows(&person).iter().any(|row| row.is_of(held)), "{held:?} was taken from its holder");
    }
    drop(held);
    for mut child in [first, second] {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert_eq!((person.read("a").as_str(), person.read("b").as_str()), ("a\n", "b\n"));
}

#[test]
fn a_choice_whose_process_died_waiting_is_replaced_by_the_next() {
    let person = TestUser::new();
    let id = person.plan("echo a > a; echo b > b");
    let held = hold_project(&person);
    let child = waiting_apply(&person, &["plan", "apply", &id, "--only", "a", "--yes"]);
    let busy = person.json(&["plan", "apply", &id, "--only", "b", "--yes"]);
    assert_eq!((busy.exit, busy.code()), (4, "PLAN_BUSY".to_owned()), "{busy:?}");
    assert!(
        busy.stdout.contains("with another choice by worker") && busy.stdout.contains("which is running")
    );
    assert!(busy.stdout.contains("`agents plan cancel "), "{busy:?}");
    kill_hard(child);
    drop(held);
    let unasked = person.json(&["plan", "apply", &id, "--only", "b"]);
    assert_eq!((unasked.exit, unasked.code()), (6, "CONFIRMATION_NEEDED".to_owned()), "{unasked:?}");
    let applied = person.json(&["plan", "apply", &id, "--only", "b", "--yes"]);
    assert_eq!((applied.exit, &applied.data()["left_out"]), (0, &json!(["a"])), "{applied:?}");
    assert!(!person.project().join("a").exists());
    assert_eq!(person.read("b"), "b\n");
}

#[test]
fn another_choice_of_an_applied_plan_is_refused_and_the_same_is_answered() {
    let person = TestUser::new();
    let id = person.plan("echo a > a; echo b > b");
    let applied = person.json(&["plan", "apply", &id, "--only", "a", "--yes"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    for same in [&["--only", "a"][..], &["--reject", "b"]] {
        let again = person.json(&[&["plan", "apply", &id, "--yes"], same].concat());
        assert_eq!((again.exit, &again.data()["already"]), (0, &json!(true)), "{same:?}: {again:?}");
    }
    for other in [&["--only", "b"][..], &["--only", "a", "--commit"]] {
        let refused = person.json(&[&["plan", "apply", &id, "--yes"], other].concat());
        assert_eq!((refused.exit, refused.code()), (4, "ALREADY_APPLIED".to_owned()), "{other:?}");
        assert!(refused.stdout.contains("with 1 of 2 files"), "{refused:?}");
        assert!(refused.stdout.contains("`agents plan undo "), "{refused:?}");
    }
    assert!(!person.project().join("b").exists());
    assert_eq!(person.agents(&["plan", "undo", &id, "--yes"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", &id, "--only", "b", "--yes"]).exit, 0);
    assert_eq!((person.project().join("a").exists(), person.read("b").as_str()), (false, "b\n"));
}

#[test]
fn a_plan_whose_program_died_is_cancelled_though_all_slots_are_taken() {
    let person = TestUser::new();
    person.agents(&["config", "set", "plan.concurrency=1"]);
    let working = |script: &str| {
        let before = person.json(&["plan", "list"]).data()["plans"].as_array().map_or(0, Vec::len);
        let child = start(&person, &["run", "--", "sh", "-c", script]);
        let plans = || person.json(&["plan", "list"]).data()["plans"].as_array().unwrap().clone();
        while plans().len() == before {}
        while !person.agents(&["plan", "logs", "@last"]).stdout.contains("\nready") {}
        (child, plans()[0]["plan_id"].as_str().unwrap().to_owned())
    };
    let (first, dead) = working("echo ready; sleep 1000");
    kill_hard(first);
    let (mut second, alive) = working("echo ready; sleep 1000");
    let cancelled = person.json(&["plan", "cancel", &dead, "--wait", "20s"]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    assert_eq!(state(&person, &dead), "cancelled");
    assert_eq!(second.try_wait().unwrap(), None, "the other goes on");
    assert_eq!(person.json(&["plan", "cancel", &alive]).exit, 0);
    assert_eq!(second.wait().unwrap().code(), Some(5));
}
