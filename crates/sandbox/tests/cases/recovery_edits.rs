//! What a recovery does when somebody edited files between the crash and the next command, and when power was
//! lost.

use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::{BootId, RelPath, RootIndex};
use sandbox::journal::{Boot, HookPoint, JournalEnding, JournalPath, JournalStep, Journals, UndoError};

use super::journal_stage::*;

const CHILD: &str = "cases::recovery_edits::killed_process";

fn before() -> TestTree {
    tree([("a", file("a old\n")), ("b", file("b old\n")), ("c", file("c old\n")), ("z", file("z old\n"))])
}

// Ops: 0, 1 and 2 write a, b and c; 3 creates n; 4 removes z.
fn after() -> TestTree {
    tree([("a", file("a new\n")), ("b", file("b new\n")), ("c", file("c new\n")), ("n", file("n new\n"))])
}

/// The child applies, and dies at step `KILL_AT`; or recovers, and dies there.
#[test]
fn killed_process() {
    let (Ok(act), Ok(dir)) = (std::env::var("EDITS_ACT"), std::env::var("DIR")) else { return };
    let dir = Path::new(&dir);
    let kill_at = std::env::var("KILL_AT").unwrap().parse().unwrap();
    let journals = journals(&dir.join("data")).with_hooks(nth(kill_at, die));
    if act == "apply" {
        let request = request(&dir.join("project"), changes(&before(), &after()));
        carry_out(&journals, request).unwrap().retire().unwrap();
    } else {
        let settled = journals.recover().unwrap().settled;
        settled.into_iter().for_each(|settled| drop(settled.retire().unwrap()));
    }
}

fn let_die(act: &str, dir: &Path, kill_at: u32) -> bool {
    let variables = [("EDITS_ACT", act), ("DIR", dir.to_str().unwrap()), ("KILL_AT", &kill_at.to_string())];
    was_killed(&child(CHILD, &variables).output().unwrap())
}

/// A stage on which the apply died just before op `n` began.
fn died_before(n: u32) -> JournalFixture {
    let all = steps_of(&before(), &after());
    let at = all.iter().position(|step| *step == JournalStep::Op { n, at: HookPoint::Begin }).unwrap();
    let stage = JournalFixture::new(&before());
    assert!(let_die("apply", stage.dir.path(), u32::try_from(at + 1).unwrap()));
    stage
}

fn place(path: &str) -> JournalPath {
    JournalPath { root: RootIndex(0), path: RelPath::new(path).unwrap() }
}

type Edit = fn(&Path);

/// What somebody did, after the apply died before op `n`; what is there then besides the tree before; what is
/// named.
struct EditCase {
    what: &'static str,
    n: u32,
    edit: Edit,
    differs: &'static [(&'static str, Option<&'static str>)],
    left: &'static [&'static str],
}

const CASES: [EditCase; 9] = [
    EditCase {
        what: "a line added to a file that was written",
        n: 3,
        edit: |root| fs::write(root.join("a"), "a new\nmine\n").unwrap(),
        differs: &[("a", Some("a old\nmine\n"))],
        left: &[],
    },
    EditCase {
        what: "another text in a file that was written",
        n: 3,
        edit: |root| fs::write(root.join("b"), "all mine\n").unwrap(),
        differs: &[("b", Some("all mine\n"))],
        left: &["b"],
    },
    EditCase {
        what: "a line added to a file that was not reached",
        n: 1,
        edit: |root| fs::write(root.join("c"), "c old\nmine\n").unwrap(),
        differs: &[("c", Some("c old\nmine\n"))],
        left: &[],
    },
    EditCase {
        what: "another text in a file that was not reached",
        n: 1,
        edit: |root| fs::write(root.join("c"), "all mine\n").unwrap(),
        differs: &[("c", Some("all mine\n"))],
        left: &[],
    },
    EditCase {
        what: "a file that was written is gone",
        n: 3,
        edit: |root| fs::remove_file(root.join("a")).unwrap(),
        differs: &[("a", None)],
        left: &["a"],
    },
    EditCase {
        what: "a file that was created is edited",
        n: 4,
        edit: |root| fs::write(root.join("n"), "n new\nmine\n").unwrap(),
        differs: &[("n", Some("n new\nmine\n"))],
        left: &["n"],
    },
    EditCase {
        what: "a file that is to be created is there",
        n: 1,
        edit: |root| fs::write(root.join("n"), "mine\n").unwrap(),
        differs: &[("n", Some("mine\n"))],
        left: &[],
    },
    EditCase {
        what: "a file that is to be removed is edited",
        n: 4,
        edit: |root| fs::write(root.join("z"), "z old\nmine\n").unwrap(),
        differs: &[("z", Some("z old\nmine\n"))],
        left: &["z"],
    },
    EditCase {
        what: "two files that were written are edited in a row",
        n: 3,
        edit: |root| {
            fs::write(root.join("a"), "a new\nmine\n").unwrap();
            fs::write(root.join("b"), "mine\nb new\n").unwrap();
        },
        differs: &[("a", Some("a old\nmine\n")), ("b", Some("mine\nb old\n"))],
        left: &[],
    },
];

fn check(case: &EditCase, stage: &JournalFixture, left: &[JournalPath]) {
    let mut expected = before();
    for (path, text) in case.differs {
        match text {
            Some(text) => expected.insert((*path).to_owned(), file(text)),
            None => expected.remove(*path),
        };
    }
    assert_eq!(stage.survey(), expected, "{}", case.what);
    let named: Vec<JournalPath> = case.left.iter().map(|path| place(path)).collect();
    assert_eq!(left, named, "{}", case.what);
}

#[test]
fn an_edit_after_a_crash_is_kept_and_the_rest_goes_back() {
    for case in &CASES {
        let stage = died_before(case.n);
        (case.edit)(&stage.root);
        let JournalEnding::RolledBack { left, .. } = stage.recover_one().retire().unwrap() else {
            panic!("{}", case.what);
        };
        check(case, &stage, &left);
        assert_eq!(stage.journals().open_ids().unwrap(), []);
        // What was merged, or left, can be looked up.
        let merged = case.n > 1 && case.left.is_empty();
        assert_eq!(
            stage.journals().undo_ids().unwrap().is_empty(),
            !merged && case.left.is_empty(),
            "{}",
            case.what
        );
    }
}

#[test]
fn a_kill_at_any_step_of_going_back_comes_to_the_same_end() {
    for case in &CASES {
        for kill_at in 1.. {
            let stage = died_before(case.n);
            (case.edit)(&stage.root);
            let killed = let_die("recover", stage.dir.path(), kill_at);
            for settled in stage.journals().recover().unwrap().settled {
                match settled.retire().unwrap() {
                    JournalEnding::RolledBack { left, .. } => check(case, &stage, &left),
                    other => panic!("{} {kill_at}: {other:?}", case.what),
                }
            }
            assert_eq!(stage.journals().open_ids().unwrap(), []);
            if !killed {
                break;
            }
        }
    }
}

#[test]
fn a_merged_or_torn_file_is_saved_as_it_was_found() {
    let stage = died_before(3);
    fs::write(stage.root.join("a"), "a new\nmine\n").unwrap();
    stage.recover_one().retire().unwrap();
    let found = stage.data.join("undo").join(format!("{ID}.found-0-edited"));
    assert_eq!(fs::read(&found).unwrap(), b"a new\nmine\n");
    assert_eq!(fs::metadata(&found).unwrap().mode() & 0o777, 0o600);
    let listed = stage.journals().undo_ids().unwrap();
    assert!(listed[0].bytes > 12, "{listed:?}");
    stage.journals().forget_undo(ID).unwrap();
    assert!(!found.exists());
    assert_eq!(stage.journals().undo_ids().unwrap(), []);
}

fn at_another_boot(stage: &JournalFixture) -> Journals {
    let boot = Boot { id: BootId::from_u128(99), started_s: i64::MAX };
    Journals::open(&stage.data, boot, Arc::new(OneHunk)).unwrap()
}

#[test]
fn pages_that_a_power_loss_took_are_written_again() {
    for torn in [&b""[..], b"\0\0\0\0\0\0", b"a n\0\0\0", b"garbage of any length at all\n"] {
        let stage = died_before(4);
        fs::write(stage.root.join("a"), torn).unwrap();
        fs::write(stage.root.join("n"), torn).unwrap();
        let settled = at_another_boot(&stage).recover().unwrap().settled.pop().unwrap();
        assert!(matches!(settled.retire().unwrap(), JournalEnding::Applied { .. }));
        assert_eq!(stage.survey(), after());
        assert_eq!(fs::read(stage.data.join("undo").join(format!("{ID}.found-3"))).unwrap(), torn);
    }
}

#[test]
fn a_file_written_since_the_machine_started_is_somebodys_edit() {
    let stage = died_before(3);
    fs::write(stage.root.join("b"), "all mine\n").unwrap();
    let boot = Boot { id: BootId::from_u128(99), started_s: 0 };
    let journals = Journals::open(&stage.data, boot, Arc::new(OneHunk)).unwrap();
    let settled = journals.recover().unwrap().settled.pop().unwrap();
    assert!(matches!(settled.ending(), JournalEnding::RolledBack { left, .. } if left == &[place("b")]));
}

#[test]
fn a_recovery_after_a_power_loss_may_be_killed_too() {
    for kill_at in 1..40 {
        let stage = died_before(4);
        fs::write(stage.root.join("a"), "").unwrap();
        fs::write(stage.root.join("n"), "\0\0").unwrap();
        // The machine runs since long after those files were written, but not when its own recovery was killed.
        let old = SystemTime::now() - Duration::from_secs(100);
        for name in ["a", "b", "c", "n"] {
            let file = fs::File::options().write(true).open(stage.root.join(name)).unwrap();
            file.set_modified(old).unwrap();
        }
        let started_s =
            i64::try_from(old.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap() + 50;
        let boot = Boot { id: BootId::from_u128(99), started_s };
        let open = || Journals::open(&stage.data, boot, Arc::new(OneHunk)).unwrap();
        let stop = nth(kill_at, || Err(std::io::ErrorKind::Other.into()));
        let first = open().with_hooks(stop).recover().unwrap();
        drop(first);
        let mut journals = open().recover().unwrap();
        assert!(journals.stuck.is_empty(), "{:?}", journals.stuck);
        if let Some(settled) = journals.settled.pop() {
            let ending = settled.retire().unwrap();
            // A step that failed sends it back; one that was only interrupted, forward.
            let expected = if matches!(ending, JournalEnding::Applied { .. }) { after() } else { before() };
            assert_eq!(stage.survey(), expected, "step {kill_at}: {ending:?}");
        }
    }
}

#[test]
fn a_journal_whose_process_lives_is_left_to_it() {
    let stage = JournalFixture::new(&before());
    let prepared =
        stage.journals().prepare(stage.request(changes(&before(), &after())), &NoContentSource).unwrap();
    assert_eq!(stage.journals().recover().unwrap().busy, [ID]);
    let committed = prepared.commit().unwrap();
    assert_eq!(stage.journals().recover().unwrap().busy, [ID]);
    assert_eq!(stage.survey(), before());
    let settled = committed.carry_out().unwrap();
    assert_eq!(stage.journals().recover().unwrap().busy, [ID]);
    settled.retire().unwrap();
    let recovery = stage.journals().recover().unwrap();
    assert!(recovery.busy.is_empty() && recovery.settled.is_empty());
}

#[test]
fn an_ending_is_told_again_until_the_store_has_it() {
    let stage = JournalFixture::new(&before());
    let request = stage.request(changes(&before(), &after()));
    drop(carry_out(&stage.journals(), request).unwrap());
    for _ in 0..2 {
        let settled = stage.recover_one();
        assert!(matches!(settled.ending(), JournalEnding::Applied { .. }));
        assert_eq!((settled.id(), settled.header().unwrap().plan), (ID, PLAN));
    }
    stage.recover_one().retire().unwrap();
    assert_eq!(stage.survey(), after());
}

#[test]
fn an_apply_that_was_never_committed_is_said_to_have_never_begun() {
    let stage = JournalFixture::new(&before());
    drop(stage.journals().prepare(stage.request(changes(&before(), &after())), &NoContentSource).unwrap());
    drop(stage.recover_one());
    let settled = stage.recover_one();
    assert_eq!(settled.header().unwrap().plan, PLAN);
    assert!(matches!(settled.retire().unwrap(), JournalEnding::NeverBegan));
    assert_eq!(stage.survey(), before());
    // Nothing but its name is left of one whose header was cut off.
    fs::write(stage.data.join("journal").join(format!("{ID}.journal")), "AGEN").unwrap();
    let settled = stage.recover_one();
    assert_eq!((settled.id(), settled.header()), (ID, None));
    settled.retire().unwrap();
    // Abandoned, it is gone at once.
    stage
        .journals()
        .prepare(stage.request(changes(&before(), &after())), &NoContentSource)
        .unwrap()
        .abandon();
    assert_eq!(stage.journals().open_ids().unwrap(), []);
}

#[test]
fn a_rollback_that_fails_is_tried_again_by_the_next_command() {
    let stage = JournalFixture::new(&before());
    let steps = Arc::new(FailFrom(
        JournalStep::Op { n: 3, at: HookPoint::Begin },
        std::sync::atomic::AtomicBool::new(false),
    ));
    let journals = stage.journals().with_hooks(steps);
    let stuck = carry_out(&journals, stage.request(changes(&before(), &after()))).unwrap_err();
    assert_eq!((stuck.id, stuck.plan), (ID, Some(PLAN)));
    assert_ne!(stage.survey(), before());
    // The commit mark is there and nobody edited anything: the next one goes forward.
    let ending = stage.recover_one().retire().unwrap();
    assert!(matches!(ending, JournalEnding::Applied { .. }), "{ending:?}");
    assert_eq!(stage.survey(), after());
}

/// No space from one step on.
struct FailFrom(JournalStep, std::sync::atomic::AtomicBool);

impl sandbox::journal::Hooks for FailFrom {
    fn step(&self, step: JournalStep) -> std::io::Result<()> {
        use std::sync::atomic::Ordering;
        if step == self.0 {
            self.1.store(true, Ordering::SeqCst);
        }
        if self.1.load(Ordering::SeqCst) { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[test]
fn a_journal_of_a_root_that_is_gone_does_not_keep_the_others_waiting() {
    let stage = died_before(2);
    fs::rename(&stage.root, stage.dir.path().join("away")).unwrap();
    let recovery = stage.journals().recover().unwrap();
    assert_eq!(recovery.stuck.len(), 1);
    assert_eq!(recovery.stuck[0].plan, Some(PLAN));
    drop(recovery);
    fs::rename(stage.dir.path().join("away"), &stage.root).unwrap();
    assert!(matches!(stage.recover_one().retire().unwrap(), JournalEnding::Applied { .. }));
    assert_eq!(stage.survey(), after());
}

#[test]
fn a_journal_whose_project_will_not_come_back_is_set_aside() {
    let stage = died_before(2);
    fs::remove_dir_all(&stage.root).unwrap();
    assert_eq!(stage.journals().recover().unwrap().stuck.len(), 1);
    stage.journals().abandon(ID).unwrap();
    assert!(stage.journals().recover().unwrap().stuck.is_empty());
    assert_eq!(stage.journals().undo_ids().unwrap().len(), 1);
    assert!(matches!(stage.journals().read_undo(ID), Err(UndoError::Expired { .. })));
    assert_eq!(stage.journals().abandon(ID).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    // One that is over needs its project no more.
    let stage = JournalFixture::new(&before());
    let settled = carry_out(&stage.journals(), stage.request(changes(&before(), &after()))).unwrap();
    assert_eq!(stage.journals().abandon(ID).unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    drop(settled);
    fs::remove_dir_all(&stage.root).unwrap();
    assert!(matches!(stage.recover_one().retire().unwrap(), JournalEnding::Applied { .. }));
}

#[test]
fn journals_are_readable_by_their_owner_alone() {
    let stage = died_before(2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&stage.data.join("journal")), 0o700);
    assert_eq!(mode(&stage.data.join("undo")), 0o700);
    assert_eq!(mode(&stage.data.join("journal").join(format!("{ID}.journal"))), 0o600);
}

#[test]
fn a_journal_whose_owner_let_go_is_free_though_a_process_that_is_being_started_has_its_file() {
    let stage = JournalFixture::new(&before());
    let prepared =
        stage.journals().prepare(stage.request(changes(&before(), &after())), &NoContentSource).unwrap();
    let journal = stage.data.join("journal").join(format!("{ID}.journal"));
    // What a process has between its fork and its exec: a duplicate of every open file, with its lock.
    let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open =
        fds.map(|fd| fd.path()).find(|fd| fs::read_link(fd).is_ok_and(|file| file == journal)).unwrap();
    let number = open.file_name().unwrap().to_str().unwrap().parse().unwrap();
    // SAFETY: the number is that of a file which `prepared` has open.
    let of_another = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().unwrap();
    drop(prepared);
    assert!(matches!(stage.recover_one().retire().unwrap(), JournalEnding::NeverBegan));
    drop(of_another);
}
