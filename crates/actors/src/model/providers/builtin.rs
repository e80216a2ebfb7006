//! The providers that need no settings.

use super::settings::Protocol;
use crate::model::openai::Dialect;

/// A provider as the program knows it.
pub(super) struct BuiltinProvider {
    pub(super) name: &'static str,
    pub(super) speaks: Protocol,
    pub(super) base_url: &'static str,
    /// A variable that others have made a custom for the base URL.
    pub(super) url_variable: Option<&'static str>,
    pub(super) key_variable: Option<&'static str>,
    pub(super) dialect: Dialect,
    /// It runs models on one's own machine: they cost nothing.
    pub(super) is_free: bool,
}

pub(super) const BUILTIN: [BuiltinProvider; 5] = [
    BuiltinProvider {
        name: "anthropic",
        speaks: Protocol::Anthropic,
        base_url: "https://api.anthropic.com",
        url_variable: Some("ANTHROPIC_BASE_URL"),
        key_variable: Some("ANTHROPIC_API_KEY"),
        dialect: Dialect::COMPATIBLE,
        is_free: false,
    },
    BuiltinProvider {
        name: "openai",
        speaks: Protocol::Openai,
        base_url: "https://api.openai.com/v1",
        url_variable: Some("OPENAI_BASE_URL"),
        key_variable: Some("OPENAI_API_KEY"),
        dialect: Dialect::OPENAI,
        is_free: false,
    },
    BuiltinProvider {
        name: "openrouter",
        speaks: Protocol::Openai,
        base_url: "https://openrouter.ai/api/v1",
        url_variable: None,
        key_variable: Some("OPENROUTER_API_KEY"),
        dialect: Dialect::OPENROUTER,
        is_free: false,
    },
    BuiltinProvider {
        name: "ollama",
        speaks: Protocol::Openai,
        base_url: "http://127.0.0.1:11434/v1",
        url_variable: None,
        key_variable: None,
        dialect: Dialect::COMPATIBLE,
        is_free: true,
    },
    BuiltinProvider {
        name: "llamacpp",
        speaks: Protocol::Openai,
        base_url: "http://127.0.0.1:8080/v1",
        url_variable: None,
        key_variable: None,
        dialect: Dialect::COMPATIBLE,
        is_free: true,
    },
];
