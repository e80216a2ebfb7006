//! How an error is to be taken, whatever it says: the only thing about an error that a retry loop reads.
//!
//! # Not here
//! Codes, hints and exit status, which the program adds; the category of a plan's failure, which is
//! [`ErrorCategory`](crate::ErrorCategory).

/// What a caller may do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The same call may succeed later, unchanged.
    Transient,
    /// The same call will be refused again: somebody has to change something first.
    Permanent,
    /// The work was called off, or belongs to somebody else by now. Not a failure.
    Cancelled,
    /// The caller broke the rules of this crate.
    Bug,
}
