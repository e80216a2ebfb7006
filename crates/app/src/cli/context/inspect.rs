//! `agents context inspect`: what the index knows of a file.

use std::path::PathBuf;

use domain::RelPath;
use engine::context::{FileInspection, Neighbour};
use serde_json::{Value, json};

use super::ask::ProjectsArgs;
use super::blocking;
use super::focus::FocusPaths;
use super::index::megabytes;
use crate::cli::Invocation;
use crate::errors::CommandError;
use crate::output::{CommandReport, OutputNote, escape_control_chars};

/// The number of definitions that the text output shows.
const DEFINITIONS_MAX: usize = 200;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InspectArgs {
    /// A file, or a symbol whose file is printed
    #[arg(value_name = "PATH|SYMBOL")]
    what: String,
    #[command(flatten)]
    projects: ProjectsArgs,
}

pub(super) async fn run(args: InspectArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let ground = args.projects.open(invocation).await?;
    let roots: Vec<(String, PathBuf)> =
        ground.projects.iter().map(|project| (project.alias.clone(), project.root.clone())).collect();
    let changed = ground.changed();
    let places = FocusPaths { here: &invocation.here, roots: &roots, seen: ground.seen(), changed: &changed };
    let sought = places.sought(&args.what)?;
    let (contexts, projects) = (ground.contexts.clone(), ground.projects.clone());
    let found = match blocking(move |stop| contexts.inspect(&projects, &sought, stop)).await {
        Ok(found) => found,
        Err(error) => return Err(ground.explain_error(error).await),
    };
    let report = CommandReport::new(to_json(&found), to_text(&found));
    Ok(found.notes.iter().fold(report, |report, note| report.note(OutputNote::info(note))))
}

fn to_json(found: &FileInspection) -> Value {
    let tokens: serde_json::Map<String, Value> =
        found.tokens.iter().map(|(depth, tokens)| (depth.to_string(), json!(tokens))).collect();
    let definitions: Vec<Value> = found
        .definitions
        .iter()
        .map(|def| json!({ "name": def.name, "kind": def.kind, "line": def.line, "from": def.from, "to": def.to }))
        .collect();
    let neighbours = |all: &[Neighbour]| -> Vec<Value> {
        all.iter()
            .map(|one| json!({ "path": one.path.to_string(), "weight": one.weight, "names": one.names }))
            .collect()
    };
    let changes: Vec<Value> = found
        .changes_with
        .iter()
        .map(|(path, commits)| json!({ "path": path.to_string(), "commits": commits }))
        .collect();
    let mut data = json!({
        "path": found.path.to_string(), "language": found.language, "lines": found.lines,
        "bytes": found.bytes, "path_only": found.path_only.as_ref().map(ToString::to_string), "tokens": tokens,
        "definitions": definitions, "referred_by": neighbours(&found.referred_by),
        "refers_to": neighbours(&found.refers_to), "changes_with": changes,
    });
    if !found.defined_at.is_empty() {
        let places = found.defined_at.iter();
        data["defined_at"] =
            places.map(|(_, path, line)| json!({ "path": path.to_string(), "line": line })).collect();
    }
    data
}

fn to_text(found: &FileInspection) -> String {
    let tokens: Vec<String> =
        found.tokens.iter().map(|(depth, tokens)| format!("{depth} {tokens}")).collect();
    let about = about(found);
    let mut text = format!(
        "{}  ({}, {about})\ntokens  {}\n",
        display_path(&found.path),
        found.language,
        tokens.join(", ")
    );
    if found.defined_at.len() > 1 {
        text.push_str(&format!("it is defined in {} places\n", found.defined_at.len()));
        for (_, path, line) in &found.defined_at {
            text.push_str(&format!("  {}:{line}\n", display_path(path)));
        }
    }
    if !found.definitions.is_empty() {
        text.push_str("defines\n");
        for def in found.definitions.iter().take(DEFINITIONS_MAX) {
            text.push_str(&format!(
                "  {:>5}  {:<9}  {}\n",
                def.line,
                def.kind,
                escape_control_chars(&def.name)
            ));
        }
        let more = found.definitions.len().saturating_sub(DEFINITIONS_MAX);
        if more > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    for (head, all) in [("referred to by", &found.referred_by), ("refers to", &found.refers_to)] {
        if !all.is_empty() {
            text.push_str(&format!("{head}\n"));
        }
        for one in all {
            text.push_str(&format!(
                "  {:>5.1}  {}  ({})\n",
                one.weight,
                display_path(&one.path),
                escape_control_chars(&one.names.join(", "))
            ));
        }
    }
    if !found.changes_with.is_empty() {
        text.push_str("changes with\n");
        for (path, commits) in &found.changes_with {
            let times = if *commits == 1 { "commit" } else { "commits" };
            text.push_str(&format!("  {commits:>5} {times:<7}  {}\n", display_path(path)));
        }
    }
    text
}

/// Describes the length of the file, or the reason why only its length is known.
fn about(found: &FileInspection) -> String {
    let lines = match found.lines {
        Some(1) => "1 line".to_owned(),
        Some(lines) => format!("{lines} lines"),
        None => format!("{}, not read", size(found.bytes)),
    };
    match &found.path_only {
        Some(reason) => format!("{reason}, {lines}"),
        None => lines,
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KB", bytes / 1024),
        1_048_576.. => format!("{:.1} MB", megabytes(bytes)),
    }
}

fn display_path(path: &RelPath) -> String {
    escape_control_chars(&path.to_string())
}
