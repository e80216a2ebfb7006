//! The gate on real threads, from async code, and at its edges.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sync::{CancelReason, Cancelled, EffectGate, StillIn};

use crate::on_threads;

#[test]
fn nothing_is_inside_after_the_drain_however_many_threads_enter() {
    for _ in 0..200 {
        let gate = EffectGate::new();
        let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let seen = on_threads(4, |index| {
            if index == 0 {
                let finisher = gate.close(CancelReason::User);
                gate.drained_within(None).unwrap();
                drop(finisher);
                return Some((begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed)));
            }
            while let Ok(effect) = gate.enter() {
                begun.fetch_add(1, Ordering::Relaxed);
                ended.fetch_add(1, Ordering::Relaxed);
                drop(effect);
            }
            None
        });
        let (begun_then, ended_then) = seen[0].unwrap();
        assert_eq!(begun_then, ended_then, "none was inside");
        assert_eq!(begun.load(Ordering::Relaxed), begun_then, "none began afterwards");
    }
}

#[test]
fn a_closed_gate_answers_with_the_first_reason() {
    let gate = EffectGate::new();
    assert_eq!(gate.closed(), None);
    assert!(gate.close(CancelReason::Timeout).is_some());
    assert!(gate.close(CancelReason::User).is_none());
    assert_eq!(gate.enter().unwrap_err(), Cancelled { reason: CancelReason::Timeout });
    assert_eq!(gate.closed(), Some(CancelReason::Timeout));
}

#[test]
fn a_drain_that_runs_out_of_time_says_how_many_are_inside() {
    let gate = EffectGate::new();
    let effects = (gate.enter().unwrap(), gate.enter().unwrap());
    gate.close(CancelReason::User);
    let still_in = gate.drained_within(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(still_in, StillIn(2));
    assert_eq!(still_in.to_string(), "2 effects have not ended");
    drop(effects);
    assert_eq!(gate.drained_within(Some(Duration::ZERO)), Ok(()));
}

#[test]
fn an_open_gate_is_not_drained_even_when_empty() {
    let gate = EffectGate::new();
    assert_eq!(gate.drained_within(Some(Duration::ZERO)), Err(StillIn(0)));
    drop(gate.enter().unwrap());
    assert_eq!(gate.drained_within(Some(Duration::ZERO)), Err(StillIn(0)));
}

#[tokio::test]
async fn a_task_waits_for_the_drain() {
    let gate = EffectGate::new();
    let effect = gate.enter().unwrap();
    let waiter = tokio::spawn(gate.drained());
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    let finisher = gate.clone().close(CancelReason::Shutdown).unwrap();
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished(), "one is still inside");
    drop(effect);
    waiter.await.unwrap();
    assert_eq!(gate.inside(), 0);
    assert!(format!("{:?}", finisher.effect()).contains("Effect"));
}

#[test]
fn the_finishers_effect_is_not_counted() {
    let gate = EffectGate::new();
    let finisher = gate.close(CancelReason::User).unwrap();
    assert_eq!(gate.drained_within(Some(Duration::ZERO)), Ok(()));
    drop(finisher);
    assert_eq!(gate.inside(), 0);
    assert_eq!(format!("{gate:?}"), "EffectGate { closed: Some(User), inside: 0, .. }");
    assert_eq!(format!("{:?}", gate.drained()), "Drained { .. }");
}
