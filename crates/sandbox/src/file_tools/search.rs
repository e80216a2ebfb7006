//! Searches the text files of a tree for a regular expression.
//!
//! # Invariants
//! 1. Matches are searched in a file as it is shown, without its secrets: no expression can ask for
//!    one.
//! 2. Files that are no text, and files above [`domain::TEXT_BYTES_MAX`], are passed over.

use std::borrow::Cow;
use std::io;
use std::os::fd::BorrowedFd;

use domain::{RelPath, TEXT_BYTES_MAX, is_text};
use globset::{GlobBuilder, GlobMatcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::walk::{ListedKind, Visit, WalkRequest, walk};
use crate::fs::beneath::BeneathError;

/// The number of bytes of a line that are reported.
const LINE_BYTES_MAX: usize = 500;

/// Renders the content of a file as it may be shown.
pub type ContentRenderer<'a> = dyn for<'b> Fn(&RelPath, &'b [u8]) -> Cow<'b, [u8]> + 'a;

/// A search request.
pub struct SearchRequest<'a> {
    /// The files to be searched.
    pub walk: WalkRequest<'a>,
    /// The expression.
    pub pattern: &'a str,
    /// In which files: a pattern for the path, or, without a slash, for the name.
    pub glob: Option<&'a str>,
    /// The number of context lines around each match.
    pub context: usize,
    /// The maximum number of matches.
    pub matches_max: usize,
    /// The maximum number of bytes of lines.
    pub bytes_max: usize,
    /// A file as it is shown.
    pub shown: &'a ContentRenderer<'a>,
    /// Returns true if no caller waits any more.
    pub is_over: &'a dyn Fn() -> bool,
}

/// A matching line, or a line of its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The file.
    pub path: RelPath,
    /// The line, from 1.
    pub line: u64,
    /// Its text, without its end.
    pub text: String,
}

/// The matches of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The lines, by file and number.
    pub matches: Vec<Match>,
    /// True if there is more.
    pub truncated: bool,
}

/// The reason that nothing was searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The expression or the glob is none.
    #[error("`{field}` is not valid: {message}")]
    Pattern {
        /// The name of the field that is wrong.
        field: &'static str,
        /// Why.
        message: String,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Dir(#[from] BeneathError),
}

/// Searches a directory, or one file.
///
/// # Errors
/// The expression is none, or the place cannot be read.
pub fn search(root: BorrowedFd<'_>, wanted: &SearchRequest<'_>) -> Result<SearchResult, SearchError> {
    let mut search = SearchRun::new(wanted)?;
    if let Some(path) = wanted.walk.dir
        && let Ok((bytes, len)) = super::read_through_links(root, path, TEXT_BYTES_MAX, wanted.walk.hidden)
    {
        search.file(path, &bytes, len);
        return Ok(search.found);
    }
    walk(root, wanted.walk, &mut |listed| {
        if (wanted.is_over)() {
            search.found.truncated = true;
            return Visit::Stop;
        }
        if listed.kind == ListedKind::File && listed.size <= TEXT_BYTES_MAX && search.is_wanted(&listed.path)
        {
            // A file that cannot be read has no match.
            if let Ok((bytes, len)) = super::read_file(root, &listed.path, TEXT_BYTES_MAX) {
                search.file(&listed.path, &bytes, len);
            }
        }
        if search.found.truncated { Visit::Stop } else { Visit::GoOn }
    })?;
    Ok(search.found)
}

struct SearchRun<'a> {
    wanted: &'a SearchRequest<'a>,
    matcher: RegexMatcher,
    glob: Option<GlobMatcher>,
    searcher: Searcher,
    count: usize,
    bytes: usize,
    found: SearchResult,
}

impl<'a> SearchRun<'a> {
    fn new(wanted: &'a SearchRequest<'a>) -> Result<SearchRun<'a>, SearchError> {
        let wrong = |field, message: String| SearchError::Pattern { field, message };
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .build(wanted.pattern)
            .map_err(|error| wrong("pattern", error.to_string()))?;
        let glob = wanted.glob.map(|glob| GlobBuilder::new(glob).literal_separator(true).build());
        let glob = glob.transpose().map_err(|error| wrong("glob", error.to_string()))?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(wanted.context)
            .after_context(wanted.context)
            .build();
        let glob = glob.map(|glob| glob.compile_matcher());
        Ok(SearchRun { wanted, matcher, glob, searcher, count: 0, bytes: 0, found: SearchResult::default() })
    }

    fn is_wanted(&self, path: &RelPath) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let Some(glob) = &self.glob else { return true };
        let by_name = self.wanted.glob.is_some_and(|glob| !glob.contains('/'));
        let subject = if by_name { path.file_name() } else { path.as_bytes() };
        glob.is_match(std::ffi::OsStr::from_bytes(subject))
    }

    fn file(&mut self, path: &RelPath, bytes: &[u8], len: u64) {
        use grep_matcher::Matcher;
        let has_it = || self.matcher.is_match(bytes).unwrap_or(true);
        if !is_text(bytes, len) || !has_it() {
            return;
        }
        let shown = (self.wanted.shown)(path, bytes);
        let wanted = self.wanted;
        let SearchRun { matcher, searcher, count, bytes, found, .. } = self;
        let told = MatchSink { wanted, path, count, bytes, found };
        // Searching memory does not fail.
        let _ = searcher.search_slice(&*matcher, &shown, told);
    }
}

/// Collects the matching lines of one file.
struct MatchSink<'a> {
    wanted: &'a SearchRequest<'a>,
    path: &'a RelPath,
    count: &'a mut usize,
    bytes: &'a mut usize,
    found: &'a mut SearchResult,
}

impl MatchSink<'_> {
    fn line(&mut self, number: Option<u64>, bytes: &[u8]) -> bool {
        let end = bytes.trim_ascii_end();
        let cut = &end[..end.len().min(LINE_BYTES_MAX)];
        let mut text = String::from_utf8_lossy(cut).trim_end_matches('\u{FFFD}').to_owned();
        if cut.len() < end.len() {
            text.push('…');
        }
        *self.bytes += text.len() + self.path.as_bytes().len();
        if *self.bytes > self.wanted.bytes_max {
            self.found.truncated = true;
            return false;
        }
        self.found.matches.push(Match { path: self.path.clone(), line: number.unwrap_or(0), text });
        true
    }
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if *self.count >= self.wanted.matches_max {
            self.found.truncated = true;
            return Ok(false);
        }
        *self.count += 1;
        Ok(self.line(found.line_number(), found.bytes()))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.line(line.line_number(), line.bytes()))
    }
}
