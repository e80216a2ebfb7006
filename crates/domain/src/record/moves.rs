//! Making a plan, and moving it by hand.

use super::apply::ApplyRecord;
use super::decisions::PriorDecisions;
use super::event_draft;
use super::{PlanRecord, wall};
use crate::change::changeset::{ChangesetEnding, ChangesetError, Changesets, ClosedChangeset};
use crate::decision::{Decision, NewDecision};
use crate::job::{JobTransitionRejection, NewJob};
use crate::plan::{
    Initiator, ManualTransition, MoveRecord, NewPlan, Plan, PlanEvent, PlanMoveError, TransitionResult,
};
use crate::record::tool_call::ToolCall;
use crate::time::Ms;

impl PlanRecord {
    /// Makes the plan with its first decisions and its first job; the same again returns the present plan.
    ///
    /// # Errors
    /// Returns an error if the id names another plan, or the job cannot be its first.
    pub fn create(
        &mut self,
        new: NewPlan,
        decisions: Vec<NewDecision>,
        job: NewJob,
        now: Ms,
    ) -> Result<Plan, PlanMoveError> {
        if let Some(plan) = &self.plan {
            let is_the_same = plan.was_made_by(&new) && self.began_with(&decisions, &job);
            return if is_the_same { Ok(plan.clone()) } else { Err(PlanMoveError::IdTaken { plan: new.id }) };
        }
        if self.jobs.contains_key(&job.id) {
            return Err(JobTransitionRejection::IdTaken { job: job.id }.into());
        }
        if let Some(live) = self.live_job() {
            return Err(JobTransitionRejection::PlanBusy { job: live.id }.into());
        }
        let (first, moves) = Plan::made_for(new, job.phase, wall(now));
        let plan = moves.last().map_or(&first, |(plan, _)| plan).clone();
        plan.waits_for(&job)?;
        let made = self.prepare_decisions(plan.id, decisions, PriorDecisions::AsTheyStand, now)?;
        self.plan = Some(plan.clone());
        self.tell([event_draft::plan_created(&first)], now);
        self.keep_decisions(&made, now);
        self.tell(event_draft::plan_made(&first, &moves), now);
        self.keep_queued(plan.queued(job, now), now);
        Ok(plan)
    }

    /// Moves the plan as a gate or a person asks for it, and queues the job that the move is for. The same
    /// again returns the present plan.
    ///
    /// # Errors
    /// Returns an error if there is no plan, or if [`ManualTransition::resolve`] does.
    pub fn move_plan(
        &mut self,
        asked: &ManualTransition,
        by: Initiator,
        now: Ms,
    ) -> Result<Plan, PlanMoveError> {
        let plan = self.plan.as_ref().ok_or(PlanMoveError::NotFound)?;
        let known = asked.job.and_then(|job| self.jobs.get(&job.id));
        match asked.resolve(plan, self.live_job(), known, now, wall(now))? {
            TransitionResult::Before => Ok(plan.clone()),
            TransitionResult::Now { .. } if self.applies().any(ApplyRecord::is_open) => {
                Err(asked.refused_by_open_apply().into())
            }
            TransitionResult::Now { plan, job } => {
                let decided = asked.decisions(&plan, by);
                let made = self.prepare_manual_decisions(plan.id, &decided, now)?;
                let recorded = match &asked.record {
                    Some(record) => Some(self.prepare_record(&plan, record, now)?),
                    None => None,
                };
                self.keep_moved((*plan).clone(), asked.event, by, now);
                self.keep_by_hand(&decided, &made, now);
                if let Some(recorded) = recorded {
                    self.keep_record(recorded, now);
                }
                if let Some(job) = job {
                    self.keep_queued(job, now);
                }
                Ok(*plan)
            }
        }
    }

    /// Returns the changesets with what comes with a move, without storing it.
    fn prepare_record(
        &self,
        moved: &Plan,
        record: &MoveRecord,
        now: Ms,
    ) -> Result<(Changesets, ToolCall, ClosedChangeset), ChangesetError> {
        let (call, changes) = record.resolve(moved, self.next_call(moved.attempt), wall(now));
        let mut changesets = self.changesets.clone();
        changesets.start_in(moved.attempt, record.changeset)?;
        changesets.record_all(record.changeset, changes)?;
        let closed = changesets.close(record.changeset)?;
        Ok((changesets, call, closed))
    }

    fn keep_record(&mut self, (changesets, call, closed): (Changesets, ToolCall, ClosedChangeset), now: Ms) {
        self.changesets = changesets;
        self.tell([event_draft::tool_started(&call)], now);
        self.tell(event_draft::tool_finished(&call, closed.entries as usize), now);
        self.tell([event_draft::changeset_closed(&closed, ChangesetEnding::Closed)], now);
        self.calls.insert((call.new.attempt, call.no), call);
    }

    /// Stores the plan after `event`.
    pub(super) fn keep_moved(&mut self, moved: Plan, event: PlanEvent, by: Initiator, now: Ms) {
        let told = self.plan.as_ref().map(|before| event_draft::plan_moved(before, &moved, event, by));
        self.plan = Some(moved);
        self.tell(told, now);
    }

    /// Returns whether these were the first decisions and a job of it.
    fn began_with(&self, decisions: &[NewDecision], job: &NewJob) -> bool {
        let has_job = self.jobs.get(&job.id).is_some_and(|known| known.phase == job.phase);
        has_job && Decision::are(&self.decisions, decisions)
    }
}
