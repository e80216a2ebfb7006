//! The process outside that represents a command: it bears the marks of the job, which nothing inside can
//! remove.
//!
//! A command may clear its environment, leave its session and its parents. This process cannot be reached
//! from within; it is found by its environment ([`kill_job`](crate::command::kill_job)), and asked to end by
//! `SIGTERM`. It then kills the tree and ends after it.
//!
//! # Invariants
//! 1. It ends after the process that it holds: its death says that no process of the command is alive.
//! 2. When it is killed itself, the kernel notifies the process that it holds, which ends the tree. It has
//!    one thread, so that signal is not sent too early.
//! 3. Its environment has the marks and nothing else, and it has no descriptor of the command's.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::exit;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::fork::{ForkResult, fork};
use crate::command::{FENCE, JOB};

/// In the environment of a process that holds a command.
pub(super) const HOLDER: &str = "AGENTS_HOLDER";

/// The environment of a process that holds a command with this one.
pub(super) fn marks(env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let of_job = env.iter().filter(|(name, _)| name == JOB || name == FENCE).cloned();
    of_job.chain([(HOLDER.into(), "1".into())]).collect()
}

/// Forks. The new process continues with `given`; this one stays outside, with nothing of it, and passes on
/// as `ends` that it was asked to end.
///
/// Returns an error, with what was given, if no process could be made.
pub(super) fn fork_holder<T>(ends: Signal, given: T) -> Result<T, (T, io::Error)> {
    let prepared = Signals::block().and_then(|signals| {
        Ok((signals, rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?))
    });
    let (signals, own) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err((given, error)),
    };
    match fork() {
        Ok(ForkResult::Child) => {
            let told = rustix::process::set_parent_process_death_signal(Some(ends));
            if told.is_err() || is_dead(&own) {
                exit(1);
            }
            Ok(given)
        }
        Ok(ForkResult::Parent(held)) => {
            drop(given);
            wait_for_held(held, ends, &signals)
        }
        Err(error) => Err((given, error)),
    }
}

fn wait_for_held(held: Pid, ends: Signal, signals: &Signals) -> ! {
    loop {
        match rustix::process::waitpid(Some(held), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => exit(0),
        }
        let mut fds = [PollFd::new(&signals.0, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if signals.take().ask_to_end {
            let _ = rustix::process::kill_process(held, ends);
        }
    }
}

fn is_dead(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// The signals that a process waits for instead of being interrupted by them.
#[derive(Debug)]
pub(super) struct Signals(OwnedFd);

/// The signals that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceivedSignals {
    /// `SIGTERM`.
    pub(super) ask_to_end: bool,
}

impl Signals {
    /// Blocks `SIGCHLD` and `SIGTERM`; what it returns becomes readable instead.
    pub(super) fn block() -> io::Result<Signals> {
        // SAFETY: the set is made in place and lives during the calls; the descriptor is new and has no other
        // owner.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGCHLD);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Signals(OwnedFd::from_raw_fd(fd))) }
        }
    }

    /// Takes all that came.
    pub(super) fn take(&self) -> ReceivedSignals {
        let mut came = ReceivedSignals::default();
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        // The number of the signal is the first word.
        while rustix::io::read(&self.0, &mut record).is_ok_and(|count| count == record.len()) {
            let [a, b, c, d, ..] = record;
            came.ask_to_end |= u32::from_ne_bytes([a, b, c, d]) == libc::SIGTERM.unsigned_abs();
        }
        came
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
