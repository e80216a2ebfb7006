//! The events that move a plan, and the state to which each leads: the one transition table of plans.
//!
//! # Invariants
//! 1. `applied` is final: no event leaves it. `cancelled` is final for the run; the changes that it left
//!    can be continued ([`PlanEvent::Revise`]) or taken as they are ([`PlanEvent::Accept`]).
//! 2. Three events lead back. [`PlanEvent::Revert`] leads to the beginning of strategize.
//!    [`PlanEvent::Revise`] leads to a new attempt of execute on top of the changes so far.
//!    [`PlanEvent::Withdraw`] removes the request for an apply that wrote nothing.
//!
//! # Not here
//! Guards that need more than the state (locks, leases, how often a plan was reverted): [`Plan`](super::Plan)
//! and the stores. The moves that no job makes, and what comes with them: `manual_transition`.

use std::fmt;

use super::state::{ApplyState, PlanState, WorkState};

/// An event that moves a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanEvent {
    /// A worker claimed the phase's job.
    Start,
    /// Its owner gives the job back.
    Release,
    /// The phase is done.
    Complete,
    /// The phase could not be done, or was interrupted.
    Fail,
    /// A gate or a person lets it continue with the next phase.
    Advance,
    /// The journal's commit mark is on disk, and its writes are done.
    Applied,
    /// A gate or a conflict prevents it; nothing was written.
    Constrain,
    /// A person says that the cause is gone.
    Reapply,
    /// The person who asked for the apply does not want it now; nothing was written.
    Withdraw,
    /// Once more, in the same phase and attempt.
    Retry,
    /// Execute once more, as a new attempt.
    Again,
    /// Back to strategize, as a new attempt.
    Revert,
    /// Stopped for good.
    Cancel,
    /// Execute once more, as a new attempt that starts from the changes of the last one.
    Revise,
    /// A person worked on the result without running the plan: rolled changes back, edited them, or ran its
    /// checks again.
    Amend,
    /// A person takes the changes of a run that failed or was stopped as they are.
    Accept,
}

/// An event that the plan's state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a plan that is {state} does not {event}")]
pub struct BadTransition {
    /// The state of the plan.
    pub state: PlanState,
    /// The rejected event.
    pub event: PlanEvent,
}

impl PlanState {
    /// Returns where `event` leads.
    ///
    /// # Errors
    /// Returns an error if the state does not allow the event.
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

const fn in_strategize(work: WorkState, event: PlanEvent) -> Option<PlanState> {
    use PlanEvent as E;
    use PlanState::{Execute, Strategize};
    match (work, event) {
        (WorkState::Queued, E::Start) => Some(Strategize(WorkState::Processing)),
        (WorkState::Processing, E::Release) => Some(Strategize(WorkState::Queued)),
        (WorkState::Processing, E::Complete) => Some(Strategize(WorkState::Complete)),
        // A queued one fails only by an interruption.
        (WorkState::Queued | WorkState::Processing, E::Fail) => Some(Strategize(WorkState::Errored)),
        (WorkState::Complete, E::Advance) => Some(Execute(WorkState::Queued)),
        (WorkState::Errored, E::Retry) => Some(Strategize(WorkState::Queued)),
        (WorkState::Complete | WorkState::Errored, E::Revert) => Some(Strategize(WorkState::Queued)),
        (WorkState::Queued | WorkState::Processing | WorkState::Complete | WorkState::Errored, E::Cancel) => {
            Some(Strategize(WorkState::Cancelled))
        }
        (WorkState::Queued, E::Release | E::Complete | E::Advance | E::Retry | E::Revert)
        | (WorkState::Processing, E::Start | E::Advance | E::Retry | E::Revert)
        | (WorkState::Complete, E::Start | E::Release | E::Complete | E::Fail | E::Retry)
        | (WorkState::Errored, E::Start | E::Release | E::Complete | E::Fail | E::Advance)
        | (
            WorkState::Cancelled,
            E::Start | E::Release | E::Complete | E::Fail | E::Advance | E::Retry | E::Revert | E::Cancel,
        )
        | (
            _,
            E::Applied
            | E::Constrain
            | E::Reapply
            | E::Withdraw
            | E::Again
            | E::Revise
            | E::Amend
            | E::Accept,
        ) => None,
    }
}

const fn in_execute(work: WorkState, event: PlanEvent) -> Option<PlanState> {
    use PlanEvent as E;
    use PlanState::{Apply, Execute, Strategize};
    match (work, event) {
        (WorkState::Queued, E::Start) => Some(Execute(WorkState::Processing)),
        (WorkState::Processing, E::Release) => Some(Execute(WorkState::Queued)),
        (WorkState::Processing, E::Complete) => Some(Execute(WorkState::Complete)),
        (WorkState::Queued | WorkState::Processing, E::Fail) => Some(Execute(WorkState::Errored)),
        (WorkState::Complete, E::Advance) => Some(Apply(ApplyState::Queued)),
        (WorkState::Complete, E::Again)
        | (WorkState::Errored, E::Retry)
        | (WorkState::Complete | WorkState::Errored | WorkState::Cancelled, E::Revise) => {
            Some(Execute(WorkState::Queued))
        }
        (WorkState::Complete | WorkState::Errored | WorkState::Cancelled, E::Amend) => Some(Execute(work)),
        (WorkState::Errored | WorkState::Cancelled, E::Accept) => Some(Execute(WorkState::Complete)),
        (WorkState::Complete | WorkState::Errored, E::Revert) => Some(Strategize(WorkState::Queued)),
        (WorkState::Queued | WorkState::Processing | WorkState::Complete | WorkState::Errored, E::Cancel) => {
            Some(Execute(WorkState::Cancelled))
        }
        (WorkState::Queued, E::Release | E::Complete | E::Advance | E::Retry | E::Again | E::Revert)
        | (WorkState::Processing, E::Start | E::Advance | E::Retry | E::Again | E::Revert)
        | (WorkState::Complete, E::Start | E::Release | E::Complete | E::Fail | E::Retry)
        | (WorkState::Errored, E::Start | E::Release | E::Complete | E::Fail | E::Advance | E::Again)
        | (
            WorkState::Cancelled,
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
        | (WorkState::Queued | WorkState::Processing, E::Revise | E::Amend)
        | (WorkState::Queued | WorkState::Processing | WorkState::Complete, E::Accept)
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
        (A::Constrained | A::Errored, E::Revert) => Some(Strategize(WorkState::Queued)),
        (A::Constrained | A::Errored | A::Cancelled, E::Revise) => Some(Execute(WorkState::Queued)),
        (A::Constrained | A::Errored, E::Amend) | (A::Cancelled, E::Accept) => {
            Some(Execute(WorkState::Complete))
        }
        (A::Cancelled, E::Amend) => Some(Apply(A::Cancelled)),
        (A::Queued | A::Processing, E::Withdraw) => Some(Execute(WorkState::Complete)),
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
        | (A::Queued | A::Processing | A::Applied, E::Revise | E::Amend)
        | (A::Queued | A::Processing | A::Applied | A::Constrained | A::Errored, E::Accept)
        | (_, E::Complete | E::Advance | E::Again) => None,
    }
}

impl PlanEvent {
    /// All of them.
    pub const ALL: [PlanEvent; 16] = [
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
        PlanEvent::Revise,
        PlanEvent::Amend,
        PlanEvent::Accept,
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
            PlanEvent::Revise => "revise",
            PlanEvent::Amend => "amend",
            PlanEvent::Accept => "accept",
        }
    }
}

impl fmt::Display for PlanEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns where each event leads from each state; an empty cell is refused. Printed into the docs.
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
