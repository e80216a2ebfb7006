//! Error histories against a model that keeps everything and counts anew each time, over random histories.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::json;

use crate::sample::{PLAN, step};

/// Everything ever recorded, with its answer.
#[derive(Default)]
struct Log {
    all: Vec<Logged>,
}

struct Logged {
    error: NewError,
    at: Ms,
    action: RecoveryAction,
    reports: Vec<Detail>,
}

impl Log {
    fn kept(&self) -> &[Logged] {
        &self.all[self.all.len().saturating_sub(100)..]
    }

    fn record(
        &mut self,
        policy: &RecoveryPolicy,
        error: NewError,
        at: Ms,
        jitter: u16,
    ) -> (u64, RecoveryAction) {
        let kept_from = self.all.len() - self.kept().len();
        for (place, known) in self.all.iter_mut().enumerate().skip(kept_from) {
            if known.error.id() == error.id() {
                known.reports.push(error.detail().clone());
                return (place as u64 + 1, known.action);
            }
        }
        let action = self.decide(policy, &error, jitter);
        let reports = vec![error.detail().clone()];
        self.all.push(Logged { error, at, action, reports });
        (self.all.len() as u64, action)
    }

    fn newest_attempt(&self) -> u32 {
        self.all.iter().map(|logged| logged.error.step().attempt).max().unwrap_or(0)
    }

    fn retried<'a>(&self, of: impl IntoIterator<Item = &'a Logged>, step: &StepId) -> u32 {
        let retried = |logged: &&Logged| matches!(logged.action, RecoveryAction::Retry { .. });
        of.into_iter().filter(|logged| logged.error.step() == step).filter(retried).count() as u32
    }

    fn decide(&self, policy: &RecoveryPolicy, error: &NewError, jitter: u16) -> RecoveryAction {
        let step = error.step();
        if step.attempt < self.newest_attempt() {
            return RecoveryAction::GiveUp;
        }
        let revert = if policy.reversions_left() > 0 { RecoveryAction::Revert } else { RecoveryAction::Ask };
        let sandboxes = self.kept().iter().filter(|logged| logged.error.category() == ErrorCategory::Sandbox);
        let (may_retry, then) = match error.category().as_str() {
            "timeout" | "connection" | "overloaded" | "rate_limit" => (true, RecoveryAction::Ask),
            "tool" => (error.is_idempotent(), RecoveryAction::Ask),
            "model_output" => (true, revert),
            "sandbox" => (self.retried(sandboxes, step) == 0, RecoveryAction::GiveUp),
            "validation" => {
                (false, if policy.replan() == GateDecision::Auto { revert } else { RecoveryAction::Ask })
            }
            "invalid_input" | "internal" => (false, RecoveryAction::GiveUp),
            _ => (false, RecoveryAction::Ask),
        };
        let retries = self.retried(&self.all, step);
        let total =
            self.all.iter().filter(|logged| matches!(logged.action, RecoveryAction::Retry { .. })).count()
                as u32;
        let can_be_retried = ["timeout", "connection", "overloaded", "rate_limit", "model_output", "sandbox"]
            .contains(&error.category().as_str())
            || (error.category() == ErrorCategory::Tool && error.is_idempotent());
        if can_be_retried && error.phase() == Phase::Apply {
            return RecoveryAction::Ask;
        }
        if !may_retry || retries >= policy.max_retries_per_step() {
            return then;
        }
        if total >= policy.max_retries_per_plan() {
            return RecoveryAction::Ask;
        }
        let own = backoff(error.category(), retries + 1, jitter);
        let after = own.max(error.retry_after().unwrap_or(Duration::ZERO));
        if after > Duration::from_secs(600) {
            RecoveryAction::Ask
        } else {
            RecoveryAction::Retry { after, attempt: retries + 1 }
        }
    }

    fn folded(&self) -> BTreeMap<ErrorCategory, FoldedErrors> {
        let mut folded = BTreeMap::new();
        for logged in &self.all[..self.all.len() - self.kept().len()] {
            let entry = folded.entry(logged.error.category()).or_insert(FoldedErrors {
                count: 0,
                first: logged.at,
                last: logged.at,
            });
            entry.count += 1;
            entry.last = logged.at;
        }
        folded
    }

    /// Each key's values in the order of their last report.
    fn details(&self) -> Detail {
        let mut values: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
        for logged in self.kept() {
            let mut of_record: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
            for (key, value) in logged.reports.iter().flatten() {
                push_last(of_record.entry(key.clone()).or_default(), value);
            }
            for (key, of_key) in of_record {
                of_key.iter().for_each(|value| push_last(values.entry(key.clone()).or_default(), value));
            }
        }
        let shown = |list: Vec<serde_json::Value>| {
            if list.len() == 1 { list[0].clone() } else { json!(list) }
        };
        values.into_iter().map(|(key, list)| (key, shown(list))).collect()
    }
}

fn push_last(list: &mut Vec<serde_json::Value>, value: &serde_json::Value) {
    list.retain(|known| known != value);
    list.push(value.clone());
    if list.len() > 20 {
        list.remove(0);
    }
}

fn some_error() -> impl Strategy<Value = NewError> {
    let steps = (prop_oneof![9 => Just(1_u32), 1 => Just(2_u32)], "[ab]")
        .prop_map(|(attempt, node)| step(attempt, &node));
    let phase = prop_oneof![1 => Just(Phase::Strategize), 8 => Just(Phase::Execute), 1 => Just(Phase::Apply)];
    let category = proptest::sample::select(&ErrorCategory::ALL[..]);
    let value =
        prop_oneof![(0..40_i32).prop_map(|number| json!(number)), Just(json!([1])), Just(json!([1, 2]))];
    let detail = proptest::collection::btree_map("[kl]", value, 0..3);
    let wait = proptest::option::of((0..700_u64).prop_map(Duration::from_secs));
    (0..300_u128, phase, steps, category, detail, wait, any::<bool>()).prop_map(
        |(id, phase, step, category, detail, wait, idempotent)| {
            let error =
                NewError::new(ErrorId::from_u128(id), phase, step, category, "no").with_detail(detail);
            let error = if idempotent { error.idempotent() } else { error };
            wait.map_or(error.clone(), |wait| error.with_retry_after(wait))
        },
    )
}

fn some_policy() -> impl Strategy<Value = RecoveryPolicy> {
    let gate = prop_oneof![Just(GateDecision::Ask), Just(GateDecision::Auto)];
    (0..6_u32, 0..20_u32, gate, 0..2_u8)
        .prop_map(|(step, plan, gate, left)| RecoveryPolicy::new(step, plan, gate, left).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_history_answers_as_one_that_keeps_everything(
        policy in some_policy(),
        errors in proptest::collection::vec((some_error(), any::<u16>()), 1..160),
    ) {
        let mut history = ErrorHistory::new(PLAN);
        let mut log = Log::default();
        for (now, (error, jitter)) in errors.into_iter().enumerate() {
            let now = Ms(now as u64);
            let answer = history.record(&policy, error.clone(), now, jitter);
            prop_assert_eq!((answer.seq, answer.action), log.record(&policy, error, now, jitter));

            prop_assert_eq!(history.recorded(), log.all.len() as u64);
            prop_assert_eq!(history.next_seq(), log.all.len() as u64 + 1);
            prop_assert_eq!(history.newest_attempt(), log.newest_attempt());
            let total = log.all.iter().filter(|logged| matches!(logged.action, RecoveryAction::Retry { .. })).count();
            prop_assert_eq!(history.retries_total() as usize, total);
            for node in ["a", "b"] {
                let step = step(log.newest_attempt(), node);
                prop_assert_eq!(history.retries(&step), log.retried(&log.all, &step));
                prop_assert!(history.retries(&step) <= policy.max_retries_per_step());
            }
            prop_assert!(history.retries_total() <= policy.max_retries_per_plan());
        }
        let kept: Vec<_> = history.records().map(|record| (&record.error, record.at, record.recovery.action)).collect();
        let expected: Vec<_> = log.kept().iter().map(|logged| (&logged.error, logged.at, logged.action)).collect();
        prop_assert_eq!(kept, expected);
        prop_assert_eq!(history.folded(), &log.folded());
        prop_assert_eq!(history.details(), log.details());
    }
}

#[test]
fn the_newest_100_are_kept_whole_and_the_others_counted() {
    let mut history = ErrorHistory::new(PLAN);
    for id in 1..=250_u64 {
        let category = if id % 2 == 0 { ErrorCategory::Auth } else { ErrorCategory::Internal };
        let error =
            NewError::new(ErrorId::from_u128(id.into()), Phase::Execute, step(1, "a"), category, "no");
        assert_eq!(history.record(&RecoveryPolicy::default(), error, Ms(id), 0).seq, id);
        assert_eq!(history.records().len(), usize::try_from(id).unwrap().min(RECORDS_MAX));
    }
    let folded = BTreeMap::from([
        (ErrorCategory::Auth, FoldedErrors { count: 75, first: Ms(2), last: Ms(150) }),
        (ErrorCategory::Internal, FoldedErrors { count: 75, first: Ms(1), last: Ms(149) }),
    ]);
    assert_eq!(history.folded(), &folded);
    let kept: Vec<_> = history.records().map(|record| record.recovery.seq).collect();
    assert_eq!(kept, (151..=250).collect::<Vec<_>>());
    assert_eq!(history.recorded(), 250);
}

#[test]
fn an_error_reported_again_gets_its_first_answer_and_adds_its_details() {
    let policy = RecoveryPolicy::default();
    let report = |detail: serde_json::Value| {
        let error =
            NewError::new(ErrorId::from_u128(1), Phase::Execute, step(1, "a"), ErrorCategory::Timeout, "no");
        error.with_detail(serde_json::from_value(detail).unwrap())
    };
    let mut history = ErrorHistory::new(PLAN);
    let first = history.record(&policy, report(json!({"host": "a", "try": 1})), Ms(1), 0);
    let again = history.record(&policy, report(json!({"host": "b", "try": 1})), Ms(2), u16::MAX);
    assert_eq!(again, first);
    let mut details = Details::default();
    merge_detail(&mut details, report(json!({"host": "a", "try": 1})).detail());
    merge_detail(&mut details, report(json!({"host": "b"})).detail());
    let record =
        ErrorRecord { error: report(json!({"host": "a", "try": 1})), at: Ms(1), recovery: first, details };
    assert_eq!(history.records().collect::<Vec<_>>(), [&record]);
    assert_eq!((history.recorded(), history.retries_total()), (1, 1));
    assert_eq!(json!(history.details()), json!({"host": ["a", "b"], "try": 1}));
}
