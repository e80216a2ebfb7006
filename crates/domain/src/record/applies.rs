//! Applies of a plan to the user's files: sealed by the owner, ended by the process that holds the journal.

use super::apply::{ApplyEnd, ApplyRecord, ApplyStage, NewApply};
use super::event_draft;
use super::{PlanRecord, wall};
use crate::id::{ApplyId, Claim};
use crate::job::{Job, JobEvent, JobTransitionRejection, LeaseLost};
use crate::plan::{ConstraintReason, Initiator, PlanEvent, why_constrained};
use crate::time::Ms;

impl PlanRecord {
    /// Ends the owner's job as failed and leaves its plan constrained, if it is an apply.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or a cancel was requested before.
    pub fn constrain(
        &mut self,
        claim: &Claim,
        reasons: Vec<ConstraintReason>,
        now: Ms,
    ) -> Result<&Job, JobTransitionRejection> {
        let event = JobEvent::Fail { fence: claim.fence, why: why_constrained(&reasons) };
        self.move_job(claim.job, &event, Some(reasons), now)
    }

    /// Seals the owner's job and stores the apply; the same again does no more.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, a cancel was requested before, or the id names
    /// another apply or one that ended.
    pub fn seal_apply(
        &mut self,
        claim: &Claim,
        new: NewApply,
        now: Ms,
    ) -> Result<(), JobTransitionRejection> {
        let seal = JobEvent::Seal { fence: claim.fence };
        let lost = LeaseLost { job: claim.job, fence: claim.fence };
        let job = self.jobs.get(&claim.job).filter(|job| job.plan == new.plan).ok_or(lost)?;
        job.next(&seal, now)?;
        if self.applies.get(&new.id).is_some_and(|known| !known.is_sealed_as(&new)) {
            return Err(JobTransitionRejection::ApplyTaken { apply: new.id });
        }
        self.move_job(claim.job, &seal, None, now)?;
        self.begin_apply(new, now);
        Ok(())
    }

    /// Stores an undo, or an apply of a plan that was undone, as sealed; a known id stays as it is.
    pub fn begin_apply(&mut self, new: NewApply, now: Ms) {
        self.id.get_or_insert(new.plan);
        self.errors.belongs_to(new.plan);
        self.applies.entry(new.id).or_insert_with(|| ApplyRecord::sealed(new, wall(now)));
    }

    /// Ends an apply, with all that this means for job and plan; says whether it was there and open.
    pub fn end_apply(&mut self, id: ApplyId, end: ApplyEnd, now: Ms) -> bool {
        let Some(ended) = self.applies.get(&id).and_then(|apply| apply.ended(&end, wall(now))) else {
            return false;
        };
        let others = self.applies.values().any(|apply| apply.id != id && apply.stage == ApplyStage::Sealed);
        let state = self.plan.as_ref().map(|plan| plan.state);
        let live = self.live_job().map(|job| job.id);
        let moves = ended.moves(&end, state, self.live_job(), others);
        let reasons = match end {
            ApplyEnd::RolledBack(reasons) => Some(reasons),
            ApplyEnd::Applied | ApplyEnd::NeverBegan => None,
        };
        if let (Some(job), Some(event)) = (live, &moves.job) {
            // Its fence is the job's own and a seal admits no cancel, so nothing can refuse it.
            let moved = self.move_job(job, event, reasons, now);
            debug_assert!(moved.is_ok(), "{moved:?}");
        }
        for event in moves.plan {
            self.move_without_job(*event, now);
        }
        if let Some(undone) = moves.undone {
            self.keep_undone(undone, &ended, now);
        }
        self.applies.insert(id, ended);
        true
    }

    fn move_without_job(&mut self, event: PlanEvent, now: Ms) {
        let moved = self.plan.as_ref().and_then(|plan| plan.moved(event, Vec::new(), wall(now)).ok());
        if let Some(moved) = moved {
            self.keep_moved(moved, event, Initiator::Journal, now);
        }
    }

    fn keep_undone(&mut self, undone: bool, apply: &ApplyRecord, now: Ms) {
        let at = undone.then_some(wall(now));
        if let Some(plan) = self.plan.as_mut().filter(|plan| plan.undone_at.is_some() != undone) {
            *plan = plan.undone(at, wall(now));
            self.tell([event_draft::plan_undone(apply.kind, apply.id)], now);
        }
    }
}
