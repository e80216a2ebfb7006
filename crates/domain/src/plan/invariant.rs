//! Invariants of a plan's changes: sentences for models, rules that are checked.
//!
//! # Invariants
//! 1. Rules all hold: none lifts another, in whatever scope they were set.
//! 2. A moved file counts with both of its paths.
//! 3. Texts that are the same but for case and spaces are listed once, in the order plan, action, project,
//!    user.
//!
//! # Not here
//! The choice of changes (the net changes of a plan, or the hunks that were chosen), and the count of lines.

use std::collections::BTreeSet;
use std::fmt;

use globset::{Candidate, GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use crate::path::RelPath;
use crate::suggest::nearest;

/// Limits how many a plan has at most.
pub const INVARIANTS_MAX: usize = 100;
/// Limits how long the words of one may be: every model reads them in every call.
pub const INVARIANT_CHARS_MAX: usize = 2_000;
/// The words of the rules, as they are typed.
const RULES: [&str; 4] = ["never", "only", "max_files", "max_lines"];
/// The limit of places that a violation names.
const NAMED_MAX: usize = 5;

/// The origin of an invariant, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvariantScope {
    /// The person who made the plan.
    Plan,
    /// The plan's action.
    Action,
    /// A project's settings.
    Project,
    /// The user's settings.
    User,
}

/// A rule that can be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InvariantRule {
    /// No file that fits one of these globs is touched.
    Never(Vec<String>),
    /// Only files that fit one of these globs are touched.
    Only(Vec<String>),
    /// At most so many files are touched.
    MaxFiles(u64),
    /// At most so many lines are added and removed.
    MaxLines(u64),
}

/// An invariant of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invariant {
    /// In words.
    pub text: String,
    /// The scope in which it was set.
    pub scope: InvariantScope,
    /// The part of it that can be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<InvariantRule>,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedFile<'a> {
    /// The short name of its project.
    pub alias: &'a str,
    /// Its path.
    pub path: &'a RelPath,
    /// The path before a move.
    pub from: Option<&'a RelPath>,
    /// Lines added and removed.
    pub lines: u64,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {what}")]
pub struct InvariantViolation {
    /// The invariant, in words.
    pub text: String,
    /// The text that names the offending changes.
    pub what: String,
}

impl Invariant {
    /// Reads what a person typed. `never=GLOB,…`, `only=GLOB,…`, `max_files=N` and `max_lines=N` are rules,
    /// whatever the case and the spaces round the word; all else is a sentence.
    ///
    /// # Errors
    /// Returns an error, in words, if the text is empty or too long, or an invalid rule, also by a slip in
    /// its word.
    pub fn parse(text: &str, scope: InvariantScope) -> Result<Invariant, String> {
        let text = text.trim();
        let count = |digits: &str| {
            digits.trim().parse::<u64>().map_err(|_| format!("`{digits}` is not a whole number"))
        };
        let said = text.split_once('=').map(|(word, value)| (word.trim().to_lowercase(), value));
        let rule = match said.as_ref().map(|(word, value)| (word.as_str(), *value)) {
            Some(("never", globs)) => Some(InvariantRule::Never(split_globs(globs))),
            Some(("only", globs)) => Some(InvariantRule::Only(split_globs(globs))),
            Some(("max_files", digits)) => Some(InvariantRule::MaxFiles(count(digits)?)),
            Some(("max_lines", digits)) => Some(InvariantRule::MaxLines(count(digits)?)),
            // A rule that only models would read prevents nothing.
            Some((word, _)) => match nearest(&word.replace(['-', ' '], "_"), RULES) {
                Some(meant) => return Err(format!("`{word}=` is not a rule; did you mean `{meant}=`?")),
                None => None,
            },
            None => None,
        };
        match rule {
            Some(rule) => Invariant::of_rule(rule, None, scope),
            None => Invariant { text: text.to_owned(), scope, rule: None }.bounded(),
        }
    }

    /// A rule, in these words or its own.
    ///
    /// # Errors
    /// Returns an error, in words, if a glob of the rule is invalid, or the words are empty or too long.
    pub fn of_rule(
        rule: InvariantRule,
        text: Option<String>,
        scope: InvariantScope,
    ) -> Result<Invariant, String> {
        let flaws = rule.flaws();
        if !flaws.is_empty() {
            return Err(flaws.join("; "));
        }
        let text = text.unwrap_or_else(|| rule.in_words());
        Invariant { text, scope, rule: Some(rule) }.bounded()
    }

    fn bounded(self) -> Result<Invariant, String> {
        match self.text.chars().count() {
            _ if self.text.trim().is_empty() => Err("an invariant is empty".to_owned()),
            chars if chars > INVARIANT_CHARS_MAX => {
                Err(format!("an invariant has at most {INVARIANT_CHARS_MAX} characters, this has {chars}"))
            }
            _ => Ok(self),
        }
    }
}

/// The globs of a list: a comma within braces or brackets is part of a glob.
fn split_globs(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let globs = text.split(|letter: char| {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    globs.map(str::trim).filter(|glob| !glob.is_empty()).map(str::to_owned).collect()
}

impl InvariantRule {
    /// The rule in words, for those who gave it none.
    pub fn in_words(&self) -> String {
        match self {
            InvariantRule::Never(globs) => format!("never touch {}", globs.join(", ")),
            InvariantRule::Only(globs) => format!("touch only {}", globs.join(", ")),
            InvariantRule::MaxFiles(1) => "touch at most 1 file".to_owned(),
            InvariantRule::MaxFiles(files) => format!("touch at most {files} files"),
            InvariantRule::MaxLines(1) => "change at most 1 line".to_owned(),
            InvariantRule::MaxLines(lines) => format!("change at most {lines} lines"),
        }
    }

    /// Returns what is wrong with the rule itself: the globs that are none, a sentence each.
    pub fn flaws(&self) -> Vec<String> {
        let globs = self.globs();
        let wrong = globs.iter().filter_map(|glob| Some((glob, InvariantGlob::parse(glob, None).err()?)));
        let mut flaws: Vec<String> =
            wrong.map(|(glob, why)| format!("`{glob}` is not a glob: {why}")).collect();
        if globs.is_empty() && matches!(self, InvariantRule::Never(_) | InvariantRule::Only(_)) {
            flaws.push("there is not a glob".to_owned());
        }
        flaws
    }

    fn globs(&self) -> &[String] {
        match self {
            InvariantRule::Never(globs) | InvariantRule::Only(globs) => globs,
            InvariantRule::MaxFiles(_) | InvariantRule::MaxLines(_) => &[],
        }
    }

    /// Returns what breaks the rule; `None` if it holds.
    pub fn broken_by(&self, touched: &[CheckedFile<'_>]) -> Option<String> {
        let aliases: BTreeSet<&str> = touched.iter().map(|file| file.alias).collect();
        let globs: Vec<InvariantGlob<'_>> =
            self.globs().iter().flat_map(|glob| InvariantGlob::readings(glob, &aliases)).collect();
        let fits = |alias: &str, path: &RelPath| globs.iter().any(|glob| glob.fits(alias, path));
        let named = |wanted: bool| {
            let paths = touched.iter().flat_map(|file| {
                let both = [Some(file.path), file.from].into_iter().flatten();
                both.map(|path| (file.alias, path))
            });
            let found: BTreeSet<String> = paths
                .filter(|(alias, path)| fits(alias, path) == wanted)
                .map(|(_, path)| path.to_string())
                .collect();
            list(&found)
        };
        match self {
            InvariantRule::Never(_) => named(true).map(|paths| format!("{paths} must not be touched")),
            InvariantRule::Only(_) => named(false).map(|paths| format!("{paths} must not be touched")),
            InvariantRule::MaxFiles(max) => {
                let files = touched.len() as u64;
                (files > *max).then(|| format!("{files} files are touched, {max} are allowed"))
            }
            InvariantRule::MaxLines(max) => {
                let lines = touched.iter().fold(0_u64, |sum, file| sum.saturating_add(file.lines));
                (lines > *max).then(|| format!("{lines} lines are changed, {max} are allowed"))
            }
        }
    }
}

impl fmt::Display for InvariantRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_words())
    }
}

fn list(paths: &BTreeSet<String>) -> Option<String> {
    let named: Vec<&str> = paths.iter().take(NAMED_MAX).map(String::as_str).collect();
    match (named.is_empty(), paths.len().saturating_sub(NAMED_MAX)) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, more) => Some(format!("{} and {more} more", named.join(", "))),
    }
}

/// The invariants as they hold: in the order of their scopes, equal texts once, and of those the ones with a
/// rule too.
pub fn effective(all: impl IntoIterator<Item = Invariant>) -> Vec<Invariant> {
    let mut all: Vec<Invariant> = all.into_iter().collect();
    all.sort_by_key(|invariant| invariant.scope);
    let mut seen: BTreeSet<(String, Option<String>)> = BTreeSet::new();
    let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    all.retain(|invariant| {
        let rule = invariant.rule.as_ref().map(InvariantRule::in_words);
        seen.insert((folded(&invariant.text), rule))
    });
    all
}

/// The rules that do not hold of these files.
pub fn violations(invariants: &[Invariant], touched: &[CheckedFile<'_>]) -> Vec<InvariantViolation> {
    let broken = invariants.iter().filter_map(|invariant| {
        let what = invariant.rule.as_ref()?.broken_by(touched)?;
        Some(InvariantViolation { text: invariant.text.clone(), what })
    });
    broken.collect()
}

/// A glob, and the project that it is for.
struct InvariantGlob<'a> {
    alias: Option<&'a str>,
    matcher: GlobMatcher,
    /// Without a slash it is matched with names at any depth, as in ignore files.
    names_only: bool,
}

impl<'a> InvariantGlob<'a> {
    fn parse(text: &str, alias: Option<&'a str>) -> Result<InvariantGlob<'a>, String> {
        let text = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        let glob = glob.map_err(|error| error.kind().to_string())?;
        Ok(InvariantGlob { alias, matcher: glob.compile_matcher(), names_only: !text.contains('/') })
    }

    /// Returns the text itself and, if it begins with a project's name, the rest for that project.
    fn readings(text: &str, aliases: &BTreeSet<&'a str>) -> Vec<InvariantGlob<'a>> {
        let named = text.split_once(':').and_then(|(alias, rest)| Some((aliases.get(alias).copied()?, rest)));
        let read = match named {
            Some((alias, rest)) => InvariantGlob::parse(rest, Some(alias)),
            None => InvariantGlob::parse(text, None),
        };
        read.into_iter().collect()
    }

    /// Returns whether the path, or a directory above it, fits.
    fn fits(&self, alias: &str, path: &RelPath) -> bool {
        let is_there = self.alias.is_none_or(|own| own == alias);
        is_there
            && std::iter::successors(Some(path.clone()), RelPath::parent).any(|path| self.fits_one(&path))
    }

    fn fits_one(&self, path: &RelPath) -> bool {
        let text = if self.names_only { path.file_name() } else { path.as_bytes() };
        self.matcher.is_match_candidate(&Candidate::from_bytes(text))
    }
}
