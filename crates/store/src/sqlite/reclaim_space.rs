//! Gives the space back that deleted rows left in the database file.
//!
//! `plan gc` asks for it. A file that this version makes records where its pages belong (`auto_vacuum`). So
//! free pages are moved to its end and cut off, in several short writes. A file of an older version is
//! rewritten once (`VACUUM`), if enough of it is free.
//!
//! # Invariants
//! 1. Rewriting is one transaction of SQLite: a process that is killed in the middle of it leaves the file as
//!    it was.
//! 2. Of all processes one rewrites at a time, under the lock that making and migrating take.
//! 3. It begins only if the disk has space for a second copy of all stored rows. It does not begin while it
//!    would block the heartbeats of running plans.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::open::{DirectoryLock, Role, connect};
use super::transaction::{Tx, said};
use super::{FOR_PROCESS, SqliteStore};
use crate::{ReclaimedSpace, StoreError};

/// So many pages are cut off with one write.
const PAGES_AT_ONCE: u32 = 2_000;
/// A file with fewer free bytes is not rewritten.
const FREE_BYTES_MIN: u64 = 4 << 20;
/// A file of which a smaller share is free is not rewritten.
const FREE_SHARE: u64 = 4;
/// The number of bytes that can be rewritten within a moment, also while plans run.
const QUICK_BYTES_MAX: u64 = 64 << 20;
/// The number of bytes that must stay free on the disk in addition to the copy.
const SPARE_BYTES: u64 = 16 << 20;
/// The value of the setting by which free pages can be cut off.
const INCREMENTAL: u64 = 2;

/// The fill level of the file.
struct FileFill {
    page_bytes: u64,
    pages: u64,
    free_pages: u64,
    is_incremental: bool,
    has_live_jobs: bool,
}

impl FileFill {
    fn read(tx: &Tx<'_>) -> Result<Self, StoreError> {
        let number = |sql| tx.the(sql, [], |row| row.get::<_, i64>(0));
        let number = |sql| number(sql).map(|value| u64::try_from(value).unwrap_or(0));
        let live = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'running')";
        Ok(Self {
            page_bytes: number("PRAGMA page_size")?,
            pages: number("PRAGMA page_count")?,
            free_pages: number("PRAGMA freelist_count")?,
            is_incremental: number("PRAGMA auto_vacuum")? == INCREMENTAL,
            has_live_jobs: number(live)? == 1,
        })
    }

    fn free_bytes(&self) -> u64 {
        self.free_pages.saturating_mul(self.page_bytes)
    }

    fn used_bytes(&self) -> u64 {
        self.pages.saturating_sub(self.free_pages).saturating_mul(self.page_bytes)
    }

    fn is_worth_rewriting(&self) -> bool {
        self.free_bytes() >= FREE_BYTES_MIN && self.free_pages.saturating_mul(FREE_SHARE) >= self.pages
    }
}

/// Gives back what can be given back.
pub(super) fn give_back(store: &SqliteStore, database: &Path) -> Result<ReclaimedSpace, StoreError> {
    let before = bytes_of(database);
    let fill = store.read(FileFill::read)?;
    let mut kept_because = None;
    if fill.is_incremental {
        cut_off(store, fill.free_pages)?;
        checkpoint(database)?;
    } else if fill.is_worth_rewriting() {
        kept_because = rewrite(database, &fill)?;
    }
    let kept_bytes = store.read(FileFill::read)?.free_bytes();
    Ok(ReclaimedSpace { bytes: before.saturating_sub(bytes_of(database)), kept_bytes, kept_because })
}

/// Moves free pages to the end and cuts them off, a few at a time: others write in between.
fn cut_off(store: &SqliteStore, mut free_pages: u64) -> Result<(), StoreError> {
    while free_pages > 0 {
        let left = store.writer.submit_blocking(FOR_PROCESS, |tx: &Tx<'_>| {
            tx.all(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"), [], |_| Ok(()))?;
            Ok::<_, StoreError>(FileFill::read(tx)?.free_pages)
        })?;
        if left >= free_pages {
            break;
        }
        free_pages = left;
    }
    Ok(())
}

/// Rewrites the file without its free pages; returns the reason if that has to wait.
fn rewrite(database: &Path, fill: &FileFill) -> Result<Option<String>, StoreError> {
    let broken = |error: io::Error| StoreError::Broken { why: error.to_string() };
    let used = fill.used_bytes();
    if fill.has_live_jobs && used > QUICK_BYTES_MAX {
        return Ok(Some("plans are running; try again when none is".to_owned()));
    }
    let dir = database.parent().unwrap_or(Path::new("/"));
    // The copy goes through the log, so that both are on the disk for a moment.
    let needed = used.saturating_mul(2).saturating_add(SPARE_BYTES);
    let disk = rustix::fs::statvfs(dir).map_err(|errno| broken(errno.into()))?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
        return Ok(Some(format!("it needs {} MiB of free disk space", needed >> 20)));
    }
    let directory = File::open(dir).map_err(broken)?;
    let _locked = DirectoryLock::new(&directory).map_err(broken)?;
    let run = || {
        let connection = connect(database, Role::Writer)?;
        if used > QUICK_BYTES_MAX {
            connection.execute_batch("PRAGMA temp_store=FILE")?;
        }
        connection.execute_batch("PRAGMA synchronous=FULL; PRAGMA auto_vacuum=INCREMENTAL; VACUUM;")
    };
    run().map_err(|error| said(&error))?;
    checkpoint(database)?;
    Ok(None)
}

/// Moves the log into the database and empties it, as far as no other process reads it.
fn checkpoint(database: &Path) -> Result<(), StoreError> {
    let run = || -> rusqlite::Result<()> {
        let connection: Connection = connect(database, Role::Writer)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    run().map_err(|error| said(&error))
}

/// The bytes of the database and of its log.
fn bytes_of(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    bytes(database).saturating_add(bytes(Path::new(&log)))
}
