//! The digest of a changeset: one hash that two holders of the same entries agree upon.
//!
//! # Invariants
//! The encoding is injective. Every field is of fixed width, tagged or length-prefixed, so different entries
//! are different bytes, and the hash is keyed to this one use.

use super::file_state::{FileState, Hash, Kind};
use super::{Base, ChangeEntry, ChangeOp};

/// Separates these hashes from any other use of BLAKE3; a new encoding takes a new name.
const CONTEXT: &str = "CleverAgents changeset entries, encoding 1";

/// The digest of `entries`, in their order and with all their fields.
pub fn changeset_digest(entries: &[ChangeEntry]) -> Hash {
    let mut digest = ChangesetDigest::new(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    entries.iter().for_each(|entry| digest.add(entry));
    digest.finish()
}

/// The same, entry by entry.
#[derive(Clone, Debug)]
pub struct ChangesetDigest {
    hasher: blake3::Hasher,
}

impl ChangesetDigest {
    /// Of so many entries.
    pub fn new(entries: u32) -> ChangesetDigest {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(&u64::from(entries).to_le_bytes());
        ChangesetDigest { hasher }
    }

    /// Takes the next entry.
    pub fn add(&mut self, entry: &ChangeEntry) {
        encode(entry, &mut |bytes| {
            self.hasher.update(bytes);
        });
    }

    /// The digest of all.
    pub fn finish(self) -> Hash {
        Hash::from_bytes(*self.hasher.finalize().as_bytes())
    }
}

fn encode(entry: &ChangeEntry, sink: &mut impl FnMut(&[u8])) {
    let ChangeEntry { id, changeset, seq, no, call, root, path, op, before, after, base } = entry;
    sink(&id.as_u128().to_le_bytes());
    sink(&changeset.as_u128().to_le_bytes());
    sink(&seq.to_le_bytes());
    sink(&no.to_le_bytes());
    sink(&call.0.to_le_bytes());
    sink(&root.0.to_le_bytes());
    encode_bytes(path.as_bytes(), sink);
    encode_op(op, sink);
    encode_state(before.as_ref(), sink);
    encode_state(after.as_ref(), sink);
    sink(&[match base {
        Base::Known => 0,
        Base::Moved => 1,
    }]);
}

pub(crate) fn encode_bytes(bytes: &[u8], sink: &mut impl FnMut(&[u8])) {
    sink(&(bytes.len() as u64).to_le_bytes());
    sink(bytes);
}

fn encode_op(op: &ChangeOp, sink: &mut impl FnMut(&[u8])) {
    match op {
        ChangeOp::Create => sink(&[0]),
        ChangeOp::Modify => sink(&[1]),
        ChangeOp::Delete => sink(&[2]),
        ChangeOp::Rename { from } => {
            sink(&[3]);
            encode_bytes(from.as_bytes(), sink);
        }
        ChangeOp::Mode => sink(&[4]),
    }
}

pub(crate) fn encode_state(state: Option<&FileState>, sink: &mut impl FnMut(&[u8])) {
    let Some(FileState { kind, mode, size, hash, text }) = state else {
        sink(&[0]);
        return;
    };
    sink(&[1]);
    sink(&[match kind {
        Kind::File => 0,
        Kind::Symlink => 1,
        Kind::Dir => 2,
    }]);
    sink(&mode.to_le_bytes());
    sink(&size.to_le_bytes());
    sink(hash.as_bytes());
    sink(&[u8::from(*text)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CallNumber, ChangeId, ChangesetId, RootIndex};
    use crate::path::RelPath;

    fn path(bytes: &str) -> RelPath {
        RelPath::new(bytes).unwrap()
    }

    fn entry() -> ChangeEntry {
        ChangeEntry {
            id: ChangeId::from_u128(1),
            changeset: ChangesetId::from_u128(2),
            seq: 3,
            no: 4,
            call: CallNumber(5),
            root: RootIndex(6),
            path: path("ab"),
            op: ChangeOp::Rename { from: path("c") },
            before: Some(FileState::file(b"x", 0o644)),
            after: Some(FileState::file(b"x", 0o755)),
            base: Base::Known,
        }
    }

    #[test]
    fn every_field_counts() {
        let state = |change: fn(&mut FileState)| {
            let mut state = FileState::file(b"x", 0o644);
            change(&mut state);
            Some(state)
        };
        let variants = vec![
            vec![],
            vec![entry()],
            vec![entry(), entry()],
            vec![ChangeEntry { id: ChangeId::from_u128(9), ..entry() }],
            vec![ChangeEntry { changeset: ChangesetId::from_u128(9), ..entry() }],
            vec![ChangeEntry { seq: 9, ..entry() }],
            vec![ChangeEntry { no: 9, ..entry() }],
            vec![ChangeEntry { call: CallNumber(9), ..entry() }],
            vec![ChangeEntry { root: RootIndex(9), ..entry() }],
            // The same letters, parted elsewhere.
            vec![ChangeEntry { path: path("a"), op: ChangeOp::Rename { from: path("bc") }, ..entry() }],
            vec![ChangeEntry { op: ChangeOp::Create, ..entry() }],
            vec![ChangeEntry { op: ChangeOp::Modify, ..entry() }],
            vec![ChangeEntry { op: ChangeOp::Delete, ..entry() }],
            vec![ChangeEntry { op: ChangeOp::Mode, ..entry() }],
            vec![ChangeEntry { base: Base::Moved, ..entry() }],
            vec![ChangeEntry { before: None, ..entry() }],
            vec![ChangeEntry { after: None, ..entry() }],
            vec![ChangeEntry { before: entry().after, after: entry().before, ..entry() }],
            vec![ChangeEntry { before: state(|state| state.kind = Kind::Symlink), ..entry() }],
            vec![ChangeEntry { before: state(|state| state.kind = Kind::Dir), ..entry() }],
            vec![ChangeEntry { before: state(|state| state.mode = 0), ..entry() }],
            vec![ChangeEntry { before: state(|state| state.size = 0), ..entry() }],
            vec![ChangeEntry { before: state(|state| state.hash = Hash::from_content(b"y")), ..entry() }],
            vec![ChangeEntry { before: state(|state| state.text = false), ..entry() }],
        ];
        for (place, one) in variants.iter().enumerate() {
            for (other_place, other) in variants.iter().enumerate() {
                let same = changeset_digest(one) == changeset_digest(other);
                assert_eq!(same, place == other_place, "variants {place} and {other_place}");
            }
        }
    }

    #[test]
    fn the_encoding_is_this_one_for_ever() {
        let mut bytes = 1_u64.to_le_bytes().to_vec();
        encode(&entry(), &mut |more| bytes.extend_from_slice(more));
        let state = |mode: [u8; 2]| {
            let hash = Hash::from_content(b"x");
            [&[1, 0][..], &mode, &[1, 0, 0, 0, 0, 0, 0, 0], hash.as_bytes(), &[1]].concat()
        };
        let expected = [
            &1_u64.to_le_bytes()[..],
            &1_u128.to_le_bytes(),
            &2_u128.to_le_bytes(),
            &[3, 0, 0, 0],
            &[4, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 0, 0],
            &[6, 0],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            b"ab",
            &[3, 1, 0, 0, 0, 0, 0, 0, 0],
            b"c",
            &state([0xa4, 1]),
            &state([0xed, 1]),
            &[0],
        ]
        .concat();
        assert_eq!(bytes, expected);
        let keyed = blake3::derive_key("CleverAgents changeset entries, encoding 1", &expected);
        assert_eq!(changeset_digest(&[entry()]), Hash::from_bytes(keyed));
    }
}
