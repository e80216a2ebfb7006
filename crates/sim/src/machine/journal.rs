//! The journal of an apply: prepared, committed by a mark, carried out file by file, put away.
//!
//! # Invariants
//! 1. No file is written before the commit mark, and the mark is synced when it is there.
//! 2. A journal that has its mark is carried out, or rolled back if the user wrote to one of its files
//!    meanwhile.

use domain::{ApplyId, PlanId};

use super::{FileWriter, SimFiles, SimMachine};

/// One file of an apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimJournalEntry {
    pub(crate) file: u32,
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A journal that is not put away.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pub(crate) plan: PlanId,
    pub(crate) changes: Vec<SimJournalEntry>,
    pub(crate) is_committed: bool,
    /// The mark of its end: what was brought to it is not looked at again.
    pub(crate) end: Option<JournalEnd>,
}

/// The end of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalEnd {
    Applied {
        files: Vec<u32>,
    },
    /// Of these files the user's own writes were left.
    TakenBack {
        files: Vec<u32>,
        left: Vec<u32>,
    },
    NeverBegan {
        files: Vec<u32>,
    },
}

impl Journal {
    pub(crate) fn files(&self) -> Vec<u32> {
        self.changes.iter().map(|change| change.file).collect()
    }
}

impl SimMachine {
    /// Writes the next file of a committed journal; returns false if the user changed it meanwhile.
    pub(crate) fn carry_out(&mut self, id: ApplyId, change: SimJournalEntry) -> bool {
        let now = self.files.value(change.file);
        if now == change.before {
            self.files.write(change.file, change.after, FileWriter::Apply(id));
        }
        now == change.before || (now == change.after && self.files.has_of(change.file, id))
    }

    /// Puts back what was there before, but for files that the user wrote to since.
    pub(crate) fn take_back(&mut self, id: ApplyId) -> Vec<u32> {
        let changes = self.journals.get(&id).map(|journal| journal.changes.clone()).unwrap_or_default();
        let mut left = Vec::new();
        for change in changes.iter().rev() {
            if !self.files.has_of(change.file, id) {
                continue;
            }
            if self.files.value(change.file) == change.after {
                self.files.write(change.file, change.before, FileWriter::TakenBack(id));
                self.files.sync(change.file);
            } else {
                left.push(change.file);
            }
        }
        left
    }

    pub(crate) fn sync_all(&mut self, changes: &[SimJournalEntry]) {
        changes.iter().for_each(|change| self.files.sync(change.file));
    }

    /// Marks the end of a journal.
    pub(crate) fn mark(&mut self, id: ApplyId, end: &JournalEnd) {
        if let Some(journal) = self.journals.get_mut(&id) {
            journal.end = Some(end.clone());
        }
    }

    /// Brings a journal that was found to its end, and says which.
    pub(crate) fn settle(&mut self, id: ApplyId) -> Option<JournalEnd> {
        let journal = self.journals.get(&id)?.clone();
        let end = match &journal.end {
            Some(end) => end.clone(),
            None => self.end_of(id, &journal),
        };
        self.mark(id, &end);
        Some(end)
    }

    fn end_of(&mut self, id: ApplyId, journal: &Journal) -> JournalEnd {
        let files = journal.files();
        if !journal.is_committed {
            return JournalEnd::NeverBegan { files };
        }
        if journal.changes.iter().all(|change| self.carry_out(id, *change)) {
            self.sync_all(&journal.changes);
            return JournalEnd::Applied { files };
        }
        let left = self.take_back(id);
        JournalEnd::TakenBack { files, left }
    }

    /// Puts it away.
    pub(crate) fn retire(&mut self, id: ApplyId, end: JournalEnd) {
        if let Some(journal) = self.journals.remove(&id) {
            self.ended.insert(id, (journal.plan, end));
        }
    }
}

/// Returns what is wrong with the files of an ended apply, if anything.
pub(crate) fn torn(files: &SimFiles, id: ApplyId, end: &JournalEnd) -> Option<String> {
    let (wanted, list, left): (bool, &[u32], &[u32]) = match end {
        JournalEnd::Applied { files } => (true, files, &[]),
        JournalEnd::TakenBack { files, left } => (false, files, left),
        JournalEnd::NeverBegan { files } => (false, files, &[]),
    };
    let is_wrong = |file: &&u32| {
        let is_left = left.contains(file) && files.user_wrote_after(**file, id);
        files.has_of(**file, id) != wanted && !is_left
    };
    let file = list.iter().find(is_wrong)?;
    Some(format!("apply {id} ended as {end:?}, and its file {file} is not so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(is_committed: bool) -> (SimMachine, ApplyId) {
        let (mut machine, id) = (SimMachine::new(), ApplyId::from_u128(1));
        let change = |file: u32, after| SimJournalEntry { file, before: machine.files.value(file), after };
        let changes = vec![change(1, 101), change(2, 102)];
        machine.journals.insert(id, Journal { plan: PlanId::from_u128(1), changes, is_committed, end: None });
        (machine, id)
    }

    #[test]
    fn a_journal_without_its_mark_never_began() {
        let (mut machine, id) = machine(false);
        assert_eq!(machine.settle(id), Some(JournalEnd::NeverBegan { files: vec![1, 2] }));
        assert_eq!(machine.files.value(1), 2);
    }

    #[test]
    fn a_committed_journal_is_carried_out_once() {
        let (mut machine, id) = machine(true);
        let first = machine.journals[&id].changes[0];
        assert!(machine.carry_out(id, first) && machine.carry_out(id, first));
        let end = machine.settle(id).unwrap();
        assert_eq!(end, JournalEnd::Applied { files: vec![1, 2] });
        assert_eq!((machine.files.value(1), machine.files.value(2)), (101, 102));
        assert_eq!(torn(&machine.files, id, &end), None);
        machine.retire(id, end);
        assert_eq!(machine.settle(id), None);
    }

    #[test]
    fn an_edit_in_the_way_takes_all_of_it_back() {
        let (mut machine, id) = machine(true);
        machine.files.write(2, 7, FileWriter::User);
        let end = machine.settle(id).unwrap();
        assert_eq!(end, JournalEnd::TakenBack { files: vec![1, 2], left: vec![] });
        assert_eq!((machine.files.value(1), machine.files.value(2)), (2, 7));
        assert_eq!(torn(&machine.files, id, &end), None);
        assert!(torn(&machine.files, id, &JournalEnd::Applied { files: vec![1] }).is_some());
    }
}
