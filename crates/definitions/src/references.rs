//! What a node names outside its actor: servers and providers of the settings, and other actors.

use domain::did_you_mean;

use crate::diagnostic::{FindingKind, Place};
use crate::library::Library;
use crate::node::{Node, NodeDoes};
use crate::reader::Reader;
use crate::server_tool::ServerTool;

/// The model that the settings name: whose it is they know.
const DEFAULT: &str = "default";

/// Tells of what is not there, as far as anybody has looked.
pub(crate) fn outside(reader: &Reader<'_>, library: &Library, node: &Node) {
    match &node.does {
        NodeDoes::Model { model, tools, .. } => {
            provider(reader, library, node.place("model"), model);
            for (at, tool) in tools.iter().flatten().enumerate() {
                server(reader, library, node.place(&format!("tools.{at}")), tool);
            }
        }
        NodeDoes::Tool { name, .. } => server(reader, library, node.place("tool"), name),
        NodeDoes::Actor { name, .. } => {
            if let Some(missing) = library.missing_actor(name) {
                reader.tell(FindingKind::ActorNotFound, node.place("actor"), missing);
            }
        }
        NodeDoes::Run(_) | NodeDoes::External { .. } => {}
    }
}

fn server(reader: &Reader<'_>, library: &Library, at: Place, tool: &str) {
    let (Some(ServerTool { server, .. }), Some(servers)) =
        (ServerTool::of(tool), &library.configured.servers)
    else {
        return;
    };
    if !servers.contains(server) {
        let meant = did_you_mean(server, servers.iter().map(String::as_str));
        reader.wrong(
            at,
            format!("`{tool}`: your settings describe no server `{server}` ([mcp.{server}]){meant}"),
        );
    }
}

fn provider(reader: &Reader<'_>, library: &Library, at: Place, model: &str) {
    let (Some((provider, _)), Some(providers)) = (model.split_once('/'), &library.configured.providers)
    else {
        return;
    };
    if model != DEFAULT && !provider.is_empty() && !providers.contains(provider) {
        let meant = did_you_mean(provider, providers.iter().map(String::as_str));
        let known = providers.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let all = if meant.is_empty() { format!("; there are {known}") } else { meant };
        reader
            .wrong(at, format!("`{model}`: there is no provider `{provider}` ([providers.{provider}]){all}"));
    }
}
