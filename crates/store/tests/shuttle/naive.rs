//! Writers as one would write them first, each with one flaw.
//!
//! Each keeps the promises that its flaw does not break, so that what the exploration finds is the flaw.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

use futures_channel::oneshot;
use sync::primitives::thread;
use sync::primitives::thread::JoinHandle;
use sync::primitives::{Condvar, Mutex, lock};

use crate::StoreError;
use crate::cases::{BOUNDS, Writes, stopped};
use crate::disk::{Disk, Failure};
use crate::writer::Lane;

/// The flaw of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// Everybody is answered as soon as the writes have run; the commit comes then.
    AnswersFirst,
    /// A submit looks whether the writer is closed, and then puts its write into the lane: two steps.
    TestsClosedFirst,
    /// As many are woken as there are places; a place of one that has gone away is nobody's.
    WakesOneForEachPlace,
    /// The thread looks whether it is closed before it looks into the lane.
    EndsWhenClosed,
}

struct Naive {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    flaw: Flaw,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    lane: VecDeque<Asked>,
    waiting: VecDeque<Waker>,
    closed: bool,
}

struct Asked {
    number: u32,
    asker: oneshot::Sender<Result<(), StoreError>>,
}

impl Naive {
    fn new(flaw: Flaw, disk: Disk) -> Self {
        let shared = Arc::new(Shared { flaw, state: Mutex::default(), arrived: Condvar::new() });
        let thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.write_until_closed(&disk))
        };
        Self { shared, thread: Some(thread) }
    }
}

impl Drop for Naive {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the writer does not panic");
        }
    }
}

impl Shared {
    async fn submit(&self, number: u32) -> Result<(), StoreError> {
        let (asker, answer) = oneshot::channel();
        let mut asked = Some(Asked { number, asker });
        if self.flaw == Flaw::TestsClosedFirst && lock(&self.state).closed {
            return Err(stopped());
        }
        poll_fn(|context| {
            let mut state = lock(&self.state);
            if self.flaw != Flaw::TestsClosedFirst && state.closed {
                return Poll::Ready(Err(stopped()));
            }
            if state.lane.len() >= BOUNDS.lane_writes_max {
                state.waiting.push_back(context.waker().clone());
                return Poll::Pending;
            }
            state.lane.extend(asked.take());
            drop(state);
            self.arrived.notify_one();
            Poll::Ready(Ok(()))
        })
        .await?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn close(&self) {
        let waiting = {
            let mut state = lock(&self.state);
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        self.arrived.notify_one();
        waiting.into_iter().for_each(Waker::wake);
    }

    fn write_until_closed(&self, disk: &Disk) {
        let mut failed_for_good = None;
        while let Some(batch) = self.take() {
            if let Some(failure) = failed_for_good {
                answer(batch, Err(failure));
                continue;
            }
            let written = batch.iter().map(|asked| asked.number).collect();
            let done = if self.flaw == Flaw::AnswersFirst {
                answer(batch, Ok(()));
                disk.commit(written)
            } else {
                let done = disk.commit(written);
                answer(batch, done);
                done
            };
            failed_for_good = done.err().filter(|failure| *failure == Failure::ForGood);
        }
    }

    /// The writes in the lane; none when nothing will come any more.
    fn take(&self) -> Option<VecDeque<Asked>> {
        let mut state = lock(&self.state);
        while state.lane.is_empty() || self.flaw == Flaw::EndsWhenClosed && state.closed {
            if state.closed {
                return None;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let batch = std::mem::take(&mut state.lane);
        let woken = match self.flaw {
            Flaw::WakesOneForEachPlace => batch.len().min(state.waiting.len()),
            Flaw::AnswersFirst | Flaw::TestsClosedFirst | Flaw::EndsWhenClosed => state.waiting.len(),
        };
        let woken: Vec<Waker> = state.waiting.drain(..woken).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Some(batch)
    }
}

fn answer(batch: VecDeque<Asked>, done: Result<(), Failure>) {
    for asked in batch {
        // A caller that no longer waits does not need it.
        let _ = asked.asker.send(done.map_err(Failure::error));
    }
}

macro_rules! naive {
    ($name:ident) => {
        pub(crate) struct $name(Naive);

        impl Writes for $name {
            fn on(disk: Disk) -> Self {
                Self(Naive::new(Flaw::$name, disk))
            }

            async fn submit(&self, number: u32, _: Lane) -> Result<(), StoreError> {
                self.0.shared.submit(number).await
            }

            fn close(&self) {
                self.0.shared.close();
            }
        }
    };
}

naive!(AnswersFirst);
naive!(TestsClosedFirst);
naive!(WakesOneForEachPlace);
naive!(EndsWhenClosed);
