//! No path leads out of its root, whoever moves what meanwhile.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, RenameFlags};
use sandbox::SandboxStrategy;
use sandbox::fs::beneath::{BeneathError, LinkPolicy, open, open_parent, open_root};

use super::ladder_stage::{ROOT, SandboxFixture, path, run};

#[test]
fn a_path_that_leads_out_is_refused_and_one_that_stays_is_opened() {
    let stage = SandboxFixture::new();
    stage.write("d/in", "in\n");
    let outside = stage.project.with_file_name("project-beside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret\n").unwrap();
    for (link, target) in [
        ("inside", "d/in"),
        ("absolute", "/etc/passwd"),
        ("up", "../project-beside/secret"),
        ("dir", "../project-beside"),
        ("loop", "loop"),
        ("magic", "/proc/self/root"),
    ] {
        symlink(target, stage.project.join(link)).unwrap();
    }
    let root = open_root(&stage.project).unwrap();
    let read = |at: &str, links| open(root.as_fd(), &path(at), OFlags::RDONLY, Mode::empty(), links);
    assert!(read("d/in", LinkPolicy::Refuse).is_ok());
    assert!(read("inside", LinkPolicy::Follow).is_ok());
    for at in ["inside", "absolute", "up", "dir", "dir/secret", "loop", "magic"] {
        assert!(matches!(read(at, LinkPolicy::Refuse), Err(BeneathError::Escapes { .. })), "{at}");
    }
    for at in ["absolute", "up", "dir", "dir/secret", "loop", "magic", "magic/etc/passwd"] {
        assert!(matches!(read(at, LinkPolicy::Follow), Err(BeneathError::Escapes { .. })), "{at}");
    }
    assert!(read("d/none", LinkPolicy::Follow).unwrap_err().is_not_found());
    let flags = OFlags::RDONLY;
    let made = rustix::io::fcntl_getfd(
        open(root.as_fd(), &path("d/in"), flags, Mode::empty(), LinkPolicy::Refuse).unwrap(),
    );
    assert!(made.unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let parent = open_parent(root.as_fd(), &path("d/in")).unwrap();
    assert_eq!(rustix::fs::fstat(parent).unwrap().st_ino, {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(stage.project.join("d")).unwrap().ino()
    });
    assert!(matches!(open_parent(root.as_fd(), &path("dir/new")), Err(BeneathError::Escapes { .. })));
    assert!(open_parent(root.as_fd(), &path("new")).is_ok());
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_never_leads_outside() {
    let stage = SandboxFixture::new();
    let outside = stage.project.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(stage.project.join("d")).unwrap();
    symlink(&outside, stage.project.join("l")).unwrap();
    let root = open_root(&stage.project).unwrap();
    let done = AtomicBool::new(false);
    let (mut made, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(&root, "d", &root, "l", RenameFlags::EXCHANGE).unwrap();
            }
        });
        let flags = OFlags::WRONLY | OFlags::CREATE;
        // Until both have happened often enough to have met the race.
        for round in 0..200_000 {
            match open(
                root.as_fd(),
                &path(format!("d/{}", round % 50)),
                flags,
                Mode::RWXU,
                LinkPolicy::Refuse,
            ) {
                Ok(_) => made += 1,
                Err(_) => refused += 1,
            }
            if made > 2000 && refused > 2000 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_link_in_the_sandbox_does_not_lead_file_tools_out_of_it() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    let sandbox = stage.open(SandboxStrategy::Overlay);
    run(&sandbox, "ln -s /etc etc; ln -s ../.. up; ln -s a ok");
    let root = sandbox.root(ROOT).unwrap();
    let read = |at: &str| open(root, &path(at), OFlags::RDONLY, Mode::empty(), LinkPolicy::Follow);
    assert!(read("ok").is_ok());
    for at in ["etc/passwd", "up", "up/tmp"] {
        assert!(matches!(read(at), Err(BeneathError::Escapes { .. })), "{at}");
    }
}
