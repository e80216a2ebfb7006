//! The decisions of a plan: shown as a tree, explained one by one, and corrected by a message.

use serde_json::{Value, json};

use super::gates::person_who_thinks;
use super::support::TestUser;
use super::workers::WorkerFixture;

fn kinds(data: &Value) -> Vec<&str> {
    data["decisions"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_tree_shows_what_follows_from_what() {
    let person = person_who_thinks(0.82);
    assert_eq!(person.json(&["run", "make-it", "--automation", "manual"]).exit, 0);
    let said = person.agents(&["plan", "tree"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let data = person.json(&["plan", "tree", "@last"]).data();
    assert_eq!(kinds(&data), ["prompt", "strategy", "choice"]);
    let names: Vec<&str> =
        data["decisions"].as_array().unwrap().iter().map(|one| one["short_id"].as_str().unwrap()).collect();
    let lines: Vec<&str> = said.stdout.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            format!("└─ {}  prompt  make the file", names[0]),
            format!("   └─ {}  strategy  Make the file 1. make it: with a word in it (made)  0.82", names[1]),
            format!("      └─ {}  choice  made  0.82", names[2]),
        ],
        "{}",
        said.stdout
    );
    let yaml = person.agents(&["plan", "tree", "--format", "yaml"]).stdout;
    assert!(yaml.contains("kind: strategy"), "{yaml}");
}

#[test]
fn a_decision_is_explained_with_what_hangs_on_it() {
    let person = person_who_thinks(0.82);
    assert_eq!(person.json(&["run", "make-it"]).exit, 0);
    let tree = person.json(&["plan", "tree"]).data();
    let (id, short) = (&tree["decisions"][1]["decision_id"], &tree["decisions"][1]["short_id"]);
    let said = person.json(&["plan", "explain", id.as_str().unwrap()]);
    let data = said.data();
    assert_eq!(data["affected"], json!({ "decisions": [2, 3], "files": ["made"] }), "{said:?}");
    assert_eq!((&data["kind"], &data["seq"]), (&json!("strategy"), &json!(2)));
    let plan = tree["short_id"].as_str().unwrap();
    assert_eq!(data["correct"], json!(format!("agents plan prompt {plan} \"…\" --replan")));
    assert_eq!(person.json(&["plan", "explain", short.as_str().unwrap()]).data(), data);
    let text = person.agents(&["plan", "explain", "@last:3"]).stdout;
    for words in
        ["question     Which file?", "instead of   other (nobody asked)", "confidence   0.82", "correct it"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    for (word, exit, code) in [
        ("@last:9", 3, "DECISION_NOT_FOUND"),
        ("01ZZZZZZZZ", 3, "DECISION_NOT_FOUND"),
        ("?", 3, "DECISION_NOT_FOUND"),
        ("nobody:1", 3, "PLAN_NOT_FOUND"),
        ("0", 2, "DECISION_AMBIGUOUS"),
    ] {
        let said = person.json(&["plan", "explain", word]);
        assert_eq!((said.exit, said.code().as_str()), (exit, code), "{word}: {said:?}");
    }
}

#[test]
fn a_word_besides_is_heeded_by_the_next_run() {
    let person = person_who_thinks(0.9);
    assert_eq!(person.json(&["run", "make-it", "--automation", "manual"]).exit, 0);
    let said = person.json(&["plan", "prompt", "@last", "and be quick"]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("complete")), "{said:?}");
    assert_eq!(person.json(&["plan", "execute", "@last"]).exit, 0);
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    let made = person.read("made");
    assert!(made.contains("Said since by the person who asked:\n- and be quick"), "{made}");
    let said = person.json(&["plan", "prompt", "@last", "too late"]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_FINAL".to_owned()), "{said:?}");
    let said = person.json(&["plan", "prompt", "@last", &"x".repeat(17_000)]);
    assert_eq!(said.exit, 4, "{said:?}");
}

#[test]
fn thinking_again_supersedes_all_below_the_root_and_a_look_at_it_writes_nothing() {
    let person = person_who_thinks(0.9);
    assert_eq!(person.json(&["run", "make-it"]).exit, 0);
    let before = person.json(&["plan", "tree", "--superseded"]).data();
    let said = person.json(&["plan", "prompt", "@last", "another way", "--replan", "--dry-run"]);
    assert_eq!(said.data()["affected"], json!({ "decisions": [2, 3], "files": ["made"] }), "{said:?}");
    assert_eq!(person.json(&["plan", "tree", "--superseded"]).data(), before);
    let said = person.json(&["plan", "prompt", "@last", "another way", "--replan"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let data = said.data();
    assert_eq!(
        (&data["state"], &data["attempt"], &data["reversions"]),
        (&json!("complete"), &json!(2), &json!(1))
    );
    assert_eq!(data["affected"], json!({ "decisions": [2, 3], "files": ["made"] }));
    let tree = person.json(&["plan", "tree"]).data();
    assert_eq!(kinds(&tree), ["prompt", "reversion", "guidance", "strategy", "choice"]);
    assert_eq!(tree["superseded"], json!(2));
    let all = person.json(&["plan", "tree", "--superseded"]).data();
    assert_eq!(kinds(&all).len(), 7);
    assert_eq!(all["decisions"][1]["superseded_by"], json!(4), "{all}");
    let text = person.agents(&["plan", "tree", "--superseded"]).stdout;
    assert!(text.contains("(replaced by "), "{text}");
    assert_eq!(person.agents(&["plan", "apply", "@last", "--yes"]).exit, 0);
    assert!(person.read("made").contains("- another way"));
}

#[test]
fn a_plan_that_failed_is_tried_again_with_the_word() {
    let person = TestUser::new();
    let actor = "run: grep -q 'be quick' - && touch made\nstdin: \"{{prompt}}\"\n";
    person.write(".cleveragents/actors/picky.yaml", actor);
    let said = person.json(&["run", "make it", "--actor", "picky"]);
    assert_eq!(said.data()["state"], json!("errored"), "{said:?}");
    let said = person.json(&["plan", "prompt", "@last", "be quick"]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("complete")), "{said:?}");
    assert_eq!((&said.data()["attempt"], &said.data()["changes"]["files"]), (&json!(1), &json!(1)));
}

#[test]
fn a_plan_that_is_worked_on_keeps_a_word() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let plan = office.left("mkfifo $G/hold; echo began >> $G/began; read line < $G/hold; echo $line > made");
    office.until_lines("began", 1);
    let data = office.data(&["plan", "prompt", &plan, "be quick"]);
    assert_eq!((&data["state"], &data["attempt"]), (&json!("processing"), &json!(1)), "{data}");
    std::fs::write(office.gate.join("hold"), "go on\n").unwrap();
    assert_eq!(office.ended(&plan)["state"], json!("complete"));
    assert_eq!(kinds(&office.data(&["plan", "tree", &plan])), ["prompt", "strategy", "guidance"]);
}

/// The first attempt writes a file and waits for ever; the second is done at once.
const WAITS_ONCE: &str = "[ -e $G/began ] || { echo old > old; mkfifo $G/hold; echo began > $G/began; read line < $G/hold; }; echo new > new";

#[test]
fn a_plan_that_is_worked_on_is_stopped_and_begins_again_with_the_word() {
    let office = WorkerFixture::new();
    let _worker = office.worker(&[]);
    let plan = office.left(WAITS_ONCE);
    office.until_lines("began", 1);
    let said = office.data(&["plan", "prompt", &plan, "another way", "--replan"]);
    assert_eq!(said["attempt"], json!(2), "{said}");
    let ended = office.ended(&plan);
    assert_eq!((&ended["state"], &ended["attempt"]), (&json!("complete"), &json!(2)), "{ended}");
    assert_eq!((&ended["reversions"], &ended["changes"]["files"]), (&json!(1), &json!(1)), "{ended}");
    let tree = office.data(&["plan", "tree", &plan]);
    let mut found = kinds(&tree);
    found.sort_unstable();
    assert_eq!(found, ["guidance", "prompt", "reversion", "strategy"], "{tree}");
    assert!(tree.to_string().contains("another way"), "{tree}");
    // Nothing of the first attempt lives, and what it wrote reaches nothing else.
    assert_eq!(super::support::alive(&office.person), 0);
    let (exit, said) = office.call(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(exit, 0, "{said}");
    assert!(office.person.project().join("new").exists() && !office.person.project().join("old").exists());
}

#[test]
fn whoever_runs_a_plan_goes_on_with_it_when_somebody_else_has_it_begin_again() {
    let office = WorkerFixture::new();
    let gate = office.gate.display().to_string();
    let script = format!("G={gate}; {WAITS_ONCE}");
    let words = ["run", "--writable", &gate, "--format", "json", "--", "sh", "-c", &script];
    let mut command = office.person.command(&office.person.project(), &words);
    let running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    office.until_lines("began", 1);
    let said = office.data(&["plan", "prompt", "@last", "another way", "--replan"]);
    assert_eq!(said["attempt"], json!(2), "{said}");
    let output = running.wait_with_output().unwrap();
    let answer = super::support::CommandOutput::of(&output);
    assert_eq!((answer.exit, &answer.data()["attempt"]), (0, &json!(2)), "{answer:?}");
    assert_eq!(answer.data()["state"], json!("complete"));
}

#[test]
fn a_plan_that_only_reads_ends_with_its_work() {
    let person = TestUser::new();
    let action = "description: look\nread_only: true\nautomation: auto\nactor: {run: ls -a, writes: false}\n";
    person.write(".cleveragents/actions/look.yaml", action);
    let said = person.json(&["run", "look", "--apply", "--check", "true"]);
    assert_eq!((said.exit, &said.data()["state"]), (0, &json!("complete")), "{said:?}");
    let said = person.json(&["plan", "apply", "@last", "--yes", "--allow-empty"]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_READ_ONLY".to_owned()), "{said:?}");
}

#[test]
fn what_a_command_decides_as_it_works_is_recorded() {
    let person = TestUser::new();
    let said = json!({
        "steps": [{ "title": "look", "detail": "at all" }, "write"],
        "decisions": [{ "question": "Which?", "chosen": "the first", "confidence": 0.7, "rationale": "it is there" }],
        "usage": { "tokens_in": 5, "tokens_out": 3, "cost_micros": 7 },
    });
    let actor =
        format!("nodes:\n  work:\n    run: |\n      echo '{said}' > \"$AGENTS_OUTPUT\"; touch made\n");
    person.write(".cleveragents/actors/worker.yaml", &actor);
    let answer = person.json(&["run", "make it", "--actor", "worker"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let ledger = person.json(&["plan", "status"]).data()["ledger"].clone();
    assert_eq!((&ledger["tokens"]["used"], &ledger["cost"]["used"]), (&json!(8), &json!(7)), "{ledger}");
    let tree = person.json(&["plan", "tree", "@last"]).data();
    assert_eq!(kinds(&tree), ["prompt", "strategy", "choice", "choice"], "{tree}");
    let all = tree["decisions"].as_array().unwrap();
    assert_eq!(all[2]["chosen"], json!("1. look: at all\n2. write"), "{tree}");
    assert_eq!(
        (&all[3]["chosen"], &all[3]["parent"], &all[3]["node"]),
        (&json!("the first"), &json!(3), &json!("work"))
    );
    // Nobody thinks here, so that nothing would be thought out anew.
    let correct = person.json(&["plan", "explain", "@last:3"]).data()["correct"].as_str().unwrap().to_owned();
    assert!(correct.starts_with("agents plan prompt") && !correct.contains("--replan"), "{correct}");
    // One that cannot be recorded fails the node, and nothing of that output is.
    let wrong = r#"{"decisions": [{"chosen": "a"}, {"chosen": "b", "confidence": 7}]}"#;
    let actor = format!("nodes:\n  work:\n    run: |\n      echo '{wrong}' > \"$AGENTS_OUTPUT\"\n");
    person.write(".cleveragents/actors/worker.yaml", &actor);
    let answer = person.json(&["run", "make it", "--actor", "worker"]);
    assert_ne!(answer.exit, 0, "{answer:?}");
    let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
    assert!(errors.contains("DECISION_INVALID: node work"), "{errors}");
    assert_eq!(kinds(&person.json(&["plan", "tree", "@last"]).data()), ["prompt", "strategy"]);
}
