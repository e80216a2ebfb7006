//! The port for changesets: started, recorded into, closed; each call fenced and atomic.

use async_trait::async_trait;
use domain::{
    ChangeEntry, Changeset, ChangesetError, ChangesetId, Claim, Closed, Ending, ErrorClass, NewChange,
    PlanId, PlanState, RecordError, Recorded, Started,
};
use sync::{Effect, Finisher};

use crate::StoreError;

/// Why a changeset was not started, recorded into or closed.
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
    /// How to take it.
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

/// A place on the disk that a plan changes: where a file lies, or where a moved one was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangedPlace {
    /// Which plan.
    pub plan: PlanId,
    /// The root of the project, a slash, and the path in it.
    pub at: Vec<u8>,
}

impl ChangedPlace {
    /// The place of a path in a project.
    pub fn new(plan: PlanId, root: &[u8], path: &[u8]) -> Self {
        Self { plan, at: [root, b"/", path].concat() }
    }
}

/// Keeps the changesets of plans.
///
/// The open changesets of a plan are in the store, not in a list beside it, so that "start" and "becomes visible",
/// and "which is the latest" and "record into it", are one step each.
#[async_trait]
pub trait ChangesetStore: Send + Sync {
    /// Starts a changeset, open and visible when this returns. The same id again is the same changeset.
    async fn start(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<Started, ChangesetStoreError>;

    /// Records a change into the changeset `id`. The same change id again answers as the first time.
    async fn record(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError>;

    /// Records a change into the plan's most recently started changeset that is still open.
    async fn record_latest(
        &self,
        effect: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError>;

    /// Closes a changeset. Closing again answers as the first time.
    async fn close(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<Closed, ChangesetStoreError>;

    /// Ends every changeset of the plan that is still open.
    async fn finish(
        &self,
        finisher: &Finisher,
        claim: &Claim,
        how: Ending,
    ) -> Result<Vec<Closed>, ChangesetStoreError>;

    /// What was recorded in one attempt of a plan, in order of `no`: the entries of the changesets that were started
    /// while the plan was in that attempt. A plan that was never created is in attempt 1.
    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError>;

    /// Where plans in these states change something in their present attempt, newest plan first; a place that is changed
    /// twice comes twice. No more than `entries_max` entries are looked at, those of the newest plans.
    async fn changed_places(
        &self,
        states: &[PlanState],
        entries_max: usize,
    ) -> Result<Vec<ChangedPlace>, StoreError>;

    /// The plan's changesets in the order they were started; none for an unknown plan.
    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError>;
}
