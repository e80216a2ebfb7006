//! What a setting can be: its shape, its value, and which of two values is the stricter one.
//!
//! # Invariants
//! 1. A [`Value`] that came out of [`Shape::parse`] or [`Shape::take`] is within its bounds.
//! 2. What [`Value::typed`] prints, [`Shape::parse`] reads back as the same value.

use std::time::Duration;

use domain::Automation;
use engine::definition::is_name;

use super::models::money_text;
use crate::money;
use crate::time::{parse_duration, typed};

/// The word for no limit.
const NO_LIMIT: &str = "none";

/// What a setting can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One of these words, the strictest first.
    Word(&'static [&'static str]),
    /// A whole number within bounds.
    Count {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A duration within bounds.
    Span {
        /// The shortest, in seconds.
        min_s: u64,
        /// The longest, in seconds.
        max_s: u64,
    },
    /// A list of words.
    Words,
    /// A path, or nothing.
    Path,
    /// A name in one word, or nothing.
    Name,
    /// A profile of automation: which there are, the user's file says.
    Profile,
    /// Dollars, or `none` for no limit.
    Money,
}

/// What a setting is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A word.
    Word(String),
    /// A number.
    Count(u64),
    /// A duration.
    Span(Duration),
    /// A list of words.
    Words(Vec<String>),
    /// A path; empty for none.
    Path(String),
    /// Millionths of a dollar; none for no limit.
    Money(Option<u64>),
}

impl Shape {
    /// What is allowed, in words that follow "it takes".
    pub fn allowed(&self) -> String {
        match self {
            Shape::Word(words) => format!("one of {}", words.join(", ")),
            Shape::Count { min, max } => format!("a whole number from {min} to {max}"),
            Shape::Span { min_s, max_s } => {
                let bound = |seconds: &u64| typed(Duration::from_secs(*seconds));
                format!("a duration from {} to {}, like 30s, 10m or 2h", bound(min_s), bound(max_s))
            }
            Shape::Words => "a list, like `a,b` on the command line or [\"a\", \"b\"] in a file".to_owned(),
            Shape::Path => "an absolute path, or one that begins with `~/`".to_owned(),
            Shape::Name => "a name without spaces".to_owned(),
            Shape::Profile => {
                format!("one of {}, or an [automation.NAME] of yours", Automation::NAMES.join(", "))
            }
            Shape::Money => format!("{}, or none", money::ALLOWED),
        }
    }

    /// The value in this text of a command line or a variable.
    ///
    /// # Errors
    /// It is not allowed; [`Shape::allowed`] says what is.
    pub fn parse(&self, text: &str) -> Result<Value, NotAllowed> {
        match self {
            Shape::Word(words) if words.contains(&text) => Ok(Value::Word(text.to_owned())),
            Shape::Word(_) => Err(NotAllowed),
            Shape::Count { min, max } => match text.parse::<u64>() {
                Ok(count) if (*min..=*max).contains(&count) => Ok(Value::Count(count)),
                Ok(_) | Err(_) => Err(NotAllowed),
            },
            Shape::Span { min_s, max_s } => match parse_duration(text) {
                Ok(span) if (*min_s..=*max_s).contains(&span.as_secs()) => Ok(Value::Span(span)),
                Ok(_) | Err(_) => Err(NotAllowed),
            },
            Shape::Words => Ok(Value::Words(
                text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            )),
            Shape::Path if text.is_empty() || text.starts_with('/') || text.starts_with("~/") => {
                Ok(Value::Path(text.to_owned()))
            }
            Shape::Path => Err(NotAllowed),
            Shape::Name if text.chars().all(|letter| !letter.is_whitespace() && !letter.is_control()) => {
                Ok(Value::Word(text.to_owned()))
            }
            Shape::Name => Err(NotAllowed),
            Shape::Profile if is_name(text) => Ok(Value::Word(text.to_owned())),
            Shape::Profile => Err(NotAllowed),
            Shape::Money if text == NO_LIMIT => Ok(Value::Money(None)),
            Shape::Money => money::parse(text).map(|micros| Value::Money(Some(micros))).ok_or(NotAllowed),
        }
    }

    /// The value in this item of a TOML file.
    ///
    /// # Errors
    /// It is not allowed, or of another type.
    pub fn take(&self, item: &toml_edit::Value) -> Result<Value, NotAllowed> {
        match self {
            Shape::Count { .. } => {
                let number = item.as_integer().ok_or(NotAllowed)?;
                self.parse(&number.to_string())
            }
            Shape::Words => {
                let items = item.as_array().ok_or(NotAllowed)?;
                let words = items.iter().map(|word| word.as_str().map(str::to_owned).ok_or(NotAllowed));
                Ok(Value::Words(words.collect::<Result<_, _>>()?))
            }
            Shape::Money => self.parse(&money_text(item).ok_or(NotAllowed)?),
            Shape::Word(_) | Shape::Span { .. } | Shape::Path | Shape::Name | Shape::Profile => {
                self.parse(item.as_str().ok_or(NotAllowed)?)
            }
        }
    }

    /// The stricter of two values: the earlier word, the smaller number, all words of both lists.
    pub fn tightened(&self, by_user: &Value, by_project: &Value) -> Value {
        match (by_user, by_project) {
            (Value::Words(ours), Value::Words(theirs)) => {
                let new = theirs.iter().filter(|word| !ours.contains(word));
                Value::Words(ours.iter().chain(new).cloned().collect())
            }
            (ours, theirs) if self.strictness(theirs) < self.strictness(ours) => theirs.clone(),
            (ours, _) => ours.clone(),
        }
    }

    /// Smaller is stricter. Lists and paths have no such order.
    fn strictness(&self, value: &Value) -> u64 {
        match (self, value) {
            (Shape::Word(words), Value::Word(word)) => {
                words.iter().position(|known| known == word).map_or(u64::MAX, |place| place as u64)
            }
            (_, Value::Count(count)) => *count,
            (_, Value::Span(span)) => span.as_secs(),
            (_, Value::Money(micros)) => micros.unwrap_or(u64::MAX),
            (_, Value::Word(_) | Value::Words(_) | Value::Path(_)) => u64::MAX,
        }
    }
}

/// A text that is no value of its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllowed;

impl Value {
    /// As it is typed on a command line.
    pub fn typed(&self) -> String {
        match self {
            Value::Word(text) | Value::Path(text) => text.clone(),
            Value::Count(count) => count.to_string(),
            Value::Span(span) => typed(*span),
            Value::Words(words) => words.join(","),
            Value::Money(micros) => micros.map_or_else(|| NO_LIMIT.to_owned(), money::typed),
        }
    }

    /// As programs read it.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Word(text) | Value::Path(text) => text.as_str().into(),
            Value::Count(count) => (*count).into(),
            Value::Span(_) | Value::Money(_) => self.typed().into(),
            Value::Words(words) => words.clone().into(),
        }
    }

    /// As it stands in a file.
    pub fn to_toml(&self) -> toml_edit::Value {
        match self {
            Value::Word(text) | Value::Path(text) => text.as_str().into(),
            // Bounds keep every count far below this.
            Value::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX).into(),
            Value::Span(_) | Value::Money(_) => self.typed().into(),
            Value::Words(words) => toml_edit::Value::Array(words.iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Shape = Shape::Word(&["manual", "review", "auto"]);

    #[test]
    fn only_what_is_allowed_becomes_a_value() {
        let count = Shape::Count { min: 1, max: 64 };
        assert_eq!(count.parse("64"), Ok(Value::Count(64)));
        for wrong in ["0", "65", "-1", "4.0", "four", ""] {
            assert_eq!(count.parse(wrong), Err(NotAllowed), "{wrong}");
        }
        assert_eq!(LEVELS.parse("Auto"), Err(NotAllowed));
        assert_eq!(Shape::Span { min_s: 1, max_s: 60 }.parse("2m"), Err(NotAllowed));
        assert_eq!(Shape::Words.parse(" a, b ,,"), Ok(Value::Words(vec!["a".into(), "b".into()])));
        assert_eq!(Shape::Path.parse("relative/dir"), Err(NotAllowed));
        assert_eq!(Shape::Name.parse("openai/gpt-5"), Ok(Value::Word("openai/gpt-5".to_owned())));
        assert_eq!(Shape::Name.parse("two words"), Err(NotAllowed));
    }

    #[test]
    fn a_value_of_a_file_has_the_type_of_its_setting() {
        let item = |text: &str| text.parse::<toml_edit::Value>().unwrap();
        assert_eq!(Shape::Count { min: 0, max: 9 }.take(&item("3")), Ok(Value::Count(3)));
        assert_eq!(Shape::Count { min: 0, max: 9 }.take(&item("\"3\"")), Err(NotAllowed));
        assert_eq!(LEVELS.take(&item("true")), Err(NotAllowed));
        assert_eq!(Shape::Words.take(&item("[\"a\", 1]")), Err(NotAllowed));
        assert_eq!(Shape::Words.take(&item("\"a\"")), Err(NotAllowed));
    }

    #[test]
    fn of_two_values_the_stricter_one_holds() {
        let word = |text: &str| Value::Word(text.to_owned());
        assert_eq!(LEVELS.tightened(&word("review"), &word("auto")), word("review"));
        assert_eq!(LEVELS.tightened(&word("review"), &word("manual")), word("manual"));
        let span = |seconds| Value::Span(Duration::from_secs(seconds));
        let shape = Shape::Span { min_s: 1, max_s: 9_000 };
        assert_eq!(shape.tightened(&span(60), &span(7_200)), span(60));
        assert_eq!(shape.tightened(&span(7_200), &span(60)), span(60));
        let words = |text: &str| Shape::Words.parse(text).unwrap();
        assert_eq!(Shape::Words.tightened(&words("a,b"), &words("c,a")), words("a,b,c"));
    }

    #[test]
    fn what_is_typed_reads_back() {
        for (shape, text) in [
            (LEVELS, "auto"),
            (Shape::Words, "a,b"),
            (Shape::Path, "~/x"),
            (Shape::Words, ""),
            (Shape::Money, "2.5"),
            (Shape::Money, "none"),
        ] {
            let value = shape.parse(text).unwrap();
            assert_eq!(shape.parse(&value.typed()), Ok(value.clone()));
            assert_eq!(shape.take(&value.to_toml()), Ok(value));
        }
    }
}
