//! A packet of the command: its sender and receiver, and the answers that are made to look like the other
//! side's.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpPacket, UdpPacket, UdpRepr};

/// The length of a header of UDP.
const UDP_HEADER_BYTES: usize = 8;
const HOPS: u8 = 64;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowEndpoints {
    /// The command's.
    pub(super) inside: SocketAddr,
    /// The one that it wants to reach.
    pub(super) wanted: SocketAddr,
}

/// The kind of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// The beginning of a connection.
    Syn(FlowEndpoints),
    /// Any other part of one.
    Tcp,
    /// A datagram.
    Udp(FlowEndpoints, &'a [u8]),
    /// Nothing that is carried.
    Other,
}

/// Reads a packet. One that is damaged or in pieces is nothing that is carried.
pub(super) fn read(bytes: &[u8]) -> Packet<'_> {
    read_checked(bytes).unwrap_or(Packet::Other)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum")]
fn read_checked(bytes: &[u8]) -> Option<Packet<'_>> {
    let (from, to, protocol, payload): (IpAddr, IpAddr, IpProtocol, &[u8]) = match bytes.first()? >> 4 {
        4 => {
            let packet = Ipv4Packet::new_checked(bytes).ok()?;
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            let payload = bytes.get(usize::from(packet.header_len())..usize::from(packet.total_len()))?;
            (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), payload)
        }
        6 => {
            let packet = Ipv6Packet::new_checked(bytes).ok()?;
            let payload = bytes.get(packet.header_len()..packet.total_len())?;
            (packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), payload)
        }
        _ => return None,
    };
    let ends = |from_port: u16, to_port: u16| FlowEndpoints {
        inside: SocketAddr::new(from, from_port),
        wanted: SocketAddr::new(to, to_port),
    };
    match protocol {
        IpProtocol::Tcp => {
            let packet = TcpPacket::new_checked(payload).ok()?;
            let is_first = packet.syn() && !packet.ack();
            Some(if is_first { Packet::Syn(ends(packet.src_port(), packet.dst_port())) } else { Packet::Tcp })
        }
        IpProtocol::Udp => {
            let packet = UdpPacket::new_checked(payload).ok()?;
            let data = payload.get(UDP_HEADER_BYTES..usize::from(packet.len()))?;
            Some(Packet::Udp(ends(packet.src_port(), packet.dst_port()), data))
        }
        _ => None,
    }
}

/// The datagram that answers the command, from the address that it asked. `None` if it is too long to be one.
pub(super) fn answer(ends: &FlowEndpoints, data: &[u8]) -> Option<Vec<u8>> {
    let checksums = ChecksumCapabilities::default();
    let payload_len = UDP_HEADER_BYTES + data.len();
    let udp = UdpRepr { src_port: ends.wanted.port(), dst_port: ends.inside.port() };
    let (from, to) = (ends.wanted.ip(), ends.inside.ip());
    if payload_len > usize::from(u16::MAX) - smoltcp::wire::IPV6_HEADER_LEN {
        return None;
    }
    let next_header = IpProtocol::Udp;
    let (mut bytes, header) = match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let ip = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit: HOPS };
            let mut bytes = vec![0; ip.buffer_len() + payload_len];
            ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes), &checksums);
            (bytes, ip.buffer_len())
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let ip = Ipv6Repr { src_addr, dst_addr, next_header, payload_len, hop_limit: HOPS };
            let mut bytes = vec![0; ip.buffer_len() + payload_len];
            ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes));
            (bytes, ip.buffer_len())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    };
    let mut packet = UdpPacket::new_unchecked(&mut bytes[header..]);
    let fill = |payload: &mut [u8]| payload.copy_from_slice(data);
    udp.emit(&mut packet, &from.into(), &to.into(), data.len(), fill, &checksums);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_a_datagram_between_the_same_ends() {
        for (inside, wanted) in
            [("192.0.0.2:4000", "198.51.100.1:53"), ("[2001:db8::2]:4000", "[2001:db8::1]:53")]
        {
            let ends = FlowEndpoints { inside: inside.parse().unwrap(), wanted: wanted.parse().unwrap() };
            let back = FlowEndpoints { inside: ends.wanted, wanted: ends.inside };
            let bytes = answer(&ends, b"hello").unwrap();
            assert_eq!(read(&bytes), Packet::Udp(back, b"hello"));
            assert_eq!(read(&bytes[..bytes.len() - 1]), Packet::Other, "cut off");
        }
        assert_eq!(
            answer(
                &FlowEndpoints { inside: "192.0.0.2:1".parse().unwrap(), wanted: "[::1]:2".parse().unwrap() },
                b""
            ),
            None
        );
    }

    #[test]
    fn what_is_no_packet_is_nothing() {
        for bytes in [&[][..], &[0x45], &[0xff; 40], &[0x60; 39], &[0; 64]] {
            assert_eq!(read(bytes), Packet::Other);
        }
    }
}
