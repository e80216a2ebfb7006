//! Stages 8 to 10: from what was bought to the text, until the tokens are spent.
//!
//! # How the tokens are spent
//! The packer sums lines, which is never less than a text costs and often more. Parts that touch share one
//! line of numbers, empty lines next to others cost nothing, and the preamble seldom takes all of its
//! reserve. So the tokens that are still free once the text is counted go to the packer again. If that was
//! too much, the latest steps are undone.
//!
//! # Invariants
//! 1. The text costs at most the request's tokens, by the counter's own count of all of it.
//! 2. Nothing is decided by time: equal items and budget, equal text.

use std::collections::BTreeSet;

use domain::context::{Candidate, ContextRequest, FileLocation, Fragment, Name};

use super::{PackedFiles, Pipeline, PipelineParts, StrategyResults};
use crate::render::fragments;
use crate::request_inputs::RequestInputs;
use crate::stages::{PackRequest, PackResult, PreambleFacts};
use crate::{OpenedProjects, Split, StrategyRun};

/// The number of times that free tokens are spent: each time a tenth of them stays, about.
const FILLS_MAX: usize = 3;
/// Fewer tokens buy nothing.
const FREE_MIN: u32 = 8;

/// The inputs of the written text.
pub(super) struct TextWriter<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) request: &'a ContextRequest,
    pub(super) prepared: &'a RequestInputs,
    pub(super) opened: &'a OpenedProjects,
    pub(super) split: &'a Split,
    pub(super) found: &'a StrategyResults,
}

/// The packed files as text.
pub(super) struct WrittenContext {
    pub(super) preamble: String,
    pub(super) fragments: Vec<Fragment>,
    pub(super) skeleton: String,
    pub(super) order: Vec<usize>,
}

impl WrittenContext {
    pub(super) fn text(&self) -> String {
        let fragments = self.fragments.iter().map(|fragment| fragment.text.as_str());
        std::iter::once(self.preamble.as_str()).chain(fragments).chain([self.skeleton.as_str()]).collect()
    }

    fn nothing() -> WrittenContext {
        let nothing = String::new();
        WrittenContext {
            preamble: nothing.clone(),
            fragments: Vec::new(),
            skeleton: nothing,
            order: Vec::new(),
        }
    }
}

impl TextWriter<'_> {
    /// The text of what was bought, and of what is bought with the tokens that are free.
    pub(super) fn write(&self, mut shelf: PackedFiles) -> (WrittenContext, PackedFiles) {
        let mut written = self.write_once(&shelf, &shelf.packed);
        for _ in 0..FILLS_MAX {
            let free = self.split.total.saturating_sub(self.tokens(&written));
            if free < FREE_MIN {
                break;
            }
            let packed = self.pack(&shelf, shelf.packed.cost + self.worth(free, shelf.packed.cost));
            if packed.steps == shelf.packed.steps {
                break;
            }
            shelf.packed = packed;
            written = self.write_once(&shelf, &shelf.packed);
        }
        if self.fits(&written) { (written, shelf) } else { self.undo(shelf) }
    }

    /// Converts free tokens into the packer's sum, which was `cost` for the others; a little less, so that
    /// seldom anything has to be undone.
    fn worth(&self, free: u32, cost: u64) -> u64 {
        let used = u64::from(self.split.total - free).max(1);
        let (free, least) = (u64::from(free), u64::from(free) * 100);
        (free * cost / used * 9 / 10).max(least)
    }

    fn pack(&self, shelf: &PackedFiles, budget: u64) -> PackResult {
        let ContextRequest { depth, shown, .. } = self.request;
        let (counter, max_files) = (&*self.parts().counter, shelf.max_files);
        let packing = PackRequest { counter, budget, depth: *depth, shown, max_files };
        self.parts().stages.pack.pack(&shelf.items, &packing)
    }

    /// As many of the steps as fit, the first ones.
    fn undo(&self, mut shelf: PackedFiles) -> (WrittenContext, PackedFiles) {
        let (mut fits, mut too_many) = (0, shelf.packed.steps.len());
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            let fewer = shelf.packed.first(&shelf.items, middle);
            if self.fits(&self.write_once(&shelf, &fewer)) { fits = middle } else { too_many = middle }
        }
        shelf.packed = shelf.packed.first(&shelf.items, fits);
        let written = self.write_once(&shelf, &shelf.packed);
        if self.fits(&written) {
            return (written, shelf);
        }
        // Not even the decisions fit: nothing does.
        shelf.packed = shelf.packed.first(&shelf.items, 0);
        shelf.decisions.clear();
        (WrittenContext::nothing(), shelf)
    }

    fn parts(&self) -> &PipelineParts {
        &self.pipeline.parts
    }

    fn tokens(&self, written: &WrittenContext) -> u32 {
        self.parts().counter.tokens(&written.text())
    }

    fn fits(&self, written: &WrittenContext) -> bool {
        self.tokens(written) <= self.split.total
    }

    fn write_once(&self, shelf: &PackedFiles, packed: &PackResult) -> WrittenContext {
        let PipelineParts { stages, counter, .. } = self.parts();
        let counter = &**counter;
        let order = stages.order.order(&shelf.items, packed);
        let mut shown = shelf.decisions.clone();
        for at in &order {
            if let Some(Ok(bought)) = packed.files.get(*at) {
                shown.extend(fragments(&shelf.items[*at], bought, counter));
            }
        }
        let skeleton = self.skeleton(shelf, &order);
        let is_empty = shown.is_empty() && skeleton.is_empty();
        let preamble = if is_empty || self.split.preamble == 0 {
            String::new()
        } else {
            let (used, unused) = used(self.found);
            let facts = PreambleFacts {
                used: &used,
                unused: &unused,
                shown: order.len(),
                left_out: shelf.items.len() - order.len() + shelf.left_out.len(),
                is_partial: self.opened.index.partial,
                can_ask: self.request.can_ask,
            };
            stages.preamble.preamble(&facts, self.split.preamble, counter)
        };
        WrittenContext { preamble, fragments: shown, skeleton, order }
    }

    /// Returns the retained part of the parent plan's context.
    fn skeleton(&self, shelf: &PackedFiles, order: &[usize]) -> String {
        let Some(parent) = self.request.parent.as_ref().filter(|_| self.split.skeleton > 0) else {
            return String::new();
        };
        let here: BTreeSet<FileLocation> = order.iter().map(|at| shelf.items[*at].place.clone()).collect();
        let anchors = self.prepared.anchors().iter();
        let about: Vec<FileLocation> = anchors.map(|anchor| self.prepared.place(anchor.file)).collect();
        let PipelineParts { stages, counter, .. } = self.parts();
        stages.compress.compress(parent, &about, &here, self.split.skeleton, &**counter)
    }
}

/// The strategies that found something, and those that were wanted and did not.
fn used(found: &StrategyResults) -> (Vec<Name>, Vec<Name>) {
    let (used, unused): (Vec<_>, Vec<_>) = found.runs.iter().partition(|run| !run.candidates.is_empty());
    let names = |runs: Vec<&StrategyRun<Candidate>>| runs.into_iter().map(|run| run.name.clone()).collect();
    (names(used), names(unused))
}
