//! The world of the lease protocol: one apply job, two workers, a clock and a canceller, and all they can do.
//!
//! A worker *looks* at the store and *acts* on what it saw at any later moment; it keeps its claim through
//! any pause; it may die. In between, everybody else may do anything. A state is all that [`Job::next`] and
//! [`pick`] read, with the lease as the time that is left, so the clock needs no bound; only the fence has
//! one, [`FENCE_MAX`].

use std::time::Duration;

use domain::*;

use crate::sample::{ANN, BOB, BOOT, new_job};

const LEASE: Duration = Duration::from_millis(2);

/// Enough for four deaths in a row and a release before.
const FENCE_MAX: Fence = Fence(6);

pub(crate) const WORKERS: [WorkerId; 2] = [ANN, BOB];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    Ours,
    /// Writes are accepted from whoever believes to own the job.
    WithoutFence,
    /// A worker that saw a dead lease takes the job over without testing the lease again.
    LeaseTestedOutsideTheWrite,
    /// Success does not look at `cancel`.
    SucceedAfterCancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Tick,
    Cancel,
    FindLockFree(usize),
    Die(usize),
    Look(usize),
    TakeJob(usize),
    Write(usize),
    Owner(usize, OwnerAct),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerAct {
    Heartbeat,
    Release,
    Seal,
    Succeed,
    Fail,
    AcknowledgeCancel,
    SettleNode,
}

const OWNER_ACTS: [OwnerAct; 7] = [
    OwnerAct::Heartbeat,
    OwnerAct::Release,
    OwnerAct::Seal,
    OwnerAct::Succeed,
    OwnerAct::Fail,
    OwnerAct::AcknowledgeCancel,
    OwnerAct::SettleNode,
];

#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) alive: bool,
    pub(crate) claim: Option<Claim>,
    /// The event it chose when it looked.
    saw: Option<JobEvent>,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: Ms,
    pub(crate) job: Job,
    pub(crate) workers: [Worker; 2],
}

/// The values that distinguish two worlds.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Key {
    job: JobKey,
    workers: [(bool, Option<Fence>, Option<bool>); 2],
}

#[derive(PartialEq, Eq, Hash)]
pub(crate) struct JobKey {
    state: JobState,
    fence: Fence,
    worker: Option<WorkerId>,
    lease_left: u64,
    lost_leases: u8,
    cancel: bool,
    sealed: bool,
}

impl JobKey {
    fn of(job: &Job, now: Ms) -> JobKey {
        JobKey {
            state: job.state,
            fence: job.fence,
            worker: job.worker,
            lease_left: job.lease_until.0.saturating_sub(now.0),
            lost_leases: job.lost_leases,
            cancel: job.cancel.is_some(),
            sealed: job.sealed_at.is_some(),
        }
    }
}

impl World {
    pub(crate) fn new() -> World {
        let worker = Worker { alive: true, claim: None, saw: None };
        let now = Ms(1);
        World { now, job: Job::new(new_job(Phase::Apply), now), workers: [worker.clone(), worker] }
    }

    pub(crate) fn key(&self) -> Key {
        let worker = |worker: &Worker| {
            let takes_over = worker.saw.as_ref().map(|event| matches!(event, JobEvent::TakeOver { .. }));
            (worker.alive, worker.claim.map(|claim| claim.fence), takes_over)
        };
        Key {
            job: JobKey::of(&self.job, self.now),
            workers: [worker(&self.workers[0]), worker(&self.workers[1])],
        }
    }

    /// Returns whether the store would take a write of this worker now.
    pub(crate) fn accepts_write(&self, variant: Variant, index: usize) -> bool {
        let worker = &self.workers[index];
        worker.alive
            && worker.claim.is_some_and(|claim| match variant {
                Variant::WithoutFence => self.job.state == JobState::Running,
                _ => self.job.is_owned_by(&claim),
            })
    }

    pub(crate) fn acts(&self) -> Vec<Act> {
        let mut acts = vec![Act::Tick, Act::Cancel];
        for (index, worker) in self.workers.iter().enumerate() {
            if !worker.alive {
                acts.push(Act::FindLockFree(index));
                continue;
            }
            acts.push(Act::Die(index));
            acts.push(if worker.saw.is_some() { Act::TakeJob(index) } else { Act::Look(index) });
            if worker.claim.is_some() {
                acts.push(Act::Write(index));
                acts.extend(OWNER_ACTS.map(|act| Act::Owner(index, act)));
            }
        }
        acts
    }

    /// The world after `act`; none when the bound of the search is reached.
    pub(crate) fn after(&self, variant: Variant, act: Act) -> Option<World> {
        let mut world = self.clone();
        match act {
            Act::Tick => world.now = world.now.saturating_add(Duration::from_millis(1)),
            // Refused, it changes nothing: that is a step of the world too.
            Act::Cancel => {
                let _ = world.try_event(&JobEvent::Cancel { reason: "enough".to_owned() });
            }
            Act::FindLockFree(index) => {
                let _ = world.try_event(&JobEvent::FreeLease { worker: WORKERS[index] });
            }
            Act::Die(index) => world.workers[index] = Worker { alive: false, claim: None, saw: None },
            Act::Look(index) => {
                let request = ClaimRequest {
                    worker: WORKERS[index],
                    boot: BOOT,
                    lease: LEASE,
                    concurrency_max: 1,
                    only: None,
                    variables: Default::default(),
                };
                world.workers[index].saw = pick([&world.job], &request, world.now).map(|(_, event)| event);
            }
            Act::TakeJob(index) => world.take_job(variant, index),
            Act::Write(index) => {
                if !self.accepts_write(variant, index) {
                    world.workers[index].claim = None;
                }
            }
            Act::Owner(index, act) => world.owner_act(variant, index, act),
        }
        (world.job.fence <= FENCE_MAX).then_some(world)
    }

    fn try_event(&mut self, event: &JobEvent) -> Result<(), JobTransitionRejection> {
        self.job = self.job.next(event, self.now)?;
        Ok(())
    }

    fn take_job(&mut self, variant: Variant, index: usize) {
        let Some(event) = self.workers[index].saw.take() else {
            return;
        };
        let mut from = self.job.clone();
        if variant == Variant::LeaseTestedOutsideTheWrite {
            from.lease_until = Ms(0);
        }
        if let Ok(job) = from.next(&event, self.now) {
            let running = job.state == JobState::Running;
            self.workers[index].claim = running.then(|| job.claim());
            self.job = job;
        }
    }

    fn owner_act(&mut self, variant: Variant, index: usize, act: OwnerAct) {
        let Some(claim) = self.workers[index].claim else {
            return;
        };
        let fence = match variant {
            Variant::WithoutFence => self.job.fence,
            _ => claim.fence,
        };
        let event = match act {
            OwnerAct::Heartbeat => JobEvent::Heartbeat { fence, lease: LEASE },
            OwnerAct::Release => JobEvent::Release { fence },
            OwnerAct::Seal => JobEvent::Seal { fence },
            OwnerAct::Succeed => JobEvent::Succeed { fence },
            OwnerAct::Fail => JobEvent::Fail { fence, why: "no".to_owned() },
            OwnerAct::AcknowledgeCancel => JobEvent::Cancelled { fence },
            OwnerAct::SettleNode => JobEvent::SettledNode { fence },
        };
        let blind = variant == Variant::SucceedAfterCancel && act == OwnerAct::Succeed;
        let refused = if blind {
            let cancel = self.job.cancel.take();
            let refused = self.try_event(&event).err();
            self.job.cancel = cancel;
            refused
        } else {
            self.try_event(&event).err()
        };
        let over = matches!(
            refused,
            Some(JobTransitionRejection::LeaseLost(_) | JobTransitionRejection::Final { .. })
        );
        if over || self.job.state != JobState::Running {
            self.workers[index].claim = None;
        }
    }
}
