//! Recovers journals whose process is gone: the first act of every command.
//!
//! # Invariants
//! 1. With nothing to recover it costs one look into one directory.
//! 2. A journal whose lock is taken has a living owner and is left to it.
//! 3. One journal that is stuck does not keep the others waiting.
//! 4. The oldest comes first, so that what was applied first is settled first.
//! 5. A journal never began only if the store has not sealed it, or if it is whole and no file shows a trace
//!    of it. One that is sealed, whole, without a commit mark and with traces has lost the mark: nothing is
//!    touched before it.
//! 6. A damaged journal is neither carried out nor removed.
//!
//! # Not here
//! The locks of the projects: a caller that guards them with locks asks for [`Journals::header`], takes them,
//! and then for [`Journals::recover_one`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::OFlags;

use super::ending::{JournalEnding, SettledJournal, StuckJournal};
use super::journal_file::JournalFile;
use super::log::{JournalIntegrity, JournalLog, Mark};
use super::observe_file::{DeviceNumbers, OpenRoots};
use super::replay::{JournalReplay, ReplayOrigin, ending};
use super::request::JournalHeader;
use super::save_before_overwrite::found_files;
use super::sync_to_disk::SyncSet;
use super::{JournalId, Journals};
use crate::fs::regular_file::open_own;

/// The results of a recovery.
#[derive(Debug, Default)]
pub struct JournalRecovery {
    /// Journals that are over. The caller records each in the store, then retires it.
    pub settled: Vec<SettledJournal>,
    /// Journals that could not be brought to an end. The next command tries again.
    pub stuck: Vec<StuckJournal>,
    /// Journals whose process is alive.
    pub busy: Vec<JournalId>,
    /// Journals that do not say any more what was to be done.
    pub damaged: Vec<JournalId>,
}

/// The result for one journal.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one is made for each journal and taken apart at once")]
pub enum RecoveredJournal {
    /// It is over. The caller records it in the store, then retires it.
    Settled(SettledJournal),
    /// It could not be brought to an end. The next command tries again.
    Stuck(StuckJournal),
    /// Its process is alive.
    Busy,
    /// Another process retired it meanwhile.
    Gone,
    /// It no longer says what was to be done. The caller abandons it.
    Damaged {
        /// The header, if it can still be read.
        header: Option<JournalHeader>,
    },
}

/// The store's word on an apply: sealed or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// The store has sealed it, or that cannot be determined.
    Sealed,
    /// The store has not sealed it: nothing was written.
    Open,
}

impl Journals {
    /// Brings every journal whose process is gone to its end, forward or back, by what the journals say: one
    /// without a commit mark never began.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn recover(&self) -> io::Result<JournalRecovery> {
        let mut recovery = JournalRecovery::default();
        for listed in self.open_ids()? {
            match self.recover_one(listed.id, Seal::Open) {
                RecoveredJournal::Settled(settled) => recovery.settled.push(settled),
                RecoveredJournal::Stuck(stuck) => recovery.stuck.push(stuck),
                RecoveredJournal::Busy => recovery.busy.push(listed.id),
                RecoveredJournal::Gone => {}
                RecoveredJournal::Damaged { .. } => recovery.damaged.push(listed.id),
            }
        }
        Ok(recovery)
    }

    /// Brings one journal to its end, forward or back, if its process is gone.
    pub fn recover_one(&self, id: JournalId, seal: Seal) -> RecoveredJournal {
        match self.lock(id) {
            Ok(LockAttempt::Ours(file)) => self.settle(id, file, seal),
            Ok(LockAttempt::Busy) => RecoveredJournal::Busy,
            Ok(LockAttempt::Gone) => RecoveredJournal::Gone,
            Err(source) => RecoveredJournal::Stuck(stuck(id, source)),
        }
    }

    /// Returns the header of an open journal, whichever process has its lock; `None` if it is gone, or was
    /// cut off before it. A header never changes: it is written first.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn header(&self, id: JournalId) -> io::Result<Option<JournalHeader>> {
        match open_own(&self.open_path(id), OFlags::RDONLY) {
            Ok(file) => JournalLog::read_header(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a journal that is stuck among the retained ones as it is, for a user who says that its project
    /// will not come back. Its bytes stay until it is forgotten; nothing of the user's is touched.
    ///
    /// # Errors
    /// It is not there ([`io::ErrorKind::NotFound`]), its process is alive ([`io::ErrorKind::ResourceBusy`]),
    /// or it cannot be moved.
    pub fn abandon(&self, id: JournalId) -> io::Result<()> {
        match self.lock(id)? {
            LockAttempt::Ours(file) => {
                for found in found_files(&self.open_dir, id)? {
                    if let Some(name) = found.file_name() {
                        fs::rename(&found, self.undo_dir.join(name))?;
                    }
                }
                fs::rename(self.open_path(id), self.undo_path(id))?;
                // The lock is held until it is where it belongs.
                drop(file);
                Ok(())
            }
            LockAttempt::Busy => Err(io::ErrorKind::ResourceBusy.into()),
            LockAttempt::Gone => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Takes the lock of a journal, unless its owner is alive or another process has retired it.
    fn lock(&self, id: JournalId) -> io::Result<LockAttempt> {
        let path = self.open_path(id);
        let file = match open_own(&path, OFlags::RDWR) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockAttempt::Gone),
            Err(error) => return Err(error),
        };
        let Some(file) = JournalFile::try_with_lock(file)? else { return Ok(LockAttempt::Busy) };
        // The process that had the lock before may have retired it after we opened it.
        let ours = file.metadata()?;
        match fs::metadata(&path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                Ok(LockAttempt::Ours(file))
            }
            Ok(_) => Ok(LockAttempt::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LockAttempt::Gone),
            Err(error) => Err(error),
        }
    }

    fn settle(&self, id: JournalId, file: JournalFile, seal: Seal) -> RecoveredJournal {
        let log = match JournalLog::read(file, self.links(id)) {
            Ok(log) => log,
            Err(source) => return RecoveredJournal::Stuck(stuck(id, source)),
        };
        let is_ours = log.header.as_ref().is_none_or(|header| header.id == id);
        if log.mark == Mark::Open && seal == Seal::Open && is_ours {
            return RecoveredJournal::Settled(SettledJournal::new(
                self.clone(),
                id,
                log.header,
                log.file,
                JournalEnding::NeverBegan,
            ));
        }
        let is_over = matches!(log.mark, Mark::Done(_));
        match (&log.header, log.wholeness) {
            (Some(header), JournalIntegrity::Whole) if is_ours => {
                let header = header.clone();
                self.resume(id, header, log)
            }
            // All is done; what it cannot say any more is how to undo it.
            (Some(header), JournalIntegrity::Damaged) if is_ours && is_over => {
                let header = header.clone();
                self.resume(id, header, log)
            }
            (header, JournalIntegrity::Whole | JournalIntegrity::Begun | JournalIntegrity::Damaged) => {
                RecoveredJournal::Damaged { header: header.clone().filter(|_| is_ours) }
            }
        }
    }

    /// Continues with a journal that says what is to be done.
    fn resume(&self, id: JournalId, header: JournalHeader, log: JournalLog) -> RecoveredJournal {
        let devices =
            if header.boot == self.boot.id { DeviceNumbers::Same } else { DeviceNumbers::Renumbered };
        let roots = match (OpenRoots::open(&header.roots, devices), &log.mark) {
            (Ok(roots), _) => roots,
            // It is over, and what may lie parked is gone with the project.
            (Err(_), Mark::Done(done)) => {
                let ending = ending(&log.ops, done, None);
                return RecoveredJournal::Settled(SettledJournal::new(
                    self.clone(),
                    id,
                    Some(header),
                    log.file,
                    ending,
                ));
            }
            (Err(moved), Mark::Open | Mark::Committed | Mark::Back(_)) => {
                let stuck = stuck(id, io::Error::other(moved));
                return RecoveredJournal::Stuck(StuckJournal { plan: Some(header.plan), ..stuck });
            }
        };
        let work = JournalReplay {
            journals: self.clone(),
            id,
            header: header.clone(),
            log,
            roots,
            origin: ReplayOrigin::Recovery,
            devices,
            touched: SyncSet::default(),
            written: BTreeSet::new(),
            replaced: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        match work.run_recovery() {
            Ok(settled) => RecoveredJournal::Settled(settled),
            Err(stuck) if is_damage(&stuck.source) => RecoveredJournal::Damaged { header: Some(header) },
            Err(stuck) => RecoveredJournal::Stuck(stuck),
        }
    }
}

/// The error that bytes which a recovery needs are no longer in the journal.
#[derive(Debug, thiserror::Error)]
#[error("the journal is damaged")]
pub(super) struct MissingBytes;

fn is_damage(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<MissingBytes>())
}

/// The result of an attempt to take a lock.
enum LockAttempt {
    /// We have it.
    Ours(JournalFile),
    /// Its owner is alive.
    Busy,
    /// The journal is gone.
    Gone,
}

fn stuck(id: JournalId, source: io::Error) -> StuckJournal {
    StuckJournal { id, plan: None, place: None, source }
}
