//! The first step of a call: waits for its turn in the sandbox, admits it, and marks it there.
//!
//! # Invariants
//! See `sandbox_call`, 1 to 3 and 6.

use std::sync::Arc;

use domain::{ErrorCategory, NewCall, ToolCall};
use sync::Effect;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::record::OnFailure;
use super::sandbox_call::{CAPTURED_FROM, CallMark, ChangeDisposition, SandboxCall, SandboxUse};
use crate::run::RunError;
use crate::run::accounting;
use crate::run::context::NodeContext;
use crate::run::state::SandboxSession;

/// The access of a call to the sandbox, which decides whether others may work there at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallAccess {
    /// It is alone, and its changes are recorded.
    Record,
    /// It is alone, and its changes are put back: a check, or a program that may only look and could write.
    PutBack,
    /// It cannot change anything.
    Look,
}

/// The right to work in the sandbox, until it is dropped.
pub(crate) enum SandboxTurn {
    /// Concurrently with others that look.
    Shared { _held: OwnedRwLockReadGuard<()> },
    /// Alone.
    Alone { _held: OwnedRwLockWriteGuard<()> },
}

impl NodeContext<'_> {
    /// Waits for a turn in the sandbox, and settles what a stopped call left there.
    ///
    /// # Errors
    /// The scope is cancelled; or what the stopped call left cannot be captured or stored.
    pub(crate) async fn turn(&self, is_alone: bool) -> Result<SandboxTurn, RunError> {
        let turns = || Arc::clone(&self.state.turns);
        if !is_alone {
            let shared = self.wait(turns().read_owned()).await?;
            if !self.has_unsettled(is_alone).await {
                return Ok(SandboxTurn::Shared { _held: shared });
            }
        }
        let alone = self.wait(turns().write_owned()).await?;
        if self.has_unsettled(is_alone).await {
            self.settle(OnFailure::Refuse).await?;
        }
        Ok(match is_alone {
            true => SandboxTurn::Alone { _held: alone },
            false => SandboxTurn::Shared { _held: alone.downgrade() },
        })
    }

    async fn wait<T>(&self, turn: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            biased;
            _ = self.scope.cancelled() => Err(RunError::Cancelled),
            turn = turn => Ok(turn),
        }
    }

    /// Returns whether the sandbox may hold changes that are recorded nowhere. They are of a stopped call;
    /// or, if the caller would take them for its own, of another node's server.
    async fn has_unsettled(&self, is_alone: bool) -> bool {
        let mut place = self.state.session.lock().await;
        let Some(session) = place.as_mut() else { return false };
        if is_alone && session.unattended.is_none() {
            session.unattended = self.state.server_of_other(self.path);
        }
        session.mark.is_some() || session.unattended.is_some()
    }

    /// Waits for its turn in the sandbox, and admits a call of this node into it.
    ///
    /// # Errors
    /// The scope is cancelled, a limit refuses the call, there is no sandbox, or the store failed.
    pub(crate) async fn begin_call(&self, access: CallAccess, new: NewCall) -> Result<SandboxCall, RunError> {
        let turn = self.turn(access != CallAccess::Look).await?;
        let mut place = self.state.session.lock().await;
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        let effect = self.enter()?;
        let (call, work) = self.admit(session, &effect, access, new).await?;
        Ok(SandboxCall { call, effect, work, _turn: turn })
    }

    /// Admits a call, and makes it known to the sandbox.
    pub(super) async fn admit(
        &self,
        session: &mut SandboxSession,
        effect: &Effect,
        access: CallAccess,
        new: NewCall,
    ) -> Result<(ToolCall, SandboxUse), RunError> {
        if let Some(why) = session.kept.as_ref().filter(|_| access != CallAccess::Look) {
            return Err(RunError::failed(ErrorCategory::Resource, why));
        }
        let call = match new.requested.get(CAPTURED_FROM).is_some() {
            // The call that it represents was counted when it was admitted.
            true => self.engine.store.begin_call(effect, &self.job.claim(), new).await?,
            false => accounting::begin(self.run, effect, new).await?,
        };
        let changes = match access {
            CallAccess::Look => None,
            CallAccess::PutBack => Some(ChangeDisposition::PutBack),
            CallAccess::Record => match self.state.changeset(self.job, &call.new.node).await {
                Ok(changeset) => Some(ChangeDisposition::Recorded(changeset)),
                Err(stopped) => {
                    session.looking.push(call);
                    return Err(stopped);
                }
            },
        };
        let Some(changes) = changes else {
            session.looking.push(call.clone());
            return Ok((call, SandboxUse::Looks));
        };
        let mark = CallMark { call: call.clone(), changes };
        session.mark = Some(mark.clone());
        Ok((call, SandboxUse::Marked { mark: Box::new(mark), is_captured: false }))
    }
}
