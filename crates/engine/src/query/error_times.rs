//! The wall-clock times at which the errors of a plan were recorded, also of those that are only counted any
//! more.

use domain::{ErrorCategory, EventKind, EventRecord, PlanId, WallMs};
use store::{Store, StoreError};

use crate::engine::Engine;

/// The part of one error that is stored for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorMoment {
    /// Its number.
    pub seq: u64,
    /// When it was recorded.
    pub at: WallMs,
    /// The category of the error.
    pub category: ErrorCategory,
}

impl Engine {
    /// When each error of a plan was recorded, in order.
    ///
    /// # Errors
    /// The store failed.
    pub async fn error_times(&self, id: PlanId) -> Result<Vec<ErrorMoment>, StoreError> {
        error_moments(self.store(), id).await
    }
}

/// When each error of a plan was recorded, in order.
///
/// # Errors
/// The store failed.
pub(crate) async fn error_moments(store: &dyn Store, id: PlanId) -> Result<Vec<ErrorMoment>, StoreError> {
    let events = store.events_of(id, EventKind::ErrorRecorded).await?;
    Ok(events.iter().filter_map(moment).collect())
}

fn moment(event: &EventRecord) -> Option<ErrorMoment> {
    let seq = event.data["seq"].as_u64()?;
    let word = event.data["category"].as_str()?;
    let category = ErrorCategory::ALL.into_iter().find(|category| category.as_str() == word)?;
    Some(ErrorMoment { seq, at: event.at, category })
}
