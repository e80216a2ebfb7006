//! The address of a hunk or of lines of it, `path#n` and `path#n:2-4`; and one selector of a selection, with
//! all its possible readings. A selector also names several hunks: `path#1-3`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use globset::{Candidate, GlobBuilder, GlobMatcher};

use crate::id::RootIndex;
use crate::path::RelPath;
use crate::redact::contains_mark;

use super::choice::LineRanges;
use super::{ProjectAlias, SelectableChange};

/// The address of a hunk, as people type it and as it is shown: `src/lib.rs#2`. With lines of it,
/// `src/lib.rs#2:1-3`: they count the added and removed lines of the hunk, from 1 and in the order shown.
///
/// ```
/// use domain::HunkAddress;
///
/// let second = HunkAddress::new("src/lib.rs", 2);
/// assert_eq!(second.to_string(), "src/lib.rs#2");
/// assert_eq!("src/lib.rs#2".parse(), Ok(second));
/// assert_eq!("src/lib.rs#2:1-3".parse::<HunkAddress>().unwrap().lines.to_string(), "1-3");
/// assert!("src/lib.rs".parse::<HunkAddress>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkAddress {
    /// The address of the file.
    pub file: String,
    /// The number of the hunk, from 1.
    pub number: u32,
    /// Its lines; empty for all of it.
    pub lines: LineRanges,
}

/// A text that is not the address of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of a hunk is `FILE#NUMBER`, with lines `FILE#NUMBER:FIRST-LAST`")]
pub struct HunkAddressInvalid;

impl HunkAddress {
    /// The address of the hunk with this number, in the file with this address.
    pub fn new(file: impl Into<String>, number: u32) -> HunkAddress {
        HunkAddress { file: file.into(), number, lines: LineRanges::default() }
    }
}

impl FromStr for HunkAddress {
    type Err = HunkAddressInvalid;

    fn from_str(text: &str) -> Result<HunkAddress, HunkAddressInvalid> {
        let (file, number) = text.rsplit_once('#').ok_or(HunkAddressInvalid)?;
        let (number, lines) = match number.split_once(':') {
            Some((number, lines)) => (number, lines.parse().map_err(|_| HunkAddressInvalid)?),
            None => (number, LineRanges::default()),
        };
        let number = number.parse().map_err(|_| HunkAddressInvalid)?;
        Ok(HunkAddress { lines, ..HunkAddress::new(file, number) })
    }
}

impl fmt::Display for HunkAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}#{}", self.file, self.number)?;
        if self.lines.is_empty() { Ok(()) } else { write!(formatter, ":{}", self.lines) }
    }
}

/// The match of a selector with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SelectorMatch {
    Whole,
    Hunks(RangeInclusive<u32>),
    Lines(u32, LineRanges),
}

/// One word of `--only`, `--reject` or `--take`.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    text: String,
    /// The text itself, and without the name of a project before it.
    readings: Vec<SelectorReading>,
}

/// One reading of a selector's text: the whole text, or the rest of it behind a project's name.
#[derive(Clone, Debug)]
struct SelectorReading {
    root: Option<RootIndex>,
    path: String,
    hunk: Option<HunkAddress>,
    /// The first and the last of several hunks of a file.
    hunks: Option<(String, RangeInclusive<u32>)>,
    glob: Option<SelectorGlob>,
}

#[derive(Clone, Debug)]
struct SelectorGlob {
    matcher: GlobMatcher,
    /// Without a slash it is matched with names at any depth, as in ignore files.
    names_only: bool,
}

impl Selector {
    pub(super) fn parse(text: &str, projects: &[ProjectAlias]) -> Selector {
        let mut readings = vec![SelectorReading::parse(None, text)];
        for project in projects {
            let rest = text.strip_prefix(&project.alias).and_then(|rest| rest.strip_prefix(':'));
            readings.extend(rest.map(|rest| SelectorReading::parse(Some(project.root), rest)));
        }
        Selector { text: text.to_owned(), readings }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The changes that the first reading to fit any of them fits.
    pub(super) fn fits(&self, changes: &[SelectableChange<'_>]) -> Vec<(SelectorMatch, usize)> {
        let ways = [SelectorReading::fits_place, SelectorReading::fits_hunk, SelectorReading::fits_glob];
        for way in ways {
            for reading in &self.readings {
                let fits: Vec<(SelectorMatch, usize)> = changes
                    .iter()
                    .enumerate()
                    .filter(|(_, change)| reading.root.is_none_or(|root| root == change.change.root))
                    .filter_map(|(at, change)| way(reading, change).map(|fit| (fit, at)))
                    .collect();
                if !fits.is_empty() {
                    return fits;
                }
            }
        }
        Vec::new()
    }
}

impl SelectorReading {
    fn parse(root: Option<RootIndex>, text: &str) -> SelectorReading {
        let path = text.strip_prefix("./").unwrap_or(text);
        let path = if path.is_empty() { "." } else { path.trim_end_matches('/') };
        // The mark of a secret is no pattern: it would fit other files.
        let is_glob = path.contains(['*', '?', '[', '{']) && !contains_mark(path);
        let glob = is_glob.then(|| SelectorGlob::parse(path)).flatten();
        SelectorReading {
            root,
            path: path.to_owned(),
            hunk: path.parse().ok(),
            hunks: hunk_range(path),
            glob,
        }
    }

    /// A file, or a directory with all that is below it: the directory itself may be among the changes.
    fn fits_place(&self, change: &SelectableChange<'_>) -> Option<SelectorMatch> {
        let is_at = |path: &RelPath| is_called(path, &self.path);
        let is_there = |path: &RelPath| is_at(path) || ancestors(path).any(|directory| is_at(&directory));
        (self.path == "." || paths(change).any(is_there)).then_some(SelectorMatch::Whole)
    }

    fn fits_hunk(&self, change: &SelectableChange<'_>) -> Option<SelectorMatch> {
        if let Some((file, numbers)) = &self.hunks {
            let is_there = numbers.start() > &0 && change.hunks.len() >= *numbers.end() as usize;
            let fits = is_there && paths(change).any(|own| is_called(own, file));
            return fits.then(|| SelectorMatch::Hunks(numbers.clone()));
        }
        let HunkAddress { file, number, lines } = self.hunk.as_ref()?;
        let count = change.hunks.get((*number as usize).checked_sub(1)?)?;
        let fit = match lines.last() {
            None => SelectorMatch::Hunks(*number..=*number),
            Some(last) if last <= *count => SelectorMatch::Lines(*number, lines.clone()),
            Some(_) => return None,
        };
        paths(change).any(|own| is_called(own, file)).then_some(fit)
    }

    fn fits_glob(&self, change: &SelectableChange<'_>) -> Option<SelectorMatch> {
        let glob = self.glob.as_ref()?;
        let fits = |path: &RelPath| glob.fits(path) || ancestors(path).any(|directory| glob.fits(&directory));
        paths(change).any(fits).then_some(SelectorMatch::Whole)
    }
}

impl SelectorGlob {
    /// A text that is no glob is nothing but a path.
    fn parse(text: &str) -> Option<SelectorGlob> {
        let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?;
        Some(SelectorGlob { matcher: glob.compile_matcher(), names_only: !text.contains('/') })
    }

    fn fits(&self, path: &RelPath) -> bool {
        let text = if self.names_only { path.file_name() } else { path.as_bytes() };
        self.matcher.is_match_candidate(&Candidate::from_bytes(text))
    }
}

/// Reads `FILE#FIRST-LAST`.
fn hunk_range(text: &str) -> Option<(String, RangeInclusive<u32>)> {
    let (file, numbers) = text.rsplit_once('#')?;
    let (first, last) = numbers.split_once('-')?;
    let numbers: RangeInclusive<u32> = first.parse().ok()?..=last.parse().ok()?;
    (!numbers.is_empty()).then(|| (file.to_owned(), numbers))
}

/// Returns where the file is, and where it was.
fn paths<'a>(change: &SelectableChange<'a>) -> impl Iterator<Item = &'a RelPath> + use<'a> {
    [Some(&change.change.path), change.change.from.as_ref()].into_iter().flatten()
}

fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(path.parent(), RelPath::parent)
}

/// A path is called by its bytes, or as it is shown, which is the only way when it is not UTF-8.
fn is_called(path: &RelPath, text: &str) -> bool {
    path.as_bytes() == text.as_bytes() || (text.contains('\\') && path.to_string() == text)
}
