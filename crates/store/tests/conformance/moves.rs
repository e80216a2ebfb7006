//! Moves of plans: by hand, and with their jobs.

use domain::{
    ApplyState, BadTransition, CallNumber, ChangesetState, ClaimRequest, EventKind, Fence, Initiator,
    JobState, JobTransitionRejection, MoveRecord, NewCall, NewJob, Phase, Plan, PlanEvent, PlanId, PlanState,
    PlanTransitionRejection, REVERSIONS_MAX, WorkState,
};
use serde_json::json;
use store::{JobEnd, JobStoreError, PlanMove, PlanStoreError};

use super::bench::{Bench, constrained, failed};
use super::sample::{
    ANN, BOB, LEASE, STRANGER, call_end, change, changeset_id, job_id, new_call, new_job, plan_id, plan_job,
    reasons, request,
};
use super::walk::{a_move, by_hand, create, processing, queued, reach, retold, start, start_by};

async fn state(bench: &Bench, n: u64) -> PlanState {
    bench.plan(plan_id(n)).await.state
}

pub(crate) async fn every_move_by_hand_is_made_or_refused_as_the_table_says(bench: Bench) {
    let mut n = 0;
    for state in PlanState::ALL {
        for event in PlanEvent::ALL {
            n += 1;
            reach(&bench, n, state).await;
            let asked = a_move(&bench, n, event).await;
            let before = bench.plan_snapshot(plan_id(n)).await;
            let (plan, jobs) =
                (bench.plan(plan_id(n)).await, bench.store.jobs(Some(plan_id(n))).await.unwrap());
            let moved = bench.store.move_plan(asked.clone()).await;
            match state.next(event) {
                Ok(next) if event.is_by_hand() && !state.has_live_job() => {
                    let moved = moved.unwrap();
                    let expected = plan.moved(event, Vec::new(), moved.updated).unwrap();
                    assert_eq!((moved.state, &moved), (next, &expected), "{state} {event}");
                    assert_eq!(bench.plan(plan_id(n)).await, moved);
                    let live = bench.store.jobs(Some(plan_id(n))).await.unwrap().pop().unwrap();
                    let queued = asked.job.map(|job| (job.id, job.phase, JobState::Queued));
                    assert_eq!(queued.is_some(), next.is_queued());
                    assert!(queued.is_none_or(|queued| (live.id, live.phase, live.state) == queued));
                    assert_eq!(retold(&bench, plan_id(n)).await, (next, u64::from(moved.attempt)));
                }
                legal => {
                    let busy = legal.is_ok() && event.is_by_hand();
                    let expected = if busy {
                        PlanStoreError::Job(JobTransitionRejection::PlanBusy { job: jobs.last().unwrap().id })
                    } else {
                        PlanStoreError::Refused(PlanTransitionRejection::BadTransition(BadTransition {
                            state,
                            event,
                        }))
                    };
                    assert_eq!(moved, Err(expected), "{state} {event}");
                    assert_eq!(bench.plan_snapshot(plan_id(n)).await, before, "{state} {event}");
                    assert_eq!(bench.store.jobs(Some(plan_id(n))).await.unwrap(), jobs);
                }
            }
        }
    }
}

pub(crate) async fn a_move_from_an_old_version_shows_the_plan_as_it_stands(bench: Bench) {
    reach(&bench, 1, PlanState::Strategize(WorkState::Complete)).await;
    let asked = a_move(&bench, 1, PlanEvent::Advance).await;
    let before = bench.snapshot().await;
    let plan = Box::new(bench.plan(plan_id(1)).await);
    for version in [plan.version - 1, plan.version + 1, 0, u64::MAX] {
        let moved = bench.store.move_plan(PlanMove { version, ..asked.clone() }).await;
        assert_eq!(moved, Err(PlanStoreError::Moved { plan: plan.clone() }), "{version}");
    }
    assert_eq!(bench.snapshot().await, before);
    bench.store.move_plan(asked).await.unwrap();
}

pub(crate) async fn a_move_asked_for_again_is_made_once(bench: Bench) {
    reach(&bench, 1, PlanState::Strategize(WorkState::Complete)).await;
    let asked = a_move(&bench, 1, PlanEvent::Advance).await;
    let moved = bench.store.move_plan(asked.clone()).await.unwrap();
    let before = bench.snapshot().await;
    assert_eq!(bench.store.move_plan(asked.clone()).await, Ok(moved));
    assert_eq!(bench.snapshot().await, before);
    start(&bench, 1).await;
    let now = bench.plan(plan_id(1)).await;
    assert_eq!(bench.store.move_plan(asked).await, Ok(now), "it is the plan as it stands");
}

pub(crate) async fn a_move_and_its_job_are_made_together_or_not_at_all(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    bench.enqueue(new_job(7)).await;
    let asked = a_move(&bench, 1, PlanEvent::Advance).await;
    let wanted = asked.job.unwrap();
    let before = bench.snapshot().await;
    let state = PlanState::Apply(ApplyState::Queued);
    let cases = [
        (NewJob { phase: Phase::Execute, ..wanted }, JobTransitionRejection::PlanNotReady { state }),
        (NewJob { plan: plan_id(9), ..wanted }, JobTransitionRejection::OtherPlan { plan: plan_id(1) }),
        (NewJob { id: new_job(7).id, ..wanted }, JobTransitionRejection::IdTaken { job: new_job(7).id }),
        (
            plan_job(1, 2, Phase::Apply),
            JobTransitionRejection::IdTaken { job: plan_job(1, 2, Phase::Apply).id },
        ),
    ];
    for (job, why) in cases {
        let moved = bench.store.move_plan(PlanMove { job: Some(job), ..asked.clone() }).await;
        assert_eq!(moved, Err(PlanStoreError::Job(why)));
        assert_eq!(bench.snapshot().await, before, "{why}");
    }
    let cancel = PlanMove { event: PlanEvent::Cancel, ..asked };
    let state = PlanState::Execute(WorkState::Cancelled);
    let not_ready = PlanStoreError::Job(JobTransitionRejection::PlanNotReady { state });
    assert_eq!(bench.store.move_plan(cancel).await, Err(not_ready), "nothing is queued for a cancelled plan");
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn a_plan_that_nobody_made_is_not_moved(bench: Bench) {
    bench.enqueue(new_job(1)).await;
    for plan in [STRANGER, plan_id(1)] {
        let asked = PlanMove {
            plan,
            version: 1,
            event: PlanEvent::Cancel,
            by: Initiator::User,
            job: None,
            request: json!(null),
            decisions: Vec::new(),
            record: None,
            contents: Vec::new(),
            spec: None,
        };
        assert_eq!(bench.store.move_plan(asked).await, Err(PlanStoreError::NotFound { plan }));
    }
}

pub(crate) async fn a_move_keeps_what_the_person_chose(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    let chosen = json!({"only": ["src/é.rs#2"]});
    let asked = PlanMove { request: chosen.clone(), ..a_move(&bench, 1, PlanEvent::Advance).await };
    assert_eq!(bench.store.move_plan(asked).await.unwrap().request, chosen);
    let owner = start(&bench, 1).await;
    assert_eq!(bench.plan(plan_id(1)).await.request, chosen, "it is there for whoever applies");
    owner.end(constrained()).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.request, chosen);
    by_hand(&bench, 1, PlanEvent::Reapply).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.request, json!(null), "the next move has its own");
}

pub(crate) async fn a_plan_without_its_job_can_be_given_one_and_no_other(bench: Bench) {
    reach(&bench, 1, PlanState::Strategize(WorkState::Complete)).await;
    let refused = |state| Err(JobStoreError::Refused(JobTransitionRejection::PlanNotReady { state }));
    let at = PlanState::Strategize(WorkState::Complete);
    assert_eq!(bench.store.enqueue(plan_job(1, 2, Phase::Execute)).await, refused(at));
    let asked = PlanMove { job: None, ..a_move(&bench, 1, PlanEvent::Advance).await };
    let at = bench.store.move_plan(asked).await.unwrap().state;
    assert_eq!(at, PlanState::Execute(WorkState::Queued));
    let before = bench.snapshot().await;
    for phase in [Phase::Strategize, Phase::Apply] {
        assert_eq!(bench.store.enqueue(plan_job(1, 2, phase)).await, refused(at));
    }
    assert_eq!(bench.snapshot().await, before);
    bench.enqueue(plan_job(1, 2, Phase::Execute)).await;
    start(&bench, 1).await;
    assert_eq!(state(&bench, 1).await, PlanState::Execute(WorkState::Processing));
}

/// Changes to be recorded with a move, under names that begin with `n`.
fn a_record(n: u64) -> MoveRecord {
    MoveRecord {
        changeset: changeset_id(n),
        call: NewCall { tool: "carry_over".to_owned(), ..new_call(1, "revise") },
        end: call_end(),
        changes: vec![change(n), change(n + 1)],
    }
}

pub(crate) async fn changes_that_come_with_a_move_are_recorded_with_it_or_not_at_all(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    let revise = a_move(&bench, 1, PlanEvent::Revise).await;
    let before = bench.snapshot().await;
    let late = PlanMove { version: 1, record: Some(a_record(50)), ..revise.clone() };
    assert!(bench.store.move_plan(late).await.is_err());
    assert_eq!(bench.snapshot().await, before, "what is refused records nothing");

    let asked = PlanMove { record: Some(a_record(50)), ..revise };
    let plan = bench.store.move_plan(asked.clone()).await.unwrap();
    assert_eq!((plan.state, plan.attempt), (PlanState::Execute(WorkState::Queued), 2));
    let after = bench.snapshot().await;
    assert_eq!(bench.store.move_plan(asked).await.unwrap(), plan, "asked again, it is done once");
    assert_eq!(bench.snapshot().await, after);
    let entries = bench.store.entries(plan_id(1), 2).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.call).collect::<Vec<_>>(), [CallNumber(1); 2]);
    assert_eq!(bench.store.entries(plan_id(1), 1).await.unwrap(), []);
    let set = bench.changesets(plan_id(1)).await.into_iter().find(|set| set.id == changeset_id(50)).unwrap();
    assert_eq!((set.state, set.attempt, set.entries.len()), (ChangesetState::Closed, 2, 2));
    let calls = bench.store.calls(plan_id(1)).await.unwrap();
    let call = calls.last().unwrap();
    assert_eq!((call.new.attempt, call.no, call.end.clone()), (2, CallNumber(1), Some(call_end())));
    let kinds: Vec<EventKind> = bench.events(plan_id(1)).await.iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&EventKind::ChangesetClosed), "{kinds:?}");

    // The next owner's numbers follow, and an amendment is of the present attempt.
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    let amend = PlanMove { record: Some(a_record(60)), ..a_move(&bench, 1, PlanEvent::Amend).await };
    let plan = bench.store.move_plan(amend).await.unwrap();
    assert_eq!((plan.state, plan.attempt), (PlanState::Execute(WorkState::Complete), 2));
    let entries = bench.store.entries(plan_id(1), 2).await.unwrap();
    assert_eq!(
        entries.iter().map(|entry| (entry.no, entry.call.0)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 2), (4, 2)]
    );
}

pub(crate) async fn a_cancelled_plan_is_left_by_a_revision_and_by_taking_its_work(bench: Bench) {
    for (n, event, to) in [
        (1, PlanEvent::Revise, PlanState::Execute(WorkState::Queued)),
        (2, PlanEvent::Accept, PlanState::Execute(WorkState::Complete)),
    ] {
        reach(&bench, n, PlanState::Execute(WorkState::Cancelled)).await;
        assert_eq!(by_hand(&bench, n, event).await.unwrap().state, to);
    }
    reach(&bench, 3, PlanState::Strategize(WorkState::Cancelled)).await;
    assert!(by_hand(&bench, 3, PlanEvent::Revise).await.is_err(), "nothing was done yet");
}

pub(crate) async fn attempts_and_reversions_are_counted_and_reversions_end(bench: Bench) {
    reach(&bench, 1, PlanState::Execute(WorkState::Complete)).await;
    let counts = |plan: Plan| (plan.attempt, plan.reversions);
    assert_eq!(counts(by_hand(&bench, 1, PlanEvent::Again).await.unwrap()), (2, 0));
    start(&bench, 1).await.end(failed()).await.unwrap();
    assert_eq!(counts(by_hand(&bench, 1, PlanEvent::Retry).await.unwrap()), (2, 0), "a retry is no attempt");
    start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    for reversion in 1..=REVERSIONS_MAX {
        let plan = by_hand(&bench, 1, PlanEvent::Revert).await.unwrap();
        assert_eq!(counts(plan), (u32::from(reversion) + 2, reversion));
        start(&bench, 1).await.end(JobEnd::Succeeded).await.unwrap();
    }
    let spent = by_hand(&bench, 1, PlanEvent::Revert).await;
    assert_eq!(spent, Err(PlanStoreError::Refused(PlanTransitionRejection::ReversionsSpent)));
    assert_eq!(counts(bench.plan(plan_id(1)).await), (5, 3));
}

pub(crate) async fn a_plan_follows_its_job(bench: Bench) {
    let after = |phase, work: WorkState, apply: ApplyState| match phase {
        Phase::Strategize => PlanState::Strategize(work),
        Phase::Execute => PlanState::Execute(work),
        Phase::Apply => PlanState::Apply(apply),
    };
    for (n, phase) in (1..).step_by(10).zip(Phase::ALL) {
        let owner = processing(&bench, n, phase).await;
        assert_eq!(state(&bench, n).await, after(phase, WorkState::Processing, ApplyState::Processing));
        owner.release().await.unwrap();
        assert_eq!(state(&bench, n).await, after(phase, WorkState::Queued, ApplyState::Queued));
        start(&bench, n).await.end(JobEnd::Succeeded).await.unwrap();
        assert_eq!(state(&bench, n).await, after(phase, WorkState::Complete, ApplyState::Applied));

        processing(&bench, n + 1, phase).await.end(failed()).await.unwrap();
        assert_eq!(state(&bench, n + 1).await, after(phase, WorkState::Errored, ApplyState::Errored));

        processing(&bench, n + 2, phase).await.end(constrained()).await.unwrap();
        assert_eq!(state(&bench, n + 2).await, after(phase, WorkState::Errored, ApplyState::Constrained));

        let owner = processing(&bench, n + 3, phase).await;
        bench.store.cancel(owner.claim.job, "enough").await.unwrap();
        assert_eq!(state(&bench, n + 3).await, after(phase, WorkState::Processing, ApplyState::Processing));
        owner.end(JobEnd::Cancelled).await.unwrap();
        assert_eq!(state(&bench, n + 3).await, after(phase, WorkState::Cancelled, ApplyState::Cancelled));

        queued(&bench, n + 4, phase).await;
        let waiting = bench.store.jobs(Some(plan_id(n + 4))).await.unwrap().pop().unwrap();
        bench.store.cancel(waiting.id, "enough").await.unwrap();
        assert_eq!(state(&bench, n + 4).await, after(phase, WorkState::Cancelled, ApplyState::Cancelled));
        for n in n..n + 5 {
            let plan = bench.plan(plan_id(n)).await;
            assert_eq!(retold(&bench, plan.id).await, (plan.state, u64::from(plan.attempt)));
        }
    }
}

pub(crate) async fn a_constrained_plan_says_why_until_it_moves_on(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Apply).await;
    let ended = owner.end(constrained()).await.unwrap();
    assert_eq!(ended.state, JobState::Failed);
    assert_eq!(bench.plan(plan_id(1)).await.constrained_by, reasons());
    assert_eq!(owner.end(constrained()).await, Ok(ended), "asked for again, it is answered again");
    let other = JobEnd::Constrained { reasons: reasons().split_off(1) };
    let state = JobState::Failed;
    assert_eq!(owner.end(other).await, Err(JobStoreError::Refused(JobTransitionRejection::Final { state })));
    by_hand(&bench, 1, PlanEvent::Reapply).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.constrained_by, []);
}

pub(crate) async fn a_takeover_leaves_the_plan_where_it_is_and_giving_up_fails_it(bench: Bench) {
    processing(&bench, 1, Phase::Execute).await;
    let plan = bench.plan(plan_id(1)).await;
    for death in 1..=3 {
        bench.pass(LEASE);
        let next = start_by(&bench, 1, BOB).await;
        assert_eq!(next.claim.fence, Fence(death + 1));
        assert_eq!(bench.plan(plan_id(1)).await, plan, "a takeover is no event of the plan");
    }
    bench.pass(LEASE);
    let only = Some(plan_id(1));
    assert_eq!(bench.claim(ClaimRequest { only, ..request(ANN) }).await, None);
    let given_up = bench.plan(plan_id(1)).await;
    assert_eq!(given_up.state, PlanState::Execute(WorkState::Errored));
    let history = bench.history(plan_id(1)).await;
    let told: Vec<_> =
        history.records().map(|record| (record.error.message(), record.recovery.action)).collect();
    assert_eq!(told, [("its worker died 4 times", domain::RecoveryAction::Ask)]);
    assert_eq!(retold(&bench, plan_id(1)).await.0, given_up.state);
}

pub(crate) async fn a_heartbeat_is_no_write_to_the_plan(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let before = bench.plan_snapshot(plan_id(1)).await;
    owner.heartbeat().await.unwrap();
    owner.settled_node().await.unwrap();
    bench.store.free_leases(ANN).await.unwrap();
    assert_eq!(bench.plan_snapshot(plan_id(1)).await, before);
}

pub(crate) async fn of_eight_who_advance_a_plan_one_does(bench: Bench) {
    for n in 1..=50 {
        reach(&bench, n, PlanState::Strategize(WorkState::Complete)).await;
        let asked = a_move(&bench, n, PlanEvent::Advance).await;
        let moved = bench.on_threads(8, |thread| {
            let job = plan_job(n, 10 + thread as u64, Phase::Execute);
            bench.store.move_plan(PlanMove { job: Some(job), ..asked.clone() })
        });
        let winners: Vec<&Plan> = moved.iter().flatten().collect();
        assert_eq!(winners.len(), 1);
        for refused in moved.iter().filter_map(|moved| moved.as_ref().err()) {
            assert_eq!(*refused, PlanStoreError::Moved { plan: Box::new(winners[0].clone()) });
        }
        assert_eq!(bench.store.jobs(Some(plan_id(n))).await.unwrap().len(), 2, "one job was queued");
    }
}

pub(crate) async fn one_move_asked_for_by_eight_is_made_once(bench: Bench) {
    for n in 1..=50 {
        reach(&bench, n, PlanState::Strategize(WorkState::Complete)).await;
        let asked = a_move(&bench, n, PlanEvent::Advance).await;
        let moved = bench.on_threads(8, |_| bench.store.move_plan(asked.clone()));
        assert_eq!(moved, vec![Ok(bench.plan(plan_id(n)).await); 8]);
        assert_eq!(bench.store.jobs(Some(plan_id(n))).await.unwrap().len(), 2);
    }
}

pub(crate) async fn of_a_claim_and_a_cancel_the_plan_follows_the_one_that_won(bench: Bench) {
    for n in 1..=50 {
        create(&bench, n).await;
        let job = job_id(n * 1_000 + 1);
        bench.on_threads(2, async |thread| {
            if thread == 0 {
                let only: Option<PlanId> = Some(plan_id(n));
                bench.claim(ClaimRequest { only, ..request(ANN) }).await;
            } else {
                bench.store.cancel(job, "enough").await.unwrap();
            }
        });
        let (plan, job) = (bench.plan(plan_id(n)).await, bench.store.job(job).await.unwrap());
        let expected = match job.state {
            JobState::Running => PlanState::Strategize(WorkState::Processing),
            _ => PlanState::Strategize(WorkState::Cancelled),
        };
        assert_eq!(plan.state, expected, "{job:?}");
        assert_eq!(retold(&bench, plan.id).await.0, expected);
    }
}
