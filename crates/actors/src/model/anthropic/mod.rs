//! Anthropic's messages.
//!
//! # Invariants
//! 1. A schema for the answer is a tool that the model answers with: every model and gateway knows tools. Its
//!    call is given back as text, so no caller sees the difference.
//! 2. If tools are offered, many turns follow, so the provider is asked to cache the prompt.

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
use answer::Reply;

/// The version of the interface that is spoken.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// A server of messages, and what its models cost.
#[derive(Clone, Debug)]
pub struct AnthropicSpec {
    /// As people call it.
    pub name: String,
    /// Without a version: `https://api.anthropic.com`.
    pub base_url: String,
    /// Without one, none is sent.
    pub key: Option<ProviderKey>,
    /// Its time limit.
    pub limits: TimeLimits,
    /// True if a key may go to another machine without TLS.
    pub allow_plain_http: bool,
}

/// A client of messages and its prices.
#[derive(Debug)]
pub struct Anthropic {
    server: ModelServer,
    prices: PriceList,
}

impl Anthropic {
    /// A client; `prices` are those of its models.
    ///
    /// # Errors
    /// Returns an error if the base URL is invalid, or no HTTP client can be made.
    pub fn new(spec: AnthropicSpec, prices: PriceList) -> Result<Anthropic, ServerError> {
        let AnthropicSpec { name, base_url, key, limits, allow_plain_http } = spec;
        let server = ModelServer::new(ServerSpec {
            name,
            base_url,
            path: "/v1/messages",
            key,
            key_header: KeyHeader::XApiKey,
            headers: &[VERSION],
            limits,
            allow_plain_http,
        })?;
        Ok(Anthropic { server, prices })
    }
}

#[async_trait]
impl Provider for Anthropic {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        let names = ToolNames::of(request);
        let answer_tool = request.output.as_ref().map(|_| names.unused("final_answer"));
        let body = request::body(request, &names, answer_tool.as_deref());
        let mut reply = Reply::default();
        self.server.ask(body.to_string().into_bytes(), &mut reply, heard, scope).await?;
        let whole = reply
            .finish(request, &names, answer_tool.as_deref())
            .map_err(|what| self.server.failed(ErrorCategory::ModelOutput, &what))?;
        let tokens = whole.tokens;
        let usage = TokenUsage {
            tokens_in: tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write),
            tokens_out: tokens.output,
            cost_micros: self.prices.of(&request.model).map_or(0, |price| price.cost_micros(&tokens)),
        };
        Ok(ModelAnswer { text: whole.text, calls: whole.calls, stop: whole.stop, usage })
    }
}
