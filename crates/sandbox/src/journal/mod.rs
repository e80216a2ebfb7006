//! The apply journal: many files change together, or not at all.
//!
//! # Overview
//! Before any file of the user is touched, a journal has every byte that is there and every byte that shall
//! be, in itself or linked from where it is stored, and a commit mark is on disk. Then files are written in
//! place, so that inodes, owners, modes and links stay what they were. A process that is killed in between,
//! at whatever step, leaves a journal; the next command finds it and goes forward, or back.
//!
//! # How it is used
//! 1. [`Journals::recover`] is the first act of every command. The caller records each [`SettledJournal`] in
//!    the store, then retires it.
//! 2. [`Journals::prepare`] writes down everything. Nothing of the user's is touched; to abandon it is free.
//! 3. The caller seals the apply in the store.
//! 4. [`PreparedJournal::commit`] adds the mark and waits for the disk. From here on the journal is carried
//!    out or rolled back, by this process or by the next command.
//! 5. [`CommittedJournal::carry_out`] does it, and returns the ending.
//! 6. The caller records the ending in the store, then calls [`SettledJournal::retire`]. An applied journal
//!    can be undone: [`Journals::read_undo`].
//!
//! # Where to read
//! `frame` defines the format of the file, `content_links` the place of large contents, and `op_order` the
//! order of the ops. `write_images_and_ops` writes the first part, with the bytes of each file before and
//! after. `write_file` and `do_op` carry the ops out; `save_before_overwrite` saves a file that changed
//! meanwhile. `classify` decides for a recovery how far its predecessor came, and `undo_op` what becomes of
//! edits that the user made meanwhile.
//!
//! # Invariants
//! 1. Nothing of the user's is touched before the commit mark is on disk.
//! 2. After a recovery all is as before or all is as asked, except files that another program or the user
//!    edited meanwhile. Those keep the edit, and are named.
//! 3. One process at a time carries a journal out: the one that has its lock.
//! 4. Nothing but the files is needed: no store, no network.
//! 5. All paths are resolved beneath their root, without links; the root is known by device and inode.
//!
//! # Not here
//! The merge and its conflicts, locks of plans and projects, the seal, the records in the store: the engine
//! has them. Time and ids are passed in.

mod attributes;
mod classify;
mod codec;
mod content_links;
mod do_op;
mod ending;
mod frame;
mod hooks;
mod journal_file;
mod log;
mod observe_file;
mod op;
mod op_order;
mod prepare;
mod recover;
mod replay;
mod request;
mod save_before_overwrite;
mod sync_to_disk;
mod undo;
mod undo_op;
mod write_file;
mod write_images_and_ops;

#[cfg(test)]
mod format_tests;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::BootId;

use content_links::ContentLinks;

pub(crate) use attributes::read as read_attributes;
/// A journal carries out one apply, and has its name.
pub use domain::ApplyId as JournalId;
/// The direction: a journal brings a plan's changes in or takes them out.
pub use domain::ApplyKind as JournalKind;
pub use ending::{JournalEnding, RollbackReason, SettledJournal, StuckJournal};
pub use hooks::{HookPoint, Hooks, JournalStep, Merger, NoHooks};
pub use observe_file::RootMoved;
pub use prepare::{CommittedJournal, OPS_MAX, PrepareError, PreparedJournal};
pub use recover::{JournalRecovery, RecoveredJournal, Seal};
pub use request::{
    Attributes, FileImage, ImageBytes, JournalChange, JournalHeader, JournalPath, JournalRoot, Request,
};
pub use undo::{UndoError, UndoJournal};

const EXTENSION: &str = "journal";

/// The machine's present run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Its id.
    pub id: BootId,
    /// When it started, in seconds of the wall clock.
    pub started_s: i64,
}

impl Boot {
    /// The run that we are in.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn present() -> io::Result<Boot> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let id = text.trim().parse().map_err(io::Error::other)?;
        let wall = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Ok(Boot { id, started_s: wall.tv_sec - up.tv_sec })
    }
}

/// The journals below a data directory.
#[derive(Clone)]
pub struct Journals {
    open_dir: PathBuf,
    undo_dir: PathBuf,
    contents_dir: PathBuf,
    boot: Boot,
    merger: Arc<dyn Merger>,
    hooks: Arc<dyn Hooks>,
}

impl std::fmt::Debug for Journals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journals").field("open_dir", &self.open_dir).finish_non_exhaustive()
    }
}

/// A journal on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedJournal {
    /// Its id.
    pub id: JournalId,
    /// The bytes that go with it: its own, those saved next to it, and contents that nothing else names.
    pub bytes: u64,
}

impl Journals {
    /// The journals in `data_dir`, which has directories for open ones and for those that can be undone.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn open(data_dir: &Path, boot: Boot, merger: Arc<dyn Merger>) -> io::Result<Journals> {
        let [open_dir, undo_dir, contents_dir] =
            ["journal", "undo", "journal-contents"].map(|name| data_dir.join(name));
        for dir in [&open_dir, &undo_dir, &contents_dir] {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        Ok(Journals { open_dir, undo_dir, contents_dir, boot, merger, hooks: Arc::new(NoHooks) })
    }

    /// Returns the same, with hooks that are called at each step.
    #[must_use]
    pub fn with_hooks(self, hooks: Arc<dyn Hooks>) -> Journals {
        Journals { hooks, ..self }
    }

    /// Returns the journals that are not retired yet, the oldest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn open_ids(&self) -> io::Result<Vec<ListedJournal>> {
        self.list(&self.open_dir)
    }

    /// Returns the journals that are not retired yet, the oldest first. An entry that has the name of a
    /// journal and is no file is moved aside. So no process waits for a pipe or follows a link.
    ///
    /// # Errors
    /// The directory cannot be read, or something in it cannot be moved.
    pub fn scan(&self) -> io::Result<JournalListing> {
        let (open, others) = self.list_all(&self.open_dir)?;
        let mut set_aside = Vec::new();
        for path in others {
            let mut aside = path.clone().into_os_string();
            aside.push(".no-file");
            fs::rename(&path, &aside)?;
            set_aside.push(aside.into());
        }
        Ok(JournalListing { open, set_aside })
    }

    /// Returns the retained journals, the oldest first.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn undo_ids(&self) -> io::Result<Vec<ListedJournal>> {
        self.list(&self.undo_dir)
    }

    /// Removes a retained journal and the files saved next to it. One that does not exist is fine.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_undo(&self, id: JournalId) -> io::Result<()> {
        for path in
            save_before_overwrite::found_files(&self.undo_dir, id)?.into_iter().chain([self.undo_path(id)])
        {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        self.links(id).remove()
    }

    /// Removes contents whose journal is gone, because the process that removed it was killed; with `dry_run`
    /// only counts. Returns how many bytes go with them.
    ///
    /// # Errors
    /// A directory cannot be read, or something in it cannot be removed.
    pub fn sweep_contents(&self, dry_run: bool) -> io::Result<u64> {
        let mut bytes = 0;
        for id in content_links::owners(&self.contents_dir)? {
            // In this order: a journal is moved from the open ones to the retained ones, and never back.
            if self.open_path(id).try_exists()? || self.undo_path(id).try_exists()? {
                continue;
            }
            let links = self.links(id);
            bytes += links.own_bytes()?;
            if !dry_run {
                links.remove()?;
            }
        }
        Ok(bytes)
    }

    /// Removes a retained journal that no undo needs any more, unless edits of the user's were saved
    /// next to it.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_spent(&self, id: JournalId) -> io::Result<()> {
        if save_before_overwrite::found_files(&self.undo_dir, id)?.is_empty() {
            self.forget_undo(id)
        } else {
            Ok(())
        }
    }

    fn links(&self, id: JournalId) -> ContentLinks {
        ContentLinks::new(&self.contents_dir, id)
    }

    fn open_path(&self, id: JournalId) -> PathBuf {
        self.open_dir.join(format!("{id}.{EXTENSION}"))
    }

    /// Returns the path of a retained journal: one that can be undone, or one that was abandoned.
    pub fn undo_path(&self, id: JournalId) -> PathBuf {
        self.undo_dir.join(format!("{id}.{EXTENSION}"))
    }
}

/// The journals in the directory of journals.
#[derive(Debug)]
pub struct JournalListing {
    /// The journals that are not retired yet, the oldest first.
    pub open: Vec<ListedJournal>,
    /// The entries that were no files, at their new paths.
    pub set_aside: Vec<PathBuf>,
}

impl Journals {
    /// The journals in a directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<ListedJournal>> {
        self.list_all(dir).map(|(listed, _)| listed)
    }

    /// The journals in a directory, and what has the name of one and is no file. A name that is not ours is
    /// passed over.
    fn list_all(&self, dir: &Path) -> io::Result<(Vec<ListedJournal>, Vec<PathBuf>)> {
        let (mut listed, mut others) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let Some(id) = stem.filter(|_| path.extension().is_some_and(|extension| extension == EXTENSION))
            else {
                continue;
            };
            // Only the form that is printed: an id can be written in lower case too, and that file is not
            // ours.
            let Some(id) = id.parse::<JournalId>().ok().filter(|parsed| parsed.to_string() == id) else {
                continue;
            };
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() => {}
                Ok(_) => {
                    others.push(path);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            let mut bytes = 0;
            for path in save_before_overwrite::found_files(dir, id)?.into_iter().chain([path]) {
                match fs::symlink_metadata(path) {
                    Ok(metadata) => bytes += metadata.len(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            bytes += self.links(id).own_bytes()?;
            listed.push(ListedJournal { id, bytes });
        }
        listed.sort_by_key(|listed| listed.id);
        Ok((listed, others))
    }
}
