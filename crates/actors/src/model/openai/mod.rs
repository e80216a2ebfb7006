//! Chat completions as OpenAI speaks them, and with it Ollama, llama.cpp, vLLM, OpenRouter and many more.
//!
//! # Invariants
//! 1. A difference between servers that must be known before asking is in a [`Dialect`]. A difference in the
//!    answer is accepted.
//! 2. An answer without a reported usage is counted by its bytes: a limit holds with every server.

mod answer;
mod request;

use async_trait::async_trait;
use domain::{ErrorCategory, TokenUsage};
use sync::Observed;

use super::ModelError;
use super::http::{ModelServer, TimeLimits};
use super::key::ProviderKey;
use super::price::PriceList;
use super::request::{ModelAnswer, ModelRequest, Provider, TextListener};
use super::server_spec::{KeyHeader, ServerError, ServerSpec};
use super::tool_names::ToolNames;
use answer::Completion;

/// The properties of a server that must be known before it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The bound of an answer is `max_completion_tokens`, the newer word, which some servers do not know and
    /// some models demand.
    pub newer_bound: bool,
    /// A schema for the answer and tools may go together. Elsewhere the schema would prevent the model from
    /// calling any, so it is put in words as long as tools are offered.
    pub schema_beside_tools: bool,
    /// It is asked to send its usage (`stream_options`).
    pub asks_usage: bool,
}

impl Dialect {
    /// OpenAI itself.
    pub const OPENAI: Dialect = Dialect { newer_bound: true, schema_beside_tools: true, asks_usage: true };
    /// A server of the same kind.
    pub const COMPATIBLE: Dialect =
        Dialect { newer_bound: false, schema_beside_tools: false, asks_usage: true };
    /// OpenRouter, which passes on to others.
    pub const OPENROUTER: Dialect =
        Dialect { newer_bound: false, schema_beside_tools: true, asks_usage: true };
}

/// A server of chat completions, and what its models cost.
#[derive(Clone, Debug)]
pub struct OpenAiSpec {
    /// As people call it.
    pub name: String,
    /// Up to and with its version: `https://api.openai.com/v1`.
    pub base_url: String,
    /// Without one, none is sent.
    pub key: Option<ProviderKey>,
    /// Its differences.
    pub dialect: Dialect,
    /// Its time limit.
    pub limits: TimeLimits,
    /// True if a key may go to another machine without TLS.
    pub allow_plain_http: bool,
}

/// A client of chat completions and its prices.
#[derive(Debug)]
pub struct OpenAi {
    server: ModelServer,
    dialect: Dialect,
    prices: PriceList,
}

impl OpenAi {
    /// A client; `prices` are those of its models.
    ///
    /// # Errors
    /// Returns an error if the base URL is invalid, or no HTTP client can be made.
    pub fn new(spec: OpenAiSpec, prices: PriceList) -> Result<OpenAi, ServerError> {
        let OpenAiSpec { name, base_url, key, dialect, limits, allow_plain_http } = spec;
        let server = ModelServer::new(ServerSpec {
            name,
            base_url,
            path: "/chat/completions",
            key,
            key_header: KeyHeader::Bearer,
            headers: &[],
            limits,
            allow_plain_http,
        })?;
        Ok(OpenAi { server, dialect, prices })
    }
}

#[async_trait]
impl Provider for OpenAi {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        let names = ToolNames::of(request);
        let body = request::body(request, &names, self.dialect);
        let mut completion = Completion::default();
        self.server.ask(body.to_string().into_bytes(), &mut completion, heard, scope).await?;
        let whole = completion
            .finish(request, &names)
            .map_err(|what| self.server.failed(ErrorCategory::ModelOutput, &what))?;
        let tokens = whole.tokens;
        let usage = TokenUsage {
            tokens_in: tokens.input.saturating_add(tokens.cache_read),
            tokens_out: tokens.output,
            cost_micros: self.prices.of(&request.model).map_or(0, |price| price.cost_micros(&tokens)),
        };
        Ok(ModelAnswer { text: whole.text, calls: whole.calls, stop: whole.stop, usage })
    }
}
