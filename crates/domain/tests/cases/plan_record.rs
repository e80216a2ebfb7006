//! The record of a plan: every write is fenced, and no open changeset outlives its owner.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{ANN, BOB, JOB, LEASE, PLAN, change, claim_by, error, new_job, step, take_over_by};

const SET: ChangesetId = ChangesetId::from_u128(1);
const NEXT_JOB: JobId = JobId::from_u128(201);

/// A record whose job Ann runs, with one changeset open and one entry in it.
fn working() -> (PlanRecord, Claim) {
    let mut record = PlanRecord::default();
    record.enqueue(new_job(Phase::Execute), Ms(0)).unwrap();
    let claim = record.apply_job_event(JOB, &claim_by(ANN), Ms(0)).unwrap().claim();
    record.start_changeset(&claim, SET).unwrap();
    record.record(&claim, SET, change(1, "one")).unwrap();
    (record, claim)
}

fn state_of(record: &PlanRecord) -> ChangesetState {
    record.changesets().get(SET).unwrap().state
}

#[test]
fn an_owner_writes_to_its_plan() {
    let (mut record, claim) = working();
    let other = ChangesetId::from_u128(2);
    assert_eq!(record.guard(&claim), Ok(()));
    assert_eq!(record.start_changeset(&claim, other), Ok(StartedChangeset { id: other, ordinal: 2 }));
    let recorded = |changeset, seq, no| Ok(RecordedChange { changeset, seq, no });
    assert_eq!(record.record_latest(&claim, change(2, "two")), recorded(other, 1, 2));
    assert_eq!(record.record(&claim, SET, change(3, "three")), recorded(SET, 2, 3));
    let closed = record.close(&claim, other, Ms(3)).unwrap();
    let digest = changeset_digest(&record.changesets().get(other).unwrap().entries);
    assert_eq!(closed, ClosedChangeset { id: other, entries: 1, digest });
    let finished: Vec<_> = record
        .finish(&claim, ChangesetEnding::Closed, Ms(4))
        .unwrap()
        .into_iter()
        .map(|closed| closed.id)
        .collect();
    assert_eq!((finished, state_of(&record)), (vec![SET], ChangesetState::Closed));
    let failing = error(1, step(1, "code"), ErrorCategory::Resource);
    let recovery = record.record_error(&claim, &RecoveryPolicy::default(), failing, Ms(7), 0).unwrap();
    assert_eq!(
        recovery.command,
        format!("agents plan resume {PLAN}"),
        "the plan is known from its first job"
    );
    assert_eq!(record.errors().records().map(|record| record.at).collect::<Vec<_>>(), [Ms(7)]);
    assert_eq!((record.plan(), record.errors().plan()), (Some(PLAN), Some(PLAN)));
}

#[test]
fn a_stale_claim_changes_nothing() {
    let (record, claim) = working();
    let lost = |claim: Claim| LeaseLost { job: claim.job, fence: claim.fence };
    let stale = [
        Claim { fence: Fence::NONE, ..claim },
        Claim { fence: claim.fence.next(), ..claim },
        Claim { job: NEXT_JOB, ..claim },
        Claim { plan: PlanId::from_u128(1), ..claim },
    ];
    for claim in stale {
        let mut after = record.clone();
        let failing = error(1, step(1, "code"), ErrorCategory::Timeout);
        let refused = RecordError::LeaseLost(lost(claim));
        assert_eq!(after.guard(&claim), Err(lost(claim)));
        assert_eq!(after.start_changeset(&claim, ChangesetId::from_u128(9)), Err(refused.clone()));
        assert_eq!(after.record(&claim, SET, change(9, "nine")), Err(refused.clone()));
        assert_eq!(after.record_latest(&claim, change(9, "nine")), Err(refused.clone()));
        assert_eq!(after.close(&claim, SET, Ms(1)), Err(refused.clone()));
        assert_eq!(after.finish(&claim, ChangesetEnding::Closed, Ms(1)), Err(lost(claim)));
        assert_eq!(
            after.record_error(&claim, &RecoveryPolicy::default(), failing, Ms(1), 0),
            Err(lost(claim))
        );
        assert_eq!(after, record);
        assert_eq!(refused.class(), ErrorClass::Cancelled);
    }
}

#[test]
fn what_a_changeset_refuses_is_passed_on() {
    let (mut record, claim) = working();
    let unknown = ChangesetId::from_u128(9);
    let refused = record.record(&claim, unknown, change(2, "two")).unwrap_err();
    assert_eq!(refused, RecordError::Changeset(ChangesetError::UnknownChangeset { id: unknown }));
    assert_eq!(refused.class(), ErrorClass::Bug);
    assert_eq!(refused.to_string(), "the plan has no changeset 00000000000000000000000009");
}

#[test]
fn a_takeover_interrupts_the_open_changesets_and_keeps_their_entries() {
    let (mut record, old) = working();
    let new = record.apply_job_event(JOB, &take_over_by(BOB), Ms(30)).unwrap().claim();
    assert_eq!(new, Claim { fence: Fence(2), ..old });
    assert_eq!((state_of(&record), record.changesets().open_count()), (ChangesetState::Interrupted, 0));
    assert_eq!(record.changesets().get(SET).unwrap().entries.len(), 1);
    assert!(record.record(&old, SET, change(2, "two")).is_err());
    let closed = record.record(&new, SET, change(2, "two")).unwrap_err();
    let entry = Box::new(change(2, "two"));
    assert_eq!(closed, RecordError::Changeset(ChangesetError::ChangesetClosed { id: SET, entry }));
}

#[test]
fn no_open_changeset_outlives_its_owner() {
    let fence = Fence(1);
    let cancel = JobEvent::Cancel { reason: "enough".to_owned() };
    let ends = [
        (vec![JobEvent::Release { fence }], ChangesetState::Interrupted),
        (vec![JobEvent::Succeed { fence }], ChangesetState::Closed),
        (vec![JobEvent::Fail { fence, why: "no".to_owned() }], ChangesetState::Interrupted),
        (vec![cancel, JobEvent::Cancelled { fence }], ChangesetState::Interrupted),
    ];
    for (events, left) in ends {
        let (mut record, claim) = working();
        for event in &events {
            assert_eq!(state_of(&record), ChangesetState::Open);
            record.apply_job_event(JOB, event, Ms(1)).unwrap();
        }
        assert_eq!(state_of(&record), left, "{events:?}");
        assert!(record.guard(&claim).is_err());
    }
    let (mut record, claim) = working();
    for event in [JobEvent::Heartbeat { fence, lease: LEASE }, JobEvent::SettledNode { fence }] {
        record.apply_job_event(JOB, &event, Ms(1)).unwrap();
    }
    assert_eq!((state_of(&record), record.guard(&claim)), (ChangesetState::Open, Ok(())));
}

#[test]
fn a_refused_event_changes_nothing() {
    let (mut record, _) = working();
    let before = record.clone();
    assert!(record.apply_job_event(JOB, &JobEvent::Succeed { fence: Fence(7) }, Ms(1)).is_err());
    let unknown = record.apply_job_event(NEXT_JOB, &claim_by(ANN), Ms(1)).cloned();
    assert_eq!(unknown, Err(JobTransitionRejection::NotFound { job: NEXT_JOB }));
    assert_eq!(record, before);
}

#[test]
fn a_plan_has_one_live_job() {
    let mut record = PlanRecord::default();
    let first = record.enqueue(new_job(Phase::Strategize), Ms(5)).unwrap();
    assert_eq!(first, Job::new(new_job(Phase::Strategize), Ms(5)));
    let next = NewJob { id: NEXT_JOB, ..new_job(Phase::Execute) };
    assert_eq!(record.enqueue(next, Ms(6)), Err(JobTransitionRejection::PlanBusy { job: JOB }));
    assert_eq!(
        record.enqueue(new_job(Phase::Strategize), Ms(6)),
        Ok(first.clone()),
        "the same again is the same"
    );
    assert_eq!(
        record.enqueue(new_job(Phase::Execute), Ms(6)),
        Err(JobTransitionRejection::IdTaken { job: JOB })
    );
    let stranger = NewJob { plan: PlanId::from_u128(1), ..next };
    assert_eq!(record.enqueue(stranger, Ms(6)), Err(JobTransitionRejection::OtherPlan { plan: PLAN }));
    assert_eq!((record.live_job(), record.job(JOB), record.jobs().len()), (Some(&first), Some(&first), 1));

    let claim = record.apply_job_event(JOB, &claim_by(ANN), Ms(6)).unwrap().claim();
    assert_eq!(record.enqueue(next, Ms(6)), Err(JobTransitionRejection::PlanBusy { job: JOB }));
    record.apply_job_event(JOB, &JobEvent::Succeed { fence: claim.fence }, Ms(7)).unwrap();
    assert_eq!(record.live_job(), None);
    let second = record.enqueue(next, Ms(8)).unwrap();
    assert_eq!(second, Job::new(next, Ms(8)));
    assert_eq!(record.jobs().map(|job| job.id).collect::<Vec<_>>(), [JOB, NEXT_JOB]);
    assert_eq!(record.live_job(), Some(&second));
    assert_eq!(record.job(JobId::from_u128(9)), None);
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue(u128),
    Event(u128, u8, u64),
    Start(u128),
    Record(u128),
    Finish,
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..4_u128).prop_map(Step::Enqueue),
        4 => (0..4_u128, 0..8_u8, 0..2_u64).prop_map(|(job, what, behind)| Step::Event(job, what, behind)),
        2 => (0..9_u128).prop_map(Step::Start),
        2 => (0..99_u128).prop_map(Step::Record),
        1 => Just(Step::Finish),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_writes_have_one_owner(steps in proptest::collection::vec((some_step(), 0..40_u64), 1..80)) {
        let mut record = PlanRecord::default();
        let mut claims: Vec<Claim> = Vec::new();
        let mut now = Ms(0);
        for (step, more) in steps {
            now = Ms(now.0 + more);
            let before = record.clone();
            let newest = claims.last().copied();
            let outcome = match step {
                Step::Enqueue(id) => {
                    record.enqueue(NewJob { id: JobId::from_u128(id), ..new_job(Phase::Execute) }, now).is_ok()
                }
                Step::Event(id, what, behind) => {
                    let id = JobId::from_u128(id);
                    let fence = Fence(record.job(id).map_or(0, |job| job.fence.0.saturating_sub(behind)));
                    let event = match what {
                        0 | 1 => claim_by(ANN),
                        2 | 3 => take_over_by(BOB),
                        4 => JobEvent::Cancel { reason: String::new() },
                        5 => JobEvent::Cancelled { fence },
                        6 => JobEvent::Release { fence },
                        _ => JobEvent::Succeed { fence },
                    };
                    let moved = record.apply_job_event(id, &event, now).map(Job::claim);
                    claims.extend(moved.as_ref().ok());
                    moved.is_ok()
                }
                Step::Start(id) => {
                    newest.is_some_and(|claim| record.start_changeset(&claim, ChangesetId::from_u128(id)).is_ok())
                }
                Step::Record(id) => newest.is_some_and(|claim| record.record_latest(&claim, change(id, "x")).is_ok()),
                Step::Finish => newest.is_some_and(|claim| record.finish(&claim, ChangesetEnding::Closed, Ms(4)).is_ok()),
            };
            if !outcome {
                prop_assert_eq!(&record, &before, "a refused call changes nothing");
            }
            let live = record.jobs().filter(|job| !job.state.is_final()).count();
            prop_assert!(live <= 1);
            claims.sort();
            claims.dedup();
            let accepted: Vec<_> = claims.iter().filter(|claim| record.guard(claim).is_ok()).collect();
            prop_assert!(accepted.len() <= 1);
            if record.changesets().open_count() > 0 {
                prop_assert_eq!(accepted.len(), 1, "open changesets have an owner");
            }
        }
    }
}
