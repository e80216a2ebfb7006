//! `agents trust`: the user's yes to what a project runs and asks for, given, listed and revoked.
//!
//! # Invariants
//! 1. A yes is to what the files say now; it is stored with the user's data and never in the project.
//! 2. What is trusted is shown with it.
//!
//! # Not here
//! What needs a yes, and how it is asked for when a plan is made: `super::consent`.

use std::path::PathBuf;

use ::definitions::{
    ChosenActor, DefinitionError, DefinitionOrigin, FreezeOptions, FrozenDefinition, Kind, Library,
    preview_action, preview_actor,
};
use domain::ProjectLink;
use engine::Engine;
use serde_json::{Value, json};

use super::Invocation;
use super::consent::Consent;
use super::invocation::path_of;
use crate::config::Settings;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, one_line_of};
use crate::render::diff::counted;
use crate::setup::definitions;
use crate::setup::definitions::WithProviders;
use crate::setup::project;
use crate::setup::project::ProjectArg;

/// The number of characters of a command that are shown.
const COMMAND_CHARS_MAX: usize = 1_000;

/// The actor of an action if neither it nor the settings name one.
const MODEL_ACTOR: &str = "coder";

#[derive(Debug, clap::Args)]
pub(super) struct TrustArgs {
    /// The project [default: the project of the current directory]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// List what the project runs and asks for, and what you trust; change nothing
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Withdraw all trust in the project
    #[arg(long)]
    revoke: bool,
}

/// Something of a project that needs a yes.
struct TrustItem {
    kind: &'static str,
    name: String,
    lines: Vec<String>,
    consent: Consent,
}

pub(super) async fn run(args: TrustArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let dir = args.dir.unwrap_or_else(|| PathBuf::from("."));
    let projects = project::find_all(&[ProjectArg { alias: None, dir, read_only: false }], &invocation.here)?;
    let settings = invocation.settings(Vec::new(), &projects)?;
    let engine = invocation.engine_with(&settings).await?;
    let failed = |error| from_engine::store(&error);
    let Some(project) = projects.first() else { return Ok(CommandReport::new(Value::Null, Vec::new())) };
    let root = path_of(project.root.as_bytes()).display().to_string();
    if args.revoke {
        let revoked = engine.store().revoke_consents(project.root.as_bytes()).await.map_err(failed)?;
        let text = match revoked {
            0 => format!("nothing of {root} was trusted\n"),
            _ => format!("{root} is no longer trusted\n"),
        };
        return Ok(CommandReport::new(json!({ "project": root, "revoked": revoked }), text));
    }
    let items = find_items(project, &projects, &settings, invocation)?;
    if args.list {
        return list(&engine, &root, &items).await;
    }
    let mut granted = 0;
    for item in &items {
        granted += item.consent.grant_all(&engine).await?;
    }
    let mut text = match (items.is_empty(), granted) {
        (true, _) => {
            format!("{root} has no checks, actions or actors of its own: there is nothing to trust\n")
        }
        (false, 0) => format!("{root} was trusted already, in its present form:\n"),
        (false, _) => format!("{root} is trusted, until one of these changes:\n"),
    };
    items.iter().for_each(|item| text.push_str(&item.shown()));
    let all: Vec<Value> = items.iter().map(|item| item.to_json(true)).collect();
    Ok(CommandReport::new(json!({ "project": root, "trusted": granted, "items": all }), text))
}

async fn list(engine: &Engine, root: &str, items: &[TrustItem]) -> Result<CommandReport, CommandError> {
    let (mut text, mut all) = (String::new(), Vec::new());
    for item in items {
        let is_trusted = item.consent.is_settled(engine).await?;
        text.push_str(if is_trusted { "trusted      " } else { "not trusted  " });
        text.push_str(&item.shown());
        all.push(item.to_json(is_trusted));
    }
    if items.is_empty() {
        text = format!("{root} has no checks, actions or actors of its own\n");
    }
    let roots = engine.store().consented_roots().await.map_err(|error| from_engine::store(&error))?;
    let mut projects = Vec::new();
    text.push_str(if roots.is_empty() { "" } else { "\nprojects of which something is trusted:\n" });
    for (known, contents) in roots {
        let known = path_of(&known).display().to_string();
        text.push_str(&format!("  {known}  ({})\n", counted(contents, "content")));
        projects.push(json!({ "project": known, "contents": contents }));
    }
    Ok(CommandReport::new(json!({ "project": root, "items": all, "projects": projects }), text))
}

impl TrustItem {
    fn shown(&self) -> String {
        let lines: String = self.lines.iter().map(|line| format!("      {line}\n")).collect();
        format!("{} {}\n{lines}", self.kind, self.name)
    }

    fn to_json(&self, is_trusted: bool) -> Value {
        json!({ "kind": self.kind, "name": self.name, "says": self.lines, "trusted": is_trusted })
    }
}

/// Returns everything of a project that can make us run a command. Definitions that are not sound cannot.
fn find_items(
    project: &ProjectLink,
    projects: &[ProjectLink],
    settings: &Settings,
    invocation: &Invocation,
) -> Result<Vec<TrustItem>, CommandError> {
    let mut items = Vec::new();
    for check in settings.validations.iter().filter(|check| check.needs_trust) {
        let mut consent = Consent::default();
        consent.add_check(check, projects);
        let lines = vec![format!("runs {}", one_line_of(&check.run.render(), COMMAND_CHARS_MAX))];
        items.push(TrustItem {
            kind: "check",
            name: one_line_of(&check.name, COMMAND_CHARS_MAX),
            lines,
            consent,
        });
    }
    let configured = definitions::configured(settings, WithProviders::No);
    let library = definitions::library(projects, &invocation.env).knowing(configured);
    let surroundings = definitions::surroundings(settings, None);
    let root = path_of(project.root.as_bytes());
    for kind in [Kind::Action, Kind::Actor] {
        let listed = library.list(kind).map_err(|error| definitions::failure(&error))?;
        for line in listed.into_iter().filter(|line| line.origin == DefinitionOrigin::Project) {
            let place = PathBuf::from(&line.place);
            let Ok(frozen) = preview(&library, kind, &place, &surroundings) else { continue };
            let consent = Consent::to(Some(&frozen), projects, false, true);
            let lines = consent.lines();
            let name = place.strip_prefix(&root).unwrap_or(&place).display().to_string();
            items.push(TrustItem { kind: kind.as_str(), name, lines, consent });
        }
    }
    Ok(items)
}

/// A definition of a project as it would be run with the settings of now.
fn preview(
    library: &Library,
    kind: Kind,
    place: &std::path::Path,
    surroundings: &FreezeOptions,
) -> Result<FrozenDefinition, DefinitionError> {
    match kind {
        Kind::Action => {
            let action = library.action_file(place)?;
            match preview_action(library, &action, surroundings) {
                Err(DefinitionError::NoActor) => {
                    let actor_default = Some(ChosenActor::by_user(MODEL_ACTOR));
                    preview_action(library, &action, &FreezeOptions { actor_default, ..surroundings.clone() })
                }
                previewed => previewed,
            }
        }
        Kind::Actor => preview_actor(library, &library.actor_file(place)?, surroundings),
    }
}
