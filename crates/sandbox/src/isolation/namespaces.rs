//! The rung `namespaces`: the command gets namespaces of its own.
//!
//! # How
//! 1. Enter the user and mount namespace of the sandbox, or make a user namespace where privileges are missing.
//! 2. Leave all others; fork: the new process is the first of its pid namespace, the reaper.
//! 3. It puts the file system together, wakes the loopback device, and starts the command.
//!
//! # Invariants
//! 1. The process that stays outside only waits: when it is reaped, all of the namespace is dead.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::WaitOptions;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::child::fail;
use super::control::Delivered;
use super::fork::{Side, fork};
use super::reaper::{self, Kind};
use super::{exec, layout, mounts, privileges};

/// Runs the command.
pub(super) fn run(delivered: Delivered, control: OwnedFd) -> ! {
    if let Err(why) = leave(&delivered) {
        fail(&control, why);
    }
    match fork() {
        Ok(Side::Child) => hold(delivered, control),
        Ok(Side::Parent(first)) => {
            drop((delivered, control));
            // Whatever it answers, there is nothing more to wait for.
            let _ = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(first), WaitOptions::empty()));
            std::process::exit(0)
        }
        Err(error) => fail(&control, format!("fork: {error}")),
    }
}

/// Enters the namespaces of the sandbox, if it has any.
pub(super) fn enter(delivered: &Delivered) -> Result<(), String> {
    let enter = |namespace: &Option<OwnedFd>, kind: LinkNameSpaceType, name: &str| match namespace {
        Some(namespace) => move_into_link_name_space(namespace.as_fd(), Some(kind))
            .map_err(|errno| format!("entering the sandbox's {name} namespace: {errno}")),
        None => Ok(()),
    };
    enter(&delivered.user_namespace, LinkNameSpaceType::User, "user")?;
    enter(&delivered.mount_namespace, LinkNameSpaceType::Mount, "mount")
}

/// Leaves all other namespaces.
fn leave(delivered: &Delivered) -> Result<(), String> {
    enter(delivered)?;
    if !privileges::can_mount() {
        own_user_namespace()?;
    }
    let mut flags = UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if !delivered.order.network {
        flags |= UnshareFlags::NEWNET;
    }
    unshare(flags).map_err(|error| format!("unshare: {error}"))
}

/// A user namespace with this user and this group in it.
fn own_user_namespace() -> Result<(), String> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER).map_err(|error| format!("a user namespace: {error}"))?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the table of file descriptors is not among the flags.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// The first process of the namespace.
fn hold(delivered: Delivered, control: OwnedFd) -> ! {
    let prepared = reaper::introduce(&control)
        .map_err(|error| format!("pidfd: {error}"))
        .and_then(|()| layout::of(&delivered.order))
        .and_then(|layout| prepare(&delivered, layout));
    let (layout, told) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => fail(&control, why),
    };
    let Delivered { order, stdio, user_namespace, mount_namespace, trees } = delivered;
    // They lead out of here.
    drop((user_namespace, mount_namespace, trees));
    let start = |tell: std::os::fd::BorrowedFd<'_>| {
        let _ = rustix::io::write(tell, exec::HELLO);
        exec::become_command(&order, &layout, stdio)
    };
    reaper::hold(Kind::Namespace, control, &order, told, start, || "the command did not begin".to_owned())
}

fn prepare(delivered: &Delivered, layout: layout::Layout) -> Result<(layout::Layout, reaper::Told), String> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("private mounts: {errno}"))?;
    let told = mounts::build(&delivered.order, &layout, &delivered.trees)?;
    if !delivered.order.network {
        wake_loopback().map_err(|error| format!("the loopback device: {error}"))?;
    }
    Ok((layout, told))
}

/// In a new network namespace even the way to oneself is down.
fn wake_loopback() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::os::fd::AsRawFd;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the request is zeroed, named within its bounds, and lives during both calls, which read and write it.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) != 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
