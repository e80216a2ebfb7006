//! `cargo xtask tidy`: what neither the compiler nor clippy checks.
//!
//! | rule | file |
//! |---|---|
//! | every source file opens with a header, whose lines fit | [`headers`] |
//! | a type name means one thing | [`type_names`] |
//! | comments in plain English, by a count that may only fall | [`plain_words`] |
//! | no chain of `super` that has to be counted | [`module_paths`] |
//! | nothing is left for later or skipped | [`placeholders`] |
//! | tests do not sleep | [`sleeps`] |
//! | git is started in one place | [`git_commands`] |
//! | no path of a contributor's machine, no host of a registry | [`machine_paths`], [`registry_hosts`] |
//! | the arrows between crates, and between the folders of `engine` | [`arrows`], [`engine_arrows`] |
//! | ARCHITECTURE.md names every crate | [`code_map`] |
//! | docs/survive.md names only tests that exist, documents only files | [`survive`], [`doc_paths`] |
//! | the header of a test program names its modules | [`test_index`] |
//! | generated parts of the docs are what the code prints | [`crate::docs`] |
//!
//! A rule is a function over a path and its text, or over the model of the tree that it needs. It reads
//! neither git nor the disk. All findings are shown at once.

mod arrows;
mod code_map;
mod doc_paths;
mod engine_arrows;
mod git_commands;
mod headers;
mod machine_paths;
mod module_paths;
mod placeholders;
mod plain_words;
mod registry_hosts;
mod rust_text;
mod sleeps;
mod survive;
mod test_index;
mod type_names;

use std::fmt;

use crate::docs;
use crate::failure::Failure;
use crate::workspace::Workspace;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const SURVIVE: &str = "docs/survive.md";

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A text file of the tree.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn is_our_rust(&self) -> bool {
        self.path.ends_with(".rs") && (self.path.starts_with("crates/") || self.path.starts_with("xtask/"))
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    crate::no_arguments("tidy", arguments)?;
    let files = read_all(workspace)?;
    let mut findings = in_files(&files);
    findings.extend(in_tree(workspace, &files));
    findings.extend(docs::stale(workspace, &files));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing found", files.len());
        return Ok(());
    }
    let hint = "the rules and their reasons stand at the top of the files in xtask/src/tidy";
    let places =
        if findings.len() == 1 { "1 place".to_owned() } else { format!("{} places", findings.len()) };
    Err(Failure::new(format!("tidy found {places}")).hint(hint))
}

/// The text files that git knows or would know.
pub(crate) fn read_all(workspace: &Workspace) -> Result<Vec<File>, Failure> {
    let paths = workspace.files()?;
    let read = |path: String| workspace.read(&path).ok().map(|text| File { path, text });
    Ok(paths.into_iter().filter_map(read).collect())
}

fn in_files(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for File { path, text } in files {
        findings.extend(machine_paths::check(path, text));
        findings.extend(registry_hosts::check(path, text));
    }
    for File { path, text } in files.iter().filter(|file| file.is_our_rust()) {
        findings.extend(headers::check(path, text));
        findings.extend(placeholders::check(path, text));
        findings.extend(sleeps::check(path, text));
        findings.extend(git_commands::check(path, text));
        findings.extend(module_paths::check(path, text));
        findings.extend(engine_arrows::check(path, text));
        findings.extend(test_index::check(path, text));
    }
    findings.extend(type_names::check(files));
    findings.extend(plain_words::check(files));
    findings.extend(doc_paths::check(files));
    findings
}

fn in_tree(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut findings = arrows::check(&workspace.packages, |path| text_of(files, path));
    let names: Vec<&str> = workspace.packages.iter().map(|package| package.name.as_str()).collect();
    findings.extend(match text_of(files, ARCHITECTURE) {
        Some(text) => code_map::check(ARCHITECTURE, text, &names),
        None => vec![Finding::new(ARCHITECTURE, 1, "is missing: it has the map of the crates")],
    });
    findings.extend(match text_of(files, SURVIVE) {
        Some(text) => survive::check(SURVIVE, text, &survive::Tests::in_files(files)),
        None => vec![Finding::new(SURVIVE, 1, "is missing: it says which test shows each promise")],
    });
    findings
}

fn text_of<'a>(files: &'a [File], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
}
