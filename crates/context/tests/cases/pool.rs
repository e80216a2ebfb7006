//! The number of threads, and the fate of abandoned ones.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, ThreadId};

use context::PoolView;
use sync::RecordOutcome;

use crate::support::{
    AnyStrategy, Events, Gate, Rig, eventually, finds, hangs, hung, millis, obeys, ok, secs, strategy,
    timed_out,
};

#[test]
fn never_more_than_max_workers_run_at_once_over_all_calls() {
    let rig = Rig::new();
    let inside = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    // Four must meet inside, four times over: fewer than four at once would never get through.
    let meeting = Arc::new(Barrier::new(4));
    let counting: Arc<AnyStrategy> = {
        let (inside, most, threads) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&threads));
        strategy("counting", move |_, _| {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            threads.lock().expect("no panic here").insert(thread::current().id());
            meeting.wait();
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok(vec![1])
        })
    };
    let calls: Vec<_> = (0..8).map(|_| rig.begin(&vec![Arc::clone(&counting); 8], rig.never())).collect();
    for call in calls {
        assert_eq!(call.result(), Ok(vec![ok("counting", &[1]); 8]));
    }
    assert_eq!(most.load(Ordering::SeqCst), 4, "four at once, never five");
    assert_eq!(threads.lock().expect("no panic here").len(), 4, "by the same four threads");
}

#[test]
fn threads_start_only_when_needed() {
    let rig = Rig::new();
    assert_eq!(rig.executor.pool(), PoolView { live: 0, running: 0, abandoned: 0, queued: 0 });
    for _ in 0..10 {
        rig.run(&[finds("one", &[1])]);
        eventually("the thread is back", || rig.executor.pool().running == 0);
    }
    assert_eq!(rig.executor.pool().live, 1, "one at a time needs one thread");
}

#[test]
fn an_abandoned_thread_is_replaced_and_ends_when_its_strategy_returns() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate), finds("next", &[1])], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    assert_eq!(
        pending.result(),
        Ok(vec![timed_out("slow", secs(2), RecordOutcome::Counted), ok("next", &[1])]),
        "the queue goes on in another thread"
    );
    eventually("the next one is back", || rig.executor.pool().running == 0);
    assert_eq!(rig.executor.pool(), PoolView { live: 1, running: 0, abandoned: 1, queued: 0 });
    gate.open();
    eventually("the abandoned one has ended", || rig.executor.pool().abandoned == 0);
    assert_eq!(rig.executor.pool(), PoolView { live: 1, running: 0, abandoned: 0, queued: 0 });
}

#[test]
fn a_pool_whose_every_thread_hangs_is_whole_again_at_the_deadline() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let stuck: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| hangs(name, &began, &gate)).collect();
    let pending = rig.begin(&stuck, rig.never());
    for _ in 0..4 {
        heard.expect("began");
    }
    rig.clock.advance(secs(2));
    pending.result().expect("nobody cancels");
    assert_eq!(rig.executor.pool().abandoned, 4);

    let meeting = Arc::new(Barrier::new(4));
    let four: Vec<_> = ["e", "f", "g", "h"]
        .iter()
        .map(|name| {
            let meeting = Arc::clone(&meeting);
            strategy(name, move |_, _| {
                meeting.wait();
                Ok(vec![1])
            })
        })
        .collect();
    assert_eq!(rig.run(&four), ["e", "f", "g", "h"].map(|name| ok(name, &[1])), "four at once again");
    gate.open();
}

#[test]
fn one_with_four_abandoned_threads_is_hung_until_one_returns() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gates: [Gate; 4] = Default::default();
    for gate in &gates {
        // Hurried, so that no breaker opens: only the threads count.
        let pending = rig.begin(&[hangs("stuck", &began, gate)], rig.within(millis(1)));
        heard.expect("began");
        rig.clock.advance(millis(1));
        assert_eq!(pending.result(), Ok(vec![timed_out("stuck", millis(1), RecordOutcome::Returned)]));
    }
    let again = finds("stuck", &[1]);
    let other = finds("other", &[2]);
    assert_eq!(rig.run(&[Arc::clone(&again), other]), [hung("stuck"), ok("other", &[2])]);
    assert_eq!(rig.failures("stuck"), Some(0), "it was not begun, so nothing was counted");
    gates[0].open();
    eventually("one has returned", || rig.executor.pool().abandoned == 3);
    assert_eq!(rig.run(&[again]), [ok("stuck", &[1])]);
    for gate in &gates {
        gate.open();
    }
}

#[test]
fn a_hundred_probes_of_one_that_hangs_for_ever_leak_four_threads() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let stuck = hangs("stuck", &began, &gate);
    for _ in 0..3 {
        rig.breakers.record_failure("stuck");
    }
    let mut trips = 1;
    for probe in 0..100 {
        rig.clock.advance(secs(5 * 60));
        let pending = rig.begin(&[Arc::clone(&stuck)], rig.never());
        if probe < 4 {
            heard.expect("began");
            rig.clock.advance(secs(2));
            let cool_down = (secs(30) * (1 << trips)).min(secs(5 * 60));
            let reopened = RecordOutcome::Reopened { cool_down };
            trips += 1;
            assert_eq!(pending.result(), Ok(vec![timed_out("stuck", secs(2), reopened)]));
        } else {
            assert_eq!(pending.result(), Ok(vec![hung("stuck")]));
        }
    }
    assert_eq!(heard.count(), 0, "nothing else began");
    assert_eq!(rig.executor.pool().abandoned, 4);
    gate.open();
}

#[test]
fn one_that_obeys_leaves_no_thread_behind() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    for _ in 0..10 {
        let pending = rig.begin(&[obeys("polite", &began)], rig.within(millis(5)));
        heard.expect("began");
        rig.clock.advance(millis(5));
        assert_eq!(pending.result(), Ok(vec![timed_out("polite", millis(5), RecordOutcome::Returned)]));
        eventually("it has returned", || rig.executor.pool().abandoned == 0);
    }
}

#[test]
fn dropping_the_executor_waits_for_nobody_and_lets_the_rest_go() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let stuck = hangs("stuck", &began, &gate);
    let held = Arc::downgrade(&stuck);
    let pending = rig.begin(&[Arc::clone(&stuck)], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    pending.result().expect("nobody cancels");
    drop(stuck);
    eventually("the background thread let go", || Arc::strong_count(&rig.executor) == 1);
    drop(rig);
    assert!(held.upgrade().is_some(), "the hung strategy is still held by its thread");
    gate.open();
    eventually("its thread let go of it", || held.upgrade().is_none());
}

#[test]
fn dropping_the_executor_ends_its_idle_threads() {
    struct Farewell(Events);
    impl Drop for Farewell {
        fn drop(&mut self) {
            self.0.say("ended");
        }
    }
    thread_local! {
        static AT_THREAD_END: RefCell<Option<Farewell>> = const { RefCell::new(None) };
    }

    let rig = Rig::with_workers(1);
    let (said, heard) = Events::new();
    let leaving = strategy("leaving", move |_, _| {
        AT_THREAD_END.set(Some(Farewell(said.clone())));
        Ok(vec![1])
    });
    assert_eq!(rig.run(&[leaving]), [ok("leaving", &[1])]);
    drop(rig);
    heard.expect("ended");
}
