//! The apply transaction, which brings selected changes into the user's files: locks, merge, journal, seal,
//! writes. Apply and undo share it.
//!
//! # How it goes
//! 1. The locks of the plan and its projects are taken.
//! 2. Every file is read and merged. Any conflict ends it here: nothing was written.
//! 3. The journal is written. If the plan has required checks, the tree is compared with the one that they
//!    passed on. One that moved ends it here: `check_validity` runs the checks again and starts over. The
//!    store seals, and the journal's commit mark is synced. From here on the transaction is finished or
//!    rolled back, by this process or by the next one.
//! 4. The files are written. If another process changed a file meanwhile, everything is rolled back and begun
//!    again at 2, [`TRIES_MAX`] times.
//! 5. The end is stored, and the journal is retained for undo.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use domain::{
    ApplyEnd, ApplyId, ApplyKind, ConflictKind, ConstraintReason, ErrorCategory, Fence, Hash, LinesChanged,
    NewApply, Plan, PlanId, RelPath, RootIndex, WallMs, hunks, lines_changed, net_hash,
};
use sandbox::content::ContentSource;
use sandbox::journal::{JournalEnding, JournalRoot, PrepareError, Request, RollbackReason};
use sandbox::{TreeMoves, TreeStamp};
use serde_json::Value;
use store::{JobStoreError, StoreError};
use sync::Observed;

use super::check_validity;
use super::check_validity::{ChecksAtApply, RecheckWhen};
use super::locks::{Locks, LocksError};
use super::merge::{
    Conflict, MergeError, MergeResult, ProjectRoots, UndoneJournal, WantedChange, counted, linked_elsewhere,
    merge_all,
};
use super::selection::CheckedSelection;
use super::{ApplyError, ApplyRequest, ApplySummary};
use super::{crash_recovery, git_commit};
use crate::apply::crash_recovery::{UnsettledApply, UnsettledReason};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::run::RunContext;
use crate::run::plan_sandbox::content::StoreContents;

/// The number of times that a file that changes under us is merged again.
const TRIES_MAX: u32 = 3;

/// The right by which an apply writes.
pub(crate) enum Authority<'a> {
    /// The owner of the plan's job.
    Owner(RunContext<'a>),
    /// The holder of the plan's lock; the plan itself is final.
    LockHolder {
        /// Cancelled when that process does not want it any more.
        stop: &'a Observed,
    },
}

impl Authority<'_> {
    /// Cancelled when nothing more is to be done, as long as nothing was written.
    pub(crate) fn scope(&self) -> &Observed {
        match self {
            Self::Owner(run) => run.job.scope(),
            Self::LockHolder { stop } => stop,
        }
    }
}

/// An error of the transaction: nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransactionError {
    #[error("{} conflicts", conflicts.len())]
    Conflicts { plan: PlanId, conflicts: Vec<Conflict> },
    #[error("plan {plan} has nothing to apply")]
    Nothing { plan: PlanId },
    /// Another process brought the plan to this end.
    #[error("another process has brought plan {plan} to this state")]
    Settled { plan: PlanId },
    #[error("the apply was cancelled")]
    Cancelled { plan: PlanId },
    #[error("branch {name} exists")]
    BranchExists { name: String },
    /// A required check failed on the merged tree.
    #[error("{}", domain::why_constrained(reasons))]
    Red { plan: PlanId, reasons: Vec<ConstraintReason> },
    /// The tree moved since the checks passed on it.
    #[error("the tree changed after the checks ran")]
    TreeMoved { moves: TreeMoves },
    /// It did so again and again.
    #[error("{}", domain::why_constrained(reasons))]
    TreeMoving { plan: PlanId, reasons: Vec<ConstraintReason> },
    #[error("{why}")]
    Failed { plan: PlanId, why: String },
    #[error("{why}")]
    Stuck { plan: PlanId, why: String },
    #[error(transparent)]
    Locks(#[from] LocksError),
    #[error(transparent)]
    Merging(#[from] MergeError),
    #[error(transparent)]
    Chosen(Box<ApplyError>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TransactionError {
    pub(crate) fn category(&self) -> ErrorCategory {
        match self {
            Self::Conflicts { .. }
            | Self::Settled { .. }
            | Self::TreeMoved { .. }
            | Self::TreeMoving { .. } => ErrorCategory::MergeConflict,
            Self::Red { .. } => ErrorCategory::Validation,
            Self::Stuck { .. } => ErrorCategory::Resource,
            Self::Nothing { .. }
            | Self::BranchExists { .. }
            | Self::Chosen(_)
            | Self::Merging(MergeError::Escapes { .. } | MergeError::ContentMissing { .. }) => {
                ErrorCategory::InvalidInput
            }
            Self::Cancelled { .. }
            | Self::Failed { .. }
            | Self::Locks(_)
            | Self::Merging(MergeError::Io { .. } | MergeError::Capabilities { .. })
            | Self::Store(_) => ErrorCategory::Sandbox,
        }
    }

    pub(crate) fn into_apply_error(self) -> ApplyError {
        match self {
            Self::Conflicts { plan, conflicts } => {
                ApplyError::Conflicts { plan, conflicts, reasons: Vec::new() }
            }
            Self::Nothing { plan } => ApplyError::NothingToApply { plan },
            Self::BranchExists { name } => ApplyError::BranchExists { name },
            Self::Red { plan, reasons } => ApplyError::Recheck { plan, reasons },
            Self::TreeMoving { plan, reasons } => ApplyError::TreeMoving { plan, reasons },
            // A caller that compares trees runs the checks again.
            error @ Self::TreeMoved { .. } => {
                ApplyError::Failed { plan: PlanId::from_u128(0), why: error.to_string() }
            }
            Self::Failed { plan, why } => ApplyError::Failed { plan, why },
            Self::Stuck { plan, why } => ApplyError::Stuck { plan, why },
            Self::Locks(error) => error.into(),
            Self::Merging(error) => error.into(),
            Self::Chosen(error) => *error,
            Self::Store(error) => error.into(),
            // Only who holds the lock gets it so: the plan was final, and is as it was.
            Self::Cancelled { plan } => ApplyError::Withdrawn { plan },
            Self::Settled { plan } => ApplyError::Settled { plan },
        }
    }
}

/// Returns a conflict as a reason in words.
pub(crate) fn reason(conflict: &Conflict) -> ConstraintReason {
    ConstraintReason {
        kind: "conflict".to_owned(),
        subject: conflict.address.clone(),
        message: conflict.kind.sentence(),
    }
}

/// The kind of the reason that a branch of the wanted name is there already.
pub(crate) const BRANCH: &str = "branch";

/// Returns the reason why a plan is constrained that was to be committed to a new branch.
pub(crate) fn branch_reason(name: String) -> ConstraintReason {
    let message = format!("branch {name} exists");
    ConstraintReason { kind: BRANCH.to_owned(), subject: name, message }
}

/// Applies what was selected by the `request`.
pub(crate) async fn apply(
    engine: &Arc<EngineInner>,
    plan: &Plan,
    request: &ApplyRequest,
    selection: CheckedSelection,
    authority: &Authority<'_>,
) -> Result<ApplySummary, TransactionError> {
    let CheckedSelection { changes: chosen, checks } = selection;
    if chosen.wanted.is_empty() && !request.allow_empty {
        return Err(TransactionError::Nothing { plan: plan.id });
    }
    let files = too_large(plan, &chosen.wanted);
    if !files.is_empty() {
        return Err(TransactionError::Chosen(Box::new(ApplyError::TooLarge { plan: plan.id, files })));
    }
    let lines = chosen.wanted.iter().map(|wanted| lines_of(engine, wanted));
    let (insertions, deletions) =
        lines.fold((0, 0), |(added, removed), lines| (added + lines.insertions, removed + lines.deletions));
    let summary = ApplySummary {
        apply: ApplyId::from_u128(0),
        files: 0,
        insertions,
        deletions,
        merged: Vec::new(),
        replaced: Vec::new(),
        marked: Vec::new(),
        left_out: chosen.left_out,
        validations: (checks.passed, checks.required),
        checks: ChecksAtApply::default(),
        undo_until: undo_until(engine),
        commit: None,
        branch: request.branch.clone(),
        left_commit: None,
        already: false,
    };
    let selection = serde_json::to_value(request).unwrap_or(Value::Null);
    let job = ApplyJob {
        plan,
        kind: ApplyKind::Apply,
        wanted: chosen.wanted,
        net_hash: net_hash(&chosen.net),
        selection,
        summary,
        git: git_commit::GitAction::from_request(request),
        refs: Vec::new(),
        adds: plan.is_applied(),
        left_by: None,
        through_links: request.through_links,
        checked: None,
    };
    // Markers let no check pass, and the user wants them all the same.
    let when = match has_marks(engine, &job)? {
        true => RecheckWhen::Never,
        false => request.recheck.unwrap_or(engine.options.recheck),
    };
    check_validity::run_checked(engine, job, authority, when, &checks.run_by_apply()).await
}

/// Returns whether files would be written with the markers of a conflict.
fn has_marks(engine: &EngineInner, job: &ApplyJob<'_>) -> Result<bool, TransactionError> {
    if job.wanted.iter().all(|wanted| wanted.marked_as.is_none()) {
        return Ok(false);
    }
    let roots = ProjectRoots::open(job.plan)?;
    let merged = merge_all(&roots, &job.wanted, &StoreContents(engine.store.as_ref()), None)?;
    Ok(!merged.marked.is_empty())
}

/// Returns the files whose content was too large to be stored, or could not be read.
pub(crate) fn too_large(plan: &Plan, wanted: &[WantedChange]) -> Vec<String> {
    let is_not_kept = |after: domain::FileState| {
        after.size > plan.spec.max_file_bytes || after.hash == sandbox::capture::UNKNOWN_CONTENT
    };
    // For a large file that was there, it is not known whether it is still what the plan saw.
    let was_too_large = |before: domain::FileState| before.size > plan.spec.max_file_bytes;
    let wanted = wanted.iter().filter(|wanted| {
        wanted.change.after.is_some_and(is_not_kept) || wanted.change.before.is_some_and(was_too_large)
    });
    wanted.map(|wanted| wanted.address.clone()).collect()
}

/// The lines of what is wanted, which may be a part of what was recorded.
pub(crate) fn lines_of(engine: &EngineInner, wanted: &WantedChange) -> LinesChanged {
    let recorded = engine.file_diff(wanted.change.clone(), &[]);
    match &wanted.content {
        None => recorded.lines,
        Some(content) => lines_changed(&hunks(recorded.before.as_deref(), Some(content), &wanted.change)),
    }
}

pub(crate) fn undo_until(engine: &EngineInner) -> WallMs {
    let retention = u64::try_from(engine.options.retention.as_millis()).unwrap_or(u64::MAX);
    WallMs(engine.wall().0.saturating_add(retention))
}

/// The changes that one transaction writes, and everything that is recorded with them.
pub(crate) struct ApplyJob<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) kind: ApplyKind,
    pub(crate) wanted: Vec<WantedChange>,
    pub(crate) net_hash: Hash,
    pub(crate) selection: Value,
    pub(crate) summary: ApplySummary,
    pub(crate) git: git_commit::GitAction,
    /// Refs that move with the files.
    pub(crate) refs: git_commit::RefMoves,
    /// True if it adds to an apply that is in force: the rest of a plan that was applied in part.
    pub(crate) adds: bool,
    /// The journal that is undone.
    pub(crate) left_by: Option<UndoneJournal>,
    /// True if files that have other names are written in place, so that those change too.
    pub(crate) through_links: bool,
    /// The tree that the required checks passed on: another one is not written to. None where it does not
    /// matter.
    pub(crate) checked: Option<TreeStamp>,
}

/// Takes the locks, and runs the transaction.
pub(crate) async fn run_transaction(
    engine: &Arc<EngineInner>,
    job: &ApplyJob<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
) -> Result<ApplySummary, TransactionError> {
    let what = match job.kind {
        ApplyKind::Apply => "apply",
        ApplyKind::Undo => "undo",
    };
    let stopped = || TransactionError::Cancelled { plan: job.plan.id };
    // Locks that were taken by then count for nothing: their owner is no longer present.
    let locks = tokio::select! {
        biased;
        _ = authority.scope().cancelled() => return Err(stopped()),
        locks = Locks::take(engine, job.plan, what) => locks?,
    };
    let carried = match settled_meanwhile(engine, job, authority, &locks).await {
        Ok(()) => run_locked(engine, job, authority, contents).await,
        Err(error) => Err(error),
    };
    locks.release().await;
    carried
}

/// Looks at the present state again, under the locks. An interrupted apply is brought to its end first, and
/// the plan may have reached its target in the meantime.
async fn settled_meanwhile(
    engine: &Arc<EngineInner>,
    job: &ApplyJob<'_>,
    authority: &Authority<'_>,
    locks: &Locks,
) -> Result<(), TransactionError> {
    let plan = job.plan.id;
    let stuck = |why: &dyn std::fmt::Display| TransactionError::Stuck { plan, why: why.to_string() };
    let recovery = crash_recovery::recover(engine, locks.roots()).await.map_err(|error| stuck(&error))?;
    if let Some(error) = recovery.stuck {
        return Err(stuck(&error));
    }
    // Half-finished work here would be overwritten, and could not be distinguished from the user's edits any
    // more.
    if let Some(open) = recovery.in_the_way {
        return Err(in_the_way(plan, &open));
    }
    let now = engine
        .store
        .plan(plan)
        .await
        .map_err(|error| TransactionError::Failed { plan, why: error.to_string() })?;
    let stands = now.is_applied();
    let is_due = match (job.kind, authority) {
        (ApplyKind::Apply, _) => stands == job.adds,
        (ApplyKind::Undo, Authority::Owner(_) | Authority::LockHolder { .. }) => stands,
    };
    if is_due { Ok(()) } else { Err(TransactionError::Settled { plan }) }
}

/// Returns the error for an open apply, which blocks another to the same project.
fn in_the_way(plan: PlanId, open: &UnsettledApply) -> TransactionError {
    let whose = open.plan.map_or_else(String::new, |plan| format!(" of plan {plan}"));
    let what = format!("an interrupted {}{whose} to the same project", open.kind.as_str());
    match open.why {
        UnsettledReason::ProcessLives | UnsettledReason::ProjectBusy => {
            LocksError::Held { what, owner: "another process".to_owned() }.into()
        }
        UnsettledReason::ProjectAbsent | UnsettledReason::Stuck { .. } => {
            TransactionError::Stuck { plan, why: format!("{what} cannot be finished yet") }
        }
    }
}

async fn run_locked(
    engine: &Arc<EngineInner>,
    job: &ApplyJob<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
) -> Result<ApplySummary, TransactionError> {
    let mut changing = BTreeSet::new();
    for _ in 0..TRIES_MAX {
        let roots = ProjectRoots::open(job.plan)?;
        let merged = merge_all(&roots, &job.wanted, contents, job.left_by)?;
        if !merged.conflicts.is_empty() {
            return Err(TransactionError::Conflicts { plan: job.plan.id, conflicts: merged.conflicts });
        }
        match attempt(engine, job, authority, contents, merged).await? {
            AttemptOutcome::Done(summary) => return Ok(*summary),
            AttemptOutcome::ChangedUnderUs(path) => changing.insert(path.to_string()),
        };
    }
    // Another process writes to it all the time, so the state that the plan would be merged with is not
    // known.
    let conflicts = changing.into_iter().map(|address| Conflict {
        file: address.clone(),
        address,
        kind: ConflictKind::BaseMoved,
        places: Vec::new(),
    });
    Err(TransactionError::Conflicts { plan: job.plan.id, conflicts: conflicts.collect() })
}

enum AttemptOutcome {
    Done(Box<ApplySummary>),
    ChangedUnderUs(RelPath),
}

/// One journal, from its first frame to the store's word.
async fn attempt(
    engine: &Arc<EngineInner>,
    job: &ApplyJob<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
    merged: MergeResult,
) -> Result<AttemptOutcome, TransactionError> {
    let plan = job.plan;
    let failed =
        |why: &dyn std::fmt::Display| TransactionError::Failed { plan: plan.id, why: why.to_string() };
    let id = ApplyId::from_u128(engine.ids.ulid());
    let mut summary = job.summary.clone();
    summary.apply = id;
    // A branch that is deleted changes no file of the working tree.
    let is_branch_undone = job.kind == ApplyKind::Undo && summary.branch.is_some();
    if !is_branch_undone {
        summary.files = counted(&merged.changes, &job.wanted).len();
    }
    (summary.merged, summary.marked) = (merged.merged, merged.marked);
    let (changes, refs) = git_commit::git_refs(engine, job, contents, id, merged.changes)?;
    if let Some((_, moved)) = refs.first() {
        summary.commit = moved.new.clone();
    }
    let apart = match job.through_links {
        true => BTreeSet::new(),
        false => linked_elsewhere(&ProjectRoots::open(plan)?, job.wanted.iter().map(|wanted| &wanted.change)),
    };
    let request = Request {
        id,
        plan: plan.id,
        kind: job.kind,
        roots: journal_roots(plan)?,
        fence: match authority {
            Authority::Owner(run) => run.job.claim().fence,
            Authority::LockHolder { .. } => Fence(0),
        },
        time_ms: engine.wall().0,
        net_hash: job.net_hash,
        changes,
        apart,
        refs,
    };
    let prepared = match engine.journals.prepare(request, contents) {
        Ok(prepared) => prepared,
        Err(PrepareError::ChangedUnderUs { path }) => return Ok(AttemptOutcome::ChangedUnderUs(path)),
        Err(PrepareError::Content { path, .. }) if job.kind == ApplyKind::Undo => {
            return Err(MergeError::ContentMissing { address: path.to_string() }.into());
        }
        Err(PrepareError::Capabilities { path }) => {
            return Err(MergeError::Capabilities { address: path.to_string() }.into());
        }
        Err(error) => return Err(failed(&error)),
    };
    if let Some(stamp) = &job.checked {
        match check_validity::moves_since(engine, plan, stamp, authority).await {
            Ok(moves) if moves.is_none() => {}
            moved => {
                prepared.abandon();
                return Err(TransactionError::TreeMoved { moves: moved? });
            }
        }
    }
    let new = NewApply {
        id,
        plan: plan.id,
        kind: job.kind,
        net_hash: job.net_hash,
        selection: job.selection.clone(),
        summary: serde_json::to_value(&summary).unwrap_or(Value::Null),
    };
    if let Err(error) = seal(engine, authority, new).await {
        prepared.abandon();
        return Err(error);
    }
    let committed = match prepared.commit() {
        Ok(committed) => committed,
        Err(error) => {
            engine.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            return Err(failed(&error));
        }
    };
    let settled = committed
        .carry_out()
        .map_err(|stuck| TransactionError::Stuck { plan: plan.id, why: stuck.to_string() })?;
    let carried = match settled.ending() {
        JournalEnding::Applied { replaced, .. } => {
            summary.replaced = replaced.iter().map(|place| place.path.to_string()).collect();
            engine.store.end_apply(id, ApplyEnd::Applied).await?;
            Ok(AttemptOutcome::Done(Box::new(summary)))
        }
        JournalEnding::RolledBack { why, .. } => {
            // Nothing of it is left, so it is as if it had never begun; the seal is broken.
            engine.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            match why {
                RollbackReason::ChangedUnderUs { place } => {
                    Ok(AttemptOutcome::ChangedUnderUs(place.path.clone()))
                }
                RollbackReason::Escapes { .. }
                | RollbackReason::Io { .. }
                | RollbackReason::Git { .. }
                | RollbackReason::Recovered { .. } => {
                    Err(failed(&format!("{why}; what was written by then was rolled back")))
                }
            }
        }
        JournalEnding::NeverBegan => {
            engine.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            Err(failed(&"the journal disappeared before it was committed"))
        }
    };
    // A journal that cannot be put away now is by the next command.
    let _ = settled.retire();
    carried
}

async fn seal(
    engine: &EngineInner,
    authority: &Authority<'_>,
    new: NewApply,
) -> Result<(), TransactionError> {
    match authority {
        Authority::Owner(RunContext { job, .. }) => {
            let plan = new.plan;
            let effect = job.enter().map_err(|_| TransactionError::Cancelled { plan })?;
            match engine.store.seal_apply(&effect, &job.claim(), new).await {
                Ok(()) => Ok(()),
                Err(JobStoreError::Store(StoreError::LeaseLost(_)) | JobStoreError::Refused(_)) => {
                    Err(TransactionError::Cancelled { plan })
                }
                Err(JobStoreError::Store(error)) => Err(error.into()),
                Err(error @ JobStoreError::QueueFull { .. }) => {
                    Err(StoreError::Broken { why: error.to_string() }.into())
                }
            }
        }
        Authority::LockHolder { stop } => {
            stop.check().map_err(|_| TransactionError::Cancelled { plan: new.plan })?;
            Ok(engine.store.begin_apply(new).await?)
        }
    }
}

fn journal_roots(plan: &Plan) -> Result<Vec<JournalRoot>, TransactionError> {
    let numbered = plan.projects.iter().zip(0..);
    let roots = numbered.map(|(project, no)| {
        let path = path_of(&project.root);
        JournalRoot::new(RootIndex(no), &path).map_err(|source| root_error(&path, source))
    });
    roots.collect()
}

fn root_error(path: &Path, source: std::io::Error) -> TransactionError {
    MergeError::Io { address: path.display().to_string(), source }.into()
}
