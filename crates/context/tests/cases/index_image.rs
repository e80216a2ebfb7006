//! The image of an index: a new process knows from it what it would know from the tables, whatever became of
//! it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use context::index::{File, PathOnly, Snapshot};
use context::{IndexedContents, IndexedRoot, Views};
use domain::RootIndex;
use domain::context::{ContextRequest, Focus};

use crate::ground::{Ground, Memory, request};
use crate::index_support::{MemTree, Rig, path};

const FILES: usize = 300;

/// A project whose index has an image.
struct Drawn {
    rig: Rig,
    tree: MemTree,
    _dir: tempfile::TempDir,
    index: PathBuf,
}

fn text(number: usize) -> String {
    let (folder, other) = (number % 7, (number * 31) % FILES);
    format!(
        "//! Part {folder} of the queue.\n\n/// Retries job {number}.\npub fn retry_job_{number}(limit: u32) {{\n    \
         retry_job_{other}(limit - {number});\n}}\n\nstruct Waiting{folder};\n"
    )
}

fn drawn() -> Drawn {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let index = dir.path().join("i.sqlite");
    let tree = MemTree::new(&rig.wall);
    for number in 0..FILES {
        tree.write(&format!("src/f{number}.rs"), text(number).as_bytes());
    }
    // Two files of one content, one that is not read, one without words.
    tree.write("twin.rs", text(1).as_bytes());
    tree.write(".env", b"KEY=1");
    tree.write("empty", b"");
    let drawn = Drawn { rig, tree, _dir: dir, index };
    drawn.update();
    drawn
}

impl Drawn {
    fn image(&self) -> PathBuf {
        self.index.with_extension("image")
    }

    /// The knowledge of a new process, the number of files that it found changed, and the files that it read.
    fn update(&self) -> (Arc<Snapshot>, u32, Vec<String>) {
        self.rig.wall.pass(10);
        self.tree.reads();
        let updated = self.rig.update(&self.rig.in_file(&self.index), &self.tree);
        assert_eq!(updated.notes, Vec::<String>::new());
        (updated.snapshot, updated.changed, self.tree.reads())
    }

    /// A new process finds all, and reads no file.
    fn knows_all(&self) {
        let (snapshot, changed, reads) = self.update();
        assert_eq!((changed, reads), (0, Vec::new()));
        assert_eq!(*snapshot, self.tree.rebuilt());
    }

    fn lose_tables(&self) {
        let connection = rusqlite::Connection::open(&self.index).expect("it opens");
        connection.execute_batch("DELETE FROM facts").expect("it runs");
    }

    /// The text that is shown of a snapshot's files for some requests.
    fn contexts(&self, snapshot: &Arc<Snapshot>) -> Vec<String> {
        let files = self.tree.files.lock().expect("not poisoned");
        let files = files.iter().map(|(path, file)| (path.clone(), file.bytes.clone())).collect();
        let memory = Arc::new(Memory(Mutex::new(files)));
        let project = IndexedRoot {
            no: RootIndex(0),
            alias: "app".to_owned(),
            snapshot: Arc::clone(snapshot),
            source: Arc::clone(&memory) as Arc<dyn IndexedContents>,
            views: Views::default(),
        };
        let ground = Ground::of(vec![(project, memory)]);
        let asked = ["why is a job retried", "the limit of retry_job_17 and Waiting3", "nothing_of_the_kind"];
        let mut texts = asked.map(|query| ground.assemble(&request(query, 1500)).text).to_vec();
        let focus = vec![Focus::Symbol("retry_job_42".to_owned())];
        let named = ContextRequest { focus, ..request("", 800) };
        texts.push(ground.assemble(&named).text);
        texts
    }
}

#[test]
fn a_new_process_reads_the_image_instead_of_the_tables() {
    let drawn = drawn();
    drawn.lose_tables();
    drawn.knows_all();
    let mode = fs::metadata(drawn.image()).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!drawn.index.with_extension("image-new").exists());
}

#[test]
fn a_context_is_the_same_from_an_image() {
    let drawn = drawn();
    let (snapshot, ..) = drawn.update();
    let expected = drawn.contexts(&Arc::new(drawn.tree.rebuilt()));
    assert!(expected[1].contains("retry_job_17") && expected[3].contains("fn retry_job_42"), "{expected:?}");
    assert_eq!(drawn.contexts(&snapshot), expected);
}

#[test]
fn what_changed_since_is_taken_from_the_tables() {
    let drawn = drawn();
    let before = fs::read(drawn.image()).expect("it is there");
    drawn.tree.write("src/f1.rs", b"fn changed() {}\n");
    drawn.tree.remove(&path("src/f2.rs"));
    drawn.tree.write("src/new.rs", b"fn added() {}\n");
    let (_, changed, reads) = drawn.update();
    assert_eq!((changed, reads), (3, vec!["src/f1.rs".to_owned(), "src/new.rs".to_owned()]));
    drawn.knows_all();
    assert_eq!(
        fs::read(drawn.image()).expect("it is there"),
        before,
        "three files are no reason to draw anew"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_tried_again_and_costs_no_other_image() {
    let mut drawn = drawn();
    drawn.tree.on_read = Box::new(|path| match path.as_bytes() {
        b"src/f7.rs" => Err(std::io::ErrorKind::PermissionDenied.into()),
        _ => Ok(()),
    });
    drawn.tree.write("src/f7.rs", b"fn hidden() {}\n");
    fs::remove_file(drawn.image()).expect("it is there");
    drawn.update();
    let before = fs::read(drawn.image()).expect("it is drawn");
    drawn.lose_tables();
    for _ in 0..2 {
        assert_eq!(drawn.update().2, ["src/f7.rs"]);
    }
    assert_eq!(fs::read(drawn.image()).expect("it is there"), before);
}

#[test]
fn an_image_is_drawn_anew_when_many_files_have_changed() {
    let drawn = drawn();
    for number in 0..FILES - 10 {
        drawn.tree.write(&format!("src/f{number}.rs"), text(number + FILES).as_bytes());
    }
    drawn.update();
    drawn.lose_tables();
    drawn.knows_all();
}

#[test]
fn a_few_files_have_no_image() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let index = dir.path().join("i.sqlite");
    rig.update(&rig.in_file(&index), &MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]));
    assert!(index.exists() && !index.with_extension("image").exists());
}

#[test]
fn what_somebody_left_unfinished_is_written_over_and_what_they_still_write_is_not() {
    let drawn = drawn();
    let unfinished = drawn.index.with_extension("image-new");
    fs::remove_file(drawn.image()).expect("it is there");
    fs::write(&unfinished, vec![7; 1 << 20]).expect("written");
    let writing = fs::File::open(&unfinished).expect("it opens");
    writing.lock().expect("nobody has it");
    drawn.knows_all();
    assert!(!drawn.image().exists());
    assert_eq!(fs::metadata(&unfinished).expect("it is there").len(), 1 << 20);
    drop(writing);
    drawn.knows_all();
    drawn.lose_tables();
    drawn.knows_all();
}

/// A new process answers whatever became of the image, and the one after it is as if nothing had been.
fn is_survived(drawn: &Drawn, spoiled: &[u8], expected: &[String], what: &str) -> bool {
    fs::write(drawn.image(), spoiled).expect("it can be written");
    let (snapshot, changed, reads) = drawn.update();
    assert_eq!((changed, reads), (0, Vec::new()), "{what}");
    assert_eq!(drawn.contexts(&snapshot), expected, "{what}");
    assert_eq!(*snapshot, drawn.tree.rebuilt(), "{what}");
    let is_kept = fs::read(drawn.image()).is_ok_and(|image| image == spoiled);
    drawn.knows_all();
    assert_eq!(drawn.contexts(&drawn.update().0), expected, "{what}");
    is_kept
}

#[test]
fn a_damaged_image_is_noticed_and_drawn_anew() {
    let drawn = drawn();
    let whole = fs::read(drawn.image()).expect("it is there");
    let expected = drawn.contexts(&Arc::new(drawn.tree.rebuilt()));
    let mut kept = 0;
    for at in (0..whole.len()).step_by(whole.len() / 40).chain(whole.len() - 20..whole.len()) {
        let mut spoiled = whole.clone();
        spoiled[at] ^= 0x55;
        kept += usize::from(is_survived(&drawn, &spoiled, &expected, &format!("at {at}")));
    }
    assert!(kept < 30, "{kept}: words that nobody asks for are not looked at, all else is");
    for len in [0, 1, 15, 16, 17, whole.len() / 2, whole.len() - 1] {
        is_survived(&drawn, &whole[..len], &expected, &format!("cut at {len}"));
    }
    is_survived(&drawn, &vec![0xff; 4096], &expected, "garbage");
}

#[test]
fn nobody_waits_for_a_pipe_in_place_of_an_image() {
    let drawn = drawn();
    fs::remove_file(drawn.image()).expect("it is there");
    let made = std::process::Command::new("mkfifo").arg(drawn.image()).status().expect("it runs");
    assert!(made.success());
    drawn.knows_all();
}

#[test]
fn facts_that_are_damaged_in_both_places_are_found_again() {
    let drawn = drawn();
    let expected = drawn.contexts(&Arc::new(drawn.tree.rebuilt()));
    let whole = fs::read(drawn.image()).expect("it is there");
    let mut spoiled = whole.clone();
    spoiled[..whole.len() / 4].fill(0x55);
    fs::write(drawn.image(), &spoiled).expect("it can be written");
    drawn.lose_tables();
    let index = drawn.rig.in_file(&drawn.index);
    drawn.rig.wall.pass(10);
    let updated = drawn.rig.update(&index, &drawn.tree);
    // A reader of facts notices that they are lost, also those of an empty file.
    let is_lost = |file: &&File| file.facts.terms().is_empty() && file.facts.lines > 0;
    let lost = updated.snapshot.files().iter().filter(is_lost).count();
    assert!(lost > 50, "{lost}");
    // The same process reads those files again.
    drawn.tree.reads();
    let healed = drawn.rig.update(&index, &drawn.tree);
    assert!(drawn.tree.reads().len() >= lost);
    assert_eq!(*healed.snapshot, drawn.tree.rebuilt());
    assert_eq!(drawn.contexts(&healed.snapshot), expected);
}

#[test]
fn after_the_clock_was_set_back_the_tables_are_read() {
    let drawn = drawn();
    drawn.rig.wall.pass(-1000);
    drawn.tree.write("src/f1.rs", b"fn changed() {}\n");
    drawn.tree.write("src/new.rs", b"fn added() {}\n");
    drawn.rig.wall.pass(5);
    assert_eq!(drawn.update().2.len(), 2);
    let (snapshot, _, reads) = drawn.update();
    assert_eq!(*snapshot, drawn.tree.rebuilt());
    // The row of the other is from the future, and is not replaced.
    assert_eq!(reads, ["src/f1.rs"]);
}

#[test]
fn an_image_of_other_bounds_is_not_believed() {
    let drawn = drawn();
    let mut other = Rig::new();
    other.wall = Arc::clone(&drawn.rig.wall);
    other.config.file_bytes_max = 150;
    let index = other.in_file(&drawn.index);
    let updated = other.update(&index, &drawn.tree);
    let longest = updated.snapshot.files().iter().filter(|file| file.hash.is_some());
    assert!(longest.map(|file| file.facts.bytes).max() <= Some(150), "none is read that is longer");
}

#[test]
fn an_index_goes_with_its_image() {
    let drawn = drawn();
    fs::write(drawn.index.with_extension("image-new"), b"left").expect("written");
    drawn.rig.wall.pass(40 * 24 * 60 * 60);
    let other = drawn.index.with_file_name("other.sqlite");
    let tree = MemTree::of(&drawn.rig.wall, &[("a.rs", "fn a() {}\n")]);
    drawn.rig.update(&drawn.rig.in_file(&other), &tree);
    let dir = fs::read_dir(drawn.index.parent().expect("it lies somewhere")).expect("it is there");
    let left: Vec<_> = dir.map(|entry| entry.expect("it is there").file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("other.")), "{left:?}");
}

#[test]
fn two_who_bound_the_size_of_files_otherwise_share_one_image() {
    let mut drawn = drawn();
    let large = "word ".repeat(2000);
    drawn.tree.write("large.txt", large.as_bytes());
    drawn.rig.wall.pass(10);
    drawn.update();
    let image = fs::read(drawn.image()).expect("it is there");
    let usual = drawn.rig.config.clone();
    for _ in 0..2 {
        drawn.rig.config.file_bytes_max = 4096;
        let (snapshot, changed, reads) = drawn.update();
        assert_eq!((changed, reads.len()), (1, 0));
        assert_eq!(
            snapshot.file(&path("large.txt")).map(|file| file.path_only),
            Some(Some(PathOnly::TooLarge))
        );
        drawn.rig.config = usual.clone();
        let (snapshot, changed, reads) = drawn.update();
        assert_eq!((changed, reads), (1, vec!["large.txt".to_owned()]));
        assert_eq!(*snapshot, drawn.tree.rebuilt());
    }
    assert!(image == fs::read(drawn.image()).expect("it is there"), "it was drawn anew");

    // Drawn by who takes less, read by who takes more.
    fs::remove_file(drawn.image()).expect("it is there");
    drawn.rig.config.file_bytes_max = 4096;
    drawn.update();
    drawn.rig.config = usual;
    assert!(drawn.image().exists());
    let (snapshot, changed, reads) = drawn.update();
    assert_eq!((changed, reads), (1, vec!["large.txt".to_owned()]));
    assert_eq!(*snapshot, drawn.tree.rebuilt());
}
