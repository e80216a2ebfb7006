//! The path of a value: `args.from`, `nodes.survey.json.files`.
//!
//! # Invariants
//! A path has at least one segment; segments have letters, digits, `_`, `-` and, for nodes of nested actors,
//! `/`.

use std::fmt;

/// Limits how long a path may be.
const PATH_CHARS_MAX: usize = 300;

/// The path of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplatePath {
    segments: Vec<String>,
}

/// The reason why a text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFlaw {
    /// Nothing, or nothing between two dots.
    #[error("names no value")]
    Empty,
    /// A letter that no path has.
    #[error("is not a path of a value: names have letters, digits, `_` and `-`, with `.` between them")]
    Letter,
    /// Longer than any path.
    #[error("is too long for the path of a value")]
    TooLong,
}

impl TemplatePath {
    /// Reads a path.
    ///
    /// # Errors
    /// Returns an error if the text is no path.
    pub fn parse(text: &str) -> Result<TemplatePath, PathFlaw> {
        if text.chars().count() > PATH_CHARS_MAX {
            return Err(PathFlaw::TooLong);
        }
        if text.split('.').any(str::is_empty) {
            return Err(PathFlaw::Empty);
        }
        if !text.chars().all(|c| c == '.' || is_path_char(c)) {
            return Err(PathFlaw::Letter);
        }
        Ok(TemplatePath { segments: text.split('.').map(str::to_owned).collect() })
    }

    /// The path of what a node left; `rest` begins with the field.
    pub fn of_node(node: &str, rest: &[String]) -> TemplatePath {
        let head = ["nodes".to_owned(), node.to_owned()];
        TemplatePath { segments: head.into_iter().chain(rest.iter().cloned()).collect() }
    }

    /// Its parts.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The node that it is about, and what of it.
    pub fn node(&self) -> Option<(&str, &[String])> {
        match &self.segments[..] {
            [nodes, node, rest @ ..] if nodes == "nodes" => Some((node, rest)),
            _ => None,
        }
    }
}

/// Returns whether a path has this letter between its dots.
pub(crate) fn is_path_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-/".contains(letter)
}

impl fmt::Display for TemplatePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.segments.join("."))
    }
}
