//! Git refs that move together with the files of an apply.
//!
//! [`commit`] makes a commit of a plan's changes alone, without the user's other staged or edited files. It
//! only adds objects, which nothing points to. The ref is moved to it by the journal, as one more op: from
//! the expected old value or not at all.
//!
//! # Invariants
//! 1. A ref is compared and set by git in one step. Moving it twice is moving it once.
//! 2. Of the index only the entries that are named change, and each only from the value that was seen when
//!    the commit was made. Files that the user stages meanwhile stay staged.
//! 3. No hook runs, and no other program that the repository names, but filters, and those apart (`blobs`).
//!
//! # Not here
//! The time of the commit, and its message (crate `engine`).

mod blobs;
mod build_commit;
mod program;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::RelPath;

pub use blobs::{CleanFilter, FilterProgram};
pub use build_commit::{CommitFile, CommitRequest, CommitTarget, commit};
pub use program::GitError;
use program::GitRunner;

/// The entry of a path in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// As git writes it: `100644`, `100755`, `120000`.
    pub mode: String,
    /// The blob.
    pub oid: String,
}

/// An entry of the user's index that goes with a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexMove {
    /// The path from the top of the working tree.
    pub path: RelPath,
    /// The entry as it was.
    pub before: Option<IndexEntry>,
    /// The entry as it shall be.
    pub after: Option<IndexEntry>,
}

/// A ref that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefMove {
    /// Its full name: `refs/heads/main`, or `HEAD` when it is detached.
    pub name: String,
    /// Its old target; `None` if it is not there.
    pub old: Option<String>,
    /// Its new target; `None` if it shall go.
    pub new: Option<String>,
    /// The changes of the index that go with it.
    pub index: Vec<IndexMove>,
}

impl RefMove {
    /// The same, back.
    #[must_use]
    pub fn reversed(&self) -> RefMove {
        let index = self.index.iter().map(|entry| IndexMove {
            path: entry.path.clone(),
            before: entry.after.clone(),
            after: entry.before.clone(),
        });
        RefMove {
            name: self.name.clone(),
            old: self.new.clone(),
            new: self.old.clone(),
            index: index.collect(),
        }
    }
}

/// Returns the target of a ref; `None` if it does not exist.
///
/// # Errors
/// Git cannot say.
pub(crate) fn read_ref(root: BorrowedFd<'_>, name: &str) -> Result<Option<String>, GitError> {
    GitRunner::at_fd(root).resolve(name)
}

/// The same in a directory.
///
/// # Errors
/// Git cannot say.
pub fn ref_target(root: &Path, name: &str) -> Result<Option<String>, GitError> {
    GitRunner::at(root).resolve(name)
}

/// The hooks that `git commit` runs, and [`commit`] does not.
const COMMIT_HOOKS: [&str; 4] = ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"];

/// Returns the names of the hooks of a repository that a commit by git would run. A repository that cannot be
/// looked at has none.
pub fn commit_hooks(root: &Path) -> Vec<&'static str> {
    let git = GitRunner::at(root);
    let line = |arguments: &[&str]| git.line(arguments, b"").ok().filter(|line| !line.is_empty());
    let set = line(&["config", "--local", "--get", "core.hooksPath"]);
    let dir = match set {
        Some(set) => line(&["rev-parse", "--show-toplevel"]).map(|top| Path::new(&top).join(set)),
        None => line(&["rev-parse", "--git-common-dir"]).map(|dir| root.join(dir).join("hooks")),
    };
    let is_run = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let Some(dir) = dir else { return Vec::new() };
    COMMIT_HOOKS.into_iter().filter(|name| is_run(&dir.join(name))).collect()
}

/// The reason that a ref was not moved, or not with all that goes with it.
#[derive(Debug)]
pub(crate) struct RefMoveError {
    pub(crate) source: GitError,
    /// True if this call certainly left the ref and the index alone.
    pub(crate) is_untouched: bool,
}

/// Moves a ref, unless it is there already, and the entries of the index that go with it.
///
/// # Errors
/// [`GitError::RefMoved`] when it is somewhere else.
pub(crate) fn move_ref(root: BorrowedFd<'_>, moved: &RefMove) -> Result<(), RefMoveError> {
    let git = GitRunner::at_fd(root);
    let untouched = |source| RefMoveError { source, is_untouched: true };
    if git.resolve(&moved.name).map_err(untouched)? != moved.new {
        update_ref(&git, moved)?;
    }
    move_index(&git, &moved.index).map_err(|source| RefMoveError { source, is_untouched: false })
}

/// Sets a ref, if it is where it was.
fn update_ref(git: &GitRunner, moved: &RefMove) -> Result<(), RefMoveError> {
    let old = moved.old.as_deref().unwrap_or("");
    let updated = match &moved.new {
        Some(new) => git.run(&["update-ref", "--no-deref", "-m", "agents: apply", &moved.name, new, old]),
        None => git.run(&["update-ref", "--no-deref", "-m", "agents: undo", "-d", &moved.name, old]),
    };
    let Err(source) = updated else { return Ok(()) };
    // A git that ended by itself and failed has not moved it, also if it does not say any more where the ref
    // is.
    let is_refused = matches!(source, GitError::Failed { .. });
    Err(match git.resolve(&moved.name) {
        Ok(now) if now == moved.old => RefMoveError { source, is_untouched: true },
        Ok(now) if now == moved.new => RefMoveError { source, is_untouched: false },
        Ok(_) => {
            RefMoveError { source: GitError::RefMoved { name: moved.name.clone() }, is_untouched: false }
        }
        Err(_) => RefMoveError { source, is_untouched: is_refused },
    })
}

/// Sets the entries that are still what they were.
fn move_index(git: &GitRunner, moves: &[IndexMove]) -> Result<(), GitError> {
    if moves.is_empty() {
        return Ok(());
    }
    let now = git.index_entries()?;
    let stays = moves.iter().filter(|entry| now.get(&entry.path) == entry.before.as_ref());
    let changed: Vec<_> = stays.map(|entry| (&entry.path, entry.after.as_ref())).collect();
    set_entries(git, &changed)
}

/// Sets entries of the index; a path without one is removed.
fn set_entries(git: &GitRunner, changed: &[(&RelPath, Option<&IndexEntry>)]) -> Result<(), GitError> {
    if changed.is_empty() {
        return Ok(());
    }
    let nothing = match changed.iter().any(|(_, entry)| entry.is_none()) {
        true => git.null_oid()?,
        false => String::new(),
    };
    let mut lines = Vec::new();
    for (path, entry) in changed {
        let head = match entry {
            Some(entry) => format!("{} {}\t", entry.mode, entry.oid),
            None => format!("0 {nothing}\t"),
        };
        lines.extend([head.as_bytes(), path.as_bytes(), b"\0"].concat());
    }
    git.run_with(&["update-index", "-z", "--index-info"], &lines).map(drop)
}

/// Entries by path.
type IndexEntries = BTreeMap<RelPath, IndexEntry>;
