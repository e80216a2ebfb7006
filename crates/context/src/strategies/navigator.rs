//! Finds files that are a few references away from files that match or are named.
//!
//! # Invariants
//! 1. Sums run in the order of the files: equal input, equal scores.
//! 2. A file that is more than `breadth` hops from every seed scores 0.
//!
//! # Not here
//! The references: they follow from the snapshot alone and are built once for it.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy, candidates};
use crate::request_inputs::{FileIndex, RequestInputs, best};
use crate::{SearchStrategy, StopCheck, StrategyError};

/// The number of files that match and are started from.
const SEEDS_MAX: usize = 20;
/// Named files weigh so much more than the best match.
const NAMED_COUNTS: f32 = 2.0;
/// The probability that a walk restarts.
const RESTART: f32 = 0.5;
const ROUNDS_MAX: usize = 30;
/// The walk has settled when all files together changed by less. Half of what is left moves each round, and
/// only the order of the best is asked for.
const SETTLED: f32 = 0.01;
/// The walk does not continue from a file with less probability than this.
const NEGLIGIBLE: f32 = 1e-4;
/// Files between two looks at the stop.
const FILES_PER_LOOK: usize = 512;

/// Proposes files that are referred to, by a walk that returns to its seeds again and again.
#[derive(Clone, Debug)]
pub struct BreadthDepthNavigator {
    pub(super) name: Name,
}

impl SearchStrategy for BreadthDepthNavigator {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(
        &self,
        prepared: &RequestInputs,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Candidate>, StrategyError> {
        stop.check()?;
        let Some(seeds) = seeds(prepared) else {
            return Ok(Vec::new());
        };
        let reach = reach(prepared, &seeds, stop)?;
        let ranks = walk(prepared, &seeds, &reach, stop)?;
        let ranked = prepared.files().map(|file| (file, ranks[file.0 as usize]));
        Ok(candidates(prepared, best(ranked, limit)))
    }
}

impl ContextStrategy for BreadthDepthNavigator {
    fn confidence(&self, prepared: &RequestInputs) -> Confidence {
        if prepared.files_len() == 0 {
            Confidence::none("there are no files")
        } else if prepared.has_hits() || !prepared.anchors().is_empty() {
            Confidence::Of(1.0)
        } else {
            Confidence::Of(0.5)
        }
    }
}

/// Returns the starting distribution of the walk, summing to 1; uniform without query and focus. `None` if
/// there are no files.
fn seeds(prepared: &RequestInputs) -> Option<Vec<f32>> {
    let mut seeds = vec![0.0; prepared.files_len()];
    let mut largest = 0.0_f32;
    for (file, score) in prepared.best_lexical(SEEDS_MAX) {
        seeds[file.0 as usize] = score * score;
        largest = largest.max(score * score);
    }
    let named = if largest > 0.0 { NAMED_COUNTS * largest } else { 1.0 };
    for anchor in prepared.anchors() {
        seeds[anchor.file.0 as usize] = named;
    }
    let sum: f32 = seeds.iter().sum();
    if seeds.is_empty() {
        None
    } else if sum > 0.0 {
        Some(seeds.into_iter().map(|seed| seed / sum).collect())
    } else {
        Some(vec![1.0 / seeds.len() as f32; seeds.len()])
    }
}

/// Returns for each file whether it is at most `breadth` hops from a seed.
fn reach(prepared: &RequestInputs, seeds: &[f32], stop: &StopCheck) -> Result<Vec<bool>, StrategyError> {
    let mut reached: Vec<bool> = seeds.iter().map(|seed| *seed > 0.0).collect();
    let mut edge: Vec<FileIndex> = prepared.files().filter(|file| reached[file.0 as usize]).collect();
    for _ in 0..prepared.breadth() {
        let mut next = Vec::new();
        for (at, file) in edge.into_iter().enumerate() {
            if at % FILES_PER_LOOK == 0 {
                stop.check()?;
            }
            for_edges(prepared, file, |to, _| {
                if !std::mem::replace(&mut reached[to.0 as usize], true) {
                    next.push(to);
                }
            });
        }
        edge = next;
    }
    Ok(reached)
}

/// Returns the probability of each file once the walk has settled.
fn walk(
    prepared: &RequestInputs,
    seeds: &[f32],
    reach: &[bool],
    stop: &StopCheck,
) -> Result<Vec<f32>, StrategyError> {
    let within: Vec<FileIndex> = prepared.files().filter(|file| reach[file.0 as usize]).collect();
    // The sum of the references that lead away from a file, computed when the walk first reaches it.
    let mut away: Vec<Option<f32>> = vec![None; seeds.len()];
    let mut ranks = seeds.to_vec();
    for _ in 0..ROUNDS_MAX {
        let mut next: Vec<f32> = seeds.iter().map(|seed| seed * RESTART).collect();
        let mut dangling = 0.0;
        for (at, file) in within.iter().enumerate() {
            if at % FILES_PER_LOOK == 0 {
                stop.check()?;
            }
            let rank = ranks[file.0 as usize];
            if rank < NEGLIGIBLE {
                continue;
            }
            let out = *away[file.0 as usize].get_or_insert_with(|| {
                let mut sum = 0.0;
                for_edges(prepared, *file, |to, weight| {
                    sum += if reach[to.0 as usize] { weight } else { 0.0 }
                });
                sum
            });
            if out <= 0.0 {
                dangling += rank;
                continue;
            }
            for_edges(prepared, *file, |to, weight| {
                if reach[to.0 as usize] {
                    next[to.0 as usize] += (1.0 - RESTART) * rank * weight / out;
                }
            });
        }
        let returned = (1.0 - RESTART) * dangling;
        next.iter_mut().zip(seeds).for_each(|(rank, seed)| *rank += returned * seed);
        let change: f32 = next.iter().zip(&ranks).map(|(new, old)| (new - old).abs()).sum();
        ranks = next;
        if change < SETTLED {
            break;
        }
    }
    Ok(ranks)
}

/// The references of a file, to those that may be seen.
fn for_edges(prepared: &RequestInputs, file: FileIndex, mut tell: impl FnMut(FileIndex, f32)) {
    let (known, position) = prepared.ground.files[file.0 as usize];
    let numbers = &prepared.ground.known[known as usize].numbers;
    for (to, weight) in prepared.graph(known as usize).edges(position) {
        if let Some(number) = numbers[to as usize] {
            tell(FileIndex(number), weight);
        }
    }
}
