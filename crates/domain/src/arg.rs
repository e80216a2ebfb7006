//! Arguments of an action: their declarations, and the values that a user gives.
//!
//! # Invariants
//! 1. A value that comes out of [`resolve`] is of its declared type and within its bounds, defaults included.
//! 2. Every argument that was declared has a value, and none was given that was not declared; all errors are
//!    reported at once.
//!
//! # Not here
//! The use of values in templates ([`crate::template`]) and commands (`$ARG_NAME`, see [`variable`]).

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::suggest::did_you_mean;
use crate::text::first_chars;

/// Limits how long one value may be.
pub const ARG_BYTES_MAX: usize = 64 * 1024;
/// Limits how many values a list may have.
pub const ARG_ITEMS_MAX: usize = 1_000;
/// Limits how large a compiled pattern may be.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// The limit of a wrong value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// The type of an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgType {
    /// Text.
    #[default]
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Texts, one for each time that it is given.
    List,
}

impl ArgType {
    /// All of them.
    pub const ALL: [ArgType; 5] =
        [ArgType::String, ArgType::Integer, ArgType::Number, ArgType::Boolean, ArgType::List];

    /// Its name, as written.
    pub const fn as_str(self) -> &'static str {
        match self {
            ArgType::String => "string",
            ArgType::Integer => "integer",
            ArgType::Number => "number",
            ArgType::Boolean => "boolean",
            ArgType::List => "list",
        }
    }

    /// Its name in a sentence.
    const fn in_words(self) -> &'static str {
        match self {
            ArgType::String => "a string",
            ArgType::Integer => "an integer",
            ArgType::Number => "a number",
            ArgType::Boolean => "a boolean",
            ArgType::List => "a list",
        }
    }

    /// The type with this name.
    pub fn parse(word: &str) -> Option<ArgType> {
        ArgType::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// An argument as it is declared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Arg {
    /// The type.
    #[serde(rename = "type")]
    pub kind: ArgType,
    /// The default; without one the argument is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// A regular expression that a text, or every text of a list, has to match somewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// All that it can be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Value>,
    /// The smallest number, the fewest letters of a text, the fewest texts of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest, the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// The reason why a plan does not get its arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    /// One has no default and was not given.
    #[error("the argument `{name}` is missing: it is {}{}", kind.in_words(), about(description))]
    Missing {
        /// The name of the argument.
        name: String,
        /// The type.
        kind: ArgType,
        /// For people.
        description: String,
    },
    /// There is none of this name.
    #[error("there is no argument `{name}`{meant}")]
    Unknown {
        /// The given name.
        name: String,
        /// The probable intention, in words.
        meant: String,
    },
    /// The value breaks a rule.
    #[error("the argument `{name}` cannot be `{value}`: {rule}")]
    Invalid {
        /// The name of the argument.
        name: String,
        /// The given value, as far as it is repeated.
        value: String,
        /// The rule.
        rule: String,
    },
}

fn about(description: &str) -> String {
    if description.is_empty() { String::new() } else { format!(" ({description})") }
}

/// The variable in which commands find an argument: `ARG_`, then its name in capitals with `_` for `-`.
pub fn variable(name: &str) -> String {
    format!("ARG_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// The values of all arguments, from what was given as `NAME=TEXT`, lists by repeating.
///
/// # Errors
/// Returns all arguments that are missing, unknown or wrong.
pub fn resolve(
    declared: &BTreeMap<String, Arg>,
    given: &[(String, String)],
) -> Result<BTreeMap<String, Value>, Vec<ArgError>> {
    let mut errors = Vec::new();
    for (at, (name, _)) in given.iter().enumerate() {
        if !declared.contains_key(name) && given[..at].iter().all(|(earlier, _)| earlier != name) {
            let meant = did_you_mean(name, declared.keys().map(String::as_str));
            errors.push(ArgError::Unknown { name: name.clone(), meant });
        }
    }
    let mut values = BTreeMap::new();
    for (name, arg) in declared {
        let texts: Vec<&str> =
            given.iter().filter(|(n, _)| n == name).map(|(_, text)| text.as_str()).collect();
        let value = match (&arg.default, texts.is_empty()) {
            (Some(default), true) => arg.check(default).map(|()| default.clone()),
            (None, true) => {
                let description = arg.description.clone();
                errors.push(ArgError::Missing { name: name.clone(), kind: arg.kind, description });
                continue;
            }
            (_, false) => arg.read(&texts),
        };
        match value {
            Ok(value) => drop(values.insert(name.clone(), value)),
            Err(BrokenArgRule { value, rule }) => {
                errors.push(ArgError::Invalid { name: name.clone(), value, rule })
            }
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

/// A rule that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be `{value}`: {rule}")]
pub struct BrokenArgRule {
    /// The value, as far as it is repeated.
    pub value: String,
    /// The rule.
    pub rule: String,
}

impl Arg {
    /// Returns what is wrong with the declaration itself, a sentence each.
    pub fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        let kind = self.kind.in_words();
        let has_text = matches!(self.kind, ArgType::String | ArgType::List);
        if let Some(pattern) = &self.pattern {
            match compile_pattern(pattern) {
                _ if !has_text => flaws.push(format!("`pattern` is for a string or a list, not for {kind}")),
                Ok(_) => {}
                Err(why) => flaws.push(format!("`pattern` is not a regular expression: {why}")),
            }
        }
        if self.kind == ArgType::Boolean && (self.min.is_some() || self.max.is_some()) {
            flaws.push("`min` and `max` are not for a boolean".to_owned());
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            flaws.push(format!("`min` {min} is above `max` {max}"));
        }
        if flaws.is_empty() {
            let bare = Arg { choices: Vec::new(), ..self.clone() };
            for choice in &self.choices {
                let as_value = match self.kind {
                    ArgType::List => Value::Array(vec![choice.clone()]),
                    ArgType::String | ArgType::Integer | ArgType::Number | ArgType::Boolean => choice.clone(),
                };
                let bare = Arg { min: bare.min.filter(|_| self.kind != ArgType::List), ..bare.clone() };
                flaws.extend(bare.check(&as_value).err().map(|broken| format!("a choice {broken}")));
            }
            let broken = self.default.as_ref().and_then(|default| self.check(default).err());
            flaws.extend(broken.map(|broken| format!("`default` {broken}")));
        }
        flaws
    }

    /// Checks whether it can be this.
    ///
    /// # Errors
    /// Returns the first rule that the value breaks.
    pub fn check(&self, value: &Value) -> Result<(), BrokenArgRule> {
        let broken = |rule: String| Err(BrokenArgRule { value: render_value(value), rule });
        match (self.kind, value) {
            (ArgType::String, Value::String(text)) => {
                self.check_text(text)?;
                self.check_size(value, text.chars().count() as f64, "letters")
            }
            (ArgType::Integer, Value::Number(number)) if is_whole(number) => self.check_number(value, number),
            (ArgType::Number, Value::Number(number)) => self.check_number(value, number),
            (ArgType::Boolean, Value::Bool(_)) => self.check_choice(value),
            (ArgType::List, Value::Array(items)) => {
                for item in items {
                    match item {
                        Value::String(text) => self.check_text(text)?,
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Array(_)
                        | Value::Object(_) => {
                            return Err(BrokenArgRule {
                                value: render_value(item),
                                rule: "a list has texts".to_owned(),
                            });
                        }
                    }
                }
                if items.len() > ARG_ITEMS_MAX {
                    return broken(format!("it has at most {ARG_ITEMS_MAX} texts"));
                }
                self.check_size(value, items.len() as f64, "texts")
            }
            (kind, _) => broken(format!("it has to be {}", kind.in_words())),
        }
    }

    /// The value in what was typed.
    fn read(&self, texts: &[&str]) -> Result<Value, BrokenArgRule> {
        let value = match (self.kind, texts) {
            (ArgType::List, texts) => Value::Array(texts.iter().map(|text| Value::from(*text)).collect()),
            (_, [_, again, ..]) => {
                let rule = "it is given twice, and only a list can be".to_owned();
                return Err(BrokenArgRule { value: truncate(again), rule });
            }
            (ArgType::String, [text]) => Value::from(*text),
            (kind @ (ArgType::Integer | ArgType::Number | ArgType::Boolean), [text]) => {
                match parse_typed(kind, text) {
                    Some(value) => value,
                    None => {
                        let rule = format!("it has to be {}", kind.in_words());
                        return Err(BrokenArgRule { value: truncate(text), rule });
                    }
                }
            }
            (_, []) => Value::Null,
        };
        self.check(&value).map(|()| value)
    }

    fn check_text(&self, text: &str) -> Result<(), BrokenArgRule> {
        let broken = |rule: String| Err(BrokenArgRule { value: truncate(text), rule });
        if text.len() > ARG_BYTES_MAX {
            return broken(format!("it has at most {ARG_BYTES_MAX} bytes"));
        }
        if text.contains('\0') {
            return broken("it holds no NUL".to_owned());
        }
        if let Some(pattern) = &self.pattern {
            match compile_pattern(pattern) {
                Ok(regex) if regex.is_match(text) => {}
                Ok(_) => return broken(format!("it has to match `{pattern}`")),
                Err(why) => {
                    return broken(format!("its pattern `{pattern}` is not a regular expression: {why}"));
                }
            }
        }
        self.check_choice(&Value::from(text))
    }

    fn check_number(&self, value: &Value, number: &Number) -> Result<(), BrokenArgRule> {
        self.check_choice(value)?;
        let number = number.as_f64().unwrap_or(f64::NAN);
        let broken = |rule: String| Err(BrokenArgRule { value: render_value(value), rule });
        match (self.min, self.max) {
            (Some(min), _) if number < min => broken(format!("it is at least {min}")),
            (_, Some(max)) if number > max => broken(format!("it is at most {max}")),
            (_, _) => Ok(()),
        }
    }

    fn check_size(&self, value: &Value, size: f64, of: &str) -> Result<(), BrokenArgRule> {
        let broken = |rule: String| Err(BrokenArgRule { value: render_value(value), rule });
        match (self.min, self.max) {
            (Some(min), _) if size < min => broken(format!("it has at least {min} {of}")),
            (_, Some(max)) if size > max => broken(format!("it has at most {max} {of}")),
            (_, _) => Ok(()),
        }
    }

    fn check_choice(&self, value: &Value) -> Result<(), BrokenArgRule> {
        if self.choices.is_empty() || self.choices.contains(value) {
            return Ok(());
        }
        let choices: Vec<String> = self.choices.iter().map(render_value).collect();
        Err(BrokenArgRule {
            value: render_value(value),
            rule: format!("it is one of {}", choices.join(", ")),
        })
    }
}

fn parse_typed(kind: ArgType, text: &str) -> Option<Value> {
    match kind {
        ArgType::Integer => {
            let positive = text.parse::<u64>().map(Value::from).ok();
            positive.or_else(|| text.parse::<i64>().map(Value::from).ok())
        }
        ArgType::Number => parse_typed(ArgType::Integer, text)
            .or_else(|| Number::from_f64(text.parse().ok()?).map(Value::Number)),
        ArgType::Boolean => text.parse::<bool>().map(Value::from).ok(),
        ArgType::String | ArgType::List => None,
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64()
}

fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        last.trim_start_matches("error: ").to_owned()
    })
}

fn render_value(value: &Value) -> String {
    match value {
        Value::String(text) => truncate(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            truncate(&value.to_string())
        }
    }
}

fn truncate(text: &str) -> String {
    let shown = first_chars(text, SHOWN_CHARS_MAX);
    if shown.len() < text.len() { format!("{shown}…") } else { shown.to_owned() }
}
