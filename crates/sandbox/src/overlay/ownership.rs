//! Whose a tree is in the sandbox, if root works in a tree that belongs to another user.
//!
//! A command of root has no capability: it can write only what belongs to root. So the overlay reads the tree through a mount
//! on which its owner and root are exchanged. What the command makes belongs to root in the upper directory, and to the
//! directory's owner once it is applied.
//!
//! # Not here
//! Files in the tree that belong to a third user: those stay closed, as they are for the owner.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

/// The largest id that belongs to somebody.
const ID_MAX: u32 = u32::MAX - 1;

/// The owner of a directory, if that is not who we are.
pub(super) fn other_owner(dir: BorrowedFd<'_>) -> Result<Option<(Uid, Gid)>, Errno> {
    let stat = rustix::fs::fstat(dir)?;
    let is_other = stat.st_uid != rustix::process::geteuid().as_raw();
    Ok(is_other.then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
}

/// Makes a user namespace in which this user and root are exchanged, and this group and that of root.
///
/// Returns an error if this process may not map ids as it likes.
pub(super) fn exchanged_with_root((uid, gid): (Uid, Gid)) -> io::Result<OwnedFd> {
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
    let (wait_fd, go_fd) = (wait.as_raw_fd(), go.as_raw_fd());
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: without a stack of its own the child is a fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        let mut byte = 0_u8;
        // SAFETY: system calls only, on descriptors that the fork has copies of, and a byte that lives on its stack.
        unsafe {
            libc::close(go_fd);
            libc::read(wait_fd, (&raw mut byte).cast(), 1);
            libc::_exit(0)
        }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let made = fill_maps(pid, uid.as_raw(), gid.as_raw());
    // The process ends with the last writer; the descriptor keeps its namespace.
    drop(go);
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Nothing is learned from how it ended.
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    made
}

fn fill_maps(pid: i64, uid: u32, gid: u32) -> io::Result<OwnedFd> {
    std::fs::write(format!("/proc/{pid}/uid_map"), exchanged(uid))?;
    std::fs::write(format!("/proc/{pid}/gid_map"), exchanged(gid))?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())?)
}

/// The map in which an id and that of root are exchanged, and all others stay.
fn exchanged(id: u32) -> String {
    match id {
        0 => format!("0 0 {}\n", u32::MAX),
        id => {
            let others = [(1, id - 1), (id.saturating_add(1), ID_MAX.saturating_sub(id))];
            let others = others.iter().filter(|(_, count)| *count > 0);
            let others: String = others.map(|(first, count)| format!("{first} {first} {count}\n")).collect();
            format!("0 {id} 1\n{id} 0 1\n{others}")
        }
    }
}

/// Mounts a directory over itself, with the ids of the user namespace.
pub(super) fn mount_exchanged(dir: &OwnedFd, at: &[u8], ids: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(dir, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?;
    let userns_fd = u64::try_from(ids.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    // SAFETY: the empty path and the attributes live during the call, and the size is that of the attributes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    move_mount(&mount, c"", rustix::fs::CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_maps_every_id_once() {
        assert_eq!(exchanged(0), "0 0 4294967295\n");
        assert_eq!(exchanged(1), "0 1 1\n1 0 1\n2 2 4294967293\n");
        assert_eq!(exchanged(1000), "0 1000 1\n1000 0 1\n1 1 999\n1001 1001 4294966294\n");
        assert_eq!(exchanged(ID_MAX), "0 4294967294 1\n4294967294 0 1\n1 1 4294967293\n");
    }
}
