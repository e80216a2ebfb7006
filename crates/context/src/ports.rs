//! The ports of this crate: the files and the history of a project.
//!
//! # Invariants
//! 1. This crate opens no file of a project and starts no process: it asks here.
//! 2. An answer may be out of date a moment later; the reader of a file looks at the bytes it got.
//!
//! # Not here
//! Confining a path to its project, and running git: the crate `sandbox`; the engine brings them together.

use std::error::Error;
use std::io;

use domain::RelPath;

use crate::StopCheck;
use crate::index::Oid;

/// A regular file, as a walk met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its location.
    pub path: RelPath,
    /// Its length.
    pub size: u64,
    /// The time when it was written last, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The time when its record changed last, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// The inode number of the file.
    pub inode: u64,
}

/// Returns true if no caller waits any more; once true, it stays true.
pub type StopPoll<'a> = dyn Fn() -> bool + Sync + 'a;

/// The end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkSummary {
    /// True if the walk came to its end and was not stopped.
    pub complete: bool,
    /// Directories that could not be read: files below them were not reported.
    pub unread: Vec<RelPath>,
}

impl WalkSummary {
    /// Every file was reported.
    pub fn all() -> WalkSummary {
        WalkSummary { complete: true, unread: Vec::new() }
    }

    /// The walk was stopped.
    pub fn stopped() -> WalkSummary {
        WalkSummary { complete: false, unread: Vec::new() }
    }
}

/// The error of a port.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// The message for the user.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The files of a project, or of a sandbox over it.
pub trait FileTree: Send + Sync {
    /// Reports every regular file that git tracks or does not ignore, in any order, from any thread; no link
    /// is followed. It asks `is_over` all the time, even when there is nothing to report, and stops when that
    /// returns true.
    ///
    /// # Errors
    /// The root cannot be read.
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError>;

    /// Returns the length of a file by its metadata; reads nothing of its content.
    ///
    /// # Errors
    /// What the system says; nothing there is [`io::ErrorKind::NotFound`].
    fn size(&self, path: &RelPath) -> io::Result<u64>;

    /// The bytes of a file, or its first `max` if it is longer. The path is resolved within the project by
    /// the kernel; a pipe or a device is an error and is not waited for.
    ///
    /// # Errors
    /// What the system says; nothing there is [`io::ErrorKind::NotFound`].
    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>>;
}

/// A commit, as git reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub oid: Oid,
    /// The time when it was made, in seconds since 1970.
    pub at: i64,
    /// Its message.
    pub message: String,
    /// The changed paths; more than [`COMMIT_PATHS_MAX`] are reported as one more than that.
    pub paths: Vec<RelPath>,
}

/// A commit that changed more paths says nothing about which belong together.
pub const COMMIT_PATHS_MAX: usize = 30;

/// The newest commits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CommitLog {
    /// The newest first, without merges.
    pub commits: Vec<Commit>,
    /// True if they end right before the commit that was asked for: it is an ancestor of all there is.
    pub joins: bool,
}

/// The history of a project.
pub trait History: Send + Sync {
    /// The newest commit; none if there is no history.
    ///
    /// # Errors
    /// Git could not be asked.
    fn head(&self, stop: &StopCheck) -> Result<Option<Oid>, PortError>;

    /// Returns a mark of the place at which history was cut off, different for each place; empty if it is
    /// whole.
    fn cut_at(&self) -> String;

    /// Returns at most `max` commits that are no merges, down to `stop_at`, which is not included.
    ///
    /// # Errors
    /// Git could not be asked, or was stopped.
    fn log(&self, stop_at: Option<&Oid>, max: u32, stop: &StopCheck) -> Result<CommitLog, PortError>;
}

/// The time on the wall, which files carry too.
pub trait WallClock: Send + Sync {
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> i64;
}

/// The machine's.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWallClock;

impl WallClock for SystemWallClock {
    fn now_ns(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}
