//! The best strategy: an overlay over the live tree, mounted at the project's own path in a namespace of its
//! own.
//!
//! It costs the same whatever the size of the project: nothing is walked. The plan's changes go to an upper
//! directory; the project is the lower one and is only read.
//!
//! # Invariants
//! 1. No process holds the namespace; descriptors of ours do.
//! 2. Nothing is read from the project before it is known to be the directory that was meant.
//! 3. For a command the tree belongs to the user who runs it (`ownership`).
//!
//! # Not here
//! Reading the changes from the upper directory: [`capture`](crate::capture).

mod child;
mod ownership;
mod preconditions;
mod spec;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use spec::{CheckedDir, DirIdentity, MountFailure, MountStep, NamespaceTarget, Overlay, OverlayHandles};

use crate::fs::beneath;

pub(crate) use preconditions::mount_points;

/// A project to be covered.
#[derive(Debug)]
pub(crate) struct OverlayTarget<'a> {
    /// Its path, without links, at which the overlay is mounted.
    pub(crate) path: &'a Path,
    /// The project itself.
    pub(crate) lower: BorrowedFd<'a>,
    /// The directory in which `upper` and `work` are made.
    pub(crate) dir: PathBuf,
    pub(crate) read_only: bool,
}

/// Namespaces that hold overlays.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) user: Option<OwnedFd>,
    pub(crate) mount: OwnedFd,
}

/// Overlays, mounted.
#[derive(Debug)]
pub(crate) struct MountedOverlays {
    pub(crate) namespaces: Namespaces,
    /// The merged root and the upper directory of each, in the order of the covers.
    pub(crate) roots: Vec<(OwnedFd, OwnedFd)>,
}

/// Mounts an overlay over each project; the reason, in words, when that does not work here.
pub(crate) fn mount(covers: &[OverlayTarget<'_>]) -> Result<MountedOverlays, String> {
    let may_mount = may_mount();
    for cover in covers {
        preconditions::of_project(cover.lower, cover.path, !may_mount)?;
    }
    let within = if may_mount { NamespaceTarget::NewMounts } else { NamespaceTarget::NewUser };
    mount_within(covers, &within)
}

/// Mounts a further overlay over each merged root of a sandbox, in a copy of its namespace.
pub(crate) fn mount_over(
    covers: &[OverlayTarget<'_>],
    namespaces: &Namespaces,
) -> Result<MountedOverlays, String> {
    let mount = namespaces.mount.as_fd();
    let within = match &namespaces.user {
        Some(user) => NamespaceTarget::UserAndMounts(user.as_fd(), mount),
        None => NamespaceTarget::Mounts(mount),
    };
    mount_within(covers, &within)
}

fn may_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

fn mount_within(
    covers: &[OverlayTarget<'_>],
    within: &NamespaceTarget<'_>,
) -> Result<MountedOverlays, String> {
    let mut overlays = Vec::new();
    let mut uppers = Vec::new();
    for cover in covers {
        let upper = make_dir(&cover.dir.join("upper"))?;
        let work = make_dir(&cover.dir.join("work"))?;
        preconditions::of_upper(upper.as_fd(), &cover.dir)?;
        let other = ownership::other_owner(cover.lower)
            .and_then(|other| look_like(cover.lower, upper.as_fd(), other.is_some()).map(|()| other))
            .map_err(|errno| format!("{}: {errno}", cover.dir.display()))?;
        let exchange = other.map(ownership::exchanged_with_root).transpose();
        overlays.push(Overlay {
            lower: place(cover.path, cover.lower)?,
            upper: place(&cover.dir.join("upper"), upper.as_fd())?,
            work: place(&cover.dir.join("work"), work.as_fd())?,
            read_only: cover.read_only,
            exchange: exchange.map_err(|source| not_exchanged(cover.path, &source))?,
        });
        uppers.push(upper);
    }
    let OverlayHandles { user, mount, roots } =
        child::mount_all(within, &overlays).map_err(|failed| describe_failure(&failed, covers))?;
    if !roots.iter().all(preconditions::is_overlay) {
        return Err("something other than overlays was mounted".to_owned());
    }
    for cover in covers {
        open_work(&cover.dir);
    }
    let roots = roots.into_iter().zip(uppers).collect();
    Ok(MountedOverlays { namespaces: Namespaces { user, mount }, roots })
}

fn make_dir(path: &Path) -> Result<OwnedFd, String> {
    std::fs::create_dir_all(path)
        .and_then(|()| beneath::open_root(path))
        .map_err(|source| format!("{}: {source}", path.display()))
}

/// Opens the directories that the kernel makes with no permissions. Their owner must be able to remove them
/// whatever becomes of us.
fn open_work(dir: &Path) {
    for made in ["work/work", "work/work/incompat", "work/work/incompat/volatile"] {
        // One that is not there is none that is in the way.
        let _ = rustix::fs::chmod(dir.join(made), Mode::RWXU);
    }
}

fn place(path: &Path, dir: BorrowedFd<'_>) -> Result<CheckedDir, String> {
    let is = DirIdentity::read(dir).map_err(|errno| format!("{}: {errno}", path.display()))?;
    Ok(CheckedDir { path: preconditions::bytes(path), is })
}

fn not_exchanged(path: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{} belongs to another user, whose id cannot be mapped to root here: {why}", path.display())
}

/// Gives the upper directory the owner and the mode of the project, because the merged root shows those of
/// the upper directory. If owners are exchanged, the owner is ours.
fn look_like(project: BorrowedFd<'_>, upper: BorrowedFd<'_>, is_exchanged: bool) -> Result<(), Errno> {
    let (is, wanted) = (rustix::fs::fstat(upper)?, rustix::fs::fstat(project)?);
    if !is_exchanged && (is.st_uid, is.st_gid) != (wanted.st_uid, wanted.st_gid) {
        let (uid, gid) = (Uid::from_raw(wanted.st_uid), Gid::from_raw(wanted.st_gid));
        rustix::fs::chownat(upper, c"", Some(uid), Some(gid), rustix::fs::AtFlags::EMPTY_PATH)?;
    }
    crate::fs::listing::chmod_held(upper, Mode::from_raw_mode(wanted.st_mode & 0o7777))
        .map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))
}

fn describe_failure(failed: &MountFailure, covers: &[OverlayTarget<'_>]) -> String {
    let errno = Errno::from_raw_os_error(failed.errno);
    let cover = failed.overlay.and_then(|index| covers.get(index));
    let path = cover.map_or_else(String::new, |cover| cover.path.display().to_string());
    match failed.step {
        MountStep::Namespaces | MountStep::MapIds => format!("namespaces are not allowed here: {errno}"),
        MountStep::Elsewhere => format!("{path} was replaced by another directory in the meantime"),
        MountStep::Mount
            if errno == Errno::INVAL && cover.is_some_and(|cover| preconditions::is_overlay(cover.lower)) =>
        {
            format!("{path} is on as many nested overlays as the kernel allows")
        }
        MountStep::Mount if matches!(errno, Errno::PERM | Errno::ACCESS) => {
            format!("mounting over {path} is not allowed here: {errno}")
        }
        MountStep::Exchange => not_exchanged(Path::new(&path), &errno),
        MountStep::Mount if errno == Errno::LOOP => format!("the sandbox directory is inside {path}"),
        MountStep::Mount if errno == Errno::NODEV => "this kernel has no overlay file system".to_owned(),
        MountStep::Mount => format!("mounting over {path}: {errno}"),
        MountStep::Reach | MountStep::Merged => format!("{path}: {errno}"),
        MountStep::Enter | MountStep::Private | MountStep::HandOver => format!("{:?}: {errno}", failed.step),
    }
}
