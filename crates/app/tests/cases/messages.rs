//! The wording of summaries, hints and answers.

use serde_json::{Value, json};

use super::support::{TestUser, answer};

#[test]
fn a_failure_for_want_of_the_network_tells_how_to_allow_it() {
    let person = TestUser::new();
    let script = "echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6";
    let said = person.agents(&["run", "--", "sh", "-c", script]);
    assert_eq!(said.exit, 1);
    assert!(
        said.stderr.contains("hint: let it use the network: `agents run --network -- sh -c "),
        "{said:?}"
    );
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("plan resume"), "{said:?}");
    let status = person.json(&["plan", "status"]).data();
    assert!(status["error"]["command"].as_str().unwrap().starts_with("agents run --network -- sh -c "));
    let errors = person.agents(&["plan", "errors"]).stdout;
    assert!(errors.contains("agents run --network -- sh -c "), "{errors}");
    // Where it was allowed, it is not what is missing.
    let said = person.agents(&["run", "--network", "--", "sh", "-c", script]);
    assert!(said.stderr.contains("try again with `agents plan resume "), "{said:?}");
}

#[test]
fn a_refused_apply_tells_the_command_with_all_that_was_typed() {
    let person = TestUser::new();
    person.write("a.txt", "one\n");
    person.plan("echo plan > a.txt");
    person.write("a.txt", "mine\n");
    let id = person.json(&["plan", "status"]).data()["short_id"].as_str().unwrap().to_owned();
    let said = person.agents(&["plan", "apply", "@last", "--yes", "--commit", "-m", "a b"]);
    let typed = format!("`agents plan apply {id} --commit --message 'a b' --reject a.txt#1`");
    assert!(said.exit == 4 && said.stderr.contains(&typed), "{said:?}");
    let said = person.agents(&["plan", "apply", "@last", "--yes", "--branch", "b"]);
    assert!(said.stderr.contains(&format!("`agents plan apply {id} --branch b --take a.txt#1`")), "{said:?}");
}

#[test]
fn a_variable_that_is_not_there_to_be_passed_on_is_told() {
    let person = TestUser::new();
    let args = ["run", "--pass-env", "THE_KEY", "--pass-env", "OTHER", "--", "sh", "-c", "echo $THE_KEY"];
    let said = answer(person.command(&person.project(), &args).env("OTHER", "x"));
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("note: THE_KEY is not set, so the command does not get it\n"), "{said:?}");
    assert!(!said.stderr.contains("OTHER is not set"), "{said:?}");
    let again = ["plan", "execute", "@last", "--again"];
    let said = answer(person.command(&person.project(), &again).env("THE_KEY", "k"));
    assert!(!said.stderr.contains("THE_KEY") && said.stderr.contains("OTHER is not set"), "{said:?}");
}

#[test]
fn a_long_script_is_named_on_one_short_line() {
    let person = TestUser::new();
    let script = format!("set -e\n\n  : {}\nexit 3", "x".repeat(200));
    let check = format!("true\n# {}\nfalse", "y".repeat(200));
    let said = person.agents(&["run", "--check", &check, "--", "sh", "-c", &script]);
    assert_eq!(said.exit, 1, "{said:?}");
    let list = person.agents(&["plan", "list"]).stdout;
    assert!(list.contains("sh -c 'set -e : xxx") && list.contains('…'), "{list}");
    let errors = person.agents(&["plan", "errors"]).stdout;
    let passing =
        person.agents(&["run", "--check", &check, "--", "sh", "-c", &script.replace("exit 3", "true")]);
    for text in [&said.stdout, &said.stderr, &list, &errors, &passing.stdout, &passing.stderr] {
        assert!(!text.contains(&"x".repeat(90)) && !text.contains(&"y".repeat(90)), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("exit 3") && !line.starts_with('#')), "{text}");
    }
    assert!(passing.stdout.contains("failed: true # yyy"), "{}", passing.stdout);
    // Programs read all of it.
    assert!(person.json(&["plan", "status"]).data()["command"].as_str().unwrap().contains(&"x".repeat(200)));
}

#[test]
fn what_run_is_told_to_ignore_is_no_part_of_the_result() {
    let person = TestUser::new();
    person.write(".gitignore", "cache/\n");
    let script = "mkdir cache dist; echo 1 > cache/a; echo 2 > dist/b; echo 3 > c.log; echo 4 > kept";
    let args = ["run", "--ignore", "dist/", "--ignore", "*.log", "--", "sh", "-c", script];
    assert_eq!(person.agents(&args).exit, 0);
    assert_eq!(person.agents(&["plan", "diff", "@last", "--name-only"]).stdout, "kept\n");
    assert_eq!(person.agents(&["run", "--ignore", "", "--", "true"]).exit, 2);
}

#[test]
fn the_status_of_a_failed_plan_says_why_and_what_to_type() {
    let person = TestUser::new();
    person.agents(&["run", "--", "sh", "-c", "exit 3"]);
    let said = person.agents(&["plan", "status"]);
    let status = person.json(&["plan", "status"]).data();
    let resume = format!("agents plan resume {}", status["short_id"].as_str().unwrap());
    assert!(
        said.stdout.contains("  tool: `sh -c 'exit 3'` exited with status 3\n")
            && said.stdout.contains(&format!("     {resume}\n")),
        "{}",
        said.stdout
    );
    assert_eq!((said.exit, &status["error"]["command"]), (0, &json!(resume)));
    // Only commands that can be typed are told.
    assert!(!person.agents(&["plan", "errors"]).stdout.contains("plan prompt"));
}

#[test]
fn status_tells_when_each_phase_began_and_ended() {
    let person = TestUser::new();
    person.agents(&["plan", "use", "--", "touch", "made"]);
    let times = || person.json(&["plan", "status"]).data()["times"].clone();
    let made = times();
    let phases = made["phases"].as_array().unwrap();
    assert_eq!((phases.len(), &phases[0]["phase"], &made["undone"]), (1, &json!("strategize"), &Value::Null));
    let text = || {
        let shown = person.agents(&["plan", "status"]).stdout;
        shown.lines().find(|line| line.starts_with("times  made ")).unwrap().to_owned()
    };
    assert!(text().contains(", strategize ") && !text().contains("execute"), "{}", text());

    person.agents(&["plan", "execute", "@last"]);
    person.agents(&["plan", "execute", "@last", "--again"]);
    person.agents(&["plan", "apply", "@last", "--yes"]);
    person.agents(&["plan", "undo", "@last", "--yes"]);
    let phases = times()["phases"].as_array().unwrap().clone();
    let order: Vec<Value> = phases.iter().map(|time| json!([time["attempt"], time["phase"]])).collect();
    assert_eq!(json!(order), json!([[1, "strategize"], [1, "execute"], [2, "execute"], [2, "apply"]]));
    let mut last = times()["created"].as_str().unwrap().to_owned();
    for moment in phases.iter().flat_map(|time| [&time["started"], &time["finished"]]) {
        let moment = moment.as_str().unwrap().to_owned();
        assert!(last <= moment, "{last} {moment}");
        last = moment;
    }
    assert!(phases.iter().all(|time| time["duration_ms"].is_u64()), "{phases:?}");
    assert!(times()["undone"].as_str().unwrap() >= last.as_str());
    let words: Vec<String> =
        text().split(", ").map(|part| part.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(words, ["times", "strategize", "execute", "apply", "undone"]);
}

/// Every key of the shape is there.
fn assert_shape(data: &Value, command: &str) {
    let has = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "{command}: {key} is missing in {value}");
        }
    };
    has(data, &["plan_id", "title", "action", "projects", "phase", "state", "attempt", "reversions"]);
    has(
        data,
        &["automation", "waiting", "steps", "changes", "validations", "usage", "error", "times", "next"],
    );
    has(&data["projects"][0], &["alias", "root", "sandbox"]);
    has(&data["changes"], &["files", "insertions", "deletions", "ignored"]);
    has(&data["validations"], &["verdict", "passed", "failed"]);
    has(&data["usage"], &["tokens", "cost"]);
    has(&data["next"][0], &["why", "command"]);
    has(&data["times"], &["created", "updated", "undone", "phases"]);
    assert!(data["state"].is_string(), "{command}: {data}");
}

#[test]
fn every_command_that_answers_with_a_plan_answers_in_one_shape() {
    let person = TestUser::new();
    let shaped = |args: &[&str], exit: i32| {
        let said = person.json(args);
        assert_eq!(said.exit, exit, "{said:?}");
        assert_shape(&said.data(), &args.join(" "));
        said.data()
    };
    shaped(&["plan", "use", "--", "touch", "made"], 0);
    let done = shaped(&["plan", "execute", "@last"], 0);
    for key in ["node", "outcome", "tries", "duration_ms", "changed"] {
        assert!(done["steps"][0].get(key).is_some(), "{key}: {done}");
    }
    assert_eq!(done["waiting"]["command"], done["next"][1]["command"]);
    shaped(&["plan", "status"], 0);
    let applied = shaped(&["plan", "apply", "@last", "--yes"], 0);
    assert_eq!((&applied["state"], &applied["applied"]), (&json!("applied"), &json!(true)));
    let undone = shaped(&["plan", "undo", "@last", "--yes"], 0);
    assert_eq!((&undone["undone"], &undone["applied"]), (&json!(true), &json!(false)));
    shaped(&["run", "--", "touch", "other"], 0);
    shaped(&["plan", "cancel", "@last"], 0);
    let failed = shaped(&["run", "--", "false"], 1);
    for key in ["category", "message", "hint"] {
        assert!(failed["error"][key].is_string(), "{key}: {failed}");
    }
    shaped(&["plan", "resume", "@last"], 1);
}
