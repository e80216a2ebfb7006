//! The rules among a plan's invariants, looked at on what is to be changed.

use domain::{NetChange, Plan, Rule, Touched, Violation, violations};

use super::House;

impl House {
    /// The rules that these changes break.
    pub(super) fn broken_invariants(&self, plan: &Plan, net: &[NetChange]) -> Vec<Violation> {
        let counts_lines = |rule: &Rule| matches!(rule, Rule::MaxLines(_));
        let counts_lines =
            plan.spec.invariants.iter().any(|invariant| invariant.rule.as_ref().is_some_and(counts_lines));
        let lines = |change: &NetChange| match counts_lines {
            true => {
                let lines = self.file_diff(change.clone(), &[]).lines;
                lines.insertions.saturating_add(lines.deletions)
            }
            false => 0,
        };
        let touched = net.iter().map(|change| Touched {
            alias: plan.projects.get(usize::from(change.root.0)).map_or("", |project| project.alias.as_str()),
            path: &change.path,
            from: change.from.as_ref(),
            lines: lines(change),
        });
        violations(&plan.spec.invariants, &touched.collect::<Vec<_>>())
    }
}
