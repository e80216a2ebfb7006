//! An applied journal is taken out again by the same machinery.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sandbox::journal::{
    HookPoint, JournalChange, JournalEnding, JournalId, JournalKind, JournalStep, Journals, Request,
    UndoError, UndoJournal,
};

use super::journal_stage::*;

const CHILD: &str = "cases::undo::killed_process";
const UNDO: JournalId = JournalId::from_u128(ID.as_u128() + 1);

/// The changes of an apply with their ends exchanged, as long as nobody edited anything.
fn exchanged(undo: &UndoJournal) -> Vec<JournalChange> {
    let exchange = |change: &JournalChange| JournalChange {
        pre: change.post.clone(),
        post: change.pre.clone(),
        ..change.clone()
    };
    undo.changes().iter().map(exchange).collect()
}

fn undo(journals: &Journals, root: &Path) -> JournalEnding {
    let undo = journals.read_undo(ID).unwrap();
    let request = Request { id: UNDO, kind: JournalKind::Undo, ..request(root, exchanged(&undo)) };
    let prepared = journals.prepare(request, &undo).unwrap();
    prepared.commit().unwrap().carry_out().unwrap().retire().unwrap()
}

#[test]
fn killed_process() {
    let Ok(dir) = std::env::var("UNDO_DIR") else { return };
    let kill_at = std::env::var("KILL_AT").unwrap().parse().unwrap();
    let journals = journals(&Path::new(&dir).join("data")).with_hooks(nth(kill_at, die));
    undo(&journals, &Path::new(&dir).join("project"));
}

#[test]
fn an_undo_brings_everything_back() {
    let (before, after) = every_kind();
    let stage = JournalFixture::new(&before);
    let inode = |name: &str| fs::metadata(stage.root.join(name)).unwrap().ino();
    let kept = inode("grows");
    stage.apply(&before, &after);
    assert_eq!(stage.survey(), shown(&after));
    let journal = stage.journals().read_undo(ID).unwrap();
    assert_eq!((journal.header().kind, journal.header().plan), (JournalKind::Apply, PLAN));
    assert_eq!(journal.refs(), []);
    assert!(matches!(undo(&stage.journals(), &stage.root), JournalEnding::Applied { .. }));
    assert_eq!(stage.survey(), shown(&before));
    assert_eq!(inode("grows"), kept);
}

#[test]
fn a_removed_file_comes_back_with_its_owner_and_attributes() {
    let before = tree([("f", TestNode::File(b"mine".to_vec(), 0o640))]);
    let stage = JournalFixture::new(&before);
    let path = stage.root.join("f");
    rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(1234), Some(2345)).unwrap();
    }
    stage.apply(&before, &tree([]));
    undo(&stage.journals(), &stage.root);
    assert_eq!(stage.survey(), before);
    let mut value = [0_u8; 16];
    let length = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"kept");
    if root {
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 2345));
    }
}

#[test]
fn a_moved_file_keeps_owner_and_attributes() {
    let before = tree([("a", file("x"))]);
    let stage = JournalFixture::new(&before);
    rustix::fs::setxattr(stage.root.join("a"), "user.note", b"kept", rustix::fs::XattrFlags::empty())
        .unwrap();
    let mut moved = changes(&before, &tree([("b", file("x"))]));
    moved[1].from = Some(moved[0].path.clone());
    carry_out(&stage.journals(), stage.request(moved)).unwrap().retire().unwrap();
    assert_eq!(stage.survey(), tree([("b", file("x"))]));
    assert!(rustix::fs::getxattr(stage.root.join("b"), "user.note", &mut [0_u8; 16][..]).is_ok());
    undo(&stage.journals(), &stage.root);
    assert_eq!(stage.survey(), before);
    assert!(rustix::fs::getxattr(stage.root.join("a"), "user.note", &mut [0_u8; 16][..]).is_ok());
}

#[test]
fn an_undo_that_is_killed_is_whole_too() {
    let (before, after) = every_kind();
    for kill_at in (1..).step_by(3) {
        let stage = JournalFixture::new(&before);
        stage.apply(&before, &after);
        let variables = [("UNDO_DIR", stage.dir.path().to_str().unwrap()), ("KILL_AT", &kill_at.to_string())];
        let killed = was_killed(&child(CHILD, &variables).output().unwrap());
        let mut expected = if killed { None } else { Some(&before) };
        for settled in stage.journals().recover().unwrap().settled {
            expected = match settled.retire().unwrap() {
                JournalEnding::Applied { .. } => Some(&before),
                JournalEnding::NeverBegan => Some(&after),
                JournalEnding::RolledBack { why, .. } => panic!("{why:?}"),
            };
        }
        // Killed after it was retired, or before its file was made: the kept journals tell which.
        let undone = stage.journals().undo_ids().unwrap().len() == 2;
        let expected = expected.unwrap_or(if undone { &before } else { &after });
        assert_eq!(stage.survey(), shown(expected), "step {kill_at}");
        if !killed {
            break;
        }
    }
}

#[test]
fn what_is_not_kept_or_was_rolled_back_cannot_be_undone() {
    let before = tree([("a", file("x")), ("b", file("y"))]);
    let stage = JournalFixture::new(&before);
    assert!(matches!(stage.journals().read_undo(ID), Err(UndoError::Expired { .. })));
    let after = tree([("a", file("x2")), ("b", file("y2"))]);
    stage.apply(&before, &after);
    stage.journals().forget_undo(ID).unwrap();
    assert!(matches!(stage.journals().read_undo(ID), Err(UndoError::Expired { .. })));
    // Rolled back with something left: the journal is kept for its bytes, not to be undone.
    let root = stage.root.clone();
    let edit = at(JournalStep::Op { n: 1, at: HookPoint::Begin }, move || {
        fs::write(root.join("a"), "edited")?;
        fs::write(root.join("b"), "edited")
    });
    let request = stage.request(changes(&after, &before));
    let ending = carry_out(&stage.journals().with_hooks(edit), request).unwrap().retire().unwrap();
    assert!(matches!(ending, JournalEnding::RolledBack { .. }));
    assert!(matches!(stage.journals().read_undo(ID), Err(UndoError::RolledBack { .. })));
}
