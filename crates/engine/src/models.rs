//! The models of this process: their providers, their prices, and the state of their breakers.
//!
//! # Invariants
//! 1. Providers are made when a model is first asked for; an engine that asks none reads no key and makes no
//!    client. They are made again where a process that outlives a change of the settings meets a plan
//!    ([`SettingsReload`]); breakers stay.
//! 2. As soon as keys are read the redactor knows them: before that no code here could show one.
//! 3. The process has one set of breakers, whatever number of plans it works on; `workers::breaker_log` logs
//!    their changes.
//!
//! # Not here
//! The turns of a model (`run::node::model`) and the wire (`actors::model`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use actors::model::{
    Prices, PricesError, ProviderError, Providers, ProvidersSetup, RecordingError, ResolvedModel,
};
use domain::{NeedsCondition, NodeKind, PlanSpec, PlanStep, SpendKind};
use sync::primitives::{Mutex, lock};
use sync::{BreakerConfig, CircuitBreaker, Clock};

pub use actors::model::{
    Participants, Price, Protocol, ProviderSettings, ProviderView, RecordingMode, builtin_providers, cast_of,
};

use crate::engine::{Engine, EngineInner};
use crate::mcp_servers::Servers;
use crate::redaction::Secrets;
use crate::workers::breaker_log::BreakerLog;

/// The parts that questions to models need.
#[derive(Clone, Debug)]
pub struct ModelsSetup {
    /// The settings of providers, by name.
    pub providers: Arc<BTreeMap<String, ProviderSettings>>,
    /// The settings of prices, by `PROVIDER/NAME`.
    pub prices: Arc<BTreeMap<String, Price>>,
    /// The servers whose tools models may call.
    pub servers: Arc<Servers>,
    /// The mode: ask, record the calls, or answer from recorded calls.
    pub mode: RecordingMode,
    /// The limit of the money that all plans together spend on models in one day (UTC), in millionths of a
    /// dollar.
    pub day_cost: Option<u64>,
    /// The number of failures in a row after which a provider rests, and the time of the rest.
    pub breakers: BreakerConfig,
    /// The reload of the settings; `None` for a process that ends after one task.
    pub renewal: Option<SettingsReload>,
}

/// The settings of providers and of prices, by name.
pub type ModelSettings = (Arc<BTreeMap<String, ProviderSettings>>, Arc<BTreeMap<String, Price>>);

/// Reads what the settings say of models by now; none when they cannot be read.
#[derive(Clone)]
pub struct SettingsReload(pub Arc<dyn Fn() -> Option<ModelSettings> + Send + Sync>);

impl std::fmt::Debug for SettingsReload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Renewal")
    }
}

/// The built-in providers and prices, asked for real.
impl Default for ModelsSetup {
    fn default() -> Self {
        Self {
            providers: Arc::default(),
            prices: Arc::default(),
            servers: Arc::default(),
            mode: RecordingMode::Live,
            day_cost: None,
            breakers: BreakerConfig::default(),
            renewal: None,
        }
    }
}

/// Why models cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// The recording cannot be made or read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The table of prices cannot be read: a bug.
    #[error(transparent)]
    Prices(#[from] PricesError),
    /// The breakers cannot be set like this.
    #[error(transparent)]
    Breakers(#[from] sync::BreakerConfigError),
}

/// Why a model cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelUnavailable {
    /// None can.
    #[error(transparent)]
    All(Arc<ModelsError>),
    /// This one.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// The models of this process.
pub(crate) struct Models {
    setup: ModelsSetup,
    clock: Arc<dyn Clock>,
    made: OnceLock<Result<Arc<Providers>, Arc<ModelsError>>>,
    /// Those that took their place, and the settings that they were made of.
    renewed: Mutex<Option<(ModelSettings, Arc<Providers>)>>,
    breakers: OnceLock<CircuitBreaker>,
    /// The windows that servers reported, in tokens, by `PROVIDER/NAME`.
    windows: Mutex<BTreeMap<String, u64>>,
    data_dir: PathBuf,
}

impl Models {
    pub(crate) fn new(setup: ModelsSetup, clock: Arc<dyn Clock>, data_dir: &Path) -> Self {
        let (made, renewed, breakers) = (OnceLock::new(), Mutex::new(None), OnceLock::new());
        let windows = Mutex::default();
        Self { setup, clock, made, renewed, breakers, windows, data_dir: data_dir.to_owned() }
    }

    /// Remembers the window of a model, in tokens, that its server reported. A recording has to begin as its
    /// replay does, so that neither remembers.
    pub(crate) fn learn_window(&self, model: &str, tokens: u64) {
        if matches!(self.setup.mode, RecordingMode::Live) {
            lock(&self.windows).insert(model.to_owned(), tokens);
        }
    }

    /// The window of a model that its server reported; `None` if it reported none.
    pub(crate) fn learnt_window(&self, model: &str) -> Option<u64> {
        lock(&self.windows).get(model).copied()
    }

    /// The limit of a day, where there is one.
    pub(crate) fn day_cost(&self) -> Option<u64> {
        self.setup.day_cost
    }

    /// Returns true if calls are answered from a recording.
    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.setup.mode, RecordingMode::Replay(_))
    }

    /// Returns the model for `PROVIDER/NAME`.
    pub(crate) fn resolve(&self, model: &str, secrets: &Secrets) -> Result<ResolvedModel, ModelUnavailable> {
        Ok(self.providers(secrets).map_err(ModelUnavailable::All)?.resolve(model)?)
    }

    /// Returns true if this process takes plans of other processes, and so has another environment than they.
    pub(crate) fn is_of_worker(&self) -> bool {
        self.setup.renewal.is_some()
    }

    /// Builds the providers again, if the settings have changed or a model cannot be asked with the present
    /// ones.
    pub(crate) fn renew(&self, spec: &PlanSpec, secrets: &Secrets) {
        let models = models_of(spec);
        let Some(SettingsReload(read)) = self.setup.renewal.as_ref().filter(|_| !models.is_empty()) else {
            return;
        };
        let Some(now) = read() else { return };
        let known = lock(&self.renewed).as_ref().map(|(settings, _)| settings.clone());
        let known =
            known.unwrap_or_else(|| (Arc::clone(&self.setup.providers), Arc::clone(&self.setup.prices)));
        let can_all = || {
            let providers = self.providers(secrets);
            providers.is_ok_and(|providers| models.keys().all(|model| providers.check(model).is_ok()))
        };
        if now == known && can_all() {
            return;
        }
        // If new providers cannot be made, the present ones report the error.
        let Ok(providers) = self.make(&now) else { return };
        secrets.register_secrets(&providers.secrets());
        *lock(&self.renewed) = Some((now, Arc::new(providers)));
    }

    /// Those that were made, or are made now.
    fn providers(&self, secrets: &Secrets) -> Result<Arc<Providers>, Arc<ModelsError>> {
        if let Some((_, providers)) = lock(&self.renewed).as_ref() {
            return Ok(Arc::clone(providers));
        }
        let made = self.made.get_or_init(|| {
            let of = (Arc::clone(&self.setup.providers), Arc::clone(&self.setup.prices));
            let providers = self.make(&of).map_err(Arc::new)?;
            secrets.register_secrets(&providers.secrets());
            Ok(Arc::new(providers))
        });
        made.as_ref().map(Arc::clone).map_err(Arc::clone)
    }

    fn make(&self, (providers, prices): &ModelSettings) -> Result<Providers, ModelsError> {
        let setup = ProvidersSetup {
            settings: providers.as_ref().clone(),
            prices: Prices::with_overrides(prices)?,
            breakers: self.breakers()?,
            news: Arc::new(BreakerLog::in_dir(&self.data_dir)),
            mode: self.setup.mode.clone(),
        };
        Ok(Providers::new(setup, &|name| std::env::var(name).ok())?)
    }

    /// The one set of breakers.
    fn breakers(&self) -> Result<CircuitBreaker, ModelsError> {
        if let Some(breakers) = self.breakers.get() {
            return Ok(breakers.clone());
        }
        let made = CircuitBreaker::new(self.setup.breakers.clone(), Arc::clone(&self.clock))?;
        Ok(self.breakers.get_or_init(|| made).clone())
    }
}

impl EngineInner {
    /// The variables of the environment that the keys for a plan's models come from; none of a replay, which
    /// needs none.
    pub(crate) fn key_variables(&self, spec: &PlanSpec) -> BTreeSet<String> {
        let models = models_of(spec);
        if models.is_empty() || self.models.is_replay() {
            return BTreeSet::new();
        }
        let Ok(providers) = self.models.providers(&self.redactor) else { return BTreeSet::new() };
        let origins = models.into_keys().filter_map(|model| providers.key_origin(model));
        // A file is read by any process that may read it, whatever its environment.
        origins.filter(|name| std::env::var_os(name).is_some()).map(str::to_owned).collect()
    }
}

/// The models that a plan asks: each once, with the step that asks it first.
fn models_of(spec: &PlanSpec) -> BTreeMap<&str, &str> {
    let of_strategist = spec.strategist.iter().flat_map(|strategist| &strategist.steps);
    let mut found = BTreeMap::new();
    for step in spec.steps.iter().chain(of_strategist) {
        if let NodeKind::Model(task) = &step.does {
            found.entry(task.model.as_str()).or_insert(step.node.as_str());
        }
    }
    found
}

/// Returns the problems of the models that a plan asks. No model is asked for it.
pub(crate) fn preflight(engine: &EngineInner, spec: &PlanSpec) -> Vec<String> {
    let models = models_of(spec);
    if models.is_empty() {
        return Vec::new();
    }
    let providers = match engine.models.providers(&engine.redactor) {
        Ok(providers) => providers,
        Err(error) => return vec![error_chain(error.as_ref())],
    };
    let finding = |(model, node): (&str, &str)| {
        let why = providers.check(model).err()?;
        Some(format!("node {node} uses {model}: {}", error_chain(&why)))
    };
    let unfit = models.into_iter().filter_map(finding);
    unfit.chain(without_means(engine, spec)).collect()
}

/// Returns the models that a limit of zero certainly blocks: the models of steps that nothing comes before.
fn without_means(engine: &EngineInner, spec: &PlanSpec) -> Vec<String> {
    let of_strategist = spec.strategist.as_ref().map_or(&[][..], |strategist| &strategist.steps);
    let all = asked_first(of_strategist).chain(asked_first(&spec.steps));
    let costs = |model: &str| {
        let price = engine.models.resolve(model, &engine.redactor).ok().and_then(|resolved| resolved.price);
        !engine.models.is_replay() && price.is_some_and(|price| price.input.max(price.output) > 0)
    };
    let mut findings = Vec::new();
    for (node, model) in all {
        for kind in [SpendKind::Tokens, SpendKind::Cost] {
            let needs_some = kind == SpendKind::Tokens || costs(model);
            if spec.limit(kind) == Some(0) && needs_some {
                findings.push(format!("limits.{kind} is 0: node {node} could not call {model}"));
            }
        }
    }
    findings
}

/// The models of steps that nothing comes before and nothing can skip, each with its node.
fn asked_first(steps: &[PlanStep]) -> impl Iterator<Item = (&str, &str)> {
    steps.iter().enumerate().filter_map(|(at, step)| {
        let is_first = step.needs.as_ref().map_or(at == 0, Vec::is_empty);
        let is_certain = is_first && step.only_if.is_none() && step.on != NeedsCondition::Failure;
        match &step.does {
            NodeKind::Model(task) if is_certain => Some((step.node.as_str(), task.model.as_str())),
            NodeKind::Model(_)
            | NodeKind::Command(_)
            | NodeKind::Read { .. }
            | NodeKind::Write { .. }
            | NodeKind::Edit { .. }
            | NodeKind::Wait { .. }
            | NodeKind::Tool { .. }
            | NodeKind::External(_)
            | NodeKind::Actor { .. } => None,
        }
    })
}

/// An error with all that it comes from, as far as it does not say so itself.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

impl Engine {
    /// Makes ready to ask models: a recording is made, or read, before any work begins.
    ///
    /// # Errors
    /// The recording cannot be made or used.
    pub fn ready_models(&self) -> Result<(), Arc<ModelsError>> {
        self.inner.models.providers(&self.inner.redactor).map(drop)
    }

    /// Returns the models that a plan asks and whose price is not known: no limit of money holds for them.
    pub fn unpriced(&self, spec: &PlanSpec) -> Vec<String> {
        let models = models_of(spec);
        if models.is_empty() {
            return Vec::new();
        }
        // A provider that cannot be asked at all is reported elsewhere.
        let Ok(providers) = self.inner.models.providers(&self.inner.redactor) else { return Vec::new() };
        models.into_keys().filter(|model| providers.is_unpriced(model)).map(str::to_owned).collect()
    }

    /// Returns the states of the providers of models, by name; no provider is asked.
    ///
    /// # Errors
    /// The recording cannot be made or used.
    pub fn provider_views(&self) -> Result<Vec<ProviderView>, Arc<ModelsError>> {
        Ok(self.inner.models.providers(&self.inner.redactor)?.views())
    }

    /// Of a run that is recorded: how many calls are by now. None when it is none, or nothing was asked.
    pub fn recorded_calls(&self) -> Option<u32> {
        self.inner.models.made.get()?.as_ref().ok()?.recorded_calls()
    }

    /// Returns the number of recorded calls that a replay has not used. `None` if this is no replay, or
    /// nothing was asked.
    pub fn unused_recorded_calls(&self) -> Option<usize> {
        self.inner.models.made.get()?.as_ref().ok()?.unused_calls()
    }
}
