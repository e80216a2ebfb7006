//! What the first act of every command finds, and settles: journals whose process is gone.
//!
//! # Invariants
//! 1. With nothing to recover it costs one look into one directory.
//! 2. A journal whose lock is taken has a living owner and is left to it.
//! 3. One journal that is stuck does not keep the others waiting.
//! 4. The oldest comes first, so that what was applied first is settled first.
//!
//! # Not here
//! The locks of the projects: whoever guards them with locks asks for [`Journals::header`], takes them, and then for
//! [`Journals::recover_one`].

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;

use super::change::Header;
use super::file::JournalFile;
use super::found::found_files;
use super::log::{Log, Mark};
use super::settled::{Ending, Settled, Stuck};
use super::target::{Devices, Roots};
use super::touched::Touched;
use super::work::{Origin, Work, ending};
use super::{JournalId, Journals};

/// What a recovery did.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Journals that are over. The store is to be told, then each is to be retired.
    pub settled: Vec<Settled>,
    /// Journals that could not be brought to an end. The next command tries again.
    pub stuck: Vec<Stuck>,
    /// Journals whose process lives.
    pub busy: Vec<JournalId>,
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
}

impl Journals {
    /// Brings every journal whose process is gone to its end, forward or back.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn recover(&self) -> io::Result<Recovery> {
        let mut recovery = Recovery::default();
        for listed in self.open_ids()? {
            match self.recover_one(listed.id) {
                Recovered::Settled(settled) => recovery.settled.push(settled),
                Recovered::Stuck(stuck) => recovery.stuck.push(stuck),
                Recovered::Busy => recovery.busy.push(listed.id),
                Recovered::Gone => {}
            }
        }
        Ok(recovery)
    }

    /// Brings one journal to its end, forward or back, if its process is gone.
    pub fn recover_one(&self, id: JournalId) -> Recovered {
        match self.lock(id) {
            Ok(Locked::Ours(file)) => match self.settle(id, file) {
                Ok(settled) => Recovered::Settled(settled),
                Err(stuck) => Recovered::Stuck(stuck),
            },
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
        match File::open(self.open_path(id)) {
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
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
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

    fn settle(&self, id: JournalId, file: JournalFile) -> Result<Settled, Stuck> {
        let log = Log::read(file).map_err(|source| stuck(id, source))?;
        let Some(header) = log.header.clone().filter(|_| log.mark != Mark::Open) else {
            return Ok(Settled::new(self.clone(), id, log.header, log.file, Ending::NeverBegan));
        };
        let devices = if header.boot == self.boot.id { Devices::Same } else { Devices::Renumbered };
        let roots = match (Roots::open(&header.roots, devices), &log.mark) {
            (Ok(roots), _) => roots,
            // It is over, and what may lie parked is gone with the project.
            (Err(_), Mark::Done(done)) => {
                let ending = ending(&log.ops, done, None);
                return Ok(Settled::new(self.clone(), id, Some(header), log.file, ending));
            }
            (Err(moved), Mark::Open | Mark::Committed | Mark::Back(_)) => {
                return Err(Stuck { plan: Some(header.plan), ..stuck(id, io::Error::other(moved)) });
            }
        };
        let work = Work {
            journals: self.clone(),
            id,
            header,
            log,
            roots,
            origin: Origin::Recovery,
            devices,
            touched: Touched::default(),
            written: BTreeSet::new(),
            replaced: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        work.run_recovery()
    }
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
