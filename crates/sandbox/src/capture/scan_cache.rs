//! The facts about a path that capture stores between scans.

use std::collections::BTreeMap;

use domain::{Base, FileState, Kind, RelPath};

use super::LeftOutCounts;
use crate::fs::listing::FileStamp;

/// A path that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScannedPath {
    /// The state in the user's tree.
    pub(crate) origin: Option<FileState>,
    /// The base: says whether that is the state that the plan saw.
    pub(crate) base: Base,
    /// The state in the plan's tree at the last scan; before the first, the origin.
    pub(crate) last: Option<FileState>,
    /// The record of that, when it can be trusted to differ after another write.
    pub(crate) stamp: Option<FileStamp>,
    /// Names of extended attributes that were set, and are left out.
    pub(crate) attributes: Vec<String>,
    /// True if a change was ever reported: from then on all of them are, whatever is ignored later.
    pub(crate) reported: bool,
}

impl ScannedPath {
    /// Met for the first time.
    pub(crate) fn first(origin: Option<FileState>, base: Base) -> ScannedPath {
        ScannedPath { origin, base, last: origin, stamp: None, attributes: Vec::new(), reported: false }
    }

    pub(super) fn was_dir(&self) -> bool {
        self.origin.is_some_and(|origin| origin.kind == Kind::Dir)
    }
}

/// The scanned paths of one project.
#[derive(Debug, Default)]
pub(crate) struct ScanCache {
    pub(crate) paths: BTreeMap<RelPath, ScannedPath>,
    /// Directories of the original below which every path was met, and what was left out there.
    pub(super) expanded: BTreeMap<RelPath, LeftOutCounts>,
}

impl ScanCache {
    pub(super) fn was_reported(&self, path: &RelPath) -> bool {
        self.paths.get(path).is_some_and(|seen| seen.reported)
    }
}
