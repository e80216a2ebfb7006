//! Opening a store: what is found again, what is refused, and who may read the files.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use domain::{ChangesetId, Hash};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use store::{CallAuthority, ChangesetStore, ContentStore, NodeStore, PlanStore, StoreOpenError};
use tempfile::TempDir;

use crate::sqlite_bench::{PLAN, choice, database, effect, fill, made, node_run, open, told, try_open};

fn read(store: &dyn ContentStore, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.open_content(&Hash::from_content(content)).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_store_that_is_opened_again_tells_the_same() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    fill(&store).await;
    let before = told(&store).await;
    assert!(!before.iter().any(|port| port == "Ok([])" || port.starts_with("Err")), "{before:?}");
    drop(store);
    let again = open(dir.path());
    assert_eq!(told(&again).await, before);
    assert_eq!(read(&again, b"small"), b"small");
    assert_eq!(read(&again, &[7; 40_000]), [7; 40_000]);
    let sets = again.changesets(PLAN).await.unwrap();
    assert_eq!(sets.iter().map(|set| set.id).collect::<Vec<_>>(), [1, 2].map(ChangesetId::from_u128));
}

#[tokio::test]
async fn two_stores_on_one_directory_see_each_others_writes() {
    let dir = TempDir::new().unwrap();
    let (one, other) = (open(dir.path()), open(dir.path()));
    assert_eq!(other.changesets(PLAN).await.unwrap(), []);
    fill(&one).await;
    assert_eq!(told(&other).await, told(&one).await);
}

#[tokio::test]
async fn a_store_from_before_nodes_were_kept_is_migrated_with_its_decisions() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = made(&store, PLAN).await;
    let decisions = store.decisions(PLAN).await.unwrap();
    drop(store);
    let older = Connection::open(database(dir.path())).unwrap();
    older
        .execute_batch(
            "DROP TRIGGER footprint_begins; DROP TRIGGER footprint_ends; DROP TABLE footprints;
             DROP INDEX plan_projects_newest; DROP INDEX plans_updated; ALTER TABLE plan_projects DROP COLUMN plan;
             CREATE INDEX plan_projects_root ON plan_projects(root);
             DROP INDEX plans_end; DROP INDEX plans_batch;
             DROP TABLE contexts; DROP INDEX tool_calls_node; DROP TABLE node_runs; DROP TABLE consents;
             ALTER TABLE decisions DROP COLUMN superseded_by; ALTER TABLE jobs DROP COLUMN keys;
             PRAGMA user_version = 3;",
        )
        .unwrap();
    drop(older);
    let store = open(dir.path());
    assert_eq!(store.decisions(PLAN).await.unwrap(), decisions, "also their names are the same");
    assert_eq!(store.node_runs(PLAN).await.unwrap(), []);
    store.settle_nodes(CallAuthority::Effect(&effect()), &claim, vec![node_run("a")]).await.unwrap();
    assert_eq!(store.node_runs(PLAN).await.unwrap(), [node_run("a")]);
    assert_eq!(store.decide(&effect(), &claim, choice("so")).await.unwrap().seq, 2);
}

/// All names, modes and bytes below a directory.
fn files_in(dir: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let (name, metadata) = (entry.file_name().into_string().unwrap(), entry.metadata().unwrap());
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            found.push((name, mode, Vec::new()));
            found.extend(files_in(&entry.path()));
        } else {
            found.push((name, mode, fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

/// Opening is refused, and leaves the directory as it was.
fn refused(dir: &TempDir) -> StoreOpenError {
    let before = files_in(dir.path());
    let refused = try_open(dir.path()).unwrap_err();
    assert!(files_in(dir.path()) == before, "{refused} and something changed");
    refused
}

#[test]
fn a_store_of_a_newer_program_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()));
    let newer = Connection::open(database(dir.path())).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    // While the newer program runs, the number stands in its log only.
    let TooNew(found, known) = too_new(try_open(dir.path()).unwrap_err());
    assert_eq!((found, known), (99, 10));
    drop(newer);
    let words = "the store has version 99; this program supports versions up to 10";
    assert_eq!(refused(&dir).to_string(), words);
}

#[test]
fn the_log_of_a_newer_program_that_was_killed_is_left_alone() {
    let dir = TempDir::new().unwrap();
    drop(open(dir.path()));
    let newer = Connection::open(database(dir.path())).unwrap();
    newer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(newer);
    let files = || ["agents.db", "agents.db-wal"].map(|name| fs::read(dir.path().join(name)).unwrap());
    let before = files();
    let TooNew(found, _) = too_new(try_open(dir.path()).unwrap_err());
    assert_eq!(found, 99);
    assert!(files() == before);
}

struct TooNew(u32, u32);

fn too_new(error: StoreOpenError) -> TooNew {
    match error {
        StoreOpenError::TooNew { found, known } => TooNew(found, known),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    for content in [
        &b""[..],
        b"SQLite",
        b"not a database, but longer than a header of a hundred bytes ".repeat(9).as_slice(),
    ] {
        let dir = TempDir::new().unwrap();
        fs::write(database(dir.path()), content).unwrap();
        match refused(&dir) {
            StoreOpenError::Foreign { path } => assert_eq!(path, database(dir.path())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_database_of_another_program_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    let foreign = Connection::open(database(dir.path())).unwrap();
    foreign.execute_batch("CREATE TABLE jobs (id); PRAGMA user_version = 1").unwrap();
    drop(foreign);
    let error = refused(&dir);
    assert!(matches!(error, StoreOpenError::Foreign { .. }), "{error:?}");
    assert!(error.to_string().ends_with("agents.db is not a store of this program"), "{error}");
}

#[test]
fn a_damaged_store_is_refused_and_left_alone() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 3] = [
        ("cut off", |bytes| bytes.truncate(8_192)),
        ("scribbled over", |bytes| bytes[100..2_000].fill(0xaa)),
        ("without its tables", |bytes| bytes[4_096..].fill(0)),
    ];
    for (how, damage) in damages {
        let dir = TempDir::new().unwrap();
        drop(open(dir.path()));
        let mut bytes = fs::read(database(dir.path())).unwrap();
        damage(&mut bytes);
        fs::write(database(dir.path()), &bytes).unwrap();
        let before = fs::read(database(dir.path())).unwrap();
        match try_open(dir.path()).unwrap_err() {
            StoreOpenError::Corrupt { path, why } => {
                assert_eq!(path, database(dir.path()));
                assert!(why.contains("malformed"), "{how}: {why}");
            }
            other => panic!("{how}: {other:?}"),
        }
        assert!(fs::read(database(dir.path())).unwrap() == before, "{how}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_told_with_its_cause() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = try_open(&dir.path().join("file/data")).unwrap_err();
    assert!(matches!(error, StoreOpenError::Io { .. }), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn only_the_owner_may_read_what_is_kept() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("deep/data");
    let store = open(&data);
    fill(&store).await;
    let mode = fs::metadata(&data).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o700);
    let found: Vec<(String, u32)> = files_in(&data).into_iter().map(|(name, mode, _)| (name, mode)).collect();
    let hash = Hash::from_content(&[7; 40_000]).to_string();
    let (first, rest) = hash.split_at(2);
    let mut expected = vec![
        ("agents.db".to_owned(), 0o600),
        ("agents.db-shm".to_owned(), 0o600),
        ("agents.db-wal".to_owned(), 0o600),
        ("contents".to_owned(), 0o700),
        (first.to_owned(), 0o700),
        (rest.to_owned(), 0o600),
    ];
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_a_killed_maker_left_does_not_hinder_the_next() {
    let dir = TempDir::new().unwrap();
    for left_over in ["agents.db.new", "agents.db.new-journal"] {
        fs::write(dir.path().join(left_over), "half").unwrap();
    }
    fill(&open(dir.path())).await;
    let names: Vec<String> = files_in(dir.path()).into_iter().map(|(name, ..)| name).collect();
    assert!(names.iter().all(|name| !name.starts_with("agents.db.")), "{names:?}");
}
