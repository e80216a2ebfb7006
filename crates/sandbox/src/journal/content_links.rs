//! The large contents of a journal: hard links to files that hold them already.
//!
//! # Why links
//! A content is on disk once, however many journals need it. A link is a name of the same bytes, so the
//! journal owns what it refers to. It needs no store to be recovered or undone, and no collector of contents
//! has to know of journals. A name that is removed elsewhere takes nothing from the journal; the bytes go
//! with the last name.
//!
//! # Which contents
//! A content of more than [`INLINE_BYTES_MAX`] bytes for which the
//! [`ContentSource`](crate::content::ContentSource) names a file is linked as `journal-contents/ID/HASH`.
//! Everything else is in the journal itself: small contents, the result of a merge, a file as the user has
//! edited it since, and every content where the file system refuses a link.
//!
//! # Invariants
//! 1. Before the commit mark every linked content was read through its link and had the promised hash and
//!    size. Its bytes, its name and the directory are on disk. An apply that is killed at any later point is
//!    finished or rolled back from the data directory alone.
//! 2. A linked content is read, never written.
//! 3. The links exist as long as their journal, whether it is open, can be undone or was abandoned. The
//!    journal is created before its first link and removed before its last one, so a directory of links
//!    without a journal has no owner.
//! 4. A recovery compares every content with its hash before it writes. One that is missing or wrong is
//!    treated as a damaged frame. The apply goes the way that does not need it, or the journal is abandoned
//!    and reported.
//! 5. Journals of earlier versions hold all contents themselves and have no links.
//!
//! # Not here
//! The frame that names a linked content ([`super::codec`]), the effect of a damaged one ([`super::replay`]).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use domain::{FileState, Hash};
use rustix::fs::OFlags;

use super::JournalId;
use super::observe_file::ContentStamp;
use crate::content::ContentFile;
use crate::fs::regular_file::open_own;

/// Up to this size a content is copied into the journal: a link would take longer than the copy.
pub(super) const INLINE_BYTES_MAX: u64 = 32 << 10;

/// The links of one journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContentLinks {
    dir: PathBuf,
}

impl ContentLinks {
    /// Returns the links of journal `id` in the directory that all journals share.
    pub(super) fn new(shared_dir: &Path, id: JournalId) -> ContentLinks {
        ContentLinks { dir: shared_dir.join(id.to_string()) }
    }

    /// The name of a content, whether it is linked or not.
    pub(super) fn path(&self, hash: &Hash) -> PathBuf {
        self.dir.join(hash.to_string())
    }

    /// Links a file that should have the content of `state`. Returns false, and leaves no link, if the file
    /// cannot be linked or has another content.
    pub(super) fn add(&self, file: &ContentFile, state: &FileState) -> bool {
        let path = self.path(&state.hash);
        let is_good = self.link(&file.path, &path).and_then(|()| {
            let linked = open_own(&path, OFlags::RDONLY)?;
            if ContentStamp::of_file(&linked)? != ContentStamp::of_state(state) {
                return Ok(false);
            }
            if !file.is_synced {
                linked.sync_data()?;
            }
            Ok(true)
        });
        if !matches!(is_good, Ok(true)) {
            // A name that stays is removed with the journal; nothing refers to it.
            drop(fs::remove_file(&path));
            return false;
        }
        true
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).create(&self.dir)?;
                fs::hard_link(from, to)
            }
            linked => linked,
        }
    }

    /// Waits until the names are on disk.
    ///
    /// # Errors
    /// The directory cannot be synced.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()?;
        self.dir.parent().map_or(Ok(()), |shared| File::open(shared)?.sync_all())
    }

    /// Reads a linked content of this size.
    pub(super) fn read(&self, hash: &Hash, size: u64) -> LinkReader {
        LinkReader { path: self.path(hash), file: None, left: size }
    }

    /// Returns true if a file of this size is linked under the hash.
    pub(super) fn has(&self, hash: &Hash, size: u64) -> bool {
        fs::symlink_metadata(self.path(hash)).is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// Returns the number of bytes that go with the links, because nothing else names them.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(super) fn own_bytes(&self) -> io::Result<u64> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if is_absent(&error) => return Ok(0),
            entries => entries?,
        };
        let mut bytes = 0;
        for entry in entries {
            match entry?.metadata() {
                Ok(found) if found.nlink() == 1 => bytes += found.len(),
                Err(error) if !is_absent(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(bytes)
    }

    /// Removes the links, after their journal.
    ///
    /// # Errors
    /// They cannot be removed.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if !is_absent(&error) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Returns the journals that have a directory of links.
pub(super) fn owners(shared_dir: &Path) -> io::Result<Vec<JournalId>> {
    let mut owners = Vec::new();
    for entry in fs::read_dir(shared_dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        owners.extend(name.parse::<JournalId>().ok().filter(|id| id.to_string() == name));
    }
    Ok(owners)
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Reads a linked content. One that is missing or too short is an error of the kind that damaged frames have.
#[derive(Debug)]
pub(super) struct LinkReader {
    path: PathBuf,
    file: Option<File>,
    left: u64,
}

impl LinkReader {
    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => match open_own(&self.path, OFlags::RDONLY) {
                Err(error) if is_absent(&error) => return Err(damaged()),
                opened => opened?,
            },
        };
        Ok(self.file.insert(file))
    }
}

impl Read for LinkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.file()?.read(&mut buffer[..most])? {
            0 => Err(damaged()),
            count => {
                self.left -= count as u64;
                Ok(count)
            }
        }
    }
}

pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a content of the journal is missing or damaged")
}
