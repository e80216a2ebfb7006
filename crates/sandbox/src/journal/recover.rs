//! What the first act of every command finds, and settles: journals whose process is gone.
//!
//! # Invariants
//! 1. With nothing to recover it costs one look into one directory.
//! 2. A journal whose lock is taken has a living owner and is left to it.
//! 3. One journal that is stuck does not keep the others waiting.
//! 4. The oldest comes first, so that what was applied first is settled first.
//! 5. A journal never began only if the store has not sealed it, or if it is whole and no file shows a trace of it. One that
//!    is sealed, whole, without a commit mark and with traces has lost the mark: nothing is touched before it.
//! 6. A damaged journal is neither carried out nor removed.
//!
//! # Not here
//! The locks of the projects: whoever guards them with locks asks for [`Journals::header`], takes them, and then for
//! [`Journals::recover_one`].

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::OFlags;

use super::change::Header;
use super::ending::{Ending, Settled, Stuck};
use super::file::JournalFile;
use super::log::{Log, Mark, Wholeness};
use super::overwritten::found_files;
use super::replay::{Origin, Work, ending};
use super::sync::Touched;
use super::target::{Devices, Roots};
use super::{JournalId, Journals};
use crate::fs::regular_file::open_own;

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Journals that are over. The store is to be told, then each is to be retired.
    pub settled: Vec<Settled>,
    /// Journals that could not be brought to an end. The next command tries again.
    pub stuck: Vec<Stuck>,
    /// Journals whose process lives.
    pub busy: Vec<JournalId>,
    /// Journals that do not say any more what was to be done.
    pub damaged: Vec<JournalId>,
}

/// What became of one journal.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one is made for each journal and taken apart at once")]
pub enum Recovered {
    /// It is over. The store is to be told, then it is to be retired.
    Settled(Settled),
    /// It could not be brought to an end. The next command tries again.
    Stuck(Stuck),
    /// Its process lives.
    Busy,
    /// Somebody else retired it meanwhile.
    Gone,
    /// It does not say any more what was to be done. It is to be set aside.
    Damaged {
        /// What it says about itself, if it still does.
        header: Option<Header>,
    },
}

/// Whether the store has sealed an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It has, or it cannot be told.
    Sealed,
    /// It has not: nothing was written.
    Open,
}

impl Journals {
    /// Brings every journal whose process is gone to its end, forward or back, by what the journals say: one without a
    /// commit mark never began.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn recover(&self) -> io::Result<Recovery> {
        let mut recovery = Recovery::default();
        for listed in self.open_ids()? {
            match self.recover_one(listed.id, Seal::Open) {
                Recovered::Settled(settled) => recovery.settled.push(settled),
                Recovered::Stuck(stuck) => recovery.stuck.push(stuck),
                Recovered::Busy => recovery.busy.push(listed.id),
                Recovered::Gone => {}
                Recovered::Damaged { .. } => recovery.damaged.push(listed.id),
            }
        }
        Ok(recovery)
    }

    /// Brings one journal to its end, forward or back, if its process is gone.
    pub fn recover_one(&self, id: JournalId, seal: Seal) -> Recovered {
        match self.lock(id) {
            Ok(Locked::Ours(file)) => self.settle(id, file, seal),
            Ok(Locked::Busy) => Recovered::Busy,
            Ok(Locked::Gone) => Recovered::Gone,
            Err(source) => Recovered::Stuck(stuck(id, source)),
        }
    }

    /// What an open journal says about itself, whoever has its lock; none when it is gone, or was cut off before that.
    /// What a header says stays: it is the first thing that is written.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn header(&self, id: JournalId) -> io::Result<Option<Header>> {
        match open_own(&self.open_path(id), OFlags::RDONLY) {
            Ok(file) => Log::read_header(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a journal that is stuck among the kept ones as it is, for a user who says that its project will not come back.
    /// Its bytes stay until it is forgotten; nothing of the user's is touched.
    ///
    /// # Errors
    /// It is not there ([`io::ErrorKind::NotFound`]), its process lives ([`io::ErrorKind::ResourceBusy`]), or it cannot be
    /// moved.
    pub fn set_aside(&self, id: JournalId) -> io::Result<()> {
        match self.lock(id)? {
            Locked::Ours(file) => {
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
            Locked::Busy => Err(io::ErrorKind::ResourceBusy.into()),
            Locked::Gone => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Takes the lock of a journal, unless its owner lives or somebody else has retired it.
    fn lock(&self, id: JournalId) -> io::Result<Locked> {
        let path = self.open_path(id);
        let file = match open_own(&path, OFlags::RDWR) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Locked::Gone),
            Err(error) => return Err(error),
        };
        let Some(file) = JournalFile::try_locked(file)? else { return Ok(Locked::Busy) };
        // Whoever had the lock before may have retired it after we opened it.
        let ours = file.metadata()?;
        match fs::metadata(&path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(Locked::Ours(file)),
            Ok(_) => Ok(Locked::Gone),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Locked::Gone),
            Err(error) => Err(error),
        }
    }

    fn settle(&self, id: JournalId, file: JournalFile, seal: Seal) -> Recovered {
        let log = match Log::read(file, self.links(id)) {
            Ok(log) => log,
            Err(source) => return Recovered::Stuck(stuck(id, source)),
        };
        let is_ours = log.header.as_ref().is_none_or(|header| header.id == id);
        if log.mark == Mark::Open && seal == Seal::Open && is_ours {
            return Recovered::Settled(Settled::new(
                self.clone(),
                id,
                log.header,
                log.file,
                Ending::NeverBegan,
            ));
        }
        let is_over = matches!(log.mark, Mark::Done(_));
        match (&log.header, log.wholeness) {
            (Some(header), Wholeness::Whole) if is_ours => {
                let header = header.clone();
                self.carry_on(id, header, log)
            }
            // All is done; what it cannot say any more is how to undo it.
            (Some(header), Wholeness::Damaged) if is_ours && is_over => {
                let header = header.clone();
                self.carry_on(id, header, log)
            }
            (header, Wholeness::Whole | Wholeness::Begun | Wholeness::Damaged) => {
                Recovered::Damaged { header: header.clone().filter(|_| is_ours) }
            }
        }
    }

    /// Goes on with a journal that says what is to be done.
    fn carry_on(&self, id: JournalId, header: Header, log: Log) -> Recovered {
        let devices = if header.boot == self.boot.id { Devices::Same } else { Devices::Renumbered };
        let roots = match (Roots::open(&header.roots, devices), &log.mark) {
            (Ok(roots), _) => roots,
            // It is over, and what may lie parked is gone with the project.
            (Err(_), Mark::Done(done)) => {
                let ending = ending(&log.ops, done, None);
                return Recovered::Settled(Settled::new(self.clone(), id, Some(header), log.file, ending));
            }
            (Err(moved), Mark::Open | Mark::Committed | Mark::Back(_)) => {
                let stuck = stuck(id, io::Error::other(moved));
                return Recovered::Stuck(Stuck { plan: Some(header.plan), ..stuck });
            }
        };
        let work = Work {
            journals: self.clone(),
            id,
            header: header.clone(),
            log,
            roots,
            origin: Origin::Recovery,
            devices,
            touched: Touched::default(),
            written: BTreeSet::new(),
            replaced: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        match work.run_recovery() {
            Ok(settled) => Recovered::Settled(settled),
            Err(stuck) if is_damage(&stuck.source) => Recovered::Damaged { header: Some(header) },
            Err(stuck) => Recovered::Stuck(stuck),
        }
    }
}

/// That bytes which a recovery needs are not in the journal any more.
#[derive(Debug, thiserror::Error)]
#[error("the journal is damaged")]
pub(super) struct Damage;

fn is_damage(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<Damage>())
}

/// What became of taking a lock.
enum Locked {
    /// We have it.
    Ours(JournalFile),
    /// Its owner lives.
    Busy,
    /// The journal is gone.
    Gone,
}

fn stuck(id: JournalId, source: io::Error) -> Stuck {
    Stuck { id, plan: None, place: None, source }
}
