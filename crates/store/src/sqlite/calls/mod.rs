//! Tool calls and sandboxes in SQLite: a call's end, its changes, their contents and the nodes that it
//! settles are one write.

mod queries;

use async_trait::async_trait;
use domain::record::event_draft;
use domain::record::event_draft::EventDraft;
use domain::{
    ChangesetError, Claim, MoveRecord, NewCall, Plan, PlanId, RecordedChange, SandboxRecord, SettledCall,
    ToolCall,
};
use sync::Effect;

use super::changesets::{EntryTarget, append, keep_whole, knows_all};
use super::jobs::{WriteTime, guard};
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::writer::{Lane, WriteDurability, WriteTerms};
use super::{FOR_PROCESS, SqliteStore, contents, nodes};
use crate::{CallAuthority, CallOutcome, CallStore, ChangesetStoreError, StoreError};

pub(super) use queries::is_known;

/// The start of a call: the first of its node, or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStart {
    /// With it a node begins.
    Node,
    /// Its node has begun before, or it is of none.
    Call,
}

/// Stores a call that begins.
pub(super) fn keep_begun(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    new: NewCall,
    begins: CallStart,
    at: WriteTime,
) -> Result<ToolCall, StoreError> {
    let no = queries::next_no(tx, head, new.attempt)?;
    let call = ToolCall { plan, no, started: at.wall, new, end: None };
    queries::insert(tx, head, &call)?;
    let node = (begins == CallStart::Node).then(|| event_draft::node_started(&call));
    tell(tx, head, node.into_iter().chain([event_draft::tool_started(&call)]), at.wall)?;
    Ok(call)
}

/// Stores a call that has ended already and changed nothing, with the nodes that it settles. Its events
/// go to the last argument.
pub(super) fn keep_ended(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    kept: SettledCall,
    at: WriteTime,
    told: &mut Vec<EventDraft>,
) -> Result<ToolCall, StoreError> {
    let SettledCall { call: new, count_as: _, end, settles } = kept;
    let no = queries::next_no(tx, head, new.attempt)?;
    let call = ToolCall::ended(plan, no, new, end, at.wall);
    queries::insert(tx, head, &call)?;
    told.extend(event_draft::tool_finished(&call, 0));
    told.extend(nodes::keep(tx, head, &settles)?);
    Ok(call)
}

/// Records the changes that come with a move, as a call that has ended, in a changeset of their own.
pub(super) fn keep_recorded(
    tx: &Tx<'_>,
    head: PlanHead,
    moved: &Plan,
    record: &MoveRecord,
    at: WriteTime,
) -> Result<(), ChangesetStoreError> {
    let no = queries::next_no(tx, head, moved.attempt)?;
    let (call, changes) = record.resolve(moved, no, at.wall);
    queries::insert(tx, head, &call)?;
    let count = changes.len();
    keep_whole(
        tx,
        head,
        record.changeset,
        changes,
        || {
            tell(
                tx,
                head,
                [event_draft::tool_started(&call)]
                    .into_iter()
                    .chain(event_draft::tool_finished(&call, count)),
                at.wall,
            )
        },
        at,
    )
}

fn end(
    tx: &Tx<'_>,
    claim: &Claim,
    outcome: CallOutcome,
    at: WriteTime,
) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
    let head = guard(tx, claim)?;
    let CallOutcome { attempt, no, end, changeset, changes, contents, settles } = outcome;
    let known = queries::find(tx, head, claim.plan, attempt, no)?;
    let mut call = known.ok_or(ChangesetError::UnknownCall { attempt, no })?;
    let is_again = call.end.is_some();
    if is_again && !(call.end.as_ref() == Some(&end) && knows_all(tx, head, &changes)?) {
        return Err(ChangesetError::CallEnded { attempt, no }.into());
    }
    let recorded = match (changeset, changes.is_empty()) {
        (_, true) => Vec::new(),
        (None, false) => return Err(ChangesetError::NoActiveChangeset.into()),
        (Some(id), false) => {
            let append = |change| append(tx, head, EntryTarget::Named(id), change);
            changes.into_iter().map(append).collect::<Result<_, _>>()?
        }
    };
    let mut told = Vec::new();
    if !is_again {
        call.end = Some(end);
        queries::save_end(tx, head, &call)?;
        told.extend(event_draft::tool_finished(&call, recorded.len()));
    }
    told.extend(nodes::keep(tx, head, &settles)?);
    tell(tx, head, told, at.wall)?;
    contents.iter().try_for_each(|staged| contents::keep(tx, staged))?;
    Ok(recorded)
}

/// Ends every call of a plan that still runs, in order of attempt and number.
pub(super) fn end_all(tx: &Tx<'_>, head: PlanHead, plan: PlanId, at: WriteTime) -> Result<(), StoreError> {
    for mut call in queries::running(tx, head, plan)? {
        let told = event_draft::tool_finished(call.interrupt(at.wall), 0);
        queries::save_end(tx, head, &call)?;
        tell(tx, head, told, at.wall)?;
    }
    Ok(())
}

fn sandbox_opened(
    tx: &Tx<'_>,
    claim: &Claim,
    record: &SandboxRecord,
    at: WriteTime,
) -> Result<(), StoreError> {
    guard(tx, claim)?;
    let head = guard(tx, &Claim { plan: record.plan, ..*claim })?;
    if queries::sandbox(tx, head, record.plan, record.attempt)?.as_ref() == Some(record) {
        return Ok(());
    }
    queries::save_sandbox(tx, head, record)?;
    tell(tx, head, [event_draft::sandbox_opened(record)], at.wall)
}

fn sandbox_closed(tx: &Tx<'_>, record: &SandboxRecord, at: WriteTime) -> Result<(), StoreError> {
    let Some(head) = plan_heads::find(tx, record.plan)? else { return Ok(()) };
    match queries::sandbox(tx, head, record.plan, record.attempt)? {
        Some(known) if known != *record => {
            queries::save_sandbox(tx, head, record)?;
            tell(tx, head, [event_draft::sandbox_closed(record)], at.wall)
        }
        Some(_) | None => Ok(()),
    }
}

/// About how many bytes the end of a call writes.
fn bytes_of(outcome: &CallOutcome) -> usize {
    let contents = outcome.contents.iter().filter_map(|staged| staged.bytes.as_ref()).map(Vec::len);
    let changes = outcome.changes.len().saturating_mul(200);
    contents.sum::<usize>().saturating_add(changes).saturating_add(nodes::bytes_of(&outcome.settles))
}

#[async_trait]
impl CallStore for SqliteStore {
    async fn begin_call(&self, _: &Effect, claim: &Claim, new: NewCall) -> Result<ToolCall, StoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| {
            keep_begun(tx, guard(tx, &claim)?, claim.plan, new, CallStart::Call, at)
        })
        .await
    }

    async fn end_call(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
        let (at, claim) = (self.moment(), *claim);
        let bytes = bytes_of(&outcome);
        let terms = WriteTerms { lane: Lane::Second, durability: WriteDurability::Process, bytes };
        self.write(terms, move |tx| end(tx, &claim, outcome, at)).await
    }

    async fn calls(&self, plan: PlanId) -> Result<Vec<ToolCall>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => queries::all(tx, head, plan),
            None => Ok(Vec::new()),
        })
    }

    async fn sandbox_opened(
        &self,
        _: &Effect,
        claim: &Claim,
        record: SandboxRecord,
    ) -> Result<(), StoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| sandbox_opened(tx, &claim, &record, at)).await
    }

    async fn sandbox_closed(&self, record: SandboxRecord) -> Result<(), StoreError> {
        let at = self.moment();
        self.write(FOR_PROCESS, move |tx| sandbox_closed(tx, &record, at)).await
    }

    async fn sandboxes(&self, plan: PlanId) -> Result<Vec<SandboxRecord>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => queries::sandboxes(tx, head, plan),
            None => Ok(Vec::new()),
        })
    }
}
