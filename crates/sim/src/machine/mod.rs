//! The simulated machine: the user's files, sandboxes, processes, journals of applies, locks of the kernel.
//!
//! # Where to look
//! `files` is the project with all writes to it, `journal` the applies that write there, `processes` the
//! processes of tools and their ends.
//!
//! # Invariants
//! 1. A process that ends loses what it owns: its locks at once, its children as the machine decides.
//! 2. Files, sandboxes and journals are on the disk: they outlive processes, and power as far as they were
//!    synced.

mod files;
mod journal;
mod processes;

use std::collections::BTreeMap;

use domain::{ApplyId, Claim, Fence, JobId, PlanId, WorkerId};

use crate::executor::TaskGroup;
use crate::scenario::FILES;

pub(crate) use files::{FileWriter, SimFiles, state_of, value_of};
pub(crate) use journal::{Journal, JournalEnd, SimJournalEntry, torn};
pub(crate) use processes::{Pid, ProcessStart, SimProcess};

/// A sandbox on the disk.
#[derive(Clone, Debug)]
pub(crate) struct SimSandbox {
    pub(crate) claim: Claim,
    pub(crate) owner: TaskGroup,
    /// The values of the files when it was opened.
    base: Vec<u64>,
    now: Vec<u64>,
    captured: Vec<u64>,
}

/// A file that differs: which, what it was, what it is.
pub(crate) type FileDifference = (u32, u64, u64);

impl SimSandbox {
    pub(crate) fn write(&mut self, file: u32, value: u64) {
        if let Some(place) = self.now.get_mut(file as usize) {
            *place = value;
        }
    }

    /// Puts a recorded change back: it is not reported again.
    pub(crate) fn put_back(&mut self, file: u32, value: u64) {
        self.write(file, value);
        if let Some(place) = self.captured.get_mut(file as usize) {
            *place = value;
        }
    }

    pub(crate) fn value(&self, file: u32) -> u64 {
        self.now.get(file as usize).copied().unwrap_or(0)
    }

    /// Returns the changes since it was last recorded, whichever process made them.
    pub(crate) fn changed(&self) -> Vec<FileDifference> {
        differing(&self.captured, &self.now).collect()
    }

    /// The files that are not as they were when it was opened, and what they are.
    pub(crate) fn differs_from_base(&self) -> impl Iterator<Item = (u32, u64)> {
        differing(&self.base, &self.now).map(|(file, _, now)| (file, now))
    }

    /// Undoes the changes since it was last recorded.
    pub(crate) fn put_back_changed(&mut self) {
        self.now.clone_from(&self.captured);
    }

    /// Notes that these changes are recorded.
    pub(crate) fn is_recorded(&mut self, changes: &[FileDifference]) {
        for (file, _, value) in changes {
            if let Some(place) = self.captured.get_mut(*file as usize) {
                *place = *value;
            }
        }
    }
}

fn differing(before: &[u64], now: &[u64]) -> impl Iterator<Item = FileDifference> {
    let pairs = (0..).zip(before.iter().zip(now));
    pairs.filter(|(_, (before, now))| before != now).map(|(file, (before, now))| (file, *before, *now))
}

/// The machine.
#[derive(Debug)]
pub(crate) struct SimMachine {
    pub(crate) files: SimFiles,
    pub(crate) sandboxes: BTreeMap<u64, SimSandbox>,
    pub(crate) processes: BTreeMap<Pid, SimProcess>,
    pub(crate) journals: BTreeMap<ApplyId, Journal>,
    /// The ending of every journal that is put away.
    pub(crate) ended: BTreeMap<ApplyId, (PlanId, JournalEnd)>,
    /// The kernel's lock on the project's root: the process that has it, and the number of the taking.
    pub(crate) root_lock: Option<(TaskGroup, u64)>,
    /// The life signs of workers: which process shows them.
    pub(crate) presence: BTreeMap<WorkerId, TaskGroup>,
    pub(crate) is_full: bool,
    next: u64,
}

impl SimMachine {
    pub(crate) fn new() -> Self {
        Self {
            files: SimFiles::new(FILES),
            sandboxes: BTreeMap::new(),
            processes: BTreeMap::new(),
            journals: BTreeMap::new(),
            ended: BTreeMap::new(),
            root_lock: None,
            presence: BTreeMap::new(),
            is_full: false,
            next: 0,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A sandbox that starts from the live tree.
    pub(crate) fn open_sandbox(&mut self, claim: Claim, owner: TaskGroup) -> Option<u64> {
        if self.is_full {
            return None;
        }
        let no = self.number();
        let now = self.files.values();
        self.sandboxes.insert(no, SimSandbox { claim, owner, base: now.clone(), captured: now.clone(), now });
        Some(no)
    }

    /// Removes the sandboxes that an earlier owner of the job left, so that nothing can begin in them.
    pub(crate) fn sweep_job(&mut self, job: JobId, before: Fence) {
        self.sandboxes.retain(|_, sandbox| sandbox.claim.job != job || sandbox.claim.fence >= before);
    }

    /// Takes the lock of the project's root, if no process has it.
    pub(crate) fn lock_root(&mut self, group: TaskGroup) -> Option<u64> {
        if self.root_lock.is_some() {
            return None;
        }
        let taking = self.number();
        self.root_lock = Some((group, taking));
        Some(taking)
    }

    pub(crate) fn unlock_root(&mut self, taking: u64) {
        self.root_lock.take_if(|(_, held)| *held == taking);
    }

    /// The processes that live of those which this owner of the job started. The next owner kills those that
    /// an earlier one left.
    pub(crate) fn lives_of_run(&self, claim: &Claim) -> usize {
        self.processes.values().filter(|process| process.claim == *claim).count()
    }

    /// The plan's processes that live.
    pub(crate) fn lives_of(&self, plan: PlanId) -> usize {
        self.processes.values().filter(|process| process.claim.plan == plan).count()
    }
}
