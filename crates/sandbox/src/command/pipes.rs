//! The pipes of a program whose input and output stay with the caller that started it.
//!
//! # Invariants
//! 1. The program's output goes to the caller that started it and nowhere else. The caller writes the part of
//!    the talk that is to be stored to [`PipedStreams::log`]. That becomes the command's standard output, in
//!    the live file and in [`CommandExit`](super::CommandExit), within the same bounds.
//! 2. All else is as with every command: its walls, its time, its death.
//!
//! # Not here
//! The content of the talk.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use domain::RootIndex;

/// The streams of a program whose input and output stay with its starter.
#[derive(Debug)]
pub struct PipedStreams {
    /// The program reads what is written here.
    pub stdin: OwnedFd,
    /// The output of the program.
    pub stdout: OwnedFd,
    /// The log that is stored in the place of its output. The writer is not made to wait, and is
    /// refused once the program is dead.
    pub log: OwnedFd,
    /// The path at which the program sees each project.
    pub roots: Vec<(RootIndex, PathBuf)>,
}

impl PipedStreams {
    /// Returns the path at which the program sees a project.
    pub fn root(&self, no: RootIndex) -> Option<&Path> {
        self.roots.iter().find(|(root, _)| *root == no).map(|(_, path)| path.as_path())
    }
}
