//! A call of a plan in a few words: `reads lib/greet.sh`, `edits test.sh +1 -1`, `runs cargo test … failed`.
//!
//! # Invariants
//! The words are escaped and on one line: they name files, commands and models that others chose.

use domain::{CallState, EventKind, EventRecord, NodePath, ToolCall};
use serde_json::Value;

use super::progress::for_how_long;
use crate::output::{escape_control_chars, one_line_of};
use crate::time::format_duration;

/// Arguments that say enough about a call, the most telling one first.
const TELLING: [&str; 8] = ["path", "command", "model", "agent", "query", "pattern", "question", "invariant"];
/// The characters of an argument that are shown.
const ARGUMENT_CHARS_MAX: usize = 200;

/// Returns the argument that distinguishes one call from another, on one line; empty if there is none.
pub fn telling_argument(requested: &Value) -> String {
    let telling = TELLING.iter().find_map(|name| requested.get(name)).filter(|value| !value.is_null());
    let words = match telling.unwrap_or(requested) {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => other.to_string(),
    };
    escape_control_chars(&one_line_of(&words, ARGUMENT_CHARS_MAX))
}

/// Returns what a call does, in the present tense.
pub fn words(node: &str, tool: &str, requested: &Value) -> String {
    if let Some(check) = NodePath::parse(node).check() {
        return format!("checks {}", escape_control_chars(&one_line_of(check, ARGUMENT_CHARS_MAX)));
    }
    let verb = match tool {
        "read_file" => "reads",
        "list_directory" => "lists",
        "search_files" => "searches for",
        "write_file" => "writes",
        "edit_file" => "edits",
        "delete_file" => "deletes",
        "move_file" => "moves",
        "run_command" => "runs",
        "ask_model" => "asks",
        "start_server" => "starts a server",
        "end_server" => "ends its servers",
        "take_back" => return "reverts unfinished changes".to_owned(),
        other => {
            return format!("calls {} {}", escape_control_chars(other), telling_argument(requested))
                .trim_end()
                .to_owned();
        }
    };
    format!("{verb} {}", telling_argument(requested)).trim_end().to_owned()
}

/// Returns what a call that has ended did: its words, the lines that it changed, and its end if that is not a good
/// one.
pub fn ended_words(call: &ToolCall) -> String {
    let mut text = words(&call.new.node, &call.new.tool, &call.new.requested);
    let Some(end) = &call.end else { return text };
    if let Some((added, removed)) = end.result["diff"].as_str().map(count_lines) {
        text.push_str(&format!(" +{added} -{removed}"));
    }
    match end.state {
        CallState::Ok | CallState::Running => {}
        CallState::Failed => text.push_str(" … failed"),
        CallState::TimedOut => text.push_str(" … took too long"),
        CallState::Refused => text.push_str(" … refused"),
        CallState::Cancelled => text.push_str(" … stopped"),
    }
    if let Some(exit) = end.exit.filter(|exit| *exit != 0) {
        text.push_str(&format!(", exit {exit}"));
    }
    if takes_time(&call.new.tool) {
        text.push_str(&format!(", {}", format_duration(end.duration_ms)));
    }
    text
}

/// The colour of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
}

/// Returns an event in plain words; `None` for what only programs want to know. `call` is the call that it is about.
pub fn event_words(event: &EventRecord, call: Option<&ToolCall>) -> Option<(String, Tone)> {
    let word = |key: &str| match event.data.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let plain = |text: String| Some((text, Tone::Plain));
    match event.kind {
        EventKind::PlanCreated => plain(format!("made: {}", word("title"))),
        EventKind::PlanMoved => moved_words(&word("to"), &word("event")),
        EventKind::PlanUndone if event.data.get("undone") == Some(&Value::Bool(true)) => {
            plain("undone".to_owned())
        }
        EventKind::PlanUndone => plain("applied again".to_owned()),
        EventKind::DecisionRecorded if word("kind") == "guidance" => plain("gets your message".to_owned()),
        EventKind::DecisionRecorded if word("kind") == "choice" => {
            plain(format!("decides: {}", word("question")))
        }
        // What every plan decides says nothing about this one.
        EventKind::DecisionRecorded => None,
        EventKind::DecisionSuperseded => plain("earlier decisions give way".to_owned()),
        EventKind::ToolStarted => {
            let words = call.map(|call| words(&call.new.node, &call.new.tool, &call.new.requested));
            let is_long = call.is_some_and(|call| takes_time(&call.new.tool) || call.new.tool == "ask_model");
            words.filter(|_| is_long).and_then(plain)
        }
        EventKind::ToolFinished => {
            let call = call.filter(|call| call.new.tool != "ask_model" || is_bad(call))?;
            let tone = match is_bad(call) {
                true => Tone::Bad,
                false if NodePath::parse(&call.new.node).check().is_some() => Tone::Good,
                false => Tone::Plain,
            };
            Some((ended_words(call), tone))
        }
        EventKind::ContextAssembled => {
            plain(format!("gets a context of {} files, {} tokens", word("files"), word("tokens")))
        }
        EventKind::ErrorRecorded => Some((
            format!("error, {}: {} ({})", word("category"), word("message"), word("action")),
            Tone::Bad,
        )),
        EventKind::CancelRequested => plain(format!("cancel asked for: {}", word("reason"))),
        EventKind::NodeWaiting => plain(format!("waits: {}{}", word("why"), for_how_long(event))),
        EventKind::NodeStarted
        | EventKind::NodeFinished
        | EventKind::Sandbox
        | EventKind::ChangesetClosed
        | EventKind::JobMoved => None,
    }
}

/// The move of a plan in plain words; `None` if its calls say more.
fn moved_words(to: &str, event: &str) -> Option<(String, Tone)> {
    // It is told by its call.
    if event == "amend" {
        return None;
    }
    let (words, tone) = match (to, event) {
        (_, "release") => ("given back: another process continues it", Tone::Plain),
        ("strategize/queued" | "execute/queued", "retry") => ("tries again", Tone::Plain),
        ("execute/queued", "again") => ("begins again", Tone::Plain),
        ("execute/queued", "revise") => ("continues with your message", Tone::Plain),
        ("strategize/queued", "revert") => ("begins again with another strategy", Tone::Plain),
        ("execute/processing", _) => ("starts", Tone::Plain),
        ("execute/complete", _) => ("done", Tone::Good),
        ("strategize/errored" | "execute/errored", _) => ("failed", Tone::Bad),
        ("strategize/cancelled" | "execute/cancelled" | "apply/cancelled", _) => ("cancelled", Tone::Bad),
        ("apply/processing", _) => ("applies", Tone::Plain),
        ("apply/applied", _) => ("applied", Tone::Good),
        ("apply/constrained", _) => ("not applied: conflict", Tone::Bad),
        ("apply/errored", _) => ("apply failed", Tone::Bad),
        (_, _) => return None,
    };
    Some((words.to_owned(), tone))
}

/// Returns whether the call has ended otherwise than well.
pub fn is_bad(call: &ToolCall) -> bool {
    match call.state() {
        CallState::Ok | CallState::Running => false,
        CallState::Failed | CallState::TimedOut | CallState::Refused | CallState::Cancelled => true,
    }
}

/// Returns whether the duration of such a call is worth a word: it starts a process.
fn takes_time(tool: &str) -> bool {
    ["run_command", "validate", "recheck"].contains(&tool)
}

/// The lines that a small diff adds and removes.
fn count_lines(diff: &str) -> (usize, usize) {
    let count = |mark: char, head: &str| {
        diff.lines().filter(|line| line.starts_with(mark) && !line.starts_with(head)).count()
    };
    (count('+', "+++"), count('-', "---"))
}

#[cfg(test)]
mod tests {
    use domain::{CallEnd, CallNumber, NewCall, PlanId, WallMs};
    use serde_json::json;

    use super::*;

    fn call(tool: &str, requested: Value, state: CallState, exit: Option<i32>, result: Value) -> ToolCall {
        let (attempt, node, effective) = (1, "main".to_owned(), Value::Null);
        let new = NewCall { attempt, node, tool: tool.to_owned(), requested, effective };
        let end = CallEnd {
            state,
            duration_ms: 3_200,
            exit,
            error: None,
            result,
            isolation: None,
            stdout: None,
            stderr: None,
        };
        ToolCall { plan: PlanId::from_u128(1), no: CallNumber(1), started: WallMs(0), new, end: Some(end) }
    }

    #[test]
    fn a_call_is_told_in_a_few_words() {
        let ok = CallState::Ok;
        let reads = call("read_file", json!({ "path": "lib/greet.sh" }), ok, None, json!({}));
        assert_eq!(ended_words(&reads), "reads lib/greet.sh");
        let diff = json!({ "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n+more\n" });
        let edits = call("edit_file", json!({ "path": "test.sh" }), ok, None, diff);
        assert_eq!(ended_words(&edits), "edits test.sh +2 -1");
        let runs = call(
            "run_command",
            json!({ "command": "cargo\n test" }),
            CallState::Failed,
            Some(101),
            json!({}),
        );
        assert_eq!(ended_words(&runs), "runs cargo test … failed, exit 101, 3.2 s");
        assert_eq!(words("validate/make test", "validate", &Value::Null), "checks make test");
        assert_eq!(words("main", "shop.find", &json!({ "query": "x" })), "calls shop.find x");
    }

    #[test]
    fn the_words_of_a_call_are_calm() {
        let shown = words("main", "read_file", &json!({ "path": "a\x1b[2J\nb" }));
        assert_eq!(shown, "reads a\\x1B[2J b");
    }
}
