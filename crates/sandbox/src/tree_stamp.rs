//! Compares the user's tree with its state when a sandbox was opened over it.
//!
//! A [`TreeStamp`] names the moment of the opening. From then on the kernel stamps every changed file with a
//! later time. So one walk that compares times finds all changes, and reads no content.
//!
//! # Invariants
//! 1. A tree that moved is never called unmoved. A changed file has a later change time. If a file is removed
//!    or moved, the directory that it was in has one.
//! 2. A tree may be called moved although every file is as it was. A file may have been touched, or a name
//!    may have come into a directory and left it again.
//! 3. Files that git or the rules ignore do not count, and neither do version control's own files. A
//!    directory that an ignored name came into, or left, is distinguished: a counted file may have left it
//!    too.
//! 4. In another boot, over other directories, or after the clock was set back, nothing is known.
//!
//! # Not here
//! The consequences: the engine runs checks again, or says that the tree changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use domain::{RelPath, RootIndex};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

use crate::capture::{CaptureRules, TrackedRepository};
use crate::fs::beneath;
use crate::open::baseline::{OpenTimes, OpenTimesRecord, Timestamp};
use crate::open::identity;
use crate::open::lock_record::boot_id;
use crate::project_tree::{ProjectTree, TreeEntry, WalkRules, WalkStopCheck};

/// The most places that are named; of more, only the number is reported.
const PLACES_MAX: usize = 200;

/// The trees of some projects at the moment when a sandbox was opened over them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeStamp {
    opened: OpenTimesRecord,
    boot: String,
    /// Device and inode of each project.
    roots: Vec<(u64, u64)>,
}

/// The parameters of a comparison of trees with a stamp.
#[derive(Clone, Copy, Debug)]
pub struct TreeComparison<'a> {
    /// The projects, in the order of the stamp.
    pub roots: &'a [PathBuf],
    /// The rules for ignored files.
    pub rules: &'a CaptureRules,
    /// Directories that belong to the program, wherever they are.
    pub leave_out: &'a [PathBuf],
    /// True if git is asked what it tracks, so that a tracked file counts although it is ignored.
    pub asks_git: bool,
    /// After so many entries the comparison ends, and is not whole.
    pub entries_max: usize,
}

/// The changes in trees since a stamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeMoves {
    /// Files, links and directories that changed, came or left, in order; a directory from which something
    /// left is named for what is not named itself. `None` is the project's own directory.
    pub places: Vec<(RootIndex, Option<RelPath>)>,
    /// The number of further ones.
    pub more: usize,
    /// True if a directory may have lost a counted file: an ignored name came into it or left it.
    pub is_unsure: bool,
    /// True if all files were looked at, and their times are reliable.
    pub is_whole: bool,
}

impl TreeMoves {
    /// Nothing is known.
    fn unknown() -> TreeMoves {
        TreeMoves::default()
    }

    /// Returns true if the trees are certainly as they were.
    pub fn is_none(&self) -> bool {
        self.is_whole && !self.is_unsure && self.places.is_empty() && self.more == 0
    }

    fn name(&mut self, root: RootIndex, path: Option<RelPath>) {
        match self.places.len() < PLACES_MAX {
            true => self.places.push((root, path)),
            false => self.more += 1,
        }
    }
}

impl TreeStamp {
    pub(crate) fn new(opened: &OpenTimes, roots: Vec<(u64, u64)>) -> std::io::Result<TreeStamp> {
        Ok(TreeStamp { opened: opened.record(), boot: boot_id()?, roots })
    }

    /// The wall clock's milliseconds at the opening.
    pub fn at_ms(&self) -> u64 {
        OpenTimes::from_record(self.opened, false).at_ms()
    }

    /// Compares the trees with the stamp.
    pub fn compare(&self, how: &TreeComparison<'_>, is_over: &WalkStopCheck<'_>) -> TreeMoves {
        let opened = OpenTimes::from_record(self.opened, boot_id().is_ok_and(|boot| boot == self.boot));
        if opened.clock_was_set_back() || how.roots.len() != self.roots.len() {
            return TreeMoves::unknown();
        }
        let leave_out: Vec<(u64, u64)> = how
            .leave_out
            .iter()
            .filter_map(|dir| beneath::open_root(dir).and_then(|dir| identity(&dir)).ok())
            .collect();
        let mut moves = TreeMoves { is_whole: true, ..TreeMoves::default() };
        let mut left = how.entries_max;
        for ((path, known), no) in how.roots.iter().zip(&self.roots).zip(0..) {
            let found =
                beneath::open_root(path).and_then(|root| Ok((identity(&root)?, rustix::fs::fstat(&root)?)));
            let Some((_, stat)) = found.ok().filter(|(found, _)| found == known) else {
                return TreeMoves::unknown();
            };
            let mut look = TreeCheck::new(&opened, RootIndex(no), &stat);
            let mut tracked = TrackedRepository::new(path);
            let rules = WalkRules { rules: how.rules, asks_git: how.asks_git, leave_out: &leave_out };
            let walked = ProjectTree::open(path).and_then(|tree| {
                tree.walk_entries(&mut tracked, rules, is_over, &mut |met| {
                    left = left.saturating_sub(1);
                    look.meet(met, &mut moves);
                    left > 0
                })
            });
            moves.is_whole &= walked.is_ok_and(|end| end.is_complete) && !opened.clock_was_set_back();
            if how.asks_git && look.has_unsure() {
                // Answered from what git said, if it was asked for an ignored entry already.
                moves.is_whole &= tracked.ask(is_over);
            }
            look.end(&tracked, &mut moves);
        }
        moves
    }
}

/// A look at the tree of one project.
struct TreeCheck<'a> {
    opened: &'a OpenTimes,
    no: RootIndex,
    /// Directories whose names changed, with what is in them now.
    written: BTreeMap<Option<RelPath>, ChangedDir>,
}

/// A directory whose names changed.
#[derive(Default)]
struct ChangedDir {
    names: BTreeSet<RelPath>,
    /// A counted entry is later than the opening, so something is named already.
    is_named: bool,
    /// An ignored entry is later than the opening: it may be all that came.
    has_ignored: bool,
}

impl ChangedDir {
    fn is_unsure(&self) -> bool {
        self.has_ignored && !self.is_named
    }
}

impl TreeCheck<'_> {
    fn new<'a>(opened: &'a OpenTimes, no: RootIndex, root: &Stat) -> TreeCheck<'a> {
        let mut written = BTreeMap::new();
        if opened.is_before(Timestamp::modified(root)) {
            written.insert(None, ChangedDir::default());
        }
        TreeCheck { opened, no, written }
    }

    fn meet(&mut self, met: TreeEntry<'_>, moves: &mut TreeMoves) {
        let is_later = self.opened.is_before(Timestamp::changed(met.stat));
        let has_new_names =
            met.kind == FileType::Directory && self.opened.is_before(Timestamp::modified(met.stat));
        if let Some(dir) = self.written.get_mut(&met.path.parent()) {
            dir.names.insert(met.path.clone());
            dir.is_named |= is_later && met.counts;
            dir.has_ignored |= is_later && !met.counts;
        }
        match (met.counts, has_new_names) {
            (false, _) => {}
            (true, true) => {
                self.written.insert(Some(met.path), ChangedDir::default());
            }
            // Its mode changed, or it was put here.
            (true, false) if is_later => moves.name(self.no, Some(met.path)),
            (true, false) => {}
        }
    }

    fn has_unsure(&self) -> bool {
        self.written.values().any(ChangedDir::is_unsure)
    }

    /// Names what is known of directories whose names changed.
    fn end(self, tracked: &TrackedRepository, moves: &mut TreeMoves) {
        for (path, dir) in self.written {
            if dir.is_named {
                continue;
            }
            if !dir.has_ignored {
                moves.name(self.no, path);
                continue;
            }
            moves.is_unsure = true;
            for gone in tracked.missing_from(path.as_ref(), &dir.names) {
                moves.name(self.no, Some(gone));
            }
        }
        moves.places.sort();
    }
}
