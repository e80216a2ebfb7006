//! Locks in SQLite: a row each, which stays when the lock is free.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Hash, Lock, LockRequest, LockResource, Ms};
use rusqlite::Row;

use super::columns::{SqlText, fence, ms, ms_at, parsed, signed, word};
use super::transaction::Tx;
use super::{FIRST_FOR_PROCESS, FOR_PROCESS, SqliteStore};
use crate::{LockStore, LockStoreError, StoreError};

fn lock(row: &Row<'_>) -> rusqlite::Result<Lock> {
    Ok(Lock {
        resource: word(row, 0, resource)?,
        owner: row.get(1)?,
        fence: fence(row, 2)?,
        boot: parsed(row, 3)?,
        lease_until: ms_at(row, 4)?,
    })
}

/// Returns what the text that a resource prints as names.
fn resource(text: &str) -> Option<LockResource> {
    match text.split_once(':')? {
        ("plan", plan) => plan.parse().ok().map(LockResource::Plan),
        ("project", digits) => hash(digits).map(LockResource::Project),
        _ => None,
    }
}

fn hash(digits: &str) -> Option<Hash> {
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    (digits.len() == 64).then(|| Hash::from_bytes(bytes))
}

fn find(tx: &Tx<'_>, resource: LockResource) -> Result<Option<Lock>, StoreError> {
    let of_resource = "SELECT resource, owner, fence, boot, lease_until FROM locks WHERE resource = ?1";
    tx.one(of_resource, [SqlText(resource)], lock)
}

fn take(tx: &Tx<'_>, request: LockRequest, now: Ms) -> Result<Lock, LockStoreError> {
    let known = find(tx, request.resource)?;
    let taken = Lock::take(known.as_ref(), request, now)?;
    tx.run(
        "INSERT INTO locks VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (resource) DO UPDATE SET owner = ?2, fence = ?3, boot = ?4, lease_until = ?5",
        (
            SqlText(taken.resource),
            &taken.owner,
            signed(taken.fence.0),
            SqlText(taken.boot),
            ms(taken.lease_until),
        ),
    )?;
    Ok(taken)
}

/// Sets the end of the lease, if the lock is still this holder's; says whether it is.
fn set_lease(tx: &Tx<'_>, held: &Lock, until: Ms) -> Result<bool, StoreError> {
    if !find(tx, held.resource)?.is_some_and(|known| known.is_of(held)) {
        return Ok(false);
    }
    tx.run("UPDATE locks SET lease_until = ?2 WHERE resource = ?1", (SqlText(held.resource), ms(until)))?;
    Ok(true)
}

#[async_trait]
impl LockStore for SqliteStore {
    async fn take_lock(&self, request: LockRequest) -> Result<Lock, LockStoreError> {
        let now = self.moment().now;
        self.write(FOR_PROCESS, move |tx| take(tx, request, now)).await
    }

    async fn renew_lock(&self, held: &Lock, lease: Duration) -> Result<bool, StoreError> {
        let (held, until) = (held.clone(), self.moment().now.saturating_add(lease));
        self.write(FIRST_FOR_PROCESS, move |tx| set_lease(tx, &held, until)).await
    }

    async fn release_lock(&self, held: &Lock) -> Result<(), StoreError> {
        let held = held.clone();
        self.write(FOR_PROCESS, move |tx| set_lease(tx, &held, Ms(0)).map(drop)).await
    }

    async fn locks(&self) -> Result<Vec<Lock>, StoreError> {
        let all = "SELECT resource, owner, fence, boot, lease_until FROM locks ORDER BY resource";
        self.read(|tx| tx.all(all, [], lock))
    }
}
