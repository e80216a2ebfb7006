//! Stage 7: selects the parts that fit the token budget.
//!
//! Steps wait in a heap, the most worth for its cost first. A file is listed before its parts are shown, and
//! a part is shown by its signature before it is shown in full. So a file that does not fit falls from full
//! to signatures to outline to listing before it is left out.
//!
//! Steps are ordered by a rough cost, by their bytes, because most are never bought. Only a step that is
//! about to be bought is counted exactly.
//!
//! # Invariants
//! 1. The sum of the costs of all bought steps is at most the budget.
//! 2. No part is shown without its file's header.
//! 3. Places that are named for sure are bought before all else, their headers first of all. Of files that
//!    are named whole, the best parts are bought for three quarters of the budget.
//! 4. Equal items and budget, equal purchase: ties go by path, then by line.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use domain::context::{Depth, ExclusionReason, PriorFragment};

use super::{ContextItem, ItemPart, PackResult, PackStep, PackedItem, PartDetail};
use crate::TokenCounter;

const LISTING: f64 = 0.65;
const SIGNATURE: f64 = 0.6;
/// The value of a part's description: less than that of its name, and of its lines.
const DESCRIBED: f64 = 0.05;
const FULL: f64 = 0.15;
/// The value of a part that does not match at all, relative to the best.
const PART_MIN: f64 = 0.03;
/// The exponent of a file's score: a balance between showing the best in full and naming many.
const SCORE_POWER: f64 = 1.7;
/// Of the tokens, files that are named whole leave one part of so many to all others.
const WHOLE_FILES_LEAVE: u64 = 4;
/// A step whose guessed cost is so many times the tokens left is not counted exactly.
const GUESS_TIMES_TOO_MUCH: u64 = 2;

/// The limits of a packing.
#[derive(Clone, Copy)]
pub struct PackRequest<'a> {
    /// The token counter.
    pub counter: &'a dyn TokenCounter,
    /// In hundredths of a token.
    pub budget: u64,
    /// Nothing is shown deeper.
    pub depth: Depth,
    /// The fragments that were given before.
    pub shown: &'a [PriorFragment],
    /// The number of files that may be shown; none: any.
    pub max_files: Option<u32>,
}

/// Decides what is bought.
pub trait BudgetPacker: Send + Sync {
    /// Buys of `items`, which are in the order of their paths.
    fn pack(&self, items: &[ContextItem], request: &PackRequest<'_>) -> PackResult;
}

/// The most worth for its cost first.
#[derive(Clone, Copy, Debug, Default)]
pub struct GreedyKnapsackPacker;

impl BudgetPacker for GreedyKnapsackPacker {
    fn pack(&self, items: &[ContextItem], request: &PackRequest<'_>) -> PackResult {
        let mut purchase = PackState::new(items, request);
        purchase.buy_pinned();
        purchase.open();
        while let Some(offer) = purchase.heap.pop() {
            purchase.consider(&offer);
        }
        purchase.end()
    }
}

/// A step that can be bought.
#[derive(Clone, Copy, Debug)]
struct PackCandidate {
    density: f64,
    item: usize,
    line: u32,
    step: PackStep,
}

impl Ord for PackCandidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_worth = self.density.total_cmp(&other.density);
        // The heap gives the greatest: of equals the first by path, line and depth.
        let place = |offer: &PackCandidate| (offer.item, offer.line, showing(offer.step));
        by_worth.then_with(|| place(other).cmp(&place(self)))
    }
}

fn showing(step: PackStep) -> Option<PartDetail> {
    match step {
        PackStep::List { .. } => None,
        PackStep::Show { showing, .. } => Some(showing),
    }
}

impl PartialOrd for PackCandidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PackCandidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PackCandidate {}

struct PackState<'a> {
    items: &'a [ContextItem],
    request: &'a PackRequest<'a>,
    left: u64,
    heap: BinaryHeap<PackCandidate>,
    files: Vec<Result<PackedItem, ExclusionReason>>,
    /// True if an earlier answer named the file.
    was_listed: Vec<bool>,
    steps: Vec<PackStep>,
}

impl<'a> PackState<'a> {
    fn new(items: &'a [ContextItem], request: &'a PackRequest<'a>) -> Self {
        let was_listed =
            items.iter().map(|item| request.shown.iter().any(|shown| is_of(shown, item))).collect();
        let files = within(items, request.max_files)
            .into_iter()
            .map(|is_within| Err(if is_within { ExclusionReason::Budget } else { ExclusionReason::Policy }))
            .collect();
        Self {
            items,
            request,
            left: request.budget,
            heap: BinaryHeap::new(),
            files,
            was_listed,
            steps: Vec::new(),
        }
    }

    fn may_buy(&self, item: usize) -> bool {
        self.files[item] != Err(ExclusionReason::Policy)
    }

    /// Buys the headers of files that are named for sure, then the lines that are, each as deep as there is
    /// room for. Then buys the parts of files that are named whole, the best first, for most of the tokens.
    fn buy_pinned(&mut self) {
        let pinned: Vec<usize> =
            (0..self.items.len()).filter(|at| self.items[*at].is_pinned && self.may_buy(*at)).collect();
        for item in &pinned {
            if !self.was_listed[*item] {
                self.buy(PackStep::List { item: *item });
            }
        }
        let (in_part, whole): (Vec<usize>, Vec<usize>) =
            pinned.into_iter().partition(|item| !self.items[*item].is_named_whole());
        for item in in_part {
            for piece in 0..self.items[item].pieces.len() {
                if self.items[item].pieces[piece].is_pinned {
                    self.buy_deepest(item, piece);
                }
            }
        }
        let kept = self.request.budget / WHOLE_FILES_LEAVE;
        let parts = |item: usize| (0..self.items[item].pieces.len()).map(move |piece| (item, piece));
        let mut parts: Vec<(usize, usize)> = whole.into_iter().flat_map(parts).collect();
        let score = |(item, piece): (usize, usize)| self.items[item].pieces[piece].score;
        parts.sort_by(|one, other| score(*other).total_cmp(&score(*one)));
        for (item, piece) in parts {
            let step = PackStep::Show { item, piece, showing: PartDetail::Lines };
            let left = self.left.saturating_sub(kept);
            if self.is_offered(item, piece, PartDetail::Lines)
                && self.is_likely(step, left)
                && self.cost(step) <= left
            {
                self.buy(step);
            }
        }
    }

    fn buy_deepest(&mut self, item: usize, piece: usize) {
        for showing in [PartDetail::Lines, PartDetail::Described, PartDetail::Signature, PartDetail::Name] {
            if self.is_offered(item, piece, showing) && self.buy(PackStep::Show { item, piece, showing }) {
                return;
            }
        }
    }

    /// Offers what can be bought first of each file.
    fn open(&mut self) {
        for item in 0..self.items.len() {
            if !self.may_buy(item) {
                continue;
            }
            if self.was_listed[item] || self.files[item].is_ok() {
                self.offer_pieces(item);
            } else {
                let cost = nonzero(self.items[item].listed.cost);
                self.offer(PackStep::List { item }, 0, LISTING / cost);
            }
        }
    }

    fn offer_pieces(&mut self, item: usize) {
        for piece in 0..self.items[item].pieces.len() {
            self.offer_next(item, piece, None);
        }
    }

    /// Offers what comes after `shown`: of nothing the signature, of that what is said about it and all
    /// lines.
    fn offer_next(&mut self, item: usize, piece: usize, shown: Option<PartDetail>) {
        let next: &[PartDetail] = match shown {
            None if self.is_offered(item, piece, PartDetail::Signature) => &[PartDetail::Signature],
            None if self.is_offered(item, piece, PartDetail::Name) => &[PartDetail::Name],
            None => &[PartDetail::Lines],
            Some(PartDetail::Signature) => &[PartDetail::Described, PartDetail::Lines],
            Some(PartDetail::Name | PartDetail::Described | PartDetail::Lines) => &[],
        };
        for showing in next {
            if self.is_offered(item, piece, *showing) {
                self.offer_piece(item, piece, *showing);
            }
        }
    }

    fn offer_piece(&mut self, item: usize, piece: usize, showing: PartDetail) {
        let part = &self.items[item].pieces[piece];
        let share = f64::from(part.score);
        // That a part is there is worth knowing of more of them than their lines are.
        let share = if showing == PartDetail::Lines { share * share } else { share * share.sqrt() };
        let worth = PART_MIN + (1.0 - PART_MIN) * share;
        let step = PackStep::Show { item, piece, showing };
        let cost = nonzero(self.guess(step));
        let value = match showing {
            PartDetail::Lines if part.is_head => FULL * worth / cost,
            PartDetail::Lines => FULL * worth / cost.sqrt(),
            PartDetail::Described => DESCRIBED * worth / cost,
            PartDetail::Name | PartDetail::Signature => SIGNATURE * worth / cost,
        };
        self.offer(step, part.from, value);
    }

    fn offer(&mut self, step: PackStep, line: u32, value: f64) {
        let item = step.item();
        let density = f64::from(self.items[item].score).powf(SCORE_POWER) * value;
        self.heap.push(PackCandidate { density, item, line, step });
    }

    /// Returns whether this detail shows more of a part, is allowed, and was not shown before.
    fn is_offered(&self, item: usize, piece: usize, showing: PartDetail) -> bool {
        let part = &self.items[item].pieces[piece];
        let is_more = match &self.files[item] {
            Ok(bought) => bought.pieces[piece].is_none_or(|has| showing > has),
            Err(_) => true,
        };
        let depth = showing.depth();
        is_more
            && depth <= self.request.depth
            && self.items[item].has_detail(part, showing)
            && !self.was_shown(item, part, depth)
    }

    fn was_shown(&self, item: usize, part: &ItemPart, depth: Depth) -> bool {
        self.request.shown.iter().any(|shown| {
            let covers = match shown.place.span {
                Some((from, to)) => from <= part.from && part.to <= to,
                None => shown.depth == Depth::Full,
            };
            covers && shown.depth >= depth && is_of(shown, &self.items[item])
        })
    }

    /// Buys the step, or a cheaper one in its place, and offers what it opens.
    fn consider(&mut self, offer: &PackCandidate) {
        let is_bought = self.buy_likely(offer.step);
        match (offer.step, is_bought) {
            (PackStep::List { item }, true) => self.offer_pieces(item),
            (PackStep::Show { item, piece, showing }, true) => self.offer_next(item, piece, Some(showing)),
            (PackStep::Show { item, piece, showing: PartDetail::Signature }, false) => {
                if self.is_offered(item, piece, PartDetail::Name) {
                    self.buy_likely(PackStep::Show { item, piece, showing: PartDetail::Name });
                }
            }
            (PackStep::List { .. } | PackStep::Show { .. }, false) => {}
        }
    }

    /// Returns the tokens that a step adds to the cost of the text; 0 if it would reduce it.
    fn cost(&self, step: PackStep) -> u64 {
        self.added(step, |item, piece, showing| item.part_cost(piece, showing, self.request.counter))
    }

    /// About the same, without counting.
    fn guess(&self, step: PackStep) -> u64 {
        self.added(step, ContextItem::guess_cost)
    }

    fn added(&self, step: PackStep, cost: impl Fn(&ContextItem, &ItemPart, PartDetail) -> u64) -> u64 {
        let item = &self.items[step.item()];
        let named = match &self.files[step.item()] {
            Ok(bought) if bought.pieces.iter().any(Option::is_some) => item.header.cost,
            Ok(_) => item.listed.cost,
            Err(_) => 0,
        };
        let PackStep::Show { piece, showing, .. } = step else {
            return item.listed.cost.saturating_sub(named);
        };
        let header = item.header.cost.saturating_sub(named);
        let cost = |showing: PartDetail| cost(item, &item.pieces[piece], showing);
        let has = match &self.files[step.item()] {
            Ok(bought) => bought.pieces[piece].map_or(0, cost),
            Err(_) => 0,
        };
        header + cost(showing).saturating_sub(has)
    }

    fn buy_likely(&mut self, step: PackStep) -> bool {
        self.is_likely(step, self.left) && self.buy(step)
    }

    /// Returns whether a step may cost no more than `left`. Blanks cost next to nothing, so a step that seems
    /// too dear is guessed without them.
    fn is_likely(&self, step: PackStep, left: u64) -> bool {
        let may_fit = |guess: u64| guess / GUESS_TIMES_TOO_MUCH <= left;
        may_fit(self.guess(step)) || may_fit(self.added(step, ContextItem::guess_cost_unindented))
    }

    fn buy(&mut self, step: PackStep) -> bool {
        let has = self.files[step.item()].as_ref().ok().cloned();
        if let (Some(bought), PackStep::Show { piece, showing, .. }) = (&has, step)
            && bought.pieces[piece].is_some_and(|has| has >= showing)
        {
            return false;
        }
        let cost = self.cost(step);
        if cost > self.left {
            return false;
        }
        self.left -= cost;
        apply(&mut self.files, self.items, step);
        self.steps.push(step);
        true
    }

    fn end(self) -> PackResult {
        let mut files = self.files;
        for (at, file) in files.iter_mut().enumerate() {
            if *file == Err(ExclusionReason::Budget) && self.was_listed[at] {
                *file = Err(ExclusionReason::AlreadyShown);
            }
        }
        PackResult { files, cost: self.request.budget - self.left, steps: self.steps }
    }
}

/// Puts down that a step was bought.
fn apply(files: &mut [Result<PackedItem, ExclusionReason>], items: &[ContextItem], step: PackStep) {
    let file = &mut files[step.item()];
    if file.is_err() {
        *file = Ok(PackedItem { pieces: vec![None; items[step.item()].pieces.len()] });
    }
    if let (Ok(bought), PackStep::Show { piece, showing, .. }) = (file, step) {
        bought.pieces[piece] = Some(showing);
    }
}

/// Whole tokens, never nothing: something is divided by it.
fn nonzero(hundredths: u64) -> f64 {
    hundredths.max(1) as f64 / 100.0
}

/// Returns true if what was given before is of this file, as it is now.
pub(crate) fn is_of(shown: &PriorFragment, item: &ContextItem) -> bool {
    let same_place = shown.place.project == item.place.project && shown.place.path == item.place.path;
    same_place && item.hash.is_none_or(|hash| hash == shown.hash)
}

/// Returns for each item whether it is among the best `max_files`: those named explicitly, then by score,
/// then by path.
fn within(items: &[ContextItem], max_files: Option<u32>) -> Vec<bool> {
    let Some(max) = max_files else { return vec![true; items.len()] };
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|one, other| {
        let (one_item, other_item) = (&items[*one], &items[*other]);
        let by_pin = other_item.is_pinned.cmp(&one_item.is_pinned);
        by_pin.then_with(|| other_item.score.total_cmp(&one_item.score)).then(one.cmp(other))
    });
    let mut within = vec![false; items.len()];
    order.into_iter().take(max as usize).for_each(|at| within[at] = true);
    within
}

impl PackResult {
    /// Returns the result of the first `steps` steps alone.
    #[must_use]
    pub fn first(&self, items: &[ContextItem], steps: usize) -> PackResult {
        let mut files: Vec<Result<PackedItem, ExclusionReason>> = self
            .files
            .iter()
            .map(|file| Err(file.as_ref().err().copied().unwrap_or(ExclusionReason::Budget)))
            .collect();
        let kept: Vec<PackStep> = self.steps.iter().copied().take(steps).collect();
        kept.iter().for_each(|step| apply(&mut files, items, *step));
        PackResult { files, cost: self.cost, steps: kept }
    }
}
