//! The words of each part of a file: parts are ranked by them without reading the file.
//!
//! # Invariants
//! 1. Parts depend on the bytes and the language only, like [`Facts`](super::Facts). They are those of
//!    [`spans()`](super::spans()), in order.
//! 2. They lie in memory as they lie on disk, and are taken from there for the few files that match best.
//!
//! # Not here
//! What is shown of a file: that is cut along its outline.

use super::HashCounts;
use super::codec::{Decoder, Encoder};
use super::facts::FACTS_VERSION;

/// The version of cutting and counting: parts of another are not used. To be raised with any change of what
/// is found; it changes with that of the facts, whose definitions parts belong to.
pub(crate) const PARTS_VERSION: u32 = FACTS_VERSION << 16 | 1;

/// The parts of a content.
#[derive(Clone, PartialEq, Eq)]
pub struct ContentParts(Vec<u8>);

/// One part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentPart<'p> {
    /// The index of the definition that the part belongs to.
    pub def: Option<usize>,
    /// Its stemmed words.
    pub terms: HashCounts<'p>,
}

impl ContentParts {
    /// Parts with their definition and their words, sorted by hash.
    pub(crate) fn new(parts: impl Iterator<Item = (Option<usize>, Vec<(u32, u16)>)>) -> ContentParts {
        let mut out = Encoder::default();
        for (def, terms) in parts {
            out.number(def.map_or(0, |def| def as u32 + 1));
            out.counts(&terms);
        }
        ContentParts(out.summed())
    }

    /// Those that were stored as these bytes; none if the bytes are not as they were stored.
    pub(crate) fn from_stored(encoded: Vec<u8>) -> Option<ContentParts> {
        Decoder::checked(&encoded).is_some().then_some(ContentParts(encoded))
    }

    /// As they are stored.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// All of them, in the order of their lines.
    pub fn iter(&self) -> impl Iterator<Item = ContentPart<'_>> {
        let mut from = Decoder::unchecked(&self.0);
        std::iter::from_fn(move || {
            let def = (from.number()? as usize).checked_sub(1);
            Some(ContentPart { def, terms: from.counts()? })
        })
    }
}

impl std::fmt::Debug for ContentParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
