//! A project, sandboxes over it, and commands that really run in them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use domain::{ChangeDraft, FileState, Hash, NetChange, RelPath, RootIndex, is_text};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sandbox::content::{ContentSink, ContentSource, StoredContent};
use sandbox::view::SandboxView;
use sandbox::{
    CaptureReport, CaptureRules, OpenRequest, RootSpec, Sandbox, SandboxOpenError, SandboxStrategy,
    StrategyChoice,
};

use super::ordinary_user::{assert_one_passes, reachable_dir, run_as_ordinary_user};

pub(super) const ROOT: RootIndex = RootIndex(0);

/// Set for a test that runs again in a mount namespace of its own.
const OWN_MOUNTS: &str = "SANDBOX_TEST_OWN_MOUNTS";

/// Contents kept in memory.
#[derive(Default)]
pub(super) struct TestContents {
    kept: Mutex<HashMap<Hash, Vec<u8>>>,
}

impl TestContents {
    pub(super) fn of(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.kept.lock().unwrap().get(hash).cloned()
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Hash {
        self.kept.lock().unwrap().insert(Hash::from_content(bytes), bytes.to_vec());
        Hash::from_content(bytes)
    }
}

impl ContentSink for TestContents {
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent> {
        let mut all = Vec::new();
        bytes.read_to_end(&mut all)?;
        let size = all.len() as u64;
        Ok(StoredContent { size, text: is_text(&all, size), hash: self.put(&all) })
    }
}

impl ContentSource for TestContents {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        let bytes = self.of(hash).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(io::Cursor::new(bytes)))
    }
}

/// A directory with a project in it.
pub(super) struct SandboxFixture {
    _dir: tempfile::TempDir,
    pub(super) project: PathBuf,
    pub(super) sandboxes: PathBuf,
    pub(super) contents: TestContents,
}

impl SandboxFixture {
    pub(super) fn new() -> SandboxFixture {
        SandboxFixture::with_project_named("project")
    }

    pub(super) fn with_project_named(name: &str) -> SandboxFixture {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (project, sandboxes) = (base.join(name), base.join("sandboxes"));
        fs::create_dir(&project).unwrap();
        SandboxFixture { _dir: dir, project, sandboxes, contents: TestContents::default() }
    }

    pub(super) fn write(&self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) {
        let path = self.project.join(OsStr::from_bytes(path.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(super) fn git(&self, arguments: &[&str]) -> String {
        git(&self.project, arguments)
    }

    /// Makes the project a repository with all of it committed.
    pub(super) fn commit_all(&self) {
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    }

    pub(super) fn request(&self, choice: StrategyChoice) -> OpenRequest {
        OpenRequest {
            dir: self.sandboxes.join("plan-1"),
            roots: vec![RootSpec { no: ROOT, path: self.project.clone(), read_only: false }],
            choice,
            include: vec![".env*".into()],
        }
    }

    pub(super) fn try_open(&self, choice: StrategyChoice) -> Result<Sandbox, SandboxOpenError> {
        sandbox::open(self.request(choice))
    }

    pub(super) fn open(&self, rung: SandboxStrategy) -> Sandbox {
        let sandbox = self.try_open(StrategyChoice::Only(rung)).unwrap();
        assert_eq!(sandbox.strategy(), rung);
        sandbox
    }

    pub(super) fn scan(&self, sandbox: &mut Sandbox) -> CaptureReport {
        sandbox.scan(&self.contents, &CaptureRules::default()).unwrap()
    }

    /// What changed, without the rest.
    pub(super) fn drafts(&self, sandbox: &mut Sandbox) -> Vec<ChangeDraft> {
        self.scan(sandbox).drafts.into_iter().map(|change| change.draft).collect()
    }

    /// Each file of the project with its content; what the user has.
    pub(super) fn users_tree(&self) -> Vec<(PathBuf, Vec<u8>)> {
        tree(&self.project)
    }

    /// Nothing lies in the directory of the sandboxes.
    pub(super) fn nothing_left(&self) -> bool {
        !self.sandboxes.exists() || fs::read_dir(&self.sandboxes).unwrap().next().is_none()
    }
}

/// All files below a directory with what is in them, links with where they lead.
pub(super) fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                dirs.push(entry.path());
                all.push((entry.path(), Vec::new()));
            } else if kind.is_symlink() {
                all.push((
                    entry.path(),
                    fs::read_link(entry.path()).unwrap().as_os_str().as_bytes().to_vec(),
                ));
            } else if kind.is_file() {
                all.push((entry.path(), fs::read(entry.path()).unwrap()));
            }
        }
    }
    all.sort();
    all
}

pub(super) fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
    // Maintenance that git starts in the background would outlive the call.
    command.args(["-c", "maintenance.auto=false"]).args(arguments);
    output(command.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("GIT_DIR"))
}

pub(super) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script in the sandbox, at the project, and waits for its end.
pub(super) fn run(sandbox: &Sandbox, script: impl AsRef<OsStr>) {
    run_in(sandbox.view().unwrap(), script);
}

/// The same for any view. No isolation: that is not what is tested here.
pub(super) fn run_in(view: SandboxView, script: impl AsRef<OsStr>) {
    output(&mut command_in(view, script));
}

pub(super) fn command_in(view: SandboxView, script: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.arg("-ec").arg(script).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "t").env(format!("GIT_{name}_EMAIL"), "t@example.org");
    }
    let root = &view.roots[0];
    let here = root.copy.clone().unwrap_or_else(|| root.path.clone());
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            if let Some(user) = &view.user_namespace {
                move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
            }
            if let Some(mount) = &view.mount_namespace {
                move_into_link_name_space(mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
            }
            Ok(rustix::process::chdir(&here)?)
        });
    }
    command
}

/// Runs a test as root and as an ordinary user, as far as we may: `test` is its own name.
pub(super) fn as_root_and_as_user(test: &str, body: impl Fn()) {
    body();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    run_as_ordinary_user(test, &reachable_dir());
}

/// Runs a test again in a mount namespace of its own, in which it may mount what it likes. Only root can.
pub(super) fn in_own_mounts(test: &str, body: impl Fn()) {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        body();
    } else if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).arg(std::env::current_exe().unwrap());
        assert_one_passes(command.args(["--exact", test, "--nocapture"]).env(OWN_MOUNTS, "yes"));
    }
}

pub(super) fn path(bytes: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(bytes).unwrap()
}

pub(super) fn file(bytes: impl AsRef<[u8]>) -> Option<FileState> {
    Some(FileState::file(bytes.as_ref(), 0o644))
}

pub(super) fn between(
    at: impl AsRef<[u8]>,
    before: Option<FileState>,
    after: Option<FileState>,
) -> ChangeDraft {
    ChangeDraft::between(path(at), before, after).unwrap()
}

/// The change as a plan's net would have it.
pub(super) fn net(draft: &ChangeDraft) -> NetChange {
    let (at, from) = match draft.op() {
        domain::ChangeOp::Rename { from } => (draft.path().clone(), Some(from.clone())),
        _ => (draft.path().clone(), None),
    };
    NetChange {
        root: ROOT,
        path: at,
        from,
        before: draft.before().copied(),
        after: draft.after().copied(),
        base: domain::Base::Known,
        calls: Vec::new(),
    }
}
