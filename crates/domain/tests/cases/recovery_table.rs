//! The recovery of every category: the table literally, the backoff exactly, the limits to the last retry.

use std::time::Duration;

use domain::*;
use proptest::prelude::*;

use crate::sample::{PLAN, error, step};

const RETRY: RecoveryAction = RecoveryAction::Retry { after: Duration::ZERO, attempt: 1 };

fn policy(per_step: u32, per_plan: u32, replan: GateDecision, reversions_left: u8) -> RecoveryPolicy {
    RecoveryPolicy::new(per_step, per_plan, replan, reversions_left).unwrap()
}

/// Records so many errors of one step, each after the other, and gives the last answer.
fn nth(policy: &RecoveryPolicy, count: u128, make: impl Fn(u128) -> NewError) -> RecoveryAdvice {
    let mut history = ErrorHistory::new(PLAN);
    let mut last = None;
    for id in 1..=count {
        last = Some(history.record(policy, make(id), Ms(0), 0));
    }
    last.unwrap()
}

/// As [`nth`], with an idempotent error of this category in execute.
fn nth_of(category: ErrorCategory, count: u128) -> RecoveryAction {
    nth(&RecoveryPolicy::default(), count, |id| error(id, step(1, "code"), category).idempotent()).action
}

fn retry(after_ms: u64, attempt: u32) -> RecoveryAction {
    RecoveryAction::Retry { after: Duration::from_millis(after_ms), attempt }
}

#[test]
fn a_limit_of_the_plan_is_raised_and_a_bound_of_the_node_is_continued() {
    let detail = Detail::from([(LIMIT_KEY.to_owned(), "tokens".into())]);
    let of_plan = |id| error(id, step(1, "code"), ErrorCategory::Budget).with_detail(detail.clone());
    let advice = nth(&RecoveryPolicy::default(), 1, of_plan);
    assert_eq!(advice.hint, "a limit of the plan is reached; resume with a higher one");
    assert!(advice.command.ends_with(" --limit tokens=…"), "{}", advice.command);
    let of_node = |id| error(id, step(1, "code"), ErrorCategory::Budget);
    let advice = nth(&RecoveryPolicy::default(), 1, of_node);
    assert!(!advice.command.contains("--limit"), "{}", advice.command);
}

#[test]
fn a_plan_that_nobody_waits_for_waits_as_long_as_its_policy_lets_it() {
    let hour = Duration::from_secs(3_600);
    let limited = |id| error(id, step(1, "code"), ErrorCategory::RateLimit).with_retry_after(hour);
    let action = |policy: &RecoveryPolicy| nth(policy, 1, limited).action;
    assert_eq!(action(&RecoveryPolicy::default()), RecoveryAction::Ask);
    let patient = RecoveryPolicy::default().with_wait_max(hour);
    assert_eq!(action(&patient), RecoveryAction::Retry { after: hour, attempt: 1 });
    assert_eq!(action(&patient.with_wait_max(hour / 2)), RecoveryAction::Ask);
}

#[test]
fn each_category_recovers_as_the_table_says() {
    use RecoveryAction::{Ask, GiveUp, Revert};
    // The first answer, the last retry, and what follows when the retries of the step are spent.
    let table = [
        (ErrorCategory::Timeout, [retry(500, 1), retry(2_000, 3), Ask]),
        (ErrorCategory::Connection, [retry(250, 1), retry(1_000, 3), Ask]),
        (ErrorCategory::Overloaded, [retry(1_000, 1), retry(4_000, 3), Ask]),
        (ErrorCategory::RateLimit, [retry(2_500, 1), retry(10_000, 3), Ask]),
        (ErrorCategory::Tool, [retry(0, 1), retry(0, 3), Ask]),
        (ErrorCategory::ModelOutput, [retry(0, 1), retry(0, 3), Revert]),
        (ErrorCategory::Sandbox, [retry(500, 1), GiveUp, GiveUp]),
        (ErrorCategory::Validation, [Revert, Revert, Revert]),
        (ErrorCategory::Resource, [Ask, Ask, Ask]),
        (ErrorCategory::Auth, [Ask, Ask, Ask]),
        (ErrorCategory::Budget, [Ask, Ask, Ask]),
        (ErrorCategory::MergeConflict, [Ask, Ask, Ask]),
        (ErrorCategory::InvalidInput, [GiveUp, GiveUp, GiveUp]),
        (ErrorCategory::Internal, [GiveUp, GiveUp, GiveUp]),
    ];
    assert_eq!(table.len(), ErrorCategory::ALL.len());
    for (category, expected) in table {
        assert_eq!([1, 3, 4].map(|count| nth_of(category, count)), expected, "{category}");
    }
}

#[test]
fn a_tool_that_might_do_harm_is_not_run_again() {
    let answer = nth(&RecoveryPolicy::default(), 1, |id| error(id, step(1, "code"), ErrorCategory::Tool));
    assert_eq!(answer.action, RecoveryAction::Ask);
    assert_eq!(answer.hint, "running the tool again might do harm; say how to go on");
}

#[test]
fn nothing_is_retried_in_apply() {
    for category in ErrorCategory::ALL {
        let failing = |id| {
            let id = ErrorId::from_u128(id);
            NewError::new(id, Phase::Apply, step(1, "apply"), category, "no").idempotent()
        };
        let expected = match category {
            ErrorCategory::InvalidInput | ErrorCategory::Internal => RecoveryAction::GiveUp,
            ErrorCategory::Validation => RecoveryAction::Revert,
            _ => RecoveryAction::Ask,
        };
        assert_eq!(nth(&RecoveryPolicy::default(), 1, failing).action, expected, "{category}");
    }
    for phase in [Phase::Strategize, Phase::Execute] {
        let failing = |id| {
            NewError::new(ErrorId::from_u128(id), phase, step(1, "code"), ErrorCategory::Tool, "no")
                .idempotent()
        };
        assert_eq!(nth(&RecoveryPolicy::default(), 1, failing).action, RETRY);
    }
}

#[test]
fn a_plan_reverts_by_itself_only_when_it_may() {
    let answer = |category, count, policy: RecoveryPolicy| {
        nth(&policy, count, |id| error(id, step(1, "code"), category)).action
    };
    let validation = |replan, left| answer(ErrorCategory::Validation, 1, policy(0, 0, replan, left));
    assert_eq!(validation(GateDecision::Auto, 1), RecoveryAction::Revert);
    assert_eq!(validation(GateDecision::Auto, 0), RecoveryAction::Ask);
    assert_eq!(validation(GateDecision::Ask, 3), RecoveryAction::Ask);
    let model_output =
        |count, left| answer(ErrorCategory::ModelOutput, count, policy(1, 30, GateDecision::Auto, left));
    assert_eq!([1, 2].map(|count| model_output(count, 1)), [RETRY, RecoveryAction::Revert]);
    assert_eq!([1, 2].map(|count| model_output(count, 0)), [RETRY, RecoveryAction::Ask]);
}

#[test]
fn a_step_gets_one_new_sandbox_and_no_more() {
    let mut history = ErrorHistory::new(PLAN);
    let mut answer = |id, node, category| {
        history.record(&RecoveryPolicy::default(), error(id, step(1, node), category), Ms(0), 0).action
    };
    assert_eq!(answer(1, "a", ErrorCategory::Timeout), retry(500, 1));
    assert_eq!(answer(2, "a", ErrorCategory::Sandbox), retry(1_000, 2), "other retries do not use it up");
    assert_eq!(answer(3, "b", ErrorCategory::Sandbox), retry(500, 1), "each step has its own");
    assert_eq!(answer(4, "a", ErrorCategory::Sandbox), RecoveryAction::GiveUp);
    assert_eq!(answer(5, "a", ErrorCategory::Timeout), retry(2_000, 3));
    assert_eq!(answer(6, "c", ErrorCategory::Timeout), retry(500, 1));
    assert_eq!(answer(7, "c", ErrorCategory::Timeout), retry(1_000, 2));
    assert_eq!(answer(8, "c", ErrorCategory::Timeout), retry(2_000, 3));
    assert_eq!(
        answer(9, "c", ErrorCategory::Sandbox),
        RecoveryAction::GiveUp,
        "the step's own limit holds too"
    );
    let never =
        nth(&policy(0, 30, GateDecision::Auto, 3), 1, |id| error(id, step(1, "a"), ErrorCategory::Sandbox));
    assert_eq!(never.action, RecoveryAction::GiveUp);
}

#[test]
fn the_limits_are_exact_per_step_and_per_plan() {
    let policy = policy(2, 3, GateDecision::Auto, 3);
    let mut history = ErrorHistory::new(PLAN);
    let mut answer =
        |id, node, category| history.record(&policy, error(id, step(1, node), category), Ms(0), 0);
    assert_eq!(answer(1, "a", ErrorCategory::ModelOutput).action, retry(0, 1));
    assert_eq!(answer(2, "a", ErrorCategory::ModelOutput).action, retry(0, 2));
    assert_eq!(answer(3, "b", ErrorCategory::ModelOutput).action, retry(0, 1));
    assert_eq!(
        answer(4, "a", ErrorCategory::ModelOutput).action,
        RecoveryAction::Revert,
        "the step's limit speaks first"
    );
    let spent = answer(5, "b", ErrorCategory::ModelOutput);
    assert_eq!(
        (spent.action, spent.hint.as_str()),
        (RecoveryAction::Ask, "all 3 retries of the plan are used up; look at what fails, then resume",)
    );
    assert_eq!(
        (history.retries(&step(1, "a")), history.retries(&step(1, "b")), history.retries_total()),
        (2, 1, 3)
    );
}

#[test]
fn a_visit_is_a_step_of_its_own() {
    let second_visit = StepId { visit: 2, ..step(1, "code") };
    let mut history = ErrorHistory::new(PLAN);
    let policy = policy(1, 30, GateDecision::Auto, 3);
    history.record(&policy, error(1, step(1, "code"), ErrorCategory::ModelOutput), Ms(0), 0);
    let answer = history.record(&policy, error(2, second_visit, ErrorCategory::ModelOutput), Ms(0), 0);
    assert_eq!(answer.action, retry(0, 1));
}

#[test]
fn a_newer_attempt_begins_afresh_and_an_older_one_is_over() {
    let policy = policy(1, 30, GateDecision::Auto, 3);
    let mut history = ErrorHistory::new(PLAN);
    let mut answer = |id, attempt| {
        history.record(&policy, error(id, step(attempt, "code"), ErrorCategory::Tool).idempotent(), Ms(0), 0)
    };
    assert_eq!(answer(1, 1).action, retry(0, 1));
    assert_eq!(answer(2, 2).action, retry(0, 1));
    let late = answer(3, 1);
    assert_eq!((late.seq, late.action), (3, RecoveryAction::GiveUp));
    assert_eq!(late.hint, "its attempt is over; attempt 2 goes on");
    assert_eq!(late.command, format!("agents plan watch {PLAN}"));
    assert_eq!(answer(4, 2).action, RecoveryAction::Ask);
    assert_eq!(history.newest_attempt(), 2);
    assert_eq!((history.retries(&step(1, "code")), history.retries(&step(2, "code"))), (0, 1));
    assert_eq!((history.retries_total(), history.recorded()), (2, 4));
}

#[test]
fn a_hint_of_the_other_side_lengthens_the_wait_up_to_ten_minutes() {
    let answer = |wait: Duration| {
        let failing = |id| error(id, step(1, "code"), ErrorCategory::RateLimit).with_retry_after(wait);
        nth(&RecoveryPolicy::default(), 1, failing).action
    };
    assert_eq!(answer(Duration::from_millis(2_499)), retry(2_500, 1));
    assert_eq!(answer(Duration::from_millis(2_501)), retry(2_501, 1));
    assert_eq!(answer(Duration::from_secs(600)), retry(600_000, 1));
    assert_eq!(answer(Duration::from_millis(600_001)), RecoveryAction::Ask);
}

#[test]
fn a_policy_has_bounds_and_names_what_is_wrong() {
    let refused =
        |per_step, per_plan| RecoveryPolicy::new(per_step, per_plan, GateDecision::Ask, 0).unwrap_err();
    let per_step = RecoveryPolicyError { key: "recovery.max_retries_per_step", value: 101, max: 100 };
    let per_plan = RecoveryPolicyError { key: "recovery.max_retries_per_plan", value: 1_001, max: 1_000 };
    assert_eq!(refused(101, 1_000), per_step);
    assert_eq!(refused(100, 1_001), per_plan);
    assert_eq!(per_plan.to_string(), "recovery.max_retries_per_plan is 1001, allowed is 0..=1000");
    let widest = policy(100, 1_000, GateDecision::Ask, 2);
    assert_eq!(
        (
            widest.max_retries_per_step(),
            widest.max_retries_per_plan(),
            widest.replan(),
            widest.reversions_left()
        ),
        (100, 1_000, GateDecision::Ask, 2)
    );
    assert_eq!(RecoveryPolicy::default(), policy(3, 30, GateDecision::Auto, 3));
}

#[test]
fn each_answer_says_what_to_type() {
    let told = |category, count| {
        let told =
            nth(&policy(1, 30, GateDecision::Auto, 1), count, |id| error(id, step(1, "code"), category));
        (told.hint, told.command.replace(&PLAN.to_string(), "ID"))
    };
    let table = [
        (ErrorCategory::Timeout, 1, "retry 1 of this step in 500 ms", "agents plan watch ID"),
        (ErrorCategory::Timeout, 2, "resume when the other side answers", "agents plan resume ID"),
        (ErrorCategory::Connection, 2, "resume when the other side answers", "agents plan resume ID"),
        (ErrorCategory::Overloaded, 2, "resume when the other side answers", "agents plan resume ID"),
        (ErrorCategory::RateLimit, 2, "resume when the other side answers", "agents plan resume ID"),
        (ErrorCategory::RateLimit, 1, "retry 1 of this step in 2 s", "agents plan watch ID"),
        (
            ErrorCategory::Resource,
            1,
            "free some disk, memory or handles, then resume",
            "agents plan resume ID",
        ),
        (ErrorCategory::Auth, 1, "check the key or the permission", "agents doctor"),
        (
            ErrorCategory::InvalidInput,
            1,
            "it cannot be done as it was asked; ask differently",
            "agents plan prompt ID \"…\" --replan",
        ),
        (
            ErrorCategory::ModelOutput,
            2,
            "the plan goes back and thinks again, with what was found",
            "agents plan watch ID",
        ),
        (
            ErrorCategory::MergeConflict,
            1,
            "look at the conflicts, then leave them out or take them",
            "agents plan diff ID --conflicts",
        ),
        (ErrorCategory::Sandbox, 2, "no sandbox could be made; the reasons are listed", "agents doctor"),
        (
            ErrorCategory::Budget,
            1,
            "its work is kept; let it continue, or take what is there",
            "agents plan resume ID",
        ),
        (
            ErrorCategory::Internal,
            1,
            "this is a fault of agents; please report it with what the command shows",
            "agents plan errors ID",
        ),
    ];
    for (category, count, hint, command) in table {
        assert_eq!(told(category, count), (hint.to_owned(), command.to_owned()), "{category}");
    }
}

#[test]
fn each_reason_to_ask_says_what_to_do() {
    let told = |policy: RecoveryPolicy, count, make: &dyn Fn(u128) -> NewError| {
        let told = nth(&policy, count, make);
        assert_eq!(told.action, RecoveryAction::Ask);
        (told.hint, told.command.replace(&PLAN.to_string(), "ID"))
    };
    let expect = |hint: &str, command: &str| (hint.to_owned(), command.to_owned());
    let replan = "agents plan prompt ID \"…\" --replan";
    let of = |category| move |id| error(id, step(1, "code"), category);
    assert_eq!(
        told(policy(0, 0, GateDecision::Ask, 3), 1, &of(ErrorCategory::Validation)),
        expect("say what to do differently, and the plan begins anew", replan)
    );
    assert_eq!(
        told(policy(0, 0, GateDecision::Auto, 0), 1, &of(ErrorCategory::Validation)),
        expect("the plan has begun anew as often as it may; say how to go on", replan)
    );
    assert_eq!(
        told(policy(0, 0, GateDecision::Auto, 0), 1, &|id| of(ErrorCategory::Tool)(id).idempotent()),
        expect("the tool failed again after every retry; say how to go on", replan)
    );
    let in_apply = |id| {
        NewError::new(ErrorId::from_u128(id), Phase::Apply, step(1, "apply"), ErrorCategory::Timeout, "no")
    };
    assert_eq!(
        told(RecoveryPolicy::default(), 1, &in_apply),
        expect("an apply is not retried by itself; resume when the cause is gone", "agents plan resume ID")
    );
    for (secs, shown) in [(601, "10 min"), (3_599, "59 min")] {
        let waiting = |id| of(ErrorCategory::Timeout)(id).with_retry_after(Duration::from_secs(secs));
        let hint = format!(
            "the other side asks to wait {shown}; resume then, or detach the plan, which waits by itself"
        );
        assert_eq!(told(RecoveryPolicy::default(), 1, &waiting), expect(&hint, "agents plan resume ID"));
    }
    for (secs, shown) in [(1, "1 s"), (119, "119 s"), (120, "2 min")] {
        let waiting = |id| of(ErrorCategory::Connection)(id).with_retry_after(Duration::from_secs(secs));
        assert_eq!(
            nth(&RecoveryPolicy::default(), 1, waiting).hint,
            format!("retry 1 of this step in {shown}")
        );
    }
}

#[test]
fn a_history_without_a_plan_speaks_of_the_last() {
    let mut history = ErrorHistory::default();
    let answer =
        history.record(&RecoveryPolicy::default(), error(1, step(1, "a"), ErrorCategory::Resource), Ms(0), 0);
    assert_eq!(answer.command, "agents plan resume @last");
    assert_eq!((history.plan(), ErrorHistory::new(PLAN).plan()), (None, Some(PLAN)));
}

/// The formula in floating point, which is exact for these sizes.
fn full_backoff_ms(base_ms: u64, attempt: u32) -> u64 {
    (base_ms as f64 * 2_f64.powi(attempt as i32 - 1)).min(60_000.0) as u64
}

proptest! {
    #[test]
    fn a_backoff_is_between_a_half_and_all_of_its_doubling(
        (category, base_ms) in prop_oneof![
            Just((ErrorCategory::Timeout, 1_000)),
            Just((ErrorCategory::Connection, 500)),
            Just((ErrorCategory::Overloaded, 2_000)),
            Just((ErrorCategory::RateLimit, 5_000)),
            Just((ErrorCategory::Sandbox, 1_000)),
        ],
        attempt in 1..=100_u32,
        jitter: u16,
    ) {
        let full = full_backoff_ms(base_ms, attempt);
        let after = backoff(category, attempt, jitter).as_millis() as u64;
        prop_assert!(full / 2 <= after && after < full, "{after} of {full}");
        prop_assert_eq!(after, full / 2 + full / 2 * u64::from(jitter) / 65_536);
    }

    #[test]
    fn no_backoff_overflows(category in proptest::sample::select(&ErrorCategory::ALL[..]), attempt: u32, jitter: u16) {
        prop_assert!(backoff(category, attempt, jitter) < BACKOFF_MAX);
    }
}
