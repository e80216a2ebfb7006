//! The order in which jobs are claimed.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{ANN, BOB, BOOT, LEASE, OTHER_BOOT, PLAN, claim_by, take_over_by};

const NOW: Ms = Ms(1_000);

fn queued(id: u128) -> Job {
    let new = NewJob {
        id: JobId::from_u128(id),
        plan: PlanId::from_u128(id),
        phase: Phase::Execute,
        not_before: NOW,
    };
    Job::new(new, Ms(0))
}

fn live(id: u128) -> Job {
    Job {
        state: JobState::Running,
        worker: Some(BOB),
        boot: Some(BOOT),
        lease_until: Ms(1_001),
        ..queued(id)
    }
}

fn dead(id: u128) -> Job {
    Job { lease_until: NOW, ..live(id) }
}

fn request() -> ClaimRequest {
    ClaimRequest {
        worker: ANN,
        boot: BOOT,
        lease: LEASE,
        concurrency_max: 2,
        only: None,
        variables: Default::default(),
    }
}

fn picked(jobs: &[Job], request: ClaimRequest) -> Option<(u128, JobEvent)> {
    pick(jobs, &request, NOW).map(|(id, event)| (id.as_u128(), event))
}

#[test]
fn the_oldest_due_job_goes_first() {
    let not_due = Job { not_before: Ms(1_001), ..queued(1) };
    let over = Job { state: JobState::Succeeded, ..queued(2) };
    assert_eq!(
        picked(&[queued(5), not_due.clone(), queued(4), over.clone()], request()),
        Some((4, claim_by(ANN)))
    );
    assert_eq!(picked(&[not_due, over], request()), None);
    assert_eq!(picked(&[], request()), None);
}

#[test]
fn a_held_job_goes_to_who_serves_its_plan_alone() {
    let held = |job: Job| Job { not_before: HELD, ..job };
    let serves = |plan| ClaimRequest { only: Some(PlanId::from_u128(plan)), ..request() };
    assert_eq!(picked(&[held(queued(1)), held(dead(2))], request()), None);
    assert_eq!(picked(&[held(queued(1)), queued(3)], request()), Some((3, claim_by(ANN))));
    assert_eq!(picked(&[held(queued(1)), held(dead(2))], serves(1)), Some((1, claim_by(ANN))));
    assert_eq!(picked(&[held(queued(1)), held(dead(2))], serves(2)), Some((2, take_over_by(ANN))));
    let cancel = Some(CancelRequest { at: NOW, reason: String::new() });
    let to_be_cancelled = Job { cancel, ..held(dead(4)) };
    assert_eq!(picked(&[to_be_cancelled], request()), Some((4, take_over_by(ANN))));
}

#[test]
fn a_job_that_wants_keys_goes_to_workers_that_have_them_all() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let wants = |job: Job| Job { keys: names(&["A", "B"]), ..job };
    let with = |variables: &[&str]| ClaimRequest { variables: Arc::new(names(variables)), ..request() };
    let jobs = [wants(queued(1)), wants(dead(2)), queued(3)];
    for lacking in [&[][..], &["A"], &["B", "C"]] {
        assert_eq!(picked(&jobs, with(lacking)), Some((3, claim_by(ANN))), "{lacking:?}");
    }
    assert_eq!(picked(&jobs, with(&["A", "B", "C"])), Some((2, take_over_by(ANN))));
    assert_eq!(picked(&jobs[..1], with(&["A", "B"])), Some((1, claim_by(ANN))));
    let serves = ClaimRequest { only: Some(PlanId::from_u128(1)), ..request() };
    assert_eq!(
        picked(&jobs, serves),
        Some((1, claim_by(ANN))),
        "who serves one plan says itself what is lacking"
    );
    let cancel = Some(CancelRequest { at: NOW, reason: String::new() });
    let to_be_cancelled = Job { cancel, ..wants(dead(4)) };
    assert_eq!(picked(&[to_be_cancelled], request()), Some((4, take_over_by(ANN))));
}

#[test]
fn work_that_lost_its_owner_goes_before_work_that_nobody_began() {
    assert_eq!(picked(&[queued(1), dead(7), dead(6)], request()), Some((6, take_over_by(ANN))));
    let of_last_boot = Job { boot: Some(OTHER_BOOT), ..live(8) };
    assert_eq!(picked(&[queued(1), of_last_boot], request()), Some((8, take_over_by(ANN))));
}

#[test]
fn nothing_is_taken_when_all_slots_are_busy() {
    assert_eq!(picked(&[live(1), live(2), queued(3), dead(4)], request()), None);
    assert_eq!(picked(&[live(1), queued(3)], request()), Some((3, claim_by(ANN))));
    assert_eq!(picked(&[live(1), dead(2), queued(3)], request()), Some((2, take_over_by(ANN))));
    assert_eq!(picked(&[queued(3)], ClaimRequest { concurrency_max: 0, ..request() }), None);
}

#[test]
fn a_cancel_whose_owner_died_waits_for_no_slot() {
    let asked = |id| Job { cancel: Some(CancelRequest { at: NOW, reason: "enough".to_owned() }), ..dead(id) };
    let full = [live(1), live(2), queued(3), dead(4), asked(6), asked(5)];
    assert_eq!(picked(&full, request()), Some((5, take_over_by(ANN))));
    let only = |id| ClaimRequest { only: Some(PlanId::from_u128(id)), ..request() };
    assert_eq!(picked(&full, only(6)), Some((6, take_over_by(ANN))));
    assert_eq!(picked(&full, only(4)), None);
    let sealed = Job { sealed_at: Some(NOW), ..asked(5) };
    assert_eq!(picked(&[live(1), live(2), sealed], request()), None, "a seal outlasts the cancel");
    let alive = Job { cancel: asked(5).cancel, ..live(5) };
    assert_eq!(picked(&[live(1), live(2), alive], request()), None, "its owner hears of it");
}

#[test]
fn a_worker_of_one_plan_takes_only_its_jobs_but_waits_for_the_slots_of_all() {
    let only = |id| ClaimRequest { only: Some(PlanId::from_u128(id)), ..request() };
    let jobs = [dead(1), dead(2), queued(3), queued(4)];
    assert_eq!(picked(&jobs, only(2)), Some((2, take_over_by(ANN))));
    assert_eq!(picked(&jobs, only(4)), Some((4, claim_by(ANN))));
    assert_eq!(picked(&jobs, ClaimRequest { only: Some(PLAN), ..request() }), None);
    assert_eq!(picked(&[live(1), live(2), queued(4)], only(4)), None);
    // But for an apply, which a person waits for.
    let apply = Job { phase: Phase::Apply, ..queued(4) };
    assert_eq!(picked(&[live(1), live(2), apply.clone()], only(4)), Some((4, claim_by(ANN))));
    assert_eq!(picked(&[live(1), live(2), apply], request()), None);
}

proptest! {
    #[test]
    fn the_order_in_which_jobs_are_listed_does_not_matter(
        jobs in Just((0..8).map(|id| match id % 4 {
            0 => queued(id),
            1 => dead(id),
            2 => Job { state: JobState::Failed, ..queued(id) },
            _ => Job { not_before: Ms(2_000), ..queued(id) },
        }).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        prop_assert_eq!(picked(&jobs, request()), Some((1, take_over_by(ANN))));
    }

    #[test]
    fn workers_that_serve_all_plans_never_run_more_than_allowed(
        steps in proptest::collection::vec((0..3_usize, 0..30_u64), 1..60), concurrency_max in 0..4_u32,
    ) {
        let mut jobs: Vec<Job> = (0..6).map(|id| Job { not_before: Ms(0), ..queued(id) }).collect();
        let mut now = Ms(0);
        for (what, more) in steps {
            now = Ms(now.0 + more);
            let request = ClaimRequest { concurrency_max, ..request() };
            if what == 0 {
                if let Some(job) = jobs.iter_mut().find(|job| job.state == JobState::Running) {
                    *job = job.next(&JobEvent::Heartbeat { fence: job.fence, lease: LEASE }, now).unwrap();
                }
            } else if let Some((id, event)) = pick(&jobs, &request, now) {
                let job = jobs.iter_mut().find(|job| job.id == id).unwrap();
                *job = job.next(&event, now).expect("what is picked can be taken");
            }
            let live = jobs.iter().filter(|job| job.state == JobState::Running && job.lease_until > now).count();
            prop_assert!(live <= concurrency_max as usize);
        }
    }
}
