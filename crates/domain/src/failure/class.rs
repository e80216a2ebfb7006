//! The class of an error. Retry decisions depend on this class only, never on the message.
//!
//! # Not here
//! Codes, hints and exit status, which the program adds; the category of a plan's failure, which is
//! [`ErrorCategory`](crate::ErrorCategory).

/// The class of an error, which says what a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The same call may succeed later, unchanged.
    Transient,
    /// The same call will be refused again: a person has to change something first.
    Permanent,
    /// The work was called off, or belongs to another owner by now. Not a failure.
    Cancelled,
    /// The caller broke the rules of this crate.
    Bug,
}
