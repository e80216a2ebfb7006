//! Faults: each kind is on or off for a whole run, and is counted.
//!
//! # Invariants
//! 1. A fault is counted when it strikes, not when it is possible.
//! 2. After the faults have ended, none strikes.

use crate::random::Random;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Fault] = &[$(Fault::$name,)*];

            /// Its name, as shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Fault::$name => $word,)*
                }
            }
        }
    };
}

faults! {
    /// A worker's process dies between two steps of the store.
    WorkerKilled = "worker killed",
    /// All processes die, and what was not synced is gone.
    PowerLoss = "power loss",
    /// A worker's process is paused, for up to three leases.
    Pause = "pause",
    /// A worker is asked to stop.
    WorkerStopped = "worker stopped",
    /// A heartbeat is never answered.
    HeartbeatLost = "heartbeat lost",
    /// A hint does not arrive.
    HintLost = "hint lost",
    /// The store is busy.
    StoreBusy = "store busy",
    /// The store breaks before it writes.
    ErrorBeforeCommit = "error before commit",
    /// The store has written, and the answer is lost.
    ErrorAfterCommit = "error after commit",
    /// A tool takes long.
    ToolSlow = "tool slow",
    /// A tool does not end.
    ToolHung = "tool hung",
    /// A tool panics inside the worker.
    ToolPanics = "tool panics",
    /// A tool starts processes that outlive it.
    ToolForks = "tool forks",
    /// A tool's process takes long to die.
    ToolStubborn = "tool ignores SIGTERM",
    /// A tool fails.
    ToolFails = "tool fails",
    /// A node is stopped between its change and the capture, by its time limit or with a sibling, while the
    /// run continues.
    WriterStopped = "writer stopped",
    /// The model counts requests and says wait.
    Model429 = "model 429",
    /// The model has too much to do.
    Model529 = "model 529",
    /// The model answers what cannot be used.
    ModelGarbage = "model garbage",
    /// The model does not answer.
    ModelSilence = "model silence",
    /// A user cancels a plan, from outside.
    Cancel = "cancel",
    /// A caller cancels it inside the process that runs it.
    CancelInside = "cancel inside",
    /// Two cancel it at once.
    CancelTwice = "cancel twice",
    /// The token that was cancelled is reset at once.
    CancelReset = "cancel and reset",
    /// Store and files have no space.
    DiskFull = "disk full",
    /// The wall clock jumps by up to a day.
    WallClock = "wall clock",
    /// The user edits files meanwhile.
    UserEdits = "user edits",
}

impl Fault {
    const fn index(self) -> usize {
        self as usize
    }
}

/// The number of kinds.
pub(crate) const FAULTS: usize = Fault::ALL.len();

/// The faults of one run.
#[derive(Clone, Debug)]
pub(crate) struct FaultSchedule {
    is_on: [bool; FAULTS],
    left: [u32; FAULTS],
    counts: [u64; FAULTS],
    have_ended: bool,
}

impl FaultSchedule {
    /// Each kind is on in about a third of all runs, and a tenth of the runs has none.
    pub(crate) fn draw(random: &mut Random, has_flood: bool) -> Self {
        let is_quiet = random.chance(1_000);
        let mut is_on = [false; FAULTS];
        for on in &mut is_on {
            *on = !is_quiet && random.chance(3_300);
        }
        let mut left = [12; FAULTS];
        left[Fault::PowerLoss.index()] = 2;
        left[Fault::WorkerKilled.index()] = 6;
        left[Fault::Pause.index()] = 4;
        left[Fault::DiskFull.index()] = 2;
        left[Fault::ErrorBeforeCommit.index()] = 3;
        if has_flood {
            is_on[Fault::ModelGarbage.index()] = true;
            left[Fault::ModelGarbage.index()] = 140;
        }
        Self { is_on, left, counts: [0; FAULTS], have_ended: false }
    }

    pub(crate) fn is_on(&self, fault: Fault) -> bool {
        !self.have_ended && self.is_on[fault.index()] && self.left[fault.index()] > 0
    }

    /// Returns whether it strikes now, which is then counted.
    pub(crate) fn strikes(&mut self, fault: Fault, random: &mut Random, in_ten_thousand: u32) -> bool {
        let strikes = self.is_on(fault) && random.chance(in_ten_thousand);
        if strikes {
            self.count(fault);
        }
        strikes
    }

    pub(crate) fn count(&mut self, fault: Fault) {
        self.counts[fault.index()] += 1;
        self.left[fault.index()] = self.left[fault.index()].saturating_sub(1);
    }

    pub(crate) fn end(&mut self) {
        self.have_ended = true;
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.have_ended
    }

    pub(crate) fn counts(&self) -> [u64; FAULTS] {
        self.counts
    }
}
