//! The requests to the git program, and a private repository for a copy of a working tree.
//!
//! # Invariants
//! 1. Nothing here writes to the user's repository (`command`).
//! 2. A pipe in the place of one of its files is not waited for.
//! 3. A private repository borrows the user's objects and has everything else of its own. Commits, branches,
//!    packs and prunes in it stay in it.

pub(crate) mod command;
pub(crate) mod index;
pub mod log;
pub mod refs;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fs::regular_file::{open_regular, read_regular};
use command::{GitCommand, GitRunError, GitStopCheck};

/// Files of a repository that say what the user is in the middle of.
const STATE_FILES: [&str; 10] = [
    "index",
    "shallow",
    "info/exclude",
    "info/sparse-checkout",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
];

/// A file that says where a repository is holds one path.
const LINK_BYTES_MAX: u64 = 64 * 1024;

/// The directories in which the repository of a working tree stores its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitDir {
    /// The directory of this working tree: `HEAD`, `index`.
    pub(crate) own: PathBuf,
    /// The directory that all working trees share: objects, refs, configuration.
    pub(crate) common: PathBuf,
}

impl GitDir {
    /// That of the working tree whose top is `top`; none when it has none.
    pub(crate) fn at(top: &Path) -> Option<GitDir> {
        let dot_git = top.join(".git");
        let own = match read_regular(&dot_git, LINK_BYTES_MAX) {
            Ok(text) => top.join(OsStr::from_bytes(text.strip_prefix(b"gitdir: ")?.trim_ascii_end())),
            Err(_) => dot_git,
        };
        if !own.join("HEAD").exists() {
            return None;
        }
        let common = match read_regular(&own.join("commondir"), LINK_BYTES_MAX) {
            Ok(text) => own.join(OsStr::from_bytes(text.trim_ascii_end())),
            Err(_) => own.clone(),
        };
        Some(GitDir { own, common })
    }

    /// Returns the top of the working tree that contains `dir`, and its git directory.
    pub(crate) fn around(dir: &Path) -> Option<(PathBuf, GitDir)> {
        dir.ancestors().find_map(|top| GitDir::at(top).map(|git| (top.to_owned(), git)))
    }
}

/// Returns the output of a git command in `dir`.
pub(crate) fn output<S: AsRef<OsStr>>(
    dir: &Path,
    arguments: impl IntoIterator<Item = S>,
    is_over: &GitStopCheck<'_>,
) -> Result<Vec<u8>, GitAnswerError> {
    let (end, printed) = GitCommand::new(dir).args(arguments).until(is_over).output()?;
    if end.is_success { Ok(printed) } else { Err(GitAnswerError::Failed { message: end.first_line() }) }
}

/// The reason that git gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitAnswerError {
    /// Git did not run to its end.
    #[error(transparent)]
    Run(#[from] GitRunError),
    /// Git said no.
    #[error("{message}")]
    Failed {
        /// The output of the program.
        message: String,
    },
}

/// Returns the files that git lists in `dir` with these options, relative to it, without double entries.
pub(crate) fn list_files(
    dir: &Path,
    options: &[String],
    is_over: &GitStopCheck<'_>,
) -> Result<BTreeSet<Vec<u8>>, GitAnswerError> {
    let command = ["ls-files", "-z"].into_iter().chain(options.iter().map(String::as_str));
    Ok(paths_in(&output(dir, command, is_over)?))
}

/// The paths that git lists, each with a NUL behind it.
pub(crate) fn paths_in(listed: &[u8]) -> BTreeSet<Vec<u8>> {
    listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Makes `<copy>/.git`, through which the copy looks to git as `tree` does.
///
/// While a command runs, the copy may be mounted over `tree` and so hide the very objects that it borrows. So
/// they have a second place: an empty directory in `lent`. A link next to it names the directory to be
/// mounted there ([`ViewRoot::borrowed`](crate::view::ViewRoot::borrowed)).
pub(crate) fn make_private(
    tree: &Path,
    copy: &Path,
    lent: &Path,
    is_over: &GitStopCheck<'_>,
) -> Result<(), String> {
    let git_dir = GitDir::at(tree).ok_or_else(|| format!("{} has no repository", tree.display()))?;
    let asked = head(tree, is_over).and_then(|head| Ok((head, refs(tree, is_over)?)));
    let (head, refs) = asked.map_err(|why| why.to_string())?;
    let written = (|| {
        let objects = git_dir.common.join("objects").canonicalize()?;
        let second = lend(&objects, lent)?;
        write_private(&git_dir, &copy.join(".git"), &head, &refs)?;
        let lines = [&objects, &second].map(|dir| alternate(dir.as_os_str().as_bytes()));
        std::fs::write(copy.join(".git/objects/info/alternates"), lines.concat())
    })();
    written.map_err(|source: io::Error| format!("the private repository of {}: {source}", tree.display()))
}

/// Makes the second place of a directory that is borrowed.
fn lend(objects: &Path, lent: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(lent)?;
    let mut number = 0_u32;
    loop {
        let place = lent.join(number.to_string());
        match std::fs::create_dir(&place) {
            Ok(()) => {
                std::os::unix::fs::symlink(objects, lent.join(format!("{number}.from")))?;
                return Ok(place);
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(why) => return Err(why),
        }
    }
}

fn head(tree: &Path, is_over: &GitStopCheck<'_>) -> Result<Vec<u8>, GitAnswerError> {
    match output(tree, ["symbolic-ref", "-q", "HEAD"], is_over) {
        Ok(branch) => Ok([b"ref: ".as_slice(), &branch].concat()),
        Err(GitAnswerError::Failed { .. }) => output(tree, ["rev-parse", "HEAD"], is_over),
        Err(why @ GitAnswerError::Run(_)) => Err(why),
    }
}

fn refs(tree: &Path, is_over: &GitStopCheck<'_>) -> Result<Vec<u8>, GitAnswerError> {
    let (end, listed) = GitCommand::new(tree).args(["show-ref"]).until(is_over).output()?;
    // A repository without a commit has no refs, which git calls a failure but says nothing about.
    if end.is_success || end.complaint.is_empty() {
        Ok(listed)
    } else {
        Err(GitAnswerError::Failed { message: end.complaint.trim_end().to_owned() })
    }
}

fn write_private(user: &GitDir, private: &Path, head: &[u8], refs: &[u8]) -> io::Result<()> {
    for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        std::fs::create_dir_all(private.join(dir))?;
    }
    std::fs::write(private.join("packed-refs"), refs)?;
    std::fs::write(private.join("HEAD"), head)?;
    for file in STATE_FILES {
        let own = user.own.join(file);
        let source = if own.exists() { own } else { user.common.join(file) };
        copy_if_there(&source, &private.join(file))?;
    }
    for entry in std::fs::read_dir(&user.own)? {
        let name = entry?.file_name();
        if name.as_bytes().starts_with(b"sharedindex.") {
            copy_if_there(&user.own.join(&name), &private.join(&name))?;
        }
    }
    let stores_refs_otherwise = user.common.join("reftable").exists();
    write_config(&user.common.join("config"), &private.join("config"), stores_refs_otherwise)?;
    if user.own.join("config.worktree").exists() {
        write_config(&user.own.join("config.worktree"), &private.join("config.worktree"), false)?;
    }
    Ok(())
}

/// A line of `alternates`: one that begins with a quote or holds a newline is written quoted, as in C.
fn alternate(path: &[u8]) -> Vec<u8> {
    if !path.starts_with(b"\"") && !path.contains(&b'\n') {
        return [path, b"\n"].concat();
    }
    let mut quoted = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            other => quoted.push(*other),
        }
    }
    quoted.extend(b"\"\n");
    quoted
}

/// The user's settings, with what would lead out of the copy put right; of two settings git takes the later.
fn write_config(from: &Path, to: &Path, stores_refs_otherwise: bool) -> io::Result<()> {
    copy_if_there(from, to)?;
    let mut config = std::fs::OpenOptions::new().append(true).create(true).open(to)?;
    config.write_all(b"\n[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = false\n")?;
    if stores_refs_otherwise {
        config.write_all(b"[extensions]\n\trefStorage = files\n")?;
    }
    Ok(())
}

fn copy_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match open_regular(from) {
        Ok(mut from) => io::copy(&mut from, &mut std::fs::File::create(to)?).map(drop),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternate_is_quoted_only_when_it_must_be() {
        assert_eq!(alternate(b"/a b\\\xff"), b"/a b\\\xff\n");
        assert_eq!(alternate(b"/a\nb\\\""), b"\"/a\\nb\\\\\\\"\"\n");
        assert_eq!(alternate(b"\"x"), b"\"\\\"x\"\n");
    }
}
