//! The port for changesets: started, recorded into, closed; each call fenced and atomic.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    ChangeEntry, Changeset, ChangesetEnding, ChangesetError, ChangesetId, Claim, ClosedChangeset, ErrorClass,
    NetChange, NewChange, PlanId, PlanState, ProjectLink, RecordError, RecordedChange, StartedChangeset,
    fold,
};
use sync::{Effect, Finisher};

use crate::StoreError;

/// The reason why a changeset was not started, recorded into or closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesetStoreError {
    /// The changeset said no.
    #[error(transparent)]
    Changeset(#[from] ChangesetError),
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChangesetStoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Changeset(error) => error.class(),
            Self::Store(error) => error.class(),
        }
    }
}

impl From<RecordError> for ChangesetStoreError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::LeaseLost(lost) => Self::Store(lost.into()),
            RecordError::Changeset(error) => Self::Changeset(error),
        }
    }
}

/// A plan that changed something, as a forecast needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPlan {
    /// The id of the plan.
    pub plan: PlanId,
    /// Its projects.
    pub projects: Vec<ProjectLink>,
    /// Its present attempt.
    pub attempt: u32,
    /// The number of entries that were recorded for it in all.
    pub entries: u64,
    /// The footprint that [`ChangesetStore::store_footprint`] stored for just this attempt and number of
    /// entries.
    pub footprint: Option<Vec<u8>>,
}

/// Stores the changesets of plans.
///
/// The open changesets of a plan are in the store, not in a separate list. So a changeset is visible in the
/// step that starts it, and one step finds the latest and records into it.
#[async_trait]
pub trait ChangesetStore: Send + Sync {
    /// Starts a changeset, open and visible when this returns. The same id again is the same changeset.
    async fn start(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError>;

    /// Records a change into the changeset `id`. The same change id again answers as the first time.
    async fn record(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError>;

    /// Records a change into the plan's most recently started changeset that is still open.
    async fn record_latest(
        &self,
        effect: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError>;

    /// Closes a changeset. Closing again answers as the first time.
    async fn close(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<ClosedChangeset, ChangesetStoreError>;

    /// Ends every changeset of the plan that is still open.
    async fn finish(
        &self,
        finisher: &Finisher,
        claim: &Claim,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError>;

    /// Returns the records of one attempt of a plan, in order of `no`. They are the entries of the changesets
    /// that were started in that attempt. A plan that was never created is in attempt 1.
    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError>;

    /// Returns what these entries come to, without all of them in memory at once.
    async fn net_changes(&self, plan: PlanId, attempt: u32) -> Result<Vec<NetChange>, StoreError> {
        Ok(fold(&self.entries(plan, attempt).await?))
    }

    /// Returns the plans in these states that changed something in any attempt, newest first, at most
    /// `plans_max`. The number counts the other plans that changed something and are not final.
    async fn changed_plans(
        &self,
        states: &[PlanState],
        plans_max: usize,
    ) -> Result<(Vec<ChangedPlan>, usize), StoreError>;

    /// The same of one plan, in whatever state; `None` if it changed nothing.
    async fn changed_plan(&self, plan: PlanId) -> Result<Option<ChangedPlan>, StoreError>;

    /// Stores the footprint of a plan and how many files it changed. It holds as long as the plan is in this
    /// attempt and has this number of entries (`stamp`).
    async fn store_footprint(
        &self,
        plan: PlanId,
        stamp: (u32, u64),
        files: usize,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError>;

    /// Returns how many files these plans changed, of those whose stored number still holds.
    async fn files_changed(&self, plans: &[PlanId]) -> Result<BTreeMap<PlanId, usize>, StoreError>;

    /// The plan's changesets in the order they were started; none for an unknown plan.
    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError>;
}
