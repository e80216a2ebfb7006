//! Reads a tree key by key, and collects its errors.
//!
//! # Invariants
//! Every key of a map is either taken or reported as unknown. Every value that is taken is of the wanted type
//! or reported as wrong.
//!
//! # Not here
//! The error for an unknown key: `unknown_keys`.

use std::cell::RefCell;

use domain::{allowed_durations, did_you_mean, seconds_in};
use serde_json::Value;

use crate::error::{Diagnostic, DiagnosticKind, SourcePosition};
use crate::spans::{LineOffsets, ValueSpan};
use crate::yaml::{Yaml, YamlKey, YamlTree};

/// The file that is being read, and what was found in it.
pub(crate) struct DefinitionReader<'f> {
    file: &'f str,
    lines: LineOffsets<'f>,
    findings: RefCell<Vec<Diagnostic>>,
}

impl<'f> DefinitionReader<'f> {
    /// Of what was read before.
    pub(crate) fn new(file: &'f str) -> DefinitionReader<'f> {
        DefinitionReader::with_text(file, "")
    }

    /// Of a file with this text.
    pub(crate) fn with_text(file: &'f str, text: &'f str) -> DefinitionReader<'f> {
        DefinitionReader { file, lines: LineOffsets::new(text), findings: RefCell::new(Vec::new()) }
    }

    pub(crate) fn lines(&self) -> &LineOffsets<'f> {
        &self.lines
    }

    /// Returns the position of a value, and of what is within it.
    pub(crate) fn spot(&self, tree: &YamlTree) -> ValueSpan {
        match &tree.value {
            Yaml::Text(text) => self.lines.spot(tree.at, text),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::List(_) | Yaml::Map(_) => {
                ValueSpan::only(tree.at)
            }
        }
    }

    pub(crate) fn findings(self) -> Vec<Diagnostic> {
        let mut findings = self.findings.into_inner();
        findings.sort();
        findings.dedup();
        findings
    }

    pub(crate) fn wrong(&self, at: SourcePosition, message: impl Into<String>) {
        self.report(DiagnosticKind::Invalid, at, message);
    }

    pub(crate) fn report(&self, kind: DiagnosticKind, at: SourcePosition, message: impl Into<String>) {
        let finding = Diagnostic { file: self.file.to_owned(), at, kind, message: message.into() };
        self.findings.borrow_mut().push(finding);
    }

    /// The fields of a map; `None` if it is no map.
    pub(crate) fn fields<'t>(&self, tree: &'t YamlTree, what: &'static str) -> Option<MapFields<'t>> {
        match &tree.value {
            Yaml::Map(entries) => {
                for (at, (key, _)) in entries.iter().enumerate() {
                    if entries[..at].iter().any(|(earlier, _)| earlier.name == key.name) {
                        self.wrong(key.at, format!("the key `{}` is given twice", key.name));
                    }
                }
                Some(MapFields { entries, at: tree.at, what })
            }
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::List(_) => {
                self.wrong(tree.at, format!("{what} is a map of keys, this is {}", tree.kind()));
                None
            }
        }
    }

    pub(crate) fn text(&self, key: &str, tree: &YamlTree) -> Option<String> {
        match &tree.value {
            Yaml::Text(text) => Some(text.clone()),
            Yaml::Number(_) | Yaml::Boolean(_) => {
                self.wrong(
                    tree.at,
                    format!("`{key}` takes a text, this is {}: put it in quotes", tree.kind()),
                );
                None
            }
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => self.no("a text", key, tree),
        }
    }

    pub(crate) fn boolean(&self, key: &str, tree: &YamlTree) -> Option<bool> {
        match &tree.value {
            Yaml::Boolean(value) => Some(*value),
            Yaml::Null | Yaml::Number(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => {
                self.no("true or false", key, tree)
            }
        }
    }

    pub(crate) fn count(&self, key: &str, tree: &YamlTree, min: u64, max: u64) -> Option<u64> {
        let number = match &tree.value {
            Yaml::Number(number) => number.as_u64(),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => None,
        };
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => Some(number),
            None => {
                let is = shown(tree);
                self.wrong(
                    tree.at,
                    format!("`{key}` takes a whole number from {min} to {max}, this is {is}"),
                );
                None
            }
        }
    }

    /// A list of whole numbers.
    pub(crate) fn counts(&self, key: &str, tree: &YamlTree, min: u64, max: u64) -> Vec<u64> {
        match &tree.value {
            Yaml::List(items) => items.iter().filter_map(|item| self.count(key, item, min, max)).collect(),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::Map(_) => {
                self.no::<()>("a list of whole numbers", key, tree);
                Vec::new()
            }
        }
    }

    pub(crate) fn number(&self, key: &str, tree: &YamlTree) -> Option<f64> {
        match &tree.value {
            Yaml::Number(number) => number.as_f64(),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => {
                self.no("a number", key, tree)
            }
        }
    }

    /// A duration, in seconds.
    pub(crate) fn seconds(&self, key: &str, tree: &YamlTree, min: u64, max: u64) -> Option<u64> {
        let seconds = match &tree.value {
            Yaml::Text(text) => seconds_in(text),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::List(_) | Yaml::Map(_) => None,
        };
        match seconds.filter(|seconds| (min..=max).contains(seconds)) {
            Some(seconds) => Some(seconds),
            None => {
                let (takes, is) = (allowed_durations(min, max), shown(tree));
                self.wrong(tree.at, format!("`{key}` takes {takes}, this is {is}"));
                None
            }
        }
    }

    /// A list of texts, with their places; one text alone is a list of one where `or_one`.
    pub(crate) fn texts(
        &self,
        key: &str,
        tree: &YamlTree,
        or_one: bool,
    ) -> Option<Vec<(SourcePosition, String)>> {
        match &tree.value {
            Yaml::List(items) => {
                let texts = items.iter().map(|item| Some((item.at, self.text(key, item)?)));
                // All of them are looked at, so that all errors are reported.
                texts.collect::<Vec<_>>().into_iter().collect()
            }
            Yaml::Text(text) if or_one => Some(vec![(tree.at, text.clone())]),
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::Map(_) => {
                self.no(if or_one { "a text or a list of texts" } else { "a list of texts" }, key, tree)
            }
        }
    }

    pub(crate) fn words(&self, key: &str, tree: &YamlTree) -> Vec<String> {
        let texts = self.texts(key, tree, false).unwrap_or_default();
        texts.into_iter().map(|(_, text)| text).collect()
    }

    /// One of these words.
    pub(crate) fn one_of(&self, key: &str, tree: &YamlTree, words: &[&'static str]) -> Option<&'static str> {
        let text = self.text(key, tree)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let meant = did_you_mean(&text, words.iter().copied());
            self.wrong(
                tree.at,
                format!("`{key}` cannot be `{text}`: it is one of {}{meant}", words.join(", ")),
            );
        }
        found
    }

    fn no<T>(&self, wanted: &str, key: &str, tree: &YamlTree) -> Option<T> {
        self.wrong(tree.at, format!("`{key}` takes {wanted}, this is {}", tree.kind()));
        None
    }
}

/// The fields of a map.
pub(crate) struct MapFields<'t> {
    entries: &'t [(YamlKey, YamlTree)],
    pub(crate) at: SourcePosition,
    pub(crate) what: &'static str,
}

impl<'t> MapFields<'t> {
    /// The value of a key, the first if it occurs twice.
    pub(crate) fn get(&self, name: &str) -> Option<&'t YamlTree> {
        self.entry(name).map(|(_, tree)| tree)
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&'t (YamlKey, YamlTree)> {
        self.entries.iter().find(|(key, _)| key.name == name)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &'t (YamlKey, YamlTree)> {
        self.entries.iter()
    }
}

fn shown(tree: &YamlTree) -> String {
    match tree.to_json() {
        Value::String(text) => format!("`{}`", text.chars().take(60).collect::<String>()),
        value @ (Value::Number(_) | Value::Bool(_)) => format!("`{value}`"),
        Value::Null | Value::Array(_) | Value::Object(_) => tree.kind().to_owned(),
    }
}
