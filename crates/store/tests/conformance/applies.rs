//! Applies: sealed against cancels, ended once, and with their end the job and the plan.

use domain::{
    ApplyEnd, ApplyId, ApplyKind, ApplyRecord, ApplyStage, ApplyState, ClaimRequest, EventKind, Hash,
    JobState, JobTransitionRejection, NewApply, Phase, PlanEvent, PlanState, WorkState,
};
use store::{JobEnd, JobStoreError, PlanStoreError};

use super::bench::{Bench, Owner, failed};
use super::sample::{ANN, BOB, LEASE, an_apply, plan_id, reasons, request};
use super::walk::{by_hand, kinds_after, processing, reach, retold, start, start_by};

const APPLIED: PlanState = PlanState::Apply(ApplyState::Applied);

fn id(n: u64) -> ApplyId {
    ApplyId::from_u128(n.into())
}

fn apply(n: u64) -> NewApply {
    an_apply(n, 1, ApplyKind::Apply)
}

fn undo(n: u64) -> NewApply {
    an_apply(n, 1, ApplyKind::Undo)
}

fn refused<T>(refused: JobTransitionRejection) -> Result<T, JobStoreError> {
    Err(JobStoreError::Refused(refused))
}

/// Ann applies plan 1 and has sealed it as apply 1.
async fn sealed(bench: &Bench) -> Owner {
    let owner = processing(bench, 1, Phase::Apply).await;
    owner.seal_apply(apply(1)).await.unwrap();
    owner
}

async fn end(bench: &Bench, n: u64, end: ApplyEnd) -> bool {
    bench.store.end_apply(id(n), end).await.unwrap()
}

async fn stage(bench: &Bench, n: u64) -> ApplyStage {
    bench.store.apply(id(n)).await.unwrap().unwrap().stage
}

pub(crate) async fn a_sealed_apply_is_kept_as_it_was_given(bench: Bench) {
    let owner = sealed(&bench).await;
    let kept = bench.store.apply(id(1)).await.unwrap().unwrap();
    assert_eq!(kept, ApplyRecord::sealed(apply(1), kept.started));
    assert_eq!(bench.store.applies(plan_id(1)).await, Ok(vec![kept]));
    assert_eq!(bench.store.apply(id(9)).await, Ok(None));
    let job = bench.store.job(owner.claim.job).await.unwrap();
    assert_eq!((job.state, job.sealed_at), (JobState::Running, Some(bench.now())));
}

pub(crate) async fn a_seal_asked_for_again_does_no_more_and_another_is_refused(bench: Bench) {
    let owner = sealed(&bench).await;
    let before = bench.snapshot().await;
    bench.pass(LEASE / 2);
    assert_eq!(owner.seal_apply(apply(1)).await, Ok(()));
    let other = NewApply { net_hash: Hash::from_content(b"other"), ..apply(1) };
    assert_eq!(owner.seal_apply(other).await, refused(JobTransitionRejection::ApplyTaken { apply: id(1) }));
    assert_eq!(bench.snapshot().await, before);
    // One that has ended is not sealed again: whoever asks so late must not write.
    assert!(end(&bench, 1, ApplyEnd::NeverBegan).await);
    let before = bench.snapshot().await;
    assert_eq!(
        owner.seal_apply(apply(1)).await,
        refused(JobTransitionRejection::ApplyTaken { apply: id(1) })
    );
    assert_eq!(bench.snapshot().await, before);
    assert_eq!(owner.seal_apply(apply(2)).await, Ok(()));
}

pub(crate) async fn a_cancel_before_the_seal_wins(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Apply).await;
    bench.store.cancel(owner.claim.job, "enough").await.unwrap();
    assert_eq!(owner.seal_apply(apply(1)).await, refused(JobTransitionRejection::CancelRequested));
    assert_eq!(bench.store.applies(plan_id(1)).await, Ok(Vec::new()));
    owner.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Apply(ApplyState::Cancelled));
}

pub(crate) async fn a_seal_before_the_cancel_wins(bench: Bench) {
    let owner = sealed(&bench).await;
    let before = bench.snapshot().await;
    assert_eq!(
        bench.store.cancel(owner.claim.job, "enough").await,
        refused(JobTransitionRejection::CancelTooLate)
    );
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn of_a_cancel_and_a_seal_of_an_apply_one_wins(bench: Bench) {
    for n in 1..=50 {
        let owner = processing(&bench, n, Phase::Apply).await;
        let won = bench.on_threads(2, async |thread| {
            if thread == 0 {
                owner.seal_apply(an_apply(n, n, ApplyKind::Apply)).await.is_ok()
            } else {
                bench.store.cancel(owner.claim.job, "enough").await.is_ok()
            }
        });
        assert_ne!(won[0], won[1]);
        assert_eq!(bench.store.apply(id(n)).await.unwrap().is_some(), won[0]);
        assert_eq!(bench.store.job(owner.claim.job).await.unwrap().sealed_at.is_some(), won[0]);
    }
}

pub(crate) async fn only_an_apply_of_the_owners_plan_is_sealed(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let phase = Phase::Execute;
    assert_eq!(owner.seal_apply(apply(1)).await, refused(JobTransitionRejection::NotApply { phase }));
    let owner = processing(&bench, 2, Phase::Apply).await;
    let before = bench.snapshot().await;
    assert!(owner.seal_apply(apply(1)).await.is_err(), "plan 1 is not the owner's");
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn an_apply_that_is_applied_ends_its_job_and_its_plan(bench: Bench) {
    let owner = sealed(&bench).await;
    let events = bench.events(plan_id(1)).await.len();
    assert!(end(&bench, 1, ApplyEnd::Applied).await);
    assert_eq!(stage(&bench, 1).await, ApplyStage::Applied);
    assert!(bench.store.apply(id(1)).await.unwrap().unwrap().ended.is_some());
    assert_eq!(bench.store.job(owner.claim.job).await.unwrap().state, JobState::Succeeded);
    let plan = bench.plan(plan_id(1)).await;
    assert_eq!((plan.state, plan.undone_at), (APPLIED, None));
    assert_eq!(kinds_after(&bench, plan_id(1), events).await, [EventKind::JobMoved, EventKind::PlanMoved]);
    // The owner that comes to say the same is answered; a second end does nothing.
    assert_eq!(owner.end(JobEnd::Succeeded).await.unwrap().state, JobState::Succeeded);
    let before = bench.snapshot().await;
    for again in [ApplyEnd::Applied, ApplyEnd::RolledBack(reasons()), ApplyEnd::NeverBegan] {
        assert!(!end(&bench, 1, again).await);
        assert_eq!(bench.snapshot().await, before);
    }
    assert!(!end(&bench, 9, ApplyEnd::Applied).await, "nobody knows it");
}

pub(crate) async fn an_apply_ends_once_whoever_says_so(bench: Bench) {
    for n in 1..=20 {
        let owner = processing(&bench, n, Phase::Apply).await;
        owner.seal_apply(an_apply(n, n, ApplyKind::Apply)).await.unwrap();
        let first = bench.on_threads(8, |_| end(&bench, n, ApplyEnd::Applied));
        assert_eq!(first.iter().filter(|first| **first).count(), 1);
        assert_eq!(bench.plan(plan_id(n)).await.state, APPLIED);
        assert_eq!(retold(&bench, plan_id(n)).await.0, APPLIED);
    }
}

pub(crate) async fn an_apply_that_was_rolled_back_constrains_its_plan(bench: Bench) {
    let owner = sealed(&bench).await;
    assert!(end(&bench, 1, ApplyEnd::RolledBack(reasons())).await);
    assert_eq!(stage(&bench, 1).await, ApplyStage::RolledBack);
    assert_eq!(bench.store.job(owner.claim.job).await.unwrap().state, JobState::Failed);
    let plan = bench.plan(plan_id(1)).await;
    assert_eq!(plan.state, PlanState::Apply(ApplyState::Constrained));
    assert_eq!(plan.constrained_by, reasons());
    by_hand(&bench, 1, PlanEvent::Reapply).await.unwrap();
    let owner = start(&bench, 1).await;
    owner.seal_apply(apply(2)).await.unwrap();
    assert!(end(&bench, 2, ApplyEnd::Applied).await);
    let kept = bench.store.applies(plan_id(1)).await.unwrap();
    let stages: Vec<_> = kept.iter().map(|apply| (apply.id, apply.stage)).collect();
    assert_eq!(stages, [(id(1), ApplyStage::RolledBack), (id(2), ApplyStage::Applied)]);
}

pub(crate) async fn an_apply_that_never_began_breaks_its_seal(bench: Bench) {
    let owner = sealed(&bench).await;
    let plan = bench.plan(plan_id(1)).await;
    assert!(end(&bench, 1, ApplyEnd::NeverBegan).await);
    assert_eq!(stage(&bench, 1).await, ApplyStage::NeverBegan);
    let job = bench.store.job(owner.claim.job).await.unwrap();
    assert_eq!((job.state, job.sealed_at), (JobState::Running, None));
    assert_eq!(bench.plan(plan_id(1)).await, plan, "the plan is where it was");
    assert!(bench.store.cancel(owner.claim.job, "enough").await.is_ok(), "a cancel comes through");
    owner.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Apply(ApplyState::Cancelled));
}

pub(crate) async fn a_seal_that_another_apply_needs_is_not_broken(bench: Bench) {
    let owner = sealed(&bench).await;
    owner.seal_apply(apply(2)).await.unwrap();
    assert!(end(&bench, 1, ApplyEnd::NeverBegan).await);
    assert_eq!(
        bench.store.cancel(owner.claim.job, "enough").await,
        refused(JobTransitionRejection::CancelTooLate)
    );
    assert!(end(&bench, 2, ApplyEnd::NeverBegan).await);
    assert!(bench.store.cancel(owner.claim.job, "enough").await.is_ok());
}

pub(crate) async fn an_apply_is_ended_for_an_owner_that_died(bench: Bench) {
    let dead = sealed(&bench).await;
    bench.pass(LEASE);
    let next = start_by(&bench, 1, BOB).await;
    assert!(end(&bench, 1, ApplyEnd::Applied).await);
    assert_eq!(bench.plan(plan_id(1)).await.state, APPLIED);
    assert!(dead.end(JobEnd::Succeeded).await.is_err(), "the dead one lost it to the next");
    assert_eq!(next.end(JobEnd::Succeeded).await.unwrap().state, JobState::Succeeded);
}

pub(crate) async fn an_apply_whose_job_was_given_up_is_applied_all_the_same(bench: Bench) {
    let owner = sealed(&bench).await;
    for _ in 1..=4 {
        bench.pass(LEASE);
        let only = Some(plan_id(1));
        bench.claim(ClaimRequest { only, ..request(ANN) }).await;
    }
    assert_eq!(bench.store.job(owner.claim.job).await.unwrap().state, JobState::Failed);
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Apply(ApplyState::Errored));
    assert!(end(&bench, 1, ApplyEnd::Applied).await, "the journal was finished");
    let plan = bench.plan(plan_id(1)).await;
    assert_eq!((plan.state, retold(&bench, plan.id).await.0), (APPLIED, APPLIED));
}

pub(crate) async fn a_plan_whose_apply_has_not_ended_is_not_moved_by_hand(bench: Bench) {
    let owner = sealed(&bench).await;
    owner.end(failed()).await.unwrap();
    let before = bench.snapshot().await;
    let too_late = PlanStoreError::Job(JobTransitionRejection::CancelTooLate);
    assert_eq!(by_hand(&bench, 1, PlanEvent::Cancel).await, Err(too_late));
    for event in [PlanEvent::Retry, PlanEvent::Revert] {
        let refused = PlanStoreError::Job(JobTransitionRejection::Sealed);
        assert_eq!(by_hand(&bench, 1, event).await, Err(refused), "{event}");
    }
    assert_eq!(bench.snapshot().await, before);
    assert!(end(&bench, 1, ApplyEnd::RolledBack(reasons())).await);
    assert!(by_hand(&bench, 1, PlanEvent::Cancel).await.is_ok());
}

pub(crate) async fn an_undo_leaves_the_plan_applied_and_says_when(bench: Bench) {
    reach(&bench, 1, APPLIED).await;
    let applied = bench.plan(plan_id(1)).await;
    bench.store.begin_apply(undo(2)).await.unwrap();
    bench.store.begin_apply(undo(2)).await.unwrap();
    assert_eq!((bench.plan(plan_id(1)).await, stage(&bench, 2).await), (applied.clone(), ApplyStage::Sealed));
    let events = bench.events(plan_id(1)).await.len();
    assert!(end(&bench, 2, ApplyEnd::Applied).await);
    let undone = bench.plan(plan_id(1)).await;
    assert!(undone.undone_at.is_some() && undone.version > applied.version);
    assert_eq!(undone.state, APPLIED);
    assert_eq!(kinds_after(&bench, plan_id(1), events).await, [EventKind::PlanUndone]);

    bench.store.begin_apply(apply(3)).await.unwrap();
    assert!(end(&bench, 3, ApplyEnd::Applied).await);
    let again = bench.plan(plan_id(1)).await;
    assert_eq!((again.state, again.undone_at), (APPLIED, None), "applied again, it stands");
    assert_eq!(kinds_after(&bench, plan_id(1), events).await, [EventKind::PlanUndone, EventKind::PlanUndone]);
    let told = bench.events(plan_id(1)).await.split_off(events);
    assert_eq!(told.iter().map(|event| event.data["undone"].clone()).collect::<Vec<_>>(), [true, false]);
}

pub(crate) async fn an_undo_that_did_not_come_about_changes_nothing(bench: Bench) {
    reach(&bench, 1, APPLIED).await;
    let before = (bench.plan(plan_id(1)).await, bench.events(plan_id(1)).await);
    for (n, how) in [(2, ApplyEnd::NeverBegan), (3, ApplyEnd::RolledBack(reasons()))] {
        bench.store.begin_apply(undo(n)).await.unwrap();
        assert!(end(&bench, n, how).await);
    }
    assert_eq!((bench.plan(plan_id(1)).await, bench.events(plan_id(1)).await), before);
}

pub(crate) async fn an_apply_that_failed_before_its_seal_leaves_no_apply(bench: Bench) {
    processing(&bench, 1, Phase::Apply).await.end(failed()).await.unwrap();
    assert_eq!(bench.store.applies(plan_id(1)).await, Ok(Vec::new()));
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Apply(ApplyState::Errored));
    by_hand(&bench, 1, PlanEvent::Retry).await.unwrap();
    let owner = start(&bench, 1).await;
    owner.seal_apply(apply(1)).await.unwrap();
    assert!(end(&bench, 1, ApplyEnd::Applied).await);
    assert_ne!(bench.plan(plan_id(1)).await.state, PlanState::Strategize(WorkState::Queued));
}

pub(crate) async fn applies_that_have_not_ended_are_listed_and_no_others(bench: Bench) {
    assert_eq!(bench.store.open_applies().await, Ok(Vec::new()));
    reach(&bench, 2, APPLIED).await;
    for new in [an_apply(7, 2, ApplyKind::Undo), an_apply(4, 2, ApplyKind::Undo)] {
        bench.store.begin_apply(new).await.unwrap();
    }
    sealed(&bench).await;
    let open = async || {
        let open = bench.store.open_applies().await.unwrap();
        open.iter().map(|apply| (apply.id, apply.plan, apply.kind)).collect::<Vec<_>>()
    };
    let (first, fourth, seventh) = (
        (id(1), plan_id(1), ApplyKind::Apply),
        (id(4), plan_id(2), ApplyKind::Undo),
        (id(7), plan_id(2), ApplyKind::Undo),
    );
    assert_eq!(open().await, [first, fourth, seventh]);
    let ends = [(1, ApplyEnd::Applied), (4, ApplyEnd::NeverBegan)];
    for (n, how) in ends {
        assert!(end(&bench, n, how).await);
    }
    assert_eq!(open().await, [seventh]);
}
