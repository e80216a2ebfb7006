//! The child that mounts overlays in namespaces of its own, hands them over as descriptors, and ends.
//!
//! No process holds the namespaces afterwards: the engine's descriptors do. When the engine is killed they are closed,
//! and the kernel unmounts.
//!
//! # Invariants
//! 1. The process has one thread: it is at the beginning of `main`.
//! 2. Directories are opened after the namespaces are made: the kernel refuses mounts of an older namespace.
//! 3. A path is used only when it leads to the directory that the engine meant.
//! 4. Overlays name their layers by descriptor, so that no character of a path means anything.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::spec::{Answer, Failed, Identity, Overlay, Place, Request, Step, Within};
use crate::fds;

/// Answers the request on standard input and ends the process.
pub(crate) fn child_open() -> ! {
    let socket = rustix::stdio::stdin();
    let (answer, held) = match answer(socket) {
        Ok(held) => (Answer::Opened, held),
        Err(failed) => (Answer::Failed(failed), Vec::new()),
    };
    let borrowed: Vec<BorrowedFd<'_>> = held.iter().map(AsFd::as_fd).collect();
    let sent = serde_json::to_vec(&answer)
        .map_err(std::io::Error::from)
        .and_then(|bytes| fds::send(socket, &bytes, &borrowed));
    std::process::exit(i32::from(sent.is_err()));
}

fn answer(socket: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, Failed> {
    let unreadable = Failed::at(Step::Request);
    let (bytes, namespaces) = fds::receive(socket).map_err(|_| unreadable(Errno::BADMSG))?;
    let request: Request = serde_json::from_slice(&bytes).map_err(|_| unreadable(Errno::BADMSG))?;
    enter(request.within, &namespaces)?;
    drop(namespaces);
    let roots = mount_all(&request.overlays)?;
    hand_over(request.within, roots)
}

fn enter(within: Within, namespaces: &[OwnedFd]) -> Result<(), Failed> {
    let join = |index: usize, kind: LinkNameSpaceType| {
        let namespace = namespaces.get(index).ok_or(Errno::BADF);
        namespace
            .and_then(|namespace| rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)))
            .map_err(Failed::at(Step::Enter))
    };
    match within {
        Within::NewMounts => unshare(UnshareFlags::NEWNS)?,
        Within::NewUser => {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            map_ids(uid, gid).map_err(Failed::at(Step::MapIds))?;
        }
        Within::Mounts => {
            join(0, LinkNameSpaceType::Mount)?;
            unshare(UnshareFlags::NEWNS)?;
        }
        Within::UserAndMounts => {
            join(0, LinkNameSpaceType::User)?;
            join(1, LinkNameSpaceType::Mount)?;
            unshare(UnshareFlags::NEWNS)?;
        }
    }
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Failed::at(Step::Private))
}

fn unshare(flags: UnshareFlags) -> Result<(), Failed> {
    // SAFETY: the table of descriptors is not unshared, and there is no other thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Failed::at(Step::Unshare))
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
fn mount_all(overlays: &[Overlay]) -> Result<Vec<OwnedFd>, Failed> {
    let mut layers = Vec::new();
    for (index, overlay) in overlays.iter().enumerate() {
        let reach = |place: &Place| reach(place, index);
        layers.push([reach(&overlay.lower)?, reach(&overlay.upper)?, reach(&overlay.work)?]);
    }
    let mut merged = Vec::new();
    for (index, (overlay, layers)) in overlays.iter().zip(&layers).enumerate() {
        mount(overlay, layers).map_err(Failed::of(Step::Mount, index))?;
        merged.push(open_dir(&overlay.lower).map_err(Failed::of(Step::Merged, index))?);
    }
    Ok(merged)
}

fn reach(place: &Place, overlay: usize) -> Result<OwnedFd, Failed> {
    let dir = open_dir(place).map_err(Failed::of(Step::Reach, overlay))?;
    let is = Identity::of(&dir).map_err(Failed::of(Step::Reach, overlay))?;
    if is == place.is { Ok(dir) } else { Err(Failed::of(Step::Elsewhere, overlay)(Errno::STALE)) }
}

fn open_dir(place: &Place) -> Result<OwnedFd, Errno> {
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

fn hand_over(within: Within, roots: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Failed> {
    let own = |path: &CStr| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Failed::at(Step::HandOver))
    };
    let mut held = Vec::new();
    match within {
        Within::NewUser => held.push(own(c"/proc/self/ns/user")?),
        // The engine has the user namespace of a layer already.
        Within::NewMounts | Within::Mounts | Within::UserAndMounts => {}
    }
    held.push(own(c"/proc/self/ns/mnt")?);
    held.extend(roots);
    Ok(held)
}
