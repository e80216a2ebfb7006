//! The times at which the phases of a plan began and ended, read from its events.
//!
//! # Invariants
//! 1. A phase counts as worked on exactly while the plan is `processing`. The time in which it waits for a
//!    worker, a gate, a person or the next try does not count.
//! 2. The moves are the only source: nothing else is stored about times, so nothing can contradict them.
//!
//! # Not here
//! Undoing an apply, which moves no phase: [`Plan::undone_at`](crate::Plan::undone_at).

use super::PlanState;
use super::phase::Phase;
use crate::record::event::{EventKind, EventRecord};
use crate::time::WallMs;

/// One phase in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTime {
    /// The attempt.
    pub attempt: u32,
    /// The phase.
    pub phase: Phase,
    /// The time when it began first.
    pub started: WallMs,
    /// The time when it ended last; `None` while it runs.
    pub finished: Option<WallMs>,
    /// The time for which it ran, over all its tries that ended.
    pub worked_ms: u64,
}

/// The times of every phase that has begun, in the order in which they did.
///
/// ```
/// use domain::{EventKind, EventRecord, WallMs, phase_times};
///
/// let moved = |n, at, from, to| EventRecord {
///     n,
///     at: WallMs(at),
///     kind: EventKind::PlanMoved,
///     data: serde_json::json!({ "from": from, "to": to, "attempt": 1 }),
/// };
/// let times = phase_times(&[
///     moved(1, 1_000, "execute/queued", "execute/processing"),
///     moved(2, 4_000, "execute/processing", "execute/complete"),
/// ]);
/// assert_eq!((times[0].started, times[0].finished, times[0].worked_ms), (WallMs(1_000), Some(WallMs(4_000)), 3_000));
/// ```
pub fn phase_times<'a>(events: impl IntoIterator<Item = &'a EventRecord>) -> Vec<PhaseTime> {
    let mut times: Vec<PhaseTime> = Vec::new();
    let mut since = WallMs(0);
    for event in events.into_iter().filter(|event| event.kind == EventKind::PlanMoved) {
        let (Some(from), Some(to)) = (state_of(event, "from"), state_of(event, "to")) else { continue };
        if to.is_processing() {
            let attempt = event.data["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok());
            begin(&mut times, attempt.unwrap_or(1), to.phase(), event.at);
            since = event.at;
        } else if from.is_processing()
            && let Some(last) = times.last_mut()
        {
            last.finished = Some(event.at);
            last.worked_ms = last.worked_ms.saturating_add(event.at.0.saturating_sub(since.0));
        }
    }
    times
}

/// A phase runs: for the first time in this attempt, or once more.
fn begin(times: &mut Vec<PhaseTime>, attempt: u32, phase: Phase, at: WallMs) {
    match times.last_mut() {
        Some(last) if (last.attempt, last.phase) == (attempt, phase) => last.finished = None,
        Some(_) | None => {
            times.push(PhaseTime { attempt, phase, started: at, finished: None, worked_ms: 0 });
        }
    }
}

fn state_of(event: &EventRecord, key: &str) -> Option<PlanState> {
    let (phase, word) = event.data[key].as_str()?.split_once('/')?;
    PlanState::parse(phase, word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::PlanEvent;

    /// Returns the event records of a plan that meets these events, one each second.
    fn told(events: &[PlanEvent]) -> Vec<EventRecord> {
        let mut records = Vec::new();
        let (mut state, mut attempt) = (PlanState::FIRST, 1);
        for (n, event) in (1..).zip(events) {
            let to = state.next(*event).unwrap();
            attempt += u32::from(matches!(event, PlanEvent::Again | PlanEvent::Revert | PlanEvent::Revise));
            let data = json!({ "from": state.to_string(), "to": to.to_string(), "attempt": attempt });
            records.push(EventRecord { n, at: WallMs(n * 1_000), kind: EventKind::PlanMoved, data });
            state = to;
        }
        records
    }

    fn shown(events: &[PlanEvent]) -> Vec<(u32, &'static str, u64, Option<u64>, u64)> {
        let times = phase_times(&told(events)).into_iter();
        let seconds = |at: WallMs| at.0 / 1_000;
        times
            .map(|time| {
                let finished = time.finished.map(seconds);
                (time.attempt, time.phase.as_str(), seconds(time.started), finished, time.worked_ms / 1_000)
            })
            .collect()
    }

    use PlanEvent::{
        Advance, Again, Applied, Cancel, Complete, Constrain, Fail, Reapply, Release, Retry, Revert, Start,
    };

    #[test]
    fn each_phase_has_its_beginning_and_its_end() {
        let whole = [Start, Complete, Advance, Start, Complete, Advance, Start, Applied];
        assert_eq!(
            shown(&whole),
            [(1, "strategize", 1, Some(2), 1), (1, "execute", 4, Some(5), 1), (1, "apply", 7, Some(8), 1)]
        );
        assert_eq!(shown(&whole[..4])[1], (1, "execute", 4, None, 0), "while it runs it has no end");
        assert_eq!(shown(&[]), []);
    }

    #[test]
    fn a_phase_that_is_tried_again_does_not_count_the_wait() {
        let tries = [Start, Fail, Retry, Start, Release, Start, Complete];
        assert_eq!(shown(&tries), [(1, "strategize", 1, Some(7), 3)]);
        assert_eq!(shown(&tries[..4]), [(1, "strategize", 1, None, 1)]);
        let refused = [Start, Complete, Advance, Start, Complete, Advance, Start, Constrain, Reapply, Start];
        assert_eq!(shown(&refused)[2], (1, "apply", 7, None, 1));
    }

    #[test]
    fn every_attempt_has_times_of_its_own() {
        let again = [Start, Complete, Advance, Start, Complete, Again, Start, Complete, Revert, Start];
        assert_eq!(
            shown(&again),
            [
                (1, "strategize", 1, Some(2), 1),
                (1, "execute", 4, Some(5), 1),
                (2, "execute", 7, Some(8), 1),
                (3, "strategize", 10, None, 0),
            ]
        );
    }

    #[test]
    fn a_cancel_ends_what_runs_and_nothing_else() {
        assert_eq!(shown(&[Start, Cancel]), [(1, "strategize", 1, Some(2), 1)]);
        assert_eq!(shown(&[Start, Complete, Cancel]), [(1, "strategize", 1, Some(2), 1)]);
        assert_eq!(shown(&[Cancel]), []);
    }

    #[test]
    fn what_cannot_be_read_or_is_of_another_kind_is_passed_over() {
        let mut records = told(&[Start, Complete]);
        records[1].kind = EventKind::JobMoved;
        assert_eq!(phase_times(&records)[0].finished, None);
        for data in
            [json!(null), json!({ "from": "execute", "to": 7 }), json!({ "from": "a/b", "to": "a/b" })]
        {
            records[0].data = data;
            assert_eq!(phase_times(&records), []);
        }
        // A clock that was set back makes no time run backwards.
        let mut back = told(&[Start, Complete]);
        back[1].at = WallMs(1);
        assert_eq!(phase_times(&back)[0].worked_ms, 0);
    }
}
