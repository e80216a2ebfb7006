//! From chosen changes to the user's files: locks, merge, journal, seal, writes; the way that apply and undo share.
//!
//! # How it goes
//! 1. The locks of the plan and its projects are taken.
//! 2. Every file is read and merged. Any conflict ends it here: nothing was written.
//! 3. The journal is written. If the plan has required checks, the tree is compared with the one that they passed on; one that
//!    moved ends it here: `tree_gate` runs the checks again, and begins anew. The store seals, the journal's commit mark is synced. From here it is carried through or
//!    taken back, by this process or by whichever comes next.
//! 4. The files are written. A file that somebody changed meanwhile makes all of it be taken back and begun again at 2,
//!    [`TRIES_MAX`] times.
//! 5. The store is told, and the journal is kept for undo.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use domain::{
    ApplyEnd, ApplyId, ApplyKind, ApplyState, ConflictKind, ErrorCategory, Fence, Hash, LinesChanged,
    NewApply, Plan, PlanId, PlanState, Reason, RelPath, RootNo, WallMs, hunks, lines_changed, net_hash,
};
use sandbox::content::ContentSource;
use sandbox::journal::{Ending, JournalRoot, PrepareError, Request, Why};
use sandbox::{TreeMoves, TreeStamp};
use serde_json::Value;
use store::{JobStoreError, StoreError};
use sync::Observed;

use super::check_validity;
use super::check_validity::ChecksAtApply;
use super::locks::{Locks, LocksError};
use super::merge::{
    Conflict, LeftBy, Merged, MergingError, Roots, Wanted, counted, linked_elsewhere, merge_all,
};
use super::{ApplyError, ApplyRequest, ApplySummary};
use super::{crash_recovery, git_commit};
use crate::apply::crash_recovery::{OpenApply, OpenWhy};
use crate::engine::House;
use crate::plan::create::path_of;
use crate::run::LiveRun;
use worker::JobRun;

/// How often a file that changes under us is merged anew.
const TRIES_MAX: u32 = 3;

/// Who answers for the apply.
pub(crate) enum Authority<'a> {
    /// The owner of the plan's job.
    Owner {
        /// The run.
        run: &'a JobRun,
        /// What lives of it.
        live: &'a Arc<LiveRun>,
    },
    /// Whoever holds the plan's lock; the plan itself is final.
    LockHolder {
        /// Cancelled when that process does not want it any more.
        stop: &'a Observed,
    },
}

impl Authority<'_> {
    /// Cancelled when nothing more is to be done, as long as nothing was written.
    pub(crate) fn scope(&self) -> &Observed {
        match self {
            Self::Owner { run, .. } => run.scope(),
            Self::LockHolder { stop } => stop,
        }
    }
}

/// Why nothing was carried through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    #[error("{} conflicts", conflicts.len())]
    Conflicts { plan: PlanId, conflicts: Vec<Conflict> },
    #[error("plan {plan} has nothing to apply")]
    Nothing { plan: PlanId },
    /// Somebody else brought the plan to this end.
    #[error("plan {plan} was brought to this end by somebody else")]
    Settled { plan: PlanId },
    #[error("the apply was cancelled")]
    Cancelled { plan: PlanId },
    #[error("branch {name} exists")]
    BranchExists { name: String },
    /// A required check failed on the merged tree.
    #[error("{}", domain::why_constrained(reasons))]
    Red { plan: PlanId, reasons: Vec<Reason> },
    /// The tree moved since the checks passed on it.
    #[error("the tree moved since the checks ran")]
    TreeMoved { moves: TreeMoves },
    /// It did so again and again.
    #[error("{}", domain::why_constrained(reasons))]
    TreeMoving { plan: PlanId, reasons: Vec<Reason> },
    #[error("{why}")]
    Failed { plan: PlanId, why: String },
    #[error("{why}")]
    Stuck { plan: PlanId, why: String },
    #[error(transparent)]
    Locks(#[from] LocksError),
    #[error(transparent)]
    Merging(#[from] MergingError),
    #[error(transparent)]
    Chosen(Box<ApplyError>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CarryError {
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
            | Self::Merging(MergingError::Escapes { .. } | MergingError::ContentMissing { .. }) => {
                ErrorCategory::InvalidInput
            }
            Self::Cancelled { .. }
            | Self::Failed { .. }
            | Self::Locks(_)
            | Self::Merging(MergingError::Io { .. } | MergingError::Capabilities { .. })
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
            // Who compares trees runs the checks again.
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

/// What a conflict is called where only words are kept.
pub(crate) fn reason(conflict: &Conflict) -> Reason {
    Reason {
        kind: "conflict".to_owned(),
        subject: conflict.address.clone(),
        message: conflict.kind.sentence(),
    }
}

/// The kind of the reason that a branch of the wanted name is there already.
pub(crate) const BRANCH: &str = "branch";

/// Why a plan is constrained that was to go on a new branch.
pub(crate) fn branch_reason(name: String) -> Reason {
    let message = format!("branch {name} exists");
    Reason { kind: BRANCH.to_owned(), subject: name, message }
}

/// Applies what was chosen.
pub(crate) async fn apply(
    house: &Arc<House>,
    plan: &Plan,
    request: &ApplyRequest,
    authority: &Authority<'_>,
) -> Result<ApplySummary, CarryError> {
    let chosen = house.chosen(plan, request).await.map_err(|error| CarryError::Chosen(Box::new(error)))?;
    if chosen.wanted.is_empty() && !request.allow_empty {
        return Err(CarryError::Nothing { plan: plan.id });
    }
    let checks = house.checks_of_chosen(plan, &chosen).await?;
    let files = too_large(plan, &chosen.wanted);
    if !files.is_empty() {
        return Err(CarryError::Chosen(Box::new(ApplyError::TooLarge { plan: plan.id, files })));
    }
    let lines = chosen.wanted.iter().map(|wanted| lines_of(house, wanted));
    let (insertions, deletions) =
        lines.fold((0, 0), |(added, removed), lines| (added + lines.insertions, removed + lines.deletions));
    let summary = ApplySummary {
        apply: ApplyId::from_u128(0),
        files: 0,
        insertions,
        deletions,
        merged: Vec::new(),
        replaced: Vec::new(),
        left_out: chosen.left_out,
        validations: (checks.passed, checks.required),
        checks: ChecksAtApply::default(),
        undo_until: undo_until(house),
        commit: None,
        already: false,
    };
    let selection = serde_json::to_value(request).unwrap_or(Value::Null);
    let errand = Errand {
        plan,
        kind: ApplyKind::Apply,
        wanted: chosen.wanted,
        net_hash: net_hash(&chosen.net),
        selection,
        summary,
        git: git_commit::GitWish::of(request),
        refs: Vec::new(),
        left_by: None,
        through_links: request.through_links,
        checked: None,
    };
    let when = request.recheck.unwrap_or(house.options.recheck);
    check_validity::carry_checked(house, errand, authority, when, &checks.trusted_since).await
}

/// Files whose content was too large to be kept, or could not be read.
pub(crate) fn too_large(plan: &Plan, wanted: &[Wanted]) -> Vec<String> {
    let is_not_kept = |after: domain::FileState| {
        after.size > plan.spec.max_file_bytes || after.hash == sandbox::capture::UNKNOWN_CONTENT
    };
    // Of a large file that was there, nothing tells whether it is still what the plan saw.
    let was_too_large = |before: domain::FileState| before.size > plan.spec.max_file_bytes;
    let wanted = wanted.iter().filter(|wanted| {
        wanted.change.after.is_some_and(is_not_kept) || wanted.change.before.is_some_and(was_too_large)
    });
    wanted.map(|wanted| wanted.address.clone()).collect()
}

/// The lines of what is wanted, which may be a part of what was recorded.
pub(crate) fn lines_of(house: &House, wanted: &Wanted) -> LinesChanged {
    let recorded = house.file_diff(wanted.change.clone(), &[]);
    match &wanted.content {
        None => recorded.lines,
        Some(content) => lines_changed(&hunks(recorded.before.as_deref(), Some(content), &wanted.change)),
    }
}

pub(crate) fn undo_until(house: &House) -> WallMs {
    let retention = u64::try_from(house.options.retention.as_millis()).unwrap_or(u64::MAX);
    WallMs(house.wall().0.saturating_add(retention))
}

/// What is to be carried out.
pub(crate) struct Errand<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) kind: ApplyKind,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) net_hash: Hash,
    pub(crate) selection: Value,
    pub(crate) summary: ApplySummary,
    pub(crate) git: git_commit::GitWish,
    /// Refs that move with the files.
    pub(crate) refs: git_commit::RefMoves,
    /// The journal that is undone.
    pub(crate) left_by: Option<LeftBy>,
    /// Whether files that have other names are written in place, so that those change too.
    pub(crate) through_links: bool,
    /// The tree that the required checks passed on: another one is not written to. None where it does not matter.
    pub(crate) checked: Option<TreeStamp>,
}

/// Takes the locks, and carries the errand through.
pub(crate) async fn carry(
    house: &Arc<House>,
    errand: &Errand<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
) -> Result<ApplySummary, CarryError> {
    let what = match errand.kind {
        ApplyKind::Apply => "apply",
        ApplyKind::Undo => "undo",
    };
    let stopped = || CarryError::Cancelled { plan: errand.plan.id };
    // What was taken by then counts for nothing: who took it shows no presence any more.
    let locks = tokio::select! {
        biased;
        _ = authority.scope().cancelled() => return Err(stopped()),
        locks = Locks::take(house, errand.plan, what) => locks?,
    };
    let carried = match settled_meanwhile(house, errand, authority, &locks).await {
        Ok(()) => carry_locked(house, errand, authority, contents).await,
        Err(error) => Err(error),
    };
    locks.release().await;
    carried
}

/// Under the locks the world is looked at anew: an apply that was broken off is brought to its end first, and the plan
/// may by now be where it was to be brought.
async fn settled_meanwhile(
    house: &Arc<House>,
    errand: &Errand<'_>,
    authority: &Authority<'_>,
    locks: &Locks,
) -> Result<(), CarryError> {
    let plan = errand.plan.id;
    let stuck = |why: &dyn std::fmt::Display| CarryError::Stuck { plan, why: why.to_string() };
    let recovery = crash_recovery::recover(house, locks.roots()).await.map_err(|error| stuck(&error))?;
    if let Some(error) = recovery.stuck {
        return Err(stuck(&error));
    }
    // What is half done here would be written over, and could not be told from the user's edits any more.
    if let Some(open) = recovery.in_the_way {
        return Err(in_the_way(plan, &open));
    }
    let now =
        house.store.plan(plan).await.map_err(|error| CarryError::Failed { plan, why: error.to_string() })?;
    let stands = now.state == PlanState::Apply(ApplyState::Applied) && now.undone_at.is_none();
    let is_due = match (errand.kind, authority) {
        (ApplyKind::Apply, _) => !stands,
        (ApplyKind::Undo, Authority::Owner { .. } | Authority::LockHolder { .. }) => stands,
    };
    if is_due { Ok(()) } else { Err(CarryError::Settled { plan }) }
}

/// An apply that is open stands in the way of another to the same project.
fn in_the_way(plan: PlanId, open: &OpenApply) -> CarryError {
    let whose = open.plan.map_or_else(String::new, |plan| format!(" of plan {plan}"));
    let what = format!("an interrupted {}{whose} to the same project", open.kind.as_str());
    match open.why {
        OpenWhy::ProcessLives | OpenWhy::ProjectBusy => {
            LocksError::Held { what, owner: "another process".to_owned() }.into()
        }
        OpenWhy::ProjectAbsent | OpenWhy::Stuck { .. } => {
            CarryError::Stuck { plan, why: format!("{what} cannot be finished yet") }
        }
    }
}

async fn carry_locked(
    house: &Arc<House>,
    errand: &Errand<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
) -> Result<ApplySummary, CarryError> {
    let mut changing = BTreeSet::new();
    for _ in 0..TRIES_MAX {
        let roots = Roots::open(errand.plan)?;
        let merged = merge_all(&roots, &errand.wanted, contents, errand.left_by)?;
        if !merged.conflicts.is_empty() {
            return Err(CarryError::Conflicts { plan: errand.plan.id, conflicts: merged.conflicts });
        }
        match attempt(house, errand, authority, contents, merged).await? {
            Attempted::Done(summary) => return Ok(summary),
            Attempted::ChangedUnderUs(path) => changing.insert(path.to_string()),
        };
    }
    // Somebody writes to it all the time: what the plan would be merged with is not known.
    let conflicts = changing.into_iter().map(|address| Conflict {
        address,
        kind: ConflictKind::BaseMoved,
        places: Vec::new(),
    });
    Err(CarryError::Conflicts { plan: errand.plan.id, conflicts: conflicts.collect() })
}

enum Attempted {
    Done(ApplySummary),
    ChangedUnderUs(RelPath),
}

/// One journal, from its first frame to the store's word.
async fn attempt(
    house: &Arc<House>,
    errand: &Errand<'_>,
    authority: &Authority<'_>,
    contents: &dyn ContentSource,
    merged: Merged,
) -> Result<Attempted, CarryError> {
    let plan = errand.plan;
    let failed = |why: &dyn std::fmt::Display| CarryError::Failed { plan: plan.id, why: why.to_string() };
    let id = ApplyId::from_u128(house.ids.ulid());
    let mut summary = errand.summary.clone();
    summary.apply = id;
    summary.files = counted(&merged.changes, &errand.wanted).len();
    summary.merged = merged.merged;
    let (changes, refs) = git_commit::git_refs(house, errand, contents, id, merged.changes)?;
    if let Some((_, moved)) = refs.first() {
        summary.commit = moved.new.clone();
    }
    let apart = match errand.through_links {
        true => BTreeSet::new(),
        false => linked_elsewhere(&Roots::open(plan)?, errand.wanted.iter().map(|wanted| &wanted.change)),
    };
    let request = Request {
        id,
        plan: plan.id,
        kind: errand.kind,
        roots: journal_roots(plan)?,
        fence: match authority {
            Authority::Owner { run, .. } => run.claim().fence,
            Authority::LockHolder { .. } => Fence(0),
        },
        time_ms: house.wall().0,
        net_hash: errand.net_hash,
        changes,
        apart,
        refs,
    };
    let prepared = match house.journals.prepare(request, contents) {
        Ok(prepared) => prepared,
        Err(PrepareError::ChangedUnderUs { path }) => return Ok(Attempted::ChangedUnderUs(path)),
        Err(PrepareError::Content { path, .. }) if errand.kind == ApplyKind::Undo => {
            return Err(MergingError::ContentMissing { address: path.to_string() }.into());
        }
        Err(PrepareError::Capabilities { path }) => {
            return Err(MergingError::Capabilities { address: path.to_string() }.into());
        }
        Err(error) => return Err(failed(&error)),
    };
    if let Some(stamp) = &errand.checked {
        match check_validity::moves_since(house, plan, stamp, authority).await {
            Ok(moves) if moves.is_none() => {}
            moved => {
                prepared.abandon();
                return Err(CarryError::TreeMoved { moves: moved? });
            }
        }
    }
    let new = NewApply {
        id,
        plan: plan.id,
        kind: errand.kind,
        net_hash: errand.net_hash,
        selection: errand.selection.clone(),
        summary: serde_json::to_value(&summary).unwrap_or(Value::Null),
    };
    if let Err(error) = seal(house, authority, new).await {
        prepared.abandon();
        return Err(error);
    }
    let committed = match prepared.commit() {
        Ok(committed) => committed,
        Err(error) => {
            house.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            return Err(failed(&error));
        }
    };
    let settled =
        committed.carry_out().map_err(|stuck| CarryError::Stuck { plan: plan.id, why: stuck.to_string() })?;
    let carried = match settled.ending() {
        Ending::Applied { replaced, .. } => {
            summary.replaced = replaced.iter().map(|place| place.path.to_string()).collect();
            house.store.end_apply(id, ApplyEnd::Applied).await?;
            Ok(Attempted::Done(summary))
        }
        Ending::RolledBack { why, .. } => {
            // Nothing of it is left, so it is as if it had never begun; the seal is broken.
            house.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            match why {
                Why::ChangedUnderUs { place } => Ok(Attempted::ChangedUnderUs(place.path.clone())),
                Why::Escapes { .. } | Why::Io { .. } | Why::Git { .. } | Why::Recovered { .. } => {
                    Err(failed(&format!("{why}; what was written by then was rolled back")))
                }
            }
        }
        Ending::NeverBegan => {
            house.store.end_apply(id, ApplyEnd::NeverBegan).await?;
            Err(failed(&"the journal was gone before it was committed"))
        }
    };
    // A journal that cannot be put away now is by the next command.
    let _ = settled.retire();
    carried
}

async fn seal(house: &House, authority: &Authority<'_>, new: NewApply) -> Result<(), CarryError> {
    match authority {
        Authority::Owner { run, .. } => {
            let plan = new.plan;
            let effect = run.enter().map_err(|_| CarryError::Cancelled { plan })?;
            match house.store.seal_apply(&effect, &run.claim(), new).await {
                Ok(()) => Ok(()),
                Err(JobStoreError::Store(StoreError::LeaseLost(_)) | JobStoreError::Refused(_)) => {
                    Err(CarryError::Cancelled { plan })
                }
                Err(JobStoreError::Store(error)) => Err(error.into()),
                Err(error @ JobStoreError::QueueFull { .. }) => {
                    Err(StoreError::Broken { why: error.to_string() }.into())
                }
            }
        }
        Authority::LockHolder { stop } => {
            stop.check().map_err(|_| CarryError::Cancelled { plan: new.plan })?;
            Ok(house.store.begin_apply(new).await?)
        }
    }
}

fn journal_roots(plan: &Plan) -> Result<Vec<JournalRoot>, CarryError> {
    let numbered = plan.projects.iter().zip(0..);
    let roots = numbered.map(|(project, no)| {
        let path = path_of(&project.root);
        JournalRoot::of(RootNo(no), &path).map_err(|source| root_error(&path, source))
    });
    roots.collect()
}

fn root_error(path: &Path, source: std::io::Error) -> CarryError {
    MergingError::Io { address: path.display().to_string(), source }.into()
}
