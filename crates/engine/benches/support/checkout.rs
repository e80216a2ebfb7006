//! A clone of a repository whose tree stands at a commit, without any later one.
//!
//! # Invariants
//! 1. The repository itself is read only.
//! 2. Nothing leads from the clone to a commit after the one it stands at: the history ends there.
//! 3. A file that a checkout wrote is as old as no other checkout's: whoever goes by times sees the change,
//!    and nobody has to take it for one that may still be written.

#![allow(dead_code, reason = "not every benchmark uses all of it")]

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// Aider keeps its tags in the tree; nobody indexes them.
const NOT_OF_THE_TREE: &str = ".aider*\n";
/// Where the times of files begin: long before now.
const LONG_AGO_S: u64 = 1_000_000_000;

/// A clone that goes with it.
pub(crate) struct Checkout {
    dir: TempDir,
    count: u64,
}

impl Checkout {
    /// A clone of a repository, bare or not, with nothing checked out.
    pub(crate) fn of(repository: &Path) -> Checkout {
        let dir = tempfile::tempdir().unwrap();
        let words = ["clone", "--quiet", "--shared", "--no-checkout", "--no-tags"];
        let mut clone = Command::new("git");
        clone.args(words).arg(repository).arg(dir.path().join("tree"));
        assert!(clone.status().unwrap().success(), "{clone:?}");
        let checkout = Checkout { dir, count: 0 };
        checkout.write("HEAD");
        git(&checkout.root(), &["remote", "remove", "origin"]);
        let branches = git(&checkout.root(), &["for-each-ref", "--format=%(refname)"]);
        for branch in branches.lines() {
            git(&checkout.root(), &["update-ref", "-d", branch]);
        }
        std::fs::write(checkout.root().join(".git/info/exclude"), NOT_OF_THE_TREE).unwrap();
        checkout
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Where something may be kept beside the tree.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Moves the tree to a commit.
    pub(crate) fn go_to(&mut self, commit: &str) {
        self.write(commit);
        git(&self.root(), &["clean", "--quiet", "-dff"]);
        self.settle();
    }

    fn write(&self, commit: &str) {
        std::fs::write(self.root().join(".git/info/sparse-checkout"), self.there(commit)).unwrap();
        let sparsely = ["-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false"];
        let checkout = ["checkout", "--quiet", "--detach", "--force", commit];
        git(&self.root(), &[&sparsely[..], &checkout].concat());
    }

    /// What git is to write of a commit, as its patterns: all that is there. A clone may lack contents, large
    /// ones mostly.
    fn there(&self, commit: &str) -> String {
        let listed = git(&self.root(), &["ls-tree", "-r", "-l", "-z", commit]);
        let lacking = listed.split('\0').filter_map(|entry| {
            let (about, path) = entry.split_once('\t')?;
            about.ends_with(" BAD").then(|| path.replace('\\', r"\\").replace(['*', '?', '['], "?"))
        });
        lacking.fold("/*\n".to_owned(), |patterns, path| patterns + "!/" + &path + "\n")
    }

    /// Makes what was written just now old.
    pub(crate) fn settle(&mut self) {
        self.count += 1;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO_S + self.count);
        let bound = SystemTime::UNIX_EPOCH + Duration::from_secs(LONG_AGO_S * 3 / 2);
        let listed = git_bytes(&self.root(), &["ls-files", "-z"]);
        for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let path = self.root().join(OsStr::from_bytes(path));
            // A link or a submodule has no time of its own that anybody looks at.
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_file() && found.modified().unwrap() > bound {
                File::open(&path).unwrap().set_modified(now).unwrap();
            }
        }
    }
}

/// What git prints, as text.
pub(crate) fn git(dir: &Path, words: &[&str]) -> String {
    String::from_utf8_lossy(&git_bytes(dir, words)).into_owned()
}

/// What git prints.
pub(crate) fn git_bytes(dir: &Path, words: &[&str]) -> Vec<u8> {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["--no-optional-locks", "-c", "core.quotePath=false"]).args(words);
    // Nothing of whoever runs this is read.
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output.stdout
}
