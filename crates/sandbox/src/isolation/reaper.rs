//! The process that holds a command's tree: starts it, watches it, and leaves nothing of it behind.
//!
//! It is the first process of a pid namespace, where the kernel kills the rest when it ends. Otherwise it is
//! a subreaper, which kills until nothing is left.
//!
//! # Invariants
//! 1. It ends when the command ends, when its time is up, when it uses more than it may, and when the
//!    lifeline closes. It also ends when it is asked to, over the socket or by `SIGTERM` of the process that
//!    holds it. In each case nothing of the tree is left when it is gone.
//! 2. It holds no file descriptor but the socket and what it waits with: a command that could look into it
//!    would find nothing there. It also cannot look.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::broker::Broker;
use super::control::{self, ChildOrder, ChildReport, StartFailure};
use super::fork::{ForkResult, fork};
use super::holder::Signals;
use super::usage::UsageMonitor;
use super::{exec, privileges, process_tree};
use crate::command::{ExitKind, LimitHit};

/// The kind of the process tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// This is the first process of a pid namespace.
    Namespace,
    /// This is a subreaper.
    Descendants,
    /// This is a subreaper, and the command's own process only wraps it: on a request to end, it would end
    /// all at once.
    Wrapped,
}

/// The notes about a command that begins.
#[derive(Debug, Default)]
pub(super) struct StartNotes {
    pub(super) hidden: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Reports the process that holds the tree.
pub(super) fn introduce(control: &OwnedFd) -> io::Result<()> {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    control::report(control, &ChildReport::Reaper, &[own.as_fd()]);
    Ok(())
}

/// Starts what `start` becomes, watches over it, and ends with it. `start` is called in the new process, with
/// the pipe to report failures, and returns only on failure. `answers` has the socket for its requests to us,
/// and the paths that it may change in that way. `complaints` has the other output to read if it did not even
/// begin.
pub(super) fn hold(
    kind: Kind,
    control: OwnedFd,
    order: &ChildOrder,
    told: StartNotes,
    answers: Option<(OwnedFd, Vec<PathBuf>)>,
    start: impl FnOnce(BorrowedFd<'_>) -> StartFailure,
    complaints: impl FnOnce() -> String,
) -> ! {
    let begun = begin(kind, start, complaints).and_then(|(command, signals)| {
        let broker = answers.map(|(socket, writable)| Broker::take(&socket, &writable)).transpose();
        Ok((command, signals, broker.map_err(|error| StartFailure::Rung(format!("the broker: {error}")))?))
    });
    match begun {
        Ok((command, signals, broker)) => {
            control::report(&control, &ChildReport::Started { hidden: told.hidden, notes: told.notes }, &[]);
            let usage = UsageMonitor::new(order, kind == Kind::Namespace);
            let watch = CommandWait { kind, control: &control, signals, command, order, usage, broker };
            let ended = watch.wait_for_end();
            let limit = ended.and_then(|(_, limit)| limit.or_else(|| watch.usage.at_end()));
            let killed = clean_up(kind, order);
            if let Some((how, _)) = ended {
                control::report(&control, &ChildReport::Ended { how, killed, limit }, &[]);
            }
        }
        Err(failure) => {
            clean_up(kind, order);
            control::report(&control, &ChildReport::Failed(failure), &[]);
        }
    }
    std::process::exit(0)
}

/// Starts the command; returns its number, and what becomes readable when a child ends or this process is
/// asked to end.
fn begin(
    kind: Kind,
    start: impl FnOnce(BorrowedFd<'_>) -> StartFailure,
    complaints: impl FnOnce() -> String,
) -> Result<(Pid, Signals), StartFailure> {
    let signals = Signals::block()?;
    let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let command = match fork()? {
        ForkResult::Child => {
            drop(told);
            report_failure(&tell, &start(tell.as_fd()))
        }
        ForkResult::Parent(pid) => pid,
    };
    drop((tell, start));
    if kind == Kind::Namespace {
        privileges::drop_all()?;
    }
    privileges::shut_off()?;
    let mut said = Vec::new();
    File::from(told).read_to_end(&mut said)?;
    match said.strip_prefix(exec::HELLO) {
        Some([]) => Ok((command, signals)),
        Some(failure) => {
            Err(serde_json::from_slice(failure).unwrap_or_else(|error| StartFailure::Rung(error.to_string())))
        }
        None => Err(StartFailure::Rung(complaints())),
    }
}

/// Says why, and ends.
pub(super) fn report_failure(tell: &OwnedFd, failure: &StartFailure) -> ! {
    if let (Ok(text), Ok(pipe)) = (serde_json::to_vec(failure), tell.try_clone()) {
        let _ = File::from(pipe).write_all(&text);
    }
    std::process::exit(0)
}

/// Kills what is left, and removes what was made for the command.
fn clean_up(kind: Kind, order: &ChildOrder) -> u32 {
    match kind {
        // The kernel will do it, before this process counts as dead.
        Kind::Namespace => others_in_namespace(),
        Kind::Descendants | Kind::Wrapped => {
            let killed = process_tree::kill_descendants();
            if let Some(tmp) = &order.tmp {
                let _ = std::fs::remove_dir_all(tmp);
            }
            killed
        }
    }
}

fn others_in_namespace() -> u32 {
    u32::try_from(process_tree::descendants(rustix::process::getpid()).len()).unwrap_or(u32::MAX)
}

/// The wait for the end of a command.
struct CommandWait<'a> {
    kind: Kind,
    control: &'a OwnedFd,
    signals: Signals,
    command: Pid,
    order: &'a ChildOrder,
    usage: UsageMonitor,
    broker: Option<Broker>,
}

impl CommandWait<'_> {
    /// Returns how it ended, and the bound that it was ended for; `None` if the process that would receive it
    /// is gone.
    fn wait_for_end(&self) -> Option<(ExitKind, Option<LimitHit>)> {
        let limit = self.order.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
        let mut deadline = limit;
        let mut asked_to_end = false;
        let mut look_at = Instant::now() + self.usage.first();
        loop {
            let next = deadline.map_or(look_at, |deadline| deadline.min(look_at));
            let [signalled, control, asked] = self.next(Some(next));
            if let Some(broker) = self.broker.as_ref().filter(|_| asked) {
                broker.answer();
            }
            if control {
                match control::receive(self.control) {
                    Ok(Some(_)) => return Some((ExitKind::Killed, None)),
                    Ok(None) | Err(_) => return None,
                }
            }
            if signalled && self.signals.take().ask_to_end {
                return Some((ExitKind::Signalled(libc::SIGKILL), None));
            }
            if signalled && let Some(how) = self.reap() {
                return Some((if asked_to_end { ExitKind::TimedOut } else { how }, None));
            }
            if look_at <= Instant::now() {
                match self.usage.check() {
                    Ok(after) => look_at = Instant::now() + after,
                    Err(limit) => return Some((ExitKind::Signalled(libc::SIGKILL), Some(limit))),
                }
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                if asked_to_end {
                    return Some((ExitKind::TimedOut, None));
                }
                asked_to_end = true;
                self.ask_to_end();
                deadline = Some(Instant::now() + Duration::from_millis(self.order.grace_ms));
            }
        }
    }

    /// Waits for a signal, for a message, or for the deadline. Returns which of the first two came, and
    /// whether a call waits to be answered.
    fn next(&self, deadline: Option<Instant>) -> [bool; 3] {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds =
            vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(self.control, PollFlags::IN)];
        fds.extend(self.broker.iter().map(|broker| PollFd::new(broker, PollFlags::IN)));
        if poll(&mut fds, left.as_ref()).is_err() {
            return [false; 3];
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        // Once no process is left that could ask, the listener reports that for ever.
        let asks = fds.get(2).is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        [is_ready(0), is_ready(1), asks]
    }

    /// Reaps whatever is dead; how the command ended, if it is among them.
    fn reap(&self) -> Option<ExitKind> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.command => return Some(exit_kind(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn ask_to_end(&self) {
        match self.kind {
            Kind::Namespace => {
                // SAFETY: in this namespace, -1 means all but this process; no memory is touched.
                unsafe { libc::kill(-1, libc::SIGTERM) };
            }
            Kind::Descendants => process_tree::signal_descendants(Signal::TERM, None),
            Kind::Wrapped => process_tree::signal_descendants(Signal::TERM, Some(self.command)),
        }
    }
}

fn exit_kind(status: WaitStatus) -> ExitKind {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => ExitKind::Exited(status),
        (None, signal) => ExitKind::Signalled(signal.unwrap_or_default()),
    }
}
