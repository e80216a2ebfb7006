//! The user's files, each with the list of all that was written to it: by whom, and whether it was synced.
//!
//! A content is a number; 0 is a file that is not there.

use domain::{ApplyId, FileState, Hash, Kind};

use crate::random::Random;

/// The origin of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileWriter {
    /// It was there at the beginning.
    Start,
    User,
    Apply(ApplyId),
    /// An apply that puts back what was there before.
    TakenBack(ApplyId),
}

#[derive(Clone, Copy, Debug)]
struct FileWrite {
    value: u64,
    by: FileWriter,
    is_synced: bool,
}

/// The files.
#[derive(Debug)]
pub(crate) struct SimFiles {
    writes: Vec<Vec<FileWrite>>,
}

impl SimFiles {
    pub(crate) fn new(count: u32) -> Self {
        let first = |file: u32| {
            let value = if file.is_multiple_of(3) { 0 } else { u64::from(file) + 1 };
            vec![FileWrite { value, by: FileWriter::Start, is_synced: true }]
        };
        Self { writes: (0..count).map(first).collect() }
    }

    pub(crate) fn value(&self, file: u32) -> u64 {
        self.writes.get(file as usize).and_then(|writes| writes.last()).map_or(0, |write| write.value)
    }

    pub(crate) fn values(&self) -> Vec<u64> {
        self.writes.iter().map(|writes| writes.last().map_or(0, |write| write.value)).collect()
    }

    pub(crate) fn write(&mut self, file: u32, value: u64, by: FileWriter) {
        if let Some(writes) = self.writes.get_mut(file as usize) {
            writes.push(FileWrite { value, by, is_synced: false });
            // An editor saves with a sync, and what came before is on the disk by then.
            if by == FileWriter::User {
                writes.iter_mut().for_each(|write| write.is_synced = true);
            }
        }
    }

    pub(crate) fn sync(&mut self, file: u32) {
        if let Some(writes) = self.writes.get_mut(file as usize) {
            writes.iter_mut().for_each(|write| write.is_synced = true);
        }
    }

    /// Of what was not synced, the disk has as much as chance left on it.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        for writes in &mut self.writes {
            let synced = writes.iter().rposition(|write| write.is_synced).map_or(0, |last| last + 1);
            let kept = random.between(synced as u64, writes.len() as u64);
            writes.truncate(kept as usize);
            writes.iter_mut().for_each(|write| write.is_synced = true);
        }
    }

    /// Returns whether the apply's write to the file is present, or was until another writer wrote.
    pub(crate) fn has_of(&self, file: u32, apply: ApplyId) -> bool {
        let of_apply = |write: &&FileWrite| matches!(write.by, FileWriter::Apply(by) | FileWriter::TakenBack(by) if by == apply);
        let last = self.writes.get(file as usize).and_then(|writes| writes.iter().rfind(of_apply));
        last.is_some_and(|write| write.by == FileWriter::Apply(apply))
    }

    /// Returns whether the user wrote to the file after the apply did.
    pub(crate) fn user_wrote_after(&self, file: u32, apply: ApplyId) -> bool {
        let Some(writes) = self.writes.get(file as usize) else { return false };
        let at = writes.iter().rposition(|write| write.by == FileWriter::Apply(apply));
        at.is_some_and(|at| writes.iter().skip(at).any(|write| write.by == FileWriter::User))
    }
}

/// The state of a file with this content.
pub(crate) fn state_of(value: u64) -> Option<FileState> {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&value.to_le_bytes());
    let state =
        FileState { kind: Kind::File, mode: 0o644, size: 8, hash: Hash::from_bytes(hash), text: true };
    (value != 0).then_some(state)
}

/// The content of a file in this state.
pub(crate) fn value_of(state: Option<FileState>) -> u64 {
    let Some(state) = state else { return 0 };
    state.hash.as_bytes().iter().take(8).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_and_its_state_are_one_to_one() {
        for value in [0, 1, 255, 256, u64::MAX] {
            assert_eq!(value_of(state_of(value)), value);
        }
        assert_eq!(state_of(0), None);
    }

    #[test]
    fn power_takes_only_what_was_not_synced() {
        let apply = ApplyId::from_u128(1);
        for seed in 0..20 {
            let mut files = SimFiles::new(4);
            files.write(1, 50, FileWriter::Apply(apply));
            files.sync(1);
            files.write(2, 51, FileWriter::Apply(apply));
            files.lose_power(&mut Random::new(seed));
            assert_eq!(files.value(1), 50);
            assert!([3, 51].contains(&files.value(2)));
            assert!(files.has_of(1, apply));
        }
    }

    #[test]
    fn a_write_that_was_taken_back_does_not_stand() {
        let (apply, mut files) = (ApplyId::from_u128(1), SimFiles::new(2));
        files.write(1, 50, FileWriter::Apply(apply));
        assert!(files.has_of(1, apply) && !files.user_wrote_after(1, apply));
        files.write(1, 60, FileWriter::User);
        assert!(files.has_of(1, apply) && files.user_wrote_after(1, apply));
        files.write(1, 2, FileWriter::TakenBack(apply));
        assert!(!files.has_of(1, apply));
    }
}
