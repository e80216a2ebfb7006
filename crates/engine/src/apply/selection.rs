//! The changes of a plan that the user selected, and the check results for them.
//!
//! # Invariants
//! The rules among a plan's invariants judge all its changes when it was executed, and the selected ones when
//! it is applied.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    CallNumber, ChangeSelection, CheckedFile, ConflictTake, HunkAddress, InvariantRule, InvariantViolation,
    Kind, LinesChanged, Merge, NarrowedChange, NetChange, Plan, ProjectAlias, RootIndex, SelectableChange,
    SelectedPart, ValidationOutcome, ValidationResult, ValidationSummary, fold, fold_all,
    invariant_check_name, merge, narrow, net_hash, selectable_lines, violations,
};
use store::StoreError;

use super::merge::WantedChange;
use super::transaction::lines_of;
use super::{ApplyError, ApplyRequest, ConflictMode};
use crate::engine::EngineInner;
use crate::query::details::verdicts_of;
use crate::query::diff::aliases;
use crate::run::plan_sandbox::content::StoreContents;

/// The changes of a plan that a person chose.
#[derive(Clone, Debug)]
pub(crate) struct SelectedChanges {
    pub(crate) net: Vec<NetChange>,
    pub(crate) wanted: Vec<WantedChange>,
    pub(crate) left_out: Vec<String>,
}

impl SelectedChanges {
    /// Returns whether `other` includes these: the same files and hunks, and the plan's file wherever that is
    /// to win.
    pub(crate) fn is_covered_by(&self, other: &SelectedChanges) -> bool {
        let parts = |chosen: &SelectedChanges| -> Vec<(String, Option<Vec<u8>>)> {
            chosen.wanted.iter().map(|wanted| (wanted.address.clone(), wanted.content.clone())).collect()
        };
        let taken =
            |chosen: &SelectedChanges| -> BTreeSet<String> { chosen.wanted.iter().flat_map(taken).collect() };
        parts(self) == parts(other) && taken(self).is_subset(&taken(other))
    }
}

impl SelectedChanges {
    /// Returns whether all of `other` is a part of these: each of its files, with at least its hunks.
    pub(crate) fn includes(&self, other: &SelectedChanges, contents: &StoreContents<'_>) -> bool {
        let is_in = |theirs: &WantedChange| {
            let ours = self.wanted.iter().find(|ours| ours.address == theirs.address);
            ours.is_some_and(|ours| match (&ours.content, &theirs.content) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(ours), Some(part)) if ours == part => true,
                (Some(ours), Some(part)) => {
                    let base = theirs.change.before.and_then(|before| contents.read(&before.hash).ok());
                    base.is_some_and(|base| match merge(&base, part, ours) {
                        Merge::Same => false,
                        Merge::Merged(merged) => merged == *ours,
                        Merge::Conflict(_) => false,
                    })
                }
            })
        };
        other.wanted.iter().filter(|theirs| !theirs.is_carrier).all(is_in)
    }

    /// Returns whether `other` has no file, and no part of one, that these do not have.
    pub(crate) fn includes_files_of(&self, other: &SelectedChanges) -> bool {
        let has = |theirs: &WantedChange| {
            let is_same =
                |ours: &WantedChange| ours.address == theirs.address && ours.content == theirs.content;
            self.wanted.iter().any(is_same)
        };
        other.wanted.iter().filter(|theirs| !theirs.is_carrier).all(has)
    }
}

/// The addresses of what wins over a conflict.
fn taken(wanted: &WantedChange) -> Vec<String> {
    match &wanted.take {
        ConflictTake::Nothing => Vec::new(),
        ConflictTake::File => vec![wanted.address.clone()],
        ConflictTake::Hunks(numbers) => {
            numbers.iter().map(|number| HunkAddress::new(&wanted.address, *number).to_string()).collect()
        }
    }
}

/// The changes that a person chose, and what their checks say.
#[derive(Clone, Debug)]
pub(crate) struct CheckedSelection {
    pub(crate) changes: SelectedChanges,
    pub(crate) checks: ValidationSummary,
}

impl EngineInner {
    /// The changes of a plan's present attempt, cut down to what was chosen.
    pub(crate) async fn select_changes(
        self: &Arc<Self>,
        plan: &Plan,
        request: &ApplyRequest,
    ) -> Result<SelectedChanges, ApplyError> {
        let entries = self.entries(plan).await?;
        let net = fold(&entries);
        let names = aliases(plan);
        let selection = ChangeSelection::parse(&request.only, &request.reject, &request.take, &names);
        let is_plain = request.only.is_empty() && request.reject.is_empty() && request.take.is_empty();
        let diffs: Vec<_> = if is_plain {
            Vec::new()
        } else {
            net.iter().map(|change| self.file_diff(change.clone(), &names)).collect()
        };
        let lines: Vec<Vec<u32>> =
            diffs.iter().map(|diff| selectable_lines(&diff.change, &diff.hunks)).collect();
        let choosable: Vec<SelectableChange<'_>> = diffs
            .iter()
            .zip(&lines)
            .map(|(diff, lines)| SelectableChange { change: &diff.change, hunks: lines })
            .collect();
        let chosen = selection.choose(&choosable)?;
        let marked_as: Option<Arc<str>> = match request.conflicts {
            ConflictMode::Refuse => None,
            ConflictMode::Markers => Some(Arc::from(format!("plan {}", plan.id))),
        };
        let (mut wanted, mut left_out) = (Vec::new(), Vec::new());
        for (at, change) in net.iter().enumerate() {
            let address = domain::change_address(change, &names);
            let whole = |take| WantedChange {
                change: change.clone(),
                address: address.clone(),
                content: None,
                whole_content: None,
                attributes: None,
                take,
                marked_as: marked_as.clone(),
                is_carrier: false,
            };
            let (Some(chosen), Some(diff)) = (chosen.get(at), diffs.get(at)) else {
                wanted.push(whole(ConflictTake::Nothing));
                continue;
            };
            match &chosen.part {
                SelectedPart::None => left_out.push(address),
                SelectedPart::Whole => wanted.push(whole(chosen.take.clone())),
                SelectedPart::Some(choice) => {
                    let narrowed = narrow(change, diff.before.as_deref(), diff.after.as_deref(), choice);
                    match narrowed {
                        NarrowedChange::Nothing => left_out.push(address),
                        NarrowedChange::Whole => wanted.push(whole(chosen.take.clone())),
                        NarrowedChange::Part { change, content } => {
                            left_out.extend(choice.left_out(&address));
                            wanted.push(WantedChange {
                                change,
                                address,
                                content: Some(content),
                                whole_content: diff.after.clone(),
                                attributes: None,
                                take: chosen.take.clone(),
                                marked_as: marked_as.clone(),
                                is_carrier: false,
                            });
                        }
                    }
                }
            }
        }
        add_carriers(&mut wanted, fold_all(&entries), &names);
        Ok(SelectedChanges { net, wanted, left_out })
    }

    /// Returns the check results for the chosen changes. The rules among the invariants need no process: they
    /// are tested on these changes alone. The other checks have run on all changes.
    pub(crate) async fn checks_of_selection(
        &self,
        plan: &Plan,
        chosen: &SelectedChanges,
    ) -> Result<ValidationSummary, StoreError> {
        let rules = plan.spec.invariant_checks();
        if rules.is_empty() {
            return self.checks(plan, &chosen.net).await;
        }
        let (broken, present) = (self.broken_by_chosen(plan, &chosen.wanted), net_hash(&chosen.net));
        let judged = rules.iter().map(|rule| {
            let what = what_breaks(&rule.name, &broken);
            ValidationResult {
                validation: rule.name.clone(),
                mode: rule.mode,
                outcome: if what.is_some() { ValidationOutcome::Failed } else { ValidationOutcome::Passed },
                message: what.unwrap_or_default(),
                duration_ms: 0,
                attempt: plan.attempt,
                call: CallNumber(0),
                net_hash: present.to_string(),
                base_stamp: serde_json::Value::Null,
            }
        });
        let mut results = verdicts_of(&self.calls(plan).await?);
        results.extend(judged);
        self.sum_up_checks(plan, &results, &present).await
    }

    /// The check results for these changes.
    pub(crate) async fn checks(
        &self,
        plan: &Plan,
        net: &[NetChange],
    ) -> Result<ValidationSummary, StoreError> {
        let checks = plan.spec.all_checks();
        // Most plans have none, and some have thousands of calls.
        let results = if checks.is_empty() { Vec::new() } else { verdicts_of(&self.calls(plan).await?) };
        self.sum_up_checks(plan, &results, &net_hash(net)).await
    }
}

/// Adds the directories that the plan made above the wanted files, with their modes, whatever was chosen.
fn add_carriers(wanted: &mut Vec<WantedChange>, all: Vec<NetChange>, names: &[ProjectAlias]) {
    let is_made = |wanted: &&WantedChange| wanted.change.after.is_some();
    let made: BTreeSet<(RootIndex, Vec<u8>)> = wanted
        .iter()
        .filter(is_made)
        .map(|wanted| (wanted.change.root, wanted.change.path.as_bytes().to_vec()))
        .collect();
    for change in all {
        let is_new_dir = change.before.is_none() && change.after.is_some_and(|after| after.kind == Kind::Dir);
        let below = [change.path.as_bytes(), b"/"].concat();
        let first = made.range((change.root, below.clone())..).next();
        let holds = first.is_some_and(|(root, path)| *root == change.root && path.starts_with(&below));
        if is_new_dir && holds && !made.contains(&(change.root, change.path.as_bytes().to_vec())) {
            let address = domain::change_address(&change, names);
            wanted.push(WantedChange {
                change,
                address,
                content: None,
                whole_content: None,
                attributes: None,
                take: ConflictTake::Nothing,
                marked_as: None,
                is_carrier: true,
            });
        }
    }
}

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
