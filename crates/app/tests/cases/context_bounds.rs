//! Messages about files that are missing or too large, and about projects that do not answer.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser};

const QUERY: &str = "where is the parcel weighed";

fn depot() -> TestUser {
    let person = TestUser::new();
    person.write("src/weigh.rs", "/// Weighs a parcel.\npub fn weigh(parcel: u32) -> u32 {\n    parcel\n}\n");
    person.write("one.md", "parcel\n");
    person.git(&["add", "."]);
    person.git(&["commit", "-qm", "parcels are weighed"]);
    person
}

#[test]
fn what_a_plan_deleted_is_not_shown_also_if_it_is_never_opened() {
    let person = depot();
    for name in [".env", "tls.key", "Cargo.lock", "parcel_gone.rs"] {
        person.write(name, "parcel = \"weighed\"\n");
    }
    let plan = person.plan("rm .env tls.key Cargo.lock parcel_gone.rs; echo 'KEY=2' > .env.local");
    let said = person.agents(&["context", "assemble", "parcel env key lock", "--plan", &plan]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("## src/weigh.rs"), "{said:?}");
    for gone in [".env (", "tls.key", "Cargo.lock", "parcel_gone.rs"] {
        assert!(!said.stdout.contains(gone), "{gone}: {said:?}");
    }
    let made = person.json(&["context", "inspect", ".env.local", "--plan", &plan]).data();
    assert_eq!(
        (&made["bytes"], &made["lines"], &made["path_only"]),
        (&json!(6), &Value::Null, &json!("secret"))
    );
}

#[test]
fn another_request_to_stop_ends_a_search_that_does_not_hear_the_first() {
    let person = depot();
    // Where git says what a person ignores, and nobody ever writes.
    let pipe = person.home().join(".gitconfig");
    let _ = std::fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = person.command(&person.project(), &["--format", "json", "context", "assemble", QUERY]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is there to be written to once somebody reads.
    let _silent = OpenOptions::new().write(true).open(&pipe).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    while child.try_wait().unwrap().is_none() {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_query_that_is_too_long_to_be_read_is_told_as_that() {
    let person = depot();
    let mut command = person.command(&person.project(), &["--format", "json", "context", "assemble", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        // Whoever has read enough does not read on.
        let _ = stdin.write_all("weigh the parcel ".repeat(200_000).as_bytes());
    });
    let said = CommandOutput::of(&child.wait_with_output().unwrap());
    writing.join().unwrap();
    assert_eq!(said.exit, 0, "{said:?}");
    let messages = said.envelope()["messages"].to_string();
    assert!(messages.contains("the query has more than 1 MiB and was cut to 16384 bytes"), "{messages}");
    assert!(!messages.contains("1048576"), "{messages}");
    assert!(said.data()["text"].as_str().unwrap().contains("src/weigh.rs"), "{said:?}");
}

#[test]
fn without_a_budget_the_window_is_what_the_settings_allow() {
    let person = depot();
    let budget = |extra: &[&str]| {
        let said = person.json(&[&["context", "assemble", QUERY][..], extra].concat());
        let budget = &said.data()["receipt"]["budget"];
        (budget["window"].clone(), budget["total"].clone())
    };
    assert_eq!(budget(&[]), (json!(16_384), json!(16_384)));
    assert_eq!(budget(&["--budget", "900"]), (json!(900), json!(900)));
    assert_eq!(person.agents(&["config", "set", "context.max_tokens=2000"]).exit, 0);
    assert_eq!(budget(&[]), (json!(2000), json!(2000)));
}

#[test]
fn of_a_file_that_is_too_large_to_be_read_its_size_is_told_and_no_lines() {
    let person = depot();
    person.write("large.txt", &"x".repeat(2_800_000));
    let told = person.json(&["context", "inspect", "large.txt"]).data();
    assert_eq!((&told["lines"], &told["bytes"]), (&Value::Null, &json!(2_800_000)));
    let first = |path: &str| {
        let said = person.agents(&["context", "inspect", path]);
        said.stdout.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(first("large.txt"), "large.txt  (text, too large, 2.7 MB, not read)");
    assert_eq!(first("one.md"), "one.md  (markdown, 1 line)");
    assert_eq!(first("src/weigh.rs"), "src/weigh.rs  (rust, 4 lines)");
}

#[test]
fn one_word_of_a_strategy_s_name_is_enough_to_be_told_it() {
    let said = depot().json(&["context", "assemble", QUERY, "--strategy", "keyword"]);
    assert_eq!((said.exit, said.code().as_str()), (2, "STRATEGY_UNKNOWN"));
    assert!(said.stdout.contains("did you mean `simple-keyword`?"), "{said:?}");
}

#[test]
fn of_more_files_than_are_allowed_no_other_time_finds_the_rest() {
    let person = depot();
    assert_eq!(person.agents(&["config", "set", "context.index.max_files=1"]).exit, 0);
    for _ in 0..2 {
        let said = person.agents(&["context", "index"]);
        assert!(said.stdout.contains(" ms, not all of them\n"), "{said:?}");
        let said = person.agents(&["context", "simulate", QUERY]);
        assert!(said.stdout.contains(" ms, not all of them  "), "{said:?}");
    }
    let state = person.json(&["context", "index"]).data();
    assert_eq!((&state["partial"], &state["unfinished"]), (&json!(true), &json!(false)));
}
