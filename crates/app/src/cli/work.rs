//! While a plan works: what is shown of it, and what a request to stop does.
//!
//! # Invariants
//! 1. The first request to stop cancels the plan and waits until nothing of it can happen any more; the second ends the
//!    program as soon as the cancel is written down, and the kernel kills what lives of the plan with it. So the next
//!    command knows that it has a cancel to finish. The third waits for nothing.
//! 2. An apply that cannot be cancelled any more is finished, not abandoned.
//! 3. Showing progress never delays the work: it only reads, and what cannot be read is not shown.
//!
//! # Not here
//! Which signals ask to stop: `super::stops`.

use std::future::Future;
use std::time::Duration;

use domain::PlanId;
use engine::plans::{CancelError, Engine, Reveal};

use super::Invocation;
use super::invocation::Named;
use super::stops::Stops;
use crate::failure::{Exit, Failure, from_engine};
use crate::output::Note;
use crate::plan_next;
use crate::progress::Progress;

/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a cancel by a signal waits for its acknowledgement: longer than the owner takes, by default, to kill what
/// lives and to store what it changed.
pub(super) const CANCEL_WAIT: Duration = Duration::from_secs(180);
/// How many events are read at a time.
const EVENTS_MAX: usize = 100;

/// Does `work` on a plan, showing progress, until it is done or cancelled.
pub(super) async fn follow<T>(
    invocation: &Invocation,
    engine: &Engine,
    plan: &Named,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut progress = Progress::new(&invocation.look, invocation.global.quiet, &plan.short);
    let mut cursor = engine.store().last_event(plan.id).await.unwrap_or(0);
    let mut work = std::pin::pin!(work);
    let mut stopping = std::pin::pin!(stop_when_asked(invocation, engine, plan, Stops::listen()));
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                show_news(engine, plan.id, &mut cursor, &mut progress).await;
                progress.clear();
                return Ok(done);
            }
            failure = &mut stopping => return Err(failure),
            () = tokio::time::sleep(LOOK_EVERY) => show_news(engine, plan.id, &mut cursor, &mut progress).await,
        }
    }
}

/// Cancels at the first request to stop and ends the program at the second; answers only when the cancel failed.
async fn stop_when_asked(
    invocation: &Invocation,
    engine: &Engine,
    plan: &Named,
    mut stops: Stops,
) -> Failure {
    let stop = stops.next().await;
    invocation.tell(&Note::info(format!(
        "cancelling plan {}; {} ends at once",
        plan.short,
        stop.once_more()
    )));
    tokio::select! {
        report = engine.cancel(plan.id, stop.reason(), CANCEL_WAIT) => match report {
            Ok(_) => {}
            Err(error @ (CancelError::TooLate { .. } | CancelError::Final { .. })) => {
                let too_late = from_engine::cancel(&error, &plan.short).message;
                invocation.tell(&Note::warning(too_late));
            }
            Err(error @ (CancelError::Unconfirmed { .. } | CancelError::Plan(_) | CancelError::Execute(_))) => {
                return from_engine::cancel(&error, &plan.short);
            }
        },
        _ = stops.next() => {
            tokio::select! {
                // Without waiting for anything but the request itself; whatever it answers, this is the end.
                _ = engine.cancel(plan.id, stop.reason(), Duration::ZERO) => {}
                _ = stops.next() => {}
            }
            end_at_once()
        }
    }
    stops.next().await;
    end_at_once()
}

pub(super) fn end_at_once() -> ! {
    std::process::exit(i32::from(Exit::Cancelled.number()))
}

async fn show_news(engine: &Engine, plan: PlanId, cursor: &mut u64, progress: &mut Progress) {
    if !progress.is_shown() {
        return;
    }
    while let Ok(events) = engine.store().events(plan, *cursor, EVENTS_MAX).await {
        for event in &events {
            *cursor = event.n;
            progress.event(event);
        }
        if events.len() < EVENTS_MAX {
            break;
        }
    }
    if let Ok(Some(place)) = engine.queue_place(plan).await
        && let Some(words) = plan_next::waits_for_slot(&place)
    {
        progress.waits(&words);
    }
    let last_line = if progress.is_live() { last_line(engine, plan).await } else { None };
    progress.beat(last_line.as_deref());
}

/// The last line that the running command printed.
async fn last_line(engine: &Engine, plan: PlanId) -> Option<String> {
    let calls = engine.store().calls(plan).await.ok()?;
    let running = calls.iter().rev().find(|call| call.end.is_none())?.no;
    let logs = engine.logs(plan, Some(running), Reveal::Shown).await.ok()?;
    let log = logs.first()?;
    let redactor = engine.redactor()?;
    let of = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes.get(bytes.len().saturating_sub(4096)..).unwrap_or_default())
            .into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        // Of all that a command prints only this line is looked through: it is asked for again and again.
        Some(redactor.redact_str(line).into_owned())
    };
    of(&log.stdout).or_else(|| of(&log.stderr))
}
