//! One turn: asked, paid for, and asked again as long as the recovery says so.
//!
//! | the failure | what is done |
//! |---|---|
//! | passes by itself; a stream that broke, an answer that is none | recorded by the recovery; the same turn again, if it says so |
//! | a conversation that is too long for the model | shortened, and asked again ([`OVERFLOWS_MAX`] times) |
//! | a server on this machine that is not running | recorded by the recovery, which asks a person |
//! | a provider that rests | waited for, until it admits |
//! | the same for longer than [`WAIT_MAX`] | recorded by the recovery, which asks a person |
//! | a replay that is asked what was not recorded | the node fails at once |
//! | a cancel | the node ends |
//! | all else | the node fails |
//!
//! # Invariants
//! 1. Every failure that is tried again was recorded before. Of the node's retries each is counted once, so
//!    that a node makes 1 + retries calls that fail in passing, in sum.
//! 2. Nothing is counted, reserved or recorded before the provider admits: a caller that is turned away has
//!    made no try. An admitted caller that does not ask lets the next one in. A node that ends because of a
//!    provider's failures ends with the provider's last message.
//! 3. The conversation is the same in every try of a turn, unless it was too long.
//!
//! # Not here
//! The end of the node: its scope decides (`super::in_time`). The time limit of one call: its provider's
//! settings.

use std::time::Duration;

use actors::model::{
    Cause, ModelAnswer, ModelCallPermit, ModelError, ModelRequest, OpenBreaker, ResolvedModel, estimate,
};
use domain::{
    CallNumber, ErrorCategory, ErrorClass, NodeWait, PlanStep, RecoveryAction, WAIT_MAX, format_wait,
};

use super::budget::SpendReservation;
use super::call_record::{FaultLog, ModelCallRecord};
use super::conversation::Conversation;
use crate::run::context::RunContext;
use crate::run::node::ActiveNode;
use crate::run::{PhaseFailure, ReportedFailure, RunError, report_failure};

/// The number of times that a conversation is shortened for one turn.
const OVERFLOWS_MAX: u32 = 4;
/// The shortest wait that is reported.
const LONG_WAIT: Duration = Duration::from_secs(60);
/// The shortest time after which a node looks again that waits for the try of another node.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The maximum extra time, chosen at random, in milliseconds.
const LOOK_SPREAD_MS: u128 = 100;

/// The text that is added to a drift: a person who resumes the plan shall not pay for it unawares.
const ASKS_ITSELF: &str = "; if the plan is resumed without `--replay`, it calls the model";

/// Asks the model of a node.
pub(crate) struct ModelCaller<'a, 'n> {
    pub(crate) node: &'a ActiveNode<'n>,
    /// `PROVIDER/NAME`.
    pub(crate) model: &'a str,
    pub(crate) resolved: &'a ResolvedModel,
    /// The faults of this run of the node.
    pub(crate) faults: FaultLog,
}

impl ModelCaller<'_, '_> {
    /// Returns the answer to the last message of the conversation. `turn` is its number.
    pub(crate) async fn ask(
        &mut self,
        conversation: &mut Conversation,
        turn: u32,
    ) -> Result<ModelAnswer, RunError> {
        let node = self.node;
        let mut overflows = 0;
        loop {
            let question = conversation.question().map_err(|error| node.unfit(&error))?;
            let admitted = self.admitted().await?;
            let (no, answer) = self.once(admitted, question, turn).await?;
            let error = match answer {
                Ok(answer) => {
                    let read = answer.usage.tokens_in;
                    node.engine.contexts.factors().learn(self.model, question, read);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let message = format!("node {}: {error}", node.path);
            if let Some(overflow) = error.overflow.filter(|_| overflows < OVERFLOWS_MAX)
                && conversation.overflowed(overflow)
            {
                overflows += 1;
                node.engine.models.learn_window(self.model, conversation.window_tokens());
                let message = format!("{message}: the conversation is shortened and sent again");
                self.faults.note(node, ErrorCategory::InvalidInput, &message, Some(no)).await?;
                continue;
            }
            if !is_tried_again(&error) {
                return Err(match error.cause {
                    Cause::Cancelled(_) => RunError::Cancelled,
                    Cause::Provider | Cause::NotRunning => {
                        RunError::failed(error.category, message).of_call(no)
                    }
                    Cause::Drift(_) => RunError::failed(error.category, message + ASKS_ITSELF).of_call(no),
                });
            }
            let message = match error.retry_after.filter(|wait| *wait >= LONG_WAIT) {
                Some(wait) => format!("{message} (it asks to wait {})", format_wait(wait)),
                None => message,
            };
            let failure = PhaseFailure {
                category: error.category,
                message,
                call: Some(no),
                retry_after: error.retry_after,
            };
            // No wait starts a server.
            let retries = if error.cause == Cause::NotRunning { Some(0) } else { node.step.retries };
            let step = PlanStep { retries, ..node.step.clone() };
            let ReportedFailure { message, recovery } = report_failure(node.run, Some(&step), failure).await;
            match recovery.map(|recovery| recovery.action) {
                Some(RecoveryAction::Retry { after, .. }) => self.wait_to_retry(after).await?,
                Some(
                    RecoveryAction::Revert
                    | RecoveryAction::Ask
                    | RecoveryAction::GiveUp
                    | RecoveryAction::Told,
                )
                | None => {
                    return Err(RunError::Reported(message));
                }
            }
        }
    }

    /// Waits until the provider admits: for its rests no longer than [`WAIT_MAX`] in sum, for the tries of
    /// others as long as they take. A caller that is cancelled meanwhile leaves at once, and holds nothing.
    async fn admitted(&self) -> Result<ModelCallPermit<'_>, RunError> {
        let mut patience = BreakerPatience::default();
        loop {
            let resting = match self.resolved.provider.admit() {
                Ok(admitted) => return Ok(admitted),
                Err(resting) => resting,
            };
            match patience.meet(&resting) {
                BreakerWait::TooLong(rested) => return Err(self.rests_too_long(resting, rested).await),
                BreakerWait::News => self.tell_waiting(&resting).await?,
                BreakerWait::Known => {}
            }
            self.pause(resting.left.unwrap_or_else(|| self.look_again())).await?;
        }
    }

    /// Returns the time until a node looks again that waits for the try of another node: not all at the same
    /// moment.
    fn look_again(&self) -> Duration {
        let spread = u64::try_from(self.node.engine.ids.ulid() % LOOK_SPREAD_MS).unwrap_or(0);
        LOOK_AGAIN.saturating_add(Duration::from_millis(spread))
    }

    async fn tell_waiting(&self, resting: &OpenBreaker) -> Result<(), RunError> {
        let RunContext { engine, job, .. } = self.node.run;
        let effect = self.node.enter()?;
        let why = engine.redactor.redact_text(&resting.why);
        let wait = NodeWait { path: self.node.path.to_owned(), why, time: resting.left };
        Ok(engine.store.node_waits(&effect, &job.claim(), wait).await?)
    }

    async fn rests_too_long(&self, resting: OpenBreaker, wait: Duration) -> RunError {
        let node = self.node;
        let failure = PhaseFailure {
            category: ErrorCategory::Overloaded,
            message: format!("node {}: {}", node.path, resting.why),
            call: None,
            retry_after: Some(wait),
        };
        RunError::Reported(report_failure(node.run, Some(node.step), failure).await.message)
    }

    /// Asks once, and returns the number of the call with what came of it; the outer error is about the node.
    async fn once(
        &self,
        admitted: ModelCallPermit<'_>,
        question: &ModelRequest,
        turn: u32,
    ) -> Result<(CallNumber, Result<ModelAnswer, ModelError>), RunError> {
        // Held until all is settled: who cancels waits for that, and the provider leaves at once.
        let effect = self.node.enter()?;
        let kept = ModelCallRecord::begin(self, &effect, turn).await?;
        let reserved = match SpendReservation::reserve(self, &effect, estimate(question)).await {
            Ok(reserved) => reserved,
            Err(stopped) => {
                drop(admitted);
                kept.not_asked(self, &effect, &stopped).await?;
                return Err(stopped);
            }
        };
        let answer = admitted.answer(question, &mut |_| {}, &self.node.scope).await;
        reserved.settle(self, &effect, &answer).await?;
        let no = kept.no();
        kept.answered(self, &effect, &answer).await?;
        Ok((no, answer))
    }

    /// Waits as long as the recovery says. A long wait is reported; one that only a detached plan makes does not
    /// count as time of the plan.
    async fn wait_to_retry(&self, wait: Duration) -> Result<(), RunError> {
        if wait >= LONG_WAIT {
            let RunContext { engine, job, state, .. } = self.node.run;
            let provider = self.model.split_once('/').map_or(self.model, |(provider, _)| provider);
            let until = engine.wall().0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            let minute = until / 60_000 % (24 * 60);
            let why = format!("the limit of {provider} ends at {:02}:{:02} UTC", minute / 60, minute % 60);
            let effect = self.node.enter()?;
            let reported = NodeWait { path: self.node.path.to_owned(), why, time: Some(wait) };
            engine.store.node_waits(&effect, &job.claim(), reported).await?;
            drop(effect);
            if wait > WAIT_MAX {
                state.time.add_wait(wait);
            }
        }
        self.pause(wait).await
    }

    async fn pause(&self, time: Duration) -> Result<(), RunError> {
        tokio::select! {
            biased;
            _ = self.node.scope.cancelled() => Err(RunError::Cancelled),
            () = tokio::time::sleep(time) => Ok(()),
        }
    }
}

/// The longest wait for a provider that was not asked yet.
#[derive(Default)]
struct BreakerPatience {
    /// The rests that were met.
    rested: Duration,
    /// True if the last wait was for the try of another node.
    is_tried: bool,
}

/// The reaction to a provider that does not admit.
#[derive(Debug, PartialEq, Eq)]
enum BreakerWait {
    /// Wait for it, and record the wait.
    News,
    /// Wait for it; the wait is recorded already.
    Known,
    /// Its rests are this long in sum: a person is asked.
    TooLong(Duration),
}

impl BreakerPatience {
    /// Counts a rest, and reports each one. A try of another node takes as long as it takes, and is reported
    /// once.
    fn meet(&mut self, resting: &OpenBreaker) -> BreakerWait {
        let was_tried = std::mem::replace(&mut self.is_tried, resting.left.is_none());
        let Some(left) = resting.left else {
            return if was_tried { BreakerWait::Known } else { BreakerWait::News };
        };
        self.rested = self.rested.saturating_add(left);
        if self.rested > WAIT_MAX { BreakerWait::TooLong(self.rested) } else { BreakerWait::News }
    }
}

/// Returns true if the same question may get a better answer.
fn is_tried_again(error: &ModelError) -> bool {
    match (error.class(), &error.cause) {
        (ErrorClass::Transient, Cause::Provider | Cause::NotRunning) => true,
        // A broken stream, an answer without end, none at all.
        (ErrorClass::Permanent, Cause::Provider) => error.category == ErrorCategory::ModelOutput,
        (ErrorClass::Transient | ErrorClass::Permanent | ErrorClass::Cancelled | ErrorClass::Bug, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resting(left: Option<Duration>) -> OpenBreaker {
        OpenBreaker { why: "it rests".to_owned(), left }
    }

    #[test]
    fn rests_are_waited_for_up_to_a_bound_and_the_try_of_another_as_long_as_it_takes() {
        let mut patience = BreakerPatience::default();
        assert_eq!(patience.meet(&resting(Some(WAIT_MAX / 2))), BreakerWait::News);
        assert_eq!(patience.meet(&resting(None)), BreakerWait::News);
        // Half an hour of looking.
        let looks = Duration::from_secs(30 * 60).as_millis() / LOOK_AGAIN.as_millis();
        for _ in 0..looks {
            assert_eq!(patience.meet(&resting(None)), BreakerWait::Known);
        }
        assert_eq!(
            patience.meet(&resting(Some(WAIT_MAX / 2))),
            BreakerWait::News,
            "a rest is told each time"
        );
        assert_eq!(patience.meet(&resting(None)), BreakerWait::News, "and so is a try after it");
        let more = Duration::from_millis(1);
        assert_eq!(patience.meet(&resting(Some(more))), BreakerWait::TooLong(WAIT_MAX + more));
    }
}
