//! One request to a server and the events of its answer: time limits, cancel, bounds, and the name of every
//! failure.
//!
//! # Invariants
//! 1. One call is one request. No redirect is followed (a key must not travel), nothing is sent twice.
//! 2. At most [`ANSWER_BYTES_MAX`] bytes of an answer and [`ERROR_BYTES_MAX`] of an error are read.
//! 3. Whatever ends a call early (cancel, time, garbage) drops its connection.
//! 4. The text of a server is shown without the key.
//!
//! # Not here
//! The request and the meaning of an event: the providers, by [`AnswerReader`].

use std::time::{Duration, SystemTime};

use domain::ErrorCategory;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use sync::Observed;
use tokio::time::timeout;

use super::http_fault;
use super::http_fault::ReportedFault;
use super::key::ProviderKey;
use super::request::TextListener;
use super::server_spec::{ServerError, ServerSpec, checked_url, headers, is_loopback};
use super::sse::{SseDecoder, SseEvent};
use super::{Cause, ContextOverflow, ModelError};

/// The limit of an answer that is read: 10 MiB.
pub const ANSWER_BYTES_MAX: usize = 10 * 1024 * 1024;
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// After its last event a body usually ends at once; then the connection can be used again.
const LAST_CHUNK_WAIT: Duration = Duration::from_millis(50);

/// The time limits for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// To let us in.
    pub connect: Duration,
    /// Between two signs of life: until its answer begins, and between the pieces of it.
    pub idle: Duration,
    /// For the whole call.
    pub total: Duration,
}

impl TimeLimits {
    /// For servers elsewhere.
    pub const REMOTE: TimeLimits = TimeLimits {
        connect: Duration::from_secs(15),
        idle: Duration::from_secs(120),
        total: Duration::from_secs(600),
    };
    /// For servers on this machine: they may load a model, and read a long prompt slowly, before they say a
    /// word.
    pub const LOCAL: TimeLimits = TimeLimits {
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(600),
        total: Duration::from_secs(1800),
    };
}

/// A server that answers requests with events.
#[derive(Debug)]
pub(super) struct ModelServer {
    name: String,
    client: Client,
    url: Url,
    headers: HeaderMap,
    key: Option<ProviderKey>,
    limits: TimeLimits,
}

/// Says whether more of the answer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Done,
}

/// The reason why an answer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// It makes no sense; what was found.
    Garbage(String),
    /// The server reported a failure in the middle of it.
    Told(ReportedFault),
}

/// Makes an answer out of what a server sends.
pub(super) trait AnswerReader: Send {
    /// An event of a stream.
    fn event(&mut self, event: &SseEvent, heard: TextListener<'_>) -> Result<Flow, AnswerError>;
    /// The whole answer at once: some servers do not stream, whatever they are asked.
    fn whole(&mut self, body: &[u8], heard: TextListener<'_>) -> Result<(), AnswerError>;
}

impl ModelServer {
    pub(super) fn new(spec: ServerSpec) -> Result<ModelServer, ServerError> {
        let url = checked_url(&spec)?;
        // Installed already, by this or by other code: both are fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("agents/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(spec.limits.connect);
        if is_loopback(&url) {
            // llama.cpp hangs up after a stream though it said that the connection stays: a question sent into that is
            // lost. On this machine a new connection costs nothing.
            builder = builder.no_proxy().pool_max_idle_per_host(0);
        }
        let client = builder.build().map_err(|source| ServerError::Client {
            name: spec.name.clone(),
            source: source.without_url(),
        })?;
        let headers = headers(&spec);
        Ok(ModelServer { name: spec.name, client, url, headers, key: spec.key, limits: spec.limits })
    }

    /// Sends `body` and has `reading` read what comes back.
    pub(super) async fn ask(
        &self,
        body: Vec<u8>,
        reading: &mut dyn AnswerReader,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<(), ModelError> {
        if let Some(reason) = scope.reason() {
            return Err(ModelError::cancelled(reason, false));
        }
        let exchange = timeout(self.limits.total, self.exchange(body, reading, heard));
        tokio::select! {
            biased;
            reason = scope.cancelled() => Err(ModelError::cancelled(reason, true)),
            done = exchange => done.unwrap_or_else(|_| Err(self.late("did not finish its answer", self.limits.total))),
        }
    }

    async fn exchange(
        &self,
        body: Vec<u8>,
        reading: &mut dyn AnswerReader,
        heard: TextListener<'_>,
    ) -> Result<(), ModelError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = self.in_time(request.send()).await?.map_err(|error| self.not_reached(&error))?;
        if !response.status().is_success() {
            return Err(self.turned_away(response).await);
        }
        match content_type(&response) {
            ResponseFormat::Json => {
                let body = self.body(response).await?;
                reading.whole(&body, heard).map_err(|broken| self.broken(broken))
            }
            ResponseFormat::Page => {
                Err(self.broken(AnswerError::Garbage("a web page; is the base URL right?".to_owned())))
            }
            ResponseFormat::Events => self.stream(response, reading, heard).await,
        }
    }

    async fn stream(
        &self,
        mut response: Response,
        reading: &mut dyn AnswerReader,
        heard: TextListener<'_>,
    ) -> Result<(), ModelError> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        let mut bytes_read = 0;
        while let Some(chunk) = self.chunk(&mut response, &mut bytes_read).await? {
            decoder
                .push(&chunk, &mut events)
                .map_err(|error| self.broken(AnswerError::Garbage(error.to_string())))?;
            for event in events.drain(..) {
                match reading.event(&event, heard).map_err(|broken| self.broken(broken))? {
                    Flow::More => {}
                    Flow::Done => {
                        let _ = timeout(LAST_CHUNK_WAIT, response.chunk()).await;
                        return Ok(());
                    }
                }
            }
        }
        let last = decoder.finish().map_err(|error| self.broken(AnswerError::Garbage(error.to_string())))?;
        if let Some(event) = last {
            reading.event(&event, heard).map_err(|broken| self.broken(broken))?;
        }
        Ok(())
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        let mut bytes_read = 0;
        while let Some(chunk) = self.chunk(&mut response, &mut bytes_read).await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The next piece of an answer, within time and bounds.
    async fn chunk(
        &self,
        response: &mut Response,
        bytes_read: &mut usize,
    ) -> Result<Option<Vec<u8>>, ModelError> {
        let chunk = self.in_time(response.chunk()).await?.map_err(|error| {
            self.failed(ErrorCategory::ModelOutput, &format!("interrupted its answer: {}", reason_of(&error)))
        })?;
        *bytes_read += chunk.as_ref().map_or(0, |chunk| chunk.len());
        if *bytes_read > ANSWER_BYTES_MAX {
            let what = format!("sent an answer of more than {} MiB", ANSWER_BYTES_MAX >> 20);
            return Err(self.failed(ErrorCategory::ModelOutput, &what));
        }
        Ok(chunk.map(Vec::from))
    }

    async fn in_time<F: Future>(&self, work: F) -> Result<F::Output, ModelError> {
        timeout(self.limits.idle, work).await.map_err(|_| self.late("was silent", self.limits.idle))
    }

    async fn turned_away(&self, mut response: Response) -> ModelError {
        let status = response.status().as_u16();
        let retry_after = http_fault::retry_after(response.headers(), SystemTime::now());
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        // The unreadable part of the explanation is left out; the status remains.
        while let Ok(Ok(Some(chunk))) = timeout(self.limits.idle, response.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() >= ERROR_BYTES_MAX {
                body.truncate(ERROR_BYTES_MAX);
                break;
            }
        }
        let told = ReportedFault::in_body(&body);
        let (category, was_sent) = http_fault::category_of_status(status, &told);
        let why = match location {
            Some(to) if (300..400).contains(&status) => {
                format!("it redirects to {to}; change the base URL")
            }
            Some(_) | None => told.message,
        };
        let colon = if why.is_empty() { "" } else { ": " };
        let whose = if status == 401 { self.whose_key() } else { String::new() };
        let message = self.hidden(&format!("{status} from {}{colon}{why}{whose}", self.name));
        let overflow = told.overflow.or((status == 413).then(ContextOverflow::default));
        ModelError { retry_after, was_sent, overflow, ..ModelError::sent(category, message) }
    }

    /// Names the origin of the key that a server does not take.
    fn whose_key(&self) -> String {
        match &self.key {
            Some(key) => format!(" (with the key from {})", key.origin()),
            None => format!(
                " (without a key: name one as `key_env` or `key_file` in [providers.{}] of the settings)",
                self.name
            ),
        }
    }

    fn not_reached(&self, error: &reqwest::Error) -> ModelError {
        let why = self.hidden(&reason_of(error));
        let at = self.url.origin().ascii_serialization();
        if error.is_connect() && is_loopback(&self.url) && is_refused(error) {
            let message = format!("{} cannot be reached at {at}: {why}; is it running?", self.name);
            let cause = Cause::NotRunning;
            return ModelError { cause, ..ModelError::unsent(ErrorCategory::Connection, message) };
        }
        if error.is_connect() {
            let category =
                if error.is_timeout() { ErrorCategory::Timeout } else { ErrorCategory::Connection };
            return ModelError::unsent(category, format!("{} cannot be reached at {at}: {why}", self.name));
        }
        if error.is_builder() {
            return ModelError::unsent(ErrorCategory::InvalidInput, format!("{}: {why}", self.name));
        }
        let category = if error.is_timeout() { ErrorCategory::Timeout } else { ErrorCategory::Connection };
        ModelError::sent(
            category,
            format!("{} at {at} closed the connection without an answer: {why}", self.name),
        )
    }

    fn broken(&self, broken: AnswerError) -> ModelError {
        match broken {
            AnswerError::Garbage(what) => {
                self.failed(ErrorCategory::ModelOutput, &format!("sent data that cannot be read: {what}"))
            }
            AnswerError::Told(told) => {
                let what = format!("failed in the middle of its answer: {}", told.message);
                ModelError {
                    overflow: told.overflow,
                    ..self.failed(http_fault::category_of_fault(&told), &what)
                }
            }
        }
    }

    fn late(&self, what: &str, limit: Duration) -> ModelError {
        self.failed(ErrorCategory::Timeout, &format!("{what} for {limit:?}"))
    }

    /// A failure of a request that was on its way.
    pub(super) fn failed(&self, category: ErrorCategory, what: &str) -> ModelError {
        ModelError::sent(category, self.hidden(&format!("{} {what}", self.name)))
    }

    fn hidden(&self, text: &str) -> String {
        match &self.key {
            Some(key) => key.hide_in(text),
            None => text.to_owned(),
        }
    }
}

enum ResponseFormat {
    Events,
    Json,
    Page,
}

fn content_type(response: &Response) -> ResponseFormat {
    let named =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let begins = |kind: &str| named.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind));
    if begins("application/json") {
        ResponseFormat::Json
    } else if begins("text/html") {
        ResponseFormat::Page
    } else {
        ResponseFormat::Events
    }
}

/// The innermost reason, which is the informative one, and never the URL.
fn reason_of(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<reqwest::Error>() {
        Some(_) if error.is_timeout() => "it took too long".to_owned(),
        Some(_) => "the connection failed".to_owned(),
        None => innermost.to_string(),
    }
}

/// Returns true if nothing listens at the other end.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if io == Some(std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// JSON out of an event; what is none is garbage that shows its start.
pub(super) fn json_of(bytes: &[u8]) -> Result<Value, AnswerError> {
    serde_json::from_slice(bytes).map_err(|error| {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        AnswerError::Garbage(format!("{start:?} ({error})"))
    })
}
