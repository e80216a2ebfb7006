//! The gate that every call of a tool passes: turn, admission, work, capture, record.
//!
//! The runner has made all checks that are possible beforehand. Then the order is that of every call: the
//! turn in the sandbox, the effect, and the work under its time limit. The check of the result, the capture,
//! one step of the store, and the answer follow.
//!
//! # Invariants
//! 1. A call that can write is alone in the sandbox, from before it is admitted until what it changed is
//!    recorded (`sandbox_call`).
//! 2. Changes are captured after a failure, a panic and a time-out too, and before the scope of the node is
//!    tested. A node that was stopped while its tool worked has recorded what the tool changed.
//! 3. A call that the policy, the phase or the action forbids does not begin, and the refusal is recorded as
//!    a call.
//! 4. Without a sandbox only looking is possible, and it looks at the live tree.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actors::tool::{
    CallInfo, Catalog, CommandText, ForeignTool, HEAD_BYTES, Halt, ReadPolicy, TAIL_BYTES, ToolAnswer,
    ToolError, ToolHost, ToolOutcome, ToolPath, ToolProject, ToolRequest, ToolRunner, ToolSpec, ToolUse,
    head_and_tail,
};
use async_trait::async_trait;
use domain::{
    ByteText, CallEnd, CallNumber, CallState, CommandLine, ErrorCategory, Hash, NewCall, Phase, RootIndex,
    WallMs,
};
use sandbox::command::ExitKind;
use sandbox::fs::beneath;
use serde_json::{Value, json};
use sync::Effect;
use sync::primitives::{Mutex, lock};
use tokio::task::JoinError;

use super::super::admit::CallAccess;
use super::super::command;
use super::super::command::{CommandRequest, EndedCommand, RecordedArguments};
use super::super::mcp_server::NodeServers;
use super::super::result::LAST_WORDS_BYTES;
use super::super::{capture, record, write_guard};
use super::context_budget::ContextBudget;
use crate::plan::create::path_of;
use crate::plan::tool_policy::why_denied;
use crate::query::details::RUN_COMMAND;
use crate::run::RunError;
use crate::run::accounting;
use crate::run::accounting::UnrecordedCall;
use crate::run::context::NodeContext;
use crate::run::node::decisions;
use crate::run::node::{ActiveNode, NodeOutput, NodePersistence, NodeResult};
use crate::run::plan_sandbox::blocking;
use crate::tools::{self, ReadTools, ToolOutput, WriteTools, recorded_arguments, recorded_result};

/// The time beyond its own limit for which a foreign tool is waited for: its caller ends it by then, with a
/// better message.
const FOREIGN_GRACE: Duration = Duration::from_secs(5);
/// The maximum number of changed paths that a command's result names.
const CHANGED_MAX: usize = 500;

/// The place where the tools of one node work.
pub(crate) struct ToolGateway<'a> {
    pub(super) context: NodeContext<'a>,
    pub(super) projects: Vec<ToolProject>,
    /// The place for a call that only read, to be stored together with the end of its node. `None`: the call
    /// is stored at once.
    unkept: Option<&'a Mutex<Option<UnrecordedCall>>>,
    /// The last call that was stored or admitted.
    last_call: Mutex<Option<CallNumber>>,
    /// The limit of the context that the node of a model may be shown.
    pub(super) budget: OnceLock<ContextBudget>,
    /// Those whose tools it may call.
    servers: &'a NodeServers,
}

/// Runs the tools of one node.
pub(crate) type NodeTools<'a> = ToolRunner<ToolGateway<'a>>;

impl<'a> ToolGateway<'a> {
    /// Creates the gateway for the calls of `node`, with its servers.
    pub(crate) fn new(node: &ActiveNode<'a>, servers: &'a NodeServers) -> Self {
        let projects = node.plan.projects.iter().map(|project| ToolProject {
            alias: project.alias.clone(),
            root: path_of(&project.root),
            read_only: project.read_only,
        });
        Self {
            context: node.context.clone(),
            projects: projects.collect(),
            unkept: None,
            last_call: Mutex::default(),
            budget: OnceLock::new(),
            servers,
        }
    }

    /// Returns the last call of a tool that was stored or admitted.
    pub(crate) fn last_call(&self) -> Option<CallNumber> {
        *lock(&self.last_call)
    }

    fn is_call(&self, no: CallNumber) {
        *lock(&self.last_call) = Some(no);
    }

    /// Records a call that has ended and changed nothing.
    pub(super) async fn record_call(
        &self,
        effect: &Effect,
        new: NewCall,
        end: CallEnd,
    ) -> Result<(), RunError> {
        self.is_call(accounting::keep(self.context.run, effect, new, end).await?);
        Ok(())
    }

    /// From now on the node has this to be shown. The first call counts.
    pub(crate) fn set_budget(&self, budget: ContextBudget) {
        let _ = self.budget.set(budget);
    }

    /// Returns the context budget that the node has left.
    pub(crate) fn budget(&self) -> Option<&ContextBudget> {
        self.budget.get()
    }

    pub(super) fn new_call(&self, head: &CallInfo) -> NewCall {
        let redactor = self.context.engine.redactor.redactor();
        NewCall {
            attempt: self.context.plan.attempt,
            node: self.context.path.to_owned(),
            tool: head.name.clone(),
            requested: recorded_arguments(redactor.as_deref(), &head.requested),
            effective: recorded_arguments(redactor.as_deref(), &head.effective),
        }
    }

    pub(super) fn end(&self, started: WallMs, outcome: &Result<Value, ToolError>) -> CallEnd {
        let came_to = match outcome {
            Ok(result) => (CallState::Ok, None, recorded_result(result)),
            Err(why @ ToolError::TimedOut { .. }) => {
                (CallState::TimedOut, Some(why.text_with_code()), Value::Null)
            }
            Err(why) => (CallState::Failed, Some(why.text_with_code()), Value::Null),
        };
        self.context.engine.ended(started, came_to)
    }

    /// The tree of a project as the plan sees it: in its sandbox, if it has one.
    pub(super) async fn tree(&self, no: RootIndex) -> Result<OwnedFd, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::failed(ErrorCategory::Sandbox, error);
        let place = Arc::clone(&self.context.state.session).lock_owned().await;
        let project = self.project(no);
        let tree = blocking(move || match place.as_ref() {
            Some(session) => match session.sandbox.root(no) {
                Ok(root) => root.try_clone_to_owned(),
                Err(error) => Err(std::io::Error::other(error)),
            },
            None => beneath::open_root(&project),
        });
        tree.await?.map_err(|error| failed(&error))
    }

    fn project(&self, no: RootIndex) -> PathBuf {
        self.projects.get(usize::from(no.0)).map(|project| project.root.clone()).unwrap_or_default()
    }

    /// Reads, lists or searches; the call is stored with its end.
    async fn read(&self, head: &CallInfo, no: RootIndex, work: ToolRequest) -> Result<ToolOutcome, RunError> {
        let (effect, started) = (self.context.enter()?, self.context.engine.wall());
        let done = match self.read_at_hand(no, &work) {
            Some(done) => done,
            None => self.read_waiting(head, no, work).await?,
        };
        self.context.scope.check()?;
        let (outcome, seen) = checked(head, done);
        let (call, end) = (self.new_call(head), self.end(started, &outcome));
        match self.unkept {
            Some(unkept) => *lock(unkept) = Some(UnrecordedCall::new(effect, call, end)),
            None => self.record_call(&effect, call, end).await?,
        }
        Ok(ToolOutcome { outcome, changed: 0, seen })
    }

    /// Does the same as far as no task and no disk has to be waited for.
    fn read_at_hand(&self, no: RootIndex, work: &ToolRequest) -> Option<Result<ToolOutput, ToolError>> {
        let redactor = self.context.engine.redactor.redactor()?;
        let project = self.project(no);
        let is_over = || self.context.scope.is_cancelled();
        self.context.state.at_hand(no, &project, |root| {
            let hidden = self.context.engine.contexts.hidden().within(&project);
            let at = ReadTools {
                root,
                project: &project,
                redactor: &redactor,
                hidden: &hidden,
                is_over: &is_over,
            };
            tools::read_small(&at, work)
        })
    }

    /// The same on a thread that may wait, until its time is over.
    async fn read_waiting(
        &self,
        head: &CallInfo,
        no: RootIndex,
        work: ToolRequest,
    ) -> Result<Result<ToolOutput, ToolError>, RunError> {
        let (tree, project) = (self.tree(no).await?, self.project(no));
        let (engine, scope) = (Arc::clone(self.context.engine), self.context.scope.clone());
        let until = Instant::now() + time_limit(head);
        let reading = tokio::task::spawn_blocking(move || {
            let redactor = engine.redactor.redactor()?;
            let is_over = || scope.is_cancelled() || Instant::now() >= until;
            let (root, hidden) = (tree.as_fd(), engine.contexts.hidden().within(&project));
            let at = ReadTools {
                root,
                project: &project,
                redactor: &redactor,
                hidden: &hidden,
                is_over: &is_over,
            };
            tools::read(&at, &work)
        });
        Ok(came_to(&head.name, reading.await))
    }

    /// Writes, edits, removes or moves; what changed is captured and recorded, whatever came of it and
    /// whatever was stopped meanwhile.
    async fn write(&self, head: &CallInfo, work: ToolRequest) -> Result<ToolOutcome, RunError> {
        let context = &self.context;
        let call = context.begin_call(CallAccess::Record, self.new_call(head)).await?;
        self.is_call(call.call().no);
        let (engine, node, started) =
            (Arc::clone(self.context.engine), self.context.path.to_owned(), call.call().started);
        let mut place = Arc::clone(&self.context.state.session).lock_owned().await;
        let changing = tokio::task::spawn_blocking(move || {
            let session = place.as_mut()?;
            let (rules, sink) = (capture::rules(session, &node), Arc::clone(&session.staging));
            let redactor = engine.redactor.redactor()?;
            let with = WriteTools {
                sandbox: &mut session.sandbox,
                sink: sink.as_ref(),
                rules: &rules,
                redactor: &redactor,
            };
            tools::write(&mut { with }, &work)
        });
        let done = came_to(&head.name, changing.await);
        let (outcome, seen) = checked(head, done);
        let changed = call.end(context, |_, _| Ok((self.end(started, &outcome), None))).await?.changed;
        self.context.scope.check()?;
        Ok(ToolOutcome { outcome, changed: count(changed), seen })
    }

    /// Runs a command as every command of the plan is run.
    async fn command(&self, head: &CallInfo, task: CommandRequest) -> Result<ToolOutcome, RunError> {
        let (context, seconds) = (&self.context, task.timeout.map_or(0, |timeout| timeout.as_secs()));
        let EndedCommand { mut call, finished } = command::run(context, task).await?;
        self.is_call(call.call().no);
        // The record of the call reports changes that cannot be captured.
        let changed = call.capture(context).await.unwrap_or_default();
        let shown = |output: &sandbox::command::Output| {
            let text = self.context.engine.redactor.bounded(output, HEAD_BYTES, TAIL_BYTES);
            head_and_tail(&text, HEAD_BYTES, TAIL_BYTES)
        };
        let outcome = match finished.ended() {
            None => {
                let message = finished.failure().unwrap_or_default();
                Err(ToolError::Failed { tool: head.name.clone(), message })
            }
            Some(ended) => {
                let (exit, signal) = match ended.how {
                    ExitKind::Exited(status) => (Some(status), None),
                    ExitKind::Signalled(signal) => (None, Some(signal)),
                    ExitKind::TimedOut | ExitKind::Killed => (None, None),
                };
                let named: Vec<String> = changed.iter().take(CHANGED_MAX).map(|at| self.shown(at)).collect();
                Ok(json!({
                    "exit": exit, "signal": signal, "timed_out": ended.how == ExitKind::TimedOut,
                    "stdout": shown(&ended.stdout), "stderr": shown(&ended.stderr), "changed": named,
                }))
            }
        };
        let outcome = outcome.and_then(|result| fitting(head, result));
        let kept = outcome.as_ref().ok().map(|result| {
            let last_words = finished.last_words(self.context.engine, LAST_WORDS_BYTES);
            json!({
                "changed": changed.len(), "last_words": last_words,
                "timed_out": result["timed_out"], "timeout_s": seconds,
            })
        });
        record::record_command(context, EndedCommand { call, finished }, kept, |_| None).await?;
        self.context.scope.check()?;
        Ok(ToolOutcome { outcome, changed: count(changed.len()), seen: Vec::new() })
    }

    /// Records a choice; the call is stored with its end.
    async fn decide(&self, head: &CallInfo, said: &Value) -> Result<ToolOutcome, RunError> {
        let (effect, started) = (self.context.enter()?, self.context.engine.wall());
        let outcome = match decisions::record_one(&self.context, &effect, said).await? {
            Ok(decision) => fitting(head, json!({ "decision": decision })),
            Err(why) => Err(ToolError::DecisionInvalid { why }),
        };
        let end = self.end(started, &outcome);
        self.record_call(&effect, self.new_call(head), end).await?;
        Ok(ToolOutcome { outcome, changed: 0, seen: Vec::new() })
    }

    fn shown(&self, (no, path): &(RootIndex, domain::RelPath)) -> String {
        let several = self.projects.len() > 1;
        match self.projects.get(usize::from(no.0)).filter(|_| several) {
            Some(project) => format!("{}:{path}", project.alias),
            None => path.to_string(),
        }
    }

    /// Starts the server of a tool again that went away. One that does not start fails the call, not the
    /// node.
    async fn revive(&self, tool: &str) -> Result<Result<(), ToolError>, RunError> {
        match self.servers.revive(&self.context, tool).await {
            Ok(()) => Ok(Ok(())),
            Err(RunError::Failed { message, .. }) => {
                let message = message + &self.servers.way_on(tool);
                Ok(Err(ToolError::Failed { tool: tool.to_owned(), message }))
            }
            Err(
                stopped @ (RunError::Cancelled
                | RunError::Reported(_)
                | RunError::Limit { .. }
                | RunError::Constrained(_)),
            ) => Err(stopped),
        }
    }

    /// Calls a tool that is none of ours.
    async fn foreign(
        &self,
        head: &CallInfo,
        tool: Arc<dyn ForeignTool>,
        arguments: Value,
    ) -> Result<ToolOutcome, RunError> {
        let context = &self.context;
        let is_watched = self.servers.is_watched(&head.name);
        let access = match writes(head) {
            _ if is_watched => CallAccess::PutBack,
            true if self.context.state.session.lock().await.is_some() => CallAccess::Record,
            true | false => CallAccess::Look,
        };
        if access == CallAccess::Look {
            let _turn = context.turn(false).await?;
            let (effect, started) = (self.context.enter()?, self.context.engine.wall());
            let outcome = self.answer(head, tool, arguments).await?;
            let end = self.end(started, &outcome);
            self.record_call(&effect, self.new_call(head), end).await?;
            return Ok(ToolOutcome { outcome, changed: 0, seen: Vec::new() });
        }
        let mut call = context.begin_call(access, self.new_call(head)).await?;
        self.is_call(call.call().no);
        let started = call.call().started;
        let outcome = match self.answer(head, tool, arguments).await {
            Ok(outcome) => Ok(outcome),
            Err(stopped) => {
                // If the run winds down, it captures. Otherwise the server must have ended before the capture
                // here.
                self.context.job.scope().check()?;
                self.servers.end_of(&head.name).await;
                Err(stopped)
            }
        };
        let wrote = match is_watched {
            true => write_guard::revert_changes(context, &mut call).await?,
            false => None,
        };
        let end = match &outcome {
            Ok(outcome) => self.end(started, outcome),
            Err(stopped) => {
                self.context.engine.ended(started, (CallState::Cancelled, Some(stopped.shown()), Value::Null))
            }
        };
        let changed = call.end(context, |_, _| Ok((end, None))).await?.changed;
        if let Some(message) = wrote {
            return Err(RunError::failed(ErrorCategory::Tool, message));
        }
        Ok(ToolOutcome { outcome: outcome?, changed: count(changed), seen: Vec::new() })
    }

    /// Returns the answer of a foreign tool, within its time and as long as the node is not stopped.
    async fn answer(
        &self,
        head: &CallInfo,
        tool: Arc<dyn ForeignTool>,
        arguments: Value,
    ) -> Result<Result<Value, ToolError>, RunError> {
        // A task of its own: a panic in it is its failure, not ours.
        let mut calling = tokio::spawn(async move { tool.call(arguments).await });
        let limit = time_limit(head).saturating_add(FOREIGN_GRACE);
        let answered = tokio::select! {
            biased;
            _ = self.context.scope.cancelled() => {
                calling.abort();
                return Err(RunError::Cancelled);
            }
            answered = &mut calling => answered.map_err(|error| panicked(&head.name, error)).and_then(|answer| {
                answer.map_err(|message| {
                    let message = message + &self.servers.way_on(&head.name);
                    ToolError::Failed { tool: head.name.clone(), message }
                })
            }),
            () = tokio::time::sleep(limit) => {
                calling.abort();
                Err(ToolError::TimedOut { tool: head.name.clone(), seconds: limit.as_secs() })
            }
        };
        let outcome = answered.and_then(|result| fitting(head, result));
        Ok(outcome.map(|result| match self.context.engine.redactor.redactor() {
            Some(redactor) => redactor.redact_json(&result),
            None => json!("[withheld: no redactor]"),
        }))
    }
}

#[async_trait]
impl ToolHost for ToolGateway<'_> {
    type Stopped = RunError;

    fn projects(&self) -> &[ToolProject] {
        &self.projects
    }

    fn forbids(&self, tool: &ToolSpec) -> Option<String> {
        if let Some(why) = why_denied(&self.context.plan.spec.deny_tools, &tool.name) {
            return Some(why);
        }
        let why = match self.context.phase() {
            Phase::Strategize if tool.writes => "files are read-only in strategize",
            Phase::Execute if tool.writes && self.context.plan.spec.read_only => "the action is read_only",
            Phase::Apply => "no tool can be called while a plan is applied",
            Phase::Strategize | Phase::Execute => return None,
        };
        Some(why.to_owned())
    }

    async fn refused(&self, call: CallInfo, why: &ToolError) -> Result<(), RunError> {
        let effect = self.context.enter()?;
        let end = self.end(self.context.engine.wall(), &Err(why.clone()));
        let end = CallEnd { state: CallState::Refused, ..end };
        self.record_call(&effect, self.new_call(&call), end).await
    }

    async fn perform(&self, call: CallInfo, work: ToolRequest) -> Result<ToolOutcome, RunError> {
        if let ToolRequest::Foreign { .. } = work
            && let Err(why) = self.revive(&call.name).await?
        {
            self.refused(call, &why).await?;
            return Ok(ToolOutcome { outcome: Err(why), changed: 0, seen: Vec::new() });
        }
        match &work {
            ToolRequest::Read { place, .. }
            | ToolRequest::List { place, .. }
            | ToolRequest::Search { place, .. } => {
                let no = place.root;
                let _turn = self.context.turn(false).await?;
                self.read(&call, no, work).await
            }
            ToolRequest::Write { .. }
            | ToolRequest::Edit { .. }
            | ToolRequest::Delete { .. }
            | ToolRequest::Move { .. } => self.write(&call, work).await,
            ToolRequest::Run { command, cwd, timeout_s, env, stdin } => {
                let task = CommandRequest {
                    node: self.context.path.to_owned(),
                    tool: RUN_COMMAND,
                    run: run_of(command),
                    root: cwd.root,
                    cwd: ByteText(cwd.path.as_ref().map(|path| path.as_bytes().to_vec()).unwrap_or_default()),
                    timeout: Some(Duration::from_secs(u64::from(*timeout_s))),
                    network: false,
                    allow_loopback: Vec::new(),
                    env: env
                        .iter()
                        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
                        .collect(),
                    pass_env: Vec::new(),
                    writable: Vec::new(),
                    stdin: stdin.as_ref().map(|text| text.clone().into_bytes()),
                    writes: true,
                    access: CallAccess::Record,
                    asked: Some(self.asked(&call)),
                };
                self.command(&call, task).await
            }
            ToolRequest::Decide { said } => {
                let _turn = self.context.turn(false).await?;
                self.decide(&call, said).await
            }
            ToolRequest::Context { question, places } => {
                let _turn = self.context.turn(false).await?;
                self.context(&call, question, places.clone()).await
            }
            ToolRequest::History(question) => {
                let _turn = self.context.turn(false).await?;
                self.history(&call, question).await
            }
            ToolRequest::ContextBudget => {
                let _turn = self.context.turn(false).await?;
                self.context_budget(&call).await
            }
            ToolRequest::Foreign { tool, arguments } => {
                self.foreign(&call, Arc::clone(tool), arguments.clone()).await
            }
        }
    }
}

impl ToolGateway<'_> {
    fn asked(&self, head: &CallInfo) -> RecordedArguments {
        let NewCall { requested, effective, .. } = self.new_call(head);
        RecordedArguments { requested, effective }
    }
}

/// Does a step that calls one tool.
pub(crate) async fn run_tool_step(
    node: &ActiveNode<'_>,
    (name, with): (&str, &Value),
) -> Result<NodeResult, RunError> {
    let unkept = Mutex::new(None);
    let mut catalog = Catalog::builtin();
    let servers = NodeServers::start(node).await?;
    servers.add_to(&mut catalog, &[]);
    let gate = ToolGateway { unkept: Some(&unkept), ..ToolGateway::new(node, &servers) };
    let mut tools: NodeTools<'_> = ToolRunner::new(gate, catalog, ReadPolicy::Trusting);
    let call = ToolUse { id: node.path.to_owned(), name: name.to_owned(), arguments: with.clone() };
    let answer = tools.call(&call).await.map_err(stopped);
    let no = tools.workplace().last_call();
    drop(tools);
    let answer = servers.end_after(node, answer).await;
    let left = answer.and_then(|answer| left_by(name, answer));
    let left = left.map_err(|stopped| match no {
        Some(no) => stopped.of_call(no),
        None => stopped,
    });
    let unkept = lock(&unkept).take();
    match (left, unkept) {
        (Ok(left), Some(unkept)) => {
            let unkept = unkept.settling(node.settles(left.clone()));
            Ok(NodeResult { run: node.ended(left), end: NodePersistence::WithCall(Box::new(unkept)) })
        }
        (Ok(left), None) => Ok(NodeResult { run: node.ended(left), end: NodePersistence::Loose }),
        (Err(stopped), Some(unkept)) => {
            accounting::record_all(node.run, &[&unkept]).await?;
            Err(stopped)
        }
        (Err(stopped), None) => Err(stopped),
    }
}

/// Returns the output of a step from the answer of its tool.
fn left_by(tool: &str, answer: ToolAnswer) -> Result<NodeOutput, RunError> {
    if answer.is_error {
        return Err(RunError::failed(ErrorCategory::Tool, &answer.text));
    }
    let (text, json) = (answer.result.to_string(), answer.result);
    match json.get("exit") {
        None => {}
        Some(exit) if exit == 0 => {}
        Some(_) if json["timed_out"] == true => {
            let message = format!("{tool} took longer than its time limit");
            return Err(RunError::failed(ErrorCategory::Timeout, message));
        }
        Some(exit) => {
            let message = format!("{tool} exited with status {exit}");
            return Err(RunError::failed(ErrorCategory::Tool, message));
        }
    }
    // What is too long to be stored whole is stored in part, as text.
    let json = if text.len() > 4 * (HEAD_BYTES + TAIL_BYTES) { Value::Null } else { json };
    Ok(NodeOutput { text, json, changed: answer.changed, ..NodeOutput::default() })
}

/// Returns the error that ends a node whose call was halted.
pub(crate) fn stopped(halt: Halt<RunError>) -> RunError {
    match halt {
        Halt::Stopped(stopped) => stopped,
        Halt::Loop { tool, times } => {
            let message = format!(
                "the model called {tool} {times} times in a row with the same arguments and the same result"
            );
            RunError::failed(ErrorCategory::ModelOutput, message)
        }
    }
}

fn writes(head: &CallInfo) -> bool {
    head.tool.as_ref().is_some_and(|tool| tool.spec.writes)
}

pub(super) fn time_limit(head: &CallInfo) -> Duration {
    Duration::from_secs(head.tool.as_ref().map_or(60, |tool| u64::from(tool.spec.timeout_s)))
}

fn count(changed: usize) -> u32 {
    u32::try_from(changed).unwrap_or(u32::MAX)
}

fn run_of(command: &CommandText) -> CommandLine {
    match command {
        // Not `sh -ec`, as in definitions: a model's line continues after a failure, as at a terminal.
        CommandText::Shell(text) => CommandLine::Argv(["sh", "-c", text].map(ByteText::from).to_vec()),
        CommandText::Argv(words) => {
            CommandLine::Argv(words.iter().map(|word| word.as_str().into()).collect())
        }
    }
}

/// The result, if it is one that the tool promised.
pub(super) fn fitting(head: &CallInfo, result: Value) -> Result<Value, ToolError> {
    match &head.tool {
        Some(tool) => tool.check_output(&result).map(|()| result),
        None => Ok(result),
    }
}

/// Returns the result of a thread.
fn came_to(
    tool: &str,
    joined: Result<Option<Result<ToolOutput, ToolError>>, JoinError>,
) -> Result<ToolOutput, ToolError> {
    let nobody = || ToolError::Failed {
        tool: tool.to_owned(),
        message: "there is no sandbox, or secrets cannot be redacted".to_owned(),
    };
    joined.map_err(|error| panicked(tool, error))?.unwrap_or_else(|| Err(nobody()))
}

fn panicked(tool: &str, error: JoinError) -> ToolError {
    let said = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    };
    let message = match error.try_into_panic() {
        Ok(panic) => format!("it panicked: {}", said(panic)),
        Err(error) => error.to_string(),
    };
    ToolError::Failed { tool: tool.to_owned(), message }
}

type CheckedOutput = (Result<Value, ToolError>, Vec<(ToolPath, Option<Hash>)>);

fn checked(head: &CallInfo, done: Result<ToolOutput, ToolError>) -> CheckedOutput {
    match done {
        Ok(ToolOutput { result, seen }) => (fitting(head, result), seen),
        Err(why) => (Err(why), Vec::new()),
    }
}
