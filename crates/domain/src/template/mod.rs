//! Text with placeholders: `{{path}}`.
//!
//! `\{{` is a literal `{{`. A path is a value of [`Values`]: `prompt`, `args.from` (or `from`),
//! `nodes.survey.text`.
//!
//! # Invariants
//! 1. One pass: a value is inserted as it is, even if it holds `{{`.
//! 2. A printed [`Template`] is read back as the same template.
//! 3. A value is never taken for an option. A word of an argv that begins with a placeholder and becomes one
//!    that begins with `-` is refused, unless `--` comes before it.
//!
//! # Not here
//! Computation with values: [`crate::expr`]. Shells: a command line has no templates, its values are
//! variables.

mod path;
mod values;

use std::fmt;

pub(crate) use path::is_path_char;
pub use path::{PathFlaw, TemplatePath};
pub use values::{NODE_FIELDS, RESERVED, TemplateScope, UnknownPath, Values, node_value, value_text};

use crate::plan::ByteText;

/// Limits how long a word of an argv may become.
pub const WORD_BYTES_MAX: usize = 100 * 1024;

/// A text with placeholders, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<TemplatePart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Value(TemplatePath),
}

/// The reason why a text is no template, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TemplateFlaw {
    /// The byte of the text that it is about.
    pub at: usize,
    /// The reason why it is wrong.
    pub why: String,
}

/// The reason why no text came out of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// There is no such value.
    #[error("there is no value `{path}`")]
    Unknown {
        /// The requested path.
        path: TemplatePath,
    },
    /// It would be taken for an option.
    #[error("`{word}` would be taken for an option of the program: put `--` before it")]
    LeadingDash {
        /// The word that would result, as far as it is repeated.
        word: String,
    },
    /// A word of an argv is longer than programs take.
    #[error("an argument of {bytes} bytes is more than {WORD_BYTES_MAX}: hand it over with `stdin:`")]
    TooLong {
        /// The length that would result.
        bytes: usize,
    },
    /// It is no template.
    #[error(transparent)]
    Flaw(#[from] TemplateFlaw),
    /// Bytes that are no text cannot hold a placeholder.
    #[error("an argument is not a text")]
    NoText,
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// Returns an error if a placeholder is not closed, or holds no path.
    pub fn parse(source: &str) -> Result<Template, TemplateFlaw> {
        let mut template = Template::default();
        let mut at = 0;
        while let Some(found) = source[at..].find("{{") {
            let open = at + found;
            if source[at..open].ends_with('\\') {
                template.push_text(&source[at..open - 1]);
                template.push_text("{{");
                at = open + 2;
                continue;
            }
            template.push_text(&source[at..open]);
            let inner = open + 2;
            let Some(length) = source[inner..].find("}}") else {
                let why = "`{{` is not closed by `}}`; for a literal write `\\{{`".to_owned();
                return Err(TemplateFlaw { at: open, why });
            };
            let path = TemplatePath::parse(source[inner..inner + length].trim()).map_err(|flaw| {
                let shown = source[open..inner + length + 2].chars().take(60).collect::<String>();
                TemplateFlaw { at: open, why: format!("`{shown}` {flaw}; for a literal write `\\{{{{`") }
            })?;
            template.parts.push(TemplatePart::Value(path));
            at = inner + length + 2;
        }
        template.push_text(&source[at..]);
        Ok(template)
    }

    /// Returns the byte at which a line for the shell holds something that would be a placeholder elsewhere;
    /// `None` if it holds none.
    pub fn found_in(line: &str) -> Option<usize> {
        line.match_indices("{{").map(|(at, _)| at).find(|at| {
            let is_escaped = line[..*at].ends_with('\\');
            let inner = line[at + 2..].split_once("}}").map(|(inner, _)| inner.trim());
            !is_escaped && inner.is_some_and(|inner| TemplatePath::parse(inner).is_ok())
        })
    }

    /// Returns where the placeholders of a text begin, in bytes and in their order.
    pub fn places(source: &str) -> Vec<usize> {
        let (mut places, mut at) = (Vec::new(), 0);
        while let Some(found) = source[at..].find("{{") {
            let open = at + found;
            if source[at..open].ends_with('\\') {
                at = open + 2;
                continue;
            }
            places.push(open);
            at = source[open..].find("}}").map_or(source.len(), |length| open + length + 2);
        }
        places
    }

    /// The paths of its placeholders, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &TemplatePath> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Value(path) => Some(path),
            TemplatePart::Text(_) => None,
        })
    }

    /// The path, when it is nothing but one placeholder.
    pub fn only_path(&self) -> Option<&TemplatePath> {
        match &self.parts[..] {
            [TemplatePart::Value(path)] => Some(path),
            _ => None,
        }
    }

    /// Its text, when it has no placeholder.
    pub fn plain(&self) -> Option<String> {
        self.parts
            .iter()
            .map(|part| match part {
                TemplatePart::Text(text) => Some(text.as_str()),
                TemplatePart::Value(_) => None,
            })
            .collect()
    }

    /// The text with the values in it.
    ///
    /// # Errors
    /// Returns an error if a path names no value.
    pub fn expand(&self, values: &Values) -> Result<String, ExpandError> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(literal) => text.push_str(literal),
                TemplatePart::Value(path) => {
                    let value =
                        values.get(path).ok_or_else(|| ExpandError::Unknown { path: path.clone() })?;
                    text.push_str(&value_text(&value));
                }
            }
        }
        Ok(text)
    }

    /// The template with some of its placeholders replaced by templates.
    ///
    /// # Errors
    /// Returns the text before a placeholder that ends with `\` or `{` and would change its meaning.
    pub fn replace_paths(&self, by: &dyn Fn(&TemplatePath) -> Option<Template>) -> Result<Template, String> {
        let mut template = Template::default();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => template.push_text(text),
                TemplatePart::Value(path) => match by(path) {
                    None => template.parts.push(TemplatePart::Value(path.clone())),
                    Some(other) => other.parts.into_iter().for_each(|part| match part {
                        TemplatePart::Text(text) => template.push_text(&text),
                        TemplatePart::Value(path) => template.parts.push(TemplatePart::Value(path)),
                    }),
                },
            }
        }
        for pair in template.parts.windows(2) {
            if let [TemplatePart::Text(text), TemplatePart::Value(_)] = pair
                && text.ends_with(['\\', '{'])
            {
                return Err(text.clone());
            }
        }
        Ok(template)
    }

    /// A text without placeholders.
    pub fn literal(text: &str) -> Template {
        let mut template = Template::default();
        template.push_text(text);
        template
    }

    /// Nothing but one placeholder.
    pub fn from_path(path: TemplatePath) -> Template {
        Template { parts: vec![TemplatePart::Value(path)] }
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(TemplatePart::Text(last)) => last.push_str(text),
            Some(TemplatePart::Value(_)) | None => self.parts.push(TemplatePart::Text(text.to_owned())),
        }
    }

    /// Returns whether it begins with a placeholder.
    pub fn begins_with_value(&self) -> bool {
        matches!(self.parts.first(), Some(TemplatePart::Value(_)))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => f.write_str(&text.replace("{{", "\\{{"))?,
                TemplatePart::Value(path) => write!(f, "{{{{{path}}}}}")?,
            }
        }
        Ok(())
    }
}

/// The argv with the values in it, word for word: no value becomes two words, and none an option.
///
/// # Errors
/// Returns an error for the first word that cannot be made.
pub fn expand_argv(argv: &[ByteText], values: &Values) -> Result<Vec<ByteText>, ExpandError> {
    let mut words: Vec<ByteText> = Vec::with_capacity(argv.len());
    let mut is_past_options = false;
    for word in argv {
        let source = std::str::from_utf8(word.as_bytes()).map_err(|_| ExpandError::NoText)?;
        let template = Template::parse(source)?;
        let text = template.expand(values)?;
        if text.len() > WORD_BYTES_MAX {
            return Err(ExpandError::TooLong { bytes: text.len() });
        }
        if template.begins_with_value() && text.starts_with('-') && !is_past_options {
            return Err(ExpandError::LeadingDash { word: text.chars().take(60).collect() });
        }
        is_past_options |= source == "--";
        words.push(ByteText::from(text.as_str()));
    }
    Ok(words)
}
