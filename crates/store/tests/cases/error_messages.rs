//! The messages and the classes of a store's errors.

use domain::{
    BadTransition, ChangesetError, Day, DecisionInvalid, ErrorClass, Fence, JobId, JobState,
    JobTransitionRejection, LeaseLost, LedgerScope, LimitReached, LimitTooLow, LockHeld, LockResource,
    PlanEvent, PlanId, PlanState, PlanTransitionRejection, RecordError, ReserveError, SpendId, SpendKind,
    WallMs,
};
use store::{
    ChangesetStoreError, DecisionStoreError, JobStoreError, LedgerStoreError, LockStoreError, PlanStoreError,
    StoreError,
};

const LOST: LeaseLost = LeaseLost { job: JobId::from_u128(33), fence: Fence(7) };
const LOST_SAYS: &str =
    "the lease of job 00000000000000000000000011 is lost: fence 7 is not the one it runs under";

fn broken() -> StoreError {
    StoreError::Broken { why: "the disk is gone".to_owned() }
}

/// Every error of a store, how it is to be taken, and what it says.
fn store_errors() -> [(StoreError, ErrorClass, &'static str); 7] {
    [
        (StoreError::LeaseLost(LOST), ErrorClass::Cancelled, LOST_SAYS),
        (StoreError::Busy, ErrorClass::Transient, "the store is busy"),
        (StoreError::Full, ErrorClass::Permanent, "the store has no space left"),
        (
            StoreError::TooNew { found: 8, known: 7 },
            ErrorClass::Permanent,
            "the store now has version 8; this program supports versions up to 7",
        ),
        (
            StoreError::Unreadable { why: "plan 7: no such step".to_owned() },
            ErrorClass::Permanent,
            "the store contains a value that this program cannot read: plan 7: no such step",
        ),
        (
            StoreError::Damaged {
                plan: domain::PlanId::from_u128(0),
                what: "1 of 2 changes exist".to_owned(),
            },
            ErrorClass::Permanent,
            "the records of plan 00000000000000000000000000 are damaged: 1 of 2 changes exist",
        ),
        (broken(), ErrorClass::Permanent, "the store is broken: the disk is gone"),
    ]
}

#[test]
fn an_error_of_the_store_says_what_is_wrong_and_how_to_take_it() {
    for (error, class, says) in store_errors() {
        assert_eq!((error.class(), error.to_string().as_str()), (class, says));
    }
}

#[test]
fn an_error_of_the_store_is_the_same_to_whoever_meets_it() {
    for (error, class, says) in store_errors() {
        let of_changeset = ChangesetStoreError::from(error.clone());
        assert_eq!((of_changeset.class(), of_changeset.to_string().as_str()), (class, says));
        let of_job = JobStoreError::from(error);
        assert_eq!((of_job.class(), of_job.to_string().as_str()), (class, says));
    }
}

#[test]
fn a_lost_lease_is_one_error_whichever_rule_found_it() {
    let lost = StoreError::LeaseLost(LOST);
    assert_eq!(StoreError::from(LOST), lost);
    assert_eq!(
        ChangesetStoreError::from(RecordError::LeaseLost(LOST)),
        ChangesetStoreError::Store(lost.clone())
    );
    assert_eq!(JobStoreError::from(JobTransitionRejection::LeaseLost(LOST)), JobStoreError::Store(lost));
}

#[test]
fn a_changeset_that_says_no_is_heard_as_it_said_it() {
    let refused = ChangesetError::NoActiveChangeset;
    let error = ChangesetStoreError::from(RecordError::Changeset(refused.clone()));
    assert_eq!(error, ChangesetStoreError::Changeset(refused.clone()));
    assert_eq!(error, ChangesetStoreError::from(refused));
    assert_eq!(
        (error.class(), error.to_string().as_str()),
        (ErrorClass::Bug, "No active changeset. Call start_changeset() first.")
    );
    let full = ChangesetStoreError::Changeset(ChangesetError::Full { what: "entries" });
    assert_eq!(
        (full.class(), full.to_string().as_str()),
        (ErrorClass::Permanent, "the plan has no numbers left for its entries")
    );
}

#[test]
fn a_job_that_says_no_is_heard_as_it_said_it() {
    let job = JobId::from_u128(33);
    let plan = PlanId::from_u128(34);
    let state = JobState::Failed;
    let heard = [
        (
            JobTransitionRejection::PlanBusy { job },
            ErrorClass::Transient,
            "the plan is busy with job 00000000000000000000000011",
        ),
        (JobTransitionRejection::Final { state }, ErrorClass::Permanent, "the job is failed already"),
        (JobTransitionRejection::CancelRequested, ErrorClass::Cancelled, "a cancel of the job was requested"),
        (
            JobTransitionRejection::OtherPlan { plan },
            ErrorClass::Bug,
            "these are the jobs of plan 00000000000000000000000012",
        ),
    ];
    for (refused, class, says) in heard {
        let error = JobStoreError::from(refused);
        assert_eq!(error, JobStoreError::Refused(refused));
        assert_eq!((error.class(), error.to_string().as_str()), (class, says));
    }
}

#[test]
fn a_full_queue_says_how_many_wait() {
    let full = JobStoreError::QueueFull { queued: 10_000 };
    assert_eq!(
        (full.class(), full.to_string().as_str()),
        (ErrorClass::Permanent, "the queue is full: 10000 jobs wait")
    );
}

#[test]
fn what_stands_in_the_way_of_a_decision_is_said_and_says_how_to_take_it() {
    let (plan, state) = (PlanId::from_u128(34), PlanState::FIRST);
    let not_before = DecisionInvalid::NotBefore { place: 1, other: 2 };
    let heard = [
        (
            DecisionStoreError::from(DecisionInvalid::DependsOn { seq: 9 }),
            "a decision is not valid: it depends on decision 9, which the plan does not have, or no longer",
        ),
        (
            DecisionStoreError::from(DecisionInvalid::TooManyDependsOn { count: 101 }),
            "a decision is not valid: it depends on 101 others; at most 100 may be named",
        ),
        (
            DecisionStoreError::from(not_before),
            "a decision is not valid: decision 1 of a step rests upon 2 of the same step, which does not come before it",
        ),
        (
            DecisionStoreError::from(DecisionInvalid::Confidence),
            "a decision is not valid: its confidence is not from 0 to 1",
        ),
        (DecisionStoreError::NotFound { plan }, "there is no plan 00000000000000000000000012"),
        (DecisionStoreError::Final { plan, state }, "plan 00000000000000000000000012 is strategize/queued"),
    ];
    for (error, says) in heard {
        assert_eq!((error.class(), error.to_string().as_str()), (ErrorClass::Permanent, says));
    }
    for (error, class, says) in store_errors() {
        let of_decision = DecisionStoreError::from(error);
        assert_eq!((of_decision.class(), of_decision.to_string().as_str()), (class, says));
    }
}

#[test]
fn what_stands_in_the_way_of_a_plan_is_said_and_says_how_to_take_it() {
    let (plan, job) = (PlanId::from_u128(34), JobId::from_u128(33));
    let state = PlanState::FIRST;
    let event = PlanEvent::Advance;
    let spent = PlanTransitionRejection::ReversionsSpent;
    let heard = [
        (
            PlanStoreError::NotFound { plan },
            ErrorClass::Permanent,
            "there is no plan 00000000000000000000000012",
        ),
        (
            PlanStoreError::Refused(PlanTransitionRejection::BadTransition(BadTransition { state, event })),
            ErrorClass::Bug,
            "a plan that is strategize/queued does not advance",
        ),
        (PlanStoreError::Refused(spent), ErrorClass::Bug, "the plan was reverted 3 times already"),
        (
            PlanStoreError::Refused(DecisionInvalid::Parent { parent: 9 }.into()),
            ErrorClass::Permanent,
            "a decision is not valid: it follows from decision 9, which the plan does not have, or no longer",
        ),
        (
            PlanStoreError::from(JobStoreError::Refused(JobTransitionRejection::PlanBusy { job })),
            ErrorClass::Transient,
            "the plan is busy with job 00000000000000000000000011",
        ),
        (
            PlanStoreError::from(JobStoreError::QueueFull { queued: 10_000 }),
            ErrorClass::Permanent,
            "the queue is full: 10000 jobs wait",
        ),
        (
            PlanStoreError::IdTaken { plan },
            ErrorClass::Bug,
            "plan 00000000000000000000000012 already exists with another task",
        ),
        (
            PlanStoreError::from(JobStoreError::Store(StoreError::Busy)),
            ErrorClass::Transient,
            "the store is busy",
        ),
    ];
    for (error, class, says) in heard {
        assert_eq!((error.class(), error.to_string().as_str()), (class, says));
    }
}

#[test]
fn a_lock_that_is_held_names_its_holder() {
    let resource = LockResource::Plan(PlanId::from_u128(34));
    let held = LockStoreError::from(LockHeld { resource, owner: "ann".to_owned() });
    assert_eq!(held.to_string(), "plan:00000000000000000000000012 is locked by ann");
    assert_eq!(LockStoreError::from(StoreError::Full).to_string(), "the store has no space left");
}

#[test]
fn an_error_keeps_its_source_apart_from_its_words() {
    // They are transparent: what they say is the cause, so there is none behind it to be said twice.
    use std::error::Error;
    assert!(ChangesetStoreError::from(StoreError::Busy).source().is_none());
    assert!(JobStoreError::from(StoreError::Full).source().is_none());
    assert!(broken().source().is_none());
}

#[test]
fn a_limit_says_what_it_is_how_far_it_is_used_and_what_was_asked() {
    let plan = PlanId::from_u128(33);
    let reached = LimitReached {
        scope: LedgerScope::Plan(plan),
        kind: SpendKind::ToolCalls,
        max: 3,
        used: 2,
        reserved: 1,
        asked: 1,
    };
    let day = LimitReached {
        scope: LedgerScope::Day(Day::from_wall(WallMs(0))),
        kind: SpendKind::Steps,
        reserved: 0,
        ..reached
    };
    let spend = SpendId::from_u128(33);
    let cases = [
        (
            LedgerStoreError::from(reached),
            ErrorClass::Permanent,
            "the plan has a limit of 3 tool calls (tool_calls): 2 used and 1 under way, 1 more asked for",
        ),
        (
            LedgerStoreError::from(day),
            ErrorClass::Permanent,
            "the day 1970-01-01 has a limit of 3 steps (steps): 2 used, 1 more asked for",
        ),
        (
            LedgerStoreError::from(LimitTooLow { kind: SpendKind::Steps, max: 2, taken: 3 }),
            ErrorClass::Permanent,
            "a limit of 2 steps is below the 3 that are used already",
        ),
        (
            LedgerStoreError::IdTaken { spend },
            ErrorClass::Bug,
            "the spend 00000000000000000000000011 already exists with other values",
        ),
        (
            LedgerStoreError::NotReserved { spend },
            ErrorClass::Bug,
            "there is no reservation 00000000000000000000000011",
        ),
        (
            LedgerStoreError::NotFound { plan },
            ErrorClass::Permanent,
            "there is no plan 00000000000000000000000011",
        ),
        (LedgerStoreError::from(broken()), ErrorClass::Permanent, "the store is broken: the disk is gone"),
    ];
    for (error, class, says) in cases {
        assert_eq!((error.class(), error.to_string().as_str()), (class, says));
    }
    assert_eq!(LedgerStoreError::from(ReserveError::LeaseLost(LOST)), LedgerStoreError::Store(LOST.into()));
    assert_eq!(
        LedgerStoreError::from(ReserveError::IdTaken { spend }).to_string(),
        ReserveError::IdTaken { spend }.to_string()
    );
}
