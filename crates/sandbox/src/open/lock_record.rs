//! The content of the `lock` of a sandbox: how it was opened, and whether it must outlive its owner.
//!
//! A sandbox is retained if its changes could not be captured, for want of space above all. Its owner
//! leaves a note in it, and a later process opens it again and captures what is there.
//!
//! # Layout
//! A word, [`WORD`] or [`KEPT`]. The note, as JSON padded with spaces, up to [`NOTE_END`]. The record of its
//! opening, as JSON.
//!
//! # Invariants
//! 1. All the space is taken at the opening, so that a sandbox can be retained on a disk that is full.
//! 2. The word is written last: a sandbox that is marked as retained has its note.
//!
//! # Not here
//! The owner of the lock: [`dir`](super::dir). Opening it again: [`reopen`](mod@super::reopen).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::baseline::OpenTimesRecord;

/// The word of a sandbox that is not retained; the note begins behind it.
const WORD: &[u8] = b"open\n";
const KEPT: &[u8] = b"kept\n";

/// The offset at which the note ends.
const NOTE_END: usize = 4096;

/// The maximum length of a note.
pub const NOTE_BYTES_MAX: usize = 3072;

/// More than this was not written by us.
const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// The stored facts about the opening of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRecord {
    pub(crate) rung: String,
    pub(crate) opened: OpenTimesRecord,
    /// Device and inode of each project.
    pub(crate) roots: Vec<(u64, u64)>,
}

/// The reason that a sandbox was retained, and its boot: in another boot the clocks say nothing about the
/// originals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetainNote {
    pub(crate) boot: String,
    pub(crate) text: String,
}

/// Writes how it was opened, and takes the space for a note.
pub(crate) fn describe(lock: BorrowedFd<'_>, how: &OpenRecord) -> io::Result<()> {
    let mut bytes = WORD.to_vec();
    bytes.resize(NOTE_END, b' ');
    serde_json::to_writer(&mut bytes, how)?;
    write_at(lock, &bytes, 0)
}

/// Marks it as retained, with a note.
pub(crate) fn mark(lock: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    write_note(lock, text)?;
    rustix::fs::fdatasync(lock)?;
    write_at(lock, KEPT, 0)?;
    Ok(rustix::fs::fdatasync(lock)?)
}

/// The same for as long as the machine runs: no disk is waited for.
pub(crate) fn mark_unsynced(lock: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    write_note(lock, text)?;
    write_at(lock, KEPT, 0)
}

fn write_note(lock: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(&RetainNote { boot: boot_id()?, text: text.to_owned() })?;
    let room = NOTE_END - WORD.len();
    if bytes.len() > room || rustix::fs::fstat(lock)?.st_size < NOTE_END as _ {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the note is too long"));
    }
    bytes.resize(room, b' ');
    write_at(lock, &bytes, WORD.len())
}

/// Takes the mark away.
pub(crate) fn unmark(lock: BorrowedFd<'_>) -> io::Result<()> {
    write_at(lock, WORD, 0)
}

/// Returns whether it is marked.
pub(crate) fn is_marked(lock: BorrowedFd<'_>) -> io::Result<bool> {
    let mut word = [0; KEPT.len()];
    Ok(read_at(lock, &mut word, 0)? == KEPT.len() && word == KEPT)
}

/// Reads the lock record.
pub(crate) fn read(lock: BorrowedFd<'_>) -> io::Result<(OpenRecord, RetainNote)> {
    let size = usize::try_from(rustix::fs::fstat(lock)?.st_size).unwrap_or(usize::MAX);
    if !(NOTE_END..RECORD_BYTES_MAX).contains(&size) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not say how it was opened"));
    }
    let mut bytes = vec![0; size];
    let read = read_at(lock, &mut bytes, 0)?;
    bytes.truncate(read);
    let note = bytes.get(WORD.len()..NOTE_END).unwrap_or_default();
    let how = bytes.get(NOTE_END..).unwrap_or_default();
    Ok((serde_json::from_slice(how)?, serde_json::from_slice(note)?))
}

/// Returns true if this is the boot in which a note was written.
pub(crate) fn is_this_boot(note: &RetainNote) -> bool {
    boot_id().is_ok_and(|boot| boot == note.boot)
}

/// The name of the present boot.
pub(crate) fn boot_id() -> io::Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(KNOWN.get_or_init(|| read).clone())
}

fn write_at(lock: BorrowedFd<'_>, bytes: &[u8], at: usize) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(lock, &bytes[done..], (at + done) as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn read_at(lock: BorrowedFd<'_>, bytes: &mut [u8], at: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(lock, &mut bytes[done..], (at + done) as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn how() -> OpenRecord {
        let opened = crate::open::baseline::OpenTimes::now().record();
        OpenRecord { rung: "overlay".into(), opened, roots: vec![(1, 2), (3, u64::MAX)] }
    }

    #[test]
    fn what_is_kept_says_how_it_was_opened_and_why_it_is_kept() {
        let file = tempfile::tempfile().unwrap();
        describe(file.as_fd(), &how()).unwrap();
        assert!(!is_marked(file.as_fd()).unwrap());
        mark(file.as_fd(), "first \" note").unwrap();
        mark(file.as_fd(), "second").unwrap();
        assert!(is_marked(file.as_fd()).unwrap());
        let (read_how, note) = read(file.as_fd()).unwrap();
        assert_eq!((read_how.rung, note.text.as_str()), ("overlay".to_owned(), "second"));
        assert_eq!(read_how.roots, how().roots);
        assert!(is_this_boot(&note));
        unmark(file.as_fd()).unwrap();
        assert!(!is_marked(file.as_fd()).unwrap());
    }

    #[test]
    fn keeping_takes_no_space_that_was_not_taken_at_the_opening() {
        let file = tempfile::tempfile().unwrap();
        describe(file.as_fd(), &how()).unwrap();
        let size = file.metadata().unwrap().len();
        mark(file.as_fd(), &"x".repeat(NOTE_BYTES_MAX)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), size);
        assert!(mark(file.as_fd(), &"x".repeat(NOTE_END)).is_err());
    }

    #[test]
    fn a_lock_that_says_nothing_is_not_kept() {
        let file = tempfile::tempfile().unwrap();
        assert!(!is_marked(file.as_fd()).unwrap());
        assert!(read(file.as_fd()).is_err());
        assert!(mark(file.as_fd(), "note").is_err());
    }
}
