//! The ports of this crate: the files and the history of a project.
//!
//! # Invariants
//! 1. This crate opens no file of a project and starts no process: it asks here.
//! 2. What is answered may be out of date a moment later; whoever reads a file looks at the bytes it got.
//!
//! # Not here
//! How a path is kept within its project, and how git is run: the crate `sandbox`; the engine brings them
//! together.

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
    /// Which file of its file system it is.
    pub inode: u64,
}

/// Returns true if no caller waits any more; once true, it stays true.
pub type StopPoll<'a> = dyn Fn() -> bool + Sync + 'a;

/// The end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkSummary {
    /// True if it came to its end: nobody stopped it.
    pub complete: bool,
    /// Directories that could not be read: what is below them was not told.
    pub unread: Vec<RelPath>,
}

impl WalkSummary {
    /// Every file was told.
    pub fn all() -> WalkSummary {
        WalkSummary { complete: true, unread: Vec::new() }
    }

    /// Somebody stopped it.
    pub fn stopped() -> WalkSummary {
        WalkSummary { complete: false, unread: Vec::new() }
    }
}

/// The error of a port.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PortError {
    /// What to tell people.
    pub message: String,
    /// What it was.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// The files of a project, or of a sandbox over it.
pub trait FileTree: Send + Sync {
    /// Tells every regular file that git tracks or does not ignore, in any order, from any thread; no link is
    /// followed. It looks at `is_over` all the time, whether there is something to tell or not, and goes no
    /// further when that says so.
    ///
    /// # Errors
    /// The root cannot be read.
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError>;

    /// How long a file is, by its record: nothing of it is read.
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

/// A commit, as git tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub oid: Oid,
    /// The time when it was made, in seconds since 1970.
    pub at: i64,
    /// Its message.
    pub message: String,
    /// What it changed; more than [`COMMIT_PATHS_MAX`] are told as one more than that.
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

    /// Where it was cut off, as a mark that is another when it is cut elsewhere; empty if it is whole.
    fn cut_at(&self) -> String;

    /// At most `max` commits that are no merges, down to `stop_at`, which is not told.
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
