//! Error histories in SQLite: at most 100 records of a plan are read to decide about the next.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use domain::record::event_draft;
use domain::{
    CallNumber, Claim, Detail, ErrorCategory, ErrorHistory, ErrorId, ErrorRecord, FoldedErrors, NewError,
    Phase, PlanId, RECORDS_MAX, RecoveryAction, RecoveryAdvice, RecoveryPolicy, StepId,
};
use rusqlite::Row;
use serde::{Deserialize, Serialize};

use super::columns::{SqlJson, bytes_id, from_json, ms, ms_at, number, signed};
use super::jobs::{WriteTime, guard};
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::{FOR_PROCESS, SqliteStore};
use crate::{ErrorStore, StoreError};

/// A record without what has a column of its own.
#[derive(Serialize, Deserialize)]
struct StoredError {
    phase: Phase,
    step: StepId,
    category: ErrorCategory,
    message: String,
    tool_call: Option<CallNumber>,
    detail: Detail,
    retry_after: Option<Duration>,
    idempotent: bool,
    action: StoredAction,
    hint: String,
    command: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredAction {
    Retry { after: Duration, attempt: u32 },
    Revert,
    Ask,
    GiveUp,
    Told,
}

impl StoredError {
    fn from_record(record: &ErrorRecord) -> Self {
        let ErrorRecord { error, recovery, .. } = record;
        Self {
            phase: error.phase(),
            step: error.step().clone(),
            category: error.category(),
            message: error.message().to_owned(),
            tool_call: error.tool_call(),
            detail: error.detail().clone(),
            retry_after: error.retry_after(),
            idempotent: error.is_idempotent(),
            action: match recovery.action {
                RecoveryAction::Retry { after, attempt } => StoredAction::Retry { after, attempt },
                RecoveryAction::Revert => StoredAction::Revert,
                RecoveryAction::Ask => StoredAction::Ask,
                RecoveryAction::GiveUp => StoredAction::GiveUp,
                RecoveryAction::Told => StoredAction::Told,
            },
            hint: recovery.hint.clone(),
            command: recovery.command.clone(),
        }
    }

    /// Returns what was reported. It was bounded before, so nothing is cut off it now.
    fn error(&self, id: ErrorId) -> NewError {
        let mut error = NewError::new(id, self.phase, self.step.clone(), self.category, self.message.clone())
            .with_detail(self.detail.clone());
        if let Some(call) = self.tool_call {
            error = error.with_tool_call(call);
        }
        if let Some(wait) = self.retry_after {
            error = error.with_retry_after(wait);
        }
        if self.idempotent {
            error = error.idempotent();
        }
        match self.action {
            StoredAction::Told => error.handled(),
            StoredAction::Retry { .. } | StoredAction::Revert | StoredAction::Ask | StoredAction::GiveUp => {
                error
            }
        }
    }

    fn recovery(self, seq: u64) -> RecoveryAdvice {
        let action = match self.action {
            StoredAction::Retry { after, attempt } => RecoveryAction::Retry { after, attempt },
            StoredAction::Revert => RecoveryAction::Revert,
            StoredAction::Ask => RecoveryAction::Ask,
            StoredAction::GiveUp => RecoveryAction::GiveUp,
            StoredAction::Told => RecoveryAction::Told,
        };
        RecoveryAdvice { seq, action, hint: self.hint, command: self.command }
    }
}

fn record_of(row: &Row<'_>) -> rusqlite::Result<ErrorRecord> {
    let stored: StoredError = from_json(row, 3)?;
    Ok(ErrorRecord {
        error: stored.error(ErrorId::from_u128(bytes_id(row, 1)?)),
        at: ms_at(row, 2)?,
        details: from_json(row, 4)?,
        recovery: stored.recovery(number(row, 0)?),
    })
}

fn load(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<ErrorHistory, StoreError> {
    type HistorySummary = (u32, BTreeMap<ErrorCategory, FoldedErrors>, Vec<(StepId, u32)>, u32);
    let summary: Option<HistorySummary> = tx.one(
        "SELECT newest_attempt, folded, retries, retries_total FROM error_histories WHERE head = ?1",
        [head.0],
        |row| Ok((row.get(0)?, from_json(row, 1)?, from_json(row, 2)?, row.get(3)?)),
    )?;
    let Some((newest_attempt, folded, retries, retries_total)) = summary else {
        return Ok(ErrorHistory::new(plan));
    };
    let records = tx.all(
        "SELECT seq, id, at, record, details FROM error_records WHERE head = ?1 ORDER BY seq",
        [head.0],
        record_of,
    )?;
    Ok(ErrorHistory::restore(plan, records, folded, newest_attempt, retries, retries_total))
}

/// Writes what is new in a history after `record` was added, and forgets what was folded.
fn save_added(
    tx: &Tx<'_>,
    head: PlanHead,
    history: &ErrorHistory,
    record: &ErrorRecord,
) -> Result<(), StoreError> {
    let retries: Vec<(&StepId, u32)> = history.step_retries().collect();
    tx.run(
        "INSERT INTO error_histories VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (head) DO UPDATE SET newest_attempt = ?2, folded = ?3, retries = ?4, retries_total = ?5",
        (
            head.0,
            history.newest_attempt(),
            SqlJson(history.folded()),
            SqlJson(retries),
            history.retries_total(),
        ),
    )?;
    let seq = record.recovery.seq;
    tx.run(
        "INSERT INTO error_records VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (
            head.0,
            signed(seq),
            record.error.id().as_u128().to_be_bytes(),
            ms(record.at),
            SqlJson(StoredError::from_record(record)),
            SqlJson(&record.details),
        ),
    )?;
    if history.records().len() == RECORDS_MAX {
        let kept: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
        let forget =
            "DELETE FROM error_records WHERE head = ?1 AND seq NOT IN (SELECT value FROM json_each(?2))";
        tx.run(forget, (head.0, SqlJson(kept)))?;
    }
    Ok(())
}

fn save_details(tx: &Tx<'_>, head: PlanHead, record: &ErrorRecord) -> Result<(), StoreError> {
    tx.run(
        "UPDATE error_records SET details = ?3 WHERE head = ?1 AND seq = ?2",
        (head.0, signed(record.recovery.seq), SqlJson(&record.details)),
    )?;
    Ok(())
}

fn record_error(
    tx: &Tx<'_>,
    claim: &Claim,
    policy: &RecoveryPolicy,
    error: NewError,
    jitter: u16,
    at: WriteTime,
) -> Result<RecoveryAdvice, StoreError> {
    let head = guard(tx, claim)?;
    keep(tx, head, claim.plan, policy, error, jitter, at)
}

/// Stores an error of the plan and records the event, whichever process met the error.
pub(super) fn keep(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    policy: &RecoveryPolicy,
    error: NewError,
    jitter: u16,
    at: WriteTime,
) -> Result<RecoveryAdvice, StoreError> {
    let mut history = load(tx, head, plan)?;
    let recorded = history.recorded();
    let recovery = history.record(policy, error.clone(), at.now, jitter);
    let Some(record) = history.records().rev().find(|record| record.recovery.seq == recovery.seq) else {
        return Err(StoreError::Broken { why: format!("error {} was not recorded", recovery.seq) });
    };
    if history.recorded() > recorded {
        save_added(tx, head, &history, record)?;
        tell(tx, head, [event_draft::error_recorded(&error, &recovery)], at.wall)?;
    } else {
        save_details(tx, head, record)?;
    }
    Ok(recovery)
}

#[async_trait]
impl ErrorStore for SqliteStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError> {
        let (at, claim, policy) = (self.moment(), *claim, *policy);
        self.write(FOR_PROCESS, move |tx| record_error(tx, &claim, &policy, error, jitter, at)).await
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => load(tx, head, plan),
            None => Ok(ErrorHistory::new(plan)),
        })
    }
}
