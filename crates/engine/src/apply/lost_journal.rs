//! Applies that the store knows as begun and whose journal is not there, or damaged: brought to the end that
//! the files show.
//!
//! The causes: power was lost after the seal was on the disk and before the journal was. Or a user removed
//! the journal. Or a process moved it away and was killed before it updated the store. In the first case
//! nothing was written.
//!
//! # Invariants
//! 1. Only the holder of the locks of the plan's projects ends such an apply: a live process that works on it
//!    has them.
//! 2. Nothing of the user's is touched.
//! 3. While a project is not there, nothing can be determined, and the apply stays open.
//! 4. A damaged journal is moved aside, never removed: it has the bytes of what was written over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use domain::{
    ApplyEnd, ApplyId, ApplyKind, ApplyRecord, ApplyStage, ConstraintReason, NetChange, Plan,
    applies_in_force,
};
use sandbox::content::ContentSource;
use sandbox::journal::{JournalHeader, UndoError};

use super::ApplyRequest;
use super::crash_recovery::{
    CrashRecovery, JournalState, RecoveredApply, RecoveredEnd, RecoveryError, UnsettledApply, UnsettledReason,
};
use super::locks::RootLocks;
use super::merge::{ProjectRoots, UndoneJournal, WantedChange, merge_all};
use super::undo::{AppliedJournals, wanted_back};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::diff::aliases;
use crate::run::plan_sandbox::content::StoreContents;

/// Returns the end of an apply that a person abandoned.
pub(crate) fn set_aside() -> ApplyEnd {
    ApplyEnd::RolledBack(vec![ConstraintReason {
        kind: "set_aside".to_owned(),
        subject: String::new(),
        message: "the apply was interrupted and abandoned: its files are as it left them".to_owned(),
    }])
}

/// Ends the applies whose journal is gone.
pub(crate) async fn settle_missing(
    engine: &Arc<EngineInner>,
    held: &RootLocks,
    recovery: &mut CrashRecovery,
) -> Result<(), RecoveryError> {
    let sealed = engine.store.open_applies().await?;
    if sealed.is_empty() {
        return Ok(());
    }
    // Read after the rows: a journal is there before its row is, and goes after the row was ended.
    let journals: BTreeSet<ApplyId> = engine.journals.open_ids()?.iter().map(|journal| journal.id).collect();
    for apply in sealed.into_iter().filter(|apply| !journals.contains(&apply.id)) {
        // A plan that was never made, or is forgotten, waits for nothing.
        let Some(plan) = engine.store.find_plan(apply.plan).await? else { continue };
        let roots: Vec<PathBuf> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
        let Some(_locks) = RootLocks::try_take(roots.clone(), held) else { continue };
        // The process that had the locks before may have ended it.
        let now = engine.store.apply(apply.id).await?;
        if now.is_none_or(|now| now.stage != ApplyStage::Sealed) {
            continue;
        }
        if roots.iter().any(|root| matches!(root.try_exists(), Ok(false))) {
            recovery.open.push(UnsettledApply {
                apply: apply.id,
                plan: Some(plan.id),
                kind: apply.kind,
                projects: roots,
                since: Some(apply.started),
                why: UnsettledReason::ProjectAbsent,
            });
            continue;
        }
        let (how, end, left) = match retained_journal_end(engine, apply.id)? {
            Some(kept) => kept,
            None => observed_end(
                compare_files(engine, &plan, &apply, LostJournal::Missing).await,
                LostJournal::Missing,
            ),
        };
        if engine.store.end_apply(apply.id, how).await? {
            let (apply, plan, kind) = (apply.id, Some(plan.id), apply.kind);
            let kept = engine.journals.undo_path(apply);
            let journal = if kept.exists() { JournalState::Damaged { kept } } else { JournalState::Missing };
            recovery.ended.push(RecoveredApply { apply, plan, kind, end, left, journal });
        }
    }
    Ok(())
}

/// Ends an apply whose journal is damaged: moves the journal aside, and stores the end that the files show.
/// Otherwise returns the reason why it stays open.
pub(crate) async fn settle_damaged(
    engine: &Arc<EngineInner>,
    held: &RootLocks,
    id: ApplyId,
    header: Option<&JournalHeader>,
    is_locked: bool,
) -> Result<Result<RecoveredApply, UnsettledReason>, RecoveryError> {
    let known = engine.store.apply(id).await?;
    let sealed = known.clone().filter(ApplyRecord::is_open);
    let plan = known.as_ref().map(|apply| apply.plan).or(header.map(|header| header.plan));
    let kind = known.as_ref().map(|apply| apply.kind).or(header.map(|header| header.kind));
    let found = match plan {
        Some(plan) => engine.store.plan(plan).await.ok(),
        None => None,
    };
    let roots: Vec<PathBuf> =
        found.iter().flat_map(|plan| &plan.projects).map(|project| path_of(&project.root)).collect();
    // A header that cannot be read any more does not name them, so that they are not locked yet.
    let to_lock = if is_locked { Vec::new() } else { roots.clone() };
    let Some(_locks) = RootLocks::try_take(to_lock, held) else {
        return Ok(Err(UnsettledReason::ProjectBusy));
    };
    if roots.iter().any(|root| matches!(root.try_exists(), Ok(false))) {
        return Ok(Err(UnsettledReason::ProjectAbsent));
    }
    let (how, end, left) = match (&found, &sealed) {
        (Some(plan), Some(apply)) => {
            observed_end(compare_files(engine, plan, apply, LostJournal::Damaged).await, LostJournal::Damaged)
        }
        // No process waits for its end.
        (_, None) | (None, Some(_)) => (set_aside(), RecoveredEnd::TakenBack, Vec::new()),
    };
    engine.journals.abandon(id)?;
    engine.store.end_apply(id, how).await?;
    let kind = kind.unwrap_or(ApplyKind::Apply);
    let journal = JournalState::Damaged { kept: engine.journals.undo_path(id) };
    Ok(Ok(RecoveredApply { apply: id, plan, kind, end, left, journal }))
}

type JournalResolution = (ApplyEnd, RecoveredEnd, Vec<String>);

/// Returns its end by its journal, if that is among the retained ones.
fn retained_journal_end(
    engine: &EngineInner,
    apply: ApplyId,
) -> Result<Option<JournalResolution>, RecoveryError> {
    if !engine.journals.undo_ids()?.iter().any(|kept| kept.id == apply) {
        return Ok(None);
    }
    Ok(match engine.journals.read_undo(apply) {
        Ok(_) => Some((ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new())),
        // One that has no end was abandoned.
        Err(UndoError::Expired { .. } | UndoError::RolledBack { .. }) => {
            Some((set_aside(), RecoveredEnd::TakenBack, Vec::new()))
        }
        // Only the files can show it.
        Err(UndoError::Damaged { .. } | UndoError::Io { .. }) => None,
    })
}

/// The state of the files.
enum ObservedFiles {
    /// All is as it was asked for.
    All,
    /// Nothing is.
    Nothing,
    /// These are, wholly or in part, others are not.
    Some(Vec<WrittenFile>),
    /// It cannot be determined.
    Unknown(String),
}

/// A file in which an apply may have left something.
struct WrittenFile {
    address: String,
    /// True if it is as the plan has it. Otherwise its state is not known: written in part, or edited since.
    is_whole: bool,
}

/// The fate of the journal that would know which files were written.
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

fn observed_end(seen: ObservedFiles, journal: LostJournal) -> JournalResolution {
    let journal = journal.word();
    match seen {
        ObservedFiles::All => (ApplyEnd::Applied, RecoveredEnd::Finished, Vec::new()),
        ObservedFiles::Nothing => (ApplyEnd::NeverBegan, RecoveredEnd::NeverBegan, Vec::new()),
        ObservedFiles::Some(traces) => {
            let how = |trace: &WrittenFile| match trace.is_whole {
                true => "it is as the plan has it",
                false => "it is neither as it was nor as the plan has it",
            };
            let reasons = traces.iter().map(|trace| ConstraintReason {
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
        ObservedFiles::Unknown(why) => {
            let message = format!(
                "the journal of the apply is {journal}, and the files do not show how it ended: {why}"
            );
            let reason = ConstraintReason { kind: "conflict".to_owned(), subject: String::new(), message };
            (ApplyEnd::RolledBack(vec![reason]), RecoveredEnd::TakenBack, Vec::new())
        }
    }
}

/// Compares the files with what the apply was to make of them.
async fn compare_files(
    engine: &Arc<EngineInner>,
    plan: &Plan,
    apply: &ApplyRecord,
    journal: LostJournal,
) -> ObservedFiles {
    match apply.kind {
        ApplyKind::Apply => {
            let request: Option<ApplyRequest> = serde_json::from_value(apply.selection.clone()).ok();
            let request = request.unwrap_or_default();
            match engine.select_changes(plan, &request).await {
                Err(error) => ObservedFiles::Unknown(error.to_string()),
                Ok(_) if request.branch.is_some() => ObservedFiles::Nothing,
                Ok(chosen) => {
                    match compare(plan, &chosen.wanted, &StoreContents(engine.store.as_ref()), None, journal)
                    {
                        ObservedFiles::All if request.commit.is_some() => {
                            ObservedFiles::Unknown("its commit may or may not have been created".to_owned())
                        }
                        seen @ (ObservedFiles::All
                        | ObservedFiles::Nothing
                        | ObservedFiles::Some(_)
                        | ObservedFiles::Unknown(_)) => seen,
                    }
                }
            }
        }
        ApplyKind::Undo => {
            let applies = match engine.store.applies(plan.id).await {
                Ok(applies) => applies,
                Err(error) => return ObservedFiles::Unknown(error.to_string()),
            };
            let in_force = applies_in_force(&applies);
            if in_force.is_empty() {
                return ObservedFiles::Nothing;
            }
            match AppliedJournals::read(&engine.journals, &in_force) {
                Ok(images) if !images.unclear.is_empty() => ObservedFiles::Unknown(
                    "edits between two applies cannot be told from its changes".to_owned(),
                ),
                Ok(images) => {
                    let wanted = wanted_back(&images, &aliases(plan));
                    compare(plan, &wanted, &images, images.left_by(), journal)
                }
                Err(error) => ObservedFiles::Unknown(error.to_string()),
            }
        }
    }
}

fn compare(
    plan: &Plan,
    wanted: &[WantedChange],
    contents: &dyn ContentSource,
    left_by: Option<UndoneJournal>,
    journal: LostJournal,
) -> ObservedFiles {
    let merged = ProjectRoots::open(plan).and_then(|roots| merge_all(&roots, wanted, contents, left_by));
    let merged = match merged {
        Ok(merged) => merged,
        Err(error) => return ObservedFiles::Unknown(error.to_string()),
    };
    let state = |image: &Option<sandbox::journal::FileImage>| image.as_ref().map(|image| image.state);
    // A file that has the plan's lines next to others is merged into itself.
    let (there, due): (Vec<_>, Vec<_>) =
        merged.changes.iter().partition(|change| state(&change.pre) == state(&change.post));
    if due.is_empty() && merged.conflicts.is_empty() {
        return ObservedFiles::All;
    }
    let mut found = merged.already;
    found.extend(there.iter().map(|change| change.path.to_string()));
    // A directory that only holds what was made says nothing by being there.
    let is_carrier = |file: &String| wanted.iter().any(|wanted| wanted.is_carrier && wanted.address == *file);
    found.retain(|file| !is_carrier(file));
    let mut traces: Vec<WrittenFile> =
        found.into_iter().map(|address| WrittenFile { address, is_whole: true }).collect();
    // None was in conflict when the apply began: since then it was written in part, or edited.
    let mut unclear: BTreeSet<String> =
        merged.conflicts.into_iter().map(|conflict| conflict.address).collect();
    if journal == LostJournal::Damaged {
        let now: BTreeMap<_, _> =
            due.iter().map(|change| ((change.root, &change.path), state(&change.pre))).collect();
        let is_other = |wanted: &&WantedChange| {
            let NetChange { root, path, from, before, .. } = &wanted.change;
            from.is_none() && now.get(&(*root, path)).is_some_and(|now| now != before)
        };
        unclear.extend(wanted.iter().filter(is_other).map(|wanted| wanted.address.clone()));
    }
    traces.extend(unclear.into_iter().map(|address| WrittenFile { address, is_whole: false }));
    if traces.is_empty() { ObservedFiles::Nothing } else { ObservedFiles::Some(traces) }
}
