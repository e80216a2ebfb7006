//! The arguments and the result of a call as they are stored.
//!
//! # Invariants
//! 1. Nothing is stored with its secrets. Texts of files are redacted by the rules of their file.
//! 2. A text is stored with its beginning and its end: the contents themselves are stored with the changes.

use actors::tool::{HEAD_BYTES, TAIL_BYTES, head_and_tail};
use domain::{Redactor, RelPath};
use serde_json::{Value, json};

/// The fields whose text goes into the file that `path` names.
const FILE_TEXTS: [&str; 3] = ["content", "old", "new"];
/// A name whose file is data.
const AS_DATA: &str = "arguments.json";
/// In place of what cannot be redacted.
const WITHHELD: &str = "[withheld: no redactor]";

/// Returns the arguments in their stored form.
pub fn recorded_arguments(redactor: Option<&Redactor>, arguments: &Value) -> Value {
    let Some(redactor) = redactor else { return json!(WITHHELD) };
    let mut kept = arguments.clone();
    if let Value::String(text) = &mut kept {
        // Arguments of a model that are no JSON: data all the same.
        *text = redacted(redactor, AS_DATA, text);
    }
    // In whatever form the path is written, the name at its end distinguishes data from program text.
    let path = arguments["path"].as_str().and_then(|path| path.rsplit(['/', ':']).next());
    if let (Some(path), Some(fields)) = (path, kept.as_object_mut()) {
        for (name, value) in fields.iter_mut() {
            if let Value::String(text) = value
                && FILE_TEXTS.contains(&name.as_str())
            {
                *text = redacted(redactor, path, text);
            }
        }
    }
    let mut kept = redactor.redact_json(&kept);
    bound(&mut kept);
    kept
}

/// A text without its secrets, by the rules of the file `name`; by those of data where that is no name.
fn redacted(redactor: &Redactor, name: &str, text: &str) -> String {
    let Ok(name) = RelPath::new(name).or_else(|_| RelPath::new(AS_DATA)) else { return WITHHELD.to_owned() };
    String::from_utf8_lossy(&redactor.redact_file(&name, text.as_bytes())).into_owned()
}

/// Returns the stored form of a result that is redacted already.
pub fn recorded_result(result: &Value) -> Value {
    let mut kept = result.clone();
    // The text that was read has the name of other outputs.
    if let Some(content) = kept.as_object_mut().and_then(|fields| fields.remove("content")) {
        kept["text"] = content;
    }
    bound(&mut kept);
    let text = kept.to_string();
    if text.len() <= 4 * (HEAD_BYTES + TAIL_BYTES) {
        return kept;
    }
    json!({ "text": head_and_tail(&text, HEAD_BYTES, TAIL_BYTES) })
}

fn bound(value: &mut Value) {
    match value {
        Value::String(text) => *text = head_and_tail(text, HEAD_BYTES, TAIL_BYTES),
        Value::Array(items) => items.iter_mut().for_each(bound),
        Value::Object(fields) => fields.values_mut().for_each(bound),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
