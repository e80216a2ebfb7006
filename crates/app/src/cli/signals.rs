//! The signals that ask the program to stop: Ctrl-C, the end of its terminal, and a polite kill.
//!
//! # Invariants
//! A signal that the caller had switched off stays so: `nohup agents run …` outlives its terminal.
//!
//! # Not here
//! The response of a command: `super::follow`.

use std::future::poll_fn;
use std::task::Poll;

use domain::PlanInterruption;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    /// A polite kill.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl StopSignal {
    const ALL: [StopSignal; 3] = [StopSignal::Interrupt, StopSignal::Terminate, StopSignal::HangUp];

    fn kind(self) -> SignalKind {
        match self {
            StopSignal::Interrupt => SignalKind::interrupt(),
            StopSignal::Terminate => SignalKind::terminate(),
            StopSignal::HangUp => SignalKind::hangup(),
        }
    }

    /// Returns the interruption of a plan that the signal is.
    pub(super) fn interruption(self) -> PlanInterruption {
        match self {
            StopSignal::Interrupt => PlanInterruption::CtrlC,
            StopSignal::Terminate => PlanInterruption::Kill,
            StopSignal::HangUp => PlanInterruption::HangUp,
        }
    }

    /// Returns the words for the signal that ends the program without waiting.
    pub(super) fn once_more(self) -> &'static str {
        match self {
            StopSignal::Interrupt => "Ctrl-C again",
            StopSignal::Terminate | StopSignal::HangUp => "another signal",
        }
    }
}

/// All requests to stop, from when it was made.
pub(super) struct StopSignals {
    heard: Vec<(StopSignal, Signal)>,
}

impl StopSignals {
    /// Begins to listen; what cannot be listened to keeps its usual effect.
    pub(super) fn listen() -> StopSignals {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let wanted = StopSignal::ALL.into_iter().filter(|stop| !is_switched_off(stop.kind(), &status));
        StopSignals { heard: wanted.filter_map(|stop| Some((stop, signal(stop.kind()).ok()?))).collect() }
    }

    /// The next request.
    pub(super) async fn next(&mut self) -> StopSignal {
        poll_fn(|context| {
            let mut heard = self.heard.iter_mut();
            let arrived =
                heard.find_map(|(stop, signal)| signal.poll_recv(context).is_ready().then_some(*stop));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Returns true if the kernel drops this signal on the way to us, by what it says of the process.
fn is_switched_off(kind: SignalKind, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(kind.as_raw_value()).ok().and_then(|number| number.checked_sub(1));
    bit.and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_drops_is_read_from_the_mask() {
        // As `nohup` leaves it: signal 1 is dropped, 2 and 15 are not.
        let status = "Name:\tagents\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000004002\n";
        assert_eq!(StopSignal::ALL.map(|stop| is_switched_off(stop.kind(), status)), [false, false, true]);
        assert_eq!(StopSignal::ALL.map(|stop| is_switched_off(stop.kind(), "")), [false, false, false]);
    }
}
