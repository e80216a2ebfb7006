//! Facts, outlines and what followed from snapshots as bytes: for the disk, and of facts in memory too.
//!
//! # Invariants
//! 1. Bytes that were written read back equal; anything else, cut short or changed, reads as nothing: a
//!    checksum over all bytes precedes them.
//! 2. Lists of hashes are searched as they were written.
//!
//! # Not here
//! The version that wrote the bytes: it is in a column next to them.

use super::PathOnly;
use super::facts::{Def, DefKind, EncodedCount, HashCounts, ScanResult};
use super::outline::{Outline, OutlineBy, OutlineItem};

/// The positions of the parts of encoded facts. Made by [`encode_facts`] and [`layout`] only, so that they
/// are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FactsLayout {
    /// The start of each of the three lists and the number of its hashes.
    lists: [(u32, u32); 3],
    defs: u32,
}

impl FactsLayout {
    pub(crate) fn terms(self, encoded: &[u8]) -> &[EncodedCount] {
        self.list(0, encoded)
    }

    pub(crate) fn idents(self, encoded: &[u8]) -> &[EncodedCount] {
        self.list(1, encoded)
    }

    pub(crate) fn def_terms(self, encoded: &[u8]) -> &[EncodedCount] {
        self.list(2, encoded)
    }

    pub(crate) fn defs(self, encoded: &[u8]) -> &[u8] {
        encoded.get(self.defs as usize..).unwrap_or_default()
    }

    fn list(self, which: usize, encoded: &[u8]) -> &[EncodedCount] {
        let (from, len) = self.lists[which];
        let counts = encoded.get(from as usize..).unwrap_or_default().as_chunks().0;
        counts.get(..len as usize).unwrap_or_default()
    }
}

/// The bytes of facts, and where their parts lie in them.
pub(crate) fn encode_facts(found: &ScanResult) -> (Vec<u8>, FactsLayout) {
    let mut out = Encoder::default();
    out.byte(found.path_only.map_or(0, PathOnly::code));
    out.byte(u8::from(found.is_utf8));
    out.number(found.bytes);
    out.number(found.lines);
    out.number(found.terms_len);
    let lists = [&found.terms, &found.idents, &found.def_terms].map(|list| {
        out.counts(list);
        (out.len() - (list.len() * size_of::<EncodedCount>()) as u32, list.len() as u32)
    });
    let layout = FactsLayout { lists, defs: out.len() };
    out.number(found.defs.len() as u32);
    for def in &found.defs {
        out.byte(def.kind.code());
        out.number(def.line);
        out.number(def.start);
        out.number(def.end);
        out.text(&def.name);
    }
    (out.summed(), layout)
}

/// Decodes the header of encoded facts and finds the places of their lists; `None` if the bytes are not as
/// they were written.
pub(crate) fn layout(encoded: &[u8]) -> Option<(ScanResult, FactsLayout)> {
    let mut from = Decoder::checked(encoded)?;
    let place = |from: &Decoder<'_>| (encoded.len() - from.0.len()) as u32;
    let path_only = match from.byte()? {
        0 => None,
        code => Some(PathOnly::from_code(code)?),
    };
    let is_utf8 = from.byte()? == 1;
    let (bytes, lines, terms_len) = (from.number()?, from.number()?, from.number()?);
    let mut lists = [(0, 0); 3];
    for list in &mut lists {
        let len = from.number()?;
        *list = (place(&from), len);
        from.take((len as usize).checked_mul(size_of::<EncodedCount>())?)?;
    }
    let layout = FactsLayout { lists, defs: place(&from) };
    Some((ScanResult { bytes, lines, is_utf8, path_only, terms_len, ..ScanResult::default() }, layout))
}

/// The definitions that were encoded as these bytes.
pub(crate) fn decode_defs(bytes: &[u8]) -> Option<Vec<Def>> {
    let mut from = Decoder(bytes);
    let count = from.number()?;
    let mut defs = Vec::with_capacity((count as usize).min(from.0.len()));
    for _ in 0..count {
        let kind = DefKind::from_code(from.byte()?)?;
        let (line, start, end) = (from.number()?, from.number()?, from.number()?);
        defs.push(Def { name: from.text()?.into(), kind, line, start, end });
    }
    Some(defs)
}

pub(crate) fn encode_outline(outline: &Outline) -> Vec<u8> {
    let mut out = Encoder::default();
    out.byte(match outline.by {
        OutlineBy::Scan => 0,
        OutlineBy::Parser => 1,
    });
    out.number(outline.items.len() as u32);
    for item in &outline.items {
        out.byte(item.kind.code());
        out.number(item.line);
        out.number(item.from);
        out.number(item.to);
        out.text(&item.name);
        out.text(&item.signature);
        out.byte(u8::from(item.doc.is_some()));
        out.text(item.doc.as_deref().unwrap_or_default());
    }
    out.summed()
}

pub(crate) fn decode_outline(bytes: &[u8]) -> Option<Outline> {
    let mut from = Decoder::checked(bytes)?;
    let by = if from.byte()? == 1 { OutlineBy::Parser } else { OutlineBy::Scan };
    let count = from.number()?;
    let mut items = Vec::with_capacity((count as usize).min(from.0.len()));
    for _ in 0..count {
        let kind = DefKind::from_code(from.byte()?)?;
        let (line, start, to) = (from.number()?, from.number()?, from.number()?);
        let (name, signature) = (from.text()?.to_owned(), from.text()?.to_owned());
        let has_doc = from.byte()? == 1;
        let doc = from.text()?;
        let doc = has_doc.then(|| doc.to_owned());
        items.push(OutlineItem { kind, name, line, from: start, to, signature, doc });
    }
    Some(Outline { items, by })
}

/// A list of hashes and counts, for the terms of a commit.
pub(crate) fn encode_counts(list: &[(u32, u16)]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.counts(list);
    out.summed()
}

pub(crate) fn decode_counts(bytes: &[u8]) -> Option<Vec<(u32, u16)>> {
    Some(Decoder::checked(bytes)?.counts()?.iter().collect())
}

/// The encoded bytes, behind the room for their checksum.
pub(crate) struct Encoder(Vec<u8>);

impl Default for Encoder {
    fn default() -> Self {
        Encoder(vec![0; SUM_BYTES])
    }
}

impl Encoder {
    fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    pub(crate) fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(crate) fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.raw(text.as_bytes());
    }

    pub(crate) fn counts(&mut self, list: &[(u32, u16)]) {
        self.number(list.len() as u32);
        for (hash, count) in list {
            self.0.extend(HashCounts::encode(*hash, *count));
        }
    }

    pub(crate) fn summed(mut self) -> Vec<u8> {
        let sum = sum(&self.0[SUM_BYTES..]).to_le_bytes();
        self.0[..SUM_BYTES].copy_from_slice(&sum);
        self.0
    }
}

/// The bytes that remain to be decoded.
pub(crate) struct Decoder<'b>(&'b [u8]);

impl<'b> Decoder<'b> {
    /// The bytes behind the sum, if it is theirs.
    pub(crate) fn checked(bytes: &'b [u8]) -> Option<Decoder<'b>> {
        let (head, rest) = bytes.split_first_chunk::<SUM_BYTES>()?;
        (u64::from_le_bytes(*head) == sum(rest)).then_some(Decoder(rest))
    }

    /// The bytes behind a sum that was checked before.
    pub(crate) fn unchecked(bytes: &'b [u8]) -> Decoder<'b> {
        Decoder(bytes.get(SUM_BYTES..).unwrap_or_default())
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    fn text(&mut self) -> Option<&'b str> {
        let len = self.number()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }

    /// So many of what `read` takes, which is a byte at least.
    pub(crate) fn many<T>(
        &mut self,
        count: u32,
        mut read: impl FnMut(&mut Decoder<'b>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut many = Vec::with_capacity((count as usize).min(self.0.len()));
        for _ in 0..count {
            many.push(read(self)?);
        }
        Some(many)
    }

    pub(crate) fn counts(&mut self) -> Option<HashCounts<'b>> {
        let len = self.number()? as usize;
        let bytes = self.take(len.checked_mul(size_of::<EncodedCount>())?)?;
        Some(HashCounts::new(bytes.as_chunks().0))
    }
}

/// The length of a checksum.
pub(crate) const SUM_BYTES: usize = 8;

/// A sum over bytes, eight at a time: against decay, not against malice.
fn sum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = PRIME ^ bytes.len() as u64;
    for word in words {
        sum = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(23);
    }
    for byte in rest {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(PRIME).rotate_left(23);
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Encoded, Facts, outline, scan};
    use super::*;
    use domain::RelPath;

    const TEXT: &str =
        "//! Top.\n\n/// Says hello.\npub fn hello(name: &str) -> String {\n    name.into()\n}\n";

    /// The facts as they are read from these bytes, which have others before and after them.
    fn from_stored(facts: &Facts, encoded: &[u8]) -> Option<Facts> {
        let all = Arc::new([b"before", encoded, b"after"].concat());
        Facts::from_stored(facts.language, Encoded::from_range(&all, 6..6 + encoded.len())?)
    }

    #[test]
    fn facts_and_outlines_read_back_equal() {
        let facts = scan(&RelPath::new("a.rs").unwrap(), TEXT.as_bytes());
        let stored = from_stored(&facts, facts.encoded()).unwrap();
        assert_eq!((&stored, stored.defs()), (&facts, facts.defs()));
        assert_eq!(
            (stored.bytes, stored.lines, stored.terms_len),
            (facts.bytes, facts.lines, facts.terms_len)
        );
        assert_eq!((stored.terms(), stored.idents()), (facts.terms(), facts.idents()));
        assert_eq!(stored.def_terms(), facts.def_terms());
        let outline = outline(TEXT, &facts);
        assert_eq!(outline.items.len(), 1);
        assert_eq!(decode_outline(&encode_outline(&outline)), Some(outline));
        let terms: Vec<(u32, u16)> = facts.terms().iter().collect();
        assert_eq!(decode_counts(&encode_counts(&terms)), Some(terms));
    }

    #[test]
    fn bytes_that_were_changed_or_cut_read_as_nothing() {
        let facts = scan(&RelPath::new("a.rs").unwrap(), TEXT.as_bytes());
        let bytes = facts.encoded();
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert_eq!(from_stored(&facts, &changed), None, "at {at}");
            assert_eq!(from_stored(&facts, &bytes[..at]), None, "cut at {at}");
        }
    }
}
