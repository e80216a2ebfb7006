//! The strategy `none`: the plan works in the user's own tree. Only where policy says so.
//!
//! # Invariants
//! What a command overwrites is lost: only what a file tool replaced has a known base. What changed is still
//! told, by the records at the opening.

use std::os::fd::{AsFd, OwnedFd};

use super::manifest::Manifest;
use crate::fs::beneath::BeneathError;

/// The tree to work in is the original itself; with what lies in it.
pub(crate) fn open(original: &OwnedFd) -> Result<(OwnedFd, Manifest), BeneathError> {
    let manifest = Manifest::of_users(original.as_fd())?;
    let tree = original.try_clone().map_err(|source| crate::open::manifest::at(None, source))?;
    Ok((tree, manifest))
}
