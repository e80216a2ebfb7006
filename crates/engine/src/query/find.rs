//! Finds the plan that an argument names: by id, by a prefix that only one plan has, or by `@last`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::PlanId;
use store::{Neighbours, StoreError};

use crate::engine::Engine;

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
        /// The argument as it was given.
        word: String,
    },
    /// `@last` was asked for where no plan is; the newest of all is elsewhere.
    #[error("there is no plan of this project")]
    NotHere {
        /// The newest plan of all.
        newest: PlanId,
        /// The projects that it works in, as bytes of paths.
        roots: Vec<Vec<u8>>,
    },
    /// Several begin so.
    #[error("`{word}` names several plans")]
    Ambiguous {
        /// The argument as it was given.
        word: String,
        /// Some of them.
        candidates: Vec<PlanId>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// The plan that `word` names; `@last` is the newest one of the project at `here`.
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
        let candidates = self.inner.store.plans_like(&prefix, CANDIDATES_MAX).await?;
        match candidates.as_slice() {
            [] => Err(not_found()),
            [one] => Ok(*one),
            [..] => Err(FindError::Ambiguous { word: word.to_owned(), candidates }),
        }
    }

    async fn last(&self, here: Option<&Path>) -> Result<Option<PlanId>, FindError> {
        let store = &self.inner.store;
        if let Some(here) = here
            && let Some(newest) = store.newest_plan(Some(here.as_os_str().as_bytes())).await?
        {
            return Ok(Some(newest));
        }
        let Some(newest) = store.newest_plan(None).await? else { return Ok(None) };
        let plan = store.plan(newest).await;
        let roots =
            plan.map(|plan| plan.projects.iter().map(|project| project.root.as_bytes().to_vec()).collect());
        Err(FindError::NotHere { newest, roots: roots.unwrap_or_default() })
    }

    /// The shortest prefix of each id that no other plan has, for many at once.
    ///
    /// # Errors
    /// The store failed.
    pub async fn short_ids(&self, plans: &[PlanId]) -> Result<Vec<String>, StoreError> {
        let neighbours = self.inner.store.neighbours(plans).await?;
        let short = |(plan, Neighbours { before, after }): (&PlanId, Neighbours)| {
            let names: Vec<String> = before.iter().chain(&after).map(ToString::to_string).collect();
            shortest(&plan.to_string(), &names, SHORT_ID_CHARS_MIN).to_owned()
        };
        Ok(plans.iter().zip(neighbours).map(short).collect())
    }

    /// The shortest prefix of the id that no other plan has, of at least [`SHORT_ID_CHARS_MIN`] characters.
    ///
    /// # Errors
    /// The store failed.
    pub async fn short_id(&self, plan: PlanId) -> Result<String, StoreError> {
        let short = self.short_ids(&[plan]).await?.pop();
        Ok(short.unwrap_or_else(|| plan.to_string()))
    }
}

/// The beginning of `name` that no other of `names` has, of at least `chars_min` letters. `names` are sorted:
/// only the neighbours can have more in common with it.
pub fn shortest<'a>(name: &'a str, names: &[String], chars_min: usize) -> &'a str {
    let place = names.partition_point(|other| other.as_str() < name);
    let after = names.get(place..).unwrap_or_default().iter().find(|other| *other != name);
    let before = place.checked_sub(1).and_then(|place| names.get(place));
    let common = |other: &String| name.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let in_common = before.into_iter().chain(after).map(common).max().unwrap_or(0);
    let chars = if before.is_none() && after.is_none() { chars_min } else { chars_min.max(in_common + 1) };
    name.get(..chars).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_short_as_its_neighbours_allow() {
        let names = ["aaaa", "aabb", "aabc", "abcd", "b"].map(str::to_owned);
        let short = |name: &str| shortest(name, &names, 1).to_owned();
        let found: Vec<String> = names.iter().map(|name| short(name)).collect();
        assert_eq!(found, ["aaa", "aabb", "aabc", "ab", "b"]);
        assert_eq!(shortest("abcd", &names, 3), "abc");
        assert_eq!(shortest("abcd", &["abcd".to_owned()], 3), "abc");
        assert_eq!(short("ac"), "ac", "one that is not among them");
    }
}
