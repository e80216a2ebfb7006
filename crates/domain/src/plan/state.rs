//! The states of a plan and the one function that moves it.
//!
//! # Invariants
//! 1. There are 16 states, and no other can be built or stored: `complete` exists in strategize and execute only,
//!    `applied` and `constrained` in apply only.
//! 2. `applied` and `cancelled` are final: no event leaves them.
//! 3. The only way back is [`PlanEvent::Revert`], to the beginning of strategize; and [`PlanEvent::Withdraw`], by which an
//!    apply that wrote nothing has never been asked for.
//!
//! # Not here
//! Guards that need more than the state (locks, leases, how often a plan was reverted): [`Plan`](super::Plan) and
//! the stores.

use std::fmt;

use super::phase::Phase;

/// Where strategize or execute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Waits for a worker; in by creation, an advance, a retry, a release.
    Queued,
    /// A worker has claimed its job; only that owner moves it.
    Processing,
    /// Done; a gate or a person lets it go on.
    Complete,
    /// Failed; a retry or a revert takes it out.
    Errored,
    /// Stopped for good. Final.
    Cancelled,
}

/// Where apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyState {
    /// Waits for a worker.
    Queued,
    /// A worker has claimed its job.
    Processing,
    /// The changes are in the user's files. Final, also when they were undone.
    Applied,
    /// A gate said no, or a conflict; nothing was written. May be applied again, or reverted.
    Constrained,
    /// Failed; nothing was written. A retry or a revert takes it out.
    Errored,
    /// Stopped for good before anything was written. Final.
    Cancelled,
}

/// Where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanState {
    /// It thinks.
    Strategize(Work),
    /// It works in its sandbox.
    Execute(Work),
    /// It reaches the user's files.
    Apply(ApplyState),
}

/// What moves a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanEvent {
    /// A worker claimed the phase's job.
    Start,
    /// Its owner gives the job back.
    Release,
    /// The phase is done.
    Complete,
    /// The phase could not be done.
    Fail,
    /// A gate or a person lets it go on to the next phase.
    Advance,
    /// The journal's commit mark is on disk, and its writes are done.
    Applied,
    /// A gate or a conflict stands in the way; nothing was written.
    Constrain,
    /// A person says that the cause is gone.
    Reapply,
    /// Whoever asked for the apply does not want it now; nothing was written.
    Withdraw,
    /// Once more, in the same phase and attempt.
    Retry,
    /// Execute once more, as a new attempt.
    Again,
    /// Back to strategize, as a new attempt.
    Revert,
    /// Stopped for good.
    Cancel,
}

/// An event that the plan's state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a plan that is {state} does not {event}")]
pub struct BadTransition {
    /// Where the plan stands.
    pub state: PlanState,
    /// What was asked of it.
    pub event: PlanEvent,
}

impl PlanState {
    /// Where every plan begins.
    pub const FIRST: PlanState = PlanState::Strategize(Work::Queued);

    /// All of them, in their order.
    pub const ALL: [PlanState; 16] = {
        use ApplyState as A;
        use PlanState::{Apply, Execute, Strategize};
        [
            Strategize(Work::Queued),
            Strategize(Work::Processing),
            Strategize(Work::Complete),
            Strategize(Work::Errored),
            Strategize(Work::Cancelled),
            Execute(Work::Queued),
            Execute(Work::Processing),
            Execute(Work::Complete),
            Execute(Work::Errored),
            Execute(Work::Cancelled),
            Apply(A::Queued),
            Apply(A::Processing),
            Apply(A::Applied),
            Apply(A::Constrained),
            Apply(A::Errored),
            Apply(A::Cancelled),
        ]
    };

    /// The phase.
    pub const fn phase(self) -> Phase {
        match self {
            PlanState::Strategize(_) => Phase::Strategize,
            PlanState::Execute(_) => Phase::Execute,
            PlanState::Apply(_) => Phase::Apply,
        }
    }

    /// Where the phase stands, as stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => match work {
                Work::Queued => "queued",
                Work::Processing => "processing",
                Work::Complete => "complete",
                Work::Errored => "errored",
                Work::Cancelled => "cancelled",
            },
            PlanState::Apply(state) => match state {
                ApplyState::Queued => "queued",
                ApplyState::Processing => "processing",
                ApplyState::Applied => "applied",
                ApplyState::Constrained => "constrained",
                ApplyState::Errored => "errored",
                ApplyState::Cancelled => "cancelled",
            },
        }
    }

    /// The state with this phase and word; none for the two pairs that do not exist, and for other words.
    pub fn parse(phase: &str, word: &str) -> Option<PlanState> {
        PlanState::ALL.into_iter().find(|state| state.phase().as_str() == phase && state.word() == word)
    }

    /// Whether it stays for ever.
    pub const fn is_final(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, Work::Cancelled),
            PlanState::Apply(state) => matches!(state, ApplyState::Applied | ApplyState::Cancelled),
        }
    }

    /// Whether it waits for a worker.
    pub const fn is_queued(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, Work::Queued),
            PlanState::Apply(state) => matches!(state, ApplyState::Queued),
        }
    }

    /// Whether a worker has its job.
    pub const fn is_processing(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, Work::Processing),
            PlanState::Apply(state) => matches!(state, ApplyState::Processing),
        }
    }

    /// Whether a job of its phase waits or runs.
    pub const fn has_live_job(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => {
                matches!(work, Work::Queued | Work::Processing)
            }
            PlanState::Apply(state) => matches!(state, ApplyState::Queued | ApplyState::Processing),
        }
    }

    /// Where `event` leads.
    ///
    /// # Errors
    /// The state does not allow it.
    pub const fn next(self, event: PlanEvent) -> Result<PlanState, BadTransition> {
        let next = match self {
            PlanState::Strategize(work) => in_strategize(work, event),
            PlanState::Execute(work) => in_execute(work, event),
            PlanState::Apply(state) => in_apply(state, event),
        };
        match next {
            Some(state) => Ok(state),
            None => Err(BadTransition { state: self, event }),
        }
    }
}

const fn in_strategize(work: Work, event: PlanEvent) -> Option<PlanState> {
    use PlanEvent as E;
    use PlanState::{Execute, Strategize};
    match (work, event) {
        (Work::Queued, E::Start) => Some(Strategize(Work::Processing)),
        (Work::Processing, E::Release) => Some(Strategize(Work::Queued)),
        (Work::Processing, E::Complete) => Some(Strategize(Work::Complete)),
        (Work::Processing, E::Fail) => Some(Strategize(Work::Errored)),
        (Work::Complete, E::Advance) => Some(Execute(Work::Queued)),
        (Work::Errored, E::Retry) => Some(Strategize(Work::Queued)),
        (Work::Complete | Work::Errored, E::Revert) => Some(Strategize(Work::Queued)),
        (Work::Queued | Work::Processing | Work::Complete | Work::Errored, E::Cancel) => {
            Some(Strategize(Work::Cancelled))
        }
        (Work::Queued, E::Release | E::Complete | E::Fail | E::Advance | E::Retry | E::Revert)
        | (Work::Processing, E::Start | E::Advance | E::Retry | E::Revert)
        | (Work::Complete, E::Start | E::Release | E::Complete | E::Fail | E::Retry)
        | (Work::Errored, E::Start | E::Release | E::Complete | E::Fail | E::Advance)
        | (
            Work::Cancelled,
            E::Start | E::Release | E::Complete | E::Fail | E::Advance | E::Retry | E::Revert | E::Cancel,
        )
        | (_, E::Applied | E::Constrain | E::Reapply | E::Withdraw | E::Again) => None,
    }
}

const fn in_execute(work: Work, event: PlanEvent) -> Option<PlanState> {
    use PlanEvent as E;
    use PlanState::{Apply, Execute, Strategize};
    match (work, event) {
        (Work::Queued, E::Start) => Some(Execute(Work::Processing)),
        (Work::Processing, E::Release) => Some(Execute(Work::Queued)),
        (Work::Processing, E::Complete) => Some(Execute(Work::Complete)),
        (Work::Processing, E::Fail) => Some(Execute(Work::Errored)),
        (Work::Complete, E::Advance) => Some(Apply(ApplyState::Queued)),
        (Work::Complete, E::Again) | (Work::Errored, E::Retry) => Some(Execute(Work::Queued)),
        (Work::Complete | Work::Errored, E::Revert) => Some(Strategize(Work::Queued)),
        (Work::Queued | Work::Processing | Work::Complete | Work::Errored, E::Cancel) => {
            Some(Execute(Work::Cancelled))
        }
        (Work::Queued, E::Release | E::Complete | E::Fail | E::Advance | E::Retry | E::Again | E::Revert)
        | (Work::Processing, E::Start | E::Advance | E::Retry | E::Again | E::Revert)
        | (Work::Complete, E::Start | E::Release | E::Complete | E::Fail | E::Retry)
        | (Work::Errored, E::Start | E::Release | E::Complete | E::Fail | E::Advance | E::Again)
        | (
            Work::Cancelled,
            E::Start
            | E::Release
            | E::Complete
            | E::Fail
            | E::Advance
            | E::Retry
            | E::Again
            | E::Revert
            | E::Cancel,
        )
        | (_, E::Applied | E::Constrain | E::Reapply | E::Withdraw) => None,
    }
}

const fn in_apply(state: ApplyState, event: PlanEvent) -> Option<PlanState> {
    use ApplyState as A;
    use PlanEvent as E;
    use PlanState::{Apply, Execute, Strategize};
    match (state, event) {
        (A::Queued, E::Start) => Some(Apply(A::Processing)),
        (A::Processing, E::Release) | (A::Constrained, E::Reapply) | (A::Errored, E::Retry) => {
            Some(Apply(A::Queued))
        }
        (A::Processing, E::Applied) => Some(Apply(A::Applied)),
        (A::Processing, E::Constrain) => Some(Apply(A::Constrained)),
        (A::Processing, E::Fail) => Some(Apply(A::Errored)),
        (A::Constrained | A::Errored, E::Revert) => Some(Strategize(Work::Queued)),
        (A::Queued | A::Processing, E::Withdraw) => Some(Execute(Work::Complete)),
        (A::Queued | A::Processing | A::Constrained | A::Errored, E::Cancel) => Some(Apply(A::Cancelled)),
        (A::Queued, E::Release | E::Fail | E::Applied | E::Constrain | E::Reapply | E::Retry | E::Revert)
        | (A::Processing, E::Start | E::Reapply | E::Retry | E::Revert)
        | (A::Constrained, E::Start | E::Release | E::Fail | E::Applied | E::Constrain | E::Retry)
        | (A::Errored, E::Start | E::Release | E::Fail | E::Applied | E::Constrain | E::Reapply)
        | (
            A::Applied | A::Cancelled,
            E::Start
            | E::Release
            | E::Fail
            | E::Applied
            | E::Constrain
            | E::Reapply
            | E::Retry
            | E::Revert
            | E::Cancel,
        )
        | (A::Constrained | A::Errored | A::Applied | A::Cancelled, E::Withdraw)
        | (_, E::Complete | E::Advance | E::Again) => None,
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.phase(), self.word())
    }
}

impl PlanEvent {
    /// All of them.
    pub const ALL: [PlanEvent; 13] = [
        PlanEvent::Start,
        PlanEvent::Release,
        PlanEvent::Complete,
        PlanEvent::Fail,
        PlanEvent::Advance,
        PlanEvent::Applied,
        PlanEvent::Constrain,
        PlanEvent::Reapply,
        PlanEvent::Withdraw,
        PlanEvent::Retry,
        PlanEvent::Again,
        PlanEvent::Revert,
        PlanEvent::Cancel,
    ];

    /// The event with this name.
    pub fn parse(word: &str) -> Option<PlanEvent> {
        PlanEvent::ALL.into_iter().find(|event| event.as_str() == word)
    }

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanEvent::Start => "start",
            PlanEvent::Release => "release",
            PlanEvent::Complete => "complete",
            PlanEvent::Fail => "fail",
            PlanEvent::Advance => "advance",
            PlanEvent::Applied => "applied",
            PlanEvent::Constrain => "constrain",
            PlanEvent::Reapply => "reapply",
            PlanEvent::Withdraw => "withdraw",
            PlanEvent::Retry => "retry",
            PlanEvent::Again => "again",
            PlanEvent::Revert => "revert",
            PlanEvent::Cancel => "cancel",
        }
    }
}

impl fmt::Display for PlanEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where each event leads from each state; an empty cell is refused. Printed into the docs.
pub fn table_markdown() -> String {
    let mut table = String::from("| state |");
    for event in PlanEvent::ALL {
        table.push_str(&format!(" {event} |"));
    }
    table.push_str(&format!("\n|---|{}\n", "---|".repeat(PlanEvent::ALL.len())));
    for state in PlanState::ALL {
        table.push_str(&format!("| {state} |"));
        for event in PlanEvent::ALL {
            let cell = state.next(event).map_or_else(|_| String::new(), |next| format!(" {next}"));
            table.push_str(&format!("{cell} |"));
        }
        table.push('\n');
    }
    table
}
