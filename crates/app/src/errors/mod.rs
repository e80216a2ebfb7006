//! The error of a command, for people and for programs.
//!
//! The message carries facts: what object, what state. Hints carry advice: what to type.
//!
//! # Invariants
//! 1. Every failure has a code of [`codes`], and its exit status is that of its code.
//! 2. What is shown holds no control characters but line ends: text from files and programs cannot move the
//!    cursor.
//!
//! # Not here
//! Which error of the engine is which failure: each command says that where it calls.

pub mod codes;
pub mod from_context;
pub mod from_engine;

use engine::SecretFilter;
use serde_json::{Value, json};

pub use codes::{Code, Exit};

use crate::output::{Paint, escape_control_chars};

/// The reason why a command did not do what it was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandError {
    /// The code: the name that is searched for.
    pub code: &'static Code,
    /// The facts, in one sentence.
    pub message: String,
    /// More facts, a line each, for people.
    pub lines: Vec<String>,
    /// The same facts for programs; null when there are none.
    pub detail: Value,
    /// The remedies, each beginning with a small letter.
    pub hints: Vec<String>,
}

impl CommandError {
    /// A failure with a message alone.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), lines: Vec::new(), detail: Value::Null, hints: Vec::new() }
    }

    /// The same without secrets.
    #[must_use]
    pub fn without_secrets(self, filter: &SecretFilter) -> Self {
        let all = |texts: Vec<String>| texts.into_iter().map(|text| filter.words(text)).collect();
        Self {
            code: self.code,
            message: filter.words(self.message),
            lines: all(self.lines),
            detail: filter.value(self.detail),
            hints: all(self.hints),
        }
    }

    /// Adds advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a line of facts.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Sets the facts for programs.
    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    /// The exit status of the program.
    pub fn exit(&self) -> Exit {
        self.code.exit
    }

    /// As it is written to the error output.
    pub fn render(&self, paint: Paint) -> String {
        let mut text = format!(
            "{}: {}\n",
            paint.red(&format!("error[{}]", self.code.name)),
            escape_control_chars(&self.message)
        );
        for line in &self.lines {
            text.push_str(&format!("  {}\n", escape_control_chars(line)));
        }
        for (index, hint) in self.hints.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            text.push_str(&format!("{gap}{}: {}\n", paint.cyan("hint"), escape_control_chars(hint)));
        }
        text
    }

    /// Returns the error in its form among the messages of the envelope.
    pub fn to_json(&self) -> Value {
        let detail = match (&self.detail, self.lines.is_empty()) {
            (Value::Null, false) => json!(self.lines),
            (detail, _) => detail.clone(),
        };
        json!({
            "level": "error", "code": self.code.name, "message": self.message, "detail": detail,
            "suggestions": self.hints,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> CommandError {
        CommandError::new(&codes::PLAN_BUSY, "plan 01JB3QK7XM cannot be applied: execute is still running")
            .hint("follow it with `agents plan watch 01JB3QK7XM`")
            .hint("stop it with `agents plan cancel 01JB3QK7XM`")
    }

    #[test]
    fn a_failure_says_facts_then_advice() {
        assert_eq!(
            busy().line("since 12s").render(Paint::OFF),
            "error[PLAN_BUSY]: plan 01JB3QK7XM cannot be applied: execute is still running\n  since 12s\n\n\
             hint: follow it with `agents plan watch 01JB3QK7XM`\n\
             hint: stop it with `agents plan cancel 01JB3QK7XM`\n"
        );
        assert_eq!(busy().exit(), Exit::Refused);
    }

    #[test]
    fn a_failure_is_read_by_programs() {
        assert_eq!(
            busy().detail(json!({ "phase": "execute" })).to_json(),
            json!({
                "level": "error", "code": "PLAN_BUSY",
                "message": "plan 01JB3QK7XM cannot be applied: execute is still running",
                "detail": { "phase": "execute" },
                "suggestions": [
                    "follow it with `agents plan watch 01JB3QK7XM`",
                    "stop it with `agents plan cancel 01JB3QK7XM`",
                ],
            })
        );
        assert_eq!(busy().line("a").to_json()["detail"], json!(["a"]));
        assert_eq!(busy().to_json()["detail"], Value::Null);
    }

    #[test]
    fn a_message_cannot_move_the_cursor() {
        let shown = CommandError::new(&codes::USAGE, "file \x1b[2J\r gone").render(Paint::OFF);
        assert_eq!(shown, "error[USAGE]: file \\x1B[2J\\x0D gone\n");
    }
}
