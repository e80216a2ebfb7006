//! The git program: the only place that starts it.
//!
//! A repository is foreign: its configuration can name programs to run and files to read or write, and any of its files
//! can be a pipe that nobody writes to. So git runs as follows.
//!
//! # Invariants
//! 1. Git runs within [`GitWalls`]: it reaches no network, and writes nothing, or only the repository
//!    ([`GitCommand::writes`]). It starts no other program, but `git-lfs` where a commit needs it
//!    ([`GitCommand::starts_programs`]).
//! 2. Its environment is ours: all `GIT_*` are removed, and objects that a partial clone lacks are not fetched. The
//!    settings that name programs are switched off besides, so that git does not try to run them.
//! 3. Git is looked for in the absolute directories of `PATH` alone, so that no repository can put its own in place.
//! 4. Git is ended and reaped before the call returns, however that comes: when the caller does not wait any more, when
//!    it makes no progress, when it runs or prints too long. If our process is killed, git ends too.
//! 5. A repository with a pipe, a device or a socket among its principal files is not given to git.
//!
//! # Decided
//! The system's and the user's own configuration are read: they name whom to trust (`safe.directory`), what to ignore and
//! who commits, and no repository can write them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::git::GitDir;
use crate::isolation::git_walls::{GitWalls, Programs};

/// How often a running git is looked at, to see whether it is still wanted.
const LOOK_MS: i64 = 10;

/// How often it is looked at whether git makes progress.
const PROGRESS_LOOK: Duration = Duration::from_millis(100);

/// So many looks in a row may find git asleep: it waits for something that does not come.
const IDLE_LOOKS_MAX: u32 = 50;

/// The longest time for a command that reads.
const READ_TIME_MAX: Duration = Duration::from_secs(120);

/// The longest time for a command that writes: it may have many gigabytes to pack.
const WRITE_TIME_MAX: Duration = Duration::from_secs(3600);

/// How long a git that writes has to remove its lock files before it is killed.
const END_GENTLY: Duration = Duration::from_secs(2);

/// The most memory that git can fill.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// The most that is kept of what git prints.
const OUTPUT_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// How much of what git complains is kept.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// Who makes a commit and when: the user may say so for one call, as for a git of their own.
const IDENTITY: [&str; 6] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
];

/// What git is told by its environment.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    // Older versions know nothing of the variable above; every way to fetch goes through a transport.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // These stand over the configuration, which could name files to write to.
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

/// Files of a repository that git reads whatever it is asked, or nearly so.
const OWN_FILES: [&str; 4] = ["HEAD", "config.worktree", "index", "commondir"];
/// The same of what working trees share.
const COMMON_FILES: [&str; 8] = [
    "config",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
];

/// Whether nobody waits any more.
pub type IsOver<'a> = dyn Fn() -> bool + 'a;

/// Why a git command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum GitRunError {
    /// Git could not be started.
    #[error("git cannot be run: {source}")]
    Start {
        /// What the system said.
        #[from]
        source: io::Error,
    },
    /// Something that is no file lies where a repository has one.
    #[error("git is not asked, because {} is {what}: replace it by a file", path.display())]
    NoFile {
        /// Where.
        path: PathBuf,
        /// What lies there.
        what: &'static str,
    },
    /// The caller does not wait any more.
    #[error("git was stopped")]
    Stopped,
    /// Git waited for something that did not come.
    #[error("git was ended, because it waited for a file that nobody writes: look for pipes in {}", dir.display())]
    Stuck {
        /// Where it ran.
        dir: PathBuf,
    },
    /// Git took too long.
    #[error("git was ended, because it took longer than {seconds} seconds in {}", dir.display())]
    TooLong {
        /// Where it ran.
        dir: PathBuf,
        /// The limit.
        seconds: u64,
    },
    /// Git printed too much.
    #[error("git was ended, because its answer is too long")]
    TooMuch,
    /// Something else ended git.
    #[error("git was killed by signal {signal}")]
    Killed {
        /// Which signal.
        signal: i32,
    },
}

/// How a git command ended.
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
            None => "git failed without a word".to_owned(),
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
    is_over: Option<&'a IsOver<'a>>,
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
    pub(crate) fn until(mut self, is_over: &'a IsOver<'a>) -> GitCommand<'a> {
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
        let programs = if self.starts_programs { Programs::Started } else { Programs::Refused };
        let walls = GitWalls::new(&self.writable(repository.as_ref()), programs)
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
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let held = HeldGit { child, is_gentle: self.writes };
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true).map_err(io::Error::from)?;
        }
        let progress = Progress::new(&held.child, limit);
        let to_write = self.input;
        Ok(RunningGit {
            held,
            stdin: stdin.filter(|_| !to_write.is_empty()),
            stdout,
            stderr,
            to_write,
            complaint: Vec::new(),
            progress,
            is_over: self.is_over,
            dir: self.dir,
        })
    }

    /// Where it may write.
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

/// Where a directory is, also one that is named by its descriptor.
fn real_place(dir: &Path) -> PathBuf {
    let named = if dir.starts_with("/proc/self/fd") { fs::read_link(dir) } else { dir.canonicalize() };
    named.unwrap_or_else(|_| dir.to_owned())
}

/// Which git is installed.
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

/// The git program: in a directory of `PATH` that is named from the root.
fn program() -> io::Result<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAM.get_or_init(find_program).as_deref();
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it is in no directory of PATH"))
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut candidates =
        std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("git"));
    let found =
        candidates.find(|candidate| rustix::fs::access(candidate, rustix::fs::Access::EXEC_OK).is_ok())?;
    Some(behind_script(&found).unwrap_or(found))
}

/// How long a script in the place of git may take to say where git is.
const SCRIPT_WAIT: Duration = Duration::from_secs(2);

/// The program that a script in its place starts: within the walls no script could.
fn behind_script(found: &Path) -> Option<PathBuf> {
    let mut start = [0; 2];
    fs::File::open(found).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    if &start != b"#!" {
        return None;
    }
    let mut command = Command::new(found);
    remove_git_variables(&mut command, false);
    command
        .arg("--exec-path")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut script = command.spawn().ok()?;
    let until = Instant::now() + SCRIPT_WAIT;
    while script.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            let _ = script.kill();
            let _ = script.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut printed = String::new();
    script.stdout?.take(4096).read_to_string(&mut printed).ok()?;
    Some(Path::new(printed.trim_end()).join("git")).filter(|git| git.is_file())
}

/// Returns an error if something else than a file lies where git would read one.
fn refuse_pipes(git_dir: &GitDir) -> Result<(), GitRunError> {
    let own = OWN_FILES.iter().map(|name| git_dir.own.join(name));
    let common = COMMON_FILES.iter().map(|name| git_dir.common.join(name));
    for path in own.chain(common) {
        let Ok(stat) = rustix::fs::stat(&path) else { continue };
        let what = match crate::listing::kind_of(&stat) {
            rustix::fs::FileType::Fifo => "a pipe",
            rustix::fs::FileType::Socket => "a socket",
            rustix::fs::FileType::CharacterDevice | rustix::fs::FileType::BlockDevice => "a device",
            rustix::fs::FileType::RegularFile
            | rustix::fs::FileType::Directory
            | rustix::fs::FileType::Symlink
            | rustix::fs::FileType::Unknown => continue,
        };
        return Err(GitRunError::NoFile { path, what });
    }
    Ok(())
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

/// Ends and reaps its process when it is dropped, however that comes.
struct HeldGit {
    child: Child,
    /// Whether it may have lock files to remove.
    is_gentle: bool,
}

impl HeldGit {
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

impl Drop for HeldGit {
    fn drop(&mut self) {
        // A process that has ended cannot be ended, one that was reaped not be waited for: both are what is wanted.
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
struct RunningGit<'a> {
    held: HeldGit,
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    to_write: &'a [u8],
    complaint: Vec<u8>,
    progress: Progress,
    is_over: Option<&'a IsOver<'a>>,
    dir: PathBuf,
}

impl RunningGit<'_> {
    /// Reads what it has printed; none at the end of all that it prints.
    fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, GitRunError> {
        if self.stdout.is_none() && self.stderr.is_none() {
            return Ok(None);
        }
        self.look()?;
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
            self.progress.moved();
        }
        Ok(Some(read))
    }

    fn look(&mut self) -> Result<(), GitRunError> {
        if self.is_over.is_some_and(|is_over| is_over()) {
            return Err(GitRunError::Stopped);
        }
        match self.progress.look() {
            Pace::Going => Ok(()),
            Pace::Stuck => Err(GitRunError::Stuck { dir: self.dir.clone() }),
            Pace::TooLong => {
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
    fn finish(mut self) -> Result<GitEnd, GitRunError> {
        while !self.held.wait(PROGRESS_LOOK) {
            self.look()?;
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

/// How a git goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Going,
    Stuck,
    TooLong,
}

/// Whether git still makes progress: it prints, reads, or uses the processor.
struct Progress {
    stat_file: PathBuf,
    begun: Instant,
    looked: Instant,
    limit: Duration,
    cpu_ticks: u64,
    idle_looks: u32,
}

impl Progress {
    fn new(child: &Child, limit: Duration) -> Progress {
        let stat_file = PathBuf::from(format!("/proc/{}/stat", child.id()));
        let now = Instant::now();
        Progress { stat_file, begun: now, looked: now, limit, cpu_ticks: 0, idle_looks: 0 }
    }

    fn moved(&mut self) {
        self.idle_looks = 0;
    }

    fn look(&mut self) -> Pace {
        if self.looked.elapsed() < PROGRESS_LOOK {
            return Pace::Going;
        }
        self.looked = Instant::now();
        let stat = fs::read_to_string(&self.stat_file).unwrap_or_default();
        match sleeping_at(&stat) {
            Some(cpu_ticks) if cpu_ticks == self.cpu_ticks => self.idle_looks += 1,
            Some(cpu_ticks) => (self.cpu_ticks, self.idle_looks) = (cpu_ticks, 0),
            None => self.idle_looks = 0,
        }
        if self.idle_looks >= IDLE_LOOKS_MAX {
            Pace::Stuck
        } else if self.begun.elapsed() > self.limit {
            Pace::TooLong
        } else {
            Pace::Going
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

    #[test]
    fn a_pipe_among_the_files_of_a_repository_is_not_given_to_git() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("objects/info")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        for name in
            OWN_FILES.into_iter().chain(COMMON_FILES).filter(|name| !matches!(*name, "HEAD" | "commondir"))
        {
            let path = git.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            )
            .unwrap();
            let refused = GitCommand::new(dir.path()).args(["rev-parse", "HEAD"]).output();
            assert!(
                matches!(refused, Err(GitRunError::NoFile { path: found, .. }) if found == path),
                "{name}"
            );
            std::fs::remove_file(path).unwrap();
        }
    }
}
