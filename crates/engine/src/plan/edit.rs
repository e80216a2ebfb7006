//! Edits of a person: a hunk of a finished plan gets another text, without running the plan.
//!
//! # Invariants
//! 1. An edit is recorded as a call of its own, [`EDIT_BY_USER`], with one entry: `plan diff` and `plan logs`
//!    show it as the person's.
//! 2. An edit is of the content that the person saw. If the file is another by then, the edit is refused.
//! 3. Checks that passed do not count for an edited result: their results belong to the changes that they ran
//!    on.

use domain::{
    CallNumber, CallState, ChangeDraft, ChangeId, ChangesetId, FileState, Hash, Hunk, HunkAddress, Initiator,
    MoveRecord, NetChange, NewCall, NewChange, Plan, PlanEvent, PlanId, PlanState, TEXT_BYTES_MAX, new_text,
    with_new_text,
};
use serde_json::{Value, json};
use store::{PlanMove, PlanStoreError, StoreError};

use super::execute::ExecuteError;
use super::transition::plan_move;
use crate::engine::Engine;
use crate::query::diff::{FileDiff, aliases};

/// The tool of a call by which a person edits.
pub const EDIT_BY_USER: &str = "edit_by_user";
/// The node of such a call.
const NODE: &str = "review";

/// The new text of a hunk, for a person to edit.
#[derive(Clone, Debug)]
pub struct HunkText {
    /// The hunk.
    pub address: HunkAddress,
    /// The name of its file, without directories.
    pub file_name: Vec<u8>,
    /// The text.
    pub text: Vec<u8>,
    /// The hash of the content of the file.
    pub seen: Hash,
}

/// The reason why a hunk was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The plan has no such hunk, or the file is another by now.
    #[error("{address} is no longer there as it was shown")]
    Moved {
        /// The hunk.
        address: HunkAddress,
    },
    /// The new content is not a text, or too long.
    #[error("the new content of {file} is not a text of at most 4 MiB")]
    NotText {
        /// The file.
        file: String,
    },
    /// The plan waits, is worked on, or is applied.
    #[error("plan {plan} cannot be edited: it is {state}")]
    NotFinished {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// Another process moved it meanwhile.
    #[error("plan {plan} was moved by another process")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// The content cannot be stored.
    #[error("the edit cannot be stored: {0}")]
    Content(#[source] std::io::Error),
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for EditError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// Returns the new text of a hunk, to be edited.
    ///
    /// # Errors
    /// Returns an error if there is no such hunk, or if the plan is not finished.
    pub async fn hunk_text(&self, id: PlanId, address: &HunkAddress) -> Result<HunkText, EditError> {
        let (_, file, hunk) = self.editable(id, address).await?;
        let moved = || EditError::Moved { address: address.clone() };
        Ok(HunkText {
            address: address.clone(),
            file_name: file.change.path.file_name().to_vec(),
            text: new_text(&hunk),
            seen: file.change.after.ok_or_else(moved)?.hash,
        })
    }

    /// Records what a person made of the new text of a hunk. Returns false, and records nothing, if it is the
    /// same text.
    ///
    /// # Errors
    /// Returns an error, and records nothing, if the file is another by now, if the plan is not finished, or if
    /// the edit cannot be stored.
    pub async fn edit_by_user(&self, id: PlanId, shown: &HunkText, text: &[u8]) -> Result<bool, EditError> {
        let address = &shown.address;
        let (plan, file, hunk) = self.editable(id, address).await?;
        let moved = || EditError::Moved { address: address.clone() };
        let before = file.change.after.filter(|after| after.hash == shown.seen).ok_or_else(moved)?;
        let content = with_new_text(file.after.as_deref().ok_or_else(moved)?, &hunk, text);
        let after = FileState::file(&content, before.mode);
        if !after.text || after.size > TEXT_BYTES_MAX {
            return Err(EditError::NotText { file: file.address });
        }
        let Some(draft) = ChangeDraft::between(file.change.path.clone(), Some(before), Some(after)) else {
            return Ok(false);
        };
        let staged = self.inner.store.stage(&mut content.as_slice()).map_err(EditError::Content)?;
        let record = Some(self.user_entry(&plan, &file.change, draft, address));
        let contents = vec![staged];
        let amend = plan_move(&plan, PlanEvent::Amend, Initiator::User, None);
        match self.move_plan(PlanMove { record, contents, ..amend }).await {
            Ok(_) => Ok(true),
            Err(ExecuteError::Busy { .. }) => Err(EditError::Busy { plan: id }),
            Err(ExecuteError::Plan(error)) => Err(error.into()),
            Err(other) => Err(StoreError::Broken { why: other.to_string() }.into()),
        }
    }

    /// Returns the plan, the file and the hunk, if the plan can be amended.
    async fn editable(&self, id: PlanId, address: &HunkAddress) -> Result<(Plan, FileDiff, Hunk), EditError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.moved(PlanEvent::Amend, Vec::new(), plan.updated).is_err() {
            return Err(EditError::NotFinished { plan: id, state: plan.state });
        }
        let names = aliases(&plan);
        let net = self.inner.net_changes(&plan).await?;
        let is_it = |change: &NetChange| domain::change_address(change, &names) == address.file;
        let moved = || EditError::Moved { address: address.clone() };
        let change = net.into_iter().find(is_it).ok_or_else(moved)?;
        let file = self.inner.file_diff(change, &names);
        let hunk = file.hunks.iter().find(|hunk| hunk.number == address.number).cloned();
        Ok((plan, file, hunk.ok_or_else(moved)?))
    }

    /// The call and its entry, to be recorded.
    fn user_entry(
        &self,
        plan: &Plan,
        change: &NetChange,
        draft: ChangeDraft,
        address: &HunkAddress,
    ) -> MoveRecord {
        let entry = NewChange {
            id: ChangeId::from_u128(self.inner.ids.ulid()),
            call: CallNumber(0),
            root: change.root,
            base: change.base,
            draft,
        };
        let call = NewCall {
            attempt: plan.attempt,
            node: NODE.to_owned(),
            tool: EDIT_BY_USER.to_owned(),
            requested: json!({ "hunk": address.to_string() }),
            effective: Value::Null,
        };
        let result = json!({ "text": format!("you edited {address}\n") });
        let end = self.inner.ended(self.inner.wall(), (CallState::Ok, None, result));
        let changeset = ChangesetId::from_u128(self.inner.ids.ulid());
        MoveRecord { changeset, call, end, changes: vec![entry] }
    }
}
