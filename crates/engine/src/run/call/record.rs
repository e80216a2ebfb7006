//! The last step of a call: stores its end, with everything that it changed, in one step of the store.
//!
//! # Invariants
//! See `sandbox_call`, 2 to 5.

use std::sync::Arc;

use domain::{CallEnd, CallNumber, CallState, ChangeId, NewCall, NewChange, NodeRun};
use sandbox::CapturedChange;
use serde_json::{Value, json};
use store::CallAuthority;
use sync::Effect;

use super::admit::CallAccess;
use super::capture;
use super::capture::CallLeftovers;
use super::command::EndedCommand;
use super::sandbox_call::{CallMark, ChangeDisposition, STOPPED, SandboxCall, SandboxUse};
use crate::engine::EngineInner;
use crate::run::RunError;
use crate::run::context::NodeContext;
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::content::Staging;
use crate::run::plan_sandbox::retained;
use crate::run::plan_sandbox::retained::RetainedEnd;
use crate::run::state::SandboxSession;
use worker::{EndedCall, PlanError, PlanExecutionContext};

impl SandboxCall {
    /// Ends the call: captures what it changed, and stores that with the end which `end` makes of it, in one
    /// step. `end` is given the number of changes, and may add the end of the call's node.
    ///
    /// # Errors
    /// The run is interrupted, or the changes cannot be captured or stored: then the mark stays.
    pub(crate) async fn end(
        mut self,
        context: &NodeContext<'_>,
        end: impl FnOnce(&Staging, usize) -> Result<(CallEnd, Option<NodeRun>), RunError>,
    ) -> Result<RecordedCallEnd, RunError> {
        // The one scope that is tested here: that of the run, whose wind-down captures.
        context.job.scope().check()?;
        match &self.work {
            SandboxUse::Marked { mark, .. } if mark.records() => drop(self.capture(context).await?),
            SandboxUse::Marked { .. } => drop(self.put_back(context).await?),
            SandboxUse::Looks => {}
        }
        let mut place = context.state.session.lock().await;
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        let Self { call, effect, work, _turn } = self;
        let changed = match work {
            SandboxUse::Looks => {
                let (end, settles) = end(&session.staging, 0)?;
                let ended =
                    EndedCall::new(&call, end).with_contents(session.staging.contents()).settling(settles);
                context.job.context().end_call(CallAuthority::Effect(&effect), ended).await?;
                session.looking.retain(|other| other.no != call.no);
                session.staging.clear();
                0
            }
            SandboxUse::Marked { mark, .. } => {
                let found = session.found.clone();
                let (entries, changed) = (found.len(), capture::changed_paths(&found).len());
                let (end, settles) = end(&session.staging, entries)?;
                let ended =
                    EndedCall::new(&call, end).with_contents(session.staging.contents()).settling(settles);
                let (by, plan_context) = (CallAuthority::Effect(&effect), context.job.context());
                mark.store_end(context.engine, plan_context, by, ended, found).await?;
                context.state.count_changed(&call.new.node, entries);
                session.unmark();
                changed
            }
        };
        Ok(RecordedCallEnd { changed, effect })
    }
}

/// A call whose end is stored.
pub(crate) struct RecordedCallEnd {
    /// The number of files that were changed, without directories that only hold others.
    pub(crate) changed: usize,
    /// The effect that it was, for what else is to be stored of it.
    pub(crate) effect: Effect,
}

/// Stores the end of a command with all that it changed; what a check wrote into the sandbox itself is put
/// back. `settles` is given the number of changes, and returns the end of the node if it is the node's last
/// call. If the changes of the plan's command cannot be stored, its sandbox is retained.
pub(crate) async fn record_command(
    context: &NodeContext<'_>,
    ran: EndedCommand,
    result: Option<Value>,
    settles: impl FnOnce(usize) -> Option<NodeRun>,
) -> Result<RecordedCallEnd, RunError> {
    let EndedCommand { call, finished } = ran;
    let is_kept = call.records();
    let recorded = call.end(context, |staging, changed| {
        let end = finished.call_end(context.engine, staging, result, changed)?;
        Ok((end, settles(changed)))
    });
    match recorded.await {
        Err(RunError::Failed { category, message, .. }) if is_kept => {
            let end = RetainedEnd::new(context.engine, &finished);
            Err(retained::keep(context.state, &end, category, &message).await)
        }
        other => other,
    }
}

impl CallMark {
    /// Stores the end of the call, with what it changed.
    pub(crate) async fn store_end(
        &self,
        engine: &EngineInner,
        context: &PlanExecutionContext,
        by: CallAuthority<'_>,
        ended: EndedCall,
        found: Vec<CapturedChange>,
    ) -> Result<(), PlanError> {
        match &self.changes {
            ChangeDisposition::Recorded(changeset) if !found.is_empty() => {
                let new = |found| new_change(engine, self.call.no, found);
                let changes = found.into_iter().map(new).collect();
                changeset.record_call_end(by, ended, changes).await.map(drop)
            }
            ChangeDisposition::Recorded(_) | ChangeDisposition::PutBack => context.end_call(by, ended).await,
        }
    }
}

fn new_change(engine: &EngineInner, call: CallNumber, found: CapturedChange) -> NewChange {
    let CapturedChange { root, draft, base, too_large: _ } = found;
    NewChange { id: ChangeId::from_u128(engine.ids.ulid()), call, root, base, draft }
}

impl NodeContext<'_> {
    /// Records what the node's servers changed while none of its calls ran, as a call of its own; if they
    /// changed nothing there is none. For the holder of a turn alone.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub(crate) async fn record_unattended(&self, new: NewCall) -> Result<(), RunError> {
        match self.state.session.lock().await.as_mut() {
            Some(session) => session.unattended = Some(new),
            None => return Ok(()),
        }
        self.settle(OnFailure::Refuse).await
    }

    /// Settles the mark of a stopped call, and what servers changed while none of their calls ran. For the
    /// holder of a turn alone, and for a phase whose nodes have all ended.
    ///
    /// # Errors
    /// The run is over, or what is there cannot be captured or stored; the mark stays.
    pub(crate) async fn settle(&self, on_failure: OnFailure) -> Result<(), RunError> {
        self.settle_mark(on_failure).await?;
        let mut place = Arc::clone(&self.state.session).lock_owned().await;
        let Some(new) = place.as_ref().and_then(|session| session.unattended.clone()) else { return Ok(()) };
        let node = new.node.clone();
        let (mut place, scanned) = blocking(move || {
            let scanned =
                place.as_mut().map_or(Err(RunError::Cancelled), |session| capture::scan(session, &node));
            (place, scanned)
        })
        .await?;
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        match scanned {
            Ok(()) if session.found.is_empty() => {}
            Ok(()) => {
                let effect = self.job.enter()?;
                let (call, work) = self.admit(session, &effect, CallAccess::Record, new).await?;
                let SandboxUse::Marked { mark, .. } = work else { return Err(RunError::Cancelled) };
                let result = json!({ "changed": session.found.len() });
                let end = self.engine.ended(call.started, (CallState::Ok, None, result));
                self.store_marked(session, &mark, &effect, end, session.found.clone()).await?;
            }
            Err(RunError::Failed { .. }) if on_failure == OnFailure::GiveUp => {}
            Err(stopped) => return Err(stopped),
        }
        session.unattended = None;
        Ok(())
    }

    async fn settle_mark(&self, on_failure: OnFailure) -> Result<(), RunError> {
        let mut place = Arc::clone(&self.state.session).lock_owned().await;
        let Some(mark) = place.as_ref().and_then(|session| session.mark.clone()) else { return Ok(()) };
        let effect = self.job.enter()?;
        let known = place.as_ref().map_or(0, |session| session.found.len());
        let (engine, marked) = (Arc::clone(self.engine), mark.clone());
        let (mut place, left) = blocking(move || {
            let captured = |session| CallLeftovers::capture(&engine, session, &marked);
            let left = place.as_mut().map_or(Err(RunError::Cancelled), captured);
            (place, left)
        })
        .await?;
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        let mut error = session.kept.clone();
        let CallLeftovers { changes, outputs: [stdout, stderr] } = match left {
            Ok(left) => left,
            Err(RunError::Failed { message, .. }) if on_failure == OnFailure::GiveUp => {
                error = Some(format!("its changes could not be captured: {message}"));
                CallLeftovers { changes: Vec::new(), outputs: [None, None] }
            }
            Err(stopped) => return Err(stopped),
        };
        let state = if error.is_some() { CallState::Failed } else { CallState::Cancelled };
        let error = error.unwrap_or_else(|| STOPPED.to_owned());
        let end = self.engine.ended(mark.call.started, (state, Some(error), Value::Null));
        let end = CallEnd { stdout, stderr, ..end };
        let has_more = changes.len() > known;
        match self.store_marked(session, &mark, &effect, end, changes).await {
            // The store took the end with all that was found by then, and its answer did not arrive.
            Err(error) if error.is_call_ended() && !has_more => {
                self.state.count_changed(&mark.call.new.node, known);
                session.unmark();
                Ok(())
            }
            stored => Ok(stored?),
        }
    }

    /// Stores the end of the marked call, and unmarks it.
    async fn store_marked(
        &self,
        session: &mut SandboxSession,
        mark: &CallMark,
        effect: &Effect,
        end: CallEnd,
        changes: Vec<CapturedChange>,
    ) -> Result<(), PlanError> {
        let ended = EndedCall::new(&mark.call, end).with_contents(session.staging.contents());
        let changed = changes.len();
        mark.store_end(self.engine, self.job.context(), CallAuthority::Effect(effect), ended, changes)
            .await?;
        self.state.count_changed(&mark.call.new.node, changed);
        session.unmark();
        Ok(())
    }

    /// Ends all that is open in a sandbox that is about to be removed, because its nodes are done again. That
    /// is the marked call, with its changes, and the calls that only looked.
    ///
    /// # Errors
    /// The run is over, or the store failed.
    pub(crate) async fn end_open_calls(&self) -> Result<(), RunError> {
        self.settle(OnFailure::GiveUp).await?;
        let mut place = self.state.session.lock().await;
        let Some(session) = place.as_mut() else { return Ok(()) };
        while let Some(call) = session.looking.last() {
            let effect = self.job.enter()?;
            let end = self
                .engine
                .ended(call.started, (CallState::Cancelled, Some(STOPPED.to_owned()), Value::Null));
            self.job.context().end_call(CallAuthority::Effect(&effect), EndedCall::new(call, end)).await?;
            session.looking.pop();
        }
        Ok(())
    }
}

/// The reaction to a mark whose changes cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It stays, and the turn is refused.
    Refuse,
    /// The call fails without changes: its sandbox is about to be removed, and its node is done again.
    GiveUp,
}
