//! One task for one agent: from the first word to its answer.
//!
//! # Invariants
//! The agent's processes are gone when [`run`] returns, and are ended when it is dropped.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sync::Observed;

use super::error::AcpError;
use super::host::AcpHost;
use super::last_message::MessageCollector;
use super::session::{AcpSession, RpcError};
use super::wire::{AUTH_REQUIRED, Initialized, NewSession, Prompted, VERSION, initialize};
use crate::program::{LineReader, Pipes, ProgramExit, ProgramProcess, StdinWriter};

/// The time that an agent that went away by itself may take to end, so that its end can be reported.
const GONE_PATIENCE: Duration = Duration::from_secs(2);

/// The task of an agent.
#[derive(Clone, Debug)]
pub struct AcpTask {
    /// The name of the agent, for messages.
    pub agent: String,
    /// Its working directory: an absolute path as the agent sees it.
    pub cwd: PathBuf,
    /// The prompt.
    pub prompt: String,
    /// True if it may read and write files through us; without that it uses its own ways, inside its sandbox.
    pub offers_files: bool,
    /// The way to log in without a person, as the agent calls it; `None` if it has to be logged in already.
    pub login: Option<String>,
    /// The time limit of each step until it is ready.
    pub start_limit: Duration,
    /// The time limit of its work; `None`: only the scope ends it.
    pub limit: Option<Duration>,
    /// The session that it continues, where it can; `None` begins a new one.
    pub earlier: Option<EarlierSession>,
}

/// A session of the same agent that ended before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierSession {
    /// Its id, as the agent gave it.
    pub id: String,
    /// The prompt if the agent loads it: it knows the task.
    pub prompt: String,
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcpAnswer {
    /// Its last message, bounded.
    pub text: String,
    /// The reason why it stopped.
    pub stop: AcpStop,
    /// The number of calls of its own tools.
    pub tool_calls: u32,
}

/// The reason why an agent stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpStop {
    /// It is done.
    Done,
    /// Its model wrote as much as it may.
    MaxTokens,
    /// It asked its model as often as it may.
    MaxTurns,
    /// Its model refused.
    Refused,
    /// It says that it was cancelled, but not by us.
    Cancelled,
    /// For a reason that this version does not know.
    Unknown,
}

/// Gives the agent its task and waits for its answer; ends its processes.
///
/// # Errors
/// Returns [`AcpError`] if the agent does not finish its task.
pub async fn run(
    pipes: Pipes,
    task: &AcpTask,
    host: &dyn AcpHost,
    scope: &Observed,
) -> Result<AcpAnswer, AcpError> {
    let Pipes { stdin, stdout, process } = pipes;
    let talk = AcpSession {
        agent: &task.agent,
        offers_files: task.offers_files,
        host,
        scope,
        lines: LineReader::new(stdout),
        writing: StdinWriter::to(stdin),
        session: None,
        said: MessageCollector::default(),
        tool_calls: BTreeSet::new(),
        next_id: 0,
        stray: None,
        stray_lines: 0,
        cancelled: None,
    };
    let answer = converse(talk, task).await;
    end_process(answer, process.as_ref()).await
}

async fn converse(mut talk: AcpSession<'_>, task: &AcpTask) -> Result<AcpAnswer, AcpError> {
    let (ways, can_load) = greet(&mut talk, task).await?;
    let earlier = task.earlier.as_ref().filter(|_| can_load);
    let loaded = match earlier {
        Some(earlier) if load_session(&mut talk, task, earlier).await? => Some(&earlier.prompt),
        Some(_) | None => {
            open_session(&mut talk, task, &ways).await?;
            None
        }
    };
    let session = talk.session.clone().unwrap_or_default();
    talk.host.on_session(&session, loaded.is_some());
    let text = loaded.unwrap_or(&task.prompt);
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
    let answer = talk.ask::<Prompted>("session/prompt", &prompt, task.limit).await?;
    if let Some(reason) = talk.cancelled {
        return Err(talk.called_off(reason));
    }
    let answer = answer.map_err(|error| failed(task, "session/prompt", error, &ways))?;
    let stop = stop_of(&answer.stop_reason);
    let tool_calls = u32::try_from(talk.tool_calls.len()).unwrap_or(u32::MAX);
    Ok(AcpAnswer { text: talk.said.last(), stop, tool_calls })
}

/// Shakes hands, and logs in where the task says how. Returns the ways to log in, for messages, and whether
/// the agent loads earlier sessions.
async fn greet(talk: &mut AcpSession<'_>, task: &AcpTask) -> Result<(String, bool), AcpError> {
    let limit = Some(task.start_limit);
    let ready = talk.ask::<Initialized>("initialize", &initialize(task.offers_files), limit).await?;
    let ready = ready.map_err(|error| failed(task, "initialize", error, ""))?;
    if ready.protocol_version != VERSION {
        let what = format!(
            "it supports version {} of the protocol, agents supports {VERSION}",
            ready.protocol_version
        );
        return Err(AcpError::NotTheProtocol { agent: task.agent.clone(), doing: "initialize", what });
    }
    let ways: Vec<&str> = ready.auth_methods.iter().map(|method| method.id.as_str()).collect();
    let ways = if ways.is_empty() { String::new() } else { format!(" (by {})", ways.join(", ")) };
    if let Some(login) = &task.login {
        let login = json!({ "methodId": login });
        let done = talk.ask::<Value>("authenticate", &login, limit).await?;
        done.map_err(|error| failed(task, "authenticate", error, &ways))?;
    }
    Ok((ways, ready.agent_capabilities.load_session))
}

/// Loads an earlier session; false if the agent does not have it any more. The agent repeats what was said:
/// that is not heard, because no session is open yet.
async fn load_session(
    talk: &mut AcpSession<'_>,
    task: &AcpTask,
    earlier: &EarlierSession,
) -> Result<bool, AcpError> {
    let load = json!({ "sessionId": earlier.id, "cwd": task.cwd.to_string_lossy(), "mcpServers": [] });
    let loaded = talk.ask::<Value>("session/load", &load, Some(task.start_limit)).await?;
    if loaded.is_ok() {
        talk.session = Some(earlier.id.clone());
    }
    Ok(loaded.is_ok())
}

async fn open_session(talk: &mut AcpSession<'_>, task: &AcpTask, ways: &str) -> Result<(), AcpError> {
    let new = json!({ "cwd": task.cwd.to_string_lossy(), "mcpServers": [] });
    let opened = talk.ask::<NewSession>("session/new", &new, Some(task.start_limit)).await?;
    let opened = opened.map_err(|error| failed(task, "session/new", error, ways))?;
    talk.session = Some(opened.session_id);
    Ok(())
}

fn failed(task: &AcpTask, doing: &'static str, error: RpcError, ways: &str) -> AcpError {
    let agent = task.agent.clone();
    if error.code == AUTH_REQUIRED {
        return AcpError::NeedsLogin { agent, ways: ways.to_owned() };
    }
    AcpError::Refused { agent, doing, message: error.message }
}

fn stop_of(reason: &str) -> AcpStop {
    match reason {
        "end_turn" => AcpStop::Done,
        "max_tokens" => AcpStop::MaxTokens,
        "max_turn_requests" => AcpStop::MaxTurns,
        "refusal" => AcpStop::Refused,
        "cancelled" => AcpStop::Cancelled,
        _ => AcpStop::Unknown,
    }
}

/// Ends the processes; an agent that went away is asked how.
async fn end_process(
    answer: Result<AcpAnswer, AcpError>,
    process: &dyn ProgramProcess,
) -> Result<AcpAnswer, AcpError> {
    let patience = if matches!(answer, Err(AcpError::Gone { .. })) { GONE_PATIENCE } else { Duration::ZERO };
    let ended = process.end(patience).await;
    answer.map_err(|error| match error {
        AcpError::Gone { agent, doing, also } => {
            AcpError::Gone { agent, doing, also: format!("{also}{}", ended.describe()) }
        }
        // Its error output often says what it waits for.
        AcpError::TookTooLong { agent, doing, seconds, also } => {
            let complaints = ProgramExit { status: None, complaints: ended.complaints.clone() }.describe();
            AcpError::TookTooLong { agent, doing, seconds, also: format!("{also}{complaints}") }
        }
        other @ (AcpError::NotTheProtocol { .. }
        | AcpError::Refused { .. }
        | AcpError::NeedsLogin { .. }
        | AcpError::Cancelled { .. }) => other,
    })
}
