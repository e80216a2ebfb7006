//! Changesets and errors under many threads: nothing is lost, doubled or put elsewhere, every count is exact.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use domain::{
    CallNumber, ChangeEntry, ChangeId, Changeset, ChangesetError, ChangesetState, ClaimRequest,
    ClosedChangeset, Detail, ErrorCategory, GateDecision, LeaseLost, NewChange, RecordedChange,
    RecoveryAction, RecoveryAdvice, RecoveryPolicy, StartedChangeset, changeset_digest,
};
use store::ChangesetStoreError;

use super::bench::{Bench, Owner};
use super::sample::{BOB, LEASE, change, changeset_id, entry, error, error_at, plan_id, request, step};

const THREADS: usize = 8;

/// A number that no other thread and round has.
fn number(thread: usize, n: u64) -> u64 {
    (thread as u64 + 1) << 32 | n
}

fn closed(set: &Changeset) -> ClosedChangeset {
    ClosedChangeset {
        id: set.id,
        entries: u32::try_from(set.entries.len()).unwrap(),
        digest: changeset_digest(&set.entries),
    }
}

/// `seq` runs from 1 in each changeset, `no` from 1 in the plan, and both rise together.
fn assert_numbered_without_gaps(sets: &[Changeset]) {
    let mut numbers = BTreeSet::new();
    for set in sets {
        let mut last = 0;
        for (seq, entry) in (1..).zip(&set.entries) {
            assert_eq!((entry.changeset, entry.seq), (set.id, seq));
            assert!(entry.no > last, "{} after {last} in {}", entry.no, set.id);
            last = entry.no;
            assert!(numbers.insert(entry.no), "{} is there twice", entry.no);
        }
    }
    let highest = numbers.last().copied().unwrap_or_default();
    assert_eq!(highest, numbers.len() as u64, "a number is missing");
}

pub(crate) async fn eight_threads_fill_each_its_own_changeset(bench: Bench) {
    let owner = bench.owner(1).await;
    let ended = bench.on_threads(THREADS, async |thread| {
        let id = changeset_id(number(thread, 0));
        owner.start(id).await.unwrap();
        let mut entries = Vec::new();
        for seq in 1..=100 {
            let change = change(number(thread, seq));
            let recorded = owner.record(id, &change).await.unwrap();
            assert_eq!((recorded.changeset, u64::from(recorded.seq)), (id, seq));
            entries.push(entry(recorded, &change));
        }
        (owner.close(id).await.unwrap(), entries)
    });
    let sets = bench.changesets(plan_id(1)).await;
    assert_eq!(sets.len(), THREADS);
    assert_numbered_without_gaps(&sets);
    for (answer, entries) in ended {
        let set = sets.iter().find(|set| set.id == answer.id).unwrap();
        assert_eq!(set.state, ChangesetState::Closed);
        assert_eq!(set.entries, entries);
        assert_eq!(answer, closed(set));
    }
}

/// Eight plans of eight changesets, so that what is read back at once stays small. Every thread writes into
/// each.
pub(crate) async fn eight_hundred_thousand_entries_lie_in_their_own_of_64_changesets(bench: Bench) {
    const PLANS: u64 = 8;
    const SETS_PER_PLAN: u64 = 8;
    const PER_THREAD: u64 = 100_000;
    let mut owners = Vec::new();
    for n in 0..PLANS {
        let owner = bench.owner(n).await;
        for set in 0..SETS_PER_PLAN {
            owner.start(changeset_id(n * SETS_PER_PLAN + set)).await.unwrap();
        }
        owners.push(owner);
    }
    let template = change(0);
    bench.on_threads(THREADS, async |thread| {
        for n in 0..PER_THREAD {
            let set = (n + 7 * thread as u64) % (PLANS * SETS_PER_PLAN);
            let change = NewChange {
                id: ChangeId::from_u128(number(thread, n).into()),
                call: CallNumber(u32::try_from(set).unwrap()),
                ..template.clone()
            };
            let owner = &owners[usize::try_from(set / SETS_PER_PLAN).unwrap()];
            let recorded = owner.record(changeset_id(set), &change).await.unwrap();
            assert_eq!(recorded.changeset, changeset_id(set));
        }
    });
    let mut ids = BTreeSet::new();
    for n in 0..PLANS {
        let sets = bench.changesets(plan_id(n)).await;
        assert_eq!(sets.len() as u64, SETS_PER_PLAN);
        assert_numbered_without_gaps(&sets);
        for set in &sets {
            for ChangeEntry { id, call, .. } in &set.entries {
                assert_eq!(u128::from(call.0), set.id.as_u128(), "it was meant for another");
                ids.insert(*id);
            }
        }
    }
    assert_eq!(ids.len() as u64, THREADS as u64 * PER_THREAD);
}

pub(crate) async fn an_entry_without_a_name_is_in_the_latest_while_others_start(bench: Bench) {
    const STARTS: u32 = 10_000;
    let owner = bench.owner(1).await;
    owner.start(changeset_id(1)).await.unwrap();
    let started = AtomicU32::new(1);
    let recorded = bench.on_threads(2, async |thread| {
        let mut entries = Vec::new();
        if thread == 0 {
            for n in 2..=STARTS {
                // Seen below to be there; a panic here would leave the other thread waiting.
                let _ = owner.start(changeset_id(n.into())).await;
                started.store(n, Ordering::Release);
            }
            return entries;
        }
        for n in 1.. {
            let before = started.load(Ordering::Acquire);
            let change = change(n);
            let answer = owner.record_latest(&change).await.unwrap();
            // One more may have been started that its thread has not told of yet.
            let after = started.load(Ordering::Acquire) + 1;
            let set = answer.changeset.as_u128();
            let possible = u128::from(before)..=u128::from(after);
            assert!(possible.contains(&set), "in {set}, not in {possible:?}");
            entries.push(entry(answer, &change));
            if before == STARTS {
                break;
            }
        }
        entries
    });
    let sets = bench.changesets(plan_id(1)).await;
    assert_eq!(sets.len(), STARTS as usize);
    assert_numbered_without_gaps(&sets);
    let mut found: Vec<&ChangeEntry> = sets.iter().flat_map(|set| &set.entries).collect();
    found.sort_by_key(|entry| entry.no);
    assert!(found.into_iter().eq(&recorded[1]), "each entry is where it was said to be");
}

/// Returns whether it was recorded; handed back as it was given, if not.
fn was_recorded(
    answer: Result<RecordedChange, ChangesetStoreError>,
    given: &NewChange,
) -> Option<RecordedChange> {
    match answer {
        Ok(recorded) => Some(recorded),
        Err(ChangesetStoreError::Changeset(ChangesetError::ChangesetClosed { entry, .. })) => {
            assert_eq!(*entry, *given);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

pub(crate) async fn what_was_answered_before_the_close_is_what_was_closed(bench: Bench) {
    let owner = bench.owner(1).await;
    for round in 1..=200 {
        let id = changeset_id(round);
        owner.start(id).await.unwrap();
        let answers = bench.on_threads(3, async |thread| {
            if thread == 0 {
                return (Some(owner.close(id).await.unwrap()), vec![]);
            }
            let mut entries = Vec::new();
            for n in 1..=20 {
                let change = change(number(thread, round * 100 + n));
                let answer = owner.record(id, &change).await;
                entries.extend(was_recorded(answer, &change).map(|recorded| entry(recorded, &change)));
            }
            (None, entries)
        });
        let answer = answers[0].0.unwrap();
        let mut told: Vec<ChangeEntry> = answers.into_iter().flat_map(|(_, entries)| entries).collect();
        told.sort_by_key(|entry| entry.seq);
        let sets = bench.changesets(plan_id(1)).await;
        let set = sets.last().unwrap();
        assert_eq!(set.entries, told);
        assert_eq!(answer, closed(set));
    }
    assert_numbered_without_gaps(&bench.changesets(plan_id(1)).await);
}

pub(crate) async fn one_change_recorded_by_eight_is_one_entry(bench: Bench) {
    let owner = bench.owner(1).await;
    owner.start(changeset_id(1)).await.unwrap();
    for n in 1..=200 {
        let answers =
            bench.on_threads(THREADS, |_| async { owner.record(changeset_id(1), &change(n)).await });
        let only = RecordedChange { changeset: changeset_id(1), seq: u32::try_from(n).unwrap(), no: n };
        assert_eq!(answers, vec![Ok(only); THREADS]);
    }
    let sets = bench.changesets(plan_id(1)).await;
    assert_eq!(sets[0].entries.len(), 200);
}

pub(crate) async fn one_changeset_started_by_eight_is_one_changeset(bench: Bench) {
    let owner = bench.owner(1).await;
    for ordinal in 1..=200 {
        let id = changeset_id(ordinal.into());
        let answers = bench.on_threads(THREADS, |_| owner.start(id));
        assert_eq!(answers, vec![Ok(StartedChangeset { id, ordinal }); THREADS]);
    }
    assert_eq!(bench.open_changesets(plan_id(1)).await, 200);
}

/// Records until it is refused; what was recorded, and the refusal.
async fn record_to_the_end(
    owner: &Owner,
    round: u64,
    is_replaced: &AtomicBool,
) -> (Vec<ChangeEntry>, ChangesetStoreError) {
    let mut entries = Vec::new();
    for n in 0.. {
        let change = change(number(0, round << 24 | n));
        let must_fail = is_replaced.load(Ordering::Acquire);
        match owner.record_latest(&change).await {
            Ok(recorded) => entries.push(entry(recorded, &change)),
            Err(refused) => return (entries, refused),
        }
        assert!(!must_fail, "an owner that was replaced has written");
    }
    unreachable!("numbers do not end")
}

pub(crate) async fn a_takeover_beside_a_writing_owner_keeps_what_it_was_told_and_no_more(bench: Bench) {
    for round in 1..=50 {
        let owner = bench.owner(round).await;
        owner.start(changeset_id(round)).await.unwrap();
        bench.pass(LEASE);
        let is_replaced = AtomicBool::new(false);
        let written = bench.on_threads(2, async |thread| {
            if thread == 0 {
                return Some(record_to_the_end(&owner, round, &is_replaced).await);
            }
            let only = Some(plan_id(round));
            let taken = bench.store.claim(&ClaimRequest { only, ..request(BOB) }).await;
            is_replaced.store(true, Ordering::Release);
            let new = bench.as_owner(taken.unwrap().unwrap().claim());
            new.start(changeset_id(round + 1_000)).await.unwrap();
            None
        });
        let (told, refused) = written.into_iter().flatten().next().unwrap();
        let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
        assert_eq!(refused, ChangesetStoreError::Store(lost.into()));
        let sets = bench.changesets(plan_id(round)).await;
        assert_eq!(sets[0].state, ChangesetState::Interrupted);
        assert_eq!(sets[0].entries, told);
        assert_eq!((sets[1].state, sets[1].entries.len()), (ChangesetState::Open, 0));
    }
}

/// Starts, fills and closes changesets, and fails between them.
async fn write_all_kinds(owner: &Owner, thread: usize) {
    for n in 1..=40 {
        let id = changeset_id(number(thread, n));
        owner.start(id).await.unwrap();
        for entry in 1..=5 {
            let change = change(number(thread, n * 10 + entry));
            owner.record(id, &change).await.unwrap();
        }
        let error = error(number(thread, n), ErrorCategory::Timeout);
        owner.record_error(&RecoveryPolicy::default(), &error).await.unwrap();
        owner.close(id).await.unwrap();
    }
}

pub(crate) async fn a_reader_beside_writers_sees_whole_steps_only(bench: Bench) {
    let owner = bench.owner(1).await;
    bench.on_threads(4, async |thread| {
        if thread > 0 {
            return write_all_kinds(&owner, thread).await;
        }
        let mut seen = (0, 0);
        for _ in 0..200 {
            let sets = bench.changesets(plan_id(1)).await;
            assert_numbered_without_gaps(&sets);
            for set in &sets {
                let digest = match set.state {
                    ChangesetState::Open => None,
                    _ => Some(changeset_digest(&set.entries)),
                };
                assert_eq!(set.digest, digest);
            }
            let history = bench.history(plan_id(1)).await;
            let newest = history.records().next_back().map_or(0, |record| record.recovery.seq);
            assert_eq!(history.recorded(), newest);
            let now = (sets.len(), newest);
            assert!(now.0 >= seen.0 && now.1 >= seen.1, "{now:?} after {seen:?}");
            seen = now;
        }
    });
    assert_eq!(bench.changesets(plan_id(1)).await.len(), 120);
    assert_eq!(bench.history(plan_id(1)).await.recorded(), 120);
}

/// The numbers of the retries that were granted, in order.
fn granted(answers: &[RecoveryAdvice]) -> Vec<u32> {
    let mut attempts: Vec<u32> = answers
        .iter()
        .filter_map(|answer| match answer.action {
            RecoveryAction::Retry { attempt, .. } => Some(attempt),
            _ => None,
        })
        .collect();
    attempts.sort_unstable();
    attempts
}

pub(crate) async fn two_first_errors_of_a_plan_are_both_there(bench: Bench) {
    for round in 1..=200 {
        let owner = bench.owner(round).await;
        let answers = bench.on_threads(2, async |thread| {
            let detail = Detail::from([(format!("thread-{thread}"), thread.into())]);
            let error = error(number(thread, round), ErrorCategory::Timeout).with_detail(detail);
            owner.record_error(&RecoveryPolicy::default(), &error).await.unwrap()
        });
        let mut seqs: Vec<u64> = answers.iter().map(|answer| answer.seq).collect();
        seqs.sort_unstable();
        assert_eq!((seqs, granted(&answers)), (vec![1, 2], vec![1, 2]));
        let history = bench.history(plan_id(round)).await;
        assert_eq!((history.recorded(), history.retries_total()), (2, 2));
        let both = Detail::from([("thread-0".to_owned(), 0.into()), ("thread-1".to_owned(), 1.into())]);
        assert_eq!(history.details(), both);
    }
}

pub(crate) async fn no_error_of_80_000_is_lost_and_no_retry_is_granted_twice(bench: Bench) {
    const PER_THREAD: u64 = 10_000;
    const TOTAL: u64 = 8 * PER_THREAD;
    let policy = RecoveryPolicy::new(100, 1_000, GateDecision::Auto, 0).unwrap();
    let owner = bench.owner(1).await;
    let answers = bench.on_threads(THREADS, async |thread| {
        let mut answers = Vec::new();
        for n in 1..=PER_THREAD {
            let error = error(number(thread, n), ErrorCategory::RateLimit);
            answers.push(owner.record_error(&policy, &error).await.unwrap());
        }
        answers
    });
    let answers: Vec<RecoveryAdvice> = answers.into_iter().flatten().collect();
    let seqs: BTreeSet<u64> = answers.iter().map(|answer| answer.seq).collect();
    assert!(seqs.into_iter().eq(1..=TOTAL), "a number is missing or doubled");
    assert_eq!(granted(&answers), (1..=100).collect::<Vec<u32>>());

    let history = bench.history(plan_id(1)).await;
    let kept: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
    assert_eq!(kept, (TOTAL - 99..=TOTAL).collect::<Vec<u64>>());
    let folded: u64 = history.folded().values().map(|folded| folded.count).sum();
    assert_eq!(folded + kept.len() as u64, TOTAL);
    assert_eq!((history.recorded(), history.retries_total()), (TOTAL, 100));
    assert_eq!(history.retries(&step(1, "code")), 100);
}

pub(crate) async fn the_retries_of_a_plan_are_exact_over_all_its_steps(bench: Bench) {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    let policy = RecoveryPolicy::new(100, 250, GateDecision::Auto, 0).unwrap();
    let owner = bench.owner(1).await;
    let answers = bench.on_threads(THREADS, async |thread| {
        let mut answers = Vec::new();
        for n in 0..1_000 {
            let node = NODES[(n as usize + thread) % NODES.len()];
            let error = error_at(number(thread, n), step(1, node), ErrorCategory::Connection);
            answers.push(owner.record_error(&policy, &error).await.unwrap());
        }
        answers
    });
    let answers: Vec<RecoveryAdvice> = answers.into_iter().flatten().collect();
    assert_eq!(granted(&answers).len(), 250);
    let history = bench.history(plan_id(1)).await;
    let by_node: u32 = NODES.iter().map(|node| history.retries(&step(1, node))).sum();
    assert_eq!((by_node, history.retries_total()), (250, 250));
    assert_eq!(history.recorded(), 8_000);
}

pub(crate) async fn one_error_recorded_by_eight_is_counted_once(bench: Bench) {
    let owner = bench.owner(1).await;
    for n in 1..=200 {
        let answers = bench.on_threads(THREADS, |_| async {
            owner.record_error(&RecoveryPolicy::default(), &error(n, ErrorCategory::Timeout)).await.unwrap()
        });
        assert_eq!(answers, vec![answers[0].clone(); THREADS]);
        assert_eq!(answers[0].seq, n);
    }
    let history = bench.history(plan_id(1)).await;
    assert_eq!((history.recorded(), history.retries_total()), (200, 3));
}
