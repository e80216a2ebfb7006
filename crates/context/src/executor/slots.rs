//! One slot per strategy of a batch. Its worker leaves the answer there, and the collector finds it.
//!
//! ```text
//!            refuse, rejected                 take
//!   Waiting ──────────────────► Refused ──────────────┐
//!      │ │                                            ▼
//!      │ └──── take: deadline, cancel ─────────────► Taken
//!      │ start                                        ▲ ▲
//!      ▼           take: deadline, cancel             │ │
//!   Running ──────────────────────────────────────────┘ │
//!      │ end                                            │ take
//!      └────────────► Ended, Late or Cancelled ─────────┘
//! ```
//!
//! # Invariants
//! 1. A permit is taken and put into its slot in one critical section, and leaves it only by [`Slots::take`].
//!    So only one caller can hold the permit of a run, and a run is settled exactly once.
//! 2. An answer to a slot that was taken is late and changes nothing.
//! 3. The clock and the cancellation are read under the lock. So a strategy that starts after a `take` starts
//!    no earlier than the instant of that `take`. An answer at or after its due instant is late, and one
//!    after a cancel is cancelled, independent of the order of the looks. An answer that a strategy gives
//!    because it was stopped never counts.
//! 4. Lock order: a batch's slots, then the clock's or the breakers' own lock, which are leaves. Nothing else
//!    runs under the lock but moves: no candidate, permit or token is dropped there.
//! 5. Every change that the collector waits for is followed by an `unpark`.
//!
//! # Not here
//! The meaning of an end for the breaker and the receipt: see `settle`.

use std::sync::Arc;
use std::time::Duration;

use sync::primitives::{Mutex, lock};
use sync::{CancelReason, CancellationToken, CircuitBreaker, Clock, Observed, Parker, Permit};

use super::pool::RunId;
use crate::Name;

/// A strategy that began.
pub(super) struct StartedStrategy {
    pub(super) permit: Permit,
    pub(super) at: Duration,
    /// The time when it is too late: by its own deadline or the batch's.
    pub(super) due: Duration,
    pub(super) run: RunId,
    /// Cancelled to stop it.
    pub(super) token: CancellationToken,
}

/// The reason why a strategy did not start.
#[derive(Debug)]
pub(super) enum StartRefusal {
    Rejected {
        retry_after: Duration,
    },
    Hung,
    NoShare,
    NoTurn,
    /// Asking for its name panicked, with this message.
    Unnamed(String),
}

/// The answer of a strategy by itself.
pub(super) enum StrategyAnswer<C> {
    Found { candidates: Vec<C>, cut: usize },
    Failed(String),
    Panicked(String),
}

/// The end of a strategy's part in the batch.
pub(super) enum SlotEnd<C> {
    NotBegun(StartRefusal),
    /// It answered in time.
    Answered {
        started: StartedStrategy,
        answer: StrategyAnswer<C>,
        at: Duration,
    },
    /// It returned, but too late.
    Late(StartedStrategy),
    /// It has not returned, and its time is over.
    Overdue(StartedStrategy),
    /// The batch was cancelled before it had answered.
    Cancelled(StartedStrategy),
}

impl<C> SlotEnd<C> {
    /// Returns true if its job may still be queued.
    pub(super) fn had_no_turn(&self) -> bool {
        matches!(self, Self::NotBegun(StartRefusal::NoTurn))
    }
}

enum BatchSlot<C> {
    Waiting,
    Refused(StartRefusal),
    Running(StartedStrategy),
    Ended { started: StartedStrategy, answer: StrategyAnswer<C>, at: Duration },
    Late(StartedStrategy),
    Cancelled(StartedStrategy),
    Taken,
}

/// The result of [`Slots::take`].
pub(super) struct TakenSlots<C> {
    /// The runs that are over, with the index of each slot.
    pub(super) ends: Vec<(usize, SlotEnd<C>)>,
    /// The time of the next look if no thread unparks; `None` if every slot was taken.
    pub(super) next_look: Option<Duration>,
    /// The reason why the batch was cancelled, if it was: then every slot was taken.
    pub(super) cancelled: Option<CancelReason>,
}

/// The slots of one batch.
pub(super) struct Slots<C> {
    slots: Mutex<Vec<BatchSlot<C>>>,
    clock: Arc<dyn Clock>,
    due: Duration,
    strategy_deadline: Duration,
    collector: Parker,
}

impl<C> Slots<C> {
    /// Slots of which those that cannot begin are over at once.
    pub(super) fn new(
        refused: Vec<Option<StartRefusal>>,
        clock: Arc<dyn Clock>,
        due: Duration,
        strategy_deadline: Duration,
        collector: Parker,
    ) -> Self {
        let slots = refused
            .into_iter()
            .map(|refused| refused.map_or(BatchSlot::Waiting, BatchSlot::Refused))
            .collect();
        Self { slots: Mutex::new(slots), clock, due, strategy_deadline, collector }
    }

    /// Begins a strategy that still waits, if there is time and its breaker lets it; gives its due instant.
    pub(super) fn start(
        &self,
        index: usize,
        name: &Name,
        breakers: &CircuitBreaker,
        run: RunId,
        token: CancellationToken,
    ) -> Option<Duration> {
        let retry_after = {
            let mut slots = lock(&self.slots);
            let slot = &mut slots[index];
            let at = self.clock.now();
            let is_waiting = matches!(slot, BatchSlot::Waiting);
            if !is_waiting || at >= self.due {
                return None;
            }
            match breakers.try_acquire(name.as_str()) {
                Ok(permit) => {
                    let due = self.due.min(at.saturating_add(self.strategy_deadline));
                    *slot = BatchSlot::Running(StartedStrategy { permit, at, due, run, token });
                    return Some(due);
                }
                Err(rejected) => rejected.retry_after,
            }
        };
        self.refuse(index, StartRefusal::Rejected { retry_after });
        None
    }

    /// Ends a strategy that still waits without beginning it.
    pub(super) fn refuse(&self, index: usize, why: StartRefusal) {
        {
            let mut slots = lock(&self.slots);
            let slot = &mut slots[index];
            if !matches!(slot, BatchSlot::Waiting) {
                return;
            }
            *slot = BatchSlot::Refused(why);
        }
        self.collector.unpark();
    }

    /// Leaves the answer of a strategy. An answer that came too late is given back, so that the thread that
    /// made it drops it.
    pub(super) fn end(&self, index: usize, answer: StrategyAnswer<C>) -> Option<StrategyAnswer<C>> {
        let late = {
            let mut slots = lock(&self.slots);
            let at = self.clock.now();
            // A slot that was begun is running until it is taken.
            let BatchSlot::Running(started) = std::mem::replace(&mut slots[index], BatchSlot::Taken) else {
                return Some(answer);
            };
            let (slot, late) = if started.token.is_cancelled() {
                (BatchSlot::Cancelled(started), Some(answer))
            } else if at >= started.due {
                (BatchSlot::Late(started), Some(answer))
            } else {
                (BatchSlot::Ended { started, answer, at }, None)
            };
            slots[index] = slot;
            late
        };
        self.collector.unpark();
        late
    }

    /// Takes out whatever is over; once `observed` is cancelled, everything is.
    pub(super) fn take(&self, observed: &Observed) -> TakenSlots<C> {
        let mut slots = lock(&self.slots);
        let now = self.clock.now();
        let cancelled = observed.reason();
        let is_cancelled = cancelled.is_some();
        // A strategy that begins after this look is not due before that.
        let due_if_begun = self.due.min(now.saturating_add(self.strategy_deadline));
        let mut ends = Vec::new();
        let mut next_look: Option<Duration> = None;
        let mut look_at = |at: Duration| next_look = Some(next_look.map_or(at, |next| next.min(at)));
        for (index, slot) in slots.iter_mut().enumerate() {
            let end = match std::mem::replace(slot, BatchSlot::Taken) {
                BatchSlot::Waiting if is_cancelled || now >= self.due => {
                    SlotEnd::NotBegun(StartRefusal::NoTurn)
                }
                BatchSlot::Waiting => {
                    look_at(due_if_begun);
                    *slot = BatchSlot::Waiting;
                    continue;
                }
                BatchSlot::Refused(why) => SlotEnd::NotBegun(why),
                BatchSlot::Running(started) if is_cancelled => SlotEnd::Cancelled(started),
                BatchSlot::Running(started) if now >= started.due => SlotEnd::Overdue(started),
                BatchSlot::Running(started) => {
                    look_at(started.due);
                    *slot = BatchSlot::Running(started);
                    continue;
                }
                BatchSlot::Ended { started, answer, at } => SlotEnd::Answered { started, answer, at },
                BatchSlot::Late(started) => SlotEnd::Late(started),
                BatchSlot::Cancelled(started) => SlotEnd::Cancelled(started),
                BatchSlot::Taken => continue,
            };
            ends.push((index, end));
        }
        TakenSlots { ends, next_look, cancelled }
    }
}
