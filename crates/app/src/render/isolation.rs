//! Renders the isolation of a plan's commands, for people and for programs.
//!
//! # Invariants
//! 1. Of the best rung nothing is said: it is what was promised. Every other is named aloud, with what it
//!    leaves open and how to get the best one.
//!
//! # Not here
//! The backends themselves: they are stored with each call.

use domain::ToolCall;
use serde_json::Value;

use super::next_steps::{SEE_ALL_NOTES, SEE_DOCTOR};
use crate::output::escape_control_chars;

/// The names of the backends, the best first.
const BACKENDS: [&str; 4] = ["namespaces", "bubblewrap", "landlock", "none"];
/// The number of notes a line has.
const NOTES_MAX: usize = 3;

/// Returns the isolation of a call's command; `None` if the call ran no command.
pub fn of(call: &ToolCall) -> Option<&Value> {
    call.end.as_ref()?.isolation.as_ref()
}

/// The weakest isolation among the calls.
pub fn weakest(calls: &[ToolCall]) -> Option<&Value> {
    calls.iter().filter_map(of).max_by_key(|used| place(used))
}

/// The line about an isolation that is not the best; none of one that is.
pub fn line(used: &Value) -> Option<String> {
    if place(used) == 0 {
        return None;
    }
    let backend = used.get("rung").and_then(Value::as_str).unwrap_or("unknown");
    let open = match backend {
        "bubblewrap" => "as with namespaces",
        "landlock" => "it could see your processes, and names and sizes of all files",
        _ => "it could read and write all that you can",
    };
    let texts = |key: &str| used.get(key).and_then(Value::as_array).into_iter().flatten();
    let notes: Vec<&str> = texts("notes").filter_map(Value::as_str).collect();
    let mut listed: Vec<String> =
        notes.iter().take(NOTES_MAX).map(|note| escape_control_chars(note)).collect();
    if notes.len() > NOTES_MAX {
        listed.push(format!("{} more in {SEE_ALL_NOTES}", notes.len() - NOTES_MAX));
    }
    let listed = if listed.is_empty() { String::new() } else { format!("; {}", listed.join("; ")) };
    let why = texts("passed_over").next().and_then(|passed| {
        let (backend, why) = (passed.get("rung")?.as_str()?, passed.get("why")?.as_str()?);
        Some(format!(" ({backend}: {})", escape_control_chars(why)))
    });
    let why = why.unwrap_or_default();
    Some(format!(
        "  isolation {}: {open}{listed}; for namespaces{why} {SEE_DOCTOR}\n",
        escape_control_chars(backend)
    ))
}

/// Returns the distance from the best rung. An unknown rung counts as the last.
fn place(used: &Value) -> usize {
    let backend = used.get("rung").and_then(Value::as_str);
    BACKENDS.iter().position(|known| Some(*known) == backend).unwrap_or(BACKENDS.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_not_the_best_is_told() {
        assert_eq!(line(&json!({ "rung": "namespaces", "notes": ["x"] })), None);
        let used = json!({
            "rung": "landlock", "notes": ["a", "b", "c", "d"],
            "passed_over": [{ "rung": "namespaces", "why": "barred" }],
        });
        assert_eq!(
            line(&used).unwrap(),
            "  isolation landlock: it could see your processes, and names and sizes of all files; a; b; c; \
             1 more in `agents plan logs --format json`; for namespaces (namespaces: barred) see `agents doctor`\n"
        );
    }
}
