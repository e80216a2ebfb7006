//! Reads back the changes of an applied journal, to undo them.
//!
//! An undo is an apply of the kind `undo`. The caller takes each change with its two ends exchanged, and
//! merges it with the file as it is now. Then it prepares a new journal whose bytes come from the old one.
//!
//! # Invariants
//! A journal that was rolled back, or that does not exist any more, gives nothing to be undone.

use std::collections::BTreeMap;
use std::io::{self, Read};

use domain::{Hash, RelPath, RootIndex};
use rustix::fs::OFlags;

use super::content_links::ContentLinks;
use super::frame::ImageReader;
use super::journal_file::JournalFile;
use super::log::{JournalIntegrity, JournalLog, Mark};
use super::op::{ByteSource, JournalOp, OpAction, SavedState};
use super::request::{FileImage, ImageBytes, JournalChange, JournalHeader};
use super::{JournalId, Journals};
use crate::content::{ContentFile, ContentSource};
use crate::fs::regular_file::open_own;
use crate::git::refs::RefMove;

/// The reason that an apply cannot be undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Its journal is gone: too old, or never there.
    #[error("the journal of apply {id} is no longer stored")]
    Expired {
        /// The id of the apply.
        id: JournalId,
    },
    /// It was rolled back, so there is nothing to undo.
    #[error("apply {id} was rolled back")]
    RolledBack {
        /// The id of the apply.
        id: JournalId,
    },
    /// Its journal does not say any more what was done.
    #[error("the journal of apply {id} is damaged")]
    Damaged {
        /// The id of the apply.
        id: JournalId,
    },
    /// The journal cannot be read.
    #[error("the journal of apply {id}: {source}")]
    Io {
        /// The id of the apply.
        id: JournalId,
        /// The error of the system.
        source: io::Error,
    },
}

/// An applied journal. As a [`ContentSource`] it gives the bytes of all its images.
#[derive(Debug)]
pub struct UndoJournal {
    file: JournalFile,
    header: JournalHeader,
    changes: Vec<JournalChange>,
    refs: Vec<(RootIndex, RefMove)>,
    contents: BTreeMap<Hash, (ByteSource, u64)>,
    links: ContentLinks,
}

impl Journals {
    /// Reads what an apply did.
    ///
    /// # Errors
    /// [`UndoError::Expired`] when the journal is not there.
    pub fn read_undo(&self, id: JournalId) -> Result<UndoJournal, UndoError> {
        let expired = || UndoError::Expired { id };
        let file = match open_own(&self.undo_path(id), OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(expired()),
            Err(source) => return Err(UndoError::Io { id, source }),
        };
        let log = JournalLog::read(JournalFile::without_lock(file), self.links(id));
        let log = log.map_err(|source| UndoError::Io { id, source })?;
        if log.wholeness == JournalIntegrity::Damaged
            || log.header.as_ref().is_some_and(|header| header.id != id)
        {
            return Err(UndoError::Damaged { id });
        }
        match log.mark {
            Mark::Done(done) if done.applied => {}
            Mark::Done(_) | Mark::Back(_) => return Err(UndoError::RolledBack { id }),
            Mark::Open | Mark::Committed => return Err(expired()),
        }
        let header = log.header.ok_or_else(expired)?;
        let contents = contents(&log.ops);
        let is_missing = |(hash, (bytes, size)): (&Hash, &(ByteSource, u64))| {
            *bytes == ByteSource::Linked && !log.links.has(hash, *size)
        };
        if contents.iter().any(is_missing) {
            return Err(UndoError::Damaged { id });
        }
        Ok(UndoJournal {
            file: log.file,
            header,
            changes: join(&log.ops),
            refs: log.ops.iter().filter_map(ref_move).collect(),
            contents,
            links: log.links,
        })
    }
}

impl UndoJournal {
    /// Returns the header.
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// Returns when its final mark was written, after its last file, in seconds and nanoseconds of the file
    /// system's clock. `None` if that cannot be determined.
    pub fn ended_at(&self) -> Option<(i64, i64)> {
        let stat = rustix::fs::fstat(&*self.file).ok()?;
        #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
        Some((stat.st_mtime as i64, stat.st_mtime_nsec as i64))
    }

    /// Returns the changes that were made, one for each path: `pre` is the state before the apply.
    pub fn changes(&self) -> &[JournalChange] {
        &self.changes
    }

    /// The git refs that were moved.
    pub fn refs(&self) -> &[(RootIndex, RefMove)] {
        &self.refs
    }
}

impl ContentSource for UndoJournal {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        let (bytes, size) = self.contents.get(hash).ok_or(io::ErrorKind::NotFound)?;
        Ok(match bytes {
            ByteSource::Inline(span) => Box::new(ImageReader::new(&self.file, *span)),
            ByteSource::Linked => Box::new(self.links.read(hash, *size)),
        })
    }

    fn linkable_file(&self, hash: &Hash) -> Option<ContentFile> {
        let (bytes, _) = self.contents.get(hash)?;
        let is_linked = *bytes == ByteSource::Linked;
        is_linked.then(|| ContentFile { path: self.links.path(hash), is_synced: true })
    }
}

fn ref_move(op: &JournalOp) -> Option<(RootIndex, RefMove)> {
    match &op.how {
        OpAction::Ref(moved) => Some((op.root, moved.clone())),
        OpAction::Write { .. }
        | OpAction::Create { .. }
        | OpAction::Remove { .. }
        | OpAction::MakeDir { .. }
        | OpAction::RemoveDir { .. }
        | OpAction::Link { .. }
        | OpAction::Mode { .. } => None,
    }
}

/// Returns the source and size of each content.
fn contents(ops: &[JournalOp]) -> BTreeMap<Hash, (ByteSource, u64)> {
    let images = ops.iter().flat_map(|op| op.how.pre().into_iter().chain(op.how.post()));
    images.filter_map(|saved| Some((saved.state.hash, (saved.bytes?, saved.state.size)))).collect()
}

/// The ops of one path become one change again: from what the first found to what the last left.
fn join(ops: &[JournalOp]) -> Vec<JournalChange> {
    let mut changes: BTreeMap<(RootIndex, &RelPath), JournalChange> = BTreeMap::new();
    for op in ops.iter().filter(|op| ref_move(op).is_none()) {
        let post = op.how.post().map(image);
        match changes.get_mut(&(op.root, &op.path)) {
            Some(change) => change.post = post,
            None => {
                let pre = op.how.pre().map(image);
                let change =
                    JournalChange { root: op.root, path: op.path.clone(), from: op.from.clone(), pre, post };
                changes.insert((op.root, &op.path), change);
            }
        }
    }
    changes.into_values().collect()
}

fn image(saved: &SavedState) -> FileImage {
    FileImage { state: saved.state, bytes: ImageBytes::Content, attributes: saved.attributes.clone() }
}
