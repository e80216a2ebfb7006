//! The execution context of a plan, through which a running phase records its changes.
//!
//! The seed's race was a list of "active" changesets outside the store. An entry went into the changeset that
//! the list named last, which another thread was about to change. Here there is no list. A
//! [`ChangesetHandle`] is bound to its own changeset; [`PlanExecutionContext::record_change`], the seed's
//! operation, asks the store to look up and record in one step.
//!
//! # Where the program records
//! Each change of a plan belongs to a call. A call that may change something is ended by
//! [`ChangesetHandle::record_call_end`]. Its end and all that it changed are one step, into the changeset of
//! its node. A call that changes nothing is ended by [`PlanExecutionContext::end_call`], which takes no
//! changes. There is no third way.
//!
//! # Invariants
//! 1. Every write goes through the job's gate and shows the job's claim. After a cancel is acknowledged, and
//!    after another worker took over, nothing is recorded.
//! 2. The context has no state of its own about changesets.
//! 3. One context per claim, never used by a later owner.

use std::sync::Arc;

use domain::{
    CallEnd, CallNumber, ChangesetError, ChangesetId, Claim, ClosedChangeset, ErrorClass, LeaseLost,
    NewChange, NodeRun, PlanId, RecordedChange, ToolCall,
};
use store::{CallAuthority, CallOutcome, ChangesetStoreError, RecordStore, StagedContent, StoreError};
use sync::{CancelReason, Cancelled, Effect, EffectGate, Observed};

use crate::ids::Ids;

/// Why a change was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing is open to record into.
    #[error("No active changeset. Call start_changeset() first.")]
    NoActiveChangeset,
    /// The changeset is closed; here is the entry back.
    #[error("changeset {id} is closed")]
    ChangesetClosed {
        /// The changeset.
        id: ChangesetId,
        /// The entry that was not recorded.
        entry: Box<NewChange>,
    },
    /// The plan has been cancelled.
    #[error("the plan was cancelled: {reason}")]
    Cancelled {
        /// Why.
        reason: CancelReason,
    },
    /// Another worker may own the job by now.
    #[error(transparent)]
    LeaseLost(LeaseLost),
    /// The entry contradicts what is recorded.
    #[error("the entry cannot be recorded: {0}")]
    InvalidEntry(#[source] ChangesetError),
    /// The store failed.
    #[error("the change could not be stored: {0}")]
    Store(#[source] StoreError),
}

impl PlanError {
    /// Returns true if the call that was to be ended has ended already, and otherwise.
    pub fn is_call_ended(&self) -> bool {
        matches!(self, Self::InvalidEntry(ChangesetError::CallEnded { .. }))
    }

    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            Self::NoActiveChangeset | Self::ChangesetClosed { .. } | Self::InvalidEntry(_) => ErrorClass::Bug,
            Self::LeaseLost(lost) => lost.class(),
            Self::Store(error) => error.class(),
        }
    }
}

impl From<Cancelled> for PlanError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled { reason: cancelled.reason }
    }
}

impl From<ChangesetStoreError> for PlanError {
    fn from(error: ChangesetStoreError) -> Self {
        match error {
            ChangesetStoreError::Changeset(ChangesetError::NoActiveChangeset) => Self::NoActiveChangeset,
            ChangesetStoreError::Changeset(ChangesetError::ChangesetClosed { id, entry }) => {
                Self::ChangesetClosed { id, entry }
            }
            ChangesetStoreError::Changeset(other) => Self::InvalidEntry(other),
            ChangesetStoreError::Store(StoreError::LeaseLost(lost)) => Self::LeaseLost(lost),
            ChangesetStoreError::Store(other) => Self::Store(other),
        }
    }
}

/// A call that has come to its end, without what it changed.
#[derive(Clone, Debug)]
pub struct EndedCall {
    attempt: u32,
    no: CallNumber,
    end: CallEnd,
    contents: Vec<StagedContent>,
    settles: Vec<NodeRun>,
}

impl EndedCall {
    /// The call, and how it ended.
    pub fn new(call: &ToolCall, end: CallEnd) -> Self {
        Self { attempt: call.new.attempt, no: call.no, end, contents: Vec::new(), settles: Vec::new() }
    }

    /// The contents that its changes and its outputs name, as far as they are not stored yet.
    pub fn with_contents(self, contents: Vec<StagedContent>) -> Self {
        Self { contents, ..self }
    }

    /// The end of the node whose last call it is, if it is one.
    pub fn settling(self, settles: Option<NodeRun>) -> Self {
        Self { settles: settles.into_iter().collect(), ..self }
    }

    fn outcome(self, changeset: Option<ChangesetId>, changes: Vec<NewChange>) -> CallOutcome {
        let Self { attempt, no, end, contents, settles } = self;
        CallOutcome { attempt, no, end, changeset, changes, contents, settles }
    }
}

/// The context of one claim: what all nodes of the running phase share. `Clone` is the same context.
#[derive(Clone)]
pub struct PlanExecutionContext {
    shared: Arc<Shared>,
}

struct Shared {
    claim: Claim,
    scope: Observed,
    gate: EffectGate,
    store: Arc<dyn RecordStore>,
    ids: Arc<dyn Ids>,
}

impl Shared {
    /// The right to write, unless the plan is cancelled.
    fn enter(&self) -> Result<Effect, PlanError> {
        self.scope.check()?;
        Ok(self.gate.enter()?)
    }
}

impl PlanExecutionContext {
    /// The context of `claim`, cancelled with `scope`, writing through `gate` into `store`.
    pub fn new(
        claim: Claim,
        scope: Observed,
        gate: EffectGate,
        store: Arc<dyn RecordStore>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self { shared: Arc::new(Shared { claim, scope, gate, store, ids }) }
    }

    /// The plan.
    pub fn plan(&self) -> PlanId {
        self.shared.claim.plan
    }

    /// The claim under which everything is written.
    pub fn claim(&self) -> &Claim {
        &self.shared.claim
    }

    /// Starts a changeset. It is open, and the latest, when this returns, and in no half-way state before.
    ///
    /// # Errors
    /// The plan is cancelled, the lease lost, or the store failed.
    pub async fn start_changeset(&self) -> Result<ChangesetHandle, PlanError> {
        let shared = &self.shared;
        let effect = shared.enter()?;
        let id = ChangesetId::from_u128(shared.ids.ulid());
        let started = shared.store.start(&effect, &shared.claim, id).await?;
        Ok(ChangesetHandle { context: self.clone(), id: started.id })
    }

    /// Records into the most recently started changeset that is still open.
    ///
    /// # Errors
    /// [`PlanError::NoActiveChangeset`] when none is open; else as [`ChangesetHandle::record`].
    pub async fn record_change(&self, change: NewChange) -> Result<RecordedChange, PlanError> {
        let shared = &self.shared;
        let effect = shared.enter()?;
        Ok(shared.store.record_latest(&effect, &shared.claim, change).await?)
    }

    /// Ends a call that changed nothing. Ending it again in the same way answers as the first time.
    ///
    /// # Errors
    /// The lease is lost, the call ended otherwise, or the store failed.
    pub async fn end_call(&self, by: CallAuthority<'_>, ended: EndedCall) -> Result<(), PlanError> {
        let shared = &self.shared;
        shared.store.end_call(by, &shared.claim, ended.outcome(None, Vec::new())).await?;
        Ok(())
    }
}

impl std::fmt::Debug for PlanExecutionContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanExecutionContext")
            .field("claim", &self.shared.claim)
            .field("scope", &self.shared.scope)
            .finish_non_exhaustive()
    }
}

/// One changeset, which all that is recorded here goes into. `Clone` is the same changeset; dropping it
/// closes nothing.
#[derive(Clone, Debug)]
pub struct ChangesetHandle {
    context: PlanExecutionContext,
    id: ChangesetId,
}

impl ChangesetHandle {
    /// The changeset.
    pub fn id(&self) -> ChangesetId {
        self.id
    }

    /// Records a change into this changeset. The same change id again answers as the first time.
    ///
    /// # Errors
    /// [`PlanError::ChangesetClosed`] gives the entry back. Otherwise the plan is cancelled, the lease lost,
    /// the entry contradicts what was recorded under its id, or the store failed.
    pub async fn record(&self, change: NewChange) -> Result<RecordedChange, PlanError> {
        let shared = &self.context.shared;
        let effect = shared.enter()?;
        Ok(shared.store.record(&effect, &shared.claim, self.id, change).await?)
    }

    /// Ends a call and records what it changed into this changeset: all of it in one step, or nothing. Ending
    /// it again in the same way answers as the first time.
    ///
    /// No scope is tested: what a call changed is recorded for it, whatever has been stopped meanwhile.
    ///
    /// # Errors
    /// [`PlanError::ChangesetClosed`] gives the first entry back. Otherwise the lease is lost, the call ended
    /// otherwise, an entry contradicts what was recorded under its id, or the store failed.
    pub async fn record_call_end(
        &self,
        by: CallAuthority<'_>,
        ended: EndedCall,
        changes: Vec<NewChange>,
    ) -> Result<Vec<RecordedChange>, PlanError> {
        let shared = &self.context.shared;
        Ok(shared.store.end_call(by, &shared.claim, ended.outcome(Some(self.id), changes)).await?)
    }

    /// Closes this changeset. Closing again answers as the first time.
    ///
    /// # Errors
    /// The plan is cancelled, the lease lost, or the store failed.
    pub async fn close(&self) -> Result<ClosedChangeset, PlanError> {
        let shared = &self.context.shared;
        let effect = shared.enter()?;
        Ok(shared.store.close(&effect, &shared.claim, self.id).await?)
    }
}
