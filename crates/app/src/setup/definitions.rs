//! Definitions as the program finds them: in the projects, in the user's folder, and in itself.
//!
//! # Invariants
//! 1. A word that names an action or an actor is a file iff it ends with `.yaml` or has a slash.
//! 2. Every finding of a definition is told, with its place.
//!
//! # Not here
//! What definitions mean (`definitions`).

use std::path::{Path, PathBuf};

use ::definitions::{
    Action, Actor, ChosenActor, Configured, DefinitionError, Finding, FindingKind, Library, Loaded,
    StrategistDefault, Surroundings, is_reference,
};
use domain::{ArgError, DefinitionSource, ProjectLink};
use engine::{Cast, builtin_providers};
use serde_json::{Value, json};

use super::paths;
use super::paths::Env;
use crate::config::{Key, Origin, Settings};
use crate::errors::{Code, Failure, codes};

/// The word for nobody, where an actor is named.
pub const NOBODY: &str = "none";
/// Who thinks before a model works, unless somebody says otherwise.
pub const STRATEGIST: &str = "strategist";

/// The definitions that hold for these projects.
pub fn library(projects: &[ProjectLink], env: &Env) -> Library {
    use std::os::unix::ffi::OsStrExt;
    let root = |project: &ProjectLink| PathBuf::from(std::ffi::OsStr::from_bytes(project.root.as_bytes()));
    let roots: Vec<PathBuf> = projects.iter().map(root).collect();
    let user = paths::user_config(env).and_then(|file| Some(file.parent()?.to_owned()));
    Library::new(&roots, user)
}

/// What the settings say about actors and models; `actor` is the one that was asked for.
pub fn surroundings(settings: &Settings, actor: Option<Loaded<Actor>>) -> Surroundings {
    let named = |key| Some(settings.word(key)).filter(|word| !word.is_empty()).map(str::to_owned);
    let model_default = named(Key::ModelDefault);
    let strategist_default = match named(Key::ActorStrategist) {
        Some(name) if name == NOBODY => StrategistDefault::Nobody,
        Some(name) => StrategistDefault::Named(chosen(settings, Key::ActorStrategist, name)),
        None if model_default.is_some() => StrategistDefault::Named(ChosenActor::by_user(STRATEGIST)),
        None => StrategistDefault::Unset,
    };
    Surroundings {
        actor,
        actor_default: named(Key::ActorDefault).map(|name| chosen(settings, Key::ActorDefault, name)),
        strategist_default,
        model_default,
        item: None,
    }
}

/// An actor that a setting names: what it asks for, the project asks for whose file chose it.
fn chosen(settings: &Settings, key: Key, name: String) -> ChosenActor {
    let by = match settings.get(key).1 {
        Origin::Project(place) => Some(DefinitionSource {
            kind: "setting".to_owned(),
            name: key.entry().name.to_owned(),
            place: place.to_string(),
            digest: domain::trust_digest(&["setting", key.entry().name, &name]),
        }),
        Origin::Flag | Origin::Environment { .. } | Origin::User(_) | Origin::Default => None,
    };
    ChosenActor { name, by }
}

/// Puts who was in a recorded run in the place of whom the settings name, as far as the recording says.
pub fn cast(surroundings: &mut Surroundings, cast: &Cast) {
    let Cast { asked: _, actor, model, strategist } = cast.clone();
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

/// What the settings describe and definitions name. Providers are left out where a run may do without: one that is needed
/// is asked for when it is known whether it is.
pub fn configured(settings: &Settings, with_providers: WithProviders) -> Configured {
    let providers =
        || builtin_providers().map(str::to_owned).chain(settings.providers.keys().cloned()).collect();
    Configured {
        servers: Some(settings.servers.keys().cloned().collect()),
        providers: matches!(with_providers, WithProviders::Yes).then(providers),
    }
}

/// Whether definitions are held against the providers of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithProviders {
    /// They are.
    Yes,
    /// They are not.
    No,
}

/// Whether a word means a file.
pub fn is_file(word: &str) -> bool {
    word.ends_with(".yaml") || word.contains('/')
}

/// The action that a word names.
///
/// # Errors
/// There is none, or it is not sound.
pub fn action(library: &Library, word: &str, here: &Path) -> Result<Loaded<Action>, DefinitionError> {
    if is_file(word) { library.action_file(&here.join(word)) } else { library.action(word) }
}

/// The actor that a word names. A file without the usual ending is found too, if nothing has its name.
///
/// # Errors
/// There is none, or it is not sound.
pub fn actor(library: &Library, word: &str, here: &Path) -> Result<Loaded<Actor>, DefinitionError> {
    let file = here.join(word);
    if is_file(word) || !is_reference(word) {
        return library.actor_file(&file);
    }
    match library.actor(word) {
        Err(DefinitionError::NotFound { .. }) if file.is_file() => library.actor_file(&file),
        found => found,
    }
}

/// Why there is no definition, as people and programs are told.
pub fn failure(error: &DefinitionError) -> Failure {
    match error {
        DefinitionError::NotFound { kind, places, .. } => {
            let code = if *kind == "action" { &codes::ACTION_NOT_FOUND } else { &codes::ACTOR_NOT_FOUND };
            let failure = Failure::new(code, error.to_string()).detail(json!({ "looked_at": places }));
            failure.hint(format!("see what there is with `agents {kind} list`"))
        }
        DefinitionError::Unreadable { .. } => {
            Failure::new(&codes::ACTION_NOT_FOUND, error.to_string()).hint("check the path of the file")
        }
        DefinitionError::Invalid(findings) => invalid(findings, error.to_string()),
        DefinitionError::Args(errors) => wrong_args(errors, error.to_string()),
        DefinitionError::NoActor => Failure::new(&codes::NO_ACTOR, error.to_string())
            .hint("name one with `--actor NAME`; see them with `agents actor list`")
            .hint("or name one for all tasks: `agents config set actor.default=NAME`"),
    }
}

fn invalid(findings: &[Finding], message: String) -> Failure {
    let code = findings.first().map_or(&codes::DEFINITION_INVALID, |first| code_of(first.kind));
    let is_one_kind = findings.iter().all(|finding| code_of(finding.kind) == code);
    let code = if is_one_kind { code } else { &codes::DEFINITION_INVALID };
    let failure = Failure::new(code, message).detail(json!({ "findings": findings_json(findings) }));
    let failure = match findings {
        [_] => failure,
        _ => findings.iter().fold(failure, |failure, finding| failure.line(finding.to_string())),
    };
    failure.hint("docs/actors.md has all keys; `schema/` tells them to your editor")
}

fn code_of(kind: FindingKind) -> &'static Code {
    match kind {
        FindingKind::Invalid => &codes::DEFINITION_INVALID,
        FindingKind::TemplateUnknown => &codes::TEMPLATE_UNKNOWN,
        FindingKind::TemplateInShell => &codes::TEMPLATE_IN_SHELL,
        FindingKind::ActorCycle => &codes::ACTOR_CYCLE,
        FindingKind::ActorTooLarge => &codes::ACTOR_TOO_LARGE,
        FindingKind::ActorNotFound => &codes::ACTOR_NOT_FOUND,
    }
}

/// The findings for programs.
pub fn findings_json(findings: &[Finding]) -> Vec<Value> {
    let one = |finding: &Finding| {
        json!({
            "file": finding.file, "line": finding.at.line, "column": finding.at.column,
            "code": code_of(finding.kind).name, "message": finding.message,
        })
    };
    findings.iter().map(one).collect()
}

fn wrong_args(errors: &[ArgError], message: String) -> Failure {
    let code = match errors.first() {
        Some(ArgError::Missing { .. }) => &codes::ARG_MISSING,
        Some(ArgError::Unknown { .. }) => &codes::ARG_UNKNOWN,
        Some(ArgError::Invalid { .. }) | None => &codes::ARG_INVALID,
    };
    let failure = Failure::new(code, message);
    let failure = match errors {
        [_] => failure,
        _ => errors.iter().fold(failure, |failure, error| failure.line(error.to_string())),
    };
    failure.hint("arguments are given as `--arg NAME=VALUE`; see them with `agents action show NAME`")
}
