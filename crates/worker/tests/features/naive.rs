//! The bugs of the four reports, as their Python has them, with a place to stop at each race.
//!
//! What is one step under CPython's lock (one operation of a dict, a set or a list) is one step here; what is
//! several steps there is several here. A scenario stops a thread between two of them, and the symptom of the
//! report shows.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};

use crate::threads::Pauses;

// ---- #7088: acms_pipeline.py

/// Where a thread can be stopped inside [`CircuitBreaker`].
#[derive(Debug, PartialEq)]
pub(crate) enum BreakerPoint {
    /// `record_failure`: the count is read and not written.
    CountRead,
    /// `record_success`: the count is 0, and the disabled set is as it was.
    CountCleared,
}

/// `_failures: dict[str, int]` and `_disabled: set[str]`, with nothing that holds them together.
pub(crate) struct CircuitBreaker {
    failure_threshold: u32,
    failures: Mutex<HashMap<String, u32>>,
    disabled: Mutex<HashSet<String>>,
    pub(crate) pauses: Pauses<BreakerPoint>,
}

impl CircuitBreaker {
    pub(crate) fn new(failure_threshold: u32) -> Self {
        Self {
            failure_threshold,
            failures: Mutex::default(),
            disabled: Mutex::default(),
            pauses: Pauses::default(),
        }
    }

    pub(crate) fn record_success(&self, name: &str) {
        self.failures.lock().unwrap().insert(name.to_owned(), 0);
        self.pauses.at(BreakerPoint::CountCleared);
        self.disabled.lock().unwrap().remove(name);
    }

    pub(crate) fn record_failure(&self, name: &str) {
        let count = self.failures(name) + 1;
        self.pauses.at(BreakerPoint::CountRead);
        self.failures.lock().unwrap().insert(name.to_owned(), count);
        if count >= self.failure_threshold {
            self.disabled.lock().unwrap().insert(name.to_owned());
        }
    }

    pub(crate) fn is_open(&self, name: &str) -> bool {
        self.disabled.lock().unwrap().contains(name)
    }

    pub(crate) fn reset(&self, name: &str) {
        self.failures.lock().unwrap().remove(name);
        self.disabled.lock().unwrap().remove(name);
    }

    pub(crate) fn reset_all(&self) {
        self.failures.lock().unwrap().clear();
        self.disabled.lock().unwrap().clear();
    }

    /// `_failures.get(name, 0)`.
    pub(crate) fn failures(&self, name: &str) -> u32 {
        self.failures.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

/// One strategy of one pipeline: skipped when disabled, else run and recorded.
pub(crate) fn execute_parallel(
    circuit_breaker: &CircuitBreaker,
    name: &str,
    strategy: impl FnOnce() -> Result<(), &'static str>,
) {
    if circuit_breaker.is_open(name) {
        return;
    }
    match strategy() {
        Ok(()) => circuit_breaker.record_success(name),
        Err(_) => circuit_breaker.record_failure(name),
    }
}

// ---- #7120: plan_execution_context.py

/// Where a thread can be stopped inside [`PlanExecutionContext`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ContextPoint {
    /// `start_changeset`: the store has started the changeset, the list does not have it.
    StoreStarted,
    /// `start_changeset`: the list has grown, and the place for its last element is still empty.
    MidAppend,
    /// `record_change`: the changeset is looked up, and nothing is recorded.
    LookedUp,
}

/// How `_active_changeset_ids` is guarded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Guard {
    /// Not at all, as reported.
    None,
    /// As the report suggests: a lock round the append, and round the guard and the lookup, but not round the
    /// recording.
    LockRoundLookup,
}

/// `_active_changeset_ids: list[str]` beside the store.
pub(crate) struct PlanExecutionContext {
    guard: Guard,
    /// Name and entries of each changeset, as the store has them.
    store: Mutex<Vec<(String, Vec<String>)>>,
    active_changeset_ids: List,
    changeset_lock: Mutex<()>,
    pub(crate) pauses: Arc<Pauses<ContextPoint>>,
}

/// A list whose append is two steps: it grows, then its last place is filled.
#[derive(Default)]
struct List {
    length: Mutex<usize>,
    items: Mutex<Vec<String>>,
}

impl List {
    fn append(&self, item: String, pauses: &Pauses<ContextPoint>) {
        *self.length.lock().unwrap() += 1;
        pauses.at(ContextPoint::MidAppend);
        self.items.lock().unwrap().push(item);
    }

    fn is_empty(&self) -> bool {
        *self.length.lock().unwrap() == 0
    }

    /// `[-1]`.
    fn last(&self) -> String {
        let last = self.items.lock().unwrap().last().cloned();
        last.unwrap_or_else(|| panic!("IndexError: list index out of range"))
    }
}

impl PlanExecutionContext {
    pub(crate) fn new(guard: Guard) -> Self {
        Self {
            guard,
            store: Mutex::default(),
            active_changeset_ids: List::default(),
            changeset_lock: Mutex::default(),
            pauses: Arc::default(),
        }
    }

    pub(crate) fn start_changeset(&self, changeset_id: &str) {
        self.store.lock().unwrap().push((changeset_id.to_owned(), Vec::new()));
        self.pauses.at(ContextPoint::StoreStarted);
        let append = || {
            self.active_changeset_ids.append(changeset_id.to_owned(), &self.pauses);
        };
        self.guarded(append);
    }

    pub(crate) fn record_change(&self, entry: &str) -> Result<(), &'static str> {
        let look_up = || {
            if self.active_changeset_ids.is_empty() {
                return Err("No active changeset. Call start_changeset() first.");
            }
            Ok(self.active_changeset_ids.last())
        };
        let changeset_id = self.guarded(look_up)?;
        self.pauses.at(ContextPoint::LookedUp);
        let mut store = self.store.lock().unwrap();
        let changeset = store.iter_mut().find(|(id, _)| *id == changeset_id);
        changeset.expect("it was started").1.push(entry.to_owned());
        Ok(())
    }

    /// What the store has.
    pub(crate) fn changesets(&self) -> Vec<(String, Vec<String>)> {
        self.store.lock().unwrap().clone()
    }

    fn guarded<T>(&self, act: impl FnOnce() -> T) -> T {
        match self.guard {
            Guard::None => act(),
            Guard::LockRoundLookup => {
                let _guard = self.changeset_lock.lock().unwrap();
                act()
            }
        }
    }
}

// ---- #7333: error_recovery_service.py

/// Where a thread can be stopped inside [`ErrorRecoveryService`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RecoveryPoint {
    /// `_get_or_create_history`: the plan had no history, a new one is made and not yet assigned.
    HistoryMade,
    /// `record_error`: the retries are counted, and the record is not yet added.
    RetriesCounted,
}

/// How a history is found or created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Creation {
    /// `if plan_id not in self._histories`, as reported.
    CheckThenAssign,
    /// `self._histories.setdefault(…)`, as the report suggests.
    SetDefault,
}

/// An error with the number of the retry that was answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ErrorRecord {
    pub(crate) message: String,
    pub(crate) retry: usize,
}

type ErrorHistory = Arc<Mutex<Vec<ErrorRecord>>>;

/// `_histories: dict[str, ErrorHistory]`.
pub(crate) struct ErrorRecoveryService {
    creation: Creation,
    histories: Mutex<HashMap<String, ErrorHistory>>,
    pub(crate) pauses: Pauses<RecoveryPoint>,
}

impl ErrorRecoveryService {
    pub(crate) fn new(creation: Creation) -> Self {
        Self { creation, histories: Mutex::default(), pauses: Pauses::default() }
    }

    /// Answers which retry of the step this is.
    pub(crate) fn record_error(&self, plan_id: &str, message: &str) -> usize {
        let history = self.get_or_create_history(plan_id);
        let retry = history.lock().unwrap().len() + 1;
        self.pauses.at(RecoveryPoint::RetriesCounted);
        history.lock().unwrap().push(ErrorRecord { message: message.to_owned(), retry });
        retry
    }

    fn get_or_create_history(&self, plan_id: &str) -> ErrorHistory {
        match self.creation {
            Creation::CheckThenAssign => {
                let is_absent = !self.histories.lock().unwrap().contains_key(plan_id);
                if is_absent {
                    let history = ErrorHistory::default();
                    self.pauses.at(RecoveryPoint::HistoryMade);
                    self.histories.lock().unwrap().insert(plan_id.to_owned(), history);
                }
                Arc::clone(&self.histories.lock().unwrap()[plan_id])
            }
            Creation::SetDefault => {
                let mut histories = self.histories.lock().unwrap();
                Arc::clone(histories.entry(plan_id.to_owned()).or_default())
            }
        }
    }

    pub(crate) fn history(&self, plan_id: &str) -> Vec<ErrorRecord> {
        let histories = self.histories.lock().unwrap();
        let records = |history: &ErrorHistory| history.lock().unwrap().clone();
        histories.get(plan_id).map(records).unwrap_or_default()
    }
}

// ---- #7166: async_worker.py

/// Where a thread can be stopped while it waits for a cancel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WaitPoint {
    /// It is about to sleep, and no cancel can come before it does without waking it.
    Blocked,
    /// It was woken, and has not looked.
    Woken,
}

/// `_cancelled: threading.Event`.
///
/// The event has a lock, which is the one that the report asks for: `set` and `clear` never mix. What the
/// lock cannot do is to keep a signal for somebody who has not looked yet.
#[derive(Default)]
pub(crate) struct CancellationToken {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl CancellationToken {
    pub(crate) fn cancel(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    pub(crate) fn reset(&self) {
        *self.is_set.lock().unwrap() = false;
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        *self.is_set.lock().unwrap()
    }

    /// Sleeps until a cancel wakes it, then looks.
    pub(crate) fn wait(&self, pauses: &Pauses<WaitPoint>) -> bool {
        let is_set = self.is_set.lock().unwrap();
        if !*is_set {
            pauses.at(WaitPoint::Blocked);
            drop(self.changed.wait(is_set).unwrap());
            pauses.at(WaitPoint::Woken);
        }
        self.is_cancelled()
    }
}

/// Where a worker can be stopped inside [`JobQueue::poll`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QueuePoint {
    /// A queued job is found, and not yet marked as running.
    Found,
}

/// Jobs whose status is read and then written.
#[derive(Default)]
pub(crate) struct JobQueue {
    is_running: Mutex<Vec<bool>>,
    runs: Mutex<Vec<usize>>,
    pub(crate) pauses: Pauses<QueuePoint>,
}

impl JobQueue {
    /// Queues a job.
    pub(crate) fn enqueue(&self) {
        self.is_running.lock().unwrap().push(false);
    }

    /// What a worker does: finds a queued job, marks it, runs it.
    pub(crate) fn poll(&self) {
        let queued = self.is_running.lock().unwrap().iter().position(|is_running| !is_running);
        self.pauses.at(QueuePoint::Found);
        if let Some(job) = queued {
            self.is_running.lock().unwrap()[job] = true;
            self.runs.lock().unwrap().push(job);
        }
    }

    /// The jobs that were run, as often as they were.
    pub(crate) fn runs(&self) -> Vec<usize> {
        self.runs.lock().unwrap().clone()
    }
}
