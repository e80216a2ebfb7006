//! Chooses the actor of a task that names none, from the programs and models of this machine, with the
//! reason.
//!
//! # Invariants
//! 1. An actor or a model that the user names (`--actor`, `actor.default`, `model.default`, a provider's
//!    `model`) is never overruled.
//! 2. Choosing looks at settings, variables and PATH, and asks servers on this machine which models they
//!    have, for one second at most. It starts no program and sends nothing over a network. For a replay it
//!    asks no server at all.
//! 3. A note names the chosen actor with the reason and the way to another, also when a project chose. If no
//!    actor is available, the error names the possible ones.
//!
//! # Not here
//! The actors themselves: `definitions`.

use std::path::PathBuf;

use ::definitions::{ChosenActor, FreezeOptions, StrategistDefault};
use actors::agents;
use actors::agents::{AGENTS, Agent};
use actors::model::{UsableProvider, offers};
use engine::Participants;
use futures_util::future::join_all;

use super::definitions::STRATEGIST;
use super::paths;
use super::paths::Env;
use crate::config::{SettingKey, SettingOrigin, Settings};
use crate::errors::{CommandError, codes, hints};
use crate::output::OutputNote;

/// The actor that works with a model.
const CODER: &str = "coder";
/// The variables that hold a key, and the model that is used with it.
const KEYED: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5"),
    ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-4.5"),
];

/// The chosen actor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ActorChoice {
    actor: &'static str,
    /// The model that it works with, when the settings name none.
    model: Option<String>,
    why: String,
}

impl ActorChoice {
    fn model(model: String, why: String) -> ActorChoice {
        ActorChoice { actor: CODER, model: Some(model), why }
    }
}

/// A recording that is to be repeated.
#[derive(Debug)]
pub struct ReplayedRecording {
    /// Its location.
    pub file: PathBuf,
    /// The participants of the run; `None` in older recordings that do not store them.
    pub cast: Option<Participants>,
}

impl ReplayedRecording {
    /// Returns the actor of the recording; `None` if the recording does not name it.
    fn actor(&self) -> Option<&str> {
        self.cast.as_ref().and_then(|cast| cast.asked.as_deref().or(cast.actor.as_deref()))
    }
}

/// Chooses the actor and model that the settings leave open, and notes them; does nothing if the user names
/// an actor. For a replay, `replayed` has named those that the recording knows.
///
/// # Errors
/// Returns an error if no actor is available.
pub async fn choose(
    surroundings: &mut FreezeOptions,
    settings: &Settings,
    env: &Env,
    replayed: Option<&ReplayedRecording>,
) -> Result<Option<OutputNote>, CommandError> {
    if let Some(actor) = replayed.and_then(ReplayedRecording::actor) {
        let note = format!("actor: {actor} (as recorded; choose another with `--actor`)");
        return Ok(Some(OutputNote::info(note)));
    }
    if surroundings.actor.is_some() {
        return Ok(None);
    }
    if let Some(actor) = surroundings.actor_default.as_ref().map(|chosen| &chosen.name) {
        let note = |of: String| {
            OutputNote::info(format!("actor: {actor} (`actor.default` {of}; choose another with `--actor`)"))
        };
        return Ok(of_project(settings, SettingKey::ActorDefault).map(note));
    }
    let providers = paths::providers(settings.providers.clone(), env);
    let offers = offers(&providers, &|name| env.get(name).cloned());
    let choice = match (chosen(surroundings.model_default.as_deref(), settings, &offers, env), replayed) {
        (Some(choice), _) => Some(choice),
        (None, Some(replayed)) => return Err(untold(replayed)),
        (None, None) => on_this_machine(&offers).await.or_else(|| program(env)),
    };
    let Some(ActorChoice { actor, model, why }) = choice else { return Err(nobody(&offers)) };
    surroundings.actor_default = Some(ChosenActor::by_user(actor));
    if let Some(model) = model {
        surroundings.model_default = Some(model);
        // As if it had been set.
        if surroundings.strategist_default == StrategistDefault::Unset {
            surroundings.strategist_default = StrategistDefault::Named(ChosenActor::by_user(STRATEGIST));
        }
    }
    Ok(Some(OutputNote::info(format!(
        "actor: {actor} ({why}; choose another with `--actor` or `agents config set actor.default=NAME`)"
    ))))
}

/// Returns the project's location if a project set the value: the note says that the user did not.
fn of_project(settings: &Settings, key: SettingKey) -> Option<String> {
    match settings.get(key).1 {
        SettingOrigin::Project(place) => Some(format!("of the project, {place}")),
        SettingOrigin::Flag
        | SettingOrigin::Environment { .. }
        | SettingOrigin::User(_)
        | SettingOrigin::Default => None,
    }
}

/// Returns the choice that the settings or a key make.
fn chosen(
    model_default: Option<&str>,
    settings: &Settings,
    offers: &[UsableProvider],
    env: &Env,
) -> Option<ActorChoice> {
    if let Some(model) = model_default {
        let of =
            of_project(settings, SettingKey::ModelDefault).map(|of| format!(" {of},")).unwrap_or_default();
        return Some(ActorChoice {
            actor: CODER,
            model: None,
            why: format!("`model.default`{of} is {model}"),
        });
    }
    let named = |offer: &UsableProvider| Some((offer.provider.clone(), offer.model.clone()?));
    if let Some((provider, model)) = offers.iter().find_map(named) {
        let why = format!("`providers.{provider}.model` is set, so {provider}/{model} is used");
        return Some(ActorChoice::model(format!("{provider}/{model}"), why));
    }
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.trim().is_empty());
    let (name, model) = KEYED.into_iter().find(|(name, _)| is_set(name))?;
    Some(ActorChoice::model(model.to_owned(), format!("{name} is set, so {model} is used")))
}

/// The first model of the first server on this machine that has one. All are asked at once.
async fn on_this_machine(offers: &[UsableProvider]) -> Option<ActorChoice> {
    let local: Vec<&UsableProvider> = offers.iter().filter(|offer| offer.is_local).collect();
    let models = join_all(local.iter().map(|offer| offer.first_model())).await;
    let (offer, model) = local.iter().zip(models).find_map(|(offer, model)| Some((offer, model?)))?;
    let model = format!("{}/{model}", offer.provider);
    let why = format!("{} answers at {}, so {model} is used", offer.provider, offer.shown_url());
    Some(ActorChoice::model(model, why))
}

/// The first agent program on PATH.
fn program(env: &Env) -> Option<ActorChoice> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let is_here = |agent: &&Agent| agents::find(agent, path.as_ref(), None, &|_| None).is_some();
    let agent = AGENTS.iter().find(is_here)?;
    let why = format!("found {} on PATH, {}", agent.program, agent.tried_in_words());
    Some(ActorChoice { actor: agent.name, model: None, why })
}

/// Returns what an actor that is built in lacks on this machine; `None` if it lacks nothing, and for others. A
/// server on this machine may still offer a model: it is asked when a plan starts.
pub fn missing(actor: &str, settings: &Settings, model_default: Option<&str>, env: &Env) -> Option<String> {
    if let Some(agent) = agents::named(actor) {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let is_here = agents::find(agent, path.as_ref(), None, &|_| None).is_some();
        return (!is_here).then(|| format!("{} on PATH", agent.program));
    }
    let needs_model = [CODER, STRATEGIST].contains(&actor);
    let providers = paths::providers(settings.providers.clone(), env);
    let offers = offers(&providers, &|name| env.get(name).cloned());
    (needs_model && chosen(model_default, settings, &offers, env).is_none())
        .then(|| "a model or a key".to_owned())
}

/// Returns the error for a recording without an actor, if the settings name none either.
fn untold(replayed: &ReplayedRecording) -> CommandError {
    let file = replayed.file.display();
    CommandError::new(
        &codes::NO_ACTOR,
        format!("the recording {file} does not name its actor, and the settings name none"),
    )
    .hint(hints::NAME_RECORDED_ACTOR)
    .hint(hints::RECORD_ANEW)
}

/// Returns the error that lists what to set, on one screen.
fn nobody(offers: &[UsableProvider]) -> CommandError {
    let keys: Vec<&str> = KEYED.iter().map(|(name, _)| *name).collect();
    let programs: Vec<&str> = AGENTS.iter().map(|agent| agent.program).collect();
    let local = offers.iter().filter(|offer| offer.is_local).map(|offer| offer.provider.as_str());
    let failure = CommandError::new(
        &codes::NO_ACTOR,
        "there is a task and no actor to do it: name a model, a key or an agent program",
    )
    .line("settings   actor.default and model.default are not set, and no provider names a model")
    .line(format!("keys       none of {} is in the environment", keys.join(", ")))
    .line(format!("servers    none on this machine offers a model: {}", local.collect::<Vec<_>>().join(", ")))
    .line(format!("programs   none of {} is on PATH", programs.join(", ")))
    .hint(hints::WITH_KEY)
    .hint(hints::WITH_LOCAL_MODEL)
    .hint(hints::WITH_PROGRAM);
    let unnamed = offers.iter().find(|offer| offer.is_set && !offer.is_local && offer.model.is_none());
    let failure = match unnamed {
        Some(UsableProvider { provider, .. }) => {
            failure.hint(hints::WITH_PROVIDER).field("provider", provider)
        }
        None => failure,
    };
    failure.hint(hints::SEE_ACTORS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::config;
    use crate::config::Sources;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn program_file(dir: &TempDir, name: &str, mode: u32) {
        let file = dir.path().join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Settings of a user, and the offers that they make.
    fn settings(text: &str, env: &Env) -> (Settings, Vec<UsableProvider>) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("config.toml");
        fs::write(&file, text).unwrap();
        let settings = config::load(&Sources { user_file: Some(&file), ..Sources::default() }).unwrap();
        let offers = offers(&settings.providers, &|name| env.get(name).cloned());
        (settings, offers)
    }

    #[test]
    fn a_model_that_is_named_comes_before_a_key() {
        let keyed = env(&[("OPENAI_API_KEY", "k"), ("BOX_KEY", "sk-box-0123456789")]);
        let who = |model, text: &str, env: &Env| {
            let (settings, offers) = settings(text, env);
            chosen(model, &settings, &offers, env).map(|choice| (choice.actor, choice.model))
        };
        let of = |model: &str| Some(("coder", Some(model.to_owned())));
        assert_eq!(who(Some("ollama/m"), "", &keyed), Some(("coder", None)));
        assert_eq!(who(None, "", &keyed), of("openai/gpt-5"));
        assert_eq!(who(None, "", &env(&[("OPENAI_API_KEY", " ")])), None);
        let table = "[providers.box]\nspeaks = \"openai\"\nurl = \"https://models.example/v1\"\nkey_env = \"BOX_KEY\"\n";
        assert_eq!(who(None, table, &keyed), of("openai/gpt-5"), "it names no model");
        let table = format!("{table}model = \"m-1\"\n");
        assert_eq!(who(None, &table, &keyed), of("box/m-1"));
        assert_eq!(
            who(None, &table, &env(&[("OPENAI_API_KEY", "k")])),
            of("openai/gpt-5"),
            "its key is not there"
        );
    }

    #[test]
    fn what_cannot_be_run_is_nobody_and_an_untried_program_is_told_as_such() {
        let dir = TempDir::new().unwrap();
        program_file(&dir, "codex", 0o644);
        fs::create_dir(dir.path().join("claude")).unwrap();
        let path = env(&[("PATH", dir.path().to_str().unwrap())]);
        assert_eq!((program(&path), program(&env(&[]))), (None, None));
        program_file(&dir, "goose", 0o755);
        let found = program(&path).unwrap();
        assert_eq!((found.actor, found.why.as_str()), ("goose", "found goose on PATH, untried"));
        let failure = nobody(&settings("", &env(&[])).1);
        assert_eq!((failure.code.name, failure.hints().len(), failure.lines.len()), ("NO_ACTOR", 4, 4));
    }
}
