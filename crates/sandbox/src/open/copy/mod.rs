//! The strategies that copy everything, by sharing blocks or byte by byte.
//!
//! # Invariants
//! 1. The original is only read. Links are copied as links, modes and times are preserved; pipes, sockets and
//!    devices are left out and counted.
//! 2. A repository in the tree, at any depth, gets a private `.git`: nothing done in the copy reaches the
//!    user's.
//! 3. The sandbox directory itself is not copied, even if it is inside the project.
//!
//! # Not here
//! How one file is copied: `file`.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::RelPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub(crate) use file::try_sharing;
use file::{copy_file, copy_link, look_like, stop_error};

use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};
use crate::fs::listing::{ListingEntry, is_absent, list, open_dir};
use crate::git;

/// The directory next to a copy in which borrowed directories have their second place.
pub(crate) const LENT: &str = "objects";

/// On how many threads files are copied: the disk is the limit soon.
const THREADS_MAX: usize = 4;

/// Fewer paths are not worth a thread.
const PATHS_MIN: usize = 256;

/// The way in which the bytes of a file get into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyMethod {
    /// By sharing blocks; where one file cannot, by copying it.
    Shared,
    /// By copying.
    Copied,
}

/// The numbers of files that a copy does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedFiles {
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Files and directories that we may not read.
    pub unreadable: u64,
}

/// The limits of a copy of the user's projects, and its size so far.
#[derive(Debug)]
pub struct CopyWatch {
    files_max: u64,
    bytes_max: u64,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Default for CopyWatch {
    fn default() -> CopyWatch {
        CopyWatch::new(u64::MAX, u64::MAX)
    }
}

impl CopyWatch {
    /// At most so many files, and so many bytes of them.
    pub fn new(files_max: u64, bytes_max: u64) -> CopyWatch {
        CopyWatch { files_max, bytes_max, files: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Returns the numbers of files and bytes copied so far.
    pub fn copied(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Resets the counts, for another kind of copy.
    pub(crate) fn restart(&self) {
        self.files.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn count(&self, bytes: u64) -> io::Result<()> {
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let (files_max, mb_max) = (self.files_max, self.bytes_max >> 20);
        if files > files_max {
            return Err(io::Error::other(format!(
                "a copy would have more than {files_max} files (sandbox.copy_max_files)"
            )));
        }
        if bytes > self.bytes_max {
            return Err(io::Error::other(format!(
                "a copy would have more than {mb_max} MB (sandbox.copy_max_mb)"
            )));
        }
        Ok(())
    }
}

/// A project and the copy that is made of it.
pub(crate) struct ProjectCopy<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) from_path: &'a Path,
    pub(crate) to: BorrowedFd<'a>,
    pub(crate) to_path: &'a Path,
    pub(crate) bytes: CopyMethod,
    /// Device and inode of a directory that is not copied.
    pub(crate) leave_out: (u64, u64),
    /// Returns true to stop the copy; called before each file, and in a huge one after each chunk.
    stop: &'a (dyn Fn() -> bool + Sync),
    /// The amount that was copied, and its limit.
    watch: &'a CopyWatch,
    skipped: SkippedFiles,
    dirs: BTreeMap<Option<RelPath>, Stat>,
    made: BTreeSet<RelPath>,
    last: Option<DirPair>,
}

/// A directory of the original and its copy, both open.
struct DirPair {
    dir: Option<RelPath>,
    from: OwnedFd,
    to: OwnedFd,
}

impl<'a> ProjectCopy<'a> {
    pub(crate) fn new(
        (from, from_path): (BorrowedFd<'a>, &'a Path),
        (to, to_path): (BorrowedFd<'a>, &'a Path),
        bytes: CopyMethod,
        leave_out: (u64, u64),
        stop: &'a (dyn Fn() -> bool + Sync),
        watch: &'a CopyWatch,
    ) -> Result<ProjectCopy<'a>, BeneathError> {
        let root = rustix::fs::fstat(from).map_err(|errno| crate::open::manifest::at(None, errno.into()))?;
        let dirs = BTreeMap::from([(None, root)]);
        let (skipped, made) = (SkippedFiles::default(), BTreeSet::new());
        Ok(ProjectCopy {
            from,
            from_path,
            to,
            to_path,
            bytes,
            leave_out,
            stop,
            watch,
            skipped,
            dirs,
            made,
            last: None,
        })
    }

    /// Copies the whole tree.
    pub(crate) fn copy_all(mut self) -> Result<SkippedFiles, String> {
        let mut repositories = Vec::new();
        let mut dirs = vec![None];
        while let Some(dir) = dirs.pop() {
            let below = self.one_directory(dir.as_ref(), &mut repositories).map_err(|why| why.to_string())?;
            dirs.extend(below.into_iter().map(Some));
        }
        for repository in repositories {
            self.repository(repository.as_ref())?;
        }
        self.finish().map_err(|why| why.to_string())
    }

    /// Copies the entries directly in `dir`; returns the directories in it.
    fn one_directory(
        &mut self,
        dir: Option<&RelPath>,
        repositories: &mut Vec<Option<RelPath>>,
    ) -> Result<Vec<RelPath>, BeneathError> {
        let from = match open_original(self.from, dir) {
            Ok(from) => from,
            Err(why) if is_closed(&why) => {
                self.skipped.unreadable += 1;
                return Ok(Vec::new());
            }
            Err(why) if why.is_not_found() => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        let to = open_dir(self.to, dir)?;
        let mut below = Vec::new();
        for entry in list(from.as_fd()).map_err(|source| crate::open::manifest::at(dir, source))? {
            if entry.name.as_c_str() == c".git" {
                repositories.push(dir.cloned());
                continue;
            }
            if entry.kind() == FileType::Directory && !self.is_left_out(&entry.stat) {
                let Ok(path) = entry.path(dir) else { continue };
                self.directory(to.as_fd(), &entry.name, path.clone(), entry.stat)?;
                below.push(path);
            } else {
                self.entry(from.as_fd(), to.as_fd(), &entry).map_err(|source| {
                    crate::open::manifest::at(entry.path(dir).ok().as_ref().or(dir), source)
                })?;
            }
        }
        Ok(below)
    }

    fn is_left_out(&self, stat: &Stat) -> bool {
        (stat.st_dev, stat.st_ino) == self.leave_out
    }

    fn directory(
        &mut self,
        to: BorrowedFd<'_>,
        name: &CStr,
        path: RelPath,
        stat: Stat,
    ) -> Result<(), BeneathError> {
        match rustix::fs::mkdirat(to, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(BeneathError::Io { path, source: errno.into() }),
        }
        self.dirs.insert(Some(path), stat);
        Ok(())
    }

    /// Copies the file or link; directories that are met here are left out on purpose.
    fn entry(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, entry: &ListingEntry) -> io::Result<()> {
        if (self.stop)() {
            return Err(stop_error());
        }
        let bytes =
            if self.bytes == CopyMethod::Copied { u64::try_from(entry.stat.st_size).unwrap_or(0) } else { 0 };
        self.watch.count(bytes)?;
        let copied = match entry.kind() {
            FileType::RegularFile => copy_file(from, to, entry, self.bytes, self.stop),
            FileType::Symlink => copy_link(from, to, entry),
            FileType::Directory => Ok(()),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.skipped.special += 1;
                Ok(())
            }
        };
        match copied {
            Err(why) if matches!(why.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                self.skipped.unreadable += 1;
                Ok(())
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Copies these files and links, in order, on a few threads; says which of them are directories.
    pub(crate) fn paths(&mut self, paths: &[RelPath]) -> Result<Vec<RelPath>, BeneathError> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let share = paths.len().div_ceil(threads).max(PATHS_MIN);
        let done: Vec<_> = std::thread::scope(|scope| {
            let parts: Vec<_> = paths
                .chunks(share)
                .map(|part| {
                    let mut copying = self.restarted();
                    scope.spawn(move || copying.part(part).map(|directories| (copying, directories)))
                })
                .collect();
            parts.into_iter().map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        let mut directories = Vec::new();
        for part in done {
            let (ProjectCopy { skipped, dirs, .. }, found) = part?;
            self.skipped.special += skipped.special;
            self.skipped.unreadable += skipped.unreadable;
            self.dirs.extend(dirs);
            directories.extend(found);
        }
        Ok(directories)
    }

    fn part(&mut self, paths: &[RelPath]) -> Result<Vec<RelPath>, BeneathError> {
        let mut directories = Vec::new();
        for path in paths {
            if self.one_path(path)? == Some(FileType::Directory) {
                directories.push(path.clone());
            }
        }
        Ok(directories)
    }

    /// The same copy, of which nothing is done yet.
    fn restarted(&self) -> ProjectCopy<'a> {
        ProjectCopy {
            skipped: SkippedFiles::default(),
            dirs: BTreeMap::new(),
            made: BTreeSet::new(),
            last: None,
            ..*self
        }
    }

    /// Copies the one file or link at `path`, and what directories it needs. A directory is made, but not
    /// gone into.
    pub(crate) fn one_path(&mut self, path: &RelPath) -> Result<Option<FileType>, BeneathError> {
        let Some(pair) = self.around(path)? else { return Ok(None) };
        let copied = self.one_of(&pair, path);
        self.last = Some(pair);
        copied
    }

    fn one_of(&mut self, pair: &DirPair, path: &RelPath) -> Result<Option<FileType>, BeneathError> {
        let io_error = |source: io::Error| BeneathError::Io { path: path.clone(), source };
        let name = std::ffi::CString::new(path.file_name()).map_err(|nul| io_error(nul.into()))?;
        let stat = match rustix::fs::statat(&pair.from, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(io_error(errno.into())),
        };
        let entry = ListingEntry { name, stat };
        if entry.kind() == FileType::Directory {
            self.directory(pair.to.as_fd(), &entry.name, path.clone(), entry.stat)?;
        } else {
            self.entry(pair.from.as_fd(), pair.to.as_fd(), &entry).map_err(io_error)?;
        }
        Ok(Some(entry.kind()))
    }

    /// The directory of `path` in the original and in the copy; none when it is gone. Paths come in order, so
    /// that it is most often that of the path before.
    fn around(&mut self, path: &RelPath) -> Result<Option<DirPair>, BeneathError> {
        let dir = path.parent();
        if let Some(last) = self.last.take_if(|last| last.dir == dir) {
            return Ok(Some(last));
        }
        let from = match open_original(self.from, dir.as_ref()) {
            Ok(from) => from,
            Err(why) if is_absent(&why) => return Ok(None),
            Err(why) => return Err(why),
        };
        self.parents(path)?;
        let to = open_dir(self.to, dir.as_ref())?;
        Ok(Some(DirPair { dir, from, to }))
    }

    fn parents(&mut self, path: &RelPath) -> Result<(), BeneathError> {
        let mut missing = Vec::new();
        let mut next = path.parent();
        while let Some(dir) = next {
            if self.made.contains(&dir) {
                break;
            }
            next = dir.parent();
            missing.push(dir);
        }
        for dir in missing.into_iter().rev() {
            let Some(stat) = crate::fs::listing::stat_beneath(self.from, &dir)? else { continue };
            let to = open_dir(self.to, dir.parent().as_ref())?;
            let name = std::ffi::CString::new(dir.file_name())
                .map_err(|nul| BeneathError::Io { path: dir.clone(), source: nul.into() })?;
            self.directory(to.as_fd(), &name, dir.clone(), stat)?;
            self.made.insert(dir);
        }
        Ok(())
    }

    /// Gives the copy of the working tree in `dir` a repository of its own. A repository that git cannot read
    /// is copied as it is.
    pub(crate) fn repository(&mut self, dir: Option<&RelPath>) -> Result<(), String> {
        let (tree, copy) = (join(self.from_path, dir), join(self.to_path, dir));
        if git::make_private(&tree, &copy, &self.lent(), self.stop).is_ok() {
            return Ok(());
        }
        let dot_git = join_name(dir, b".git").map_err(|why| why.to_string())?;
        let words = |why: BeneathError| why.to_string();
        // A half-made private repository must not be mixed with the copied one.
        if let Ok(there) = open_dir(self.to, dir) {
            crate::fs::remove::remove_tree(there.as_fd(), c".git").map_err(|source| source.to_string())?;
        }
        let mut paths = vec![dot_git];
        while let Some(path) = paths.pop() {
            if self.one_path(&path).map_err(words)? != Some(FileType::Directory) {
                continue;
            }
            let Ok(from) = open_original(self.from, Some(&path)) else { continue };
            for entry in list(from.as_fd()).map_err(|source| source.to_string())? {
                paths.extend(entry.path(Some(&path)));
            }
        }
        Ok(())
    }

    /// Returns the check that stops the copy.
    pub(crate) fn stop(&self) -> &'a (dyn Fn() -> bool + Sync) {
        self.stop
    }

    /// Returns the second place of the directories that the copy borrows: next to it.
    pub(crate) fn lent(&self) -> PathBuf {
        self.to_path.with_file_name(LENT)
    }

    /// Gives directories the modes and times of their originals, now that nothing more is made in them.
    pub(crate) fn finish(self) -> Result<SkippedFiles, BeneathError> {
        for (dir, stat) in self.dirs.iter().rev() {
            let copy = open_dir(self.to, dir.as_ref())?;
            look_like(copy.as_fd(), stat)
                .map_err(|source| crate::open::manifest::at(dir.as_ref(), source))?;
        }
        Ok(self.skipped)
    }
}

/// Opens a directory of the user's to be read, with the permissions that it has.
pub(crate) fn open_original(root: BorrowedFd<'_>, dir: Option<&RelPath>) -> Result<OwnedFd, BeneathError> {
    match dir {
        Some(dir) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            beneath::open(root, dir, flags, Mode::empty(), LinkPolicy::Refuse)
        }
        None => open_dir(root, None),
    }
}

fn is_closed(why: &BeneathError) -> bool {
    matches!(why, BeneathError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// The path of something below a root, for the git program.
pub(crate) fn join(root: &Path, dir: Option<&RelPath>) -> PathBuf {
    dir.map_or_else(|| root.to_owned(), |dir| root.join(OsStr::from_bytes(dir.as_bytes())))
}

/// The path of `name` in `dir`.
pub(crate) fn join_name(dir: Option<&RelPath>, name: &[u8]) -> Result<RelPath, domain::PathError> {
    match dir {
        Some(dir) => RelPath::new([dir.as_bytes(), b"/", name].concat()),
        None => RelPath::new(name),
    }
}
