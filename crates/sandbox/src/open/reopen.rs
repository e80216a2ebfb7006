//! Opening a sandbox again that was kept: what was done in it is there, and can be captured as if it had just been done.
//!
//! # Invariants
//! 1. It stands on the rung that it was made on, over the same projects.
//! 2. What was saved of bases before is forgotten: each path is met for the first time again, and judged by the moment
//!    of the first opening. In another boot, or when a project is another directory by now, no base counts as known.
//! 3. Failing leaves it as it was, kept.
//!
//! # Not here
//! Why it is kept: its owner knows, and left a note.

use std::os::fd::AsFd;
use std::path::Path;

use super::baseline::Opened;
use super::copy::Skipped;
use super::dir::{ClaimError, Claimed};
use super::lock_record;
use super::manifest::Manifest;
use super::overlay;
use super::overlay::Cover;
use super::strategy::Rung;
use super::{OpenError, OpenRequest, Project, Tree, identity, made, manifest_file, reach, tree_dir};
use crate::capture::Where;
use crate::fs::beneath;
use crate::sandbox::Sandbox;

/// Whether the sandbox in `dir` is kept. One that is in use is not told of.
pub fn is_kept(dir: &Path) -> bool {
    Claimed::again(dir).is_ok()
}

/// Opens the sandbox that is kept in the directory of the request, over the request's projects; gives back the note
/// that its owner left. It stays kept until [`Sandbox::keep_no_more`].
///
/// # Errors
/// It is not kept, somebody has it open, or it cannot be opened here. It is left as it was.
pub fn reopen(request: OpenRequest) -> Result<(Sandbox, String), OpenError> {
    let OpenRequest { dir, roots, .. } = request;
    let again = |why: String| OpenError::Again { dir: dir.clone(), why };
    let mut projects = roots.into_iter().map(reach).collect::<Result<Vec<_>, _>>()?;
    let claimed = Claimed::again(&dir).map_err(|why| match why {
        ClaimError::Busy => OpenError::Busy { dir: dir.clone() },
        ClaimError::Kept | ClaimError::Io(_) => again(why.to_string()),
    })?;
    let (how, note) = claimed.told().map_err(|why| again(why.to_string()))?;
    let rung: Rung =
        how.rung.parse().map_err(|why: crate::open::strategy::NoSuchRung| again(why.to_string()))?;
    let now = projects.iter().map(|project| identity(&project.original)).collect::<Result<Vec<_>, _>>();
    let same = now.map_err(|why| again(why.to_string()))? == how.roots;
    let opened = Opened::again(how.opened, same && lock_record::is_this_boot(&note));
    let (namespaces, trees) = match rung {
        Rung::Overlay => overlay_again(&claimed, &projects).map_err(again)?,
        Rung::Reflink | Rung::Worktree | Rung::Copy => {
            (None, copies_again(&claimed, &projects).map_err(again)?)
        }
        Rung::InPlace => (None, in_place_again(&claimed, &projects).map_err(again)?),
    };
    let made = made(opened, namespaces, &mut projects, trees, Skipped::default()).map_err(again)?;
    Ok((Sandbox::new(rung, Vec::new(), made, claimed), note.text))
}

type Again = (Option<overlay::Namespaces>, Vec<Tree>);

/// Over the same upper directory, with a new work directory: the kernel refuses one that was mounted as `volatile`.
fn overlay_again(claimed: &Claimed, projects: &[Project]) -> Result<Again, String> {
    let mut covers = Vec::new();
    for project in projects {
        let dir = claimed.path().join(project.no.0.to_string());
        crate::layer::remove_dir(&dir.join("work"))
            .map_err(|source| format!("{}: {source}", dir.display()))?;
        let (path, read_only) = (&project.path, project.read_only);
        covers.push(Cover { path, lower: project.original.as_fd(), dir, read_only });
    }
    let mounted = overlay::mount(&covers)?;
    let trees = mounted.roots.into_iter().map(|(tree, upper)| (tree, Where::Upper(upper), None)).collect();
    Ok((Some(mounted.namespaces), trees))
}

fn copies_again(claimed: &Claimed, projects: &[Project]) -> Result<Vec<Tree>, String> {
    let one = |project: &Project| {
        let path = tree_dir(claimed.path(), project.no);
        let tree = beneath::open_root(&path)?;
        Ok((tree, Where::Copy(Manifest::read(&manifest_file(&path))?), Some(path)))
    };
    projects.iter().map(one).collect::<std::io::Result<_>>().map_err(|source| source.to_string())
}

fn in_place_again(claimed: &Claimed, projects: &[Project]) -> Result<Vec<Tree>, String> {
    let one = |project: &Project| {
        let manifest = Manifest::read(&manifest_file(&tree_dir(claimed.path(), project.no)))?;
        Ok((project.original.try_clone()?, Where::InPlace(manifest), None))
    };
    projects.iter().map(one).collect::<std::io::Result<_>>().map_err(|source| source.to_string())
}
