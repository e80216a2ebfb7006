//! What the user consented to.

use async_trait::async_trait;
use store::{ConsentStore, StoreError};

use super::{FaultyStore, Kind};

#[async_trait]
impl ConsentStore for FaultyStore {
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError> {
        self.before("consented", Kind::Read).await?;
        self.inner().consented(root, digest).await
    }

    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError> {
        self.before("consent", Kind::Synced).await?;
        self.inner().consent(root, digest).await?;
        self.after("consent", Kind::Synced, None).await
    }
}
