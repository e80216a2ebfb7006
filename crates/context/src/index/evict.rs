//! Evicts from the disk: data derived from snapshots, facts that no file has, then whole indexes that no
//! process opens.
//!
//! # Invariants
//! 1. Facts of a file that the index lists stay, whatever the bounds say.
//! 2. An index is removed only by who holds its lock alone: none is taken from under a process. The lock goes
//!    last, and who opened it before and takes it later sees that it is gone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, params};

use super::disk::{DiskError, DiskIndex, remove_files};
use super::image;
use super::lock::{lock_path, open_lock, take_lock};

/// The key of the day of the last search for old facts.
const EVICTED_DAY: &str = "evicted_day";

/// The number of facts that go at a time.
const FACTS_AT_ONCE: i64 = 1000;

/// The tables with data that belongs to the facts of a content.
const OF_FACTS: [&str; 2] = ["outline", "parts"];

const UNUSED: &str = "hash NOT IN (SELECT hash FROM file WHERE hash IS NOT NULL)";

/// Throws away what is too old, once a day, or too much.
pub(super) fn evict(
    disk: &mut DiskIndex,
    today: i64,
    keep_days: u32,
    bytes_max: u64,
) -> Result<(), DiskError> {
    if was_done(disk, today)? && bytes_used(&disk.connection)? <= bytes_max {
        return Ok(());
    }
    let transaction = disk.begin()?;
    let is_live = "hash IN (SELECT hash FROM file WHERE hash IS NOT NULL)";
    transaction
        .prepare_cached(&format!("UPDATE facts SET used_day = ?1 WHERE used_day < ?1 AND {is_live}"))?
        .execute([today])?;
    let mut gone = transaction
        .prepare_cached(&format!("DELETE FROM facts WHERE used_day < ?1 AND {UNUSED}"))?
        .execute([today - i64::from(keep_days)])?;
    let mut was_freed = false;
    if bytes_used(&transaction)? > bytes_max {
        was_freed = transaction.execute("DELETE FROM kept", [])? > 0;
    }
    while bytes_used(&transaction)? > bytes_max {
        let oldest =
            format!("rowid IN (SELECT rowid FROM facts WHERE {UNUSED} ORDER BY used_day, rowid LIMIT ?1)");
        let delete = |from: &str| {
            let statement = format!("DELETE FROM {from}");
            Ok::<_, DiskError>(transaction.prepare_cached(&statement)?.execute([FACTS_AT_ONCE])?)
        };
        // The rows that belong to them go with them, so that no more of them go than have to.
        for of_facts in OF_FACTS {
            delete(&format!("{of_facts} WHERE hash IN (SELECT hash FROM facts WHERE {oldest})"))?;
        }
        let more = delete(&format!("facts WHERE {oldest}"))?;
        if more == 0 {
            break;
        }
        gone += more;
    }
    if gone > 0 {
        for of_facts in OF_FACTS {
            let alone = format!("DELETE FROM {of_facts} WHERE hash NOT IN (SELECT hash FROM facts)");
            transaction.execute(&alone, [])?;
        }
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO meta(key, value) VALUES(?1, ?2)")?
        .execute(params![EVICTED_DAY, today.to_string()])?;
    transaction.commit()?;
    if gone > 0 || was_freed {
        disk.connection.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(())
}

/// Returns whether this or another process has searched for old facts today: the search visits all facts.
fn was_done(disk: &DiskIndex, today: i64) -> Result<bool, DiskError> {
    let mut select = disk.connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let day: Option<String> = select.query_row([EVICTED_DAY], |row| row.get(0)).optional()?;
    Ok(day == Some(today.to_string()))
}

fn bytes_used(connection: &Connection) -> Result<u64, DiskError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let pages = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok((pages * number("PRAGMA page_size")?).unsigned_abs())
}

/// An index in the directory.
struct SiblingIndex {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Removes the indexes next to `own` that were not opened for `keep_days`, then the longest unopened until
/// all together have at most `bytes_max`.
pub(super) fn sweep(own: &Path, now_ns: i64, keep_days: u32, bytes_max: u64) {
    let Some(dir) = own.parent() else { return };
    let mut others = beside(dir);
    let mut total: u64 = others.iter().map(|index| index.bytes).sum();
    others.retain(|index| index.path != own);
    others.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).unwrap_or(0));
    let kept = Duration::from_secs(u64::from(keep_days) * 24 * 60 * 60);
    for index in others {
        let is_old = now.duration_since(index.used).is_ok_and(|age| age > kept);
        if (is_old || total > bytes_max) && remove(&index.path) {
            total -= index.bytes;
        }
    }
}

fn beside(dir: &Path) -> Vec<SiblingIndex> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let indexes = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sqlite"));
    indexes
        .map(|path| {
            let size = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
            let used = std::fs::metadata(lock_path(&path)).and_then(|lock| lock.modified());
            SiblingIndex {
                bytes: [image::EXTENSION, image::UNFINISHED, "sqlite", "sqlite-wal", "sqlite-shm"]
                    .iter()
                    .map(|extension| size(&path.with_extension(extension)))
                    .sum(),
                used: used.unwrap_or(SystemTime::UNIX_EPOCH),
                path,
            }
        })
        .collect()
}

/// Removes an index; returns whether it was removed. An index that is in use, or cannot be removed, stays for
/// another time.
pub(super) fn remove(path: &Path) -> bool {
    let Ok(lock) = open_lock(path) else { return false };
    let Ok(Some(_held)) = take_lock(lock, path, File::try_lock) else { return false };
    remove_files(path).is_ok() && std::fs::remove_file(lock_path(path)).is_ok()
}
