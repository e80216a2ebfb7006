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
    /// The most bytes of the index on disk, together with those of other projects in the same directory.
    pub disk_bytes_max: u64,
    /// The days for which facts without a file are retained.
    pub keep_days: u32,
    /// The time limit of one update.
    pub update_deadline: Duration,
    /// The number of the newest commits that are read; 0 is none.
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
