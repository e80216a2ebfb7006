//! Error histories: what failed is kept, counted once, and decided on by what was counted.

use std::time::Duration;

use domain::{
    CallNumber, Detail, ErrorCategory, ErrorHistory, ErrorRecord, FoldedErrors, GateDecision, NewError,
    Phase, RECORDS_MAX, RecoveryAction, RecoveryAdvice, RecoveryPolicy,
};
use store::JobEnd;

use super::bench::Bench;
use super::sample::{ONE_MS, STRANGER, error, error_at, new_job, plan_id, step};

const ODD_TEXT: &str = "429 from 'x'; \"é\"\n\\";

pub(crate) async fn a_plan_without_errors_has_an_empty_history(bench: Bench) {
    bench.owner(1).await;
    for plan in [plan_id(1), STRANGER] {
        assert_eq!(bench.history(plan).await, ErrorHistory::new(plan));
    }
}

pub(crate) async fn an_error_comes_back_as_it_was_recorded(bench: Bench) {
    let owner = bench.owner(1).await;
    let detail =
        Detail::from([("argv".to_owned(), vec!["git", ODD_TEXT].into()), ("exit".to_owned(), 1.into())]);
    let plain = error(1, ErrorCategory::Internal);
    let full = NewError::new(
        error(2, ErrorCategory::RateLimit).id(),
        Phase::Strategize,
        step(3, ODD_TEXT),
        ErrorCategory::RateLimit,
        ODD_TEXT,
    )
    .with_tool_call(CallNumber(u32::MAX))
    .with_detail(detail.clone())
    .with_retry_after(Duration::from_millis(7_001))
    .idempotent();
    bench.pass(ONE_MS);
    let given_up = owner.record_error(&RecoveryPolicy::default(), &plain).await.unwrap();
    bench.pass(ONE_MS);
    let retried = owner.record_error(&RecoveryPolicy::default(), &full).await.unwrap();
    assert_eq!((given_up.seq, given_up.action), (1, RecoveryAction::GiveUp));
    assert_eq!(
        retried,
        RecoveryAdvice {
            seq: 2,
            action: RecoveryAction::Retry { after: Duration::from_millis(7_001), attempt: 1 },
            hint: "retry 1 of this step in 7 s".to_owned(),
            command: format!("agents plan watch {}", plan_id(1)),
        }
    );

    let history = bench.history(plan_id(1)).await;
    let records: Vec<ErrorRecord> = history.records().cloned().collect();
    assert_eq!(records.len(), 2);
    assert_eq!((&records[0].error, &records[0].recovery), (&plain, &given_up));
    assert_eq!((&records[1].error, &records[1].recovery), (&full, &retried));
    assert_eq!(records[1].at, bench.now(), "the store's clock says when");
    assert_eq!(records[1].at.since(records[0].at), ONE_MS);
    assert_eq!(records[1].details.to_json(), detail);
    assert_eq!((history.plan(), history.next_seq()), (Some(plan_id(1)), 3));
    assert_eq!((history.newest_attempt(), history.retries_total()), (3, 1));
    assert_eq!(history.retries(&step(3, ODD_TEXT)), 1);
}

pub(crate) async fn what_a_model_was_told_is_recorded_and_changes_nothing_else(bench: Bench) {
    let owner = bench.owner(1).await;
    let failed = error(1, ErrorCategory::Timeout);
    owner.record_error(&RecoveryPolicy::default(), &failed).await.unwrap();
    for (n, category) in [(2, ErrorCategory::Tool), (3, ErrorCategory::ModelOutput)] {
        let told = error(n, category).handled();
        let recovery = owner.record_error(&RecoveryPolicy::default(), &told).await.unwrap();
        assert_eq!((recovery.seq, recovery.action), (n, RecoveryAction::Told));
    }
    let history = bench.history(plan_id(1)).await;
    assert_eq!((history.recorded(), history.retries_total()), (3, 1), "no retry is spent on it");
    assert!(history.records().skip(1).all(|record| record.error.is_handled()), "it comes back as it was");
    let last = history.last_failure().unwrap();
    assert_eq!(last.error, failed, "what a plan stands at is what nobody dealt with");
}

pub(crate) async fn the_jitter_of_the_caller_spreads_the_wait(bench: Bench) {
    let owner = bench.owner(1).await;
    let waits = [(1, 0, 500), (2, u16::MAX, 1_999)];
    for (attempt, jitter, after_ms) in waits {
        let error = error(attempt.into(), ErrorCategory::Timeout);
        let recovery =
            bench.store.record_error(&owner.claim, &RecoveryPolicy::default(), error, jitter).await.unwrap();
        let after = Duration::from_millis(after_ms);
        assert_eq!(recovery.action, RecoveryAction::Retry { after, attempt });
    }
}

fn is_retry(recovery: &RecoveryAdvice) -> bool {
    matches!(recovery.action, RecoveryAction::Retry { .. })
}

pub(crate) async fn retries_end_at_the_limits_of_step_and_plan(bench: Bench) {
    let policy = RecoveryPolicy::new(2, 3, GateDecision::Auto, 0).unwrap();
    let owner = bench.owner(1).await;
    let failures = [
        (step(1, "a"), true),
        (step(1, "a"), true),
        (step(1, "a"), false),
        (step(1, "b"), true),
        (step(1, "b"), false),
    ];
    for (n, (step, retried)) in (1..).zip(failures) {
        let error = error_at(n, step, ErrorCategory::Connection);
        let recovery = owner.record_error(&policy, &error).await.unwrap();
        assert_eq!((recovery.seq, is_retry(&recovery)), (n, retried), "error {n}");
    }
    let history = bench.history(plan_id(1)).await;
    assert_eq!((history.retries(&step(1, "a")), history.retries(&step(1, "b"))), (2, 1));
    assert_eq!((history.retries_total(), history.recorded()), (3, 5));
}

pub(crate) async fn a_history_goes_on_with_the_next_job_and_the_next_attempt(bench: Bench) {
    let policy = RecoveryPolicy::new(1, 30, GateDecision::Auto, 0).unwrap();
    let owner = bench.owner(1).await;
    let mut expected = ErrorHistory::new(plan_id(1));
    let failures = [(1, true), (1, false), (2, true), (2, false)];
    for (n, (attempt, retried)) in (1..).zip(failures) {
        let error = error_at(n, step(attempt, "code"), ErrorCategory::Overloaded);
        let recovery = owner.record_error(&policy, &error).await.unwrap();
        assert_eq!(is_retry(&recovery), retried, "error {n}");
        expected.record(&policy, error, bench.now(), 0);
    }
    owner.end(JobEnd::Succeeded).await.unwrap();
    let history = bench.history(plan_id(1)).await;
    let retries = [1, 2].map(|attempt| history.retries(&step(attempt, "code")));
    assert_eq!(retries, [0, 1], "only the newest attempt is counted by step");
    assert_eq!(history, expected);

    bench.pass(ONE_MS);
    let next = domain::NewJob { plan: plan_id(1), ..new_job(2) };
    let owner = bench.owner_of(next).await;
    for (n, attempt) in [(5, 1), (6, 2), (7, 3)] {
        let error = error_at(n, step(attempt, "code"), ErrorCategory::Overloaded);
        let answer = owner.record_error(&policy, &error).await.unwrap();
        assert_eq!(answer, expected.record(&policy, error, bench.now(), 0));
    }
    assert_eq!(bench.history(plan_id(1)).await, expected);
}

pub(crate) async fn an_error_recorded_again_is_counted_once_and_adds_its_details(bench: Bench) {
    let owner = bench.owner(1).await;
    let report = |key: &str, value: u32| {
        let detail = Detail::from([(key.to_owned(), value.into())]);
        error(1, ErrorCategory::Timeout).with_detail(detail)
    };
    let mut expected = ErrorHistory::new(plan_id(1));
    let first = owner.record_error(&RecoveryPolicy::default(), &report("a", 1)).await.unwrap();
    expected.record(&RecoveryPolicy::default(), report("a", 1), bench.now(), 0);
    bench.pass(ONE_MS);
    for again in [report("a", 2), report("b", 3), report("a", 2)] {
        expected.record(&RecoveryPolicy::default(), again.clone(), bench.now(), 0);
        let strict = RecoveryPolicy::new(0, 0, GateDecision::Ask, 0).unwrap();
        assert_eq!(owner.record_error(&strict, &again).await, Ok(first.clone()));
    }
    let history = bench.history(plan_id(1)).await;
    assert_eq!((history.recorded(), history.retries_total()), (1, 1));
    let merged = Detail::from([("a".to_owned(), vec![1, 2].into()), ("b".to_owned(), 3.into())]);
    assert_eq!(history.details(), merged);
    assert_eq!(history, expected);
}

pub(crate) async fn a_history_keeps_the_newest_100_and_counts_the_rest(bench: Bench) {
    const CATEGORIES: [ErrorCategory; 3] =
        [ErrorCategory::Timeout, ErrorCategory::Auth, ErrorCategory::Sandbox];
    let owner = bench.owner(1).await;
    let begin = bench.now();
    let mut expected = ErrorHistory::new(plan_id(1));
    for n in 1..=250 {
        bench.pass(ONE_MS);
        let category = CATEGORIES[usize::try_from(n).unwrap() % 3];
        let answer = owner.record_error(&RecoveryPolicy::default(), &error(n, category)).await;
        let wanted = expected.record(&RecoveryPolicy::default(), error(n, category), bench.now(), 0);
        assert_eq!(answer, Ok(wanted));
    }
    let history = bench.history(plan_id(1)).await;
    let kept: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
    assert_eq!(kept, (151..=250).collect::<Vec<u64>>());
    assert_eq!(kept.len(), RECORDS_MAX);
    // Of 1..=150 every third is of each category, the first at 1, 2 and 3.
    for (category, first) in
        [(ErrorCategory::Auth, 1), (ErrorCategory::Sandbox, 2), (ErrorCategory::Timeout, 3)]
    {
        let at = |n: u64| begin.saturating_add(Duration::from_millis(n));
        let folded = FoldedErrors { count: 50, first: at(first), last: at(first + 147) };
        assert_eq!(history.folded().get(&category), Some(&folded), "{category}");
    }
    assert_eq!((history.recorded(), history.folded().len()), (250, 3));
    assert_eq!(history, expected);
}

pub(crate) async fn what_models_were_told_gives_way_before_failures(bench: Bench) {
    let owner = bench.owner(1).await;
    let mut expected = ErrorHistory::new(plan_id(1));
    for n in 1..=250 {
        bench.pass(ONE_MS);
        let failure = error(n, ErrorCategory::Tool);
        // Every fifth is a failure, the others were told to a model.
        let failure = if n % 5 == 0 { failure } else { failure.handled() };
        let answer = owner.record_error(&RecoveryPolicy::default(), &failure).await;
        assert_eq!(answer, Ok(expected.record(&RecoveryPolicy::default(), failure, bench.now(), 0)));
    }
    let history = bench.history(plan_id(1)).await;
    let failures = history.records().filter(|record| record.recovery.action != RecoveryAction::Told);
    let failures: Vec<u64> = failures.map(|record| record.recovery.seq).collect();
    assert_eq!(failures, (1..=50).map(|n| n * 5).collect::<Vec<u64>>());
    assert_eq!((history.records().len(), history.recorded()), (RECORDS_MAX, 250));
    assert_eq!(history, expected);
}

pub(crate) async fn the_oldest_kept_error_is_still_known_by_its_id(bench: Bench) {
    let owner = bench.owner(1).await;
    let failure = |n| error(n, ErrorCategory::Timeout);
    let mut answers = Vec::new();
    for n in 1..=150 {
        answers.push(owner.record_error(&RecoveryPolicy::default(), &failure(n)).await);
    }
    let before = bench.snapshot().await;
    for n in [51, 100, 150] {
        let again = owner.record_error(&RecoveryPolicy::default(), &failure(n)).await;
        assert_eq!(again, answers[usize::try_from(n).unwrap() - 1]);
    }
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn errors_of_one_plan_do_not_count_for_another(bench: Bench) {
    let mut actions = Vec::new();
    for n in [1, 2] {
        let owner = bench.owner(n).await;
        let error = error(n, ErrorCategory::Timeout);
        let recovery = owner.record_error(&RecoveryPolicy::default(), &error).await.unwrap();
        actions.push((recovery.seq, recovery.action));
    }
    let after = Duration::from_millis(500);
    assert_eq!(actions, [(1, RecoveryAction::Retry { after, attempt: 1 }); 2]);
    for n in [1, 2] {
        let mut expected = ErrorHistory::new(plan_id(n));
        expected.record(&RecoveryPolicy::default(), error(n, ErrorCategory::Timeout), bench.now(), 0);
        assert_eq!(bench.history(plan_id(n)).await, expected);
    }
}
