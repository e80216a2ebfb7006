//! A throw-away overlay over a sandbox: a command in it sees the plan's tree, and its writes are gone
//! afterwards.
//!
//! # Invariants
//! 1. Nothing written in a layer reaches the sandbox, so nothing of it is ever captured.
//! 2. A layer is gone when it is dropped; with its sandbox at the latest.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use domain::RootIndex;

use crate::open::overlay::Namespaces;
use crate::view::{SandboxView, ViewRoot};

/// The reason that no layer was opened.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// None can be had here: what runs must run in the sandbox, and what it changes must be put back.
    #[error("no layer can be opened over this sandbox: {why}")]
    Unavailable {
        /// In words.
        why: String,
    },
}

/// The tree of one project in a layer.
#[derive(Debug)]
pub(crate) struct LayerRoot {
    pub(crate) no: RootIndex,
    pub(crate) path: PathBuf,
    pub(crate) tree: OwnedFd,
    pub(crate) read_only: bool,
}

/// An open layer.
#[derive(Debug)]
pub struct Layer {
    dir: PathBuf,
    namespaces: Namespaces,
    roots: Vec<LayerRoot>,
}

impl Layer {
    pub(crate) fn new(dir: PathBuf, namespaces: Namespaces, roots: Vec<LayerRoot>) -> Layer {
        Layer { dir, namespaces, roots }
    }

    /// The tree of a project as it is seen in the layer.
    pub fn root(&self, no: RootIndex) -> Option<BorrowedFd<'_>> {
        self.roots.iter().find(|root| root.no == no).map(|root| root.tree.as_fd())
    }

    /// Returns the view that a command needs to run in it.
    ///
    /// # Errors
    /// There are no more descriptors to be had.
    pub fn view(&self) -> io::Result<SandboxView> {
        let roots = self.roots.iter().map(|root| {
            Ok(ViewRoot {
                no: root.no,
                path: root.path.clone(),
                tree: root.tree.try_clone()?,
                copy: None,
                read_only: root.read_only,
            })
        });
        Ok(SandboxView {
            user_namespace: self.namespaces.user.as_ref().map(OwnedFd::try_clone).transpose()?,
            mount_namespace: Some(self.namespaces.mount.try_clone()?),
            roots: roots.collect::<io::Result<_>>()?,
        })
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // If it cannot be removed now, it is removed with the sandbox.
        let _ = remove_dir(&self.dir);
    }
}

/// Removes a directory of ours by its path.
pub(crate) fn remove_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let name = std::ffi::CString::new(name.as_bytes())?;
    crate::fs::remove::remove_tree(crate::fs::beneath::open_root(parent)?.as_fd(), &name)
}
