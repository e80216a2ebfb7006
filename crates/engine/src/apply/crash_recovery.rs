//! Crash recovery: the first act of every engine. Finishes or rolls back every interrupted apply, and stores
//! the outcome.
//!
//! # Invariants
//! 1. A journal is replayed only under the locks of its projects' roots, taken without waiting. While a live
//!    process works on one of them, the journal is left to the next command.
//! 2. A journal that is left open is named, with the reason.
//!
//! # Not here
//! Applies whose journal is gone or damaged: `lost_journal`.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{ApplyEnd, ApplyId, ApplyKind, ConstraintReason, Merge, PlanId, WallMs, merge};
use sandbox::journal::{
    JournalEnding, JournalHeader, JournalRoot, Merger, RecoveredJournal, RootMoved, Seal, SettledJournal,
    StuckJournal,
};
use store::StoreError;

use super::locks::RootLocks;
use super::lost_journal;
use crate::engine::EngineInner;

/// The reason why an interrupted apply is still there.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// It can be neither finished nor rolled back now.
    #[error(transparent)]
    Stuck(#[from] StuckJournal),
    /// The journals cannot be read.
    #[error("the journals cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The end of an interrupted apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveredEnd {
    /// It was carried through.
    Finished,
    /// It was rolled back, except for the files that were left.
    TakenBack,
    /// It had not begun to write.
    NeverBegan,
}

/// An interrupted apply, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredApply {
    /// Its name.
    pub apply: ApplyId,
    /// The plan; none when the journal was cut off before it said so.
    pub plan: Option<PlanId>,
    /// Apply or undo.
    pub kind: ApplyKind,
    /// The end of the apply.
    pub end: RecoveredEnd,
    /// Files that were left as they are, because they were edited since, or because their earlier content is
    /// not known.
    pub left: Vec<String>,
    /// The state in which its journal was found.
    pub journal: JournalState,
}

/// The state in which the journal of an interrupted apply was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// Whole: it says what was to be done.
    Whole,
    /// Gone, so that only the files could show the outcome.
    Missing,
    /// Damaged, so that only the files could show the outcome. Nothing of it was removed.
    Damaged {
        /// The present path of the journal.
        kept: PathBuf,
    },
}

/// Why an apply is still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsettledReason {
    /// The process that works on it is alive.
    ProcessLives,
    /// Another process works on one of its projects.
    ProjectBusy,
    /// A project of it is not there, or another directory is in its place.
    ProjectAbsent,
    /// It can be neither finished nor rolled back.
    Stuck {
        /// The error of the system.
        why: String,
    },
}

impl UnsettledReason {
    /// Returns true if a person may abandon it: no live process works on it.
    pub const fn may_be_set_aside(&self) -> bool {
        match self {
            UnsettledReason::ProcessLives | UnsettledReason::ProjectBusy => false,
            UnsettledReason::ProjectAbsent | UnsettledReason::Stuck { .. } => true,
        }
    }
}

/// An apply that was begun and has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledApply {
    /// Its name.
    pub apply: ApplyId,
    /// The plan; none when the journal does not say.
    pub plan: Option<PlanId>,
    /// Apply or undo.
    pub kind: ApplyKind,
    /// The projects that it writes to.
    pub projects: Vec<PathBuf>,
    /// When it was begun.
    pub since: Option<WallMs>,
    /// Why it is still open.
    pub why: UnsettledReason,
}

/// Merges by lines, as an apply does.
pub(crate) struct LineMerger;

impl Merger for LineMerger {
    fn merge(&self, base: &[u8], now: &[u8], plan: &[u8]) -> Option<Vec<u8>> {
        match merge(base, now, plan) {
            Merge::Same => Some(now.to_vec()),
            Merge::Merged(bytes) => Some(bytes),
            Merge::Conflict(_) => None,
        }
    }
}

/// The result of a recovery.
#[derive(Debug, Default)]
pub(crate) struct CrashRecovery {
    /// The applies that this recovery ended.
    pub(crate) ended: Vec<RecoveredApply>,
    /// The applies that are still open.
    pub(crate) open: Vec<UnsettledApply>,
    /// Of that, what no other command gets past.
    pub(crate) stuck: Option<StuckJournal>,
    /// An open one that writes to a project whose lock the caller has.
    pub(crate) in_the_way: Option<UnsettledApply>,
    /// The new paths of files that were among the journals and are no journals.
    pub(crate) set_aside: Vec<PathBuf>,
}

/// Finishes or rolls back every interrupted apply. One that is stuck does not block the others. `held` are
/// locks of roots that the caller has.
pub(crate) async fn recover(
    engine: &Arc<EngineInner>,
    held: &RootLocks,
) -> Result<CrashRecovery, RecoveryError> {
    let mut recovery = CrashRecovery::default();
    let found = engine.journals.scan()?;
    recovery.set_aside = found.set_aside;
    for listed in found.open {
        // An unreadable header is reported by the code that tries to settle the journal.
        let header = engine.journals.header(listed.id).ok().flatten();
        let roots: &[JournalRoot] = header.as_ref().map_or(&[], |header| &header.roots);
        let paths = roots.iter().map(|root| root.path.clone());
        let why = match RootLocks::try_take(paths, held) {
            None => UnsettledReason::ProjectBusy,
            // The locks of the roots are held until the journal is put away.
            Some(_locks) => match engine.journals.recover_one(listed.id, seal_of(engine, listed.id).await?) {
                RecoveredJournal::Settled(settled) => {
                    recovery.ended.push(record_recovered(engine, settled).await?);
                    continue;
                }
                RecoveredJournal::Gone => continue,
                RecoveredJournal::Damaged { header: said } => {
                    match lost_journal::settle_damaged(
                        engine,
                        held,
                        listed.id,
                        said.as_ref(),
                        !roots.is_empty(),
                    )
                    .await?
                    {
                        Ok(ended) => {
                            recovery.ended.push(ended);
                            continue;
                        }
                        Err(why) => why,
                    }
                }
                RecoveredJournal::Busy => UnsettledReason::ProcessLives,
                RecoveredJournal::Stuck(stuck) => {
                    let why = why_stuck(&stuck);
                    if why != UnsettledReason::ProjectAbsent {
                        recovery.stuck.get_or_insert(stuck);
                    }
                    why
                }
            },
        };
        let open = open_apply(listed.id, header.as_ref(), why);
        if held.has_one_of(roots) {
            recovery.in_the_way.get_or_insert(open.clone());
        }
        recovery.open.push(open);
    }
    lost_journal::settle_missing(engine, held, &mut recovery).await?;
    Ok(recovery)
}

/// Returns whether the store has sealed this apply.
async fn seal_of(engine: &EngineInner, apply: ApplyId) -> Result<Seal, StoreError> {
    let known = engine.store.apply(apply).await?;
    Ok(if known.is_some_and(|apply| apply.is_open()) { Seal::Sealed } else { Seal::Open })
}

/// Records the end of a journal in the store, and puts the journal away.
async fn record_recovered(
    engine: &EngineInner,
    settled: SettledJournal,
) -> Result<RecoveredApply, RecoveryError> {
    let (how, end, left) = match settled.ending() {
        JournalEnding::Applied { .. } => (ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new()),
        JournalEnding::RolledBack { left, .. } => {
            let left: Vec<String> = left.iter().map(|place| place.path.to_string()).collect();
            (ApplyEnd::RolledBack(reasons(&left)), RecoveredEnd::TakenBack, left)
        }
        JournalEnding::NeverBegan => (ApplyEnd::NeverBegan, RecoveredEnd::NeverBegan, Vec::new()),
    };
    let apply = settled.id();
    engine.store.end_apply(apply, how).await?;
    let kind = settled.header().map_or(ApplyKind::Apply, |header| header.kind);
    let plan = settled.header().map(|header| header.plan);
    settled.retire()?;
    Ok(RecoveredApply { apply, plan, kind, end, left, journal: JournalState::Whole })
}

fn open_apply(apply: ApplyId, header: Option<&JournalHeader>, why: UnsettledReason) -> UnsettledApply {
    let roots = header.iter().flat_map(|header| &header.roots);
    UnsettledApply {
        apply,
        plan: header.map(|header| header.plan),
        kind: header.map_or(ApplyKind::Apply, |header| header.kind),
        projects: roots.map(|root| root.path.clone()).collect(),
        since: header.map(|header| WallMs(header.time_ms)),
        why,
    }
}

/// A project that is not there, perhaps on a disk that is not mounted, waits until it is; others continue.
fn why_stuck(stuck: &StuckJournal) -> UnsettledReason {
    let moved = stuck.source.get_ref().and_then(|source| source.downcast_ref::<RootMoved>());
    let is_absent = moved.is_some_and(|moved| match &moved.source {
        None => true,
        Some(error) => {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
    });
    if is_absent { UnsettledReason::ProjectAbsent } else { UnsettledReason::Stuck { why: stuck.to_string() } }
}

fn reasons(left: &[String]) -> Vec<ConstraintReason> {
    let edited = left.iter().map(|path| ConstraintReason {
        kind: "left".to_owned(),
        subject: path.clone(),
        message: "you edited it after the apply was interrupted".to_owned(),
    });
    let reasons: Vec<ConstraintReason> = edited.collect();
    if !reasons.is_empty() {
        return reasons;
    }
    let message = "the apply was interrupted and rolled back".to_owned();
    vec![ConstraintReason { kind: "conflict".to_owned(), subject: String::new(), message }]
}
