//! The files of a tree as texts, for rivals without an index, and what they write within a budget.

use std::collections::BTreeSet;
use std::path::Path;

use context::TokenCounter;
use context::index::Snapshot;

/// A file that can be read as text.
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Those files of the snapshot that our own index has read: all look at the same.
pub(crate) fn texts(root: &Path, snapshot: &Snapshot) -> Vec<Text> {
    let readable = snapshot.files().iter().filter(|file| file.path_only.is_none());
    let read = readable.filter_map(|file| {
        let path = file.path.to_string();
        let bytes = std::fs::read(root.join(&path)).ok()?;
        Some(Text { path, text: String::from_utf8_lossy(&bytes).into_owned() })
    });
    read.collect()
}

/// The paths of all files, as they stand in a listing.
pub(crate) fn paths(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.files().iter().map(|file| file.path.to_string()).collect()
}

/// Lines as long as they fit. Whoever writes is told when no more does.
pub(crate) struct Page<'c> {
    counter: &'c dyn TokenCounter,
    left: u64,
    text: String,
}

impl<'c> Page<'c> {
    pub(crate) fn new(tokens: u32, counter: &'c dyn TokenCounter) -> Page<'c> {
        Page { counter, left: u64::from(tokens) * 100, text: String::new() }
    }

    /// Writes a line; false if it does not fit.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let whole = format!("{line}\n");
        let Some(left) = self.left.checked_sub(self.counter.hundredths(&whole)) else { return false };
        self.left = left;
        self.text.push_str(&whole);
        true
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// The first lines of a text that fit.
pub(crate) fn cut(text: &str, tokens: u32, counter: &dyn TokenCounter) -> String {
    let mut page = Page::new(tokens, counter);
    let _ = text.lines().all(|line| page.line(line));
    page.into_text()
}
