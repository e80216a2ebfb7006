//! Opens a sandbox: the strategies are tried for real, best first, and each that is skipped gives its reason.
//!
//! # Invariants
//! 1. All projects of a sandbox have the same strategy.
//! 2. The files of a strategy that failed are removed before the next is tried; if none works, nothing is
//!    left on disk.
//! 3. A sandbox is never opened over another one's directory, nor over a project inside another.

pub(crate) mod baseline;
pub(crate) mod copy;
pub mod dir;
pub(crate) mod lock_record;
pub(crate) mod manifest;
mod no_sandbox;
pub(crate) mod overlay;
pub mod reopen;
pub mod strategy;
mod worktree;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use domain::{ErrorClass, RootIndex};

use crate::capture::{CaptureRoot, ScanSource};
use crate::fs::beneath;
use crate::sandbox::{Sandbox, SandboxParts, SandboxRoot};
use baseline::OpenTimes;
use copy::{CopyMethod, CopyWatch, ProjectCopy, SkippedFiles, try_sharing};
use dir::{ClaimError, SandboxDir};
use lock_record::OpenRecord;
use manifest::Manifest;
use overlay::OverlayTarget;
use strategy::{SandboxStrategy, SkippedSandboxStrategy, StrategyChoice};

/// A copy leaves this part of the disk free,
const SPARE_PART: u64 = 20;
/// but no more than this.
const SPARE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A project to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSpec {
    /// Its number in the plan.
    pub no: RootIndex,
    /// Its path.
    pub path: PathBuf,
    /// True if the plan may only read it.
    pub read_only: bool,
}

/// The inputs of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// The sandbox's own directory: `<sandbox.dir>/<plan>-<attempt>`.
    pub dir: PathBuf,
    /// The projects.
    pub roots: Vec<RootSpec>,
    /// The strategies that may be used.
    pub choice: StrategyChoice,
    /// Patterns of ignored files that a worktree has all the same.
    pub include: Vec<String>,
}

/// The reason that no sandbox was opened.
#[derive(Debug, thiserror::Error)]
pub enum SandboxOpenError {
    /// No strategy works.
    #[error("no sandbox can be opened here: {}", describe_reasons(.reasons))]
    NoSandbox {
        /// Each strategy that was tried.
        reasons: Vec<SkippedSandboxStrategy>,
    },
    /// The project is a part of some sandbox.
    #[error("{project} is inside the sandbox directory {sandboxes}", project = .project.display(), sandboxes = .sandboxes.display())]
    InsideSandbox {
        /// The project.
        project: PathBuf,
        /// The directory of all sandboxes.
        sandboxes: PathBuf,
    },
    /// One project is in another.
    #[error("the project {inner} is inside the project {outer}", inner = .inner.display(), outer = .outer.display())]
    Nested {
        /// The outer one.
        outer: PathBuf,
        /// The inner one.
        inner: PathBuf,
    },
    /// The project is not a directory.
    #[error("{path} is not a directory", path = .path.display())]
    NotADirectory {
        /// The path at which it should be.
        path: PathBuf,
    },
    /// The project cannot be reached.
    #[error("{path} cannot be read: {source}", path = .path.display())]
    Unreadable {
        /// The path at which it should be.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The changes in this very sandbox could not be captured, so it is retained.
    #[error("the sandbox {dir} is retained for the changes in it", dir = .dir.display())]
    Kept {
        /// Its directory.
        dir: PathBuf,
    },
    /// A retained sandbox cannot be opened again.
    #[error("the sandbox that is retained in {dir} cannot be reopened: {why}", dir = .dir.display())]
    Again {
        /// Its directory.
        dir: PathBuf,
        /// In words.
        why: String,
    },
    /// The caller does not want the sandbox any more.
    #[error("the opening of the sandbox was stopped")]
    Stopped,
    /// Another process has this very sandbox open.
    #[error("the sandbox {dir} is in use", dir = .dir.display())]
    Busy {
        /// Its directory.
        dir: PathBuf,
    },
    /// The sandbox's own directory cannot be made or removed.
    #[error("the sandbox directory {dir}: {source}", dir = .dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl SandboxOpenError {
    /// Returns the class of the error, which decides on a retry of the same request.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy { .. } => ErrorClass::Transient,
            Self::Stopped => ErrorClass::Cancelled,
            Self::NoSandbox { .. }
            | Self::InsideSandbox { .. }
            | Self::Nested { .. }
            | Self::NotADirectory { .. }
            | Self::Unreadable { .. }
            | Self::Kept { .. }
            | Self::Again { .. }
            | Self::Directory { .. } => ErrorClass::Permanent,
        }
    }
}

fn describe_reasons(reasons: &[SkippedSandboxStrategy]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Opens a sandbox on the best strategy that works.
///
/// # Errors
/// None serves, or the request makes no sense. Nothing is left on disk then.
pub fn open(request: OpenRequest) -> Result<Sandbox, SandboxOpenError> {
    open_unless(request, &|| false)
}

/// The same, given up as soon as `stop` says so: a copy asks before each file.
///
/// # Errors
/// As [`open`], and [`SandboxOpenError::Stopped`].
pub fn open_unless(
    request: OpenRequest,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Sandbox, SandboxOpenError> {
    open_watched(request, &CopyWatch::default(), stop)
}

/// The same with a bound for copies, which `watch` counts.
///
/// # Errors
/// As [`open_unless`].
pub fn open_watched(
    request: OpenRequest,
    watch: &CopyWatch,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Sandbox, SandboxOpenError> {
    let OpenRequest { dir, roots, choice, include } = request;
    let mut projects = roots.into_iter().map(open_project).collect::<Result<Vec<_>, _>>()?;
    check_apart(&projects)?;
    let directory = |source: io::Error| SandboxOpenError::Directory { dir: dir.clone(), source };
    let claimed = SandboxDir::make(&dir).map_err(|why| match why {
        ClaimError::Busy => SandboxOpenError::Busy { dir: dir.clone() },
        ClaimError::Kept => SandboxOpenError::Kept { dir: dir.clone() },
        ClaimError::Io(source) => directory(source),
    })?;
    check_outside(&projects, &dir).and_then(|()| {
        let mut passed_over = Vec::new();
        for rung in choice.strategies() {
            watch.restart();
            let opening =
                OpenAttempt { projects: &mut projects, claimed: &claimed, include: &include, watch, stop };
            match opening.on(rung) {
                Ok(made) => {
                    claimed.describe(&how_opened(rung, &made).map_err(directory)?).map_err(directory)?;
                    return Ok(Sandbox::new(rung, passed_over, made, claimed));
                }
                Err(_) if stop() => return Err(SandboxOpenError::Stopped),
                Err(why) => passed_over.push(SkippedSandboxStrategy { rung, why }),
            }
            claimed.clear().map_err(directory)?;
        }
        Err(SandboxOpenError::NoSandbox { reasons: passed_over })
    })
}

fn how_opened(rung: SandboxStrategy, made: &SandboxParts) -> io::Result<OpenRecord> {
    let roots = made.watched.iter().map(|root| identity(&root.original)).collect::<io::Result<_>>()?;
    Ok(OpenRecord { rung: rung.as_str().to_owned(), opened: made.opened.record(), roots })
}

/// Device and inode.
pub(crate) fn identity(dir: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// A project, reached.
pub(crate) struct ProjectRoot {
    pub(crate) no: RootIndex,
    /// Without links.
    pub(crate) path: PathBuf,
    pub(crate) original: OwnedFd,
    pub(crate) read_only: bool,
}

pub(crate) fn open_project(spec: RootSpec) -> Result<ProjectRoot, SandboxOpenError> {
    let RootSpec { no, path, read_only } = spec;
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotADirectory {
            SandboxOpenError::NotADirectory { path: path.clone() }
        } else {
            SandboxOpenError::Unreadable { path: path.clone(), source }
        }
    };
    let resolved = path.canonicalize().map_err(failed)?;
    let original = beneath::open_root(&resolved).map_err(failed)?;
    Ok(ProjectRoot { no, path: resolved, original, read_only })
}

fn check_apart(projects: &[ProjectRoot]) -> Result<(), SandboxOpenError> {
    for (index, inner) in projects.iter().enumerate() {
        for (other, outer) in projects.iter().enumerate() {
            if index != other && inner.path.starts_with(&outer.path) {
                return Err(SandboxOpenError::Nested {
                    outer: outer.path.clone(),
                    inner: inner.path.clone(),
                });
            }
        }
    }
    Ok(())
}

fn check_outside(projects: &[ProjectRoot], dir: &Path) -> Result<(), SandboxOpenError> {
    let Some(sandboxes) = dir.parent().and_then(|parent| parent.canonicalize().ok()) else { return Ok(()) };
    match projects.iter().find(|project| project.path.starts_with(&sandboxes)) {
        Some(project) => Err(SandboxOpenError::InsideSandbox { project: project.path.clone(), sandboxes }),
        None => Ok(()),
    }
}

/// One attempt.
struct OpenAttempt<'a> {
    projects: &'a mut Vec<ProjectRoot>,
    claimed: &'a SandboxDir,
    include: &'a [String],
    watch: &'a CopyWatch,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl OpenAttempt<'_> {
    fn on(self, rung: SandboxStrategy) -> Result<SandboxParts, String> {
        match rung {
            SandboxStrategy::Overlay => self.overlay(),
            SandboxStrategy::Reflink => {
                for project in self.projects.iter() {
                    let to = beneath::open_root(self.claimed.path()).map_err(|source| source.to_string())?;
                    try_sharing(project.original.as_fd(), to.as_fd())?;
                }
                self.copies(|copying| copying.copy_all(), CopyMethod::Shared)
            }
            SandboxStrategy::Worktree => {
                for project in self.projects.iter() {
                    worktree::fits(&project.path, self.stop)?;
                }
                let include = self.include;
                self.copies(|copying| worktree::copy(copying, include), CopyMethod::Copied)
            }
            SandboxStrategy::Copy => self.copies(|copying| copying.copy_all(), CopyMethod::Copied),
            SandboxStrategy::InPlace => self.in_place(),
        }
    }

    fn overlay(self) -> Result<SandboxParts, String> {
        let opened = OpenTimes::now();
        let covers: Vec<OverlayTarget<'_>> = self
            .projects
            .iter()
            .map(|project| OverlayTarget {
                path: &project.path,
                lower: project.original.as_fd(),
                dir: self.claimed.path().join(project.no.0.to_string()),
                read_only: project.read_only,
            })
            .collect();
        let mounted = overlay::mount(&covers)?;
        drop(covers);
        let trees =
            mounted.roots.into_iter().map(|(tree, upper)| (tree, ScanSource::Upper(upper), None)).collect();
        assemble_parts(opened, Some(mounted.namespaces), self.projects, trees, SkippedFiles::default())
    }

    fn copies(
        self,
        copy: impl Fn(ProjectCopy<'_>) -> Result<SkippedFiles, String>,
        bytes: CopyMethod,
    ) -> Result<SandboxParts, String> {
        let mut opened = OpenTimes::now();
        // Nothing is read before later writes can be distinguished from the present files.
        opened.wait();
        let mut skipped = SkippedFiles::default();
        let mut trees = Vec::new();
        let leave_out = self.claimed.parent_identity().map_err(|source| source.to_string())?;
        for project in self.projects.iter() {
            let path = tree_dir(self.claimed.path(), project.no);
            let tree = std::fs::create_dir_all(&path).and_then(|()| beneath::open_root(&path));
            let tree = tree.map_err(|source| format!("{}: {source}", path.display()))?;
            let stop = || (self.stop)() || is_nearly_full(&tree);
            let copying = ProjectCopy::new(
                (project.original.as_fd(), &project.path),
                (tree.as_fd(), &path),
                bytes,
                leave_out,
                &stop,
                self.watch,
            );
            let one = copying.map_err(|why| why.to_string()).and_then(&copy).map_err(|why| {
                let would_fill =
                    || format!("a copy would fill the disk of {}", self.claimed.path().display());
                if is_nearly_full(&tree) { would_fill() } else { why }
            })?;
            skipped.special += one.special;
            skipped.unreadable += one.unreadable;
            let manifest = Manifest::from_tree(tree.as_fd()).map_err(|why| why.to_string())?;
            write_manifest(&manifest, &path)?;
            trees.push((tree, ScanSource::Copy(manifest), Some(path)));
        }
        opened.copied();
        assemble_parts(opened, None, self.projects, trees, skipped)
    }

    fn in_place(self) -> Result<SandboxParts, String> {
        let mut opened = OpenTimes::now();
        let mut trees = Vec::new();
        for project in self.projects.iter() {
            let (tree, manifest) = no_sandbox::open(&project.original).map_err(|why| why.to_string())?;
            write_manifest(&manifest, &tree_dir(self.claimed.path(), project.no))?;
            trees.push((tree, ScanSource::InPlace(manifest), None));
        }
        opened.copied();
        assemble_parts(opened, None, self.projects, trees, SkippedFiles::default())
    }
}

/// Returns true if so little space is left on the disk that a copy must not continue: the user needs it too.
fn is_nearly_full(dir: &OwnedFd) -> bool {
    rustix::fs::fstatvfs(dir).is_ok_and(|disk| {
        let spare = (disk.f_blocks.saturating_mul(disk.f_frsize) / SPARE_PART).min(SPARE_BYTES_MAX);
        disk.f_bavail.saturating_mul(disk.f_frsize) < spare
    })
}

/// Returns the directory of the copy of a project.
pub(crate) fn tree_dir(sandbox: &Path, no: RootIndex) -> PathBuf {
    sandbox.join(no.0.to_string()).join("tree")
}

/// Returns the file that holds the manifest of the copy in `tree`.
pub(crate) fn manifest_file(tree: &Path) -> PathBuf {
    tree.with_file_name("manifest")
}

fn write_manifest(manifest: &Manifest, tree: &Path) -> Result<(), String> {
    let file = manifest_file(tree);
    let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| manifest.write(&file)).map_err(|source| format!("{}: {source}", file.display()))
}

/// The tree of a project, the source of its changes, and its path if it is a copy.
pub(crate) type OpenedTree = (OwnedFd, ScanSource, Option<PathBuf>);

pub(crate) fn assemble_parts(
    opened: OpenTimes,
    namespaces: Option<overlay::Namespaces>,
    projects: &mut Vec<ProjectRoot>,
    trees: Vec<OpenedTree>,
    skipped: SkippedFiles,
) -> Result<SandboxParts, String> {
    let (mut watched, mut roots) = (Vec::new(), Vec::new());
    for (project, (tree, changes, copy)) in std::mem::take(projects).into_iter().zip(trees) {
        let ProjectRoot { no, path, original, read_only } = project;
        watched.push(CaptureRoot::new(no, path.clone(), original, tree, changes));
        roots.push(SandboxRoot { path, copy, read_only });
    }
    Ok(SandboxParts { opened, namespaces, watched, roots, skipped })
}

/// Finds out, by doing, which strategies would work for these projects; copies are tried with one file.
pub fn probe(scratch_dir: &Path, roots: &[RootSpec]) -> Vec<(SandboxStrategy, Result<(), String>)> {
    SandboxStrategy::TRY_ORDER.into_iter().map(|rung| (rung, probe_one(scratch_dir, roots, rung))).collect()
}

fn probe_one(scratch_dir: &Path, roots: &[RootSpec], rung: SandboxStrategy) -> Result<(), String> {
    let words = |why: SandboxOpenError| why.to_string();
    let mut projects =
        roots.iter().cloned().map(open_project).collect::<Result<Vec<_>, _>>().map_err(words)?;
    let dir = scratch_dir.join(format!("probe-{}-{rung}", std::process::id()));
    let claimed = SandboxDir::make(&dir).map_err(|why| why.to_string())?;
    match rung {
        SandboxStrategy::Overlay => {
            let watch = &CopyWatch::default();
            let opening = OpenAttempt {
                projects: &mut projects,
                claimed: &claimed,
                include: &[],
                watch,
                stop: &|| false,
            };
            opening.on(rung).map(drop)
        }
        SandboxStrategy::Reflink => {
            let to = beneath::open_root(&dir).map_err(|source| source.to_string())?;
            projects.iter().try_for_each(|project| try_sharing(project.original.as_fd(), to.as_fd()))
        }
        SandboxStrategy::Worktree => {
            projects.iter().try_for_each(|project| worktree::fits(&project.path, &|| false))
        }
        // That the directory could be made is all a copy needs, but for space.
        SandboxStrategy::Copy | SandboxStrategy::InPlace => Ok(()),
    }
}
