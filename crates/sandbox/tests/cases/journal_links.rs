//! Large contents that a journal links instead of copying: one copy on disk, and a journal that needs nobody
//! else.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::Hash;
use sandbox::content::{ContentFile, ContentSource};
use sandbox::journal::{
    ImageBytes, JournalChange, JournalEnding, JournalId, JournalKind, Journals, PrepareError,
    RecoveredJournal, Request, Seal, UndoError,
};

use super::journal_stage::*;

const CHILD: &str = "cases::journal_links::killed_process";
const UNDO: JournalId = JournalId::from_u128(ID.as_u128() + 1);

/// Contents as files under their hashes, as the store has them.
struct LinkedContents(PathBuf);

impl LinkedContents {
    fn of(stage: &JournalFixture, trees: [&TestTree; 2]) -> LinkedContents {
        let files = LinkedContents(stage.dir.path().join("contents"));
        fs::create_dir_all(&files.0).unwrap();
        for node in trees.into_iter().flat_map(|tree| tree.values()) {
            if let TestNode::File(bytes, _) | TestNode::Link(bytes) = node {
                fs::write(files.path(&Hash::from_content(bytes)), bytes).unwrap();
            }
        }
        files
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        self.0.join(hash.to_string())
    }
}

impl ContentSource for LinkedContents {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(fs::File::open(self.path(hash))?))
    }

    fn linkable_file(&self, hash: &Hash) -> Option<ContentFile> {
        Some(ContentFile { path: self.path(hash), is_synced: false })
    }
}

/// Bytes that no compression and no sparse file makes smaller.
fn noise(seed: u8, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

const MIB: usize = 1 << 20;

/// Large files that are written, made and removed, among small ones.
fn large_trees() -> (TestTree, TestTree) {
    let file = |seed, len| TestNode::File(noise(seed, len), 0o644);
    let before = tree([
        ("edited", file(1, 2 * MIB + 7)),
        ("goes", file(2, 50_000)),
        ("small", file(3, 1_000)),
        ("to link", file(4, 70_000)),
    ]);
    let after = tree([
        ("edited", file(5, 3 * MIB)),
        ("made", file(6, 40_000)),
        ("small", file(7, 2_000)),
        ("to link", TestNode::Link(b"small".to_vec())),
    ]);
    (before, after)
}

/// As the engine asks for it: what was before lies there, what shall be is stored.
fn stored_changes(before: &TestTree, after: &TestTree) -> Vec<JournalChange> {
    let mut changes = changes(before, after);
    for change in &mut changes {
        change.pre.iter_mut().for_each(|image| image.bytes = ImageBytes::AsFound);
        change.post.iter_mut().for_each(|image| image.bytes = ImageBytes::Content);
    }
    changes
}

fn apply(journals: &Journals, dir: &Path, files: &LinkedContents) -> JournalEnding {
    let (before, after) = large_trees();
    let request = request(&dir.join("project"), stored_changes(&before, &after));
    let prepared = journals.prepare(request, files).unwrap();
    prepared.commit().unwrap().carry_out().unwrap().retire().unwrap()
}

fn undo(journals: &Journals, dir: &Path) -> JournalEnding {
    let undo = journals.read_undo(ID).unwrap();
    let exchange = |change: &JournalChange| JournalChange {
        pre: change
            .post
            .clone()
            .map(|image| sandbox::journal::FileImage { bytes: ImageBytes::AsFound, ..image }),
        post: change.pre.clone(),
        ..change.clone()
    };
    let changes = undo.changes().iter().map(exchange).collect();
    let request = Request { id: UNDO, kind: JournalKind::Undo, ..request(&dir.join("project"), changes) };
    let prepared = journals.prepare(request, &undo).unwrap();
    prepared.commit().unwrap().carry_out().unwrap().retire().unwrap()
}

/// The files that journals have linked.
fn linked(stage: &JournalFixture) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for owner in fs::read_dir(stage.data.join("journal-contents")).unwrap() {
        found.extend(fs::read_dir(owner.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    found.sort();
    found
}

fn owners(stage: &JournalFixture) -> usize {
    fs::read_dir(stage.data.join("journal-contents")).unwrap().count()
}

#[test]
fn a_large_content_is_one_file_for_store_apply_and_undo() {
    let (before, after) = large_trees();
    let stage = JournalFixture::new(&before);
    let files = LinkedContents::of(&stage, [&before, &after]);
    apply(&stage.journals(), stage.dir.path(), &files);
    assert_eq!(stage.survey(), shown(&after));
    assert_eq!(linked(&stage).len(), 5, "two of one file, one removed, one made, one replaced by a link");
    for link in linked(&stage) {
        let stored = fs::metadata(files.0.join(link.file_name().unwrap())).unwrap();
        assert_eq!(stored.ino(), fs::metadata(&link).unwrap().ino());
    }
    let listed = stage.journals().undo_ids().unwrap();
    assert!(listed[0].bytes < 20_000, "{listed:?}");
    // A collection takes the other names away; the journal has its own.
    fs::remove_dir_all(&files.0).unwrap();
    let listed = stage.journals().undo_ids().unwrap();
    assert!(listed[0].bytes > 5 * MIB as u64, "now they go with the journal: {listed:?}");
    undo(&stage.journals(), stage.dir.path());
    assert_eq!(stage.survey(), shown(&before));
    assert_eq!((linked(&stage).len(), owners(&stage)), (10, 2), "the undo has linked what the apply had");
    let inodes: std::collections::BTreeSet<u64> =
        linked(&stage).iter().map(|link| fs::metadata(link).unwrap().ino()).collect();
    assert_eq!(inodes.len(), 5);
    for id in [ID, UNDO] {
        stage.journals().forget_undo(id).unwrap();
    }
    assert_eq!(owners(&stage), 0);
}

/// Applies or undoes in the stage at `LINKS_DIR`, until it dies at step `KILL_AT`.
#[test]
fn killed_process() {
    let (Ok(act), Ok(dir)) = (std::env::var("LINKS_ACT"), std::env::var("LINKS_DIR")) else { return };
    let dir = PathBuf::from(dir);
    let kill_at = std::env::var("KILL_AT").unwrap().parse().unwrap();
    let journals = journals(&dir.join("data")).with_hooks(nth(kill_at, die));
    match act.as_str() {
        "apply" => drop(apply(&journals, &dir, &LinkedContents(dir.join("contents")))),
        "undo" => drop(undo(&journals, &dir)),
        "recover" => {
            let recovery = journals.recover().unwrap();
            assert!(recovery.stuck.is_empty(), "{:?}", recovery.stuck);
            recovery.settled.into_iter().for_each(|settled| drop(settled.retire().unwrap()));
        }
        other => panic!("{other}"),
    }
}

fn let_die(act: &str, stage: &JournalFixture, kill_at: u32) -> bool {
    let dir = stage.dir.path().to_str().unwrap();
    let variables = [("LINKS_ACT", act), ("LINKS_DIR", dir), ("KILL_AT", &kill_at.to_string())];
    was_killed(&child(CHILD, &variables).output().unwrap())
}

/// Recovers what is open; how it ended.
fn recover(stage: &JournalFixture) -> Option<JournalEnding> {
    let recovery = stage.journals().recover().unwrap();
    assert!(recovery.stuck.is_empty() && recovery.damaged.is_empty(), "{recovery:?}");
    recovery.settled.into_iter().next().map(|settled| settled.retire().unwrap())
}

#[test]
fn a_kill_at_any_step_of_apply_undo_and_recovery_needs_no_other_name_of_a_content() {
    let (before, after) = large_trees();
    for (act, from, to) in [("apply", &before, &after), ("undo", &after, &before)] {
        let (mut finished, mut never, mut again) = (0, 0, 0);
        for kill_at in 1.. {
            let stage = JournalFixture::new(&before);
            let files = LinkedContents::of(&stage, [&before, &after]);
            if act == "undo" {
                apply(&stage.journals(), stage.dir.path(), &files);
            }
            let was_killed = let_die(act, &stage, kill_at);
            fs::remove_dir_all(&files.0).unwrap();
            again += u32::from(let_die("recover", &stage, 1 + kill_at % 7));
            let id = if act == "apply" { ID } else { UNDO };
            let expected = match recover(&stage) {
                Some(JournalEnding::Applied { .. }) => to,
                Some(JournalEnding::NeverBegan) => from,
                Some(JournalEnding::RolledBack { why, .. }) => panic!("nobody edited anything: {why:?}"),
                None if stage.journals().undo_ids().unwrap().iter().any(|kept| kept.id == id) => to,
                None => from,
            };
            assert!(stage.survey() == shown(expected), "{act}, step {kill_at}");
            let journals = stage.journals().undo_ids().unwrap().len();
            assert_eq!(owners(&stage), journals, "{act}, step {kill_at}: links go with their journal");
            if !was_killed {
                break;
            }
            if expected == to { finished += 1 } else { never += 1 }
        }
        assert!(finished > 20 && never == 2 && again > 10, "{act}: {finished} {never} {again}");
    }
}

/// A name for it, and what is done to a file.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn a_linked_content_that_is_damaged_or_missing_is_never_written_and_never_passed_over() {
    let (before, after) = large_trees();
    let hash = |tree: &TestTree| match &tree["edited"] {
        TestNode::File(bytes, _) => Hash::from_content(bytes),
        TestNode::Link(_) | TestNode::Dir(_) => unreachable!(),
    };
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let cut = |path: &Path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(100).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let damages: [Damage<'_>; 3] = [("flipped", &flip), ("cut", &cut), ("removed", &remove)];
    let (mut finished, mut back, mut told) = (0, 0, 0);
    for kill_at in (3..).step_by(2) {
        let mut was_killed = true;
        for (name, damage) in damages {
            for hashes in [&[hash(&after)][..], &[hash(&before)], &[hash(&before), hash(&after)]] {
                let stage = JournalFixture::new(&before);
                let files = LinkedContents::of(&stage, [&before, &after]);
                was_killed = let_die("apply", &stage, kill_at);
                let half = stage.survey();
                let links = stage.data.join("journal-contents").join(ID.to_string());
                hashes.iter().for_each(|hash| damage(&links.join(hash.to_string())));
                drop(files);
                match stage.journals().recover_one(ID, Seal::Sealed) {
                    RecoveredJournal::Settled(settled) => match settled.retire().unwrap() {
                        JournalEnding::Applied { .. } => {
                            assert!(stage.survey() == shown(&after), "{name} at {kill_at}");
                            finished += 1;
                        }
                        JournalEnding::RolledBack { .. } | JournalEnding::NeverBegan => {
                            assert!(stage.survey() == shown(&before), "{name} at {kill_at}");
                            back += 1;
                        }
                    },
                    RecoveredJournal::Damaged { header } => {
                        assert!(header.is_some() && stage.survey() == half, "{name} at {kill_at}");
                        stage.journals().abandon(ID).unwrap();
                        assert!(stage.journals().undo_path(ID).exists() && links.exists());
                        assert_eq!(stage.journals().sweep_contents(false).unwrap(), 0);
                        assert!(links.exists(), "nothing of it is removed");
                        told += 1;
                    }
                    RecoveredJournal::Gone => assert!(stage.journals().undo_path(ID).exists()),
                    other @ (RecoveredJournal::Stuck(_) | RecoveredJournal::Busy) => panic!("{other:?}"),
                }
            }
        }
        if !was_killed {
            break;
        }
    }
    assert!(finished > 10 && back > 2 && told > 4, "{finished} {back} {told}");
}

#[test]
fn an_undo_whose_linked_content_is_gone_or_damaged_changes_nothing() {
    let (before, after) = large_trees();
    let stage = JournalFixture::new(&before);
    let files = LinkedContents::of(&stage, [&before, &after]);
    apply(&stage.journals(), stage.dir.path(), &files);
    let link = linked(&stage).into_iter().next().unwrap();
    let bytes = fs::read(&link).unwrap();
    fs::remove_file(&link).unwrap();
    assert!(matches!(stage.journals().read_undo(ID), Err(UndoError::Damaged { .. })));
    fs::write(&link, vec![0; bytes.len()]).unwrap();
    let undo = stage.journals().read_undo(ID).unwrap();
    let changes: Vec<JournalChange> = undo.changes().to_vec();
    let exchange = |change: JournalChange| JournalChange { pre: change.post, post: change.pre, ..change };
    let changes = changes.into_iter().map(exchange).collect();
    let request = Request { id: UNDO, kind: JournalKind::Undo, ..stage.request(changes) };
    let refused = stage.journals().prepare(request, &undo).unwrap_err();
    assert!(matches!(refused, PrepareError::Content { .. }), "{refused:?}");
    assert_eq!((stage.survey(), owners(&stage)), (shown(&after), 1));
}

#[test]
fn what_cannot_be_linked_or_is_not_what_its_hash_says_is_copied() {
    let (before, after) = large_trees();
    // What was before is damaged among the contents: it is taken from the project.
    let stage = JournalFixture::new(&before);
    let files = LinkedContents::of(&stage, [&before, &after]);
    let TestNode::File(edited, _) = &before["edited"] else { unreachable!() };
    fs::write(files.path(&Hash::from_content(edited)), noise(9, edited.len())).unwrap();
    apply(&stage.journals(), stage.dir.path(), &files);
    assert_eq!(linked(&stage).len(), 4);
    undo(&stage.journals(), stage.dir.path());
    assert_eq!(stage.survey(), shown(&before));
    // What shall be is: nothing is begun.
    let stage = JournalFixture::new(&before);
    let files = LinkedContents::of(&stage, [&before, &after]);
    let TestNode::File(edited, _) = &after["edited"] else { unreachable!() };
    fs::write(files.path(&Hash::from_content(edited)), noise(9, edited.len())).unwrap();
    let request = stage.request(stored_changes(&before, &after));
    let refused = stage.journals().prepare(request, &files).unwrap_err();
    assert!(matches!(refused, PrepareError::Content { .. }), "{refused:?}");
    assert_eq!((stage.survey(), owners(&stage), stage.journals().open_ids().unwrap()), (before, 0, vec![]));
}

#[test]
fn contents_without_a_journal_are_swept_and_no_others() {
    let (before, after) = large_trees();
    let stage = JournalFixture::new(&before);
    let files = LinkedContents::of(&stage, [&before, &after]);
    let prepared = stage.journals().prepare(stage.request(stored_changes(&before, &after)), &files).unwrap();
    assert_eq!((stage.journals().sweep_contents(false).unwrap(), linked(&stage).len()), (0, 5));
    prepared.abandon();
    assert_eq!(owners(&stage), 0);
    apply(&stage.journals(), stage.dir.path(), &files);
    fs::remove_dir_all(&files.0).unwrap();
    assert_eq!((stage.journals().sweep_contents(false).unwrap(), linked(&stage).len()), (0, 5));
    fs::remove_file(stage.journals().undo_path(ID)).unwrap();
    let bytes = stage.journals().sweep_contents(true).unwrap();
    assert!(bytes > 5 * MIB as u64, "{bytes}");
    assert_eq!((stage.journals().sweep_contents(false).unwrap(), owners(&stage)), (bytes, 0));
}
