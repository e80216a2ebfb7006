//! The record of a turn: the question to the model, and its answer.
//!
//! # Invariants
//! 1. A question is stored before it is sent, and its outcome as soon as that is known: an answer that cannot
//!    be used, a refusal and a failure as well as the last word. A question whose process died ends when its
//!    job moves on.
//! 2. The record is redacted, and bounded like the text of a node.
//! 3. A question is no call of a tool: it counts as the step that begins with it, and in no limit of calls.

use actors::model::{Cause, ModelAnswer, ModelError};
use domain::{CallNumber, CallState, ErrorCategory, NewCall, ToolCall};
use serde_json::{Value, json};
use store::CallAuthority;
use sync::{CancelReason, Effect};

use super::turn::ModelCaller;
use crate::query::details::ASK_MODEL;
use crate::run::node::bounded;
use crate::run::{RunError, accounting};
use worker::EndedCall;

/// A question that is stored and has no end yet.
pub(crate) struct ModelCallRecord(ToolCall);

impl ModelCallRecord {
    /// Keeps that the model is about to be asked.
    pub(crate) async fn begin(
        asker: &ModelCaller<'_, '_>,
        effect: &Effect,
    ) -> Result<ModelCallRecord, RunError> {
        let node = asker.node;
        let new = NewCall {
            attempt: node.plan.attempt,
            node: node.path.to_owned(),
            tool: ASK_MODEL.to_owned(),
            requested: json!({ "model": asker.model }),
            effective: Value::Null,
        };
        accounting::begin(node.run, effect, new).await.map(ModelCallRecord)
    }

    /// Its number among the calls.
    pub(crate) fn no(&self) -> CallNumber {
        self.0.no
    }

    /// Keeps that it was not asked, since a limit says no.
    pub(crate) async fn not_asked(
        self,
        asker: &ModelCaller<'_, '_>,
        effect: &Effect,
        why: &RunError,
    ) -> Result<(), RunError> {
        self.end(asker, effect, (CallState::Refused, Some(why.shown()), Value::Null)).await
    }

    /// Keeps what came of it.
    pub(crate) async fn answered(
        self,
        asker: &ModelCaller<'_, '_>,
        effect: &Effect,
        answer: &Result<ModelAnswer, ModelError>,
    ) -> Result<(), RunError> {
        let came_to = match answer {
            Ok(answer) => (CallState::Ok, None, told(asker, answer)),
            Err(error) => {
                let state = match (&error.cause, error.category) {
                    (Cause::Cancelled(CancelReason::Timeout), _) | (_, ErrorCategory::Timeout) => {
                        CallState::TimedOut
                    }
                    (Cause::Cancelled(_), _) => CallState::Cancelled,
                    (Cause::Provider | Cause::Drift(_), _) => CallState::Failed,
                };
                (state, Some(error.to_string()), Value::Null)
            }
        };
        self.end(asker, effect, came_to).await
    }

    async fn end(
        self,
        asker: &ModelCaller<'_, '_>,
        effect: &Effect,
        came_to: (CallState, Option<String>, Value),
    ) -> Result<(), RunError> {
        let (engine, ModelCallRecord(call)) = (asker.node.engine, self);
        let end = engine.ended(call.started, came_to);
        asker.node.job.context().end_call(CallAuthority::Effect(effect), EndedCall::new(&call, end)).await?;
        Ok(())
    }
}

/// Returns the stored form of the answer. The cost is null if it is not known.
fn told(asker: &ModelCaller<'_, '_>, answer: &ModelAnswer) -> Value {
    let engine = asker.node.engine;
    let tools: Vec<&str> = answer.calls.iter().map(|call| call.name.as_str()).collect();
    let is_paid = asker.resolved.price.is_some() && !engine.models.is_replay();
    json!({
        "text": bounded(engine.redactor.redact_text(&answer.text)),
        "stop": answer.stop, "calls": tools,
        "tokens_in": answer.usage.tokens_in, "tokens_out": answer.usage.tokens_out,
        "cost_micros": is_paid.then_some(answer.usage.cost_micros),
    })
}
