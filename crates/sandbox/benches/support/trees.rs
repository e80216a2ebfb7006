//! Two trees, the journal's request that leads from one to the other, and the patch that does the same for git.
//!
//! # Invariants
//! 1. The trees are a function of the number of files, so that a child process makes the same ones.
//! 2. Request and patch change the same files to the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use domain::{Fence, FileState, Hash, PlanId, RelPath, RootNo};
use sandbox::content::ContentSource;
use sandbox::journal::{
    Boot, Bytes, Change, Image, JournalId, JournalKind, JournalRoot, Journals, Merger, Request,
};

/// A file: its bytes and its mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planted {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u16,
}

/// A tree, by path.
pub(crate) type Tree = BTreeMap<String, Planted>;

/// About 60 bytes that occur nowhere else.
pub(crate) fn line(file: usize, number: usize, word: &str) -> String {
    format!("{word} {file:06} {number:04} {:016x} and some more words here\n", (file * 7919 + number) as u64 * 0x9e37_79b9)
}

pub(crate) fn text(file: usize, lines: usize) -> String {
    (0..lines).map(|number| line(file, number, "line")).collect()
}

/// So many files with 20 lines each, one line of each edited.
#[allow(dead_code, reason = "one benchmark of several uses it")]
pub(crate) fn one_line_edits(files: usize) -> (Tree, Tree) {
    let path = |file: usize| format!("src/d{:03}/f{file:05}.txt", file / 25);
    let (mut before, mut after) = (Tree::new(), Tree::new());
    for file in 0..files {
        let old = text(file, 20);
        let new = old.replacen(&line(file, 9, "line"), &line(file, 9, "LINE"), 1);
        before.insert(path(file), Planted { bytes: old.into_bytes(), mode: 0o644 });
        after.insert(path(file), Planted { bytes: new.into_bytes(), mode: 0o644 });
    }
    (before, after)
}

/// A tree to be planted.
pub(crate) fn plant(root: &Path, tree: &Tree) {
    for (path, file) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(u32::from(file.mode))).unwrap();
    }
}

/// The patch from one tree to the other, made by git; for `git apply -p2`.
pub(crate) fn write_patch(scratch: &Path, before: &Tree, after: &Tree, patch: &Path) {
    plant(&scratch.join("before"), before);
    plant(&scratch.join("after"), after);
    let mut diff = git(scratch);
    diff.args(["diff", "--no-index", "--binary", "--no-renames", "before", "after"]);
    let output = diff.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(patch, output.stdout).unwrap();
    for name in ["before", "after"] {
        fs::remove_dir_all(scratch.join(name)).unwrap();
    }
}

/// Git, untouched by the settings of whoever runs this.
pub(crate) fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    // Without this a project below somebody's repository would be looked up there.
    command.env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir)).env_remove("GIT_DIR");
    command
}

fn image(file: &Planted) -> Image {
    let state = FileState::file(&file.bytes, file.mode);
    Image { state, bytes: Bytes::Here(file.bytes.clone()), attributes: None }
}

/// What leads from one tree to the other.
pub(crate) fn changes(before: &Tree, after: &Tree) -> Vec<Change> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let differ = |path: &&String| before.get(*path) != after.get(*path);
    let change = |path: &String| Change {
        root: RootNo(0),
        path: RelPath::new(path).unwrap(),
        from: None,
        pre: before.get(path).map(image),
        post: after.get(path).map(image),
    };
    paths.into_iter().filter(differ).map(change).collect()
}

/// Nobody edits anything here.
struct NoMerges;

impl Merger for NoMerges {
    fn merge(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

pub(crate) fn journals(data: &Path) -> Journals {
    Journals::open(data, Boot::present().unwrap(), Arc::new(NoMerges)).unwrap()
}

pub(crate) fn request(id: JournalId, kind: JournalKind, root: &Path, changes: Vec<Change>) -> Request {
    Request {
        id,
        plan: PlanId::from_u128(7),
        kind,
        roots: vec![JournalRoot::of(RootNo(0), root).unwrap()],
        fence: Fence(1),
        time_ms: 1,
        net_hash: Hash::of(b"net"),
        changes,
        refs: vec![],
    }
}

/// All bytes are in the request.
pub(crate) struct NoContent;

impl ContentSource for NoContent {
    fn open(&self, _: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
