//! A program that a person runs by hand in the sandbox of a finished plan: a shell above all.
//!
//! # Invariants
//! 1. The sandbox is a fresh one over the user's tree, with the plan's recorded changes in it. It goes with
//!    the program; the user's tree is not written.
//! 2. The program is isolated as the plan's commands are.
//! 3. What it changed is recorded as one call of the person, [`SHELL_BY_USER`]. A program that changed
//!    nothing leaves no trace.
//! 4. Checks that passed do not count for a changed result: their results belong to the changes that they ran
//!    on.
//!
//! # Not here
//! The terminal: the caller speaks to the program.

use std::sync::Arc;

use domain::{
    ByteText, CallNumber, CallState, ChangeId, ChangesetId, CommandLine, Initiator, MoveRecord, NewCall,
    NewChange, Plan, PlanEvent, PlanId, PlanState, RootIndex, fold_all,
};
use sandbox::command::{ExitKind, PipedStreams, Stdin};
use sandbox::{CaptureRules, CapturedChange, OpenRequest, Sandbox, SandboxStrategy, StrategyChoice};
use serde_json::{Value, json};
use store::{PlanMove, PlanStoreError, StoreError};

use super::execute::ExecuteError;
use super::transition::plan_move;
use crate::engine::Engine;
use crate::query::diff::aliases;
use crate::run::RunError;
use crate::run::call::admit::CallAccess;
use crate::run::call::capture::changed_paths;
use crate::run::call::command::CommandRequest;
use crate::run::call::process;
use crate::run::call::process::ProcessMarks;
use crate::run::plan_sandbox;
use crate::run::plan_sandbox::content::{Staging, StoreContents};
use crate::run::plan_sandbox::{blocking, location};

/// The tool of a call by which a person worked in a plan's sandbox.
pub const SHELL_BY_USER: &str = "shell_by_user";
/// The node of such a call.
const NODE: &str = "shell";
/// The number of times that a plan that another process moves is tried again.
const RECORD_TRIES_MAX: u32 = 3;

/// The program that a person runs.
#[derive(Clone, Debug)]
pub struct ShellRequest {
    /// The command line.
    pub run: CommandLine,
    /// Its name in the record.
    pub shown: String,
    /// Variables for it.
    pub env: Vec<(ByteText, ByteText)>,
    /// True if it may use the network.
    pub network: bool,
}

/// The result of such a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellEnd {
    /// Its status; `None` if it was killed.
    pub exit: Option<i32>,
    /// The files that it changed, as people call them.
    pub changed: Vec<String>,
}

/// The reason why a program did not run, or its changes were not recorded.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The plan waits, is worked on, or is applied.
    #[error("plan {plan} cannot be changed: it is {state}")]
    NotFinished {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// Another process moved it meanwhile: the changes are not recorded.
    #[error("plan {plan} was moved by another process, so what you changed is not recorded")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// The sandbox could not be made, or the program not be started.
    #[error("{why}")]
    Failed {
        /// Why.
        why: String,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for ShellError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl From<RunError> for ShellError {
    fn from(error: RunError) -> Self {
        Self::Failed { why: error.shown() }
    }
}

fn failed(why: &dyn std::fmt::Display) -> ShellError {
    ShellError::Failed { why: why.to_string() }
}

impl Engine {
    /// Runs a program in a sandbox with the plan's changes, and records what it changed. `talk` has the streams
    /// of the program until they end.
    ///
    /// # Errors
    /// Returns an error, and records nothing, if the plan is not finished, if the program cannot be started, or
    /// if the plan was moved meanwhile.
    pub async fn shell(
        &self,
        id: PlanId,
        request: ShellRequest,
        talk: impl FnOnce(PipedStreams) + Send + 'static,
    ) -> Result<ShellEnd, ShellError> {
        let plan = self.amendable(id).await?;
        let sandbox = self.open_with_changes(&plan).await?;
        let (mut sandbox, how) = self.run_in(sandbox, &plan, &request, talk).await?;
        let staging = Arc::new(Staging::new(Arc::clone(&self.inner.store)));
        let rules = CaptureRules {
            ignore: plan.spec.ignore.clone(),
            protected: plan.spec.protected.clone(),
            max_file_bytes: plan.spec.max_file_bytes,
        };
        let sink = Arc::clone(&staging);
        let (sandbox, captured) = blocking(move || {
            let captured = sandbox.scan(sink.as_ref(), &rules);
            (sandbox, captured)
        })
        .await?;
        let found = captured.map_err(|error| failed(&error))?.drafts;
        // What cannot be removed now is swept by the next command.
        drop(blocking(move || sandbox.close()).await?);
        let exit = match how {
            ExitKind::Exited(status) => Some(status),
            ExitKind::Signalled(_) | ExitKind::TimedOut | ExitKind::Killed => None,
        };
        let changed = self.addresses_of(&plan, &found);
        if !found.is_empty() {
            self.record_shell(plan, &request, &found, &staging).await?;
        }
        Ok(ShellEnd { exit, changed })
    }

    /// The plan, if a person may change its result.
    async fn amendable(&self, id: PlanId) -> Result<Plan, ShellError> {
        let plan = self.inner.store.plan(id).await?;
        match plan.moved(PlanEvent::Amend, Vec::new(), plan.updated) {
            Ok(_) => Ok(plan),
            Err(_) => Err(ShellError::NotFinished { plan: id, state: plan.state }),
        }
    }

    /// A fresh sandbox with the changes of the plan.
    async fn open_with_changes(&self, plan: &Plan) -> Result<Sandbox, ShellError> {
        let request = plan_sandbox::open_request(&self.inner, plan)?;
        // A person does not work in the user's own tree.
        let choice = match request.choice {
            StrategyChoice::Only(SandboxStrategy::InPlace) => StrategyChoice::Auto,
            other @ (StrategyChoice::Auto | StrategyChoice::Only(_)) => other,
        };
        let request = OpenRequest { choice, ..request };
        let changes = fold_all(&self.inner.entries(plan).await?);
        let (engine, watch) = (Arc::clone(&self.inner), self.inner.watch_copy(plan.id));
        let hidden = self.inner.contexts.hidden().clone();
        let opened = blocking(move || {
            let sandbox =
                location::open_spare(&request, &watch, &|| false).map_err(|error| failed(&error))?;
            let mut sandbox = sandbox.with_hidden(hidden);
            let source = StoreContents(engine.store.as_ref());
            sandbox.restore(&changes, &source).map_err(|error| failed(&error))?;
            Ok(sandbox)
        });
        opened.await?
    }

    /// Runs the program to its end.
    async fn run_in(
        &self,
        sandbox: Sandbox,
        plan: &Plan,
        request: &ShellRequest,
        talk: impl FnOnce(PipedStreams) + Send + 'static,
    ) -> Result<(Sandbox, ExitKind), ShellError> {
        let engine = &self.inner;
        let logs = location::log_dir(sandbox.dir(), CallNumber(0));
        process::make_logs(&logs).map_err(|error| failed(&error))?;
        let task = task(plan, request);
        let mut spec = process::command_spec(engine, &ProcessMarks::default(), plan, &task, logs)?;
        spec.stdin = Stdin::Spoken;
        let isolation = process::isolation(engine, plan);
        let ran = blocking(move || {
            let view = sandbox.view().map_err(|error| failed(&error))?;
            let started = isolation.start_when_there_is_room(view, spec, || false);
            let mut running = started.map_err(|error| failed(&error))?;
            let talker = running.take_pipes().map(|pipes| std::thread::spawn(move || talk(pipes)));
            let ended = running.wait();
            // A talker that panicked has nothing more to say.
            let _ = talker.map(std::thread::JoinHandle::join);
            Ok((sandbox, ended.how))
        });
        ran.await?
    }

    fn addresses_of(&self, plan: &Plan, found: &[CapturedChange]) -> Vec<String> {
        let names = aliases(plan);
        let name = |root: RootIndex| names.iter().find(|name| name.root == root).filter(|_| names.len() > 1);
        let address = |(root, path)| match name(root) {
            Some(project) => format!("{}:{path}", project.alias),
            None => format!("{path}"),
        };
        changed_paths(found).into_iter().map(address).collect()
    }

    /// Records the changes as the person's. A plan that another process moved, and that can still be changed on
    /// the same attempt, is tried again.
    async fn record_shell(
        &self,
        mut plan: Plan,
        request: &ShellRequest,
        found: &[CapturedChange],
        staging: &Staging,
    ) -> Result<(), ShellError> {
        let (id, attempt) = (plan.id, plan.attempt);
        for _ in 0..RECORD_TRIES_MAX {
            let (record, contents) = (Some(self.shell_record(&plan, request, found)), staging.contents());
            let amend = plan_move(&plan, PlanEvent::Amend, Initiator::User, None);
            match self.move_plan(PlanMove { record, contents, ..amend }).await {
                Ok(_) => return Ok(()),
                Err(ExecuteError::Busy { .. }) => {}
                Err(ExecuteError::Plan(error)) => return Err(error.into()),
                Err(other) => return Err(StoreError::Broken { why: other.to_string() }.into()),
            }
            plan = self.amendable(id).await?;
            if plan.attempt != attempt {
                break;
            }
        }
        Err(ShellError::Busy { plan: id })
    }

    /// The call and its entries.
    fn shell_record(&self, plan: &Plan, request: &ShellRequest, found: &[CapturedChange]) -> MoveRecord {
        let change = |found: &CapturedChange| NewChange {
            id: ChangeId::from_u128(self.inner.ids.ulid()),
            call: CallNumber(0),
            root: found.root,
            base: found.base,
            draft: found.draft.clone(),
        };
        let shown = self.inner.redactor.redact_text(&request.shown);
        let call = NewCall {
            attempt: plan.attempt,
            node: NODE.to_owned(),
            tool: SHELL_BY_USER.to_owned(),
            requested: json!({ "run": shown }),
            effective: Value::Null,
        };
        let count = changed_paths(found).len();
        let result = json!({ "text": format!("you changed {count} files by hand ({shown})\n") });
        let end = self.inner.ended(self.inner.wall(), (CallState::Ok, None, result));
        let changeset = ChangesetId::from_u128(self.inner.ids.ulid());
        MoveRecord { changeset, call, end, changes: found.iter().map(change).collect() }
    }
}

/// The program with what the plan's first command has around it.
fn task(plan: &Plan, request: &ShellRequest) -> CommandRequest {
    let surroundings = plan.spec.commands().next();
    let of_plan = surroundings.map(|command| command.env.clone()).unwrap_or_default();
    CommandRequest {
        node: NODE.to_owned(),
        tool: SHELL_BY_USER,
        run: request.run.clone(),
        root: RootIndex(0),
        cwd: surroundings.map(|command| command.cwd.clone()).unwrap_or_default(),
        timeout: None,
        network: request.network || surroundings.is_some_and(|command| command.network),
        allow_loopback: surroundings.map(|command| command.allow_loopback.clone()).unwrap_or_default(),
        env: of_plan.into_iter().chain(request.env.iter().cloned()).collect(),
        pass_env: surroundings.map(|command| command.pass_env.clone()).unwrap_or_default(),
        writable: surroundings.map(|command| command.writable.clone()).unwrap_or_default(),
        stdin: None,
        writes: true,
        access: CallAccess::Record,
        asked: None,
    }
}
