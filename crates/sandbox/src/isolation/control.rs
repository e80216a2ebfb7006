//! The socket between the engine and the process that runs a command, and its messages.
//!
//! The order goes in with all file descriptors that it names; reports come out. The same socket is the
//! lifeline: when our end closes, because we ended or were killed, the other side kills the command.
//!
//! # Invariants
//! 1. Our end is close-on-exec and held by no other process, so that it closes with us.
//! 2. A message is whole or absent: one that was cut off counts as a closed socket.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::IsolationBackend;
use crate::child::fd_passing;
use crate::command::{ExitKind, IsolationExceptions, LimitHit, ResourceLimits};
use crate::descriptors::is_exhaustion;
use crate::forwarder::InsideNetwork;
use crate::view::BorrowedDir;

/// The message that asks for the tree to be killed.
const KILL: &[u8] = b"kill";

/// The work order of the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChildOrder {
    pub(super) rung: IsolationBackend,
    /// Empty to only try the backend: nothing is run.
    pub(super) argv: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// The index into `roots`, and the path in that root; `None` for `/`.
    pub(super) cwd: Option<(usize, Option<Vec<u8>>)>,
    pub(super) roots: Vec<OrderRoot>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) grace_ms: u64,
    pub(super) network: bool,
    /// True if the network is one of its own; without `network` it has one without a way out in any case.
    pub(super) own_network: bool,
    /// Ports of this machine's loopback that it may reach.
    pub(super) loopback_ports: Vec<u16>,
    pub(super) openings: IsolationExceptions,
    pub(super) bounds: ResourceLimits,
    #[serde(with = "crate::fs::exact_path")]
    pub(super) writable: Vec<PathBuf>,
    #[serde(with = "crate::fs::exact_path")]
    pub(super) hide: Vec<PathBuf>,
    /// The user's home, of which a command sees only what `show`, `scratch` and `writable` name; none shows
    /// it whole.
    #[serde(with = "crate::fs::exact_path")]
    pub(super) home: Option<PathBuf>,
    #[serde(with = "crate::fs::exact_path")]
    pub(super) show: Vec<PathBuf>,
    #[serde(with = "crate::fs::exact_path")]
    pub(super) scratch: Vec<PathBuf>,
    /// The private directory for temporary files where there is no private `/tmp`; removed at the end.
    #[serde(with = "crate::fs::exact_path")]
    pub(super) tmp: Option<PathBuf>,
    pub(super) user_namespace: bool,
    pub(super) mount_namespace: bool,
    /// The soft limit of open files that the command gets; none: the one that it inherits.
    pub(super) open_files: Option<u64>,
}

/// A project as the child has to show it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OrderRoot {
    #[serde(with = "crate::fs::exact_path")]
    pub(super) path: PathBuf,
    #[serde(with = "crate::fs::exact_path")]
    pub(super) copy: Option<PathBuf>,
    /// The directories that the copy reads from and hides once it is mounted at `path`.
    pub(super) borrowed: Vec<BorrowedDir>,
    pub(super) writable: bool,
}

impl OrderRoot {
    /// Returns the path of the tree before anything is mounted.
    pub(super) fn source(&self) -> &PathBuf {
        self.copy.as_ref().unwrap_or(&self.path)
    }
}

/// An order with its file descriptors.
#[derive(Debug)]
pub(super) struct DeliveredOrder {
    pub(super) order: ChildOrder,
    pub(super) stdio: [OwnedFd; 3],
    pub(super) user_namespace: Option<OwnedFd>,
    pub(super) mount_namespace: Option<OwnedFd>,
    /// One for each of the order's roots.
    pub(super) trees: Vec<OwnedFd>,
}

/// A report of the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChildReport {
    /// The process that holds the tree: its pidfd comes along.
    Reaper,
    /// A network was made inside, which has to be carried: its descriptors come along.
    Network(InsideNetwork),
    /// The program itself has begun.
    Started {
        /// The paths that it cannot see.
        hidden: Vec<String>,
        /// Notes about the parts that could not be done as asked.
        notes: Vec<String>,
    },
    /// It has not.
    Failed(StartFailure),
    /// It has ended, and how many processes had to be killed with it.
    Ended {
        /// The way in which the program itself ended.
        how: ExitKind,
        /// The number of other processes that were alive.
        killed: u32,
        /// The bound that it reached.
        limit: Option<LimitHit>,
    },
}

/// The reason that a command did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StartFailure {
    /// This way to isolate it does not work here.
    Rung(String),
    /// It cannot have a network of its own.
    Network(String),
    /// There is no such program.
    NotFound,
    /// There is, but it cannot be run.
    NotExecutable(i32),
    /// The directory to begin in cannot be entered.
    Directory(String),
    /// The system has no descriptor, process or thread left for it now, by this number of the error.
    Exhausted(i32),
}

impl From<io::Error> for StartFailure {
    /// An exhausted resource says nothing about the backend: no weaker one is tried for it.
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) if is_exhaustion(errno) => Self::Exhausted(errno.raw_os_error()),
            Some(_) | None => Self::Rung(error.to_string()),
        }
    }
}

/// The two ends: ours and the child's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// A file in memory that holds the bytes, to be read from the beginning.
pub(super) fn file_of(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

impl ChildOrder {
    /// Sends the order with what it needs, in the order that [`DeliveredOrder::receive`] takes them.
    pub(super) fn send(
        &self,
        socket: impl AsFd,
        stdio: [BorrowedFd<'_>; 3],
        namespaces: [Option<BorrowedFd<'_>>; 2],
        trees: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut carried = stdio.to_vec();
        carried.extend(namespaces.into_iter().flatten());
        carried.extend(trees);
        fd_passing::send(socket.as_fd(), &serde_json::to_vec(self)?, &carried)
    }

    /// Reads an order from a file.
    pub(super) fn read(file: OwnedFd) -> io::Result<Self> {
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

impl DeliveredOrder {
    /// Waits for the order; `None` if the process that would give it is gone.
    pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<Self>> {
        let Some((bytes, carried)) = receive(socket)? else { return Ok(None) };
        let order: ChildOrder = serde_json::from_slice(&bytes)?;
        let mut carried = carried.into_iter();
        let mut next = || carried.next().ok_or_else(|| io::Error::other("the order lacks a file descriptor"));
        let stdio = [next()?, next()?, next()?];
        let user_namespace = order.user_namespace.then(&mut next).transpose()?;
        let mount_namespace = order.mount_namespace.then(&mut next).transpose()?;
        let trees = order.roots.iter().map(|_| next()).collect::<io::Result<_>>()?;
        Ok(Some(Self { order, stdio, user_namespace, mount_namespace, trees }))
    }
}

/// Sends a report. A missing receiver is no failure: the closed lifeline is noticed elsewhere.
pub(super) fn report(socket: impl AsFd, report: &ChildReport, carried: &[BorrowedFd<'_>]) {
    if let Ok(text) = serde_json::to_vec(report) {
        let _ = fd_passing::send(socket.as_fd(), &text, carried);
    }
}

/// Waits for a report; none when the other side is gone.
pub(crate) fn next_report(socket: impl AsFd) -> io::Result<Option<(ChildReport, Vec<OwnedFd>)>> {
    let Some((bytes, carried)) = receive(socket)? else { return Ok(None) };
    Ok(Some((serde_json::from_slice(&bytes)?, carried)))
}

/// Asks the other side to kill the tree; whether it could hear.
pub(crate) fn ask_to_kill(socket: impl AsFd) -> bool {
    fd_passing::send(socket.as_fd(), KILL, &[]).is_ok()
}

/// Waits for one message; none when the other end is closed.
pub(super) fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    match fd_passing::receive(socket.as_fd()) {
        Ok(message) => Ok(Some(message)),
        // It may have ended while something of ours was still unread by it: closed all the same.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
