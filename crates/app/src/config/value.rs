//! What a setting can be: its shape, its value, and which of two values is the stricter one.
//!
//! # Invariants
//! 1. A [`Value`] that came out of [`Shape::parse`] or [`Shape::take`] is within its bounds.
//! 2. What [`Value::typed`] prints, [`Shape::parse`] reads back as the same value.

use std::time::Duration;

use ::definitions::is_name;
use domain::money;
use domain::{Automation, Invariant};

use super::invariants;
use super::models::money_text;
use crate::time::{parse_duration, typed};

/// The word for no limit.
const NO_LIMIT: &str = "none";
/// The word for what holds elsewhere.
const INHERIT: &str = "inherit";

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
    /// A model as `PROVIDER/NAME`, or nothing.
    Model,
    /// A profile of automation: which there are, the user's file says.
    Profile,
    /// Dollars, or `none` for no limit.
    Money,
    /// A short duration within bounds.
    Millis {
        /// The shortest, in milliseconds.
        min_ms: u64,
        /// The longest, in milliseconds.
        max_ms: u64,
    },
    /// A number with two decimals, from 0 on.
    Decimal {
        /// The largest, in hundredths.
        max: u32,
    },
    /// A whole number, of which 0 is no bound.
    CountOrAny {
        /// The largest.
        max: u64,
    },
    /// Some of these words; a project can only take some away.
    Chosen(&'static [&'static str]),
    /// Globs; those of a project hold beside the user's.
    Globs,
    /// As another shape has it, or `inherit` for what holds elsewhere.
    OrInherit(&'static Shape),
    /// What must hold: sentences and rules.
    Invariants,
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
    /// Hundredths.
    Decimal(u32),
    /// What holds elsewhere.
    Inherit,
    /// What must hold.
    Invariants(Vec<Invariant>),
}

impl Shape {
    /// What is allowed, in words that follow "it takes".
    pub fn allowed(&self) -> String {
        match self {
            Shape::Word(words) => format!("one of {}", words.join(", ")),
            Shape::Count { min, max } => format!("a whole number from {min} to {max}"),
            Shape::Span { min_s, max_s } => domain::allowed_durations(*min_s, *max_s),
            Shape::Words => "a list, like `a,b` on the command line or [\"a\", \"b\"] in a file".to_owned(),
            Shape::Path => "an absolute path, or one that begins with `~/`".to_owned(),
            Shape::Name => "a name without spaces".to_owned(),
            Shape::Model => "a model as PROVIDER/NAME, like ollama/qwen3-coder or openai/gpt-5".to_owned(),
            Shape::Profile => {
                format!("one of {}, or an [automation.NAME] of yours", Automation::NAMES.join(", "))
            }
            Shape::Money => format!("{}, or none", money::ALLOWED),
            Shape::Millis { min_ms, max_ms } => {
                format!("a duration from {} to {}, like 500ms or 3s", short(*min_ms), short(*max_ms))
            }
            Shape::Decimal { max } => format!("a number from 0 to {}, like 0.25", decimal(*max)),
            Shape::CountOrAny { max } => format!("a whole number from 0 to {max}, where 0 is no bound"),
            Shape::Chosen(words) => format!("some of {}", words.join(", ")),
            Shape::Globs => "a list of globs, like `src/**,*.md` on the command line".to_owned(),
            Shape::OrInherit(shape) => format!("{}, or {INHERIT}", shape.allowed()),
            Shape::Invariants => invariants::ALLOWED.to_owned(),
        }
    }

    /// Why this text of a command line or a variable is no value, in words that follow "it takes".
    pub fn why_not(&self, text: &str) -> String {
        match self {
            // Of several the one that is wrong is told.
            Shape::Invariants => invariants::parse(text).err().unwrap_or_else(|| self.allowed()),
            Shape::Word(_)
            | Shape::Count { .. }
            | Shape::Span { .. }
            | Shape::Words
            | Shape::Path
            | Shape::Name
            | Shape::Model
            | Shape::Profile
            | Shape::Money
            | Shape::Millis { .. }
            | Shape::Decimal { .. }
            | Shape::CountOrAny { .. }
            | Shape::Chosen(_)
            | Shape::Globs
            | Shape::OrInherit(_) => self.allowed(),
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
            Shape::Words => Ok(Value::Words(words_of(text))),
            Shape::Path if text.is_empty() || text.starts_with('/') || text.starts_with("~/") => {
                Ok(Value::Path(text.to_owned()))
            }
            Shape::Path => Err(NotAllowed),
            Shape::Name if text.chars().all(|letter| !letter.is_whitespace() && !letter.is_control()) => {
                Ok(Value::Word(text.to_owned()))
            }
            Shape::Name => Err(NotAllowed),
            Shape::Model => match text.split_once('/') {
                None if !text.is_empty() => Err(NotAllowed),
                Some((provider, name)) if provider.is_empty() || name.is_empty() => Err(NotAllowed),
                Some(_) | None => Shape::Name.parse(text),
            },
            Shape::Profile if is_name(text) => Ok(Value::Word(text.to_owned())),
            Shape::Profile => Err(NotAllowed),
            Shape::Money if text == NO_LIMIT => Ok(Value::Money(None)),
            Shape::Money => money::parse(text).map(|micros| Value::Money(Some(micros))).ok_or(NotAllowed),
            Shape::Millis { min_ms, max_ms } => match short_span(text) {
                Some(ms) if (*min_ms..=*max_ms).contains(&ms) => Ok(Value::Span(Duration::from_millis(ms))),
                Some(_) | None => Err(NotAllowed),
            },
            Shape::Decimal { max } => {
                hundredths(text).filter(|found| found <= max).map(Value::Decimal).ok_or(NotAllowed)
            }
            Shape::CountOrAny { max } => Shape::Count { min: 0, max: *max }.parse(text),
            Shape::Chosen(known) => chosen(words_of(text), known),
            Shape::Globs => Ok(Value::Words(words_of(text))),
            Shape::OrInherit(_) if text == INHERIT => Ok(Value::Inherit),
            Shape::OrInherit(shape) => shape.parse(text),
            Shape::Invariants => invariants::parse(text).map(Value::Invariants).map_err(|_| NotAllowed),
        }
    }

    /// The value in this item of a TOML file.
    ///
    /// # Errors
    /// It is not allowed, or of another type.
    pub fn take(&self, item: &toml_edit::Value) -> Result<Value, NotAllowed> {
        match self {
            Shape::Count { .. } | Shape::CountOrAny { .. } => {
                let number = item.as_integer().ok_or(NotAllowed)?;
                self.parse(&number.to_string())
            }
            Shape::Words | Shape::Globs => words_in(item).map(Value::Words),
            Shape::Chosen(known) => chosen(words_in(item)?, known),
            Shape::Money | Shape::Decimal { .. } => self.parse(&money_text(item).ok_or(NotAllowed)?),
            Shape::OrInherit(_) if item.as_str() == Some(INHERIT) => Ok(Value::Inherit),
            Shape::OrInherit(shape) => shape.take(item),
            Shape::Invariants => invariants::take(item).map(Value::Invariants).map_err(|_| NotAllowed),
            Shape::Word(_)
            | Shape::Span { .. }
            | Shape::Millis { .. }
            | Shape::Path
            | Shape::Name
            | Shape::Model
            | Shape::Profile => self.parse(item.as_str().ok_or(NotAllowed)?),
        }
    }

    /// The stricter of two values: the earlier word, the smaller number, all words of both lists; of lists that choose
    /// what stands in both.
    pub fn tightened(&self, by_user: &Value, by_project: &Value) -> Value {
        if let Shape::OrInherit(shape) = self {
            return match (by_user, by_project) {
                (Value::Inherit, value) | (value, Value::Inherit) => value.clone(),
                (ours, theirs) => shape.tightened(ours, theirs),
            };
        }
        match (by_user, by_project) {
            (Value::Words(ours), Value::Words(theirs)) if matches!(self, Shape::Chosen(_)) => {
                Value::Words(ours.iter().filter(|word| theirs.contains(word)).cloned().collect())
            }
            // What is shown must match a glob of each: the project's are the narrower ones.
            (Value::Words(ours), Value::Words(theirs)) if *self == Shape::Globs => {
                Value::Words(if theirs.is_empty() { ours.clone() } else { theirs.clone() })
            }
            (Value::Words(ours), Value::Words(theirs)) => {
                let new = theirs.iter().filter(|word| !ours.contains(word));
                Value::Words(ours.iter().chain(new).cloned().collect())
            }
            (Value::Invariants(ours), Value::Invariants(theirs)) => {
                let new = theirs.iter().filter(|one| !ours.contains(one));
                Value::Invariants(ours.iter().chain(new).cloned().collect())
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
            (Shape::CountOrAny { .. }, Value::Count(0)) => u64::MAX,
            (_, Value::Count(count)) => *count,
            (_, Value::Span(span)) => u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            (_, Value::Money(micros)) => micros.unwrap_or(u64::MAX),
            (_, Value::Decimal(hundredths)) => u64::from(*hundredths),
            (
                _,
                Value::Word(_) | Value::Words(_) | Value::Path(_) | Value::Inherit | Value::Invariants(_),
            ) => u64::MAX,
        }
    }
}

fn words_of(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn chosen(words: Vec<String>, known: &[&str]) -> Result<Value, NotAllowed> {
    let is_known = words.iter().all(|word| known.contains(&word.as_str()));
    if is_known { Ok(Value::Words(words)) } else { Err(NotAllowed) }
}

fn words_in(item: &toml_edit::Value) -> Result<Vec<String>, NotAllowed> {
    let items = item.as_array().ok_or(NotAllowed)?;
    items.iter().map(|word| word.as_str().map(str::to_owned).ok_or(NotAllowed)).collect()
}

/// A duration as it is typed, in milliseconds where it has such.
fn short(ms: u64) -> String {
    match ms % 1_000 {
        0 => typed(Duration::from_millis(ms)),
        _ => format!("{ms}ms"),
    }
}

fn short_span(text: &str) -> Option<u64> {
    match text.strip_suffix("ms") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) | None => u64::try_from(parse_duration(text).ok()?.as_millis()).ok(),
    }
}

/// A number with at most two decimals, in hundredths.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) || part.len() > 2 {
        return None;
    }
    let part: u32 = format!("{part:0<2}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

fn decimal(hundredths: u32) -> String {
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
            Value::Span(span) => short(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            Value::Decimal(hundredths) => decimal(*hundredths),
            Value::Inherit => INHERIT.to_owned(),
            Value::Invariants(all) => invariants::typed(all),
            Value::Words(words) => words.join(","),
            Value::Money(micros) => micros.map_or_else(|| NO_LIMIT.to_owned(), money::typed),
        }
    }

    /// As programs read it.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Word(text) | Value::Path(text) => text.as_str().into(),
            Value::Count(count) => (*count).into(),
            Value::Span(_) | Value::Money(_) | Value::Inherit => self.typed().into(),
            Value::Decimal(hundredths) => (f64::from(*hundredths) / 100.0).into(),
            Value::Words(words) => words.clone().into(),
            Value::Invariants(all) => invariants::to_json(all),
        }
    }

    /// As it stands in a file.
    pub fn to_toml(&self) -> toml_edit::Value {
        match self {
            Value::Word(text) | Value::Path(text) => text.as_str().into(),
            // Bounds keep every count far below this.
            Value::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX).into(),
            Value::Span(_) | Value::Money(_) | Value::Inherit => self.typed().into(),
            Value::Decimal(hundredths) => (f64::from(*hundredths) / 100.0).into(),
            Value::Words(words) => toml_edit::Value::Array(words.iter().collect()),
            Value::Invariants(all) => invariants::to_toml(all),
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
        assert_eq!(Shape::Model.parse(""), Ok(Value::Word(String::new())));
        assert_eq!(Shape::Model.parse("a/b/c:d"), Ok(Value::Word("a/b/c:d".to_owned())));
        for wrong in ["justname", "/name", "provider/", "a/two words"] {
            assert_eq!(Shape::Model.parse(wrong), Err(NotAllowed), "{wrong}");
        }
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
        assert_eq!(Shape::Chosen(&["a", "b", "c"]).tightened(&words("a,b"), &words("c,a")), words("a"));
        assert_eq!(Shape::Globs.tightened(&words("a"), &words("b")), words("b"));
        assert_eq!(Shape::Globs.tightened(&words("a"), &words("")), words("a"));
        let any = Shape::CountOrAny { max: 9 };
        assert_eq!(any.tightened(&Value::Count(0), &Value::Count(5)), Value::Count(5));
        assert_eq!(any.tightened(&Value::Count(3), &Value::Count(0)), Value::Count(3));
        let own = Shape::OrInherit(&Shape::Count { min: 1, max: 9 });
        assert_eq!(own.tightened(&Value::Inherit, &Value::Count(5)), Value::Count(5));
        assert_eq!(own.tightened(&Value::Count(4), &Value::Count(5)), Value::Count(4));
        let ms = Shape::Millis { min_ms: 50, max_ms: 60_000 };
        let short = |text: &str| ms.parse(text).unwrap();
        assert_eq!(ms.tightened(&short("3s"), &short("500ms")), short("500ms"));
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
            (Shape::Millis { min_ms: 1, max_ms: 9_000 }, "2s"),
            (Shape::Millis { min_ms: 1, max_ms: 9_000 }, "250ms"),
            (Shape::Decimal { max: 1_000 }, "0.7"),
            (Shape::Decimal { max: 1_000 }, "10"),
            (Shape::Invariants, "[\"Keep it small\", { never = [\"a,b\", \"c\"] }]"),
            (Shape::Invariants, ""),
            (Shape::OrInherit(&Shape::Globs), "inherit"),
            (Shape::OrInherit(&Shape::Count { min: 0, max: 9 }), "4"),
        ] {
            let value = shape.parse(text).unwrap();
            assert_eq!(shape.parse(&value.typed()), Ok(value.clone()));
            assert_eq!(shape.take(&value.to_toml()), Ok(value));
        }
    }
}
