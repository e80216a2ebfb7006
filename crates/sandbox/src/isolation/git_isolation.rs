//! The isolation of the git program: it starts no other program, reaches no network, and writes only where it
//! may.
//!
//! They are light, because git is asked often: two system calls between `fork` and `exec`, no namespaces.
//!
//! # Invariants
//! 1. Git starts no process, whatever the configuration of a repository names: `fork`, `vfork`, and `clone`
//!    for anything but a thread are refused. Hooks, filters, monitors, pagers, helpers and transports all
//!    need one. Only with [`GitPrograms::Started`] it does.
//! 2. Git makes no socket, nor does a program that it starts.
//! 3. Git writes only below the directories that are named, where the kernel has Landlock. A link in a
//!    repository leads nowhere else.
//! 4. Without these filters git is not run.
//!
//! # Not here
//! Which directories are named, and how long git may run: `git::command`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use seccompiler::{BpfProgram, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::landlock::{LandlockRole, LandlockRules};
use super::seccomp;

/// The right of git to start programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GitPrograms {
    /// It may not.
    Refused,
    /// It may. They are within the same walls. Modes, owners, times and attributes of files stay as they are:
    /// calls to change them do nothing, because Landlock does not know of them.
    Started,
}

/// Walls that are ready to be raised.
#[derive(Debug)]
pub(crate) struct GitIsolation {
    ruleset: Option<OwnedFd>,
    filters: &'static [BpfProgram],
}

impl GitIsolation {
    /// Walls within which `writable` can be written, and everything can be read.
    ///
    /// Returns an error if the system cannot hold git back.
    pub(crate) fn new(writable: &[PathBuf], programs: GitPrograms) -> Result<GitIsolation, String> {
        type Compiled = OnceLock<Result<Vec<BpfProgram>, String>>;
        static REFUSING: Compiled = OnceLock::new();
        static STARTING: Compiled = OnceLock::new();
        let (compiled, strength) = match programs {
            GitPrograms::Refused => (&REFUSING, LandlockRole::Second),
            GitPrograms::Started => (&STARTING, LandlockRole::Alone),
        };
        let filters = compiled.get_or_init(|| filters(programs)).as_ref().map_err(Clone::clone)?;
        let rules = LandlockRules::new(&[PathBuf::from("/")], writable, false, strength)?;
        Ok(GitIsolation { ruleset: rules.into_fd(), filters })
    }

    /// Raises the walls around the calling thread and all that it starts.
    ///
    /// Only makes system calls: it may be called between `fork` and `exec`.
    pub(crate) fn raise(&self) -> io::Result<()> {
        // SAFETY: prctl with these arguments touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if let Some(ruleset) = &self.ruleset {
            // SAFETY: the descriptor is open, and the call touches no memory of ours.
            let bound = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
            if bound != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        for filter in self.filters {
            if seccompiler::apply_filter(filter).is_err() {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

fn filters(programs: GitPrograms) -> Result<Vec<BpfProgram>, String> {
    let mut refused = seccomp::always(&[
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_io_uring_setup,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_keyctl,
        libc::SYS_bpf,
    ]);
    let mut filters = Vec::new();
    match programs {
        GitPrograms::Refused => refuse_processes(&mut refused)?,
        // A result of 0 without the call.
        GitPrograms::Started => filters.push(seccomp::filter(seccomp::always(&attribute_calls()), 0)?),
    }
    filters.push(seccomp::filter(refused, libc::EPERM)?);
    // A filter cannot read its arguments; the C libraries use `clone` instead.
    filters.push(seccomp::filter(seccomp::always(&[libc::SYS_clone3]), libc::ENOSYS)?);
    if cfg!(target_arch = "x86_64") {
        filters.push(seccomp::refuse_x32());
    }
    Ok(filters)
}

/// Refuses every call that makes a process.
fn refuse_processes(refused: &mut seccomp::SyscallRules) -> Result<(), String> {
    #[cfg(target_arch = "x86_64")]
    refused.extend(seccomp::always(&[libc::SYS_fork, libc::SYS_vfork]));
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let makes_a_process =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), 0)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| error.to_string())?;
    refused.insert(libc::SYS_clone, vec![makes_a_process]);
    Ok(())
}

/// The calls that change modes, owners, times and attributes of files.
fn attribute_calls() -> Vec<i64> {
    let mut calls = vec![
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ]);
    calls
}
