//! A running command, and its result.
//!
//! # Invariants
//! 1. [`RunningCommand::wait`] returns when the whole tree is dead. With a pid namespace the death of its
//!    first process says so. Without one the reaper says so, and if it was killed itself, what bears the
//!    command's mark is.
//! 2. [`Killer::kill`] may come from any thread, any number of times, before and after the end.
//! 3. A [`RunningCommand`] that is dropped is killed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::bounds::LimitHit;
use super::drain::Drains;
use super::network_failure;
use super::output::Output;
use super::pipes::PipedStreams;
use crate::child::ForkedChild;
use crate::descriptors::CountedCommand;
use crate::forwarder::Forwarder;
use crate::isolation::control;
use crate::isolation::control::ChildReport;
use crate::isolation::{IsolationUsed, process_tree};

/// The way in which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// It took too long, and was ended.
    TimedOut,
    /// [`Killer::kill`] was called.
    Killed,
}

impl ExitKind {
    /// Returns true if it did what it should.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// The result of a command. No process of it is left.
#[derive(Debug)]
pub struct CommandExit {
    /// The end of the program itself.
    pub how: ExitKind,
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
    /// From its start until all of it was dead.
    pub duration: Duration,
    /// The number of processes that had to be killed, as far as they could be counted.
    pub processes_killed: u32,
    /// The bound that it reached, if it reached one.
    pub limit: Option<LimitHit>,
    /// True if it failed, or was ended while it waited, as commands do that want a network and have none. A
    /// guess.
    pub network_suspected: bool,
    /// True if it failed like a command to which no program answers at a port. A guess.
    pub refused_suspected: bool,
}

/// Kills a command.
#[derive(Clone, Debug)]
pub struct Killer(Arc<CommandProcesses>);

impl Killer {
    /// Kills all of it, now. [`RunningCommand::wait`] returns when it is dead.
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// The handles that a start returns.
#[derive(Debug)]
pub(crate) struct LaunchedCommand {
    /// The process that we started.
    pub(crate) child: ForkedChild,
    /// The socket on which it reports.
    pub(crate) control: OwnedFd,
    /// The process that holds the tree.
    pub(crate) reaper: OwnedFd,
    /// True if the tree is a pid namespace.
    pub(crate) namespaced: bool,
    /// `TMPDIR`, by which processes without a reaper are found again.
    pub(crate) mark: OsString,
    /// The threads that read its output.
    pub(crate) drains: Drains,
    /// The isolation of the command.
    pub(crate) isolation: IsolationUsed,
    /// The ends of one that is spoken to.
    pub(crate) spoken: Option<PipedStreams>,
    /// The forwarder of its network.
    pub(crate) forwarder: Option<Forwarder>,
}

/// A command that runs.
#[derive(Debug)]
pub struct RunningCommand {
    child: ForkedChild,
    tree: Arc<CommandProcesses>,
    drains: Option<Drains>,
    isolation: IsolationUsed,
    spoken: Option<PipedStreams>,
    forwarder: Option<Forwarder>,
    started: Instant,
    _counted: CountedCommand,
}

impl RunningCommand {
    pub(crate) fn new(launched: LaunchedCommand) -> Self {
        let LaunchedCommand {
            child,
            control,
            reaper,
            namespaced,
            mark,
            drains,
            isolation,
            spoken,
            forwarder,
        } = launched;
        let tree = CommandProcesses {
            control,
            reaper,
            namespaced,
            mark,
            killed: AtomicBool::new(false),
            counted: AtomicU32::new(0),
        };
        let (tree, drains) = (Arc::new(tree), Some(drains));
        let _counted = CountedCommand::new();
        Self { child, tree, drains, isolation, spoken, forwarder, started: Instant::now(), _counted }
    }

    /// Returns the isolation of the command.
    pub fn isolation(&self) -> &IsolationUsed {
        &self.isolation
    }

    /// Something to kill it with from elsewhere.
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.tree))
    }

    /// The ends of a program that is spoken to, once.
    pub fn take_pipes(&mut self) -> Option<PipedStreams> {
        self.spoken.take()
    }

    /// Waits until all of it is dead.
    pub fn wait(mut self) -> CommandExit {
        // No caller will speak to it: it reads the end.
        drop(self.spoken.take());
        let EndReport { how, killed, limit } = self.wait_for_death();
        let (stdout, stderr) = match self.drains.take() {
            Some(drains) => drains.finish(),
            None => Default::default(),
        };
        let network_suspected = may_lack_a_network(how)
            && !self.isolation.network
            && (network_failure::is_shown_in(&stderr.bytes())
                || network_failure::is_shown_in(&stdout.bytes()));
        let refused_suspected = may_lack_a_network(how)
            && [&stderr, &stdout].iter().any(|output| network_failure::is_refusal_shown_in(&output.bytes()));
        CommandExit {
            how,
            stdout,
            stderr,
            duration: self.started.elapsed(),
            processes_killed: killed,
            limit,
            network_suspected,
            refused_suspected,
        }
    }

    fn wait_for_death(&mut self) -> EndReport {
        let told = self.tree.wait();
        // It ends after the tree, or another process killed it: either way there is nothing more to learn
        // from it.
        let _ = self.child.wait();
        // No flow outlives it.
        drop(self.forwarder.take());
        told
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(drains) = self.drains.take() {
            self.tree.kill();
            self.wait_for_death();
            drains.finish();
        }
    }
}

/// Programs wait for a network as often as they give up on it.
fn may_lack_a_network(how: ExitKind) -> bool {
    match how {
        ExitKind::Exited(status) => status != 0,
        ExitKind::TimedOut | ExitKind::Killed => true,
        ExitKind::Signalled(_) => false,
    }
}

/// The known facts about the end of a command.
struct EndReport {
    how: ExitKind,
    killed: u32,
    limit: Option<LimitHit>,
}

/// The processes of a command.
#[derive(Debug)]
struct CommandProcesses {
    control: OwnedFd,
    reaper: OwnedFd,
    namespaced: bool,
    mark: OsString,
    killed: AtomicBool,
    counted: AtomicU32,
}

impl CommandProcesses {
    fn kill(&self) {
        if !self.killed.swap(true, Ordering::AcqRel)
            && let Some(reaper) = pid_of(&self.reaper)
        {
            let below = process_tree::descendants(reaper).len();
            self.counted.store(u32::try_from(below).unwrap_or(u32::MAX), Ordering::Release);
        }
        if self.namespaced {
            let _ = rustix::process::pidfd_send_signal(&self.reaper, Signal::KILL);
        } else {
            // Only the reaper knows the tree; one that was stopped has to continue.
            control::ask_to_kill(&self.control);
            let _ = rustix::process::pidfd_send_signal(&self.reaper, Signal::CONT);
        }
    }

    /// Waits until all are dead, and returns how the program ended and how many had to be killed.
    fn wait(&self) -> EndReport {
        let told = self.last_report();
        self.wait_for_reaper();
        told.unwrap_or_else(|| EndReport {
            how: self.unreported_end(),
            killed: self.unreported_kills(),
            limit: None,
        })
    }

    fn last_report(&self) -> Option<EndReport> {
        loop {
            match control::next_report(&self.control) {
                Ok(Some((ChildReport::Ended { how, killed, limit }, _))) => {
                    return Some(EndReport { how, killed, limit });
                }
                Ok(Some((
                    ChildReport::Reaper
                    | ChildReport::Network(_)
                    | ChildReport::Started { .. }
                    | ChildReport::Failed(_),
                    _,
                ))) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// A pidfd can be read once its process is dead; the first of a pid namespace dies after all others.
    fn wait_for_reaper(&self) {
        loop {
            let mut fds = [PollFd::new(&self.reaper, PollFlags::IN)];
            if poll(&mut fds, None).is_ok() && !fds[0].revents().is_empty() {
                return;
            }
        }
    }

    fn unreported_end(&self) -> ExitKind {
        if self.killed.load(Ordering::Acquire) {
            ExitKind::Killed
        } else {
            ExitKind::Signalled(libc::SIGKILL)
        }
    }

    /// Does what the reaper could not: kills what bears the mark, and removes the private directory.
    fn unreported_kills(&self) -> u32 {
        if self.namespaced {
            return self.counted.load(Ordering::Acquire);
        }
        let killed = process_tree::kill_marked("TMPDIR", &self.mark);
        if !self.mark.is_empty() {
            let _ = std::fs::remove_dir_all(&self.mark);
        }
        killed
    }
}

/// Returns the process of a pidfd, in our numbering.
fn pid_of(pidfd: &OwnedFd) -> Option<Pid> {
    use std::os::fd::AsRawFd;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(process_tree::parse)
}
