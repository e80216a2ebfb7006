//! Prepares a journal on disk from a request; it lacks only its commit mark.
//!
//! # Invariants
//! 1. A protected path is refused here, before anything is written.
//! 2. A journal that could not be prepared or committed is gone, and nothing has happened.
//!
//! # Not here
//! Writing the header, the images and the ops ([`super::write_images_and_ops`]), and carrying them out
//! ([`super::replay`]).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use domain::{ErrorClass, RelPath, RootIndex, is_name_of_no_project};
use rustix::fs::FallocateFlags;

use super::codec;
use super::ending::{SettledJournal, StuckJournal};
use super::frame::FrameKind;
use super::hooks::JournalStep;
use super::journal_file::JournalFile;
use super::log::{JournalLog, Mark};
use super::observe_file::{DeviceNumbers, ObservedKind, OpError, OpenRoots, RootMoved, observe};
use super::op_order::arrange;
use super::replay::{JournalReplay, ReplayOrigin};
use super::request::{JournalHeader, Request};
use super::sync_to_disk::SyncSet;
use super::write_images_and_ops::write_journal;
use super::{JournalId, Journals};
use crate::content::ContentSource;

/// The maximum number of ops in a journal.
pub const OPS_MAX: usize = 1 << 20;

/// Room for the marks that follow the commit mark, so that a full disk does not prevent a rollback.
const MARK_BYTES: u64 = 64 << 10;

/// The most attempts to make a journal's file that a recovery took for an abandoned one.
const MAKES_MAX: u32 = 8;

/// The reason that a journal was not prepared. No file of the user was touched.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Below a directory that only its own program writes.
    #[error("{path} is protected")]
    Protected {
        /// The path.
        path: RelPath,
    },
    /// The path leads through a link.
    #[error("{path} leads outside its project")]
    Escapes {
        /// The path.
        path: RelPath,
    },
    /// The present content is not the one in the request. Merge again.
    #[error("{path} was changed by another process")]
    ChangedUnderUs {
        /// The path.
        path: RelPath,
    },
    /// A root is not what it was when it was locked.
    #[error(transparent)]
    RootMoved(#[from] RootMoved),
    /// The request contradicts itself.
    #[error("the request is not valid: {what}")]
    Invalid {
        /// In which way.
        what: String,
    },
    /// The content of a file cannot be had, or is not what its hash says.
    #[error("the content of {path} cannot be read: {source}")]
    Content {
        /// Of which file.
        path: RelPath,
        /// The cause.
        source: io::Error,
    },
    /// The file has capabilities that this process cannot put back.
    #[error("{path} has file capabilities, which only root can restore")]
    Capabilities {
        /// The path of the file.
        path: RelPath,
    },
    /// The system said no.
    #[error("the journal cannot be written: {source}")]
    Io {
        /// The error of the system.
        #[from]
        source: io::Error,
    },
}

impl PrepareError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::ChangedUnderUs { .. } | Self::Io { .. } => ErrorClass::Transient,
            Self::Protected { .. }
            | Self::Escapes { .. }
            | Self::RootMoved(_)
            | Self::Content { .. }
            | Self::Capabilities { .. } => ErrorClass::Permanent,
            Self::Invalid { .. } => ErrorClass::Bug,
        }
    }
}

/// A journal without its commit mark. Dropped, it is found by the next recovery, which says that it never
/// began.
#[must_use = "it does nothing until it is committed"]
pub struct PreparedJournal {
    work: JournalReplay,
}

/// A journal with its commit mark on disk. Dropped, it is carried out by the next recovery.
#[must_use = "it is to be carried out"]
pub struct CommittedJournal {
    work: JournalReplay,
}

impl std::fmt::Debug for PreparedJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("id", &self.work.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CommittedJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committed").field("id", &self.work.id).finish_non_exhaustive()
    }
}

impl Journals {
    /// Writes a journal of everything that shall happen, and of everything that is there now.
    ///
    /// # Errors
    /// The request is refused, or the journal cannot be written. No journal is left.
    pub fn prepare(
        &self,
        request: Request,
        content: &dyn ContentSource,
    ) -> Result<PreparedJournal, PrepareError> {
        refuse_invalid(&request)?;
        let roots = OpenRoots::open(&request.roots, DeviceNumbers::Same)?;
        let planned = arrange(&request.changes, &request.apart, |root, path| is_dir(&roots, root, path))?;
        if planned.len() + request.refs.len() > OPS_MAX {
            return Err(PrepareError::Invalid { what: format!("more than {OPS_MAX} ops") });
        }
        let file = self.create(request.id)?;
        let header = JournalHeader {
            id: request.id,
            plan: request.plan,
            kind: request.kind,
            roots: request.roots.clone(),
            boot: self.boot.id,
            fence: request.fence,
            time_ms: request.time_ms,
            net_hash: request.net_hash,
        };
        let links = self.links(request.id);
        let written = write_journal(file, &header, &request, &planned, &roots, content, &links);
        let (file, end, ops) = written.inspect_err(|_| self.remove_open(request.id))?;
        let log = JournalLog::new(file, Some(header.clone()), ops, Mark::Open, end, links);
        let work = JournalReplay {
            journals: self.clone(),
            id: request.id,
            header,
            log,
            roots,
            origin: ReplayOrigin::Live,
            devices: DeviceNumbers::Same,
            touched: SyncSet::default(),
            written: BTreeSet::new(),
            replaced: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        let prepared = PreparedJournal { work };
        if let Err(source) = self.hooks.step(JournalStep::Prepare) {
            prepared.abandon();
            return Err(source.into());
        }
        Ok(prepared)
    }

    /// Makes the journal's file and locks it. A recovery may open it in between, find it empty and remove it.
    fn create(&self, id: JournalId) -> io::Result<JournalFile> {
        let path = self.open_path(id);
        if self.undo_path(id).try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        for _ in 0..MAKES_MAX {
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            let file = JournalFile::with_lock(file)?;
            if file.metadata()?.nlink() > 0 {
                return Ok(file);
            }
        }
        Err(io::Error::other("the journal's file is removed repeatedly"))
    }

    fn remove_open(&self, id: JournalId) {
        // If it cannot be removed, the next recovery finds it and sees that it never began, or `gc` finds it.
        if fs::remove_file(self.open_path(id)).is_ok() {
            drop(self.links(id).remove());
        }
    }
}

impl PreparedJournal {
    /// The journal's name.
    pub fn id(&self) -> JournalId {
        self.work.id
    }

    /// Adds the commit mark. When this returns it is on disk, and nothing of the user's has been touched.
    ///
    /// # Errors
    /// The mark could not be written for certain: the journal is gone, and the apply never began.
    pub fn commit(mut self) -> io::Result<CommittedJournal> {
        match self.write_mark() {
            Ok(()) => {
                self.work.log.mark = Mark::Committed;
                Ok(CommittedJournal { work: self.work })
            }
            Err(error) => {
                // The mark may be on disk or not. Cut off, it counts for no process that reads the file from
                // now on.
                let cut = self.work.log.file.set_len(0).and_then(|()| self.work.log.file.sync_all());
                self.abandon();
                cut.and(Err(error))
            }
        }
    }

    fn write_mark(&mut self) -> io::Result<()> {
        let JournalReplay { journals, log, .. } = &mut self.work;
        journals.hooks.step(JournalStep::Commit)?;
        let ops = u32::try_from(log.ops.len()).map_err(io::Error::other)?;
        let mark = codec::encode_commit(ops);
        if log.has_links() {
            log.links.sync()?;
        }
        // Best effort: where it is not supported, a full disk is met later.
        let _: Result<(), _> =
            rustix::fs::fallocate(&*log.file, FallocateFlags::KEEP_SIZE, log.end, MARK_BYTES);
        log.append(FrameKind::Commit, &mark)?;
        journals.hooks.step(JournalStep::CommitSync)?;
        sync_dir(&journals.open_dir)
    }

    /// Gives it up: nothing happened.
    pub fn abandon(self) {
        self.work.journals.remove_open(self.work.id);
    }
}

impl CommittedJournal {
    /// The journal's name.
    pub fn id(&self) -> JournalId {
        self.work.id
    }

    /// Carries everything out, or takes everything back.
    ///
    /// # Errors
    /// Neither was possible. The next command tries again.
    pub fn carry_out(self) -> Result<SettledJournal, StuckJournal> {
        self.work.run_live()
    }
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns true if a part of the path is a directory that is never written below. Upper and lower case do not
/// count: to some file systems that is one name.
fn is_protected(path: &RelPath) -> bool {
    let mut parts = path.as_bytes().split(|byte| *byte == b'/');
    parts.any(is_name_of_no_project)
}

fn refuse_invalid(request: &Request) -> Result<(), PrepareError> {
    let invalid = |what: String| Err(PrepareError::Invalid { what });
    let roots: BTreeSet<RootIndex> = request.roots.iter().map(|root| root.no).collect();
    if roots.len() != request.roots.len() {
        return invalid("two roots have the same number".to_owned());
    }
    let named =
        request.changes.iter().map(|change| change.root).chain(request.refs.iter().map(|(root, _)| *root));
    if let Some(root) = named.into_iter().find(|root| !roots.contains(root)) {
        return invalid(format!("there is no root {}", root.0));
    }
    let mut seen = BTreeSet::new();
    for change in &request.changes {
        if is_protected(&change.path) {
            return Err(PrepareError::Protected { path: change.path.clone() });
        }
        if !seen.insert((change.root, &change.path)) {
            return invalid(format!("{} is changed twice", change.path));
        }
    }
    Ok(())
}

pub(super) fn refused(path: &RelPath, error: OpError) -> PrepareError {
    match error {
        OpError::Changed => PrepareError::ChangedUnderUs { path: path.clone() },
        OpError::Escapes => PrepareError::Escapes { path: path.clone() },
        OpError::Io(source) => PrepareError::Io { source },
        OpError::Git(source) | OpError::GitBefore(source) => {
            PrepareError::Io { source: io::Error::other(source) }
        }
    }
}

fn is_dir(roots: &OpenRoots, root: RootIndex, path: &RelPath) -> Result<bool, PrepareError> {
    match observe(roots.get(root)?, path).map_err(|error| refused(path, error))? {
        None => Ok(false),
        Some(seen) if seen.kind == ObservedKind::Dir => Ok(true),
        Some(seen) if seen.kind == ObservedKind::Symlink => Err(PrepareError::Escapes { path: path.clone() }),
        Some(_) => Err(PrepareError::ChangedUnderUs { path: path.clone() }),
    }
}
