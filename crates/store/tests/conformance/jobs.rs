//! Jobs: who waits, who is served next, and how a job ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{ClaimRequest, Fence, HELD, Job, JobId, JobState, JobTransitionRejection, Ms, NewJob, Phase};
use store::{JobEnd, JobStoreError, QUEUED_JOBS_MAX};

use super::bench::{Bench, failed};
use super::sample::{
    ANN, BOB, BOOT, LEASE, ONE_MS, STRANGER, job_id, new_apply, new_job, new_plan, plan_id, plan_job, prompt,
    request,
};

fn refused<T>(refused: JobTransitionRejection) -> Result<T, JobStoreError> {
    Err(JobStoreError::Refused(refused))
}

/// The next job for a worker that serves everybody, by its number; 0 when there is none.
async fn next(bench: &Bench, request: ClaimRequest) -> u128 {
    let job = bench.claim(request).await;
    job.map_or(0, |job| job.id.as_u128())
}

pub(crate) async fn a_queued_job_is_kept_as_it_was_given(bench: Bench) {
    let new = NewJob { phase: Phase::Strategize, not_before: bench.after(LEASE), ..new_job(1) };
    let queued = Job {
        id: new.id,
        plan: new.plan,
        phase: Phase::Strategize,
        state: JobState::Queued,
        fence: Fence::NONE,
        worker: None,
        boot: None,
        lease_until: Ms(0),
        lost_leases: 0,
        keys: BTreeSet::new(),
        not_before: new.not_before,
        cancel: None,
        sealed_at: None,
        why: None,
        created_at: bench.now(),
        started_at: None,
        finished_at: None,
    };
    assert_eq!(bench.store.enqueue(new).await, Ok(queued.clone()));
    bench.pass(ONE_MS);
    assert_eq!(bench.store.job(new.id).await, Ok(queued));
}

pub(crate) async fn a_job_queued_again_is_one_job(bench: Bench) {
    let new = new_job(1);
    let queued = bench.enqueue(new).await;
    bench.pass(ONE_MS);
    assert_eq!(bench.store.enqueue(new).await, Ok(queued));

    let running = bench.claim(request(ANN)).await.unwrap();
    assert_eq!(bench.store.enqueue(new).await, Ok(running.clone()));

    let ended = bench.as_owner(running.claim()).end(JobEnd::Succeeded).await.unwrap();
    assert_eq!(bench.store.enqueue(new).await, Ok(ended.clone()));
    assert_eq!(bench.store.jobs(None).await, Ok(vec![ended]));
}

pub(crate) async fn a_held_job_is_for_who_serves_its_plan_until_it_is_let_go(bench: Bench) {
    let held = NewJob { not_before: HELD, ..new_job(1) };
    let queued = bench.enqueue(held).await;
    assert_eq!(bench.job(held).await, queued);
    assert!(queued.is_held());
    assert_eq!(next(&bench, request(ANN)).await, 0);
    let serves = ClaimRequest { only: Some(plan_id(1)), ..request(ANN) };
    let running = bench.claim(serves).await.unwrap();
    assert_eq!((running.id, running.is_held()), (held.id, true));

    // Its worker died: it waits for a user, not for the next worker; its cancel waits for nothing.
    bench.pass(LEASE);
    assert_eq!(next(&bench, request(BOB)).await, 0);
    let due = bench.store.enqueue(new_job(1)).await.unwrap();
    assert_eq!((due.state, due.not_before), (JobState::Running, Ms(0)));
    assert_eq!(next(&bench, request(BOB)).await, 1);

    let other = NewJob { not_before: HELD, ..new_job(2) };
    bench.enqueue(other).await;
    bench.claim(ClaimRequest { only: Some(plan_id(2)), ..request(ANN) }).await.unwrap();
    bench.pass(LEASE);
    bench.store.cancel(other.id, "enough").await.unwrap();
    bench.store.enqueue(NewJob { not_before: bench.after(LEASE), ..new_job(3) }).await.unwrap();
    assert_eq!(next(&bench, ClaimRequest { concurrency_max: 1, ..request(BOB) }).await, 1);
    assert_eq!(next(&bench, ClaimRequest { concurrency_max: 1, ..request(BOB) }).await, 2);
}

pub(crate) async fn a_job_that_wants_keys_is_for_workers_that_have_them(bench: Bench) {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let with = |worker, variables: &[&str]| ClaimRequest {
        variables: Arc::new(names(variables)),
        ..request(worker)
    };
    let mut new = new_plan(1);
    new.spec.keys = names(&["KEY", "OTHER \" KEY"]);
    let first = plan_job(1, 1, Phase::Strategize);
    bench.store.create(new, vec![prompt()], first).await.unwrap();
    assert_eq!(bench.job(first).await.keys, names(&["KEY", "OTHER \" KEY"]));
    for lacking in [&[][..], &["KEY"], &["OTHER \" KEY", "PATH"]] {
        assert_eq!(bench.claim(with(ANN, lacking)).await, None, "{lacking:?}");
    }
    let all = ["HOME", "KEY", "OTHER \" KEY"];
    let running = bench.claim(with(ANN, &all)).await.unwrap();
    assert_eq!((running.id, &running.keys), (first.id, &names(&["KEY", "OTHER \" KEY"])));

    // Its owner died: whoever lacks a key takes something else.
    bench.pass(LEASE);
    bench.enqueue(new_job(2)).await;
    assert_eq!(bench.claim(request(BOB)).await.unwrap().plan, plan_id(2));
    assert_eq!(bench.claim(request(BOB)).await, None);
    let taken = bench.claim(with(BOB, &all)).await.unwrap();
    assert_eq!((taken.id, taken.worker), (first.id, Some(BOB)));

    // Its cancel waits for no key.
    bench.pass(LEASE);
    bench.store.cancel(first.id, "enough").await.unwrap();
    let owner = loop {
        let claimed = bench.claim(request(ANN)).await.unwrap();
        if claimed.id == first.id {
            break claimed.worker;
        }
    };
    assert_eq!(owner, Some(ANN));
}

pub(crate) async fn a_job_that_is_asked_for_earlier_is_due_earlier_and_never_later(bench: Bench) {
    let later = NewJob { not_before: bench.after(LEASE), ..new_job(1) };
    bench.enqueue(later).await;
    assert_eq!(bench.enqueue(NewJob { not_before: HELD, ..later }).await.not_before, later.not_before);
    assert_eq!(next(&bench, request(ANN)).await, 0);
    assert_eq!(bench.enqueue(new_job(1)).await.not_before, Ms(0));
    assert_eq!(next(&bench, request(ANN)).await, 1);
}

pub(crate) async fn the_live_jobs_are_those_that_wait_or_run(bench: Bench) {
    bench.owner(1).await.end(JobEnd::Succeeded).await.unwrap();
    bench.owner(3).await;
    bench.enqueue(new_job(2)).await;
    let live = bench.store.live_jobs().await.unwrap();
    assert_eq!(live, [bench.job(new_job(2)).await, bench.job(new_job(3)).await]);
}

pub(crate) async fn an_id_of_another_plan_or_phase_is_refused(bench: Bench) {
    bench.enqueue(new_job(1)).await;
    let before = bench.snapshot().await;
    let of_another_plan = NewJob { plan: plan_id(2), ..new_job(1) };
    let taken = JobTransitionRejection::IdTaken { job: job_id(1) };
    for other in [of_another_plan, new_apply(1)] {
        assert_eq!(bench.store.enqueue(other).await, refused(taken));
    }
    assert_eq!(bench.snapshot().await, before);
    assert_eq!(bench.store.jobs(Some(plan_id(2))).await, Ok(vec![]));
}

pub(crate) async fn a_plan_has_one_live_job(bench: Bench) {
    let second = NewJob { plan: plan_id(1), ..new_job(2) };
    let busy = JobTransitionRejection::PlanBusy { job: job_id(1) };
    bench.enqueue(new_job(1)).await;
    assert_eq!(bench.store.enqueue(second).await, refused(busy));
    let running = bench.claim(request(ANN)).await.unwrap();
    let before = bench.snapshot().await;
    assert_eq!(bench.store.enqueue(second).await, refused(busy));
    assert_eq!(bench.snapshot().await, before);

    bench.as_owner(running.claim()).end(failed()).await.unwrap();
    assert_eq!(bench.enqueue(second).await, Job::new(second, bench.now()));
}

pub(crate) async fn ten_thousand_jobs_wait_and_no_more(bench: Bench) {
    let owner = bench.owner(0).await;
    let last = u64::try_from(QUEUED_JOBS_MAX).unwrap();
    assert_eq!(last, 10_000);
    for n in 1..=last {
        bench.enqueue(new_job(n)).await;
    }
    let full = |queued| Err(JobStoreError::QueueFull { queued });
    let one_more = new_job(last + 1);
    assert_eq!(bench.store.enqueue(one_more).await, full(10_000));
    let missing = JobTransitionRejection::NotFound { job: one_more.id };
    assert_eq!(bench.store.job(one_more.id).await, refused(missing));
    let known = Job::new(new_job(7), bench.now());
    assert_eq!(bench.store.enqueue(new_job(7)).await, Ok(known));

    // Work that began comes back even so, and waits among the others.
    owner.release().await.unwrap();
    assert_eq!(bench.store.enqueue(one_more).await, full(10_001));
    bench.claim(request(ANN)).await.unwrap();
    assert_eq!(bench.store.enqueue(one_more).await, full(10_000));
    bench.claim(request(ANN)).await.unwrap();
    assert_eq!(bench.enqueue(one_more).await, Job::new(one_more, bench.now()));
}

pub(crate) async fn a_claim_makes_its_worker_the_owner(bench: Bench) {
    let queued = bench.enqueue(new_job(1)).await;
    bench.pass(ONE_MS);
    let running = Job {
        state: JobState::Running,
        fence: Fence(1),
        worker: Some(ANN),
        boot: Some(BOOT),
        lease_until: bench.after(LEASE),
        started_at: Some(bench.now()),
        ..queued
    };
    assert_eq!(bench.store.claim(&request(ANN)).await, Ok(Some(running.clone())));
    assert_eq!(bench.job(new_job(1)).await, running);
    assert_eq!(bench.store.claim(&request(BOB)).await, Ok(None), "its owner is alive");
    assert_eq!(bench.job(new_job(1)).await, running);
}

pub(crate) async fn jobs_are_served_and_listed_in_order_of_id(bench: Bench) {
    // As decimal text, as signed numbers and as bytes backwards these are in other orders.
    let in_order = [2, 10, 256, 1 << 63, 1 << 64, 1 << 127, u128::MAX - 1];
    let queued = [3, 0, 6, 1, 5, 2, 4].map(|place| in_order[place]);
    for (n, id) in (1..).zip(queued) {
        let id = JobId::from_u128(id);
        bench.enqueue(NewJob { id, ..new_job(n) }).await;
    }
    let listed = bench.store.jobs(None).await.unwrap();
    let listed: Vec<u128> = listed.into_iter().map(|job| job.id.as_u128()).collect();
    assert_eq!(listed, in_order);
    for id in in_order {
        assert_eq!(next(&bench, request(ANN)).await, id);
    }
    assert_eq!(next(&bench, request(ANN)).await, 0);
}

pub(crate) async fn jobs_are_told_by_id_and_by_plan(bench: Bench) {
    bench.owner(1).await.end(JobEnd::Succeeded).await.unwrap();
    let again = NewJob { plan: plan_id(1), ..new_job(3) };
    let queued = [bench.enqueue(again).await, bench.enqueue(new_job(2)).await];
    let first = bench.job(new_job(1)).await;
    let of_plan = |plan| bench.store.jobs(Some(plan));
    assert_eq!(of_plan(plan_id(1)).await, Ok(vec![first, queued[0].clone()]));
    assert_eq!(of_plan(plan_id(2)).await, Ok(vec![queued[1].clone()]));
    assert_eq!(of_plan(STRANGER).await, Ok(vec![]));
    let missing = JobTransitionRejection::NotFound { job: job_id(9) };
    assert_eq!(bench.store.job(job_id(9)).await, refused(missing));
}

pub(crate) async fn no_job_is_claimed_before_it_is_due(bench: Bench) {
    let later = NewJob { not_before: bench.after(LEASE), ..new_job(1) };
    bench.enqueue(later).await;
    bench.enqueue(new_job(2)).await;
    assert_eq!(next(&bench, request(ANN)).await, 2);
    assert_eq!(next(&bench, request(ANN)).await, 0);
    bench.pass(LEASE - ONE_MS);
    let before = bench.snapshot().await;
    assert_eq!(next(&bench, request(ANN)).await, 0);
    assert_eq!(bench.snapshot().await, before);
    bench.pass(ONE_MS);
    // Job 2 is older but its owner died in this very millisecond.
    let only = Some(plan_id(1));
    assert_eq!(next(&bench, ClaimRequest { only, ..request(ANN) }).await, 1);
}

pub(crate) async fn a_worker_of_one_plan_serves_only_that(bench: Bench) {
    let of_plan = |n| ClaimRequest { only: Some(plan_id(n)), ..request(BOB) };
    for n in [1, 2, 3] {
        bench.enqueue(new_job(n)).await;
    }
    assert_eq!(next(&bench, of_plan(2)).await, 2);
    assert_eq!(next(&bench, of_plan(2)).await, 0);
    assert_eq!(next(&bench, of_plan(9)).await, 0);
    bench.pass(LEASE);
    assert_eq!(next(&bench, of_plan(3)).await, 3, "the dead owner of another plan is not its business");
    assert_eq!(next(&bench, of_plan(3)).await, 0);
    assert_eq!(next(&bench, of_plan(2)).await, 2);
}

pub(crate) async fn some_jobs_are_claimed_at_once_in_their_order_and_within_the_limit(bench: Bench) {
    for n in 1..=5 {
        bench.enqueue(new_job(n)).await;
    }
    let some = async |concurrency_max, most| {
        let request = ClaimRequest { concurrency_max, ..request(ANN) };
        let jobs = bench.store.claim_some(&request, most).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect::<Vec<JobId>>()
    };
    let ids = |numbers: &[u64]| numbers.iter().map(|n| new_job(*n).id).collect::<Vec<JobId>>();
    assert_eq!(some(9, 0).await, []);
    assert_eq!(some(9, 2).await, ids(&[1, 2]));
    assert_eq!(some(3, 9).await, ids(&[3]), "two of three slots are taken");
    assert_eq!(some(9, 9).await, ids(&[4, 5]));
    assert_eq!(some(9, 9).await, []);
}

pub(crate) async fn no_more_jobs_run_than_the_limit_allows(bench: Bench) {
    let within = |concurrency_max| ClaimRequest { concurrency_max, ..request(ANN) };
    for n in 1..=5 {
        bench.enqueue(new_job(n)).await;
    }
    assert_eq!(next(&bench, within(0)).await, 0);
    assert_eq!(next(&bench, within(2)).await, 1);
    assert_eq!(next(&bench, within(2)).await, 2);
    let before = bench.snapshot().await;
    assert_eq!(next(&bench, within(2)).await, 0);
    let only = Some(plan_id(4));
    assert_eq!(next(&bench, ClaimRequest { only, ..within(2) }).await, 0);
    assert_eq!(bench.snapshot().await, before);

    // An end frees a slot, and so does a release.
    let owner = |job: Job| bench.as_owner(job.claim());
    let first = owner(bench.job(new_job(1)).await);
    first.end(JobEnd::Succeeded).await.unwrap();
    assert_eq!(next(&bench, within(2)).await, 3);
    assert_eq!(next(&bench, within(2)).await, 0);
    owner(bench.job(new_job(3)).await).release().await.unwrap();
    assert_eq!(next(&bench, within(2)).await, 3);
    assert_eq!(next(&bench, within(3)).await, 4);
}

pub(crate) async fn a_released_job_waits_again_and_has_no_owner(bench: Bench) {
    let owner = bench.owner(1).await;
    owner.settled_node().await.unwrap();
    let running = bench.job(new_job(1)).await;
    bench.pass(ONE_MS);
    let waiting =
        Job { state: JobState::Queued, worker: None, boot: None, lease_until: Ms(0), ..running.clone() };
    assert_eq!(owner.release().await, Ok(waiting.clone()));
    assert_eq!(bench.job(new_job(1)).await, waiting);

    bench.pass(ONE_MS);
    let next_owner = Job { fence: Fence(2), worker: Some(BOB), lease_until: bench.after(LEASE), ..running };
    assert_eq!(bench.store.claim(&request(BOB)).await, Ok(Some(next_owner)), "a release is no death");
}

/// The three ends, each with the job that it makes of a running one.
fn ends(running: &Job, now: Ms) -> [(JobEnd, Job); 3] {
    let ended =
        |state, why| Job { state, why, lease_until: Ms(0), finished_at: Some(now), ..running.clone() };
    let JobEnd::Failed { why } = failed() else { unreachable!("`failed` makes a failure") };
    [
        (JobEnd::Succeeded, ended(JobState::Succeeded, None)),
        (failed(), ended(JobState::Failed, Some(why))),
        (JobEnd::Cancelled, ended(JobState::Cancelled, None)),
    ]
}

pub(crate) async fn an_end_asked_for_again_gives_the_same_answer_and_another_none(bench: Bench) {
    for place in 0..3 {
        let n = 1 + place as u64;
        let owner = bench.owner(n).await;
        bench.pass(ONE_MS);
        if place == 2 {
            bench.store.cancel(job_id(n), "enough").await.unwrap();
        }
        let running = bench.job(new_job(n)).await;
        let all = ends(&running, bench.now());
        let (end, ended) = all[place].clone();
        assert_eq!(owner.end(end.clone()).await, Ok(ended.clone()));
        bench.pass(ONE_MS);
        let before = bench.snapshot().await;
        assert_eq!(owner.end(end).await, Ok(ended.clone()));
        for (other, _) in all.into_iter().filter(|(_, job)| job.state != ended.state) {
            let state = ended.state;
            assert_eq!(owner.end(other).await, refused(JobTransitionRejection::Final { state }));
        }
        assert_eq!(bench.snapshot().await, before);
    }
}
