//! `--commit` and `--branch`: the plan's changes, and only those, as one commit.
//!
//! The user's staged and unstaged work stays as it is. The commit is the plan's change merged into the
//! content of `HEAD`, never the content of the working tree.

use domain::text::truncate_chars;
use domain::{ApplyId, FileState, Plan, RootIndex};
use sandbox::content::ContentSource;
use sandbox::git::refs;
use sandbox::git::refs::{CommitFile, CommitRequest, CommitTarget, GitError, RefMove};
use sandbox::journal::{FileImage, ImageBytes, JournalChange};

use super::ApplyRequest;
use super::clean_filter::IsolatedFilter;
use super::crash_recovery::LineMerger;
use super::merge::WantedChange;
use super::transaction::{ApplyJob, TransactionError};
use crate::engine::EngineInner;
use crate::plan::create::path_of;

/// The refs that move with the files, by project.
pub(crate) type RefMoves = Vec<(RootIndex, RefMove)>;

/// The action of git that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GitAction {
    /// Nothing: the changes stay uncommitted in the working tree.
    Nothing,
    /// A commit with this message on the branch that is checked out.
    Commit { message: String },
    /// A commit with this message on a new branch; the working tree stays as it is.
    Branch { name: String, message: String },
}

impl GitAction {
    pub(crate) fn from_request(request: &ApplyRequest) -> Self {
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
    engine: &EngineInner,
    job: &ApplyJob<'_>,
    contents: &dyn ContentSource,
    apply: ApplyId,
    changes: Vec<JournalChange>,
) -> Result<(Vec<JournalChange>, RefMoves), TransactionError> {
    let (onto, message, changes) = match &job.git {
        GitAction::Nothing => return Ok((changes, job.refs.clone())),
        GitAction::Commit { message } => (CommitTarget::Head, message, changes),
        GitAction::Branch { name, message } => (CommitTarget::NewBranch(name.clone()), message, Vec::new()),
    };
    let message = if message.is_empty() { &default_message(engine, job.plan) } else { message };
    let mut refs = job.refs.clone();
    for (project, no) in job.plan.projects.iter().zip(0..) {
        let root = RootIndex(no);
        let files: Vec<CommitFile> =
            job.wanted.iter().filter(|wanted| wanted.change.root == root).flat_map(commit_files).collect();
        if files.is_empty() {
            continue;
        }
        let scratch = engine.options.data_dir.join(format!("commit-{apply}-{no}"));
        let cleaner = IsolatedFilter { engine, plan: job.plan, logs: scratch.join("filter") };
        let request = CommitRequest {
            root: &path_of(&project.root),
            onto: onto.clone(),
            message,
            files: &files,
            content: contents,
            merger: &LineMerger,
            cleaner: &cleaner,
            scratch: &scratch,
        };
        let moved = refs::commit(&request).map_err(|error| git_error(job, error))?;
        refs.push((root, moved));
    }
    Ok((changes, refs))
}

/// The characters of the first line of a message.
const SUBJECT_CHARS_MAX: usize = 72;
/// The characters of the plan's work in a message.
const WORK_CHARS_MAX: usize = 2000;

/// The message of a commit for which the user wrote none: the title, the work if the title does not say it,
/// and the plan.
fn default_message(engine: &EngineInner, plan: &Plan) -> String {
    let work = engine.redactor.redact_text(&plan.spec.render());
    let is_bare_command = plan.title == work && plan.spec.commands().next().is_some();
    let subject = if is_bare_command { format!("Run {}", plan.title) } else { plan.title.clone() };
    let shown = truncate_chars(&subject, SUBJECT_CHARS_MAX);
    let mut message = format!("{shown}\n\n");
    if shown != subject || (work != plan.title && !work.is_empty()) {
        let work = truncate_chars(&work, WORK_CHARS_MAX);
        work.lines().for_each(|line| message.push_str(&format!("    {line}\n")));
        message.push('\n');
    }
    message.push_str(&format!("Agents-Plan: {}\n", plan.id));
    message
}

fn commit_files(wanted: &WantedChange) -> Vec<CommitFile> {
    let image = |state: Option<FileState>, bytes: ImageBytes| {
        state.map(|state| FileImage { state, bytes, attributes: None })
    };
    let change = &wanted.change;
    let before = image(change.before, ImageBytes::Content);
    let after = match &wanted.content {
        Some(content) => image(change.after, ImageBytes::Here(content.clone())),
        None => image(change.after, ImageBytes::Content),
    };
    match &change.from {
        None => vec![CommitFile { path: change.path.clone(), before, after }],
        Some(from) => vec![
            CommitFile { path: from.clone(), before, after: None },
            CommitFile { path: change.path.clone(), before: None, after },
        ],
    }
}

fn git_error(job: &ApplyJob<'_>, error: GitError) -> TransactionError {
    if let GitError::BranchExists { name } = error {
        return TransactionError::BranchExists { name };
    }
    TransactionError::Failed { plan: job.plan.id, why: error.to_string() }
}
