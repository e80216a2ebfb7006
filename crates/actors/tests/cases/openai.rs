//! Chat completions: what is sent, and every way in which servers answer.

use actors::model::{Dialect, Message, ModelAnswer, ModelRequest, StopReason, ToolResult, ToolUse};
use domain::TokenUsage;
use serde_json::{Value, json};

use crate::support::{PATIENT, SECRET, answered, ask, data, openai, openai_with, request, tool};
use testkit::scripted_server::{Script, Scripted};

fn delta(delta: Value) -> Value {
    json!({"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn usage(prompt: u64, completion: u64) -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})
}

fn with_tools() -> ModelRequest {
    ModelRequest { tools: vec![tool("read_file"), tool("files.list")], ..request("go") }
}

/// The answer of a server that sends these chunks and `[DONE]`.
async fn answer_to(request: &ModelRequest, chunks: &[Value]) -> ModelAnswer {
    let body = format!("{}data: [DONE]\n\n", data(chunks));
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    answered(&openai(&server.url), request).await
}

fn call(id: &str, name: &str, arguments: Value) -> ToolUse {
    ToolUse { id: id.to_owned(), name: name.to_owned(), arguments }
}

#[tokio::test]
async fn an_answer_is_heard_as_it_comes_and_counted_and_priced() {
    let chunks = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Grüß "})),
        delta(json!({"content": "dich"})),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 6}}}),
    ];
    let body = format!(": keep-alive\n\n{}data: [DONE]\n\n", data(&chunks));
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let (answer, heard) = ask(&openai(&server.url), &request("hello")).await;
    // 4 tokens read at 2, 6 from the cache at 1, 4 written at 10.
    let usage = TokenUsage { tokens_in: 10, tokens_out: 4, cost_micros: 8 + 6 + 40 };
    let expected =
        ModelAnswer { text: "Grüß dich".to_owned(), calls: Vec::new(), stop: StopReason::End, usage };
    assert_eq!(answer.unwrap(), expected);
    assert_eq!(heard, ["Grüß ", "dich"]);
}

#[tokio::test]
async fn the_request_is_what_chat_completions_want() {
    let body = format!("{}data: [DONE]\n\n", data(&[delta(json!({"content": "ok"})), finish("stop")]));
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let read = call("c1", "files.list", json!({"path": "a"}));
    let broken = call("c2", "read_file", json!("{not json"));
    let result =
        |id: &str, text: &str, is_error| ToolResult { id: id.to_owned(), text: text.to_owned(), is_error };
    let request = ModelRequest {
        messages: vec![
            Message::User("go".to_owned()),
            Message::Assistant { text: "looking".to_owned(), calls: vec![read] },
            Message::Results(vec![result("c1", "a.rs", false)]),
            Message::Assistant { text: String::new(), calls: vec![broken] },
            Message::Results(vec![result("c2", "no JSON", true)]),
        ],
        ..with_tools()
    };
    answered(&openai(&server.url), &request).await;
    let asked = server.asked();
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(asked.headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(asked.headers["content-type"], "application/json");
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let function = |name: &str, description: &str| json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}});
    let called = |id: &str, name: &str, arguments: &str| json!([{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]);
    let expected = json!({
        "model": "m-1",
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 500,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "looking", "tool_calls": called("c1", "files_list", r#"{"path":"a"}"#)},
            {"role": "tool", "tool_call_id": "c1", "content": "a.rs"},
            {"role": "assistant", "content": null,
                "tool_calls": called("c2", "read_file", r#"{"unreadable":"{not json"}"#)},
            {"role": "tool", "tool_call_id": "c2", "content": "error: no JSON"},
        ],
        "tools": [function("read_file", "does read_file"), function("files_list", "does files.list")],
    });
    assert_eq!(asked.body, expected);
    server.was_not_asked_again();
}

#[tokio::test]
async fn a_schema_binds_the_answer_where_the_server_can_and_is_told_in_words_where_it_cannot() {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
        "additionalProperties": false});
    let bound = ModelRequest { output: Some(schema.clone()), ..request("judge") };
    let beside_tools = ModelRequest { output: Some(schema.clone()), ..with_tools() };
    let format = json!({"type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": true}});
    for (dialect, request, is_bound, bound_word) in [
        (Dialect::COMPATIBLE, &bound, true, "max_tokens"),
        (Dialect::COMPATIBLE, &beside_tools, false, "max_tokens"),
        (Dialect::OPENAI, &beside_tools, true, "max_completion_tokens"),
        (Dialect::OPENROUTER, &beside_tools, true, "max_tokens"),
    ] {
        let body = format!(
            "{}data: [DONE]\n\n",
            data(&[delta(json!({"content": "{\"ok\":true}"})), finish("stop")])
        );
        let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
        let answer = answered(&openai_with(&server.url, dialect, PATIENT), request).await;
        assert_eq!(answer.text, "{\"ok\":true}");
        let sent = server.asked().body;
        assert_eq!(sent.get("response_format") == Some(&format), is_bound, "{dialect:?}");
        let system = sent["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("be brief"));
        assert_eq!(system.contains(&schema.to_string()), !is_bound, "{dialect:?}");
        assert_eq!(sent[bound_word], json!(500), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_question_is_not_asked_for_usage() {
    let body = format!("{}data: [DONE]\n\n", data(&[delta(json!({"content": "ok"})), finish("stop")]));
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let dialect = Dialect { asks_usage: false, ..Dialect::COMPATIBLE };
    answered(&openai_with(&server.url, dialect, PATIENT), &request("hello")).await;
    assert_eq!(server.asked().body.get("stream_options"), None);
}

#[tokio::test]
async fn calls_are_put_together_however_a_server_sends_them() {
    let piece = |index: u64, id: Value, name: Value, arguments: Value| {
        let call = json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}});
        delta(json!({"tool_calls": [call]}))
    };
    let two =
        vec![call("a", "read_file", json!({"path": "x"})), call("b", "files.list", json!({"path": "y"}))];
    let in_pieces = [
        piece(0, json!("a"), json!("read_file"), json!("")),
        piece(0, Value::Null, Value::Null, json!("{\"pa")),
        piece(1, json!("b"), json!("files_"), json!("")),
        piece(1, Value::Null, json!("list"), json!("")),
        piece(0, Value::Null, Value::Null, json!("th\":\"x\"}")),
        piece(1, Value::Null, Value::Null, json!("{\"path\":\"y\"}")),
        finish("tool_calls"),
    ];
    let repeated_names_and_ids = [
        piece(0, json!("a"), json!("read_file"), json!("{\"path\":")),
        piece(0, json!("a"), json!("read_file"), json!("\"x\"}")),
        piece(1, json!("b"), json!("files_list"), json!("{\"path\":\"y\"}")),
        finish("tool_calls"),
    ];
    let whole_and_all_of_index_0 = [
        piece(0, json!("a"), json!("read_file"), json!("{\"path\":\"x\"}")),
        piece(0, json!("b"), json!("files_list"), json!("{\"path\":\"y\"}")),
        finish("stop"),
    ];
    let whole_in_one_message_with_objects =
        [json!({"choices": [{"message": {"content": null, "tool_calls": [
        {"id": "a", "function": {"name": "read_file", "arguments": {"path": "x"}}},
        {"id": "b", "function": {"name": "files_list", "arguments": {"path": "y"}}},
    ]}, "finish_reason": "function_call"}]})];
    for chunks in [
        &in_pieces[..],
        &repeated_names_and_ids,
        &whole_and_all_of_index_0,
        &whole_in_one_message_with_objects,
    ] {
        let answer = answer_to(&with_tools(), chunks).await;
        assert_eq!((answer.calls, answer.stop), (two.clone(), StopReason::ToolUse), "{chunks:?}");
    }
}

#[tokio::test]
async fn calls_without_ids_are_told_apart_and_get_ids() {
    let whole = |name: &str| delta(json!({"tool_calls": [{"function": {"name": name, "arguments": "{}"}}]}));
    let answer = answer_to(&with_tools(), &[whole("read_file"), whole("read_file"), finish("stop")]).await;
    let expected = [call("call_1_0", "read_file", json!({})), call("call_1_1", "read_file", json!({}))];
    assert_eq!(answer.calls, expected);
}

#[tokio::test]
async fn calls_without_arguments_are_told_apart_by_their_ids() {
    let whole =
        |id: &str| delta(json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "read_file"}}]}));
    let answer = answer_to(&with_tools(), &[whole("a"), whole("b"), finish("tool_calls")]).await;
    assert_eq!(answer.calls, [call("a", "read_file", json!({})), call("b", "read_file", json!({}))]);
}

#[tokio::test]
async fn arguments_that_are_no_json_arrive_as_text_and_none_as_an_empty_object() {
    let one = |arguments: Value| {
        delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "nope", "arguments": arguments}}]}),
        )
    };
    for (sent, read) in [
        (json!("{\"path\": "), json!("{\"path\":")),
        (json!(""), json!({})),
        (Value::Null, json!({})),
        (json!("[1]"), json!([1])),
    ] {
        let answer = answer_to(&with_tools(), &[one(sent), finish("tool_calls")]).await;
        assert_eq!(answer.calls, [call("a", "nope", read)]);
    }
}

#[tokio::test]
async fn why_a_model_stopped_is_understood_in_every_words() {
    let text = || delta(json!({"content": "so"}));
    for (reason, stop) in [
        ("stop", StopReason::End),
        ("eos", StopReason::End),
        ("end_turn", StopReason::End),
        ("length", StopReason::MaxTokens),
        ("max_tokens", StopReason::MaxTokens),
        ("content_filter", StopReason::Refused),
    ] {
        let answer = answer_to(&request("hello"), &[text(), finish(reason)]).await;
        assert_eq!((answer.text.as_str(), answer.stop), ("so", stop), "{reason}");
    }
    let unsaid = answer_to(&request("hello"), &[text()]).await;
    assert_eq!(unsaid.stop, StopReason::End, "[DONE] says it too");
}

#[tokio::test]
async fn a_refusal_is_an_answer_that_says_so() {
    let chunks = [delta(json!({"refusal": "I will "})), delta(json!({"refusal": "not"})), finish("stop")];
    let answer = answer_to(&request("hello"), &chunks).await;
    assert_eq!((answer.text.as_str(), answer.stop), ("I will not", StopReason::Refused));
    let filtered = answer_to(&request("hello"), &[finish("content_filter")]).await;
    assert_eq!((filtered.text.as_str(), filtered.stop), ("", StopReason::Refused));
}

#[tokio::test]
async fn usage_that_is_not_told_is_counted_and_never_nothing() {
    let chunks = [delta(json!({"content": "x".repeat(30)})), finish("stop")];
    let answer = answer_to(&request(&"y".repeat(300)), &chunks).await;
    assert_eq!(answer.usage.tokens_out, 10);
    assert!(answer.usage.tokens_in > 100, "{:?}", answer.usage);
    assert_eq!(answer.usage.cost_micros, answer.usage.tokens_in * 2 + 100);
    let told =
        answer_to(&request("hello"), &[delta(json!({"content": "x"})), usage(7, 1), finish("stop")]).await;
    assert_eq!((told.usage.tokens_in, told.usage.tokens_out), (7, 1));
}

#[tokio::test]
async fn a_model_without_a_known_price_costs_nothing_that_we_know_of() {
    let unknown = ModelRequest { model: "m-9".to_owned(), ..request("hello") };
    let answer = answer_to(&unknown, &[delta(json!({"content": "x"})), usage(7, 1), finish("stop")]).await;
    assert_eq!(answer.usage, TokenUsage { tokens_in: 7, tokens_out: 1, cost_micros: 0 });
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "total_tokens": 5}});
    let script = Script::status("200 OK", &[("content-type", "application/json")], &body.to_string());
    let server = Scripted::start(vec![script]);
    let (answer, heard) = ask(&openai(&server.url), &request("hello")).await;
    let usage = TokenUsage { tokens_in: 3, tokens_out: 2, cost_micros: 26 };
    let expected = ModelAnswer { text: "whole".to_owned(), calls: Vec::new(), stop: StopReason::End, usage };
    assert_eq!((answer.unwrap(), heard), (expected, vec!["whole".to_owned()]));
}

#[tokio::test]
async fn a_stream_may_end_without_its_last_word_once_it_said_why_it_stopped() {
    let body = data(&[delta(json!({"content": "so"})), finish("stop")]);
    for body in [body.clone(), body.trim_end().to_owned(), body.replace('\n', "\r\n")] {
        let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
        assert_eq!(answered(&openai(&server.url), &request("hello")).await.text, "so");
    }
}

#[tokio::test]
async fn a_connection_that_stays_open_after_the_last_word_does_not_keep_the_answer() {
    let body = format!("{}data: [DONE]\n\n", data(&[delta(json!({"content": "so"})), finish("stop")]));
    let mut server = Scripted::start(vec![Script::held_events(&[body.as_bytes()])]);
    assert_eq!(answered(&openai(&server.url), &request("hello")).await.text, "so");
    server.client_left().await;
}

#[tokio::test]
async fn thoughts_and_parts_and_empty_events_do_not_disturb() {
    let chunks = [
        delta(json!({"reasoning_content": "hm", "content": null})),
        delta(json!({"content": [{"type": "text", "text": "so"}]})),
        json!({"choices": []}),
        finish("stop"),
    ];
    let body = format!("data:\n\n: ping\n\nid: 4\nretry: 10\n{}data: [DONE]\n\n", data(&chunks));
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    assert_eq!(answered(&openai(&server.url), &request("hello")).await.text, "so");
}
