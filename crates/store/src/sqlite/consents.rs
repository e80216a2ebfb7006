//! Consents in SQLite.

use async_trait::async_trait;

use super::columns::wall;
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
        // The time of the first consent is retained.
        let keep = "INSERT INTO consents VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        self.write(FOR_POWER, move |tx| tx.run(keep, (root, digest, wall(at.wall))).map(drop)).await
    }

    async fn consented_roots(&self) -> Result<Vec<(Vec<u8>, usize)>, StoreError> {
        let roots = "SELECT root, COUNT(*) FROM consents GROUP BY root ORDER BY root";
        self.read(|tx| {
            tx.all(roots, (), |row| {
                let contents: i64 = row.get(1)?;
                Ok((row.get(0)?, usize::try_from(contents).unwrap_or(0)))
            })
        })
    }

    async fn revoke_consents(&self, root: &[u8]) -> Result<usize, StoreError> {
        let root = root.to_vec();
        self.write(FOR_POWER, move |tx| tx.run("DELETE FROM consents WHERE root = ?1", (root,))).await
    }
}
