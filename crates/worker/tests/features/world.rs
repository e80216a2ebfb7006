//! What one scenario has: its threads, and the things of its feature; and the steps that every feature uses.

use std::sync::Arc;
use std::time::Duration;

use cucumber::gherkin::Step;
use cucumber::{World, then, when};
use domain::{BootId, Claim, ClaimRequest, JobId, Ms, NewJob, Phase, PlanId, WorkerId};
use store::JobStore;

use crate::threads::{Threads, block_on};
use crate::{
    breaker, breaker_many, cancellation, cancellation_many, changesets, changesets_many, errors, pipelines,
    worker,
};

/// The world of one scenario; each feature uses its own part.
#[derive(Default, World)]
pub(crate) struct Features {
    pub(crate) threads: Threads,
    pub(crate) breaker: breaker::Scene,
    pub(crate) breaker_many: breaker_many::Scene,
    pub(crate) pipelines: pipelines::Scene,
    pub(crate) changesets: changesets::Scene,
    pub(crate) changesets_many: changesets_many::Scene,
    pub(crate) errors: errors::Scene,
    pub(crate) cancellation: cancellation::Scene,
    pub(crate) cancellation_many: cancellation_many::Scene,
    pub(crate) worker: worker::Scene,
}

impl std::fmt::Debug for Features {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Features").finish_non_exhaustive()
    }
}

#[when(expr = "thread {word} runs to its end")]
fn thread_goes_on(world: &mut Features, thread: String) {
    world.threads.finish(&thread);
}

#[then(expr = "thread {word} comes to its end")]
fn thread_ends(world: &mut Features, thread: String) {
    world.threads.finish(&thread);
}

#[then(expr = "thread {word} crashes with {string}")]
fn thread_crashes(world: &mut Features, thread: String, message: String) {
    assert_eq!(world.threads.crash(&thread), message);
}

/// The rows of a step's table below its header, which must be `header`.
pub(crate) fn rows<const N: usize>(step: &Step, header: [&str; N]) -> Vec<[String; N]> {
    let table = step.table.as_ref().expect("the step has a table");
    let mut rows = table.rows.iter().map(|row| {
        let cells: Result<[String; N], _> = row.clone().try_into();
        cells.unwrap_or_else(|row| panic!("the row {row:?} has not {N} cells"))
    });
    assert_eq!(rows.next().expect("the table has a header"), header);
    rows.collect()
}

/// The id of what a scenario calls `name`: the same for the same name.
pub(crate) fn id_of(name: &str) -> u128 {
    let hash = domain::Hash::from_content(name.as_bytes());
    u128::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer than an id"))
}

/// A plan whose job a worker owns: the right to write for it.
pub(crate) fn owned_plan(store: &Arc<impl JobStore + 'static>, number: u128) -> Claim {
    let store = Arc::clone(store);
    crate::threads::apart("claiming a job", move || {
        block_on(async {
            let plan = PlanId::from_u128(number);
            let new = NewJob { id: JobId::from_u128(number), plan, phase: Phase::Execute, not_before: Ms(0) };
            store.enqueue(new).await.expect("the job is queued");
            let request = ClaimRequest {
                worker: WorkerId::from_u128(1),
                boot: BootId::from_u128(1),
                lease: Duration::from_secs(30),
                concurrency_max: u32::MAX,
                only: Some(plan),
                variables: Default::default(),
            };
            let job = store.claim(&request).await.expect("the store answers");
            job.expect("the job is claimed").claim()
        })
    })
}
