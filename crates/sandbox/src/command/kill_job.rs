//! Kills the processes that earlier owners of a job left: owners that died, and owners that are only frozen.
//!
//! An owner that was stopped past its lease holds its processes for as long as it is stopped. The process
//! that takes the job over finds them by the job's variables. Every command is given them, and the process
//! that holds a command, outside its walls, bears them too. That one is asked to end first, and ends after
//! all of its command is dead, whatever the command did to its own environment.
//!
//! # Invariants
//! 1. An owner kills processes of earlier owners, never its own or those of a later one. An owner that was
//!    stopped just before it came here does no harm to its successor when it resumes.
//! 2. The caller itself is not killed, also when it was started by a command of that job.
//! 3. When it returns without an error, no process that an earlier owner started is alive.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use super::environment::{FENCE, JOB};
use crate::isolation::process_tree::{UnkillableProcess, kill_where, variables};

/// A process of the job could not be killed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("process {pid} of an earlier owner of the job cannot be ended")]
pub struct KillJobError {
    /// Its number.
    pub pid: i32,
    /// The number of others that were killed.
    pub killed: u32,
}

/// Kills the processes of a job that owners with a smaller fence than `before` started. Waits as long as
/// `wait` until they are gone, and returns how many there were.
///
/// # Errors
/// Returns an error if one of them stays alive: it hangs in the kernel, or is another user's by now.
pub fn kill_job(job: &OsStr, before: u64, wait: Duration) -> Result<u32, KillJobError> {
    if job.is_empty() {
        return Ok(0);
    }
    let is_meant = |environ: &[u8]| value(environ, JOB) == Some(job.as_bytes()) && fence_of(environ) < before;
    kill_where(is_meant, Some(Instant::now() + wait))
        .map_err(|UnkillableProcess { killed, pid }| KillJobError { pid: pid.as_raw_nonzero().get(), killed })
}

/// One that says nothing is of the first owner there was.
fn fence_of(environ: &[u8]) -> u64 {
    let number = value(environ, FENCE).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    number.unwrap_or_default()
}

fn value<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    variables(environ).find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
