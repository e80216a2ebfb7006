//! The store in one SQLite file, shared by the processes of one machine.
//!
//! # Where to look
//! | file | what |
//! |---|---|
//! | `open`, `schema` | whose file it is, its version and its tables |
//! | `reclaim_space` | how the file gets smaller again |
//! | `writer` | the one thread that writes: who goes first, who is answered when |
//! | `batch` | its transactions: savepoints, durability, what a failure spoils |
//! | `readers` | connections that read concurrently with it |
//! | `transaction`, `columns` | statements, and the form of values in columns |
//! | `plan_heads` | the row from which a plan's numbers come; events |
//! | `jobs`, `plans`, `changesets`, `calls`, `nodes`, `contexts`, `contents`, `errors`, `ledger`, `applies`, `locks`, `consents` | a port each |
//!
//! # Invariants
//! 1. A write reads rows, asks a pure function of `domain` and writes rows, in one transaction of the writer.
//!    Nothing is remembered between two of them, since other processes write too.
//! 2. A write that was answered with `Ok` survives `kill -9`. A write that the specification calls durable
//!    survives a loss of power.
//! 3. The clocks are read before a write is queued, so a lease is never longer than its worker believes.
//!
//! # Not here
//! Rules (`domain`), waiting and retrying (the engine).

mod applies;
mod batch;
mod calls;
mod changesets;
mod columns;
mod consents;
mod contents;
mod contexts;
mod errors;
mod jobs;
mod ledger;
mod locks;
mod nodes;
mod open;
mod plan_heads;
mod plans;
mod readers;
mod reclaim_space;
mod schema;
mod transaction;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Ms, WallMs};
use sync::Clock;

use crate::StoreError;
use batch::Batches;
use contents::ContentFiles;
use jobs::WriteTime;
pub use open::StoreOpenError;
use readers::Readers;
use transaction::Tx;
use writer::{BOUNDS, Lane, StoreWriter, WriteDurability, WriteTerms};

/// The options with which a store is opened.
pub struct SqliteOptions {
    /// The data directory; it is made when it is not there.
    pub dir: PathBuf,
    /// The clock of leases. It has to be one for all processes of a boot, as the time since boot is.
    pub clock: Arc<dyn Clock>,
    /// The time that people read.
    pub wall: fn() -> WallMs,
}

/// Stores everything in a data directory: `agents.db`, and `contents/` for contents that are too large for
/// it.
///
/// ```
/// use std::sync::Arc;
/// use store::{JobStore, SqliteOptions, SqliteStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().to_owned();
/// let clock = Arc::new(sync::SystemClock::new());
/// let store = SqliteStore::open(SqliteOptions { dir, clock, wall: || domain::WallMs(0) })?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// assert_eq!(store.jobs(None).await?, []);
/// # Ok::<(), store::JobStoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    // In the order in which they are dropped: the writer first, so that what waits is written.
    writer: StoreWriter<Batches>,
    readers: Readers,
    files: ContentFiles,
    database: PathBuf,
    wall: fn() -> WallMs,
    clock: Arc<dyn Clock>,
}

/// A small write that survives the process.
const FOR_PROCESS: WriteTerms =
    WriteTerms { lane: Lane::Second, durability: WriteDurability::Process, bytes: 256 };
/// The same, overtaking others.
const FIRST_FOR_PROCESS: WriteTerms = WriteTerms { lane: Lane::First, ..FOR_PROCESS };
/// A small write that survives a loss of power.
const FOR_POWER: WriteTerms = WriteTerms { durability: WriteDurability::Power, ..FOR_PROCESS };
/// The same, overtaking others.
const FIRST_FOR_POWER: WriteTerms = WriteTerms { lane: Lane::First, ..FOR_POWER };

impl SqliteStore {
    /// Opens the store in a directory; makes or migrates it first, where that is needed.
    ///
    /// # Errors
    /// The file is of a newer program, foreign or damaged; the directory cannot be used or is on a network
    /// file system.
    pub fn open(options: SqliteOptions) -> Result<Self, StoreOpenError> {
        let SqliteOptions { dir, clock, wall } = options;
        let (path, reader) = open::open(&dir)?;
        let files = ContentFiles::new(dir.join("contents"));
        let readers = Readers::new(path.clone(), reader);
        Ok(Self { writer: writer(&path, &files), readers, files, database: path, wall, clock })
    }

    fn moment(&self) -> WriteTime {
        WriteTime { now: Ms::from(self.clock.now()), wall: (self.wall)() }
    }

    /// Writes in one transaction, and answers when it is committed.
    async fn write<T, E>(
        &self,
        terms: WriteTerms,
        act: impl FnOnce(&Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.writer.submit(terms, act).await
    }

    /// Reads in one transaction.
    fn read<T>(&self, act: impl FnOnce(&Tx<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.readers.read(act)
    }
}

/// The writer of this database, and of the files of contents next to it.
fn writer(database: &Path, files: &ContentFiles) -> StoreWriter<Batches> {
    let (database, files) = (database.to_owned(), files.clone());
    StoreWriter::new(BOUNDS, move || Batches::new(database.clone(), files.clone()))
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}
