//! The port for changesets.

use async_trait::async_trait;
use domain::{
    ChangeEntry, Changeset, ChangesetId, Claim, Closed, Ending, NewChange, PlanId, PlanState, Recorded,
    Started,
};
use sync::{Effect, Finisher};

use super::{Target, all, close, finish, places, record, rows, start};
use crate::sqlite::{FOR_POWER, FOR_PROCESS, SqliteStore, heads};
use crate::{ChangedPlace, ChangesetStore, ChangesetStoreError, StoreError};

#[async_trait]
impl ChangesetStore for SqliteStore {
    async fn start(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<Started, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| start(tx, &claim, id)).await
    }

    async fn record(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| record(tx, &claim, Target::Named(id), change)).await
    }

    async fn record_latest(
        &self,
        _: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| record(tx, &claim, Target::Latest, change)).await
    }

    async fn close(&self, _: &Effect, claim: &Claim, id: ChangesetId) -> Result<Closed, ChangesetStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| close(tx, &claim, id, at)).await
    }

    async fn finish(
        &self,
        _: &Finisher,
        claim: &Claim,
        how: Ending,
    ) -> Result<Vec<Closed>, ChangesetStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| finish(tx, &claim, how, at)).await
    }

    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError> {
        self.read(|tx| match heads::find(tx, plan)? {
            Some(head) => rows::entries_in(tx, head, attempt),
            None => Ok(Vec::new()),
        })
    }

    async fn changed_places(
        &self,
        states: &[PlanState],
        entries_max: usize,
    ) -> Result<Vec<ChangedPlace>, StoreError> {
        self.read(|tx| places::changed(tx, states, entries_max))
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        self.read(|tx| match heads::find(tx, plan)? {
            Some(head) => all(tx, head),
            None => Ok(Vec::new()),
        })
    }
}
