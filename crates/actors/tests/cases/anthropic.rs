//! Anthropic's messages: what is sent, and what is made of the answers.

use actors::model::{Message, ModelAnswer, ModelRequest, StopReason, ToolResult, ToolUse};
use domain::TokenUsage;
use serde_json::{Value, json};

use crate::support::{SECRET, answered, anthropic, ask, events, request, tool};
use testkit::scripted_server::{Script, Scripted};

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 10,
        "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1}}})
}

fn text_block(index: u64, pieces: &[&str]) -> Vec<Value> {
    let mut all = vec![json!({"type": "content_block_start", "index": index,
        "content_block": {"type": "text", "text": ""}})];
    all.extend(pieces.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": piece}})
    }));
    all.push(json!({"type": "content_block_stop", "index": index}));
    all
}

fn call_block(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<Value> {
    let mut all = vec![json!({"type": "content_block_start", "index": index,
        "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}})];
    all.extend(pieces.iter().map(|piece| {
        let delta = json!({"type": "input_json_delta", "partial_json": piece});
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }));
    all.push(json!({"type": "content_block_stop", "index": index}));
    all
}

fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop"}),
    ]
}

fn stream(blocks: Vec<Value>, reason: &str) -> String {
    events(&[vec![start(), json!({"type": "ping"})], blocks, end(reason)].concat())
}

async fn answer_to(request: &ModelRequest, blocks: Vec<Value>, reason: &str) -> ModelAnswer {
    let server = Scripted::start(vec![Script::events(&[stream(blocks, reason).as_bytes()])]);
    answered(&anthropic(&server.url), request).await
}

fn call(id: &str, name: &str, arguments: Value) -> ToolUse {
    ToolUse { id: id.to_owned(), name: name.to_owned(), arguments }
}

#[tokio::test]
async fn an_answer_is_heard_as_it_comes_and_counted_and_priced_with_the_cache() {
    let body = stream(text_block(0, &["Grüß ", "dich"]), "end_turn");
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let (answer, heard) = ask(&anthropic(&server.url), &request("hello")).await;
    // 10 read at 2, 20 into the cache at 3, 30 from it at 1, 4 written at 10.
    let usage = TokenUsage { tokens_in: 60, tokens_out: 4, cost_micros: 20 + 60 + 30 + 40 };
    let expected =
        ModelAnswer { text: "Grüß dich".to_owned(), calls: Vec::new(), stop: StopReason::End, usage };
    assert_eq!(answer.unwrap(), expected);
    assert_eq!(heard, ["Grüß ", "dich"]);
    let asked = server.asked();
    assert_eq!(asked.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(asked.headers["x-api-key"], SECRET);
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    assert!(!asked.headers.contains_key("authorization"));
    let expected = json!({"model": "m-1", "max_tokens": 500, "stream": true,
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]});
    assert_eq!(asked.body, expected);
    server.was_not_asked_again();
}

#[tokio::test]
async fn the_request_has_turns_tools_and_marks_for_the_cache() {
    let body = stream(text_block(0, &["ok"]), "end_turn");
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let request = ModelRequest {
        tools: vec![tool("files.list")],
        messages: vec![
            Message::User("go".to_owned()),
            Message::Assistant { text: String::new(), calls: vec![call("c1", "files.list", json!("{oops"))] },
            Message::Results(vec![ToolResult {
                id: "c1".to_owned(),
                text: "no JSON".to_owned(),
                is_error: true,
            }]),
            Message::User("and hurry".to_owned()),
            Message::Assistant { text: "  ".to_owned(), calls: Vec::new() },
            Message::User("well?".to_owned()),
        ],
        ..request("")
    };
    answered(&anthropic(&server.url), &request).await;
    let cached = json!({"type": "ephemeral"});
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let expected = json!({"model": "m-1", "max_tokens": 500, "stream": true,
    "system": [{"type": "text", "text": "be brief", "cache_control": cached}],
    "tools": [{"name": "files_list", "description": "does files.list", "input_schema": schema}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "files_list", "input": {"unreadable": "{oops"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": "no JSON"},
            {"type": "text", "text": "and hurry"},
            {"type": "text", "text": "well?", "cache_control": cached}]},
    ]});
    assert_eq!(server.asked().body, expected);
}

#[tokio::test]
async fn calls_are_put_together_beside_text_and_thoughts() {
    let thought = vec![
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
    ];
    let mut first = call_block(2, "a", "read_file", &["", "{\"path\":", "\"x\"}"]);
    let second = call_block(3, "b", "files_list", &[]);
    // Pieces of two blocks, one after the other in turn.
    first.splice(2..2, second);
    let blocks = [thought, text_block(1, &["I look"]), first].concat();
    let request = ModelRequest { tools: vec![tool("read_file"), tool("files.list")], ..request("go") };
    let answer = answer_to(&request, blocks, "tool_use").await;
    let calls = vec![call("a", "read_file", json!({"path": "x"})), call("b", "files.list", json!({}))];
    assert_eq!((answer.text.as_str(), answer.calls, answer.stop), ("I look", calls, StopReason::ToolUse));
}

#[tokio::test]
async fn a_call_whose_arguments_were_cut_off_arrives_as_text() {
    let request = ModelRequest { tools: vec![tool("read_file")], ..request("go") };
    let answer = answer_to(&request, call_block(0, "a", "read_file", &["{\"pa"]), "max_tokens").await;
    assert_eq!(
        (answer.calls, answer.stop),
        (vec![call("a", "read_file", json!("{\"pa"))], StopReason::MaxTokens)
    );
}

#[tokio::test]
async fn a_schema_is_a_tool_that_must_be_called_and_its_call_is_the_answer() {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    let bound = ModelRequest { output: Some(schema.clone()), ..request("judge") };
    let body = stream(call_block(0, "a", "final_answer", &["{\"ok\":true}"]), "tool_use");
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let answer = answered(&anthropic(&server.url), &bound).await;
    assert_eq!(
        (answer.text.as_str(), answer.calls, answer.stop),
        ("{\"ok\":true}", Vec::new(), StopReason::End)
    );
    let sent = server.asked().body;
    assert_eq!(sent["tool_choice"], json!({"type": "tool", "name": "final_answer"}));
    assert_eq!(
        (&sent["tools"][0]["name"], &sent["tools"][0]["input_schema"]),
        (&json!("final_answer"), &schema)
    );
}

#[tokio::test]
async fn a_schema_beside_tools_leaves_the_tools_free_and_an_early_answer_waits_for_them() {
    let schema = json!({"type": "object"});
    let tools = vec![tool("final_answer"), tool("read_file")];
    let bound = ModelRequest { output: Some(schema), tools, ..request("judge") };
    let blocks =
        [call_block(0, "a", "read_file", &["{}"]), call_block(1, "b", "final_answer_2", &["{\"ok\":true}"])];
    let body = stream(blocks.concat(), "tool_use");
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let answer = answered(&anthropic(&server.url), &bound).await;
    let calls = vec![call("a", "read_file", json!({}))];
    assert_eq!((answer.text.as_str(), answer.calls, answer.stop), ("", calls, StopReason::ToolUse));
    let sent = server.asked().body;
    assert_eq!((sent.get("tool_choice"), &sent["tools"][2]["name"]), (None, &json!("final_answer_2")));
    assert!(sent["system"][0]["text"].as_str().unwrap().contains("calling `final_answer_2`"));
}

#[tokio::test]
async fn why_a_model_stopped_is_understood() {
    for (reason, stop) in [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("pause_turn", StopReason::End),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::Refused),
    ] {
        let answer = answer_to(&request("hello"), text_block(0, &["so"]), reason).await;
        assert_eq!((answer.text.as_str(), answer.stop), ("so", stop), "{reason}");
    }
    let bare = answer_to(&request("hello"), Vec::new(), "refusal").await;
    assert_eq!((bare.text.as_str(), bare.stop), ("", StopReason::Refused));
}

#[tokio::test]
async fn a_gateway_that_does_not_stream_is_understood() {
    let body = json!({"type": "message", "content": [{"type": "text", "text": "whole"},
        {"type": "tool_use", "id": "a", "name": "read_file", "input": {"path": "x"}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}});
    let script =
        Script::status("200 OK", &[("content-type", "application/json; charset=utf-8")], &body.to_string());
    let server = Scripted::start(vec![script]);
    let request = ModelRequest { tools: vec![tool("read_file")], ..request("go") };
    let answer = answered(&anthropic(&server.url), &request).await;
    let usage = TokenUsage { tokens_in: 3, tokens_out: 2, cost_micros: 26 };
    let calls = vec![call("a", "read_file", json!({"path": "x"}))];
    assert_eq!(answer, ModelAnswer { text: "whole".to_owned(), calls, stop: StopReason::ToolUse, usage });
}

#[tokio::test]
async fn usage_that_is_not_told_is_taken_as_all_that_was_reserved() {
    let body = events(
        &[
            text_block(0, &["so"]),
            vec![
                json!({"type": "message_delta",
        "delta": {"stop_reason": "end_turn"}}),
                json!({"type": "message_stop"}),
            ],
        ]
        .concat(),
    );
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let answer = answered(&anthropic(&server.url), &request("hello")).await;
    assert_eq!(answer.usage.tokens_out, 500);
    assert!(answer.usage.tokens_in > 0);
}
