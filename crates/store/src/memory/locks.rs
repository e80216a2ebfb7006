//! Locks in memory: rows in one map.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Lock, LockRequest, Ms};
use sync::primitives::lock;

use super::MemoryStore;
use crate::{LockStore, LockStoreError, StoreError};

impl MemoryStore {
    /// Sets the end of the lease, if the lock is still this holder's; says whether it is.
    fn set_lease(&self, held: &Lock, lease_until: Ms) -> bool {
        let mut rows = lock(&self.locks);
        match rows.get_mut(&held.resource).filter(|row| row.is_of(held)) {
            None => false,
            Some(row) => {
                row.lease_until = lease_until;
                true
            }
        }
    }
}

#[async_trait]
impl LockStore for MemoryStore {
    async fn take_lock(&self, request: LockRequest) -> Result<Lock, LockStoreError> {
        let now = self.now();
        let mut rows = lock(&self.locks);
        let taken = Lock::take(rows.get(&request.resource), request, now)?;
        rows.insert(taken.resource, taken.clone());
        Ok(taken)
    }

    async fn renew_lock(&self, held: &Lock, lease: Duration) -> Result<bool, StoreError> {
        Ok(self.set_lease(held, self.now().saturating_add(lease)))
    }

    async fn release_lock(&self, held: &Lock) -> Result<(), StoreError> {
        self.set_lease(held, Ms(0));
        Ok(())
    }

    async fn locks(&self) -> Result<Vec<Lock>, StoreError> {
        Ok(lock(&self.locks).values().cloned().collect())
    }
}
