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
//! 4. What a server changes between its calls is lost by nobody: it is found with the next call that writes, or when the
//!    server has ended, as a call of its own. Of one that may only look it fails the node, where nothing keeps it from
//!    writing (`walls`).

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

use super::super::facts::{END_SERVER, START_SERVER};
use super::super::mcp_servers::{ServerSettings, ServerTool, named, unknown};
use super::super::sandbox_home::log_dir;
use super::Stopped;
use super::command::{self, Task};
use super::ground::blocking;
use super::node::Node;
use super::spoken::line;
use super::work::Ends;
use super::{spending, walls};
use crate::tools::{kept_arguments, why_denied};

/// The servers of a node.
#[derive(Default)]
pub(super) struct NodeServers {
    /// By name.
    running: BTreeMap<String, Running>,
}

/// A server that was started.
struct Running {
    server: McpServer,
    /// Whether its tools only read, whatever they are.
    only_reads: bool,
    /// What it may do to the projects.
    reach: Reach,
}

/// What a server may do to the projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It changes them.
    Writes,
    /// It sees them read-only.
    Looks,
    /// It may only look, and nothing keeps it from writing.
    Watched,
}

impl NodeServers {
    /// Starts those that the node names.
    pub(super) async fn start(node: &Node<'_>) -> Result<NodeServers, Stopped> {
        let servers = &node.house.options.models.servers;
        let mut wanted: BTreeMap<&str, Vec<ServerTool<'_>>> = BTreeMap::new();
        // Of a server whose tools nobody may call nothing is started.
        let is_denied =
            |tool: &ServerTool<'_>| why_denied(&node.plan.spec.deny_tools, &tool.shown()).is_some();
        for tool in named(node.step).into_iter().filter(|tool| !is_denied(tool)) {
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
            let reach = match writes {
                true => Ok(Reach::Writes),
                false => walls::hold(node.house, node.live, node.plan).await.map(|hold| match hold {
                    true => Reach::Looks,
                    false => Reach::Watched,
                }),
            };
            let server = match reach {
                Ok(reach) => Starting { node, name, settings, reach }.done().await,
                Err(stopped) => Err(stopped),
            };
            match server {
                Ok(server) => _ = started.running.insert(name.to_owned(), server),
                Err(stopped) => return started.ended_with(stopped).await,
            }
        }
        Ok(started)
    }

    async fn ended_with(self, stopped: Stopped) -> Result<NodeServers, Stopped> {
        self.end().await;
        Err(stopped)
    }

    /// Whether the tool is one of a server that may only look, and that nothing keeps from writing.
    pub(super) fn is_watched(&self, tool: &str) -> bool {
        let running = ServerTool::of(tool).and_then(|tool| self.running.get(tool.server));
        running.is_some_and(|running| running.reach == Reach::Watched)
    }

    /// Adds their tools to those of the program, and gives the names that a node means: `SERVER.*` stands for every tool
    /// of the server. Those that it may not call are told apart by the gate, which says why not.
    pub(super) fn add_to(&self, catalog: &mut Catalog, names: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        for Running { server, only_reads, .. } in self.running.values() {
            for (spec, does) in server.tools() {
                let mut spec = spec.clone();
                spec.writes &= !only_reads;
                // Its schemas were compiled when the server listed it.
                if catalog.add(spec.clone(), Arc::clone(does)).is_ok() {
                    all.push(spec.name);
                }
            }
        }
        let is_of = |name: &str, server: &str| ServerTool::of(name).is_some_and(|tool| tool.server == server);
        let of_server = |server: &str| all.iter().filter(|name| is_of(name, server)).cloned().collect();
        let meant = |name: &String| match ServerTool::of(name) {
            Some(ServerTool { server, .. }) if !self.running.contains_key(server) => Vec::new(),
            Some(ServerTool { server, tool: None }) => of_server(server),
            Some(ServerTool { tool: Some(_), .. }) | None => vec![name.clone()],
        };
        names.iter().flat_map(meant).collect()
    }

    /// What of the servers is left out, as the end of a sentence.
    pub(super) fn left_out(&self) -> String {
        let problems = self.running.values().flat_map(|running| running.server.problems());
        problems.map(|problem| format!("; {problem}")).collect()
    }

    /// Ends all of them, and returns when their processes are gone.
    async fn end(self) {
        for running in self.running.into_values() {
            running.server.end().await;
        }
    }

    /// The same after the work of a node. If that was done, what they left without a call is kept, or fails the node.
    pub(super) async fn end_after<T>(self, node: &Node<'_>, done: Result<T, Stopped>) -> Result<T, Stopped> {
        let is_any = |reach| self.running.values().any(|running| running.reach == reach);
        let (wrote, watched) = (is_any(Reach::Writes), is_any(Reach::Watched));
        self.end().await;
        let done = done?;
        if !wrote && !watched {
            return Ok(done);
        }
        let _permit = node.live.permit(&node.scope, true).await?;
        if wrote {
            keep_left(node).await?;
        } else if let Some(message) = walls::found(node.live, node.path).await? {
            return Err(Stopped::failed(ErrorCategory::Tool, message));
        }
        Ok(done)
    }
}

/// Keeps what servers changed that are gone, and that no call accounts for.
async fn keep_left(node: &Node<'_>) -> Result<(), Stopped> {
    let Node { house, run, live, plan, .. } = *node;
    if command::changed_beside(live, node.path).await?.is_empty() {
        return Ok(());
    }
    let effect = node.enter()?;
    let new = NewCall {
        attempt: plan.attempt,
        node: node.path.to_owned(),
        tool: END_SERVER.to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    };
    let call = spending::begin(house, run, &effect, new).await?;
    live.occupy(run, &call).await?;
    command::end_call(house, run, live, plan, (&call, &effect), |_, changed| {
        Ok(CallEnd {
            state: CallState::Ok,
            duration_ms: house.wall().0.saturating_sub(call.started.0),
            exit: None,
            error: None,
            result: json!({ "changed": changed }),
            isolation: None,
            stdout: None,
            stderr: None,
        })
    })
    .await
}

/// A server that is to be started.
struct Starting<'a, 'n> {
    node: &'a Node<'n>,
    name: &'a str,
    settings: &'a ServerSettings,
    reach: Reach,
}

impl Starting<'_, '_> {
    /// The call: permit, admission, start, capture, record.
    async fn done(&self) -> Result<Running, Stopped> {
        let Node { house, run, live, plan, .. } = *self.node;
        // Alone, so that it is known whose what is found was.
        let _permit = live.permit(&self.node.scope, self.reach != Reach::Looks).await?;
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
        let wrote = match self.reach {
            Reach::Writes => command::changed(live).await.map(|_| None)?,
            Reach::Looks => None,
            Reach::Watched => walls::found(live, self.node.path).await?,
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
            (Ok(server), None) => {
                Ok(Running { server, only_reads: !self.settings.writes, reach: self.reach })
            }
        }
    }

    fn writes(&self) -> bool {
        self.reach == Reach::Writes
    }

    async fn occupy(&self, call: &ToolCall) -> Result<(), Stopped> {
        let Node { run, live, .. } = *self.node;
        if self.writes() {
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
        let effective = json!({ "writes": self.writes() });
        NewCall {
            attempt: self.node.plan.attempt,
            node: self.node.path.to_owned(),
            tool: START_SERVER.to_owned(),
            requested: kept_arguments(redactor, &requested),
            effective,
        }
    }

    fn end(&self, call: &ToolCall, started: &Result<McpServer, McpError>, wrote: Option<&str>) -> CallEnd {
        let house = self.node.house;
        let (state, error, result) = match started {
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
        let Starting { node, settings, .. } = *self.starting;
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
            writes: self.starting.writes(),
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
