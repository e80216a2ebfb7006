//! An applied plan continues as a new one: `plan revise` of it makes a follow-up.
//!
//! # Invariants
//! 1. The follow-up starts from the live tree, in which the changes of the followed plan are. That plan stays
//!    as it is and can still be undone.
//! 2. The follow-up has the same task and actor. Its first messages are the decisions of the followed plan,
//!    the messages to it, and the request. A model continues the conversation of the followed plan.
//! 3. It waits before apply, also if the followed plan did not.

use domain::text::truncate_chars;
use domain::{Decision, DecisionKind, GateDecision, Plan, PlanId, PlanSpec, TITLE_CHARS_MAX};
use store::PlanStoreError;

use super::built_in_decisions;
use super::create::{NewPlanRequest, UseError};
use super::guidance::GUIDANCE_BYTES_MAX;
use crate::engine::Engine;

/// The end of the title of a follow-up.
const SUFFIX: &str = " (follow-up)";
/// The maximum number of characters of the decisions of the followed plan and the messages to it.
const EARLIER_CHARS_MAX: usize = 4000;

/// The reason why no follow-up was made.
#[derive(Debug, thiserror::Error)]
pub enum FollowUpError {
    /// There is nothing said, or too much.
    #[error("a follow-up needs a message of at most {GUIDANCE_BYTES_MAX} bytes")]
    Message {
        /// The number of bytes.
        bytes: usize,
    },
    /// It cannot work as asked.
    #[error(transparent)]
    Use(#[from] UseError),
    /// The followed plan cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl Engine {
    /// Makes a plan that continues an applied one with this message, and queues its first phase. `spec` is
    /// another actor, or more checks.
    ///
    /// # Errors
    /// Returns an error, and stores nothing, if there is nothing to say or the plan cannot work as asked.
    pub async fn follow_up(
        &self,
        id: PlanId,
        message: &str,
        spec: Option<PlanSpec>,
    ) -> Result<Plan, FollowUpError> {
        let message = self.inner.redactor.redact_text(message.trim());
        if message.is_empty() || message.len() > GUIDANCE_BYTES_MAX {
            return Err(FollowUpError::Message { bytes: message.len() });
        }
        let plan = self.inner.store.plan(id).await?;
        let decisions = self.inner.store.decisions(id).await.map_err(PlanStoreError::from)?;
        let mut spec = spec.unwrap_or_else(|| (*plan.spec).clone());
        (spec.follows, spec.apply, spec.batch) = (Some(id), GateDecision::Ask, None);
        let said = [earlier(&plan, &decisions), message];
        let said = said.iter().map(|text| built_in_decisions::guidance(text)).collect();
        let request = NewPlanRequest { title: title(&plan.title), spec, projects: plan.projects.clone() };
        Ok(self.use_plan_with(request, said).await?)
    }
}

/// The title of a follow-up; that of a follow-up of a follow-up is the same.
fn title(followed: &str) -> String {
    let own = followed.strip_suffix(SUFFIX).unwrap_or(followed);
    truncate_chars(own, TITLE_CHARS_MAX - SUFFIX.len()) + SUFFIX
}

/// Returns the decisions of a plan and the messages to it, in words.
fn earlier(plan: &Plan, decisions: &[Decision]) -> String {
    let mut text = format!(
        "This continues plan {}, which is applied: its changes are in the files of the project.",
        plan.id
    );
    for decision in decisions.iter().filter(|decision| decision.is_live()) {
        let line = match decision.new.kind {
            DecisionKind::Strategy | DecisionKind::Choice => {
                format!("\n- {} {}", decision.new.question, decision.new.chosen)
            }
            DecisionKind::Guidance => format!("\n- The person said: {}", decision.new.chosen),
            DecisionKind::Prompt
            | DecisionKind::Invariants
            | DecisionKind::Recovery
            | DecisionKind::Note
            | DecisionKind::Reversion
            | DecisionKind::Spawn => continue,
        };
        text.push_str(&line);
    }
    truncate_chars(&text, EARLIER_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_follow_up_is_marked_once_and_fits() {
        assert_eq!(title("mend it"), "mend it (follow-up)");
        assert_eq!(title("mend it (follow-up)"), "mend it (follow-up)");
        let long = title(&"x".repeat(TITLE_CHARS_MAX));
        assert!(long.ends_with(SUFFIX) && long.chars().count() <= TITLE_CHARS_MAX, "{long}");
    }
}
