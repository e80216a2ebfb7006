//! `agents plan diff`: what a plan changed, as a patch, a list, a page, or as what stands in the way of applying it.

use domain::CallNo;
use engine::plans::{ApplyRequest, DiffRequest, Engine, FileDiff};
use serde_json::json;

use crate::cli::invocation::Named;
use crate::cli::{Invocation, forecast};
use crate::diff_view::{self, ShownDiff};
use crate::failure::{Failure, codes, from_engine};
use crate::forecast_view;
use crate::output::{Format, Note, Report, calm_bytes};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DiffArgs {
    /// Which plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Only these files and directories
    paths: Vec<String>,
    /// A line for each file
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Only the names of the files
    #[arg(long)]
    name_only: bool,
    /// Only what this call changed
    #[arg(long, value_name = "N")]
    call: Option<u32>,
    /// What stands in the way of applying the plan now
    #[arg(long)]
    conflicts: bool,
    /// Show secrets as they are
    #[arg(long)]
    reveal: bool,
}

pub(super) async fn run(args: DiffArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    if args.conflicts {
        return conflicts(&engine, &plan).await;
    }
    let request = DiffRequest { call: args.call.map(CallNo) };
    let found =
        engine.diff(plan.id, &request).await.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let mut files: Vec<&FileDiff> = found.files.iter().collect();
    if !args.paths.is_empty() {
        files.retain(|file| args.paths.iter().any(|path| is_below(&file.address, path)));
        if files.is_empty() {
            return Err(Failure::new(
                &codes::NO_SUCH_HUNK,
                format!("nothing that plan {} changed is called `{}`", plan.short, args.paths.join("`, `")),
            )
            .hint(format!("see all names with `agents plan diff {} --name-only`", plan.short)));
        }
    }
    let files = shown_diffs(&files, args.reveal, &engine)?;
    let look = &invocation.look;
    let text = if args.name_only {
        diff_view::names(&files).into_bytes()
    } else if args.stat {
        diff_view::stat(&files, &found.not_captured, look).into_bytes()
    } else {
        match look.format {
            Format::Rich => diff_view::page(&files, &found.not_captured, look).into_bytes(),
            Format::Plain | Format::Json | Format::Yaml => diff_view::patch(&files),
        }
    };
    let mets = forecast::of(&engine, &plan).await?;
    let mut data = diff_view::to_json(&plan.id.to_string(), &files, &found.not_captured);
    data["forecast"] = forecast_view::to_json(&mets);
    let report = Report::new(data, text);
    // Beside the answer: a patch is read by programs too.
    let report = match forecast_view::warning(&mets) {
        Some(warning) => report.note(Note::warning(warning)),
        None => report,
    };
    let hidden: Vec<&str> = files.iter().filter(|file| file.is_redacted()).map(ShownDiff::address).collect();
    Ok(if hidden.is_empty() {
        report
    } else {
        report.note(Note::warning(format!(
            "secrets are hidden in {}: this is no patch to apply; see them with `--reveal`",
            hidden.join(", ")
        )))
    })
}

/// All that a plan changed, as a person reads it after a run.
pub(in crate::cli) async fn whole(
    engine: &Engine,
    plan: &Named,
    invocation: &Invocation,
) -> Result<Vec<u8>, Failure> {
    let found = engine.diff(plan.id, &DiffRequest::default()).await;
    let found = found.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let files: Vec<&FileDiff> = found.files.iter().collect();
    let files = shown_diffs(&files, false, engine)?;
    let look = &invocation.look;
    Ok(match look.format {
        Format::Rich => diff_view::page(&files, &found.not_captured, look).into_bytes(),
        Format::Plain | Format::Json | Format::Yaml => diff_view::patch(&files),
    })
}

/// The file itself, or a directory that it lies in.
fn is_below(address: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let path = path.strip_prefix("./").unwrap_or(path);
    address == path || address.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) || path == "."
}

/// The changes ready to be shown, without their secrets unless those are asked for.
pub(in crate::cli) fn shown_diffs<'a>(
    files: &[&'a FileDiff],
    reveal: bool,
    engine: &Engine,
) -> Result<Vec<ShownDiff<'a>>, Failure> {
    if reveal {
        return Ok(files.iter().map(|file| ShownDiff::revealed(file)).collect());
    }
    let redactor = engine.redactor().ok_or_else(|| {
        let message =
            "the key by which secrets are hidden can be neither read nor made in the data directory";
        Failure::new(&codes::IO_FAILED, message).hint("to see the changes with their secrets, add `--reveal`")
    })?;
    let redact = |path: &domain::RelPath, content: &[u8]| redactor.redact_file(path, content).into_owned();
    Ok(files.iter().map(|file| ShownDiff::redacted(file, &redact)).collect())
}

async fn conflicts(engine: &Engine, plan: &Named) -> Result<Report, Failure> {
    let preview = engine.preview(plan.id, &ApplyRequest::default()).await;
    let preview = preview.map_err(|error| from_engine::apply(&error, &plan.short))?;
    let mut text = String::new();
    for conflict in &preview.conflicts {
        text.push_str(&format!("{}  {}\n", conflict.address, conflict.kind.sentence()));
        for place in &conflict.places {
            text.push_str(&format!("  line {}\n  yours:\n{}", place.line, indented(&place.yours)));
            text.push_str(&format!("  the plan's:\n{}", indented(&place.plans)));
        }
    }
    if preview.conflicts.is_empty() {
        text.push_str(&format!("nothing stands in the way of plan {}\n", plan.short));
    }
    let conflicts: Vec<_> = preview.conflicts.iter().map(from_engine::conflict_json).collect();
    Ok(Report::new(json!({ "plan": plan.id, "conflicts": conflicts, "merged": preview.merged }), text))
}

fn indented(bytes: &[u8]) -> String {
    calm_bytes(bytes).lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_or_all_below_it() {
        for (address, path, is) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src", true),
            ("src/a.rs", "./src/", true),
            ("src/a.rs", ".", true),
            ("src2/a.rs", "src", false),
            ("src/a.rs", "a.rs", false),
        ] {
            assert_eq!(is_below(address, path), is, "{address} {path}");
        }
    }
}
