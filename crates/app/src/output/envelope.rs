//! The one shape that programs read, in JSON or YAML.
//!
//! # Invariants
//! 1. The six keys are always there, in this order, whether the command succeeded or not.
//! 2. A message is `{level, code, message, detail, suggestions}`; a failure is a message of level `error`,
//!    the last one.
//! 3. JSON is one line, so that a reader of lines has it whole.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::Format;
use super::escape::escape_json;

/// The start and the duration of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// When, in UTC.
    pub started: String,
    /// The duration.
    pub duration_ms: u64,
}

/// The answer for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Envelope<'a> {
    /// The command, as `plan list`.
    pub command: &'a str,
    /// The word of the exit code.
    pub status: &'static str,
    /// The number that the shell sees.
    pub exit_code: u8,
    /// The answer; null when there is none.
    pub data: &'a Value,
    /// When, and how long.
    pub timing: Timing,
    /// The messages in addition to it.
    pub messages: Vec<Value>,
}

impl Envelope<'_> {
    /// The text, ended by a line end. Formats for people get JSON.
    ///
    /// # Errors
    /// A value that YAML cannot say.
    pub fn encode(&self, format: Format) -> io::Result<String> {
        let text = match format {
            Format::Yaml => serde_saphyr::to_string(self).map_err(io::Error::other)?,
            Format::Json | Format::Rich | Format::Plain => escape_json(&serde_json::to_string(self)?),
        };
        Ok(if text.ends_with('\n') { text } else { text + "\n" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encode(data: &Value, format: Format) -> String {
        let timing = Timing { started: "2026-11-16T00:30:03.250Z".to_owned(), duration_ms: 7 };
        let messages = vec![json!({ "level": "info", "message": "a: \"b\"\n- c" })];
        let envelope = Envelope { command: "plan list", status: "ok", exit_code: 0, data, timing, messages };
        envelope.encode(format).unwrap()
    }

    #[test]
    fn json_is_one_line_with_six_keys_in_order() {
        assert_eq!(
            encode(&json!({ "plans": [] }), Format::Json),
            "{\"command\":\"plan list\",\"status\":\"ok\",\"exit_code\":0,\"data\":{\"plans\":[]},\
             \"timing\":{\"started\":\"2026-11-16T00:30:03.250Z\",\"duration_ms\":7},\
             \"messages\":[{\"level\":\"info\",\"message\":\"a: \\\"b\\\"\\n- c\"}]}\n"
        );
    }

    #[test]
    fn yaml_says_the_same_as_json() {
        let tricky = json!({
            "empty": "", "yes": "yes", "number": "012", "null": null, "lines": "a\nb\n", "colon": "a: b # c",
            "tab": "\tx", "esc": "\u{1b}[0m", "list": [{ "a": [] }, {}, "- x", "~", "1e3"], "n": 18446744073709551615_u64,
            "quote": "'\"", "trail": "x ", "e": "é\u{85}", "\u{2028}": true,
        });
        let yaml = encode(&tricky, Format::Yaml);
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        let json: Value = serde_json::from_str(&encode(&tricky, Format::Json)).unwrap();
        assert_eq!(read, json, "{yaml}");
    }
}
