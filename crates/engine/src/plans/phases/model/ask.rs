//! One turn: asked, paid for, and asked again as long as the recovery says so.
//!
//! | the failure | what is done |
//! |---|---|
//! | passes by itself; a stream that broke, an answer that is none | told to the recovery; the same turn again, if it says so |
//! | a provider that rests | waited for, until it may be asked |
//! | the same for longer than [`WAIT_MAX`] | told to the recovery, which asks a person |
//! | a replay that is asked what was not recorded | the node fails at once |
//! | a cancel | the node ends |
//! | all else | the node fails |
//!
//! # Invariants
//! 1. Every failure that is tried again was told before: of the node's retries each is counted once, so that a node makes
//!    1 + retries calls that fail in passing, in sum.
//! 2. Who was turned away by a breaker has made no try: nothing is counted, reserved or recorded for it. A node that ends
//!    for a provider's failures ends with what the provider last said.
//! 3. The conversation is the same in every try of a turn.

use std::time::Duration;

use actors::model::{Cause, ModelAnswer, ModelError, ModelRequest, Resolved, estimate};
use domain::{Action, ErrorCategory, ErrorClass, NodeWait, WAIT_MAX};

use super::super::node::Node;
use super::super::{Stopped, Told, tell_and_wait};
use super::kept::Kept;
use super::spent::Reserved;
use super::talk::Talk;

/// How long one call may take when the node does not say.
const CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long those wait at least, before they look again, who wait for the try of somebody else.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How much longer some of them wait, in milliseconds.
const LOOK_SPREAD_MS: u128 = 100;

/// What is added to a drift: a person who resumes the plan shall not pay for it unawares.
const ASKS_ITSELF: &str = "; if the plan is resumed without `--replay`, it asks the model itself";

/// Asks the model of a node.
pub(super) struct Asker<'a, 'n> {
    pub(super) node: &'a Node<'n>,
    /// `PROVIDER/NAME`.
    pub(super) model: &'a str,
    pub(super) resolved: &'a Resolved,
}

impl Asker<'_, '_> {
    /// The answer to what stands in the conversation.
    pub(super) async fn ask(&self, talk: &mut Talk) -> Result<ModelAnswer, Stopped> {
        let node = self.node;
        let question = talk.question().map_err(|error| node.unfit(&error))?;
        let mut waited = Duration::ZERO;
        loop {
            self.rested(&mut waited).await?;
            let error = match self.once(question).await? {
                Ok(answer) => {
                    let read = answer.usage.tokens_in;
                    node.house.contexts.factors().learn(self.model, question, read);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if error.cause == Cause::Resting {
                // Somebody else was quicker: there is another rest to be waited for, or it is over again.
                continue;
            }
            waited = Duration::ZERO;
            let message = format!("node {}: {error}", node.path);
            if !is_tried_again(&error) {
                return Err(match error.cause {
                    Cause::Cancelled(_) => Stopped::Cancelled,
                    Cause::Provider | Cause::Resting => Stopped::failed(error.category, message),
                    Cause::Drift(_) => Stopped::failed(error.category, message + ASKS_ITSELF),
                });
            }
            let Node { house, run, plan, step, .. } = *node;
            let told =
                tell_and_wait(house, run, plan, Some(step), error.category, message, error.retry_after);
            let Told { message, recovery } = told.await;
            match recovery.map(|recovery| recovery.action) {
                Some(Action::Retry { after, .. }) => self.pause(after).await?,
                Some(Action::Revert | Action::Ask | Action::GiveUp | Action::Told) | None => {
                    return Err(Stopped::Told(message));
                }
            }
        }
    }

    /// Waits until the provider may be asked, for all that was `waited` since the last try no longer than [`WAIT_MAX`].
    /// Whoever is cancelled meanwhile leaves at once, and holds nothing.
    async fn rested(&self, waited: &mut Duration) -> Result<(), Stopped> {
        let mut is_told = false;
        while let Some(resting) = self.resolved.provider.resting() {
            let wait = resting.retry_after.unwrap_or_else(|| self.look_again());
            if waited.saturating_add(wait) > WAIT_MAX {
                return Err(self.rests_too_long(resting, waited.saturating_add(wait)).await);
            }
            // Of a try of somebody else nobody knows how long it takes: it is not worth a line each time one looks.
            if resting.retry_after.is_some() || !is_told {
                is_told = true;
                self.tell_waiting(&resting, wait).await?;
            }
            self.pause(wait).await?;
            *waited = waited.saturating_add(wait);
        }
        Ok(())
    }

    /// When those are to look again who wait for the try of somebody else: not all at the same moment.
    fn look_again(&self) -> Duration {
        let spread = u64::try_from(self.node.house.ids.ulid() % LOOK_SPREAD_MS).unwrap_or(0);
        LOOK_AGAIN.saturating_add(Duration::from_millis(spread))
    }

    async fn tell_waiting(&self, resting: &ModelError, time: Duration) -> Result<(), Stopped> {
        let Node { house, run, path, .. } = *self.node;
        let effect = self.node.enter()?;
        let why = house.redactor.redact_text(&resting.message);
        let wait = NodeWait { path: path.to_owned(), why, time };
        Ok(house.store.node_waits(&effect, &run.claim(), wait).await?)
    }

    async fn rests_too_long(&self, resting: ModelError, wait: Duration) -> Stopped {
        let Node { house, run, plan, step, path, .. } = *self.node;
        let message = format!("node {path}: {resting}");
        let told = tell_and_wait(house, run, plan, Some(step), resting.category, message, Some(wait));
        Stopped::Told(told.await.message)
    }

    /// Asks once; the outer error is about the node, the inner one about the call.
    async fn once(&self, question: &ModelRequest) -> Result<Result<ModelAnswer, ModelError>, Stopped> {
        // Held until all is settled: who cancels waits for that, and the provider leaves at once.
        let effect = self.node.enter()?;
        let kept = Kept::begin(self, &effect).await?;
        let reserved = match Reserved::of(self, &effect, estimate(question)).await {
            Ok(reserved) => reserved,
            Err(stopped) => {
                kept.not_asked(self, &effect, &stopped).await?;
                return Err(stopped);
            }
        };
        let limit = self.node.step.timeout_s.map_or(CALL_TIMEOUT, Duration::from_secs);
        let mut unheard = |_: &str| {};
        let answer = self.resolved.provider.answer(question, &mut unheard, &self.node.scope);
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let message = format!("{} took longer than {} s", self.model, limit.as_secs());
            Err(ModelError::sent(ErrorCategory::Timeout, message))
        });
        reserved.settle(self, &effect, &answer).await?;
        kept.answered(self, &effect, &answer).await?;
        Ok(answer)
    }

    async fn pause(&self, time: Duration) -> Result<(), Stopped> {
        tokio::select! {
            biased;
            _ = self.node.scope.cancelled() => Err(Stopped::Cancelled),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

/// Whether the same question may get a better answer.
fn is_tried_again(error: &ModelError) -> bool {
    match (error.class(), &error.cause) {
        (ErrorClass::Transient, Cause::Provider) => true,
        // A broken stream, an answer without end, none at all.
        (ErrorClass::Permanent, Cause::Provider) => error.category == ErrorCategory::ModelOutput,
        (ErrorClass::Transient | ErrorClass::Permanent | ErrorClass::Cancelled | ErrorClass::Bug, _) => false,
    }
}
