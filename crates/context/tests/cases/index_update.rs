//! Updates of the index: what is noticed, what is not read, what is left when time runs out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use context::index::{IndexConfig, PathOnly, Snapshot};
use context::ports::{FileStat, FileTree, PortError, StopPoll, WalkSummary};
use context::{StopCause, StopCheck};
use domain::RelPath;
use proptest::prelude::*;
use sync::CancelReason;

use crate::index_support::{MemTree, Rig, path, paths};

#[test]
fn a_file_that_stands_is_not_read_again() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
    let index = rig.in_memory();
    rig.wall.pass(10);
    let first = rig.update(&index, &tree);
    assert_eq!((first.changed, tree.reads()), (2, vec!["a.rs".to_owned(), "b.rs".to_owned()]));
    assert_eq!(*first.snapshot, tree.rebuilt());

    rig.wall.pass(10);
    let second = rig.update(&index, &tree);
    assert_eq!((second.changed, tree.reads().len()), (0, 0));
    assert!(Arc::ptr_eq(&first.snapshot, &second.snapshot));

    tree.write("b.rs", b"fn changed() {}\n");
    let third = rig.update(&index, &tree);
    assert_eq!((third.changed, tree.reads()), (1, vec!["b.rs".to_owned()]));
    assert_eq!(*third.snapshot, tree.rebuilt());
    assert!(Arc::ptr_eq(&first.snapshot.files()[0].facts, &third.snapshot.files()[0].facts));
}

#[test]
fn a_rewrite_in_the_second_and_size_of_the_look_is_noticed() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn one() {}\n")]);
    let index = rig.in_memory();
    rig.update(&index, &tree);
    // Nothing in the record of the file tells the two apart.
    tree.write("a.rs", b"fn two() {}\n");
    let noticed = rig.update(&index, &tree);
    assert_eq!(noticed.changed, 1);
    assert_eq!(*noticed.snapshot, tree.rebuilt());
    // Old enough to be believed, it is looked at once more and then stands.
    rig.wall.pass(3);
    tree.reads();
    assert_eq!((rig.update(&index, &tree).changed, tree.reads().len()), (0, 1));
    assert_eq!((rig.update(&index, &tree).changed, tree.reads().len()), (0, 0));
}

#[test]
fn a_moved_file_keeps_its_facts_and_is_found_under_its_new_name_only() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("old.rs", "fn same() {}\n")]);
    let index = rig.in_memory();
    let before = rig.update(&index, &tree).snapshot;
    tree.remove(&path("old.rs"));
    tree.write("new.rs", b"fn same() {}\n");
    let after = rig.update(&index, &tree).snapshot;
    assert_eq!(paths(&after), ["new.rs"]);
    assert!(Arc::ptr_eq(&before.files()[0].facts, &after.files()[0].facts));
}

#[test]
fn a_file_gone_before_it_is_read_is_not_listed() {
    let rig = Rig::new();
    let mut tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
    tree.on_read =
        Box::new(
            |path| {
                if path.as_bytes() == b"a.rs" { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
            },
        );
    assert_eq!(paths(&rig.update(&rig.in_memory(), &tree).snapshot), ["b.rs"]);
}

#[test]
fn a_file_that_cannot_be_read_is_listed_and_tried_again() {
    let rig = Rig::new();
    let mut tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    tree.on_read = Box::new(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Err(io::ErrorKind::PermissionDenied.into()),
        1 => panic!("a tree that breaks"),
        _ => Ok(()),
    });
    let index = rig.in_memory();
    for _ in 0..2 {
        let snapshot = rig.update(&index, &tree).snapshot;
        assert_eq!(snapshot.files()[0].path_only, Some(PathOnly::Unreadable));
        assert_eq!(snapshot.files()[0].hash, None);
    }
    assert_eq!(*rig.update(&index, &tree).snapshot, tree.rebuilt());
}

#[test]
fn secret_lock_and_large_files_are_listed_and_never_read() {
    let rig = Rig::new();
    let large = "x".repeat(512 * 1024 + 1);
    let tree = MemTree::of(
        &rig.wall,
        &[(".env", "KEY=1"), ("Cargo.lock", "x"), ("big.txt", &large), ("id_rsa", "x"), ("z.txt", "word")],
    );
    let snapshot = rig.update(&rig.in_memory(), &tree).snapshot;
    let reasons: Vec<_> = snapshot.files().iter().map(|file| file.path_only).collect();
    let expected = [PathOnly::Secret, PathOnly::LockFile, PathOnly::TooLarge, PathOnly::Secret];
    assert_eq!(reasons[..4], expected.map(Some));
    assert_eq!((reasons[4], tree.reads()), (None, vec!["z.txt".to_owned()]));
}

#[test]
fn another_bound_of_size_is_obeyed_at_once() {
    let mut rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.txt", "some words here")]);
    rig.wall.pass(10);
    rig.update(&rig.in_file(&file), &tree);
    rig.config.file_bytes_max = 4;
    let smaller = rig.update(&rig.in_file(&file), &tree).snapshot;
    assert_eq!(smaller.files()[0].path_only, Some(PathOnly::TooLarge));
    rig.config = IndexConfig { threads: 2, ..IndexConfig::default() };
    assert_eq!(*rig.update(&rig.in_file(&file), &tree).snapshot, tree.rebuilt());
}

#[test]
fn at_the_deadline_what_is_there_is_published_and_the_next_update_goes_on() {
    let mut rig = Rig::new();
    rig.config.threads = 1;
    let names: Vec<String> = (0..40).map(|number| format!("f{number:02}.rs")).collect();
    let mut tree = MemTree::new(&rig.wall);
    for name in &names {
        tree.write(name, format!("fn f_{name}() {{}}\n").as_bytes());
    }
    let clock = rig.clock.clone();
    let reads = AtomicUsize::new(0);
    tree.on_read = Box::new(move |_| {
        if reads.fetch_add(1, Ordering::SeqCst) == 10 {
            clock.advance(Duration::from_secs(11));
        }
        Ok(())
    });
    let index = rig.in_memory();
    let partial = rig.update(&index, &tree);
    assert!(partial.snapshot.partial() && partial.is_unfinished);
    assert_eq!(partial.snapshot.files().len(), 11);
    let whole = rig.update(&index, &tree);
    assert_eq!((whole.changed, *whole.snapshot == tree.rebuilt()), (29, true));
}

#[test]
fn a_cancelled_update_publishes_nothing_and_loses_nothing() {
    let rig = Rig::new();
    let mut tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let token = rig.token.clone();
    tree.on_read = Box::new(move |_| {
        token.cancel(CancelReason::User);
        Ok(())
    });
    let index = rig.in_memory();
    let cancelled = index.update(&tree, None, &rig.stop());
    assert_eq!(cancelled.map(drop), Err(StopCause::Cancelled(CancelReason::User)));
    assert_eq!(index.snapshot().files().len(), 0);
    let again = Rig { token: sync::CancellationToken::new(), ..rig };
    assert_eq!(*again.update(&index, &tree).snapshot, tree.rebuilt());
}

#[test]
fn an_incomplete_walk_forgets_no_file() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
    let index = rig.in_memory();
    rig.update(&index, &tree);
    tree.remove(&path("a.rs"));
    *tree.end.lock().expect("not poisoned") = WalkSummary::stopped();
    let partial = rig.update(&index, &tree);
    assert_eq!(
        (paths(&partial.snapshot), partial.snapshot.partial()),
        (vec!["a.rs".into(), "b.rs".into()], true)
    );
    assert_eq!(partial.notes, ["there was no time to list all files: only those found so far are known"]);
    *tree.end.lock().expect("not poisoned") = WalkSummary::all();
    assert_eq!(*rig.update(&index, &tree).snapshot, tree.rebuilt());
}

#[test]
fn what_is_gone_is_forgotten_though_a_folder_cannot_be_read_or_there_are_too_many_files() {
    let mut rig = Rig::new();
    let names = ["a.rs", "b.rs", "locked/x.rs", "locked.rs", "z.rs"];
    let tree = MemTree::of(&rig.wall, &names.map(|name| (name, "fn f() {}\n")));
    let index = rig.in_memory();
    rig.update(&index, &tree);
    for name in ["a.rs", "locked/x.rs", "locked.rs"] {
        tree.remove(&path(name));
    }
    *tree.end.lock().expect("not poisoned") =
        WalkSummary { unread: vec![path("locked")], ..WalkSummary::all() };
    let seen = rig.update(&index, &tree);
    assert_eq!(
        (paths(&seen.snapshot), seen.snapshot.partial()),
        (vec!["b.rs".into(), "locked/x.rs".into(), "z.rs".into()], true)
    );
    assert_eq!(seen.notes, ["the folder `locked` cannot be read: its files are not known"]);
    // A file that cannot be read is not looked at again at once.
    tree.write("c.rs", b"fn c() {}\n");
    assert_eq!(index.update(&tree, None, &rig.stop()).expect("nobody cancels").changed, 0);

    rig.config.files_max = 2;
    let tree = MemTree::of(&rig.wall, &[("b", "b"), ("c", "c"), ("d", "d")]);
    let index = rig.in_memory();
    rig.update(&index, &tree);
    tree.remove(&path("b"));
    tree.write("a", b"a");
    assert_eq!(paths(&rig.update(&index, &tree).snapshot), ["a", "c"]);
}

/// A project whose listing takes time.
struct Slow {
    files: MemTree,
    clock: sync::ManualClock,
    told_in: Duration,
}

impl FileTree for Slow {
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError> {
        self.files.walk(is_over, &|stat| {
            self.clock.advance(self.told_in);
            sink(stat);
        })
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        self.files.size(path)
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        self.files.read(path, max)
    }
}

fn slow(rig: &Rig, told_in: Duration) -> Slow {
    let files = MemTree::new(&rig.wall);
    for number in 0..600 {
        files.write(&format!("f{number:03}.rs"), b"fn f() {}\n");
    }
    Slow { files, clock: rig.clock.clone(), told_in }
}

#[test]
fn a_listing_that_takes_longer_than_there_is_time_leaves_time_to_read_some() {
    let rig = Rig::new();
    let (index, tree) = (rig.in_memory(), slow(&rig, Duration::from_millis(16)));
    rig.wall.pass(10);
    // Half of ten seconds; then what was read is passed by, and the new has half of the rest, until all is known.
    for known in [313, 469, 547, 586, 600] {
        let updated = rig.update(&index, &tree);
        assert_eq!((updated.snapshot.files().len(), updated.snapshot.partial()), (known, known < 600));
        let note = "there was no time to list all files: only those found so far are known";
        assert_eq!(updated.notes, [note][..usize::from(known < 600)]);
    }
}

/// A project in which there is much to look at and nothing to tell.
struct Empty(sync::ManualClock, AtomicUsize);

impl FileTree for Empty {
    fn walk(&self, is_over: &StopPoll<'_>, _: &(dyn Fn(FileStat) + Sync)) -> Result<WalkSummary, PortError> {
        for _ in 0..1000 {
            if is_over() {
                return Ok(WalkSummary::stopped());
            }
            self.0.advance(Duration::from_secs(1));
            self.1.fetch_add(1, Ordering::SeqCst);
        }
        Ok(WalkSummary::all())
    }

    fn size(&self, _: &RelPath) -> io::Result<u64> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read(&self, _: &RelPath, _: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

#[test]
fn a_listing_that_tells_nothing_ends_at_the_deadline() {
    let rig = Rig::new();
    let tree = Empty(rig.clock.clone(), AtomicUsize::new(0));
    let updated = rig.update(&rig.in_memory(), &tree);
    assert_eq!((tree.1.into_inner(), updated.snapshot.partial()), (10, true));
    assert_eq!(updated.notes, ["there was no time to list all files: only those found so far are known"]);
}

#[test]
fn an_index_is_verified_however_long_it_takes() {
    let rig = Rig::new();
    let verified = rig.in_memory().verify(&slow(&rig, Duration::from_millis(200)), None, &rig.stop());
    let verified = verified.expect("nobody cancels");
    assert_eq!((verified.is_same(), verified.updated.snapshot.files().len()), (true, 600));
}

#[test]
fn within_a_second_an_update_is_not_repeated_unless_changes_are_expected() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let index = rig.in_memory();
    rig.update(&index, &tree);
    tree.write("a.rs", b"fn b() {}\n");
    let stop = rig.stop();
    assert_eq!(index.update(&tree, None, &stop).expect("nobody cancels").changed, 0);
    index.expect_changes(&stop);
    assert_eq!(index.update(&tree, None, &stop).expect("nobody cancels").changed, 1);
}

#[test]
fn of_too_many_files_the_first_by_path_are_indexed() {
    let mut rig = Rig::new();
    rig.config.files_max = 2;
    let tree = MemTree::of(&rig.wall, &[("c", "c"), ("a", "a"), ("d", "d"), ("b", "b")]);
    let updated = rig.update(&rig.in_memory(), &tree);
    assert_eq!((paths(&updated.snapshot), updated.snapshot.partial()), (vec!["a".into(), "b".into()], true));
    assert_eq!(updated.notes, ["there are more than 2 files: only the first by path are indexed"]);
    assert!(!updated.is_unfinished, "another time finds no more");
}

/// A hundred thousand files that are told backwards.
struct Many;

impl FileTree for Many {
    fn walk(&self, _: &StopPoll<'_>, sink: &(dyn Fn(FileStat) + Sync)) -> Result<WalkSummary, PortError> {
        for number in (0..100_000_u64).rev() {
            let stat = FileStat {
                path: path(format!("d{:03}/f{number:06}.rs", number / 500)),
                size: 20,
                mtime_ns: 0,
                ctime_ns: 0,
                inode: number,
            };
            sink(stat);
        }
        Ok(WalkSummary::all())
    }

    fn size(&self, _: &RelPath) -> io::Result<u64> {
        Ok(20)
    }

    fn read(&self, path: &RelPath, _: usize) -> io::Result<Vec<u8>> {
        Ok(format!("fn in_{}() {{}}\n", String::from_utf8_lossy(path.file_name()).replace('.', "_"))
            .into_bytes())
    }
}

#[test]
fn a_hundred_thousand_files_are_indexed_or_the_first_of_them() {
    let mut rig = Rig::new();
    rig.config.update_deadline = Duration::from_secs(3600);
    let all = rig.update(&rig.in_memory(), &Many).snapshot;
    assert_eq!((all.files().len(), all.partial()), (100_000, false));
    assert!(all.files().is_sorted_by(|a, b| a.path < b.path));
    rig.config.files_max = 1000;
    let some = rig.update(&rig.in_memory(), &Many).snapshot;
    assert_eq!((some.files(), some.partial()), (&all.files()[..1000], true));
}

#[test]
fn a_line_of_a_hundred_megabytes_is_known_by_its_path_only() {
    let mut rig = Rig::new();
    rig.config.file_bytes_max = 8 * 1024 * 1024;
    let tree = MemTree::new(&rig.wall);
    tree.write("huge.js", &vec![b'a'; 100 * 1024 * 1024]);
    tree.write("long.js", &vec![b'a'; 4 * 1024 * 1024]);
    let snapshot = rig.update(&rig.in_memory(), &tree).snapshot;
    let reasons: Vec<_> = snapshot.files().iter().map(|file| file.path_only).collect();
    assert_eq!(reasons, [Some(PathOnly::TooLarge), Some(PathOnly::LongLines)]);
    assert_eq!(tree.reads(), ["long.js"]);
}

#[test]
fn a_reader_keeps_its_snapshot_while_updates_go_on() {
    let rig = Rig::new();
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn v0() {}\n"), ("b.rs", "fn v0() {}\n")]);
    let index = rig.in_memory();
    rig.update(&index, &tree);
    let rounds = 50;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let last = format!("v{rounds}");
                loop {
                    let snapshot = index.snapshot();
                    let names: Vec<&str> =
                        snapshot.files().iter().map(|file| &*file.facts.defs()[0].name).collect();
                    assert_eq!(names[0], names[1], "one snapshot is one moment");
                    if names[0] == last {
                        return;
                    }
                    std::thread::yield_now();
                }
            });
        }
        for round in 1..=rounds {
            let text = format!("fn v{round}() {{}}\n");
            tree.write("a.rs", text.as_bytes());
            tree.write("b.rs", text.as_bytes());
            rig.update(&index, &tree);
        }
    });
}

#[test]
fn a_sandbox_is_the_base_with_its_changes() {
    let rig = Rig::new();
    let tree =
        MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n"), ("c.rs", "fn c() {}\n")]);
    let index = rig.in_memory();
    let base = rig.update(&index, &tree).snapshot;
    tree.reads();
    tree.write("a.rs", b"fn changed() {}\n");
    tree.write(".env", b"KEY=1");
    tree.remove(&path("b.rs"));
    let changed = [path("a.rs"), path("b.rs"), path("d.rs"), path(".env")];
    let view = index.with_changes(&base, &tree, &changed);
    assert_eq!(tree.reads(), ["a.rs"]);
    assert_eq!(paths(&view), [".env", "a.rs", "c.rs"]);
    assert_eq!(view.files()[1..], tree.rebuilt().files()[1..]);
    assert_eq!(paths(&index.snapshot()), ["a.rs", "b.rs", "c.rs"]);
}

#[test]
fn what_a_plan_deleted_is_gone_also_if_it_is_never_opened() {
    let rig = Rig::new();
    let names = [".env", "Cargo.lock", "gone.rs", "kept.pem", "large.txt", "tls.key"];
    let tree = MemTree::of(&rig.wall, &names.map(|name| (name, "text\n")));
    let index = rig.in_memory();
    let base = rig.update(&index, &tree).snapshot;
    for name in [".env", "Cargo.lock", "gone.rs", "tls.key"] {
        tree.remove(&path(name));
    }
    tree.write("kept.pem", b"another key\n");
    tree.write("large.txt", &vec![b'x'; 600 * 1024]);
    tree.reads();
    let view = index.with_changes(&base, &tree, &names.map(path));
    assert_eq!(paths(&view), ["kept.pem", "large.txt"]);
    let known: Vec<_> = view.files().iter().map(|file| (file.path_only, file.facts.bytes)).collect();
    assert_eq!(known, [(Some(PathOnly::Secret), 12), (Some(PathOnly::TooLarge), 600 * 1024)]);
    assert_eq!(tree.reads(), [""; 0], "neither a secret nor what is too long is opened");
}

#[test]
fn what_a_plan_changed_is_scanned_once_and_is_one_snapshot_as_long_as_it_is_the_same() {
    let rig = Rig::new();
    let base_tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
    let index = rig.in_memory();
    let base = rig.update(&index, &base_tree).snapshot;
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn other() {}\n"), ("b.rs", "fn b() {}\n")]);
    let changed = [path("a.rs"), path("b.rs")];
    let view = index.with_changes(&base, &tree, &changed);
    assert!(Arc::ptr_eq(&view, &index.with_changes(&base, &tree, &changed)));
    let facts =
        |snapshot: &Snapshot, name: &str| Arc::clone(&snapshot.file(&path(name)).expect("it is there").facts);
    assert!(Arc::ptr_eq(&facts(&view, "b.rs"), &facts(&base, "b.rs")), "as it was in the base");
    tree.write("b.rs", b"fn new() {}\n");
    let next = index.with_changes(&base, &tree, &changed);
    assert!(Arc::ptr_eq(&facts(&next, "a.rs"), &facts(&view, "a.rs")), "as it was in the last view");
    assert_eq!(next.files(), tree.rebuilt().files());
    // Another base is another snapshot; so many views are kept and no more.
    base_tree.write("c.rs", b"fn c() {}\n");
    let moved = rig.update(&index, &base_tree).snapshot;
    assert_eq!(paths(&index.with_changes(&moved, &tree, &changed)), ["a.rs", "b.rs", "c.rs"]);
    let held = index.memory_bytes();
    for round in 0..20 {
        tree.write("a.rs", format!("fn round_{round:02}() {{}}\n").as_bytes());
        index.with_changes(&moved, &tree, &changed);
    }
    assert!(index.memory_bytes() < held * 3, "{} after {held}", index.memory_bytes());
}

#[test]
fn who_waits_for_another_update_goes_on_at_their_own_deadline() {
    let rig = Rig::new();
    let mut tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let (entered, is_in) = std::sync::mpsc::channel();
    let (let_go, go) = std::sync::mpsc::channel::<()>();
    let go = std::sync::Mutex::new(go);
    tree.on_read = Box::new(move |_| {
        entered.send(()).expect("somebody waits");
        go.lock().expect("not poisoned").recv().expect("somebody lets go");
        Ok(())
    });
    let index = rig.in_memory();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| index.update(&tree, None, &rig.stop()).expect("nobody cancels"));
        is_in.recv().expect("the first reads");
        let now = sync::Clock::now(&rig.clock);
        let hurried = StopCheck::new(rig.token.observe(), Some(now), Arc::new(rig.clock.clone()));
        let second = index.update(&tree, None, &hurried).expect("a deadline is no error");
        assert_eq!(second.notes, ["another update is still running: the index may be older than the files"]);
        assert_eq!(second.snapshot.files().len(), 0);
        let_go.send(()).expect("the first waits");
        assert_eq!(first.join().expect("no panic").snapshot.files().len(), 1);
    });
}

/// A change of a project between two updates.
#[derive(Clone, Debug)]
enum Edit {
    Write(u8, u8),
    Remove(u8),
    Move(u8, u8),
    Pass,
    Update,
    Reopen,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        4 => (0..12_u8, 0..6_u8).prop_map(|(name, text)| Edit::Write(name, text)),
        2 => (0..12_u8).prop_map(Edit::Remove),
        2 => (0..12_u8, 0..12_u8).prop_map(|(from, to)| Edit::Move(from, to)),
        1 => Just(Edit::Pass),
        3 => Just(Edit::Update),
        1 => Just(Edit::Reopen),
    ];
    proptest::collection::vec(edit, 1..40)
}

fn name(number: u8) -> String {
    let names = [
        "a.rs",
        "b.py",
        "c/d.ts",
        "c/e.md",
        "f",
        ".env",
        "g.rs",
        "h.toml",
        "i.go",
        "j.c",
        "yarn.lock",
        "k.java",
    ];
    names[usize::from(number) % names.len()].to_owned()
}

fn text(number: u8) -> &'static [u8] {
    let texts: [&[u8]; 6] =
        [b"fn one() {}\n", b"fn two() {}\n", b"# Title\n\nwords\n", b"\0binary", b"", b"caf\xe9 = [table]\n"];
    texts[usize::from(number) % texts.len()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_edits_the_index_equals_one_built_from_nothing(edits in edits()) {
        let rig = Rig::new();
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("i.sqlite");
        let tree = MemTree::new(&rig.wall);
        let mut index = rig.in_file(&file);
        for edit in edits {
            match edit {
                Edit::Write(at, what) => tree.write(&name(at), text(what)),
                Edit::Remove(at) => tree.remove(&path(name(at))),
                Edit::Move(from, to) => {
                    let mut files = tree.files.lock().expect("not poisoned");
                    if let Some(moved) = files.remove(&path(name(from))) {
                        files.insert(path(name(to)), moved);
                    }
                }
                Edit::Pass => rig.wall.pass(3),
                Edit::Update => prop_assert_eq!(&*rig.update(&index, &tree).snapshot, &tree.rebuilt()),
                Edit::Reopen => {
                    drop(index);
                    index = rig.in_file(&file);
                }
            }
        }
        let last: Arc<Snapshot> = rig.update(&index, &tree).snapshot;
        prop_assert_eq!(&*last, &tree.rebuilt());
    }
}
