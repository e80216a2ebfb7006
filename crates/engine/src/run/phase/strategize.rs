//! The strategize phase: an actor that only reads thinks about the task, and what it came to is recorded.
//!
//! # Invariants
//! 1. Nothing is changed: models get no tool that writes, commands and servers see the projects read-only,
//!    and a sandbox is opened for them alone.
//! 2. The decisions are recorded in one step: the strategy, and below it the choices. A plan that is
//!    interrupted before that step has no decision of it, and the node that reported them is not asked again.

use domain::plan::strategy::{NO_STRATEGY_KEY, PlanStrategy};
use domain::{
    Decision, DecisionKind, NewDecision, NodeKind, NodeRun, Phase, Plan, PlanStep, StepDecision, Strategist,
};
use serde_json::Value;
use store::DecisionStoreError;

use super::execute::{progress, report_and_decide};
use crate::mcp_servers;
use crate::plan::built_in_decisions::strategy;
use crate::run::context::RunContext;
use crate::run::graph;
use crate::run::graph::{GraphRun, RoundEnd};
use crate::run::node::command;
use crate::run::node::decisions::{ReportedDecision, invalid};
use crate::run::{PhaseFailure, RunError, plan_sandbox};

pub(crate) async fn strategize(run: RunContext<'_>) -> Result<(), RunError> {
    let RunContext { engine, job, plan, .. } = run;
    let known = engine.store.decisions(plan.id).await?;
    if known.iter().any(|decision| is_strategy_of(decision, plan)) {
        return Ok(());
    }
    let decisions = match &plan.spec.strategist {
        None => vec![StepDecision::from(strategy(&plan.spec, plan.attempt))],
        Some(strategist) => {
            think(&GraphRun { run, steps: &strategist.steps }).await?;
            let runs = engine.store.node_runs(plan.id).await?;
            decided(plan, strategist, &runs)?
        }
    };
    let effect = job.enter()?;
    match engine.store.decide_all(&effect, &job.claim(), decisions).await {
        Ok(_) => Ok(()),
        Err(DecisionStoreError::Invalid(why)) => {
            let node = plan.spec.strategist.as_ref().map(|strategist| strategist.result.as_str());
            Err(invalid(node.unwrap_or_default(), &why))
        }
        Err(other) => Err(other.into()),
    }
}

fn is_strategy_of(decision: &Decision, plan: &Plan) -> bool {
    let Decision { new, superseded_by, .. } = decision;
    new.kind == DecisionKind::Strategy && new.attempt == plan.attempt && superseded_by.is_none()
}

/// Runs the strategist's graph.
async fn think(actor: &GraphRun<'_>) -> Result<(), RunError> {
    loop {
        let again = match round(actor).await {
            Ok(RoundEnd::Done) => return Ok(()),
            Ok(RoundEnd::Again { after }) => after,
            Err(RunError::Failed { category, message, call, .. }) => {
                report_and_decide(actor.run, PhaseFailure { category, message, call, retry_after: None })
                    .await?
            }
            Err(stopped) => return Err(stopped),
        };
        plan_sandbox::close(&actor.run.phase_context()).await?;
        command::pause(actor.job, again).await?;
    }
}

async fn round(actor: &GraphRun<'_>) -> Result<RoundEnd, RunError> {
    let runs_command = |step: &PlanStep| {
        matches!(step.does, NodeKind::Command(_) | NodeKind::External(_))
            || !mcp_servers::named(step).is_empty()
    };
    if actor.steps.iter().any(runs_command) && plan_sandbox::open(actor.run).await?.is_some() {
        // Retained by an execute of an earlier attempt; nothing here continues it.
        plan_sandbox::discard(actor.state).await?;
        plan_sandbox::open(actor.run).await?;
    }
    let mut progress = progress(actor, "").await?;
    graph::run(actor, &mut progress).await
}

/// Returns the decisions of the strategist: the strategy first, the choices below it.
fn decided(plan: &Plan, strategist: &Strategist, runs: &[NodeRun]) -> Result<Vec<StepDecision>, RunError> {
    let is_result = |run: &&NodeRun| {
        run.phase == Phase::Strategize && run.attempt == plan.attempt && run.path == strategist.result
    };
    let said = runs.iter().find(is_result);
    let json = said.map(|run| &run.json).unwrap_or(&Value::Null);
    let said_text = said.map(|run| run.text.as_str()).unwrap_or_default();
    let chosen = PlanStrategy::from_output(json, said_text).to_string();
    let choices = ReportedDecision::all_in(json).map_err(|why| invalid(&strategist.result, &why))?;
    let choices: Vec<NewDecision> =
        choices.into_iter().map(|said| choice(plan, &strategist.result, said)).collect();
    let least = choices.iter().filter_map(|choice| choice.confidence).reduce(f32::min);
    let strategy = NewDecision {
        kind: DecisionKind::Strategy,
        question: "How is it done?".to_owned(),
        chosen: if chosen.is_empty() { "as the task says".to_owned() } else { chosen },
        rationale: match json.get(NO_STRATEGY_KEY).and_then(Value::as_str) {
            Some(why) => format!("{} gave no strategy: {why}", strategist.name),
            None => format!("thought out by {}", strategist.name),
        },
        confidence: least,
        ..blank(plan, &strategist.result)
    };
    let below = choices.into_iter().map(|new| StepDecision { new, parent: Some(0), depends_on: Vec::new() });
    Ok(std::iter::once(StepDecision::from(strategy)).chain(below).collect())
}

/// A choice of the strategist. Nothing below the strategy has a number yet, so that it can name no other.
fn choice(plan: &Plan, node: &str, said: ReportedDecision) -> NewDecision {
    let made = blank(plan, node);
    NewDecision { parent: made.parent, depends_on: Vec::new(), ..said.decision(made) }
}

fn blank(plan: &Plan, node: &str) -> NewDecision {
    NewDecision {
        parent: Some(1),
        attempt: plan.attempt,
        phase: Phase::Strategize,
        kind: DecisionKind::Choice,
        question: String::new(),
        chosen: String::new(),
        alternatives: Vec::new(),
        rationale: String::new(),
        confidence: None,
        depends_on: Vec::new(),
        node: Some(node.to_owned()),
        at_entry: 0,
        supersedes: Vec::new(),
    }
}
