//! The scenarios of the specification's list that need no store, no thread and no process.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::*;
use serde_json::json;

use crate::sample::{ANN, BOB, JOB, PLAN, change, claim_by, error, new_job, step, take_over_by};

fn with_detail(error: NewError, detail: serde_json::Value) -> NewError {
    error.with_detail(serde_json::from_value(detail).unwrap())
}

#[test]
fn a_provider_that_says_wait_41_minutes_is_brought_before_a_person() {
    let wait = Duration::from_secs(41 * 60);
    let failing = error(1, step(1, "code"), ErrorCategory::RateLimit).with_retry_after(wait);
    let answer = ErrorHistory::new(PLAN).record(&RecoveryPolicy::default(), failing, Ms(0), 0);
    let expected = RecoveryAdvice {
        seq: 1,
        action: RecoveryAction::Ask,
        hint: "the other side asks to wait 41 min; resume then, or detach the plan, which waits by itself"
            .to_owned(),
        command: format!("agents plan resume {PLAN}"),
    };
    assert_eq!(answer, expected);
}

#[test]
fn two_first_errors_of_a_plan_are_both_there_and_counted_one_and_two() {
    let mut history = ErrorHistory::default();
    let mut record = |id, detail| {
        let failing = error(id, step(1, "code"), ErrorCategory::Timeout);
        history.record(&RecoveryPolicy::default(), with_detail(failing, detail), Ms(0), 0)
    };
    let first = record(1, json!({"thread": "a"}));
    let second = record(2, json!({"thread": "b"}));
    assert_eq!(
        (first.seq, first.action),
        (1, RecoveryAction::Retry { after: Duration::from_millis(500), attempt: 1 })
    );
    assert_eq!(
        (second.seq, second.action),
        (2, RecoveryAction::Retry { after: Duration::from_secs(1), attempt: 2 })
    );
    assert_eq!(json!(history.details()), json!({"thread": ["a", "b"]}));
}

#[test]
fn three_errors_at_a_limit_of_two_end_in_one_question() {
    let policy = RecoveryPolicy::new(2, 30, GateDecision::Auto, 3).unwrap();
    let mut history = ErrorHistory::new(PLAN);
    let answers: Vec<_> = (1..=3)
        .map(|id| {
            history.record(&policy, error(id, step(1, "code"), ErrorCategory::Tool).idempotent(), Ms(0), 0)
        })
        .map(|answer| (answer.seq, answer.action))
        .collect();
    let retry = |attempt| RecoveryAction::Retry { after: Duration::ZERO, attempt };
    assert_eq!(answers, [(1, retry(1)), (2, retry(2)), (3, RecoveryAction::Ask)]);
}

#[test]
fn a_final_failure_does_not_overwrite_earlier_details() {
    let mut history = ErrorHistory::new(PLAN);
    let mut record = |id, category, detail| {
        let failing = error(id, step(1, "code"), category);
        history.record(&RecoveryPolicy::default(), with_detail(failing, detail), Ms(0), 0)
    };
    record(1, ErrorCategory::Tool, json!({"tool": "write_file", "path": "a.rs"}));
    record(2, ErrorCategory::Internal, json!({"path": "b.rs", "fault": true}));
    assert_eq!(
        json!(history.details()),
        json!({"tool": "write_file", "path": ["a.rs", "b.rs"], "fault": true})
    );
}

#[test]
fn ten_thousand_changesets_opened_and_closed_leave_none_open() {
    let mut changesets = Changesets::default();
    for id in 1..=10_000_u128 {
        let set = ChangesetId::from_u128(id);
        changesets.start(set).unwrap();
        assert_eq!(changesets.record_latest(change(id, "x")).unwrap().changeset, set);
        changesets.close(set).unwrap();
        assert_eq!(changesets.open_count(), 0);
    }
    assert_eq!(changesets.iter().len(), 10_000);
    assert_eq!(changesets.record_latest(change(0, "x")), Err(ChangesetError::NoActiveChangeset));
    assert!(changesets.finish(ChangesetEnding::Closed).is_empty());
}

#[test]
fn an_entry_stays_with_its_handle_while_another_changeset_is_started() {
    let (mine, other) = (ChangesetId::from_u128(1), ChangesetId::from_u128(2));
    let mut changesets = Changesets::default();
    changesets.start(mine).unwrap();
    changesets.start(other).unwrap();
    assert_eq!(
        changesets.record(mine, change(1, "x")),
        Ok(RecordedChange { changeset: mine, seq: 1, no: 1 })
    );
    assert_eq!(
        changesets.record_latest(change(2, "x")),
        Ok(RecordedChange { changeset: other, seq: 1, no: 2 })
    );
}

#[test]
fn a_change_recorded_again_after_its_changeset_closed_is_the_first() {
    let set = ChangesetId::from_u128(1);
    let mut changesets = Changesets::default();
    changesets.start(set).unwrap();
    let first = changesets.record(set, change(1, "x")).unwrap();
    let closed = changesets.close(set).unwrap();
    assert_eq!(changesets.record(set, change(1, "x")), Ok(first));
    assert_eq!(changesets.record_latest(change(1, "x")), Ok(first));
    assert_eq!(
        changesets.record(set, change(1, "y")),
        Err(ChangesetError::InvalidEntry { id: ChangeId::from_u128(1) })
    );
    assert_eq!(changesets.close(set), Ok(closed));
}

#[test]
fn a_paused_worker_that_wakes_after_a_takeover_writes_nothing() {
    let mut record = PlanRecord::default();
    record.enqueue(new_job(Phase::Execute), Ms(0)).unwrap();
    let paused = record.apply_job_event(JOB, &claim_by(ANN), Ms(0)).unwrap().claim();
    let set = ChangesetId::from_u128(1);
    record.start_changeset(&paused, set).unwrap();
    record.apply_job_event(JOB, &take_over_by(BOB), Ms(30)).unwrap();
    let lost = LeaseLost { job: JOB, fence: paused.fence };
    assert_eq!(record.record(&paused, set, change(1, "x")), Err(RecordError::LeaseLost(lost)));
    let succeed = JobEvent::Succeed { fence: paused.fence };
    assert_eq!(
        record.apply_job_event(JOB, &succeed, Ms(31)).cloned(),
        Err(JobTransitionRejection::LeaseLost(lost))
    );
}

#[test]
fn a_job_that_kills_each_worker_fails_after_four_deaths() {
    let mut record = PlanRecord::default();
    record.enqueue(new_job(Phase::Execute), Ms(0)).unwrap();
    record.apply_job_event(JOB, &claim_by(ANN), Ms(0)).unwrap();
    let mut fences = BTreeSet::new();
    for death in 1..=4 {
        let job = record.apply_job_event(JOB, &take_over_by(BOB), Ms(death * 30)).unwrap();
        fences.insert((job.state, job.fence));
    }
    let running = |fence| (JobState::Running, Fence(fence));
    assert_eq!(fences, BTreeSet::from([running(2), running(3), running(4), (JobState::Failed, Fence(5))]));
    assert_eq!(record.job(JOB).unwrap().why.as_deref(), Some("its worker died 4 times"));
}

#[test]
fn of_cancel_and_success_one_wins_and_the_answer_says_which() {
    let running = Job::new(new_job(Phase::Apply), Ms(0)).next(&claim_by(ANN), Ms(0)).unwrap();
    let fence = running.fence;
    let cancel = JobEvent::Cancel { reason: "enough".to_owned() };
    let succeed = JobEvent::Succeed { fence };
    let cancelled_first = running.next(&cancel, Ms(1)).unwrap();
    assert_eq!(cancelled_first.next(&succeed, Ms(2)), Err(JobTransitionRejection::CancelRequested));
    assert_eq!(
        cancelled_first.next(&JobEvent::Seal { fence }, Ms(2)),
        Err(JobTransitionRejection::CancelRequested)
    );
    let done_first = running.next(&succeed, Ms(1)).unwrap();
    assert_eq!(
        done_first.next(&cancel, Ms(2)),
        Err(JobTransitionRejection::Final { state: JobState::Succeeded })
    );
    let sealed_first = running.next(&JobEvent::Seal { fence }, Ms(1)).unwrap();
    assert_eq!(sealed_first.next(&cancel, Ms(2)), Err(JobTransitionRejection::CancelTooLate));
    assert_eq!(sealed_first.next(&succeed, Ms(2)).map(|job| job.state), Ok(JobState::Succeeded));
}
