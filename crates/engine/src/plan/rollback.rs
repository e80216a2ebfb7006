//! Returns the result of a plan to a checkpoint, without running it.
//!
//! # Invariants
//! 1. A checkpoint is the end of a call that changed something, named by its last entry. After a rollback to
//!    it the result is the same, byte for byte, as when the call had ended.
//! 2. Nothing is deleted: the entries that lead to the checkpoint are recorded, and the checkpoints that were
//!    rolled back stay in the list. A rollback to one of them undoes the rollback.
//! 3. A plan that is worked on, waits or is applied is not rolled back.

use domain::{
    CallNumber, CallState, ChangeEntry, ChangeId, ChangesetId, Initiator, MoveRecord, NetChange, NewCall,
    NewChange, Plan, PlanEvent, PlanId, PlanState, ToolCall, WallMs, fold, fold_all, inverse,
};
use serde_json::{Value, json};
use store::{PlanMove, PlanStoreError, StoreError};

use super::execute::ExecuteError;
use super::transition::plan_move;
use crate::engine::Engine;
use crate::query::diff::difference;
use crate::query::effective_changes::{TAKE_BACK, rollbacks, rolling_back, standing, standing_at};

/// The node of a call by which a person rolls back.
const NODE: &str = "rollback";

/// A state of the result to which it can be rolled back: after a call that changed something.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The number of the last entry of the call.
    pub entry: u64,
    /// The call.
    pub call: CallNumber,
    /// Its node.
    pub node: String,
    /// Its tool.
    pub tool: String,
    /// The time at which it began.
    pub started: WallMs,
    /// The files that it changed.
    pub files: usize,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// True if the plan was rolled back to an earlier state since.
    pub is_rolled_back: bool,
}

/// The state to which a plan is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackTarget {
    /// Before its first change.
    Beginning,
    /// After the entry with this number.
    Entry(u64),
}

/// The reason why a plan was not rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// There is no such checkpoint.
    #[error("plan {plan} has no checkpoint {entry}")]
    NoCheckpoint {
        /// The plan.
        plan: PlanId,
        /// The entry.
        entry: u64,
        /// The entries that are checkpoints.
        known: Vec<u64>,
    },
    /// There is nothing after the checkpoint.
    #[error("plan {plan} has no changes after it")]
    NothingAfter {
        /// The plan.
        plan: PlanId,
    },
    /// It waits, is worked on, or is applied.
    #[error("plan {plan} is {state}")]
    NotFinished {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// Another process moved it meanwhile.
    #[error("plan {plan} was moved by another process")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for RollbackError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// Returns the checkpoints of the plan's present attempt, in order.
    ///
    /// # Errors
    /// Returns an error if there is no such plan, or the store failed.
    pub async fn checkpoints(&self, id: PlanId) -> Result<Vec<Checkpoint>, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        let entries = self.inner.store.entries(id, plan.attempt).await?;
        let calls = self.inner.calls(&plan).await?;
        let checkpoint = |(call, entry, is_rolled_back): (CallNumber, u64, bool)| {
            let own: Vec<&ChangeEntry> = entries.iter().filter(|entry| entry.call == call).collect();
            let net = fold(own);
            let (insertions, deletions) = self.count_lines(&net);
            let made = calls.iter().find(|made| made.no == call)?;
            Some(Checkpoint {
                entry,
                call,
                node: made.new.node.clone(),
                tool: made.new.tool.clone(),
                started: made.started,
                files: net.len(),
                insertions,
                deletions,
                is_rolled_back,
            })
        };
        Ok(call_ends(&entries, &calls).into_iter().filter_map(checkpoint).collect())
    }

    /// Returns the result to a checkpoint.
    ///
    /// # Errors
    /// Returns an error, and records nothing, if there is no such checkpoint, if the result is there already, or if
    /// the plan is not finished.
    pub async fn rollback(&self, id: PlanId, to: RollbackTarget) -> Result<(), RollbackError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.moved(PlanEvent::Amend, Vec::new(), plan.updated).is_err() {
            return Err(RollbackError::NotFinished { plan: id, state: plan.state });
        }
        let entries = self.inner.store.entries(id, plan.attempt).await?;
        let calls = self.inner.calls(&plan).await?;
        let known: Vec<u64> = call_ends(&entries, &calls).into_iter().map(|(_, entry, _)| entry).collect();
        let to = match to {
            RollbackTarget::Beginning => 0,
            RollbackTarget::Entry(entry) if known.contains(&entry) => entry,
            RollbackTarget::Entry(entry) => {
                return Err(RollbackError::NoCheckpoint { plan: id, entry, known });
            }
        };
        let target = standing_at(entries.clone(), &calls, to);
        let present = standing(entries, &calls);
        if target.iter().map(|entry| entry.no).eq(present.iter().map(|entry| entry.no)) {
            return Err(RollbackError::NothingAfter { plan: id });
        }
        let changes = difference(fold_all(&target), fold_all(&present));
        let record = Some(self.reversal(&plan, to, &changes));
        let amend = PlanMove { record, ..plan_move(&plan, PlanEvent::Amend, Initiator::User, None) };
        match self.move_plan(amend).await {
            Ok(_) => Ok(()),
            Err(ExecuteError::Busy { .. }) => Err(RollbackError::Busy { plan: id }),
            Err(ExecuteError::Plan(error)) => Err(error.into()),
            Err(other) => Err(StoreError::Broken { why: other.to_string() }.into()),
        }
    }

    /// Returns the call that returns to the entry `to` by reverting these changes.
    fn reversal(&self, plan: &Plan, to: u64, changes: &[NetChange]) -> MoveRecord {
        let back = |change: &NetChange| {
            let (root, base) = (change.root, change.base);
            let recorded = |draft| NewChange {
                id: ChangeId::from_u128(self.inner.ids.ulid()),
                call: CallNumber(0),
                root,
                base,
                draft,
            };
            inverse(change).into_iter().map(recorded).collect::<Vec<_>>()
        };
        let changes: Vec<NewChange> = changes.iter().flat_map(back).collect();
        let call = NewCall {
            attempt: plan.attempt,
            node: NODE.to_owned(),
            tool: TAKE_BACK.to_owned(),
            requested: rolling_back(to),
            effective: Value::Null,
        };
        let end =
            self.inner.ended(self.inner.wall(), (CallState::Ok, None, json!({ "paths": changes.len() })));
        MoveRecord { changeset: ChangesetId::from_u128(self.inner.ids.ulid()), call, end, changes }
    }
}

/// Returns each call that changed something with its last entry, in order of entries.
fn last_entries(entries: &[ChangeEntry]) -> Vec<(CallNumber, u64)> {
    let mut ends: Vec<(CallNumber, u64)> = Vec::new();
    for entry in entries {
        match ends.iter_mut().find(|(call, _)| *call == entry.call) {
            Some((_, last)) => *last = (*last).max(entry.no),
            None => ends.push((entry.call, entry.no)),
        }
    }
    ends.sort_by_key(|(_, entry)| *entry);
    ends
}

/// Returns each checkpoint: the call, its last entry, and whether it was rolled back, in order of entries.
fn call_ends(entries: &[ChangeEntry], calls: &[ToolCall]) -> Vec<(CallNumber, u64, bool)> {
    let present = last_entries(&standing(entries.to_vec(), calls));
    let mut ends: Vec<_> = present.iter().map(|(call, entry)| (*call, *entry, false)).collect();
    for (rollback, _) in rollbacks(calls) {
        let before = entries.iter().filter(|entry| entry.call < rollback).map(|entry| entry.no).max();
        let was = standing_at(entries.to_vec(), calls, before.unwrap_or(0));
        for (call, entry) in last_entries(&was) {
            if !ends.iter().any(|(_, known, _)| *known == entry) {
                ends.push((call, entry, true));
            }
        }
    }
    ends.sort_by_key(|(_, entry, _)| *entry);
    ends
}
