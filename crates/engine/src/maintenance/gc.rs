//! Removes (`gc`) data that is no longer needed, and the leftovers of a crash.
//!
//! # Invariants
//! 1. A plan that is not final is never touched, nor a journal that is open.
//! 2. A sandbox that is retained for changes which could not be captured is removed only when its plan is
//!    final or unknown.
//! 3. Contents are removed only when no entry and no call names them. A journal has or links all contents
//!    that it needs, so a collection takes nothing from an undo.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use domain::{PlanId, WallMs};
use store::{FinishedPlans, ReclaimedSpace, StoreError};

use super::retained_sandboxes;
use crate::engine::Engine;

/// The number of plans that one write forgets: others write in between.
const FORGOTTEN_AT_ONCE: usize = 200;

/// The choice of the data to clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcRequest {
    /// Only report what would be cleared.
    pub dry_run: bool,
    /// Plans that ended longer ago than this, and their undo journals.
    pub older: Duration,
    /// Then the oldest undo journals above so many bytes in all.
    pub max_bytes: u64,
}

/// The data that was cleared, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Sandboxes without an owner.
    pub sandboxes: u64,
    /// The files that could not be removed, each with the reason.
    pub stuck: Vec<String>,
    /// Plans forgotten.
    pub plans: Vec<PlanId>,
    /// Undo journals removed.
    pub undo_journals: u64,
    /// Their bytes.
    pub undo_bytes: u64,
    /// Contents without a reference.
    pub contents: u64,
    /// Their bytes.
    pub content_bytes: u64,
    /// The space that the store's own file returned to the disk.
    pub given_back: ReclaimedSpace,
}

/// Why something could not be cleared.
#[derive(Debug, thiserror::Error)]
pub enum GcError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data directory cannot be read or cleared.
    #[error("the data directory cannot be cleared: {0}")]
    Io(#[from] std::io::Error),
}

impl Engine {
    /// Clears data that is not needed any more.
    ///
    /// # Errors
    /// The store or the data directory failed; what was cleared before stays cleared.
    pub async fn gc(&self, request: GcRequest) -> Result<GcReport, GcError> {
        let engine = &self.inner;
        let mut report = GcReport::default();
        let swept = if request.dry_run {
            sandbox::survey(&engine.options.sandbox_dir)
        } else {
            sandbox::sweep(&engine.options.sandbox_dir)
        };
        report.sandboxes = swept.removed.len() as u64;
        report.stuck = swept.left.iter().map(|(path, why)| format!("{}: {why}", path.display())).collect();
        self.clear_kept(&swept.kept, request, &mut report).await?;
        let older = u64::try_from(request.older.as_millis()).unwrap_or(u64::MAX);
        let before = WallMs(engine.wall().0.saturating_sub(older));
        let FinishedPlans { plans, applies } = engine.store.ended_plans(before).await?;
        let applies = applies.iter().map(|apply| apply.as_u128()).collect();
        self.forget_undo(&applies, request, &mut report)?;
        report.undo_bytes += engine.journals.sweep_contents(request.dry_run)?;
        if request.dry_run {
            report.plans = plans;
        } else {
            for batch in plans.chunks(FORGOTTEN_AT_ONCE) {
                report.plans.extend(engine.store.forget(batch.to_vec()).await?);
            }
        }
        let collected = match request.dry_run {
            true => engine.store.collectable(&report.plans)?,
            false => engine.store.collect(false)?,
        };
        (report.contents, report.content_bytes) = (collected.contents, collected.bytes);
        if !request.dry_run {
            report.given_back = engine.store.give_back()?;
        }
        Ok(report)
    }

    /// Clears retained sandboxes whose changes will not be captured any more.
    async fn clear_kept(
        &self,
        kept: &[PathBuf],
        request: GcRequest,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        for kept in retained_sandboxes::known(&self.inner, kept).await?.iter().filter(|kept| kept.is_over) {
            match if request.dry_run { Ok(()) } else { sandbox::discard(&kept.dir) } {
                Ok(()) => report.sandboxes += 1,
                Err(why) => report.stuck.push(format!("{}: {why}", kept.dir.display())),
            }
        }
        Ok(())
    }

    fn forget_undo(
        &self,
        applies: &BTreeSet<u128>,
        request: GcRequest,
        report: &mut GcReport,
    ) -> Result<(), GcError> {
        let mut bytes = 0_u64;
        // Newest first: what does not fit any more is the oldest.
        for journal in self.inner.journals.undo_ids()?.into_iter().rev() {
            bytes = bytes.saturating_add(journal.bytes);
            let is_old = applies.contains(&journal.id.as_u128());
            if !is_old && bytes <= request.max_bytes {
                continue;
            }
            if !request.dry_run {
                self.inner.journals.forget_undo(journal.id)?;
            }
            report.undo_journals += 1;
            report.undo_bytes += journal.bytes;
        }
        Ok(())
    }
}
