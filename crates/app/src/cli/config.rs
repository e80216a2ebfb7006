//! `agents config get | set | list`.

use serde_json::{Value as Json, json};

use super::Invocation;
use crate::config::{
    self, ConfigError, ENTRIES, SettingChange, SettingEntry, Settings, TableLine, entry_named,
};
use crate::errors::{CommandError, hints};
use crate::output::{CommandReport, TextTable};
use crate::setup::{paths, project};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the value of a setting in this directory
    Get {
        /// The name of a setting, like plan.concurrency
        key: String,
        /// Print the value of each level, the one that wins first
        #[arg(long)]
        origin: bool,
    },
    /// Set settings of the user, all of them or none
    Set {
        /// The setting and its value, like plan.concurrency=8
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Print the values of all settings in this directory
    List,
}

impl ConfigCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ConfigCommand::Get { .. } => "config get",
            ConfigCommand::Set { .. } => "config set",
            ConfigCommand::List => "config list",
        }
    }
}

pub(super) fn run(command: ConfigCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    match command {
        ConfigCommand::Get { key, origin } => get(&key, origin, invocation),
        ConfigCommand::Set { settings } => set(&settings, invocation),
        ConfigCommand::List => list(invocation),
    }
}

/// Returns the settings that apply in the project of the user's directory.
fn settings(invocation: &Invocation) -> Result<Settings, CommandError> {
    let projects = project::find_all(&[], &invocation.here)?;
    invocation.settings(Vec::new(), &projects)
}

fn known(key: &str) -> Result<&'static SettingEntry, CommandError> {
    entry_named(key).ok_or_else(|| ConfigError::KeyUnknown { key: key.to_owned(), place: None }.into())
}

fn get(key: &str, origin: bool, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = settings(invocation)?;
    if let Some((name, value, from)) = settings.lines.iter().find(|(name, ..)| name == key)
        && entry_named(key).is_none()
    {
        let text = match origin {
            true => format!("{name} = {value}  ({}, {})\n", from.word(), from.place()),
            false => format!("{value}\n"),
        };
        let data = json!({ "key": name, "value": value, "origin": from.word(), "place": from.place() });
        return Ok(CommandReport::new(data, text));
    }
    let entry = known(key)?;
    let (value, from) = settings.get(entry.key);
    let mut text = format!("{}\n", value.to_input_string());
    let levels: Vec<Json> = settings
        .levels(entry.key)
        .iter()
        .map(|level| {
            json!({ "level": level.origin.word(), "place": level.origin.place(), "value": level.value.to_json() })
        })
        .collect();
    if origin {
        let mut table = TextTable::new(&["level", "value", "place"]);
        for level in settings.levels(entry.key) {
            table.row(vec![
                level.origin.word().to_owned(),
                level.value.to_input_string(),
                level.origin.place(),
            ]);
        }
        text = format!(
            "{} = {}  ({})\n{}",
            entry.name,
            value.to_input_string(),
            from.word(),
            table.render(&invocation.look)
        );
    }
    let data = json!({
        "key": entry.name, "value": value.to_json(), "origin": from.word(), "place": from.place(), "levels": levels,
    });
    Ok(CommandReport::new(data, text))
}

fn set(words: &[String], invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let values: Vec<SettingChange> = words.iter().map(|word| parse_change(word)).collect::<Result<_, _>>()?;
    let path = paths::user_config(&invocation.env).ok_or(ConfigError::NoHome)?;
    config::set(&path, &values)?;
    let text: String =
        values.iter().map(|change| format!("{} = {}\n", name_of(change), typed_of(change))).collect();
    let set: Vec<Json> =
        values.iter().map(|change| json!({ "key": name_of(change), "value": json_of(change) })).collect();
    Ok(CommandReport::new(json!({ "file": path.display().to_string(), "set": set }), text))
}

fn name_of(change: &SettingChange) -> String {
    match change {
        SettingChange::Setting(key, _) => key.entry().name.to_owned(),
        SettingChange::Line(line) => line.full(),
    }
}

fn typed_of(change: &SettingChange) -> String {
    match change {
        SettingChange::Setting(_, value) => value.to_input_string(),
        SettingChange::Line(line) => {
            line.value.as_str().map_or_else(|| line.value.to_string(), str::to_owned)
        }
    }
}

fn json_of(change: &SettingChange) -> Json {
    match change {
        SettingChange::Setting(_, value) => value.to_json(),
        SettingChange::Line(_) => typed_of(change).into(),
    }
}

fn parse_change(word: &str) -> Result<SettingChange, CommandError> {
    let Some((key, text)) = word.split_once('=') else {
        let message = format!("`{word}` sets nothing: write KEY=VALUE");
        return Err(CommandError::new(&crate::errors::codes::USAGE, message).hint(hints::SET_LIKE));
    };
    if let Some(line) = TableLine::parse(key.trim(), text.trim()) {
        return Ok(SettingChange::Line(Box::new(line)));
    }
    let entry = known(key.trim())?;
    let value = entry.shape.parse(text.trim()).map_err(|_| ConfigError::ValueInvalid {
        key: entry.name.to_owned(),
        value: text.to_owned(),
        allowed: entry.shape.why_not(text.trim()),
        place: None,
    })?;
    Ok(SettingChange::Setting(entry.key, value))
}

fn list(invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = settings(invocation)?;
    let mut table = TextTable::new(&["setting", "value", "set by", "description"]);
    let mut all = Vec::new();
    for entry in &ENTRIES {
        let (value, from) = settings.get(entry.key);
        table.row(vec![
            entry.name.to_owned(),
            value.to_input_string(),
            from.word().to_owned(),
            entry.doc.to_owned(),
        ]);
        all.push(json!({
            "key": entry.name, "value": value.to_json(), "origin": from.word(), "place": from.place(),
            "default": entry.default_value().to_json(), "allowed": entry.shape.allowed(),
            "variable": entry.env_name(), "scope": entry.scope.shown(), "doc": entry.doc,
        }));
    }
    for (name, value, from) in &settings.lines {
        table.row(vec![
            name.clone(),
            value.clone(),
            from.word().to_owned(),
            "a line of a table (docs/models.md)".to_owned(),
        ]);
    }
    let line = |(name, value, from): &(String, String, config::SettingOrigin)| json!({ "key": name, "value": value, "origin": from.word(), "place": from.place() });
    let lines: Vec<Json> = settings.lines.iter().map(line).collect();
    let file = paths::user_config(&invocation.env).map(|path| path.display().to_string());
    let data = json!({ "settings": all, "tables": lines, "user_file": file });
    Ok(CommandReport::new(data, table.render(&invocation.look)))
}
