//! Large contents: files beside the database, synced with their changeset, collected when nobody needs them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::{ChangesetId, Hash};
use rusqlite::Connection;
use store::{
    CallAuthority, CallOutcome, CallStore, ChangesetStore, CollectedContents, ContentStore, STAGED_KEPT,
    SqliteStore, StoredFile,
};
use tempfile::TempDir;

use crate::sqlite_bench::{PLAN, call_end, change, database, effect, new_call, open, owner};

const LARGE: &[u8] = &[7; 40_000];

fn place(dir: &Path) -> PathBuf {
    let digits = Hash::from_content(LARGE).to_string();
    dir.join("contents").join(&digits[..2]).join(&digits[2..])
}

/// The numbers of contents that are noted as synced, and that are not.
fn synced(dir: &Path) -> (u32, u32) {
    let other = Connection::open(database(dir)).unwrap();
    let counts = "SELECT count(*) FILTER (WHERE synced), count(*) FILTER (WHERE NOT synced) FROM contents";
    other.query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

/// A call that made one large file, in changeset 1.
async fn call(store: &SqliteStore) -> domain::Claim {
    let claim = owner(store, PLAN).await;
    let set = ChangesetId::from_u128(1);
    store.start(&effect(), &claim, set).await.unwrap();
    let call = store.begin_call(&effect(), &claim, new_call()).await.unwrap();
    let contents = vec![store.stage(&mut &LARGE[..]).unwrap()];
    let (changeset, changes) = (Some(set), vec![change(1, LARGE)]);
    let outcome = CallOutcome {
        attempt: 1,
        no: call.no,
        end: call_end(),
        changeset,
        changes,
        contents,
        settles: Vec::new(),
    };
    store.end_call(CallAuthority::Effect(&effect()), &claim, outcome).await.unwrap();
    claim
}

#[tokio::test]
async fn a_large_content_is_synced_when_its_changeset_ends_and_not_before() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = call(&store).await;
    assert_eq!(synced(dir.path()), (0, 1));
    assert!(fs::read(place(dir.path())).unwrap() == LARGE);
    let file = |is_synced| Some(StoredFile { path: place(dir.path()), is_synced });
    assert_eq!(store.content_file(&Hash::from_content(LARGE)).unwrap(), file(false));
    store.close(&effect(), &claim, ChangesetId::from_u128(1)).await.unwrap();
    assert_eq!(synced(dir.path()), (1, 0));
    assert_eq!(store.content_file(&Hash::from_content(LARGE)).unwrap(), file(true));
    assert_eq!(store.content_file(&Hash::from_content(b"small")).unwrap(), None);
}

#[tokio::test]
async fn a_missing_file_does_not_keep_its_changeset_open() {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    let claim = call(&store).await;
    fs::remove_file(place(dir.path())).unwrap();
    store.close(&effect(), &claim, ChangesetId::from_u128(1)).await.unwrap();
    let missing = store.open_content(&Hash::from_content(LARGE)).err().unwrap();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    // It comes back with whoever stages it again.
    store.stage(&mut &LARGE[..]).unwrap();
    assert!(fs::read(place(dir.path())).unwrap() == LARGE);
}

#[tokio::test]
async fn what_another_process_has_staged_is_not_collected() {
    let dir = TempDir::new().unwrap();
    let (one, other) = (open(dir.path()), open(dir.path()));
    one.stage(&mut &LARGE[..]).unwrap();
    assert_eq!(other.collect(false).unwrap(), CollectedContents::default());
    assert!(place(dir.path()).exists());
}

#[test]
fn a_content_that_cannot_be_read_to_its_end_leaves_nothing() {
    struct Broken(usize);
    impl std::io::Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0 += into.len();
            if self.0 > 1 << 20 { Err(std::io::Error::other("gone")) } else { Ok(into.len()) }
        }
    }
    let dir = TempDir::new().unwrap();
    let store = open(dir.path());
    assert_eq!(store.stage(&mut Broken(0)).unwrap_err().to_string(), "gone");
    assert_eq!(fs::read_dir(dir.path().join("contents")).unwrap().count(), 0);
}

#[test]
fn what_killed_processes_left_half_written_is_removed_after_a_while() {
    let dir = TempDir::new().unwrap();
    let store = crate::sqlite_bench::open_at(dir.path(), || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        domain::WallMs(u64::try_from(now.as_millis()).unwrap())
    });
    let contents = dir.path().join("contents");
    fs::create_dir(&contents).unwrap();
    let (old, young) = (contents.join("new-1-1"), contents.join("new-1-2"));
    File::create(&young).unwrap();
    let long_ago = SystemTime::now() - 2 * STAGED_KEPT;
    File::create(&old).unwrap().set_modified(long_ago).unwrap();
    store.collect(true).unwrap();
    assert!(old.exists(), "a dry run removes nothing");
    store.collect(false).unwrap();
    assert_eq!((old.exists(), young.exists()), (false, true));
}
