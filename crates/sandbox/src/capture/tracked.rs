//! Which files are in the user's git index, and where patterns outside the sandbox say what git ignores.
//!
//! # Invariants
//! Git is asked only when it matters, and again only when the index has been written since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::RelPath;
use rustix::fs::FileType;

use crate::git::{self, GitDir};
use crate::git_log::{self, GitLogError, IsOver};
use crate::listing::Stamp;

/// The repository around a project, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    project: PathBuf,
    repository: Option<(PathBuf, GitDir)>,
    index: Option<(Option<Stamp>, BTreeSet<Vec<u8>>)>,
}

impl Tracked {
    pub(crate) fn of(project: &Path) -> Tracked {
        Tracked { project: project.to_owned(), repository: GitDir::around(project), index: None }
    }

    /// The top of the working tree that the project is or lies in.
    pub(super) fn top(&self) -> Option<&Path> {
        self.repository.as_ref().map(|(top, _)| top.as_path())
    }

    /// The user's own list of what this repository ignores.
    pub(super) fn exclude_file(&self) -> Option<PathBuf> {
        self.repository.as_ref().map(|(_, git)| git.common.join("info/exclude"))
    }

    /// Whether git tracks this path.
    pub(super) fn has(&mut self, path: &RelPath) -> bool {
        self.paths().is_some_and(|paths| paths.contains(path.as_bytes()))
    }

    /// Whether git tracks anything below this path.
    pub(super) fn has_below(&mut self, dir: &RelPath) -> bool {
        self.paths().is_some_and(|paths| is_any_below(paths, dir))
    }

    /// Whether git tracks this file, or anything below this directory, by what [`ask`](Tracked::ask) was told.
    pub(super) fn has_at(&self, path: &RelPath, is_dir: bool) -> bool {
        self.index.as_ref().is_some_and(|(_, paths)| match is_dir {
            true => is_any_below(paths, path),
            false => paths.contains(path.as_bytes()),
        })
    }

    /// Asks git, unless it was asked before; whether there was time for that. What git does not say is not tracked.
    pub(super) fn ask(&mut self, is_over: &IsOver<'_>) -> bool {
        if self.index.is_some() {
            return true;
        }
        let Some(stamp) = self.stamp() else { return true };
        let mut listed = Vec::new();
        let mut command = git_log::quiet_git(&self.project);
        let asked = git_log::run(command.args(["ls-files", "-z", "--cached"]), is_over, &mut |bytes| {
            listed.extend_from_slice(bytes);
            Ok(())
        });
        match asked {
            Err(GitLogError::Stopped) => return false,
            Ok(ended) if ended.is_success => {}
            Ok(_) | Err(GitLogError::Run { .. } | GitLogError::Failed { .. }) => listed.clear(),
        }
        self.index = Some((stamp, git::paths_in(&listed)));
        true
    }

    /// Of what the index is now; none where git is not to be asked.
    fn stamp(&self) -> Option<Option<Stamp>> {
        let (_, git) = self.repository.as_ref()?;
        let stamp = rustix::fs::stat(git.own.join("index")).ok().map(|stat| Stamp::of(&stat));
        // Git would wait for whoever writes into a pipe.
        let is_pipe = stamp.is_some_and(|stamp| stamp.kind() != FileType::RegularFile);
        (!is_pipe).then_some(stamp)
    }

    /// An index that cannot be read tracks nothing.
    fn paths(&mut self) -> Option<&BTreeSet<Vec<u8>>> {
        let stamp = self.stamp()?;
        if self.index.as_ref().is_none_or(|(then, _)| *then != stamp) {
            let paths = git::list_files(&self.project, ["--cached"]).unwrap_or_default();
            self.index = Some((stamp, paths));
        }
        self.index.as_ref().map(|(_, paths)| paths)
    }
}

fn is_any_below(paths: &BTreeSet<Vec<u8>>, dir: &RelPath) -> bool {
    let below = [dir.as_bytes(), b"/"].concat();
    paths.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below))
}
