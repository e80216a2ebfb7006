//! Renders the timeline of a plan: its creation, its phases and its undo.
//!
//! # Invariants
//! People see the present attempt and one date: a clock time without one is of the day before it. Programs
//! get every attempt, in UTC.

use domain::{Phase, PhaseTime, WallMs};
use engine::PlanDetails;
use serde_json::{Value, json};

use crate::output::Paint;
use crate::time::{local, now, stamp};

/// Returns the working time of the phase in its newest attempt, until now if it runs; `None` if it ended never and
/// does not run.
pub fn worked(details: &PlanDetails, phase: Phase) -> Option<u64> {
    let time = newest(details, phase)?;
    match time.finished {
        Some(_) => Some(time.worked_ms),
        None => is_running(details).then(|| now().0.saturating_sub(time.started.0)),
    }
}

/// Returns the time since the present phase began; 0 if no process works on the plan.
pub fn running_ms(details: &PlanDetails) -> u64 {
    let phase = newest(details, details.plan.state.phase());
    let since = phase.filter(|time| time.finished.is_none() && is_running(details)).map(|time| time.started);
    since.map_or(0, |since| now().0.saturating_sub(since.0))
}

fn is_running(details: &PlanDetails) -> bool {
    details.plan.state.is_processing() && !details.owner_is_gone
}

fn newest(details: &PlanDetails, phase: Phase) -> Option<&PhaseTime> {
    details.phases.iter().rev().find(|time| time.phase == phase)
}

/// The times as programs read them.
pub fn to_json(details: &PlanDetails) -> Value {
    let plan = &details.plan;
    let phases: Vec<Value> = details.phases.iter().map(phase_json).collect();
    json!({
        "created": stamp(plan.created), "updated": stamp(plan.updated), "undone": plan.undone_at.map(stamp),
        "phases": phases,
    })
}

fn phase_json(time: &PhaseTime) -> Value {
    json!({
        "attempt": time.attempt, "phase": time.phase, "started": stamp(time.started),
        "finished": time.finished.map(stamp), "duration_ms": time.finished.map(|_| time.worked_ms),
    })
}

/// The times on one line.
pub fn to_text(details: &PlanDetails, paint: Paint) -> String {
    let mut writer = TimelineWriter { day: String::new() };
    let mut parts = vec![format!("made {}", writer.moment(details.plan.created))];
    for time in Phase::ALL.into_iter().filter_map(|phase| newest(details, phase)) {
        let started = writer.moment(time.started);
        parts.push(match time.finished {
            Some(finished) => format!("{} {started} to {}", time.phase, writer.moment(finished)),
            None => format!("{} since {started}", time.phase),
        });
    }
    parts.extend(details.plan.undone_at.map(|at| format!("undone {}", writer.moment(at))));
    format!("{}  {}\n", paint.dim("times"), parts.join(", "))
}

/// Writes moments in sequence.
struct TimelineWriter {
    day: String,
}

impl TimelineWriter {
    /// Returns the moment, with its day unless the previous moment had the same.
    fn moment(&mut self, at: WallMs) -> String {
        let whole = local(at);
        match whole.split_once(' ') {
            Some((day, clock)) if day == self.day => clock.to_owned(),
            Some((day, _)) => {
                self.day = day.to_owned();
                whole
            }
            None => whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_told_once() {
        const HOUR: u64 = 3_600_000;
        let noon = WallMs(20_000 * 24 * HOUR + 12 * HOUR);
        let mut writer = TimelineWriter { day: String::new() };
        let (first, second, third) =
            (writer.moment(noon), writer.moment(noon), writer.moment(WallMs(noon.0 + 24 * HOUR)));
        assert_eq!(first, local(noon));
        assert_eq!(first, format!("{} {second}", first.split(' ').next().unwrap()));
        assert!(third.len() == first.len() && third != first, "{third}");
    }
}
