//! Records of an owner: changesets, calls, sandboxes, contents, errors.

use std::collections::BTreeMap;
use std::io::{self, Read};

use async_trait::async_trait;
use domain::{
    ChangeEntry, ChangeId, Changeset, ChangesetEnding, ChangesetId, Claim, ClosedChangeset, ErrorHistory,
    Hash, Ms, NewCall, NewChange, NewError, PlanId, PlanState, RecordedChange, RecoveryAdvice,
    RecoveryPolicy, SandboxRecord, StartedChangeset, ToolCall,
};
use store::{
    CallAuthority, CallOutcome, CallStore, ChangedPlan, ChangesetStore, ChangesetStoreError,
    CollectedContents, ContentStore, ErrorStore, ReclaimedSpace, StagedContent, StoreError, StoredFile,
};
use sync::{Clock, Effect, Finisher};

use super::{FaultyStore, Kind, is_lost};
use crate::broken_programs::BrokenProgram;

fn set_is_lost<T>(answer: &Result<T, ChangesetStoreError>) -> bool {
    matches!(answer, Err(ChangesetStoreError::Store(error)) if is_lost(error))
}

impl FaultyStore {
    /// Returns whether the next entry is acknowledged without being written.
    fn loses_it(&self) -> bool {
        self.world.is_broken(BrokenProgram::LostEntry) && self.world.random().chance(1_000)
    }

    /// The answer to a change that is not written.
    async fn fancied(
        &self,
        claim: &Claim,
        id: ChangesetId,
        changes: &[NewChange],
    ) -> Vec<(ChangeId, RecordedChange)> {
        let sets = self.inner().changesets(claim.plan).await.unwrap_or_default();
        let entries = sets.iter().find(|set| set.id == id).map_or(0, |set| set.entries.len());
        let number = |(change, no): (&NewChange, u32)| {
            let seq = entries as u32 + no;
            (change.id, RecordedChange { changeset: id, seq, no: u64::from(seq) })
        };
        changes.iter().zip(1..).map(number).collect()
    }
}

#[async_trait]
impl ChangesetStore for FaultyStore {
    async fn start(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError> {
        self.before("start", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().start(effect, &shown, id).await;
        self.owner_wrote(claim, "a start", &answer, set_is_lost(&answer));
        let started = answer?;
        self.after("start", Kind::Write, Some(claim.plan)).await?;
        Ok(started)
    }

    async fn record(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.before("record", Kind::Write).await?;
        let (shown, change_id) = (self.presented_claim(claim), change.id);
        if self.loses_it() {
            let fancied = self.fancied(claim, id, &[change]).await;
            self.world.watch.observe_entries(claim.plan, fancied.iter().copied());
            return Ok(fancied
                .first()
                .map_or(RecordedChange { changeset: id, seq: 1, no: 1 }, |(_, recorded)| *recorded));
        }
        let answer = self.inner().record(effect, &shown, id, change).await;
        self.owner_wrote(claim, "an entry", &answer, set_is_lost(&answer));
        let recorded = answer?;
        self.world.watch.observe_entries(claim.plan, [(change_id, recorded)]);
        self.after("record", Kind::Write, Some(claim.plan)).await?;
        Ok(recorded)
    }

    async fn record_latest(
        &self,
        effect: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.before("record_latest", Kind::Write).await?;
        let (shown, change_id) = (self.presented_claim(claim), change.id);
        let answer = self.inner().record_latest(effect, &shown, change).await;
        self.owner_wrote(claim, "an entry", &answer, set_is_lost(&answer));
        let recorded = answer?;
        self.world.watch.observe_entries(claim.plan, [(change_id, recorded)]);
        self.after("record_latest", Kind::Write, Some(claim.plan)).await?;
        Ok(recorded)
    }

    async fn close(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<ClosedChangeset, ChangesetStoreError> {
        self.before("close", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().close(effect, &shown, id).await;
        self.owner_wrote(claim, "a close", &answer, set_is_lost(&answer));
        let closed = answer?;
        self.after("close", Kind::Synced, Some(claim.plan)).await?;
        Ok(closed)
    }

    async fn finish(
        &self,
        finisher: &Finisher,
        claim: &Claim,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
        self.before("finish", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().finish(finisher, &shown, how).await;
        self.owner_wrote(claim, "a finish", &answer, set_is_lost(&answer));
        let closed = answer?;
        self.after("finish", Kind::Synced, Some(claim.plan)).await?;
        Ok(closed)
    }

    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError> {
        self.before("entries", Kind::Read).await?;
        self.inner().entries(plan, attempt).await
    }

    async fn changed_plans(
        &self,
        states: &[PlanState],
        plans_max: usize,
    ) -> Result<(Vec<ChangedPlan>, usize), StoreError> {
        self.before("changed_plans", Kind::Read).await?;
        self.inner().changed_plans(states, plans_max).await
    }

    async fn changed_plan(&self, plan: PlanId) -> Result<Option<ChangedPlan>, StoreError> {
        self.before("changed_plan", Kind::Read).await?;
        self.inner().changed_plan(plan).await
    }

    async fn store_footprint(
        &self,
        plan: PlanId,
        stamp: (u32, u64),
        files: usize,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.before("keep_footprint", Kind::Write).await?;
        self.inner().store_footprint(plan, stamp, files, bytes).await
    }

    async fn files_changed(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, usize>, StoreError> {
        self.before("files_changed", Kind::Read).await?;
        self.inner().files_changed(plans).await
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        self.before("changesets", Kind::Read).await?;
        self.inner().changesets(plan).await
    }
}

#[async_trait]
impl CallStore for FaultyStore {
    async fn begin_call(&self, effect: &Effect, claim: &Claim, new: NewCall) -> Result<ToolCall, StoreError> {
        self.before("begin_call", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().begin_call(effect, &shown, new).await;
        self.owner_wrote(claim, "a call", &answer, answer.as_ref().is_err_and(is_lost));
        let call = answer?;
        self.world.watch.observe_effect(claim.plan, "a tool call");
        self.after("begin_call", Kind::Write, Some(claim.plan)).await?;
        Ok(call)
    }

    async fn end_call(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
        self.before("end_call", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let ids: Vec<ChangeId> = outcome.changes.iter().map(|change| change.id).collect();
        let (mut outcome, mut fancied) = (outcome, Vec::new());
        if let Some(id) = outcome.changeset.filter(|_| !ids.is_empty() && self.loses_it()) {
            fancied = self.fancied(claim, id, &outcome.changes).await;
            outcome.changes.clear();
        }
        let answer = self.inner().end_call(by, &shown, outcome).await;
        self.owner_wrote(claim, "the end of a call", &answer, set_is_lost(&answer));
        let mut recorded = answer?;
        recorded.extend(fancied.iter().map(|(_, recorded)| *recorded));
        self.world.watch.observe_entries(claim.plan, ids.into_iter().zip(recorded.iter().copied()));
        self.after("end_call", Kind::Write, Some(claim.plan)).await?;
        Ok(recorded)
    }

    async fn calls(&self, plan: PlanId) -> Result<Vec<ToolCall>, StoreError> {
        self.before("calls", Kind::Read).await?;
        let mut calls = self.inner().calls(plan).await?;
        if self.world.is_broken(BrokenProgram::UnendedCall) {
            // The runner gives no reason: only a call that the end of its job has ended has one.
            let is_interrupted =
                |call: &&mut ToolCall| call.end.as_ref().is_some_and(|end| end.error.is_some());
            calls.iter_mut().filter(is_interrupted).for_each(|call| call.end = None);
        }
        Ok(calls)
    }

    async fn sandbox_opened(
        &self,
        effect: &Effect,
        claim: &Claim,
        record: SandboxRecord,
    ) -> Result<(), StoreError> {
        self.before("sandbox_opened", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().sandbox_opened(effect, &shown, record).await;
        self.owner_wrote(claim, "a sandbox", &answer, answer.as_ref().is_err_and(is_lost));
        answer?;
        self.after("sandbox_opened", Kind::Write, Some(claim.plan)).await
    }

    async fn sandbox_closed(&self, record: SandboxRecord) -> Result<(), StoreError> {
        self.before("sandbox_closed", Kind::Write).await?;
        let plan = record.plan;
        self.inner().sandbox_closed(record).await?;
        self.after("sandbox_closed", Kind::Write, Some(plan)).await
    }

    async fn sandboxes(&self, plan: PlanId) -> Result<Vec<SandboxRecord>, StoreError> {
        self.before("sandboxes", Kind::Read).await?;
        self.inner().sandboxes(plan).await
    }
}

impl ContentStore for FaultyStore {
    fn stage(&self, reader: &mut dyn Read) -> io::Result<StagedContent> {
        self.inner().stage(reader)
    }

    fn open_content(&self, hash: &Hash) -> io::Result<Box<dyn Read + Send>> {
        self.inner().open_content(hash)
    }

    fn content_file(&self, hash: &Hash) -> io::Result<Option<StoredFile>> {
        self.inner().content_file(hash)
    }

    fn collect(&self, dry_run: bool) -> io::Result<CollectedContents> {
        self.inner().collect(dry_run)
    }

    fn collectable(&self, without: &[PlanId]) -> io::Result<CollectedContents> {
        self.inner().collectable(without)
    }

    fn give_back(&self) -> io::Result<ReclaimedSpace> {
        self.inner().give_back()
    }
}

#[async_trait]
impl ErrorStore for FaultyStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError> {
        self.before("record_error", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        if self.world.is_broken(BrokenProgram::LostError) && self.world.random().chance(2_000) {
            let mut history = self.inner().history(claim.plan).await?;
            let recovery = history.record(policy, error.clone(), Ms::from(self.world.clock.now()), jitter);
            self.world.watch.observe_error(claim, policy, &error, &recovery);
            return Ok(recovery);
        }
        let answer = self.inner().record_error(&shown, policy, error.clone(), jitter).await;
        self.owner_wrote(claim, "an error", &answer, answer.as_ref().is_err_and(is_lost));
        let recovery = answer?;
        self.world.watch.observe_error(claim, policy, &error, &recovery);
        self.after("record_error", Kind::Write, Some(claim.plan)).await?;
        Ok(recovery)
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        self.before("history", Kind::Read).await?;
        self.inner().history(plan).await
    }
}
