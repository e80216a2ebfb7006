//! The record of a turn: the request to the model, its answer, and the faults that were reported to it. The
//! user finds the faults without reading all calls.
//!
//! | reported to the model | recorded as |
//! |---|---|
//! | a call that cannot be made: no such tool, no JSON, wrong arguments, not allowed, a path outside | model_output |
//! | an answer that was cut off, or does not fit `output`; too many calls at once; the same call again and again; no change at all | model_output |
//! | a conversation that was too long for the model, and was shortened | invalid_input |
//! | a tool that failed, took too long, broke down, went away, or answered what its schema forbids | tool |
//! | what belongs to the work: nothing at a path, a text that does not occur, a command that exits with 1 | nothing |
//!
//! # Invariants
//! 1. A request is stored before it is sent, and its outcome as soon as that is known. An answer that cannot
//!    be used, a refusal and a failure are outcomes too. A question whose process died ends when its job
//!    moves on.
//! 2. The record is redacted, and bounded like the text of a node.
//! 3. A question is no call of a tool: it counts as the step that begins with it, and in no limit of calls.
//! 4. A recorded fault changes nothing: the node continues, no retry is counted, the plan is not errored by
//!    it. At most [`FAULTS_MAX`] are recorded of one run of a node. The calls themselves are stored anyway.

use actors::model::{Cause, ModelAnswer, ModelError};
use domain::{CallNumber, CallState, ErrorCategory, ErrorId, NewCall, NewError, StepId, ToolCall};
use serde_json::{Value, json};
use store::CallAuthority;
use sync::{CancelReason, Effect};

use super::turn::ModelCaller;
use crate::query::details::ASK_MODEL;
use crate::run::node::{ActiveNode, bounded};
use crate::run::{RunError, accounting, record_until_stored};
use worker::EndedCall;

/// The key of a turn's number among the arguments of a question, counted from 1 in each try of a node. A try
/// that continues an earlier one counts on.
pub(super) const TURN_KEY: &str = "turn";

/// A question that is stored and has no end yet.
pub(crate) struct ModelCallRecord(ToolCall);

impl ModelCallRecord {
    /// Records that the model is about to be asked.
    pub(crate) async fn begin(
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        turn: u32,
    ) -> Result<ModelCallRecord, RunError> {
        let node = caller.node;
        let new = NewCall {
            attempt: node.plan.attempt,
            node: node.path.to_owned(),
            tool: ASK_MODEL.to_owned(),
            requested: json!({ "model": caller.model, TURN_KEY: turn }),
            effective: Value::Null,
        };
        accounting::begin(node.run, effect, new).await.map(ModelCallRecord)
    }

    /// Its number among the calls.
    pub(crate) fn no(&self) -> CallNumber {
        self.0.no
    }

    /// Records that it was not asked, because a limit refuses.
    pub(crate) async fn not_asked(
        self,
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        why: &RunError,
    ) -> Result<(), RunError> {
        self.end(caller, effect, (CallState::Refused, Some(why.shown()), Value::Null)).await
    }

    /// Records the outcome.
    pub(crate) async fn answered(
        self,
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        answer: &Result<ModelAnswer, ModelError>,
    ) -> Result<(), RunError> {
        let came_to = match answer {
            Ok(answer) => (CallState::Ok, None, answer_json(caller, answer)),
            Err(error) => {
                let state = match (&error.cause, error.category) {
                    (Cause::Cancelled(CancelReason::Timeout), _) | (_, ErrorCategory::Timeout) => {
                        CallState::TimedOut
                    }
                    (Cause::Cancelled(_), _) => CallState::Cancelled,
                    (Cause::Provider | Cause::NotRunning | Cause::Drift(_), _) => CallState::Failed,
                };
                (state, Some(error.to_string()), Value::Null)
            }
        };
        self.end(caller, effect, came_to).await
    }

    async fn end(
        self,
        caller: &ModelCaller<'_, '_>,
        effect: &Effect,
        came_to: (CallState, Option<String>, Value),
    ) -> Result<(), RunError> {
        let (engine, ModelCallRecord(call)) = (caller.node.engine, self);
        let end = engine.ended(call.started, came_to);
        caller.node.job.context().end_call(CallAuthority::Effect(effect), EndedCall::new(&call, end)).await?;
        Ok(())
    }
}

/// Returns the stored form of the answer. The cost is null if it is not known.
fn answer_json(caller: &ModelCaller<'_, '_>, answer: &ModelAnswer) -> Value {
    let engine = caller.node.engine;
    let tools: Vec<&str> = answer.calls.iter().map(|call| call.name.as_str()).collect();
    let is_paid = caller.resolved.price.is_some() && !engine.models.is_replay();
    json!({
        "text": bounded(engine.redactor.redact_text(&answer.text)),
        "stop": answer.stop, "calls": tools,
        "tokens_in": answer.usage.tokens_in, "tokens_out": answer.usage.tokens_out,
        "cost_micros": is_paid.then_some(answer.usage.cost_micros),
    })
}

/// The number of faults of one run of a node that are recorded.
const FAULTS_MAX: u32 = 25;

/// The faults of one run of a node.
#[derive(Default)]
pub(crate) struct FaultLog {
    written: u32,
}

impl FaultLog {
    /// Records the message to the model.
    pub(crate) async fn note(
        &mut self,
        node: &ActiveNode<'_>,
        category: ErrorCategory,
        report: &str,
        call: Option<CallNumber>,
    ) -> Result<(), RunError> {
        if self.written >= FAULTS_MAX {
            return Ok(());
        }
        self.written += 1;
        let more = match self.written {
            FAULTS_MAX => " (further failures of this node are recorded only in its calls)",
            _ => "",
        };
        let message = node.engine.redactor.redact_text(report) + more;
        let id = ErrorId::from_u128(node.engine.ids.ulid());
        let step = StepId { attempt: node.plan.attempt, node: node.path.to_owned(), visit: 1 };
        let error = NewError::new(id, node.phase(), step, category, message).handled();
        let error = match call {
            Some(call) => error.with_tool_call(call),
            None => error,
        };
        record_until_stored(&node.engine.recovery, node.job, error).await?;
        Ok(())
    }
}
