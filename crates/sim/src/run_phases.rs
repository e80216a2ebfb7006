//! Directs a run: the storm, the calm after it, the end; and the processes and users that cause faults
//! meanwhile.
//!
//! # Invariants
//! 1. While a run lasts, a worker that is gone is replaced: in the storm after a while, in the calm at once.
//! 2. In the calm nothing goes wrong any more, and within ten leases every plan is final or waits.

use std::sync::Arc;
use std::time::Duration;

use ::worker::StopMode;
use sync::Clock;

use crate::end_checks;
use crate::executor::TaskGroup;
use crate::fault::Fault;
use crate::faulty::{FaultyStore, StoreUser};
use crate::housekeeping;
use crate::machine::FileWriter;
use crate::promise::Promise;
use crate::scenario::FILES;
use crate::users::SimUser;
use crate::worker::WorkerProcess;
use crate::world::SimWorld;

/// The leases within which everything comes to rest.
const CALM_LEASES: u32 = 10;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Takes a run from its first moment to its last check.
pub(crate) async fn direct(world: Arc<SimWorld>) {
    let scenario = &world.scenario;
    let lease = scenario.lease;
    for _ in 0..scenario.workers {
        WorkerProcess::start(&world, None);
    }
    let persons = world.executor.new_group();
    for script in scenario.plans.clone() {
        let person = SimUser::new(&world);
        let id = script.id;
        world.executor.spawn(persons, "person", Box::pin(person.see_through(script)));
        world.spawn("follower", end_checks::follow(Arc::clone(&world), id));
    }
    world.spawn("supervisor", supervise(Arc::clone(&world)));
    world.spawn("canceller", cancel_some(Arc::clone(&world)));
    world.spawn("meddler", meddle(Arc::clone(&world)));
    world.clock.sleep(scenario.stormy).await;

    calm_down(&world);
    let deadline = world.clock.now().saturating_add(lease * CALM_LEASES);
    while world.executor.live_tasks(persons) > 0 && world.clock.now() < deadline {
        world.clock.sleep(lease / 10).await;
    }
    end_checks::everything_rests(&world, world.executor.live_tasks(persons));

    stop_all(&world).await;
    let store = FaultyStore::new(&world, StoreUser::Person);
    housekeeping::keep_house(&world, TaskGroup::STAGE, &store).await;
    // As long as any lock, breaker or dying process may last.
    world.clock.sleep(lease * 2).await;
    end_checks::at_the_end(&world).await;
}

fn calm_down(world: &Arc<SimWorld>) {
    world.note("the faults end", [0, 0]);
    world.faults().end();
    world.machine().is_full = false;
    let workers: Vec<_> = world.workers().iter().map(|worker| worker.group).collect();
    workers.into_iter().for_each(|group| world.executor.resume(group));
}

/// Replaces workers that are gone.
async fn supervise(world: Arc<SimWorld>) {
    let (lease, wanted) = (world.scenario.lease, world.scenario.workers as usize);
    loop {
        world.clock.sleep(lease / 12).await;
        if world.is_over() {
            return;
        }
        world.workers().retain(|worker| world.executor.is_alive(worker.group));
        let count = world.workers().iter().filter(|worker| worker.only.is_none()).count();
        let is_soon = world.faults().have_ended() || world.random().chance(2_000);
        if count < wanted && is_soon {
            WorkerProcess::start(&world, None);
        }
    }
}

/// Cancels plans: from outside, from inside, twice.
async fn cancel_some(world: Arc<SimWorld>) {
    let lease = world.scenario.lease;
    while !world.faults().have_ended() {
        let wait = lease / 20 * world.random().between(1, 20) as u32;
        world.clock.sleep(wait).await;
        let plans: Vec<_> = world.plans().collect();
        let plan = world.random().pick(&plans);
        let is_twice = world.strikes(Fault::CancelTwice, 2_000);
        let count = if is_twice { 2 } else { u32::from(world.strikes(Fault::Cancel, 2_500)) };
        for _ in 0..count {
            if let Some(plan) = plan {
                world.spawn("cancel", SimUser::new(&world).cancel(plan));
            }
        }
        cancel_inside(&world);
    }
}

fn cancel_inside(world: &Arc<SimWorld>) {
    let workers: Vec<_> = world.workers().iter().cloned().collect();
    let living = workers.iter().find(|worker| world.executor.is_alive(worker.group));
    let Some(worker) = living else { return };
    for (fault, resets) in [(Fault::CancelInside, false), (Fault::CancelReset, true)] {
        let is_wanted = world.faults().is_on(fault) && world.random().chance(2_500);
        if is_wanted && worker.runner.cancel_inside(resets) {
            world.faults().count(fault);
            world.note(fault.name(), [0, 0]);
        }
    }
}

/// Makes the faults around the workers strike.
async fn meddle(world: Arc<SimWorld>) {
    let lease = world.scenario.lease;
    while !world.faults().have_ended() {
        let wait = lease / 20 * world.random().between(1, 10) as u32;
        world.clock.sleep(wait).await;
        if world.strikes(Fault::UserEdits, 4_000) {
            let (file, value) = {
                let mut random = world.random();
                (random.below(u64::from(FILES)) as u32, random.between(1, 900))
            };
            world.machine().files.write(file, value, FileWriter::User);
        }
        if world.strikes(Fault::WallClock, 1_500) {
            let by = i64::try_from(world.random().below(2 * DAY_MS as u64)).unwrap_or(0) - DAY_MS;
            world.step_wall_clock(by);
        }
        if world.strikes(Fault::DiskFull, 600) {
            world.machine().is_full = true;
            let (full, time) = (Arc::clone(&world), lease / 10 * world.random().between(1, 15) as u32);
            world.spawn("space", async move {
                full.clock.sleep(time).await;
                full.machine().is_full = false;
            });
        }
        if world.strikes(Fault::WorkerStopped, 600) {
            let workers: Vec<_> = world.workers().iter().cloned().collect();
            let how = match world.random().chance(5_000) {
                true => StopMode::Release,
                false => StopMode::Drain { deadline: lease / 2 },
            };
            let living = workers.iter().find(|worker| world.executor.is_alive(worker.group));
            if let Some(worker) = living {
                worker.stop(&world, how);
            }
        }
    }
}

async fn stop_all(world: &Arc<SimWorld>) {
    world.end();
    let lease = world.scenario.lease;
    let workers: Vec<_> = world.workers().iter().cloned().collect();
    for worker in &workers {
        worker.stop(world, StopMode::Drain { deadline: lease });
    }
    let deadline = world.clock.now().saturating_add(lease * 4);
    let lives =
        |world: &SimWorld| workers.iter().filter(|worker| world.executor.is_alive(worker.group)).count();
    while lives(world) > 0 && world.clock.now() < deadline {
        world.clock.sleep(Duration::from_millis(500)).await;
    }
    let count = lives(world);
    world.watch.seen().check(Promise::NothingLeft, count == 0, || format!("{count} workers do not stop"));
}
