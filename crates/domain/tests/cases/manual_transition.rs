//! A plan's counters, and the moves that no job makes.

use domain::*;
use serde_json::{Value, json};

use crate::sample::{JOB, PLAN, new_job};

pub(crate) fn new_plan() -> NewPlan {
    let spec = json!({
        "task": {"run": "make"}, "max_file_bytes": 10, "sandbox": "auto", "isolation_required": false,
        "time_limit_s": 60,
    });
    let project = ProjectLink { alias: "web".to_owned(), root: "/srv/web".into(), read_only: false };
    NewPlan {
        id: PLAN,
        title: "make".to_owned(),
        spec: serde_json::from_value(spec).unwrap(),
        projects: vec![project],
    }
}

fn plan_in(state: PlanState) -> Plan {
    Plan { state, version: 7, ..Plan::new(new_plan(), WallMs(1)) }
}

fn reason(subject: &str) -> ConstraintReason {
    ConstraintReason {
        kind: "conflict".to_owned(),
        subject: subject.to_owned(),
        message: "both changed".to_owned(),
    }
}

#[test]
fn a_new_plan_waits_to_strategize_in_its_first_attempt() {
    let plan = Plan::new(new_plan(), WallMs(5));
    assert_eq!(plan.state.to_string(), "strategize/queued");
    assert_eq!((plan.attempt, plan.reversions, plan.version), (1, 0, 1));
    assert_eq!((plan.created, plan.updated, plan.undone_at), (WallMs(5), WallMs(5), None));
    assert_eq!((plan.constrained_by.len(), &plan.request), (0, &Value::Null));
}

#[test]
fn a_title_is_cut_at_72_characters() {
    let long = NewPlan { title: "é".repeat(73), ..new_plan() };
    let plan = Plan::new(long.clone(), WallMs(1));
    assert_eq!(plan.title, "é".repeat(72));
    assert!(plan.was_made_by(&long), "the same request again is the same plan");
    assert!(!plan.was_made_by(&NewPlan { title: "é".repeat(71), ..new_plan() }));
    assert!(!plan.was_made_by(&NewPlan { title: "è".repeat(73), ..new_plan() }));
}

#[test]
fn every_move_counts_a_version_and_only_again_revise_and_revert_count_an_attempt() {
    for state in PlanState::ALL {
        for event in PlanEvent::ALL {
            let plan = plan_in(state);
            let moved = plan.moved(event, vec![reason("a")], WallMs(9));
            let Ok(next) = state.next(event) else {
                assert_eq!(
                    moved,
                    Err(PlanTransitionRejection::BadTransition(BadTransition { state, event }))
                );
                continue;
            };
            let (attempt, reversions) = match event {
                PlanEvent::Again | PlanEvent::Revise => (2, 0),
                PlanEvent::Revert => (2, 1),
                _ => (1, 0),
            };
            let constrained_by = if event == PlanEvent::Constrain { vec![reason("a")] } else { vec![] };
            let updated = WallMs(9);
            let expected =
                Plan { state: next, attempt, reversions, version: 8, constrained_by, updated, ..plan };
            assert_eq!(moved, Ok(expected), "{state} {event}");
        }
    }
}

#[test]
fn the_fourth_revert_is_refused() {
    let mut plan = plan_in(PlanState::Execute(WorkState::Complete));
    for reversion in 1..=3 {
        plan = plan.moved(PlanEvent::Revert, Vec::new(), WallMs(1)).unwrap();
        assert_eq!((plan.reversions, plan.attempt), (reversion, u32::from(reversion) + 1));
        plan.state = PlanState::Execute(WorkState::Errored);
    }
    assert_eq!(
        plan.moved(PlanEvent::Revert, Vec::new(), WallMs(1)),
        Err(PlanTransitionRejection::ReversionsSpent)
    );
    assert!(plan.moved(PlanEvent::Retry, Vec::new(), WallMs(1)).is_ok());
    assert_eq!(PlanTransitionRejection::ReversionsSpent.to_string(), "the plan was reverted 3 times already");
}

#[test]
fn an_undo_is_a_write_and_no_move() {
    let applied = plan_in(PlanState::Apply(ApplyState::Applied));
    let undone = applied.undone(Some(WallMs(3)), WallMs(4));
    let expected = Plan { undone_at: Some(WallMs(3)), version: 8, updated: WallMs(4), ..applied.clone() };
    assert_eq!(undone, expected);
    assert_eq!(undone.undone(None, WallMs(5)).undone_at, None);
}

#[test]
fn what_constrains_a_plan_is_said_on_one_line() {
    assert_eq!(why_constrained(&[]), "constrained");
    let two = [reason("a"), reason("b")];
    assert_eq!(why_constrained(&two), "constrained: conflict a: both changed; conflict b: both changed");
    let five = ["a", "b", "c", "d", "e"].map(reason);
    assert!(why_constrained(&five).ends_with("conflict c: both changed; and 2 more"));
}

fn by_hand(version: u64, event: PlanEvent, job: Option<NewJob>) -> ManualTransition {
    ManualTransition {
        version,
        event,
        job,
        request: json!({"only": ["a"]}),
        decisions: Vec::new(),
        record: None,
        spec: None,
    }
}

fn of(
    asked: &ManualTransition,
    plan: &Plan,
    live: Option<&Job>,
    known: Option<&Job>,
) -> Result<TransitionResult, PlanMoveError> {
    asked.resolve(plan, live, known, Ms(20), WallMs(9))
}

#[test]
fn a_move_by_hand_takes_its_job_along() {
    let plan = plan_in(PlanState::Strategize(WorkState::Complete));
    let job = new_job(Phase::Execute);
    let moved = of(&by_hand(7, PlanEvent::Advance, Some(job)), &plan, None, None);
    let mut expected = plan.moved(PlanEvent::Advance, Vec::new(), WallMs(9)).unwrap();
    expected.request = json!({"only": ["a"]});
    let job = Some(Job::new(job, Ms(20)));
    assert_eq!(moved, Ok(TransitionResult::Now { plan: Box::new(expected.clone()), job }));
    let without = of(&by_hand(7, PlanEvent::Advance, None), &plan, None, None);
    assert_eq!(without, Ok(TransitionResult::Now { plan: Box::new(expected), job: None }));
}

#[test]
fn only_nine_events_are_by_hand() {
    let by_hand_too: Vec<&str> =
        PlanEvent::ALL.iter().filter(|event| event.is_by_hand()).map(|event| event.as_str()).collect();
    assert_eq!(
        by_hand_too,
        ["advance", "reapply", "retry", "again", "revert", "cancel", "revise", "amend", "accept"]
    );
    let state = PlanState::Execute(WorkState::Processing);
    let plan = plan_in(state);
    for event in [PlanEvent::Complete, PlanEvent::Fail, PlanEvent::Release] {
        assert!(state.next(event).is_ok());
        let refused = PlanTransitionRejection::BadTransition(BadTransition { state, event });
        assert_eq!(of(&by_hand(7, event, None), &plan, None, None), Err(PlanMoveError::Refused(refused)));
    }
}

#[test]
fn a_move_by_hand_is_refused_for_the_first_reason_that_holds() {
    let plan = plan_in(PlanState::Execute(WorkState::Complete));
    let job = new_job(Phase::Apply);
    let live = Job::new(NewJob { id: JobId::from_u128(9), ..new_job(Phase::Execute) }, Ms(1));
    let advance = |version, job| by_hand(version, PlanEvent::Advance, job);
    let moved = PlanMoveError::Moved { plan: Box::new(plan.clone()) };
    let elsewhere = NewJob { plan: PlanId::from_u128(1), ..job };
    let job_says = |refused| Err(PlanMoveError::Job(refused));
    assert_eq!(
        of(&advance(7, Some(elsewhere)), &plan, None, None),
        job_says(JobTransitionRejection::OtherPlan { plan: PLAN })
    );
    assert_eq!(of(&advance(6, Some(job)), &plan, None, None), Err(moved.clone()));
    assert_eq!(of(&advance(8, None), &plan, Some(&live), None), Err(moved));
    let busy = job_says(JobTransitionRejection::PlanBusy { job: live.id });
    assert_eq!(of(&advance(7, Some(job)), &plan, Some(&live), None), busy);
    let state = PlanState::Apply(ApplyState::Queued);
    let wrong = NewJob { phase: Phase::Execute, ..job };
    assert_eq!(
        of(&advance(7, Some(wrong)), &plan, None, None),
        job_says(JobTransitionRejection::PlanNotReady { state })
    );
    // The job tells that the move was made before.
    let known = Job::new(job, Ms(1));
    assert_eq!(of(&advance(6, Some(job)), &plan, Some(&known), Some(&known)), Ok(TransitionResult::Before));
    let taken = job_says(JobTransitionRejection::IdTaken { job: JOB });
    assert_eq!(of(&advance(7, Some(job)), &plan, None, Some(&known)), taken);
    assert_eq!(of(&advance(6, Some(wrong)), &plan, None, Some(&known)), taken);
}

#[test]
fn a_plan_waits_for_one_job_only() {
    for state in PlanState::ALL {
        let plan = plan_in(state);
        for phase in Phase::ALL {
            let waits = state.word() == "queued" && state.phase() == phase;
            let expected = if waits { Ok(()) } else { Err(JobTransitionRejection::PlanNotReady { state }) };
            assert_eq!(plan.waits_for(&new_job(phase)), expected, "{state} {phase}");
        }
    }
    let other = NewJob { plan: PlanId::from_u128(1), ..new_job(Phase::Strategize) };
    assert_eq!(
        plan_in(PlanState::FIRST).waits_for(&other),
        Err(JobTransitionRejection::OtherPlan { plan: PLAN })
    );
}
