//! The errors of a request for a context.
//!
//! # Invariants
//! 1. Only bad input, no project and a cancel are errors. Whatever else goes wrong gives less context and a
//!    note.
//!
//! # Not here
//! Codes, hints and exit status: the program adds them.

use domain::context::{Focus, Name, ProjectIndex};
use domain::{ErrorClass, RelPath, did_you_mean};
use sync::CancelReason;

use crate::config::shown;
use crate::view::GlobUnreadable;

/// The reason why there is no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It was called off. There is no partial context.
    #[error("the assembly of a context was cancelled: {0}")]
    Cancelled(CancelReason),
    /// The request names a strategy that there is not.
    #[error("there is no strategy `{name}`; strategies are {}{}", shown(known), did_you_mean(name.as_str(), known.iter().map(Name::as_str)))]
    StrategyUnknown {
        /// The name.
        name: Name,
        /// Those that there are.
        known: Vec<Name>,
    },
    /// There is nothing at what the request is about.
    #[error("there is no file or definition `{focus}`")]
    FocusNotFound {
        /// Its subject.
        focus: Focus,
    },
    /// The lines that the request is about are not in their file.
    #[error("`{path}` has only {lines} {}", if *lines == 1 { "line" } else { "lines" })]
    FocusBeyond {
        /// Its subject.
        focus: Focus,
        /// The file.
        path: RelPath,
        /// The number of lines it has.
        lines: u32,
    },
    /// The focus of the request is defined in too many places to be unambiguous.
    #[error("`{symbol}` is defined in {places} places")]
    FocusAmbiguous {
        /// The name.
        symbol: String,
        /// The number of places.
        places: usize,
    },
    /// The focus of the request is excluded from the caller's view.
    #[error("`{focus}` is left out by the view")]
    FocusExcluded {
        /// Its subject.
        focus: Focus,
    },
    /// The request is about more than it may be.
    #[error("a request may have at most 64 focus entries, this one has {count}")]
    FocusTooMany {
        /// The number that it names.
        count: usize,
    },
    /// The request names a project that there is not.
    #[error("there is no project number {}", .0.0)]
    ProjectUnknown(ProjectIndex),
    /// There is no project to look into.
    #[error("there is no project to search")]
    NoProject,
    /// A project's rules cannot be read.
    #[error(transparent)]
    Glob(#[from] GlobUnreadable),
    /// A stage or the source of projects failed in a way that leaves nothing: the message.
    #[error("the projects cannot be opened: {0}")]
    Projects(String),
}

impl Error {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Cancelled(_) => ErrorClass::Cancelled,
            Error::StrategyUnknown { .. }
            | Error::FocusNotFound { .. }
            | Error::FocusBeyond { .. }
            | Error::FocusAmbiguous { .. }
            | Error::FocusExcluded { .. }
            | Error::FocusTooMany { .. }
            | Error::ProjectUnknown(_)
            | Error::NoProject
            | Error::Glob(_) => ErrorClass::Permanent,
            Error::Projects(_) => ErrorClass::Transient,
        }
    }
}
