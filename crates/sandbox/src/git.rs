//! What is asked of the git program, and a private repository for a copy of a working tree.
//!
//! # Invariants
//! 1. Nothing here writes to the user's repository: git is told to take no optional locks, and no hook or monitor of
//!    the user's configuration runs.
//! 2. A pipe in the place of one of its files is not waited for by us, and the index is no pipe when git is asked for it.
//! 3. A private repository borrows the user's objects and has everything else of its own: what is committed, branched,
//!    packed or pruned in it stays in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::regular::{open_regular, read_regular};

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

/// Where the repository of a working tree keeps its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitDir {
    /// What belongs to this working tree: `HEAD`, `index`.
    pub(crate) own: PathBuf,
    /// What all working trees share: objects, refs, configuration.
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

    /// That of the working tree which `dir` lies in, and its top.
    pub(crate) fn around(dir: &Path) -> Option<(PathBuf, GitDir)> {
        dir.ancestors().find_map(|top| GitDir::at(top).map(|git| (top.to_owned(), git)))
    }
}

/// A git command in `dir`, deaf to an environment that names another repository.
pub(crate) fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"]
    {
        command.env_remove(name);
    }
    command.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// What a git command printed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|source| format!("git cannot be run: {source}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().map_or_else(|| format!("git failed: {}", output.status), ToOwned::to_owned))
}

/// What git lists of `dir` with these options, relative to it, without double entries.
pub(crate) fn list_files<I, S>(dir: &Path, options: I) -> Result<BTreeSet<Vec<u8>>, String>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    Ok(paths_in(&output(git(dir).args(["ls-files", "-z"]).args(options))?))
}

/// The paths that git lists, each with a NUL behind it.
pub(crate) fn paths_in(listed: &[u8]) -> BTreeSet<Vec<u8>> {
    listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Makes `<copy>/.git`, through which the copy looks to git as `tree` does.
///
/// Where a command runs, the copy may be mounted over `tree` and so hide the very objects that it borrows. They have a
/// second place therefore: an empty directory in `lent`, with a link beside it that says what is to be mounted there
/// ([`ViewRoot::borrowed`](crate::view::ViewRoot::borrowed)).
pub(crate) fn make_private(tree: &Path, copy: &Path, lent: &Path) -> Result<(), String> {
    let git_dir = GitDir::at(tree).ok_or_else(|| format!("{} has no repository", tree.display()))?;
    let (head, refs) = (head(tree)?, refs(tree)?);
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

fn head(tree: &Path) -> Result<Vec<u8>, String> {
    match output(git(tree).args(["symbolic-ref", "-q", "HEAD"])) {
        Ok(branch) => Ok([b"ref: ".as_slice(), &branch].concat()),
        Err(_) => output(git(tree).args(["rev-parse", "HEAD"])),
    }
}

fn refs(tree: &Path) -> Result<Vec<u8>, String> {
    let listed =
        git(tree).arg("show-ref").output().map_err(|source| format!("git cannot be run: {source}"))?;
    // A repository without a commit has no refs, which git calls a failure but says nothing about.
    if listed.status.success() || listed.stderr.is_empty() {
        Ok(listed.stdout)
    } else {
        Err(String::from_utf8_lossy(&listed.stderr).trim_end().to_owned())
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
