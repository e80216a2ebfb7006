//! The lines of tables such as `[providers.NAME]`, as they are shown and as they are typed.
//!
//! # Invariants
//! 1. A possible secret is not shown: the variables of a server, and the user information before an `@` in an
//!    address.
//! 2. A line that is typed is written as a file would have it; whether it is allowed, reading the file says.

use toml_edit::{Item, Value};

use super::file::SettingLocation;
use super::models::{NamedTable, PRICES, PROVIDERS};

/// The placeholder for a value that is not shown.
const HIDDEN: &str = "…";
/// The keys whose values are numbers or truths.
const PLAIN: [&str; 4] = ["stream_usage", "allow_plain_http", "context_tokens", "answer_tokens"];

/// A line of a table: `providers.box.url` is `url` of `box` of `providers`.
#[derive(Clone, Debug)]
pub struct TableLine {
    /// The table of tables.
    pub table: &'static str,
    /// The name of the inner table.
    pub name: String,
    /// The key of the line.
    pub key: String,
    /// The new value.
    pub value: Value,
}

impl TableLine {
    /// The line that `providers.NAME.KEY` or `prices.PROVIDER/NAME.KEY` names, with this value; none when it
    /// names none.
    pub fn parse(key: &str, text: &str) -> Option<TableLine> {
        let (table, rest) = key.split_once('.')?;
        let table = [PROVIDERS, PRICES].into_iter().find(|known| *known == table)?;
        let (name, key) = rest.rsplit_once('.')?;
        let name = name.trim_matches('"');
        if name.is_empty() || key.is_empty() {
            return None;
        }
        let plain = text.parse::<Value>().ok().filter(|value| !value.is_str());
        let is_plain = table == PRICES || PLAIN.contains(&key);
        let value = plain.filter(|_| is_plain).unwrap_or_else(|| text.into());
        Some(TableLine { table, name: name.to_owned(), key: key.to_owned(), value })
    }

    /// Its whole name.
    pub fn full(&self) -> String {
        format!("{}.{}.{}", self.table, self.name, self.key)
    }
}

/// Every line below an item, with what is shown of it.
pub(super) fn shown(name: &str, item: &Item, at: &SettingLocation) -> Vec<NamedTable<String>> {
    if let Some(tables) = item.as_array_of_tables() {
        let numbered = (1..).zip(tables.iter());
        let one = |(number, table): (usize, &toml_edit::Table)| {
            shown(&format!("{name}.{number}"), &Item::Table(table.clone()), at)
        };
        return numbered.flat_map(one).collect();
    }
    if let Some(table) = item.as_table_like() {
        let is_secret = name.ends_with(".env");
        let below = |(key, item): (&str, &Item)| match is_secret {
            true => vec![(format!("{name}.{key}"), HIDDEN.to_owned(), at.clone())],
            false => shown(&format!("{name}.{key}"), item, at),
        };
        return table.iter().flat_map(below).collect();
    }
    let Some(value) = item.as_value() else { return Vec::new() };
    let text = match value.as_str() {
        Some(text) => without_user(text),
        None => value.clone().decorated("", "").to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    };
    vec![(name.to_owned(), text, at.clone())]
}

fn without_user(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://{HIDDEN}@{rest}"),
        None => text.to_owned(),
    }
}
