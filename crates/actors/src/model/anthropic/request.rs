//! A question as Anthropic's messages want it.

use serde_json::{Map, Value, json};

use crate::model::request::{Message, ModelRequest, ToolResult, ToolUse, sendable};
use crate::model::tool_names::ToolNames;

/// The body of the request; `answer_tool` is the name of the tool that represents the schema of the answer.
pub(super) fn body(request: &ModelRequest, names: &ToolNames, answer_tool: Option<&str>) -> Value {
    let is_cached = !request.tools.is_empty();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert("max_tokens".to_owned(), json!(request.max_tokens));
    body.insert("stream".to_owned(), json!(true));
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            let name = names.on_the_wire(&tool.name);
            json!({"name": name, "description": tool.description, "input_schema": tool.input})
        })
        .collect();
    if let (Some(schema), Some(name)) = (&request.output, answer_tool) {
        let description = "Gives the final answer. Call it once, when nothing else is left to do.";
        tools.push(json!({"name": name, "description": description, "input_schema": schema}));
        if request.tools.is_empty() {
            body.insert("tool_choice".to_owned(), json!({"type": "tool", "name": name}));
        }
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    let mut system = request.system.clone();
    if let (Some(name), false) = (answer_tool, request.tools.is_empty()) {
        let told = format!("When you are done, give your answer by calling `{name}`.");
        system = if system.is_empty() { told } else { format!("{system}\n\n{told}") };
    }
    if !system.is_empty() {
        // The text before a mark is cached with it: tools, then the system prompt.
        let block = marked(json!({"type": "text", "text": system}), is_cached);
        body.insert("system".to_owned(), json!([block]));
    }
    body.insert("messages".to_owned(), Value::Array(messages(&request.messages, names, is_cached)));
    Value::Object(body)
}

/// Turns, one of each side after the other: the results of tools and what the user adds are one turn.
fn messages(messages: &[Message], names: &ToolNames, is_cached: bool) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = match message {
            Message::User(text) => ("user", text_block(text)),
            Message::Assistant { text, calls } => {
                let calls = calls.iter().map(|call| tool_use(call, names));
                ("assistant", text_block(text).into_iter().chain(calls).collect())
            }
            Message::Results(results) => ("user", results.iter().map(tool_result).collect()),
        };
        match turns.last_mut() {
            Some((last, earlier)) if *last == role => earlier.extend(blocks),
            // A turn without a word is refused by the server.
            Some(_) | None if blocks.is_empty() => {}
            Some(_) | None => turns.push((role, blocks)),
        }
    }
    if let Some(block) = turns.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
        *block = marked(block.take(), is_cached);
    }
    turns.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect()
}

fn text_block(text: &str) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![json!({"type": "text", "text": text})] }
}

fn tool_use(call: &ToolUse, names: &ToolNames) -> Value {
    let name = names.on_the_wire(&call.name);
    json!({"type": "tool_use", "id": call.id, "name": name, "input": sendable(&call.arguments)})
}

fn tool_result(result: &ToolResult) -> Value {
    let ToolResult { id, text, is_error } = result;
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "is_error": is_error});
    if !text.is_empty() {
        block["content"] = json!(text);
    }
    block
}

fn marked(mut block: Value, is_cached: bool) -> Value {
    if is_cached {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    block
}
