//! Whether the base of a change is known, whatever the user does to the same file, and when.

use std::fs;
use std::path::Path;

use domain::{Base, ChangeDraft, FileState};
use sandbox::{CaptureRules, Sandbox, SandboxStrategy};

use super::ladder_stage::{ROOT, SandboxFixture, between, file, path, run};

const RUNGS: [SandboxStrategy; 2] = [SandboxStrategy::Overlay, SandboxStrategy::Copy];

fn project() -> SandboxFixture {
    let stage = SandboxFixture::new();
    stage.write("d/f", "base\n");
    stage.write("d/g", "g\n");
    stage
}

fn found(stage: &SandboxFixture, sandbox: &mut Sandbox) -> Vec<(ChangeDraft, Base)> {
    stage.scan(sandbox).drafts.into_iter().map(|change| (change.draft, change.base)).collect()
}

/// What a user may do to `d/f`, and what is there then.
type UserEdit = (&'static str, fn(&Path), Option<&'static str>);

fn acts() -> [UserEdit; 5] {
    [
        ("edits it", |project| fs::write(project.join("d/f"), "user\n").unwrap(), Some("user\n")),
        (
            "replaces it",
            |project| {
                fs::write(project.join("d/t"), "user\n").unwrap();
                fs::rename(project.join("d/t"), project.join("d/f")).unwrap();
            },
            Some("user\n"),
        ),
        ("deletes it", |project| fs::remove_file(project.join("d/f")).unwrap(), None),
        (
            "puts an older file there",
            |project| {
                let older = project.parent().unwrap().join("older");
                fs::rename(older, project.join("d/f")).unwrap();
            },
            Some("older\n"),
        ),
        (
            "puts another directory there",
            |project| {
                fs::rename(project.join("d"), project.join("d.old")).unwrap();
                fs::rename(project.parent().unwrap().join("other"), project.join("d")).unwrap();
            },
            Some("other\n"),
        ),
    ]
}

/// Older things of the user's, made before the sandbox is opened.
fn prepare(stage: &SandboxFixture) {
    let outside = stage.project.parent().unwrap();
    fs::write(outside.join("older"), "older\n").unwrap();
    fs::create_dir(outside.join("other")).unwrap();
    fs::write(outside.join("other/f"), "other\n").unwrap();
}

fn state(text: Option<&str>) -> Option<FileState> {
    text.and_then(file)
}

#[test]
fn what_the_user_did_before_is_the_base_and_known() {
    for rung in RUNGS {
        for (what, act, there) in acts() {
            let stage = project();
            prepare(&stage);
            act(&stage.project);
            let mut sandbox = stage.open(rung);
            run(&sandbox, "echo plan > d/f");
            let expected = (between("d/f", state(there), file("plan\n")), Base::Known);
            assert_eq!(found(&stage, &mut sandbox), [expected], "{rung}: the user {what}");
        }
    }
}

#[test]
fn what_the_user_does_before_the_first_scan_makes_the_base_moved() {
    for rung in RUNGS {
        for (what, act, there) in acts() {
            let stage = project();
            prepare(&stage);
            let mut sandbox = stage.open(rung);
            run(&sandbox, "echo plan > d/f");
            act(&stage.project);
            let changes = found(&stage, &mut sandbox);
            let (draft, base) = &changes[0];
            assert_eq!(draft, &between("d/f", state(there), file("plan\n")), "{rung}: the user {what}");
            // An overlay cannot tell a file that was never there from one that is gone: a create, then.
            let expected =
                if rung == SandboxStrategy::Overlay && there.is_none() { Base::Known } else { Base::Moved };
            assert_eq!((*base, changes.len()), (expected, 1), "{rung}: the user {what}");
        }
    }
}

#[test]
fn what_the_user_does_after_the_first_scan_changes_nothing() {
    for rung in RUNGS {
        for (what, act, _) in acts() {
            let stage = project();
            prepare(&stage);
            let mut sandbox = stage.open(rung);
            run(&sandbox, "echo plan > d/f");
            let first = (between("d/f", file("base\n"), file("plan\n")), Base::Known);
            assert_eq!(found(&stage, &mut sandbox), [first], "{rung}: the user {what}");
            act(&stage.project);
            assert_eq!(found(&stage, &mut sandbox), [], "{rung}: the user {what}");
            run(&sandbox, "echo again > d/f");
            let second = (between("d/f", file("plan\n"), file("again\n")), Base::Known);
            assert_eq!(found(&stage, &mut sandbox), [second], "{rung}: the user {what}");
            assert_eq!(stage.contents.of(&file("base\n").unwrap().hash).unwrap(), b"base\n");
        }
    }
}

#[test]
fn a_base_saved_during_a_command_stays_known_whatever_comes_later() {
    for rung in RUNGS {
        let stage = project();
        let mut sandbox = stage.open(rung);
        run(&sandbox, "echo plan > d/f; rm d/g; echo t > temporary");
        sandbox.save_bases(&stage.contents, &CaptureRules::default()).unwrap();
        stage.write("d/f", "user\n");
        stage.write("d/g", "user\n");
        run(&sandbox, "echo more >> d/f; rm temporary");
        assert_eq!(
            found(&stage, &mut sandbox),
            [
                (between("d/f", file("base\n"), file("plan\nmore\n")), Base::Known),
                (between("d/g", file("g\n"), None), Base::Known)
            ],
            "{rung}"
        );
    }
}

#[test]
fn a_file_tool_knows_what_it_replaced_although_the_user_had_edited_it() {
    for rung in RUNGS {
        let stage = project();
        let mut sandbox = stage.open(rung);
        let seen = if rung == SandboxStrategy::Overlay { "user\n" } else { "base\n" };
        sandbox.root(ROOT).unwrap();
        stage.write("d/f", "user\n");
        let rules = CaptureRules::default();
        let base = sandbox.keep_base(ROOT, &path("d/f"), &stage.contents, &rules).unwrap();
        assert_eq!(base, file(seen), "{rung}: a live tree shows the edit, a copy does not");
        stage.write("d/f", "user again\n");
        run(&sandbox, "echo plan > d/f");
        let expected = (between("d/f", file(seen), file("plan\n")), Base::Known);
        assert_eq!(found(&stage, &mut sandbox), [expected], "{rung}");
        assert_eq!(sandbox.keep_base(ROOT, &path("none"), &stage.contents, &rules).unwrap(), None);
    }
}

#[test]
fn a_file_written_just_before_the_opening_is_known() {
    let stage = project();
    for round in 0..200 {
        let text = format!("{round}\n");
        stage.write("d/f", &text);
        let mut sandbox = stage.open(SandboxStrategy::Overlay);
        run(&sandbox, "echo plan > d/f");
        assert_eq!(found(&stage, &mut sandbox), [(between("d/f", file(text), file("plan\n")), Base::Known)]);
    }
}

#[test]
fn a_directory_that_the_user_only_adds_to_leaves_the_others_in_it_known() {
    for rung in RUNGS {
        let stage = project();
        let mut sandbox = stage.open(rung);
        run(&sandbox, "echo plan > d/f");
        stage.write("d/new", "user\n");
        let expected = (between("d/f", file("base\n"), file("plan\n")), Base::Known);
        assert_eq!(found(&stage, &mut sandbox), [expected], "{rung}");
    }
}

#[test]
fn what_both_made_is_moved() {
    for rung in RUNGS {
        let stage = project();
        let mut sandbox = stage.open(rung);
        run(&sandbox, "echo plan > new");
        stage.write("new", "user\n");
        let expected = (between("new", file("user\n"), file("plan\n")), Base::Moved);
        assert_eq!(found(&stage, &mut sandbox), [expected], "{rung}");
    }
}

/// The number of files can be given, to try a million of them on a machine that is busy anyway.
#[test]
fn no_file_is_called_moved_because_the_machine_is_busy() {
    const THREADS: usize = 8;
    let count = std::env::var("AGENTS_MOVED_FILES").map_or(2_000, |count| count.parse().unwrap());
    let stage = SandboxFixture::new();
    for number in 0..count {
        stage.write(format!("d{}/f{number}", number / 500), "base\n");
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let mut sandbox = stage.open(SandboxStrategy::Overlay);
        run(&sandbox, "for f in d*/f*; do echo plan > $f; done");
        let changes = found(&stage, &mut sandbox);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(changes.len(), count);
        assert_eq!(changes.iter().filter(|(_, base)| *base == Base::Moved).count(), 0);
    });
}
