//! The index on disk: what is found again, what survives a kill, and that a file that cannot be used harms
//! nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use context::index::{Index, IndexCache, IndexConfig, OutlineBy, Snapshot, scan};
use context::ports::{FileTree, SystemWallClock};
use context::{StopCheck, index};
use domain::Hash;
use sync::{CancellationToken, SystemClock};

use crate::index_support::{DirTree, MemTree, Rig, path, paths};

#[test]
fn a_new_process_finds_what_another_read() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("deep/er/i.sqlite");
    let tree = MemTree::of(
        &rig.wall,
        &[("a.rs", "fn a() {}\n"), (".env", "K"), ("bin", "\0"), ("run", "#!/bin/sh\nf() {\n}\n")],
    );
    rig.wall.pass(10);
    rig.update(&rig.in_file(&file), &tree);
    assert_eq!(tree.reads().len(), 3);
    let again = rig.update(&rig.in_file(&file), &tree);
    assert_eq!((again.changed, tree.reads().len(), again.notes.len()), (0, 0, 0));
    assert_eq!(*again.snapshot, tree.rebuilt());
}

#[test]
fn the_file_is_its_owner_s_alone() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("index/i.sqlite");
    let index = rig.in_file(&file);
    rig.update(&index, &MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]));
    let mode = |at: &Path| fs::metadata(at).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&dir.path().join("index")), mode(&file)), (0o700, 0o600));
    assert_eq!(mode(&file.with_extension("sqlite-wal")), 0o600);
}

/// Makes an index and lets a test spoil it.
fn spoiled(spoil: impl Fn(&Path)) -> (Rig, MemTree, tempfile::TempDir, PathBuf) {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::new(&rig.wall);
    for number in 0..300 {
        tree.write(
            &format!("f{number}.rs"),
            format!("fn function_{number}() {{ other_{number}() }}\n").as_bytes(),
        );
    }
    rig.wall.pass(10);
    rig.update(&rig.in_file(&file), &tree);
    tree.reads();
    spoil(&file);
    (rig, tree, dir, file)
}

const ANEW: &str = "the index was damaged or of another version, and was rebuilt";

#[test]
fn a_file_that_cannot_be_used_is_made_anew_and_the_answer_is_the_same() {
    let overwrite = |file: &Path, from: usize, to: usize| {
        let mut bytes = fs::read(file).expect("it is there");
        let to = to.min(bytes.len());
        bytes[from..to].fill(0xa5);
        fs::write(file, bytes).expect("it can be written");
    };
    let sql = |file: &Path, text: &str| {
        rusqlite::Connection::open(file).expect("it opens").execute_batch(text).expect("it runs");
    };
    // Newer than the image: that row is taken from the tables.
    let newer = |set: &str| {
        format!("UPDATE file SET {set}, seen_ns = seen_ns + 1 WHERE path = CAST('f7.rs' AS BLOB)")
    };
    type Spoil<'a> = Box<dyn Fn(&Path) + 'a>;
    let table: Vec<(&str, Spoil<'_>)> = vec![
        ("garbage", Box::new(|file| fs::write(file, b"no database at all, but some text").expect("written"))),
        (
            "truncated",
            Box::new(|file| {
                let len = fs::metadata(file).expect("there").len();
                fs::OpenOptions::new().write(true).open(file).expect("opens").set_len(len / 3).expect("cut");
            }),
        ),
        ("header", Box::new(|file| overwrite(file, 0, 100))),
        ("middle", Box::new(|file| overwrite(file, 8192, usize::MAX))),
        ("older schema", Box::new(|file| sql(file, "PRAGMA user_version=0; DROP TABLE facts;"))),
        ("newer schema", Box::new(|file| sql(file, "PRAGMA user_version=99"))),
        ("another program's", Box::new(|file| sql(file, "PRAGMA application_id=7"))),
        ("a table gone", Box::new(|file| sql(file, "DROP TABLE facts"))),
        ("a number out of range", Box::new(|file| sql(file, &newer("lang = -119")))),
        ("a text for a number", Box::new(|file| sql(file, &newer("size = 'long'")))),
        ("a time that is none", Box::new(|file| sql(file, &newer("mtime_ns = x'00ff'")))),
    ];
    for (what, spoil) in table {
        let (rig, tree, _dir, file) = spoiled(spoil);
        let updated = rig.update(&rig.in_file(&file), &tree);
        assert_eq!(*updated.snapshot, tree.rebuilt(), "{what}");
        tree.reads();
        let after = rig.update(&rig.in_file(&file), &tree);
        assert_eq!(*after.snapshot, tree.rebuilt(), "{what}");
        assert_eq!(updated.notes, [ANEW], "{what}");
        assert_eq!((tree.reads().len(), after.notes.len()), (0, 0), "{what}");
    }
}

#[test]
fn damage_that_shows_only_when_it_is_written_to_is_mended_by_the_next_process() {
    for table in ["file_hash", "sqlite_autoindex_outline_1", "sqlite_autoindex_commits_1"] {
        let (rig, tree, _dir, file) = spoiled(|file| {
            let connection = rusqlite::Connection::open(file).expect("it opens");
            let page = "SELECT rootpage FROM sqlite_master WHERE name = ?1";
            let page: u32 = connection.query_row(page, [table], |row| row.get(0)).expect("it is there");
            let page = page as usize;
            drop(connection);
            let mut bytes = fs::read(file).expect("it is there");
            bytes[(page - 1) * 8192..page * 8192].fill(0xa5);
            fs::write(file, bytes).expect("it can be written");
        });
        let index = rig.in_file(&file);
        for round in 0..3 {
            rig.wall.pass(10);
            tree.write("f1.rs", format!("fn round_{round}() {{}}\n").as_bytes());
            let snapshot = rig.update(&index, &tree).snapshot;
            assert_eq!(*snapshot, tree.rebuilt(), "{table}");
            let text = "fn a() {}\n";
            let facts = scan(&path("a.rs"), text.as_bytes());
            index.outlines(&[(Hash::from_content(text.as_bytes()), text, &facts)], &rig.stop());
        }
        drop(index);
        rig.wall.pass(10);
        tree.reads();
        let after = rig.update(&rig.in_file(&file), &tree);
        // The last write is as young as the look that met it.
        assert_eq!((tree.reads(), after.notes), (vec!["f1.rs".to_owned()], Vec::new()), "{table}");
    }
}

#[test]
fn facts_that_decayed_are_read_anew() {
    let (rig, tree, _dir, file) = spoiled(|file| {
        let connection = rusqlite::Connection::open(file).expect("it opens");
        let spoil = "UPDATE facts SET body = zeroblob(length(body)) WHERE rowid % 3 = 0;
                     UPDATE file SET path = x'2e2e2f78' WHERE path = CAST('f1.rs' AS BLOB);";
        connection.execute_batch(spoil).expect("it runs");
        fs::remove_file(file.with_extension("image")).expect("there is one");
    });
    let updated = rig.update(&rig.in_file(&file), &tree);
    assert_eq!(*updated.snapshot, tree.rebuilt());
    assert!((100..110).contains(&tree.reads().len()));
}

#[test]
fn where_there_can_be_no_file_the_index_is_kept_in_memory() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), b"").expect("written");
    fs::create_dir(dir.path().join("taken.sqlite")).expect("made");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    for place in ["file/i.sqlite", "taken.sqlite"] {
        let index = rig.in_file(&dir.path().join(place));
        let updated = rig.update(&index, &tree);
        assert_eq!(*updated.snapshot, tree.rebuilt());
        assert!(updated.notes[0].starts_with("the index is only in memory: "), "{:?}", updated.notes);
        tree.write("a.rs", format!("fn at_{}() {{}}\n", place.len()).as_bytes());
        let again = rig.update(&index, &tree);
        assert_eq!((again.changed, again.notes.len()), (1, 0));
    }
}

#[test]
fn what_another_process_keeps_busy_is_written_later() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    rig.wall.pass(10);
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let other = rusqlite::Connection::open(&file).expect("it opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("it is free");
    tree.write("b.rs", b"fn b() {}\n");
    rig.wall.pass(10);
    let kept = rig.update(&index, &tree);
    assert_eq!(*kept.snapshot, tree.rebuilt());
    assert_eq!(kept.notes, ["part of the index is only in memory: another process is using the file"]);
    other.execute_batch("COMMIT").expect("it ends");
    assert_eq!(rig.update(&index, &tree).notes, Vec::<String>::new());
    drop(index);
    tree.reads();
    rig.update(&rig.in_file(&file), &tree);
    assert_eq!(tree.reads(), Vec::<String>::new());
}

#[test]
fn a_row_never_goes_back_in_time() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn old() {}\n"), ("b.rs", "fn b() {}\n")]);
    // Another process begins to look, and is slow; meanwhile the file is written, and looked at again.
    let late = Rig::new();
    let slow = MemTree::of(&late.wall, &[("a.rs", "fn old() {}\n")]);
    rig.wall.pass(5);
    tree.write("a.rs", b"fn new() {}\n");
    rig.wall.pass(10);
    rig.update(&rig.in_file(&file), &tree);
    late.update(&late.in_file(&file), &slow);
    tree.reads();
    let after = rig.update(&rig.in_file(&file), &tree);
    assert_eq!(*after.snapshot, tree.rebuilt());
    // The late one had nothing to remove or replace.
    assert_eq!((after.changed, tree.reads()), (0, Vec::new()));
}

const CHILD: &str = "AGENTS_TEST_INDEX_CHILD";

/// The same test binary again, doing what `index_disk::child` does.
fn child(role: &str, dir: &Path) -> Child {
    child_command(role, dir).spawn().expect("it starts")
}

fn child_command(role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command
        .args(["--exact", "index_disk::a_child_of_other_tests_does_its_part", "--nocapture"])
        .env(CHILD, format!("{role}:{}", dir.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn real_index(dir: &Path) -> (Index, StopCheck) {
    let clock = Arc::new(SystemClock::new());
    let config =
        IndexConfig { threads: 2, update_deadline: Duration::from_secs(600), ..IndexConfig::default() };
    let index = Index::in_file(dir.join("index/i.sqlite"), config, clock.clone(), Arc::new(SystemWallClock));
    (index, StopCheck::new(CancellationToken::new().observe(), None, clock))
}

/// Dies by the hand of the kernel once so many files were read.
struct Dying(DirTree, AtomicUsize);

impl FileTree for Dying {
    fn walk(
        &self,
        is_over: &context::ports::StopPoll<'_>,
        sink: &(dyn Fn(context::ports::FileStat) + Sync),
    ) -> Result<context::ports::WalkSummary, context::ports::PortError> {
        self.0.walk(is_over, sink)
    }

    fn size(&self, path: &domain::RelPath) -> std::io::Result<u64> {
        self.0.size(path)
    }

    fn read(&self, path: &domain::RelPath, max: usize) -> std::io::Result<Vec<u8>> {
        let left = self.1.fetch_sub(1, Ordering::SeqCst);
        if left > 1_000_000 {
            // Below zero: the other thread is about to end us all, and nothing more is to be read.
            loop {
                std::thread::park();
            }
        }
        if left == 0 {
            let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
            std::process::abort();
        }
        self.0.read(path, max)
    }
}

#[test]
fn a_child_of_other_tests_does_its_part() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (role, dir) = asked.split_once(':').expect("a role and a directory");
    let (index, stop) = real_index(Path::new(dir));
    let tree = DirTree(Path::new(dir).join("project"));
    if let Some(reads) = role.strip_prefix("die-after-") {
        let dying = Dying(tree, AtomicUsize::new(reads.parse().expect("a number")));
        let _ = index.update(&dying, None, &stop);
        return;
    }
    let updated = index.update(&tree, None, &stop).expect("nobody cancels");
    assert!(!updated.snapshot.partial());
    if role == "read-only" {
        assert_eq!(*updated.snapshot, rebuilt(Path::new(dir)));
        assert!(updated.notes[0].starts_with("the index is only in memory: "), "{:?}", updated.notes);
    }
}

fn project_on_disk(files: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    write_files(dir.path(), files, 0);
    dir
}

fn write_files(dir: &Path, files: usize, round: u32) {
    for number in 0..files {
        let folder = dir.join(format!("project/d{}", number / 100));
        fs::create_dir_all(&folder).expect("made");
        let text = format!("fn f{number}_of_round_{round}() {{}}\n");
        fs::write(folder.join(format!("f{number}.rs")), text).expect("written");
    }
}

fn rebuilt(dir: &Path) -> Snapshot {
    let tree = DirTree(dir.join("project"));
    let paths = std::sync::Mutex::new(Vec::new());
    tree.walk(&|| false, &|stat| {
        paths.lock().expect("not poisoned").push(stat.path);
    })
    .expect("it is there");
    let paths = paths.into_inner().expect("not poisoned");
    Snapshot::of_files(
        paths.into_iter().map(|path| (path.clone(), tree.read(&path, 1 << 20).expect("it is there"))),
    )
}

fn files_stored(dir: &Path) -> i64 {
    let connection = rusqlite::Connection::open(dir.join("index/i.sqlite")).expect("it opens");
    let whole: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it answers");
    assert_eq!(whole, "ok");
    connection.query_row("SELECT count(*) FROM file", [], |row| row.get(0)).expect("it answers")
}

#[test]
fn a_process_killed_between_two_batches_leaves_whole_ones_and_the_next_completes() {
    let dir = project_on_disk(1000);
    let mut before = 0;
    for round in 1..=2 {
        let status = child("die-after-900", dir.path()).wait().expect("it ends");
        assert!(!status.success(), "it was killed");
        let stored = files_stored(dir.path());
        // The amount that is read ahead of the disk is bounded, so of so many a batch is written.
        assert!(stored >= before.max(256) && stored < 1000, "round {round}: {stored} files");
        before = stored;
        // Everything has to be read again.
        write_files(dir.path(), 1000, round);
    }
    let (index, stop) = real_index(dir.path());
    let updated = index.update(&DirTree(dir.path().join("project")), None, &stop).expect("nobody cancels");
    assert_eq!(*updated.snapshot, rebuilt(dir.path()));
    assert_eq!((updated.notes.len(), files_stored(dir.path())), (0, 1000));
}

#[test]
fn two_processes_update_one_index_at_once() {
    let dir = project_on_disk(1500);
    let mut children: Vec<Child> = (0..3).map(|_| child("update", dir.path())).collect();
    for child in &mut children {
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(files_stored(dir.path()), 1500);
    let (index, stop) = real_index(dir.path());
    let updated = index.update(&DirTree(dir.path().join("project")), None, &stop).expect("nobody cancels");
    assert_eq!(*updated.snapshot, rebuilt(dir.path()));
    assert_eq!((updated.changed, updated.notes.len()), (0, 0));
}

/// The same command for root, whom modes bind once it has no capabilities. Another user might not be able to
/// enter the directories of the build and of the test.
fn without_capabilities(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(command.get_program())
        .args(command.get_args());
    bound.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    bound
}

#[test]
fn an_index_that_may_only_be_read_is_kept_in_memory() {
    use std::os::unix::fs::MetadataExt;
    let dir = project_on_disk(20);
    assert!(child("update", dir.path()).wait().expect("it ends").success());
    let allow =
        |at: &Path, mode: u32| fs::set_permissions(at, fs::Permissions::from_mode(mode)).expect("ours");
    let folder = dir.path().join("index");
    let inside: Vec<PathBuf> =
        fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.path()).collect();
    inside.iter().for_each(|file| allow(file, 0o444));
    allow(&folder, 0o555);
    let mut command = child_command("read-only", dir.path());
    if fs::metadata(dir.path()).expect("there").uid() == 0 {
        command = without_capabilities(&command);
    }
    assert!(command.spawn().expect("it starts").wait().expect("it ends").success());
    allow(&folder, 0o755);
}

#[test]
fn an_index_is_verified_against_one_built_from_nothing() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(rig.clock.clone());
    let indexes =
        IndexCache::new(Some(dir.path().to_owned()), rig.config.clone(), 1 << 20, clock, rig.wall.clone());
    let root = Path::new("/project");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() {}\n")]);
    rig.wall.pass(10);
    rig.update(&indexes.of(root), &tree);
    assert!(indexes.of(root).verify(&tree, None, &rig.stop()).expect("nobody cancels").is_same());
    // A liar of a file system: the content changes, its record does not.
    let before = tree.files.lock().expect("not poisoned")[&path("a.rs")].clone();
    tree.write("a.rs", b"fn z() {}\n");
    tree.files.lock().expect("not poisoned").get_mut(&path("a.rs")).expect("there").mtime_ns =
        before.mtime_ns;
    let verified = indexes.of(root).verify(&tree, None, &rig.stop()).expect("nobody cancels");
    assert_eq!((verified.is_same(), verified.differing), (false, vec![path("a.rs")]));

    let held = indexes.of(root);
    assert!(!indexes.clear(root), "somebody uses it");
    drop(held);
    assert!(indexes.clear(root));
    assert!(!indexes.path_of(root).expect("on disk").exists());
    assert!(indexes.of(root).verify(&tree, None, &rig.stop()).expect("nobody cancels").is_same());
    assert!(indexes.clear(Path::new("/never/seen")));
}

#[test]
fn facts_that_no_file_has_go_after_their_days_and_live_ones_stay() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("live.rs", "fn live() {}\n"), ("a.rs", "fn first() {}\n")]);
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    tree.write("a.rs", b"fn second() {}\n");
    rig.update(&index, &tree);
    let facts = |index: &Index| index.size(&rig.stop()).facts;
    assert_eq!(facts(&index), 3);
    rig.wall.pass(29 * 24 * 3600);
    rig.update(&index, &tree);
    assert_eq!(facts(&index), 3);
    rig.wall.pass(3 * 24 * 3600);
    rig.update(&index, &tree);
    assert_eq!(facts(&index), 2);
    assert_eq!(*rig.update(&rig.in_file(&file), &tree).snapshot, tree.rebuilt());
}

#[test]
fn above_its_bytes_an_index_keeps_the_facts_of_living_files_only() {
    let mut rig = Rig::new();
    rig.config.disk_bytes_max = 1;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let index = rig.in_file(&file);
    for round in 0..5 {
        tree.write("a.rs", format!("fn round_{round}() {{}}\n").as_bytes());
        rig.update(&index, &tree);
    }
    assert_eq!(index.size(&rig.stop()).facts, 1);
}

#[test]
fn what_belongs_to_facts_goes_with_them_and_no_more_go_than_must() {
    const FILES: u64 = 3000;
    let mut rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::new(&rig.wall);
    let index = rig.in_file(&file);
    for round in 0..2 {
        for number in 0..FILES {
            let part =
                |line: u32| format!("fn part_{round}_{number}_{line}() {{ word_{line}_{number}() }}\n");
            tree.write(&format!("{number}.rs"), (0..20).map(part).collect::<String>().as_bytes());
        }
        rig.update(&index, &tree);
    }
    let facts = |index: &Index| index.size(&rig.stop()).facts;
    assert_eq!(facts(&index), 2 * FILES);
    drop(index);
    // A third of what no file has is a sixth of all, and more than a tenth too much.
    let tables = fs::metadata(&file).expect("it is there").len();
    rig.config.disk_bytes_max = tables - tables / 10;
    rig.wall.pass(24 * 3600);
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let left = index.size(&rig.stop()).facts;
    assert_eq!(left, 2 * FILES - 1000);
}

#[test]
fn a_thousand_projects_stay_within_memory_and_disk() {
    let rig = Rig::new();
    // Each index waits for the disk when it is closed; in memory that is a moment.
    let in_memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = in_memory.expect("a directory");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn b() { a() }\n")]);
    let memory_max = 4 * rig.update(&rig.in_memory(), &tree).snapshot.files().len() * 1000;
    let disk_max = 6_000_000;
    let config = IndexConfig { disk_bytes_max: disk_max, ..rig.config.clone() };
    let clock = Arc::new(rig.clock.clone());
    let indexes = IndexCache::new(Some(dir.path().to_owned()), config, memory_max, clock, rig.wall.clone());
    for number in 0..1000 {
        rig.wall.pass(1);
        let index = indexes.of(Path::new(&format!("/projects/{number}")));
        rig.update(&index, &tree);
    }
    let last = indexes.of(Path::new("/projects/999"));
    assert_eq!(*last.snapshot(), tree.rebuilt());
    assert!(indexes.held() * last.memory_bytes() <= memory_max + last.memory_bytes(), "{}", indexes.held());
    assert!((2..20).contains(&indexes.held()), "{}", indexes.held());
    let on_disk: u64 = fs::read_dir(dir.path())
        .expect("it is there")
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension != "lock"))
        .map(|entry| entry.metadata().map_or(0, |found| found.len()))
        .sum();
    // The last one was written after it had looked at the others.
    assert!(on_disk <= disk_max + 500_000, "{on_disk}");
    assert!(indexes.path_of(Path::new("/projects/999")).expect("on disk").exists());
}

#[test]
fn bounds_that_change_hold_from_the_next_request_on() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (clock, root) = (Arc::new(rig.clock.clone()), Path::new("/project"));
    let indexes =
        IndexCache::new(Some(dir.path().to_owned()), rig.config.clone(), 1 << 20, clock, rig.wall.clone());
    let tree = MemTree::of(&rig.wall, &[("a", "a"), ("b", "b"), ("c", "c")]);
    assert_eq!(rig.update(&indexes.of(root), &tree).snapshot.files().len(), 3);
    assert!(Arc::ptr_eq(&indexes.of(root), &indexes.of(root)));
    let fewer = IndexConfig { files_max: 2, ..rig.config.clone() };
    assert_eq!(rig.update(&indexes.with(root, &fewer), &tree).snapshot.files().len(), 2);
    assert_eq!(indexes.held(), 1);
}

#[test]
fn an_outline_is_made_once_a_content() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let text = "/// Adds.\npub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n";
    let tree = MemTree::of(&rig.wall, &[("a.rs", text)]);
    let facts = scan(&path("a.rs"), text.as_bytes());
    let hash = Hash::from_content(text.as_bytes());
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let made = index.outlines(&[(hash, text, &facts)], &rig.stop());
    assert_eq!(made[0].by, OutlineBy::Parser);
    assert_eq!(*made[0], index::outline(text, &facts));
    drop(index);
    // Asked with another text under the same hash, the stored one shows that it was found.
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let found = index.outlines(&[(hash, "", &facts)], &rig.stop());
    assert_eq!(found, made);
    // That of a content which no file has is not stored.
    let other = "pub fn of_a_plan() {}\n";
    index.outlines(&[(Hash::from_content(other.as_bytes()), other, &facts)], &rig.stop());
    drop(index);
    let connection = rusqlite::Connection::open(&file).expect("it opens");
    let kept: u32 =
        connection.query_row("SELECT count(*) FROM outline", [], |row| row.get(0)).expect("a row");
    assert_eq!(kept, 1);
}

#[test]
fn paths_of_any_bytes_are_kept() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("i.sqlite");
    let tree = MemTree::new(&rig.wall);
    {
        let mut files = tree.files.lock().expect("not poisoned");
        for (number, name) in
            [&b"new\nline.rs"[..], b"caf\xe9.rs", b"## x.rs", b"'quote.rs"].iter().enumerate()
        {
            let bytes = b"fn a() {}\n".to_vec();
            let file = crate::index_support::MemFile { bytes, mtime_ns: 0, inode: number as u64 };
            files.insert(path(name), file);
        }
    }
    rig.update(&rig.in_file(&file), &tree);
    tree.reads();
    let again = rig.update(&rig.in_file(&file), &tree);
    assert_eq!((tree.reads().len(), again.snapshot.files().len()), (0, 4));
    assert_eq!(paths(&again.snapshot), ["## x.rs", "'quote.rs", r"caf\xE9.rs", r"new\x0Aline.rs"]);
}

#[test]
fn what_followed_from_a_snapshot_is_kept_for_the_next_process_and_the_oldest_goes() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("index.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let key = |number: u8| Hash::from_content(&[number]);
    {
        let index = rig.in_file(&file);
        index.store_derived(&key(0), b"before it was opened");
        assert_eq!(index.load_derived(&key(0)), None, "there was no file yet");
        rig.update(&index, &tree);
        for number in 1..=5 {
            index.store_derived(&key(number), &[number; 20_000]);
        }
        index.store_derived(&key(2), b"again");
    }
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let kept: Vec<Option<usize>> =
        (1..=6).map(|number| index.load_derived(&key(number)).map(|bytes| bytes.len())).collect();
    assert_eq!(kept, [None, Some(5), Some(20_000), Some(20_000), Some(20_000), None]);
}

#[test]
fn what_is_stored_under_another_key_is_not_taken_for_it() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("index.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n"), ("b.rs", "fn bee() { one() }\n")]);
    rig.wall.pass(10);
    rig.update(&rig.in_file(&file), &tree);
    let swap = "UPDATE facts SET body = (SELECT body FROM facts WHERE rowid = 2) WHERE rowid = 1";
    let connection = rusqlite::Connection::open(&file).expect("an index");
    assert_eq!(connection.execute(swap, []).expect("two facts"), 1);
    drop(connection);
    let again = rig.update(&rig.in_file(&file), &tree);
    assert_eq!(*again.snapshot, tree.rebuilt());
    assert_eq!(again.changed, 1, "the one was read again");
}

#[test]
fn who_keeps_something_while_another_process_writes_goes_on_without() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("index.sqlite");
    let tree = MemTree::of(&rig.wall, &[("a.rs", "fn a() {}\n")]);
    let index = rig.in_file(&file);
    rig.update(&index, &tree);
    let other = rusqlite::Connection::open(&file).expect("an index");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let key = Hash::from_content(b"key");
    index.store_derived(&key, b"something");
    assert_eq!(index.load_derived(&key), None);
    other.execute_batch("COMMIT").expect("it has the file");
    index.store_derived(&key, b"something");
    assert_eq!(index.load_derived(&key).as_deref(), Some(&b"something"[..]));
}
