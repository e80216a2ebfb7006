//! The requests to the process that mounts overlays, and its answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// The identity of the directory at a path, so that the process can check that the path leads to the same
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirIdentity {
    device: u64,
    inode: u64,
}

impl DirIdentity {
    pub(super) fn read(dir: impl AsFd) -> rustix::io::Result<DirIdentity> {
        let stat = rustix::fs::fstat(dir)?;
        Ok(DirIdentity { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// A directory by its path and by what it is.
#[derive(Debug)]
pub(super) struct CheckedDir {
    pub(super) path: Vec<u8>,
    pub(super) is: DirIdentity,
}

/// One overlay: over `lower`, at its own path.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) lower: CheckedDir,
    pub(super) upper: CheckedDir,
    pub(super) work: CheckedDir,
    pub(super) read_only: bool,
    /// The user namespace in which the project's owner and root are exchanged, if that is another user.
    pub(super) exchange: Option<OwnedFd>,
}

/// The namespaces in which the overlays are mounted.
#[derive(Clone, Copy, Debug)]
pub(super) enum NamespaceTarget<'a> {
    /// In a new mount namespace of a process that may mount.
    NewMounts,
    /// In a new user and mount namespace.
    NewUser,
    /// In a copy of this mount namespace.
    Mounts(BorrowedFd<'a>),
    /// The same, after entering the user namespace that comes before it.
    UserAndMounts(BorrowedFd<'a>, BorrowedFd<'a>),
}

/// Overlays that are mounted: what holds them.
#[derive(Debug)]
pub(super) struct OverlayHandles {
    /// The user namespace, if it is a new one.
    pub(super) user: Option<OwnedFd>,
    pub(super) mount: OwnedFd,
    /// The merged roots, in the order of the overlays.
    pub(super) roots: Vec<OwnedFd>,
}

/// The step at which a mount failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountStep {
    /// Entering the sandbox's namespaces.
    Enter,
    /// Making namespaces.
    Namespaces,
    /// Mapping our ids into the user namespace.
    MapIds,
    /// Keeping our mounts to ourselves.
    Private,
    /// Reaching a directory.
    Reach,
    /// A path led elsewhere than for the engine.
    Elsewhere,
    /// Exchanging the project's owner with root.
    Exchange,
    /// Mounting.
    Mount,
    /// Opening what was mounted.
    Merged,
    /// Opening our own namespaces, to hand them over.
    HandOver,
}

/// A step that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountFailure {
    pub(super) step: MountStep,
    pub(super) errno: i32,
    /// The index of the overlay that it was about.
    pub(super) overlay: Option<usize>,
}

impl MountFailure {
    pub(super) fn at(step: MountStep) -> impl Fn(Errno) -> MountFailure {
        move |errno| MountFailure { step, errno: errno.raw_os_error(), overlay: None }
    }

    pub(super) fn in_overlay(step: MountStep, overlay: usize) -> impl Fn(Errno) -> MountFailure {
        move |errno| MountFailure { step, errno: errno.raw_os_error(), overlay: Some(overlay) }
    }
}
