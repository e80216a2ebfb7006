//! The cases: what must hold for every writer, and the explorations of ours and of the naive ones.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use proof::{Case, Twin, effort, execution};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use sync::primitives::thread;

use crate::StoreError;
use crate::disk::{Disk, Failure, Transactions};
use crate::naive::{AnswersFirst, EndsWhenClosed, TestsClosedFirst, WakesOneForEachPlace};
use crate::writer::{Lane, StoreWriter, WriteDurability, WriteTerms, WriterBounds};

/// So small that lanes and batches are often full.
pub(crate) const BOUNDS: WriterBounds =
    WriterBounds { lane_writes_max: 1, batch_writes_max: 2, batch_bytes_max: 1 << 20 };

/// The seed of the explored schedules; `SHUTTLE_RANDOM_SEED` sets another.
const SEED: u64 = 7048;

/// Preemptions that the second half of the schedules may place.
const PCT_DEPTH: usize = 3;

/// The operations of every writer. Dropping it writes what is waiting and ends its thread.
pub(crate) trait Writes: Send + Sync + 'static {
    fn on(disk: Disk) -> Self;
    /// Writes a number, and answers when it is committed.
    fn submit(&self, number: u32, lane: Lane) -> impl Future<Output = Result<(), StoreError>> + Send;
    /// The same for whoever may block.
    fn submit_blocking(&self, number: u32, lane: Lane) -> Result<(), StoreError> {
        block_on(self.submit(number, lane))
    }
    fn close(&self);
}

pub(crate) fn stopped() -> StoreError {
    StoreError::Broken { why: "the writer has stopped".to_owned() }
}

impl Writes for StoreWriter<Transactions> {
    fn on(disk: Disk) -> Self {
        Self::new(BOUNDS, move || Transactions { disk: disk.clone(), has_unmoved: false })
    }

    async fn submit(&self, number: u32, lane: Lane) -> Result<(), StoreError> {
        self.submit(terms(lane), move |written| note(written, number)).await
    }

    fn submit_blocking(&self, number: u32, lane: Lane) -> Result<(), StoreError> {
        self.submit_blocking(terms(lane), move |written| note(written, number))
    }

    fn close(&self) {
        self.close();
    }
}

fn note(written: &RefCell<Vec<u32>>, number: u32) -> Result<(), StoreError> {
    written.borrow_mut().push(number);
    Ok(())
}

fn terms(lane: Lane) -> WriteTerms {
    WriteTerms { lane, durability: WriteDurability::Process, bytes: 1 }
}

pub(crate) fn main() -> ExitCode {
    let each = effort().schedules();
    let bound = format!("{each} random and {each} PCT schedules of depth {PCT_DEPTH}");
    proof::main("shuttle", &bound, CASES)
}

const CASES: &[Case] = &[
    Case {
        seed: "7048",
        name: "2 threads submit beside a failing commit and a shutdown: answered once, after the commit",
        explore: || {
            explore(answered_after_the_commit::<StoreWriter<Transactions>>);
            reached("written", &WRITTEN);
            reached("undone for now", &UNDONE_FOR_NOW);
            reached("undone for good", &UNDONE_FOR_GOOD);
            reached("refused by a writer that has stopped", &REFUSED);
        },
        twins: &[
            Twin {
                name: "answer first",
                symptom: "answered Ok, and not committed",
                explore: || explore(answered_after_the_commit::<AnswersFirst>),
            },
            Twin {
                name: "closed tested, then pushed",
                symptom: "deadlock!",
                explore: || explore(answered_after_the_commit::<TestsClosedFirst>),
            },
        ],
    },
    Case {
        seed: "7048",
        name: "3 threads submit into a full lane and one gives up: none is forgotten",
        explore: || {
            explore(none_is_forgotten::<StoreWriter<Transactions>>);
            reached("given up before its turn", &GIVEN_UP);
        },
        twins: &[Twin {
            name: "one woken for each place",
            symptom: "deadlock!",
            explore: || explore(none_is_forgotten::<WakesOneForEachPlace>),
        }],
    },
    Case {
        seed: "7048",
        name: "a shutdown beside a write whose asker went away: what was taken in is written",
        explore: || explore(what_was_taken_in_is_written::<StoreWriter<Transactions>>),
        twins: &[Twin {
            name: "ends as soon as it is closed",
            symptom: "taken in, and not written",
            explore: || explore(what_was_taken_in_is_written::<EndsWhenClosed>),
        }],
    },
];

/// Situations that an exploration must have met, or it has shown nothing about them; counted outside of the
/// explored world.
static WRITTEN: AtomicUsize = AtomicUsize::new(0);
static UNDONE_FOR_NOW: AtomicUsize = AtomicUsize::new(0);
static UNDONE_FOR_GOOD: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);

fn meet(situation: &AtomicUsize) {
    situation.fetch_add(1, Ordering::Relaxed);
}

fn reached(what: &str, situation: &AtomicUsize) {
    assert!(situation.load(Ordering::Relaxed) > 0, "no schedule met the situation: {what}");
}

fn explore(body: fn()) {
    let mut config = Config::new();
    config.silence_warnings = true;
    let body = move || {
        execution();
        body();
    };
    Runner::new(RandomScheduler::new_from_seed(SEED, effort().schedules()), config.clone()).run(body);
    Runner::new(PctScheduler::new_from_seed(SEED, PCT_DEPTH, effort().schedules()), config).run(body);
}

/// Two threads submit twice each, into either lane, while one of the commits fails and a third thread shuts
/// down.
fn answered_after_the_commit<W: Writes>() {
    let disk = Disk::that_fails();
    let writer = Arc::new(W::on(disk.clone()));
    let submitters = [10, 20].map(|first| {
        let (writer, disk) = (Arc::clone(&writer), disk.clone());
        thread::spawn(move || [first, first + 1].map(|number| (number, submit(&*writer, number, &disk))))
    });
    let closer = {
        let writer = Arc::clone(&writer);
        thread::spawn(move || writer.close())
    };
    let answers = submitters.map(|submitter| submitter.join().expect("a submitter does not panic"));
    closer.join().expect("a shutdown does not panic");
    drop(writer);

    let told: BTreeSet<u32> =
        answers.iter().flatten().filter(|(_, answer)| answer.is_ok()).map(|(number, _)| *number).collect();
    let committed = disk.committed();
    assert_eq!(committed.len(), told.len(), "{told:?} were told Ok, {committed:?} are committed");
    assert_eq!(BTreeSet::from_iter(committed), told, "who was told Ok is there, and who was not is not");
}

fn submit<W: Writes>(writer: &W, number: u32, disk: &Disk) -> Result<(), StoreError> {
    let lane = if thread_rng().r#gen() { Lane::First } else { Lane::Second };
    let answer = writer.submit_blocking(number, lane);
    let committed = disk.committed();
    match &answer {
        Ok(()) => {
            assert!(committed.contains(&number), "answered Ok, and not committed: {number} of {committed:?}");
            meet(&WRITTEN);
        }
        Err(error) if *error == Failure::ForNow.error() => meet(&UNDONE_FOR_NOW),
        Err(error) if *error == Failure::ForGood.error() => meet(&UNDONE_FOR_GOOD),
        Err(error) => {
            assert_eq!(*error, stopped());
            meet(&REFUSED);
        }
    }
    answer
}

/// Three threads submit into a lane with one place; one of them asks once and goes away.
fn none_is_forgotten<W: Writes>() {
    let disk = Disk::that_works();
    let writer = Arc::new(W::on(disk.clone()));
    let submitters = [1, 2].map(|number| {
        let writer = Arc::clone(&writer);
        thread::spawn(move || writer.submit_blocking(number, Lane::Second))
    });
    let gives_up = {
        let writer = Arc::clone(&writer);
        thread::spawn(move || ask_and_go_away(&*writer, 3))
    };
    for submitter in submitters {
        assert_eq!(submitter.join().expect("a submitter does not panic"), Ok(()));
    }
    gives_up.join().expect("who gives up does not panic");
    drop(writer);

    let mut committed = disk.committed();
    committed.sort_unstable();
    if committed == [1, 2] {
        return meet(&GIVEN_UP);
    }
    assert_eq!(committed, [1, 2, 3], "each is written once");
}

/// The lane is empty, so the write is taken in at once; then the writer is dropped.
fn what_was_taken_in_is_written<W: Writes>() {
    let disk = Disk::that_works();
    let writer = W::on(disk.clone());
    ask_and_go_away(&writer, 1);
    drop(writer);
    let committed = disk.committed();
    assert_eq!(committed, [1], "taken in, and not written: 1 of {committed:?}");
}

fn ask_and_go_away<W: Writes>(writer: &W, number: u32) {
    let asked = pin!(writer.submit(number, Lane::Second)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(asked.is_pending() || asked == Poll::Ready(Ok(())), "refused: {asked:?}");
}
