//! The context that models get of a project: before they are asked, and when they ask for more.

use std::collections::BTreeSet;
use std::fs;

use engine::context::{LexicalCounter, TokenCounter};
use serde_json::{Value, json};

use super::model_world::{ModelFixture, ScriptedTurn, Wire, calls, says};
use testkit::scripted_server::Script;

const PROMPT: &str = "Make the tests pass.";
/// That of a model whose vocabulary is not known.
const COUNTER: u32 = 115;

/// The first thing that the model was asked: what it was shown, and the prompt.
fn asked(body: &Value) -> (String, String) {
    let messages = body["messages"].as_array().unwrap();
    let first = messages.iter().find(|message| message["role"] == "user").unwrap();
    let text = first["content"].as_str().unwrap();
    let shown = text.strip_suffix(PROMPT).unwrap_or_else(|| panic!("the prompt is the last: {text}"));
    (shown.trim_end().to_owned(), PROMPT.to_owned())
}

/// What the newest call was answered.
fn answered(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

/// The results of the calls of tools as they are recorded, and as the model read them.
fn results(world: &ModelFixture, count: usize) -> Vec<(Value, String)> {
    let logs = world.person.json(&["plan", "logs"]).data();
    let of_tools = logs["calls"].as_array().unwrap().iter().filter(|call| call["tool"] != "ask_model");
    let results: Vec<Value> = of_tools.map(|call| call["result"].clone()).collect();
    assert_eq!(results.len(), count, "{logs}");
    results.into_iter().map(|result| (result, answered(&world.server.asked().body))).collect()
}

fn world(turns: &[ScriptedTurn], more: &str) -> ModelFixture {
    world_of(Wire::Openai.scripts(turns), more)
}

fn world_of(scripts: Vec<Script>, more: &str) -> ModelFixture {
    let world = ModelFixture::with(Wire::Openai, scripts, more);
    for n in 0..30 {
        let body: String = (0..12).map(|line| format!("    echo \"tests pass {n} {line}\"\n")).collect();
        world.person.write(
            &format!("lib/part{n}.sh"),
            &format!("# tests that pass, part {n}\npart{n}() {{\n{body}}}\n"),
        );
    }
    world.person.git(&["add", "."]);
    world.person.git(&["commit", "-qm", "parts whose tests pass"]);
    world
}

fn request(tokens: u32) -> ScriptedTurn {
    calls([("request_context", json!({ "query": "which tests pass", "tokens": tokens }))])
}

/// A row of what is kept: node, receipt, text.
fn kept(world: &ModelFixture) -> Vec<(String, Value, String)> {
    let file = world.person.home().join("data/agents.db");
    let store = rusqlite::Connection::open(file).unwrap();
    let all = "SELECT c.node, c.receipt, t.bytes FROM contexts c JOIN contents t ON t.hash = c.text_hash ORDER BY c.no";
    let mut statement = store.prepare(all).unwrap();
    let rows = statement.query_map([], |row| {
        let (receipt, text): (String, Vec<u8>) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, serde_json::from_str(&receipt).unwrap(), String::from_utf8(text).unwrap()))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_model_is_shown_its_project_before_it_is_asked_within_its_tokens_and_it_is_kept() {
    // With few tokens most files are only named; with more they are shown.
    let (named, told) = ("\n## lib/part26.sh\n", "\n## lib/part26.sh (shell, 15 lines)\n");
    for (tokens, last) in [(300, named), (1_000, told), (4_000, told)] {
        let world = world(&[says("Done.")], &format!("context: {{tokens: {tokens}}}\n"));
        assert_eq!(world.run(&[]).exit, 0);
        let (shown, _) = asked(&world.server.asked().body);
        assert!(shown.contains(last), "{shown}");
        assert!(shown.contains("\n## lib/part0.sh (shell, 15 lines)\n"), "{shown}");
        assert_eq!(shown.contains("Ask request_context for more"), tokens >= 1_000, "{shown}");
        let counted = LexicalCounter::with_factor(COUNTER).tokens(&shown);
        assert!(counted <= tokens && counted > tokens / 3, "{counted} of {tokens}: {shown}");
        let kept = kept(&world);
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].2.trim_end(), shown, "what was given can be read again");
        assert_eq!(kept[0].1["budget"]["total"], tokens);
        let events = world.person.json(&["plan", "watch", "@last"]).stdout;
        assert!(events.contains("context.assembled"), "{events}");
    }
}

#[test]
fn what_a_model_was_given_is_shown_again_as_it_was() {
    let world = world(&[request(400), says("Done.")], "context: {tokens: 500}\n");
    let none = world.person.agents(&["context", "show"]);
    assert_eq!((none.exit, none.stdout.as_str()), (3, ""), "there is no plan yet: {none:?}");
    assert_eq!(world.run(&[]).exit, 0);
    let (shown, _) = asked(&world.server.asked().body);
    let listed = world.person.json(&["context", "show"]).envelope()["data"].clone();
    let contexts = listed["contexts"].as_array().unwrap();
    let queries: Vec<&str> = contexts.iter().map(|one| one["query"].as_str().unwrap()).collect();
    assert_eq!(queries, [PROMPT, "which tests pass"], "{listed}");
    assert!(contexts.iter().all(|one| one["tokens"].as_u64().unwrap() > 0), "{listed}");
    // Whatever became of the files since.
    world.person.write("lib/part0.sh", "gone\n");
    let id = contexts[0]["id"].as_str().unwrap();
    for which in ["1", id, &id[..20], &id.to_lowercase()] {
        let said = world.person.agents(&["context", "show", "@last", which]);
        assert_eq!((said.exit, said.stdout.trim_end()), (0, shown.as_str()), "{which}");
    }
    let second = world.person.json(&["context", "show", "@last", "2"]).envelope()["data"].clone();
    let kept = kept(&world);
    assert_eq!((&second["text"], &second["receipt"]), (&json!(kept[1].2), &kept[1].1));
    let receipt = world.person.agents(&["context", "show", "@last", "2", "--receipt"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&receipt).unwrap(), kept[1].1);
    for which in ["0", "3", "", "zz", &id[..1]] {
        let said = world.person.json(&["context", "show", "@last", which]);
        assert_eq!(said.exit, 3, "{which}: {said:?}");
        assert_eq!(said.envelope()["messages"][0]["code"], "CONTEXT_NOT_FOUND");
    }
}

#[test]
fn a_node_that_wants_no_context_is_shown_none_and_may_still_ask() {
    let world = world(&[says("Done.")], "context: {tokens: 0}\n");
    assert_eq!(world.run(&[]).exit, 0);
    let body = world.server.asked().body;
    assert_eq!(asked(&body).0, "");
    assert_eq!(kept(&world), []);
    assert!(body["tools"].to_string().contains("request_context"));
}

#[test]
fn a_node_that_names_no_tools_and_wants_no_context_is_offered_none() {
    let world = world(&[says("Done.")], "context: {tokens: 0}\ntools: []\n");
    assert_eq!(world.run(&[]).exit, 0);
    let body = world.server.asked().body;
    assert!(body.get("tools").is_none_or(|tools| tools.as_array().unwrap().is_empty()), "{body}");
}

#[test]
fn in_a_small_window_what_is_shown_leaves_room_for_the_answer_and_the_talk() {
    let world = world(&[says("Done.")], "");
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    let small =
        settings.replace("idle = \"1s\"\n", "idle = \"1s\"\ncontext_tokens = 9000\nanswer_tokens = 2000\n");
    fs::write(world.person.config_file(), small).unwrap();
    assert_eq!(world.run(&[]).exit, 0);
    let body = world.server.asked().body;
    let (shown, _) = asked(&body);
    assert!(!shown.is_empty());
    let rest = body.to_string().len() - shown.len();
    let base = 9_000 - 2_000 - rest / 3;
    let counted = LexicalCounter::with_factor(COUNTER).tokens(&shown) as usize;
    assert!(counted <= base / 2 + 200, "{counted} of {base}");
}

#[test]
fn who_asks_again_is_given_what_was_not_shown_and_never_more_than_there_is() {
    let turns = [request(400), request(400), calls([("get_context_budget", json!({}))]), says("Done.")];
    let world = world(&turns, "context: {tokens: 0}\n");
    assert_eq!(world.run(&[]).exit, 0);
    world.server.asked();
    let places = |answer: &Value| -> BTreeSet<String> {
        let included = answer["included"].as_array().unwrap_or_else(|| panic!("{answer}"));
        included.iter().filter(|one| !one["from"].is_null()).map(ToString::to_string).collect()
    };
    let results = results(&world, 3);
    let [(first, _), (second, _), (budget, shown)] = &results[..] else { panic!("{results:?}") };
    for (answer, read) in &results[..2] {
        let (text, tokens) = (answer["text"].as_str().unwrap(), answer["tokens"].as_u64().unwrap());
        assert!(0 < tokens && tokens <= 400, "{answer}");
        assert_eq!(u64::from(LexicalCounter::with_factor(COUNTER).tokens(text)), tokens);
        assert!(read.starts_with(text), "it is read as text, line by line: {read}");
    }
    assert!(!places(first).is_empty() && !places(second).is_empty(), "{first}\n{second}");
    assert!(places(first).is_disjoint(&places(second)), "{first}\n{second}");
    let used = first["tokens"].as_u64().unwrap() + second["tokens"].as_u64().unwrap();
    assert_eq!((&budget["used"], &budget["reserved"]), (&json!(used), &json!(0)), "{budget}");
    assert!(shown.contains(&format!("used: {used}\n")), "{shown}");
    let of = |field: &str| budget[field].as_u64().unwrap();
    assert_eq!(of("available") + used, of("window") - of("response") - of("tools") - of("system"));
    assert_eq!(kept(&world).len(), 2);
}

#[test]
fn a_model_that_read_more_than_was_counted_is_given_less_text_for_as_many_tokens() {
    let mut scripts = Wire::Openai.scripts(&[request(400)]);
    scripts.push(Wire::Openai.script_that_read(1_000_000, 1, &request(400)));
    scripts.push(Wire::Openai.script(2, &says("Done.")));
    let world = world_of(scripts, "context: {tokens: 0}\n");
    assert_eq!(world.run(&[]).exit, 0);
    world.server.asked();
    let results = results(&world, 2);
    let ((first, _), (second, _)) = (&results[0], &results[1]);
    let text = |answer: &Value| answer["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let counted = |factor: u32, text: &str| LexicalCounter::with_factor(factor).tokens(text);
    assert!(counted(COUNTER, &text(first)) > 200, "{first}");
    // No reply makes a token count more than four times.
    assert_eq!(json!(counted(400, &text(second))), second["tokens"], "{second}");
    assert!(counted(400, &text(second)) <= 400 && !text(second).is_empty(), "{second}");
}

#[test]
fn a_spent_budget_and_a_wrong_focus_are_errors_with_their_code() {
    let about = |focus: &str| calls([("request_context", json!({ "query": "tests", "focus": [focus] }))]);
    let turns = [
        about("lib/part33.sh"),
        about("../outside.sh"),
        about("lib/part3.sh:2-4"),
        calls([("request_context", json!({ "query": "tests", "tokens": 16_384 }))]),
        request(256),
        says("Done."),
    ];
    let world = world(&turns, "context: {tokens: 0}\n");
    let settings = fs::read_to_string(world.person.config_file()).unwrap();
    let small =
        settings.replace("idle = \"1s\"\n", "idle = \"1s\"\ncontext_tokens = 9500\nanswer_tokens = 2000\n");
    fs::write(world.person.config_file(), small).unwrap();
    assert_eq!(world.run(&[]).exit, 0);
    world.server.asked();
    let told: Vec<String> = (0..5).map(|_| answered(&world.server.asked().body)).collect();
    assert!(told[0].contains("FOCUS_NOT_FOUND: ") && told[0].contains("lib/part33.sh"), "{}", told[0]);
    assert!(told[0].contains("did you mean `lib/part"), "{}", told[0]);
    assert!(told[1].contains("PATH_ESCAPES: "), "{}", told[1]);
    assert!(told[2].contains("lib/part3.sh") && told[2].contains("tests pass 3 0"), "{}", told[2]);
    assert!(!told[3].contains("BUDGET_SPENT"), "what is left is given: {}", told[3]);
    assert!(told[4].contains("BUDGET_SPENT: "), "{}", told[4]);
}

#[test]
fn a_file_that_was_shown_whole_counts_as_read() {
    let edit = calls([("edit_file", json!({"path": "price.sh", "old": "$1 + $2", "new": "$1 * $2"}))]);
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&[edit, says("Done.")]), "");
    assert_eq!(world.run(&["--check", "sh test.sh"]).exit, 0);
    let (shown, _) = asked(&world.server.asked().body);
    assert!(shown.contains("echo $(($1 + $2))"), "{shown}");
    let result = answered(&world.server.asked().body);
    assert!(result.starts_with("Replaced: 1.\n"), "{result}");
}

#[test]
fn a_round_of_mending_is_shown_the_project_as_it_is_by_then() {
    let edit = |old: &str, new: &str| {
        calls([
            ("read_file", json!({"path": "price.sh"})),
            ("edit_file", json!({"path": "price.sh", "old": old, "new": new})),
        ])
    };
    let turns = [edit("$1 + $2", "$1 - $2"), says("Done."), edit("$1 - $2", "$1 * $2"), says("Now it is.")];
    let world = ModelFixture::with(Wire::Openai, Wire::Openai.scripts(&turns), "prompt: \"{{prompt}}\"\n");
    let dir = world.person.home().join(".config/cleveragents/actors");
    fs::write(dir.join("mender.yaml"), "model: scripted/m-1\n").unwrap();
    let answer = world.run(&["--check", "sh test.sh"]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    let bodies: Vec<String> = (0..4).map(|_| world.server.asked().body["messages"][1].to_string()).collect();
    assert!(bodies[0].contains("$1 + $2") && !bodies[0].contains("$1 - $2"), "{}", bodies[0]);
    assert!(bodies[2].contains("$1 - $2") && !bodies[2].contains("$1 + $2"), "{}", bodies[2]);
    let nodes: Vec<String> = kept(&world).into_iter().map(|(node, ..)| node).collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[1], format!("{}.fix1", nodes[0]));
}

#[test]
fn an_index_that_cannot_be_written_is_a_note_and_not_an_error() {
    let world = world(&[says("Done.")], "");
    let data = world.person.home().join("data");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("index"), "in the way").unwrap();
    let answer = world.run(&[]);
    assert_eq!(answer.exit, 0, "{answer:?}");
    assert!(asked(&world.server.asked().body).0.contains("test.sh ("));
    let kept = kept(&world);
    let notes = kept[0].1["notes"].as_array().unwrap();
    assert!(!notes.is_empty(), "{}", kept[0].1);
}

#[test]
fn the_past_of_a_plan_is_looked_through() {
    let turns = [
        calls([("query_history", json!({ "text": "PARTS WHOSE" }))]),
        calls([("query_history", json!({ "kinds": ["context", "decision"] }))]),
        calls([("query_history", json!({ "limit": 1 }))]),
        says("Done."),
    ];
    let world = world(&turns, "context: {tokens: 500}\n");
    assert_eq!(world.run(&[]).exit, 0);
    world.server.asked();
    let commits = answered(&world.server.asked().body);
    assert_eq!(commits.lines().count(), 1, "{commits}");
    assert!(commits.starts_with("commit ") && commits.ends_with(": parts whose tests pass\n"), "{commits}");
    let of_plan = answered(&world.server.asked().body);
    let has = |kind: &str| of_plan.lines().any(|line| line.starts_with(kind));
    assert!(has("context ") && has("decision "), "{of_plan}");
    let newest = answered(&world.server.asked().body);
    assert_eq!(newest.lines().count(), 2, "{newest}");
    assert!(
        newest.ends_with("(there are more: ask with a longer `text`, or one of the `kinds`)\n"),
        "{newest}"
    );
}
