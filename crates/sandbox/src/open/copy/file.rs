//! Copies one file or link, and makes it look like its original.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::RelPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::{CopyMethod, open_original};
use crate::fs::beneath;
use crate::fs::beneath::LinkPolicy;
use crate::fs::listing::{ListingEntry, list};

/// A file that is shorter is read at once: a read from a regular file falls short only at its end.
const SMALL_BYTES: usize = 16 * 1024;

/// After so many bytes of one file the caller is asked whether to continue.
const CHUNK_BYTES: u64 = 64 * 1024 * 1024;

/// A whole block: less would not be shared everywhere.
const PROBE_BYTES: usize = 4096;

/// Returns an error if no file can be shared between the project and the sandbox; tries it with one.
pub(crate) fn try_sharing(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), String> {
    let said = |errno: Errno| errno.to_string();
    let original = match some_file(from) {
        Some(original) => original,
        None => own_file(from, to)?,
    };
    let copy = made(to, c".probe").map_err(said)?;
    let shared = rustix::fs::ioctl_ficlone(&copy, &original);
    let removed = rustix::fs::unlinkat(to, c".probe", AtFlags::empty());
    shared.map_err(|errno| match errno {
        Errno::XDEV => "the project and the sandbox directory are on different file systems".to_owned(),
        Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY => {
            "the file system cannot share blocks between files".to_owned()
        }
        other => format!("sharing blocks: {other}"),
    })?;
    removed.map_err(said)
}

/// A file with content to try it with where the project has none: one of ours, without a name, in the sandbox
/// directory.
fn own_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    let said = |errno: Errno| errno.to_string();
    let device = |dir: BorrowedFd<'_>| rustix::fs::fstat(dir).map(|stat| stat.st_dev).map_err(said);
    if device(from)? != device(to)? {
        return Err(
            "the project has no file to try it with, and is on another device than the sandbox directory"
                .to_owned(),
        );
    }
    let file = made(to, c".probe-original").map_err(said)?;
    rustix::fs::unlinkat(to, c".probe-original", AtFlags::empty()).map_err(said)?;
    rustix::io::write(&file, &[1; PROBE_BYTES]).map_err(said)?;
    Ok(file)
}

fn made(dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
}

/// A file with content, near the top of the tree.
fn some_file(root: BorrowedFd<'_>) -> Option<OwnedFd> {
    const DIRS_MAX: usize = 1000;
    let mut dirs = std::collections::VecDeque::from([None]);
    for _ in 0..DIRS_MAX {
        let dir: Option<RelPath> = dirs.pop_front()?;
        let Ok(opened) = open_original(root, dir.as_ref()) else { continue };
        for entry in list(opened.as_fd()).ok()? {
            let Ok(path) = entry.path(dir.as_ref()) else { continue };
            if entry.kind() == FileType::Directory {
                dirs.push_back(Some(path));
            } else if entry.kind() == FileType::RegularFile && entry.stat.st_size > 0 {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                if let Ok(file) = beneath::open(root, &path, flags, Mode::empty(), LinkPolicy::Refuse) {
                    return Some(file);
                }
            }
        }
    }
    None
}

pub(super) fn copy_file(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    entry: &ListingEntry,
    bytes: CopyMethod,
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    let name = entry.name.as_c_str();
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut original = File::from(rustix::fs::openat(from, name, read, Mode::empty())?);
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::openat(to, name, write, Mode::RUSR | Mode::WUSR)?);
    let shared = bytes == CopyMethod::Shared && rustix::fs::ioctl_ficlone(&copy, &original).is_ok();
    if !shared {
        copy_bytes(&mut original, &mut copy, stop)?;
    }
    look_like(copy.as_fd(), &entry.stat)
}

/// Most files are small, and a small one is copied with the fewest system calls by reading it.
fn copy_bytes(original: &mut File, copy: &mut File, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let mut buffer = [0; SMALL_BYTES];
    let read = original.read(&mut buffer)?;
    copy.write_all(&buffer[..read])?;
    if read < SMALL_BYTES {
        return Ok(());
    }
    let mut at = SMALL_BYTES as u64;
    // Between two files this is copy_file_range, as far as the file systems have it.
    while let Some(length) = pass_hole(original, copy, &mut at)? {
        let copied = io::copy(&mut original.take(length), copy)?;
        at += copied;
        if copied == 0 {
            break;
        }
        if stop() {
            return Err(stop_error());
        }
    }
    Ok(())
}

/// Goes to the next data of the original at or behind a place, and as far in the copy. Returns how much of it
/// to copy at once. `None` if only a hole is left, which the copy has then too.
fn pass_hole(original: &File, copy: &File, at: &mut u64) -> io::Result<Option<u64>> {
    let data = match rustix::fs::seek(original, SeekFrom::Data(*at)) {
        Ok(data) => data,
        Err(Errno::NXIO) => {
            copy.set_len(original.metadata()?.len().max(*at))?;
            return Ok(None);
        }
        // A file system that does not know holes.
        Err(_) => *at,
    };
    // A hole that was made meanwhile has no data before it: it is copied as zeros.
    let hole = rustix::fs::seek(original, SeekFrom::Hole(data)).unwrap_or(u64::MAX);
    let hole = if hole > data { hole } else { u64::MAX };
    for file in [original, copy] {
        rustix::fs::seek(file, SeekFrom::Start(data))?;
    }
    *at = data;
    Ok(Some(CHUNK_BYTES.min(hole.saturating_sub(data))))
}

/// The error of a copy that the caller stopped.
pub(super) fn stop_error() -> io::Error {
    io::Error::other("the copy was stopped")
}

pub(super) fn copy_link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, entry: &ListingEntry) -> io::Result<()> {
    let target = rustix::fs::readlinkat(from, entry.name.as_c_str(), Vec::new())?;
    match rustix::fs::symlinkat(target.as_c_str(), to, entry.name.as_c_str()) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets mode and time of last change. The copy belongs to us, whichever user owns the original: a command of
/// root has no right to write what belongs to others.
#[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
pub(super) fn look_like(copy: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    rustix::fs::fchmod(copy, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime as i64, tv_nsec: stat.st_mtime_nsec as _ },
    };
    Ok(rustix::fs::futimens(copy, &times)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_huge_file_is_not_copied_to_its_end_when_somebody_says_stop() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut original = File::create(&from).unwrap();
        io::copy(&mut io::repeat(1).take(CHUNK_BYTES + 2 * SMALL_BYTES as u64), &mut original).unwrap();
        let mut copy = File::create(&to).unwrap();
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            true
        };
        let told = copy_bytes(&mut File::open(&from).unwrap(), &mut copy, &stop).unwrap_err();
        assert_eq!((told.to_string(), asked.get()), (stop_error().to_string(), 1));
        assert_eq!(copy.metadata().unwrap().len(), SMALL_BYTES as u64 + CHUNK_BYTES);
    }

    #[test]
    fn a_file_of_several_chunks_is_copied_whole() {
        let dir = tempfile::TempDir::new().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mut original = File::create(&from).unwrap();
        // With holes in the middle and at the end.
        original.set_len(CHUNK_BYTES + 2 * SMALL_BYTES as u64).unwrap();
        io::Seek::seek(&mut original, io::SeekFrom::End(0)).unwrap();
        io::copy(&mut io::repeat(1).take(CHUNK_BYTES + 7), &mut original).unwrap();
        original.set_len(4 * CHUNK_BYTES).unwrap();
        copy_bytes(&mut File::open(&from).unwrap(), &mut File::create(&to).unwrap(), &|| false).unwrap();
        let [from, to] = [from, to].map(|path| {
            let mut hash = blake3::Hasher::new();
            io::copy(&mut File::open(path).unwrap(), &mut hash).unwrap();
            hash.finalize()
        });
        assert_eq!(from, to);
    }

    #[test]
    fn an_empty_project_is_tried_like_a_full_one() {
        let (empty, full, at) = (
            tempfile::TempDir::new().unwrap(),
            tempfile::TempDir::new().unwrap(),
            tempfile::TempDir::new().unwrap(),
        );
        std::fs::write(full.path().join("a"), "a").unwrap();
        let opened = |dir: &tempfile::TempDir| File::open(dir.path()).unwrap();
        let tried = |dir| try_sharing(opened(dir).as_fd(), opened(&at).as_fd());
        assert_eq!(tried(&empty), tried(&full));
        assert_eq!(std::fs::read_dir(at.path()).unwrap().count(), 0, "nothing of the try is left");
    }
}
