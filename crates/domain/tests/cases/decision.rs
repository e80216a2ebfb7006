//! Decisions: bounded, named, resting only upon what stands; and what a correction of one would touch.

use std::collections::BTreeSet;

use domain::decision::{
    ALTERNATIVE_CHARS_MAX, ALTERNATIVES_MAX, CHOSEN_CHARS_MAX, DEPENDS_ON_MAX, GUIDANCE_CHARS_MAX,
};
use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::json;

use crate::manual_transition::new_plan;
use crate::sample::{ANN, BOB, PLAN, claim_by, take_over_by};

fn choice(chosen: &str) -> NewDecision {
    NewDecision::new(1, Phase::Strategize, DecisionKind::Choice, chosen)
}

fn kept(seq: u32, new: &NewDecision) -> NewDecision {
    Decision::new(PLAN, seq, new.clone(), WallMs(1)).new
}

/// The answer of `check` when decisions 2 to 9 stand, 5 excepted.
fn checked(seq: u32, new: &NewDecision) -> Result<(), DecisionInvalid> {
    new.check(seq, |other| Ok((2..=9).contains(&other) && other != 5))
}

#[test]
fn a_decision_is_bounded_and_has_a_parent() {
    let fits = NewDecision {
        parent: Some(2),
        question: "é".repeat(500),
        alternatives: vec![Alternative { text: "other".to_owned(), why_not: "slow".to_owned() }],
        depends_on: vec![1, 2],
        node: Some("code".to_owned()),
        at_entry: 7,
        confidence: Some(1.0),
        ..choice("c")
    };
    assert_eq!(kept(3, &fits), fits, "what fits is kept as it is");
    assert_eq!(kept(1, &fits).parent, None, "the first has none");
    assert_eq!(kept(9, &NewDecision { parent: None, ..fits.clone() }).parent, Some(1));
    let alternative = Alternative { text: "t".repeat(1001), why_not: "w".repeat(1001) };
    let long = NewDecision {
        question: "é".repeat(501),
        chosen: "c".repeat(4001),
        rationale: "r".repeat(8001),
        alternatives: vec![alternative; ALTERNATIVES_MAX + 1],
        depends_on: vec![2, 1, 2],
        ..fits
    };
    let cut = kept(3, &long);
    assert_eq!(cut.question, "é".repeat(499) + "…");
    assert_eq!((cut.chosen.chars().count(), cut.rationale.chars().count()), (CHOSEN_CHARS_MAX, 8000));
    assert_eq!(cut.alternatives.len(), ALTERNATIVES_MAX);
    let chars = |text: &str| (text.chars().count(), text.ends_with('…'));
    let of_alternative = (ALTERNATIVE_CHARS_MAX, true);
    assert_eq!(chars(&cut.alternatives[0].text), of_alternative);
    assert_eq!(chars(&cut.alternatives[0].why_not), of_alternative);
    assert_eq!(cut.depends_on, [1, 2], "each once, in order");
    let guidance = NewDecision { kind: DecisionKind::Guidance, chosen: "g".repeat(16 * 1024 + 1), ..long };
    assert_eq!(
        chars(&kept(3, &guidance).chosen),
        (GUIDANCE_CHARS_MAX, true),
        "guidance is kept nowhere else"
    );
}

#[test]
fn a_decision_rests_only_upon_lower_ones_that_stand() {
    let follows = |parent| NewDecision { parent: Some(parent), ..choice("so") };
    let depends = |depends_on: &[u32]| NewDecision { depends_on: depends_on.to_vec(), ..choice("so") };
    assert_eq!(checked(8, &choice("so")), Ok(()));
    for stands in [1, 2, 7] {
        assert_eq!(checked(8, &follows(stands)), Ok(()));
        assert_eq!(checked(8, &depends(&[1, stands])), Ok(()));
    }
    for none in [0, 5, 8, 9, u32::MAX] {
        assert_eq!(checked(8, &follows(none)), Err(DecisionInvalid::Parent { parent: none }));
        assert_eq!(checked(8, &depends(&[1, none])), Err(DecisionInvalid::DependsOn { seq: none }));
    }
    assert_eq!(checked(1, &follows(9)), Ok(()), "the first has no parent, whatever it names");
    assert_eq!(checked(1, &depends(&[1])), Err(DecisionInvalid::DependsOn { seq: 1 }));
    assert_eq!(checked(9, &depends(&[3; DEPENDS_ON_MAX])), Ok(()));
    let count = DEPENDS_ON_MAX + 1;
    assert_eq!(checked(9, &depends(&vec![3; count])), Err(DecisionInvalid::TooManyDependsOn { count }));
    for confidence in [-0.1, 1.1, f32::NAN, f32::INFINITY] {
        let new = NewDecision { confidence: Some(confidence), ..choice("so") };
        assert_eq!(checked(3, &new), Err(DecisionInvalid::Confidence), "{confidence}");
    }
    for confidence in [0.0, 0.5, 1.0] {
        assert_eq!(checked(3, &NewDecision { confidence: Some(confidence), ..choice("so") }), Ok(()));
    }
}

#[test]
fn a_decision_is_named_by_its_plan_its_number_and_its_time() {
    let name = |plan: PlanId, seq, at| Decision::new(plan, seq, choice("so"), WallMs(at)).id;
    assert_eq!(name(PLAN, 3, 1_000), name(PLAN, 3, 1_000), "asked again it has the same");
    let others = [name(PLAN, 4, 1_000), name(PlanId::from_u128(9), 3, 1_000), name(PLAN, 3, 1_001)];
    assert!(others.into_iter().all(|other| other != name(PLAN, 3, 1_000)));
    assert!(name(PLAN, 3, 1_000) < name(PLAN, 3, 1_001), "in the order of their times");
    let at = WallMs(1_731_700_000_000);
    let of_plan = PlanId::from_u128(u128::from(at.0) << 80);
    let beginning = |id: String| id.chars().take(10).collect::<String>();
    assert_eq!(beginning(name(PLAN, 3, at.0).to_string()), beginning(of_plan.to_string()), "as plans are");
}

#[test]
fn what_was_kept_before_decisions_had_more_to_say_is_read() {
    let old = json!({
        "parent": 1, "attempt": 1, "phase": "strategize", "kind": "choice", "question": "", "chosen": "so",
        "rationale": "", "confidence": null,
    });
    let new = NewDecision { parent: Some(1), ..choice("so") };
    assert_eq!(serde_json::from_value::<NewDecision>(old.clone()).unwrap(), new);
    assert_eq!(serde_json::to_value(&new).unwrap(), old, "nothing is stored of what was not said");
}

#[test]
fn decisions_of_one_step_name_each_other_by_their_places() {
    let of_step = |parent, depends_on: &[usize]| StepDecision {
        new: NewDecision { parent: Some(2), depends_on: vec![1], ..choice("so") },
        parent,
        depends_on: depends_on.to_vec(),
    };
    let numbered = of_step(Some(0), &[1, 0]).assign_numbers(2, 7).unwrap();
    assert_eq!((numbered.parent, numbered.depends_on), (Some(7), vec![1, 8, 7]));
    let alone = of_step(None, &[]).assign_numbers(2, 7).unwrap();
    assert_eq!((alone.parent, alone.depends_on), (Some(2), vec![1]));
    for other in [2, 3, usize::MAX] {
        let not_before = Err(DecisionInvalid::NotBefore { place: 2, other });
        assert_eq!(of_step(Some(other), &[]).assign_numbers(2, 7), not_before);
        assert_eq!(of_step(None, &[0, other]).assign_numbers(2, 7), not_before);
    }
}

/// A plan whose strategize runs, with its prompt and these choices.
fn deciding(choices: &[&str]) -> (PlanRecord, Claim) {
    let mut record = PlanRecord::default();
    let prompt = NewDecision { kind: DecisionKind::Prompt, ..choice("make") };
    let job = NewJob { id: JobId::from_u128(1), plan: PLAN, phase: Phase::Strategize, not_before: Ms(0) };
    record.create(new_plan(), vec![prompt], job, Ms(1)).unwrap();
    let claim = record.apply_job_event(job.id, &claim_by(ANN), Ms(2)).unwrap().claim();
    for chosen in choices {
        record.decide(&claim, choice(chosen), Ms(3)).unwrap();
    }
    (record, claim)
}

#[test]
fn of_several_decisions_all_are_recorded_or_none() {
    let (mut record, claim) = deciding(&["a"]);
    let before = record.clone();
    let bad = NewDecision { parent: Some(9), ..choice("c") };
    let refused = record.decide_all(&claim, vec![choice("b").into(), bad.into()], Ms(4));
    assert_eq!(refused, Err(DecideError::Invalid(DecisionInvalid::Parent { parent: 9 })));
    assert_eq!(record, before);
    let rests = StepDecision { parent: Some(0), depends_on: vec![0], ..choice("c").into() };
    let made = record.decide_all(&claim, vec![choice("b").into(), rests], Ms(4)).unwrap();
    assert_eq!(
        made.iter().map(|made| (made.seq, made.new.parent)).collect::<Vec<_>>(),
        [(3, Some(1)), (4, Some(3))]
    );
    assert_eq!(record.decisions()[2..], made);
    let lost = record.apply_job_event(claim.job, &take_over_by(BOB), Ms(40_000)).map(|_| ());
    assert_eq!(lost, Ok(()));
    let late = record.decide_all(&claim, vec![choice("d").into()], Ms(40_001));
    assert!(matches!(late, Err(DecideError::LeaseLost(_))), "{late:?}");
}

#[test]
fn a_revert_is_decided_and_all_but_the_prompt_gives_way_to_it() {
    let (mut record, claim) = deciding(&["a", "b"]);
    let fence = claim.fence;
    record.apply_job_event(claim.job, &JobEvent::Succeed { fence }, Ms(4)).unwrap();
    let revert = |record: &PlanRecord, job: u128, decisions: Vec<NewDecision>| ManualTransition {
        record: None,
        spec: None,
        version: record.row().unwrap().version,
        event: PlanEvent::Revert,
        job: Some(NewJob {
            id: JobId::from_u128(job),
            plan: PLAN,
            phase: Phase::Strategize,
            not_before: Ms(0),
        }),
        request: json!(null),
        decisions,
    };
    let before = record.clone();
    let on_what_gives_way = NewDecision { depends_on: vec![2], ..choice("x") };
    let refused = record.move_plan(&revert(&before, 2, vec![on_what_gives_way]), Initiator::User, Ms(5));
    assert_eq!(refused, Err(PlanMoveError::Refused(DecisionInvalid::DependsOn { seq: 2 }.into())));
    assert_eq!(record, before, "neither the move nor a decision");

    let guidance = NewDecision { kind: DecisionKind::Guidance, ..choice("smaller steps") };
    record.move_plan(&revert(&before, 2, vec![guidance]), Initiator::User, Ms(5)).unwrap();
    let told = |record: &PlanRecord| -> Vec<(u32, DecisionKind, u32, Option<u32>)> {
        let decisions = record.decisions().iter();
        decisions.map(|d| (d.seq, d.new.kind, d.new.attempt, d.superseded_by)).collect()
    };
    use DecisionKind::{Choice, Guidance, Prompt, Reversion};
    let expected = [
        (1, Prompt, 1, None),
        (2, Choice, 1, Some(4)),
        (3, Choice, 1, Some(4)),
        (4, Reversion, 2, None),
        (5, Guidance, 2, None),
    ];
    assert_eq!(told(&record), expected);
    let superseded =
        record.events().iter().find(|event| event.kind == EventKind::DecisionSuperseded).unwrap();
    assert_eq!(superseded.data, json!({"by": 4, "seqs": [2, 3]}));
}

/// Decision n + 1 follows from, and depends on, some before it; some were superseded.
fn plans_decisions() -> impl Strategy<Value = Vec<Decision>> {
    let one = (any::<u32>(), proptest::collection::vec(any::<u32>(), 0..4), proptest::bool::weighted(0.2));
    proptest::collection::vec(one, 1..40).prop_map(|all| {
        let made = (1..).zip(all).map(|(seq, (parent, depends_on, is_superseded)): (u32, _)| {
            let below = |n: u32| n % (seq - 1).max(1) + 1;
            let depends_on = if seq == 1 { Vec::new() } else { depends_on.into_iter().map(below).collect() };
            let new = NewDecision { parent: Some(below(parent)), depends_on, ..choice("so") };
            let mut decision = Decision::new(PLAN, seq, new, WallMs(1));
            decision.superseded_by = (is_superseded && seq > 1).then_some(99);
            decision
        });
        made.collect()
    })
}

/// Adds whatever touches the set until nothing does.
fn closure(decisions: &[Decision], seq: u32) -> BTreeSet<u32> {
    let live: Vec<&Decision> = decisions.iter().filter(|decision| decision.superseded_by.is_none()).collect();
    let mut found: BTreeSet<u32> = live.iter().map(|decision| decision.seq).filter(|n| *n == seq).collect();
    loop {
        let touches = |decision: &&&Decision| {
            let NewDecision { parent, depends_on, .. } = &decision.new;
            parent.is_some_and(|parent| found.contains(&parent))
                || depends_on.iter().any(|n| found.contains(n))
        };
        // Backwards, so that one round is not enough.
        let more: Vec<u32> = live.iter().rev().filter(touches).map(|decision| decision.seq).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

#[test]
fn over_a_diamond_of_influences_each_is_affected_once() {
    let decided = |seq, parent, depends_on: &[u32]| {
        let new = NewDecision { parent: Some(parent), depends_on: depends_on.to_vec(), ..choice("so") };
        Decision::new(PLAN, seq, new, WallMs(1))
    };
    let mut decisions = vec![
        decided(1, 0, &[]),
        decided(2, 1, &[]),
        decided(3, 2, &[]),
        decided(4, 1, &[2]),
        decided(5, 3, &[4]),
        decided(6, 1, &[]),
    ];
    assert_eq!(affected(&decisions, 2), BTreeSet::from([2, 3, 4, 5]));
    assert_eq!(affected(&decisions, 6), BTreeSet::from([6]));
    assert_eq!(affected(&decisions, 7), BTreeSet::new());
    decisions[3].superseded_by = Some(6);
    assert_eq!(affected(&decisions, 2), BTreeSet::from([2, 3, 5]), "what was superseded is left out");
    assert_eq!(affected(&decisions, 4), BTreeSet::new());
}

proptest! {
    #[test]
    fn what_a_correction_touches_is_the_naive_closure(decisions in plans_decisions(), of in 1..41_u32) {
        prop_assert_eq!(affected(&decisions, of), closure(&decisions, of));
    }
}
