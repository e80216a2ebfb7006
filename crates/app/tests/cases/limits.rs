//! Limits: what a plan may use, how it is told that it used it, and how it goes on; and the history of its
//! errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::{TestUser, alive};

/// A place that commands may write and no plan takes back.
fn outside(person: &TestUser) -> PathBuf {
    let place = person.home().join("outside");
    fs::create_dir_all(&place).unwrap();
    place
}

fn lines(file: impl AsRef<Path>) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

fn status(person: &TestUser) -> Value {
    person.json(&["plan", "status"]).data()
}

/// `used`, `reserved` and `max` of an account.
fn account(person: &TestUser, kind: &str) -> [Value; 3] {
    let ledger = status(person)["ledger"][kind].clone();
    ["used", "reserved", "max"].map(|key| ledger[key].clone())
}

#[test]
fn a_plan_stops_where_its_tool_calls_are_used_up_and_goes_on_when_it_gets_more() {
    let person = TestUser::new();
    let place = outside(&person);
    let script = format!("echo ran >> {}/ran; echo 1 > made", place.display());
    let args = ["--limit", "tool_calls=1", "--check", "test -e made", "--writable", place.to_str().unwrap()];
    let said = person.json(&[&["run"][..], &args, &["--", "sh", "-c", &script]].concat());
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    let status = status(&person);
    let resume = format!("agents plan resume {} --limit tool_calls=2", status["short_id"].as_str().unwrap());
    assert_eq!(
        status["error"],
        json!({
            "category": "budget",
            "message": "the plan has a limit of 1 tool calls (tool_calls): 1 used, 1 more asked for",
            "hint": "a limit of the plan is reached; resume with a higher one",
            "command": resume, "exit_status": null, "output": [],
        })
    );
    assert_eq!(account(&person, "tool_calls"), [json!(1), json!(0), json!(1)]);
    assert_eq!(account(&person, "steps"), [json!(1), json!(0), json!(200)]);
    let plain = person.agents(&["plan", "resume", "@last"]);
    assert_eq!(plain.exit, 6, "nothing has changed: {plain:?}");
    assert!(plain.stderr.contains(&format!("hint: let it use more and continue: `{resume}`")), "{plain:?}");
    let words: Vec<&str> = resume.split(' ').skip(1).collect();
    let said = person.json(&words);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(lines(place.join("ran")), 1, "what was done is not done again");
    assert_eq!(account(&person, "tool_calls"), [json!(2), json!(0), json!(2)]);
    let text = person.agents(&["plan", "status"]).stdout;
    assert!(text.contains("1 of 200 steps, 2 of 2 tool calls\n"), "{text}");
}

#[test]
fn what_a_person_types_goes_before_the_limit_of_a_project_and_a_project_before_the_default() {
    let person = TestUser::new();
    person.write(".cleveragents/config.toml", "limits.steps = 3\n");
    for (args, steps) in [(&[][..], 3), (&["--limit", "steps=400"][..], 400)] {
        let said = person.json(&[&["run"][..], args, &["--", "true"]].concat());
        assert_eq!(said.exit, 0, "{said:?}");
        assert_eq!(account(&person, "steps"), [json!(1), json!(0), json!(steps)]);
    }
}

#[test]
fn a_plan_runs_as_many_steps_as_it_may_and_each_once() {
    let person = TestUser::new();
    let place = outside(&person);
    let step = |name: &str| format!("echo {name} >> {}/steps; echo {name} > {name}", place.display());
    let (one, two, three) = (step("one"), step("two"), step("three"));
    let args = ["--writable", place.to_str().unwrap(), "--step", &one, "--step", &two, "--step", &three];
    let said = person.json(&[&["run", "--limit", "steps=2"][..], &args].concat());
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    assert_eq!(account(&person, "steps"), [json!(2), json!(0), json!(2)]);
    assert_eq!(account(&person, "tool_calls"), [json!(2), json!(0), json!(1000)], "the refused call is none");
    let errors = person.json(&["plan", "errors"]).data();
    let record = &errors["records"][0];
    assert_eq!((&record["node"], &record["limit"]), (&json!("step3"), &json!("steps")), "{errors}");
    assert_eq!(errors["next"]["command"], record["command"]);
    let said = person.json(&["plan", "resume", "@last", "--limit", "steps=none"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(fs::read_to_string(place.join("steps")).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(account(&person, "steps"), [json!(3), json!(0), json!(null)]);
}

#[test]
fn to_try_a_step_again_is_a_call_and_no_step() {
    let person = TestUser::new();
    let place = outside(&person);
    let flaky = format!("echo try >> {0}/tries; test $(wc -l < {0}/tries) -ge 3", place.display());
    let args = ["run", "--retries", "2", "--writable", place.to_str().unwrap(), "--limit", "steps=1"];
    let said = person.json(&[&args[..], &["--", "sh", "-c", &flaky]].concat());
    assert_eq!((said.exit, lines(place.join("tries"))), (0, 3), "{said:?}");
    assert_eq!(account(&person, "steps"), [json!(1), json!(0), json!(1)]);
    assert_eq!(account(&person, "tool_calls"), [json!(3), json!(0), json!(1000)]);
}

#[test]
fn how_often_a_step_is_tried_again_a_person_says_before_the_file() {
    let person = TestUser::new();
    let place = outside(&person);
    let actor =
        format!("run: 'echo try >> {0}/tries; exit 1'\nwritable: ['{0}']\nretries: 2\n", place.display());
    let dir = person.home().join(".config/cleveragents/actors");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("flaky.yaml"), actor).unwrap();
    for (args, tries) in [(&[][..], 3), (&["--retries", "0"][..], 4), (&["--retries", "1"][..], 6)] {
        person.agents(&[&["run", "do it", "--actor", "flaky"][..], args].concat());
        assert_eq!(lines(place.join("tries")), tries, "{args:?}");
    }
}

#[test]
fn a_plan_that_worked_as_long_as_it_may_goes_on_with_more_time_only() {
    let person = TestUser::new();
    let place = outside(&person);
    let script = format!("echo try >> {0}/tries; test -e {0}/go || sleep 1000", place.display());
    let args = ["run", "--limit", "time=1s", "--writable", place.to_str().unwrap()];
    let said = person.json(&[&args[..], &["--", "sh", "-c", &script]].concat());
    assert_eq!((said.exit, said.code()), (6, "LIMIT_REACHED".to_owned()), "{said:?}");
    assert_eq!((alive(&person), &status(&person)["error"]["category"]), (0, &json!("budget")));
    assert_eq!(account(&person, "time_ms"), [json!(1000), json!(0), json!(1000)]);
    fs::write(place.join("go"), "").unwrap();
    let said = person.json(&["plan", "resume", "@last"]);
    assert_eq!((said.exit, lines(place.join("tries"))), (6, 1), "there is no time to begin: {said:?}");
    let command = status(&person)["error"]["command"].as_str().unwrap().to_owned();
    assert!(command.ends_with(" --limit time=2s"), "{command}");
    let said = person.json(&["plan", "resume", "@last", "--limit", "time=1h"]);
    assert_eq!((said.exit, lines(place.join("tries"))), (0, 2), "{said:?}");
}

#[test]
fn what_a_killed_process_had_begun_counts_and_no_more() {
    let person = TestUser::new();
    let place = outside(&person);
    let script = format!("echo try >> {0}/tries; test -e {0}/go || sleep 1000", place.display());
    let args = ["run", "--limit", "tool_calls=2", "--writable", place.to_str().unwrap()];
    let args = [&args[..], &["--", "sh", "-c", &script]].concat();
    let mut command = person.command(&person.project(), &args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while lines(place.join("tries")) < 1 {}
    assert_eq!(account(&person, "tool_calls"), [json!(1), json!(0), json!(2)]);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(place.join("go"), "").unwrap();
    let said = person.json(&["plan", "resume", "@last"]);
    assert_eq!((said.exit, lines(place.join("tries"))), (0, 2), "{said:?}");
    let ledger = status(&person)["ledger"].clone();
    assert_eq!(ledger["tool_calls"], json!({ "used": 2, "reserved": 0, "max": 2, "assumed": 0 }));
    assert_eq!(ledger["steps"], json!({ "used": 1, "reserved": 0, "max": 200, "assumed": 0 }));
    assert_eq!((&ledger["time_ms"]["reserved"], &ledger["time_ms"]["assumed"]), (&json!(0), &json!(0)));
}

#[test]
fn limits_come_from_the_settings_and_a_project_may_only_tighten_them() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["config", "set", "limits.steps=5", "limits.tool_calls=6"]).exit, 0);
    person.write(".cleveragents/config.toml", "limits.steps = 4\nlimits.tool_calls = 7\n");
    assert_eq!(person.json(&["plan", "use", "--", "true"]).exit, 0);
    assert_eq!(account(&person, "steps"), [json!(0), json!(0), json!(4)]);
    assert_eq!(account(&person, "tool_calls"), [json!(0), json!(0), json!(6)]);
    assert_eq!(person.json(&["plan", "use", "--limit", "steps=9", "--", "true"]).exit, 0);
    assert_eq!(
        account(&person, "steps"),
        [json!(0), json!(0), json!(9)],
        "the person at the keyboard decides"
    );
}

#[test]
fn a_limit_that_cannot_be_is_refused_before_anything_is_stored() {
    let person = TestUser::new();
    for (limit, words) in [
        ("step=3", "there is no limit `step`; the limits are time, steps, tool_calls"),
        ("steps", "a limit is set as NAME=VALUE, like steps=300"),
        ("steps=-1", "`-1` is not a limit of steps"),
        ("time=5", "`5` is not a limit of time: it takes a duration from 1s to 30d"),
    ] {
        let said = person.agents(&["run", "--limit", limit, "--", "true"]);
        assert!(said.exit == 2 && said.stderr.contains(words), "{said:?}");
    }
    let said = person.agents(&["run", "--limit", "steps=0", "--limit", "tool_calls=0", "--", "true"]);
    assert_eq!(said.exit, 4, "{said:?}");
    for words in ["limits.steps is 0: nothing could run", "limits.tool_calls is 0: nothing could run"] {
        assert!(said.stderr.contains(words), "{said:?}");
    }
    assert_eq!(person.json(&["plan", "list"]).data()["total"], json!(0));
}

#[test]
fn a_limit_below_what_was_used_is_refused_and_a_final_plan_has_none() {
    let person = TestUser::new();
    person.agents(&["run", "--step", "true", "--step", "true", "--step", "false"]);
    let said = person.json(&["plan", "resume", "@last", "--limit", "time=1h", "--limit", "steps=2"]);
    assert_eq!((said.exit, said.code()), (2, "LIMIT_TOO_LOW".to_owned()), "{said:?}");
    assert_eq!(account(&person, "time_ms")[2], json!(7_200_000), "all or none");
    assert_eq!(person.agents(&["plan", "cancel", "@last"]).exit, 0);
    let said = person.json(&["plan", "resume", "@last", "--limit", "steps=300"]);
    assert_eq!((said.exit, said.code()), (4, "PLAN_FINAL".to_owned()), "{said:?}");
    assert_eq!(account(&person, "steps")[2], json!(200));
}

#[test]
fn every_error_has_a_row_and_the_way_on_is_told() {
    let person = TestUser::new();
    person.agents(&["run", "--retries", "1", "--step", "true", "--step", "exit 3"]);
    let said = person.agents(&["plan", "errors"]);
    let errors = person.json(&["plan", "errors"]).data();
    let rows: Vec<Vec<&str>> = said.stdout.lines().map(|line| line.split("  ").collect()).collect();
    let id = status(&person)["short_id"].as_str().unwrap().to_owned();
    assert_eq!(rows.len(), 4, "{}", said.stdout);
    let calls: Vec<Value> =
        errors["records"].as_array().unwrap().iter().map(|row| row["call"].clone()).collect();
    assert_eq!(calls, [json!(2), json!(3)], "each names its call");
    for (row, (seq, action, call)) in rows.iter().zip([("1", "retry 1/1 in 0 ms", 2), ("2", "asks you", 3)]) {
        let cells: Vec<&str> = row.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect();
        let clock = cells[1];
        let is_clock = clock.len() == 8 && clock.split(':').all(|part| part.len() == 2);
        assert!(is_clock, "{clock}");
        let message = format!("`exit 3` exited with status 3 (call {call})");
        assert_eq!(cells, [seq, clock, "execute", "step2", "tool", action, &message], "{}", said.stdout);
    }
    let next = errors["next"]["why"].as_str().unwrap();
    assert!(next.starts_with("it waits for you: "), "{next}");
    assert!(
        said.stdout.ends_with(&format!("next  {next}\n      agents plan resume {id}\n")),
        "{}",
        said.stdout
    );
    let first = &errors["records"][0];
    assert_eq!(first["retry"], json!({ "attempt": 1, "of": 1, "after_ms": 0 }));
    assert!(first["at"].as_str().unwrap().ends_with('Z'), "{first}");
    assert_eq!(
        (&errors["recorded"], &errors["retries"], &errors["older"]),
        (&json!(2), &json!(1), &json!([]))
    );
    // What came right in the end is still told, and that nothing follows from it.
    let place = outside(&person);
    let flaky = format!("echo try >> {0}/tries; test $(wc -l < {0}/tries) -ge 2", place.display());
    let args = ["run", "--retries", "1", "--writable", place.to_str().unwrap(), "--", "sh", "-c", &flaky];
    assert_eq!(person.agents(&args).exit, 0);
    let said = person.agents(&["plan", "errors"]).stdout;
    assert!(said.contains("next  nothing more about these: the plan is execute/complete\n"), "{said}");
}

#[test]
fn errors_that_are_only_counted_any_more_are_told_by_category() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["config", "set", "recovery.max_retries_per_plan=1000"]).exit, 0);
    person.agents(&["run", "--retries", "100", "--", "sh", "-c", "exit 3"]);
    person.agents(&["plan", "resume", "@last"]);
    let said = person.agents(&["plan", "errors"]).stdout;
    let errors = person.json(&["plan", "errors"]).data();
    let recorded = errors["recorded"].as_u64().unwrap();
    assert_eq!(recorded, 100 + errors["folded"].as_u64().unwrap(), "{errors}");
    assert_eq!(errors["records"].as_array().unwrap().len(), 100);
    let folded = recorded - 100;
    assert!(said.starts_with(&format!("{folded} older, only counted: {folded} tool (")), "{said}");
    let older = &errors["older"][0];
    assert_eq!((&older["category"], &older["count"]), (&json!("tool"), &json!(folded)));
    assert!(older["first"].as_str() <= older["last"].as_str() && older["first"].is_string(), "{older}");
}
