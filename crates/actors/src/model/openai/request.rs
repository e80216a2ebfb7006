//! A question as chat completions want it.

use serde_json::{Map, Value, json};

use super::Dialect;
use crate::model::request::{Message, ModelRequest, ToolResult, ToolUse};
use crate::model::tool_names::ToolNames;

/// The body of the request.
pub(super) fn body(request: &ModelRequest, names: &ToolNames, dialect: Dialect) -> Value {
    let mut body = Map::new();
    let bound = if dialect.newer_bound { "max_completion_tokens" } else { "max_tokens" };
    body.insert("model".to_owned(), json!(request.model));
    body.insert("stream".to_owned(), json!(true));
    body.insert(bound.to_owned(), json!(request.max_tokens));
    if dialect.asks_usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let mut system = request.system.clone();
    if let Some(schema) = &request.output {
        if request.tools.is_empty() || dialect.schema_beside_tools {
            body.insert("response_format".to_owned(), response_format(schema));
        } else {
            let told = format!(
                "When you need no more tools, answer with one JSON value and nothing else. It fits this schema: {schema}"
            );
            system = if system.is_empty() { told } else { format!("{system}\n\n{told}") };
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages(&system, &request.messages, names)));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), tools(request, names));
    }
    Value::Object(body)
}

fn messages(system: &str, messages: &[Message], names: &ToolNames) -> Vec<Value> {
    let mut all = Vec::new();
    if !system.is_empty() {
        all.push(json!({"role": "system", "content": system}));
    }
    for message in messages {
        match message {
            Message::User(text) => all.push(json!({"role": "user", "content": text})),
            Message::Assistant { text, calls } if calls.is_empty() => {
                all.push(json!({"role": "assistant", "content": text}));
            }
            Message::Assistant { text, calls } => {
                let calls: Vec<Value> = calls.iter().map(|call| tool_call(call, names)).collect();
                let content = if text.is_empty() { Value::Null } else { json!(text) };
                all.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
            }
            Message::Results(results) => all.extend(results.iter().map(tool_result)),
        }
    }
    all
}

fn tool_call(call: &ToolUse, names: &ToolNames) -> Value {
    let arguments = crate::model::request::sendable(&call.arguments).to_string();
    let function = json!({"name": names.on_the_wire(&call.name), "arguments": arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

/// There is no word for a failure on this wire, so the text says it.
fn tool_result(result: &ToolResult) -> Value {
    let content = if result.is_error { format!("error: {}", result.text) } else { result.text.clone() };
    json!({"role": "tool", "tool_call_id": result.id, "content": content})
}

fn tools(request: &ModelRequest, names: &ToolNames) -> Value {
    let tools = request.tools.iter().map(|tool| {
        let name = names.on_the_wire(&tool.name);
        let function = json!({"name": name, "description": tool.description, "parameters": tool.input});
        json!({"type": "function", "function": function})
    });
    tools.collect()
}

fn response_format(schema: &Value) -> Value {
    let bound = json!({"name": "answer", "schema": schema, "strict": is_strict(schema)});
    json!({"type": "json_schema", "json_schema": bound})
}

/// Returns whether a schema is one of those that OpenAI can hold a model to: every object closed, every
/// property required. Others it refuses when they are called strict.
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let is_object =
                map.get("type").and_then(Value::as_str) == Some("object") || map.contains_key("properties");
            (!is_object || is_closed(map)) && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_closed(object: &Map<String, Value>) -> bool {
    let required: Vec<&str> = match object.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    let all_required = match object.get("properties") {
        Some(Value::Object(properties)) => properties.keys().all(|name| required.contains(&name.as_str())),
        Some(_) | None => true,
    };
    object.get("additionalProperties") == Some(&Value::Bool(false)) && all_required
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_closed_schemas_are_called_strict() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            "additionalProperties": false});
        assert!(is_strict(&closed));
        assert!(is_strict(&json!({"type": "array", "items": closed})));
        for (key, value) in [("additionalProperties", json!(true)), ("required", json!([]))] {
            let mut open = closed.clone();
            open[key] = value;
            assert!(!is_strict(&open), "{key}");
            assert!(!is_strict(&json!({"type": "array", "items": open})), "{key}");
        }
    }
}
