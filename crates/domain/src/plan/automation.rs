//! The automation profile of a plan, and the one rule that decides at each gate whether the user is asked.
//!
//! # Invariants
//! 1. Of two profiles that are joined the stricter one wins in each field: no profile loosens another.
//! 2. [`verdict`] is the only rule of the gates. It depends on its arguments alone, so that commands and
//!    workers come to the same answer.
//! 3. A profile that allows an apply allows it for checked changes only. A person's consent needs no check.
//!
//! # Not here
//! The question at a gate, and the use of its answer: the engine. The storage of profiles: the settings.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::failure::retry::GateDecision;

/// The automation profile: the gates that a plan passes without asking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Automation {
    /// Its name, as typed, stored and shown.
    pub name: String,
    /// From the strategy to the work.
    pub execute: GateDecision,
    /// From the work to the user's files.
    pub apply: GateDecision,
    /// Repairing what checks found.
    pub fix: GateDecision,
    /// Back to a new strategy.
    pub replan: GateDecision,
    /// A strategy or choice that is less sure than this, from 0 to 1, is shown to a person before it is
    /// followed.
    pub ask_below: f32,
}

impl Automation {
    /// The names of those that come with the program, the strictest first.
    pub const NAMES: [&'static str; 3] = ["manual", "review", "auto"];

    /// A person starts every phase.
    pub fn manual() -> Automation {
        let [execute, apply, fix, replan] = [GateDecision::Ask; 4];
        Automation { name: "manual".to_owned(), execute, apply, fix, replan, ask_below: 0.0 }
    }

    /// A person is asked before the user's files are touched.
    pub fn review() -> Automation {
        let [execute, fix, replan] = [GateDecision::Auto; 3];
        Automation {
            name: "review".to_owned(),
            execute,
            apply: GateDecision::Ask,
            fix,
            replan,
            ask_below: 0.0,
        }
    }

    /// Applies changes that passed their checks.
    pub fn auto() -> Automation {
        Automation { name: "auto".to_owned(), apply: GateDecision::Auto, ..Automation::review() }
    }

    /// The one of this name that comes with the program.
    pub fn built_in(name: &str) -> Option<Automation> {
        [Automation::manual(), Automation::review(), Automation::auto()]
            .into_iter()
            .find(|one| one.name == name)
    }

    /// This, as far as `other` does not ask for more care. It has the name of the one that it is equal to,
    /// else it is named after both.
    #[must_use]
    pub fn tightened(&self, other: &Automation) -> Automation {
        // `Ask` is the smaller one.
        let joined = Automation {
            name: self.name.clone(),
            execute: self.execute.min(other.execute),
            apply: self.apply.min(other.apply),
            fix: self.fix.min(other.fix),
            replan: self.replan.min(other.replan),
            ask_below: self.ask_below.max(other.ask_below),
        };
        let name = if joined == *self {
            self.name.clone()
        } else if joined.is_like(other) {
            other.name.clone()
        } else {
            format!("{}+{}", self.name, other.name)
        };
        Automation { name, ..joined }
    }

    fn is_like(&self, other: &Automation) -> bool {
        *self == Automation { name: self.name.clone(), ..other.clone() }
    }
}

impl Default for Automation {
    fn default() -> Self {
        Automation::review()
    }
}

impl<'de> Deserialize<'de> for Automation {
    /// Plans of an older version have the name alone.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum StoredAutomation {
            Name(String),
            Whole {
                name: String,
                execute: GateDecision,
                apply: GateDecision,
                fix: GateDecision,
                replan: GateDecision,
                ask_below: f32,
            },
        }
        match StoredAutomation::deserialize(deserializer)? {
            StoredAutomation::Name(name) => Automation::built_in(&name)
                .ok_or_else(|| serde::de::Error::custom(format!("there is no automation `{name}`"))),
            StoredAutomation::Whole { name, execute, apply, fix, replan, ask_below } => {
                Ok(Automation { name, execute, apply, fix, replan, ask_below })
            }
        }
    }
}

/// A gate at which a plan may have to wait for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePoint {
    /// The strategy is known, and the work would begin.
    Execute,
    /// The work is done, and would reach the user's files.
    Apply,
    /// A required check failed, and its findings would be repaired.
    Fix,
    /// The plan failed, and would begin again with a new strategy.
    Replan,
}

/// The facts about a plan at a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateFacts {
    /// The lowest confidence of the strategy and the choices in force; 1 if none states its confidence.
    pub confidence: f32,
    /// True if a person said beforehand that the result is to be applied.
    pub is_told_to_apply: bool,
    /// True if nothing is to be written.
    pub is_read_only: bool,
    /// True if anything changed.
    pub has_changes: bool,
    /// The number of required checks.
    pub required_checks: usize,
    /// True if all of them passed for the present changes.
    pub checks_passed: bool,
    /// The number of attempts left to repair the findings of checks.
    pub fixes_left: u32,
    /// True if a strategist works before execute.
    pub has_strategist: bool,
    /// The number of reversions that the plan did by itself.
    pub reversions_by_itself: u32,
    /// The number of reversions left, by the plan or a person.
    pub reversions_left: u8,
}

/// The verdict of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GateVerdict {
    /// The plan continues by itself.
    Go,
    /// A person is asked.
    Ask(AskReason),
}

/// The reason for which the user is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AskReason {
    /// The profile says so.
    Profile(GatePoint),
    /// A decision is less sure than the profile wants it.
    Unsure {
        /// The lowest confidence.
        confidence: f32,
        /// The confidence that each has to reach.
        ask_below: f32,
    },
    /// The profile says yes to what was checked, and nothing was.
    Unchecked,
    /// Required checks failed, or did not run.
    ChecksFailed,
    /// There is nothing to apply.
    NothingChanged,
    /// Nothing is to be applied.
    ReadOnly,
    /// No attempt to repair the findings of checks is left.
    FixesSpent,
    /// There is no strategist to find another strategy.
    NoStrategist,
    /// It went back by itself once already.
    WentBackAlready,
    /// It went back as often as may be.
    ReversionsSpent,
}

impl AskReason {
    /// Returns whether the plan continues when a person says yes to it without a change.
    pub const fn is_settled_by_a_yes(self) -> bool {
        match self {
            AskReason::Profile(_) | AskReason::Unsure { .. } | AskReason::Unchecked => true,
            AskReason::ChecksFailed
            | AskReason::NothingChanged
            | AskReason::ReadOnly
            | AskReason::FixesSpent
            | AskReason::NoStrategist
            | AskReason::WentBackAlready
            | AskReason::ReversionsSpent => false,
        }
    }
}

/// In words that follow "it waits:".
impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskReason::Profile(GatePoint::Execute) => "a person says yes to the strategy",
            AskReason::Profile(GatePoint::Apply) => "a person says yes to apply",
            AskReason::Profile(GatePoint::Fix) => "a person says whether the failed checks are repaired",
            AskReason::Profile(GatePoint::Replan) => "a person says whether it begins again with a new strategy",
            AskReason::Unsure { confidence, ask_below } => {
                return write!(
                    f,
                    "a person looks at a decision that is only {confidence:.2} sure (ask_below is {ask_below:.2})"
                );
            }
            AskReason::Unchecked => "a person says yes to apply: no required check has passed",
            AskReason::ChecksFailed => "required checks failed or did not run",
            AskReason::NothingChanged => "it changed nothing",
            AskReason::ReadOnly => "it was to read only",
            AskReason::FixesSpent => "the failed checks were repaired as often as the plan may",
            AskReason::NoStrategist => "it has no strategist for another strategy",
            AskReason::WentBackAlready => "it has begun again by itself once already",
            AskReason::ReversionsSpent => "it has begun again as often as it may",
        })
    }
}

/// Returns whether a plan continues at a gate by itself.
pub fn verdict(point: GatePoint, automation: &Automation, facts: &GateFacts) -> GateVerdict {
    let why = match point {
        GatePoint::Execute => at_execute(automation, facts),
        GatePoint::Apply => at_apply(automation, facts),
        GatePoint::Fix if facts.fixes_left == 0 => Some(AskReason::FixesSpent),
        GatePoint::Fix => asks(automation.fix, point),
        GatePoint::Replan if !facts.has_strategist => Some(AskReason::NoStrategist),
        GatePoint::Replan if facts.reversions_left == 0 => Some(AskReason::ReversionsSpent),
        GatePoint::Replan if facts.reversions_by_itself > 0 => Some(AskReason::WentBackAlready),
        GatePoint::Replan => asks(automation.replan, point),
    };
    why.map_or(GateVerdict::Go, GateVerdict::Ask)
}

fn asks(gate: GateDecision, point: GatePoint) -> Option<AskReason> {
    match gate {
        GateDecision::Ask => Some(AskReason::Profile(point)),
        GateDecision::Auto => None,
    }
}

fn at_execute(automation: &Automation, facts: &GateFacts) -> Option<AskReason> {
    let (confidence, ask_below) = (facts.confidence, automation.ask_below);
    let unsure = (confidence < ask_below).then_some(AskReason::Unsure { confidence, ask_below });
    asks(automation.execute, GatePoint::Execute).or(unsure)
}

fn at_apply(automation: &Automation, facts: &GateFacts) -> Option<AskReason> {
    if facts.is_read_only {
        Some(AskReason::ReadOnly)
    } else if !facts.has_changes {
        Some(AskReason::NothingChanged)
    } else if !facts.checks_passed {
        Some(AskReason::ChecksFailed)
    } else if facts.is_told_to_apply {
        None
    } else if automation.apply == GateDecision::Auto && facts.required_checks == 0 {
        Some(AskReason::Unchecked)
    } else {
        asks(automation.apply, GatePoint::Apply)
    }
}
