//! Selects the parts of a plan's changes that the user takes, by the words of `--only`, `--reject` and
//! `--take`.
//!
//! A word is a path, a directory, a hunk's address `path#n` or a glob; `project:` may come before each. A
//! moved file answers to its old path too. A word's first reading that fits anything counts, in that order,
//! so that a file really named `a#1` or `[id].ts` can be addressed.
//!
//! # Invariants
//! 1. A word that fits nothing is an error, never an empty choice.
//! 2. What is rejected is left out, whatever else names it. Without `--only` all the rest is taken.
//! 3. The answer has one item for each change, in their order.
//!
//! # Not here
//! The content of a hunk ([`crate::hunks`]), and the use of the chosen ones ([`crate::narrow`]).

mod address;
mod nearest;

use std::collections::BTreeSet;

use super::net::NetChange;
use crate::id::RootIndex;

pub use address::{HunkAddress, HunkAddressInvalid};
use address::{Selector, SelectorMatch};
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
    /// The number of its hunks: the length of [`crate::hunks`].
    pub hunks: u32,
}

/// The selection of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedChange {
    /// The selected part.
    pub part: SelectedPart,
    /// True if the plan's file wins over a conflict.
    pub take: bool,
}

/// The selected part of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPart {
    /// Nothing of it.
    None,
    /// All of it.
    Whole,
    /// The hunks with these numbers: at least one, and not all.
    Hunks(BTreeSet<u32>),
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
    /// Over a conflict a file is taken whole.
    #[error("`{word}` names a hunk, and only whole files can be taken over a conflict")]
    TakesHunk {
        /// The word as it was given.
        word: String,
        /// The file's address.
        file: String,
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
/// let chosen = all_but_the_second.choose(&[SelectableChange { change: &change, hunks: 3 }]).unwrap();
/// assert_eq!(chosen[0].part, SelectedPart::Hunks([1, 3].into()));
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
    /// Reads the words. Which reading of each counts is seen when it meets the changes.
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
    /// Returns the first word that fits no change, or that takes a hunk.
    pub fn choose(&self, changes: &[SelectableChange<'_>]) -> Result<Vec<SelectedChange>, SelectionError> {
        let mut numbers: Vec<BTreeSet<u32>> = if self.only.is_empty() {
            changes.iter().map(all_of).collect()
        } else {
            vec![BTreeSet::new(); changes.len()]
        };
        for word in &self.only {
            for (fit, at) in self.fits(word, changes)? {
                numbers[at].extend(numbers_of(fit, &changes[at]));
            }
        }
        for word in &self.reject {
            for (fit, at) in self.fits(word, changes)? {
                let left_out = numbers_of(fit, &changes[at]);
                numbers[at].retain(|number| !left_out.contains(number));
            }
        }
        let mut taken = vec![false; changes.len()];
        for word in &self.take {
            for (fit, at) in self.fits(word, changes)? {
                match fit {
                    SelectorMatch::Whole => taken[at] = true,
                    SelectorMatch::Hunk(_) => return Err(self.takes_hunk(word, changes[at].change)),
                }
            }
        }
        let chosen = numbers.into_iter().zip(changes).zip(taken);
        Ok(chosen
            .map(|((numbers, change), take)| SelectedChange { part: part(numbers, change), take })
            .collect())
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

    fn takes_hunk(&self, word: &Selector, change: &NetChange) -> SelectionError {
        SelectionError::TakesHunk {
            word: word.text().to_owned(),
            file: change_address(change, &self.projects),
        }
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

fn all_of(change: &SelectableChange<'_>) -> BTreeSet<u32> {
    // A change without hunks can still be taken or left.
    (1..=change.hunks.max(1)).collect()
}

fn numbers_of(fit: SelectorMatch, change: &SelectableChange<'_>) -> BTreeSet<u32> {
    match fit {
        SelectorMatch::Whole => all_of(change),
        SelectorMatch::Hunk(number) => BTreeSet::from([number]),
    }
}

fn part(numbers: BTreeSet<u32>, change: &SelectableChange<'_>) -> SelectedPart {
    if numbers.is_empty() {
        SelectedPart::None
    } else if numbers.len() == all_of(change).len() {
        SelectedPart::Whole
    } else {
        SelectedPart::Hunks(numbers)
    }
}
