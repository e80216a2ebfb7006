//! The rest of the machine as a command sees it: everything that no step of the layout puts in place.
//!
//! # How
//! The command gets a new root: for root a read-only overlay of `/` itself, which is one mount for all that
//! is in it; mounts below it follow. If the kernel guards something mounted below a directory, the directory
//! cannot be covered as a whole: a new one is made, and its entries are covered one by one. In a user
//! namespace that is so for `/`, so that each directory in it is there as an overlay of its own. An empty
//! directory is made new as well, which is cheaper.
//!
//! # Invariants
//! 1. An overlay shows the files of a directory and not its sockets and named pipes. The kernel finds the
//!    other end by the inode, and an overlay has inodes of its own. So no program outside is reached by a
//!    path, also not by a socket that appears later. Sockets that a command makes for itself, in its projects
//!    or in `/tmp`, work.
//! 2. A directory that can only be shown as it is, is returned in [`MachineView::unsealed`]; the caller then
//!    refuses all UNIX sockets.
//! 3. As root the overlays read with the rights of a user who owns nothing. So root's own files stay out of
//!    sight, although the command is root. The paths that the layout names, and root's home, are shown as
//!    they are.
//! 4. If root cannot give up its rights, or cannot cover a directory, it covers the closed entries near the
//!    top of it one by one. Such a directory is returned in [`MachineView::exposed`].
//! 5. A mount is shown, or covered by an empty one: the files below a mount are never uncovered.
//! 6. File systems of the kernel are shown below `/sys` only, where the layout masks what they report.
//!
//! # Not here
//! The mounts that the layout puts over it: the sibling `mounts`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, unmount,
};

use super::layout::{MountContent, MountLayout};
use super::mounts::{HARMLESS, attach, clone_tree, limited, tmpfs};
use crate::open::overlay::mount_points;

/// The most overlays that one command gets; the remaining directories are shown as they are.
const OVERLAYS_MAX: usize = 128;
/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;
/// The directory in which the new root is put together.
const WORKSHOP: &str = "/proc";
/// The size limit of the new root, in memory: it has directories and links only.
const ROOT_BYTES_MAX: &str = "1m";

/// The depth to which closed entries are covered one by one, and the number of entries that are looked at.
const CLOSED_DEPTH_MAX: usize = 3;
const CLOSED_LOOKS_MAX: usize = 20_000;

/// File systems of the kernel.
const OF_THE_KERNEL: [u64; 15] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0xcafe_4a11, // bpf
    0x6265_7065, // configfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x1cd1,      // devpts
    0x1980_0202, // mqueue
    0x0187,      // autofs
];

/// File systems in which no process can bind a socket: images, and those without special files.
const WITHOUT_SOCKETS: [u64; 5] = [
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x9660,      // iso9660
    0x4d44,      // vfat
    0x2011_bab0, // exfat
];

/// The view of the machine, ready to be entered.
#[derive(Debug)]
pub(super) struct MachineView {
    /// The new root; none if it is made piece by piece.
    root: Option<OwnedFd>,
    pieces: Vec<ViewPiece>,
    /// Directories that the layout shows read-only, likewise as overlays, by their places.
    pub(super) trees: Vec<(PathBuf, OwnedFd)>,
    /// Directories in which a command can reach sockets of others.
    pub(super) unsealed: Vec<PathBuf>,
    /// Directories that are shown with root's rights.
    pub(super) exposed: Vec<PathBuf>,
}

#[derive(Debug)]
struct ViewPiece {
    at: PathBuf,
    shows: PieceContent,
}

#[derive(Debug)]
enum PieceContent {
    /// A mount, attached nowhere yet.
    Mount {
        mount: OwnedFd,
        is_dir: bool,
    },
    /// A directory, or an empty one in the place of what is there.
    Directory(Mode),
    /// A file that is covered later.
    File,
    /// Nothing, over whatever is there: an empty directory, or this empty file.
    Cover(OwnedFd),
    Link(PathBuf),
}

/// The ways in which directories of a file system are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilesystemKind {
    OfTheKernel,
    WithoutSockets,
    Ordinary,
}

/// The user with whose rights an overlay reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverlayRights {
    Own,
    Nobody,
}

impl MachineView {
    /// Looks at the machine as it is before anything is covered. `home` is the user's. An overlay that cannot
    /// be written needs a second directory to read: `empty`.
    ///
    /// Returns an error if `/` or the table of mounts cannot be read.
    pub(super) fn survey(layout: &MountLayout, home: Option<&Path>, empty: &Path) -> io::Result<MachineView> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let cover = empty.with_extension("file");
        File::create(&cover)?;
        rustix::fs::chmod(&cover, Mode::empty())?;
        let empty = rustix::fs::open(empty, flags, Mode::empty())?;
        MachineWalk::new(layout, home, empty, cover)?.all()
    }

    /// Makes it the root of this process. The mounts that are returned are still writable, for what else has
    /// to be made in them.
    pub(super) fn enter(self) -> io::Result<Vec<OwnedFd>> {
        let mut writable = Vec::new();
        match self.root {
            Some(root) => attach(&root, Path::new(WORKSHOP))?,
            None => {
                let root = tmpfs(ROOT_BYTES_MAX, "0755")?;
                attach(&root, Path::new(WORKSHOP))?;
                writable.push(root);
            }
        }
        for piece in self.pieces {
            let below = piece.at.strip_prefix("/").unwrap_or(&piece.at);
            match piece.shows.put(&Path::new(WORKSHOP).join(below)) {
                Ok(made) => writable.extend(made),
                // The command cannot go there either.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", piece.at.display())));
                }
            }
        }
        std::env::set_current_dir(WORKSHOP)?;
        // The old root is then mounted over the new one, and goes. One that is no mount of its own cannot be
        // moved: the process leaves it, and has nothing that leads back.
        match rustix::process::pivot_root(".", ".") {
            Ok(()) => unmount(".", UnmountFlags::DETACH)?,
            Err(_) => rustix::process::chroot(".")?,
        }
        std::env::set_current_dir("/")?;
        Ok(writable)
    }
}

impl PieceContent {
    /// Puts it at a path; returns the mount that was made for it and is still writable.
    fn put(self, at: &Path) -> io::Result<Option<OwnedFd>> {
        match self {
            PieceContent::Mount { mount, is_dir } => {
                make(at, is_dir)?;
                attach(&mount, at)?;
                Ok(None)
            }
            PieceContent::Directory(mode) => {
                if make(at, true)? == PathCreation::Now {
                    rustix::fs::chmod(at, mode)?;
                    return Ok(None);
                }
                put_empty_directory(at, mode).map(Some)
            }
            PieceContent::File => make(at, false).map(|_| None),
            PieceContent::Cover(file) => match fs::symlink_metadata(at) {
                Ok(found) if found.is_dir() => put_empty_directory(at, OPEN_TO_ALL).map(Some),
                Ok(_) => attach(&file, at).map(|()| None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
            PieceContent::Link(target) => std::os::unix::fs::symlink(target, at).map(|()| None),
        }
    }
}

fn put_empty_directory(at: &Path, mode: Mode) -> io::Result<OwnedFd> {
    let empty = tmpfs(ROOT_BYTES_MAX, &format!("{:o}", mode.as_raw_mode()))?;
    attach(&empty, at)?;
    Ok(empty)
}

#[derive(PartialEq, Eq)]
enum PathCreation {
    Before,
    Now,
}

fn make(at: &Path, is_dir: bool) -> io::Result<PathCreation> {
    match fs::symlink_metadata(at) {
        Ok(_) => return Ok(PathCreation::Before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if is_dir {
        fs::create_dir(at)?
    } else {
        File::create(at).map(drop)?
    }
    Ok(PathCreation::Now)
}

/// The walk over the machine.
struct MachineWalk<'a> {
    layout: &'a MountLayout,
    is_root: bool,
    /// Of root only: others see their own home as they see the rest.
    home: Option<PathBuf>,
    /// The mount points, except those that the layout covers.
    mounts: Vec<PathBuf>,
    rights: OverlayRights,
    /// Root may not act as a user who owns nothing.
    keeps_rights: bool,
    empty: OwnedFd,
    /// An empty file.
    cover: PathBuf,
    overlays: usize,
    /// The entries that were looked at for closed ones.
    looks: usize,
    /// Directories in whose place there is an empty one.
    cleared: Vec<PathBuf>,
    /// The directories that were looked at on the way to others, and whether each is closed to other users.
    closed: RefCell<HashMap<PathBuf, bool>>,
    outside: MachineView,
}

impl<'a> MachineWalk<'a> {
    fn new(
        layout: &'a MountLayout,
        home: Option<&Path>,
        empty: OwnedFd,
        cover: PathBuf,
    ) -> io::Result<MachineWalk<'a>> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            drop_groups();
        }
        let keeps_rights = is_root && as_nobody(|| ()).is_err();
        let mut looking = MachineWalk {
            layout,
            is_root,
            home: home.filter(|_| is_root).and_then(|home| fs::canonicalize(home).ok()),
            mounts: Vec::new(),
            rights: if is_root && !keeps_rights { OverlayRights::Nobody } else { OverlayRights::Own },
            keeps_rights,
            empty,
            cover,
            overlays: 0,
            looks: 0,
            cleared: Vec::new(),
            closed: RefCell::default(),
            outside: MachineView {
                root: None,
                pieces: Vec::new(),
                trees: Vec::new(),
                unsealed: Vec::new(),
                exposed: Vec::new(),
            },
        };
        let is_shown = |point: &PathBuf| !looking.is_covered(point) && looking.closed_way(point).is_none();
        looking.mounts = mount_points()?.into_iter().filter(is_shown).collect();
        Ok(looking)
    }

    fn all(mut self) -> io::Result<MachineView> {
        if !self.whole() {
            self.entries(Path::new("/"))?;
        }
        let keeps_rights = std::mem::take(&mut self.keeps_rights);
        if keeps_rights {
            self.outside.exposed.push(PathBuf::from("/"));
        }
        if self.is_root {
            self.rights = OverlayRights::Own;
            for step in &self.layout.steps {
                self.clear_way(&step.at);
            }
            if let Some(home) = self.home.clone().filter(|home| !self.is_covered(home)) {
                self.clear_way(&home);
                self.outside.pieces.retain(|piece| piece.at != home);
                self.directory(&home);
            }
        }
        self.rights = OverlayRights::Own;
        for step in &self.layout.steps {
            if let MountContent::Tree { source, writable: false } = &step.what {
                self.tree(&step.at, source);
            }
        }
        self.outside.pieces.sort_by_key(|piece| piece.at.components().count());
        Ok(self.outside)
    }

    /// Covers all that is in `/` and no mount of its own by one overlay, and then what is mounted. Returns
    /// false if that cannot be done.
    fn whole(&mut self) -> bool {
        let root = Path::new("/");
        // The kernel guards `/proc` and others from everyone else.
        if !self.is_root || self.keeps_rights {
            return false;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(root, flags, Mode::empty()) else { return false };
        let Ok(mount) = self.overlay(&opened) else { return false };
        self.outside.root = Some(mount);
        for mounted in self.topmost_below(root) {
            self.mounted(&mounted);
        }
        true
    }

    /// Returns true if a step of the layout decides what is at a path.
    fn is_covered(&self, path: &Path) -> bool {
        self.layout.steps.iter().any(|step| step.covers() && path.starts_with(&step.at))
    }

    /// Returns the first directory on the way to `path` that a user who owns nothing may not enter. `None`
    /// for a user other than root, because that user's own rights apply.
    fn closed_way(&self, path: &Path) -> Option<PathBuf> {
        if !self.is_root {
            return None;
        }
        let mut ancestors: Vec<&Path> = path.ancestors().skip(1).collect();
        ancestors.reverse();
        let is_own = |dir: &Path| self.home.as_ref().is_some_and(|home| dir.starts_with(home));
        let is_closed = |dir: &Path| {
            let mut closed = self.closed.borrow_mut();
            if let Some(is_closed) = closed.get(dir) {
                return *is_closed;
            }
            let is_closed = fs::metadata(dir).is_ok_and(|found| !mode_of(&found).contains(Mode::XOTH));
            closed.insert(dir.to_owned(), is_closed);
            is_closed
        };
        let closed = ancestors.into_iter().find(|dir| is_closed(dir));
        closed.filter(|dir| !self.is_covered(dir) && !is_own(dir)).map(Path::to_owned)
    }

    /// Puts an empty directory in the place of one that is closed to others, so that `path` can be shown
    /// below it.
    fn clear_way(&mut self, path: &Path) {
        let Some(dir) = self.closed_way(path).filter(|dir| !self.cleared.contains(dir)) else { return };
        self.outside.pieces.retain(|piece| !piece.at.starts_with(&dir));
        self.push(&dir, PieceContent::Directory(OPEN_TO_ALL));
        self.cleared.push(dir);
    }

    fn entries(&mut self, dir: &Path) -> io::Result<()> {
        for entry in fs::read_dir(dir)?.flatten() {
            self.entry(&entry.path());
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path) {
        let Ok(found) = fs::symlink_metadata(path) else { return };
        let kind = found.file_type();
        if kind.is_symlink() {
            if let Ok(target) = fs::read_link(path) {
                self.push(path, PieceContent::Link(target));
            }
        } else if self.layout.steps.iter().any(|step| step.covers() && step.at == path) {
            self.push(
                path,
                if kind.is_dir() { PieceContent::Directory(OPEN_TO_ALL) } else { PieceContent::File },
            );
        } else if kind.is_dir() {
            self.directory(path);
        } else if kind.is_file() {
            self.file(path);
        }
    }

    fn push(&mut self, path: &Path, shows: PieceContent) {
        self.outside.pieces.push(ViewPiece { at: path.to_owned(), shows });
    }

    /// Shows nothing in the place of what is at a path.
    fn hide(&mut self, path: &Path) {
        if let Ok(file) = clone_tree(&self.cover).and_then(|file| limited(file, false)) {
            self.push(path, PieceContent::Cover(file));
        }
    }

    /// Shows a directory.
    fn directory(&mut self, path: &Path) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(path, flags, Mode::empty()) else { return self.hide(path) };
        let kind = filesystem_kind(&opened);
        match kind {
            FilesystemKind::OfTheKernel if path.starts_with("/sys") => return self.as_it_is(path),
            FilesystemKind::OfTheKernel => {
                self.push(path, PieceContent::Directory(OPEN_TO_ALL));
                return self.topmost_below(path).iter().for_each(|mounted| self.mounted(mounted));
            }
            FilesystemKind::WithoutSockets if !self.is_root => return self.as_it_is(path),
            FilesystemKind::WithoutSockets | FilesystemKind::Ordinary => {}
        }
        let mode = fs::metadata(path).map_or(OPEN_TO_ALL, |found| mode_of(&found));
        // An overlay costs more than all the rest of a directory, and of an empty one there is nothing to
        // show.
        if is_empty(&opened, path) || (self.is_exposed() && !mode.contains(Mode::XOTH)) {
            return self.push(path, PieceContent::Directory(mode));
        }
        // In a user namespace the kernel guards what was mounted before: such a directory cannot be covered
        // as a whole.
        let is_guarded = !self.is_root && !self.topmost_below(path).is_empty();
        let covered = match is_guarded {
            true => Err(io::Error::other("something is mounted below it")),
            false => self.overlay(&opened),
        };
        match covered {
            Ok(mount) => {
                self.push(path, PieceContent::Mount { mount, is_dir: true });
                if self.keeps_rights {
                    self.hide_closed(path, CLOSED_DEPTH_MAX);
                }
                for mounted in self.topmost_below(path) {
                    self.mounted(&mounted);
                }
            }
            Err(_) if !self.topmost_below(path).is_empty() && self.overlays < OVERLAYS_MAX => {
                self.push(path, PieceContent::Directory(mode));
                // One that cannot be listed shows nothing.
                let _ = self.entries(path);
            }
            Err(_) => {
                if kind == FilesystemKind::Ordinary {
                    self.outside.unsealed.push(path.to_owned());
                }
                if self.is_exposed() && !mode.contains(Mode::XOTH) {
                    return self.hide(path);
                }
                self.as_it_is(path);
                if self.is_exposed() {
                    self.outside.exposed.push(path.to_owned());
                    self.hide_closed(path, CLOSED_DEPTH_MAX);
                }
            }
        }
    }

    /// Returns true if what is shown without the rights of another user has files that are root's alone.
    fn is_exposed(&self) -> bool {
        self.keeps_rights || self.rights == OverlayRights::Nobody
    }

    /// Hides the entries that other users may not read, near the top of a directory that is shown with root's
    /// rights.
    fn hide_closed(&mut self, dir: &Path, depth: usize) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            self.looks += 1;
            let path = entry.path();
            let is_home = self.home.as_ref() == Some(&path);
            if self.looks > CLOSED_LOOKS_MAX || is_home || self.is_covered(&path) {
                continue;
            }
            let Ok(found) = entry.metadata() else { continue };
            let needed = if found.is_dir() { Mode::XOTH } else { Mode::ROTH };
            if !found.is_symlink() && !mode_of(&found).contains(needed) {
                self.hide(&path);
            } else if found.is_dir() && depth > 1 && !self.mounts.contains(&path) {
                self.hide_closed(&path, depth - 1);
            }
        }
    }

    /// A directory that is shown read-only; what is mounted below it stays out of sight.
    fn tree(&mut self, at: &Path, source: &Path) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(opened) = rustix::fs::open(source, flags, Mode::empty()) else { return };
        match self.overlay(&opened) {
            Ok(mount) => self.outside.trees.push((at.to_owned(), mount)),
            Err(_) => self.outside.unsealed.push(source.to_owned()),
        }
    }

    /// A mount point may be a file too. A device or a socket is mounted over something to hide it.
    fn mounted(&mut self, path: &Path) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => self.directory(path),
            Ok(found) if found.is_file() => self.file(path),
            Ok(_) | Err(_) => self.hide(path),
        }
    }

    /// A file at the top of the machine, or one that is mounted.
    fn file(&mut self, path: &Path) {
        let is_for_all = fs::metadata(path).is_ok_and(|found| mode_of(&found).contains(Mode::ROTH));
        if self.is_exposed() && !is_for_all {
            return self.hide(path);
        }
        match clone_tree(path).and_then(|mount| limited(mount, false)) {
            Ok(mount) => self.push(path, PieceContent::Mount { mount, is_dir: false }),
            Err(_) => self.hide(path),
        }
    }

    /// Shows a directory without an overlay, with all that is mounted below it; but nothing of file systems
    /// below it that are not the kernel's.
    fn as_it_is(&mut self, path: &Path) {
        match clone_tree(path).and_then(|mount| limited(mount, false)) {
            Ok(mount) => self.push(path, PieceContent::Mount { mount, is_dir: true }),
            Err(_) => return self.hide(path),
        }
        let mut below = self.topmost_below(path);
        while let Some(mounted) = below.pop() {
            let opened = rustix::fs::open(&mounted, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            match opened.map(|opened| filesystem_kind(&opened)) {
                Ok(FilesystemKind::OfTheKernel) => below.extend(self.topmost_below(&mounted)),
                Ok(_) | Err(_) => self.hide(&mounted),
            }
        }
    }

    fn overlay(&mut self, lower: &OwnedFd) -> io::Result<OwnedFd> {
        if self.overlays == OVERLAYS_MAX {
            return Err(io::Error::other("too many overlays"));
        }
        self.overlays += 1;
        match self.rights {
            OverlayRights::Own => overlay_of(lower.as_fd(), self.empty.as_fd(), OverlayMarks::User),
            OverlayRights::Nobody => {
                as_nobody(|| overlay_of(lower.as_fd(), self.empty.as_fd(), OverlayMarks::Trusted))?
            }
        }
    }

    /// The mounts below a directory that are below no other mount.
    fn topmost_below(&self, path: &Path) -> Vec<PathBuf> {
        let below: Vec<&PathBuf> =
            self.mounts.iter().filter(|point| *point != path && point.starts_with(path)).collect();
        let is_topmost =
            |point: &&&PathBuf| !below.iter().any(|other| other != *point && point.starts_with(other));
        let mut topmost: Vec<PathBuf> =
            below.iter().filter(is_topmost).map(|point| (*point).clone()).collect();
        topmost.sort();
        topmost.dedup();
        topmost
    }
}

const OPEN_TO_ALL: Mode = Mode::from_raw_mode(0o755);

fn mode_of(found: &fs::Metadata) -> Mode {
    use std::os::unix::fs::MetadataExt;
    Mode::from_raw_mode(found.mode() & 0o7777)
}

#[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
fn filesystem_kind(dir: &OwnedFd) -> FilesystemKind {
    // Some magic numbers have their highest bit set, and the field may be signed.
    let magic = rustix::fs::fstatfs(dir).map(|found| found.f_type as u64 & 0xffff_ffff);
    match magic {
        Ok(magic) if OF_THE_KERNEL.contains(&magic) => FilesystemKind::OfTheKernel,
        Ok(magic) if WITHOUT_SOCKETS.contains(&magic) => FilesystemKind::WithoutSockets,
        Ok(_) | Err(_) => FilesystemKind::Ordinary,
    }
}

/// Returns true if nothing is in a directory.
fn is_empty(dir: &OwnedFd, path: &Path) -> bool {
    // Two names lead to it, and one more from each directory in it: that is known without a listing.
    let has_directories = rustix::fs::fstat(dir).is_ok_and(|found| found.st_nlink > 2);
    !has_directories && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The extended attributes in which an overlay looks for its own marks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverlayMarks {
    /// Those of users, all that an ordinary user can have.
    User,
    /// Those of the kernel. They can be read without the right to read the directory that has them. So a
    /// directory that is closed to others is found and can be covered.
    Trusted,
}

/// A read-only overlay of a directory, attached nowhere.
fn overlay_of(lower: BorrowedFd<'_>, empty: BorrowedFd<'_>, marks: OverlayMarks) -> io::Result<OwnedFd> {
    let named = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "lowerdir", format!("{}:{}", named(lower), named(empty)))?;
    if marks == OverlayMarks::User {
        fsconfig_set_flag(&context, "userxattr")?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}

/// Leaves all supplementary groups: root after a login is in several, whose files it could read even without
/// rights.
fn drop_groups() {
    // SAFETY: the call changes rights of this one thread and reads no memory; where it is refused there are
    // none to leave.
    unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) };
}

/// Acts with the rights on files of a user who owns nothing. The process may still mount.
///
/// Returns an error, and does not act, if the process may not change its rights.
fn as_nobody<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    const UNCHANGED: u32 = u32::MAX;
    // SAFETY: both calls change rights of this one thread and touch no memory. They return the rights that were
    // in force before, and report no failure.
    let set = |user, group| unsafe {
        let before = (libc::setfsuid(user), libc::setfsgid(group));
        (before, (libc::setfsuid(UNCHANGED), libc::setfsgid(UNCHANGED)))
    };
    let nobody = (NOBODY as i32, NOBODY as i32);
    let (before, now) = set(NOBODY, NOBODY);
    let done = (now == nobody).then(act);
    set(before.0.cast_unsigned(), before.1.cast_unsigned());
    done.ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))
}
