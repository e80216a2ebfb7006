//! The repositories that sandboxes are opened over, and how one is opened.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::{Hash, RootIndex, is_text};
use sandbox::content::{ContentSink, StoredContent};
use sandbox::{OpenRequest, RootSpec, Sandbox, SandboxStrategy, StrategyChoice};

/// How many times as large the large one is.
const LARGER: usize = 10;

/// A repository with so many files, and whose sandboxes are opened over it.
pub(crate) struct BenchProject {
    pub(crate) path: PathBuf,
    pub(crate) files: usize,
    sandboxes: PathBuf,
    next: AtomicUsize,
}

/// A small one and a large one.
pub(crate) struct BenchProjects {
    pub(crate) who: &'static str,
    pub(crate) dir: PathBuf,
    pub(crate) small: BenchProject,
    pub(crate) large: BenchProject,
}

impl BenchProjects {
    pub(crate) fn at(dir: &Path, who: &'static str, files: usize) -> BenchProjects {
        let dir = dir.canonicalize().unwrap();
        let project = |name: &str, files| {
            let (path, sandboxes) = (dir.join(name), dir.join(format!("{name}-sandboxes-of-{who}")));
            BenchProject { path, files, sandboxes, next: AtomicUsize::new(0) }
        };
        BenchProjects { small: project("small", files), large: project("large", files * LARGER), who, dir }
    }

    pub(crate) fn make(dir: &Path, who: &'static str, files: usize) -> BenchProjects {
        let projects = BenchProjects::at(dir, who, files);
        projects.small.make();
        projects.small.git(&["gc", "-q"]);
        projects.large.make();
        projects
    }
}

impl BenchProject {
    fn make(&self) {
        for file in 0..self.files {
            let path = self.file(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content(file)).unwrap();
        }
        fs::write(self.path.join(".gitignore"), "target/\n*.log\n").unwrap();
        self.git(&["init", "-q", "-b", "main"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "first"]);
    }

    /// The path of a file within the project.
    pub(crate) fn name(&self, file: usize) -> String {
        format!("src/m{:03}/d{:02}/f{file:06}.rs", file / 500, file / 50 % 10)
    }

    pub(crate) fn file(&self, file: usize) -> PathBuf {
        self.path.join(self.name(file))
    }

    /// Runs git in the project, untouched by the settings of whoever runs this.
    pub(crate) fn git(&self, arguments: &[&str]) {
        let mut command = git();
        command.arg("-C").arg(&self.path).args([
            "-c",
            "gc.auto=0",
            "-c",
            "user.name=b",
            "-c",
            "user.email=b@example.org",
        ]);
        run(command.args(arguments));
    }

    /// Opens a sandbox over it, on this rung or not at all.
    pub(crate) fn open(&self, rung: SandboxStrategy) -> Sandbox {
        let request = OpenRequest {
            dir: self.sandboxes.join(format!("plan-{}", self.next.fetch_add(1, Ordering::Relaxed))),
            roots: vec![RootSpec { no: RootIndex(0), path: self.path.clone(), read_only: false }],
            choice: StrategyChoice::Only(rung),
            include: vec![".env*".into()],
        };
        sandbox::open(request).unwrap()
    }
}

pub(crate) fn git() -> Command {
    let mut command = Command::new("git");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env_remove("GIT_DIR");
    command
}

pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// About 2.5 KB that no other file has.
fn content(file: usize) -> String {
    (0..40)
        .map(|line| format!("fn f{file}_{line}() -> u64 {{ {} }} // what it is for\n", file * 31 + line))
        .collect()
}

/// Hashes as a store would, and keeps nothing.
pub(crate) struct HashOnly;

impl ContentSink for HashOnly {
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent> {
        let mut all = Vec::new();
        bytes.read_to_end(&mut all)?;
        let size = all.len() as u64;
        Ok(StoredContent { hash: Hash::from_content(&all), size, text: is_text(&all, size) })
    }
}
