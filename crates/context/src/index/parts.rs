//! Which words stand in which part of a file: parts are ranked by them without the file being read.
//!
//! # Invariants
//! 1. Parts depend on the bytes and the language only, like [`Facts`](super::Facts). They are those of
//!    [`spans()`](super::spans()), in order.
//! 2. They lie in memory as they lie on disk, and are taken from there for the few files that match best.
//!
//! # Not here
//! What is shown of a file: that is cut along its outline.

use super::Counts;
use super::codec::{From, Out};
use super::facts::FACTS_VERSION;

/// The version of cutting and counting: parts of another are not used. To be raised with any change of what is found; it
/// changes with that of the facts, whose definitions parts belong to.
pub(crate) const PARTS_VERSION: u32 = FACTS_VERSION << 16 | 1;

/// The parts of a content.
#[derive(Clone, PartialEq, Eq)]
pub struct Parts(Vec<u8>);

/// One part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'p> {
    /// Which of the file's definitions it belongs to.
    pub def: Option<usize>,
    /// Its stemmed words.
    pub terms: Counts<'p>,
}

impl Parts {
    /// Parts with their definition and their words, sorted by hash.
    pub(crate) fn new(parts: impl Iterator<Item = (Option<usize>, Vec<(u32, u16)>)>) -> Parts {
        let mut out = Out::default();
        for (def, terms) in parts {
            out.number(def.map_or(0, |def| def as u32 + 1));
            out.counts(&terms);
        }
        Parts(out.summed())
    }

    /// Those that were stored as these bytes; none if the bytes are not as they were stored.
    pub(crate) fn stored(encoded: Vec<u8>) -> Option<Parts> {
        From::checked(&encoded).is_some().then_some(Parts(encoded))
    }

    /// As they are stored.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// All of them, in the order of their lines.
    pub fn iter(&self) -> impl Iterator<Item = Part<'_>> {
        let mut from = From::unchecked(&self.0);
        std::iter::from_fn(move || {
            let def = (from.number()? as usize).checked_sub(1);
            Some(Part { def, terms: from.counts()? })
        })
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
