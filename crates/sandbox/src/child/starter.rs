//! The process that starts the children which hold commands: it has loaded our program once and forks for
//! each.
//!
//! Loading a program of this size costs as much as all that a child then prepares. So the program is run
//! again once, with one thread; that process is the *starter*. For each child it is sent the child's socket
//! and marks, and forks. The child is not its own but a child of this process (`CLONE_PARENT`), which waits
//! for it.
//!
//! # How
//! 1. The starter puts the marks in the place of its environment, where the search for leftovers reads them.
//!    Then it forks, and removes them again. So the child has them from its first moment.
//! 2. It reports the child to the caller, on the child's socket.
//! 3. The caller sends an order on that socket.
//!
//! # Invariants
//! 1. The starter never sees an order. Neither an environment nor a file of a command is in its memory, so
//!    none is in that of the next command. It does nothing but fork, so no child finds what an earlier one
//!    changed.
//! 2. No order is sent twice. A new starter is asked only if the old one reported no child, and without a
//!    report there was no order.
//! 3. Its socket is its life: it ends when our end closes, because we ended or were killed. No child
//!    retains an end of it.
//! 4. A child that is not given an order, since we are gone, ends.
//! 5. A starter that was stopped, or does not answer within [`ANSWER_WITHIN`], is killed and replaced.
//! 6. Every reported child is reaped, also one that dies before it has read its order. We reap it, or the
//!    starter does if the system refuses to make a process that is not its own child.
//! 7. A child has the control group, priority, processors and limits that we have now: if ours have
//!    changed, the starter is replaced.
//!
//! # Not here
//! The work of a child: `isolation::child`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Stdio, exit};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, WaitOptions};
use rustix::thread::CpuSet;

use super::{ChildProgram, fd_passing};

/// The verb of the starter.
pub(crate) const START_VERB: &str = "__start";
/// The only variable of the starter: room for the marks of its children.
const ROOM: &str = "AGENTS_ROOM";
/// The room in bytes: a job and a fence have a few dozen.
const ROOM_BYTES: usize = 2048;
/// The time in which a starter answers a request, on a machine that is overloaded. It only forks.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The time after which a starter that has not answered is looked at.
const LOOK_AFTER: Duration = Duration::from_millis(500);
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
    settings: InheritedSettings,
}

/// The settings that a process passes on to its children, and that may change while it runs.
#[derive(Debug, PartialEq)]
struct InheritedSettings {
    groups: Vec<u8>,
    priority: Option<i32>,
    processors: Option<CpuSet>,
    limits: [Rlimit; LIMITS.len()],
}

const LIMITS: [Resource; 16] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Rss,
    Resource::Nproc,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Locks,
    Resource::Sigpending,
    Resource::Msgqueue,
    Resource::Nice,
    Resource::Rtprio,
    Resource::Rttime,
];

impl InheritedSettings {
    /// Those of this process.
    fn current() -> InheritedSettings {
        InheritedSettings {
            groups: fs::read("/proc/self/cgroup").unwrap_or_default(),
            priority: rustix::process::getpriority_process(None).ok(),
            processors: rustix::thread::sched_getaffinity(None).ok(),
            limits: LIMITS.map(rustix::process::getrlimit),
        }
    }
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
        match rustix::io::retry_on_intr(wait) {
            Ok(_) => Ok(()),
            // It is the starter's child, which reaps it.
            Err(rustix::io::Errno::CHILD) => {
                let died = || poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], None);
                Ok(rustix::io::retry_on_intr(died).map(drop)?)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl ChildProgram {
    /// Starts a child that bears these marks, and returns it with the socket on which it waits for an order.
    ///
    /// # Errors
    /// Returns an error if there is no program, no process or no descriptor for it, or if no starter answers.
    pub(crate) fn start_child(&self, marks: &[(OsString, OsString)]) -> io::Result<(ForkedChild, OwnedFd)> {
        let request = environment_of(marks)?;
        for _ in 0..STARTERS_MAX {
            let starter = self.starter()?;
            let (control, theirs) = crate::isolation::control::pair()?;
            let sent = fd_passing::send_packet(starter.socket.as_fd(), &request, theirs.as_fd());
            drop(theirs);
            match sent.and_then(|()| starter.forked_child(control.as_fd())) {
                Ok(child) => return Ok((child, control)),
                Err(error) if is_gone(&error) => self.replace(&starter),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the process that starts commands does not answer"))
    }

    fn starter(&self) -> io::Result<Arc<Starter>> {
        let mut slot = self.starter.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(starter) = slot.as_ref().filter(|it| it.settings == InheritedSettings::current()) {
            return Ok(Arc::clone(starter));
        }
        let starter = Arc::new(Starter::spawn(self)?);
        *slot = Some(Arc::clone(&starter));
        Ok(starter)
    }

    /// Forgets a starter that is gone or does not answer.
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
        let starter =
            Starter { socket, process: Mutex::new(process), settings: InheritedSettings::current() };
        // Many requests that it does not take, because it was stopped, do not hold up their callers for ever.
        rustix::net::sockopt::set_socket_timeout(&starter.socket, Timeout::Send, Some(LOOK_AFTER))?;
        Ok(starter)
    }

    /// Waits for the report on a request: the child, or the reason why there is none.
    fn forked_child(&self, control: BorrowedFd<'_>) -> io::Result<ForkedChild> {
        let asked = Instant::now();
        rustix::net::sockopt::set_socket_timeout(control, Timeout::Recv, Some(LOOK_AFTER))?;
        let report = loop {
            match fd_passing::receive(control) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && asked.elapsed() < ANSWER_WITHIN
                        && !self.is_stopped() => {}
                report => break report?,
            }
        };
        rustix::net::sockopt::set_socket_timeout(control, Timeout::Recv, None)?;
        child_in(report, control)
    }

    fn is_stopped(&self) -> bool {
        let id = self.process.lock().unwrap_or_else(PoisonError::into_inner).id();
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The state follows the name, which may have spaces and brackets in it.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
    }
}

/// Returns the child of a report.
fn child_in(
    (report, mut carried): (Vec<u8>, Vec<OwnedFd>),
    control: BorrowedFd<'_>,
) -> io::Result<ForkedChild> {
    let number = report.try_into().map(i32::from_le_bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    match (Pid::from_raw(number).filter(|_| number > 0), carried.pop()) {
        (Some(_), Some(pidfd)) => Ok(ForkedChild { pidfd }),
        // There was no room for its descriptor. Without its socket it ends.
        (Some(pid), None) => {
            rustix::net::shutdown(control, rustix::net::Shutdown::Both)?;
            // A child of the starter is none of ours.
            let _ = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
            Err(io::Error::from_raw_os_error(libc::EMFILE))
        }
        (None, _) => Err(io::Error::from_raw_os_error(number.saturating_neg())),
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

/// Returns whether the starter is gone or stopped: nothing came of the request.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotConnected
            | io::ErrorKind::WouldBlock
    )
}

/// The body of the starter.
pub(super) fn child_start() -> ! {
    let (Some(room), Ok(requests)) = (MarksRoom::find(), crate::isolation::take_over_socket()) else {
        exit(1)
    };
    let mut parent = ForkParent::Caller;
    loop {
        let Ok((marks, control)) = fd_passing::receive_packet(requests.as_fd()) else { exit(0) };
        let Some(control) = control else { continue };
        room.put(&marks);
        let forked = fork_child(&mut parent);
        if !matches!(forked, Ok(None)) {
            room.put(&[]);
        }
        // If it cannot be sent, the caller is gone, and a child ends for want of an order.
        let _ = match forked {
            Ok(None) => {
                drop(requests);
                set_environment(&marks);
                // Of a session of its own, as the starter is.
                let _ = rustix::process::setsid();
                crate::isolation::child_run_order(control);
            }
            Ok(Some((pid, pidfd))) => fd_passing::send(control.as_fd(), &pid.to_le_bytes(), &[pidfd.as_fd()]),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                fd_passing::send(control.as_fd(), &(-errno).to_le_bytes(), &[])
            }
        };
    }
}

/// The process whose child a forked one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForkParent {
    /// The process that asked for it, which reaps it.
    Caller,
    /// The starter, if the system refuses the other. The kernel reaps the child.
    Starter,
}

/// Forks a process, and returns its id and a descriptor of it; `None` in it.
fn fork_child(parent: &mut ForkParent) -> io::Result<Option<(i32, OwnedFd)>> {
    if *parent == ForkParent::Caller {
        match fork_with(libc::CLONE_PARENT | libc::CLONE_PIDFD) {
            Err(error) if !is_lack(&error) => *parent = ForkParent::Starter,
            forked => return forked,
        }
    }
    let reap_by = |action| {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, action) }
    };
    reap_by(libc::SIG_IGN);
    let forked = fork_with(libc::CLONE_PIDFD | libc::SIGCHLD)?;
    if forked.is_none() {
        // The child waits for its own children.
        reap_by(libc::SIG_DFL);
    }
    Ok(forked)
}

/// Returns true if another try could succeed once there is room.
fn is_lack(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}

fn fork_with(flags: libc::c_int) -> io::Result<Option<(i32, OwnedFd)>> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: this process has a single thread, so no lock is held by another one in the copy. It begins on a
    // copy of this stack. With `CLONE_PARENT` the signal for its end is the one of this process. The kernel
    // writes the descriptor, which is new and has no other owner, to a variable that outlives the call.
    unsafe {
        match libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) {
            0 => Ok(None),
            pid if pid > 0 => Ok(Some((pid as i32, OwnedFd::from_raw_fd(pidfd)))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The memory in which the kernel finds the environment of this process.
#[derive(Clone, Copy)]
struct MarksRoom {
    start: *mut u8,
    bytes: usize,
}

impl MarksRoom {
    /// The memory that the kernel filled when this process began; `None` if it is too small for the marks.
    fn find() -> Option<MarksRoom> {
        // As `man 5 proc` counts them.
        const FIRST_AFTER_NAME: usize = 3;
        const START: usize = 50;
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field is a name in brackets, which may have spaces and brackets in it.
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - FIRST_AFTER_NAME)?.parse::<usize>().ok();
        let (start, end) = (field(START)?, field(START + 1)?);
        let bytes = end.checked_sub(start).filter(|bytes| *bytes >= ROOM_BYTES)?;
        Some(MarksRoom { start: start as *mut u8, bytes })
    }

    /// Puts an environment in its place, for those who look at this process.
    fn put(self, environment: &[u8]) {
        let count = environment.len().min(self.bytes);
        // SAFETY: the kernel made this memory of our stack for the variables that we were started with, of which
        // nothing is read any more. This process has a single thread.
        unsafe {
            std::ptr::copy_nonoverlapping(environment.as_ptr(), self.start, count);
            std::ptr::write_bytes(self.start.add(count), 0, self.bytes - count);
        }
    }
}

/// Gives this process an environment of its own memory, for what it starts.
fn set_environment(environment: &[u8]) {
    // SAFETY: this process has a single thread.
    unsafe { libc::clearenv() };
    for variable in environment.split(|byte| *byte == 0) {
        let mut parts = variable.splitn(2, |byte| *byte == b'=');
        if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            // SAFETY: as above.
            unsafe { std::env::set_var(OsStr::from_bytes(name), OsStr::from_bytes(value)) };
        }
    }
}
