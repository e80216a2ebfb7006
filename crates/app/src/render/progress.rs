//! Prints the progress of a running plan on the error output.
//!
//! At a terminal: one live line with the phase, how long it takes, and the last line that the command
//! printed. Elsewhere, in plain: a line for each phase. For programs: nothing.
//!
//! # Invariants
//! 1. The live line is gone before anything else is written.
//! 2. Control characters in the output of a command are escaped before it is shown.

use std::time::{Duration, Instant};

use domain::{EventKind, EventRecord, NodePath};

use crate::output::{Format, OutputStyle, clear_line, escape_control_chars, one_line, write_err};
use crate::time::format_duration;

/// The width of a live line on a screen whose width is not known.
const WIDTH_DEFAULT: usize = 80;

/// The progress of one plan.
#[derive(Debug)]
pub struct ProgressPrinter {
    how: ProgressMode,
    short: String,
    what: String,
    since: Instant,
    width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressMode {
    Live,
    Lines,
    Nothing,
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
        let width = style.width.unwrap_or(WIDTH_DEFAULT);
        Self { how, short: short.to_owned(), what: "starting".to_owned(), since: Instant::now(), width }
    }

    /// Returns true if anything is shown.
    pub fn is_shown(&self) -> bool {
        self.how != ProgressMode::Nothing
    }

    /// Returns true if a live line is drawn.
    pub fn is_live(&self) -> bool {
        self.how == ProgressMode::Live
    }

    /// Something happened to the plan.
    pub fn event(&mut self, event: &EventRecord) {
        if let Some(what) = describe(event) {
            self.becomes(what);
        }
    }

    fn becomes(&mut self, what: String) {
        if what != self.what {
            self.since = Instant::now();
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

    /// Redraws the live line.
    pub fn beat(&mut self, last_line: Option<&str>) {
        if self.how == ProgressMode::Live {
            let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            let line = live_line(&self.short, &self.what, &format_duration(ms), last_line, self.width);
            self.write(&format!("{}{line}", clear_line()));
        }
    }

    /// Takes the live line away.
    pub fn clear(&mut self) {
        if self.how == ProgressMode::Live {
            self.write(&clear_line());
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

fn live_line(short: &str, what: &str, time: &str, last_line: Option<&str>, width: usize) -> String {
    let head = format!("plan {short}  {}  {time}", escape_control_chars(what).replace(['\n', '\t'], " "));
    let text = match last_line {
        Some(line) => format!("{head}  {}", escape_control_chars(line).replace('\t', " ")),
        None => head,
    };
    text.chars().take(width.saturating_sub(1)).collect()
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
    use domain::WallMs;
    use serde_json::json;

    use super::*;

    fn event(kind: EventKind, data: serde_json::Value) -> EventRecord {
        EventRecord { n: 1, at: WallMs(0), kind, data }
    }

    #[test]
    fn a_live_line_fits_the_screen_and_is_calm() {
        let line = live_line("01JB", "execute", "1.0 s", Some("\x1b[31mhot\tdog"), 80);
        assert_eq!(line, "plan 01JB  execute  1.0 s  \\x1B[31mhot dog");
        assert_eq!(live_line("01JB", "execute", "1.0 s", Some(&"x".repeat(200)), 40).chars().count(), 39);
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
    }
}
