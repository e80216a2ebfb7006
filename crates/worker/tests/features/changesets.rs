//! Steps of #7120: changesets, started, recorded into and closed by several threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ::worker::{ChangesetHandle, PlanError, PlanExecutionContext, RandomIds};
use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use domain::{
    Base, CallNumber, ChangeDraft, ChangeId, Changeset, ChangesetState, ClosedChangeset, FileState,
    NewChange, RelPath, RootIndex,
};
use store::ChangesetStore;
use sync::{CancellationToken, EffectGate, ManualClock};

use crate::naive;
use crate::pausing_store::{Op, PausingStore, Point};
use crate::threads::{Held, apart, block_on};
use crate::world::{Features, id_of, owned_plan, rows};

/// What #7120's scenarios have.
#[derive(Default)]
pub(crate) struct Scene {
    plan: Option<Plan>,
}

/// The plan of a scenario.
#[derive(Clone)]
enum Plan {
    Ours(Ours),
    Naive(Arc<naive::PlanExecutionContext>),
}

/// A plan of ours. `Clone` is the same plan.
#[derive(Clone)]
pub(crate) struct Ours {
    store: Arc<PausingStore>,
    pub(crate) context: PlanExecutionContext,
    /// The handles of what was started, by the names that the scenario gives.
    handles: Arc<Mutex<BTreeMap<String, ChangesetHandle>>>,
}

/// What a thread that records is answered: nothing, or why not.
type Answer = Result<(), Refusal>;

#[derive(Clone, Debug, PartialEq)]
enum Refusal {
    Ours(PlanError),
    Naive(&'static str),
}

impl Refusal {
    fn message(&self) -> String {
        match self {
            Self::Ours(error) => error.to_string(),
            Self::Naive(error) => (*error).to_owned(),
        }
    }
}

impl Ours {
    pub(crate) fn new(store: &Arc<PausingStore>, number: u128) -> Self {
        let context = PlanExecutionContext::new(
            owned_plan(store, number),
            CancellationToken::new().observe(),
            EffectGate::new(),
            Arc::clone(store) as _,
            Arc::new(RandomIds::new()),
        );
        Self { store: Arc::clone(store), context, handles: Arc::default() }
    }

    /// Starts a changeset, which the scenario calls `name`.
    pub(crate) fn start(&self, name: &str) {
        let handle = block_on(self.context.start_changeset()).expect("the changeset is started");
        self.handles.lock().unwrap().insert(name.to_owned(), handle);
    }

    fn handle(&self, name: &str) -> ChangesetHandle {
        self.handles.lock().unwrap()[name].clone()
    }

    pub(crate) fn changesets(&self) -> Vec<Changeset> {
        let ours = self.clone();
        apart("a look at the changesets", move || {
            block_on(ours.store.changesets(ours.context.plan())).expect("the store answers")
        })
    }

    /// The name that the scenario gave to a changeset.
    fn name_of(&self, changeset: &Changeset) -> String {
        let handles = self.handles.lock().unwrap();
        let known = handles.iter().find(|(_, handle)| handle.id() == changeset.id);
        known.map_or_else(|| "not named".to_owned(), |(name, _)| name.clone())
    }

    fn shown(&self) -> Vec<[String; 3]> {
        let show = |changeset: &Changeset| {
            let state = match changeset.state {
                ChangesetState::Open => "open",
                ChangesetState::Closed => "closed",
                ChangesetState::Interrupted => "interrupted",
            };
            let paths: Vec<String> = paths(changeset).collect();
            [self.name_of(changeset), state.to_owned(), paths.join(" ")]
        };
        self.changesets().iter().map(show).collect()
    }
}

/// The paths of a changeset's entries, in order.
pub(crate) fn paths(changeset: &Changeset) -> impl Iterator<Item = String> {
    let path = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    changeset.entries.iter().map(move |entry| path(entry.path.as_bytes()))
}

/// The change that creates `file`. The same file is the same change.
pub(crate) fn change(file: &str) -> NewChange {
    let path = RelPath::new(file).expect("a path");
    NewChange {
        id: ChangeId::from_u128(id_of(file)),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft: ChangeDraft::between(path, None, Some(FileState::file(file.as_bytes(), 0o644)))
            .expect("a change"),
    }
}

impl Scene {
    fn plan(&self) -> Plan {
        self.plan.clone().expect("the scenario has a plan")
    }

    pub(crate) fn ours(&self) -> Ours {
        match self.plan() {
            Plan::Ours(ours) => ours,
            Plan::Naive(_) => panic!("the step is for our plan"),
        }
    }
}

impl Plan {
    fn start(&self, name: &str) {
        match self {
            Self::Ours(ours) => ours.start(name),
            Self::Naive(naive) => naive.start_changeset(name),
        }
    }

    fn record(&self, file: &str) -> Answer {
        match self {
            Self::Ours(ours) => {
                block_on(ours.context.record_change(change(file))).map(drop).map_err(Refusal::Ours)
            }
            Self::Naive(naive) => naive.record_change(file).map_err(Refusal::Naive),
        }
    }

    fn shown(&self) -> Vec<[String; 3]> {
        match self {
            Self::Ours(ours) => ours.shown(),
            Self::Naive(naive) => {
                let show =
                    |(name, entries): (String, Vec<String>)| [name, "open".to_owned(), entries.join(" ")];
                naive.changesets().into_iter().map(show).collect()
            }
        }
    }
}

pub(crate) fn new_store() -> Arc<PausingStore> {
    PausingStore::new(Arc::new(ManualClock::new()))
}

#[given("a plan without a changeset")]
fn our_plan(world: &mut Features) {
    world.changesets.plan = Some(Plan::Ours(Ours::new(&new_store(), 1)));
}

#[given("a naive plan without a changeset")]
fn naive_plan(world: &mut Features) {
    let naive = naive::PlanExecutionContext::new(naive::Guard::None);
    world.changesets.plan = Some(Plan::Naive(Arc::new(naive)));
}

#[given(expr = "a plan with the started changeset {string}")]
fn our_plan_with(world: &mut Features, name: String) {
    our_plan(world);
    starts(world, "setup".to_owned(), name);
}

#[given(expr = "a naive plan with the started changeset {string}")]
fn naive_plan_with(world: &mut Features, name: String) {
    naive_plan(world);
    starts(world, "setup".to_owned(), name);
}

#[given(expr = "a naive plan with a lock round its lookup, and the started changeset {string}")]
fn locked_naive_plan_with(world: &mut Features, name: String) {
    let naive = naive::PlanExecutionContext::new(naive::Guard::LockRoundLookup);
    world.changesets.plan = Some(Plan::Naive(Arc::new(naive)));
    starts(world, "setup".to_owned(), name);
}

#[given(expr = "thread {word} starts the changeset {string}")]
#[when(expr = "thread {word} starts the changeset {string}")]
fn starts(world: &mut Features, thread: String, name: String) {
    let plan = world.changesets.plan();
    world.threads.run(&thread, move || plan.start(&name));
}

fn starts_until(world: &mut Features, thread: &str, name: String, held: Held) {
    let plan = world.changesets.plan();
    world.threads.start_until(thread, held, move || plan.start(&name));
}

#[when(
    expr = "thread {word} starts the changeset {string}: it is inside the store, and the changeset is not yet visible"
)]
fn starts_invisibly(world: &mut Features, thread: String, name: String) {
    let held = world.changesets.ours().store.hold(Point::Before(Op::StartChangeset));
    starts_until(world, &thread, name, held);
}

#[when(expr = "thread {word} starts the changeset {string}: the store has it, and has not answered yet")]
fn starts_visibly(world: &mut Features, thread: String, name: String) {
    let held = match world.changesets.plan() {
        Plan::Ours(ours) => ours.store.hold(Point::After(Op::StartChangeset)),
        Plan::Naive(naive) => naive.pauses.hold(naive::ContextPoint::StoreStarted),
    };
    starts_until(world, &thread, name, held);
}

#[when(
    expr = "thread {word} starts the changeset {string}: the list has grown, and its last place is still empty"
)]
fn starts_mid_append(world: &mut Features, thread: String, name: String) {
    let Plan::Naive(naive) = world.changesets.plan() else { panic!("ours has no list") };
    let held = naive.pauses.hold(naive::ContextPoint::MidAppend);
    starts_until(world, &thread, name, held);
}

#[when(expr = "the store shows {int} changesets")]
fn store_shows(world: &mut Features, count: usize) {
    assert_eq!(world.changesets.plan().shown().len(), count);
}

#[when(expr = "thread {word} records the change {string}")]
fn records(world: &mut Features, thread: String, file: String) {
    let plan = world.changesets.plan();
    world.threads.run(&thread, move || plan.record(&file));
}

fn records_until(world: &mut Features, thread: &str, file: String, held: Held) {
    let plan = world.changesets.plan();
    world.threads.start_until(thread, held, move || plan.record(&file));
}

#[when(
    expr = "thread {word} records the change {string}: it is inside the store, and nothing is recorded yet"
)]
fn records_half_way(world: &mut Features, thread: String, file: String) {
    let held = world.changesets.ours().store.hold(Point::Before(Op::RecordLatest));
    records_until(world, &thread, file, held);
}

#[when(
    expr = "thread {word} records the change {string}: it has looked up the changeset, and nothing is recorded yet"
)]
fn records_looked_up(world: &mut Features, thread: String, file: String) {
    let Plan::Naive(naive) = world.changesets.plan() else { panic!("ours looks up and records in one step") };
    let held = naive.pauses.hold(naive::ContextPoint::LookedUp);
    records_until(world, &thread, file, held);
}

fn records_into_until(world: &mut Features, thread: &str, file: String, name: &str, point: Point) {
    let ours = world.changesets.ours();
    let (held, handle) = (ours.store.hold(point), ours.handle(name));
    let record =
        move || -> Answer { block_on(handle.record(change(&file))).map(drop).map_err(Refusal::Ours) };
    world.threads.start_until(thread, held, record);
}

#[when(
    expr = "thread {word} records the change {string} into {string}: it is inside the store, and nothing is recorded yet"
)]
fn records_into_half_way(world: &mut Features, thread: String, file: String, name: String) {
    records_into_until(world, &thread, file, &name, Point::Before(Op::Record));
}

#[when(
    expr = "thread {word} records the change {string} into {string}: the store has it, and has not answered yet"
)]
fn records_into_unanswered(world: &mut Features, thread: String, file: String, name: String) {
    records_into_until(world, &thread, file, &name, Point::After(Op::Record));
}

#[when(expr = "thread {word} closes the changeset {string}, which tells of {int} entry/entries")]
fn closes(world: &mut Features, thread: String, name: String, entries: usize) {
    let ours = world.changesets.ours();
    let handle = ours.handle(&name);
    world.threads.run(&thread, move || block_on(handle.close()));
    let closed: Result<ClosedChangeset, PlanError> = world.threads.answer(&thread);
    let changesets = ours.changesets();
    let changeset =
        changesets.iter().find(|changeset| ours.name_of(changeset) == name).expect("it is in the store");
    assert_eq!(changeset.entries.len(), entries);
    let expected = ClosedChangeset {
        id: changeset.id,
        entries: changeset.entries.len().try_into().unwrap(),
        digest: domain::changeset_digest(&changeset.entries),
    };
    assert_eq!(closed, Ok(expected));
}

#[then(expr = "thread {word} is answered that the change was recorded")]
fn answered_recorded(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Answer>(&thread), Ok(()));
}

#[then(expr = "thread {word} is answered {string}")]
fn answered_in_words(world: &mut Features, thread: String, message: String) {
    let answer: Answer = world.threads.answer(&thread);
    assert_eq!(answer.map_err(|refusal| refusal.message()), Err(message));
}

#[then(expr = "thread {word} is answered that {string} is closed, and gets the change {string} back")]
fn answered_closed(world: &mut Features, thread: String, name: String, file: String) {
    let expected = PlanError::ChangesetClosed {
        id: world.changesets.ours().handle(&name).id(),
        entry: Box::new(change(&file)),
    };
    assert_eq!(world.threads.answer::<Answer>(&thread), Err(Refusal::Ours(expected)));
}

#[then("the changesets are")]
fn changesets_are(world: &mut Features, step: &Step) {
    let expected = rows(step, ["changeset", "state", "entries"]);
    assert_eq!(world.changesets.plan().shown(), expected);
}
