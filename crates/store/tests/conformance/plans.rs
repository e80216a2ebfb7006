//! Plans: made whole, found and listed, forgotten whole.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{
    ApplyKind, ApplyState, ChangesetEnding, Decision, DecisionKind, ErrorCategory, EventKind, HELD, Job,
    JobState, JobTransitionRejection, NewDecision, NewJob, NewPlan, NodeOutcome, Phase, Plan, PlanState,
    RecoveryPolicy, TITLE_CHARS_MAX,
};
use store::{JobEnd, JobStoreError, PlanFilter, PlanStoreError, QUEUED_JOBS_MAX};

use super::bench::{Bench, outcome};
use super::sample::{
    STRANGER, an_apply, change, changeset_id, error, new_call, new_job, new_plan, node_run, plan_id,
    plan_job, project, prompt, sandbox, spend,
};
use super::walk::{by_hand, create, processing, reach, start};

fn first_job(n: u64) -> NewJob {
    plan_job(n, 1, Phase::Strategize)
}

pub(crate) async fn a_plan_is_made_with_its_prompt_and_its_first_job(bench: Bench) {
    let plan = create(&bench, 1).await;
    assert_eq!(plan, Plan::new(new_plan(1), plan.created), "it is kept as it was asked for");
    assert_eq!(bench.store.find_plan(plan.id).await, Ok(Some(plan.clone())));
    assert_eq!(bench.store.plan(plan.id).await, Ok(plan.clone()));
    let decisions = bench.store.decisions(plan.id).await.unwrap();
    assert_eq!(decisions, [Decision::new(plan_id(1), 1, prompt(), decisions[0].created)]);
    let job = bench.job(first_job(1)).await;
    assert_eq!(job, Job::new(first_job(1), bench.now()));
    let kinds: Vec<EventKind> = bench.events(plan.id).await.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::PlanCreated, EventKind::DecisionRecorded, EventKind::JobMoved]);
}

pub(crate) async fn a_plan_made_again_is_one_plan(bench: Bench) {
    let made = create(&bench, 1).await;
    let before = bench.snapshot().await;
    assert_eq!(create(&bench, 1).await, made);
    assert_eq!(bench.snapshot().await, before);
    // Also when it has gone on meanwhile: then the answer is the plan as it stands.
    start(&bench, 1).await;
    let now = bench.plan(plan_id(1)).await;
    assert_ne!(now, made);
    assert_eq!(create(&bench, 1).await, now);
}

pub(crate) async fn a_long_title_is_cut_and_the_plan_is_still_the_same(bench: Bench) {
    let long = || NewPlan { title: "é".repeat(TITLE_CHARS_MAX + 1), ..new_plan(1) };
    let made = bench.store.create(long(), vec![prompt()], first_job(1)).await.unwrap();
    assert_eq!(made.title, "é".repeat(TITLE_CHARS_MAX));
    assert_eq!(bench.store.create(long(), vec![prompt()], first_job(1)).await, Ok(made));
}

pub(crate) async fn another_plan_under_a_known_id_is_refused(bench: Bench) {
    create(&bench, 1).await;
    let before = bench.snapshot().await;
    let taken = Err(PlanStoreError::IdTaken { plan: plan_id(1) });
    let mut spec = new_plan(1).spec;
    spec.time_limit_s += 1;
    let others = [
        NewPlan { title: "another".to_owned(), ..new_plan(1) },
        NewPlan { spec, ..new_plan(1) },
        NewPlan { projects: vec![project("web", b"/elsewhere")], ..new_plan(1) },
    ];
    for other in others {
        assert_eq!(bench.store.create(other, vec![prompt()], first_job(1)).await, taken);
    }
    let asked_otherwise = NewDecision { chosen: "something else".to_owned(), ..prompt() };
    assert_eq!(bench.store.create(new_plan(1), vec![asked_otherwise], first_job(1)).await, taken);
    let second_job = plan_job(1, 2, Phase::Strategize);
    assert_eq!(bench.store.create(new_plan(1), vec![prompt()], second_job).await, taken);
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn a_plan_that_cannot_have_its_job_is_not_made(bench: Bench) {
    bench.enqueue(new_job(7)).await;
    let before = bench.snapshot().await;
    let refused = |refused| Err(PlanStoreError::Job(refused));
    let state = PlanState::FIRST;
    let cases = [
        (plan_job(1, 1, Phase::Apply), JobTransitionRejection::PlanNotReady { state }),
        (plan_job(2, 1, Phase::Strategize), JobTransitionRejection::OtherPlan { plan: plan_id(1) }),
        (
            domain::NewJob { id: new_job(7).id, ..first_job(1) },
            JobTransitionRejection::IdTaken { job: new_job(7).id },
        ),
    ];
    for (job, why) in cases {
        assert_eq!(bench.store.create(new_plan(1), vec![prompt()], job).await, refused(why));
        assert_eq!(bench.store.find_plan(plan_id(1)).await, Ok(None));
        assert!(bench.plan_snapshot(plan_id(1)).await.is_empty());
    }
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn a_plan_whose_strategy_is_known_begins_with_execute(bench: Bench) {
    let strategy = NewDecision { kind: DecisionKind::Strategy, ..prompt() };
    let decisions = || vec![prompt(), strategy.clone()];
    let job = plan_job(1, 1, Phase::Execute);
    let made = bench.store.create(new_plan(1), decisions(), job).await.unwrap();
    assert_eq!(
        (made.state, made.version, made.attempt),
        (PlanState::Execute(domain::WorkState::Queued), 4, 1)
    );
    assert_eq!(bench.plan(plan_id(1)).await, made);
    let kinds: Vec<EventKind> = bench.events(made.id).await.into_iter().map(|event| event.kind).collect();
    let moved = [EventKind::PlanMoved; 3];
    let told = [EventKind::PlanCreated, EventKind::DecisionRecorded, EventKind::DecisionRecorded];
    assert_eq!(kinds, [&told[..], &moved, &[EventKind::JobMoved]].concat());
    let before = bench.snapshot().await;
    assert_eq!(bench.store.create(new_plan(1), decisions(), job).await, Ok(made));
    let taken = Err(PlanStoreError::IdTaken { plan: plan_id(1) });
    assert_eq!(bench.store.create(new_plan(1), vec![prompt(), prompt()], job).await, taken);
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn with_a_full_queue_no_plan_is_made_and_none_moves(bench: Bench) {
    reach(&bench, 1, PlanState::Strategize(domain::WorkState::Complete)).await;
    for n in 0..QUEUED_JOBS_MAX as u64 {
        bench.enqueue(new_job(1_000_000 + n)).await;
    }
    let full = PlanStoreError::QueueFull { queued: QUEUED_JOBS_MAX };
    let plan = bench.plan_snapshot(plan_id(1)).await;
    assert_eq!(by_hand(&bench, 1, domain::PlanEvent::Advance).await, Err(full.clone()));
    assert_eq!(bench.plan_snapshot(plan_id(1)).await, plan);
    assert_eq!(bench.store.create(new_plan(2), vec![prompt()], first_job(2)).await, Err(full));
    assert!(bench.plan_snapshot(plan_id(2)).await.is_empty());
    assert_eq!(
        bench.store.enqueue(new_job(2)).await,
        Err(JobStoreError::QueueFull { queued: QUEUED_JOBS_MAX })
    );
    // A person waits for a job that is held, and an apply ends work that was done.
    let held = NewJob { not_before: HELD, ..first_job(2) };
    bench.store.create(new_plan(2), vec![prompt()], held).await.unwrap();
    let apply = NewJob { phase: Phase::Apply, ..new_job(3) };
    assert_eq!(bench.store.enqueue(apply).await.map(|job| job.phase), Ok(Phase::Apply));
}

pub(crate) async fn nobody_sees_half_a_plan(bench: Bench) {
    let done = AtomicBool::new(false);
    bench.on_threads(2, async |thread| {
        if thread == 0 {
            for n in 1..=200 {
                create(&bench, n).await;
            }
            done.store(true, Ordering::Release);
            return;
        }
        let mut n = 1;
        while n <= 200 {
            let is_done = done.load(Ordering::Acquire);
            if bench.store.plan(plan_id(n)).await.is_ok() {
                assert_eq!(bench.store.decisions(plan_id(n)).await.unwrap().len(), 1);
                assert_eq!(bench.store.jobs(Some(plan_id(n))).await.unwrap().len(), 1);
                assert_eq!(bench.events(plan_id(n)).await.len(), 3);
                n += 1;
            } else {
                assert!(!is_done, "plan {n} is gone");
            }
            if !bench.store.jobs(Some(plan_id(n))).await.unwrap().is_empty() {
                assert!(bench.store.plan(plan_id(n)).await.is_ok(), "a job without its plan");
            }
        }
    });
}

pub(crate) async fn one_plan_made_by_eight_is_one_plan(bench: Bench) {
    for n in 1..=50 {
        let made = bench.on_threads(8, async |_| {
            bench.store.create(new_plan(n), vec![prompt()], first_job(n)).await.unwrap()
        });
        assert_eq!(made, vec![made[0].clone(); 8]);
        assert_eq!(bench.store.jobs(Some(plan_id(n))).await.unwrap().len(), 1);
        assert_eq!(bench.events(plan_id(n)).await.len(), 3);
    }
}

pub(crate) async fn an_unknown_plan_has_nothing(bench: Bench) {
    assert_eq!(bench.store.find_plan(STRANGER).await, Ok(None));
    assert_eq!(bench.store.plan(STRANGER).await, Err(PlanStoreError::NotFound { plan: STRANGER }));
    assert!(bench.plan_snapshot(STRANGER).await.is_empty());
    assert_eq!(bench.store.forget(vec![STRANGER]).await, Ok(vec![]));
    // One that only has jobs was never made: it has no row, and nothing is told of it.
    bench.owner(1).await;
    assert_eq!(bench.store.find_plan(plan_id(1)).await, Ok(None));
    assert_eq!(bench.store.plans(&everything()).await, Ok((Vec::new(), 0)));
    assert_eq!(bench.events(plan_id(1)).await, []);
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![]));
}

fn everything() -> PlanFilter {
    PlanFilter { limit: usize::MAX, ..PlanFilter::default() }
}

pub(crate) async fn plans_are_listed_newest_first_and_by_what_is_asked_for(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(domain::WorkState::Queued)).await;
    reach(&bench, 2, PlanState::Strategize(domain::WorkState::Complete)).await;
    reach(&bench, 3, PlanState::Execute(domain::WorkState::Complete)).await;
    let elsewhere = NewPlan { projects: vec![project("web", b"/elsewhere")], ..new_plan(4) };
    bench.store.create(elsewhere, vec![prompt()], first_job(4)).await.unwrap();
    let mut batched = NewPlan { projects: vec![project("web", b"/elsewhere")], ..new_plan(5) };
    batched.spec.batch = Some("fixes".to_owned());
    bench.store.create(batched, vec![prompt()], first_job(5)).await.unwrap();
    let words = |text: &str| Some(text.to_owned());
    let cases = [
        (everything(), vec![5, 4, 3, 2, 1], 5),
        (PlanFilter { limit: 2, ..everything() }, vec![5, 4], 5),
        (PlanFilter { limit: 0, ..everything() }, vec![], 5),
        (PlanFilter { phase: words("execute"), ..everything() }, vec![3, 1], 2),
        (PlanFilter { state: words("complete"), ..everything() }, vec![3, 2], 2),
        (PlanFilter { phase: words("execute"), state: words("complete"), ..everything() }, vec![3], 1),
        (PlanFilter { root: Some(b"/srv/w\xe9b".to_vec()), ..everything() }, vec![3, 2, 1], 3),
        (PlanFilter { root: Some(b"/srv/api".to_vec()), limit: 1, ..everything() }, vec![3], 3),
        (PlanFilter { root: Some(b"/srv".to_vec()), ..everything() }, vec![], 0),
        (PlanFilter { state: words("no such state"), ..everything() }, vec![], 0),
        (PlanFilter { batch: words("fixes"), ..everything() }, vec![5], 1),
        (PlanFilter { batch: words("fixes"), root: Some(b"/srv/api".to_vec()), ..everything() }, vec![], 0),
        (PlanFilter { batch: words("fix"), ..everything() }, vec![], 0),
    ];
    for (filter, ids, count) in cases {
        let (plans, all) = bench.store.plans(&filter).await.unwrap();
        let found: Vec<_> = plans.iter().map(|plan| plan.id).collect();
        assert_eq!((found, all), (ids.into_iter().map(plan_id).collect(), count), "{filter:?}");
        assert_eq!(bench.store.newest_plans(&filter).await.unwrap(), plans, "{filter:?}");
        for plan in plans {
            assert_eq!(bench.plan(plan.id).await, plan, "a listed plan is the plan");
        }
    }
}

pub(crate) async fn plans_are_found_by_how_their_id_begins(bench: Bench) {
    assert_eq!(bench.store.newest_plan(None).await, Ok(None));
    for n in [1, 33, 64, 34] {
        create(&bench, n).await;
    }
    assert_eq!(bench.store.newest_plan(None).await, Ok(Some(plan_id(64))), "by its id");
    assert_eq!(bench.store.newest_plan(Some(b"/srv/api")).await, Ok(Some(plan_id(64))));
    assert_eq!(bench.store.newest_plan(Some(b"/srv")).await, Ok(None), "of this very project");
    let like = async |prefix: &str, limit| bench.store.plans_like(prefix, limit).await.unwrap();
    assert_eq!(plan_id(33).to_string(), "00000000000000000000000011");
    let all = [1, 33, 34, 64].map(plan_id);
    assert_eq!(like("", 9).await, all);
    assert_eq!(like("0000000000000000000000000", 9).await, all[..1]);
    assert_eq!(like("0000000000000000000000001", 9).await, all[1..3]);
    assert_eq!(like("0000000000000000000000001", 1).await, all[1..2]);
    assert_eq!(like("00000000000000000000000012", 9).await, all[2..3]);
    for none in ["1", "%", "_", "00000000000000000000000_12", "000000000000000000000000120"] {
        assert_eq!(like(none, 9).await, [], "{none}");
    }
}

pub(crate) async fn plans_are_found_by_how_their_id_ends(bench: Bench) {
    for n in [1, 33, 64, 34] {
        create(&bench, n).await;
    }
    let ending = async |ends: &[&str]| {
        let ends: BTreeSet<String> = ends.iter().map(|end| (*end).to_owned()).collect();
        bench.store.plans_ending(&ends).await.unwrap()
    };
    assert_eq!(plan_id(33).to_string(), "00000000000000000000000011");
    assert_eq!(plan_id(64).to_string(), "00000000000000000000000020");
    assert_eq!(ending(&["1"]).await, [1, 33].map(plan_id));
    assert_eq!(ending(&["11"]).await, [33].map(plan_id));
    assert_eq!(ending(&["0", "012", "001"]).await, [1, 34, 64].map(plan_id), "in order, each once");
    assert_eq!(ending(&["1", "01"]).await, [1, 33].map(plan_id), "two ends of one plan");
    assert_eq!(ending(&["00000000000000000000000020"]).await, [64].map(plan_id));
    for none in ["3", "%1", "_1", "000000000000000000000000020"] {
        assert_eq!(ending(&[none]).await, [], "{none}");
    }
    assert_eq!(ending(&[]).await, []);
}

/// Makes plan 1 with something of everything, and applies it.
async fn applied_with_everything(bench: &Bench) {
    let owner = processing(bench, 1, Phase::Execute).await;
    owner.sandbox_opened(sandbox(1, 1)).await.unwrap();
    owner.start(changeset_id(1)).await.unwrap();
    owner.begin_call(new_call(1, "execute")).await.unwrap();
    owner.end_call(outcome(1, changeset_id(1), vec![change(1)])).await.unwrap();
    owner.settle_nodes(vec![node_run("execute", NodeOutcome::Succeeded, 7)]).await.unwrap();
    owner.record_error(&RecoveryPolicy::default(), &error(1, ErrorCategory::Timeout)).await.unwrap();
    owner.reserve(spend(1, 1)).await.unwrap();
    owner.finish(ChangesetEnding::Closed).await.unwrap();
    owner.end(JobEnd::Succeeded).await.unwrap();
    by_hand(bench, 1, domain::PlanEvent::Advance).await.unwrap();
    let owner = start(bench, 1).await;
    owner.seal_apply(an_apply(1, 1, ApplyKind::Apply)).await.unwrap();
    owner.end(JobEnd::Succeeded).await.unwrap();
}

pub(crate) async fn a_forgotten_plan_leaves_nothing_behind(bench: Bench) {
    create(&bench, 2).await;
    let other = bench.plan_snapshot(plan_id(2)).await;
    applied_with_everything(&bench).await;
    let jobs: Vec<Job> = bench.store.jobs(Some(plan_id(1))).await.unwrap();
    assert!(jobs.iter().all(|job| job.state == JobState::Succeeded));
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![plan_id(1)]));
    assert!(bench.plan_snapshot(plan_id(1)).await.is_empty());
    assert_eq!(bench.store.jobs(Some(plan_id(1))).await, Ok(Vec::new()));
    assert_eq!(
        bench.store.job(jobs[0].id).await,
        Err(JobStoreError::Refused(JobTransitionRejection::NotFound { job: jobs[0].id }))
    );
    assert_eq!(bench.store.apply(domain::ApplyId::from_u128(1)).await, Ok(None));
    assert_eq!(bench.store.plans(&everything()).await.unwrap().1, 1);
    assert_eq!(bench.store.plans_like("", 9).await, Ok(vec![plan_id(2)]));
    assert_eq!(bench.plan_snapshot(plan_id(2)).await, other, "the others stay");
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![]), "it is no longer there");
    // Its names are free again.
    applied_with_everything(&bench).await;
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Apply(ApplyState::Applied));
}

pub(crate) async fn only_a_final_plan_is_forgotten(bench: Bench) {
    for (n, state) in (1..).zip(PlanState::ALL) {
        reach(&bench, n, state).await;
        let before = bench.snapshot().await;
        let ended = bench.store.ended_plans(domain::WallMs(u64::MAX >> 1)).await.unwrap().plans;
        assert_eq!(ended.contains(&plan_id(n)), state.is_final(), "{state}");
        assert_eq!(bench.store.ended_plans(domain::WallMs(0)).await.unwrap().plans, [], "all are newer");
        let forgotten = bench.store.forget(vec![plan_id(n)]).await.unwrap();
        assert_eq!(forgotten.len(), usize::from(state.is_final()), "{state}");
        if !state.is_final() {
            assert_eq!(bench.snapshot().await, before, "{state}");
        }
    }
}
