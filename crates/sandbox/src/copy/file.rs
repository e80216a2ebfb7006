//! How one file or link is copied, and what makes it look like its original.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::RelPath;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;

use super::{Bytes, open_original};
use crate::beneath::{self, Links};
use crate::listing::{Entry, list};

/// A file that is shorter is read at once: a read from a regular file falls short only at its end.
const SMALL_BYTES: usize = 16 * 1024;

/// Whether a file can be shared between the project and the sandbox, found out by sharing one.
pub(crate) fn try_sharing(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), String> {
    let Some(original) = some_file(from) else { return Ok(()) };
    let probe = c".probe";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy =
        rustix::fs::openat(to, probe, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| errno.to_string())?;
    let shared = rustix::fs::ioctl_ficlone(&copy, &original);
    let removed = rustix::fs::unlinkat(to, probe, AtFlags::empty());
    shared.map_err(|errno| match errno {
        Errno::XDEV => "the project and the sandbox directory lie on different file systems".to_owned(),
        Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY => {
            "the file system cannot share blocks between files".to_owned()
        }
        other => format!("sharing blocks: {other}"),
    })?;
    removed.map_err(|errno| errno.to_string())
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
                if let Ok(file) = beneath::open(root, &path, flags, Mode::empty(), Links::Refuse) {
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
    entry: &Entry,
    bytes: Bytes,
) -> io::Result<()> {
    let name = entry.name.as_c_str();
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut original = File::from(rustix::fs::openat(from, name, read, Mode::empty())?);
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(rustix::fs::openat(to, name, write, Mode::RUSR | Mode::WUSR)?);
    let shared = bytes == Bytes::Shared && rustix::fs::ioctl_ficlone(&copy, &original).is_ok();
    if !shared {
        copy_bytes(&mut original, &mut copy)?;
    }
    look_like(copy.as_fd(), &entry.stat)
}

/// Most files are small, and a small one is copied with the fewest system calls by reading it.
fn copy_bytes(original: &mut File, copy: &mut File) -> io::Result<()> {
    let mut buffer = [0; SMALL_BYTES];
    let read = original.read(&mut buffer)?;
    copy.write_all(&buffer[..read])?;
    if read == SMALL_BYTES {
        // Between two files this is copy_file_range, as far as the file systems have it.
        io::copy(original, copy)?;
    }
    Ok(())
}

pub(super) fn copy_link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
    let target = rustix::fs::readlinkat(from, entry.name.as_c_str(), Vec::new())?;
    match rustix::fs::symlinkat(target.as_c_str(), to, entry.name.as_c_str()) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Owner where we may, mode, time of last change.
#[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
pub(super) fn look_like(copy: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let ours = (rustix::process::geteuid(), rustix::process::getegid());
    if ours.0.is_root() && ours != (uid, gid) {
        rustix::fs::fchown(copy, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(copy, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime as i64, tv_nsec: stat.st_mtime_nsec as _ },
    };
    Ok(rustix::fs::futimens(copy, &times)?)
}
