//! One generation of a token, and the ways to wait for its cancel.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{
    CancelReason, CancellationToken, Cancelled, DEPTH_MAX, Generation, HAS_ANCESTORS, NodeGeneration,
    generation_of,
};
use crate::parker::Parker;
use crate::waiters::{Waiter, Waiting};

/// One generation of a token, whose answer never changes back. `Clone` is the same generation.
#[derive(Clone)]
pub struct Observed {
    pub(super) step: NodeGeneration,
}

impl Observed {
    /// Returns whether this generation, or an ancestor's that it was born in, is cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let NodeGeneration { node, live } = &self.step;
        self.step.is_cancelled() || live & HAS_ANCESTORS != 0 && node.is_cancelled_above()
    }

    /// `Err` once cancelled, for use with `?`.
    ///
    /// # Errors
    /// [`Cancelled`] with the reason.
    pub fn check(&self) -> Result<(), Cancelled> {
        match self.reason() {
            None => Ok(()),
            Some(reason) => Err(Cancelled { reason }),
        }
    }

    /// Why it was cancelled: its own reason, else that of the nearest cancelled ancestor.
    ///
    /// A generation that was cancelled and then reset before anyone asked answers
    /// [`CancelReason::Superseded`].
    pub fn reason(&self) -> Option<CancelReason> {
        self.steps().find_map(NodeGeneration::reason)
    }

    /// Why this generation itself was cancelled, ancestors aside.
    pub fn own_reason(&self) -> Option<CancelReason> {
        self.step.reason()
    }

    /// The observed generation.
    pub fn generation(&self) -> Generation {
        Generation(generation_of(self.step.live))
    }

    /// A token that is cancelled with this generation, and can be cancelled alone.
    ///
    /// A child more than 8 levels deep is born cancelled with [`CancelReason::Limit`], and no reset revives
    /// it. It fails at once and in the open, instead of slowing every check below it.
    pub fn child(&self) -> CancellationToken {
        let ancestors: Box<[NodeGeneration]> = self.steps().cloned().collect();
        if ancestors.len() <= DEPTH_MAX {
            return CancellationToken::with(HAS_ANCESTORS, ancestors);
        }
        let beyond = CancellationToken::new();
        let limit = beyond.observe().step;
        beyond.cancel(CancelReason::Limit);
        CancellationToken::with(HAS_ANCESTORS, Box::new([limit]))
    }

    /// Blocks until cancelled; false if `timeout` passed first. `None` waits for ever.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.is_cancelled() || self.waiting().block(timeout)
    }

    /// Completes when cancelled, with the reason. Dropping the future unregisters it.
    pub fn cancelled(&self) -> CancelledFuture {
        CancelledFuture { observed: self.clone(), waiting: self.waiting() }
    }

    /// Unparks `parker` when cancelled, as long as the registration exists; `None` if cancelled already.
    ///
    /// For a thread that waits for several things at once. A wake-up may be spurious and uses the
    /// registration up, so the thread registers again each time before it parks.
    pub fn unpark_on_cancel(&self, parker: &Parker) -> Option<Registration> {
        let mut waiting = self.waiting();
        match waiting.register(&Waiter::Thread(parker.clone())) {
            true => None,
            false => Some(Registration { _waiting: waiting }),
        }
    }

    fn waiting(&self) -> Waiting<NodeGeneration> {
        Waiting::on(self.steps().cloned())
    }

    fn steps(&self) -> impl Iterator<Item = &NodeGeneration> {
        std::iter::once(&self.step).chain(self.step.node.ancestors.iter())
    }
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observed")
            .field("generation", &self.generation().0)
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}

/// Holds the registration of a parker with a generation; see [`Observed::unpark_on_cancel`].
#[must_use = "dropping it ends the registration"]
pub struct Registration {
    _waiting: Waiting<NodeGeneration>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

/// Completes when a generation is cancelled; made by [`Observed::cancelled`].
#[must_use = "a future does nothing unless awaited"]
pub struct CancelledFuture {
    observed: Observed,
    waiting: Waiting<NodeGeneration>,
}

impl Future for CancelledFuture {
    type Output = CancelReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CancelReason> {
        if let Some(reason) = self.observed.reason() {
            return Poll::Ready(reason);
        }
        match self.waiting.poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(self.observed.reason().unwrap_or(CancelReason::Superseded)),
        }
    }
}

impl std::fmt::Debug for CancelledFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelledFuture").field("observed", &self.observed).finish_non_exhaustive()
    }
}
