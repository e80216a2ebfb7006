//! Many plans that ask models at once, and the limit that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use domain::{
    Automation, CallState, ErrorCategory, EventKind, EventRecord, GateDecision, Limits, ModelTask, NodeKind,
    PARALLEL, PlanSpec, PlanState, PlanStep, ProjectLink, RecoveryAction, RecoveryPolicy, SpendKind,
    WorkState,
};
use engine::{
    Engine, EngineOptions, ExecuteOptions, ModelsSetup, NewPlanRequest, PlanDetails, Price, Protocol,
    ProviderSettings, wall_now,
};
use sandbox::ChildProgram;
use serde_json::json;
use sync::BreakerConfig;
use tokio::task::JoinSet;

use testkit::scripted_server::{Asked, Script, Scripted};

/// How many of the plans the limit lets through at once.
const FIT: usize = 7;
const PLANS: usize = 20;

fn said() -> Script {
    let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\n\
                  data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
    Script::events(&[events.as_bytes()])
}

async fn engine(dir: &Path, url: &str, day_cost: Option<u64>) -> Engine {
    engine_with(dir, url, |setup| setup.day_cost = day_cost).await
}

async fn engine_with(dir: &Path, url: &str, change: impl FnOnce(&mut ModelsSetup)) -> Engine {
    let provider = ProviderSettings {
        speaks: Some(Protocol::Openai),
        base_url: Some(url.to_owned()),
        answer_tokens: Some(256),
        ..ProviderSettings::default()
    };
    let price = Price { input: 1_000_000, output: 1_000_000, cache_read: None, cache_write: None };
    let mut models = ModelsSetup {
        providers: Arc::new(BTreeMap::from([("scripted".to_owned(), provider)])),
        prices: Arc::new(BTreeMap::from([("scripted/m".to_owned(), price)])),
        ..ModelsSetup::default()
    };
    change(&mut models);
    let options = EngineOptions {
        data_dir: dir.join("data"),
        sandbox_dir: dir.join("sandboxes"),
        child: ChildProgram::default(),
        plan_concurrency: 64,
        lease: Duration::from_secs(300),
        capture_wait: Duration::from_secs(60),
        copy_max: (u64::MAX, u64::MAX),
        recheck: Default::default(),
        recovery: RecoveryPolicy::default(),
        retention: Duration::from_secs(3600),
        models,
        contexts: engine::context::ContextsSetup::default(),
    };
    Engine::open(options).await.unwrap()
}

fn request(project: &Path) -> NewPlanRequest {
    let task = ModelTask {
        model: "scripted/m".to_owned(),
        system: String::new(),
        prompt: "Go.".to_owned(),
        tools: Vec::new(),
        // What a model is shown of its project is tested elsewhere.
        context_tokens: Some(0),
        max_turns: 3,
        nudge: false,
        output: None,
    };
    let spec = PlanSpec {
        steps: vec![PlanStep::new("ask", NodeKind::Model(task))],
        validations: Vec::new(),
        apply: GateDecision::Ask,
        automation: Automation::review(),
        ignore: Vec::new(),
        protected: Vec::new(),
        deny_tools: Vec::new(),
        max_file_bytes: 1 << 20,
        sandbox: "auto".to_owned(),
        isolation_required: false,
        walls: domain::IsolationOptions::default(),
        home: domain::ByteText::default(),
        hide: Vec::new(),
        show: None,
        allow_loopback: Vec::new(),
        scratch: Vec::new(),
        toolchain_env: Vec::new(),
        time_limit_s: 3600,
        limits: Limits::default(),
        parallel: PARALLEL,
        action: None,
        prompt: String::new(),
        args: BTreeMap::new(),
        definition_of_done: Vec::new(),
        invariants: Vec::new(),
        fix: None,
        fix_attempts: 3,
        result: None,
        read_only: false,
        strategist: None,
        sources: Vec::new(),
        keys: std::collections::BTreeSet::new(),
        batch: None,
        follows: None,
        instructions: Vec::new(),
    };
    let root = project.to_str().unwrap().into();
    let project = ProjectLink { alias: "project".to_owned(), root, read_only: false };
    NewPlanRequest { title: "ask".to_owned(), spec, projects: vec![project] }
}

async fn run(engine: Engine, project: &Path) -> PlanDetails {
    run_as(engine, request(project)).await
}

async fn run_as(engine: Engine, request: NewPlanRequest) -> PlanDetails {
    let plan = engine.use_plan(request).await.unwrap();
    engine.execute(plan.id, ExecuteOptions { again: false, stop_before_apply: true }).await.unwrap()
}

/// A directory that goes with the test, by its true name, and a project in it.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let project = base.join("project");
    std::fs::create_dir(&project).unwrap();
    (dir, base, project)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_that_trips_and_recovers_is_told() {
    let (_dir, base, project) = place();
    let broken = Script::status("500 Internal Server Error", &[], "oops");
    let server = Scripted::start(vec![broken, said()]);
    let url = format!("{}/v1", server.url);
    let breakers =
        BreakerConfig { threshold: 1, cool_down: Duration::from_millis(10), ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| setup.breakers = breakers).await;
    assert_eq!(engine.breaker_changes(), []);
    let facts = run(engine.clone(), &project).await;
    assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Complete), "{facts:?}");
    let told = std::fs::read_to_string(base.join("data/breakers.jsonl")).unwrap();
    let rests: Vec<bool> = told.lines().map(|line| line.contains("\"rest_ms\":10")).collect();
    assert_eq!(rests, [true, false], "{told}");
    let last = engine.breaker_changes();
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].provider.as_str(), last[0].rest_ms), ("scripted", None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rest_that_is_too_long_to_wait_for_is_asked_about_with_its_cause() {
    let (_dir, base, project) = place();
    let server = Scripted::start(vec![Script::status("500 Internal Server Error", &[], "oops")]);
    let url = format!("{}/v1", server.url);
    let long = domain::WAIT_MAX * 2;
    let breakers =
        BreakerConfig { threshold: 1, cool_down: long, cool_down_max: long, ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| setup.breakers = breakers).await;
    let facts = run(engine, &project).await;
    assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Errored), "{facts:?}");
    let last = facts.errors.last_failure().unwrap();
    assert_eq!(
        (last.error.category(), last.recovery.action),
        (ErrorCategory::Overloaded, RecoveryAction::Ask)
    );
    assert!(last.error.message().contains("its last error: 500 from scripted"), "{last:?}");
    assert_eq!(facts.ledger.account(SpendKind::Tokens).reserved, 0);
    server.asked();
    server.was_not_asked_again();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_is_turned_away_by_a_breaker_has_asked_nothing_and_leaves_no_trace() {
    const MANY: usize = 12;
    let (_dir, base, project) = place();
    let barrier = Arc::new(Barrier::new(2));
    let tried = Arc::clone(&barrier);
    let server = Scripted::answering(move |number, _| match number {
        0 => Script::status("500 Internal Server Error", &[], "oops"),
        1 => said().together(&tried),
        _ => said(),
    });
    let url = format!("{}/v1", server.url);
    let rest = Duration::from_secs(1);
    let breakers =
        BreakerConfig { threshold: 1, cool_down: rest, cool_down_max: rest, ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| setup.breakers = breakers).await;
    let mut first = request(&project);
    first.spec.steps[0].retries = Some(0);
    run_as(engine.clone(), first).await;
    // All wait for the end of the same rest.
    let mut request = request(&project);
    let step = request.spec.steps.remove(0);
    request.spec.steps = (0..MANY)
        .map(|at| PlanStep { node: format!("ask-{at}"), needs: Some(Vec::new()), ..step.clone() })
        .collect();
    request.spec.parallel = 12;
    let plan = engine.use_plan(request).await.unwrap().id;
    let runs = engine.clone();
    let run = tokio::spawn(async move {
        runs.execute(plan, ExecuteOptions { again: false, stop_before_apply: true }).await.unwrap()
    });
    // One tries whether it answers again, and is answered when all others have been turned away by that.
    let turned_away = |events: Vec<EventRecord>| -> BTreeSet<String> {
        let by_a_try =
            |event: &EventRecord| event.data["why"].to_string().contains("another call is checking");
        let paths = events.into_iter().filter(by_a_try).map(|event| event.data["path"].to_string());
        paths.collect()
    };
    while turned_away(engine.store().events_of(plan, EventKind::NodeWaiting).await.unwrap()).len() < MANY - 1
    {
        tokio::task::yield_now().await;
    }
    tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
    let facts = run.await.unwrap();
    assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Complete), "{:?}", facts.errors);
    let ended: Vec<_> = facts.calls.iter().map(|call| (call.state(), call.end.clone())).collect();
    assert!(ended.iter().all(|(state, _)| *state == CallState::Ok), "{ended:?}");
    assert_eq!(ended.len(), MANY);
    let spends = engine.store().spends(facts.plan.id).await.unwrap();
    assert_eq!(spends.len(), 2 * MANY, "tokens and money of each, once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tries_a_provider_and_may_not_pay_for_it_leaves_the_try_to_the_next() {
    let (_dir, base, project) = place();
    let server = Scripted::start(vec![Script::status("500 Internal Server Error", &[], "oops"), said()]);
    let url = format!("{}/v1", server.url);
    let breakers =
        BreakerConfig { threshold: 1, cool_down: Duration::from_millis(10), ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| setup.breakers = breakers).await;
    let mut first = request(&project);
    first.spec.steps[0].retries = Some(0);
    run_as(engine.clone(), first).await;
    let mut poor = request(&project);
    poor.spec.limits.tokens = Some(1);
    let poor = run_as(engine.clone(), poor).await;
    assert_eq!(poor.errors.last_failure().unwrap().error.category(), ErrorCategory::Budget);
    let last = run(engine, &project).await;
    assert_eq!(last.plan.state, PlanState::Execute(WorkState::Complete), "{last:?}");
    assert_eq!(last.waits, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_ended_when_the_time_of_its_node_is_up_also_while_it_waits_for_its_provider() {
    let (_dir, base, project) = place();
    let server = Scripted::start(vec![Script::status("500 Internal Server Error", &[], "oops"), said()]);
    let url = format!("{}/v1", server.url);
    let breakers =
        BreakerConfig { threshold: 1, cool_down: Duration::from_secs(3), ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| setup.breakers = breakers).await;
    let mut request = request(&project);
    (request.spec.steps[0].timeout_s, request.spec.steps[0].retries) = (Some(1), Some(1));
    let facts = run_as(engine, request).await;
    assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Errored), "{facts:?}");
    let last = facts.errors.last_failure().unwrap();
    assert_eq!((last.error.category(), last.recovery.action), (ErrorCategory::Timeout, RecoveryAction::Ask));
    let message = "node ask: scripted/m took longer than its time limit of 1 s and was stopped";
    assert_eq!(last.error.message(), message);
    assert_eq!(facts.ledger.account(SpendKind::Tokens).reserved, 0);
    server.asked();
    server.was_not_asked_again();
}

/// A server that fails when it is first asked by a plan of an odd number, and the first two times of all: of
/// five calls it fails one. The model behind it writes a file, and then it is done.
fn unsteady(number: usize, asked: &Asked, failed: &Mutex<BTreeSet<u64>>) -> Script {
    let prompt = asked.body["messages"][0]["content"].as_str().unwrap();
    let plan: u64 = prompt.trim_start_matches("Go ").parse().unwrap();
    if number < 2 || (plan % 2 == 1 && failed.lock().unwrap().insert(plan)) {
        return Script::status("500 Internal Server Error", &[], "oops");
    }
    let messages = asked.body["messages"].as_array().unwrap();
    if messages.iter().any(|message| message["role"] == "tool") {
        return said();
    }
    let call = json!({"index": 0, "id": "c", "type": "function",
        "function": {"name": "write_file", "arguments": "{\"path\": \"made\", \"content\": \"by a model\"}"}});
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    let events = format!("data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    Script::events(&[events.as_bytes()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_plans_at_once_end_right_though_a_fifth_of_all_calls_fail() {
    const MANY: usize = 50;
    let (_dir, base, project) = place();
    let failed = Mutex::default();
    let server = Scripted::answering(move |number, asked| unsteady(number, asked, &failed));
    let url = format!("{}/v1", server.url);
    let short = Duration::from_millis(10);
    let breakers =
        BreakerConfig { threshold: 2, cool_down: short, cool_down_max: short, ..BreakerConfig::default() };
    let engine = engine_with(&base, &url, |setup| {
        setup.breakers = breakers;
        setup.day_cost = Some(u64::MAX / 2);
    })
    .await;
    let numbered = |number: usize| {
        let mut request = request(&project);
        let step = request.spec.steps.first_mut().unwrap();
        step.retries = Some(20);
        let NodeKind::Model(task) = &mut step.does else { panic!() };
        (task.tools, task.prompt) = (vec!["write".to_owned()], format!("Go {number}"));
        request.spec.limits.tokens = Some(20_000);
        request
    };
    // Alone it meets two failures in a row for certain, so the breaker trips.
    let first = run_as(engine.clone(), numbered(0)).await;
    let mut spent = first.ledger.account(SpendKind::Cost).used;
    let mut runs = JoinSet::new();
    for number in 1..=MANY {
        runs.spawn(run_as(engine.clone(), numbered(number)));
    }
    while let Some(facts) = runs.join_next().await {
        let facts = facts.unwrap();
        assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Complete), "{:?}", facts.errors);
        assert_eq!(facts.net.len(), 1);
        let spends = engine.store().spends(facts.plan.id).await.unwrap();
        for kind in [SpendKind::Tokens, SpendKind::Cost] {
            let account = facts.ledger.account(kind);
            let of_kind = spends.iter().filter(|spend| spend.kind == kind);
            let sum: u64 = of_kind.map(|spend| spend.actual.unwrap()).sum();
            assert_eq!((account.used, account.reserved), (sum, 0), "{kind}");
            assert!(account.max.is_some_and(|max| account.used <= max), "{kind}: {account:?}");
        }
        spent += facts.ledger.account(SpendKind::Cost).used;
    }
    assert_eq!(day(&engine).await, (spent, 0));
    let told = std::fs::read_to_string(base.join("data/breakers.jsonl")).unwrap();
    assert!(told.contains("\"rest_ms\":10"), "it tripped: {told}");
    assert_eq!(engine.breaker_changes()[0].rest_ms, None, "and recovered: {told}");
}

/// What all plans have spent today, and what they are about to.
async fn day(engine: &Engine) -> (u64, u64) {
    let ledger = engine.store().day_ledger(domain::Day::from_wall(wall_now())).await.unwrap();
    let account = ledger.get(&SpendKind::Cost).copied().unwrap_or_default();
    (account.used, account.reserved)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_plans_at_once_never_overrun_the_limit_that_they_share() {
    let (_dir, base, project) = place();
    let barrier = Arc::new(Barrier::new(FIT + 1));
    let together = (0..FIT).map(|_| said().together(&barrier));
    let server = Scripted::start(std::iter::once(said()).chain(together).collect());
    let url = format!("{}/v1", server.url);

    let alone = engine(&base, &url, Some(u64::MAX / 2)).await;
    let first = run(alone.clone(), &project).await;
    assert_eq!(first.plan.state, PlanState::Execute(WorkState::Complete), "{first:?}");
    let spends = alone.store().spends(first.plan.id).await.unwrap();
    let cost = spends.iter().find(|spend| spend.kind == SpendKind::Cost).unwrap();
    assert_eq!((cost.actual, cost.model.as_deref()), (Some(7), Some("scripted/m")));
    assert_eq!(day(&alone).await, (7, 0));
    let most = cost.reserved;
    drop(alone);

    // Room for seven that are under way, and for half of one more.
    let limit = 7 + FIT as u64 * most + most / 2;
    let engine = engine(&base, &url, Some(limit)).await;
    let mut runs = JoinSet::new();
    for _ in 0..PLANS {
        let (engine, project) = (engine.clone(), project.clone());
        runs.spawn(async move { run(engine, &project).await });
    }
    // The seven that fit are answered only when all others have been refused: nobody settles before everybody has asked.
    for _ in FIT..PLANS {
        let facts = runs.join_next().await.unwrap().unwrap();
        assert_eq!(facts.plan.state, PlanState::Execute(WorkState::Errored), "{facts:?}");
        let categories: Vec<_> = facts.errors.records().map(|record| record.error.category()).collect();
        assert_eq!(categories, [ErrorCategory::Budget], "nobody else was asked");
        assert_eq!(facts.ledger.account(SpendKind::Tokens).taken(), 0, "both or none");
    }
    let (used, reserved) = day(&engine).await;
    assert_eq!((used, reserved), (7, FIT as u64 * most));
    tokio::task::spawn_blocking(move || barrier.wait()).await.unwrap();
    while let Some(facts) = runs.join_next().await {
        assert_eq!(facts.unwrap().plan.state, PlanState::Execute(WorkState::Complete));
    }
    assert_eq!(day(&engine).await, (7 + 7 * FIT as u64, 0));
}
