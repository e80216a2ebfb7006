//! The plans that a command line means: some by name, those of a batch, or those of this project.
//!
//! # Invariants
//! 1. A command line that names no plan means `@last` of this project.
//! 2. A plan that is named twice is selected once.

use std::os::unix::ffi::OsStrExt;

use domain::Plan;
use engine::Engine;
use store::PlanFilter;

use crate::cli::Invocation;
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, codes, from_engine};
use crate::setup::project;

/// The word for the newest plan, or the newest batch, of this project.
pub(in crate::cli) const LAST: &str = "@last";

/// The number of plans among which the newest batch is looked for.
const NEWEST_BATCH_PLANS_MAX: usize = 10_000;

/// The plans that were named, or the batch.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PlanSelection {
    /// The plans [default: @last, the newest plan of this project]
    #[arg(value_name = "PLAN")]
    pub(super) plans: Vec<String>,
    /// The plans of this batch; @last is the newest batch of this project
    #[arg(long, value_name = "NAME", conflicts_with = "plans")]
    pub(super) batch: Option<String>,
}

impl PlanSelection {
    /// Returns true if no plan and no batch was named.
    pub(super) fn is_default(&self) -> bool {
        self.plans.is_empty() && self.batch.is_none()
    }

    /// Returns the plans that were named, or `@last`.
    ///
    /// # Errors
    /// Returns an error if a word names no plan or several, or if there is no such batch.
    pub(super) async fn find(
        &self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<Vec<NamedPlan>, CommandError> {
        if let Some(word) = &self.batch {
            let root = project::root_of(&invocation.here)?;
            let root = root.as_os_str().as_bytes().to_vec();
            let batch = Some(batch_named(engine, word, Some(&root)).await?);
            let filter = PlanFilter { batch, root: Some(root), limit: usize::MAX, ..PlanFilter::default() };
            return found(engine, invocation, &filter).await;
        }
        let last = [LAST.to_owned()];
        let words = if self.plans.is_empty() { &last[..] } else { &self.plans };
        let mut plans: Vec<NamedPlan> = Vec::with_capacity(words.len());
        for word in words {
            let plan = invocation.plan(engine, word).await?;
            if plans.iter().all(|known| known.id != plan.id) {
                plans.push(plan);
            }
        }
        Ok(plans)
    }
}

/// Returns the plans that pass a filter, the oldest first, with their short ids.
///
/// # Errors
/// Returns an error if the store failed, or if a project is not one of this process.
pub(super) async fn found(
    engine: &Engine,
    invocation: &Invocation,
    filter: &PlanFilter,
) -> Result<Vec<NamedPlan>, CommandError> {
    let plans = engine.store().newest_plans(filter).await.map_err(|error| from_engine::store(&error))?;
    invocation.check_all_allowed(&plans)?;
    named(engine, &plans).await
}

/// Returns these plans with their short ids, the oldest first.
///
/// # Errors
/// Returns an error if the store failed.
pub(super) async fn named(engine: &Engine, plans: &[Plan]) -> Result<Vec<NamedPlan>, CommandError> {
    let mut ids: Vec<_> = plans.iter().map(|plan| plan.id).collect();
    ids.sort_unstable();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    Ok(ids.into_iter().zip(shorts).map(|(id, short)| NamedPlan { id, short }).collect())
}

/// Returns the name of the batch that a word means: `@last` is the newest one of the project at `root`.
///
/// # Errors
/// Returns an error if there is no such batch there.
pub(super) async fn batch_named(
    engine: &Engine,
    word: &str,
    root: Option<&[u8]>,
) -> Result<String, CommandError> {
    let batch = (word != LAST).then(|| word.to_owned());
    let limit = if batch.is_some() { 1 } else { NEWEST_BATCH_PLANS_MAX };
    let filter = PlanFilter { root: root.map(<[u8]>::to_vec), batch, limit, ..PlanFilter::default() };
    let plans = engine.store().newest_plans(&filter).await.map_err(|error| from_engine::store(&error))?;
    plans.into_iter().find_map(|plan| plan.spec.batch.clone()).ok_or_else(|| {
        let message = match word {
            LAST => "there is no batch of this project yet".to_owned(),
            name => format!("there is no batch `{name}` of this project"),
        };
        CommandError::new(&codes::BATCH_NOT_FOUND, message)
    })
}
