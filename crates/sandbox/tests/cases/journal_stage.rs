//! Where the journal's tests play: trees before and after, a request between them, a process that is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::{Fence, FileState, Hash, PlanId, RelPath, RootIndex};
use sandbox::content::ContentSource;
use sandbox::journal::{
    Boot, FileImage, Hooks, ImageBytes, JournalChange, JournalEnding, JournalId, JournalKind,
    JournalRecovery, JournalRoot, JournalStep, Journals, Merger, Request, SettledJournal, StuckJournal,
};
use tempfile::TempDir;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TestNode {
    File(Vec<u8>, u16),
    Link(Vec<u8>),
    Dir(u16),
}

pub(super) fn file(text: &str) -> TestNode {
    TestNode::File(text.as_bytes().to_vec(), 0o644)
}

/// A tree, by path.
pub(super) type TestTree = BTreeMap<String, TestNode>;

pub(super) fn tree<const N: usize>(nodes: [(&str, TestNode); N]) -> TestTree {
    nodes.into_iter().map(|(path, node)| (path.to_owned(), node)).collect()
}

/// Puts the tree into an empty directory. Directories above a file need not be named.
pub(super) fn plant(root: &Path, tree: &TestTree) {
    for (path, node) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            TestNode::File(bytes, mode) => {
                fs::write(&path, bytes).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(u32::from(*mode))).unwrap();
            }
            TestNode::Link(target) => symlink(std::ffi::OsStr::from_bytes(target), &path).unwrap(),
            TestNode::Dir(mode) => {
                fs::create_dir_all(&path).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(u32::from(*mode))).unwrap();
            }
        }
    }
}

/// All that is in the directory: files and links, and directories that are empty.
pub(super) fn survey(root: &Path) -> TestTree {
    let mut found = TestTree::new();
    survey_into(root, root, &mut found);
    found
}

/// The tree as a survey shows it: a directory with something in it is not named.
pub(super) fn shown(tree: &TestTree) -> TestTree {
    let is_empty = |path: &String| !tree.keys().any(|other| other.starts_with(&format!("{path}/")));
    let mut shown = tree.clone();
    shown.retain(|path, node| !matches!(node, TestNode::Dir(_)) || is_empty(path));
    shown
}

fn survey_into(root: &Path, dir: &Path, found: &mut TestTree) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = u16::try_from(metadata.mode() & 0o7777).unwrap();
        if metadata.is_symlink() {
            found.insert(name, TestNode::Link(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()));
        } else if metadata.is_dir() {
            if fs::read_dir(&path).unwrap().next().is_none() {
                found.insert(name, TestNode::Dir(mode));
            }
            survey_into(root, &path, found);
        } else {
            found.insert(name, TestNode::File(fs::read(&path).unwrap(), mode));
        }
    }
}

fn image(node: &TestNode) -> FileImage {
    let (state, bytes) = match node {
        TestNode::File(bytes, mode) => (FileState::file(bytes, *mode), bytes.clone()),
        TestNode::Link(target) => (FileState::symlink(target), target.clone()),
        TestNode::Dir(mode) => (FileState::dir(*mode), Vec::new()),
    };
    FileImage { state, bytes: ImageBytes::Here(bytes), attributes: None }
}

/// What leads from one tree to the other.
pub(super) fn changes(before: &TestTree, after: &TestTree) -> Vec<JournalChange> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|path| JournalChange {
            root: RootIndex(0),
            path: RelPath::new(path).unwrap(),
            from: None,
            pre: before.get(path).map(image),
            post: after.get(path).map(image),
        })
        .collect()
}

/// Nothing is kept: all bytes are in the request.
pub(super) struct NoContentSource;

impl ContentSource for NoContentSource {
    fn open(&self, _: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Understands one change on each side, at different places: enough to tell a merge from a conflict.
pub(super) struct OneHunk;

impl Merger for OneHunk {
    fn merge(&self, base: &[u8], now: &[u8], plan: &[u8]) -> Option<Vec<u8>> {
        if now.starts_with(plan) || now.ends_with(plan) {
            return Some(now.to_vec());
        }
        let (mine, theirs) = (hunk(base, now), hunk(base, plan));
        let (first, second) = if mine.0 <= theirs.0 { (mine, theirs) } else { (theirs, mine) };
        (first.1 <= second.0).then(|| {
            [&base[..first.0], first.2, &base[first.1..second.0], second.2, &base[second.1..]].concat()
        })
    }
}

/// From where to where the base differs, and what is there instead.
fn hunk<'a>(base: &[u8], other: &'a [u8]) -> (usize, usize, &'a [u8]) {
    let shorter = base.len().min(other.len());
    let head = base.iter().zip(other).take_while(|(a, b)| a == b).count();
    let tail =
        base.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count().min(shorter - head);
    (head, base.len() - tail, &other[head..other.len() - tail])
}

/// A project and a data directory.
pub(super) struct JournalFixture {
    pub(super) dir: TempDir,
    pub(super) root: PathBuf,
    pub(super) data: PathBuf,
}

pub(super) const PLAN: PlanId = PlanId::from_u128(7);
pub(super) const ID: JournalId = JournalId::from_u128(0x0192_0000_0000_0000_0000_0000_0000_0001);

impl JournalFixture {
    pub(super) fn new(before: &TestTree) -> JournalFixture {
        let stage = JournalFixture::at(tempfile::tempdir().unwrap());
        fs::create_dir(&stage.root).unwrap();
        plant(&stage.root, before);
        stage
    }

    fn at(dir: TempDir) -> JournalFixture {
        let (root, data) = (dir.path().join("project"), dir.path().join("data"));
        JournalFixture { dir, root, data }
    }

    pub(super) fn journals(&self) -> Journals {
        journals(&self.data)
    }

    pub(super) fn request(&self, changes: Vec<JournalChange>) -> Request {
        request(&self.root, changes)
    }

    /// Applies, and retires.
    pub(super) fn apply(&self, before: &TestTree, after: &TestTree) -> JournalEnding {
        carry_out(&self.journals(), self.request(changes(before, after))).unwrap().retire().unwrap()
    }

    /// Recovers; exactly one journal is settled.
    pub(super) fn recover_one(&self) -> SettledJournal {
        let JournalRecovery { mut settled, stuck, busy, .. } = self.journals().recover().unwrap();
        assert!(stuck.is_empty() && busy.is_empty(), "{stuck:?} {busy:?}");
        assert_eq!(settled.len(), 1);
        settled.remove(0)
    }

    pub(super) fn survey(&self) -> TestTree {
        survey(&self.root)
    }
}

pub(super) fn journals(data: &Path) -> Journals {
    Journals::open(data, Boot::present().unwrap(), Arc::new(OneHunk)).unwrap()
}

pub(super) fn request(root: &Path, changes: Vec<JournalChange>) -> Request {
    Request {
        id: ID,
        plan: PLAN,
        kind: JournalKind::Apply,
        roots: vec![JournalRoot::new(RootIndex(0), root).unwrap()],
        fence: Fence(3),
        time_ms: 1,
        net_hash: Hash::from_content(b"net"),
        changes,
        apart: Default::default(),
        refs: vec![],
    }
}

pub(super) fn carry_out(journals: &Journals, request: Request) -> Result<SettledJournal, StuckJournal> {
    journals.prepare(request, &NoContentSource).unwrap().commit().unwrap().carry_out()
}

/// Does something at one step, the first time that it is reached.
pub(super) struct HookAt<F> {
    pub(super) step: JournalStep,
    pub(super) once: AtomicU32,
    pub(super) act: F,
}

pub(super) fn at<F: Fn() -> io::Result<()>>(step: JournalStep, act: F) -> Arc<HookAt<F>> {
    Arc::new(HookAt { step, once: AtomicU32::new(0), act })
}

impl<F: Fn() -> io::Result<()> + Send + Sync> Hooks for HookAt<F> {
    fn step(&self, step: JournalStep) -> io::Result<()> {
        if step == self.step && self.once.fetch_add(1, Ordering::SeqCst) == 0 { (self.act)() } else { Ok(()) }
    }
}

/// Does something at the k-th step, counted from 1.
pub(super) struct HookAtNth<F> {
    pub(super) left: AtomicU32,
    pub(super) act: F,
}

pub(super) fn nth<F: Fn() -> io::Result<()>>(k: u32, act: F) -> Arc<HookAtNth<F>> {
    Arc::new(HookAtNth { left: AtomicU32::new(k), act })
}

impl<F: Fn() -> io::Result<()> + Send + Sync> Hooks for HookAtNth<F> {
    fn step(&self, _: JournalStep) -> io::Result<()> {
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(1) => (self.act)(),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Ends this process as `kill -9` does.
pub(super) fn die() -> io::Result<()> {
    // SAFETY: raise takes a number and touches no memory of ours.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("SIGKILL")
}

/// Runs one test of this binary as a process of its own, with these variables.
pub(super) fn child(test: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("RUST_BACKTRACE", "0");
    command.envs(variables.iter().copied());
    command
}

/// Whether a child was killed; a child that failed otherwise fails the test.
pub(super) fn was_killed(output: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt;
    match output.status.signal() {
        Some(libc::SIGKILL) => true,
        _ => {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{out}\n{err}");
            false
        }
    }
}

/// Remembers the steps.
#[derive(Default)]
pub(super) struct RecordedSteps(pub(super) std::sync::Mutex<Vec<JournalStep>>);

impl Hooks for RecordedSteps {
    fn step(&self, step: JournalStep) -> io::Result<()> {
        self.0.lock().unwrap().push(step);
        Ok(())
    }
}

/// The steps of an apply from one tree to the other.
pub(super) fn steps_of(before: &TestTree, after: &TestTree) -> Vec<JournalStep> {
    let stage = JournalFixture::new(before);
    let steps = Arc::new(RecordedSteps::default());
    let journals = stage.journals().with_hooks(steps.clone());
    carry_out(&journals, stage.request(changes(before, after))).unwrap().retire().unwrap();
    let steps = steps.0.lock().unwrap();
    steps.clone()
}

/// Trees that need every kind of op.
pub(super) fn every_kind() -> (TestTree, TestTree) {
    let before = tree([
        ("grows", file("old\n")),
        ("shrinks", TestNode::File(b"a longer text\n".to_vec(), 0o755)),
        ("goes", TestNode::File(b"bye\n".to_vec(), 0o600)),
        ("x/y/goes", file("bye\n")),
        ("x/y", TestNode::Dir(0o750)),
        ("x", TestNode::Dir(0o755)),
        ("link", TestNode::Link(b"old".to_vec())),
        ("mode", file("m\n")),
        ("both", file("1\n")),
        ("to dir", file("file\n")),
        ("to file/in", file("in\n")),
        ("to file", TestNode::Dir(0o755)),
    ]);
    let after = tree([
        ("grows", file("old\nand new\n")),
        ("shrinks", TestNode::File(b"short\n".to_vec(), 0o755)),
        ("new", TestNode::File(b"n\n".to_vec(), 0o640)),
        ("made/for/it", file("n\n")),
        ("link", TestNode::Link(b"new".to_vec())),
        ("new link", TestNode::Link(b"new".to_vec())),
        ("mode", TestNode::File(b"m\n".to_vec(), 0o700)),
        ("both", TestNode::File(b"2\n".to_vec(), 0o600)),
        ("to dir/in", file("dir\n")),
        ("to file", file("flat\n")),
        ("empty", TestNode::Dir(0o711)),
    ]);
    (before, after)
}
