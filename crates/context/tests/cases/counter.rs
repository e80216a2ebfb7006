//! The count of tokens without a vocabulary, held against real ones over the text of this very workspace.

use std::fs;
use std::path::{Path, PathBuf};

use context::{LexicalCounter, TokenCounter};

/// What one context costs, about.
const CONTEXT_TOKENS: u32 = 4000;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if entry.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                sources(&entry, found);
            }
        } else if [".rs", ".md", ".toml", ".feature", ".yaml", ".json", ".scm", ".sh", ".py"]
            .iter()
            .any(|ending| name.ends_with(ending))
        {
            found.push(entry);
        }
    }
}

/// Whole lines of the workspace in the order of its files, cut into contexts.
fn contexts() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs", "features", "examples", "xtask"] {
        sources(&root.join(folder), &mut found);
    }
    let counter = LexicalCounter::default();
    let mut contexts = vec![String::new()];
    let mut spent = 0;
    for file in found {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for line in text.split_inclusive('\n') {
            spent += counter.hundredths(line);
            contexts.last_mut().expect("one at least").push_str(line);
            if spent >= u64::from(CONTEXT_TOKENS) * 100 {
                spent = 0;
                contexts.push(String::new());
            }
        }
    }
    contexts
}

#[test]
fn the_count_is_never_below_that_of_real_vocabularies() {
    let counter = LexicalCounter::default();
    let contexts = contexts();
    assert!(contexts.len() > 100, "{} contexts", contexts.len());
    for name in ["cl100k_base", "o200k_base"] {
        let vocabulary = tiktoken::get_encoding(name).expect("it is built in");
        let mut most = 0.0_f64;
        for text in &contexts {
            let (ours, true_count) = (counter.tokens(text), vocabulary.count(text) as u32);
            assert!(ours >= true_count, "{name}: {ours} for {true_count} tokens of:\n{text}");
            most = most.max(f64::from(ours) / f64::from(true_count.max(1)));
        }
        assert!(most < 1.3, "{name}: {most} times the truth wastes the budget");
    }
}
