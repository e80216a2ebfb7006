//! The route by which the kernel would send packets to an address.
//!
//! # Invariants
//! 1. The kernel itself is asked, so that routes count like addresses. A machine can answer for whole
//!    networks of which no interface of it has an address.
//! 2. An answer that is not understood counts as a way to this machine.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// The head of every message: length, kind, flags, number, sender.
const HEAD_BYTES: usize = 16;
/// The length of the header of a question about a route, and of its answer.
const ROUTE_BYTES: usize = 12;
/// The offset of the kind of the route in that header.
const ROUTE_KIND_AT: usize = 7;
/// The head of an attribute: its length and what it is.
const ATTRIBUTE_BYTES: usize = 4;
/// An answer is far shorter.
const ANSWER_BYTES_MAX: usize = 8192;

/// Returns whether packets to the address would stay on this machine, or go to all of a link. Nothing is
/// sent.
pub(super) fn leads_to_this_machine(ip: IpAddr) -> bool {
    match kind_of_route(ip.to_canonical()) {
        Ok(kind) => kind != libc::RTN_UNICAST,
        // Without a route nothing is reached.
        Err(error) => !matches!(Errno::from_io_error(&error), Some(Errno::NETUNREACH | Errno::HOSTUNREACH)),
    }
}

/// Asks the kernel for the kind of the route to an address.
fn kind_of_route(ip: IpAddr) -> io::Result<u8> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // A socket without a name and a destination speaks to the kernel.
    send(&socket, &question(ip), SendFlags::empty())?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let (count, _) = rustix::io::retry_on_intr(|| recv(&socket, &mut answer[..], RecvFlags::empty()))?;
    read(&answer[..count])
}

fn question(ip: IpAddr) -> Vec<u8> {
    let (family, octets) = match ip {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or(u8::MAX);
    let mut route = [0; ROUTE_BYTES];
    (route[0], route[1]) = (u8::try_from(family).unwrap_or_default(), bits);
    let attribute_bytes = ATTRIBUTE_BYTES + octets.len();
    let bytes = HEAD_BYTES + ROUTE_BYTES + attribute_bytes;
    let flags = u16::try_from(libc::NLM_F_REQUEST).unwrap_or_default();
    [
        &u32::try_from(bytes).unwrap_or_default().to_ne_bytes()[..],
        &libc::RTM_GETROUTE.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 8],
        &route,
        &u16::try_from(attribute_bytes).unwrap_or_default().to_ne_bytes(),
        &libc::RTA_DST.to_ne_bytes(),
        &octets,
    ]
    .concat()
}

/// The kind of the route in an answer, or the error that the answer is.
fn read(answer: &[u8]) -> io::Result<u8> {
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is not a route");
    let (head, body) = answer.split_at_checked(HEAD_BYTES).ok_or_else(strange)?;
    let kind = u16::from_ne_bytes([head[4], head[5]]);
    if kind == libc::RTM_NEWROUTE {
        return body.get(ROUTE_KIND_AT).copied().ok_or_else(strange);
    }
    match body.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(code) if i32::from(kind) == libc::NLMSG_ERROR && code < 0 => {
            Err(io::Error::from_raw_os_error(-code))
        }
        Some(_) | None => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_knows_its_own_addresses() {
        for own in ["127.0.0.1", "127.7.7.7", "::1", "::ffff:127.0.0.1"] {
            assert!(leads_to_this_machine(own.parse().unwrap()), "{own}");
        }
        assert!(!leads_to_this_machine("198.51.100.1".parse().unwrap()));
    }

    #[test]
    fn an_answer_that_is_not_understood_is_an_error() {
        let message = |kind: u16, body: &[u8]| [&[0; 4], &kind.to_ne_bytes()[..], &[0; 10], body].concat();
        let route = [0, 0, 0, 0, 0, 0, 0, libc::RTN_LOCAL, 0, 0, 0, 0];
        assert_eq!(read(&message(libc::RTM_NEWROUTE, &route)).unwrap(), libc::RTN_LOCAL);
        let unreachable = read(&message(libc::NLMSG_ERROR as u16, &(-libc::ENETUNREACH).to_ne_bytes()));
        assert_eq!(unreachable.unwrap_err().raw_os_error(), Some(libc::ENETUNREACH));
        for answer in [
            Vec::new(),
            message(libc::RTM_NEWROUTE, &route[..7]),
            message(libc::NLMSG_ERROR as u16, &0_i32.to_ne_bytes()),
            message(libc::NLMSG_DONE as u16, &route),
        ] {
            assert_eq!(read(&answer).unwrap_err().kind(), io::ErrorKind::InvalidData, "{answer:?}");
        }
    }
}
