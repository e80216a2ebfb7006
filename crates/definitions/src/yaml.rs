//! YAML as a tree in which every key and value has its source position.
//!
//! # Invariants
//! 1. YAML 1.2, one document, no merge keys and no tags of its own; aliases cannot blow a small file up.
//! 2. A key that occurs twice is in the tree twice: the code that reads it reports it, together with all
//!    else.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Location, MergeKeyPolicy, Spanned};

use crate::error::SourcePosition;

/// The number of values that aliases may add to a file.
const ALIASED_VALUES_MAX: usize = 10_000;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlTree {
    pub(crate) at: SourcePosition,
    pub(crate) value: Yaml,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Yaml {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlTree>),
    Map(Vec<(YamlKey, YamlTree)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlKey {
    pub(crate) at: SourcePosition,
    pub(crate) name: String,
}

/// The place at which a text stops being YAML, and the reason.
pub(crate) struct YamlError {
    pub(crate) at: SourcePosition,
    pub(crate) why: String,
}

pub(crate) fn parse(text: &str) -> Result<YamlTree, YamlError> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_VALUES_MAX },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let at = error.location().map_or(SourcePosition::default(), |location| place(&location));
        match tab(text) {
            Some(tab) => {
                YamlError { at: tab, why: "a tab cannot indent a line in YAML: use spaces".to_owned() }
            }
            None => YamlError { at, why: in_our_words(error.without_snippet()) },
        }
    })
}

/// Rewords an error of the YAML reader, which is meant for programmers, for the author of the file.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other errors of the reader are shown in its words")]
fn in_our_words(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "a file is one definition: there is a second document after `---`".to_owned()
        }
        serde_saphyr::Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias refers to a value that contains it".to_owned()
        }
        serde_saphyr::Error::AliasReplayLimitExceeded { .. } => {
            format!("its aliases expand to more than {ALIASED_VALUES_MAX} values")
        }
        serde_saphyr::Error::AliasError { error, .. } => in_our_words(error),
        other => {
            let text = other.to_string();
            let why = text.lines().next().unwrap_or_default().trim();
            format!("this is not valid YAML: {}", without_place(why))
        }
    }
}

/// The message without the place in it: our own place comes before it already.
fn without_place(why: &str) -> &str {
    match why.rfind(" at line ") {
        Some(end) => &why[..end],
        None => why,
    }
}

/// The first line that is indented by a tab. In a text of several lines one may be meant: it is looked for
/// only when the whole is no YAML.
fn tab(text: &str) -> Option<SourcePosition> {
    let lines = text.lines().zip(1..);
    let mut tabs = lines.filter_map(|(line, number)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let column = indent.find('\t')?;
        (!line.trim().is_empty()).then_some(SourcePosition { line: number, column: column as u64 + 1 })
    });
    tabs.next()
}

fn place(location: &Location) -> SourcePosition {
    SourcePosition { line: location.line(), column: location.column() }
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<YamlTree, D::Error> {
        let spanned: Spanned<Yaml> = Spanned::deserialize(deserializer)?;
        Ok(YamlTree { at: place(&spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Yaml, D::Error> {
        deserializer.deserialize_any(AnyYaml)
    }
}

struct AnyYaml;

impl<'de> Visitor<'de> for AnyYaml {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, null, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_none<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Yaml, D::Error> {
        deserializer.deserialize_any(AnyYaml)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Yaml, E> {
        Ok(Number::from_f64(value).map_or_else(|| Yaml::Text(value.to_string()), Yaml::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<KeyName>>()? {
            let at = place(&key.referenced);
            map.push((YamlKey { at, name: key.value.0 }, entries.next_value()?));
        }
        Ok(Yaml::Map(map))
    }
}

/// A key, as text whatever it is.
struct KeyName(String);

impl<'de> Deserialize<'de> for KeyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyName, D::Error> {
        struct AnyKey;
        impl Visitor<'_> for AnyKey {
            type Value = KeyName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text as key")
            }

            fn visit_str<E>(self, value: &str) -> Result<KeyName, E> {
                Ok(KeyName(value.to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<KeyName, E> {
                Ok(KeyName(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<KeyName, E> {
                Ok(KeyName(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<KeyName, E> {
                Ok(KeyName(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<KeyName, E> {
                Ok(KeyName(value.to_string()))
            }

            fn visit_unit<E>(self) -> Result<KeyName, E> {
                Ok(KeyName("null".to_owned()))
            }
        }
        deserializer.deserialize_any(AnyKey)
    }
}

impl YamlTree {
    /// The entries of a list; none of all else.
    pub(crate) fn items(&self) -> &[YamlTree] {
        match &self.value {
            Yaml::List(items) => items,
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::Map(_) => &[],
        }
    }

    /// Its kind, for a sentence.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Yaml::Null => "nothing",
            Yaml::Boolean(_) => "true or false",
            Yaml::Number(_) => "a number",
            Yaml::Text(_) => "a text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a map",
        }
    }

    /// As JSON; of a key that occurs twice the last one.
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Boolean(value) => Value::Bool(*value),
            Yaml::Number(number) => Value::Number(number.clone()),
            Yaml::Text(text) => Value::String(text.clone()),
            Yaml::List(items) => Value::Array(items.iter().map(YamlTree::to_json).collect()),
            Yaml::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.name.clone(), value.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}
