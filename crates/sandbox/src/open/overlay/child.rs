//! The process that mounts overlays in namespaces of its own and hands them over as descriptors.
//!
//! No process holds the namespaces afterwards: the engine's descriptors do. When the engine is killed they
//! are closed, and the kernel unmounts.
//!
//! # Invariants
//! 1. Directories are opened after the namespaces are made: the kernel refuses mounts of an older namespace.
//! 2. A path is used only when it leads to the directory that the engine meant.
//! 3. Overlays name their layers by descriptor, so that no character of a path means anything.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::spec::{
    CheckedDir, DirIdentity, MountFailure, MountStep, NamespaceTarget, Overlay, OverlayHandles,
};
use crate::child::single_threaded;

/// Mounts the overlays; the namespaces and the merged roots are held by what is returned.
pub(super) fn mount_all(
    within: &NamespaceTarget<'_>,
    overlays: &[Overlay],
) -> Result<OverlayHandles, MountFailure> {
    let kinds = match within {
        NamespaceTarget::NewMounts => libc::CLONE_NEWNS,
        NamespaceTarget::NewUser => libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
        NamespaceTarget::Mounts(_) | NamespaceTarget::UserAndMounts(..) => 0,
    };
    // Asked here: in the new namespace we have no ids until they are mapped into it.
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mounted = single_threaded::run(kinds, || {
        enter(within, ids)?;
        let roots = mount_each(overlays)?;
        hold(within, roots)
    });
    mounted.unwrap_or_else(|source| {
        Err(MountFailure::at(MountStep::Namespaces)(Errno::from_io_error(&source).unwrap_or(Errno::CHILD)))
    })
}

fn enter(within: &NamespaceTarget<'_>, (uid, gid): (u32, u32)) -> Result<(), MountFailure> {
    match within {
        NamespaceTarget::NewMounts => {}
        NamespaceTarget::NewUser => map_ids(uid, gid).map_err(MountFailure::at(MountStep::MapIds))?,
        NamespaceTarget::Mounts(mounts) => copy_of(*mounts)?,
        NamespaceTarget::UserAndMounts(user, mounts) => {
            join(*user, LinkNameSpaceType::User)?;
            copy_of(*mounts)?;
        }
    }
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(MountFailure::at(MountStep::Private))
}

/// Goes into a copy of this mount namespace.
fn copy_of(mounts: BorrowedFd<'_>) -> Result<(), MountFailure> {
    join(mounts, LinkNameSpaceType::Mount)?;
    // SAFETY: the table of descriptors is not unshared, and the root and working directory are this process's own.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(MountFailure::at(MountStep::Namespaces))
}

fn join(namespace: BorrowedFd<'_>, kind: LinkNameSpaceType) -> Result<(), MountFailure> {
    rustix::thread::move_into_link_name_space(namespace, Some(kind))
        .map_err(MountFailure::at(MountStep::Enter))
}

/// Each id of ours stays what it is; others are not in the namespace at all.
fn map_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    write_to(c"/proc/self/setgroups", "deny")?;
    write_to(c"/proc/self/uid_map", &format!("{uid} {uid} 1"))?;
    write_to(c"/proc/self/gid_map", &format!("{gid} {gid} 1"))
}

fn write_to(path: &CStr, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(|_| ())
}

/// Mounts each and opens it; all layers are reached before the first mount hides anything.
fn mount_each(overlays: &[Overlay]) -> Result<Vec<OwnedFd>, MountFailure> {
    let mut layers = Vec::new();
    for (index, overlay) in overlays.iter().enumerate() {
        let reach = |place: &CheckedDir| reach(place, index);
        if let Some(ids) = &overlay.exchange {
            let lower = reach(&overlay.lower)?;
            super::ownership::mount_exchanged(&lower, &overlay.lower.path, ids.as_fd())
                .map_err(MountFailure::in_overlay(MountStep::Exchange, index))?;
        }
        layers.push([reach(&overlay.lower)?, reach(&overlay.upper)?, reach(&overlay.work)?]);
    }
    let mut merged = Vec::new();
    for (index, (overlay, layers)) in overlays.iter().zip(&layers).enumerate() {
        mount(overlay, layers).map_err(MountFailure::in_overlay(MountStep::Mount, index))?;
        merged.push(open_dir(&overlay.lower).map_err(MountFailure::in_overlay(MountStep::Merged, index))?);
    }
    Ok(merged)
}

fn reach(place: &CheckedDir, overlay: usize) -> Result<OwnedFd, MountFailure> {
    let dir = open_dir(place).map_err(MountFailure::in_overlay(MountStep::Reach, overlay))?;
    let is = DirIdentity::read(&dir).map_err(MountFailure::in_overlay(MountStep::Reach, overlay))?;
    if is == place.is {
        Ok(dir)
    } else {
        Err(MountFailure::in_overlay(MountStep::Elsewhere, overlay)(Errno::STALE))
    }
}

fn open_dir(place: &CheckedDir) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, place.path.as_slice(), flags, Mode::empty())
}

fn mount(overlay: &Overlay, [lower, upper, work]: &[OwnedFd; 3]) -> Result<(), Errno> {
    // `userxattr` for root too, so that there is one format. With it `redirect_dir=off` is refused and `nofollow` does
    // the same: a moved directory is copied. `volatile`: what is in a sandbox is not worth a sync.
    let options = format!(
        "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},\
         userxattr,redirect_dir=nofollow,index=off,metacopy=off,xino=off,volatile",
        lower.as_raw_fd(),
        upper.as_raw_fd(),
        work.as_raw_fd()
    );
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if overlay.read_only {
        flags |= MountFlags::RDONLY;
    }
    let target = overlay.lower.path.as_slice();
    rustix::mount::mount(c"overlay", target, c"overlay", flags, options.as_c_str())
}

fn hold(within: &NamespaceTarget<'_>, roots: Vec<OwnedFd>) -> Result<OverlayHandles, MountFailure> {
    let own = |path: &CStr| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(MountFailure::at(MountStep::HandOver))
    };
    let user = match within {
        NamespaceTarget::NewUser => Some(own(c"/proc/self/ns/user")?),
        // The engine has the user namespace of a layer already.
        NamespaceTarget::NewMounts | NamespaceTarget::Mounts(_) | NamespaceTarget::UserAndMounts(..) => None,
    };
    Ok(OverlayHandles { user, mount: own(c"/proc/self/ns/mnt")?, roots })
}
