//! The focus of a request: the files and names that it gives explicitly, and those that its words match by
//! chance.
//!
//! # Invariants
//! 1. A place that is named for sure is found, may be seen and is not ambiguous; otherwise there is no
//!    context.
//! 2. Words that name too many places name none.
//!
//! # Not here
//! Words that match: `bm25`.

use std::collections::BTreeSet;

use domain::RelPath;
use domain::context::{FOCUS_MAX, Focus, ProjectIndex};

use crate::Error;
use crate::index::{Facts, ImageTermHits, TermField, terms};
use crate::request_inputs::{FileIndex, PathStatus, VisibleFiles};

/// A name that more places define is not understood.
const SYMBOL_PLACES_MAX: usize = 20;
/// A word of a query that names more places than this names none.
const MENTION_PLACES_MAX: usize = 3;
/// The number of words of a query that are looked up, the first ones.
const MENTIONS_MAX: usize = 64;
const MENTION_LETTERS_MIN: usize = 3;

/// A place that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// The file.
    pub file: FileIndex,
    /// First and last line; none: the whole file.
    pub span: Option<(u32, u32)>,
    /// True if the request names the file explicitly; false if it only mentions it.
    pub is_pinned: bool,
}

/// Finds what is named for sure.
pub(crate) fn resolve(ground: &VisibleFiles, focus: &[Focus]) -> Result<Vec<Anchor>, Error> {
    if focus.len() > FOCUS_MAX {
        return Err(Error::FocusTooMany { count: focus.len() });
    }
    let mut anchors = Vec::new();
    for focus in focus {
        match focus {
            Focus::Path(project, path) => anchors.push(file(ground, focus, *project, path, None)?),
            Focus::Lines(project, path, from, to) => {
                anchors.push(file(ground, focus, *project, path, Some((*from, *to)))?);
            }
            Focus::Symbol(name) => anchors.extend(symbol(ground, focus, name)?),
        }
    }
    Ok(anchors)
}

fn file(
    ground: &VisibleFiles,
    focus: &Focus,
    project: ProjectIndex,
    path: &RelPath,
    lines: Option<(u32, u32)>,
) -> Result<Anchor, Error> {
    let not_found = || Error::FocusNotFound { focus: focus.clone() };
    let file = match ground.standing(project, path) {
        PathStatus::Seen(file) => file,
        PathStatus::LeftOut => return Err(Error::FocusExcluded { focus: focus.clone() }),
        PathStatus::Outside => return Err(not_found()),
        PathStatus::NoProject => return Err(Error::ProjectUnknown(project)),
    };
    let span = match lines {
        None => None,
        Some((from, to)) => {
            let known = ground.file(file);
            // The lines of a file that was never read are not known.
            let last = if known.hash.is_some() { known.facts.lines } else { u32::MAX };
            let (from, to) = (from.max(1), to.min(last));
            if from > to {
                let (focus, path) = (focus.clone(), path.clone());
                return Err(Error::FocusBeyond { focus, path, lines: last });
            }
            Some((from, to))
        }
    };
    Ok(Anchor { file, span, is_pinned: true })
}

fn symbol(ground: &VisibleFiles, focus: &Focus, name: &str) -> Result<Vec<Anchor>, Error> {
    let mut places = defined(ground, name, SYMBOL_PLACES_MAX + 1);
    if places.is_empty() {
        // `Type::method` and `module.function` are defined under their last word.
        let last = name.rsplit([':', '.', '#']).next().unwrap_or(name);
        places = defined(ground, last, SYMBOL_PLACES_MAX + 1);
    }
    if places.len() > SYMBOL_PLACES_MAX {
        let places = defined(ground, name, usize::MAX).len().max(places.len());
        return Err(Error::FocusAmbiguous { symbol: name.to_owned(), places });
    }
    if places.is_empty() && ground.is_defined_out_of_view(name) {
        return Err(Error::FocusExcluded { focus: focus.clone() });
    }
    if places.is_empty() {
        return Err(Error::FocusNotFound { focus: focus.clone() });
    }
    let pinned = |(file, span)| Anchor { file, span: Some(span), is_pinned: true };
    Ok(places.into_iter().map(pinned).collect())
}

/// Returns at most `most` places where a name is defined, in the order of files.
pub(crate) fn defined(ground: &VisibleFiles, name: &str, most: usize) -> Vec<(FileIndex, (u32, u32))> {
    let mut places = Vec::new();
    // A file that defines the name holds all words of it.
    let words: Vec<u32> = terms::of_text(name).into_iter().map(|(hash, _)| hash).collect();
    let held = ImageTermHits::find(ground.numbers().map(|number| &*ground.file(number).facts), &words);
    let may_define = |facts: &Facts| match held.in_content(facts) {
        Some(held) => held.iter().filter(|(_, field, _)| *field == TermField::Name).count() == words.len(),
        None => words.iter().all(|word| facts.def_terms().get(*word) > 0),
    };
    for number in ground.numbers() {
        let facts = &ground.file(number).facts;
        if !may_define(facts) {
            continue;
        }
        for def in facts.defs().iter().filter(|def| &*def.name == name) {
            places.push((number, (def.start, def.end)));
            if places.len() >= most {
                return places;
            }
        }
    }
    places
}

fn is_ident(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the files and definitions that the words of a query mention: paths by their ends, definitions by
/// their names.
pub(crate) fn mentions(ground: &VisibleFiles, query: &str) -> Vec<Anchor> {
    let mut anchors = BTreeSet::new();
    let mut looked_up = BTreeSet::new();
    for word in query.split_whitespace() {
        let word = bare(word);
        if word.len() < MENTION_LETTERS_MIN || looked_up.contains(word) {
            continue;
        }
        let places = if looks_like_path(word) {
            with_ending(ground, word)
        } else if looks_like_name(word) {
            let last = word.trim_end_matches("()").rsplit("::").next().unwrap_or(word);
            let defined = defined(ground, last, MENTION_PLACES_MAX + 1);
            defined.into_iter().map(|(file, span)| (file, Some(span))).collect()
        } else {
            continue;
        };
        looked_up.insert(word);
        if places.len() <= MENTION_PLACES_MAX {
            anchors.extend(places.into_iter().map(|(file, span)| Anchor { file, span, is_pinned: false }));
        }
        if looked_up.len() >= MENTIONS_MAX {
            break;
        }
    }
    anchors.into_iter().collect()
}

/// Removes the marks that surround a word in a sentence.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(|mark: char| "`'\"()[]{}<>,;:!?*".contains(mark));
    word.trim_end_matches('.')
}

fn looks_like_path(word: &str) -> bool {
    let has_ending = word.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty()
            && (1..=10).contains(&ending.len())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_address = word.contains("://");
    !is_address && (has_ending || (word.contains('/') && !word.ends_with('/')))
}

/// Returns true if a word is written as programs write names: English words are too often names of something.
fn looks_like_name(word: &str) -> bool {
    let name = word.trim_end_matches("()");
    let letters = name.replace("::", "_");
    let has_hump =
        letters.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    let is_joined = letters.trim_matches('_').contains('_');
    is_ident(&letters) && (has_hump || is_joined || name.len() < word.len())
}

/// Files whose path ends in these components; one more than can be understood is enough.
fn with_ending(ground: &VisibleFiles, word: &str) -> Vec<(FileIndex, Option<(u32, u32)>)> {
    let ending = word.trim_start_matches("./").trim_start_matches('/').as_bytes();
    let ends_so = |path: &[u8]| {
        path.ends_with(ending) && (path.len() == ending.len() || path[path.len() - ending.len() - 1] == b'/')
    };
    let found = ground.numbers().filter(|number| ends_so(ground.file(*number).path.as_bytes()));
    found.take(MENTION_PLACES_MAX + 1).map(|number| (number, None)).collect()
}
