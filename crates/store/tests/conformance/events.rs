//! Events: what happened, told in the step in which it happened, without gaps.

use domain::{
    ApplyEnd, ApplyKind, ChangesetEnding, ErrorCategory, EventKind, EventRecord, Phase, PlanEvent, PlanState,
    RecoveryPolicy, WorkState,
};
use store::JobEnd;

use super::bench::{Bench, constrained, failed, outcome};
use super::sample::{
    BOB, LEASE, an_apply, change, changeset_id, decision, error, new_call, plan_id, sandbox,
};
use super::walk::{by_hand, create, kinds_after, processing, reach, retold, start, start_by};

pub(crate) async fn what_happened_is_told_in_pages(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    let all = bench.events(plan_id(1)).await;
    assert!(all.len() > 6);
    let mut read: Vec<EventRecord> = Vec::new();
    loop {
        let after = read.last().map_or(0, |event| event.n);
        let page = bench.store.events(plan_id(1), after, 3).await.unwrap();
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        read.extend(page);
        assert!(read.len() <= all.len(), "a page was told twice");
    }
    assert_eq!(read, all);
    assert_eq!(bench.store.events(plan_id(1), 0, 0).await, Ok(Vec::new()));
    let last = all.last().unwrap().n;
    for beyond in [last, last + 1, u64::MAX] {
        assert_eq!(bench.store.events(plan_id(1), beyond, 9).await, Ok(Vec::new()));
    }
}

pub(crate) async fn what_happened_is_told_by_kind_and_by_its_last_number(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    reach(&bench, 2, PlanState::Strategize(WorkState::Processing)).await;
    let all = bench.events(plan_id(1)).await;
    for kind in [EventKind::PlanMoved, EventKind::JobMoved, EventKind::PlanCreated] {
        let of_kind: Vec<EventRecord> = all.iter().filter(|event| event.kind == kind).cloned().collect();
        assert!(!of_kind.is_empty() && of_kind.len() < all.len(), "{kind:?}");
        assert_eq!(bench.store.events_of(plan_id(1), kind).await, Ok(of_kind));
    }
    assert_eq!(bench.store.events_of(plan_id(1), EventKind::PlanUndone).await, Ok(Vec::new()));
    assert_eq!(bench.store.events_of(plan_id(9), EventKind::PlanMoved).await, Ok(Vec::new()));
    assert_eq!(bench.store.last_event(plan_id(1)).await, Ok(all.last().unwrap().n));
    assert_eq!(bench.store.last_event(plan_id(9)).await, Ok(0));
}

pub(crate) async fn the_events_of_a_plan_retell_its_state(bench: Bench) {
    create(&bench, 1).await;
    start(&bench, 1).await.release().await.unwrap();
    start(&bench, 1).await.end(failed()).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Retry).await.unwrap();
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Advance).await.unwrap();
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Again).await.unwrap();
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Advance).await.unwrap();
    start(&bench, 1).await.end(constrained()).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Revert).await.unwrap();
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Advance).await.unwrap();
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Advance).await.unwrap();
    let owner = start(&bench, 1).await;
    owner.seal_apply(an_apply(1, 1, ApplyKind::Apply)).await.unwrap();
    assert!(bench.store.end_apply(an_apply(1, 1, ApplyKind::Apply).id, ApplyEnd::Applied).await.unwrap());

    let plan = bench.plan(plan_id(1)).await;
    assert_eq!(retold(&bench, plan.id).await, (plan.state, u64::from(plan.attempt)));
    let events = bench.events(plan.id).await;
    let moves: Vec<&EventRecord> = events.iter().filter(|event| event.kind == EventKind::PlanMoved).collect();
    assert_eq!(moves.len() as u64 + 1, plan.version, "each move is one version and one event");
    let by_hand = moves.iter().filter(|event| event.data["by"] == "person").count();
    assert_eq!(by_hand, 7);
}

pub(crate) async fn each_write_is_told_by_its_kind(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let mut told = bench.events(plan_id(1)).await.len();
    let mut expect = async |what: &str, kinds: &[EventKind]| {
        assert_eq!(kinds_after(&bench, plan_id(1), told).await, kinds, "{what}");
        told += kinds.len();
    };
    owner.sandbox_opened(sandbox(1, 1)).await.unwrap();
    expect("a sandbox", &[EventKind::Sandbox]).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner.start(changeset_id(2)).await.unwrap();
    owner.record(changeset_id(1), &change(1)).await.unwrap();
    expect("a changeset and an entry", &[]).await;
    owner.decide(decision("so")).await.unwrap();
    expect("a decision", &[EventKind::DecisionRecorded]).await;
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    expect("a call", &[EventKind::ToolStarted]).await;
    owner.end_call(outcome(1, changeset_id(1), vec![change(2)])).await.unwrap();
    expect("its end", &[EventKind::ToolFinished]).await;
    owner.record_error(&RecoveryPolicy::default(), &error(1, ErrorCategory::Timeout)).await.unwrap();
    expect("an error", &[EventKind::ErrorRecorded]).await;
    owner.close(changeset_id(1)).await.unwrap();
    expect("a close", &[EventKind::ChangesetClosed]).await;
    bench.pass(LEASE);
    let next = start_by(&bench, 1, BOB).await;
    expect("a takeover", &[EventKind::ChangesetClosed, EventKind::JobMoved]).await;
    next.start(changeset_id(3)).await.unwrap();
    bench.store.cancel(next.claim.job, "enough").await.unwrap();
    expect("a cancel", &[EventKind::CancelRequested]).await;
    next.finish(ChangesetEnding::Interrupted).await.unwrap();
    expect("a finish", &[EventKind::ChangesetClosed]).await;
    next.end(JobEnd::Cancelled).await.unwrap();
    expect("its end", &[EventKind::JobMoved, EventKind::PlanMoved]).await;
}

pub(crate) async fn what_is_asked_for_again_or_refused_is_told_by_nothing(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner.close(changeset_id(1)).await.unwrap();
    owner.record_error(&RecoveryPolicy::default(), &error(1, ErrorCategory::Timeout)).await.unwrap();
    owner.sandbox_opened(sandbox(1, 1)).await.unwrap();
    bench.store.cancel(owner.claim.job, "enough").await.unwrap();
    let before = bench.events(plan_id(1)).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner.close(changeset_id(1)).await.unwrap();
    owner.finish(ChangesetEnding::Interrupted).await.unwrap();
    owner.record_error(&RecoveryPolicy::default(), &error(1, ErrorCategory::Timeout)).await.unwrap();
    owner.sandbox_opened(sandbox(1, 1)).await.unwrap();
    bench.store.cancel(owner.claim.job, "once more").await.unwrap();
    owner.end(JobEnd::Succeeded).await.unwrap_err();
    owner.heartbeat().await.unwrap();
    assert_eq!(bench.events(plan_id(1)).await, before);
    owner.end(JobEnd::Cancelled).await.unwrap();
    let before = bench.events(plan_id(1)).await;
    owner.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(bench.events(plan_id(1)).await, before);
}

pub(crate) async fn events_that_eight_cause_have_no_gaps(bench: Bench) {
    const EACH: usize = 25;
    let owner = processing(&bench, 1, Phase::Execute).await;
    let before = bench.events(plan_id(1)).await.len();
    let seen = bench.on_threads(9, async |thread| {
        if thread == 8 {
            // A reader that follows loses nothing and sees nothing twice.
            let mut seen: Vec<EventRecord> = Vec::new();
            while seen.len() < before + 8 * EACH * 5 {
                let after = seen.last().map_or(0, |event| event.n);
                let page = bench.store.events(plan_id(1), after, 64).await.unwrap();
                assert!(page.iter().zip(after + 1..).all(|(event, n)| event.n == n));
                seen.extend(page);
                tokio::task::yield_now().await;
            }
            return seen;
        }
        for k in 0..EACH {
            let n = (thread * EACH + k + 1) as u64;
            owner.start(changeset_id(n)).await.unwrap();
            let call = owner.begin_call(new_call(1, "execute")).await.unwrap();
            owner.end_call(outcome(call.no.0, changeset_id(n), vec![change(n)])).await.unwrap();
            owner.record_error(&RecoveryPolicy::default(), &error(n, ErrorCategory::Timeout)).await.unwrap();
            owner.decide(decision("so")).await.unwrap();
            owner.close(changeset_id(n)).await.unwrap();
        }
        Vec::new()
    });
    let events = bench.events(plan_id(1)).await;
    assert_eq!(seen[8], events);
    for kind in [
        EventKind::ToolStarted,
        EventKind::ToolFinished,
        EventKind::ErrorRecorded,
        EventKind::ChangesetClosed,
        EventKind::DecisionRecorded,
    ] {
        let count = events[before..].iter().filter(|event| event.kind == kind).count();
        assert_eq!(count, 8 * EACH, "{}", kind.as_str());
    }
    assert_eq!(retold(&bench, plan_id(1)).await.0, PlanState::Execute(WorkState::Processing));
}

/// Reads on from the last of `seen`, at most `page` at a time; each comes once, in order.
async fn read_on(bench: &Bench, seen: &mut Vec<EventRecord>, page: usize) -> usize {
    let after = seen.last().map_or(0, |event| event.n);
    let read = bench.store.events(plan_id(1), after, page).await.unwrap();
    assert!(read.len() <= page && read.iter().zip(after + 1..).all(|(event, n)| event.n == n));
    let count = read.len();
    seen.extend(read);
    tokio::task::yield_now().await;
    count
}

pub(crate) async fn readers_that_are_slow_leave_or_write_miss_nothing_and_harm_nobody(bench: Bench) {
    const EACH: usize = 100;
    let owner = processing(&bench, 1, Phase::Execute).await;
    let whole = bench.events(plan_id(1)).await.len() + 2 * EACH;
    let seen = bench.on_threads(4, async |thread| {
        let mut seen = Vec::new();
        match thread {
            0 => {
                for _ in 0..EACH {
                    owner.decide(decision("so")).await.unwrap();
                }
            }
            // As slow as can be: one at a time.
            1 => {
                while seen.len() < whole {
                    read_on(&bench, &mut seen, 1).await;
                }
            }
            // Gone in the middle.
            2 => {
                while seen.len() < EACH / 2 {
                    read_on(&bench, &mut seen, 7).await;
                }
            }
            // Writes when it is told something, and hears of that too.
            _ => {
                let mut written = 0;
                while seen.len() < whole {
                    let told = read_on(&bench, &mut seen, 64).await;
                    for _ in 0..told.min(EACH - written) {
                        owner.decide(decision("heard")).await.unwrap();
                        written += 1;
                    }
                }
            }
        }
        seen
    });
    let events = bench.events(plan_id(1)).await;
    assert_eq!(events.len(), whole);
    assert_eq!((&seen[1], &seen[3]), (&events, &events));
    assert!(events.starts_with(&seen[2]));
}
