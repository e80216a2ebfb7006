//! Judges a tree after everything: as before, as asked, or torn.
//!
//! # Invariants
//! Nothing is taken on trust: every file is read, every directory listed, and modes, inodes and links are
//! looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::trees::{BenchTree, PlantedFile};

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSide {
    Before,
    After,
}

/// In or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Apply,
    Undo,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Apply, Kind::Undo];

    pub fn word(self) -> &'static str {
        match self {
            Kind::Apply => "apply",
            Kind::Undo => "undo",
        }
    }

    /// The kind of work that leads away from this side.
    pub fn from(side: TreeSide) -> Kind {
        match side {
            TreeSide::Before => Kind::Apply,
            TreeSide::After => Kind::Undo,
        }
    }

    pub fn source(self) -> TreeSide {
        match self {
            Kind::Apply => TreeSide::Before,
            Kind::Undo => TreeSide::After,
        }
    }

    pub fn goal(self) -> TreeSide {
        match self {
            Kind::Apply => TreeSide::After,
            Kind::Undo => TreeSide::Before,
        }
    }
}

/// A file as it was found.
struct FileOnDisk {
    bytes: Vec<u8>,
    mode: u32,
    ino: u64,
    links: u64,
}

/// The properties of a file, besides its bytes, that are compared.
enum ExtraChecks {
    /// Its mode, and of files that are in both trees the inode and the links.
    Promises(BTreeMap<String, (u64, u64)>),
    /// Nothing: `git apply` makes new files, and its `-R` brings a removed program back as no program.
    Nothing,
}

/// The two trees, and what must never change.
pub struct TreeJudge {
    before: BenchTree,
    after: BenchTree,
    besides: ExtraChecks,
}

impl TreeJudge {
    /// `root` has the tree before. Files that are in both trees keep their inode and their links from here
    /// on.
    pub fn new(root: &Path, before: BenchTree, after: BenchTree) -> TreeJudge {
        let stays = |path: &&String| before.contains_key(*path);
        let kept = after.keys().filter(stays).map(|path| {
            let metadata = fs::metadata(root.join(path)).unwrap();
            (path.clone(), (metadata.ino(), metadata.nlink()))
        });
        let besides = ExtraChecks::Promises(kept.collect());
        TreeJudge { before, after, besides }
    }

    /// Looks at nothing but names and bytes.
    pub fn of_contents(before: BenchTree, after: BenchTree) -> TreeJudge {
        TreeJudge { before, after, besides: ExtraChecks::Nothing }
    }

    /// Returns which of the two trees is at `root`.
    ///
    /// # Errors
    /// Neither; what is wrong with it, as the side that it is nearer to sees it.
    pub fn side(&self, root: &Path) -> Result<TreeSide, String> {
        let (files, dirs) = found(root);
        let as_before = self.differs(&files, &dirs, &self.before);
        if as_before.is_empty() {
            return Ok(TreeSide::Before);
        }
        let as_after = self.differs(&files, &dirs, &self.after);
        if as_after.is_empty() {
            return Ok(TreeSide::After);
        }
        let nearer = if as_before.len() < as_after.len() { &as_before } else { &as_after };
        Err(format!(
            "{} / {} differ: {}",
            as_before.len(),
            as_after.len(),
            nearer[..nearer.len().min(5)].join(", ")
        ))
    }

    /// The share of changed files that are as in the tree after, in percent.
    pub fn percent_after(&self, root: &Path) -> usize {
        let mut changed: Vec<&String> = self.before.keys().chain(self.after.keys()).collect();
        changed.sort();
        changed.dedup();
        let is_after = |path: &&&String| {
            let there = fs::read(root.join(path)).ok();
            there.as_deref() == self.after.get(**path).map(|file| file.bytes.as_slice())
        };
        changed.iter().filter(is_after).count() * 100 / changed.len().max(1)
    }

    fn differs(
        &self,
        files: &BTreeMap<String, FileOnDisk>,
        dirs: &BTreeSet<String>,
        tree: &BenchTree,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        for (path, file) in files {
            match tree.get(path) {
                None => wrong.push(format!("{path} is too much")),
                Some(asked) if file.bytes != asked.bytes => wrong.push(format!("{path} has other bytes")),
                Some(asked) if !self.besides.are_kept(path, file, asked) => {
                    wrong.push(format!("{path} has another mode or inode, or other links"));
                }
                Some(_) => {}
            }
        }
        let missing = tree.keys().filter(|path| !files.contains_key(*path));
        wrong.extend(missing.map(|path| format!("{path} is missing")));
        let asked = dirs_of(tree);
        wrong.extend(dirs.difference(&asked).map(|dir| format!("the directory {dir} is too much")));
        wrong
    }
}

impl ExtraChecks {
    fn are_kept(&self, path: &str, file: &FileOnDisk, asked: &PlantedFile) -> bool {
        match self {
            ExtraChecks::Nothing => true,
            ExtraChecks::Promises(kept) => {
                let same_file = kept.get(path).is_none_or(|kept| *kept == (file.ino, file.links));
                same_file && file.mode == u32::from(asked.mode)
            }
        }
    }
}

/// The directories that a tree needs.
fn dirs_of(tree: &BenchTree) -> BTreeSet<String> {
    let mut dirs = BTreeSet::new();
    for path in tree.keys() {
        let mut above = path.as_str();
        while let Some((dir, _)) = above.rsplit_once('/') {
            dirs.insert(dir.to_owned());
            above = dir;
        }
    }
    dirs
}

fn found(root: &Path) -> (BTreeMap<String, FileOnDisk>, BTreeSet<String>) {
    let (mut files, mut dirs) = (BTreeMap::new(), BTreeSet::new());
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                dirs.insert(name);
                left.push(path);
            } else {
                let (mode, ino, links) = (metadata.mode() & 0o7777, metadata.ino(), metadata.nlink());
                files.insert(name, FileOnDisk { bytes: fs::read(&path).unwrap(), mode, ino, links });
            }
        }
    }
    (files, dirs)
}
