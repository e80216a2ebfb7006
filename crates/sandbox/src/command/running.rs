//! A command that runs, and what came of it.
//!
//! # Invariants
//! 1. [`Running::wait`] returns when the whole tree is dead. With a pid namespace the death of its first process says
//!    so; without one the reaper says so, and if it was killed itself, what bears the command's mark is.
//! 2. [`Killer::kill`] may come from any thread, any number of times, before and after the end.
//! 3. A [`Running`] that is dropped is killed.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Child;
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
use super::piped::Spoken;
use crate::descriptors::CountedCommand;
use crate::forwarder::Forwarder;
use crate::isolation::control::{self, Report};
use crate::isolation::{IsolationUsed, process_tree};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowEnded {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, which was not ours.
    Signalled(i32),
    /// It took too long, and was ended.
    TimedOut,
    /// [`Killer::kill`] was called.
    Killed,
}

impl HowEnded {
    /// Whether it did what it should.
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// What came of a command. Nothing of it lives any more.
#[derive(Debug)]
pub struct Ended {
    /// How the program itself ended.
    pub how: HowEnded,
    /// What it printed.
    pub stdout: Output,
    /// What it complained.
    pub stderr: Output,
    /// From its start until all of it was dead.
    pub duration: Duration,
    /// How many processes had to be killed, as far as they could be counted.
    pub processes_killed: u32,
    /// The bound that it reached, if it reached one.
    pub limit: Option<LimitHit>,
    /// Whether it failed, or was ended while it waited, as commands do that want a network and have none. A guess.
    pub network_suspected: bool,
    /// Whether it failed as commands do that find nobody at a port. A guess.
    pub refused_suspected: bool,
}

/// Kills a command.
#[derive(Clone, Debug)]
pub struct Killer(Arc<Tree>);

impl Killer {
    /// Kills all of it, now. [`Running::wait`] tells when it is dead.
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// What a start hands over.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The process that we started.
    pub(crate) child: Child,
    /// Where it reports.
    pub(crate) control: OwnedFd,
    /// The process that holds the tree.
    pub(crate) reaper: OwnedFd,
    /// Whether the tree is a pid namespace.
    pub(crate) namespaced: bool,
    /// `TMPDIR`, by which processes without a reaper are found again.
    pub(crate) mark: OsString,
    /// Who reads its output.
    pub(crate) drains: Drains,
    /// What keeps it apart.
    pub(crate) isolation: IsolationUsed,
    /// The ends of one that is spoken to.
    pub(crate) spoken: Option<Spoken>,
    /// Who carries its network.
    pub(crate) forwarder: Option<Forwarder>,
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    tree: Arc<Tree>,
    drains: Option<Drains>,
    isolation: IsolationUsed,
    spoken: Option<Spoken>,
    forwarder: Option<Forwarder>,
    started: Instant,
    _counted: CountedCommand,
}

impl Running {
    pub(crate) fn new(launched: Launched) -> Self {
        let Launched { child, control, reaper, namespaced, mark, drains, isolation, spoken, forwarder } =
            launched;
        let tree = Tree {
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

    /// What keeps it apart.
    pub fn isolation(&self) -> &IsolationUsed {
        &self.isolation
    }

    /// Something to kill it with from elsewhere.
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.tree))
    }

    /// The ends of a program that is spoken to, once.
    pub fn take_spoken(&mut self) -> Option<Spoken> {
        self.spoken.take()
    }

    /// Waits until all of it is dead.
    pub fn wait(mut self) -> Ended {
        // Nobody will speak to it: it reads the end.
        drop(self.spoken.take());
        let Told { how, killed, limit } = self.wait_for_death();
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
        Ended {
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

    fn wait_for_death(&mut self) -> Told {
        let told = self.tree.wait();
        // It ends after the tree, or was killed by somebody: either way there is nothing more to learn from it.
        let _ = self.child.wait();
        // No flow outlives it.
        drop(self.forwarder.take());
        told
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(drains) = self.drains.take() {
            self.tree.kill();
            self.wait_for_death();
            drains.finish();
        }
    }
}

/// Programs wait for a network as often as they give up on it.
fn may_lack_a_network(how: HowEnded) -> bool {
    match how {
        HowEnded::Exited(status) => status != 0,
        HowEnded::TimedOut | HowEnded::Killed => true,
        HowEnded::Signalled(_) => false,
    }
}

/// What is known of the end of a command.
struct Told {
    how: HowEnded,
    killed: u32,
    limit: Option<LimitHit>,
}

/// The processes of a command.
#[derive(Debug)]
struct Tree {
    control: OwnedFd,
    reaper: OwnedFd,
    namespaced: bool,
    mark: OsString,
    killed: AtomicBool,
    counted: AtomicU32,
}

impl Tree {
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
            // Only the reaper knows the tree; one that was stopped has to go on.
            control::ask_to_kill(&self.control);
            let _ = rustix::process::pidfd_send_signal(&self.reaper, Signal::CONT);
        }
    }

    /// Waits until all are dead, and tells how the program ended and how many had to be killed.
    fn wait(&self) -> Told {
        let told = self.last_report();
        self.wait_for_reaper();
        told.unwrap_or_else(|| Told { how: self.untold_end(), killed: self.untold_kills(), limit: None })
    }

    fn last_report(&self) -> Option<Told> {
        loop {
            match control::next_report(&self.control) {
                Ok(Some((Report::Ended { how, killed, limit }, _))) => {
                    return Some(Told { how, killed, limit });
                }
                Ok(Some((
                    Report::Reaper | Report::Network(_) | Report::Started { .. } | Report::Failed(_),
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

    fn untold_end(&self) -> HowEnded {
        if self.killed.load(Ordering::Acquire) {
            HowEnded::Killed
        } else {
            HowEnded::Signalled(libc::SIGKILL)
        }
    }

    /// Does what the reaper could not: kills what bears the mark, and removes the private directory.
    fn untold_kills(&self) -> u32 {
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

/// Which process a pidfd means, as we number them.
fn pid_of(pidfd: &OwnedFd) -> Option<Pid> {
    use std::os::fd::AsRawFd;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(process_tree::parse)
}
