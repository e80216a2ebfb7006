//! Recovery: the first act of every engine. Applies that were broken off are finished or taken back, and the store is
//! told what became of them.
//!
//! # Invariants
//! 1. A journal is carried on only under the locks of its projects' roots, taken without waiting: while somebody who
//!    lives works on one of them, it is left to the next command.
//! 2. What is left open is named, with the reason.
//!
//! # Not here
//! Applies whose journal is gone or damaged: `missing`.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{ApplyEnd, ApplyId, ApplyKind, Merge, PlanId, Reason, WallMs, merge};
use sandbox::journal::{Ending, Header, JournalRoot, Merger, Recovered, RootMoved, Seal, Settled, Stuck};
use store::StoreError;

use super::locks::RootLocks;
use super::lost_journal;
use crate::engine::House;

/// Why an apply that was broken off is still there.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// It can be neither finished nor taken back now.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The journals cannot be read.
    #[error("the journals cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The store could not be told.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What became of an apply that was broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveredEnd {
    /// It was carried through.
    Finished,
    /// It was taken back, but for what is left.
    TakenBack,
    /// It had not begun to write.
    NeverBegan,
}

/// An apply that was broken off, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredApply {
    /// Its name.
    pub apply: ApplyId,
    /// The plan; none when the journal was cut off before it said so.
    pub plan: Option<PlanId>,
    /// Apply or undo.
    pub kind: ApplyKind,
    /// What became of it.
    pub end: RecoveredEnd,
    /// Files that were left as they are, because somebody edited them since, or because nothing tells how they were.
    pub left: Vec<String>,
    /// What its journal was found to be.
    pub journal: FoundJournal,
}

/// What the journal of an apply that was broken off was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundJournal {
    /// Whole: it says what was to be done.
    Whole,
    /// Gone, so that only the files could tell.
    Missing,
    /// Damaged, so that only the files could tell. Nothing of it was removed.
    Damaged {
        /// Where it is kept now.
        kept: PathBuf,
    },
}

/// Why an apply is still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenWhy {
    /// The process that works on it lives.
    ProcessLives,
    /// Somebody works on one of its projects.
    ProjectBusy,
    /// A project of it is not there, or another directory lies in its place.
    ProjectAbsent,
    /// It can be neither finished nor taken back.
    Stuck {
        /// What the system said.
        why: String,
    },
}

impl OpenWhy {
    /// Whether a person may give it up: nobody who lives works on it.
    pub const fn may_be_set_aside(&self) -> bool {
        match self {
            OpenWhy::ProcessLives | OpenWhy::ProjectBusy => false,
            OpenWhy::ProjectAbsent | OpenWhy::Stuck { .. } => true,
        }
    }
}

/// An apply that was begun and has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenApply {
    /// Its name.
    pub apply: ApplyId,
    /// The plan; none when the journal does not say.
    pub plan: Option<PlanId>,
    /// Apply or undo.
    pub kind: ApplyKind,
    /// Where it writes.
    pub projects: Vec<PathBuf>,
    /// When it was begun.
    pub since: Option<WallMs>,
    /// Why it is still open.
    pub why: OpenWhy,
}

/// Merges by lines, as an apply does.
pub(crate) struct Lines;

impl Merger for Lines {
    fn merge(&self, base: &[u8], now: &[u8], plan: &[u8]) -> Option<Vec<u8>> {
        match merge(base, now, plan) {
            Merge::Same => Some(now.to_vec()),
            Merge::Merged(bytes) => Some(bytes),
            Merge::Conflict(_) => None,
        }
    }
}

/// What a recovery did.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// What came to its end now.
    pub(crate) ended: Vec<RecoveredApply>,
    /// What did not.
    pub(crate) open: Vec<OpenApply>,
    /// Of that, what no other command gets past.
    pub(crate) stuck: Option<Stuck>,
    /// An open one that writes to a project whose lock the caller has.
    pub(crate) in_the_way: Option<OpenApply>,
    /// What lay among the journals and is none, at its new place.
    pub(crate) set_aside: Vec<PathBuf>,
}

/// Finishes or takes back every apply that was broken off. One that is stuck does not keep the others from it. `held` are
/// locks of roots that the caller has.
pub(crate) async fn recover(house: &Arc<House>, held: &RootLocks) -> Result<Recovery, RecoveryError> {
    let mut recovery = Recovery::default();
    let found = house.journals.look()?;
    recovery.set_aside = found.set_aside;
    for listed in found.open {
        // What cannot be read is told by whoever tries to settle it.
        let header = house.journals.header(listed.id).ok().flatten();
        let roots: &[JournalRoot] = header.as_ref().map_or(&[], |header| &header.roots);
        let paths = roots.iter().map(|root| root.path.clone());
        let why = match RootLocks::try_take(paths, held) {
            None => OpenWhy::ProjectBusy,
            // The locks of the roots are held until the journal is put away.
            Some(_locks) => match house.journals.recover_one(listed.id, seal_of(house, listed.id).await?) {
                Recovered::Settled(settled) => {
                    recovery.ended.push(tell(house, settled).await?);
                    continue;
                }
                Recovered::Gone => continue,
                Recovered::Damaged { header: said } => {
                    match lost_journal::end_damaged(house, held, listed.id, said.as_ref(), !roots.is_empty())
                        .await?
                    {
                        Ok(ended) => {
                            recovery.ended.push(ended);
                            continue;
                        }
                        Err(why) => why,
                    }
                }
                Recovered::Busy => OpenWhy::ProcessLives,
                Recovered::Stuck(stuck) => {
                    let why = why_stuck(&stuck);
                    if why != OpenWhy::ProjectAbsent {
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
    lost_journal::end_missing(house, held, &mut recovery).await?;
    Ok(recovery)
}

/// Whether the store has sealed this apply.
async fn seal_of(house: &House, apply: ApplyId) -> Result<Seal, StoreError> {
    let known = house.store.apply(apply).await?;
    Ok(if known.is_some_and(|apply| apply.is_open()) { Seal::Sealed } else { Seal::Open })
}

/// Tells the store how a journal ended, and puts it away.
async fn tell(house: &House, settled: Settled) -> Result<RecoveredApply, RecoveryError> {
    let (how, end, left) = match settled.ending() {
        Ending::Applied { .. } => (ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new()),
        Ending::RolledBack { left, .. } => {
            let left: Vec<String> = left.iter().map(|place| place.path.to_string()).collect();
            (ApplyEnd::RolledBack(reasons(&left)), RecoveredEnd::TakenBack, left)
        }
        Ending::NeverBegan => (ApplyEnd::NeverBegan, RecoveredEnd::NeverBegan, Vec::new()),
    };
    let apply = settled.id();
    house.store.end_apply(apply, how).await?;
    let kind = settled.header().map_or(ApplyKind::Apply, |header| header.kind);
    let plan = settled.header().map(|header| header.plan);
    settled.retire()?;
    Ok(RecoveredApply { apply, plan, kind, end, left, journal: FoundJournal::Whole })
}

fn open_apply(apply: ApplyId, header: Option<&Header>, why: OpenWhy) -> OpenApply {
    let roots = header.iter().flat_map(|header| &header.roots);
    OpenApply {
        apply,
        plan: header.map(|header| header.plan),
        kind: header.map_or(ApplyKind::Apply, |header| header.kind),
        projects: roots.map(|root| root.path.clone()).collect(),
        since: header.map(|header| WallMs(header.time_ms)),
        why,
    }
}

/// A project that is not there, perhaps on a disk that is not mounted, waits until it is; others go on.
fn why_stuck(stuck: &Stuck) -> OpenWhy {
    let moved = stuck.source.get_ref().and_then(|source| source.downcast_ref::<RootMoved>());
    let is_absent = moved.is_some_and(|moved| match &moved.source {
        None => true,
        Some(error) => {
            matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
    });
    if is_absent { OpenWhy::ProjectAbsent } else { OpenWhy::Stuck { why: stuck.to_string() } }
}

fn reasons(left: &[String]) -> Vec<Reason> {
    let edited = left.iter().map(|path| Reason {
        kind: "left".to_owned(),
        subject: path.clone(),
        message: "you edited it after the apply was broken off".to_owned(),
    });
    let reasons: Vec<Reason> = edited.collect();
    if !reasons.is_empty() {
        return reasons;
    }
    let message = "the apply was broken off and taken back".to_owned();
    vec![Reason { kind: "conflict".to_owned(), subject: String::new(), message }]
}
