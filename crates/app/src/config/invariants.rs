//! `invariants`: the conditions that must hold, as they are written in a file and typed.
//!
//! # Invariants
//! 1. Every invariant that is read is valid: a rule has valid globs, a sentence has words.
//! 2. [`parse`] reads the printed form of an invariant back.
//!
//! # Not here
//! Their owner: that is known where the levels are joined.

use std::ops::Range;

use domain::{INVARIANTS_MAX, Invariant, InvariantRule, InvariantScope};
use toml_edit::{Array, InlineTable, Value};

/// The allowed values of the setting, in words that follow "it takes".
pub(super) const ALLOWED: &str = "a list of sentences and of rules, like [\"Keep the public interface\", \
     { never = [\"vendor/**\"] }], a rule with one of never, only, max_files, max_lines, and a text if you like";

/// The reason why a list is invalid, and the part of the file that is wrong.
#[derive(Debug)]
pub(super) struct InvalidList {
    pub(super) span: Option<Range<usize>>,
    pub(super) why: String,
}

/// The invariants of a list.
pub(super) fn take(value: &Value) -> Result<Vec<Invariant>, InvalidList> {
    let wrong = |value: &Value, why: String| InvalidList { span: value.span(), why };
    let items = value.as_array().ok_or_else(|| wrong(value, ALLOWED.to_owned()))?;
    if items.len() > INVARIANTS_MAX {
        return Err(wrong(value, format!("at most {INVARIANTS_MAX} invariants, these are {}", items.len())));
    }
    items.iter().map(|item| one(item).map_err(|why| wrong(item, why))).collect()
}

/// The invariants of a command line or a variable: a list as in a file, or one as `--invariant` takes it.
pub(super) fn parse(text: &str) -> Result<Vec<Invariant>, String> {
    match text.trim() {
        "" => Ok(Vec::new()),
        list if list.starts_with('[') => {
            let value: Value = list.parse().map_err(|_| ALLOWED.to_owned())?;
            take(&value).map_err(|wrong| wrong.why)
        }
        one => Invariant::parse(one, InvariantScope::User).map(|invariant| vec![invariant]),
    }
}

fn one(item: &Value) -> Result<Invariant, String> {
    let scope = InvariantScope::User;
    if let Some(text) = item.as_str() {
        return Invariant::parse(text, scope);
    }
    let table = item.as_inline_table().ok_or_else(|| ALLOWED.to_owned())?;
    let (mut rules, mut text) = (Vec::new(), None);
    for (key, value) in table {
        let globs = || globs(value).ok_or_else(|| format!("a list of globs for `{key}`"));
        let count = || {
            let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
            count.ok_or_else(|| format!("a whole number for `{key}`"))
        };
        match key {
            "never" => rules.push(InvariantRule::Never(globs()?)),
            "only" => rules.push(InvariantRule::Only(globs()?)),
            "max_files" => rules.push(InvariantRule::MaxFiles(count()?)),
            "max_lines" => rules.push(InvariantRule::MaxLines(count()?)),
            "text" => text = Some(value.as_str().ok_or("words for `text`")?.to_owned()),
            other => {
                return Err(format!(
                    "no `{other}` in an invariant, but never, only, max_files, max_lines, text"
                ));
            }
        }
    }
    match <[InvariantRule; 1]>::try_from(rules) {
        Ok([rule]) => Invariant::of_rule(rule, text, scope),
        Err(_) => Err("one rule in each invariant: never, only, max_files or max_lines".to_owned()),
    }
}

/// One glob, or a list of them.
fn globs(value: &Value) -> Option<Vec<String>> {
    match value.as_array() {
        Some(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        None => value.as_str().map(|glob| vec![glob.to_owned()]),
    }
}

/// Returns the list in the form of a file.
pub(super) fn to_toml(invariants: &[Invariant]) -> Value {
    Value::Array(invariants.iter().map(one_to_toml).collect())
}

fn one_to_toml(invariant: &Invariant) -> Value {
    let Some(rule) = &invariant.rule else { return invariant.text.as_str().into() };
    let count = |count: &u64| Value::from(i64::try_from(*count).unwrap_or(i64::MAX));
    let globs = |globs: &[String]| Value::Array(globs.iter().collect::<Array>());
    let (key, value) = match rule {
        InvariantRule::Never(never) => ("never", globs(never)),
        InvariantRule::Only(only) => ("only", globs(only)),
        InvariantRule::MaxFiles(files) => ("max_files", count(files)),
        InvariantRule::MaxLines(lines) => ("max_lines", count(lines)),
    };
    let mut table = InlineTable::new();
    table.insert(key, value);
    if invariant.text != rule.in_words() {
        table.insert("text", invariant.text.as_str().into());
    }
    Value::InlineTable(table)
}

/// The list as it is typed.
pub(super) fn to_input_string(invariants: &[Invariant]) -> String {
    if invariants.is_empty() { String::new() } else { to_toml(invariants).to_string() }
}

/// The list for programs.
pub(super) fn to_json(invariants: &[Invariant]) -> serde_json::Value {
    let one = |invariant: &Invariant| match &invariant.rule {
        None => serde_json::json!({ "text": invariant.text }),
        Some(rule) => serde_json::json!({ "text": invariant.text, "rule": rule }),
    };
    invariants.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ConfigFile;
    use super::super::{SettingKey, SettingValue as Setting};
    use super::*;

    #[test]
    fn a_sentence_and_a_rule_are_read_however_they_are_written() {
        let text = "invariants = [\n  \"Keep it small\",\n  { never = \"vendor/**\" },\n  \"only=src/{a,b}.rs,docs/**\",\n  \
                    { max_lines = 9, text = \"few\" },\n]\n";
        let file = ConfigFile::parse(Path::new("config.toml"), text).unwrap();
        let Some((SettingKey::Invariants, Setting::Invariants(found), _)) = file.values.first() else {
            panic!("{file:?}")
        };
        let said: Vec<(&str, Option<InvariantRule>)> =
            found.iter().map(|one| (one.text.as_str(), one.rule.clone())).collect();
        let globs = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("Keep it small", None),
            ("never touch vendor/**", Some(InvariantRule::Never(globs(&["vendor/**"])))),
            (
                "touch only src/{a,b}.rs, docs/**",
                Some(InvariantRule::Only(globs(&["src/{a,b}.rs", "docs/**"]))),
            ),
            ("few", Some(InvariantRule::MaxLines(9))),
        ];
        assert_eq!(said, expected);
        assert_eq!(parse(&to_input_string(found)).unwrap(), *found);
        let tables = "[[invariants]]\nmax_files = 3\n";
        let file = ConfigFile::parse(Path::new("config.toml"), tables).unwrap();
        assert_eq!(
            file.values.first().map(|(_, value, _)| value.to_input_string()),
            Some("[{ max_files = 3 }]".into())
        );
    }

    #[test]
    fn what_is_wrong_with_one_is_told_with_its_line() {
        for (item, says) in [
            ("{ never = [\"a[\"] }", "`a[` is not a glob"),
            ("\"only=a[\"", "`a[` is not a glob"),
            ("{ never = [] }", "there is not a glob"),
            ("\"max_files=many\"", "`many` is not a whole number"),
            ("{ max_files = -1 }", "a whole number for `max_files`"),
            ("{ never = \"a\", only = \"b\" }", "one rule in each"),
            ("{ text = \"words\" }", "one rule in each"),
            ("{ nevr = \"a\" }", "no `nevr` in an invariant"),
            ("\" \"", "an invariant is empty"),
            ("3", "a list of sentences"),
        ] {
            let text = format!("# mine\ninvariants = [\n  \"fine\",\n  {item},\n]\n");
            let said = ConfigFile::parse(Path::new("config.toml"), &text).unwrap_err().to_string();
            assert!(said.starts_with("`invariants` cannot be") && said.contains("config.toml:4"), "{said}");
            assert!(said.contains(says), "{item}: {said}");
        }
    }
}
