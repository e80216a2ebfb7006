//! One turn: asked, paid for, and asked again as long as the recovery says so.
//!
//! | the failure | what is done |
//! |---|---|
//! | passes by itself; a stream that broke, an answer that is none; a provider that rests | told to the recovery; the same turn again, if it says so |
//! | a replay that is asked what was not recorded | the node fails at once |
//! | a cancel | the node ends |
//! | all else | the node fails |
//!
//! # Invariants
//! 1. Every failure that is tried again was told before: of the node's retries each is counted once, so that a node makes
//!    1 + retries calls that fail in passing, in sum.
//! 2. The conversation is the same in every try of a turn.

use std::time::Duration;

use actors::model::{Cause, ModelAnswer, ModelError, ModelRequest, Resolved, estimate};
use domain::{Action, ErrorCategory, ErrorClass};

use super::super::node::Node;
use super::super::{Stopped, Told, tell_and_wait};
use super::spent::Reserved;
use super::talk::Talk;

/// How long one call may take when the node does not say.
const CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

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
        loop {
            let error = match self.once(question).await? {
                Ok(answer) => {
                    let read = answer.usage.tokens_in;
                    node.house.contexts.factors().learn(self.model, question, read);
                    return Ok(answer);
                }
                Err(error) => error,
            };
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
                Some(Action::Revert | Action::Ask | Action::GiveUp) | None => {
                    return Err(Stopped::Told(message));
                }
            }
        }
    }

    /// Asks once; the outer error is about the node, the inner one about the call.
    async fn once(&self, question: &ModelRequest) -> Result<Result<ModelAnswer, ModelError>, Stopped> {
        // Held until all is settled: who cancels waits for that, and the provider leaves at once.
        let effect = self.node.enter()?;
        let reserved = Reserved::of(self, &effect, estimate(question)).await?;
        let limit = self.node.step.timeout_s.map_or(CALL_TIMEOUT, Duration::from_secs);
        let mut unheard = |_: &str| {};
        let answer = self.resolved.provider.answer(question, &mut unheard, &self.node.scope);
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let message = format!("{} took longer than {} s", self.model, limit.as_secs());
            Err(ModelError::sent(ErrorCategory::Timeout, message))
        });
        reserved.settle(self, &effect, &answer).await?;
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
        (ErrorClass::Transient, Cause::Provider | Cause::Resting) => true,
        // A broken stream, an answer without end, none at all.
        (ErrorClass::Permanent, Cause::Provider) => error.category == ErrorCategory::ModelOutput,
        (ErrorClass::Transient | ErrorClass::Permanent | ErrorClass::Cancelled | ErrorClass::Bug, _) => false,
    }
}
