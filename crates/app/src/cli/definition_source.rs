//! The source of a plan without a typed command: an action or a task, and the actor that does it.
//!
//! # Invariants
//! 1. Files are found and the actor is chosen once. Of `--for-each` every plan is made from the same files.
//!    One that was edited meanwhile ends it, since its user has said yes to what it was.
//! 2. A word that could be an action's name is never taken for a task.
//!
//! # Not here
//! Who is chosen (`default_actor`), and the rest of a plan (`plan_args`).

use std::ffi::OsStr;
use std::io::Read;

use ::definitions::{
    Action, ActorRef, DefinitionError, FreezeOptions, FrozenDefinition, Kind, Library, LoadedDefinition,
    StrategistDefault, freeze_action, freeze_actor, is_name, is_reference,
};
use domain::{ArgError, DefinitionSource, ProjectLink};
use engine::Participants;

use super::Invocation;
use crate::config::Settings;
use crate::errors::{CommandError, codes, hints};
use crate::output::OutputNote;
use crate::setup::default_actor;
use crate::setup::default_actor::ReplayedRecording;
use crate::setup::definitions;
use crate::setup::definitions::{NOBODY, WithProviders};

/// The length limit of a task.
const TASK_BYTES_MAX: usize = 64 * 1024;
/// The argument that a plan of `--for-each` has by itself.
const ITEM: &str = "item";

/// The words of a command line that name it.
pub(super) struct SourceWords<'a> {
    pub(super) what: Option<&'a OsStr>,
    pub(super) actor: Option<&'a str>,
    pub(super) args: &'a [(String, String)],
    /// True if there is a plan for every line of a file.
    pub(super) is_for_each: bool,
    /// The recording that answers in the place of models.
    pub(super) replayed: Option<&'a ReplayedRecording>,
}

/// An action or a task, and who does it.
pub(super) struct PlanSource {
    library: Library,
    what: SourceMeaning,
    surroundings: FreezeOptions,
    args: Vec<(String, String)>,
    /// The actor that was asked for, as it was typed.
    asked: Option<String>,
    /// The typed word, for advice.
    word: String,
}

/// The meaning of the word on a command line.
enum SourceMeaning {
    /// An action, by its name or its file.
    Action(Box<LoadedDefinition<Action>>),
    /// The task, in words.
    Task(String),
}

impl PlanSource {
    /// Finds the source, and the actor that does it; `None` if a command or steps were typed.
    pub(super) async fn find(
        words: SourceWords<'_>,
        settings: &Settings,
        projects: &[ProjectLink],
        invocation: &Invocation,
    ) -> Result<Option<(PlanSource, Vec<OutputNote>)>, CommandError> {
        if words.what.is_none() && words.actor.is_none() {
            return Ok(None);
        }
        let configured = definitions::configured(settings, WithProviders::No);
        let library = definitions::library(projects, &invocation.env).knowing(configured);
        let wrong = |error: DefinitionError| definitions::failure(&error);
        let cast = words.replayed.and_then(|replayed| replayed.cast.as_ref());
        let recorded = cast.and_then(|cast| cast.asked.as_deref());
        let asked = words.actor.or(recorded);
        let actor = asked.map(|word| definitions::actor(&library, word, &invocation.here));
        let mut surroundings = definitions::surroundings(settings, actor.transpose().map_err(wrong)?);
        if let Some(cast) = cast {
            definitions::set_participants(&mut surroundings, cast);
        }
        let word = words.what.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let is_left_open;
        let what = match read_word(words.what)? {
            TypedWord::Task(_) if !words.args.is_empty() => {
                let message = "a task in words has no arguments";
                return Err(CommandError::new(&codes::ARG_UNKNOWN, message).hint(hints::WRITE_ACTION));
            }
            TypedWord::Task(task) => {
                is_left_open = true;
                SourceMeaning::Task(task)
            }
            TypedWord::Action(name) => {
                let action = definitions::action(&library, &name, &invocation.here);
                let action = action.map_err(|error| advised(&error, &word, words.actor))?;
                is_left_open = action.definition.actor == ActorRef::Default;
                SourceMeaning::Action(Box::new(action))
            }
        };
        if words.is_for_each && words.args.iter().any(|(name, _)| name == ITEM) {
            let message = "`--for-each` gives the argument `item`, and `--arg item=…` does too";
            return Err(CommandError::new(&codes::USAGE, message).hint(hints::LEAVE_ONE_OUT));
        }
        let mut notes: Vec<OutputNote> = Vec::new();
        let twin = asked.and_then(|word| Some((word, library.project_twin(Kind::Actor, word)?)));
        notes.extend(twin.map(|(word, twin)| {
            OutputNote::info(format!("`{word}` is the built-in actor; that of the project is `{twin}`"))
        }));
        if is_left_open && words.actor.is_none() {
            let (env, replayed) = (&invocation.env, words.replayed);
            notes.extend(default_actor::choose(&mut surroundings, settings, env, replayed).await?);
        }
        let (args, asked) = (words.args.to_vec(), asked.map(str::to_owned));
        Ok(Some((PlanSource { library, what, surroundings, args, asked, word }, notes)))
    }

    /// Returns the participants, for a recording.
    pub(super) fn participants(&self) -> Participants {
        let FreezeOptions { actor_default, model_default, strategist_default, .. } = &self.surroundings;
        let strategist = match strategist_default {
            StrategistDefault::Named(chosen) => chosen.name.clone(),
            StrategistDefault::Nobody | StrategistDefault::Unset => NOBODY.to_owned(),
        };
        Participants {
            asked: self.asked.clone(),
            actor: actor_default.as_ref().map(|chosen| chosen.name.clone()),
            model: model_default.clone(),
            strategist: Some(strategist),
        }
    }

    /// Returns the reason why a line of `--for-each` is no value of the argument `item`; `freeze` reports all
    /// other errors.
    pub(super) fn wrong_item(&self, item: &str) -> Option<String> {
        let Err(DefinitionError::Args(errors)) = self.joined(Some(item)) else { return None };
        let of_item = |error: &&ArgError| matches!(error, ArgError::Invalid { name, .. } if name == ITEM);
        let wrong: Vec<String> = errors.iter().filter(of_item).map(ToString::to_string).collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }

    fn joined(&self, item: Option<&str>) -> Result<FrozenDefinition, DefinitionError> {
        let surroundings = FreezeOptions { item: item.map(str::to_owned), ..self.surroundings.clone() };
        match &self.what {
            SourceMeaning::Task(task) => freeze_actor(&self.library, task, &surroundings),
            SourceMeaning::Action(action) => freeze_action(&self.library, action, &self.args, &surroundings),
        }
    }

    /// Returns the definition that a plan stores; `item` is its line of `--for-each`.
    pub(super) fn freeze(&self, item: Option<&str>) -> Result<FrozenDefinition, CommandError> {
        let frozen = self.joined(item).map_err(|error| match &self.what {
            SourceMeaning::Task(_) => advised(&error, &self.word, None),
            SourceMeaning::Action(_) => definitions::failure(&error),
        })?;
        if frozen.misses_model {
            let message = "a node uses `model: default`, and `model.default` is not set";
            return Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::SET_MODEL));
        }
        Ok(frozen)
    }

    /// The same for a further line, if the files are still those that the first one was made from.
    pub(super) fn freeze_again(
        &self,
        item: &str,
        first: &[DefinitionSource],
    ) -> Result<FrozenDefinition, CommandError> {
        let frozen = self.freeze(Some(item))?;
        if frozen.sources != first {
            let message = "a file of the actor was edited while plans were made from it";
            return Err(CommandError::new(&codes::USAGE, message).hint(hints::PLANS_MADE_CONTINUE));
        }
        Ok(frozen)
    }
}

/// A typed word.
enum TypedWord {
    Action(String),
    Task(String),
}

fn read_word(word: Option<&OsStr>) -> Result<TypedWord, CommandError> {
    let Some(word) = word else { return Ok(TypedWord::Task(String::new())) };
    let usage = |message: String| CommandError::new(&codes::USAGE, message);
    let word = word.to_str().ok_or_else(|| usage("a task is text in UTF-8".to_owned()))?;
    let task = match word {
        "-" => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().take(TASK_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| usage(format!("the task cannot be read: {error}")))?;
            String::from_utf8(bytes).map_err(|_| usage("a task is text in UTF-8".to_owned()))?
        }
        word if word.ends_with(".yaml") || is_reference(word) => {
            return Ok(TypedWord::Action(word.to_owned()));
        }
        word => word.to_owned(),
    };
    match task.trim().is_empty() {
        true => Err(usage("the task is empty".to_owned()).hint(hints::SAY_WHAT_TO_DO)),
        false if task.len() > TASK_BYTES_MAX => {
            Err(usage(format!("a task has at most {TASK_BYTES_MAX} bytes, this has {}", task.len())))
        }
        false => Ok(TypedWord::Task(task)),
    }
}

/// A failure with the ways to say what was probably meant: a task of one word, or a command without `--`.
fn advised(error: &DefinitionError, word: &str, actor: Option<&str>) -> CommandError {
    let failure = definitions::failure(error);
    match error {
        DefinitionError::NotFound { kind: "action", .. } if is_name(word) => {
            let by = actor.map(|actor| format!(" --actor {actor}")).unwrap_or_default();
            let failure = failure.own_hint().hint(hints::TASK_OF_ONE_WORD);
            let failure = failure.field("word", word).field("by", by);
            match actor {
                Some(_) => failure,
                None => failure.hint(hints::COMMAND_OF_ONE_WORD),
            }
        }
        DefinitionError::NotFound { .. }
        | DefinitionError::NoActor
        | DefinitionError::Unreadable { .. }
        | DefinitionError::Invalid(_)
        | DefinitionError::Args(_) => failure,
    }
}
