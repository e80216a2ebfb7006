//! `agents context index`: the index of a project itself.

use engine::context::{ContextProject, Contexts, IndexState, IndexVerification};
use serde_json::{Value, json};

use super::ask::ProjectsArgs;
use super::blocking;
use super::table::missing;
use crate::cli::Invocation;
use crate::errors::{CommandError, codes, hints};
use crate::output::{CommandReport, OutputNote, escape_control_chars};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct IndexArgs {
    #[command(flatten)]
    projects: ProjectsArgs,
    /// Remove the index; the next question builds it again
    #[arg(long, conflicts_with = "verify")]
    clear: bool,
    /// Build a second index from the files, and compare the two
    #[arg(long)]
    verify: bool,
}

pub(super) async fn run(args: IndexArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let ground = args.projects.open(invocation).await?;
    let (mut data, mut text, mut notes) = (Vec::new(), String::new(), Vec::new());
    let mut failure = None;
    let is_one = ground.projects.len() == 1;
    for project in &ground.projects {
        let head = if is_one { String::new() } else { format!("{}: ", escape_control_chars(&project.alias)) };
        if args.clear {
            if !ground.contexts.clear_index(project) {
                let message =
                    "the index cannot be removed: another process uses it, or the file cannot be deleted";
                return Err(CommandError::new(&codes::IO_FAILED, message).hint(hints::NO_OTHER_AGENTS));
            }
            text.push_str(&format!("{head}the index is removed\n"));
            data.push(json!({ "cleared": true }));
            continue;
        }
        let (contexts, own) = (ground.contexts.clone(), project.clone());
        let state = match blocking(move |stop| contexts.index(&own, stop)).await {
            Ok(state) => state,
            Err(error) => return Err(ground.explain_error(error).await),
        };
        text.push_str(&format!("{head}{}", to_text(&state)));
        notes.extend(state.notes.iter().map(|note| OutputNote::info(format!("{head}{note}"))));
        let mut value = to_json(&state);
        if args.verify {
            let found = verify(&ground.contexts, project).await;
            let found = match found {
                Ok(found) => found,
                Err(error) => return Err(ground.explain_error(error).await),
            };
            let (words, same, wrong) = judge(&found);
            text.push_str(&format!("{head}{words}\n"));
            value["verified"] = json!(same);
            failure = failure.or(wrong);
        }
        data.push(value);
    }
    // One project is the usual case, and has its facts at the top.
    let data = if is_one { data.pop().unwrap_or(Value::Null) } else { json!({ "projects": data }) };
    let report = notes.into_iter().fold(CommandReport::new(data, text), CommandReport::note);
    Ok(match failure {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

async fn verify(
    contexts: &Contexts,
    project: &ContextProject,
) -> Result<IndexVerification, engine::context::ContextError> {
    let (contexts, own) = (contexts.clone(), project.clone());
    blocking(move |stop| contexts.verify_index(&own, stop)).await
}

/// Returns the verdict in words, whether the index is the same, and the failure if it is not.
fn judge(found: &IndexVerification) -> (&'static str, Option<bool>, Option<CommandError>) {
    match found {
        IndexVerification::Same => ("verified: an index built again is the same", Some(true), None),
        IndexVerification::Moving => ("not verified: the files change while they are read", None, None),
        IndexVerification::Different(paths) => {
            let failure =
                CommandError::new(&codes::INDEX_DIFFERS, "an index built again differs from the stored one");
            let failure = paths.iter().fold(failure, |failure, path| failure.line(path.to_string()));
            ("verified: an index built again is different", Some(false), Some(failure))
        }
    }
}

fn to_json(state: &IndexState) -> Value {
    json!({
        "files": state.files, "facts": state.facts, "bytes": state.bytes, "commits": state.commits,
        "languages": state.languages, "changed": state.changed, "partial": state.partial,
        "unfinished": state.unfinished, "ms": state.ms,
    })
}

fn to_text(state: &IndexState) -> String {
    let partial = missing(state.partial, state.unfinished);
    let mut languages: Vec<(&str, u64)> =
        state.languages.iter().map(|(name, count)| (*name, *count)).collect();
    languages.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    let languages: Vec<String> = languages.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let mut text = format!(
        "files    {}, {} changed, {} ms{partial}\nkept     {} contents, {:.1} MB\nhistory  {} commits\n",
        state.files,
        state.changed,
        state.ms,
        state.facts,
        megabytes(state.bytes),
        state.commits
    );
    if !languages.is_empty() {
        text.push_str(&format!("written  {}\n", languages.join(", ")));
    }
    text
}

pub(super) fn megabytes(bytes: u64) -> f64 {
    // The rest is invisible at one place after the point.
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}
