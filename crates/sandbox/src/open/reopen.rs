//! Reopens a retained sandbox: the work in it is there, and can be captured as if it had just been done.
//!
//! # Invariants
//! 1. It has the strategy that it was made with, over the same projects.
//! 2. The bases that were saved before are forgotten. Each path is met for the first time again, and judged
//!    by the moment of the first opening. In another boot, or when a project is another directory by now, no
//!    base counts as known.
//! 3. A failure leaves it as it was, retained.
//!
//! # Not here
//! The reason for which it is retained: its owner knows it, and left a note.

use std::os::fd::AsFd;
use std::path::Path;

use super::baseline::OpenTimes;
use super::copy::SkippedFiles;
use super::dir::{ClaimError, SandboxDir};
use super::lock_record;
use super::manifest::Manifest;
use super::overlay;
use super::overlay::OverlayTarget;
use super::strategy::SandboxStrategy;
use super::{
    OpenRequest, OpenedTree, ProjectRoot, SandboxOpenError, assemble_parts, identity, manifest_file,
    open_project, tree_dir,
};
use crate::capture::ScanSource;
use crate::fs::beneath;
use crate::sandbox::Sandbox;

/// Returns true if the sandbox in `dir` is retained. Returns false for one that is in use.
pub fn is_retained(dir: &Path) -> bool {
    // Most of the time nothing is there, and one system call is enough.
    dir.symlink_metadata().is_ok() && SandboxDir::reclaim(dir).is_ok()
}

/// Opens the retained sandbox in the directory of the request, over the request's projects; returns
/// the note that its owner left. It stays retained until [`Sandbox::unretain`].
///
/// # Errors
/// Returns an error if it is not retained, is open in another process, or cannot be opened here. It is left
/// as it was.
pub fn reopen(request: OpenRequest) -> Result<(Sandbox, String), SandboxOpenError> {
    let OpenRequest { dir, roots, .. } = request;
    let again = |why: String| SandboxOpenError::Again { dir: dir.clone(), why };
    let mut projects = roots.into_iter().map(open_project).collect::<Result<Vec<_>, _>>()?;
    let claimed = SandboxDir::reclaim(&dir).map_err(|why| match why {
        ClaimError::Busy => SandboxOpenError::Busy { dir: dir.clone() },
        ClaimError::Kept | ClaimError::Io(_) => again(why.to_string()),
    })?;
    let (how, note) = claimed.read_lock_record().map_err(|why| again(why.to_string()))?;
    let rung: SandboxStrategy = how
        .rung
        .parse()
        .map_err(|why: crate::open::strategy::UnknownSandboxStrategy| again(why.to_string()))?;
    let now = projects.iter().map(|project| identity(&project.original)).collect::<Result<Vec<_>, _>>();
    let same = now.map_err(|why| again(why.to_string()))? == how.roots;
    let opened = OpenTimes::from_record(how.opened, same && lock_record::is_this_boot(&note));
    let (namespaces, trees) = match rung {
        SandboxStrategy::Overlay => reopen_overlay(&claimed, &projects).map_err(again)?,
        SandboxStrategy::Reflink | SandboxStrategy::Worktree | SandboxStrategy::Copy => {
            (None, reopen_copies(&claimed, &projects).map_err(again)?)
        }
        SandboxStrategy::InPlace => (None, reopen_in_place(&claimed, &projects).map_err(again)?),
    };
    let made =
        assemble_parts(opened, namespaces, &mut projects, trees, SkippedFiles::default()).map_err(again)?;
    Ok((Sandbox::new(rung, Vec::new(), made, claimed), note.text))
}

type ReopenedTrees = (Option<overlay::Namespaces>, Vec<OpenedTree>);

/// Over the same upper directory, with a new work directory: the kernel refuses one that was mounted as
/// `volatile`.
fn reopen_overlay(claimed: &SandboxDir, projects: &[ProjectRoot]) -> Result<ReopenedTrees, String> {
    let mut covers = Vec::new();
    for project in projects {
        let dir = claimed.path().join(project.no.0.to_string());
        crate::layer::remove_dir(&dir.join("work"))
            .map_err(|source| format!("{}: {source}", dir.display()))?;
        let (path, read_only) = (&project.path, project.read_only);
        covers.push(OverlayTarget { path, lower: project.original.as_fd(), dir, read_only });
    }
    let mounted = overlay::mount(&covers)?;
    let trees =
        mounted.roots.into_iter().map(|(tree, upper)| (tree, ScanSource::Upper(upper), None)).collect();
    Ok((Some(mounted.namespaces), trees))
}

fn reopen_copies(claimed: &SandboxDir, projects: &[ProjectRoot]) -> Result<Vec<OpenedTree>, String> {
    let one = |project: &ProjectRoot| {
        let path = tree_dir(claimed.path(), project.no);
        let tree = beneath::open_root(&path)?;
        Ok((tree, ScanSource::Copy(Manifest::read(&manifest_file(&path))?), Some(path)))
    };
    projects.iter().map(one).collect::<std::io::Result<_>>().map_err(|source| source.to_string())
}

fn reopen_in_place(claimed: &SandboxDir, projects: &[ProjectRoot]) -> Result<Vec<OpenedTree>, String> {
    let one = |project: &ProjectRoot| {
        let manifest = Manifest::read(&manifest_file(&tree_dir(claimed.path(), project.no)))?;
        Ok((project.original.try_clone()?, ScanSource::InPlace(manifest), None))
    };
    projects.iter().map(one).collect::<std::io::Result<_>>().map_err(|source| source.to_string())
}
