//! Applies that the store knows as begun and whose journal is not there, or damaged: brought to the end that the files
//! show.
//!
//! How it comes about: power was lost after the seal was on the disk and before the journal was; or somebody removed the
//! journal, or set it aside and was killed before the store was told. In the first case nothing was written.
//!
//! # Invariants
//! 1. Only the holder of the locks of the plan's projects ends such an apply: whoever lives and works on it has them.
//! 2. Nothing of the user's is touched.
//! 3. While a project is not there, nothing can be told, and the apply stays open.
//! 4. A damaged journal is set aside, never removed: it has the bytes of what was written over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use domain::{ApplyEnd, ApplyId, ApplyKind, ApplyRecord, ApplyStage, NetChange, Plan, Reason};
use sandbox::content::ContentSource;
use sandbox::journal::{Header, UndoError};
use store::PlanStoreError;

use super::ApplyRequest;
use super::crash_recovery::{
    FoundJournal, OpenApply, OpenWhy, RecoveredApply, RecoveredEnd, Recovery, RecoveryError,
};
use super::locks::RootLocks;
use super::merge::{LeftBy, Roots, Wanted, merge_all};
use super::undo::{left_by, wanted_back};
use crate::engine::House;
use crate::plan::create::path_of;
use crate::query::diff::aliases;
use crate::run::plan_sandbox::content::Stored;

/// What is told of an apply that was given up by hand.
pub(crate) fn set_aside() -> ApplyEnd {
    ApplyEnd::RolledBack(vec![Reason {
        kind: "set_aside".to_owned(),
        subject: String::new(),
        message: "the apply was broken off and set aside: its files are as it left them".to_owned(),
    }])
}

/// Ends the applies whose journal is gone.
pub(crate) async fn end_missing(
    house: &Arc<House>,
    held: &RootLocks,
    recovery: &mut Recovery,
) -> Result<(), RecoveryError> {
    let sealed = house.store.open_applies().await?;
    if sealed.is_empty() {
        return Ok(());
    }
    // Read after the rows: a journal is there before its row is, and goes after the row was ended.
    let journals: BTreeSet<ApplyId> = house.journals.open_ids()?.iter().map(|journal| journal.id).collect();
    for apply in sealed.into_iter().filter(|apply| !journals.contains(&apply.id)) {
        let plan = match house.store.plan(apply.plan).await {
            Ok(plan) => plan,
            Err(PlanStoreError::Store(error)) => return Err(error.into()),
            // A plan that was never made, or is forgotten, waits for nothing.
            Err(
                PlanStoreError::NotFound { .. }
                | PlanStoreError::Moved { .. }
                | PlanStoreError::Refused(_)
                | PlanStoreError::Job(_)
                | PlanStoreError::QueueFull { .. }
                | PlanStoreError::IdTaken { .. },
            ) => continue,
        };
        let roots: Vec<PathBuf> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
        let Some(_locks) = RootLocks::try_take(roots.clone(), held) else { continue };
        // Whoever had the locks before may have ended it.
        let now = house.store.apply(apply.id).await?;
        if now.is_none_or(|now| now.stage != ApplyStage::Sealed) {
            continue;
        }
        if roots.iter().any(|root| matches!(root.try_exists(), Ok(false))) {
            recovery.open.push(OpenApply {
                apply: apply.id,
                plan: Some(plan.id),
                kind: apply.kind,
                projects: roots,
                since: Some(apply.started),
                why: OpenWhy::ProjectAbsent,
            });
            continue;
        }
        let (how, end, left) = match kept_end(house, apply.id)? {
            Some(kept) => kept,
            None => seen_end(look(house, &plan, &apply, LostJournal::Missing).await, LostJournal::Missing),
        };
        if house.store.end_apply(apply.id, how).await? {
            let (apply, plan, kind) = (apply.id, Some(plan.id), apply.kind);
            let kept = house.journals.undo_path(apply);
            let journal = if kept.exists() { FoundJournal::Damaged { kept } } else { FoundJournal::Missing };
            recovery.ended.push(RecoveredApply { apply, plan, kind, end, left, journal });
        }
    }
    Ok(())
}

/// Ends an apply whose journal is damaged: sets the journal aside, and tells the store what the files show. Or why it
/// stays open.
pub(crate) async fn end_damaged(
    house: &Arc<House>,
    held: &RootLocks,
    id: ApplyId,
    header: Option<&Header>,
    is_locked: bool,
) -> Result<Result<RecoveredApply, OpenWhy>, RecoveryError> {
    let known = house.store.apply(id).await?;
    let sealed = known.clone().filter(ApplyRecord::is_open);
    let plan = known.as_ref().map(|apply| apply.plan).or(header.map(|header| header.plan));
    let kind = known.as_ref().map(|apply| apply.kind).or(header.map(|header| header.kind));
    let found = match plan {
        Some(plan) => house.store.plan(plan).await.ok(),
        None => None,
    };
    let roots: Vec<PathBuf> =
        found.iter().flat_map(|plan| &plan.projects).map(|project| path_of(&project.root)).collect();
    // A header that cannot be read any more does not name them, so that nobody has locked them yet.
    let to_lock = if is_locked { Vec::new() } else { roots.clone() };
    let Some(_locks) = RootLocks::try_take(to_lock, held) else {
        return Ok(Err(OpenWhy::ProjectBusy));
    };
    if roots.iter().any(|root| matches!(root.try_exists(), Ok(false))) {
        return Ok(Err(OpenWhy::ProjectAbsent));
    }
    let (how, end, left) = match (&found, &sealed) {
        (Some(plan), Some(apply)) => {
            seen_end(look(house, plan, apply, LostJournal::Damaged).await, LostJournal::Damaged)
        }
        // Nobody waits for its end.
        (_, None) | (None, Some(_)) => (set_aside(), RecoveredEnd::TakenBack, Vec::new()),
    };
    house.journals.set_aside(id)?;
    house.store.end_apply(id, how).await?;
    let kind = kind.unwrap_or(ApplyKind::Apply);
    let journal = FoundJournal::Damaged { kept: house.journals.undo_path(id) };
    Ok(Ok(RecoveredApply { apply: id, plan, kind, end, left, journal }))
}

type End = (ApplyEnd, RecoveredEnd, Vec<String>);

/// How it ended by its journal, when that lies among the kept ones.
fn kept_end(house: &House, apply: ApplyId) -> Result<Option<End>, RecoveryError> {
    if !house.journals.undo_ids()?.iter().any(|kept| kept.id == apply) {
        return Ok(None);
    }
    Ok(match house.journals.read_undo(apply) {
        Ok(_) => Some((ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new())),
        // One that has no end was set aside.
        Err(UndoError::Expired { .. } | UndoError::RolledBack { .. }) => {
            Some((set_aside(), RecoveredEnd::TakenBack, Vec::new()))
        }
        // Only the files tell.
        Err(UndoError::Damaged { .. } | UndoError::Io { .. }) => None,
    })
}

/// What the files show.
enum Seen {
    /// All is as it was asked for.
    All,
    /// Nothing is.
    Nothing,
    /// These are, wholly or in part, others are not.
    Some(Vec<Trace>),
    /// It cannot be told.
    Unknown(String),
}

/// A file in which an apply may have left something.
struct Trace {
    address: String,
    /// Whether it is as the plan has it. Otherwise it is as nobody can tell: written in part, or edited since.
    is_whole: bool,
}

/// What became of the journal that would know which files were written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LostJournal {
    /// It is not there; mostly nothing was written.
    Missing,
    /// It is damaged; mostly something was.
    Damaged,
}

impl LostJournal {
    const fn word(self) -> &'static str {
        match self {
            LostJournal::Missing => "missing",
            LostJournal::Damaged => "damaged",
        }
    }
}

fn seen_end(seen: Seen, journal: LostJournal) -> End {
    let journal = journal.word();
    match seen {
        Seen::All => (ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new()),
        Seen::Nothing => (ApplyEnd::NeverBegan, RecoveredEnd::NeverBegan, Vec::new()),
        Seen::Some(traces) => {
            let how = |trace: &Trace| match trace.is_whole {
                true => "it is as the plan has it",
                false => "it is neither as it was nor as the plan has it",
            };
            let reasons = traces.iter().map(|trace| Reason {
                kind: "left".to_owned(),
                subject: trace.address.clone(),
                message: format!("{}, and the journal of the apply is {journal}", how(trace)),
            });
            let left = traces.iter().map(|trace| match trace.is_whole {
                true => trace.address.clone(),
                false => format!("{} (in part, or edited since)", trace.address),
            });
            (ApplyEnd::RolledBack(reasons.collect()), RecoveredEnd::TakenBack, left.collect())
        }
        Seen::Unknown(why) => {
            let message = format!("the journal of the apply is {journal}, and the files do not tell: {why}");
            let reason = Reason { kind: "conflict".to_owned(), subject: String::new(), message };
            (ApplyEnd::RolledBack(vec![reason]), RecoveredEnd::TakenBack, Vec::new())
        }
    }
}

/// Compares the files with what the apply was to make of them.
async fn look(house: &Arc<House>, plan: &Plan, apply: &ApplyRecord, journal: LostJournal) -> Seen {
    match apply.kind {
        ApplyKind::Apply => {
            let request: Option<ApplyRequest> = serde_json::from_value(apply.selection.clone()).ok();
            let request = request.unwrap_or_default();
            match house.chosen(plan, &request).await {
                Err(error) => Seen::Unknown(error.to_string()),
                Ok(_) if request.branch.is_some() => Seen::Nothing,
                Ok(chosen) => {
                    match compare(plan, &chosen.wanted, &Stored(house.store.as_ref()), None, journal) {
                        Seen::All if request.commit.is_some() => {
                            Seen::Unknown("see with `git log` whether its commit was made".to_owned())
                        }
                        seen @ (Seen::All | Seen::Nothing | Seen::Some(_) | Seen::Unknown(_)) => seen,
                    }
                }
            }
        }
        ApplyKind::Undo => {
            let applies = match house.store.applies(plan.id).await {
                Ok(applies) => applies,
                Err(error) => return Seen::Unknown(error.to_string()),
            };
            let is_standing =
                |apply: &&ApplyRecord| apply.kind == ApplyKind::Apply && apply.stage == ApplyStage::Applied;
            let Some(standing) = applies.iter().rev().find(is_standing) else { return Seen::Nothing };
            match house.journals.read_undo(standing.id) {
                Ok(images) => {
                    let wanted = wanted_back(&images, &aliases(plan));
                    compare(plan, &wanted, &images, left_by(&images), journal)
                }
                Err(error) => Seen::Unknown(error.to_string()),
            }
        }
    }
}

fn compare(
    plan: &Plan,
    wanted: &[Wanted],
    contents: &dyn ContentSource,
    left_by: Option<LeftBy>,
    journal: LostJournal,
) -> Seen {
    let merged = Roots::open(plan).and_then(|roots| merge_all(&roots, wanted, contents, left_by));
    let merged = match merged {
        Ok(merged) => merged,
        Err(error) => return Seen::Unknown(error.to_string()),
    };
    let state = |image: &Option<sandbox::journal::Image>| image.as_ref().map(|image| image.state);
    // A file that has the plan's lines beside others is merged into itself.
    let (there, due): (Vec<_>, Vec<_>) =
        merged.changes.iter().partition(|change| state(&change.pre) == state(&change.post));
    if due.is_empty() && merged.conflicts.is_empty() {
        return Seen::All;
    }
    let mut found = merged.already;
    found.extend(there.iter().map(|change| change.path.to_string()));
    // A directory that only holds what was made says nothing by being there.
    let is_carrier = |file: &String| wanted.iter().any(|wanted| wanted.is_carrier && wanted.address == *file);
    found.retain(|file| !is_carrier(file));
    let mut traces: Vec<Trace> = found.into_iter().map(|address| Trace { address, is_whole: true }).collect();
    // None was in conflict when the apply began: since then it was written in part, or edited.
    let mut unclear: BTreeSet<String> =
        merged.conflicts.into_iter().map(|conflict| conflict.address).collect();
    if journal == LostJournal::Damaged {
        let now: BTreeMap<_, _> =
            due.iter().map(|change| ((change.root, &change.path), state(&change.pre))).collect();
        let is_other = |wanted: &&Wanted| {
            let NetChange { root, path, from, before, .. } = &wanted.change;
            from.is_none() && now.get(&(*root, path)).is_some_and(|now| now != before)
        };
        unclear.extend(wanted.iter().filter(is_other).map(|wanted| wanted.address.clone()));
    }
    traces.extend(unclear.into_iter().map(|address| Trace { address, is_whole: false }));
    if traces.is_empty() { Seen::Nothing } else { Seen::Some(traces) }
}
