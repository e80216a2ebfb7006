//! `agents plan apply --dry-run`: what an apply would write, merge and refuse, without writing anything.
//!
//! # Invariants
//! 1. It says what `plan apply` with the same options would do now, and exits as it would.
//! 2. Nothing is written and no check is run again.

use std::collections::BTreeSet;

use engine::{ApplyError, ApplyPreview, ApplyRequest};
use serde_json::json;

use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, escape_control_chars};
use crate::render::diff::counted;

/// The answer: a line for each file, and the obstacles.
pub(super) fn report(
    preview: &ApplyPreview,
    request: &ApplyRequest,
    plan: &NamedPlan,
    typed: &str,
) -> CommandReport {
    let obstacle = obstacle(preview, request, plan, typed);
    let conflicts: Vec<_> = preview.conflicts.iter().map(from_engine::conflict_json).collect();
    let data = json!({
        "plan": plan.id, "dry_run": true, "applied": false, "would_apply": obstacle.is_none(),
        "files": preview.files, "removed": preview.removed, "merged": preview.merged, "marked": preview.marked,
        "already": preview.already, "left_out": preview.left_out, "conflicts": conflicts,
        "linked": preview.linked, "validations": preview.validations.verdict,
        "branch": request.branch, "commits": request.commit.is_some(),
    });
    let report = CommandReport::new(data, text(preview, request, plan));
    match obstacle {
        Some(failure) => report.failed(failure),
        None => report,
    }
}

fn text(preview: &ApplyPreview, request: &ApplyRequest, plan: &NamedPlan) -> String {
    let named = |files: &[String]| -> BTreeSet<String> { files.iter().cloned().collect() };
    let (merged, marked, removed) = (named(&preview.merged), named(&preview.marked), named(&preview.removed));
    let mut rows: Vec<(&str, String)> = preview
        .files
        .iter()
        .map(|file| match file {
            file if marked.contains(file) => ("mark", file.clone()),
            file if merged.contains(file) => ("merge", file.clone()),
            file if removed.contains(file) => ("remove", file.clone()),
            file => ("write", file.clone()),
        })
        .collect();
    rows.extend(preview.already.iter().map(|file| ("there", file.clone())));
    rows.extend(preview.left_out.iter().map(|what| ("leave", what.clone())));
    rows.extend(
        preview
            .conflicts
            .iter()
            .map(|found| ("conflict", format!("{}  {}", found.address, found.kind.sentence()))),
    );
    let rows: String =
        rows.iter().map(|(word, what)| format!("{word:8}  {}\n", escape_control_chars(what))).collect();
    let place = match (&request.branch, &request.commit) {
        (Some(branch), _) => format!(" to a new branch {branch}"),
        (None, Some(_)) => " and commit them".to_owned(),
        (None, None) => String::new(),
    };
    let files = counted(preview.files.len(), "file");
    let conflicts = match preview.conflicts.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "conflict")),
    };
    format!(
        "{rows}an apply of plan {} would write {files}{place}{conflicts}; nothing was written\n",
        plan.short
    )
}

/// The reason why an apply would be refused; `None` if it would not.
fn obstacle(
    preview: &ApplyPreview,
    request: &ApplyRequest,
    plan: &NamedPlan,
    typed: &str,
) -> Option<CommandError> {
    let id = preview.plan.id;
    let checks = &preview.validations;
    let is_let_through = checks.may_be_applied() || (request.unchecked && checks.waits_for_trust());
    let error = if !preview.conflicts.is_empty() {
        let conflicts = preview.conflicts.clone();
        ApplyError::Conflicts { plan: id, conflicts, reasons: Vec::new() }
    } else if !is_let_through {
        ApplyError::Validation { plan: id, summary: checks.clone() }
    } else if preview.files.is_empty() && preview.already.is_empty() && !request.allow_empty {
        ApplyError::NothingToApply { plan: id }
    } else {
        return None;
    };
    Some(from_engine::apply(&error, &plan.short).field("apply", typed))
}
