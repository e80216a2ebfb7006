//! The rules among a plan's invariants, looked at on what is to be changed.
//!
//! # Invariants
//! All changes of a plan are judged when it was executed, and what was chosen of them when it is applied.

use domain::{
    CheckedFile, InvariantRule, InvariantViolation, LinesChanged, NetChange, Plan, invariant_check_name,
    violations,
};

use super::merge::WantedChange;
use super::transaction::lines_of;
use crate::engine::EngineInner;

impl EngineInner {
    /// The rules that these changes break.
    pub(crate) fn broken_invariants(&self, plan: &Plan, net: &[NetChange]) -> Vec<InvariantViolation> {
        broken(plan, net.iter().map(|change| (change, || self.file_diff(change.clone(), &[]).lines)))
    }

    /// The rules that what was chosen breaks.
    pub(crate) fn broken_by_chosen(&self, plan: &Plan, wanted: &[WantedChange]) -> Vec<InvariantViolation> {
        let judged = wanted.iter().filter(|wanted| !wanted.is_carrier);
        broken(plan, judged.map(|wanted| (&wanted.change, || lines_of(self, wanted))))
    }
}

/// Returns the violations of the rules in the words of this check; `None` if they hold.
pub(crate) fn what_breaks(check: &str, broken: &[InvariantViolation]) -> Option<String> {
    let of_check = broken.iter().filter(|broken| invariant_check_name(&broken.text) == check);
    let what: Vec<&str> = of_check.map(|broken| broken.what.as_str()).collect();
    (!what.is_empty()).then(|| what.join("; "))
}

fn broken<'a, L: FnOnce() -> LinesChanged>(
    plan: &Plan,
    changes: impl Iterator<Item = (&'a NetChange, L)>,
) -> Vec<InvariantViolation> {
    let counts_lines = |rule: &InvariantRule| matches!(rule, InvariantRule::MaxLines(_));
    let counts_lines =
        plan.spec.invariants.iter().any(|invariant| invariant.rule.as_ref().is_some_and(counts_lines));
    let touched = changes.map(|(change, lines)| CheckedFile {
        alias: plan.projects.get(usize::from(change.root.0)).map_or("", |project| project.alias.as_str()),
        path: &change.path,
        from: change.from.as_ref(),
        lines: match counts_lines {
            true => {
                let lines = lines();
                lines.insertions.saturating_add(lines.deletions)
            }
            false => 0,
        },
    });
    violations(&plan.spec.invariants, &touched.collect::<Vec<_>>())
}
