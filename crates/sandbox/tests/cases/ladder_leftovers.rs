//! What is left when a process is killed: nothing that lives, and a directory that is swept.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandbox::{SandboxStrategy, StrategyChoice};

use super::ladder_stage::{SandboxFixture, as_root_and_as_user, run};

const HOLD: &str = "SANDBOX_TEST_HOLD";

/// Opens a sandbox, notes which namespace it has, says so, and waits to be killed.
fn hold(dir: &str) {
    let (project, rung) = dir.rsplit_once('=').unwrap();
    let mut stage = SandboxFixture::new();
    stage.project = PathBuf::from(project);
    stage.sandboxes = stage.project.with_file_name("sandboxes");
    let sandbox = stage.open(rung.parse().unwrap());
    run(&sandbox, "echo plan > a; mkdir closed; chmod 0 closed");
    let view = sandbox.view().unwrap();
    let identity = view.mount_namespace.map_or_else(String::new, |mount| {
        let held = Path::new("/proc/self/fd").join(mount.as_raw_fd().to_string());
        identity_of(&held).unwrap()
    });
    fs::write(stage.project.with_file_name("identity"), identity).unwrap();
    std::io::stdout().write_all(b"\nopen\n").unwrap();
    loop {
        std::thread::park();
    }
}

fn holder(test: &str, stage: &SandboxFixture, rung: SandboxStrategy) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(HOLD, format!("{}={rung}", stage.project.display()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    assert!(said.lines().any(|line| line.unwrap() == "open"));
    let identity = fs::read_to_string(stage.project.with_file_name("identity")).unwrap();
    (child, identity)
}

/// Which namespace a link in `/proc` leads to. Inodes are used again, so the time at which it was made
/// belongs to it.
fn identity_of(link: &Path) -> Option<String> {
    let to = fs::read_link(link).ok()?.to_string_lossy().into_owned();
    let made = fs::metadata(link).ok()?;
    Some(format!("{to} {} {}", made.ctime(), made.ctime_nsec()))
}

/// Whether any process is in this mount namespace or holds it open.
fn is_held(identity: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| process.join("ns").exists()).any(|process| {
        let is = |link: &Path| identity_of(link).is_some_and(|found| found == identity);
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        is(&process.join("ns/mnt")) || open.map(|entry| entry.path()).any(|link| is(&link))
    })
}

#[test]
fn a_killed_owner_leaves_no_mount_and_a_directory_that_is_swept() {
    const TEST: &str =
        "cases::ladder_leftovers::a_killed_owner_leaves_no_mount_and_a_directory_that_is_swept";
    if let Ok(dir) = std::env::var(HOLD) {
        return hold(&dir);
    }
    as_root_and_as_user(TEST, || {
        for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
            let stage = SandboxFixture::new();
            stage.write("a", "one\n");
            let before = stage.users_tree();
            let (mut child, identity) = holder(TEST, &stage, rung);
            assert_eq!(is_held(&identity), rung == SandboxStrategy::Overlay);
            let report = sandbox::sweep(&stage.sandboxes);
            assert_eq!(
                (report.removed.len(), report.in_use, report.left.len()),
                (0, 1, 0),
                "its owner lives"
            );
            let again = stage.try_open(StrategyChoice::Auto);
            assert!(matches!(again, Err(sandbox::SandboxOpenError::Busy { .. })), "{again:?}");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(
                !is_held(&identity),
                "{rung}: nothing holds the namespace, so the kernel has unmounted it"
            );
            let report = sandbox::sweep(&stage.sandboxes);
            assert_eq!(report.removed, [stage.sandboxes.join("plan-1")], "{rung}: {report:?}");
            assert!(stage.nothing_left(), "{rung}");
            assert_eq!(stage.users_tree(), before, "{rung}");
        }
    });
}

#[test]
fn the_next_sandbox_of_the_same_name_takes_the_place_of_what_was_left() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    fs::create_dir_all(stage.sandboxes.join("plan-1/0/upper")).unwrap();
    fs::write(stage.sandboxes.join("plan-1/0/upper/old"), "old\n").unwrap();
    fs::write(stage.sandboxes.join("plan-1/lock"), "").unwrap();
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    assert_eq!(stage.drafts(&mut sandbox), []);
    drop(sandbox);
    assert!(stage.nothing_left(), "dropping closes too");
}

#[test]
fn a_sweep_removes_what_was_left_in_the_making_or_the_removing_and_nothing_else() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    let alive = stage.open(SandboxStrategy::Overlay);
    for left in ["plan-2/0", ".gone-plan-3-1-0/0"] {
        fs::create_dir_all(stage.sandboxes.join(left)).unwrap();
    }
    fs::write(stage.sandboxes.join("a file"), "not ours").unwrap();
    std::os::unix::fs::symlink(&stage.project, stage.sandboxes.join("link")).unwrap();
    let left = [".gone-plan-3-1-0", "plan-2"].map(|name| stage.sandboxes.join(name));
    let report = sandbox::sweep(&stage.sandboxes);
    assert_eq!(report.removed, left);
    assert_eq!((report.in_use, report.left.len()), (1, 0));
    assert!(stage.sandboxes.join("a file").exists() && stage.sandboxes.join("link").is_symlink());
    assert!(stage.project.join("a").exists());
    run(&alive, "echo alive > b");
    assert!(sandbox::sweep(&stage.sandboxes.join("none")).removed.is_empty());
}

#[test]
fn a_survey_tells_what_a_sweep_would_remove_and_removes_nothing() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    let alive = stage.open(SandboxStrategy::Overlay);
    for left in ["plan-2/0", "plan-3", ".gone-plan-4-1-0/0"] {
        fs::create_dir_all(stage.sandboxes.join(left)).unwrap();
    }
    fs::write(stage.sandboxes.join("plan-3/lock"), "").unwrap();
    fs::write(stage.sandboxes.join("a file"), "not ours").unwrap();
    let listed = || {
        let mut names: Vec<_> = fs::read_dir(&stage.sandboxes).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        names
    };
    let before = listed();
    let told = sandbox::survey(&stage.sandboxes);
    assert_eq!(listed(), before);
    // Nothing stays claimed: a second look finds the same, and so does the sweep.
    let again = sandbox::survey(&stage.sandboxes);
    let swept = sandbox::sweep(&stage.sandboxes);
    for report in [&told, &again, &swept] {
        assert_eq!((report.in_use, report.left.len()), (1, 0), "{report:?}");
        assert_eq!(
            report.removed,
            [".gone-plan-4-1-0", "plan-2", "plan-3"].map(|name| stage.sandboxes.join(name))
        );
    }
    assert_eq!(listed(), ["a file", "plan-1"].map(|name| stage.sandboxes.join(name)));
    run(&alive, "echo alive > b");
    assert!(sandbox::survey(&stage.sandboxes.join("none")).removed.is_empty());
}

#[test]
fn sandboxes_are_opened_closed_and_swept_beside_each_other() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stage = &stage;
            scope.spawn(move || {
                for round in 0..10 {
                    let mut request = stage.request(StrategyChoice::Only(SandboxStrategy::Overlay));
                    request.dir = stage.sandboxes.join(format!("plan-{thread}"));
                    let opened = sandbox::open(request).unwrap();
                    run(&opened, format!("echo {round} > a"));
                    let report = sandbox::sweep(&stage.sandboxes);
                    assert!(report.left.is_empty() && opened.dir().join("lock").exists(), "{report:?}");
                    opened.close().unwrap();
                }
            });
        }
    });
    sandbox::sweep(&stage.sandboxes);
    assert!(stage.nothing_left());
}
