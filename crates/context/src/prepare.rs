//! Makes what all strategies of one request read.
//!
//! # Invariants
//! 1. Every file is scored by its words; the best are read and scored by their parts too, as far as there is time.
//! 2. The score of a file depends on the snapshot and the query only, and, if time was short, on which were read.
//!
//! # Not here
//! Proposing anything: the strategies.

use std::sync::Arc;

use domain::RelPath;
use domain::context::{ContextRequest, Focus, ProjectNo};

use crate::derived::SnapshotCache;
use crate::focus::{mentions, resolve};
use crate::index::terms::query_terms;
use crate::index::{File, PathOnly, Scanner, is_of_no_project, is_secret};
use crate::lexical::{Fields, Lexical, lexical};
use crate::parallel::in_parallel_with;
use crate::prepared::{FileNo, Ground, Prepared, best};
use crate::reading::{ReadFile, Readings};
use crate::weigh::{Stretch, Weigher, Words};
use crate::{Error, Filter, Opened, Project, Stop, ViewRules};

/// How many files are scored by their parts.
const READ_MAX: usize = 120;
/// What the best parts of a file count for beside all of it.
const PARTS_COUNT: f32 = 1.5;
/// What the second part of a file counts for beside the best.
const SECOND_PART: f32 = 0.3;
/// No index looks into larger files.
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
const FILES_AT_A_TIME: usize = 4;

/// Reads what a request needs to be answered. `query` is the request's, cut to its bound.
pub(crate) fn prepare(
    request: &ContextRequest,
    query: &str,
    opened: &Opened,
    rules: &ViewRules,
    cache: &SnapshotCache,
    stop: &Stop,
) -> Result<Prepared, Error> {
    let mut known = Vec::new();
    for project in &opened.projects {
        let project = with_focus(project, &request.focus);
        let own = project.views.resolve(request.view);
        let filter = Filter::compile(&[rules, &own])?;
        let derived = cache.of(&project.snapshot);
        known.push((project, derived, filter));
    }
    let ground = Ground::new(known);
    let mut anchors = resolve(&ground, &request.focus)?;
    let fields = |file: usize| {
        let file = FileNo(file as u32);
        Fields { facts: &ground.file(file).facts, path_terms: ground.path_terms(file) }
    };
    let Lexical { terms, scores } = lexical(query_terms(query), ground.files.len(), fields);
    for mention in mentions(&ground, query) {
        if !anchors.iter().any(|anchor| anchor.file == mention.file && anchor.span == mention.span) {
            anchors.push(mention);
        }
    }
    let max_kb = rules.max_file_kb.map_or(FILE_BYTES_MAX, |kb| kb as usize * 1024);
    let mut prepared = Prepared {
        ground,
        terms,
        lexical: scores,
        anchors,
        asks_for_tests: speaks_of_tests(query),
        breadth: request.breadth.min(domain::context::BREADTH_MAX),
        plan: request.plan.clone(),
        max_file_bytes: max_kb.min(FILE_BYTES_MAX),
        readings: Readings::default(),
        is_named: request.only.clone(),
    };
    prepared.lexical = with_parts(&prepared, stop);
    Ok(prepared)
}

fn speaks_of_tests(query: &str) -> bool {
    let mut words = query.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.any(|word| ["test", "tests", "testing"].iter().any(|said| word.eq_ignore_ascii_case(said)))
}

/// A project whose snapshot also has the files that the request names: some may be ignored by git.
fn with_focus(project: &Project, focus: &[Focus]) -> Project {
    let named = |focus: &Focus| -> Option<(ProjectNo, RelPath)> {
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
            let file = File::of(path.clone(), &bytes, FILE_BYTES_MAX as u64, &mut scanner);
            joined.push((path, Some(file)));
        }
    }
    if joined.is_empty() {
        return project.clone();
    }
    Project { snapshot: Arc::new(project.snapshot.with_changes(joined)), ..project.clone() }
}

/// The share of the largest score, and for the best files that of their best parts.
fn with_parts(prepared: &Prepared, stop: &Stop) -> Vec<f32> {
    let largest = prepared.lexical.iter().copied().fold(0.0, f32::max);
    if largest <= 0.0 {
        return prepared.lexical.clone();
    }
    let to_read = best(prepared.files().map(|file| (file, prepared.lexical(file))), READ_MAX);
    let weigher = Weigher::new(&prepared.terms);
    let of_parts = in_parallel_with(to_read.len(), FILES_AT_A_TIME, Words::default, |words, at| {
        if stop.should_stop() {
            return 0.0;
        }
        match prepared.reading(to_read[at].0) {
            Ok(read) => top_two(&part_scores(&weigher, words, &read)),
            Err(_) => 0.0,
        }
    });
    let best_part = of_parts.iter().copied().fold(0.0, f32::max);
    let mut scores: Vec<f32> = prepared.lexical.iter().map(|score| score / largest).collect();
    if best_part > 0.0 {
        for ((file, _), of_parts) in to_read.iter().zip(&of_parts) {
            scores[file.0 as usize] += PARTS_COUNT * of_parts / best_part;
        }
    }
    scores
}

/// The scores of the scanner's parts of a file.
fn part_scores(weigher: &Weigher<'_>, words: &mut Words, read: &ReadFile) -> Vec<f32> {
    let stretches: Vec<Stretch<'_>> = read
        .spans
        .iter()
        .map(|span| Stretch {
            from: span.from,
            to: span.to,
            name: span.def.and_then(|def| read.facts.defs.get(def)).map(|def| &*def.name),
        })
        .collect();
    weigher.scores(read.met(weigher, words), &stretches)
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
