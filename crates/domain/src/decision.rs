//! A recorded choice of a plan: question, chosen, alternatives, rationale, confidence.
//!
//! # Invariants
//! 1. Decisions of a plan are numbered from 1 without gaps. The first is the prompt, the only one without a parent.
//! 2. A parent and what a decision depends on have lower numbers, so there are no circles.
//! 3. Texts are bounded; what is longer is cut, and ends in `…`.

use serde::{Deserialize, Serialize};

use crate::phase::Phase;
use crate::time::WallMs;

/// How long a question may be.
pub const QUESTION_CHARS_MAX: usize = 500;
/// How long a choice may be.
pub const CHOSEN_CHARS_MAX: usize = 4000;
/// How long a rationale may be.
pub const RATIONALE_CHARS_MAX: usize = 8000;

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// What the plan was asked to do; the root of all others.
    Prompt,
    /// Which invariants hold.
    Invariants,
    /// How the work is divided.
    Strategy,
    /// A choice of an actor.
    Choice,
    /// What was done about a failure.
    Recovery,
    /// What a person said meanwhile.
    Guidance,
    /// Back to strategize.
    Reversion,
    /// A plan below this one.
    Spawn,
}

/// A decision to be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewDecision {
    /// The number of the decision that it follows from; none for the prompt only.
    pub parent: Option<u32>,
    /// The plan's attempt.
    pub attempt: u32,
    /// The phase in which it was taken.
    pub phase: Phase,
    /// What it is about.
    pub kind: DecisionKind,
    /// What was asked; at most 500 characters.
    pub question: String,
    /// What was chosen; at most 4000.
    pub chosen: String,
    /// Why; at most 8000.
    pub rationale: String,
    /// From 0 to 1.
    pub confidence: Option<f32>,
}

/// A decision as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its place in the plan, from 1.
    pub seq: u32,
    /// What was decided.
    pub new: NewDecision,
    /// When.
    pub created: WallMs,
}

impl Decision {
    /// The decision as it is kept under the number `seq`.
    ///
    /// The first of a plan has no parent; of every other, one that is not of a lower number becomes the first. A
    /// confidence that is none is left out.
    pub fn new(seq: u32, new: NewDecision, created: WallMs) -> Decision {
        let parent = match seq {
            0 | 1 => None,
            _ => Some(new.parent.filter(|parent| (1..seq).contains(parent)).unwrap_or(1)),
        };
        let new = NewDecision {
            parent,
            question: cut(new.question, QUESTION_CHARS_MAX),
            chosen: cut(new.chosen, CHOSEN_CHARS_MAX),
            rationale: cut(new.rationale, RATIONALE_CHARS_MAX),
            confidence: new.confidence.filter(|confidence| (0.0..=1.0).contains(confidence)),
            ..new
        };
        Decision { seq, new, created }
    }

    /// Whether the first of these that are kept were made from those.
    pub fn are(kept: &[Decision], made_from: &[NewDecision]) -> bool {
        let is_same = |(kept, new): (&Decision, &NewDecision)| {
            kept.new == Decision::new(kept.seq, new.clone(), kept.created).new
        };
        kept.len() >= made_from.len() && kept.iter().zip(made_from).all(is_same)
    }
}

fn cut(text: String, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text,
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}
