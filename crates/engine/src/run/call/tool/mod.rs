//! The gate that every call of a tool passes: turn, admission, work, capture, record.
//!
//! The order is that of every call: what can be judged beforehand was judged by the runner; then the turn in the sandbox, the
//! effect, the work under its time limit, the schema of the result, the capture, one step of the store, and the answer.
//!
//! # Invariants
//! 1. A call that can write is alone in the sandbox, from before it is admitted until what it changed is recorded
//!    (`sandbox_call`).
//! 2. What changed is captured after a failure, a panic and a time-out too, and before the scope of the node is tested: a
//!    node that was stopped while its tool worked has recorded what the tool changed.
//! 3. What the policy, the phase or the action forbids does not begin, and the refusal is kept as a call.
//! 4. Without a sandbox only looking is possible, and it looks at the live tree.

mod context;
mod context_budget;
mod focus;

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actors::tool::{
    CallHead, Catalog, CommandText, ForeignTool, HEAD_BYTES, Halt, Memory, Performed, Place, Project,
    TAIL_BYTES, ToolAnswer, ToolError, ToolRunner, ToolSpec, ToolUse, Work, Workplace, head_and_tail,
};
use async_trait::async_trait;
use domain::{
    ByteText, CallEnd, CallNo, CallState, ErrorCategory, Hash, NewCall, Phase, Plan, RootNo, Run, WallMs,
};
use sandbox::command::HowEnded;
use sandbox::fs::beneath;
use serde_json::{Value, json};
use sync::primitives::{Mutex, lock};
use sync::{Effect, Observed};
use tokio::task::JoinError;

use super::command;
use super::command::{Asked, RanCommand, Task};
use super::mcp_server::NodeServers;
use super::result::LAST_WORDS_BYTES;
use super::sandbox_call::Access;
use super::{capture, write_guard};
use crate::engine::House;
use crate::plan::create::path_of;
use crate::query::details::RUN_COMMAND;
use crate::run::Stopped;
use crate::run::accounting;
use crate::run::accounting::Unkept;
use crate::run::context::Site;
use crate::run::node::decisions::Decider;
use crate::run::node::{Done as NodeDone, End, Left, Node};
use crate::run::plan_sandbox::blocking;
use crate::run::state::LiveRun;
use crate::tools::{
    Changing, Done, Looking, change, kept_arguments, kept_result, look, look_at_hand, why_denied,
};
use worker::JobRun;

pub(crate) use context::First;
pub(crate) use context_budget::Desk;

/// How much longer than its own limit a tool that is none of ours is waited for: who calls it ends it by then, and knows
/// what to say of it.
const FOREIGN_GRACE: Duration = Duration::from_secs(5);
/// How many changed paths a command's result names.
const CHANGED_MAX: usize = 500;

/// Where the tools of one node work.
pub(crate) struct Gate<'a> {
    house: &'a Arc<House>,
    run: &'a JobRun,
    live: &'a Arc<LiveRun>,
    plan: &'a Plan,
    node: &'a str,
    /// Ends with the run, and when the node is to be stopped.
    scope: Observed,
    projects: Vec<Project>,
    /// Where a call that only looked is left to be kept together with the end of its node; none: it is kept at once.
    unkept: Option<&'a Mutex<Option<Unkept>>>,
    /// The last call that was kept or admitted.
    last_call: Mutex<Option<CallNo>>,
    /// What the node of a model may be shown.
    desk: OnceLock<Desk>,
    /// Those whose tools it may call.
    servers: &'a NodeServers,
}

/// Runs the tools of one node.
pub(crate) type Tools<'a> = ToolRunner<Gate<'a>>;

impl<'a> Gate<'a> {
    /// For the calls of `node`, beside its servers.
    pub(crate) fn beside(node: &Node<'a>, servers: &'a NodeServers) -> Self {
        let Node { house, run, live, plan, path, .. } = *node;
        let projects = plan.projects.iter().map(|project| Project {
            alias: project.alias.clone(),
            root: path_of(&project.root),
            read_only: project.read_only,
        });
        let scope = node.scope.clone();
        let (projects, desk, last_call) = (projects.collect(), OnceLock::new(), Mutex::default());
        Self { house, run, live, plan, node: path, scope, projects, last_call, desk, servers, unkept: None }
    }

    /// The last call of a tool that was kept or admitted.
    pub(crate) fn last_call(&self) -> Option<CallNo> {
        *lock(&self.last_call)
    }

    fn is_call(&self, no: CallNo) {
        *lock(&self.last_call) = Some(no);
    }

    /// Keeps a call that has ended and changed nothing.
    async fn keep_call(&self, effect: &Effect, new: NewCall, end: CallEnd) -> Result<(), Stopped> {
        self.is_call(accounting::keep(self.house, self.run, effect, new, end).await?);
        Ok(())
    }

    /// From now on the node has this to be shown. The first call counts.
    pub(crate) fn open_desk(&self, desk: Desk) {
        let _ = self.desk.set(desk);
    }

    /// What the node may still be shown.
    pub(crate) fn desk(&self) -> Option<&Desk> {
        self.desk.get()
    }

    /// Begins something that has an effect.
    fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }

    fn new_call(&self, head: &CallHead) -> NewCall {
        let redactor = self.house.redactor.redactor();
        NewCall {
            attempt: self.plan.attempt,
            node: self.node.to_owned(),
            tool: head.name.clone(),
            requested: kept_arguments(redactor.as_deref(), &head.requested),
            effective: kept_arguments(redactor.as_deref(), &head.effective),
        }
    }

    fn end(&self, started: WallMs, outcome: &Result<Value, ToolError>) -> CallEnd {
        let came_to = match outcome {
            Ok(result) => (CallState::Ok, None, kept_result(result)),
            Err(why @ ToolError::TimedOut { .. }) => (CallState::TimedOut, Some(why.told()), Value::Null),
            Err(why) => (CallState::Failed, Some(why.told()), Value::Null),
        };
        self.house.ended(started, came_to)
    }

    /// The tree of a project as the plan sees it: in its sandbox, if it has one.
    async fn tree(&self, no: RootNo) -> Result<OwnedFd, Stopped> {
        let failed = |error: &dyn std::fmt::Display| Stopped::failed(ErrorCategory::Sandbox, error);
        let place = Arc::clone(&self.live.open).lock_owned().await;
        let project = self.project(no);
        let tree = blocking(move || match place.as_ref() {
            Some(open) => match open.sandbox.root(no) {
                Ok(root) => root.try_clone_to_owned(),
                Err(error) => Err(std::io::Error::other(error)),
            },
            None => beneath::open_root(&project),
        });
        tree.await?.map_err(|error| failed(&error))
    }

    fn project(&self, no: RootNo) -> PathBuf {
        self.projects.get(usize::from(no.0)).map(|project| project.root.clone()).unwrap_or_default()
    }

    /// Reads, lists or searches; the call is kept with its end.
    async fn look(&self, head: &CallHead, no: RootNo, work: Work) -> Result<Performed, Stopped> {
        let (effect, started) = (self.enter()?, self.house.wall());
        let done = match self.look_at_hand(no, &work) {
            Some(done) => done,
            None => self.look_waiting(head, no, work).await?,
        };
        self.scope.check()?;
        let (outcome, seen) = checked(head, done);
        let (call, end) = (self.new_call(head), self.end(started, &outcome));
        match self.unkept {
            Some(unkept) => *lock(unkept) = Some(Unkept::new(effect, call, end)),
            None => self.keep_call(&effect, call, end).await?,
        }
        Ok(Performed { outcome, changed: 0, seen })
    }

    /// The same as far as nobody and no disk has to be waited for.
    fn look_at_hand(&self, no: RootNo, work: &Work) -> Option<Result<Done, ToolError>> {
        let redactor = self.house.redactor.redactor()?;
        let project = self.project(no);
        let is_over = || self.scope.is_cancelled();
        self.live.at_hand(no, &project, |root| {
            let hidden = self.house.contexts.hidden().within(&project);
            let at =
                Looking { root, project: &project, redactor: &redactor, hidden: &hidden, is_over: &is_over };
            look_at_hand(&at, work)
        })
    }

    /// The same on a thread that may wait, until its time is over.
    async fn look_waiting(
        &self,
        head: &CallHead,
        no: RootNo,
        work: Work,
    ) -> Result<Result<Done, ToolError>, Stopped> {
        let (tree, project) = (self.tree(no).await?, self.project(no));
        let (house, scope) = (Arc::clone(self.house), self.scope.clone());
        let until = Instant::now() + time_limit(head);
        let looked = tokio::task::spawn_blocking(move || {
            let redactor = house.redactor.redactor()?;
            let is_over = || scope.is_cancelled() || Instant::now() >= until;
            let (root, hidden) = (tree.as_fd(), house.contexts.hidden().within(&project));
            let at =
                Looking { root, project: &project, redactor: &redactor, hidden: &hidden, is_over: &is_over };
            look(&at, &work)
        });
        Ok(came_to(&head.name, looked.await))
    }

    /// The place of the node's work.
    fn site(&self) -> Site<'_> {
        let Gate { house, run, live, plan, node: path, .. } = *self;
        Site { house, run, live, plan, path, scope: self.scope.clone() }
    }

    /// Writes, edits, removes or moves; what changed is captured and recorded, whatever came of it and whatever was stopped
    /// meanwhile.
    async fn change(&self, head: &CallHead, work: Work) -> Result<Performed, Stopped> {
        let site = self.site();
        let call = site.begin_call(Access::Record, self.new_call(head)).await?;
        self.is_call(call.call().no);
        let (house, node, started) = (Arc::clone(self.house), self.node.to_owned(), call.call().started);
        let mut place = Arc::clone(&self.live.open).lock_owned().await;
        let changing = tokio::task::spawn_blocking(move || {
            let open = place.as_mut()?;
            let (rules, sink) = (capture::rules(open, &node), Arc::clone(&open.staging));
            let redactor = house.redactor.redactor()?;
            let with = Changing {
                sandbox: &mut open.sandbox,
                sink: sink.as_ref(),
                rules: &rules,
                redactor: &redactor,
            };
            change(&mut { with }, &work)
        });
        let done = came_to(&head.name, changing.await);
        let (outcome, seen) = checked(head, done);
        let changed = call.end(&site, |_, _| Ok((self.end(started, &outcome), None))).await?.changed;
        self.scope.check()?;
        Ok(Performed { outcome, changed: count(changed), seen })
    }

    /// Runs a command as every command of the plan is run.
    async fn command(&self, head: &CallHead, task: Task) -> Result<Performed, Stopped> {
        let (site, seconds) = (self.site(), task.timeout.map_or(0, |timeout| timeout.as_secs()));
        let RanCommand { mut call, finished } = command::run(&site, task).await?;
        self.is_call(call.call().no);
        // What cannot be captured is told by the record.
        let changed = call.capture(&site).await.unwrap_or_default();
        let shown = |output: &sandbox::command::Output| {
            let text = self.house.redactor.bounded(output, HEAD_BYTES, TAIL_BYTES);
            head_and_tail(&text, HEAD_BYTES, TAIL_BYTES)
        };
        let outcome = match finished.ended() {
            None => {
                let message = finished.failure().unwrap_or_default();
                Err(ToolError::Failed { tool: head.name.clone(), message })
            }
            Some(ended) => {
                let (exit, signal) = match ended.how {
                    HowEnded::Exited(status) => (Some(status), None),
                    HowEnded::Signalled(signal) => (None, Some(signal)),
                    HowEnded::TimedOut | HowEnded::Killed => (None, None),
                };
                let named: Vec<String> = changed.iter().take(CHANGED_MAX).map(|at| self.shown(at)).collect();
                Ok(json!({
                    "exit": exit, "signal": signal, "timed_out": ended.how == HowEnded::TimedOut,
                    "stdout": shown(&ended.stdout), "stderr": shown(&ended.stderr), "changed": named,
                }))
            }
        };
        let outcome = outcome.and_then(|result| fitting(head, result));
        let kept = outcome.as_ref().ok().map(|result| {
            let last_words = finished.last_words(self.house, LAST_WORDS_BYTES);
            json!({
                "changed": changed.len(), "last_words": last_words,
                "timed_out": result["timed_out"], "timeout_s": seconds,
            })
        });
        command::record(&site, RanCommand { call, finished }, kept).await?;
        self.scope.check()?;
        Ok(Performed { outcome, changed: count(changed.len()), seen: Vec::new() })
    }

    /// Records a choice; the call is kept with its end.
    async fn decide(&self, head: &CallHead, said: &Value) -> Result<Performed, Stopped> {
        let (effect, started) = (self.enter()?, self.house.wall());
        let decider = Decider { house: self.house, run: self.run, plan: self.plan, node: self.node };
        let outcome = match decider.one(&effect, said).await? {
            Ok(decision) => fitting(head, json!({ "decision": decision })),
            Err(why) => Err(ToolError::DecisionInvalid { why }),
        };
        let end = self.end(started, &outcome);
        self.keep_call(&effect, self.new_call(head), end).await?;
        Ok(Performed { outcome, changed: 0, seen: Vec::new() })
    }

    fn shown(&self, (no, path): &(RootNo, domain::RelPath)) -> String {
        let several = self.projects.len() > 1;
        match self.projects.get(usize::from(no.0)).filter(|_| several) {
            Some(project) => format!("{}:{path}", project.alias),
            None => path.to_string(),
        }
    }

    /// Starts the server of a tool again that went away. One that does not start fails the call, not the node.
    async fn revive(&self, tool: &str) -> Result<Result<(), ToolError>, Stopped> {
        match self.servers.revive(&self.site(), tool).await {
            Ok(()) => Ok(Ok(())),
            Err(Stopped::Failed { message, .. }) => {
                let message = message + &self.servers.way_on(tool);
                Ok(Err(ToolError::Failed { tool: tool.to_owned(), message }))
            }
            Err(
                stopped @ (Stopped::Cancelled
                | Stopped::Told(_)
                | Stopped::Limit { .. }
                | Stopped::Constrained(_)),
            ) => Err(stopped),
        }
    }

    /// Calls a tool that is none of ours.
    async fn foreign(
        &self,
        head: &CallHead,
        tool: Arc<dyn ForeignTool>,
        arguments: Value,
    ) -> Result<Performed, Stopped> {
        let site = self.site();
        let is_watched = self.servers.is_watched(&head.name);
        let access = match writes(head) {
            _ if is_watched => Access::PutBack,
            true if self.live.open.lock().await.is_some() => Access::Record,
            true | false => Access::Look,
        };
        if access == Access::Look {
            let _turn = site.turn(false).await?;
            let (effect, started) = (self.enter()?, self.house.wall());
            let outcome = self.answer(head, tool, arguments).await?;
            let end = self.end(started, &outcome);
            self.keep_call(&effect, self.new_call(head), end).await?;
            return Ok(Performed { outcome, changed: 0, seen: Vec::new() });
        }
        let mut call = site.begin_call(access, self.new_call(head)).await?;
        self.is_call(call.call().no);
        let started = call.call().started;
        let outcome = match self.answer(head, tool, arguments).await {
            Ok(outcome) => Ok(outcome),
            Err(stopped) => {
                // What winds the run down captures; else nothing of the server may write when that is done here.
                self.run.scope().check()?;
                self.servers.end_of(&head.name).await;
                Err(stopped)
            }
        };
        let wrote = match is_watched {
            true => write_guard::found(&site, &mut call).await?,
            false => None,
        };
        let end = match &outcome {
            Ok(outcome) => self.end(started, outcome),
            Err(stopped) => {
                self.house.ended(started, (CallState::Cancelled, Some(stopped.shown()), Value::Null))
            }
        };
        let changed = call.end(&site, |_, _| Ok((end, None))).await?.changed;
        if let Some(message) = wrote {
            return Err(Stopped::failed(ErrorCategory::Tool, message));
        }
        Ok(Performed { outcome: outcome?, changed: count(changed), seen: Vec::new() })
    }

    /// What a tool that is none of ours answers, within its time and as long as the node is not stopped.
    async fn answer(
        &self,
        head: &CallHead,
        tool: Arc<dyn ForeignTool>,
        arguments: Value,
    ) -> Result<Result<Value, ToolError>, Stopped> {
        // A task of its own: a panic in it is its failure, not ours.
        let mut calling = tokio::spawn(async move { tool.call(arguments).await });
        let limit = time_limit(head).saturating_add(FOREIGN_GRACE);
        let answered = tokio::select! {
            biased;
            _ = self.scope.cancelled() => {
                calling.abort();
                return Err(Stopped::Cancelled);
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
        Ok(outcome.map(|result| match self.house.redactor.redactor() {
            Some(redactor) => redactor.redact_json(&result),
            None => json!("[withheld: no redactor]"),
        }))
    }
}

#[async_trait]
impl Workplace for Gate<'_> {
    type Stopped = Stopped;

    fn projects(&self) -> &[Project] {
        &self.projects
    }

    fn forbids(&self, tool: &ToolSpec) -> Option<String> {
        if let Some(why) = why_denied(&self.plan.spec.deny_tools, &tool.name) {
            return Some(why);
        }
        let why = match self.run.job().phase {
            Phase::Strategize if tool.writes => "while the plan is being strategized, files are only read",
            Phase::Execute if tool.writes && self.plan.spec.read_only => "the action is read_only",
            Phase::Apply => "no tool is called while a plan is applied",
            Phase::Strategize | Phase::Execute => return None,
        };
        Some(why.to_owned())
    }

    async fn refused(&self, call: CallHead, why: &ToolError) -> Result<(), Stopped> {
        let effect = self.enter()?;
        let end = self.end(self.house.wall(), &Err(why.clone()));
        let end = CallEnd { state: CallState::Refused, ..end };
        self.keep_call(&effect, self.new_call(&call), end).await
    }

    async fn perform(&self, call: CallHead, work: Work) -> Result<Performed, Stopped> {
        if let Work::Foreign { .. } = work
            && let Err(why) = self.revive(&call.name).await?
        {
            self.refused(call, &why).await?;
            return Ok(Performed { outcome: Err(why), changed: 0, seen: Vec::new() });
        }
        match &work {
            Work::Read { place, .. } | Work::List { place, .. } | Work::Search { place, .. } => {
                let no = place.root;
                let _turn = self.site().turn(false).await?;
                self.look(&call, no, work).await
            }
            Work::Write { .. } | Work::Edit { .. } | Work::Delete { .. } | Work::Move { .. } => {
                self.change(&call, work).await
            }
            Work::Run { command, cwd, timeout_s, env, stdin } => {
                let task = Task {
                    node: self.node.to_owned(),
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
                    access: Access::Record,
                    asked: Some(self.asked(&call)),
                };
                self.command(&call, task).await
            }
            Work::Decide { said } => {
                let _turn = self.site().turn(false).await?;
                self.decide(&call, said).await
            }
            Work::Context { question, places } => {
                let _turn = self.site().turn(false).await?;
                self.context(&call, question, places.clone()).await
            }
            Work::History(question) => {
                let _turn = self.site().turn(false).await?;
                self.history(&call, question).await
            }
            Work::ContextBudget => {
                let _turn = self.site().turn(false).await?;
                self.context_budget(&call).await
            }
            Work::Foreign { tool, arguments } => {
                self.foreign(&call, Arc::clone(tool), arguments.clone()).await
            }
        }
    }
}

impl Gate<'_> {
    fn asked(&self, head: &CallHead) -> Asked {
        let NewCall { requested, effective, .. } = self.new_call(head);
        Asked { requested, effective }
    }
}

/// Does a step that calls one tool.
pub(crate) async fn run_tool_step(
    node: &Node<'_>,
    (name, with): (&str, &Value),
) -> Result<NodeDone, Stopped> {
    let unkept = Mutex::new(None);
    let mut catalog = Catalog::builtin();
    let servers = NodeServers::start(node).await?;
    servers.add_to(&mut catalog, &[]);
    let gate = Gate { unkept: Some(&unkept), ..Gate::beside(node, &servers) };
    let mut tools: Tools<'_> = ToolRunner::new(gate, catalog, Memory::Trusting);
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
            Ok(NodeDone { run: node.ended(left), end: End::WithCall(Box::new(unkept)) })
        }
        (Ok(left), None) => Ok(NodeDone { run: node.ended(left), end: End::Loose }),
        (Err(stopped), Some(unkept)) => {
            accounting::keep_all(node.house, node.run, &[&unkept]).await?;
            Err(stopped)
        }
        (Err(stopped), None) => Err(stopped),
    }
}

/// What the answer of its tool leaves of a step.
fn left_by(tool: &str, answer: ToolAnswer) -> Result<Left, Stopped> {
    if answer.is_error {
        return Err(Stopped::failed(ErrorCategory::Tool, &answer.text));
    }
    let json: Value = serde_json::from_str(&answer.text).unwrap_or(Value::Null);
    match json.get("exit") {
        None => {}
        Some(exit) if exit == 0 => {}
        Some(_) if json["timed_out"] == true => {
            let message = format!("{tool} took longer than its time limit");
            return Err(Stopped::failed(ErrorCategory::Timeout, message));
        }
        Some(exit) => {
            let message = format!("{tool} exited with status {exit}");
            return Err(Stopped::failed(ErrorCategory::Tool, message));
        }
    }
    Ok(Left { text: answer.text, json, changed: answer.changed, ..Left::default() })
}

/// What ends a node whose call was halted.
pub(crate) fn stopped(halt: Halt<Stopped>) -> Stopped {
    match halt {
        Halt::Stopped(stopped) => stopped,
        Halt::Loop { tool, times } => {
            let message = format!(
                "the model called {tool} {times} times in a row with the same arguments and the same result"
            );
            Stopped::failed(ErrorCategory::ModelOutput, message)
        }
    }
}

fn writes(head: &CallHead) -> bool {
    head.tool.as_ref().is_some_and(|tool| tool.spec.writes)
}

fn time_limit(head: &CallHead) -> Duration {
    Duration::from_secs(head.tool.as_ref().map_or(60, |tool| u64::from(tool.spec.timeout_s)))
}

fn count(changed: usize) -> u32 {
    u32::try_from(changed).unwrap_or(u32::MAX)
}

fn run_of(command: &CommandText) -> Run {
    match command {
        // Not `sh -ec`, as in definitions: a model's line goes on after a failure, as at a terminal.
        CommandText::Shell(text) => Run::Argv(["sh", "-c", text].map(ByteText::from).to_vec()),
        CommandText::Argv(words) => Run::Argv(words.iter().map(|word| word.as_str().into()).collect()),
    }
}

/// The result, if it is one that the tool promised.
fn fitting(head: &CallHead, result: Value) -> Result<Value, ToolError> {
    match &head.tool {
        Some(tool) => tool.check_output(&result).map(|()| result),
        None => Ok(result),
    }
}

/// What a thread came to.
fn came_to(
    tool: &str,
    joined: Result<Option<Result<Done, ToolError>>, JoinError>,
) -> Result<Done, ToolError> {
    let nobody = || ToolError::Failed {
        tool: tool.to_owned(),
        message: "there is no sandbox to work in, or secrets cannot be taken out".to_owned(),
    };
    joined.map_err(|error| panicked(tool, error))?.unwrap_or_else(|| Err(nobody()))
}

fn panicked(tool: &str, error: JoinError) -> ToolError {
    let said = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    };
    let message = match error.try_into_panic() {
        Ok(panic) => format!("it broke down: {}", said(panic)),
        Err(error) => error.to_string(),
    };
    ToolError::Failed { tool: tool.to_owned(), message }
}

type Outcome = (Result<Value, ToolError>, Vec<(Place, Option<Hash>)>);

fn checked(head: &CallHead, done: Result<Done, ToolError>) -> Outcome {
    match done {
        Ok(Done { result, seen }) => (fitting(head, result), seen),
        Err(why) => (Err(why), Vec::new()),
    }
}
