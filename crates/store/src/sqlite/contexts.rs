//! Contexts in SQLite: the row, its text and the event are one write.

use async_trait::async_trait;
use domain::context::ContextRecord;
use domain::record::event_draft;
use domain::{Claim, ContextId, PlanId};
use rusqlite::Row;
use sync::Effect;

use super::columns::{SqlJson, SqlText, from_json, hash, parsed, wall, wall_at};
use super::jobs::{WriteTime, guard};
use super::plan_heads;
use super::plan_heads::tell;
use super::transaction::Tx;
use super::writer::{Lane, WriteDurability, WriteTerms};
use super::{FOR_PROCESS, SqliteStore, contents};
use crate::{ContextStore, StagedContent, StoreError};

fn keep(
    tx: &Tx<'_>,
    claim: &Claim,
    record: &ContextRecord,
    text: &StagedContent,
    at: WriteTime,
) -> Result<(), StoreError> {
    guard(tx, claim)?;
    let head = guard(tx, &Claim { plan: record.plan, ..*claim })?;
    let insert = "INSERT INTO contexts (head, id, node, at, request, receipt, text_hash)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING";
    let ContextRecord { id, plan: _, node, at: asked, request, receipt, text: named } = record;
    let row = (head.0, SqlText(id), node, wall(*asked), SqlJson(request), SqlJson(receipt), named.as_bytes());
    if tx.run(insert, row)? == 0 {
        return Ok(());
    }
    contents::keep(tx, text)?;
    tell(tx, head, [event_draft::context_assembled(record)], at.wall)
}

fn record(row: &Row<'_>) -> rusqlite::Result<ContextRecord> {
    Ok(ContextRecord {
        plan: parsed(row, 0)?,
        id: parsed(row, 1)?,
        node: row.get(2)?,
        at: wall_at(row, 3)?,
        request: from_json(row, 4)?,
        receipt: from_json(row, 5)?,
        text: hash(row, 6)?,
    })
}

#[async_trait]
impl ContextStore for SqliteStore {
    async fn keep_context(
        &self,
        _: &Effect,
        claim: &Claim,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError> {
        let (at, claim) = (self.moment(), *claim);
        let bytes = FOR_PROCESS.bytes + text.bytes.as_ref().map_or(0, Vec::len);
        let terms = WriteTerms { lane: Lane::Second, durability: WriteDurability::Process, bytes };
        self.write(terms, move |tx| keep(tx, &claim, &record, &text, at)).await
    }

    async fn contexts(&self, plan: PlanId) -> Result<Vec<ContextRecord>, StoreError> {
        self.read(|tx| {
            let Some(head) = plan_heads::find(tx, plan)? else { return Ok(Vec::new()) };
            let of_plan = "SELECT h.plan, c.id, c.node, c.at, c.request, c.receipt, c.text_hash
                           FROM contexts c JOIN plan_heads h ON h.no = c.head WHERE c.head = ?1 ORDER BY c.no";
            tx.all(of_plan, [head.0], record)
        })
    }

    async fn context(&self, id: ContextId) -> Result<Option<ContextRecord>, StoreError> {
        let of_id = "SELECT h.plan, c.id, c.node, c.at, c.request, c.receipt, c.text_hash
                     FROM contexts c JOIN plan_heads h ON h.no = c.head WHERE c.id = ?1";
        self.read(|tx| tx.one(of_id, [SqlText(id)], record))
    }
}
