//! One batch of writes on SQLite, from `BEGIN IMMEDIATE` to `COMMIT`.
//!
//! # Invariants
//! 1. A batch is committed whole or not at all, and the writer learns which.
//! 2. `synchronous` is changed between transactions only, and is FULL in the commit of a batch with a durable
//!    write. Such a commit makes all earlier ones durable too, because they are before it in the same log.
//! 3. Files of contents that a batch refers to are on the disk before its commit.
//!
//! # Not here
//! The choice of the writes that share a batch, and the order of the answers: the writer's business.

use std::cmp::Ordering;
use std::path::PathBuf;

use rusqlite::Connection;

use super::contents::{ContentFiles, sync_files};
use super::open::{Role, connect, version};
use super::schema;
use super::transaction::{Tx, TxFailure, said};
use super::writer::{BatchCommitter, FailedBatch, PendingWrite, WriteDurability};
use crate::StoreError;

/// Writes batches, on a connection that it opens with the first.
pub(super) struct Batches {
    database: PathBuf,
    files: ContentFiles,
    connection: Option<Connection>,
    durability: WriteDurability,
    has_unmoved: bool,
}

impl Batches {
    pub(super) fn new(database: PathBuf, files: ContentFiles) -> Self {
        Self { database, files, connection: None, durability: WriteDurability::Process, has_unmoved: false }
    }

    /// Opens the connection, and makes it as durable as the batch wants it.
    fn prepare(&mut self, wanted: WriteDurability) -> Result<(), FailedBatch> {
        let cannot = |error: rusqlite::Error| FailedBatch::for_now(said(&error));
        if self.connection.is_none() {
            self.connection = Some(connect(&self.database, Role::Writer).map_err(cannot)?);
        }
        if let Some(connection) = self.connection.as_ref().filter(|_| self.durability != wanted) {
            // Not a prepared one: SQLite obeys this pragma while it reads it, not when it runs.
            connection
                .execute_batch(match wanted {
                    WriteDurability::Process => "PRAGMA synchronous=NORMAL",
                    WriteDurability::Power => "PRAGMA synchronous=FULL",
                })
                .map_err(cannot)?;
            self.durability = wanted;
        }
        Ok(())
    }
}

impl BatchCommitter for Batches {
    type Tx<'t> = Tx<'t>;

    fn commit(&mut self, writes: &mut [PendingWrite<Self>]) -> Result<(), FailedBatch> {
        let durability = writes.iter().map(PendingWrite::durability).max();
        self.prepare(durability.unwrap_or(WriteDurability::Process))?;
        let Some(connection) = &self.connection else { return Ok(()) };
        begin(connection)?;
        let done = run_all(connection, &self.files, writes).and_then(|()| end(connection));
        if done.is_err() && !connection.is_autocommit() {
            // When even this fails the file is as before the batch: nothing of it has reached the log.
            let _ = statement(connection, "ROLLBACK");
        }
        self.has_unmoved |= done.is_ok();
        done
    }

    /// Returns whether something was written since the log was last moved into the database.
    fn has_unmoved(&self) -> bool {
        self.has_unmoved
    }

    /// Moves what the log holds into the database, as far as no reader needs it there.
    fn checkpoint(&mut self) {
        if let Some(connection) = self.connection.as_ref().filter(|_| self.has_unmoved) {
            // It is a convenience: SQLite does the same when the log has grown, or is opened again.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
        self.has_unmoved = false;
    }
}

fn statement(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn begin(connection: &Connection) -> Result<(), FailedBatch> {
    statement(connection, "BEGIN IMMEDIATE").map_err(|error| failed(&error))?;
    let found = version(connection).map_err(|error| failed(&error))?;
    match found.cmp(&schema::VERSION) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(FailedBatch::for_good(StoreError::TooNew { found, known: schema::VERSION })),
        Ordering::Less => {
            let why = format!("it now has version {found}; this program writes version {}", schema::VERSION);
            Err(FailedBatch::for_good(StoreError::Broken { why }))
        }
    }
}

fn run_all(
    connection: &Connection,
    files: &ContentFiles,
    writes: &mut [PendingWrite<Batches>],
) -> Result<(), FailedBatch> {
    let tx = Tx::new(connection);
    let alone = writes.len() == 1;
    for pending in writes {
        if !alone {
            statement(connection, "SAVEPOINT write").map_err(|error| failed(&error))?;
        }
        let keep = pending.run(&tx);
        match tx.trouble() {
            Some(TxFailure::Store(error)) => return Err(FailedBatch::for_good(error)),
            Some(TxFailure::Transaction(error)) => return Err(FailedBatch::for_now(error)),
            Some(TxFailure::Statement) | None => {}
        }
        if alone && !keep {
            return statement(connection, "ROLLBACK").map_err(|error| failed(&error));
        }
        if !alone {
            let undo = if keep { Ok(()) } else { statement(connection, "ROLLBACK TO write") };
            undo.and_then(|()| statement(connection, "RELEASE write")).map_err(|error| failed(&error))?;
        }
    }
    sync_files(files, tx.contents_to_sync()).map_err(of_kind)
}

/// Ends the transaction, unless its only write was undone before.
fn end(connection: &Connection) -> Result<(), FailedBatch> {
    if connection.is_autocommit() {
        return Ok(());
    }
    statement(connection, "COMMIT").map_err(|error| failed(&error))
}

fn failed(error: &rusqlite::Error) -> FailedBatch {
    of_kind(said(error))
}

/// A failed step of the transaction itself. Only lack of space and of time pass by themselves.
fn of_kind(error: StoreError) -> FailedBatch {
    match error {
        StoreError::Busy | StoreError::Full => FailedBatch::for_now(error),
        StoreError::TooNew { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Damaged { .. }
        | StoreError::Broken { .. }
        | StoreError::LeaseLost(_) => FailedBatch::for_good(error),
    }
}
