//! `agents plan artifacts`: the files that a plan made or changed, as they are after it.

use std::path::PathBuf;

use domain::Kind;
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, TextTable};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ArtifactsArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Write them below this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: ArtifactsArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let out = args.out.map(|dir| invocation.here.join(dir));
    let found = engine.artifacts(plan.id, out.as_deref()).await;
    let found = found.map_err(|error| from_engine::artifacts(&error, &plan.short))?;
    let mut table = TextTable::new(&["kind", "bytes", "path"]);
    let mut all: Vec<Value> = Vec::new();
    for artifact in &found {
        let kind = match artifact.state.kind {
            Kind::File => "file",
            Kind::Symlink => "link",
            Kind::Dir => "directory",
        };
        table.row(vec![kind.to_owned(), artifact.state.size.to_string(), artifact.address.clone()]);
        all.push(json!({
            "address": artifact.address, "kind": kind, "mode": format!("{:04o}", artifact.state.mode),
            "size": artifact.state.size, "blake3": artifact.state.hash.to_string(),
        }));
    }
    let mut text = if found.is_empty() {
        format!("plan {} made no files\n", plan.short)
    } else {
        table.render(&invocation.style)
    };
    if let Some(dir) = &out {
        text.push_str(&format!("written below {}\n", dir.display()));
    }
    let out = out.map(|dir| dir.display().to_string());
    Ok(CommandReport::new(json!({ "plan": plan.id, "artifacts": all, "out": out }), text))
}
