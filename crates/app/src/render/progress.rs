//! Prints the progress of a running plan on the error output.
//!
//! At a terminal: a live block with what the plan does, how long it takes and what it has spent, and below it
//! the last lines that its command printed. A line stays above it for each tool that a model called.
//! Elsewhere, in plain: a line for each phase and each such call. For programs: nothing.
//!
//! # Invariants
//! 1. The live block is gone before anything else is written.
//! 2. Control characters in the output of a command are escaped before it is shown.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use domain::{EventKind, EventRecord, NodePath, ToolCall, money};
use engine::ASK_MODEL;

use super::activity;
use crate::output::{
    Format, OutputStyle, Paint, cut_columns, escape_control_chars, live_block, one_line, screen_size,
    write_err,
};
use crate::time::format_duration;

/// The size of a screen whose size is not known.
pub const SIZE_DEFAULT: (usize, usize) = (80, 24);
/// The number of printed lines that are shown while a command runs.
pub const LINES_MAX: usize = 5;

/// The progress of one plan.
#[derive(Debug)]
pub struct ProgressPrinter {
    how: ProgressMode,
    short: String,
    what: String,
    since: Instant,
    paint: Paint,
    /// The nodes that ask models.
    asking: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressMode {
    Live,
    Lines,
    Nothing,
}

/// The activity of a plan at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanActivity {
    /// The call that runs; of several, the last.
    pub call: Option<ToolCall>,
    /// The last lines that it printed, without secrets.
    pub lines: Vec<String>,
    /// The tokens that the plan has used.
    pub tokens: u64,
    /// The money that it has spent, in millionths of a dollar.
    pub cost: u64,
}

impl ProgressPrinter {
    /// The progress of the plan with this short name.
    pub fn new(style: &OutputStyle, quiet: bool, short: &str) -> Self {
        let how = match style.format {
            _ if quiet => ProgressMode::Nothing,
            Format::Json | Format::Yaml => ProgressMode::Nothing,
            Format::Rich if style.is_live => ProgressMode::Live,
            Format::Rich | Format::Plain => ProgressMode::Lines,
        };
        Self {
            how,
            short: short.to_owned(),
            what: "starting".to_owned(),
            since: Instant::now(),
            paint: style.err_paint,
            asking: BTreeSet::new(),
        }
    }

    /// Returns true if anything is shown.
    pub fn is_shown(&self) -> bool {
        self.how != ProgressMode::Nothing
    }

    /// Returns true if a live block is drawn.
    pub fn is_live(&self) -> bool {
        self.how == ProgressMode::Live
    }

    /// Something happened to the plan; `call` is the call that the event is about.
    pub fn event(&mut self, event: &EventRecord, call: Option<&ToolCall>) {
        if let Some(what) = describe(event) {
            self.becomes(what);
        }
        let Some(call) = call else { return };
        if call.new.tool == ASK_MODEL {
            self.asking.insert(call.new.node.clone());
        } else if event.kind == EventKind::ToolFinished && self.asking.contains(&call.new.node) {
            let words = activity::ended_words(call);
            let words = if activity::is_bad(call) { self.paint.red(&words) } else { words };
            match self.how {
                ProgressMode::Live => self.write(&format!("  {words}\n")),
                ProgressMode::Lines => self.write(&format!("plan {}: {words}\n", self.short)),
                ProgressMode::Nothing => {}
            }
        }
    }

    fn becomes(&mut self, what: String) {
        if what != self.what {
            self.what = what;
            if self.how == ProgressMode::Lines {
                self.write(&format!("plan {}: {}\n", self.short, escape_control_chars(&self.what)));
            }
        }
    }

    /// The plan waits, and this is what for.
    pub fn waits(&mut self, words: &str) {
        self.becomes(words.to_owned());
    }

    /// Redraws the live block.
    pub fn beat(&mut self, now: &PlanActivity) {
        if self.how == ProgressMode::Live {
            let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let size = screen_size().unwrap_or(SIZE_DEFAULT);
            live_block::draw(&live_lines(&self.short, &self.what, ms, now, size, self.paint));
        }
    }

    /// Takes the live block away.
    pub fn clear(&mut self) {
        if self.how == ProgressMode::Live {
            live_block::clear();
        }
    }

    fn write(&self, text: &str) {
        // Progress that cannot be shown is not worth an error.
        let _ = write_err(text);
    }
}

impl Drop for ProgressPrinter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The rows of the live block: what the plan does, and below it the last printed lines.
pub fn live_lines(
    short: &str,
    what: &str,
    elapsed_ms: u64,
    now: &PlanActivity,
    (columns, rows): (usize, usize),
    paint: Paint,
) -> Vec<String> {
    // The last column stays free: some terminals wrap when it is written.
    let columns = columns.saturating_sub(1).max(1);
    let words = match &now.call {
        Some(call) => activity::words(&call.new.node, &call.new.tool, &call.new.requested),
        None => escape_control_chars(what),
    };
    let head = format!("plan {short}  ");
    let mut rest = format!("  {}", format_duration(elapsed_ms));
    if now.tokens > 0 {
        rest.push_str(&format!("  {} tokens", grouped(now.tokens)));
    }
    if now.cost > 0 {
        rest.push_str(&format!(", ${}", money::format_dollars(now.cost)));
    }
    let room = columns.saturating_sub(head.len() + rest.chars().count());
    let words = cut_columns(&words.replace(['\n', '\t'], " "), room.max(1));
    let mut lines = vec![cut_columns(&format!("{head}{words}{rest}"), columns)];
    let lines_max = LINES_MAX.min(rows.saturating_sub(2));
    let from = now.lines.len().saturating_sub(lines_max);
    for line in now.lines.iter().skip(from) {
        let line = escape_control_chars(line).replace(['\n', '\t'], " ");
        lines.push(paint.dim(&cut_columns(&format!("  | {line}"), columns)));
    }
    lines
}

/// A number with its thousands set apart: `7,680`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the time for which a node waits, as the end of a sentence; empty if it is unknown.
pub fn for_how_long(event: &EventRecord) -> String {
    let ms = event.data["ms"].as_u64();
    ms.map(|ms| format!(" (for {})", domain::format_wait(Duration::from_millis(ms)))).unwrap_or_default()
}

/// The phase or the check that an event begins; none when it begins nothing.
fn describe(event: &EventRecord) -> Option<String> {
    let word =
        |key: &str| event.data.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    match event.kind {
        // The answer reports waiting and ending; meanwhile the line shows the current work.
        EventKind::PlanMoved => word("to").strip_suffix("/processing").map(str::to_owned),
        EventKind::ToolStarted => {
            let node = word("node");
            Some(match NodePath::parse(&node) {
                NodePath::Check(name) => format!("validate: {}", one_line(name)),
                NodePath::Recheck(_) | NodePath::Step(_) | NodePath::Repair { .. } => node,
            })
        }
        EventKind::NodeWaiting => Some(format!(
            "waiting: {}{}",
            escape_control_chars(&word("why")).replace('\n', " "),
            for_how_long(event)
        )),
        EventKind::CancelRequested => Some("cancelling".to_owned()),
        EventKind::PlanCreated
        | EventKind::PlanUndone
        | EventKind::DecisionRecorded
        | EventKind::DecisionSuperseded
        | EventKind::NodeStarted
        | EventKind::NodeFinished
        | EventKind::ToolFinished
        | EventKind::ContextAssembled
        | EventKind::ChangesetClosed
        | EventKind::ErrorRecorded
        | EventKind::JobMoved
        | EventKind::Sandbox => None,
    }
}

#[cfg(test)]
mod tests {
    use domain::{CallNumber, NewCall, PlanId, WallMs};
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind, data: serde_json::Value) -> EventRecord {
        EventRecord { n: 1, at: WallMs(0), kind, data }
    }

    fn running(command: &str, lines: &[&str], tokens: u64, cost: u64) -> PlanActivity {
        let new = NewCall {
            attempt: 1,
            node: "main".to_owned(),
            tool: "run_command".to_owned(),
            requested: json!({ "command": command }),
            effective: json!(null),
        };
        let call =
            ToolCall { plan: PlanId::from_u128(1), no: CallNumber(1), started: WallMs(0), new, end: None };
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        PlanActivity { call: Some(call), lines, tokens, cost }
    }

    #[test]
    fn the_live_block_shows_the_call_its_time_its_cost_and_its_last_lines() {
        let printed = ["one", "two", "three", "four", "\x1b[31mfive\tmore", &"x".repeat(200)];
        let now = running(
            "cargo test --workspace --all-features -- --nocapture some_test",
            &printed,
            7_680,
            20_000,
        );
        let shown = |columns, rows| live_lines("k3ps", "main", 12_300, &now, (columns, rows), Paint::OFF);
        let narrow = shown(80, 24);
        assert_eq!(
            narrow[..5],
            [
                "plan k3ps  runs cargo test --workspace --all-feat…  12.3 s  7,680 tokens, $0.02",
                "  | two",
                "  | three",
                "  | four",
                "  | \\x1B[31mfive more",
            ]
        );
        assert_eq!((narrow.len(), narrow[5].chars().count()), (6, 79));
        let wide = "plan k3ps  runs cargo test --workspace --all-features -- --nocapture some_test  12.3 s  7,680 tokens, $0.02";
        assert_eq!(shown(140, 24)[0], wide);
        assert_eq!(shown(140, 5).len(), 4, "a low screen has fewer lines");
        assert!(shown(20, 5).iter().all(|line| line.chars().count() < 20), "{:?}", shown(20, 5));
        let waits = PlanActivity::default();
        assert_eq!(
            live_lines("k3ps", "waiting: busy", 900, &waits, (80, 24), Paint::OFF),
            ["plan k3ps  waiting: busy  0.9 s"]
        );
    }

    #[test]
    fn wide_letters_count_for_two_columns() {
        let now = running("true", &[&"漢".repeat(60)], 0, 0);
        let lines = live_lines("k3ps", "", 0, &now, (80, 24), Paint::OFF);
        assert_eq!(lines[1], format!("  | {}…", "漢".repeat(37)));
    }

    #[test]
    fn phases_and_checks_are_told() {
        let moved = |to: &str| describe(&event(EventKind::PlanMoved, json!({ "to": to })));
        assert_eq!(
            (moved("execute/processing").as_deref(), moved("execute/complete")),
            (Some("execute"), None)
        );
        let started = |node: &str| describe(&event(EventKind::ToolStarted, json!({ "node": node })));
        assert_eq!(started("execute").as_deref(), Some("execute"));
        assert_eq!(started("validate/cargo test").as_deref(), Some("validate: cargo test"));
        assert_eq!(describe(&event(EventKind::JobMoved, json!({}))), None);
        assert_eq!([0, 999, 7_680, 1_234_567].map(grouped), ["0", "999", "7,680", "1,234,567"]);
    }
}
