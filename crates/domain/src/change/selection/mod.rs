//! Selects the parts of a plan's changes that the user takes, by the words of `--only`, `--reject` and
//! `--take`.
//!
//! A word is a path, a directory, a hunk's address `path#n`, lines of a hunk `path#n:2-4`, or a glob;
//! `project:` may come before each. A moved file is also found by its old path. The readings of a word are
//! tried in that order, and the first that matches anything counts. So a file really named `a#1` or `[id].ts`
//! can be addressed.
//!
//! # Invariants
//! 1. A word that matches nothing is an error, never an empty choice.
//! 2. A rejected part is left out, even if another word names it. Without `--only` all the rest is taken.
//! 3. The answer has one item for each change, in their order.
//!
//! # Not here
//! The content of a hunk ([`crate::hunks`]), and the use of the chosen ones ([`crate::narrow`]).

mod address;
mod choice;
mod nearest;

use std::collections::BTreeSet;

use super::file_state::FileState;
use super::net::NetChange;
use crate::diff::hunks::in_lines;
use crate::id::RootIndex;

pub use address::{HunkAddress, HunkAddressInvalid};
use address::{Selector, SelectorMatch};
pub use choice::{ChangeChoice, LineRanges, LineRangesInvalid, TakenShare, selectable_lines};
use nearest::nearest;

/// A project's name in words and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectAlias {
    /// The project.
    pub root: RootIndex,
    /// The name that people use for it.
    pub alias: String,
}

/// A change that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct SelectableChange<'a> {
    /// The change.
    pub change: &'a NetChange,
    /// The number of lines of each of its hunks that can be chosen: [`selectable_lines`].
    pub hunks: &'a [u32],
}

/// The selection of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedChange {
    /// The selected part.
    pub part: SelectedPart,
    /// The part of it that wins over a conflict.
    pub take: ConflictTake,
}

/// The selected part of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPart {
    /// Nothing of it.
    None,
    /// All of it.
    Whole,
    /// Some hunks or lines: at least one, and not all.
    Some(ChangeChoice),
}

/// The part of a change that wins over a conflict with the user's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConflictTake {
    /// Nothing: a conflict is an obstacle.
    #[default]
    Nothing,
    /// The hunks with these numbers; the user's other lines remain.
    Hunks(BTreeSet<u32>),
    /// The whole file, as the plan has it.
    File,
}

impl ConflictTake {
    /// Returns whether these hunks of the change win.
    pub fn wins(&self, hunks: &BTreeSet<u32>) -> bool {
        match self {
            ConflictTake::Nothing => false,
            ConflictTake::Hunks(taken) => !hunks.is_empty() && hunks.is_subset(taken),
            ConflictTake::File => true,
        }
    }
}

/// The reason why a selection cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A word fits no change.
    #[error("nothing that the plan changed is called `{word}`")]
    NoSuchHunk {
        /// The word as it was given.
        word: String,
        /// The address most like it; `None` if the plan changed nothing.
        nearest: Option<String>,
    },
    /// Over a conflict a hunk is taken whole.
    #[error("`{word}` names lines, and only whole hunks and files can be taken over a conflict")]
    TakesLines {
        /// The word as it was given.
        word: String,
        /// The hunk's address.
        hunk: String,
    },
}

/// The changes, and the hunks of them, that the user takes.
///
/// ```
/// use domain::{Base, SelectableChange, SelectedPart, FileState, NetChange, RelPath, RootIndex, ChangeSelection};
///
/// let change = NetChange {
///     root: RootIndex(0), path: RelPath::new("src/lib.rs")?, from: None, base: Base::Known, calls: vec![],
///     before: Some(FileState::file(b"a", 0o644)), after: Some(FileState::file(b"b", 0o644)),
/// };
/// let all_but_the_second = ChangeSelection::parse(&[], &["src/lib.rs#2".to_owned()], &[], &[]);
/// let chosen = all_but_the_second.choose(&[SelectableChange { change: &change, hunks: &[2, 1, 4] }]).unwrap();
/// let SelectedPart::Some(choice) = &chosen[0].part else { panic!("{chosen:?}") };
/// assert_eq!(choice.left_out("src/lib.rs"), ["src/lib.rs#2"]);
/// # Ok::<(), domain::PathError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChangeSelection {
    only: Vec<Selector>,
    reject: Vec<Selector>,
    take: Vec<Selector>,
    projects: Vec<ProjectAlias>,
}

impl ChangeSelection {
    /// Reads the words. The reading of each that counts is chosen later, when it is compared with the
    /// changes.
    pub fn parse(
        only: &[String],
        reject: &[String],
        take: &[String],
        projects: &[ProjectAlias],
    ) -> ChangeSelection {
        let words = |texts: &[String]| texts.iter().map(|text| Selector::parse(text, projects)).collect();
        ChangeSelection {
            only: words(only),
            reject: words(reject),
            take: words(take),
            projects: projects.to_vec(),
        }
    }

    /// Returns what is chosen of each change.
    ///
    /// # Errors
    /// Returns the first word that fits no change, or that takes lines over a conflict.
    pub fn choose(&self, changes: &[SelectableChange<'_>]) -> Result<Vec<SelectedChange>, SelectionError> {
        let mut choices: Vec<ChangeChoice> =
            changes.iter().map(|change| ChangeChoice::new(change.hunks, self.only.is_empty())).collect();
        for (words, taken) in [(&self.only, true), (&self.reject, false)] {
            for word in words {
                for (fit, at) in self.fits(word, changes)? {
                    match fit {
                        SelectorMatch::Whole => choices[at].set_all(taken),
                        SelectorMatch::Hunks(numbers) => {
                            numbers.for_each(|number| choices[at].set_hunk(number, taken))
                        }
                        SelectorMatch::Lines(number, lines) => choices[at].set_lines(number, &lines, taken),
                    }
                }
            }
        }
        let mut takes = vec![ConflictTake::Nothing; changes.len()];
        for word in &self.take {
            for (fit, at) in self.fits(word, changes)? {
                match fit {
                    SelectorMatch::Whole => takes[at] = ConflictTake::File,
                    SelectorMatch::Hunks(numbers) => {
                        numbers.for_each(|number| take_hunk(&mut takes[at], number, changes[at].change))
                    }
                    SelectorMatch::Lines(number, _) => {
                        return Err(self.takes_lines(word, changes[at].change, number));
                    }
                }
            }
        }
        let chosen = choices.into_iter().zip(takes);
        Ok(chosen.map(|(choice, take)| SelectedChange { part: choice.into_part(), take }).collect())
    }

    /// Returns how the word fits which of the changes, by their index.
    fn fits(
        &self,
        word: &Selector,
        changes: &[SelectableChange<'_>],
    ) -> Result<Vec<(SelectorMatch, usize)>, SelectionError> {
        let fits = word.fits(changes);
        if fits.is_empty() {
            return Err(SelectionError::NoSuchHunk {
                word: word.text().to_owned(),
                nearest: nearest(word.text(), changes, &self.projects),
            });
        }
        Ok(fits)
    }

    fn takes_lines(&self, word: &Selector, change: &NetChange, number: u32) -> SelectionError {
        let hunk = HunkAddress::new(change_address(change, &self.projects), number).to_string();
        SelectionError::TakesLines { word: word.text().to_owned(), hunk }
    }
}

/// Returns what a person calls `change`: its path, with the project before it if there are several.
pub fn change_address(change: &NetChange, projects: &[ProjectAlias]) -> String {
    match projects {
        [] | [_] => change.path.to_string(),
        [..] => match projects.iter().find(|project| project.root == change.root) {
            Some(project) => format!("{}:{}", project.alias, change.path),
            None => change.path.to_string(),
        },
    }
}

/// Adds a hunk to those that win. A change that is not merged by lines has nothing but the file to take.
fn take_hunk(take: &mut ConflictTake, number: u32, change: &NetChange) {
    let is_text = |state: Option<FileState>| state.is_some_and(|state| in_lines(&state));
    if !is_text(change.before) || !is_text(change.after) {
        *take = ConflictTake::File;
        return;
    }
    match take {
        ConflictTake::File => {}
        ConflictTake::Hunks(numbers) => {
            numbers.insert(number);
        }
        ConflictTake::Nothing => *take = ConflictTake::Hunks(BTreeSet::from([number])),
    }
}
