//! The files of a project, for callers that read all of them: what git tracks or does not ignore, and nothing
//! beyond the root.
//!
//! # Invariants
//! 1. Every directory and file is opened beneath the root by the kernel, and no link is followed.
//! 2. Only regular files are reported and read: a pipe is not waited for.
//! 3. Files of version control, files of this program and hidden files are not reported; hidden files are not
//!    read either.
//!
//! # Not here
//! The choice of the files that are worth reading: the index makes it.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};

use domain::RelPath;
use rustix::fs::{FileType, Stat};

use crate::capture::{CaptureFilter, CaptureRules, GITIGNORE, PathClass, TrackedRepository};
use crate::file_tools::read_file;
use crate::fs::beneath::{BeneathError, open_root};
use crate::fs::listing::{LOOK_ENTRIES, ListingEntry, kind_of, list_unless, open_dir, stat_beneath};
use crate::hidden_path_matcher::{HiddenInProject, HiddenPathMatcher};

/// A project's tree, or that of a sandbox over it, held open.
#[derive(Debug)]
pub struct ProjectTree {
    root: OwnedFd,
    project: PathBuf,
    hidden: HiddenInProject,
}

/// A regular file, as the walk met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// Its path.
    pub path: RelPath,
    /// Its length in bytes.
    pub size: u64,
    /// When it was written last, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// When its record changed last, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Its inode number.
    pub inode: u64,
}

/// The entries that a walk shows, and those that it leaves out.
#[derive(Clone, Copy)]
pub(crate) struct WalkRules<'a> {
    /// The rules for ignored paths.
    pub(crate) rules: &'a CaptureRules,
    /// True if git is asked for its index, so that what is tracked counts although it is ignored.
    pub(crate) asks_git: bool,
    /// Device and inode of directories that are no part of the project wherever they are.
    pub(crate) leave_out: &'a [(u64, u64)],
}

/// An entry of a directory that a walk met.
pub(crate) struct TreeEntry<'a> {
    pub(crate) path: RelPath,
    pub(crate) stat: &'a Stat,
    pub(crate) kind: FileType,
    /// True if it is a part of the project: git tracks it or does not ignore it. The entries of a directory
    /// that does not count are not visited.
    pub(crate) counts: bool,
}

/// Returns true if no caller waits any more; after that it always returns true.
pub type WalkStopCheck<'a> = dyn Fn() -> bool + Sync + 'a;

/// The number of directories that are listed ahead while the entries of others are reported.
const DIRS_AHEAD: usize = 64;

/// Fewer are listed by one thread.
const DIRS_TO_SHARE: usize = 8;

/// More threads than this gain nothing.
const THREADS_MAX: usize = 8;

/// If more directories cannot be read, a walk does not name them, and is not complete.
const UNREAD_MAX: usize = 1000;

/// The result of a walk: complete or cut short, and the directories that it could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEnd {
    /// True if the walk came to its end and was not stopped.
    pub is_complete: bool,
    /// Directories that could not be read; entries below them were not reported.
    pub unread: Vec<RelPath>,
}

impl WalkEnd {
    /// Returns the entries of a directory; `None` if it is gone, or is now noted as unreadable.
    fn tolerate_unreadable(
        &mut self,
        dir: Option<&RelPath>,
        listed: io::Result<Vec<ListingEntry>>,
    ) -> io::Result<Option<Vec<ListingEntry>>> {
        match (listed, dir) {
            (Ok(entries), _) => return Ok(Some(entries)),
            (Err(why), None) => return Err(why),
            // Gone meanwhile is as good as never there.
            (Err(why), Some(_)) if why.kind() == io::ErrorKind::NotFound => {}
            (Err(_), Some(dir)) => match self.unread.len() < UNREAD_MAX {
                true => self.unread.push(dir.clone()),
                false => self.is_complete = false,
            },
        }
        Ok(None)
    }
}

impl ProjectTree {
    /// The tree at a project's own path.
    ///
    /// # Errors
    /// It is no directory, or not to be reached.
    pub fn open(project: &Path) -> io::Result<ProjectTree> {
        let (root, hidden) = (open_root(project)?, HiddenInProject::default());
        Ok(ProjectTree { root, project: project.to_owned(), hidden })
    }

    /// The same tree without these paths.
    #[must_use]
    pub fn with_hidden(self, hidden: &HiddenPathMatcher) -> ProjectTree {
        ProjectTree { hidden: hidden.within(&self.project), ..self }
    }

    /// Calls `tell` for every regular file that git tracks or does not ignore, a directory at a time.
    /// Directories are listed on several cores, some of them ahead. `is_over` is looked at for each directory
    /// and every `LOOK_ENTRIES` entries, whatever they are.
    ///
    /// # Errors
    /// The root cannot be read.
    pub fn walk(&self, is_over: &WalkStopCheck<'_>, tell: &mut dyn FnMut(TreeFile)) -> io::Result<WalkEnd> {
        let mut tracked = TrackedRepository::new(&self.project);
        let how = WalkRules { rules: &CaptureRules::default(), asks_git: true, leave_out: &[] };
        self.walk_entries(&mut tracked, how, is_over, &mut |met| {
            if met.counts && met.kind == FileType::RegularFile {
                tell(TreeFile::new(met.path, met.stat));
            }
            true
        })
    }

    /// Shows every entry to `meet`, until that says no: files, directories and links, and whatever else is
    /// there.
    pub(crate) fn walk_entries(
        &self,
        tracked: &mut TrackedRepository,
        how: WalkRules<'_>,
        is_over: &WalkStopCheck<'_>,
        meet: &mut dyn FnMut(TreeEntry<'_>) -> bool,
    ) -> io::Result<WalkEnd> {
        let filter = CaptureFilter::new(self.root.as_fd(), tracked, &self.project, how.rules)
            .with_hidden(self.hidden.clone());
        let end = WalkEnd { is_complete: true, unread: Vec::new() };
        let mut walk =
            TreeWalk { filter, how, waiting: vec![None], at_once: 0, looked: 0, end, is_over, meet };
        thread::scope(|scope| {
            let mut ahead = self.list_ahead(scope, walk.next_dirs(), is_over);
            while !ahead.is_empty() {
                let listed: Vec<_> =
                    ahead.into_iter().flat_map(|share| share.take_listings(self, is_over)).collect();
                // While these are gone through, the next are listed.
                ahead = self.list_ahead(scope, walk.next_dirs(), is_over);
                for (dir, entries) in listed.into_iter().rev() {
                    if !walk.go_through(dir.as_ref(), entries)? {
                        return Ok(WalkEnd { is_complete: false, ..walk.end });
                    }
                }
                if ahead.is_empty() {
                    ahead = self.list_ahead(scope, walk.next_dirs(), is_over);
                }
            }
            Ok(walk.end)
        })
    }

    /// Returns the length of a file without opening it.
    ///
    /// # Errors
    /// It is not there, no regular file, leads out of the project, or cannot be looked at.
    pub fn size(&self, path: &RelPath) -> io::Result<u64> {
        self.hidden.check(path)?;
        match stat_beneath(self.root.as_fd(), path).map_err(BeneathError::into_io)? {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(stat) if kind_of(&stat) != FileType::RegularFile => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
            }
            Some(stat) => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
        }
    }

    /// The bytes of a file, at most the first `bytes_max`.
    ///
    /// # Errors
    /// It is not there, no regular file, leads out of the project, or cannot be read.
    pub fn read(&self, path: &RelPath, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.hidden.check(path)?;
        read_file(self.root.as_fd(), path, bytes_max).map(|(bytes, _)| bytes)
    }

    /// Begins to list some directories; the caller lists a few of them itself.
    fn list_ahead<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        dirs: Vec<Option<RelPath>>,
        is_over: &'scope WalkStopCheck<'_>,
    ) -> Vec<ListingBatch<'scope>> {
        // To ask for the number of cores takes longer than to list a few directories.
        let threads = match dirs.len() >= DIRS_TO_SHARE {
            true => thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX),
            false => 1,
        };
        let is_shared = threads > 1;
        let shares = dirs.chunks(if is_shared { dirs.len().div_ceil(threads) } else { DIRS_AHEAD });
        let begin = |dirs: &[Option<RelPath>]| {
            let dirs: Arc<[_]> = dirs.into();
            let others = Arc::clone(&dirs);
            let thread = thread::Builder::new().name("tree-walk".to_owned());
            let list = move || self.list_all(&others, is_over);
            ListingBatch { dirs, thread: is_shared.then(|| thread.spawn_scoped(scope, list).ok()).flatten() }
        };
        shares.map(begin).collect()
    }

    /// Returns the entries of each of some directories; once it is over, those found by then.
    fn list_all(
        &self,
        dirs: &[Option<RelPath>],
        is_over: &WalkStopCheck<'_>,
    ) -> Vec<io::Result<Vec<ListingEntry>>> {
        dirs.iter().map(|dir| self.list(dir.as_ref(), is_over)).collect()
    }

    fn list(&self, dir: Option<&RelPath>, is_over: &WalkStopCheck<'_>) -> io::Result<Vec<ListingEntry>> {
        if is_over() {
            return Ok(Vec::new());
        }
        let opened = open_dir(self.root.as_fd(), dir).map_err(BeneathError::into_io)?;
        list_unless(opened.as_fd(), is_over)
    }
}

/// Directories that are listed by a thread; without one, when they are asked for.
struct ListingBatch<'scope> {
    dirs: Arc<[Option<RelPath>]>,
    thread: Option<ScopedJoinHandle<'scope, Vec<io::Result<Vec<ListingEntry>>>>>,
}

impl ListingBatch<'_> {
    /// Returns the entries of each directory of the batch.
    fn take_listings(
        self,
        tree: &ProjectTree,
        is_over: &WalkStopCheck<'_>,
    ) -> Vec<(Option<RelPath>, io::Result<Vec<ListingEntry>>)> {
        let listed = match self.thread.map(ScopedJoinHandle::join) {
            Some(Ok(listed)) => listed,
            Some(Err(panicked)) => std::panic::resume_unwind(panicked),
            None => tree.list_all(&self.dirs, is_over),
        };
        self.dirs.iter().cloned().zip(listed).collect()
    }
}

/// A walk that is under way.
struct TreeWalk<'a> {
    filter: CaptureFilter<'a>,
    how: WalkRules<'a>,
    /// Directories that are not listed yet, the next one last.
    waiting: Vec<Option<RelPath>>,
    /// The number of directories that were listed together last.
    at_once: usize,
    /// The number of entries that the walk came by.
    looked: usize,
    end: WalkEnd,
    is_over: &'a WalkStopCheck<'a>,
    meet: &'a mut dyn FnMut(TreeEntry<'_>) -> bool,
}

impl TreeWalk<'_> {
    /// Returns the next directories to list: few at first, so that something is reported in little time.
    fn next_dirs(&mut self) -> Vec<Option<RelPath>> {
        self.at_once = (2 * self.at_once).clamp(1, DIRS_AHEAD);
        self.waiting.split_off(self.waiting.len().saturating_sub(self.at_once))
    }

    /// Reports the entries of a directory; returns whether there was time for all of them.
    fn go_through(
        &mut self,
        dir: Option<&RelPath>,
        entries: io::Result<Vec<ListingEntry>>,
    ) -> io::Result<bool> {
        if (self.is_over)() {
            return Ok(false);
        }
        let Some(entries) = self.end.tolerate_unreadable(dir, entries)? else { return Ok(true) };
        if !entries.iter().any(|entry| entry.name.as_bytes() == GITIGNORE.as_bytes()) {
            self.filter.has_no_rules(dir);
        }
        for entry in entries {
            self.looked += 1;
            if self.looked.is_multiple_of(LOOK_ENTRIES) && (self.is_over)() {
                return Ok(false);
            }
            // A path too long to be named cannot be asked for either.
            let Ok(path) = entry.path(dir) else { continue };
            let Some(counts) = self.counts(&path, &entry) else { return Ok(false) };
            let kind = entry.kind();
            if counts && kind == FileType::Directory {
                self.waiting.push(Some(path.clone()));
            }
            if !(self.meet)(TreeEntry { path, stat: &entry.stat, kind, counts }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether an entry is a part of the project; `None` if there was no time to find out.
    fn counts(&mut self, path: &RelPath, entry: &ListingEntry) -> Option<bool> {
        let is_dir = entry.kind() == FileType::Directory;
        match entry.kind() {
            FileType::Directory if self.how.leave_out.contains(&(entry.stat.st_dev, entry.stat.st_ino)) => {
                Some(false)
            }
            FileType::RegularFile | FileType::Directory | FileType::Symlink if self.how.asks_git => {
                self.filter.is_git_s(path, is_dir, self.is_over)
            }
            FileType::RegularFile | FileType::Directory | FileType::Symlink => {
                Some(self.filter.class(path, is_dir) == PathClass::Captured)
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Some(false),
        }
    }
}

impl TreeFile {
    #[allow(clippy::unnecessary_cast, reason = "the width of the fields depends on the machine")]
    fn new(path: RelPath, stat: &Stat) -> TreeFile {
        let ns = |seconds: i64, nanoseconds: i64| {
            seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
        };
        TreeFile {
            path,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: ns(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime_ns: ns(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino,
        }
    }
}
