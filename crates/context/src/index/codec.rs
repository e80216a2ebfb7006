//! Facts and outlines as bytes, for the disk.
//!
//! # Invariants
//! 1. What was written reads back equal; anything else, cut short or changed, reads as nothing: a sum over all bytes
//!    stands before them.
//! 2. Lists of hashes are written as they lie in memory, so reading them is copying.
//!
//! # Not here
//! Which version wrote them: a column beside the bytes.

use super::facts::{Def, DefKind, Facts};
use super::outline::{Item, Outline, OutlineBy};
use super::{Language, PathOnly};

pub(crate) fn encode_facts(facts: &Facts) -> Vec<u8> {
    let mut out = Out::default();
    out.byte(facts.path_only.map_or(0, PathOnly::code));
    out.byte(u8::from(facts.is_utf8));
    out.number(facts.bytes);
    out.number(facts.lines);
    out.number(facts.terms_len);
    for list in [&facts.terms, &facts.idents, &facts.def_terms] {
        out.counts(list);
    }
    out.number(facts.defs.len() as u32);
    for def in &facts.defs {
        out.byte(def.kind.code());
        out.number(def.line);
        out.number(def.start);
        out.number(def.end);
        out.text(&def.name);
    }
    out.summed()
}

pub(crate) fn decode_facts(language: Language, bytes: &[u8]) -> Option<Facts> {
    let mut from = From::checked(bytes)?;
    let path_only = match from.byte()? {
        0 => None,
        code => Some(PathOnly::from_code(code)?),
    };
    let is_utf8 = from.byte()? == 1;
    let (bytes, lines, terms_len) = (from.number()?, from.number()?, from.number()?);
    let (terms, idents, def_terms) = (from.counts()?, from.counts()?, from.counts()?);
    let count = from.number()?;
    let mut defs = Vec::with_capacity((count as usize).min(from.0.len()));
    for _ in 0..count {
        let kind = DefKind::from_code(from.byte()?)?;
        let (line, start, end) = (from.number()?, from.number()?, from.number()?);
        defs.push(Def { name: from.text()?.into(), kind, line, start, end });
    }
    Some(Facts { language, bytes, lines, is_utf8, path_only, terms, idents, terms_len, def_terms, defs })
}

pub(crate) fn encode_outline(outline: &Outline) -> Vec<u8> {
    let mut out = Out::default();
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
    let mut from = From::checked(bytes)?;
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
        items.push(Item { kind, name, line, from: start, to, signature, doc });
    }
    Some(Outline { items, by })
}

/// A list of hashes and counts, for the terms of a commit.
pub(crate) fn encode_counts(list: &[(u32, u16)]) -> Vec<u8> {
    let mut out = Out::default();
    out.counts(list);
    out.summed()
}

pub(crate) fn decode_counts(bytes: &[u8]) -> Option<Vec<(u32, u16)>> {
    From::checked(bytes)?.counts()
}

#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.0.extend(text.as_bytes());
    }

    fn counts(&mut self, list: &[(u32, u16)]) {
        self.number(list.len() as u32);
        for (hash, count) in list {
            self.0.extend(hash.to_le_bytes());
            self.0.extend(count.to_le_bytes());
        }
    }

    fn summed(self) -> Vec<u8> {
        let mut bytes = sum(&self.0).to_le_bytes().to_vec();
        bytes.extend(self.0);
        bytes
    }
}

struct From<'b>(&'b [u8]);

impl<'b> From<'b> {
    /// The bytes behind the sum, if it is theirs.
    fn checked(bytes: &'b [u8]) -> Option<From<'b>> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*head) == sum(rest)).then_some(From(rest))
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    fn text(&mut self) -> Option<&'b str> {
        let len = self.number()? as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }

    fn counts(&mut self) -> Option<Vec<(u32, u16)>> {
        let len = self.number()? as usize;
        let bytes = self.take(len.checked_mul(6)?)?;
        let pairs = bytes.chunks_exact(6).map(|pair| {
            let hash = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
            (hash, u16::from_le_bytes([pair[4], pair[5]]))
        });
        Some(pairs.collect())
    }
}

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
    use super::super::{outline, scan};
    use super::*;
    use domain::RelPath;

    const TEXT: &str =
        "//! Top.\n\n/// Says hello.\npub fn hello(name: &str) -> String {\n    name.into()\n}\n";

    #[test]
    fn facts_and_outlines_read_back_equal() {
        let facts = scan(&RelPath::new("a.rs").unwrap(), TEXT.as_bytes());
        assert_eq!(decode_facts(facts.language, &encode_facts(&facts)), Some(facts.clone()));
        let outline = outline(TEXT, &facts);
        assert_eq!(outline.items.len(), 1);
        assert_eq!(decode_outline(&encode_outline(&outline)), Some(outline));
        assert_eq!(decode_counts(&encode_counts(&facts.terms)), Some(facts.terms));
    }

    #[test]
    fn bytes_that_were_changed_or_cut_read_as_nothing() {
        let facts = scan(&RelPath::new("a.rs").unwrap(), TEXT.as_bytes());
        let bytes = encode_facts(&facts);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(decode_facts(facts.language, &changed), None, "at {at}");
            assert_eq!(decode_facts(facts.language, &bytes[..at]), None, "cut at {at}");
        }
    }
}
