//! A process next to ours, for work that only a process with a single thread may do: make a user namespace,
//! or enter one.
//!
//! It shares our memory and our table of descriptors, as a thread does. So the files that it opens are ours,
//! and its result is returned as a value. It has its own root, working directory and namespaces. Starting a
//! program for the same work costs ten times as much.
//!
//! # Invariants
//! 1. The calling thread waits until the process has ended: of the two, one runs at a time.
//! 2. No signal handler runs in the process; one would run for us, in our memory, with its namespaces.
//! 3. Work that panics ends the process, not ours.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::panic::AssertUnwindSafe;

/// Plenty: the work is a handful of system calls.
const STACK_BYTES: usize = 256 * 1024;

/// The work of the process, and then its result.
struct ChildTask<W, T> {
    work: Option<W>,
    done: Option<T>,
}

/// Does `work` in a process of its own, in new namespaces of these kinds (`CLONE_NEW…`), and waits for its
/// end.
///
/// # Errors
/// The process could not be started with such namespaces, or it was killed, or the work panicked.
pub(crate) fn run<W, T>(namespaces: libc::c_int, work: W) -> io::Result<T>
where
    W: FnOnce() -> T,
{
    let mut errand = ChildTask { work: Some(work), done: None };
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let flags = namespaces | libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES;
    let ended = without_signals(|| {
        // SAFETY: one past the end of an allocation, which is where a stack that grows downwards begins.
        let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
        // SAFETY: `CLONE_VFORK` holds this thread until the process is gone, so that the stack and the errand
        // outlive it. Nothing of this thread's (its thread locals, `errno`) is used by two at a time. Locks
        // of other threads are real locks for it, since the memory is the same. It ends by returning from
        // `perform`.
        let pid =
            unsafe { libc::clone(perform::<W, T>, top.cast(), flags, (&raw mut errand).cast::<c_void>()) };
        if pid == -1 { Err(io::Error::last_os_error()) } else { wait_for(pid) }
    });
    ended?;
    errand.done.ok_or_else(|| io::Error::other("the single-threaded process was killed at its work"))
}

extern "C" fn perform<W, T>(errand: *mut c_void) -> libc::c_int
where
    W: FnOnce() -> T,
{
    // SAFETY: this is the errand of `run`, which waits.
    let errand = unsafe { &mut *errand.cast::<ChildTask<W, T>>() };
    let Some(work) = errand.work.take() else { return 1 };
    errand.done = std::panic::catch_unwind(AssertUnwindSafe(work)).ok();
    0
}

/// It has no signal for its end, so no other thread that waits for any child of ours takes it from us.
fn wait_for(pid: libc::pid_t) -> io::Result<()> {
    loop {
        // SAFETY: a child of ours, and no status is asked for.
        if unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WCLONE) } == pid {
            return Ok(());
        }
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
}

/// Blocks signals for this thread, and for the process that it starts, while `work` runs.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are written before they are read; with a valid set neither call can fail.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let done = work();
    // SAFETY: `before` was written by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_finds_and_opens_is_ours_and_its_working_directory_is_not() {
        let here = std::env::current_dir().unwrap();
        let (pid, file) = run(0, || {
            std::env::set_current_dir("/").unwrap();
            (std::process::id(), std::fs::File::open("/proc/self/stat").unwrap())
        })
        .unwrap();
        assert_ne!(pid, std::process::id());
        assert!(file.metadata().is_ok());
        assert_eq!(std::env::current_dir().unwrap(), here);
    }

    #[test]
    fn work_that_panics_or_is_killed_is_an_error_and_we_live_on() {
        assert!(run(0, || -> () { std::panic::resume_unwind(Box::new("no")) }).is_err());
        let killed = run(0, || {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        });
        assert!(killed.is_err());
    }

    #[test]
    fn many_threads_may_ask_at_once() {
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                scope.spawn(move || {
                    for number in 0..50 {
                        let text = run(0, || format!("{thread} {number}")).unwrap();
                        assert_eq!(text, format!("{thread} {number}"));
                    }
                });
            }
        });
    }

    #[test]
    fn namespaces_that_make_no_sense_are_refused() {
        let why = run(libc::CLONE_THREAD, || ()).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EINVAL));
    }
}
