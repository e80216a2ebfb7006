//! Changesets: an entry lands in its own, or in the latest that is open; never in a stale or a closed one.

use std::sync::Arc;

use ::worker::{ChangesetHandle, PlanError, PlanExecutionContext};
use domain::{ChangesetId, ChangesetState};
use proof::{Case, Twin};
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use store::{ChangesetStore, MemoryStore};

use crate::explore;
use crate::support::{PLAN, change, claimed, context};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            seed: "7120",
            name: "record_change beside start: into the latest that can be seen",
            explore: || explore(no_entry_goes_into_a_stale_changeset::<Ours>),
            twins: &[Twin {
                name: "last of a list beside the store",
                symptom: "wrong changeset",
                explore: || explore(no_entry_goes_into_a_stale_changeset::<naive::List>),
            }],
        },
        Case {
            seed: "7120",
            name: "record_change beside close of the only changeset: recorded, or told that none is active",
            explore: || explore(a_passed_guard_is_never_outrun::<Ours>),
            twins: &[Twin {
                name: "guard, then last of the list",
                symptom: "IndexError",
                explore: || explore(a_passed_guard_is_never_outrun::<naive::List>),
            }],
        },
        Case {
            seed: "7120",
            name: "2 threads record beside close: what was answered Ok is what was closed",
            explore: || explore(nothing_is_recorded_after_the_close::<Ours>),
            twins: &[Twin {
                name: "lock round the lookup only, as the report suggests",
                symptom: "recorded after the close",
                explore: || explore(nothing_is_recorded_after_the_close::<naive::LockedLookup>),
            }],
        },
        Case {
            seed: "7120",
            name: "8 threads start, record and close: entries in their own, without gaps, none open",
            explore: || explore(every_entry_is_in_its_own_changeset),
            twins: &[],
        },
    ]
}

/// What the bodies need of a context and its store.
pub(crate) trait Recording: Send + Sync + 'static {
    fn new() -> Self;
    /// Starts a changeset; they are numbered from 1.
    fn start(&self) -> u32;
    /// The number of the newest changeset that the store shows; 0 for none.
    fn newest_in_store(&self) -> u32;
    /// Records into the latest; the number of the changeset it went into, or the error's text.
    fn record_change(&self, n: u64) -> Result<u32, String>;
    /// Closes; how many entries it had then.
    fn close(&self, number: u32) -> usize;
    /// How many entries it has now.
    fn entries(&self, number: u32) -> usize;
}

const NO_ACTIVE: &str = "No active changeset. Call start_changeset() first.";

fn no_entry_goes_into_a_stale_changeset<R: Recording>() {
    let recording = Arc::new(R::new());
    recording.start();
    let starter = {
        let recording = Arc::clone(&recording);
        thread::spawn(move || recording.start())
    };
    let newest = recording.newest_in_store();
    let landed = recording.record_change(1).unwrap();
    starter.join().unwrap();
    assert!(landed >= newest, "wrong changeset: {newest} was visible, the entry is in {landed}");
}

fn a_passed_guard_is_never_outrun<R: Recording>() {
    let recording = Arc::new(R::new());
    let only = recording.start();
    let closer = {
        let recording = Arc::clone(&recording);
        thread::spawn(move || recording.close(only))
    };
    match recording.record_change(1) {
        Ok(landed) => assert_eq!(landed, only),
        Err(text) => assert_eq!(text, NO_ACTIVE),
    }
    closer.join().unwrap();
}

fn nothing_is_recorded_after_the_close<R: Recording>() {
    let recording = Arc::new(R::new());
    let only = recording.start();
    let recorders: Vec<_> = (1..=2)
        .map(|n| {
            let recording = Arc::clone(&recording);
            thread::spawn(move || recording.record_change(n).is_ok())
        })
        .collect();
    let at_close = recording.close(only);
    let recorded =
        recorders.into_iter().filter_map(|recorder| recorder.join().unwrap().then_some(())).count();
    let now = recording.entries(only);
    assert_eq!(now, at_close, "recorded after the close: {at_close} entries then, {now} now");
    assert_eq!(recorded, at_close, "what was answered Ok is what was closed");
}

fn every_entry_is_in_its_own_changeset() {
    let (store, claim) = claimed();
    let context = context(&store, claim);
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let context = context.clone();
            thread::spawn(move || {
                block_on(async {
                    let handle = context.start_changeset().await.unwrap();
                    for n in 0..3 {
                        handle.record(change(thread * 10 + n)).await.unwrap();
                    }
                    assert_eq!(handle.close().await.unwrap().entries, 3);
                    (handle.id(), thread)
                })
            })
        })
        .collect();
    let owners: std::collections::BTreeMap<ChangesetId, u64> =
        threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for set in block_on(store.changesets(PLAN)).unwrap() {
        let thread = owners[&set.id];
        assert_eq!(set.state, ChangesetState::Closed);
        let entries: Vec<_> = set.entries.iter().map(|entry| (entry.seq, entry.id)).collect();
        let own: Vec<_> = (0..3_u64).map(|n| (n as u32 + 1, change(thread * 10 + n).id)).collect();
        assert_eq!(entries, own);
    }
}

struct Ours {
    store: Arc<MemoryStore>,
    context: PlanExecutionContext,
    handles: Mutex<Vec<ChangesetHandle>>,
}

impl Ours {
    fn number(&self, id: ChangesetId) -> u32 {
        let sets = block_on(self.store.changesets(PLAN)).unwrap();
        sets.iter().find(|set| set.id == id).unwrap().ordinal
    }
}

impl Recording for Ours {
    fn new() -> Self {
        let (store, claim) = claimed();
        let context = context(&store, claim);
        Self { store, context, handles: Mutex::new(Vec::new()) }
    }

    fn start(&self) -> u32 {
        let handle = block_on(self.context.start_changeset()).unwrap();
        let number = self.number(handle.id());
        self.handles.lock().unwrap().push(handle);
        number
    }

    fn newest_in_store(&self) -> u32 {
        block_on(self.store.changesets(PLAN)).unwrap().last().map_or(0, |set| set.ordinal)
    }

    fn record_change(&self, n: u64) -> Result<u32, String> {
        match block_on(self.context.record_change(change(n))) {
            Ok(recorded) => Ok(self.number(recorded.changeset)),
            Err(error @ PlanError::NoActiveChangeset) => Err(error.to_string()),
            Err(other) => panic!("{other}"),
        }
    }

    fn close(&self, number: u32) -> usize {
        let handle = self.handles.lock().unwrap()[number as usize - 1].clone();
        block_on(handle.close()).unwrap().entries as usize
    }

    fn entries(&self, number: u32) -> usize {
        block_on(self.store.changesets(PLAN)).unwrap()[number as usize - 1].entries.len()
    }
}

/// The bug of report #7120, and the fix that it suggested.
mod naive {
    use super::{Mutex, NO_ACTIVE, Recording};

    /// A store that is right in itself: each call is atomic.
    #[derive(Default)]
    struct Store {
        sets: Mutex<Vec<Vec<u64>>>,
    }

    impl Store {
        fn start(&self) -> u32 {
            let mut sets = self.sets.lock().unwrap();
            sets.push(Vec::new());
            sets.len() as u32
        }

        fn record(&self, number: u32, n: u64) {
            self.sets.lock().unwrap()[number as usize - 1].push(n);
        }

        fn entries(&self, number: u32) -> usize {
            self.sets.lock().unwrap()[number as usize - 1].len()
        }

        fn newest(&self) -> u32 {
            self.sets.lock().unwrap().len() as u32
        }
    }

    /// #7120: a list of active ids beside the store. Each access is atomic, as under Python's GIL.
    #[derive(Default)]
    pub(super) struct List {
        store: Store,
        active: Mutex<Vec<u32>>,
    }

    impl Recording for List {
        fn new() -> Self {
            Self::default()
        }

        fn start(&self) -> u32 {
            let number = self.store.start();
            self.active.lock().unwrap().push(number);
            number
        }

        fn newest_in_store(&self) -> u32 {
            self.store.newest()
        }

        fn record_change(&self, n: u64) -> Result<u32, String> {
            if self.active.lock().unwrap().is_empty() {
                return Err(NO_ACTIVE.to_owned());
            }
            let number = *self.active.lock().unwrap().last().expect("IndexError: list index out of range");
            self.store.record(number, n);
            Ok(number)
        }

        fn close(&self, number: u32) -> usize {
            self.active.lock().unwrap().retain(|active| *active != number);
            self.store.entries(number)
        }

        fn entries(&self, number: u32) -> usize {
            self.store.entries(number)
        }
    }

    /// The suggested fix: guard and lookup under one lock, the record outside of it.
    #[derive(Default)]
    pub(super) struct LockedLookup {
        list: List,
    }

    impl Recording for LockedLookup {
        fn new() -> Self {
            Self::default()
        }

        fn start(&self) -> u32 {
            self.list.start()
        }

        fn newest_in_store(&self) -> u32 {
            self.list.newest_in_store()
        }

        fn record_change(&self, n: u64) -> Result<u32, String> {
            let latest = self.list.active.lock().unwrap().last().copied();
            let number = latest.ok_or_else(|| NO_ACTIVE.to_owned())?;
            self.list.store.record(number, n);
            Ok(number)
        }

        fn close(&self, number: u32) -> usize {
            self.list.close(number)
        }

        fn entries(&self, number: u32) -> usize {
            self.list.entries(number)
        }
    }
}
