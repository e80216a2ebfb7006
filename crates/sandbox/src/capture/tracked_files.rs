//! The files in the user's git index, and the patterns outside the sandbox that git ignores by.
//!
//! # Invariants
//! 1. The index is read only when it matters, and again only when it has been written since. Git is asked
//!    only for one that this program does not read itself.
//! 2. The place of the user's own patterns is read once from git's settings. The patterns are read each time.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use domain::RelPath;
use rustix::fs::FileType;

use crate::fs::listing::FileStamp;
use crate::git;
use crate::git::command::{GitRunError, GitStopCheck};
use crate::git::index::{IndexNames, read_names};
use crate::git::{GitAnswerError, GitDir};

/// The repository around a project, if there is one.
#[derive(Debug, Default)]
pub(crate) struct TrackedRepository {
    project: PathBuf,
    repository: Option<(PathBuf, GitDir)>,
    index: Option<(Option<FileStamp>, TrackedPaths)>,
    user_excludes: OnceLock<Option<PathBuf>>,
}

/// The paths of the index below the project.
#[derive(Debug, Default)]
struct TrackedPaths {
    files: BTreeSet<Vec<u8>>,
    /// Directories of which the index says no more, each with a slash at its end.
    directories: Vec<Vec<u8>>,
}

impl TrackedPaths {
    fn has(&self, path: &RelPath) -> bool {
        let path = path.as_bytes();
        self.files.contains(path) || self.directories.iter().any(|dir| path.starts_with(dir))
    }

    fn has_below(&self, dir: &RelPath) -> bool {
        let below = [dir.as_bytes(), b"/"].concat();
        let next = self.files.range(below.clone()..).next();
        next.is_some_and(|path| path.starts_with(&below))
            || self.directories.iter().any(|dir| dir.starts_with(&below) || below.starts_with(dir))
    }
}

impl TrackedRepository {
    pub(crate) fn new(project: &Path) -> TrackedRepository {
        TrackedRepository {
            project: project.to_owned(),
            repository: GitDir::around(project),
            index: None,
            user_excludes: OnceLock::new(),
        }
    }

    /// Returns the top of the working tree that contains the project.
    pub(super) fn top(&self) -> Option<&Path> {
        self.repository.as_ref().map(|(top, _)| top.as_path())
    }

    /// The user's own lists of what git ignores: that of this repository, and that of all repositories.
    pub(super) fn exclude_files(&self) -> impl Iterator<Item = PathBuf> {
        let of_repository = self.repository.as_ref().map(|(_, git)| git.common.join("info/exclude"));
        let of_user = self.user_excludes.get_or_init(ignore::gitignore::gitconfig_excludes_path);
        of_repository.into_iter().chain(of_user.clone())
    }

    /// Returns true if git tracks this path.
    pub(super) fn has(&mut self, path: &RelPath) -> bool {
        self.paths().is_some_and(|paths| paths.has(path))
    }

    /// Returns true if git tracks anything below this path.
    pub(super) fn has_below(&mut self, dir: &RelPath) -> bool {
        self.paths().is_some_and(|paths| paths.has_below(dir))
    }

    /// Returns true if git tracks this file, or anything below this directory, by what
    /// [`ask`](TrackedRepository::ask) found.
    pub(super) fn has_at(&self, path: &RelPath, is_dir: bool) -> bool {
        self.index.as_ref().is_some_and(|(_, paths)| match is_dir {
            true => paths.has_below(path),
            false => paths.has(path),
        })
    }

    /// Returns the files that git tracks in this directory itself and that are not among `names`, by what
    /// [`ask`](TrackedRepository::ask) found.
    pub(crate) fn missing_from(&self, dir: Option<&RelPath>, names: &BTreeSet<RelPath>) -> Vec<RelPath> {
        let Some((_, paths)) = &self.index else { return Vec::new() };
        let below = dir.map(|dir| [dir.as_bytes(), b"/"].concat()).unwrap_or_default();
        let there = paths.files.range(below.clone()..).take_while(|path| path.starts_with(&below));
        let own = there.filter(|path| !path[below.len()..].contains(&b'/'));
        own.filter_map(|path| RelPath::new(path.as_slice()).ok())
            .filter(|path| !names.contains(path))
            .collect()
    }

    /// Reads the index, unless it was read before; whether there was time for that. An index that cannot be
    /// read tracks nothing.
    pub(crate) fn ask(&mut self, is_over: &GitStopCheck<'_>) -> bool {
        if self.index.is_none()
            && let Some(stamp) = self.stamp()
        {
            let Ok(paths) = self.read(is_over) else { return false };
            self.index = Some((stamp, paths));
        }
        true
    }

    /// Of what the index is now; none where there is nothing to be read.
    fn stamp(&self) -> Option<Option<FileStamp>> {
        let (_, git) = self.repository.as_ref()?;
        let stamp = rustix::fs::stat(git.own.join("index")).ok().map(|stat| FileStamp::from_stat(&stat));
        let is_pipe = stamp.is_some_and(|stamp| stamp.kind() != FileType::RegularFile);
        (!is_pipe).then_some(stamp)
    }

    fn paths(&mut self) -> Option<&TrackedPaths> {
        let stamp = self.stamp()?;
        if self.index.as_ref().is_none_or(|(then, _)| *then != stamp) {
            let paths = self.read(&|| false).unwrap_or_default();
            self.index = Some((stamp, paths));
        }
        self.index.as_ref().map(|(_, paths)| paths)
    }

    /// Returns an error if there was no time for it.
    fn read(&self, is_over: &GitStopCheck<'_>) -> Result<TrackedPaths, GitRunError> {
        let Some((top, git)) = &self.repository else { return Ok(TrackedPaths::default()) };
        match read_names(&git.own.join("index")) {
            Ok(IndexNames::Here { files, directories }) => Ok(below(top, &self.project, files, directories)),
            Ok(IndexNames::Elsewhere) => {
                match git::list_files(&self.project, &["--cached".to_owned()], is_over) {
                    Ok(files) => Ok(TrackedPaths { files, directories: Vec::new() }),
                    Err(GitAnswerError::Run(GitRunError::Stopped)) => Err(GitRunError::Stopped),
                    Err(GitAnswerError::Run(_) | GitAnswerError::Failed { .. }) => {
                        Ok(TrackedPaths::default())
                    }
                }
            }
            Err(_) => Ok(TrackedPaths::default()),
        }
    }
}

/// Returns the paths below the project from paths that begin at the top of its working tree.
fn below(top: &Path, project: &Path, files: BTreeSet<Vec<u8>>, directories: Vec<Vec<u8>>) -> TrackedPaths {
    let way = match project.strip_prefix(top) {
        Ok(way) if !way.as_os_str().is_empty() => [way.as_os_str().as_bytes(), b"/"].concat(),
        Ok(_) | Err(_) => return TrackedPaths { files, directories },
    };
    let strip = |path: &Vec<u8>| path.strip_prefix(way.as_slice()).map(<[u8]>::to_vec);
    // One that holds the project tracks all of it: every path begins with nothing.
    let inner = |dir: &Vec<u8>| if way.starts_with(dir) { Some(Vec::new()) } else { strip(dir) };
    TrackedPaths {
        files: files.iter().filter_map(strip).collect(),
        directories: directories.iter().filter_map(inner).collect(),
    }
}
