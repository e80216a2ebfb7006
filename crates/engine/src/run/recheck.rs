//! Runs the required checks of a plan once more, on the tree that an apply would make of the user's.
//!
//! # How it goes
//! 1. A fresh sandbox is opened over the live tree, and its stamp is taken.
//! 2. The wanted changes are merged with the files as they are, and put into the sandbox.
//! 3. Each required check runs there as it ran before: isolated, within its time limit, without the files
//!    that another one wrote.
//!
//! # Invariants
//! 1. The sandbox belongs to this call alone and goes with it, whatever ends it; the user's tree is not
//!    written.
//! 2. Each run of a check for an apply is recorded as a call of the plan, under a tool of its own. It is no
//!    part of the plan's own verdict: a check that fails on one tree says nothing of another. An apply under
//!    the plan's lock has no claim to record by; its checks are in the record of the apply. A run that the
//!    user asked for (`plan check`) is the plan's verdict, and its caller records it.
//!
//! # Not here
//! The decision to run checks again, and the consequence of their results: `apply::check_validity`.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use domain::{
    Base, CallEnd, CallNumber, Hash, NetChange, NewCall, Plan, ToolCall, Validation, ValidationMode,
    ValidationOutcome, ValidationResult,
};
use sandbox::content::ContentSource;
use sandbox::descriptors::wait_for_room;
use sandbox::journal::{ImageBytes, JournalChange};
use sandbox::view::SandboxView;
use sandbox::{Layer, OpenRequest, Sandbox, SandboxOpenError, SandboxStrategy, StrategyChoice, TreeStamp};
use serde_json::Value;
use store::{CallAuthority, StagedContent};
use sync::{CancelReason, Effect, EffectGate, Observed};

use super::phase::checks;
use super::phase::checks::CheckRun;
use crate::apply::merge::{ProjectRoots, WantedChange, merge_all};
use crate::apply::transaction::{Authority, TransactionError};
use crate::engine::EngineInner;
use crate::run::call::command;
use crate::run::call::command::CommandRequest;
use crate::run::call::process;
use crate::run::call::process::ProcessMarks;
use crate::run::call::result::CommandResult;
use crate::run::plan_sandbox;
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::content::{Staging, StoreContents};
use crate::run::plan_sandbox::location;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::state::{RunState, StopBehavior};
use crate::run::{RunError, sandbox_category};
use worker::EndedCall;

/// The changes that are to be checked.
pub(crate) struct Recheck<'a> {
    pub(crate) engine: &'a Arc<EngineInner>,
    pub(crate) plan: &'a Plan,
    pub(crate) authority: &'a Authority<'a>,
    pub(crate) wanted: &'a [WantedChange],
    /// The changes that the results are for.
    pub(crate) net_hash: Hash,
    /// The occasion.
    pub(crate) when: CheckRun,
}

/// A check that ran and is to be recorded by the caller, which has no job.
pub(crate) struct RecordedCheck {
    pub(crate) call: NewCall,
    pub(crate) end: CallEnd,
    pub(crate) contents: Vec<StagedContent>,
}

/// The results of the checks.
pub(crate) struct RecheckResult {
    /// The tree that they ran on, before the changes.
    pub(crate) stamp: TreeStamp,
    pub(crate) results: Vec<ValidationResult>,
    /// The same, to be recorded; none that a job recorded already.
    pub(crate) recorded: Vec<RecordedCheck>,
}

impl Recheck<'_> {
    /// Runs the required checks. Any conflict ends it before a check begins.
    pub(crate) async fn run(&self) -> Result<RecheckResult, TransactionError> {
        self.run_checks(&required(self.plan), &|_| ()).await
    }

    /// Runs these checks, and calls `begins` before each. Any conflict ends it before a check begins.
    pub(crate) async fn run_checks(
        &self,
        checks: &[&Validation],
        begins: &(dyn Fn(&str) + Sync),
    ) -> Result<RecheckResult, TransactionError> {
        let plan = self.plan.id;
        let failed = |stopped: RunError| match stopped {
            RunError::Cancelled => TransactionError::Cancelled { plan },
            other @ (RunError::Failed { .. }
            | RunError::Reported(_)
            | RunError::Limit { .. }
            | RunError::Constrained(_)) => TransactionError::Failed { plan, why: other.shown() },
        };
        let runner = CheckRunner::new(self);
        let (mut sandbox, stamp) = runner.open().await.map_err(failed)?;
        let source = StoreContents(self.engine.store.as_ref());
        let merged = merge_all(&ProjectRoots::open(self.plan)?, self.wanted, &source, None)?;
        if !merged.conflicts.is_empty() {
            return Err(TransactionError::Conflicts { plan, conflicts: merged.conflicts });
        }
        let merged = Arc::new(MergedTree::new(merged.changes));
        let (mut results, mut recorded) = (Vec::new(), Vec::new());
        // An apply that changes nothing needs no check; the user may want to see one all the same.
        let is_needed = !merged.changes.is_empty() || self.when == CheckRun::ByUser;
        let checks = checks.iter().filter(|_| is_needed);
        let mut is_used = false;
        for check in checks {
            if !self.engine.may_run_check(self.plan, check).await? {
                continue;
            }
            if is_used {
                // If there are no layers, a check writes into the sandbox itself.
                drop(blocking(move || sandbox.close()).await.map_err(failed)?);
                sandbox = runner.open().await.map_err(failed)?.0;
            }
            if is_used || results.is_empty() {
                sandbox = runner.put(sandbox, &merged).await.map_err(failed)?;
            }
            begins(&check.name);
            let ran;
            (sandbox, ran, is_used) = runner.check(sandbox, check).await.map_err(failed)?;
            results.push(ran.result);
            recorded.extend(ran.recorded);
        }
        // If it cannot be removed now, the next command sweeps it.
        drop(blocking(move || sandbox.close()).await.map_err(failed)?);
        Ok(RecheckResult { stamp, results, recorded })
    }
}

/// The checks that an apply depends on, and that need a process.
pub(crate) fn required(plan: &Plan) -> Vec<&Validation> {
    let required = |check: &&Validation| check.mode == ValidationMode::Required;
    let mut checks: Vec<&Validation> = plan.spec.validations.iter().filter(required).collect();
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    checks
}

/// The tree that an apply would write, and those of its bytes that are in no store.
struct MergedTree {
    changes: Vec<NetChange>,
    bytes: HashMap<Hash, Vec<u8>>,
}

impl MergedTree {
    fn new(changes: Vec<JournalChange>) -> MergedTree {
        let mut bytes = HashMap::new();
        let net = |change: JournalChange| {
            let after = change.post.as_ref().map(|image| image.state);
            if let Some(image) = change.post
                && let ImageBytes::Here(content) = image.bytes
            {
                bytes.insert(image.state.hash, content);
            }
            NetChange {
                root: change.root,
                path: change.path,
                // The path that it was moved from is removed by a change of its own.
                from: None,
                before: change.pre.map(|image| image.state),
                after,
                base: Base::Known,
                calls: Vec::new(),
            }
        };
        let changes = changes.into_iter().map(net).collect();
        MergedTree { changes, bytes }
    }
}

/// The bytes of a merged tree, the rest from the store.
struct MergedSource<'a> {
    merged: &'a MergedTree,
    stored: StoreContents<'a>,
}

impl ContentSource for MergedSource<'_> {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        match self.merged.bytes.get(hash) {
            Some(bytes) => Ok(Box::new(io::Cursor::new(bytes.as_slice()))),
            None => self.stored.open(hash),
        }
    }
}

/// A check that ran.
struct RanCheck {
    result: ValidationResult,
    recorded: Option<RecordedCheck>,
}

/// Runs checks under a job's claim, or under the plan's lock.
struct CheckRunner<'a> {
    recheck: &'a Recheck<'a>,
    scope: Observed,
    state: Arc<RunState>,
    /// Of an apply that has no job: nothing else ends its processes.
    kills: bool,
    gate: EffectGate,
}

impl Drop for CheckRunner<'_> {
    fn drop(&mut self) {
        if self.kills {
            self.state.kill(CancelReason::Superseded);
        }
    }
}

impl<'a> CheckRunner<'a> {
    fn new(recheck: &'a Recheck<'a>) -> CheckRunner<'a> {
        let gate = EffectGate::new();
        let scope = recheck.authority.scope().clone();
        match recheck.authority {
            Authority::Owner(run) => {
                CheckRunner { recheck, scope, state: Arc::clone(run.state), kills: false, gate }
            }
            Authority::LockHolder { .. } => {
                CheckRunner { recheck, scope, state: Arc::default(), kills: true, gate }
            }
        }
    }

    /// A fresh sandbox of the live tree.
    async fn open(&self) -> Result<(Sandbox, TreeStamp), RunError> {
        let request = plan_sandbox::open_request(self.recheck.engine, self.recheck.plan)?;
        // In the user's own tree nothing can be tried.
        let choice = match request.choice {
            StrategyChoice::Only(SandboxStrategy::InPlace) => StrategyChoice::Auto,
            other @ (StrategyChoice::Auto | StrategyChoice::Only(_)) => other,
        };
        let request = OpenRequest { choice, ..request };
        let scope = self.scope.clone();
        let watch = self.recheck.engine.watch_copy(self.recheck.plan.id);
        let hidden = self.recheck.engine.contexts.hidden().clone();
        let opened = blocking(move || {
            // A weaker sandbox must not be taken because descriptors ran out for a moment.
            wait_for_room(|| scope.is_cancelled())
                .map_err(|source| SandboxOpenError::Directory { dir: request.dir.clone(), source })?;
            let sandbox = location::open_spare(&request, &watch, &|| scope.is_cancelled())?;
            let directory = |source| SandboxOpenError::Directory { dir: request.dir.clone(), source };
            let sandbox = sandbox.with_hidden(hidden);
            let stamp = sandbox.stamp().map_err(directory)?;
            // From here on nothing that is written can be taken for older than the stamp.
            sandbox.root(domain::RootIndex(0)).map_err(|error| directory(io::Error::other(error)))?;
            Ok((sandbox, stamp))
        });
        opened.await?.map_err(|error: SandboxOpenError| {
            if matches!(error, SandboxOpenError::Stopped) {
                return RunError::Cancelled;
            }
            RunError::failed(sandbox_category(&error), error)
        })
    }

    /// Puts the merged changes into the sandbox.
    async fn put(&self, mut sandbox: Sandbox, merged: &Arc<MergedTree>) -> Result<Sandbox, RunError> {
        let (engine, merged) = (Arc::clone(self.recheck.engine), Arc::clone(merged));
        let put = blocking(move || {
            let source = MergedSource { merged: &merged, stored: StoreContents(engine.store.as_ref()) };
            sandbox.restore(&merged.changes, &source).map(|()| sandbox)
        });
        put.await?.map_err(|error| RunError::failed(sandbox_category(&error), error))
    }

    /// Runs one check. Says whether it may have written into the sandbox itself.
    async fn check(
        &self,
        sandbox: Sandbox,
        validation: &Validation,
    ) -> Result<(Sandbox, RanCheck, bool), RunError> {
        let Recheck { engine, plan, net_hash, when, .. } = *self.recheck;
        self.scope.check()?;
        let task = checks::task(plan, validation, when);
        let effect = match self.recheck.authority {
            Authority::Owner(run) => run.job.enter()?,
            Authority::LockHolder { .. } => self.gate.enter()?,
        };
        let new = command::new_call(engine, plan, &task);
        let call = match self.recheck.authority {
            Authority::Owner(run) => engine.store.begin_call(&effect, &run.job.claim(), new).await?,
            Authority::LockHolder { .. } => {
                ToolCall { plan: plan.id, no: CallNumber(0), started: engine.wall(), new, end: None }
            }
        };
        let (sandbox, layer, view, logs) = begin(sandbox, call.no).await?;
        let is_used = layer.is_none();
        let stamp = serde_json::to_value(sandbox.stamp().ok()).unwrap_or_default();
        let ended = self.wait(&call, &task, view, &logs).await?;
        let finished = CommandResult {
            shown: command::one_line(&engine.redactor.redact_text(&task.run.render())),
            call,
            ended,
            _layer: layer,
            output: logs,
            missed: None,
            judged: None,
            session: None,
        };
        let mut result = checks::result_of(engine, plan, validation, &finished, &net_hash.to_string());
        result.base_stamp = stamp;
        let recorded = self.record(&finished, &effect, &result).await?;
        self.scope.check()?;
        Ok((sandbox, RanCheck { result, recorded }, is_used))
    }

    async fn wait(
        &self,
        call: &ToolCall,
        task: &CommandRequest,
        view: SandboxView,
        logs: &std::path::Path,
    ) -> Result<process::CommandEnd, RunError> {
        let Recheck { engine, plan, .. } = *self.recheck;
        let marks = match self.recheck.authority {
            Authority::Owner(run) => ProcessMarks::new(run.job),
            Authority::LockHolder { .. } => ProcessMarks::default(),
        };
        let spec = process::command_spec(engine, &marks, plan, task, logs.to_owned())?;
        let isolation = process::isolation(engine, plan);
        let (state, call, scope) = (Arc::clone(&self.state), call.clone(), self.scope.clone());
        let ended = blocking(move || {
            let running = isolation.start_when_there_is_room(view, spec, || scope.is_cancelled())?;
            state.began(&call, &scope, &running.killer(), StopBehavior::AtOnce);
            let used = running.isolation().clone();
            let ended = running.wait();
            state.ended(call.no);
            Ok((ended, used))
        });
        // A job that is stopped has its processes killed by its worker.
        let mut ended = std::pin::pin!(ended);
        tokio::select! {
            ended = &mut ended => return ended,
            _ = self.scope.cancelled() => {}
        }
        if self.kills {
            self.state.kill(CancelReason::User);
        }
        ended.await
    }

    /// Stores the end of the call, of a check that was stopped too. Without a job, returns what is to be stored.
    async fn record(
        &self,
        finished: &CommandResult,
        effect: &Effect,
        result: &ValidationResult,
    ) -> Result<Option<RecordedCheck>, RunError> {
        let engine = self.recheck.engine;
        let staging = Staging::new(Arc::clone(&engine.store));
        let stored = serde_json::to_value(result).unwrap_or(Value::Null);
        let end = finished.call_end(engine, &staging, Some(stored), 0)?;
        match self.recheck.authority {
            Authority::LockHolder { .. } => {
                let (call, contents) = (finished.call.new.clone(), staging.contents());
                Ok(Some(RecordedCheck { call, end, contents }))
            }
            Authority::Owner(run) => {
                let ended = EndedCall::new(&finished.call, end).with_contents(staging.contents());
                run.job.context().end_call(CallAuthority::Effect(effect), ended).await?;
                Ok(None)
            }
        }
    }
}

/// The trees that a check sees: a layer that is thrown away, where there is one.
async fn begin(
    sandbox: Sandbox,
    call: CallNumber,
) -> Result<(Sandbox, Option<Layer>, SandboxView, std::path::PathBuf), RunError> {
    let begun = blocking(move || {
        let logs = log_dir(sandbox.dir(), call);
        process::make_logs(&logs)?;
        let layer = sandbox.layer().ok();
        let view = match &layer {
            Some(layer) => layer.view()?,
            None => sandbox.view()?,
        };
        Ok((sandbox, layer, view, logs))
    });
    begun.await?.map_err(|error: io::Error| RunError::failed(sandbox_category(&error), error))
}

/// Of the checks those that let nothing through.
pub(crate) fn red(results: Vec<ValidationResult>) -> Vec<ValidationResult> {
    results.into_iter().filter(|result| result.outcome != ValidationOutcome::Passed).collect()
}
