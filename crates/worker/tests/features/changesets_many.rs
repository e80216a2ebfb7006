//! Steps of #7120: many threads and many plans at their changesets, with exact numbers.

use std::sync::{Arc, Barrier};

use ::worker::ChangesetHandle;
use cucumber::{given, then, when};
use domain::{Changeset, ChangesetState};

use crate::changesets::{Ours, change, new_store, paths};
use crate::threads::{all_at_once, apart, block_on};
use crate::world::Features;

/// What the scenarios of many threads have, beside the plan.
#[derive(Default)]
pub(crate) struct Scene {
    /// What many threads started, in the order of their answers.
    started: Vec<ChangesetHandle>,
    /// Plans beside each other in one store.
    plans: Vec<Ours>,
}

#[when(
    expr = "in {int} rounds {int} thread(s) record a change each while {int} thread(s) start a changeset each"
)]
fn records_while_starting(world: &mut Features, rounds: usize, recorders: usize, starters: usize) {
    let ours = world.changesets.ours();
    let meet = Arc::new(Barrier::new(recorders + starters));
    all_at_once(recorders + starters, move |thread| {
        for round in 0..rounds {
            meet.wait();
            if thread < recorders {
                let recorded = ours.context.record_change(change(&format!("{thread}/{round}")));
                block_on(recorded).expect("a changeset is open");
            } else {
                block_on(ours.context.start_changeset()).expect("it is started");
            }
        }
    });
}

#[then(expr = "all {int} changes are recorded, numbered from {int} to {int} without a gap")]
fn all_are_numbered(world: &mut Features, total: u64, from: u64, to: u64) {
    let numbers = in_order(&world.changesets.ours()).into_iter().map(|(no, _)| no);
    let numbers: Vec<u64> = numbers.collect();
    let expected: Vec<u64> = (from..=to).collect();
    assert_eq!((numbers.len() as u64, numbers), (total, expected));
}

/// The numbers of all changes of a plan, in their order, each with the place of its changeset.
fn in_order(plan: &Ours) -> Vec<(u64, u32)> {
    let entries = |changeset: Changeset| {
        let ordinal = changeset.ordinal;
        changeset.entries.into_iter().map(move |entry| (entry.no, ordinal))
    };
    let mut all: Vec<(u64, u32)> = plan.changesets().into_iter().flat_map(entries).collect();
    all.sort_unstable();
    all
}

#[then("no change is in a changeset that is older than that of the change before it")]
fn none_goes_back(world: &mut Features) {
    let ordinals: Vec<u32> =
        in_order(&world.changesets.ours()).into_iter().map(|(_, ordinal)| ordinal).collect();
    assert!(ordinals.is_sorted(), "{ordinals:?}");
}

#[when(
    expr = "{int} threads share {int} changesets and each records {int} changes into every one, all starting at once"
)]
fn many_threads_many_changesets(world: &mut Features, threads: usize, changesets: usize, each: usize) {
    let ours = world.changesets.ours();
    assert_eq!(changesets % threads.min(changesets), 0, "every thread starts as many");
    // Each thread starts its share; then all record into all, each from another one on.
    let shared = ours.clone();
    let starters = threads.min(changesets);
    let started = all_at_once(starters, move |_| -> Vec<ChangesetHandle> {
        let start = |_| block_on(shared.context.start_changeset()).expect("it is started");
        (0..changesets / starters).map(start).collect()
    });
    let handles: Vec<ChangesetHandle> = started.into_iter().flatten().collect();
    world.changesets_many.started = handles.clone();
    all_at_once(threads, move |thread| {
        block_on(async {
            for turn in 0..each * changesets {
                let number = (turn + thread * 5) % changesets;
                let file = format!("{number}/{thread}/{turn}");
                let recorded = handles[number].record(change(&file)).await;
                assert_eq!(recorded.expect("it is open").changeset, handles[number].id());
            }
        });
    });
}

#[then(
    "every changeset has the changes that were recorded through its handles, numbered from 1 without a gap"
)]
fn nothing_is_mixed_up(world: &mut Features) {
    let changesets = world.changesets.ours().changesets();
    let handles = &world.changesets_many.started;
    assert_eq!(changesets.len(), handles.len());
    for changeset in &changesets {
        let number = handles
            .iter()
            .position(|handle| handle.id() == changeset.id)
            .expect("it was started by a thread");
        let foreign: Vec<String> =
            paths(changeset).filter(|path| !path.starts_with(&format!("{number}/"))).collect();
        assert_eq!(foreign, Vec::<String>::new(), "in changeset {number}");
        assert_numbered(changeset);
    }
}

fn assert_numbered(changeset: &Changeset) {
    let numbers: Vec<u32> = changeset.entries.iter().map(|entry| entry.seq).collect();
    let expected: Vec<u32> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
}

#[when(expr = "{int} threads open, fill and close {int} changesets each, all starting at once")]
fn open_fill_close(world: &mut Features, threads: usize, each: usize) {
    let ours = world.changesets.ours();
    all_at_once(threads, move |thread| {
        block_on(async {
            for turn in 0..each {
                let handle = ours.context.start_changeset().await.expect("it is started");
                let recorded = handle.record(change(&format!("{thread}/{turn}"))).await;
                recorded.expect("it is open");
                handle.close().await.expect("it is closed");
            }
        });
    });
}

#[then(expr = "all {int} changesets are closed with {int} change each")]
fn all_are_closed(world: &mut Features, total: usize, entries: usize) {
    let changesets = world.changesets.ours().changesets();
    let as_told: Vec<(ChangesetState, usize)> =
        changesets.iter().map(|changeset| (changeset.state, changeset.entries.len())).collect();
    assert_eq!(as_told, vec![(ChangesetState::Closed, entries); total]);
}

#[given(expr = "{int} plans without a changeset in one store")]
fn many_plans(world: &mut Features, plans: u128) {
    let store = new_store();
    world.changesets_many.plans = (1..=plans).map(|number| Ours::new(&store, number)).collect();
}

#[when(
    expr = "each plan starts a changeset and {int} threads of each record {int} changes, all starting at once"
)]
fn many_plans_work(world: &mut Features, threads: usize, each: usize) {
    let plans = world.changesets_many.plans.clone();
    for plan in plans.clone() {
        apart("starting a changeset", move || plan.start("its own"));
    }
    all_at_once(plans.len() * threads, move |thread| {
        let plan = &plans[thread % plans.len()];
        block_on(async {
            for turn in 0..each {
                let file = format!("{}/{thread}/{turn}", plan.context.plan());
                let recorded = plan.context.record_change(change(&file)).await;
                recorded.expect("a changeset is open");
            }
        });
    });
}

#[then(expr = "each plan has {int} changeset with its own {int} changes, numbered from 1 without a gap")]
fn plans_are_apart(world: &mut Features, changesets: usize, entries: usize) {
    assert!(!world.changesets_many.plans.is_empty());
    for plan in &world.changesets_many.plans {
        let its = plan.changesets();
        assert_eq!(its.len(), changesets);
        for changeset in &its {
            let own = format!("{}/", plan.context.plan());
            let is_own: Vec<bool> = paths(changeset).map(|path| path.starts_with(&own)).collect();
            assert_eq!(is_own, vec![true; entries]);
            assert_numbered(changeset);
        }
    }
}
