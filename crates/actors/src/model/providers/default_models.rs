//! Models for a task that names none: those that the settings name, and those that a server on this machine
//! offers.
//!
//! # Invariants
//! 1. Only this machine is asked anything, and no longer than [`ASK_LIMIT`].
//! 2. A provider that lacks a key is not offered.
//!
//! # Not here
//! The choice among them.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Client, Url};
use serde_json::Value;

use super::builtin_providers;
use super::settings::{Protocol, ProviderSettings, entries};
use crate::model::key::ProviderKey;
use crate::model::server_spec::{is_loopback, shown_url};

/// The time that a server on this machine may take to list its models. If none listens, that is known at
/// once.
pub const ASK_LIMIT: Duration = Duration::from_secs(1);
/// The limit of its answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The part of the name of a model that does not talk.
const NO_TALKER: &str = "embed";

/// A provider that could be asked.
#[derive(Clone, Debug)]
pub struct UsableProvider {
    /// Its name.
    pub provider: String,
    /// The model that the settings name for it.
    pub model: Option<String>,
    /// True if the settings have a table of it.
    pub is_set: bool,
    /// True if it is this machine.
    pub is_local: bool,
    base_url: String,
    speaks: Protocol,
    key: Option<ProviderKey>,
}

/// Returns the providers that lack no key. First are the user's own providers, by name. Then come the
/// built-in ones that the settings have a table of, then the other built-in ones that are on this machine.
/// The built-in ones are in the order of their list. `variable` reads the environment.
pub fn offers(
    settings: &BTreeMap<String, ProviderSettings>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<UsableProvider> {
    let (entries, _) = entries(settings.clone(), variable);
    let offer = |(name, entry): (String, super::ProviderEntry)| {
        let own = settings.get(&name);
        let key = entry.key.ok()?;
        let offer = UsableProvider {
            model: own.and_then(|own| own.model.clone()),
            is_set: own.is_some(),
            is_local: entry.is_local,
            base_url: entry.base_url,
            speaks: entry.speaks,
            provider: name,
            key,
        };
        (offer.is_set || offer.is_local).then_some(offer)
    };
    let mut offers: Vec<UsableProvider> = entries.into_iter().filter_map(offer).collect();
    let known = |offer: &UsableProvider| builtin_providers().position(|name| name == offer.provider);
    offers.sort_by_cached_key(|offer| (!offer.is_set, known(offer), offer.provider.clone()));
    offers
}

impl UsableProvider {
    /// Its address, without what may be a secret.
    pub fn shown_url(&self) -> String {
        shown_url(&self.base_url)
    }

    /// The first model that a server on this machine says it has; `None` if it is not one, does not run, or
    /// is slow.
    pub async fn first_model(&self) -> Option<String> {
        tokio::time::timeout(ASK_LIMIT, self.ask()).await.ok()?
    }

    async fn ask(&self) -> Option<String> {
        let url = Url::parse(&format!("{}/models", self.base_url.trim_end_matches('/'))).ok()?;
        if !is_loopback(&url) || self.speaks != Protocol::Openai {
            return None;
        }
        // Installed already, by this or by other code: both are fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().ok()?;
        let mut request = client.get(url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.reveal());
        }
        let mut response = request.send().await.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.ok()? {
            body.extend_from_slice(&piece);
            if body.len() > ANSWER_BYTES_MAX {
                return None;
            }
        }
        let listed: Value = serde_json::from_slice(&body).ok()?;
        let mut names = listed["data"].as_array()?.iter().filter_map(|model| model["id"].as_str());
        names.find(|name| is_model(name)).map(str::to_owned)
    }
}

/// Returns whether it can be a model's name, and of one that talks.
fn is_model(name: &str) -> bool {
    let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
    !name.is_empty() && name.len() <= 200 && name.chars().all(is_plain) && !name.contains(NO_TALKER)
}
