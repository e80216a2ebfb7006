//! What a commit changed: the answer that its message asks for.
//!
//! # Invariants
//! 1. Only what stood in the parent counts: nobody can show what is not there yet.
//! 2. A line is known by its first 100 characters, trimmed, as rivals that cut lines show them.

use std::collections::BTreeSet;
use std::path::Path;

use context::index::{OutlineItem, outline, scan};
use domain::RelPath;

use super::checkout::{git, git_bytes};
use super::queries::Query;

const LINE_CHARS_MAX: usize = 100;
/// A shorter line says nothing: a bracket, a return.
const LINE_CHARS_MIN: usize = 6;

/// What has to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) files: BTreeSet<RelPath>,
    /// The beginnings of the lines that name the definitions.
    pub(crate) symbols: BTreeSet<(RelPath, String)>,
    pub(crate) lines: BTreeSet<(RelPath, String)>,
}

/// The truth of a query; empty if no person wrote what it changed.
pub(crate) fn truth(repository: &Path, query: &Query) -> Truth {
    let mut truth = Truth::default();
    for path in &query.files {
        let name = path.to_string();
        let bytes = git_bytes(repository, &["show", &format!("{}:{name}", query.parent)]);
        let facts = scan(path, &bytes);
        if facts.path_only.is_some() {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let items = outline(&text, &facts).items;
        truth.files.insert(path.clone());
        let diff =
            ["diff", "-U0", "--no-renames", "--no-ext-diff", &query.parent, &query.commit, "--", &name];
        for (from, count) in hunks(&git(repository, &diff)) {
            let to = from + count.saturating_sub(1);
            if let Some(item) = innermost(&items, from, to) {
                let line = lines.get(item.line as usize - 1).copied().unwrap_or_default();
                truth.symbols.insert((path.clone(), beginning(line)));
            }
            let changed = (from..from + count).filter_map(|line| lines.get(line as usize - 1));
            let said =
                changed.map(|line| known_by(line)).filter(|line| line.chars().count() >= LINE_CHARS_MIN);
            truth.lines.extend(said.map(|line| (path.clone(), line)));
        }
    }
    truth
}

/// What a line is known by.
pub(crate) fn known_by(line: &str) -> String {
    line.trim().chars().take(LINE_CHARS_MAX).collect::<String>().trim_end().to_owned()
}

/// What of the line of a definition's name has to be seen: without its body.
fn beginning(line: &str) -> String {
    let line = known_by(line);
    let head = line.split('{').next().unwrap_or_default().trim_end();
    head.trim_end_matches(':').trim_end().to_owned()
}

/// The old side of each hunk: its first line and how many; of one that only adds, the line before it and
/// none.
fn hunks(diff: &str) -> Vec<(u32, u32)> {
    let old_side = |line: &str| {
        let (place, _) = line.strip_prefix("@@ -")?.split_once(' ')?;
        let (from, count) = place.split_once(',').unwrap_or((place, "1"));
        Some((from.parse::<u32>().ok()?.max(1), count.parse().ok()?))
    };
    diff.lines().filter_map(old_side).collect()
}

fn innermost(items: &[OutlineItem], from: u32, to: u32) -> Option<&OutlineItem> {
    let around = items.iter().filter(|item| item.from <= from && to <= item.to);
    around.min_by_key(|item| item.to - item.from)
}
