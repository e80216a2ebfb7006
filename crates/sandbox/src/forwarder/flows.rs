//! The flows of a command, carried between its device and sockets of this machine.
//!
//! # How
//! A connection is made outside first. Only then does the stack answer the command's first packet, so that a
//! refusal out there is a refusal inside. Datagrams are taken out of their packets and put into new ones. All
//! of it is one loop that waits until a flow can continue.
//!
//! # Invariants
//! 1. Bytes wait in the buffers of the stack and of the kernel, nowhere else: each flow costs a bounded
//!    amount.
//! 2. An address is judged when its flow begins, and nothing is connected to that was refused.
//! 3. The loop ends when the device or the lifeline is gone.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpListenEndpoint};

use super::destination::{self, Destination, GATEWAY, GATEWAY_6};
use super::packet::{self, FlowEndpoints, Packet};
use super::route;

/// The longest packet of the device.
pub(crate) const MTU: usize = 16_000;
/// The number of packets that are read before anything else is looked at.
const PACKETS_AT_ONCE_MAX: usize = 64;
/// The limit of connections, and of exchanges of datagrams, at once.
const FLOWS_MAX: usize = 256;
/// The number of bytes of a connection that wait in each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// After how long without a byte a connection is given up.
const IDLE_TCP: Duration = Duration::from_secs(30 * 60);
/// The same for datagrams.
const IDLE_UDP: Duration = Duration::from_secs(60);
/// The time limit for a new connection outside.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);
/// The interval of the search for idle flows.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The longest datagram.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
const NAMES_PORT: u16 = 53;
/// The file that names the resolvers of this machine.
const RESOLVERS: &str = "/etc/resolv.conf";

/// The device of the command, as the stack takes it.
struct Tun {
    device: OwnedFd,
    /// The packets that were read and go through the stack.
    waiting: VecDeque<Vec<u8>>,
}

struct ReceivedPacket(Vec<u8>);

impl RxToken for ReceivedPacket {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

struct PacketSender<'a>(BorrowedFd<'a>);

impl TxToken for PacketSender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut bytes = vec![0; len];
        let filled = fill(&mut bytes);
        // A packet that finds no room is lost, as on any network.
        let _ = rustix::io::write(self.0, &bytes);
        filled
    }
}

impl Device for Tun {
    type RxToken<'a> = ReceivedPacket;
    type TxToken<'a> = PacketSender<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(ReceivedPacket, PacketSender<'_>)> {
        let next = self.waiting.pop_front()?;
        Some((ReceivedPacket(next), PacketSender(self.device.as_fd())))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<PacketSender<'_>> {
        Some(PacketSender(self.device.as_fd()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// A connection.
struct TcpFlow {
    outside: OwnedFd,
    stage: ConnectionState,
    used: Instant,
}

enum ConnectionState {
    /// The other side has not answered yet; the packet that began it waits.
    Connecting { first: Vec<u8> },
    /// Bytes go to and fro.
    Open { handle: SocketHandle, has_outside_ended: bool, has_inside_ended: bool },
}

/// An exchange of datagrams.
struct DatagramFlow {
    outside: OwnedFd,
    used: Instant,
}

/// All flows of a command.
pub(super) struct Flows {
    tun: Tun,
    stack: Interface,
    sockets: SocketSet<'static>,
    connections: HashMap<FlowEndpoints, TcpFlow>,
    exchanges: HashMap<FlowEndpoints, DatagramFlow>,
    began: Instant,
    looked: Instant,
}

impl Flows {
    /// The flows of the command with this device.
    ///
    /// # Errors
    /// The device cannot be used.
    pub(super) fn new(device: OwnedFd) -> io::Result<Flows> {
        rustix::io::ioctl_fionbio(&device, true)?;
        let mut tun = Tun { device, waiting: VecDeque::new() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = RandomState::new().build_hasher().finish();
        let mut stack = Interface::new(config, &mut tun, smoltcp::time::Instant::ZERO);
        stack.update_ip_addrs(|addresses| {
            // There is room for both.
            let _ = addresses.push(IpCidr::new(GATEWAY.into(), 32));
            let _ = addresses.push(IpCidr::new(GATEWAY_6.into(), 128));
        });
        stack.set_any_ip(true);
        let routes = stack.routes_mut();
        let added = routes.add_default_ipv4_route(GATEWAY).is_ok()
            && routes.add_default_ipv6_route(GATEWAY_6).is_ok();
        if !added {
            return Err(io::Error::other("the stack cannot hold another route"));
        }
        let now = Instant::now();
        Ok(Flows {
            tun,
            stack,
            sockets: SocketSet::new(Vec::new()),
            connections: HashMap::new(),
            exchanges: HashMap::new(),
            began: now,
            looked: now,
        })
    }

    /// Carries until the device or the lifeline is gone.
    pub(super) fn carry(&mut self, lifeline: BorrowedFd<'_>) {
        loop {
            let Some(ready) = self.wait(lifeline) else { return };
            if ready.is_device && !self.read_device() {
                return;
            }
            for ends in ready.exchanges {
                self.bring_in(&ends);
            }
            let connecting: Vec<FlowEndpoints> = ready.connections;
            for ends in &connecting {
                self.settle(ends);
            }
            self.work_stack();
            self.move_bytes();
            self.work_stack();
            self.forget_idle();
        }
    }

    /// Waits until a flow can continue; `None` when it is over.
    fn wait(&mut self, lifeline: BorrowedFd<'_>) -> Option<ReadyFlows> {
        let now = self.now();
        let delay = self
            .stack
            .poll_delay(now, &self.sockets)
            .map(|delay| Duration::from_micros(delay.total_micros()));
        let limit = delay.unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
        let limit = Timespec::try_from(limit).ok();
        let mut fds = vec![
            PollFd::new(&self.tun.device, PollFlags::IN),
            PollFd::from_borrowed_fd(lifeline, PollFlags::IN),
        ];
        let mut of_connections = Vec::new();
        for (ends, connection) in &self.connections {
            let flags = wanted(connection, &self.sockets);
            if !flags.is_empty() {
                of_connections.push(*ends);
                fds.push(PollFd::new(&connection.outside, flags));
            }
        }
        let of_exchanges: Vec<FlowEndpoints> = self.exchanges.keys().copied().collect();
        for ends in &of_exchanges {
            fds.extend(
                self.exchanges.get(ends).map(|exchange| PollFd::new(&exchange.outside, PollFlags::IN)),
            );
        }
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let is_device_gone = fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        if is_ready[1] || is_device_gone {
            return None;
        }
        let (rest, at) = (&is_ready[2..], of_connections.len());
        let pick = |all: Vec<FlowEndpoints>, ready: &[bool]| {
            all.into_iter().zip(ready).filter(|(_, ready)| **ready).map(|(ends, _)| ends).collect()
        };
        Some(ReadyFlows {
            is_device: is_ready[0],
            connections: pick(of_connections, &rest[..at]),
            exchanges: pick(of_exchanges, &rest[at..]),
        })
    }

    fn now(&self) -> smoltcp::time::Instant {
        smoltcp::time::Instant::from_micros(
            i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX),
        )
    }

    fn work_stack(&mut self) {
        let now = self.now();
        let _ = self.stack.poll(now, &mut self.tun, &mut self.sockets);
    }

    /// Takes packets of the command; whether there is a device to take them from.
    fn read_device(&mut self) -> bool {
        let mut bytes = vec![0; MTU];
        for _ in 0..PACKETS_AT_ONCE_MAX {
            match rustix::io::read(&self.tun.device, &mut bytes) {
                Ok(0) => return false,
                Ok(length) => self.take(&bytes[..length]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8]) {
        match packet::read(bytes) {
            Packet::Syn(ends) => self.begin(ends, bytes),
            Packet::Tcp => self.tun.waiting.push_back(bytes.to_vec()),
            Packet::Udp(ends, data) => self.send_out(ends, data, bytes),
            Packet::Other => {}
        }
    }

    /// Begins a connection outside. The stack refuses an address that may not be reached, and a connection
    /// beyond the bound.
    fn begin(&mut self, ends: FlowEndpoints, first: &[u8]) {
        match self.connections.get(&ends).map(|connection| &connection.stage) {
            Some(ConnectionState::Connecting { .. }) => return,
            Some(ConnectionState::Open { .. }) => return self.tun.waiting.push_back(first.to_vec()),
            None => {}
        }
        let outside = target(ends.wanted)
            .filter(|_| self.connections.len() < FLOWS_MAX)
            .and_then(|target| connect(target, SocketType::STREAM).ok());
        match outside {
            Some(outside) => {
                let stage = ConnectionState::Connecting { first: first.to_vec() };
                self.connections.insert(ends, TcpFlow { outside, stage, used: Instant::now() });
            }
            None => self.tun.waiting.push_back(first.to_vec()),
        }
    }

    /// Lets the stack answer a connection that was made, or refuse one that was not.
    fn settle(&mut self, ends: &FlowEndpoints) {
        let Some(connection) = self.connections.get_mut(ends) else { return };
        let ConnectionState::Connecting { first } = &mut connection.stage else { return };
        let first = std::mem::take(first);
        let is_made = matches!(rustix::net::sockopt::socket_error(&connection.outside), Ok(Ok(())));
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        let at = IpListenEndpoint { addr: Some(IpAddress::from(ends.wanted.ip())), port: ends.wanted.port() };
        if is_made && socket.listen(at).is_ok() {
            let handle = self.sockets.add(socket);
            connection.stage =
                ConnectionState::Open { handle, has_outside_ended: false, has_inside_ended: false };
            connection.used = Instant::now();
        } else {
            self.connections.remove(ends);
        }
        self.tun.waiting.push_back(first);
        // At once: the next one may want the same address.
        self.work_stack();
    }

    /// Moves what can be moved, and lets go of what has ended.
    fn move_bytes(&mut self) {
        let mut over = Vec::new();
        for (ends, connection) in &mut self.connections {
            let ConnectionState::Open { handle, has_outside_ended, has_inside_ended } = &mut connection.stage
            else {
                continue;
            };
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(*handle);
            let moved = out_of(socket, &connection.outside).and_then(|out| {
                Ok((
                    out,
                    if *has_outside_ended {
                        TransferResult::Nothing
                    } else {
                        into(socket, &connection.outside)?
                    },
                ))
            });
            match moved {
                Ok((out, back)) => {
                    if out == TransferResult::Some || back == TransferResult::Some {
                        connection.used = Instant::now();
                    }
                    if back == TransferResult::End {
                        *has_outside_ended = true;
                        socket.close();
                    }
                    let is_read_out = !socket.may_recv()
                        && socket.recv_queue() == 0
                        && socket.state() != tcp::State::SynReceived;
                    if is_read_out && !socket.is_listening() && !*has_inside_ended {
                        *has_inside_ended = true;
                        let _ = rustix::net::shutdown(&connection.outside, Shutdown::Write);
                    }
                }
                Err(_) => socket.abort(),
            }
            let is_over = match socket.state() {
                // It was reset before it began.
                tcp::State::Closed | tcp::State::Listen => true,
                tcp::State::TimeWait => *has_outside_ended,
                tcp::State::SynSent
                | tcp::State::SynReceived
                | tcp::State::Established
                | tcp::State::FinWait1
                | tcp::State::FinWait2
                | tcp::State::CloseWait
                | tcp::State::Closing
                | tcp::State::LastAck => false,
            };
            if is_over {
                over.push((*ends, *handle));
            }
        }
        // A closed connection must still send its end.
        self.work_stack();
        for (ends, handle) in over {
            self.sockets.remove(handle);
            self.connections.remove(&ends);
        }
    }

    /// Sends a datagram out; the stack refuses what may not be reached.
    fn send_out(&mut self, ends: FlowEndpoints, data: &[u8], packet: &[u8]) {
        if !self.exchanges.contains_key(&ends) {
            let Some(target) = target(ends.wanted) else {
                return self.tun.waiting.push_back(packet.to_vec());
            };
            if self.exchanges.len() >= FLOWS_MAX {
                let oldest =
                    self.exchanges.iter().min_by_key(|(_, exchange)| exchange.used).map(|(ends, _)| *ends);
                oldest.map(|ends| self.exchanges.remove(&ends));
            }
            let Ok(outside) = connect(target, SocketType::DGRAM) else { return };
            self.exchanges.insert(ends, DatagramFlow { outside, used: Instant::now() });
        }
        if let Some(exchange) = self.exchanges.get_mut(&ends) {
            exchange.used = Instant::now();
            // One that cannot be sent is lost, as on any network.
            let _ = rustix::net::send(&exchange.outside, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Brings in what came for an exchange.
    fn bring_in(&mut self, ends: &FlowEndpoints) {
        let Some(exchange) = self.exchanges.get_mut(ends) else { return };
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..PACKETS_AT_ONCE_MAX {
            match rustix::net::recv(&exchange.outside, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    exchange.used = Instant::now();
                    let data = &bytes[..length.min(DATAGRAM_BYTES_MAX)];
                    if let Some(packet) = packet::answer(ends, data).filter(|packet| packet.len() <= MTU) {
                        let _ = rustix::io::write(&self.tun.device, &packet);
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn forget_idle(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        self.exchanges.retain(|_, exchange| exchange.used.elapsed() < IDLE_UDP);
        let mut given_up = Vec::new();
        for (ends, connection) in &mut self.connections {
            match &connection.stage {
                ConnectionState::Connecting { .. } if connection.used.elapsed() >= CONNECT_LIMIT => {
                    given_up.push(*ends)
                }
                ConnectionState::Open { handle, .. } if connection.used.elapsed() >= IDLE_TCP => {
                    self.sockets.get_mut::<tcp::Socket<'_>>(*handle).abort();
                }
                ConnectionState::Connecting { .. } | ConnectionState::Open { .. } => {}
            }
        }
        for ends in given_up {
            if let Some(TcpFlow { stage: ConnectionState::Connecting { first }, .. }) =
                self.connections.remove(&ends)
            {
                self.tun.waiting.push_back(first);
            }
        }
    }
}

/// The flows that can continue.
struct ReadyFlows {
    is_device: bool,
    connections: Vec<FlowEndpoints>,
    exchanges: Vec<FlowEndpoints>,
}

/// Returns the events that a connection waits for outside.
fn wanted(connection: &TcpFlow, sockets: &SocketSet<'_>) -> PollFlags {
    match &connection.stage {
        ConnectionState::Connecting { .. } => PollFlags::OUT,
        ConnectionState::Open { handle, has_outside_ended, .. } => {
            let socket = sockets.get::<tcp::Socket<'_>>(*handle);
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, socket.can_send() && !*has_outside_ended);
            flags.set(PollFlags::OUT, socket.can_recv());
            flags
        }
    }
}

/// The result of a transfer of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferResult {
    Some,
    Nothing,
    End,
}

/// From the command outwards.
fn out_of(socket: &mut tcp::Socket<'_>, outside: &OwnedFd) -> io::Result<TransferResult> {
    let mut moved = TransferResult::Nothing;
    while socket.can_recv() {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = socket.recv(|bytes| match rustix::net::send(outside, bytes, flags) {
            Ok(sent) => (sent, Ok(sent)),
            Err(errno) => (0, Err(errno)),
        });
        match sent {
            Ok(Ok(1..)) => moved = TransferResult::Some,
            Ok(Ok(0)) | Ok(Err(Errno::AGAIN)) => break,
            Ok(Err(Errno::INTR)) => {}
            Ok(Err(errno)) => return Err(errno.into()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
    }
    Ok(moved)
}

/// From outside to the command.
fn into(socket: &mut tcp::Socket<'_>, outside: &OwnedFd) -> io::Result<TransferResult> {
    let mut moved = TransferResult::Nothing;
    while socket.can_send() {
        let received = socket.send(|bytes| match rustix::net::recv(outside, bytes, RecvFlags::DONTWAIT) {
            Ok((_, received)) => (received, Ok(received)),
            Err(errno) => (0, Err(errno)),
        });
        match received {
            Ok(Ok(0)) => return Ok(TransferResult::End),
            Ok(Ok(1..)) => moved = TransferResult::Some,
            Ok(Err(Errno::AGAIN)) => break,
            Ok(Err(Errno::INTR)) => {}
            Ok(Err(errno)) => return Err(errno.into()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
    }
    Ok(moved)
}

/// The address outside; `None` if it may not be reached.
fn target(wanted: SocketAddr) -> Option<SocketAddr> {
    match destination::judge(wanted, route::leads_to_this_machine) {
        Destination::Outside(target) => Some(target),
        Destination::Resolver => resolver(),
        Destination::Refused => None,
    }
}

/// The first resolver of this machine, which may be on its loopback.
fn resolver() -> Option<SocketAddr> {
    let text = std::fs::read_to_string(RESOLVERS).unwrap_or_default();
    Some(SocketAddr::new(first_resolver(&text), NAMES_PORT))
}

/// As the C library has it: without one it is this machine.
fn first_resolver(text: &str) -> IpAddr {
    let named = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let mut addresses = named.filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
    addresses.next().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A socket that is being connected.
fn connect(target: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    match rustix::net::connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_resolver_is_asked_and_without_one_this_machine() {
        let first = |text: &str| first_resolver(text).to_string();
        assert_eq!(first("# x\nsearch a\nnameserver 127.0.0.53\nnameserver 192.0.2.1\n"), "127.0.0.53");
        assert_eq!(first("nameserver fe80::1%eth0\nnameserver 2001:db8::1 # x\n"), "2001:db8::1");
        assert_eq!(first(""), "127.0.0.1");
    }
}
