//! The error of a command, for people and for programs.
//!
//! The message carries facts: the object and its state. Hints carry advice: the command to type. They are
//! those of the table in [`codes`]: a failure chooses among the hints of its code and fills in the fields.
//!
//! # Invariants
//! 1. Every failure has a code of [`codes`], and its exit status is that of its code.
//! 2. A message holds no control characters but line ends: text from files and programs cannot move the
//!    cursor.
//!
//! # Not here
//! The failure for each error of the engine: each command chooses it where it calls the engine.

pub mod codes;
pub mod from_context;
pub mod from_engine;

use std::fmt;

use engine::SecretFilter;
use serde_json::{Value, json};

pub use codes::{Code, Exit, Hint, hints};

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
    advice: Box<Advice>,
}

/// The hints of a failure. Boxed, because most results have none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Advice {
    /// The hints of the code that this failure needs; the code's own if it names none.
    chosen: Vec<Hint>,
    /// The values of the fields in the hints; of two with one name, the later.
    fields: Vec<(&'static str, String)>,
}

impl CommandError {
    /// A failure with a message alone.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, lines: Vec::new(), detail: Value::Null, advice: Box::default() }
    }

    /// The same without secrets.
    #[must_use]
    pub fn without_secrets(self, filter: &SecretFilter) -> Self {
        let all = |texts: Vec<String>| texts.into_iter().map(|text| filter.words(text)).collect();
        let fields =
            self.advice.fields.iter().map(|(name, value)| (*name, filter.words(value.clone()))).collect();
        Self {
            code: self.code,
            message: filter.words(self.message),
            lines: all(self.lines),
            detail: filter.value(self.detail),
            advice: Box::new(Advice { fields, ..*self.advice }),
        }
    }

    /// Adds a hint of the code.
    #[must_use]
    pub fn hint(mut self, hint: Hint) -> Self {
        debug_assert!(
            self.code.hint == Some(hint) || self.code.variants.contains(&hint),
            "{} has no {hint:?}",
            self.code.name
        );
        self.advice.chosen.push(hint);
        self
    }

    /// Replaces the code.
    #[must_use]
    pub fn with_code(self, code: &'static Code) -> Self {
        Self { code, ..self }
    }

    /// Adds the code's own hint, which is printed alone if no other is added.
    #[must_use]
    pub fn own_hint(mut self) -> Self {
        self.advice.chosen.extend(self.code.hint);
        self
    }

    /// Replaces the hints by one.
    #[must_use]
    pub fn only_hint(mut self, hint: Hint) -> Self {
        self.advice.chosen.clear();
        self.hint(hint)
    }

    /// Sets the value of a field in the hints.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.advice.fields.push((name, value.to_string()));
        self
    }

    /// Sets the plan that the hints name.
    #[must_use]
    pub fn plan(self, id: &str) -> Self {
        self.field("id", id)
    }

    /// Returns the hints with their fields filled in.
    pub fn hints(&self) -> Vec<String> {
        let of_code =
            if self.advice.chosen.is_empty() { self.code.hint.as_slice() } else { &self.advice.chosen };
        let field = |name: &str| {
            let found = self.advice.fields.iter().rev().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        of_code.iter().map(|hint| hint.fill(&field)).collect()
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
        for (index, hint) in self.hints().iter().enumerate() {
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
            "suggestions": self.hints(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> CommandError {
        CommandError::new(&codes::PLAN_BUSY, "plan 01JB3QK7XM cannot be applied: execute is still running")
            .hint(hints::FOLLOW)
            .hint(hints::CONTINUES_WITH_PROMPT)
            .plan("01JB3QK7XM")
    }

    #[test]
    fn a_failure_says_facts_then_advice() {
        assert_eq!(
            busy().line("since 12s").render(Paint::OFF),
            "error[PLAN_BUSY]: plan 01JB3QK7XM cannot be applied: execute is still running\n  since 12s\n\n\
             hint: follow it with `agents plan watch 01JB3QK7XM`\n\
             hint: without `--replan` the plan heeds the text as it continues: `agents plan prompt 01JB3QK7XM TEXT`\n"
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
                    "without `--replan` the plan heeds the text as it continues: `agents plan prompt 01JB3QK7XM TEXT`",
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
