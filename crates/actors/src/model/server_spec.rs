//! The address of a server and the headers of every request; an address that would leak a key is refused.
//!
//! # Invariants
//! 1. A key goes to another machine over TLS only, unless the user says otherwise.
//! 2. An address that is asked has no user, password or query in it. One that was only given may: it is shown
//!    by [`shown_url`] alone, and the redactor gets [`url_secrets`].

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::http::TimeLimits;
use super::key::ProviderKey;

/// The reason why a server cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its address is none.
    #[error("the base URL of {name}, `{url}`, {why}")]
    Url {
        /// The provider.
        name: String,
        /// The given address.
        url: String,
        /// The problem.
        why: &'static str,
    },
    /// No client can be made.
    #[error("no HTTP client can be made for {name}")]
    Client {
        /// The provider.
        name: String,
        /// The reason.
        #[source]
        source: reqwest::Error,
    },
}

/// The header that carries a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyHeader {
    Bearer,
    XApiKey,
}

/// The address and the headers of a server.
#[derive(Clone, Debug)]
pub(super) struct ServerSpec {
    /// As people call it.
    pub(super) name: String,
    pub(super) base_url: String,
    /// Below the base.
    pub(super) path: &'static str,
    pub(super) key: Option<ProviderKey>,
    pub(super) key_header: KeyHeader,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) limits: TimeLimits,
    /// A key may go over the net unencrypted, to another machine too.
    pub(super) allow_plain_http: bool,
}

/// The address that requests go to.
pub(super) fn checked_url(spec: &ServerSpec) -> Result<Url, ServerError> {
    let refused = |why| ServerError::Url { name: spec.name.clone(), url: shown_url(&spec.base_url), why };
    let joined = format!("{}{}", spec.base_url.trim_end_matches('/'), spec.path);
    let url = Url::parse(&joined).map_err(|_| refused("is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(refused("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("has a user or a password in it: give a key instead"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("has a `?` or a `#` in it"));
    }
    if spec.key.is_some() && url.scheme() == "http" && !is_loopback(&url) && !spec.allow_plain_http {
        return Err(refused(
            "would send the key unencrypted: use https://, or set `allow_plain_http = true`",
        ));
    }
    Ok(url)
}

/// An address as it may be shown: without a user and a password.
pub(super) fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    match (rest.rsplit_once('@'), scheme) {
        (Some((_, rest)), "") => format!("…@{rest}"),
        (Some((_, rest)), scheme) => format!("{scheme}://…@{rest}"),
        (None, _) => url.to_owned(),
    }
}

/// The secrets in an address: the text before an `@`, whole, and the password alone.
pub fn url_secrets(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let Some((who, _)) = rest.rsplit_once('@') else { return Vec::new() };
    let password = who.split_once(':').map(|(_, password)| password.to_owned());
    [Some(who.to_owned()), password].into_iter().flatten().filter(|secret| !secret.is_empty()).collect()
}

/// Returns true if it is this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The headers of every request.
pub(super) fn headers(spec: &ServerSpec) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in spec.headers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = &spec.key {
        let (name, value) = match spec.key_header {
            KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
            KeyHeader::XApiKey => (HeaderName::from_static("x-api-key"), key.reveal().to_owned()),
        };
        // A key has visible ASCII characters only, so it fits.
        if let Ok(mut value) = HeaderValue::try_from(value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    headers
}
