//! Forks a process that has one thread.
//!
//! # Invariants
//! Only the `__run` child forks, before it has started any thread, so that both sides may do what they like.

use std::io;

use rustix::process::Pid;

/// The side of a fork on which the caller runs.
pub(super) enum ForkResult {
    /// The new process.
    Child,
    /// The old one, with the number of the new.
    Parent(Pid),
}

/// Forks.
pub(super) fn fork() -> io::Result<ForkResult> {
    // SAFETY: this process has a single thread, so no lock is held by another one in the copy.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Pid::from_raw(pid).map_or(ForkResult::Child, ForkResult::Parent))
}
