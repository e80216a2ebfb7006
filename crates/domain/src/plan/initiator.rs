//! The initiator of a plan's move, for the record.

use std::fmt;

/// The initiator of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Initiator {
    /// The user asked for it.
    User,
    /// A gate let the plan pass by itself.
    Gate,
    /// The recovery sent it back.
    Recovery,
    /// Its job moved, and the plan followed.
    Job,
    /// The step that made the plan.
    Creation,
    /// Its journal was brought to its end without a job.
    Journal,
}

impl Initiator {
    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Initiator::User => "person",
            Initiator::Gate => "gate",
            Initiator::Recovery => "recovery",
            Initiator::Job => "job",
            Initiator::Creation => "use",
            Initiator::Journal => "journal",
        }
    }
}

impl fmt::Display for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
