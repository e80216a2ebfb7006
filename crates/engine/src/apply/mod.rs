//! `apply`: brings a plan's changes into the user's files, all that were chosen or none.
//!
//! # Invariants
//! 1. A choice that is not possible, or that the checks do not let through, is refused before the plan moves.
//! 2. An apply runs as a job of the plan, but for a plan that was applied and undone. That one is final, and
//!    is applied again under its lock.
//! 3. A repeated request for an apply that is in force returns the earlier answer. A request for all of that
//!    and more applies the rest, under the plan's lock. A request for another choice is refused.
//! 4. A later choice replaces an apply that waits as long as no live process works on it. The job is taken
//!    over, and ended as one that applied nothing. The former owner cannot seal it any more.

pub(crate) mod abandon;
pub(crate) mod check_again;
pub(crate) mod check_validity;
mod clean_filter;
pub(crate) mod crash_recovery;
mod git_commit;
pub(crate) mod locks;
mod lost_journal;
pub(crate) mod merge;
pub(crate) mod operations;
pub(crate) mod selection;
pub(crate) mod transaction;
mod undo;

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{
    ApplyId, ApplyRecord, ApplyState, ConstraintReason, HELD, Hash, Initiator, JobState, NetChange, Phase,
    Plan, PlanEvent, PlanId, PlanState, RelPath, RootIndex, SelectionError, ValidationSummary, WallMs,
    WorkState, latest_apply, net_hash,
};
use serde::{Deserialize, Serialize};
use store::{PlanMove, PlanStoreError, StoreError};
use sync::{CancellationToken, Observed};

use crate::engine::Engine;
use crate::plan::create::path_of;
use crate::plan::execute::ExecuteError;
use crate::plan::transition::plan_move;
use crate::run::ApplyAs;
use crate::run::plan_sandbox::content::StoreContents;
use check_validity::{ChecksAtApply, ConstrainedBy, RecheckWhen};
use locks::LocksError;
use merge::{Conflict, MergeError, ProjectRoots};
use selection::CheckedSelection;
use transaction::{Authority, TransactionError};

/// The number of times that an apply that waits is replaced before others are let have their way.
const REPLACED_MAX: usize = 3;

/// The time that an apply that is stopped may take to end.
const WITHDRAW_WAIT: Duration = Duration::from_secs(180);

/// The choice of changes that a person wants to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyRequest {
    /// Only these files, directories, globs and hunks.
    pub only: Vec<String>,
    /// Not these.
    pub reject: Vec<String>,
    /// The plan's file over a conflict.
    pub take: Vec<String>,
    /// True if nothing to apply is fine.
    pub allow_empty: bool,
    /// Commit the changes, and nothing else, with this message.
    pub commit: Option<String>,
    /// Put the changes on a new branch of this name, and leave the tree alone.
    pub branch: Option<String>,
    /// Write files that have other names in place, so that those change too.
    pub through_links: bool,
    /// When the required checks are run again; none: as the settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recheck: Option<RecheckWhen>,
    /// Apply though checks of a project did not run because the user does not trust them.
    #[serde(skip_serializing_if = "is_false")]
    pub unchecked: bool,
    /// The treatment of lines that both changed.
    #[serde(skip_serializing_if = "is_refuse")]
    pub conflicts: ConflictMode,
}

/// The treatment of lines that both the user and the plan changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictMode {
    /// Nothing is written.
    #[default]
    Refuse,
    /// Both sides are written, between markers.
    Markers,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_refuse(mode: &ConflictMode) -> bool {
    *mode == ConflictMode::Refuse
}

impl ApplyRequest {
    /// Returns true if it names a part of the changes.
    pub fn is_partial(&self) -> bool {
        !self.only.is_empty() || !self.reject.is_empty()
    }

    /// Returns whether the checks let it through, or missing trust alone blocks it and the user waives that.
    pub(crate) fn is_let_through(&self, checks: &ValidationSummary) -> bool {
        checks.may_be_applied() || (self.unchecked && checks.waits_for_trust())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The result of an apply or an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplySummary {
    /// Its name.
    pub apply: ApplyId,
    /// The number of files that it changed.
    pub files: usize,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Files that have both the user's edits and the plan's.
    pub merged: Vec<String>,
    /// Files that could not be written in place and were replaced.
    pub replaced: Vec<String>,
    /// Files that have markers where both sides conflict.
    #[serde(default)]
    pub marked: Vec<String>,
    /// The files that the person left out.
    pub left_out: Vec<String>,
    /// Required checks that passed, and how many there are.
    pub validations: (usize, usize),
    /// The tree that they passed on.
    #[serde(default)]
    pub checks: ChecksAtApply,
    /// Until when it can be undone.
    pub undo_until: WallMs,
    /// The commit that was made.
    pub commit: Option<String>,
    /// The branch that it is on, if the files of the working tree are not changed.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit that an undo left in the history, because other commits follow it.
    #[serde(default)]
    pub left_commit: Option<String>,
    /// True if it was applied or undone already, and nothing was done now.
    #[serde(default)]
    pub already: bool,
}

/// The result that an apply would have.
#[derive(Clone, Debug)]
pub struct ApplyPreview {
    /// The plan.
    pub plan: Plan,
    /// Files that would change.
    pub files: Vec<String>,
    /// Of them, those that would be removed.
    pub removed: Vec<String>,
    /// Of them, those merged with the user's edits.
    pub merged: Vec<String>,
    /// Of them, those that would have markers where both sides conflict.
    pub marked: Vec<String>,
    /// Files that are as the plan wants them already.
    pub already: Vec<String>,
    /// The obstacles.
    pub conflicts: Vec<Conflict>,
    /// The files that the person left out.
    pub left_out: Vec<String>,
    /// The results of the checks.
    pub validations: ValidationSummary,
    /// Files that have other names, which the plan does not mention.
    pub linked: Vec<String>,
    /// The request that it is for.
    request: ApplyRequest,
    /// The changes that the request selects.
    selection: CheckedSelection,
}

impl ApplyPreview {
    /// Returns the hash of all changes of the plan, chosen or not.
    pub fn net_hash(&self) -> Hash {
        net_hash(&self.selection.changes.net)
    }

    /// Returns whether it shows what this request selects of the plan as it is.
    fn is_for(&self, plan: &Plan, request: &ApplyRequest) -> bool {
        self.plan.version == plan.version && self.request == *request
    }
}

/// Why nothing was applied or undone.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan is not at a point where it can be applied or undone.
    #[error("plan {plan} is {state}")]
    NotReady {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// Another process works on it.
    #[error("plan {plan} is being worked on by {worker}")]
    Busy {
        /// The plan.
        plan: PlanId,
        /// Its owner.
        worker: String,
    },
    /// It is being applied with another choice.
    #[error("plan {plan} is being applied with another choice by {worker}")]
    OtherChoice {
        /// The plan.
        plan: PlanId,
        /// The worker that applies it.
        worker: String,
    },
    /// Another process changed its result since the user saw it.
    #[error("plan {plan} has other changes than the ones that were shown")]
    Changed {
        /// The plan.
        plan: PlanId,
    },
    /// It is applied, with another choice.
    #[error("plan {plan} is applied already, with {files} of {of} files")]
    AlreadyApplied {
        /// The plan.
        plan: PlanId,
        /// The number of files that were applied, as a whole or in part.
        files: usize,
        /// The number of files that the plan changed.
        of: usize,
        /// The files that were left out.
        left_out: Vec<String>,
        /// The branch that it is on, if it is not in the working tree.
        branch: Option<String>,
    },
    /// A word names nothing that the plan changed.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// It was to read only.
    #[error("plan {plan} is read-only")]
    ReadOnly {
        /// The plan.
        plan: PlanId,
    },
    /// There is nothing to do.
    #[error("plan {plan} has nothing to apply")]
    NothingToApply {
        /// The plan.
        plan: PlanId,
    },
    /// A required check failed, or did not run for these changes.
    #[error("the required checks of plan {plan} have not passed")]
    Validation {
        /// The plan.
        plan: PlanId,
        /// The results of the checks.
        summary: ValidationSummary,
    },
    /// A required check passed in the plan's sandbox and failed on the merged tree. Nothing was written.
    #[error("the checks of plan {plan} fail on the present tree")]
    Recheck {
        /// The plan.
        plan: PlanId,
        /// The checks, then what moved since they passed.
        reasons: Vec<ConstraintReason>,
    },
    /// The tree changed during every run of the checks. Nothing was written.
    #[error("the tree that plan {plan} is to be applied to keeps changing")]
    TreeMoving {
        /// The plan.
        plan: PlanId,
        /// The files that moved last.
        reasons: Vec<ConstraintReason>,
    },
    /// Files are too large to be stored.
    #[error("{} files of plan {plan} are too large to be applied", files.len())]
    TooLarge {
        /// The plan.
        plan: PlanId,
        /// The files.
        files: Vec<String>,
    },
    /// The user's files and the plan do not go together.
    #[error("plan {plan} was not applied: {} conflicts, nothing was written", conflicts.len())]
    Conflicts {
        /// The plan.
        plan: PlanId,
        /// The conflicts.
        conflicts: Vec<Conflict>,
        /// The conflicts as reasons in words, if their places are not known any more.
        reasons: Vec<ConstraintReason>,
    },
    /// Its journal is gone.
    #[error("plan {plan} can no longer be undone: its journal is gone")]
    UndoExpired {
        /// The plan.
        plan: PlanId,
    },
    /// Its journal does not say any more what was there before.
    #[error("plan {plan} cannot be undone: its journal is damaged")]
    UndoDamaged {
        /// The plan.
        plan: PlanId,
        /// The path of the journal.
        journal: std::path::PathBuf,
    },
    /// There is a branch of this name.
    #[error("branch {name} exists")]
    BranchExists {
        /// The name.
        name: String,
    },
    /// The branch of the plan has commits of others: an undo would lose them.
    #[error("branch {name} has other commits than that of plan {plan}")]
    BranchMoved {
        /// The plan.
        plan: PlanId,
        /// The branch.
        name: String,
        /// The commit of the plan.
        commit: String,
    },
    /// Another process has just brought the plan to this end.
    #[error("another process has just brought plan {plan} to this state")]
    Settled {
        /// The plan.
        plan: PlanId,
    },
    /// The process that requested the apply stopped it before it wrote anything: the plan is as it was.
    #[error("the apply of plan {plan} was stopped")]
    Withdrawn {
        /// The plan.
        plan: PlanId,
    },
    /// The apply was cancelled before it wrote anything.
    #[error("the apply of plan {plan} was cancelled")]
    Cancelled {
        /// The plan.
        plan: PlanId,
    },
    /// It failed, and the user's files are as they were.
    #[error("plan {plan} was not applied: {why}")]
    Failed {
        /// The plan.
        plan: PlanId,
        /// The obstacle.
        why: String,
    },
    /// It can be neither finished nor rolled back now. The next process that opens the data directory tries
    /// again.
    #[error("the apply of plan {plan} is stuck: {why}")]
    Stuck {
        /// The plan.
        plan: PlanId,
        /// The obstacles.
        why: String,
    },
    /// The locks were not to be had.
    #[error(transparent)]
    Locks(#[from] LocksError),
    /// The files cannot be read.
    #[error(transparent)]
    Merging(#[from] MergeError),
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// This process cannot work.
    #[error(transparent)]
    Execute(Box<ExecuteError>),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl From<ExecuteError> for ApplyError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Busy { plan, worker } => Self::Busy { plan, worker },
            ExecuteError::Plan(error) => Self::Plan(error),
            ExecuteError::NotReady { plan, state } | ExecuteError::Final { plan, state } => {
                Self::NotReady { plan, state }
            }
            other @ (ExecuteError::Complete { .. }
            | ExecuteError::Unstored { .. }
            | ExecuteError::NoWorker(_)) => Self::Execute(Box::new(other)),
        }
    }
}

impl Engine {
    /// Returns the result that an apply would have, without applying.
    ///
    /// # Errors
    /// A word names nothing, or a file or content cannot be read.
    pub async fn preview(&self, id: PlanId, request: &ApplyRequest) -> Result<ApplyPreview, ApplyError> {
        let plan = self.inner.store.plan(id).await?;
        let selection = self.check_selection(&plan, request).await?;
        let chosen = &selection.changes;
        let roots = ProjectRoots::open(&plan)?;
        let merged =
            merge::merge_all(&roots, &chosen.wanted, &StoreContents(self.inner.store.as_ref()), None)?;
        let wanted = chosen.wanted.iter().map(|wanted| &wanted.change);
        let linked = addresses(&merge::linked_elsewhere(&roots, wanted), &plan);
        let counted = merge::counted(&merged.changes, &chosen.wanted);
        let gone = merged.changes.iter().filter(|change| change.post.is_none());
        let gone = gone.map(|change| (change.root, change.path.clone())).filter(|at| counted.contains(at));
        let (files, removed) = (addresses(&counted, &plan), addresses(&gone.collect(), &plan));
        Ok(ApplyPreview {
            plan,
            files,
            removed,
            merged: merged.merged,
            marked: merged.marked,
            already: merged.already,
            conflicts: merged.conflicts,
            left_out: chosen.left_out.clone(),
            validations: selection.checks.clone(),
            linked,
            request: request.clone(),
            selection,
        })
    }

    /// The files of these changes of a plan that have other names, which they do not mention. A file that
    /// cannot be looked at has none. It blocks while it looks.
    pub fn linked(&self, plan: &Plan, changes: &[NetChange]) -> Vec<String> {
        let Ok(roots) = ProjectRoots::open(plan) else { return Vec::new() };
        addresses(&merge::linked_elsewhere(&roots, changes), plan)
    }

    /// Returns the names of the git hooks that a commit of this plan passes over. It blocks while git looks.
    pub fn commit_hooks(&self, plan: &Plan) -> BTreeSet<&'static str> {
        let roots = plan.projects.iter().map(|project| path_of(&project.root));
        roots.flat_map(|root| sandbox::git::refs::commit_hooks(&root)).collect()
    }

    /// Applies what was chosen of a plan.
    ///
    /// # Errors
    /// As [`ApplyError`] says; in every case but a stuck one the user's files are as they were.
    pub async fn apply(&self, id: PlanId, request: &ApplyRequest) -> Result<ApplySummary, ApplyError> {
        self.apply_unless(id, request, None, &CancellationToken::new().observe()).await
    }

    /// The same, unless `stop` is cancelled before anything is written: the plan is then as it was. The
    /// selection of a preview of the same plan and request is not made again before the plan moves.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), and [`ApplyError::Withdrawn`].
    pub async fn apply_unless(
        &self,
        id: PlanId,
        request: &ApplyRequest,
        preview: Option<&ApplyPreview>,
        stop: &Observed,
    ) -> Result<ApplySummary, ApplyError> {
        let plan = self.inner.store.plan(id).await?;
        let state = plan.state;
        match state {
            PlanState::Apply(_) if plan.is_applied() => {
                return match self.earlier(&plan, request).await {
                    Err(ApplyError::AlreadyApplied { .. })
                        if self.adds_to_applied(&plan, request).await? =>
                    {
                        self.apply_by_lock(&plan, request, stop).await
                    }
                    earlier => earlier,
                };
            }
            PlanState::Execute(WorkState::Complete) | PlanState::Apply(_) if !state.is_cancelled() => {}
            PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
                return Err(ApplyError::NotReady { plan: id, state });
            }
        }
        if plan.spec.read_only {
            return Err(ApplyError::ReadOnly { plan: id });
        }
        if state == PlanState::Apply(ApplyState::Applied) {
            return self.apply_by_lock(&plan, request, stop).await;
        }
        // The owner of the job selects again, under its claim.
        let refused = match preview.filter(|preview| preview.is_for(&plan, request)) {
            Some(preview) => refusal(&plan, request, &preview.selection),
            None => {
                let selection = self.check_selection(&plan, request).await?;
                if preview.is_some_and(|preview| preview.net_hash() != net_hash(&selection.changes.net)) {
                    return Err(ApplyError::Changed { plan: id });
                }
                refusal(&plan, request, &selection)
            }
        };
        if let Some(refused) = refused {
            return Err(refused);
        }
        self.queue_apply(plan, request).await?;
        let mut running = std::pin::pin!(self.run_live_job(id, ApplyAs::Asked));
        let ran = tokio::select! {
            ran = &mut running => ran,
            _ = stop.cancelled() => {
                // An apply that has begun to write is finished. Its outcome shows any other reason why it was
                // not withdrawn.
                let _ = self.withdraw_apply(id, WITHDRAW_WAIT).await;
                running.await
            }
        };
        ran?;
        match self.outcome(id, request).await {
            Err(ApplyError::NotReady { plan, state: PlanState::Execute(WorkState::Complete) })
                if stop.is_cancelled() =>
            {
                Err(ApplyError::Withdrawn { plan })
            }
            outcome => outcome,
        }
    }

    /// Applies a plan that is final, under its lock: one that was undone, or the rest of one that was applied in
    /// part.
    async fn apply_by_lock(
        &self,
        plan: &Plan,
        request: &ApplyRequest,
        stop: &Observed,
    ) -> Result<ApplySummary, ApplyError> {
        let selection = self.check_selection(plan, request).await?;
        if let Some(refused) = refusal(plan, request, &selection) {
            return Err(refused);
        }
        let authority = Authority::LockHolder { stop };
        match transaction::apply(&self.inner, plan, request, selection, &authority).await {
            Err(TransactionError::Settled { .. }) => self.earlier(plan, request).await,
            carried => Ok(carried?),
        }
    }

    /// Returns whether a request asks for all that is applied of a plan, and more.
    ///
    /// # Errors
    /// A word names nothing, or the store failed.
    pub async fn adds_to_applied(&self, plan: &Plan, request: &ApplyRequest) -> Result<bool, ApplyError> {
        let applies = self.inner.store.applies(plan.id).await?;
        let applied = latest_apply(&applies).map(|apply| apply.selection.clone());
        let applied: Option<ApplyRequest> =
            applied.and_then(|selection| serde_json::from_value(selection).ok());
        let applied = applied.unwrap_or_default();
        if !plan.is_applied() {
            return Ok(false);
        }
        // What is on a branch is not in the files, and stays alone.
        if applied.branch.is_some() || request.branch.is_some() {
            return Ok(false);
        }
        let was = self.inner.select_changes(plan, &applied).await?;
        let asked = self.inner.select_changes(plan, request).await?;
        Ok(asked.includes(&was, &StoreContents(self.inner.store.as_ref())) && !was.includes_files_of(&asked))
    }

    /// Selects the changes that the request names, with what their checks say.
    async fn check_selection(
        &self,
        plan: &Plan,
        request: &ApplyRequest,
    ) -> Result<CheckedSelection, ApplyError> {
        let changes = self.inner.select_changes(plan, request).await?;
        let checks = self.inner.checks_of_selection(plan, &changes).await?;
        Ok(CheckedSelection { changes, checks })
    }

    /// Queues the apply, or finds it queued. One that waits with another choice is replaced.
    async fn queue_apply(&self, mut plan: Plan, request: &ApplyRequest) -> Result<(), ApplyError> {
        let id = plan.id;
        for _ in 0..REPLACED_MAX {
            let event = match plan.state {
                PlanState::Execute(WorkState::Complete) => PlanEvent::Advance,
                PlanState::Apply(ApplyState::Constrained) => PlanEvent::Reapply,
                PlanState::Apply(ApplyState::Errored) => PlanEvent::Retry,
                PlanState::Apply(ApplyState::Queued | ApplyState::Processing) => {
                    let asked: Option<ApplyRequest> =
                        serde_json::from_value(plan.request.clone()).ok().flatten();
                    if asked.unwrap_or_default() == *request {
                        return Ok(());
                    }
                    self.replace(&plan).await?;
                    plan = self.inner.store.plan(id).await?;
                    continue;
                }
                // It came to its end meanwhile, which its outcome shows.
                PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => return Ok(()),
            };
            let request = serde_json::to_value(request).unwrap_or_default();
            let job = self.new_job(id, Phase::Apply, HELD);
            self.move_plan(PlanMove { request, ..plan_move(&plan, event, Initiator::User, Some(job)) })
                .await?;
            return Ok(());
        }
        Err(ApplyError::OtherChoice { plan: id, worker: "other processes, repeatedly".to_owned() })
    }

    /// Ends an apply that waits without applying anything, unless a live process works on it or it has begun
    /// to write.
    async fn replace(&self, plan: &Plan) -> Result<(), ApplyError> {
        let other = |worker: String| ApplyError::OtherChoice { plan: plan.id, worker };
        let Some(job) = self.live_job(plan.id).await? else { return Ok(()) };
        if job.sealed_at.is_some() {
            return Err(other("an apply that has begun to write".to_owned()));
        }
        let owner = job.worker.filter(|_| job.state == JobState::Running);
        if let Some(worker) = owner.filter(|_| !self.inner.owner_is_gone(&job)) {
            return Err(other(format!("worker {worker}, which is running")));
        }
        match self.run_live_job(plan.id, ApplyAs::Replaced).await {
            // Another process was faster.
            Err(ExecuteError::Busy { worker, .. }) => Err(other(format!("{worker}, which is running"))),
            ran => Ok(ran?),
        }
    }

    /// Returns the outcome of an apply that ran as a job.
    async fn outcome(&self, id: PlanId, request: &ApplyRequest) -> Result<ApplySummary, ApplyError> {
        let plan = self.inner.store.plan(id).await?;
        match plan.state {
            PlanState::Apply(ApplyState::Applied) => {
                let summary = self.earlier(&plan, request).await?;
                Ok(ApplySummary { already: false, ..summary })
            }
            PlanState::Apply(ApplyState::Constrained) => {
                match ConstrainedBy::from_reasons(&plan.constrained_by) {
                    ConstrainedBy::Recheck => {
                        return Err(ApplyError::Recheck { plan: id, reasons: plan.constrained_by });
                    }
                    ConstrainedBy::MovingTree => {
                        return Err(ApplyError::TreeMoving { plan: id, reasons: plan.constrained_by });
                    }
                    ConstrainedBy::Other => {}
                }
                if let Some(branch) =
                    plan.constrained_by.iter().find(|reason| reason.kind == transaction::BRANCH)
                {
                    return Err(ApplyError::BranchExists { name: branch.subject.clone() });
                }
                let request: ApplyRequest = serde_json::from_value(plan.request.clone()).unwrap_or_default();
                let conflicts = self.preview(id, &request).await.map(|preview| preview.conflicts);
                Err(ApplyError::Conflicts {
                    plan: id,
                    conflicts: conflicts.unwrap_or_default(),
                    reasons: plan.constrained_by,
                })
            }
            PlanState::Apply(ApplyState::Cancelled) => Err(ApplyError::Cancelled { plan: id }),
            PlanState::Apply(ApplyState::Errored) => {
                let history = self.inner.store.history(id).await?;
                let last = history.last_failure().map(|record| record.error.message().to_owned());
                let why = last.unwrap_or_else(|| "it failed".to_owned());
                // Its journal is neither carried out nor rolled back: files may be written.
                let is_open = self.inner.store.applies(id).await?.iter().any(ApplyRecord::is_open);
                Err(match is_open {
                    true => ApplyError::Stuck { plan: id, why },
                    false => ApplyError::Failed { plan: id, why },
                })
            }
            state @ PlanState::Apply(ApplyState::Queued | ApplyState::Processing)
            | state @ (PlanState::Strategize(_) | PlanState::Execute(_)) => {
                Err(ApplyError::NotReady { plan: id, state })
            }
        }
    }

    /// Returns the summary of the apply that is in force, if it is of the same choice.
    async fn earlier(&self, plan: &Plan, request: &ApplyRequest) -> Result<ApplySummary, ApplyError> {
        let applies = self.inner.store.applies(plan.id).await?;
        let gone = || ApplyError::Failed { plan: plan.id, why: "its record is gone".to_owned() };
        let stands = latest_apply(&applies).ok_or_else(gone)?;
        let applied: Option<ApplyRequest> = serde_json::from_value(stands.selection.clone()).ok().flatten();
        let applied = applied.unwrap_or_default();
        if applied != *request {
            self.refuse_other(plan, &applied, request).await?;
        }
        let summary: ApplySummary = serde_json::from_value(stands.summary.clone()).map_err(|_| gone())?;
        Ok(ApplySummary { already: true, ..summary })
    }

    /// Refuses a request that asks for something else than was applied; other words for the same are fine.
    async fn refuse_other(
        &self,
        plan: &Plan,
        applied: &ApplyRequest,
        request: &ApplyRequest,
    ) -> Result<(), ApplyError> {
        let (was, asked) = (
            self.inner.select_changes(plan, applied).await?,
            self.inner.select_changes(plan, request).await?,
        );
        let has_same_end = (&applied.commit, &applied.branch) == (&request.commit, &request.branch);
        if has_same_end && asked.is_covered_by(&was) {
            return Ok(());
        }
        Err(ApplyError::AlreadyApplied {
            plan: plan.id,
            files: was.wanted.iter().filter(|wanted| !wanted.is_carrier).count(),
            of: was.net.len(),
            left_out: was.left_out,
            branch: applied.branch.clone(),
        })
    }
}

/// Returns why the selection is refused before anything moves; `None` if it is not.
fn refusal(plan: &Plan, request: &ApplyRequest, selection: &CheckedSelection) -> Option<ApplyError> {
    let CheckedSelection { changes, checks } = selection;
    if changes.wanted.is_empty() && !request.allow_empty {
        return Some(ApplyError::NothingToApply { plan: plan.id });
    }
    if !request.is_let_through(checks) {
        return Some(ApplyError::Validation { plan: plan.id, summary: checks.clone() });
    }
    let files = transaction::too_large(plan, &changes.wanted);
    (!files.is_empty()).then_some(ApplyError::TooLarge { plan: plan.id, files })
}

impl From<TransactionError> for ApplyError {
    fn from(error: TransactionError) -> Self {
        error.into_apply_error()
    }
}

/// Returns the addresses of these files of a plan, for people.
fn addresses(places: &BTreeSet<(RootIndex, RelPath)>, plan: &Plan) -> Vec<String> {
    let alias = |root: RootIndex| plan.projects.get(usize::from(root.0)).filter(|_| plan.projects.len() > 1);
    let address = |(root, path): &(RootIndex, RelPath)| match alias(*root) {
        Some(project) => format!("{}:{path}", project.alias),
        None => path.to_string(),
    };
    places.iter().map(address).collect()
}
