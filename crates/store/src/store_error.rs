//! Errors of the store itself, independent of the request.

use domain::{ErrorClass, LeaseLost, PlanId};

/// The store could not do it, or would not for this claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The claim is not, or no longer, the owner's.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// Other processes held it for too long.
    #[error("the store is busy")]
    Busy,
    /// There is no space left; nothing was written.
    #[error("the store has no space left")]
    Full,
    /// A newer program has changed its form since it was opened; nothing was written.
    #[error("the store now has version {found}; this program supports versions up to {known}")]
    TooNew {
        /// The version of the store.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// Something in it says what this program does not know: a newer one has written it, or it is damaged.
    /// All else can be read and written.
    #[error("the store contains a value that this program cannot read: {why}")]
    Unreadable {
        /// The value, and the reason.
        why: String,
    },
    /// The stored changes of a plan are not those that were recorded. All else can be read and written.
    #[error("the records of plan {plan} are damaged: {what}")]
    Damaged {
        /// The id of the plan.
        plan: PlanId,
        /// The parts that do not go together.
        what: String,
    },
    /// It can no longer be trusted with writes.
    #[error("the store is broken: {why}")]
    Broken {
        /// The cause.
        why: String,
    },
}

impl StoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::LeaseLost(lost) => lost.class(),
            Self::Busy => ErrorClass::Transient,
            Self::Full
            | Self::TooNew { .. }
            | Self::Unreadable { .. }
            | Self::Damaged { .. }
            | Self::Broken { .. } => ErrorClass::Permanent,
        }
    }
}
