//! One word of a selection, in all the ways that it can be read.

use globset::{Candidate, GlobBuilder, GlobMatcher};

use crate::id::RootNo;
use crate::path::RelPath;
use crate::redact::contains_mark;

use super::{Choosable, ProjectAlias};

/// How a word fits a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Whole,
    Hunk(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Word {
    text: String,
    /// As it stands, and without the name of a project before it.
    readings: Vec<Reading>,
}

/// A word, or the rest of it behind a project's name.
#[derive(Clone, Debug)]
struct Reading {
    root: Option<RootNo>,
    path: String,
    hunk: Option<(String, u32)>,
    glob: Option<Glob>,
}

#[derive(Clone, Debug)]
struct Glob {
    matcher: GlobMatcher,
    /// Without a slash it is matched with names at any depth, as in ignore files.
    names_only: bool,
}

impl Word {
    pub(super) fn parse(text: &str, projects: &[ProjectAlias]) -> Word {
        let mut readings = vec![Reading::parse(None, text)];
        for project in projects {
            let rest = text.strip_prefix(&project.alias).and_then(|rest| rest.strip_prefix(':'));
            readings.extend(rest.map(|rest| Reading::parse(Some(project.root), rest)));
        }
        Word { text: text.to_owned(), readings }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The changes that the first reading to fit any of them fits.
    pub(super) fn fits(&self, changes: &[Choosable<'_>]) -> Vec<(Fit, usize)> {
        let ways = [Reading::fits_place, Reading::fits_hunk, Reading::fits_glob];
        for way in ways {
            for reading in &self.readings {
                let fits: Vec<(Fit, usize)> = changes
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

impl Reading {
    fn parse(root: Option<RootNo>, text: &str) -> Reading {
        let path = text.strip_prefix("./").unwrap_or(text);
        let path = if path.is_empty() { "." } else { path.trim_end_matches('/') };
        let hunk =
            path.rsplit_once('#').and_then(|(path, number)| Some((path.to_owned(), number.parse().ok()?)));
        // The mark of a secret is no pattern: it would fit other files.
        let is_glob = path.contains(['*', '?', '[', '{']) && !contains_mark(path);
        let glob = is_glob.then(|| Glob::parse(path)).flatten();
        Reading { root, path: path.to_owned(), hunk, glob }
    }

    /// A file, or a directory with all that is below it: the directory itself may be among the changes.
    fn fits_place(&self, change: &Choosable<'_>) -> Option<Fit> {
        let is_at = |path: &RelPath| is_called(path, &self.path);
        let is_there = |path: &RelPath| is_at(path) || ancestors(path).any(|directory| is_at(&directory));
        (self.path == "." || paths(change).any(is_there)).then_some(Fit::Whole)
    }

    fn fits_hunk(&self, change: &Choosable<'_>) -> Option<Fit> {
        let (path, number) = self.hunk.as_ref()?;
        let exists = (1..=change.hunks).contains(number);
        (exists && paths(change).any(|own| is_called(own, path))).then_some(Fit::Hunk(*number))
    }

    fn fits_glob(&self, change: &Choosable<'_>) -> Option<Fit> {
        let glob = self.glob.as_ref()?;
        let fits = |path: &RelPath| glob.fits(path) || ancestors(path).any(|directory| glob.fits(&directory));
        paths(change).any(fits).then_some(Fit::Whole)
    }
}

impl Glob {
    /// A text that is no glob is nothing but a path.
    fn parse(text: &str) -> Option<Glob> {
        let glob = GlobBuilder::new(text).literal_separator(true).build().ok()?;
        Some(Glob { matcher: glob.compile_matcher(), names_only: !text.contains('/') })
    }

    fn fits(&self, path: &RelPath) -> bool {
        let text = if self.names_only { path.file_name() } else { path.as_bytes() };
        self.matcher.is_match_candidate(&Candidate::from_bytes(text))
    }
}

/// Where the file is, and where it was.
fn paths<'a>(change: &Choosable<'a>) -> impl Iterator<Item = &'a RelPath> + use<'a> {
    [Some(&change.change.path), change.change.from.as_ref()].into_iter().flatten()
}

fn ancestors(path: &RelPath) -> impl Iterator<Item = RelPath> {
    std::iter::successors(path.parent(), RelPath::parent)
}

/// A path is called by its bytes, or as it is shown, which is the only way when it is not UTF-8.
fn is_called(path: &RelPath, text: &str) -> bool {
    path.as_bytes() == text.as_bytes() || (text.contains('\\') && path.to_string() == text)
}
