//! The start of a server: a call of its own in the plan's sandbox, with what the server changed by it.
//!
//! # Invariants
//! 1. It is admitted, captured and recorded like every call. Its record says what the server offers, what of
//!    it is left out and why, and the number of the start within the node.

use std::path::PathBuf;
use std::sync::Arc;

use actors::mcp::{McpClient, McpError};
use actors::program::{Pipes, ProgramSpec, ProgramStarter};
use async_trait::async_trait;
use domain::{ByteText, CallEnd, CallState, CommandLine, ErrorCategory, NewCall, RootIndex, ToolCall};
use sandbox::view::SandboxView;
use serde_json::{Value, json};
use sync::primitives::{Mutex, lock};
use tokio::task::JoinHandle;

use super::ServerAccess;
use crate::mcp_servers::ServerSettings;
use crate::query::details::START_SERVER;
use crate::run::RunError;
use crate::run::call::admit::CallAccess;
use crate::run::call::command::CommandRequest;
use crate::run::call::piped::line;
use crate::run::call::process;
use crate::run::call::write_guard;
use crate::run::context::{NodeContext, RunContext};
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::state::StopBehavior;
use crate::tools::recorded_arguments;

/// A server that is to be started.
pub(crate) struct ServerStart<'a> {
    pub(crate) context: &'a NodeContext<'a>,
    pub(crate) name: &'a str,
    pub(crate) settings: &'a ServerSettings,
    pub(crate) reach: ServerAccess,
    /// The number of the start within the node, from 1.
    pub(crate) start: u32,
}

impl ServerStart<'_> {
    /// The call: turn, admission, start, capture, record.
    pub(crate) async fn done(&self) -> Result<McpClient, RunError> {
        let RunContext { job, state, .. } = self.context.run;
        // Alone unless it cannot write, so that it is known whose the changes are that are found.
        let access = match self.reach {
            ServerAccess::Writes => CallAccess::Record,
            ServerAccess::Looks => CallAccess::Look,
            ServerAccess::Watched => CallAccess::PutBack,
        };
        let mut call = self.context.begin_call(access, self.new_call()).await?;
        let program = self.settings.program.program(&|name| std::env::var(name).ok());
        let tool_call = call.call().clone();
        let starts = PlanServerStarter { starting: self, call: &tool_call, thread: Mutex::default() };
        let started =
            McpClient::start(self.name, &self.settings.program, &program, &starts, &self.context.scope).await;
        let is_stopped = matches!(started, Err(McpError::Cancelled { .. }));
        if is_stopped {
            job.scope().check()?;
            // Only its node was stopped: what it wrote is captured when nothing of it can write any more.
            starts.is_dead().await;
        }
        let wrote = match self.reach {
            ServerAccess::Writes | ServerAccess::Looks => None,
            ServerAccess::Watched => write_guard::revert_changes(self.context, &mut call).await?,
        };
        let end = self.end(&tool_call, &started, wrote.as_deref());
        call.end(self.context, |_, _| Ok((end, None))).await?;
        match (started, wrote) {
            (Err(McpError::Cancelled { .. }), _) => Err(RunError::Cancelled),
            (Err(error), _) => Err(RunError::failed(error.category(), error).of_call(tool_call.no)),
            (Ok(server), Some(message)) => {
                server.end().await;
                Err(RunError::failed(ErrorCategory::Tool, message).of_call(tool_call.no))
            }
            (Ok(server), None) => {
                if self.writes() {
                    state.server_started(super::end_server(self.context));
                }
                Ok(server)
            }
        }
    }

    fn writes(&self) -> bool {
        self.reach == ServerAccess::Writes
    }

    fn new_call(&self) -> NewCall {
        let redactor = self.context.engine.redactor.redactor();
        let settings = &self.settings.program;
        let names: Vec<&String> = settings.env.keys().chain(&settings.pass_env).collect();
        let requested = json!({
            "server": self.name, "command": settings.command, "env": names, "network": settings.network,
        });
        let effective = json!({ "writes": self.writes(), "start": self.start });
        NewCall {
            attempt: self.context.plan.attempt,
            node: self.context.path.to_owned(),
            tool: START_SERVER.to_owned(),
            requested: recorded_arguments(redactor.as_deref(), &requested),
            effective,
        }
    }

    fn end(&self, call: &ToolCall, started: &Result<McpClient, McpError>, wrote: Option<&str>) -> CallEnd {
        let engine = self.context.engine;
        let came_to = match started {
            Ok(_) if wrote.is_some() => (CallState::Failed, wrote.map(str::to_owned), Value::Null),
            Ok(server) => {
                let left_out: Vec<String> =
                    server.problems().iter().map(|problem| engine.redactor.redact_text(problem)).collect();
                (CallState::Ok, None, json!({ "tools": server.tools().len(), "left_out": left_out }))
            }
            Err(error @ McpError::Cancelled { .. }) => {
                (CallState::Cancelled, Some(error.to_string()), Value::Null)
            }
            Err(error @ McpError::TookTooLong { .. }) => {
                (CallState::TimedOut, Some(error.to_string()), Value::Null)
            }
            Err(error) => (CallState::Failed, Some(error.to_string()), Value::Null),
        };
        engine.ended(call.started, came_to)
    }
}

/// Starts a server as a command of the plan.
struct PlanServerStarter<'a, 'b> {
    starting: &'a ServerStart<'b>,
    call: &'a ToolCall,
    /// Waits for the death of the server.
    thread: Mutex<Option<JoinHandle<Result<(), String>>>>,
}

impl PlanServerStarter<'_, '_> {
    /// Waits until nothing of the server is alive; if it was not started, at once.
    async fn is_dead(&self) {
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.await;
        }
    }

    async fn place(&self) -> Result<(SandboxView, PathBuf), RunError> {
        let place = Arc::clone(&self.starting.context.state.session).lock_owned().await;
        let no = self.call.no;
        blocking(move || {
            let session = place.as_ref().ok_or(RunError::Cancelled)?;
            let failed = |error: std::io::Error| RunError::failed(ErrorCategory::Sandbox, error);
            let logs = log_dir(session.sandbox.dir(), no);
            process::make_logs(&logs).map_err(failed)?;
            Ok((session.sandbox.view().map_err(failed)?, logs))
        })
        .await?
    }

    fn task(&self, program: &ProgramSpec) -> CommandRequest {
        let ServerStart { context, settings, .. } = *self.starting;
        let word = |text: &String| ByteText::from(text.as_str());
        CommandRequest {
            node: context.path.to_owned(),
            tool: START_SERVER,
            run: CommandLine::Argv(program.argv.iter().map(word).collect()),
            root: RootIndex(0),
            cwd: ByteText::default(),
            timeout: None,
            network: settings.program.network,
            allow_loopback: Vec::new(),
            env: program.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            stdin: None,
            writes: self.starting.writes(),
            access: CallAccess::Record,
            asked: None,
        }
    }
}

#[async_trait]
impl ProgramStarter for PlanServerStarter<'_, '_> {
    async fn start(&self, program: &ProgramSpec) -> Result<Pipes, String> {
        let RunContext { engine, state, plan, .. } = self.starting.context.run;
        let (view, logs) = self.place().await.map_err(|stopped| stopped.shown())?;
        let task = self.task(program);
        let spec = process::spoken_spec(self.starting.context.run, &task, logs)
            .map_err(|stopped| stopped.shown())?;
        let isolation = process::isolation(engine, plan);
        let (line, speaks) = line();
        let (waiter, call, scope) =
            (Arc::clone(state), self.call.clone(), self.starting.context.scope.clone());
        let waiting = tokio::task::spawn_blocking(move || {
            let started = isolation.start_when_there_is_room(view, spec, || scope.is_cancelled());
            let mut running = started.map_err(|error| error.to_string())?;
            waiter.began(&call, &scope, &running.killer(), StopBehavior::AtOnce);
            let piped_end = line.began(&mut running);
            let ended = running.wait();
            waiter.ended(call.no);
            piped_end.ended(&ended);
            Ok(())
        });
        *lock(&self.thread) = Some(waiting);
        if let Some(begun) = speaks.begun().await {
            return begun.map(|begun| begun.pipes).map_err(|error| error.to_string());
        }
        let waiting = lock(&self.thread).take();
        let ended = match waiting {
            Some(waiting) => waiting.await,
            None => Ok(Ok(())),
        };
        match ended {
            Ok(Err(why)) => Err(why),
            Ok(Ok(())) => Err("it exited before it answered".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}
