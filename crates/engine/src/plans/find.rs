//! Which plan is meant: by id, by a prefix that only one plan has, or by `@last`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::PlanId;
use store::{PlanFilter, StoreError};

use super::Engine;

/// A shown id has at least so many characters; the first ten are only time.
pub const SHORT_ID_CHARS_MIN: usize = 10;

const CANDIDATES_MAX: usize = 10;
const ID_CHARS: usize = 26;

/// Why no plan was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// None has this name.
    #[error("there is no plan `{word}`")]
    NotFound {
        /// What was asked for.
        word: String,
    },
    /// Several begin so.
    #[error("`{word}` names several plans")]
    Ambiguous {
        /// What was asked for.
        word: String,
        /// Some of them.
        candidates: Vec<PlanId>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// The plan that `word` names; `@last` is the newest one of the project at `here`, else of all.
    ///
    /// # Errors
    /// None or several are meant, or the store failed.
    pub async fn find(&self, word: &str, here: Option<&Path>) -> Result<PlanId, FindError> {
        let not_found = || FindError::NotFound { word: word.to_owned() };
        if word == "@last" {
            return self.last(here).await?.ok_or_else(not_found);
        }
        let prefix = word.to_ascii_uppercase();
        let is_prefix = !prefix.is_empty() && prefix.len() <= ID_CHARS;
        if !is_prefix || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(not_found());
        }
        let candidates = self.house.store.plans_like(&prefix, CANDIDATES_MAX).await?;
        match candidates.as_slice() {
            [] => Err(not_found()),
            [one] => Ok(*one),
            [..] => Err(FindError::Ambiguous { word: word.to_owned(), candidates }),
        }
    }

    async fn last(&self, here: Option<&Path>) -> Result<Option<PlanId>, StoreError> {
        if let Some(here) = here {
            let root = Some(here.as_os_str().as_bytes().to_vec());
            let filter = PlanFilter { root, limit: 1, ..PlanFilter::default() };
            let (plans, _) = self.house.store.plans(&filter).await?;
            if let Some(plan) = plans.first() {
                return Ok(Some(plan.id));
            }
        }
        let (plans, _) = self.house.store.plans(&PlanFilter { limit: 1, ..PlanFilter::default() }).await?;
        Ok(plans.first().map(|plan| plan.id))
    }

    /// The shortest prefix of the id that no other plan has, of at least [`SHORT_ID_CHARS_MIN`] characters.
    ///
    /// # Errors
    /// The store failed.
    pub async fn short_id(&self, plan: PlanId) -> Result<String, StoreError> {
        let id = plan.to_string();
        let mut chars = SHORT_ID_CHARS_MIN;
        while chars < id.len() {
            let alike = self.house.store.plans_like(&id[..chars], 2).await?;
            if alike.len() <= 1 {
                break;
            }
            chars += 1;
        }
        Ok(id[..chars].to_owned())
    }
}
