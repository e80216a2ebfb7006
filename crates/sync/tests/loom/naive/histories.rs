//! Naive histories. `CheckThenInsert` is the bug of report #7333; `CountedOutside` is the fix it suggested.

use std::collections::HashMap;
use std::sync::Arc;

use loom::sync::Mutex;

use crate::histories::Histories;

type History = Arc<Mutex<Vec<u32>>>;

/// #7333: absent, so create it; the other thread's is overwritten.
pub(crate) struct CheckThenInsert {
    plans: Mutex<HashMap<u32, History>>,
}

impl CheckThenInsert {
    fn get_or_create(&self) -> History {
        let is_absent = !self.plans.lock().unwrap().contains_key(&1);
        if is_absent {
            self.plans.lock().unwrap().insert(1, History::default());
        }
        Arc::clone(&self.plans.lock().unwrap()[&1])
    }
}

impl Histories for CheckThenInsert {
    fn new() -> Self {
        Self { plans: Mutex::new(HashMap::new()) }
    }

    fn record(&self, error: u32) -> usize {
        let history = self.get_or_create();
        let mut history = history.lock().unwrap();
        history.push(error);
        history.len()
    }

    fn kept(&self) -> usize {
        self.plans.lock().unwrap().get(&1).map_or(0, |history| history.lock().unwrap().len())
    }
}

/// An atomic get-or-create that hands the history out: nothing is overwritten, but the count is taken later.
pub(crate) struct CountedOutside {
    plans: Mutex<HashMap<u32, History>>,
}

impl Histories for CountedOutside {
    fn new() -> Self {
        Self { plans: Mutex::new(HashMap::new()) }
    }

    fn record(&self, error: u32) -> usize {
        let history = Arc::clone(self.plans.lock().unwrap().entry(1).or_default());
        history.lock().unwrap().push(error);
        history.lock().unwrap().len()
    }

    fn kept(&self) -> usize {
        self.plans.lock().unwrap().get(&1).map_or(0, |history| history.lock().unwrap().len())
    }
}
