//! Changesets in SQLite: the cost of an entry does not grow with the number of entries.
//!
//! # Invariants
//! 1. Recording reads no other entry than one of the same name, and takes its two numbers by the writes that
//!    use them.
//! 2. The entries of a changeset are read once, when it ends, for their digest.
//! 3. Files of large contents that an ended changeset names are on the disk before its end is committed.
//! 4. Entries are returned only if they are those that were recorded. Their number and the digest of each
//!    ended changeset must match. A damaged file never reads as a plan that changed nothing.

mod footprints;
mod port;
mod queries;

use domain::record::event_draft;
use domain::{
    ChangeEntry, Changeset, ChangesetDigest, ChangesetEnding, ChangesetError, ChangesetId, ChangesetState,
    Claim, ClosedChangeset, Hash, NetChange, NetChangeFold, NewChange, PlanId, RecordedChange,
    StartedChangeset, changeset_digest,
};

use super::columns::{SqlText, number};
use super::jobs::{WriteTime, guard};
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::{contents, plans};
use crate::{ChangesetStoreError, StoreError};

/// A changeset's row, by its number within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangesetRowId(i64);

/// The changeset into which an entry is recorded.
#[derive(Clone, Copy)]
pub(super) enum EntryTarget {
    Named(ChangesetId),
    Latest,
}

fn start(tx: &Tx<'_>, claim: &Claim, id: ChangesetId) -> Result<StartedChangeset, ChangesetStoreError> {
    start_in(tx, guard(tx, claim)?, id)
}

/// Stores a changeset with its entries, closed. `tell_before` records the events that come before its end.
pub(super) fn keep_whole(
    tx: &Tx<'_>,
    head: PlanHead,
    id: ChangesetId,
    changes: Vec<NewChange>,
    tell_before: impl FnOnce() -> Result<(), StoreError>,
    at: WriteTime,
) -> Result<(), ChangesetStoreError> {
    start_in(tx, head, id)?;
    for change in changes {
        append(tx, head, EntryTarget::Named(id), change)?;
    }
    tell_before()?;
    let set = queries::find(tx, head, id)?.ok_or(ChangesetError::UnknownChangeset { id })?;
    end(tx, head, set.no, id, ChangesetEnding::Closed, at)?;
    Ok(())
}

fn start_in(tx: &Tx<'_>, head: PlanHead, id: ChangesetId) -> Result<StartedChangeset, ChangesetStoreError> {
    if let Some(set) = queries::find(tx, head, id)? {
        return Ok(StartedChangeset { id, ordinal: set.ordinal });
    }
    let next = "UPDATE plan_heads SET changesets = changesets + 1 WHERE no = ?1 RETURNING changesets";
    let ordinal = numbered(tx.the(next, [head.0], |row| number(row, 0))?, "changesets")?;
    let attempt = plans::attempt_of(tx, head)?;
    tx.run(
        "INSERT INTO changesets (head, ordinal, id, attempt, state) VALUES (?1, ?2, ?3, ?4, 'open')",
        (head.0, ordinal, SqlText(id), attempt),
    )?;
    Ok(StartedChangeset { id, ordinal })
}

/// Answers as the first time, or takes the next numbers together with the entry.
pub(super) fn append(
    tx: &Tx<'_>,
    head: PlanHead,
    target: EntryTarget,
    change: NewChange,
) -> Result<RecordedChange, ChangesetStoreError> {
    if let Some(first) = queries::entry_named(tx, head, change.id)? {
        let recorded = RecordedChange { changeset: first.changeset, seq: first.seq, no: first.no };
        let same = first.matches(&change);
        return if same { Ok(recorded) } else { Err(ChangesetError::InvalidEntry { id: change.id }.into()) };
    }
    let Some((set, id, seq)) = queries::take_seq(tx, head, target)? else {
        return Err(match target {
            EntryTarget::Latest => ChangesetError::NoActiveChangeset.into(),
            EntryTarget::Named(id) if queries::find(tx, head, id)?.is_none() => {
                ChangesetError::UnknownChangeset { id }.into()
            }
            EntryTarget::Named(id) => ChangesetError::ChangesetClosed { id, entry: Box::new(change) }.into(),
        });
    };
    let next = "UPDATE plan_heads SET entries = entries + 1 WHERE no = ?1 RETURNING entries";
    let no = tx.the(next, [head.0], |row| number(row, 0))?;
    let recorded = RecordedChange { changeset: id, seq: numbered(seq, "entries")?, no };
    queries::insert_entry(tx, head, set, recorded, &change)?;
    Ok(recorded)
}

fn numbered(number: u64, what: &'static str) -> Result<u32, ChangesetError> {
    u32::try_from(number).map_err(|_| ChangesetError::Full { what })
}

/// Returns whether each of these changes was recorded before, with this content.
pub(super) fn knows_all(tx: &Tx<'_>, head: PlanHead, changes: &[NewChange]) -> Result<bool, StoreError> {
    for change in changes {
        if !queries::entry_named(tx, head, change.id)?.is_some_and(|first| first.matches(change)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn record(
    tx: &Tx<'_>,
    claim: &Claim,
    target: EntryTarget,
    change: NewChange,
) -> Result<RecordedChange, ChangesetStoreError> {
    append(tx, guard(tx, claim)?, target, change)
}

fn close(
    tx: &Tx<'_>,
    claim: &Claim,
    id: ChangesetId,
    at: WriteTime,
) -> Result<ClosedChangeset, ChangesetStoreError> {
    let head = guard(tx, claim)?;
    let set = queries::find(tx, head, id)?.ok_or(ChangesetError::UnknownChangeset { id })?;
    if let Some(digest) = set.digest {
        return Ok(ClosedChangeset { id, entries: set.entries, digest });
    }
    Ok(end(tx, head, set.no, id, ChangesetEnding::Closed, at)?)
}

fn finish(
    tx: &Tx<'_>,
    claim: &Claim,
    how: ChangesetEnding,
    at: WriteTime,
) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
    let head = guard(tx, claim)?;
    Ok(end_all(tx, head, how, at)?)
}

/// Ends every open changeset of a plan, in order of start.
pub(super) fn end_all(
    tx: &Tx<'_>,
    head: PlanHead,
    how: ChangesetEnding,
    at: WriteTime,
) -> Result<Vec<ClosedChangeset>, StoreError> {
    let open = queries::open(tx, head)?;
    open.into_iter().map(|(set, id)| end(tx, head, set, id, how, at)).collect()
}

/// Ends an open changeset and records the event.
fn end(
    tx: &Tx<'_>,
    head: PlanHead,
    set: ChangesetRowId,
    id: ChangesetId,
    how: ChangesetEnding,
    at: WriteTime,
) -> Result<ClosedChangeset, StoreError> {
    let entries = queries::entries_of(tx, set, id)?;
    for state in entries.iter().flat_map(|entry| [entry.before, entry.after]).flatten() {
        contents::keep_for_good(tx, &state)?;
    }
    let digest: Hash = changeset_digest(&entries);
    let state = match how {
        ChangesetEnding::Closed => ChangesetState::Closed,
        ChangesetEnding::Interrupted => ChangesetState::Interrupted,
    };
    tx.run(
        "UPDATE changesets SET state = ?2, digest = ?3 WHERE no = ?1",
        (set.0, queries::state_word(state), digest.as_bytes()),
    )?;
    // As many as were numbered.
    let entries = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let closed = ClosedChangeset { id, entries, digest };
    tell(tx, head, [event_draft::changeset_closed(&closed, how)], at.wall)?;
    Ok(closed)
}

/// All changesets of a plan with their entries.
fn all(tx: &Tx<'_>, head: PlanHead) -> Result<Vec<Changeset>, StoreError> {
    let sets = queries::all(tx, head)?;
    sets.into_iter()
        .map(|set| {
            let entries = queries::entries_of(tx, set.no, set.id)?;
            Ok(Changeset {
                id: set.id,
                ordinal: set.ordinal,
                attempt: set.attempt,
                state: set.state,
                entries,
                digest: set.digest,
            })
        })
        .collect()
}

/// The entries of one attempt, in order of `no`.
///
/// # Errors
/// [`StoreError::Damaged`] if they are not those that were recorded.
fn entries_in(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    attempt: u32,
) -> Result<Vec<ChangeEntry>, StoreError> {
    let mut all = Vec::new();
    for set in recorded_sets(tx, head, plan, attempt)? {
        let entries = queries::entries_of(tx, set.no, set.id)?;
        let mut digest = ChangesetDigest::new(set.entries);
        entries.iter().for_each(|entry| digest.add(entry));
        check(plan, &set, entries.len(), digest)?;
        all.extend(entries);
    }
    all.sort_by_key(|entry| entry.no);
    Ok(all)
}

/// Returns the net changes of one attempt, from entries that are read one by one. Those of a single
/// changeset, as of a plan with one command, are in their order already; those of several have to be sorted.
///
/// # Errors
/// As [`entries_in`].
fn net_changes(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    attempt: u32,
) -> Result<Vec<NetChange>, StoreError> {
    let sets = recorded_sets(tx, head, plan, attempt)?;
    let filled = sets.iter().filter(|set| set.entries > 0).count();
    let mut folding = NetChangeFold::default();
    for set in &sets {
        let (mut digest, mut count) = (ChangesetDigest::new(set.entries), 0);
        queries::each_of(tx, set.no, set.id, &mut |entry| {
            digest.add(&entry);
            count += 1;
            if filled == 1 {
                folding.add(&entry);
            }
        })?;
        check(plan, set, count, digest)?;
    }
    if filled > 1 {
        queries::each_in(tx, head, attempt, &mut |entry| folding.add(&entry))?;
    }
    Ok(folding.finish())
}

/// The changesets of one attempt, if those of the plan are as many as were numbered.
fn recorded_sets(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    attempt: u32,
) -> Result<Vec<queries::ChangesetRow>, StoreError> {
    let damaged = |what: String| Err(StoreError::Damaged { plan, what });
    let counted = |row: &rusqlite::Row<'_>| Ok((number(row, 0)?, number(row, 1)?));
    let (numbered, entered) =
        tx.the("SELECT changesets, entries FROM plan_heads WHERE no = ?1", [head.0], counted)?;
    let mut sets = queries::all(tx, head)?;
    if sets.len() as u64 != numbered {
        return damaged(format!("only {} of its {numbered} changesets exist", sets.len()));
    }
    let newest = plans::attempt_of(tx, head)?;
    if let Some(set) = sets.iter().find(|set| set.attempt > newest) {
        return damaged(format!(
            "a changeset belongs to attempt {}, but the plan is in attempt {newest}",
            set.attempt
        ));
    }
    let in_sets: u64 = sets.iter().map(|set| u64::from(set.entries)).sum();
    if in_sets != entered {
        return damaged(format!("its changesets count {in_sets} changes, but {entered} were recorded"));
    }
    sets.retain(|set| set.attempt == attempt);
    Ok(sets)
}

/// Returns an error if what was read of a changeset is not what was recorded.
fn check(
    plan: PlanId,
    set: &queries::ChangesetRow,
    count: usize,
    digest: ChangesetDigest,
) -> Result<(), StoreError> {
    let damaged = |what: String| Err(StoreError::Damaged { plan, what });
    if count as u64 != u64::from(set.entries) {
        return damaged(format!("only {count} of {} changes exist", set.entries));
    }
    let found = digest.finish();
    match (set.digest, set.state) {
        (Some(recorded), _) if recorded != found => {
            damaged("its changes are not those that were recorded".to_owned())
        }
        (None, ChangesetState::Closed | ChangesetState::Interrupted) => {
            damaged("a changeset has ended without a digest".to_owned())
        }
        (Some(_), _) | (None, ChangesetState::Open) => Ok(()),
    }
}
