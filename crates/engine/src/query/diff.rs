//! The changes of a plan with contents and hunks, for review.

use std::collections::BTreeMap;

use domain::{
    CallNumber, CaptureOmissions, DetectedRename, FileState, Hunk, Kind, LineTag, LinesChanged, NetChange,
    Plan, PlanId, ProjectAlias, ProjectLink, RelPath, RootIndex, find_renames, fold, hunks, lines_changed,
};
use sandbox::capture::UNKNOWN_CONTENT;
use store::PlanStoreError;

use super::effective_changes::standing_at;
use crate::engine::{Engine, EngineInner};
use crate::run::plan_sandbox::content::StoreContents;

/// The choice of the changes to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffRequest {
    /// The part of the changes.
    pub range: DiffRange,
}

/// The part of a plan's changes that a diff shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffRange {
    /// All changes of the present attempt.
    #[default]
    Whole,
    /// Only those of this call, against what it found.
    Call(CallNumber),
    /// Those between two checkpoints: entries after the first, up to and with the second.
    Entries {
        /// The checkpoint before; 0 for the beginning.
        from: u64,
        /// The checkpoint after; `None` for the end.
        to: Option<u64>,
    },
    /// The difference between the results of two attempts.
    Attempts {
        /// The earlier one.
        from: u32,
        /// The later one.
        to: u32,
    },
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
    /// True if the plan has several projects.
    pub is_of_several: bool,
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
    /// Returns the changes of a plan that the request names.
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
        let changes = match request.range {
            DiffRange::Whole => self.inner.net_changes(&plan).await?,
            DiffRange::Call(call) => {
                // Also of a call that was reverted: these are its own changes.
                let mut entries = self.inner.store.entries(id, plan.attempt).await?;
                entries.retain(|entry| entry.call == call);
                fold(&entries)
            }
            DiffRange::Entries { from, to } => {
                let calls = self.inner.calls(&plan).await?;
                let entries = self.inner.store.entries(id, plan.attempt).await?;
                let earlier = standing_at(entries.clone(), &calls, from);
                let mut later = standing_at(entries, &calls, to.unwrap_or(u64::MAX));
                let is_prefix = earlier.iter().zip(&later).all(|(one, other)| one.no == other.no);
                if is_prefix && earlier.len() <= later.len() {
                    later.retain(|entry| entry.no > from);
                    fold(&later)
                } else {
                    difference(fold(&earlier), fold(&later))
                }
            }
            DiffRange::Attempts { from, to } => {
                let of = |attempt| Plan { attempt, ..plan.clone() };
                let (before, after) = (of(from), of(to));
                difference(self.inner.net_changes(&before).await?, self.inner.net_changes(&after).await?)
            }
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

    /// The renames among these changes. It blocks while it reads.
    pub fn find_renames(&self, changes: &[NetChange]) -> Vec<DetectedRename> {
        let stored = StoreContents(self.inner.store.as_ref());
        find_renames(changes, |hash| stored.read(hash).ok())
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
            is_of_several: aliases.len() > 1,
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

/// Returns the changes that lead from one result to another, of the same tree. A move shows as a removed and an
/// added file.
pub(crate) fn difference(before: Vec<NetChange>, after: Vec<NetChange>) -> Vec<NetChange> {
    type Sides = (Option<FileState>, Option<FileState>, NetChange);
    let mut sides: BTreeMap<(RootIndex, RelPath), Sides> = BTreeMap::new();
    let in_place = |change: NetChange| {
        let gone = change.from.clone().map(|from| NetChange {
            path: from,
            from: None,
            after: None,
            calls: Vec::new(),
            ..change.clone()
        });
        let here = match change.from {
            Some(_) => NetChange { from: None, before: None, ..change },
            None => change,
        };
        gone.into_iter().chain([here])
    };
    for change in before.into_iter().flat_map(in_place) {
        // A path that the later result leaves alone is as it was at first.
        let sides_of = (change.after, change.before, change.clone());
        sides.insert((change.root, change.path), sides_of);
    }
    for change in after.into_iter().flat_map(in_place) {
        let (first, last) = (change.before, change.after);
        let known = sides.entry((change.root, change.path.clone())).or_insert((first, last, change.clone()));
        known.1 = last;
        known.2.calls = change.calls;
    }
    let changed = sides.into_values().filter(|(before, after, _)| before != after);
    changed.map(|(before, after, change)| NetChange { before, after, ..change }).collect()
}

/// Returns the lines of a hunk as text, each with its sign.
pub(crate) fn hunk_text(hunk: &Hunk) -> String {
    let line = |line: &domain::HunkLine| {
        let sign = match line.tag {
            LineTag::Context => ' ',
            LineTag::Removed => '-',
            LineTag::Added => '+',
        };
        format!("{sign}{}", String::from_utf8_lossy(&line.bytes).trim_end_matches('\n'))
    };
    hunk.lines.iter().map(line).collect::<Vec<_>>().join("\n")
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
