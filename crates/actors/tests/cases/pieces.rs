//! An answer is the same however its bytes are cut into pieces: between events, within `data:`, within a
//! character.

use actors::model::{ModelAnswer, ModelRequest, Provider};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{anthropic, ask, data, events, openai, request, tool};
use testkit::scripted_server::{Script, Scripted};

#[derive(Clone, Copy, Debug)]
enum Wire {
    OpenAi,
    Anthropic,
}

/// A stream with all that is hard to cut: long characters, calls in pieces, comments, line ends of two bytes.
fn body(wire: Wire) -> Vec<u8> {
    let text = match wire {
        Wire::OpenAi => data(&[
            json!({"choices": [{"delta": {"content": "日本 🦀 é"}}]}),
            json!({"choices": [{"delta": {"content": "\\n\"x\""}}]}),
            json!({"choices": [{"delta": {"tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "read_file", "arguments": "{\"path\":\"ü"}}]}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "🦀\"}"}}]}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}}),
        ]),
        Wire::Anthropic => events(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 0}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "日本 🦀 é"}}),
            json!({"type": "content_block_start", "index": 1,
                "content_block": {"type": "tool_use", "id": "a", "name": "read_file", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": "{\"path\":\"ü🦀\"}"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 6}}),
            json!({"type": "message_stop"}),
        ]),
    };
    let end = match wire {
        Wire::OpenAi => "data: [DONE]\n\n",
        Wire::Anthropic => "",
    };
    format!(": hello 🦀\n\n{text}{end}").replace('\n', "\r\n").into_bytes()
}

fn answer_to(wire: Wire, pieces: &[&[u8]]) -> (ModelAnswer, String) {
    let server = Scripted::start(vec![Script::events(pieces)]);
    let request = ModelRequest { tools: vec![tool("read_file")], ..request("go") };
    let provider: Box<dyn Provider> = match wire {
        Wire::OpenAi => Box::new(openai(&server.url)),
        Wire::Anthropic => Box::new(anthropic(&server.url)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (answer, heard) = runtime.block_on(ask(&*provider, &request));
    (answer.unwrap(), heard.concat())
}

#[test]
fn a_stream_of_single_bytes_is_understood() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let body = body(wire);
        let whole = answer_to(wire, &[&body]);
        assert_eq!(whole.0.calls[0].arguments, json!({"path": "ü🦀"}));
        assert!(whole.1.starts_with("日本 🦀 é"));
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(answer_to(wire, &bytes), whole, "{wire:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_cut_of_the_bytes_gives_the_same_answer(
        is_openai: bool,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let wire = if is_openai { Wire::OpenAi } else { Wire::Anthropic };
        let body = body(wire);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in places {
            pieces.push(&body[from..to]);
            from = to;
        }
        pieces.push(&body[from..]);
        prop_assert_eq!(answer_to(wire, &pieces), answer_to(wire, &[&body]));
    }
}
