//! A tool that breaks down in the middle of its work, in a real sandbox and a real store: behind the gate it
//! has failed.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use actors::model::ToolSource;
use actors::tool::{Catalog, ForeignTool, ReadPolicy, ToolAnswer, ToolRunner, ToolSpec, ToolUse};
use domain::{
    ByteText, CallState, NewCall, PlanId, PlanSpec, PlanState, ProjectLink, RootIndex, Values, WorkState,
};
use rustix::fs::{Mode, OFlags, openat};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use store::CallAuthority;
use sync::CancellationToken;
use tempfile::TempDir;

use super::call::admit::CallAccess;
use super::call::mcp_server::NodeServers;
use super::call::tool::{NodeTools, ToolGateway};
use super::context::NodeContext;
use super::node::ActiveNode;
use super::*;
use crate::engine::{Engine, EngineOptions};
use crate::plan::create::NewPlanRequest;
use worker::EndedCall;
use worker::TokioRuntime;
use worker::{AsyncWorker, Ports, StopMode, WorkerConfig};

/// Writes a file, and then it is lost.
struct PanickingTool(OwnedFd);

#[async_trait]
impl ForeignTool for PanickingTool {
    async fn call(&self, _: Value) -> Result<Value, String> {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&self.0, "half", flags, Mode::from_raw_mode(0o644)).unwrap();
        std::fs::File::from(file).write_all(b"half\n").unwrap();
        panic!("a tool of somebody");
    }
}

fn spec() -> ToolSpec {
    let any = json!({ "type": "object" });
    ToolSpec {
        name: "box.breaks".to_owned(),
        description: "breaks down".to_owned(),
        input: any.clone(),
        output: any,
        reads: true,
        writes: true,
        network: false,
        timeout_s: 60,
        source: ToolSource::Mcp,
    }
}

/// Calls the tool as a node would, and then one of ours.
struct ToolCallingRunner {
    inner: PhaseRunner,
    answers: Mutex<Vec<ToolAnswer>>,
}

#[async_trait]
impl JobRunner for ToolCallingRunner {
    async fn run(&self, job: &JobRun) -> Result<(), RunFailure> {
        let engine = &self.inner.engine;
        let plan = &engine.store.plan(job.claim().plan).await.unwrap();
        let state = &self.inner.state_of(job);
        let run = RunContext { engine, job, state, plan };
        plan_sandbox::open(run).await.unwrap();
        let (step, values, scope) = (&plan.spec.steps[0], &Values::default(), job.scope().clone());
        let (started, path) = (engine.wall(), step.node.as_str());
        let context = NodeContext { run, path, scope };
        let node = ActiveNode { context, step, values, guidance_seen: 0, tries: 1, started, began: None };
        let root = state
            .session
            .lock()
            .await
            .as_ref()
            .unwrap()
            .sandbox
            .root(RootIndex(0))
            .unwrap()
            .try_clone_to_owned();
        let mut catalog = Catalog::builtin();
        catalog.add(spec(), Arc::new(PanickingTool(root.unwrap()))).unwrap();
        let servers = NodeServers::default();
        let gate = ToolGateway::new(&node, &servers);
        let mut tools: NodeTools<'_> = ToolRunner::new(gate, catalog, ReadPolicy::Trusting);
        let write = json!({ "path": "after", "content": "whole\n" });
        for (name, arguments) in [("box.breaks", json!({})), ("write_file", write)] {
            let call = ToolUse { id: name.to_owned(), name: name.to_owned(), arguments };
            let answer = tools.call(&call).await.unwrap();
            lock(&self.answers).push(answer);
        }
        state.close_changeset(path).await.unwrap();
        Ok(())
    }

    fn kill(&self, job: &JobRun, reason: CancelReason) {
        self.inner.kill(job, reason);
    }

    async fn wind_down(&self, job: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        self.inner.wind_down(job, finisher, interrupted).await;
    }

    fn over(&self, job: &JobRun) {
        self.inner.over(job);
    }
}

async fn engine(dir: &TempDir) -> Engine {
    let options = EngineOptions {
        data_dir: dir.path().join("data"),
        sandbox_dir: dir.path().join("sandboxes"),
        child: sandbox::ChildProgram::new("/nonexistent"),
        plan_concurrency: 4,
        lease: Duration::from_secs(300),
        capture_wait: Duration::from_secs(60),
        copy_max: (u64::MAX, u64::MAX),
        recheck: Default::default(),
        recovery: domain::RecoveryPolicy::default(),
        retention: Duration::from_secs(60),
        models: crate::models::ModelsSetup::default(),
        contexts: crate::context::ContextsSetup::default(),
    };
    Engine::open(options).await.unwrap()
}

/// Makes a plan, and lets `runner` do its job.
async fn run_plan(dir: &TempDir, runner: impl FnOnce(PhaseRunner) -> Arc<dyn JobRunner>) -> (Engine, PlanId) {
    let project = dir.path().join("shop");
    std::fs::create_dir(&project).unwrap();
    let engine = engine(dir).await;
    // A copy needs no other program to make it.
    let spec: PlanSpec = serde_json::from_value(json!({
        "task": {"run": ["true"]}, "max_file_bytes": 1000, "sandbox": "copy", "isolation_required": false,
        "time_limit_s": 600,
    }))
    .unwrap();
    let root = ByteText(project.as_os_str().as_bytes().to_vec());
    let projects = vec![ProjectLink { alias: "shop".to_owned(), root, read_only: false }];
    let plan = engine.use_plan(NewPlanRequest { title: "t".to_owned(), spec, projects }).await.unwrap();

    let shared = &engine.inner;
    let inner = PhaseRunner::new(Arc::clone(shared), ApplyAs::Asked);
    let mut config = WorkerConfig::new(shared.boot, shared.options.lease);
    config.only = Some(plan.id);
    let ports = Ports {
        store: Arc::clone(&shared.store),
        runner: runner(inner),
        runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
        clock: Arc::clone(&shared.clock),
        ids: Arc::clone(&shared.ids),
        token: CancellationToken::new(),
    };
    let worker = AsyncWorker::new(config, ports).unwrap();
    worker.start().unwrap();
    worker.settled(0).await;
    worker.stop(StopMode::Release).await;
    (engine, plan.id)
}

#[tokio::test]
async fn what_a_tool_wrote_before_it_panicked_is_captured_with_its_call_and_the_next_one_works() {
    let dir = TempDir::new().unwrap();
    let mut calling = None;
    let (engine, plan) = run_plan(&dir, |inner| {
        let runner = Arc::new(ToolCallingRunner { inner, answers: Mutex::default() });
        calling = Some(Arc::clone(&runner));
        runner
    })
    .await;
    let (calling, shared) = (calling.unwrap(), &engine.inner);
    let details = engine.plan_details(plan).await.unwrap();
    assert_eq!(details.plan.state, PlanState::Execute(WorkState::Complete), "{:?}", details.errors);
    let answers = lock(&calling.answers).clone();
    assert!(
        answers[0].is_error && answers[0].text.contains("it panicked: a tool of somebody"),
        "{answers:?}"
    );
    assert_eq!((answers[0].changed, answers[1].is_error, answers[1].changed), (1, false, 1), "{answers:?}");
    let calls = shared.store.calls(plan).await.unwrap();
    let states: Vec<(&str, CallState)> =
        calls.iter().map(|call| (call.new.tool.as_str(), call.state())).collect();
    assert_eq!(states, [("box.breaks", CallState::Failed), ("write_file", CallState::Ok)]);
    let entries: Vec<(String, domain::CallNumber)> = shared
        .entries(&details.plan)
        .await
        .unwrap()
        .iter()
        .map(|entry| (entry.path.to_string(), entry.call))
        .collect();
    assert_eq!(entries, [("half".to_owned(), calls[0].no), ("after".to_owned(), calls[1].no)]);
}

/// Writes a file in a call whose end the store takes, but whose caller never hears of it.
struct LostAnswerRunner {
    inner: PhaseRunner,
    /// True if another turn follows, or the run ends.
    has_next_turn: bool,
}

#[async_trait]
impl JobRunner for LostAnswerRunner {
    async fn run(&self, job: &JobRun) -> Result<(), RunFailure> {
        let engine = &self.inner.engine;
        let plan = &engine.store.plan(job.claim().plan).await.unwrap();
        let state = &self.inner.state_of(job);
        let run = RunContext { engine, job, state, plan };
        plan_sandbox::open(run).await.unwrap();
        let context = NodeContext { run, path: "main", scope: job.scope().clone() };
        let new = NewCall {
            attempt: plan.attempt,
            node: "main".to_owned(),
            tool: "write_file".to_owned(),
            requested: Value::Null,
            effective: Value::Null,
        };
        let mut call = context.begin_call(CallAccess::Record, new).await.unwrap();
        {
            let place = state.session.lock().await;
            let root = place.as_ref().unwrap().sandbox.root(RootIndex(0)).unwrap();
            let flags = OFlags::CREATE | OFlags::WRONLY;
            let file = openat(root, "whole", flags, Mode::from_raw_mode(0o644)).unwrap();
            std::fs::File::from(file).write_all(b"whole\n").unwrap();
        }
        call.capture(&context).await.unwrap();
        {
            let place = state.session.lock().await;
            let session = place.as_ref().unwrap();
            let end = engine.ended(call.call().started, (CallState::Ok, None, Value::Null));
            let ended = EndedCall::new(call.call(), end).with_contents(session.staging.contents());
            let (mark, by) = (session.mark.clone().unwrap(), CallAuthority::Effect(call.effect()));
            mark.store_end(engine, job.context(), by, ended, session.found.clone()).await.unwrap();
        }
        drop(call);
        if self.has_next_turn {
            drop(context.turn(true).await.unwrap());
            assert!(state.session.lock().await.as_ref().unwrap().mark.is_none());
        }
        Ok(())
    }

    fn kill(&self, job: &JobRun, reason: CancelReason) {
        self.inner.kill(job, reason);
    }

    async fn wind_down(&self, job: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        self.inner.wind_down(job, finisher, interrupted).await;
    }

    fn over(&self, job: &JobRun) {
        self.inner.over(job);
    }
}

#[tokio::test]
async fn an_end_of_a_call_that_was_stored_unheard_is_settled_by_the_next_turn_and_by_the_end_of_the_run() {
    for has_next_turn in [true, false] {
        let dir = TempDir::new().unwrap();
        let (engine, plan) =
            run_plan(&dir, |inner| Arc::new(LostAnswerRunner { inner, has_next_turn })).await;
        let details = engine.plan_details(plan).await.unwrap();
        assert_eq!(details.plan.state, PlanState::Execute(WorkState::Complete), "{:?}", details.errors);
        assert_eq!(details.errors.recorded(), 0, "{:?}", details.errors);
        let calls = engine.inner.store.calls(plan).await.unwrap();
        let entries = engine.inner.entries(&details.plan).await.unwrap();
        assert_eq!((calls.len(), calls[0].state()), (1, CallState::Ok));
        let recorded: Vec<_> = entries.iter().map(|entry| (entry.path.to_string(), entry.call)).collect();
        assert_eq!(recorded, [("whole".to_owned(), calls[0].no)]);
    }
}
