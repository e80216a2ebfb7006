//! Errors recorded by many threads: all kept or folded, retries exactly as many as the limit allows.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    Claim, ErrorCategory, ErrorId, GateDecision, NewError, Phase, PlanId, RecoveryAction, RecoveryPolicy,
    StepId,
};
use store::{JobStore, StoreError};
use worker::ErrorRecoveryService;

use crate::support::{LEASE, Machine, rival};

fn error(n: u128, category: ErrorCategory) -> NewError {
    let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
    NewError::new(ErrorId::from_u128(n), Phase::Execute, step, category, format!("error {n}"))
}

async fn service() -> (ErrorRecoveryService, Claim, Machine) {
    let machine = Machine::new();
    machine.enqueue(1).await;
    let request = rival(1);
    let claim = machine.store.claim(&request).await.unwrap().unwrap().claim();
    let store = Arc::clone(&machine.store) as Arc<dyn store::ErrorStore>;
    (ErrorRecoveryService::new(store, RecoveryPolicy::default()), claim, machine)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_error_is_lost_and_the_retry_limit_is_exact_under_concurrent_records() {
    const TASKS: u128 = 8;
    const EACH: u128 = 10_000;
    let (service, claim, _machine) = service().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let service = service.clone();
            tokio::spawn(async move {
                let mut attempts = Vec::new();
                for n in 0..EACH {
                    let new = error(task * EACH + n, ErrorCategory::Timeout);
                    if let RecoveryAction::Retry { attempt, .. } =
                        service.record_error(&claim, new).await.unwrap().action
                    {
                        attempts.push(attempt);
                    }
                }
                attempts
            })
        })
        .collect();
    let mut attempts = Vec::new();
    for task in tasks {
        attempts.extend(task.await.unwrap());
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2, 3], "the limit of a step");
    let history = service.history(claim.plan).await.unwrap();
    let folded: u64 = history.folded().values().map(|folded| folded.count).sum();
    assert_eq!(history.records().len() as u64 + folded, 80_000);
    let kept: Vec<u64> = history.records().map(|record| record.recovery.seq).collect();
    assert!(kept.windows(2).all(|pair| pair[1] == pair[0] + 1), "the newest, without gaps");
}

#[tokio::test]
async fn the_same_report_again_is_counted_once_and_answered_alike() {
    let (service, claim, _machine) = service().await;
    let first = service.record_error(&claim, error(7, ErrorCategory::RateLimit)).await.unwrap();
    assert_eq!(service.record_error(&claim, error(7, ErrorCategory::RateLimit)).await.unwrap(), first);
    let next = service.record_error(&claim, error(8, ErrorCategory::RateLimit)).await.unwrap();
    assert_eq!((first.seq, next.seq), (1, 2));
    assert_eq!(service.history(claim.plan).await.unwrap().recorded(), 2);
}

#[tokio::test]
async fn the_backoffs_of_errors_with_neighbouring_ids_are_spread() {
    let mut waits = Vec::new();
    for n in 1..=64 {
        let (service, claim, _machine) = service().await;
        let recovery = service.record_error(&claim, error(n, ErrorCategory::Timeout)).await.unwrap();
        match recovery.action {
            RecoveryAction::Retry { after, .. } => waits.push(after),
            action => panic!("{action:?}"),
        }
    }
    assert!(waits.iter().all(|wait| (Duration::from_millis(500)..Duration::from_secs(1)).contains(wait)));
    waits.sort_unstable();
    let widest = waits.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(widest < Duration::from_millis(40), "no gap of many times the average: {widest:?}");
}

#[tokio::test]
async fn a_stale_claim_records_no_error() {
    let (service, claim, machine) = service().await;
    machine.clock.advance(LEASE);
    let request = rival(2);
    machine.store.claim(&request).await.unwrap().unwrap();
    let refused = service.record_error(&claim, error(1, ErrorCategory::Tool)).await.unwrap_err();
    assert!(matches!(refused, StoreError::LeaseLost(_)));
    assert_eq!(service.history(claim.plan).await.unwrap().recorded(), 0);
}

#[tokio::test]
async fn the_limit_comes_from_the_policy() {
    let (_, claim, machine) = service().await;
    let policy = RecoveryPolicy::new(1, 30, GateDecision::Ask, 0).unwrap();
    let service = ErrorRecoveryService::new(Arc::clone(&machine.store) as _, policy);
    let actions = [
        service.record_error(&claim, error(1, ErrorCategory::Connection)).await.unwrap().action,
        service.record_error(&claim, error(2, ErrorCategory::Connection)).await.unwrap().action,
    ];
    assert!(matches!(actions, [RecoveryAction::Retry { attempt: 1, .. }, RecoveryAction::Ask]));
    assert!(format!("{service:?}").contains("ErrorRecoveryService"));
    assert_eq!(
        service.history(PlanId::from_u128(404)).await.unwrap().recorded(),
        0,
        "an unknown plan has no errors"
    );
}
