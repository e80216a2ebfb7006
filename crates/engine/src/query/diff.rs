//! The changes of a plan with contents and hunks, for review.

use domain::{
    CallNumber, CaptureOmissions, FileState, Hunk, Kind, LinesChanged, NetChange, Plan, PlanId, ProjectAlias,
    ProjectLink, RootIndex, fold, hunks, lines_changed,
};
use sandbox::capture::UNKNOWN_CONTENT;
use store::PlanStoreError;

use crate::engine::{Engine, EngineInner};
use crate::run::plan_sandbox::content::StoreContents;

/// The choice of the changes to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffRequest {
    /// Only what this call changed, against what it found.
    pub call: Option<CallNumber>,
}

/// One changed file.
#[derive(Clone, Debug)]
pub struct FileDiff {
    /// The change.
    pub change: NetChange,
    /// The address for people: its path, with the project before it if there are several.
    pub address: String,
    /// The short name of its project.
    pub alias: String,
    /// The content before; `None` if there was no file, if it is no text, or if it is not stored.
    pub before: Option<Vec<u8>>,
    /// The content after; none as `before`.
    pub after: Option<Vec<u8>>,
    /// Its parts, as `--only` and `--reject` call them.
    pub hunks: Vec<Hunk>,
    /// Lines added and removed.
    pub lines: LinesChanged,
    /// True if it is a file that has no lines.
    pub binary: bool,
    /// The part of it that could not be read when it was captured.
    pub unread: UnreadContent,
}

/// The part of a changed file that could not be read when it was captured: it is not known whether it has
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadContent {
    /// Nothing: all was read.
    Nothing,
    /// The content before the change.
    Base,
    /// The content after the change.
    Content,
}

impl UnreadContent {
    fn from_change(change: &NetChange) -> UnreadContent {
        let is_unread = |state: Option<FileState>| state.is_some_and(|state| state.hash == UNKNOWN_CONTENT);
        match (is_unread(change.before), is_unread(change.after)) {
            (false, false) => UnreadContent::Nothing,
            (true, false) => UnreadContent::Base,
            (_, true) => UnreadContent::Content,
        }
    }
}

/// The changed files of a plan, without contents: those are read file by file.
#[derive(Clone, Debug)]
pub struct ChangedFiles {
    /// The plan.
    pub plan: Plan,
    /// Each change, in order of project and path.
    pub changes: Vec<NetChange>,
    /// The files that capture left out.
    pub not_captured: CaptureOmissions,
    /// The aliases of its projects.
    pub aliases: Vec<ProjectAlias>,
}

/// The changes of a plan.
#[derive(Clone, Debug)]
pub struct DiffDetails {
    /// The plan.
    pub plan: Plan,
    /// Each file, in order of project and path.
    pub files: Vec<FileDiff>,
    /// The files that capture left out.
    pub not_captured: CaptureOmissions,
}

impl Engine {
    /// Returns the changes of the present attempt of a plan.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn diff(&self, id: PlanId, request: &DiffRequest) -> Result<DiffDetails, PlanStoreError> {
        let ChangedFiles { plan, changes, not_captured, aliases } = self.changed_files(id, request).await?;
        let files = changes.into_iter().map(|change| self.file_diff(change, &aliases)).collect();
        Ok(DiffDetails { plan, files, not_captured })
    }

    /// The same without contents and hunks, for a reader of one file after the other.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn changed_files(
        &self,
        id: PlanId,
        request: &DiffRequest,
    ) -> Result<ChangedFiles, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        let changes = match request.call {
            Some(call) => {
                let mut entries = self.inner.entries(&plan).await?;
                entries.retain(|entry| entry.call == call);
                fold(&entries)
            }
            None => self.inner.net_changes(&plan).await?,
        };
        let sandboxes = self.inner.store.sandboxes(id).await?;
        let of_attempt = sandboxes.iter().rev().find(|sandbox| sandbox.attempt == plan.attempt);
        let not_captured = of_attempt.map(|sandbox| sandbox.not_captured.clone()).unwrap_or_default();
        let aliases = aliases(&plan);
        Ok(ChangedFiles { plan, changes, not_captured, aliases })
    }

    /// One changed file, with its contents and hunks. It blocks while it reads.
    pub fn file_diff(&self, change: NetChange, aliases: &[ProjectAlias]) -> FileDiff {
        self.inner.file_diff(change, aliases)
    }

    /// Lines added and removed by these changes.
    pub(crate) fn count_lines(&self, net: &[NetChange]) -> (u64, u64) {
        let mut sum = LinesChanged::default();
        for change in net {
            let lines = self.inner.file_diff(change.clone(), &[]).lines;
            sum.insertions += lines.insertions;
            sum.deletions += lines.deletions;
        }
        (sum.insertions, sum.deletions)
    }
}

impl EngineInner {
    pub(crate) fn file_diff(&self, change: NetChange, aliases: &[ProjectAlias]) -> FileDiff {
        let stored = StoreContents(self.store.as_ref());
        let shown = |state: Option<FileState>| {
            let is_shown = |state: &FileState| state.text || state.kind == Kind::Symlink;
            state.filter(is_shown).and_then(|state| stored.read(&state.hash).ok())
        };
        let (before, after) = (shown(change.before), shown(change.after));
        let hunks = hunks(before.as_deref(), after.as_deref(), &change);
        let is_binary =
            |state: FileState| state.kind == Kind::File && !state.text && state.hash != UNKNOWN_CONTENT;
        FileDiff {
            address: domain::change_address(&change, aliases),
            alias: alias_of(aliases, change.root),
            lines: lines_changed(&hunks),
            binary: change.before.is_some_and(is_binary) || change.after.is_some_and(is_binary),
            unread: UnreadContent::from_change(&change),
            before,
            after,
            hunks,
            change,
        }
    }
}

/// Returns the aliases of the projects of a plan.
pub(crate) fn aliases(plan: &Plan) -> Vec<ProjectAlias> {
    aliases_of(&plan.projects)
}

pub(crate) fn aliases_of(projects: &[ProjectLink]) -> Vec<ProjectAlias> {
    let numbered = projects.iter().zip(0..);
    numbered.map(|(project, no)| ProjectAlias { root: RootIndex(no), alias: project.alias.clone() }).collect()
}

fn alias_of(aliases: &[ProjectAlias], root: RootIndex) -> String {
    let known = aliases.iter().find(|project| project.root == root);
    known.map(|project| project.alias.clone()).unwrap_or_default()
}
