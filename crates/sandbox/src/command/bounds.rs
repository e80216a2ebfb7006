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

impl fmt::Display for LimitHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raise = |f: &mut fmt::Formatter<'_>, key: &str, value: u64| {
            write!(f, "; change it with `agents config set {key}={value}` and run it anew")
        };
        match *self {
            LimitHit::Processes { max } => {
                write!(f, "it had as many processes as `limits.processes` allows, {max}")?;
                raise(f, "limits.processes", max.saturating_mul(2))
            }
            LimitHit::Memory { bytes_max } => {
                write!(f, "it used more memory than `limits.memory` allows, {} MB", bytes_max / MB)?;
                raise(f, "limits.memory", (bytes_max / MB).saturating_mul(2))
            }
            LimitHit::PrivateFiles { bytes_max } => {
                let mb = bytes_max / MB;
                write!(
                    f,
                    "its /tmp and other private directories are full: half of `limits.memory`, {mb} MB"
                )?;
                raise(f, "limits.memory", mb.saturating_mul(4))
            }
            LimitHit::Disk { bytes_min } => {
                write!(f, "the disk had less than the {} MB free that `limits.disk` keeps", bytes_min / MB)?;
                raise(f, "limits.disk", bytes_min / MB / 4)
            }
        }
    }
}
