//! `agents config get | set | unset | list | edit | path`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value as Json, json};

use super::Invocation;
use crate::config::{
    self, ConfigError, ENTRIES, FileLevel, PROJECT_FILE, SettingChange, SettingEntry, SettingOrigin,
    Settings, TableLine, entry_named,
};
use crate::errors::{CommandError, codes, hints};
use crate::output::{CommandReport, TextTable, escape_control_chars, one_line};
use crate::setup::{paths, project};

/// The tables whose lines have names of the user's own.
const TABLES: [&str; 5] = ["providers.", "prices.", "mcp.", "automation.", "validation"];
/// The editor where the user names none.
const EDITOR_DEFAULT: &str = "vi";
/// The width of a text that goes to no screen.
const FOLD_CHARS: usize = 80;
/// Before the lines of a description.
const DOC_INDENT: &str = "    ";

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
    /// Set settings, all of them or none
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The setting and its value: KEY VALUE for one, KEY=VALUE for one or more
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
        #[command(flatten)]
        file: FileArgs,
    },
    /// Remove settings from the file, so that the next level or the default applies
    #[command(after_help = UNSET_EXAMPLES)]
    Unset {
        /// The names of settings, of lines of tables, or of tables
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        #[command(flatten)]
        file: FileArgs,
    },
    /// Print the values of all settings in this directory
    List {
        /// Only settings whose names begin so, like `plan` or `limits.`
        prefix: Option<String>,
        /// Only settings that are set somewhere
        #[arg(long)]
        set: bool,
    },
    /// Open the file of settings in $VISUAL or $EDITOR, and check it afterwards
    Edit {
        #[command(flatten)]
        file: FileArgs,
    },
    /// Print the path of the file of settings
    Path {
        #[command(flatten)]
        file: FileArgs,
    },
}

const SET_EXAMPLES: &str = "\
Examples:
  agents config set plan.concurrency 8
  agents config set limits.time=2h limits.cost=5
  agents config set --project capture.max_file_mb 20";

const UNSET_EXAMPLES: &str = "\
Examples:
  agents config unset plan.concurrency
  agents config unset prices.ollama/qwen3-coder";

/// The file that is meant.
#[derive(Debug, clap::Args)]
pub(super) struct FileArgs {
    /// The file of this project, .cleveragents/config.toml, instead of your own
    #[arg(long)]
    project: bool,
}

impl FileArgs {
    fn find(&self, invocation: &Invocation) -> Result<(PathBuf, FileLevel), CommandError> {
        if !self.project {
            let path = paths::user_config(&invocation.env).ok_or(ConfigError::NoHome)?;
            return Ok((path, FileLevel::User));
        }
        let root = project::root_of(&invocation.here)?;
        let path = root.join(PROJECT_FILE);
        // A link in a project may lead anywhere, also to files that are not the project's.
        match std::fs::canonicalize(&path) {
            Ok(target) if !target.starts_with(&root) => {
                let message = format!("{} leads out of the project, to {}", path.display(), target.display());
                Err(CommandError::new(&codes::CONFIG_FILE_INVALID, message).hint(hints::REMOVE_LINK))
            }
            Ok(_) | Err(_) => Ok((path, FileLevel::Project)),
        }
    }
}

impl ConfigCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ConfigCommand::Get { .. } => "config get",
            ConfigCommand::Set { .. } => "config set",
            ConfigCommand::Unset { .. } => "config unset",
            ConfigCommand::List { .. } => "config list",
            ConfigCommand::Edit { .. } => "config edit",
            ConfigCommand::Path { .. } => "config path",
        }
    }
}

pub(super) fn run(command: ConfigCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    match command {
        ConfigCommand::Get { key, origin } => get(&key, origin, invocation),
        ConfigCommand::Set { settings, file } => set(&settings, &file, invocation),
        ConfigCommand::Unset { keys, file } => unset(&keys, &file, invocation),
        ConfigCommand::List { prefix, set } => list(prefix.as_deref().unwrap_or_default(), set, invocation),
        ConfigCommand::Edit { file } => edit(&file, invocation),
        ConfigCommand::Path { file } => path(&file, invocation),
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
            table.render(&invocation.style)
        );
    }
    let data = json!({
        "key": entry.name, "value": value.to_json(), "origin": from.word(), "place": from.place(), "levels": levels,
    });
    Ok(CommandReport::new(data, text))
}

fn set(words: &[String], file: &FileArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let values: Vec<SettingChange> = match words {
        // As git has it; a name has no `=`.
        [key, value] if !key.contains('=') => vec![change_of(key, value)?],
        words => words.iter().map(|word| parse_change(word)).collect::<Result<_, _>>()?,
    };
    let (path, level) = file.find(invocation)?;
    config::set(&path, level, &values)?;
    let text: String =
        values.iter().map(|change| format!("{} = {}\n", name_of(change), typed_of(change))).collect();
    let set: Vec<Json> =
        values.iter().map(|change| json!({ "key": name_of(change), "value": json_of(change) })).collect();
    Ok(CommandReport::new(json!({ "file": path.display().to_string(), "set": set }), text))
}

fn unset(keys: &[String], file: &FileArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let name = |key: &String| key.trim().replace('"', "");
    for key in keys {
        // A slip is an error, a table of the user's own is not.
        if !TABLES.iter().any(|table| name(key).starts_with(table)) {
            known(&name(key))?;
        }
    }
    let removals: Vec<SettingChange> = keys.iter().map(|key| SettingChange::Removal(name(key))).collect();
    let (path, level) = file.find(invocation)?;
    let absent = match path.exists() {
        true => config::set(&path, level, &removals)?,
        false => keys.iter().map(name).collect(),
    };
    let line = |key: &String| match absent.contains(&name(key)) {
        true => format!("{} was not set in {}\n", name(key), path.display()),
        false => format!("{} is no longer set\n", name(key)),
    };
    let text: String = keys.iter().map(line).collect();
    let removed: Vec<String> = keys.iter().map(name).filter(|key| !absent.contains(key)).collect();
    let data = json!({ "file": path.display().to_string(), "unset": removed, "absent": absent });
    Ok(CommandReport::new(data, text))
}

fn path(file: &FileArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let (path, _) = file.find(invocation)?;
    let shown = path.display().to_string();
    Ok(CommandReport::new(json!({ "file": shown, "exists": path.exists() }), format!("{shown}\n")))
}

/// Opens the file in the user's editor. An error in it afterwards is reported, and the file stays as it is.
fn edit(file: &FileArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let (path, level) = file.find(invocation)?;
    if !invocation.style.can_ask {
        let message = "an editor needs a terminal, and there is none";
        return Err(CommandError::new(&codes::CONFIRMATION_NEEDED, message).hint(hints::SET_INSTEAD));
    }
    let cannot = |what: &str, error: &std::io::Error| {
        CommandError::new(&codes::IO_FAILED, format!("{} cannot be {what}: {error}", path.display()))
            .hint(hints::SEE_DOCTOR_THEN_RETRY)
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|error| cannot("made", &error))?;
    }
    let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| invocation.env.get(*name));
    let editor = editor.filter(|editor| !editor.trim().is_empty()).map_or(EDITOR_DEFAULT, String::as_str);
    // The shell splits `code --wait`, as git has it.
    let script = format!("{editor} \"$@\"");
    let ended = Command::new("sh").args(["-c", &script, editor]).arg(&path).status();
    let ended = ended.map_err(|error| cannot("edited", &error))?;
    if !ended.success() {
        let message = format!("the editor `{editor}` failed ({ended}); {} is as it left it", path.display());
        return Err(CommandError::new(&codes::IO_FAILED, message).hint(hints::SET_EDITOR));
    }
    config::check(&path, level)?;
    let shown = path.display().to_string();
    Ok(CommandReport::new(json!({ "file": shown }), format!("{shown} is valid\n")))
}

fn name_of(change: &SettingChange) -> String {
    match change {
        SettingChange::Setting(key, _) => key.entry().name.to_owned(),
        SettingChange::Line(line) => line.full(),
        SettingChange::Removal(name) => name.clone(),
    }
}

fn typed_of(change: &SettingChange) -> String {
    match change {
        SettingChange::Setting(_, value) => value.to_input_string(),
        SettingChange::Line(line) => {
            line.value.as_str().map_or_else(|| line.value.to_string(), str::to_owned)
        }
        SettingChange::Removal(_) => String::new(),
    }
}

fn json_of(change: &SettingChange) -> Json {
    match change {
        SettingChange::Setting(_, value) => value.to_json(),
        SettingChange::Line(_) | SettingChange::Removal(_) => typed_of(change).into(),
    }
}

fn parse_change(word: &str) -> Result<SettingChange, CommandError> {
    let Some((key, text)) = word.split_once('=') else {
        let message = format!("`{word}` sets nothing: write KEY=VALUE");
        return Err(CommandError::new(&codes::USAGE, message).hint(hints::SET_LIKE));
    };
    change_of(key, text)
}

fn change_of(key: &str, text: &str) -> Result<SettingChange, CommandError> {
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

fn list(prefix: &str, only_set: bool, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = settings(invocation)?;
    let mut text = String::new();
    let mut all = Vec::new();
    let is_asked = |name: &str, from: &SettingOrigin| {
        name.starts_with(prefix) && !(only_set && *from == SettingOrigin::Default)
    };
    for entry in &ENTRIES {
        let (value, from) = settings.get(entry.key);
        if !is_asked(entry.name, from) {
            continue;
        }
        text.push_str(&setting_lines(entry.name, &value.to_input_string(), from, entry.doc, invocation));
        all.push(json!({
            "key": entry.name, "value": value.to_json(), "origin": from.word(), "place": from.place(),
            "default": entry.default_value().to_json(), "allowed": entry.shape.allowed(),
            "variable": entry.env_name(), "scope": entry.scope.shown(), "doc": entry.doc,
        }));
    }
    let lines: Vec<_> = settings.lines.iter().filter(|(name, _, from)| is_asked(name, from)).collect();
    for (name, value, from) in &lines {
        text.push_str(&setting_lines(name, value, from, "a line of a table (docs/models.md)", invocation));
    }
    if text.is_empty() && !prefix.is_empty() && !only_set {
        return Err(ConfigError::KeyUnknown { key: prefix.to_owned(), place: None }.into());
    }
    let line = |(name, value, from): &&(String, String, SettingOrigin)| json!({ "key": name, "value": value, "origin": from.word(), "place": from.place() });
    let lines: Vec<Json> = lines.iter().map(line).collect();
    let file = paths::user_config(&invocation.env).map(|path| path.display().to_string());
    if text.is_empty() {
        text.push_str("no setting is set\n");
    }
    let data = json!({ "settings": all, "tables": lines, "user_file": file });
    Ok(CommandReport::new(data, text))
}

/// A setting and its value, and below them what it is about, folded at the screen's end.
fn setting_lines(
    name: &str,
    value: &str,
    from: &SettingOrigin,
    doc: &str,
    invocation: &Invocation,
) -> String {
    let style = &invocation.style;
    let by = match from {
        SettingOrigin::Default => String::new(),
        SettingOrigin::Flag
        | SettingOrigin::Environment { .. }
        | SettingOrigin::Project(_)
        | SettingOrigin::User(_) => format!("  ({})", from.word()),
    };
    let value = escape_control_chars(&one_line(value));
    let head = format!("{} = {value}{by}", style.paint.bold(name));
    let mut text = head + "\n";
    for line in folded(doc, style.width.unwrap_or(FOLD_CHARS).saturating_sub(DOC_INDENT.len())) {
        text.push_str(&format!("{DOC_INDENT}{}\n", style.paint.dim(&line)));
    }
    text
}

/// The words of a text in lines of at most so many characters, unless a word has more.
fn folded(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars_max => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}
