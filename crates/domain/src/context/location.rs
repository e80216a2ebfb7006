//! Locations of files and lines, the depth to which they are shown, and the view whose rules apply.
//!
//! # Invariants
//! 1. Lines count from 1, and a span holds both its ends.
//! 2. A name of a depth or a view parses back from what is printed.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::id::RootIndex;
use crate::path::RelPath;
use crate::suggest::did_you_mean;

/// The index of a project among the request's projects.
pub type ProjectIndex = RootIndex;

/// A file of a project, or some of its lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FileLocation {
    /// The project.
    pub project: ProjectIndex,
    /// The file.
    #[serde(serialize_with = "shown")]
    pub path: RelPath,
    /// First and last line; `None`: the whole file.
    pub span: Option<(u32, u32)>,
}

impl FileLocation {
    /// A whole file.
    pub fn file(project: ProjectIndex, path: RelPath) -> FileLocation {
        FileLocation { project, path, span: None }
    }

    /// Some lines of a file.
    pub fn lines(project: ProjectIndex, path: RelPath, from: u32, to: u32) -> FileLocation {
        FileLocation { project, path, span: Some((from, to)) }
    }
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        match self.span {
            Some((from, to)) => write!(f, ":{from}-{to}"),
            None => Ok(()),
        }
    }
}

/// A path as it is printed: file names are not always text.
fn shown<S: Serializer>(path: &RelPath, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(path)
}

/// The focus of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Focus {
    /// A file.
    Path(ProjectIndex, #[serde(serialize_with = "shown")] RelPath),
    /// Lines of a file, first and last.
    Lines(ProjectIndex, #[serde(serialize_with = "shown")] RelPath, u32, u32),
    /// Whatever is defined under this name.
    Symbol(String),
}

impl fmt::Display for Focus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Focus::Path(_, path) => write!(f, "{path}"),
            Focus::Lines(_, path, from, to) => write!(f, "{path}:{from}-{to}"),
            Focus::Symbol(name) => f.write_str(name),
        }
    }
}

/// The depth to which a thing is shown, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// That it is there: a file's path, language and length.
    Listing,
    /// Its name.
    Outline,
    /// Its use: its signature and the first line of its documentation.
    Signatures,
    /// All its lines.
    #[default]
    Full,
}

impl Depth {
    /// All of them, the least first.
    pub const ALL: [Depth; 4] = [Depth::Listing, Depth::Outline, Depth::Signatures, Depth::Full];

    /// Its name, as typed and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Depth::Listing => "listing",
            Depth::Outline => "outline",
            Depth::Signatures => "signatures",
            Depth::Full => "full",
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no depth.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no depth `{word}`; depths are listing, outline, signatures, full{}", did_you_mean(.word, Depth::ALL.map(Depth::as_str)))]
pub struct UnknownDepth {
    /// The word.
    pub word: String,
}

impl FromStr for Depth {
    type Err = UnknownDepth;

    fn from_str(word: &str) -> Result<Depth, UnknownDepth> {
        let named = Depth::ALL.into_iter().find(|depth| depth.as_str() == word);
        named.ok_or_else(|| UnknownDepth { word: word.to_owned() })
    }
}

/// The rules that decide what may be seen: a phase's, or those of all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextView {
    /// Whatever has no view of its own.
    #[default]
    Default,
    /// A plan that thinks.
    Strategize,
    /// A plan that works.
    Execute,
}

impl ContextView {
    /// All of them.
    pub const ALL: [ContextView; 3] = [ContextView::Default, ContextView::Strategize, ContextView::Execute];

    /// Its name, as typed and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ContextView::Default => "default",
            ContextView::Strategize => "strategize",
            ContextView::Execute => "execute",
        }
    }
}

impl fmt::Display for ContextView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no view `{word}`; views are default, strategize, execute{}", did_you_mean(.word, ContextView::ALL.map(ContextView::as_str)))]
pub struct UnknownView {
    /// The word.
    pub word: String,
}

impl FromStr for ContextView {
    type Err = UnknownView;

    fn from_str(word: &str) -> Result<ContextView, UnknownView> {
        let named = ContextView::ALL.into_iter().find(|view| view.as_str() == word);
        named.ok_or_else(|| UnknownView { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_ordered_and_parse_back() {
        assert!(Depth::ALL.is_sorted());
        for depth in Depth::ALL {
            assert_eq!(depth.as_str().parse(), Ok(depth));
            assert_eq!(serde_json::to_string(&depth).unwrap(), format!("\"{depth}\""));
        }
        let unknown = "sigantures".parse::<Depth>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "there is no depth `sigantures`; depths are listing, outline, signatures, full; did you mean `signatures`?"
        );
    }

    #[test]
    fn views_parse_back_and_a_phase_name_is_not_an_actor() {
        for view in ContextView::ALL {
            assert_eq!(view.as_str().parse(), Ok(view));
        }
        let unknown = "executor".parse::<ContextView>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "there is no view `executor`; views are default, strategize, execute; did you mean `execute`?"
        );
    }

    #[test]
    fn a_place_is_written_without_bytes_that_forge_lines() {
        let path = RelPath::new(b"a\n## b").unwrap();
        let place = FileLocation::lines(RootIndex(1), path, 3, 9);
        assert_eq!(place.to_string(), r"a\x0A## b:3-9");
        let json = serde_json::to_string(&place).unwrap();
        assert_eq!(json, r#"{"project":1,"path":"a\\x0A## b","span":[3,9]}"#);
    }
}
