//! The store's own file gets smaller again when plans are forgotten.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::json;

use super::support::{CommandOutput, TestUser};

/// Files that are large enough to be worth something and small enough to be stored as rows.
const MANY_FILES: &str =
    "i=0; while [ $i -lt 250 ]; do head -c 20000 /dev/urandom | base64 > f$i; i=$((i+1)); done";

fn database(person: &TestUser) -> PathBuf {
    person.home().join("data/agents.db")
}

fn bytes(person: &TestUser) -> u64 {
    fs::metadata(database(person)).unwrap().len()
}

/// A person with a plan that stored much and has come to its end.
fn with_much_to_forget() -> TestUser {
    let person = TestUser::new();
    let plan = person.plan(MANY_FILES);
    let cancelled = person.json(&["plan", "cancel", &plan]);
    assert_eq!(cancelled.exit, 0, "{cancelled:?}");
    person
}

fn gc(person: &TestUser) -> CommandOutput {
    let cleared = person.json(&["plan", "gc", "--older", "0s"]);
    assert_eq!(cleared.exit, 0, "{cleared:?}");
    cleared
}

fn auto_vacuum(person: &TestUser) -> u32 {
    let connection = Connection::open(database(person)).unwrap();
    connection.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap()
}

/// Makes the store one as older versions made it, which never gets smaller by itself.
fn make_old(person: &TestUser) {
    let connection = Connection::open(database(person)).unwrap();
    connection.execute_batch("PRAGMA auto_vacuum=NONE; VACUUM;").unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn the_store_gives_the_space_of_forgotten_plans_back() {
    let person = with_much_to_forget();
    let dry = person.json(&["plan", "gc", "--older", "0s", "--dry-run"]).data();
    assert_eq!((dry["plans"].as_array().unwrap().len(), &dry["store_bytes"]), (1, &json!(0)));
    let cleared = gc(&person).data();
    assert!(cleared["store_bytes"].as_u64().unwrap() > 5 << 20, "{cleared}");
    assert!(bytes(&person) < 1 << 20, "{}", bytes(&person));
}

#[test]
fn a_store_of_an_older_version_is_rewritten_once_much_of_it_is_free() {
    let person = with_much_to_forget();
    make_old(&person);
    assert!(bytes(&person) > 5 << 20, "{}", bytes(&person));
    let cleared = gc(&person);
    assert!(bytes(&person) < 1 << 20, "{cleared:?}");
    assert_eq!(auto_vacuum(&person), 2, "from now on it gets smaller by itself");
    assert_eq!(person.json(&["plan", "list"]).data()["plans"], json!([]));
}

#[test]
fn a_process_that_is_killed_while_it_rewrites_the_store_leaves_it_whole() {
    let person = with_much_to_forget();
    let kept = person.plan("echo kept > kept.txt");
    make_old(&person);
    let log = person.home().join("data/agents.db-wal");
    for part in 1..=4_u64 {
        let mut command = person.command(&person.project(), &["plan", "gc", "--older", "0s", "--quiet"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_there = || fs::metadata(&log).map_or(0, |log| log.len()) > part * 16 * 1024;
        while !is_there() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().unwrap();
        let connection = Connection::open(database(&person)).unwrap();
        let health: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(health, "ok");
    }
    gc(&person);
    assert!(bytes(&person) < 1 << 20, "{}", bytes(&person));
    let shown = person.agents(&["plan", "diff", &kept]);
    assert!(shown.stdout.contains("+kept"), "{shown:?}");
}

/// The journals from which something could be undone.
fn kept_journals(person: &TestUser) -> usize {
    fs::read_dir(person.home().join("data/undo")).unwrap().count()
}

#[test]
fn an_undone_apply_keeps_no_second_copy_of_what_it_wrote() {
    let person = TestUser::new();
    person.write("a", &"old\n".repeat(50_000));
    let plan = person.plan("sed -i '7s/.*/new/' a");
    for _ in 0..2 {
        let applied = person.agents(&["plan", "apply", &plan, "--yes"]);
        assert_eq!((applied.exit, kept_journals(&person)), (0, 1), "{applied:?}");
        assert!(person.read("a").contains("new\n"));
        let undone = person.agents(&["plan", "undo", &plan, "--yes"]);
        assert_eq!((undone.exit, kept_journals(&person)), (0, 0), "{undone:?}");
        assert!(!person.read("a").contains("new\n"));
    }
    assert!(person.agents(&["plan", "diff", &plan]).stdout.contains("+new"), "the plan itself is whole");
}
