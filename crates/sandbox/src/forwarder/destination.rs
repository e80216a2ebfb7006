//! The destinations that a connection of a command may have.
//!
//! # Invariants
//! 1. Nothing of this machine is reached: neither loopback, nor an address that a route says to be its own,
//!    however it is written.
//! 2. Nothing is reached that only has a meaning on the same link: metadata services of clouds are there.
//! 3. The one exception is the gateway's port for names, which leads to the resolver of this machine.
//!
//! # Not here
//! Asking the kernel where an address leads: `route`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The command's own address.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
/// The address that names are asked for.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// The same where the machine has version 6.
pub(crate) const ADDRESS_6: Ipv6Addr = Ipv6Addr::new(0xfd61, 0x6765, 0x6e74, 0x7300, 0, 0, 0, 2);
pub(super) const GATEWAY_6: Ipv6Addr = Ipv6Addr::new(0xfd61, 0x6765, 0x6e74, 0x7300, 0, 0, 0, 1);
const NAMES_PORT: u16 = 53;

/// The destination of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// Out, to this address.
    Outside(SocketAddr),
    /// To the resolver of this machine.
    Resolver,
    /// Nowhere.
    Refused,
}

/// Judges the address that a command wants to reach.
pub(super) fn judge(wanted: SocketAddr, is_of_this_machine: impl Fn(IpAddr) -> bool) -> Destination {
    if wanted.ip() == IpAddr::V4(GATEWAY) && wanted.port() == NAMES_PORT {
        return Destination::Resolver;
    }
    let all = [Some(wanted.ip()), embedded(wanted.ip()).map(IpAddr::V4)];
    let is_refused = |ip: IpAddr| is_never_outside(ip) || is_of_this_machine(ip);
    if wanted.port() == 0 || all.into_iter().flatten().any(is_refused) {
        return Destination::Refused;
    }
    Destination::Outside(SocketAddr::new(wanted.ip().to_canonical(), wanted.port()))
}

fn is_never_outside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let is_zero_net = ip.octets()[0] == 0;
            let is_ours = [ADDRESS, GATEWAY].contains(&ip);
            ip.is_loopback()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_broadcast()
                || is_zero_net
                || is_ours
        }
        IpAddr::V6(ip) => {
            let is_ours = [ADDRESS_6, GATEWAY_6].contains(&ip);
            let is_site_local = ip.segments()[0] & 0xffc0 == 0xfec0;
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || ip.is_multicast()
                || is_site_local
                || is_ours
        }
    }
}

/// The address of version 4 that one of version 6 embeds: mapped, compatible, translated, tunnelled.
fn embedded(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let (segments, octets) = (ip.segments(), ip.octets());
    let last = Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]);
    let is_mapped = segments[..5] == [0; 5] && (segments[5] == 0xffff || segments[5] == 0);
    let is_translated = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || segments[..3] == [0x64, 0xff9b, 1];
    match segments[0] {
        0x2002 => Some(Ipv4Addr::new(octets[2], octets[3], octets[4], octets[5])),
        _ if is_mapped || is_translated => Some(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(wanted: &str) -> Destination {
        let own: IpAddr = "203.0.113.7".parse().unwrap();
        judge(wanted.parse().unwrap(), |ip| ip == own)
    }

    #[test]
    fn nothing_of_this_machine_or_its_link_is_reached_however_it_is_written() {
        for wanted in [
            "127.0.0.1:80",
            "127.8.9.1:80",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "169.254.169.254:80",
            "224.0.0.251:5353",
            "255.255.255.255:9",
            "203.0.113.7:22",
            "192.0.0.1:80",
            "192.0.0.2:53",
            "198.51.100.1:0",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[fec0::1]:80",
            "[ff02::fb]:5353",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "[::ffff:203.0.113.7]:80",
            "[::7f00:1]:80",
            "[64:ff9b::127.0.0.1]:80",
            "[64:ff9b:1::cb00:7107]:80",
            "[2002:7f00:1::]:80",
            "[fd61:6765:6e74:7300::1]:53",
        ] {
            assert_eq!(judged(wanted), Destination::Refused, "{wanted}");
        }
    }

    #[test]
    fn what_is_outside_is_reached_and_names_are_asked_of_the_resolver() {
        for wanted in ["198.51.100.1:443", "10.1.2.3:80", "192.168.1.1:53", "[2001:db8::1]:443"] {
            assert_eq!(judged(wanted), Destination::Outside(wanted.parse().unwrap()), "{wanted}");
        }
        assert_eq!(
            judged("[::ffff:198.51.100.1]:1"),
            Destination::Outside("198.51.100.1:1".parse().unwrap())
        );
        assert_eq!(judged("192.0.0.1:53"), Destination::Resolver);
    }
}
