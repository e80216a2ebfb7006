//! From a request to a context: the index is brought up to date, the ten stages run, the text is counted, a
//! receipt is written.
//!
//! # Invariants
//! 1. The text costs at most the request's tokens, by the counter's own count of all of it.
//! 2. Equal request, snapshot and runs: equal bytes.
//! 3. A cancel gives no partial context; whatever else goes wrong gives less of it, and a note.
//!
//! # Not here
//! The stages: [`crate::stages`]. The text itself: `write`. Keeping contexts, and telling of breakers: the
//! engine.

mod write;

use std::sync::Arc;

use domain::context::{
    AssembledContext, Candidate, ContextRequest, Depth, FileLocation, Fragment, Name, QUERY_BYTES_MAX,
};
use domain::{Hash, Redactor};
use sync::Clock;

use self::write::TextWriter;
use crate::plan_decisions::decisions;
use crate::receipt_builder::{ReceiptBuilder, receipt};
use crate::request_inputs::RequestInputs;
use crate::request_inputs::build::prepare;
use crate::snapshot_stats::SnapshotCache;
use crate::stages::pack::is_of;
use crate::stages::{
    BudgetShare, ContextItem, DeduplicatedHits, ExcludedFile, PackRequest, PackResult, PartDetail, Stages,
    StrategyPreferences, StrategySelection, TextSettings,
};
use crate::strategies::{ContextStrategy, built_in};
use crate::view::lowest_above_zero;
use crate::{
    Batch, Error, OpenedProjects, PipelineConfig, PipelineConfigError, Projects, Split, StopCause, StopCheck,
    StrategyRun, StrategyTask, TokenCounter, ViewRules, split,
};

/// Everything that a pipeline works with; each part may be shared with others.
#[derive(Clone)]
pub struct PipelineParts {
    /// The settings.
    pub config: PipelineConfig,
    /// The projects that are searched.
    pub projects: Arc<dyn Projects>,
    /// All strategies that there are.
    pub strategies: Vec<Arc<dyn ContextStrategy>>,
    /// The ten stages.
    pub stages: Stages,
    /// The token counter.
    pub counter: Arc<dyn TokenCounter>,
    /// Takes secrets out.
    pub redactor: Arc<Redactor>,
    /// For the deadline of a request.
    pub clock: Arc<dyn Clock>,
    /// Values derived from snapshots; one cache for all pipelines of a process.
    pub cache: Arc<SnapshotCache>,
}

/// Assembles contexts. Holds nothing of a request; shared by any number of threads.
pub struct Pipeline {
    parts: PipelineParts,
}

/// The results of the strategies.
struct StrategyResults {
    selection: StrategySelection,
    shares: Vec<BudgetShare>,
    runs: Vec<StrategyRun<Candidate>>,
    together: DeduplicatedHits,
}

/// The files that can be shown, and the selection that is.
struct PackedFiles {
    items: Vec<ContextItem>,
    left_out: Vec<ExcludedFile>,
    packed: PackResult,
    decisions: Vec<Fragment>,
    max_files: Option<u32>,
}

impl Pipeline {
    /// A pipeline of these parts.
    ///
    /// # Errors
    /// A value of the configuration out of its bounds, or a name in it that no strategy has.
    pub fn new(parts: PipelineParts) -> Result<Pipeline, PipelineConfigError> {
        let known: Vec<Name> = parts.strategies.iter().map(|strategy| strategy.name().clone()).collect();
        let config = parts.config.clone().checked(&known)?;
        Ok(Pipeline { parts: PipelineParts { config, ..parts } })
    }

    /// The strategies that are built in, for [`PipelineParts::strategies`].
    pub fn strategies() -> Vec<Arc<dyn ContextStrategy>> {
        built_in()
    }

    /// Answers a request. Blocks until it is answered or `stop` says so; a deadline makes the answer poorer,
    /// not an error.
    ///
    /// # Errors
    /// Bad input, no project, or a cancel.
    pub fn assemble(&self, request: &ContextRequest, stop: &StopCheck) -> Result<AssembledContext, Error> {
        let stop = &self.until_deadline(request, stop);
        go_on(stop)?;
        let opened = self.parts.projects.open(stop)?;
        if opened.projects.is_empty() {
            return Err(Error::NoProject);
        }
        go_on(stop)?;
        let rules = self.parts.config.views.resolve(request.view);
        let mut notes = opened.notes.clone();
        let query = cut_query(&request.query, &mut notes);
        let split = self.split(request, &opened, &rules);
        let cache = &self.parts.cache;
        let prepared = Arc::new(prepare(request, query, &opened, &rules, split.files, cache, stop)?);
        go_on(stop)?;
        note_emptiness(&prepared, &mut notes);
        let found = self.find(request, &prepared, &opened, &rules, &split, stop)?;
        let shelf = self.pack_files(request, &prepared, &opened, &rules, &split, &found, stop)?;
        let writing = TextWriter {
            pipeline: self,
            request,
            prepared: &prepared,
            opened: &opened,
            split: &split,
            found: &found,
        };
        let (written, shelf) = writing.write(shelf);
        go_on(stop)?;
        note_unshown(request, &shelf, &mut notes);
        let text = written.text();
        let tokens = self.parts.counter.tokens(&text);
        let receipt = receipt(
            &ReceiptBuilder {
                request,
                index: &opened.index,
                split: &split,
                counter: &*self.parts.counter,
                selection: &found.selection,
                shares: &found.shares,
                runs: &found.runs,
                dropped: &found.together.dropped,
                items: &shelf.items,
                packed: &shelf.packed,
                order: &written.order,
                left_out: &shelf.left_out,
                preamble: &written.preamble,
                skeleton: &written.skeleton,
                decisions: &shelf.decisions,
                tokens,
            },
            notes,
        );
        let hash = Hash::from_content(text.as_bytes());
        Ok(AssembledContext { id: request.id, text, tokens, fragments: written.fragments, hash, receipt })
    }

    /// The sooner of the caller's deadline and the request's.
    fn until_deadline(&self, request: &ContextRequest, stop: &StopCheck) -> StopCheck {
        let clock = Arc::clone(&self.parts.clock);
        let left = match (stop.remaining(), request.deadline) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let deadline = left.map(|left| clock.now().saturating_add(left));
        StopCheck::new(stop.observed().clone(), deadline, clock)
    }

    fn split(&self, request: &ContextRequest, opened: &OpenedProjects, rules: &ViewRules) -> Split {
        let own = opened.projects.iter().map(|project| project.views.resolve(request.view).max_tokens);
        let bound = rules.max_tokens.into_iter().chain(own.flatten()).min();
        let max_tokens =
            bound.map_or(self.parts.config.max_tokens, |bound| bound.min(self.parts.config.max_tokens));
        let mut budget = request.budget;
        budget.cap = match (budget.cap, bound) {
            (Some(cap), Some(bound)) => Some(cap.min(bound)),
            (cap, _) => cap,
        };
        let ratio = request.parent.as_ref().map(|_| self.parts.config.skeleton_ratio);
        split(&budget, max_tokens, ratio)
    }

    /// Stages 1 to 4.
    fn find(
        &self,
        request: &ContextRequest,
        prepared: &Arc<RequestInputs>,
        opened: &OpenedProjects,
        rules: &ViewRules,
        split: &Split,
        stop: &StopCheck,
    ) -> Result<StrategyResults, Error> {
        let stages = &self.parts.stages;
        let enabled = enabled(&self.parts.config, request, opened, rules);
        let wanted = StrategyPreferences {
            enabled: &enabled,
            only: &request.only,
            prefer: &request.prefer,
            weights: &self.parts.config.weights,
        };
        let selection = stages.select.select(&self.parts.strategies, prepared, &wanted)?;
        let shares = stages.allocate.allocate(split.files, &selection.selected);
        let task = |(selected, share): (&crate::stages::SelectedStrategy, &BudgetShare)| StrategyTask {
            strategy: Arc::clone(&selected.strategy),
            limit: share.limit,
        };
        let tasks = selection.selected.iter().zip(&shares).map(task).collect();
        let batch = Batch { prepared: Arc::clone(prepared), tasks, stop: stop.clone() };
        let runs = stages.execute.execute(batch).map_err(|cancelled| Error::Cancelled(cancelled.reason))?;
        let together = stages.deduplicate.deduplicate(prepared, &selection.selected, &runs);
        Ok(StrategyResults { selection, shares, runs, together })
    }

    /// Stages 5 to 7.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a request has come to so far; each part is read by one stage"
    )]
    fn pack_files(
        &self,
        request: &ContextRequest,
        prepared: &RequestInputs,
        opened: &OpenedProjects,
        rules: &ViewRules,
        split: &Split,
        found: &StrategyResults,
        stop: &StopCheck,
    ) -> Result<PackedFiles, Error> {
        let PipelineParts { stages, counter, redactor, .. } = &self.parts;
        let means =
            TextSettings { counter: &**counter, redactor, tokens: split.files, shown: &request.shown };
        let hits = found.together.hits.clone();
        let resolved = stages.depth.resolve(prepared, hits, &means, stop);
        go_on(stop)?;
        let mut items = resolved.items;
        stages.score.score(prepared, &mut items);
        let facts = prepared.plan().map_or(&[][..], |plan| &plan.decisions);
        let (decisions, spent) = decisions(facts, split.files, &**counter);
        let own = opened.projects.iter().map(|project| project.views.resolve(request.view).max_files);
        let max_files = lowest_above_zero(std::iter::once(rules.max_files).chain(own));
        let budget = (u64::from(split.files) * 100).saturating_sub(spent);
        let (depth, shown) = (request.depth, &request.shown);
        let packing = PackRequest { counter: &**counter, budget, depth, shown, max_files };
        let packed = stages.pack.pack(&items, &packing);
        let left_out = found.together.left_out.iter().cloned().chain(resolved.left_out).collect();
        Ok(PackedFiles { items, left_out, packed, decisions, max_files })
    }
}

/// `Err` once the request was called off. A deadline is no reason to stop: what there is by then is given.
fn go_on(stop: &StopCheck) -> Result<(), Error> {
    match stop.check() {
        Err(StopCause::Cancelled(reason)) => Err(Error::Cancelled(reason)),
        Err(StopCause::DeadlinePassed) | Ok(()) => Ok(()),
    }
}

/// The query within its bound, without cutting a character.
fn cut_query<'a>(query: &'a str, notes: &mut Vec<String>) -> &'a str {
    if query.len() <= QUERY_BYTES_MAX {
        return query;
    }
    let mut end = QUERY_BYTES_MAX;
    while !query.is_char_boundary(end) {
        end -= 1;
    }
    notes.push(format!("the query has {} bytes and was cut to {end}", query.len()));
    &query[..end]
}

fn note_emptiness(prepared: &RequestInputs, notes: &mut Vec<String>) {
    if prepared.files_len() == 0 {
        notes.push("there are no files that may be seen".to_owned());
    } else if prepared.files().all(|file| prepared.file(file).path_only.is_some()) {
        notes.push("there are no files that can be read as text".to_owned());
    } else if !prepared.terms().is_empty() && !prepared.has_hits() {
        notes.push("no file holds a word of the query".to_owned());
    }
}

/// Notes which of the lines that are named for sure are not shown for lack of tokens, and which files because
/// of their kind.
fn note_unshown(request: &ContextRequest, shelf: &PackedFiles, notes: &mut Vec<String>) {
    if request.depth < Depth::Full {
        return;
    }
    let mut unshown: Vec<(&FileLocation, u32, u32)> = Vec::new();
    for (item, bought) in shelf.items.iter().zip(&shelf.packed.files) {
        if let Some(reason) = item.only_listed.filter(|_| item.is_pinned) {
            notes.push(format!("`{}` is not shown: {reason}", item.place.path));
        }
        let (is_whole, mut too_many) = (item.is_named_whole(), 0);
        let named = item.pieces.iter().enumerate().filter(|(_, piece)| is_whole || piece.is_pinned);
        for (at, piece) in named {
            let is_shown = bought.as_ref().is_ok_and(|bought| bought.pieces[at] == Some(PartDetail::Lines));
            let was_shown = request.shown.iter().any(|shown| {
                let covers = shown.place.span.is_none_or(|(from, to)| from <= piece.from && piece.to <= to);
                covers && shown.depth == Depth::Full && is_of(shown, item)
            });
            match unshown.last_mut() {
                _ if is_shown || was_shown => {}
                _ if is_whole => too_many += piece.to + 1 - piece.from,
                Some((place, _, to)) if **place == item.place && *to + 1 == piece.from => *to = piece.to,
                Some(_) | None => unshown.push((&item.place, piece.from, piece.to)),
            }
        }
        if too_many > 0 {
            let (all, path) = (item.lines.len(), &item.place.path);
            notes.push(format!("there are too few tokens for {too_many} of the {all} lines of {path}"));
        }
    }
    notes.extend(unshown.into_iter().map(|(place, from, to)| {
        format!("there are too few tokens for lines {from}-{to} of {}", place.path)
    }));
}

/// Returns the strategies that the view, or else the configuration, enables and no project disables.
fn enabled(
    config: &PipelineConfig,
    request: &ContextRequest,
    opened: &OpenedProjects,
    rules: &ViewRules,
) -> Vec<Name> {
    let mut enabled = rules.strategies.clone().unwrap_or_else(|| config.strategies.clone());
    for project in &opened.projects {
        if let Some(own) = project.views.resolve(request.view).strategies {
            enabled.retain(|name| own.contains(name));
        }
    }
    enabled
}
