//! A finished plan continues: revisions, notes, checkpoints, work of runs that failed or were stopped.

use serde_json::{Value, json};

use super::model_world::{ModelFixture, Wire, calls, says};
use super::support::TestUser;

/// A person whose plan has appended a line to `list` and made `made`.
fn with_plan() -> TestUser {
    let person = TestUser::new();
    person.write("list", "a\nb\nc\n");
    let ran = person.json(&[
        "run",
        "--check",
        "grep -q a list",
        "--",
        "sh",
        "-c",
        "echo $((n+1)) >> list; echo x >> made",
    ]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    person
}

fn diff(person: &TestUser, args: &[&str]) -> String {
    person.agents(&[&["plan", "diff", "@last", "--name-only"], args].concat()).stdout
}

#[test]
fn a_revision_continues_on_top_of_the_changes_and_all_of_it_is_applied_at_once() {
    let person = with_plan();
    let revised = person.json(&["plan", "revise", "@last", "once more"]);
    assert_eq!(revised.exit, 0, "{revised:?}");
    assert_eq!(revised.data()["attempt"], json!(2), "{revised:?}");
    assert_eq!(revised.data()["validations"]["passed"], json!(1), "the check ran again: {revised:?}");
    assert_eq!(diff(&person, &[]), "list\nmade\n");
    let since = person.agents(&["plan", "diff", "@last", "--attempts", "1..2"]).stdout;
    assert!(since.contains("+x") && since.matches("\n+").count() == 4, "{since}");
    assert_eq!(diff(&person, &["--attempts", "1..1"]), "");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!((person.read("list"), person.read("made")), ("a\nb\nc\n1\n1\n".into(), "x\nx\n".into()));
    assert_eq!(person.agents(&["plan", "undo", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("list"), "a\nb\nc\n");
}

#[test]
fn a_revision_needs_something_to_say_and_a_plan_that_is_finished() {
    let person = with_plan();
    assert_eq!(person.json(&["plan", "revise", "@last"]).code(), "DECISION_INVALID");
    assert_eq!(person.json(&["plan", "revise", "@last", &"x".repeat(20_000)]).code(), "DECISION_INVALID");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.json(&["plan", "revise", "@last", "more"]).code(), "PLAN_FINAL");
    assert_eq!(person.json(&["plan", "use", "--", "true"]).exit, 0);
    let waits = person.json(&["plan", "revise", "@last", "more"]);
    assert_eq!((waits.exit, waits.code().as_str()), (4, "PLAN_BUSY"), "{waits:?}");
    assert_eq!(person.json(&["plan", "status", "@last"]).data()["attempt"], json!(1));
}

#[test]
fn a_note_goes_to_the_next_revision_once_and_stays_at_its_lines() {
    let person = with_plan();
    for (place, text) in [("list:4", "this one"), ("made#1", "and this"), ("-list:1", "the old first line")] {
        let noted = person.json(&["plan", "note", "@last", place, text]);
        assert_eq!(noted.exit, 0, "{noted:?}");
    }
    for place in ["list:9", "other:1", "list#7", "list:0", "list", "list:3-2"] {
        assert_eq!(person.json(&["plan", "note", "@last", place, "x"]).code(), "NO_SUCH_PLACE", "{place}");
    }
    let places = |args: &[&str]| -> Vec<String> {
        let notes = person.json(&[&["plan", "notes", "@last"], args].concat()).data()["notes"].clone();
        let place = |note: &Value| {
            let is = |name: &str| note[name].as_bool().unwrap();
            format!(
                "{}{}{}",
                note["place"].as_str().unwrap(),
                if is("outdated") { " outdated" } else { "" },
                if is("resolved") { " resolved" } else { "" }
            )
        };
        notes.as_array().unwrap().iter().map(place).collect()
    };
    assert_eq!(places(&[]), ["list:4", "made#1", "-list:1"]);
    let number = person.json(&["plan", "notes"]).data()["notes"][2]["number"].to_string();
    assert_eq!(person.json(&["plan", "note", "@last", "--resolve", &number]).exit, 0);
    assert_eq!(person.json(&["plan", "note", "@last", "--resolve", &number]).code(), "NO_SUCH_NOTE");
    assert_eq!(places(&[]), ["list:4", "made#1"]);

    let revised = person.json(&["plan", "revise"]);
    assert_eq!((revised.exit, revised.data()["notes_sent"].clone()), (0, json!(2)), "{revised:?}");
    let decisions = person.json(&["plan", "tree", "@last"]).stdout;
    assert!(decisions.contains("list:4: this one") && decisions.contains("> 1"), "{decisions}");
    assert!(!decisions.contains("the old first line\\n  >"), "what is resolved is not sent: {decisions}");
    // The hunk of `made` has another line now; line 4 of the list is what it was.
    assert_eq!(places(&["--all"]), ["list:4 resolved", "made#1 outdated resolved", "-list:1 resolved"]);
    assert_eq!(person.json(&["plan", "revise"]).code(), "DECISION_INVALID", "they are sent once");
}

#[test]
fn a_result_is_rolled_back_to_a_checkpoint_and_continued_from_there() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let steps = [
        "--step",
        "echo one >> list",
        "--step",
        "echo two >> list; mkdir d; echo x > d/x",
        "--step",
        "echo three >> list",
    ];
    assert_eq!(person.json(&[&["run"], &steps[..]].concat()).exit, 0);
    let points = person.json(&["plan", "checkpoints"]).data()["checkpoints"].clone();
    let entries: Vec<u64> =
        points.as_array().unwrap().iter().map(|point| point["entry"].as_u64().unwrap()).collect();
    assert_eq!(entries.len(), 3, "{points}");
    let between = person.agents(&[
        "plan",
        "diff",
        "@last",
        "--from",
        &entries[0].to_string(),
        "--to",
        &entries[1].to_string(),
        "--name-only",
    ]);
    assert_eq!(between.stdout, "d/x\nlist\n");
    assert_eq!(person.json(&["plan", "rollback", "@last", "--to", "99"]).code(), "NO_CHECKPOINT");
    let last = entries[2].to_string();
    assert_eq!(
        person.json(&["plan", "rollback", "@last", "--to", &last]).code(),
        "NO_CHECKPOINT",
        "nothing is after it"
    );
    let back = person.json(&["plan", "rollback", "@last", "--to", &entries[0].to_string()]);
    assert_eq!(back.exit, 0, "{back:?}");
    assert_eq!(diff(&person, &[]), "list\n");
    let logs = person.json(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("two") && logs.contains("take_back"), "what was rolled back stays visible: {logs}");
    let twice = person.json(&["plan", "rollback", "@last", "--to", "0"]);
    assert_eq!(twice.exit, 0, "{twice:?}");
    assert_eq!(diff(&person, &[]), "");
    assert_eq!(person.json(&["plan", "revise", "@last", "again"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("list"), "a\none\ntwo\nthree\n");
}

#[test]
fn the_work_of_a_command_that_failed_can_be_applied_and_continued() {
    let person = TestUser::new();
    person.write("list", "a\n");
    let fails = ["run", "--", "sh", "-c", "echo b >> list; exit 1"];
    assert_ne!(person.json(&fails).exit, 0);
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "PLAN_NOT_READY"), "{refused:?}");
    assert!(refused.stdout.contains("--partial"), "{refused:?}");
    assert_eq!(person.read("list"), "a\n");
    let applied = person.json(&["plan", "apply", "@last", "--yes", "--partial"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(person.read("list"), "a\nb\n");

    assert_ne!(person.json(&fails).exit, 0);
    assert_ne!(person.json(&["plan", "revise", "@last", "try again"]).exit, 0, "it fails again");
    assert_eq!(person.json(&["plan", "apply", "@last", "--yes", "--partial"]).exit, 0);
    assert_eq!(person.read("list"), "a\nb\nb\nb\n");
}

#[test]
fn the_work_of_a_cancelled_plan_is_not_lost() {
    let person = TestUser::new();
    person.write("list", "a\n");
    assert_eq!(person.json(&["run", "--", "sh", "-c", "echo b >> list"]).exit, 0);
    assert_eq!(person.json(&["plan", "cancel", "@last"]).exit, 0);
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert!(refused.exit == 4 && refused.stdout.contains("--partial"), "{refused:?}");
    let revised = person.json(&["plan", "revise", "@last", "go on"]);
    assert_eq!((revised.exit, revised.data()["attempt"].clone()), (0, json!(2)), "{revised:?}");
    assert_eq!(person.json(&["plan", "cancel", "@last"]).exit, 0);
    let applied = person.json(&["plan", "apply", "@last", "--yes", "--partial"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(person.read("list"), "a\nb\nb\n");
}

#[test]
fn of_two_revisions_at_once_one_is_done() {
    let person = with_plan();
    let answers: Vec<i32> = std::thread::scope(|scope| {
        let revise = || person.json(&["plan", "revise", "@last", "once more"]).exit;
        let both = [scope.spawn(revise), scope.spawn(revise)];
        both.map(|one| one.join().unwrap()).to_vec()
    });
    // The second one may also come when the first has ended: then it is a revision of its own.
    let attempt = person.json(&["plan", "status", "@last"]).data()["attempt"].as_u64().unwrap();
    let done = answers.iter().filter(|exit| **exit == 0).count() as u64;
    assert!(done >= 1 && attempt == 1 + done, "{answers:?} {attempt}");
}

#[test]
fn a_model_continues_its_conversation_with_the_requested_changes() {
    let turns = [
        calls([("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 * $2"}))]),
        says("Changed the sum."),
        says("Nothing more to do."),
    ];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let ran = world.agents(&["--format", "json", "run", "mend the price", "--actor", "mender"]);
    let first: Vec<Value> = (0..2).map(|_| world.server.asked().body).collect();
    assert_eq!(first.len(), 2, "{ran:?}");
    let revised = world.agents(&["--format", "json", "plan", "revise", "@last", "keep a comment"]);
    assert_eq!(revised.exit, 0, "{revised:?}");
    let messages = world.server.asked().body["messages"].clone();
    let text = messages.to_string();
    assert!(text.contains("Changed the sum."), "{text}");
    assert!(text.contains("edit_file"), "its own calls are there: {text}");
    let last = messages.as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], json!("user"), "{text}");
    let asked = last["content"].as_str().unwrap();
    assert!(asked.contains("already in the working tree") && asked.contains("keep a comment"), "{asked}");
}
