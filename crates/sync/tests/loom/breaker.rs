//! The breaker: no failure is lost, one thread trips it, one probe at a time, a late result moves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loom::thread;
use proof::{Case, Twin};
use sync::{Breaker, BreakerConfig, CircuitBreaker, Clock, Parker, Permit, RecordOutcome};

use crate::explore;
use crate::naive::breaker as naive;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            seed: "7088",
            name: "3 threads fail, threshold 3: one trips, no increment is lost",
            explore: || explore(no_increment_is_lost::<Ours>),
            twins: &[
                Twin {
                    name: "load, then store",
                    symptom: "lost increment",
                    explore: || explore(no_increment_is_lost::<naive::LoadThenStore>),
                },
                Twin {
                    name: "state in two words",
                    symptom: "tripped twice",
                    explore: || explore(no_increment_is_lost::<naive::TwoWords>),
                },
            ],
        },
        Case {
            seed: "7088",
            name: "fail beside succeed: closed means enabled, open means disabled",
            explore: || explore(success_and_failure_agree::<Ours>),
            twins: &[Twin {
                name: "state in two words",
                symptom: "disabled with a count of 0",
                explore: || explore(success_and_failure_agree::<naive::TwoWords>),
            }],
        },
        Case {
            seed: "breaker",
            name: "3 threads acquire when due: one probe",
            explore: || explore(one_probe_at_a_time::<Ours>),
            twins: &[
                Twin {
                    name: "half-open lets everyone in",
                    symptom: "two probes at once",
                    explore: || explore(one_probe_at_a_time::<naive::EveryoneIn>),
                },
                Twin {
                    name: "loser of the swap let in",
                    symptom: "two probes at once",
                    explore: || explore(one_probe_at_a_time::<naive::LoserIn>),
                },
            ],
        },
        Case {
            seed: "breaker",
            name: "abandon beside acquire: never stuck",
            explore: || explore(abandoning_never_blocks::<Ours>),
            twins: &[],
        },
        Case {
            seed: "breaker",
            name: "lease over beside the old probe: a new probe, the old one stale",
            explore: || explore(a_lost_probe_is_replaced::<Ours>),
            twins: &[Twin {
                name: "no lease",
                symptom: "stuck half-open",
                explore: || explore(a_lost_probe_is_replaced::<naive::NoLease>),
            }],
        },
        Case {
            seed: "breaker",
            name: "old permit beside a probe: the late result moves nothing",
            explore: || explore(a_late_result_moves_nothing::<Ours>),
            twins: &[Twin {
                name: "no generation",
                symptom: "late success credited",
                explore: || explore(a_late_result_moves_nothing::<naive::NoGeneration>),
            }],
        },
        Case {
            seed: "breaker",
            name: "fail and probe beside reset: permits from before it are stale",
            explore: || explore(reset_makes_permits_stale::<Ours>),
            twins: &[Twin {
                name: "blind-store reset",
                symptom: "permit from before the reset",
                explore: || explore(reset_makes_permits_stale::<naive::BlindReset>),
            }],
        },
        Case {
            seed: "7088",
            name: "2 threads ask for a new name: one breaker",
            explore: || explore(one_breaker_per_name::<Ours>),
            twins: &[Twin {
                name: "check, then insert",
                symptom: "two breakers of one name",
                explore: || explore(one_breaker_per_name::<naive::CheckThenInsert>),
            }],
        },
    ]
}

/// The operations of a breaker that counts.
pub(crate) trait Counting: Send + Sync + 'static {
    fn with_threshold(threshold: u32) -> Self;
    /// True for the one call that opened it.
    fn record_failure(&self) -> bool;
    fn record_success(&self);
    fn is_open(&self) -> bool;
    /// Consecutive failures while closed.
    fn failures(&self) -> u32;
}

/// The operations of a breaker that probes. All begin open, with the cool-down over.
pub(crate) trait Probing: Send + Sync + 'static {
    type Permit: Send + 'static;
    /// Open and due, with a permit from the closed state before it tripped.
    fn due() -> (Self, Self::Permit)
    where
        Self: Sized;
    fn acquire(&self) -> Option<Self::Permit>;
    fn succeed(&self, permit: Self::Permit) -> Answer;
    fn fail(&self, permit: Self::Permit) -> Answer;
    fn abandon(&self, permit: Self::Permit);
    fn trip(&self) -> bool;
    fn reset(&self);
    fn is_closed(&self) -> bool;
    /// Lets the probe's lease, and every cool-down, pass.
    fn pass_time(&self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Moved,
    Stale,
}

fn no_increment_is_lost<B: Counting>() {
    let breaker = Arc::new(B::with_threshold(3));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.record_failure())
        })
        .collect();
    let mut trips = u32::from(breaker.record_failure());
    for other in others {
        trips += u32::from(other.join().unwrap());
    }
    assert!(breaker.is_open(), "lost increment: 3 failures, threshold 3, still closed");
    assert!(trips <= 1, "tripped twice: {trips} threads were told to emit the event");
    assert_eq!(trips, 1, "opened, and nobody was told");
}

fn success_and_failure_agree<B: Counting>() {
    let breaker = Arc::new(B::with_threshold(2));
    breaker.record_failure();
    let other = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.record_failure())
    };
    breaker.record_success();
    other.join().unwrap();
    match breaker.is_open() {
        true => assert_ne!(breaker.failures(), 0, "disabled with a count of 0"),
        false => assert!(breaker.failures() < 2, "enabled at the threshold"),
    }
}

fn one_probe_at_a_time<B: Probing>() {
    let (breaker, _old) = B::due();
    let breaker = Arc::new(breaker);
    let others: Vec<_> = (0..2)
        .map(|_| {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.acquire())
        })
        .collect();
    let mut probes: Vec<B::Permit> = breaker.acquire().into_iter().collect();
    for other in others {
        probes.extend(other.join().unwrap());
    }
    assert!(probes.len() < 2, "two probes at once");
    assert_eq!(probes.len(), 1, "nobody may probe");
    std::mem::forget(probes);
}

fn abandoning_never_blocks<B: Probing>() {
    let (breaker, _old) = B::due();
    let breaker = Arc::new(breaker);
    let probe = breaker.acquire().expect("due");
    let other = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.acquire())
    };
    breaker.abandon(probe);
    let taken = other.join().unwrap();
    let next = breaker.acquire();
    assert!(taken.is_some() != next.is_some(), "one of the two holds the probe");
    std::mem::forget((taken, next));
}

fn a_lost_probe_is_replaced<B: Probing>() {
    let (breaker, _old) = B::due();
    let breaker = Arc::new(breaker);
    let lost = breaker.acquire().expect("due");
    breaker.pass_time();
    let other = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.acquire())
    };
    let late = breaker.fail(lost);
    let replaced = other.join().unwrap();
    breaker.pass_time();
    match replaced {
        Some(probe) => {
            assert_eq!(late, Answer::Stale, "the old probe's lease was over");
            assert_eq!(breaker.succeed(probe), Answer::Moved, "the new probe counts");
            assert!(breaker.is_closed());
        }
        None => {
            assert_eq!(late, Answer::Moved, "stuck half-open: no new probe, and the old one does not count");
            let next = breaker.acquire();
            assert!(next.is_some(), "stuck half-open: no probe after the cool-down");
            std::mem::forget(next);
        }
    }
}

fn a_late_result_moves_nothing<B: Probing>() {
    let (breaker, old) = B::due();
    let breaker = Arc::new(breaker);
    // The late one is the spawned one: it only loads, and loom varies what a load sees after the stores of others.
    let other = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.succeed(old))
    };
    let probe = breaker.acquire().expect("due");
    let late = other.join().unwrap();
    assert_eq!(late, Answer::Stale, "late success credited to a newer state");
    assert!(!breaker.is_closed(), "late success credited to a newer state");
    assert_eq!(breaker.fail(probe), Answer::Moved, "the probe decides");
}

fn reset_makes_permits_stale<B: Probing>() {
    let (breaker, _old) = B::due();
    let breaker = Arc::new(breaker);
    breaker.reset();
    let other = {
        let breaker = Arc::clone(&breaker);
        thread::spawn(move || breaker.reset())
    };
    breaker.trip();
    breaker.pass_time();
    let probe = breaker.acquire();
    other.join().unwrap();
    if let Some(probe) = probe {
        if breaker.is_closed() {
            breaker.trip();
            let late = breaker.succeed(probe);
            assert_eq!(late, Answer::Stale, "a permit from before the reset moved the breaker");
        } else {
            std::mem::forget(probe);
        }
    }
}

/// The operations of a registry that the bodies need.
pub(crate) trait Registry: Send + Sync + 'static {
    fn with_threshold_2() -> Self;
    /// Looks the name up, or makes it, and records a failure; true for the one call that opened it.
    fn fail_by_name(&self) -> bool;
}

fn one_breaker_per_name<R: Registry>() {
    let registry = Arc::new(R::with_threshold_2());
    let other = {
        let registry = Arc::clone(&registry);
        thread::spawn(move || registry.fail_by_name())
    };
    let mine = registry.fail_by_name();
    let theirs = other.join().unwrap();
    assert!(mine || theirs, "two breakers of one name: each counted 1");
    assert!(mine != theirs, "one call trips");
}

/// A clock outside the explored world: moving it is no choice of the schedule.
pub(crate) struct OutsideClock(AtomicU64);

impl Clock for OutsideClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn park_until(&self, _: &Parker, _: Option<Duration>) {
        unreachable!("the breaker never sleeps")
    }
}

struct Ours {
    all: CircuitBreaker,
    one: Breaker,
    clock: Arc<OutsideClock>,
}

impl Ours {
    fn new(threshold: u32) -> Self {
        let clock = Arc::new(OutsideClock(AtomicU64::new(0)));
        let config = BreakerConfig { threshold, ..BreakerConfig::default() };
        let all = CircuitBreaker::new(config, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        let one = all.handle("strategy");
        Self { all, one, clock }
    }
}

impl Counting for Ours {
    fn with_threshold(threshold: u32) -> Self {
        Self::new(threshold)
    }

    fn record_failure(&self) -> bool {
        matches!(self.all.record_failure("strategy"), RecordOutcome::Tripped { .. })
    }

    fn record_success(&self) {
        self.all.record_success("strategy");
    }

    fn is_open(&self) -> bool {
        self.all.is_open("strategy")
    }

    fn failures(&self) -> u32 {
        match self.all.snapshot()[0].state {
            sync::BreakerState::Closed { failures } => failures,
            sync::BreakerState::Open { .. } | sync::BreakerState::HalfOpen { .. } => u32::MAX,
        }
    }
}

fn answer(recorded: RecordOutcome) -> Answer {
    if recorded == RecordOutcome::Stale { Answer::Stale } else { Answer::Moved }
}

impl Probing for Ours {
    type Permit = Permit;

    fn due() -> (Self, Permit) {
        let ours = Self::new(1);
        let old = ours.one.try_acquire().unwrap();
        assert!(ours.trip());
        ours.pass_time();
        (ours, old)
    }

    fn acquire(&self) -> Option<Permit> {
        self.one.try_acquire().ok()
    }

    fn succeed(&self, permit: Permit) -> Answer {
        answer(permit.succeed())
    }

    fn fail(&self, permit: Permit) -> Answer {
        answer(permit.fail())
    }

    fn abandon(&self, permit: Permit) {
        permit.abandon();
    }

    fn trip(&self) -> bool {
        self.record_failure()
    }

    fn reset(&self) {
        self.one.reset();
    }

    fn is_closed(&self) -> bool {
        matches!(self.all.snapshot()[0].state, sync::BreakerState::Closed { .. })
    }

    fn pass_time(&self) {
        self.clock.0.fetch_add(1_000_000, Ordering::SeqCst);
    }
}

impl Registry for Ours {
    fn with_threshold_2() -> Self {
        let ours = Self::new(2);
        Self { all: CircuitBreaker::new(two(), Arc::clone(&ours.clock) as Arc<dyn Clock>).unwrap(), ..ours }
    }

    fn fail_by_name(&self) -> bool {
        matches!(self.all.record_failure("new"), RecordOutcome::Tripped { .. })
    }
}

fn two() -> BreakerConfig {
    BreakerConfig { threshold: 2, ..BreakerConfig::default() }
}
