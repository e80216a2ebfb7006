//! While a plan works: what is shown of it, and what a request to stop does.
//!
//! # Invariants
//! 1. The first request to stop interrupts the plan and waits until nothing of it can happen any more: it can
//!    be resumed and revised. A second Ctrl-C cancels it. Any other signal, and the third Ctrl-C, ends the
//!    program as soon as the request is written down, and the kernel kills the plan's processes with it. So
//!    the next command knows that it has a request to finish. One more waits for nothing.
//! 2. An apply that cannot be cancelled any more is finished, not abandoned. One that waits is stopped, and
//!    its plan is as it was: work that is done is not thrown away by an impatient Ctrl-C.
//! 3. Showing progress never delays the work: it only reads, and what cannot be read is not shown.
//!
//! # Not here
//! The signals that ask to stop: `super::signals`.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::PlanId;
use engine::{CancelError, Engine};
use sync::{CancelReason, CancellationToken, Observed};

use super::Invocation;
use super::invocation::NamedPlan;
use super::live_feed::LiveFeed;
use super::signals::{StopSignal, StopSignals};
use crate::errors::{CommandError, Exit, from_engine};
use crate::output::{OutputNote, live_block};
use crate::render;
use crate::render::progress::ProgressPrinter;

/// The interval at which progress is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The time for which a cancel by a signal waits for its acknowledgement. It is longer than the owner takes,
/// by default, to kill the processes and to store their changes.
pub(super) const CANCEL_WAIT: Duration = Duration::from_secs(180);
/// The reason of a cancel by a second Ctrl-C.
const CANCELLED: &str = "cancelled by the user";

/// Does `work` on a plan, showing progress, until it is done or cancelled.
pub(super) async fn follow<T>(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    work: impl Future<Output = T>,
) -> Result<T, CommandError> {
    let stopping = stop_when_asked(invocation, engine, plan, StopSignals::listen());
    show_while(invocation, engine, plan, work, stopping, &|| None).await
}

/// Runs the checks of a plan, showing what `doing` holds. A request to stop leaves the plan as it was, as with
/// [`follow_files`].
pub(super) async fn follow_checks<T, F: Future<Output = T>>(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    doing: &Mutex<String>,
    work: impl FnOnce(Observed) -> F,
) -> T {
    let stop = CancellationToken::new();
    let work = work(stop.observe());
    let stopping = stop_files(invocation, plan, stop, StopSignals::listen());
    let shown =
        || Some(doing.lock().unwrap_or_else(PoisonError::into_inner).clone()).filter(|text| !text.is_empty());
    match show_while(invocation, engine, plan, work, stopping, &shown).await {
        Ok(done) => done,
        Err(never) => match never {},
    }
}

/// Does `work` on the user's files, showing progress. The first request to stop cancels the token that `work`
/// was given. It ends unless it has begun to write, and leaves the plan as it was. The second ends the
/// program.
pub(super) async fn follow_files<T, F: Future<Output = T>>(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    work: impl FnOnce(Observed) -> F,
) -> T {
    let stop = CancellationToken::new();
    let work = work(stop.observe());
    let stopping = stop_files(invocation, plan, stop, StopSignals::listen());
    match show_while(invocation, engine, plan, work, stopping, &|| None).await {
        Ok(done) => done,
        Err(never) => match never {},
    }
}

/// Shows progress until `work` is done, or `stopping` answers.
async fn show_while<T, E>(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    work: impl Future<Output = T>,
    stopping: impl Future<Output = E>,
    doing: &dyn Fn() -> Option<String>,
) -> Result<T, E> {
    let mut progress = ProgressPrinter::new(&invocation.style, invocation.global.quiet, &plan.short);
    let mut feed = LiveFeed::new(plan.id, engine.store().last_event(plan.id).await.unwrap_or(0));
    let mut work = std::pin::pin!(work);
    let mut stopping = std::pin::pin!(stopping);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                show_news(engine, &mut feed, plan.id, &mut progress).await;
                progress.clear();
                return Ok(done);
            }
            stopped = &mut stopping => return Err(stopped),
            () = tokio::time::sleep(LOOK_EVERY) => {
                doing().iter().for_each(|words| progress.waits(words));
                show_news(engine, &mut feed, plan.id, &mut progress).await;
            }
        }
    }
}

/// Cancels the token at the first request to stop, and ends the program at the second.
async fn stop_files(
    invocation: &Invocation,
    plan: &NamedPlan,
    stop: CancellationToken,
    mut stops: StopSignals,
) -> Infallible {
    let again = stops.next().await.once_more();
    stop.cancel(CancelReason::User);
    let plan = &plan.short;
    invocation.tell(&OutputNote::info(format!("stopping; plan {plan} is not changed; {again} ends at once")));
    stops.next().await;
    end_at_once()
}

/// Interrupts the plan at the first request to stop and cancels it at a second Ctrl-C; answers only if that
/// failed.
async fn stop_when_asked(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    mut stops: StopSignals,
) -> CommandError {
    let stop = stops.next().await;
    let then = if stop == StopSignal::Interrupt { "cancels it" } else { "ends at once" };
    let words = format!("interrupting plan {}; {} {then}", plan.short, stop.once_more());
    invocation.tell(&OutputNote::info(words));
    let again = tokio::select! {
        ended = engine.interrupt(plan.id, stop.interruption(), CANCEL_WAIT) => {
            if let Some(failure) = unless_too_late(ended, plan, invocation) {
                return failure;
            }
            stops.next().await
        }
        again = stops.next() => again,
    };
    if again == StopSignal::Interrupt {
        return cancel_when_asked(invocation, engine, plan, stops).await;
    }
    tokio::select! {
        // Without waiting for anything but the request itself; whatever it answers, this is the end.
        _ = engine.interrupt(plan.id, stop.interruption(), Duration::ZERO) => {}
        _ = stops.next() => {}
    }
    end_at_once()
}

/// Cancels the plan, and ends the program at the next request to stop; answers only if the cancel failed.
async fn cancel_when_asked(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    mut stops: StopSignals,
) -> CommandError {
    let words = format!("cancelling plan {}; Ctrl-C again ends at once", plan.short);
    invocation.tell(&OutputNote::info(words));
    tokio::select! {
        report = engine.cancel(plan.id, CANCELLED, CANCEL_WAIT) => {
            if let Some(failure) = unless_too_late(report.map(drop), plan, invocation) {
                return failure;
            }
        }
        _ = stops.next() => {
            tokio::select! {
                _ = engine.cancel(plan.id, CANCELLED, Duration::ZERO) => {}
                _ = stops.next() => {}
            }
            end_at_once()
        }
    }
    stops.next().await;
    end_at_once()
}

/// Returns the failure of a request to stop. One that came too late is only reported: the plan comes to its
/// end.
fn unless_too_late(
    ended: Result<(), CancelError>,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Option<CommandError> {
    match ended {
        Ok(()) => None,
        Err(error @ (CancelError::TooLate { .. } | CancelError::Final { .. })) => {
            let too_late = from_engine::cancel(&error, &plan.short).message;
            invocation.tell(&OutputNote::warning(too_late));
            None
        }
        Err(error @ (CancelError::Unconfirmed { .. } | CancelError::Plan(_) | CancelError::Execute(_))) => {
            Some(from_engine::cancel(&error, &plan.short))
        }
    }
}

pub(super) fn end_at_once() -> ! {
    live_block::clear();
    std::process::exit(i32::from(Exit::Cancelled.number()))
}

async fn show_news(engine: &Engine, feed: &mut LiveFeed, plan: PlanId, progress: &mut ProgressPrinter) {
    if !progress.is_shown() {
        return;
    }
    // What cannot be read is not shown.
    for item in feed.news(engine).await.unwrap_or_default() {
        progress.event(&item.event, item.call.as_ref());
    }
    if let Ok(Some(place)) = engine.queue_place(plan).await
        && let Some(words) = render::next_steps::waits_for_slot(&place)
    {
        progress.waits(&words);
    }
    if let Some((files, bytes)) = engine.copied(plan) {
        progress.waits(&format!("copying the project: {files} files, {} MB", bytes >> 20));
    }
    if progress.is_live() {
        progress.beat(&feed.now());
    }
}
