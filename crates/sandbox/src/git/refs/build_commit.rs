//! A commit of a plan's changes, and of nothing else.
//!
//! Each file is merged three ways: the state that the plan found, that of `HEAD`, and the one that the plan
//! left. So edits that the user has not committed, staged or not, do not enter the commit. The user's staged
//! files are merged once more with the result, to be put into the index when the ref moves.
//!
//! # Invariants
//! 1. Only objects are added to the repository; the index that the tree is built in is a file of ours.
//! 2. When it returns, the objects are on disk.
//!
//! # Not here
//! Making blobs of contents ([`super::blobs`]). Hooks and signatures: git's plumbing knows neither. The
//! author is the one that git's configuration names.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use domain::{RelPath, is_text};

use super::blobs::{CleanFilter, IndexChange};
use super::program::{GitError, GitRunner};
use super::{IndexEntries, IndexEntry, IndexMove, RefMove, set_entries};
use crate::content::ContentSource;
use crate::journal::{FileImage, Merger};

/// The plan's change to one file.
#[derive(Clone, Debug)]
pub struct CommitFile {
    /// The path from the project's root.
    pub path: RelPath,
    /// The state that the plan found.
    pub before: Option<FileImage>,
    /// The state that the plan left.
    pub after: Option<FileImage>,
}

/// The branch that the commit goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitTarget {
    /// The branch that is checked out, or `HEAD` itself when it is detached.
    Head,
    /// A new branch of this name, which begins at `HEAD`.
    NewBranch(String),
}

/// The inputs of a commit.
pub struct CommitRequest<'a> {
    /// The project's root, somewhere in a working tree.
    pub root: &'a Path,
    /// The branch that it goes to.
    pub onto: CommitTarget,
    /// The message.
    pub message: &'a str,
    /// The files. Directories play no part: git knows none.
    pub files: &'a [CommitFile],
    /// The source of contents.
    pub content: &'a dyn ContentSource,
    /// Merges texts.
    pub merger: &'a dyn Merger,
    /// Runs the programs of filters.
    pub cleaner: &'a dyn CleanFilter,
    /// A directory that is not there yet, for files of ours. It is removed at the end.
    pub scratch: &'a Path,
}

impl std::fmt::Debug for CommitRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitRequest")
            .field("root", &self.root)
            .field("onto", &self.onto)
            .finish_non_exhaustive()
    }
}

/// Makes the commit, and says which ref is to be moved to it.
///
/// # Errors
/// [`GitError::Conflicts`] if the plan's changes cannot be separated from others, [`GitError::BranchExists`],
/// [`GitError::NothingToCommit`]. Nothing but unreferenced objects is left.
pub fn commit(request: &CommitRequest<'_>) -> Result<RefMove, GitError> {
    let git = GitRunner::at(request.root);
    let prefix = prefix(&git, request.root)?;
    let head = git.resolve("HEAD^{commit}")?;
    let name = ref_name(&git, &request.onto)?;
    let scratch = ScratchDir::make(request.scratch)?;
    let building = CommitBuilder { git: &git, request, scratch: &scratch.0 };
    let in_head = match &head {
        Some(head) => git.tree_entries(head)?,
        None => IndexEntries::new(),
    };
    let changes = building.merge_with_head(&building.store_blobs(&prefix)?, &in_head)?;
    let tree = building.write_tree(head.as_deref(), &changes)?;
    if let Some(head) = &head
        && git.resolve(&format!("{head}^{{tree}}"))?.as_deref() == Some(&tree)
    {
        return Err(GitError::NothingToCommit);
    }
    let new = building.write_commit(&tree, head.as_deref())?;
    let (old, index) = match request.onto {
        CommitTarget::Head => (head, building.merge_with_index(&changes, &in_head)?),
        CommitTarget::NewBranch(_) => (None, Vec::new()),
    };
    sync_objects(&git, request.root)?;
    Ok(RefMove { name, old, new: Some(new), index })
}

/// Returns the path of the project from the top of the working tree: empty, or with a slash at the
/// end.
fn prefix(git: &GitRunner, root: &Path) -> Result<String, GitError> {
    let arguments = ["rev-parse", "--show-prefix"];
    let (end, printed) = git.output(&arguments, b"")?;
    if !end.is_success {
        return Err(GitError::NotARepository { path: root.to_owned() });
    }
    Ok(String::from_utf8_lossy(&printed).trim_end_matches('\n').to_owned())
}

fn ref_name(git: &GitRunner, onto: &CommitTarget) -> Result<String, GitError> {
    match onto {
        CommitTarget::Head => {
            if git.resolve("MERGE_HEAD")?.is_some() {
                return Err(GitError::MergeInProgress);
            }
            let (end, printed) = git.output(&["symbolic-ref", "-q", "HEAD"], b"")?;
            let name = String::from_utf8_lossy(&printed).trim().to_owned();
            Ok(if end.is_success { name } else { "HEAD".to_owned() })
        }
        CommitTarget::NewBranch(branch) => {
            let (checked, printed) = git.output(&["check-ref-format", "--branch", branch], b"")?;
            // `-` and `@{-1}` mean other branches: a new one must have the name that was asked for.
            if !checked.is_success || printed.trim_ascii_end() != branch.as_bytes() {
                return Err(GitError::BadBranchName { name: branch.clone() });
            }
            let name = format!("refs/heads/{branch}");
            match git.resolve(&name)? {
                Some(_) => Err(GitError::BranchExists { name: branch.clone() }),
                None => Ok(name),
            }
        }
    }
}

/// A commit being made.
pub(super) struct CommitBuilder<'a> {
    pub(super) git: &'a GitRunner,
    pub(super) request: &'a CommitRequest<'a>,
    pub(super) scratch: &'a Path,
}

impl CommitBuilder<'_> {
    /// Returns the entry of the commit at each path that the plan changed.
    fn merge_with_head(
        &self,
        sides: &[IndexChange],
        in_head: &IndexEntries,
    ) -> Result<ChangedEntries, GitError> {
        let mut changed = ChangedEntries::new();
        let mut conflicts = Vec::new();
        for side in sides {
            let head = in_head.get(&side.path);
            match self.merge(side.before.as_ref(), head, side.after.as_ref())? {
                Some(merged) if merged.as_ref() == head => {}
                Some(merged) => {
                    changed.insert(side.path.clone(), merged);
                }
                None => conflicts.push(side.path.clone()),
            }
        }
        if conflicts.is_empty() { Ok(changed) } else { Err(GitError::Conflicts { paths: conflicts }) }
    }

    /// Returns the changes of the user's index: staged entries that are not in the way stay staged.
    fn merge_with_index(
        &self,
        changed: &ChangedEntries,
        in_head: &IndexEntries,
    ) -> Result<Vec<IndexMove>, GitError> {
        let in_index = self.git.index_entries()?;
        let mut moves = Vec::new();
        for (path, committed) in changed {
            let staged = in_index.get(path);
            if let Some(after) = self.merge(in_head.get(path), staged, committed.as_ref())?
                && after.as_ref() != staged
            {
                moves.push(IndexMove { path: path.clone(), before: staged.cloned(), after });
            }
        }
        Ok(moves)
    }

    /// Three ways, of entries. None: they conflict.
    fn merge(
        &self,
        base: Option<&IndexEntry>,
        now: Option<&IndexEntry>,
        plan: Option<&IndexEntry>,
    ) -> Result<Option<Option<IndexEntry>>, GitError> {
        if now == base || now == plan {
            return Ok(Some(plan.cloned()));
        }
        if plan == base {
            return Ok(Some(now.cloned()));
        }
        let (Some(base), Some(now), Some(plan)) = (base, now, plan) else { return Ok(None) };
        if [base, now, plan].iter().any(|entry| !matches!(entry.mode.as_str(), "100644" | "100755")) {
            return Ok(None);
        }
        let Some(mode) = merge_values(&base.mode, &now.mode, &plan.mode) else { return Ok(None) };
        let oid = match merge_values(&base.oid, &now.oid, &plan.oid) {
            Some(oid) => oid,
            None => match self.merge_blobs(&base.oid, &now.oid, &plan.oid)? {
                Some(oid) => oid,
                None => return Ok(None),
            },
        };
        Ok(Some(Some(IndexEntry { mode, oid })))
    }

    fn merge_blobs(&self, base: &str, now: &str, plan: &str) -> Result<Option<String>, GitError> {
        let blob = |oid: &str| self.git.run(&["cat-file", "blob", oid]);
        let (base, now, plan) = (blob(base)?, blob(now)?, blob(plan)?);
        if ![&base, &now, &plan].iter().all(|bytes| is_text(bytes, bytes.len() as u64)) {
            return Ok(None);
        }
        match self.request.merger.merge(&base, &now, &plan) {
            Some(merged) => {
                self.git.line(&["hash-object", "-w", "--no-filters", "--stdin"], &merged).map(Some)
            }
            None => Ok(None),
        }
    }

    fn write_tree(&self, head: Option<&str>, changed: &ChangedEntries) -> Result<String, GitError> {
        let git = self.git.with_index(&self.scratch.join("index"));
        if let Some(head) = head {
            git.run(&["read-tree", head])?;
        }
        let changed: Vec<_> = changed.iter().map(|(path, entry)| (path, entry.as_ref())).collect();
        set_entries(&git, &changed)?;
        git.line(&["write-tree"], b"")
    }

    fn write_commit(&self, tree: &str, head: Option<&str>) -> Result<String, GitError> {
        let mut arguments = vec!["commit-tree", tree, "-F", "-"];
        if let Some(head) = head {
            arguments.extend(["-p", head]);
        }
        self.git.line(&arguments, self.request.message.as_bytes())
    }
}

/// The entries of the commit by path.
type ChangedEntries = BTreeMap<RelPath, Option<IndexEntry>>;

fn merge_values(base: &str, now: &str, plan: &str) -> Option<String> {
    if now == base || now == plan { Some(plan.to_owned()) } else { (plan == base).then(|| now.to_owned()) }
}

/// The objects are added without a sync of each; one of their file system is enough.
fn sync_objects(git: &GitRunner, root: &Path) -> Result<(), GitError> {
    let objects = git.line(&["rev-parse", "--git-path", "objects"], b"")?;
    rustix::fs::syncfs(File::open(root.join(objects))?).map_err(io::Error::from)?;
    Ok(())
}

/// A directory of ours, removed in the end.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn make(path: &Path) -> io::Result<ScratchDir> {
        DirBuilder::new().mode(0o700).create(path)?;
        Ok(ScratchDir(path.to_owned()))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // Leftovers are in the data directory and do no harm.
        drop(fs::remove_dir_all(&self.0));
    }
}
