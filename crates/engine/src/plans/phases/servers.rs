//! The servers of one node: started in the plan's sandbox when the node begins, ended when it has.
//!
//! A start is a call of its own, with what the server changed by it: admitted, captured, kept. Its record says what the
//! server offers, and what of it is left out and why. Calls of its tools are made through the gate (`tools`).
//!
//! # Invariants
//! 1. A server sees the projects read-only unless one of the tools that the node names may write, in a phase and a plan
//!    that let it. So nothing that a server does while a plan is strategized changes anything.
//! 2. The processes of a server end with its node; they are killed with the run like every command's.
//! 3. A server that does not start fails the node; one that fails later is told to the model, call by call.
//!
//! # Not here
//! What a server changes between its calls belongs to nobody: it is found with the next call that writes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use actors::mcp::{McpError, McpServer};
use actors::program::{Pipes, Program, Starts};
use actors::tool::Catalog;
use async_trait::async_trait;
use domain::{ByteText, CallEnd, CallState, ErrorCategory, NewCall, Phase, RootNo, Run, ToolCall};
use sandbox::view::View;
use serde_json::{Value, json};

use super::super::facts::START_SERVER;
use super::super::mcp_servers::{ServerSettings, ServerTool, named, unknown};
use super::super::sandbox_home::log_dir;
use super::Stopped;
use super::command::{self, Task};
use super::ground::blocking;
use super::node::Node;
use super::spending;
use super::spoken::line;
use super::work::Ends;
use crate::tools::kept_arguments;

/// The servers of a node.
#[derive(Default)]
pub(super) struct NodeServers {
    /// By name, with whether its tools only read whatever they are.
    running: BTreeMap<String, (McpServer, bool)>,
}

impl NodeServers {
    /// Starts those that the node names.
    pub(super) async fn start(node: &Node<'_>) -> Result<NodeServers, Stopped> {
        let servers = &node.house.options.models.servers;
        let mut wanted: BTreeMap<&str, Vec<ServerTool<'_>>> = BTreeMap::new();
        for tool in named(node.step) {
            wanted.entry(tool.server).or_default().push(tool);
        }
        let mut started = NodeServers::default();
        for (name, tools) in wanted {
            let settings = servers.get(name).ok_or_else(|| node.unfit(&unknown(servers, name)));
            let settings = match settings {
                Ok(settings) => settings,
                Err(stopped) => return started.ended_with(stopped).await,
            };
            let may_write = node.phase == Phase::Execute && !node.plan.spec.read_only;
            let writes = may_write && tools.iter().any(|tool| !tool.only_reads(settings));
            match (Starting { node, name, settings, writes }).done().await {
                Ok(server) => _ = started.running.insert(name.to_owned(), (server, !settings.writes)),
                Err(stopped) => return started.ended_with(stopped).await,
            }
        }
        Ok(started)
    }

    async fn ended_with(self, stopped: Stopped) -> Result<NodeServers, Stopped> {
        self.end().await;
        Err(stopped)
    }

    /// Adds their tools to those of the program, and gives the names that a node may call: what `SERVER.*` stands for
    /// is every tool that the node is let to use.
    pub(super) fn add_to(&self, catalog: &mut Catalog, node: &Node<'_>, names: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        for (server, only_reads) in self.running.values() {
            for (spec, does) in server.tools() {
                let mut spec = spec.clone();
                spec.writes &= !only_reads;
                // Its schemas were compiled when the server listed it.
                if catalog.add(spec.clone(), Arc::clone(does)).is_ok() {
                    all.push((spec.name, spec.writes));
                }
            }
        }
        let may_write = node.phase == Phase::Execute && !node.plan.spec.read_only;
        let is_of = |name: &str, server: &str| ServerTool::of(name).is_some_and(|tool| tool.server == server);
        let of_server = |server: &str| {
            let of_it = all.iter().filter(|(name, writes)| is_of(name, server) && (may_write || !writes));
            of_it.map(|(name, _)| name.clone()).collect()
        };
        let meant = |name: &String| match ServerTool::of(name) {
            Some(ServerTool { server, tool: None }) => of_server(server),
            Some(ServerTool { tool: Some(_), .. }) | None => vec![name.clone()],
        };
        names.iter().flat_map(meant).collect()
    }

    /// What of the servers is left out, as the end of a sentence.
    pub(super) fn left_out(&self) -> String {
        let problems = self.running.values().flat_map(|(server, _)| server.problems());
        problems.map(|problem| format!("; {problem}")).collect()
    }

    /// Ends all of them, and returns when their processes are gone.
    pub(super) async fn end(self) {
        for (server, _) in self.running.into_values() {
            server.end().await;
        }
    }
}

/// A server that is to be started.
struct Starting<'a, 'n> {
    node: &'a Node<'n>,
    name: &'a str,
    settings: &'a ServerSettings,
    /// Whether it may change the projects.
    writes: bool,
}

impl Starting<'_, '_> {
    /// The call: permit, admission, start, capture, record.
    async fn done(&self) -> Result<McpServer, Stopped> {
        let Node { house, run, live, plan, .. } = *self.node;
        let _permit = live.permit(&self.node.scope, self.writes).await?;
        let effect = self.node.enter()?;
        let call = spending::begin(house, run, &effect, self.new_call()).await?;
        self.occupy(&call).await?;
        let program = self.settings.program.program(&|name| std::env::var(name).ok());
        let starts = InPlan { starting: self, call: &call };
        let started =
            McpServer::start(self.name, &self.settings.program, &program, &starts, &self.node.scope).await;
        if let Err(McpError::Cancelled { .. }) = started {
            return Err(Stopped::Cancelled);
        }
        if self.writes {
            command::changed(live).await?;
        }
        command::end_call(house, run, live, plan, (&call, &effect), |_, _| Ok(self.end(&call, &started)))
            .await?;
        started.map_err(|error| Stopped::failed(error.category(), error))
    }

    async fn occupy(&self, call: &ToolCall) -> Result<(), Stopped> {
        let Node { run, live, .. } = *self.node;
        if self.writes {
            return live.occupy(run, call).await;
        }
        let mut place = live.open.lock().await;
        place.as_mut().ok_or(Stopped::Cancelled)?.beside.push(call.clone());
        Ok(())
    }

    fn new_call(&self) -> NewCall {
        let redactor = self.node.house.redactor.redactor();
        let settings = &self.settings.program;
        let names: Vec<&String> = settings.env.keys().chain(&settings.pass_env).collect();
        let requested = json!({
            "server": self.name, "command": settings.command, "env": names, "network": settings.network,
        });
        let effective = json!({ "writes": self.writes });
        NewCall {
            attempt: self.node.plan.attempt,
            node: self.node.path.to_owned(),
            tool: START_SERVER.to_owned(),
            requested: kept_arguments(redactor, &requested),
            effective,
        }
    }

    fn end(&self, call: &ToolCall, started: &Result<McpServer, McpError>) -> CallEnd {
        let house = self.node.house;
        let (state, error, result) = match started {
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
        CallEnd {
            state,
            duration_ms: house.wall().0.saturating_sub(call.started.0),
            exit: None,
            error: error.map(|error| house.redactor.redact_text(&error)),
            result,
            isolation: None,
            stdout: None,
            stderr: None,
        }
    }
}

/// Starts a server as a command of the plan.
struct InPlan<'a, 'b, 'n> {
    starting: &'a Starting<'b, 'n>,
    call: &'a ToolCall,
}

impl InPlan<'_, '_, '_> {
    async fn place(&self) -> Result<(View, PathBuf), Stopped> {
        let place = Arc::clone(&self.starting.node.live.open).lock_owned().await;
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
        let Starting { node, settings, writes, .. } = *self.starting;
        let word = |text: &String| ByteText::from(text.as_str());
        Task {
            node: node.path.to_owned(),
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
            writes,
            scope: node.scope.clone(),
            asked: None,
        }
    }
}

#[async_trait]
impl Starts for InPlan<'_, '_, '_> {
    async fn start(&self, program: &Program) -> Result<Pipes, String> {
        let Node { house, run, live, plan, .. } = *self.starting.node;
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
