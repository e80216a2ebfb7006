//! The git commands that make a commit, and the readers of their answers.
//!
//! # Invariants
//! 1. Lists are separated by NUL, so that no file name is mistaken for two.
//!
//! # Not here
//! How git is started, and what holds it back: `git::command`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use domain::{ErrorClass, RelPath};

use super::{IndexEntries, IndexEntry};
use crate::git::command::{GitCommand, GitEnd, GitRunError};

/// The reason that git refused a request.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The directory is in no working tree.
    #[error("{} is not in a git repository", path.display())]
    NotARepository {
        /// The directory.
        path: PathBuf,
    },
    /// A branch of that name is there already.
    #[error("branch {name} already exists")]
    BranchExists {
        /// Its name.
        name: String,
    },
    /// Not a name for a branch.
    #[error("{name} is not a valid name for a branch")]
    BadBranchName {
        /// The name.
        name: String,
    },
    /// A merge is in progress: a commit now would end it.
    #[error("a merge is in progress: finish or abort it first")]
    MergeInProgress,
    /// The plan's changes cannot be separated from changes that are not committed.
    #[error("{} cannot be committed without changes that are not the plan's", paths.first().map(ToString::to_string).unwrap_or_default())]
    Conflicts {
        /// Of which files.
        paths: Vec<RelPath>,
    },
    /// The commit would change nothing.
    #[error("there is nothing to commit")]
    NothingToCommit,
    /// Another process moved the ref.
    #[error("{name} moved in the meantime")]
    RefMoved {
        /// The name of the ref.
        name: String,
    },
    /// Git said no.
    #[error("git {command}: {message}")]
    Failed {
        /// The first argument.
        command: String,
        /// The output of the program.
        message: String,
    },
    /// The program of a filter did not run, or failed.
    #[error("the filter {name} did not clean {path}: {why}")]
    Filter {
        /// The filter.
        name: String,
        /// The file.
        path: RelPath,
        /// The reason.
        why: String,
    },
    /// Git did not run to its end.
    #[error(transparent)]
    Run {
        /// Why.
        #[from]
        source: GitRunError,
    },
    /// Git could not be run, or a file for it not be written.
    #[error("git: {source}")]
    Io {
        /// The error of the system.
        #[from]
        source: io::Error,
    },
}

impl GitError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::RefMoved { .. } | Self::Failed { .. } | Self::Run { .. } | Self::Io { .. } => {
                ErrorClass::Transient
            }
            Self::NotARepository { .. }
            | Self::BranchExists { .. }
            | Self::BadBranchName { .. }
            | Self::MergeInProgress
            | Self::Conflicts { .. }
            | Self::Filter { .. }
            | Self::NothingToCommit => ErrorClass::Permanent,
        }
    }
}

/// The number of characters of git's output that an error holds.
const MESSAGE_CHARS_MAX: usize = 500;

/// Git in one directory, with one index.
#[derive(Clone, Debug)]
pub(super) struct GitRunner {
    dir: PathBuf,
    index: Option<PathBuf>,
    settings: Vec<String>,
    starts_programs: bool,
}

impl GitRunner {
    /// In a directory that is held open. It is found through the descriptor, whatever its path leads to by
    /// now.
    pub(super) fn at_fd(root: BorrowedFd<'_>) -> GitRunner {
        GitRunner {
            dir: format!("/proc/self/fd/{}", root.as_raw_fd()).into(),
            index: None,
            settings: Vec::new(),
            starts_programs: false,
        }
    }

    /// In a directory.
    pub(super) fn at(dir: &Path) -> GitRunner {
        GitRunner { dir: dir.to_owned(), index: None, settings: Vec::new(), starts_programs: false }
    }

    /// The same, with an index of its own.
    pub(super) fn with_index(&self, index: &Path) -> GitRunner {
        GitRunner { index: Some(index.to_owned()), ..self.clone() }
    }

    /// The same, with settings that override all configuration: `name=value`.
    pub(super) fn with_settings(&self, settings: impl IntoIterator<Item = String>) -> GitRunner {
        GitRunner { settings: settings.into_iter().collect(), ..self.clone() }
    }

    /// The same, which may start programs; they are in the same walls.
    pub(super) fn starting_programs(self) -> GitRunner {
        GitRunner { starts_programs: true, ..self }
    }

    /// Runs it and answers whatever it says.
    pub(super) fn output(&self, arguments: &[&str], input: &[u8]) -> Result<(GitEnd, Vec<u8>), GitError> {
        let command = GitCommand::new(&self.dir).args(arguments).writes().index(self.index.as_deref());
        let command = if self.starts_programs { command.starts_programs() } else { command };
        Ok(command.settings(&self.settings).input(input).output()?)
    }

    /// Runs it; what it prints, when it succeeds.
    pub(super) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let (end, printed) = self.output(arguments, input)?;
        if end.is_success {
            return Ok(printed);
        }
        let message = end.complaint.trim().chars().take(MESSAGE_CHARS_MAX).collect();
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

    /// The id of nothing, as long as the ids of this repository.
    pub(super) fn null_oid(&self) -> Result<String, GitError> {
        let digits = match self.line(&["rev-parse", "--show-object-format"], b"")?.as_str() {
            "sha256" => 64,
            _ => 40,
        };
        Ok("0".repeat(digits))
    }

    /// Returns the object that a name resolves to; `None` if there is no such thing.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<String>, GitError> {
        let arguments = ["rev-parse", "-q", "--verify", name];
        let (end, printed) = self.output(&arguments, b"")?;
        if end.is_success {
            return Ok(Some(String::from_utf8_lossy(&printed).trim().to_owned()));
        }
        // Quiet about a name that is not there, loud about everything else.
        if end.complaint.is_empty() {
            return Ok(None);
        }
        let message = end.complaint.trim().to_owned();
        Err(GitError::Failed { command: "rev-parse".to_owned(), message })
    }

    /// The entries of the index at and below the directory, by their path from the top. Those that are in
    /// conflict are left out.
    pub(super) fn index_entries(&self) -> Result<IndexEntries, GitError> {
        let listed = self.run(&["ls-files", "-s", "-z", "--full-name"])?;
        Ok(listed.split(|byte| *byte == 0).filter_map(staged_entry).collect())
    }

    /// The entries of a commit's tree at and below the directory, by their path from the top.
    pub(super) fn tree_entries(&self, commit: &str) -> Result<IndexEntries, GitError> {
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
