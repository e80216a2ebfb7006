//! Records of the owner of a plan's job: changes, calls, sandboxes and errors.

use super::event_draft;
use super::sandbox::SandboxRecord;
use super::tool_call::{FinishedCall, NewCall, ToolCall};
use super::{PlanRecord, RecordError, wall};
use crate::change::NewChange;
use crate::change::changeset::{
    ChangesetEnding, ChangesetError, ChangesetState, ClosedChangeset, RecordedChange, StartedChangeset,
};
use crate::failure::NewError;
use crate::failure::retry::{RecoveryAdvice, RecoveryPolicy};
use crate::id::{CallNumber, ChangesetId, Claim};
use crate::job::LeaseLost;
use crate::time::Ms;

impl PlanRecord {
    /// Starts a changeset for the owner, in the plan's attempt; see
    /// [`Changesets::start_in`](crate::Changesets::start_in).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or the changeset refuses.
    pub fn start_changeset(
        &mut self,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, RecordError> {
        self.guard(claim)?;
        let attempt = self.plan.as_ref().map_or(1, |plan| plan.attempt);
        Ok(self.changesets.start_in(attempt, id)?)
    }

    /// Records a change of the owner; see [`Changesets::record`](crate::Changesets::record).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or the changeset refuses.
    pub fn record(
        &mut self,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.record(id, change)?)
    }

    /// Records a change of the owner into its latest open changeset; see
    /// [`Changesets::record_latest`](crate::Changesets::record_latest).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or no changeset is open.
    pub fn record_latest(&mut self, claim: &Claim, change: NewChange) -> Result<RecordedChange, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.record_latest(change)?)
    }

    /// Closes a changeset for the owner; see [`Changesets::close`](crate::Changesets::close).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or there is no such changeset.
    pub fn close(&mut self, claim: &Claim, id: ChangesetId, now: Ms) -> Result<ClosedChangeset, RecordError> {
        self.guard(claim)?;
        let was_open = self.changesets.get(id).is_some_and(|set| set.state == ChangesetState::Open);
        let closed = self.changesets.close(id)?;
        self.tell(was_open.then(|| event_draft::changeset_closed(&closed, ChangesetEnding::Closed)), now);
        Ok(closed)
    }

    /// Ends every open changeset for the owner; see [`Changesets::finish`](crate::Changesets::finish).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn finish(
        &mut self,
        claim: &Claim,
        how: ChangesetEnding,
        now: Ms,
    ) -> Result<Vec<ClosedChangeset>, LeaseLost> {
        self.guard(claim)?;
        Ok(self.end_changesets(how, now))
    }

    /// Admits a call of the owner, under the next number of its attempt.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn begin_call(&mut self, claim: &Claim, new: NewCall, now: Ms) -> Result<ToolCall, LeaseLost> {
        self.guard(claim)?;
        let no = self.next_call(new.attempt);
        let call = ToolCall { plan: claim.plan, no, started: wall(now), new, end: None };
        self.tell([event_draft::tool_started(&call)], now);
        self.calls.insert((call.new.attempt, no), call.clone());
        Ok(call)
    }

    /// The number of the attempt's next call.
    pub(super) fn next_call(&self, attempt: u32) -> CallNumber {
        let of_attempt = (attempt, CallNumber(0))..=(attempt, CallNumber(u32::MAX));
        let last = self.calls.range(of_attempt).next_back().map_or(0, |((_, no), _)| no.0);
        CallNumber(last.saturating_add(1))
    }

    /// Ends a call of the owner, records its changes and stores the nodes that it settles: all or none.
    /// Asked again, the answer is the same.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, there is no such call or it ended otherwise, or the
    /// changeset refuses.
    pub fn end_call(
        &mut self,
        claim: &Claim,
        finished: FinishedCall,
        now: Ms,
    ) -> Result<Vec<RecordedChange>, RecordError> {
        self.guard(claim)?;
        let FinishedCall { attempt, no, end, changeset, changes, settles } = finished;
        let unknown = ChangesetError::UnknownCall { attempt, no };
        let call = self.calls.get_mut(&(attempt, no)).ok_or(unknown)?;
        let is_again = call.end.is_some();
        let is_the_same = || call.end.as_ref() == Some(&end) && self.changesets.knows_all(&changes);
        if is_again && !is_the_same() {
            return Err(ChangesetError::CallEnded { attempt, no }.into());
        }
        let recorded = match (changeset, changes.is_empty()) {
            (_, true) => Vec::new(),
            (Some(id), false) => self.changesets.record_all(id, changes)?,
            (None, false) => return Err(ChangesetError::NoActiveChangeset.into()),
        };
        let mut told = Vec::new();
        if !is_again {
            call.end = Some(end);
            told.extend(event_draft::tool_finished(call, recorded.len()));
        }
        told.extend(self.keep_nodes(settles));
        self.tell(told, now);
        Ok(recorded)
    }

    /// Records that the owner opened a sandbox; the same attempt again replaces the record.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or is that of another plan.
    pub fn sandbox_opened(&mut self, claim: &Claim, record: SandboxRecord, now: Ms) -> Result<(), LeaseLost> {
        self.guard(&Claim { plan: record.plan, ..*claim })?;
        let is_new = self.sandboxes.get(&record.attempt) != Some(&record);
        self.tell(is_new.then(|| event_draft::sandbox_opened(&record)), now);
        self.sandboxes.insert(record.attempt, record);
        Ok(())
    }

    /// Records that a sandbox was closed; one that was never opened is not recorded.
    pub fn sandbox_closed(&mut self, record: SandboxRecord, now: Ms) {
        let Some(known) = self.sandboxes.get_mut(&record.attempt) else { return };
        if *known != record {
            let told = event_draft::sandbox_closed(&record);
            *known = record;
            self.tell([told], now);
        }
    }

    /// Records an error of the owner and decides what is done about it; see
    /// [`ErrorHistory::record`](crate::ErrorHistory::record).
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn record_error(
        &mut self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        now: Ms,
        jitter: u16,
    ) -> Result<RecoveryAdvice, LeaseLost> {
        self.guard(claim)?;
        Ok(self.keep_error(policy, error, now, jitter))
    }

    /// Records an error, with an event if the plan was made.
    pub(super) fn keep_error(
        &mut self,
        policy: &RecoveryPolicy,
        error: NewError,
        now: Ms,
        jitter: u16,
    ) -> RecoveryAdvice {
        if self.plan.is_none() {
            return self.errors.record(policy, error, now, jitter);
        }
        let recorded = self.errors.recorded();
        let recovery = self.errors.record(policy, error.clone(), now, jitter);
        let is_new = self.errors.recorded() > recorded;
        self.tell(is_new.then(|| event_draft::error_recorded(&error, &recovery)), now);
        recovery
    }
}
