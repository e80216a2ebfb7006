//! The process that starts the children which hold commands: it has loaded our program once and forks for
//! each.
//!
//! Loading a program of this size costs as much as all that a child then prepares. So the program is run
//! again once, with one thread; that process is the *starter*. For each child it is sent the child's socket
//! and marks, and forks. The child is not its own but a child of this process (`CLONE_PARENT`), which waits
//! for it.
//!
//! # How
//! 1. The new process puts the marks in the place of its environment, where the search for leftovers reads
//!    them.
//! 2. It says hello on its socket, with a descriptor of itself.
//! 3. Only then the caller sends an order, on that socket.
//!
//! # Invariants
//! 1. The starter never sees an order: neither an environment nor a file of a command is in its memory, so
//!    none is in that of the next command. It does nothing but fork, so no child finds what an earlier one
//!    changed.
//! 2. No order is sent twice: a new starter is asked only if no process said hello to the old one's request,
//!    and without a hello there was no order.
//! 3. Its socket is its life: it ends when our end closes, because we ended or were killed. No child
//!    retains an end of it.
//! 4. A child that is not given an order, since we are gone, ends.
//!
//! # Not here
//! The work of a child: `isolation::child`.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio, exit};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{PidfdFlags, WaitId, WaitIdOptions};

use super::{ChildProgram, fd_passing};

/// The verb of the starter.
pub(crate) const START_VERB: &str = "__start";
/// The only variable of the starter: room for the marks of its children.
const ROOM: &str = "AGENTS_ROOM";
/// The room in bytes: a job and a fence have a few dozen.
const ROOM_BYTES: usize = 2048;
/// The first message of a child, with its pidfd.
const HELLO: &[u8] = b"+";
/// The number of times that a starter that is gone is replaced for one child.
const STARTERS_MAX: usize = 3;

/// The starter of a program; none until the first child is started, and once it is gone.
#[derive(Debug, Default)]
pub(crate) struct StarterSlot(Mutex<Option<Arc<Starter>>>);

/// A running starter.
#[derive(Debug)]
struct Starter {
    socket: OwnedFd,
    process: Mutex<Child>,
}

impl Drop for Starter {
    /// It has nothing to lose: its children are ours.
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// A child of ours that a starter forked.
#[derive(Debug)]
pub(crate) struct ForkedChild {
    pidfd: OwnedFd,
}

impl ForkedChild {
    /// Waits until it is dead, and reaps it.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let wait = || rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        Ok(rustix::io::retry_on_intr(wait).map(drop)?)
    }
}

impl ChildProgram {
    /// Starts a child that bears these marks, and returns it with the socket on which it waits for an order.
    /// `None` if the program is no starter.
    ///
    /// # Errors
    /// Returns an error if there is no program, no process or no descriptor for it.
    pub(crate) fn start_child(
        &self,
        marks: &[(OsString, OsString)],
    ) -> io::Result<Option<(ForkedChild, OwnedFd)>> {
        let request = environment_of(marks)?;
        for _ in 0..STARTERS_MAX {
            let starter = self.starter()?;
            let (control, theirs) = crate::isolation::control::pair()?;
            let sent = fd_passing::send_packet(starter.socket.as_fd(), &request, theirs.as_fd());
            drop(theirs);
            let hello = sent.and_then(|()| fd_passing::receive(control.as_fd()));
            match hello {
                Ok((_, mut carried)) if !carried.is_empty() => {
                    return Ok(Some((ForkedChild { pidfd: carried.remove(0) }, control)));
                }
                Ok((errno, _)) => return Err(refusal(&errno)),
                Err(error) if is_gone(&error) => self.replace(&starter),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn starter(&self) -> io::Result<Arc<Starter>> {
        let mut slot = self.starter.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(starter) = &*slot {
            return Ok(Arc::clone(starter));
        }
        let starter = Arc::new(Starter::spawn(self)?);
        *slot = Some(Arc::clone(&starter));
        Ok(starter)
    }

    /// Forgets a starter that is gone.
    fn replace(&self, gone: &Arc<Starter>) {
        let mut slot = self.starter.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = slot.take_if(|starter| Arc::ptr_eq(starter, gone));
        drop((slot, known));
    }
}

impl Starter {
    fn spawn(program: &ChildProgram) -> io::Result<Starter> {
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let process = program
            .command(START_VERB)
            .env_clear()
            .env(ROOM, "-".repeat(ROOM_BYTES))
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Starter { socket, process: Mutex::new(process) })
    }
}

/// The variables as a process has them in its memory.
fn environment_of(variables: &[(OsString, OsString)]) -> io::Result<Vec<u8>> {
    let joined =
        variables.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    let bytes = joined.collect::<Vec<_>>().concat();
    match bytes.len() <= ROOM_BYTES {
        true => Ok(bytes),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "the marks of the job are too long")),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
    )
}

fn refusal(errno: &[u8]) -> io::Error {
    let number = errno.try_into().map(i32::from_le_bytes).unwrap_or(libc::EAGAIN);
    io::Error::from_raw_os_error(number)
}

/// The body of the starter.
pub(super) fn child_start() -> ! {
    let (Some(room), Ok(requests)) = (MarksRoom::find(), crate::isolation::take_over_socket()) else {
        exit(1)
    };
    loop {
        let Ok((marks, control)) = fd_passing::receive_packet(requests.as_fd()) else { exit(0) };
        let Some(control) = control else { continue };
        match fork_sibling() {
            Ok(true) => {
                drop(requests);
                room.put(&marks);
                // Of a session of its own, as the starter is.
                let _ = rustix::process::setsid();
                if say_hello(control.as_fd()).is_err() {
                    exit(1);
                }
                crate::isolation::child_run_order(control);
            }
            Ok(false) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN).to_le_bytes();
                let _ = fd_passing::send(control.as_fd(), &errno, &[]);
            }
        }
    }
}

fn say_hello(control: BorrowedFd<'_>) -> io::Result<()> {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    fd_passing::send(control, HELLO, &[own.as_fd()])
}

/// Forks a process whose parent is ours; returns true in it.
fn fork_sibling() -> io::Result<bool> {
    // SAFETY: this process has a single thread, so no lock is held by another one in the copy. It begins on a
    // copy of this stack. With `CLONE_PARENT` the signal for its end is the one of this process.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT, 0, 0, 0, 0) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid == 0) }
}

/// The memory in which the kernel finds the environment of this process.
#[derive(Clone, Copy)]
struct MarksRoom {
    start: *mut u8,
    bytes: usize,
}

impl MarksRoom {
    /// The memory of the only variable; none if there are others.
    fn find() -> Option<MarksRoom> {
        unsafe extern "C" {
            static environ: *const *mut c_char;
        }
        // SAFETY: nothing has changed the environment since this process began: a list that ends with a null,
        // of strings that stay where the kernel put them.
        let (first, second, length) = unsafe {
            let first = environ.as_ref().copied().filter(|first| !first.is_null())?;
            (first, *environ.add(1), CStr::from_ptr(first).to_bytes().len())
        };
        let is_room = std::env::var_os(ROOM).is_some_and(|room| room.len() == ROOM_BYTES);
        (is_room && second.is_null()).then_some(MarksRoom { start: first.cast(), bytes: length })
    }

    /// Puts an environment in its place: for those who look at this process, and for what it starts.
    fn put(self, environment: &[u8]) {
        for variable in environment.split(|byte| *byte == 0) {
            let mut parts = variable.splitn(2, |byte| *byte == b'=');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                // SAFETY: this process has a single thread.
                unsafe { std::env::set_var(OsStr::from_bytes(name), OsStr::from_bytes(value)) };
            }
        }
        // SAFETY: as above; and nothing points to the memory of the variable any more, which is as long as it
        // was.
        unsafe {
            std::env::remove_var(ROOM);
            let count = environment.len().min(self.bytes);
            std::ptr::copy_nonoverlapping(environment.as_ptr(), self.start, count);
            std::ptr::write_bytes(self.start.add(count), 0, self.bytes - count);
        }
    }
}
