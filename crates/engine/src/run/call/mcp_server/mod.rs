//! The servers of one node: started in the plan's sandbox when the node begins, ended when it has.
//!
//! A start is a call of its own, with the changes that the server made by it: admitted, captured, recorded.
//! Its record lists the tools of the server, and those that are left out with the reason. Calls of its tools
//! are made through the gateway (`tool`).
//!
//! # Invariants
//! 1. A server sees the projects read-only unless one of the tools that the node names may write. The phase
//!    and the plan must allow that too. So nothing that a server does while a plan is strategized changes
//!    anything.
//! 2. The processes of a server end with its node; they are killed with the run like every command's.
//! 3. A server that does not start fails the node; a later failure is reported to the model, call by call. A
//!    server that went away is started again for the next call, [`STARTS_MAX`] times in all.
//! 4. Changes of a server between its calls are recorded for its node, with the node's next call that writes.
//!    Before a call of another node, and when the server has ended, they are a call of their own. If a server
//!    may only look and is not prevented from writing, its changes fail the node (`write_guard`). Changes of
//!    a server while a call of another node runs are not distinguished from the changes of that call.

mod start;

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::mcp::McpClient;
use actors::tool::{Catalog, ForeignTool, ToolSpec};
use async_trait::async_trait;
use domain::{ErrorCategory, NewCall, Phase};
use serde_json::Value;
use sync::primitives::{Mutex, lock};

use super::write_guard;
use crate::mcp_servers::{ServerSettings, named, only_reads, unknown};
use crate::plan::tool_policy::why_denied;
use crate::query::details::END_SERVER;
use crate::run::RunError;
use crate::run::context::NodeContext;
use crate::run::node::ActiveNode;
use definitions::ServerTool;
use start::ServerStart;

/// The number of times that a server is started for one run of a node.
const STARTS_MAX: u32 = 3;

/// The servers of a node.
#[derive(Default)]
pub(crate) struct NodeServers {
    /// By name.
    running: BTreeMap<String, StartedServer>,
}

/// A server that was started.
struct StartedServer {
    settings: ServerSettings,
    /// The access of the server to the projects.
    reach: ServerAccess,
    /// The tools that it offered when it was first started.
    offered: Vec<ToolSpec>,
    /// The tools of its list that were left out then.
    problems: Vec<String>,
    present: Arc<Mutex<CurrentServer>>,
}

/// A server as it is now.
struct CurrentServer {
    /// None while it is started again, and when that failed.
    server: Option<McpClient>,
    starts: u32,
}

impl CurrentServer {
    fn is_gone(&self) -> bool {
        self.server.as_ref().is_none_or(McpClient::is_gone)
    }
}

impl StartedServer {
    fn new(server: McpClient, settings: &ServerSettings, reach: ServerAccess) -> StartedServer {
        let offered = server.tools().iter().map(|(spec, _)| spec.clone()).collect();
        let problems = server.problems().to_vec();
        let present = Arc::new(Mutex::new(CurrentServer { server: Some(server), starts: 1 }));
        StartedServer { settings: settings.clone(), reach, offered, problems, present }
    }

    /// If it went away and may be started again: what is left of it, and the how manieth start that is.
    fn take_gone(&self) -> Option<(Option<McpClient>, u32)> {
        let mut present = lock(&self.present);
        if !present.is_gone() || present.starts >= STARTS_MAX {
            return None;
        }
        present.starts += 1;
        Some((present.server.take(), present.starts))
    }
}

/// A tool of a server, whichever start of it answers.
struct McpProxyTool {
    present: Arc<Mutex<CurrentServer>>,
    /// As the catalog has it.
    name: String,
}

impl McpProxyTool {
    fn tool(&self) -> Option<Arc<dyn ForeignTool>> {
        let present = lock(&self.present);
        let (_, does) = present.server.as_ref()?.tools().iter().find(|(spec, _)| spec.name == self.name)?;
        Some(Arc::clone(does))
    }
}

#[async_trait]
impl ForeignTool for McpProxyTool {
    async fn call(&self, arguments: Value) -> Result<Value, String> {
        match self.tool() {
            Some(tool) => tool.call(arguments).await,
            None => Err("its server no longer offers it".to_owned()),
        }
    }
}

/// The access of a server to the projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerAccess {
    /// It changes them.
    Writes,
    /// It sees them read-only.
    Looks,
    /// It may only look, and nothing prevents it from writing.
    Watched,
}

impl NodeServers {
    /// Starts those that the node names.
    pub(crate) async fn start(node: &ActiveNode<'_>) -> Result<NodeServers, RunError> {
        let servers = &node.engine.options.models.servers;
        let mut wanted: BTreeMap<&str, Vec<ServerTool<'_>>> = BTreeMap::new();
        // A server whose tools may not be called is not started.
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
            let may_write = node.phase() == Phase::Execute && !node.plan.spec.read_only;
            let writes = may_write && tools.iter().any(|tool| !only_reads(tool, settings));
            let reach = match writes {
                true => Ok(ServerAccess::Writes),
                false => write_guard::is_enforced(node.run).await.map(|is_enforced| match is_enforced {
                    true => ServerAccess::Looks,
                    false => ServerAccess::Watched,
                }),
            };
            let context = &node.context;
            let server = match reach {
                Ok(reach) => ServerStart { context, name, settings, reach, start: 1 }
                    .done()
                    .await
                    .map(|server| StartedServer::new(server, settings, reach)),
                Err(stopped) => Err(stopped),
            };
            match server {
                Ok(server) => _ = started.running.insert(name.to_owned(), server),
                Err(stopped) => return started.ended_with(stopped).await,
            }
        }
        Ok(started)
    }

    async fn ended_with(self, stopped: RunError) -> Result<NodeServers, RunError> {
        self.end().await;
        Err(stopped)
    }

    fn of(&self, tool: &str) -> Option<(&str, &StartedServer)> {
        let name = ServerTool::parse(tool)?.server;
        self.running.get_key_value(name).map(|(name, running)| (name.as_str(), running))
    }

    /// Starts the server of this tool again, if it went away and may be.
    pub(crate) async fn revive(&self, context: &NodeContext<'_>, tool: &str) -> Result<(), RunError> {
        let Some((name, running)) = self.of(tool) else { return Ok(()) };
        let Some((left, start)) = running.take_gone() else { return Ok(()) };
        if let Some(server) = left {
            server.end().await;
        }
        let StartedServer { settings, reach, .. } = running;
        let server = ServerStart { context, name, settings, reach: *reach, start }.done().await?;
        lock(&running.present).server = Some(server);
        Ok(())
    }

    /// Returns what happens to the server of this tool, if it went away, as the end of a sentence.
    pub(crate) fn way_on(&self, tool: &str) -> String {
        let Some((_, running)) = self.of(tool) else { return String::new() };
        let present = lock(&running.present);
        match (present.is_gone(), present.starts < STARTS_MAX) {
            (false, _) => String::new(),
            (true, true) => "; the next call starts its server again".to_owned(),
            (true, false) => format!("; its server was started {STARTS_MAX} times and is not started again"),
        }
    }

    /// Returns true if the tool is one of a server that may only look, and that nothing prevents from
    /// writing.
    pub(crate) fn is_watched(&self, tool: &str) -> bool {
        self.of(tool).is_some_and(|(_, running)| running.reach == ServerAccess::Watched)
    }

    /// Adds their tools to those of the program, and returns the names that a node means: `SERVER.*` means
    /// every tool of the server. The gate refuses those that it may not call, with the reason.
    pub(crate) fn add_to(&self, catalog: &mut Catalog, names: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        for StartedServer { settings, offered, present, .. } in self.running.values() {
            for spec in offered {
                let mut spec = spec.clone();
                spec.writes &= settings.writes;
                let does = McpProxyTool { present: Arc::clone(present), name: spec.name.clone() };
                // Its schemas were compiled when the server listed it.
                if catalog.add(spec.clone(), Arc::new(does)).is_ok() {
                    all.push(spec.name);
                }
            }
        }
        let is_of =
            |name: &str, server: &str| ServerTool::parse(name).is_some_and(|tool| tool.server == server);
        let of_server = |server: &str| all.iter().filter(|name| is_of(name, server)).cloned().collect();
        let meant = |name: &String| match ServerTool::parse(name) {
            Some(ServerTool { server, .. }) if !self.running.contains_key(server) => Vec::new(),
            Some(ServerTool { server, tool: None }) => of_server(server),
            Some(ServerTool { tool: Some(_), .. }) | None => vec![name.clone()],
        };
        names.iter().flat_map(meant).collect()
    }

    /// Returns the tools of the servers that are left out, as the end of a sentence.
    pub(crate) fn left_out(&self) -> String {
        let problems = self.running.values().flat_map(|running| &running.problems);
        problems.map(|problem| format!("; {problem}")).collect()
    }

    /// Ends the server of this tool, and returns when its processes are gone. The next call starts it again,
    /// if it may.
    pub(crate) async fn end_of(&self, tool: &str) {
        let Some((_, running)) = self.of(tool) else { return };
        let left = lock(&running.present).server.take();
        if let Some(server) = left {
            server.end().await;
        }
    }

    /// Ends all of them, and returns when their processes are gone.
    async fn end(self) {
        for running in self.running.into_values() {
            let left = lock(&running.present).server.take();
            if let Some(server) = left {
                server.end().await;
            }
        }
    }

    /// The same after the work of a node, however that ended. Changes without a call are recorded; those of
    /// read-only servers fail the node.
    pub(crate) async fn end_after<T>(
        self,
        node: &ActiveNode<'_>,
        done: Result<T, RunError>,
    ) -> Result<T, RunError> {
        let is_any = |reach| self.running.values().any(|running| running.reach == reach);
        let (wrote, watched) = (is_any(ServerAccess::Writes), is_any(ServerAccess::Watched));
        self.end().await;
        node.state.servers_ended(node.path);
        if (wrote || watched) && !node.job.scope().is_cancelled() {
            // The node may have been stopped: what its servers left is its own all the same.
            let context = node.context.until_run_ends();
            let recorded = match wrote {
                true => record_left(&context).await,
                false => find_written(&context).await,
            };
            // The failure of the node comes first.
            return done.and_then(|done| recorded.map(|()| done));
        }
        done
    }
}

/// Records what servers changed that are gone, and that no call accounts for.
async fn record_left(context: &NodeContext<'_>) -> Result<(), RunError> {
    let _turn = context.turn(true).await?;
    context.record_unattended(end_server(context)).await
}

/// Fails the node if servers that may only look have written.
async fn find_written(context: &NodeContext<'_>) -> Result<(), RunError> {
    let _turn = context.turn(true).await?;
    match write_guard::revert_unattended(context).await? {
        Some(message) => Err(RunError::failed(ErrorCategory::Tool, message)),
        None => Ok(()),
    }
}

/// The call that what servers of a node change between their calls is recorded as.
fn end_server(context: &NodeContext<'_>) -> NewCall {
    NewCall {
        attempt: context.plan.attempt,
        node: context.path.to_owned(),
        tool: END_SERVER.to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    }
}
