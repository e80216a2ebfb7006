//! Programs of a plan that communicate over pipes. Passes their streams from the thread that waits for the
//! program to the task that communicates with it.
//!
//! ```text
//!  thread: start ─► PipedStart::began ─► wait ─► PipedEnd::ended
//!                      │ PipedProcess (streams, log, process)  │ its exit
//!  task:            PipedHandle::begun ─► Pipes ─► the talk ─► Process::end
//! ```
//!
//! # Invariants
//! 1. A task that waits for a program to begin gets an error if it does not.
//! 2. [`ProgramProcess::end`] returns when the whole tree of the program is dead; dropping the process kills
//!    it.
//! 3. The record of a talk is written to the program's log, which never makes the talk wait for long.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use actors::program::{Pipes, ProgramExit, ProgramProcess};
use async_trait::async_trait;
use domain::RootIndex;
use sandbox::command;
use sandbox::command::{ExitKind, Killer, PipedStreams, RunningCommand};
use sync::primitives::{Mutex, lock};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// The maximum number of bytes of a program's error output that are repeated.
const COMPLAINTS_BYTES_MAX: usize = 4 << 10;

/// A program to be spoken to, for the thread that starts it and waits for it.
pub(crate) struct PipedStart {
    began: oneshot::Sender<(PipedStreams, Killer)>,
    ended: watch::Sender<Option<ProgramExit>>,
}

/// The same, for those who speak to it.
pub(crate) struct PipedHandle {
    began: oneshot::Receiver<(PipedStreams, Killer)>,
    ended: watch::Receiver<Option<ProgramExit>>,
}

/// A new line to a program.
pub(crate) fn line() -> (PipedStart, PipedHandle) {
    let (tell_began, began) = oneshot::channel();
    let (tell_ended, ended) = watch::channel(None);
    (PipedStart { began: tell_began, ended: tell_ended }, PipedHandle { began, ended })
}

impl PipedStart {
    /// It runs.
    pub(crate) fn began(self, running: &mut RunningCommand) -> PipedEnd {
        if let Some(spoken) = running.take_pipes() {
            // No task speaks to it any more: it reads the end.
            let _ = self.began.send((spoken, running.killer()));
        }
        PipedEnd { ended: self.ended }
    }
}

/// The end that the thread still has to report.
pub(crate) struct PipedEnd {
    ended: watch::Sender<Option<ProgramExit>>,
}

impl PipedEnd {
    /// All of it is dead.
    pub(crate) fn ended(self, ended: &command::CommandExit) {
        let status = match ended.how {
            ExitKind::Exited(status) => Some(format!("exit status: {status}")),
            ExitKind::Signalled(signal) => Some(format!("signal: {signal}")),
            ExitKind::TimedOut => Some("its time limit".to_owned()),
            ExitKind::Killed => None,
        };
        let complaints = ended.stderr.bounded(0, COMPLAINTS_BYTES_MAX);
        let _ = self.ended.send(Some(ProgramExit { status, complaints }));
    }
}

/// A program that has begun.
pub(crate) struct PipedProcess {
    pub(crate) pipes: Pipes,
    pub(crate) log: PipedLog,
    /// The paths at which it sees the projects.
    pub(crate) roots: Vec<(RootIndex, PathBuf)>,
}

impl PipedHandle {
    /// Waits until it has begun; none when it does not.
    pub(crate) async fn begun(self) -> Option<std::io::Result<PipedProcess>> {
        let (PipedStreams { stdin, stdout, log, roots }, killer) = self.began.await.ok()?;
        // From here on it is killed when no task speaks to it.
        let process = SandboxedProcess { killer, ended: self.ended };
        let pipes = || -> std::io::Result<Pipes> {
            Ok(Pipes {
                stdin: Box::new(pipe::Sender::from_owned_fd(stdin)?),
                stdout: Box::new(pipe::Receiver::from_owned_fd(stdout)?),
                process: Box::new(process),
            })
        };
        Some(pipes().map(|pipes| PipedProcess { pipes, log: PipedLog(Mutex::new(File::from(log))), roots }))
    }
}

/// A program in a plan's sandbox.
struct SandboxedProcess {
    killer: Killer,
    ended: watch::Receiver<Option<ProgramExit>>,
}

#[async_trait]
impl ProgramProcess for SandboxedProcess {
    async fn end(&self, patience: Duration) -> ProgramExit {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await;
        self.killer.kill();
        let ended = ended.wait_for(Option::is_some).await;
        // A thread that went away without a word has dropped the program, which kills it.
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
    }
}

impl Drop for SandboxedProcess {
    fn drop(&mut self) {
        self.killer.kill();
    }
}

/// The record of a talk, in the place of the program's output.
pub(crate) struct PipedLog(Mutex<File>);

impl PipedLog {
    /// Adds to the log. After the death of the program nothing more is stored.
    pub(crate) fn add(&self, text: &str) {
        let _ = lock(&self.0).write_all(text.as_bytes());
    }
}
