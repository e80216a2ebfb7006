//! The execute phase: the plan's steps, one after the other, in a sandbox if one of them needs it; then its checks.
//!
//! # How a try begins
//! Each begins the same way, be it the first, one after a failure, or one after a crash. A sandbox starts from the live
//! tree. What finished steps recorded is put back into it, and they are not done again. What the unfinished step had
//! recorded is taken back by inverse entries, and that step begins anew.
//!
//! If what a command changed could not be captured, its sandbox was kept: that one is opened again, captured, and the
//! command is not run a second time.
//!
//! # Invariants
//! One loop retries, and it does what the recovery says: nothing below it tries again.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::{Action, CallState, Plan, Step, ToolCall, fold};

use super::super::House;
use super::work::LiveRun;
use super::{Stopped, Told, checks, ground, kept, steps, tell};
use crate::plan_context::ChangesetHandle;
use crate::worker::JobRun;

pub(super) async fn execute(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<(), Stopped> {
    let mut changeset = None;
    loop {
        let mut at = None;
        let tried = try_all(house, run, live, plan, &mut changeset, &mut at).await;
        let Err(Stopped::Failed { category, message }) = tried else {
            tried?;
            break;
        };
        let Told { message, recovery } = tell(house, run, plan, at, category, message).await;
        match recovery.map(|recovery| recovery.action) {
            Some(Action::Retry { after, .. }) => {
                ground::close(live).await?;
                steps::pause(run, after).await?;
            }
            Some(Action::Revert | Action::Ask | Action::GiveUp) | None => return Err(Stopped::Told(message)),
        }
    }
    if let Some(changeset) = changeset {
        changeset.close().await?;
    }
    Ok(())
}

/// Takes the plan from where it stands to the end of its steps and checks. `at` is the step that is being done.
async fn try_all<'a>(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &'a Plan,
    changeset: &mut Option<ChangesetHandle>,
    at: &mut Option<&'a Step>,
) -> Result<(), Stopped> {
    let calls = house.calls(plan).await?;
    let mut left: VecDeque<&Step> = plan.spec.steps.iter().filter(|step| !is_done(step, &calls)).collect();
    *at = left.front().copied();
    if needs_sandbox(plan) && begin(house, run, live, plan, changeset, *at).await? {
        left.pop_front();
    }
    for step in left {
        *at = Some(step);
        steps::run(house, run, live, plan, step, &calls).await?;
    }
    *at = None;
    checks::run_all(house, run, live, plan).await
}

/// Whether the step has ended well in this attempt.
fn is_done(step: &Step, calls: &[ToolCall]) -> bool {
    let last = calls.iter().rfind(|call| call.new.node == step.node);
    last.is_some_and(|call| call.state() == CallState::Ok)
}

/// A plan that only reads needs none.
fn needs_sandbox(plan: &Plan) -> bool {
    plan.spec.steps.iter().any(Step::writes) || !plan.spec.validations.is_empty()
}

/// Opens the sandbox and brings it to where the plan stands. True when the next step is done by that: it ended well
/// before, and what it changed was kept.
async fn begin(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    changeset: &mut Option<ChangesetHandle>,
    next: Option<&Step>,
) -> Result<bool, Stopped> {
    let note = ground::open(house, run, live, plan).await?;
    let handle = match changeset {
        Some(handle) => handle,
        None => changeset.insert(run.context().start_changeset().await?),
    };
    let id = handle.id();
    ground::with_open(live, |open| open.changeset = Some(id)).await?;
    let standing = house.standing(plan).await?;
    if let (Some(note), Some(step)) = (note, next) {
        // What is kept is all that the sandbox holds: which part is whose can be told for the first step only.
        let is_whole = standing.finished.is_empty();
        if is_whole && kept::capture(house, run, live, plan, step, &note).await? {
            return Ok(true);
        }
        ground::discard(live).await?;
        ground::open(house, run, live, plan).await?;
        ground::with_open(live, |open| open.changeset = Some(id)).await?;
    }
    let standing = house.standing(plan).await?;
    if !standing.unfinished.is_empty() {
        ground::take_back(house, run, plan, handle, fold(&standing.unfinished)).await?;
    }
    if !standing.finished.is_empty() {
        ground::put_back(house, live, fold(&standing.finished)).await?;
    }
    Ok(false)
}
