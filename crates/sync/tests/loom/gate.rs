//! The gate: after close nothing begins, after drained nothing is inside, and what was done is visible.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use proof::{Case, Twin};
use sync::{CancelReason, Effect, EffectGate};

use crate::explore;
use crate::naive::gate as naive;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            seed: "gate",
            name: "2 threads enter and leave beside close and drained: none inside afterwards",
            explore: || explore(nothing_is_inside_after_the_drain::<EffectGate>),
            twins: &[Twin {
                name: "test, then count",
                symptom: "effect after the drain",
                explore: || explore(nothing_is_inside_after_the_drain::<naive::TestThenCount>),
            }],
        },
        Case {
            seed: "gate",
            name: "2 closers: one finisher",
            explore: || explore(one_closer_finishes),
            twins: &[],
        },
    ]
}

/// The operations of a gate that the body needs.
pub(crate) trait Gate: Clone + Send + Sync + 'static {
    type Inside;
    fn new() -> Self;
    fn enter(&self) -> Option<Self::Inside>;
    fn close(&self);
    fn drained(&self);
}

impl Gate for EffectGate {
    type Inside = Effect;

    fn new() -> Self {
        EffectGate::new()
    }

    fn enter(&self) -> Option<Effect> {
        EffectGate::enter(self).ok()
    }

    fn close(&self) {
        EffectGate::close(self, CancelReason::User);
    }

    fn drained(&self) {
        self.drained_within(None).unwrap();
    }
}

fn nothing_is_inside_after_the_drain<G: Gate>() {
    let gate = G::new();
    let done = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (gate, done) = (gate.clone(), Arc::clone(&done));
            thread::spawn(move || {
                if let Some(effect) = gate.enter() {
                    // Relaxed, so that only the gate can make it visible to the closer.
                    done.fetch_add(1, Ordering::Relaxed);
                    drop(effect);
                }
            })
        })
        .collect();
    gate.close();
    gate.drained();
    let seen = done.load(Ordering::Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), seen, "effect after the drain");
}

fn one_closer_finishes() {
    let gate = EffectGate::new();
    let other = {
        let gate = gate.clone();
        thread::spawn(move || gate.close(CancelReason::Timeout).is_some())
    };
    let mine = gate.close(CancelReason::User).is_some();
    assert_ne!(mine, other.join().unwrap(), "one finisher");
    let reason = if mine { CancelReason::User } else { CancelReason::Timeout };
    assert_eq!(gate.closed(), Some(reason), "the first reason stays");
}
