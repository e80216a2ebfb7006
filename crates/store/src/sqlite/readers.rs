//! The read connections: a read is one transaction on the calling thread, concurrent with all writes.
//!
//! # Invariants
//! 1. At most [`READERS_MAX`] connections, opened when they are first needed; a caller that finds all in use
//!    waits for one.
//! 2. A read sees one state of the store, the newest that was committed when it began.
//! 3. A connection whose transaction did not end, because the reader panicked, is closed and not used again.

use std::path::PathBuf;

use rusqlite::Connection;
use sync::primitives::{Condvar, Mutex, lock};

use super::open::{self, Role};
use super::transaction::{Tx, said};
use crate::StoreError;

/// The most connections that read at once.
const READERS_MAX: usize = 4;

pub(super) struct Readers {
    path: PathBuf,
    pool: Mutex<ReaderPool>,
    freed: Condvar,
}

struct ReaderPool {
    idle: Vec<Connection>,
    /// Idle ones and those in use.
    open: usize,
}

impl Readers {
    /// Readers of the database at `path`, of which this one is open already.
    pub(super) fn new(path: PathBuf, first: Connection) -> Self {
        let pool = ReaderPool { idle: vec![first], open: 1 };
        Self { path, pool: Mutex::new(pool), freed: Condvar::new() }
    }

    /// Reads in one transaction.
    pub(super) fn read<T, E: From<StoreError>>(
        &self,
        act: impl FnOnce(&Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let lent = self.lend()?;
        let connection = lent.connection.as_ref().ok_or_else(gone)?;
        let begun = connection.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([]));
        begun.map_err(|error| said(&error))?;
        let answer = act(&Tx::new(connection));
        let ended = connection.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        let ended = ended.map(drop).map_err(|error| E::from(said(&error)));
        answer.and_then(|answer| ended.map(|()| answer))
    }

    fn lend(&self) -> Result<PooledReader<'_>, StoreError> {
        let mut pool = lock(&self.pool);
        loop {
            if let Some(connection) = pool.idle.pop() {
                return Ok(PooledReader { readers: self, connection: Some(connection) });
            }
            if pool.open < READERS_MAX {
                pool.open += 1;
                break;
            }
            pool = self.freed.wait(pool).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(pool);
        // Held without a connection meanwhile, so that a failure gives the place back.
        let mut lent = PooledReader { readers: self, connection: None };
        lent.connection = Some(open::connect(&self.path, Role::Reader).map_err(|error| said(&error))?);
        Ok(lent)
    }
}

fn gone() -> StoreError {
    StoreError::Broken { why: "a reader has no connection".to_owned() }
}

/// A connection in use; given back when dropped.
struct PooledReader<'r> {
    readers: &'r Readers,
    connection: Option<Connection>,
}

impl Drop for PooledReader<'_> {
    fn drop(&mut self) {
        let usable = self.connection.take().filter(Connection::is_autocommit);
        let mut pool = lock(&self.readers.pool);
        match usable {
            Some(connection) => pool.idle.push(connection),
            None => pool.open -= 1,
        }
        drop(pool);
        self.readers.freed.notify_one();
    }
}
