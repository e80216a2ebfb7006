//! `[providers.NAME]` and `[prices."PROVIDER/NAME"]`: who answers for models, and what they cost.
//!
//! # Invariants
//! 1. A project's file has neither: a clone names no address and no key.
//! 2. The value of a key is never in a file of settings: only the variable or the file that has it.

use std::path::{Path, PathBuf};

use domain::money;
use engine::{Price, Protocol, ProviderSettings};
use toml_edit::{Item, TableLike};

use super::error::ConfigError;
use super::file::{SettingLocation, place};
use super::value::{SettingValue, ValueShape};

/// The table of providers.
pub(super) const PROVIDERS: &str = "providers";
/// The table of prices.
pub(super) const PRICES: &str = "prices";

const TIME: ValueShape = ValueShape::Span { min_s: 1, max_s: 86_400 };
const TOKENS: ValueShape = ValueShape::Count { min: 256, max: 100_000_000 };

/// Something that a file names, and where.
pub type NamedTable<T> = (String, T, SettingLocation);

/// A file that is being read.
pub(super) struct TableSource<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl TableSource<'_> {
    /// The providers of a file.
    pub(super) fn providers(&self, item: &Item) -> Result<Vec<NamedTable<ProviderSettings>>, ConfigError> {
        let tables = self.tables(PROVIDERS, item)?;
        tables
            .into_iter()
            .map(|(name, table, at)| Ok((name.clone(), self.provider(&name, table)?, at)))
            .collect()
    }

    /// The prices of a file.
    pub(super) fn prices(&self, item: &Item) -> Result<Vec<NamedTable<Price>>, ConfigError> {
        let tables = self.tables(PRICES, item)?;
        tables
            .into_iter()
            .map(|(name, table, at)| Ok((name.clone(), self.price(&name, table, &at)?, at)))
            .collect()
    }

    pub(super) fn tables<'t>(
        &self,
        whole: &str,
        item: &'t Item,
    ) -> Result<Vec<(String, &'t dyn TableLike, SettingLocation)>, ConfigError> {
        let unknown = |key: String, at| ConfigError::KeyUnknown { key, place: Some(at) };
        let table = item.as_table_like().ok_or_else(|| unknown(whole.to_owned(), self.at(item.span())))?;
        let mut found = Vec::new();
        for (name, inner) in table.iter() {
            let at = self.key_at(table, name, inner);
            let inner = inner.as_table_like();
            let inner = inner.ok_or_else(|| unknown(format!("{whole}.{name}"), at.clone()))?;
            found.push((name.to_owned(), inner, at));
        }
        Ok(found)
    }

    fn provider(&self, name: &str, table: &dyn TableLike) -> Result<ProviderSettings, ConfigError> {
        let mut found = ProviderSettings::default();
        for (key, item) in table.iter() {
            let (full, at) = (format!("{PROVIDERS}.{name}.{key}"), self.key_at(table, key, item));
            let field = TableField { name: full, item, at };
            match key {
                "speaks" => found.speaks = Some(field.speaks()?),
                "url" => found.base_url = Some(field.text()?),
                "key_env" => found.key_env = Some(field.variable()?),
                "key_file" => {
                    found.key_file = Some(PathBuf::from(field.shaped(ValueShape::Path)?.to_input_string()))
                }
                "connect" => found.connect_s = Some(field.seconds()?),
                "idle" => found.idle_s = Some(field.seconds()?),
                "total" => found.total_s = Some(field.seconds()?),
                "stream_usage" => found.stream_usage = Some(field.yes_or_no()?),
                "allow_plain_http" => found.allow_plain_http = field.yes_or_no()?,
                "context_tokens" => found.context_tokens = Some(field.tokens()?),
                "model" => found.model = Some(field.model()?),
                "answer_tokens" => found.answer_tokens = Some(field.tokens()?),
                _ => return Err(ConfigError::KeyUnknown { key: field.name, place: Some(field.at) }),
            }
        }
        Ok(found)
    }

    fn price(
        &self,
        name: &str,
        table: &dyn TableLike,
        whole: &SettingLocation,
    ) -> Result<Price, ConfigError> {
        let (mut input, mut output, mut cache_read, mut cache_write) = (None, None, None, None);
        for (key, item) in table.iter() {
            let (full, at) = (format!("{PRICES}.{name}.{key}"), self.key_at(table, key, item));
            let field = TableField { name: full, item, at };
            match key {
                "input" => input = Some(field.dollars()?),
                "output" => output = Some(field.dollars()?),
                "cache_read" => cache_read = Some(field.dollars()?),
                "cache_write" => cache_write = Some(field.dollars()?),
                _ => return Err(ConfigError::KeyUnknown { key: field.name, place: Some(field.at) }),
            }
        }
        match (input, output) {
            (Some(input), Some(output)) => Ok(Price { input, output, cache_read, cache_write }),
            (None, _) | (_, None) => Err(ConfigError::ValueInvalid {
                key: format!("{PRICES}.{name}"),
                value: String::new(),
                allowed: "`input` and `output`, the dollars for a million tokens".to_owned(),
                place: Some(whole.clone()),
            }),
        }
    }

    pub(super) fn key_at(&self, table: &dyn TableLike, key: &str, item: &Item) -> SettingLocation {
        self.at(table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span()))
    }

    fn at(&self, span: Option<std::ops::Range<usize>>) -> SettingLocation {
        place(self.path, self.text, span)
    }
}

/// One line of a table.
pub(super) struct TableField<'t> {
    pub(super) name: String,
    pub(super) item: &'t Item,
    pub(super) at: SettingLocation,
}

impl TableField<'_> {
    pub(super) fn refused(&self, allowed: &str) -> ConfigError {
        let value = self.item.as_value().map(|value| value.to_string().trim().to_owned());
        ConfigError::ValueInvalid {
            key: self.name.clone(),
            value: value.unwrap_or_default(),
            allowed: allowed.to_owned(),
            place: Some(self.at.clone()),
        }
    }

    fn shaped(&self, shape: ValueShape) -> Result<SettingValue, ConfigError> {
        let taken = self.item.as_value().and_then(|value| shape.take(value).ok());
        taken.ok_or_else(|| self.refused(&shape.allowed()))
    }

    fn speaks(&self) -> Result<Protocol, ConfigError> {
        match self.item.as_str() {
            Some("openai") => Ok(Protocol::Openai),
            Some("anthropic") => Ok(Protocol::Anthropic),
            Some(_) | None => Err(self.refused("one of openai, anthropic")),
        }
    }

    fn text(&self) -> Result<String, ConfigError> {
        let text = self.item.as_str().filter(|text| !text.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| self.refused("an address, like https://models.example/v1"))
    }

    fn model(&self) -> Result<String, ConfigError> {
        let text = self.item.as_str().filter(|text| !text.is_empty() && !text.contains(char::is_whitespace));
        text.map(str::to_owned).ok_or_else(|| self.refused("the name of a model there, like qwen3-coder"))
    }

    /// Reads the name of a variable; it must be a name, so that it is not mistaken for the place of the key
    /// itself.
    fn variable(&self) -> Result<String, ConfigError> {
        let is_name = |text: &&str| {
            let begins_well = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
            begins_well && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match self.item.as_str().filter(is_name) {
            Some(name) => Ok(name.to_owned()),
            // It may be the key itself: it is not shown.
            None => Err(ConfigError::ValueInvalid {
                key: self.name.clone(),
                value: "…".to_owned(),
                allowed: "the name of the variable that has the key, never the key".to_owned(),
                place: Some(self.at.clone()),
            }),
        }
    }

    pub(super) fn seconds(&self) -> Result<u64, ConfigError> {
        match self.shaped(TIME)? {
            SettingValue::Span(span) => Ok(span.as_secs()),
            SettingValue::Word(_)
            | SettingValue::Count(_)
            | SettingValue::Words(_)
            | SettingValue::Path(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => Err(self.refused(&TIME.allowed())),
        }
    }

    fn tokens(&self) -> Result<u32, ConfigError> {
        let count = match self.shaped(TOKENS)? {
            SettingValue::Count(count) => u32::try_from(count).ok(),
            SettingValue::Word(_)
            | SettingValue::Span(_)
            | SettingValue::Words(_)
            | SettingValue::Path(_)
            | SettingValue::Money(_)
            | SettingValue::Decimal(_)
            | SettingValue::Inherit
            | SettingValue::Invariants(_) => None,
        };
        count.ok_or_else(|| self.refused(&TOKENS.allowed()))
    }

    pub(super) fn yes_or_no(&self) -> Result<bool, ConfigError> {
        self.item.as_bool().ok_or_else(|| self.refused("true or false"))
    }

    fn dollars(&self) -> Result<u64, ConfigError> {
        let typed = self.item.as_value().and_then(money_text);
        typed.and_then(|text| money::parse(&text)).ok_or_else(|| self.refused(money::ALLOWED))
    }
}

/// Returns an amount as it is written in a file: a number or a text.
pub(super) fn money_text(value: &toml_edit::Value) -> Option<String> {
    match value {
        toml_edit::Value::String(text) => Some(text.value().clone()),
        toml_edit::Value::Integer(_) | toml_edit::Value::Float(_) => {
            Some(value.clone().decorated("", "").to_string())
        }
        toml_edit::Value::Boolean(_)
        | toml_edit::Value::Datetime(_)
        | toml_edit::Value::Array(_)
        | toml_edit::Value::InlineTable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ConfigFile;
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("config.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_provider_and_a_price_are_read_with_all_that_they_say() {
        let file = parse(
            "[providers.box]\nspeaks = \"openai\"\nurl = \"http://127.0.0.1:1/v1\"\nkey_env = \"BOX_KEY\"\n\
             key_file = \"~/box.key\"\nidle = \"5s\"\nstream_usage = false\ncontext_tokens = 8192\n\
             [prices.\"box/m\"]\ninput = 3\noutput = 15.50\ncache_read = \"0.3\"\n",
        )
        .unwrap();
        let provider = ProviderSettings {
            speaks: Some(Protocol::Openai),
            base_url: Some("http://127.0.0.1:1/v1".to_owned()),
            key_env: Some("BOX_KEY".to_owned()),
            key_file: Some(PathBuf::from("~/box.key")),
            idle_s: Some(5),
            stream_usage: Some(false),
            context_tokens: Some(8192),
            ..ProviderSettings::default()
        };
        let line = |line| SettingLocation::Line { file: "config.toml".into(), line };
        assert_eq!(file.providers, [("box".to_owned(), provider, line(1))]);
        let price =
            Price { input: 3_000_000, output: 15_500_000, cache_read: Some(300_000), cache_write: None };
        assert_eq!(file.prices, [("box/m".to_owned(), price, line(9))]);
        assert_eq!(file.values, []);
    }

    #[test]
    fn what_the_docs_show_can_be_read() {
        for page in [
            include_str!("../../../../docs/models.md"),
            include_str!("../../../../docs/automation.md"),
            include_str!("../../../../docs/mcp.md"),
        ] {
            let blocks: Vec<&str> =
                page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
            assert!(!blocks.is_empty());
            for block in blocks {
                let read = parse(block);
                assert!(read.is_ok(), "{block}\n{}", read.unwrap_err());
            }
        }
    }

    #[test]
    fn every_mistake_names_its_line_and_no_key_is_shown() {
        for (text, says) in [
            ("providers = 1\n", "there is no setting `providers` (config.toml:1)"),
            ("[providers]\nbox = 1\n", "there is no setting `providers.box` (config.toml:2)"),
            ("[providers.box]\nurll = \"x\"\n", "there is no setting `providers.box.urll` (config.toml:2)"),
            (
                "[providers.box]\nspeaks = \"gopher\"\n",
                "`providers.box.speaks` cannot be `\"gopher\"` (config.toml:2)",
            ),
            (
                "[providers.box]\ncontext_tokens = 1\n",
                "`providers.box.context_tokens` cannot be `1` (config.toml:2)",
            ),
            (
                "[prices.\"a/b\"]\ninput = 1\n",
                "`prices.a/b` cannot be `` (config.toml:1): it takes `input` and",
            ),
            (
                "[prices.\"a/b\"]\ninput = -1\noutput = 1\n",
                "`prices.a/b.input` cannot be `-1` (config.toml:2)",
            ),
            (
                "[prices.\"a/b\"]\ninput = true\noutput = 1\n",
                "`prices.a/b.input` cannot be `true` (config.toml:2)",
            ),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(says), "{text:?}: {said}");
        }
        let said = parse("[providers.box]\nkey_env = \"sk-secret-value\"\n").unwrap_err();
        assert!(said.contains("never the key") && !said.contains("sk-secret"), "{said}");
    }
}
