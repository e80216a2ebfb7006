//! The transitions of a breaker, as pure functions over its state in one 64-bit word. They decide when a
//! caller is admitted, which one is the probe of a half-open breaker, and what a success or a failure
//! changes.
//!
//! Layout, from the top: `generation: 26 | trips: 4 | field: 32 | state: 2`. In a closed breaker, `field` is
//! the count of consecutive failures. Otherwise it is an absolute tick of 10 ms: the moment when a probe is
//! due (open) or when its lease ends (half-open).
//!
//! # Invariants
//! 1. Closed means trips 0 and failures below the threshold.
//! 2. Every change of state, and every reset, raises the generation; counting does not. So a permit of the
//!    present generation was given out in the present state.
//! 3. A generation wraps after 67 million changes of state; a permit would have to be held through all of
//!    them to be mistaken. Ticks and trips saturate.
//! 4. A closed word never needs the time: `now` is asked for only by the other states.

use std::time::Duration;

use super::{BreakerConfig, BreakerState, RecordOutcome, RejectReason};

/// Trips saturate here: a cool-down grows no further than 2^14 times the first.
const TRIPS_MAX: u64 = 15;
const TICK_MS: u128 = 10;

const STATE_BITS: u32 = 2;
const FIELD_BITS: u32 = 32;
const TRIPS_BITS: u32 = 4;
const GENERATION_MASK: u64 = (1 << 26) - 1;

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;

/// An instant in ticks of 10 ms, saturating after 497 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tick(u32);

impl Tick {
    /// The tick that has begun at `at`.
    pub(super) fn at(at: Duration) -> Self {
        Self(u32::try_from(at.as_millis() / TICK_MS).unwrap_or(u32::MAX))
    }

    /// The first tick that begins `wait` after `at` or later, so that nothing is due too early.
    fn after(at: Duration, wait: Duration) -> Self {
        let until = at.saturating_add(wait).as_millis();
        Self(u32::try_from(until.div_ceil(TICK_MS)).unwrap_or(u32::MAX))
    }

    fn wait_from(self, now: Duration) -> Duration {
        let at = Duration::from_millis(u64::from(self.0) * TICK_MS as u64);
        at.saturating_sub(now)
    }
}

/// The state that the word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed { failures: u32 },
    Open { probe_due: Tick },
    HalfOpen { lease_end: Tick },
}

/// The packed word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    /// Closed, never failed.
    pub(super) const NEW: Self = Self(CLOSED);

    fn pack(generation: u64, trips: u64, state: State) -> Self {
        let (code, field) = match state {
            State::Closed { failures } => (CLOSED, failures),
            State::Open { probe_due } => (OPEN, probe_due.0),
            State::HalfOpen { lease_end } => (HALF_OPEN, lease_end.0),
        };
        let top = (generation & GENERATION_MASK) << TRIPS_BITS | trips.min(TRIPS_MAX);
        Self((top << FIELD_BITS | u64::from(field)) << STATE_BITS | code)
    }

    #[inline]
    pub(super) fn is_closed(self) -> bool {
        self.0 & ((1 << STATE_BITS) - 1) == CLOSED
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> (STATE_BITS + FIELD_BITS + TRIPS_BITS)
    }

    fn trips(self) -> u64 {
        self.0 >> (STATE_BITS + FIELD_BITS) & TRIPS_MAX
    }

    pub(super) fn state(self) -> State {
        let field = (self.0 >> STATE_BITS) as u32;
        match self.0 & ((1 << STATE_BITS) - 1) {
            CLOSED => State::Closed { failures: field },
            OPEN => State::Open { probe_due: Tick(field) },
            _ => State::HalfOpen { lease_end: Tick(field) },
        }
    }

    fn moved(self, trips: u64, state: State) -> Self {
        Self::pack(self.generation() + 1, trips, state)
    }

    fn counted(self, failures: u32) -> Self {
        Self::pack(self.generation(), 0, State::Closed { failures })
    }

    /// Someone wants to begin: lets it in, or says why not and for how long.
    pub(super) fn acquire(
        self,
        config: &BreakerConfig,
        now: impl Fn() -> Duration,
    ) -> (Self, Result<(), (RejectReason, Duration)>) {
        let (due, why) = match self.state() {
            State::Closed { .. } => return (self, Ok(())),
            State::Open { probe_due } => (probe_due, RejectReason::CoolingDown),
            State::HalfOpen { lease_end } => (lease_end, RejectReason::Probing),
        };
        let now = now();
        if Tick::at(now) < due {
            return (self, Err((why, due.wait_from(now))));
        }
        let lease_end = Tick::after(now, config.probe_lease);
        (self.moved(self.trips(), State::HalfOpen { lease_end }), Ok(()))
    }

    /// Returns whether [`acquire`](Self::acquire) would refuse.
    pub(super) fn rejects(self, now: impl Fn() -> Duration) -> bool {
        match self.state() {
            State::Closed { .. } => false,
            State::Open { probe_due: due } | State::HalfOpen { lease_end: due } => Tick::at(now()) < due,
        }
    }

    /// A success: from any state the breaker is closed and the count is 0.
    pub(super) fn succeeded(self) -> (Self, RecordOutcome) {
        match self.state() {
            State::Closed { .. } => (self.counted(0), RecordOutcome::Counted),
            State::Open { .. } | State::HalfOpen { .. } => {
                (self.moved(0, State::Closed { failures: 0 }), RecordOutcome::Closed)
            }
        }
    }

    /// A failure: counts when closed, reopens when half-open, says nothing new when open.
    pub(super) fn failed(self, config: &BreakerConfig, now: impl Fn() -> Duration) -> (Self, RecordOutcome) {
        match self.state() {
            State::Closed { failures } if failures + 1 < config.threshold => {
                (self.counted(failures + 1), RecordOutcome::Counted)
            }
            State::Closed { .. } => {
                let (word, cool_down) = self.opened(1, config, now());
                (word, RecordOutcome::Tripped { cool_down })
            }
            State::HalfOpen { .. } => {
                let (word, cool_down) = self.opened(self.trips() + 1, config, now());
                (word, RecordOutcome::Reopened { cool_down })
            }
            State::Open { .. } => (self, RecordOutcome::Stale),
        }
    }

    fn opened(self, trips: u64, config: &BreakerConfig, now: Duration) -> (Self, Duration) {
        let cool_down = config.cool_down_of(trips);
        (self.moved(trips, State::Open { probe_due: Tick::after(now, cool_down) }), cool_down)
    }

    /// A permit given back unused: the next one may probe at once.
    pub(super) fn abandoned(self, now: impl Fn() -> Duration) -> (Self, RecordOutcome) {
        match self.state() {
            State::HalfOpen { .. } => {
                let probe_due = Tick::at(now());
                (self.moved(self.trips(), State::Open { probe_due }), RecordOutcome::Returned)
            }
            State::Closed { .. } | State::Open { .. } => (self, RecordOutcome::Returned),
        }
    }

    /// Closed, count 0, trips 0, whatever was; permits given out before are stale.
    pub(super) fn reset(self) -> Self {
        self.moved(0, State::Closed { failures: 0 })
    }

    /// For people to read.
    pub(super) fn view(self, now: impl Fn() -> Duration) -> (BreakerState, u32) {
        let state = match self.state() {
            State::Closed { failures } => BreakerState::Closed { failures },
            State::Open { probe_due } => BreakerState::Open { retry_after: probe_due.wait_from(now()) },
            State::HalfOpen { lease_end } => {
                BreakerState::HalfOpen { lease_left: lease_end.wait_from(now()) }
            }
        };
        (state, self.trips() as u32)
    }
}
