//! Strategies that play a part, and the stage that moves them: who hangs, who is let go, who has left.

use std::collections::{BTreeSet, VecDeque};
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError};

use context::{Name, SearchStrategy, StopCheck, StrategyError};
use sync::primitives::{Condvar, Mutex, MutexGuard, lock};

pub(crate) type AnyStrategy = dyn SearchStrategy<Prepared = (), Candidate = u32>;

/// The behaviour of a strategy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Finds,
    Panics,
    /// Hangs, whatever its stop says, until the stage lets this number go.
    Hangs(usize),
    /// Waits until it is told to stop, and obeys.
    Obeys(usize),
    /// Would find, but its breaker is open.
    Skipped,
}

/// A strategy that plays a part.
pub(crate) struct Actor {
    name: Name,
    part: Part,
    stage: Arc<Stage>,
}

impl Actor {
    pub(crate) fn cast(part: Part, stage: &Arc<Stage>) -> Arc<AnyStrategy> {
        let name = match part {
            Part::Finds => "finds",
            Part::Panics => "panics",
            Part::Hangs(_) => "hangs",
            Part::Obeys(_) => "obeys",
            Part::Skipped => "skipped",
        };
        let name = name.parse().expect("a part's name keeps the rule");
        stage.change(|scene| scene.actors += 1);
        Arc::new(Self { name, part, stage: Arc::clone(stage) })
    }
}

impl SearchStrategy for Actor {
    type Prepared = ();
    type Candidate = u32;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _prepared: &(), _limit: usize, stop: &StopCheck) -> Result<Vec<u32>, StrategyError> {
        match self.part {
            Part::Finds | Part::Skipped => Ok(vec![1]),
            // Without the panic hook, which would print a schedule for a panic that is meant.
            Part::Panics => resume_unwind(Box::new("told so")),
            Part::Hangs(number) => {
                self.stage.hang(number);
                Err(StrategyError::failed("let go"))
            }
            Part::Obeys(number) => {
                self.stage.change(|scene| scene.waiting.push_back(number));
                stop.observed().wait(None);
                stop.check()?;
                Ok(vec![])
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.stage.change(|scene| scene.actors -= 1);
    }
}

/// The places of the strategies.
#[derive(Default)]
struct Scene {
    waiting: VecDeque<usize>,
    let_go: BTreeSet<usize>,
    actors: usize,
    is_closed: bool,
}

#[derive(Default)]
pub(crate) struct Stage {
    scene: Mutex<Scene>,
    changed: Condvar,
}

impl Stage {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The next strategy that waits for something; `None` when the play is over.
    pub(crate) fn next_waiting(&self) -> Option<usize> {
        self.wait_until(|scene| !scene.waiting.is_empty() || scene.is_closed).waiting.pop_front()
    }

    pub(crate) fn let_go(&self, number: usize) {
        self.change(|scene| scene.let_go.insert(number));
    }

    pub(crate) fn close(&self) {
        self.change(|scene| scene.is_closed = true);
    }

    /// Until no thread holds a strategy any more: whatever a late one does, it has done.
    pub(crate) fn wait_until_all_left(&self) {
        drop(self.wait_until(|scene| scene.actors == 0));
    }

    fn hang(&self, number: usize) {
        self.change(|scene| scene.waiting.push_back(number));
        drop(self.wait_until(|scene| scene.let_go.contains(&number)));
    }

    fn change<R>(&self, act: impl FnOnce(&mut Scene) -> R) {
        act(&mut lock(&self.scene));
        self.changed.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&Scene) -> bool) -> MutexGuard<'_, Scene> {
        let mut scene = lock(&self.scene);
        while !is_so(&scene) {
            scene = self.changed.wait(scene).unwrap_or_else(PoisonError::into_inner);
        }
        scene
    }
}
