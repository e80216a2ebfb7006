//! A journal's file, and the lock on it.
//!
//! # Invariants
//! 1. The lock ends when this is dropped. Closing the file alone does not end it, because a lock ends with
//!    the last duplicate of the file. A process that is being started elsewhere in this program has a
//!    duplicate of every open file until it becomes another program. Meanwhile another process would take the
//!    journal's owner for alive.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// The file of a journal.
#[derive(Debug)]
pub(super) struct JournalFile(File);

impl JournalFile {
    /// Takes the lock, and waits for it.
    pub(super) fn with_lock(file: File) -> io::Result<JournalFile> {
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(JournalFile(file))
    }

    /// Takes the lock; `None` if another process has it.
    pub(super) fn try_with_lock(file: File) -> io::Result<Option<JournalFile>> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(JournalFile(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Without the lock: to be read.
    pub(super) fn without_lock(file: File) -> JournalFile {
        JournalFile(file)
    }
}

impl Deref for JournalFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Write for JournalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // If this fails, the lock ends with the file.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}
