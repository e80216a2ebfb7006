//! The states of a plan.
//!
//! # Invariants
//! There are 16 states, and no other can be built or stored: `complete` exists in strategize and execute
//! only, `applied` and `constrained` in apply only.
//!
//! # Not here
//! The events and the states to which they lead: `transitions`.

use std::fmt;

use super::phase::Phase;

/// The state of strategize or execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkState {
    /// Waits for a worker; in by creation, an advance, a retry, a release.
    Queued,
    /// A worker has claimed its job; only that owner moves it.
    Processing,
    /// Done; a gate or a person lets it continue.
    Complete,
    /// Failed; a retry or a revert takes it out.
    Errored,
    /// Stopped for good. Final.
    Cancelled,
}

/// The state of apply.
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

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanState {
    /// It thinks.
    Strategize(WorkState),
    /// It works in its sandbox.
    Execute(WorkState),
    /// It reaches the user's files.
    Apply(ApplyState),
}

impl PlanState {
    /// The state in which every plan begins.
    pub const FIRST: PlanState = PlanState::Strategize(WorkState::Queued);

    /// All of them, in their order.
    pub const ALL: [PlanState; 16] = {
        use ApplyState as A;
        use PlanState::{Apply, Execute, Strategize};
        [
            Strategize(WorkState::Queued),
            Strategize(WorkState::Processing),
            Strategize(WorkState::Complete),
            Strategize(WorkState::Errored),
            Strategize(WorkState::Cancelled),
            Execute(WorkState::Queued),
            Execute(WorkState::Processing),
            Execute(WorkState::Complete),
            Execute(WorkState::Errored),
            Execute(WorkState::Cancelled),
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

    /// Returns the state of the phase, as stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => match work {
                WorkState::Queued => "queued",
                WorkState::Processing => "processing",
                WorkState::Complete => "complete",
                WorkState::Errored => "errored",
                WorkState::Cancelled => "cancelled",
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

    /// The state with this phase and word; `None` for the two pairs that do not exist, and for other words.
    pub fn parse(phase: &str, word: &str) -> Option<PlanState> {
        PlanState::ALL.into_iter().find(|state| state.phase().as_str() == phase && state.word() == word)
    }

    /// Returns whether it stays for ever.
    pub const fn is_final(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, WorkState::Cancelled),
            PlanState::Apply(state) => matches!(state, ApplyState::Applied | ApplyState::Cancelled),
        }
    }

    /// Returns whether it was stopped for good.
    pub const fn is_cancelled(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, WorkState::Cancelled),
            PlanState::Apply(state) => matches!(state, ApplyState::Cancelled),
        }
    }

    /// Returns whether it waits for a worker.
    pub const fn is_queued(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, WorkState::Queued),
            PlanState::Apply(state) => matches!(state, ApplyState::Queued),
        }
    }

    /// Returns whether a worker has its job.
    pub const fn is_processing(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => matches!(work, WorkState::Processing),
            PlanState::Apply(state) => matches!(state, ApplyState::Processing),
        }
    }

    /// Returns whether a job of its phase waits or runs.
    pub const fn has_live_job(self) -> bool {
        match self {
            PlanState::Strategize(work) | PlanState::Execute(work) => {
                matches!(work, WorkState::Queued | WorkState::Processing)
            }
            PlanState::Apply(state) => matches!(state, ApplyState::Queued | ApplyState::Processing),
        }
    }
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.phase(), self.word())
    }
}
