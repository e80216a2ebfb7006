//! The git program: the only place that starts it.
//!
//! A repository is foreign. Its configuration can name programs to run and files to read or write. Any of its
//! files can be a pipe that no process writes to. So git runs as follows.
//!
//! # Invariants
//! 1. Git runs within [`GitIsolation`]: it reaches no network, and writes nothing, or only the repository
//!    ([`GitCommand::writes`]). It starts no other program, but `git-lfs` where a commit needs it
//!    ([`GitCommand::starts_programs`]).
//! 2. Its environment is ours: all `GIT_*` are removed, and objects that a partial clone lacks are not
//!    fetched. The settings that name programs are switched off besides, so that git does not try to run
//!    them.
//! 3. Git is looked for in the absolute directories of `PATH` alone, so that no repository can put its own in
//!    place.
//! 4. Git is ended and reaped before the call returns, whatever the reason. The reason may be that the caller
//!    no longer waits, that git makes no progress, or that it runs or prints too long. If our process is
//!    killed, git ends too.
//! 5. A repository with a pipe, a device or a socket among its principal files or its packs is not given to
//!    git.
//!
//! # Decided
//! The system's and the user's own configuration are read. They name whom to trust (`safe.directory`), what
//! to ignore and who commits, and no repository can write them.

mod pipes;
mod process;
mod program;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::GitDir;
use crate::isolation::git_isolation::{GitIsolation, GitPrograms};
use pipes::refuse_pipes;
use process::RunningGit;
use program::program;

/// The longest time for a command that reads.
const READ_TIME_MAX: Duration = Duration::from_secs(120);

/// The longest time for a command that writes: it may have many gigabytes to pack.
const WRITE_TIME_MAX: Duration = Duration::from_secs(3600);

/// The most memory that git can fill.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The limit of the stored output of git.
const OUTPUT_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// The variables for the author, committer and date of a commit: the user may set them for one call, as for
/// git.
const IDENTITY: [&str; 6] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
];

/// The environment variables that are set for git.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    // Older versions know nothing of the variable above; every way to fetch goes through a transport.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // These override the configuration, which could name files to write to.
    ("GIT_TRACE2", "0"),
    ("GIT_TRACE2_EVENT", "0"),
    ("GIT_TRACE2_PERF", "0"),
    ("GIT_ADVICE", "0"),
    ("LC_ALL", "C"),
];

/// Settings that would have git run a program, write, or look further than it is asked to.
const SETTINGS: [&str; 18] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=",
    "core.askPass=",
    "core.editor=false",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.gitProxy=",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "log.showSignature=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
];

/// Returns true if no caller waits any more.
pub type GitStopCheck<'a> = dyn Fn() -> bool + 'a;

/// The reason that a git command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum GitRunError {
    /// Git could not be started.
    #[error("git cannot be run: {source}")]
    Start {
        /// The error of the system.
        #[from]
        source: io::Error,
    },
    /// Something other than a file is where a repository has a file.
    #[error("git was not run, because {} is {what}: replace it with a file", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
        /// The kind of the entry at the path.
        what: &'static str,
    },
    /// The caller does not wait any more.
    #[error("git was stopped")]
    Stopped,
    /// Git waited for something that did not come.
    #[error("git was stopped, because it waited for a file that no process writes: look for pipes in {}", dir.display())]
    Stuck {
        /// The directory in which git ran.
        dir: PathBuf,
    },
    /// Git took too long.
    #[error("git was stopped, because it took longer than {seconds} seconds in {}", dir.display())]
    TooLong {
        /// The directory in which git ran.
        dir: PathBuf,
        /// The limit.
        seconds: u64,
    },
    /// Git printed too much.
    #[error("git was stopped, because its output is too long")]
    TooMuch,
    /// Something else ended git.
    #[error("git was killed by signal {signal}")]
    Killed {
        /// The number of the signal.
        signal: i32,
    },
}

/// The result of a git command.
#[derive(Debug)]
pub(crate) struct GitEnd {
    pub(crate) is_success: bool,
    /// The first bytes of what it complained.
    pub(crate) complaint: String,
}

impl GitEnd {
    /// The first line of the complaint.
    pub(crate) fn first_line(&self) -> String {
        match self.complaint.lines().next() {
            Some(line) => line.to_owned(),
            None => "git failed without a message".to_owned(),
        }
    }
}

/// A git command.
pub(crate) struct GitCommand<'a> {
    dir: PathBuf,
    arguments: Vec<OsString>,
    index: Option<PathBuf>,
    settings: Vec<String>,
    writes: bool,
    starts_programs: bool,
    input: &'a [u8],
    is_over: Option<&'a GitStopCheck<'a>>,
}

impl<'a> GitCommand<'a> {
    /// A command in `dir` that reads.
    pub(crate) fn new(dir: &Path) -> GitCommand<'a> {
        GitCommand {
            dir: dir.to_owned(),
            arguments: Vec::new(),
            index: None,
            settings: Vec::new(),
            writes: false,
            starts_programs: false,
            input: b"",
            is_over: None,
        }
    }

    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> GitCommand<'a> {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Lets it write to the repository, and take from our environment who commits.
    pub(crate) fn writes(mut self) -> GitCommand<'a> {
        self.writes = true;
        self
    }

    /// Lets it start programs, which are in the same walls. Only for programs that are known by name.
    pub(crate) fn starts_programs(mut self) -> GitCommand<'a> {
        self.starts_programs = true;
        self
    }

    /// Gives it an index of its own.
    pub(crate) fn index(mut self, index: Option<&Path>) -> GitCommand<'a> {
        self.index = index.map(Path::to_owned);
        self
    }

    /// Sets a setting, over all that configuration files say: `name=value`.
    pub(crate) fn settings(mut self, settings: &[String]) -> GitCommand<'a> {
        self.settings.extend_from_slice(settings);
        self
    }

    /// Gives it something to read.
    pub(crate) fn input(mut self, input: &'a [u8]) -> GitCommand<'a> {
        self.input = input;
        self
    }

    /// Ends it when `is_over` says so.
    pub(crate) fn until(mut self, is_over: &'a GitStopCheck<'a>) -> GitCommand<'a> {
        self.is_over = Some(is_over);
        self
    }

    /// Runs it, and returns all that it printed.
    pub(crate) fn output(self) -> Result<(GitEnd, Vec<u8>), GitRunError> {
        let mut printed = Vec::new();
        let end = self.run(&mut |bytes| {
            printed.extend_from_slice(bytes);
            if printed.len() > OUTPUT_BYTES_MAX { Err(GitRunError::TooMuch) } else { Ok(()) }
        })?;
        Ok((end, printed))
    }

    /// Runs it, and hands on what it prints.
    pub(crate) fn run<E: From<GitRunError>>(
        self,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<GitEnd, E> {
        let mut running = self.start()?;
        let mut buffer = vec![0; 64 * 1024];
        while let Some(count) = running.read(&mut buffer)? {
            if count > 0 {
                sink(&buffer[..count])?;
            }
        }
        Ok(running.finish()?)
    }

    fn start(self) -> Result<RunningGit<'a>, GitRunError> {
        let place = real_place(&self.dir);
        let repository = GitDir::around(&place).map(|(_, git_dir)| git_dir);
        if let Some(git_dir) = &repository {
            refuse_pipes(git_dir)?;
        }
        let programs = if self.starts_programs { GitPrograms::Started } else { GitPrograms::Refused };
        let walls = GitIsolation::new(&self.writable(repository.as_ref()), programs)
            .map_err(|why| GitRunError::Start { source: io::Error::other(why) })?;
        let limit = if self.writes { WRITE_TIME_MAX } else { READ_TIME_MAX };
        let seconds = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX);
        let dies_with_us = !self.writes;
        let mut command = self.command()?;
        // SAFETY: between fork and exec only system calls are made, on memory that was there before.
        unsafe {
            command.pre_exec(move || {
                limit_process(seconds, dies_with_us)?;
                walls.raise()
            });
        }
        let child = command.spawn()?;
        Ok(RunningGit::new(child, self.writes, limit, self.input, self.is_over, self.dir)?)
    }

    /// Returns the paths that git may write.
    fn writable(&self, repository: Option<&GitDir>) -> Vec<PathBuf> {
        let mut writable = vec![PathBuf::from("/dev/null")];
        if self.writes {
            if let Some(GitDir { own, common }) = repository {
                let objects = common.join("objects");
                writable.extend([own.clone(), common.clone(), objects]);
            }
            writable.extend(self.index.as_deref().and_then(Path::parent).map(Path::to_owned));
        }
        writable
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(program()?);
        remove_git_variables(&mut command, self.writes);
        command.envs(ENVIRONMENT).current_dir(&self.dir);
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command.args(["--no-optional-locks", "--no-pager"]);
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.args(&self.arguments).process_group(0);
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// Returns the real path of a directory, also of one that is named by its descriptor.
fn real_place(dir: &Path) -> PathBuf {
    let named = if dir.starts_with("/proc/self/fd") { fs::read_link(dir) } else { dir.canonicalize() };
    named.unwrap_or_else(|_| dir.to_owned())
}

/// Returns the version of the installed git.
///
/// # Errors
/// There is none, or it does not run.
pub fn git_version() -> Result<String, GitRunError> {
    let (end, printed) = GitCommand::new(Path::new("/")).args(["--version"]).output()?;
    match end.is_success {
        true => Ok(String::from_utf8_lossy(&printed).trim().to_owned()),
        false => Err(io::Error::other(end.first_line()).into()),
    }
}

fn remove_git_variables(command: &mut Command, is_identity_kept: bool) {
    for (name, _) in std::env::vars_os() {
        let is_kept = is_identity_kept && IDENTITY.iter().any(|kept| name == *kept);
        if name.as_encoded_bytes().starts_with(b"GIT_") && !is_kept {
            command.env_remove(name);
        }
    }
}

/// Limits the process that is to become git, also for the case that ours is gone before it.
fn limit_process(seconds: u32, dies_with_us: bool) -> io::Result<()> {
    let limits = [(libc::RLIMIT_DATA, MEMORY_BYTES_MAX), (libc::RLIMIT_CORE, 0)];
    for (resource, bytes_max) in limits {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure lives during both calls, which read and write it.
        unsafe {
            if libc::getrlimit(resource, &mut limit) == 0 {
                limit.rlim_cur = limit.rlim_max.min(bytes_max);
                libc::setrlimit(resource, &limit);
            }
        }
    }
    // SAFETY: both calls touch no memory.
    unsafe {
        libc::alarm(seconds);
        // It comes when the thread that started git ends, which waits for git.
        if dies_with_us && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
