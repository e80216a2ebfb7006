//! One call of the program: its options, its environment, where it was made, and what is opened for it.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::{GateDecision, Plan, PlanId, ProjectLink, REVERSIONS_MAX, RecoveryPolicy};
use engine::context::ContextsSetup;
use engine::{
    Engine, EngineOptions, JournalState, ModelsSetup, Participants, RecheckWhen, RecoveredEnd, SecretFilter,
    Servers, SettingsReload,
};
use sandbox::HiddenPathMatcher;

use super::Global;
use super::consent;
use super::context::PipelineCache;
use super::recording::RecordingArgs;
use crate::config::{self, FileRules, SettingKey, SettingValue, Settings, Sources, breakers, contexts_setup};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{self, CommandReport, Format, OutputNote, OutputStyle, PagerCommand};
use crate::setup::hidden_and_shown;
use crate::setup::paths;
use crate::setup::paths::{DataDirState, EmptyDir, Env};
use crate::setup::project;

/// One call of the program.
#[derive(Debug)]
pub struct Invocation {
    /// The options of every command.
    pub global: Global,
    /// The style of answers.
    pub style: OutputStyle,
    /// The environment.
    pub env: Env,
    /// The directory of the invocation.
    pub here: PathBuf,
    /// The only projects that may be worked in and looked at; none allows all.
    pub(super) only: Option<Vec<PathBuf>>,
    /// The pipeline of contexts, for all calls of a process.
    pub(super) held: Arc<PipelineCache>,
    /// Stands for a data directory that is not there.
    pub(super) empty: OnceLock<EmptyDir>,
    /// Takes secrets out of the answer; none before the engine is opened.
    pub(super) filter: OnceLock<SecretFilter>,
}

/// A plan that was named.
#[derive(Clone, Debug)]
pub struct NamedPlan {
    /// The id of the plan.
    pub id: PlanId,
    /// The shortest text that names it.
    pub short: String,
}

impl Invocation {
    /// This call.
    ///
    /// # Errors
    /// The working directory is gone.
    pub fn new(global: Global, style: OutputStyle, env: Env) -> Result<Self, CommandError> {
        let here = std::env::current_dir().map_err(|error| {
            CommandError::new(&codes::IO_FAILED, format!("the working directory cannot be found: {error}"))
        })?;
        let (held, empty, filter) = (Arc::default(), OnceLock::new(), OnceLock::new());
        Ok(Self { global, style, env, here, only: None, held, empty, filter })
    }

    /// The settings as they hold for these projects.
    ///
    /// # Errors
    /// A file or a variable says what is not allowed.
    pub fn settings(
        &self,
        flags: Vec<(SettingKey, SettingValue)>,
        projects: &[ProjectLink],
    ) -> Result<Settings, CommandError> {
        let user_file = paths::user_config(&self.env);
        let sources = Sources {
            flags,
            env: self.env.clone(),
            user_file: user_file.as_deref(),
            roots: projects.iter().map(|project| path_of(project.root.as_bytes())).collect(),
        };
        let settings = config::load(&sources)?;
        settings.warnings.iter().for_each(|warning| self.tell(&OutputNote::warning(warning)));
        Ok(settings)
    }

    /// Returns the pager of the user; `None` if there is to be none.
    pub(super) fn pager(&self) -> Option<PagerCommand> {
        let is_dumb = self.env.get("TERM").is_none_or(|term| term == "dumb");
        let is_for_reader = std::io::stdout().is_terminal() && self.style.format == Format::Rich;
        if self.global.no_pager || !is_for_reader || is_dumb {
            return None;
        }
        let user_file = paths::user_config(&self.env);
        let (flags, env) = (Vec::new(), self.env.clone());
        let sources = Sources { flags, env, user_file: user_file.as_deref(), roots: Vec::new() };
        // The command has reported faults of the settings already.
        let settings = config::load(&sources).ok()?;
        PagerCommand::find(settings.words(SettingKey::OutputPager), |name| self.env.get(name).cloned())
    }

    /// Opens the engine with the user's own settings, for commands about what is there: what a project says
    /// was frozen in each plan. Where there is no data nothing is made.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn engine(&self) -> Result<Engine, CommandError> {
        self.engine_of_data(&self.settings(Vec::new(), &[])?).await
    }

    /// The same with these settings.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn engine_of_data(&self, settings: &Settings) -> Result<Engine, CommandError> {
        match paths::look_at_data_dir(&self.data_dir()?)? {
            DataDirState::Ours => self.engine_with(settings).await,
            DataDirState::Absent | DataDirState::Empty => {
                let empty = match self.empty.get() {
                    Some(empty) => empty,
                    None => {
                        let made = EmptyDir::new()?;
                        self.empty.get_or_init(|| made)
                    }
                };
                self.open_engine(self.options_in(settings, empty.path().to_owned())?).await
            }
        }
    }

    /// Opens the engine with these settings.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn engine_with(&self, settings: &Settings) -> Result<Engine, CommandError> {
        self.open_engine(self.options(settings)?).await
    }

    /// The same, for a process that outlives changes of the settings: it reads them again for each plan that
    /// asks models.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub(super) async fn engine_of_worker(&self, settings: &Settings) -> Result<Engine, CommandError> {
        let mut options = self.options(settings)?;
        // No person waits for a plan of a worker, so that it can wait for a provider.
        let wait_max = Duration::from_secs(settings.count(SettingKey::RecoveryWaitMax));
        options.recovery = options.recovery.with_wait_max(wait_max);
        let env = self.env.clone();
        options.models.renewal = Some(SettingsReload(Arc::new(move || {
            let user_file = paths::user_config(&env);
            let sources = Sources {
                flags: Vec::new(),
                env: env.clone(),
                user_file: user_file.as_deref(),
                roots: Vec::new(),
            };
            let settings = config::load(&sources).ok()?;
            Some((
                Arc::new(paths::providers(settings.providers.clone(), &env)),
                Arc::new(settings.prices.clone()),
            ))
        })));
        self.open_engine(options).await
    }

    /// Opens the engine as above, and records the models' answers or replays recorded ones, as the flags say.
    ///
    /// # Errors
    /// The data directory, the store or the recording cannot be used.
    pub(super) async fn engine_with_recording(
        &self,
        settings: &Settings,
        recording: &RecordingArgs,
        cast: Participants,
    ) -> Result<Engine, CommandError> {
        let mut options = self.options(settings)?;
        options.models.mode = recording.mode(&self.here, cast);
        let engine = self.open_engine(options).await?;
        recording.ready(&engine)?;
        Ok(engine)
    }

    async fn open_engine(&self, options: EngineOptions) -> Result<Engine, CommandError> {
        // Whatever it runs, it runs with all the descriptors that it may have.
        sandbox::descriptors::raise_limit();
        let engine = Engine::open(options).await.map_err(|error| from_engine::open(&error))?;
        let _ = self.filter.set(engine.secret_filter());
        self.tell_recovered(&engine).await?;
        for plan in engine.finish_cancels().await {
            let plan = short_id(&engine, plan).await?;
            self.tell(&OutputNote::warning(format!(
                "the interrupted cancel of plan {plan} was finished now"
            )));
        }
        Ok(engine)
    }

    /// The same, though an interrupted apply is stuck: for those who look at it, or give it up.
    ///
    /// # Errors
    /// The data directory or the store cannot be used.
    pub async fn engine_to_mend(&self, settings: &Settings) -> Result<Engine, CommandError> {
        let opened = Engine::open_for_repair(self.options(settings)?).await;
        let engine = opened.map_err(|error| from_engine::open(&error))?;
        let _ = self.filter.set(engine.secret_filter());
        self.tell_recovered(&engine).await?;
        Ok(engine)
    }

    /// Returns the options for opening the engine.
    ///
    /// # Errors
    /// There is no data directory, or a setting cannot be.
    pub fn options(&self, settings: &Settings) -> Result<EngineOptions, CommandError> {
        self.options_in(settings, self.made_data_dir()?)
    }

    fn options_in(&self, settings: &Settings, data_dir: PathBuf) -> Result<EngineOptions, CommandError> {
        let sandbox_dir = match settings.word(SettingKey::SandboxDir) {
            "" => data_dir.join("sandboxes"),
            named => {
                let named = paths::expanded(named, &self.env);
                // A link that the user names is meant; one in the place of what is meant is not followed.
                std::fs::canonicalize(&named).unwrap_or(named)
            }
        };
        let retries = |key| u32::try_from(settings.count(key)).unwrap_or(u32::MAX);
        let (per_step, per_plan) =
            (retries(SettingKey::RecoveryMaxRetriesPerStep), retries(SettingKey::RecoveryMaxRetriesPerPlan));
        let recovery = RecoveryPolicy::new(per_step, per_plan, GateDecision::Auto, REVERSIONS_MAX)
            .map_err(|error| CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string()))?;
        Ok(EngineOptions {
            data_dir,
            sandbox_dir,
            child: sandbox::child::ChildProgram::default(),
            copy_max: (
                settings.count(SettingKey::SandboxCopyMaxFiles),
                settings.count(SettingKey::SandboxCopyMaxMb).saturating_mul(1024 * 1024),
            ),
            plan_concurrency: u32::try_from(settings.count(SettingKey::PlanConcurrency)).unwrap_or(u32::MAX),
            lease: Duration::from_secs(settings.count(SettingKey::AsyncLease)),
            capture_wait: Duration::from_secs(settings.count(SettingKey::CaptureWait)),
            recheck: RecheckWhen::parse(settings.word(SettingKey::ApplyRecheck)).unwrap_or_default(),
            recovery,
            retention: Duration::from_secs(settings.count(SettingKey::RetentionDays).saturating_mul(86_400)),
            models: self.models(settings),
            contexts: self.contexts(settings),
        })
    }

    /// The data directory, which is made when it is not there.
    ///
    /// # Errors
    /// Nothing says where it could be, or it cannot be made.
    pub(super) fn made_data_dir(&self) -> Result<PathBuf, CommandError> {
        let data_dir = self.data_dir()?;
        paths::make_data_dir(&data_dir)?;
        Ok(data_dir)
    }

    /// Returns the data directory, whether or not it exists.
    ///
    /// # Errors
    /// Nothing says where.
    pub(super) fn data_dir(&self) -> Result<PathBuf, CommandError> {
        paths::data_dir(self.global.data_dir.as_deref(), &self.env)
    }

    /// Returns the setup of the contexts.
    pub(super) fn contexts(&self, settings: &Settings) -> ContextsSetup {
        let rules = FileRules { env: self.env.clone(), user_file: paths::user_config(&self.env) };
        contexts_setup(settings, rules)
    }

    fn models(&self, settings: &Settings) -> ModelsSetup {
        ModelsSetup {
            providers: Arc::new(paths::providers(settings.providers.clone(), &self.env)),
            prices: Arc::new(settings.prices.clone()),
            servers: Arc::new(servers(settings)),
            day_cost: settings.money(SettingKey::LimitsDayCost),
            breakers: breakers(settings),
            ..ModelsSetup::default()
        }
    }

    async fn tell_recovered(&self, engine: &Engine) -> Result<(), CommandError> {
        for recovered in engine.recovered() {
            let whose = match recovered.plan {
                Some(plan) => format!(" of plan {}", short_id(engine, plan).await?),
                None => String::new(),
            };
            let note = recovered_note(recovered, &whose);
            // Files that are half an apply's need a person before anything else is done.
            let is_damaged = matches!(recovered.journal, JournalState::Damaged { .. });
            if is_damaged && recovered.end == RecoveredEnd::TakenBack {
                let failure = CommandError::new(&codes::JOURNAL_DAMAGED, note.message);
                return Err(match recovered.plan {
                    Some(plan) => failure.hint(hints::COMPARE_WITH_DIFF).plan(&short_id(engine, plan).await?),
                    None => failure,
                });
            }
            self.tell(&note);
        }
        for path in engine.set_aside_files() {
            let what = "a journal was not a regular file, and was moved aside";
            self.tell(&OutputNote::warning(format!("{what}: {}", path.display())));
        }
        Ok(())
    }

    /// The plan that a word names.
    ///
    /// # Errors
    /// None or several are meant.
    pub async fn plan(&self, engine: &Engine, word: &str) -> Result<NamedPlan, CommandError> {
        let root = project::root_of(&self.here).ok();
        let id = engine.find(word, root.as_deref()).await.map_err(|error| from_engine::find(&error))?;
        let named = NamedPlan { id, short: short_id(engine, id).await? };
        if self.only.is_some() {
            let plan =
                engine.store().plan(id).await.map_err(|error| from_engine::plan(&error, &named.short))?;
            plan.projects
                .iter()
                .try_for_each(|project| self.check_allowed(&path_of(project.root.as_bytes())))?;
        }
        Ok(named)
    }

    /// Returns an error if a plan may not work in one of the projects. Either this process was not started
    /// with it, or it is hidden and the user does not agree.
    ///
    /// # Errors
    /// One may not.
    pub(super) fn admit(&self, projects: &[ProjectLink], settings: &Settings) -> Result<(), CommandError> {
        let hidden = HiddenPathMatcher::new(hidden_and_shown::hidden(settings, &self.env));
        for project in projects {
            let root = path_of(project.root.as_bytes());
            self.check_allowed(&root)?;
            if let Some(above) = hidden.above(&root) {
                consent::to_hidden_project(&root, above, self)?;
            }
        }
        Ok(())
    }

    /// Returns an error if this process was not started with the project.
    ///
    /// # Errors
    /// It was not.
    pub(super) fn check_allowed(&self, root: &Path) -> Result<(), CommandError> {
        let Some(only) = &self.only else { return Ok(()) };
        if only.iter().any(|allowed| allowed == root) {
            return Ok(());
        }
        let message = format!("this server was not started with the project {}", root.display());
        Err(CommandError::new(&codes::PROJECT_NOT_ALLOWED, message).field("dir", root.display()))
    }

    /// The same for all projects of these plans.
    ///
    /// # Errors
    /// It was not started with one of them.
    pub(super) fn check_all_allowed(&self, plans: &[Plan]) -> Result<(), CommandError> {
        let mut projects = plans.iter().flat_map(|plan| &plan.projects);
        projects.try_for_each(|project| self.check_allowed(&path_of(project.root.as_bytes())))
    }

    /// Prints a note at once, in addition to the answer.
    pub fn tell(&self, note: &OutputNote) {
        let message = self.words_without_secrets(note.message.clone());
        output::tell(&OutputNote { message, ..note.clone() }, &self.style);
    }

    /// The words without the secrets that are known by now.
    pub(super) fn words_without_secrets(&self, words: String) -> String {
        match self.filter.get() {
            Some(filter) => filter.words(words),
            None => words,
        }
    }

    /// The answer of a command without secrets, unless they were asked for.
    pub(super) fn without_secrets(
        &self,
        answer: Result<CommandReport, CommandError>,
    ) -> Result<CommandReport, CommandError> {
        match (self.filter.get(), answer) {
            (None, answer) => answer,
            (Some(filter), Ok(report)) => Ok(report.without_secrets(filter, self.style.format)),
            (Some(filter), Err(failure)) => Err(failure.without_secrets(filter)),
        }
    }
}

/// The servers as they may be started: where nothing may use the network, none of them does.
fn servers(settings: &Settings) -> Servers {
    let mut servers = settings.servers.clone();
    if settings.word(SettingKey::PolicyNetwork) == "never" {
        servers.values_mut().for_each(|server| server.program.network = false);
    }
    servers
}

/// The shortest text that names the plan.
pub(super) async fn short_id(engine: &Engine, id: PlanId) -> Result<String, CommandError> {
    engine.short_id(id).await.map_err(|error| from_engine::store(&error))
}

fn recovered_note(recovered: &engine::RecoveredApply, whose: &str) -> OutputNote {
    let what = match recovered.kind {
        domain::ApplyKind::Apply => "apply",
        domain::ApplyKind::Undo => "undo",
    };
    let state = match &recovered.journal {
        JournalState::Whole => None,
        JournalState::Missing => Some("missing"),
        JournalState::Damaged { .. } => Some("damaged"),
    };
    let how = match (recovered.end, state) {
        (RecoveredEnd::Finished, None) => "was finished now".to_owned(),
        (RecoveredEnd::TakenBack, None) => "was rolled back now".to_owned(),
        (RecoveredEnd::NeverBegan, None) => "had not begun to write, and is dropped".to_owned(),
        (RecoveredEnd::Finished, Some(state)) => {
            format!("is whole in your files, though its journal is {state}")
        }
        (RecoveredEnd::TakenBack, Some(state)) => {
            format!("is given up: its journal is {state}, and the files are as it left them")
        }
        (RecoveredEnd::NeverBegan, Some(state)) => {
            format!("is dropped: its journal is {state}, and nothing of it is in your files")
        }
    };
    let mut message = format!("an interrupted {what}{whose} {how}");
    if state.is_some() && !recovered.left.is_empty() {
        message.push_str(&format!("; of it these are there: {}", recovered.left.join(", ")));
    } else if !recovered.left.is_empty() {
        message.push_str(&format!("; left as you edited them: {}", recovered.left.join(", ")));
    }
    if let JournalState::Damaged { kept } = &recovered.journal {
        message.push_str(&format!("; the journal is in {}", kept.display()));
    }
    OutputNote::warning(message)
}

/// The path that these bytes name.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned()
}
