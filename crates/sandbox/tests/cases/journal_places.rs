//! An apply where the world is less friendly: full disks, read-only mounts, other people's files, open files.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{RelPath, RootIndex};
use rustix::mount::{MountFlags, MountPropagationFlags};
use sandbox::journal::{HookPoint, JournalEnding, JournalPath, JournalRoot, JournalStep, RollbackReason};

use super::journal_stage::*;

/// Whether mounts can be made: then runs it on a thread with a mount namespace of its own.
fn with_own_mounts(act: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: unshare takes a number; of the namespaces only this thread's view of mounts changes.
            if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
                return;
            }
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private).unwrap();
            act();
        });
        thread.join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn mount_small(at: &Path, options: &std::ffi::CStr) {
    fs::create_dir_all(at).unwrap();
    rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::empty(), options).unwrap();
}

#[test]
fn a_full_disk_changes_nothing() {
    with_own_mounts(|| {
        let (small, large) = ("small\n".to_owned(), "large\n".repeat(70_000));
        // A long name makes the mark that says why it is taken back longer than what happens to be free behind the journal.
        let deep = format!("{}grows", format!("{}/", "d".repeat(200)).repeat(18));
        let before = tree([("a", file("a\n")), (&deep, file(&small)), ("z", file("z\n"))]);
        for after in [
            tree([("a", file("A\n")), (&deep, file(&large)), ("z", file("Z\n"))]),
            tree([("a", file("A\n")), (&deep, file(&small)), ("new", file(&large))]),
        ] {
            // The journal lies on the same disk: it has room for all images, and none is left for the files.
            let stage = JournalFixture::new(&tree([]));
            mount_small(stage.dir.path(), c"size=1m,mode=700");
            fs::create_dir(&stage.root).unwrap();
            plant(&stage.root, &before);
            fs::write(stage.dir.path().join("filler"), vec![1; 300 << 10]).unwrap();
            let ending = stage.apply(&before, &after);
            let JournalEnding::RolledBack { why: RollbackReason::Io { source, .. }, left } = ending else {
                panic!("{ending:?}")
            };
            assert_eq!((source.kind(), left), (io::ErrorKind::StorageFull, vec![]));
            assert_eq!(stage.survey(), before);
            rustix::mount::unmount(stage.dir.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    });
}

#[test]
fn a_read_only_second_project_leaves_the_first_as_it_was() {
    with_own_mounts(|| {
        let before = tree([("f", file("old")), ("g", file("old"))]);
        let after = tree([("f", file("new")), ("h", file("new"))]);
        let stage = JournalFixture::new(&before);
        let second = stage.dir.path().join("second");
        mount_small(&second, c"size=1m");
        plant(&second, &before);
        rustix::mount::mount_remount(&second, MountFlags::RDONLY, c"").unwrap();
        let mut request = stage.request(changes(&before, &after));
        request.roots.push(JournalRoot::new(RootIndex(1), &second).unwrap());
        for mut change in changes(&before, &after) {
            change.root = RootIndex(1);
            request.changes.push(change);
        }
        let ending = carry_out(&stage.journals(), request).unwrap().retire().unwrap();
        let JournalEnding::RolledBack { why: RollbackReason::Io { source, place }, left } = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(
            (source.kind(), place.root, left),
            (io::ErrorKind::ReadOnlyFilesystem, RootIndex(1), vec![])
        );
        assert_eq!((stage.survey(), survey(&second)), (before.clone(), before.clone()));
    });
}

#[test]
fn a_bind_mounted_file_is_written_in_place() {
    with_own_mounts(|| {
        let before = tree([("f", file("old"))]);
        let stage = JournalFixture::new(&before);
        let real = stage.dir.path().join("real");
        fs::write(&real, "old").unwrap();
        rustix::mount::mount_bind(&real, stage.root.join("f")).unwrap();
        let ending = stage.apply(&before, &tree([("f", file("new"))]));
        assert!(
            matches!(&ending, JournalEnding::Applied { replaced, .. } if replaced.is_empty()),
            "{ending:?}"
        );
        assert_eq!(fs::read(&real).unwrap(), b"new");
    });
}

/// Runs it on a thread of an ordinary user who owns the directory, when we can be one.
fn as_somebody(dir: &Path, act: impl FnOnce() + Send) {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return act();
    }
    give_away(dir, NOBODY);
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the calls take numbers. Made directly, not through the C library, they change this thread alone.
            let changed = unsafe {
                libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) == 0
                    && libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
                    && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
            };
            assert!(changed);
            act();
        });
        thread.join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

fn give_away(path: &Path, id: u32) {
    std::os::unix::fs::lchown(path, Some(id), Some(id)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path(), id));
    }
}

#[test]
fn a_read_only_file_is_replaced_with_mode_and_attributes_and_named() {
    let before = tree([("ro", TestNode::File(b"old".to_vec(), 0o444)), ("rw", file("old"))]);
    let after = tree([("ro", TestNode::File(b"new".to_vec(), 0o444)), ("rw", file("new"))]);
    let stage = JournalFixture::new(&before);
    let path = stage.root.join("ro");
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
    set_mode(0o444);
    as_somebody(stage.dir.path(), || {
        let inode = fs::metadata(&path).unwrap().ino();
        let ending = stage.apply(&before, &after);
        let named = JournalPath { root: RootIndex(0), path: RelPath::new("ro").unwrap() };
        assert!(
            matches!(&ending, JournalEnding::Applied { replaced, .. } if replaced == &[named]),
            "{ending:?}"
        );
        assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
        assert_eq!(stage.survey(), after);
        let mut value = [0_u8; 8];
        assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap(), 4);
    });
}

#[test]
fn a_replaced_file_gets_its_inode_back_when_all_is_taken_back() {
    let before = tree([("a ro", TestNode::File(b"old".to_vec(), 0o444)), ("b", file("old"))]);
    let after = tree([("a ro", TestNode::File(b"new".to_vec(), 0o444)), ("b", file("new"))]);
    let stage = JournalFixture::new(&before);
    as_somebody(stage.dir.path(), || {
        let inode = fs::metadata(stage.root.join("a ro")).unwrap().ino();
        let refuse =
            at(JournalStep::Op { n: 1, at: HookPoint::Checked }, || Err(io::ErrorKind::StorageFull.into()));
        let request = stage.request(changes(&before, &after));
        let ending = carry_out(&stage.journals().with_hooks(refuse), request).unwrap().retire().unwrap();
        assert!(matches!(ending, JournalEnding::RolledBack { .. }), "{ending:?}");
        assert_eq!(stage.survey(), before);
        assert_eq!(fs::metadata(stage.root.join("a ro")).unwrap().ino(), inode);
    });
}

#[test]
fn a_directory_that_may_not_be_written_changes_nothing() {
    let before = tree([("a", file("old")), ("d/f", file("old"))]);
    let after = tree([("a", file("new")), ("d/f", file("old")), ("d/g", file("new"))]);
    let stage = JournalFixture::new(&before);
    fs::set_permissions(stage.root.join("d"), std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    as_somebody(stage.dir.path(), || {
        let ending = stage.apply(&before, &after);
        let JournalEnding::RolledBack { why: RollbackReason::Io { source, .. }, .. } = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(stage.survey(), before);
    });
    fs::set_permissions(stage.root.join("d"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_foreign_group_and_an_access_list_stay() {
    let before = tree([("f", file("old"))]);
    let stage = JournalFixture::new(&before);
    let path = stage.root.join("f");
    if rustix::process::geteuid().is_root() {
        chown(&path, None, Some(4321)).unwrap();
    }
    // user::rw-, user:1234:rw-, group::r--, mask::rw-, other::r--
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 6, 1234), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 4, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(bits.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    rustix::fs::setxattr(&path, name, &list, rustix::fs::XattrFlags::empty()).unwrap();
    let mode = u16::try_from(fs::metadata(&path).unwrap().mode() & 0o7777).unwrap();
    let group = fs::metadata(&path).unwrap().gid();
    let node = |text: &str| TestNode::File(text.as_bytes().to_vec(), mode);
    stage.apply(&tree([("f", node("old"))]), &tree([("f", node("new"))]));
    let mut found = [0_u8; 256];
    let length = rustix::fs::getxattr(&path, name, &mut found[..]).unwrap();
    assert_eq!(&found[..length], list);
    assert_eq!(fs::metadata(&path).unwrap().gid(), group);
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn nobody_opens_a_file_while_it_is_written() {
    let before = tree([("f", file("old"))]);
    let stage = JournalFixture::new(&before);
    let path = stage.root.join("f");
    let opened = move || match fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => Err(io::Error::other(format!("not kept waiting: {other:?}"))),
    };
    let hooks = at(JournalStep::Op { n: 0, at: HookPoint::Verify }, opened);
    let request = stage.request(changes(&before, &tree([("f", file("new"))])));
    let ending = carry_out(&stage.journals().with_hooks(hooks), request).unwrap().retire().unwrap();
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");
}

#[test]
fn a_file_that_somebody_has_open_is_written_all_the_same() {
    let before = tree([("f", file("old"))]);
    let stage = JournalFixture::new(&before);
    let held = fs::File::options().read(true).write(true).open(stage.root.join("f")).unwrap();
    let ending = stage.apply(&before, &tree([("f", file("new"))]));
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");
    assert_eq!(io::read_to_string(held).unwrap(), "new");
}

#[test]
fn a_directory_that_is_swapped_for_a_link_all_the_time_leads_nowhere_outside() {
    let before = tree([("d/f", file("old")), ("d/gone", file("old"))]);
    let after = tree([("d/f", file("new")), ("d/sub/n", file("new"))]);
    let outside = tree([("f", file("old")), ("gone", file("old")), ("sub", TestNode::Dir(0o755))]);
    for round in 0..60 {
        let stage = JournalFixture::new(&before);
        let target = stage.dir.path().join("outside");
        fs::create_dir(&target).unwrap();
        plant(&target, &outside);
        let [d, link] = ["project/d", "link"].map(|name| stage.dir.path().join(name));
        symlink(&target, &link).unwrap();
        let over = AtomicBool::new(false);
        let turning = AtomicBool::new(false);
        let ending = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    // To the link and back.
                    for _ in 0..2 {
                        let exchange = rustix::fs::RenameFlags::EXCHANGE;
                        rustix::fs::renameat_with(rustix::fs::CWD, &d, rustix::fs::CWD, &link, exchange)
                            .unwrap();
                    }
                    turning.store(true, Ordering::SeqCst);
                }
            });
            while !turning.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            let prepared =
                stage.journals().prepare(stage.request(changes(&before, &after)), &NoContentSource);
            let carried = prepared.map(|prepared| prepared.commit().unwrap().carry_out());
            over.store(true, Ordering::SeqCst);
            carried
        });
        assert_eq!(survey(&target), outside, "round {round}");
        match ending {
            Ok(Ok(settled)) => drop(settled.retire().unwrap()),
            // It could not even be taken back while the directory was elsewhere: now it can.
            Ok(Err(_)) => drop(stage.recover_one().retire().unwrap()),
            Err(_) => {}
        }
        assert_eq!(survey(&target), outside, "round {round}");
    }
}
