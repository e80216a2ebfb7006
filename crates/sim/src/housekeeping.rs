//! Housekeeping of each worker, at its start and periodically: releases what dead processes held and finishes
//! their work.
//!
//! # Invariants
//! 1. Only what belongs to a process that is gone, or to a job that has another owner or none, is swept.
//! 2. The process that has the lock of the project's root settles a journal, and puts it away after the store
//!    has recorded it.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{
    ApplyEnd, ApplyId, ApplyStage, Claim, ConstraintReason, Job, JobId, JobState, PlanId, WorkerId,
};
use store::{ApplyStore, JobStore, JobStoreError, StoreError};

use crate::broken_programs::BrokenProgram;
use crate::executor::{TaskGroup, yield_now};
use crate::faulty::FaultyStore;
use crate::machine::JournalEnd;
use crate::runner::SimRootLock;
use crate::world::SimWorld;

/// Does all of it, once. A step that the store refuses now is done the next time.
pub(crate) async fn keep_house(world: &Arc<SimWorld>, group: TaskGroup, store: &FaultyStore) {
    let _ = bury_the_dead(world, store).await;
    let _ = sweep(world, group, store).await;
    if let Some(root) = SimRootLock::try_take(world, group) {
        let _ = recover(world, group, store, &root).await;
    }
}

/// Ends the leases of workers that are gone.
async fn bury_the_dead(world: &SimWorld, store: &FaultyStore) -> Result<(), JobStoreError> {
    let dead: Vec<WorkerId> = {
        let machine = world.machine();
        let gone = machine.presence.iter().filter(|(_, group)| !world.executor.is_alive(**group));
        gone.map(|(worker, _)| *worker).collect()
    };
    for worker in dead {
        store.free_leases(worker).await?;
        world.machine().presence.remove(&worker);
    }
    Ok(())
}

/// Removes the sandboxes and kills the processes of the dead, and of jobs that are not theirs any more.
pub(crate) async fn sweep(
    world: &Arc<SimWorld>,
    group: TaskGroup,
    store: &FaultyStore,
) -> Result<(), JobStoreError> {
    let jobs: BTreeMap<JobId, Job> = store.jobs(None).await?.into_iter().map(|job| (job.id, job)).collect();
    world.alive(group).await;
    sweep_by(world, &jobs);
    Ok(())
}

fn sweep_by(world: &Arc<SimWorld>, jobs: &BTreeMap<JobId, Job>) {
    let is_over = |claim: &Claim, owner: TaskGroup| {
        let is_another =
            jobs.get(&claim.job).is_some_and(|job| job.state.is_final() || job.fence > claim.fence);
        is_another || !world.executor.is_alive(owner)
    };
    world.kill_processes(|process| is_over(&process.claim, process.owner));
    if !world.is_broken(BrokenProgram::LeakedSandbox) {
        world.machine().sandboxes.retain(|_, sandbox| !is_over(&sandbox.claim, sandbox.owner));
    }
}

/// Before a plan without a live job is cancelled: nothing of it may live.
pub(crate) async fn sweep_plan(
    world: &Arc<SimWorld>,
    plan: PlanId,
    store: &FaultyStore,
) -> Result<(), JobStoreError> {
    let jobs: BTreeMap<JobId, Job> =
        store.jobs(Some(plan)).await?.into_iter().map(|job| (job.id, job)).collect();
    sweep_by(world, &jobs);
    let last = jobs.values().filter(|job| job.state != JobState::Running).map(|job| (job.id, job.fence));
    for (job, fence) in last.collect::<Vec<_>>() {
        world.tree_is_dead(job, fence).await;
    }
    Ok(())
}

/// Brings every interrupted apply to its end. The caller has the lock of the project's root.
pub(crate) async fn recover(
    world: &Arc<SimWorld>,
    group: TaskGroup,
    store: &FaultyStore,
    _root: &SimRootLock,
) -> Result<(), StoreError> {
    let boots = world.boots();
    let open: Vec<ApplyId> = world.machine().journals.keys().copied().collect();
    for id in open {
        yield_now().await;
        world.alive(group).await;
        // The lock went with the power.
        if world.boots() != boots {
            return Err(StoreError::Busy);
        }
        let Some(end) = settle(world, id) else { continue };
        store.end_apply(id, apply_end(&end)).await?;
        world.machine().retire(id, end);
    }
    // Sealed, and without a journal: the answer to the seal was lost, so that nothing was written.
    for apply in store.open_applies().await? {
        if world.machine().journals.contains_key(&apply.id) {
            continue;
        }
        let now = store.apply(apply.id).await?;
        if now.is_some_and(|now| now.stage == ApplyStage::Sealed) {
            let end = world.machine().ended.get(&apply.id).map(|(_, end)| apply_end(end));
            store.end_apply(apply.id, end.unwrap_or(ApplyEnd::NeverBegan)).await?;
        }
    }
    Ok(())
}

fn settle(world: &SimWorld, id: ApplyId) -> Option<JournalEnd> {
    let mut machine = world.machine();
    let journal = machine.journals.get(&id)?;
    let (plan, is_committed, files) = (journal.plan, journal.is_committed, journal.files());
    if is_committed && world.is_broken(BrokenProgram::TornApply) {
        return Some(JournalEnd::Applied { files });
    }
    let end = machine.settle(id);
    drop(machine);
    if is_committed {
        world.watch.observe_effect(plan, "an apply that was finished");
    }
    end
}

fn apply_end(end: &JournalEnd) -> ApplyEnd {
    match end {
        JournalEnd::Applied { .. } => ApplyEnd::Applied,
        JournalEnd::TakenBack { .. } => ApplyEnd::RolledBack(vec![ConstraintReason {
            kind: "conflict".to_owned(),
            subject: String::new(),
            message: "the apply was interrupted and rolled back".to_owned(),
        }]),
        JournalEnd::NeverBegan { .. } => ApplyEnd::NeverBegan,
    }
}
