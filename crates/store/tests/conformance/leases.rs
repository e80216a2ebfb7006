//! Leases: an owner that is silent for too long is replaced, and whoever is replaced counts no more.

use std::time::{Duration, Instant};

use domain::{
    CancelRequest, Changeset, ChangesetEnding, ChangesetError, ChangesetState, ClaimRequest, Fence, Job,
    JobId, JobState, LeaseLost, Ms, RecordedChange, StartedChangeset, WorkerId, changeset_digest,
};
use store::{ChangesetStoreError, JobEnd, JobStoreError, StoreError};

use super::bench::{Bench, failed};
use super::sample::{
    ANN, BOB, BOOT, LEASE, ONE_MS, OTHER_BOOT, change, changeset_id, entry, job_id, new_apply, new_job,
    plan_id, request,
};

async fn next(bench: &Bench, request: ClaimRequest) -> Option<JobId> {
    bench.claim(request).await.map(|job| job.id)
}

pub(crate) async fn a_heartbeat_renews_the_lease(bench: Bench) {
    let owner = bench.owner(1).await;
    let claimed = bench.job(new_job(1)).await;
    for _ in 0..3 {
        bench.pass(LEASE - ONE_MS);
        let renewed = Job { lease_until: bench.after(LEASE), ..claimed.clone() };
        assert_eq!(owner.heartbeat().await, Ok(renewed.clone()));
        assert_eq!(bench.job(new_job(1)).await, renewed);
        assert_eq!(bench.claim(request(BOB)).await, None);
    }
    let long = bench.store.heartbeat(&owner.claim, 2 * LEASE).await.unwrap();
    assert_eq!(long.lease_until, bench.after(2 * LEASE), "the owner says how long");
    let short = bench.store.heartbeat(&owner.claim, ONE_MS).await.unwrap();
    assert_eq!(short, long, "and a beat that was overtaken shortens nothing");
}

pub(crate) async fn a_lease_that_ran_out_is_taken_over_under_the_next_fence(bench: Bench) {
    bench.owner(1).await;
    let claimed = bench.job(new_job(1)).await;
    bench.pass(LEASE - ONE_MS);
    assert_eq!(bench.claim(request(BOB)).await, None, "one millisecond is left");
    bench.pass(ONE_MS);
    let taken = Job {
        fence: Fence(2),
        worker: Some(BOB),
        lease_until: bench.after(LEASE),
        lost_leases: 1,
        ..claimed
    };
    assert_eq!(bench.claim(request(BOB)).await, Some(taken.clone()));
    assert_eq!(bench.job(new_job(1)).await, taken);
    assert_eq!(bench.claim(request(ANN)).await, None, "Bob is alive");
}

pub(crate) async fn a_lease_that_ran_out_is_still_its_owners_until_somebody_takes_it(bench: Bench) {
    let owner = bench.owner(1).await;
    owner.start(changeset_id(1)).await.unwrap();
    bench.pass(LEASE * 2);
    let first = RecordedChange { changeset: changeset_id(1), seq: 1, no: 1 };
    assert_eq!(owner.record_latest(&change(1)).await, Ok(first));
    let renewed = owner.heartbeat().await.unwrap();
    assert_eq!((renewed.fence, renewed.lost_leases), (Fence(1), 0));
    assert_eq!(bench.claim(request(BOB)).await, None);
}

pub(crate) async fn work_that_lost_its_owner_goes_before_work_that_nobody_began(bench: Bench) {
    for n in [5, 3] {
        bench.owner(n).await;
    }
    bench.pass(LEASE);
    bench.enqueue(new_job(1)).await;
    for n in [3, 5, 1] {
        assert_eq!(next(&bench, request(BOB)).await, Some(job_id(n)));
    }
}

pub(crate) async fn a_dead_owner_holds_no_slot_and_its_replacement_does(bench: Bench) {
    let alone = ClaimRequest { concurrency_max: 1, ..request(BOB) };
    for n in [1, 2] {
        bench.owner(n).await;
    }
    bench.enqueue(new_job(3)).await;
    assert_eq!(next(&bench, alone.clone()).await, None);
    bench.pass(LEASE);
    let third = ClaimRequest { only: Some(plan_id(3)), ..alone.clone() };
    assert_eq!(next(&bench, third.clone()).await, Some(job_id(3)), "two are dead, none lives");
    let before = bench.snapshot().await;
    assert_eq!(next(&bench, alone.clone()).await, None, "one lives");
    assert_eq!(bench.snapshot().await, before);
    let two = ClaimRequest { concurrency_max: 2, ..alone.clone() };
    assert_eq!(next(&bench, two.clone()).await, Some(job_id(1)));
    assert_eq!(next(&bench, two.clone()).await, None);
}

/// Job 1 as it stands after its third death, owned by Ann and about to die again.
async fn thrice_dead(bench: &Bench, request: ClaimRequest) -> Job {
    for died in 1..=3 {
        bench.pass(LEASE);
        let job = bench.claim(request.clone()).await.unwrap();
        assert_eq!((job.fence, job.lost_leases), (Fence(1 + u64::from(died)), died));
    }
    bench.job(new_job(1)).await
}

pub(crate) async fn a_job_whose_worker_died_four_times_is_given_up(bench: Bench) {
    bench.owner(1).await;
    let last = thrice_dead(&bench, request(ANN)).await;
    bench.enqueue(new_job(2)).await;
    bench.pass(LEASE);
    let given_up = Job {
        state: JobState::Failed,
        fence: last.fence.next(),
        lost_leases: 4,
        lease_until: Ms(0),
        why: Some("its worker died 4 times".to_owned()),
        finished_at: Some(bench.now()),
        ..last
    };
    assert_eq!(next(&bench, request(BOB)).await, Some(job_id(2)), "whoever gives up gets the next one");
    assert_eq!(bench.job(new_job(1)).await, given_up);
    assert_eq!(bench.claim(request(BOB)).await, None);
}

pub(crate) async fn giving_up_alone_gives_the_worker_nothing(bench: Bench) {
    bench.owner(1).await;
    thrice_dead(&bench, request(ANN)).await;
    bench.pass(LEASE);
    assert_eq!(bench.claim(request(BOB)).await, None);
    assert_eq!(bench.job(new_job(1)).await.state, JobState::Failed);
}

pub(crate) async fn a_cancel_that_nobody_lived_to_acknowledge_is_taken_over_to_be_finished(bench: Bench) {
    bench.owner(1).await;
    thrice_dead(&bench, request(ANN)).await;
    let asked = bench.store.cancel(job_id(1), "enough").await.unwrap();
    bench.pass(LEASE);
    let taken = Job {
        fence: asked.fence.next(),
        worker: Some(BOB),
        lost_leases: 4,
        lease_until: bench.after(LEASE),
        ..asked
    };
    assert_eq!(bench.claim(request(BOB)).await, Some(taken));
}

pub(crate) async fn a_settled_node_forgives_the_deaths_before_it(bench: Bench) {
    bench.owner(1).await;
    let last = thrice_dead(&bench, request(ANN)).await;
    let owner = bench.as_owner(last.claim());
    for _ in 0..2 {
        assert_eq!(owner.settled_node().await, Ok(()));
        let forgiven = Job { lost_leases: 0, ..last.clone() };
        assert_eq!(bench.job(new_job(1)).await, forgiven);
    }
    bench.pass(LEASE);
    let taken = bench.claim(request(BOB)).await.unwrap();
    assert_eq!((taken.fence, taken.lost_leases), (Fence(5), 1));
}

pub(crate) async fn leases_of_another_boot_are_dead_at_once(bench: Bench) {
    let rebooted = ClaimRequest { boot: OTHER_BOOT, concurrency_max: 1, ..request(BOB) };
    for n in [1, 2] {
        bench.owner(n).await;
    }
    let before = bench.job(new_job(1)).await;
    assert_eq!(before.boot, Some(BOOT));
    let taken = Job { fence: Fence(2), worker: Some(BOB), boot: Some(OTHER_BOOT), lost_leases: 1, ..before };
    assert_eq!(bench.claim(rebooted.clone()).await, Some(taken), "they hold no slot either");
    assert_eq!(next(&bench, rebooted.clone()).await, None, "but this one does");
    let unlimited = ClaimRequest { concurrency_max: u32::MAX, ..rebooted.clone() };
    assert_eq!(next(&bench, unlimited.clone()).await, Some(job_id(2)));
}

pub(crate) async fn only_the_clock_that_the_store_was_given_counts(bench: Bench) {
    bench.enqueue(new_job(1)).await;
    let short = ClaimRequest { lease: ONE_MS, ..request(ANN) };
    let job = bench.claim(short.clone()).await.unwrap();
    let times = (job.created_at, job.started_at, job.lease_until);
    let (now, end) = (bench.now(), bench.after(ONE_MS));
    assert_eq!(times, (now, Some(now), end), "no other clock was read");
    // The machine's clocks run on, and whoever sets one of them back moves no lease.
    let machine = Instant::now();
    while machine.elapsed() < Duration::from_millis(5) {
        assert_eq!(bench.claim(request(BOB)).await, None);
    }
    bench.pass(ONE_MS);
    assert_eq!(next(&bench, request(BOB)).await, Some(job_id(1)));
}

pub(crate) async fn two_workers_of_one_name_are_told_apart_by_their_fences(bench: Bench) {
    let first = bench.owner(1).await;
    bench.enqueue(new_job(2)).await;
    assert_eq!(next(&bench, request(ANN)).await, Some(job_id(2)), "of one job one is the owner");
    assert_eq!(next(&bench, request(ANN)).await, None);
    bench.pass(LEASE);
    let taken = bench.claim(ClaimRequest { only: Some(plan_id(1)), ..request(ANN) }).await.unwrap();
    assert_eq!((taken.fence, taken.worker, taken.lost_leases), (Fence(2), Some(ANN), 1));
    // The first one has the name of the owner, and owns nothing any more.
    let lost = LeaseLost { job: job_id(1), fence: Fence(1) };
    let lost = JobStoreError::Store(StoreError::LeaseLost(lost));
    assert_eq!(first.heartbeat().await, Err(lost.clone()));
    assert_eq!(first.end(JobEnd::Succeeded).await, Err(lost));
    assert!(first.start(changeset_id(1)).await.is_err());
    assert_eq!(bench.job(new_job(1)).await, taken);
    let ended = bench.as_owner(taken.claim()).end(JobEnd::Succeeded).await.unwrap();
    assert_eq!((ended.state, ended.fence), (JobState::Succeeded, Fence(2)));
}

pub(crate) async fn the_leases_of_a_dead_worker_are_freed_and_no_others(bench: Bench) {
    // Ann: 1 and 2 run, 3 has ended, 4 is given back. Bob: 5 runs.
    for n in [1, 2] {
        bench.owner(n).await;
    }
    bench.owner(3).await.end(failed()).await.unwrap();
    bench.owner(4).await.release().await.unwrap();
    bench.enqueue(new_job(5)).await;
    let fifth = ClaimRequest { only: Some(plan_id(5)), ..request(BOB) };
    bench.claim(fifth.clone()).await.unwrap();
    let mut expected = bench.store.jobs(None).await.unwrap();

    let nobody = WorkerId::from_u128(0xc);
    assert_eq!(bench.store.free_leases(nobody).await, Ok(0));
    assert_eq!(bench.store.jobs(None).await.unwrap(), expected);
    assert_eq!(bench.store.free_leases(ANN).await, Ok(2));
    expected[0].lease_until = Ms(0);
    expected[1].lease_until = Ms(0);
    assert_eq!(bench.store.jobs(None).await.unwrap(), expected);
    bench.store.free_leases(ANN).await.unwrap();
    assert_eq!(bench.store.jobs(None).await.unwrap(), expected, "twice is once");

    for (n, deaths) in [(1, 1), (2, 1), (4, 0)] {
        let job = bench.claim(request(BOB)).await.unwrap();
        assert_eq!((job.id, job.fence, job.lost_leases), (job_id(n), Fence(2), deaths));
    }
    assert_eq!(bench.claim(request(BOB)).await, None);
    assert_eq!(bench.store.free_leases(ANN).await, Ok(0), "she owns nothing any more");
}

pub(crate) async fn a_takeover_interrupts_what_was_open_and_keeps_the_entries(bench: Bench) {
    let old = bench.owner(1).await;
    for n in [1, 2, 3] {
        old.start(changeset_id(n)).await.unwrap();
    }
    let first = old.record(changeset_id(1), &change(1)).await.unwrap();
    let second = old.record(changeset_id(2), &change(2)).await.unwrap();
    let closed = old.close(changeset_id(2)).await.unwrap();
    bench.pass(LEASE);
    let new = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());

    let sets = bench.changesets(plan_id(1)).await;
    let states: Vec<ChangesetState> = sets.iter().map(|set| set.state).collect();
    let interrupted = ChangesetState::Interrupted;
    assert_eq!(states, [interrupted, ChangesetState::Closed, interrupted]);
    assert_eq!(sets[0].entries, [entry(first, &change(1))]);
    assert_eq!(sets[1].entries, [entry(second, &change(2))]);
    assert_eq!(sets[2].entries, []);
    for set in &sets {
        assert_eq!(set.digest, Some(changeset_digest(&set.entries)));
    }

    // The new owner is told what became of it all, and goes on counting where the old one stopped.
    assert_eq!(new.finish(ChangesetEnding::Closed).await, Ok(vec![]));
    assert_eq!(new.close(changeset_id(2)).await, Ok(closed));
    assert_eq!(new.record(changeset_id(1), &change(1)).await, Ok(first));
    let handed_back = ChangesetError::ChangesetClosed { id: changeset_id(1), entry: Box::new(change(3)) };
    assert_eq!(
        new.record(changeset_id(1), &change(3)).await,
        Err(ChangesetStoreError::Changeset(handed_back))
    );
    let id = changeset_id(4);
    assert_eq!(new.start(id).await, Ok(StartedChangeset { id, ordinal: 4 }));
    let third = RecordedChange { changeset: id, seq: 1, no: 3 };
    assert_eq!(new.record_latest(&change(3)).await, Ok(third));
}

pub(crate) async fn no_open_changeset_outlives_its_owner(bench: Bench) {
    let interrupted = ChangesetState::Interrupted;
    let ways_out = [
        ("success", ChangesetState::Closed),
        ("failure", interrupted),
        ("cancel", interrupted),
        ("release", interrupted),
        ("takeover", interrupted),
    ];
    for (n, (way_out, state)) in (1..).zip(ways_out) {
        let owner = bench.owner(n).await;
        let id = changeset_id(n);
        owner.start(id).await.unwrap();
        let recorded = owner.record(id, &change(n)).await.unwrap();
        let left = match way_out {
            "success" => owner.end(JobEnd::Succeeded).await,
            "failure" => owner.end(failed()).await,
            "cancel" => {
                bench.store.cancel(job_id(n), "enough").await.unwrap();
                owner.end(JobEnd::Cancelled).await
            }
            "release" => owner.release().await,
            _ => {
                bench.pass(LEASE);
                let only = Some(plan_id(n));
                let taken = bench.claim(ClaimRequest { only, ..request(BOB) }).await;
                Ok(taken.unwrap())
            }
        };
        left.unwrap();
        let entries = vec![entry(recorded, &change(n))];
        let digest = Some(changeset_digest(&entries));
        let expected = Changeset { id, ordinal: 1, attempt: 1, state, entries, digest };
        assert_eq!(bench.changesets(plan_id(n)).await, [expected], "{way_out}");
        let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
        let late = owner.record(id, &change(n + 10)).await;
        assert_eq!(late, Err(ChangesetStoreError::Store(lost.into())), "{way_out}");
    }
}

pub(crate) async fn a_cancel_and_a_seal_outlive_their_owner(bench: Bench) {
    let cancelled = bench.owner(1).await;
    let at = bench.now();
    bench.store.cancel(job_id(1), "enough").await.unwrap();
    bench.owner_of(new_apply(2)).await.seal().await.unwrap();
    bench.pass(LEASE);
    let first = bench.claim(request(BOB)).await.unwrap();
    let reason = "enough".to_owned();
    assert_eq!(first.cancel, Some(CancelRequest { at, reason }));
    assert_ne!(first.claim(), cancelled.claim);
    let second = bench.claim(request(BOB)).await.unwrap();
    assert_eq!((second.id, second.sealed_at), (job_id(2), Some(at)));
    let done = bench.as_owner(first.claim()).end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(done.state, JobState::Cancelled);
    let done = bench.as_owner(second.claim()).end(JobEnd::Succeeded).await.unwrap();
    assert_eq!((done.state, done.sealed_at), (JobState::Succeeded, Some(at)));
}
