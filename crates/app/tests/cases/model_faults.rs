//! Models and servers that do all that they should not: told to the model, tried again within bounds, or the
//! end.

use std::io::BufRead;

use serde_json::{Value, json};

use super::model_world::{ModelFixture, ScriptedTurn, Wire, calls, mending, says};
use super::support::CommandOutput;
use testkit::scripted_server::Script;

/// What stands in the last message of the newest request, as text.
fn told(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

/// The scripts of a good run, after those of a server that fails at first.
fn after(failures: Vec<Script>) -> Vec<Script> {
    failures.into_iter().chain(Wire::Openai.scripts(&mending())).collect()
}

fn ended_well(world: &ModelFixture, said: &CommandOutput) {
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(said.data()["changes"]["files"], 1);
    let used = world.used("tokens");
    assert_eq!(used["reserved"], 0, "all is settled: {used}");
}

#[test]
fn a_server_that_asks_to_wait_and_one_that_fails_are_asked_again_with_the_same_words() {
    let busy = Script::status(
        "429 Too Many Requests",
        &[("retry-after", "1")],
        "{\"error\":{\"message\":\"slow down\"}}",
    );
    let broken = Script::status("500 Internal Server Error", &[], "oops");
    // In the middle of the work: what the model has read and done by then is kept.
    let mut scripts = Wire::Openai.scripts(&mending());
    scripts.splice(1..1, [busy, broken]);
    let world = ModelFixture::new(Wire::Openai, scripts);
    let said = world.run(&[]);
    ended_well(&world, &said);
    assert_eq!(world.errors(), ["rate_limit", "overloaded"]);
    world.server.asked();
    let second = world.server.asked().body;
    assert_eq!(second["messages"].as_array().unwrap().len(), 5);
    assert_eq!(world.server.asked().body, second);
    assert_eq!(world.server.asked().body, second);
    world.server.asked();
    world.server.asked();
    world.server.was_not_asked_again();
    // The refused one cost nothing, of the broken one the prompt is taken to have been read.
    let used = world.used("tokens")["used"].as_u64().unwrap();
    assert!(used > 440, "{used}");
}

#[test]
fn a_server_that_falls_silent_is_left_and_asked_again() {
    let world = ModelFixture::new(Wire::Openai, after(vec![Script::silence()]));
    let said = world.run(&[]);
    ended_well(&world, &said);
    assert_eq!(world.errors(), ["timeout"]);
}

#[test]
fn a_stream_that_turns_into_garbage_or_breaks_off_is_asked_for_again() {
    let half = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I will\"}}]}\n\n";
    let garbage = Script::events(&[half, b"data: {\"choices\": [[[ \xff\xfe\n\n"]);
    let cut = Script::cut_events(&[half]);
    let world = ModelFixture::new(Wire::Openai, after(vec![garbage, cut]));
    let said = world.run(&[]);
    ended_well(&world, &said);
    assert_eq!(world.errors().len(), 2, "{:?}", world.errors());
}

#[test]
fn a_server_that_keeps_failing_is_asked_once_and_as_often_again_as_the_node_says() {
    let broken = || Script::status("503 Service Unavailable", &[("retry-after", "0")], "busy");
    let world = ModelFixture::with(Wire::Openai, vec![broken(), broken()], "retries: 1\n");
    let said = world.run(&[]);
    assert_eq!((said.exit, said.code()), (6, "PLAN_ASKS".to_owned()), "{said:?}");
    assert_eq!(world.errors(), ["overloaded", "overloaded"]);
    world.server.asked();
    world.server.asked();
    world.server.was_not_asked_again();
    let used = world.used("tokens");
    assert_eq!((&used["used"], &used["reserved"]), (&json!(0), &json!(0)));
}

#[test]
fn a_provider_that_fails_too_often_is_seen_to_rest_by_another_process() {
    let broken = || Script::status("500 Internal Server Error", &[], "oops");
    let world = ModelFixture::with(Wire::Openai, vec![broken(), broken(), broken()], "retries: 2\n");
    assert_eq!(world.run(&[]).code(), "PLAN_ASKS");
    for words in [&["top", "--once"][..], &["plan", "status"]] {
        let data = world.person.json(words).data();
        let breaker = &data["breakers"][0];
        assert_eq!((&breaker["provider"], &breaker["state"]), (&json!("scripted"), &json!("open")), "{data}");
        assert_eq!(breaker["rest_ms"], 30_000);
        let text = world.person.agents(words).stdout;
        assert!(text.contains("scripted failed too often and rests for"), "{text}");
    }
    // One who asks no model is not told.
    let plain = world.person.json(&["run", "--", "true"]);
    assert_eq!(plain.exit, 0, "{plain:?}");
    assert_eq!(world.person.json(&["plan", "status"]).data()["breakers"], json!([]));
}

/// Gives a provider a rest after its first failure.
fn rests(world: &ModelFixture, cool_down: &str) {
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    let breaker = format!("[breaker]\nthreshold = 1\ncool_down = \"{cool_down}\"\n");
    std::fs::write(world.person.config_file(), breaker + &settings).unwrap();
}

#[test]
fn a_provider_that_rests_is_waited_for_and_that_is_no_try() {
    let broken = || Script::status("500 Internal Server Error", &[], "oops");
    let world = ModelFixture::with(Wire::Openai, vec![broken(), broken()], "retries: 1\n");
    // Longer than the wait before the second try, on a busy machine too.
    rests(&world, "10s");
    let said = world.run(&[]);
    assert_eq!(said.code(), "PLAN_ASKS", "{said:?}");
    world.server.asked();
    world.server.asked();
    world.server.was_not_asked_again();
    let (category, message) = world.error();
    assert_eq!(category, "overloaded");
    assert!(message.contains("500 from scripted") && !message.contains("rest"), "{message}");
    assert_eq!(world.errors(), ["overloaded", "overloaded"]);
    let watched = world.person.agents(&["plan", "watch"]).stdout;
    let waits = "waits: scripted failed too often and is skipped for now; ";
    assert!(
        watched.contains(waits)
            && watched.contains(" s)")
            && watched.contains("its last error: 500 from scripted"),
        "{watched}"
    );
}

#[test]
fn a_provider_that_is_not_there_is_named_by_what_it_failed_with() {
    let world = ModelFixture::with(Wire::Openai, Vec::new(), "retries: 1\n");
    // Nobody listens where somebody did.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.settings(Wire::Openai, &format!("http://{free}"));
    rests(&world, "2s");
    let said = world.run(&[]);
    assert_eq!(said.code(), "PLAN_ASKS", "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "connection", "{message}");
    assert!(message.contains("onnection refused"), "{message}");
    assert_eq!(world.errors(), ["connection"], "nothing on this machine is there later by itself");
}

#[test]
fn a_plan_that_waits_for_a_provider_says_so_and_is_cancelled_at_once() {
    let broken = Script::status("500 Internal Server Error", &[], "oops");
    let world = ModelFixture::with(Wire::Openai, vec![broken], "retries: 1\n");
    rests(&world, "5m");
    let mut command = world.person.command(&world.person.project(), &["run", "Make it", "--actor", "mender"]);
    let mut child = command.env("SCRIPTED_KEY", super::model_world::KEY).spawn().unwrap();
    world.server.asked();
    let mut watch = world.person.command(&world.person.project(), &["plan", "watch"]);
    let mut watch = watch.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = std::io::BufReader::new(watch.stdout.take().unwrap()).lines();
    let waits = told.find(|line| line.as_ref().unwrap().contains(" waits: scripted failed too often"));
    assert!(waits.is_some(), "it is told");
    let status = world.person.json(&["plan", "status"]).data();
    let reason = status["waiting"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("its last error: 500 from scripted"), "{status}");
    let text = world.person.agents(&["plan", "status"]).stdout;
    assert!(text.contains("  waiting: scripted failed too often"), "{text}");
    // What is left of it, and not what was left when it began.
    assert!(text.contains(" min more)\n") && reason.ends_with(" min more)"), "{text}");
    let errors = world.person.json(&["plan", "errors"]).data();
    let next = errors["next"]["why"].as_str().unwrap_or_default();
    assert!(next.starts_with("it continues by itself: scripted failed too often"), "{errors}");
    assert!(next.ends_with(" min more)"), "{errors}");
    let said = world.agents(&["--format", "json", "plan", "cancel", "@last"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    drop(told);
    watch.wait().unwrap();
    world.server.was_not_asked_again();
    let used = world.used("tokens");
    assert_eq!(used["reserved"], 0, "who waits holds nothing: {used}");
}

#[test]
fn a_model_whose_time_is_up_is_ended_in_the_middle_of_its_call_and_fails_by_its_timeout() {
    let turns = [calls([("run_command", json!({"command": "sleep 3"}))]), says("Done.")];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "timeout: 1s\nretries: 0\n");
    let said = world.run(&[]);
    assert_eq!(said.code(), "PLAN_ASKS", "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "timeout", "{message}");
    assert!(
        message.ends_with("scripted/m-1 took longer than its time limit of 1 s and was stopped"),
        "{message}"
    );
    world.server.asked();
    world.server.was_not_asked_again();
    assert_eq!(world.used("tokens")["reserved"], 0);
}

#[test]
fn a_key_that_is_refused_is_not_tried_again() {
    let refused = Script::status("401 Unauthorized", &[], "{\"error\":{\"message\":\"bad key\"}}");
    let world = ModelFixture::new(Wire::Openai, vec![refused]);
    assert_eq!(world.run(&[]).code(), "PLAN_ASKS");
    let (category, message) = world.error();
    assert_eq!(category, "auth");
    assert!(message.contains("bad key"), "{message}");
    world.server.asked();
    world.server.was_not_asked_again();
}

#[test]
fn a_refusal_and_an_answer_of_nothing_fail_the_node_in_words() {
    let refusal = "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I will not\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let nothing =
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (body, says) in [(refusal, "refused"), (nothing, "")] {
        let world =
            ModelFixture::with(Wire::Openai, vec![Script::events(&[body.as_bytes()])], "retries: 0\n");
        let said = world.run(&[]);
        assert_eq!(said.exit, 6, "{said:?}");
        let (category, message) = world.error();
        assert_eq!(category, "model_output", "{message}");
        assert!(message.contains(says), "{message}");
        world.server.asked();
        world.server.was_not_asked_again();
    }
}

#[test]
fn an_answer_without_end_is_cut_and_fails_the_node() {
    let piece = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "x".repeat(60_000)
    );
    let world =
        ModelFixture::with(Wire::Openai, vec![Script::endless_events(piece.as_bytes())], "retries: 0\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 6, "{said:?}");
    let (category, message) = world.error();
    assert_eq!(category, "model_output");
    assert!(message.contains("10 MiB") && message.len() < 2048, "{message}");
}

#[test]
fn wrong_calls_are_told_to_the_model_and_kept_and_it_goes_on() {
    let turns = [
        calls([
            ("reed_file", json!({"path": "price.sh"})),
            ("read_file", json!("{\"path\": ")),
            ("read_file", json!({"path": "../../etc/passwd"})),
            ("write_file", json!({"path": "price.sh", "content": "x"})),
        ]),
        says("I give up."),
    ];
    // What it is shown whole it has read, so it is shown nothing.
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "context: {tokens: 0}\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    world.server.asked();
    let messages = world.server.asked().body["messages"].clone();
    let answers: Vec<String> = messages.as_array().unwrap()[3..]
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    for (answer, code) in
        answers.iter().zip(["UNKNOWN_TOOL", "INVALID_ARGUMENTS", "PATH_ESCAPES", "UNREAD_FILE"])
    {
        assert!(answer.contains(code), "{code}: {answer}");
    }
    assert_eq!(answers.len(), 4);
    assert_eq!(said.data()["changes"]["files"], 0, "nothing was changed");
    // That a file was not read belongs to the work; the others are faults, and the plan is none the worse for them.
    let errors = world.person.json(&["plan", "errors"]).data();
    let records = errors["records"].as_array().unwrap();
    assert_eq!(records.len(), 3, "{errors}");
    for (record, code) in records.iter().zip(["UNKNOWN_TOOL", "INVALID_ARGUMENTS", "PATH_ESCAPES"]) {
        assert!(record["message"].as_str().unwrap().starts_with(code), "{record}");
        assert_eq!(
            (&record["category"], &record["action"], &record["node"]),
            (&json!("model_output"), &json!("told the model"), &json!("main"))
        );
    }
    assert_eq!(errors["retries"], 0);
    assert_eq!(world.person.json(&["plan", "status"]).data()["error"], Value::Null);
    let text = world.person.agents(&["plan", "errors"]).stdout;
    assert!(text.contains("told the model"), "{text}");
}

#[test]
fn a_model_that_does_nothing_but_wrong_calls_does_not_fill_the_history() {
    let wrong = |n: u32| ("reed_file", json!({ "n": n }));
    let turns = [ScriptedTurn { text: "", calls: (0..40).map(wrong).collect() }, says("I give up.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let errors = world.person.json(&["plan", "errors"]).data();
    assert_eq!(errors["recorded"], 25, "{errors}");
    let last = errors["records"][24]["message"].as_str().unwrap().to_owned();
    assert!(last.ends_with("(further failures of this node are recorded only in its calls)"), "{last}");
}

#[test]
fn an_answer_that_had_to_be_asked_for_again_is_in_the_history() {
    let turns = [says("no json"), says("{\"sum\": 6}")];
    let output = "output: {sum: {type: integer}}\n";
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), output);
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let errors = world.person.json(&["plan", "errors"]).data();
    let message = errors["records"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("its answer does not match `output`"), "{errors}");
    assert_eq!(errors["recorded"], 1);
}

#[test]
fn what_a_model_was_told_is_told_so_also_where_a_later_node_runs_always() {
    let actor = "nodes:\n  a: {model: scripted/m-1, prompt: A}\n  b: {run: 'true', needs: [a], on: always}\n";
    let turns = [calls([("no_such_tool", json!({}))]), says("a")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    std::fs::write(world.person.home().join(".config/cleveragents/actors/two.yaml"), actor).unwrap();
    let said = world.agents(&["--format", "json", "run", "Think", "--actor", "two"]);
    assert_eq!(said.exit, 0, "{said:?}");
    let errors = world.person.json(&["plan", "errors"]).data();
    assert_eq!(errors["records"][0]["action"], "told the model", "{errors}");
}

#[test]
fn the_time_of_a_model_is_that_of_its_calls_and_not_of_the_rest_between_them() {
    let turns = [calls([("read_file", json!({"path": "price.sh"}))]), says("Done.")];
    let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&turns));
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let status = world.person.json(&["plan", "status"]).data();
    let logs = world.person.json(&["plan", "logs"]).data();
    let calls = logs["calls"].as_array().unwrap();
    let sum: u64 = calls.iter().map(|call| call["duration_ms"].as_u64().unwrap()).sum();
    assert_eq!(calls.len(), 3, "{logs}");
    assert_eq!(status["steps"][0]["duration_ms"], sum, "{status}");
}

#[test]
fn every_model_that_is_asked_is_a_step_also_one_that_calls_no_tool() {
    let actor = "nodes:\n  a: {model: scripted/m-1, prompt: A}\n  b: {model: scripted/m-1, prompt: B, needs: [a]}\n\
                 \x20 c: {model: scripted/m-1, prompt: C, needs: [b]}\n";
    for (limit, exit, asked) in [("steps=1", 6, 1), ("steps=3", 0, 3)] {
        let world = ModelFixture::new(Wire::Openai, Wire::Openai.scripts(&[says("a"), says("b"), says("c")]));
        std::fs::write(world.person.home().join(".config/cleveragents/actors/three.yaml"), actor).unwrap();
        let words = ["--format", "json", "run", "Think", "--actor", "three", "--limit", limit];
        let said = world.agents(&words);
        assert_eq!(said.exit, exit, "{said:?}");
        assert_eq!(world.used("steps")["used"], asked, "{limit}");
        for _ in 0..asked {
            world.server.asked();
        }
        if exit == 6 {
            world.server.was_not_asked_again();
            let errors = world.person.json(&["plan", "errors"]).data();
            let record = &errors["records"][0];
            assert_eq!((&record["node"], &record["limit"]), (&json!("b"), &json!("steps")), "{errors}");
        }
        let watched = world.person.agents(&["plan", "watch"]).stdout;
        assert!(watched.contains("  asks scripted/"), "{watched}");
    }
}

#[test]
fn a_model_that_runs_in_a_circle_is_stopped() {
    let list = || calls([("list_directory", json!({}))]);
    let world = ModelFixture::with(
        Wire::Openai,
        Wire::Openai.scripts(&[list(), list(), list(), list(), list()]),
        "retries: 0\n",
    );
    assert_eq!(world.run(&[]).exit, 6);
    let (category, message) = world.error();
    assert_eq!(category, "model_output");
    assert!(message.contains("list_directory 5 times in a row"), "{message}");
    for _ in 0..3 {
        world.server.asked();
    }
    let fourth = told(&world.server.asked().body);
    assert!(fourth.contains("REPEATED_CALL"), "it was warned: {fourth}");
}

/// The answer of a server that was cut off, with these deltas before the cut.
fn cut_after(deltas: &[Value]) -> Script {
    let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let mut chunks: Vec<Value> = deltas.iter().map(chunk).collect();
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}));
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    Script::events(&[format!("{events}data: [DONE]\n\n").as_bytes()])
}

#[test]
fn an_answer_that_was_cut_off_is_continued_as_often_as_it_gets_anywhere() {
    let cut = |text: &str| cut_after(&[json!({"content": text})]);
    let look = Wire::Openai.script(2, &calls([("list_directory", json!({}))]));
    // Twice, then whole work, then cut again: a cut is no second one because there was one before.
    let end = Wire::Openai.script(5, &says("the end."));
    let scripts = vec![cut("Once "), cut("upon "), look, cut("a time, "), cut("and "), end];
    let world = ModelFixture::with(Wire::Openai, scripts, "retries: 0\nmax_turns: 2\n");
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    let answer = world.person.json(&["plan", "logs"]).data()["answer"].clone();
    assert_eq!(answer, "a time, and the end.", "what was cut is joined");
    world.server.asked();
    let second = world.server.asked().body;
    let messages = second["messages"].as_array().unwrap();
    assert_eq!(messages[messages.len() - 2]["content"], "Once ");
    let request = "Your answer was cut off after 8192 tokens. Continue it exactly where it stopped, and repeat nothing of it.";
    assert_eq!(told(&second), request);
    assert_eq!(world.errors(), ["model_output"; 4]);
    let scripts = (0..5).map(|_| cut("more ")).collect();
    let world = ModelFixture::with(Wire::Openai, scripts, "retries: 0\n");
    assert_eq!(world.run(&[]).exit, 6);
    assert!(world.error().1.contains("was cut off 5 times in a row"), "{:?}", world.error());
}

#[test]
fn of_calls_that_were_cut_off_the_whole_ones_are_made_and_the_half_one_is_asked_for_again() {
    let call = |index: u64, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "type": "function", "function": function}]})
    };
    let cut = cut_after(&[
        call(0, "write_file", "{\"path\": \"whole.txt\", \"content\": \"all\\n\"}"),
        call(1, "write_file", "{\"path\": \"half.txt\", \"content\": \"the first ha"),
    ]);
    let world = ModelFixture::new(Wire::Openai, vec![cut, Wire::Openai.script(1, &says("Done."))]);
    let said = world.run(&[]);
    assert_eq!((said.exit, &said.data()["changes"]["files"]), (0, &json!(1)), "{said:?}");
    world.server.asked();
    let body = world.server.asked().body;
    let messages = body["messages"].as_array().unwrap();
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(results[0], "Created, 4 bytes.");
    assert!(
        results[1].starts_with("error: CUT_OFF: your answer was cut off after 8192 tokens"),
        "{}",
        results[1]
    );
    assert!(!body.to_string().contains("the first ha"), "the half of an argument is not sent back: {body}");
}

#[test]
fn a_plan_that_is_cancelled_while_its_model_answers_settles_what_it_reserved() {
    let world = ModelFixture::new(Wire::Openai, vec![Script::silence()]);
    let settings = std::fs::read_to_string(world.person.config_file()).unwrap();
    std::fs::write(world.person.config_file(), settings.replace("idle = \"1s\"", "idle = \"1h\"")).unwrap();
    let mut command = world.person.command(&world.person.project(), &["run", "Make it", "--actor", "mender"]);
    let mut child = command.env("SCRIPTED_KEY", super::model_world::KEY).spawn().unwrap();
    world.server.asked();
    let said = world.agents(&["--format", "json", "plan", "cancel", "@last"]);
    assert_eq!(said.exit, 0, "{said:?}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let used = world.used("tokens");
    assert!(used["used"].as_u64().unwrap() > 0, "the prompt may have been read: {used}");
    assert_eq!((&used["reserved"], &used["assumed"]), (&json!(0), &json!(0)), "{used}");
}
