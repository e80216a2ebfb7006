//! The client of a started MCP server: it shakes hands, lists the tools, and ends the server.
//!
//! # Invariants
//! 1. A start that fails, is cancelled or is dropped leaves no process.
//! 2. [`McpClient::end`] returns when its processes are gone.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::{ClientInitializeError, Peer, PeerRequestOptions, RunningService, serve_client};
use serde_json::Value;
use sync::Observed;
use tokio::time::Instant;

use super::error::McpError;
use super::settings::McpSettings;
use super::tool::{McpConnection, McpTool};
use super::tool_list::{ListedTool, ListedTools, PAGES_MAX, TOOLS_MAX, read_tools};
use super::wire::{Wire, WireErrors};
use crate::model::ToolSpec;
use crate::program::{ProgramProcess, ProgramSpec, ProgramStarter, StdinWriter};
use crate::tool::{ForeignTool, head_and_tail};

/// The time that a server may take to end by itself once its input is closed.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// The limit of an unexpected answer that is repeated.
const SHOWN_BYTES_MAX: usize = 300;

/// The client of one running server.
pub struct McpClient {
    service: RunningService<RoleClient, ClientIdentity>,
    process: Arc<dyn ProgramProcess>,
    tools: Vec<(ToolSpec, Arc<dyn ForeignTool>)>,
    problems: Vec<String>,
}

/// The client as a server sees it: it answers no requests.
struct ClientIdentity;

impl ClientHandler for ClientIdentity {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("agents", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }
}

impl McpClient {
    /// Starts a server, shakes hands and lists its tools, all within its limit. `program` is what its
    /// settings name, as [`McpSettings::program`] gives it.
    ///
    /// # Errors
    /// Returns [`McpError`]; nothing is left of the server then.
    pub async fn start(
        name: &str,
        settings: &McpSettings,
        program: &ProgramSpec,
        starts: &dyn ProgramStarter,
        scope: &Observed,
    ) -> Result<McpClient, McpError> {
        let cancelled = |reason| McpError::Cancelled { server: name.to_owned(), reason };
        let begun = async {
            let not_started = |why| McpError::NotStarted { server: name.to_owned(), why };
            let pipes = starts.start(program).await.map_err(not_started)?;
            let process: Arc<dyn ProgramProcess> = Arc::from(pipes.process);
            let heard = Arc::new(WireErrors::default());
            let asking = McpConnection {
                server: name.to_owned(),
                heard: Arc::clone(&heard),
                process: Arc::downgrade(&process),
            };
            let wire = Wire::new(pipes.stdout, StdinWriter::to(pipes.stdin), heard);
            let connected = connect(&asking, wire, settings).await;
            match connected {
                Ok((service, offers)) => Ok((service, process, asking, offers)),
                Err(error) => {
                    process.end(Duration::ZERO).await;
                    Err(error)
                }
            }
        };
        let (service, process, asking, (offered, problems)) = tokio::select! {
            begun = begun => begun?,
            reason = scope.cancelled() => return Err(cancelled(reason)),
        };
        let limit = Duration::from_secs(u64::from(settings.call_limit_s()));
        let tool = |ListedTool { name, spec, is_structured }| {
            let peer = service.peer().clone();
            let does = McpTool { asking: asking.clone(), peer, name, is_structured, limit };
            (spec, Arc::new(does) as Arc<dyn ForeignTool>)
        };
        let tools = offered.into_iter().map(tool).collect();
        Ok(McpClient { service, process, tools, problems })
    }

    /// Its tools, for [`Catalog::add`](crate::tool::Catalog::add).
    pub fn tools(&self) -> &[(ToolSpec, Arc<dyn ForeignTool>)] {
        &self.tools
    }

    /// The parts of its list that are left out, with reasons.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns whether it or its connection ended: no request to it will be answered.
    pub fn is_gone(&self) -> bool {
        self.service.is_transport_closed() || self.service.is_closed()
    }

    /// Ends it and all its processes.
    pub async fn end(mut self) {
        // Its input is closed by this, which is how a server is asked to end.
        let _ = self.service.close_with_timeout(END_PATIENCE).await;
        self.process.end(END_PATIENCE).await;
    }
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpClient").field("tools", &self.tools.len()).finish_non_exhaustive()
    }
}

type Connected = (RunningService<RoleClient, ClientIdentity>, ListedTools);

async fn connect(asking: &McpConnection, wire: Wire, settings: &McpSettings) -> Result<Connected, McpError> {
    let limit = settings.start_limit();
    let end = Instant::now() + limit;
    let service = match tokio::time::timeout_at(end, serve_client(ClientIdentity, wire)).await {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => return Err(no_handshake(asking, error).await),
        Err(_) => return Err(asking.too_late("initialize", limit)),
    };
    let doing = "tools/list";
    let offers = async {
        let listed = list(asking, service.peer(), limit, doing).await?;
        Ok(read_offers(asking, settings, listed).await)
    };
    match tokio::time::timeout_at(end, offers).await {
        Ok(offers) => offers.map(|offers| (service, offers)),
        Err(_) => Err(asking.too_late(doing, limit)),
    }
}

/// Reads the list on a thread that may be busy: a server decides how much there is to compile. The thread
/// ends after the tool that it is at when the offers are not wanted any more.
async fn read_offers(asking: &McpConnection, settings: &McpSettings, listed: Vec<Value>) -> ListedTools {
    let (server, settings) = (asking.server.clone(), settings.clone());
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);
    let read = tokio::task::spawn_blocking(move || {
        read_tools(&server, &settings, &listed, || is_wanted.strong_count() > 0)
    });
    // Only a panic of what compiles schemas fails this.
    let offers = read.await.unwrap_or_else(|_| {
        (
            Vec::new(),
            vec![format!("the tools of {} cannot be read: the check of a schema panicked", asking.server)],
        )
    });
    drop(wanted);
    offers
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum that may grow")]
async fn no_handshake(asking: &McpConnection, error: ClientInitializeError) -> McpError {
    let (server, doing) = (asking.server.clone(), "initialize".to_owned());
    match error {
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            asking.gone("initialize").await
        }
        ClientInitializeError::JsonRpcError(error) => {
            McpError::Refused { server, doing, message: head_and_tail(&error.message, SHOWN_BYTES_MAX, 0) }
        }
        other => {
            let what = head_and_tail(&other.to_string(), SHOWN_BYTES_MAX, 0);
            McpError::NotTheProtocol { server, doing, what }
        }
    }
}

/// The tools as the server wrote them. One that cannot be read does not hide the others.
async fn list(
    asking: &McpConnection,
    peer: &Peer<RoleClient>,
    limit: Duration,
    doing: &str,
) -> Result<Vec<Value>, McpError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page = asking.within(limit, doing, async {
            let options = PeerRequestOptions::no_options();
            peer.send_request_with_option(request, options).await?.await_response().await
        });
        let page = page_of(page.await?);
        let Some(listed) = page.get("tools").and_then(Value::as_array) else {
            let what = head_and_tail(&page.to_string(), SHOWN_BYTES_MAX, 0);
            let (server, doing) = (asking.server.clone(), doing.to_owned());
            return Err(McpError::NotTheProtocol { server, doing, what });
        };
        tools.extend(listed.iter().cloned());
        cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() || tools.len() > TOOLS_MAX {
            return Ok(tools);
        }
    }
    Ok(tools)
}

/// A page as JSON, whatever it was taken for.
fn page_of(page: ServerResult) -> Value {
    serde_json::to_value(page).unwrap_or_default()
}
