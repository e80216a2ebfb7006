//! The inside of a command's own network: a device to the outside, and listeners for the ports that it may
//! reach here.
//!
//! # Invariants
//! 1. It is made in a new network namespace, which holds nothing else.
//! 2. Version 6 is there only where this machine has it, so that no program waits for what cannot be reached.
//!
//! # Not here
//! Carrying what comes out of it: `forwarder`.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::forwarder::destination::{ADDRESS, ADDRESS_6, GATEWAY};
use crate::forwarder::flows::MTU;

/// The file through which devices are made.
const DEVICES: &str = "/dev/net/tun";
/// The name of ours.
const NAME: &[u8] = b"net0";
const TUN_SET_INTERFACE: libc::c_ulong = 0x4004_54ca;
/// Addresses of version 6 that this machine has.
const ADDRESSES_6: &str = "/proc/net/if_inet6";

/// The settings by which programs find who resolves names.
pub(super) fn resolvers() -> String {
    format!("nameserver {GATEWAY}\n")
}

/// Returns whether this machine has an address of version 6 that others can reach. Asked before its network
/// is left.
pub(super) fn has_version_6() -> bool {
    let text = std::fs::read_to_string(ADDRESSES_6).unwrap_or_default();
    // Address, interface, length, scope, flags, name; a scope of 0 is global.
    text.lines().any(|line| line.split_whitespace().nth(3) == Some("00"))
}

/// Opens what devices are made by, while it can be reached.
pub(super) fn open_devices() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(DEVICES, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes the device, with its address and the way out.
pub(super) fn make_device(device: &OwnedFd, has_version_6: bool) -> io::Result<()> {
    let mut request = request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request is whole, named within its bounds, and lives during the call.
    check(unsafe { libc::ioctl(device.as_raw_fd(), TUN_SET_INTERFACE as _, &request) })?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let set = |change: &dyn Fn(&mut libc::ifreq), call: libc::c_ulong| {
        let mut request = self::request();
        change(&mut request);
        // SAFETY: the request is whole, named within its bounds, and lives during the call.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), call as _, &request) })
    };
    set(&|request| request.ifr_ifru.ifru_mtu = i32::try_from(MTU).unwrap_or(1500), libc::SIOCSIFMTU)?;
    set(&|request| request.ifr_ifru.ifru_addr = address(ADDRESS), libc::SIOCSIFADDR)?;
    set(&|request| request.ifr_ifru.ifru_addr = address(Ipv4Addr::BROADCAST), libc::SIOCSIFNETMASK)?;
    set(
        &|request| request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _,
        libc::SIOCSIFFLAGS,
    )?;
    add_route(&socket)?;
    if has_version_6 {
        // A kernel without it has none to be reached either.
        let _ = add_version_6(&socket);
    }
    Ok(())
}

/// Listeners at this port on the command's own loopback.
pub(super) fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let second = TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).ok();
    Ok(std::iter::once(first).chain(second).collect())
}

fn request() -> libc::ifreq {
    // SAFETY: zeros are a request without a name and a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME) {
        *to = *from as libc::c_char;
    }
    request
}

fn address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: zeros are an address without a family, and one of version 4 is as long as a plain one.
    unsafe {
        let mut plain: libc::sockaddr_in = std::mem::zeroed();
        plain.sin_family = libc::AF_INET as libc::sa_family_t;
        plain.sin_addr.s_addr = u32::from(address).to_be();
        std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(plain)
    }
}

/// Everything goes through the device.
fn add_route(socket: &OwnedFd) -> io::Result<()> {
    let mut name = [0 as libc::c_char; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(NAME) {
        *to = *from as libc::c_char;
    }
    // SAFETY: zeros are a route to nowhere; its name and itself live during the call, which only reads them.
    unsafe {
        let mut route: libc::rtentry = std::mem::zeroed();
        route.rt_dst = address(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = address(Ipv4Addr::UNSPECIFIED);
        route.rt_flags = libc::RTF_UP;
        route.rt_dev = name.as_mut_ptr();
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT as _, &route))
    }
}

/// An address of version 6, as the kernel takes it.
#[repr(C)]
struct Address6 {
    address: [u8; 16],
    prefix_len: u32,
    interface: libc::c_int,
}

/// A route of version 6, as the kernel takes it.
#[repr(C)]
struct Route6 {
    destination: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    destination_len: u16,
    source_len: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    interface: libc::c_int,
}

fn add_version_6(socket: &OwnedFd) -> io::Result<()> {
    let mut request = request();
    let socket_6 = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the requests are whole and live during the calls; the first writes the number of the interface,
    // which is then what the union holds.
    unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &mut request))?;
        let interface = request.ifr_ifru.ifru_ifindex;
        let own = Address6 { address: ADDRESS_6.octets(), prefix_len: 128, interface };
        check(libc::ioctl(socket_6.as_raw_fd(), libc::SIOCSIFADDR as _, &own))?;
        let route = Route6 {
            destination: [0; 16],
            source: [0; 16],
            gateway: [0; 16],
            kind: 0,
            destination_len: 0,
            source_len: 0,
            metric: 1,
            info: 0,
            flags: u32::from(libc::RTF_UP),
            interface,
        };
        check(libc::ioctl(socket_6.as_raw_fd(), libc::SIOCADDRT as _, &route))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
