//! The last steps of a process before it is the command: its files, its directory, its walls.
//!
//! # Invariants
//! 1. The walls are in force before the program runs, and for all that it starts.
//! 2. Every failure is reported over the pipe that `exec` closes; no report means that the program runs.
//! 3. It is in a session of its own: no terminal reaches it, and signals to our group do not either.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use domain::RelPath;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Resource, Rlimit};

use super::control::{ChildOrder, StartFailure};
use super::landlock::{LandlockRole, LandlockRules};
use super::layout::MountLayout;
use super::seccomp::{self, AllowedCalls};
use super::{IsolationBackend, broker, privileges, usage};
use crate::descriptors;
use crate::fs::beneath;
use crate::fs::beneath::LinkPolicy;

/// The first byte over the pipe: the process that becomes the command has begun.
pub(super) const HELLO: &[u8] = b"+";
/// The program that runs a script that does not name its interpreter.
const SHELL: &str = "/bin/sh";

/// Becomes the command, and returns only the reason why not. `broker` leads to the reaper that answers for
/// it.
pub(super) fn become_command(
    order: &ChildOrder,
    layout: &MountLayout,
    stdio: [OwnedFd; 3],
    broker: Option<&OwnedFd>,
) -> StartFailure {
    match prepare(order, layout, stdio, broker) {
        Ok(()) if order.argv.is_empty() => std::process::exit(0),
        Ok(()) => execute(order, layout),
        Err(failure) => failure,
    }
}

fn prepare(
    order: &ChildOrder,
    layout: &MountLayout,
    stdio: [OwnedFd; 3],
    broker: Option<&OwnedFd>,
) -> Result<(), StartFailure> {
    let [stdin, stdout, stderr] = stdio;
    let stdin = own_null(stdin);
    rustix::stdio::dup2_stdin(stdin).map_err(io::Error::from)?;
    rustix::stdio::dup2_stdout(stdout).map_err(io::Error::from)?;
    rustix::stdio::dup2_stderr(stderr).map_err(io::Error::from)?;
    // Fails for one that leads a session already.
    let _ = rustix::process::setsid();
    reset_signals();
    set_limits(order);
    enter_directory(order, layout)?;
    if let Some(soft) = order.open_files {
        descriptors::lower_limit(soft)?;
    }
    raise_walls(order, layout, broker).map_err(StartFailure::Rung)
}

/// The command's own `/dev/null` in the place of ours, which its walls would not let it open again.
fn own_null(stdin: OwnedFd) -> OwnedFd {
    let is_device = rustix::fs::fstat(&stdin)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice);
    let opened = || rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    if is_device { opened().unwrap_or(stdin) } else { stdin }
}

fn enter_directory(order: &ChildOrder, layout: &MountLayout) -> Result<(), StartFailure> {
    let Some((index, below)) = &order.cwd else {
        return std::env::set_current_dir("/").map_err(|error| StartFailure::Directory(error.to_string()));
    };
    let root =
        layout.roots.get(*index).ok_or_else(|| StartFailure::Directory("no such project".to_owned()))?;
    directory(root, below.as_deref())
        .and_then(|opened| Ok(rustix::process::fchdir(opened)?))
        .map_err(|error| StartFailure::Directory(error.to_string()))
}

fn directory(root: &Path, below: Option<&[u8]>) -> io::Result<OwnedFd> {
    let root = beneath::open_root(root)?;
    let Some(below) = below else { return Ok(root) };
    let below = RelPath::new(below).map_err(io::Error::other)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    beneath::open(root.as_fd(), &below, flags, Mode::empty(), LinkPolicy::Follow)
        .map_err(|error| error.into_io())
}

fn raise_walls(order: &ChildOrder, layout: &MountLayout, broker: Option<&OwnedFd>) -> Result<(), String> {
    let filters = seccomp::filters(AllowedCalls {
        internet: order.network || order.rung != IsolationBackend::Landlock,
        unix_sockets: order.openings.unix_sockets
            || layout.sockets_sealed
            || order.rung == IsolationBackend::None,
        attributes: order.rung != IsolationBackend::Landlock,
        io_uring: order.openings.io_uring,
        system_v: order.rung != IsolationBackend::Landlock,
    });
    let strength = match order.rung {
        IsolationBackend::Namespaces | IsolationBackend::Bubblewrap => LandlockRole::Second,
        IsolationBackend::Landlock => LandlockRole::Alone,
        // Each wall that is possible is raised, and none is promised.
        IsolationBackend::None => {
            if order.user_namespace {
                privileges::drop_all().map_err(|error| format!("giving up privileges: {error}"))?;
            }
            let _ = filters.and_then(|filters| seccomp::install(&filters));
            return Ok(());
        }
    };
    // The paths are opened while this process may still go everywhere.
    let rules = LandlockRules::new(&layout.readable, &layout.writable, order.network, strength)?;
    privileges::drop_all().map_err(|error| format!("giving up privileges: {error}"))?;
    rules.restrict()?;
    seccomp::install(&filters?)?;
    broker.map_or(Ok(()), broker::install)
}

/// Sets the limits that the kernel enforces: no dumps of memory, and as many processes as are allowed. In a
/// user namespace of its own it counts those in there, elsewhere all of the user's.
fn set_limits(order: &ChildOrder) {
    let lower = |resource: Resource, to: u64| {
        let to = Some(rustix::process::getrlimit(resource).maximum.map_or(to, |most| most.min(to)));
        // A process that may not lower it is watched all the same.
        let _ = rustix::process::setrlimit(resource, Rlimit { current: to, maximum: to });
    };
    lower(Resource::Core, 0);
    if order.bounds.processes_max > 0 {
        let others = match order.rung {
            IsolationBackend::Namespaces | IsolationBackend::Bubblewrap => 0,
            IsolationBackend::Landlock | IsolationBackend::None => usage::processes_of_user(),
        };
        lower(Resource::Nproc, others.saturating_add(order.bounds.processes_max));
    }
}

/// Resets the signals that our own process ignores or blocks. Uses the system call itself: the C library
/// reserves two signals for itself, and they may be ignored when we start.
fn reset_signals() {
    const SIGNAL_MAX: i32 = 64;
    const SET_BYTES: usize = 8;
    let by_default = [0_u64; 4];
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: zeros are the default action with no flags and no mask, and as many as the kernel reads. A
        // signal that cannot be set is left alone.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                by_default.as_ptr(),
                ptr::null_mut::<u64>(),
                SET_BYTES,
            )
        };
    }
    // SAFETY: an empty set is made in place and used for the one thread there is.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

fn execute(order: &ChildOrder, layout: &MountLayout) -> StartFailure {
    let mut env: Vec<(&OsStr, &OsStr)> = order.env.iter().map(|(name, value)| (&**name, &**value)).collect();
    env.retain(|(name, _)| *name != "TMPDIR");
    env.push((OsStr::new("TMPDIR"), layout.tmp.as_os_str()));
    let joined = env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let (Ok(argv), Ok(env)) =
        (c_strings(order.argv.iter().map(|part| part.as_bytes().to_vec())), c_strings(joined))
    else {
        return StartFailure::NotExecutable(libc::EINVAL);
    };
    try_candidates(&candidates(order), &argv, &env)
}

fn c_strings(parts: impl Iterator<Item = Vec<u8>>) -> Result<Vec<CString>, std::ffi::NulError> {
    parts.map(CString::new).collect()
}

/// Returns the paths at which a program is looked for: its own path if it has one, else those in `PATH`.
pub(super) fn candidates(order: &ChildOrder) -> Vec<CString> {
    let Some(program) = order.argv.first() else { return Vec::new() };
    let bytes = program.as_bytes();
    if bytes.contains(&b'/') {
        return CString::new(bytes).into_iter().collect();
    }
    let path = order.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_default();
    let directories = std::env::split_paths(&path).filter(|directory| !directory.as_os_str().is_empty());
    directories
        .filter_map(|directory| CString::new(directory.join(program).into_os_string().as_bytes()).ok())
        .collect()
}

/// Tries one place after the other, as shells do. The failure is that of the best candidate.
fn try_candidates(candidates: &[CString], argv: &[CString], env: &[CString]) -> StartFailure {
    let mut failure = StartFailure::NotFound;
    for candidate in candidates {
        match execve(candidate, argv, env).raw_os_error() {
            Some(libc::ENOEXEC) => return by_shell(candidate, argv, env),
            Some(libc::ENOENT) if !exists(candidate) => {}
            Some(libc::ENOTDIR) => {}
            Some(errno) => failure = StartFailure::NotExecutable(errno),
            None => {}
        }
    }
    failure
}

fn exists(candidate: &CString) -> bool {
    Path::new(OsStr::from_bytes(candidate.as_bytes())).symlink_metadata().is_ok()
}

fn by_shell(script: &CString, argv: &[CString], env: &[CString]) -> StartFailure {
    let Ok(shell) = CString::new(SHELL) else { return StartFailure::NotExecutable(libc::ENOEXEC) };
    let mut all = vec![shell.clone(), script.clone()];
    all.extend(argv.iter().skip(1).cloned());
    StartFailure::NotExecutable(execve(&shell, &all, env).raw_os_error().unwrap_or(libc::ENOEXEC))
}

fn execve(program: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null, and the strings that they point to live until the call returns.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
