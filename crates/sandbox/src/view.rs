//! The view of a sandbox that a command runs in.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use domain::RootIndex;
use serde::{Deserialize, Serialize};

/// The tree of one project as the plan sees it.
#[derive(Debug)]
pub struct ViewRoot {
    /// The index of the project.
    pub no: RootIndex,
    /// The project's own path, at which commands see the tree.
    pub path: PathBuf,
    /// The tree itself, opened `O_PATH`: the merged root of an overlay, or the copy.
    pub tree: OwnedFd,
    /// The directory of the copy; `None` for an overlay, which is already mounted at `path` in the view's
    /// namespace.
    pub copy: Option<PathBuf>,
    /// True if nothing may be written below it.
    pub read_only: bool,
}

/// A directory of the user's that a copy reads from, and its second place. It must be mounted there,
/// read-only, when the copy is mounted over the project's own path and so hides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorrowedDir {
    /// The directory.
    #[serde(with = "crate::fs::exact_path")]
    pub from: PathBuf,
    /// An empty directory next to the copy.
    #[serde(with = "crate::fs::exact_path")]
    pub at: PathBuf,
}

impl ViewRoot {
    /// Returns what the copy borrows: the objects of git repositories. Nothing, if the tree is no copy.
    ///
    /// # Errors
    /// Returns an error if the directory next to the copy cannot be read.
    pub fn borrowed(&self) -> io::Result<Vec<BorrowedDir>> {
        let Some(copy) = &self.copy else { return Ok(Vec::new()) };
        let entries = match std::fs::read_dir(copy.with_file_name(crate::open::copy::LENT)) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        let mut borrowed = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "from") {
                borrowed.push(BorrowedDir { from: std::fs::read_link(&path)?, at: path.with_extension("") });
            }
        }
        Ok(borrowed)
    }
}

/// The namespaces and trees of an open sandbox.
#[derive(Debug)]
pub struct SandboxView {
    /// The user namespace that owns the mounts; none when the process could mount without one.
    pub user_namespace: Option<OwnedFd>,
    /// The mount namespace that the overlays are mounted in; none for copies.
    pub mount_namespace: Option<OwnedFd>,
    /// One for each project.
    pub roots: Vec<ViewRoot>,
}
