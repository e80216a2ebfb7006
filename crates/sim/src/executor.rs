//! The one thread that runs everything: tasks in groups, of which the next one is picked by chance.
//!
//! A group is a set of tasks that die or pause together: a worker's process, a process of a tool. Group 0 is
//! the stage itself.
//!
//! # Invariants
//! 1. A task runs only when it was woken. The number that is passed in decides which of the woken ones is
//!    next.
//! 2. Nothing of a killed group runs any more: its tasks are dropped before the next step.
//! 3. A paused group stays woken and does not run.
//! 4. No lock is held while a task runs or is dropped.
//!
//! # Not here
//! Time: the clock wakes sleepers, and the caller of a step moves it.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use sync::primitives::atomic::{AtomicBool, Ordering};
use sync::primitives::{Mutex, lock};

/// A group of tasks that die and pause together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TaskGroup(pub(crate) u32);

impl TaskGroup {
    /// The stage itself, which nothing kills.
    pub(crate) const STAGE: TaskGroup = TaskGroup(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Runs tasks, one step of one task at a time.
pub(crate) struct Executor {
    state: Mutex<State>,
    woken: Arc<WokenTasks>,
}

#[derive(Default)]
struct State {
    tasks: Vec<SimTask>,
    groups: Vec<GroupState>,
    /// Woken, and of a paused group.
    held: Vec<u32>,
    doomed: Vec<TaskGroup>,
    running: u32,
}

struct SimTask {
    group: TaskGroup,
    name: &'static str,
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
    wake: Arc<TaskWake>,
}

struct GroupState {
    is_alive: bool,
    is_paused: bool,
    tasks: Vec<u32>,
    live: usize,
}

#[derive(Default)]
struct WokenTasks {
    tasks: Mutex<Vec<u32>>,
}

struct TaskWake {
    id: u32,
    is_woken: AtomicBool,
    woken: Arc<WokenTasks>,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            lock(&self.woken.tasks).push(self.id);
        }
    }
}

impl Executor {
    pub(crate) fn new() -> Self {
        let executor = Self { state: Mutex::default(), woken: Arc::default() };
        executor.new_group();
        executor
    }

    pub(crate) fn new_group(&self) -> TaskGroup {
        let mut state = lock(&self.state);
        let group = TaskGroup(u32::try_from(state.groups.len()).unwrap_or(u32::MAX));
        state.groups.push(GroupState { is_alive: true, is_paused: false, tasks: Vec::new(), live: 0 });
        group
    }

    /// Starts a task; of a group that is dead, it is dropped instead.
    pub(crate) fn spawn(&self, group: TaskGroup, name: &'static str, future: BoxFuture<'static, ()>) {
        let mut state = lock(&self.state);
        let id = u32::try_from(state.tasks.len()).unwrap_or(u32::MAX);
        let Some(of_group) = state.groups.get_mut(group.index()).filter(|group| group.is_alive) else {
            drop(state);
            drop(future);
            return;
        };
        of_group.tasks.push(id);
        of_group.live += 1;
        let wake =
            Arc::new(TaskWake { id, is_woken: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
        let waker = Waker::from(Arc::clone(&wake));
        state.tasks.push(SimTask { group, name, future: Some(future), waker: waker.clone(), wake });
        drop(state);
        waker.wake();
    }

    /// Kills a group: nothing of it runs after the present step.
    pub(crate) fn kill(&self, group: TaskGroup) {
        let mut state = lock(&self.state);
        if let Some(of_group) = state.groups.get_mut(group.index()).filter(|group| group.is_alive) {
            of_group.is_alive = false;
            state.doomed.push(group);
        }
    }

    pub(crate) fn is_alive(&self, group: TaskGroup) -> bool {
        lock(&self.state).groups.get(group.index()).is_some_and(|group| group.is_alive)
    }

    /// Returns how many tasks of the group have not ended.
    pub(crate) fn live_tasks(&self, group: TaskGroup) -> usize {
        lock(&self.state).groups.get(group.index()).map_or(0, |group| group.live)
    }

    pub(crate) fn pause(&self, group: TaskGroup) {
        if let Some(group) = lock(&self.state).groups.get_mut(group.index()) {
            group.is_paused = true;
        }
    }

    pub(crate) fn resume(&self, group: TaskGroup) {
        let mut state = lock(&self.state);
        if let Some(group) = state.groups.get_mut(group.index()) {
            group.is_paused = false;
        }
        let held = std::mem::take(&mut state.held);
        lock(&self.woken.tasks).extend(held);
    }

    /// The task that runs now, or ran last.
    pub(crate) fn running(&self) -> u32 {
        lock(&self.state).running
    }

    /// Runs one step of the woken task that `pick` chooses among so many; returns its name, or `None` if none
    /// is woken.
    pub(crate) fn step(&self, mut pick: impl FnMut(usize) -> usize) -> Option<&'static str> {
        loop {
            let (id, mut future, waker, name) = {
                let mut state = lock(&self.state);
                let mut woken = lock(&self.woken.tasks);
                if woken.is_empty() {
                    return None;
                }
                let chosen = pick(woken.len()).min(woken.len() - 1);
                let id = woken.swap_remove(chosen);
                let is_paused = {
                    let group = state.tasks.get(id as usize).map(|task| task.group);
                    let group = group.and_then(|group| state.groups.get(group.index()));
                    group.is_some_and(|group| group.is_paused && group.is_alive)
                };
                if is_paused {
                    state.held.push(id);
                    continue;
                }
                let Some(task) = state.tasks.get_mut(id as usize) else { continue };
                task.wake.is_woken.store(false, Ordering::Relaxed);
                let Some(future) = task.future.take() else { continue };
                let (waker, name) = (task.waker.clone(), task.name);
                state.running = id;
                (id, future, waker, name)
            };
            let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
            self.put_back(id, future, poll);
            return Some(name);
        }
    }

    fn put_back(&self, id: u32, future: BoxFuture<'static, ()>, poll: Poll<()>) {
        let over = {
            let mut guard = lock(&self.state);
            let state = &mut *guard;
            let Some(task) = state.tasks.get_mut(id as usize) else { return };
            let Some(group) = state.groups.get_mut(task.group.index()) else { return };
            if poll.is_pending() && group.is_alive {
                task.future = Some(future);
                None
            } else {
                group.live = group.live.saturating_sub(1);
                Some(future)
            }
        };
        drop(over);
    }

    /// Drops what was killed.
    pub(crate) fn bury(&self) {
        loop {
            let dead: Vec<BoxFuture<'static, ()>> = {
                let mut guard = lock(&self.state);
                let state = &mut *guard;
                let Some(group) = state.doomed.pop() else { return };
                let Some(of_group) = state.groups.get_mut(group.index()) else { continue };
                of_group.live = 0;
                let ids = std::mem::take(&mut of_group.tasks);
                let tasks = &mut state.tasks;
                ids.iter()
                    .filter_map(|id| tasks.get_mut(*id as usize).and_then(|task| task.future.take()))
                    .collect()
            };
            drop(dead);
        }
    }

    /// Drops everything: the stage is taken down.
    pub(crate) fn clear(&self) {
        let tasks = std::mem::take(&mut lock(&self.state).tasks);
        drop(tasks);
        lock(&self.woken.tasks).clear();
    }
}

/// Lets others run first.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = Arc<Mutex<Vec<u8>>>;

    fn talker(log: &Log, name: u8) -> BoxFuture<'static, ()> {
        let log = Arc::clone(log);
        Box::pin(async move {
            for _ in 0..3 {
                lock(&log).push(name);
                yield_now().await;
            }
        })
    }

    fn run(executor: &Executor) {
        while executor.step(|_| 0).is_some() {
            executor.bury();
        }
    }

    #[test]
    fn the_pick_decides_who_is_next() {
        let order = |pick: fn(usize) -> usize| {
            let (executor, log) = (Executor::new(), Log::default());
            for name in 0..3 {
                executor.spawn(TaskGroup::STAGE, "talker", talker(&log, name));
            }
            while executor.step(pick).is_some() {}
            lock(&log).clone()
        };
        assert_eq!(order(|_| 0), order(|_| 0));
        assert_ne!(order(|_| 0), order(|count| count - 1));
        assert_eq!(order(|_| 0).len(), 9);
    }

    #[test]
    fn nothing_of_a_killed_group_runs() {
        let (executor, log) = (Executor::new(), Log::default());
        let group = executor.new_group();
        executor.spawn(group, "talker", talker(&log, 1));
        executor.spawn(TaskGroup::STAGE, "talker", talker(&log, 2));
        executor.kill(group);
        executor.bury();
        executor.spawn(group, "talker", talker(&log, 3));
        run(&executor);
        assert_eq!(*lock(&log), [2, 2, 2]);
        assert!(!executor.is_alive(group) && executor.live_tasks(group) == 0);
    }

    #[test]
    fn a_paused_group_goes_on_when_it_is_resumed() {
        let (executor, log) = (Executor::new(), Log::default());
        let group = executor.new_group();
        executor.spawn(group, "talker", talker(&log, 1));
        executor.pause(group);
        run(&executor);
        assert!(lock(&log).is_empty());
        executor.resume(group);
        run(&executor);
        assert_eq!(*lock(&log), [1, 1, 1]);
        assert_eq!(executor.live_tasks(group), 0);
    }
}
