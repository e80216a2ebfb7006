//! Histories: find-or-create, append and count are one step.

use std::sync::Arc;

use loom::thread;
use proof::{Case, Twin};
use sync::KeyedHistories;

use crate::explore;
use crate::naive::histories as naive;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        seed: "7333",
        name: "3 threads record the first errors of a plan: all kept, each counted once",
        explore: || explore(no_record_is_lost::<KeyedHistories<u32, Vec<u32>>>),
        twins: &[
            Twin {
                name: "check, then insert",
                symptom: "error record lost",
                explore: || explore(no_record_is_lost::<naive::CheckThenInsert>),
            },
            Twin {
                name: "setdefault, counted outside",
                symptom: "attempt counted twice",
                explore: || explore(no_record_is_lost::<naive::CountedOutside>),
            },
        ],
    }]
}

/// The operations of a history store that the body needs.
pub(crate) trait Histories: Send + Sync + 'static {
    fn new() -> Self;
    /// Records an error of the plan and answers how many there are.
    fn record(&self, error: u32) -> usize;
    fn kept(&self) -> usize;
}

impl Histories for KeyedHistories<u32, Vec<u32>> {
    fn new() -> Self {
        KeyedHistories::new()
    }

    fn record(&self, error: u32) -> usize {
        self.update(&1, |history| {
            history.push(error);
            history.len()
        })
    }

    fn kept(&self) -> usize {
        self.read(&1, |history| history.map_or(0, Vec::len))
    }
}

fn no_record_is_lost<H: Histories>() {
    let histories = Arc::new(H::new());
    let others: Vec<_> = (1..3)
        .map(|error| {
            let histories = Arc::clone(&histories);
            thread::spawn(move || histories.record(error))
        })
        .collect();
    let mut counts = vec![histories.record(0)];
    counts.extend(others.into_iter().map(|other| other.join().unwrap()));
    let kept = histories.kept();
    assert_eq!(kept, 3, "error record lost: 3 recorded, {kept} kept");
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3], "attempt counted twice");
}
