//! Builds the file system of a command.
//!
//! # How
//! 1. All trees that are needed later are opened and cloned, while they can still be reached.
//! 2. Everything is made read-only, recursively.
//! 3. One file system in memory is made. Each directory that the command gets for itself is a directory in
//!    it, cloned as a mount of its own. One file system costs as much as ten mounts.
//! 4. The rest of the machine becomes a new root: the sibling `machine_view`.
//! 5. The steps of the layout are done in their order; places that do not exist in a private directory are
//!    made.
//! 6. Mounts that had to be writable for that become read-only too.
//!
//! # Invariants
//! 1. The tree that is put at a project's path is the sandbox's, by device and inode, not one that happens to
//!    be there.
//!
//! # Not here
//! The place of each mount: the sibling `layout`.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_bind, move_mount, open_tree, unmount,
};

use super::control::ChildOrder;
use super::devices::DeviceFiles;
use super::layout::{LayoutStep, MountContent, MountLayout};
use super::machine_view::MachineView;
use super::reaper::StartNotes;
use super::usage;

/// A directory with nothing in it needs next to nothing.
const HIDDEN_BYTES_MAX: &str = "64k";

/// The path of the file system in memory while it is filled: nothing more is needed of the directory there.
const STORE: &str = "/dev";
/// The directories in it: one for devices, one that stays empty, one with the covers of masked paths.
const DEVICES: &str = "devices";
const EMPTY: &str = "empty";
const COVERS: &str = "covers";
/// The covers of masked paths.
const COVER_FILE: &str = "file";
const COVER_DIR: &str = "dir";

/// On whatever a command can write to, neither a set-user-id program nor a device is more than a file.
pub(super) const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// The descriptors of a step that must be opened before anything is covered.
enum PreparedMount {
    /// A mount, to be attached.
    Mount { mount: OwnedFd, is_dir: bool },
    /// Device files, and the directory for them once it is made.
    Devices(DeviceFiles, Option<OwnedFd>),
    /// Nothing.
    Nothing,
}

/// Does it; returns what is hidden and what could not be done. Notes in the layout whether sockets are out of
/// reach.
pub(super) fn build(
    order: &ChildOrder,
    layout: &mut MountLayout,
    trees: &[OwnedFd],
) -> Result<StartNotes, String> {
    let mut ready = Vec::new();
    let steps = layout.steps.clone();
    let mut told = StartNotes { notes: layout.notes.clone(), ..StartNotes::default() };
    for step in &steps {
        let opened =
            open(order, step, trees, &mut told).map_err(|error| format!("{}: {error}", step.at.display()))?;
        ready.push((step, opened));
    }
    let all = MountAttrFlags::MOUNT_ATTR_RDONLY | HARMLESS;
    set_attributes(CWD, "/", AttributeScope::AllBelow, all).map_err(|error| format!("read-only: {error}"))?;
    let (covers, outside) = fill_store(order, layout, &mut ready, &mut told)?;
    let mut read_only_later = Vec::new();
    if let Some(mut outside) = outside {
        for (at, mount) in outside.trees.drain(..) {
            if let Some((_, shown)) = ready.iter_mut().find(|(step, _)| step.at == at && step.is_shown_tree())
            {
                *shown = PreparedMount::Mount { mount, is_dir: true };
            }
        }
        read_only_later.extend(outside.enter().map_err(|error| format!("a new root: {error}"))?);
    }
    for (step, opened) in ready {
        place(step, opened, &mut told, &mut read_only_later)
            .map_err(|error| format!("{}: {error}", step.at.display()))?;
    }
    mask(&steps, &covers).map_err(|error| format!("masking the files of the kernel: {error}"))?;
    for mount in read_only_later {
        set_attributes(mount.as_fd(), "", AttributeScope::This, MountAttrFlags::MOUNT_ATTR_RDONLY)
            .map_err(|error| format!("read-only: {error}"))?;
    }
    Ok(told)
}

/// Makes the file system in memory and the mounts that are cloned from it. These are the covers of masked
/// paths, which are returned, and the directories of the steps. The view of the machine is made meanwhile:
/// its overlays need an empty directory. None if the machine is shown as it is.
fn fill_store(
    order: &ChildOrder,
    layout: &mut MountLayout,
    ready: &mut [(&LayoutStep, PreparedMount)],
    told: &mut StartNotes,
) -> Result<(OwnedFd, Option<MachineView>), String> {
    let bytes_max = usage::private_bytes_max(&order.bounds);
    let private = |error: io::Error| format!("private directories: {error}");
    tmpfs(&bytes_max.to_string(), "0755")
        .and_then(|store| attach(&store, Path::new(STORE)))
        .map_err(private)?;
    let covers = make_private(ready, told).and_then(|()| make_covers()).map_err(private)?;
    let outside = match order.openings.unix_sockets {
        true => None,
        false => Some(survey_machine(order, layout, told).map_err(|error| format!("the machine: {error}"))?),
    };
    // The clones of it retain what they need.
    unmount(STORE, UnmountFlags::DETACH).map_err(|errno| private(errno.into()))?;
    Ok((covers, outside))
}

/// The rest of the machine, without sockets that belong to other programs.
fn survey_machine(
    order: &ChildOrder,
    layout: &mut MountLayout,
    told: &mut StartNotes,
) -> io::Result<MachineView> {
    let named = order.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
    let empty = make_directory(EMPTY, 0o755)?;
    let outside = MachineView::survey(layout, order.home.as_deref().or(named), &empty)?;
    layout.sockets_sealed = outside.unsealed.is_empty();
    if let Some(path) = outside.unsealed.first() {
        told.notes.push(format!(
            "UNIX sockets are refused: {} cannot be covered by an overlay (`--unix-sockets` allows them)",
            path.display()
        ));
    }
    if let Some(path) = outside.exposed.first() {
        told.notes.push(format!(
            "files that only root may read are hidden near the top of {} only: root's rights cannot be given up",
            path.display()
        ));
    }
    Ok(outside)
}

fn open(
    order: &ChildOrder,
    step: &LayoutStep,
    trees: &[OwnedFd],
    told: &mut StartNotes,
) -> io::Result<PreparedMount> {
    match &step.what {
        MountContent::Root { index } => {
            let (Some(root), Some(tree)) = (order.roots.get(*index), trees.get(*index)) else {
                return Err(io::Error::other("no such project"));
            };
            let mount = clone_tree(root.source())?;
            same_file(&mount, tree)?;
            Ok(PreparedMount::Mount { mount: limited(mount, root.writable)?, is_dir: true })
        }
        MountContent::Tree { source, writable } => {
            let mount = clone_tree(source)?;
            let kind = kind_of(&mount)?;
            // No overlay covers a single file, and what is connected to is the program that listens.
            if kind == FileType::Socket && !*writable && !order.openings.unix_sockets {
                let at = step.at.display();
                told.notes.push(format!("{at} is not shown: it is a socket (`--unix-sockets` allows them)"));
                return Ok(PreparedMount::Nothing);
            }
            let is_dir = kind == FileType::Directory;
            // A device that was asked for has to work as one.
            let mount = if is_dir || !*writable { limited(mount, *writable)? } else { mount };
            Ok(PreparedMount::Mount { mount, is_dir })
        }
        MountContent::Scratch => Ok(PreparedMount::Mount {
            // For now the directory itself; `make_private` lays the rest over it.
            mount: rustix::fs::open(&step.at, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
            is_dir: true,
        }),
        MountContent::Devices => Ok(PreparedMount::Devices(DeviceFiles::open(), None)),
        // The kernel gives a new one only to processes that see an old one.
        MountContent::Processes => Ok(PreparedMount::Mount { mount: processes()?, is_dir: true }),
        MountContent::Private
        | MountContent::Text { .. }
        | MountContent::Link { .. }
        | MountContent::Hidden
        | MountContent::Masked => Ok(PreparedMount::Nothing),
    }
}

fn place(
    step: &LayoutStep,
    ready: PreparedMount,
    told: &mut StartNotes,
    read_only_later: &mut Vec<OwnedFd>,
) -> io::Result<()> {
    match (&step.what, ready) {
        (MountContent::Processes, PreparedMount::Mount { mount, .. }) => {
            if rustix::process::geteuid().is_root() {
                // The machine's settings are in there, and belong to root, with capabilities or without.
                set_attributes(mount.as_fd(), "", AttributeScope::This, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            }
            attach(&mount, &step.at)
        }
        (MountContent::Devices, PreparedMount::Devices(devices, Some(mount))) => {
            attach(&mount, &step.at)?;
            devices.fill(&step.at)?;
            read_only_later.push(mount);
            Ok(())
        }
        (MountContent::Hidden, _) => {
            told.hidden.push(step.at.display().to_string());
            hide(&step.at, read_only_later)
        }
        (MountContent::Text { text }, _) => {
            make_place(&step.at, false)?;
            attach(&file(text)?, &step.at)
        }
        // All of them at the end.
        (MountContent::Masked, _) => Ok(()),
        (MountContent::Link { target }, _) => {
            make_parent(&step.at)?;
            std::os::unix::fs::symlink(target, &step.at)
        }
        (
            MountContent::Root { .. }
            | MountContent::Tree { .. }
            | MountContent::Scratch
            | MountContent::Private,
            PreparedMount::Mount { mount, is_dir },
        ) => {
            make_place(&step.at, is_dir)?;
            attach(&mount, &step.at)
        }
        // One in another private directory.
        (MountContent::Private, _) => make_place(&step.at, true),
        // A scratch directory that could not be had stays as it is, and is noted.
        (
            MountContent::Root { .. }
            | MountContent::Tree { .. }
            | MountContent::Scratch
            | MountContent::Devices
            | MountContent::Processes,
            _,
        ) => Ok(()),
    }
}

fn private_mode(at: &Path) -> u32 {
    let is_shared = ["/tmp", "/dev/shm"].iter().any(|shared| at == Path::new(shared));
    if is_shared { 0o1777 } else { 0o755 }
}

/// Covers what is there; in a private directory there is nothing.
fn hide(at: &Path, read_only_later: &mut Vec<OwnedFd>) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(at) else { return Ok(()) };
    if found.is_dir() {
        let empty = tmpfs(HIDDEN_BYTES_MAX, "0755")?;
        attach(&empty, at)?;
        read_only_later.push(empty);
        return Ok(());
    }
    attach(&file("")?, at)
}

/// A file with this text, to be attached. It needs a directory to be in, which is attached for the moment in
/// which it is cloned.
fn file(text: &str) -> io::Result<OwnedFd> {
    attach(&tmpfs(HIDDEN_BYTES_MAX, "0755")?, Path::new("/proc"))?;
    let file = Path::new("/proc/file");
    let cloned =
        fs::write(file, text).and_then(|()| clone_tree(file)).and_then(|mount| limited(mount, false));
    unmount("/proc", UnmountFlags::DETACH)?;
    cloned
}

/// Covers what the kernel reports about the machine. One of the covered directories holds the covers of all.
fn mask(steps: &[LayoutStep], covers: &OwnedFd) -> io::Result<()> {
    let masked = || steps.iter().filter(|step| step.what == MountContent::Masked).map(|step| &step.at);
    let Some(first) = masked().find(|path| path.is_dir()) else { return Ok(()) };
    attach(covers, first)?;
    let (file, dir) = (first.join(COVER_FILE), first.join(COVER_DIR));
    for path in masked().filter(|path| *path != first) {
        let Ok(found) = fs::metadata(path) else { continue };
        mount_bind(if found.is_dir() { &dir } else { &file }, path)?;
    }
    Ok(mount_bind(&dir, first)?)
}

/// Makes the covers of masked paths. Their clones are read-only as they are.
fn make_covers() -> io::Result<OwnedFd> {
    let covers = make_directory(COVERS, 0o555)?;
    File::create(covers.join(COVER_FILE))?;
    let dir = covers.join(COVER_DIR);
    fs::create_dir(&dir)?;
    rustix::fs::chmod(&dir, Mode::from_raw_mode(0o555))?;
    limited(clone_tree(&covers)?, false)
}

/// Makes a directory in the file system in memory.
fn make_directory(name: &str, mode: u32) -> io::Result<PathBuf> {
    let path = Path::new(STORE).join(name);
    fs::create_dir(&path)?;
    rustix::fs::chmod(&path, Mode::from_raw_mode(mode))?;
    Ok(path)
}

/// Makes the private directories, and covers each scratch directory with one that is thrown away. All are in
/// one file system in memory, which bounds them together. A scratch directory for which that does not work
/// stays read-only. A private directory in another needs no mount: it is made when its turn comes.
fn make_private(ready: &mut [(&LayoutStep, PreparedMount)], told: &mut StartNotes) -> io::Result<()> {
    let steps: Vec<&LayoutStep> = ready.iter().map(|(step, _)| *step).collect();
    for (number, (step, opened)) in ready.iter_mut().enumerate() {
        match (&step.what, &*opened) {
            (MountContent::Private, _) if is_in_private(&steps, step) => {}
            (MountContent::Private, _) => {
                let within = make_directory(&number.to_string(), private_mode(&step.at))?;
                *opened = PreparedMount::Mount { mount: clone_tree(&within)?, is_dir: true };
            }
            (MountContent::Devices, _) => {
                if let PreparedMount::Devices(_, place) = opened {
                    *place = Some(clone_tree(&make_directory(DEVICES, 0o755)?)?);
                }
            }
            (MountContent::Scratch, PreparedMount::Mount { mount, .. }) => {
                *opened = match overlay(mount.as_fd(), &Path::new(STORE).join(number.to_string())) {
                    Ok(mount) => PreparedMount::Mount { mount, is_dir: true },
                    Err(why) => {
                        told.notes.push(format!("{} stays read-only: {why}", step.at.display()));
                        PreparedMount::Nothing
                    }
                };
            }
            (
                MountContent::Scratch
                | MountContent::Processes
                | MountContent::Tree { .. }
                | MountContent::Text { .. }
                | MountContent::Link { .. }
                | MountContent::Root { .. }
                | MountContent::Hidden
                | MountContent::Masked,
                _,
            ) => {}
        }
    }
    Ok(())
}

/// Returns true if a step is below one that makes a private directory, with no other between them.
fn is_in_private(steps: &[&LayoutStep], step: &LayoutStep) -> bool {
    let above = steps.iter().filter(|above| above.at != step.at && step.at.starts_with(&above.at));
    above.max_by_key(|above| above.depth()).is_some_and(|above| above.what == MountContent::Private)
}

fn overlay(lower: BorrowedFd<'_>, store: &Path) -> io::Result<OwnedFd> {
    let directory = |name: &str| -> io::Result<OwnedFd> {
        let path = store.join(name);
        fs::create_dir_all(&path)?;
        Ok(rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    };
    let (upper, work) = (directory("upper")?, directory("work")?);
    let status = rustix::fs::fstat(lower)?;
    // A mount over a directory shows the mode of that directory.
    rustix::fs::chmod(store.join("upper"), Mode::from_raw_mode(status.st_mode & 0o7777))?;
    let named = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", named(lower))?;
    fsconfig_set_string(&context, "upperdir", named(upper.as_fd()))?;
    fsconfig_set_string(&context, "workdir", named(work.as_fd()))?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, HARMLESS)?)
}

fn processes() -> io::Result<OwnedFd> {
    let context = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = HARMLESS | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?)
}

pub(super) fn tmpfs(bytes_max: &str, mode: &str) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", bytes_max)?;
    fsconfig_set_string(&context, "mode", mode)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, HARMLESS)?)
}

/// A copy of the mount at `path`, with all that is mounted below it, attached nowhere.
pub(super) fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Attaches a mount at a path that is there.
pub(super) fn attach(mount: &OwnedFd, at: &Path) -> io::Result<()> {
    Ok(move_mount(mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

pub(super) fn limited(mount: OwnedFd, writable: bool) -> io::Result<OwnedFd> {
    let flags = if writable { HARMLESS } else { HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY };
    set_attributes(mount.as_fd(), "", AttributeScope::AllBelow, flags)?;
    Ok(mount)
}

fn same_file(mount: &OwnedFd, tree: &OwnedFd) -> io::Result<()> {
    let (here, there) = (rustix::fs::fstat(mount)?, rustix::fs::fstat(tree)?);
    if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
        return Ok(());
    }
    Err(io::Error::other("the mounted tree is not the sandbox's"))
}

fn kind_of(mount: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode))
}

/// Makes a place to attach something at, where there is none. That succeeds in private directories only.
fn make_place(at: &Path, is_dir: bool) -> io::Result<()> {
    if fs::symlink_metadata(at).is_ok() {
        return Ok(());
    }
    if is_dir {
        return fs::create_dir_all(at);
    }
    make_parent(at)?;
    File::create(at).map(drop)
}

fn make_parent(at: &Path) -> io::Result<()> {
    at.parent().map_or(Ok(()), fs::create_dir_all)
}

/// The mounts that attributes are added to.
#[derive(Clone, Copy)]
pub(super) enum AttributeScope {
    /// One mount.
    This,
    /// It and all that is mounted below it.
    AllBelow,
}

/// Adds attributes to a mount.
pub(super) fn set_attributes(
    directory: BorrowedFd<'_>,
    path: &str,
    reach: AttributeScope,
    flags: MountAttrFlags,
) -> io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    let attributes =
        libc::mount_attr { attr_set: flags.bits().into(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    let reach = match reach {
        AttributeScope::This => libc::AT_EMPTY_PATH,
        AttributeScope::AllBelow => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: path and attributes live during the call, and the size is that of the attributes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            reach,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
