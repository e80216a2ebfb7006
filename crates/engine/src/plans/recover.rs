//! Recovery: the first act of every engine. Applies that were broken off are finished or taken back, and the store is
//! told what became of them.

use domain::{ApplyEnd, ApplyId, ApplyKind, Merge, PlanId, Reason, merge};
use sandbox::journal::{Ending, Journals, Merger, Stuck};
use store::{Store, StoreError};

use super::use_plan::path_of;

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

/// An apply that was broken off, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredApply {
    /// Its name.
    pub apply: ApplyId,
    /// The plan; none when the journal was cut off before it said so.
    pub plan: Option<PlanId>,
    /// Apply or undo.
    pub kind: ApplyKind,
    /// Whether it was carried through; else it was taken back, or had not begun.
    pub finished: bool,
    /// Files that were left as they are because somebody edited them since.
    pub left: Vec<String>,
}

/// Merges by lines, as an apply does.
pub(super) struct Lines;

impl Merger for Lines {
    fn merge(&self, base: &[u8], now: &[u8], plan: &[u8]) -> Option<Vec<u8>> {
        match merge(base, now, plan) {
            Merge::Same => Some(now.to_vec()),
            Merge::Merged(bytes) => Some(bytes),
            Merge::Conflict(_) => None,
        }
    }
}

/// Finishes or takes back every apply that was broken off. One that is stuck does not keep the others from it.
pub(super) async fn recover(
    journals: &Journals,
    store: &dyn Store,
) -> Result<Vec<RecoveredApply>, RecoveryError> {
    let recovery = journals.recover()?;
    let mut told = Vec::new();
    for settled in recovery.settled {
        let (end, finished, left) = match settled.ending() {
            Ending::Applied { .. } => (ApplyEnd::Applied, true, Vec::new()),
            Ending::RolledBack { left, .. } => {
                let left: Vec<String> = left.iter().map(|place| place.path.to_string()).collect();
                (ApplyEnd::RolledBack(reasons(&left)), false, left)
            }
            Ending::NeverBegan => (ApplyEnd::NeverBegan, false, Vec::new()),
        };
        let apply = settled.id();
        store.end_apply(apply, end).await?;
        let kind = settled.header().map_or(ApplyKind::Apply, |header| header.kind);
        told.push(RecoveredApply {
            apply,
            plan: settled.header().map(|header| header.plan),
            kind,
            finished,
            left,
        });
        settled.retire()?;
    }
    for stuck in recovery.stuck {
        // A project that is not there, perhaps on a disk that is not mounted, waits until it is; others go on.
        if !is_project_absent(store, &stuck).await {
            return Err(stuck.into());
        }
    }
    Ok(told)
}

async fn is_project_absent(store: &dyn Store, stuck: &Stuck) -> bool {
    let Some(plan) = stuck.plan else { return false };
    let Ok(plan) = store.plan(plan).await else { return false };
    plan.projects.iter().any(|project| matches!(path_of(&project.root).try_exists(), Ok(false)))
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
