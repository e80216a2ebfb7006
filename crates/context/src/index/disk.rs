//! The index on disk: one SQLite file a project, shared by all processes, and disposable.
//!
//! # Invariants
//! 1. A write is one transaction: a process that is killed leaves whole batches.
//! 2. A row of a file is replaced or removed only by a process that looked at the file later: rows never go
//!    back in time.
//! 3. A file that is damaged or of another version is recreated, by a process that has it alone. Every
//!    process that uses it holds a shared lock on the lock file next to it.
//! 4. A body is bound to the key that it is stored under: under another it cannot be read.
//! 5. The directory has mode 0700, the file 0600; SQLite gives its helper files the mode of the file.
//!
//! # Not here
//! The meaning of rows and the rule for when they are valid: `update`. Eviction: `evict`.

use std::collections::HashSet;
use std::fs::{self, File as OsFile, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{Hash, RelPath};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, ffi, params,
};

use super::codec::{SUM_BYTES, decode_outline, encode_outline};
use super::facts::FACTS_VERSION;
use super::image::{self, ReadImage};
use super::lock::{hold_shared, take_lock};
use super::outline::{OUTLINE_VERSION, Outline};
use super::parts::PARTS_VERSION;
use super::path_only_files::before_reading;
use super::{ContentParts, Encoded, Facts, File, Language};

/// Says whose file it is: `agix`.
const APPLICATION_ID: i32 = 0x6167_6978;

/// The version of the tables.
const SCHEMA_VERSION: i32 = 3;

/// The most bytes of memory that are reserved before anything is read.
const BODIES_BYTES_MAX: usize = 1 << 30;

/// The number of derived values that are stored: that of the project, and of a few plans that changed it.
const KEPT_MAX: u32 = 4;

/// More that followed from a snapshot is found again.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The time for which another process may hold the file before this one continues without it.
const BUSY: Duration = Duration::from_secs(2);

const TABLES: &str = "
    CREATE TABLE file(path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, hash BLOB, lang INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX file_hash ON file(hash);
    CREATE INDEX file_seen ON file(seen_ns);
    CREATE TABLE facts(hash BLOB NOT NULL, lang INTEGER NOT NULL, version INTEGER NOT NULL,
        used_day INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY(hash, lang, version));
    CREATE TABLE outline(hash BLOB NOT NULL, lang INTEGER NOT NULL, version INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(hash, lang, version));
    CREATE TABLE parts(hash BLOB NOT NULL, lang INTEGER NOT NULL, version INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY(hash, lang, version));
    CREATE TABLE kept(no INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, body BLOB NOT NULL);
    CREATE TABLE commits(rank INTEGER PRIMARY KEY, oid TEXT NOT NULL UNIQUE, at INTEGER NOT NULL,
        subject TEXT NOT NULL, terms BLOB NOT NULL, paths BLOB NOT NULL);
    CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;";

/// The reason why the index on disk was not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// Its directory or its lock cannot be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is damaged, or not of this version.
    #[error("it is damaged or of another version")]
    Unusable,
    /// Other processes held it for too long.
    #[error("another process is using it")]
    Busy,
    /// There is no room left.
    #[error("the disk is full")]
    Full,
    /// The file cannot be read or written.
    #[error("{0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for DiskError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error;
        #[allow(clippy::wildcard_enum_match_arm, reason = "foreign enums")]
        match &error {
            Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => Self::Unusable,
                // Our own statements are right: the tables are not ours.
                ErrorCode::Unknown if failure.extended_code == ffi::SQLITE_ERROR => Self::Unusable,
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
                ErrorCode::DiskFull => Self::Full,
                _ => Self::Sqlite(error),
            },
            Error::SqlInputError { .. } => Self::Unusable,
            // The stored value is nothing that we write.
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::QueryReturnedNoRows
            | Error::Utf8Error(..) => Self::Unusable,
            _ => Self::Sqlite(error),
        }
    }
}

/// A file as it was at the time of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
    pub(crate) ctime_ns: i64,
    pub(crate) inode: u64,
    /// The time when the look began.
    pub(crate) seen_ns: i64,
    pub(crate) file: File,
}

/// The open index of a project.
#[derive(Debug)]
pub(crate) struct DiskIndex {
    pub(super) connection: Connection,
    /// Held as long as the file is used.
    _lock: OsFile,
}

/// An opened index, and the notes about it.
pub(crate) struct OpenedDisk {
    pub(crate) disk: DiskIndex,
    pub(crate) rows: Vec<IndexRow>,
    /// The number of rows that are not those of the image; none: there is no image.
    pub(crate) beside_image: Option<usize>,
    pub(crate) note: Option<String>,
}

/// Opens or makes the index at `path` and reads its rows.
pub(crate) fn open(path: &Path, file_bytes_max: u64, now_ns: i64) -> Result<OpenedDisk, DiskError> {
    let lock = hold_shared(path, now_ns)?;
    let read = connect(path).and_then(|connection| {
        let (rows, beside_image) = read_all(&connection, path, file_bytes_max, now_ns)?;
        Ok((connection, rows, beside_image))
    });
    match read {
        Ok((connection, rows, beside_image)) => {
            Ok(OpenedDisk { disk: DiskIndex { connection, _lock: lock }, rows, beside_image, note: None })
        }
        Err(DiskError::Unusable) => {
            lock.unlock()?;
            // Alone with it, or not at all: another process may be about to do the same.
            let lock = take_lock(lock, path, OsFile::try_lock)?.ok_or(DiskError::Busy)?;
            remove_files(path)?;
            let connection = connect(path)?;
            lock.unlock()?;
            let lock = take_lock(lock, path, OsFile::try_lock_shared)?.ok_or(DiskError::Busy)?;
            let note = Some("the index was damaged or of another version, and was rebuilt".to_owned());
            let disk = DiskIndex { connection, _lock: lock };
            Ok(OpenedDisk { disk, rows: Vec::new(), beside_image: None, note })
        }
        Err(other @ (DiskError::Io(_) | DiskError::Busy | DiskError::Full | DiskError::Sqlite(_))) => {
            Err(other)
        }
    }
}

/// Removes an index. The caller must hold its lock exclusively.
pub(super) fn remove_files(path: &Path) -> io::Result<()> {
    // The image first: without the tables it is of no use.
    let images = [image::EXTENSION, image::UNFINISHED];
    for extension in images.into_iter().chain(["sqlite", "sqlite-wal", "sqlite-shm", "sqlite-journal"]) {
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

/// Returns whether the tables exist.
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

/// Returns all rows: those of the image and the newer ones, or all of the tables. If there is an image, also
/// returns how many are not in it.
fn read_all(
    connection: &Connection,
    path: &Path,
    file_bytes_max: u64,
    now_ns: i64,
) -> Result<(Vec<IndexRow>, Option<usize>), DiskError> {
    let image = image::read(path).filter(|image| image.newest_ns <= now_ns);
    let Some(ReadImage { mut rows, newest_ns }) = image else {
        // The file's own numbers are not to be relied on: no more memory is reserved than usual.
        let expected = file_bytes(connection)?.min(BODIES_BYTES_MAX);
        return Ok((load(connection, i64::MIN, expected, file_bytes_max)?, None));
    };
    let newer = load(connection, newest_ns, 0, file_bytes_max)?;
    let mut beside = newer.len();
    let replaced: HashSet<&RelPath> = newer.iter().map(|row| &row.file.path).collect();
    rows.retain(|row| !replaced.contains(&row.file.path));
    let all: i64 = connection.query_row("SELECT count(*) FROM file", [], |row| row.get(0))?;
    if all != (rows.len() + newer.len()) as i64 {
        let listed = paths(connection)?;
        let before = rows.len();
        rows.retain(|row| listed.contains(&row.file.path));
        beside += before - rows.len();
    }
    rows.extend(newer);
    Ok((rows, Some(beside)))
}

/// The paths of all files.
fn paths(connection: &Connection) -> Result<HashSet<RelPath>, DiskError> {
    let mut select = connection.prepare("SELECT path FROM file")?;
    let mut found = select.query([])?;
    let mut paths = HashSet::new();
    while let Some(row) = found.next()? {
        paths.extend(RelPath::new(row.get_ref(0)?.as_blob().unwrap_or_default()));
    }
    Ok(paths)
}

/// Loads all rows of a later look whose facts exist too. Reserves memory for `expected` bytes of facts.
fn load(
    connection: &Connection,
    after_ns: i64,
    expected: usize,
    file_bytes_max: u64,
) -> Result<Vec<IndexRow>, DiskError> {
    let mut select = connection.prepare(
        "SELECT f.path, f.size, f.mtime_ns, f.ctime_ns, f.inode, f.hash, f.lang, f.seen_ns, facts.body
         FROM file f LEFT JOIN facts ON facts.hash = f.hash AND facts.lang = f.lang AND facts.version = ?1
         WHERE f.seen_ns > ?2",
    )?;
    let mut found = select.query(params![FACTS_VERSION, after_ns])?;
    let (mut bodies, mut stats) = (Vec::new(), Vec::new());
    // If there is no memory for all at once, they are taken bit by bit.
    let _ = bodies.try_reserve(expected);
    while let Some(row) = found.next()? {
        let Ok(path) = RelPath::new(row.get_ref(0)?.as_blob().unwrap_or_default()) else { continue };
        let body = row.get_ref(8)?.as_blob_or_null().ok().flatten();
        let hash =
            row.get_ref(5)?.as_blob_or_null().ok().flatten().map(|hash| <[u8; 32]>::try_from(hash).ok());
        let from = bodies.len();
        bodies.extend_from_slice(body.unwrap_or_default());
        bind(&mut bodies[from..], hash.flatten().as_ref());
        stats.push(StoredRow {
            path,
            size: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
            mtime_ns: row.get(2)?,
            ctime_ns: row.get(3)?,
            inode: row.get::<_, i64>(4)? as u64,
            seen_ns: row.get(7)?,
            hash,
            language: row.get(6)?,
            body: from..bodies.len(),
        });
    }
    let bodies = Arc::new(bodies);
    Ok(stats.into_iter().filter_map(|stored| stored.row(&bodies, file_bytes_max)).collect())
}

/// The facts of a content, by who has nothing else of the index at `path` at hand; none if they cannot be
/// had.
pub(super) fn facts_alone(path: &Path, hash: &Hash, language: Language) -> Option<Vec<u8>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).ok()?;
    let select = "SELECT body FROM facts WHERE hash = ?1 AND lang = ?2 AND version = ?3";
    let key = params![hash.as_bytes().as_slice(), language.code(), FACTS_VERSION];
    let body: Vec<u8> = connection.query_row(select, key, |row| row.get(0)).ok()?;
    Some(bound(hash, body))
}

/// Returns the size of the file: nothing read from it is larger.
fn file_bytes(connection: &Connection) -> Result<usize, DiskError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(usize::try_from(number("PRAGMA page_count")? * number("PRAGMA page_size")?).unwrap_or(0))
}

/// A row as it is stored.
struct StoredRow {
    path: RelPath,
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
    inode: u64,
    seen_ns: i64,
    /// The hash of the content. `None` if the file was not read; `Some(None)` if the stored value is no hash.
    hash: Option<Option<[u8; 32]>>,
    language: u8,
    /// The range of the facts among all bytes that were read.
    body: Range<usize>,
}

impl StoredRow {
    /// The row, if its facts can be read.
    fn row(self, bodies: &Arc<Vec<u8>>, file_bytes_max: u64) -> Option<IndexRow> {
        let StoredRow { path, size, mtime_ns, ctime_ns, inode, seen_ns, hash, language, body } = self;
        let file = match hash {
            None => {
                let reason = before_reading(&path, size, file_bytes_max)?;
                File::unread(path, size, reason)
            }
            Some(hash) => {
                let facts =
                    Facts::from_stored(Language::from_code(language)?, Encoded::from_range(bodies, body)?)?;
                File::scanned(path, Hash::from_bytes(hash?), Arc::new(facts))
            }
        };
        Some(IndexRow { size, mtime_ns, ctime_ns, inode, seen_ns, file })
    }
}

impl DiskIndex {
    /// Moves the log into the file as far as no other connection uses it, without waiting.
    pub(super) fn take_log_in(&mut self) -> Result<(), DiskError> {
        Ok(self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
    }

    /// Writes rows, and the facts that are new with them.
    pub(crate) fn save<'r>(
        &mut self,
        rows: impl Iterator<Item = (&'r IndexRow, &'r RowContent)>,
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
            for (row, new) in rows {
                let hash = row.file.hash.as_ref();
                put.execute(params![
                    row.file.path.as_bytes(),
                    row.size as i64,
                    row.mtime_ns,
                    row.ctime_ns,
                    row.inode as i64,
                    hash.map(|hash| hash.as_bytes().as_slice()),
                    row.file.facts.language.code(),
                    row.seen_ns
                ])?;
                if let (RowContent::Facts(parts), Some(hash)) = (new, hash) {
                    put_facts(&transaction, hash, &row.file.facts, today)?;
                    if let Some(parts) = parts {
                        put_parts(&transaction, hash, row.file.facts.language, parts)?;
                    }
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// Removes rows that no process has looked at since `before_ns`.
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
        Ok(body.and_then(|body| decode_outline(&bound(hash, body))))
    }

    /// Stores outlines of contents.
    pub(crate) fn save_outlines<'o>(
        &mut self,
        outlines: impl Iterator<Item = (&'o Hash, Language, &'o Outline)>,
    ) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        for (hash, language, outline) in outlines {
            put_beside_facts(
                &transaction,
                "outline",
                (hash, language, OUTLINE_VERSION),
                encode_outline(outline),
            )?;
        }
        Ok(transaction.commit()?)
    }

    /// The stored parts of a content.
    pub(crate) fn parts(&self, hash: &Hash, language: Language) -> Result<Option<ContentParts>, DiskError> {
        let mut select = self
            .connection
            .prepare_cached("SELECT body FROM parts WHERE hash = ?1 AND lang = ?2 AND version = ?3")?;
        let key = params![hash.as_bytes().as_slice(), language.code(), PARTS_VERSION];
        let body: Option<Vec<u8>> = select.query_row(key, |row| row.get(0)).optional()?;
        Ok(body.and_then(|body| ContentParts::from_stored(bound(hash, body))))
    }

    /// Stores parts of contents.
    pub(crate) fn save_parts(&mut self, parts: &[(Hash, Language, ContentParts)]) -> Result<(), DiskError> {
        self.at_once(|disk| {
            let transaction = disk.begin()?;
            for (hash, language, parts) in parts {
                put_parts(&transaction, hash, *language, parts)?;
            }
            Ok(transaction.commit()?)
        })
    }

    /// Returns the value derived from a snapshot that is stored under this key; `None` if there is none.
    pub(crate) fn load_derived(&self, key: &Hash) -> Result<Option<Vec<u8>>, DiskError> {
        let mut select = self.connection.prepare_cached("SELECT body FROM kept WHERE key = ?1")?;
        let body: Option<Vec<u8>> =
            select.query_row([key.as_bytes().as_slice()], |row| row.get(0)).optional()?;
        Ok(body.map(|body| bound(key, body)))
    }

    /// Stores the data derived from a snapshot, unless it is too large. The oldest are evicted.
    pub(crate) fn store_derived(&mut self, key: &Hash, body: &[u8]) -> Result<(), DiskError> {
        if body.len() > KEPT_BYTES_MAX {
            return Ok(());
        }
        self.at_once(|disk| disk.keep_now(key, body))
    }

    fn keep_now(&mut self, key: &Hash, body: &[u8]) -> Result<(), DiskError> {
        let transaction = self.begin()?;
        let put = "INSERT OR REPLACE INTO kept(key, body) VALUES(?1, ?2)";
        transaction.execute(put, params![key.as_bytes().as_slice(), bound(key, body.to_vec())])?;
        let old = "DELETE FROM kept WHERE no NOT IN (SELECT no FROM kept ORDER BY no DESC LIMIT ?1)";
        transaction.execute(old, [KEPT_MAX])?;
        Ok(transaction.commit()?)
    }

    /// Returns the number of known contents and the size of the file in bytes.
    pub(crate) fn size(&self) -> Result<(u64, u64), DiskError> {
        let count = "SELECT count(*) FROM facts";
        let facts = self.connection.query_row(count, [], |row| row.get::<_, i64>(0))?;
        Ok((facts.unsigned_abs(), file_bytes(&self.connection)? as u64))
    }

    /// Writes data that can be found again, unless another process is writing. The caller is about to answer,
    /// so it does not wait.
    fn at_once(
        &mut self,
        act: impl FnOnce(&mut DiskIndex) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let acted = act(self);
        self.connection.busy_timeout(BUSY)?;
        match acted {
            Err(DiskError::Busy) => Ok(()),
            acted => acted,
        }
    }

    pub(super) fn begin(&mut self) -> Result<Transaction<'_>, DiskError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }
}

/// The content to be written with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowContent {
    /// Its content was known.
    Nothing,
    /// Its facts, and its parts where they are at hand.
    Facts(Option<ContentParts>),
}

fn put_facts(transaction: &Transaction<'_>, hash: &Hash, facts: &Facts, today: i64) -> Result<(), DiskError> {
    // Without them the row is not believed, and the file is read again.
    if facts.is_lost() {
        return Ok(());
    }
    let body = bound(hash, facts.encoded().to_vec());
    // Replaced, not ignored: what is there may not be readable.
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO facts(hash, lang, version, used_day, body) VALUES(?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![hash.as_bytes().as_slice(), facts.language.code(), FACTS_VERSION, today, body])?;
    Ok(())
}

fn put_parts(
    transaction: &Transaction<'_>,
    hash: &Hash,
    language: Language,
    parts: &ContentParts,
) -> Result<(), DiskError> {
    put_beside_facts(transaction, "parts", (hash, language, PARTS_VERSION), parts.encoded().to_vec())
}

/// Stores data that belongs to facts, only if the facts exist. It is removed with them, and text that a plan
/// wrote in its sandbox leaves nothing here.
fn put_beside_facts(
    transaction: &Transaction<'_>,
    table: &str,
    (hash, language, version): (&Hash, Language, u32),
    body: Vec<u8>,
) -> Result<(), DiskError> {
    transaction
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO {table}(hash, lang, version, body)
             SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM facts WHERE hash = ?1 AND lang = ?2)"
        ))?
        .execute(params![hash.as_bytes().as_slice(), language.code(), version, bound(hash, body)])?;
    Ok(())
}

/// Binds a body to the key that it is stored under, or frees it again. Its sum is right only with this key,
/// so that what damage puts under another key is not taken for that one's.
fn bind(body: &mut [u8], key: Option<&[u8; 32]>) {
    let key = key.into_iter().flatten();
    body.iter_mut().take(SUM_BYTES).zip(key).for_each(|(byte, key)| *byte ^= key);
}

fn bound(key: &Hash, mut body: Vec<u8>) -> Vec<u8> {
    bind(&mut body, Some(key.as_bytes()));
    body
}
