//! The value of a setting: its shape, its value, and the stricter one of two values.
//!
//! # Invariants
//! 1. A [`SettingValue`] that came out of [`ValueShape::parse`] or [`ValueShape::take`] is within its bounds.
//! 2. [`ValueShape::parse`] reads the text of [`SettingValue::to_input_string`] back as the same value.

use std::time::Duration;

use ::definitions::is_name;
use domain::money;
use domain::{Automation, Invariant};

use super::invariants;
use super::models::money_text;
use crate::time::{format_typed, parse_duration};

/// The word for no limit.
const NO_LIMIT: &str = "none";
/// The word for what holds elsewhere.
const INHERIT: &str = "inherit";

/// The possible values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
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
    /// Globs; those of a project apply in addition to the user's.
    Globs,
    /// As another shape has it, or `inherit` for what holds elsewhere.
    OrInherit(&'static ValueShape),
    /// Conditions that must hold: sentences and rules.
    Invariants,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
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
    /// The value of the other level.
    Inherit,
    /// The conditions that must hold.
    Invariants(Vec<Invariant>),
}

impl ValueShape {
    /// Returns the allowed values, in words that follow "it takes".
    pub fn allowed(&self) -> String {
        match self {
            ValueShape::Word(words) => format!("one of {}", words.join(", ")),
            ValueShape::Count { min, max } => format!("a whole number from {min} to {max}"),
            ValueShape::Span { min_s, max_s } => domain::allowed_durations(*min_s, *max_s),
            ValueShape::Words => {
                "a list, like `a,b` on the command line or [\"a\", \"b\"] in a file".to_owned()
            }
            ValueShape::Path => "an absolute path, or one that begins with `~/`".to_owned(),
            ValueShape::Name => "a name without spaces".to_owned(),
            ValueShape::Model => {
                "a model as PROVIDER/NAME, like ollama/qwen3-coder or openai/gpt-5".to_owned()
            }
            ValueShape::Profile => {
                format!("one of {}, or an [automation.NAME] of yours", Automation::NAMES.join(", "))
            }
            ValueShape::Money => format!("{}, or none", money::ALLOWED),
            ValueShape::Millis { min_ms, max_ms } => {
                format!("a duration from {} to {}, like 500ms or 3s", short(*min_ms), short(*max_ms))
            }
            ValueShape::Decimal { max } => format!("a number from 0 to {}, like 0.25", decimal(*max)),
            ValueShape::CountOrAny { max } => format!("a whole number from 0 to {max}, where 0 is no bound"),
            ValueShape::Chosen(words) => format!("some of {}", words.join(", ")),
            ValueShape::Globs => "a list of globs, like `src/**,*.md` on the command line".to_owned(),
            ValueShape::OrInherit(shape) => format!("{}, or {INHERIT}", shape.allowed()),
            ValueShape::Invariants => invariants::ALLOWED.to_owned(),
        }
    }

    /// Returns the reason why this text of a command line or a variable is no value, in words that follow "it
    /// takes".
    pub fn why_not(&self, text: &str) -> String {
        match self {
            // Of several invariants the wrong one is reported.
            ValueShape::Invariants => invariants::parse(text).err().unwrap_or_else(|| self.allowed()),
            ValueShape::Word(_)
            | ValueShape::Count { .. }
            | ValueShape::Span { .. }
            | ValueShape::Words
            | ValueShape::Path
            | ValueShape::Name
            | ValueShape::Model
            | ValueShape::Profile
            | ValueShape::Money
            | ValueShape::Millis { .. }
            | ValueShape::Decimal { .. }
            | ValueShape::CountOrAny { .. }
            | ValueShape::Chosen(_)
            | ValueShape::Globs
            | ValueShape::OrInherit(_) => self.allowed(),
        }
    }

    /// The value in this text of a command line or a variable.
    ///
    /// # Errors
    /// It is not allowed; [`ValueShape::allowed`] says what is.
    pub fn parse(&self, text: &str) -> Result<SettingValue, NotAllowed> {
        match self {
            ValueShape::Word(words) if words.contains(&text) => Ok(SettingValue::Word(text.to_owned())),
            ValueShape::Word(_) => Err(NotAllowed),
            ValueShape::Count { min, max } => match text.parse::<u64>() {
                Ok(count) if (*min..=*max).contains(&count) => Ok(SettingValue::Count(count)),
                Ok(_) | Err(_) => Err(NotAllowed),
            },
            ValueShape::Span { min_s, max_s } => match parse_duration(text) {
                Ok(span) if (*min_s..=*max_s).contains(&span.as_secs()) => Ok(SettingValue::Span(span)),
                Ok(_) | Err(_) => Err(NotAllowed),
            },
            ValueShape::Words => Ok(SettingValue::Words(words_of(text))),
            ValueShape::Path if text.is_empty() || text.starts_with('/') || text.starts_with("~/") => {
                Ok(SettingValue::Path(text.to_owned()))
            }
            ValueShape::Path => Err(NotAllowed),
            ValueShape::Name
                if text.chars().all(|letter| !letter.is_whitespace() && !letter.is_control()) =>
            {
                Ok(SettingValue::Word(text.to_owned()))
            }
            ValueShape::Name => Err(NotAllowed),
            ValueShape::Model => match text.split_once('/') {
                None if !text.is_empty() => Err(NotAllowed),
                Some((provider, name)) if provider.is_empty() || name.is_empty() => Err(NotAllowed),
                Some(_) | None => ValueShape::Name.parse(text),
            },
            ValueShape::Profile if is_name(text) => Ok(SettingValue::Word(text.to_owned())),
            ValueShape::Profile => Err(NotAllowed),
            ValueShape::Money if text == NO_LIMIT => Ok(SettingValue::Money(None)),
            ValueShape::Money => {
                money::parse(text).map(|micros| SettingValue::Money(Some(micros))).ok_or(NotAllowed)
            }
            ValueShape::Millis { min_ms, max_ms } => match short_span(text) {
                Some(ms) if (*min_ms..=*max_ms).contains(&ms) => {
                    Ok(SettingValue::Span(Duration::from_millis(ms)))
                }
                Some(_) | None => Err(NotAllowed),
            },
            ValueShape::Decimal { max } => {
                hundredths(text).filter(|found| found <= max).map(SettingValue::Decimal).ok_or(NotAllowed)
            }
            ValueShape::CountOrAny { max } => ValueShape::Count { min: 0, max: *max }.parse(text),
            ValueShape::Chosen(known) => chosen(words_of(text), known),
            ValueShape::Globs => Ok(SettingValue::Words(words_of(text))),
            ValueShape::OrInherit(_) if text == INHERIT => Ok(SettingValue::Inherit),
            ValueShape::OrInherit(shape) => shape.parse(text),
            ValueShape::Invariants => {
                invariants::parse(text).map(SettingValue::Invariants).map_err(|_| NotAllowed)
            }
        }
    }

    /// The value in this item of a TOML file.
    ///
    /// # Errors
    /// It is not allowed, or of another type.
    pub fn take(&self, item: &toml_edit::Value) -> Result<SettingValue, NotAllowed> {
        match self {
            ValueShape::Count { .. } | ValueShape::CountOrAny { .. } => {
                let number = item.as_integer().ok_or(NotAllowed)?;
                self.parse(&number.to_string())
            }
            ValueShape::Words | ValueShape::Globs => words_in(item).map(SettingValue::Words),
            ValueShape::Chosen(known) => chosen(words_in(item)?, known),
            ValueShape::Money | ValueShape::Decimal { .. } => {
                self.parse(&money_text(item).ok_or(NotAllowed)?)
            }
            ValueShape::OrInherit(_) if item.as_str() == Some(INHERIT) => Ok(SettingValue::Inherit),
            ValueShape::OrInherit(shape) => shape.take(item),
            ValueShape::Invariants => {
                invariants::take(item).map(SettingValue::Invariants).map_err(|_| NotAllowed)
            }
            ValueShape::Word(_)
            | ValueShape::Span { .. }
            | ValueShape::Millis { .. }
            | ValueShape::Path
            | ValueShape::Name
            | ValueShape::Model
            | ValueShape::Profile => self.parse(item.as_str().ok_or(NotAllowed)?),
        }
    }

    /// Returns the stricter of two values: the earlier word, the smaller number, all words of both lists; of
    /// lists that choose, the words in both.
    pub fn tightened(&self, by_user: &SettingValue, by_project: &SettingValue) -> SettingValue {
        if let ValueShape::OrInherit(shape) = self {
            return match (by_user, by_project) {
                (SettingValue::Inherit, value) | (value, SettingValue::Inherit) => value.clone(),
                (ours, theirs) => shape.tightened(ours, theirs),
            };
        }
        match (by_user, by_project) {
            (SettingValue::Words(ours), SettingValue::Words(theirs))
                if matches!(self, ValueShape::Chosen(_)) =>
            {
                SettingValue::Words(ours.iter().filter(|word| theirs.contains(word)).cloned().collect())
            }
            // A file that is shown must match a glob of each: the project's are the narrower ones.
            (SettingValue::Words(ours), SettingValue::Words(theirs)) if *self == ValueShape::Globs => {
                SettingValue::Words(if theirs.is_empty() { ours.clone() } else { theirs.clone() })
            }
            (SettingValue::Words(ours), SettingValue::Words(theirs)) => {
                let new = theirs.iter().filter(|word| !ours.contains(word));
                SettingValue::Words(ours.iter().chain(new).cloned().collect())
            }
            (SettingValue::Invariants(ours), SettingValue::Invariants(theirs)) => {
                let new = theirs.iter().filter(|one| !ours.contains(one));
                SettingValue::Invariants(ours.iter().chain(new).cloned().collect())
            }
            (ours, theirs) if self.strictness(theirs) < self.strictness(ours) => theirs.clone(),
            (ours, _) => ours.clone(),
        }
    }

    /// Smaller is stricter. Lists and paths have no such order.
    fn strictness(&self, value: &SettingValue) -> u64 {
        match (self, value) {
            (ValueShape::Word(words), SettingValue::Word(word)) => {
                words.iter().position(|known| known == word).map_or(u64::MAX, |place| place as u64)
            }
            (ValueShape::CountOrAny { .. }, SettingValue::Count(0)) => u64::MAX,
            (_, SettingValue::Count(count)) => *count,
            (_, SettingValue::Span(span)) => u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            (_, SettingValue::Money(micros)) => micros.unwrap_or(u64::MAX),
            (_, SettingValue::Decimal(hundredths)) => u64::from(*hundredths),
            (
                _,
                SettingValue::Word(_)
                | SettingValue::Words(_)
                | SettingValue::Path(_)
                | SettingValue::Inherit
                | SettingValue::Invariants(_),
            ) => u64::MAX,
        }
    }
}

fn words_of(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn chosen(words: Vec<String>, known: &[&str]) -> Result<SettingValue, NotAllowed> {
    let is_known = words.iter().all(|word| known.contains(&word.as_str()));
    if is_known { Ok(SettingValue::Words(words)) } else { Err(NotAllowed) }
}

fn words_in(item: &toml_edit::Value) -> Result<Vec<String>, NotAllowed> {
    let items = item.as_array().ok_or(NotAllowed)?;
    items.iter().map(|word| word.as_str().map(str::to_owned).ok_or(NotAllowed)).collect()
}

/// A duration as it is typed, in milliseconds where it has such.
fn short(ms: u64) -> String {
    match ms % 1_000 {
        0 => format_typed(Duration::from_millis(ms)),
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

impl SettingValue {
    /// As it is typed on a command line.
    pub fn to_input_string(&self) -> String {
        match self {
            SettingValue::Word(text) | SettingValue::Path(text) => text.clone(),
            SettingValue::Count(count) => count.to_string(),
            SettingValue::Span(span) => short(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            SettingValue::Decimal(hundredths) => decimal(*hundredths),
            SettingValue::Inherit => INHERIT.to_owned(),
            SettingValue::Invariants(all) => invariants::to_input_string(all),
            SettingValue::Words(words) => words.join(","),
            SettingValue::Money(micros) => micros.map_or_else(|| NO_LIMIT.to_owned(), money::format_dollars),
        }
    }

    /// As programs read it.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            SettingValue::Word(text) | SettingValue::Path(text) => text.as_str().into(),
            SettingValue::Count(count) => (*count).into(),
            SettingValue::Span(_) | SettingValue::Money(_) | SettingValue::Inherit => {
                self.to_input_string().into()
            }
            SettingValue::Decimal(hundredths) => (f64::from(*hundredths) / 100.0).into(),
            SettingValue::Words(words) => words.clone().into(),
            SettingValue::Invariants(all) => invariants::to_json(all),
        }
    }

    /// Returns the value in the form of a file.
    pub fn to_toml(&self) -> toml_edit::Value {
        match self {
            SettingValue::Word(text) | SettingValue::Path(text) => text.as_str().into(),
            // Bounds keep every count far below this.
            SettingValue::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX).into(),
            SettingValue::Span(_) | SettingValue::Money(_) | SettingValue::Inherit => {
                self.to_input_string().into()
            }
            SettingValue::Decimal(hundredths) => (f64::from(*hundredths) / 100.0).into(),
            SettingValue::Words(words) => toml_edit::Value::Array(words.iter().collect()),
            SettingValue::Invariants(all) => invariants::to_toml(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: ValueShape = ValueShape::Word(&["manual", "review", "auto"]);

    #[test]
    fn only_what_is_allowed_becomes_a_value() {
        let count = ValueShape::Count { min: 1, max: 64 };
        assert_eq!(count.parse("64"), Ok(SettingValue::Count(64)));
        for wrong in ["0", "65", "-1", "4.0", "four", ""] {
            assert_eq!(count.parse(wrong), Err(NotAllowed), "{wrong}");
        }
        assert_eq!(LEVELS.parse("Auto"), Err(NotAllowed));
        assert_eq!(ValueShape::Span { min_s: 1, max_s: 60 }.parse("2m"), Err(NotAllowed));
        assert_eq!(
            ValueShape::Words.parse(" a, b ,,"),
            Ok(SettingValue::Words(vec!["a".into(), "b".into()]))
        );
        assert_eq!(ValueShape::Path.parse("relative/dir"), Err(NotAllowed));
        assert_eq!(ValueShape::Name.parse("openai/gpt-5"), Ok(SettingValue::Word("openai/gpt-5".to_owned())));
        assert_eq!(ValueShape::Name.parse("two words"), Err(NotAllowed));
        assert_eq!(ValueShape::Model.parse(""), Ok(SettingValue::Word(String::new())));
        assert_eq!(ValueShape::Model.parse("a/b/c:d"), Ok(SettingValue::Word("a/b/c:d".to_owned())));
        for wrong in ["justname", "/name", "provider/", "a/two words"] {
            assert_eq!(ValueShape::Model.parse(wrong), Err(NotAllowed), "{wrong}");
        }
    }

    #[test]
    fn a_value_of_a_file_has_the_type_of_its_setting() {
        let item = |text: &str| text.parse::<toml_edit::Value>().unwrap();
        assert_eq!(ValueShape::Count { min: 0, max: 9 }.take(&item("3")), Ok(SettingValue::Count(3)));
        assert_eq!(ValueShape::Count { min: 0, max: 9 }.take(&item("\"3\"")), Err(NotAllowed));
        assert_eq!(LEVELS.take(&item("true")), Err(NotAllowed));
        assert_eq!(ValueShape::Words.take(&item("[\"a\", 1]")), Err(NotAllowed));
        assert_eq!(ValueShape::Words.take(&item("\"a\"")), Err(NotAllowed));
    }

    #[test]
    fn of_two_values_the_stricter_one_holds() {
        let word = |text: &str| SettingValue::Word(text.to_owned());
        assert_eq!(LEVELS.tightened(&word("review"), &word("auto")), word("review"));
        assert_eq!(LEVELS.tightened(&word("review"), &word("manual")), word("manual"));
        let span = |seconds| SettingValue::Span(Duration::from_secs(seconds));
        let shape = ValueShape::Span { min_s: 1, max_s: 9_000 };
        assert_eq!(shape.tightened(&span(60), &span(7_200)), span(60));
        assert_eq!(shape.tightened(&span(7_200), &span(60)), span(60));
        let words = |text: &str| ValueShape::Words.parse(text).unwrap();
        assert_eq!(ValueShape::Words.tightened(&words("a,b"), &words("c,a")), words("a,b,c"));
        assert_eq!(ValueShape::Chosen(&["a", "b", "c"]).tightened(&words("a,b"), &words("c,a")), words("a"));
        assert_eq!(ValueShape::Globs.tightened(&words("a"), &words("b")), words("b"));
        assert_eq!(ValueShape::Globs.tightened(&words("a"), &words("")), words("a"));
        let any = ValueShape::CountOrAny { max: 9 };
        assert_eq!(any.tightened(&SettingValue::Count(0), &SettingValue::Count(5)), SettingValue::Count(5));
        assert_eq!(any.tightened(&SettingValue::Count(3), &SettingValue::Count(0)), SettingValue::Count(3));
        let own = ValueShape::OrInherit(&ValueShape::Count { min: 1, max: 9 });
        assert_eq!(own.tightened(&SettingValue::Inherit, &SettingValue::Count(5)), SettingValue::Count(5));
        assert_eq!(own.tightened(&SettingValue::Count(4), &SettingValue::Count(5)), SettingValue::Count(4));
        let ms = ValueShape::Millis { min_ms: 50, max_ms: 60_000 };
        let short = |text: &str| ms.parse(text).unwrap();
        assert_eq!(ms.tightened(&short("3s"), &short("500ms")), short("500ms"));
    }

    #[test]
    fn what_is_typed_reads_back() {
        for (shape, text) in [
            (LEVELS, "auto"),
            (ValueShape::Words, "a,b"),
            (ValueShape::Path, "~/x"),
            (ValueShape::Words, ""),
            (ValueShape::Money, "2.5"),
            (ValueShape::Money, "none"),
            (ValueShape::Millis { min_ms: 1, max_ms: 9_000 }, "2s"),
            (ValueShape::Millis { min_ms: 1, max_ms: 9_000 }, "250ms"),
            (ValueShape::Decimal { max: 1_000 }, "0.7"),
            (ValueShape::Decimal { max: 1_000 }, "10"),
            (ValueShape::Invariants, "[\"Keep it small\", { never = [\"a,b\", \"c\"] }]"),
            (ValueShape::Invariants, ""),
            (ValueShape::OrInherit(&ValueShape::Globs), "inherit"),
            (ValueShape::OrInherit(&ValueShape::Count { min: 0, max: 9 }), "4"),
        ] {
            let value = shape.parse(text).unwrap();
            assert_eq!(shape.parse(&value.to_input_string()), Ok(value.clone()));
            assert_eq!(shape.take(&value.to_toml()), Ok(value));
        }
    }
}
