//! The receipt of a context: the parts that it has, those that were left out and why, and the strategies that
//! ran.
//!
//! # Invariants
//! 1. Every registered strategy has exactly one line.
//! 2. Every distinct file that was proposed is in one included line's file or counted under exactly one
//!    [`ExclusionReason`].
//! 3. Lists are bounded; the counts are not cut with them.
//! 4. The tokens of the included lines and of `included_more` are those of `budget.files`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::{ContextView, Depth, FileLocation, Name};
use crate::change::file_state::Hash;
use crate::time::WallMs;

/// The limit of lines about included files.
pub const INCLUDED_LINES_MAX: usize = 500;
/// The limit of lines about files that were left out, the best first.
pub const EXCLUDED_LINES_MAX: usize = 200;

/// The receipt of a context.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Receipt {
    /// The time of the request.
    pub at: WallMs,
    /// The view whose rules held.
    pub view: ContextView,
    /// The state of the index.
    pub index: IndexLine,
    /// The division of the tokens.
    pub budget: BudgetLine,
    /// The name of the token counter.
    pub counter: String,
    /// All strategies, those that ran first.
    pub strategies: Vec<StrategyLine>,
    /// The included files, in the order of the text; at most 500.
    pub included: Vec<IncludedLine>,
    /// The included files beyond these lines.
    pub included_more: MoreLine,
    /// The best of what was left out; at most 200.
    pub excluded: Vec<ExcludedLine>,
    /// The number of files that were left out, by reason.
    pub excluded_by: BTreeMap<ExclusionReason, u32>,
    /// The number of files with a secret that is not shown.
    pub redacted: u32,
    /// Notes about problems.
    pub notes: Vec<String>,
}

/// The state of the index, over all projects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IndexLine {
    /// Files that it knows.
    pub files: u32,
    /// Files that had changed since it was last asked.
    pub changed: u32,
    /// Commits that it knows.
    pub commits: u32,
    /// True if there are files that it does not know.
    pub partial: bool,
    /// True if it had no time to look at all of them; it continues the next time.
    pub unfinished: bool,
    /// The time that the update took.
    pub ms: u32,
}

/// The use of the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BudgetLine {
    /// The context window of the model.
    pub window: u32,
    /// The limit for the text.
    pub total: u32,
    /// Spent on the first paragraph.
    pub preamble: u32,
    /// Spent on what the plan above was given.
    pub skeleton: u32,
    /// Spent on decisions of the plan.
    pub decisions: u32,
    /// Spent on files: what their lines say together.
    pub files: u32,
    /// Left over.
    pub free: u32,
}

/// The outcome of one strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyLine {
    /// The strategy.
    pub name: Name,
    /// The confidence of the strategy that it is of use; 0..=1.
    pub confidence: f32,
    /// The weight of the strategy.
    pub weight: f32,
    /// Its share of the tokens.
    pub tokens: u32,
    /// The number of proposed places that could be used.
    pub proposed: u32,
    /// The number of places that it proposed beyond its limit, outside the projects, or without a score.
    pub cut: u32,
    /// The time that it took.
    pub ms: u32,
    /// The outcome.
    pub outcome: StrategyOutcome,
}

/// The outcome of a strategy, or the reason that it did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyOutcome {
    /// It found something.
    Ok,
    /// It ended well and found nothing.
    Empty,
    /// It has nothing to go by, for this reason.
    Unavailable(String),
    /// It failed so often that it was skipped.
    Open {
        /// The time after which another request may succeed.
        retry_after_ms: u64,
    },
    /// It returned this error.
    Failed(String),
    /// It panicked with this message.
    Panicked(String),
    /// It began, and a deadline passed.
    TimedOut,
    /// It had no share, or its turn did not come.
    NotStarted,
    /// Earlier runs of it have not returned.
    Hung,
}

impl fmt::Display for StrategyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyOutcome::Ok => f.write_str("ok"),
            StrategyOutcome::Empty => f.write_str("empty"),
            StrategyOutcome::Unavailable(why) => write!(f, "unavailable: {why}"),
            StrategyOutcome::Open { retry_after_ms } => write!(f, "open, again in {retry_after_ms} ms"),
            StrategyOutcome::Failed(message) => write!(f, "failed: {message}"),
            StrategyOutcome::Panicked(message) => write!(f, "panicked: {message}"),
            StrategyOutcome::TimedOut => f.write_str("timed out"),
            StrategyOutcome::NotStarted => f.write_str("not started"),
            StrategyOutcome::Hung => f.write_str("hung"),
        }
    }
}

/// A file that is in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IncludedLine {
    /// The file.
    pub place: FileLocation,
    /// The most that is shown of any part of it.
    pub depth: Depth,
    /// The number of its parts that are shown in full.
    pub full_parts: u32,
    /// The number of its parts.
    pub parts: u32,
    /// Its cost.
    pub tokens: u32,
    /// From 0 to 1.
    pub score: f32,
    /// The hash of the bytes that were read, or that the index has of a file that is only listed. `None` if
    /// the file was not read.
    #[serde(serialize_with = "hex")]
    pub hash: Option<Hash>,
    /// The strategies that proposed it with their strength, and `proximity`.
    pub why: Vec<(String, f32)>,
}

fn hex<S: Serializer>(hash: &Option<Hash>, serializer: S) -> Result<S::Ok, S::Error> {
    match hash {
        Some(hash) => serializer.collect_str(hash),
        None => serializer.serialize_none(),
    }
}

/// Files that are in and have no line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoreLine {
    /// The number of files.
    pub files: u32,
    /// Their total cost.
    pub tokens: u32,
}

/// A file that was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExcludedLine {
    /// The file.
    pub place: FileLocation,
    /// The reason.
    pub reason: ExclusionReason,
    /// The joint score of the strategies.
    pub score: f32,
}

/// The reason why a file that was proposed is not in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExclusionReason {
    /// Others were worth more of the tokens.
    Budget,
    /// Nothing of it may be shown at the depth asked for.
    Depth,
    /// The view leaves it out.
    Policy,
    /// It holds secrets.
    Secret,
    /// It is larger than what is looked into.
    TooLarge,
    /// It is no text.
    Binary,
    /// No person wrote it.
    Generated,
    /// Its lines are too long to be read.
    LongLines,
    /// Another included file has the same content.
    Duplicate,
    /// It is gone since the index saw it.
    Changed,
    /// It could not be read.
    Unreadable,
    /// No project has it.
    Outside,
    /// It was given before.
    AlreadyShown,
}

impl ExclusionReason {
    /// Its name, as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ExclusionReason::Budget => "budget",
            ExclusionReason::Depth => "depth",
            ExclusionReason::Policy => "policy",
            ExclusionReason::Secret => "secret",
            ExclusionReason::TooLarge => "too large",
            ExclusionReason::Binary => "binary",
            ExclusionReason::Generated => "generated",
            ExclusionReason::LongLines => "long lines",
            ExclusionReason::Duplicate => "duplicate",
            ExclusionReason::Changed => "changed",
            ExclusionReason::Unreadable => "unreadable",
            ExclusionReason::Outside => "outside",
            ExclusionReason::AlreadyShown => "already shown",
        }
    }
}

impl fmt::Display for ExclusionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
