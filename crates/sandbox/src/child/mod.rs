//! The program that is run again as a child, where something must happen before any thread exists.
//!
//! A command is watched over by a process of its own, in which nothing else of the engine runs. So the
//! program starts itself again with a hidden verb as its first argument, once, and forks from there:
//! `starter`.
//!
//! # Not here
//! Work that needs a process for a moment only: `single_threaded`.
//!
//! # Invariants
//! [`dispatch`] is the first act of `main`: nothing has been started, opened or read before it.

pub(crate) mod fd_passing;
pub(crate) mod single_threaded;
mod starter;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

pub(crate) use starter::ForkedChild;

/// The program that is started again as a child. Its clones share the process that starts the children.
#[derive(Clone, Debug)]
pub struct ChildProgram {
    /// A program whose `main` begins with [`dispatch`].
    pub exe: PathBuf,
    starter: Arc<starter::StarterSlot>,
}

impl ChildProgram {
    /// The program at this path.
    pub fn new(exe: impl Into<PathBuf>) -> ChildProgram {
        ChildProgram { exe: exe.into(), starter: Arc::default() }
    }

    /// The command that starts it with `verb`.
    pub fn command(&self, verb: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg(verb);
        command
    }
}

/// This very program, even if its file has been replaced since.
impl Default for ChildProgram {
    fn default() -> ChildProgram {
        ChildProgram::new("/proc/self/exe")
    }
}

/// Does not return when this process was started as a child of this crate; otherwise returns at once.
pub fn dispatch() {
    reap_our_own_children();
    let Some(verb) = std::env::args_os().nth(1) else { return };
    if verb == crate::isolation::RUN_VERB {
        crate::isolation::child_run();
    }
    if verb == starter::START_VERB {
        starter::child_start();
    }
    if verb == crate::forwarder::FORWARD_VERB {
        crate::forwarder::child_forward();
    }
}

/// Makes children wait until we reap them. A process that ignores the end of its children passes that on to
/// the programs that it starts. The kernel would then reap our children before we see how they ended.
fn reap_our_own_children() {
    // SAFETY: no handler is installed: the default is put back, which does nothing.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// From now on no program that is started inherits a descriptor of ours but the standard ones, also none that
/// we were started with.
///
/// # Errors
/// The system cannot do it.
pub fn inherit_nothing() -> std::io::Result<()> {
    const FIRST: u32 = 3;
    // SAFETY: it closes nothing here: it marks descriptors, which stay with their owners.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
