//! The packed breaker against a reference model that is obviously right: an enum, an epoch, plain
//! milliseconds.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sync::{BreakerConfig, CircuitBreaker, ManualClock, Permit, RecordOutcome, RejectReason, Rejected};

#[derive(Clone, Debug)]
enum Step {
    Acquire,
    Succeed(usize),
    Fail(usize),
    Abandon(usize),
    RecordSuccess,
    RecordFailure,
    Reset,
    Advance { ticks: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Acquire),
        2 => (0_usize..4).prop_map(Step::Succeed),
        3 => (0_usize..4).prop_map(Step::Fail),
        1 => (0_usize..4).prop_map(Step::Abandon),
        1 => Just(Step::RecordSuccess),
        3 => Just(Step::RecordFailure),
        1 => Just(Step::Reset),
        3 => (0_u64..8).prop_map(|ticks| Step::Advance { ticks }),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Closed { failures: u32 },
    Open { until_ms: u64 },
    HalfOpen { until_ms: u64 },
}

struct Reference {
    config: BreakerConfig,
    state: State,
    epoch: u64,
    trips: u32,
    now_ms: u64,
}

impl Reference {
    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }

    fn open(&mut self) -> Duration {
        self.trips += 1;
        let mut cool_down = self.config.cool_down;
        for _ in 1..self.trips {
            cool_down = (cool_down * 2).min(self.config.cool_down_max);
        }
        let until_ms = self.now_ms + cool_down.as_millis() as u64;
        self.enter(State::Open { until_ms });
        cool_down
    }

    fn close(&mut self) -> RecordOutcome {
        self.trips = 0;
        self.enter(State::Closed { failures: 0 });
        RecordOutcome::Closed
    }

    fn refusal(&self) -> Option<Rejected> {
        let (until_ms, why) = match self.state {
            State::Closed { .. } => return None,
            State::Open { until_ms } => (until_ms, RejectReason::CoolingDown),
            State::HalfOpen { until_ms } => (until_ms, RejectReason::Probing),
        };
        let retry_after = Duration::from_millis(until_ms.saturating_sub(self.now_ms));
        (until_ms > self.now_ms).then_some(Rejected { why, retry_after })
    }

    fn acquire(&mut self) -> Result<(u64, bool), Rejected> {
        if let Some(rejected) = self.refusal() {
            return Err(rejected);
        }
        let is_probe = !matches!(self.state, State::Closed { .. });
        if is_probe {
            self.enter(State::HalfOpen {
                until_ms: self.now_ms + self.config.probe_lease.as_millis() as u64,
            });
        }
        Ok((self.epoch, is_probe))
    }

    fn success(&mut self) -> RecordOutcome {
        match self.state {
            State::Closed { .. } => {
                self.state = State::Closed { failures: 0 };
                RecordOutcome::Counted
            }
            State::Open { .. } | State::HalfOpen { .. } => self.close(),
        }
    }

    fn failure(&mut self) -> RecordOutcome {
        match self.state {
            State::Closed { failures } if failures + 1 < self.config.threshold => {
                self.state = State::Closed { failures: failures + 1 };
                RecordOutcome::Counted
            }
            State::Closed { .. } => RecordOutcome::Tripped { cool_down: self.open() },
            State::HalfOpen { .. } => RecordOutcome::Reopened { cool_down: self.open() },
            State::Open { .. } => RecordOutcome::Stale,
        }
    }

    fn abandon(&mut self) -> RecordOutcome {
        if let State::HalfOpen { .. } = self.state {
            self.enter(State::Open { until_ms: self.now_ms });
        }
        RecordOutcome::Returned
    }

    fn settle(&mut self, epoch: u64, settle: fn(&mut Self) -> RecordOutcome) -> RecordOutcome {
        if epoch == self.epoch { settle(self) } else { RecordOutcome::Stale }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_events_answers_as_the_reference_does(
        steps in proptest::collection::vec(step(), 1..80),
        threshold in 1_u32..4,
    ) {
        let config = BreakerConfig {
            threshold,
            cool_down: Duration::from_millis(30),
            cool_down_max: Duration::from_millis(100),
            probe_lease: Duration::from_millis(40),
        };
        let clock = ManualClock::new();
        let breakers = CircuitBreaker::new(config.clone(), Arc::new(clock.clone())).unwrap();
        let breaker = breakers.handle("s");
        let mut reference =
            Reference { config, state: State::Closed { failures: 0 }, epoch: 0, trips: 0, now_ms: 0 };
        let mut permits: Vec<(Permit, u64)> = Vec::new();
        type Settle = (fn(Permit) -> RecordOutcome, fn(&mut Reference) -> RecordOutcome);
        for step in steps {
            let settled: Option<(usize, Settle)> = match step {
                Step::Acquire => {
                    match (breaker.try_acquire(), reference.acquire()) {
                        (Ok(permit), Ok((epoch, is_probe))) => {
                            prop_assert_eq!(permit.is_probe(), is_probe);
                            permits.push((permit, epoch));
                        }
                        (Err(ours), Err(expected)) => prop_assert_eq!(ours, expected),
                        (ours, expected) => prop_assert!(false, "{ours:?}, expected {expected:?}"),
                    }
                    None
                }
                Step::Succeed(index) => Some((index, (Permit::succeed, Reference::success))),
                Step::Fail(index) => Some((index, (Permit::fail, Reference::failure))),
                Step::Abandon(index) => Some((index, (Permit::abandon, Reference::abandon))),
                Step::RecordSuccess => {
                    prop_assert_eq!(breakers.record_success("s"), reference.success());
                    None
                }
                Step::RecordFailure => {
                    prop_assert_eq!(breakers.record_failure("s"), reference.failure());
                    None
                }
                Step::Reset => {
                    breaker.reset();
                    reference.close();
                    None
                }
                Step::Advance { ticks } => {
                    clock.advance(Duration::from_millis(ticks * 10));
                    reference.now_ms += ticks * 10;
                    None
                }
            };
            if let Some((index, (ours, expected))) = settled
                && index < permits.len()
            {
                let (permit, epoch) = permits.swap_remove(index);
                prop_assert_eq!(ours(permit), reference.settle(epoch, expected));
            }
            prop_assert_eq!(breaker.is_open(), reference.refusal().is_some());
        }
        // Dropping would give the rest back; the model ends here.
        for (permit, _) in permits {
            std::mem::forget(permit);
        }
    }
}
