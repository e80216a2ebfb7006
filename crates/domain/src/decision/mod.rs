//! A recorded choice of a plan: question, chosen, alternatives, rationale, confidence.
//!
//! # Invariants
//! 1. Decisions of a plan are numbered from 1 without gaps. The first is the prompt, the only one without a
//!    parent.
//! 2. A parent, and every decision that another depends on, has a lower number. It was in force when the
//!    other was taken. So there are no cycles.
//! 3. Texts are bounded; what is longer is cut, and ends in `…`.
//! 4. The name of a decision follows from its plan, its number and its time. No caller has to make one up,
//!    and decisions that were stored before decisions had names have theirs too.
//! 5. A decision that was superseded stays as it was, and says by which.
//!
//! # Not here
//! The right to decide, and the step that gives a number: [`PlanRecord`](crate::PlanRecord) and the stores.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::change::file_state::Hash;
use crate::id::{DecisionId, PlanId};
use crate::plan::phase::Phase;
use crate::text::truncate_chars;
use crate::time::WallMs;

/// Limits how long a question may be.
pub const QUESTION_CHARS_MAX: usize = 500;
/// Limits how long a choice may be.
pub const CHOSEN_CHARS_MAX: usize = 4000;
/// The limit of the choice of a guidance, which is stored nowhere else.
pub const GUIDANCE_CHARS_MAX: usize = 16 * 1024;
/// Limits how long a rationale may be.
pub const RATIONALE_CHARS_MAX: usize = 8000;
/// The limit of alternatives that are stored, the first ones.
pub const ALTERNATIVES_MAX: usize = 20;
/// Limits how long an alternative may be, and why it was not chosen.
pub const ALTERNATIVE_CHARS_MAX: usize = 1000;
/// On how many others a decision may depend.
pub const DEPENDS_ON_MAX: usize = 100;

/// The subject of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The task of the plan; the root of all others.
    Prompt,
    /// The invariants that hold.
    Invariants,
    /// The division of the work.
    Strategy,
    /// A choice of an actor.
    Choice,
    /// The answer to a failure.
    Recovery,
    /// A message of a person during the work.
    Guidance,
    /// A comment of a person on a place in the changes; the question is the place, the rationale its lines.
    Note,
    /// Back to strategize.
    Reversion,
    /// A plan below this one.
    Spawn,
}

/// An alternative that was not chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alternative {
    /// The text of the alternative.
    pub text: String,
    /// The reason why it was not chosen.
    pub why_not: String,
}

/// A decision to be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewDecision {
    /// The number of the decision that it follows from; `None` is the prompt, which alone has none.
    pub parent: Option<u32>,
    /// The plan's attempt.
    pub attempt: u32,
    /// The phase in which it was taken.
    pub phase: Phase,
    /// Its kind.
    pub kind: DecisionKind,
    /// The question; at most 500 characters.
    pub question: String,
    /// The choice; at most 4000 characters, or 16384 of a guidance.
    pub chosen: String,
    /// The alternatives that were not chosen; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// The reason; at most 8000 characters.
    pub rationale: String,
    /// From 0 to 1.
    pub confidence: Option<f32>,
    /// The numbers of the decisions other than its parent that it rests upon, rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<u32>,
    /// The node of the actor that took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The number of changes of the plan that were recorded when it was taken.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at_entry: u64,
    /// The numbers of the decisions that give way to it, if it comes with a move of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supersedes: Vec<u32>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The reason why a decision was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionInvalid {
    /// The plan has no decision in force under the number of the parent.
    #[error("it follows from decision {parent}, which the plan does not have, or no longer")]
    Parent {
        /// The number.
        parent: u32,
    },
    /// The plan has no decision in force under the number of one that it rests upon.
    #[error("it depends on decision {seq}, which the plan does not have, or no longer")]
    DependsOn {
        /// The number.
        seq: u32,
    },
    /// It rests upon more than may be.
    #[error("it depends on {count} others; at most {DEPENDS_ON_MAX} may be named")]
    TooManyDependsOn {
        /// The number of decisions that it names.
        count: usize,
    },
    /// Of several that are recorded together, one rests upon a later one or upon itself.
    #[error("decision {place} of a step rests upon {other} of the same step, which does not come before it")]
    NotBefore {
        /// Its place, from 0.
        place: usize,
        /// The place that it names.
        other: usize,
    },
    /// The confidence is not from 0 to 1.
    #[error("its confidence is not from 0 to 1")]
    Confidence,
}

impl NewDecision {
    /// A decision that follows from the prompt, with a choice and nothing else.
    pub fn new(attempt: u32, phase: Phase, kind: DecisionKind, chosen: impl Into<String>) -> NewDecision {
        NewDecision {
            parent: None,
            attempt,
            phase,
            kind,
            question: String::new(),
            chosen: chosen.into(),
            alternatives: Vec::new(),
            rationale: String::new(),
            confidence: None,
            depends_on: Vec::new(),
            node: None,
            at_entry: 0,
            supersedes: Vec::new(),
        }
    }

    /// Checks that it may be recorded under the number `seq`. `is_live` returns, for a lower number from 2
    /// on, true if that decision was not superseded. The prompt is never superseded.
    ///
    /// # Errors
    /// Returns an error if it may not be recorded, or if `is_live` fails.
    pub fn check<E: From<DecisionInvalid>>(
        &self,
        seq: u32,
        mut is_live: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut is_before = |other: u32| match other {
            0 => Ok(false),
            1 => Ok(seq > 1),
            _ if other >= seq => Ok(false),
            _ => is_live(other),
        };
        if self.confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(DecisionInvalid::Confidence.into());
        }
        if self.depends_on.len() > DEPENDS_ON_MAX {
            return Err(DecisionInvalid::TooManyDependsOn { count: self.depends_on.len() }.into());
        }
        // The first of a plan has no parent, whatever it names.
        if let Some(parent) = self.parent.filter(|_| seq > 1)
            && !is_before(parent)?
        {
            return Err(DecisionInvalid::Parent { parent }.into());
        }
        for other in &self.depends_on {
            if !is_before(*other)? {
                return Err(DecisionInvalid::DependsOn { seq: *other }.into());
            }
        }
        Ok(())
    }

    /// Returns the decision as it is stored under the number `seq`.
    fn bounded(self, seq: u32) -> NewDecision {
        let chosen_chars_max = match self.kind {
            DecisionKind::Guidance | DecisionKind::Note => GUIDANCE_CHARS_MAX,
            DecisionKind::Prompt
            | DecisionKind::Invariants
            | DecisionKind::Strategy
            | DecisionKind::Choice
            | DecisionKind::Recovery
            | DecisionKind::Reversion
            | DecisionKind::Spawn => CHOSEN_CHARS_MAX,
        };
        let alternative = |Alternative { text, why_not }| Alternative {
            text: truncate_chars(&text, ALTERNATIVE_CHARS_MAX),
            why_not: truncate_chars(&why_not, ALTERNATIVE_CHARS_MAX),
        };
        NewDecision {
            parent: if seq > 1 { self.parent.or(Some(1)) } else { None },
            question: truncate_chars(&self.question, QUESTION_CHARS_MAX),
            chosen: truncate_chars(&self.chosen, chosen_chars_max),
            alternatives: self.alternatives.into_iter().take(ALTERNATIVES_MAX).map(alternative).collect(),
            rationale: truncate_chars(&self.rationale, RATIONALE_CHARS_MAX),
            depends_on: self.depends_on.into_iter().collect::<BTreeSet<u32>>().into_iter().collect(),
            ..self
        }
    }
}

/// A stored decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its name.
    pub id: DecisionId,
    /// Its place in the plan, from 1.
    pub seq: u32,
    /// The decision itself.
    pub new: NewDecision,
    /// The number of the one that took its place.
    pub superseded_by: Option<u32>,
    /// The time of the decision.
    pub created: WallMs,
}

impl Decision {
    /// The decision as it is stored under the number `seq`, with its texts cut. One without a parent follows
    /// from the first. [`NewDecision::check`] says if it may be stored.
    pub fn new(plan: PlanId, seq: u32, new: NewDecision, created: WallMs) -> Decision {
        Decision::from_stored(plan, seq, new.bounded(seq), None, created)
    }

    /// Restores a stored decision.
    pub fn from_stored(
        plan: PlanId,
        seq: u32,
        new: NewDecision,
        superseded_by: Option<u32>,
        created: WallMs,
    ) -> Decision {
        Decision { id: name(plan, seq, created), seq, new, superseded_by, created }
    }

    /// Returns whether nothing has taken its place.
    pub fn is_live(&self) -> bool {
        self.superseded_by.is_none()
    }

    /// Returns whether the first of these stored decisions were made from those.
    pub fn are(kept: &[Decision], made_from: &[NewDecision]) -> bool {
        let is_same = |(kept, new): (&Decision, &NewDecision)| kept.new == new.clone().bounded(kept.seq);
        kept.len() >= made_from.len() && kept.iter().zip(made_from).all(is_same)
    }
}

/// Returns all decisions that have to be taken again with `seq`: itself, and each that follows from one of
/// them or rests upon one. The decisions are those of a plan in their order. Superseded decisions are left
/// out, and a superseded `seq` affects nothing.
pub fn affected(decisions: &[Decision], seq: u32) -> BTreeSet<u32> {
    let mut affected = BTreeSet::new();
    for decision in decisions.iter().filter(|decision| decision.is_live()) {
        let NewDecision { parent, depends_on, .. } = &decision.new;
        let rests_upon_one = parent.iter().chain(depends_on).any(|other| affected.contains(other));
        if decision.seq == seq || rests_upon_one {
            affected.insert(decision.seq);
        }
    }
    affected
}

/// The time that it was taken at, and 80 bits of what only it is.
fn name(plan: PlanId, seq: u32, created: WallMs) -> DecisionId {
    const CHANCE_BITS: u32 = 80;
    let mut bytes = [0; 20];
    let (of_plan, of_seq) = bytes.split_at_mut(16);
    of_plan.copy_from_slice(&plan.as_u128().to_be_bytes());
    of_seq.copy_from_slice(&seq.to_be_bytes());
    let mut chance = [0; 16];
    chance.iter_mut().zip(Hash::from_content(&bytes).as_bytes()).for_each(|(to, from)| *to = *from);
    let chance = u128::from_be_bytes(chance) & ((1 << CHANCE_BITS) - 1);
    DecisionId::from_u128(u128::from(created.0) << CHANCE_BITS | chance)
}

/// One of several decisions that are recorded in one step.
///
/// Their numbers are given in that step, and a user's guidance may come just before it. So the numbers are
/// not known yet, and the decisions name each other by their places in the step.
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
