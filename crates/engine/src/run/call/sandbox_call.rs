//! A call in the sandbox. The right to work there, the changeset of the call's node and the admitted call are
//! one value.
//!
//! ```text
//!  NodeContext::begin_call   wait for the turn ─► settle the mark of a stopped call ─► admit ─► mark ─► SandboxCall
//!  SandboxCall::end          capture ─► end + changes + contents in one step of the store ─► unmark ─► next turn
//! ```
//!
//! # Invariants
//! 1. One call at a time can change the sandbox, from before it is admitted until its [`SandboxCall`] goes.
//!    Calls that only look run concurrently with each other. Turns are served in order, and a cancel of the
//!    scope ends the waiting.
//! 2. A call that can change the sandbox is marked in it (`SandboxSession::mark`) before it begins. Only the
//!    step of the store that ends the call removes the mark. A `SandboxCall` that is dropped (an early
//!    return, a panic, a time limit, `select!`) leaves its mark.
//! 3. The next turn, of any kind, first settles the mark: it captures what is there, records it for the
//!    marked call and ends that call. A retry and the end of the run do the same. So no change is recorded
//!    for another call than its own. An end that the store took and whose answer did not arrive stays as it
//!    is.
//! 4. Changes are captured before the scope of the node is tested. The one exception is a run that is
//!    interrupted as a whole: `shutdown` captures, within its time limit.
//! 5. Changes are recorded through the [`ChangesetHandle`] of the call's node only.
//! 6. No call that can change the sandbox begins in one that is retained because its changes could not be
//!    captured.

use std::sync::Arc;

use domain::{
    CallEnd, CallNumber, CallState, ChangeId, ErrorCategory, NewCall, NewChange, NodeRun, RelPath, RootIndex,
    StoredOutput, ToolCall,
};
use sandbox::CapturedChange;
use serde_json::{Value, json};
use store::CallAuthority;
use sync::Effect;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::capture;
use crate::engine::EngineInner;
use crate::run::RunError;
use crate::run::accounting;
use crate::run::context::NodeContext;
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::content::Staging;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::state::SandboxSession;
use worker::{ChangesetHandle, EndedCall, PlanError, PlanExecutionContext};

/// The argument of a call that captures changes from a retained sandbox: the number of the call that made
/// them.
pub(crate) const CAPTURED_FROM: &str = "captured_from_call";
/// The error of a call that was stopped before its end was recorded.
pub(crate) const STOPPED: &str = "it was stopped before its end was recorded";

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

/// A call that may have changed the sandbox and whose end is not stored.
#[derive(Clone)]
pub(crate) struct CallMark {
    call: ToolCall,
    changes: ChangeDisposition,
}

/// The treatment of the changes of a call.
#[derive(Clone)]
enum ChangeDisposition {
    /// They are recorded into the changeset of its node.
    Recorded(ChangesetHandle),
    /// They are put back.
    PutBack,
}

impl CallMark {
    pub(crate) fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Returns true if its changes are recorded.
    pub(crate) fn records(&self) -> bool {
        matches!(self.changes, ChangeDisposition::Recorded(_))
    }

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

/// A call that was admitted into the sandbox. [`end`](Self::end) gives the turn back with everything
/// recorded; dropping it gives the turn back with a mark, which the next turn settles.
#[must_use = "a call that is dropped is recorded as stopped"]
pub(crate) struct SandboxCall {
    call: ToolCall,
    effect: Effect,
    work: SandboxUse,
    _turn: SandboxTurn,
}

/// The use of the sandbox by the call.
enum SandboxUse {
    /// The call is marked in the sandbox.
    Marked {
        mark: Box<CallMark>,
        /// True if what it changed is among what was found.
        is_captured: bool,
    },
    /// It is in the list of those that look.
    Looks,
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
        let mut place = self.state.open.lock().await;
        let Some(open) = place.as_mut() else { return false };
        if is_alone && open.unattended.is_none() {
            open.unattended = self.state.server_of_other(self.path);
        }
        open.mark.is_some() || open.unattended.is_some()
    }

    /// Waits for its turn in the sandbox, and admits a call of this node into it.
    ///
    /// # Errors
    /// The scope is cancelled, a limit refuses the call, there is no sandbox, or the store failed.
    pub(crate) async fn begin_call(&self, access: CallAccess, new: NewCall) -> Result<SandboxCall, RunError> {
        let turn = self.turn(access != CallAccess::Look).await?;
        let mut place = self.state.open.lock().await;
        let open = place.as_mut().ok_or(RunError::Cancelled)?;
        let effect = self.enter()?;
        let (call, work) = self.admit(open, &effect, access, new).await?;
        Ok(SandboxCall { call, effect, work, _turn: turn })
    }

    /// Admits a call, and makes it known to the sandbox.
    async fn admit(
        &self,
        open: &mut SandboxSession,
        effect: &Effect,
        access: CallAccess,
        new: NewCall,
    ) -> Result<(ToolCall, SandboxUse), RunError> {
        if let Some(why) = open.kept.as_ref().filter(|_| access != CallAccess::Look) {
            return Err(RunError::failed(ErrorCategory::Resource, why));
        }
        let call = match new.requested.get(CAPTURED_FROM).is_some() {
            // What it stands for was counted when it was admitted.
            true => self.engine.store.begin_call(effect, &self.job.claim(), new).await?,
            false => accounting::begin(self.run, effect, new).await?,
        };
        let changes = match access {
            CallAccess::Look => None,
            CallAccess::PutBack => Some(ChangeDisposition::PutBack),
            CallAccess::Record => match self.state.changeset(self.job, &call.new.node).await {
                Ok(changeset) => Some(ChangeDisposition::Recorded(changeset)),
                Err(stopped) => {
                    open.looking.push(call);
                    return Err(stopped);
                }
            },
        };
        let Some(changes) = changes else {
            open.looking.push(call.clone());
            return Ok((call, SandboxUse::Looks));
        };
        let mark = CallMark { call: call.clone(), changes };
        open.mark = Some(mark.clone());
        Ok((call, SandboxUse::Marked { mark: Box::new(mark), is_captured: false }))
    }

    /// Records what the node's servers changed while none of its calls ran, as a call of its own; if they
    /// changed nothing there is none. For the holder of a turn alone.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub(crate) async fn record_unattended(&self, new: NewCall) -> Result<(), RunError> {
        match self.state.open.lock().await.as_mut() {
            Some(open) => open.unattended = Some(new),
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
        let mut place = Arc::clone(&self.state.open).lock_owned().await;
        let Some(new) = place.as_ref().and_then(|open| open.unattended.clone()) else { return Ok(()) };
        let node = new.node.clone();
        let (mut place, scanned) = blocking(move || {
            let scanned = place.as_mut().map_or(Err(RunError::Cancelled), |open| capture::scan(open, &node));
            (place, scanned)
        })
        .await?;
        let open = place.as_mut().ok_or(RunError::Cancelled)?;
        match scanned {
            Ok(()) if open.found.is_empty() => {}
            Ok(()) => {
                let effect = self.job.enter()?;
                let (call, work) = self.admit(open, &effect, CallAccess::Record, new).await?;
                let SandboxUse::Marked { mark, .. } = work else { return Err(RunError::Cancelled) };
                let result = json!({ "changed": open.found.len() });
                let end = self.engine.ended(call.started, (CallState::Ok, None, result));
                self.store_marked(open, &mark, &effect, end, open.found.clone()).await?;
            }
            Err(RunError::Failed { .. }) if on_failure == OnFailure::GiveUp => {}
            Err(stopped) => return Err(stopped),
        }
        open.unattended = None;
        Ok(())
    }

    async fn settle_mark(&self, on_failure: OnFailure) -> Result<(), RunError> {
        let mut place = Arc::clone(&self.state.open).lock_owned().await;
        let Some(mark) = place.as_ref().and_then(|open| open.mark.clone()) else { return Ok(()) };
        let effect = self.job.enter()?;
        let known = place.as_ref().map_or(0, |open| open.found.len());
        let (engine, marked) = (Arc::clone(self.engine), mark.clone());
        let (mut place, left) = blocking(move || {
            let captured = |open| CallLeftovers::capture(&engine, open, &marked);
            let left = place.as_mut().map_or(Err(RunError::Cancelled), captured);
            (place, left)
        })
        .await?;
        let open = place.as_mut().ok_or(RunError::Cancelled)?;
        let mut error = open.kept.clone();
        let CallLeftovers { changes, outputs: [stdout, stderr] } = match left {
            Ok(left) => left,
            Err(RunError::Failed { message, .. }) if on_failure == OnFailure::GiveUp => {
                error = Some(format!("what it changed could not be captured: {message}"));
                CallLeftovers { changes: Vec::new(), outputs: [None, None] }
            }
            Err(stopped) => return Err(stopped),
        };
        let state = if error.is_some() { CallState::Failed } else { CallState::Cancelled };
        let error = error.unwrap_or_else(|| STOPPED.to_owned());
        let end = self.engine.ended(mark.call.started, (state, Some(error), Value::Null));
        let end = CallEnd { stdout, stderr, ..end };
        let has_more = changes.len() > known;
        match self.store_marked(open, &mark, &effect, end, changes).await {
            // The store took the end with all that was found by then, and its answer did not arrive.
            Err(error) if error.is_call_ended() && !has_more => {
                self.state.count_changed(&mark.call.new.node, known);
                open.unmark();
                Ok(())
            }
            stored => Ok(stored?),
        }
    }

    /// Stores the end of the marked call, and unmarks it.
    async fn store_marked(
        &self,
        open: &mut SandboxSession,
        mark: &CallMark,
        effect: &Effect,
        end: CallEnd,
        changes: Vec<CapturedChange>,
    ) -> Result<(), PlanError> {
        let ended = EndedCall::new(&mark.call, end).with_contents(open.staging.contents());
        let changed = changes.len();
        mark.store_end(self.engine, self.job.context(), CallAuthority::Effect(effect), ended, changes)
            .await?;
        self.state.count_changed(&mark.call.new.node, changed);
        open.unmark();
        Ok(())
    }

    /// Ends all that is open in a sandbox that is about to be removed, because its nodes are done again. That
    /// is the marked call, with its changes, and the calls that only looked.
    ///
    /// # Errors
    /// The run is over, or the store failed.
    pub(crate) async fn end_open_calls(&self) -> Result<(), RunError> {
        self.settle(OnFailure::GiveUp).await?;
        let mut place = self.state.open.lock().await;
        let Some(open) = place.as_mut() else { return Ok(()) };
        while let Some(call) = open.looking.last() {
            let effect = self.job.enter()?;
            let end = self
                .engine
                .ended(call.started, (CallState::Cancelled, Some(STOPPED.to_owned()), Value::Null));
            self.job.context().end_call(CallAuthority::Effect(&effect), EndedCall::new(call, end)).await?;
            open.looking.pop();
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

/// The changes and logs that a stopped call left in the sandbox.
pub(crate) struct CallLeftovers {
    pub(crate) changes: Vec<CapturedChange>,
    pub(crate) outputs: [Option<StoredOutput>; 2],
}

impl CallLeftovers {
    /// Captures them. From a retained sandbox it captures nothing but the logs, because a later capture takes
    /// its changes as a whole.
    pub(crate) fn capture(
        engine: &EngineInner,
        open: &mut SandboxSession,
        mark: &CallMark,
    ) -> Result<CallLeftovers, RunError> {
        if open.kept.is_none() {
            capture::scan(open, &mark.call.new.node)?;
        }
        let changes = match (&mark.changes, open.kept.is_some()) {
            (ChangeDisposition::Recorded(_), false) => open.found.clone(),
            (ChangeDisposition::PutBack, false) => {
                capture::put_back(open)?;
                Vec::new()
            }
            (ChangeDisposition::Recorded(_) | ChangeDisposition::PutBack, true) => Vec::new(),
        };
        Ok(CallLeftovers { changes, outputs: Self::logs(engine, open, mark) })
    }

    /// Returns the content of its logs, without changes.
    pub(crate) fn of_logs(engine: &EngineInner, open: &SandboxSession, mark: &CallMark) -> CallLeftovers {
        CallLeftovers { changes: Vec::new(), outputs: Self::logs(engine, open, mark) }
    }

    fn logs(engine: &EngineInner, open: &SandboxSession, mark: &CallMark) -> [Option<StoredOutput>; 2] {
        let logs = log_dir(open.sandbox.dir(), mark.call.no);
        ["stdout", "stderr"].map(|name| capture::store_log(engine, &open.staging, &logs.join(name)))
    }
}

impl SandboxCall {
    pub(crate) fn call(&self) -> &ToolCall {
        &self.call
    }

    pub(crate) fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns true if its changes are recorded.
    pub(crate) fn records(&self) -> bool {
        match &self.work {
            SandboxUse::Marked { mark, .. } => mark.records(),
            SandboxUse::Looks => false,
        }
    }

    /// The call works where nothing of it gets into the sandbox: there is nothing to capture.
    pub(crate) fn cannot_have_written(&mut self) {
        match &mut self.work {
            SandboxUse::Marked { is_captured, .. } => *is_captured = true,
            SandboxUse::Looks => {}
        }
    }

    /// Captures what it changed, and returns where. Once nothing of it is alive, once is enough.
    ///
    /// # Errors
    /// The files cannot be read.
    pub(crate) async fn capture(
        &mut self,
        context: &NodeContext<'_>,
    ) -> Result<Vec<(RootIndex, RelPath)>, RunError> {
        let SandboxUse::Marked { is_captured, .. } = &mut self.work else { return Ok(Vec::new()) };
        let mut place = Arc::clone(&context.state.open).lock_owned().await;
        let (is_done, node) = (*is_captured, self.call.new.node.clone());
        let paths = blocking(move || {
            let open = place.as_mut().ok_or(RunError::Cancelled)?;
            if !is_done {
                capture::scan(open, &node)?;
            }
            Ok::<_, RunError>(capture::changed_paths(&open.found))
        })
        .await??;
        *is_captured = true;
        Ok(paths)
    }

    /// Captures what it changed, puts that back and returns where it was.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub(crate) async fn put_back(
        &mut self,
        context: &NodeContext<'_>,
    ) -> Result<Vec<(RootIndex, RelPath)>, RunError> {
        let paths = self.capture(context).await?;
        if !paths.is_empty() {
            let mut place = Arc::clone(&context.state.open).lock_owned().await;
            blocking(move || place.as_mut().map_or(Err(RunError::Cancelled), capture::put_back)).await??;
        }
        Ok(paths)
    }

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
        let mut place = context.state.open.lock().await;
        let open = place.as_mut().ok_or(RunError::Cancelled)?;
        let Self { call, effect, work, _turn } = self;
        let changed = match work {
            SandboxUse::Looks => {
                let (end, settles) = end(&open.staging, 0)?;
                let ended =
                    EndedCall::new(&call, end).with_contents(open.staging.contents()).settling(settles);
                context.job.context().end_call(CallAuthority::Effect(&effect), ended).await?;
                open.looking.retain(|other| other.no != call.no);
                open.staging.clear();
                0
            }
            SandboxUse::Marked { mark, .. } => {
                let found = open.found.clone();
                let (entries, changed) = (found.len(), capture::changed_paths(&found).len());
                let (end, settles) = end(&open.staging, entries)?;
                let ended =
                    EndedCall::new(&call, end).with_contents(open.staging.contents()).settling(settles);
                let (by, plan_context) = (CallAuthority::Effect(&effect), context.job.context());
                mark.store_end(context.engine, plan_context, by, ended, found).await?;
                context.state.count_changed(&call.new.node, entries);
                open.unmark();
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
