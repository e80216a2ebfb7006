//! The ends of a program that is spoken to: its input and its output stay with whoever started it.
//!
//! # Invariants
//! 1. What the program prints goes to who started it and nowhere else; what is to be kept of the talk is written to
//!    [`Spoken::log`], and becomes the command's standard output, in the live file and in
//!    [`Ended`](super::Ended), within the same bounds.
//! 2. All else is as with every command: its walls, its time, its death.
//!
//! # Not here
//! What is said.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use domain::RootNo;

/// The ends of a program that is spoken to.
#[derive(Debug)]
pub struct Spoken {
    /// What is written here, the program reads.
    pub stdin: OwnedFd,
    /// What the program prints.
    pub stdout: OwnedFd,
    /// What is written here is kept in the place of its output. Who writes is not made to wait, and is refused once the
    /// program is dead.
    pub log: OwnedFd,
    /// Where the program sees each project.
    pub roots: Vec<(RootNo, PathBuf)>,
}

impl Spoken {
    /// Where the program sees a project.
    pub fn root(&self, no: RootNo) -> Option<&Path> {
        self.roots.iter().find(|(root, _)| *root == no).map(|(_, path)| path.as_path())
    }
}
