//! Questions of which the answer is known: messages of commits.
//!
//! # Invariants
//! 1. Which are taken depends on the history only: they are spaced evenly over what is fit.

use std::path::Path;

use context::index::terms::query_terms;
use context::index::{FileKind, Language};
use domain::RelPath;

use super::checkout::git;

/// How far back is looked.
const COMMITS_MAX: &str = "--max-count=1500";
const PATHS_MAX: usize = 15;
const CODE_FILES_MAX: usize = 8;
const TERMS_MIN: usize = 3;
const QUERY_BYTES_MAX: usize = 600;

/// Beginnings of subjects of commits that release something or take a newer version of it.
const HOUSEKEEPING: [&str; 11] = [
    "bump",
    "release",
    "prepare",
    "version",
    "deps",
    "chore(deps",
    "chore(release",
    "build(deps",
    "update dep",
    "upgrade dep",
    "merge",
];

/// Parts of paths of files that nobody writes, or that tell of a change instead of making it.
const NOT_WRITTEN: [&str; 10] = [
    "changelog",
    "changes.",
    "snapshots/",
    ".snap",
    "generated",
    ".pb.",
    "_pb2",
    ".min.",
    "node_modules/",
    "vendor/",
];

/// A commit's message, asked before the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) commit: String,
    pub(crate) parent: String,
    /// The message without what no person would ask.
    pub(crate) text: String,
    /// The files of code that it changed and that were there before.
    pub(crate) files: Vec<RelPath>,
}

impl Query {
    /// Whether the text says the name of a file that was changed.
    pub(crate) fn names_a_file(&self) -> bool {
        self.files.iter().any(|file| {
            let name = String::from_utf8_lossy(file.file_name()).into_owned();
            self.text.contains(&name)
        })
    }
}

/// At most `count` queries, the newest first.
pub(crate) fn queries(repository: &Path, count: usize, is_fit: impl Fn(&Query) -> bool) -> Vec<Query> {
    let all = candidates(repository);
    let start = |number: usize| number * all.len() / count.max(1);
    let first_fit = |number: usize| {
        let (from, to) = (start(number), start(number + 1));
        all[from..to].iter().find(|query| is_fit(query)).cloned()
    };
    (0..count).filter_map(first_fit).collect()
}

fn candidates(repository: &Path) -> Vec<Query> {
    let format = "--format=%x01%H %P%x02%B%x02";
    let log = git(
        repository,
        &["log", "--no-merges", "--no-renames", "--name-status", COMMITS_MAX, format, "HEAD"],
    );
    log.split('\x01').skip(1).filter_map(candidate).collect()
}

fn candidate(told: &str) -> Option<Query> {
    let mut parts = told.splitn(3, '\x02');
    let (names, message, changed) = (parts.next()?, parts.next()?, parts.next()?);
    let (commit, parent) = names.split_once(' ')?;
    let changed: Vec<(&str, &str)> = changed.lines().filter_map(|line| line.split_once('\t')).collect();
    let there_before = changed.iter().filter(|(how, _)| *how != "A").map(|(_, path)| *path);
    let files: Vec<RelPath> = there_before
        .filter(|path| is_written_code(path))
        .filter_map(|path| RelPath::new(path).ok())
        .collect();
    let text = asked(message);
    let is_fit = !parent.is_empty()
        && changed.len() <= PATHS_MAX
        && (1..=CODE_FILES_MAX).contains(&files.len())
        && !is_housekeeping(message)
        && query_terms(&text).len() >= TERMS_MIN;
    is_fit.then(|| Query { commit: commit.to_owned(), parent: parent.to_owned(), text, files })
}

fn is_written_code(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let is_code = RelPath::new(path).is_ok_and(|path| Language::detect(&path, b"").kind() == FileKind::Code);
    is_code && !NOT_WRITTEN.iter().any(|part| lower.contains(part))
}

fn is_housekeeping(message: &str) -> bool {
    let subject = message.lines().next().unwrap_or_default().to_lowercase();
    let is_a_version = subject.split(['-', ' ']).any(|word| {
        let number = word.trim_start_matches('v');
        number.matches('.').count() >= 2 && number.starts_with(|first: char| first.is_ascii_digit())
    });
    HOUSEKEEPING.iter().any(|start| subject.starts_with(start)) || is_a_version || subject.contains("bump ")
}

/// A message without trailers, numbers of issues and addresses.
fn asked(message: &str) -> String {
    let mut text = String::new();
    for line in message.lines().filter(|line| !is_trailer(line)) {
        let words = line.split_whitespace().filter(|word| !is_reference(word));
        let line = words.collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            text.push_str(&line);
            text.push('\n');
        }
    }
    let mut end = text.len().min(QUERY_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.trim_end().to_owned()
}

fn is_trailer(line: &str) -> bool {
    let Some((key, _)) = line.split_once(':') else { return false };
    let key = key.to_ascii_lowercase();
    let is_known = matches!(&*key, "fixes" | "closes" | "refs" | "ref" | "resolves" | "pr" | "issue" | "bug");
    is_known || key.ends_with("-by") || key.ends_with("-id") || key.ends_with("-on")
}

fn is_reference(word: &str) -> bool {
    let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '#');
    let number = bare.rsplit_once('#').map(|(_, number)| number);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.contains("://") || number.is_some_and(is_number)
}
