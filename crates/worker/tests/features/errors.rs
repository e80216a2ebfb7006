//! Steps of #7333: errors of a plan, recorded by several threads at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::worker::ErrorRecoveryService;
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use domain::{
    BootId, Claim, ClaimRequest, Detail, ErrorCategory, ErrorHistory, ErrorId, GateDecision, LeaseLost,
    NewError, Phase, RecoveryAction, RecoveryAdvice, RecoveryPolicy, StepId, WorkerId,
};
use store::{ErrorStore, JobStore, StoreError};
use sync::ManualClock;

use crate::naive;
use crate::pausing_store::{Op, PausingStore, Point};
use crate::threads::{Held, WATCHDOG, all_at_once, apart, block_on};
use crate::world::{Features, id_of, owned_plan, rows};

/// What #7333's scenarios have.
#[derive(Default)]
pub(crate) struct Scene {
    plan: Option<Plan>,
    /// Plans beside each other in one store.
    plans: Vec<Ours>,
    /// Who recorded which error, in order.
    recorders: Vec<(String, String)>,
    /// What many threads were answered.
    told: Vec<RecoveryAdvice>,
    /// What a reader saw, in order.
    seen: Vec<ErrorHistory>,
}

/// The plan of a scenario.
#[derive(Clone)]
enum Plan {
    Ours(Ours),
    Naive(Arc<naive::ErrorRecoveryService>),
}

#[derive(Clone)]
struct Ours {
    store: Arc<PausingStore>,
    clock: ManualClock,
    service: ErrorRecoveryService,
    claim: Claim,
}

/// What a thread that records an error is answered.
type Answer = Result<RecoveryAdvice, StoreError>;

impl Ours {
    fn new(policy: RecoveryPolicy) -> Self {
        let clock = ManualClock::new();
        let store = PausingStore::new(Arc::new(clock.clone()));
        Self::in_store(&store, &clock, policy, 1)
    }

    fn in_store(
        store: &Arc<PausingStore>,
        clock: &ManualClock,
        policy: RecoveryPolicy,
        number: u128,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            clock: clock.clone(),
            service: ErrorRecoveryService::new(Arc::clone(store) as Arc<dyn ErrorStore>, policy),
            claim: owned_plan(store, number),
        }
    }

    fn record(&self, error: NewError) -> Answer {
        block_on(self.service.record_error(&self.claim, error))
    }

    fn history(&self) -> ErrorHistory {
        let ours = self.clone();
        apart("a look at the history", move || {
            block_on(ours.service.history(ours.claim.plan)).expect("the store answers")
        })
    }
}

/// The time-out of the one step, named by its message.
fn timeout(message: &str) -> NewError {
    let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
    let id = id_of(message);
    NewError::new(ErrorId::from_u128(id), Phase::Execute, step, ErrorCategory::Timeout, message)
}

fn shown(action: RecoveryAction) -> String {
    match action {
        RecoveryAction::Retry { attempt, .. } => format!("retry {attempt}"),
        RecoveryAction::Revert => "revert".to_owned(),
        RecoveryAction::Ask => "ask".to_owned(),
        RecoveryAction::GiveUp => "give up".to_owned(),
        RecoveryAction::Told => "told".to_owned(),
    }
}

impl Scene {
    fn plan(&self) -> Plan {
        self.plan.clone().expect("the scenario has a plan")
    }

    fn ours(&self) -> Ours {
        match self.plan() {
            Plan::Ours(ours) => ours,
            Plan::Naive(_) => panic!("the step is for our plan"),
        }
    }

    fn naive(&self) -> Arc<naive::ErrorRecoveryService> {
        match self.plan() {
            Plan::Naive(naive) => naive,
            Plan::Ours(_) => panic!("the step is for the naive plan"),
        }
    }
}

impl Plan {
    fn shown(&self) -> Vec<[String; 3]> {
        match self {
            Self::Ours(ours) => ours
                .history()
                .records()
                .map(|record| {
                    let recovery = &record.recovery;
                    [recovery.seq.to_string(), record.error.message().to_owned(), shown(recovery.action)]
                })
                .collect(),
            Self::Naive(naive) => (1_usize..)
                .zip(naive.history("plan"))
                .map(|(seq, record)| [seq.to_string(), record.message, format!("retry {}", record.retry)])
                .collect(),
        }
    }
}

#[given("a plan without errors")]
fn our_plan(world: &mut Features) {
    world.errors.plan = Some(Plan::Ours(Ours::new(RecoveryPolicy::default())));
}

#[given(expr = "a plan without errors, with {int} retry/retries per step")]
fn our_plan_with_limit(world: &mut Features, per_step: u32) {
    let policy = RecoveryPolicy::new(per_step, 1000, GateDecision::Auto, 3).expect("within its bounds");
    world.errors.plan = Some(Plan::Ours(Ours::new(policy)));
}

#[given("a naive plan without errors")]
fn naive_plan(world: &mut Features) {
    let naive = naive::ErrorRecoveryService::new(naive::Creation::CheckThenAssign);
    world.errors.plan = Some(Plan::Naive(Arc::new(naive)));
}

#[given("a naive plan without errors, whose history is found or created by setdefault")]
fn naive_plan_with_setdefault(world: &mut Features) {
    let naive = naive::ErrorRecoveryService::new(naive::Creation::SetDefault);
    world.errors.plan = Some(Plan::Naive(Arc::new(naive)));
}

fn records_until(world: &mut Features, thread: &str, message: String, held: Held) {
    let recorder = (thread.to_owned(), message.clone());
    world.errors.recorders.push(recorder);
    match world.errors.plan() {
        Plan::Ours(ours) => world.threads.start_until(thread, held, move || ours.record(timeout(&message))),
        Plan::Naive(naive) => {
            let record = move || naive.record_error("plan", &message);
            world.threads.start_until(thread, held, record);
        }
    }
}

#[when(
    expr = "thread {word} records the error {string}: it is inside the store, and nothing is recorded yet"
)]
fn records_half_way(world: &mut Features, thread: String, message: String) {
    let held = world.errors.ours().store.hold(Point::Before(Op::RecordError));
    records_until(world, &thread, message, held);
}

#[when(expr = "thread {word} records the error {string}: the store has it, and has not answered yet")]
fn records_unanswered(world: &mut Features, thread: String, message: String) {
    let held = world.errors.ours().store.hold(Point::After(Op::RecordError));
    records_until(world, &thread, message, held);
}

#[when(
    expr = "thread {word} records the error {string}: it found no history, and has made one that is not yet assigned"
)]
fn made_a_history(world: &mut Features, thread: String, message: String) {
    let held = world.errors.naive().pauses.hold(naive::RecoveryPoint::HistoryMade);
    records_until(world, &thread, message, held);
}

#[when(
    expr = "thread {word} records the error {string}: it has counted the retries, and nothing is recorded yet"
)]
fn counted_the_retries(world: &mut Features, thread: String, message: String) {
    let held = world.errors.naive().pauses.hold(naive::RecoveryPoint::RetriesCounted);
    records_until(world, &thread, message, held);
}

#[when(expr = "thread {word} records the error {string}")]
fn records(world: &mut Features, thread: String, message: String) {
    let error = timeout(&message);
    records_whole(world, &thread, message, error);
}

fn records_whole(world: &mut Features, thread: &str, message: String, error: NewError) {
    let ours = world.errors.ours();
    world.errors.recorders.push((thread.to_owned(), message));
    world.threads.run(thread, move || ours.record(error));
}

#[when(expr = "thread {word} records the error {string} with the detail {string} = {string}")]
fn records_with_detail(world: &mut Features, thread: String, message: String, key: String, value: String) {
    let error = timeout(&message).with_detail(Detail::from([(key, value.into())]));
    records_whole(world, &thread, message, error);
}

#[when(expr = "thread {word} records the same error again with the detail {string} = {string}")]
fn records_again(world: &mut Features, thread: String, key: String, value: String) {
    let (_, message) = world.errors.recorders[0].clone();
    records_with_detail(world, thread, message, key, value);
}

#[when("the history of the plan is seen to be empty")]
fn history_is_empty(world: &mut Features) {
    let ours = world.errors.ours();
    assert_eq!(ours.history(), ErrorHistory::new(ours.claim.plan));
}

#[then("the history of the plan is")]
fn history_is(world: &mut Features, step: &Step) {
    assert_eq!(world.errors.plan().shown(), rows(step, ["seq", "message", "answer"]));
}

#[then("each thread received the answer that the history records")]
fn answers_are_kept(world: &mut Features) {
    let history = world.errors.ours().history();
    assert!(!world.errors.recorders.is_empty());
    for (thread, message) in &world.errors.recorders {
        let kept = history.records().find(|record| record.error.message() == message);
        let kept = kept.map(|record| record.recovery.clone());
        assert_eq!(world.threads.answer::<Answer>(thread).ok(), kept, "thread {thread}");
    }
}

#[then("the details of the plan's errors are")]
fn details_are(world: &mut Features, step: &Step) {
    let records: Vec<_> = world.errors.ours().history().records().cloned().collect();
    let expected = rows(step, ["key", "values"]);
    let shown: Vec<[String; 2]> = expected
        .iter()
        .map(|[key, _]| {
            let values = records.iter().flat_map(|record| record.details.get(key));
            let values: Vec<&str> = values.filter_map(|value| value.as_str()).collect();
            [key.clone(), values.join(" ")]
        })
        .collect();
    assert_eq!(shown, expected);
    let all_keys: BTreeSet<String> = world.errors.ours().history().details().into_keys().collect();
    assert_eq!(all_keys, expected.into_iter().map(|[key, _]| key).collect());
}

#[when(expr = "{int} threads record {int} errors each for one step, all starting at once")]
fn many_record(world: &mut Features, threads: usize, each: usize) {
    let ours = world.errors.ours();
    let told = all_at_once(threads, move |thread| -> Vec<RecoveryAdvice> {
        let record = |turn| ours.record(timeout(&format!("{thread}/{turn}"))).expect("recorded");
        (0..each).map(record).collect()
    });
    world.errors.told = told.into_iter().flatten().collect();
}

#[then(expr = "each retry from the first to number {int} was answered once, and {string} {int} times")]
fn retries_are_exact(world: &mut Features, retries: usize, other: String, others: usize) {
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for recovery in &world.errors.told {
        *told.entry(shown(recovery.action)).or_default() += 1;
    }
    let mut expected: BTreeMap<String, usize> =
        (1..=retries).map(|retry| (format!("retry {retry}"), 1)).collect();
    if others > 0 {
        expected.insert(other, others);
    }
    assert_eq!(told, expected);
}

#[then(expr = "{int} errors are in the history, numbered from 1 without a gap, {int} of them stored in full")]
fn all_are_in_the_history(world: &mut Features, total: u64, kept: usize) {
    let history = world.errors.ours().history();
    let mut numbers: Vec<u64> = world.errors.told.iter().map(|recovery| recovery.seq).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=total).collect::<Vec<u64>>());
    let kept_numbers: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
    let newest: Vec<u64> = (total - kept as u64 + 1..=total).collect();
    let folded: u64 = history.folded().values().map(|folded| folded.count).sum();
    assert_eq!((kept_numbers, folded), (newest, total - kept as u64));
    let told: BTreeMap<u64, &RecoveryAdvice> =
        world.errors.told.iter().map(|recovery| (recovery.seq, recovery)).collect();
    for record in history.records() {
        assert_eq!(told[&record.recovery.seq], &record.recovery);
    }
}

#[given(expr = "{int} plans without errors in one store")]
fn many_plans(world: &mut Features, plans: u128) {
    let clock = ManualClock::new();
    let store = PausingStore::new(Arc::new(clock.clone()));
    world.errors.plans =
        (1..=plans).map(|number| Ours::in_store(&store, &clock, RecoveryPolicy::default(), number)).collect();
}

#[when(expr = "{int} threads of each plan record {int} errors, all starting at once")]
fn many_plans_fail(world: &mut Features, threads: usize, each: usize) {
    let plans = world.errors.plans.clone();
    all_at_once(plans.len() * threads, move |thread| {
        let plan = &plans[thread % plans.len()];
        for turn in 0..each {
            let message = format!("{} {thread} {turn}", plan.claim.plan);
            plan.record(timeout(&message)).expect("recorded");
        }
    });
}

#[then(expr = "each plan has the {int} errors of its own, numbered from 1 without a gap")]
fn plans_are_apart(world: &mut Features, total: u64) {
    assert!(!world.errors.plans.is_empty());
    for plan in &world.errors.plans {
        let history = plan.history();
        let numbers: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
        assert_eq!(numbers, (1..=total).collect::<Vec<u64>>());
        let own = plan.claim.plan.to_string();
        let is_own = |message: &str| message.starts_with(&own);
        assert!(history.records().all(|record| is_own(record.error.message())));
        assert_eq!(history.plan(), Some(plan.claim.plan));
    }
}

#[when(
    expr = "{int} threads record {int} errors each for one step while another thread reads the history until the last one"
)]
fn many_record_one_reads(world: &mut Features, threads: usize, each: usize) {
    let ours = world.errors.ours();
    let total = (threads * each) as u64;
    let seen = all_at_once(threads + 1, move |thread| -> Vec<ErrorHistory> {
        let read = || block_on(ours.service.history(ours.claim.plan)).expect("the store answers");
        if thread < threads {
            for turn in 0..each {
                ours.record(timeout(&format!("{thread}/{turn}"))).expect("recorded");
            }
            return Vec::new();
        }
        let mut seen = vec![read()];
        let given_up = Instant::now() + WATCHDOG;
        while seen.last().is_some_and(|history| history.recorded() < total) {
            assert!(Instant::now() < given_up, "never {total} errors");
            let next = read();
            if seen.last() != Some(&next) {
                seen.push(next);
            }
        }
        seen
    });
    world.errors.seen = seen.into_iter().flatten().collect();
}

#[then("every history that was read is the beginning of the last one")]
fn histories_grow(world: &mut Features) {
    let by_number = |history: &ErrorHistory| -> BTreeMap<u64, RecoveryAdvice> {
        let records = history.records().map(|record| record.recovery.clone());
        records.map(|recovery| (recovery.seq, recovery)).collect()
    };
    let recorded: Vec<u64> = world.errors.seen.iter().map(ErrorHistory::recorded).collect();
    assert!(recorded.is_sorted(), "{recorded:?}");
    for (earlier, later) in world.errors.seen.iter().zip(world.errors.seen.iter().skip(1)) {
        let (earlier_records, later_records) = (by_number(earlier), by_number(later));
        let newest = earlier.recorded();
        let oldest = newest.saturating_sub(domain::RECORDS_MAX as u64) + 1;
        let numbers: Vec<u64> = earlier_records.keys().copied().collect();
        assert_eq!(numbers, (oldest..=newest).collect::<Vec<u64>>(), "whole");
        for (number, record) in &earlier_records {
            let same = later_records.get(number).is_none_or(|later| later == record);
            assert!(same, "record {number} was changed");
        }
    }
}

#[when("another worker takes over the job of the plan")]
fn taken_over(world: &mut Features) {
    let ours = world.errors.ours();
    let lease = Duration::from_secs(30);
    ours.clock.advance(lease);
    let request = ClaimRequest {
        worker: WorkerId::from_u128(2),
        boot: BootId::from_u128(1),
        lease,
        concurrency_max: 1,
        only: None,
        variables: Default::default(),
    };
    let job = apart("taking over", move || block_on(ours.store.claim(&request)));
    let job = job.expect("the store answers").expect("the lease is dead");
    assert_eq!(job.worker, Some(WorkerId::from_u128(2)));
}

#[then(expr = "thread {word} is answered that its lease is lost")]
fn lease_is_lost(world: &mut Features, thread: String) {
    let Claim { job, fence, .. } = world.errors.ours().claim;
    let lost = StoreError::LeaseLost(LeaseLost { job, fence });
    assert_eq!(world.threads.answer::<Answer>(&thread), Err(lost));
}
