//! What is known of a file's content: how much, which words, which definitions.
//!
//! # Invariants
//! 1. Facts depend on the bytes and the language only and never change: branches, worktrees and sandboxes share them.
//! 2. `terms`, `idents` and `def_terms` are sorted by hash, and name each hash once.
//! 3. `defs` are sorted by line; `start ≤ line ≤ end`, and no two of them overlap.
//!
//! # Not here
//! Where the file lies, and the module name that follows from it: [`super::module_name`].

use super::{Language, PathOnly};

/// The version of scanning: facts of another are not used. To be raised with any change of what is found.
pub(crate) const FACTS_VERSION: u32 = 1;

/// What is known of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What it is written in.
    pub language: Language,
    /// How long it is.
    pub bytes: u32,
    /// How many lines it has; a last one without an end counts.
    pub lines: u32,
    /// Whether it is UTF-8 throughout.
    pub is_utf8: bool,
    /// Why its content plays no part, if the content itself says so.
    pub path_only: Option<PathOnly>,
    /// Its stemmed words: hash and count.
    pub terms: Vec<(u32, u16)>,
    /// Its identifiers of three bytes or more as they are written: hash and count.
    pub idents: Vec<(u32, u16)>,
    /// All counts of `terms` together.
    pub terms_len: u32,
    /// The stemmed words of the names in `defs`: hash and count.
    pub def_terms: Vec<(u32, u16)>,
    /// What it defines.
    pub defs: Vec<Def>,
}

/// Something that a file defines, by the look of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Def {
    /// Its name; of a heading the text.
    pub name: Box<str>,
    /// What it is.
    pub kind: DefKind,
    /// The line of its name, from 1.
    pub line: u32,
    /// The first line of the comments and attributes before it.
    pub start: u32,
    /// The last line before the next definition begins, or of the file.
    pub end: u32,
}

/// What is defined.
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
    /// What implements something for a type.
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
        Facts {
            language,
            bytes: u32::try_from(size).unwrap_or(u32::MAX),
            lines: 0,
            is_utf8: true,
            path_only: None,
            terms: Vec::new(),
            idents: Vec::new(),
            terms_len: 0,
            def_terms: Vec::new(),
            defs: Vec::new(),
        }
    }

    /// How often a term occurs.
    pub fn term_count(&self, hash: u32) -> u16 {
        count(&self.terms, hash)
    }

    /// How often an identifier occurs.
    pub fn ident_count(&self, hash: u32) -> u16 {
        count(&self.idents, hash)
    }

    /// How much memory they take, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists = self.terms.len() + self.idents.len() + self.def_terms.len();
        let names: usize = self.defs.iter().map(|def| def.name.len()).sum();
        size_of::<Facts>() + lists * size_of::<(u32, u16)>() + self.defs.len() * size_of::<Def>() + names
    }
}

/// The count of a hash in a list that is sorted by it; 0 if it is not there.
pub fn count(list: &[(u32, u16)], hash: u32) -> u16 {
    list.binary_search_by_key(&hash, |(known, _)| *known).map_or(0, |place| list[place].1)
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
        assert_eq!([count(&list, 1), count(&list, 9), count(&list, 4), count(&[], 4)], [5, 2, 0, 0]);
    }
}
