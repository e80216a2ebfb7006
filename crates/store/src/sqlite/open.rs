//! Opens the file: checks the owner and the version, and creates or migrates it once, by the first process.
//!
//! # Invariants
//! 1. A file that is not ours, is damaged or is of a newer program is not written to. Nor is one next to
//!    which there is the log of another database. SQLite takes any log of the right name for the file's own,
//!    and would write it over the file.
//! 2. The file appears whole: it is made next to its place and renamed, under a lock on the data directory,
//!    which migrations take too. So of many processes one makes it, one migrates it, and all others wait and
//!    find it done.
//! 3. The directory is made with mode 0700, the file with 0600; SQLite gives its helper files the mode of the
//!    file.
//!
//! # Not here
//! The tables: `schema`.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::FlockOperation;

use super::schema;

/// The database within the data directory.
const FILE_NAME: &str = "agents.db";

/// The name under which the file is made before it takes its place.
const NEW_FILE_NAME: &str = "agents.db.new";

/// The time for which another process may hold the file before this one gives up.
const BUSY_MS: u64 = 10_000;

/// The wait between two checks whether the file is free. SQLite's own waits grow to 100 ms, by which a
/// process among several busy ones would hardly ever meet a gap.
const BUSY_LOOK: Duration = Duration::from_micros(500);

/// The number of bytes that the files next to the database need to begin with.
const BESIDE_BYTES: u64 = 64 * 1024;

/// The number of compiled statements that a connection caches: more than there are.
const STATEMENTS_KEPT: usize = 128;

/// File systems of other machines, on which SQLite's shared memory does not work: NFS, SMB, SMB2, CIFS, Ceph,
/// AFS, 9P.
const NETWORK_FILE_SYSTEMS: [i64; 7] =
    [0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x00c3_6400, 0x5346_414f, 0x0102_1997];

/// The reason why a store was not opened. The file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// A newer program has been here.
    #[error("the store has version {found}; this program supports versions up to {known}")]
    TooNew {
        /// The version of the file.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The file is no store of this program.
    #[error("{} is not a store of this program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The log next to the file is that of another database.
    #[error("{} is the log of another database, not of the store next to it", log.display())]
    ForeignLog {
        /// The log.
        log: PathBuf,
    },
    /// The file is damaged.
    #[error("the store {} is damaged: {why}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The directory is on another machine.
    #[error("{} is on a network file system, where a store cannot be shared safely", path.display())]
    Unsupported {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory or the file could not be used.
    #[error("the store in {} could not be opened", path.display())]
    Io {
        /// The data directory or the file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Other processes held it for too long.
    #[error("the store is busy")]
    Busy,
}

/// The role of a connection.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Reader,
    Writer,
}

/// Makes, checks or migrates the store in `dir`, and opens it for reading. The answer has the path of the
/// file.
pub(super) fn open(dir: &Path) -> Result<(PathBuf, Connection), StoreOpenError> {
    let path = dir.join(FILE_NAME);
    let io_error = |source| StoreOpenError::Io { path: dir.to_owned(), source };
    let directory = match File::open(dir) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io_error)?;
            File::open(dir).map_err(io_error)?
        }
        Err(error) => return Err(io_error(error)),
    };
    let file_system = rustix::fs::fstatfs(&directory).map_err(|error| io_error(error.into()))?.f_type;
    if NETWORK_FILE_SYSTEMS.contains(&(file_system as i64)) {
        return Err(StoreOpenError::Unsupported { path: dir.to_owned() });
    }
    let version_in_file = match check_header(&path)? {
        Some(version) => version,
        None => {
            make(dir, &directory, &path)?;
            check_header(&path)?.unwrap_or_default()
        }
    };
    let connection = connect(&path, Role::Reader).map_err(|error| describe_open_error(&path, error))?;
    let usable = bring_up_to_date(&connection, &directory, &path, version_in_file);
    if usable.is_err() {
        // Else the last one to close it would tidy up a file that is not to be touched.
        let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }
    usable.map(|()| (path, connection))
}

fn bring_up_to_date(
    connection: &Connection,
    directory: &File,
    path: &Path,
    version_in_file: u32,
) -> Result<(), StoreOpenError> {
    let found = version(connection).map_err(|error| describe_open_error(path, error))?;
    let application: u32 = connection
        .prepare_cached("PRAGMA application_id")
        .and_then(|mut asked| asked.query_row([], |row| row.get(0)))
        .map_err(|error| describe_open_error(path, error))?;
    // The file itself is ours, and no log of ours takes it to an older version.
    if application != schema::APPLICATION_ID || found < version_in_file {
        return Err(StoreOpenError::ForeignLog { log: log_of(path) });
    }
    if found > schema::VERSION {
        return Err(StoreOpenError::TooNew { found, known: schema::VERSION });
    }
    if found < schema::VERSION {
        migrate(directory, path)?;
    }
    // The tables are looked up with the first statement anyway, and a damaged file mostly shows here.
    let probed = connection.prepare_cached("SELECT 1 FROM plan_heads LIMIT 1");
    probed.and_then(|mut probe| probe.exists([])).map(drop).map_err(|error| describe_open_error(path, error))
}

/// A connection with the settings of its role.
pub(super) fn connect(path: &Path, role: Role) -> rusqlite::Result<Connection> {
    // A reader may have to recover what a killed process left, so it opens for writing too.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    wait_when_busy(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Without this a statement is compiled again whenever a bound value might matter to a partial index. That
    // is four times the work for each entry.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(match role {
        Role::Reader => "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA query_only=ON;",
        Role::Writer => {
            "PRAGMA foreign_keys=ON; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=67108864;
             PRAGMA cache_size=-16000; PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF;"
        }
    })?;
    Ok(connection)
}

/// Returns the present version of the file, also while other processes write.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn wait_when_busy(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut since = Instant::now();
    connection.busy_handler(Some(move |looks: i32| {
        if looks == 0 {
            since = Instant::now();
        }
        thread::sleep(BUSY_LOOK);
        since.elapsed() < Duration::from_millis(BUSY_MS)
    }))
}

/// Returns the path of the log that SQLite has next to a file.
fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

/// Returns the version of the store that is there, by its first bytes; `None` if there is none. They are
/// older than the version that SQLite would return, but reading them leaves no trace.
fn check_header(path: &Path) -> Result<Option<u32>, StoreOpenError> {
    let io_error = |source| StoreOpenError::Io { path: path.to_owned(), source };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    let mut header = Vec::with_capacity(100);
    (&mut file).take(100).read_to_end(&mut header).map_err(io_error)?;
    let at = |place: usize| {
        let bytes = header.get(place..place + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes.map(u32::from_be_bytes)
    };
    if !header.starts_with(b"SQLite format 3\0") || at(68) != Some(schema::APPLICATION_ID) {
        return Err(StoreOpenError::Foreign { path: path.to_owned() });
    }
    match at(60) {
        Some(found) if found > schema::VERSION => {
            Err(StoreOpenError::TooNew { found, known: schema::VERSION })
        }
        found => Ok(Some(found.unwrap_or_default())),
    }
}

/// Makes the file, unless another process was faster.
fn make(dir: &Path, directory: &File, path: &Path) -> Result<(), StoreOpenError> {
    let io_error = |source: io::Error| StoreOpenError::Io { path: path.to_owned(), source };
    let _locked = DirectoryLock::new(directory).map_err(io_error)?;
    if path.try_exists().map_err(io_error)? {
        return Ok(());
    }
    let new = dir.join(NEW_FILE_NAME);
    for left_over in [NEW_FILE_NAME, "agents.db.new-journal", "agents.db.new-wal", "agents.db.new-shm"] {
        match fs::remove_file(dir.join(left_over)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
            Ok(()) | Err(_) => {}
        }
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(io_error)?;
    fill(&new).map_err(|error| describe_open_error(path, error))?;
    File::open(&new).and_then(|file| file.sync_all()).map_err(io_error)?;
    fs::rename(&new, path).map_err(io_error)?;
    directory.sync_all().map_err(io_error)
}

/// Writes the tables into a new file. It is synced by the caller, once.
fn fill(new: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(new, flags)?;
    // The first can only be chosen while there is no table.
    connection.execute_batch(
        "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE;",
    )?;
    schema::migrate(&connection, 0)?;
    connection.execute_batch("COMMIT; PRAGMA journal_mode=WAL;")?;
    connection.close().map_err(|(_, error)| error)
}

/// Brings an older file up to date, unless another process was faster.
fn migrate(directory: &File, path: &Path) -> Result<(), StoreOpenError> {
    let _locked = DirectoryLock::new(directory)
        .map_err(|source| StoreOpenError::Io { path: path.to_owned(), source })?;
    let run = || {
        let connection = connect(path, Role::Writer)?;
        connection.execute_batch("PRAGMA synchronous=FULL; BEGIN EXCLUSIVE;")?;
        let from = version(&connection)?;
        if from < schema::VERSION {
            schema::migrate(&connection, from)?;
        }
        connection.execute_batch("COMMIT")
    };
    run().map_err(|error| describe_open_error(path, error))
}

/// The data directory, locked for making, migrating and rewriting.
pub(super) struct DirectoryLock<'d>(&'d File);

impl<'d> DirectoryLock<'d> {
    pub(super) fn new(directory: &'d File) -> io::Result<Self> {
        rustix::fs::flock(directory, FlockOperation::LockExclusive)?;
        Ok(Self(directory))
    }
}

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        // Closing the directory frees it as well.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

fn describe_open_error(path: &Path, error: rusqlite::Error) -> StoreOpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreOpenError::Busy,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreOpenError::Corrupt { path, why: error.to_string() }
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull) if is_full(&path) => {
            StoreOpenError::Io { path, source: io::ErrorKind::StorageFull.into() }
        }
        Some(_) | None => StoreOpenError::Io { path, source: io::Error::other(error) },
    }
}

/// Returns whether the disk lacks space for the files that SQLite has next to the database. It says no more
/// than that it could not read or write.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < BESIDE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    /// A file of ours from before the first version.
    fn unmade(dir: &Path) -> PathBuf {
        let path = dir.join(FILE_NAME);
        let old = Connection::open(&path).unwrap();
        let application = schema::APPLICATION_ID;
        old.execute_batch(&format!("PRAGMA journal_mode=WAL; PRAGMA application_id={application};")).unwrap();
        path
    }

    #[test]
    fn an_older_file_is_migrated_once_by_whoever_comes_first() {
        for _ in 0..20 {
            let dir = TempDir::new().unwrap();
            unmade(dir.path());
            thread::scope(|scope| {
                let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| open(dir.path()).map(drop))).collect();
                opening.into_iter().for_each(|opened| opened.join().unwrap().unwrap());
            });
            let (_, connection) = open(dir.path()).unwrap();
            assert_eq!(version(&connection), Ok(schema::VERSION));
        }
    }

    #[test]
    fn a_migration_that_fails_leaves_the_file_as_it_was() {
        let dir = TempDir::new().unwrap();
        let path = unmade(dir.path());
        // In the way of the last step's tables.
        let old = Connection::open(&path).unwrap();
        old.execute_batch("CREATE TABLE error_records (x)").unwrap();
        assert!(matches!(open(dir.path()), Err(StoreOpenError::Io { .. })));
        assert_eq!(version(&old), Ok(0));
        let tables = old.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        assert_eq!(tables, Ok(1), "what was made before the failure is gone again");
    }

    #[test]
    fn connections_do_not_compile_a_statement_again_for_each_value() {
        let dir = TempDir::new().unwrap();
        let (path, reader) = open(dir.path()).unwrap();
        let writer = connect(&path, Role::Writer).unwrap();
        for connection in [reader, writer] {
            assert_eq!(connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG), Ok(true));
        }
    }

    #[test]
    fn the_writer_has_the_settings_that_the_promises_rest_upon() {
        let dir = TempDir::new().unwrap();
        let (path, _) = open(dir.path()).unwrap();
        let writer = connect(&path, Role::Writer).unwrap();
        let settings = [
            ("journal_mode", "wal"),
            ("synchronous", "1"),
            ("foreign_keys", "1"),
            ("journal_size_limit", "67108864"),
            ("cache_size", "-16000"),
            ("temp_store", "2"),
            ("trusted_schema", "0"),
        ];
        for (setting, expected) in settings {
            let sql = format!("SELECT CAST({setting} AS TEXT) FROM pragma_{setting}");
            let found: String = writer.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(found, expected, "{setting}");
        }
    }
}
