//! The request to a journal: the changes that it shall carry out.
//!
//! # Invariants
//! 1. A [`JournalChange`] says what is at a path and what shall be there; how that is done is decided when
//!    the journal is prepared.
//! 2. Nothing here is read from the disk except by [`JournalRoot::new`].
//!
//! # Not here
//! How changes are ordered and split ([`super::order`]), how they are written down ([`super::codec`]).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use domain::{BootId, Fence, FileState, Hash, PlanId, RelPath, RootIndex};

use super::{JournalId, JournalKind};
use crate::fs::beneath;
use crate::git::refs::RefMove;

/// A project's root, and which directory that really is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRoot {
    /// The index of the project.
    pub no: RootIndex,
    /// Its path.
    pub path: PathBuf,
    /// The device that it is on.
    pub dev: u64,
    /// Its inode there.
    pub ino: u64,
}

impl JournalRoot {
    /// Identifies the directory that is at `path` now. Taken when the root is locked, and compared ever
    /// after.
    ///
    /// # Errors
    /// It is no directory, or not to be reached.
    pub fn new(no: RootIndex, path: &Path) -> io::Result<JournalRoot> {
        let stat = rustix::fs::fstat(beneath::open_root(path)?)?;
        Ok(JournalRoot { no, path: path.to_owned(), dev: stat.st_dev, ino: stat.st_ino })
    }
}

/// The owner of a file, and its attributes besides content and mode: ACLs, labels, user attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Extended attributes, by name.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The source of the bytes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageBytes {
    /// They are here: small or freshly merged.
    Here(Vec<u8>),
    /// Stored under the state's hash.
    Content,
    /// They lie at the path right now. Only for what was before.
    AsFound,
}

/// A file, link or directory with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileImage {
    /// Kind, mode, size and hash.
    pub state: FileState,
    /// Content, or the target of a link. Of a directory they are not asked for.
    pub bytes: ImageBytes,
    /// The owner that a new file gets; `None`: the owner of files made in its directory.
    pub attributes: Option<Attributes>,
}

/// The change that shall happen at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalChange {
    /// The project.
    pub root: RootIndex,
    /// The path in it.
    pub path: RelPath,
    /// The path that a created file was moved from: it takes owner and attributes from there. That the old
    /// one goes is a change of its own.
    pub from: Option<RelPath>,
    /// The state before.
    pub pre: Option<FileImage>,
    /// The state after.
    pub post: Option<FileImage>,
}

/// The work of one journal: all of it happens, or nothing.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name of the journal and of the apply.
    pub id: JournalId,
    /// The plan whose changes they are.
    pub plan: PlanId,
    /// In or out.
    pub kind: JournalKind,
    /// The projects, as they were found when they were locked.
    pub roots: Vec<JournalRoot>,
    /// The ownership that it is done under.
    pub fence: Fence,
    /// When, for those who read.
    pub time_ms: u64,
    /// The hash of the net changes.
    pub net_hash: Hash,
    /// The files.
    pub changes: Vec<JournalChange>,
    /// Files that have other names elsewhere: a new file takes the place of each, and the other names keep
    /// the old one.
    pub apart: BTreeSet<(RootIndex, RelPath)>,
    /// The git refs, moved after the files are written.
    pub refs: Vec<(RootIndex, RefMove)>,
}

/// The header of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// Its name.
    pub id: JournalId,
    /// The plan whose changes they are.
    pub plan: PlanId,
    /// In or out.
    pub kind: JournalKind,
    /// The projects.
    pub roots: Vec<JournalRoot>,
    /// The boot in which it was written: times and torn pages of another boot mean something else.
    pub boot: BootId,
    /// The ownership that it was done under.
    pub fence: Fence,
    /// When.
    pub time_ms: u64,
    /// The hash of the net changes.
    pub net_hash: Hash,
}

/// A path in one of the projects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalPath {
    /// The project.
    pub root: RootIndex,
    /// The path in it; of a git ref, its name.
    pub path: RelPath,
}
