//! A finished plan continues: `plan revise` begins a new attempt on top of the changes so far.
//!
//! # How
//! The message and the open notes become one guidance. The effective changes of the last attempt are recorded
//! as the first call of the new one, so that all that reads an attempt (diff, merge, apply, checks) finds the
//! whole result there. Their contents are stored already.
//!
//! A correction of a decision (`plan prompt --at`) is a revision that starts from the changes at the time of
//! the decision. The decision and all that rest upon it give way to the guidance.
//!
//! # Invariants
//! 1. Guidance, changes, move and job are one transaction. If the process is killed, the plan is as it was,
//!    or the revision is queued with all of it.
//! 2. One of several revisions at once is done; the others are refused.
//! 3. Nothing of the old verdict holds for the new result: the checks run again.
//!
//! # Not here
//! The work of the attempt: `run::phase::execute`. The notes: `notes`.

use std::sync::Arc;

use domain::{
    CallNumber, CallState, ChangeEntry, ChangeId, ChangesetId, Decision, HELD, Initiator, MoveRecord,
    NewCall, NewDecision, Phase, Plan, PlanEvent, PlanId, PlanSpec, PlanState, affected,
};
use serde_json::{Value, json};
use store::{PlanMove, PlanStoreError, StoreError};

use super::built_in_decisions;
use super::create::{NewPlanRequest, UseError};
use super::execute::ExecuteError;
use super::guidance::GUIDANCE_BYTES_MAX;
use super::notes::{as_request, open_notes};
use super::transition::plan_move;
use crate::engine::{Engine, EngineInner};
use crate::query::effective_changes::{CARRY_OVER, standing};
use crate::run::plan_sandbox::content::StoreContents;

/// The node of the call with which a revision begins.
const NODE: &str = "revise";

/// The reason why a plan was not revised.
#[derive(Debug, thiserror::Error)]
pub enum ReviseError {
    /// There is neither a message nor an open note, or too much of it.
    #[error("a revision needs a message or an open note, of at most {GUIDANCE_BYTES_MAX} bytes in all")]
    Message {
        /// The number of bytes.
        bytes: usize,
    },
    /// It is in the user's files already.
    #[error("plan {plan} is applied")]
    Applied {
        /// The plan.
        plan: PlanId,
    },
    /// It waits, is worked on, or has not begun its work.
    #[error("plan {plan} is {state}")]
    NotFinished {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// It has no such decision in force.
    #[error("plan {plan} has no decision {seq} that is in force")]
    NoSuchDecision {
        /// The plan.
        plan: PlanId,
        /// The number of the decision.
        seq: u32,
    },
    /// The decision belongs to the strategy, which a revision does not work out again.
    #[error("decision {seq} of plan {plan} belongs to its strategy")]
    OfStrategy {
        /// The plan.
        plan: PlanId,
        /// The number of the decision.
        seq: u32,
    },
    /// It cannot work as asked.
    #[error(transparent)]
    Use(#[from] UseError),
    /// Another process moved it meanwhile.
    #[error("plan {plan} was moved by another process")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// The content of a change is not stored any more.
    #[error("the content of {path} in plan {plan} is not stored any more")]
    ContentGone {
        /// The plan.
        plan: PlanId,
        /// The changed file.
        path: String,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for ReviseError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// Queues a new attempt of the plan that starts from its changes, with this message and all open notes.
    /// `spec` is another actor, or more checks. Returns the notes that it takes along.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if the plan is applied or not finished, if there is nothing to say,
    /// or if a content is gone.
    pub async fn revise(
        &self,
        id: PlanId,
        message: &str,
        spec: Option<PlanSpec>,
    ) -> Result<Vec<Decision>, ReviseError> {
        let plan = self.inner.store.plan(id).await?;
        may_revise(&plan)?;
        let notes = open_notes(&self.inner.store.decisions(id).await?);
        let request = as_request(&self.inner.redactor.redact_text(message.trim()), &notes);
        if request.is_empty() || request.len() > GUIDANCE_BYTES_MAX {
            return Err(ReviseError::Message { bytes: request.len() });
        }
        let mut guidance = built_in_decisions::guidance(&request);
        guidance.depends_on = notes.iter().map(|note| note.seq).collect();
        let spec = match spec {
            Some(spec) => {
                let (title, projects) = (plan.title.clone(), plan.projects.clone());
                Some(self.checked(NewPlanRequest { title, spec, projects })?.spec)
            }
            None => None,
        };
        let entries = self.inner.entries(&plan).await?;
        self.begin_revision(&plan, guidance, &entries, spec).await?;
        Ok(notes)
    }

    /// Queues a new attempt that starts from the changes at the time of a decision, with this message. The
    /// decision and those that rest upon it give way.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if there is no such decision of execute in force, or as
    /// [`revise`](Self::revise).
    pub async fn correct(&self, id: PlanId, seq: u32, message: &str) -> Result<(), ReviseError> {
        let plan = self.inner.store.plan(id).await?;
        may_revise(&plan)?;
        let all = self.inner.store.decisions(id).await?;
        let decision = correctable(&plan, &all, seq)?;
        let message = self.inner.redactor.redact_text(message.trim());
        let request = format!(
            "Instead of the decision \"{}\": {message}\nWhat was done after that decision was rolled back: the \
             working tree is as it was then.",
            decision.new.chosen
        );
        if message.is_empty() || request.len() > GUIDANCE_BYTES_MAX {
            return Err(ReviseError::Message { bytes: message.len() });
        }
        let mut guidance = built_in_decisions::guidance(&request);
        guidance.supersedes = affected(&all, seq).into_iter().collect();
        let then = Plan { attempt: decision.new.attempt, ..plan.clone() };
        let mut entries = self.inner.store.entries(id, then.attempt).await?;
        entries.retain(|entry| entry.no <= decision.new.at_entry);
        let entries = standing(entries, &self.inner.calls(&then).await?);
        self.begin_revision(&plan, guidance, &entries, None).await
    }

    /// Returns an error if this decision of a plan cannot be corrected now.
    ///
    /// # Errors
    /// As [`correct`](Self::correct).
    pub async fn may_correct(&self, id: PlanId, seq: u32) -> Result<(), ReviseError> {
        let plan = self.inner.store.plan(id).await?;
        may_revise(&plan)?;
        correctable(&plan, &self.inner.store.decisions(id).await?, seq).map(drop)
    }

    async fn begin_revision(
        &self,
        plan: &Plan,
        guidance: NewDecision,
        entries: &[ChangeEntry],
        spec: Option<PlanSpec>,
    ) -> Result<(), ReviseError> {
        let id = plan.id;
        let job = self.new_job(id, Phase::Execute, HELD);
        let revise = PlanMove {
            decisions: vec![guidance],
            record: self.inner.carried_changes(plan, entries)?,
            spec: spec.map(Arc::new),
            ..plan_move(plan, PlanEvent::Revise, Initiator::User, Some(job))
        };
        match self.move_plan(revise).await {
            Ok(_) => Ok(()),
            Err(ExecuteError::Busy { .. }) => Err(ReviseError::Busy { plan: id }),
            Err(ExecuteError::Plan(error)) => Err(error.into()),
            Err(other) => Err(StoreError::Broken { why: other.to_string() }.into()),
        }
    }
}

impl Engine {
    /// Takes the changes of a run that failed or was stopped as the result of the plan.
    ///
    /// # Errors
    /// Returns an error if the plan is not in such a state, or was moved meanwhile.
    pub async fn accept_partial(&self, id: PlanId) -> Result<(), ExecuteError> {
        let plan = self.inner.store.plan(id).await?;
        self.move_plan(plan_move(&plan, PlanEvent::Accept, Initiator::User, None)).await.map(drop)
    }
}

/// Returns the decision, if it is in force and was taken in execute.
fn correctable<'d>(plan: &Plan, all: &'d [Decision], seq: u32) -> Result<&'d Decision, ReviseError> {
    let found = all.iter().find(|decision| decision.seq == seq && decision.is_live());
    let found = found.ok_or(ReviseError::NoSuchDecision { plan: plan.id, seq })?;
    match found.new.phase {
        Phase::Execute => Ok(found),
        Phase::Strategize | Phase::Apply => Err(ReviseError::OfStrategy { plan: plan.id, seq }),
    }
}

/// Returns an error if the plan cannot continue in its state.
fn may_revise(plan: &Plan) -> Result<(), ReviseError> {
    match plan.moved(PlanEvent::Revise, Vec::new(), plan.updated) {
        Ok(_) => Ok(()),
        Err(_) if plan.state == PlanState::Apply(domain::ApplyState::Applied) => {
            Err(ReviseError::Applied { plan: plan.id })
        }
        Err(_) => Err(ReviseError::NotFinished { plan: plan.id, state: plan.state }),
    }
}

impl EngineInner {
    /// Returns these changes, to be recorded as the beginning of the plan's next attempt; `None` if there are
    /// none.
    fn carried_changes(
        &self,
        plan: &Plan,
        entries: &[ChangeEntry],
    ) -> Result<Option<MoveRecord>, ReviseError> {
        if entries.is_empty() {
            return Ok(None);
        }
        self.check_contents(plan, entries)?;
        let again = |entry: &ChangeEntry| entry.recorded_again(ChangeId::from_u128(self.ids.ulid()));
        let call = NewCall {
            attempt: plan.attempt,
            node: NODE.to_owned(),
            tool: CARRY_OVER.to_owned(),
            requested: json!({ "attempt": plan.attempt }),
            effective: Value::Null,
        };
        Ok(Some(MoveRecord {
            changeset: ChangesetId::from_u128(self.ids.ulid()),
            end: self.ended(self.wall(), (CallState::Ok, None, json!({ "entries": entries.len() }))),
            changes: entries.iter().map(again).collect(),
            call,
        }))
    }

    fn check_contents(&self, plan: &Plan, entries: &[ChangeEntry]) -> Result<(), ReviseError> {
        let stored = StoreContents(self.store.as_ref());
        for change in domain::fold(entries) {
            let has_content = |state: &domain::FileState| state.kind != domain::Kind::Dir;
            if let Some(state) = change.after.filter(has_content)
                && state.hash != sandbox::capture::UNKNOWN_CONTENT
                && !stored.has(&state.hash)
            {
                return Err(ReviseError::ContentGone { plan: plan.id, path: change.path.to_string() });
            }
        }
        Ok(())
    }
}

/// Returns the number of the attempt that this one continues; `None` if it starts from the live tree.
pub(crate) fn continued_attempt(calls: &[domain::ToolCall], attempt: u32) -> Option<u32> {
    let carries = |call: &&domain::ToolCall| {
        call.new.attempt == attempt && call.new.tool == CARRY_OVER && call.no == CallNumber(1)
    };
    let carried = calls.iter().find(carries)?;
    carried.new.requested.get("attempt").and_then(Value::as_u64).and_then(|no| u32::try_from(no).ok())
}
