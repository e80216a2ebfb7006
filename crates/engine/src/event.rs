//! What happened, told to whoever shows or keeps it. Telling never blocks and never fails the one who tells.

use std::time::Duration;

use sync::contained;

/// Something that happened in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A circuit breaker opened or closed.
    BreakerChanged {
        /// Its name.
        name: String,
        /// What it did.
        to: BreakerMove,
    },
}

/// The moves of a breaker that are worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerMove {
    /// It opened, for the first time or again.
    Opened {
        /// For how long.
        cool_down: Duration,
    },
    /// It closed.
    Closed,
}

impl BreakerMove {
    /// The move that an answer of the breaker tells of, if any.
    pub(crate) fn of(recorded: sync::Recorded) -> Option<Self> {
        match recorded {
            sync::Recorded::Tripped { cool_down } | sync::Recorded::Reopened { cool_down } => {
                Some(Self::Opened { cool_down })
            }
            sync::Recorded::Closed => Some(Self::Closed),
            sync::Recorded::Counted | sync::Recorded::Returned | sync::Recorded::Stale => None,
        }
    }
}

/// Where events go. Called without a lock held; must not block.
pub trait EventSink: Send + Sync {
    /// Takes note of `event`.
    fn emit(&self, event: &Event);
}

/// Emits, and contains a sink that panics: the event is lost to that sink, and to nobody else.
pub(crate) fn emit(sink: &dyn EventSink, event: &Event) {
    let _ = contained(|| sink.emit(event));
}
