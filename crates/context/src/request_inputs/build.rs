//! Makes what all strategies of one request read.
//!
//! # Invariants
//! 1. Every file is scored by its words; the best are scored by their parts too, as the index has stored
//!    them. Only files whose parts it does not have are read, as far as there is time.
//! 2. The score of a file depends on the snapshot and the query only, and, if time was short, on which were
//!    read.
//!
//! # Not here
//! Proposing anything: the strategies.

use std::sync::Arc;

use domain::context::{ContextRequest, Focus, ProjectIndex};
use domain::{Hash, RelPath, is_of_no_project};

use super::{FileIndex, RequestInputs, VisibleFiles, best};
use crate::bm25::{LexicalQuery, lexical};
use crate::file_reader::FileReader;
use crate::focus::{mentions, resolve};
use crate::index::terms::query_terms;
use crate::index::{ContentParts, File, Language, PathOnly, Scanner, is_secret};
use crate::parallel_map::in_parallel_with;
use crate::part_scorer::{PartScorer, WordTerms};
use crate::snapshot_stats::SnapshotCache;
use crate::{Error, IndexedRoot, OpenedProjects, StopCheck, ViewFilter, ViewRules};

/// One file for so many tokens is scored by its parts: more than could be shown, since a part may lift any of
/// them.
const TOKENS_PER_RANKED: usize = 12;
const RANKED_MIN: usize = 80;
/// The number of files that are scored by their parts at most.
const RANKED_MAX: usize = 120;
/// The weight of a file's best parts, relative to the whole file.
const PARTS_COUNT: f32 = 1.5;
/// The weight of a file's second part, relative to the best.
const SECOND_PART: f32 = 0.3;
/// No index looks into larger files.
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
const FILES_AT_A_TIME: usize = 4;

/// Reads what a request needs to be answered. `query` is the request's, cut to its bound; `tokens` are those
/// for files.
pub(crate) fn prepare(
    request: &ContextRequest,
    query: &str,
    opened: &OpenedProjects,
    rules: &ViewRules,
    tokens: u32,
    cache: &SnapshotCache,
    stop: &StopCheck,
) -> Result<RequestInputs, Error> {
    let mut known = Vec::new();
    for project in &opened.projects {
        let project = with_focus(project, &request.focus);
        let own = project.views.resolve(request.view);
        let filter = ViewFilter::compile(&[rules, &own])?;
        let derived = cache.of(&project.snapshot);
        known.push((project, derived, filter));
    }
    let ground = VisibleFiles::new(known);
    let mut anchors = resolve(&ground, &request.focus)?;
    let fields = |file: usize| ground.fields(FileIndex(file as u32));
    let LexicalQuery { terms, scores } = lexical(query_terms(query), ground.files.len(), fields);
    for mention in mentions(&ground, query) {
        if !anchors.iter().any(|anchor| anchor.file == mention.file && anchor.span == mention.span) {
            anchors.push(mention);
        }
    }
    let max_kb = rules.max_file_kb.map_or(FILE_BYTES_MAX, |kb| kb as usize * 1024);
    let mut prepared = RequestInputs {
        ground,
        terms,
        lexical: scores,
        anchors,
        asks_for_tests: speaks_of_tests(query),
        breadth: request.breadth.min(domain::context::BREADTH_MAX),
        plan: request.plan.clone(),
        max_file_bytes: max_kb.min(FILE_BYTES_MAX),
        readings: FileReader::default(),
        is_named: request.only.clone(),
    };
    prepared.lexical = with_parts(&prepared, tokens, stop);
    Ok(prepared)
}

fn files_ranked(tokens: u32) -> usize {
    (tokens as usize / TOKENS_PER_RANKED).clamp(RANKED_MIN, RANKED_MAX)
}

fn speaks_of_tests(query: &str) -> bool {
    let mut words = query.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.any(|word| ["test", "tests", "testing"].iter().any(|said| word.eq_ignore_ascii_case(said)))
}

/// A project whose snapshot also has the files that the request names: some may be ignored by git.
fn with_focus(project: &IndexedRoot, focus: &[Focus]) -> IndexedRoot {
    let named = |focus: &Focus| -> Option<(ProjectIndex, RelPath)> {
        match focus {
            Focus::Path(no, path) | Focus::Lines(no, path, ..) => Some((*no, path.clone())),
            Focus::Symbol(_) => None,
        }
    };
    let missing = focus
        .iter()
        .filter_map(named)
        .filter(|(no, path)| *no == project.no && project.snapshot.position(path).is_none())
        .filter(|(_, path)| !is_of_no_project(path));
    let mut scanner = Scanner::default();
    let mut joined = Vec::new();
    for (_, path) in missing {
        if is_secret(&path) {
            if project.source.is_there(&path) {
                joined.push((path.clone(), Some(File::unread(path, 0, PathOnly::Secret))));
            }
        } else if let Ok(bytes) = project.source.read(&path, FILE_BYTES_MAX) {
            let file = File::from_bytes(path.clone(), &bytes, FILE_BYTES_MAX as u64, &mut scanner);
            joined.push((path, Some(file)));
        }
    }
    if joined.is_empty() {
        return project.clone();
    }
    IndexedRoot { snapshot: Arc::new(project.snapshot.with_changes(joined)), ..project.clone() }
}

/// The share of the largest score, and for the best files that of their best parts.
fn with_parts(prepared: &RequestInputs, tokens: u32, stop: &StopCheck) -> Vec<f32> {
    let largest = prepared.lexical.iter().copied().fold(0.0, f32::max);
    if largest <= 0.0 {
        return prepared.lexical.clone();
    }
    let ranked = best(prepared.files().map(|file| (file, prepared.lexical(file))), files_ranked(tokens));
    let ranked: Vec<FileIndex> = ranked.into_iter().map(|(file, _)| file).collect();
    let of_parts = part_scores(prepared, &ranked, stop);
    let best_part = of_parts.iter().copied().fold(0.0, f32::max);
    let mut scores: Vec<f32> = prepared.lexical.iter().map(|score| score / largest).collect();
    if best_part > 0.0 {
        for (file, of_parts) in ranked.iter().zip(&of_parts) {
            scores[file.0 as usize] += PARTS_COUNT * of_parts / best_part;
        }
    }
    scores
}

/// Returns the score of each file's best parts; 0 if there is no time for them, or they cannot be known.
fn part_scores(prepared: &RequestInputs, files: &[FileIndex], stop: &StopCheck) -> Vec<f32> {
    let weigher = PartScorer::new(&prepared.terms);
    let kept = kept_parts(prepared, files, stop);
    let scored = in_parallel_with(files.len(), FILES_AT_A_TIME, Default::default, |memory, at| {
        let (words, scanner): &mut (WordTerms, Scanner) = memory;
        if let Some(parts) = &kept[at] {
            let defs = prepared.file(files[at]).facts.defs();
            return (top_two(&weigher.part_scores(parts, defs, words)), None);
        }
        if stop.should_stop() {
            return (0.0, None);
        }
        match prepared.reading(files[at]) {
            Ok(read) => {
                let (facts, parts) = scanner.scan_parts(read.facts.language, read.bytes());
                let score = top_two(&weigher.part_scores(&parts, facts.defs(), words));
                (score, Some((read.hash, facts.language, parts)))
            }
            Err(_) => (0.0, None),
        }
    });
    let (scores, found): (Vec<f32>, Vec<_>) = scored.into_iter().unzip();
    keep_parts(prepared, files, found);
    scores
}

/// Returns the parts of files that their projects have stored.
fn kept_parts(prepared: &RequestInputs, files: &[FileIndex], stop: &StopCheck) -> Vec<Option<ContentParts>> {
    let mut kept = vec![None; files.len()];
    for (number, known) in prepared.ground.known.iter().enumerate() {
        let of_project = files.iter().enumerate().filter_map(|(at, file)| {
            let is_here = prepared.ground.files[file.0 as usize].0 as usize == number;
            let file = prepared.file(*file);
            let may_be_read =
                file.path_only.is_none() && file.facts.bytes as usize <= prepared.max_file_bytes;
            (is_here && may_be_read).then_some((at, (file.hash?, file.facts.language)))
        });
        let (places, contents): (Vec<usize>, Vec<_>) = of_project.unzip();
        let parts = known.project.source.parts(&contents, stop);
        places.into_iter().zip(parts).for_each(|(at, parts)| kept[at] = parts);
    }
    kept
}

/// Has the projects keep the parts that were found, for the next who asks.
fn keep_parts(
    prepared: &RequestInputs,
    files: &[FileIndex],
    found: Vec<Option<(Hash, Language, ContentParts)>>,
) {
    let mut of_projects = vec![Vec::new(); prepared.ground.known.len()];
    for (file, found) in files.iter().zip(found) {
        of_projects[prepared.ground.files[file.0 as usize].0 as usize].extend(found);
    }
    for (known, found) in prepared.ground.known.iter().zip(of_projects) {
        if !found.is_empty() {
            known.project.source.keep_parts(&found);
        }
    }
}

fn top_two(scores: &[f32]) -> f32 {
    let (mut first, mut second) = (0.0_f32, 0.0_f32);
    for score in scores {
        if *score > first {
            (first, second) = (*score, first);
        } else {
            second = second.max(*score);
        }
    }
    first + SECOND_PART * second
}
