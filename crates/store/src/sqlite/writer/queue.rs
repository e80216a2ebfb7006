//! The queue of the writer: two bounded lanes.
//!
//! # Invariants
//! 1. The first lane is emptied before the other; within a lane the order is that of arrival.
//! 2. A caller that finds its lane full is woken as soon as there is room, and tries again. None is
//!    forgotten, even if another woken caller no longer wants its place.
//! 3. No foreign code (wakers, answers) runs under the lock.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};
use std::time::Duration;

use sync::primitives::{Condvar, Mutex, lock};

use super::{BatchCommitter, PendingWrite, WriterBounds};
use crate::StoreError;

/// The priority of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lane {
    /// Heartbeats and cancels: late ones do harm.
    First,
    /// Everything else.
    Second,
}

/// The batch that the writer takes from the lanes.
pub(super) enum LaneBatch<C: BatchCommitter> {
    Writes {
        writes: Vec<PendingWrite<C>>,
        /// True if the lanes were empty before.
        waited: bool,
    },
    /// Nothing came for as long as it would wait.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

pub(super) struct Lanes<C: BatchCommitter> {
    bounds: WriterBounds,
    state: Mutex<State<C>>,
    arrived: Condvar,
}

struct State<C: BatchCommitter> {
    first: VecDeque<PendingWrite<C>>,
    second: VecDeque<PendingWrite<C>>,
    /// Those that found their lane full.
    waiting: Vec<Waker>,
    closed: bool,
    /// Why nothing is taken in.
    refusing: Option<StoreError>,
}

impl<C: BatchCommitter> State<C> {
    fn new() -> Self {
        let (first, second) = (VecDeque::new(), VecDeque::new());
        Self { first, second, waiting: Vec::new(), closed: false, refusing: None }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<PendingWrite<C>> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Second => &mut self.second,
        }
    }

    fn take(&mut self, bounds: WriterBounds) -> Vec<PendingWrite<C>> {
        let mut writes = Vec::with_capacity(self.first.len().min(bounds.batch_writes_max));
        let mut bytes: usize = 0;
        while writes.len() < bounds.batch_writes_max && bytes < bounds.batch_bytes_max {
            let Some(pending) = self.first.pop_front().or_else(|| self.second.pop_front()) else { break };
            bytes = bytes.saturating_add(pending.terms.bytes);
            writes.push(pending);
        }
        writes
    }
}

impl<C: BatchCommitter> Lanes<C> {
    pub(super) fn new(bounds: WriterBounds) -> Self {
        Self { bounds, state: Mutex::new(State::new()), arrived: Condvar::new() }
    }

    /// Puts a write into its lane, when there is room.
    pub(super) async fn push(&self, pending: PendingWrite<C>) -> Result<(), StoreError> {
        let mut pending = Some(pending);
        let mut waker: Option<Waker> = None;
        poll_fn(|context| {
            // First without a waker: there is nearly always room.
            if let Some(pushed) = self.try_push(&mut pending, &mut waker) {
                return Poll::Ready(pushed);
            }
            waker = Some(context.waker().clone());
            self.try_push(&mut pending, &mut waker).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Returns whether it was taken in; `None` if there was no room, and `waker`, if given, is stored until
    /// there is.
    fn try_push(
        &self,
        pending: &mut Option<PendingWrite<C>>,
        waker: &mut Option<Waker>,
    ) -> Option<Result<(), StoreError>> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.refusing {
            return Some(Err(error.clone()));
        }
        let lane = pending.as_ref().map_or(Lane::Second, |pending| pending.terms.lane);
        let lane = state.lane(lane);
        if lane.len() >= self.bounds.lane_writes_max {
            state.waiting.extend(waker.take());
            return None;
        }
        lane.extend(pending.take());
        drop(state);
        self.arrived.notify_one();
        Some(Ok(()))
    }

    /// Waits until there is something; with `patience` no longer than that.
    pub(super) fn take(&self, patience: Option<Duration>) -> LaneBatch<C> {
        let mut state = lock(&self.state);
        let mut waited = false;
        let writes = loop {
            let writes = state.take(self.bounds);
            if !writes.is_empty() {
                break writes;
            }
            if state.closed {
                return LaneBatch::Closed;
            }
            if waited && patience.is_some() {
                return LaneBatch::Nothing;
            }
            waited = true;
            state = match patience {
                Some(patience) => {
                    self.arrived.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        };
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        LaneBatch::Writes { writes, waited }
    }

    /// Closes the lanes: the writes in them are still written; then the writer ends.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.arrived.notify_one();
    }

    /// Answers every caller with `error`, from now on.
    pub(super) fn refuse(&self, error: &StoreError) {
        let (waiting, writes) = {
            let mut state = lock(&self.state);
            state.refusing.get_or_insert_with(|| error.clone());
            let mut writes = std::mem::take(&mut state.first);
            writes.append(&mut state.second);
            (std::mem::take(&mut state.waiting), writes)
        };
        waiting.into_iter().for_each(Waker::wake);
        writes.into_iter().for_each(|pending| pending.write.answer(Err(error.clone())));
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn waiting_writes(&self) -> usize {
        let state = lock(&self.state);
        state.first.len() + state.second.len()
    }
}
