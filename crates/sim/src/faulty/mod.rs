//! The store as one process sees it: the real rules in memory, with everything that can happen around a step.
//!
//! # How a step goes
//! 1. Before it: the process may die or pause, the power may be lost; the store may be busy, full or broken.
//! 2. The step itself, of [`MemoryStore`](store::MemoryStore): whole, and seen by the observer in the same
//!    moment.
//! 3. After it: again all of 1; or its answer is lost, so that the process does not know.
//!
//! # Where to look
//! Here is what happens around steps; `jobs`, `plans`, `work`, `nodes`, `contexts`, `ledger`, `applies` and
//! `consents` have the ports.
//!
//! # Invariants
//! 1. A process that is dead takes no further step: its call never returns.
//! 2. Between the end of 1 and the observer nothing else runs.

mod applies;
mod consents;
mod contexts;
mod jobs;
mod ledger;
mod nodes;
mod plans;
mod work;

use std::sync::Arc;
use std::time::Duration;

use domain::{Claim, PlanId};
use store::{MemoryStore, StoreError};
use sync::primitives::atomic::{AtomicBool, Ordering};

use crate::broken_programs::BrokenProgram;
use crate::executor::{TaskGroup, yield_now};
use crate::fault::Fault;
use crate::promise_watch::StepDurability;
use crate::world::SimWorld;

/// The user of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreUser {
    /// A worker's process, which may die.
    Worker(TaskGroup),
    /// A person's command: when the power is lost, it fails.
    Person,
}

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    /// A write that survives its process.
    Write,
    /// A write that survives a loss of power.
    Synced,
    /// A write that the store answers also when it has no space: it needs none.
    Beat,
}

/// The store of one process.
pub(crate) struct FaultyStore {
    world: Arc<SimWorld>,
    who: StoreUser,
    is_broken: AtomicBool,
}

impl FaultyStore {
    pub(crate) fn new(world: &Arc<SimWorld>, who: StoreUser) -> Arc<Self> {
        Arc::new(Self { world: Arc::clone(world), who, is_broken: AtomicBool::new(false) })
    }

    /// Returns whether the process has to end, since its store is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn inner(&self) -> &MemoryStore {
        &self.world.memory
    }

    /// Lets faults strike between two writes to the disk.
    pub(crate) async fn between_writes(&self) {
        self.disaster().await;
        self.here().await;
    }

    /// Runs before each step: faults may strike here.
    async fn before(&self, name: &'static str, kind: Kind) -> Result<(), StoreError> {
        let boots = self.world.boots();
        self.here().await;
        self.world.pass_a_moment().await;
        self.here().await;
        self.disaster().await;
        if self.world.boots() != boots {
            return Err(StoreError::Busy);
        }
        self.world.note(name, [0, 0]);
        self.refusal(kind)
    }

    /// Returns the error with which the store answers instead of taking the step.
    fn refusal(&self, kind: Kind) -> Result<(), StoreError> {
        let (world, rate) = (&self.world, self.world.scenario.fault_rate);
        let broken = || Err(StoreError::Broken { why: "the disk does not answer".to_owned() });
        if self.is_broken() {
            return broken();
        }
        if world.strikes(Fault::StoreBusy, rate * 2) {
            return Err(StoreError::Busy);
        }
        match kind {
            Kind::Read | Kind::Beat => Ok(()),
            Kind::Write | Kind::Synced if world.machine().is_full => Err(StoreError::Full),
            Kind::Write | Kind::Synced => {
                let is_worker = self.who != StoreUser::Person;
                if is_worker && world.strikes(Fault::ErrorBeforeCommit, rate / 2) {
                    self.is_broken.store(true, Ordering::Relaxed);
                    return broken();
                }
                Ok(())
            }
        }
    }

    /// A step is done that wrote to `plan`, or to any; what comes after it.
    async fn after(&self, name: &'static str, kind: Kind, plan: Option<PlanId>) -> Result<(), StoreError> {
        let (world, boots) = (&self.world, self.world.boots());
        let durability = match kind {
            Kind::Read => None,
            Kind::Write | Kind::Beat => Some(StepDurability::Process),
            Kind::Synced => Some(StepDurability::Power),
        };
        if let Some(durability) = durability {
            let is_unsynced = match name {
                "close" | "finish" => world.is_broken(BrokenProgram::UnsyncedClose),
                "end" => world.is_broken(BrokenProgram::UnsyncedEnd),
                _ => false,
            };
            world.note("  committed", [plan.map_or(0, |plan| plan.as_u128() as u64), 0]);
            world.observe_commit(
                plan,
                durability,
                if is_unsynced { StepDurability::Process } else { durability },
            );
        }
        self.disaster().await;
        world.pass_a_moment().await;
        self.here().await;
        let answer_is_lost =
            kind != Kind::Read && world.strikes(Fault::ErrorAfterCommit, world.scenario.fault_rate);
        if answer_is_lost || world.boots() != boots {
            return Err(StoreError::Busy);
        }
        Ok(())
    }

    /// Lets faults strike the process, or the machine, between two steps.
    async fn disaster(&self) {
        let (world, rate) = (&self.world, self.world.scenario.fault_rate);
        if world.strikes(Fault::PowerLoss, rate / 5) {
            world.lose_power();
        }
        let StoreUser::Worker(group) = self.who else { return };
        self.here().await;
        if world.strikes(Fault::WorkerKilled, rate / 2) {
            world.kill_worker(group);
        }
        self.here().await;
        if world.strikes(Fault::Pause, rate / 2) {
            let lease = u64::try_from(world.scenario.lease.as_millis()).unwrap_or(u64::MAX);
            let time = Duration::from_millis(world.random().between(1, 3 * lease));
            world.pause_worker(group, time);
            yield_now().await;
        }
    }

    /// Continues only if the process is alive.
    async fn here(&self) {
        if let StoreUser::Worker(group) = self.who {
            self.world.alive(group).await;
        }
    }

    /// The claim that is shown to the store.
    fn presented_claim(&self, claim: &Claim) -> Claim {
        if !self.world.is_broken(BrokenProgram::UnfencedWrite) {
            return *claim;
        }
        let now = self.inner().look(claim.plan, |record| record?.job(claim.job).map(|job| job.fence));
        Claim { fence: now.unwrap_or(claim.fence), ..*claim }
    }

    /// An owner's write was answered.
    fn owner_wrote<T, E>(&self, claim: &Claim, name: &'static str, answer: &Result<T, E>, lost: bool) {
        if answer.is_ok() {
            let now = self.inner().look(claim.plan, |record| record?.job(claim.job).map(|job| job.fence));
            self.world.watch.observe_owner_write(claim, now, name);
        } else if lost {
            self.world.watch.observe_refusal();
        }
    }
}

fn is_lost(error: &StoreError) -> bool {
    matches!(error, StoreError::LeaseLost(_))
}
