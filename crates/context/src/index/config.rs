//! The bounds of an index, each with its unit.

use std::time::Duration;

use super::FILE_BYTES_MAX_DEFAULT;

/// The limits of an index: sizes, retention and waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexConfig {
    /// The longest file that is read.
    pub file_bytes_max: u64,
    /// The most files; of more the first by path.
    pub files_max: usize,
    /// The most bytes of the index on disk, with those of other projects beside it.
    pub disk_bytes_max: u64,
    /// How long facts that no file has are kept.
    pub keep_days: u32,
    /// How long one update may take.
    pub update_deadline: Duration,
    /// How many of the newest commits are looked at; 0 is none.
    pub history_commits: u32,
    /// The number of threads that read and scan.
    pub threads: usize,
}

impl Default for IndexConfig {
    fn default() -> Self {
        IndexConfig {
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            files_max: 200_000,
            disk_bytes_max: 512 * 1024 * 1024,
            keep_days: 30,
            update_deadline: Duration::from_secs(10),
            history_commits: 2000,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
