//! Shared test helpers: requests, clients, and the texts that they received.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actors::model::{
    Anthropic, AnthropicSpec, Dialect, GuardedProvider, Message, ModelAnswer, ModelError, ModelRequest,
    OpenAi, OpenAiSpec, Price, PriceList, Prices, Provider, ProviderKey, TextListener, TimeLimits,
    ToolSource, ToolSpec,
};
use serde_json::{Value, json};
use sync::{CancellationToken, Observed};

pub(crate) const SECRET: &str = "sk-test-0123456789abcdef";

/// Long enough for any machine: what ends sooner ends by what is tested.
pub(crate) const PATIENT: TimeLimits = TimeLimits {
    connect: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    total: Duration::from_secs(120),
};

pub(crate) fn request(text: &str) -> ModelRequest {
    ModelRequest {
        model: "m-1".to_owned(),
        system: "be brief".to_owned(),
        messages: vec![Message::User(text.to_owned())],
        tools: Vec::new(),
        max_tokens: 500,
        output: None,
        caller: "main".to_owned(),
    }
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        input: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        output: json!({}),
        reads: true,
        writes: false,
        network: false,
        timeout_s: 10,
        source: ToolSource::Builtin,
    }
}

/// 2 micro-dollars a token read, 10 written, 1 from the cache, 3 into it.
pub(crate) fn prices(provider: &str) -> PriceList {
    let price = Price {
        input: 2_000_000,
        output: 10_000_000,
        cache_read: Some(1_000_000),
        cache_write: Some(3_000_000),
    };
    let prices = Prices::with_overrides(&BTreeMap::from([(format!("{provider}/m-1"), price)])).unwrap();
    PriceList::for_provider(Arc::new(prices), provider)
}

pub(crate) fn openai(url: &str) -> OpenAi {
    openai_with(url, Dialect::COMPATIBLE, PATIENT)
}

pub(crate) fn openai_with(url: &str, dialect: Dialect, limits: TimeLimits) -> OpenAi {
    let spec = OpenAiSpec {
        name: "openai".to_owned(),
        base_url: format!("{url}/v1"),
        key: Some(ProviderKey::new(SECRET, "TEST_KEY").unwrap()),
        dialect,
        limits,
        allow_plain_http: false,
    };
    OpenAi::new(spec, prices("openai")).unwrap()
}

pub(crate) fn anthropic(url: &str) -> Anthropic {
    let spec = AnthropicSpec {
        name: "anthropic".to_owned(),
        base_url: url.to_owned(),
        key: Some(ProviderKey::new(SECRET, "TEST_KEY").unwrap()),
        limits: PATIENT,
        allow_plain_http: false,
    };
    Anthropic::new(spec, prices("anthropic")).unwrap()
}

/// One that admits, and is asked at once.
pub(crate) struct Admitting<'a>(pub(crate) &'a GuardedProvider);

#[async_trait::async_trait]
impl Provider for Admitting<'_> {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        self.0.admit().expect("it does not rest").answer(request, heard, scope).await
    }
}

/// The answer, and what was heard of it while it came.
pub(crate) async fn ask(
    provider: &dyn Provider,
    request: &ModelRequest,
) -> (Result<ModelAnswer, ModelError>, Vec<String>) {
    let mut pieces = Vec::new();
    let scope = CancellationToken::new().observe();
    let answer = provider.answer(request, &mut |piece| pieces.push(piece.to_owned()), &scope).await;
    (answer, pieces)
}

pub(crate) async fn answered(provider: &dyn Provider, request: &ModelRequest) -> ModelAnswer {
    ask(provider, request).await.0.unwrap()
}

pub(crate) async fn failed(provider: &dyn Provider, request: &ModelRequest) -> ModelError {
    let error = ask(provider, request).await.0.unwrap_err();
    assert!(!format!("{error:?} {error}").contains(SECRET), "{error:?}");
    error
}

/// Events without names.
pub(crate) fn data(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// Events of Anthropic's kind, each named by its type.
pub(crate) fn events(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}
