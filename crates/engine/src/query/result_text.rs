//! The result text of a plan: the text of the node that its actor names as its result.
//!
//! # Invariants
//! 1. Only a node that succeeded has a result. If it ran again to repair the findings of a check, its last
//!    text counts.
//! 2. The text has lost its secrets where it was made, and has the bound of every node's text.

use domain::{NodeKind, NodeOutcome, NodePath, NodeRun, Phase, Plan, PlanSpec};

/// The run whose text is the answer of the plan's present attempt, among runs that are in order.
pub(crate) fn answer<'a>(plan: &Plan, runs: &'a [NodeRun]) -> Option<&'a NodeRun> {
    let node = plan.spec.result_step()?.node.as_str();
    let is_of_it = |path: &str| path == node || NodePath::parse(path).step() == Some(node);
    let of_attempt = |run: &&NodeRun| run.phase == Phase::Execute && run.attempt == plan.attempt;
    let succeeded = |run: &&NodeRun| run.outcome == NodeOutcome::Succeeded && is_of_it(&run.path);
    runs.iter().filter(of_attempt).rfind(succeeded)
}

/// The node that itself said what this run says: of a nested actor, the one that answers for it.
pub(crate) fn speaker<'a>(spec: &'a PlanSpec, run: &'a NodeRun) -> &'a str {
    let mut node = run.path.as_str();
    // Nested actors are no deeper than their steps are many.
    for _ in &spec.steps {
        match spec.steps.iter().find(|step| step.node == node).map(|step| &step.does) {
            Some(NodeKind::Actor { result, .. }) => node = result,
            Some(_) | None => break,
        }
    }
    node
}
