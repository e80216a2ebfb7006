//! A transaction as the ports see it: statements that are prepared once, and errors in the store's words.
//!
//! # Invariants
//! 1. Every statement of every port goes through a [`Tx`], so no error of SQLite goes unnoticed. Even if a
//!    port turned it into another answer, [`Tx::trouble`] still reports it to the writer.
//! 2. A port never begins, commits or undoes anything itself.
//!
//! # Not here
//! The begin and end of a transaction: `writer` and `readers`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use domain::Hash;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row};

use crate::StoreError;

/// The extent of the damage of an error of SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TxFailure {
    /// This one statement was wrong; the other writes of the same transaction are valid.
    Statement,
    /// Nothing of the transaction can be committed, but the next one may succeed.
    Transaction(StoreError),
    /// The file can no longer be trusted with writes.
    Store(StoreError),
}

/// One transaction, of the writer or of a reader.
pub(super) struct Tx<'c> {
    connection: &'c Connection,
    trouble: Cell<Option<TxFailure>>,
    to_sync: RefCell<BTreeSet<Hash>>,
}

impl<'c> Tx<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, trouble: Cell::new(None), to_sync: RefCell::default() }
    }

    /// Runs a statement and says how many rows it changed.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        self.heard(self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params)))
    }

    /// The only row, or none.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let found = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_row(params, read).optional());
        self.heard(found)
    }

    /// The row that has to be there: a count, or what was just written.
    pub(super) fn the<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let found =
            self.connection.prepare_cached(sql).and_then(|mut statement| statement.query_row(params, read));
        self.heard(found)
    }

    /// All rows, in their order.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let found = self.connection.prepare_cached(sql).and_then(|mut statement| {
            statement.query_map(params, read).and_then(|rows| rows.collect::<rusqlite::Result<Vec<T>>>())
        });
        self.heard(found)
    }

    /// Each row, in their order, one at a time.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        act: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| {
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                act(row)?;
            }
            Ok(())
        });
        self.heard(done)
    }

    /// The file of this content has to be on the disk before the transaction is.
    pub(super) fn sync_content(&self, hash: Hash) {
        self.to_sync.borrow_mut().insert(hash);
    }

    /// The contents whose files have to be on the disk before the transaction is.
    pub(super) fn contents_to_sync(&self) -> BTreeSet<Hash> {
        self.to_sync.take()
    }

    /// The worst that a statement met since this was last asked.
    pub(super) fn trouble(&self) -> Option<TxFailure> {
        self.trouble.take()
    }

    fn heard<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| {
            let said = said(&error);
            let met = trouble_of(&error, &said);
            let worst = match self.trouble.take() {
                Some(known @ (TxFailure::Transaction(_) | TxFailure::Store(_))) => known,
                Some(TxFailure::Statement) | None => met,
            };
            self.trouble.set(Some(worst));
            said
        })
    }
}

/// An error of SQLite in the store's words.
pub(super) fn said(error: &rusqlite::Error) -> StoreError {
    if let rusqlite::Error::FromSqlConversionFailure(_, _, why) = error {
        return StoreError::Unreadable { why: why.to_string() };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            StoreError::Busy
        }
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(_) | None => StoreError::Broken { why: error.to_string() },
    }
}

fn trouble_of(error: &rusqlite::Error, said: &StoreError) -> TxFailure {
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::DiskFull
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted,
        ) => TxFailure::Transaction(said.clone()),
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen,
        ) => TxFailure::Store(said.clone()),
        Some(_) | None => TxFailure::Statement,
    }
}
