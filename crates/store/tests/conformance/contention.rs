//! Jobs under many threads: one wins, the answers say which, and nobody runs what another runs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::{
    ChangesetState, ClaimRequest, Fence, Job, JobId, JobState, JobTransitionRejection, LeaseLost, NewJob,
    WorkerId,
};
use store::{JobEnd, JobStoreError, StoreError};

use super::bench::Bench;
use super::sample::{ANN, BOB, LEASE, change, changeset_id, job_id, new_apply, new_job, plan_id, request};

const THREADS: usize = 8;

fn worker(thread: usize) -> WorkerId {
    WorkerId::from_u128(0x1000 + thread as u128)
}

fn of_plan(worker: WorkerId, n: u64) -> ClaimRequest {
    ClaimRequest { only: Some(plan_id(n)), ..request(worker) }
}

/// Claims and runs until nothing is left; which jobs it ran.
async fn work(bench: &Bench, thread: usize) -> Vec<JobId> {
    let request =
        ClaimRequest { concurrency_max: u32::try_from(THREADS).unwrap(), ..request(worker(thread)) };
    let mut run = Vec::new();
    while let Some(job) = bench.claim(request.clone()).await {
        let n = u64::try_from(job.id.as_u128()).unwrap();
        let owner = bench.as_owner(job.claim());
        owner.start(changeset_id(n)).await.unwrap();
        owner.record_latest(&change(n)).await.unwrap();
        owner.close(changeset_id(n)).await.unwrap();
        owner.end(JobEnd::Succeeded).await.unwrap();
        run.push(job.id);
    }
    run
}

pub(crate) async fn each_of_4_000_jobs_is_claimed_once_and_run_once(bench: Bench) {
    const JOBS: u64 = 4_000;
    for n in 1..=JOBS {
        bench.enqueue(new_job(n)).await;
    }
    let run = bench.on_threads(THREADS, |thread| work(&bench, thread));
    let mut run: Vec<JobId> = run.into_iter().flatten().collect();
    run.sort_unstable();
    assert_eq!(run, (1..=JOBS).map(job_id).collect::<Vec<_>>());
    for job in bench.store.jobs(None).await.unwrap() {
        assert_eq!((job.state, job.fence), (JobState::Succeeded, Fence(1)));
        let sets = bench.changesets(job.plan).await;
        let effects: Vec<_> = sets.iter().map(|set| (set.state, set.entries.len())).collect();
        assert_eq!(effects, [(ChangesetState::Closed, 1)], "{}", job.id);
    }
}

pub(crate) async fn the_limit_holds_while_eight_claim_at_once(bench: Bench) {
    for round in 0..50 {
        for n in 1..=8 {
            bench.enqueue(new_job(round * 8 + n)).await;
        }
        let claimed = bench.on_threads(THREADS, |thread| {
            bench.claim(ClaimRequest { concurrency_max: 3, ..request(worker(thread)) })
        });
        let claimed: Vec<Job> = claimed.into_iter().flatten().collect();
        let ids: BTreeSet<JobId> = claimed.iter().map(|job| job.id).collect();
        let first: BTreeSet<JobId> = (1..=3).map(|n| job_id(round * 8 + n)).collect();
        assert_eq!((claimed.len(), ids), (3, first));
        for n in 1..=8 {
            let job = bench.job(new_job(round * 8 + n)).await;
            match job.state {
                JobState::Running => bench.as_owner(job.claim()).end(JobEnd::Succeeded).await,
                _ => bench.store.cancel(job.id, "enough").await,
            }
            .unwrap();
        }
    }
}

pub(crate) async fn one_of_eight_takes_an_expired_lease_over(bench: Bench) {
    for round in 1..=200 {
        bench.owner(round).await;
        bench.pass(LEASE);
        let claims = bench.on_threads(THREADS, |thread| bench.claim(of_plan(worker(thread), round)));
        let (winner, job) =
            claims.iter().enumerate().find_map(|(thread, claim)| Some((thread, claim.clone()?))).unwrap();
        assert_eq!(claims.iter().flatten().count(), 1);
        assert_eq!((job.fence, job.lost_leases), (Fence(2), 1));
        assert_eq!(job.worker, Some(worker(winner)));
        assert_eq!(bench.job(new_job(round)).await, job);
    }
}

pub(crate) async fn a_heartbeat_and_a_takeover_do_not_both_win(bench: Bench) {
    for round in 1..=200 {
        let owner = bench.owner(round).await;
        bench.pass(LEASE);
        let answers = bench.on_threads(2, async |thread| {
            if thread == 0 {
                owner.heartbeat().await.map(Some)
            } else {
                Ok(bench.claim(of_plan(BOB, round)).await)
            }
        });
        let now = bench.job(new_job(round)).await;
        let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
        let lost = JobStoreError::Store(StoreError::LeaseLost(lost));
        match now.worker {
            Some(ANN) => assert_eq!(answers, [Ok(Some(now)), Ok(None)]),
            _ => assert_eq!(answers, [Err(lost), Ok(Some(now))]),
        }
    }
}

pub(crate) async fn two_jobs_queued_for_one_plan_are_one_job(bench: Bench) {
    for round in 1..=200 {
        let new = |thread: usize| NewJob { id: job_id(round * 2 + thread as u64), ..new_job(round) };
        let answers = bench.on_threads(2, |thread| bench.store.enqueue(new(thread)));
        let jobs = bench.store.jobs(Some(plan_id(round))).await.unwrap();
        assert_eq!(jobs.len(), 1);
        let busy = Err(JobStoreError::Refused(JobTransitionRejection::PlanBusy { job: jobs[0].id }));
        let winner = usize::from(jobs[0].id == new(1).id);
        assert_eq!(answers[winner], Ok(jobs[0].clone()));
        assert_eq!(answers[1 - winner], busy);
    }
}

pub(crate) async fn one_job_queued_by_eight_is_one_job(bench: Bench) {
    for round in 1..=200 {
        let answers = bench.on_threads(THREADS, |_| bench.store.enqueue(new_job(round)));
        let job = bench.job(new_job(round)).await;
        assert_eq!(answers, vec![Ok(job); THREADS]);
    }
    assert_eq!(bench.store.jobs(None).await.unwrap().len(), 200);
}

pub(crate) async fn of_a_cancel_and_a_success_one_wins(bench: Bench) {
    for round in 1..=200 {
        let owner = bench.owner(round).await;
        let answers = bench.on_threads(2, async |thread| match thread {
            0 => bench.store.cancel(job_id(round), "enough").await,
            _ => owner.end(JobEnd::Succeeded).await,
        });
        let now = bench.job(new_job(round)).await;
        let refused = |refused| Err(JobStoreError::Refused(refused));
        let state = now.state;
        match state {
            JobState::Succeeded => {
                assert_eq!(answers, [refused(JobTransitionRejection::Final { state }), Ok(now)]);
            }
            _ => assert_eq!(answers, [Ok(now), refused(JobTransitionRejection::CancelRequested)]),
        }
    }
}

pub(crate) async fn of_a_cancel_and_a_seal_one_wins(bench: Bench) {
    for round in 1..=200 {
        let owner = bench.owner_of(new_apply(round)).await;
        let answers = bench.on_threads(2, async |thread| match thread {
            0 => bench.store.cancel(job_id(round), "enough").await.map(drop),
            _ => owner.seal().await,
        });
        let now = bench.job(new_apply(round)).await;
        let refused = |refused| Err(JobStoreError::Refused(refused));
        let stands = (now.state, now.sealed_at.is_some(), now.cancel.is_some());
        if now.sealed_at.is_some() {
            assert_eq!(answers, [refused(JobTransitionRejection::CancelTooLate), Ok(())]);
            assert_eq!(stands, (JobState::Running, true, false));
        } else {
            assert_eq!(answers, [Ok(()), refused(JobTransitionRejection::CancelRequested)]);
            assert_eq!(stands, (JobState::Running, false, true));
        }
    }
}

pub(crate) async fn of_two_cancellers_and_an_owner_one_acknowledges(bench: Bench) {
    for round in 1..=200 {
        let owner = bench.owner(round).await;
        let asked = AtomicUsize::new(0);
        let answers = bench.on_threads(3, async |thread| {
            if let Some(reason) = ["first", "second"].get(thread) {
                let answer = bench.store.cancel(job_id(round), reason).await;
                asked.fetch_add(1, Ordering::Release);
                return answer;
            }
            loop {
                let must_show = asked.load(Ordering::Acquire) == 2;
                let job = owner.heartbeat().await?;
                if job.cancel.is_some() {
                    return owner.end(JobEnd::Cancelled).await;
                }
                assert!(!must_show, "a cancel was lost");
            }
        });
        let now = bench.job(new_job(round)).await;
        assert_eq!(now.state, JobState::Cancelled);
        assert_eq!(answers[2], Ok(now.clone()), "the owner acknowledged");
        // A request that came after the acknowledgement is told so; the others hear the reason that won.
        let state = JobState::Cancelled;
        for answer in &answers[..2] {
            match answer {
                Ok(job) => assert_eq!(job.cancel, now.cancel),
                Err(refused) => {
                    assert_eq!(*refused, JobStoreError::Refused(JobTransitionRejection::Final { state }));
                }
            }
        }
        assert!(answers[..2].iter().any(Result::is_ok), "one was heard");
    }
}

pub(crate) async fn of_a_claim_and_a_cancel_of_a_waiting_job_each_is_told_what_happened(bench: Bench) {
    for round in 1..=200 {
        bench.enqueue(new_job(round)).await;
        let answers = bench.on_threads(2, async |thread| match thread {
            0 => Some(bench.store.cancel(job_id(round), "enough").await.unwrap()),
            _ => bench.claim(of_plan(ANN, round)).await,
        });
        let now = bench.job(new_job(round)).await;
        assert_eq!(answers[0], Some(now.clone()), "a cancel comes through either way");
        match &answers[1] {
            None => assert_eq!((now.state, now.fence), (JobState::Cancelled, Fence::NONE)),
            Some(claimed) => {
                assert_eq!((now.state, claimed.cancel.is_some()), (JobState::Running, false));
                assert_eq!(now.fence, claimed.fence);
            }
        }
    }
}
