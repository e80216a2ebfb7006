//! The files of a review: their hunks, the parts that the cursor stops at, and the conflicts.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use super::notes::ReviewNote;
use domain::{ChangeChoice, HunkAddress, LineTag, TakenShare};

/// A file that the plan changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFile {
    /// Its address, as `--reject` takes it.
    pub address: String,
    /// The address as it is shown: without secrets.
    pub name: String,
    /// The kind of the change, in a letter: A, M, D, R.
    pub letter: char,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Its hunks, in the order of their numbers.
    pub hunks: Vec<ReviewHunk>,
    /// The parts of it that are taken.
    pub choice: ChangeChoice,
    /// The conflicts with the user's file.
    pub conflicts: Vec<ReviewConflict>,
    /// The hunks whose conflict the plan's side wins.
    pub wins: BTreeSet<u32>,
    /// The open notes on it.
    pub notes: Vec<ReviewNote>,
}

/// A part of a file's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewHunk {
    /// Its number, from 1.
    pub number: u32,
    /// The title, in a few words.
    pub title: String,
    /// Its lines.
    pub lines: Vec<ReviewLine>,
    /// True if its lines can be taken one by one.
    pub has_choice: bool,
    /// True if its new text can be edited.
    pub can_edit: bool,
    /// True if it is shown in the parts that it can be split into.
    pub is_split: bool,
    /// True if its lines are hidden.
    pub is_folded: bool,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewLine {
    /// On which side it is.
    pub tag: LineTag,
    /// Its text without line end, tabs or control characters.
    pub text: String,
    /// The columns that it needs.
    pub columns: usize,
    /// Its number in the old content; 0 if it is not in it.
    pub old: u32,
    /// Its number in the new content; 0 if it is not in it.
    pub new: u32,
    /// Its number among the changed lines of the hunk; 0 for a line that did not change.
    pub number: u32,
}

/// A conflict with the user's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewConflict {
    /// The hunks that have a part in it; none if it is about the file as a whole.
    pub hunks: BTreeSet<u32>,
    /// The conflict in a sentence.
    pub sentence: String,
    /// The lines of the user's file.
    pub yours: Vec<String>,
    /// The lines of the plan's file.
    pub plans: Vec<String>,
}

/// A place where the cursor stops: a hunk, or a part of a split hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewPart {
    /// Into the file's hunks.
    pub hunk: usize,
    /// The number of the part among those of its hunk, from 0.
    pub part: usize,
    /// Its lines, into those of the hunk.
    pub lines: Range<usize>,
    /// The numbers of its changed lines; `None` if it is the whole hunk.
    pub chosen: Option<RangeInclusive<u32>>,
    /// True if it is the last one of its hunk.
    pub is_last: bool,
}

/// The text with blanks in place of tabs.
pub fn without_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

impl ReviewLine {
    /// A line with its numbers; see the fields.
    pub fn new(tag: LineTag, text: &str, old: u32, new: u32, number: u32) -> ReviewLine {
        let text = without_tabs(text);
        let columns = super::layout::columns(&text);
        ReviewLine { tag, text, columns, old, new, number }
    }
}

impl ReviewHunk {
    /// The ranges of its lines that it can be split into: each has one run of changed lines.
    fn runs(&self) -> Vec<Range<usize>> {
        let is_changed = |line: &ReviewLine| line.tag != LineTag::Context;
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut was_changed = false;
        for (at, line) in self.lines.iter().enumerate() {
            match (is_changed(line), was_changed, runs.last_mut()) {
                (true, true, Some(run)) => run.end = at + 1,
                (true, _, _) => runs.push(at..at + 1),
                (false, _, _) => {}
            }
            was_changed = is_changed(line);
        }
        let mut begin = 0;
        let last = runs.len().saturating_sub(1);
        for (no, run) in runs.iter_mut().enumerate() {
            let end = if no == last { self.lines.len() } else { run.end };
            *run = begin..end;
            begin = end;
        }
        runs
    }

    /// Returns whether it has several runs of changed lines.
    pub fn can_split(&self) -> bool {
        self.has_choice && self.runs().len() > 1
    }

    /// Returns the number of places where the cursor stops in it.
    pub fn stops(&self) -> usize {
        if self.is_split { self.runs().len().max(1) } else { 1 }
    }

    /// The places where the cursor stops in it; `at` is its index in the file.
    pub fn parts(&self, at: usize) -> Vec<ReviewPart> {
        if !self.is_split {
            let (lines, chosen) = (0..self.lines.len(), None);
            return vec![ReviewPart { hunk: at, part: 0, lines, chosen, is_last: true }];
        }
        let runs = self.runs();
        let last = runs.len().saturating_sub(1);
        let part = |(no, lines): (usize, Range<usize>)| {
            let changed = || self.lines[lines.clone()].iter().filter(|line| line.number > 0);
            let first = changed().next().map_or(1, |line| line.number);
            let end = changed().next_back().map_or(0, |line| line.number);
            ReviewPart { hunk: at, part: no, chosen: Some(first..=end), lines, is_last: no == last }
        };
        runs.into_iter().enumerate().map(part).collect()
    }
}

impl ReviewFile {
    /// The taken share of a part.
    pub fn share(&self, part: &ReviewPart) -> TakenShare {
        let number = self.hunks.get(part.hunk).map_or(0, |hunk| hunk.number);
        match &part.chosen {
            Some(lines) => self.choice.lines(number, lines.clone()),
            None => self.choice.hunk(number),
        }
    }

    /// Returns whether a changed line is taken.
    pub fn takes_line(&self, hunk: &ReviewHunk, line: &ReviewLine) -> bool {
        self.choice.is_taken(hunk.number, if hunk.has_choice { line.number } else { 1 })
    }

    /// The conflicts that a hunk has a part in.
    pub fn conflicts_of(&self, number: u32) -> impl Iterator<Item = &ReviewConflict> {
        let is_of = move |conflict: &&ReviewConflict| {
            conflict.hunks.contains(&number) || (conflict.hunks.is_empty() && number == 1)
        };
        self.conflicts.iter().filter(is_of)
    }

    /// Returns whether a conflict is an obstacle: something of it is taken, and the user's side wins.
    pub fn is_open(&self, conflict: &ReviewConflict) -> bool {
        match conflict.hunks.is_empty() {
            true => self.choice.share() != TakenShare::None && !self.wins.contains(&1),
            false => {
                let is_taken = |number: &u32| self.choice.hunk(*number) != TakenShare::None;
                conflict.hunks.iter().any(is_taken) && !conflict.hunks.is_subset(&self.wins)
            }
        }
    }

    /// Returns whether a hunk has a conflict that is an obstacle.
    pub fn is_hunk_open(&self, number: u32) -> bool {
        self.conflicts_of(number).any(|conflict| self.is_open(conflict))
    }

    /// The addresses that win over a conflict, as `--take` takes them.
    pub fn taken_over(&self) -> Vec<String> {
        let mut words = Vec::new();
        for conflict in &self.conflicts {
            if conflict.hunks.is_empty() && self.wins.contains(&1) {
                words.push(self.address.clone());
            }
            let won = conflict.hunks.iter().filter(|number| self.wins.contains(number));
            words.extend(won.map(|number| HunkAddress::new(&self.address, *number).to_string()));
        }
        words.sort();
        words.dedup();
        words
    }
}
