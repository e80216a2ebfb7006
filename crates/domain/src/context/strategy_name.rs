//! The name of a strategy: `[a-z][a-z0-9]*([_-][a-z0-9]+)*`, at most 64 characters.
//!
//! # Invariants
//! 1. Every [`Name`] satisfies the rule; it is checked where text becomes a name, and nowhere else.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The most characters of a name.
const CHARS_MAX: usize = 64;

/// A checked name. `Clone` is cheap.
///
/// ```
/// use domain::context::{Name, NameError};
///
/// let name: Name = "simple-keyword".parse()?;
/// assert_eq!(name.as_str(), "simple-keyword");
/// assert_eq!("".parse::<Name>(), Err(NameError::Empty));
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Text that is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no text.
    #[error("name is empty, expected a letter a-z first")]
    Empty,
    /// There is too much text.
    #[error("name has {chars} characters, allowed are 64")]
    TooLong {
        /// The number of its characters.
        chars: usize,
    },
    /// A character is at a place where the rule does not allow it.
    #[error("name `{name}` has {found:?} at {at}, expected words of a-z and 0-9 joined by `-` or `_`")]
    Misplaced {
        /// The text.
        name: String,
        /// The character; of a text that ends too early its last one.
        found: char,
        /// Its place, in characters from 0.
        at: usize,
    },
}

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name for a strategy that does not report its own.
    pub fn unnamed() -> Self {
        Self("unnamed".into())
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let chars = text.chars().count();
        if chars == 0 {
            return Err(NameError::Empty);
        }
        if chars > CHARS_MAX {
            return Err(NameError::TooLong { chars });
        }
        match misplaced(text) {
            Some((at, found)) => Err(NameError::Misplaced { name: text.to_owned(), found, at }),
            None => Ok(Self(text.into())),
        }
    }
}

/// The first character that breaks the rule, if one does.
fn misplaced(text: &str) -> Option<(usize, char)> {
    let mut at_word_start = true;
    for (at, found) in text.chars().enumerate() {
        let is_allowed = match found {
            'a'..='z' => true,
            '0'..='9' => at > 0,
            '-' | '_' => !at_word_start,
            _ => false,
        };
        if !is_allowed {
            return Some((at, found));
        }
        at_word_start = matches!(found, '-' | '_');
    }
    let last = text.chars().enumerate().last();
    last.filter(|_| at_word_start)
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.0)
    }
}
