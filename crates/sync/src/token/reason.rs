//! The types of a cancel: its reason, its generation, and the outcome of a cancel or a reset.

/// Why something was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CancelReason {
    /// A person asked for it.
    User = 1,
    /// A deadline passed.
    Timeout,
    /// The process is stopping.
    Shutdown,
    /// Another worker may own the job by now.
    LeaseLost,
    /// A sibling failed, so that this work is of no use.
    Sibling,
    /// A limit was reached.
    Limit,
    /// Its run is over: a later generation or a finished run has taken its place.
    Superseded,
}

impl CancelReason {
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Self::User),
            2 => Some(Self::Timeout),
            3 => Some(Self::Shutdown),
            4 => Some(Self::LeaseLost),
            5 => Some(Self::Sibling),
            6 => Some(Self::Limit),
            _ => Some(Self::Superseded),
        }
    }

    pub(crate) fn code(self) -> u64 {
        self as u64
    }
}

impl std::fmt::Display for CancelReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "asked for by the user",
            Self::Timeout => "deadline passed",
            Self::Shutdown => "shutting down",
            Self::LeaseLost => "lease lost",
            Self::Sibling => "a sibling failed",
            Self::Limit => "limit reached",
            Self::Superseded => "superseded",
        })
    }
}

/// The error of work that stops because it was cancelled; not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Why.
    pub reason: CancelReason,
}

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cancelled: {}", self.reason)
    }
}

impl std::error::Error for Cancelled {}

/// The number of a token's generation, from 0; greater is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(super) u64);

/// The effect of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// This call cancelled the generation.
    Now(Generation),
    /// It was cancelled before; the first reason stays.
    Already(Generation),
    /// The generation that was meant is over.
    Stale {
        /// The generation that is current instead.
        current: Generation,
    },
}

/// The effect of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// This call opened the generation.
    Opened(Generation),
    /// The generation is live, so nothing was done. A cancelled ancestor still cancels it.
    Live(Generation),
    /// The generation that was meant is over.
    Stale {
        /// The generation that is current instead.
        current: Generation,
    },
}
