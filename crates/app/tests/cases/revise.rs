//! A finished plan continues: revisions, notes, checkpoints, work of runs that failed or were stopped.

use std::process::Stdio;

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
    assert_eq!(
        person.json(&["plan", "revise", "@last"]).code(),
        "DECISION_INVALID",
        "applied, and no message"
    );
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

/// The numbers of the checkpoints, and whether each was rolled back.
fn checkpoints(person: &TestUser) -> Vec<(u64, bool)> {
    let points = person.json(&["plan", "checkpoints"]).data()["checkpoints"].clone();
    let point = |point: &Value| (point["entry"].as_u64().unwrap(), point["rolled_back"].as_bool().unwrap());
    points.as_array().unwrap().iter().map(point).collect()
}

fn roll_back(person: &TestUser, to: u64) {
    let back = person.json(&["plan", "rollback", "@last", "--to", &to.to_string()]);
    assert_eq!(back.exit, 0, "{back:?}");
}

#[test]
fn a_rollback_over_a_move_brings_the_file_back_as_it_was_then() {
    let person = TestUser::new();
    person.write("old", "1\n2\n");
    let steps =
        ["run", "--step", "sed -i 1s/.*/X/ old", "--step", "echo n > n", "--step", "mv old new; mv n m"];
    assert_eq!(person.json(&steps).exit, 0);
    let points = checkpoints(&person);
    roll_back(&person, points[1].0);
    assert_eq!(diff(&person, &[]), "n\nold\n");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!([person.read("old"), person.read("n")], ["X\n2\n", "n\n"]);
    assert!(!person.project().join("new").exists() && !person.project().join("m").exists());
}

#[test]
fn a_finished_step_is_not_lost_when_a_later_one_that_moved_its_file_runs_again() {
    let person = TestUser::new();
    person.write("end.sh", "exit 3\n");
    let steps = ["run", "--step", "echo n > n", "--step", "mv n m; . ./end.sh"];
    assert_ne!(person.json(&steps).exit, 0);
    person.write("end.sh", "true\n");
    let resumed = person.json(&["plan", "resume", "@last"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert_eq!(diff(&person, &[]), "m\n");
}

#[test]
fn a_rollback_is_undone_by_another_and_each_gives_the_result_of_its_checkpoint() {
    let person = TestUser::new();
    person.write("f", "1\n");
    person.write("g", "1\n");
    // The second step takes back what the first did to `g`.
    let steps = ["run", "--step", "echo 2 > f; echo 2 > g", "--step", "echo 1 > g", "--step", "echo 3 > f"];
    assert_eq!(person.json(&steps).exit, 0);
    let results: Vec<(u64, String)> = checkpoints(&person)
        .into_iter()
        .map(|(to, _)| {
            (to, person.agents(&["plan", "diff", "@last", "--from", "0", "--to", &to.to_string()]).stdout)
        })
        .collect();
    let [(first, _), (second, _), (third, _)] = &results[..] else { panic!("{results:?}") };
    for to in [0, *first, *third, *second, 0, *third, *first] {
        roll_back(&person, to);
        let shown = person.agents(&["plan", "diff", "@last"]).stdout;
        let expected = results.iter().find(|(known, _)| *known == to).map_or("", |(_, result)| result);
        assert_eq!(shown, expected, "after a rollback to {to}");
        let known: Vec<u64> = checkpoints(&person).into_iter().map(|(to, _)| to).collect();
        assert_eq!(known, [*first, *second, *third], "no checkpoint is lost");
    }
    assert_eq!(checkpoints(&person), [(*first, false), (*second, true), (*third, true)]);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!([person.read("f"), person.read("g")], ["2\n", "2\n"]);
}

#[test]
fn changes_that_were_rolled_back_are_checked_again_by_the_apply() {
    let person = TestUser::new();
    person.write("f", "1\n");
    let run = |check: &str| {
        let steps = ["--step", "echo good >> f", "--step", "echo bad >> f"];
        let ran = person.json(&[&["run", "--check", check][..], &steps].concat());
        assert_eq!(ran.exit, 0, "{ran:?}");
        roll_back(&person, checkpoints(&person)[0].0);
    };
    run("grep -q good f");
    let applied = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    assert_eq!(applied.data()["checks_at_apply"]["on"], json!("merged_tree"), "{applied:?}");
    assert_eq!(person.read("f"), "1\ngood\n");
    assert_eq!(person.agents(&["plan", "undo", "@last", "--yes"]).exit, 0);
    run("grep -q bad f");
    let refused = person.json(&["plan", "apply", "@last", "--yes"]);
    assert_eq!(refused.exit, 4, "{refused:?}");
    assert_eq!(person.read("f"), "1\n");
}

#[test]
fn a_refused_apply_of_partial_work_leaves_the_plan_as_it_was() {
    let person = TestUser::new();
    person.write("f", "1\n2\n3\n");
    assert_ne!(person.json(&["run", "--", "sh", "-c", "sed -i 2s/.*/plan/ f; exit 3"]).exit, 0);
    person.write("f", "1\nmine\n3\n");
    let refused = person.json(&["plan", "apply", "@last", "--yes", "--partial"]);
    assert_eq!((refused.exit, refused.code().as_str()), (4, "CONFLICTS"), "{refused:?}");
    let status = person.json(&["plan", "status", "@last"]).data();
    assert_eq!((&status["phase"], &status["state"]), (&json!("execute"), &json!("errored")), "{status}");
}

#[test]
fn a_note_on_a_line_that_says_resolved_is_a_note() {
    let person = TestUser::new();
    assert_eq!(person.json(&["run", "--", "sh", "-c", "printf 'x\nresolved\n' > 'r#1'"]).exit, 0);
    let noted = person.json(&["plan", "note", "@last", "r#1:2", "not yet"]);
    assert_eq!(noted.exit, 0, "{noted:?}");
    let notes = person.json(&["plan", "notes", "@last"]).data()["notes"].clone();
    assert_eq!(notes.as_array().map(Vec::len), Some(1), "{notes}");
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

#[test]
fn an_applied_plan_is_continued_by_a_plan_of_its_own() {
    let person = with_plan();
    let first = person.json(&["plan", "status", "@last"]).data();
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    let made = person.json(&["plan", "revise", "@last", "once more"]);
    let data = made.data();
    assert_eq!(
        (made.exit, &data["follows"], &data["attempt"]),
        (0, &first["plan_id"], &json!(1)),
        "{made:?}"
    );
    assert_ne!(data["plan_id"], first["plan_id"]);
    let title = data["title"].as_str().unwrap();
    assert!(title.ends_with("(follow-up)"), "{title}");
    assert_eq!(person.read("list"), "a\nb\nc\n1\n", "nothing more was applied");
    let tree = person.json(&["plan", "tree", "@last"]).stdout;
    assert!(tree.contains("once more") && tree.contains("which is applied"), "{tree}");
    assert!(person.agents(&["plan", "status", "@last"]).stdout.contains("continues plan"));
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert_eq!(person.read("list"), "a\nb\nc\n1\n1\n");
    let again = person.json(&["plan", "prompt", "@last", "and again", "--revise"]);
    assert_eq!((again.exit, again.data()["title"].as_str()), (0, Some(title)), "{again:?}");
    assert_eq!(
        person.agents(&["plan", "undo", first["short_id"].as_str().unwrap(), "--yes"]).exit,
        4,
        "edited since"
    );
}

#[test]
fn a_prompt_with_revise_continues_a_finished_plan() {
    let person = with_plan();
    let revised = person.json(&["plan", "prompt", "@last", "once more", "--revise"]);
    assert_eq!((revised.exit, &revised.data()["attempt"]), (0, &json!(2)), "{revised:?}");
    assert_eq!(person.json(&["plan", "prompt", "@last", "x", "--revise", "--replan"]).exit, 2);
}

#[test]
fn a_follow_up_of_a_model_continues_its_conversation() {
    let turns = [
        calls([("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 * $2"}))]),
        says("Changed the sum."),
        says("Nothing more to do."),
    ];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let ran = world.agents(&["--format", "json", "run", "mend the price", "--actor", "mender"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    (0..2).for_each(|_| drop(world.server.asked()));
    let applied = world.agents(&["plan", "apply", "@last", "--yes", "--unchecked"]);
    assert_eq!(applied.exit, 0, "{applied:?}");
    let revised = world.agents(&["--format", "json", "plan", "revise", "@last", "keep a comment"]);
    assert_eq!(revised.exit, 0, "{revised:?}");
    let text = world.server.asked().body["messages"].to_string();
    assert!(text.contains("Changed the sum.") && text.contains("keep a comment"), "{text}");
}

/// An actor whose second and third steps decide something, each after it changed a file.
const DECIDES: &str = r#"nodes:
  first: {run: 'echo 1 >> list'}
  second:
    needs: [first]
    run: 'echo "$ARG_WORD" >/dev/null; echo 2 >> list; echo "{\"decisions\": [{\"question\": \"How?\", \"chosen\": \"twice\"}]}" > "$AGENTS_OUTPUT"'
  third: {needs: [second], run: 'echo 3 >> list; echo x >> made'}
"#;

#[test]
fn a_correction_replaces_one_decision_and_rolls_back_what_was_done_after_it() {
    let person = TestUser::new();
    person.write("list", "a\n");
    person.write(".cleveragents/actors/decider.yaml", DECIDES);
    let ran = person.json(&["run", "do it", "--actor", "decider", "--trust"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let tree = person.json(&["plan", "tree", "@last"]).data()["decisions"].clone();
    let choice =
        tree.as_array().unwrap().iter().find(|one| one["kind"] == "choice").unwrap()["seq"].to_string();
    let all = tree.as_array().unwrap().len();
    let at = |extra: &[&str]| {
        person.json(&[&["plan", "prompt", "@last", "once", "--at", &choice], extra].concat())
    };
    let dry = at(&["--dry-run"]);
    assert_eq!(
        dry.data()["affected"],
        json!({ "decisions": [choice.parse::<u32>().unwrap()], "files": ["list", "made"] }),
        "{dry:?}"
    );
    assert_eq!(person.json(&["plan", "status", "@last"]).data()["attempt"], json!(1), "nothing was written");
    for (word, code) in [("1", "DECISION_INVALID"), ("99", "DECISION_NOT_FOUND"), ("?", "DECISION_NOT_FOUND")]
    {
        let refused = person.json(&["plan", "prompt", "@last", "once", "--at", word]);
        assert_eq!(refused.code(), code, "{word}: {refused:?}");
    }
    let corrected = at(&[]);
    assert_eq!((corrected.exit, &corrected.data()["attempt"]), (0, &json!(2)), "{corrected:?}");
    let tree = person.json(&["plan", "tree", "@last", "--superseded"]).data()["decisions"].clone();
    let gone: Vec<&Value> =
        tree.as_array().unwrap().iter().filter(|one| !one["superseded_by"].is_null()).collect();
    assert_eq!(gone.len(), 1, "the affected set only: {tree}");
    assert!(
        tree.as_array().unwrap().len() > all && tree.to_string().contains("Instead of the decision"),
        "{tree}"
    );
    assert_eq!(at(&[]).code(), "DECISION_NOT_FOUND", "it gave way");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    // The first step's work stood; all steps ran again on top of it.
    assert_eq!((person.read("list"), person.read("made")), ("a\n1\n1\n2\n3\n".into(), "x\n".into()));
}

/// Starts a command and kills it at a moment of its life.
fn killed(person: &TestUser, words: &[&str], spins: u64) {
    let mut command = person.command(&person.project(), words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..spins * 400_000 {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_revision_or_a_rollback_that_is_killed_is_there_as_a_whole_or_not_at_all() {
    let person = with_plan();
    let status = || person.json(&["plan", "status", "@last"]).data();
    let added = |status: &Value| status["changes"]["insertions"].as_u64().unwrap();
    let mut attempt = 1;
    for spins in 0..24 {
        let notes = || person.json(&["plan", "notes", "@last"]).data()["notes"].as_array().unwrap().len();
        assert_eq!(person.json(&["plan", "note", "@last", "made#1", "more"]).exit, 0);
        killed(&person, &["plan", "revise", "@last", "once more"], spins);
        let after = status();
        let now = after["attempt"].as_u64().unwrap();
        assert!(now == attempt || now == attempt + 1, "{after}");
        assert_eq!(notes(), usize::from(now == attempt), "the notes are sent with it: {after}");
        if after["state"] != "complete" {
            let resumed = person.json(&["plan", "resume", "@last"]);
            assert_eq!(resumed.exit, 0, "{resumed:?}");
        }
        if now == attempt {
            assert_eq!(person.json(&["plan", "revise", "@last"]).exit, 0);
        }
        attempt += 1;
        let after = status();
        assert_eq!((&after["attempt"], added(&after)), (&json!(attempt), 2 * attempt), "{after}");
    }
    for spins in 0..24 {
        let before = added(&status());
        killed(&person, &["plan", "rollback", "@last", "--to", "0"], spins);
        match added(&status()) {
            0 => assert_eq!(person.json(&["plan", "revise", "@last", "again"]).exit, 0),
            now => assert_eq!(now, before),
        }
    }
}

#[test]
fn a_plan_whose_contents_are_gone_says_so_and_stays_as_it_was() {
    let person = with_plan();
    let store = rusqlite::Connection::open(person.home().join("data/agents.db")).unwrap();
    store.execute_batch("PRAGMA foreign_keys = 0; DELETE FROM contents").unwrap();
    drop(store);
    let revised = person.json(&["plan", "revise", "@last", "once more"]);
    assert_eq!((revised.exit, revised.code().as_str()), (4, "CONTENT_GONE"), "{revised:?}");
    assert!(revised.stdout.contains("--again"), "{revised:?}");
    let status = person.json(&["plan", "status", "@last"]).data();
    assert_eq!((&status["attempt"], &status["state"]), (&json!(1), &json!("complete")), "{status}");
}

#[test]
fn a_note_of_100_kb_is_refused_and_one_of_16_kb_is_sent() {
    let person = with_plan();
    let note = |bytes: usize| person.json(&["plan", "note", "@last", "made#1", &"x".repeat(bytes)]);
    let refused = note(100_000);
    assert_eq!((refused.exit, refused.code().as_str()), (2, "DECISION_INVALID"), "{refused:?}");
    assert_eq!(note(16_000).exit, 0);
    assert_eq!(person.json(&["plan", "revise"]).exit, 0);
}

#[test]
fn a_revision_can_be_done_by_another_actor_and_with_more_checks() {
    let person = with_plan();
    let actor = "nodes:\n  main: {run: 'echo other >> list'}\n";
    person.write(".cleveragents/actors/other.yaml", actor);
    assert_eq!(person.json(&["plan", "revise", "@last", "x", "--actor", "nobody"]).code(), "ACTOR_NOT_FOUND");
    assert_eq!(person.json(&["plan", "status", "@last"]).data()["attempt"], json!(1), "nothing was written");
    let revised = person.json(&[
        "plan",
        "revise",
        "@last",
        "by another",
        "--actor",
        "other",
        "--check",
        "grep -q other list",
    ]);
    assert_eq!((revised.exit, &revised.data()["validations"]["passed"]), (0, &json!(2)), "{revised:?}");
    let failing = person.json(&["plan", "revise", "@last", "again", "--check", "false"]);
    assert_eq!((failing.exit, failing.code().as_str()), (4, "VALIDATION_FAILED"), "{failing:?}");
    let listed = person.json(&["plan", "list", "--revisions"]).data()["plans"][0].clone();
    assert_eq!(listed["revisions"].as_array().unwrap().len(), 3, "{listed}");
    assert!(person.agents(&["plan", "list", "--revisions"]).stdout.contains("attempt 2"));
    let since = person.agents(&["plan", "diff", "@last", "--attempts", "1..2"]).stdout;
    assert!(since.contains("+other"), "{since}");
}
