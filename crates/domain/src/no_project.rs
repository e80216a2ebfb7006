//! What lies in a project's folder and belongs to no project: version control's own files, and this program's.
//!
//! # Not here
//! What else a plan or a view leaves out: their rules.

use crate::RelPath;

/// Names of directories that belong to version control or to this program.
pub const NO_PROJECT: [&[u8]; 5] = [b".git", b".hg", b".svn", b".jj", b".cleveragents"];

/// Whether a path is, or lies in, such a directory at any depth: it is never captured, written or told, and not to be had
/// by naming it either.
///
/// ```
/// use domain::{RelPath, is_of_no_project};
///
/// let of = |path: &str| is_of_no_project(&RelPath::new(path).unwrap());
/// assert!(of("sub/.git/config") && of(".git"));
/// assert!(!of(".gitignore") && !of("git/x"));
/// ```
pub fn is_of_no_project(path: &RelPath) -> bool {
    path.as_bytes().split(|byte| *byte == b'/').any(|name| NO_PROJECT.contains(&name))
}
