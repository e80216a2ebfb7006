//! The lease protocol, searched breadth-first through its whole state space, and three broken variants of it
//! in which the same search must find a loser. Who does what there: `lease_world`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use domain::*;

use crate::lease_world::{Act, OwnerAct, Variant, WORKERS, World};
use crate::sample::BOOT;

/// The promise that the step from one world to the other breaks.
fn broken_promise(variant: Variant, before: &World, act: Act, after: &World) -> Option<&'static str> {
    let writers = (0..2).filter(|index| after.accepts_write(variant, *index)).count();
    if writers > 1 {
        return Some("two workers whose writes are accepted");
    }
    if let Act::Write(index) = act
        && before.accepts_write(variant, index)
    {
        let claim = before.workers[index].claim.unwrap();
        if claim.fence != before.job.fence || before.job.worker != Some(WORKERS[index]) {
            return Some("a write by an old fence was accepted");
        }
        if before.job.state != JobState::Running {
            return Some("a write was accepted after the end");
        }
    }
    let (old, new) = (&before.job, &after.job);
    if let Act::Owner(index, _) = act
        && new != old
    {
        let claim = before.workers[index].claim.unwrap();
        if claim.fence != old.fence || old.worker != Some(WORKERS[index]) {
            return Some("an old owner moved the job");
        }
    }
    if new.fence < old.fence {
        return Some("the fence went back");
    }
    if old.state.is_final() && new != old {
        return Some("a final job moved");
    }
    if matches!(new.state, JobState::Succeeded | JobState::Failed)
        && new.cancel.is_some()
        && new.sealed_at.is_none()
    {
        return Some("a requested cancel lost to another end");
    }
    if new.sealed_at.is_some() && new.cancel.is_some() {
        return Some("a job is sealed and cancelled");
    }
    if matches!(act, Act::TakeJob(_))
        && old.state == JobState::Running
        && new.fence != old.fence
        && !old.lease_is_dead(before.now, BOOT)
    {
        return Some("a live owner was replaced");
    }
    None
}

struct Found {
    promise: &'static str,
    path: Vec<Act>,
}

struct Search {
    states: usize,
    steps: usize,
    situations: BTreeSet<&'static str>,
    found: Option<Found>,
}

fn search(variant: Variant) -> Search {
    let mut worlds = vec![(World::new(), None::<(usize, Act)>)];
    let mut known = HashMap::from([(worlds[0].0.key(), 0)]);
    let mut todo = VecDeque::from([0]);
    let mut search = Search { states: 0, steps: 0, situations: BTreeSet::new(), found: None };
    while let Some(place) = todo.pop_front() {
        let world = worlds[place].0.clone();
        for act in world.acts() {
            let Some(after) = world.after(variant, act) else {
                continue;
            };
            search.steps += 1;
            search.situations.extend(situations(&world, act, &after));
            if let Some(promise) = broken_promise(variant, &world, act, &after) {
                let path = path_to(&worlds, place, act);
                return Search { states: worlds.len(), found: Some(Found { promise, path }), ..search };
            }
            let next = worlds.len();
            if let Entry::Vacant(entry) = known.entry(after.key()) {
                entry.insert(next);
                worlds.push((after, Some((place, act))));
                todo.push_back(next);
            }
        }
    }
    Search { states: worlds.len(), ..search }
}

fn path_to(worlds: &[(World, Option<(usize, Act)>)], place: usize, last: Act) -> Vec<Act> {
    let mut path = vec![last];
    let mut place = place;
    while let Some((before, act)) = worlds[place].1 {
        path.push(act);
        place = before;
    }
    path.reverse();
    path
}

/// The events without which the promises would mean nothing, as far as this step shows them.
fn situations(before: &World, act: Act, after: &World) -> Vec<&'static str> {
    let (old, new) = (&before.job, &after.job);
    let stale = |index: usize| {
        before.workers[index]
            .claim
            .is_some_and(|claim| claim.fence < old.fence && old.state == JobState::Running)
    };
    let mut seen = Vec::new();
    let mut note = |happened: bool, name| seen.extend(happened.then_some(name));
    note(matches!(act, Act::Write(index) if stale(index)), "a write with an old fence is tried");
    note(
        matches!(act, Act::Write(index) if before.accepts_write(Variant::Ours, index)),
        "a write is accepted",
    );
    note(
        matches!(act, Act::Owner(index, OwnerAct::Succeed) if stale(index)),
        "success with an old fence is tried",
    );
    note(
        matches!(act, Act::Owner(_, OwnerAct::Succeed)) && old.cancel.is_some(),
        "success after a cancel is tried",
    );
    note(
        matches!(act, Act::Owner(_, OwnerAct::Seal)) && old.cancel.is_some(),
        "a seal after a cancel is tried",
    );
    note(act == Act::Cancel && old.sealed_at.is_some(), "a cancel after a seal is tried");
    note(
        matches!(act, Act::Owner(..)) && old.state == JobState::Cancelled,
        "a move after the acknowledgement is tried",
    );
    note(old.fence < new.fence && old.state == JobState::Running, "a takeover");
    note(old.fence < new.fence && old.cancel.is_some(), "a takeover of a cancelled job");
    note(old.fence < new.fence && old.sealed_at.is_some(), "a takeover of a sealed job");
    note(new.lost_leases > LOST_LEASES_MAX && new.state == JobState::Failed, "given up");
    note(new.lost_leases > LOST_LEASES_MAX && new.state == JobState::Cancelled, "given up, cancelled");
    note(old.state == JobState::Running && new.state == JobState::Queued, "a release");
    note(new.state == JobState::Succeeded && new.sealed_at.is_some(), "an apply succeeds");
    note(old.state == JobState::Queued && new.state == JobState::Cancelled, "a queued job is cancelled");
    note(old.lost_leases > 0 && new.lost_leases == 0, "deaths are forgotten");
    seen
}

#[test]
fn no_reachable_state_of_the_lease_protocol_breaks_a_promise() {
    let search = search(Variant::Ours);
    println!("lease protocol: {} states, {} steps, all promises hold", search.states, search.steps);
    let found = search.found.map(|found| format!("{}: {:?}", found.promise, found.path));
    assert_eq!(found, None);
    assert!(search.states > 10_000, "only {} states: the search is not what it was", search.states);
    let expected = BTreeSet::from([
        "a write with an old fence is tried",
        "a write is accepted",
        "success with an old fence is tried",
        "success after a cancel is tried",
        "a seal after a cancel is tried",
        "a cancel after a seal is tried",
        "a takeover",
        "a takeover of a cancelled job",
        "a takeover of a sealed job",
        "given up",
        "given up, cancelled",
        "a move after the acknowledgement is tried",
        "a release",
        "an apply succeeds",
        "a queued job is cancelled",
        "deaths are forgotten",
    ]);
    assert_eq!(search.situations, expected, "a situation is no longer reached");
}

fn assert_loses(variant: Variant, name: &str, promise: &str) {
    let search = search(variant);
    let found = search.found.unwrap_or_else(|| panic!("{name}: survived {} states", search.states));
    println!("{name}: {} after {} steps: {:?}", found.promise, found.path.len(), found.path);
    assert_eq!(found.promise, promise);
}

#[test]
fn without_a_fence_two_workers_write() {
    assert_loses(Variant::WithoutFence, "without fence", "two workers whose writes are accepted");
}

#[test]
fn with_the_lease_tested_outside_the_write_a_live_owner_is_replaced() {
    assert_loses(
        Variant::LeaseTestedOutsideTheWrite,
        "lease tested outside the write",
        "a live owner was replaced",
    );
}

#[test]
fn with_success_after_a_cancel_the_cancel_is_lost() {
    assert_loses(
        Variant::SucceedAfterCancel,
        "success after cancel",
        "a requested cancel lost to another end",
    );
}
