//! Programs of a plan that are spoken to: how what they print and read gets from the thread that waits for them to those
//! who speak to them.
//!
//! ```text
//!  thread: start ─► Line::began ─► wait ─► Told::ended
//!                      │ Begun (streams, log, process)  │ how it ended
//!  task:            Speaks::begun ─► Pipes ─► the talk ─► Process::end
//! ```
//!
//! # Invariants
//! 1. Whoever waits for a program to begin learns it when it does not.
//! 2. [`Process::end`] returns when the whole tree of the program is dead; dropping the process kills it.
//! 3. What is kept of a talk is written to the program's log, which never makes the talk wait for long.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use actors::program::{Ended, Pipes, Process};
use async_trait::async_trait;
use domain::RootNo;
use sandbox::command;
use sandbox::command::{HowEnded, Killer, Running, Spoken};
use sync::primitives::{Mutex, lock};
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

/// How much of what a program complained of is repeated.
const COMPLAINTS_BYTES_MAX: usize = 4 << 10;

/// A program to be spoken to, for the thread that starts it and waits for it.
pub(crate) struct Line {
    began: oneshot::Sender<(Spoken, Killer)>,
    ended: watch::Sender<Option<Ended>>,
}

/// The same, for those who speak to it.
pub(crate) struct Speaks {
    began: oneshot::Receiver<(Spoken, Killer)>,
    ended: watch::Receiver<Option<Ended>>,
}

/// A new line to a program.
pub(crate) fn line() -> (Line, Speaks) {
    let (tell_began, began) = oneshot::channel();
    let (tell_ended, ended) = watch::channel(None);
    (Line { began: tell_began, ended: tell_ended }, Speaks { began, ended })
}

impl Line {
    /// It runs.
    pub(crate) fn began(self, running: &mut Running) -> Told {
        if let Some(spoken) = running.take_spoken() {
            // Nobody speaks to it any more: it reads the end.
            let _ = self.began.send((spoken, running.killer()));
        }
        Told { ended: self.ended }
    }
}

/// What the thread still has to tell.
pub(crate) struct Told {
    ended: watch::Sender<Option<Ended>>,
}

impl Told {
    /// All of it is dead.
    pub(crate) fn ended(self, ended: &command::Ended) {
        let status = match ended.how {
            HowEnded::Exited(status) => Some(format!("exit status: {status}")),
            HowEnded::Signalled(signal) => Some(format!("signal: {signal}")),
            HowEnded::TimedOut => Some("its time limit".to_owned()),
            HowEnded::Killed => None,
        };
        let complaints = ended.stderr.bounded(0, COMPLAINTS_BYTES_MAX);
        let _ = self.ended.send(Some(Ended { status, complaints }));
    }
}

/// A program that has begun.
pub(crate) struct Begun {
    pub(crate) pipes: Pipes,
    pub(crate) log: Log,
    /// Where it sees the projects.
    pub(crate) roots: Vec<(RootNo, PathBuf)>,
}

impl Speaks {
    /// Waits until it has begun; none when it does not.
    pub(crate) async fn begun(self) -> Option<std::io::Result<Begun>> {
        let (Spoken { stdin, stdout, log, roots }, killer) = self.began.await.ok()?;
        // From here on it is killed when nobody speaks to it.
        let process = InSandbox { killer, ended: self.ended };
        let pipes = || -> std::io::Result<Pipes> {
            Ok(Pipes {
                stdin: Box::new(pipe::Sender::from_owned_fd(stdin)?),
                stdout: Box::new(pipe::Receiver::from_owned_fd(stdout)?),
                process: Box::new(process),
            })
        };
        Some(pipes().map(|pipes| Begun { pipes, log: Log(Mutex::new(File::from(log))), roots }))
    }
}

/// A program in a plan's sandbox.
struct InSandbox {
    killer: Killer,
    ended: watch::Receiver<Option<Ended>>,
}

#[async_trait]
impl Process for InSandbox {
    async fn end(&self, patience: Duration) -> Ended {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await;
        self.killer.kill();
        let ended = ended.wait_for(Option::is_some).await;
        // A thread that went away without a word has dropped the program, which kills it.
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
    }
}

impl Drop for InSandbox {
    fn drop(&mut self) {
        self.killer.kill();
    }
}

/// What is kept of a talk, in the place of the program's output.
pub(crate) struct Log(Mutex<File>);

impl Log {
    /// Adds to it. Of a program that is dead nothing more is kept.
    pub(crate) fn add(&self, text: &str) {
        let _ = lock(&self.0).write_all(text.as_bytes());
    }
}
