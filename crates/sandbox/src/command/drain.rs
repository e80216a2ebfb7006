//! Drains a command's output, so that the command never waits for us.
//!
//! One thread for each stream reads the pipe into an [`OutputBuffer`] and writes a live file for those who
//! follow the command. The file grows to the bound; when more comes, it gets its beginning and its end once
//! all is over.
//!
//! # Invariants
//! 1. A thread ends when the pipe does, or once it learns that the tree is dead and the pipe is empty. A
//!    stranger that was handed the pipe cannot hold it up.
//! 2. A file that cannot be written (no space) stops the file, not the reading.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::OutputSpec;
use super::output::{Output, OutputBuffer};

/// The number of bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The threads and live files of a command that has not begun. They are made before it, so that nothing can
/// be missing once it runs.
#[derive(Debug)]
pub(crate) struct ReadyDrains {
    stdout: ReadyDrain,
    stderr: ReadyDrain,
    alive: OwnedFd,
}

/// The threads that read a command's output.
#[derive(Debug)]
pub(crate) struct Drains {
    stdout: JoinHandle<Output>,
    stderr: JoinHandle<Output>,
    /// Closed to say that the tree is dead.
    alive: OwnedFd,
}

impl Drains {
    /// Makes the live files.
    pub(crate) fn logs(spec: &OutputSpec) -> io::Result<[File; 2]> {
        std::fs::create_dir_all(&spec.dir)?;
        Ok([File::create(spec.dir.join("stdout"))?, File::create(spec.dir.join("stderr"))?])
    }

    /// Starts the threads, which wait for the pipes that they are to read.
    pub(crate) fn ready([stdout, stderr]: [File; 2], keep_bytes_max: usize) -> io::Result<ReadyDrains> {
        let (dead, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let also_dead = dead.try_clone()?;
        Ok(ReadyDrains {
            stdout: ReadyDrain::start(dead, stdout, keep_bytes_max)?,
            stderr: ReadyDrain::start(also_dead, stderr, keep_bytes_max)?,
            alive,
        })
    }

    /// Returns the output that was read. The tree has to be dead.
    pub(crate) fn finish(self) -> (Output, Output) {
        drop(self.alive);
        (joined(self.stdout), joined(self.stderr))
    }
}

impl ReadyDrains {
    /// Begins to read both pipes.
    pub(crate) fn read(self, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<Drains> {
        Ok(Drains { stdout: self.stdout.read(stdout)?, stderr: self.stderr.read(stderr)?, alive: self.alive })
    }
}

/// A thread that waits for its pipe; without one it ends.
#[derive(Debug)]
struct ReadyDrain {
    thread: JoinHandle<Output>,
    pipe: SyncSender<OwnedFd>,
}

impl ReadyDrain {
    fn start(dead: OwnedFd, log: File, keep_bytes_max: usize) -> io::Result<Self> {
        let (pipe, pipes) = sync_channel(1);
        let thread = std::thread::Builder::new().name("command-output".to_owned()).spawn(move || {
            pipes.recv().map_or_else(|_| Output::default(), |pipe| drain(&pipe, &dead, log, keep_bytes_max))
        })?;
        Ok(Self { thread, pipe })
    }

    fn read(self, pipe: OwnedFd) -> io::Result<JoinHandle<Output>> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        // The thread waits for nothing else, so it is there.
        let _ = self.pipe.send(pipe);
        Ok(self.thread)
    }
}

fn joined(thread: JoinHandle<Output>) -> Output {
    let failed = || Output::default().with_log_error(Some("the reading thread failed".to_owned()));
    thread.join().unwrap_or_else(|_| failed())
}

fn drain(pipe: &OwnedFd, dead: &OwnedFd, log: File, keep_bytes_max: usize) -> Output {
    let mut growing = OutputBuffer::new(keep_bytes_max);
    let mut log = LiveLogFile { file: log, keep_bytes_max: keep_bytes_max as u64, error: None };
    read_all(pipe, dead, |bytes| {
        log.follow(growing.total(), bytes);
        growing.push(bytes);
    });
    let head = growing.head_len();
    let output = growing.finish();
    log.finish(head, &output);
    output.with_log_error(log.error.map(|error| error.to_string()))
}

fn read_all(pipe: &OwnedFd, dead: &OwnedFd, mut take: impl FnMut(&[u8])) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => return,
            Ok(count) => take(&buffer[..count]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(pipe, PollFlags::IN), PollFd::new(dead, PollFlags::IN)];
                let polled = poll(&mut fds, None);
                // Something to read comes first: the end is only the end when nothing is left.
                if polled.is_ok() && fds[0].revents().is_empty() && !fds[1].revents().is_empty() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// The live file of a stream.
struct LiveLogFile {
    file: File,
    keep_bytes_max: u64,
    error: Option<io::Error>,
}

impl LiveLogFile {
    /// Appends what still fits.
    fn follow(&mut self, already: u64, bytes: &[u8]) {
        let room = self.keep_bytes_max.saturating_sub(already);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.attempt(|file| file.write_all(&bytes[..fits]));
    }

    /// Makes a file that could not hold everything end as the stream did.
    fn finish(&mut self, head: usize, output: &Output) {
        if !output.is_whole() {
            self.attempt(|file| {
                file.set_len(head as u64)?;
                file.seek(SeekFrom::End(0))?;
                file.write_all(&output.log_end())
            });
        }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut File) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = write(&mut self.file).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn a_stranger_that_holds_the_pipe_does_not_keep_the_end_from_coming() {
        let dir = tempfile::tempdir().unwrap();
        let spec = OutputSpec::in_dir(dir.path().join("log"));
        let (out, to_out) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (err, to_err) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let drains = Drains::ready(Drains::logs(&spec).unwrap(), 100).unwrap().read(out, err).unwrap();
        rustix::io::write(&to_out, b"all of it").unwrap();
        let (stdout, stderr) = drains.finish();
        assert_eq!((stdout.bytes(), stderr.bytes()), (b"all of it".to_vec(), Vec::new()));
        drop((to_out, to_err));
    }

    #[test]
    fn a_live_file_that_cannot_be_written_stops_only_the_file() {
        let (out, to_out) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (err, to_err) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let logs = [full(), full()];
        let drains = Drains::ready(logs, 100).unwrap().read(out, err).unwrap();
        rustix::io::write(&to_out, b"kept").unwrap();
        drop((to_out, to_err));
        let (stdout, stderr) = drains.finish();
        assert_eq!(stdout.bytes(), b"kept");
        assert!(stdout.log_error().is_some_and(|why| why.contains("space")), "{stdout:?}");
        assert_eq!(stderr.log_error(), None);
    }
}
