//! Describes the difference between the recorded request and the present one.
//!
//! # Invariants
//! 1. The call that is compared with is the likest of those that have not answered yet, of equals the
//!    earliest. An asker of the recorded run is compared with its own calls only.
//! 2. The difference that is named is the first, in the order in which a model reads: model, system prompt,
//!    tools, messages, bounds.
//! 3. Of a text one line is shown, cut.

use super::{RecordedCall, RequestSummary, ToolSummary};
use crate::model::request::{Message, ToolResult, ToolUse};

const SHOWN_CHARS_MAX: usize = 120;

/// A replay is asked what was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {at} is not what was recorded: {what}")]
pub struct Drift {
    /// The number of the call in the recording that was expected, from 1.
    pub at: u32,
    /// The first difference.
    pub what: String,
}

/// Returns the difference between the request of `asker` `now` and the calls that are `left` of a recording.
pub(super) fn drift(
    recorded: &[RecordedCall],
    left: &[&RecordedCall],
    asker: &str,
    now: &RequestSummary,
) -> Drift {
    let is_its = |kept: &RecordedCall| kept.asker == asker;
    let own = recorded.iter().filter(|kept| is_its(kept)).count();
    let mut likest: Option<(&RecordedCall, Likeness)> = None;
    for kept in left.iter().filter(|kept| own == 0 || is_its(kept)) {
        let likeness = likeness(&kept.request, now);
        if likest.as_ref().is_none_or(|(_, best)| likeness > *best) {
            likest = Some((kept, likeness));
        }
    }
    match likest {
        Some((kept, _)) => Drift { at: kept.call, what: difference(&kept.request, now) },
        None => {
            let calls = recorded.len();
            let at = u32::try_from(calls).unwrap_or(u32::MAX).saturating_add(1);
            let has = match own {
                own if own == calls || own == 0 => format!("{calls} calls"),
                own => format!("{own} calls of {asker}"),
            };
            Drift { at, what: format!("the recording has {has}, and all have been answered") }
        }
    }
}

/// The likeness of two requests, the most significant part first.
type Likeness = (bool, usize, bool, bool);

fn likeness(recorded: &RequestSummary, now: &RequestSummary) -> Likeness {
    let same_model = recorded.provider == now.provider && recorded.model == now.model;
    let same_messages = recorded.messages.iter().zip(&now.messages).take_while(|(a, b)| a == b).count();
    (same_model, same_messages, recorded.system == now.system, recorded.messages.len() == now.messages.len())
}

fn difference(recorded: &RequestSummary, now: &RequestSummary) -> String {
    let RequestSummary { provider, model, system, messages, tools, max_tokens, output } = recorded;
    if (provider, model) != (&now.provider, &now.model) {
        return format!("the model was {provider}/{model}, now it is {}/{}", now.provider, now.model);
    }
    if *system != now.system {
        return format!("the system prompt {}", in_text(system, &now.system));
    }
    if let Some(what) = in_tools(tools, &now.tools) {
        return what;
    }
    if let Some(what) = in_messages(messages, &now.messages) {
        return what;
    }
    if *max_tokens != now.max_tokens {
        return format!("the longest answer was {max_tokens} tokens, now it is {}", now.max_tokens);
    }
    if *output != now.output {
        return "the schema of the answer is different".to_owned();
    }
    // Equal, so it has answered already under the same number of calls: only a hand-edited hash leads here.
    "its hash in the recording is not that of its request".to_owned()
}

fn in_tools(recorded: &[ToolSummary], now: &[ToolSummary]) -> Option<String> {
    let named = |tools: &[ToolSummary], name: &str| tools.iter().find(|tool| tool.name == name).cloned();
    for tool in recorded {
        let Some(present) = named(now, &tool.name) else {
            return Some(format!("the tool {} is no longer offered", tool.name));
        };
        if tool.description != present.description {
            return Some(format!(
                "the description of the tool {} {}",
                tool.name,
                in_text(&tool.description, &present.description)
            ));
        }
        if tool.input != present.input {
            return Some(format!("the tool {} takes other arguments", tool.name));
        }
    }
    if let Some(new) = now.iter().find(|tool| named(recorded, &tool.name).is_none()) {
        return Some(format!("the tool {} is new", new.name));
    }
    (recorded != now).then(|| "the tools come in another order".to_owned())
}

fn in_messages(recorded: &[Message], now: &[Message]) -> Option<String> {
    for (index, (a, b)) in recorded.iter().zip(now).enumerate() {
        if a != b {
            return Some(format!("message {} {}", index + 1, in_message(a, b)));
        }
    }
    match recorded.len().cmp(&now.len()) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(format!(
            "there is one more message: {} messages were recorded, and message {} is {}",
            recorded.len(),
            recorded.len() + 1,
            now.get(recorded.len()).map_or("missing", speaker)
        )),
        std::cmp::Ordering::Greater => {
            Some(format!("{} messages were recorded, now there are only {}", recorded.len(), now.len()))
        }
    }
}

fn in_message(recorded: &Message, now: &Message) -> String {
    match (recorded, now) {
        (Message::User(a), Message::User(b)) => format!("(from the user) {}", in_text(a, b)),
        (Message::Assistant { text: a, calls: a_calls }, Message::Assistant { text: b, calls: b_calls }) => {
            if a != b {
                format!("(from the model) {}", in_text(a, b))
            } else {
                in_calls(a_calls, b_calls)
            }
        }
        (Message::Results(a), Message::Results(b)) => in_results(a, b),
        (a, b) => format!("was {}, now it is {}", speaker(a), speaker(b)),
    }
}

fn in_calls(recorded: &[ToolUse], now: &[ToolUse]) -> String {
    for (a, b) in recorded.iter().zip(now) {
        if a.name != b.name {
            return format!("(from the model) called {}, now it calls {}", a.name, b.name);
        }
        if a != b {
            return format!("(from the model) calls {} with other arguments", a.name);
        }
    }
    format!("(from the model) had {} calls, now it has {}", recorded.len(), now.len())
}

fn in_results(recorded: &[ToolResult], now: &[ToolResult]) -> String {
    for (a, b) in recorded.iter().zip(now) {
        if a.id != b.id {
            return "(from tools) answers another call".to_owned();
        }
        if a.is_error != b.is_error {
            let word = |is_error| if is_error { "failed" } else { "succeeded" };
            return format!("(from a tool) {} when recorded, now it {}", word(a.is_error), word(b.is_error));
        }
        if a.text != b.text {
            return format!("(from a tool) {}", in_text(&a.text, &b.text));
        }
    }
    format!("(from tools) had {} results, now it has {}", recorded.len(), now.len())
}

fn speaker(message: &Message) -> &'static str {
    match message {
        Message::User(_) => "from the user",
        Message::Assistant { .. } => "from the model",
        Message::Results(_) => "from tools",
    }
}

/// The first line that differs.
fn in_text(recorded: &str, now: &str) -> String {
    let (mut a_lines, mut b_lines) = (recorded.lines(), now.lines());
    let mut number = 1;
    loop {
        match (a_lines.next(), b_lines.next()) {
            (Some(a), Some(b)) if a == b => number += 1,
            (None, None) => return "differs in its line ends".to_owned(),
            (a, b) => {
                let (a, b) = around(a, b);
                return format!("differs in line {number}: recorded {a}, now {b}");
            }
        }
    }
}

/// Two different lines, cut so that their first difference shows.
fn around(a: Option<&str>, b: Option<&str>) -> (String, String) {
    let equal =
        a.unwrap_or_default().chars().zip(b.unwrap_or_default().chars()).take_while(|(a, b)| a == b).count();
    let skipped = equal.saturating_sub(SHOWN_CHARS_MAX / 2);
    let cut = |line: Option<&str>| match line {
        None => "nothing".to_owned(),
        Some(line) => {
            let before = if skipped > 0 { "…" } else { "" };
            let after = if line.chars().count() > skipped + SHOWN_CHARS_MAX { "…" } else { "" };
            let part: String = line.chars().skip(skipped).take(SHOWN_CHARS_MAX).collect();
            format!("`{before}{part}{after}`")
        }
    };
    (cut(a), cut(b))
}
