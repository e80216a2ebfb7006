//! The changes of one call, recorded together: all of them or none.
//!
//! # Invariants
//! 1. A batch that is refused leaves the changesets as they were: no number is taken, no id is known.
//! 2. Asked for again, a batch is answered as the first time, also when its changeset is closed by then.

use super::{ChangesetError, Changesets, RecordedChange};
use crate::change::NewChange;
use crate::id::{ChangeId, ChangesetId};

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

    /// Takes back what was recorded into `id` since `taken` numbers were taken.
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
