//! Stage 4: merges the candidates of all strategies by file.
//!
//! # Invariants
//! 1. Every distinct file that was proposed is a [`Hit`] or a [`ExcludedFile`].
//! 2. Of several files with one content the one stays that the strategies think most of, then the first by
//!    path.
//! 3. Parts of a hit are in the order of the runs, so sums over them do not depend on who ended first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::context::{Candidate, ExclusionReason, FileLocation};

use super::{ExcludedFile, Hit, SelectedStrategy};
use crate::StrategyRun;
use crate::request_inputs::{FileIndex, PathStatus, RequestInputs};

/// The deduplicated hits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeduplicatedHits {
    /// The files, by number.
    pub hits: Vec<Hit>,
    /// The files that are excluded.
    pub left_out: Vec<ExcludedFile>,
    /// The number of proposals of each run that had no score or no file.
    pub dropped: Vec<u32>,
}

/// Brings together what strategies found.
pub trait FragmentDeduplicator: Send + Sync {
    /// `runs` are those of `selected`, in their order.
    fn deduplicate(
        &self,
        prepared: &RequestInputs,
        selected: &[SelectedStrategy],
        runs: &[StrategyRun<Candidate>],
    ) -> DeduplicatedHits;
}

/// By file, then by the hash of the content.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentHashDeduplicator;

impl FragmentDeduplicator for ContentHashDeduplicator {
    fn deduplicate(
        &self,
        prepared: &RequestInputs,
        selected: &[SelectedStrategy],
        runs: &[StrategyRun<Candidate>],
    ) -> DeduplicatedHits {
        let mut hits: BTreeMap<FileIndex, Hit> = BTreeMap::new();
        let mut outside: BTreeMap<(FileLocation, ExclusionReason), f32> = BTreeMap::new();
        let mut dropped = Vec::with_capacity(runs.len());
        for (selected, run) in selected.iter().zip(runs) {
            let (best, lines, lost) = best_by_file(prepared, run, selected, &mut outside);
            dropped.push(lost);
            let largest = best.values().copied().fold(0.0, f32::max);
            for (file, score) in best {
                let hit = hits.entry(file).or_insert_with(|| bare(file));
                hit.parts.push((
                    selected.name.clone(),
                    selected.confidence * selected.weight,
                    score / largest,
                ));
            }
            for (file, span) in lines {
                if let Some(hit) = hits.get_mut(&file) {
                    hit.lines.push(span);
                }
            }
        }
        for anchor in prepared.anchors().iter().filter(|anchor| anchor.is_pinned) {
            hits.entry(anchor.file).or_insert_with(|| bare(anchor.file));
        }
        let outside =
            outside.into_iter().map(|((place, reason), score)| ExcludedFile { place, reason, score });
        let (hits, twins) = without_twins(prepared, hits.into_values().collect());
        DeduplicatedHits { hits, left_out: outside.chain(twins).collect(), dropped }
    }
}

fn bare(file: FileIndex) -> Hit {
    Hit { file, parts: Vec::new(), lines: Vec::new() }
}

type ProposedLines = Vec<(FileIndex, (u32, u32))>;

/// The best score of a run for each file, the lines it proposed, and how many proposals were of no use.
fn best_by_file(
    prepared: &RequestInputs,
    run: &StrategyRun<Candidate>,
    selected: &SelectedStrategy,
    outside: &mut BTreeMap<(FileLocation, ExclusionReason), f32>,
) -> (BTreeMap<FileIndex, f32>, ProposedLines, u32) {
    let mut best: BTreeMap<FileIndex, f32> = BTreeMap::new();
    let mut lines = Vec::new();
    let mut lost = 0;
    for Candidate { place, score } in &run.candidates {
        if !score.is_finite() || *score <= 0.0 {
            lost += 1;
            continue;
        }
        let reason = match prepared.standing(place.project, &place.path) {
            PathStatus::Seen(file) => {
                let kept = best.entry(file).or_insert(*score);
                *kept = kept.max(*score);
                lines.extend(place.span.map(|span| (file, span)));
                continue;
            }
            PathStatus::LeftOut => ExclusionReason::Policy,
            PathStatus::Outside | PathStatus::NoProject => ExclusionReason::Outside,
        };
        lost += u32::from(reason == ExclusionReason::Outside);
        let file = FileLocation::file(place.project, place.path.clone());
        let worth = selected.confidence * selected.weight;
        let kept = outside.entry((file, reason)).or_insert(worth);
        *kept = kept.max(worth);
    }
    (best, lines, lost)
}

/// Of files with one content only the best.
fn without_twins(prepared: &RequestInputs, hits: Vec<Hit>) -> (Vec<Hit>, Vec<ExcludedFile>) {
    let pinned: BTreeSet<FileIndex> =
        prepared.anchors().iter().filter(|anchor| anchor.is_pinned).map(|anchor| anchor.file).collect();
    // A file that the request names is retained together with its twin.
    let worth = |hit: &Hit| if pinned.contains(&hit.file) { f32::INFINITY } else { hit.fused() };
    let mut best: HashMap<domain::Hash, usize> = HashMap::new();
    let mut is_twin = vec![false; hits.len()];
    for (at, hit) in hits.iter().enumerate() {
        let file = prepared.file(hit.file);
        let Some(hash) = file.hash.filter(|_| file.facts.bytes > 0) else { continue };
        match best.get_mut(&hash) {
            None => {
                best.insert(hash, at);
            }
            Some(kept) if worth(hit) > worth(&hits[*kept]) => {
                is_twin[*kept] = true;
                *kept = at;
            }
            Some(_) if pinned.contains(&hit.file) => {}
            Some(_) => is_twin[at] = true,
        }
    }
    let (twins, kept): (Vec<_>, Vec<_>) = hits.into_iter().zip(is_twin).partition(|(_, is_twin)| *is_twin);
    let left_out = twins.into_iter().map(|(hit, _)| ExcludedFile {
        place: prepared.place(hit.file),
        reason: ExclusionReason::Duplicate,
        score: hit.fused(),
    });
    (kept.into_iter().map(|(hit, _)| hit).collect(), left_out.collect())
}
