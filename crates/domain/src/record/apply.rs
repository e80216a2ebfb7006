//! A stored apply or undo: begun by a seal, ended once.
//!
//! # Invariants
//! 1. An apply that ended stays as it ended.
//! 2. [`ApplyRecord::moves`] alone says what its end means for job and plan.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::file_state::Hash;
use crate::id::{ApplyId, PlanId};
use crate::job::{Job, JobEvent};
use crate::plan::{ApplyState, ConstraintReason, PlanEvent, PlanState, why_constrained};
use crate::time::WallMs;

/// The direction of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyKind {
    /// The plan's changes into the user's files.
    Apply,
    /// Out of them again.
    Undo,
}

impl ApplyKind {
    /// Both.
    pub const ALL: [ApplyKind; 2] = [ApplyKind::Apply, ApplyKind::Undo];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ApplyKind::Apply => "apply",
            ApplyKind::Undo => "undo",
        }
    }

    /// The kind with this name.
    pub fn parse(word: &str) -> Option<ApplyKind> {
        ApplyKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The stage of an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyStage {
    /// Its journal is complete; from here it is carried through or rolled back.
    Sealed,
    /// It is in the user's files.
    Applied,
    /// It is not: its writes were rolled back.
    RolledBack,
    /// It never began: its journal had no commit mark.
    NeverBegan,
}

impl ApplyStage {
    /// All of them.
    pub const ALL: [ApplyStage; 4] =
        [ApplyStage::Sealed, ApplyStage::Applied, ApplyStage::RolledBack, ApplyStage::NeverBegan];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ApplyStage::Sealed => "sealed",
            ApplyStage::Applied => "applied",
            ApplyStage::RolledBack => "rolled_back",
            ApplyStage::NeverBegan => "never_began",
        }
    }

    /// The stage with this name.
    pub fn parse(word: &str) -> Option<ApplyStage> {
        ApplyStage::ALL.into_iter().find(|stage| stage.as_str() == word)
    }
}

/// A stored apply.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyRecord {
    /// Its name, and that of its journal.
    pub id: ApplyId,
    /// The plan.
    pub plan: PlanId,
    /// Its direction.
    pub kind: ApplyKind,
    /// Its stage.
    pub stage: ApplyStage,
    /// The changes that it is about.
    pub net_hash: Hash,
    /// The selection of them, in the words of the person; null for all.
    pub selection: Value,
    /// A summary of its work, for people and programs.
    pub summary: Value,
    /// The time when it was sealed.
    pub started: WallMs,
    /// The time when it ended.
    pub ended: Option<WallMs>,
}

/// An apply to be sealed, named by its caller.
#[derive(Clone, Debug, PartialEq)]
pub struct NewApply {
    /// Its name, and that of its journal.
    pub id: ApplyId,
    /// The plan.
    pub plan: PlanId,
    /// Its direction.
    pub kind: ApplyKind,
    /// The changes that it is about.
    pub net_hash: Hash,
    /// The selection of them.
    pub selection: Value,
    /// The summary of its work once it is done.
    pub summary: Value,
}

/// The end of an apply.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyEnd {
    /// It is in the user's files.
    Applied,
    /// It was rolled back for these reasons.
    RolledBack(Vec<ConstraintReason>),
    /// It never began.
    NeverBegan,
}

impl ApplyEnd {
    /// The stage that it leads to.
    pub const fn stage(&self) -> ApplyStage {
        match self {
            ApplyEnd::Applied => ApplyStage::Applied,
            ApplyEnd::RolledBack(_) => ApplyStage::RolledBack,
            ApplyEnd::NeverBegan => ApplyStage::NeverBegan,
        }
    }
}

/// The moves of the plan and its job that follow the end of an apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyMoves {
    /// The event of the sealed job. The plan follows it; when the apply was rolled back, as constrained.
    pub job: Option<JobEvent>,
    /// The events of a plan that lost its job before, one after the other.
    pub plan: &'static [PlanEvent],
    /// Sets whether the apply of the plan counts as undone from now on; `None` if that stays as it is.
    pub undone: Option<bool>,
}

/// Returns the apply that is in force unless it was undone: the last one whose files are written. `applies`
/// are in their order.
pub fn latest_apply(applies: &[ApplyRecord]) -> Option<&ApplyRecord> {
    applies.iter().rfind(|apply| apply.kind == ApplyKind::Apply && apply.stage == ApplyStage::Applied)
}

/// Returns the applies that are in force unless they were undone: those whose files were written since the last
/// undo. A plan that was applied in part, and then further, has several. `applies` are in their order.
pub fn applies_in_force(applies: &[ApplyRecord]) -> Vec<&ApplyRecord> {
    let is_done = |apply: &ApplyRecord| apply.stage == ApplyStage::Applied;
    let is_undo = |apply: &ApplyRecord| apply.kind == ApplyKind::Undo && is_done(apply);
    let undone = applies.iter().rposition(is_undo).map_or(0, |last| last + 1);
    let since = applies.get(undone..).unwrap_or_default();
    since.iter().filter(|apply| apply.kind == ApplyKind::Apply && is_done(apply)).collect()
}

impl ApplyRecord {
    /// An apply as it is sealed.
    pub fn sealed(new: NewApply, now: WallMs) -> ApplyRecord {
        let NewApply { id, plan, kind, net_hash, selection, summary } = new;
        let stage = ApplyStage::Sealed;
        ApplyRecord { id, plan, kind, stage, net_hash, selection, summary, started: now, ended: None }
    }

    /// Returns whether it was sealed and has not ended.
    pub fn is_open(&self) -> bool {
        self.stage == ApplyStage::Sealed
    }

    /// Returns whether it is this one, still sealed: then the seal is asked for again.
    pub fn is_sealed_as(&self, new: &NewApply) -> bool {
        let is_same = self.id == new.id && self.plan == new.plan && self.kind == new.kind;
        is_same && self.net_hash == new.net_hash && self.stage == ApplyStage::Sealed
    }

    /// The apply after its end; `None` if it has ended before.
    pub fn ended(&self, end: &ApplyEnd, now: WallMs) -> Option<ApplyRecord> {
        let is_open = self.stage == ApplyStage::Sealed;
        is_open.then(|| ApplyRecord { stage: end.stage(), ended: Some(now), ..self.clone() })
    }

    /// Returns the consequences of `end` for a plan in `state` with the live job `live`. `others` says
    /// whether another apply of the plan is sealed: then the seal is that one's too, and is not broken.
    pub fn moves(
        &self,
        end: &ApplyEnd,
        state: Option<PlanState>,
        live: Option<&Job>,
        others: bool,
    ) -> ApplyMoves {
        let nothing = ApplyMoves::default();
        let job = |event: JobEvent| ApplyMoves { job: Some(event), ..ApplyMoves::default() };
        let sealed = live.filter(|job| job.sealed_at.is_some());
        match (self.kind, end, sealed) {
            (ApplyKind::Apply, ApplyEnd::Applied, Some(sealed)) => {
                job(JobEvent::Succeed { fence: sealed.fence })
            }
            (ApplyKind::Apply, ApplyEnd::Applied, None) => match state {
                Some(APPLIED) => ApplyMoves { undone: Some(false), ..nothing },
                // Its job was given up while the journal was open: the files are written all the same.
                Some(PlanState::Apply(ApplyState::Errored)) => ApplyMoves { plan: &GIVEN_UP, ..nothing },
                Some(PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_)) | None => {
                    nothing
                }
            },
            (ApplyKind::Apply, ApplyEnd::RolledBack(reasons), Some(sealed)) => {
                job(JobEvent::Fail { fence: sealed.fence, why: why_constrained(reasons) })
            }
            (ApplyKind::Apply, ApplyEnd::NeverBegan, Some(_)) if !others => job(JobEvent::BreakSeal),
            (ApplyKind::Apply, ApplyEnd::RolledBack(_) | ApplyEnd::NeverBegan, _) => nothing,
            (ApplyKind::Undo, ApplyEnd::Applied, _) if state == Some(APPLIED) => {
                ApplyMoves { undone: Some(true), ..nothing }
            }
            (ApplyKind::Undo, ApplyEnd::Applied | ApplyEnd::RolledBack(_) | ApplyEnd::NeverBegan, _) => {
                nothing
            }
        }
    }
}

const APPLIED: PlanState = PlanState::Apply(ApplyState::Applied);

/// The way of a plan from errored to applied.
const GIVEN_UP: [PlanEvent; 3] = [PlanEvent::Retry, PlanEvent::Start, PlanEvent::Applied];
