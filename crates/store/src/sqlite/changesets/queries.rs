//! The rows of changesets and their entries.

use domain::{
    Base, CallNumber, ChangeEntry, ChangeId, ChangeOp, ChangesetId, ChangesetState, FileState, Hash, Kind,
    NewChange, RecordedChange, RootIndex,
};
use rusqlite::{Row, params};

use super::{ChangesetRowId, EntryTarget};
use crate::StoreError;
use crate::sqlite::columns::{SqlText, bytes_id, hash, hash_or_none, number, parsed, path, signed, word};
use crate::sqlite::plan_heads::PlanHead;
use crate::sqlite::transaction::Tx;

/// A changeset without its entries.
pub(super) struct ChangesetRow {
    pub(super) no: ChangesetRowId,
    pub(super) id: ChangesetId,
    pub(super) ordinal: u32,
    pub(super) attempt: u32,
    pub(super) state: ChangesetState,
    pub(super) entries: u32,
    pub(super) digest: Option<Hash>,
}

macro_rules! select_sets {
    ($rest:literal) => {
        concat!("SELECT no, id, ordinal, attempt, state, entries, digest FROM changesets ", $rest)
    };
}

fn set(row: &Row<'_>) -> rusqlite::Result<ChangesetRow> {
    Ok(ChangesetRow {
        no: ChangesetRowId(row.get(0)?),
        id: parsed(row, 1)?,
        ordinal: row.get(2)?,
        attempt: row.get(3)?,
        state: word(row, 4, |text| {
            let states = [ChangesetState::Open, ChangesetState::Closed, ChangesetState::Interrupted];
            states.into_iter().find(|state| state_word(*state) == text)
        })?,
        entries: row.get(5)?,
        digest: hash_or_none(row, 6)?,
    })
}

pub(super) fn state_word(state: ChangesetState) -> &'static str {
    match state {
        ChangesetState::Open => "open",
        ChangesetState::Closed => "closed",
        ChangesetState::Interrupted => "interrupted",
    }
}

/// The plan's changeset of this name.
pub(super) fn find(tx: &Tx<'_>, head: PlanHead, id: ChangesetId) -> Result<Option<ChangesetRow>, StoreError> {
    tx.one(select_sets!("WHERE head = ?1 AND id = ?2"), (head.0, SqlText(id)), set)
}

pub(super) fn all(tx: &Tx<'_>, head: PlanHead) -> Result<Vec<ChangesetRow>, StoreError> {
    tx.all(select_sets!("WHERE head = ?1 ORDER BY ordinal"), [head.0], set)
}

/// The open ones, in order of start.
pub(super) fn open(tx: &Tx<'_>, head: PlanHead) -> Result<Vec<(ChangesetRowId, ChangesetId)>, StoreError> {
    let open = "SELECT no, id FROM changesets WHERE head = ?1 AND state = 'open' ORDER BY ordinal";
    tx.all(open, [head.0], |row| Ok((ChangesetRowId(row.get(0)?), parsed(row, 1)?)))
}

/// Takes the next number of the target, if it is open.
pub(super) fn take_seq(
    tx: &Tx<'_>,
    head: PlanHead,
    target: EntryTarget,
) -> Result<Option<(ChangesetRowId, ChangesetId, u64)>, StoreError> {
    match target {
        EntryTarget::Named(id) => tx.one(
            "UPDATE changesets SET entries = entries + 1 WHERE head = ?1 AND id = ?2 AND state = 'open'
             RETURNING no, entries",
            (head.0, SqlText(id)),
            |row| Ok((ChangesetRowId(row.get(0)?), id, number(row, 1)?)),
        ),
        EntryTarget::Latest => tx.one(
            "UPDATE changesets SET entries = entries + 1
             WHERE no = (SELECT no FROM changesets WHERE head = ?1 AND state = 'open' ORDER BY ordinal DESC LIMIT 1)
             RETURNING no, entries, id",
            [head.0],
            |row| Ok((ChangesetRowId(row.get(0)?), parsed(row, 2)?, number(row, 1)?)),
        ),
    }
}

macro_rules! select_entries {
    ($rest:literal) => {
        concat!(
            "SELECT e.id, e.seq, e.no, e.call, e.root, e.path, e.op, e.from_path,
                    e.before_kind, e.before_mode, e.before_size, e.before_hash, e.before_text,
                    e.after_kind, e.after_mode, e.after_size, e.after_hash, e.after_text, e.base, c.id
             FROM change_entries e JOIN changesets c ON c.no = e.changeset ",
            $rest
        )
    };
}

fn entry(row: &Row<'_>, changeset: ChangesetId) -> rusqlite::Result<ChangeEntry> {
    Ok(ChangeEntry {
        id: ChangeId::from_u128(bytes_id(row, 0)?),
        changeset,
        seq: row.get(1)?,
        no: number(row, 2)?,
        call: CallNumber(row.get(3)?),
        root: RootIndex(row.get(4)?),
        path: path(row, 5)?,
        op: op(row)?,
        before: file_state(row, 8)?,
        after: file_state(row, 13)?,
        base: word(row, 18, |text| match text {
            "known" => Some(Base::Known),
            "moved" => Some(Base::Moved),
            _ => None,
        })?,
    })
}

fn op(row: &Row<'_>) -> rusqlite::Result<ChangeOp> {
    match row.get_ref(6)?.as_str()? {
        "rename" => Ok(ChangeOp::Rename { from: path(row, 7)? }),
        _ => word(row, 6, |text| match text {
            "create" => Some(ChangeOp::Create),
            "modify" => Some(ChangeOp::Modify),
            "delete" => Some(ChangeOp::Delete),
            "mode" => Some(ChangeOp::Mode),
            _ => None,
        }),
    }
}

fn op_columns(op: &ChangeOp) -> (&'static str, Option<&[u8]>) {
    match op {
        ChangeOp::Create => ("create", None),
        ChangeOp::Modify => ("modify", None),
        ChangeOp::Delete => ("delete", None),
        ChangeOp::Rename { from } => ("rename", Some(from.as_bytes())),
        ChangeOp::Mode => ("mode", None),
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Symlink => "symlink",
        Kind::Dir => "dir",
    }
}

/// The state of a file in five columns from `first` on; none when the first is NULL.
fn file_state(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<FileState>> {
    if row.get_ref(first)? == rusqlite::types::ValueRef::Null {
        return Ok(None);
    }
    let kinds = [Kind::File, Kind::Symlink, Kind::Dir];
    Ok(Some(FileState {
        kind: word(row, first, |text| kinds.into_iter().find(|kind| kind_word(*kind) == text))?,
        mode: row.get(first + 1)?,
        size: number(row, first + 2)?,
        hash: hash(row, first + 3)?,
        text: row.get(first + 4)?,
    }))
}

/// The plan's entry for the change of this name.
pub(super) fn entry_named(
    tx: &Tx<'_>,
    head: PlanHead,
    id: ChangeId,
) -> Result<Option<ChangeEntry>, StoreError> {
    let named = select_entries!("WHERE e.head = ?1 AND e.id = ?2");
    tx.one(named, (head.0, id.as_u128().to_be_bytes()), |row| entry(row, parsed(row, 19)?))
}

/// The entries of one changeset, in order.
pub(super) fn entries_of(
    tx: &Tx<'_>,
    set: ChangesetRowId,
    id: ChangesetId,
) -> Result<Vec<ChangeEntry>, StoreError> {
    let of_set = select_entries!("WHERE e.changeset = ?1 ORDER BY e.seq");
    tx.all(of_set, [set.0], |row| entry(row, id))
}

/// Each entry of one changeset, in order, one by one.
pub(super) fn each_of(
    tx: &Tx<'_>,
    set: ChangesetRowId,
    id: ChangesetId,
    act: &mut dyn FnMut(ChangeEntry),
) -> Result<(), StoreError> {
    let of_set = select_entries!("WHERE e.changeset = ?1 ORDER BY e.seq");
    tx.each(of_set, [set.0], &mut |row| {
        act(entry(row, id)?);
        Ok(())
    })
}

/// Each entry of one attempt, in order of `no`, one by one.
pub(super) fn each_in(
    tx: &Tx<'_>,
    head: PlanHead,
    attempt: u32,
    act: &mut dyn FnMut(ChangeEntry),
) -> Result<(), StoreError> {
    let of_attempt = select_entries!("WHERE c.head = ?1 AND c.attempt = ?2 ORDER BY e.no");
    tx.each(of_attempt, (head.0, attempt), &mut |row| {
        act(entry(row, parsed(row, 19)?)?);
        Ok(())
    })
}

pub(super) fn insert_entry(
    tx: &Tx<'_>,
    head: PlanHead,
    set: ChangesetRowId,
    recorded: RecordedChange,
    change: &NewChange,
) -> Result<(), StoreError> {
    let NewChange { id, call, root, base, draft } = change;
    let (op, from) = op_columns(draft.op());
    let (before, after) = (draft.before(), draft.after());
    tx.run(
        "INSERT INTO change_entries VALUES
         (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
        params![
            set.0,
            recorded.seq,
            head.0,
            signed(recorded.no),
            id.as_u128().to_be_bytes(),
            call.0,
            root.0,
            draft.path().as_bytes(),
            op,
            from,
            before.map(|state| kind_word(state.kind)),
            before.map(|state| state.mode),
            before.map(|state| signed(state.size)),
            before.map(|state| state.hash.as_bytes()),
            before.map(|state| state.text),
            after.map(|state| kind_word(state.kind)),
            after.map(|state| state.mode),
            after.map(|state| signed(state.size)),
            after.map(|state| state.hash.as_bytes()),
            after.map(|state| state.text),
            match base {
                Base::Known => "known",
                Base::Moved => "moved",
            },
        ],
    )?;
    Ok(())
}
