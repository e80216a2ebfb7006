//! Who does a task that names nobody: what this machine has, and why that.
//!
//! # Invariants
//! 1. What the user names (`--actor`, `actor.default`, `model.default`) is never overruled.
//! 2. Choosing looks at settings, variables and PATH. It starts no program and asks nobody over a network.
//! 3. Whoever is chosen is told with the reason and the way to another. Where nobody is there, what would do is told.
//!
//! # Not here
//! What the actors are: `engine::definition`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use engine::definition::Surroundings;

use crate::failure::{Failure, codes};
use crate::output::Note;
use crate::places::Env;

/// The actor that works with a model.
const CODER: &str = "coder";
/// Who thinks before it.
const STRATEGIST: &str = "strategist";
/// The variables that hold a key, and the model that is used with it.
const KEYED: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai/gpt-5"),
    ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-4.5"),
];
/// The agent programs that are actors by their own names, in the order in which they are looked for.
const PROGRAMS: [&str; 5] = ["claude", "codex", "gemini", "aider", "goose"];

/// Who was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    actor: &'static str,
    /// The model that it works with, when the settings name none.
    model: Option<&'static str>,
    why: String,
}

/// Names whom the settings leave open, and says whom; nothing when they name somebody.
///
/// # Errors
/// Nobody is there.
pub fn choose(surroundings: &mut Surroundings, env: &Env) -> Result<Option<Note>, Failure> {
    if surroundings.actor.is_some() || surroundings.actor_default.is_some() {
        return Ok(None);
    }
    let Some(choice) = chosen(surroundings.model_default.as_deref(), env) else { return Err(nobody()) };
    let Choice { actor, model, why } = choice;
    surroundings.actor_default = Some(actor.to_owned());
    if let Some(model) = model {
        surroundings.model_default = Some(model.to_owned());
        // As if it had been set.
        surroundings.strategist_default.get_or_insert_with(|| STRATEGIST.to_owned());
    }
    Ok(Some(Note::info(format!(
        "actor: {actor} ({why}; choose another with `--actor` or `agents config set actor.default=NAME`)"
    ))))
}

fn chosen(model_default: Option<&str>, env: &Env) -> Option<Choice> {
    if let Some(model) = model_default {
        return Some(Choice { actor: CODER, model: None, why: format!("`model.default` is {model}") });
    }
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.trim().is_empty());
    if let Some((name, model)) = KEYED.into_iter().find(|(name, _)| is_set(name)) {
        let why = format!("{name} is set, so {model} is used");
        return Some(Choice { actor: CODER, model: Some(model), why });
    }
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let program = PROGRAMS.into_iter().find(|program| is_on(path, program))?;
    Some(Choice { actor: program, model: None, why: format!("found {program} on PATH") })
}

/// Whether a program of this name can be started from PATH.
fn is_on(path: &str, program: &str) -> bool {
    let can_be_run = |file: &Path| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).filter(|dir| dir.is_absolute()).any(|dir| can_be_run(&dir.join(program)))
}

/// What to set, on one screen.
fn nobody() -> Failure {
    let keys: Vec<&str> = KEYED.iter().map(|(name, _)| *name).collect();
    Failure::new(
        &codes::NO_ACTOR,
        "there is a task and nobody to do it: name a model, a key or an agent program",
    )
    .line("settings   actor.default and model.default are not set")
    .line(format!("keys       none of {} is in the environment", keys.join(", ")))
    .line(format!("programs   none of {} is on PATH", PROGRAMS.join(", ")))
    .hint("with a key: `export ANTHROPIC_API_KEY=…`, then the same command again")
    .hint("with a model on this machine: `agents config set model.default=ollama/qwen3-coder`")
    .hint(
        "with an agent program: `npm install -g @openai/codex`, then `agents config set actor.default=codex`",
    )
    .hint("see who there is with `agents actor list`; a command needs nobody: `agents run -- COMMAND`")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn program(dir: &TempDir, name: &str, mode: u32) {
        let file = dir.path().join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_model_comes_before_a_key_and_a_key_before_a_program() {
        let dir = TempDir::new().unwrap();
        program(&dir, "goose", 0o755);
        program(&dir, "codex", 0o755);
        let path = dir.path().to_str().unwrap();
        let both = env(&[("PATH", path), ("OPENAI_API_KEY", "k")]);
        let who = |model, env: &Env| chosen(model, env).map(|choice| (choice.actor, choice.model));
        assert_eq!(who(Some("ollama/m"), &both), Some(("coder", None)));
        assert_eq!(who(None, &both), Some(("coder", Some("openai/gpt-5"))));
        assert_eq!(who(None, &env(&[("PATH", path), ("OPENAI_API_KEY", " ")])), Some(("codex", None)));
    }

    #[test]
    fn what_cannot_be_run_is_nobody() {
        let dir = TempDir::new().unwrap();
        program(&dir, "codex", 0o644);
        fs::create_dir(dir.path().join("goose")).unwrap();
        let path = dir.path().to_str().unwrap();
        assert_eq!(chosen(None, &env(&[("PATH", path)])), None);
        assert_eq!(chosen(None, &env(&[])), None);
        let Err(failure) = choose(&mut Surroundings::default(), &env(&[])) else { panic!("nobody is there") };
        assert_eq!((failure.code.name, failure.hints.len(), failure.lines.len()), ("NO_ACTOR", 4, 3));
    }

    #[test]
    fn whom_the_user_names_is_not_overruled() {
        let named = || Surroundings { actor_default: Some("mine".to_owned()), ..Surroundings::default() };
        let mut surroundings = named();
        let told = choose(&mut surroundings, &env(&[("OPENAI_API_KEY", "k")])).unwrap();
        assert_eq!((told, surroundings.actor_default.as_deref()), (None, Some("mine")));
        let mut open = Surroundings::default();
        let told = choose(&mut open, &env(&[("ANTHROPIC_API_KEY", "k")])).unwrap().unwrap();
        assert!(told.message.starts_with("actor: coder (ANTHROPIC_API_KEY is set"), "{}", told.message);
        assert_eq!(open.strategist_default.as_deref(), Some("strategist"));
    }
}
