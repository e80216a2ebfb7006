//! Scans one after the other, what they leave out, and what comes back by restoring.

use std::fs;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Base, ChangeDraft, ChangeOp, FileState, Hash, NetChange};
use sandbox::content::{ContentSink, StoredContent};
use sandbox::{CaptureError, CaptureRules, RestoreError, SandboxStrategy, UncapturedCounts};

use super::ladder_stage::{ROOT, SandboxFixture, as_root_and_as_user, between, file, net, path, run};

const RUNGS: [SandboxStrategy; 3] =
    [SandboxStrategy::Overlay, SandboxStrategy::Worktree, SandboxStrategy::Copy];

fn project() -> SandboxFixture {
    let stage = SandboxFixture::new();
    stage.write("a", "one\n");
    stage.write("d/x", "x\n");
    stage.write("d/y", "y\n");
    stage
}

fn dir() -> Option<FileState> {
    Some(FileState::dir(0o755))
}

#[test]
fn each_scan_begins_where_the_one_before_ended() {
    for rung in RUNGS {
        let stage = project();
        stage.commit_all();
        let mut sandbox = stage.open(rung);
        let steps: [(&str, Vec<ChangeDraft>); 10] = [
            ("echo two >> a", vec![between("a", file("one\n"), file("one\ntwo\n"))]),
            (
                "echo 2wo > t; tail -n +2 a > u; cat t u > a; rm t u",
                vec![between("a", file("one\ntwo\n"), file("2wo\ntwo\n"))],
            ),
            (
                "rm -r d",
                vec![
                    between("d", dir(), None),
                    between("d/x", file("x\n"), None),
                    between("d/y", file("y\n"), None),
                ],
            ),
            (
                "mkdir -m 700 d; echo new > d/x",
                vec![between("d", None, Some(FileState::dir(0o700))), between("d/x", None, file("new\n"))],
            ),
            ("mkdir e", vec![between("e", None, dir())]),
            ("echo in > e/in", vec![between("e/in", None, file("in\n"))]),
            (
                "chmod 700 e; rm e/in",
                vec![between("e", dir(), Some(FileState::dir(0o700))), between("e/in", file("in\n"), None)],
            ),
            ("rmdir e", vec![between("e", Some(FileState::dir(0o700)), None)]),
            (
                "rm a; mkdir a; echo z > a/z",
                vec![
                    between("a", file("2wo\ntwo\n"), None),
                    between("a", None, dir()),
                    between("a/z", None, file("z\n")),
                ],
            ),
            (
                "rm -r a; echo one > a",
                vec![
                    between("a", dir(), None),
                    between("a", None, file("one\n")),
                    between("a/z", file("z\n"), None),
                ],
            ),
        ];
        for (script, expected) in steps {
            run(&sandbox, format!("umask 022; {script}"));
            assert_eq!(stage.drafts(&mut sandbox), expected, "{rung}: {script}");
            assert_eq!(stage.drafts(&mut sandbox), [], "{rung}: after {script}");
        }
    }
}

#[test]
fn writes_of_the_same_size_in_the_same_tick_are_told_apart() {
    for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
        let stage = project();
        let mut sandbox = stage.open(rung);
        let mut last = "one\n".to_owned();
        for round in 0..40 {
            let next = format!("{:03}\n", round % 10);
            let root = sandbox.root(ROOT).unwrap();
            let flags = rustix::fs::OFlags::WRONLY;
            let opened = rustix::fs::openat(root, "a", flags, rustix::fs::Mode::empty()).unwrap();
            rustix::io::write(&opened, next.as_bytes()).unwrap();
            drop(opened);
            assert_eq!(
                stage.drafts(&mut sandbox),
                [between("a", file(&last), file(&next))],
                "{rung} {round}"
            );
            last = next;
        }
    }
}

#[test]
fn what_is_ignored_protected_or_special_is_counted_and_not_captured() {
    for rung in RUNGS {
        let stage = project();
        stage.write(".gitignore", "target/\n*.log\n!keep.log\n/.env\n");
        stage.write("target/tracked", "t\n");
        stage.write("sub/.gitignore", "local\n");
        stage.git(&["init", "-q"]);
        stage.git(&["add", "-A"]);
        stage.git(&["add", "-f", "target/tracked"]);
        stage.write(".env", "SECRET=1\n");
        stage.write("target/built", "old\n");
        let mut sandbox = stage.open(rung);
        run(
            &sandbox,
            "umask 022
            echo new > target/built; echo new > target/more; echo u > target/tracked
            echo log > x.log; echo log > keep.log; echo SECRET=2 > .env; echo l > sub/local
            mkdir -p d/.git d/.hg; echo p > d/.git/p; echo p > d/.hg/p; echo p > .git/p
            mkfifo pipe
            mkdir -p target/deep/er; echo s > target/deep/er/s",
        );
        let captured = stage.scan(&mut sandbox);
        let drafts: Vec<ChangeDraft> = captured.drafts.iter().map(|change| change.draft.clone()).collect();
        assert_eq!(
            drafts,
            [
                between(".env", file("SECRET=1\n"), file("SECRET=2\n")),
                between("keep.log", None, file("log\n")),
                between("target/tracked", file("t\n"), file("u\n")),
            ],
            "{rung}"
        );
        // target/{built, more, deep/er/s}, x.log, sub/local; d/.git/p, d/.hg/p, .git/p; pipe.
        assert_eq!(
            captured.not_captured,
            UncapturedCounts {
                scratch: 5,
                protected: 3,
                special: 1,
                repository: 3,
                ..UncapturedCounts::default()
            },
            "{rung}"
        );
        assert!(captured.examples.iter().any(|example| example.path == Some(path("pipe"))), "{rung}");
        assert_eq!(stage.scan(&mut sandbox).not_captured, captured.not_captured, "{rung}");
        // What was reported once stays in, whatever is ignored later.
        run(&sandbox, "echo '*' > .gitignore; echo more >> keep.log; echo new > another");
        let changed = [
            between(".gitignore", file("target/\n*.log\n!keep.log\n/.env\n"), file("*\n")),
            between("keep.log", file("log\n"), file("log\nmore\n")),
        ];
        assert_eq!(stage.drafts(&mut sandbox), changed, "{rung}");
    }
}

#[test]
fn removing_what_is_ignored_is_scratch_too() {
    for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
        let stage = project();
        stage.write(".gitignore", "target\nnode_modules\n");
        stage.write("target/tracked", "t\n");
        stage.write("target/built", "b\n");
        stage.write("node_modules/m/i.js", "js\n");
        stage.git(&["init", "-q"]);
        stage.git(&["add", "-f", "a", "d", ".gitignore", "target/tracked"]);
        let mut sandbox = stage.open(rung);
        run(&sandbox, "rm -r target node_modules");
        let captured = stage.scan(&mut sandbox);
        let drafts: Vec<ChangeDraft> = captured.drafts.into_iter().map(|change| change.draft).collect();
        assert_eq!(drafts, [between("target/tracked", file("t\n"), None)], "{rung}");
        assert!(captured.not_captured.scratch > 0, "{rung}");
        assert_eq!(stage.drafts(&mut sandbox), [], "{rung}");
    }
}

#[test]
fn rules_of_the_plan_say_what_is_scratch_and_what_is_protected() {
    let stage = project();
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    run(&sandbox, "echo l > x.log; echo two >> a; echo more > d/x");
    let rules = CaptureRules {
        ignore: vec!["*.log".into()],
        protected: vec!["/d".into()],
        ..CaptureRules::default()
    };
    let captured = sandbox.scan(&stage.contents, &rules).unwrap();
    let drafts: Vec<ChangeDraft> = captured.drafts.into_iter().map(|change| change.draft).collect();
    assert_eq!(drafts, [between("a", file("one\n"), file("one\ntwo\n"))]);
    assert_eq!(
        captured.not_captured,
        UncapturedCounts { scratch: 1, protected: 1, special: 0, ..UncapturedCounts::default() }
    );
}

#[test]
fn nothing_is_read_of_a_file_that_is_too_large() {
    for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
        let stage = project();
        stage.write("big", vec![b'x'; 2000]);
        let mut sandbox = stage.open(rung);
        // More zeros than could be read in a day.
        run(&sandbox, "echo y >> big; truncate -s 1T sparse; echo small > small");
        let rules = CaptureRules { max_file_bytes: 1000, ..CaptureRules::default() };
        let captured = sandbox.scan(&stage.contents, &rules).unwrap();
        let told: Vec<_> = captured
            .drafts
            .iter()
            .map(|change| {
                (change.draft.path().to_string(), change.too_large, change.draft.after().unwrap().size)
            })
            .collect();
        let expected = [("big", true, 2002), ("small", false, 6), ("sparse", true, 1 << 40)]
            .map(|(path, large, size)| (path.to_owned(), large, size));
        assert_eq!(told, expected, "{rung}");
        let after = [vec![b'x'; 2000], b"y\n".to_vec()].concat();
        assert_eq!(stage.contents.of(&Hash::from_content(&after)), None);
        assert_eq!(stage.contents.of(&Hash::from_content(b"small\n")).unwrap(), b"small\n");
        // What is written later is told, at the same size too; what only gets another mode has the same content.
        run(&sandbox, "printf z | dd of=big conv=notrunc 2>/dev/null; chmod 600 sparse");
        let again = sandbox.scan(&stage.contents, &rules).unwrap();
        let ops: Vec<_> = again
            .drafts
            .iter()
            .map(|change| (change.draft.path().to_string(), change.draft.op().clone()))
            .collect();
        assert_eq!(
            ops,
            [("big".to_owned(), ChangeOp::Modify), ("sparse".to_owned(), ChangeOp::Mode)],
            "{rung}"
        );
    }
}

/// Hands each content on in pieces, and notes the longest that it was asked for at once.
struct CountingSink {
    refuse_after: u64,
    kept: AtomicU64,
}

impl ContentSink for CountingSink {
    fn store(&self, bytes: &mut dyn Read) -> io::Result<StoredContent> {
        if self.kept.fetch_add(1, Ordering::Relaxed) >= self.refuse_after {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let mut hasher = blake3::Hasher::new();
        let size = io::copy(bytes, &mut hasher)?;
        Ok(StoredContent { hash: Hash::from_bytes(*hasher.finalize().as_bytes()), size, text: false })
    }
}

#[test]
fn a_scan_that_fails_loses_nothing() {
    for rung in [SandboxStrategy::Overlay, SandboxStrategy::Copy] {
        for refuse_after in 0..6 {
            let stage = project();
            let mut sandbox = stage.open(rung);
            run(&sandbox, "echo two >> a; rm d/x; echo new > n; mv d/y z");
            let full = CountingSink { refuse_after, kept: AtomicU64::new(0) };
            let failed = sandbox.scan(&full, &CaptureRules::default());
            assert!(matches!(failed, Err(CaptureError::Content { .. })), "{rung} {refuse_after}: {failed:?}");
            let expected = domain::pair_renames(vec![
                between("a", file("one\n"), file("one\ntwo\n")),
                between("d/x", file("x\n"), None),
                between("n", None, file("new\n")),
                between("d/y", file("y\n"), None),
                between("z", None, file("y\n")),
            ]);
            let drafts = stage.drafts(&mut sandbox);
            let without_text = |draft: &ChangeDraft| {
                (draft.path().clone(), draft.op().clone(), draft.after().map(|s| s.hash))
            };
            assert_eq!(
                drafts.iter().map(without_text).collect::<Vec<_>>(),
                expected.iter().map(without_text).collect::<Vec<_>>(),
                "{rung} {refuse_after}"
            );
        }
    }
}

#[test]
fn only_what_was_written_since_is_read_again() {
    let stage = project();
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    run(&sandbox, "echo two >> a; echo new > n");
    let counting = CountingSink { refuse_after: u64::MAX, kept: AtomicU64::new(0) };
    let rules = CaptureRules::default();
    // The second scan may read again what was as young as the clock in the first; the third does not.
    for _ in 0..2 {
        sandbox.scan(&counting, &rules).unwrap();
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        while rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse) <= now {
            std::thread::yield_now();
        }
    }
    let before = counting.kept.load(Ordering::Relaxed);
    sandbox.scan(&counting, &rules).unwrap();
    assert_eq!(counting.kept.load(Ordering::Relaxed), before);
    run(&sandbox, "echo three >> a");
    sandbox.scan(&counting, &rules).unwrap();
    assert_eq!(counting.kept.load(Ordering::Relaxed), before + 1);
}

#[test]
fn recorded_changes_come_back_and_are_not_reported_again() {
    as_root_and_as_user("cases::ladder_scans::recorded_changes_come_back_and_are_not_reported_again", || {
        const SCRIPT: &str = "umask 022; echo two >> a; chmod 711 a; rm d/x; mv d/y moved; ln -s nowhere link
            mkdir -p new/deep empty; echo n > new/deep/n; printf 'a\\000b' > bin; rm -r gone; echo file > gone
            rm was; mkdir was; echo in > was/in";
        for rung in RUNGS {
            let stage = project();
            stage.write("gone/in/deep", "deep\n");
            stage.write("was", "file\n");
            stage.commit_all();
            let mut sandbox = stage.open(rung);
            run(&sandbox, SCRIPT);
            let recorded = stage.drafts(&mut sandbox);
            let mut first: Vec<String> = listing(&stage, &sandbox);
            sandbox.close().unwrap();
            let mut changes: Vec<NetChange> = fold(&recorded);
            changes[0].base = Base::Moved;
            let mut sandbox = stage.open(rung);
            sandbox.restore(&changes, &stage.contents).unwrap();
            assert_eq!(listing(&stage, &sandbox), first, "{rung}");
            assert_eq!(stage.drafts(&mut sandbox), [], "{rung}");
            // The recorded base stays, and the next entry goes on from what was restored.
            run(&sandbox, "echo three >> a");
            let captured = stage.scan(&mut sandbox);
            assert_eq!(captured.drafts.len(), 1, "{rung}");
            assert_eq!(captured.drafts[0].base, Base::Moved, "{rung}");
            assert_eq!(captured.drafts[0].draft.before(), changes[0].after.as_ref(), "{rung}");
            // The inverse of that one goes in the same way.
            let undone = NetChange {
                before: captured.drafts[0].draft.after().copied(),
                after: changes[0].after,
                ..changes[0].clone()
            };
            sandbox.restore(&[undone], &stage.contents).unwrap();
            assert_eq!(listing(&stage, &sandbox), first, "{rung}");
            assert_eq!(stage.drafts(&mut sandbox), [], "{rung}");
            first.clear();
        }
    });
}

/// Each path once, first before and last after.
fn fold(drafts: &[ChangeDraft]) -> Vec<NetChange> {
    let mut folded: Vec<NetChange> = Vec::new();
    for draft in drafts {
        let change = net(draft);
        match folded.iter_mut().find(|earlier| earlier.path == change.path) {
            Some(earlier) => earlier.after = change.after,
            None => folded.push(change),
        }
    }
    folded
}

/// What a command sees.
fn listing(_stage: &SandboxFixture, sandbox: &sandbox::Sandbox) -> Vec<String> {
    let script = "find . -name .git -prune -o -printf '%p %y %m %l\\n' -type f -exec md5sum {} \\; | sort";
    let output = super::ladder_stage::command_in(sandbox.view().unwrap(), script).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

#[test]
fn a_sandbox_can_be_handed_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<sandbox::Sandbox>();
    is_send::<sandbox::Layer>();
}

#[test]
fn what_cannot_be_restored_is_refused_and_nothing_wrong_is_left() {
    let stage = project();
    let mut sandbox = stage.open(SandboxStrategy::Overlay);
    let change = |at: &str, after| net(&between(at, None, after));
    let missing = sandbox.restore(&[change("n", file("never kept"))], &stage.contents);
    assert!(matches!(missing, Err(RestoreError::Content { .. })), "{missing:?}");
    let protected = sandbox.restore(&[change("d/.git/config", file("x"))], &stage.contents);
    assert!(matches!(protected, Err(RestoreError::Protected { .. })), "{protected:?}");
    let mut elsewhere = change("n", file("x"));
    elsewhere.root = domain::RootIndex(9);
    let elsewhere = sandbox.restore(&[elsewhere], &stage.contents);
    assert!(matches!(elsewhere, Err(RestoreError::NoSuchRoot { .. })), "{elsewhere:?}");
    struct WrongContentSource;
    impl sandbox::content::ContentSource for WrongContentSource {
        fn open(&self, _hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
            Ok(Box::new(&b"something else"[..]))
        }
    }
    let wrong = sandbox.restore(&[change("n", file("right"))], &WrongContentSource);
    assert!(matches!(wrong, Err(RestoreError::WrongContent { .. })), "{wrong:?}");
    assert_eq!(stage.drafts(&mut sandbox), []);
    // A link on the way is not followed.
    let outside = stage.project.with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    run(&sandbox, format!("ln -s {} out", outside.display()));
    stage.contents.put(b"x");
    let escaped = sandbox.restore(&[change("out/n", file("x"))], &stage.contents);
    assert!(matches!(escaped, Err(RestoreError::Sandbox { .. })), "{escaped:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
