//! Reads the newest commits of a project from git, without running anything that its configuration names.
//!
//! # Invariants
//! 1. Git runs nothing else, fetches nothing, and is ended and reaped when the caller stops it
//!    (`git::command`).
//! 2. Its output is read as it comes; no answer, however long, is held whole.
//!
//! # Not here
//! The meaning of commits: that is the index's.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use domain::{Hash, RelPath};

use super::GitDir;
pub use super::command::GitStopCheck;
use super::command::{GitCommand, GitRunError};
use crate::file_tools::read_file;
use crate::fs::beneath::open_root;
use crate::fs::regular_file::read_regular;

/// The number of bytes of a message that are stored.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A field of git's answer is never longer: a message or a path.
const FIELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The name of a commit is shorter.
const HEAD_BYTES_MAX: usize = 4096;

/// Of longer lists of packed branches git is asked.
const PACKED_REFS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The number of bytes that are read of a shallow clone's list of ends.
const SHALLOW_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The history of a project.
#[derive(Clone, Debug)]
pub struct GitHistory {
    dir: PathBuf,
    git_dir: GitDir,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitCommit {
    /// Its name, in hexadecimal digits.
    pub oid: String,
    /// When it was made, in seconds since 1970.
    pub at: i64,
    /// Its message, at most the first 4 KiB.
    pub message: String,
    /// The paths that it changed below the project; of more than were asked for one more than that.
    pub paths: Vec<RelPath>,
}

/// The newest commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitLog {
    /// The newest first, without merges.
    pub commits: Vec<GitCommit>,
    /// True if they end right before the commit that was asked for.
    pub joins: bool,
}

/// The reason that there is no history.
#[derive(Debug, thiserror::Error)]
pub enum GitLogError {
    /// Git could not be run.
    #[error("git cannot be run: {source}")]
    Run {
        /// The error of the system.
        #[from]
        source: io::Error,
    },
    /// Git said no.
    #[error("git: {message}")]
    Failed {
        /// The output of the program.
        message: String,
    },
    /// The caller no longer waits.
    #[error("git was stopped")]
    Stopped,
}

impl From<GitRunError> for GitLogError {
    fn from(error: GitRunError) -> GitLogError {
        match error {
            GitRunError::Start { source } => GitLogError::Run { source },
            GitRunError::Stopped => GitLogError::Stopped,
            GitRunError::NoFile { .. }
            | GitRunError::Stuck { .. }
            | GitRunError::TooLong { .. }
            | GitRunError::Killed { .. }
            | GitRunError::TooMuch => GitLogError::Failed { message: error.to_string() },
        }
    }
}

impl GitHistory {
    /// Returns the history of the repository that contains a project; `None` if there is none.
    pub fn around(project: &Path) -> Option<GitHistory> {
        GitDir::around(project).map(|(_, git_dir)| GitHistory { dir: project.to_owned(), git_dir })
    }

    /// The newest commit; none before the first. It is read from the repository's files if they name it
    /// plainly. So a caller that asks again and again does not start a program each time. Otherwise git is
    /// asked.
    ///
    /// # Errors
    /// Git cannot be run, says no, or was stopped.
    pub fn head(&self, is_over: &GitStopCheck<'_>) -> Result<Option<String>, GitLogError> {
        match head_in_files(&self.git_dir) {
            Some(head) => Ok(Some(head)),
            None => self.head_by_git(is_over),
        }
    }

    /// Returns the commits at which a shallow clone ends, as one mark; empty if the history is whole.
    pub fn cut_at(&self) -> String {
        match read_regular(&self.git_dir.common.join("shallow"), SHALLOW_BYTES_MAX) {
            Ok(ends) => Hash::from_content(&ends).to_string(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
            // A file that cannot be read counts as cut off somewhere.
            Err(_) => Hash::from_content(&[]).to_string(),
        }
    }

    fn head_by_git(&self, is_over: &GitStopCheck<'_>) -> Result<Option<String>, GitLogError> {
        let mut printed = Vec::new();
        let command = self.git(is_over).args(["rev-parse", "-q", "--verify", "HEAD^{commit}"]);
        let ended = command.run(&mut |bytes| {
            printed.extend_from_slice(bytes);
            match printed.len() > HEAD_BYTES_MAX {
                true => Err(GitLogError::Failed { message: "its answer cannot be parsed".to_owned() }),
                false => Ok(()),
            }
        })?;
        match (ended.is_success, ended.complaint.is_empty()) {
            (true, _) => Ok(Some(String::from_utf8_lossy(&printed).trim().to_owned())),
            // Quiet about what is not there, loud about everything else.
            (false, true) => Ok(None),
            (false, false) => Err(GitLogError::Failed { message: ended.first_line() }),
        }
    }

    /// Returns at most `commits_max` commits that are no merges, down to `stop_at`, which is not among them.
    /// If `stop_at` is not an ancestor of HEAD, it does not end the list. Of each commit at most `paths_max`
    /// paths and one are returned.
    ///
    /// # Errors
    /// Git cannot be run, says no, or was stopped.
    pub fn log(
        &self,
        stop_at: Option<&str>,
        commits_max: u32,
        paths_max: usize,
        is_over: &GitStopCheck<'_>,
    ) -> Result<GitLog, GitLogError> {
        let is_hex = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut ancestor = None;
        if let Some(stop_at) = stop_at.filter(is_hex) {
            let command = self.git(is_over).args(["merge-base", "--is-ancestor", stop_at, "HEAD"]);
            if command.run(&mut |_| Ok::<(), GitLogError>(()))?.is_success {
                ancestor = Some(stop_at);
            }
        }
        let mut command = self.git(is_over);
        command =
            command.args(["log", "--no-merges", "--no-renames", "--name-only", "-z", "--relative"]).args([
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--no-notes",
                "--no-mailmap",
                "--encoding=UTF-8",
                "--format=tformat:%x01%H %ct%n%B",
            ]);
        command = command.args([format!("--max-count={commits_max}"), "HEAD".to_owned()]);
        command = command.args(ancestor.map(|ancestor| format!("^{ancestor}"))).args(["--"]);
        let mut reader = LogReader { paths_max, ..LogReader::default() };
        let ended = command.run(&mut |bytes| reader.read(bytes))?;
        if !ended.is_success {
            // The commit that `HEAD` names may not exist.
            return match self.head_by_git(is_over)? {
                None => Ok(GitLog::default()),
                Some(_) => Err(GitLogError::Failed { message: ended.first_line() }),
            };
        }
        Ok(GitLog { commits: reader.commits, joins: ancestor.is_some() })
    }

    fn git<'a>(&self, is_over: &'a GitStopCheck<'a>) -> GitCommand<'a> {
        GitCommand::new(&self.dir).until(is_over)
    }
}

/// Takes git's answer apart: fields that end with NUL, each a commit or one of its paths.
#[derive(Default)]
struct LogReader {
    paths_max: usize,
    rest: Vec<u8>,
    commits: Vec<GitCommit>,
}

impl LogReader {
    fn read(&mut self, bytes: &[u8]) -> Result<(), GitLogError> {
        let mut fields = bytes.split(|byte| *byte == 0).peekable();
        while let Some(field) = fields.next() {
            self.rest.extend_from_slice(field);
            if self.rest.len() > FIELD_BYTES_MAX {
                return Err(GitLogError::Failed { message: "its answer cannot be parsed".to_owned() });
            }
            if fields.peek().is_some() {
                let whole = std::mem::take(&mut self.rest);
                self.field(&whole);
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &[u8]) {
        if let Some(commit) = commit(field) {
            self.commits.push(commit);
        } else if let Some(commit) = self.commits.last_mut()
            && commit.paths.len() <= self.paths_max
        {
            // A newline separates the message from the first path.
            let path =
                if commit.paths.is_empty() { field.strip_prefix(b"\n").unwrap_or(field) } else { field };
            commit.paths.extend(RelPath::new(path));
        }
    }
}

/// The commit that `HEAD` names, itself or by a branch with a file of its own or, without one, a line among
/// the packed ones. None if that is not all there is to it: no commit yet, links, other ways to keep
/// branches.
fn head_in_files(git_dir: &GitDir) -> Option<String> {
    let head = only_line(&read_within(&git_dir.own, "HEAD", HEAD_BYTES_MAX as u64).ok()?)?;
    match head.strip_prefix("ref: ") {
        None => commit_name(&head),
        Some(branch) if branch.starts_with("refs/heads/") => {
            match read_within(&git_dir.common, branch, HEAD_BYTES_MAX as u64) {
                Ok(text) => commit_name(&only_line(&text)?),
                Err(why) if why.kind() == io::ErrorKind::NotFound => packed(&git_dir.common, branch),
                Err(_) => None,
            }
        }
        Some(_) => None,
    }
}

fn packed(common: &Path, branch: &str) -> Option<String> {
    let refs = read_within(common, "packed-refs", PACKED_REFS_BYTES_MAX).ok()?;
    let mut named = refs.lines().filter_map(|line| line.split_once(' ')).filter(|(_, name)| *name == branch);
    named.next().and_then(|(oid, _)| commit_name(oid))
}

/// A text of one line.
fn only_line(text: &str) -> Option<String> {
    text.strip_suffix('\n').filter(|line| !line.contains('\n')).map(ToOwned::to_owned)
}

/// A file of a repository, by a name that may come from the repository: it leads nowhere else, and nothing is
/// waited for.
fn read_within(dir: &Path, name: &str, bytes_max: u64) -> io::Result<String> {
    let path = RelPath::new(name).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    let (bytes, len) = read_file(open_root(dir)?.as_fd(), &path, bytes_max)?;
    match String::from_utf8(bytes) {
        Ok(text) if text.len() as u64 == len => Ok(text),
        Ok(_) | Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "it cannot be parsed")),
    }
}

fn commit_name(text: &str) -> Option<String> {
    is_commit_name(text).then(|| text.to_owned())
}

fn is_commit_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `^A` name, time, newline, message.
fn commit(field: &[u8]) -> Option<GitCommit> {
    let text = field.strip_prefix(b"\x01")?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (oid, at) = std::str::from_utf8(&text[..end]).ok()?.split_once(' ')?;
    let message = &text[end + 1..];
    let message = &message[..message.len().min(MESSAGE_BYTES_MAX)];
    is_commit_name(oid).then_some(GitCommit {
        oid: oid.to_owned(),
        at: at.parse().ok()?,
        message: String::from_utf8_lossy(message).trim_end().to_owned(),
        paths: Vec::new(),
    })
}
