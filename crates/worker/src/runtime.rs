//! The runtime of tasks, a port for spawning and sleeping, so that tests and the simulation own scheduling
//! and time.
//!
//! # Invariants
//! 1. Every background task has a [`TaskKind`], which says what a cancel and an error do to it.
//! 2. A heartbeat never shares a thread with other work: a blocked executor must not lose a lease.

use std::io;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sync::Panicked;
use tokio::runtime::Handle;

/// The kinds of background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Claims jobs. A stop ends it at once; a failing store makes it wait and ask again.
    Claims,
    /// Sees one job to its end. A cancel, a stop or a lost lease makes it interrupt the work and settle the
    /// job.
    Run,
    /// Does the work of one job. A cancel reaches it through its scope, and it is dropped when it does not
    /// end in time; its error or panic fails the job.
    Work,
    /// Renews the leases of all running jobs. It ends after the last of them, also while stopping. An error
    /// costs a beat, and at two thirds of a lease without one the job is given up.
    Heartbeat,
}

/// Runs tasks and lets them sleep.
pub trait Runtime: Send + Sync {
    /// Starts a task in the background.
    ///
    /// # Errors
    /// The system has no thread left for it.
    fn spawn(&self, kind: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()>;

    /// Completes after `duration`, on whatever thread it is awaited.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Tasks on a tokio runtime, heartbeats on a thread of their own.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
}

impl TokioRuntime {
    /// Runs tasks on `handle`'s runtime.
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }
}

impl Runtime for TokioRuntime {
    fn spawn(&self, kind: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        match kind {
            TaskKind::Claims | TaskKind::Run | TaskKind::Work => drop(self.handle.spawn(task)),
            TaskKind::Heartbeat => {
                let own = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
                let thread = std::thread::Builder::new().name("agents-heartbeat".to_owned());
                thread.spawn(move || own.block_on(task))?;
            }
        }
        Ok(())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let handle = self.handle.clone();
        Box::pin(async move {
            // Made inside the task, so that the timer is that of the thread which awaits it.
            let sleep = if Handle::try_current().is_ok() {
                tokio::time::sleep(duration)
            } else {
                let _context = handle.enter();
                tokio::time::sleep(duration)
            };
            sleep.await;
        })
    }
}

/// Runs `future`. A panic inside is its error: a store or a runner that panics ends nothing else.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(Panicked::from_payload)
}
