//! Opens the files of the data directory without waiting for another process.
//!
//! # Invariants
//! 1. A pipe, a device, a socket or a directory in the place of a file is an error that names it. It is
//!    neither read nor written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Files at fixed places, which many parts open.
const NAMES: [&str; 7] = [
    "agents.db",
    "agents.db-wal",
    "agents.db-shm",
    "agents.db-journal",
    "redaction.key",
    "breakers.jsonl",
    "workers/starting",
];

/// Returns an error if something else is in the place of a file of the data directory.
pub(crate) fn refuse_others(data_dir: &Path) -> io::Result<()> {
    for path in NAMES.map(|name| data_dir.join(name)) {
        let kind = match fs::metadata(&path) {
            Ok(found) => found.file_type(),
            // A link that leads nowhere is found by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(&path) {
                Ok(link) => link.file_type(),
                Err(_) => continue,
            },
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        let what = if kind.is_file() {
            continue;
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_dir() {
            "a directory"
        } else if kind.is_symlink() {
            "a dangling link"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        let why = format!("{} is {what} and not a regular file: move it away", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

/// Opens a file of ours to be read.
///
/// Returns an error if it is no regular file.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // Without this a pipe is waited for before it can be seen to be one.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not a regular file", path.display()),
        )),
    }
}
