//! Opens files that others may have replaced by something else: a repository's own, and those that say what
//! git ignores.
//!
//! # Invariants
//! 1. No other process is waited for: a pipe, a socket or a device is an error, and is not read.
//! 2. No more is read than was asked for.
//!
//! # Not here
//! Paths that must not leave a root: [`beneath`](crate::fs::beneath). Here links are followed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// Opens a regular file to be read.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    only_regular(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// Opens a regular file of ours, at its own place: a link is not followed.
pub(crate) fn open_own(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    only_regular(File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
}

/// The same for a file that was opened, without waiting for another process.
pub(crate) fn only_regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// The first bytes of a regular file, `bytes_max` at most.
pub(crate) fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_regular(path)?, bytes_max)
}

/// The first bytes of what is open, `bytes_max` at most.
pub(crate) fn read_bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
