//! The backend `namespaces`: the command gets namespaces of its own.
//!
//! # How
//! 1. Enter the user and mount namespace of the sandbox, or make a user namespace where privileges are
//!    missing.
//! 2. Leave all others; fork: the new process is the first of its pid namespace, the reaper.
//! 3. It makes the command's own network, puts the file system together, and starts the command.
//!
//! # Invariants
//! 1. The process that stays outside only waits: when it is reaped, all of the namespace is dead.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::child::{fail, fail_with};
use super::control::{self, ChildOrder, ChildReport, DeliveredOrder, StartFailure};
use super::reaper::{self, Kind};
use super::{exec, holder, layout, mounts, own_network, privileges};
use crate::forwarder::InsideNetwork;

/// Runs the command.
pub(super) fn run(delivered: DeliveredOrder, control: OwnedFd) -> ! {
    let has_version_6 = delivered.order.own_network && own_network::has_version_6();
    if let Err(why) = leave(&delivered) {
        fail(&control, why);
    }
    // The kernel kills the namespace with its first process.
    match holder::fork_holder(Signal::KILL, (delivered, control)) {
        Ok((delivered, control)) => hold(delivered, control, has_version_6),
        Err(((_, control), error)) => fail_with(&control, error.into()),
    }
}

/// Enters the namespaces of the sandbox, if it has any.
pub(super) fn enter(delivered: &DeliveredOrder) -> Result<(), String> {
    let enter = |namespace: &Option<OwnedFd>, kind: LinkNameSpaceType, name: &str| match namespace {
        Some(namespace) => move_into_link_name_space(namespace.as_fd(), Some(kind))
            .map_err(|errno| format!("entering the sandbox's {name} namespace: {errno}")),
        None => Ok(()),
    };
    enter(&delivered.user_namespace, LinkNameSpaceType::User, "user")?;
    enter(&delivered.mount_namespace, LinkNameSpaceType::Mount, "mount")
}

/// Leaves all other namespaces.
fn leave(delivered: &DeliveredOrder) -> Result<(), String> {
    enter(delivered)?;
    if !privileges::can_mount() {
        own_user_namespace()?;
    }
    let mut flags = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if has_namespace(&delivered.order) {
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
fn hold(delivered: DeliveredOrder, control: OwnedFd, has_version_6: bool) -> ! {
    if let Err(why) = make_network(&delivered.order, has_version_6, &control) {
        control::report(&control, &ChildReport::Failed(StartFailure::Network(why)), &[]);
        std::process::exit(1)
    }
    let prepared = reaper::introduce(&control)
        .map_err(|error| format!("pidfd: {error}"))
        .and_then(|()| layout::build(&delivered.order))
        .and_then(|layout| prepare(&delivered, layout));
    let (layout, told) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => fail(&control, why),
    };
    let DeliveredOrder { order, stdio, user_namespace, mount_namespace, trees } = delivered;
    // They lead out of here.
    drop((user_namespace, mount_namespace, trees));
    let start = |tell: std::os::fd::BorrowedFd<'_>| {
        let _ = rustix::io::write(tell, exec::HELLO);
        exec::become_command(&order, &layout, stdio, None)
    };
    reaper::hold(Kind::Namespace, control, &order, told, None, start, || {
        "the command did not begin".to_owned()
    })
}

fn prepare(
    delivered: &DeliveredOrder,
    mut layout: layout::MountLayout,
) -> Result<(layout::MountLayout, reaper::StartNotes), String> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("private mounts: {errno}"))?;
    let told = mounts::build(&delivered.order, &mut layout, &delivered.trees)?;
    Ok((layout, told))
}

/// Returns true if it leaves the network of this machine.
fn has_namespace(order: &ChildOrder) -> bool {
    order.own_network || !order.network
}

/// Makes what there is in a network of the command's own, and hands it over to be carried.
fn make_network(order: &ChildOrder, has_version_6: bool, control: &OwnedFd) -> Result<(), String> {
    if !has_namespace(order) {
        return Ok(());
    }
    wake_loopback().map_err(|error| format!("the loopback device: {error}"))?;
    let mut inside = InsideNetwork { has_device: order.own_network, ports: Vec::new() };
    let mut carried = Vec::<OwnedFd>::new();
    if order.own_network {
        let device = own_network::open_devices().map_err(|error| format!("/dev/net/tun: {error}"))?;
        own_network::make_device(&device, has_version_6).map_err(|error| format!("a device: {error}"))?;
        carried.push(device);
    }
    for port in &order.loopback_ports {
        let listeners = own_network::listen(*port).map_err(|error| format!("port {port}: {error}"))?;
        inside.ports.extend(listeners.iter().map(|_| *port));
        carried.extend(listeners.into_iter().map(OwnedFd::from));
    }
    if !carried.is_empty() {
        let carried: Vec<_> = carried.iter().map(AsFd::as_fd).collect();
        control::report(control, &ChildReport::Network(inside), &carried);
    }
    Ok(())
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
