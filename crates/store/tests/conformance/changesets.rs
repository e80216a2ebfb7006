//! Changesets: an entry is in one place, under one number, and what is closed stays as it is.

use std::collections::BTreeSet;

use domain::{
    Base, CallNumber, ChangeDraft, ChangeEntry, ChangeId, ChangeOp, Changeset, ChangesetEnding,
    ChangesetError, ChangesetState, ClosedChangeset, FileState, Hash, Kind, NewChange, Phase, PlanEvent,
    PlanState, RecordedChange, RootIndex, StartedChangeset, WorkState, changeset_digest, pair_renames,
};
use store::{ChangesetStoreError, JobEnd};

use super::bench::{Bench, Owner};
use super::sample::{STRANGER, change, change_between, changeset_id, entry, path, plan_id};
use super::walk::{by_hand, processing};

fn open(n: u64, ordinal: u32, entries: Vec<ChangeEntry>) -> Changeset {
    Changeset { id: changeset_id(n), ordinal, attempt: 1, state: ChangesetState::Open, entries, digest: None }
}

/// The same, after it was closed or interrupted.
fn ended(state: ChangesetState, set: Changeset) -> Changeset {
    let digest = Some(changeset_digest(&set.entries));
    Changeset { state, digest, ..set }
}

fn closed_answer(set: &Changeset) -> ClosedChangeset {
    ClosedChangeset {
        id: set.id,
        entries: u32::try_from(set.entries.len()).unwrap(),
        digest: changeset_digest(&set.entries),
    }
}

fn handed_back(n: u64, change: &NewChange) -> ChangesetStoreError {
    ChangesetStoreError::Changeset(ChangesetError::ChangesetClosed {
        id: changeset_id(n),
        entry: Box::new(change.clone()),
    })
}

/// An owner of plan 1 with changeset 1 open.
async fn started(bench: &Bench) -> Owner {
    let owner = bench.owner(1).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner
}

pub(crate) async fn a_started_changeset_is_visible_open_and_empty(bench: Bench) {
    let owner = bench.owner(1).await;
    assert_eq!(bench.changesets(plan_id(1)).await, []);
    for (n, ordinal) in [(7, 1), (3, 2)] {
        let id = changeset_id(n);
        assert_eq!(owner.start(id).await, Ok(StartedChangeset { id, ordinal }));
    }
    assert_eq!(bench.changesets(plan_id(1)).await, [open(7, 1, vec![]), open(3, 2, vec![])]);
}

pub(crate) async fn a_plan_that_nobody_knows_has_no_changesets(bench: Bench) {
    assert_eq!(bench.changesets(STRANGER).await, []);
}

pub(crate) async fn an_id_started_again_is_the_same_changeset(bench: Bench) {
    let owner = started(&bench).await;
    let id = changeset_id(1);
    owner.start(changeset_id(2)).await.unwrap();
    owner.record(id, &change(1)).await.unwrap();
    let before = bench.snapshot().await;
    assert_eq!(owner.start(id).await, Ok(StartedChangeset { id, ordinal: 1 }));
    assert_eq!(bench.snapshot().await, before);

    owner.close(id).await.unwrap();
    let closed = bench.snapshot().await;
    assert_eq!(owner.start(id).await, Ok(StartedChangeset { id, ordinal: 1 }));
    assert_eq!(bench.snapshot().await, closed, "starting does not open it again");
}

pub(crate) async fn entries_are_numbered_without_gaps_in_their_changeset_and_in_the_plan(bench: Bench) {
    let owner = started(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    let mut sets = [open(1, 1, vec![]), open(2, 2, vec![])];
    for (no, place) in [(1, 0), (2, 1), (3, 1), (4, 0), (5, 1)] {
        let set = &mut sets[place];
        let seq = u32::try_from(set.entries.len()).unwrap() + 1;
        let recorded = RecordedChange { changeset: set.id, seq, no };
        assert_eq!(owner.record(set.id, &change(no)).await, Ok(recorded));
        set.entries.push(entry(recorded, &change(no)));
    }
    assert_eq!(bench.changesets(plan_id(1)).await, sets);
}

pub(crate) async fn a_refused_entry_takes_no_number(bench: Bench) {
    let owner = started(&bench).await;
    let id = changeset_id(1);
    owner.start(changeset_id(2)).await.unwrap();
    owner.close(changeset_id(2)).await.unwrap();
    owner.record(id, &change(1)).await.unwrap();
    let other = NewChange { call: CallNumber(9), ..change(1) };
    owner.record(id, &other).await.unwrap_err();
    owner.record(changeset_id(2), &change(2)).await.unwrap_err();
    owner.record(changeset_id(9), &change(2)).await.unwrap_err();
    let next = RecordedChange { changeset: id, seq: 2, no: 2 };
    assert_eq!(owner.record(id, &change(2)).await, Ok(next));
}

pub(crate) async fn each_plan_counts_for_itself(bench: Bench) {
    for n in [1, 2] {
        let owner = bench.owner(n).await;
        let id = changeset_id(n);
        assert_eq!(owner.start(id).await, Ok(StartedChangeset { id, ordinal: 1 }));
        let first = RecordedChange { changeset: id, seq: 1, no: 1 };
        assert_eq!(owner.record(id, &change(n)).await, Ok(first));
        let expected = open(n, 1, vec![entry(first, &change(n))]);
        assert_eq!(bench.changesets(plan_id(n)).await, [expected]);
    }
}

/// One change of each operation, kind and odd path.
fn changes_of_all_kinds() -> Vec<NewChange> {
    let text = FileState::file(b"text\n", 0o644);
    let binary = FileState { size: 1 << 40, ..FileState::file(b"\0", 0o4755) };
    let link = FileState::symlink(b"../target");
    let dir = FileState::dir(0o2755);
    let moved = pair_renames(vec![
        ChangeDraft::between(path("old"), Some(text), None).unwrap(),
        ChangeDraft::between(path("new"), None, Some(text)).unwrap(),
    ]);
    let [rename] = moved.try_into().unwrap();
    let executable = FileState { mode: 0o755, ..text };
    let mut changes = vec![
        change_between(1, "create", None, Some(text)),
        change_between(2, "dir/modify", Some(text), Some(binary)),
        change_between(3, "kind", Some(text), Some(link)),
        change_between(4, "delete", Some(dir), None),
        change_between(5, "mode", Some(text), Some(executable)),
        change_between(6, b"caf\xe9 \n'%\\", None, Some(dir)),
        change_between(7, "d/".repeat(2047) + "xy", Some(link), Some(binary)),
        NewChange { draft: rename, ..change(8) },
    ];
    changes.push(NewChange {
        id: ChangeId::from_u128(u128::MAX),
        call: CallNumber(u32::MAX),
        root: RootIndex(u16::MAX),
        base: Base::Moved,
        ..change(9)
    });
    changes
}

pub(crate) async fn an_entry_comes_back_as_it_was_recorded(bench: Bench) {
    let owner = started(&bench).await;
    let mut entries = Vec::new();
    for change in changes_of_all_kinds() {
        let recorded = owner.record(changeset_id(1), &change).await.unwrap();
        entries.push(entry(recorded, &change));
    }
    let ops: Vec<&ChangeOp> = entries.iter().map(|entry| &entry.op).collect();
    let from = path("old");
    assert_eq!(
        ops[..5],
        [&ChangeOp::Create, &ChangeOp::Modify, &ChangeOp::Modify, &ChangeOp::Delete, &ChangeOp::Mode]
    );
    assert_eq!(ops[7], &ChangeOp::Rename { from });
    assert_eq!(entries[6].path.as_bytes().len(), 4096);
    assert_eq!(bench.changesets(plan_id(1)).await, [open(1, 1, entries)]);
}

pub(crate) async fn a_change_recorded_again_is_answered_as_the_first_time(bench: Bench) {
    let owner = started(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    let mut first = Vec::new();
    for change in changes_of_all_kinds() {
        first.push(owner.record(changeset_id(1), &change).await);
    }
    let mut before = bench.snapshot().await;
    for close in [None, Some(1), Some(2)] {
        if let Some(n) = close {
            owner.close(changeset_id(n)).await.unwrap();
            before = bench.snapshot().await;
        }
        for (change, first) in changes_of_all_kinds().iter().zip(&first) {
            assert_eq!(&owner.record(changeset_id(1), change).await, first);
            assert_eq!(&owner.record(changeset_id(2), change).await, first);
            assert_eq!(&owner.record_latest(change).await, first);
        }
        assert_eq!(bench.snapshot().await, before);
    }
}

/// Change 1 with one thing different, but not its id.
fn others_of_change_1() -> Vec<NewChange> {
    let differently = |at: &str, before, after| change_between(1, at, before, after);
    let base = FileState::file(b"content", 0o644);
    vec![
        NewChange { call: CallNumber(2), ..change(1) },
        NewChange { root: RootIndex(1), ..change(1) },
        NewChange { base: Base::Moved, ..change(1) },
        differently("file2", None, Some(base)),
        differently("file", Some(base), None),
        differently("file", Some(FileState::dir(0o755)), Some(base)),
        differently("file", None, Some(FileState { mode: 0o600, ..base })),
        differently("file", None, Some(FileState { size: 8, ..base })),
        differently("file", None, Some(FileState { hash: Hash::from_content(b"other"), ..base })),
        differently("file", None, Some(FileState { text: false, ..base })),
        differently("file", None, Some(FileState { kind: Kind::Symlink, ..base })),
    ]
}

pub(crate) async fn another_change_under_a_known_id_is_refused(bench: Bench) {
    let owner = started(&bench).await;
    let id = changeset_id(1);
    owner.record(id, &change(1)).await.unwrap();
    owner.start(changeset_id(2)).await.unwrap();
    let refused = ChangesetStoreError::Changeset(ChangesetError::InvalidEntry { id: change(1).id });
    let mut before = bench.snapshot().await;
    for close in [false, true] {
        if close {
            owner.close(id).await.unwrap();
            before = bench.snapshot().await;
        }
        for other in others_of_change_1() {
            assert_eq!(owner.record(id, &other).await, Err(refused.clone()));
            assert_eq!(owner.record(changeset_id(2), &other).await, Err(refused.clone()));
            assert_eq!(owner.record_latest(&other).await, Err(refused.clone()));
        }
        assert_eq!(bench.snapshot().await, before);
    }
}

pub(crate) async fn a_closed_changeset_hands_the_entry_back(bench: Bench) {
    let owner = started(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    owner.close(changeset_id(1)).await.unwrap();
    owner.finish(ChangesetEnding::Interrupted).await.unwrap();
    let before = bench.snapshot().await;
    for change in changes_of_all_kinds() {
        for n in [1, 2] {
            let answer = owner.record(changeset_id(n), &change).await;
            assert_eq!(answer, Err(handed_back(n, &change)));
        }
    }
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn recording_without_a_name_goes_into_the_latest_that_is_open(bench: Bench) {
    let owner = started(&bench).await;
    // Named against the order of their start.
    for n in [9, 5] {
        owner.start(changeset_id(n)).await.unwrap();
    }
    let mut seq = 0;
    let mut place = |changeset, no| {
        seq += 1;
        let changeset = changeset_id(changeset);
        Ok(RecordedChange { changeset, seq, no })
    };
    assert_eq!(owner.record_latest(&change(1)).await, place(5, 1));
    assert_eq!(owner.record_latest(&change(2)).await, place(5, 2));
    owner.close(changeset_id(9)).await.unwrap();
    assert_eq!(owner.record_latest(&change(3)).await, place(5, 3));
    owner.close(changeset_id(5)).await.unwrap();
    let first = RecordedChange { changeset: changeset_id(1), seq: 1, no: 4 };
    assert_eq!(owner.record_latest(&change(4)).await, Ok(first));
    owner.start(changeset_id(2)).await.unwrap();
    let second = RecordedChange { changeset: changeset_id(2), seq: 1, no: 5 };
    assert_eq!(owner.record_latest(&change(5)).await, Ok(second));
}

pub(crate) async fn with_nothing_open_recording_without_a_name_says_so(bench: Bench) {
    let owner = bench.owner(1).await;
    for n in [1, 2] {
        let before = bench.snapshot().await;
        let refused = owner.record_latest(&change(1)).await.unwrap_err();
        assert_eq!(refused, ChangesetStoreError::Changeset(ChangesetError::NoActiveChangeset));
        assert_eq!(refused.to_string(), "No active changeset. Call start_changeset() first.");
        assert_eq!(bench.snapshot().await, before);

        // And again after the only one was closed.
        owner.start(changeset_id(n)).await.unwrap();
        owner.close(changeset_id(n)).await.unwrap();
    }
}

pub(crate) async fn a_changeset_of_nobody_or_of_another_plan_is_unknown(bench: Bench) {
    let _ = started(&bench).await;
    let owner = bench.owner(2).await;
    let before = bench.snapshot().await;
    for n in [1, 9] {
        let id = changeset_id(n);
        let unknown = ChangesetStoreError::Changeset(ChangesetError::UnknownChangeset { id });
        assert_eq!(owner.record(id, &change(1)).await, Err(unknown.clone()));
        assert_eq!(owner.close(id).await, Err(unknown));
    }
    let none = ChangesetStoreError::Changeset(ChangesetError::NoActiveChangeset);
    assert_eq!(owner.record_latest(&change(1)).await, Err(none));
    assert_eq!(owner.finish(ChangesetEnding::Closed).await, Ok(vec![]));
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn closing_again_gives_the_same_answer(bench: Bench) {
    let owner = started(&bench).await;
    owner.start(changeset_id(2)).await.unwrap();
    let mut sets = [open(1, 1, vec![]), open(2, 2, vec![])];
    for change in changes_of_all_kinds() {
        let recorded = owner.record(changeset_id(1), &change).await.unwrap();
        sets[0].entries.push(entry(recorded, &change));
    }
    let closed = closed_answer(&sets[0]);
    assert_eq!(owner.close(changeset_id(1)).await, Ok(closed));
    let interrupted = closed_answer(&sets[1]);
    assert_eq!(owner.finish(ChangesetEnding::Interrupted).await, Ok(vec![interrupted]));
    let [first, second] = sets;
    let expected = [ended(ChangesetState::Closed, first), ended(ChangesetState::Interrupted, second)];
    for _ in 0..2 {
        assert_eq!(bench.changesets(plan_id(1)).await, expected);
        assert_eq!(owner.close(changeset_id(1)).await, Ok(closed));
        assert_eq!(owner.close(changeset_id(2)).await, Ok(interrupted));
    }
}

/// The digest of changeset 1 in a store of its own.
async fn digest_of(bench: &Bench, changes: &[NewChange]) -> Hash {
    let owner = started(&bench.another()).await;
    for change in changes {
        owner.record(changeset_id(1), change).await.unwrap();
    }
    owner.close(changeset_id(1)).await.unwrap().digest
}

pub(crate) async fn the_digest_tells_any_difference(bench: Bench) {
    let mut variants: Vec<Vec<NewChange>> = vec![
        vec![],
        vec![change(1)],
        vec![change(2)],
        vec![change(1), change(2)],
        vec![change(2), change(1)],
        changes_of_all_kinds(),
    ];
    variants.extend(others_of_change_1().into_iter().map(|other| vec![other]));
    let mut digests = BTreeSet::new();
    for variant in &variants {
        let digest = digest_of(&bench, variant).await;
        assert_eq!(digest, digest_of(&bench, variant).await, "same entries: {variant:?}");
        assert!(digests.insert(digest), "it has the digest of another: {variant:?}");
    }
}

pub(crate) async fn finishing_ends_what_is_open_and_nothing_else(bench: Bench) {
    let endings = [
        (ChangesetEnding::Closed, ChangesetState::Closed),
        (ChangesetEnding::Interrupted, ChangesetState::Interrupted),
    ];
    let bystander = bench.owner(9).await;
    bystander.start(changeset_id(90)).await.unwrap();
    for (n, (how, state)) in (1..).zip(endings) {
        let owner = bench.owner(n).await;
        let mut sets = vec![];
        for ordinal in 1..=3 {
            let mut set = open(n * 10 + u64::from(ordinal), ordinal, vec![]);
            owner.start(set.id).await.unwrap();
            let change = change(n * 10 + u64::from(ordinal));
            let recorded = owner.record(set.id, &change).await.unwrap();
            set.entries.push(entry(recorded, &change));
            sets.push(set);
        }
        owner.close(sets[1].id).await.unwrap();
        let answer = vec![closed_answer(&sets[0]), closed_answer(&sets[2])];
        assert_eq!(owner.finish(how).await, Ok(answer));
        sets[1] = ended(ChangesetState::Closed, sets[1].clone());
        for place in [0, 2] {
            sets[place] = ended(state, sets[place].clone());
        }
        assert_eq!(bench.changesets(plan_id(n)).await, sets);
        assert_eq!(owner.finish(ChangesetEnding::Closed).await, Ok(vec![]), "nothing is open any more");
        assert_eq!(bench.changesets(plan_id(n)).await, sets);
    }
    assert_eq!(bench.changesets(plan_id(9)).await, [open(90, 1, vec![])]);
}

pub(crate) async fn ten_thousand_opened_and_closed_leave_none_open(bench: Bench) {
    let owner = bench.owner(1).await;
    let mut expected = Vec::new();
    for n in 1..=10_000_u32 {
        let mut set = open(n.into(), n, vec![]);
        owner.start(set.id).await.unwrap();
        let recorded = owner.record_latest(&change(n.into())).await.unwrap();
        set.entries.push(entry(recorded, &change(n.into())));
        assert_eq!(owner.close(set.id).await, Ok(closed_answer(&set)));
        expected.push(ended(ChangesetState::Closed, set));
    }
    assert_eq!(bench.open_changesets(plan_id(1)).await, 0);
    assert_eq!(owner.finish(ChangesetEnding::Closed).await, Ok(vec![]));
    assert!(bench.changesets(plan_id(1)).await == expected, "each has its own entry and is closed");
}

pub(crate) async fn plans_that_changed_something_are_listed_by_state_and_newest_first(bench: Bench) {
    for n in [1, 2, 3] {
        let owner = processing(&bench, n, Phase::Execute).await;
        if n < 3 {
            owner.start(changeset_id(n)).await.unwrap();
            owner.record_latest(&change(10 + n)).await.unwrap();
        }
        owner.end(JobEnd::Succeeded).await.unwrap();
    }
    let (waits, done) = (PlanState::Execute(WorkState::Queued), PlanState::Execute(WorkState::Complete));
    let changed = async |states: &[PlanState], max| {
        let (found, more) = bench.store.changed_plans(states, max).await.unwrap();
        (found.iter().map(|changed| changed.plan).collect::<Vec<_>>(), more)
    };
    assert_eq!(changed(&[waits, done], 9).await, (vec![plan_id(2), plan_id(1)], 0));
    assert_eq!(changed(&[done], 1).await, (vec![plan_id(2)], 1), "the oldest is left out first");
    assert_eq!(changed(&[waits], 9).await, (vec![], 0));
    assert_eq!(bench.store.changed_plan(plan_id(3)).await, Ok(None), "it changed nothing");
    let one = bench.store.changed_plan(plan_id(1)).await.unwrap().unwrap();
    assert_eq!((one.attempt, one.projects.len(), one.footprint), (1, 2, None));
    by_hand(&bench, 2, PlanEvent::Cancel).await.unwrap();
    assert!(changed(&PlanState::ALL, 9).await.0.contains(&plan_id(1)));
    assert_eq!(
        changed(&[waits, done], 9).await,
        (vec![plan_id(1)], 0),
        "one that has come to its end is not"
    );
}
