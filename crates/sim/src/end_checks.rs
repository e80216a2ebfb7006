//! The promises that are checked when a run has come to rest: one function each.
//!
//! # Not here
//! The checks at every step: `promise_watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{
    Account, ApplyRecord, ApplyStage, ApplyState, CallState, ChangesetState, EventKind, EventRecord, JobId,
    JobState, LOST_LEASES_MAX, Ms, PlanId, PlanRecord, PlanState,
};
use store::{CallStore, LedgerStore, LockStore, PlanStore};
use sync::Clock;

use crate::faulty::{FaultyStore, StoreUser};
use crate::machine::{JournalEnd, torn};
use crate::promise::Promise;
use crate::promise_watch::ObservedFacts;
use crate::runner::{TAKE_BACK, file_of};
use crate::users::REVISE;
use crate::world::SimWorld;

/// Events are read so many at a time.
const PAGE: usize = 7;

/// Follows the events of a plan, as a process that watches it does: each number once, in order.
pub(crate) async fn follow(world: Arc<SimWorld>, plan: PlanId) {
    let store = FaultyStore::new(&world, StoreUser::Person);
    let (mut seen, mut boots) = (0, world.boots());
    while !world.is_over() {
        world.clock.sleep(world.scenario.lease / 3).await;
        let page = store.events(plan, seen, PAGE).await;
        if world.boots() != boots {
            // An answer that was given and not synced may be different now.
            (seen, boots) = (0, world.boots());
            continue;
        }
        seen = read_page(&world, plan, seen, &page.unwrap_or_default());
    }
}

fn read_page(world: &SimWorld, plan: PlanId, after: u64, page: &[EventRecord]) -> u64 {
    let mut watch = world.watch.seen();
    let mut last = after;
    for event in page {
        watch.check(Promise::EventsRetell, event.n == last + 1, || {
            format!("after event {last} of plan {plan} comes {}", event.n)
        });
        last = event.n;
    }
    last
}

/// 10: once faults end, every plan is final or waiting within ten leases.
pub(crate) fn everything_rests(world: &SimWorld, restless: usize) {
    for plan in world.plans() {
        let state = world.memory.look(plan, |record| record.and_then(PlanRecord::row).map(|row| row.state));
        let rests = state.is_some_and(|state| !state.has_live_job());
        world.watch.seen().check(Promise::PlansEnd, rests && restless == 0, || {
            format!("plan {plan} is {state:?} ten leases after the last fault, {restless} users wait")
        });
    }
}

/// All others.
pub(crate) async fn at_the_end(world: &Arc<SimWorld>) {
    for plan in world.plans() {
        let record = world.memory.look(plan, |record| record.cloned()).unwrap_or_default();
        for check in [entries_survive, errors_count, live_jobs, events_retell, changesets_are_closed] {
            check(&mut world.watch.seen(), plan, &record);
        }
        entries_have_their_calls(world, plan, &record);
        calls_have_ended(world, plan).await;
        spends_are_settled(world, plan, &record).await;
        files_are_whole(world, plan, &record);
    }
    for day in world.days() {
        let accounts = world.memory.day_ledger(day).await.unwrap_or_default();
        accounts_hold(world, accounts.into_values());
    }
    journals_agree(world);
    breakers_return(world);
    nothing_is_left(world).await;
}

/// 3: acknowledged entries are there, in their own changeset, without a gap.
fn entries_survive(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord) {
    let mut places = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for set in record.changesets().iter() {
        for (entry, seq) in set.entries.iter().zip(1..) {
            places.insert(entry.id, (set.id, entry.seq, entry.no));
            numbers.insert(entry.no);
            if entry.seq != seq {
                seen.record_violation(
                    Promise::EntriesSurvive,
                    format!("changeset {} of plan {plan} has a gap at {seq}", set.id),
                );
            }
        }
    }
    if numbers.iter().copied().ne(1..=places.len() as u64) {
        seen.record_violation(
            Promise::EntriesSurvive,
            format!("the entries of plan {plan} have the numbers {numbers:?}"),
        );
    }
    let facts: Vec<_> = seen.entries.iter().filter(|fact| fact.plan == plan).copied().collect();
    for fact in facts {
        let told = (fact.recorded.changeset, fact.recorded.seq, fact.recorded.no);
        seen.check(Promise::EntriesSurvive, places.get(&fact.change) == Some(&told), || {
            format!(
                "entry {told:?} of plan {plan} was acknowledged, but the store has {:?}",
                places.get(&fact.change)
            )
        });
    }
}

/// 4: errors acknowledged are stored or folded, and retries are counted.
fn errors_count(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord) {
    let facts: Vec<_> = seen.errors.iter().filter(|fact| fact.plan == plan).cloned().collect();
    let history = record.errors();
    let folded: u64 = history.folded().values().map(|folded| folded.count).sum();
    let kept = history.records().len() as u64;
    // A job that is given up is an error too, although no process was left to report it.
    let given_up =
        record.jobs().filter(|job| job.lost_leases > LOST_LEASES_MAX && job.state == JobState::Failed);
    let told = facts.len() + given_up.count();
    seen.check(Promise::ErrorsCount, kept + folded == told as u64, || {
        format!("plan {plan} had {told} errors, {kept} are stored and {folded} folded")
    });
    let retries = facts.iter().filter(|fact| fact.is_retry).count();
    seen.check(Promise::ErrorsCount, retries == history.retries_total() as usize, || {
        format!("plan {plan} was granted {retries} retries, {} are counted", history.retries_total())
    });
}

/// 5: no job runs when no worker does.
fn live_jobs(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord) {
    let live = record.live_job();
    seen.check(Promise::OneLiveJob, live.is_none(), || format!("plan {plan} still has {live:?}"));
}

/// 6: no account is beyond its limit, and nothing is reserved by a final job.
async fn spends_are_settled(world: &Arc<SimWorld>, plan: PlanId, record: &PlanRecord) {
    let store = FaultyStore::new(world, StoreUser::Person);
    let spends = store.spends(plan).await.unwrap_or_default();
    for job in record.jobs().filter(|job| job.state.is_final()) {
        let open = spends.iter().filter(|spend| spend.job == job.id && spend.actual.is_none()).count();
        world.watch.seen().check(Promise::LedgerHolds, open == 0, || {
            format!("job {} is {} and has {open} spends open", job.id, job.state)
        });
    }
    accounts_hold(world, record.ledger().accounts.into_values());
}

fn accounts_hold(world: &SimWorld, accounts: impl Iterator<Item = Account>) {
    for account in accounts {
        let holds = account.max.is_none_or(|max| account.taken() <= max);
        world.watch.seen().check(Promise::LedgerHolds, holds, || format!("an account is {account:?}"));
    }
}

/// 7: a plan is applied exactly when an apply of it is.
fn files_are_whole(world: &SimWorld, plan: PlanId, record: &PlanRecord) {
    let ended = world.machine().ended.clone();
    let mut seen = world.watch.seen();
    let is_applied = |apply: &ApplyRecord| apply.stage == ApplyStage::Applied;
    for apply in record.applies() {
        let on_disk = matches!(ended.get(&apply.id), Some((_, JournalEnd::Applied { .. })));
        seen.check(Promise::FilesWhole, on_disk == is_applied(apply), || {
            format!(
                "apply {} is recorded as {:?}, its journal says {:?}",
                apply.id,
                apply.stage,
                ended.get(&apply.id)
            )
        });
    }
    let state = record.row().map(|row| row.state);
    let stands = state == Some(PlanState::Apply(ApplyState::Applied));
    if stands && !record.applies().any(is_applied) {
        seen.record_violation(Promise::FilesWhole, format!("plan {plan} is applied without an apply"));
    }
    if !stands && state.is_some_and(PlanState::is_final) && record.applies().any(is_applied) {
        seen.record_violation(
            Promise::CancelIsFinal,
            format!("plan {plan} is {state:?}, and it was applied"),
        );
    }
}

/// 7: each journal's files are all new or all old, as it ended.
fn journals_agree(world: &SimWorld) {
    let machine = world.machine();
    let mut seen = world.watch.seen();
    for (id, (_, end)) in &machine.ended {
        let torn = torn(&machine.files, *id, end);
        seen.check(Promise::FilesWhole, torn.is_none(), || torn.unwrap_or_default());
    }
}

/// 8: after all times have passed, every breaker admits a caller.
fn breakers_return(world: &SimWorld) {
    for breaker in world.breakers().iter() {
        for view in breaker.snapshot() {
            world.watch.seen().check(Promise::BreakersReturn, !breaker.is_open(&view.name), || {
                format!("a breaker is {:?} past its time", view.state)
            });
        }
    }
}

/// 9: the events agree with the rows.
fn events_retell(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord) {
    let Some(row) = record.row() else { return };
    let mut state = PlanState::FIRST.to_string();
    let mut jobs: BTreeMap<String, String> = BTreeMap::new();
    let mut counts: BTreeMap<EventKind, usize> = BTreeMap::new();
    let text = |event: &EventRecord, key: &str| event.data[key].as_str().unwrap_or_default().to_owned();
    for event in record.events() {
        *counts.entry(event.kind).or_default() += 1;
        if event.kind == EventKind::PlanMoved {
            if text(event, "from") != state {
                seen.record_violation(
                    Promise::EventsRetell,
                    format!("event {} of plan {plan} begins at another state", event.n),
                );
            }
            state = text(event, "to");
        }
        if event.kind == EventKind::JobMoved {
            jobs.insert(text(event, "job"), text(event, "to"));
        }
    }
    seen.check(Promise::EventsRetell, state == row.state.to_string(), || {
        format!("the events of plan {plan} end in {state}, it is {}", row.state)
    });
    let rows: BTreeMap<String, String> =
        record.jobs().map(|job| (JobId::to_string(&job.id), job.state.to_string())).collect();
    seen.check(Promise::EventsRetell, jobs == rows, || {
        format!("the events of plan {plan} report {jobs:?}, not {rows:?}")
    });
    let count = |kind| counts.get(&kind).copied().unwrap_or(0);
    let ended_calls = record.calls().filter(|call| call.state() != CallState::Running).count();
    let closed = record.changesets().iter().filter(|set| set.state != ChangesetState::Open).count();
    let told = [
        (EventKind::ToolStarted, record.calls().len()),
        (EventKind::ToolFinished, ended_calls),
        (EventKind::ChangesetClosed, closed),
        (EventKind::ErrorRecorded, record.errors().recorded() as usize),
        (EventKind::DecisionRecorded, record.decisions().len()),
    ];
    for (kind, rows) in told {
        seen.check(Promise::EventsRetell, count(kind) == rows, || {
            format!("plan {plan} reports {} {}, there are {rows}", count(kind), kind.as_str())
        });
    }
}

/// 11: no open changeset.
fn changesets_are_closed(seen: &mut ObservedFacts, plan: PlanId, record: &PlanRecord) {
    let open = record.changesets().open_count();
    seen.check(Promise::NothingLeft, open == 0, || format!("plan {plan} has {open} open changesets"));
}

/// 12: every entry is under a call of the node that changed the file. Each node has files of its own. A revision
/// begins with the entries of the attempt before.
fn entries_have_their_calls(world: &SimWorld, plan: PlanId, record: &PlanRecord) {
    let Some(script) = world.scenario.plan(plan) else { return };
    let nodes: BTreeMap<_, _> =
        record.calls().map(|call| ((call.new.attempt, call.no), call.new.node.as_str())).collect();
    let mut seen = world.watch.seen();
    for set in record.changesets().iter() {
        for entry in &set.entries {
            let (node, file) = (nodes.get(&(set.attempt, entry.call)).copied(), file_of(&entry.path));
            let writes = |node: &str| {
                let mut nodes = script.nodes.iter();
                let is_by_person = node == TAKE_BACK || node == REVISE;
                is_by_person || nodes.any(|own| own.name == node && own.writes.contains(&file))
            };
            seen.check(Promise::CallsRecorded, node.is_some_and(writes), || {
                format!("a change of file {file} of plan {plan} is recorded under a call of {node:?}")
            });
        }
    }
}

/// 12: no call is running when nothing is.
async fn calls_have_ended(world: &Arc<SimWorld>, plan: PlanId) {
    let store = FaultyStore::new(world, StoreUser::Person);
    let calls = store.calls(plan).await.unwrap_or_default();
    let running = calls.iter().filter(|call| call.end.is_none()).count();
    world.watch.seen().check(Promise::CallsRecorded, running == 0, || {
        format!("{running} calls are running in plan {plan}, which no worker runs")
    });
}

/// 11: no sandbox, process, lock or journal, and no task of a worker.
async fn nothing_is_left(world: &Arc<SimWorld>) {
    let locks = world.memory.locks().await.unwrap_or_default();
    let (now, boot) = (Ms::from(world.clock.now()), world.boot());
    let held: Vec<_> = locks.iter().filter(|lock| lock.is_held(boot, now)).collect();
    let machine = world.machine();
    let mut seen = world.watch.seen();
    let left = [
        ("sandboxes", machine.sandboxes.len()),
        ("processes", machine.processes.len()),
        ("journals", machine.journals.len()),
        ("locks", held.len()),
        ("locks of the kernel", usize::from(machine.root_lock.is_some())),
    ];
    for (what, count) in left {
        seen.check(Promise::NothingLeft, count == 0, || format!("{count} {what} are left"));
    }
}
