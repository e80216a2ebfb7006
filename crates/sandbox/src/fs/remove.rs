//! Removes a tree: by directory descriptors, through closed permissions, following no link and crossing no
//! mount.
//!
//! # Invariants
//! 1. Nothing outside the tree is touched, whatever other processes move meanwhile: each step names one
//!    component of an open directory.
//! 2. An entry that is gone already is no failure: two processes may remove the same tree.
//! 3. However deep a tree is, [`DEPTH_MAX`] directories are open at most: deeper directories are first moved
//!    up.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::listing::{chmod_held, names};

/// The depth down to which one directory is open for each level.
const DEPTH_MAX: usize = 64;

/// Removes the entry `name` in `dir`, a tree or not.
pub(crate) fn remove_tree(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut moved_up = 0;
    // Each round takes DEPTH_MAX levels off; what was moved up in one is met at the top in the next.
    loop {
        let before = moved_up;
        remove_levels(dir, name, ParentDir { top: None, depth: 0 }, &mut moved_up)?;
        if before == moved_up {
            return Ok(());
        }
    }
}

/// The place of a directory on the way down.
#[derive(Clone, Copy)]
struct ParentDir<'a> {
    /// The tree's own directory, into which directories that are too deep are moved; `None` at the tree
    /// itself.
    top: Option<BorrowedFd<'a>>,
    depth: usize,
}

fn remove_levels(
    dir: BorrowedFd<'_>,
    name: &CStr,
    above: ParentDir<'_>,
    moved_up: &mut u64,
) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let Some(opened) = open_to_remove(dir, name)? else { return Ok(()) };
    for child in names(opened.as_fd())? {
        let top = above.top.unwrap_or(opened.as_fd());
        if above.depth < DEPTH_MAX || !move_up(opened.as_fd(), &child, top, moved_up)? {
            remove_levels(
                opened.as_fd(),
                &child,
                ParentDir { top: Some(top), depth: above.depth + 1 },
                moved_up,
            )?;
        }
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // Only the tree itself can still have what was moved up into it.
        Err(Errno::NOTEMPTY) if above.depth == 0 && *moved_up > 0 => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves a directory to the top of the tree; says whether it was one.
fn move_up(dir: BorrowedFd<'_>, name: &CStr, top: BorrowedFd<'_>, moved_up: &mut u64) -> io::Result<bool> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(true),
        Err(errno) => return Err(errno.into()),
    };
    if !crate::fs::listing::kind_of(&stat).is_dir() {
        return Ok(false);
    }
    loop {
        *moved_up += 1;
        let to = CString::new(format!(".deep-{moved_up}"))?;
        match rustix::fs::renameat_with(dir, name, top, to.as_c_str(), RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Opens a directory so that its entries can be read and removed; none when it is gone.
fn open_to_remove(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let no_way_out = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match rustix::fs::openat2(dir, name, flags, Mode::empty(), no_way_out) {
        Ok(held) => held,
        // Without openat2 a mount would be crossed, so only directories that are surely no mounts are
        // entered.
        Err(Errno::NOSYS) => open_on_same_device(dir, name, flags)?,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let readable = || {
        rustix::fs::openat(&held, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    let all_ours = Mode::RWXU;
    let stat = rustix::fs::fstat(&held)?;
    if stat.st_mode & 0o700 != 0o700 {
        // It may still be readable and empty; whether it can be removed is said by what follows.
        let _ = chmod_held(held.as_fd(), all_ours);
    }
    Ok(Some(readable()?))
}

fn open_on_same_device(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> io::Result<OwnedFd> {
    let held = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if rustix::fs::fstat(&held)?.st_dev == rustix::fs::fstat(dir)?.st_dev {
        Ok(held)
    } else {
        Err(Errno::XDEV.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn opened(path: &std::path::Path) -> OwnedFd {
        crate::fs::beneath::open_root(path).unwrap()
    }

    #[test]
    fn a_tree_is_removed_through_closed_permissions_and_around_links() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), b"x").unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/f"), b"x").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        std::fs::set_permissions(tree.join("a/b"), PermissionsExt::from_mode(0o000)).unwrap();
        std::fs::set_permissions(tree.join("a"), PermissionsExt::from_mode(0o000)).unwrap();
        remove_tree(opened(dir.path()).as_fd(), c"tree").unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        remove_tree(opened(dir.path()).as_fd(), c"tree").unwrap();
        remove_tree(opened(&outside).as_fd(), c"kept").unwrap();
        assert!(!outside.join("kept").exists());
    }

    #[test]
    fn a_tree_deeper_than_descriptors_or_stack_would_allow_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut here = opened(dir.path());
        for name in std::iter::once(c"tree").chain(std::iter::repeat_n(c"d", 3000)) {
            rustix::fs::mkdirat(&here, name, Mode::RWXU).unwrap();
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            here = rustix::fs::openat(&here, name, flags, Mode::empty()).unwrap();
        }
        remove_tree(opened(dir.path()).as_fd(), c"tree").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
