//! What lay in a copy when it was made: the record of each file, so that what differs later was changed in it.
//!
//! # Invariants
//! The first call begins after the kernel's file clock has passed the making, so no write leaves a record as it was.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::RelPath;

use crate::beneath::BeneathError;
use crate::listing::{Stamp, Unlocked, list, open_dir};

/// The record of each path.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    stamps: BTreeMap<RelPath, Stamp>,
}

impl Manifest {
    /// Of all that lies in a tree of ours, whatever its permissions say.
    pub(crate) fn of(tree: BorrowedFd<'_>) -> Result<Manifest, BeneathError> {
        let mut unlocked = Unlocked::in_tree(tree);
        Manifest::with(|dir| unlocked.open_dir(tree, dir).map(Some))
    }

    /// Of all that we may see in the user's tree.
    pub(crate) fn of_users(tree: BorrowedFd<'_>) -> Result<Manifest, BeneathError> {
        Manifest::with(|dir| match open_dir(tree, dir) {
            Ok(opened) => Ok(Some(opened)),
            Err(BeneathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Ok(None)
            }
            Err(why) => Err(why),
        })
    }

    fn with(
        mut open: impl FnMut(Option<&RelPath>) -> Result<Option<OwnedFd>, BeneathError>,
    ) -> Result<Manifest, BeneathError> {
        let mut stamps = BTreeMap::new();
        let mut dirs = vec![None];
        while let Some(dir) = dirs.pop() {
            let opened = match open(dir.as_ref()) {
                Ok(Some(opened)) => opened,
                Ok(None) => continue,
                Err(why) if why.is_not_found() => continue,
                Err(why) => return Err(why),
            };
            for entry in list(opened.as_fd()).map_err(|source| at(dir.as_ref(), source))? {
                // A path that is too long for a record cannot be captured either.
                let Ok(path) = entry.path(dir.as_ref()) else { continue };
                if entry.kind().is_dir() {
                    dirs.push(Some(path.clone()));
                }
                stamps.insert(path, Stamp::of(&entry.stat));
            }
        }
        Ok(Manifest { stamps })
    }

    pub(crate) fn get(&self, path: &RelPath) -> Option<&Stamp> {
        self.stamps.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RelPath, &Stamp)> {
        self.stamps.iter()
    }
}

/// A failure at a directory; none is the root itself.
pub(crate) fn at(dir: Option<&RelPath>, source: std::io::Error) -> BeneathError {
    let path = dir.cloned().unwrap_or_else(crate::listing::root_path);
    BeneathError::Io { path, source }
}
