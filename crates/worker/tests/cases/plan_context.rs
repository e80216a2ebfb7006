//! Changes recorded through contexts and handles, from many threads, before and after the end.

use std::sync::Arc;

use domain::{
    CallEnd, CallState, ChangesetError, ChangesetState, Claim, ErrorClass, NewCall, PlanId, RecordedChange,
    ToolCall,
};
use serde_json::Value;
use store::{CallAuthority, CallStore, ChangesetStore, JobStore, StoreError};
use sync::{CancelReason, CancellationToken, EffectGate};
use worker::{EndedCall, PlanError, PlanExecutionContext};

use crate::support::{Call, Fault, LEASE, Machine, change, rival};

struct Bench {
    machine: Machine,
    claim: Claim,
    token: CancellationToken,
    gate: EffectGate,
    context: PlanExecutionContext,
}

async fn bench() -> Bench {
    let machine = Machine::new();
    machine.enqueue(1).await;
    let request = rival(1);
    let claim = machine.store.claim(&request).await.unwrap().unwrap().claim();
    let (token, gate) = (CancellationToken::new(), EffectGate::new());
    let context = PlanExecutionContext::new(
        claim,
        token.observe(),
        gate.clone(),
        Arc::clone(&machine.store) as _,
        Arc::clone(&machine.ids) as _,
    );
    Bench { machine, claim, token, gate, context }
}

#[tokio::test]
async fn record_change_without_an_open_changeset_says_what_the_seed_says() {
    let Bench { context, .. } = bench().await;
    let error = context.record_change(change(1)).await.unwrap_err();
    assert_eq!(error, PlanError::NoActiveChangeset);
    assert_eq!(error.to_string(), "No active changeset. Call start_changeset() first.");
    let handle = context.start_changeset().await.unwrap();
    handle.close().await.unwrap();
    assert_eq!(context.record_change(change(1)).await.unwrap_err(), PlanError::NoActiveChangeset);
}

#[tokio::test]
async fn a_handle_records_into_its_own_changeset_and_record_change_into_the_latest_open() {
    let Bench { context, .. } = bench().await;
    let first = context.start_changeset().await.unwrap();
    let second = context.start_changeset().await.unwrap();
    let recorded = |changeset, seq, no| RecordedChange { changeset, seq, no };
    assert_eq!(first.record(change(1)).await.unwrap(), recorded(first.id(), 1, 1));
    assert_eq!(context.record_change(change(2)).await.unwrap(), recorded(second.id(), 1, 2));
    second.close().await.unwrap();
    assert_eq!(context.record_change(change(3)).await.unwrap(), recorded(first.id(), 2, 3));
    assert_eq!(context.plan(), PlanId::from_u128(1));
    assert!(format!("{context:?}").contains("PlanExecutionContext"));
}

#[tokio::test]
async fn a_closed_changeset_hands_the_entry_back_and_closing_again_answers_the_same() {
    let Bench { context, .. } = bench().await;
    let handle = context.start_changeset().await.unwrap();
    handle.record(change(1)).await.unwrap();
    let closed = handle.close().await.unwrap();
    assert_eq!((closed.id, closed.entries), (handle.id(), 1));
    assert_eq!(handle.clone().close().await.unwrap(), closed);
    let error = handle.record(change(2)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("changeset {} is closed", handle.id()));
    assert_eq!(error, PlanError::ChangesetClosed { id: handle.id(), entry: Box::new(change(2)) });
}

#[tokio::test]
async fn the_same_change_again_is_recorded_once_and_another_under_its_id_is_refused() {
    let Bench { context, machine, .. } = bench().await;
    let handle = context.start_changeset().await.unwrap();
    let first = handle.record(change(1)).await.unwrap();
    assert_eq!(handle.record(change(1)).await.unwrap(), first);
    let mut other = change(2);
    other.id = change(1).id;
    let error = handle.record(other).await.unwrap_err();
    assert!(matches!(error, PlanError::InvalidEntry(_)), "{error}");
    assert_eq!(error.class(), ErrorClass::Bug);
    let sets = machine.store.changesets(PlanId::from_u128(1)).await.unwrap();
    assert_eq!(sets[0].entries.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entries_of_many_tasks_land_in_their_own_changesets_without_gaps() {
    let Bench { context, machine, .. } = bench().await;
    let tasks: Vec<_> = (0..8_u128)
        .map(|task| {
            let context = context.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for round in 0..8_u128 {
                    let handle = context.start_changeset().await.unwrap();
                    for n in 0..50_u128 {
                        handle.record(change((task * 8 + round) * 50 + n)).await.unwrap();
                    }
                    assert_eq!(handle.close().await.unwrap().entries, 50);
                    ids.push((handle.id(), (task * 8 + round) * 50));
                }
                ids
            })
        })
        .collect();
    let mut expected = std::collections::BTreeMap::new();
    for task in tasks {
        expected.extend(task.await.unwrap());
    }
    let sets = machine.store.changesets(PlanId::from_u128(1)).await.unwrap();
    assert_eq!(sets.len(), 64);
    for set in sets {
        let base = expected[&set.id];
        assert_eq!(set.state, ChangesetState::Closed);
        let entries: Vec<_> = set.entries.iter().map(|entry| (entry.seq, entry.id)).collect();
        let own: Vec<_> = (0..50_u32).map(|n| (n + 1, change(base + u128::from(n)).id)).collect();
        assert_eq!(entries, own);
    }
}

#[tokio::test]
async fn nothing_is_recorded_once_the_scope_is_cancelled_or_the_gate_closed() {
    let Bench { context, token, .. } = bench().await;
    let handle = context.start_changeset().await.unwrap();
    token.cancel(CancelReason::User);
    let cancelled = PlanError::Cancelled { reason: CancelReason::User };
    assert_eq!(handle.record(change(1)).await.unwrap_err(), cancelled);
    assert_eq!(context.start_changeset().await.unwrap_err(), cancelled);
    assert_eq!(cancelled.class(), ErrorClass::Cancelled);
    let Bench { context, gate, .. } = bench().await;
    let handle = context.start_changeset().await.unwrap();
    let _finisher = gate.close(CancelReason::Timeout).unwrap();
    let cancelled = PlanError::Cancelled { reason: CancelReason::Timeout };
    assert_eq!(handle.record(change(1)).await.unwrap_err(), cancelled);
    assert_eq!(cancelled.to_string(), "the plan was cancelled: deadline passed");
}

fn new_call(node: &str) -> NewCall {
    NewCall {
        attempt: 1,
        node: node.to_owned(),
        tool: "run_command".to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    }
}

fn call_end(state: CallState) -> CallEnd {
    CallEnd {
        state,
        duration_ms: 0,
        exit: None,
        error: None,
        result: Value::Null,
        isolation: None,
        stdout: None,
        stderr: None,
    }
}

#[tokio::test]
async fn the_end_of_a_call_and_what_it_changed_are_one_step_into_the_changeset_of_the_handle() {
    let Bench { context, machine, claim, token, gate, .. } = bench().await;
    let (first, second) =
        (context.start_changeset().await.unwrap(), context.start_changeset().await.unwrap());
    let effect = gate.enter().unwrap();
    let call = machine.store.begin_call(&effect, &claim, new_call("a")).await.unwrap();
    let other = machine.store.begin_call(&effect, &claim, new_call("b")).await.unwrap();
    // The scope of the node is cancelled after the change and before its capture.
    token.cancel(CancelReason::Timeout);
    let ended = EndedCall::new(&call, call_end(CallState::TimedOut));
    let changes = vec![change(1), change(2)];
    let answer =
        first.record_call_end(CallAuthority::Effect(&effect), ended.clone(), changes.clone()).await.unwrap();
    let recorded = |seq: u32| RecordedChange { changeset: first.id(), seq, no: u64::from(seq) };
    assert_eq!(answer, [recorded(1), recorded(2)]);
    let again = first.record_call_end(CallAuthority::Effect(&effect), ended.clone(), changes).await.unwrap();
    assert_eq!(again, answer, "asked again it answers as the first time");
    let otherwise = EndedCall::new(&call, call_end(CallState::Ok));
    let refused =
        first.record_call_end(CallAuthority::Effect(&effect), otherwise, vec![change(3)]).await.unwrap_err();
    assert!(matches!(refused, PlanError::InvalidEntry(ChangesetError::CallEnded { .. })), "{refused}");
    context
        .end_call(CallAuthority::Effect(&effect), EndedCall::new(&other, call_end(CallState::Ok)))
        .await
        .unwrap();
    let sets = machine.store.changesets(claim.plan).await.unwrap();
    let entries: Vec<usize> = sets.iter().map(|set| set.entries.len()).collect();
    assert_eq!((entries, second.id()), (vec![2, 0], sets[1].id));
    let states: Vec<CallState> =
        machine.store.calls(claim.plan).await.unwrap().iter().map(ToolCall::state).collect();
    assert_eq!(states, [CallState::TimedOut, CallState::Ok]);
}

#[tokio::test]
async fn a_context_of_an_earlier_owner_writes_nothing() {
    let Bench { context, machine, claim, gate, .. } = bench().await;
    let handle = context.start_changeset().await.unwrap();
    let call = machine.store.begin_call(&gate.enter().unwrap(), &claim, new_call("a")).await.unwrap();
    let ended = EndedCall::new(&call, call_end(CallState::Ok));
    machine.clock.advance(LEASE);
    let request = rival(2);
    machine.store.claim(&request).await.unwrap().unwrap();
    let before = machine.store.changesets(claim.plan).await.unwrap();
    let lost = |error: PlanError| assert!(matches!(error, PlanError::LeaseLost(_)), "{error}");
    lost(handle.record(change(1)).await.unwrap_err());
    lost(handle.close().await.unwrap_err());
    lost(context.record_change(change(1)).await.unwrap_err());
    lost(context.start_changeset().await.unwrap_err());
    let effect = gate.enter().unwrap();
    lost(context.end_call(CallAuthority::Effect(&effect), ended.clone()).await.unwrap_err());
    lost(handle.record_call_end(CallAuthority::Effect(&effect), ended, vec![change(1)]).await.unwrap_err());
    let calls = machine.store.calls(claim.plan).await.unwrap();
    assert_eq!(calls[0].state(), CallState::Cancelled, "no call outlives its owner");
    assert_eq!(machine.store.changesets(claim.plan).await.unwrap(), before);
}

#[tokio::test]
async fn a_failing_store_is_named_as_the_cause() {
    let Bench { context, machine, .. } = bench().await;
    machine.store.fail_next(Call::Start, Fault::Busy);
    let error = context.start_changeset().await.unwrap_err();
    assert_eq!(error, PlanError::Store(StoreError::Busy));
    assert_eq!(
        (error.class(), error.to_string()),
        (ErrorClass::Transient, "the change could not be stored: the store is busy".to_owned())
    );
}
