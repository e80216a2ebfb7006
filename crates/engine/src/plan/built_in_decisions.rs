//! Decisions that are recorded without an actor. They are the task of a plan, its invariants, a strategy of
//! one step, the guidance of the user, and a revert.
//!
//! # Not here
//! Decisions of strategists and other actors (`run::node::decisions`), and storing decisions.

use domain::{
    Decision, DecisionKind, Invariant, InvariantScope, NewDecision, NodeKind, Phase, PlanSpec, PlanStep,
};

/// The choice of a plan that goes back by itself: it distinguishes the recovery from a person.
const BY_ITSELF: &str = "back to strategize, by recovery";
/// The same by a person.
const BY_A_PERSON: &str = "back to strategize, by person";

/// Returns the decision for the prompt of the plan. `shown` is the prompt without its secrets.
pub(crate) fn prompt(shown: &str) -> NewDecision {
    NewDecision {
        question: "What is to be done?".to_owned(),
        rationale: "asked for by the user".to_owned(),
        ..NewDecision::new(1, Phase::Strategize, DecisionKind::Prompt, shown)
    }
}

/// Returns the decision for the invariants, with their sources; `None` if there are none.
pub(crate) fn invariants(spec: &PlanSpec, attempt: u32) -> Option<NewDecision> {
    if spec.invariants.is_empty() {
        return None;
    }
    let line = |invariant: &Invariant| {
        let checked = if invariant.rule.is_some() { ", checked" } else { "" };
        format!("{} ({}{checked})", invariant.text, of_whom(invariant.scope))
    };
    let chosen = spec.invariants.iter().map(line).collect::<Vec<_>>().join("\n");
    Some(NewDecision {
        question: "What must hold?".to_owned(),
        rationale: "where two conflict, the earlier holds".to_owned(),
        ..NewDecision::new(attempt, Phase::Strategize, DecisionKind::Invariants, chosen)
    })
}

fn of_whom(scope: InvariantScope) -> &'static str {
    match scope {
        InvariantScope::Plan => "of the plan",
        InvariantScope::Action => "of the action",
        InvariantScope::Project => "of the project",
        InvariantScope::User => "of the user",
    }
}

/// Without a strategist the strategy is what was asked for.
pub(crate) fn strategy(spec: &PlanSpec, attempt: u32) -> NewDecision {
    let chosen = match spec.steps.as_slice() {
        [PlanStep { does: NodeKind::Command(_), .. }] => "one step: the command itself".to_owned(),
        [_] => "one step: the task itself".to_owned(),
        steps => format!("{} steps, as they were asked for", steps.len()),
    };
    NewDecision {
        question: "How is it done?".to_owned(),
        rationale: "the plan names what is to be done, so there is nothing to choose".to_owned(),
        confidence: Some(1.0),
        ..NewDecision::new(attempt, Phase::Strategize, DecisionKind::Strategy, chosen)
    }
}

/// Returns the decision for a person's message. Attempt and phase are those of the plan, which the store
/// knows.
pub(crate) fn guidance(text: &str) -> NewDecision {
    NewDecision {
        question: "What else is to be heeded?".to_owned(),
        rationale: "said by the person who asked".to_owned(),
        ..NewDecision::new(1, Phase::Strategize, DecisionKind::Guidance, text)
    }
}

/// Back to a new strategy, since a person said so.
pub(crate) fn reversion_by_person() -> NewDecision {
    reversion(BY_A_PERSON, "a person said what is to be done differently")
}

/// Back to a new strategy, since the plan failed with this.
pub(crate) fn reversion_by_itself(why: &str) -> NewDecision {
    reversion(BY_ITSELF, why)
}

fn reversion(chosen: &str, why: &str) -> NewDecision {
    NewDecision {
        question: "How does the plan continue?".to_owned(),
        rationale: why.to_owned(),
        ..NewDecision::new(1, Phase::Strategize, DecisionKind::Reversion, chosen)
    }
}

/// The number of times that the plan went back by itself, in all its attempts.
pub(crate) fn reversions_by_itself(decisions: &[Decision]) -> u32 {
    let is_one = |decision: &&Decision| {
        decision.new.kind == DecisionKind::Reversion && decision.new.chosen == BY_ITSELF
    };
    u32::try_from(decisions.iter().filter(is_one).count()).unwrap_or(u32::MAX)
}
