//! The output about a plan: questions and answers of models, calls with their arguments, and the next steps.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::model_world::{KEY, ModelFixture, Wire, calls, says};
use super::support::TestUser;
use testkit::scripted_server::Script;

/// The text as lines, without the times and what was spent, which differ.
fn heads(logs: &str) -> Vec<&str> {
    let heads = logs.lines().filter(|line| line.starts_with("== call "));
    heads.map(|line| line.split(", ").next().unwrap()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

#[test]
fn what_a_model_was_asked_and_answered_is_seen_in_its_order() {
    let turns = [calls([("read_file", json!({"path": "price.sh"}))]), says("It adds.\nIt should not.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.agents(&["run", "What does it do?", "--actor", "mender"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(
        said.stdout.contains("\n\nIt adds.\nIt should not.\n\nnext  "),
        "the answer is the result: {said:?}"
    );
    let logs = world.person.agents(&["plan", "logs", "@last"]).stdout;
    let expected = [
        "== call 1  main  ask_model scripted/m-1  ok",
        "== call 2  main  read_file price.sh  ok",
        "== call 3  main  ask_model scripted/m-1  ok",
    ];
    assert_eq!(heads(&logs), expected, "{logs}");
    assert!(logs.contains("total() { echo"), "{logs}");
    assert!(logs.contains("tokens read, 10 written, 0.") && logs.contains(" dollars"), "{logs}");
    assert!(logs.ends_with("  (the plan's answer)\nIt adds.\nIt should not.\n"), "{logs}");
    let third = world.person.agents(&["plan", "logs", "@last", "--call", "3"]).stdout;
    assert_eq!(third, "It adds.\nIt should not.\n");

    let data = world.person.json(&["plan", "logs", "@last"]).data();
    assert_eq!(data["answer"], "It adds.\nIt should not.");
    let call = &data["calls"][0];
    assert_eq!((&call["tool"], &call["requested"]["model"]), (&json!("ask_model"), &json!("scripted/m-1")));
    assert_eq!(
        (&call["result"]["calls"], &call["result"]["stop"]),
        (&json!(["read_file"]), &json!("tool_use"))
    );
    assert_eq!(data["calls"][2]["is_answer"], true);
    assert_eq!(world.person.json(&["plan", "status"]).data()["answer"], data["answer"]);
    // A question is no call of a tool, and the node that asks it is one step.
    assert_eq!((&world.used("tool_calls")["used"], &world.used("steps")["used"]), (&json!(1), &json!(1)));
}

#[test]
fn a_model_that_only_reads_or_says_what_does_not_fit_is_seen_too() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Two files.")]));
    world.person.write(
        ".cleveragents/actions/look.yaml",
        "description: Look around\nread_only: true\nactor: mender\n",
    );
    let said = world.agents(&["run", "look"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stdout.contains("no changes\n\nTwo files.\n\nnext  "), "{said:?}");
    assert!(world.person.agents(&["plan", "logs", "@last"]).stdout.contains("Two files."));

    let turns = [says("It is fine, I think."), says("As I said: fine.")];
    let world =
        ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "output: {ok: boolean}\nretries: 0\n");
    let said = world.run(&[]);
    assert_eq!((said.exit, &said.data()["answer"]), (6, &Value::Null), "{said:?}");
    let logs = world.person.agents(&["plan", "logs", "@last"]).stdout;
    assert!(logs.contains("It is fine, I think.\n") && logs.contains("As I said: fine.\n"), "{logs}");
    assert!(!logs.contains("the plan's answer"), "{logs}");
}

#[test]
fn secrets_in_an_answer_are_not_shown() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let said: &'static str = Box::leak(format!("The token is {secret}.").into_boxed_str());
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says(said)]));
    let answer = world.agents(&["run", "Which token?", "--actor", "mender"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let logs = world.person.agents(&["plan", "logs", "@last"]);
    let json = world.person.json(&["plan", "logs", "@last"]);
    for shown in [&answer, &logs, &json] {
        assert!(
            !shown.stdout.contains(&secret) && shown.stdout.contains("[REDACTED:github_token"),
            "{shown:?}"
        );
    }
}

#[test]
fn a_call_that_died_with_its_process_says_so() {
    let person = TestUser::new();
    let mut command = person.command(&person.project(), &["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let logs = || person.agents(&["plan", "logs", "@last"]).stdout;
    while !logs().contains("ready\n") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    assert_eq!(heads(&logs()), ["== call 1  execute  run_command sh -c 'echo ready; sleep 1000'  running"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let broken_off = "run_command sh -c 'echo ready; sleep 1000'  interrupted: its process is gone";
    assert!(logs().contains(broken_off), "{}", logs());
    assert_eq!(person.json(&["plan", "logs", "@last"]).data()["calls"][0]["state"], "broken_off");
    let outcome = || person.json(&["plan", "status", "@last"]).data()["steps"][0]["outcome"].clone();
    assert_eq!(outcome(), "broken_off");
    assert_eq!(person.json(&["plan", "cancel", "@last"]).exit, 0);
    assert_eq!(outcome(), "cancelled");
}

#[test]
fn a_step_ends_in_the_same_words_whatever_it_is() {
    let turns = [calls([("read_file", json!({"path": "price.sh"}))]), says("Read.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.run(&["--check", "true"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let steps = said.data()["steps"].clone();
    let all: Vec<(&str, &str)> =
        steps.as_array().unwrap().iter().map(|step| (text(&step["node"]), text(&step["outcome"]))).collect();
    assert_eq!(all, [("main", "succeeded"), ("validate/true", "succeeded")], "{steps}");
}

#[test]
fn a_model_that_is_cancelled_was_at_work_since_it_was_first_asked() {
    let turns = [calls([("run_command", json!({"command": "echo at it; sleep 1000", "timeout_s": 2000}))])];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let mut command = world.person.command(&world.person.project(), &["run", "Make it", "--actor", "mender"]);
    let mut child =
        command.env("SCRIPTED_KEY", KEY).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !world.person.agents(&["plan", "logs", "@last"]).stdout.contains("at it\n") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended and did not wait");
    }
    assert_eq!(world.person.json(&["plan", "cancel", "@last"]).exit, 0);
    child.wait().unwrap();
    let (status, logs) =
        (world.person.json(&["plan", "status"]).data(), world.person.json(&["plan", "logs"]).data());
    let step = &status["steps"][0];
    assert_eq!((&step["outcome"], &step["tries"]), (&json!("cancelled"), &json!(1)), "{status}");
    let took = |call: usize| logs["calls"][call]["duration_ms"].as_u64().unwrap();
    assert!(step["duration_ms"].as_u64().unwrap() >= took(1), "both calls count: {status} {logs}");
}

#[test]
fn a_plan_whose_check_failed_is_neither_called_well_nor_sent_in_circles() {
    let person = TestUser::new();
    assert_eq!(person.agents(&["run", "--check", "false", "--", "touch", "made"]).exit, 4);
    for (verb, code) in [("resume", "PLAN_NOT_READY"), ("execute", "PLAN_COMPLETE")] {
        let said = person.json(&["plan", verb, "@last"]);
        assert_eq!((said.exit, said.code().as_str()), (4, code), "{said:?}");
        let told = said.envelope()["messages"].to_string();
        for part in ["a required check failed: false", "plan logs", "plan check", "--again"] {
            assert!(told.contains(part), "{verb}: {part}: {told}");
        }
        assert!(!told.contains("plan prompt"), "a command heeds nothing: {told}");
        assert!(!told.contains("plan apply") && !told.contains("nothing of it failed"), "{verb}: {told}");
    }
}

#[test]
fn what_a_frozen_plan_only_repeats_is_asked_anew() {
    let gone = Script::status("404 Not Found", &[], "{\"error\":{\"message\":\"no such model\"}}");
    let world = ModelFixture::new(Wire::Openai, vec![gone]);
    let said = world.run(&[]);
    assert_eq!(said.data()["error"]["category"], "invalid_input", "{said:?}");
    let anew = "agents run \"…\" --actor mender";
    assert_eq!(said.data()["error"]["command"], anew);
    let next = said.data()["next"].to_string();
    assert!(next.contains("--actor mender") && !next.contains("plan resume"), "{next}");
    assert!(said.envelope()["messages"].to_string().contains("ask differently, in a new plan"), "{said:?}");
}

#[test]
fn a_key_that_is_refused_is_named_and_the_plan_goes_on_with_a_better_one() {
    let refused = || Script::status("401 Unauthorized", &[], "{\"error\":{\"message\":\"bad key\"}}");
    let world = ModelFixture::new(Wire::Openai, vec![refused(), Wire::Openai.script(0, &says("Done."))]);
    let said = world.run(&[]);
    let (error, id) = (said.data()["error"].clone(), said.data()["short_id"].clone());
    assert!(text(&error["message"]).ends_with("bad key (with the key from SCRIPTED_KEY)"), "{error}");
    assert_eq!(error["command"], format!("agents plan resume {}", text(&id)));
    assert!(!said.stdout.contains("agents doctor"), "{said:?}");
    assert_eq!(world.agents(&["plan", "resume", "@last"]).exit, 0);

    let world = ModelFixture::new(Wire::Openai, vec![refused()]);
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    fs::write(world.person.config_file(), settings.replace("key_env = \"SCRIPTED_KEY\"\n", "")).unwrap();
    let said = world.run(&[]);
    let message = said.data()["error"]["message"].clone();
    let names = text(&message).contains("without a key") && text(&message).contains("[providers.scripted]");
    assert!(names, "{message}");
}

#[test]
fn errors_say_what_really_came_of_them() {
    let person = TestUser::new();
    let actions = || {
        let data = person.json(&["plan", "errors"]).data();
        let all = data["records"].as_array().unwrap().iter().map(|record| text(&record["action"]).to_owned());
        (all.collect::<Vec<_>>(), person.agents(&["plan", "errors"]).stdout)
    };
    assert_eq!(person.agents(&["run", "--", "false"]).exit, 1);
    let (words, shown) = actions();
    assert!(words == ["asks you"] && !shown.contains("begins anew"), "{words:?} {shown}");
    let handled =
        "nodes:\n  try: { run: \"false\" }\n  rescue: { needs: [try], on: failure, run: touch made }\n";
    person.write("actor.yaml", handled);
    assert_eq!(person.agents(&["run", "--actor", "actor.yaml"]).exit, 0);
    let (words, shown) = actions();
    assert!(words == ["was handled"] && !shown.contains("begins anew"), "{words:?} {shown}");
}

#[test]
fn without_a_strategist_who_starts_a_manual_plan_starts_its_work() {
    let person = TestUser::new();
    person.write("actor.yaml", "run: touch made\n");
    let run = ["run", "make it", "--actor", "actor.yaml", "--automation", "manual"];
    let first = person.json(&run).data();
    assert_eq!((&first["phase"], &first["state"]), (&json!("execute"), &json!("complete")), "{first}");
    let anew = person.json(&["plan", "prompt", "@last", "another way", "--replan"]).data();
    assert_eq!((&anew["phase"], &anew["state"]), (&json!("execute"), &json!("complete")), "{anew}");
    assert_eq!(anew["attempt"], 2);
    assert!(!person.project().join("made").exists(), "applying is another phase, and asks");
}

#[test]
fn what_there_is_not_to_apply_or_to_record_is_said() {
    let person = TestUser::new();
    let said = person.agents(&["run", "--apply", "--", "true"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("nothing to apply"), "{said:?}");
    let said = person.agents(&["run", "--record", "../tape.jsonl", "--", "true"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert!(said.stderr.contains("no model was called, so nothing was recorded"), "{said:?}");
    assert!(!person.home().join("tape.jsonl").exists());
}

#[test]
fn models_are_told_of_the_task_and_of_the_names_of_projects() {
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("Done."), says("Done.")]));
    let other = world.person.home().join("other");
    fs::create_dir_all(&other).unwrap();
    let both = ["--project", "shop=.", "--project", &format!("depot={}", other.display())];
    let said = world.run(&both);
    assert_eq!(said.exit, 0, "{said:?}");
    let paths = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap().iter();
        let path = |tool: &Value| tool["function"]["parameters"]["properties"]["path"]["description"].clone();
        tools.map(path).filter(|path| !path.is_null()).map(|path| text(&path).to_owned()).collect()
    };
    let told = paths(&world.server.asked().body);
    assert!(told.iter().all(|path| path.contains("ALIAS:PATH") && path.contains("shop, depot")), "{told:?}");
    let tree = world.person.agents(&["plan", "tree", "@last"]).stdout;
    assert!(tree.contains("one step: the task itself") && !tree.contains("the command itself"), "{tree}");
    assert_eq!(world.run(&[]).exit, 0);
    let told = paths(&world.server.asked().body);
    assert!(!told.is_empty() && told.iter().all(|path| !path.contains("ALIAS")), "{told:?}");
}
