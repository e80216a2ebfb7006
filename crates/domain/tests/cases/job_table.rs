//! Every state meets every event: the whole table, literally, and what each move changes in a job.

use domain::job::table_markdown;
use domain::*;

use crate::sample::{ANN, BOB, BOOT, JOB, LEASE, OTHER_BOOT, PLAN, claim_by, new_job, take_over_by};

/// As the documentation prints it. Each of the 60 cells says all that can come of the pair.
const TABLE: &str = "\
| event | queued | running | succeeded | failed | cancelled |
|---|---|---|---|---|---|
| claim | running, fence + 1; *NotDue* | *AlreadyClaimed* | *Final* | *Final* | *Final* |
| heartbeat | *LeaseLost* | running; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| release | *LeaseLost* | queued; *CancelRequested*; *LeaseLost*; *Sealed* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| cancel | cancelled | running; *CancelTooLate* | *Final* | *Final* | *Final* |
| seal | *LeaseLost* | running; *CancelRequested*; *LeaseLost*; *NotApply* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| succeed | *LeaseLost* | succeeded; *CancelRequested*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| fail | *LeaseLost* | failed; *CancelRequested*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| cancelled | *LeaseLost* | cancelled; *CancelNotRequested*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
| take over | *NotRunning* | running, fence + 1; failed, fence + 1; *LeaseAlive* | *Final* | *Final* | *Final* |
| free lease | *NotRunning* | running; *OtherWorker* | *Final* | *Final* | *Final* |
| break seal | *NotRunning* | running | *Final* | *Final* | *Final* |
| settled node | *LeaseLost* | running; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* | *Final*; *LeaseLost* |
";

#[test]
fn every_pair_of_state_and_event_is_as_written() {
    assert_eq!(table_markdown(), TABLE);
}

const NOW: Ms = Ms(1_000);
const FENCE: Fence = Fence(1);
const OLD: Fence = Fence(0);

fn queued() -> Job {
    Job::new(NewJob { not_before: Ms(900), ..new_job(Phase::Apply) }, Ms(800))
}

fn running() -> Job {
    queued().next(&claim_by(ANN), Ms(990)).unwrap()
}

fn cancelling() -> Job {
    running().next(&JobEvent::Cancel { reason: "enough".to_owned() }, Ms(995)).unwrap()
}

fn sealed() -> Job {
    running().next(&JobEvent::Seal { fence: FENCE }, Ms(995)).unwrap()
}

fn ended_by(event: &JobEvent) -> Job {
    running().next(event, Ms(995)).unwrap()
}

fn lost(fence: Fence) -> Result<Job, JobTransitionRejection> {
    Err(JobTransitionRejection::LeaseLost(LeaseLost { job: JOB, fence }))
}

#[test]
fn a_new_job_waits_unowned() {
    let job = Job {
        id: JOB,
        plan: PLAN,
        phase: Phase::Apply,
        state: JobState::Queued,
        fence: Fence::NONE,
        worker: None,
        boot: None,
        lease_until: Ms(0),
        lost_leases: 0,
        not_before: Ms(900),
        keys: std::collections::BTreeSet::new(),
        cancel: None,
        sealed_at: None,
        why: None,
        created_at: Ms(800),
        started_at: None,
        finished_at: None,
    };
    assert_eq!(queued(), job);
}

#[test]
fn a_claim_gives_a_due_job_an_owner() {
    let claimed = Job {
        state: JobState::Running,
        fence: Fence(1),
        worker: Some(ANN),
        boot: Some(BOOT),
        lease_until: Ms(930),
        started_at: Some(Ms(900)),
        ..queued()
    };
    assert_eq!(queued().next(&claim_by(ANN), Ms(900)), Ok(claimed));
    assert_eq!(
        queued().next(&claim_by(ANN), Ms(899)),
        Err(JobTransitionRejection::NotDue { not_before: Ms(900) })
    );
    assert_eq!(running().claim(), Claim { plan: PLAN, job: JOB, fence: FENCE });
    assert_eq!(running().next(&claim_by(BOB), NOW), Err(JobTransitionRejection::AlreadyClaimed));
}

#[test]
fn a_released_job_waits_for_another_owner_and_remembers_its_first_start() {
    let released = Job { state: JobState::Queued, worker: None, boot: None, lease_until: Ms(0), ..running() };
    assert_eq!(running().next(&JobEvent::Release { fence: FENCE }, NOW), Ok(released.clone()));
    assert_eq!(released.next(&JobEvent::Heartbeat { fence: FENCE, lease: LEASE }, NOW), lost(FENCE));
    let claimed_again = Job {
        state: JobState::Running,
        fence: Fence(2),
        worker: Some(BOB),
        boot: Some(BOOT),
        lease_until: Ms(1_030),
        ..released.clone()
    };
    assert_eq!(released.next(&claim_by(BOB), NOW), Ok(claimed_again));
}

#[test]
fn an_owner_does_not_release_what_it_must_finish() {
    let release = JobEvent::Release { fence: FENCE };
    assert_eq!(cancelling().next(&release, NOW), Err(JobTransitionRejection::CancelRequested));
    assert_eq!(sealed().next(&release, NOW), Err(JobTransitionRejection::Sealed));
    assert_eq!(running().next(&JobEvent::Release { fence: OLD }, NOW), lost(OLD));
}

#[test]
fn a_heartbeat_renews_the_lease_and_nothing_else() {
    let renewed = |job: Job| Job { lease_until: Ms(1_030), ..job };
    let heartbeat = JobEvent::Heartbeat { fence: FENCE, lease: LEASE };
    for job in [running(), cancelling(), sealed()] {
        assert_eq!(job.next(&heartbeat, NOW), Ok(renewed(job)));
    }
    assert_eq!(running().next(&JobEvent::Heartbeat { fence: OLD, lease: LEASE }, NOW), lost(OLD));
    assert_eq!(running().next(&JobEvent::Heartbeat { fence: Fence(2), lease: LEASE }, NOW), lost(Fence(2)));
}

#[test]
fn a_queued_job_is_cancelled_at_once() {
    let cancelled = Job {
        state: JobState::Cancelled,
        cancel: Some(CancelRequest { at: NOW, reason: "enough".to_owned() }),
        finished_at: Some(NOW),
        ..queued()
    };
    assert_eq!(queued().next(&JobEvent::Cancel { reason: "enough".to_owned() }, NOW), Ok(cancelled));
}

#[test]
fn the_first_reason_to_cancel_stays() {
    let cancel = Some(CancelRequest { at: Ms(995), reason: "enough".to_owned() });
    assert_eq!(cancelling(), Job { cancel, ..running() });
    assert_eq!(cancelling().next(&JobEvent::Cancel { reason: "really".to_owned() }, NOW), Ok(cancelling()));
    assert_eq!(
        sealed().next(&JobEvent::Cancel { reason: "late".to_owned() }, NOW),
        Err(JobTransitionRejection::CancelTooLate)
    );
}

#[test]
fn only_an_apply_is_sealed_once_and_before_any_cancel() {
    let seal = JobEvent::Seal { fence: FENCE };
    assert_eq!(sealed(), Job { sealed_at: Some(Ms(995)), ..running() });
    assert_eq!(sealed().next(&seal, NOW), Ok(sealed()), "asked again, the first seal stands");
    assert_eq!(cancelling().next(&seal, NOW), Err(JobTransitionRejection::CancelRequested));
    assert_eq!(running().next(&JobEvent::Seal { fence: OLD }, NOW), lost(OLD));
    for phase in [Phase::Strategize, Phase::Execute] {
        let job = Job { phase, ..running() };
        assert_eq!(job.next(&seal, NOW), Err(JobTransitionRejection::NotApply { phase }));
    }
}

#[test]
fn a_seal_that_recovery_breaks_lets_a_cancel_through_and_changes_nothing_else() {
    let broken = sealed().next(&JobEvent::BreakSeal, NOW).unwrap();
    assert_eq!(broken, Job { sealed_at: None, ..sealed() });
    assert_eq!(broken.next(&JobEvent::BreakSeal, NOW), Ok(broken.clone()), "once more is the same");
    let cancelled = broken.next(&JobEvent::Cancel { reason: "enough".to_owned() }, NOW).unwrap();
    assert_eq!(
        cancelled.next(&JobEvent::Succeed { fence: FENCE }, NOW),
        Err(JobTransitionRejection::CancelRequested)
    );
    let released = broken.next(&JobEvent::Release { fence: FENCE }, NOW).unwrap();
    assert_eq!(released.state, JobState::Queued);
}

#[test]
fn an_owner_ends_its_job_unless_a_cancel_came_first() {
    let succeed = JobEvent::Succeed { fence: FENCE };
    let fail = JobEvent::Fail { fence: FENCE, why: "no".to_owned() };
    for job in [running(), sealed()] {
        let ended =
            Job { state: JobState::Succeeded, lease_until: Ms(0), finished_at: Some(NOW), ..job.clone() };
        assert_eq!(job.next(&succeed, NOW), Ok(ended.clone()));
        let failed = Job { state: JobState::Failed, why: Some("no".to_owned()), ..ended };
        assert_eq!(job.next(&fail, NOW), Ok(failed));
    }
    for event in [&succeed, &fail] {
        assert_eq!(cancelling().next(event, NOW), Err(JobTransitionRejection::CancelRequested));
    }
    assert_eq!(running().next(&JobEvent::Succeed { fence: OLD }, NOW), lost(OLD));
    assert_eq!(running().next(&JobEvent::Fail { fence: OLD, why: String::new() }, NOW), lost(OLD));
}

#[test]
fn an_owner_acknowledges_the_cancel_that_was_requested() {
    let cancelled = JobEvent::Cancelled { fence: FENCE };
    let ended =
        Job { state: JobState::Cancelled, lease_until: Ms(0), finished_at: Some(NOW), ..cancelling() };
    assert_eq!(cancelling().next(&cancelled, NOW), Ok(ended));
    assert_eq!(running().next(&cancelled, NOW), Err(JobTransitionRejection::CancelNotRequested));
    assert_eq!(sealed().next(&cancelled, NOW), Err(JobTransitionRejection::CancelNotRequested));
    assert_eq!(cancelling().next(&JobEvent::Cancelled { fence: OLD }, NOW), lost(OLD));
}

#[test]
fn a_dead_lease_is_taken_over_with_all_that_was_promised() {
    let until = Ms(1_020);
    for job in [running(), cancelling(), sealed()] {
        assert_eq!(
            job.next(&take_over_by(BOB), Ms(1_019)),
            Err(JobTransitionRejection::LeaseAlive { until })
        );
        let taken =
            Job { fence: Fence(2), worker: Some(BOB), lease_until: Ms(1_050), lost_leases: 1, ..job.clone() };
        assert_eq!(job.next(&take_over_by(BOB), until), Ok(taken));
    }
}

#[test]
fn a_reboot_ends_every_lease() {
    let rebooted = JobEvent::TakeOver { worker: BOB, boot: OTHER_BOOT, lease: LEASE };
    let taken = Job {
        fence: Fence(2),
        worker: Some(BOB),
        boot: Some(OTHER_BOOT),
        lease_until: Ms(31),
        lost_leases: 1,
        ..running()
    };
    assert_eq!(running().next(&rebooted, Ms(1)), Ok(taken));
}

#[test]
fn the_fourth_death_ends_the_job() {
    let tired = |job: Job| Job { lost_leases: 3, ..job };
    let until = Ms(1_020);
    let failed = |job: Job| Job {
        state: JobState::Failed,
        fence: Fence(2),
        lost_leases: 4,
        lease_until: Ms(0),
        why: Some("its worker died 4 times".to_owned()),
        finished_at: Some(until),
        ..job
    };
    let given_up = |job| tired(job).next(&take_over_by(BOB), until);
    assert_eq!(given_up(running()), Ok(failed(running())));
    assert_eq!(given_up(sealed()), Ok(failed(sealed())));
    let cancelling = given_up(cancelling()).unwrap();
    assert_eq!(
        (cancelling.state, cancelling.fence, cancelling.lost_leases),
        (JobState::Running, Fence(2), 4),
        "a pending cancel is taken over to be finished"
    );
    assert_eq!(
        tired(running()).next(&take_over_by(BOB), NOW),
        Err(JobTransitionRejection::LeaseAlive { until })
    );
    let third = Job { lost_leases: 2, ..running() }.next(&take_over_by(BOB), until).unwrap();
    assert_eq!((third.state, third.lost_leases), (JobState::Running, 3));
}

#[test]
fn a_settled_node_forgets_the_deaths() {
    let tired = Job { lost_leases: 3, ..running() };
    assert_eq!(tired.next(&JobEvent::SettledNode { fence: FENCE }, NOW), Ok(running()));
    assert_eq!(tired.next(&JobEvent::SettledNode { fence: OLD }, NOW), lost(OLD));
}

#[test]
fn a_free_lock_ends_the_leases_of_its_worker_only() {
    let freed = Job { lease_until: Ms(0), ..running() };
    assert_eq!(running().next(&JobEvent::FreeLease { worker: ANN }, NOW), Ok(freed.clone()));
    assert!(freed.next(&take_over_by(BOB), NOW).is_ok());
    assert_eq!(
        running().next(&JobEvent::FreeLease { worker: BOB }, NOW),
        Err(JobTransitionRejection::OtherWorker)
    );
    assert_eq!(
        queued().next(&JobEvent::FreeLease { worker: ANN }, NOW),
        Err(JobTransitionRejection::NotRunning)
    );
    assert_eq!(queued().next(&take_over_by(ANN), NOW), Err(JobTransitionRejection::NotRunning));
}

#[test]
fn a_final_job_tells_its_owner_and_a_stranger_apart() {
    for (job, state) in [
        (ended_by(&JobEvent::Succeed { fence: FENCE }), JobState::Succeeded),
        (ended_by(&JobEvent::Fail { fence: FENCE, why: String::new() }), JobState::Failed),
        (cancelling().next(&JobEvent::Cancelled { fence: FENCE }, NOW).unwrap(), JobState::Cancelled),
    ] {
        let events = |fence| {
            [
                JobEvent::Heartbeat { fence, lease: LEASE },
                JobEvent::Release { fence },
                JobEvent::Seal { fence },
                JobEvent::Succeed { fence },
                JobEvent::Fail { fence, why: String::new() },
                JobEvent::Cancelled { fence },
                JobEvent::SettledNode { fence },
            ]
        };
        for event in events(FENCE) {
            assert_eq!(job.next(&event, NOW), Err(JobTransitionRejection::Final { state }));
        }
        for event in events(OLD) {
            assert_eq!(job.next(&event, NOW), lost(OLD));
        }
    }
}

#[test]
fn a_claim_holds_for_one_job_of_one_plan_under_one_fence() {
    let claim = running().claim();
    assert!(running().is_owned_by(&claim));
    assert!(!running().is_owned_by(&Claim { fence: OLD, ..claim }));
    assert!(!running().is_owned_by(&Claim { plan: PlanId::from_u128(1), ..claim }));
    assert!(!running().is_owned_by(&Claim { job: JobId::from_u128(1), ..claim }));
    let released = running().next(&JobEvent::Release { fence: FENCE }, NOW).unwrap();
    assert!(!released.is_owned_by(&claim));
}

#[test]
fn states_have_one_name_and_three_are_final() {
    let named: Vec<_> =
        JobState::ALL.into_iter().map(|state| (format!("{state:>9}"), state.is_final())).collect();
    let expected = [
        ("   queued", false),
        ("  running", false),
        ("succeeded", true),
        ("   failed", true),
        ("cancelled", true),
    ];
    assert_eq!(named, expected.map(|(name, is_final)| (name.to_owned(), is_final)));
}

#[test]
fn a_refusal_says_how_to_take_it() {
    let lost = LeaseLost { job: JOB, fence: FENCE };
    let state = JobState::Failed;
    let classes = [
        (JobTransitionRejection::LeaseLost(lost), ErrorClass::Cancelled),
        (JobTransitionRejection::CancelRequested, ErrorClass::Cancelled),
        (JobTransitionRejection::LeaseAlive { until: NOW }, ErrorClass::Transient),
        (JobTransitionRejection::NotDue { not_before: NOW }, ErrorClass::Transient),
        (JobTransitionRejection::AlreadyClaimed, ErrorClass::Transient),
        (JobTransitionRejection::PlanBusy { job: JOB }, ErrorClass::Transient),
        (JobTransitionRejection::Final { state }, ErrorClass::Permanent),
        (JobTransitionRejection::CancelTooLate, ErrorClass::Permanent),
        (JobTransitionRejection::OtherWorker, ErrorClass::Permanent),
        (JobTransitionRejection::NotRunning, ErrorClass::Permanent),
        (JobTransitionRejection::NotFound { job: JOB }, ErrorClass::Permanent),
        (JobTransitionRejection::CancelNotRequested, ErrorClass::Bug),
        (JobTransitionRejection::Sealed, ErrorClass::Bug),
        (JobTransitionRejection::NotApply { phase: Phase::Execute }, ErrorClass::Bug),
        (JobTransitionRejection::IdTaken { job: JOB }, ErrorClass::Bug),
        (JobTransitionRejection::PlanNotReady { state: PlanState::FIRST }, ErrorClass::Bug),
        (JobTransitionRejection::ApplyTaken { apply: ApplyId::from_u128(1) }, ErrorClass::Bug),
        (JobTransitionRejection::OtherPlan { plan: PLAN }, ErrorClass::Bug),
    ];
    for (refused, class) in classes {
        assert_eq!(refused.class(), class, "{refused}");
    }
    assert_eq!(
        JobTransitionRejection::from(lost).to_string(),
        "the lease of job 00000000000000000000000068 is lost: fence 1 is not the one it runs under"
    );
    assert_eq!(JobTransitionRejection::Final { state }.to_string(), "the job is failed already");
}
