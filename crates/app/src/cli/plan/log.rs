//! `agents log`: the applies and undos of this project, the newest first.

use std::os::unix::ffi::OsStrExt;

use domain::{ApplyKind, PlanId};
use engine::Operation;
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, TextTable, one_line};
use crate::render::diff::counted;
use crate::setup::project;
use crate::time::{local, stamp};

/// The column of the title, which gives way on a narrow screen.
const TITLE_COLUMN: usize = 4;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LogArgs {
    /// Only the applies and undos of this plan
    plan: Option<String>,
    /// Those of all projects
    #[arg(long, short, conflicts_with = "plan")]
    all: bool,
    /// Maximum number of them to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(in crate::cli) async fn run(
    args: LogArgs,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let failed = |error| from_engine::plan(&error, args.plan.as_deref().unwrap_or("@last"));
    let mut found = match &args.plan {
        Some(word) => {
            let named = invocation.plan(&engine, word).await?;
            let details = super::details(&engine, &named).await?;
            engine.operations_of(&details.plan).await.map_err(failed)?
        }
        None => {
            let root = match args.all && invocation.only.is_none() {
                true => None,
                false => Some(project::root_of(&invocation.here)?.as_os_str().as_bytes().to_vec()),
            };
            engine.operations(root).await.map_err(failed)?
        }
    };
    let total = found.len();
    found.truncate(usize::try_from(args.limit).unwrap_or(usize::MAX));
    let ids: Vec<PlanId> = found.iter().map(|operation| operation.plan.id).collect();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    let has_projects = args.all || found.iter().any(|operation| operation.plan.projects.len() > 1);
    let mut head = vec!["when", "what", "plan", "files", "title"];
    head.extend(has_projects.then_some("project"));
    let mut table = TextTable::new(&head).with_flexible(TITLE_COLUMN);
    let mut rows: Vec<Value> = Vec::new();
    for (operation, short) in found.iter().zip(&shorts) {
        table.row(cells(operation, short, has_projects));
        rows.push(to_json(operation, short));
    }
    let mut text = match total {
        0 => "nothing was applied yet; see the plans with `agents list`\n".to_owned(),
        _ => table.render(&invocation.style),
    };
    if total > found.len() {
        text.push_str(&format!(
            "{} of {}; see more with `--limit {total}`\n",
            found.len(),
            counted(total, "operation")
        ));
    }
    if total > 0 {
        text.push_str("undo one with `agents undo PLAN`, apply it again with `agents redo PLAN`\n");
    }
    Ok(CommandReport::new(json!({ "operations": rows, "total": total }), text))
}

fn word(operation: &Operation) -> &'static str {
    match operation.record.kind {
        ApplyKind::Apply if operation.is_in_force => "applied",
        ApplyKind::Apply => "applied, undone since",
        ApplyKind::Undo => "undone",
    }
}

fn cells(operation: &Operation, short: &str, has_projects: bool) -> Vec<String> {
    let summary = operation.summary.as_ref();
    let files = summary.map(|summary| {
        let place = match (&summary.branch, &summary.commit, operation.record.kind) {
            (Some(branch), _, _) => format!(", branch {branch}"),
            (None, Some(commit), ApplyKind::Apply) => {
                format!(", commit {}", commit.get(..7).unwrap_or(commit))
            }
            (None, Some(_) | None, _) => String::new(),
        };
        format!("{} (+{} -{}){place}", summary.files, summary.insertions, summary.deletions)
    });
    let mut cells = vec![
        local(operation.at()),
        word(operation).to_owned(),
        short.to_owned(),
        files.unwrap_or_default(),
        one_line(&operation.plan.title),
    ];
    cells.extend(has_projects.then(|| aliases(operation).join(",")));
    cells
}

fn aliases(operation: &Operation) -> Vec<&str> {
    operation.plan.projects.iter().map(|project| project.alias.as_str()).collect()
}

fn to_json(operation: &Operation, short: &str) -> Value {
    let Operation { plan, record, summary, is_in_force, can_undo } = operation;
    let kind = match record.kind {
        ApplyKind::Apply => "apply",
        ApplyKind::Undo => "undo",
    };
    let roots: Vec<String> = plan.projects.iter().map(|project| project.root.to_string()).collect();
    json!({
        "id": record.id, "kind": kind, "at": stamp(operation.at()), "plan_id": plan.id, "short_id": short,
        "title": plan.title, "projects": aliases(operation), "roots": roots,
        "files": summary.as_ref().map(|summary| summary.files),
        "insertions": summary.as_ref().map(|summary| summary.insertions),
        "deletions": summary.as_ref().map(|summary| summary.deletions),
        "merged": summary.as_ref().map(|summary| &summary.merged),
        "left_out": summary.as_ref().map(|summary| &summary.left_out),
        "commit": summary.as_ref().and_then(|summary| summary.commit.as_ref()),
        "branch": summary.as_ref().and_then(|summary| summary.branch.as_ref()),
        "in_force": is_in_force, "can_undo": can_undo,
    })
}
