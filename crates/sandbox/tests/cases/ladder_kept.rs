//! What cannot be captured is not lost: sandboxes that are kept, files that cannot be read, openings that are
//! stopped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::{Base, ChangeDraft, FileState};
use sandbox::capture::UNKNOWN_CONTENT;
use sandbox::{NOTE_BYTES_MAX, SandboxOpenError, SandboxStrategy, StrategyChoice};

use super::ladder_stage::{SandboxFixture, as_root_and_as_user, between, file, in_own_mounts, output, run};
use super::ordinary_user::home_of_ordinary_user;

fn project() -> SandboxFixture {
    let stage = SandboxFixture::new();
    for (path, text) in [("a", "one\n"), ("b", "two\n"), ("d/x", "x\n"), ("d/y", "y\n")] {
        stage.write(path, text);
    }
    stage.write(".gitignore", "scratch\n");
    stage.commit_all();
    stage
}

const SCRIPT: &str = "echo more >> a; rm d/x; mv d/y z; mkdir -p new/deep; echo n > new/deep/n; ln -s a link; \
                      echo s > scratch; chmod 755 b; rm -rf d; mkdir d; echo again > d/again";

#[test]
fn what_was_done_in_a_sandbox_that_is_kept_is_captured_when_it_is_opened_again() {
    const TEST: &str =
        "cases::ladder_kept::what_was_done_in_a_sandbox_that_is_kept_is_captured_when_it_is_opened_again";
    as_root_and_as_user(TEST, || {
        for rung in [SandboxStrategy::Overlay, SandboxStrategy::Worktree, SandboxStrategy::Copy] {
            let stage = project();
            let before = stage.users_tree();
            let mut sandbox = stage.open(rung);
            run(&sandbox, SCRIPT);
            sandbox.retain("first").unwrap();
            let expected = stage.drafts(&mut sandbox);
            assert_eq!(expected.len(), 9, "{rung}: {expected:?}");
            let note = "x".repeat(NOTE_BYTES_MAX);
            sandbox.retain(&note).unwrap();
            sandbox.close().unwrap();

            let (mut sandbox, told) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
            assert_eq!((told, sandbox.strategy()), (note, rung));
            assert_eq!(stage.drafts(&mut sandbox), expected, "{rung}");
            run(&sandbox, "cat new/deep/n; echo even more >> a");
            assert_eq!(
                stage.drafts(&mut sandbox),
                [between("a", file("one\nmore\n"), file("one\nmore\neven more\n"))],
                "{rung}"
            );
            sandbox.unretain().unwrap();
            sandbox.close().unwrap();
            assert!(stage.nothing_left(), "{rung}");
            assert_eq!(stage.users_tree(), before);
        }
    });
}

#[test]
fn a_sandbox_is_kept_from_elsewhere_while_somebody_works_in_it_and_its_own_note_stays() {
    let stage = project();
    let mut sandbox = stage.open(SandboxStrategy::Copy);
    let keeper = sandbox.retain_handle().unwrap();
    assert_eq!(keeper.dir(), sandbox.dir());
    // What is kept no more goes as before.
    assert!(keeper.retain().unwrap());
    keeper.unretain().unwrap();
    sandbox.close().unwrap();
    assert!(stage.nothing_left());

    sandbox = stage.open(SandboxStrategy::Copy);
    run(&sandbox, "echo more >> a");
    assert!(sandbox.retain_handle().unwrap().retain().unwrap());
    drop(sandbox);
    let (mut sandbox, told) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
    assert_eq!((told.as_str(), stage.drafts(&mut sandbox).len()), ("", 1));
    sandbox.retain("its own").unwrap();
    assert!(!sandbox.retain_handle().unwrap().retain().unwrap(), "it was kept before");
    sandbox.close().unwrap();
    let (mut sandbox, told) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
    assert_eq!(told, "its own");
    sandbox.unretain().unwrap();
    sandbox.close().unwrap();
    assert!(stage.nothing_left());
}

#[test]
fn a_sandbox_that_is_kept_is_neither_swept_nor_opened_over() {
    let stage = project();
    let dir = stage.sandboxes.join("plan-1");
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    run(&sandbox, SCRIPT);
    assert!(!sandbox::is_retained(&dir));
    sandbox.retain("").unwrap();
    drop(sandbox);
    assert!(sandbox::is_retained(&dir));
    for report in [sandbox::survey(&stage.sandboxes), sandbox::sweep(&stage.sandboxes)] {
        assert_eq!((report.removed, report.in_use, report.kept), (Vec::new(), 0, vec![dir.clone()]));
        assert!(report.left.is_empty());
    }
    assert!(matches!(stage.try_open(StrategyChoice::Auto), Err(SandboxOpenError::Kept { .. })));
    assert_eq!(fs::read_to_string(dir.join("0/upper/a")).unwrap(), "one\nmore\n");

    let (held, _) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
    assert!(sandbox::discard(&dir).is_err(), "somebody has it open");
    drop(held);
    sandbox::discard(&dir).unwrap();
    assert!(stage.nothing_left());
    assert!(sandbox::discard(&dir).is_err(), "there is none");
    assert!(matches!(
        sandbox::reopen(stage.request(StrategyChoice::Auto)),
        Err(SandboxOpenError::Again { .. })
    ));
}

#[test]
fn what_the_user_changed_while_a_sandbox_was_kept_has_no_known_base() {
    for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
        let stage = project();
        let mut sandbox = stage.open(rung);
        run(&sandbox, "echo plan >> a; echo plan >> b");
        sandbox.retain("").unwrap();
        drop(sandbox);
        stage.write("a", "the user's\n");
        let (mut sandbox, _) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
        let captured = stage.scan(&mut sandbox).drafts;
        let bases: Vec<(String, Base)> =
            captured.iter().map(|change| (change.draft.path().to_string(), change.base)).collect();
        assert_eq!(bases, [("a".to_owned(), Base::Moved), ("b".to_owned(), Base::Known)], "{rung}");
    }
}

#[test]
fn over_another_directory_of_the_same_name_no_base_of_a_sandbox_that_is_kept_is_known() {
    let stage = project();
    let other = stage.project.with_file_name("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a"), "another a\n").unwrap();
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    run(&sandbox, "echo plan >> a");
    sandbox.retain("").unwrap();
    drop(sandbox);
    fs::rename(&stage.project, stage.project.with_file_name("away")).unwrap();
    fs::rename(&other, &stage.project).unwrap();
    let (mut sandbox, _) = sandbox::reopen(stage.request(StrategyChoice::Auto)).unwrap();
    let captured = stage.scan(&mut sandbox).drafts;
    assert_eq!(captured.len(), 1);
    assert_eq!(captured[0].base, Base::Moved);
    assert_eq!(captured[0].draft, between("a", file("another a\n"), file("one\nplan\n")));
}

fn unread(text: &str, mode: u16) -> Option<FileState> {
    Some(FileState { hash: UNKNOWN_CONTENT, text: false, mode, ..file(text).unwrap() })
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_the_others_from_being_captured() {
    const TEST: &str =
        "cases::ladder_kept::a_file_that_cannot_be_read_does_not_keep_the_others_from_being_captured";
    as_root_and_as_user(TEST, || {
        // Root may read everything.
        if home_of_ordinary_user().is_none() {
            return;
        }
        let changes = |stage: &SandboxFixture, rung, script: &str| -> Vec<(ChangeDraft, Base)> {
            let mut sandbox = stage.open(rung);
            run(&sandbox, script);
            stage.scan(&mut sandbox).drafts.into_iter().map(|change| (change.draft, change.base)).collect()
        };
        let stage = SandboxFixture::new();
        stage.write("closed", "secret\n");
        fs::set_permissions(stage.project.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(
            changes(&stage, SandboxStrategy::Overlay, "rm -f closed; echo new > new"),
            [
                (between("closed", unread("secret\n", 0), None), Base::Moved),
                (between("new", None, file("new\n")), Base::Known)
            ]
        );
        assert_eq!(
            changes(&stage, SandboxStrategy::InPlace, "echo made > made; chmod 0 made; echo open > open"),
            [
                (between("made", None, unread("made\n", 0)), Base::Known),
                (between("open", None, file("open\n")), Base::Known)
            ]
        );
    });
}

#[test]
fn an_opening_that_is_stopped_copies_no_further_and_leaves_nothing() {
    for rung in [SandboxStrategy::Copy, SandboxStrategy::Worktree] {
        let stage = project();
        let before = stage.users_tree();
        let asked = AtomicU32::new(0);
        let third = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
        let stopped = sandbox::open_unless(stage.request(StrategyChoice::Only(rung)), &third);
        assert!(matches!(stopped, Err(SandboxOpenError::Stopped)), "{rung}: {stopped:?}");
        // Once more after the third file: to tell a stop from a failure.
        assert_eq!(asked.into_inner(), 4, "{rung}");
        // Nobody waits for what was copied to be removed, so the stop is heard at once.
        while !stage.nothing_left() {
            std::thread::yield_now();
        }
        assert_eq!(stage.users_tree(), before);
    }
}

#[test]
fn a_copy_that_would_fill_the_disk_is_given_up_before_it_has() {
    in_own_mounts("cases::ladder_kept::a_copy_that_would_fill_the_disk_is_given_up_before_it_has", || {
        let stage = SandboxFixture::new();
        fs::create_dir(&stage.sandboxes).unwrap();
        output(Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m", "none"]).arg(&stage.sandboxes));
        for number in 0..80 {
            stage.write(format!("f{number}"), vec![0; 250_000]);
        }
        let Err(SandboxOpenError::NoSandbox { reasons }) =
            stage.try_open(StrategyChoice::Only(SandboxStrategy::Copy))
        else {
            panic!("it was opened");
        };
        // Without the check it would have failed at the last files, with the disk full.
        assert!(reasons[0].why.contains("would fill the disk"), "{reasons:?}");
        assert!(stage.nothing_left());
    });
}
