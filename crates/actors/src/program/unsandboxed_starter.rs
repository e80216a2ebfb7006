//! Programs that are started as they are: no sandbox around them.
//!
//! # Invariants
//! 1. A program has a process group of its own. The group is killed while its leader cannot have been
//!    replaced by another process: before it is reaped, under the same lock.
//! 2. One thread waits for the program; it is the only one that reaps it.
//!
//! # Not here
//! Processes that leave the group: those end only inside a sandbox, which has a process namespace.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

use super::{Pipes, ProgramExit, ProgramProcess, ProgramSpec, ProgramStarter};

/// The limit of a program's error output that is retained.
const COMPLAINTS_BYTES_MAX: usize = 4 << 10;
/// The wait for the end of the error output when a process outside the group holds it open.
const COMPLAINTS_WAIT: Duration = Duration::from_secs(1);

/// Starts programs in a directory, with the variables that they are given and no others.
#[derive(Clone, Debug)]
pub struct UnsandboxedStarter {
    /// The directory.
    pub cwd: PathBuf,
    /// The variables of every program.
    pub env: Vec<(String, String)>,
}

#[async_trait]
impl ProgramStarter for UnsandboxedStarter {
    async fn start(&self, program: &ProgramSpec) -> Result<Pipes, String> {
        use std::os::unix::process::CommandExt;
        let (name, arguments) = program.argv.split_first().ok_or("no program is named")?;
        let mut command = Command::new(name);
        command.args(arguments).current_dir(&self.cwd).env_clear().process_group(0);
        command.envs(self.env.iter().chain(&program.env).map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("`{name}`: {error}"))?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = ProcessGroupGuard::new(child)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(format!("`{name}`: it has no standard streams"));
        };
        let broken = |error: std::io::Error| format!("`{name}`: {error}");
        let complaints = StderrTail::new(ChildStderr::from_std(stderr).map_err(broken)?);
        Ok(Pipes {
            stdin: Box::new(ChildStdin::from_std(stdin).map_err(broken)?),
            stdout: Box::new(ChildStdout::from_std(stdout).map_err(broken)?),
            process: Box::new(UnsandboxedProcess { running, complaints }),
        })
    }
}

struct UnsandboxedProcess {
    running: ProcessGroupGuard,
    complaints: StderrTail,
}

#[async_trait]
impl ProgramProcess for UnsandboxedProcess {
    async fn end(&self, patience: Duration) -> ProgramExit {
        let status = self.running.end(patience).await;
        ProgramExit { status, complaints: self.complaints.whole().await }
    }
}

/// A group that is killed when this is dropped.
struct ProcessGroupGuard {
    group: Arc<ProcessGroup>,
    ended: watch::Receiver<Option<String>>,
}

struct ProcessGroup {
    leader: Pid,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_reaped: bool,
    is_killed: bool,
}

impl ProcessGroupGuard {
    fn new(mut child: Child) -> Result<ProcessGroupGuard, String> {
        let leader = Pid::from_child(&child);
        let group = Arc::new(ProcessGroup { leader, state: Mutex::default() });
        let (tell, ended) = watch::channel(None);
        let of_thread = Arc::clone(&group);
        let thread = std::thread::Builder::new().name("program".to_owned()).spawn(move || {
            // Not reaped by this: its id stays its own.
            let _ = waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let status = of_thread.reap(&mut child);
            let _ = tell.send(Some(status));
        });
        let running = ProcessGroupGuard { group, ended };
        thread.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(running)
    }

    /// Ends the group and returns its status; `None` if it was killed by us.
    async fn end(&self, patience: Duration) -> Option<String> {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(patience, ended.wait_for(Option::is_some)).await;
        let was_killed = self.group.kill();
        let status = ended.wait_for(Option::is_some).await.ok()?.clone();
        if was_killed { None } else { status }
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        self.group.kill();
    }
}

impl ProcessGroup {
    /// Kills the group, and returns whether it was killed, now or before.
    fn kill(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.is_reaped {
            state.is_killed = true;
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        state.is_killed
    }

    fn reap(&self, child: &mut Child) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = kill_process_group(self.leader, Signal::KILL);
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        state.is_reaped = true;
        status
    }
}

/// The end of what a program writes to its standard error.
struct StderrTail {
    kept: Arc<Mutex<Vec<u8>>>,
    is_over: watch::Receiver<bool>,
}

impl StderrTail {
    fn new(mut stderr: ChildStderr) -> StderrTail {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (tell, is_over) = watch::channel(false);
        let of_task = Arc::clone(&kept);
        tokio::spawn(async move {
            let mut piece = [0; 1024];
            while let Ok(read @ 1..) = stderr.read(&mut piece).await {
                let mut kept = of_task.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..read]);
                let beyond = kept.len().saturating_sub(COMPLAINTS_BYTES_MAX);
                kept.drain(..beyond);
            }
            let _ = tell.send(true);
        });
        StderrTail { kept, is_over }
    }

    async fn whole(&self) -> String {
        let mut is_over = self.is_over.clone();
        let _ = tokio::time::timeout(COMPLAINTS_WAIT, is_over.wait_for(|is_over| *is_over)).await;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncBufReadExt;

    /// Longer than any test: what ends sooner ends by itself.
    const PATIENT: Duration = Duration::from_secs(60);

    fn start() -> UnsandboxedStarter {
        UnsandboxedStarter { cwd: "/".into(), env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())] }
    }

    async fn shell(line: &str) -> Pipes {
        let argv = ["sh", "-c", line].map(str::to_owned).to_vec();
        start().start(&ProgramSpec { argv, env: Vec::new() }).await.unwrap()
    }

    #[tokio::test]
    async fn the_end_of_a_program_is_the_end_of_all_that_it_started() {
        let pipes = shell("sleep 1000 & echo $!; wait").await;
        let mut lines = tokio::io::BufReader::new(pipes.stdout).lines();
        let child = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        let child =
            rustix::process::pidfd_open(Pid::from_raw(child).unwrap(), rustix::process::PidfdFlags::empty())
                .unwrap();
        assert_eq!(pipes.process.end(Duration::ZERO).await.status, None);
        // A pidfd is readable when its process is gone.
        let mut polled = [rustix::event::PollFd::new(&child, rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut polled, None).unwrap(), 1);
        assert_eq!(pipes.process.end(Duration::ZERO).await.status, None);
    }

    #[tokio::test]
    async fn a_program_that_ends_by_itself_says_how_and_what_it_complained_of() {
        let mut pipes = shell("echo no good >&2; exit 3").await;
        let mut rest = Vec::new();
        pipes.stdout.read_to_end(&mut rest).await.unwrap();
        let ended = pipes.process.end(PATIENT).await;
        assert_eq!(ended.status.as_deref(), Some("exit status: 3"));
        assert_eq!(ended.complaints, "no good\n");
    }

    #[tokio::test]
    async fn what_cannot_be_started_is_told() {
        let argv = vec!["no-such-program".to_owned()];
        let why = start().start(&ProgramSpec { argv, env: Vec::new() }).await.unwrap_err();
        assert!(why.starts_with("`no-such-program`: No such file"), "{why}");
    }
}
