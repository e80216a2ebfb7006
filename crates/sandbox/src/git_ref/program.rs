//! The git program, called so that only its arguments decide what it does.
//!
//! # Invariants
//! 1. Of `GIT_*` in our environment only who commits, and when, reaches it: it works on the directory that it is
//!    started in.
//! 2. Lists are separated by NUL, so that no file name is mistaken for two.
//! 3. No locks are taken for mere looking, no hook and no file system monitor is run, nobody is asked for a password.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use domain::{ErrorClass, RelPath};

use super::{Entries, IndexEntry};

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory is in no working tree.
    #[error("{} is not in a git repository", path.display())]
    NotARepository {
        /// Which directory.
        path: PathBuf,
    },
    /// A branch of that name is there already.
    #[error("branch {name} exists already")]
    BranchExists {
        /// Its name.
        name: String,
    },
    /// Not a name for a branch.
    #[error("{name} is not a name for a branch")]
    BadBranchName {
        /// The name.
        name: String,
    },
    /// A merge is going on: a commit now would end it.
    #[error("a merge is in progress: finish or abort it first")]
    MergeInProgress,
    /// The plan's changes cannot be told apart from changes that are not committed.
    #[error("{} cannot be committed without changes that are not the plan's", paths.first().map(ToString::to_string).unwrap_or_default())]
    Conflicts {
        /// Of which files.
        paths: Vec<RelPath>,
    },
    /// The commit would change nothing.
    #[error("there is nothing to commit")]
    NothingToCommit,
    /// Somebody moved the ref.
    #[error("{name} moved meanwhile")]
    RefMoved {
        /// Which ref.
        name: String,
    },
    /// Git said no.
    #[error("git {command}: {message}")]
    Failed {
        /// The first argument.
        command: String,
        /// What it printed.
        message: String,
    },
    /// Git could not be run, or a file for it not be written.
    #[error("git: {source}")]
    Io {
        /// What the system said.
        #[from]
        source: io::Error,
    },
}

impl GitError {
    /// How it is to be taken.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::RefMoved { .. } | Self::Failed { .. } | Self::Io { .. } => ErrorClass::Transient,
            Self::NotARepository { .. }
            | Self::BranchExists { .. }
            | Self::BadBranchName { .. }
            | Self::MergeInProgress
            | Self::Conflicts { .. }
            | Self::NothingToCommit => ErrorClass::Permanent,
        }
    }
}

/// Who makes a commit and when: the user may say so for one call, as for a git of their own.
const IDENTITY: [&str; 6] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
];

/// How much of what git prints is kept of a failure.
const MESSAGE_CHARS_MAX: usize = 500;

/// Git in one directory, with one index.
#[derive(Clone, Debug)]
pub(super) struct Program {
    dir: PathBuf,
    index: Option<PathBuf>,
}

impl Program {
    /// In a directory that is held open. It is found through the descriptor, whatever its path leads to by now.
    pub(super) fn at_fd(root: BorrowedFd<'_>) -> Program {
        Program { dir: format!("/proc/self/fd/{}", root.as_raw_fd()).into(), index: None }
    }

    /// In a directory.
    pub(super) fn at(dir: &Path) -> Program {
        Program { dir: dir.to_owned(), index: None }
    }

    /// The same, with an index of its own.
    pub(super) fn with_index(&self, index: &Path) -> Program {
        Program { dir: self.dir.clone(), index: Some(index.to_owned()) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") && !IDENTITY.iter().any(|kept| name == *kept) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.dir)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C");
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"]).args(arguments);
        command
    }

    /// Runs it and answers whatever it says.
    pub(super) fn output(&self, arguments: &[&str], input: &[u8]) -> io::Result<Output> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        // Written beside the reading: git may answer before it has read everything.
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A git that does not read its input to the end says why in its status.
                stdin.map(|mut stdin| stdin.write_all(input))
            });
            child.wait_with_output()
        })
    }

    /// Runs it; what it prints, when it succeeds.
    pub(super) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let output = self.output(arguments, input)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let message = said.trim().chars().take(MESSAGE_CHARS_MAX).collect();
        Err(GitError::Failed { command: (*arguments.first().unwrap_or(&"")).to_owned(), message })
    }

    /// The same without input.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.run_with(arguments, b"")
    }

    /// The one line that it prints.
    pub(super) fn line(&self, arguments: &[&str], input: &[u8]) -> Result<String, GitError> {
        let output = self.run_with(arguments, input)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }

    /// What a name stands for; none when there is no such thing.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>, GitError> {
        let arguments = ["rev-parse", "-q", "--verify", name];
        let output = self.output(&arguments, b"")?;
        if output.status.success() {
            return Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()));
        }
        // Quiet about a name that is not there, loud about everything else.
        if output.stderr.is_empty() {
            return Ok(None);
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(GitError::Failed { command: "rev-parse".to_owned(), message })
    }

    /// The entries of the index at and below the directory, by their path from the top. Those that are in conflict are
    /// left out.
    pub(super) fn index_entries(&self) -> Result<Entries, GitError> {
        let listed = self.run(&["ls-files", "-s", "-z", "--full-name"])?;
        Ok(listed.split(|byte| *byte == 0).filter_map(staged_entry).collect())
    }

    /// The entries of a commit's tree at and below the directory, by their path from the top.
    pub(super) fn tree_entries(&self, commit: &str) -> Result<Entries, GitError> {
        let listed = self.run(&["ls-tree", "-r", "-z", "--full-name", commit])?;
        Ok(listed.split(|byte| *byte == 0).filter_map(tree_entry).collect())
    }
}

/// `mode oid stage TAB path`.
fn staged_entry(line: &[u8]) -> Option<(RelPath, IndexEntry)> {
    let (head, path) = split_tab(line)?;
    match head.split(' ').collect::<Vec<_>>()[..] {
        [mode, oid, "0"] => Some((path, IndexEntry { mode: mode.to_owned(), oid: oid.to_owned() })),
        _ => None,
    }
}

/// `mode type oid TAB path`.
fn tree_entry(line: &[u8]) -> Option<(RelPath, IndexEntry)> {
    let (head, path) = split_tab(line)?;
    match head.split(' ').collect::<Vec<_>>()[..] {
        [mode, _, oid] => Some((path, IndexEntry { mode: mode.to_owned(), oid: oid.to_owned() })),
        _ => None,
    }
}

fn split_tab(line: &[u8]) -> Option<(&str, RelPath)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (head, path) = line.split_at(tab);
    Some((std::str::from_utf8(head).ok()?, RelPath::new(path.get(1..)?).ok()?))
}
