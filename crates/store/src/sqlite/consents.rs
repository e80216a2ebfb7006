//! Consents in SQLite.

use async_trait::async_trait;

use super::row::wall;
use super::{FOR_POWER, SqliteStore};
use crate::{ConsentStore, StoreError};

#[async_trait]
impl ConsentStore for SqliteStore {
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError> {
        let known = "SELECT 1 FROM consents WHERE root = ?1 AND digest = ?2";
        self.read(|tx| Ok(tx.one(known, (root, digest), |_| Ok(()))?.is_some()))
    }

    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError> {
        let (at, root, digest) = (self.moment(), root.to_vec(), digest.to_owned());
        // When the user first said yes is what is kept.
        let keep = "INSERT INTO consents VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        self.write(FOR_POWER, move |tx| tx.run(keep, (root, digest, wall(at.wall))).map(drop)).await
    }
}
