//! What a plan is asked to do, from the options of `run` and `plan use`.
//!
//! # Invariants
//! 1. A plan's spec is frozen here from flags and settings: later changes of either do not touch it.
//! 2. The command begins where the person stands, in the sandbox.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use domain::{
    Automation, ByteText, CommandTask, Does, Gate, Limits, PlanSpec, ProjectLink, RETRIES_PER_STEP_MAX,
    RootNo, Run, STEPS_MAX, Step, TITLE_CHARS_MAX, Validation, ValidationMode,
};
use engine::plans::NewPlanRequest;

use super::Invocation;
use super::invocation::path_of;
use super::limit::{self, LimitArg};
use crate::actor_file;
use crate::config::{Key, Settings, Value, join_validations};
use crate::failure::{Failure, codes};
use crate::output::{Note, one_line_of};
use crate::places;
use crate::project::{self, ProjectArg};
use crate::time::parse_duration;

/// The end of a command that names none.
const TIMEOUT_DEFAULT: &str = "30m";
/// The bounds of a command's end, in seconds.
const TIMEOUT_MAX_S: u64 = 86_400;
/// The end of a check that `--check` names, in seconds.
const CHECK_TIMEOUT_S: u64 = 600;

/// What to do, and where.
#[derive(Debug, clap::Args)]
pub(super) struct TaskArgs {
    /// Where to work: [NAME=]DIR, with :ro at the end to only read it; may be repeated [default: the project you are in]
    #[arg(long, value_name = "[NAME=]DIR[:ro]")]
    project: Vec<ProjectArg>,
    /// A check that has to pass before the plan can be applied, run by the shell in the sandbox; may be repeated
    #[arg(long, value_name = "CMD")]
    check: Vec<String>,
    /// When to stop the command: 30s, 10m, 2h
    #[arg(long, value_name = "DURATION", default_value = TIMEOUT_DEFAULT, value_parser = timeout)]
    timeout: u64,
    /// Let the command use the network
    #[arg(long)]
    network: bool,
    /// A variable of your environment that the command gets; may be repeated
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// A variable to set for the command; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// A path outside the project that the command may write; may be repeated
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
    /// Files of the sandbox that are no part of the result: a glob as in .gitignore; may be repeated
    #[arg(long, value_name = "GLOB", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    ignore: Vec<String>,
    /// One line about the plan [default: the command]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What goes on without asking: manual, review or auto [default: the setting]
    #[arg(long, value_name = "LEVEL", value_parser = ["manual", "review", "auto"])]
    automation: Option<String>,
    /// A step, run by the shell in the sandbox after the ones before it, instead of a command; may be repeated
    #[arg(long, value_name = "CMD", conflicts_with_all = ["command", "actor"])]
    step: Vec<String>,
    /// Steps from a file, as nodes that need each other, instead of a command
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    actor: Option<PathBuf>,
    /// How often a step that failed is done again, its changes taken back first: 0 to 100 [default: only after a
    /// failure that passes, as `recovery.max_retries_per_step` says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(RETRIES_PER_STEP_MAX)))]
    retries: Option<u32>,
    /// What the plan may use all in all: time=4h, steps=300, tool_calls=none; may be repeated [default: the settings]
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit::parse)]
    limit: Vec<LimitArg>,
    /// Taken for a command that was typed without `--`
    #[arg(hide = true)]
    what: Option<OsString>,
    /// The command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn timeout(text: &str) -> Result<u64, String> {
    let seconds = parse_duration(text).map_err(|error| error.to_string())?.as_secs();
    if (1..=TIMEOUT_MAX_S).contains(&seconds) { Ok(seconds) } else { Err("from 1s to 24h".to_owned()) }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is set as NAME=VALUE".to_owned()),
    }
}

/// A plan that is about to be made, and the settings that it was made with.
pub(super) struct Asked {
    pub(super) request: NewPlanRequest,
    pub(super) settings: Settings,
}

impl TaskArgs {
    /// The plan that is asked for. `apply` is what the person said about applying it.
    pub(super) fn asked(self, invocation: &Invocation, apply: Gate) -> Result<Asked, Failure> {
        self.refuse_missing_command()?;
        let projects = project::find_all(&self.project, &invocation.here)?;
        let level = self.automation.clone().map(|level| (Key::Automation, Value::Word(level)));
        let settings = invocation.settings(level.into_iter().collect(), &projects)?;
        if self.network && settings.word(Key::PolicyNetwork) == "never" {
            let message = "the plan asks for the network, and `policy.network` is `never`";
            return Err(Failure::new(&codes::PREFLIGHT_FAILED, message)
                .hint("leave `--network` out, or allow it: `agents config set policy.network=declared`"));
        }
        let spec = self.spec(apply, &settings, &projects, invocation)?;
        let title = self.title.clone().unwrap_or_else(|| spec.shown());
        let title = one_line_of(&title, TITLE_CHARS_MAX);
        tell_unset(&spec, invocation);
        Ok(Asked { request: NewPlanRequest { title, spec, projects }, settings })
    }

    fn refuse_missing_command(&self) -> Result<(), Failure> {
        let is_missing = self.command.is_empty() && self.step.is_empty() && self.actor.is_none();
        match (&self.what, is_missing) {
            (None, false) => Ok(()),
            (None, true) => Err(Failure::new(&codes::USAGE, "no command was given")
                .hint("put it after `--`, like `agents run -- make fix`")),
            (Some(word), _) => {
                let word = word.to_string_lossy().into_owned();
                Err(Failure::new(&codes::USAGE, format!("`{word}` stands where no word is expected"))
                    .hint(format!("a command goes after `--`, like `agents run -- {word}`")))
            }
        }
    }

    fn spec(
        &self,
        apply: Gate,
        settings: &Settings,
        projects: &[ProjectLink],
        invocation: &Invocation,
    ) -> Result<PlanSpec, Failure> {
        let cwd = self.cwd(projects, &invocation.here);
        let checks = self.check.iter().map(|command| Validation {
            name: command.clone(),
            run: Run::Shell(command.clone()),
            mode: ValidationMode::Required,
            timeout_s: CHECK_TIMEOUT_S,
            root: RootNo(0),
            cwd: cwd.clone(),
        });
        let paths = |key: Key| -> Vec<ByteText> {
            let words = settings.words(key).iter().map(|word| places::expanded(word, &invocation.env));
            words.map(|path| ByteText(path.into_os_string().into_vec())).collect()
        };
        let task = CommandTask {
            run: Run::Argv(self.command.iter().cloned().map(|word| ByteText(word.into_vec())).collect()),
            cwd: cwd.clone(),
            timeout_s: Some(self.timeout),
            network: self.network,
            env: self.env.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
            pass_env: self.pass_env.clone(),
            writable: self.writable_paths(invocation)?,
        };
        let set = Limits {
            steps: Some(settings.count(Key::LimitsSteps)),
            tool_calls: Some(settings.count(Key::LimitsToolCalls)),
            ..Limits::default()
        };
        let (limits, time_limit_s) = limit::set(set, settings.count(Key::LimitsTime), &self.limit);
        Ok(PlanSpec {
            steps: self.steps(task, &invocation.here)?,
            validations: join_validations(checks.chain(settings.validations.iter().cloned())),
            apply,
            automation: Automation::parse(settings.word(Key::Automation)).unwrap_or_default(),
            ignore: settings.words(Key::CaptureIgnore).iter().chain(&self.ignore).cloned().collect(),
            protected: settings.words(Key::PathsProtected).to_vec(),
            max_file_bytes: settings.count(Key::CaptureMaxFileMb).saturating_mul(1024 * 1024),
            sandbox: settings.word(Key::SandboxStrategy).to_owned(),
            isolation_required: settings.word(Key::PolicySandbox) == "required",
            hide: paths(Key::IsolationHide),
            scratch: paths(Key::IsolationScratch),
            time_limit_s,
            limits,
        })
    }

    /// What is to be done; `like` is the command after `--`, and how commands are run.
    fn steps(&self, like: CommandTask, here: &Path) -> Result<Vec<Step>, Failure> {
        let mut steps = match &self.actor {
            Some(file) => actor_file::read(&here.join(file), &like).map_err(|error| {
                Failure::new(&codes::PREFLIGHT_FAILED, error.to_string())
                    .hint("`agents run --help` tells of `--actor`; docs/actors.md has the keys of a node")
            })?,
            None if self.step.is_empty() => vec![Step::only(like)],
            None => (1..)
                .zip(&self.step)
                .map(|(number, text)| Step {
                    node: format!("step{number}"),
                    does: Does::Command(CommandTask { run: Run::Shell(text.clone()), ..like.clone() }),
                    retries: None,
                })
                .collect(),
        };
        if steps.len() > STEPS_MAX {
            let message = format!("{} steps are more than {STEPS_MAX}", steps.len());
            return Err(Failure::new(&codes::USAGE, message).hint("put several into one script"));
        }
        for step in &mut steps {
            step.retries = step.retries.or(self.retries);
        }
        Ok(steps)
    }

    /// Where the person stands below the first project's root.
    fn cwd(&self, projects: &[ProjectLink], here: &Path) -> ByteText {
        let asked = self.project.first().map_or_else(|| here.to_owned(), |project| here.join(&project.dir));
        let root = projects.first().map(|project| path_of(project.root.as_bytes())).unwrap_or_default();
        let below = std::fs::canonicalize(asked).ok();
        let below = below.as_deref().and_then(|place| place.strip_prefix(&root).ok());
        ByteText(below.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default())
    }

    /// Paths outside, absolute; one that is not there would be made by nobody.
    fn writable_paths(&self, invocation: &Invocation) -> Result<Vec<ByteText>, Failure> {
        let find = |path: &PathBuf| {
            let named =
                path.to_str().map_or_else(|| path.clone(), |text| places::expanded(text, &invocation.env));
            let place = invocation.here.join(named);
            match std::fs::canonicalize(&place) {
                Ok(found) => Ok(ByteText(found.into_os_string().into_vec())),
                Err(error) => Err(Failure::new(
                    &codes::PREFLIGHT_FAILED,
                    format!("`--writable {}` is not there: {error}", path.display()),
                )
                .hint("make it first, or leave it out")),
            }
        };
        self.writable.iter().map(find).collect()
    }
}

/// Tells which variables are to be passed on and are not there: the command would only show that it misses them.
pub(super) fn tell_unset(spec: &PlanSpec, invocation: &Invocation) {
    let names: BTreeSet<&String> = spec.commands().flat_map(|command| &command.pass_env).collect();
    for name in names.into_iter().filter(|name| std::env::var_os(name.as_str()).is_none()) {
        invocation.tell(&Note::info(format!("{name} is not set, so the command does not get it")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_end_has_bounds() {
        assert_eq!((timeout("10m"), timeout("24h")), (Ok(600), Ok(86_400)));
        for wrong in ["0s", "25h", "soon"] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variable_is_a_name_and_a_value() {
        assert_eq!(pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("A="), Ok(("A".to_owned(), String::new())));
        assert!(pair("A").is_err() && pair("=b").is_err());
    }
}
