//! The index on disk: one SQLite file a project, shared by all processes, and disposable.
//!
//! # Invariants
//! 1. A write is one transaction: a process that is killed leaves whole batches.
//! 2. A row of a file is replaced or removed only by who looked at the file later: rows never go back in time.
//! 3. A file that is damaged or of another version is made anew, by who has it alone: whoever uses it holds a shared
//!    lock on the file beside it.
//! 4. The directory has mode 0700, the file 0600; SQLite gives its helper files the mode of the file.
//!
//! # Not here
//! What rows mean and when they stand: `update`. What is thrown away: `evict`.

use std::fs::{self, DirBuilder, File as OsFile, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::{Hash, RelPath};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};

use super::codec::{decode_facts, decode_outline, encode_facts, encode_outline};
use super::facts::FACTS_VERSION;
use super::outline::{OUTLINE_VERSION, Outline};
use super::path_only::before_reading;
use super::{Facts, File, Language};

/// Says whose file it is: `agix`.
const APPLICATION_ID: i32 = 0x6167_6978;

/// The version of the tables.
const SCHEMA_VERSION: i32 = 1;

/// How long another process may keep the file before this one goes on without it.
const BUSY: Duration = Duration::from_secs(2);

const TABLES: &str = "
    CREATE TABLE file(path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, hash BLOB, lang INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX file_hash ON file(hash);
    CREATE TABLE facts(hash BLOB NOT NULL, lang INTEGER NOT NULL, version INTEGER NOT NULL,
        used_day INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(hash, lang, version));
    CREATE TABLE outline(hash BLOB NOT NULL, lang INTEGER NOT NULL, version INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(hash, lang, version));
    CREATE TABLE commits(rank INTEGER PRIMARY KEY, oid TEXT NOT NULL UNIQUE, at INTEGER NOT NULL,
        subject TEXT NOT NULL, terms BLOB NOT NULL, paths BLOB NOT NULL);
    CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;";

/// Why the index on disk was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// Its directory or its lock cannot be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is damaged, or not of this version.
    #[error("it is damaged or of another version")]
    Unusable,
    /// Others kept it for too long.
    #[error("another process keeps it busy")]
    Busy,
    /// The file cannot be read or written.
    #[error("{0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for DiskError {
    fn from(error: rusqlite::Error) -> Self {
        #[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum")]
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Unusable,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite(error),
        }
    }
}

/// A file as it was when somebody looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
    pub(crate) inode: u64,
    /// When the look began.
    pub(crate) seen_ns: i64,
    pub(crate) file: File,
}

/// The open index of a project.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(super) connection: Connection,
    /// Held as long as the file is used.
    _lock: OsFile,
}

/// What was opened, and what to tell about it.
pub(crate) struct Opened {
    pub(crate) disk: Disk,
    pub(crate) rows: Vec<Row>,
    pub(crate) note: Option<String>,
}

/// Opens or makes the index at `path` and reads its rows.
pub(crate) fn open(path: &Path, file_bytes_max: u64, now_ns: i64) -> Result<Opened, DiskError> {
    let lock = lock_beside(path, now_ns)?;
    lock.try_lock_shared().map_err(|_| DiskError::Busy)?;
    match connect(path).and_then(|connection| Ok((load(&connection, file_bytes_max)?, connection))) {
        Ok((rows, connection)) => Ok(Opened { disk: Disk { connection, _lock: lock }, rows, note: None }),
        Err(DiskError::Unusable) => {
            lock.unlock()?;
            // Alone with it, or not at all: another process may be about to do the same.
            lock.try_lock().map_err(|_| DiskError::Busy)?;
            remove_files(path)?;
            let connection = connect(path)?;
            lock.unlock()?;
            lock.try_lock_shared().map_err(|_| DiskError::Busy)?;
            let note = Some("the index was damaged or of another version, and was made anew".to_owned());
            Ok(Opened { disk: Disk { connection, _lock: lock }, rows: Vec::new(), note })
        }
        Err(other @ (DiskError::Io(_) | DiskError::Busy | DiskError::Sqlite(_))) => Err(other),
    }
}

/// The file that says who uses the index; its time says when it was last opened.
fn lock_beside(path: &Path, now_ns: i64) -> io::Result<OsFile> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock_path(path))?;
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).unwrap_or(0));
    lock.set_modified(now)?;
    Ok(lock)
}

pub(super) fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

/// Removes an index; whoever calls holds its lock alone.
pub(super) fn remove_files(path: &Path) -> io::Result<()> {
    for extension in ["sqlite", "sqlite-wal", "sqlite-shm", "sqlite-journal"] {
        match fs::remove_file(path.with_extension(extension)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, DiskError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(_) | Err(_) => {}
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(
        "PRAGMA synchronous=OFF; PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL;
         PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA journal_size_limit=16777216;",
    )?;
    if !is_ours(&connection)? {
        make_tables(&mut connection)?;
    }
    // Not before: what is lost of an empty file is nothing.
    connection.execute_batch("PRAGMA synchronous=NORMAL")?;
    Ok(connection)
}

/// Whether the tables are there.
fn is_ours(connection: &Connection) -> Result<bool, DiskError> {
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    match (pragma("application_id")?, pragma("user_version")?) {
        (0, 0) => Ok(false),
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(true),
        _ => Err(DiskError::Unusable),
    }
}

/// Makes the tables, unless another process was faster.
fn make_tables(connection: &mut Connection) -> Result<(), DiskError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !is_ours(&transaction)? {
        let strangers: i64 =
            transaction.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        if strangers > 0 {
            return Err(DiskError::Unusable);
        }
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    Ok(transaction.commit()?)
}

/// All rows whose facts are there too.
fn load(connection: &Connection, file_bytes_max: u64) -> Result<Vec<Row>, DiskError> {
    let mut select = connection.prepare(
        "SELECT f.path, f.size, f.mtime_ns, f.ctime_ns, f.inode, f.hash, f.lang, f.seen_ns, facts.body
         FROM file f LEFT JOIN facts ON facts.hash = f.hash AND facts.lang = f.lang AND facts.version = ?1",
    )?;
    let mut found = select.query([FACTS_VERSION])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let size = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        let hash = row.get::<_, Option<Vec<u8>>>(5)?;
        let body = row.get_ref(8)?.as_blob_or_null().unwrap_or_default();
        let Ok(path) = RelPath::new(row.get_ref(0)?.as_blob().unwrap_or_default()) else { continue };
        let file = match (hash, body) {
            (None, _) => {
                before_reading(&path, size, file_bytes_max).map(|reason| File::unread(path, size, reason))
            }
            (Some(hash), Some(body)) => known(path, &hash, row.get(6)?, body),
            (Some(_), None) => None,
        };
        let Some(file) = file else { continue };
        rows.push(Row {
            size,
            mtime_ns: row.get(2)?,
            ctime_ns: row.get(3)?,
            inode: row.get::<_, i64>(4)? as u64,
            seen_ns: row.get(7)?,
            file,
        });
    }
    Ok(rows)
}

/// A file whose facts are stored; none if they cannot be read.
fn known(path: RelPath, hash: &[u8], language: u8, body: &[u8]) -> Option<File> {
    let hash = Hash::from_bytes(hash.try_into().ok()?);
    let facts = decode_facts(Language::from_code(language)?, body)?;
    Some(File { path, hash: Some(hash), path_only: facts.path_only, facts: Arc::new(facts) })
}

impl Disk {
    /// Writes rows, and the facts that are new with them.
    pub(crate) fn save<'r>(
        &mut self,
        rows: impl Iterator<Item = (&'r Row, NewFacts)>,
        today: i64,
    ) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT INTO file(path, size, mtime_ns, ctime_ns, inode, hash, lang, seen_ns)
                 VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT(path) DO UPDATE SET size=excluded.size, mtime_ns=excluded.mtime_ns,
                     ctime_ns=excluded.ctime_ns, inode=excluded.inode, hash=excluded.hash, lang=excluded.lang,
                     seen_ns=excluded.seen_ns
                 WHERE excluded.seen_ns > seen_ns",
            )?;
            for (row, new_facts) in rows {
                let hash = row.file.hash.as_ref().map(|hash| hash.as_bytes().as_slice());
                put.execute(params![
                    row.file.path.as_bytes(),
                    row.size as i64,
                    row.mtime_ns,
                    row.ctime_ns,
                    row.inode as i64,
                    hash,
                    row.file.facts.language.code(),
                    row.seen_ns
                ])?;
                if let (NewFacts::Yes, Some(hash)) = (new_facts, hash) {
                    put_facts(&transaction, hash, &row.file.facts, today)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// Removes rows that nobody has looked at since `before_ns`.
    pub(crate) fn remove<'p>(
        &mut self,
        paths: impl Iterator<Item = &'p RelPath>,
        before_ns: i64,
    ) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        for path in paths {
            transaction
                .prepare_cached("DELETE FROM file WHERE path = ?1 AND seen_ns < ?2")?
                .execute(params![path.as_bytes(), before_ns])?;
        }
        Ok(transaction.commit()?)
    }

    /// The stored outline of a content.
    pub(crate) fn outline(&self, hash: &Hash, language: Language) -> Result<Option<Outline>, DiskError> {
        let mut select = self
            .connection
            .prepare_cached("SELECT body FROM outline WHERE hash = ?1 AND lang = ?2 AND version = ?3")?;
        let key = params![hash.as_bytes().as_slice(), language.code(), OUTLINE_VERSION];
        let body: Option<Vec<u8>> = select.query_row(key, |row| row.get(0)).optional()?;
        Ok(body.and_then(|body| decode_outline(&body)))
    }

    /// Stores outlines of contents.
    pub(crate) fn save_outlines<'o>(
        &mut self,
        outlines: impl Iterator<Item = (&'o Hash, Language, &'o Outline)>,
    ) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        for (hash, language, outline) in outlines {
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO outline(hash, lang, version, body) VALUES(?1, ?2, ?3, ?4)",
                )?
                .execute(params![
                    hash.as_bytes().as_slice(),
                    language.code(),
                    OUTLINE_VERSION,
                    encode_outline(outline)
                ])?;
        }
        Ok(transaction.commit()?)
    }

    /// How many contents are known, and how many bytes the file has.
    pub(crate) fn size(&self) -> Result<(u64, u64), DiskError> {
        let number = |sql: &str| self.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let facts = number("SELECT count(*) FROM facts")?;
        let bytes = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
        Ok((facts.unsigned_abs(), bytes.unsigned_abs()))
    }

    pub(super) fn begin(&mut self) -> Result<Transaction<'_>, DiskError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }
}

/// Whether the facts of a row are to be written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewFacts {
    Yes,
    No,
}

fn put_facts(transaction: &Transaction<'_>, hash: &[u8], facts: &Facts, today: i64) -> Result<(), DiskError> {
    // Replaced, not ignored: what is there may not be readable.
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO facts(hash, lang, version, used_day, body) VALUES(?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![hash, facts.language.code(), FACTS_VERSION, today, encode_facts(facts)])?;
    Ok(())
}
