//! `agents plan undo`: takes an applied plan out of the user's files again.

use serde_json::json;
use sync::Observed;

use super::agreed;
use crate::cli::{Invocation, follow};
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, OutputNote};
use crate::render;
use crate::render::diff::counted;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UndoArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: UndoArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    let stands = details.plan.is_applied();
    let question = format!(
        "take plan {} ({}) out of your files?",
        render::plan::named_words(&plan.short, &details.plan),
        counted(details.net.len(), "file")
    );
    // An undo that is impossible is refused without a question.
    if stands && !agreed(&question, args.yes, invocation)? {
        return Ok(CommandReport::new(json!({ "plan": plan.id, "undone": false }), "nothing was undone\n"));
    }
    let (id, undoing) = (plan.id, &engine);
    let undo = |stop: Observed| async move { undoing.undo_unless(id, &stop).await };
    let undone = follow::follow_files(invocation, &engine, &plan, undo).await;
    let summary = undone.map_err(|error| from_engine::undo(&error, &plan.short))?;
    let details = super::details(&engine, &plan).await?;
    let mut data = super::apply::summary_json(&summary, &plan);
    data["applied"] = false.into();
    data["undone"] = true.into();
    let data = super::apply::with_plan(data, render::plan::to_json(&details, &plan.short));
    let merged = match summary.merged.len() {
        0 => String::new(),
        count => format!(", {count} merged with your edits"),
    };
    let id = &plan.short;
    let files = counted(summary.files, "file");
    let projects = render::plan::projects_words(&details.plan);
    let what = match &summary.branch {
        Some(branch) => format!("deleted branch {branch} of {projects} ({files})"),
        None => format!("in {projects}: {files}{merged}"),
    };
    let next = render::next_steps::after_undo(id);
    let report = CommandReport::new(data, format!("undone {id} {what}; {next}\n"));
    Ok(match &summary.left_commit {
        None => report,
        Some(commit) => {
            let commit = commit.get(..12).unwrap_or(commit);
            report.note(OutputNote::warning(format!(
                "commit {commit} stays in the history, because other commits follow it: your files are undone and not committed; commit them, or run `git revert {commit}` after `git restore .`"
            )))
        }
    })
}
