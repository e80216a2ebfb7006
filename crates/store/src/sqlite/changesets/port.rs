//! The port for changesets.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    ChangeEntry, Changeset, ChangesetEnding, ChangesetId, Claim, ClosedChangeset, NetChange, NewChange,
    PlanId, PlanState, RecordedChange, StartedChangeset,
};
use sync::{Effect, Finisher};

use super::{EntryTarget, all, close, entries_in, finish, footprints, net_changes, record, start};
use crate::sqlite::{FOR_POWER, FOR_PROCESS, SqliteStore, plan_heads};
use crate::{ChangedPlan, ChangesetStore, ChangesetStoreError, StoreError};

#[async_trait]
impl ChangesetStore for SqliteStore {
    async fn start(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| start(tx, &claim, id)).await
    }

    async fn record(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| record(tx, &claim, EntryTarget::Named(id), change)).await
    }

    async fn record_latest(
        &self,
        _: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| record(tx, &claim, EntryTarget::Latest, change)).await
    }

    async fn close(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<ClosedChangeset, ChangesetStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| close(tx, &claim, id, at)).await
    }

    async fn finish(
        &self,
        _: &Finisher,
        claim: &Claim,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| finish(tx, &claim, how, at)).await
    }

    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => entries_in(tx, head, plan, attempt),
            None => Ok(Vec::new()),
        })
    }

    async fn net_changes(&self, plan: PlanId, attempt: u32) -> Result<Vec<NetChange>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => net_changes(tx, head, plan, attempt),
            None => Ok(Vec::new()),
        })
    }

    async fn changed_plans(
        &self,
        states: &[PlanState],
        plans_max: usize,
    ) -> Result<(Vec<ChangedPlan>, usize), StoreError> {
        self.read(|tx| footprints::list_changed_plans(tx, states, plans_max))
    }

    async fn changed_plan(&self, plan: PlanId) -> Result<Option<ChangedPlan>, StoreError> {
        self.read(|tx| footprints::of_plan(tx, plan))
    }

    async fn store_footprint(
        &self,
        plan: PlanId,
        stamp: (u32, u64),
        files: usize,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.write(FOR_PROCESS, move |tx| footprints::keep(tx, plan, stamp, files, &bytes)).await
    }

    async fn files_changed(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, usize>, StoreError> {
        self.read(|tx| footprints::files(tx, plans))
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => all(tx, head),
            None => Ok(Vec::new()),
        })
    }
}
