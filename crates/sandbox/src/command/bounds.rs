//! The resource limits of a command, and the report of one that reached them.
//!
//! # Not here
//! How it is measured and held: [`isolation`](crate::isolation).

use std::fmt;

use serde::{Deserialize, Serialize};

const MB: u64 = 1024 * 1024;

/// The resources that a command may use, with all that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Processes and threads at once; 0 for no bound.
    pub processes_max: u64,
    /// Memory, private directories included; 0 for three quarters of the machine's.
    pub memory_bytes_max: u64,
    /// The bytes that must stay free on a disk that it writes to; 0 to let it fill the disk.
    pub disk_free_bytes_min: u64,
}

impl Default for ResourceLimits {
    fn default() -> ResourceLimits {
        ResourceLimits { processes_max: 8192, memory_bytes_max: 0, disk_free_bytes_min: 256 * MB }
    }
}

/// A bound that a command reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitHit {
    /// As many processes as it may have.
    Processes {
        /// The limit.
        max: u64,
    },
    /// As much memory.
    Memory {
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// Its private directories are full: they are in memory.
    PrivateFiles {
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// The disk was about to be full.
    Disk {
        /// The number of bytes that have to stay free.
        bytes_min: u64,
    },
}

impl LimitHit {
    /// Returns the setting that holds the limit, and a value for it that is less strict.
    pub fn raised_setting(&self) -> (&'static str, u64) {
        match *self {
            LimitHit::Processes { max } => ("limits.processes", max.saturating_mul(2)),
            LimitHit::Memory { bytes_max } => ("limits.memory", (bytes_max / MB).saturating_mul(2)),
            LimitHit::PrivateFiles { bytes_max } => ("limits.memory", (bytes_max / MB).saturating_mul(4)),
            LimitHit::Disk { bytes_min } => ("limits.disk", bytes_min / MB / 4),
        }
    }
}

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LimitHit::Processes { max } => {
                write!(f, "it had as many processes as `limits.processes` allows, {max}")
            }
            LimitHit::Memory { bytes_max } => {
                write!(f, "it used more memory than `limits.memory` allows, {} MB", bytes_max / MB)
            }
            LimitHit::PrivateFiles { bytes_max } => {
                let mb = bytes_max / MB;
                write!(f, "its /tmp and other private directories are full: half of `limits.memory`, {mb} MB")
            }
            LimitHit::Disk { bytes_min } => {
                write!(f, "the disk had less free space than `limits.disk` requires, {} MB", bytes_min / MB)
            }
        }
    }
}
