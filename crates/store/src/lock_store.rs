//! The port for locks: taken by one atomic step, renewed, released by their holder only.
//!
//! The names of the methods say `lock`, because the same store also takes claims and releases jobs.

use async_trait::async_trait;
use domain::{Lock, LockHeld, LockRequest};
use std::time::Duration;

use crate::StoreError;

/// The reason why a lock was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockStoreError {
    /// Another process holds it.
    #[error(transparent)]
    Held(#[from] LockHeld),
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores locks.
#[async_trait]
pub trait LockStore: Send + Sync {
    /// Takes a lock whose lease is over, or that no process held before.
    async fn take_lock(&self, request: LockRequest) -> Result<Lock, LockStoreError>;

    /// Renews the lease; returns whether it is still this holder's.
    async fn renew_lock(&self, lock: &Lock, lease: Duration) -> Result<bool, StoreError>;

    /// Frees the lock, if it is still this holder's.
    async fn release_lock(&self, lock: &Lock) -> Result<(), StoreError>;

    /// All locks that were ever taken, in order of resource.
    async fn locks(&self) -> Result<Vec<Lock>, StoreError>;
}
