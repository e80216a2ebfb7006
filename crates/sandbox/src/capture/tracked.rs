//! Which files are in the user's git index, and where patterns outside the sandbox say what git ignores.
//!
//! # Invariants
//! Git is asked only when it matters, and again only when the index has been written since.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::RelPath;
use rustix::fs::FileType;

use crate::git::{self, GitDir};
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
        let below = [dir.as_bytes(), b"/"].concat();
        self.paths().is_some_and(|paths| {
            paths.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below))
        })
    }

    /// An index that cannot be read tracks nothing.
    fn paths(&mut self) -> Option<&BTreeSet<Vec<u8>>> {
        let (_, git) = self.repository.as_ref()?;
        let stamp = rustix::fs::stat(git.own.join("index")).ok().map(|stat| Stamp::of(&stat));
        // Git would wait for whoever writes into a pipe.
        if stamp.is_some_and(|stamp| stamp.kind() != FileType::RegularFile) {
            return None;
        }
        if self.index.as_ref().is_none_or(|(then, _)| *then != stamp) {
            let paths = git::list_files(&self.project, ["--cached"]).unwrap_or_default();
            self.index = Some((stamp, paths));
        }
        self.index.as_ref().map(|(_, paths)| paths)
    }
}
