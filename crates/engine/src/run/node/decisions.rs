//! Decisions that nodes report while they work: through the tool `plan.decide`, or by a program in
//! `$AGENTS_OUTPUT`.
//!
//! # Invariants
//! 1. A choice is recorded before the end of the node that reports it is stored, so none is lost. If another
//!    try reports it again, it is the same decision.
//! 2. Those of one output are recorded in one step, all or none.
//! 3. Nothing is recorded with its secrets.
//!
//! # Not here
//! The decisions of a strategist: `strategize`. The rules for what may be recorded: [`NewDecision::check`].

use domain::plan::strategy::PlanStrategy;
use domain::{Alternative, Decision, DecisionKind, ErrorCategory, NewDecision, StepDecision};
use serde::Deserialize;
use serde_json::Value;
use store::DecisionStoreError;
use sync::Effect;

use crate::run::RunError;
use crate::run::context::NodeContext;

/// The maximum number of recorded choices of one strategist, or of one output of another node.
const CHOICES_MAX: usize = 20;

/// A choice as an actor reports it: `{question, chosen, rationale, confidence, alternatives: [{text,
/// why_not}]}`. Missing fields are left out. A wrong field makes it invalid, because a gate may depend on it.
#[derive(Debug, Deserialize)]
pub(crate) struct ReportedDecision {
    chosen: String,
    #[serde(default)]
    question: String,
    #[serde(default)]
    rationale: String,
    #[serde(default)]
    confidence: Option<f32>,
    #[serde(default)]
    alternatives: Vec<Alternative>,
    #[serde(default)]
    parent: Option<u32>,
    #[serde(default)]
    depends_on: Vec<u32>,
}

impl ReportedDecision {
    /// Reads it, or says in words why it is none.
    pub(crate) fn read(said: &Value) -> Result<ReportedDecision, String> {
        match ReportedDecision::deserialize(said) {
            Err(error) => Err(format!("it is not a decision: {error}")),
            Ok(said) if said.chosen.trim().is_empty() => Err("it does not say what was chosen".to_owned()),
            Ok(ReportedDecision { confidence: Some(confidence), .. })
                if !(0.0..=1.0).contains(&confidence) =>
            {
                Err(format!("its confidence is {confidence}, and not from 0 to 1"))
            }
            Ok(said) => Ok(said),
        }
    }

    /// Returns the decisions that an output reports, or the first that is invalid.
    pub(crate) fn all_in(output: &Value) -> Result<Vec<ReportedDecision>, String> {
        let listed = output.get("decisions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        listed.iter().take(CHOICES_MAX).map(ReportedDecision::read).collect()
    }

    fn new(chosen: String) -> ReportedDecision {
        ReportedDecision {
            chosen,
            question: String::new(),
            rationale: String::new(),
            confidence: None,
            alternatives: Vec::new(),
            parent: None,
            depends_on: Vec::new(),
        }
    }

    /// Returns the choice as a decision at the place of `made`. Its own parent, if it names one, replaces
    /// that of `made`.
    pub(crate) fn decision(self, made: NewDecision) -> NewDecision {
        let ReportedDecision { chosen, question, rationale, confidence, alternatives, parent, depends_on } =
            self;
        let parent = parent.or(made.parent);
        NewDecision { chosen, question, rationale, confidence, alternatives, parent, depends_on, ..made }
    }
}

/// Returns the error of a node that reports a decision that cannot be recorded.
pub(crate) fn invalid(node: &str, why: &dyn std::fmt::Display) -> RunError {
    let message = format!("DECISION_INVALID: node {node} reported a decision that cannot be recorded: {why}");
    RunError::failed(ErrorCategory::ModelOutput, message)
}

/// Records one choice, and gives its number; or says, in words, why it cannot be recorded.
pub(crate) async fn record_one(
    context: &NodeContext<'_>,
    effect: &Effect,
    said: &Value,
) -> Result<Result<u32, String>, RunError> {
    let known = context.engine.store.decisions(context.plan.id).await?;
    let new = match choice(context, said, &known).await? {
        Ok(new) => new,
        Err(why) => return Ok(Err(why)),
    };
    if let Some(same) = reported_before(&known, &new) {
        return Ok(Ok(same.seq));
    }
    match context.engine.store.decide(effect, &context.job.claim(), new).await {
        Ok(decision) => Ok(Ok(decision.seq)),
        Err(DecisionStoreError::Invalid(why)) => Ok(Err(why.to_string())),
        Err(other) => Err(other.into()),
    }
}

/// Records the `steps` and `decisions` of an output: how the node goes about it, and below that its
/// choices.
pub(crate) async fn record_all(
    context: &NodeContext<'_>,
    effect: &Effect,
    output: &Value,
) -> Result<(), RunError> {
    let listed =
        |key: &str| output.get(key).and_then(Value::as_array).filter(|listed| !listed.is_empty()).cloned();
    let (steps, choices) = (listed("steps"), listed("decisions"));
    if steps.is_none() && choices.is_none() {
        return Ok(());
    }
    let known = context.engine.store.decisions(context.plan.id).await?;
    let mut new: Vec<StepDecision> = Vec::new();
    if steps.is_some() {
        let way = PlanStrategy::from_output(output, "").to_string();
        let said = ReportedDecision {
            question: "How does it go about it?".to_owned(),
            ..ReportedDecision::new(way)
        };
        new.push(new_decision(context, said, &known).await?.into());
    }
    let has_steps = !new.is_empty();
    for said in choices.into_iter().flatten().take(CHOICES_MAX) {
        let choice = choice(context, &said, &known).await?.map_err(|why| invalid(context.path, &why))?;
        // One that names its parent follows from that; the others from how the node goes about it.
        let parent = (has_steps && said.get("parent").is_none()).then_some(0);
        new.push(StepDecision { new: choice, parent, depends_on: Vec::new() });
    }
    if new.iter().all(|new| reported_before(&known, &new.new).is_some()) {
        return Ok(());
    }
    match context.engine.store.decide_all(effect, &context.job.claim(), new).await {
        Ok(_) => Ok(()),
        Err(DecisionStoreError::Invalid(why)) => Err(invalid(context.path, &why)),
        Err(other) => Err(other.into()),
    }
}

async fn choice(
    context: &NodeContext<'_>,
    said: &Value,
    known: &[Decision],
) -> Result<Result<NewDecision, String>, RunError> {
    let said = match context.engine.redactor.redactor() {
        Some(redactor) => redactor.redact_json(said),
        None => return Ok(Err("secrets cannot be redacted in it".to_owned())),
    };
    match ReportedDecision::read(&said) {
        Err(why) => Ok(Err(why)),
        Ok(said) => Ok(Ok(new_decision(context, said, known).await?)),
    }
}

async fn new_decision(
    context: &NodeContext<'_>,
    said: ReportedDecision,
    known: &[Decision],
) -> Result<NewDecision, RunError> {
    let is_strategy = |decision: &&Decision| {
        decision.is_live()
            && decision.new.kind == DecisionKind::Strategy
            && decision.new.attempt == context.plan.attempt
    };
    let strategy = known.iter().rev().find(is_strategy).map(|decision| decision.seq);
    let entries = context.engine.store.entries(context.plan.id, context.plan.attempt).await?;
    let (attempt, phase) = (context.plan.attempt, context.phase());
    let made = NewDecision {
        parent: strategy,
        node: Some(context.path.to_owned()),
        at_entry: entries.last().map_or(0, |entry| entry.no),
        ..NewDecision::new(attempt, phase, DecisionKind::Choice, String::new())
    };
    Ok(said.decision(made))
}

/// Returns the same choice of the same node, reported in an earlier try.
fn reported_before<'d>(known: &'d [Decision], new: &NewDecision) -> Option<&'d Decision> {
    let is_same = |decision: &&Decision| {
        let kept = &decision.new;
        decision.is_live()
            && (kept.attempt, kept.phase, kept.kind) == (new.attempt, new.phase, new.kind)
            && kept.node == new.node
            && (&kept.question, &kept.chosen) == (&new.question, &new.chosen)
    };
    known.iter().find(is_same)
}
