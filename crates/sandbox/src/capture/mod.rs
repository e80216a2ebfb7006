//! Captures the changes in a sandbox from the file system.
//!
//! # How a scan works
//! 1. A walk finds all entries that may differ from the original. In an overlay these are all in the upper
//!    directory (`walk_upper`). In a copy they are those with another record than in the manifest
//!    (`manifest_diff`).
//! 2. Ignored and protected paths are left out and counted (`filter`).
//! 3. At a path that is met for the first time the original is read and its bytes are stored: the base
//!    (`read_state`).
//! 4. The present entry is compared with the one that the scan before found, and hashed only if its record
//!    differs (`classify`).
//!
//! # Invariants
//! 1. Entries of one path form a chain: the state that one scan reports as after, the next reports as before.
//! 2. A scan that fails reports nothing and forgets nothing: the next one finds the same and more. One file
//!    that cannot be read does not fail it.
//! 3. No file is held in memory: contents are streamed into the sink.
//! 4. A scan meets no writer. Only the saving of bases does, and it reads nothing of what is being written.
//!
//! # Not here
//! Numbering and storing the changes.

mod classify;
mod filter;
mod manifest_diff;
mod omissions;
mod read_state;
mod scan_cache;
mod tracked_files;
mod walk_upper;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use domain::{Base, ChangeDraft, ErrorClass, RelPath, RootIndex};

use crate::content::ContentSink;
use crate::fs::beneath::BeneathError;
use crate::fs::listing::{PermissionGuard, is_absent};
use crate::hidden_path_matcher::HiddenPathMatcher;
use crate::open::baseline::OpenTimes;
use crate::open::manifest::Manifest;

pub(crate) use filter::{CaptureFilter, GITIGNORE, PathClass};
pub use filter::{GITIGNORED, ProtectedPaths};
pub use read_state::UNKNOWN_CONTENT;
pub(crate) use read_state::{FileOwner, read_state};
pub(crate) use scan_cache::{ScanCache, ScannedPath};
pub(crate) use tracked_files::TrackedRepository;

/// The most examples that are given of each kind of left-out path.
const EXAMPLES_MAX: usize = 3;

/// The rules that say what is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureRules {
    /// The files that are scratch when new: patterns as in a `.gitignore`, and [`GITIGNORED`] for all that
    /// git ignores.
    pub ignore: Vec<String>,
    /// Paths that no tool writes and no scan captures, in addition to those of version control. They are
    /// patterns as in a `.gitignore`; those with a leading `!` have no effect.
    pub protected: Vec<String>,
    /// The size above which the content of a file is not stored.
    pub max_file_bytes: u64,
}

impl Default for CaptureRules {
    fn default() -> CaptureRules {
        CaptureRules {
            ignore: vec![GITIGNORED.to_owned()],
            protected: Vec::new(),
            max_file_bytes: 1024 << 20,
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedChange {
    /// The project.
    pub root: RootIndex,
    /// The change.
    pub draft: ChangeDraft,
    /// The base: known if its before is what the change was made upon.
    pub base: Base,
    /// True if the content before or after is too large to be stored.
    pub too_large: bool,
}

/// The numbers of files that differ in the sandbox now without being captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncapturedCounts {
    /// Ignored by git or by a rule.
    pub scratch: u64,
    /// In `.git` and the like.
    pub protected: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Files that lost a set-user-id or set-group-id bit.
    pub set_id: u64,
    /// Extended attributes.
    pub attributes: u64,
    /// Names that are hard links.
    pub hard_links: u64,
    /// New files in `.git` and the like; they are among the protected ones.
    pub repository: u64,
    /// Projects whose own directory has another mode.
    pub root_modes: u64,
}

/// The reason that something was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutReason {
    /// Ignored by git or by a rule.
    Scratch,
    /// In `.git` and the like.
    Protected,
    /// A pipe, socket or device, or a path too long to be named.
    Special,
    /// A set-user-id or set-group-id bit that the original does not have.
    SetId,
    /// An extended attribute that the original does not have so.
    Attribute,
    /// That the file is another name of one that is captured.
    HardLink,
    /// A file in `.git` and the like that the original does not have.
    Repository,
    /// The mode of the project's own directory.
    RootMode,
}

/// An example of something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutExample {
    /// The project.
    pub root: RootIndex,
    /// Its path; `None` for the project itself.
    pub path: Option<RelPath>,
    /// The reason.
    pub why: LeftOutReason,
    /// The part left out: the mode, the name of the attribute, the other name; empty where all of it was left
    /// out.
    pub what: String,
}

/// The changes since the scan before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// The changes, by project and path.
    pub drafts: Vec<CapturedChange>,
    /// The counts of what was left out, in the whole sandbox as it is now.
    pub not_captured: UncapturedCounts,
    /// Some of it.
    pub examples: Vec<LeftOutExample>,
    /// True if ignore files have more patterns than are heeded.
    pub patterns_left_out: bool,
}

/// The reason that a scan failed. Nothing was reported, and nothing is lost: it can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The sandbox could not be read.
    #[error("the sandbox cannot be read: {source}")]
    Sandbox {
        /// The cause.
        #[from]
        source: BeneathError,
    },
    /// The user's file could not be read, so what the change was made upon is not known.
    #[error("the original cannot be read: {source}")]
    Original {
        /// The cause.
        source: BeneathError,
    },
    /// A content could not be read to its end, or could not be stored.
    #[error("the content of {path} cannot be stored: {source}")]
    Content {
        /// The path of the file.
        path: RelPath,
        /// The cause.
        source: std::io::Error,
    },
}

impl CaptureError {
    /// Returns the class of the error, which decides on a retry of the same scan.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Sandbox { .. } | Self::Original { .. } => ErrorClass::Permanent,
            Self::Content { .. } => ErrorClass::Transient,
        }
    }
}

/// The place where a scan looks for changes.
#[derive(Debug)]
pub(crate) enum ScanSource {
    /// In the upper directory of an overlay.
    Upper(OwnedFd),
    /// In a copy, by the records it was made with.
    Copy(Manifest),
    /// In the user's own tree, by the records at the opening.
    InPlace(Manifest),
}

/// One project as capture sees it.
#[derive(Debug)]
pub(crate) struct CaptureRoot {
    pub(crate) no: RootIndex,
    /// The project's own path, for the git program.
    pub(crate) path: PathBuf,
    /// The user's tree.
    pub(crate) original: OwnedFd,
    /// The plan's.
    pub(crate) tree: OwnedFd,
    pub(crate) changes: ScanSource,
    pub(crate) memory: ScanCache,
    tracked: TrackedRepository,
}

impl CaptureRoot {
    pub(crate) fn new(
        no: RootIndex,
        path: PathBuf,
        original: OwnedFd,
        tree: OwnedFd,
        changes: ScanSource,
    ) -> CaptureRoot {
        CaptureRoot {
            no,
            tracked: TrackedRepository::new(&path),
            path,
            original,
            tree,
            changes,
            memory: ScanCache::default(),
        }
    }

    /// The owner of the files whose permissions may prevent reading the tree.
    pub(crate) fn whose(&self) -> FileOwner {
        match self.changes {
            ScanSource::Upper(_) | ScanSource::Copy(_) => FileOwner::Plans,
            ScanSource::InPlace(_) => FileOwner::Users,
        }
    }
}

/// The inputs that all parts of a scan share.
#[derive(Clone, Copy)]
pub(crate) struct ScanContext<'a> {
    pub(crate) sink: &'a dyn ContentSink,
    pub(crate) rules: &'a CaptureRules,
    pub(crate) opened: &'a OpenTimes,
    pub(crate) hidden: &'a HiddenPathMatcher,
}

/// The paths that a walk met.
#[derive(Debug, Default)]
struct WalkResult {
    /// The entries that may have changed.
    there: std::collections::BTreeMap<RelPath, WalkEntry>,
    /// The paths at which something was removed.
    gone: std::collections::BTreeSet<RelPath>,
    /// Directories whose originals are hidden: all files that were in them must be looked at.
    hidden: std::collections::BTreeSet<RelPath>,
    /// Paths that are remembered, but are left out now.
    passed: std::collections::BTreeSet<RelPath>,
    left_out: LeftOutCounts,
    patterns_left_out: bool,
}

impl WalkResult {
    fn leave_out(&mut self, why: LeftOutReason, path: &RelPath, memory: &ScanCache) {
        self.left_out.add(why, path);
        if memory.paths.contains_key(path) {
            self.passed.insert(path.clone());
        }
    }
}

/// An entry in the sandbox.
#[derive(Clone, Copy, Debug)]
struct WalkEntry {
    stamp: crate::fs::listing::FileStamp,
    /// True for an empty directory.
    empty: bool,
}

/// The numbers and examples of files left out of one project.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOutCounts {
    counts: UncapturedCounts,
    examples: Vec<(LeftOutReason, Option<RelPath>, String)>,
}

impl LeftOutCounts {
    fn add(&mut self, why: LeftOutReason, path: &RelPath) {
        self.add_part(why, path, "");
    }

    /// One part of a file.
    fn add_part(&mut self, why: LeftOutReason, path: &RelPath, what: &str) {
        self.add_at(why, Some(path), what);
    }

    /// The mode of the project itself.
    fn add_root_mode(&mut self, mode: u16) {
        self.add_at(LeftOutReason::RootMode, None, &format!("{mode:04o}"));
    }

    fn add_at(&mut self, why: LeftOutReason, path: Option<&RelPath>, what: &str) {
        match why {
            LeftOutReason::Scratch => self.counts.scratch += 1,
            LeftOutReason::Protected => self.counts.protected += 1,
            LeftOutReason::Special => self.counts.special += 1,
            LeftOutReason::SetId => self.counts.set_id += 1,
            LeftOutReason::Attribute => self.counts.attributes += 1,
            LeftOutReason::HardLink => self.counts.hard_links += 1,
            LeftOutReason::Repository => self.counts.repository += 1,
            LeftOutReason::RootMode => self.counts.root_modes += 1,
        }
        self.example(why, path, what);
    }

    fn example(&mut self, why: LeftOutReason, path: Option<&RelPath>, what: &str) {
        if self.examples.iter().filter(|(kind, ..)| *kind == why).count() < EXAMPLES_MAX {
            self.examples.push((why, path.cloned(), what.to_owned()));
        }
    }

    fn join(&mut self, other: &LeftOutCounts) {
        self.counts.scratch += other.counts.scratch;
        self.counts.protected += other.counts.protected;
        self.counts.special += other.counts.special;
        self.counts.set_id += other.counts.set_id;
        self.counts.attributes += other.counts.attributes;
        self.counts.hard_links += other.counts.hard_links;
        self.counts.repository += other.counts.repository;
        self.counts.root_modes += other.counts.root_modes;
        for (why, path, what) in &other.examples {
            self.example(*why, path.as_ref(), what);
        }
    }
}

/// Reports the changes in these projects since the scan before.
pub(crate) fn scan(roots: &mut [CaptureRoot], scan: ScanContext<'_>) -> Result<CaptureReport, CaptureError> {
    let mut captured = CaptureReport::default();
    let mut told = Vec::new();
    let mut tally = LeftOutCounts::default();
    for root in roots.iter_mut() {
        let found = classify::classify(root, scan)?;
        captured.patterns_left_out |= found.patterns_left_out;
        tally.join(&found.left_out);
        for (why, path, what) in &found.left_out.examples {
            let (path, what) = (path.clone(), what.clone());
            captured.examples.push(LeftOutExample { root: root.no, path, why: *why, what });
        }
        told.push(found);
    }
    captured.not_captured = tally.counts;
    for (root, found) in roots.iter_mut().zip(told) {
        captured.drafts.extend(found.settle(root, scan.rules));
    }
    Ok(captured)
}

/// Saves the bases of the files that have changed so far, while they are still being changed. Reports
/// nothing.
pub(crate) fn save_bases(roots: &mut [CaptureRoot], scan: ScanContext<'_>) -> Result<(), CaptureError> {
    for root in roots {
        classify::save_bases(root, scan)?;
    }
    Ok(())
}

/// The way in which a walk opens a directory.
enum DirAccess<'a, 'u> {
    /// Whatever its permissions say.
    Unlocking(&'a mut PermissionGuard<'u>),
    /// As its permissions allow: a command is at work, and must not find them changed.
    Passing,
}

impl DirAccess<'_, '_> {
    /// None, when it is gone or must be passed by.
    fn open_dir(
        &mut self,
        root: BorrowedFd<'_>,
        dir: Option<&RelPath>,
    ) -> Result<Option<OwnedFd>, CaptureError> {
        let (opened, passing) = match self {
            DirAccess::Unlocking(unlocked) => (unlocked.open_dir(root, dir), false),
            DirAccess::Passing => (crate::fs::listing::open_dir(root, dir), true),
        };
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(why) if passing || is_absent(&why) => Ok(None),
            Err(why) => Err(why.into()),
        }
    }
}

/// Walks one project.
fn walk(
    root: &CaptureRoot,
    filter: &mut CaptureFilter<'_>,
    opening: &mut DirAccess<'_, '_>,
) -> Result<WalkResult, CaptureError> {
    match &root.changes {
        ScanSource::Upper(upper) => walk_upper::walk(root, upper, filter, opening),
        ScanSource::Copy(manifest) | ScanSource::InPlace(manifest) => {
            manifest_diff::walk(root, manifest, filter, opening)
        }
    }
}
