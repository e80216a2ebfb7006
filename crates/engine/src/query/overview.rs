//! Summaries of many plans, for a table that is refreshed often: no content is read for them.
//!
//! # Invariants
//! 1. Every plan that is worked on is listed, however many there are that wait or have ended.
//! 2. A plan that cannot have changed is not read again: a plan that rests by its version, one that is worked
//!    on by its events.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CheckObstacle, Job, JobState, Plan, PlanId, PlanState, WorkState};
use serde_json::Value;
use store::{PlanFilter, StoreError};

use super::details::store_error;
use super::effective_changes::TAKE_BACK;
use crate::engine::Engine;
use crate::plan::advance::may_go_on;
use crate::query::queue_position::QueuePlace;
use crate::workers::registry::{LiveWorkers, live_workers};

/// The maximum number of queued plans in the overview, the first first.
const QUEUED_MAX: usize = 100;
/// The maximum number of plans without a job in the overview, the newest first.
const RESTING_MAX: usize = 100;

/// The summary of one plan.
#[derive(Clone, Debug)]
pub struct PlanSummary {
    /// The plan.
    pub plan: Plan,
    /// The shortest text that names it.
    pub short: String,
    /// The job that waits or runs.
    pub job: Option<Job>,
    /// Its position in the queue; `None` if it does not wait there.
    pub place: Option<QueuePlace>,
    /// True if it is between two phases, and a live worker is about to queue the next.
    pub goes_on: bool,
    /// True if that job runs under a worker that is no more.
    pub owner_is_gone: bool,
    /// True if a signal ended the work on it.
    pub is_interrupted: bool,
    /// The present step; `None` while it does nothing.
    pub step: Option<CurrentStep>,
    /// The number of files that its present attempt changed.
    pub files: usize,
    /// The reason why its checks do not let it be applied; `None` if they do, or the work is not done.
    pub obstacle: Option<CheckObstacle>,
}

/// The node that a plan runs at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentStep {
    /// The node.
    pub node: String,
    /// Its number, from 1, and how many there are; none when it is none of the plan's steps, as a check.
    pub place: Option<(usize, usize)>,
    /// The tool of its last call.
    pub tool: String,
    /// The recorded arguments of that call.
    pub requested: Value,
}

/// The summaries of all plans at one moment.
#[derive(Clone, Debug)]
pub struct OverviewSnapshot {
    /// The plans, in no order.
    pub plans: Vec<PlanSummary>,
    /// The number of queued plans, also those that are not among the plans.
    pub queued: usize,
    /// The number of plans that may be worked on concurrently (`plan.concurrency`).
    pub slots: u32,
    /// True if a live worker takes any plan.
    pub has_worker: bool,
    /// True if a plan changed files, or moved, since the last look.
    pub is_news: bool,
}

/// Reads the summaries again and again; caches those of plans that have not changed.
#[derive(Debug, Default)]
pub struct PlanOverview {
    known: BTreeMap<PlanId, CachedPlan>,
    shorts: BTreeMap<PlanId, String>,
}

#[derive(Debug)]
struct CachedPlan {
    version: u64,
    event: u64,
    step: Option<CurrentStep>,
    files: usize,
    obstacle: Option<CheckObstacle>,
}

impl PlanOverview {
    /// Looks at all plans.
    ///
    /// # Errors
    /// The store failed.
    pub async fn refresh(&mut self, engine: &Engine) -> Result<OverviewSnapshot, StoreError> {
        let inner = &engine.inner;
        let live_jobs = inner.store.live_jobs().await.map_err(store_error)?;
        let served = live_workers(&inner.options.data_dir);
        let waits = |job: &Job| !job.is_held() || served.plans.contains(&job.plan);
        let queued = live_jobs.iter().filter(|job| job.state == JobState::Queued && waits(job)).count();
        let has_worker = served.has_for(&BTreeSet::new());
        let mut seen = Vec::new();
        let mut is_news = false;
        let plans = self.plans(engine, &live_jobs).await?;
        self.learn_short_ids(engine, &plans).await?;
        for plan in plans {
            let job = live_jobs.iter().rev().find(|job| job.plan == plan.id).cloned();
            let known = self.known(engine, &plan, job.is_some()).await?;
            is_news |= known.1;
            let CachedPlan { step, files, obstacle, .. } = known.0;
            let (step, files, obstacle) = (step.clone(), *files, *obstacle);
            let short = self.shorts.get(&plan.id).cloned().unwrap_or_else(|| plan.id.to_string());
            // The gate of a plan may depend on all its changes, so it is looked at only if that matters.
            let has_gate = job.is_none() && has_worker && may_go_on(&plan);
            let gate = if has_gate { inner.gate(&plan).await? } else { None };
            let goes_on = engine.goes_on(&plan, gate).await?;
            let place = job.as_ref().and_then(|job| inner.position_in_queue(job, &live_jobs, &served));
            let owner_is_gone = job.as_ref().is_some_and(|job| is_left(engine, job, &served));
            let is_interrupted = inner.is_interrupted(&plan).await?;
            seen.push(PlanSummary {
                plan,
                short,
                job,
                place,
                goes_on,
                owner_is_gone,
                is_interrupted,
                step,
                files,
                obstacle,
            });
        }
        let is_seen = |id: &PlanId| seen.iter().any(|summary: &PlanSummary| summary.plan.id == *id);
        self.known.retain(|id, _| is_seen(id));
        self.shorts.retain(|id, _| is_seen(id));
        let slots = inner.options.plan_concurrency;
        Ok(OverviewSnapshot { plans: seen, queued, slots, has_worker: !served.any.is_empty(), is_news })
    }

    /// Finds the short ids of the plans that were not there at the last look, all with one walk.
    async fn learn_short_ids(&mut self, engine: &Engine, plans: &[Plan]) -> Result<(), StoreError> {
        let ids = plans.iter().map(|plan| plan.id);
        let new: Vec<PlanId> = ids.filter(|id| !self.shorts.contains_key(id)).collect();
        if !new.is_empty() {
            let shorts = engine.short_ids(&new).await?;
            self.shorts.extend(new.into_iter().zip(shorts));
        }
        Ok(())
    }

    /// The plans to look at.
    async fn plans(&self, engine: &Engine, live_jobs: &[Job]) -> Result<Vec<Plan>, StoreError> {
        let store = &engine.inner.store;
        let filter = PlanFilter { limit: RESTING_MAX, ..PlanFilter::default() };
        let mut plans = store.newest_plans(&filter).await?;
        let running = live_jobs.iter().filter(|job| job.state == JobState::Running);
        let queued = live_jobs.iter().filter(|job| job.state == JobState::Queued).take(QUEUED_MAX);
        for job in running.chain(queued) {
            if plans.iter().any(|plan| plan.id == job.plan) {
                continue;
            }
            // A plan that was forgotten since, or never made, is left out.
            plans.extend(store.find_plan(job.plan).await?);
        }
        Ok(plans)
    }

    /// Returns the present knowledge of a plan, and whether it has changed.
    async fn known(
        &mut self,
        engine: &Engine,
        plan: &Plan,
        is_live: bool,
    ) -> Result<(&CachedPlan, bool), StoreError> {
        let before = self.known.get(&plan.id).map(|known| (known.version, known.event));
        let mut event = before.map_or(0, |(_, event)| event);
        if is_live || before.is_none() {
            event = engine.inner.store.last_event(plan.id).await?;
        }
        let is_news = before != Some((plan.version, event));
        if is_news {
            let files = match engine.inner.store.files_changed(&[plan.id]).await?.get(&plan.id) {
                Some(files) => *files,
                None => engine.inner.net_changes(plan).await?.len(),
            };
            let (step, obstacle) = (engine.step_now(plan).await?, engine.inner.check_obstacle(plan).await?);
            self.known.insert(plan.id, CachedPlan { version: plan.version, event, step, files, obstacle });
        }
        // It was there, or was put there just now.
        let known =
            self.known.get(&plan.id).ok_or_else(|| StoreError::Broken { why: plan.id.to_string() })?;
        Ok((known, is_news))
    }
}

/// Returns true if no process continues a job: its worker is dead, and no other takes over jobs that were
/// left to the workers.
fn is_left(engine: &Engine, job: &Job, served: &LiveWorkers) -> bool {
    engine.inner.owner_is_gone(job) && (job.is_held() || !served.has_for(&job.keys))
}

impl Engine {
    async fn step_now(&self, plan: &Plan) -> Result<Option<CurrentStep>, StoreError> {
        if plan.state != PlanState::Execute(WorkState::Processing) {
            return Ok(None);
        }
        let calls = self.inner.calls(plan).await?;
        let Some(last) = calls.iter().rev().find(|call| call.new.tool != TAKE_BACK) else { return Ok(None) };
        let node = last.new.node.clone();
        let steps = &plan.spec.steps;
        let place = steps.iter().position(|step| step.node == node).map(|no| (no + 1, steps.len()));
        let (tool, requested) = (last.new.tool.clone(), last.new.requested.clone());
        Ok(Some(CurrentStep { node, place, tool, requested }))
    }
}

impl PlanSummary {
    /// Returns true if a worker has it in hand.
    pub fn is_running(&self) -> bool {
        !self.owner_is_gone && self.job.as_ref().is_some_and(|job| job.state == JobState::Running)
    }
}
