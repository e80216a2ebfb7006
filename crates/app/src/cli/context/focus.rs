//! The explicit focus of a request, as it is typed: `PATH`, `PATH:FROM-TO`, `ALIAS:PATH` or a symbol.
//!
//! # Invariants
//! 1. A path is in one of the projects, by its words or where it leads, or is refused: it is never searched
//!    for elsewhere.
//! 2. A word is a path if it has a slash or lines, or if there is such a file, of the plan too. Otherwise it
//!    is a symbol.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use domain::context::Focus;
use domain::{RelPath, RootIndex};
use engine::context::InspectTarget;

use crate::errors::{CommandError, codes, hints};

/// The files that a request looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewedFiles {
    /// Those that lie there.
    OnDisk,
    /// Those of a plan, which may have made a file of a folder.
    ByPlan,
}

/// The places where paths are looked up.
pub(super) struct FocusPaths<'a> {
    /// The user's directory.
    pub(super) here: &'a Path,
    /// The projects, in order: what they are called, and where they lie.
    pub(super) roots: &'a [(String, PathBuf)],
    /// Whose files they are.
    pub(super) seen: ViewedFiles,
    /// The paths that the plan changed, if they are a plan's.
    pub(super) changed: &'a [PathBuf],
}

impl FocusPaths<'_> {
    /// Returns the focus that a word names.
    ///
    /// # Errors
    /// Returns an error if it is a path in no project, or no path at all, or if its lines do not exist.
    pub(super) fn focus(&self, word: &str) -> Result<Focus, CommandError> {
        if let Some((path, from, to)) = with_lines(word) {
            if from == 0 || to < from {
                let message =
                    format!("`{word}` names no lines: they are counted from 1, the first before the last");
                return Err(CommandError::new(&codes::USAGE, message));
            }
            let (no, path) = self.path(path)?;
            return Ok(Focus::Lines(no, path, from, to));
        }
        match self.is_path(word) {
            true => self.path(word).map(|(no, path)| Focus::Path(no, path)),
            false => Ok(Focus::Symbol(word.to_owned())),
        }
    }

    /// Returns the target that a word without lines names.
    ///
    /// # Errors
    /// As [`FocusPaths::focus`].
    pub(super) fn sought(&self, word: &str) -> Result<InspectTarget, CommandError> {
        match self.is_path(word) {
            true => self.path(word).map(|(no, path)| InspectTarget::Path(no, path)),
            false => Ok(InspectTarget::Symbol(word.to_owned())),
        }
    }

    fn is_path(&self, word: &str) -> bool {
        let is_there = |base: &Path| self.is_there(&plain(&base.join(word)));
        word.contains('/')
            || self.named(word).is_some()
            || is_there(self.here)
            || self.roots.iter().any(|(_, root)| is_there(root))
    }

    fn is_there(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok() || self.changed.iter().any(|changed| changed == path)
    }

    /// The project that `ALIAS:path` names, and the path.
    fn named<'w>(&self, word: &'w str) -> Option<(usize, &'w str)> {
        let (alias, path) = word.split_once(':')?;
        let at = self.roots.iter().position(|(known, _)| known == alias)?;
        (!path.is_empty() && !path.starts_with(':')).then_some((at, path))
    }

    /// Resolves a path as typed: from the user's directory, else from a project's root. Returns the first
    /// that exists, else the first in a project.
    fn path(&self, word: &str) -> Result<(RootIndex, RelPath), CommandError> {
        if word.is_empty() {
            return Err(CommandError::new(
                &codes::USAGE,
                "a focus is a path or the name of a definition, and not empty",
            ));
        }
        let candidates: Vec<PathBuf> = match self.named(word) {
            Some((at, path)) => vec![plain(&self.roots[at].1.join(path))],
            None => {
                let roots = self.roots.iter().map(|(_, root)| root.as_path());
                std::iter::once(self.here).chain(roots).map(|base| plain(&base.join(word))).collect()
            }
        };
        if let Some(folder) = self.folder(&candidates) {
            let message = format!("`{word}` is a folder: {}", folder.display());
            return Err(CommandError::new(&codes::FOCUS_NOT_FOUND, message).hint(hints::NAME_FILES_IN_IT));
        }
        let inside: Vec<(RootIndex, RelPath, PathBuf)> =
            candidates.into_iter().filter_map(|path| self.inside(path)).collect();
        let there = inside.iter().find(|(.., path)| self.is_there(path));
        match there.or(inside.first()) {
            Some((no, path, _)) => Ok((*no, path.clone())),
            None => {
                Err(CommandError::new(&codes::PATH_ESCAPES, format!("`{word}` is in none of the projects")))
            }
        }
    }

    /// The folder that is meant, if it is one: a project always is, others as they lie on the disk.
    fn folder<'p>(&self, candidates: &'p [PathBuf]) -> Option<&'p PathBuf> {
        let is_meant = |path: &&PathBuf| match self.seen {
            ViewedFiles::OnDisk => path.is_dir() && self.roots.iter().any(|(_, root)| path.starts_with(root)),
            ViewedFiles::ByPlan => self.roots.iter().any(|(_, root)| *path == root),
        };
        candidates.iter().find(is_meant).filter(|_| !candidates.iter().any(|path| path.is_file()))
    }

    /// Finds the project of a path by its words, or else by the real path of its folder. A project may be
    /// reached over a link.
    fn inside(&self, path: PathBuf) -> Option<(RootIndex, RelPath, PathBuf)> {
        self.below_root(&path).or_else(|| {
            let (dir, name) = (path.parent()?.canonicalize().ok()?, path.file_name()?);
            self.below_root(&dir.join(name))
        })
    }

    fn below_root(&self, path: &Path) -> Option<(RootIndex, RelPath, PathBuf)> {
        let mut numbered = self.roots.iter().zip(0..);
        numbered.find_map(|((_, root), no)| {
            let below = path.strip_prefix(root).ok()?;
            Some((RootIndex(no), RelPath::new(below.as_os_str().as_bytes()).ok()?, path.to_owned()))
        })
    }
}

/// The path without `.` and `..`, by its words alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    plain
}

/// `PATH:FROM-TO` or `PATH:LINE`.
fn with_lines(word: &str) -> Option<(&str, u32, u32)> {
    let (path, lines) = word.rsplit_once(':')?;
    let (from, to) = lines.split_once('-').unwrap_or((lines, lines));
    let number =
        |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    (!path.is_empty()).then_some((path, number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_word_is_a_path_where_it_looks_like_one_or_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(top.join("a/src")).unwrap();
        fs::create_dir_all(top.join("b")).unwrap();
        for file in ["a/src/x.rs", "a/Makefile", "b/x.rs"] {
            fs::write(top.join(file), "x\n").unwrap();
        }
        let roots = [("a".to_owned(), top.join("a")), ("lib".to_owned(), top.join("b"))];
        let places =
            FocusPaths { here: &top.join("a/src"), roots: &roots, seen: ViewedFiles::OnDisk, changed: &[] };
        let rel = |text: &str| RelPath::new(text).unwrap();
        std::os::unix::fs::symlink(top.join("a"), top.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", top.join("a/etc")).unwrap();
        let linked = top.join("link/src/x.rs");
        assert_eq!(
            places.focus(linked.to_str().unwrap()).map_err(|failure| failure.message),
            Ok(Focus::Path(RootIndex(0), rel("src/x.rs")))
        );
        // By its words it is in the project, where the kernel does not follow it.
        let out = places.focus("../etc/passwd").map_err(|failure| failure.message);
        assert_eq!(out, Ok(Focus::Path(RootIndex(0), rel("etc/passwd"))));
        for (word, focus) in [
            ("x.rs", Focus::Path(RootIndex(0), rel("src/x.rs"))),
            ("../Makefile", Focus::Path(RootIndex(0), rel("Makefile"))),
            ("Makefile", Focus::Path(RootIndex(0), rel("Makefile"))),
            ("src/x.rs:3-9", Focus::Lines(RootIndex(0), rel("src/x.rs"), 3, 9)),
            ("x.rs:4", Focus::Lines(RootIndex(0), rel("src/x.rs"), 4, 4)),
            ("lib:x.rs", Focus::Path(RootIndex(1), rel("x.rs"))),
            ("src/gone.rs", Focus::Path(RootIndex(0), rel("src/src/gone.rs"))),
            ("pack", Focus::Symbol("pack".to_owned())),
            ("Pipeline::new", Focus::Symbol("Pipeline::new".to_owned())),
        ] {
            assert_eq!(places.focus(word).map_err(|failure| failure.message), Ok(focus), "{word}");
        }
        for word in ["../../../etc/passwd", "/etc/passwd", "/etc/passwd:1-2", "../.."] {
            assert_eq!(places.focus(word).unwrap_err().code, &codes::PATH_ESCAPES, "{word}");
        }
        for word in [".", "..", "src/", "lib:."] {
            let failure = places.focus(word).unwrap_err();
            assert_eq!(failure.code, &codes::FOCUS_NOT_FOUND, "{word}");
            assert!(failure.message.contains("is a folder"), "{}", failure.message);
        }
        for word in ["", "x.rs:0", "x.rs:0-3", "x.rs:5-3"] {
            assert_eq!(places.focus(word).unwrap_err().code, &codes::USAGE, "{word}");
        }
        let of_plan = FocusPaths { seen: ViewedFiles::ByPlan, ..places };
        let made_a_file = of_plan.focus("../src").map_err(|failure| failure.message);
        assert_eq!(made_a_file, Ok(Focus::Path(RootIndex(0), rel("src"))));
        assert_eq!(of_plan.focus("..").unwrap_err().code, &codes::FOCUS_NOT_FOUND);
    }
}
