//! The same work on many things at once, with the answers in the order of the things.
//!
//! # Invariants
//! 1. The order of the answers is that of the things, independent of the threads.
//! 2. A panic of the work is the caller's, as if it had worked alone.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than this gain nothing for work of milliseconds.
const THREADS_MAX: usize = 8;

/// `work(0)`, `work(1)` … `work(count - 1)`, on all cores, `block` of them at a time.
pub(crate) fn in_parallel<T: Send>(count: usize, block: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    in_parallel_with(count, block, || (), |(), at| work(at))
}

/// The same, with a state that each thread makes for itself and reuses for all its items. It must not change
/// the answers.
pub(crate) fn in_parallel_with<S, T: Send>(
    count: usize,
    block: usize,
    make: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let block = block.max(1);
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.min(THREADS_MAX).min(count.div_ceil(block));
    if threads <= 1 {
        let mut kept = make();
        return (0..count).map(|at| work(&mut kept, at)).collect();
    }
    let next = AtomicUsize::new(0);
    let take_blocks = || {
        let mut kept = make();
        let mut done: Vec<(usize, Vec<T>)> = Vec::new();
        loop {
            let from = next.fetch_add(block, Ordering::Relaxed);
            if from >= count {
                return done;
            }
            done.push((from, (from..count.min(from + block)).map(|at| work(&mut kept, at)).collect()));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .filter_map(|_| {
                thread::Builder::new().name("context-rank".to_owned()).spawn_scoped(scope, take_blocks).ok()
            })
            .collect();
        let mut done = take_blocks();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panicked) => std::panic::resume_unwind(panicked),
            }
        }
        done
    });
    done.sort_by_key(|(from, _)| *from);
    done.into_iter().flat_map(|(_, answers)| answers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_things() {
        for (count, block) in [(0, 4), (1, 4), (1000, 7), (5, 0)] {
            let squares: Vec<usize> = (0..count).map(|number| number * number).collect();
            assert_eq!(in_parallel(count, block, |number| number * number), squares);
        }
    }
}
