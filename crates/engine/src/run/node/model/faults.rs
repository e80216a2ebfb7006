//! Records the faults inside a node that its model was informed of, so that the user finds them without
//! reading all calls.
//!
//! | reported to the model | recorded as |
//! |---|---|
//! | a call that cannot be made: no such tool, no JSON, wrong arguments, not allowed, a path outside | model_output |
//! | an answer that was cut off, or does not fit `output`; too many calls at once; the same call again and again | model_output |
//! | a tool that failed, took too long, broke down, went away, or answered what its schema forbids | tool |
//! | what belongs to the work: nothing at a path, a text that does not occur, a command that exits with 1 | nothing |
//!
//! # Invariants
//! 1. It changes nothing: the node continues, no retry is counted, the plan is not errored by it.
//! 2. At most [`FAULTS_MAX`] are recorded of one run of a node. The calls themselves are stored anyway.

use domain::{CallNumber, ErrorCategory, ErrorId, NewError, StepId};

use crate::run::node::ActiveNode;
use crate::run::{RunError, record_until_stored};

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
        told: &str,
        call: Option<CallNumber>,
    ) -> Result<(), RunError> {
        if self.written >= FAULTS_MAX {
            return Ok(());
        }
        self.written += 1;
        let more = match self.written {
            FAULTS_MAX => " (what else goes wrong in this node is told by its calls alone)",
            _ => "",
        };
        let message = node.engine.redactor.redact_text(told) + more;
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
