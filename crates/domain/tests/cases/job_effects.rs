//! A record whose plan was made: job, plan and what is told of them move in one step, or not at all.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::json;

use crate::manual_transition::new_plan;
use crate::sample::{ANN, BOB, PLAN, change, claim_by, take_over_by};

fn prompt() -> NewDecision {
    let prompt = NewDecision::new(1, Phase::Strategize, DecisionKind::Prompt, "make");
    NewDecision { question: "what?".to_owned(), ..prompt }
}

fn job(n: u128, phase: Phase) -> NewJob {
    NewJob { id: JobId::from_u128(n), plan: PLAN, phase, not_before: Ms(0) }
}

fn made() -> PlanRecord {
    let mut record = PlanRecord::default();
    record.create(new_plan(), vec![prompt()], job(0, Phase::Strategize), Ms(1)).unwrap();
    record
}

/// Checks that hold of every record, whatever happened to it.
fn assert_consistent(record: &PlanRecord) {
    let plan = record.row().unwrap();
    let running: Vec<&Job> = record.jobs().filter(|job| job.state == JobState::Running).collect();
    assert_eq!(plan.state.word() == "processing", running.len() == 1, "processing means one running job");
    assert!(running.iter().all(|job| job.phase == plan.state.phase()), "of its phase");
    if let Some(live) = record.live_job().filter(|job| job.state == JobState::Queued) {
        assert_eq!((plan.state.word(), plan.state.phase()), ("queued", live.phase));
    }
    let mut state = PlanState::FIRST;
    for (event, n) in record.events().iter().zip(1..) {
        assert_eq!(event.n, n);
        if event.kind == EventKind::PlanMoved {
            assert_eq!(event.data["from"], state.to_string());
            state = state.next(PlanEvent::parse(event.data["event"].as_str().unwrap()).unwrap()).unwrap();
        }
    }
    assert_eq!(state, plan.state, "the events retell the state");
    let is_again = |event: &&EventRecord| ["again", "revise"].iter().any(|word| event.data["event"] == *word);
    let agains = record.events().iter().filter(is_again).count();
    assert_eq!(plan.attempt as usize, 1 + usize::from(plan.reversions) + agains);
    if plan.state == PlanState::Apply(ApplyState::Applied) {
        assert!(record.live_job().is_none());
    }
}

#[test]
fn a_record_of_jobs_alone_tells_nothing_and_can_still_be_made_a_plan() {
    let mut record = PlanRecord::default();
    record.enqueue(job(9, Phase::Execute), Ms(0)).unwrap();
    let busy = JobTransitionRejection::PlanBusy { job: JobId::from_u128(9) };
    let create =
        |record: &mut PlanRecord| record.create(new_plan(), vec![prompt()], job(0, Phase::Strategize), Ms(1));
    let before = record.clone();
    assert_eq!(create(&mut record), Err(PlanMoveError::Job(busy)));
    assert_eq!(record, before);
    record.apply_job_event(JobId::from_u128(9), &claim_by(ANN), Ms(2)).unwrap();
    record.apply_job_event(JobId::from_u128(9), &JobEvent::Succeed { fence: Fence(1) }, Ms(3)).unwrap();
    assert_eq!((record.row(), record.events().len()), (None, 0));
    create(&mut record).unwrap();
    assert_eq!(record.events().len(), 3);
    assert_consistent(&record);
}

#[test]
fn a_job_that_is_stopped_to_begin_again_fails_its_plan_and_does_not_cancel_it() {
    let mut record = made();
    let id = JobId::from_u128(0);
    let stop = JobEvent::Cancel { reason: STOPPED_TO_REPLAN.to_owned() };
    let refused = record.apply_job_event(id, &stop, Ms(2));
    assert!(refused.is_err(), "nothing of it runs: {refused:?}");
    record.apply_job_event(id, &claim_by(ANN), Ms(3)).unwrap();
    record.apply_job_event(id, &stop, Ms(4)).unwrap();
    let fence = Fence(1);
    assert!(record.apply_job_event(id, &JobEvent::Succeed { fence }, Ms(5)).is_err(), "it is stopped");
    record.apply_job_event(id, &JobEvent::Cancelled { fence }, Ms(6)).unwrap();
    assert_eq!(record.row().unwrap().state, PlanState::Strategize(WorkState::Errored));
    assert_consistent(&record);
}

#[test]
fn a_batch_that_is_refused_leaves_the_changesets_as_they_were() {
    let mut changesets = Changesets::default();
    let (first, second) = (ChangesetId::from_u128(1), ChangesetId::from_u128(2));
    changesets.start(first).unwrap();
    changesets.start(second).unwrap();
    changesets.record(second, change(1, "one")).unwrap();
    let before = changesets.clone();
    let refused =
        changesets.record_all(first, vec![change(2, "two"), change(3, "three"), change(1, "other")]);
    assert_eq!(refused, Err(ChangesetError::InvalidEntry { id: ChangeId::from_u128(1) }));
    assert_eq!(changesets, before);
    let recorded = changesets.record_all(first, vec![change(2, "two"), change(1, "one")]).unwrap();
    let at = |changeset, seq, no| RecordedChange { changeset, seq, no };
    assert_eq!(recorded, [at(first, 1, 2), at(second, 1, 1)], "a known one is answered as it was");
    assert!(changesets.knows_all(&[change(1, "one"), change(2, "two")]));
    assert!(!changesets.knows_all(&[change(1, "one"), change(2, "other")]));
    assert!(!changesets.knows_all(&[change(3, "three")]));
}

#[test]
fn the_end_of_an_apply_means_what_the_table_says() {
    let new = |kind| NewApply {
        id: ApplyId::from_u128(1),
        plan: PLAN,
        kind,
        net_hash: Hash::from_content(b"net"),
        selection: json!(null),
        summary: json!(null),
    };
    let apply = ApplyRecord::sealed(new(ApplyKind::Apply), WallMs(1));
    let undo = ApplyRecord::sealed(new(ApplyKind::Undo), WallMs(1));
    let fence = Fence(4);
    let sealed = Job {
        state: JobState::Running,
        fence,
        sealed_at: Some(Ms(1)),
        ..Job::new(job(0, Phase::Apply), Ms(0))
    };
    let unsealed = Job { sealed_at: None, ..sealed.clone() };
    let processing = Some(PlanState::Apply(ApplyState::Processing));
    let applied = Some(PlanState::Apply(ApplyState::Applied));
    let errored = Some(PlanState::Apply(ApplyState::Errored));
    let back = || ApplyEnd::RolledBack(Vec::new());
    let job = |event| ApplyMoves { job: Some(event), ..ApplyMoves::default() };
    let nothing = ApplyMoves::default;
    let given_up = &[PlanEvent::Retry, PlanEvent::Start, PlanEvent::Applied];
    let undone = |undone| ApplyMoves { undone: Some(undone), ..nothing() };
    let why = "constrained".to_owned();
    let rows = [
        (&apply, ApplyEnd::Applied, processing, Some(&sealed), false, job(JobEvent::Succeed { fence })),
        (&apply, ApplyEnd::Applied, None, Some(&sealed), false, job(JobEvent::Succeed { fence })),
        (&apply, ApplyEnd::Applied, applied, None, false, undone(false)),
        (&apply, ApplyEnd::Applied, errored, None, false, ApplyMoves { plan: given_up, ..nothing() }),
        (&apply, ApplyEnd::Applied, processing, Some(&unsealed), false, nothing()),
        (&apply, back(), processing, Some(&sealed), false, job(JobEvent::Fail { fence, why })),
        (&apply, back(), errored, None, false, nothing()),
        (&apply, ApplyEnd::NeverBegan, processing, Some(&sealed), false, job(JobEvent::BreakSeal)),
        (&apply, ApplyEnd::NeverBegan, processing, Some(&sealed), true, nothing()),
        (&apply, ApplyEnd::NeverBegan, errored, None, false, nothing()),
        (&undo, ApplyEnd::Applied, applied, None, false, undone(true)),
        (&undo, ApplyEnd::Applied, errored, None, false, nothing()),
        (&undo, back(), applied, None, false, nothing()),
        (&undo, ApplyEnd::NeverBegan, applied, None, false, nothing()),
    ];
    for (record, end, state, live, others, expected) in rows {
        assert_eq!(record.moves(&end, state, live, others), expected, "{:?} {end:?} {state:?}", record.kind);
    }
    let ended = apply.ended(&ApplyEnd::Applied, WallMs(9)).unwrap();
    assert_eq!((ended.stage, ended.ended), (ApplyStage::Applied, Some(WallMs(9))));
    assert_eq!(ended.ended(&ApplyEnd::NeverBegan, WallMs(10)), None, "it ends once");
    assert!(apply.is_sealed_as(&new(ApplyKind::Apply)));
    assert!(!apply.is_sealed_as(&new(ApplyKind::Undo)) && !ended.is_sealed_as(&new(ApplyKind::Apply)));
}

#[derive(Clone, Debug)]
enum Step {
    Job(u8, u64),
    Hand(PlanEvent),
    Seal(u128),
    End(u128, u8),
    Undo(u128),
    Changeset(u128),
    Call,
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..10_u8, 0..2_u64).prop_map(|(what, behind)| Step::Job(what, behind)),
        6 => proptest::sample::select(PlanEvent::ALL.to_vec()).prop_map(Step::Hand),
        3 => (0..6_u128).prop_map(Step::Seal),
        3 => (0..6_u128, 0..3_u8).prop_map(|(id, how)| Step::End(id, how)),
        1 => (0..6_u128).prop_map(Step::Undo),
        1 => (0..9_u128).prop_map(Step::Changeset),
        1 => Just(Step::Call),
    ]
}

fn an_apply(id: u128, kind: ApplyKind) -> NewApply {
    NewApply {
        id: ApplyId::from_u128(id),
        plan: PLAN,
        kind,
        net_hash: Hash::from_content(b"net"),
        selection: json!(null),
        summary: json!(null),
    }
}

/// Takes the step; says whether it was accepted, or may have changed nothing.
fn take(record: &mut PlanRecord, step: &Step, next_job: &mut u128, now: Ms) -> bool {
    let live = record.live_job().map(|job| (job.id, job.fence));
    let latest = record.jobs().last().map(|job| (job.id, job.fence)).unwrap();
    let (id, fence) = live.unwrap_or(latest);
    let claim = Claim { plan: PLAN, job: id, fence };
    match step {
        Step::Job(what, behind) => {
            let fence = Fence(fence.0.saturating_sub(*behind));
            let event = match what {
                0..=2 => claim_by(ANN),
                3 => take_over_by(BOB),
                4 => JobEvent::Cancel { reason: String::new() },
                5 => JobEvent::Cancelled { fence },
                6 => JobEvent::Release { fence },
                7 => JobEvent::Fail { fence, why: "no".to_owned() },
                8 => return record.constrain(&Claim { fence, ..claim }, Vec::new(), now).is_ok(),
                _ => JobEvent::Succeed { fence },
            };
            record.apply_job_event(id, &event, now).is_ok()
        }
        Step::Hand(event) => {
            let plan = record.row().unwrap();
            let next = plan.state.next(*event).ok().filter(|next| next.is_queued());
            let job = next.map(|next| job(*next_job, next.phase()));
            let asked = ManualTransition {
                record: None,
                spec: None,
                version: plan.version,
                event: *event,
                job,
                request: json!(null),
                decisions: Vec::new(),
            };
            let moved = record.move_plan(&asked, Initiator::User, now).is_ok();
            *next_job += u128::from(moved);
            moved
        }
        Step::Seal(id) => record.seal_apply(&claim, an_apply(*id, ApplyKind::Apply), now).is_ok(),
        Step::End(id, how) => {
            let end = match how {
                0 => ApplyEnd::Applied,
                1 => ApplyEnd::RolledBack(Vec::new()),
                _ => ApplyEnd::NeverBegan,
            };
            record.end_apply(ApplyId::from_u128(*id), end, now)
        }
        Step::Undo(id) => {
            let applied = record.row().unwrap().state == PlanState::Apply(ApplyState::Applied);
            if applied {
                record.begin_apply(an_apply(10 + *id, ApplyKind::Undo), now);
                record.end_apply(ApplyId::from_u128(10 + *id), ApplyEnd::Applied, now);
            }
            applied
        }
        Step::Changeset(id) => record.start_changeset(&claim, ChangesetId::from_u128(*id)).is_ok(),
        Step::Call => {
            let new = NewCall {
                attempt: record.row().unwrap().attempt,
                node: "execute".to_owned(),
                tool: "command".to_owned(),
                requested: json!(null),
                effective: json!(null),
            };
            record.begin_call(&claim, new, now).is_ok()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_plan_job_and_events_agree(
        steps in proptest::collection::vec((some_step(), 0..20_u64), 1..120),
    ) {
        let (mut record, mut next_job, mut now) = (made(), 1, Ms(1));
        for (step, more) in steps {
            now = Ms(now.0 + more);
            let before = record.clone();
            if !take(&mut record, &step, &mut next_job, now) {
                prop_assert_eq!(&record, &before, "{:?} was refused and changed something", step);
            }
            assert_consistent(&record);
        }
    }
}
