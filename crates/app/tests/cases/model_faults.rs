//! Models and servers that do all that they should not: told to the model, tried again within bounds, or the end.

use serde_json::{Value, json};

use super::model_world::{Said, Wire, World, calls, mending, says};
use super::scripted::Script;
use super::support::Answer;

/// What stands in the last message of the newest request, as text.
fn told(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

/// The scripts of a good run, after those of a server that fails at first.
fn after(failures: Vec<Script>) -> Vec<Script> {
    failures.into_iter().chain(Wire::Openai.scripts(&mending())).collect()
}

fn ended_well(world: &World, said: &Answer) {
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
    let world = World::new(Wire::Openai, scripts);
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
    let world = World::new(Wire::Openai, after(vec![Script::silence()]));
    let said = world.run(&[]);
    ended_well(&world, &said);
    assert_eq!(world.errors(), ["timeout"]);
}

#[test]
fn a_stream_that_turns_into_garbage_or_breaks_off_is_asked_for_again() {
    let half = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I will\"}}]}\n\n";
    let garbage = Script::events(&[half, b"data: {\"choices\": [[[ \xff\xfe\n\n"]);
    let cut = Script::cut_events(&[half]);
    let world = World::new(Wire::Openai, after(vec![garbage, cut]));
    let said = world.run(&[]);
    ended_well(&world, &said);
    assert_eq!(world.errors().len(), 2, "{:?}", world.errors());
}

#[test]
fn a_server_that_keeps_failing_is_asked_once_and_as_often_again_as_the_node_says() {
    let broken = || Script::status("503 Service Unavailable", &[("retry-after", "0")], "busy");
    let world = World::with(Wire::Openai, vec![broken(), broken()], "retries: 1\n");
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
    let world = World::with(Wire::Openai, vec![broken(), broken(), broken()], "retries: 2\n");
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

#[test]
fn a_key_that_is_refused_is_not_tried_again() {
    let refused = Script::status("401 Unauthorized", &[], "{\"error\":{\"message\":\"bad key\"}}");
    let world = World::new(Wire::Openai, vec![refused]);
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
        let world = World::with(Wire::Openai, vec![Script::events(&[body.as_bytes()])], "retries: 0\n");
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
    let world = World::with(Wire::Openai, vec![Script::endless_events(piece.as_bytes())], "retries: 0\n");
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
    let world = World::with(Wire::Openai, Wire::Openai.scripts(&turns), "context: {tokens: 0}\n");
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
}

#[test]
fn a_model_that_runs_in_a_circle_is_stopped() {
    let list = || calls([("list_directory", json!({}))]);
    let world = World::with(
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

#[test]
fn a_model_has_as_many_turns_as_it_was_given() {
    let read = |path: &'static str| -> Said { calls([("read_file", json!({"path": path}))]) };
    let turns = [read("price.sh"), read("test.sh")];
    let world = World::with(Wire::Openai, Wire::Openai.scripts(&turns), "max_turns: 2\nretries: 0\n");
    assert_eq!(world.run(&[]).exit, 6);
    let (category, message) = world.error();
    assert_eq!(category, "model_output");
    assert!(message.contains("asked 2 times and is not done"), "{message}");
    world.server.asked();
    world.server.asked();
    world.server.was_not_asked_again();
}

#[test]
fn an_answer_that_was_cut_off_is_asked_for_once_more_in_fewer_words() {
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Once upon\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let cut = || Script::events(&[cut.as_bytes()]);
    let world = World::new(Wire::Openai, vec![cut(), Wire::Openai.script(1, &says("short"))]);
    let said = world.run(&[]);
    assert_eq!(said.exit, 0, "{said:?}");
    world.server.asked();
    let second = told(&world.server.asked().body);
    assert!(second.starts_with("Your answer was cut off after 8192 tokens"), "{second}");
    let world = World::with(Wire::Openai, vec![cut(), cut()], "retries: 0\n");
    assert_eq!(world.run(&[]).exit, 6);
    assert!(world.error().1.contains("cut off again"), "{:?}", world.error());
}

#[test]
fn a_plan_that_is_cancelled_while_its_model_answers_settles_what_it_reserved() {
    let world = World::new(Wire::Openai, vec![Script::silence()]);
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
