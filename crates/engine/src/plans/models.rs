//! The models of this process: who is asked, what that may cost, and how their breakers stand.
//!
//! # Invariants
//! 1. Providers are made when a model is first asked for, once; an engine that asks none reads no key and makes no client.
//! 2. As soon as keys are read the redactor knows them: before that nobody here could show one.
//! 3. The process has one set of breakers, whatever number of plans it works on; how they change is told (`breakers`).
//!
//! # Not here
//! The turns of a model (`phases::model`) and the wire (`actors::model`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use actors::model::{
    Prices, PricesError, ProviderError, Providers, ProvidersSetup, RecordingError, Resolved,
};
use domain::{Does, PlanSpec};
use sync::{BreakerConfig, CircuitBreaker, Clock};

pub use actors::model::{Mode, Price, ProviderSettings, ProviderView, Speaks};

use super::breakers::Board;
use super::mcp_servers::Servers;
use super::secrets::Secrets;
use super::{Engine, House};

/// What models are asked with.
#[derive(Clone, Debug)]
pub struct ModelsSetup {
    /// What the settings say of providers, by name.
    pub providers: Arc<BTreeMap<String, ProviderSettings>>,
    /// What the settings say of prices, by `PROVIDER/NAME`.
    pub prices: Arc<BTreeMap<String, Price>>,
    /// The servers whose tools models may call.
    pub servers: Arc<Servers>,
    /// Whether calls are kept, or answered from what was kept.
    pub mode: Mode,
    /// What all plans together may spend on models in one day (UTC), in millionths of a dollar.
    pub day_cost: Option<u64>,
    /// How often a provider fails in a row until it is given a rest, and for how long.
    pub breakers: BreakerConfig,
}

/// The built-in providers and prices, asked for real.
impl Default for ModelsSetup {
    fn default() -> Self {
        Self {
            providers: Arc::default(),
            prices: Arc::default(),
            servers: Arc::default(),
            mode: Mode::Live,
            day_cost: None,
            breakers: BreakerConfig::default(),
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
pub(crate) enum NoModel {
    /// None can.
    #[error(transparent)]
    All(Arc<ModelsError>),
    /// This one.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Who is asked in this process.
pub(crate) struct Models {
    setup: ModelsSetup,
    clock: Arc<dyn Clock>,
    made: OnceLock<Result<Providers, Arc<ModelsError>>>,
    data_dir: PathBuf,
}

impl Models {
    pub(crate) fn new(setup: ModelsSetup, clock: Arc<dyn Clock>, data_dir: &Path) -> Self {
        Self { setup, clock, made: OnceLock::new(), data_dir: data_dir.to_owned() }
    }

    /// The limit of a day, where there is one.
    pub(crate) fn day_cost(&self) -> Option<u64> {
        self.setup.day_cost
    }

    /// Whether calls are answered from a recording.
    pub(crate) fn is_replay(&self) -> bool {
        matches!(self.setup.mode, Mode::Replay(_))
    }

    /// Who answers for `PROVIDER/NAME`.
    pub(crate) fn resolve(&self, model: &str, secrets: &Secrets) -> Result<Resolved, NoModel> {
        Ok(self.providers(secrets).map_err(NoModel::All)?.resolve(model)?)
    }

    /// Those that were made, or are made now.
    fn providers(&self, secrets: &Secrets) -> Result<&Providers, Arc<ModelsError>> {
        let made = self.made.get_or_init(|| {
            let providers = self.make().map_err(Arc::new)?;
            secrets.know(providers.secrets());
            Ok(providers)
        });
        made.as_ref().map_err(Arc::clone)
    }

    fn make(&self) -> Result<Providers, ModelsError> {
        let ModelsSetup { providers, prices, servers: _, mode, day_cost: _, breakers } = &self.setup;
        let setup = ProvidersSetup {
            settings: providers.as_ref().clone(),
            prices: Prices::listed(prices)?,
            breakers: CircuitBreaker::new(breakers.clone(), Arc::clone(&self.clock))?,
            news: Arc::new(Board::of(&self.data_dir)),
            mode: mode.clone(),
        };
        Ok(Providers::new(setup, &|name| std::env::var(name).ok())?)
    }
}

/// The models that a plan asks: each once, with the step that asks it first.
fn models_of(spec: &PlanSpec) -> BTreeMap<&str, &str> {
    let of_strategist = spec.strategist.iter().flat_map(|strategist| &strategist.steps);
    let mut found = BTreeMap::new();
    for step in spec.steps.iter().chain(of_strategist) {
        if let Does::Model(task) = &step.does {
            found.entry(task.model.as_str()).or_insert(step.node.as_str());
        }
    }
    found
}

/// What stands in the way of the models that a plan asks. Nobody is asked for it.
pub(super) fn preflight(house: &House, spec: &PlanSpec) -> Vec<String> {
    let models = models_of(spec);
    if models.is_empty() {
        return Vec::new();
    }
    let providers = match house.models.providers(&house.redactor) {
        Ok(providers) => providers,
        Err(error) => return vec![told(error.as_ref())],
    };
    let finding = |(model, node): (&str, &str)| {
        let why = providers.check(model).err()?;
        Some(format!("node {node} asks {model}: {}", told(&why)))
    };
    models.into_iter().filter_map(finding).collect()
}

/// An error with all that it comes from, as far as it does not say so itself.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
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
        self.house.models.providers(&self.house.redactor).map(drop)
    }

    /// The models that a plan asks and of which nobody can say what they cost: no limit of money holds for them.
    pub fn unpriced(&self, spec: &PlanSpec) -> Vec<String> {
        let models = models_of(spec);
        if models.is_empty() {
            return Vec::new();
        }
        // Whoever cannot be asked at all is told so elsewhere.
        let Ok(providers) = self.house.models.providers(&self.house.redactor) else { return Vec::new() };
        models.into_keys().filter(|model| providers.is_unpriced(model)).map(str::to_owned).collect()
    }

    /// How the providers of models stand, by name; nobody is asked.
    ///
    /// # Errors
    /// The recording cannot be made or used.
    pub fn provider_views(&self) -> Result<Vec<ProviderView>, Arc<ModelsError>> {
        Ok(self.house.models.providers(&self.house.redactor)?.views())
    }

    /// Of a replay: how many recorded calls nobody has asked for. None when it is none, or nothing was asked.
    pub fn unused_recorded_calls(&self) -> Option<usize> {
        self.house.models.made.get()?.as_ref().ok()?.unused_calls()
    }
}
