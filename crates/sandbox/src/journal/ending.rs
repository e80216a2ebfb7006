//! The end of a journal, and its removal from the list of open ones.
//!
//! # Invariants
//! 1. A [`SettledJournal`] holds the lock of its journal: no other process records it in the store meanwhile.
//! 2. Dropped without [`SettledJournal::retire`], the journal stays as it is, and the next command settles it
//!    again with the same ending. So the ending is recorded at least once, and the store knows the apply by
//!    its id.

use std::fs;
use std::io;

use domain::PlanId;

use super::hooks::JournalStep;
use super::journal_file::JournalFile;
use super::request::{JournalHeader, JournalPath};
use super::save_before_overwrite::{found_files, is_whole};
use super::{JournalId, Journals};
use crate::git::refs::GitError;

/// The end of a journal.
#[derive(Debug)]
pub enum JournalEnding {
    /// All is as it was asked for.
    Applied {
        /// Files that could not be written in place and have another inode now.
        replaced: Vec<JournalPath>,
        /// Directories that should have gone and were not empty.
        left: Vec<JournalPath>,
    },
    /// All is as it was before.
    RolledBack {
        /// Why.
        why: RollbackReason,
        /// The exceptions: paths that were edited by others, which are as those edits left them.
        left: Vec<JournalPath>,
    },
    /// It was never committed: nothing was touched. If the store has sealed it, the seal is to be broken.
    NeverBegan,
}

/// The reason that a journal was rolled back.
#[derive(Debug, thiserror::Error)]
pub enum RollbackReason {
    /// Another process saved a file between the merge and the write. Merge again.
    #[error("{} was changed by another process", place.path)]
    ChangedUnderUs {
        /// The place.
        place: JournalPath,
    },
    /// A path leads through a link.
    #[error("{} leads outside its project", place.path)]
    Escapes {
        /// The place.
        place: JournalPath,
    },
    /// The system said no.
    #[error("{}: {source}", place.path)]
    Io {
        /// The place.
        place: JournalPath,
        /// The error of the system.
        source: io::Error,
    },
    /// Git said no.
    #[error("{source}")]
    Git {
        /// The error of git.
        source: GitError,
    },
    /// A recovery found it interrupted and could not, or must not, go forward.
    #[error("{reason}")]
    Recovered {
        /// The reason that the journal gives.
        reason: String,
    },
}

/// A journal that could not be brought to an end. The next command tries again.
#[derive(Debug, thiserror::Error)]
#[error("recovery of apply {id} is stuck{}: {source}", place.as_ref().map(|place| format!(" at {}", place.path)).unwrap_or_default())]
pub struct StuckJournal {
    /// The journal's id.
    pub id: JournalId,
    /// The plan whose changes they are, if the journal names it.
    pub plan: Option<PlanId>,
    /// The path, if it is a file of the user.
    pub place: Option<JournalPath>,
    /// The error of the system.
    pub source: io::Error,
}

/// A journal that has ended and is not yet retired.
pub struct SettledJournal {
    journals: Journals,
    id: JournalId,
    header: Option<JournalHeader>,
    // Held for its lock.
    _file: JournalFile,
    ending: JournalEnding,
}

impl std::fmt::Debug for SettledJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settled").field("id", &self.id).field("ending", &self.ending).finish_non_exhaustive()
    }
}

impl SettledJournal {
    pub(super) fn new(
        journals: Journals,
        id: JournalId,
        header: Option<JournalHeader>,
        file: JournalFile,
        ending: JournalEnding,
    ) -> SettledJournal {
        SettledJournal { journals, id, header, _file: file, ending }
    }

    /// Returns the id of the apply or undo.
    pub fn id(&self) -> JournalId {
        self.id
    }

    /// Returns the header; `None` if the journal was cut off before it.
    pub fn header(&self) -> Option<&JournalHeader> {
        self.header.as_ref()
    }

    /// Returns its end.
    pub fn ending(&self) -> &JournalEnding {
        &self.ending
    }

    /// The store knows the ending: the journal leaves the list of open ones. An applied journal is retained
    /// to be undone, and so is everything else that the user may miss.
    ///
    /// # Errors
    /// It could not be moved; the next command settles it again.
    pub fn retire(self) -> io::Result<JournalEnding> {
        let SettledJournal { journals, id, ending, .. } = &self;
        journals.hooks.step(JournalStep::Retire)?;
        let mut keeps = match ending {
            JournalEnding::Applied { .. } => true,
            // A retirement that was killed half-way may have moved the saves already.
            JournalEnding::RolledBack { left, .. } => {
                !left.is_empty() || !found_files(&journals.undo_dir, *id)?.is_empty()
            }
            JournalEnding::NeverBegan => false,
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
            // `gc` removes files that stay.
            drop(journals.links(*id).remove());
        }
        Ok(self.ending)
    }
}
