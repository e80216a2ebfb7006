//! Nodes: settled with their last call or alone, whole, and found again in their order.

use std::time::Duration;

use domain::{
    CallCategory, CallEnd, CallState, ChangesetError, EventKind, NodeOutcome, NodeRun, NodeWait, Phase,
    PlanState, SettledCall, SpendKind, WorkState,
};
use serde_json::{Value, json};
use store::{CallOutcome, ChangesetStoreError, JobEnd, LedgerStoreError, StoreError};

use super::bench::{Bench, Owner, outcome};
use super::sample::{BOB, LEASE, call_end, change, changeset_id, new_call, node_run, plan_id, request};
use super::walk::{by_hand, kinds_after, processing, start};

use NodeOutcome::{Cancelled, Failed, Skipped, Succeeded};

async fn runs(bench: &Bench) -> Vec<NodeRun> {
    bench.store.node_runs(plan_id(1)).await.unwrap()
}

fn paths(runs: &[NodeRun]) -> Vec<&str> {
    runs.iter().map(|run| run.path.as_str()).collect()
}

pub(crate) async fn a_settled_node_comes_back_as_it_was_given(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    assert_eq!(runs(&bench).await, []);
    let bare = NodeRun {
        tries: 0,
        exit: None,
        text: String::new(),
        json: Value::Null,
        changed: 0,
        usage: domain::TokenUsage::default(),
        guidance_seen: 0,
        ..node_run("b/c", Skipped, 8)
    };
    let all =
        [node_run("a", Succeeded, 7), bare, node_run("d.fix1", Failed, 9), node_run("e", Cancelled, 10)];
    owner.settle_nodes(all.to_vec()).await.unwrap();
    assert_eq!(runs(&bench).await, all);
    assert_eq!(bench.store.node_runs(plan_id(9)).await, Ok(Vec::new()), "an unknown plan has none");
    owner.settle_nodes(Vec::new()).await.unwrap();
    assert_eq!(runs(&bench).await, all);
}

pub(crate) async fn nodes_are_told_by_attempt_and_phase_and_then_as_they_were_settled(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let of =
        |attempt, phase, path, finished| NodeRun { attempt, phase, ..node_run(path, Succeeded, finished) };
    owner.settle_nodes(vec![of(2, Phase::Strategize, "f", 1), of(1, Phase::Execute, "d", 9)]).await.unwrap();
    owner
        .settle_nodes(vec![of(1, Phase::Strategize, "b", 5), of(1, Phase::Strategize, "a", 5)])
        .await
        .unwrap();
    owner.settle_nodes(vec![of(1, Phase::Apply, "e", 1), of(1, Phase::Execute, "c", 8)]).await.unwrap();
    assert_eq!(paths(&runs(&bench).await), ["b", "a", "c", "d", "e", "f"], "in one moment as they were kept");
}

pub(crate) async fn a_node_that_is_done_again_replaces_its_earlier_run(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let failed = node_run("code", Failed, 7);
    let others = [
        NodeRun { attempt: 2, ..failed.clone() },
        NodeRun { phase: Phase::Strategize, ..failed.clone() },
        NodeRun { path: "code/x".to_owned(), ..failed.clone() },
    ];
    owner.settle_nodes([&[failed], &others[..]].concat()).await.unwrap();
    owner.end(JobEnd::Failed { why: "code failed".to_owned() }).await.unwrap();
    by_hand(&bench, 1, domain::PlanEvent::Retry).await.unwrap();
    let owner = start(&bench, 1).await;
    let done = node_run("code", Succeeded, 12);
    owner.settle_nodes(vec![done.clone()]).await.unwrap();
    let known = runs(&bench).await;
    assert_eq!(known.len(), 4);
    assert!(known.contains(&done) && others.iter().all(|other| known.contains(other)), "{known:?}");
}

pub(crate) async fn a_call_ends_together_with_the_nodes_that_it_settles_or_not_at_all(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    owner.start(changeset_id(1)).await.unwrap();
    owner.begin_call(new_call(1, "code")).await.unwrap();
    let settles = vec![node_run("code", Succeeded, 7), node_run("amend", Skipped, 7)];
    let ended = CallOutcome { settles: settles.clone(), ..outcome(1, changeset_id(1), vec![change(1)]) };
    let before = bench.snapshot().await;
    let nowhere = CallOutcome { changeset: Some(changeset_id(9)), ..ended.clone() };
    owner.end_call(nowhere).await.unwrap_err();
    assert_eq!(bench.snapshot().await, before, "no changeset, no end, no node");

    owner.end_call(ended.clone()).await.unwrap();
    assert_eq!(runs(&bench).await, settles);
    let after = bench.snapshot().await;
    owner.end_call(ended.clone()).await.unwrap();
    assert_eq!(bench.snapshot().await, after, "asked again");
    let otherwise = CallOutcome {
        end: CallEnd { state: CallState::Failed, ..call_end() },
        settles: vec![node_run("code", Failed, 8)],
        ..ended
    };
    let stays = ChangesetError::CallEnded { attempt: 1, no: domain::CallNumber(1) };
    assert_eq!(owner.end_call(otherwise).await, Err(ChangesetStoreError::Changeset(stays)));
    assert_eq!(bench.snapshot().await, after, "a call that ended stays, and so do its nodes");
}

fn a_read(node: &str, run: NodeRun) -> SettledCall {
    SettledCall { call: new_call(1, node), count_as: CallCategory::Step, end: call_end(), settles: vec![run] }
}

pub(crate) async fn a_read_is_kept_together_with_the_node_that_it_settles_or_not_at_all(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    bench.store.set_limits(plan_id(1), vec![(SpendKind::Steps, Some(1))]).await.unwrap();
    let run = node_run("look", Succeeded, 7);
    owner.keep_call_and_settle(a_read("look", run.clone())).await.unwrap();
    assert_eq!(runs(&bench).await, [run]);
    let before = bench.snapshot().await;
    let refused = owner.keep_call_and_settle(a_read("more", node_run("more", Succeeded, 8))).await;
    assert!(matches!(refused, Err(LedgerStoreError::Limit(_))), "{refused:?}");
    assert_eq!(bench.snapshot().await, before, "neither the call nor the node");
}

pub(crate) async fn reads_that_end_together_are_kept_all_or_none(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    bench.store.set_limits(plan_id(1), vec![(SpendKind::Steps, Some(3))]).await.unwrap();
    let reads = |nodes: &[&str]| -> Vec<SettledCall> {
        nodes.iter().map(|node| a_read(node, node_run(node, Succeeded, 7))).collect()
    };
    let before = bench.snapshot().await;
    let refused = owner.keep_calls(reads(&["a", "b", "c", "d"])).await;
    assert!(matches!(refused, Err(LedgerStoreError::Limit(_))), "{refused:?}");
    assert_eq!(bench.snapshot().await, before, "none of them, and nothing is counted");
    let told = bench.events(plan_id(1)).await.len();
    let kept = owner.keep_calls(reads(&["a", "b", "a"])).await.unwrap();
    assert_eq!(kept.iter().map(|call| call.no.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(bench.store.calls(plan_id(1)).await.unwrap(), kept);
    assert_eq!(runs(&bench).await, [node_run("a", Succeeded, 7), node_run("b", Succeeded, 7)]);
    let ledger = bench.store.ledger(plan_id(1)).await.unwrap();
    let used = [SpendKind::Steps, SpendKind::ToolCalls].map(|kind| ledger.account(kind).used);
    assert_eq!(used, [2, 3], "a step counts once, a call each time");
    use EventKind::{NodeFinished, ToolFinished};
    let each = [ToolFinished, NodeFinished, ToolFinished, NodeFinished, ToolFinished];
    assert_eq!(kinds_after(&bench, plan_id(1), told).await, each);
    owner.keep_calls(reads(&["c"])).await.unwrap();
    assert_eq!(owner.keep_calls(Vec::new()).await, Ok(Vec::new()));
}

pub(crate) async fn a_node_is_told_when_it_begins_and_when_it_is_settled(bench: Bench) {
    use EventKind::{NodeFinished, NodeStarted, ToolFinished, ToolStarted};
    let owner = processing(&bench, 1, Phase::Execute).await;
    let mut told = bench.events(plan_id(1)).await.len();
    let mut expect = async |what: &str, kinds: &[EventKind]| {
        assert_eq!(kinds_after(&bench, plan_id(1), told).await, kinds, "{what}");
        told += kinds.len();
    };
    owner.begin_counted(new_call(1, "code"), CallCategory::Step).await.unwrap();
    expect("its first call", &[NodeStarted, ToolStarted]).await;
    owner.begin_counted(new_call(1, "code"), CallCategory::Step).await.unwrap();
    expect("its next call", &[ToolStarted]).await;
    owner.begin_counted(new_call(1, "validate/t"), CallCategory::Call).await.unwrap();
    expect("what is no step", &[ToolStarted]).await;
    let settles = vec![node_run("code", Succeeded, 7)];
    let ended = CallOutcome { changeset: None, settles, ..outcome(1, changeset_id(1), Vec::new()) };
    owner.end_call(ended.clone()).await.unwrap();
    expect("its last call", &[ToolFinished, NodeFinished]).await;
    owner.end_call(ended).await.unwrap();
    owner.settle_nodes(vec![node_run("code", Succeeded, 7)]).await.unwrap();
    expect("the same again", &[]).await;
    owner.keep_call_and_settle(a_read("look", node_run("look", Succeeded, 8))).await.unwrap();
    expect("a read", &[ToolFinished, NodeFinished]).await;
    owner.settle_nodes(vec![node_run("amend", Skipped, 9), node_run("late", Cancelled, 9)]).await.unwrap();
    expect("nodes without a call", &[NodeFinished, NodeFinished]).await;
    owner.settle_nodes(vec![node_run("code", Failed, 10)]).await.unwrap();
    expect("another end", &[NodeFinished]).await;
    let events = bench.events(plan_id(1)).await;
    let started = events.iter().find(|event| event.kind == NodeStarted).unwrap();
    assert_eq!(started.data, json!({"path": "code"}));
    let finished = &events.last().unwrap().data;
    assert_eq!(*finished, json!({"path": "code", "phase": "execute", "outcome": "failed", "tries": 2}));
}

pub(crate) async fn a_node_that_asks_a_model_counts_once_and_may_wait(bench: Bench) {
    use EventKind::{NodeStarted, NodeWaiting, ToolStarted};
    let owner = processing(&bench, 1, Phase::Execute).await;
    let told = bench.events(plan_id(1)).await.len();
    let used = async || {
        let ledger = bench.store.ledger(plan_id(1)).await.unwrap();
        [SpendKind::Steps, SpendKind::ToolCalls].map(|kind| ledger.account(kind).used)
    };
    owner.begin_counted(new_call(1, "think"), CallCategory::Turn).await.unwrap();
    owner.begin_counted(new_call(1, "think"), CallCategory::Turn).await.unwrap();
    assert_eq!(used().await, [1, 0], "asked again it counts no more");
    owner.begin_counted(new_call(1, "think"), CallCategory::Step).await.unwrap();
    assert_eq!(used().await, [1, 1], "nor do its calls");
    owner.begin_counted(new_call(1, "code"), CallCategory::Step).await.unwrap();
    owner.begin_counted(new_call(1, "code"), CallCategory::Turn).await.unwrap();
    assert_eq!(used().await, [2, 2], "nor one that began with a call");
    owner.begin_counted(new_call(2, "think"), CallCategory::Turn).await.unwrap();
    assert_eq!(used().await, [3, 2], "another attempt is another step");
    let wait =
        NodeWait { path: "think".to_owned(), why: "p rests".to_owned(), time: Some(Duration::from_secs(3)) };
    owner.node_waits(wait).await.unwrap();
    let kinds = kinds_after(&bench, plan_id(1), told).await;
    let of_nodes: Vec<EventKind> = kinds.into_iter().filter(|kind| *kind != ToolStarted).collect();
    assert_eq!(of_nodes, [NodeStarted, NodeStarted, NodeStarted, NodeWaiting]);
    let last = bench.events(plan_id(1)).await.last().unwrap().data.clone();
    assert_eq!(last, json!({"path": "think", "why": "p rests", "ms": 3_000}));
    bench.store.set_limits(plan_id(1), vec![(SpendKind::Steps, Some(3))]).await.unwrap();
    let before = bench.snapshot().await;
    let refused = owner.begin_counted(new_call(1, "late"), CallCategory::Turn).await;
    assert!(matches!(refused, Err(LedgerStoreError::Limit(_))), "{refused:?}");
    assert_eq!(bench.snapshot().await, before, "a limit that says no leaves no trace");
    owner.begin_counted(new_call(1, "think"), CallCategory::Turn).await.unwrap();
}

pub(crate) async fn a_replaced_owner_settles_nothing_and_what_is_settled_stays(bench: Bench) {
    let old = processing(&bench, 1, Phase::Execute).await;
    let settled = node_run("a", Succeeded, 7);
    old.settle_nodes(vec![settled.clone()]).await.unwrap();
    old.begin_call(new_call(1, "b")).await.unwrap();
    bench.pass(LEASE);
    let only = Some(plan_id(1));
    let job = bench.claim(domain::ClaimRequest { only, ..request(BOB) }).await.unwrap();
    let new: Owner = bench.as_owner(job.claim());
    let before = bench.snapshot().await;
    let lost = StoreError::from(domain::LeaseLost { job: old.claim.job, fence: old.claim.fence });
    let late = vec![node_run("b", Succeeded, 8)];
    assert_eq!(old.settle_nodes(late.clone()).await, Err(lost.clone()));
    assert_eq!(old.settle_nodes_late(late.clone()).await, Err(lost.clone()));
    let ended = CallOutcome { changeset: None, settles: late, ..outcome(1, changeset_id(1), Vec::new()) };
    assert_eq!(old.end_call(ended.clone()).await, Err(lost.clone().into()));
    let read = old.keep_call_and_settle(a_read("c", node_run("c", Succeeded, 9))).await;
    assert_eq!(read, Err(lost.into()));
    assert_eq!(bench.snapshot().await, before);
    // The takeover has ended the call.
    assert!(new.end_call(ended).await.is_err());
    new.settle_nodes(vec![node_run("b", Succeeded, 8)]).await.unwrap();
    new.settle_nodes_late(vec![node_run("c", Cancelled, 9)]).await.unwrap();
    assert_eq!(paths(&runs(&bench).await), ["a", "b", "c"]);
    assert_eq!(runs(&bench).await[0], settled);
}

pub(crate) async fn nodes_that_eight_settle_at_once_are_all_there(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    bench.on_threads(8, |thread| {
        let owner = owner.clone();
        async move {
            for n in 0..10 {
                owner.settle_nodes(vec![node_run(&format!("{thread}/{n}"), Succeeded, 7)]).await.unwrap();
                // All settle this one, each as often as the others.
                owner.settle_nodes(vec![node_run("join", Succeeded, 9)]).await.unwrap();
            }
        }
    });
    let known = runs(&bench).await;
    assert_eq!(known.len(), 81);
    let tokens: u64 = known.iter().map(|run| run.usage.tokens_out).sum();
    assert_eq!(tokens, 81 * 7);
    let told = bench.events(plan_id(1)).await;
    let joins = told.iter().filter(|event| event.data["path"] == "join").count();
    assert_eq!(joins, 1, "it is settled once");
}

pub(crate) async fn what_was_settled_outlives_its_job_and_the_attempt(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    let run = node_run("a", Succeeded, 7);
    owner.settle_nodes(vec![run.clone()]).await.unwrap();
    owner.end(JobEnd::Succeeded).await.unwrap();
    by_hand(&bench, 1, domain::PlanEvent::Again).await.unwrap();
    assert_eq!(bench.plan(plan_id(1)).await.state, PlanState::Execute(WorkState::Queued));
    assert_eq!(runs(&bench).await, [run]);
}
