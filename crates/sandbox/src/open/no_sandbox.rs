//! The strategy `none`: the plan works in the user's own tree. Only where policy says so.
//!
//! # Invariants
//! Content that a command overwrites is lost: only a file that a file tool replaced has a known base. Changes
//! are still reported, by the records at the opening.

use std::os::fd::{AsFd, OwnedFd};

use super::manifest::Manifest;
use crate::fs::beneath::BeneathError;

/// Returns the original itself as the tree to work in, with the manifest of its entries.
pub(crate) fn open(original: &OwnedFd) -> Result<(OwnedFd, Manifest), BeneathError> {
    let manifest = Manifest::of_users(original.as_fd())?;
    let tree = original.try_clone().map_err(|source| crate::open::manifest::at(None, source))?;
    Ok((tree, manifest))
}
