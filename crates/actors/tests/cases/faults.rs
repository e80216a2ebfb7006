//! The category and the message of each failure of a server, and whether it may have cost something.

use std::sync::Mutex;
use std::time::Duration;

use actors::model::{ANSWER_BYTES_MAX, Cause, Dialect, ModelError, Provider, ServerError, TimeLimits};
use domain::{ErrorCategory, ErrorClass};
use serde_json::json;
use sync::{CancelReason, CancellationToken};

use crate::support::{PATIENT, SECRET, anthropic, data, events, failed, openai, openai_with, request};
use testkit::scripted_server::{Script, Scripted};

/// The failure of a request to a server that does this.
async fn fault_of(script: Script) -> ModelError {
    let server = Scripted::start(vec![script]);
    let error = failed(&openai(&server.url), &request("hello")).await;
    server.was_asked_at_most_once();
    error
}

fn some_text() -> String {
    data(&[json!({"choices": [{"delta": {"content": "so"}, "finish_reason": null}]})])
}

#[tokio::test]
async fn a_status_has_its_category_its_words_and_its_price() {
    use ErrorCategory::{Auth, InvalidInput, Overloaded, RateLimit};
    let body = json!({"error": {"message": "because", "type": "x"}}).to_string();
    for (status, category, was_sent) in [
        ("401 Unauthorized", Auth, false),
        ("403 Forbidden", Auth, false),
        ("400 Bad Request", InvalidInput, false),
        ("404 Not Found", InvalidInput, false),
        ("422 Unprocessable", InvalidInput, false),
        ("429 Too Many", RateLimit, false),
        ("500 Oops", Overloaded, true),
        ("502 Bad Gateway", Overloaded, true),
        ("503 Unavailable", Overloaded, false),
        ("529 Overloaded", Overloaded, false),
    ] {
        let error = fault_of(Script::status(status, &[], &body)).await;
        // A user whose key is wrong wants to know which.
        let key = if status.starts_with("401") { " (with the key from TEST_KEY)" } else { "" };
        let message = format!("{} from openai: because{key}", &status[..3]);
        assert_eq!((error.category, error.message, error.was_sent), (category, message, was_sent));
        assert_eq!((error.retry_after, error.cause), (None, Cause::Provider));
    }
}

#[tokio::test]
async fn how_long_to_wait_is_passed_on() {
    let date = [("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:30 GMT")];
    for (headers, wait) in [
        (&[("retry-after", "41")][..], Duration::from_secs(41)),
        (&date, Duration::from_secs(7)),
        (&[("Retry-After-Ms", "1500")], Duration::from_millis(1500)),
    ] {
        for status in ["429 Too Many", "529 Overloaded"] {
            let error = fault_of(Script::status(status, headers, "")).await;
            assert_eq!(error.retry_after, Some(wait), "{status} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_shown() {
    let body = json!({"error": {"message": format!("the key {SECRET} is wrong")}}).to_string();
    let error = fault_of(Script::status("401 Unauthorized", &[], &body)).await;
    assert_eq!(error.message, "401 from openai: the key [key] is wrong (with the key from TEST_KEY)");
    let told = format!("data: {}\n\n", json!({"error": {"message": format!("no {SECRET}"), "code": 401}}));
    let error = fault_of(Script::events(&[told.as_bytes()])).await;
    assert_eq!(error.message, "openai failed in the middle of its answer: no [key]");
    assert_eq!(error.category, ErrorCategory::Auth);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let error = fault_of(Script::status("307 Elsewhere", &[("location", "http://127.0.0.1:1/v2")], "")).await;
    assert_eq!((error.category, error.was_sent), (ErrorCategory::InvalidInput, false));
    assert!(error.message.contains("http://127.0.0.1:1/v2; change the base URL"), "{error}");
}

#[tokio::test]
async fn a_web_page_in_place_of_an_answer_is_said_to_be_one() {
    let error = fault_of(Script::status("502 Bad Gateway", &[], "<html><h1>nginx</h1>")).await;
    assert_eq!(error.message, "502 from openai: a web page, not an answer");
    let page = Script::status("200 OK", &[("content-type", "text/html")], "<html>hello");
    let error = fault_of(page).await;
    assert_eq!(error.category, ErrorCategory::ModelOutput);
    assert!(error.message.contains("is the base URL right?"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_a_connection_error_that_cost_nothing() {
    let error = failed(&openai(&Scripted::nobody()), &request("hello")).await;
    assert_eq!((error.category, error.was_sent), (ErrorCategory::Connection, false));
    assert!(error.message.starts_with("openai cannot be reached at http://127.0.0.1:"), "{error}");
    assert!(error.message.contains("refused"), "{error}");
    assert_eq!(error.class(), ErrorClass::Transient);
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_a_connection_error_that_cost_nothing() {
    let server = Scripted::start(vec![Script::raw("HTTP/1.1 400 Bad Request\r\n\r\n")]);
    let error = failed(&openai(&server.url.replace("http:", "https:")), &request("hello")).await;
    assert_eq!((error.category, error.was_sent), (ErrorCategory::Connection, false), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_up_before_it_answers_may_have_counted_the_request() {
    let error = fault_of(Script::raw("")).await;
    assert_eq!((error.category, error.was_sent), (ErrorCategory::Connection, true), "{error}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_no_short_answer() {
    let text = some_text();
    let half = &text.as_bytes()[..text.len() / 2];
    for script in [
        Script::cut_events(&[text.as_bytes()]),
        Script::events(&[text.as_bytes()]),
        Script::cut_events(&[half]),
        Script::events(&[]),
    ] {
        let error = fault_of(script.clone()).await;
        assert_eq!((error.category, error.was_sent), (ErrorCategory::ModelOutput, true), "{script:?}");
    }
    let body = events(&[json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "text", "text": "so"}})]);
    let server = Scripted::start(vec![Script::events(&[body.as_bytes()])]);
    let error = failed(&anthropic(&server.url), &request("hello")).await;
    assert_eq!(error.message, "anthropic stopped in the middle of its answer");
}

#[tokio::test]
async fn garbage_in_the_middle_of_a_stream_is_an_error_of_the_model() {
    let text = some_text();
    for garbage in [
        &b"data: {\"choices\": [{\"del\n\n"[..],
        b"data: \xff\xfe\n\n",
        b"\x00\x01 what\n\n",
        b"data: nope\n\n",
    ] {
        let error = fault_of(Script::held_events(&[text.as_bytes(), garbage])).await;
        assert_eq!((error.category, error.was_sent), (ErrorCategory::ModelOutput, true), "{garbage:?}");
        assert!(error.message.starts_with("openai sent data that cannot be read: "), "{error}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_error_of_the_model() {
    let end =
        |reason: &str| data(&[json!({"choices": [{"delta": {"content": " \n"}, "finish_reason": reason}]})]);
    let empty = fault_of(Script::events(&[end("stop").as_bytes()])).await;
    assert_eq!(
        (empty.category, empty.message.as_str()),
        (ErrorCategory::ModelOutput, "openai gave an empty answer")
    );
    let spent = fault_of(Script::events(&[end("length").as_bytes()])).await;
    assert_eq!(spent.message, "openai used all tokens of its answer before it wrote any text");
    let done = fault_of(Script::events(&[b"data: [DONE]\n\n"])).await;
    assert_eq!(done.message, "openai gave an empty answer");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let piece = data(&[json!({"choices": [{"delta": {"content": "x".repeat(100_000)}}]})]);
    let mut server = Scripted::start(vec![Script::endless_events(piece.as_bytes())]);
    let heard = Mutex::new(0);
    let scope = CancellationToken::new().observe();
    let client = openai(&server.url);
    let answer =
        client.answer(&request("hello"), &mut |piece| *heard.lock().unwrap() += piece.len(), &scope).await;
    let error = answer.unwrap_err();
    assert_eq!((error.category, error.was_sent), (ErrorCategory::ModelOutput, true));
    assert_eq!(error.message, "openai sent an answer of more than 10 MiB");
    assert!(*heard.lock().unwrap() <= ANSWER_BYTES_MAX);
    server.client_left().await;
}

#[tokio::test]
async fn a_line_without_end_is_cut_off_too() {
    let mut server = Scripted::start(vec![Script::endless_events(&[b'x'; 100_000])]);
    let error = failed(&openai(&server.url), &request("hello")).await;
    assert_eq!(error.message, "openai sent an answer of more than 10 MiB");
    server.client_left().await;
}

#[tokio::test]
async fn silence_ends_in_a_timeout_that_drops_the_connection() {
    let short = Duration::from_millis(50);
    let text = some_text();
    for (limits, what) in [
        (TimeLimits { idle: short, ..PATIENT }, "openai was silent for 50ms"),
        (TimeLimits { total: short, ..PATIENT }, "openai did not finish its answer for 50ms"),
    ] {
        for script in [Script::silence(), Script::held_events(&[text.as_bytes()])] {
            let mut server = Scripted::start(vec![script]);
            let client = openai_with(&server.url, Dialect::COMPATIBLE, limits);
            let error = failed(&client, &request("hello")).await;
            assert_eq!((error.category, error.message.as_str()), (ErrorCategory::Timeout, what));
            assert!(error.was_sent);
            server.client_left().await;
        }
    }
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_a_stream_drops_the_connection_at_once() {
    let text = some_text();
    let mut server = Scripted::start(vec![Script::held_events(&[text.as_bytes()])]);
    let token = CancellationToken::new();
    let scope = token.observe();
    let client = openai(&server.url);
    let mut cancel = |_: &str| {
        token.cancel(CancelReason::User);
    };
    let error = client.answer(&request("hello"), &mut cancel, &scope).await.unwrap_err();
    assert_eq!((error.cause.clone(), error.was_sent), (Cause::Cancelled(CancelReason::User), true));
    assert_eq!(error.class(), ErrorClass::Cancelled);
    server.client_left().await;
}

#[tokio::test]
async fn a_cancel_before_the_answer_begins_drops_the_connection_too() {
    let server = Scripted::start(vec![Script::silence()]);
    let token = CancellationToken::new();
    let scope = token.observe();
    let client = openai(&server.url);
    let task = tokio::spawn(async move { client.answer(&request("hello"), &mut |_| {}, &scope).await });
    let server = tokio::task::spawn_blocking(move || {
        server.asked();
        server
    });
    let mut server = server.await.unwrap();
    token.cancel(CancelReason::Shutdown);
    let error = task.await.unwrap().unwrap_err();
    assert_eq!((error.cause, error.was_sent), (Cause::Cancelled(CancelReason::Shutdown), true));
    server.client_left().await;
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_sends_nothing() {
    let token = CancellationToken::new();
    let scope = token.observe();
    token.cancel(CancelReason::User);
    let client = openai(&Scripted::nobody());
    let error = client.answer(&request("hello"), &mut |_| {}, &scope).await.unwrap_err();
    assert_eq!((error.cause, error.was_sent), (Cause::Cancelled(CancelReason::User), false));
}

#[tokio::test]
async fn a_failure_that_is_told_inside_a_stream_has_its_own_category() {
    let text = some_text();
    for (told, category) in [
        ("data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n", ErrorCategory::Overloaded),
        ("data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\"}}\n\n", ErrorCategory::Overloaded),
        (
            "data: {\"error\":{\"message\":\"busy\",\"code\":429},\"choices\":[]}\n\n",
            ErrorCategory::RateLimit,
        ),
        ("error: {\"message\":\"busy\",\"code\":500}\n\n", ErrorCategory::Overloaded),
        ("event: error\ndata: {\"message\":\"busy\"}\n\n", ErrorCategory::ModelOutput),
    ] {
        let error = fault_of(Script::events(&[text.as_bytes(), told.as_bytes()])).await;
        assert_eq!((error.category, error.was_sent), (category, true), "{told}");
        assert_eq!(error.message, "openai failed in the middle of its answer: busy");
    }
}

#[tokio::test]
async fn anthropics_errors_have_their_categories_inside_a_stream_and_before_it() {
    for (kind, category) in [
        ("overloaded_error", ErrorCategory::Overloaded),
        ("api_error", ErrorCategory::Overloaded),
        ("rate_limit_error", ErrorCategory::RateLimit),
        ("invalid_request_error", ErrorCategory::InvalidInput),
        ("authentication_error", ErrorCategory::Auth),
        ("timeout_error", ErrorCategory::Timeout),
    ] {
        let told = json!({"type": "error", "error": {"type": kind, "message": "because"}});
        let ping = json!({"type": "ping"});
        let server = Scripted::start(vec![Script::events(&[events(&[ping, told]).as_bytes()])]);
        let error = failed(&anthropic(&server.url), &request("hello")).await;
        assert_eq!(error.category, category, "{kind}");
        assert_eq!(error.message, "anthropic failed in the middle of its answer: because");
    }
    let body =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).to_string();
    let server = Scripted::start(vec![Script::status("529 Overloaded", &[("retry-after", "3")], &body)]);
    let error = failed(&anthropic(&server.url), &request("hello")).await;
    assert_eq!((error.category, error.was_sent), (ErrorCategory::Overloaded, false));
    assert_eq!(
        (error.message.as_str(), error.retry_after),
        ("529 from anthropic: Overloaded", Some(Duration::from_secs(3)))
    );
}

#[test]
fn an_address_that_would_leak_or_cannot_be_is_refused() {
    use actors::model::{OpenAi, OpenAiSpec, PriceList, ProviderKey};
    let spec = |base_url: &str| OpenAiSpec {
        name: "mine".to_owned(),
        base_url: base_url.to_owned(),
        key: Some(ProviderKey::new(SECRET, "TEST_KEY").unwrap()),
        dialect: Dialect::COMPATIBLE,
        limits: PATIENT,
        allow_plain_http: false,
    };
    for (url, why) in [
        ("models", "is no URL"),
        ("ftp://models.example/v1", "must begin with http"),
        ("https://me:secret@models.example/v1", "has a user or a password"),
        ("https://models.example/v1?key=1", "has a `?`"),
        ("http://models.example/v1", "would send the key unencrypted"),
    ] {
        let error = OpenAi::new(spec(url), PriceList::free()).unwrap_err();
        assert!(matches!(error, ServerError::Url { .. }), "{url}");
        let said = error.to_string();
        assert!(said.contains(why) && !said.contains("secret") && !said.contains(SECRET), "{said}");
    }
    for url in
        ["http://localhost:1/v1", "http://[::1]:1/v1", "http://127.0.0.2:1", "https://models.example/v1/"]
    {
        assert!(OpenAi::new(spec(url), PriceList::free()).is_ok(), "{url}");
    }
    let lan = OpenAiSpec { allow_plain_http: true, ..spec("http://models.example/v1") };
    assert!(OpenAi::new(lan, PriceList::free()).is_ok());
    let keyless = OpenAiSpec { key: None, ..spec("http://models.example/v1") };
    assert!(OpenAi::new(keyless, PriceList::free()).is_ok());
}
