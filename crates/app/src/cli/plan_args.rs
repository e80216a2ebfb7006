//! The plan arguments of `run` and `plan use`.
//!
//! # Invariants
//! 1. A plan's spec is frozen here from flags and settings: later changes of either do not touch it.
//! 2. The command begins in the user's directory, in the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ::definitions::FrozenDefinition;
use clap::Parser;
use domain::plan::invariant::effective;
use domain::{
    ByteText, CHECKS_MAX, CommandLine, CommandTask, FIX_ATTEMPTS, GateDecision, INVARIANTS_MAX, Instructions,
    Invariant, InvariantScope, IsolationOptions, Limits, NodeKind, PARALLEL, PLAN_STEPS_MAX, Plan, PlanSpec,
    PlanStep, ProjectLink, RETRIES_PER_STEP_MAX, RULE_PREFIX, RootIndex, Validation, ValidationMode,
};
use engine::{Engine, NewPlanRequest, Participants};

use super::Invocation;
use super::consent::Consent;
use super::definition_source::{PlanSource, SourceWords};
use super::for_each::NonEmptyLines;
use super::invocation::path_of;
use super::limit;
use super::limit::LimitArg;
use super::price_check;
use crate::config::{SettingKey, SettingValue, Settings, join_validations};
use crate::errors::{CommandError, codes, hints};
use crate::output::{OutputNote, confirm, one_line_of};
use crate::setup::default_actor::ReplayedRecording;
use crate::setup::hidden_and_shown;
use crate::setup::instructions;
use crate::setup::paths;
use crate::setup::project;
use crate::setup::project::ProjectArg;
use crate::setup::toolchains;
use crate::time::parse_duration;

/// The end of a command that names none.
const TIMEOUT_DEFAULT: &str = "30m";
/// The bounds of a command's end, in seconds.
const TIMEOUT_MAX_S: u64 = 86_400;
/// The characters of a title that are read: all of it, so that its secrets are found before it is cut.
const TITLE_READ_CHARS_MAX: usize = 64 * 1024;
/// Stands for the line of `--for-each` in a title.
const ITEM_PLACEHOLDER: &str = "{{item}}";
/// The end of a check that `--check` names, in seconds.
const CHECK_TIMEOUT_S: u64 = 600;

/// The task of a plan and its projects.
#[derive(Debug, clap::Args)]
pub(super) struct TaskArgs {
    /// A project to work in: [NAME=]DIR, with :ro at the end to only read it; may be repeated [default: the
    /// project of the current directory]
    #[arg(long, value_name = "[NAME=]DIR[:ro]", value_parser = project::parser())]
    project: Vec<ProjectArg>,
    /// A check that must pass before the plan can be applied, run by the shell in the sandbox; may be
    /// repeated
    #[arg(long, value_name = "CMD", value_parser = check)]
    check: Vec<String>,
    /// An invariant of the changes: a sentence for models, or a rule that is checked: never=GLOB[,GLOB],
    /// only=GLOB[,GLOB], max_files=N, max_lines=N; may be repeated
    #[arg(long, value_name = "TEXT|RULE", value_parser = invariant)]
    invariant: Vec<Invariant>,
    /// The time limit of the command: 30s, 10m, 2h
    #[arg(long, value_name = "DURATION", default_value = TIMEOUT_DEFAULT, value_parser = timeout)]
    timeout: u64,
    /// The exit statuses of the command that count as success, as 0,1: a linter that exits with 1 after it
    /// repaired files has not failed [default: 0]
    #[arg(long, value_name = "N[,N]", value_delimiter = ',')]
    ok_exit: Vec<u8>,
    /// With `--project`: allow a directory of the system or your home
    #[arg(long, requires = "project")]
    system_project: bool,
    /// Let the command use the network
    #[arg(long)]
    network: bool,
    /// Let the command connect to unix sockets of programs outside the sandbox
    #[arg(long)]
    unix_sockets: bool,
    /// Let the command use io_uring
    #[arg(long)]
    io_uring: bool,
    /// A port of this machine that the command may reach on its own loopback address; may be repeated
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    allow_loopback: Vec<u16>,
    /// A variable of your environment that the command gets; may be repeated
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,
    /// A variable to set for the command; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Give the command what this one reads from its standard input: at most 1 MiB, which is stored with the
    /// plan
    #[arg(long, requires = "command")]
    stdin: bool,
    /// A path outside the project that the command may write; may be repeated
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
    /// Files of the sandbox that do not belong to the result: a glob as in .gitignore; may be repeated
    #[arg(long, value_name = "GLOB", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    ignore: Vec<String>,
    /// The title of the plan [default: the command]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The steps that need no confirmation: manual, review, auto, or a profile of your own [default: the
    /// setting]
    #[arg(long, value_name = "NAME")]
    automation: Option<String>,
    /// A step instead of a command, run by the shell in the sandbox after the steps before it; may be
    /// repeated
    #[arg(long, value_name = "CMD", conflicts_with_all = ["command", "actor"])]
    step: Vec<String>,
    /// The actor that does the task, by its name or file
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "command")]
    actor: Option<String>,
    /// An argument of the action; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = argument, conflicts_with_all = ["command", "step"])]
    arg: Vec<(String, String)>,
    /// Trust the present checks, actions and actors of the project, and allow what they ask for: the network,
    /// variables, paths outside
    #[arg(long)]
    trust: bool,
    /// Maximum number of retries of a failed step, whose changes are rolled back first: 0 to 100 [default:
    /// only after a transient failure, see `recovery.max_retries_per_step`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(RETRIES_PER_STEP_MAX)))]
    retries: Option<u32>,
    /// A limit for the whole plan: time=4h, steps=300, tokens=none, cost=20; may be repeated [default: the
    /// settings]
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit::parse)]
    limit: Vec<LimitArg>,
    /// The name of an action, a file of one (.yaml), a task in words, or - for a task from the standard input
    #[arg(value_name = "ACTION|TASK")]
    what: Option<OsString>,
    /// The command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn timeout(text: &str) -> Result<u64, String> {
    let seconds = parse_duration(text).map_err(|error| error.to_string())?.as_secs();
    if (1..=TIMEOUT_MAX_S).contains(&seconds) { Ok(seconds) } else { Err("from 1s to 24h".to_owned()) }
}

/// The bytes of a standard input that a plan stores, so that a resume gives the command the same.
const STDIN_BYTES_MAX: u64 = 1024 * 1024;

fn read_stdin() -> Result<ByteText, CommandError> {
    let refused = |message: String| CommandError::new(&codes::USAGE, message);
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(format!("the standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > STDIN_BYTES_MAX {
        let message = format!("the standard input of a command has at most {STDIN_BYTES_MAX} bytes");
        return Err(refused(message).hint(hints::INPUT_AS_FILE));
    }
    Ok(ByteText(bytes))
}

/// A command is its check's name as well.
fn check(text: &str) -> Result<String, String> {
    match text.starts_with(RULE_PREFIX) {
        true => Err(format!("`{RULE_PREFIX}` begins the names of rules: give those with `--invariant`")),
        false => Ok(text.to_owned()),
    }
}

fn invariant(text: &str) -> Result<Invariant, String> {
    Invariant::parse(text, InvariantScope::Plan)
}

fn argument(text: &str) -> Result<(String, String), String> {
    pair(text).map_err(|_| "an argument is given as NAME=VALUE".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is set as NAME=VALUE".to_owned()),
    }
}

/// A plan that is about to be made, and the settings that it was made with.
pub(super) struct PendingPlan {
    pub(super) request: NewPlanRequest,
    pub(super) settings: Settings,
    /// The consent that the user must give before the plan is made.
    pub(super) consent: Consent,
    /// The notes that programs receive with the answer; they are printed for people at once.
    pub(super) notes: Vec<OutputNote>,
    task: TaskArgs,
    source: Option<PlanSource>,
    apply: GateDecision,
}

impl PendingPlan {
    /// The plan for a further line of `--for-each`: what its definitions say of that line, and all else as it
    /// was.
    ///
    /// # Errors
    /// The line is no value of an argument, or a file was edited meanwhile.
    pub(super) fn for_item(
        &self,
        item: &ByteText,
        invocation: &Invocation,
    ) -> Result<NewPlanRequest, CommandError> {
        let (mut request, is_told) = match &self.source {
            None => (self.request.clone(), false),
            Some(source) => {
                let first = &self.request.spec.sources;
                let frozen = source.freeze_again(&item.to_string(), first)?;
                let is_told = self.task.title.is_none() && frozen.title_has_item;
                let (projects, said) =
                    (self.request.projects.clone(), self.request.spec.instructions.clone());
                let (apply, settings) = (self.apply, &self.settings);
                (self.task.request(apply, settings, projects, Some(frozen), said, invocation)?, is_told)
            }
        };
        request.spec.batch.clone_from(&self.request.spec.batch);
        // A title that names the line is the user's own wording.
        let own = self.task.title.as_deref().filter(|title| title.contains(ITEM_PLACEHOLDER));
        if let Some(own) = own {
            let title = own.replace(ITEM_PLACEHOLDER, &item.to_string());
            request.title = one_line_of(&title, TITLE_READ_CHARS_MAX);
        } else if !is_told {
            request.title = one_line_of(&format!("{item}: {}", request.title), TITLE_READ_CHARS_MAX);
        }
        Ok(request)
    }

    /// Sets the batch of this plan and of those for further lines.
    pub(super) fn set_batch(&mut self, batch: &str) {
        self.request.spec.batch = Some(batch.to_owned());
    }

    /// Returns the participants, for a recording.
    pub(super) fn participants(&self) -> Participants {
        self.source.as_ref().map(PlanSource::participants).unwrap_or_default()
    }

    /// Finds the user's yes to what the project's files run and ask for, or asks for it. Reports the checks
    /// that do not run without it.
    ///
    /// # Errors
    /// Returns an error if an action or an actor has no yes.
    pub(super) async fn settle_trust(
        &mut self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<(), CommandError> {
        if let Some(note) = self.consent.settle(engine, invocation).await? {
            invocation.tell(&note);
            self.notes.push(note);
        }
        Ok(())
    }

    /// Tells of models whose price is not known.
    ///
    /// # Errors
    /// Returns an error if a limit of money that the user set cannot be enforced.
    pub(super) fn tell_unpriced(
        &mut self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<(), CommandError> {
        if let Some(note) = price_check::check_price(self, engine)? {
            invocation.tell(&note);
            self.notes.push(note);
        }
        Ok(())
    }
}

impl TaskArgs {
    /// The plan that is asked for. `apply` is what the person said about applying it, `lines` are those of
    /// `--for-each`: of them the plan is for the first. `replayed` is what answers in the place of models.
    pub(super) async fn prepare_plan(
        self,
        invocation: &Invocation,
        apply: GateDecision,
        lines: Option<&NonEmptyLines>,
        replayed: Option<&ReplayedRecording>,
    ) -> Result<PendingPlan, CommandError> {
        self.refuse_unclear()?;
        self.refuse_program_without_path(invocation)?;
        let projects = project::find_all(&self.project, &invocation.here)?;
        self.refuse_system_dirs(&projects, invocation)?;
        let level = self.automation.clone().map(|level| (SettingKey::Automation, SettingValue::Word(level)));
        let holds = SettingValue::Invariants(self.invariant.clone());
        let flags = level.into_iter().chain([(SettingKey::Invariants, holds)]).collect();
        let settings = invocation.settings(flags, &projects)?;
        invocation.admit(&projects, &settings)?;
        let words = SourceWords {
            what: self.what.as_deref(),
            actor: self.actor.as_deref(),
            args: &self.arg,
            is_for_each: lines.is_some(),
            replayed,
        };
        let found = PlanSource::find(words, &settings, &projects, invocation).await?;
        let (source, mut notes) = found.map_or((None, Vec::new()), |(source, notes)| (Some(source), notes));
        if let (Some(lines), Some(source)) = (lines, &source) {
            lines.check(source)?;
        }
        let item = lines.and_then(|lines| lines.items.first()).map(ToString::to_string);
        let frozen = source.as_ref().map(|source| source.freeze(item.as_deref())).transpose()?;
        let trusts_all = settings.word(SettingKey::PolicyTrust) == "all";
        let mut consent = Consent::to(frozen.as_ref(), &projects, trusts_all, self.trust);
        let mut instructions = Vec::new();
        if source.is_some() {
            let (said, odd) = instructions::read_all(&projects);
            instructions = said;
            notes.extend(odd);
        }
        let request = self.request(apply, &settings, projects, frozen, instructions, invocation)?;
        consent.add_checks(&request.spec, &request.projects);
        notes.iter().for_each(|note| invocation.tell(note));
        if request.spec.uses_network() && settings.word(SettingKey::PolicyNetwork) == "never" {
            let message = "the plan asks for the network, and `policy.network` is `never`";
            return Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::LEAVE_NETWORK_OUT));
        }
        tell_unset(&request.spec, invocation);
        Ok(PendingPlan { request, settings, consent, notes, task: self, source, apply })
    }

    fn request(
        &self,
        apply: GateDecision,
        settings: &Settings,
        projects: Vec<ProjectLink>,
        frozen: Option<FrozenDefinition>,
        instructions: Vec<Instructions>,
        invocation: &Invocation,
    ) -> Result<NewPlanRequest, CommandError> {
        let named = frozen.as_ref().map(|frozen| frozen.title.clone()).filter(|title| !title.is_empty());
        let mut spec = self.spec(apply, settings, &projects, frozen, invocation)?;
        spec.instructions = instructions;
        let title = self.title.clone().or(named).unwrap_or_else(|| spec.render());
        let title = one_line_of(&title, TITLE_READ_CHARS_MAX);
        Ok(NewPlanRequest { title, spec, projects })
    }

    fn refuse_unclear(&self) -> Result<(), CommandError> {
        let does_something = !self.command.is_empty() || !self.step.is_empty() || self.actor.is_some();
        match (&self.what, does_something) {
            (Some(word), true) if self.actor.is_none() => {
                let word = word.to_string_lossy().into_owned();
                let (other, alone, program) = match &self.command[..] {
                    [] => ("steps", hints::LEAVE_WORD_OUT_OF_STEPS, String::new()),
                    [program, ..] => {
                        ("a command", hints::LEAVE_WORD_OUT, program.to_string_lossy().into_owned())
                    }
                };
                let message = format!("`{word}` and {other} were given: a plan does one or the other");
                Err(CommandError::new(&codes::USAGE, message)
                    .hint(alone)
                    .field("program", program)
                    .hint(hints::LEAVE_COMMAND_OUT)
                    .field("other", other))
            }
            (None, false) => Err(CommandError::new(&codes::USAGE, "no command was given")
                .hint(hints::COMMAND_AFTER_DASHES)
                .hint(hints::NAME_ACTION_OR_TASK)),
            (None, true) if !self.arg.is_empty() => {
                Err(CommandError::new(&codes::ARG_UNKNOWN, "there is no action that could take an argument")
                    .hint(hints::NAME_ACTION))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Returns an error if the program is on no directory of PATH, and a file here has its name: the shell
    /// would not find it either.
    fn refuse_program_without_path(&self, invocation: &Invocation) -> Result<(), CommandError> {
        let Some(program) = self.command.first().filter(|program| !program.as_bytes().contains(&b'/')) else {
            return Ok(());
        };
        let path = invocation.env.get("PATH").map(String::as_str).unwrap_or_default();
        let is_file = |place: PathBuf| place.is_file();
        if std::env::split_paths(path).any(|dir| is_file(dir.join(program)))
            || !is_file(invocation.here.join(program))
        {
            return Ok(());
        }
        let program = program.to_string_lossy();
        let here = ByteText::from(format!("./{program}").as_str());
        let rest = self.command.iter().skip(1).map(|word| ByteText(word.as_bytes().to_vec()));
        let line = CommandLine::Argv(std::iter::once(here).chain(rest).collect()).render();
        let message = format!("the program `{program}` was not found on PATH");
        Err(CommandError::new(&codes::PREFLIGHT_FAILED, message)
            .hint(hints::PROGRAM_HERE)
            .field("line", line)
            .field("program", program))
    }

    fn spec(
        &self,
        apply: GateDecision,
        settings: &Settings,
        projects: &[ProjectLink],
        mut frozen: Option<FrozenDefinition>,
        invocation: &Invocation,
    ) -> Result<PlanSpec, CommandError> {
        let cwd = self.cwd(projects, &invocation.here);
        let checks = self.check.iter().map(|command| required_check(command, &cwd));
        let texts = |paths: Vec<PathBuf>| -> Vec<ByteText> {
            paths.into_iter().map(|path| ByteText(path.into_os_string().into_vec())).collect()
        };
        let passed = toolchains::passed(settings, &invocation.env);
        let scratch = settings.words(SettingKey::IsolationScratch).iter();
        let scratch = scratch.map(|word| paths::expanded(word, &invocation.env));
        let scratch: Vec<PathBuf> = scratch.chain(passed.scratch).collect();
        let task = CommandTask {
            run: CommandLine::Argv(
                self.command.iter().cloned().map(|word| ByteText(word.into_vec())).collect(),
            ),
            cwd: cwd.clone(),
            timeout_s: Some(self.timeout),
            network: self.network,
            allow_loopback: self.allow_loopback.clone(),
            env: self.env.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
            pass_env: self.pass_env.iter().chain(&passed.names).cloned().collect(),
            writable: self.writable_paths(invocation)?,
            stdin: self.stdin.then(read_stdin).transpose()?,
            ok_exit: self.ok_exit.clone(),
            writes: true,
            expand: false,
        };
        let set = Limits {
            steps: Some(settings.count(SettingKey::LimitsSteps)),
            tool_calls: Some(settings.count(SettingKey::LimitsToolCalls)),
            tokens: Some(settings.count(SettingKey::LimitsTokens)),
            cost: settings.money(SettingKey::LimitsCost),
        };
        let (limits, time_limit_s) = limit::set(set, settings.count(SettingKey::LimitsTime), &self.limit);
        let of_definition = frozen.as_mut().map(|frozen| std::mem::take(&mut frozen.validations));
        let is_trusted = settings.word(SettingKey::PolicyTrust) == "all";
        let of_settings = settings
            .validations
            .iter()
            .cloned()
            .map(|check| Validation { needs_trust: check.needs_trust && !is_trusted, ..check });
        let validations = checks.chain(of_definition.into_iter().flatten()).chain(of_settings);
        let mut spec = PlanSpec {
            steps: if frozen.is_some() { Vec::new() } else { self.steps(task.clone())? },
            validations: join_validations(validations),
            apply,
            automation: settings.automation.clone(),
            ignore: settings.words(SettingKey::CaptureIgnore).iter().chain(&self.ignore).cloned().collect(),
            protected: settings.words(SettingKey::PathsProtected).to_vec(),
            deny_tools: settings.words(SettingKey::PolicyDenyTools).to_vec(),
            max_file_bytes: settings.count(SettingKey::CaptureMaxFileMb).saturating_mul(1024 * 1024),
            sandbox: settings.word(SettingKey::SandboxStrategy).to_owned(),
            isolation_required: settings.word(SettingKey::PolicySandbox) != "optional",
            walls: IsolationOptions {
                landlock: settings.word(SettingKey::PolicySandbox) == "landlock",
                unix_sockets: self.unix_sockets || settings.word(SettingKey::IsolationUnixSockets) == "allow",
                io_uring: self.io_uring || settings.word(SettingKey::IsolationIoUring) == "allow",
                processes_max: settings.count(SettingKey::LimitsProcesses),
                memory_mb_max: settings.count(SettingKey::LimitsMemory),
                disk_free_mb_min: settings.count(SettingKey::LimitsDisk),
            },
            home: hidden_and_shown::home(&invocation.env),
            hide: [hidden_and_shown::hidden_words(settings, &invocation.env), texts(passed.hide)].concat(),
            show: Some(
                [hidden_and_shown::shown_words(settings, &invocation.env), texts(passed.show)].concat(),
            ),
            toolchain_env: passed
                .values
                .iter()
                .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
                .collect(),
            allow_loopback: ports(settings)?,
            scratch: texts(scratch),
            time_limit_s,
            limits,
            parallel: u32::try_from(settings.count(SettingKey::LimitsParallel)).unwrap_or(PARALLEL),
            action: None,
            prompt: String::new(),
            args: BTreeMap::new(),
            definition_of_done: Vec::new(),
            invariants: effective(settings.invariants()),
            instructions: Vec::new(),
            fix: None,
            fix_attempts: u32::try_from(settings.count(SettingKey::ValidationFixAttempts))
                .unwrap_or(FIX_ATTEMPTS),
            result: None,
            read_only: false,
            strategist: None,
            sources: Vec::new(),
            keys: BTreeSet::new(),
            batch: None,
            follows: None,
        };
        if let Some(frozen) = frozen {
            // An action is about the project; a user who only names an actor is in the directory of the work.
            let like = match frozen.action {
                Some(_) => CommandTask { cwd: ByteText::default(), ..task },
                None => task,
            };
            frozen.put_into(&mut spec);
            let of_strategist = spec.strategist.iter_mut().flat_map(|strategist| &mut strategist.steps);
            for step in spec.steps.iter_mut().chain(of_strategist) {
                self.complete(step, &like, invocation);
            }
        }
        if spec.invariants.len() > INVARIANTS_MAX {
            let message = format!(
                "there are {} invariants, at most {INVARIANTS_MAX} are allowed",
                spec.invariants.len()
            );
            return Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::SEE_INVARIANTS));
        }
        if spec.validations.len() > CHECKS_MAX {
            let message =
                format!("there are {} checks, at most {CHECKS_MAX} are allowed", spec.validations.len());
            return Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::JOIN_CHECKS));
        }
        for step in &mut spec.steps {
            step.retries = self.retries.or(step.retries);
        }
        Ok(spec)
    }

    /// Refuses a directory of the system as a project, unless it was named and a person says so.
    fn refuse_system_dirs(
        &self,
        projects: &[ProjectLink],
        invocation: &Invocation,
    ) -> Result<(), CommandError> {
        let home = invocation.env.get("HOME").map(Path::new);
        let roots = projects.iter().map(|project| path_of(project.root.as_bytes()));
        let Some(root) = roots.into_iter().find(|root| project::is_system_dir(root, home)) else {
            return Ok(());
        };
        let shown = root.display();
        let refused = CommandError::new(
            &codes::PROJECT_IS_SYSTEM,
            format!("{shown} is a directory of the system or your home, and no project; nothing was done"),
        );
        if self.project.is_empty() {
            return Err(refused);
        }
        let is_asked = invocation.style.can_ask && !invocation.style.format.is_for_programs();
        if !self.system_project && !is_asked {
            return Err(refused.hint(hints::ADD_SYSTEM_PROJECT));
        }
        let question = format!("{shown} is a directory of the system or your home. Work on all of it?");
        match self.system_project || confirm(&question).unwrap_or(false) {
            true => Ok(()),
            false => Err(refused),
        }
    }

    /// Applies the command line's options for all commands to one command of a definition.
    fn complete(&self, step: &mut PlanStep, like: &CommandTask, invocation: &Invocation) {
        let Some(task) = step.command_mut() else { return };
        if task.cwd.as_bytes().is_empty() {
            task.cwd = like.cwd.clone();
        }
        task.timeout_s = task.timeout_s.or(like.timeout_s);
        if task.ok_exit.is_empty() {
            task.ok_exit.clone_from(&like.ok_exit);
        }
        task.network |= like.network;
        task.allow_loopback.extend(&like.allow_loopback);
        task.pass_env.extend(like.pass_env.iter().cloned());
        self.env.iter().for_each(|(name, value)| task.set_variable(name, &ByteText::from(value.as_str())));
        let named = std::mem::take(&mut task.writable);
        let found = named.iter().filter_map(|path| {
            let place = paths::expanded(&path.to_string(), &invocation.env);
            // A program that was never used here has no folder yet, and makes none outside.
            let found = std::fs::canonicalize(place).ok()?;
            Some(ByteText(found.into_os_string().into_vec()))
        });
        task.writable = found.chain(like.writable.iter().cloned()).collect();
    }

    /// Returns the steps of the plan; `like` is the command after `--`, and the way to run commands.
    fn steps(&self, like: CommandTask) -> Result<Vec<PlanStep>, CommandError> {
        if self.step.is_empty() {
            return Ok(vec![PlanStep::only(like)]);
        }
        if self.step.len() > PLAN_STEPS_MAX {
            let message =
                format!("there are {} steps, at most {PLAN_STEPS_MAX} are allowed", self.step.len());
            return Err(CommandError::new(&codes::USAGE, message).hint(hints::ONE_SCRIPT));
        }
        let step = |(number, text): (usize, &String)| {
            let task = CommandTask { run: CommandLine::Shell(text.clone()), ..like.clone() };
            PlanStep::new(format!("step{number}"), NodeKind::Command(task))
        };
        Ok((1..).zip(&self.step).map(step).collect())
    }

    /// Returns the user's directory below the first project's root.
    fn cwd(&self, projects: &[ProjectLink], here: &Path) -> ByteText {
        let asked = self.project.first().map_or_else(|| here.to_owned(), |project| here.join(&project.dir));
        let root = projects.first().map(|project| path_of(project.root.as_bytes())).unwrap_or_default();
        let below = std::fs::canonicalize(asked).ok();
        let below = below.as_deref().and_then(|place| place.strip_prefix(&root).ok());
        ByteText(below.map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default())
    }

    /// Returns the absolute paths of `--writable`. Returns an error if one does not exist, because nothing
    /// would create it.
    fn writable_paths(&self, invocation: &Invocation) -> Result<Vec<ByteText>, CommandError> {
        let find = |path: &PathBuf| {
            let named =
                path.to_str().map_or_else(|| path.clone(), |text| paths::expanded(text, &invocation.env));
            let place = invocation.here.join(named);
            match std::fs::canonicalize(&place) {
                Ok(found) => Ok(ByteText(found.into_os_string().into_vec())),
                Err(error) => Err(CommandError::new(
                    &codes::PREFLIGHT_FAILED,
                    format!("`--writable {}` is not there: {error}", path.display()),
                )
                .hint(hints::MAKE_DIRECTORY)),
            }
        };
        self.writable.iter().map(find).collect()
    }
}

/// A check that `--check` names.
fn required_check(command: &str, cwd: &ByteText) -> Validation {
    Validation {
        name: command.to_owned(),
        run: CommandLine::Shell(command.to_owned()),
        mode: ValidationMode::Required,
        timeout_s: CHECK_TIMEOUT_S,
        root: RootIndex(0),
        cwd: cwd.clone(),
        needs_trust: false,
    }
}

/// The actor and the checks of a revision.
#[derive(Debug, clap::Args)]
pub(super) struct RevisedTaskArgs {
    /// Another actor that continues the work, by its name or file
    #[arg(long, value_name = "NAME|FILE")]
    actor: Option<String>,
    /// A further check that must pass, run by the shell in the sandbox; may be repeated
    #[arg(long, value_name = "CMD", value_parser = check)]
    check: Vec<String>,
}

/// A task that consists of an actor and projects alone.
#[derive(Debug, clap::Parser)]
struct ActorTask {
    #[command(flatten)]
    task: TaskArgs,
}

impl RevisedTaskArgs {
    /// Returns the spec of the plan with the other actor and the further checks; `None` if none is named.
    ///
    /// # Errors
    /// Returns an error if there is no such actor, or if it cannot work on the plan's projects.
    pub(super) async fn spec(
        &self,
        plan: &Plan,
        message: &str,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<Option<PlanSpec>, CommandError> {
        if self.actor.is_none() && self.check.is_empty() {
            return Ok(None);
        }
        let mut spec = (*plan.spec).clone();
        if let Some(actor) = &self.actor {
            let projects = plan.projects.iter().flat_map(|project| {
                let mut word = OsString::from(format!("{}=", project.alias));
                word.push(path_of(project.root.as_bytes()));
                word.push(if project.read_only { ":ro" } else { "" });
                [OsString::from("--project"), word]
            });
            let words = ["revise", "--actor", actor].map(OsString::from).into_iter().chain(projects);
            let unfit = |error: clap::Error| CommandError::new(&codes::USAGE, error.to_string());
            let mut task = ActorTask::try_parse_from(words).map_err(unfit)?.task;
            let prompt = if spec.prompt.is_empty() { message } else { &spec.prompt };
            task.what = Some(OsString::from(prompt));
            let mut pending = task.prepare_plan(invocation, plan.spec.apply, None, None).await?;
            pending.settle_trust(engine, invocation).await?;
            let made = pending.request.spec;
            (spec.steps, spec.fix, spec.result) = (made.steps, made.fix, made.result);
            (spec.sources, spec.prompt, spec.instructions) = (made.sources, made.prompt, made.instructions);
        }
        for command in &self.check {
            if spec.validations.iter().all(|known| known.name != *command) {
                spec.validations.push(required_check(command, &ByteText::default()));
            }
        }
        if spec.validations.len() > CHECKS_MAX {
            let message =
                format!("there are {} checks, at most {CHECKS_MAX} are allowed", spec.validations.len());
            return Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::JOIN_CHECKS));
        }
        Ok(Some(spec))
    }
}

/// The ports of `isolation.allow_loopback`.
fn ports(settings: &Settings) -> Result<Vec<u16>, CommandError> {
    let port = |word: &String| match word.parse::<u16>() {
        Ok(port @ 1..) => Ok(port),
        Ok(0) | Err(_) => {
            let message = format!("`isolation.allow_loopback` takes ports from 1 to 65535, not `{word}`");
            Err(CommandError::new(&codes::CONFIG_VALUE_INVALID, message).hint(hints::SEE_LOOPBACK))
        }
    };
    settings.words(SettingKey::IsolationAllowLoopback).iter().map(port).collect()
}

/// Tells which variables are to be passed on and are not there: the command would only show that it misses
/// them. A definition names all that its program may use, and few have them all.
pub(super) fn tell_unset(spec: &PlanSpec, invocation: &Invocation) {
    if !spec.sources.is_empty() {
        return;
    }
    let names: BTreeSet<&String> = spec.commands().flat_map(|command| &command.pass_env).collect();
    for name in names.into_iter().filter(|name| std::env::var_os(name.as_str()).is_none()) {
        invocation.tell(&OutputNote::info(format!("{name} is not set, so the command does not get it")));
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
