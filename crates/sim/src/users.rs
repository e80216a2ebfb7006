//! The users: each makes a plan, lets it continue and tries again for a while. Other users cancel it.
//!
//! # Invariants
//! 1. A command whose outcome is unknown is given again as it was, so that it happens once.
//! 2. A user continues to the end: every step that needs no answer is taken.

use std::sync::Arc;
use std::time::Duration;

use ::worker::{Ids, StopMode};
use domain::{
    ApplyState, CallEnd, CallState, ChangeEntry, ChangeId, ChangesetId, DecisionKind, GateDecision,
    Initiator, Job, JobTransitionRejection, MoveRecord, NewCall, NewDecision, Phase, Plan, PlanEvent, PlanId,
    PlanState, WorkState, fold,
};
use serde_json::Value;
use store::{ChangesetStore, JobStore, JobStoreError, PlanMove, PlanStore, PlanStoreError, StoreError};
use sync::Clock;

use crate::executor::TaskGroup;
use crate::faulty::{FaultyStore, StoreUser};
use crate::housekeeping;
use crate::scenario::PlanScript;
use crate::worker::WorkerProcess;
use crate::world::{SimIds, SimWorld};

/// The most times that a command that failed is given again.
const AGAIN_MAX: u32 = 3;

/// The node of the call with which a revision begins.
pub(crate) const REVISE: &str = "revise";

/// A person at a terminal.
pub(crate) struct SimUser {
    world: Arc<SimWorld>,
    store: Arc<FaultyStore>,
    ids: SimIds,
}

impl SimUser {
    pub(crate) fn new(world: &Arc<SimWorld>) -> Self {
        let store = FaultyStore::new(world, StoreUser::Person);
        Self { world: Arc::clone(world), store, ids: SimIds::new(world) }
    }

    /// Makes the plan, and stays with it until it is final, or waits for nothing but a person when the faults
    /// are over.
    pub(crate) async fn see_through(self, script: PlanScript) {
        self.world.clock.sleep(script.begins_after).await;
        self.make(&script).await;
        let mut patience = script.patience;
        loop {
            self.world.hint();
            self.world.clock.sleep(self.world.scenario.lease / 8).await;
            let have_ended = self.world.faults().have_ended();
            let Ok(plan) = self.store.plan(script.id).await else { continue };
            if plan.state.is_final() {
                return;
            }
            let Ok(next) = self.next(&script, &plan, if have_ended { 0 } else { patience }).await else {
                continue;
            };
            match next {
                Some((event, phase)) => {
                    let is_due = event == PlanEvent::Advance;
                    patience -= u32::from(!is_due && patience > 0);
                    // Every command first settles the work of dead processes.
                    housekeeping::keep_house(&self.world, TaskGroup::STAGE, &self.store).await;
                    self.move_plan(&plan, event, phase).await;
                }
                None if have_ended && !plan.state.has_live_job() => return,
                None => {}
            }
        }
    }

    async fn make(&self, script: &PlanScript) {
        let prompt = NewDecision {
            parent: None,
            attempt: 1,
            phase: Phase::Strategize,
            kind: DecisionKind::Prompt,
            question: "what?".to_owned(),
            chosen: "it".to_owned(),
            rationale: String::new(),
            confidence: None,
            alternatives: Vec::new(),
            depends_on: Vec::new(),
            node: None,
            at_entry: 0,
            supersedes: Vec::new(),
        };
        let job = script.new_job(self.ids.ulid(), Phase::Strategize);
        while self.store.create(script.new_plan(), vec![prompt.clone()], job).await.is_err() {
            self.world.clock.sleep(self.world.scenario.lease / 20).await;
        }
    }

    /// Does what the user does about the plan in its present state.
    async fn next(
        &self,
        script: &PlanScript,
        plan: &Plan,
        patience: u32,
    ) -> Result<Option<(PlanEvent, Phase)>, StoreError> {
        let again = |event, phase| (patience > 0).then_some((event, phase));
        Ok(match plan.state {
            PlanState::Strategize(WorkState::Complete) => Some((PlanEvent::Advance, Phase::Execute)),
            PlanState::Execute(WorkState::Complete) => {
                let entries = self.store.entries(plan.id, plan.attempt).await?;
                let may_apply = script.applies == GateDecision::Auto && !fold(&entries).is_empty();
                if may_apply {
                    Some((PlanEvent::Advance, Phase::Apply))
                } else {
                    let is_wanted = self.world.random().chance(2_000);
                    let event =
                        if self.world.random().chance(5_000) { PlanEvent::Revise } else { PlanEvent::Again };
                    again(event, Phase::Execute).filter(|_| is_wanted)
                }
            }
            PlanState::Strategize(WorkState::Errored) => again(PlanEvent::Retry, Phase::Strategize),
            PlanState::Execute(WorkState::Errored) if self.world.random().chance(3_000) => {
                again(PlanEvent::Revert, Phase::Strategize)
            }
            PlanState::Execute(WorkState::Errored) => again(PlanEvent::Retry, Phase::Execute),
            PlanState::Apply(ApplyState::Errored) => again(PlanEvent::Retry, Phase::Apply),
            PlanState::Apply(ApplyState::Constrained) if self.world.random().chance(5_000) => {
                again(PlanEvent::Revert, Phase::Strategize)
            }
            PlanState::Apply(ApplyState::Constrained) => again(PlanEvent::Reapply, Phase::Apply),
            PlanState::Strategize(WorkState::Queued | WorkState::Processing | WorkState::Cancelled)
            | PlanState::Execute(WorkState::Queued | WorkState::Processing | WorkState::Cancelled)
            | PlanState::Apply(
                ApplyState::Queued | ApplyState::Processing | ApplyState::Applied | ApplyState::Cancelled,
            ) => None,
        })
    }

    async fn move_plan(&self, plan: &Plan, event: PlanEvent, phase: Phase) {
        let id = domain::JobId::from_u128(self.ids.ulid());
        let job = domain::NewJob { id, plan: plan.id, phase, not_before: domain::Ms(0) };
        let record = if event == PlanEvent::Revise { self.carried_changes(plan).await } else { None };
        let request = PlanMove {
            plan: plan.id,
            version: plan.version,
            event,
            by: Initiator::User,
            job: Some(job),
            request: Value::Null,
            decisions: Vec::new(),
            record,
            contents: Vec::new(),
            spec: None,
        };
        for _ in 0..AGAIN_MAX {
            match self.store.move_plan(request.clone()).await {
                Err(PlanStoreError::Store(_)) => {}
                // Another user was faster; the next look shows it.
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// The changes with which a revision begins.
    async fn carried_changes(&self, plan: &Plan) -> Option<MoveRecord> {
        let entries =
            self.store.entries(plan.id, plan.attempt).await.ok().filter(|entries| !entries.is_empty())?;
        let again = |entry: &ChangeEntry| entry.recorded_again(ChangeId::from_u128(self.ids.ulid()));
        Some(MoveRecord {
            changeset: ChangesetId::from_u128(self.ids.ulid()),
            call: NewCall {
                attempt: plan.attempt,
                node: REVISE.to_owned(),
                tool: "carry_over".to_owned(),
                requested: Value::Null,
                effective: Value::Null,
            },
            end: CallEnd {
                state: CallState::Ok,
                duration_ms: 0,
                exit: None,
                error: None,
                result: Value::Null,
                isolation: None,
                stdout: None,
                stderr: None,
            },
            changes: entries.iter().map(again).collect(),
        })
    }

    /// Cancels a plan as a command of another process does, and waits until that is acknowledged.
    pub(crate) async fn cancel(self, id: PlanId) {
        for _ in 0..AGAIN_MAX {
            if self.try_cancel(id).await == CancelAttempt::Done {
                return;
            }
            self.world.clock.sleep(self.world.scenario.lease / 15).await;
        }
    }

    async fn try_cancel(&self, id: PlanId) -> CancelAttempt {
        // Every command first settles the work of dead processes.
        housekeeping::keep_house(&self.world, TaskGroup::STAGE, &self.store).await;
        let Ok(plan) = self.store.plan(id).await else { return CancelAttempt::Again };
        if plan.state.is_final() {
            return CancelAttempt::Done;
        }
        match self.live_job(id).await {
            Err(_) => CancelAttempt::Again,
            Ok(Some(job)) => self.cancel_job(&job).await,
            Ok(None) => self.cancel_idle(&plan).await,
        }
    }

    async fn live_job(&self, plan: PlanId) -> Result<Option<Job>, JobStoreError> {
        Ok(self.store.jobs(Some(plan)).await?.into_iter().rfind(|job| !job.state.is_final()))
    }

    async fn cancel_idle(&self, plan: &Plan) -> CancelAttempt {
        if housekeeping::sweep_plan(&self.world, plan.id, &self.store).await.is_err() {
            return CancelAttempt::Again;
        }
        let request = PlanMove {
            plan: plan.id,
            version: plan.version,
            event: PlanEvent::Cancel,
            by: Initiator::User,
            job: None,
            request: Value::Null,
            decisions: Vec::new(),
            record: None,
            contents: Vec::new(),
            spec: None,
        };
        match self.store.move_plan(request).await {
            Ok(_) => CancelAttempt::Done,
            Err(_) => CancelAttempt::Again,
        }
    }

    async fn cancel_job(&self, job: &Job) -> CancelAttempt {
        match self.store.cancel(job.id, "enough").await {
            Ok(_) => {}
            // It cannot be stopped any more.
            Err(JobStoreError::Refused(JobTransitionRejection::CancelTooLate)) => return CancelAttempt::Done,
            Err(_) => return CancelAttempt::Again,
        }
        self.world.hint();
        let owner_is_gone = job.worker.is_some_and(|worker| {
            let sign = self.world.machine().presence.get(&worker).copied();
            !sign.is_some_and(|group| self.world.executor.is_alive(group))
        });
        // The canceller takes the job over; the run that it begins finds the cancel and finishes it.
        let own = owner_is_gone.then(|| WorkerProcess::start(&self.world, Some(job.plan))).flatten();
        self.await_end(job).await;
        if let Some(own) = own {
            own.stop(&self.world, StopMode::Release);
        }
        CancelAttempt::Done
    }

    async fn await_end(&self, job: &Job) {
        let deadline = self.world.clock.now().saturating_add(self.world.scenario.lease);
        let mut pause = Duration::from_millis(50);
        while self.world.clock.now() < deadline {
            if self.store.job(job.id).await.is_ok_and(|job| job.state.is_final()) {
                return;
            }
            self.world.clock.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CancelAttempt {
    Done,
    Again,
}
