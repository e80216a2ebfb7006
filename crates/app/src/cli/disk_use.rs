//! The disk space that the data directory takes, by kind of data.
//!
//! # Invariants
//! 1. Nothing is opened: only names and sizes are read, and no link is followed.
//! 2. At most [`ENTRIES_MAX`] files are counted; then the sum is a minimum.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

/// The maximum number of files that are counted.
const ENTRIES_MAX: usize = 500_000;
/// The size of the blocks that the system counts.
const BLOCK_BYTES: u64 = 512;

/// The kinds of data: a word, and the beginnings of the names of its files in the data directory.
const KINDS: [(&str, &[&str]); 6] = [
    ("store of plans", &["agents.db"]),
    ("contents of changes", &["contents"]),
    ("undo", &["undo", "journal"]),
    ("index of projects", &["context", "index"]),
    ("sandboxes", &["sandboxes"]),
    ("logs", &["logs", "workers", "breakers"]),
];
const OTHER: &str = "other";

/// The space that each kind takes.
pub(super) struct DiskUse {
    kinds: Vec<(&'static str, u64)>,
    is_whole: bool,
}

impl DiskUse {
    /// Counts what is in the data directory.
    pub(super) fn count(data_dir: &Path) -> DiskUse {
        let mut left = ENTRIES_MAX;
        let mut kinds: Vec<(&'static str, u64)> = KINDS.iter().map(|(word, _)| (*word, 0)).collect();
        kinds.push((OTHER, 0));
        for entry in fs::read_dir(data_dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let begins =
                |(_, beginnings): &&(&str, &[&str])| beginnings.iter().any(|one| name.starts_with(one));
            let word = KINDS.iter().find(begins).map_or(OTHER, |(word, _)| word);
            let bytes = bytes_of(&entry.path(), &mut left);
            if let Some((_, sum)) = kinds.iter_mut().find(|(known, _)| *known == word) {
                *sum = sum.saturating_add(bytes);
            }
        }
        DiskUse { kinds, is_whole: left > 0 }
    }

    /// In one line: the sum, and the kinds that take something, the largest first.
    pub(super) fn line(&self) -> String {
        let sum: u64 = self.kinds.iter().map(|(_, bytes)| bytes).sum();
        let mut kinds: Vec<&(&str, u64)> = self.kinds.iter().filter(|(_, bytes)| *bytes > 0).collect();
        kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let kinds: Vec<String> =
            kinds.iter().map(|(word, bytes)| format!("{word} {}", size_words(*bytes))).collect();
        let least = if self.is_whole { "" } else { "at least " };
        match kinds.as_slice() {
            [] => "nothing is stored".to_owned(),
            kinds => format!("{least}{}: {}", size_words(sum), kinds.join(", ")),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let kinds: Vec<Value> =
            self.kinds.iter().map(|(word, bytes)| json!({ "kind": word, "bytes": bytes })).collect();
        let sum: u64 = self.kinds.iter().map(|(_, bytes)| bytes).sum();
        json!({ "bytes": sum, "kinds": kinds, "whole": self.is_whole })
    }
}

/// Returns the bytes that a file or a directory takes on the disk. `left` is how many may still be counted.
fn bytes_of(path: &Path, left: &mut usize) -> u64 {
    let mut sum = 0_u64;
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let Some(rest) = left.checked_sub(1) else { break };
        *left = rest;
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        // A directory's own blocks are not counted: an empty one stores nothing.
        if found.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else {
            sum = sum.saturating_add(found.blocks().saturating_mul(BLOCK_BYTES));
        }
    }
    sum
}

/// A size in at most four digits: `12 KB`, `3.4 GB`.
pub(super) fn size_words(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];
    let Some((unit, one)) = UNITS.iter().find(|(_, one)| bytes >= *one) else {
        return format!("{bytes} B");
    };
    let tenths = bytes / (one / 10);
    match tenths {
        100.. => format!("{} {unit}", tenths / 10),
        _ => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_in_few_digits() {
        let shown = [0, 999, 1_000, 15_600, 366_000_000, 1_250_000_000].map(size_words);
        assert_eq!(shown, ["0 B", "999 B", "1.0 KB", "15 KB", "366 MB", "1.2 GB"]);
    }

    #[test]
    fn each_file_is_counted_with_its_kind() {
        let dir = tempfile::TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("contents/ab")).unwrap();
        for (name, bytes) in [("agents.db", 5000), ("contents/ab/c", 9000), ("redaction.key", 32)] {
            fs::write(dir.path().join(name), vec![1; bytes]).unwrap();
        }
        std::os::unix::fs::symlink("/usr", dir.path().join("undo")).unwrap();
        let found = DiskUse::count(dir.path()).to_json();
        let bytes = |kind: &str| {
            let kinds = found["kinds"].as_array().unwrap();
            kinds.iter().find(|one| one["kind"] == kind).unwrap()["bytes"].as_u64().unwrap()
        };
        assert!((5000..20_000).contains(&bytes("store of plans")), "{found}");
        assert!((9000..30_000).contains(&bytes("contents of changes")), "{found}");
        assert!(bytes("undo") < 10_000, "a link is not followed: {found}");
        assert!(bytes("other") > 0 && bytes("sandboxes") == 0, "{found}");
    }
}
