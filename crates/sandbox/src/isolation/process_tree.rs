//! Finds the processes below one in `/proc`, and kills them all.
//!
//! # Invariants
//! 1. [`kill_descendants`] returns only when this process has no child left. As it is a subreaper, whatever
//!    lost its parent became its child: no child left means no descendant left.
//! 2. A process is signalled while it is known to be a descendant. Its number could be reused only between
//!    reading and signalling. Within that window a zombie still holds the number, and only this tree can reap
//!    it. One that is found by its environment is held by a descriptor while it is looked at.
//! 3. A process that is in the middle of an exec is not taken for one without an environment.
//!
//! # Not here
//! A pid namespace, where the kernel does all of it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::num::NonZeroI32;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

/// The wait before another look for processes that do not die at once.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// All processes below `pid`, parents before children.
pub(crate) fn descendants(pid: Pid) -> Vec<Pid> {
    let parents = if has_children_files() { None } else { Some(parents()) };
    let children = |pid| match &parents {
        None => listed_children(pid),
        Some(parents) => {
            parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect()
        }
    };
    let mut found = children(pid);
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children(parent));
        next += 1;
    }
    found
}

/// A kernel may be built without them.
fn has_children_files() -> bool {
    fs::exists("/proc/thread-self/children").unwrap_or(false)
}

fn listed_children(pid: Pid) -> Vec<Pid> {
    let number = pid.as_raw_nonzero();
    let Ok(tasks) = fs::read_dir(format!("/proc/{number}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(parse).collect::<Vec<_>>()).collect()
}

/// Every process with its parent.
fn parents() -> Vec<(Pid, Pid)> {
    let parent_of = |pid: &Pid| {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name, in parentheses, may hold anything: the fields begin after its last one.
        let fields =
            String::from_utf8_lossy(&stat[stat.iter().rposition(|byte| *byte == b')')? + 1..]).into_owned();
        fields.split_whitespace().nth(1).and_then(parse)
    };
    processes().into_iter().filter_map(|pid| Some((pid, parent_of(&pid)?))).collect()
}

fn processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str().and_then(parse)).collect()
}

/// A process by its number as text; the dead have none, or less than none.
pub(crate) fn parse(number: &str) -> Option<Pid> {
    number.trim().parse().ok().filter(|number| *number > 0).and_then(Pid::from_raw)
}

/// Sends a signal to every process below this one, except that which is spared.
pub(super) fn signal_descendants(signal: Signal, spared: Option<Pid>) {
    for pid in descendants(rustix::process::getpid()).into_iter().filter(|pid| Some(*pid) != spared) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills everything below this process and reaps it; how many there were, as far as that could be seen.
pub(super) fn kill_descendants() -> u32 {
    let mut killed = 0;
    loop {
        let found = descendants(rustix::process::getpid());
        for pid in &found {
            // With its group, at one stroke: a chain of short-lived forks could outrun one at a time.
            if let Ok(group) = rustix::process::getpgid(Some(*pid))
                && group != rustix::process::getpgrp()
            {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
        killed = killed.max(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if reap_all() == RemainingProcesses::None {
            return killed;
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

#[derive(PartialEq, Eq)]
enum RemainingProcesses {
    Some,
    None,
}

/// Reaps every child that is dead, and returns whether there are others.
fn reap_all() -> RemainingProcesses {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return RemainingProcesses::Some,
            Err(_) => return RemainingProcesses::None,
        }
    }
}

/// Kills, again and again until none is left, every process whose environment has `name=value`. This is for
/// processes that no process holds any more: the reaper was killed, or the owner died. Returns how many were
/// found. An empty value marks nothing.
pub fn kill_marked(name: &str, value: &OsStr) -> u32 {
    if value.is_empty() {
        return 0;
    }
    let mark = [name.as_bytes(), b"=", value.as_bytes()].concat();
    match kill_where(|environ| variables(environ).any(|variable| variable == mark), None) {
        Ok(killed) => killed,
        Err(UnkillableProcess { killed, .. }) => killed,
    }
}

/// Some processes did not die in time.
#[derive(Debug)]
pub(crate) struct UnkillableProcess {
    /// The number of processes that were killed.
    pub(crate) killed: u32,
    /// One of those that live.
    pub(crate) pid: Pid,
}

/// The kernel's flag of a process that is about to end.
const PF_EXITING: u32 = 0x4;
/// That of a thread of the kernel.
const PF_KTHREAD: u32 = 0x0020_0000;
/// The sizes of the reads of an environment: the first one, and below it the limit.
const ENVIRON_BYTES: usize = 64 * 1024;
const ENVIRON_BYTES_MAX: usize = 8 << 20;
/// The time for which a process between two programs is looked at.
const BETWEEN_WAIT: Duration = Duration::from_secs(1);
/// The default time that the process that holds a command has to kill it.
const HOLDER_WAIT: Duration = Duration::from_secs(20);
/// The wait for processes that are about to end.
const LEAVING_WAIT: Duration = Duration::from_secs(1);

/// The same for every process whose environment is `meant`, until none is left or the time is up. The
/// processes found are waited for: when this returns, they hold no file any more. This process itself is
/// never meant.
pub(crate) fn kill_where(
    meant: impl Fn(&[u8]) -> bool,
    until: Option<Instant>,
) -> Result<u32, UnkillableProcess> {
    let mut killed = BTreeSet::new();
    loop {
        let found = hold_matching(&meant);
        if found.is_empty() {
            wait_for_leaving(until);
            return Ok(count(&killed));
        }
        end_holders(&found, until);
        for MatchedProcess { held, .. } in &found {
            // One that died with another cannot be signalled any more, and is dead.
            let _ = rustix::process::pidfd_send_signal(held, Signal::KILL);
        }
        for MatchedProcess { pid, held, .. } in found {
            if !is_dead_by(&held, until) {
                return Err(UnkillableProcess { killed: count(&killed), pid });
            }
            killed.insert(pid.as_raw_nonzero());
        }
    }
}

fn count(killed: &BTreeSet<NonZeroI32>) -> u32 {
    u32::try_from(killed.len()).unwrap_or(u32::MAX)
}

/// A process that is meant.
struct MatchedProcess {
    pid: Pid,
    held: OwnedFd,
    /// True if it holds a whole command, and kills that when it is asked to end.
    is_holder: bool,
}

/// Asks those that hold a command to kill it, and waits until they have. One that does not is killed like any
/// other.
fn end_holders(found: &[MatchedProcess], until: Option<Instant>) {
    let holders = || found.iter().filter(|found| found.is_holder).map(|found| &found.held);
    for held in holders() {
        for signal in [Signal::TERM, Signal::CONT] {
            let _ = rustix::process::pidfd_send_signal(held, signal);
        }
    }
    let until = until.unwrap_or_else(|| Instant::now() + HOLDER_WAIT);
    holders().for_each(|held| {
        is_dead_by(held, Some(until));
    });
}

/// Each is looked at again once it is held: the number may have become a stranger's in between. A zombie has
/// no environment, so what is dead is not found again.
fn hold_matching(meant: &impl Fn(&[u8]) -> bool) -> Vec<MatchedProcess> {
    let own = rustix::process::getpid();
    let mut room = vec![0; ENVIRON_BYTES];
    let holder = [super::holder::HOLDER.as_bytes(), b"=1"].concat();
    let mut is_meant = |pid: Pid| {
        let environ = settled_environ(pid, &mut room).filter(|environ| meant(environ))?;
        Some(variables(environ).any(|variable| variable == holder))
    };
    let mut held = |pid: Pid| {
        if pid == own || is_meant(pid).is_none() {
            return None;
        }
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        is_meant(pid).map(|is_holder| MatchedProcess { pid, held, is_holder })
    };
    processes().into_iter().filter_map(&mut held).collect()
}

/// The environment of a process, read into `room`; none when it cannot be looked at. A process that is about
/// to become another program has for a moment the memory of the new one, without an environment. It is looked
/// at until it has one. An empty one is believed when it was so twice in the same memory.
fn settled_environ(pid: Pid, room: &mut Vec<u8>) -> Option<&[u8]> {
    let until = Instant::now() + BETWEEN_WAIT;
    let mut memory = None;
    loop {
        let count = read_environ(pid, room)?;
        let stat = if count == 0 { ProcessStat::read(pid).filter(ProcessStat::is_program) } else { None };
        let Some(ProcessStat { env_end, .. }) = stat else { return Some(&room[..count]) };
        let is_same = env_end != 0 && memory == Some(env_end);
        if is_same || Instant::now() >= until {
            return Some(&[]);
        }
        memory = Some(env_end);
        if env_end == 0 {
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }
}

/// Returns the length of the environment from one read: two reads may return parts of two programs, and
/// the second of none. The buffer grows to hold it.
fn read_environ(pid: Pid, room: &mut Vec<u8>) -> Option<usize> {
    loop {
        let mut file = fs::File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
        let count = file.read(room).ok()?;
        if count < room.len() || count >= ENVIRON_BYTES_MAX {
            return Some(count);
        }
        room.resize(room.len() * 2, 0);
    }
}

/// The kernel's record of a process.
struct ProcessStat {
    is_dead: bool,
    flags: u32,
    /// The address at which its environment ends in its memory; 0 if it has none yet, or no memory.
    env_end: u64,
}

impl ProcessStat {
    fn read(pid: Pid) -> Option<ProcessStat> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold anything. Behind it are the state and, as the seventh and the 49th fields, the
        // others.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let field = |at: usize| fields.get(at).copied();
        Some(ProcessStat {
            is_dead: matches!(field(0), None | Some("Z" | "X")),
            flags: field(6).and_then(|flags| flags.parse().ok()).unwrap_or_default(),
            env_end: field(48).and_then(|end| end.parse().ok()).unwrap_or_default(),
        })
    }

    fn is_leaving(&self) -> bool {
        !self.is_dead && self.flags & PF_EXITING != 0
    }

    /// Returns true if it has memory of its own and retains it: it is neither dead nor exiting, and none of
    /// the kernel's.
    fn is_program(&self) -> bool {
        !self.is_dead && self.flags & (PF_EXITING | PF_KTHREAD) == 0
    }
}

/// Waits for processes that are about to end. Their memory goes first and with it their environment, so they
/// are not found any more; their files go after it.
fn wait_for_leaving(until: Option<Instant>) {
    let at_most = Instant::now() + LEAVING_WAIT;
    let until = until.map_or(at_most, |until| until.min(at_most));
    let is_leaving = |pid: &Pid| ProcessStat::read(*pid).is_some_and(|stat| stat.is_leaving());
    let leaving: Vec<OwnedFd> = processes()
        .into_iter()
        .filter(is_leaving)
        .filter_map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
        .collect();
    // Their owner is not known any more; one that takes long is not one that was just killed.
    leaving.iter().for_each(|held| {
        is_dead_by(held, Some(until));
    });
}

/// Waits for the death of a process, which its pidfd reports.
fn is_dead_by(held: &OwnedFd, until: Option<Instant>) -> bool {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(held, PollFlags::IN)];
        match poll(&mut fds, time.as_ref()) {
            Ok(_) if !fds[0].revents().is_empty() => return true,
            Ok(_) | Err(Errno::INTR) if left.is_none_or(|left| !left.is_zero()) => {}
            Ok(_) | Err(_) => return false,
        }
    }
}

/// The variables of an environment as `/proc` has it, each with its name.
pub(crate) fn variables(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    environ.split(|byte| *byte == 0)
}
