//! Contents in SQLite: small ones in a row, large ones in a file next to the database.
//!
//! # How a large one comes to stay
//! 1. [`stage`](ContentStore::stage) writes it to a file of its own name while it is hashed.
//! 2. Its row is written: from here on no process collects it, for [`STAGED_KEPT`](crate::STAGED_KEPT) or as
//!    long as something names it.
//! 3. The file is renamed to its hash.
//! 4. The end of its call names it; the end of its changeset waits until the file is on the disk.
//!
//! # Invariants
//! 1. Under a hash is that content or nothing: never half of it.
//! 2. A collection finds and removes contents within one transaction, and staging writes its row in one. So
//!    no staged content is removed before it is named, in either order.

mod files;

use std::collections::BTreeSet;
use std::io::{self, Cursor, Read};

use domain::{FileState, Hash, Ms, PlanId, WallMs, is_text};

use super::columns::{SqlJson, hash, ms, ms_or_none, number, signed};
use super::transaction::Tx;
use super::{FOR_PROCESS, SqliteStore, reclaim_space};
use crate::content_store::waits_since;
use crate::{
    CollectedContents, ContentStore, INLINE_BYTES_MAX, ReclaimedSpace, StagedContent, StoreError, StoredFile,
};
pub(super) use files::ContentFiles;

/// A staging that is further ahead than clocks of one boot can differ is of another boot, and no process
/// waits for it.
const AHEAD_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// Stores staged contents, which have been named now.
pub(super) fn keep(tx: &Tx<'_>, staged: &StagedContent) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO contents (hash, size, bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (hash) DO NOTHING",
        (staged.hash.as_bytes(), signed(staged.size), &staged.bytes),
    )?;
    Ok(())
}

/// An ended changeset names this state: its file, if it has one, has to outlast the power.
pub(super) fn keep_for_good(tx: &Tx<'_>, state: &FileState) -> Result<(), StoreError> {
    if state.size <= INLINE_BYTES_MAX as u64 {
        return Ok(());
    }
    let unsynced = "UPDATE contents SET synced = 1 WHERE hash = ?1 AND bytes IS NULL AND synced = 0";
    if tx.run(unsynced, [state.hash.as_bytes()])? > 0 {
        tx.sync_content(state.hash);
    }
    Ok(())
}

/// Notes that a large content is about to lie under its hash.
fn note_staged(tx: &Tx<'_>, staged: &StagedContent, now: Ms) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO contents (hash, size, staged_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (hash) DO UPDATE SET staged_at = ?3, synced = 0",
        (staged.hash.as_bytes(), signed(staged.size), ms(now)),
    )?;
    Ok(())
}

/// A content that nothing names.
struct UnreferencedContent {
    hash: Hash,
    size: u64,
    is_file: bool,
}

/// Returns the contents that nothing names but these plans.
fn find_free(tx: &Tx<'_>, now: Ms, without: &[PlanId]) -> Result<Vec<UnreferencedContent>, StoreError> {
    let without: Vec<String> = without.iter().map(ToString::to_string).collect();
    let oldest = "SELECT min(started_at) FROM jobs WHERE state = 'running'";
    let oldest = tx.the(oldest, [], |row| ms_or_none(row, 0))?;
    let waits_since = waits_since(now, oldest);
    tx.all(
        "WITH gone AS (SELECT no FROM plan_heads WHERE plan IN (SELECT value FROM json_each(?3)))
         SELECT hash, size, bytes IS NULL FROM contents
         WHERE (staged_at IS NULL OR staged_at <= ?1 OR staged_at > ?2)
           AND hash NOT IN (
               SELECT before_hash FROM change_entries WHERE before_hash IS NOT NULL AND head NOT IN gone
               UNION SELECT after_hash FROM change_entries WHERE after_hash IS NOT NULL AND head NOT IN gone
               UNION SELECT stdout_hash FROM tool_calls WHERE stdout_hash IS NOT NULL AND head NOT IN gone
               UNION SELECT stderr_hash FROM tool_calls WHERE stderr_hash IS NOT NULL AND head NOT IN gone
               UNION SELECT text_hash FROM contexts WHERE head NOT IN gone)",
        (ms(waits_since), ms(now.saturating_add(AHEAD_MAX)), SqlJson(without)),
        |row| Ok(UnreferencedContent { hash: hash(row, 0)?, size: number(row, 1)?, is_file: row.get(2)? }),
    )
}

fn collect(
    tx: &Tx<'_>,
    files: &ContentFiles,
    dry_run: bool,
    now: Ms,
) -> Result<CollectedContents, StoreError> {
    let free = find_free(tx, now, &[])?;
    let mut collected = CollectedContents::default();
    for UnreferencedContent { hash, size, is_file } in free {
        collected.contents += 1;
        collected.bytes = collected.bytes.saturating_add(size);
        if dry_run {
            continue;
        }
        tx.run("DELETE FROM contents WHERE hash = ?1", [hash.as_bytes()])?;
        if is_file {
            // Within the transaction: until it ends no process can stage the same content again.
            files.remove(&hash).map_err(|error| files::said(&error))?;
        }
    }
    Ok(collected)
}

/// Makes sure that these files are on the disk.
pub(super) fn sync_files(files: &ContentFiles, hashes: BTreeSet<Hash>) -> Result<(), StoreError> {
    files.sync(hashes).map_err(|error| files::said(&error))
}

fn failed(error: StoreError) -> io::Error {
    let kind = match error {
        StoreError::Full => io::ErrorKind::StorageFull,
        StoreError::Busy => io::ErrorKind::ResourceBusy,
        StoreError::LeaseLost(_)
        | StoreError::TooNew { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Damaged { .. }
        | StoreError::Broken { .. } => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn nothing_under(hash: &Hash) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no content with the hash {hash}"))
}

impl ContentStore for SqliteStore {
    fn stage(&self, reader: &mut dyn Read) -> io::Result<StagedContent> {
        let mut head = Vec::new();
        reader.take(INLINE_BYTES_MAX as u64 + 1).read_to_end(&mut head)?;
        if head.len() <= INLINE_BYTES_MAX {
            let (hash, size) = (Hash::from_content(&head), head.len() as u64);
            return Ok(StagedContent { hash, size, text: is_text(&head, size), bytes: Some(head) });
        }
        let written = self.files.write_beside(&head, reader)?;
        let (hash, size) = (written.hash, written.size);
        let staged = StagedContent { hash, size, text: is_text(&head, size), bytes: None };
        let (noted, now) = (staged.clone(), self.moment().now);
        self.writer.submit_blocking(FOR_PROCESS, move |tx| note_staged(tx, &noted, now)).map_err(failed)?;
        written.take_place()?;
        Ok(staged)
    }

    fn open_content(&self, hash: &Hash) -> io::Result<Box<dyn Read + Send>> {
        let bytes: Option<Option<Vec<u8>>> = self
            .read(|tx| {
                let of_hash = "SELECT bytes FROM contents WHERE hash = ?1";
                tx.one(of_hash, [hash.as_bytes()], |row| row.get(0))
            })
            .map_err(failed)?;
        match bytes {
            Some(Some(bytes)) => Ok(Box::new(Cursor::new(bytes))),
            Some(None) => Ok(Box::new(self.files.open(hash)?)),
            None => Err(nothing_under(hash)),
        }
    }

    fn content_file(&self, hash: &Hash) -> io::Result<Option<StoredFile>> {
        let is_synced: Option<bool> = self
            .read(|tx| {
                let of_file = "SELECT synced FROM contents WHERE hash = ?1 AND bytes IS NULL";
                tx.one(of_file, [hash.as_bytes()], |row| row.get(0))
            })
            .map_err(failed)?;
        Ok(is_synced.map(|is_synced| StoredFile { path: self.files.place(hash), is_synced }))
    }

    fn collect(&self, dry_run: bool) -> io::Result<CollectedContents> {
        let (files, now) = (self.files.clone(), self.moment().now);
        if !dry_run {
            let WallMs(wall) = self.moment().wall;
            self.files.remove_left_over(wall)?;
        }
        let act = move |tx: &Tx<'_>| collect(tx, &files, dry_run, now);
        self.writer.submit_blocking(FOR_PROCESS, act).map_err(failed)
    }

    fn collectable(&self, without: &[PlanId]) -> io::Result<CollectedContents> {
        let now = self.moment().now;
        let free = self.read(|tx| find_free(tx, now, without)).map_err(failed)?;
        let bytes = free.iter().fold(0, |bytes: u64, free| bytes.saturating_add(free.size));
        Ok(CollectedContents { contents: free.len() as u64, bytes })
    }

    fn give_back(&self) -> io::Result<ReclaimedSpace> {
        reclaim_space::give_back(self, &self.database).map_err(failed)
    }
}
