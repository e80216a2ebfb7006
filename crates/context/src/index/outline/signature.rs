//! Signatures and the first lines of comments, cut to their bounds.
//!
//! # Invariants
//! 1. A cut never splits a character.
//! 2. A signature that was cut ends with [`CUT`].

use domain::text::first_bytes;

use super::super::Language;
use super::{DOC_BYTES_MAX, SIGNATURE_BYTES_MAX, SIGNATURE_LINES_MAX};

/// The end of a signature that was cut.
pub(super) const CUT: &str = " …";

/// The first lines of `text`, within the bounds of a signature: without annotations before it, comments after
/// it, and the mark that opens the body.
pub(super) fn signature(language: Language, text: &str) -> String {
    let mut lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    let annotations = lines.iter().take_while(|line| line.trim().starts_with('@')).count();
    lines.drain(..annotations.min(lines.len().saturating_sub(1)));
    while lines.len() > 1 && lines.last().is_some_and(|line| is_comment(language, line.trim())) {
        lines.pop();
    }
    let goes_on = lines.len() > SIGNATURE_LINES_MAX;
    lines.truncate(SIGNATURE_LINES_MAX);
    let joined = lines.join("\n");
    let opening = if language == Language::Python { ':' } else { '{' };
    let unopened = joined.trim().trim_end_matches(opening).trim_end();
    if !goes_on && unopened.len() <= SIGNATURE_BYTES_MAX {
        return unopened.to_owned();
    }
    format!("{}{CUT}", first_bytes(unopened, SIGNATURE_BYTES_MAX - CUT.len()).trim_end())
}

/// The first line of a comment that says something, without its marks.
pub(super) fn doc_line<'t>(comment: impl Iterator<Item = &'t str>) -> Option<String> {
    let said = comment.map(|line| line.trim().trim_start_matches(MARKS).trim_end_matches(CLOSING).trim());
    let mut worded = said.filter(|line| line.chars().any(char::is_alphanumeric));
    worded.next().map(|line| first_bytes(line, DOC_BYTES_MAX).to_owned())
}

/// The characters that end comments and docstrings.
const CLOSING: [char; 4] = ['*', '/', '"', '\''];

/// The characters that begin comments in all languages.
const MARKS: [char; 9] = ['/', '*', '#', '!', '-', '"', '\'', ';', ' '];

/// The first of the comment and attribute lines right above a line (both from 1).
pub(super) fn attached_from(language: Language, lines: &[&str], line: u32) -> u32 {
    let mut first = line;
    while let Some(above) = first.checked_sub(2).and_then(|place| lines.get(place as usize)) {
        let above = above.trim();
        if !(is_comment(language, above) || is_attribute(language, above)) {
            break;
        }
        first -= 1;
    }
    first
}

#[allow(clippy::wildcard_enum_match_arm, reason = "most languages have the comments of C")]
pub(super) fn is_comment(language: Language, line: &str) -> bool {
    match language {
        Language::Python
        | Language::Ruby
        | Language::Shell
        | Language::Perl
        | Language::Elixir
        | Language::Make => line.starts_with('#'),
        Language::Lua | Language::Sql => line.starts_with("--"),
        _ => {
            line.starts_with("//") || line.starts_with("/*") || line.starts_with('*') || line.ends_with("*/")
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "annotations look alike in the others")]
fn is_attribute(language: Language, line: &str) -> bool {
    match language {
        Language::Rust | Language::Php => line.starts_with("#[") && line.ends_with(']'),
        Language::CSharp => line.starts_with('[') && line.ends_with(']'),
        Language::C | Language::Cpp => line.starts_with("template"),
        _ => line.starts_with('@'),
    }
}
