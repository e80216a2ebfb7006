//! The providers of `PROVIDER/NAME`: the built-in ones, those of the configuration, their keys and their
//! breakers.
//!
//! # Invariants
//! 1. Every key is read once, at the start, so that the redactor can know all of them before anything is
//!    shown.
//! 2. A provider that lacks something is listed all the same. The error of the first call says what it lacks.
//! 3. A provider has one client and one breaker per process. Its breaker is outermost: a caller that is
//!    turned away has made no call, so a recording has nothing of it.
//! 4. A replay needs no key and makes no client. The recorded provider need not exist any more: its settings
//!    are those of the recording.
//!
//! # Not here
//! The choice of a plan's model, and the check that a server on this machine really runs.

mod builtin;
mod default_models;
mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use sync::CircuitBreaker;

use super::anthropic::{Anthropic, AnthropicSpec};
use super::http::TimeLimits;
use super::key::{KeyError, ProviderKey};
use super::openai::{Dialect, OpenAi, OpenAiSpec};
use super::price::{Price, PriceList, Prices};
use super::provider_breaker::{BreakerListener, GuardedProvider};
use super::replay::{ModelLimits, Participants, Recorder, RecordingError, Replay};
use super::request::Provider;
use super::server_spec::{ServerError, shown_url, url_secrets};

pub use default_models::{ASK_LIMIT, UsableProvider, offers};
pub use settings::{Protocol, ProviderSettings};

/// Selects whether calls are recorded, or answered from a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingMode {
    /// Calls are neither recorded nor replayed.
    Live,
    /// Recorded in a new file.
    Record {
        /// The file.
        path: PathBuf,
        /// The participants of the run.
        cast: Participants,
    },
    /// Answered from a file.
    Replay(PathBuf),
}

/// The inputs of [`Providers`].
pub struct ProvidersSetup {
    /// By name: new providers, and what is different about the built-in ones.
    pub settings: BTreeMap<String, ProviderSettings>,
    /// The prices of models.
    pub prices: Prices,
    /// The process's breakers.
    pub breakers: CircuitBreaker,
    /// Hears when one opens or closes.
    pub news: Arc<dyn BreakerListener>,
    /// Says if calls are recorded.
    pub mode: RecordingMode,
}

/// The reason why a model cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// It is no name of a model.
    #[error("`{model}` is not a model: write PROVIDER/NAME, as in anthropic/claude-sonnet-4-5")]
    NoModel {
        /// The given text.
        model: String,
    },
    /// There is no provider of that name.
    #[error("there is no provider `{name}`; the providers are {known}")]
    Unknown {
        /// The given name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Its settings do not say enough.
    #[error("the provider `{name}` lacks `{lacks}` in its settings")]
    Incomplete {
        /// The name of the provider.
        name: String,
        /// The setting to add.
        lacks: &'static str,
    },
    /// Its key is missing or unusable.
    #[error("{name} cannot be used: {source}")]
    Key {
        /// The name of the provider.
        name: String,
        /// The reason.
        #[source]
        source: Arc<KeyError>,
    },
    /// Its address is none, or no client can be made.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A model, and who answers for it.
#[derive(Clone)]
pub struct ResolvedModel {
    /// The provider that answers the calls that it admits.
    pub provider: Arc<GuardedProvider>,
    /// The model's name there.
    pub model: String,
    /// Its price, if it is known.
    pub price: Option<Price>,
    /// The number of tokens it reads and writes in one call at most, as far as the settings say.
    pub context_tokens: Option<u32>,
    /// The number of tokens an answer may have, as far as the settings say.
    pub answer_tokens: Option<u32>,
}

/// The state of a provider, for people and for the choice of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderView {
    /// Its name.
    pub name: String,
    /// Its address, without a user and a password.
    pub base_url: String,
    /// True if that is this machine.
    pub is_local: bool,
    /// True if it has a key; a server on this machine may do without.
    pub has_key: bool,
    /// The thing that it lacks before it can be asked; `None`: nothing.
    pub lacks: Option<String>,
}

struct ProviderEntry {
    name: String,
    speaks: Protocol,
    base_url: String,
    is_local: bool,
    is_free: bool,
    dialect: Dialect,
    limits: TimeLimits,
    key: Result<Option<ProviderKey>, Arc<KeyError>>,
    allow_plain_http: bool,
    context_tokens: Option<u32>,
    answer_tokens: Option<u32>,
    client: OnceLock<Arc<GuardedProvider>>,
}

enum ActiveRecording {
    None,
    Record(Arc<Recorder>),
    Replay(Arc<Replay>),
}

/// The names of the providers that need no settings.
pub fn builtin_providers() -> impl Iterator<Item = &'static str> {
    builtin::BUILTIN.iter().map(|builtin| builtin.name)
}

/// All providers of this process.
pub struct Providers {
    entries: BTreeMap<String, ProviderEntry>,
    /// Settings that make no provider, and what they lack.
    incomplete: BTreeMap<String, &'static str>,
    prices: Arc<Prices>,
    breakers: CircuitBreaker,
    news: Arc<dyn BreakerListener>,
    tape: ActiveRecording,
}

impl Providers {
    /// The providers; `variable` gives the environment.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be made or read.
    pub fn new(
        setup: ProvidersSetup,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Providers, RecordingError> {
        let ProvidersSetup { settings, prices, breakers, news, mode } = setup;
        let (entries, incomplete) = settings::entries(settings, variable);
        let keys = entries.values().filter_map(|entry| entry.key.as_ref().ok()?.clone()).collect();
        let tape = match mode {
            RecordingMode::Live => ActiveRecording::None,
            RecordingMode::Record { path, cast } => {
                ActiveRecording::Record(Arc::new(Recorder::create(&path, keys, cast)?))
            }
            RecordingMode::Replay(path) => ActiveRecording::Replay(Arc::new(Replay::open(&path)?)),
        };
        Ok(Providers { entries, incomplete, prices: Arc::new(prices), breakers, news, tape })
    }

    /// Returns the provider that answers for `PROVIDER/NAME`.
    ///
    /// # Errors
    /// Returns an error if there is no such provider, or it lacks something; the message says what to do.
    pub fn resolve(&self, model: &str) -> Result<ResolvedModel, ProviderError> {
        let (name, model) = parts(model)?;
        let replayed =
            |replay: &Arc<Replay>| Arc::new(GuardedProvider::without_breaker(replay.provider(name)));
        let (provider, bounds, price) = match (&self.tape, self.entry(name)) {
            (ActiveRecording::Replay(replay), Ok(entry)) => {
                let bounds = replay.recorded_limits(name).unwrap_or_else(|| entry.bounds());
                (replayed(replay), bounds, self.price(entry, model))
            }
            (ActiveRecording::Replay(replay), Err(_)) => (replayed(replay), replay.bounds(name), None),
            (ActiveRecording::Record(_) | ActiveRecording::None, entry) => {
                let entry = entry?;
                (self.client(entry)?, entry.bounds(), self.price(entry, model))
            }
        };
        let ModelLimits { context_tokens, answer_tokens } = bounds;
        Ok(ResolvedModel { provider, model: model.to_owned(), price, context_tokens, answer_tokens })
    }

    /// Checks that `PROVIDER/NAME` could be asked, as far as settings and keys go: nothing is made, and no
    /// server is asked.
    ///
    /// # Errors
    /// Returns the same errors as [`resolve`](Self::resolve).
    pub fn check(&self, model: &str) -> Result<(), ProviderError> {
        let (name, _) = parts(model)?;
        if let ActiveRecording::Replay(_) = self.tape {
            return Ok(());
        }
        let entry = self.entry(name)?;
        match &entry.key {
            Ok(_) => Ok(()),
            Err(source) => Err(ProviderError::Key { name: entry.name.clone(), source: Arc::clone(source) }),
        }
    }

    /// Returns whether the cost of `PROVIDER/NAME` is unknown. The answer of a replay, or of a model on this
    /// machine without a price, costs nothing.
    pub fn is_unpriced(&self, model: &str) -> bool {
        let Ok((name, model)) = parts(model) else { return false };
        let Ok(entry) = self.entry(name) else { return false };
        let is_asked = !matches!(self.tape, ActiveRecording::Replay(_));
        is_asked && !entry.is_local && self.price_list(entry).of(model).is_none()
    }

    /// The state of each provider, by name.
    pub fn views(&self) -> Vec<ProviderView> {
        let is_replay = matches!(self.tape, ActiveRecording::Replay(_));
        let incomplete = self.incomplete.iter().map(|(name, lacks)| ProviderView {
            name: name.clone(),
            base_url: String::new(),
            is_local: false,
            has_key: false,
            lacks: Some(format!("its settings lack `{lacks}`")),
        });
        let mut views: Vec<_> =
            self.entries.values().map(|entry| entry.view(is_replay)).chain(incomplete).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// The keys, and the passwords in addresses, for the redactor only.
    pub fn secrets(&self) -> Vec<String> {
        let keys = self.entries.values().filter_map(|entry| entry.key.as_ref().ok()?.as_ref());
        let in_urls = self.entries.values().flat_map(|entry| url_secrets(&entry.base_url));
        keys.map(|key| key.reveal().to_owned()).chain(in_urls).collect()
    }

    /// The origin of the key for `PROVIDER/NAME`: a variable of the environment, or a file. `None` if it has
    /// none.
    pub fn key_origin(&self, model: &str) -> Option<&str> {
        let (name, _) = parts(model).ok()?;
        self.entry(name).ok()?.key.as_ref().ok()?.as_ref().map(ProviderKey::origin)
    }

    /// Of what is recorded: how many calls are by now.
    pub fn recorded_calls(&self) -> Option<u32> {
        match &self.tape {
            ActiveRecording::Record(recorder) => Some(recorder.calls()),
            ActiveRecording::None | ActiveRecording::Replay(_) => None,
        }
    }

    /// The number of recorded calls of a replay that no request has asked for.
    pub fn unused_calls(&self) -> Option<usize> {
        match &self.tape {
            ActiveRecording::Replay(replay) => Some(replay.unused()),
            ActiveRecording::None | ActiveRecording::Record(_) => None,
        }
    }

    fn entry(&self, name: &str) -> Result<&ProviderEntry, ProviderError> {
        if let Some(entry) = self.entries.get(name) {
            return Ok(entry);
        }
        let name = name.to_owned();
        Err(match self.incomplete.get(&name) {
            Some(lacks) => ProviderError::Incomplete { name, lacks },
            None => {
                let known: Vec<&str> = self.entries.keys().map(String::as_str).collect();
                ProviderError::Unknown { name, known: known.join(", ") }
            }
        })
    }

    /// The one client. Of two that are made at the same moment one is thrown away, unused.
    fn client(&self, entry: &ProviderEntry) -> Result<Arc<GuardedProvider>, ProviderError> {
        if let Some(client) = entry.client.get() {
            return Ok(Arc::clone(client));
        }
        let bare = entry.connect(self.price_list(entry))?;
        let kept = match &self.tape {
            ActiveRecording::Record(recorder) => recorder.wrap(&entry.name, entry.bounds(), bare),
            ActiveRecording::Replay(_) | ActiveRecording::None => bare,
        };
        let breaker = self.breakers.handle(&format!("model/{}", entry.name));
        let guarded = GuardedProvider::new(kept, &entry.name, breaker, Arc::clone(&self.news));
        Ok(Arc::clone(entry.client.get_or_init(|| Arc::new(guarded))))
    }

    fn price(&self, entry: &ProviderEntry, model: &str) -> Option<Price> {
        self.price_list(entry).of(model)
    }

    fn price_list(&self, entry: &ProviderEntry) -> PriceList {
        match entry.is_free {
            true => PriceList::free(),
            false => PriceList::for_provider(Arc::clone(&self.prices), &entry.name),
        }
    }
}

fn parts(model: &str) -> Result<(&str, &str), ProviderError> {
    match model.split_once('/') {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() => Ok((name, rest)),
        Some(_) | None => Err(ProviderError::NoModel { model: model.to_owned() }),
    }
}

impl ProviderEntry {
    fn bounds(&self) -> ModelLimits {
        ModelLimits { context_tokens: self.context_tokens, answer_tokens: self.answer_tokens }
    }

    fn connect(&self, prices: PriceList) -> Result<Arc<dyn Provider>, ProviderError> {
        let key =
            self.key.clone().map_err(|source| ProviderError::Key { name: self.name.clone(), source })?;
        let (name, base_url) = (self.name.clone(), self.base_url.clone());
        let (limits, allow_plain_http, dialect) = (self.limits, self.allow_plain_http, self.dialect);
        Ok(match self.speaks {
            Protocol::Openai => {
                let spec = OpenAiSpec { name, base_url, key, dialect, limits, allow_plain_http };
                Arc::new(OpenAi::new(spec, prices)?)
            }
            Protocol::Anthropic => {
                let spec = AnthropicSpec { name, base_url, key, limits, allow_plain_http };
                Arc::new(Anthropic::new(spec, prices)?)
            }
        })
    }

    fn view(&self, is_replay: bool) -> ProviderView {
        let lacks = match &self.key {
            Err(why) if !is_replay => Some(why.to_string()),
            Ok(_) | Err(_) => None,
        };
        ProviderView {
            name: self.name.clone(),
            base_url: shown_url(&self.base_url),
            is_local: self.is_local,
            has_key: matches!(self.key, Ok(Some(_))),
            lacks,
        }
    }
}
