//! Reading, listing, searching.
//!
//! # Invariants
//! A file is redacted whole, and then a part of it is shown: a part may lack the text that identifies a
//! secret.

use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::Path;

use actors::tool::{ENTRIES_MAX, READ_BYTES_MAX, ToolError, ToolPath, ToolRequest, first_lines};
use domain::{Hash, Redactor, RelPath, TEXT_BYTES_MAX, is_text};
use sandbox::file_tools::{
    ListedKind, SearchError, SearchRequest, Visit, WalkRequest, read_through_links, search, walk,
};
use sandbox::fs::beneath::{BeneathError, LinkPolicy};
use sandbox::{HiddenInProject, read_at_hand};
use serde_json::json;

use super::{ToolOutput, not_opened};

/// The number of bytes of paths and lines that one answer has.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The maximum size of a file that is read and redacted by a caller that must not wait.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The parts that reading needs.
pub struct ReadTools<'a> {
    /// The tree of the project.
    pub root: BorrowedFd<'a>,
    /// The project's own path.
    pub project: &'a Path,
    /// Takes secrets out.
    pub redactor: &'a Redactor,
    /// The paths that are not read.
    pub hidden: &'a HiddenInProject,
    /// Returns true if no caller waits any more.
    pub is_over: &'a dyn Fn() -> bool,
}

/// Does what only looks; none when the work is none of that kind.
///
/// # Errors
/// Returns an error for the model if the work cannot be done.
pub fn read(at: &ReadTools<'_>, work: &ToolRequest) -> Option<Result<ToolOutput, ToolError>> {
    match work {
        ToolRequest::Read { place, offset, limit } => Some(read_lines(at, place, *offset, *limit)),
        ToolRequest::List { place, depth, ignored } => Some(list(at, place, *depth, *ignored)),
        ToolRequest::Search { place, pattern, glob, context, max } => {
            Some(find(at, place, pattern, glob.as_deref(), (*context, *max)))
        }
        ToolRequest::Write { .. }
        | ToolRequest::Edit { .. }
        | ToolRequest::Delete { .. }
        | ToolRequest::Move { .. }
        | ToolRequest::Run { .. }
        | ToolRequest::Decide { .. }
        | ToolRequest::Context { .. }
        | ToolRequest::History(_)
        | ToolRequest::ContextBudget
        | ToolRequest::Foreign { .. } => None,
    }
}

/// Does the same for a caller that must not wait: it reads a small file that is in memory, and begins nothing
/// else.
pub fn read_small(at: &ReadTools<'_>, work: &ToolRequest) -> Option<Result<ToolOutput, ToolError>> {
    let ToolRequest::Read { place, offset, limit } = work else { return None };
    let path = place.path.as_ref()?;
    let (bytes, len) = read_at_hand(at.root, path, SMALL_BYTES_MAX, LinkPolicy::Follow, at.hidden)?;
    let is_whole = bytes.len() as u64 == len;
    is_whole.then(|| shown(at, (place, path), (&bytes, len), (*offset, *limit)))
}

fn read_lines(
    at: &ReadTools<'_>,
    place: &ToolPath,
    offset: u64,
    limit: u64,
) -> Result<ToolOutput, ToolError> {
    let is_dir = || ToolError::InTheWay {
        path: place.shown.clone(),
        what: "is a directory; list_directory shows what is in it".to_owned(),
    };
    let path = place.path.as_ref().ok_or_else(is_dir)?;
    let (bytes, len) =
        read_through_links(at.root, path, TEXT_BYTES_MAX, at.hidden).map_err(|error| match error {
            BeneathError::Io { source, .. } if source.kind() == ErrorKind::InvalidInput => is_dir(),
            other @ (BeneathError::Io { .. } | BeneathError::Escapes { .. }) => {
                not_opened("read_file", place, other)
            }
        })?;
    shown(at, (place, path), (&bytes, len), (offset, limit))
}

/// The lines of a file that are asked for.
fn shown(
    at: &ReadTools<'_>,
    (place, path): (&ToolPath, &RelPath),
    (bytes, len): (&[u8], u64),
    (offset, limit): (u64, u64),
) -> Result<ToolOutput, ToolError> {
    if !is_text(bytes, len) {
        return Err(ToolError::NotText { path: place.shown.clone() });
    }
    let hash = Hash::from_content(bytes);
    let shown = at.redactor.redact_file(path, bytes);
    let shown = String::from_utf8_lossy(&shown);
    let (content, total_lines, truncated) = window(&shown, offset, limit);
    let result = json!({
        "content": content, "hash": hash.to_string(), "first_line": offset, "total_lines": total_lines,
        "truncated": truncated,
    });
    Ok(ToolOutput { result, seen: vec![(place.clone(), Some(hash))] })
}

/// Returns some lines of a text, the number of its lines, and whether the request is cut short or more lines
/// follow.
fn window(text: &str, offset: u64, limit: u64) -> (&str, u64, bool) {
    let total = text.split_inclusive('\n').count() as u64;
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(to_usize(offset - 1)).map(str::len).sum();
    let shown = first_lines(&text[before..], READ_BYTES_MAX, to_usize(limit));
    (shown, total, before + shown.len() < text.len())
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn list(at: &ReadTools<'_>, place: &ToolPath, depth: u32, ignored: bool) -> Result<ToolOutput, ToolError> {
    let (mut entries, mut bytes, mut truncated) = (Vec::new(), 0, false);
    let ReadTools { project, hidden, .. } = *at;
    let wanted = WalkRequest { project, dir: place.path.as_ref(), depth: Some(depth), ignored, hidden };
    let walked = walk(at.root, wanted, &mut |listed| {
        let shown = place.beside(&listed.path);
        bytes += shown.len();
        if entries.len() >= ENTRIES_MAX || bytes > ANSWER_BYTES_MAX || (at.is_over)() {
            truncated = true;
            return Visit::Stop;
        }
        let kind = match listed.kind {
            ListedKind::File => "file",
            ListedKind::Directory => "directory",
            ListedKind::Link => "link",
            ListedKind::Special => "special",
        };
        entries.push(json!({ "path": shown, "kind": kind, "size": listed.size }));
        Visit::GoOn
    });
    walked.map_err(|error| match error {
        BeneathError::Io { source, .. } if source.kind() == ErrorKind::NotADirectory => ToolError::InTheWay {
            path: place.shown.clone(),
            what: "is not a directory; links are not followed here".to_owned(),
        },
        other @ (BeneathError::Io { .. } | BeneathError::Escapes { .. }) => {
            not_opened("list_directory", place, other)
        }
    })?;
    Ok(ToolOutput { result: json!({ "entries": entries, "truncated": truncated }), seen: Vec::new() })
}

fn find(
    at: &ReadTools<'_>,
    place: &ToolPath,
    pattern: &str,
    glob: Option<&str>,
    (context, max): (u32, u32),
) -> Result<ToolOutput, ToolError> {
    let wanted = SearchRequest {
        walk: WalkRequest {
            project: at.project,
            dir: place.path.as_ref(),
            depth: None,
            ignored: false,
            hidden: at.hidden,
        },
        pattern,
        glob,
        context: to_usize(context.into()),
        matches_max: to_usize(max.into()),
        bytes_max: ANSWER_BYTES_MAX,
        shown: &|path, bytes| at.redactor.redact_file(path, bytes),
        is_over: at.is_over,
    };
    let found = search(at.root, &wanted).map_err(|error| match error {
        SearchError::Pattern { .. } => {
            ToolError::InvalidArguments { tool: "search_files".to_owned(), problems: vec![error.to_string()] }
        }
        SearchError::Dir(error) => not_opened("search_files", place, error),
    })?;
    let matches: Vec<_> = found
        .matches
        .iter()
        .map(|line| json!({ "path": place.beside(&line.path), "line": line.line, "text": line.text }))
        .collect();
    Ok(ToolOutput { result: json!({ "matches": matches, "truncated": found.truncated }), seen: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_whole_lines_and_says_whether_more_follows() {
        let text = "a\nb\nc";
        assert_eq!(window(text, 1, 2000), ("a\nb\nc", 3, false));
        assert_eq!(window(text, 2, 1), ("b\n", 3, true));
        assert_eq!(window(text, 3, 1), ("c", 3, false));
        assert_eq!(window(text, 9, 1), ("", 3, false));
        assert_eq!(window("", 1, 1), ("", 0, false));
        let lines = format!("{}\n", "x".repeat(READ_BYTES_MAX / 2)).repeat(3);
        let (shown, total, truncated) = window(&lines, 1, 9);
        assert_eq!((shown.len(), total, truncated), (READ_BYTES_MAX / 2 + 1, 3, true), "cut at a line end");
        let long = "ä".repeat(READ_BYTES_MAX);
        let (shown, total, truncated) = window(&long, 1, 1);
        assert_eq!((shown.len(), total, truncated), (READ_BYTES_MAX, 1, true));
    }
}
