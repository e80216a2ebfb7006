//! The changesets of a plan against a list that is searched from end to end, over random histories.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{change, entry};

/// A changeset as a list entry, found by looking at all of them.
#[derive(Clone)]
struct Listed {
    id: ChangesetId,
    state: ChangesetState,
    entries: Vec<ChangeEntry>,
}

#[derive(Default)]
struct List {
    sets: Vec<Listed>,
    changes: Vec<(NewChange, RecordedChange)>,
}

impl List {
    fn start(&mut self, id: ChangesetId) -> StartedChangeset {
        let place = self.sets.iter().position(|set| set.id == id).unwrap_or_else(|| {
            self.sets.push(Listed { id, state: ChangesetState::Open, entries: Vec::new() });
            self.sets.len() - 1
        });
        StartedChangeset { id, ordinal: place as u32 + 1 }
    }

    fn record(
        &mut self,
        id: Option<ChangesetId>,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetError> {
        if let Some((first, recorded)) = self.changes.iter().find(|(first, _)| first.id == change.id) {
            let same = *first == change;
            return if same { Ok(*recorded) } else { Err(ChangesetError::InvalidEntry { id: change.id }) };
        }
        let set = match id {
            Some(id) => {
                let set = self.sets.iter_mut().find(|set| set.id == id);
                set.ok_or(ChangesetError::UnknownChangeset { id })?
            }
            None => {
                let open = self.sets.iter_mut().rev().find(|set| set.state == ChangesetState::Open);
                open.ok_or(ChangesetError::NoActiveChangeset)?
            }
        };
        if set.state != ChangesetState::Open {
            return Err(ChangesetError::ChangesetClosed { id: set.id, entry: Box::new(change) });
        }
        let recorded = RecordedChange {
            changeset: set.id,
            seq: set.entries.len() as u32 + 1,
            no: self.changes.len() as u64 + 1,
        };
        set.entries.push(entry(set.id, recorded.seq, recorded.no, &change));
        self.changes.push((change, recorded));
        Ok(recorded)
    }

    fn end(set: &mut Listed, state: ChangesetState) -> ClosedChangeset {
        if set.state == ChangesetState::Open {
            set.state = state;
        }
        let digest = changeset_digest(&set.entries);
        ClosedChangeset { id: set.id, entries: set.entries.len() as u32, digest }
    }

    fn close(&mut self, id: ChangesetId) -> Result<ClosedChangeset, ChangesetError> {
        let set = self.sets.iter_mut().find(|set| set.id == id);
        set.map(|set| List::end(set, ChangesetState::Closed)).ok_or(ChangesetError::UnknownChangeset { id })
    }

    fn finish(&mut self, state: ChangesetState) -> Vec<ClosedChangeset> {
        let open = self.sets.iter_mut().filter(|set| set.state == ChangesetState::Open);
        open.map(|set| List::end(set, state)).collect()
    }

    fn all(&self) -> Vec<Changeset> {
        let shown = |(place, set): (usize, &Listed)| Changeset {
            id: set.id,
            ordinal: place as u32 + 1,
            attempt: 1,
            state: set.state,
            entries: set.entries.clone(),
            digest: (set.state != ChangesetState::Open).then(|| changeset_digest(&set.entries)),
        };
        self.sets.iter().enumerate().map(shown).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start(u128),
    Record(u128, u128, &'static str),
    RecordLatest(u128, &'static str),
    Close(u128),
    Finish(ChangesetEnding),
}

fn some_step() -> impl Strategy<Value = Step> {
    let set = 0..6_u128;
    let change = 0..60_u128;
    let content = prop_oneof![9 => Just("content"), 1 => Just("another")];
    prop_oneof![
        3 => set.clone().prop_map(Step::Start),
        6 => (set.clone(), change.clone(), content.clone()).prop_map(|(set, id, text)| Step::Record(set, id, text)),
        4 => (change, content).prop_map(|(id, text)| Step::RecordLatest(id, text)),
        3 => set.prop_map(Step::Close),
        1 => prop_oneof![Just(ChangesetEnding::Closed), Just(ChangesetEnding::Interrupted)].prop_map(Step::Finish),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn changesets_behave_as_a_list_that_is_searched(steps in proptest::collection::vec(some_step(), 1..80)) {
        let mut changesets = Changesets::default();
        let mut list = List::default();
        for step in steps {
            match step {
                Step::Start(id) => {
                    let id = ChangesetId::from_u128(id);
                    prop_assert_eq!(changesets.start(id), Ok(list.start(id)));
                }
                Step::Record(set, id, text) => {
                    let set = ChangesetId::from_u128(set);
                    let change = change(id, text);
                    prop_assert_eq!(changesets.record(set, change.clone()), list.record(Some(set), change));
                }
                Step::RecordLatest(id, text) => {
                    let change = change(id, text);
                    prop_assert_eq!(changesets.record_latest(change.clone()), list.record(None, change));
                }
                Step::Close(id) => {
                    let id = ChangesetId::from_u128(id);
                    prop_assert_eq!(changesets.close(id), list.close(id));
                }
                Step::Finish(how) => {
                    let state = match how {
                        ChangesetEnding::Closed => ChangesetState::Closed,
                        ChangesetEnding::Interrupted => ChangesetState::Interrupted,
                    };
                    prop_assert_eq!(changesets.finish(how), list.finish(state));
                }
            }
            let all = list.all();
            let open = all.iter().filter(|set| set.state == ChangesetState::Open).count();
            prop_assert_eq!(changesets.open_count(), open);
            prop_assert_eq!(changesets.next_no(), list.changes.len() as u64 + 1);
            prop_assert_eq!(changesets.iter().cloned().collect::<Vec<_>>(), all.clone());
            for set in &all {
                prop_assert_eq!(changesets.get(set.id), Some(set));
            }
        }
        prop_assert_eq!(changesets.get(ChangesetId::from_u128(99)), None);
    }
}

#[test]
fn the_seeds_message_is_kept() {
    let error = Changesets::default().record_latest(change(1, "a")).unwrap_err();
    assert_eq!(error.to_string(), "No active changeset. Call start_changeset() first.");
}

#[test]
fn an_error_of_a_changeset_says_how_to_take_it() {
    let id = ChangesetId::from_u128(1);
    let classes = [
        (ChangesetError::NoActiveChangeset, ErrorClass::Bug),
        (ChangesetError::UnknownChangeset { id }, ErrorClass::Bug),
        (ChangesetError::InvalidEntry { id: ChangeId::from_u128(1) }, ErrorClass::Bug),
        (ChangesetError::ChangesetClosed { id, entry: Box::new(change(1, "a")) }, ErrorClass::Permanent),
        (ChangesetError::UnknownCall { attempt: 1, no: CallNumber(2) }, ErrorClass::Bug),
        (ChangesetError::CallEnded { attempt: 1, no: CallNumber(2) }, ErrorClass::Bug),
        (ChangesetError::Full { what: "entries" }, ErrorClass::Permanent),
    ];
    for (error, class) in classes {
        assert_eq!(error.class(), class, "{error}");
    }
}
