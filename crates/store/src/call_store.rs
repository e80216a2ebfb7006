//! The port for tool calls and sandboxes: admitted before they begin, ended with all that they changed in one
//! step.

use async_trait::async_trait;
use domain::{
    CallEnd, CallNumber, ChangesetId, Claim, NewCall, NewChange, NodeRun, PlanId, RecordedChange,
    SandboxRecord, ToolCall,
};
use sync::{Effect, Finisher};

use crate::content_store::StagedContent;
use crate::{ChangesetStoreError, StoreError};

/// The right to the last write of a call: of the run itself, or of the process that finishes an interrupted
/// one.
#[derive(Clone, Copy, Debug)]
pub enum CallAuthority<'a> {
    /// Within the run.
    Effect(&'a Effect),
    /// After the gate was closed.
    Finisher(&'a Finisher),
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// The plan's attempt.
    pub attempt: u32,
    /// The call.
    pub no: CallNumber,
    /// The way in which the call ended.
    pub end: CallEnd,
    /// The changeset that its changes go into; it has to be open, or to be closed already with these same
    /// changes. None only if there are none.
    pub changeset: Option<ChangesetId>,
    /// The changes of the call, in order.
    pub changes: Vec<NewChange>,
    /// The contents that changes and outputs name, as far as they are not stored yet.
    pub contents: Vec<StagedContent>,
    /// The nodes that are settled by it, as [`NodeStore::settle_nodes`](crate::NodeStore::settle_nodes)
    /// stores them.
    pub settles: Vec<NodeRun>,
}

/// Stores tool calls, and the sandboxes that they ran in.
#[async_trait]
pub trait CallStore: Send + Sync {
    /// Admits a call: gives it its number and stores it as running. The same request again admits another
    /// call.
    async fn begin_call(&self, effect: &Effect, claim: &Claim, new: NewCall) -> Result<ToolCall, StoreError>;

    /// Ends a call: its end, its changes and their contents, the nodes that it settles, all or none. Asked
    /// again, the answer is the same; a call that ended otherwise stays as it ended, and the answer is
    /// `CallEnded`.
    async fn end_call(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError>;

    /// The calls of a plan in order of attempt and number; none for an unknown plan.
    async fn calls(&self, plan: PlanId) -> Result<Vec<ToolCall>, StoreError>;

    /// Records that a sandbox was opened. The same plan and attempt again replaces the record.
    async fn sandbox_opened(
        &self,
        effect: &Effect,
        claim: &Claim,
        record: SandboxRecord,
    ) -> Result<(), StoreError>;

    /// Records that it was closed, and what capture left out. One that was never opened is not recorded.
    async fn sandbox_closed(&self, record: SandboxRecord) -> Result<(), StoreError>;

    /// The sandboxes of a plan in order of attempt; none for an unknown plan.
    async fn sandboxes(&self, plan: PlanId) -> Result<Vec<SandboxRecord>, StoreError>;
}
