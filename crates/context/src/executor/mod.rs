//! Runs strategies in parallel: a bounded number at once, for a bounded time, so that none harms another.
//!
//! # Overview
//! Three parts, a file each:
//! - the **pool** (`pool`): threads that are shared by all calls, and the queue before them;
//! - the **worker** (`worker`): what a thread does with one strategy;
//! - the **collector** (here): the thread that called [`ParallelStrategyExecutor::execute`]. It waits on the
//!   **slots** of its batch (`slots`), settles what is over (`settle`), and returns.
//!
//! A call has three steps. It names the strategies and queues them. It waits until each slot is over by an
//! answer, a deadline or a cancel. It returns the lines in the order asked for.
//!
//! # Time
//! A batch is due at the sooner of its caller's deadline and `deadline`. A strategy is due when the batch is,
//! or `strategy_deadline` after its start. A late strategy is stopped by a token of its own and not waited
//! for. Nothing is joined, so the answer comes at the deadline even if a strategy hangs for ever.
//!
//! # Invariants
//! 1. Only the collector settles permits, and each permit has left its slot when it does: a run counts
//!    exactly once.
//! 2. The order of the lines is the order of the tasks; no completion order can reach it.
//! 3. When `execute` returns, none of its jobs is queued and none of its permits is held.
//! 4. Two locks, the pool's and a batch's, are never held at once; no strategy code, settling or thread start
//!    happens under either.
//!
//! # Not here
//! The choice of strategies and their shares. Events: the caller that receives the lines emits them.

mod config;
mod error_message;
mod events;
mod pool;
mod settle;
mod slots;
mod worker;

use std::fmt;
use std::sync::Arc;

use sync::{CancelReason, CircuitBreaker, Clock, Parker, contained};

pub use self::config::{ExecutorConfig, ExecutorConfigError};
pub use self::pool::PoolView;
use self::pool::WorkerThreads;
use self::settle::settle;
use self::slots::{SlotEnd, Slots, StartRefusal};
use self::worker::StrategyJob;
use crate::{BatchCancelled, Name, SearchStrategy, StopCheck, StrategyRun};
pub use events::{BreakerMove, ContextStrategies, Event, EventSink};

/// Strategies to run together.
pub struct Batch<S: SearchStrategy + ?Sized> {
    /// The input that all strategies read.
    pub prepared: Arc<S::Prepared>,
    /// The strategies, in the order in which their lines come back.
    pub tasks: Vec<StrategyTask<S>>,
    /// The time when the caller no longer wants the answer.
    pub stop: StopCheck,
}

/// One strategy of a [`Batch`].
pub struct StrategyTask<S: SearchStrategy + ?Sized> {
    /// The strategy.
    pub strategy: Arc<S>,
    /// The most candidates it may propose. With 0 it has no share and is not started.
    pub limit: usize,
}

/// Runs batches of strategies on one pool of threads, behind circuit breakers that all calls share.
///
/// Shared by any number of threads. Threads start when needed and end when the executor is dropped; one whose
/// strategy was abandoned ends when that strategy returns.
///
/// ```
/// use std::sync::Arc;
/// use context::{Batch, ExecutorConfig, Name, RunOutcome, ParallelStrategyExecutor, StopCheck, SearchStrategy, StrategyError, StrategyTask};
/// use sync::{CancellationToken, CircuitBreaker, SystemClock};
///
/// struct Words(Name);
///
/// impl SearchStrategy for Words {
///     type Prepared = String;
///     type Candidate = String;
///     fn name(&self) -> &Name {
///         &self.0
///     }
///     fn find(&self, text: &String, _limit: usize, _stop: &StopCheck) -> Result<Vec<String>, StrategyError> {
///         Ok(text.split(' ').map(str::to_owned).collect())
///     }
/// }
///
/// let clock = Arc::new(SystemClock::new());
/// let executor =
///     ParallelStrategyExecutor::new(ExecutorConfig::default(), CircuitBreaker::default(), clock.clone())?;
/// let words: Arc<dyn SearchStrategy<Prepared = String, Candidate = String>> = Arc::new(Words("words".parse()?));
/// let runs = executor.execute(Batch {
///     prepared: Arc::new("to be or not".to_owned()),
///     tasks: vec![StrategyTask { strategy: words, limit: 3 }],
///     stop: StopCheck::new(CancellationToken::new().observe(), None, clock),
/// })?;
/// assert_eq!(runs[0].outcome, RunOutcome::Ok);
/// assert_eq!(runs[0].candidates, ["to", "be", "or"]);
/// assert_eq!(runs[0].cut, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParallelStrategyExecutor<S: SearchStrategy + ?Sized + 'static> {
    config: ExecutorConfig,
    breakers: CircuitBreaker,
    clock: Arc<dyn Clock>,
    pool: Arc<WorkerThreads<StrategyJob<S>>>,
}

impl<S: SearchStrategy + ?Sized + 'static> ParallelStrategyExecutor<S> {
    /// An executor without threads yet. The breakers are the process's: all executors share them.
    ///
    /// # Errors
    /// A value of `config` out of its bounds.
    pub fn new(
        config: ExecutorConfig,
        breakers: CircuitBreaker,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ExecutorConfigError> {
        let config = config.checked()?;
        let pool = WorkerThreads::new(config.max_workers);
        Ok(Self { config, breakers, clock, pool })
    }

    /// Runs a batch and blocks until each strategy has ended or a deadline has passed.
    ///
    /// Returns one line per task, in their order. Answers that arrive by the deadline are retained. In an
    /// async runtime this belongs on a thread that may block. A strategy must not call it on its own
    /// executor: it would wait for the thread it occupies.
    ///
    /// # Errors
    /// [`BatchCancelled`] if the batch's [`StopCheck`] is cancelled before all lines are there. A deadline is no
    /// error.
    pub fn execute(&self, batch: Batch<S>) -> Result<Vec<StrategyRun<S::Candidate>>, BatchCancelled> {
        if let Some(reason) = batch.stop.observed().reason() {
            return Err(BatchCancelled { reason, changes: Vec::new() });
        }
        if let Some(reason) = batch.stop.observed().child().observe().reason() {
            // So deep that every strategy's own token would be born cancelled, or cancelled just now.
            return Err(BatchCancelled { reason, changes: Vec::new() });
        }
        let collector = Parker::new();
        let stop = batch.stop.clone();
        let (names, slots) = self.queue(batch, &collector);
        self.collect(names, &slots, &stop, &collector)
    }

    /// The threads at this moment.
    pub fn pool(&self) -> PoolView {
        self.pool.view()
    }

    /// Names the strategies and hands the pool those that can begin.
    fn queue(&self, batch: Batch<S>, collector: &Parker) -> (Vec<Name>, Arc<Slots<S::Candidate>>) {
        let Batch { prepared, tasks, stop } = batch;
        let time = stop.remaining().map_or(self.config.deadline, |left| left.min(self.config.deadline));
        let due = self.clock.now().saturating_add(time);
        let (names, refused): (Vec<Name>, Vec<Option<StartRefusal>>) = tasks.iter().map(name_of).unzip();
        let can_begin: Vec<bool> = refused.iter().map(Option::is_none).collect();
        let clock = Arc::clone(&self.clock);
        let slots =
            Arc::new(Slots::new(refused, clock, due, self.config.strategy_deadline, collector.clone()));
        let jobs = tasks.into_iter().enumerate().filter(|(index, _)| can_begin[*index]);
        let jobs = jobs.map(|(index, task)| StrategyJob {
            index,
            name: names[index].clone(),
            strategy: task.strategy,
            prepared: Arc::clone(&prepared),
            limit: task.limit,
            stop: stop.clone(),
            slots: Arc::clone(&slots),
            breakers: self.breakers.clone(),
            clock: Arc::clone(&self.clock),
        });
        self.pool.submit(jobs.collect());
        (names, slots)
    }

    /// Waits for the slots and settles what is over, until all are or the caller cancels.
    fn collect(
        &self,
        names: Vec<Name>,
        slots: &Arc<Slots<S::Candidate>>,
        stop: &StopCheck,
        collector: &Parker,
    ) -> Result<Vec<StrategyRun<S::Candidate>>, BatchCancelled> {
        let mut runs: Vec<Option<StrategyRun<S::Candidate>>> = names.iter().map(|_| None).collect();
        loop {
            let harvest = slots.take(stop.observed());
            if harvest.ends.iter().any(|(_, end)| end.had_no_turn()) {
                self.pool.withdraw(|job| Arc::ptr_eq(&job.slots, slots));
            }
            for (index, end) in harvest.ends {
                self.release_thread(&end);
                runs[index] = settle(names[index].clone(), end, self.config.strategy_deadline);
            }
            if let Some(reason) = harvest.cancelled {
                let changes = runs.iter().flatten().filter_map(StrategyRun::change).collect();
                return Err(BatchCancelled { reason, changes });
            }
            if harvest.next_look.is_none() {
                return Ok(runs.into_iter().flatten().collect());
            }
            // Registered again for each park; cancelled meanwhile, there is nothing to park for.
            if let Some(_registration) = stop.observed().unpark_on_cancel(collector) {
                self.clock.park_until(collector, harvest.next_look);
            }
        }
    }

    /// If the strategy has not returned, cancels its token and gives its thread's seat to another.
    fn release_thread(&self, end: &SlotEnd<S::Candidate>) {
        match end {
            SlotEnd::Overdue(started) => {
                // Wakes whatever the strategy registered, which is its code and may panic.
                let _ = contained(|| started.token.cancel(CancelReason::Timeout));
                self.pool.abandon(started.run);
            }
            // Its token is a child of the one that was cancelled.
            SlotEnd::Cancelled(started) => self.pool.abandon(started.run),
            SlotEnd::NotBegun(_) | SlotEnd::Answered { .. } | SlotEnd::Late(_) => {}
        }
    }
}

/// The name of a task's strategy, and why it cannot begin if it cannot.
fn name_of<S: SearchStrategy + ?Sized>(task: &StrategyTask<S>) -> (Name, Option<StartRefusal>) {
    match contained(|| task.strategy.name().clone()) {
        Err(panicked) => (Name::unnamed(), Some(StartRefusal::Unnamed(panicked.message))),
        Ok(name) if task.limit == 0 => (name, Some(StartRefusal::NoShare)),
        Ok(name) => (name, None),
    }
}

impl<S: SearchStrategy + ?Sized + 'static> Drop for ParallelStrategyExecutor<S> {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl<S: SearchStrategy + ?Sized + 'static> fmt::Debug for ParallelStrategyExecutor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParallelStrategyExecutor")
            .field("config", &self.config)
            .field("pool", &self.pool())
            .finish_non_exhaustive()
    }
}
