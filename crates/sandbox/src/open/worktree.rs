//! The strategy that copies the files that git tracks or would add, and those that the user asked for
//! besides.
//!
//! Files that git ignores are not there, so a plan builds from scratch; files like `.env` are copied by name.
//! Uncommitted work is there: the files come from the live tree, not from a commit.
//!
//! # Not here
//! The private repository: [`git`](crate::git). Copying one file: [`copy`](crate::open::copy).

use domain::RelPath;

use super::copy::{ProjectCopy, SkippedFiles, join, join_name};
use crate::git;
use crate::git::GitDir;
use crate::git::command::GitStopCheck;

/// Copies the files of the working tree, and of those nested in it.
pub(crate) fn copy(mut copying: ProjectCopy<'_>, include: &[String]) -> Result<SkippedFiles, String> {
    let mut trees: Vec<Option<RelPath>> = vec![None];
    while let Some(tree) = trees.pop() {
        let path = join(copying.from_path, tree.as_ref());
        let words = |why: git::GitAnswerError| why.to_string();
        let known = ["--cached", "--others", "--exclude-standard"].map(ToOwned::to_owned);
        let mut files = git::list_files(&path, &known, copying.stop()).map_err(words)?;
        if !include.is_empty() {
            let wanted = include.iter().map(|pattern| pathspec(pattern));
            let options: Vec<String> =
                ["--others".to_owned(), "--".to_owned()].into_iter().chain(wanted).collect();
            files.extend(git::list_files(&path, &options, copying.stop()).map_err(words)?);
        }
        let paths: Vec<RelPath> = files
            .iter()
            .filter_map(|file| join_name(tree.as_ref(), file.strip_suffix(b"/").unwrap_or(file)).ok())
            .collect();
        let directories = copying.paths(&paths).map_err(|why| why.to_string())?;
        // A submodule or another repository: git lists its directory, and it lists its own files.
        let nested = |dir: &RelPath| GitDir::at(&join(copying.from_path, Some(dir))).is_some();
        trees.extend(directories.into_iter().filter(nested).map(Some));
        if GitDir::at(&path).is_some() {
            let copy = join(copying.to_path, tree.as_ref());
            git::make_private(&path, &copy, &copying.lent(), copying.stop())?;
        }
    }
    copying.finish().map_err(|why| why.to_string())
}

/// Returns an error with the reason if this directory is no git working tree.
pub(crate) fn fits(project: &std::path::Path, is_over: &GitStopCheck<'_>) -> Result<(), String> {
    let inside = git::output(project, ["rev-parse", "--is-inside-work-tree"], is_over)
        .map_err(|why| why.to_string())?;
    if inside.trim_ascii() == b"true" { Ok(()) } else { Err("not a git working tree".to_owned()) }
}

/// A name without a slash is meant at any depth.
fn pathspec(pattern: &str) -> String {
    if pattern.contains('/') { format!(":(glob){pattern}") } else { format!(":(glob)**/{pattern}") }
}
