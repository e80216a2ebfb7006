//! The facts about a file's content: its size, its words and its definitions.
//!
//! # Invariants
//! 1. Facts depend on the bytes and the language only and never change: branches, worktrees and sandboxes
//!    share them.
//! 2. The lists of terms and identifiers are sorted by hash, and name each hash once.
//! 3. Definitions are sorted by line; `start ≤ line ≤ end`, and no two of them overlap.
//! 4. Facts have the same layout in memory as on disk, so that thousands of them are read without being taken
//!    apart. Lists are searched in place, definitions are decoded at their first use. Those of an image are
//!    not even read before.
//!
//! # Not here
//! The path of the file, and the module name that follows from it: [`super::module_name`].

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use super::codec::{FactsLayout, decode_defs, encode_facts, layout};
use super::image::IndexImage;
use super::{Language, PathOnly};

/// The version of scanning: facts of another are not used. To be raised with any change of what is found.
pub(crate) const FACTS_VERSION: u32 = 2;

/// The facts about a content.
pub struct Facts {
    /// The language of the content.
    pub language: Language,
    /// Its length.
    pub bytes: u32,
    /// The number of lines it has; a last one without an end counts.
    pub lines: u32,
    /// True if it is UTF-8 throughout.
    pub is_utf8: bool,
    /// The reason why its content plays no part, if the content itself says so.
    pub path_only: Option<PathOnly>,
    /// All counts of its terms together.
    pub terms_len: u32,
    /// None within: it is lost.
    body: OnceLock<Option<FactsBody>>,
    /// The image from which the body is read at its first use.
    kept: Option<ImageFacts>,
    defs: OnceLock<Vec<Def>>,
}

/// All facts of a content except the few numbers.
struct FactsBody {
    encoded: Encoded,
    layout: FactsLayout,
}

/// Facts that are stored in an image.
struct ImageFacts {
    image: Arc<IndexImage>,
    number: u32,
    def_terms_len: u32,
}

/// The few numbers of facts that are known before their body is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactsHead {
    pub(crate) bytes: u32,
    pub(crate) lines: u32,
    pub(crate) is_utf8: bool,
    pub(crate) path_only: Option<PathOnly>,
    pub(crate) terms_len: u32,
    pub(crate) def_terms_len: u32,
}

/// A stretch of bytes that are shared: thousands of facts are read into one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    all: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Encoded {
    /// These of all bytes; none if there are fewer.
    pub(crate) fn from_range(all: &Arc<Vec<u8>>, range: Range<usize>) -> Option<Encoded> {
        all.get(range.clone())?;
        Some(Encoded { all: Arc::clone(all), range })
    }
}

impl Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.range.clone()]
    }
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) bytes: u32,
    pub(crate) lines: u32,
    pub(crate) is_utf8: bool,
    pub(crate) path_only: Option<PathOnly>,
    pub(crate) terms: Vec<(u32, u16)>,
    pub(crate) idents: Vec<(u32, u16)>,
    pub(crate) terms_len: u32,
    pub(crate) def_terms: Vec<(u32, u16)>,
    pub(crate) defs: Vec<Def>,
}

/// Hashes and how often each occurs, sorted by hash, as they lie encoded.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct HashCounts<'f>(&'f [EncodedCount]);

/// A hash and its count.
pub(crate) type EncodedCount = [u8; 6];

/// Something that a file defines, by the look of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Def {
    /// Its name; of a heading the text.
    pub name: Box<str>,
    /// The kind of the definition.
    pub kind: DefKind,
    /// The line of its name, from 1.
    pub line: u32,
    /// The first line of the comments and attributes before it.
    pub start: u32,
    /// The last line before the next definition begins, or of the file.
    pub end: u32,
}

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefKind {
    /// A function or a method.
    Function,
    /// A class.
    Class,
    /// A struct, a record or a union.
    Struct,
    /// An enumeration.
    Enum,
    /// A trait or a protocol.
    Trait,
    /// An interface.
    Interface,
    /// A name for a type.
    Type,
    /// A module, a namespace, an object.
    Module,
    /// A macro.
    Macro,
    /// A constant or a static.
    Constant,
    /// A variable of a module.
    Variable,
    /// A message of a protocol.
    Message,
    /// A service of a protocol.
    Service,
    /// A call of a service.
    Rpc,
    /// A block that implements something for a type.
    Impl,
    /// A heading of a text.
    Heading,
    /// A table of settings.
    Table,
    /// A key of settings.
    Key,
}

/// Every kind with its stored code and the word that it is shown by.
const KINDS: [(DefKind, u8, &str); 18] = [
    (DefKind::Function, 0, "fn"),
    (DefKind::Class, 1, "class"),
    (DefKind::Struct, 2, "struct"),
    (DefKind::Enum, 3, "enum"),
    (DefKind::Trait, 4, "trait"),
    (DefKind::Interface, 5, "interface"),
    (DefKind::Type, 6, "type"),
    (DefKind::Module, 7, "mod"),
    (DefKind::Macro, 8, "macro"),
    (DefKind::Constant, 9, "const"),
    (DefKind::Variable, 10, "var"),
    (DefKind::Message, 11, "message"),
    (DefKind::Service, 12, "service"),
    (DefKind::Rpc, 13, "rpc"),
    (DefKind::Impl, 14, "impl"),
    (DefKind::Heading, 15, "heading"),
    (DefKind::Table, 16, "table"),
    (DefKind::Key, 17, "key"),
];

impl DefKind {
    /// The word that it is shown by.
    pub fn word(self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, _, word)| word)
    }

    pub(crate) fn code(self) -> u8 {
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or(0, |(_, code, _)| *code)
    }

    pub(crate) fn from_code(code: u8) -> Option<DefKind> {
        KINDS.iter().find(|(_, known, _)| *known == code).map(|(kind, ..)| *kind)
    }
}

impl Facts {
    /// Of a file that is not read: only how long it is.
    pub fn unread(language: Language, size: u64) -> Facts {
        let bytes = u32::try_from(size).unwrap_or(u32::MAX);
        Facts::new(language, ScanResult { bytes, is_utf8: true, ..ScanResult::default() })
    }

    pub(crate) fn new(language: Language, found: ScanResult) -> Facts {
        let (encoded, layout) = encode_facts(&found);
        let ScanResult { bytes, lines, is_utf8, path_only, terms_len, defs, .. } = found;
        let range = 0..encoded.len();
        let body = FactsBody { encoded: Encoded { all: Arc::new(encoded), range }, layout };
        let (body, defs) = (OnceLock::from(Some(body)), OnceLock::from(defs));
        Facts { language, bytes, lines, is_utf8, path_only, terms_len, body, kept: None, defs }
    }

    /// Those that were stored as these bytes; none if the bytes are not as they were stored.
    pub(crate) fn from_stored(language: Language, encoded: Encoded) -> Option<Facts> {
        let (ScanResult { bytes, lines, is_utf8, path_only, terms_len, .. }, layout) = layout(&encoded)?;
        let body = OnceLock::from(Some(FactsBody { encoded, layout }));
        let defs = OnceLock::new();
        Some(Facts { language, bytes, lines, is_utf8, path_only, terms_len, body, kept: None, defs })
    }

    /// Those of a content of an image.
    pub(crate) fn of_image(
        language: Language,
        head: FactsHead,
        image: &Arc<IndexImage>,
        number: u32,
    ) -> Facts {
        let FactsHead { bytes, lines, is_utf8, path_only, terms_len, def_terms_len } = head;
        let kept = Some(ImageFacts { image: Arc::clone(image), number, def_terms_len });
        let (body, defs) = (OnceLock::new(), OnceLock::new());
        Facts { language, bytes, lines, is_utf8, path_only, terms_len, body, kept, defs }
    }

    /// The image that they are stored in, and their number there.
    pub(crate) fn image(&self) -> Option<(&Arc<IndexImage>, u32)> {
        self.kept.as_ref().map(|kept| (&kept.image, kept.number))
    }

    /// Returns true if more than the few numbers is lost, because the place where they were stored is
    /// damaged.
    pub(crate) fn is_lost(&self) -> bool {
        self.body().is_none()
    }

    /// Returns true if a reader has found them lost.
    pub(crate) fn was_lost(&self) -> bool {
        matches!(self.body.get(), Some(None))
    }

    fn body(&self) -> Option<&FactsBody> {
        let read = || {
            let ImageFacts { image, number, .. } = self.kept.as_ref()?;
            let encoded = image.facts(*number, self.language)?;
            let (_, layout) = layout(&encoded)?;
            let range = 0..encoded.len();
            Some(FactsBody { encoded: Encoded { all: Arc::new(encoded), range }, layout })
        };
        self.body.get_or_init(read).as_ref()
    }

    fn list<'f>(&'f self, of: impl Fn(FactsLayout, &'f [u8]) -> &'f [EncodedCount]) -> HashCounts<'f> {
        self.body().map_or(HashCounts::default(), |body| HashCounts(of(body.layout, &body.encoded)))
    }

    /// As they are stored; nothing if they are lost.
    pub(crate) fn encoded(&self) -> &[u8] {
        self.body().map_or(&[], |body| &body.encoded)
    }

    /// Its stemmed words.
    pub fn terms(&self) -> HashCounts<'_> {
        self.list(FactsLayout::terms)
    }

    /// Its identifiers of three bytes or more as they are written.
    pub fn idents(&self) -> HashCounts<'_> {
        self.list(FactsLayout::idents)
    }

    /// The stemmed words of the names of its definitions.
    pub fn def_terms(&self) -> HashCounts<'_> {
        self.list(FactsLayout::def_terms)
    }

    /// All counts of the stemmed words of its definitions' names together.
    pub(crate) fn def_terms_len(&self) -> u32 {
        let counted = || self.def_terms().iter().map(|(_, count)| u32::from(count)).sum();
        self.kept.as_ref().map_or_else(counted, |kept| kept.def_terms_len)
    }

    /// Returns the definitions of the content.
    pub fn defs(&self) -> &[Def] {
        let decoded = || self.body().and_then(|body| decode_defs(body.layout.defs(&body.encoded)));
        self.defs.get_or_init(|| decoded().unwrap_or_default())
    }

    /// Returns the approximate memory of the facts, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = |defs: &Vec<Def>| defs.iter().map(|def| size_of::<Def>() + def.name.len()).sum();
        let body = self.body.get().and_then(Option::as_ref).map_or(0, |body| body.encoded.len());
        size_of::<Facts>() + body + self.defs.get().map_or(0, names)
    }
}

impl PartialEq for Facts {
    fn eq(&self, other: &Facts) -> bool {
        (self.language, self.encoded()) == (other.language, other.encoded())
    }
}

impl Eq for Facts {}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { language, bytes, lines, path_only, .. } = self;
        f.debug_struct("Facts")
            .field("language", language)
            .field("bytes", bytes)
            .field("lines", lines)
            .field("path_only", path_only)
            .field("terms", &self.terms())
            .field("defs", &self.defs())
            .finish_non_exhaustive()
    }
}

impl<'f> HashCounts<'f> {
    pub(crate) fn encode(hash: u32, count: u16) -> EncodedCount {
        let ([a, b, c, d], [e, f]) = (hash.to_le_bytes(), count.to_le_bytes());
        [a, b, c, d, e, f]
    }

    pub(crate) fn new(encoded: &'f [EncodedCount]) -> HashCounts<'f> {
        HashCounts(encoded)
    }

    fn decode([a, b, c, d, e, f]: EncodedCount) -> (u32, u16) {
        (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]))
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = (u32, u16)> + use<'f> {
        self.0.iter().map(|encoded| Self::decode(*encoded))
    }

    /// Returns true if there is none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of occurrences of a hash; 0 if it does not occur.
    pub fn get(self, hash: u32) -> u16 {
        self.0
            .binary_search_by_key(&hash, |encoded| Self::decode(*encoded).0)
            .map_or(0, |place| Self::decode(self.0[place]).1)
    }
}

impl fmt::Debug for HashCounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_stored_code() {
        for (place, (kind, code, word)) in KINDS.into_iter().enumerate() {
            assert_eq!(usize::from(code), place);
            assert_eq!(DefKind::from_code(kind.code()), Some(kind));
            assert_eq!(kind.word(), word);
        }
        assert_eq!(DefKind::from_code(99), None);
    }

    #[test]
    fn a_hash_that_is_not_there_counts_nothing() {
        let list = [(1, 5), (9, 2)];
        let encoded = list.map(|(hash, count)| HashCounts::encode(hash, count));
        let counts = HashCounts::new(&encoded);
        assert_eq!([counts.get(1), counts.get(9), counts.get(4), HashCounts::default().get(4)], [5, 2, 0, 0]);
        assert_eq!(counts.iter().collect::<Vec<_>>(), list);
    }
}
