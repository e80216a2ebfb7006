//! Gates of real plans in a real store, with the ends of phases made up here.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use domain::{
    Automation, ByteText, Claim, ClaimRequest, ErrorCategory, ErrorId, JobState, NewError, PlanId, PlanSpec,
    ProjectLink, RecoveryPolicy, StepDecision, StepId, Strategist, WorkerId,
};
use serde_json::json;
use store::JobEnd;
use sync::{CancelReason, EffectGate};
use tempfile::TempDir;

use super::*;
use crate::engine::EngineOptions;
use crate::plan::create::NewPlanRequest;

struct GateWorld {
    _dir: TempDir,
    engine: Engine,
    plan: PlanId,
}

/// The end of a phase.
enum PhaseEnd {
    /// Well, with a strategy that is so sure.
    Sure(f32),
    /// The model wrote nothing that can be used, again and again.
    Garbage,
}

impl GateWorld {
    /// A plan with a strategist, under this profile.
    async fn new(automation: Automation) -> GateWorld {
        let dir = TempDir::new().unwrap();
        let project = dir.path().join("shop");
        std::fs::create_dir(&project).unwrap();
        let engine = Engine::open(EngineOptions {
            data_dir: dir.path().join("data"),
            sandbox_dir: dir.path().join("sandboxes"),
            child: sandbox::ChildProgram::new("/nonexistent"),
            plan_concurrency: 4,
            lease: Duration::from_secs(30),
            capture_wait: Duration::from_secs(1),
            copy_max: (u64::MAX, u64::MAX),
            recheck: Default::default(),
            recovery: RecoveryPolicy::default(),
            retention: Duration::from_secs(60),
            models: crate::models::ModelsSetup::default(),
            contexts: crate::context::ContextsSetup::default(),
        })
        .await
        .unwrap();
        let mut spec: PlanSpec = serde_json::from_value(json!({
            "task": {"run": ["true"]}, "max_file_bytes": 10, "sandbox": "auto", "isolation_required": true,
            "time_limit_s": 60, "prompt": "do it",
            "invariants": [{"text": "be kind", "scope": "user"}],
        }))
        .unwrap();
        let steps = spec.steps.clone();
        let result = steps[0].node.clone();
        spec.strategist = Some(Strategist { name: "thinker".to_owned(), steps, result });
        spec.automation = automation;
        let root = ByteText(project.as_os_str().as_bytes().to_vec());
        let projects = vec![ProjectLink { alias: "shop".to_owned(), root, read_only: false }];
        let plan = engine.use_plan(NewPlanRequest { title: "t".to_owned(), spec, projects }).await.unwrap();
        GateWorld { _dir: dir, engine, plan: plan.id }
    }

    async fn plan(&self) -> Plan {
        self.engine.inner.store.plan(self.plan).await.unwrap()
    }

    /// Claims the job of the plan.
    async fn claim(&self) -> (domain::Job, Claim) {
        let engine = &self.engine.inner;
        let request = ClaimRequest {
            worker: WorkerId::from_u128(7),
            boot: engine.boot,
            lease: Duration::from_secs(30),
            concurrency_max: 4,
            only: Some(self.plan),
            variables: Default::default(),
        };
        let job = engine.store.claim(&request).await.unwrap().expect("a job waits");
        let claim = Claim { job: job.id, plan: self.plan, fence: job.fence };
        (job, claim)
    }

    /// Claims the job of the plan and ends it so.
    async fn end(&self, end: PhaseEnd) {
        let engine = &self.engine.inner;
        let (job, claim) = self.claim().await;
        let gate = EffectGate::new();
        let how = match end {
            PhaseEnd::Sure(confidence) => {
                let strategy = NewDecision {
                    confidence: Some(confidence),
                    ..built_in_decisions::strategy(&self.plan().await.spec, self.plan().await.attempt)
                };
                let effect = gate.enter().unwrap();
                engine.store.decide_all(&effect, &claim, vec![StepDecision::from(strategy)]).await.unwrap();
                JobEnd::Succeeded
            }
            PhaseEnd::Garbage => {
                let id = ErrorId::from_u128(engine.ids.ulid());
                let attempt = self.plan().await.attempt;
                let step = StepId { attempt, node: "thinker".to_owned(), visit: 1 };
                let error =
                    NewError::new(id, job.phase, step, ErrorCategory::ModelOutput, "no JSON".to_owned());
                let recovery = engine.recovery.of_step(Some(0)).record_error(&claim, error).await.unwrap();
                assert_eq!(recovery.action, RecoveryAction::Revert);
                JobEnd::Failed { why: "no JSON".to_owned() }
            }
        };
        let finisher = gate.close(CancelReason::Superseded).unwrap();
        let job = engine.store.end(&finisher, &claim, how).await.unwrap();
        assert!(job.state == JobState::Succeeded || job.state == JobState::Failed);
    }

    async fn gate(&self) -> Option<GateStatus> {
        self.engine.inner.gate(&self.plan().await).await.unwrap()
    }

    /// Advances the plan as a worker does that finds it.
    async fn advance(&self) -> bool {
        let jobs = self.engine.inner.store.jobs(Some(self.plan)).await.unwrap();
        let last = jobs.last().unwrap();
        // The job was left to the workers.
        assert!(!last.is_held());
        self.engine.advance(self.plan).await.unwrap()
    }

    /// Leaves the plan to the workers.
    async fn leave(&self) {
        self.engine.release_to_workers(self.plan).await.unwrap();
    }
}

fn profile(name: &str) -> Automation {
    Automation::built_in(name).unwrap()
}

#[tokio::test]
async fn a_plan_with_a_strategist_begins_with_thought_and_says_what_holds() {
    let world = GateWorld::new(profile("review")).await;
    assert_eq!(world.plan().await.state, PlanState::Strategize(WorkState::Queued));
    let kinds: Vec<(DecisionKind, String)> = world
        .engine
        .decisions(world.plan)
        .await
        .unwrap()
        .into_iter()
        .map(|decision| (decision.new.kind, decision.new.chosen))
        .collect();
    assert_eq!(
        kinds,
        [
            (DecisionKind::Prompt, "do it".to_owned()),
            (DecisionKind::Invariants, "be kind (of the user)".to_owned())
        ]
    );
}

#[tokio::test]
async fn no_worker_takes_a_plan_through_a_gate_that_asks() {
    for (automation, confidence, goes) in [
        (profile("manual"), 1.0, false),
        (profile("review"), 0.1, true),
        (Automation { ask_below: 0.5, ..profile("auto") }, 0.4, false),
        (Automation { ask_below: 0.5, ..profile("auto") }, 0.5, true),
    ] {
        let world = GateWorld::new(automation).await;
        world.leave().await;
        world.end(PhaseEnd::Sure(confidence)).await;
        // Again and again: a worker polls.
        let moved = [world.advance().await, world.advance().await];
        let (left, after) = if goes {
            (true, PlanState::Execute(WorkState::Queued))
        } else {
            (false, PlanState::Strategize(WorkState::Complete))
        };
        assert_eq!((moved[0], world.plan().await.state), (left, after));
        let found = world.engine.advance_stranded().await.unwrap();
        assert_eq!((found.moved, found.stuck), (0, 0));
        if !goes {
            let jobs = world.engine.inner.store.jobs(Some(world.plan)).await.unwrap();
            assert!(jobs.iter().all(|job| job.phase == Phase::Strategize), "no execute job: {jobs:?}");
            world.engine.begin(world.plan, crate::plan::execute::ExecuteOptions::default()).await.unwrap();
            assert_eq!(world.plan().await.state, PlanState::Execute(WorkState::Queued), "a person said yes");
        }
    }
}

#[tokio::test]
async fn a_plan_begins_again_by_itself_once_and_then_asks() {
    let world = GateWorld::new(profile("review")).await;
    world.leave().await;
    world
        .engine
        .guide(world.plan, "mind the tests", crate::plan::guidance::GuidanceMode::Besides)
        .await
        .unwrap();
    world.end(PhaseEnd::Garbage).await;
    assert!(world.advance().await, "it goes back by itself");
    let plan = world.plan().await;
    assert_eq!((plan.state, plan.attempt, plan.reversions), (PlanState::Strategize(WorkState::Queued), 2, 1));
    let decisions = world.engine.decisions(world.plan).await.unwrap();
    let live_kinds: Vec<DecisionKind> =
        decisions.iter().filter(|decision| decision.is_live()).map(|decision| decision.new.kind).collect();
    assert_eq!(
        live_kinds,
        [DecisionKind::Prompt, DecisionKind::Reversion, DecisionKind::Invariants, DecisionKind::Guidance],
        "what holds and what was said is not lost by it"
    );
    world.end(PhaseEnd::Garbage).await;
    assert!(!world.advance().await);
    assert_eq!(world.plan().await.state, PlanState::Strategize(WorkState::Errored));
    let ask = GateVerdict::Ask(AskReason::WentBackAlready);
    assert_eq!(world.gate().await, Some(GateStatus { point: GatePoint::Replan, verdict: ask }));
}

#[tokio::test]
async fn a_manual_plan_does_not_begin_again_by_itself() {
    let world = GateWorld::new(profile("manual")).await;
    world.leave().await;
    world.end(PhaseEnd::Garbage).await;
    assert!(!world.advance().await);
    assert_eq!(world.gate().await.and_then(|gate| gate.asks()), Some(AskReason::Profile(GatePoint::Replan)));
    assert_eq!(world.plan().await.reversions, 0);
}

#[tokio::test]
async fn a_word_moves_counts_and_supersedes_in_one_step_or_not_at_all() {
    use crate::plan::guidance::{GuidanceError, GuidanceMode, GuidanceOutcome};
    let world = GateWorld::new(profile("review")).await;
    let guide = async |text: &str, taken| world.engine.guide(world.plan, text, taken).await;
    assert!(
        matches!(guide("now", GuidanceMode::Replan).await, Err(GuidanceError::Busy { .. })),
        "it has not begun"
    );
    assert!(matches!(guide(" \n", GuidanceMode::Besides).await, Err(GuidanceError::Length { .. })));
    let long = "x".repeat(crate::plan::guidance::GUIDANCE_BYTES_MAX + 1);
    assert!(matches!(guide(&long, GuidanceMode::Besides).await, Err(GuidanceError::Length { .. })));
    assert_eq!(world.engine.decisions(world.plan).await.unwrap().len(), 2, "nothing was written");
    for round in 1..=u32::from(REVERSIONS_MAX) {
        world.end(PhaseEnd::Sure(1.0)).await;
        assert_eq!(guide("think again", GuidanceMode::Replan).await.unwrap(), GuidanceOutcome::Replanned);
        let plan = world.plan().await;
        assert_eq!((plan.attempt, u32::from(plan.reversions)), (round + 1, round));
    }
    world.end(PhaseEnd::Sure(1.0)).await;
    let before = world.engine.decisions(world.plan).await.unwrap();
    assert!(matches!(guide("again", GuidanceMode::Replan).await, Err(GuidanceError::ReversionsSpent { .. })));
    assert_eq!(world.engine.decisions(world.plan).await.unwrap(), before);
    let live_kinds = before.iter().filter(|decision| decision.is_live()).map(|decision| decision.new.kind);
    let expected = [
        DecisionKind::Prompt,
        DecisionKind::Reversion,
        DecisionKind::Invariants,
        DecisionKind::Guidance,
        DecisionKind::Strategy,
    ];
    assert_eq!(live_kinds.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_plan_whose_worker_died_before_it_was_sent_back_is_sent_back_by_the_next() {
    let world = GateWorld::new(profile("review")).await;
    world.leave().await;
    world.end(PhaseEnd::Garbage).await;
    assert_eq!(world.plan().await.state, PlanState::Strategize(WorkState::Errored));
    let found = world.engine.advance_stranded().await.unwrap();
    assert_eq!((found.moved, found.stuck), (1, 0));
    let plan = world.plan().await;
    assert_eq!((plan.state, plan.attempt), (PlanState::Strategize(WorkState::Queued), 2));
    assert_eq!(world.engine.advance_stranded().await.unwrap().moved, 0, "once");
}

#[tokio::test]
async fn a_plan_whose_process_died_before_it_was_sent_back_is_sent_back_when_it_is_resumed() {
    let world = GateWorld::new(profile("review")).await;
    world.end(PhaseEnd::Garbage).await;
    assert_eq!(world.engine.advance_stranded().await.unwrap().moved, 0, "it is held for a person");
    world.engine.retry(world.plan).await.unwrap();
    let plan = world.plan().await;
    assert_eq!((plan.state, plan.attempt, plan.reversions), (PlanState::Strategize(WorkState::Queued), 2, 1));
    // A plan that asks is only retried.
    world.end(PhaseEnd::Garbage).await;
    world.engine.retry(world.plan).await.unwrap();
    assert_eq!((world.plan().await.attempt, world.plan().await.reversions), (2, 1));
}

#[tokio::test]
async fn a_plan_that_was_stopped_to_begin_again_does_so_whoever_finds_it() {
    let world = GateWorld::new(profile("manual")).await;
    let store = &world.engine.inner.store;
    world.leave().await;
    let queued = world.engine.live_job(world.plan).await.unwrap().unwrap();
    let refused = store.cancel(queued.id, domain::STOPPED_TO_REPLAN).await;
    assert!(refused.is_err(), "nothing runs that could be stopped: {refused:?}");
    world
        .engine
        .guide(world.plan, "another way", crate::plan::guidance::GuidanceMode::Besides)
        .await
        .unwrap();
    let (job, claim) = world.claim().await;
    store.cancel(job.id, domain::STOPPED_TO_REPLAN).await.unwrap();
    let finisher = EffectGate::new().close(CancelReason::User).unwrap();
    store.end(&finisher, &claim, JobEnd::Cancelled).await.unwrap();
    assert_eq!(world.plan().await.state, PlanState::Strategize(WorkState::Errored), "it is not cancelled");
    let found = world.engine.advance_stranded().await.unwrap();
    assert_eq!((found.moved, found.stuck), (1, 0), "whatever the profile says: a person did");
    let plan = world.plan().await;
    assert_eq!((plan.state, plan.attempt, plan.reversions), (PlanState::Strategize(WorkState::Queued), 2, 1));
    let decisions = world.engine.decisions(world.plan).await.unwrap();
    assert_eq!(built_in_decisions::reversions_by_itself(&decisions), 0);
    let said = decisions.iter().filter(|decision| decision.is_live() && decision.new.chosen == "another way");
    assert_eq!(said.count(), 1);
}
