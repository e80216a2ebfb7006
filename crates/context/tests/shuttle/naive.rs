//! An executor as one would write it first: a thread per strategy, and one of four flaws.
//!
//! Each keeps the promises that its flaw does not break, so that what the exploration finds is the flaw.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use context::StopCheck;
use sync::primitives::{Mutex, MutexGuard, lock, thread};
use sync::{CircuitBreaker, Clock, ManualClock, Observed, Parker, RecordOutcome};

use crate::cases::{Executes, Line, STRATEGY_DEADLINE};
use crate::stage::AnyStrategy;

/// The flaw of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The task looks whether it was given up and then counts its end; the collector looks whether it has
    /// ended and then counts a timeout. Nothing makes looking and counting one step.
    CountedTwice,
    /// Lines are kept as they come.
    CompletionOrder,
    /// The thread that runs a strategy holds its permit, until it returns.
    KeptPermit,
    /// The result of a strategy counts, even if the strategy returned it because it was cancelled.
    CountedCancel,
}

#[derive(Clone)]
pub(crate) struct Naive {
    breakers: CircuitBreaker,
    clock: ManualClock,
    flaw: Flaw,
}

/// The state that the tasks of one batch share with their collector.
struct Board {
    rows: Mutex<Rows>,
    collector: Parker,
}

struct Rows {
    lines: Vec<Option<Line>>,
    is_given_up: Vec<bool>,
    arrivals: Vec<usize>,
}

impl Rows {
    fn write(&mut self, index: usize, name: &str, recorded: Vec<RecordOutcome>) {
        self.lines[index] = Some(Line { name: name.to_owned(), recorded });
        self.arrivals.push(index);
    }

    fn is_full(&self) -> bool {
        self.lines.iter().all(Option::is_some)
    }
}

impl Naive {
    pub(crate) fn new(breakers: CircuitBreaker, clock: ManualClock, flaw: Flaw) -> Self {
        Self { breakers, clock, flaw }
    }

    /// Runs one strategy and counts its end.
    fn task(&self, board: &Board, index: usize, strategy: &AnyStrategy, observed: Observed) {
        if self.breakers.is_open(strategy.name().as_str()) {
            lock(&board.rows).write(index, strategy.name().as_str(), Vec::new());
            return board.collector.unpark();
        }
        let permit = match self.flaw {
            Flaw::KeptPermit => self.breakers.try_acquire(strategy.name().as_str()).ok(),
            Flaw::CountedTwice | Flaw::CompletionOrder | Flaw::CountedCancel => None,
        };
        let stop = StopCheck::new(observed.clone(), None, Arc::new(self.clock.clone()));
        let found = catch_unwind(AssertUnwindSafe(|| strategy.find(&(), 10, &stop)));
        let (name, is_well) = (strategy.name().as_str(), matches!(found, Ok(Ok(_))));
        let mut rows = lock(&board.rows);
        let is_cancelled = observed.is_cancelled() && self.flaw != Flaw::CountedCancel;
        if rows.is_given_up[index] || is_cancelled {
            return;
        }
        if self.flaw == Flaw::CountedTwice {
            drop(rows);
            let recorded = self.count(name, is_well);
            lock(&board.rows).write(index, name, vec![recorded]);
        } else {
            let recorded = self.count(name, is_well);
            rows.write(index, name, vec![recorded]);
            drop(rows);
        }
        drop(permit);
        board.collector.unpark();
    }

    fn count(&self, name: &str, is_well: bool) -> RecordOutcome {
        match is_well {
            true => self.breakers.record_success(name),
            false => self.breakers.record_failure(name),
        }
    }

    /// Gives up what has not ended, and counts it.
    fn give_up(&self, mut rows: MutexGuard<'_, Rows>, names: &[String]) {
        for (index, name) in names.iter().enumerate() {
            if rows.lines[index].is_none() {
                rows.is_given_up[index] = true;
                rows.write(index, name, vec![self.breakers.record_failure(name)]);
            }
        }
    }
}

impl Executes for Naive {
    fn execute(&self, strategies: Vec<Arc<AnyStrategy>>, observed: Observed) -> Option<Vec<Line>> {
        let names: Vec<String> = strategies.iter().map(|strategy| strategy.name().to_string()).collect();
        let rows = Rows {
            lines: names.iter().map(|_| None).collect(),
            is_given_up: vec![false; names.len()],
            arrivals: Vec::new(),
        };
        let board = Arc::new(Board { rows: Mutex::new(rows), collector: Parker::new() });
        let due = self.clock.now() + STRATEGY_DEADLINE;
        for (index, strategy) in strategies.into_iter().enumerate() {
            let (naive, board, observed) = (self.clone(), Arc::clone(&board), observed.clone());
            thread::spawn(move || naive.task(&board, index, &*strategy, observed));
        }
        loop {
            let mut rows = lock(&board.rows);
            if observed.is_cancelled() {
                return None;
            }
            if rows.is_full() {
                let order = match self.flaw {
                    Flaw::CompletionOrder => std::mem::take(&mut rows.arrivals),
                    Flaw::CountedTwice | Flaw::KeptPermit | Flaw::CountedCancel => (0..names.len()).collect(),
                };
                return Some(order.into_iter().filter_map(|index| rows.lines[index].take()).collect());
            }
            if self.clock.now() >= due {
                self.give_up(rows, &names);
                continue;
            }
            drop(rows);
            if let Some(_registration) = observed.unpark_on_cancel(&board.collector) {
                self.clock.park_until(&board.collector, Some(due));
            }
        }
    }
}
