//! The servers of one node: started in the plan's sandbox when the node begins, ended when it has.
//!
//! A start is a call of its own, with what the server changed by it: admitted, captured, kept. Its record says what the
//! server offers, and what of it is left out and why. Calls of its tools are made through the gate (`tools`).
//!
//! # Invariants
//! 1. A server sees the projects read-only unless one of the tools that the node names may write, in a phase and a plan
//!    that let it. So nothing that a server does while a plan is strategized changes anything.
//! 2. The processes of a server end with its node; they are killed with the run like every command's.
//! 3. A server that does not start fails the node; one that fails later is told to the model, call by call. One that went
//!    away is started again for the next call, [`STARTS_MAX`] times in all.
//! 4. What a server changes between its calls is recorded for its node: with the node's next call that writes; or, before a
//!    call of another node begins and when the server has ended, as a call of its own. Of one that may only look it fails
//!    the node, where nothing keeps it from writing (`walls`). What a server changes while a call of another node runs is not
//!    told apart from what that call changes.

mod start;

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::mcp::McpServer;
use actors::tool::{Catalog, ForeignTool, ToolSpec};
use async_trait::async_trait;
use domain::{ErrorCategory, NewCall, Phase};
use serde_json::Value;
use sync::primitives::{Mutex, lock};

use super::write_guard;
use crate::mcp_servers::{ServerSettings, named, only_reads, unknown};
use crate::query::details::END_SERVER;
use crate::run::Stopped;
use crate::run::context::Site;
use crate::run::node::Node;
use crate::tools::why_denied;
use definitions::ServerTool;
use start::Starting;

/// How often a server is started for one run of a node.
const STARTS_MAX: u32 = 3;

/// The servers of a node.
#[derive(Default)]
pub(crate) struct NodeServers {
    /// By name.
    running: BTreeMap<String, Running>,
}

/// A server that was started.
struct Running {
    settings: ServerSettings,
    /// What it may do to the projects.
    reach: Reach,
    /// What it offered when it was first started.
    offered: Vec<ToolSpec>,
    /// What of its list was left out then.
    problems: Vec<String>,
    present: Arc<Mutex<Present>>,
}

/// A server as it is now.
struct Present {
    /// None while it is started again, and when that failed.
    server: Option<McpServer>,
    starts: u32,
}

impl Present {
    fn is_gone(&self) -> bool {
        self.server.as_ref().is_none_or(McpServer::is_gone)
    }
}

impl Running {
    fn of(server: McpServer, settings: &ServerSettings, reach: Reach) -> Running {
        let offered = server.tools().iter().map(|(spec, _)| spec.clone()).collect();
        let problems = server.problems().to_vec();
        let present = Arc::new(Mutex::new(Present { server: Some(server), starts: 1 }));
        Running { settings: settings.clone(), reach, offered, problems, present }
    }

    /// If it went away and may be started again: what is left of it, and the how manieth start that is.
    fn take_gone(&self) -> Option<(Option<McpServer>, u32)> {
        let mut present = lock(&self.present);
        if !present.is_gone() || present.starts >= STARTS_MAX {
            return None;
        }
        present.starts += 1;
        Some((present.server.take(), present.starts))
    }
}

/// A tool of a server, whichever start of it answers.
struct Through {
    present: Arc<Mutex<Present>>,
    /// As the catalog has it.
    name: String,
}

impl Through {
    fn tool(&self) -> Option<Arc<dyn ForeignTool>> {
        let present = lock(&self.present);
        let (_, does) = present.server.as_ref()?.tools().iter().find(|(spec, _)| spec.name == self.name)?;
        Some(Arc::clone(does))
    }
}

#[async_trait]
impl ForeignTool for Through {
    async fn call(&self, arguments: Value) -> Result<Value, String> {
        match self.tool() {
            Some(tool) => tool.call(arguments).await,
            None => Err("its server does not offer it any more".to_owned()),
        }
    }
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
    pub(crate) async fn start(node: &Node<'_>) -> Result<NodeServers, Stopped> {
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
            let writes = may_write && tools.iter().any(|tool| !only_reads(tool, settings));
            let reach = match writes {
                true => Ok(Reach::Writes),
                false => write_guard::hold(node.house, node.live, node.plan).await.map(|hold| match hold {
                    true => Reach::Looks,
                    false => Reach::Watched,
                }),
            };
            let site = node.site();
            let server = match reach {
                Ok(reach) => Starting { site: &site, name, settings, reach, start: 1 }
                    .done()
                    .await
                    .map(|server| Running::of(server, settings, reach)),
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

    fn of(&self, tool: &str) -> Option<(&str, &Running)> {
        let name = ServerTool::of(tool)?.server;
        self.running.get_key_value(name).map(|(name, running)| (name.as_str(), running))
    }

    /// Starts the server of this tool again, if it went away and may be.
    pub(crate) async fn revive(&self, site: &Site<'_>, tool: &str) -> Result<(), Stopped> {
        let Some((name, running)) = self.of(tool) else { return Ok(()) };
        let Some((left, start)) = running.take_gone() else { return Ok(()) };
        if let Some(server) = left {
            server.end().await;
        }
        let Running { settings, reach, .. } = running;
        let server = Starting { site, name, settings, reach: *reach, start }.done().await?;
        lock(&running.present).server = Some(server);
        Ok(())
    }

    /// What becomes of the server of this tool, if it went away, as the end of a sentence.
    pub(crate) fn way_on(&self, tool: &str) -> String {
        let Some((_, running)) = self.of(tool) else { return String::new() };
        let present = lock(&running.present);
        match (present.is_gone(), present.starts < STARTS_MAX) {
            (false, _) => String::new(),
            (true, true) => "; its server is started again with the next call".to_owned(),
            (true, false) => format!("; its server was started {STARTS_MAX} times and is not started again"),
        }
    }

    /// Whether the tool is one of a server that may only look, and that nothing keeps from writing.
    pub(crate) fn is_watched(&self, tool: &str) -> bool {
        self.of(tool).is_some_and(|(_, running)| running.reach == Reach::Watched)
    }

    /// Adds their tools to those of the program, and gives the names that a node means: `SERVER.*` stands for every tool
    /// of the server. Those that it may not call are told apart by the gate, which says why not.
    pub(crate) fn add_to(&self, catalog: &mut Catalog, names: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        for Running { settings, offered, present, .. } in self.running.values() {
            for spec in offered {
                let mut spec = spec.clone();
                spec.writes &= settings.writes;
                let does = Through { present: Arc::clone(present), name: spec.name.clone() };
                // Its schemas were compiled when the server listed it.
                if catalog.add(spec.clone(), Arc::new(does)).is_ok() {
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
    pub(crate) fn left_out(&self) -> String {
        let problems = self.running.values().flat_map(|running| &running.problems);
        problems.map(|problem| format!("; {problem}")).collect()
    }

    /// Ends the server of this tool, and returns when its processes are gone. The next call starts it again, if it may.
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

    /// The same after the work of a node, however that ended: what they changed without a call is recorded; or, of those
    /// that may only look, fails the node.
    pub(crate) async fn end_after<T>(self, node: &Node<'_>, done: Result<T, Stopped>) -> Result<T, Stopped> {
        let is_any = |reach| self.running.values().any(|running| running.reach == reach);
        let (wrote, watched) = (is_any(Reach::Writes), is_any(Reach::Watched));
        self.end().await;
        node.live.servers_ended(node.path);
        if (wrote || watched) && !node.run.scope().is_cancelled() {
            // The node may have been stopped: what its servers left is its own all the same.
            let site = node.site().until_run_ends();
            let recorded = match wrote {
                true => record_left(&site).await,
                false => find_written(&site).await,
            };
            // The failure of the node comes first.
            return done.and_then(|done| recorded.map(|()| done));
        }
        done
    }
}

/// Records what servers changed that are gone, and that no call accounts for.
async fn record_left(site: &Site<'_>) -> Result<(), Stopped> {
    let _turn = site.turn(true).await?;
    site.record_unattended(end_server(site)).await
}

/// Fails the node if servers that may only look have written.
async fn find_written(site: &Site<'_>) -> Result<(), Stopped> {
    let _turn = site.turn(true).await?;
    match write_guard::found_unattended(site).await? {
        Some(message) => Err(Stopped::failed(ErrorCategory::Tool, message)),
        None => Ok(()),
    }
}

/// The call that what servers of a node change between their calls is recorded as.
fn end_server(site: &Site<'_>) -> NewCall {
    NewCall {
        attempt: site.plan.attempt,
        node: site.path.to_owned(),
        tool: END_SERVER.to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    }
}
