//! An agent program as a node: given its task over the Agent Client Protocol, in the plan's sandbox.
//!
//! To the plan it is one command. It is admitted, and alone in the sandbox if it may write. Its changes are
//! captured when all of its processes are dead, and stored with its end. Its outcome is what it reports, not
//! the exit of its process.
//!
//! # Invariants
//! 1. Its changes are captured however it ends: done, gone, out of time, or with a protocol that is not
//!    understood.
//! 2. It asks no person for a permission: its sandbox decides what it may do, so every permission is given.
//! 3. Files that it reads and writes through us are those of the projects, opened beneath their roots. A node
//!    that does not write (`writes: false`) writes none this way either.
//! 4. Its messages while it works are in the log of the call.
//! 5. The agent gets a cancel request before it is killed, so that it can stop by itself; it has little time
//!    for that.
//! 6. In a revision the agent continues its session, if it can load it. Otherwise its brief ends with the
//!    last answer of its earlier run.
//!
//! # Not here
//! The protocol (`actors::acp`), and the decision to try again (`graph`).

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actors::acp::{AcpAnswer, AcpHost, AcpStop, AcpTask, AcpUpdate, EarlierSession, Permission};
use async_trait::async_trait;
use domain::{CallState, Decision, ErrorCategory, ExternalTask, Phase, RelPath, RootIndex};
use serde_json::json;
use sync::primitives::{Mutex, lock};

use super::capture;
use super::command;
use super::command::{CommandRequest, RecordedArguments};
use super::piped::{PipedHandle, PipedLog, PipedProcess};
use super::result::{AGENT_SESSION, CommandResult};
use crate::plan::revise::continued_attempt;
use crate::run::RunError;
use crate::run::node::command as node_command;
use crate::run::node::prompt;
use crate::run::node::{ActiveNode, NodeResult};
use crate::run::plan_sandbox::blocking;
use crate::run::state::RunState;
use crate::tools::recorded_arguments;

/// The time that an agent may take for each step until it is ready to work.
const START_LIMIT: Duration = Duration::from_secs(120);
/// The time after its limit at which an agent is killed that does not end on request.
const LATE: Duration = Duration::from_secs(5);
/// A sentence for an agent in a revision.
const IN_THE_TREE: &str = "Your earlier changes are already in the working tree.";
/// The longest file that an agent reads through us.
const READ_BYTES_MAX: u64 = 16 << 20;

/// Lets an agent work until it has answered.
pub(crate) async fn run(node: &ActiveNode<'_>, external: &ExternalTask) -> Result<NodeResult, RunError> {
    let engine = node.engine;
    let mut task = node_command::task_of(node, &external.command).await?;
    let mut prompt = node.expand(&external.prompt)?;
    let earlier = earlier_run(node).await?;
    if let Some(earlier) = &earlier {
        prompt.push_str(&earlier.appendix);
    }
    let limit = task.timeout;
    task.timeout = limit.map(|limit| limit.saturating_add(LATE));
    task.asked = Some(asked(node, &task, &prompt, limit));
    let agent = name_of(&task);
    let below = PathBuf::from(task.cwd.to_string());
    let work = AcpTask {
        agent: agent.clone(),
        cwd: PathBuf::new(),
        prompt,
        offers_files: true,
        login: login(&task),
        start_limit: limit.map_or(START_LIMIT, |limit| limit.min(START_LIMIT)),
        limit,
        earlier: earlier.and_then(|earlier| earlier.session),
    };
    let (may_write, session) = (task.writes, Arc::<Mutex<Option<String>>>::default());
    let opened = Arc::clone(&session);
    let conversation = |speaks| talk(node, speaks, work, below, (may_write, opened));
    let (mut ran, said) = command::run_piped(&node.context, task, conversation).await?;
    let finished = &mut ran.finished;
    finished.session = lock(&session).take();
    let said = said.unwrap_or_else(|| Err(failed_to_begin(finished)));
    let judged = judge(&agent, finished, said);
    finished.judge(judged.as_ref().map(drop).map_err(|(_, message)| message.clone()));
    let (text, failure) = match judged {
        Ok(text) => (engine.redactor.redact_text(&text), None),
        Err(failure) => (finished.text(engine), Some(failure)),
    };
    node_command::end_command(node, ran, text, failure).await
}

/// The earlier run of a node that a revision continues.
struct EarlierRun {
    /// The session, if the agent named one.
    session: Option<EarlierSession>,
    /// The end of the brief of an agent that does not load it.
    appendix: String,
}

/// Returns the run of this node in the attempt that the present one continues; `None` if it continues none.
async fn earlier_run(node: &ActiveNode<'_>) -> Result<Option<EarlierRun>, RunError> {
    let (store, plan) = (&node.engine.store, node.plan);
    if plan.attempt == 1 || node.phase() != Phase::Execute {
        return Ok(None);
    }
    let calls = store.calls(plan.id).await?;
    let Some(attempt) = continued_attempt(&calls, plan.attempt) else { return Ok(None) };
    let decisions = store.decisions(plan.id).await?;
    let of_this = |decision: &&Decision| decision.new.attempt == plan.attempt;
    let requests: Vec<&str> =
        prompt::guidance(&decisions).filter(of_this).map(|decision| decision.new.chosen.as_str()).collect();
    let last = calls.iter().rev().find(|call| call.new.is_of(attempt, node.path));
    let session = last.and_then(|call| call.end.as_ref()?.result.get(AGENT_SESSION)?.as_str());
    let session = session.map(|id| EarlierSession {
        id: id.to_owned(),
        prompt: format!("{IN_THE_TREE} Requested changes:\n{}", requests.join("\n\n")),
    });
    let runs = store.node_runs(plan.id).await?;
    let answer = runs.iter().rev().find(|run| run.attempt == attempt && run.path == node.path);
    let answer = answer.map(|run| run.text.trim()).filter(|text| !text.is_empty());
    let answer = answer.map(|text| format!(" Your last run ended with:\n{text}")).unwrap_or_default();
    Ok(Some(EarlierRun { session, appendix: format!("\n\n{IN_THE_TREE}{answer}") }))
}

/// The way to log in by a key that the agent is given, for those that are known.
fn login(task: &CommandRequest) -> Option<String> {
    let program = name_of(task);
    let given = |name: &str| {
        let is_set = task.env.iter().any(|(set, _)| set.as_bytes() == name.as_bytes());
        let is_passed = task.pass_env.iter().any(|passed| passed == name);
        is_set || is_passed && std::env::var_os(name).is_some_and(|value| !value.is_empty())
    };
    actors::agents::login_of(&program, &given).map(str::to_owned)
}

/// The result of the talk.
type AgentAnswer = Result<AcpAnswer, AgentFailure>;
/// A failure, as the node's.
type AgentFailure = (ErrorCategory, String);

/// Talks to the agent until it has answered; none when the program did not begin.
async fn talk(
    node: &ActiveNode<'_>,
    speaks: PipedHandle,
    mut work: AcpTask,
    below: PathBuf,
    (may_write, session): (bool, Arc<Mutex<Option<String>>>),
) -> Option<AgentAnswer> {
    let PipedProcess { pipes, log, roots } = match speaks.begun().await? {
        Ok(begun) => begun,
        Err(error) => return Some(Err((ErrorCategory::Internal, error.to_string()))),
    };
    let root = roots.iter().find(|(no, _)| *no == RootIndex(0)).map(|(_, path)| path.clone());
    work.cwd = root.unwrap_or_default().join(below);
    let read_only = node.plan.projects.iter().map(|project| project.read_only || !may_write).collect();
    let (state, path) = (Arc::clone(node.state), node.path.to_owned());
    let host = AgentHost { state, path, roots, read_only, log, last: Mutex::default(), session };
    let said = actors::acp::run(pipes, &work, &host, &node.scope).await;
    Some(said.map_err(|error| (error.category(), error.to_string())))
}

fn failed_to_begin(finished: &CommandResult) -> AgentFailure {
    let message = finished.failure().unwrap_or_else(|| "the agent did not start".to_owned());
    (finished.category(), message)
}

/// The agent's answer, or why there is none that can be used.
fn judge(agent: &str, finished: &CommandResult, said: AgentAnswer) -> Result<String, AgentFailure> {
    let is_late = finished.state() == CallState::TimedOut;
    let AcpAnswer { text, stop, tool_calls: _ } = said.map_err(|(category, message)| match is_late {
        true => (ErrorCategory::Timeout, format!("{message}; its time limit was reached")),
        false => (category, message),
    })?;
    let unfit = |what: &str| Err((ErrorCategory::ModelOutput, format!("the agent {agent} {what}")));
    match stop {
        AcpStop::Done => Ok(text),
        AcpStop::MaxTokens => unfit("stopped early: its model's answer was cut off"),
        AcpStop::MaxTurns => unfit("stopped early: it reached its maximum number of requests to its model"),
        AcpStop::Refused => unfit("stopped: its model refused"),
        AcpStop::Cancelled => unfit("reports that it was cancelled, but agents did not cancel it"),
        AcpStop::Unknown => unfit("stopped for an unknown reason"),
    }
}

/// Returns the name of the agent for messages: its program, without the directory.
fn name_of(task: &CommandRequest) -> String {
    let argv = task.run.argv();
    let program = argv.first().map(ToString::to_string).unwrap_or_default();
    Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or(program)
}

/// Returns the recorded arguments of the call.
fn asked(
    node: &ActiveNode<'_>,
    task: &CommandRequest,
    prompt: &str,
    limit: Option<Duration>,
) -> RecordedArguments {
    let redactor = node.engine.redactor.redactor();
    let names = task.env.iter().map(|(name, _)| name.to_string());
    let requested = json!({
        "agent": task.run.render(),
        "prompt": prompt,
        "cwd": task.cwd,
        "network": task.network,
        "timeout_s": limit.map(|limit| limit.as_secs()),
        "env": names.chain(task.pass_env.iter().cloned()).collect::<Vec<_>>(),
        "writable": task.writable,
    });
    let argv: Vec<String> = task.run.argv().iter().map(ToString::to_string).collect();
    let effective = json!({ "argv": argv, "protocol": "acp" });
    RecordedArguments {
        requested: recorded_arguments(redactor.as_deref(), &requested),
        effective: recorded_arguments(redactor.as_deref(), &effective),
    }
}

/// Answers an agent.
struct AgentHost {
    state: Arc<RunState>,
    /// The node.
    path: String,
    /// The paths at which it sees the projects.
    roots: Vec<(RootIndex, PathBuf)>,
    /// Of each project, whether it is not to be written.
    read_only: Vec<bool>,
    log: PipedLog,
    /// The kind of the last update.
    last: Mutex<Option<AgentUpdateKind>>,
    /// The session, once it is open.
    session: Arc<Mutex<Option<String>>>,
}

/// A kind of update from an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AgentUpdateKind {
    Text,
    Thought,
    ToolCall,
}

impl AgentHost {
    /// The file of a project that an agent means.
    fn file(&self, path: &str) -> Result<(RootIndex, RelPath), String> {
        let of = |(no, root): &(RootIndex, PathBuf)| Some((*no, Path::new(path).strip_prefix(root).ok()?));
        let Some((no, below)) = self.roots.iter().find_map(of) else {
            return Err(format!("{path} is not a file of the plan's projects"));
        };
        let below = RelPath::new(command::bytes_of(below)).map_err(|error| format!("{path}: {error}"))?;
        Ok((no, below))
    }
}

#[async_trait]
impl AcpHost for AgentHost {
    async fn read_text_file(
        &self,
        path: &str,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, String> {
        let (no, below) = self.file(path)?;
        let place = Arc::clone(&self.state.session).lock_owned().await;
        let read = blocking(move || {
            let session = place.as_ref().ok_or_else(|| std::io::Error::other("the sandbox is closed"))?;
            let root = session.sandbox.root(no).map_err(std::io::Error::other)?;
            session.sandbox.hidden(no).check(&below)?;
            sandbox::read_file(root.as_fd(), &below, READ_BYTES_MAX)
        });
        let read = read.await.map_err(|stopped| stopped.shown())?;
        let (bytes, len) = read.map_err(|error| format!("{path} cannot be read: {error}"))?;
        if len > READ_BYTES_MAX {
            return Err(format!("{path} has {len} bytes, at most {READ_BYTES_MAX} can be read"));
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not a text file"))?;
        Ok(lines_of(text, line, limit))
    }

    async fn write_text_file(&self, path: &str, content: &str) -> Result<(), String> {
        let (no, below) = self.file(path)?;
        if self.read_only.get(usize::from(no.0)).is_none_or(|read_only| *read_only) {
            return Err(format!("{path} cannot be written: this node is read-only"));
        }
        let mut place = Arc::clone(&self.state.session).lock_owned().await;
        let (content, node) = (content.to_owned(), self.path.clone());
        let written = blocking(move || {
            let session = place.as_mut().ok_or("the sandbox is closed")?;
            let (rules, sink) = (capture::rules(session, &node), Arc::clone(&session.staging));
            let written = session.sandbox.write_file(no, &below, content.as_bytes(), sink.as_ref(), &rules);
            written.map_err(|error| error.to_string())
        });
        let written: Result<(), String> = written.await.map_err(|stopped| stopped.shown())?;
        written.map_err(|why| format!("{path} cannot be written: {why}"))
    }

    fn permission(&self, _asked: &Permission) -> bool {
        true
    }

    fn on_session(&self, id: &str, is_loaded: bool) {
        *lock(&self.session) = Some(id.to_owned());
        if is_loaded {
            self.log.add("[continues its earlier session]\n");
        }
    }

    fn on_update(&self, update: &AcpUpdate<'_>) {
        let (kind, text) = match update {
            AcpUpdate::Text(text) => (AgentUpdateKind::Text, *text),
            AcpUpdate::Thought(text) => (AgentUpdateKind::Thought, *text),
            AcpUpdate::ToolCall { title } => (AgentUpdateKind::ToolCall, *title),
        };
        let before = lock(&self.last).replace(kind);
        let is_new = before != Some(kind) || kind == AgentUpdateKind::ToolCall;
        let end = if is_new && before.is_some() { "\n" } else { "" };
        let mark = match kind {
            AgentUpdateKind::Text => "",
            AgentUpdateKind::Thought if is_new => "[thinks] ",
            AgentUpdateKind::Thought => "",
            AgentUpdateKind::ToolCall => "[tool] ",
        };
        self.log.add(&format!("{end}{mark}{text}"));
    }
}

/// `limit` lines from `line` on (from 1), or all.
fn lines_of(text: String, line: Option<u32>, limit: Option<u32>) -> String {
    if line.is_none() && limit.is_none() {
        return text;
    }
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let before = line.map_or(0, |line| count(line).saturating_sub(1));
    text.split_inclusive('\n').skip(before).take(limit.map_or(usize::MAX, count)).collect()
}
