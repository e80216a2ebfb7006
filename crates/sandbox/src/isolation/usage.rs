//! Measures the resources of a running command: processes, memory, the disk. The reaper checks it again and
//! again.
//!
//! # Invariants
//! 1. Memory that processes share counts once: where their sum is too much, their proportional shares decide.
//!    The same holds for memory that is no process's own (the sibling `shared_memory`).
//! 2. A disk that has less free than it should at the start is not watched: the command did not fill it.
//! 3. The closer a bound is, the sooner it is looked at again.
//!
//! # Not here
//! What the kernel holds by itself: the number of processes in a user namespace (the sibling `exec`), the
//! size of private directories (the sibling `mounts`).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;

use super::IsolationBackend;
use super::control::ChildOrder;
use super::process_tree::{descendants, parse};
use super::shared_memory::SharedMemory;
use crate::command::{LimitHit, ResourceLimits};

/// When a command is looked at for the first time, and again where no bound is near, and where one is.
const FIRST: Duration = Duration::from_millis(100);
const FAR: Duration = Duration::from_millis(250);
const NEAR: Duration = Duration::from_millis(30);
/// The speed at which a disk can be filled, in bytes a second.
const DISK_BYTES_PER_S: u64 = 4 << 30;
/// Private directories with less room than this are full.
const FULL_BYTES: u64 = 64 << 10;
/// The least that private directories hold.
const PRIVATE_BYTES_MIN: u64 = 16 << 20;
/// A private directory that every command has in a mount namespace of its own.
const PRIVATE: &str = "/dev/shm";

/// The memory that a command may use, in bytes.
pub(super) fn memory_bytes_max(bounds: &ResourceLimits) -> u64 {
    match bounds.memory_bytes_max {
        0 => {
            let machine = rustix::system::sysinfo();
            let total = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
            total / 4 * 3
        }
        bytes => bytes,
    }
}

/// Returns the size limit of the private directories together, in bytes.
pub(super) fn private_bytes_max(bounds: &ResourceLimits) -> u64 {
    (memory_bytes_max(bounds) / 2).max(PRIVATE_BYTES_MIN)
}

/// Returns the number of processes and threads of this user: without a namespace, the kernel counts all of
/// them.
pub(super) fn processes_of_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.uid() == user);
    let paths = entries.map(|entry| entry.path()).filter(|path| path.join("task").exists());
    paths.filter(is_own).map(|path| threads_in(&path)).sum()
}

/// The watch over one command.
pub(super) struct UsageMonitor {
    bounds: ResourceLimits,
    memory_bytes_max: u64,
    disks: Vec<PathBuf>,
    is_namespace: bool,
    shared: SharedMemory,
}

impl UsageMonitor {
    /// Begins to watch; the reaper calls it where it sees what its command sees.
    pub(super) fn new(order: &ChildOrder, is_namespace: bool) -> UsageMonitor {
        let at = |root: &super::control::OrderRoot| match order.rung {
            IsolationBackend::Namespaces => root.path.clone(),
            IsolationBackend::Bubblewrap | IsolationBackend::Landlock | IsolationBackend::None => {
                root.source().clone()
            }
        };
        let roots = order.roots.iter().filter(|root| root.writable).map(at);
        let min = order.bounds.disk_free_bytes_min;
        let is_watched = |path: &PathBuf| min > 0 && free_bytes(path).is_some_and(|free| free > min);
        let disks = roots.chain(order.writable.iter().cloned()).filter(is_watched).collect();
        let memory_bytes_max = memory_bytes_max(&order.bounds);
        let shared = SharedMemory::new(is_namespace);
        UsageMonitor { bounds: order.bounds, memory_bytes_max, disks, is_namespace, shared }
    }

    /// When to look for the first time.
    pub(super) fn first(&self) -> Duration {
        FIRST
    }

    /// Looks; returns when to look again, or the bound that was passed.
    pub(super) fn check(&self) -> Result<Duration, LimitHit> {
        let processes = self.processes();
        let threads: u64 = processes.iter().map(|pid| threads_in(&proc_of(*pid))).sum();
        let bounded = self.bounds.processes_max;
        if bounded > 0 && threads > bounded {
            return Err(LimitHit::Processes { max: bounded });
        }
        let memory = self.memory(&processes);
        if memory > self.memory_bytes_max {
            return Err(LimitHit::Memory { bytes_max: self.memory_bytes_max });
        }
        let disk = self.disk()?;
        let is_near = (bounded > 0 && threads > bounded / 2) || memory > self.memory_bytes_max / 2;
        Ok(disk.min(if is_near { NEAR } else { FAR }))
    }

    /// The bound that a command which has just ended is at; called before what it left is killed.
    pub(super) fn at_end(&self) -> Option<LimitHit> {
        let bounded = self.bounds.processes_max;
        let threads: u64 = self.processes().iter().map(|pid| threads_in(&proc_of(*pid))).sum();
        // The command itself is gone by now, and its neighbours may be.
        if bounded > 0 && threads >= bounded - bounded / 8 {
            return Some(LimitHit::Processes { max: bounded });
        }
        let is_full =
            self.is_namespace && free_bytes(Path::new(PRIVATE)).is_some_and(|free| free < FULL_BYTES);
        is_full.then(|| LimitHit::PrivateFiles { bytes_max: private_bytes_max(&self.bounds) })
    }

    fn processes(&self) -> Vec<Pid> {
        let own = rustix::process::getpid();
        if !self.is_namespace {
            return descendants(own);
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str().and_then(parse))
            .filter(|pid| *pid != own)
            .collect()
    }

    /// Returns the memory of the processes, of the files in private directories, and the shared memory.
    fn memory(&self, processes: &[Pid]) -> u64 {
        let sum: u64 = processes.iter().map(|pid| own_bytes(*pid)).sum();
        let files = if self.is_namespace { used_bytes(Path::new(PRIVATE)) } else { 0 };
        // The whole machine has no more of it than this: far from the bound it need not be attributed.
        let shared = SharedMemory::of_machine_bytes();
        if sum.saturating_add(shared) <= self.memory_bytes_max / 2 {
            return sum + files;
        }
        let shared = files.saturating_add(self.shared.bytes(processes));
        if sum.saturating_add(shared) <= self.memory_bytes_max {
            return sum + shared;
        }
        processes.iter().map(|pid| share_bytes(*pid)).sum::<u64>().saturating_add(shared)
    }

    /// Returns the shortest time that the disks last; an error if one has too little space.
    fn disk(&self) -> Result<Duration, LimitHit> {
        let min = self.bounds.disk_free_bytes_min;
        let mut lasts = FAR;
        for disk in &self.disks {
            let Some(free) = free_bytes(disk) else { continue };
            if free < min {
                return Err(LimitHit::Disk { bytes_min: min });
            }
            let millis = (free - min).saturating_mul(1000) / DISK_BYTES_PER_S;
            lasts = lasts.min(Duration::from_millis(millis).max(NEAR));
        }
        Ok(lasts)
    }
}

pub(super) fn proc_of(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()))
}

/// The directory of threads has a link for each.
fn threads_in(process: &Path) -> u64 {
    fs::metadata(process.join("task")).map_or(0, |found| found.nlink().saturating_sub(2))
}

/// The memory of a process that is no file's, in bytes; what it shares with its relatives counts for each.
fn own_bytes(pid: Pid) -> u64 {
    let Ok(text) = fs::read_to_string(proc_of(pid).join("statm")) else { return 0 };
    let mut pages = text.split_ascii_whitespace().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (Some(resident), Some(shared)) = (pages.next(), pages.next()) else { return 0 };
    resident.saturating_sub(shared).saturating_mul(page_bytes())
}

fn page_bytes() -> u64 {
    // SAFETY: it asks for a number and touches no memory.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The same, with its share only of what it shares.
fn share_bytes(pid: Pid) -> u64 {
    let Ok(text) = fs::read_to_string(proc_of(pid).join("smaps_rollup")) else { return own_bytes(pid) };
    let share = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let share = share.and_then(|share| share.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    share.map_or_else(|| own_bytes(pid), |kb| kb.saturating_mul(1024))
}

fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

fn used_bytes(path: &Path) -> u64 {
    let Ok(found) = rustix::fs::statvfs(path) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}
