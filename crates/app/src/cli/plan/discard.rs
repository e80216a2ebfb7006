//! `agents plan discard`: throws plans away, with the changes that they left.
//!
//! # Invariants
//! 1. Nothing is thrown away without the user's yes, given at a terminal or by `--yes`.
//! 2. A plan that is applied is refused: undo it first. `--all` and `--batch` leave such plans alone.
//! 3. `--all` takes plans that rest. A plan that runs is discarded only if it is named.

use std::os::unix::ffi::OsStrExt;

use domain::Plan;
use engine::Engine;
use serde_json::json;
use store::PlanFilter;

use super::selection::PlanSelection;
use super::{agreed, selection};
use crate::cli::Invocation;
use crate::cli::follow::CANCEL_WAIT;
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, escape_control_chars, one_line};
use crate::render;
use crate::render::diff::counted;
use crate::setup::project;

/// Of more plans than this only the number is shown in the question.
const QUESTION_LINES_MAX: usize = 20;
/// The states of a plan that `--all` discards.
const AT_REST: [&str; 4] = ["complete", "errored", "constrained", "cancelled"];

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DiscardArgs {
    #[command(flatten)]
    which: PlanSelection,
    /// All plans of this project that are not applied and do not run
    #[arg(long, conflicts_with_all = ["plans", "batch"])]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// A plan that is about to be discarded.
struct DoomedPlan {
    named: NamedPlan,
    plan: Plan,
    files: usize,
}

pub(super) async fn run(args: DiscardArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plans = args.find(&engine, invocation).await?;
    let is_one = matches!(plans.as_slice(), [_]) && !args.all && args.which.batch.is_none();
    let mut doomed = Vec::new();
    for named in plans {
        let details = super::details(&engine, &named).await?;
        // One that was named is tried, so that the answer says why it stays.
        let is_taken = !details.plan.is_applied() || !(args.all || args.which.batch.is_some());
        let files = details.net.len();
        doomed.extend(is_taken.then_some(DoomedPlan { named, plan: details.plan, files }));
    }
    if let Some(applied) = doomed.iter().find(|one| is_one && one.plan.is_applied()) {
        return Err(from_engine::discarded_applied(&applied.named.short));
    }
    if doomed.is_empty() {
        return Ok(nothing_discarded());
    }
    let what = match doomed.as_slice() {
        [one] => {
            let words = render::plan::named_words(&one.named.short, &one.plan);
            format!("plan {words} and {}", changes_words(one.files))
        }
        several => format!("{} with all their changes", counted(several.len(), "plan")),
    };
    if !is_agreed(&question(&doomed, &what), &what, &args, invocation)? {
        return Ok(nothing_discarded());
    }
    let (mut text, mut rows, mut failures) = (String::new(), Vec::new(), Vec::new());
    for DoomedPlan { named, plan, files } in &doomed {
        match engine.discard(named.id, CANCEL_WAIT).await {
            Ok(()) => {
                let projects = render::plan::projects_words(plan);
                text.push_str(&format!(
                    "discarded {} of {projects}: {}\n",
                    named.short,
                    changes_words(*files)
                ));
                rows.push(json!({ "plan_id": named.id, "discarded": true, "files": files }));
            }
            Err(error) => {
                let failure = from_engine::discard(&error, &named.short);
                text.push_str(&format!("not discarded: {}\n", failure.message));
                rows.push(json!({ "plan_id": named.id, "discarded": false, "code": failure.code.name }));
                failures.push(failure);
            }
        }
    }
    let done = doomed.len() - failures.len();
    if doomed.len() > 1 {
        text.push_str(&format!("{done} of {} discarded\n", counted(doomed.len(), "plan")));
    }
    let report = CommandReport::new(json!({ "plans": rows, "discarded": done }), text);
    Ok(match failures.into_iter().next() {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

impl DiscardArgs {
    async fn find(&self, engine: &Engine, invocation: &Invocation) -> Result<Vec<NamedPlan>, CommandError> {
        if !self.all {
            return self.which.find(engine, invocation).await;
        }
        let root = project::root_of(&invocation.here)?.as_os_str().as_bytes().to_vec();
        let mut plans = Vec::new();
        for state in AT_REST {
            let (state, root) = (Some(state.to_owned()), Some(root.clone()));
            let filter = PlanFilter { state, root, limit: usize::MAX, ..PlanFilter::default() };
            plans.extend(selection::found(engine, invocation, &filter).await?);
        }
        Ok(plans)
    }
}

fn nothing_discarded() -> CommandReport {
    CommandReport::new(json!({ "plans": [], "discarded": 0 }), "nothing was discarded\n")
}

fn changes_words(files: usize) -> String {
    match files {
        0 => "it had changed nothing".to_owned(),
        files => format!("its changes of {}", counted(files, "file")),
    }
}

fn question(doomed: &[DoomedPlan], what: &str) -> String {
    let mut lines = String::new();
    if doomed.len() > 1 {
        let line = |one: &DoomedPlan| {
            let title = escape_control_chars(&one_line(&one.plan.title));
            format!("  {}  {title} ({})\n", one.named.short, counted(one.files, "file"))
        };
        lines.extend(doomed.iter().take(QUESTION_LINES_MAX).map(line));
        if let Some(more @ 1..) = doomed.len().checked_sub(QUESTION_LINES_MAX) {
            lines.push_str(&format!("  … and {more} more\n"));
        }
    }
    format!("{lines}throw away {what}? This cannot be undone.")
}

/// Returns the user's answer to the question. `what` is thrown away.
fn is_agreed(
    question: &str,
    what: &str,
    args: &DiscardArgs,
    invocation: &Invocation,
) -> Result<bool, CommandError> {
    agreed(question, args.yes, invocation).map_err(|mut failure| {
        if failure.code == &codes::CONFIRMATION_NEEDED {
            failure.message =
                format!("this throws away {what} and needs confirmation, which cannot be asked for here");
        }
        failure
    })
}
