//! Renders the prompt of actors: the task, the approach, the definition of done, the invariants, and the
//! guidance.
//!
//! # Invariants
//! 1. Every actor that gets a brief gets all of it: the invariants are in every brief, whole.
//! 2. A plan without a task in words has an empty brief.
//! 3. A person's guidance reaches every node that begins after it, and a model at its next turn, each time
//!    once.

use domain::plan::strategy::PlanStrategy;
use domain::{Decision, DecisionKind, NodeRun, Phase, Plan, ValidationMode, Values};

const CHECKS: &str = "The work is done when these checks pass (they run on the result, in the project):";
const INVARIANTS: &str = "What must hold (where two conflict, the earlier holds):";

/// Returns the template values of a phase, before any of its nodes has settled and before any message of a
/// person.
pub(crate) fn values(plan: &Plan, runs: &[NodeRun], findings: &str) -> Values {
    let strategy = strategy(plan, runs).map(|strategy| strategy.to_string()).unwrap_or_default();
    let done = bullets(plan.spec.definition_of_done.iter().map(String::as_str));
    Values {
        prompt: String::new(),
        task: plan.spec.prompt.clone(),
        strategy,
        findings: findings.to_owned(),
        definition_of_done: done,
        plan_id: plan.id.to_string(),
        attempt: plan.attempt,
        args: plan.spec.args.clone(),
        nodes: std::collections::BTreeMap::new(),
    }
}

/// The same with the brief in it, and the number of the last thing that a person said.
pub(crate) fn with_brief(plan: &Plan, values: &Values, decisions: &[Decision]) -> (Values, u32) {
    let said: Vec<&Decision> = guidance(decisions).collect();
    let seen = said.last().map_or(0, |decision| decision.seq);
    let said: Vec<&str> = said.iter().map(|decision| decision.new.chosen.as_str()).collect();
    let prompt = prompt(plan, values, &said);
    (Values { prompt, ..values.clone() }, seen)
}

/// Returns the text for every model: the invariants, the required checks, and the instructions of the projects.
pub(crate) fn pinned(plan: &Plan) -> String {
    let invariants = bullets(plan.spec.invariants.iter().map(|invariant| invariant.text.as_str()));
    let instructions = plan.spec.instructions.iter().map(|project| match plan.projects.len() {
        0 | 1 => project.text.trim().to_owned(),
        _ => format!("{}:\n{}", project.alias, project.text.trim()),
    });
    let instructions = instructions.collect::<Vec<_>>().join("\n\n");
    let checks = checks(plan);
    let checks = bullets(checks.iter().map(String::as_str));
    section(&[
        (INVARIANTS, invariants),
        (CHECKS, checks),
        ("Instructions of the project (AGENTS.md):", instructions),
    ])
}

/// Returns the required checks that run a command, each with its command as it is.
fn checks(plan: &Plan) -> Vec<String> {
    let required = plan.spec.validations.iter().filter(|check| check.mode == ValidationMode::Required);
    required
        .map(|check| {
            let command = check.run.render();
            let named = if check.name == command { String::new() } else { format!("{}: ", check.name) };
            let alias = plan.projects.get(usize::from(check.root.0)).filter(|_| plan.projects.len() > 1);
            let project = alias.map(|project| project.alias.clone());
            let cwd = Some(check.cwd.to_string()).filter(|cwd| !cwd.is_empty());
            let place: Vec<String> = project.into_iter().chain(cwd).collect();
            let place = if place.is_empty() { String::new() } else { format!(" (in {})", place.join("/")) };
            format!("{named}{command}{place}")
        })
        .collect()
}

/// Returns the strategy that holds in this attempt, which may be that of an earlier one; `None` if there is none.
pub(crate) fn strategy(plan: &Plan, runs: &[NodeRun]) -> Option<PlanStrategy> {
    let strategist = plan.spec.strategist.as_ref()?;
    let is_it = |run: &&NodeRun| {
        run.phase == Phase::Strategize && run.attempt <= plan.attempt && run.path == strategist.result
    };
    let newest = runs.iter().filter(is_it).max_by_key(|run| run.attempt);
    newest.map(|run| PlanStrategy::from_output(&run.json, &run.text))
}

/// Returns the messages of a person that are still in force, in order.
pub(crate) fn guidance(decisions: &[Decision]) -> impl Iterator<Item = &Decision> {
    decisions.iter().filter(|decision| decision.new.kind == DecisionKind::Guidance && decision.is_live())
}

fn prompt(plan: &Plan, values: &Values, guidance: &[&str]) -> String {
    let invariants = plan.spec.invariants.iter().map(|invariant| invariant.text.as_str());
    let parts = [
        ("", values.task.clone()),
        ("How it is to be done:", values.strategy.clone()),
        ("It is done when:", values.definition_of_done.clone()),
        (INVARIANTS, bullets(invariants)),
        ("Said since by the person who asked:", bullets(guidance.iter().copied())),
        ("What was found wrong with the work so far:", values.findings.clone()),
    ];
    section(&parts)
}

/// The parts that are not empty, each below its head.
fn section(parts: &[(&str, String)]) -> String {
    let said = parts.iter().filter(|(_, text)| !text.trim().is_empty());
    let said = said.map(|(head, text)| match *head {
        "" => text.clone(),
        head => format!("{head}\n{text}"),
    });
    said.collect::<Vec<_>>().join("\n\n")
}

fn bullets<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("- {}", line.trim().replace('\n', "\n  "))).collect::<Vec<_>>().join("\n")
}
