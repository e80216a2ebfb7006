//! `--commit` and `--branch`: the plan's changes, and only those, as one commit.
//!
//! The user's staged and unstaged work stays as it is: what is committed is the plan's change merged into what `HEAD`
//! has, never what lies in the working tree.

use domain::{ApplyId, FileState, RootNo};
use sandbox::content::ContentSource;
use sandbox::git::refs;
use sandbox::git::refs::{CommitFile, CommitRequest, GitError, Onto, RefMove};
use sandbox::journal::{Bytes, Change, Image};

use super::ApplyRequest;
use super::clean_filter::IsolatedFilter;
use super::crash_recovery::Lines;
use super::merge::Wanted;
use super::transaction::{CarryError, Errand};
use crate::engine::House;
use crate::plan::create::path_of;

/// The refs that move with the files, by project.
pub(crate) type RefMoves = Vec<(RootNo, RefMove)>;

/// What is wanted of git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GitWish {
    /// Nothing: the changes stay uncommitted in the working tree.
    Nothing,
    /// A commit with this message on the branch that is checked out.
    Commit { message: String },
    /// A commit with this message on a new branch; the working tree stays as it is.
    Branch { name: String, message: String },
}

impl GitWish {
    pub(crate) fn of(request: &ApplyRequest) -> Self {
        match (&request.branch, &request.commit) {
            (Some(name), message) => {
                Self::Branch { name: name.clone(), message: message.clone().unwrap_or_default() }
            }
            (None, Some(message)) => Self::Commit { message: message.clone() },
            (None, None) => Self::Nothing,
        }
    }
}

/// The files that are still to be written, and the refs that move with them.
pub(crate) fn git_refs(
    house: &House,
    errand: &Errand<'_>,
    contents: &dyn ContentSource,
    apply: ApplyId,
    changes: Vec<Change>,
) -> Result<(Vec<Change>, RefMoves), CarryError> {
    let (onto, message, changes) = match &errand.git {
        GitWish::Nothing => return Ok((changes, errand.refs.clone())),
        GitWish::Commit { message } => (Onto::Head, message, changes),
        GitWish::Branch { name, message } => (Onto::NewBranch(name.clone()), message, Vec::new()),
    };
    let message = if message.is_empty() { &errand.plan.title } else { message };
    let mut refs = errand.refs.clone();
    for (project, no) in errand.plan.projects.iter().zip(0..) {
        let root = RootNo(no);
        let files: Vec<CommitFile> =
            errand.wanted.iter().filter(|wanted| wanted.change.root == root).flat_map(commit_files).collect();
        if files.is_empty() {
            continue;
        }
        let scratch = house.options.data_dir.join(format!("commit-{apply}-{no}"));
        let cleaner = IsolatedFilter { house, plan: errand.plan, logs: scratch.join("filter") };
        let request = CommitRequest {
            root: &path_of(&project.root),
            onto: onto.clone(),
            message,
            files: &files,
            content: contents,
            merger: &Lines,
            cleaner: &cleaner,
            scratch: &scratch,
        };
        let moved = refs::commit(&request).map_err(|error| git_error(errand, error))?;
        refs.push((root, moved));
    }
    Ok((changes, refs))
}

fn commit_files(wanted: &Wanted) -> Vec<CommitFile> {
    let image =
        |state: Option<FileState>, bytes: Bytes| state.map(|state| Image { state, bytes, attributes: None });
    let change = &wanted.change;
    let before = image(change.before, Bytes::Content);
    let after = match &wanted.content {
        Some(content) => image(change.after, Bytes::Here(content.clone())),
        None => image(change.after, Bytes::Content),
    };
    match &change.from {
        None => vec![CommitFile { path: change.path.clone(), before, after }],
        Some(from) => vec![
            CommitFile { path: from.clone(), before, after: None },
            CommitFile { path: change.path.clone(), before: None, after },
        ],
    }
}

fn git_error(errand: &Errand<'_>, error: GitError) -> CarryError {
    if let GitError::BranchExists { name } = error {
        return CarryError::BranchExists { name };
    }
    CarryError::Failed { plan: errand.plan.id, why: error.to_string() }
}
