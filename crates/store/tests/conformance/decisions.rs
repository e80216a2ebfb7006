//! Decisions: numbered without gaps, resting upon what stands, superseded by a revert.

use domain::{
    Alternative, Decision, DecisionId, DecisionInvalid, DecisionKind, EventKind, NewDecision, Phase,
    PlanEvent, PlanState, PlanTransitionRejection, StepDecision, WorkState,
};
use serde_json::json;
use store::{DecisionStoreError, JobEnd, PlanMove, PlanStoreError};

use super::bench::{Bench, failed};
use super::sample::{decision, new_plan, plan_id, plan_job, prompt};
use super::walk::{a_move, by_hand, create, kinds_after, processing, reach, retold, start};

async fn decisions(bench: &Bench) -> Vec<Decision> {
    bench.store.decisions(plan_id(1)).await.unwrap()
}

fn invalid<T>(why: DecisionInvalid) -> Result<T, DecisionStoreError> {
    Err(DecisionStoreError::Invalid(why))
}

fn guidance(text: &str) -> NewDecision {
    NewDecision { kind: DecisionKind::Guidance, ..decision(text) }
}

pub(crate) async fn decisions_are_numbered_and_bounded(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    let long = NewDecision {
        kind: DecisionKind::Strategy,
        question: "q".repeat(501),
        chosen: "c".repeat(4001),
        rationale: "r".repeat(8001),
        alternatives: vec![Alternative { text: "é".to_owned(), why_not: "w".repeat(2_000) }; 21],
        depends_on: vec![2, 1],
        node: Some("plan/é".to_owned()),
        at_entry: 1 << 40,
        ..decision("x")
    };
    for (seq, new) in
        [(2, decision("so")), (3, long), (4, NewDecision { parent: Some(3), ..decision("then") })]
    {
        let kept = owner.decide(new.clone()).await.unwrap();
        assert_eq!(kept, Decision::new(plan_id(1), seq, new, kept.created));
        assert_eq!(decisions(&bench).await.last(), Some(&kept));
    }
    let told = bench.events(plan_id(1)).await;
    let told: Vec<_> = told.iter().filter(|event| event.kind == EventKind::DecisionRecorded).collect();
    assert_eq!(told.iter().map(|event| event.data["seq"].clone()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let ids: std::collections::BTreeSet<DecisionId> =
        decisions(&bench).await.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 4, "each has a name of its own");
}

pub(crate) async fn a_decision_that_rests_upon_nothing_is_refused_and_takes_no_number(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    owner.decide(decision("so")).await.unwrap();
    let before = bench.snapshot().await;
    let itself = NewDecision { parent: Some(3), ..decision("x") };
    assert_eq!(owner.decide(itself).await, invalid(DecisionInvalid::Parent { parent: 3 }));
    let cases = [
        (NewDecision { parent: Some(9), ..decision("x") }, DecisionInvalid::Parent { parent: 9 }),
        (NewDecision { parent: Some(0), ..decision("x") }, DecisionInvalid::Parent { parent: 0 }),
        (NewDecision { depends_on: vec![1, 9, 2], ..decision("x") }, DecisionInvalid::DependsOn { seq: 9 }),
        (NewDecision { depends_on: vec![0], ..decision("x") }, DecisionInvalid::DependsOn { seq: 0 }),
        (NewDecision { confidence: Some(1.5), ..decision("x") }, DecisionInvalid::Confidence),
    ];
    for (new, why) in cases {
        assert_eq!(owner.decide(new.clone()).await, invalid(why));
        assert_eq!(owner.decide_all(vec![decision("y").into(), new.clone().into()]).await, invalid(why));
        assert_eq!(bench.store.add_guidance(plan_id(1), new).await, invalid(why));
        assert_eq!(bench.snapshot().await, before, "{why}");
    }
    assert_eq!(owner.decide(decision("next")).await.unwrap().seq, 3);
}

pub(crate) async fn several_decisions_are_recorded_in_one_step_or_none(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    let on = |parent: Option<usize>, depends_on: &[usize]| StepDecision {
        parent,
        depends_on: depends_on.to_vec(),
        ..decision("part").into()
    };
    // A user's message meanwhile moves the numbers, and the links with them.
    bench.store.add_guidance(plan_id(1), guidance("mind the tests")).await.unwrap();
    let five = vec![
        decision("strategy").into(),
        on(Some(0), &[]),
        on(Some(0), &[1]),
        on(None, &[1, 2]),
        on(Some(3), &[]),
    ];
    let made = owner.decide_all(five).await.unwrap();
    let links: Vec<_> =
        made.iter().map(|one| (one.seq, one.new.parent, one.new.depends_on.clone())).collect();
    let expected = [
        (3, Some(1), vec![]),
        (4, Some(3), vec![]),
        (5, Some(3), vec![4]),
        (6, Some(1), vec![4, 5]),
        (7, Some(6), vec![]),
    ];
    assert_eq!(links, expected);
    assert_eq!(decisions(&bench).await[2..], made);

    let before = bench.snapshot().await;
    let later = owner.decide_all(vec![decision("a").into(), on(Some(1), &[])]).await;
    assert_eq!(later, invalid(DecisionInvalid::NotBefore { place: 1, other: 1 }));
    let bad = NewDecision { parent: Some(99), ..decision("c") };
    let refused = owner.decide_all(vec![decision("a").into(), decision("b").into(), bad.into()]).await;
    assert_eq!(refused, invalid(DecisionInvalid::Parent { parent: 99 }));
    assert_eq!(bench.snapshot().await, before, "of three none, and no number is lost");
    assert_eq!(owner.decide_all(Vec::new()).await, Ok(Vec::new()));
    assert_eq!(owner.decide(decision("next")).await.unwrap().seq, 8);
}

pub(crate) async fn decisions_that_eight_take_have_no_gaps_and_those_of_a_step_stand_together(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    let made = bench.on_threads(8, |thread| {
        let (owner, bench) = (owner.clone(), bench.clone());
        async move {
            let mut firsts = Vec::new();
            for _ in 0..5 {
                if thread % 2 == 0 {
                    bench.store.add_guidance(plan_id(1), guidance("faster")).await.unwrap();
                } else {
                    let made =
                        owner.decide_all(vec![decision("a").into(), decision("b").into()]).await.unwrap();
                    firsts.push((made[0].seq, made[1].seq));
                }
            }
            firsts
        }
    });
    assert!(made.iter().flatten().all(|(first, second)| second - first == 1), "{made:?}");
    let numbers: Vec<u32> = decisions(&bench).await.iter().map(|one| one.seq).collect();
    assert_eq!(numbers, (1..=61).collect::<Vec<_>>());
}

pub(crate) async fn what_a_person_says_is_kept_where_the_plan_stands_unless_it_is_final(bench: Bench) {
    for (n, state) in (1..).zip(PlanState::ALL) {
        reach(&bench, n, state).await;
        let before = bench.snapshot().await;
        let said = NewDecision { attempt: 7, phase: Phase::Apply, ..guidance(&"g".repeat(16_384)) };
        let answer = bench.store.add_guidance(plan_id(n), said.clone()).await;
        if state.is_final() {
            assert_eq!(answer, Err(DecisionStoreError::Final { plan: plan_id(n), state }));
            assert_eq!(bench.snapshot().await, before, "{state}");
            continue;
        }
        let expected = NewDecision { attempt: 1, phase: state.phase(), ..said };
        assert_eq!(answer.unwrap().new, expected, "{state}");
        assert_eq!(bench.plan(plan_id(n)).await.state, state, "the plan stays where it is");
    }
    let nobody = plan_id(99);
    let answer = bench.store.add_guidance(nobody, guidance("hello")).await;
    assert_eq!(answer, Err(DecisionStoreError::NotFound { plan: nobody }));
}

pub(crate) async fn a_revert_supersedes_all_but_the_prompt_in_its_step(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    owner.decide(decision("a")).await.unwrap();
    owner.decide(decision("b")).await.unwrap();
    owner.end(JobEnd::Succeeded).await.unwrap();
    let told = bench.events(plan_id(1)).await.len();
    let reversion = NewDecision { kind: DecisionKind::Reversion, ..decision("the parser is the cause") };
    let carried = vec![guidance("smaller steps"), reversion.clone()];
    let asked = PlanMove { decisions: carried, ..a_move(&bench, 1, PlanEvent::Revert).await };
    let plan = bench.store.move_plan(asked.clone()).await.unwrap();
    let after = bench.snapshot().await;
    assert_eq!(bench.store.move_plan(asked).await, Ok(plan.clone()), "asked again it is known by its job");
    assert_eq!(bench.snapshot().await, after);

    let kept = decisions(&bench).await;
    let superseded: Vec<_> = kept.iter().map(|one| (one.seq, one.superseded_by)).collect();
    assert_eq!(superseded, [(1, None), (2, Some(5)), (3, Some(5)), (4, None), (5, None)]);
    let expected = NewDecision { attempt: plan.attempt, ..reversion };
    assert_eq!((kept[4].new.clone(), plan.attempt), (expected, 2));
    let kinds = [
        EventKind::PlanMoved,
        EventKind::DecisionRecorded,
        EventKind::DecisionRecorded,
        EventKind::DecisionSuperseded,
        EventKind::JobMoved,
    ];
    assert_eq!(kinds_after(&bench, plan_id(1), told).await, kinds);
    let events = bench.events(plan_id(1)).await;
    let event = events.iter().find(|event| event.kind == EventKind::DecisionSuperseded).unwrap();
    assert_eq!(event.data, json!({"by": 5, "seqs": [2, 3]}));

    // A superseded decision carries nothing any more.
    let owner = start(&bench, 1).await;
    let stale = NewDecision { parent: Some(2), ..decision("x") };
    assert_eq!(owner.decide(stale).await, invalid(DecisionInvalid::Parent { parent: 2 }));
    assert_eq!(owner.decide(NewDecision { parent: Some(5), ..decision("x") }).await.unwrap().seq, 6);
    assert_eq!(retold(&bench, plan_id(1)).await.0, PlanState::Strategize(WorkState::Processing));
}

pub(crate) async fn a_revert_that_carries_no_reversion_writes_one(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    owner.decide(decision("a")).await.unwrap();
    owner.end(failed()).await.unwrap();
    by_hand(&bench, 1, PlanEvent::Revert).await.unwrap();
    let kept = decisions(&bench).await;
    let told: Vec<_> = kept.iter().map(|one| (one.new.kind, one.new.parent, one.superseded_by)).collect();
    use DecisionKind::{Choice, Prompt, Reversion};
    assert_eq!(told, [(Prompt, None, None), (Choice, Some(1), Some(3)), (Reversion, Some(1), None)]);
}

pub(crate) async fn a_move_and_what_is_decided_with_it_are_made_together_or_not_at_all(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Strategize).await;
    owner.decide(decision("a")).await.unwrap();
    owner.end(failed()).await.unwrap();
    let before = bench.snapshot().await;
    let on_what_gives_way = NewDecision { depends_on: vec![2], ..guidance("as before") };
    let asked = a_move(&bench, 1, PlanEvent::Revert).await;
    let revert = PlanMove { decisions: vec![guidance("x"), on_what_gives_way.clone()], ..asked };
    let refused = PlanTransitionRejection::Decision(DecisionInvalid::DependsOn { seq: 2 });
    assert_eq!(bench.store.move_plan(revert).await, Err(PlanStoreError::Refused(refused)));
    assert_eq!(bench.snapshot().await, before);

    // A retry takes nothing away, so the same may be said with it.
    let asked = a_move(&bench, 1, PlanEvent::Retry).await;
    let retry = PlanMove { decisions: vec![on_what_gives_way], ..asked };
    let old = PlanMove { version: 1, ..retry.clone() };
    bench.store.move_plan(old).await.unwrap_err();
    assert_eq!(bench.snapshot().await, before, "a move that is refused decides nothing");
    bench.store.move_plan(retry).await.unwrap();
    let kept = decisions(&bench).await;
    assert_eq!((kept.len(), kept.iter().filter(|one| one.is_live()).count()), (3, 3));
    assert_eq!((kept[2].new.kind, kept[2].new.attempt), (DecisionKind::Guidance, 1));
}

pub(crate) async fn a_plan_with_a_decision_that_rests_upon_nothing_is_not_made(bench: Bench) {
    create(&bench, 2).await;
    let before = bench.snapshot().await;
    let bad = NewDecision { depends_on: vec![2], ..decision("x") };
    let made = bench.store.create(new_plan(1), vec![prompt(), bad], plan_job(1, 1, Phase::Strategize)).await;
    let refused = PlanTransitionRejection::Decision(DecisionInvalid::DependsOn { seq: 2 });
    assert_eq!(made, Err(PlanStoreError::Refused(refused)));
    assert_eq!(bench.snapshot().await, before);
    create(&bench, 1).await;
}
