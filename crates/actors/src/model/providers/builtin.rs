//! The providers that need no settings.

use super::settings::Speaks;
use crate::model::openai::Dialect;

/// A provider as the program knows it.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) speaks: Speaks,
    pub(super) base_url: &'static str,
    /// A variable that others have made a custom for the base URL.
    pub(super) url_variable: Option<&'static str>,
    pub(super) key_variable: Option<&'static str>,
    pub(super) dialect: Dialect,
    /// It runs models on one's own machine: they cost nothing.
    pub(super) is_free: bool,
}

pub(super) const BUILTIN: [Builtin; 5] = [
    Builtin {
        name: "anthropic",
        speaks: Speaks::Anthropic,
        base_url: "https://api.anthropic.com",
        url_variable: Some("ANTHROPIC_BASE_URL"),
        key_variable: Some("ANTHROPIC_API_KEY"),
        dialect: Dialect::COMPATIBLE,
        is_free: false,
    },
    Builtin {
        name: "openai",
        speaks: Speaks::Openai,
        base_url: "https://api.openai.com/v1",
        url_variable: Some("OPENAI_BASE_URL"),
        key_variable: Some("OPENAI_API_KEY"),
        dialect: Dialect::OPENAI,
        is_free: false,
    },
    Builtin {
        name: "openrouter",
        speaks: Speaks::Openai,
        base_url: "https://openrouter.ai/api/v1",
        url_variable: None,
        key_variable: Some("OPENROUTER_API_KEY"),
        dialect: Dialect::OPENROUTER,
        is_free: false,
    },
    Builtin {
        name: "ollama",
        speaks: Speaks::Openai,
        base_url: "http://127.0.0.1:11434/v1",
        url_variable: None,
        key_variable: None,
        dialect: Dialect::COMPATIBLE,
        is_free: true,
    },
    Builtin {
        name: "llamacpp",
        speaks: Speaks::Openai,
        base_url: "http://127.0.0.1:8080/v1",
        url_variable: None,
        key_variable: None,
        dialect: Dialect::COMPATIBLE,
        is_free: true,
    },
];
