//! How a journal ended, and how it leaves the list of open ones.
//!
//! # Invariants
//! 1. A [`Settled`] holds the lock of its journal: nobody else tells the store about it meanwhile.
//! 2. Dropped without [`Settled::retire`], the journal stays as it is, and the next command settles it again with the
//!    same ending. So the store is told at least once, and knows the apply by its id.

use std::fs;
use std::io;

use domain::PlanId;

use super::change::{Header, Place};
use super::file::JournalFile;
use super::hooks::Step;
use super::overwritten::{found_files, is_whole};
use super::{JournalId, Journals};
use crate::git::refs::GitError;

/// How a journal ended.
#[derive(Debug)]
pub enum Ending {
    /// All is as it was asked for.
    Applied {
        /// Files that could not be written in place and have another inode now.
        replaced: Vec<Place>,
        /// Directories that should have gone and were not empty.
        left: Vec<Place>,
    },
    /// All is as it was before.
    RolledBack {
        /// Why.
        why: Why,
        /// Except these, which somebody had edited: they are as that somebody left them.
        left: Vec<Place>,
    },
    /// It was never committed: nothing was touched. If the store has sealed it, the seal is to be broken.
    NeverBegan,
}

/// Why a journal was taken back.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// Somebody saved a file between the merge and the write. Merge again.
    #[error("{} changed under us", place.path)]
    ChangedUnderUs {
        /// Where.
        place: Place,
    },
    /// A path leads through a link.
    #[error("{} leads out of its project", place.path)]
    Escapes {
        /// Where.
        place: Place,
    },
    /// The system said no.
    #[error("{}: {source}", place.path)]
    Io {
        /// Where.
        place: Place,
        /// What it said.
        source: io::Error,
    },
    /// Git said no.
    #[error("{source}")]
    Git {
        /// What it said.
        source: GitError,
    },
    /// A recovery found it interrupted and could not, or must not, go forward.
    #[error("{reason}")]
    Recovered {
        /// What the journal says about it.
        reason: String,
    },
}

/// A journal that could not be brought to an end. The next command tries again.
#[derive(Debug, thiserror::Error)]
#[error("recovery of apply {id} is stuck{}: {source}", place.as_ref().map(|place| format!(" at {}", place.path)).unwrap_or_default())]
pub struct Stuck {
    /// Which.
    pub id: JournalId,
    /// Whose changes, when the journal says so.
    pub plan: Option<PlanId>,
    /// Where, when it is a file of the user's.
    pub place: Option<Place>,
    /// What the system said.
    pub source: io::Error,
}

/// A journal that is over, not yet retired.
pub struct Settled {
    journals: Journals,
    id: JournalId,
    header: Option<Header>,
    // Held for its lock.
    _file: JournalFile,
    ending: Ending,
}

impl std::fmt::Debug for Settled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settled").field("id", &self.id).field("ending", &self.ending).finish_non_exhaustive()
    }
}

impl Settled {
    pub(super) fn new(
        journals: Journals,
        id: JournalId,
        header: Option<Header>,
        file: JournalFile,
        ending: Ending,
    ) -> Settled {
        Settled { journals, id, header, _file: file, ending }
    }

    /// Which apply or undo.
    pub fn id(&self) -> JournalId {
        self.id
    }

    /// What the journal says about itself; none when it was cut off before that.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// How it ended.
    pub fn ending(&self) -> &Ending {
        &self.ending
    }

    /// The store knows the ending: the journal leaves the list of open ones. What was applied is kept to be undone, and
    /// so is whatever else somebody may miss.
    ///
    /// # Errors
    /// It could not be moved; the next command settles it again.
    pub fn retire(self) -> io::Result<Ending> {
        let Settled { journals, id, ending, .. } = &self;
        journals.hooks.step(Step::Retire)?;
        let mut keeps = match ending {
            Ending::Applied { .. } => true,
            // A retirement that was killed half-way may have moved the saves already.
            Ending::RolledBack { left, .. } => {
                !left.is_empty() || !found_files(&journals.undo_dir, *id)?.is_empty()
            }
            Ending::NeverBegan => false,
        };
        for found in found_files(&journals.open_dir, *id)? {
            if is_whole(&found) {
                keeps = true;
                if let Some(name) = found.file_name() {
                    fs::rename(&found, journals.undo_dir.join(name))?;
                }
            } else {
                fs::remove_file(&found)?;
            }
        }
        let open = journals.open_path(*id);
        if keeps {
            fs::rename(open, journals.undo_path(*id))?;
        } else {
            fs::remove_file(open)?;
            // What stays is removed by `gc`.
            drop(journals.links(*id).remove());
        }
        Ok(self.ending)
    }
}
