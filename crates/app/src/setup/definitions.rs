//! Definitions as the program finds them: in the projects, in the user's folder, and in itself.
//!
//! # Invariants
//! 1. A word that names an action or an actor is a file iff it ends with `.yaml` or has a slash.
//! 2. Every finding of a definition is reported, with its place.
//!
//! # Not here
//! What definitions mean (`definitions`).

use std::path::{Path, PathBuf};

use ::definitions::{
    Action, Actor, ChosenActor, ConfiguredNames, DefinitionError, Diagnostic, DiagnosticKind, FreezeOptions,
    Library, LoadedDefinition, StrategistDefault, is_reference,
};
use domain::{ArgError, DefinitionSource, ProjectLink};
use engine::{Participants, builtin_providers};
use serde_json::{Value, json};

use super::paths;
use super::paths::Env;
use crate::config::{SettingKey, SettingOrigin, Settings};
use crate::errors::{Code, CommandError, codes, hints};

/// The word for no actor.
pub const NOBODY: &str = "none";
/// The default strategist of a model's work.
pub const STRATEGIST: &str = "strategist";

/// The definitions that hold for these projects.
pub fn library(projects: &[ProjectLink], env: &Env) -> Library {
    use std::os::unix::ffi::OsStrExt;
    let root = |project: &ProjectLink| PathBuf::from(std::ffi::OsStr::from_bytes(project.root.as_bytes()));
    let roots: Vec<PathBuf> = projects.iter().map(root).collect();
    let user = paths::user_config(env).and_then(|file| Some(file.parent()?.to_owned()));
    Library::new(&roots, user)
}

/// Returns the settings of actors and models; `actor` is the one that was asked for.
pub fn surroundings(settings: &Settings, actor: Option<LoadedDefinition<Actor>>) -> FreezeOptions {
    let named = |key| Some(settings.word(key)).filter(|word| !word.is_empty()).map(str::to_owned);
    let model_default = named(SettingKey::ModelDefault);
    let strategist_default = match named(SettingKey::ActorStrategist) {
        Some(name) if name == NOBODY => StrategistDefault::Nobody,
        Some(name) => StrategistDefault::Named(chosen(settings, SettingKey::ActorStrategist, name)),
        None if model_default.is_some() => StrategistDefault::Named(ChosenActor::by_user(STRATEGIST)),
        None => StrategistDefault::Unset,
    };
    FreezeOptions {
        actor,
        actor_default: named(SettingKey::ActorDefault)
            .map(|name| chosen(settings, SettingKey::ActorDefault, name)),
        strategist_default,
        model_default,
        item: None,
    }
}

/// An actor that a setting names: what it asks for, the project asks for whose file chose it.
fn chosen(settings: &Settings, key: SettingKey, name: String) -> ChosenActor {
    let by = match settings.get(key).1 {
        SettingOrigin::Project(place) => Some(DefinitionSource {
            kind: "setting".to_owned(),
            name: key.entry().name.to_owned(),
            place: place.to_string(),
            digest: domain::trust_digest(&["setting", key.entry().name, &name]),
        }),
        SettingOrigin::Flag
        | SettingOrigin::Environment { .. }
        | SettingOrigin::User(_)
        | SettingOrigin::Default => None,
    };
    ChosenActor { name, by }
}

/// Puts who was in a recorded run in the place of whom the settings name, as far as the recording says.
pub fn set_participants(surroundings: &mut FreezeOptions, cast: &Participants) {
    let Participants { asked: _, actor, model, strategist } = cast.clone();
    let actor = actor.map(|name| ChosenActor::by_user(&name));
    surroundings.actor_default = actor.or(surroundings.actor_default.take());
    surroundings.model_default = model.or(surroundings.model_default.take());
    match strategist {
        Some(name) if name == NOBODY => surroundings.strategist_default = StrategistDefault::Nobody,
        Some(name) => {
            surroundings.strategist_default = StrategistDefault::Named(ChosenActor::by_user(&name));
        }
        None => {}
    }
}

/// Returns the names that the settings describe and definitions use. Providers are left out if a run may do
/// without: a provider that is needed is asked for once the need is known.
pub fn configured(settings: &Settings, with_providers: WithProviders) -> ConfiguredNames {
    let providers =
        || builtin_providers().map(str::to_owned).chain(settings.providers.keys().cloned()).collect();
    ConfiguredNames {
        servers: Some(settings.servers.keys().cloned().collect()),
        providers: matches!(with_providers, WithProviders::Yes).then(providers),
    }
}

/// Selects whether definitions are checked against the providers of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithProviders {
    /// They are.
    Yes,
    /// They are not.
    No,
}

/// Returns true if a word means a file.
pub fn is_file(word: &str) -> bool {
    word.ends_with(".yaml") || word.contains('/')
}

/// The action that a word names.
///
/// # Errors
/// There is none, or it is not sound.
pub fn action(
    library: &Library,
    word: &str,
    here: &Path,
) -> Result<LoadedDefinition<Action>, DefinitionError> {
    if is_file(word) { library.action_file(&here.join(word)) } else { library.action(word) }
}

/// The actor that a word names. A file without the usual ending is found too, if nothing has its name.
///
/// # Errors
/// There is none, or it is not sound.
pub fn actor(library: &Library, word: &str, here: &Path) -> Result<LoadedDefinition<Actor>, DefinitionError> {
    let file = here.join(word);
    if is_file(word) || !is_reference(word) {
        return library.actor_file(&file);
    }
    match library.actor(word) {
        Err(DefinitionError::NotFound { .. }) if file.is_file() => library.actor_file(&file),
        found => found,
    }
}

/// Returns the reason why there is no definition, for people and programs.
pub fn failure(error: &DefinitionError) -> CommandError {
    match error {
        DefinitionError::NotFound { kind, places, .. } => {
            let code = if *kind == "action" { &codes::ACTION_NOT_FOUND } else { &codes::ACTOR_NOT_FOUND };
            CommandError::new(code, error.to_string()).detail(json!({ "looked_at": places }))
        }
        DefinitionError::Unreadable { .. } => {
            CommandError::new(&codes::ACTION_NOT_FOUND, error.to_string()).hint(hints::FILE_PATH)
        }
        DefinitionError::Invalid(findings) => invalid(findings, error.to_string()),
        DefinitionError::Args(errors) => wrong_args(errors, error.to_string()),
        DefinitionError::NoActor => CommandError::new(&codes::NO_ACTOR, error.to_string()),
    }
}

fn invalid(findings: &[Diagnostic], message: String) -> CommandError {
    let code = findings.first().map_or(&codes::DEFINITION_INVALID, |first| code_of(first.kind));
    let is_one_kind = findings.iter().all(|finding| code_of(finding.kind) == code);
    let code = if is_one_kind { code } else { &codes::DEFINITION_INVALID };
    let failure = CommandError::new(code, message).detail(json!({ "findings": findings_json(findings) }));
    match findings {
        [_] => failure,
        _ => findings.iter().fold(failure, |failure, finding| failure.line(finding.to_string())),
    }
}

fn code_of(kind: DiagnosticKind) -> &'static Code {
    match kind {
        DiagnosticKind::Invalid => &codes::DEFINITION_INVALID,
        DiagnosticKind::TemplateUnknown => &codes::TEMPLATE_UNKNOWN,
        DiagnosticKind::TemplateInShell => &codes::TEMPLATE_IN_SHELL,
        DiagnosticKind::ActorCycle => &codes::ACTOR_CYCLE,
        DiagnosticKind::ActorTooLarge => &codes::ACTOR_TOO_LARGE,
        DiagnosticKind::ActorNotFound => &codes::ACTOR_NOT_FOUND,
    }
}

/// The findings for programs.
pub fn findings_json(findings: &[Diagnostic]) -> Vec<Value> {
    let one = |finding: &Diagnostic| {
        json!({
            "file": finding.file, "line": finding.at.line, "column": finding.at.column,
            "code": code_of(finding.kind).name, "message": finding.message,
        })
    };
    findings.iter().map(one).collect()
}

fn wrong_args(errors: &[ArgError], message: String) -> CommandError {
    let code = match errors.first() {
        Some(ArgError::Missing { .. }) => &codes::ARG_MISSING,
        Some(ArgError::Unknown { .. }) => &codes::ARG_UNKNOWN,
        Some(ArgError::Invalid { .. }) | None => &codes::ARG_INVALID,
    };
    let failure = CommandError::new(code, message);
    match errors {
        [_] => failure,
        _ => errors.iter().fold(failure, |failure, error| failure.line(error.to_string())),
    }
}
