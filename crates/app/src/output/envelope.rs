//! The one shape that programs read, in JSON or YAML.
//!
//! # Invariants
//! 1. The seven keys are always there, in this order, whether the command succeeded or not.
//! 2. A message is `{level, code, message, detail, suggestions}`; a failure is a message of level `error`,
//!    the last one.
//! 3. JSON is one line, so that a reader of lines has it whole.
//! 4. [`VERSION`] rises when a key is removed, renamed or gets another meaning, and not when one is added.
//!    `schema/envelope.json` is printed from here.

use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use super::Format;
use super::escape::escape_json;
use crate::errors::Exit;
use crate::errors::codes::CODES;

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
    /// The version of the shape: [`VERSION`].
    pub v: u32,
}

/// The version of the envelope and of the answers in it.
pub const VERSION: u32 = 1;

/// The schema of the envelope, as `schema/envelope.json` has it.
pub fn schema() -> Value {
    let exits: Vec<u8> = Exit::ALL.iter().map(|exit| exit.number()).collect();
    let words: Vec<&str> = Exit::ALL.iter().map(|exit| exit.word()).collect();
    let codes: Vec<&str> = CODES.iter().map(|code| code.name).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The answer of a command of agents with --format json or yaml",
        "description": "One object for each command, on one line in JSON. `plan watch` prints one line for each event before it. Within version 1 no key is removed or renamed and none changes its meaning; new keys may be added anywhere, so ignore keys that you do not know. Times are RFC 3339 in UTC, keys that end in _ms are milliseconds, keys that end in _bytes are bytes, costs are millionths of a dollar.",
        "type": "object",
        "required": ["command", "status", "exit_code", "data", "timing", "messages", "v"],
        "properties": {
            "command": { "type": "string", "description": "The command, like `plan list`; a short form has the name of the long one" },
            "status": { "enum": words, "description": "The exit code in a word" },
            "exit_code": { "enum": exits, "description": "The exit status of the program" },
            "data": { "description": "The answer of the command; null if it has none. An error may come with an answer" },
            "timing": {
                "type": "object",
                "required": ["started", "duration_ms"],
                "properties": {
                    "started": { "type": "string", "format": "date-time" },
                    "duration_ms": { "type": "integer", "minimum": 0 },
                },
            },
            "messages": {
                "type": "array",
                "description": "Notes, and at the end the error, if there is one",
                "items": {
                    "type": "object",
                    "required": ["level", "code", "message", "detail", "suggestions"],
                    "properties": {
                        "level": { "enum": ["info", "warning", "error"] },
                        "code": {
                            "description": "The code of an error (docs/errors.md); null for a note",
                            "anyOf": [{ "enum": codes }, { "type": "null" }],
                        },
                        "message": { "type": "string", "description": "For people; programs read the code and the detail" },
                        "detail": { "description": "The facts of an error; null if there are none" },
                        "suggestions": { "type": "array", "items": { "type": "string" } },
                    },
                },
            },
            "v": { "const": VERSION, "description": "The version of this shape and of the answers in it" },
        },
    })
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
    use super::*;

    fn encode(data: &Value, format: Format) -> String {
        let timing = Timing { started: "2026-11-16T00:30:03.250Z".to_owned(), duration_ms: 7 };
        let messages = vec![json!({ "level": "info", "message": "a: \"b\"\n- c" })];
        let envelope =
            Envelope { command: "plan list", status: "ok", exit_code: 0, data, timing, messages, v: VERSION };
        envelope.encode(format).unwrap()
    }

    #[test]
    fn json_is_one_line_with_seven_keys_in_order() {
        assert_eq!(
            encode(&json!({ "plans": [] }), Format::Json),
            "{\"command\":\"plan list\",\"status\":\"ok\",\"exit_code\":0,\"data\":{\"plans\":[]},\
             \"timing\":{\"started\":\"2026-11-16T00:30:03.250Z\",\"duration_ms\":7},\
             \"messages\":[{\"level\":\"info\",\"message\":\"a: \\\"b\\\"\\n- c\"}],\"v\":1}\n"
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
