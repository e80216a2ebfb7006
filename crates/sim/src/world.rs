//! One run: everything that its parts share, and the loop that moves it.
//!
//! # Invariants
//! 1. Nothing here reads the machine's clock, its randomness or its threads: a seed is a run.
//! 2. No lock of the world is held while another one is taken, nor across an `.await`.
//! 3. A loss of power is one step: processes, locks and what was not synced are gone when it returns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::worker::Ids;
use domain::{BootId, Day, PlanId, Spend, SpendKind, WallMs};
use futures_util::future::BoxFuture;
use store::{MemoryImage, MemoryStore};
use sync::primitives::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use sync::primitives::{Mutex, MutexGuard, lock};
use sync::{CircuitBreaker, Clock, ManualClock};

use crate::broken_programs::BrokenProgram;
use crate::executor::{Executor, TaskGroup, yield_now};
use crate::fault::{Fault, FaultSchedule};
use crate::machine::SimMachine;
use crate::promise::Promise;
use crate::promise_watch::{PromiseWatch, StepDurability};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::trace::RunTrace;
use crate::worker::WorkerProcess;

/// A run that takes more steps does not end.
const RUN_STEPS_MAX: u64 = 400_000;
/// 2026, in milliseconds since 1970.
const WALL_BEGINS_MS: i64 = 1_760_000_000_000;

/// All that a run consists of.
pub(crate) struct SimWorld {
    pub(crate) scenario: Scenario,
    pub(crate) broken: Option<BrokenProgram>,
    pub(crate) executor: Executor,
    pub(crate) clock: ManualClock,
    pub(crate) watch: PromiseWatch,
    pub(crate) memory: Arc<MemoryStore>,
    random: Mutex<Random>,
    faults: Mutex<FaultSchedule>,
    trace: Mutex<RunTrace>,
    machine: Mutex<SimMachine>,
    days: Mutex<BTreeSet<Day>>,
    disk: Mutex<SimDisk>,
    workers: Mutex<Vec<Arc<WorkerProcess>>>,
    breakers: Mutex<Vec<CircuitBreaker>>,
    boots: AtomicU64,
    wall_offset_ms: AtomicI64,
    is_over: AtomicBool,
}

/// The part of the store that survives a loss of power.
#[derive(Default)]
struct SimDisk {
    image: MemoryImage,
    unsynced: BTreeSet<PlanId>,
}

impl SimWorld {
    pub(crate) fn new(seed: u64, broken: Option<BrokenProgram>, kept_steps: usize) -> Arc<Self> {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let faults = FaultSchedule::draw(&mut random, scenario.has_flood);
        let clock = ManualClock::new();
        Arc::new(Self {
            days: Mutex::default(),
            memory: Arc::new(MemoryStore::new(Arc::new(clock.clone()))),
            scenario,
            broken,
            executor: Executor::new(),
            clock,
            watch: PromiseWatch::default(),
            random: Mutex::new(random),
            faults: Mutex::new(faults),
            trace: Mutex::new(RunTrace::new(kept_steps)),
            machine: Mutex::new(SimMachine::new()),
            disk: Mutex::default(),
            workers: Mutex::default(),
            breakers: Mutex::default(),
            boots: AtomicU64::new(1),
            wall_offset_ms: AtomicI64::new(WALL_BEGINS_MS),
            is_over: AtomicBool::new(false),
        })
    }

    /// Runs until `director` has come to its end, or nothing can.
    pub(crate) fn run(self: &Arc<Self>, director: BoxFuture<'static, ()>) {
        let group = self.executor.new_group();
        self.executor.spawn(group, "director", director);
        while self.executor.live_tasks(group) > 0 {
            if lock(&self.trace).steps() > RUN_STEPS_MAX {
                self.watch.seen().record_violation(Promise::PlansEnd, "the run does not end".to_owned());
                return;
            }
            let ran = self.executor.step(|count| self.random().below(count as u64) as usize);
            match ran {
                Some(name) => {
                    self.note(name, [0, 0]);
                    if self.random().chance(600) {
                        let moment = Duration::from_millis(self.random().between(1, 5));
                        self.clock.advance(moment);
                    }
                }
                None if self.clock.advance_to_next_sleeper() => {}
                None => {
                    self.watch
                        .seen()
                        .record_violation(Promise::PlansEnd, "all tasks wait forever".to_owned());
                    return;
                }
            }
            self.executor.bury();
        }
    }

    /// No worker is replaced any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Drops all that refers to the world, so that it can go.
    pub(crate) fn take_down(&self) {
        lock(&self.workers).clear();
        self.executor.clear();
    }

    pub(crate) fn random(&self) -> MutexGuard<'_, Random> {
        lock(&self.random)
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, SimMachine> {
        lock(&self.machine)
    }

    /// The days on which something was spent.
    pub(crate) fn days(&self) -> Vec<Day> {
        lock(&self.days).iter().copied().collect()
    }

    /// A spend was granted.
    pub(crate) fn observe_spend(&self, spend: &Spend) {
        lock(&self.days).extend(spend.day);
        let max = self.scenario.plan(spend.plan).map_or(0, |plan| plan.tokens_max);
        if spend.kind == SpendKind::Tokens {
            self.watch.observe_spend(spend, max);
        }
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, FaultSchedule> {
        lock(&self.faults)
    }

    pub(crate) fn workers(&self) -> MutexGuard<'_, Vec<Arc<WorkerProcess>>> {
        lock(&self.workers)
    }

    /// The breakers of all processes that ever were.
    pub(crate) fn breakers(&self) -> MutexGuard<'_, Vec<CircuitBreaker>> {
        lock(&self.breakers)
    }

    pub(crate) fn trace(&self) -> MutexGuard<'_, RunTrace> {
        lock(&self.trace)
    }

    pub(crate) fn is_broken(&self, broken: BrokenProgram) -> bool {
        self.broken == Some(broken)
    }

    /// Returns whether the fault strikes now.
    pub(crate) fn strikes(&self, fault: Fault, in_ten_thousand: u32) -> bool {
        let strikes = {
            let mut random = lock(&self.random);
            lock(&self.faults).strikes(fault, &mut random, in_ten_thousand)
        };
        if strikes {
            self.note(fault.name(), [0, 0]);
        }
        strikes
    }

    /// Notes a step.
    pub(crate) fn note(&self, what: &'static str, detail: [u64; 2]) {
        let at = u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX);
        let task = self.executor.running();
        lock(&self.trace).note(at, task, what, detail);
    }

    /// Starts a task of the stage.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(TaskGroup::STAGE, name, Box::pin(task));
    }

    /// Lets others go first, or a moment pass.
    pub(crate) async fn pass_a_moment(&self) {
        let draw = self.random().below(16);
        match draw {
            0..4 => {}
            4..14 => yield_now().await,
            _ => {
                let moment = Duration::from_millis(self.random().between(1, 30));
                self.clock.sleep(moment).await;
            }
        }
    }

    /// Completes if the group is alive; never if it is not.
    pub(crate) async fn alive(&self, group: TaskGroup) {
        if !self.executor.is_alive(group) {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn boot(&self) -> BootId {
        BootId::from_u128(u128::from(self.boots()))
    }

    pub(crate) fn boots(&self) -> u64 {
        self.boots.load(Ordering::Relaxed)
    }

    pub(crate) fn wall(&self) -> WallMs {
        let offset = self.wall_offset_ms.load(Ordering::Relaxed);
        let now = i64::try_from(self.clock.now().as_millis()).unwrap_or(i64::MAX);
        WallMs(u64::try_from(now.saturating_add(offset)).unwrap_or(0))
    }

    pub(crate) fn step_wall_clock(&self, by_ms: i64) {
        self.wall_offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub(crate) fn plans(&self) -> impl Iterator<Item = PlanId> {
        self.scenario.plans.iter().map(|plan| plan.id)
    }

    /// A step of the store was committed that wrote to `plan`, or to any of them. `synced` says how,
    /// `durability` how it was promised.
    pub(crate) fn observe_commit(
        &self,
        plan: Option<PlanId>,
        durability: StepDurability,
        synced: StepDurability,
    ) {
        self.watch.observe_commit(durability);
        let plans: Vec<PlanId> = plan.map_or_else(|| self.plans().collect(), |plan| vec![plan]);
        {
            let mut disk = lock(&self.disk);
            disk.unsynced.extend(plans.iter().copied());
            // Only a run that may lose its power needs to know what is on the disk.
            if synced == StepDurability::Power && lock(&self.faults).is_on(Fault::PowerLoss) {
                let SimDisk { image, unsynced } = &mut *disk;
                self.memory.copy_to(image, std::mem::take(unsynced));
            }
        }
        for plan in plans {
            let lives = self.machine().lives_of(plan);
            self.memory.look(plan, |record| self.watch.inspect(plan, record, lives));
        }
    }

    /// Everything dies; the disk has what was synced.
    pub(crate) fn lose_power(self: &Arc<Self>) {
        for worker in self.workers().drain(..) {
            self.executor.kill(worker.group);
        }
        self.kill_processes(|_| true);
        {
            let mut random = lock(&self.random);
            let mut machine = self.machine();
            machine.processes.clear();
            machine.root_lock = None;
            machine.files.lose_power(&mut random);
        }
        self.memory.restore(&lock(&self.disk).image);
        let records: Vec<_> =
            self.plans().map(|plan| (plan, self.memory.look(plan, |record| record.cloned()))).collect();
        self.watch.observe_power_loss(records.iter().map(|(plan, record)| (*plan, record.as_ref())));
        self.boots.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker's process is killed.
    pub(crate) fn kill_worker(self: &Arc<Self>, group: TaskGroup) {
        self.executor.kill(group);
        self.owner_died(group);
    }

    /// Pauses a worker's process for a while.
    pub(crate) fn pause_worker(self: &Arc<Self>, group: TaskGroup, time: Duration) {
        self.executor.pause(group);
        let world = Arc::clone(self);
        self.spawn("pause", async move {
            world.clock.sleep(time).await;
            world.executor.resume(group);
        });
    }

    /// The workers of this machine look now, as far as they hear of it.
    pub(crate) fn hint(&self) {
        let workers: Vec<_> = self.workers().iter().cloned().collect();
        for worker in workers.iter().filter(|worker| self.executor.is_alive(worker.group)) {
            if !self.strikes(Fault::HintLost, 3_000) {
                worker.worker.hint();
            }
        }
    }
}

/// Ids of one process: from the wall clock and chance, rising within the process.
pub(crate) struct SimIds {
    world: Arc<SimWorld>,
    last: Mutex<u128>,
}

impl SimIds {
    pub(crate) fn new(world: &Arc<SimWorld>) -> Self {
        Self { world: Arc::clone(world), last: Mutex::new(0) }
    }
}

impl Ids for SimIds {
    fn ulid(&self) -> u128 {
        let time = u128::from(self.world.wall().0) & ((1 << 48) - 1);
        let chance = u128::from(self.world.random().next());
        let fresh = time << 80 | chance;
        let mut last = lock(&self.last);
        *last = fresh.max(last.saturating_add(1));
        *last
    }
}
