//! The owner of a tree in the sandbox, if root works in a tree that belongs to another user.
//!
//! A command of root has no capability: it can write only what belongs to root. So the overlay reads the tree
//! through a mount on which its owner and root are exchanged. Files that the command makes belong to root in
//! the upper directory, and to the directory's owner once they are applied.
//!
//! # Not here
//! Files in the tree that belong to a third user: those stay closed, as they are for the owner.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The largest id that a user or group can have.
const ID_MAX: u32 = u32::MAX - 1;

/// The owner of a project, if that is not who we are.
///
/// The owner of the directory decides, unless more of what is directly in it is our own: then it is ours but
/// for its top.
pub(super) fn other_owner(dir: BorrowedFd<'_>) -> Result<Option<(Uid, Gid)>, Errno> {
    let (stat, own) = (rustix::fs::fstat(dir)?, rustix::process::geteuid().as_raw());
    if stat.st_uid == own {
        return Ok(None);
    }
    let (mut others, mut ours) = (0_usize, 0_usize);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(rustix::fs::openat(dir, c".", flags, Mode::empty())?)? {
        let entry = entry?;
        let is_above = matches!(entry.file_name().to_bytes(), b"." | b"..");
        // A file that is gone meanwhile has no owner.
        let found = rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
        let uid = found.ok().filter(|_| !is_above).map(|found| found.st_uid);
        others += usize::from(uid == Some(stat.st_uid));
        ours += usize::from(uid == Some(own));
    }
    Ok((others >= ours).then(|| (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
}

/// Makes a user namespace in which this user and root are exchanged, and this group and that of root.
///
/// Returns an error if this process may not map ids as it likes.
pub(super) fn exchanged_with_root((uid, gid): (Uid, Gid)) -> io::Result<OwnedFd> {
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: without a stack of its own the child is a fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        // SAFETY: system calls only, none of which touches memory. The process waits to be killed, with this
        // thread at the latest.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            while libc::getppid() == parent {
                libc::pause();
            }
            libc::_exit(0)
        }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    let made = fill_maps(pid, uid.as_raw(), gid.as_raw());
    // The descriptor holds the namespace.
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
        // Nothing is learned from how it ended.
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    made
}

fn fill_maps(pid: i64, uid: u32, gid: u32) -> io::Result<OwnedFd> {
    std::fs::write(format!("/proc/{pid}/uid_map"), exchange_map(uid))?;
    std::fs::write(format!("/proc/{pid}/gid_map"), exchange_map(gid))?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())?)
}

/// The map in which an id and that of root are exchanged, and all others stay.
fn exchange_map(id: u32) -> String {
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
        assert_eq!(exchange_map(0), "0 0 4294967295\n");
        assert_eq!(exchange_map(1), "0 1 1\n1 0 1\n2 2 4294967293\n");
        assert_eq!(exchange_map(1000), "0 1000 1\n1000 0 1\n1 1 999\n1001 1001 4294966294\n");
        assert_eq!(exchange_map(ID_MAX), "0 4294967294 1\n4294967294 0 1\n1 1 4294967293\n");
    }

    #[test]
    fn namespaces_that_are_made_at_the_same_time_wait_for_nothing_of_each_other() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let make =
            || (0..200).all(|_| exchanged_with_root((Uid::from_raw(1000), Gid::from_raw(1000))).is_ok());
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().all(|thread| thread.join().unwrap())
        });
        assert!(made);
    }
}
