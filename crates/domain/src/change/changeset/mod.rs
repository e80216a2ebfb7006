//! The changesets of one plan: started, recorded into, closed.
//!
//! # Invariants
//! 1. An entry is in the changeset that its handle names, or, recorded without a handle, in the open one that
//!    was started last. It is in one changeset only.
//! 2. `seq` counts 1, 2, 3… within a changeset and `no` within the plan, without gaps or duplicates. A number
//!    is taken only together with its entry.
//! 3. A closed changeset never changes again; it has a digest exactly when it is not open.
//! 4. Every operation may be asked for again: the answer is that of the first time.
//! 5. The active set holds the open ones only. A closed one costs later calls no more than a look-up by id.
//!
//! # Not here
//! The right to write: [`PlanRecord`](crate::PlanRecord) checks the claim first, in the same step.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::digest::changeset_digest;
use super::file_state::Hash;
use super::{ChangeEntry, NewChange};
use crate::failure::ErrorClass;
use crate::id::{CallNumber, ChangeId, ChangesetId};

/// The state of a changeset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangesetState {
    /// From its start. Takes entries; its handle closes it, or the end of its owner interrupts it.
    Open,
    /// Closed by its handle, or by its owner at the end of the phase. Stays so.
    Closed,
    /// Its owner was cancelled or died; its recorded entries are retained. Stays so.
    Interrupted,
}

/// The end that an owner gives its open changesets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangesetEnding {
    /// The work in them is whole.
    Closed,
    /// The work in them was interrupted.
    Interrupted,
}

/// An ordered set of change entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changeset {
    /// Its name, chosen by the process that started it.
    pub id: ChangesetId,
    /// Its place among the plan's changesets, from 1.
    pub ordinal: u32,
    /// The plan's attempt in which it was started; 1 where the plan counts none.
    pub attempt: u32,
    /// Open, closed or interrupted.
    pub state: ChangesetState,
    /// The recorded entries, in order of `seq`.
    pub entries: Vec<ChangeEntry>,
    /// Of the entries; there when it is no longer open.
    pub digest: Option<Hash>,
}

/// A changeset was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartedChangeset {
    /// The changeset.
    pub id: ChangesetId,
    /// Its place among the plan's changesets.
    pub ordinal: u32,
}

/// An entry was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    /// The changeset that it is in.
    pub changeset: ChangesetId,
    /// Its place there.
    pub seq: u32,
    /// Its place in the plan.
    pub no: u64,
}

/// A changeset takes no more entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedChangeset {
    /// The changeset.
    pub id: ChangesetId,
    /// The number of its entries.
    pub entries: u32,
    /// Their digest.
    pub digest: Hash,
}

/// The reason why a changeset did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangesetError {
    /// Nothing is open to record into.
    #[error("No active changeset. Call start_changeset() first.")]
    NoActiveChangeset,
    /// The plan has no such changeset.
    #[error("the plan has no changeset {id}")]
    UnknownChangeset {
        /// The one that was asked for.
        id: ChangesetId,
    },
    /// It takes no more entries.
    #[error("changeset {id} is closed")]
    ChangesetClosed {
        /// The one that was asked for.
        id: ChangesetId,
        /// The entry that was not recorded, handed back.
        entry: Box<NewChange>,
    },
    /// The id names another change already.
    #[error("change {id} was recorded before with another content")]
    InvalidEntry {
        /// The id that was used twice.
        id: ChangeId,
    },
    /// No such call was admitted.
    #[error("the plan has no call {} in attempt {attempt}", no.0)]
    UnknownCall {
        /// The attempt.
        attempt: u32,
        /// The call that was to be ended.
        no: CallNumber,
    },
    /// The call has ended before, and not so.
    #[error("call {} of attempt {attempt} has ended already with another outcome", no.0)]
    CallEnded {
        /// The attempt.
        attempt: u32,
        /// The call that was to be ended again.
        no: CallNumber,
    },
    /// The numbers of this kind are used up.
    #[error("the plan has no numbers left for its {what}")]
    Full {
        /// The noun for what is numbered.
        what: &'static str,
    },
}

impl ChangesetError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            ChangesetError::NoActiveChangeset
            | ChangesetError::UnknownChangeset { .. }
            | ChangesetError::InvalidEntry { .. }
            | ChangesetError::UnknownCall { .. }
            | ChangesetError::CallEnded { .. } => ErrorClass::Bug,
            ChangesetError::ChangesetClosed { .. } | ChangesetError::Full { .. } => ErrorClass::Permanent,
        }
    }
}

/// All changesets of one plan.
///
/// ```
/// use domain::*;
///
/// # fn change(id: u128) -> NewChange {
/// #     let path = RelPath::new("a").unwrap();
/// #     let draft = ChangeDraft::between(path, None, Some(FileState::file(b"a", 0o644))).unwrap();
/// #     let id = ChangeId::from_u128(id);
/// #     NewChange { id, call: CallNumber(1), root: RootIndex(0), base: Base::Known, draft }
/// # }
/// let mut changesets = Changesets::default();
/// let (first, second) = (ChangesetId::from_u128(1), ChangesetId::from_u128(2));
/// changesets.start(first)?;
/// changesets.start(second)?;
/// assert_eq!(changesets.record(first, change(7))?, RecordedChange { changeset: first, seq: 1, no: 1 });
/// assert_eq!(changesets.record_latest(change(8))?, RecordedChange { changeset: second, seq: 1, no: 2 });
/// changesets.close(second)?;
/// assert_eq!(changesets.record_latest(change(9))?, RecordedChange { changeset: first, seq: 2, no: 3 });
/// # Ok::<(), ChangesetError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changesets {
    /// In order of ordinal: the one with ordinal n is at n - 1. Nothing is ever removed, so a place stays
    /// valid.
    all: Vec<Changeset>,
    place_of: BTreeMap<ChangesetId, usize>,
    /// The active set: places of the open ones.
    open: BTreeSet<usize>,
    /// The answer to each change, and the place of its changeset.
    recorded: BTreeMap<ChangeId, (usize, RecordedChange)>,
    numbers_taken: u64,
}

/// The changeset into which an entry is recorded.
#[derive(Clone, Copy)]
enum ChangesetTarget {
    Named(ChangesetId),
    Latest,
}

impl Changesets {
    /// Starts a changeset of the first attempt; see [`start_in`](Self::start_in).
    ///
    /// # Errors
    /// Returns [`Full`](ChangesetError::Full) after 2³²-1 changesets.
    pub fn start(&mut self, id: ChangesetId) -> Result<StartedChangeset, ChangesetError> {
        self.start_in(1, id)
    }

    /// Starts a changeset of this attempt, which is then the latest.
    ///
    /// # Errors
    /// Returns [`Full`](ChangesetError::Full) after 2³²-1 changesets.
    pub fn start_in(&mut self, attempt: u32, id: ChangesetId) -> Result<StartedChangeset, ChangesetError> {
        if let Some(known) = self.get(id) {
            return Ok(StartedChangeset { id, ordinal: known.ordinal });
        }
        let place = self.all.len();
        let ordinal = number_after(place, "changesets")?;
        let state = ChangesetState::Open;
        self.all.push(Changeset { id, ordinal, attempt, state, entries: Vec::new(), digest: None });
        self.place_of.insert(id, place);
        self.open.insert(place);
        Ok(StartedChangeset { id, ordinal })
    }

    /// Records into the changeset that a handle names.
    ///
    /// # Errors
    /// Returns an error if the changeset is unknown or closed, or the change's id is taken by another change.
    pub fn record(&mut self, id: ChangesetId, change: NewChange) -> Result<RecordedChange, ChangesetError> {
        self.append(ChangesetTarget::Named(id), change)
    }

    /// Records into the open changeset that was started last.
    ///
    /// # Errors
    /// Returns an error if no changeset is open, or the change's id is taken by another change.
    pub fn record_latest(&mut self, change: NewChange) -> Result<RecordedChange, ChangesetError> {
        self.append(ChangesetTarget::Latest, change)
    }

    /// Closes a changeset; closed before, the answer is the same.
    ///
    /// # Errors
    /// Returns an error if the changeset is unknown.
    pub fn close(&mut self, id: ChangesetId) -> Result<ClosedChangeset, ChangesetError> {
        let place = *self.place_of.get(&id).ok_or(ChangesetError::UnknownChangeset { id })?;
        Ok(self.end(place, ChangesetState::Closed))
    }

    /// Ends every changeset that is still open, and returns each in order of start.
    pub fn finish(&mut self, how: ChangesetEnding) -> Vec<ClosedChangeset> {
        let state = match how {
            ChangesetEnding::Closed => ChangesetState::Closed,
            ChangesetEnding::Interrupted => ChangesetState::Interrupted,
        };
        let open: Vec<usize> = self.open.iter().copied().collect();
        open.into_iter().map(|place| self.end(place, state)).collect()
    }

    /// Returns how many still take entries.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The changeset of this name.
    pub fn get(&self, id: ChangesetId) -> Option<&Changeset> {
        self.place_of.get(&id).map(|place| &self.all[*place])
    }

    /// All of them, in order of start.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Changeset> {
        self.all.iter()
    }

    /// The number that the plan's next entry gets.
    pub fn next_no(&self) -> u64 {
        self.numbers_taken.saturating_add(1)
    }

    /// Answers as the first time, or takes the next numbers together with the entry. Looks the id up once,
    /// since this is what a plan does most.
    fn append(
        &mut self,
        target: ChangesetTarget,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetError> {
        let unused = match self.recorded.entry(change.id) {
            Entry::Occupied(first) => {
                let &(place, recorded) = first.get();
                let same = self.all[place].entries[recorded.seq as usize - 1].matches(&change);
                return if same { Ok(recorded) } else { Err(ChangesetError::InvalidEntry { id: change.id }) };
            }
            Entry::Vacant(unused) => unused,
        };
        let place = match target {
            ChangesetTarget::Named(id) => {
                *self.place_of.get(&id).ok_or(ChangesetError::UnknownChangeset { id })?
            }
            ChangesetTarget::Latest => *self.open.last().ok_or(ChangesetError::NoActiveChangeset)?,
        };
        let set = &mut self.all[place];
        if set.state != ChangesetState::Open {
            return Err(ChangesetError::ChangesetClosed { id: set.id, entry: Box::new(change) });
        }
        let seq = number_after(set.entries.len(), "entries")?;
        let no = self.numbers_taken.checked_add(1).ok_or(ChangesetError::Full { what: "entries" })?;
        let recorded = RecordedChange { changeset: set.id, seq, no };
        set.entries.push(ChangeEntry::new(set.id, seq, no, change));
        unused.insert((place, recorded));
        self.numbers_taken = no;
        Ok(recorded)
    }

    /// Ends it if it is open; either way, how it ended.
    fn end(&mut self, place: usize, state: ChangesetState) -> ClosedChangeset {
        self.open.remove(&place);
        let set = &mut self.all[place];
        if set.state == ChangesetState::Open {
            set.state = state;
        }
        let digest = *set.digest.get_or_insert_with(|| changeset_digest(&set.entries));
        // As many as were numbered by `number_after`.
        ClosedChangeset { id: set.id, entries: set.entries.len() as u32, digest }
    }
}

/// The number of what comes after `taken` others.
fn number_after(taken: usize, what: &'static str) -> Result<u32, ChangesetError> {
    u32::try_from(taken).ok().and_then(|taken| taken.checked_add(1)).ok_or(ChangesetError::Full { what })
}

/// The changes of one call, recorded together: a batch that is refused leaves the changesets as they were.
/// One that is asked for again is answered as the first time, also when its changeset is closed by then.
impl Changesets {
    /// Records all of `changes`, in order, into the changeset that a handle names; or none of them.
    ///
    /// # Errors
    /// Returns the first refusal: the changeset is unknown or closed, or an id is taken by another change.
    pub fn record_all(
        &mut self,
        id: ChangesetId,
        changes: Vec<NewChange>,
    ) -> Result<Vec<RecordedChange>, ChangesetError> {
        let taken = self.numbers_taken;
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            let change_id = change.id;
            match self.record(id, change) {
                Ok(recorded) => answers.push((change_id, recorded)),
                Err(refused) => {
                    self.take_back(id, taken, &answers);
                    return Err(refused);
                }
            }
        }
        Ok(answers.into_iter().map(|(_, recorded)| recorded).collect())
    }

    /// Returns whether each of these changes was recorded before, with this content.
    pub fn knows_all(&self, changes: &[NewChange]) -> bool {
        changes.iter().all(|change| {
            self.recorded.get(&change.id).is_some_and(|(place, recorded)| {
                self.all[*place].entries[recorded.seq as usize - 1].matches(change)
            })
        })
    }

    /// Removes the changes that were recorded into `id` since `taken` numbers were taken.
    fn take_back(&mut self, id: ChangesetId, taken: u64, answers: &[(ChangeId, RecordedChange)]) {
        for (change, _) in answers.iter().filter(|(_, recorded)| recorded.no > taken) {
            self.recorded.remove(change);
        }
        if let Some(place) = self.place_of.get(&id) {
            self.all[*place].entries.retain(|entry| entry.no <= taken);
        }
        self.numbers_taken = taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::file_state::FileState;
    use crate::change::{Base, ChangeDraft};
    use crate::id::{CallNumber, RootIndex};
    use crate::path::RelPath;

    #[test]
    fn numbers_that_are_used_up_are_an_error_and_not_a_panic() {
        let last = u32::MAX as usize - 1;
        assert_eq!(number_after(0, "entries"), Ok(1));
        assert_eq!(number_after(last, "entries"), Ok(u32::MAX));
        assert_eq!(number_after(last + 1, "entries"), Err(ChangesetError::Full { what: "entries" }));
        assert_eq!(number_after(usize::MAX, "changesets"), Err(ChangesetError::Full { what: "changesets" }));
    }

    #[test]
    fn a_plan_without_numbers_left_records_nothing() {
        let id = ChangesetId::from_u128(1);
        let draft =
            ChangeDraft::between(RelPath::new("a").unwrap(), None, Some(FileState::file(b"a", 0o644)))
                .unwrap();
        let change = NewChange {
            id: ChangeId::from_u128(1),
            call: CallNumber(1),
            root: RootIndex(0),
            base: Base::Known,
            draft,
        };
        let mut changesets = Changesets { numbers_taken: u64::MAX, ..Changesets::default() };
        changesets.start(id).unwrap();
        let before = changesets.clone();
        assert_eq!(changesets.record(id, change), Err(ChangesetError::Full { what: "entries" }));
        assert_eq!(changesets, before);
        assert_eq!(changesets.next_no(), u64::MAX);
    }
}
