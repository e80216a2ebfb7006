//! The best rung: an overlay over the live tree, mounted at the project's own path in a namespace of its own.
//!
//! It costs the same whatever the size of the project: nothing is walked. What the plan changes goes to an upper
//! directory; the project is the lower one and is only read.
//!
//! # Invariants
//! 1. No process holds the namespace; descriptors of ours do.
//! 2. Nothing is read from the project before it is known to be the directory that was meant.
//!
//! # Not here
//! What the upper directory says about changes: [`capture`](crate::capture).

mod child;
mod fit;
mod spec;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

pub(crate) use child::child_open;
use spec::{Answer, Failed, Identity, Overlay, Place, Request, Step, Within};

use crate::child::{ChildProgram, OPEN_VERB};
use crate::{beneath, fds};

/// A project to be covered.
#[derive(Debug)]
pub(crate) struct Cover<'a> {
    /// Its path, without links, at which the overlay is mounted.
    pub(crate) path: &'a Path,
    /// The project itself.
    pub(crate) lower: BorrowedFd<'a>,
    /// Where `upper` and `work` are made.
    pub(crate) dir: PathBuf,
    pub(crate) read_only: bool,
}

/// Namespaces that hold overlays.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) user: Option<OwnedFd>,
    pub(crate) mount: OwnedFd,
}

/// Overlays, mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) namespaces: Namespaces,
    /// The merged root and the upper directory of each, in the order of the covers.
    pub(crate) roots: Vec<(OwnedFd, OwnedFd)>,
}

/// Mounts an overlay over each project; the reason, in words, when that does not work here.
pub(crate) fn mount(child: &ChildProgram, covers: &[Cover<'_>]) -> Result<Mounted, String> {
    let within = if may_mount() { Within::NewMounts } else { Within::NewUser };
    for cover in covers {
        fit::of_project(cover.lower, cover.path, within == Within::NewUser)?;
    }
    mount_within(child, covers, within, &[])
}

/// Mounts a further overlay over each merged root of a sandbox, in a copy of its namespace.
pub(crate) fn mount_over(
    child: &ChildProgram,
    covers: &[Cover<'_>],
    namespaces: &Namespaces,
) -> Result<Mounted, String> {
    match &namespaces.user {
        Some(user) => {
            mount_within(child, covers, Within::UserAndMounts, &[user.as_fd(), namespaces.mount.as_fd()])
        }
        None => mount_within(child, covers, Within::Mounts, &[namespaces.mount.as_fd()]),
    }
}

fn may_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

fn mount_within(
    child: &ChildProgram,
    covers: &[Cover<'_>],
    within: Within,
    enter: &[BorrowedFd<'_>],
) -> Result<Mounted, String> {
    let mut overlays = Vec::new();
    let mut uppers = Vec::new();
    for cover in covers {
        let upper = make_dir(&cover.dir.join("upper"))?;
        let work = make_dir(&cover.dir.join("work"))?;
        fit::of_upper(upper.as_fd(), &cover.dir)?;
        look_like(cover.lower, upper.as_fd()).map_err(|errno| format!("{}: {errno}", cover.dir.display()))?;
        overlays.push(Overlay {
            lower: place(cover.path, cover.lower)?,
            upper: place(&cover.dir.join("upper"), upper.as_fd())?,
            work: place(&cover.dir.join("work"), work.as_fd())?,
            read_only: cover.read_only,
        });
        uppers.push(upper);
    }
    let request = Request { within, overlays };
    let held = ask(child, &request, enter).map_err(|source| format!("the child that mounts: {source}"))?;
    let mut held = held.map_err(|failed| in_words(&failed, covers))?.into_iter();
    let user = if within == Within::NewUser { held.next() } else { None };
    let mount = held.next().ok_or("the child handed over no namespace")?;
    let roots: Vec<(OwnedFd, OwnedFd)> = held.zip(uppers).collect();
    if roots.len() != covers.len() || !roots.iter().all(|(merged, _)| fit::is_overlay(merged)) {
        return Err("the child handed over something other than overlays".to_owned());
    }
    Ok(Mounted { namespaces: Namespaces { user, mount }, roots })
}

fn make_dir(path: &Path) -> Result<OwnedFd, String> {
    std::fs::create_dir_all(path)
        .and_then(|()| beneath::open_root(path))
        .map_err(|source| format!("{}: {source}", path.display()))
}

fn place(path: &Path, dir: BorrowedFd<'_>) -> Result<Place, String> {
    let is = Identity::of(dir).map_err(|errno| format!("{}: {errno}", path.display()))?;
    Ok(Place { path: fit::bytes(path), is })
}

/// The merged root has the owner and the mode of the upper directory, so that has those of the project.
fn look_like(project: BorrowedFd<'_>, upper: BorrowedFd<'_>) -> Result<(), Errno> {
    let (is, wanted) = (rustix::fs::fstat(upper)?, rustix::fs::fstat(project)?);
    if (is.st_uid, is.st_gid) != (wanted.st_uid, wanted.st_gid) {
        let (uid, gid) = (Uid::from_raw(wanted.st_uid), Gid::from_raw(wanted.st_gid));
        rustix::fs::chownat(upper, c"", Some(uid), Some(gid), rustix::fs::AtFlags::EMPTY_PATH)?;
    }
    crate::listing::chmod_held(upper, Mode::from_raw_mode(wanted.st_mode & 0o7777))
        .map_err(|source| Errno::from_io_error(&source).unwrap_or(Errno::IO))
}

/// Starts the child, asks, and waits for its end.
fn ask(
    program: &ChildProgram,
    request: &Request,
    enter: &[BorrowedFd<'_>],
) -> io::Result<Result<Vec<OwnedFd>, Failed>> {
    if request.overlays.len() + 2 > fds::FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many projects"));
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = program.command(OPEN_VERB);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // The command keeps the child's end open; without this a child that dies would never be noticed.
    drop(command);
    let answered = fds::send(ours.as_fd(), &serde_json::to_vec(request)?, enter)
        .and_then(|()| fds::receive(ours.as_fd()));
    drop(ours);
    let status = child.wait()?;
    let (bytes, held) =
        answered.map_err(|source| io::Error::new(source.kind(), format!("{source} ({status})")))?;
    Ok(match serde_json::from_slice(&bytes)? {
        Answer::Opened => Ok(held),
        Answer::Failed(failed) => Err(failed),
    })
}

fn in_words(failed: &Failed, covers: &[Cover<'_>]) -> String {
    let errno = Errno::from_raw_os_error(failed.errno);
    let cover = failed.overlay.and_then(|index| covers.get(index));
    let path = cover.map_or_else(String::new, |cover| cover.path.display().to_string());
    match failed.step {
        Step::Unshare | Step::MapIds => format!("namespaces are barred here: {errno}"),
        Step::Elsewhere => format!("{path} was replaced by another directory meanwhile"),
        Step::Mount if errno == Errno::INVAL && cover.is_some_and(|cover| fit::is_overlay(cover.lower)) => {
            format!("{path} lies on overlays as deep as the kernel allows")
        }
        Step::Mount if matches!(errno, Errno::PERM | Errno::ACCESS) => {
            format!("mounting over {path} is barred here: {errno}")
        }
        Step::Mount if errno == Errno::LOOP => format!("the sandbox directory lies inside {path}"),
        Step::Mount if errno == Errno::NODEV => "this kernel has no overlay file system".to_owned(),
        Step::Mount => format!("mounting over {path}: {errno}"),
        Step::Reach | Step::Merged => format!("{path}: {errno}"),
        Step::Request | Step::Enter | Step::Private | Step::HandOver => format!("{:?}: {errno}", failed.step),
    }
}
