//! Cancels: a request wins over every other end, unless the apply was sealed or the job was final before it.

use domain::{CancelRequest, ClaimRequest, Fence, Job, JobState, JobTransitionRejection, Ms, NewJob, Phase};
use store::{JobEnd, JobStoreError};

use super::bench::{Bench, Owner, failed};
use super::sample::{ANN, BOB, LEASE, ONE_MS, job_id, new_apply, new_job, plan_id, request};

fn refused<T>(refused: JobTransitionRejection) -> Result<T, JobStoreError> {
    Err(JobStoreError::Refused(refused))
}

fn asked_at(at: Ms) -> Option<CancelRequest> {
    let reason = "enough".to_owned();
    Some(CancelRequest { at, reason })
}

async fn cancel(bench: &Bench, n: u64) -> Result<Job, JobStoreError> {
    bench.store.cancel(job_id(n), "enough").await
}

pub(crate) async fn a_queued_job_is_cancelled_at_once(bench: Bench) {
    let fresh = bench.enqueue(new_job(1)).await;
    let begun = bench.owner(2).await.release().await.unwrap();
    for (n, queued) in [(1, fresh), (2, begun)] {
        bench.pass(ONE_MS);
        let cancelled = Job {
            state: JobState::Cancelled,
            cancel: asked_at(bench.now()),
            finished_at: Some(bench.now()),
            ..queued
        };
        assert_eq!(cancel(&bench, n).await, Ok(cancelled.clone()));
        assert_eq!(bench.job(new_job(n)).await, cancelled);
    }
    assert_eq!(bench.claim(request(ANN)).await, None);
}

pub(crate) async fn of_all_who_cancel_a_running_job_one_is_the_first(bench: Bench) {
    let owner = bench.owner(1).await;
    let asked =
        bench.on_threads(8, |_| async { bench.store.cancel_first(job_id(1), "enough").await.unwrap().1 });
    assert_eq!(asked.iter().filter(|is_first| **is_first).count(), 1, "{asked:?}");
    owner.end(JobEnd::Cancelled).await.unwrap();
    let is_over = JobTransitionRejection::Final { state: JobState::Cancelled };
    assert_eq!(bench.store.cancel_first(job_id(1), "enough").await, refused(is_over));
}

pub(crate) async fn a_running_job_is_cancelled_by_its_owner(bench: Bench) {
    let owner = bench.owner(1).await;
    let running = bench.job(new_job(1)).await;
    bench.pass(ONE_MS);
    let asked = Job { cancel: asked_at(bench.now()), ..running };
    assert_eq!(cancel(&bench, 1).await, Ok(asked.clone()));
    bench.pass(ONE_MS);
    let again = bench.store.cancel(job_id(1), "another reason").await;
    assert_eq!(again, Ok(asked.clone()), "the first request stays");
    let heard = owner.heartbeat().await.unwrap();
    assert_eq!(heard.cancel, asked.cancel, "the owner hears of it");

    let acknowledged =
        Job { state: JobState::Cancelled, lease_until: Ms(0), finished_at: Some(bench.now()), ..asked };
    assert_eq!(owner.end(JobEnd::Cancelled).await, Ok(acknowledged.clone()));
    assert_eq!(bench.job(new_job(1)).await, acknowledged);
}

pub(crate) async fn a_cancel_that_nobody_asked_for_is_not_acknowledged(bench: Bench) {
    let owner = bench.owner(1).await;
    let sealed = bench.owner_of(new_apply(2)).await;
    sealed.seal().await.unwrap();
    let before = bench.snapshot().await;
    for owner in [owner, sealed] {
        let answer = owner.end(JobEnd::Cancelled).await;
        assert_eq!(answer, refused(JobTransitionRejection::CancelNotRequested));
    }
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn a_final_or_unknown_job_is_not_cancelled(bench: Bench) {
    bench.owner(1).await.end(JobEnd::Succeeded).await.unwrap();
    bench.owner(2).await.end(failed()).await.unwrap();
    bench.enqueue(new_job(3)).await;
    cancel(&bench, 3).await.unwrap();
    let before = bench.snapshot().await;
    for (n, state) in [(1, JobState::Succeeded), (2, JobState::Failed), (3, JobState::Cancelled)] {
        assert_eq!(cancel(&bench, n).await, refused(JobTransitionRejection::Final { state }));
    }
    let missing = JobTransitionRejection::NotFound { job: job_id(4) };
    assert_eq!(cancel(&bench, 4).await, refused(missing));
    assert_eq!(bench.snapshot().await, before);
}

/// All that an owner could do instead of acknowledging a cancel.
async fn other_ways_out(owner: &Owner) -> [Result<(), JobStoreError>; 4] {
    [
        owner.end(JobEnd::Succeeded).await.map(drop),
        owner.end(failed()).await.map(drop),
        owner.release().await.map(drop),
        owner.seal().await,
    ]
}

pub(crate) async fn a_cancel_before_every_other_end_wins(bench: Bench) {
    let owner = bench.owner_of(new_apply(1)).await;
    cancel(&bench, 1).await.unwrap();
    let before = bench.snapshot().await;
    for way_out in other_ways_out(&owner).await {
        assert_eq!(way_out, refused(JobTransitionRejection::CancelRequested));
    }
    assert_eq!(bench.snapshot().await, before);
    let ended = owner.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!((ended.state, ended.sealed_at), (JobState::Cancelled, None));
}

pub(crate) async fn an_end_before_the_cancel_wins(bench: Bench) {
    let ends = [(JobEnd::Succeeded, JobState::Succeeded), (failed(), JobState::Failed)];
    for (n, (end, state)) in (1..).zip(ends) {
        let ended = bench.owner(n).await.end(end).await.unwrap();
        assert_eq!(cancel(&bench, n).await, refused(JobTransitionRejection::Final { state }));
        assert_eq!(bench.job(new_job(n)).await, ended);
        assert_eq!((ended.state, ended.cancel), (state, None));
    }
}

pub(crate) async fn a_release_before_the_cancel_lets_it_end_the_job(bench: Bench) {
    let owner = bench.owner(1).await;
    owner.release().await.unwrap();
    let cancelled = cancel(&bench, 1).await.unwrap();
    assert_eq!((cancelled.state, cancelled.fence), (JobState::Cancelled, Fence(1)));
}

pub(crate) async fn a_cancel_whose_owner_died_is_finished_though_no_slot_is_free(bench: Bench) {
    for n in [1, 2, 3] {
        bench.owner(n).await;
    }
    bench.owner_of(new_apply(4)).await.seal().await.unwrap();
    bench.pass(LEASE);
    bench.owner(5).await;
    for n in [2, 3] {
        cancel(&bench, n).await.unwrap();
    }
    bench.enqueue(new_job(6)).await;
    let full = ClaimRequest { concurrency_max: 1, ..request(BOB) };
    for n in [1, 6] {
        let only = ClaimRequest { only: Some(plan_id(n)), ..full.clone() };
        assert_eq!(bench.claim(only).await, None, "job {n} is not to be cancelled");
    }
    let third = bench.claim(ClaimRequest { only: Some(plan_id(3)), ..full.clone() }).await.unwrap();
    assert_eq!((third.id, third.fence, third.worker), (job_id(3), Fence(2), Some(BOB)));
    let second = bench.claim(full.clone()).await.unwrap();
    assert_eq!((second.id, second.fence), (job_id(2), Fence(2)));
    assert_eq!(bench.claim(full.clone()).await, None, "whoever cancels is alive, and is waited for");
    let fourth = bench.claim(ClaimRequest { only: Some(plan_id(4)), ..full }).await.unwrap();
    assert_eq!((fourth.id, fourth.fence), (job_id(4), Fence(2)), "an apply waits for no slot");
}

pub(crate) async fn a_seal_before_the_cancel_wins_until_the_job_ends(bench: Bench) {
    for (n, end) in (1..).zip([JobEnd::Succeeded, failed()]) {
        let owner = bench.owner_of(new_apply(n)).await;
        let running = bench.job(new_apply(n)).await;
        bench.pass(ONE_MS);
        assert_eq!(owner.seal().await, Ok(()));
        let sealed = Job { sealed_at: Some(bench.now()), ..running };
        bench.pass(ONE_MS);
        assert_eq!(owner.seal().await, Ok(()), "sealed again, it was sealed once");
        assert_eq!(bench.job(new_apply(n)).await, sealed);
        assert_eq!(cancel(&bench, n).await, refused(JobTransitionRejection::CancelTooLate));
        assert_eq!(owner.release().await, refused(JobTransitionRejection::Sealed));
        assert_eq!(bench.job(new_apply(n)).await, sealed);
        let ended = owner.end(end).await.unwrap();
        assert_eq!((ended.sealed_at, ended.cancel), (sealed.sealed_at, None));
        let state = ended.state;
        assert_eq!(cancel(&bench, n).await, refused(JobTransitionRejection::Final { state }));
    }
}

pub(crate) async fn only_an_apply_is_sealed(bench: Bench) {
    for (n, phase) in (1..).zip([Phase::Strategize, Phase::Execute]) {
        let owner = bench.owner_of(NewJob { phase, ..new_job(n) }).await;
        let before = bench.snapshot().await;
        assert_eq!(owner.seal().await, refused(JobTransitionRejection::NotApply { phase }));
        assert_eq!(bench.snapshot().await, before);
    }
}
