//! The confirmations of a user: gates by profile, the strategy before the work, and consent to what a project
//! asks for.

use std::fs;

use serde_json::{Value, json};

use super::support::{CommandOutput, TestUser, answer};
use super::terminal::Terminal;
use super::workers::WorkerFixture;

/// An actor that thinks: it names a strategy and one choice below it, which is so sure.
pub(super) fn thinker(confidence: f32) -> String {
    let said = json!({
        "summary": "Make the file",
        "steps": [{ "title": "make it", "detail": "with a word in it", "paths": ["made"] }],
        "decisions": [{
            "question": "Which file?", "chosen": "made", "rationale": "it is asked for", "confidence": confidence,
            "alternatives": [{ "text": "other", "why_not": "nobody asked" }],
        }],
    });
    format!("run: |\n  echo '{said}' > \"$AGENTS_OUTPUT\"\nwrites: false\n")
}

/// A person with an action that is thought out before it is done. What the doer is told is what it writes.
pub(super) fn person_who_thinks(confidence: f32) -> TestUser {
    let person = TestUser::new();
    person.write(".cleveragents/actors/thinker.yaml", &thinker(confidence));
    let action = "description: make the file\nstrategist: thinker\nactor:\n  run: cat > made\n  stdin: \"{{prompt}}\"\n";
    person.write(".cleveragents/actions/make-it.yaml", action);
    person
}

fn stands(data: &Value) -> (&str, &str) {
    (data["phase"].as_str().unwrap(), data["state"].as_str().unwrap())
}

fn moves(person: &TestUser, plan: &str) -> Vec<(String, String)> {
    let said = person.agents(&["plan", "watch", plan, "--format", "json"]).stdout;
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let moves = events.filter(|event| event["kind"] == "plan.moved");
    let word = |event: &Value, key: &str| event["data"][key].as_str().unwrap_or_default().to_owned();
    moves.map(|event| (word(&event, "event"), word(&event, "by"))).collect()
}

#[test]
fn a_manual_plan_waits_with_its_strategy_for_a_person() {
    let person = person_who_thinks(0.9);
    let said = person.json(&["run", "make-it", "--automation", "manual"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let data = said.data();
    assert_eq!(stands(&data), ("strategize", "complete"));
    let id = data["short_id"].as_str().unwrap();
    assert_eq!(
        data["waiting"],
        json!({ "reason": "a person says yes to the strategy", "command": format!("agents plan execute {id}") })
    );
    let shown = person.agents(&["plan", "status", id]).stdout;
    assert!(shown.contains("  waiting: a person says yes to the strategy\n"), "{shown}");
    assert!(shown.contains("by thinker"), "{shown}");
    // Nobody but a person starts it: to go on with what did not fail is no yes.
    let said = person.json(&["plan", "resume", id]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("strategize", "complete")), "{said:?}");
    let said = person.json(&["plan", "execute", id]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("execute", "complete")), "{said:?}");
    let moves = moves(&person, id);
    let advances: Vec<&str> =
        moves.iter().filter(|(event, _)| event == "advance").map(|(_, by)| by.as_str()).collect();
    assert_eq!(advances, ["person"], "{moves:?}");
    assert_eq!(person.agents(&["plan", "apply", id, "--yes"]).exit, 0);
    let made = person.read("made");
    assert!(made.contains("How it is to be done:\nMake the file\n1. make it"), "{made}");
}

#[test]
fn workers_leave_a_manual_plan_alone_until_a_person_says_yes() {
    let mut office = WorkerFixture::new();
    office.person = person_who_thinks(0.9);
    let _workers = [office.worker(&[]), office.worker(&[])];
    let left = office.data(&["run", "make-it", "--automation", "manual", "--detach"]);
    let id = left["plan_id"].as_str().unwrap().to_owned();
    // It is watched until it rests: then both workers have seen it end, and had their say.
    office.call(&["plan", "watch", &id]);
    assert_eq!(stands(&office.status(&id)), ("strategize", "complete"));
    // Another plan that goes through all its phases: the workers have looked at the queue since.
    let other = office.data(&["run", "make-it", "--detach"])["plan_id"].as_str().unwrap().to_owned();
    office.call(&["plan", "watch", &other]);
    assert_eq!(stands(&office.status(&other)), ("execute", "complete"));
    let status = office.status(&id);
    assert_eq!(stands(&status), ("strategize", "complete"), "{status}");
    let jobs = office.data(&["job", "list", "--all"]);
    let phases: Vec<&Value> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|job| job["plan_id"] == *id)
        .map(|job| &job["phase"])
        .collect();
    assert_eq!(phases, [&json!("strategize")], "{jobs}");
    office.data(&["plan", "execute", &id, "--detach"]);
    office.call(&["plan", "watch", &id]);
    assert_eq!(stands(&office.status(&id)), ("execute", "complete"));
}

#[test]
fn a_strategy_that_is_not_sure_enough_is_shown_before_it_is_followed() {
    let person = person_who_thinks(0.4);
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    let profile =
        "[automation]\ndefault = \"careful\"\n\n[automation.careful]\napply = \"auto\"\nask_below = 0.6\n";
    fs::write(person.config_file(), profile).unwrap();
    let said = person.json(&["run", "make-it", "--check", "true"]);
    assert_eq!(
        (said.exit, stands(&said.data())),
        (6, ("strategize", "complete")),
        "it was to be applied: {said:?}"
    );
    assert_eq!(said.data()["automation"], "careful");
    let reason = said.data()["waiting"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("only 0.40 sure (ask_below is 0.60)"), "{reason}");
    let said = person.json(&["plan", "execute", "@last"]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("apply", "applied")), "{said:?}");
    // The same is asked of nobody who wants it less sure.
    let said = person.json(&["run", "make-it", "--automation", "review"]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("execute", "complete")), "{said:?}");
    // An action and a project only make it stricter.
    person.write(".cleveragents/config.toml", "automation = \"manual\"\n");
    let said = person.json(&["run", "make-it", "--automation", "careful"]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("strategize", "complete")), "{said:?}");
    assert_eq!(said.data()["automation"], "careful+manual");
}

#[test]
fn a_profile_that_nobody_knows_is_an_error_and_none_is_lost_by_setting_one() {
    let person = TestUser::new();
    let said = person.json(&["run", "--automation", "yolo", "--", "true"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_VALUE_INVALID".to_owned()), "{said:?}");
    fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
    let profile = "# mine\n[automation.careful]\nask_below = 0.6\n";
    fs::write(person.config_file(), profile).unwrap();
    let said = person.json(&["config", "set", "automation=yolo"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_VALUE_INVALID".to_owned()), "{said:?}");
    assert_eq!(fs::read_to_string(person.config_file()).unwrap(), profile);
    assert_eq!(person.agents(&["config", "set", "automation=careful"]).exit, 0);
    assert_eq!(person.agents(&["config", "get", "automation"]).stdout, "careful\n");
    let text = fs::read_to_string(person.config_file()).unwrap();
    assert!(text.contains("# mine\n") && text.contains("ask_below = 0.6"), "{text}");
    person.write(".cleveragents/config.toml", "[automation.theirs]\napply = \"auto\"\n");
    let said = person.json(&["run", "--", "true"]);
    assert_eq!((said.exit, said.code()), (2, "CONFIG_NOT_ALLOWED_HERE".to_owned()), "{said:?}");
}

#[test]
fn a_yes_beforehand_skips_no_gate_but_its_own() {
    let person = person_who_thinks(0.9);
    let said = person.json(&["run", "make-it", "--automation", "manual", "--apply"]);
    assert_eq!((said.exit, stands(&said.data())), (6, ("strategize", "complete")), "{said:?}");
    assert!(!person.project().join("made").exists());
    let said = person.json(&["plan", "execute", "@last"]);
    assert_eq!((said.exit, stands(&said.data())), (0, ("apply", "applied")), "{said:?}");
}

#[test]
fn a_plan_whose_strategist_says_nothing_of_use_begins_again_once_and_then_asks() {
    let person = TestUser::new();
    person.write(
        ".cleveragents/actors/muddled.yaml",
        "run: echo '{' > \"$AGENTS_OUTPUT\"\nwrites: false\nretries: 0\n",
    );
    let action = "description: make it\nstrategist: muddled\nactor: {run: touch made}\n";
    person.write(".cleveragents/actions/make-it.yaml", action);
    let said = person.json(&["run", "make-it"]);
    assert_eq!((said.exit, said.code()), (6, "PLAN_ASKS".to_owned()), "{said:?}");
    let data = said.data();
    assert_eq!(stands(&data), ("strategize", "errored"));
    assert_eq!((&data["attempt"], &data["reversions"]), (&json!(2), &json!(1)), "{data}");
    let id = data["short_id"].as_str().unwrap();
    assert_eq!(data["error"]["command"], json!(format!("agents plan prompt {id} \"…\" --replan")));
    let hint = data["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("it has begun again by itself once already"), "{hint}");
    let moves = moves(&person, id);
    assert!(moves.contains(&("revert".to_owned(), "recovery".to_owned())), "{moves:?}");
    // A person may try it as it is, or say something: neither is refused.
    let said = person.json(&["plan", "resume", id]);
    assert_eq!((said.exit, said.code()), (6, "PLAN_ASKS".to_owned()), "{said:?}");
    person.write(".cleveragents/actors/muddled.yaml", &thinker(0.5));
    let said = person.json(&["plan", "prompt", id, "think of something else", "--replan"]);
    assert_eq!(said.data()["reversions"], json!(2), "what it was made from is frozen: {said:?}");
    let manual = person.json(&["run", "--automation", "manual", "make-it"]);
    assert_eq!(manual.data()["reversions"], json!(0), "the file is sound by now: {manual:?}");
}

#[test]
fn a_strategy_that_says_wrongly_how_sure_it_is_passes_no_gate() {
    let profile = "[automation.careful]\nask_below = 0.6\nreplan = \"ask\"\n";
    for (said, why) in [
        (json!({ "chosen": "made", "confidence": 40 }), "its confidence is 40, and not from 0 to 1"),
        (json!({ "chosen": "made", "confidence": "low" }), "it is not a decision"),
        (json!({ "question": "Which?", "confidence": 0.1 }), "missing field `chosen`"),
    ] {
        let person = person_who_thinks(0.9);
        fs::create_dir_all(person.config_file().parent().unwrap()).unwrap();
        fs::write(person.config_file(), profile).unwrap();
        let output = json!({ "summary": "Make it", "decisions": [said] });
        let actor = format!("run: |\n  echo '{output}' > \"$AGENTS_OUTPUT\"\nwrites: false\nretries: 0\n");
        person.write(".cleveragents/actors/thinker.yaml", &actor);
        let said = person.json(&["run", "make-it", "--automation", "careful"]);
        assert_ne!(said.exit, 0, "{why}: {said:?}");
        assert_eq!(stands(&said.data()), ("strategize", "errored"), "{said:?}");
        let errors = person.json(&["plan", "errors", "@last"]).envelope().to_string();
        assert!(errors.contains("DECISION_INVALID") && errors.contains(why), "{why}: {errors}");
    }
}

#[test]
fn what_a_strategist_needs_is_looked_for_before_anything_is_stored() {
    let person = TestUser::new();
    let action = "description: make it\nstrategist: {run: [no-such-thinker]}\nactor: {run: [no-such-doer], stdin: \"{{prompt}}\"}\n";
    person.write(".cleveragents/actions/make-it.yaml", action);
    let said = person.json(&["run", "make-it"]);
    assert_eq!((said.exit, said.code()), (4, "PREFLIGHT_FAILED".to_owned()), "{said:?}");
    let found = said.envelope()["messages"][0]["detail"].to_string();
    assert!(
        found.contains("`no-such-doer` was not found") && found.contains("`no-such-thinker` was not found"),
        "{found}"
    );
    person.write(".cleveragents/actors/odd.yaml", "model: ollama/small\ntools: [read, teleport]\n");
    let said = person.json(&["run", "do it", "--actor", "odd"]);
    assert_eq!((said.exit, said.code()), (2, "DEFINITION_INVALID".to_owned()), "{said:?}");
    assert!(said.stdout.contains("there is no tool `teleport`"), "{said:?}");
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

/// An actor that wants a variable, in a project.
fn person_who_is_asked() -> TestUser {
    let person = TestUser::new();
    person.write(".cleveragents/actors/wants.yaml", "run: echo \"$KEY\" > made\npass_env: [KEY]\n");
    person
}

fn run_wants(person: &TestUser, words: &[&str]) -> CommandOutput {
    let words = [&["run", "a task", "--actor", "wants", "--format", "json"][..], words].concat();
    answer(person.command(&person.project(), &words).env("KEY", "mine"))
}

#[test]
fn a_consent_is_kept_until_the_file_changes() {
    let person = person_who_is_asked();
    let refused = |said: &CommandOutput| (said.exit, said.code()) == (6, "CONSENT_NEEDED".to_owned());
    let said = run_wants(&person, &[]);
    assert!(refused(&said), "{said:?}");
    let message = said.envelope()["messages"][0]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("wants.yaml asks for your variable KEY"), "{message}");
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
    assert_eq!(run_wants(&person, &["--trust"]).exit, 0);
    assert_eq!(run_wants(&person, &[]).exit, 0, "it was said once");
    let plans = person.json(&["plan", "list"]).data()["total"].clone();
    assert_eq!(plans, json!(2));
    person.write(".cleveragents/actors/wants.yaml", "run: echo \"$KEY\" > made # now\npass_env: [KEY]\n");
    assert!(refused(&run_wants(&person, &[])), "another content has no yes");
    // The same file in another project is another's.
    let other = TestUser::new();
    other.write(".cleveragents/actors/wants.yaml", "run: echo \"$KEY\" > made\npass_env: [KEY]\n");
    let data = person.home().join("data");
    let mut command =
        other.command(&other.project(), &["run", "a task", "--actor", "wants", "--format", "json"]);
    let said = answer(command.env("CLEVERAGENTS_DATA_DIR", data));
    assert!(refused(&said), "{said:?}");
}

#[test]
fn a_consent_is_asked_for_at_a_terminal() {
    let person = person_who_is_asked();
    for (typed, exit) in [("n\r", 6), ("y\r", 0)] {
        let mut terminal = Terminal::call(&person, &["run", "a task", "--actor", "wants"]);
        terminal.sees("asks for your variable KEY");
        terminal.sees("[y/N]");
        terminal.types(typed);
        let left = terminal.ends();
        assert_eq!(left.exit, Some(exit), "{}", left.text);
    }
    assert_eq!(run_wants(&person, &[]).exit, 0, "what was typed is kept");
}
