//! Classifies the failure responses of a server: its status, its error codes, the time to wait.
//!
//! | said | category | tokens spent? |
//! |---|---|---|
//! | 401, 402, 403, or that the account has no money left | auth | no |
//! | 429 | rate_limit | no |
//! | 408, 504, 524 | timeout | maybe |
//! | 503, 529 | overloaded | no |
//! | 500, 502 and other 5xx | overloaded | maybe |
//! | 3xx, and other 4xx | invalid_input | no |
//!
//! A request that is too long for the model is known by the code, the fields or the words of the server
//! ([`OVERFLOW_CODES`], [`OVERFLOW_WORDS`]), and by 413. The numbers that it reports come with it.
//!
//! # Invariants
//! 1. Every status has a category; words inside a stream that are not known mean a broken answer.
//! 2. A reported message is bounded, and holds no control characters but spaces.

use std::time::{Duration, SystemTime};

use domain::ErrorCategory;
use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::ContextOverflow;

const TOLD_CHARS_MAX: usize = 600;
/// A smaller number in a message counts no tokens of a window.
const TOKENS_MIN: u64 = 256;
/// A hint beyond a day is nonsense, and means "not soon" all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A failure as the server reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedFault {
    /// A word or a number that programs know it by.
    pub(super) code: String,
    /// Its message for people.
    pub(super) message: String,
    /// The request is too long for the model.
    pub(super) overflow: Option<ContextOverflow>,
}

/// The codes of a request that is too long: of OpenAI and those who copy it, of llama.cpp, of Anthropic.
const OVERFLOW_CODES: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
    "model_context_window_exceeded",
];

/// The words of servers that have no code for it, in lower case.
const OVERFLOW_WORDS: [&str; 6] = [
    // Anthropic.
    "prompt is too long",
    "exceed context limit",
    // vLLM, OpenRouter, Mistral.
    "maximum context length",
    // llama.cpp before it had a code.
    "exceeds the available context size",
    // Gemini.
    "exceeds the maximum number of tokens allowed",
    // LM Studio.
    "context length of only",
];

impl ReportedFault {
    /// Reads the body of an error, whatever its author.
    pub(super) fn in_body(body: &[u8]) -> ReportedFault {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => {
                ReportedFault::in_json(&value).unwrap_or_else(|| ReportedFault::text(&value.to_string()))
            }
            Err(_) => ReportedFault::text(&String::from_utf8_lossy(body)),
        }
    }

    /// Reads a JSON value; `None` if it reports no failure.
    pub(super) fn in_json(value: &Value) -> Option<ReportedFault> {
        let inner = match value.get("error") {
            Some(Value::Null) | None => match value.get("detail") {
                Some(detail) => detail,
                None if value.get("object").and_then(Value::as_str) == Some("error") => value,
                None if value.get("message").is_some_and(Value::is_string) => value,
                None => return None,
            },
            Some(error) => error,
        };
        let message = match inner.as_str().or_else(|| inner.get("message").and_then(Value::as_str)) {
            Some(text) => text.to_owned(),
            None => inner.to_string(),
        };
        // `code` is the finer word where both are there, but some servers put null or the status into it.
        let word = |key| match inner.get(key) {
            Some(Value::String(word)) => Some(word.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
        };
        let is_code = |key| word(key).is_some_and(|word| OVERFLOW_CODES.contains(&word.as_str()));
        let overflow = (is_code("code") || is_code("type")).then(|| overflow_in(inner, &message));
        let fault = ReportedFault::text(&message);
        Some(ReportedFault {
            code: word("code").or_else(|| word("type")).unwrap_or_default(),
            overflow: overflow.or(fault.overflow),
            ..fault
        })
    }

    fn text(text: &str) -> ReportedFault {
        let text = text.trim();
        if text.starts_with('<') {
            let message = "a web page, not an answer".to_owned();
            return ReportedFault { message, ..ReportedFault::default() };
        }
        let lower = text.to_lowercase();
        let is_overflow = OVERFLOW_WORDS.iter().any(|words| lower.contains(words));
        let plain = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        ReportedFault {
            code: String::new(),
            message: plain.take(TOLD_CHARS_MAX).collect(),
            overflow: is_overflow.then(|| overflow_in(&Value::Null, text)),
        }
    }
}

/// Reads the numbers of an overflow: from the fields of llama.cpp, else from the message, which names the
/// limit and what was sent. After a `>` comes the limit (`A + B > LIMIT`); else the smaller of the first two
/// numbers is it.
fn overflow_in(error: &Value, message: &str) -> ContextOverflow {
    let field = |key| error.get(key).and_then(Value::as_u64);
    if let Some(window) = field("n_ctx") {
        return ContextOverflow { window_tokens: Some(window), sent_tokens: field("n_prompt_tokens") };
    }
    if let Some((sent, limit)) = message.split_once('>')
        && let Some(window) = numbers(limit).first().copied()
    {
        let sent: u64 = numbers(sent).iter().fold(0, |sum, number| sum.saturating_add(*number));
        return ContextOverflow {
            window_tokens: Some(window),
            sent_tokens: Some(sent).filter(|sent| *sent > window),
        };
    }
    match numbers(message)[..] {
        [] => ContextOverflow::default(),
        [only] => ContextOverflow { window_tokens: Some(only), sent_tokens: None },
        [first, second, ..] => {
            ContextOverflow { window_tokens: Some(first.min(second)), sent_tokens: Some(first.max(second)) }
        }
    }
}

/// Returns the whole numbers of a text that can be counts of tokens.
fn numbers(text: &str) -> Vec<u64> {
    let is_part = |letter: char| letter.is_ascii_digit() || letter == ',';
    let words = text.split(|letter: char| !is_part(letter));
    let numbers = words.filter_map(|word| word.replace(',', "").parse::<u64>().ok());
    numbers.filter(|number| *number >= TOKENS_MIN).collect()
}

/// Returns the category of a status, and whether tokens may have been spent.
pub(super) fn category_of_status(status: u16, told: &ReportedFault) -> (ErrorCategory, bool) {
    match status {
        401..=403 => (ErrorCategory::Auth, false),
        429 if category_of_word(&told.code) == Some(ErrorCategory::Auth) => (ErrorCategory::Auth, false),
        429 => (ErrorCategory::RateLimit, false),
        408 | 504 | 524 => (ErrorCategory::Timeout, true),
        503 | 529 => (ErrorCategory::Overloaded, false),
        500.. => (ErrorCategory::Overloaded, true),
        0..500 => (ErrorCategory::InvalidInput, false),
    }
}

/// Returns the category of a failure that is reported inside a stream.
pub(super) fn category_of_fault(told: &ReportedFault) -> ErrorCategory {
    match told.code.parse::<u16>() {
        Ok(status) => category_of_status(status, &ReportedFault::default()).0,
        Err(_) => category_of_word(&told.code).unwrap_or(ErrorCategory::ModelOutput),
    }
}

fn category_of_word(word: &str) -> Option<ErrorCategory> {
    Some(match word {
        "insufficient_quota"
        | "billing_not_active"
        | "billing_error"
        | "invalid_api_key"
        | "authentication_error"
        | "permission_error" => ErrorCategory::Auth,
        "rate_limit_exceeded" | "rate_limit_error" | "rate_limit" => ErrorCategory::RateLimit,
        "overloaded_error"
        | "server_error"
        | "api_error"
        | "internal_error"
        | "internal_server_error"
        | "service_unavailable"
        | "unavailable_error" => ErrorCategory::Overloaded,
        "timeout_error" | "timeout" => ErrorCategory::Timeout,
        "invalid_request_error"
        | "not_found_error"
        | "request_too_large"
        | "context_length_exceeded"
        | "exceed_context_size_error"
        | "model_not_found" => ErrorCategory::InvalidInput,
        _ => return None,
    })
}

/// The time that the server asks to wait: in milliseconds, in seconds, or until a date. A date is taken
/// against the server's own clock if it sends that, else against `now`.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let wait = match text("retry-after-ms").and_then(|millis| millis.parse::<u64>().ok()) {
        Some(millis) => Duration::from_millis(millis),
        None => {
            let said = text(RETRY_AFTER.as_str())?;
            match said.parse::<f64>() {
                Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
                Err(_) => {
                    let until = date(said)?;
                    let from = text(DATE.as_str()).and_then(date).unwrap_or(now);
                    until.duration_since(from).unwrap_or(Duration::ZERO)
                }
            }
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

fn date(text: &str) -> Option<SystemTime> {
    let zoned = jiff::fmt::rfc2822::DateTimeParser::new().parse_zoned(text).ok()?;
    Some(Timestamp::from(zoned).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str) -> (String, String) {
        let ReportedFault { code, message, .. } = ReportedFault::in_body(body.as_bytes());
        (code, message)
    }

    #[test]
    fn every_known_shape_of_an_error_is_understood() {
        for (body, code, message) in [
            (r#"{"error":{"message":"m","type":"t","code":"c"}}"#, "c", "m"),
            (r#"{"error":{"message":"m","type":"t","code":null}}"#, "t", "m"),
            (r#"{"error":{"message":"m","code":502}}"#, "502", "m"),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
                "overloaded_error",
                "m",
            ),
            (r#"{"error":"model 'x' not found"}"#, "", "model 'x' not found"),
            (r#"{"object":"error","message":"m","type":"NotFoundError","code":404}"#, "404", "m"),
            (r#"{"detail":"Not Found"}"#, "", "Not Found"),
            (r#"{"detail":[{"loc":["body"]}]}"#, "", r#"[{"loc":["body"]}]"#),
            (r#"{"message":"m"}"#, "", "m"),
            (r#"{"odd":1}"#, "", r#"{"odd":1}"#),
            ("busy\u{1b}[2J\nlater", "", "busy [2J later"),
            ("<html><body>x", "", "a web page, not an answer"),
            ("", "", ""),
        ] {
            assert_eq!(told(body), (code.to_owned(), message.to_owned()), "{body}");
        }
        assert_eq!(told(&"é".repeat(5000)).1.chars().count(), TOLD_CHARS_MAX);
    }

    #[test]
    fn an_overflow_is_known_by_its_code_its_fields_or_the_words_of_the_server() {
        for (body, window, sent) in [
            (
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                Some(8192),
                Some(9001),
            ),
            (
                r#"{"error":{"code":400,"message":"the request exceeds it","type":"exceed_context_size_error","n_prompt_tokens":1234,"n_ctx":1024}}"#,
                Some(1024),
                Some(1234),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
                Some(200_000),
                Some(208_310),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 197000 + 8192 > 200,000, decrease one"}}"#,
                Some(200_000),
                Some(205_192),
            ),
            (
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","type":"BadRequestError","code":400}"#,
                Some(4096),
                Some(5000),
            ),
            (r#"{"error":{"message":"too much","code":"context_length_exceeded"}}"#, None, None),
        ] {
            let overflow = ReportedFault::in_body(body.as_bytes()).overflow;
            assert_eq!(
                overflow,
                Some(ContextOverflow { window_tokens: window, sent_tokens: sent }),
                "{body}"
            );
        }
        for body in [
            r#"{"error":{"message":"Rate limit of 100000 tokens reached","code":"rate_limit_exceeded"}}"#,
            "no",
        ] {
            assert_eq!(ReportedFault::in_body(body.as_bytes()).overflow, None, "{body}");
        }
    }

    #[test]
    fn an_answer_tells_of_no_failure() {
        for body in [r#"{"choices":[]}"#, r#"{"error":null,"choices":[]}"#, "1", "[]"] {
            assert_eq!(ReportedFault::in_json(&serde_json::from_str(body).unwrap()), None, "{body}");
        }
    }

    #[test]
    fn a_status_has_the_meaning_of_the_table() {
        use ErrorCategory::{Auth, InvalidInput, Overloaded, RateLimit, Timeout};
        for (status, meaning) in [
            (400, (InvalidInput, false)),
            (301, (InvalidInput, false)),
            (401, (Auth, false)),
            (402, (Auth, false)),
            (403, (Auth, false)),
            (404, (InvalidInput, false)),
            (408, (Timeout, true)),
            (413, (InvalidInput, false)),
            (422, (InvalidInput, false)),
            (429, (RateLimit, false)),
            (500, (Overloaded, true)),
            (502, (Overloaded, true)),
            (503, (Overloaded, false)),
            (504, (Timeout, true)),
            (524, (Timeout, true)),
            (529, (Overloaded, false)),
        ] {
            assert_eq!(category_of_status(status, &ReportedFault::default()), meaning, "{status}");
        }
        let broke = ReportedFault { code: "insufficient_quota".to_owned(), ..ReportedFault::default() };
        assert_eq!(category_of_status(429, &broke), (Auth, false), "waiting brings no money");
    }

    #[test]
    fn a_failure_inside_a_stream_has_the_meaning_of_its_word() {
        for (code, category) in [
            ("overloaded_error", ErrorCategory::Overloaded),
            ("529", ErrorCategory::Overloaded),
            ("rate_limit_error", ErrorCategory::RateLimit),
            ("429", ErrorCategory::RateLimit),
            ("invalid_request_error", ErrorCategory::InvalidInput),
            ("timeout_error", ErrorCategory::Timeout),
            ("authentication_error", ErrorCategory::Auth),
            ("what", ErrorCategory::ModelOutput),
            ("", ErrorCategory::ModelOutput),
        ] {
            let told = ReportedFault { code: code.to_owned(), ..ReportedFault::default() };
            assert_eq!(category_of_fault(&told), category, "{code}");
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_wait_is_read_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = "Sun, 06 Nov 1994 08:50:07 GMT";
        for (pairs, expected) in [
            (&[("retry-after", "7")][..], Some(Duration::from_secs(7))),
            (&[("retry-after", "0.5")], Some(Duration::from_millis(500))),
            (&[("retry-after", date)], Some(Duration::from_secs(30))),
            (
                &[("retry-after", date), ("date", "Sun, 06 Nov 1994 08:50:00 GMT")],
                Some(Duration::from_secs(7)),
            ),
            (&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")], Some(Duration::ZERO)),
            (&[("retry-after-ms", "250"), ("retry-after", "9")], Some(Duration::from_millis(250))),
            (&[("retry-after", "99999999")], Some(RETRY_AFTER_MAX)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ] {
            assert_eq!(retry_after(&headers(pairs), now), expected, "{pairs:?}");
        }
    }
}
