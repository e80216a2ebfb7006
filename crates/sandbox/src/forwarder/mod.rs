//! The network of a command that has one: a process outside of its walls that carries its flows.
//!
//! The command has a network namespace of its own, so that no socket of this machine is in it, whether on
//! loopback or abstract. Its packets come out of a device; this process makes the connections that they ask
//! for. It is started for one command and ends with it.
//!
//! # Invariants
//! 1. Nothing of this machine is reached but the resolver and the ports that were named: see `destination`.
//! 2. It ends when the one who started it ends or lets go of the lifeline, and when the device is gone. No
//!    flow outlives it.
//! 3. It does not run as part of the program that started it: what a packet can do wrong is done to this
//!    process only.

pub(crate) mod destination;
pub(crate) mod flows;
mod packet;
mod route;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use crate::child::ChildProgram;
use crate::child::fd_passing;

/// The verb of the child that carries flows.
pub(crate) const FORWARD_VERB: &str = "__forward";
/// The most connections to named ports at once.
const RELAYS_MAX: usize = 128;

/// The network data for the child: whether there is a device, and the port of each listener. The descriptors
/// come along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InsideNetwork {
    /// True if there is a way out.
    pub(crate) has_device: bool,
    /// One for each listener.
    pub(crate) ports: Vec<u16>,
}

/// The process that carries the flows of one command, held. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Forwarder {
    child: Child,
    /// Open for as long as it is to live.
    lifeline: OwnedFd,
}

impl Forwarder {
    /// Starts it with what was made inside.
    ///
    /// # Errors
    /// There is no process to be had.
    pub(crate) fn start(
        program: &ChildProgram,
        marks: &[(std::ffi::OsString, std::ffi::OsString)],
        inside: &InsideNetwork,
        carried: &[BorrowedFd<'_>],
    ) -> io::Result<Forwarder> {
        let (ours, theirs) = crate::isolation::control::pair()?;
        let mut command = program.command(FORWARD_VERB);
        command.env_clear().envs(marks.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let forwarder = Forwarder { child, lifeline: ours };
        fd_passing::send(forwarder.lifeline.as_fd(), &serde_json::to_vec(inside)?, carried)?;
        Ok(forwarder)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of the child.
pub(crate) fn child_forward() -> ! {
    let Ok(lifeline) = crate::isolation::take_over_socket() else { exit(1) };
    let Ok((text, carried)) = fd_passing::receive(lifeline.as_fd()) else { exit(1) };
    let Ok(InsideNetwork { has_device, ports }) = serde_json::from_slice(&text) else { exit(1) };
    let mut carried = carried.into_iter();
    let device = if has_device { carried.next() } else { None };
    let relays = Arc::new(AtomicUsize::new(0));
    for (listener, port) in carried.zip(ports) {
        let relays = Arc::clone(&relays);
        thread::spawn(move || relay_all(&TcpListener::from(listener), port, &relays));
    }
    match device.map(flows::Flows::new) {
        Some(Ok(mut flows)) => flows.carry(lifeline.as_fd()),
        Some(Err(_)) => exit(1),
        // Nothing more is sent: it is only waited for the end.
        None => drop(fd_passing::receive(lifeline.as_fd())),
    }
    exit(0)
}

/// Leads every connection to a port inside to the same port of this machine.
fn relay_all(listener: &TcpListener, port: u16, relays: &Arc<AtomicUsize>) {
    for inside in listener.incoming() {
        let Ok(inside) = inside else { continue };
        let slot = RelaySlot::take(relays);
        let (Some(slot), Some(outside)) = (slot, reach(port)) else { continue };
        let slot = Arc::new(slot);
        let (Ok(inside_too), Ok(outside_too)) = (inside.try_clone(), outside.try_clone()) else { continue };
        let back = Arc::clone(&slot);
        thread::spawn(move || copy(inside, outside, slot));
        thread::spawn(move || copy(outside_too, inside_too, back));
    }
}

/// A place among those that are relayed at once.
struct RelaySlot(Arc<AtomicUsize>);

impl RelaySlot {
    fn take(relays: &Arc<AtomicUsize>) -> Option<RelaySlot> {
        let slot = RelaySlot(Arc::clone(relays));
        (relays.fetch_add(1, Ordering::AcqRel) < RELAYS_MAX).then_some(slot)
    }
}

impl Drop for RelaySlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn reach(port: u16) -> Option<TcpStream> {
    let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    TcpStream::connect(&here[..]).ok()
}

fn copy(mut from: TcpStream, mut to: TcpStream, _slot: Arc<RelaySlot>) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
