//! Decisions that are recorded in one step, and may follow from each other.
//!
//! Their numbers are given in that step, and a person's guidance may come just before it: so they name each
//! other by their places in the step, not by numbers, which are not known yet.

use super::{DecisionInvalid, NewDecision};

/// One of several decisions that are recorded in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDecision {
    /// The decision. Its own parent and what it depends on are numbers, of decisions that were recorded
    /// before.
    pub new: NewDecision,
    /// The one of this step that it follows from, by its place from 0; `None` leaves its parent as it is.
    pub parent: Option<usize>,
    /// Those of this step that it rests upon, by their places from 0.
    pub depends_on: Vec<usize>,
}

impl From<NewDecision> for StepDecision {
    /// One that names no other of its step.
    fn from(new: NewDecision) -> Self {
        Self { new, parent: None, depends_on: Vec::new() }
    }
}

impl StepDecision {
    /// With numbers for places: it is the one at `place`, and the first of the step gets the number `first`.
    ///
    /// # Errors
    /// Returns an error if it names a decision that does not come before it.
    pub fn assign_numbers(self, place: usize, first: u32) -> Result<NewDecision, DecisionInvalid> {
        let number = |other: usize| match u32::try_from(other) {
            Ok(before) if other < place => Ok(first.saturating_add(before)),
            Ok(_) | Err(_) => Err(DecisionInvalid::NotBefore { place, other }),
        };
        let Self { mut new, parent, depends_on } = self;
        if let Some(parent) = parent {
            new.parent = Some(number(parent)?);
        }
        for other in depends_on {
            new.depends_on.push(number(other)?);
        }
        Ok(new)
    }
}
