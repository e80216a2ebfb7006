//! A cancel at every moment of a batch.

use std::sync::Arc;

use context::{BatchCancelled, RunOutcome, StrategyBreakerChange, StrategyError};
use sync::{CancelReason, CancellationToken, RecordOutcome};

use crate::support::{
    Events, Gate, Rig, eventually, fails, finds, hangs, line, millis, name, obeys, ok, secs, strategy, task,
};

fn cancelled(reason: CancelReason) -> BatchCancelled {
    BatchCancelled { reason, changes: Vec::new() }
}

#[test]
fn a_batch_that_was_cancelled_before_starts_nothing() {
    let rig = Rig::new();
    let token = CancellationToken::new();
    token.cancel(CancelReason::Shutdown);
    let stop = rig.stop(&token, None);
    assert_eq!(rig.run_until(&[fails("a")], stop.clone()), Err(cancelled(CancelReason::Shutdown)));
    assert_eq!(rig.run_until(&[], stop), Err(cancelled(CancelReason::Shutdown)));
    assert_eq!(rig.breakers.snapshot(), [], "no breaker was asked");
    assert_eq!(rig.executor.pool().live, 0, "no thread was started");
}

#[test]
fn a_cancel_while_running_counts_nothing_and_does_not_wait() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let token = CancellationToken::new();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.stop(&token, None));
    heard.expect("began");
    rig.clock.advance(millis(1999));
    token.cancel(CancelReason::User);
    assert_eq!(pending.result(), Err(cancelled(CancelReason::User)));
    assert_eq!(rig.failures("slow"), Some(0), "cancelled work is neither a success nor a failure");
    assert_eq!(rig.executor.pool().abandoned, 1, "its thread is not waited for");
    gate.open();
    eventually("it has returned", || rig.executor.pool().abandoned == 0);
    assert_eq!(rig.failures("slow"), Some(0), "nor is its late result");
}

#[test]
fn a_cancel_while_queued_takes_the_rest_out_of_the_queue() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let blocking = rig.begin(&[hangs("blocker", &began, &gate)], rig.never());
    heard.expect("began");
    let token = CancellationToken::new();
    let waiting = rig.begin(&[fails("a"), fails("b")], rig.stop(&token, None));
    eventually("they are queued", || rig.executor.pool().queued == 2);
    token.cancel(CancelReason::User);
    assert_eq!(waiting.result(), Err(cancelled(CancelReason::User)));
    assert_eq!(rig.executor.pool().queued, 0);
    gate.open();
    assert_eq!(blocking.result(), Ok(vec![ok("blocker", &[7])]), "the other call is unharmed");
    assert_eq!((rig.view("a"), rig.view("b")), (None, None), "neither was begun");
}

#[test]
fn a_cancel_just_before_a_start_lets_nothing_begin() {
    let rig = Rig::with_workers(1);
    let token = CancellationToken::new();
    let (began, heard) = Events::new();
    let cancelling = {
        let token = token.clone();
        strategy("first", move |_, _| {
            token.cancel(CancelReason::User);
            Ok(vec![1])
        })
    };
    let second = {
        let began = began.clone();
        strategy("second", move |_, _| {
            began.say("began");
            Ok(vec![1])
        })
    };
    let runs = rig.run_until(&[cancelling, second], rig.stop(&token, None));
    assert_eq!(runs, Err(cancelled(CancelReason::User)));
    eventually("the thread is back", || rig.executor.pool().running == 0);
    assert_eq!(heard.count(), 0);
    assert_eq!(rig.view("second"), None, "its breaker was never asked");
}

#[test]
fn one_that_obeys_a_cancel_at_once_counts_nothing() {
    let rig = Rig::new();
    // The machine decides whether its answer or the collector comes first, so this runs often.
    for _ in 0..200 {
        let token = CancellationToken::new();
        let obedient = {
            let token = token.clone();
            strategy("obedient", move |_, stop| {
                token.cancel(CancelReason::User);
                stop.check()?;
                Ok(vec![])
            })
        };
        let runs = rig.run_until(&[obedient], rig.stop(&token, None));
        assert_eq!(runs, Err(cancelled(CancelReason::User)));
        eventually("it has returned", || rig.executor.pool().abandoned == 0);
    }
    assert_eq!(rig.failures("obedient"), Some(0));
}

#[test]
fn a_cancelled_strategy_is_told_why() {
    let rig = Rig::new();
    let (said, heard) = Events::new();
    let token = CancellationToken::new();
    let listening = {
        let said = said.clone();
        strategy("listening", move |_, stop| {
            said.say("began");
            stop.observed().wait(None);
            said.say(match stop.observed().reason() {
                Some(CancelReason::User) => "user",
                _ => "other",
            });
            stop.check()?;
            Ok(vec![])
        })
    };
    let pending = rig.begin(&[listening], rig.stop(&token, None));
    heard.expect("began");
    token.cancel(CancelReason::User);
    assert_eq!(pending.result(), Err(cancelled(CancelReason::User)));
    heard.expect("user");
}

#[test]
fn one_that_misses_its_deadline_is_told_that_its_time_is_over() {
    let rig = Rig::new();
    let (said, heard) = Events::new();
    let listening = {
        let said = said.clone();
        strategy("listening", move |_, stop| {
            said.say("began");
            stop.observed().wait(None);
            said.say(match stop.observed().reason() {
                Some(CancelReason::Timeout) => "timeout",
                _ => "other",
            });
            Err(StrategyError::failed("too late"))
        })
    };
    let pending = rig.begin(&[listening, finds("other", &[1])], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    pending.result().expect("a deadline is no error");
    heard.expect("timeout");
}

#[test]
fn one_strategys_stop_is_not_anothers() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let free = {
        let (began, gate) = (began.clone(), gate.clone());
        strategy("free", move |_, stop| {
            began.say("began");
            gate.pass();
            Ok(vec![stop.observed().is_cancelled().into()])
        })
    };
    let first = rig.begin(&[obeys("late", &began)], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(1));
    let second = rig.begin(&[free], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(1));
    first.result().expect("a deadline is no error");
    gate.open();
    let runs = second.result().expect("nobody cancels");
    assert_eq!(runs[0].candidates, [0], "it was not told to stop");
}

#[test]
fn a_cancelled_probe_is_given_back_for_the_next_one() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.breakers.record_failure("healing");
    }
    rig.clock.advance(secs(30));
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let token = CancellationToken::new();
    let probing = rig.begin(&[hangs("healing", &began, &gate)], rig.stop(&token, None));
    heard.expect("began");
    token.cancel(CancelReason::User);
    assert_eq!(probing.result(), Err(cancelled(CancelReason::User)));
    let closed = line("healing", RunOutcome::Ok, &[1], secs(0), Some(RecordOutcome::Closed));
    assert_eq!(rig.run(&[finds("healing", &[1])]), [closed]);
    gate.open();
}

#[test]
fn a_breaker_that_opened_before_the_cancel_is_told_of() {
    let rig = Rig::with_workers(1);
    rig.breakers.record_failure("broken");
    rig.breakers.record_failure("broken");
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let token = CancellationToken::new();
    let pending = rig.begin(&[fails("broken"), hangs("slow", &began, &gate)], rig.stop(&token, None));
    heard.expect("began");
    token.cancel(CancelReason::User);
    let recorded = RecordOutcome::Tripped { cool_down: secs(30) };
    let changes = vec![StrategyBreakerChange { name: name("broken"), recorded }];
    assert_eq!(pending.result(), Err(BatchCancelled { reason: CancelReason::User, changes }));
    gate.open();
}

#[test]
fn a_cancel_of_one_call_leaves_the_others_alone() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let token = CancellationToken::new();
    let shared = hangs("shared", &began, &gate);
    let kept = rig.begin(&[Arc::clone(&shared)], rig.never());
    let dropped = rig.begin(&[shared], rig.stop(&token, None));
    heard.expect("began");
    heard.expect("began");
    token.cancel(CancelReason::User);
    assert_eq!(dropped.result(), Err(cancelled(CancelReason::User)));
    gate.open();
    assert_eq!(kept.result(), Ok(vec![ok("shared", &[7])]));
}

#[test]
fn a_cancel_says_its_reason() {
    let error = cancelled(CancelReason::User);
    assert_eq!(error.to_string(), "strategies cancelled: asked for by the user");
}

#[test]
fn a_pool_is_whole_after_every_thread_was_cancelled() {
    let rig = Rig::with_workers(2);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let token = CancellationToken::new();
    let stuck = [hangs("a", &began, &gate), hangs("b", &began, &gate)];
    let pending = rig.begin(&stuck, rig.stop(&token, None));
    heard.expect("began");
    heard.expect("began");
    token.cancel(CancelReason::User);
    assert_eq!(pending.result(), Err(cancelled(CancelReason::User)));
    let tasks = vec![task(&finds("c", &[1])), task(&finds("d", &[2]))];
    assert_eq!(rig.begin_tasks(tasks, rig.never()).result(), Ok(vec![ok("c", &[1]), ok("d", &[2])]));
    gate.open();
}
