//! The answer that a node's `output` wants: JSON, in a code fence or not, that fits a schema.

use actors::tool::{Schema, SchemaError};
use serde_json::Value;

const FENCE: &str = "```";

/// The schema that the last answer has to fit.
pub(crate) struct OutputSchema {
    schema: Schema,
    shown: String,
}

/// An answer that does not match. In words for the model it has the schema, which people find in the logs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}. It must be one JSON object that matches this schema: {schema}")]
pub(crate) struct OutputMismatch {
    pub(crate) problem: String,
    schema: String,
}

impl OutputSchema {
    pub(crate) fn new(schema: &Value) -> Result<OutputSchema, SchemaError> {
        Ok(OutputSchema { schema: Schema::new(schema)?, shown: schema.to_string() })
    }

    /// Reads the JSON of an answer.
    ///
    /// # Errors
    /// Returns an error if it is no JSON object, or does not match.
    pub(crate) fn read(&self, text: &str) -> Result<Value, OutputMismatch> {
        let wanted =
            |what: &str| Err(OutputMismatch { problem: what.to_owned(), schema: self.shown.clone() });
        let value = match json_in(text) {
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => return wanted("it is JSON, but not an object"),
            Err(error) => return wanted(&format!("it is not JSON ({error})")),
        };
        let problems = self.schema.problems(&value);
        if problems.is_empty() { Ok(value) } else { wanted(&problems.join("; ")) }
    }
}

/// Returns the JSON of the whole text, or of its first code fence.
fn json_in(text: &str) -> Result<Value, serde_json::Error> {
    let whole = serde_json::from_str(text.trim());
    match (whole, fenced(text)) {
        (Err(_), Some(fenced)) => serde_json::from_str(fenced),
        (whole, _) => whole,
    }
}

fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(FENCE)?;
    // The rest of the line names a language.
    let (_, rest) = rest.split_once('\n')?;
    let end = rest.find(FENCE).unwrap_or(rest.len());
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted() -> OutputSchema {
        let schema = json!({
            "type": "object", "required": ["ok"], "additionalProperties": false,
            "properties": { "ok": { "type": "boolean" } },
        });
        OutputSchema::new(&schema).unwrap()
    }

    #[test]
    fn json_is_found_bare_and_in_a_fence() {
        let value = Ok(json!({ "ok": true }));
        for text in [
            r#" {"ok": true} "#,
            "```json\n{\"ok\": true}\n```",
            "```\n{\"ok\": true}\n```\n",
            "Here it is:\n```json\n{\"ok\": true}\n```\nDone.",
            "```json\n{\"ok\": true}",
        ] {
            assert_eq!(wanted().read(text), value, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_schema() {
        for (text, says) in [
            ("", "it is not JSON ("),
            ("yes", "it is not JSON ("),
            ("true", "it is JSON, but not an object"),
            ("\"{}\"", "it is JSON, but not an object"),
            ("{}", "`ok` is missing"),
            (r#"{"ok": 1}"#, "`ok`: "),
        ] {
            let why = wanted().read(text).unwrap_err().to_string();
            assert!(why.starts_with(says) && why.contains(r#""required":["ok"]"#), "{text}: {why}");
        }
    }
}
