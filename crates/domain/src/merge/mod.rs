//! Three-way merge of a plan's changes into the files as they are now.
//!
//! [`merge_file`] decides from states alone what happens to a file; where it says
//! [`MergeLines`](FileMerge::MergeLines), [`merge`] does it on the contents. An undo is the same
//! with the states before and after exchanged.
//!
//! # Invariants
//! 1. `merge(b, b, p)` is `p`; `merge(b, n, b)` and `merge(b, x, x)` change nothing.
//! 2. The result does not depend on which side is called "now" and which "plan".
//! 3. Each line of a merged text is a line of `now` or of `plan`, whole: lines are never joined nor cut.
//!
//! # Not here
//! Reading the files, and writing the result: the journal.

mod conflict;
mod file;
mod ranges;

use std::ops::Range;

use crate::diff::lines::{LineChange, line_changes, lines_in, push_lines, split_lines};

pub use conflict::{ConflictKind, Region};
pub use file::{FileMerge, MergePlacement, MergeSides, merge_file};
pub use ranges::{LinesVerdict, ReplacedLines, compare_lines, replaced_lines};

/// The result of a merge of contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// There is nothing to do: `now` has the plan's change already, or the plan has none.
    Same,
    /// Both sides' changes, in this content.
    Merged(Vec<u8>),
    /// Both sides changed the same or touching lines in different ways: where, rising, at least one.
    Conflict(Vec<Region>),
}

/// Merges by lines what changed from `base` to `plan` into `now`.
///
/// A change of one side is taken, equal changes of both are taken once, and different ones that overlap or
/// touch are a conflict.
///
/// ```
/// use domain::{Merge, merge};
///
/// let (base, now, plan) = (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n");
/// assert_eq!(merge(base, now, plan), Merge::Merged(b"A\nb\nC\n".to_vec()));
/// assert!(matches!(merge(base, b"a\nx\nc\n", b"a\ny\nc\n"), Merge::Conflict(_)));
/// ```
pub fn merge(base: &[u8], now: &[u8], plan: &[u8]) -> Merge {
    merge_taking(base, now, plan, |_| false)
}

/// The same, with the plan's lines wherever both changed the same lines and `is_taken` says so.
pub fn merge_taking(base: &[u8], now: &[u8], plan: &[u8], is_taken: impl Fn(&Region) -> bool) -> Merge {
    if now == plan || base == plan {
        return Merge::Same;
    }
    if base == now {
        return Merge::Merged(plan.to_vec());
    }
    let mut conflicts = Vec::new();
    let merged = merge_clusters(base, now, plan, |sides, merged| {
        if is_taken(&sides.region) {
            sides.plan.iter().for_each(|line| merged.extend_from_slice(line));
        } else {
            conflicts.push(sides.region);
        }
    });
    if !conflicts.is_empty() {
        Merge::Conflict(conflicts)
    } else if merged == now {
        Merge::Same
    } else {
        Merge::Merged(merged)
    }
}

/// The names of both sides in the markers of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerNames<'a> {
    /// The side that is there now.
    pub now: &'a str,
    /// The side of the plan.
    pub plan: &'a str,
}

/// The same, with both sides between the markers of git wherever both changed the same lines and `is_taken`
/// says no. The markers end as the lines of `now` do.
pub fn merge_marked(
    base: &[u8],
    now: &[u8],
    plan: &[u8],
    is_taken: impl Fn(&Region) -> bool,
    names: MarkerNames<'_>,
) -> Vec<u8> {
    let end = if now.windows(2).any(|pair| pair == b"\r\n") { "\r\n" } else { "\n" };
    let marker = |merged: &mut Vec<u8>, text: &str| {
        if merged.last().is_some_and(|byte| *byte != b'\n') {
            merged.extend_from_slice(end.as_bytes());
        }
        merged.extend_from_slice(text.as_bytes());
        merged.extend_from_slice(end.as_bytes());
    };
    merge_clusters(base, now, plan, |sides, merged| {
        if is_taken(&sides.region) {
            sides.plan.iter().for_each(|line| merged.extend_from_slice(line));
            return;
        }
        marker(merged, &format!("<<<<<<< {}", names.now));
        sides.now.iter().for_each(|line| merged.extend_from_slice(line));
        marker(merged, "=======");
        sides.plan.iter().for_each(|line| merged.extend_from_slice(line));
        marker(merged, &format!(">>>>>>> {}", names.plan));
    })
}

/// A place that both sides changed in different ways, and the lines of each side there.
struct ConflictSides<'a, 'text> {
    region: Region,
    now: &'a [&'text [u8]],
    plan: &'a [&'text [u8]],
}

/// Merges both sides' changes. `resolve` writes what belongs to a place that both changed in different ways.
fn merge_clusters(
    base: &[u8],
    now: &[u8],
    plan: &[u8],
    mut resolve: impl FnMut(ConflictSides<'_, '_>, &mut Vec<u8>),
) -> Vec<u8> {
    let (base_lines, now_lines, plan_lines) = (split_lines(base), split_lines(now), split_lines(plan));
    let mut merged = Vec::with_capacity(now.len().max(plan.len()));
    let mut done = 0;
    for cluster in clusters(&line_changes(base, now), &line_changes(base, plan)) {
        push_lines(&mut merged, &base_lines, done..cluster.base.start);
        done = cluster.base.end;
        match (cluster.now, cluster.plan) {
            (Some(now), None) => push_lines(&mut merged, &now_lines, now),
            (None, Some(plan)) => push_lines(&mut merged, &plan_lines, plan),
            (Some(now), Some(plan))
                if lines_in(&now_lines, now.clone()) == lines_in(&plan_lines, plan.clone()) =>
            {
                push_lines(&mut merged, &now_lines, now);
            }
            (Some(now), Some(plan)) => {
                let (now_side, plan_side) =
                    (lines_in(&now_lines, now.clone()), lines_in(&plan_lines, plan.clone()));
                let region = Region { base: cluster.base, now, plan };
                resolve(ConflictSides { region, now: now_side, plan: plan_side }, &mut merged);
            }
            (None, None) => {}
        }
    }
    push_lines(&mut merged, &base_lines, done..u32::MAX);
    merged
}

/// Changes that overlap or touch each other in the base, and what each side has there; none where the side
/// changed nothing.
struct Cluster {
    base: Range<u32>,
    now: Option<Range<u32>>,
    plan: Option<Range<u32>>,
}

fn clusters(now: &[LineChange], plan: &[LineChange]) -> Vec<Cluster> {
    let (mut now, mut plan) = (now, plan);
    let mut clusters = Vec::new();
    loop {
        let first = match (now.first(), plan.first()) {
            (Some(now), Some(plan)) => now.before.start.min(plan.before.start),
            (Some(one), None) | (None, Some(one)) => one.before.start,
            (None, None) => return clusters,
        };
        let mut base = first..first;
        let (mut now_count, mut plan_count) = (0, 0);
        loop {
            let reached_now = reach(befores(&now[now_count..]), &mut base);
            let reached_plan = reach(befores(&plan[plan_count..]), &mut base);
            if reached_now + reached_plan == 0 {
                break;
            }
            now_count += reached_now;
            plan_count += reached_plan;
        }
        let (now_here, plan_here);
        (now_here, now) = now.split_at(now_count);
        (plan_here, plan) = plan.split_at(plan_count);
        let (now, plan) = (side_range(now_here, &base), side_range(plan_here, &base));
        clusters.push(Cluster { base, now, plan });
    }
}

/// Stretches `base` over those of `changes`, which rise, that overlap or touch it, and says how many did.
fn reach(changes: impl Iterator<Item = Range<u32>>, base: &mut Range<u32>) -> usize {
    let mut reached = 0;
    for change in changes {
        if change.start > base.end {
            break;
        }
        base.end = base.end.max(change.end);
        reached += 1;
    }
    reached
}

fn befores(changes: &[LineChange]) -> impl Iterator<Item = Range<u32>> {
    changes.iter().map(|change| change.before.clone())
}

/// Returns what a side has in place of `base`, whose changes there are `changes`.
fn side_range(changes: &[LineChange], base: &Range<u32>) -> Option<Range<u32>> {
    let (first, last) = (changes.first()?, changes.last()?);
    let start = first.after.start.saturating_sub(first.before.start.saturating_sub(base.start));
    let end = last.after.end.saturating_add(base.end.saturating_sub(last.before.end));
    Some(start..end)
}
