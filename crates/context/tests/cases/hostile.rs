//! Strategies that lie, fail or hang, cancels at every stage, files that move: the others' result stands.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};

use context::stages::{ContextItem, FragmentScorer, WeightedCompositeScorer};
use context::strategies::{Confidence, ContextStrategy, built_in};
use context::{Error, Pipeline, RequestInputs, SearchStrategy, StopCheck, StrategyError, TokenCounter};
use domain::Hash;
use domain::context::{
    AssembledContext, Candidate, ExclusionReason, FileLocation, INCLUDED_LINES_MAX, Name, Receipt,
    StrategyOutcome,
};
use sync::{BreakerConfig, CancelReason, CancellationToken};

use crate::ground::{FIRST, Files, Ground, files, path, request};
use crate::requests::adds_up;

const QUERY: &str = "rescued jobs ignore their retry limit";

type Find = dyn Fn(&RequestInputs, usize, &StopCheck) -> Result<Vec<Candidate>, StrategyError> + Send + Sync;

/// A strategy that does what a test says.
struct Fake {
    name: Name,
    confidence: Confidence,
    find: Box<Find>,
}

impl SearchStrategy for Fake {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(
        &self,
        prepared: &RequestInputs,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Candidate>, StrategyError> {
        (self.find)(prepared, limit, stop)
    }
}

impl ContextStrategy for Fake {
    fn confidence(&self, _: &RequestInputs) -> Confidence {
        self.confidence.clone()
    }

    fn weight(&self) -> f32 {
        1.0
    }
}

fn fake(find: Box<Find>) -> Arc<dyn ContextStrategy> {
    Arc::new(Fake { name: "fake".parse().expect("a name"), confidence: Confidence::Of(1.0), find })
}

fn with(mut ground: Ground, strategy: Arc<dyn ContextStrategy>) -> Ground {
    ground.parts.config.strategies.push(strategy.name().clone());
    ground.parts.strategies.push(strategy);
    ground
}

fn line<'a>(receipt: &'a Receipt, name: &str) -> &'a domain::context::StrategyLine {
    receipt.strategies.iter().find(|line| line.name.as_str() == name).expect("a line")
}

fn places(context: &AssembledContext) -> Vec<FileLocation> {
    context.receipt.included.iter().map(|line| line.place.clone()).collect()
}

#[test]
fn what_a_strategy_does_wrong_stays_with_it_and_is_counted() {
    let candidate =
        |name: &str, score: f32| Candidate { place: FileLocation::file(FIRST, path(name)), score };
    // As many tokens as nothing is cut for, since the share of a further strategy is part of the budget.
    let usual = Ground::sample().assemble(&request(QUERY, 20_000));
    let table: [(Box<Find>, &str, u32, u32); 5] = [
        (Box::new(|_, _, _| panic!("out of mind")), "panicked: out of mind", 0, 0),
        (Box::new(|_, _, _| Err(StrategyError::failed("no disk"))), "failed: no disk", 0, 0),
        (Box::new(|_, _, _| Ok(Vec::new())), "empty", 0, 0),
        (
            Box::new(move |_, _, _| {
                let odd = [f32::NAN, f32::INFINITY, 0.0, -1.0].map(|score| candidate("src/lib.rs", score));
                Ok(odd.to_vec())
            }),
            "ok",
            0,
            4,
        ),
        (Box::new(move |_, _, _| Ok(vec![candidate("etc/passwd", 1.0)])), "ok", 0, 1),
    ];
    for (find, outcome, proposed, cut) in table {
        let context = with(Ground::sample(), fake(find)).assemble(&request(QUERY, 20_000));
        let line = line(&context.receipt, "fake");
        assert_eq!((line.outcome.to_string().as_str(), line.proposed, line.cut), (outcome, proposed, cut));
        assert_eq!(places(&context), places(&usual), "{outcome}");
    }
}

#[test]
fn many_pipelines_at_once_open_the_breaker_of_a_failing_strategy_and_it_recovers() {
    const PIPELINES: usize = 16;
    let (is_well, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (well, count) = (Arc::clone(&is_well), Arc::clone(&asked));
    let find: Box<Find> = Box::new(move |_, _, _| {
        count.fetch_add(1, Ordering::SeqCst);
        match well.load(Ordering::SeqCst) {
            true => Ok(Vec::new()),
            false => Err(StrategyError::failed("down")),
        }
    });
    let usual = places(&Ground::sample().assemble(&request(QUERY, 20_000)));
    let ground = with(Ground::sample(), fake(find));
    // All whole pipelines of a round begin together, and share the executor with its breakers.
    let round = || -> Vec<StrategyOutcome> {
        let barrier = Barrier::new(PIPELINES);
        let one = || {
            barrier.wait();
            let context =
                ground.pipeline().assemble(&request(QUERY, 20_000), &ground.stop()).expect("a context");
            assert_eq!(places(&context), usual, "the others' result stands");
            line(&context.receipt, "fake").outcome.clone()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..PIPELINES).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no pipeline panics")).collect()
        })
    };
    let is_open = |outcome: &StrategyOutcome| matches!(outcome, StrategyOutcome::Open { .. });
    let first = round();
    let failed =
        first.iter().filter(|outcome| **outcome == StrategyOutcome::Failed("down".to_owned())).count();
    assert_eq!(failed + first.iter().filter(|outcome| is_open(outcome)).count(), PIPELINES, "{first:?}");
    let config = BreakerConfig::default();
    assert!(failed >= config.threshold as usize, "{first:?}");
    let before = asked.load(Ordering::SeqCst);
    let second = round();
    assert!(second.iter().all(is_open), "{second:?}");
    assert_eq!(asked.load(Ordering::SeqCst), before, "nobody asks one that is open");

    is_well.store(true, Ordering::SeqCst);
    ground.clock.advance(config.cool_down_max);
    let probed = round();
    assert!(probed.contains(&StrategyOutcome::Empty), "one of them tries it: {probed:?}");
    assert!(
        probed.iter().all(|outcome| is_open(outcome) || *outcome == StrategyOutcome::Empty),
        "{probed:?}"
    );
    let recovered = round();
    assert_eq!(recovered, vec![StrategyOutcome::Empty; PIPELINES]);
}

#[test]
fn a_million_candidates_are_cut_to_the_share() {
    let many: Box<Find> = Box::new(|_, _, _| {
        let one = Candidate { place: FileLocation::file(FIRST, path("src/lib.rs")), score: 1.0 };
        Ok(vec![one; 1_000_000])
    });
    let context = with(Ground::sample(), fake(many)).assemble(&request(QUERY, 1000));
    let line = line(&context.receipt, "fake");
    assert_eq!(line.proposed + line.cut, 1_000_000);
    assert!(line.proposed <= 400);
}

#[test]
fn a_place_outside_and_one_that_the_view_hides_are_told_apart() {
    let find: Box<Find> = Box::new(|_, _, _| {
        let of = |name: &str| Candidate { place: FileLocation::file(FIRST, path(name)), score: 1.0 };
        Ok(vec![of("etc/passwd"), of("tools/report.py")])
    });
    let mut ground = with(Ground::sample(), fake(find));
    ground.parts.config.views.default.exclude = vec!["tools".to_owned()];
    let receipt = ground.assemble(&request(QUERY, 1000)).receipt;
    assert_eq!(
        (receipt.excluded_by[&ExclusionReason::Outside], receipt.excluded_by[&ExclusionReason::Policy]),
        (1, 1)
    );
}

#[test]
fn when_all_fail_the_text_is_empty_and_each_is_named() {
    let mut ground = Ground::sample();
    ground.parts.strategies.clear();
    ground.parts.config.strategies.clear();
    for name in ["one", "two"] {
        let find: Box<Find> = Box::new(|_, _, _| Err(StrategyError::failed("down")));
        let fake = Fake { name: name.parse().expect("a name"), confidence: Confidence::Of(1.0), find };
        ground = with(ground, Arc::new(fake));
    }
    let context = ground.assemble(&request(QUERY, 1000));
    assert_eq!(context.text, "");
    let outcomes: Vec<(String, String)> = context
        .receipt
        .strategies
        .iter()
        .map(|line| (line.name.to_string(), line.outcome.to_string()))
        .collect();
    let down = |name: &str| (name.to_owned(), "failed: down".to_owned());
    assert_eq!(outcomes, [down("one"), down("two")]);
}

#[test]
fn a_confidence_that_is_no_number_or_too_large_is_brought_within() {
    for (confidence, shown) in
        [(f32::NAN, None), (-1.0, None), (0.0, None), (7.0, Some(1.0)), (f32::INFINITY, Some(1.0))]
    {
        let find: Box<Find> = Box::new(|_, _, _| Ok(Vec::new()));
        let fake =
            Fake { name: "fake".parse().expect("a name"), confidence: Confidence::Of(confidence), find };
        let receipt = with(Ground::sample(), Arc::new(fake)).assemble(&request(QUERY, 1000)).receipt;
        let line = line(&receipt, "fake");
        match shown {
            Some(shown) => assert_eq!((line.confidence, &line.outcome), (shown, &StrategyOutcome::Empty)),
            None => {
                assert!(matches!(line.outcome, StrategyOutcome::Unavailable(_)), "{confidence}: {line:?}")
            }
        }
    }
}

/// Answers when its turn has come.
struct InTurn {
    inner: Arc<dyn ContextStrategy>,
    turn: Arc<(Mutex<usize>, Condvar)>,
    at: usize,
}

impl SearchStrategy for InTurn {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        self.inner.name()
    }

    fn find(
        &self,
        prepared: &RequestInputs,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Candidate>, StrategyError> {
        let found = self.inner.find(prepared, limit, stop);
        let (turn, moved) = &*self.turn;
        let mut now = moved
            .wait_while(turn.lock().expect("no strategy panics"), |now| *now != self.at)
            .expect("no strategy panics");
        *now += 1;
        moved.notify_all();
        found
    }
}

impl ContextStrategy for InTurn {
    fn confidence(&self, prepared: &RequestInputs) -> Confidence {
        self.inner.confidence(prepared)
    }

    fn weight(&self) -> f32 {
        self.inner.weight()
    }
}

fn orders(of: Vec<usize>) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..of.len() {
        let mut rest = of.clone();
        let first = rest.remove(at);
        all.extend(orders(rest).into_iter().map(|order| [&[first][..], &order].concat()));
    }
    all
}

#[test]
fn whichever_strategy_ends_first_the_text_and_the_receipt_are_the_same() {
    let touched = vec![FileLocation::file(FIRST, path("tools/report.py"))];
    let plan = domain::context::PlanFacts {
        plan: domain::PlanId::from_u128(1),
        decisions: Vec::new(),
        touched,
        findings: Vec::new(),
    };
    let asked = domain::context::ContextRequest { plan: Some(plan), ..request(QUERY, 600) };
    let usual = Ground::sample().assemble(&asked);
    let orders = orders(vec![0, 1, 2, 3]);
    assert_eq!(orders.len(), 24);
    for order in orders {
        let turn = Arc::new((Mutex::new(0), Condvar::new()));
        let mut ground = Ground::sample();
        ground.parts.strategies = built_in()
            .into_iter()
            .enumerate()
            .map(|(number, inner)| match order.get(number) {
                Some(at) => {
                    Arc::new(InTurn { inner, turn: Arc::clone(&turn), at: *at }) as Arc<dyn ContextStrategy>
                }
                None => inner,
            })
            .collect();
        let context = ground.assemble(&asked);
        assert_eq!(*turn.0.lock().expect("no strategy panics"), 4, "all four ran");
        assert_eq!(context, usual, "{order:?}");
    }
}

#[test]
fn one_that_hangs_is_left_behind_at_the_deadline() {
    let hung = Arc::new((Mutex::new(false), Condvar::new()));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let find: Box<Find> = {
        let hung = Arc::clone(&hung);
        Box::new(move |_, _, _| {
            begun.send(()).expect("the test listens");
            let (is_over, moved) = &*hung;
            let over = is_over.lock().expect("no one panics");
            drop(moved.wait_while(over, |over| !*over).expect("no one panics"));
            Ok(Vec::new())
        })
    };
    let ground = with(Ground::sample(), fake(find));
    let usual = Ground::sample().assemble(&request(QUERY, 20_000));
    let context = std::thread::scope(|scope| {
        let assembling = scope.spawn(|| ground.assemble(&request(QUERY, 20_000)));
        has_begun.recv().expect("it begins");
        // Time passes only when the others have ended, or it could pass for them too.
        let others_run = || {
            let pool = ground.spy.executor.pool();
            pool.running > 1 || pool.queued > 0
        };
        while others_run() {
            std::thread::yield_now();
        }
        while !assembling.is_finished() {
            if !ground.clock.advance_to_next_sleeper() {
                std::thread::yield_now();
            }
        }
        assembling.join().expect("a context")
    });
    *hung.0.lock().expect("no one panics") = true;
    hung.1.notify_all();
    assert_eq!(line(&context.receipt, "fake").outcome, StrategyOutcome::TimedOut);
    assert_eq!(places(&context), places(&usual));
}

/// Cancels when it is asked, and does what the default does.
struct CancelsThen(CancellationToken);

impl FragmentScorer for CancelsThen {
    fn score(&self, prepared: &RequestInputs, items: &mut [ContextItem]) {
        self.0.cancel(CancelReason::User);
        WeightedCompositeScorer.score(prepared, items);
    }
}

#[test]
fn a_cancel_at_any_stage_gives_no_partial_context() {
    let cancelled = Err(Error::Cancelled(CancelReason::User));
    let ground = Ground::sample();
    let before = CancellationToken::new();
    before.cancel(CancelReason::User);
    let stop =
        |token: &CancellationToken| StopCheck::new(token.observe(), None, Arc::new(ground.clock.clone()));
    assert_eq!(ground.pipeline().assemble(&request(QUERY, 500), &stop(&before)), cancelled);

    let within = CancellationToken::new();
    let token = within.clone();
    let find: Box<Find> = Box::new(move |_, _, _| {
        token.cancel(CancelReason::User);
        Ok(Vec::new())
    });
    let ground_within = with(Ground::sample(), fake(find));
    let assembled = ground_within.pipeline().assemble(&request(QUERY, 500), &stop(&within));
    assert_eq!(assembled, cancelled);

    let late = CancellationToken::new();
    let mut ground_late = Ground::sample();
    ground_late.parts.stages.score = Arc::new(CancelsThen(late.clone()));
    let pipeline = Pipeline::new(ground_late.parts).expect("a pipeline");
    assert_eq!(pipeline.assemble(&request(QUERY, 500), &stop(&late)), cancelled);
}

#[test]
fn a_deadline_that_has_passed_gives_less_and_no_error() {
    let ground = Ground::sample();
    let late =
        domain::context::ContextRequest { deadline: Some(std::time::Duration::ZERO), ..request(QUERY, 500) };
    let context = ground.assemble(&late);
    assert_eq!(context.text, "");
    assert_eq!(context.receipt.strategies[0].outcome, StrategyOutcome::NotStarted);
    assert!(!ground.assemble(&request(QUERY, 500)).text.is_empty(), "the next request is whole");
}

#[test]
fn the_bytes_shown_are_those_whose_hash_is_in_the_receipt() {
    let ground = Ground::sample();
    let (moved, gone) = (path("src/rescue.rs"), path("src/retry.rs"));
    let new_text = "//! Rescues.\n\n/// Rescues a job within its retry limit.\npub fn rescue_within() {}\n";
    {
        let mut files = ground.memory[0].0.lock().expect("unlocked");
        files.insert(moved.clone(), new_text.as_bytes().to_vec());
        files.remove(&gone);
    }
    let context = ground.assemble(&request(QUERY, 2000));
    let line = context.receipt.included.iter().find(|line| line.place.path == moved).expect("it is in");
    assert_eq!(line.hash, Some(Hash::from_content(new_text.as_bytes())));
    assert!(context.text.contains("pub fn rescue_within() {}\n"), "{}", context.text);
    let left = context.receipt.excluded.iter().find(|line| line.place.path == gone);
    assert_eq!(left.map(|line| line.reason), Some(ExclusionReason::Changed));
}

/// Finds more than the lines add up to.
struct Foreign;

impl TokenCounter for Foreign {
    fn hundredths(&self, text: &str) -> u64 {
        let lines = text.matches('\n').count() as u64;
        text.len() as u64 * 25 + lines * lines * 40
    }

    fn name(&self) -> &str {
        "foreign"
    }
}

#[test]
fn a_counter_that_does_not_add_up_is_obeyed_all_the_same() {
    let mut ground = Ground::sample();
    ground.parts.counter = Arc::new(Foreign);
    for tokens in [0, 1, 30, 100, 300, 600, 1200] {
        let context = ground.assemble(&request(QUERY, tokens));
        assert!(tokens < 100 || !context.text.is_empty(), "{tokens}");
    }
}

#[test]
fn eight_readers_of_one_pipeline_each_see_one_snapshot() {
    let ground = Ground::sample();
    let usual = ground.assemble(&request(QUERY, 700));
    let pipeline = ground.pipeline();
    let assembled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let context = pipeline.assemble(&request(QUERY, 700), &ground.stop()).expect("a context");
                    assert_eq!(context.text, usual.text);
                    assembled.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(assembled.into_inner(), 64);
}

#[test]
fn a_redirected_read_shows_nothing_else() {
    // A source that gives more than was asked for is cut off, not believed.
    let large = "x".repeat(3000);
    let ground = Ground::files(&files(&[
        ("src/retry.rs", "fn retry() {}\n"),
        ("src/other.rs", "fn retry_other() {}\n"),
    ]));
    ground.memory[0].0.lock().expect("unlocked").insert(path("src/retry.rs"), large.into_bytes());
    let mut ground = ground;
    ground.parts.config.views.default.max_file_kb = Some(2);
    let context = ground.assemble(&request("retry", 2000));
    assert!(!context.text.contains("xxx"), "{}", context.text);
    assert_eq!(context.receipt.excluded_by.get(&ExclusionReason::TooLarge), Some(&1));
}

#[test]
fn a_receipt_of_more_files_than_it_has_lines_adds_up() {
    let named = |number: usize| path(&format!("src/retry_{number}.rs"));
    let all: Files = (0..INCLUDED_LINES_MAX + 40)
        .map(|number| (named(number), format!("pub fn retry_job_{number}() {{}}\n").into_bytes()))
        .collect();
    let mut ground = Ground::files(&all);
    // One strategy may not propose so many.
    for (name, first) in [("one", 0), ("two", 1)] {
        let places: Vec<_> = (0..all.len()).filter(|number| number % 2 == first).map(named).collect();
        let find = move |_: &RequestInputs, limit: usize, _: &StopCheck| {
            let found = places
                .iter()
                .take(limit)
                .map(|path| Candidate { place: FileLocation::file(FIRST, path.clone()), score: 1.0 });
            Ok(found.collect())
        };
        let name = name.parse().expect("a name");
        ground = with(ground, Arc::new(Fake { name, confidence: Confidence::Of(1.0), find: Box::new(find) }));
    }
    let request = request("retry job", 1_000_000);
    let context = ground.assemble(&request);
    adds_up(&ground, &request, &context.receipt, context.tokens);
    assert_eq!(context.receipt.included_more.files, 40, "{:?}", context.receipt.excluded_by);
    assert!(context.receipt.included_more.tokens > 0);
}
