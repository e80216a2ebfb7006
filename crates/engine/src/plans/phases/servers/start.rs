//! The start of a server: a call of its own in the plan's sandbox, with what the server changed by it.
//!
//! # Invariants
//! 1. It is admitted, captured and kept like every call; its record says what the server offers, what of it is left out
//!    and why, and the how manieth start of the node it is.

use std::path::PathBuf;
use std::sync::Arc;

use actors::mcp::{McpError, McpServer};
use actors::program::{Pipes, Program, Starts};
use async_trait::async_trait;
use domain::{ByteText, CallEnd, CallState, ErrorCategory, NewCall, Plan, RootNo, Run, ToolCall};
use sandbox::view::View;
use serde_json::{Value, json};
use sync::{Effect, Observed};

use super::super::super::House;
use super::super::super::facts::START_SERVER;
use super::super::super::mcp_servers::ServerSettings;
use super::super::super::sandbox_home::log_dir;
use super::super::Stopped;
use super::super::command::{self, Task};
use super::super::ground::blocking;
use super::super::spoken::line;
use super::super::work::{Ends, LiveRun};
use super::super::{spending, walls};
use super::Reach;
use crate::tools::kept_arguments;
use crate::worker::JobRun;

/// Where servers are started: the node that calls them.
pub(in super::super) struct Site<'a> {
    pub(in super::super) house: &'a Arc<House>,
    pub(in super::super) run: &'a JobRun,
    pub(in super::super) live: &'a Arc<LiveRun>,
    pub(in super::super) plan: &'a Plan,
    /// The node.
    pub(in super::super) path: &'a str,
    /// Ends with the node.
    pub(in super::super) scope: Observed,
}

impl Site<'_> {
    fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }
}

/// A server that is to be started.
pub(super) struct Starting<'a> {
    pub(super) site: &'a Site<'a>,
    pub(super) name: &'a str,
    pub(super) settings: &'a ServerSettings,
    pub(super) reach: Reach,
    /// Which start of the node it is, from 1.
    pub(super) start: u32,
}

impl Starting<'_> {
    /// The call: permit, admission, start, capture, record.
    pub(super) async fn done(&self) -> Result<McpServer, Stopped> {
        let Site { house, run, live, plan, .. } = *self.site;
        // Alone, so that it is known whose what is found was.
        let _permit = live.permit(&self.site.scope, self.reach != Reach::Looks).await?;
        let effect = self.site.enter()?;
        let call = spending::begin(house, run, &effect, self.new_call()).await?;
        self.occupy(&call).await?;
        let program = self.settings.program.program(&|name| std::env::var(name).ok());
        let starts = InPlan { starting: self, call: &call };
        let started =
            McpServer::start(self.name, &self.settings.program, &program, &starts, &self.site.scope).await;
        if let Err(McpError::Cancelled { .. }) = started {
            return Err(Stopped::Cancelled);
        }
        let wrote = match self.reach {
            Reach::Writes => command::changed(live).await.map(|_| None)?,
            Reach::Looks => None,
            Reach::Watched => walls::found(live, self.site.path).await?,
        };
        command::end_call(house, run, live, plan, (&call, &effect), |_, _| {
            Ok(self.end(&call, &started, wrote.as_deref()))
        })
        .await?;
        match (started, wrote) {
            (Err(error), _) => Err(Stopped::failed(error.category(), error)),
            (Ok(server), Some(message)) => {
                server.end().await;
                Err(Stopped::failed(ErrorCategory::Tool, message))
            }
            (Ok(server), None) => Ok(server),
        }
    }

    fn writes(&self) -> bool {
        self.reach == Reach::Writes
    }

    async fn occupy(&self, call: &ToolCall) -> Result<(), Stopped> {
        let Site { run, live, .. } = *self.site;
        if self.writes() {
            return live.occupy(run, call).await;
        }
        let mut place = live.open.lock().await;
        place.as_mut().ok_or(Stopped::Cancelled)?.beside.push(call.clone());
        Ok(())
    }

    fn new_call(&self) -> NewCall {
        let redactor = self.site.house.redactor.redactor();
        let settings = &self.settings.program;
        let names: Vec<&String> = settings.env.keys().chain(&settings.pass_env).collect();
        let requested = json!({
            "server": self.name, "command": settings.command, "env": names, "network": settings.network,
        });
        let effective = json!({ "writes": self.writes(), "start": self.start });
        NewCall {
            attempt: self.site.plan.attempt,
            node: self.site.path.to_owned(),
            tool: START_SERVER.to_owned(),
            requested: kept_arguments(redactor, &requested),
            effective,
        }
    }

    fn end(&self, call: &ToolCall, started: &Result<McpServer, McpError>, wrote: Option<&str>) -> CallEnd {
        let house = self.site.house;
        let came_to = match started {
            Ok(_) if wrote.is_some() => (CallState::Failed, wrote.map(str::to_owned), Value::Null),
            Ok(server) => {
                let left_out: Vec<String> =
                    server.problems().iter().map(|problem| house.redactor.redact_text(problem)).collect();
                (CallState::Ok, None, json!({ "tools": server.tools().len(), "left_out": left_out }))
            }
            Err(error @ McpError::TookTooLong { .. }) => {
                (CallState::TimedOut, Some(error.to_string()), Value::Null)
            }
            Err(error) => (CallState::Failed, Some(error.to_string()), Value::Null),
        };
        house.ended(call.started, came_to)
    }
}

/// Starts a server as a command of the plan.
struct InPlan<'a, 'b> {
    starting: &'a Starting<'b>,
    call: &'a ToolCall,
}

impl InPlan<'_, '_> {
    async fn place(&self) -> Result<(View, PathBuf), Stopped> {
        let place = Arc::clone(&self.starting.site.live.open).lock_owned().await;
        let no = self.call.no;
        blocking(move || {
            let open = place.as_ref().ok_or(Stopped::Cancelled)?;
            let failed = |error: std::io::Error| Stopped::failed(ErrorCategory::Sandbox, error);
            let logs = log_dir(open.sandbox.dir(), no);
            command::make_logs(&logs).map_err(failed)?;
            Ok((open.sandbox.view().map_err(failed)?, logs))
        })
        .await?
    }

    fn task(&self, program: &Program) -> Task {
        let Starting { site, settings, .. } = *self.starting;
        let word = |text: &String| ByteText::from(text.as_str());
        Task {
            node: site.path.to_owned(),
            tool: START_SERVER,
            run: Run::Argv(program.argv.iter().map(word).collect()),
            root: RootNo(0),
            cwd: ByteText::default(),
            timeout: None,
            network: settings.program.network,
            env: program.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            stdin: None,
            writes: self.starting.writes(),
            scope: site.scope.clone(),
            asked: None,
        }
    }
}

#[async_trait]
impl Starts for InPlan<'_, '_> {
    async fn start(&self, program: &Program) -> Result<Pipes, String> {
        let Site { house, run, live, plan, .. } = *self.starting.site;
        let (view, logs) = self.place().await.map_err(|stopped| stopped.shown())?;
        let task = self.task(program);
        let spec = command::spoken_spec(house, run, plan, &task, logs).map_err(|stopped| stopped.shown())?;
        let isolation = command::isolation(house, plan);
        let (line, speaks) = line();
        let (waiter, call, scope) = (Arc::clone(live), self.call.clone(), task.scope);
        let waiting = tokio::task::spawn_blocking(move || {
            let mut running = isolation.start(view, spec).map_err(|error| error.to_string())?;
            waiter.began(&call, &scope, &running.killer(), Ends::AtOnce);
            let told = line.began(&mut running);
            let ended = running.wait();
            waiter.ended(call.no);
            told.ended(&ended);
            Ok(())
        });
        match speaks.begun().await {
            Some(begun) => begun.map(|begun| begun.pipes).map_err(|error| error.to_string()),
            None => match waiting.await {
                Ok(Err(why)) => Err(why),
                Ok(Ok(())) => Err("it ended before it could be spoken to".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}
