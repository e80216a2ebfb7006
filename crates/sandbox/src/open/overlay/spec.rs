//! What is asked of the process that mounts overlays, and what it answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Which directory a path led to, so that the process can tell that it leads to the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(dir: impl AsFd) -> rustix::io::Result<Identity> {
        let stat = rustix::fs::fstat(dir)?;
        Ok(Identity { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// A directory by its path and by what it is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: Vec<u8>,
    pub(super) is: Identity,
}

/// One overlay: over `lower`, at its own path.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) lower: Place,
    pub(super) upper: Place,
    pub(super) work: Place,
    pub(super) read_only: bool,
    /// The user namespace in which the project's owner and root are exchanged, if that is another user.
    pub(super) exchange: Option<OwnedFd>,
}

/// Where the overlays are mounted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Within<'a> {
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
pub(super) struct Held {
    /// The user namespace, if it is a new one.
    pub(super) user: Option<OwnedFd>,
    pub(super) mount: OwnedFd,
    /// The merged roots, in the order of the overlays.
    pub(super) roots: Vec<OwnedFd>,
}

/// At what it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
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
pub(super) struct Failed {
    pub(super) step: Step,
    pub(super) errno: i32,
    /// Which overlay it was about.
    pub(super) overlay: Option<usize>,
}

impl Failed {
    pub(super) fn at(step: Step) -> impl Fn(Errno) -> Failed {
        move |errno| Failed { step, errno: errno.raw_os_error(), overlay: None }
    }

    pub(super) fn of(step: Step, overlay: usize) -> impl Fn(Errno) -> Failed {
        move |errno| Failed { step, errno: errno.raw_os_error(), overlay: Some(overlay) }
    }
}
