//! Nodes in SQLite.
//!
//! # Invariants
//! 1. A run is one row, written once. Writing the same run again changes nothing and has no event.

use async_trait::async_trait;
use domain::record::event_draft;
use domain::record::event_draft::EventDraft;
use domain::{Claim, NodeOutcome, NodeRun, NodeWait, PlanId, TokenUsage};
use rusqlite::{Row, params};
use sync::Effect;

use super::columns::{SqlJson, from_json, number, phase, signed, wall, wall_at, word};
use super::jobs::guard;
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::writer::{Lane, WriteDurability, WriteTerms};
use super::{FOR_PROCESS, SqliteStore};
use crate::{CallAuthority, NodeStore, StoreError};

/// Stores the runs, and returns the events to record of them.
pub(super) fn keep(tx: &Tx<'_>, head: PlanHead, runs: &[NodeRun]) -> Result<Vec<EventDraft>, StoreError> {
    let mut told = Vec::new();
    for run in runs {
        if save(tx, head, run)? {
            told.push(event_draft::node_finished(run));
        }
    }
    Ok(told)
}

/// About how many bytes the runs take.
pub(super) fn bytes_of(runs: &[NodeRun]) -> usize {
    runs.iter().map(|run| run.text.len().saturating_add(FOR_PROCESS.bytes)).sum()
}

/// Writes a run, in place of the one of the same node; says whether anything changed.
fn save(tx: &Tx<'_>, head: PlanHead, run: &NodeRun) -> Result<bool, StoreError> {
    let TokenUsage { tokens_in, tokens_out, cost_micros } = run.usage;
    let changed = tx.run(
        "INSERT INTO node_runs (head, attempt, phase, path, tries, outcome, exit_code, text, json, changed, tokens_in,
                tokens_out, cost_micros, guidance_seen, started, finished)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
         ON CONFLICT (head, attempt, phase, path) DO UPDATE SET
            (tries, outcome, exit_code, text, json, changed, tokens_in, tokens_out, cost_micros, guidance_seen, started,
                finished)
            = (excluded.tries, excluded.outcome, excluded.exit_code, excluded.text, excluded.json, excluded.changed,
                excluded.tokens_in, excluded.tokens_out, excluded.cost_micros, excluded.guidance_seen,
                excluded.started, excluded.finished)
         WHERE (tries, outcome, exit_code, text, json, changed, tokens_in, tokens_out, cost_micros, guidance_seen,
                started, finished)
            IS NOT (excluded.tries, excluded.outcome, excluded.exit_code, excluded.text, excluded.json,
                excluded.changed, excluded.tokens_in, excluded.tokens_out, excluded.cost_micros,
                excluded.guidance_seen, excluded.started, excluded.finished)",
        params![
            head.0,
            run.attempt,
            run.phase.as_str(),
            run.path,
            run.tries,
            run.outcome.as_str(),
            run.exit,
            run.text,
            SqlJson(&run.json),
            run.changed,
            signed(tokens_in),
            signed(tokens_out),
            signed(cost_micros),
            run.guidance_seen,
            wall(run.started),
            wall(run.finished),
        ],
    )?;
    Ok(changed > 0)
}

fn node_run(row: &Row<'_>) -> rusqlite::Result<NodeRun> {
    Ok(NodeRun {
        attempt: row.get(0)?,
        phase: phase(row, 1)?,
        path: row.get(2)?,
        tries: row.get(3)?,
        outcome: word(row, 4, NodeOutcome::parse)?,
        exit: row.get(5)?,
        text: row.get(6)?,
        json: from_json(row, 7)?,
        changed: row.get(8)?,
        usage: TokenUsage {
            tokens_in: number(row, 9)?,
            tokens_out: number(row, 10)?,
            cost_micros: number(row, 11)?,
        },
        guidance_seen: row.get(12)?,
        started: wall_at(row, 13)?,
        finished: wall_at(row, 14)?,
    })
}

fn all(tx: &Tx<'_>, plan: PlanId) -> Result<Vec<NodeRun>, StoreError> {
    let Some(head) = plan_heads::find(tx, plan)? else { return Ok(Vec::new()) };
    let as_kept =
        "SELECT attempt, phase, path, tries, outcome, exit_code, text, json, changed, tokens_in, tokens_out,
                          cost_micros, guidance_seen, started, finished
                   FROM node_runs WHERE head = ?1 ORDER BY no";
    let mut runs = tx.all(as_kept, [head.0], node_run)?;
    NodeRun::sort(&mut runs);
    Ok(runs)
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn settle_nodes(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        runs: Vec<NodeRun>,
    ) -> Result<(), StoreError> {
        let (at, claim) = (self.moment(), *claim);
        let terms =
            WriteTerms { lane: Lane::Second, durability: WriteDurability::Process, bytes: bytes_of(&runs) };
        self.write(terms, move |tx| {
            let head = guard(tx, &claim)?;
            let told = keep(tx, head, &runs)?;
            tell(tx, head, told, at.wall)
        })
        .await
    }

    async fn node_waits(&self, _: &Effect, claim: &Claim, wait: NodeWait) -> Result<(), StoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| {
            let head = guard(tx, &claim)?;
            tell(tx, head, [event_draft::node_waits(&wait)], at.wall)
        })
        .await
    }

    async fn node_runs(&self, plan: PlanId) -> Result<Vec<NodeRun>, StoreError> {
        self.read(|tx| all(tx, plan))
    }
}
