//! A naive gate: tests whether it is closed, then counts.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

use crate::gate::Gate;

/// Test, then count, in two words.
#[derive(Clone)]
pub(crate) struct TestThenCount {
    closed: Arc<AtomicBool>,
    inside: Arc<AtomicU32>,
}

pub(crate) struct Inside(Arc<AtomicU32>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate for TestThenCount {
    type Inside = Inside;

    fn new() -> Self {
        Self { closed: Arc::new(AtomicBool::new(false)), inside: Arc::new(AtomicU32::new(0)) }
    }

    fn enter(&self) -> Option<Inside> {
        if self.closed.load(Ordering::SeqCst) {
            return None;
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        Some(Inside(Arc::clone(&self.inside)))
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn drained(&self) {
        while self.inside.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }
}
