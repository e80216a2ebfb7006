//! The decisions of a plan: all of them, or one that is found by its name, with everything that depends on
//! it.
//!
//! # Invariants
//! 1. A word names a decision by its name, the beginning of its name, or `PLAN:NUMBER`.
//! 2. The effects of a decision are those in the present plan: live decisions, and files that its present
//!    attempt changed after the decision.

use std::collections::BTreeSet;
use std::path::Path;

use domain::{Decision, Plan, PlanId, affected, change_address, fold};
use store::{PlanStoreError, StoreError};

use super::diff::aliases;
use crate::engine::Engine;
use crate::query::find::FindError;

/// The number of letters of a name that encode the time of the decision.
const TIME_CHARS: usize = 10;
/// The maximum number of candidates for an ambiguous word.
const CANDIDATES_MAX: usize = 10;

/// The dependents of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// The numbers of the decisions that would be taken again, itself among them.
    pub decisions: BTreeSet<u32>,
    /// The files that were changed since, as people name them.
    pub files: Vec<String>,
}

/// One decision of a plan.
#[derive(Clone, Debug)]
pub struct DecisionDetails {
    /// The plan.
    pub plan: Plan,
    /// The decision.
    pub decision: Decision,
    /// All of the plan, in order.
    pub all: Vec<Decision>,
    /// The dependents of the decision.
    pub affected: Affected,
}

/// Why no decision was found.
#[derive(Debug, thiserror::Error)]
pub enum FindDecisionError {
    /// There is none.
    #[error("there is no decision `{word}`")]
    NotFound {
        /// The argument as it was given.
        word: String,
    },
    /// Several begin so.
    #[error("`{word}` matches several decisions")]
    Ambiguous {
        /// The argument as it was given.
        word: String,
        /// Some that begin so: their names, and as `PLAN:NUMBER`.
        candidates: Vec<String>,
    },
    /// The plan before the colon.
    #[error(transparent)]
    Plan(#[from] FindError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// All that a plan decided, in order, what gave way among it.
    ///
    /// # Errors
    /// The store failed.
    pub async fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
        self.inner.store.decisions(plan).await
    }

    /// The decision that `word` names: its plan and its number. `here` is the project in which `@last` is
    /// looked for.
    ///
    /// # Errors
    /// None or several are meant, or the store failed.
    pub async fn find_decision(
        &self,
        word: &str,
        here: Option<&Path>,
    ) -> Result<(PlanId, u32), FindDecisionError> {
        let not_found = || FindDecisionError::NotFound { word: word.to_owned() };
        if let Some((plan, number)) = word.rsplit_once(':') {
            let plan = self.find(plan, here).await?;
            let seq: u32 = number.parse().map_err(|_| not_found())?;
            let known = self.inner.store.decisions(plan).await?;
            return match known.iter().any(|decision| decision.seq == seq) {
                true => Ok((plan, seq)),
                false => Err(not_found()),
            };
        }
        let prefix = word.to_ascii_uppercase();
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(not_found());
        }
        let found = self.decisions_like(&prefix).await?;
        match found.as_slice() {
            [] => Err(not_found()),
            [(plan, decision)] => Ok((*plan, decision.seq)),
            [..] => {
                let shown = |(plan, decision): &(PlanId, Decision)| {
                    format!("{} ({plan}:{})", decision.id, decision.seq)
                };
                let candidates = found.iter().map(shown).collect();
                Err(FindDecisionError::Ambiguous { word: word.to_owned(), candidates })
            }
        }
    }

    /// The decisions whose names begin so. No plan decides before it is made, so that later ones are not
    /// asked.
    async fn decisions_like(&self, prefix: &str) -> Result<Vec<(PlanId, Decision)>, StoreError> {
        let when = prefix.get(..TIME_CHARS).unwrap_or(prefix);
        let mut found = Vec::new();
        for plan in self.inner.store.plans_like("", usize::MAX).await?.into_iter().rev() {
            if plan.to_string().get(..when.len()).is_some_and(|made| made > when) {
                continue;
            }
            let decisions = self.inner.store.decisions(plan).await?;
            let alike = decisions.into_iter().filter(|decision| decision.id.to_string().starts_with(prefix));
            found.extend(alike.map(|decision| (plan, decision)));
            if found.len() >= CANDIDATES_MAX {
                found.truncate(CANDIDATES_MAX);
                break;
            }
        }
        Ok(found)
    }

    /// All that is known of one decision; none when the plan has no such number.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn explain(&self, plan: PlanId, seq: u32) -> Result<Option<DecisionDetails>, PlanStoreError> {
        let plan = self.inner.store.plan(plan).await?;
        let all = self.inner.store.decisions(plan.id).await?;
        let Some(decision) = all.iter().find(|decision| decision.seq == seq).cloned() else {
            return Ok(None);
        };
        let decisions = affected(&all, seq);
        let files = self.files_since(&plan, &all, &decisions).await?;
        Ok(Some(DecisionDetails { plan, decision, all, affected: Affected { decisions, files } }))
    }

    /// The files that the present attempt changed after the first of these decisions was taken.
    pub(crate) async fn files_since(
        &self,
        plan: &Plan,
        all: &[Decision],
        decisions: &BTreeSet<u32>,
    ) -> Result<Vec<String>, StoreError> {
        let taken = all.iter().filter(|decision| decisions.contains(&decision.seq));
        // The prompt is older than any attempt.
        let of_this = taken.filter(|decision| decision.seq == 1 || decision.new.attempt == plan.attempt);
        let Some(first) = of_this.map(|decision| decision.new.at_entry).min() else { return Ok(Vec::new()) };
        let mut entries = self.inner.entries(plan).await?;
        entries.retain(|entry| entry.no > first);
        let aliases = aliases(plan);
        Ok(fold(&entries).iter().map(|change| change_address(change, &aliases)).collect())
    }
}
