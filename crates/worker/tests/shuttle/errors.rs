//! Errors: none lost, each counted once, the limit exact, whoever looks meanwhile.

use std::sync::Arc;

use ::worker::ErrorRecoveryService;
use domain::{
    Claim, ErrorCategory, ErrorId, GateDecision, NewError, Phase, RecoveryAction, RecoveryPolicy, StepId,
};
use proof::{Case, Twin};
use shuttle::future::block_on;
use shuttle::thread;

use crate::explore;
use crate::support::{PLAN, claimed};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        seed: "7333",
        name: "3 threads record errors, limit 2, beside a reader: all kept, attempts 1 and 2, then asked",
        explore: || explore(every_error_is_kept_and_counted_once::<Ours>),
        twins: &[
            Twin {
                name: "check, then insert",
                symptom: "error record lost",
                explore: || explore(every_error_is_kept_and_counted_once::<naive::CheckThenInsert>),
            },
            Twin {
                name: "setdefault, counted outside",
                symptom: "attempt counted twice",
                explore: || explore(every_error_is_kept_and_counted_once::<naive::CountedOutside>),
            },
        ],
    }]
}

/// What the body needs of an error service. The retry limit is 2.
pub(crate) trait Recovering: Send + Sync + 'static {
    fn new() -> Self;
    /// Records error `n`; the number of the retry that is answered, or `None` for "ask the user".
    fn record_error(&self, n: u32) -> Option<u32>;
    fn kept(&self) -> usize;
}

fn every_error_is_kept_and_counted_once<R: Recovering>() {
    let service = Arc::new(R::new());
    let recorders: Vec<_> = (1..=3)
        .map(|n| {
            let service = Arc::clone(&service);
            thread::spawn(move || service.record_error(n))
        })
        .collect();
    let seen = service.kept();
    let mut answers: Vec<_> = recorders.into_iter().map(|recorder| recorder.join().unwrap()).collect();
    let kept = service.kept();
    // A reader may be the first to whom it shows.
    assert!(seen <= kept && kept == 3, "error record lost: 3 recorded, {seen} seen, {kept} kept");
    answers.sort_unstable();
    assert_eq!(answers, [None, Some(1), Some(2)], "attempt counted twice");
}

struct Ours {
    service: ErrorRecoveryService,
    claim: Claim,
}

impl Recovering for Ours {
    fn new() -> Self {
        let (store, claim) = claimed();
        let policy = RecoveryPolicy::new(2, 30, GateDecision::Ask, 0).unwrap();
        Self { service: ErrorRecoveryService::new(store, policy), claim }
    }

    fn record_error(&self, n: u32) -> Option<u32> {
        let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
        let id = ErrorId::from_u128(n.into());
        let error = NewError::new(id, Phase::Execute, step, ErrorCategory::Timeout, "timed out");
        match block_on(self.service.record_error(&self.claim, error)).unwrap().action {
            RecoveryAction::Retry { attempt, .. } => Some(attempt),
            RecoveryAction::Ask => None,
            other => panic!("{other:?}"),
        }
    }

    fn kept(&self) -> usize {
        block_on(self.service.history(PLAN)).unwrap().records().len()
    }
}

/// The bug of report #7333, and the fix that it suggested.
mod naive {
    use std::collections::HashMap;
    use std::sync::Arc;

    use shuttle::sync::Mutex;

    use super::Recovering;

    const LIMIT: usize = 2;

    type History = Arc<Mutex<Vec<u32>>>;

    fn attempt(recorded: usize) -> Option<u32> {
        (recorded <= LIMIT).then_some(recorded as u32)
    }

    fn kept(plans: &Mutex<HashMap<u32, History>>) -> usize {
        let history = plans.lock().unwrap().get(&1).cloned();
        history.map_or(0, |history| history.lock().unwrap().len())
    }

    /// #7333: absent, so create it; the other thread's is overwritten.
    pub(super) struct CheckThenInsert {
        plans: Mutex<HashMap<u32, History>>,
    }

    impl Recovering for CheckThenInsert {
        fn new() -> Self {
            Self { plans: Mutex::new(HashMap::new()) }
        }

        fn record_error(&self, n: u32) -> Option<u32> {
            let is_absent = !self.plans.lock().unwrap().contains_key(&1);
            if is_absent {
                self.plans.lock().unwrap().insert(1, History::default());
            }
            let history = Arc::clone(&self.plans.lock().unwrap()[&1]);
            let mut history = history.lock().unwrap();
            history.push(n);
            attempt(history.len())
        }

        fn kept(&self) -> usize {
            kept(&self.plans)
        }
    }

    /// An atomic get-or-create that hands the history out: nothing is lost, but two may count the same.
    pub(super) struct CountedOutside {
        plans: Mutex<HashMap<u32, History>>,
    }

    impl Recovering for CountedOutside {
        fn new() -> Self {
            Self { plans: Mutex::new(HashMap::new()) }
        }

        fn record_error(&self, n: u32) -> Option<u32> {
            let history = Arc::clone(self.plans.lock().unwrap().entry(1).or_default());
            history.lock().unwrap().push(n);
            let recorded = history.lock().unwrap().len();
            attempt(recorded)
        }

        fn kept(&self) -> usize {
            kept(&self.plans)
        }
    }
}
