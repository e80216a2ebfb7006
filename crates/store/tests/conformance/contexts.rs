//! Contexts: kept once with their text, told, found again, and gone with their plan.

use std::io::Read;

use domain::context::ContextRecord;
use domain::{ContextId, EventKind, Hash, Phase, PlanId, WallMs};
use serde_json::json;
use store::{CollectedContents, INLINE_BYTES_MAX, JobEnd, STAGED_KEPT, StoreError};

use super::bench::{Bench, Owner};
use super::sample::{BOB, LEASE, ONE_MS, plan_id, request};
use super::walk::{kinds_after, processing};

/// Context n, of plan 1, whose text is this.
pub(crate) fn context(n: u64, text: &str) -> ContextRecord {
    ContextRecord {
        id: ContextId::from_u128(n.into()),
        plan: plan_id(1),
        node: "code/é".to_owned(),
        at: WallMs(5_000 + n),
        request: json!({ "query": "why \"so\"", "budget": { "window": n } }),
        receipt: json!({
            "budget": { "preamble": 1, "skeleton": 0, "files": 40 }, "included": [{}, {}], "excluded": [],
        }),
        text: Hash::from_content(text.as_bytes()),
    }
}

async fn keep(bench: &Bench, owner: &Owner, n: u64, text: &str) -> Result<(), StoreError> {
    let staged = bench.store.stage(&mut text.as_bytes()).unwrap();
    owner.keep_context(context(n, text), staged).await
}

fn text_of(bench: &Bench, record: &ContextRecord) -> String {
    let mut text = String::new();
    bench.store.open_content(&record.text).unwrap().read_to_string(&mut text).unwrap();
    text
}

pub(crate) async fn a_context_comes_back_as_it_was_given_with_its_text(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    assert_eq!(bench.store.contexts(plan_id(1)).await, Ok(Vec::new()));
    let long = "é\n".repeat(INLINE_BYTES_MAX);
    let texts = ["short", "", long.as_str()];
    // Not in the order of their ids.
    for (n, text) in [9, 2, 5].into_iter().zip(texts) {
        keep(&bench, &owner, n, text).await.unwrap();
    }
    let kept = bench.store.contexts(plan_id(1)).await.unwrap();
    assert_eq!(kept, [context(9, texts[0]), context(2, texts[1]), context(5, texts[2])]);
    assert_eq!(kept.iter().map(|record| text_of(&bench, record)).collect::<Vec<_>>(), texts);
    assert_eq!(bench.store.context(ContextId::from_u128(5)).await, Ok(Some(kept[2].clone())));
    assert_eq!(bench.store.context(ContextId::from_u128(6)).await, Ok(None));
    assert_eq!(bench.store.contexts(plan_id(9)).await, Ok(Vec::new()), "an unknown plan has none");
}

pub(crate) async fn a_context_kept_again_is_one_context_and_told_once(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let told = bench.events(plan_id(1)).await.len();
    keep(&bench, &owner, 1, "text").await.unwrap();
    let before = bench.snapshot().await;
    keep(&bench, &owner, 1, "text").await.unwrap();
    assert_eq!(bench.snapshot().await, before);
    assert_eq!(kinds_after(&bench, plan_id(1), told).await, [EventKind::ContextAssembled]);
    let event = bench.events(plan_id(1)).await.pop().unwrap();
    let id = ContextId::from_u128(1);
    assert_eq!(event.data, json!({ "context": id, "node": "code/é", "tokens": 41, "files": 2 }));
}

pub(crate) async fn who_lost_its_lease_keeps_no_context_and_nobody_keeps_one_for_another_plan(bench: Bench) {
    let old = processing(&bench, 1, Phase::Execute).await;
    bench.pass(LEASE);
    let new = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());
    let before = bench.snapshot().await;
    assert!(matches!(keep(&bench, &old, 1, "text").await, Err(StoreError::LeaseLost(_))));
    let staged = bench.store.stage(&mut &b"text"[..]).unwrap();
    let foreign = ContextRecord { plan: PlanId::from_u128(77), ..context(1, "text") };
    assert!(matches!(new.keep_context(foreign, staged).await, Err(StoreError::LeaseLost(_))));
    assert_eq!(bench.snapshot().await, before);
}

pub(crate) async fn the_text_of_a_context_stays_as_long_as_its_plan(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let long = "x".repeat(INLINE_BYTES_MAX + 1);
    keep(&bench, &owner, 1, "short").await.unwrap();
    keep(&bench, &owner, 2, &long).await.unwrap();
    bench.store.cancel(owner.claim.job, "enough").await.unwrap();
    owner.end(JobEnd::Cancelled).await.unwrap();
    bench.pass(STAGED_KEPT + ONE_MS);
    let all = CollectedContents { contents: 2, bytes: (5 + long.len()) as u64 };
    assert_eq!(bench.store.collectable(&[plan_id(1)]).unwrap(), all);
    assert_eq!(bench.store.collect(false).unwrap(), CollectedContents::default());
    assert_eq!(text_of(&bench, &context(2, &long)), long);
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![plan_id(1)]));
    assert_eq!(bench.store.context(ContextId::from_u128(1)).await, Ok(None));
    assert_eq!(bench.store.collect(false).unwrap(), all);
}
