//! The rows of tool calls and sandboxes.

use domain::{
    CallEnd, CallNumber, CallState, CaptureOmissions, NewCall, PlanId, SandboxRecord, StoredOutput, ToolCall,
    TreeChanges,
};
use rusqlite::{Row, params};

use crate::StoreError;
use crate::sqlite::columns::{
    SqlJson, SqlText, from_json, hash_or_none, number, parsed, signed, wall, wall_at, wall_or_none, word,
};
use crate::sqlite::plan_heads::PlanHead;
use crate::sqlite::transaction::Tx;

macro_rules! select_calls {
    ($rest:literal) => {
        concat!(
            "SELECT attempt, no, node, tool, requested, effective, started, state, duration_ms, exit, error, result,
                    isolation, stdout_hash, stdout_total, stdout_left_out, stderr_hash, stderr_total, stderr_left_out
             FROM tool_calls ",
            $rest
        )
    };
}

fn call(row: &Row<'_>, plan: PlanId) -> rusqlite::Result<ToolCall> {
    let new = NewCall {
        attempt: row.get(0)?,
        node: row.get(2)?,
        tool: row.get(3)?,
        requested: from_json(row, 4)?,
        effective: from_json(row, 5)?,
    };
    let end = match word(row, 7, CallState::parse)? {
        CallState::Running => None,
        state @ (CallState::Ok
        | CallState::Failed
        | CallState::TimedOut
        | CallState::Refused
        | CallState::Cancelled) => Some(end(row, state)?),
    };
    Ok(ToolCall { plan, no: CallNumber(row.get(1)?), started: wall_at(row, 6)?, new, end })
}

fn end(row: &Row<'_>, state: CallState) -> rusqlite::Result<CallEnd> {
    let has_isolation = row.get_ref(12)? != rusqlite::types::ValueRef::Null;
    Ok(CallEnd {
        state,
        duration_ms: number(row, 8)?,
        exit: row.get(9)?,
        error: row.get(10)?,
        result: from_json(row, 11)?,
        isolation: if has_isolation { Some(from_json(row, 12)?) } else { None },
        stdout: output(row, 13)?,
        stderr: output(row, 16)?,
    })
}

/// A stream in three columns from `first` on.
fn output(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<StoredOutput>> {
    match hash_or_none(row, first)? {
        None => Ok(None),
        Some(hash) => {
            let (total, left_out) = (number(row, first + 1)?, number(row, first + 2)?);
            Ok(Some(StoredOutput { hash, total, left_out }))
        }
    }
}

pub(super) fn next_no(tx: &Tx<'_>, head: PlanHead, attempt: u32) -> Result<CallNumber, StoreError> {
    let last = "SELECT coalesce(max(no), 0) + 1 FROM tool_calls WHERE head = ?1 AND attempt = ?2";
    tx.the(last, (head.0, attempt), |row| row.get(0).map(CallNumber))
}

pub(super) fn find(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    attempt: u32,
    no: CallNumber,
) -> Result<Option<ToolCall>, StoreError> {
    let named = select_calls!("WHERE head = ?1 AND attempt = ?2 AND no = ?3");
    tx.one(named, (head.0, attempt, no.0), |row| call(row, plan))
}

pub(super) fn all(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<ToolCall>, StoreError> {
    tx.all(select_calls!("WHERE head = ?1 ORDER BY attempt, no"), [head.0], |row| call(row, plan))
}

/// The calls that have no end.
pub(super) fn running(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<ToolCall>, StoreError> {
    let running = select_calls!("WHERE head = ?1 AND state = 'running' ORDER BY attempt, no");
    tx.all(running, [head.0], |row| call(row, plan))
}

/// Returns whether the node was called in the attempt.
pub(in crate::sqlite) fn is_known(
    tx: &Tx<'_>,
    head: PlanHead,
    attempt: u32,
    node: &str,
) -> Result<bool, StoreError> {
    let any = "SELECT 1 FROM tool_calls WHERE head = ?1 AND attempt = ?2 AND node = ?3 LIMIT 1";
    Ok(tx.one(any, (head.0, attempt, node), |_| Ok(()))?.is_some())
}

/// A row for a call, with its end if it has one.
pub(super) fn insert(tx: &Tx<'_>, head: PlanHead, call: &ToolCall) -> Result<(), StoreError> {
    let NewCall { attempt, node, tool, requested, effective } = &call.new;
    let end = call.end.as_ref();
    let stdout = end.and_then(|end| end.stdout);
    let stderr = end.and_then(|end| end.stderr);
    tx.run(
        "INSERT INTO tool_calls (head, attempt, no, node, tool, requested, effective, started, state, duration_ms, exit,
                error, result, isolation, stdout_hash, stdout_total, stdout_left_out, stderr_hash, stderr_total,
                stderr_left_out)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        params![
            head.0,
            attempt,
            call.no.0,
            node,
            tool,
            SqlJson(requested),
            SqlJson(effective),
            wall(call.started),
            call.state().as_str(),
            end.map(|end| signed(end.duration_ms)),
            end.and_then(|end| end.exit),
            end.and_then(|end| end.error.as_ref()),
            end.map(|end| SqlJson(&end.result)),
            end.and_then(|end| end.isolation.as_ref()).map(SqlJson),
            stdout.as_ref().map(|output| output.hash.as_bytes()),
            stdout.map(|output| signed(output.total)),
            stdout.map(|output| signed(output.left_out)),
            stderr.as_ref().map(|output| output.hash.as_bytes()),
            stderr.map(|output| signed(output.total)),
            stderr.map(|output| signed(output.left_out)),
        ],
    )?;
    Ok(())
}

/// Writes the end of a call that has one, in place of its row.
pub(super) fn save_end(tx: &Tx<'_>, head: PlanHead, call: &ToolCall) -> Result<(), StoreError> {
    let row = "DELETE FROM tool_calls WHERE head = ?1 AND attempt = ?2 AND no = ?3";
    tx.run(row, (head.0, call.new.attempt, call.no.0))?;
    insert(tx, head, call)
}

macro_rules! select_sandboxes {
    ($rest:literal) => {
        concat!(
            "SELECT attempt, rung, passed_over, dir, boot, opened, closed, not_captured FROM sandboxes ",
            $rest
        )
    };
}

/// The facts about a closed sandbox, in one column: a store of an older version has the first part only.
#[derive(serde::Serialize, serde::Deserialize)]
struct SandboxCloseFacts {
    #[serde(flatten)]
    not_captured: CaptureOmissions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<TreeChanges>,
}

fn sandbox_of(row: &Row<'_>, plan: PlanId) -> rusqlite::Result<SandboxRecord> {
    Ok(SandboxRecord {
        plan,
        attempt: row.get(0)?,
        rung: row.get(1)?,
        passed_over: from_json(row, 2)?,
        dir: row.get(3)?,
        boot: parsed(row, 4)?,
        opened: wall_at(row, 5)?,
        closed: wall_or_none(row, 6)?,
        not_captured: from_json(row, 7)?,
        tree: from_json::<SandboxCloseFacts>(row, 7)?.tree,
    })
}

pub(super) fn sandbox(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    attempt: u32,
) -> Result<Option<SandboxRecord>, StoreError> {
    let of_attempt = select_sandboxes!("WHERE head = ?1 AND attempt = ?2");
    tx.one(of_attempt, (head.0, attempt), |row| sandbox_of(row, plan))
}

pub(super) fn sandboxes(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<SandboxRecord>, StoreError> {
    let all = select_sandboxes!("WHERE head = ?1 ORDER BY attempt");
    tx.all(all, [head.0], |row| sandbox_of(row, plan))
}

pub(super) fn save_sandbox(tx: &Tx<'_>, head: PlanHead, record: &SandboxRecord) -> Result<(), StoreError> {
    tx.run(
        "INSERT OR REPLACE INTO sandboxes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            head.0,
            record.attempt,
            record.rung,
            SqlJson(&record.passed_over),
            record.dir,
            SqlText(record.boot),
            wall(record.opened),
            record.closed.map(wall),
            SqlJson(SandboxCloseFacts {
                not_captured: record.not_captured.clone(),
                tree: record.tree.clone()
            }),
        ],
    )?;
    Ok(())
}
