//! A worker's process: the real worker, with ports of the simulation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::worker::{AsyncWorker, Ids, Ports, Runtime, StopMode, TaskKind, WorkerConfig};
use domain::PlanId;
use futures_util::future::BoxFuture;
use sync::primitives::atomic::{AtomicBool, Ordering};
use sync::{BreakerConfig, CancellationToken, CircuitBreaker};

use crate::broken_programs::BrokenProgram;
use crate::executor::TaskGroup;
use crate::faulty::{FaultyStore, StoreUser};
use crate::housekeeping;
use crate::runner::SimRunner;
use crate::world::{SimIds, SimWorld};

/// A worker's process that runs, or did.
pub(crate) struct WorkerProcess {
    pub(crate) group: TaskGroup,
    pub(crate) worker: AsyncWorker,
    pub(crate) runner: Arc<SimRunner>,
    /// Serves one plan only, as a command in the foreground does.
    pub(crate) only: Option<PlanId>,
    is_stopping: AtomicBool,
}

struct SimRuntime {
    world: Arc<SimWorld>,
    group: TaskGroup,
}

impl Runtime for SimRuntime {
    fn spawn(&self, kind: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        let name = match kind {
            TaskKind::Claims => "claims",
            TaskKind::Run => "run",
            TaskKind::Work => "work",
            TaskKind::Heartbeat => "heartbeats",
        };
        self.world.executor.spawn(self.group, name, task);
        Ok(())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.world.clock.sleep(duration))
    }
}

impl WorkerProcess {
    /// Starts a process; none when the configuration is refused, which every run would show.
    pub(crate) fn start(world: &Arc<SimWorld>, only: Option<PlanId>) -> Option<Arc<Self>> {
        let group = world.executor.new_group();
        let store = FaultyStore::new(world, StoreUser::Worker(group));
        let ids: Arc<dyn Ids> = Arc::new(SimIds::new(world));
        let clock = Arc::new(world.clock.clone());
        let breakers = CircuitBreaker::new(breaker_config(world), clock.clone()).ok()?;
        world.breakers().push(breakers.clone());
        let runner = Arc::new(SimRunner::new(world, group, &store, &ids, breakers));
        let scenario = &world.scenario;
        let config = WorkerConfig {
            max_workers: scenario.max_workers,
            plan_concurrency: scenario.concurrency,
            only,
            idle_poll: scenario.idle_poll,
            ..WorkerConfig::new(world.boot(), scenario.lease)
        };
        let ports = Ports {
            store: store.clone(),
            runner: runner.clone(),
            runtime: Arc::new(SimRuntime { world: Arc::clone(world), group }),
            clock,
            ids,
            token: CancellationToken::new(),
        };
        let worker = AsyncWorker::new(config, ports).ok()?;
        world.machine().presence.insert(worker.report().worker, group);
        let process = Arc::new(Self { group, worker, runner, only, is_stopping: AtomicBool::new(false) });
        world.workers().push(Arc::clone(&process));
        world.note("worker starts", [u64::from(group.0), 0]);
        let (world_of_task, kept) = (Arc::clone(world), Arc::clone(&process));
        let life = async move { kept.live(world_of_task, store).await };
        world.executor.spawn(group, "housekeeping", Box::pin(life));
        Some(process)
    }

    async fn live(self: Arc<Self>, world: Arc<SimWorld>, store: Arc<FaultyStore>) {
        housekeeping::keep_house(&world, self.group, &store).await;
        // Stopped before it began.
        if self.worker.start().is_err() {
            return;
        }
        while !self.is_stopping() {
            world.clock.sleep(world.scenario.lease / 2).await;
            if store.is_broken() {
                world.note("worker gives up", [u64::from(self.group.0), 0]);
                world.kill_worker(self.group);
                return;
            }
            housekeeping::keep_house(&world, self.group, &store).await;
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Asks it to stop. It is gone when nothing of it runs.
    pub(crate) fn stop(self: &Arc<Self>, world: &Arc<SimWorld>, how: StopMode) {
        if self.is_stopping.swap(true, Ordering::Relaxed) {
            return;
        }
        let (process, world) = (Arc::clone(self), Arc::clone(world));
        let stage = Arc::clone(&world);
        let stopping = async move {
            process.worker.stop(how).await;
            let report = process.worker.report();
            // With jobs that it could not settle it is to be found dead.
            if report.unsettled == 0 {
                world.machine().presence.remove(&report.worker);
            }
            world.note("worker is gone", [u64::from(process.group.0), 0]);
            world.kill_worker(process.group);
        };
        stage.executor.spawn(self.group, "stop", Box::pin(stopping));
    }
}

fn breaker_config(world: &SimWorld) -> BreakerConfig {
    let lease = world.scenario.lease;
    let is_stuck = world.is_broken(BrokenProgram::StuckProbe);
    BreakerConfig {
        threshold: 3,
        cool_down: lease / 6,
        cool_down_max: lease,
        probe_lease: if is_stuck { Duration::from_secs(24 * 60 * 60) } else { lease },
    }
}
