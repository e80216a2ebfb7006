//! What a text shows: which files, and which lines of each; and how much of the truth that is.

use std::collections::{BTreeMap, BTreeSet};

use domain::RelPath;
use domain::context::AssembledContext;

use super::truth::{Truth, known_by};

/// What rivals put before a line of a file.
const MARGIN: [char; 2] = ['│', '⋮'];

/// The lines that are shown of each file, as they are known.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    blocks: BTreeMap<RelPath, BTreeSet<String>>,
}

/// How much of the truth is shown, from 0 to 1; none where there is nothing to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recall {
    pub(crate) file: f64,
    pub(crate) symbol: Option<f64>,
    pub(crate) line: Option<f64>,
}

impl Shown {
    /// Of one of our contexts.
    pub(crate) fn of_context(context: &AssembledContext) -> Shown {
        let mut shown = Shown::default();
        for fragment in &context.fragments {
            let Some(place) = &fragment.place else { continue };
            let block = shown.blocks.entry(place.path.clone()).or_default();
            block.extend(fragment.text.lines().map(|line| known_by(without_number(line))));
        }
        shown
    }

    /// Of a text in which the path of a file stands before its lines, on a line of its own or with a colon.
    pub(crate) fn of_listing(text: &str, files: &BTreeSet<String>) -> Shown {
        let mut shown = Shown::default();
        let mut current = None;
        for line in text.lines() {
            let name = line.strip_suffix(':').unwrap_or(line);
            if files.contains(name) {
                // A file may come again, with further lines.
                current = RelPath::new(name).ok().map(|path| shown.blocks.entry(path).or_default());
            } else if let Some(block) = &mut current {
                block.insert(known_by(line.trim_start_matches(MARGIN)));
            }
        }
        shown
    }

    /// How much of the truth it has.
    pub(crate) fn recall(&self, truth: &Truth) -> Recall {
        let files = truth.files.iter().filter(|path| self.blocks.contains_key(*path)).count();
        let symbols = truth.symbols.iter().filter(|(path, name)| self.begins_with(path, name)).count();
        let lines = truth.lines.iter().filter(|(path, line)| self.has(path, line)).count();
        let share = |found: usize, all: usize| (all > 0).then(|| found as f64 / all as f64);
        Recall {
            file: share(files, truth.files.len()).unwrap_or(0.0),
            symbol: share(symbols, truth.symbols.len()),
            line: share(lines, truth.lines.len()),
        }
    }

    fn has(&self, path: &RelPath, line: &str) -> bool {
        self.blocks.get(path).is_some_and(|block| block.contains(line))
    }

    fn begins_with(&self, path: &RelPath, start: &str) -> bool {
        self.blocks.get(path).is_some_and(|block| block.iter().any(|line| line.starts_with(start)))
    }
}

/// A line of ours without the number that stands before it.
fn without_number(line: &str) -> &str {
    match line.split_once(": ") {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => line,
    }
}
