//! Cancelled jobs: the acknowledgement comes after everything has stopped, and nothing comes after it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::{ChangesetState, JobState, Phase, PlanId};
use store::{ChangesetStore, JobStore};
use sync::CancelReason;
use worker::{ChangesetHandle, JobRun, PlanError};

use crate::support::{
    LEASE, Machine, Note, change, rival, run_ready_tasks, script, stubborn, succeed, until, until_cancelled,
};

#[tokio::test]
async fn a_cancel_is_heard_by_hint_and_acknowledged_when_the_run_has_stopped() {
    let machine = Machine::new();
    let (worker, runner, id) = machine.begun(until_cancelled()).await;
    machine.store.cancel(id, "changed my mind").await.unwrap();
    assert_eq!(machine.state(id).await, JobState::Running, "requested is not acknowledged");
    worker.hint();
    let job = machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(job.cancel.unwrap().reason, "changed my mind");
    let notes = [Note::Began, Note::Returned, Note::WoundDown(Some(CancelReason::User))];
    assert_eq!(runner.notes(id), notes);
    assert_eq!(worker.report().cancelled, 1);
}

#[tokio::test]
async fn a_cancel_that_no_hint_told_of_is_heard_by_the_next_heartbeat() {
    let machine = Machine::new();
    let (_worker, _runner, id) = machine.begun(until_cancelled()).await;
    machine.store.cancel(id, "").await.unwrap();
    machine.pass(LEASE / 6).await;
    machine.wait_for(id, JobState::Cancelled).await;
}

#[tokio::test]
async fn a_runner_that_ignores_the_cancel_is_abandoned_and_the_cancel_acknowledged() {
    let machine = Machine::new();
    let (worker, runner, id) = machine.begun(stubborn()).await;
    machine.store.cancel(id, "").await.unwrap();
    worker.hint();
    run_ready_tasks().await;
    assert_eq!(machine.state(id).await, JobState::Running, "it has its time to stop");
    machine.pass(Duration::from_secs(5)).await;
    machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(runner.notes(id), [Note::Began, Note::WoundDown(Some(CancelReason::User))]);
}

#[tokio::test]
async fn nothing_is_recorded_after_the_acknowledgement_and_what_was_before_is_kept() {
    let machine = Machine::new();
    let kept: Arc<Mutex<Vec<ChangesetHandle>>> = Arc::default();
    let body = {
        let kept = Arc::clone(&kept);
        script(move |run: &JobRun| {
            let kept = Arc::clone(&kept);
            Box::pin(async move {
                let handle = run.context().start_changeset().await.unwrap();
                handle.record(change(1)).await.unwrap();
                kept.lock().unwrap().push(handle);
                run.scope().cancelled().await;
                Ok(())
            })
        })
    };
    let (worker, runner) = machine.capturing_worker(body);
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it recorded", || kept.lock().unwrap().len() == 1).await;
    machine.store.cancel(id, "").await.unwrap();
    worker.hint();
    machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(runner.began(), 1);
    let before = machine.store.changesets(PlanId::from_u128(1)).await.unwrap();
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].state, ChangesetState::Interrupted);
    assert_eq!(before[0].entries.len(), 2, "the recorded one, and the one captured while winding down");
    let handle = kept.lock().unwrap().pop().unwrap();
    let cancelled = PlanError::Cancelled { reason: CancelReason::User };
    assert_eq!(handle.record(change(2)).await.unwrap_err(), cancelled);
    assert_eq!(handle.close().await.unwrap_err(), cancelled);
    assert_eq!(machine.store.changesets(PlanId::from_u128(1)).await.unwrap(), before);
}

#[tokio::test]
async fn the_acknowledgement_waits_for_an_effect_that_is_inside() {
    let machine = Machine::new();
    let effects = Arc::new(Mutex::new(Vec::new()));
    let body = {
        let effects = Arc::clone(&effects);
        script(move |run: &JobRun| {
            let effects = Arc::clone(&effects);
            Box::pin(async move {
                effects.lock().unwrap().push(run.enter().unwrap());
                run.scope().cancelled().await;
                assert!(run.enter().is_err(), "no effect begins any more");
                Ok(())
            })
        })
    };
    let (worker, runner) = machine.worker(body);
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it is inside", || effects.lock().unwrap().len() == 1).await;
    machine.store.cancel(id, "").await.unwrap();
    worker.hint();
    until("the runner returned", || runner.notes(id).contains(&Note::Returned)).await;
    run_ready_tasks().await;
    assert_eq!(machine.state(id).await, JobState::Running, "an effect is still inside");
    effects.lock().unwrap().clear();
    machine.wait_for(id, JobState::Cancelled).await;
}

#[tokio::test]
async fn a_cancel_beats_a_success_that_was_not_stored_yet() {
    let machine = Machine::new();
    let store = Arc::clone(&machine.store);
    let (worker, _runner) = machine.worker(script(move |run| {
        let store = Arc::clone(&store);
        Box::pin(async move {
            store.cancel(run.job().id, "at the last moment").await.unwrap();
            Ok(())
        })
    }));
    let id = machine.enqueue(1).await;
    worker.hint();
    machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!((worker.report().succeeded, worker.report().cancelled), (0, 1));
}

#[tokio::test]
async fn after_the_seal_a_cancel_is_refused_and_the_job_ends_as_it_does() {
    let machine = Machine::new();
    let store = Arc::clone(&machine.store);
    let (worker, _runner) = machine.worker(script(move |run| {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let effect = run.enter().unwrap();
            store.seal(&effect, &run.claim()).await.unwrap();
            assert!(store.cancel(run.job().id, "too late").await.is_err());
            Ok(())
        })
    }));
    let id = machine.enqueue_phase(1, Phase::Apply).await;
    worker.hint();
    machine.wait_for(id, JobState::Succeeded).await;
}

/// Cancels its own run, and waits for that.
fn cancels_itself(reason: CancelReason) -> crate::support::Script {
    script(move |run| {
        Box::pin(async move {
            run.token().cancel(reason);
            run.scope().cancelled().await;
            Ok(())
        })
    })
}

#[tokio::test]
async fn a_cancel_from_inside_the_run_is_told_to_the_store() {
    let machine = Machine::new();
    let (worker, _runner) = machine.worker(cancels_itself(CancelReason::User));
    let id = machine.enqueue(1).await;
    worker.hint();
    let job = machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(job.cancel.unwrap().reason, "asked for by the user");
}

#[tokio::test]
async fn a_deadline_or_a_limit_ends_the_job_as_failed() {
    for (reason, why) in [(CancelReason::Timeout, "deadline passed"), (CancelReason::Limit, "limit reached")]
    {
        let machine = Machine::new();
        let (worker, _runner) = machine.worker(cancels_itself(reason));
        let id = machine.enqueue(1).await;
        worker.hint();
        let job = machine.wait_for(id, JobState::Failed).await;
        assert_eq!(job.why.as_deref(), Some(why));
    }
}

#[tokio::test]
async fn a_cancel_left_by_a_dead_owner_is_finished_by_the_next_without_running_the_job() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let dead = rival(99);
    machine.store.claim(&dead).await.unwrap().unwrap();
    machine.store.cancel(id, "").await.unwrap();
    machine.store.free_leases(dead.worker).await.unwrap();
    let (worker, runner) = machine.worker(succeed());
    worker.hint();
    let job = machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!((job.fence.0, runner.began()), (2, 0));
    assert_eq!(runner.notes(id), [Note::WoundDown(Some(CancelReason::User))]);
}

#[tokio::test]
async fn ten_cancels_at_once_are_one() {
    let machine = Machine::new();
    let (worker, _runner, id) = machine.begun(until_cancelled()).await;
    for n in 0..10 {
        machine.store.cancel(id, &format!("cancel {n}")).await.unwrap();
        worker.hint();
    }
    let job = machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(job.cancel.unwrap().reason, "cancel 0");
    assert_eq!(worker.report().cancelled, 1);
}
