//! A running git: its input and output, its progress, and its end.
//!
//! # Invariants
//! 1. Git is ended and reaped when its handle is dropped, however that comes.
//! 2. A git that sleeps without printing, reading or using the processor waits for something that does not
//!    come, and is ended.
//!
//! # Not here
//! How it is started, and the walls around it: `git::command`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use super::{GitEnd, GitRunError, GitStopCheck};

/// The interval of the checks whether a running git is still wanted.
const LOOK_MS: i64 = 10;

/// The interval of the checks whether git makes progress.
const PROGRESS_LOOK: Duration = Duration::from_millis(100);

/// So many looks in a row may find git asleep: it waits for something that does not come.
const IDLE_LOOKS_MAX: u32 = 50;

/// The time that a git that writes has to remove its lock files before it is killed.
const END_GENTLY: Duration = Duration::from_secs(2);

/// The number of bytes of git's error output that are stored.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// Ends and reaps its process when it is dropped, however that comes.
struct GitChild {
    child: Child,
    /// True if it may have lock files to remove.
    is_gentle: bool,
}

impl GitChild {
    /// Waits for its end, at most so long; whether it has ended.
    fn wait(&mut self, time: Duration) -> bool {
        let begun = Instant::now();
        let pidfd = Pid::from_raw(self.child.id().cast_signed())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        loop {
            match self.child.try_wait() {
                Ok(None) if begun.elapsed() < time => {}
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK_MS * 1_000_000 };
            let mut fds: Vec<PollFd<'_>> = pidfd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            // However it ends, the child is asked again.
            let _ = poll(&mut fds, Some(&look));
        }
    }
}

impl Drop for GitChild {
    fn drop(&mut self) {
        // A process that has ended cannot be ended, one that was reaped not be waited for: both are what is
        // wanted.
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if self.is_gentle
            && let Some(pid) = Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = kill_process(pid, Signal::TERM);
            if self.wait(END_GENTLY) {
                return;
            }
        }
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Git leads a group of its own, of all that it has started.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A git that runs.
pub(super) struct RunningGit<'a> {
    held: GitChild,
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    to_write: &'a [u8],
    complaint: Vec<u8>,
    progress: ProgressMonitor,
    is_over: Option<&'a GitStopCheck<'a>>,
    dir: PathBuf,
}

impl<'a> RunningGit<'a> {
    /// Takes over a git that was just started in `dir`, and has `to_write` to read. One that writes has lock
    /// files to remove.
    pub(super) fn new(
        mut child: Child,
        writes: bool,
        limit: Duration,
        to_write: &'a [u8],
        is_over: Option<&'a GitStopCheck<'a>>,
        dir: PathBuf,
    ) -> io::Result<RunningGit<'a>> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let held = GitChild { child, is_gentle: writes };
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let progress = ProgressMonitor::new(&held.child, limit);
        let stdin = stdin.filter(|_| !to_write.is_empty());
        Ok(RunningGit {
            held,
            stdin,
            stdout,
            stderr,
            to_write,
            complaint: Vec::new(),
            progress,
            is_over,
            dir,
        })
    }

    /// Reads what it has printed; none at the end of all that it prints.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, GitRunError> {
        if self.stdout.is_none() && self.stderr.is_none() {
            return Ok(None);
        }
        self.check()?;
        let [is_in_ready, is_out_ready, is_err_ready] = self.ready()?;
        if is_in_ready {
            self.write();
        }
        if is_err_ready && let Some(stderr) = &mut self.stderr {
            let count = stderr.read(buffer)?;
            let left = COMPLAINT_BYTES_MAX - self.complaint.len();
            self.complaint.extend_from_slice(&buffer[..count.min(left)]);
            if count == 0 {
                self.stderr = None;
            }
        }
        let mut read = 0;
        if is_out_ready && let Some(stdout) = &mut self.stdout {
            read = stdout.read(buffer)?;
            if read == 0 {
                self.stdout = None;
            }
        }
        if is_in_ready || is_out_ready || is_err_ready {
            self.progress.note_progress();
        }
        Ok(Some(read))
    }

    fn check(&mut self) -> Result<(), GitRunError> {
        if self.is_over.is_some_and(|is_over| is_over()) {
            return Err(GitRunError::Stopped);
        }
        match self.progress.check() {
            GitHealth::Going => Ok(()),
            GitHealth::Stuck => Err(GitRunError::Stuck { dir: self.dir.clone() }),
            GitHealth::TooLong => {
                Err(GitRunError::TooLong { dir: self.dir.clone(), seconds: self.progress.limit.as_secs() })
            }
        }
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.to_write) {
            Ok(count) => self.to_write = &self.to_write[count..],
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // A git that does not read its input to the end says why in its status.
            Err(_) => self.to_write = b"",
        }
        if self.to_write.is_empty() {
            self.stdin = None;
        }
    }

    /// Waits a moment for something to be written to or read from, or to be at its end.
    fn ready(&self) -> io::Result<[bool; 3]> {
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_MS * 1_000_000 };
        let streams = [
            self.stdin.as_ref().map(|fd| (fd.as_fd(), PollFlags::OUT)),
            self.stdout.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
            self.stderr.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN)),
        ];
        let open = streams.iter().flatten();
        let mut fds: Vec<PollFd<'_>> =
            open.map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut fds, Some(&look)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut is_ready = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(streams.map(|stream| stream.is_some() && is_ready.next() == Some(true)))
    }

    /// Waits for its end.
    pub(super) fn finish(mut self) -> Result<GitEnd, GitRunError> {
        while !self.held.wait(PROGRESS_LOOK) {
            self.check()?;
        }
        let status = self.held.child.wait()?;
        if let Some(signal) = status.signal() {
            return Err(GitRunError::Killed { signal });
        }
        Ok(GitEnd {
            is_success: status.success(),
            complaint: String::from_utf8_lossy(&self.complaint).into_owned(),
        })
    }
}

/// The state of a running git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitHealth {
    Going,
    Stuck,
    TooLong,
}

/// Checks that git still makes progress: it prints, reads, or uses the processor.
struct ProgressMonitor {
    stat_file: PathBuf,
    begun: Instant,
    looked: Instant,
    limit: Duration,
    cpu_ticks: u64,
    idle_looks: u32,
}

impl ProgressMonitor {
    fn new(child: &Child, limit: Duration) -> ProgressMonitor {
        let stat_file = PathBuf::from(format!("/proc/{}/stat", child.id()));
        let now = Instant::now();
        ProgressMonitor { stat_file, begun: now, looked: now, limit, cpu_ticks: 0, idle_looks: 0 }
    }

    fn note_progress(&mut self) {
        self.idle_looks = 0;
    }

    fn check(&mut self) -> GitHealth {
        if self.looked.elapsed() < PROGRESS_LOOK {
            return GitHealth::Going;
        }
        self.looked = Instant::now();
        let stat = fs::read_to_string(&self.stat_file).unwrap_or_default();
        match sleeping_at(&stat) {
            Some(cpu_ticks) if cpu_ticks == self.cpu_ticks => self.idle_looks += 1,
            Some(cpu_ticks) => (self.cpu_ticks, self.idle_looks) = (cpu_ticks, 0),
            None => self.idle_looks = 0,
        }
        if self.idle_looks >= IDLE_LOOKS_MAX {
            GitHealth::Stuck
        } else if self.begun.elapsed() > self.limit {
            GitHealth::TooLong
        } else {
            GitHealth::Going
        }
    }
}

/// The processor time of a process that sleeps, by its line in `/proc`. One that waits for a disk does not.
fn sleeping_at(stat: &str) -> Option<u64> {
    const USER_TICKS: usize = 11;
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    if fields.first() != Some(&"S") {
        return None;
    }
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(ticks(USER_TICKS)? + ticks(USER_TICKS + 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_a_sleeping_process_is_read_whatever_its_name() {
        let line =
            |state: &str| format!("7 (a) S b) {state} 1 7 7 0 -1 4194304 1 0 0 0 12 30 0 0 20 0 1 0 5 6 7");
        assert_eq!(sleeping_at(&line("S")), Some(42));
        for other in ["R", "D", "T", "Z"] {
            assert_eq!(sleeping_at(&line(other)), None, "{other}");
        }
        assert_eq!(sleeping_at(""), None);
    }
}
