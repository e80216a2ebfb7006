//! The breaker before a provider: what it counts, what it says while it is open, how it closes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actors::model::{
    BreakerListener, Cause, GuardedProvider, ModelAnswer, ModelError, ModelRequest, NoBreakerListener,
    OpenBreaker, Provider, StopReason, TextListener,
};
use domain::{ErrorCategory, TokenUsage};
use sync::{
    BreakerConfig, BreakerState, CancelReason, CancellationToken, CircuitBreaker, ManualClock, Observed,
    RecordOutcome,
};

use crate::support::{Admitting, ask, failed, openai, request};
use testkit::scripted_server::{Script, Scripted};

const COOL_DOWN: Duration = Duration::from_secs(30);

/// Gives what it was told to, and counts.
#[derive(Default)]
struct Planned {
    outcomes: Mutex<VecDeque<Result<(), ModelError>>>,
}

#[async_trait::async_trait]
impl Provider for Planned {
    async fn answer(
        &self,
        _: &ModelRequest,
        _: TextListener<'_>,
        _: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        let outcome = self.outcomes.lock().unwrap().pop_front().expect("no call was expected");
        let usage = TokenUsage::default();
        outcome.map(|()| ModelAnswer {
            text: "so".to_owned(),
            calls: Vec::new(),
            stop: StopReason::End,
            usage,
        })
    }
}

#[derive(Default)]
struct Heralds(Mutex<Vec<(String, RecordOutcome)>>);

impl BreakerListener for Heralds {
    fn changed(&self, breaker: &str, how: RecordOutcome) {
        self.0.lock().unwrap().push((breaker.to_owned(), how));
    }
}

struct Setting {
    clock: ManualClock,
    breakers: CircuitBreaker,
    news: Arc<Heralds>,
    planned: Arc<Planned>,
    guarded: GuardedProvider,
}

fn setting() -> Setting {
    let clock = ManualClock::new();
    let config = BreakerConfig { threshold: 2, cool_down: COOL_DOWN, ..BreakerConfig::default() };
    let breakers = CircuitBreaker::new(config, Arc::new(clock.clone())).unwrap();
    let (news, planned) = (Arc::new(Heralds::default()), Arc::new(Planned::default()));
    let guarded = GuardedProvider::new(
        Arc::clone(&planned) as _,
        "openai",
        breakers.handle("model/openai"),
        Arc::clone(&news) as _,
    );
    Setting { clock, breakers, news, planned, guarded }
}

impl Setting {
    async fn call(&self, outcome: Result<(), ModelError>) {
        self.planned.outcomes.lock().unwrap().push_back(outcome);
        ask(&Admitting(&self.guarded), &request("hello")).await.0.ok();
        assert!(self.planned.outcomes.lock().unwrap().is_empty(), "the provider was asked");
    }

    fn state(&self) -> BreakerState {
        self.breakers.snapshot()[0].state
    }
}

fn turned_away(guarded: &GuardedProvider) -> OpenBreaker {
    guarded.admit().err().expect("it rests")
}

fn error(category: ErrorCategory) -> Result<(), ModelError> {
    Err(ModelError::sent(category, "no"))
}

#[tokio::test]
async fn what_keeps_failing_is_given_a_rest_and_then_tried_again() {
    let setting = setting();
    setting.call(error(ErrorCategory::Connection)).await;
    setting.call(error(ErrorCategory::Overloaded)).await;
    setting.clock.advance(Duration::from_secs(10));
    let why = "openai failed too often and is skipped for now; its last error: no".to_owned();
    assert_eq!(turned_away(&setting.guarded), OpenBreaker { why, left: Some(Duration::from_secs(20)) });
    setting.clock.advance(Duration::from_secs(20));
    setting.call(Ok(())).await;
    assert!(setting.guarded.admit().is_ok());
    let told = setting.news.0.lock().unwrap().clone();
    let name = "model/openai".to_owned();
    assert_eq!(
        told,
        [(name.clone(), RecordOutcome::Tripped { cool_down: COOL_DOWN }), (name, RecordOutcome::Closed)]
    );
}

#[tokio::test]
async fn while_one_tries_whether_it_answers_the_others_are_not_told_to_wait_as_long_as_a_try_may_take() {
    let setting = setting();
    setting.call(error(ErrorCategory::Connection)).await;
    setting.call(error(ErrorCategory::Connection)).await;
    setting.clock.advance(COOL_DOWN);
    let probe = setting.breakers.try_acquire("model/openai").unwrap();
    let resting = turned_away(&setting.guarded);
    assert_eq!(resting.left, None);
    assert!(resting.why.contains("another call is checking if it answers again"), "{}", resting.why);
    drop(probe);
}

#[tokio::test]
async fn who_was_admitted_and_asks_nothing_lets_the_next_one_try() {
    let setting = setting();
    setting.call(error(ErrorCategory::Connection)).await;
    setting.call(error(ErrorCategory::Connection)).await;
    setting.clock.advance(COOL_DOWN);
    let admitted = setting.guarded.admit().expect("the rest is over");
    assert_eq!(turned_away(&setting.guarded).left, None, "one tries");
    drop(admitted);
    let token = CancellationToken::new();
    let scope = token.observe();
    token.cancel(CancelReason::User);
    let admitted = setting.guarded.admit().expect("it was given back");
    let error = admitted.answer(&request("hello"), &mut |_| {}, &scope).await.unwrap_err();
    assert_eq!((error.cause, error.was_sent), (Cause::Cancelled(CancelReason::User), false));
    setting.call(Ok(())).await;
    assert_eq!(setting.state(), BreakerState::Closed { failures: 0 });
}

#[tokio::test]
async fn only_what_a_rest_may_mend_is_counted() {
    for category in ErrorCategory::ALL {
        let setting = setting();
        setting.call(error(ErrorCategory::Timeout)).await;
        setting.call(error(category)).await;
        let expected = match category {
            ErrorCategory::Connection | ErrorCategory::Timeout | ErrorCategory::Overloaded => {
                BreakerState::Open { retry_after: COOL_DOWN }
            }
            // The server is there and works.
            ErrorCategory::Auth | ErrorCategory::InvalidInput => BreakerState::Closed { failures: 0 },
            _ => BreakerState::Closed { failures: 1 },
        };
        assert_eq!(setting.state(), expected, "{category}");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_neither_success_nor_failure() {
    let setting = setting();
    setting.call(error(ErrorCategory::Timeout)).await;
    setting.call(Err(ModelError::cancelled(CancelReason::User, true))).await;
    assert_eq!(setting.state(), BreakerState::Closed { failures: 1 });
    let token = CancellationToken::new();
    let scope = token.observe();
    token.cancel(CancelReason::User);
    let admitted = setting.guarded.admit().expect("it is closed");
    let error = admitted.answer(&request("hello"), &mut |_| {}, &scope).await.unwrap_err();
    assert_eq!((error.cause, error.was_sent), (Cause::Cancelled(CancelReason::User), false));
}

#[tokio::test]
async fn an_open_breaker_sends_nothing_to_a_real_server() {
    let busy = || Script::status("503 Busy", &[], "");
    let server = Scripted::start(vec![busy(), busy(), busy(), busy()]);
    let breakers = CircuitBreaker::default();
    let inner = Arc::new(openai(&server.url));
    let guarded =
        GuardedProvider::new(inner, "openai", breakers.handle("model/openai"), Arc::new(NoBreakerListener));
    for _ in 0..3 {
        assert_eq!(failed(&Admitting(&guarded), &request("hello")).await.message, "503 from openai");
        server.asked();
    }
    assert!(turned_away(&guarded).left.is_some());
    server.was_not_asked_again();
}
