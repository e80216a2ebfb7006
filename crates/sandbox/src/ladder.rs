//! Opening a sandbox: the rungs are tried for real, best first, and those passed over say why.
//!
//! # Invariants
//! 1. All projects of a sandbox stand on the same rung.
//! 2. What a rung made before it failed is gone before the next is tried; when none serves, nothing is left on disk.
//! 3. A sandbox is never opened over another one's directory, nor over a project inside another.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use domain::{ErrorClass, RootNo};

use crate::base_known::Opened;
use crate::beneath;
use crate::capture::{Watched, Where};
use crate::copy::{Bytes, Copying, Skipped, try_sharing};
use crate::leftovers::{ClaimError, Claimed};
use crate::manifest::Manifest;
use crate::opened::{Made, Root, Sandbox};
use crate::overlay::{self, Cover};
use crate::rung::{Choice, PassedOver, Rung};
use crate::{in_place, worktree};

/// A project to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootSpec {
    /// Its number in the plan.
    pub no: RootNo,
    /// Where it is.
    pub path: PathBuf,
    /// Whether the plan may only read it.
    pub read_only: bool,
}

/// What is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// The sandbox's own directory: `<sandbox.dir>/<plan>-<attempt>`.
    pub dir: PathBuf,
    /// The projects.
    pub roots: Vec<RootSpec>,
    /// Which rungs may be used.
    pub choice: Choice,
    /// Patterns of ignored files that a worktree has all the same.
    pub include: Vec<String>,
}

/// Why no sandbox was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No rung serves.
    #[error("no sandbox can be opened here: {}", in_words(.reasons))]
    NoSandbox {
        /// Each rung that was tried.
        reasons: Vec<PassedOver>,
    },
    /// The project is a part of some sandbox.
    #[error("{project} lies in the sandbox directory {sandboxes}", project = .project.display(), sandboxes = .sandboxes.display())]
    InsideSandbox {
        /// The project.
        project: PathBuf,
        /// The directory of all sandboxes.
        sandboxes: PathBuf,
    },
    /// One project lies in another.
    #[error("the project {inner} lies in the project {outer}", inner = .inner.display(), outer = .outer.display())]
    Nested {
        /// The outer one.
        outer: PathBuf,
        /// The inner one.
        inner: PathBuf,
    },
    /// The project is not a directory.
    #[error("{path} is not a directory", path = .path.display())]
    NotADirectory {
        /// Where it should be.
        path: PathBuf,
    },
    /// The project cannot be reached.
    #[error("{path} cannot be read: {source}", path = .path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// Another process has this very sandbox open.
    #[error("the sandbox {dir} is in use", dir = .dir.display())]
    Busy {
        /// Its directory.
        dir: PathBuf,
    },
    /// The sandbox's own directory cannot be made or removed.
    #[error("the sandbox directory {dir}: {source}", dir = .dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What failed.
        source: io::Error,
    },
}

impl OpenError {
    /// What becomes of the same request, tried again.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy { .. } => ErrorClass::Transient,
            Self::NoSandbox { .. }
            | Self::InsideSandbox { .. }
            | Self::Nested { .. }
            | Self::NotADirectory { .. }
            | Self::Unreadable { .. }
            | Self::Directory { .. } => ErrorClass::Permanent,
        }
    }
}

fn in_words(reasons: &[PassedOver]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Opens a sandbox on the best rung that serves.
///
/// # Errors
/// None serves, or the request makes no sense. Nothing is left on disk then.
pub fn open(request: OpenRequest) -> Result<Sandbox, OpenError> {
    let OpenRequest { dir, roots, choice, include } = request;
    let mut projects = roots.into_iter().map(reach).collect::<Result<Vec<_>, _>>()?;
    apart(&projects)?;
    let directory = |source: io::Error| OpenError::Directory { dir: dir.clone(), source };
    let claimed = Claimed::make(&dir).map_err(|why| match why {
        ClaimError::Busy => OpenError::Busy { dir: dir.clone() },
        ClaimError::Io(source) => directory(source),
    })?;
    outside(&projects, &dir).and_then(|()| {
        let mut passed_over = Vec::new();
        for rung in choice.rungs() {
            let opening = Opening { projects: &mut projects, claimed: &claimed, include: &include };
            match opening.on(rung) {
                Ok(made) => return Ok(Sandbox::new(rung, passed_over, made, claimed)),
                Err(why) => passed_over.push(PassedOver { rung, why }),
            }
            claimed.clear().map_err(directory)?;
        }
        Err(OpenError::NoSandbox { reasons: passed_over })
    })
}

/// A project, reached.
struct Project {
    no: RootNo,
    /// Without links.
    path: PathBuf,
    original: OwnedFd,
    read_only: bool,
}

fn reach(spec: RootSpec) -> Result<Project, OpenError> {
    let RootSpec { no, path, read_only } = spec;
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotADirectory {
            OpenError::NotADirectory { path: path.clone() }
        } else {
            OpenError::Unreadable { path: path.clone(), source }
        }
    };
    let resolved = path.canonicalize().map_err(failed)?;
    let original = beneath::open_root(&resolved).map_err(failed)?;
    Ok(Project { no, path: resolved, original, read_only })
}

fn apart(projects: &[Project]) -> Result<(), OpenError> {
    for (index, inner) in projects.iter().enumerate() {
        for (other, outer) in projects.iter().enumerate() {
            if index != other && inner.path.starts_with(&outer.path) {
                return Err(OpenError::Nested { outer: outer.path.clone(), inner: inner.path.clone() });
            }
        }
    }
    Ok(())
}

fn outside(projects: &[Project], dir: &Path) -> Result<(), OpenError> {
    let Some(sandboxes) = dir.parent().and_then(|parent| parent.canonicalize().ok()) else { return Ok(()) };
    match projects.iter().find(|project| project.path.starts_with(&sandboxes)) {
        Some(project) => Err(OpenError::InsideSandbox { project: project.path.clone(), sandboxes }),
        None => Ok(()),
    }
}

/// One attempt.
struct Opening<'a> {
    projects: &'a mut Vec<Project>,
    claimed: &'a Claimed,
    include: &'a [String],
}

impl Opening<'_> {
    fn on(self, rung: Rung) -> Result<Made, String> {
        match rung {
            Rung::Overlay => self.overlay(),
            Rung::Reflink => {
                for project in self.projects.iter() {
                    let to = beneath::open_root(self.claimed.path()).map_err(|source| source.to_string())?;
                    try_sharing(project.original.as_fd(), to.as_fd())?;
                }
                self.copies(|copying| copying.everything(), Bytes::Shared)
            }
            Rung::Worktree => {
                for project in self.projects.iter() {
                    worktree::fits(&project.path)?;
                }
                let include = self.include;
                self.copies(|copying| worktree::copy(copying, include), Bytes::Copied)
            }
            Rung::Copy => self.copies(|copying| copying.everything(), Bytes::Copied),
            Rung::InPlace => self.in_place(),
        }
    }

    fn overlay(self) -> Result<Made, String> {
        let opened = Opened::now();
        let covers: Vec<Cover<'_>> = self
            .projects
            .iter()
            .map(|project| Cover {
                path: &project.path,
                lower: project.original.as_fd(),
                dir: self.claimed.path().join(project.no.0.to_string()),
                read_only: project.read_only,
            })
            .collect();
        let mounted = overlay::mount(&covers)?;
        drop(covers);
        let trees =
            mounted.roots.into_iter().map(|(tree, upper)| (tree, Where::Upper(upper), None)).collect();
        made(opened, Some(mounted.namespaces), self.projects, trees, Skipped::default())
    }

    fn copies(
        self,
        copy: impl Fn(Copying<'_>) -> Result<Skipped, String>,
        bytes: Bytes,
    ) -> Result<Made, String> {
        let mut opened = Opened::now();
        // Nothing is read before what is written meanwhile can be told from what was there.
        opened.wait();
        let mut skipped = Skipped::default();
        let mut trees = Vec::new();
        let leave_out = self.claimed.parent_identity().map_err(|source| source.to_string())?;
        for project in self.projects.iter() {
            let path = self.claimed.path().join(project.no.0.to_string()).join("tree");
            let tree = std::fs::create_dir_all(&path).and_then(|()| beneath::open_root(&path));
            let tree = tree.map_err(|source| format!("{}: {source}", path.display()))?;
            let copying = Copying::new(
                (project.original.as_fd(), &project.path),
                (tree.as_fd(), &path),
                bytes,
                leave_out,
            );
            let one = copying.map_err(|why| why.to_string()).and_then(&copy)?;
            skipped.special += one.special;
            skipped.unreadable += one.unreadable;
            let manifest = Manifest::of(tree.as_fd()).map_err(|why| why.to_string())?;
            trees.push((tree, Where::Copy(manifest), Some(path)));
        }
        opened.copied();
        made(opened, None, self.projects, trees, skipped)
    }

    fn in_place(self) -> Result<Made, String> {
        let mut opened = Opened::now();
        let mut trees = Vec::new();
        for project in self.projects.iter() {
            let (tree, changes) = in_place::open(&project.original).map_err(|why| why.to_string())?;
            trees.push((tree, changes, None));
        }
        opened.copied();
        made(opened, None, self.projects, trees, Skipped::default())
    }
}

/// The tree of a project, where its changes are found, and where it lies if it is a copy.
type Tree = (OwnedFd, Where, Option<PathBuf>);

fn made(
    opened: Opened,
    namespaces: Option<overlay::Namespaces>,
    projects: &mut Vec<Project>,
    trees: Vec<Tree>,
    skipped: Skipped,
) -> Result<Made, String> {
    let (mut watched, mut roots) = (Vec::new(), Vec::new());
    for (project, (tree, changes, copy)) in std::mem::take(projects).into_iter().zip(trees) {
        let Project { no, path, original, read_only } = project;
        watched.push(Watched::new(no, path.clone(), original, tree, changes));
        roots.push(Root { path, copy, read_only });
    }
    Ok(Made { opened, namespaces, watched, roots, skipped })
}

/// Finds out, by doing, which rungs of the ladder would serve these projects; copies are tried with one file.
pub fn probe(scratch_dir: &Path, roots: &[RootSpec]) -> Vec<(Rung, Result<(), String>)> {
    Rung::LADDER.into_iter().map(|rung| (rung, probe_one(scratch_dir, roots, rung))).collect()
}

fn probe_one(scratch_dir: &Path, roots: &[RootSpec], rung: Rung) -> Result<(), String> {
    let words = |why: OpenError| why.to_string();
    let mut projects = roots.iter().cloned().map(reach).collect::<Result<Vec<_>, _>>().map_err(words)?;
    let dir = scratch_dir.join(format!("probe-{}-{rung}", std::process::id()));
    let claimed = Claimed::make(&dir).map_err(|why| why.to_string())?;
    match rung {
        Rung::Overlay => {
            let opening = Opening { projects: &mut projects, claimed: &claimed, include: &[] };
            opening.on(rung).map(drop)
        }
        Rung::Reflink => {
            let to = beneath::open_root(&dir).map_err(|source| source.to_string())?;
            projects.iter().try_for_each(|project| try_sharing(project.original.as_fd(), to.as_fd()))
        }
        Rung::Worktree => projects.iter().try_for_each(|project| worktree::fits(&project.path)),
        // That the directory could be made is all a copy needs, but for space.
        Rung::Copy | Rung::InPlace => Ok(()),
    }
}
