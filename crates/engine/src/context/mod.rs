//! The context pipeline of this process: answers requests from the indexes of their projects.
//!
//! # Use
//! 1. [`Contexts::new`] once for a process and a data directory; an engine has its own (`Engine::contexts`).
//! 2. Say what is looked into: [`ContextProject`]s, or those of a plan (`Engine::plan_context_view`).
//! 3. [`Contexts::assemble`], on a thread that may block, until it is answered or `stop` says so.
//!
//! `projects` opens the projects of a request. `trees` and `git_history` join the ports of the pipeline to
//! the sandbox's trees and to git. `plan_view` reads what a plan changed and decided, `token_factors` learns
//! how models count, and `delivered` reads the contexts that they were given. `inspect` and `index_admin`
//! serve commands on the index itself.
//!
//! # Invariants
//! 1. A process has one executor, one set of breakers, one index for each root and one cache of values
//!    derived from snapshots. Concurrent requests share them.
//! 2. Without a redactor nothing is assembled: no text of a file is ever shown raw.
//! 3. Each change of a breaker is reported once, to the sink. A reset that a person asks for, in any process,
//!    is done before the next context.
//! 4. No file of a hidden path is indexed, named or read.
//!
//! # Not here
//! Storing contexts (`run::call::tool`), and the source of settings: an implementation of [`ContextRules`].

#[cfg(not(shuttle))]
pub(crate) mod answer;
mod delivered;
mod git_history;
#[cfg(not(shuttle))]
pub mod history_search;
mod index_admin;
mod inspect;
mod plan_view;
mod projects;
mod settings;
mod token_factors;
mod trees;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use context::index::IndexCache;
use context::ports::SystemWallClock;
use context::stages::{Stages, StrategyExecutor};
use context::strategies::ContextStrategy;
use context::{
    Batch, BatchCancelled, ExecutorConfigError, Pipeline, PipelineParts, SnapshotCache, StopCheck,
    StrategyRun,
};
use domain::Redactor;
use domain::context::{Candidate, ContextRequest};
use sandbox::HiddenPathMatcher;
use sync::{BreakerConfig, CircuitBreaker, Clock, Observed};

pub use context::index::IndexConfig;
pub use context::{
    Error as PipelineError, ExecutorConfig, LexicalCounter, PipelineConfig, PipelineConfigError,
    TokenCounter, ViewRules, Views,
};
pub use delivered::ReadContextError;
pub use domain::context::{AssembledContext, Name};
pub use index_admin::{IndexState, IndexVerification};
pub use inspect::{FileInspection, InspectTarget, InspectedDef, Neighbour};
pub use plan_view::PlanContextView;
pub use projects::{ContextProject, ProjectChanges};
pub use settings::{ContextRules, ContextSettings, DefaultRules, ProjectSettings, RulesError};

use crate::models::ProviderSettings;
use crate::redaction::Secrets;
use crate::workers::breaker_log::BreakerResets;
use context::ContextStrategies;
use context::EventSink;
use token_factors::TokenFactors;

/// The folder of the indexes in the data directory.
const INDEX_DIR: &str = "index";

/// The parts that the contexts of a process are made with.
#[derive(Clone, Debug)]
pub struct ContextsSetup {
    /// The number of strategies that run at once, and how long.
    pub executor: ExecutorConfig,
    /// The number of failures that a strategy may have, and the time for which it is skipped then.
    pub breakers: BreakerConfig,
    /// The memory limit of the snapshots of all projects, in bytes.
    pub memory_bytes_max: usize,
    /// The rules for the projects of a request.
    pub rules: Arc<dyn ContextRules>,
    /// Paths that nothing of a plan sees, in addition to the data directory.
    pub hidden: Vec<PathBuf>,
}

impl Default for ContextsSetup {
    fn default() -> Self {
        Self {
            executor: ExecutorConfig::default(),
            breakers: BreakerConfig::default(),
            memory_bytes_max: 256 * 1024 * 1024,
            rules: Arc::new(DefaultRules),
            hidden: Vec::new(),
        }
    }
}

/// Returns the built-in strategies, each with its default weight.
pub fn built_in_strategies() -> Vec<(Name, f32)> {
    Pipeline::strategies().iter().map(|strategy| (strategy.name().clone(), strategy.weight())).collect()
}

/// A request for context, and the projects in which it is looked for.
pub struct ContextAsk {
    /// The projects, in the order of their numbers.
    pub projects: Vec<ContextProject>,
    /// The request.
    pub request: ContextRequest,
    /// The token counter.
    pub counter: Arc<dyn TokenCounter>,
}

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Bad input, no project, or a cancel.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The settings of a project or its user cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A value of the settings is out of its bounds.
    #[error(transparent)]
    Config(#[from] PipelineConfigError),
    /// Texts cannot be shown: what takes secrets out of them cannot be made.
    #[error("the key for the marks of secrets can be neither read nor created, so no file is shown")]
    NoRedactor,
    /// A project is not there, or cannot be read.
    #[error("the project {} cannot be read: {source}", root.display())]
    Root {
        /// The expected path of the project.
        root: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The thread that assembled it panicked: a bug.
    #[error("the assembly of a context ended early: {0}")]
    Panicked(String),
}

/// The context pipeline of a process. `Clone` is the same one.
#[derive(Clone)]
pub struct Contexts {
    shared: Arc<Shared>,
}

struct Shared {
    rules: Arc<dyn ContextRules>,
    strategies: Arc<ContextStrategies<dyn ContextStrategy>>,
    /// Those of the strategies.
    breakers: CircuitBreaker,
    resets: BreakerResets,
    known: Vec<Arc<dyn ContextStrategy>>,
    indexes: IndexCache,
    cache: Arc<SnapshotCache>,
    secrets: Arc<Secrets>,
    clock: Arc<dyn Clock>,
    factors: TokenFactors,
    hide: Vec<PathBuf>,
    /// Found when it is first asked for: a command that only lists plans looks at none of them.
    hidden: OnceLock<HiddenPathMatcher>,
}

impl Contexts {
    /// Creates the pipeline of the process whose data is stored in `data_dir`, for a caller without an
    /// engine. Keys of `providers` that the environment has are taken out of texts, as those of all
    /// providers.
    ///
    /// # Errors
    /// A value of the executor's configuration is out of its bounds.
    pub fn new(
        setup: &ContextsSetup,
        data_dir: &Path,
        providers: &BTreeMap<String, ProviderSettings>,
    ) -> Result<Contexts, ExecutorConfigError> {
        let secrets = Arc::new(Secrets::new(data_dir, providers));
        let clock: Arc<dyn Clock> = Arc::new(crate::clock::BootClock);
        Contexts::with_secrets(
            setup,
            data_dir,
            secrets,
            clock,
            crate::workers::breaker_log::breaker_event_sink(data_dir),
        )
    }

    pub(crate) fn with_secrets(
        setup: &ContextsSetup,
        data_dir: &Path,
        secrets: Arc<Secrets>,
        clock: Arc<dyn Clock>,
        sink: Arc<dyn EventSink>,
    ) -> Result<Contexts, ExecutorConfigError> {
        let made = CircuitBreaker::new(setup.breakers.clone(), Arc::clone(&clock));
        // Settings are within the bounds: they are checked where they are read.
        let breakers = made.unwrap_or_default();
        let executor =
            ContextStrategies::new(setup.executor.clone(), breakers.clone(), Arc::clone(&clock), sink)?;
        let indexes = IndexCache::new(
            Some(data_dir.join(INDEX_DIR)),
            IndexConfig::default(),
            setup.memory_bytes_max,
            Arc::clone(&clock),
            Arc::new(SystemWallClock),
        );
        let shared = Shared {
            rules: Arc::clone(&setup.rules),
            strategies: Arc::new(executor),
            breakers,
            resets: BreakerResets::from_now(data_dir),
            known: Pipeline::strategies(),
            indexes,
            cache: Arc::default(),
            secrets,
            clock,
            factors: TokenFactors::default(),
            hide: setup.hidden.iter().cloned().chain([data_dir.to_owned()]).collect(),
            hidden: OnceLock::new(),
        };
        Ok(Contexts { shared: Arc::new(shared) })
    }

    /// Answers a request, on a thread that may block. A caller that stops waiting cancels `stop`.
    ///
    /// # Errors
    /// Bad input, no project, settings that cannot be used, or a cancel. Any other failure gives less context
    /// and a note.
    pub async fn assemble(&self, ask: ContextAsk, stop: Observed) -> Result<AssembledContext, ContextError> {
        let contexts = self.clone();
        let done = tokio::task::spawn_blocking(move || contexts.assemble_here(ask, &stop)).await;
        done.unwrap_or_else(|error| Err(ContextError::Panicked(error.to_string())))
    }

    /// The same on this thread, which may block.
    ///
    /// # Errors
    /// As [`Contexts::assemble`].
    pub fn assemble_here(&self, ask: ContextAsk, stop: &Observed) -> Result<AssembledContext, ContextError> {
        let ContextAsk { projects, request, counter } = ask;
        self.shared.resets.take().iter().for_each(|name| self.shared.breakers.reset(name));
        let settings = self.settings(&projects)?;
        let pipeline = Pipeline::new(PipelineParts {
            config: settings.pipeline.clone(),
            strategies: self.shared.known.clone(),
            stages: Stages::new(Arc::new(self.executing(settings.deadline))),
            counter,
            redactor: self.redactor()?,
            clock: Arc::clone(&self.shared.clock),
            cache: Arc::clone(&self.shared.cache),
            projects: Arc::new(self.opening(projects, settings)),
        })?;
        let mut context = pipeline.assemble(&request, &self.stop(stop))?;
        context.receipt.notes.extend(less_than_asked(&request, &context));
        Ok(context)
    }

    /// Returns the default maximum number of tokens for a text about these projects: `context.max_tokens`.
    ///
    /// # Errors
    /// The settings cannot be read.
    pub fn max_tokens(&self, projects: &[ContextProject]) -> Result<u32, ContextError> {
        Ok(self.settings(projects)?.pipeline.max_tokens)
    }

    /// Returns the paths that nothing of a plan sees.
    pub(crate) fn hidden(&self) -> &HiddenPathMatcher {
        self.shared.hidden.get_or_init(|| HiddenPathMatcher::new(self.shared.hide.iter().cloned()))
    }

    /// Returns the known token factors of models.
    pub(crate) fn factors(&self) -> &TokenFactors {
        &self.shared.factors
    }

    fn settings(&self, projects: &[ContextProject]) -> Result<ContextSettings, RulesError> {
        let roots: Vec<PathBuf> = projects.iter().map(|project| project.root.clone()).collect();
        self.shared.rules.rules(&roots)
    }

    fn redactor(&self) -> Result<Arc<Redactor>, ContextError> {
        self.shared.secrets.redactor().ok_or(ContextError::NoRedactor)
    }

    fn executing(&self, deadline: Duration) -> DeadlineExecutor {
        let (strategies, clock) = (Arc::clone(&self.shared.strategies), Arc::clone(&self.shared.clock));
        DeadlineExecutor { strategies, deadline, clock }
    }

    fn stop(&self, observed: &Observed) -> StopCheck {
        StopCheck::new(observed.clone(), None, Arc::clone(&self.shared.clock))
    }
}

/// Returns a note if a setting gives a request fewer tokens than it asks for.
fn less_than_asked(request: &ContextRequest, given: &AssembledContext) -> Option<String> {
    let wanted = request.budget.base().min(request.budget.cap?);
    let total = given.receipt.budget.total;
    (total < wanted)
        .then(|| format!("{wanted} tokens were requested, but `context.max_tokens` allows {total} here"))
}

/// Runs the strategies of a request with the process's executor, within the time that its projects allow.
struct DeadlineExecutor {
    strategies: Arc<ContextStrategies<dyn ContextStrategy>>,
    deadline: Duration,
    clock: Arc<dyn Clock>,
}

impl StrategyExecutor for DeadlineExecutor {
    fn execute(
        &self,
        batch: Batch<dyn ContextStrategy>,
    ) -> Result<Vec<StrategyRun<Candidate>>, BatchCancelled> {
        let left = batch.stop.remaining().map_or(self.deadline, |left| left.min(self.deadline));
        let due = self.clock.now().saturating_add(left);
        let stop = StopCheck::new(batch.stop.observed().clone(), Some(due), Arc::clone(&self.clock));
        self.strategies.execute(Batch { stop, ..batch })
    }
}

impl std::fmt::Debug for Contexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contexts").field("indexes", &self.shared.indexes).finish_non_exhaustive()
    }
}
