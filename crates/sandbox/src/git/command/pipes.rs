//! Files of a repository that git would wait for: a pipe, a device or a socket in the place of one.
//!
//! # Invariants
//! 1. Nothing is opened: each place is looked at by its name.
//!
//! # Not here
//! A pipe in any other place, or behind a setting: git is ended when it makes no progress (the sibling
//! `process`).

use std::fs;
use std::path::PathBuf;

use rustix::fs::FileType;

use super::GitRunError;
use crate::git::GitDir;

/// Files of a repository that git reads whatever it is asked, or nearly so.
const OWN_FILES: [&str; 4] = ["HEAD", "config.worktree", "index", "commondir"];
/// The same of what working trees share.
const COMMON_FILES: [&str; 8] = [
    "config",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "info/sparse-checkout",
    "objects/info/alternates",
];

/// Directories in which git opens files by the names that it finds, and the files in which it looks for more
/// of them.
const COMMON_DIRECTORIES: [&str; 5] = [
    "objects/pack",
    "objects/pack/multi-pack-index.d",
    "objects/info",
    "objects/info/commit-graphs",
    "reftable",
];

/// Returns an error if something other than a file is where git would read one.
pub(super) fn refuse_pipes(git_dir: &GitDir) -> Result<(), GitRunError> {
    let own = OWN_FILES.iter().map(|name| git_dir.own.join(name));
    let common = COMMON_FILES.iter().map(|name| git_dir.common.join(name));
    own.chain(common).try_for_each(refuse_at)?;
    for directory in COMMON_DIRECTORIES.map(|name| git_dir.common.join(name)) {
        // Git finds nothing either in one that is not there or cannot be read.
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let is_plain = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        entries.filter(|entry| !is_plain(entry)).try_for_each(|entry| refuse_at(entry.path()))?;
    }
    Ok(())
}

fn refuse_at(path: PathBuf) -> Result<(), GitRunError> {
    let Ok(stat) = rustix::fs::stat(&path) else { return Ok(()) };
    let what = match crate::fs::listing::kind_of(&stat) {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown => return Ok(()),
    };
    Err(GitRunError::NoFile { path, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::command::GitCommand;

    #[test]
    fn a_pipe_among_the_files_of_a_repository_is_not_given_to_git() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("objects/info")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        for name in
            OWN_FILES.into_iter().chain(COMMON_FILES).filter(|name| !matches!(*name, "HEAD" | "commondir"))
        {
            let path = git.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
                0,
            )
            .unwrap();
            let refused = GitCommand::new(dir.path()).args(["rev-parse", "HEAD"]).output();
            assert!(
                matches!(refused, Err(GitRunError::NoFile { path: found, .. }) if found == path),
                "{name}"
            );
            std::fs::remove_file(path).unwrap();
        }
    }
}
