//! Calls and sandboxes: numbered, ended with all that they changed or with nothing.

use domain::{
    CallEnd, CallNumber, CallState, ChangesetEnding, ChangesetError, Claim, EventKind, Fence, LeaseLost,
    Phase, PlanEvent, RecordedChange, SandboxRecord, ToolCall, WallMs,
};
use store::{CallOutcome, ChangesetStoreError, JobEnd, StoreError};

use super::bench::{Bench, Owner, outcome};
use super::sample::{
    ANN, STRANGER, call_end, change, change_between, changeset_id, entry, new_call, plan_id, sandbox,
};
use super::walk::{by_hand, kinds_after, processing, start, start_by};

/// Ann executes plan 1, with a changeset open.
async fn executing(bench: &Bench) -> Owner {
    let owner = processing(bench, 1, Phase::Execute).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner
}

fn refused(error: ChangesetError) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
    Err(ChangesetStoreError::Changeset(error))
}

async fn calls(bench: &Bench) -> Vec<ToolCall> {
    bench.store.calls(plan_id(1)).await.unwrap()
}

pub(crate) async fn calls_are_numbered_from_one_in_each_attempt(bench: Bench) {
    let owner = executing(&bench).await;
    let mut begun = Vec::new();
    for (attempt, no) in [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)] {
        let call = owner.begin_call(new_call(attempt, "execute")).await.unwrap();
        let new = new_call(attempt, "execute");
        assert_eq!(
            call,
            ToolCall { plan: plan_id(1), no: CallNumber(no), started: call.started, new, end: None }
        );
        assert_eq!(call.state(), CallState::Running);
        begun.push(call);
    }
    begun.sort_by_key(|call| (call.new.attempt, call.no));
    assert_eq!(calls(&bench).await, begun);
    assert_eq!(bench.store.calls(STRANGER).await, Ok(Vec::new()));
}

pub(crate) async fn calls_that_eight_begin_have_each_a_number(bench: Bench) {
    let owner = executing(&bench).await;
    let numbers = bench.on_threads(8, async |_| {
        let mut numbers = Vec::new();
        for _ in 0..50 {
            numbers.push(owner.begin_call(new_call(1, "execute")).await.unwrap().no.0);
        }
        numbers
    });
    let mut numbers: Vec<u32> = numbers.into_iter().flatten().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=400).collect::<Vec<_>>());
}

pub(crate) async fn a_call_comes_back_as_it_ended_with_what_it_changed(bench: Bench) {
    let owner = executing(&bench).await;
    let begun = owner.begin_call(new_call(1, "execute")).await.unwrap();
    let kept = bench.store.stage(&mut &b"out"[..]).unwrap();
    let output = domain::StoredOutput { hash: kept.hash, total: 1 << 40, left_out: 7 };
    let end = CallEnd { state: CallState::TimedOut, stdout: Some(output), ..call_end() };
    let changes = vec![change(1), change_between(2, b"caf\xe9", None, change(1).draft.after().copied())];
    let ended = CallOutcome {
        end: end.clone(),
        contents: vec![kept],
        ..outcome(1, changeset_id(1), changes.clone())
    };
    let events = bench.events(plan_id(1)).await.len();
    let recorded = owner.end_call(ended).await.unwrap();
    let at = |seq: u32| RecordedChange { changeset: changeset_id(1), seq, no: seq.into() };
    assert_eq!(recorded, [at(1), at(2)]);
    assert_eq!(calls(&bench).await, [ToolCall { end: Some(end), ..begun }]);
    let entries: Vec<_> = recorded.iter().zip(&changes).map(|(at, change)| entry(*at, change)).collect();
    assert_eq!(bench.changesets(plan_id(1)).await[0].entries, entries);
    assert_eq!(kinds_after(&bench, plan_id(1), events).await, [EventKind::ToolFinished]);
    let told = bench.events(plan_id(1)).await.pop().unwrap().data;
    assert_eq!((told["state"].clone(), told["entries"].clone()), ("timed_out".into(), 2.into()));
}

pub(crate) async fn a_call_that_changed_nothing_needs_no_changeset(bench: Bench) {
    let owner = executing(&bench).await;
    owner.begin_call(new_call(1, "validate/tests")).await.unwrap();
    let ended = CallOutcome { changeset: None, ..outcome(1, changeset_id(1), Vec::new()) };
    assert_eq!(owner.end_call(ended.clone()).await, Ok(Vec::new()));
    assert_eq!(owner.end_call(ended).await, Ok(Vec::new()));
    assert_eq!(calls(&bench).await[0].end, Some(call_end()));
}

pub(crate) async fn a_call_ends_with_all_of_its_changes_or_not_at_all(bench: Bench) {
    let owner = executing(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    owner.record(changeset_id(2), &change(9)).await.unwrap();
    owner.close(changeset_id(2)).await.unwrap();
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    let content = bench.store.stage(&mut &b"small"[..]).unwrap();
    let other = change_between(9, "elsewhere", None, change(9).draft.after().copied());
    let closed = |n| {
        let entry = Box::new(change(n));
        ChangesetError::ChangesetClosed { id: changeset_id(2), entry }
    };
    let before = bench.snapshot().await;
    let cases = [
        // The last one of three has a name that another change has.
        (
            changeset_id(1),
            vec![change(1), change(2), other],
            ChangesetError::InvalidEntry { id: change(9).id },
        ),
        (
            changeset_id(1),
            vec![change(1), change(2), change_between(1, "twice", None, change(1).draft.after().copied())],
            ChangesetError::InvalidEntry { id: change(1).id },
        ),
        (changeset_id(2), vec![change(1), change(2)], closed(1)),
        // The first was recorded there before, the second was not.
        (changeset_id(2), vec![change(9), change(2)], closed(2)),
        (changeset_id(7), vec![change(1)], ChangesetError::UnknownChangeset { id: changeset_id(7) }),
    ];
    for (changeset, changes, why) in cases {
        let ended = CallOutcome { contents: vec![content.clone()], ..outcome(1, changeset, changes) };
        assert_eq!(owner.end_call(ended).await, refused(why.clone()), "{why}");
        assert_eq!(bench.snapshot().await, before, "{why}");
        assert!(bench.store.open_content(&content.hash).is_err(), "{why}");
    }
    let nowhere = CallOutcome { changeset: None, ..outcome(1, changeset_id(1), vec![change(1)]) };
    assert_eq!(owner.end_call(nowhere).await, refused(ChangesetError::NoActiveChangeset));
    assert_eq!(bench.snapshot().await, before);
    // The numbers go on as if nothing had been tried.
    let recorded = owner.end_call(outcome(1, changeset_id(1), vec![change(1)])).await.unwrap();
    assert_eq!(recorded, [RecordedChange { changeset: changeset_id(1), seq: 1, no: 2 }]);
}

pub(crate) async fn an_unknown_call_does_not_end(bench: Bench) {
    let owner = executing(&bench).await;
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    let before = bench.snapshot().await;
    for (attempt, no) in [(1, 2), (1, 0), (2, 1)] {
        let ended = CallOutcome { attempt, ..outcome(no, changeset_id(1), vec![change(1)]) };
        let unknown = ChangesetError::UnknownCall { attempt, no: CallNumber(no) };
        assert_eq!(owner.end_call(ended).await, refused(unknown));
    }
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn a_call_ended_again_is_answered_as_the_first_time(bench: Bench) {
    let owner = executing(&bench).await;
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    let ended = outcome(1, changeset_id(1), vec![change(1), change(2)]);
    let recorded = owner.end_call(ended.clone()).await.unwrap();
    let before = bench.snapshot().await;
    assert_eq!(owner.end_call(ended.clone()).await, Ok(recorded.clone()));
    assert_eq!(bench.snapshot().await, before, "and nothing is told again");
    owner.close(changeset_id(1)).await.unwrap();
    assert_eq!(owner.end_call(ended.clone()).await, Ok(recorded), "also when its changeset is closed");

    owner.start(changeset_id(2)).await.unwrap();
    let before = bench.snapshot().await;
    let otherwise = [
        CallOutcome { end: CallEnd { state: CallState::Failed, ..call_end() }, ..ended.clone() },
        CallOutcome { changes: vec![change(1), change(2), change(3)], ..ended.clone() },
        outcome(1, changeset_id(2), vec![change(3)]),
    ];
    for other in otherwise {
        let stays = ChangesetError::CallEnded { attempt: 1, no: CallNumber(1) };
        assert_eq!(owner.end_call(other).await, refused(stays));
        assert_eq!(bench.snapshot().await, before);
    }
}

pub(crate) async fn a_call_may_end_after_the_gate_was_closed(bench: Bench) {
    let owner = executing(&bench).await;
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    bench.store.cancel(owner.claim.job, "enough").await.unwrap();
    let cancelled = CallOutcome {
        end: CallEnd { state: CallState::Cancelled, ..call_end() },
        ..outcome(1, changeset_id(1), vec![change(1)])
    };
    let recorded = owner.end_call_late(cancelled.clone()).await.unwrap();
    assert_eq!(recorded.len(), 1);
    assert_eq!(owner.end_call_late(cancelled).await, Ok(recorded));
    assert_eq!(calls(&bench).await[0].state(), CallState::Cancelled);
    owner.finish(ChangesetEnding::Interrupted).await.unwrap();
    owner.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(bench.changesets(plan_id(1)).await[0].entries.len(), 1, "what was captured is kept");
}

pub(crate) async fn a_replaced_owner_ends_no_call_and_the_next_may(bench: Bench) {
    let old = executing(&bench).await;
    old.begin_call(new_call(1, "execute")).await.unwrap();
    bench.store.free_leases(ANN).await.unwrap();
    let new = start_by(&bench, 1, super::sample::BOB).await;
    let before = bench.snapshot().await;
    let lost = StoreError::LeaseLost(LeaseLost { job: old.claim.job, fence: Fence(1) });
    let ended = outcome(1, changeset_id(1), vec![change(1)]);
    assert_eq!(old.end_call(ended.clone()).await, Err(lost.clone().into()));
    assert_eq!(old.end_call_late(ended.clone()).await, Err(lost.into()));
    let stale = bench.as_owner(Claim { plan: STRANGER, ..new.claim });
    let lost = StoreError::LeaseLost(LeaseLost { job: new.claim.job, fence: Fence(2) });
    assert_eq!(stale.end_call(ended).await, Err(lost.into()));
    assert_eq!(bench.snapshot().await, before);
    // Its changes went with the old sandbox, and the takeover has ended it.
    let gone = CallEnd { state: CallState::Cancelled, ..call_end() };
    let again = new.end_call(CallOutcome { end: gone, ..outcome(1, changeset_id(1), Vec::new()) }).await;
    assert!(again.is_err(), "{again:?}");
    assert_eq!(new.begin_call(new_call(1, "execute")).await.unwrap().no, CallNumber(2));
}

pub(crate) async fn entries_are_told_by_the_attempt_in_which_their_changeset_began(bench: Bench) {
    let owner = executing(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    for (set, n) in [(1, 1), (2, 2), (1, 3)] {
        owner.record(changeset_id(set), &change(n)).await.unwrap();
    }
    owner.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Again).await.unwrap();
    let owner = start(&bench, 1).await;
    owner.start(changeset_id(3)).await.unwrap();
    owner.record_latest(&change(4)).await.unwrap();

    let entries = async |plan, attempt| -> Vec<u64> {
        let entries = bench.store.entries(plan, attempt).await.unwrap();
        for entry in &entries {
            let sets = bench.changesets(plan).await;
            let set = sets.iter().find(|set| set.id == entry.changeset).unwrap();
            assert_eq!((set.attempt, set.entries.contains(entry)), (attempt, true));
        }
        entries.into_iter().map(|entry| entry.no).collect()
    };
    assert_eq!(entries(plan_id(1), 1).await, [1, 2, 3]);
    assert_eq!(entries(plan_id(1), 2).await, [4]);
    assert_eq!(entries(plan_id(1), 3).await, [] as [u64; 0]);
    assert_eq!(entries(STRANGER, 1).await, [] as [u64; 0]);
    let unmade = bench.owner(7).await;
    unmade.start(changeset_id(7)).await.unwrap();
    unmade.record_latest(&change(7)).await.unwrap();
    assert_eq!(entries(plan_id(7), 1).await, [1], "a plan that was never made is in attempt 1");
}

pub(crate) async fn a_sandbox_is_kept_opened_and_closed(bench: Bench) {
    let owner = executing(&bench).await;
    let kept = async || bench.store.sandboxes(plan_id(1)).await.unwrap();
    owner.sandbox_opened(sandbox(1, 2)).await.unwrap();
    owner.sandbox_opened(sandbox(1, 1)).await.unwrap();
    assert_eq!(kept().await, [sandbox(1, 1), sandbox(1, 2)]);
    let again = SandboxRecord { rung: "copy".to_owned(), passed_over: Vec::new(), ..sandbox(1, 1) };
    owner.sandbox_opened(again.clone()).await.unwrap();
    assert_eq!(kept().await, [again.clone(), sandbox(1, 2)]);

    let events = bench.events(plan_id(1)).await.len();
    let closed = SandboxRecord {
        closed: Some(WallMs(9)),
        not_captured: domain::CaptureOmissions {
            scratch: 1,
            protected: 2,
            special: 3,
            patterns_left_out: true,
            ..domain::CaptureOmissions::default()
        },
        tree: Some(domain::TreeChanges { moved: vec!["a.txt".to_owned()], more: 1, is_whole: true }),
        ..again
    };
    bench.store.sandbox_closed(closed.clone()).await.unwrap();
    assert_eq!(kept().await, [closed.clone(), sandbox(1, 2)]);
    assert_eq!(kinds_after(&bench, plan_id(1), events).await, [EventKind::Sandbox]);
    let before = bench.snapshot().await;
    bench.store.sandbox_closed(closed).await.unwrap();
    bench.store.sandbox_closed(SandboxRecord { closed: Some(WallMs(9)), ..sandbox(1, 9) }).await.unwrap();
    bench.store.sandbox_closed(SandboxRecord { plan: STRANGER, ..sandbox(1, 1) }).await.unwrap();
    assert_eq!(bench.snapshot().await, before, "again, or never opened: nothing is kept");
    let other = owner.sandbox_opened(sandbox(2, 1)).await;
    let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
    assert_eq!(other, Err(lost.into()), "a claim holds for its own plan");
}
