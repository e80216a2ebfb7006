//! Files that history connects with the query: commits whose message says the same, files that changed
//! together.
//!
//! # Invariants
//! 1. Only files that are there now are proposed, whatever history names.
//! 2. Sums run from the newest commit to the oldest, project by project.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy, candidates};
use crate::bm25::{QueryTerms, rarity};
use crate::index::CommitFacts;
use crate::request_inputs::{FileIndex, IndexedProject, RequestInputs, best};
use crate::{SearchStrategy, StopCheck, StrategyError};

/// So many commits are a history that can be trusted.
const COMMITS_TRUSTED: f32 = 500.0;
/// The number of commits that are taken for their message.
const MESSAGES_MAX: usize = 50;
/// A message so many commits ago counts three quarters.
const MESSAGE_HALF_LIFE: f32 = 500.0;
/// A change so many commits ago counts half.
const CHANGE_HALF_LIFE: f32 = 700.0;
/// The number of files that match and are looked for in history.
const SEEDS_MAX: usize = 15;
const MESSAGE_SHARE: f32 = 0.7;
const TOGETHER_SHARE: f32 = 0.3;
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Commits between two looks at the stop.
const COMMITS_PER_LOOK: usize = 256;

/// Proposes what was changed for the same reason, or together with what matches.
#[derive(Clone, Debug)]
pub struct TemporalArchaeology {
    pub(super) name: Name,
}

impl SearchStrategy for TemporalArchaeology {
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
        let by_message = share_of_largest(by_message(prepared, stop)?);
        let together = share_of_largest(changed_together(prepared, stop)?);
        let scored = prepared.files().map(|file| {
            let at = file.0 as usize;
            (file, MESSAGE_SHARE * by_message[at] + TOGETHER_SHARE * together[at])
        });
        Ok(candidates(prepared, best(scored, limit)))
    }
}

impl ContextStrategy for TemporalArchaeology {
    fn confidence(&self, prepared: &RequestInputs) -> Confidence {
        let commits: usize = prepared.ground.known.iter().map(|known| commits(known).len()).sum();
        if commits == 0 {
            Confidence::none("there is no history")
        } else if prepared.terms().is_empty() {
            Confidence::none("the query has no words to look for")
        } else {
            Confidence::Of((commits as f32 / COMMITS_TRUSTED).min(1.0))
        }
    }
}

fn commits(known: &IndexedProject) -> &[CommitFacts] {
    known.project.snapshot.commits()
}

/// The files of a commit that may be seen, by its place.
fn files(known: &IndexedProject, commit: usize) -> impl Iterator<Item = FileIndex> {
    let there = known.derived.commit_files(&known.project.snapshot, commit);
    there.iter().filter_map(|place| known.numbers[*place as usize]).map(FileIndex)
}

/// Returns the scores that the best matching messages give to their files.
fn by_message(prepared: &RequestInputs, stop: &StopCheck) -> Result<Vec<f32>, StrategyError> {
    let mut given = vec![0.0; prepared.files_len()];
    for known in &prepared.ground.known {
        let mut matches = message_scores(prepared, commits(known), stop)?;
        matches.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        matches.truncate(MESSAGES_MAX);
        for (at, score) in matches {
            let commit = &commits(known)[at];
            let recent = 0.5 + 0.5 * (-(commit.rank as f32) / MESSAGE_HALF_LIFE).exp2();
            let value = score * recent;
            let each = value * value / (commit.paths.len().max(1) as f32).sqrt();
            files(known, at).for_each(|file| given[file.0 as usize] += each);
        }
    }
    Ok(given)
}

/// BM25 of each commit's message, by its place; only those that hold a word of the query.
fn message_scores(
    prepared: &RequestInputs,
    commits: &[CommitFacts],
    stop: &StopCheck,
) -> Result<Vec<(usize, f32)>, StrategyError> {
    let length = |commit: &CommitFacts| commit.terms.iter().map(|(_, count)| f32::from(*count)).sum::<f32>();
    let average = commits.iter().map(length).sum::<f32>() / commits.len().max(1) as f32;
    let asked = QueryTerms::from_hashes(prepared.terms().iter().map(|term| term.hash));
    let mut holding = vec![0.0_f32; prepared.terms().len()];
    let mut hits: Vec<(usize, Vec<(usize, f32)>)> = Vec::new();
    for (at, commit) in commits.iter().enumerate() {
        if at % COMMITS_PER_LOOK == 0 {
            stop.check()?;
        }
        let mut counts = Vec::new();
        asked.for_common(commit.terms.iter().copied(), |term, count| counts.push((term, f32::from(count))));
        if counts.is_empty() {
            continue;
        }
        counts.sort_by_key(|(term, _)| *term);
        counts.iter().for_each(|(term, _)| holding[*term] += 1.0);
        hits.push((at, counts));
    }
    let all = commits.len() as f32;
    let rarities: Vec<f32> = holding.iter().map(|holding| rarity(all, *holding)).collect();
    let score = |(at, counts): (usize, Vec<(usize, f32)>)| {
        let normal = K1 * (1.0 - B + B * length(&commits[at]) / average.max(1.0));
        let part = |(term, tf): &(usize, f32)| rarities[*term] * tf * (K1 + 1.0) / (tf + normal);
        (at, counts.iter().map(part).sum::<f32>())
    };
    Ok(hits.into_iter().map(score).collect())
}

/// Returns the scores of files that changed together with matching ones, and not by themselves.
fn changed_together(prepared: &RequestInputs, stop: &StopCheck) -> Result<Vec<f32>, StrategyError> {
    let mut seeds = vec![0.0; prepared.files_len()];
    for (file, score) in prepared.best_lexical(SEEDS_MAX) {
        seeds[file.0 as usize] = score;
    }
    let mut together = vec![0.0; prepared.files_len()];
    let mut alone = vec![0.0_f32; prepared.files_len()];
    for known in &prepared.ground.known {
        for (at, commit) in commits(known).iter().enumerate() {
            if at % COMMITS_PER_LOOK == 0 {
                stop.check()?;
            }
            let recent = (-(commit.rank as f32) / CHANGE_HALF_LIFE).exp2();
            let changed: Vec<FileIndex> = files(known, at).collect();
            let of_seeds: f32 = changed.iter().map(|file| seeds[file.0 as usize]).sum();
            let others = commit.paths.len().saturating_sub(1);
            for file in changed {
                let at = file.0 as usize;
                alone[at] += recent;
                if others > 0 {
                    together[at] += recent * (of_seeds - seeds[at]).max(0.0) / others as f32;
                }
            }
        }
    }
    Ok(together.iter().zip(&alone).map(|(together, alone)| together / (1.0 + alone).sqrt()).collect())
}

fn share_of_largest(scores: Vec<f32>) -> Vec<f32> {
    let largest = scores.iter().copied().fold(0.0, f32::max);
    if largest > 0.0 { scores.into_iter().map(|score| score / largest).collect() } else { scores }
}
