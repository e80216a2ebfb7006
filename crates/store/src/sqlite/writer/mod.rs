//! The one writer of this process: takes the writes that are ready, commits them in one transaction, then
//! answers.
//!
//! # How it goes
//! 1. A port [submits](StoreWriter::submit) a write and awaits its answer. Urgent ones (heartbeats, cancels)
//!    overtake the others.
//! 2. The writer's thread takes all that is ready within its [`BOUNDS`], and waits for nothing more. One
//!    write alone goes at once, many share one commit.
//! 3. Each write runs in a savepoint: one that is refused, fails or panics is undone alone.
//! 4. After the commit, and only then, all callers are answered.
//!
//! # Invariants
//! 1. No caller gets `Ok` for a write that is not committed; one durable write makes its whole batch durable.
//! 2. Writes of one lane happen in the order in which they were submitted.
//! 3. A lane holds at most `lane_writes_max` writes; a further caller waits without blocking its thread.
//! 4. After a commit that failed for a reason other than space or time, nothing is written any more.
//! 5. Every write that was taken in is answered once, also when the store is dropped.
//!
//! # Not here
//! The content of the writes: the ports. SQLite: `batch`, behind [`BatchCommitter`], so that the model check
//! in `tests/shuttle` explores this folder as it is, over commits that fail by a script. Reading: `readers`.

mod queue;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use sync::contained;
use sync::primitives::thread;
use sync::primitives::thread::{JoinHandle, Thread};
use sync::primitives::{Mutex, lock};

use crate::StoreError;
pub(super) use queue::Lane;
use queue::{LaneBatch, Lanes};

/// The limits of the queue and of one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterBounds {
    /// The most writes that may wait in a lane.
    pub(super) lane_writes_max: usize,
    /// The most writes that share a commit.
    pub(super) batch_writes_max: usize,
    /// The most bytes of writes that share a commit.
    pub(super) batch_bytes_max: usize,
}

/// Those of every store.
pub(super) const BOUNDS: WriterBounds =
    WriterBounds { lane_writes_max: 1024, batch_writes_max: 256, batch_bytes_max: 4 * 1024 * 1024 };

/// After so long without a pause the writer makes one, for other processes.
const BACK_TO_BACK_MAX: Duration = Duration::from_millis(50);
/// That pause.
const REST: Duration = Duration::from_millis(1);
/// After so long without a write the log is moved into the database.
const IDLE: Duration = Duration::from_millis(200);

/// The durability of an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteDurability {
    /// The end of the process, however sudden.
    Process,
    /// The end of the machine's power.
    Power,
}

/// The lane, durability and size of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTerms {
    pub(super) lane: Lane,
    pub(super) durability: WriteDurability,
    /// About how many bytes it writes.
    pub(super) bytes: usize,
}

/// Commits batches, in one transaction each: SQLite, or the script of a model check.
pub(super) trait BatchCommitter: Send + Sized + 'static {
    /// The transaction in which a write runs.
    type Tx<'t>;

    /// Runs each of them and commits what they wrote: whole or not at all. Those that were undone alone do
    /// not count.
    fn commit(&mut self, writes: &mut [PendingWrite<Self>]) -> Result<(), FailedBatch>;

    /// Returns whether something was committed since the last [`checkpoint`](Self::checkpoint).
    fn has_unmoved(&self) -> bool;

    /// Tidies up; there is time for it.
    fn checkpoint(&mut self);
}

/// The reason why a batch was not committed.
pub(super) struct FailedBatch {
    error: StoreError,
    /// True if the store can no longer be trusted with the next batch.
    broken: bool,
}

impl FailedBatch {
    pub(super) fn for_now(error: StoreError) -> Self {
        Self { error, broken: false }
    }

    pub(super) fn for_good(error: StoreError) -> Self {
        Self { error, broken: true }
    }
}

/// A write, and the caller that waits for its answer.
trait QueuedWrite<C: BatchCommitter>: Send {
    /// Runs it within a transaction; false when it is to be undone.
    fn run(&mut self, tx: &C::Tx<'_>) -> bool;

    /// Answers, with what `run` came to if the transaction was committed.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A write in a lane, or in a batch.
pub(super) struct PendingWrite<C: BatchCommitter> {
    write: Box<dyn QueuedWrite<C>>,
    terms: WriteTerms,
}

impl<C: BatchCommitter> PendingWrite<C> {
    pub(super) fn durability(&self) -> WriteDurability {
        self.terms.durability
    }

    /// Runs it within a transaction; false when it is to be undone.
    pub(super) fn run(&mut self, tx: &C::Tx<'_>) -> bool {
        self.write.run(tx)
    }
}

struct WriteRequest<T, E, F> {
    act: Option<F>,
    came_to: Option<Result<T, E>>,
    asker: oneshot::Sender<Result<T, E>>,
}

impl<C, T, E, F> QueuedWrite<C> for WriteRequest<T, E, F>
where
    C: BatchCommitter,
    T: Send,
    E: From<StoreError> + Send,
    F: FnOnce(&C::Tx<'_>) -> Result<T, E> + Send,
{
    fn run(&mut self, tx: &C::Tx<'_>) -> bool {
        let Some(act) = self.act.take() else { return false };
        let came_to = contained(|| act(tx)).unwrap_or_else(|panicked| {
            Err(StoreError::Broken { why: format!("a write {panicked}; it was rolled back") }.into())
        });
        self.came_to.insert(came_to).is_ok()
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let unanswered = || Err(stopped().into());
        let answer = match committed {
            Ok(()) => self.came_to.unwrap_or_else(unanswered),
            // Also one that was refused: the refusal may rest on what its neighbours wrote.
            Err(error) => Err(error.into()),
        };
        // A caller that no longer waits does not need it.
        let _ = self.asker.send(answer);
    }
}

fn stopped() -> StoreError {
    StoreError::Broken { why: "the writer has stopped".to_owned() }
}

/// The writer's handle. Dropping it writes what is waiting and ends the thread.
pub(super) struct StoreWriter<C: BatchCommitter> {
    lanes: Arc<Lanes<C>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    batches: Box<dyn Fn() -> C + Send + Sync>,
}

impl<C: BatchCommitter> StoreWriter<C> {
    /// A writer whose thread starts with the first write, on what `batches` makes: commands that only read
    /// need none.
    pub(super) fn new(bounds: WriterBounds, batches: impl Fn() -> C + Send + Sync + 'static) -> Self {
        let lanes = Arc::new(Lanes::new(bounds));
        Self { lanes, thread: Mutex::new(None), batches: Box::new(batches) }
    }

    /// Writes, and answers when it is committed.
    pub(super) async fn submit<T, E>(
        &self,
        terms: WriteTerms,
        act: impl FnOnce(&C::Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.start()?;
        let (asker, answer) = oneshot::channel();
        let write = Box::new(WriteRequest { act: Some(act), came_to: None, asker });
        self.lanes.push(PendingWrite { write, terms }).await?;
        answer.await.unwrap_or_else(|_| Err(stopped().into()))
    }

    /// The same for callers that may block.
    pub(super) fn submit_blocking<T, E>(
        &self,
        terms: WriteTerms,
        act: impl FnOnce(&C::Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        block_on(self.submit(terms, act))
    }

    fn start(&self) -> Result<(), StoreError> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let lanes = Arc::clone(&self.lanes);
            let batches = (self.batches)();
            let started = thread::Builder::new()
                .name("store-writer".to_owned())
                .spawn(move || write_until_closed(&lanes, batches));
            let cannot = |error| StoreError::Broken { why: format!("the writer did not start: {error}") };
            *thread = Some(started.map_err(cannot)?);
        }
        Ok(())
    }

    /// Closes the writer: it writes the writes in its lanes, writes or refuses those that come before its
    /// thread has ended, and refuses the rest.
    pub(super) fn close(&self) {
        self.lanes.close();
    }
}

impl<C: BatchCommitter> Drop for StoreWriter<C> {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = lock(&self.thread).take() {
            // It contains the panics of all writes; its own has no caller left to report to.
            let _ = thread.join();
        }
    }
}

fn write_until_closed<C: BatchCommitter>(lanes: &Lanes<C>, mut batches: C) {
    let _ended = RefuseOnExit(lanes);
    let mut since = Instant::now();
    loop {
        let patience = batches.has_unmoved().then_some(IDLE);
        match lanes.take(patience) {
            LaneBatch::Writes { writes, waited } => {
                if waited {
                    since = Instant::now();
                }
                if let Err(broken) = write(&mut batches, writes) {
                    lanes.refuse(&broken);
                }
                if since.elapsed() >= BACK_TO_BACK_MAX {
                    thread::sleep(REST);
                    since = Instant::now();
                }
            }
            LaneBatch::Nothing => batches.checkpoint(),
            LaneBatch::Closed => break,
        }
    }
    batches.checkpoint();
}

/// Writes them in one transaction, then answers.
///
/// # Errors
/// Nothing may be written any more.
fn write<C: BatchCommitter>(batches: &mut C, mut writes: Vec<PendingWrite<C>>) -> Result<(), StoreError> {
    let done = batches.commit(&mut writes);
    let answer = match &done {
        Ok(()) => Ok(()),
        Err(undone) => Err(undone.error.clone()),
    };
    for pending in writes {
        pending.write.answer(answer.clone());
    }
    match done {
        Err(FailedBatch { error, broken: true }) => Err(error),
        Err(FailedBatch { broken: false, .. }) | Ok(()) => Ok(()),
    }
}

/// Refuses the waiting writes when the thread ends, however it ends.
struct RefuseOnExit<'l, C: BatchCommitter>(&'l Lanes<C>);

impl<C: BatchCommitter> Drop for RefuseOnExit<'_, C> {
    fn drop(&mut self) {
        self.0.refuse(&stopped());
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

// On SQLite, which a model check does without.
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
