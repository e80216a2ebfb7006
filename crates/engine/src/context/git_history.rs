//! The history of a project for its index: git, run by the sandbox.

use std::error::Error;
use std::path::Path;

use context::StopCheck;
use context::index::Oid;
use context::ports::{COMMIT_PATHS_MAX, Commit, CommitLog, History, PortError};
use sandbox::git::log::{GitCommit, GitHistory};

/// The history of the repository that a project is, or is in.
pub(super) struct GitCommitHistory(GitHistory);

impl GitCommitHistory {
    /// `None` if it is in none.
    pub(super) fn around(project: &Path) -> Option<GitCommitHistory> {
        GitHistory::around(project).map(GitCommitHistory)
    }
}

impl History for GitCommitHistory {
    fn head(&self, stop: &StopCheck) -> Result<Option<Oid>, PortError> {
        let head = self.0.head(&|| stop.should_stop()).map_err(not_told)?;
        Ok(head.and_then(|head| Oid::new(&head)))
    }

    fn cut_at(&self) -> String {
        self.0.cut_at()
    }

    fn log(&self, stop_at: Option<&Oid>, max: u32, stop: &StopCheck) -> Result<CommitLog, PortError> {
        let stop_at = stop_at.map(Oid::as_str);
        let log = self.0.log(stop_at, max, COMMIT_PATHS_MAX, &|| stop.should_stop()).map_err(not_told)?;
        Ok(CommitLog { commits: log.commits.into_iter().filter_map(commit).collect(), joins: log.joins })
    }
}

fn commit(commit: GitCommit) -> Option<Commit> {
    let GitCommit { oid, at, message, paths } = commit;
    Some(Commit { oid: Oid::new(&oid)?, at, message, paths })
}

fn not_told(why: impl Error + Send + Sync + 'static) -> PortError {
    PortError { message: format!("the history cannot be read: {why}"), source: Some(Box::new(why)) }
}
