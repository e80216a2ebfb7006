//! Checks the references of a node outside its actor: servers and providers of the settings, and other
//! actors.

use domain::did_you_mean;

use crate::error::{DiagnosticKind, SourcePosition};
use crate::node::{NodeDef, NodeKindDef};
use crate::reader::DefinitionReader;
use crate::search_path::Library;
use crate::server_tool::ServerTool;

/// The model that the settings name: whose it is they know.
const DEFAULT: &str = "default";

/// Reports names that do not exist, as far as the settings were read.
pub(crate) fn outside(reader: &DefinitionReader<'_>, library: &Library, node: &NodeDef) {
    match &node.does {
        NodeKindDef::Model { model, tools, .. } => {
            provider(reader, library, node.place("model"), model);
            for (at, tool) in tools.iter().flatten().enumerate() {
                server(reader, library, node.place(&format!("tools.{at}")), tool);
            }
        }
        NodeKindDef::Tool { name, .. } => server(reader, library, node.place("tool"), name),
        NodeKindDef::Actor { name, .. } => {
            if let Some(missing) = library.missing_actor(name) {
                reader.report(DiagnosticKind::ActorNotFound, node.place("actor"), missing);
            }
        }
        NodeKindDef::Run(_) | NodeKindDef::External { .. } => {}
    }
}

fn server(reader: &DefinitionReader<'_>, library: &Library, at: SourcePosition, tool: &str) {
    let (Some(ServerTool { server, .. }), Some(servers)) =
        (ServerTool::parse(tool), &library.configured.servers)
    else {
        return;
    };
    if !servers.contains(server) {
        let meant = did_you_mean(server, servers.iter().map(String::as_str));
        reader.wrong(
            at,
            format!("`{tool}`: your settings define no server `{server}` ([mcp.{server}]){meant}"),
        );
    }
}

fn provider(reader: &DefinitionReader<'_>, library: &Library, at: SourcePosition, model: &str) {
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
