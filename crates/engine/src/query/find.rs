//! Finds the plan that an argument names: by id, by the end or the beginning of its id, or by `@last`.
//!
//! # Invariants
//! 1. A plan is shown by the end of its id: the beginning is only time, the end is random.
//! 2. The end that is shown names this plan and no other of the data directory.
//! 3. A word that is the end of some ids is never read as the beginning of others.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use domain::PlanId;
use store::{PlanStore, StoreError};

use crate::engine::Engine;

/// The minimum number of characters of a beginning that is shown; the first ten are only time.
pub const SHORT_ID_CHARS_MIN: usize = 10;
/// The minimum number of characters of an end that is shown, and that is understood.
pub const ID_END_CHARS_MIN: usize = 4;

const CANDIDATES_MAX: usize = 10;
const ID_CHARS: usize = 26;

/// One of several plans that a word may mean.
#[derive(Clone, Debug)]
pub struct PlanCandidate {
    /// The plan.
    pub plan: PlanId,
    /// The shortest text that names it.
    pub short: String,
    /// Its title; empty if the plan cannot be read.
    pub title: String,
}

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
        /// The shortest text that names it.
        short: String,
        /// The projects that it works in, as bytes of paths.
        roots: Vec<Vec<u8>>,
    },
    /// Several ids end or begin so.
    #[error("`{word}` names several plans")]
    Ambiguous {
        /// The argument as it was given.
        word: String,
        /// Some of them.
        candidates: Vec<PlanCandidate>,
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
        let Some(part) = id_part(word) else { return Err(not_found()) };
        let mut candidates = Vec::new();
        if part.len() >= ID_END_CHARS_MIN {
            candidates = self.inner.store.plans_ending(&BTreeSet::from([part.clone()])).await?;
        }
        if candidates.is_empty() {
            candidates = self.inner.store.plans_like(&part, CANDIDATES_MAX).await?;
        }
        match candidates.as_slice() {
            [] => Err(not_found()),
            [one] => Ok(*one),
            several => {
                let candidates = self.candidates(several).await?;
                Err(FindError::Ambiguous { word: word.to_owned(), candidates })
            }
        }
    }

    async fn candidates(&self, plans: &[PlanId]) -> Result<Vec<PlanCandidate>, StoreError> {
        let plans = plans.get(..CANDIDATES_MAX).unwrap_or(plans);
        let mut candidates = Vec::with_capacity(plans.len());
        for (plan, short) in plans.iter().zip(self.short_ids(plans).await?) {
            let found = self.inner.store.find_plan(*plan).await.ok().flatten();
            let title = found.map(|plan| plan.title).unwrap_or_default();
            candidates.push(PlanCandidate { plan: *plan, short, title });
        }
        Ok(candidates)
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
        let short = self.short_id(newest).await?;
        Err(FindError::NotHere { newest, short, roots: roots.unwrap_or_default() })
    }

    /// The shortest end of each id that no other plan has, in small letters, for many at once.
    ///
    /// # Errors
    /// The store failed.
    pub async fn short_ids(&self, plans: &[PlanId]) -> Result<Vec<String>, StoreError> {
        short_ids_in(&*self.inner.store, plans).await
    }

    /// The shortest end of the id that no other plan has, of at least [`ID_END_CHARS_MIN`] characters.
    ///
    /// # Errors
    /// The store failed.
    pub async fn short_id(&self, plan: PlanId) -> Result<String, StoreError> {
        let short = self.short_ids(&[plan]).await?.pop();
        Ok(short.unwrap_or_else(|| plan.to_string()))
    }
}

/// The short ids of plans of a store, as [`Engine::short_ids`] has them.
///
/// # Errors
/// The store failed.
pub async fn short_ids_in<S: PlanStore + ?Sized>(
    store: &S,
    plans: &[PlanId],
) -> Result<Vec<String>, StoreError> {
    let ids: Vec<String> = plans.iter().map(ToString::to_string).collect();
    let ends = ids.iter().map(|id| end_of(id, ID_END_CHARS_MIN).to_owned()).collect();
    let alike = store.plans_ending(&ends).await?;
    let alike: Vec<String> = alike.iter().map(ToString::to_string).collect();
    Ok(ids.iter().map(|id| shortest_end(id, &alike, ID_END_CHARS_MIN).to_ascii_lowercase()).collect())
}

/// Returns the part of an id that a word may be, as ids are written; `None` if it cannot be one. The letters
/// that ids do not have are read as the digits that they look like.
fn id_part(word: &str) -> Option<String> {
    let is_part =
        (1..=ID_CHARS).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let letter = |letter: char| match letter.to_ascii_uppercase() {
        'I' | 'L' => '1',
        'O' => '0',
        other => other,
    };
    is_part.then(|| word.chars().map(letter).collect())
}

/// The last so many letters of a name of ASCII letters; all of it if it has fewer.
fn end_of(name: &str, chars: usize) -> &str {
    name.get(name.len().saturating_sub(chars)..).unwrap_or(name)
}

/// The end of `name` that no other of `names` has, of at least `chars_min` letters.
pub fn shortest_end<'a>(name: &'a str, names: &[String], chars_min: usize) -> &'a str {
    let common =
        |other: &String| name.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let others = names.iter().filter(|other| *other != name);
    let in_common = others.map(common).max().map_or(0, |common| common + 1);
    end_of(name, chars_min.max(in_common))
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

    #[test]
    fn an_end_is_as_short_as_the_others_allow() {
        let names = ["xxaa", "yyaa", "zzyaa", "b"].map(str::to_owned);
        let short = |name: &str| shortest_end(name, &names, 1).to_owned();
        let found: Vec<String> = names.iter().map(|name| short(name)).collect();
        assert_eq!(found, ["xaa", "yyaa", "zyaa", "b"]);
        assert_eq!(shortest_end("xxaa", &[], 2), "aa");
        assert_eq!(shortest_end("xxaa", &["xxaa".to_owned()], 9), "xxaa");
    }

    #[test]
    fn letters_that_ids_do_not_have_are_read_as_digits() {
        assert_eq!(id_part("ko1l").as_deref(), Some("K011"));
        assert_eq!(id_part(&"a".repeat(26)).unwrap().len(), 26);
        for none in ["", "a b", "src/a", "ä", &"a".repeat(27)] {
            assert_eq!(id_part(none), None, "{none}");
        }
    }
}
