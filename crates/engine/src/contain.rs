//! Panics of foreign futures, made into errors: a store or a runner that panics takes nobody down.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sync::Panicked;

/// Runs `future`; a panic inside is its error.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(Panicked::from_payload)
}
