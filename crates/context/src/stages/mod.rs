//! The stages of a pipeline, a small trait and its default each, a file each.
//!
//! | stage | trait | default |
//! |---|---|---|
//! | 1 select | [`StrategySelector`] | [`ConfidenceWeightedSelector`] |
//! | 2 allocate | [`BudgetAllocator`] | [`ProportionalBudgetAllocator`] |
//! | 3 execute | [`StrategyExecutor`] | [`ParallelStrategyExecutor`](crate::ParallelStrategyExecutor) |
//! | 4 deduplicate | [`FragmentDeduplicator`] | [`ContentHashDeduplicator`] |
//! | 5 depth | [`DetailDepthResolver`] | [`LadderDepthResolver`] |
//! | 6 score | [`FragmentScorer`] | [`WeightedCompositeScorer`] |
//! | 7 pack | [`BudgetPacker`] | [`GreedyKnapsackPacker`] |
//! | 8 order | [`FragmentOrderer`] | [`RelevanceCoherenceOrderer`] |
//! | 9 preamble | [`PreambleGenerator`] | [`ProvenancePreamble`] |
//! | 10 compress | [`SkeletonCompressor`] | [`DepthReductionCompressor`] |
//!
//! # Invariants
//! 1. A stage is a function of its input: it stores nothing between requests.
//! 2. A file that comes in reaches the next stage or is named in a [`ExcludedFile`]; none is lost.

mod allocate;
mod compress;
mod deduplicate;
mod depth;
mod detail_levels;
mod execute;
mod order;
pub(crate) mod pack;
mod preamble;
mod score;
mod select;
mod split_parts;

use std::sync::{Arc, OnceLock};

use domain::Hash;
use domain::context::{Depth, ExclusionReason, FragmentKind, Name};

pub use self::allocate::{BudgetAllocator, BudgetShare, ProportionalBudgetAllocator};
pub use self::compress::{DepthReductionCompressor, SkeletonCompressor};
pub use self::deduplicate::{ContentHashDeduplicator, DeduplicatedHits, FragmentDeduplicator};
pub use self::depth::{DetailDepthResolver, LadderDepthResolver, ResolvedItems, TextSettings};
pub use self::execute::StrategyExecutor;
pub use self::order::{FragmentOrderer, RelevanceCoherenceOrderer};
pub use self::pack::{BudgetPacker, GreedyKnapsackPacker, PackRequest};
pub use self::preamble::{PreambleFacts, PreambleGenerator, ProvenancePreamble};
pub use self::score::{FragmentScorer, WeightedCompositeScorer};
pub use self::select::{
    ConfidenceWeightedSelector, SelectedStrategy, SkippedStrategy, StrategyPreferences, StrategySelection,
    StrategySelector,
};
use crate::index::{LineIndex, Outline};
use crate::request_inputs::FileIndex;

/// The stages of a pipeline.
#[derive(Clone)]
pub struct Stages {
    /// Selects the strategies to run.
    pub select: Arc<dyn StrategySelector>,
    /// Divides the budget among them.
    pub allocate: Arc<dyn BudgetAllocator>,
    /// Runs them.
    pub execute: Arc<dyn StrategyExecutor>,
    /// Brings what they found together by file.
    pub deduplicate: Arc<dyn FragmentDeduplicator>,
    /// Computes the cost of each file at each depth.
    pub depth: Arc<dyn DetailDepthResolver>,
    /// Scores each file.
    pub score: Arc<dyn FragmentScorer>,
    /// Chooses the files and depths that fit into the tokens.
    pub pack: Arc<dyn BudgetPacker>,
    /// In which order it is shown.
    pub order: Arc<dyn FragmentOrderer>,
    /// Writes the preamble.
    pub preamble: Arc<dyn PreambleGenerator>,
    /// Shortens the context of the parent plan.
    pub compress: Arc<dyn SkeletonCompressor>,
}

impl Stages {
    /// The default of every stage, with `execute` to run the strategies.
    pub fn new(execute: Arc<dyn StrategyExecutor>) -> Stages {
        Stages {
            select: Arc::new(ConfidenceWeightedSelector),
            allocate: Arc::new(ProportionalBudgetAllocator),
            execute,
            deduplicate: Arc::new(ContentHashDeduplicator),
            depth: Arc::new(LadderDepthResolver),
            score: Arc::new(WeightedCompositeScorer),
            pack: Arc::new(GreedyKnapsackPacker),
            order: Arc::new(RelevanceCoherenceOrderer),
            preamble: Arc::new(ProvenancePreamble),
            compress: Arc::new(DepthReductionCompressor),
        }
    }
}

/// A file that was proposed, and by whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The file.
    pub file: FileIndex,
    /// The strategies that proposed it, in the order of the runs: its name, its confidence times its weight,
    /// and the share of its best score.
    pub parts: Vec<(Name, f32, f32)>,
    /// Lines that were proposed, and not just the file.
    pub lines: Vec<(u32, u32)>,
}

impl Hit {
    /// Returns the combined score of the strategies.
    pub fn fused(&self) -> f32 {
        self.parts.iter().map(|(_, weight, share)| weight * share).sum()
    }
}

/// A file that is not shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ExcludedFile {
    /// The file, if it is one that may be seen; else the place that was proposed.
    pub place: domain::context::FileLocation,
    /// The reason.
    pub reason: ExclusionReason,
    /// The combined score of the strategies.
    pub score: f32,
}

/// A file that may be shown. The text of a part at a depth, and its cost, are computed when they are asked
/// for.
#[derive(Clone, Debug)]
pub struct ContextItem {
    /// The file.
    pub file: FileIndex,
    /// Its location.
    pub place: domain::context::FileLocation,
    /// The kind of its content.
    pub kind: FragmentKind,
    /// The line that names it, before what is shown of it.
    pub header: CostedText,
    /// The line that names it if nothing of it is shown: shorter, so that more files can be named.
    pub listed: CostedText,
    /// Its parts, by line.
    pub pieces: Vec<ItemPart>,
    /// The outline, which describes its parts if their lines are not shown.
    pub outline: Arc<Outline>,
    /// Its lines as they may be shown.
    pub lines: Arc<LineIndex>,
    /// The hash of the bytes that were read, or the one in the index if the file was not opened. `None` if it
    /// was never read.
    pub hash: Option<Hash>,
    /// True if its lines are those of the file, without a mark or a replaced byte.
    pub is_verbatim: bool,
    /// True if a secret was taken out.
    pub is_redacted: bool,
    /// True if the request names it for sure.
    pub is_pinned: bool,
    /// The reason why it is listed and no more, if that is not for the tokens.
    pub only_listed: Option<ExclusionReason>,
    /// From 0 to 1, set by the scorer.
    pub score: f32,
    /// The terms of the score.
    pub why: Vec<(String, f32)>,
    /// The combined findings of the strategies.
    pub hit: Hit,
}

/// Lines of a file that are shown or not together.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemPart {
    /// The first line, from 1.
    pub from: u32,
    /// The last line.
    pub to: u32,
    /// True if it is what comes before the first definition.
    pub is_head: bool,
    /// True if the request names it for sure.
    pub is_pinned: bool,
    /// The score of its match with the query, from 0 to 1.
    pub score: f32,
    /// First and last line of what it was cut from, itself if it was not cut.
    pub of: (u32, u32),
    /// The index of the outline's item that it begins with.
    pub defines: Option<usize>,
    /// The cost at each depth, from the least; counted at the first use.
    pub costs: [OnceLock<u64>; 4],
}

/// A text and what it costs, in hundredths of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostedText {
    /// Whole lines.
    pub text: String,
    /// The cost of the lines.
    pub cost: u64,
}

/// The result of packing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackResult {
    /// The shown parts of each item, by its place; the reason if nothing is shown.
    pub files: Vec<Result<PackedItem, ExclusionReason>>,
    /// The upper bound of the cost, in hundredths of a token.
    pub cost: u64,
    /// The steps in the order in which they were bought: what is over is given back from the end.
    pub steps: Vec<PackStep>,
}

/// The shown part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedItem {
    /// The detail at which each piece is shown; `None` if it is not shown.
    pub pieces: Vec<Option<PartDetail>>,
}

impl PackedItem {
    /// The most that is shown of any part.
    pub fn depth(&self) -> Depth {
        self.pieces.iter().flatten().map(|showing| showing.depth()).max().unwrap_or(Depth::Listing)
    }
}

/// The shown detail of a part, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartDetail {
    /// Its kind and name.
    Name,
    /// The beginning of its signature.
    Signature,
    /// Its whole signature and what is said about it.
    Described,
    /// All its lines.
    Lines,
}

impl PartDetail {
    /// The depth that this is.
    pub const fn depth(self) -> Depth {
        match self {
            PartDetail::Name => Depth::Outline,
            PartDetail::Signature | PartDetail::Described => Depth::Signatures,
            PartDetail::Lines => Depth::Full,
        }
    }
}

/// A step that was bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackStep {
    /// The header of an item.
    List {
        /// The item.
        item: usize,
    },
    /// More of a piece, with the header of its item if that was not bought yet.
    Show {
        /// The item.
        item: usize,
        /// The index of the piece.
        piece: usize,
        /// The detail at which the piece is shown from this step on.
        showing: PartDetail,
    },
}

impl PackStep {
    /// Returns the index of the item of the step.
    pub const fn item(self) -> usize {
        match self {
            PackStep::List { item } | PackStep::Show { item, .. } => item,
        }
    }
}
