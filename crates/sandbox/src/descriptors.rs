//! The open-file limit of this process, and the wait for room when the system has none.
//!
//! A process that runs plans raises its soft limit to the hard one: the usual 1,024 are used up by about 40
//! commands. Programs that it starts for a user get the limit back that the process was started with.
//!
//! # Invariants
//! 1. The limit is raised at most once, and the original value is never overwritten.
//! 2. Only a lack of descriptors, processes or threads is waited out. Every other error is returned at once.

use std::error::Error;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs besides its plans: the store, sockets, logs, the runtime.
const OWN_DESCRIPTORS: u64 = 64;
/// Descriptors of a plan whose command starts or is captured; one that only runs holds 16.
const PLAN_DESCRIPTORS: u64 = 24;
/// The wait before the next attempt.
const RETRY_EVERY: Duration = Duration::from_millis(50);
/// The longest wait if no command of this process runs, whose end would make room.
const LONELY_WAIT_MAX: Duration = Duration::from_secs(60);

/// The limit that this process was started with; set when it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();
/// Commands of this process that run.
static COMMANDS: AtomicUsize = AtomicUsize::new(0);

/// Raises the soft limit of open files to the hard one. A limit that cannot be raised stays as it is.
pub fn raise_limit() {
    ORIGINAL.get_or_init(|| {
        let found = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: found.maximum, maximum: found.maximum });
        found
    });
}

/// Lets `command` start with the limit that this process was started with.
pub fn restore_limit(command: &mut Command) {
    if let Some(original) = original() {
        // SAFETY: the closure makes one system call and allocates nothing, as a process between fork and exec
        // must.
        unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, original)?)) };
    }
}

/// The limit that this process was started with; `None` if it was never raised.
fn original() -> Option<Rlimit> {
    ORIGINAL.get().cloned()
}

/// The soft limit that a command in a sandbox has to get; `None` if this process never raised its own.
pub(crate) fn original_soft_limit() -> Option<u64> {
    original().and_then(|original| original.current)
}

/// Sets the soft limit of this process, which becomes a command.
pub(crate) fn lower_limit(soft: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum })?)
}

/// The number of plans that this process can run at once within its limit; at least 1.
pub fn plans_at_once_max() -> usize {
    let Some(limit) = open_files_max() else { return usize::MAX };
    let plans = limit.saturating_sub(OWN_DESCRIPTORS) / PLAN_DESCRIPTORS;
    usize::try_from(plans).unwrap_or(usize::MAX).max(1)
}

/// The number of files that this process may have open; `None` if there is no limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns true if the system had no descriptor, process or thread left. It may have one when another command
/// has ended.
pub fn is_exhausted(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.and_then(Errno::from_io_error).is_some_and(is_exhaustion) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns true if this error of the system says that something has run out.
pub(crate) fn is_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::AGAIN)
}

/// Waits until this process can open what one more sandbox or command needs, or `is_over`.
///
/// # Errors
/// There is no room, and no command of this process runs that could make some.
pub fn wait_for_room(is_over: impl Fn() -> bool) -> io::Result<()> {
    with_room(is_over, || {
        let first = std::fs::File::open("/dev/null")?;
        let more = (1..PLAN_DESCRIPTORS).map(|_| first.try_clone());
        more.collect::<io::Result<Vec<_>>>().map(drop)
    })
}

/// Calls `attempt` until the system has room for it. Gives up when `is_over`, and when no command of this
/// process runs that could make room; then returns the last error.
///
/// # Errors
/// Those of `attempt`.
pub fn with_room<T, E: Error + 'static>(
    is_over: impl Fn() -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut lonely_since = None;
    loop {
        let error = match attempt() {
            Err(error) if is_exhausted(&error) => error,
            other => return other,
        };
        if COMMANDS.load(Ordering::Relaxed) > 0 {
            lonely_since = None;
        } else if lonely_since.get_or_insert_with(Instant::now).elapsed() > LONELY_WAIT_MAX {
            return Err(error);
        }
        if is_over() {
            return Err(error);
        }
        std::thread::sleep(RETRY_EVERY);
    }
}

/// A command that runs: counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedCommand(());

impl CountedCommand {
    pub(crate) fn new() -> CountedCommand {
        COMMANDS.fetch_add(1, Ordering::Relaxed);
        CountedCommand(())
    }
}

impl Drop for CountedCommand {
    fn drop(&mut self) {
        COMMANDS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the command cannot be started")]
    struct Wrapped(#[source] io::Error);

    fn wrapped(errno: Errno) -> Wrapped {
        Wrapped(errno.into())
    }

    #[test]
    fn only_a_lack_of_room_is_waited_out() {
        let mut failures = vec![Errno::AGAIN, Errno::NFILE, Errno::MFILE];
        let done = with_room(|| false, || failures.pop().map_or(Ok("room"), |errno| Err(wrapped(errno))));
        assert_eq!(done.unwrap(), "room");
        let mut attempts = 0;
        let failed = with_room(
            || false,
            || {
                attempts += 1;
                Err::<(), _>(wrapped(Errno::NOENT))
            },
        );
        assert_eq!((failed.is_err(), attempts), (true, 1));
    }

    #[test]
    fn a_wait_for_room_ends_with_its_run() {
        let failed = with_room(|| true, || Err::<(), _>(wrapped(Errno::MFILE)));
        assert!(is_exhausted(&failed.unwrap_err()));
    }

    #[test]
    fn one_plan_runs_however_low_the_limit_is() {
        assert!(plans_at_once_max() >= 1);
    }
}
