//! Decides if the check results of a plan are valid for the user's tree as it is now.
//!
//! A result belongs to the changes that it ran on and to the tree that they were in. An apply believes it
//! only if both are the same; else the required checks run once more on what the tree would become.
//!
//! # Invariants
//! 1. Nothing is written on a tree that the required checks did not pass on, unless a person said so
//!    (`never`). The record of the apply says so.
//! 2. The tree is compared under the locks, after the journal was prepared and before it is committed.
//! 3. A required check may have no result for these changes: a check of the project that got the user's trust
//!    after the plan had run, or changes that were edited or rolled back since. It is run here, whatever was
//!    said of running checks again.
//! 4. Files that git ignores do not count: build output must not require checks for ever. A user whose checks
//!    read ignored files sets `always`.
//!
//! # Not here
//! Running checks again: `run::recheck`. Comparing trees: [`sandbox::TreeStamp`].

use std::path::PathBuf;
use std::sync::Arc;

use domain::{
    ApplyKind, ApplyStage, CallNumber, ConstraintReason, Hash, NetChange, Plan, PlanId, ValidationOutcome,
    ValidationResult, net_hash,
};
use sandbox::{CaptureRules, TreeComparison, TreeMoves, TreeStamp};
use serde::{Deserialize, Serialize};
use store::{PlanFilter, StoreError};

use super::ApplySummary;
use super::merge::WantedChange;
use super::transaction;
use super::transaction::{ApplyJob, Authority, TransactionError};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::details::{rechecks_of, results_of};
use crate::run::plan_sandbox::content::StoreContents;
use crate::run::{CheckRun, Recheck, RecheckResult, red, required};

/// The number of times that the checks are run again on a tree that does not come to rest.
const RECHECKS_MAX: u32 = 3;
/// The maximum number of files and plans in between that are named.
const NAMED_MAX: usize = 20;
/// The maximum number of applied plans of a project that are searched for those.
const PLANS_MAX: usize = 200;

/// The kind of the reason that a check failed on the merged tree.
const RECHECK_REASON: &str = "recheck";
/// The kind of the reason that the tree does not come to rest.
const MOVING_REASON: &str = "tree_moving";
/// The kind of the reason that names what moved.
const MOVED_REASON: &str = "moved";
/// The kind of the reason that names a plan that was applied or undone meanwhile.
const PLAN_REASON: &str = "applied_meanwhile";

/// The subject of the reasons of a constrained plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstrainedBy {
    /// A check that failed on the merged tree.
    Recheck,
    /// A tree that did not come to rest.
    MovingTree,
    /// A conflict, or another gate.
    Other,
}

impl ConstrainedBy {
    /// By the kinds of the reasons.
    pub fn from_reasons(reasons: &[ConstraintReason]) -> ConstrainedBy {
        let has = |kind| reasons.iter().any(|reason| reason.kind == kind);
        match (has(RECHECK_REASON), has(MOVING_REASON)) {
            (true, _) => ConstrainedBy::Recheck,
            (false, true) => ConstrainedBy::MovingTree,
            (false, false) => ConstrainedBy::Other,
        }
    }
}

/// When an apply runs the required checks again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecheckWhen {
    /// If the tree or the choice is another than they ran on.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// In no case.
    Never,
}

impl RecheckWhen {
    /// By its name in the settings.
    pub fn parse(word: &str) -> Option<RecheckWhen> {
        match word {
            "auto" => Some(RecheckWhen::Auto),
            "always" => Some(RecheckWhen::Always),
            "never" => Some(RecheckWhen::Never),
            _ => None,
        }
    }
}

/// The tree that the required checks of an apply passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckedTree {
    /// There are none, or none that needs a process.
    #[default]
    None,
    /// The one that was there: it had not moved since.
    ThisTree,
    /// The one that it became: they were run again.
    MergedTree,
    /// That of the plan's sandbox; a person did not want it compared.
    NotCompared,
}

/// A check that an apply ran again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RerunCheck {
    /// Its name.
    pub check: String,
    /// Its end.
    pub outcome: ValidationOutcome,
    /// The duration of the check.
    pub duration_ms: u64,
    /// The call that ran it; 0 for an apply that has no job.
    pub call: CallNumber,
}

impl RerunCheck {
    fn new(result: &ValidationResult) -> RerunCheck {
        RerunCheck {
            check: result.validation.clone(),
            outcome: result.outcome,
            duration_ms: result.duration_ms,
            call: result.call,
        }
    }
}

/// The validity of the checks of an apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChecksAtApply {
    /// The tree that they passed on.
    pub on: CheckedTree,
    /// Those that were run again, the last time.
    pub ran: Vec<RerunCheck>,
}

/// Carries an apply through on a tree that its required checks passed on. `unrun` are the checks that have no
/// result.
pub(crate) async fn run_checked(
    engine: &Arc<EngineInner>,
    mut job: ApplyJob<'_>,
    authority: &Authority<'_>,
    when: RecheckWhen,
    unrun: &[String],
) -> Result<ApplySummary, TransactionError> {
    let (plan, contents) = (job.plan, StoreContents(engine.store.as_ref()));
    let is_checked = !required(plan).is_empty();
    if !is_checked || (when == RecheckWhen::Never && unrun.is_empty()) {
        job.summary.checks.on = if is_checked { CheckedTree::NotCompared } else { CheckedTree::None };
        return transaction::run_transaction(engine, &job, authority, &contents).await;
    }
    job.summary.checks.on = CheckedTree::ThisTree;
    let changes = hash_wanted(&job.wanted);
    let mut known = match when {
        RecheckWhen::Auto | RecheckWhen::Never => believed(engine, plan, &changes).await?,
        RecheckWhen::Always => None,
    };
    let (own, passed_before) = (known.clone(), job.summary.validations.0);
    let (mut first, mut last) = (None, TreeMoves::default());
    let mut rechecks = 0;
    loop {
        let stamp = match known.take() {
            Some(stamp) => stamp,
            None if rechecks == RECHECKS_MAX => break,
            None => {
                rechecks += 1;
                let recheck = Recheck {
                    engine,
                    plan,
                    authority,
                    wanted: &job.wanted,
                    net_hash: changes,
                    when: CheckRun::Again,
                };
                let RecheckResult { stamp, results, .. } = recheck.run().await?;
                let ran: Vec<RerunCheck> = results.iter().map(RerunCheck::new).collect();
                let failed = red(results);
                if !failed.is_empty() {
                    let moved = moved(engine, plan, own.as_ref(), first.as_ref()).await?;
                    return Err(TransactionError::Red {
                        plan: plan.id,
                        reasons: reasons(&failed, unrun, moved),
                    });
                }
                if !ran.is_empty() {
                    let ran_first = ran.iter().filter(|check| unrun.contains(&check.check)).count();
                    job.summary.validations.0 = passed_before + ran_first;
                    job.summary.checks = ChecksAtApply { on: CheckedTree::MergedTree, ran };
                }
                stamp
            }
        };
        job.checked = Some(stamp);
        match transaction::run_transaction(engine, &job, authority, &contents).await {
            Err(TransactionError::TreeMoved { moves }) => {
                first.get_or_insert_with(|| moves.clone());
                last = moves;
            }
            carried => return carried,
        }
    }
    let mut reasons = vec![ConstraintReason {
        kind: MOVING_REASON.to_owned(),
        subject: "your tree".to_owned(),
        message: format!("it changed during each of {RECHECKS_MAX} runs of the checks"),
    }];
    reasons.extend(moved(engine, plan, None, Some(&last)).await?);
    Err(TransactionError::TreeMoving { plan: plan.id, reasons })
}

/// Returns the changes in the trees of a plan since the stamp.
pub(crate) async fn moves_since(
    engine: &EngineInner,
    plan: &Plan,
    stamp: &TreeStamp,
    authority: &Authority<'_>,
) -> Result<TreeMoves, TransactionError> {
    let failed =
        |why: &dyn std::fmt::Display| TransactionError::Failed { plan: plan.id, why: why.to_string() };
    let scope = authority.scope().clone();
    let trees = PlanTrees::new(engine, plan);
    let (stamp, asked) = (stamp.clone(), scope.clone());
    let compared = tokio::task::spawn_blocking(move || {
        let is_over = || asked.is_cancelled();
        trees.compare(&stamp, usize::MAX, true, &is_over)
    });
    let moves = compared.await.map_err(|error| failed(&error))?;
    scope.check().map_err(|_| TransactionError::Cancelled { plan: plan.id })?;
    Ok(moves)
}

/// The user's trees of a plan, and what counts in them.
pub(crate) struct PlanTrees {
    roots: Vec<PathBuf>,
    rules: CaptureRules,
    leave_out: Vec<PathBuf>,
}

impl PlanTrees {
    pub(crate) fn new(engine: &EngineInner, plan: &Plan) -> PlanTrees {
        PlanTrees {
            roots: plan.projects.iter().map(|project| path_of(&project.root)).collect(),
            // Files that are protected from the plan can be changed by others, and be read by checks.
            rules: CaptureRules { ignore: plan.spec.ignore.clone(), ..CaptureRules::default() },
            leave_out: vec![engine.options.data_dir.clone(), engine.options.sandbox_dir.clone()],
        }
    }

    pub(crate) fn compare(
        &self,
        stamp: &TreeStamp,
        entries_max: usize,
        asks_git: bool,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> TreeMoves {
        let Self { roots, rules, leave_out } = self;
        stamp.compare(&TreeComparison { roots, rules, leave_out, asks_git, entries_max }, is_over)
    }
}

/// Returns the hash of the chosen changes: that of all of them if nothing was left out.
fn hash_wanted(wanted: &[WantedChange]) -> Hash {
    let changes: Vec<NetChange> = wanted.iter().map(|wanted| wanted.change.clone()).collect();
    net_hash(&changes)
}

/// The oldest tree that a required check passed on with these changes. `None` if one of them did not, or
/// nothing is known of its tree.
async fn believed(
    engine: &EngineInner,
    plan: &Plan,
    changes: &Hash,
) -> Result<Option<TreeStamp>, StoreError> {
    let calls = engine.calls(plan).await?;
    let (changes, mut results) = (changes.to_string(), results_of(&calls));
    results.extend(rechecks_of(&calls));
    let stamp_of = |name: &str| -> Option<TreeStamp> {
        let is_it = |result: &&ValidationResult| result.validation == name && result.net_hash == changes;
        let latest =
            results.iter().rfind(is_it).filter(|result| result.outcome == ValidationOutcome::Passed)?;
        serde_json::from_value(latest.base_stamp.clone()).ok()
    };
    let stamps: Option<Vec<TreeStamp>> = required(plan).iter().map(|check| stamp_of(&check.name)).collect();
    Ok(stamps.and_then(|stamps| stamps.into_iter().min_by_key(TreeStamp::at_ms)))
}

/// The failed checks, then what moved.
fn reasons(
    failed: &[ValidationResult],
    unrun: &[String],
    moved: Vec<ConstraintReason>,
) -> Vec<ConstraintReason> {
    let one = |result: &ValidationResult| {
        let said = result.message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let what = match (result.outcome, unrun.contains(&result.validation)) {
            (ValidationOutcome::Passed | ValidationOutcome::Failed, false) => {
                "passed alone, fails on your present tree"
            }
            (ValidationOutcome::Errored, false) => "passed alone, could not be finished on your present tree",
            (ValidationOutcome::Passed | ValidationOutcome::Failed, true) => "fails on your present tree",
            (ValidationOutcome::Errored, true) => "could not be finished on your present tree",
        };
        let message = if said.is_empty() { what.to_owned() } else { format!("{what}: {}", said.trim()) };
        ConstraintReason { kind: RECHECK_REASON.to_owned(), subject: result.validation.clone(), message }
    };
    failed.iter().map(one).chain(moved).collect()
}

/// Returns the changes since the checks ran, and the plans that were applied or undone meanwhile.
async fn moved(
    engine: &EngineInner,
    plan: &Plan,
    since: Option<&TreeStamp>,
    moves: Option<&TreeMoves>,
) -> Result<Vec<ConstraintReason>, StoreError> {
    let mut reasons = Vec::new();
    if let Some(moves) = moves {
        let more = moves.more + moves.places.len().saturating_sub(NAMED_MAX);
        reasons.extend(named_places(plan, moves).take(NAMED_MAX).map(|subject| ConstraintReason {
            kind: MOVED_REASON.to_owned(),
            subject,
            message: "changed since the plan's checks ran".to_owned(),
        }));
        reasons.extend((more > 0).then(|| ConstraintReason {
            kind: MOVED_REASON.to_owned(),
            subject: "…".to_owned(),
            message: format!("and {more} more"),
        }));
    }
    if let Some(since) = since {
        for (id, what, title) in applied_since(engine, plan, since.at_ms()).await? {
            reasons.push(ConstraintReason {
                kind: PLAN_REASON.to_owned(),
                subject: id.to_string(),
                message: format!("was {what} meanwhile: {title}"),
            });
        }
    }
    Ok(reasons)
}

/// The places that moved, as people name them.
pub(crate) fn named_places<'a>(plan: &'a Plan, moves: &'a TreeMoves) -> impl Iterator<Item = String> + 'a {
    moves.places.iter().map(|(root, path)| {
        let path = path.as_ref().map_or_else(|| "./".to_owned(), ToString::to_string);
        match plan.projects.get(usize::from(root.0)).filter(|_| plan.projects.len() > 1) {
            Some(project) => format!("{}:{path}", project.alias),
            None => path,
        }
    })
}

/// Other plans of the same projects that were applied or undone since then.
async fn applied_since(
    engine: &EngineInner,
    plan: &Plan,
    since_ms: u64,
) -> Result<Vec<(PlanId, &'static str, String)>, StoreError> {
    let mut found = Vec::new();
    for project in &plan.projects {
        let filter = PlanFilter {
            phase: Some("apply".to_owned()),
            state: Some("applied".to_owned()),
            root: Some(project.root.as_bytes().to_vec()),
            limit: PLANS_MAX,
            batch: None,
        };
        let (plans, _) = engine.store.plans(&filter).await?;
        for other in plans.into_iter().filter(|other| other.id != plan.id) {
            let is_later = |at: Option<domain::WallMs>| at.is_some_and(|at| at.0 >= since_ms);
            let applies = engine.store.applies(other.id).await?;
            let last = applies.iter().rfind(|apply| {
                let stands = matches!(apply.stage, ApplyStage::Applied);
                stands && is_later(apply.ended)
            });
            let Some(last) = last.filter(|_| found.len() < NAMED_MAX) else { continue };
            let what = match last.kind {
                ApplyKind::Apply => "applied",
                ApplyKind::Undo => "undone",
            };
            if !found.iter().any(|(id, _, _)| *id == other.id) {
                found.push((other.id, what, other.title.clone()));
            }
        }
    }
    Ok(found)
}
