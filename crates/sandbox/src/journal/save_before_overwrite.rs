//! Saves the bytes of a user's file next to the journal, before they are overwritten.
//!
//! # Invariants
//! 1. A save is there whole, under its name, on disk, before the file is overwritten.
//! 2. The first save of an op stays: a recovery that is run again finds what the file held before it was
//!    touched.
//! 3. A save says why it was made. A half-written file of ours and an edit by others are repaired in
//!    different ways. A recovery that is run again must not take the one for the other.
//!
//! # Not here
//! The old bytes of every file that an apply changes: `write_images_and_ops` puts them into the journal
//! beforehand. The saves here are for a file that changed under a running apply, and for rolling back.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::JournalId;
use super::hooks::JournalStep;
use super::observe_file::{ObservedFile, ObservedKind, OpError};
use super::op::JournalOp;
use super::replay::JournalReplay;
use super::undo_op::read_bounded;
use crate::fs::regular_file::open_own;

/// The text between a journal's id and the number of the op.
const FOUND: &str = ".found-";
/// The suffix of a save that is not whole yet.
const UNFINISHED: &str = ".part";

/// The reason that bytes were saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverwriteReason {
    /// The file was half ours.
    Torn,
    /// Another process had edited it.
    Edited,
    /// It was moved aside, and is not a known content.
    Parked,
}

impl OverwriteReason {
    fn suffix(self) -> &'static str {
        match self {
            OverwriteReason::Torn => "",
            OverwriteReason::Edited => "-edited",
            OverwriteReason::Parked => "-parked",
        }
    }
}

fn found_path(dir: &Path, id: JournalId, op: &JournalOp, found: OverwriteReason) -> PathBuf {
    dir.join(format!("{id}{FOUND}{}{}", op.n, found.suffix()))
}

/// The saves of a journal in a directory, whole or not.
pub(super) fn found_files(dir: &Path, id: JournalId) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{id}{FOUND}");
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Returns true if it is a whole save.
pub(super) fn is_whole(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().ends_with(UNFINISHED.as_bytes())
}

impl JournalReplay {
    /// Saves the file at the op's path.
    pub(super) fn save_found(&mut self, op: &JournalOp, found: OverwriteReason) -> Result<(), OpError> {
        match self.observe_at(op, &op.path)? {
            Some(seen) if seen.kind == ObservedKind::File => self.save_found_from(op, &seen, found),
            Some(_) | None => Ok(()),
        }
    }

    /// Saves what was seen.
    pub(super) fn save_found_from(
        &mut self,
        op: &JournalOp,
        seen: &ObservedFile,
        found: OverwriteReason,
    ) -> Result<(), OpError> {
        let whole = found_path(&self.journals.open_dir, self.id, op, found);
        if whole.try_exists()? {
            return Ok(());
        }
        self.journals.hooks.step(JournalStep::SaveFound { n: op.n })?;
        let part = PathBuf::from(
            [whole.as_os_str(), UNFINISHED.as_ref()].into_iter().collect::<std::ffi::OsString>(),
        );
        let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        io::copy(&mut seen.open_file()?, &mut to)?;
        to.sync_all()?;
        fs::rename(&part, &whole)?;
        File::open(&self.journals.open_dir)?.sync_all()?;
        Ok(())
    }

    /// Opens the save; `None` if there is none.
    pub(super) fn open_found(&self, op: &JournalOp, found: OverwriteReason) -> Result<Option<File>, OpError> {
        match open_own(&found_path(&self.journals.open_dir, self.id, op, found), OFlags::RDONLY) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The edit that was saved, when it is not too long for a text.
    pub(super) fn read_edited(&self, op: &JournalOp) -> Result<Option<Vec<u8>>, OpError> {
        match self.open_found(op, OverwriteReason::Edited)? {
            Some(file) => read_bounded(&file),
            None => Ok(None),
        }
    }
}
