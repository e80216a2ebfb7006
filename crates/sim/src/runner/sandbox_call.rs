//! A call in the sandbox, by the protocol of the engine's `sandbox_call`. The right to work there, the
//! changeset and the admitted call are one value.
//!
//! ```text
//!  begin_call   wait for the turn ─► settle the mark of a stopped call ─► admit ─► mark ─► SimSandboxCall
//!  end_call     capture ─► end + changes in one step of the store ─► unmark ─► next turn
//! ```
//!
//! # Invariants
//! 1. One call at a time can change the sandbox, from before it is admitted until its [`SimSandboxCall`]
//!    goes.
//! 2. A call that can change the sandbox is marked before it begins. Only the step of the store that ends it
//!    removes the mark, so a [`SimSandboxCall`] that is dropped leaves it.
//! 3. The next turn first settles the mark: it captures all that differs in the sandbox, records it for the
//!    marked call and ends that call. `wind_down` does the same.
//! 4. Changes are captured before the scope of the node is tested.

use std::sync::Arc;

use ::worker::{ChangesetHandle, JobRun};
use domain::{
    CallCategory, CallNumber, CallState, ChangesetError, ChangesetId, NewCall, NewChange, ToolCall,
};
use store::{CallAuthority, CallOutcome, CallStore, ChangesetStoreError, LedgerStore};
use sync::{Effect, Finisher, Observed};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::{LiveRun, PhaseStop, SimRunner, ended};
use crate::broken_programs::BrokenProgram;
use crate::machine::FileDifference;
use crate::scenario::ChangeRecording;

/// The access of a call to the sandbox: it decides whether others may work there at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimAccess {
    /// It is alone, and its changes are recorded into this changeset.
    Record(ChangesetId),
    /// It is alone, and its changes are put back: a check.
    PutBack,
    /// It cannot change anything.
    Look,
}

/// A call that was admitted into the sandbox and whose end is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnfinishedCall {
    attempt: u32,
    no: CallNumber,
    access: SimAccess,
}

impl UnfinishedCall {
    fn outcome(self, state: CallState, changes: Vec<NewChange>) -> CallOutcome {
        let changeset = match self.access {
            SimAccess::Record(changeset) => Some(changeset),
            SimAccess::PutBack | SimAccess::Look => None,
        };
        CallOutcome {
            attempt: self.attempt,
            no: self.no,
            end: ended(state),
            changeset,
            changes,
            contents: Vec::new(),
            settles: Vec::new(),
        }
    }
}

/// The right to work in the sandbox, until it is dropped.
pub(super) enum SimTurn {
    Shared { _held: OwnedRwLockReadGuard<()> },
    Alone { _held: OwnedRwLockWriteGuard<()> },
}

/// A call that was admitted. [`SimRunner::end_call`] gives the turn back with everything recorded; dropping
/// it leaves its mark.
pub(super) struct SimSandboxCall {
    open: UnfinishedCall,
    effect: Effect,
    _turn: SimTurn,
}

impl SimRunner {
    /// Waits for a turn in the sandbox, and settles what a stopped call left there.
    pub(super) async fn turn(
        &self,
        run: &JobRun,
        scope: &Observed,
        is_alone: bool,
    ) -> Result<SimTurn, PhaseStop> {
        let turns = || self.with_live(&run.claim(), |live| Arc::clone(&live.turns));
        if !is_alone {
            let shared = wait(scope, turns().read_owned()).await?;
            if self.mark(run).is_none() {
                return Ok(SimTurn::Shared { _held: shared });
            }
        }
        let alone = wait(scope, turns().write_owned()).await?;
        self.settle_mark(run).await?;
        Ok(match is_alone {
            true => SimTurn::Alone { _held: alone },
            false => SimTurn::Shared { _held: alone.downgrade() },
        })
    }

    fn mark(&self, run: &JobRun) -> Option<UnfinishedCall> {
        self.with_live(&run.claim(), |live| live.mark)
    }

    /// Records what a stopped call left for that call, and ends it. For the holder of a turn alone.
    async fn settle_mark(&self, run: &JobRun) -> Result<(), PhaseStop> {
        let Some(mark) = self.mark(run) else { return Ok(()) };
        let effect = run.enter()?;
        self.tick().await;
        let differs = self.in_sandbox(run, |sandbox| match mark.access {
            SimAccess::Record(_) => sandbox.changed(),
            SimAccess::PutBack | SimAccess::Look => {
                sandbox.put_back_changed();
                Vec::new()
            }
        })?;
        let outcome = mark.outcome(CallState::Cancelled, self.new_changes(mark.no, &differs));
        match self.store.end_call(CallAuthority::Effect(&effect), &run.claim(), outcome).await {
            // Its end was stored, with all that it had changed, and the answer was lost.
            Ok(_) | Err(ChangesetStoreError::Changeset(ChangesetError::CallEnded { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        self.unmark(run, &differs)
    }

    /// The end of the marked call is stored, with all that was found.
    fn unmark(&self, run: &JobRun, recorded: &[FileDifference]) -> Result<(), PhaseStop> {
        self.with_live(&run.claim(), |live| live.mark = None);
        self.in_sandbox(run, |sandbox| sandbox.is_recorded(recorded))
    }

    /// Waits for its turn in the sandbox, and admits a call into it.
    pub(super) async fn begin_call(
        &self,
        run: &JobRun,
        scope: &Observed,
        access: SimAccess,
        new: NewCall,
    ) -> Result<SimSandboxCall, PhaseStop> {
        let turn = self.turn(run, scope, access != SimAccess::Look).await?;
        scope.check()?;
        let effect = run.enter()?;
        let ToolCall { no, new, .. } =
            self.store.begin_counted(&effect, &run.claim(), new, CallCategory::Step).await?;
        let open = UnfinishedCall { attempt: new.attempt, no, access };
        self.with_live(&run.claim(), |live| match access {
            SimAccess::Look => live.looking.push(open),
            SimAccess::Record(_) | SimAccess::PutBack if self.world.is_broken(BrokenProgram::DroppedMark) => {
            }
            SimAccess::Record(_) | SimAccess::PutBack => live.mark = Some(open),
        });
        Ok(SimSandboxCall { open, effect, _turn: turn })
    }

    /// Ends the call: captures what it changed, and stores that with its end. A failure here leaves the mark.
    pub(super) async fn end_call(
        &self,
        run: &JobRun,
        call: SimSandboxCall,
        state: CallState,
        records: (ChangeRecording, &ChangesetHandle),
    ) -> Result<(), PhaseStop> {
        // The one scope that is tested here: that of the run, whose wind-down captures.
        run.scope().check()?;
        self.tick().await;
        let SimSandboxCall { open, effect, _turn } = call;
        let differs = match open.access {
            SimAccess::Record(_) => self.in_sandbox(run, |sandbox| sandbox.changed())?,
            SimAccess::PutBack => {
                self.in_sandbox(run, |sandbox| sandbox.put_back_changed())?;
                Vec::new()
            }
            SimAccess::Look => Vec::new(),
        };
        let changes = match records.0 {
            ChangeRecording::WithTheCall => self.new_changes(open.no, &differs),
            ChangeRecording::ByHandle | ChangeRecording::IntoTheLatest => {
                self.record_each(run, open.no, &differs, records).await?;
                Vec::new()
            }
        };
        self.store
            .end_call(CallAuthority::Effect(&effect), &run.claim(), open.outcome(state, changes))
            .await?;
        match open.access {
            SimAccess::Record(_) | SimAccess::PutBack => self.unmark(run, &differs),
            SimAccess::Look => {
                self.with_live(&run.claim(), |live| live.looking.retain(|other| *other != open));
                Ok(())
            }
        }
    }

    async fn record_each(
        &self,
        run: &JobRun,
        no: CallNumber,
        differs: &[FileDifference],
        records: (ChangeRecording, &ChangesetHandle),
    ) -> Result<(), PhaseStop> {
        for differs in differs {
            if let Some(change) = self.new_change(no, *differs) {
                self.record_one(run, records, change).await?;
            }
            self.in_sandbox(run, |sandbox| sandbox.is_recorded(&[*differs]))?;
        }
        Ok(())
    }

    fn new_changes(&self, no: CallNumber, differs: &[FileDifference]) -> Vec<NewChange> {
        differs.iter().filter_map(|differs| self.new_change(no, *differs)).collect()
    }

    /// Ends the calls that a run left open, with what they had changed. Nothing of the run is alive any more.
    pub(super) async fn end_open_calls(&self, run: &JobRun, live: &LiveRun, finisher: &Finisher) {
        let Some((sandbox, _)) = &live.sandbox else { return };
        for open in live.looking.iter().chain(&live.mark) {
            let differs = match open.access {
                SimAccess::Record(_) => {
                    self.world.machine().sandboxes.get(sandbox).map(|sandbox| sandbox.changed())
                }
                // The restored files go with the sandbox.
                SimAccess::PutBack | SimAccess::Look => None,
            };
            let changes = self.new_changes(open.no, &differs.unwrap_or_default());
            let outcome = open.outcome(CallState::Cancelled, changes);
            // Changes that the store refuses are lost with the sandbox; the node runs again.
            let _ = self.store.end_call(CallAuthority::Finisher(finisher), &run.claim(), outcome).await;
        }
    }
}

async fn wait<T>(scope: &Observed, turn: impl Future<Output = T>) -> Result<T, PhaseStop> {
    tokio::select! {
        biased;
        _ = scope.cancelled() => Err(PhaseStop::Cancelled),
        turn = turn => Ok(turn),
    }
}
