//! A config file, read: its settings and validations, each with its line.
//!
//! # Invariants
//! 1. A file is read whole and checked whole before anything of it is used.
//! 2. A file that is not there sets nothing. One that is there and cannot be read is an error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use domain::{
    Automation, ByteText, CHECKS_MAX, CommandLine, RULE_PREFIX, RootIndex, Validation, ValidationMode,
};
use engine::{Price, ProviderSettings, ServerSettings};
use toml_edit::{Document, Item, Table};

use super::automation::{AUTOMATION, DEFAULT, profile};
use super::error::ConfigError;
use super::invariants;
use super::lines;
use super::models::{NamedTable, PRICES, PROVIDERS, TableSource};
use super::servers::MCP;
use super::setting_table::{SettingKey, entry_named};
use super::value::{SettingValue, ValueShape};
use crate::setup::text_file;

/// The size limit of a file of settings: one that came with a project may be anything.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The table that has the validations, several of them.
const VALIDATION: &str = "validation";
/// The tables whose lines are no settings of their own.
const TABLES: [&str; 5] = [AUTOMATION, MCP, PRICES, PROVIDERS, VALIDATION];
/// The bounds and the default of a validation's end.
const TIMEOUT: ValueShape = ValueShape::Span { min_s: 1, max_s: 86_400 };
const TIMEOUT_DEFAULT_S: u64 = 600;

/// The location of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingLocation {
    /// In a file, at a line from 1.
    Line {
        /// The file.
        file: PathBuf,
        /// The line.
        line: usize,
    },
    /// In the environment.
    Variable {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for SettingLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingLocation::Line { file, line } => write!(f, "{}:{line}", file.display()),
            SettingLocation::Variable { name } => f.write_str(name),
        }
    }
}

/// The contents of a settings file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFile {
    /// Settings with their lines.
    pub values: Vec<(SettingKey, SettingValue, SettingLocation)>,
    /// The checks of its `[[validation]]` tables.
    pub validations: Vec<Validation>,
    /// The profiles of its `[automation.NAME]` tables.
    pub profiles: Vec<(Automation, SettingLocation)>,
    /// The settings of providers.
    pub providers: Vec<NamedTable<ProviderSettings>>,
    /// The prices, by `PROVIDER/NAME`.
    pub prices: Vec<NamedTable<Price>>,
    /// The settings of servers.
    pub servers: Vec<NamedTable<ServerSettings>>,
    /// The lines of its tables, as they are shown: `providers.box.url`.
    pub lines: Vec<NamedTable<String>>,
}

impl ConfigFile {
    /// Reads the file, if it is there.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, or says something that is not allowed.
    pub fn read(path: &Path) -> Result<ConfigFile, ConfigError> {
        let text = text_file::read(path, FILE_BYTES_MAX).and_then(|bytes| {
            String::from_utf8(bytes)
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
        });
        match text {
            Ok(text) => ConfigFile::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ConfigFile::default()),
            Err(error) => Err(ConfigError::io(path, "read")(error)),
        }
    }

    /// Parses `text`, which came from `path`.
    ///
    /// # Errors
    /// It is no TOML, or says something that is not allowed.
    pub fn parse(path: &Path, text: &str) -> Result<ConfigFile, ConfigError> {
        let document = Document::parse(text).map_err(|error| ConfigError::FileInvalid {
            place: place(path, text, error.span()),
            why: error.message().trim().replace('\n', ", "),
        })?;
        let mut reader = ConfigReader { path, text, found: ConfigFile::default() };
        reader.table("", document.as_table())?;
        Ok(reader.found)
    }
}

/// The line on which a part of the file begins.
pub(super) fn place(path: &Path, text: &str, span: Option<std::ops::Range<usize>>) -> SettingLocation {
    let start = span.map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    SettingLocation::Line { file: path.to_owned(), line }
}

struct ConfigReader<'a> {
    path: &'a Path,
    text: &'a str,
    found: ConfigFile,
}

impl ConfigReader<'_> {
    /// Everything below `prefix`; a setting's name is the keys on the way to it, joined by dots.
    fn table(&mut self, prefix: &str, table: &Table) -> Result<(), ConfigError> {
        for (key, item) in table {
            let name = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
            let here = place(self.path, self.text, span);
            // `automation` alone is a setting; its table has the profiles.
            if TABLES.contains(&name.as_str()) && !(item.is_value() && item.as_inline_table().is_none()) {
                self.found.lines.extend(lines::shown(&name, item, &here));
            }
            match item {
                item if name == PROVIDERS => {
                    self.found.providers =
                        TableSource { path: self.path, text: self.text }.providers(item)?;
                }
                item if name == PRICES => {
                    self.found.prices = TableSource { path: self.path, text: self.text }.prices(item)?;
                }
                item if name == MCP => {
                    self.found.servers = TableSource { path: self.path, text: self.text }.servers(item)?;
                }
                Item::ArrayOfTables(tables) if name == VALIDATION => {
                    if tables.len() > CHECKS_MAX {
                        return Err(ConfigError::ValueInvalid {
                            key: name,
                            value: "[…]".to_owned(),
                            allowed: format!("at most {CHECKS_MAX} checks, these are {}", tables.len()),
                            place: Some(here),
                        });
                    }
                    for table in tables {
                        let validation = self.validation(table)?;
                        self.found.validations.push(validation);
                    }
                }
                Item::Table(inner) if name == AUTOMATION => self.automation(inner)?,
                Item::Value(toml_edit::Value::InlineTable(inner)) if name == AUTOMATION => {
                    self.automation(&inner.clone().into_table())?;
                }
                Item::Table(inner) if entry_named(&name).is_none() => self.table(&name, inner)?,
                Item::Value(toml_edit::Value::InlineTable(inner)) if entry_named(&name).is_none() => {
                    self.table(&name, &inner.clone().into_table())?;
                }
                Item::Value(value) => self.value(&name, value, here)?,
                Item::ArrayOfTables(tables) if name == SettingKey::Invariants.entry().name => {
                    let value = toml_edit::Value::Array(tables.clone().into_array());
                    self.value(&name, &value, here)?;
                }
                Item::None | Item::Table(_) | Item::ArrayOfTables(_) => {
                    return Err(ConfigError::KeyUnknown { key: name, place: Some(here) });
                }
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        name: &str,
        value: &toml_edit::Value,
        here: SettingLocation,
    ) -> Result<(), ConfigError> {
        let Some(entry) = entry_named(name) else {
            return Err(ConfigError::KeyUnknown { key: name.to_owned(), place: Some(here) });
        };
        if entry.shape == ValueShape::Invariants {
            // Of a list over many lines the wrong line is reported, with the reason.
            let all = invariants::take(value).map_err(|wrong| {
                let here = wrong.span.map_or(here.clone(), |span| place(self.path, self.text, Some(span)));
                invalid(name, value, wrong.why, here)
            })?;
            self.found.values.push((entry.key, SettingValue::Invariants(all), here));
            return Ok(());
        }
        match entry.shape.take(value) {
            Ok(value) => self.found.values.push((entry.key, value, here)),
            Err(_) => return Err(invalid(name, value, entry.shape.allowed(), here)),
        }
        Ok(())
    }

    /// The profiles, and which of them is used.
    fn automation(&mut self, table: &Table) -> Result<(), ConfigError> {
        for (name, item) in table {
            let here = self.place_of(table, name);
            let inline = item.as_inline_table().map(|inner| inner.clone().into_table());
            match (item, item.as_table().or(inline.as_ref())) {
                (_, Some(inner)) => {
                    let profile = profile(name, inner, |key| self.place_of(inner, key), here.clone())?;
                    self.found.profiles.push((profile, here));
                }
                (Item::Value(value), None) if name == DEFAULT => self.value(AUTOMATION, value, here)?,
                (Item::None | Item::Value(_) | Item::Table(_) | Item::ArrayOfTables(_), None) => {
                    let key = format!("{AUTOMATION}.{name}");
                    return Err(ConfigError::KeyUnknown { key, place: Some(here) });
                }
            }
        }
        Ok(())
    }

    fn place_of(&self, table: &Table, key: &str) -> SettingLocation {
        let span = table.key(key).and_then(toml_edit::Key::span);
        place(self.path, self.text, span.or_else(|| table.get(key).and_then(Item::span)))
    }

    fn validation(&self, table: &Table) -> Result<Validation, ConfigError> {
        let whole = place(self.path, self.text, table.span());
        let mut run = None;
        let mut name = None;
        let mut mode = ValidationMode::Required;
        let mut timeout_s = TIMEOUT_DEFAULT_S;
        for (key, item) in table {
            let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
            let (full, here) = (format!("{VALIDATION}.{key}"), place(self.path, self.text, span));
            let Some(value) = item.as_value() else {
                return Err(ConfigError::KeyUnknown { key: full, place: Some(here) });
            };
            let refused = |allowed: &str| Err(invalid(&full, value, allowed.to_owned(), here.clone()));
            match key {
                "run" => match run_of(value) {
                    Some(found) => run = Some(found),
                    None => return refused("a command: a text for the shell, or a list of words"),
                },
                "name" => match value.as_str() {
                    Some(text) if text.starts_with(RULE_PREFIX) => return refused(&not_of_a_rule()),
                    Some(text) if !text.trim().is_empty() => name = Some(text.to_owned()),
                    Some(_) | None => return refused("a text"),
                },
                "mode" => match value.as_str() {
                    Some("required") => mode = ValidationMode::Required,
                    Some("informational") => mode = ValidationMode::Informational,
                    Some(_) | None => return refused("one of required, informational"),
                },
                "timeout" => match TIMEOUT.take(value) {
                    Ok(SettingValue::Span(span)) => timeout_s = span.as_secs(),
                    Ok(_) | Err(_) => return refused(&TIMEOUT.allowed()),
                },
                _ => return Err(ConfigError::KeyUnknown { key: full, place: Some(here) }),
            }
        }
        let Some(run) = run else {
            return Err(ConfigError::ValueInvalid {
                key: VALIDATION.to_owned(),
                value: String::new(),
                allowed: "at least `run`, the command".to_owned(),
                place: Some(whole),
            });
        };
        let name = name.unwrap_or_else(|| run.render());
        if name.starts_with(RULE_PREFIX) {
            return Err(ConfigError::ValueInvalid {
                key: format!("{VALIDATION}.name"),
                value: name,
                allowed: not_of_a_rule(),
                place: Some(whole),
            });
        }
        // The reader of several files knows which project this is, and whether it is one.
        Ok(Validation {
            name,
            run,
            mode,
            timeout_s,
            root: RootIndex::default(),
            cwd: ByteText::default(),
            needs_trust: false,
        })
    }
}

/// Returns the allowed names of a check, in words that follow "it takes".
fn not_of_a_rule() -> String {
    format!("a text that does not begin with `{RULE_PREFIX}`, as the checks of invariants do")
}

fn invalid(name: &str, value: &toml_edit::Value, allowed: String, here: SettingLocation) -> ConfigError {
    let value = value.to_string().trim().to_owned();
    ConfigError::ValueInvalid { key: name.to_owned(), value, allowed, place: Some(here) }
}

fn run_of(value: &toml_edit::Value) -> Option<CommandLine> {
    if let Some(text) = value.as_str() {
        return (!text.trim().is_empty()).then(|| CommandLine::Shell(text.to_owned()));
    }
    let words: Option<Vec<ByteText>> =
        value.as_array()?.iter().map(|word| word.as_str().map(ByteText::from)).collect();
    words.filter(|words| !words.is_empty()).map(CommandLine::Argv)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("config.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_found_however_toml_spells_them() {
        let line = |line| SettingLocation::Line { file: "config.toml".into(), line };
        let spelled = parse("plan.concurrency = 2\n[retention]\ndays = 7\n").unwrap();
        let expected = [
            (SettingKey::PlanConcurrency, SettingValue::Count(2), line(1)),
            (SettingKey::RetentionDays, SettingValue::Count(7), line(3)),
        ];
        assert_eq!(spelled.values, expected);
        let inline = parse("plan = { concurrency = 2 }\n").unwrap();
        assert_eq!(
            inline.values.iter().map(|(key, ..)| *key).collect::<Vec<_>>(),
            [SettingKey::PlanConcurrency]
        );
    }

    #[test]
    fn every_mistake_names_its_line() {
        for (text, says) in [
            ("\nplan.concurency = 2\n", "there is no setting `plan.concurency` (config.toml:2)"),
            (
                "[plan]\n\nconcurrency = 0",
                "`plan.concurrency` cannot be `0` (config.toml:3): it takes a whole number from 1 to 1024",
            ),
            ("plan = 3\n", "there is no setting `plan` (config.toml:1)"),
            ("[automation]\nx = 1\n", "there is no setting `automation.x` (config.toml:2)"),
            (
                "[automation.careful]\napply = \"never\"\n",
                "`automation.careful.apply` cannot be `\"never\"` (config.toml:2): it takes one of ask, auto",
            ),
            (
                "[automation]\ncareful = { ask_below = 2 }\n",
                "`automation.careful.ask_below` cannot be `2` (config.toml:2): it takes a number from 0 to 1",
            ),
            ("[automation.auto]\n", "`automation` cannot be `auto` (config.toml:1): it takes a name"),
            ("a = 1\nb = = 2\n", "config.toml:2: "),
            ("a = 1\na = 2\n", "config.toml:2: duplicate key"),
            (
                "[[validation]]\nname = \"x\"\n",
                "`validation` cannot be `` (config.toml:1): it takes at least `run`, the command",
            ),
            (
                "[[validation]]\nrun = \"x\"\nmod = \"y\"\n",
                "there is no setting `validation.mod` (config.toml:3)",
            ),
            (
                "[[validation]]\nrun = []\n",
                "`validation.run` cannot be `[]` (config.toml:2): it takes a command",
            ),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(says), "{text:?}: {said}");
        }
    }

    #[test]
    fn validations_have_a_name_a_mode_and_an_end() {
        let file = parse(
            "[[validation]]\nrun = \"cargo test\"\n[[validation]]\nname = \"lint\"\nrun = [\"cargo\", \"clippy\"]\n\
             mode = \"informational\"\ntimeout = \"2m\"\n",
        );
        let expected = [
            Validation {
                name: "cargo test".into(),
                run: CommandLine::Shell("cargo test".into()),
                mode: ValidationMode::Required,
                timeout_s: 600,
                root: RootIndex(0),
                cwd: ByteText::default(),
                needs_trust: false,
            },
            Validation {
                name: "lint".into(),
                run: CommandLine::Argv(vec!["cargo".into(), "clippy".into()]),
                mode: ValidationMode::Informational,
                timeout_s: 120,
                root: RootIndex(0),
                cwd: ByteText::default(),
                needs_trust: false,
            },
        ];
        assert_eq!(file.unwrap().validations, expected);
    }

    #[test]
    fn a_file_that_is_not_there_sets_nothing() {
        assert_eq!(ConfigFile::read(Path::new("no/such/config.toml")).unwrap(), ConfigFile::default());
    }
}
