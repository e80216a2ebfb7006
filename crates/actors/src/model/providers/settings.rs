//! The provider settings of the configuration, laid over the built-in ones.
//!
//! # Invariants
//! 1. For a base URL and a key the settings go before the environment, that before what is built in. The
//!    value of a key is never in the settings.
//! 2. A server on this machine needs no key unless the settings name one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use super::ProviderEntry;
use super::builtin::{BUILTIN, BuiltinProvider};
use crate::model::http::TimeLimits;
use crate::model::key::{KeyError, ProviderKey};
use crate::model::openai::Dialect;
use crate::model::server_spec::is_loopback;

/// The wire that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Chat completions.
    Openai,
    /// Anthropic's messages.
    Anthropic,
}

/// The configuration of a provider. A new one needs `speaks` and `base_url`; a built-in one nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderSettings {
    /// The wire that it speaks.
    pub speaks: Option<Protocol>,
    /// Its location.
    pub base_url: Option<String>,
    /// The variable that has its key.
    pub key_env: Option<String>,
    /// The file that has its key: of mode 0600.
    pub key_file: Option<PathBuf>,
    /// Seconds to let us in; this and the next two are at least 1 and at most a day.
    pub connect_s: Option<u64>,
    /// Seconds between two signs of life.
    pub idle_s: Option<u64>,
    /// Seconds for a whole call.
    pub total_s: Option<u64>,
    /// True to ask for usage in the stream (`stream_options`); false for a server that refuses the question.
    pub stream_usage: Option<bool>,
    /// True if its key may go to another machine without TLS.
    pub allow_plain_http: bool,
    /// The number of tokens its models read and write in one call at most.
    pub context_tokens: Option<u32>,
    /// The number of tokens an answer may have.
    pub answer_tokens: Option<u32>,
    /// The model that is taken for a task that names none.
    pub model: Option<String>,
}

/// The longest time limit; the shortest is a second.
const LIMIT_S_MAX: u64 = 24 * 60 * 60;

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The providers by name, and those that lack something.
pub(super) fn entries(
    mut settings: BTreeMap<String, ProviderSettings>,
    variable: Variable<'_>,
) -> (BTreeMap<String, ProviderEntry>, BTreeMap<String, &'static str>) {
    let mut entries = BTreeMap::new();
    let mut incomplete = BTreeMap::new();
    for builtin in &BUILTIN {
        let own = settings.remove(builtin.name).unwrap_or_default();
        entries.insert(builtin.name.to_owned(), of_builtin(builtin, own, variable));
    }
    for (name, own) in settings {
        match (own.speaks, own.base_url.clone()) {
            (Some(speaks), Some(base_url)) => {
                let basis = EntryDefaults {
                    base_url,
                    speaks,
                    dialect: Dialect::COMPATIBLE,
                    key_variable: None,
                    is_free: false,
                };
                entries.insert(name.clone(), entry(name, basis, &own, variable));
            }
            (None, _) => {
                incomplete.insert(name, "speaks");
            }
            (Some(_), None) => {
                incomplete.insert(name, "url");
            }
        }
    }
    (entries, incomplete)
}

/// The defaults of an entry.
struct EntryDefaults {
    base_url: String,
    speaks: Protocol,
    dialect: Dialect,
    /// The variable of its key, if the settings name no place.
    key_variable: Option<&'static str>,
    is_free: bool,
}

fn of_builtin(builtin: &BuiltinProvider, own: ProviderSettings, variable: Variable<'_>) -> ProviderEntry {
    let from_environment = || match builtin.name {
        "ollama" => given(variable, "OLLAMA_HOST").map(|host| ollama_url(&host)),
        _ => builtin.url_variable.and_then(|name| given(variable, name)),
    };
    let changed = own.base_url.clone().or_else(from_environment);
    let is_changed = changed.is_some();
    let base_url = changed.unwrap_or_else(|| builtin.base_url.to_owned());
    // OpenAI's own ways are sure of OpenAI only; another server under its name gets what all understand.
    let dialect =
        if is_changed && builtin.dialect == Dialect::OPENAI { Dialect::COMPATIBLE } else { builtin.dialect };
    let basis = EntryDefaults {
        base_url,
        speaks: own.speaks.unwrap_or(builtin.speaks),
        dialect,
        key_variable: builtin.key_variable,
        is_free: builtin.is_free,
    };
    entry(builtin.name.to_owned(), basis, &own, variable)
}

fn entry(
    name: String,
    basis: EntryDefaults,
    own: &ProviderSettings,
    variable: Variable<'_>,
) -> ProviderEntry {
    let EntryDefaults { base_url, speaks, dialect, key_variable, is_free } = basis;
    let is_local = Url::parse(&base_url).is_ok_and(|url| is_loopback(&url));
    let usual = if is_local { TimeLimits::LOCAL } else { TimeLimits::REMOTE };
    let seconds = |given: Option<u64>, usual| {
        given.map_or(usual, |given| Duration::from_secs(given.clamp(1, LIMIT_S_MAX)))
    };
    let limits = TimeLimits {
        connect: seconds(own.connect_s, usual.connect),
        idle: seconds(own.idle_s, usual.idle),
        total: seconds(own.total_s, usual.total),
    };
    ProviderEntry {
        key: key(own, key_variable, is_local, variable).map_err(Arc::new),
        name,
        speaks,
        base_url,
        is_local,
        is_free: is_free && is_local,
        dialect: Dialect { asks_usage: own.stream_usage.unwrap_or(dialect.asks_usage), ..dialect },
        limits,
        allow_plain_http: own.allow_plain_http,
        context_tokens: own.context_tokens,
        answer_tokens: own.answer_tokens,
        client: OnceLock::new(),
    }
}

fn key(
    own: &ProviderSettings,
    usual: Option<&'static str>,
    is_local: bool,
    variable: Variable<'_>,
) -> Result<Option<ProviderKey>, KeyError> {
    let named = own.key_env.as_deref().or(usual);
    if let Some(name) = named
        && let Some(value) = given(variable, name)
    {
        return ProviderKey::new(&value, name).map(Some);
    }
    if let Some(path) = &own.key_file {
        return ProviderKey::from_file(path).map(Some);
    }
    match named {
        Some(name) if own.key_env.is_some() || !is_local => {
            Err(KeyError::Missing { variable: name.to_owned() })
        }
        Some(_) | None => Ok(None),
    }
}

/// A variable that is set to something.
fn given(variable: Variable<'_>, name: &str) -> Option<String> {
    variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Ollama's variable is what its server listens on: a host, perhaps a port, perhaps a scheme.
fn ollama_url(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.trim_end_matches('/');
    let reachable = match rest.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None => rest.to_owned(),
    };
    let has_port = reachable.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port || scheme == "https" { "" } else { ":11434" };
    format!("{scheme}://{reachable}{port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ollama_listens_on_becomes_a_url() {
        for (host, url) in [
            ("127.0.0.1:9999", "http://127.0.0.1:9999/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
            ("https://models.example/", "https://models.example/v1"),
            ("box", "http://box:11434/v1"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }
}
