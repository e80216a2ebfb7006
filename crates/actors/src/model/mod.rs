//! Models behind one trait: requests, answers, costs and errors.
//!
//! The steps of a call: [`Providers`] finds the provider of `PROVIDER/NAME`. [`estimate`] and [`Price`]
//! compute the reservation. The provider is called once, and streams. Its usage settles the reservation.
//!
//! ```text
//!  Providers::resolve ─► GuardedProvider (breaker) ─► OpenAi | Anthropic ─► http (time limits, cancel, bounds) ─► server
//!                          admits, or not            └ Recorder writes what it answered; Replay answers in its place
//! ```
//!
//! # Invariants
//! 1. A provider asks once. It never retries, never follows a redirect, and has no state between calls.
//! 2. The text that a server sends is bounded: [`ANSWER_BYTES_MAX`] for an answer, less for an error.
//! 3. A cancelled scope ends a call at once and drops its connection.
//! 4. An error says whether tokens may have been spent ([`ModelError::was_sent`]).
//!
//! # Not here
//! Retries, limits and the ledger: the engine. Tools themselves: they are only described here ([`ToolSpec`]).

mod anthropic;
mod error;
mod estimate;
mod http;
mod http_fault;
mod key;
mod openai;
mod price;
mod provider_breaker;
mod providers;
mod replay;
mod request;
mod server_spec;
mod sse;
mod tool_names;
mod tool_spec;

pub use anthropic::{Anthropic, AnthropicSpec};
pub use error::{Cause, ContextOverflow, ModelError};
pub use estimate::{TokenEstimate, estimate};
pub use http::{ANSWER_BYTES_MAX, TimeLimits};
pub use key::{KeyError, ProviderKey};
pub use openai::{Dialect, OpenAi, OpenAiSpec};
pub use price::{Price, PriceList, Prices, PricesError, Tokens};
pub use provider_breaker::{
    BreakerListener, GuardedProvider, ModelCallPermit, NoBreakerListener, OpenBreaker,
};
pub use providers::{
    ASK_LIMIT, Protocol, ProviderError, ProviderSettings, ProviderView, Providers, ProvidersSetup,
    RecordingMode, ResolvedModel, UsableProvider, builtin_providers, offers,
};
pub use replay::{Drift, ModelLimits, Participants, Recorder, RecordingError, Replay, cast_of};
pub use request::{
    Message, ModelAnswer, ModelRequest, Provider, StopReason, TextListener, ToolResult, ToolUse,
};
pub use server_spec::{ServerError, url_secrets};
pub(crate) use tool_names::plain as wire_name;
pub use tool_spec::{ToolSource, ToolSpec};
