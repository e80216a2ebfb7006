//! Brings plans to where a promise wants them, by the store's own steps only.
//!
//! Plan n has the jobs 1000 n + 1, + 2, … in the order in which they are queued.

use domain::{
    ApplyState, ClaimRequest, EventKind, Initiator, Job, Phase, Plan, PlanEvent, PlanId, PlanState,
    WorkState, WorkerId,
};
use serde_json::Value;
use store::{JobEnd, PlanMove, PlanStoreError};

use super::bench::{Bench, Owner, constrained, failed};
use super::sample::{ANN, new_plan, plan_id, plan_job, prompt, request};

/// The jobs that a plan had, in order.
async fn jobs(bench: &Bench, n: u64) -> Vec<Job> {
    bench.store.jobs(Some(plan_id(n))).await.unwrap()
}

/// Makes plan n with its first job.
pub(crate) async fn create(bench: &Bench, n: u64) -> Plan {
    bench.store.create(new_plan(n), vec![prompt()], plan_job(n, 1, Phase::Strategize)).await.unwrap()
}

/// A worker claims the job that plan n waits for.
pub(crate) async fn start_by(bench: &Bench, n: u64, worker: WorkerId) -> Owner {
    let only = Some(plan_id(n));
    bench.as_owner(bench.claim(ClaimRequest { only, ..request(worker) }).await.unwrap().claim())
}

/// Ann claims the job that plan n waits for.
pub(crate) async fn start(bench: &Bench, n: u64) -> Owner {
    start_by(bench, n, ANN).await
}

/// The move of plan n by a person who has seen it as it stands; with the next job, if it leads to a queue.
pub(crate) async fn a_move(bench: &Bench, n: u64, event: PlanEvent) -> PlanMove {
    let plan = bench.plan(plan_id(n)).await;
    let next = plan.state.next(event).ok().filter(|next| next.is_queued());
    let k = jobs(bench, n).await.len() as u64 + 1;
    PlanMove {
        plan: plan.id,
        version: plan.version,
        event,
        by: Initiator::User,
        job: next.map(|next| plan_job(n, k, next.phase())),
        request: Value::Null,
        decisions: Vec::new(),
        record: None,
        contents: Vec::new(),
        spec: None,
    }
}

pub(crate) async fn by_hand(bench: &Bench, n: u64, event: PlanEvent) -> Result<Plan, PlanStoreError> {
    bench.store.move_plan(a_move(bench, n, event).await).await
}

/// Makes plan n and brings it to the queue of a phase.
pub(crate) async fn queued(bench: &Bench, n: u64, phase: Phase) {
    create(bench, n).await;
    for _ in Phase::ALL.iter().take_while(|done| **done != phase) {
        start(bench, n).await.end(JobEnd::Succeeded).await.unwrap();
        by_hand(bench, n, PlanEvent::Advance).await.unwrap();
    }
}

/// Makes plan n and brings it into a phase that Ann works on.
pub(crate) async fn processing(bench: &Bench, n: u64, phase: Phase) -> Owner {
    queued(bench, n, phase).await;
    start(bench, n).await
}

/// Makes plan n and brings it to this state.
pub(crate) async fn reach(bench: &Bench, n: u64, state: PlanState) {
    use ApplyState as A;
    use PlanState::{Apply, Execute, Strategize};
    queued(bench, n, state.phase()).await;
    let end = match state {
        Strategize(WorkState::Queued) | Execute(WorkState::Queued) | Apply(A::Queued) => None,
        Strategize(WorkState::Processing) | Execute(WorkState::Processing) | Apply(A::Processing) => {
            start(bench, n).await;
            None
        }
        Strategize(WorkState::Cancelled) | Execute(WorkState::Cancelled) | Apply(A::Cancelled) => {
            let waiting = jobs(bench, n).await.pop().unwrap();
            bench.store.cancel(waiting.id, "enough").await.unwrap();
            None
        }
        Strategize(WorkState::Complete) | Execute(WorkState::Complete) | Apply(A::Applied) => {
            Some(JobEnd::Succeeded)
        }
        Strategize(WorkState::Errored) | Execute(WorkState::Errored) | Apply(A::Errored) => Some(failed()),
        Apply(A::Constrained) => Some(constrained()),
    };
    if let Some(end) = end {
        start(bench, n).await.end(end).await.unwrap();
    }
    assert_eq!(bench.plan(plan_id(n)).await.state, state, "the walk is wrong");
}

/// The state of a plan according to its events, and its attempt; they have no gaps, and each move
/// begins where the last one ended.
pub(crate) async fn retold(bench: &Bench, plan: PlanId) -> (PlanState, u64) {
    let events = bench.events(plan).await;
    assert_eq!(events[0].kind, EventKind::PlanCreated);
    let (mut state, mut attempt) = (PlanState::FIRST, 1);
    for (place, event) in events.iter().enumerate() {
        assert_eq!(event.n, place as u64 + 1);
        if event.kind == EventKind::PlanMoved {
            assert_eq!(event.data["from"], state.to_string());
            let word = event.data["event"].as_str().unwrap();
            state = state.next(PlanEvent::parse(word).unwrap()).unwrap();
            assert_eq!(event.data["to"], state.to_string());
            attempt = event.data["attempt"].as_u64().unwrap();
        }
    }
    (state, attempt)
}

/// The kinds of events of a plan after its record `after`.
pub(crate) async fn kinds_after(bench: &Bench, plan: PlanId, after: usize) -> Vec<EventKind> {
    bench.events(plan).await.into_iter().skip(after).map(|event| event.kind).collect()
}
