//! Opening: the strategy, the reasons against better ones, and nothing left when it fails.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use domain::{ChangeDraft, RootIndex};
use sandbox::{RestoreError, RootSpec, SandboxOpenError, SandboxStrategy, SkippedFiles, StrategyChoice};

use super::ladder_stage::{
    ROOT, SandboxFixture, as_root_and_as_user, between, file, in_own_mounts, net, output, run,
};
use super::ordinary_user::{ORDINARY_USER, home_of_ordinary_user, reachable_dir, run_as_ordinary_user};

fn why(error: SandboxOpenError) -> Vec<(SandboxStrategy, String)> {
    match error {
        SandboxOpenError::NoSandbox { reasons } => {
            reasons.into_iter().map(|over| (over.rung, over.why)).collect()
        }
        other => panic!("{other}"),
    }
}

fn mount(arguments: &[&str], at: &Path) {
    output(Command::new("mount").args(arguments).arg(at));
}

fn overlay_at(lower: &Path, at: &Path) {
    let (upper, work) = (at.with_extension("upper"), at.with_extension("work"));
    for dir in [&upper, &work, &at.to_owned()] {
        fs::create_dir_all(dir).unwrap();
    }
    let options =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    mount(&["-t", "overlay", "overlay", "-o", &options], at);
}

#[test]
fn every_character_of_a_path_is_just_a_character() {
    as_root_and_as_user("cases::ladder_open::every_character_of_a_path_is_just_a_character", || {
        for name in ["my, pro:j\\x", "a\nb", "-o upperdir=x", "é\u{7f}"] {
            let stage = SandboxFixture::with_project_named(name);
            stage.write("a", "one\n");
            stage.commit_all();
            fs::set_permissions(&stage.project, PermissionsExt::from_mode(0o2751)).unwrap();
            for rung in [SandboxStrategy::Overlay, SandboxStrategy::Worktree, SandboxStrategy::Copy] {
                let mut sandbox = stage.open(rung);
                run(&sandbox, "echo two >> a");
                assert_eq!(stage.drafts(&mut sandbox), [between("a", file("one\n"), file("one\ntwo\n"))]);
                run(&sandbox, "git status --porcelain | grep -qx ' M a'; test $(stat -c %a .) = 2751");
            }
        }
    });
}

#[test]
fn something_mounted_below_the_project_leads_to_the_next_rung() {
    in_own_mounts("cases::ladder_open::something_mounted_below_the_project_leads_to_the_next_rung", || {
        let stage = SandboxFixture::new();
        stage.write("a", "one\n");
        fs::create_dir(stage.project.join("with space")).unwrap();
        mount(&["-t", "tmpfs", "none"], &stage.project.join("with space"));
        stage.write("with space/f", "mounted\n");
        let mut sandbox = stage.try_open(StrategyChoice::Auto).unwrap();
        assert_eq!(sandbox.strategy(), SandboxStrategy::Copy);
        let over: Vec<String> = sandbox.skipped_strategies().iter().map(ToString::to_string).collect();
        let mounted = stage.project.join("with space");
        assert_eq!(over[0], format!("overlay: {} is mounted below the project", mounted.display()));
        assert!(over[1].starts_with("reflink: ") && over[2].starts_with("worktree: "), "{over:?}");
        run(&sandbox, "echo more >> 'with space/f'");
        let changed = between("with space/f", file("mounted\n"), file("mounted\nmore\n"));
        assert_eq!(stage.drafts(&mut sandbox), [changed]);
    });
}

#[test]
fn a_project_on_an_overlay_is_covered_until_the_kernel_says_too_deep() {
    in_own_mounts(
        "cases::ladder_open::a_project_on_an_overlay_is_covered_until_the_kernel_says_too_deep",
        || {
            let mut stage = SandboxFixture::new();
            stage.write("a", "one\n");
            let lower = stage.project.clone();
            let (once, twice) = (lower.with_file_name("once"), lower.with_file_name("twice"));
            overlay_at(&lower, &once);
            overlay_at(&once, &twice);
            stage.project = once;
            let mut sandbox = stage.open(SandboxStrategy::Overlay);
            run(&sandbox, "rm a");
            assert_eq!(stage.drafts(&mut sandbox), [between("a", file("one\n"), None)]);
            assert!(sandbox.layer().is_err(), "a layer would be the third");
            sandbox.close().unwrap();
            stage.project = twice.clone();
            let reasons = why(stage.try_open(StrategyChoice::Only(SandboxStrategy::Overlay)).unwrap_err());
            let deep = format!("{} is on as many nested overlays as the kernel allows", twice.display());
            assert_eq!(reasons, [(SandboxStrategy::Overlay, deep)]);
            stage.project = lower;
            stage.sandboxes = twice.join("sandboxes");
            let (_, reason) =
                why(stage.try_open(StrategyChoice::Only(SandboxStrategy::Overlay)).unwrap_err()).remove(0);
            assert!(reason.ends_with("is on an overlay itself"), "{reason}");
        },
    );
}

#[test]
fn a_project_of_another_group_is_copied_by_an_ordinary_user() {
    const TEST: &str = "cases::ladder_open::a_project_of_another_group_is_copied_by_an_ordinary_user";
    if let Some(dir) = home_of_ordinary_user() {
        let mut stage = SandboxFixture::new();
        stage.project = dir.join("foreign");
        let (_, reason) =
            why(stage.try_open(StrategyChoice::Only(SandboxStrategy::Overlay)).unwrap_err()).remove(0);
        assert!(reason.contains(&format!("belongs to {ORDINARY_USER}:12345")), "{reason}");
        assert_eq!(stage.try_open(StrategyChoice::Auto).unwrap().strategy(), SandboxStrategy::Copy);
        // Only one file is another's: the overlay serves, but cannot take that file over.
        stage.project = dir.join("mixed");
        let mut sandbox = stage.open(SandboxStrategy::Overlay);
        let refused = sandbox.restore(&[net(&between("a", file("one\n"), file("two\n")))], &stage.contents);
        assert!(
            !matches!(refused, Err(RestoreError::ForeignOwner { .. })),
            "it is replaced, not written: {refused:?}"
        );
        let root = sandbox.root(ROOT).unwrap();
        let flags = rustix::fs::OFlags::WRONLY;
        let opened = rustix::fs::openat(root, "b", flags, rustix::fs::Mode::empty());
        assert!(sandbox::restore::is_foreign_owner(&opened.unwrap_err().into()));
    } else if rustix::process::geteuid().is_root() {
        let dir = reachable_dir();
        for (name, group) in [("foreign", 12345), ("mixed", ORDINARY_USER)] {
            let project = dir.path().join(name);
            fs::create_dir(&project).unwrap();
            chown(&project, Some(ORDINARY_USER), Some(group)).unwrap();
            for file in ["a", "b"] {
                fs::write(project.join(file), "one\n").unwrap();
                chown(project.join(file), Some(ORDINARY_USER), Some(12345)).unwrap();
            }
        }
        run_as_ordinary_user(TEST, &dir);
    }
}

#[test]
fn a_sandbox_that_fails_half_way_leaves_nothing() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    stage.commit_all();
    let second = stage.project.with_file_name("second");
    fs::create_dir(&second).unwrap();
    fs::write(second.join("b"), "two\n").unwrap();
    let mut request = stage.request(StrategyChoice::Only(SandboxStrategy::Worktree));
    request.roots.push(RootSpec { no: RootIndex(1), path: second.clone(), read_only: false });
    let reasons = why(sandbox::open(request.clone()).unwrap_err());
    assert_eq!(reasons[0].0, SandboxStrategy::Worktree);
    assert!(stage.nothing_left());
    // Both serve on a rung that serves both.
    request.choice = StrategyChoice::Auto;
    request.roots[1].read_only = true;
    let mut sandbox = sandbox::open(request).unwrap();
    assert_eq!(sandbox.strategy(), SandboxStrategy::Overlay);
    let other = second.display();
    run(&sandbox, format!("echo more >> a; ! echo more >> {other}/b 2>/dev/null; cat {other}/b >> a"));
    let changed = between("a", file("one\n"), file("one\nmore\ntwo\n"));
    assert_eq!(stage.drafts(&mut sandbox), [changed]);
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    let with_root = |path: &Path| {
        let mut request = stage.request(StrategyChoice::Auto);
        request.roots.push(RootSpec { no: RootIndex(1), path: path.to_owned(), read_only: false });
        sandbox::open(request)
    };
    fs::create_dir(stage.project.join("inner")).unwrap();
    assert!(matches!(with_root(&stage.project.join("inner")), Err(SandboxOpenError::Nested { .. })));
    assert!(matches!(with_root(&stage.project), Err(SandboxOpenError::Nested { .. })));
    assert!(matches!(with_root(&stage.project.join("a")), Err(SandboxOpenError::NotADirectory { .. })));
    assert!(matches!(with_root(&stage.project.join("none")), Err(SandboxOpenError::Unreadable { .. })));
    assert!(stage.nothing_left());
    let sandbox = stage.open(SandboxStrategy::Overlay);
    let inside = with_root(&sandbox.dir().join("0/upper"));
    assert!(
        matches!(inside, Err(SandboxOpenError::Busy { .. } | SandboxOpenError::InsideSandbox { .. })),
        "{inside:?}"
    );
    assert!(matches!(stage.try_open(StrategyChoice::Auto), Err(SandboxOpenError::Busy { .. })));
    sandbox.close().unwrap();
    fs::create_dir_all(stage.sandboxes.join("left/0/upper")).unwrap();
    let inside = with_root(&stage.sandboxes.join("left/0/upper"));
    assert!(matches!(inside, Err(SandboxOpenError::InsideSandbox { .. })), "{inside:?}");
    // The name is as a prefix: that alone is not inside.
    let beside = stage.sandboxes.with_file_name("sandboxes-not");
    fs::create_dir(&beside).unwrap();
    assert!(with_root(&beside).is_ok());
}

#[test]
fn an_overlay_is_opened_and_scanned_without_reading_a_directory_of_the_project() {
    let stage = SandboxFixture::new();
    stage.write("d/e/f", "one\n");
    let dirs = ["", "d", "d/e"].map(|dir| stage.project.join(dir));
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let read_at = |dir: &Path| fs::metadata(dir).unwrap().atime();
    for dir in &dirs {
        let times = fs::FileTimes::new().set_accessed(long_ago);
        fs::File::open(dir).unwrap().set_times(times).unwrap();
    }
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    assert_eq!(stage.drafts(&mut sandbox), []);
    sandbox.close().unwrap();
    assert_eq!(dirs.each_ref().map(|dir| read_at(dir)), [1_000_000_000; 3]);
    // A walk would have been seen, on a file system that notes it at all.
    stage.open(SandboxStrategy::Copy).close().unwrap();
    let noted = dirs.each_ref().map(|dir| read_at(dir) != 1_000_000_000);
    assert!(noted == [true; 3] || noted == [false; 3]);
}

#[test]
fn a_copy_counts_what_it_does_not_have_and_keeps_modes_and_times() {
    let stage = SandboxFixture::new();
    stage.write("d/script", "#!/bin/sh\n");
    fs::set_permissions(stage.project.join("d/script"), PermissionsExt::from_mode(0o4751)).unwrap();
    fs::set_permissions(stage.project.join("d"), PermissionsExt::from_mode(0o2755)).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    fs::File::open(stage.project.join("d/script")).unwrap().set_modified(long_ago).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, stage.project.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    // The sandbox directory is inside the project: it must not be copied into itself.
    let mut request = stage.request(StrategyChoice::Only(SandboxStrategy::Copy));
    request.dir = stage.project.join("sandboxes/plan-1");
    let sandbox = sandbox::open(request).unwrap();
    assert_eq!(sandbox.skipped(), SkippedFiles { special: 1, unreadable: 0 });
    let copy = sandbox.view().unwrap().roots[0].copy.clone().unwrap();
    let names: Vec<_> = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["d"]);
    let script = fs::metadata(copy.join("d/script")).unwrap();
    assert_eq!((script.mode() & 0o7777, script.modified().unwrap()), (0o4751, long_ago));
    assert_eq!(fs::metadata(copy.join("d")).unwrap().mode() & 0o7777, 0o2755);
}

#[test]
fn a_probe_says_of_each_rung_what_opening_would() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    let roots = stage.request(StrategyChoice::Auto).roots;
    let probed = sandbox::probe(&stage.sandboxes, &roots);
    assert_eq!(probed.iter().map(|(rung, _)| *rung).collect::<Vec<_>>(), SandboxStrategy::TRY_ORDER);
    for (rung, fits) in probed {
        let opened = stage.try_open(StrategyChoice::Only(rung));
        assert_eq!(fits.is_ok(), opened.is_ok(), "{rung}: {fits:?}, {opened:?}");
        if let Err(refused) = opened {
            assert_eq!(why(refused), [(rung, fits.unwrap_err())]);
        }
    }
    assert!(stage.nothing_left());
}

#[test]
fn in_the_users_own_tree_only_what_a_file_tool_replaced_has_a_known_base() {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    stage.write("b", "two\n");
    let mut sandbox = stage.open(SandboxStrategy::InPlace);
    let rules = sandbox::CaptureRules::default();
    let base = sandbox.keep_base(ROOT, &super::ladder_stage::path("a"), &stage.contents, &rules).unwrap();
    assert_eq!(base, file("one\n"));
    run(&sandbox, "echo more >> a; echo more >> b; echo new > c");
    let found: Vec<(ChangeDraft, domain::Base)> =
        stage.scan(&mut sandbox).drafts.into_iter().map(|change| (change.draft, change.base)).collect();
    let unknown =
        domain::FileState { hash: sandbox::capture::UNKNOWN_CONTENT, text: false, ..file("two\n").unwrap() };
    assert_eq!(
        found,
        [
            (between("a", file("one\n"), file("one\nmore\n")), domain::Base::Known),
            (between("b", Some(unknown), file("two\nmore\n")), domain::Base::Moved),
            (between("c", None, file("new\n")), domain::Base::Known),
        ]
    );
    sandbox.close().unwrap();
    assert_eq!(fs::read_to_string(stage.project.join("a")).unwrap(), "one\nmore\n");
}

#[test]
fn in_the_users_own_tree_no_permission_is_changed() {
    as_root_and_as_user("cases::ladder_open::in_the_users_own_tree_no_permission_is_changed", || {
        let stage = SandboxFixture::new();
        stage.write("closed/f", "f\n");
        let closed = stage.project.join("closed");
        let changed =
            |dir: &Path| (fs::metadata(dir).unwrap().ctime(), fs::metadata(dir).unwrap().ctime_nsec());
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
        let before = changed(&closed);
        let mut sandbox = stage.open(SandboxStrategy::InPlace);
        run(&sandbox, "echo new > n");
        assert_eq!(stage.drafts(&mut sandbox), [between("n", None, file("new\n"))]);
        assert_eq!(changed(&closed), before);
        fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
    });
}
