//! Writes settings into a file of settings: all of them or none, whatever happens meanwhile.
//!
//! # Invariants
//! 1. The file is at every moment the old one or the new one, whole. The new one is written next to it,
//!    synced and renamed over it.
//! 2. Two writers come one after the other, by a lock on the directory, and each reads what the other wrote.
//!    The lock is the kernel's, so it goes with a process that is killed.
//! 3. Comments, order and everything else in the file stay as they are.
//!
//! # Not here
//! Whether the values are allowed: they come as [`SettingValue`]s, which are, and lines of tables are read as
//! a file's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::automation::{DEFAULT, Profiles};
use super::error::ConfigError;
use super::file::ConfigFile;
use super::lines::TableLine;
use super::load::check_project_file;
use super::setting_table::SettingKey;
use super::value::SettingValue;

/// The setting whose table has the profiles as well.
const AUTOMATION: &str = "automation";
/// Only its owner reads a file that we make.
const NEW_FILE_MODE: u32 = 0o600;

/// A change to be written.
#[derive(Clone, Debug)]
pub enum SettingChange {
    /// A setting.
    Setting(SettingKey, SettingValue),
    /// A line of a table.
    Line(Box<TableLine>),
    /// Removes the setting, the line or the table with this name.
    Removal(String),
}

/// The level that a file of settings is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLevel {
    /// The user's own file.
    User,
    /// The file of a project, which may not set what protects its user.
    Project,
}

/// Makes all of these changes in the file at `path`, which is made if it is not there. Returns the names of
/// those that the file had not, of the ones to be removed.
///
/// # Errors
/// The file is no valid config file, or cannot be read or written; then it is as before.
pub fn set(path: &Path, level: FileLevel, changes: &[SettingChange]) -> Result<Vec<String>, ConfigError> {
    // A link to a file elsewhere (a folder of dotfiles) stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = target.parent().unwrap_or(Path::new("/"));
    let written = |error| ConfigError::io(path, "written")(error);
    fs::create_dir_all(dir).map_err(written)?;
    let locked_dir = File::open(dir).map_err(written)?;
    flock(&locked_dir, FlockOperation::LockExclusive).map_err(|error| written(error.into()))?;
    let text = match fs::read_to_string(&target) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(ConfigError::io(path, "read")(error)),
    };
    // An error that is in the file already is reported with its line, before anything is added to it.
    ConfigFile::parse(path, &text)?;
    let (edited, absent) = edit(path, &text, changes)?;
    if edited == text {
        return Ok(absent);
    }
    // An error now was typed: it is on no line of any file yet.
    let file = ConfigFile::parse(path, &edited).map_err(ConfigError::typed)?;
    if level == FileLevel::Project {
        check_project_file(&file)?;
    }
    // An unknown profile was typed only if one was: else it was there before.
    let is_typed =
        changes.iter().any(|change| matches!(change, SettingChange::Setting(SettingKey::Automation, _)));
    let checked = Profiles::from_file(&file).check(&file);
    checked.map_err(|error| if is_typed { error.typed() } else { error })?;
    replace(&target, edited.as_bytes()).map_err(written)?;
    locked_dir.sync_all().map_err(written)?;
    Ok(absent)
}

/// Checks the file at `path` as it would be read; one that is not there is right.
///
/// # Errors
/// Returns an error if it is no valid config file of its level.
pub fn check(path: &Path, level: FileLevel) -> Result<(), ConfigError> {
    let file = ConfigFile::read(path)?;
    match level {
        FileLevel::User => Profiles::from_file(&file).check(&file),
        FileLevel::Project => check_project_file(&file),
    }
}

/// Returns the new text, and the names to be removed that it had not.
fn edit(path: &Path, text: &str, changes: &[SettingChange]) -> Result<(String, Vec<String>), ConfigError> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| ConfigError::FileInvalid {
            place: super::SettingLocation::Line { file: path.to_owned(), line: 1 },
            why: error.message().to_owned(),
        })?;
    // A file of comments alone: what is added goes below them, where the editor would put it above.
    let comments = if document.as_table().is_empty() {
        std::mem::take(&mut document).to_string()
    } else {
        String::new()
    };
    let mut absent = Vec::new();
    for change in changes {
        match change {
            SettingChange::Removal(name) => {
                if !remove(document.as_table_mut(), name) {
                    absent.push(name.clone());
                }
            }
            SettingChange::Setting(key, value) => {
                put(document.as_table_mut(), key.entry().name, value.to_toml())
            }
            SettingChange::Line(line) => put_line(document.as_table_mut(), line),
        }
    }
    let gap = if comments.is_empty() || comments.ends_with('\n') { "" } else { "\n" };
    Ok((format!("{comments}{gap}{document}"), absent))
}

/// Removes what has this name, and the tables that are empty without it. Returns false if there is nothing.
fn remove(table: &mut dyn TableLike, name: &str) -> bool {
    // The longest key first: a name of a model may have dots.
    let keys: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        if key == name {
            // The profiles of automation are in a table of the setting's name.
            let profiles =
                table.get_mut(&key).filter(|_| key == AUTOMATION).and_then(Item::as_table_like_mut);
            return match profiles {
                Some(profiles) => profiles.remove(DEFAULT).is_some(),
                None => table.remove(&key).is_some(),
            };
        }
        let Some(rest) = name.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        let Some(inner) = table.get_mut(&key).and_then(Item::as_table_like_mut) else { continue };
        if remove(inner, rest) {
            if inner.is_empty() {
                table.remove(&key);
            }
            return true;
        }
    }
    false
}

/// Puts a value where the file has it already, or into the table of its first word.
fn put(root: &mut Table, name: &str, value: toml_edit::Value) {
    match name.split_once('.') {
        // The profiles of automation are in a table of the setting's name.
        None => match root.get_mut(name).and_then(Item::as_table_like_mut) {
            Some(profiles) => replace_value(profiles.entry(DEFAULT).or_insert(Item::None), value),
            None => replace_value(root.entry(name).or_insert(Item::None), value),
        },
        Some((head, tail)) => {
            let inner = root.entry(head).or_insert_with(|| Item::Table(Table::new()));
            match inner.as_table_like_mut() {
                Some(table) => put_below(table, tail, value),
                // Checked before: only tables are there.
                None => *inner = Item::Value(value),
            }
        }
    }
}

/// Puts a line into its table: `[providers.box]`.
fn put_line(root: &mut Table, line: &TableLine) {
    let tables = root.entry(line.table).or_insert_with(|| {
        let mut tables = Table::new();
        tables.set_implicit(true);
        Item::Table(tables)
    });
    let Some(tables) = tables.as_table_like_mut() else { return };
    let whose = tables.entry(&line.name).or_insert_with(|| Item::Table(Table::new()));
    // Other content there is reported when the file is read.
    if let Some(table) = whose.as_table_like_mut() {
        replace_value(table.entry(&line.key).or_insert(Item::None), line.value.clone());
    }
}

/// The same below a table: every word of the name but the last is a table of its own.
fn put_below(table: &mut dyn TableLike, name: &str, value: toml_edit::Value) {
    match name.split_once('.') {
        None => replace_value(table.entry(name).or_insert(Item::None), value),
        Some((head, tail)) => {
            let inner = table.entry(head).or_insert_with(|| Item::Table(Table::new()));
            match inner.as_table_like_mut() {
                Some(table) => put_below(table, tail, value),
                None => *inner = Item::Value(value),
            }
        }
    }
}

/// The comment behind the old value stays behind the new one.
fn replace_value(item: &mut Item, mut value: toml_edit::Value) {
    if let Some(old) = item.as_value() {
        *value.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(value);
}

/// Writes a file next to the target and renames it over the target. The temporary name is fixed: the holder
/// of the lock finds at most one file left by a killed writer, and writes over it.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(target);
    let mode = fs::metadata(target).map_or(NEW_FILE_MODE, |found| found.permissions().mode() & 0o7777);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(NEW_FILE_MODE).open(&beside)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, target)
}

fn beside(target: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".new");
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn count(key: SettingKey, count: u64) -> SettingChange {
        SettingChange::Setting(key, SettingValue::Count(count))
    }

    #[test]
    fn a_setting_is_changed_and_all_else_stays() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("config.toml");
        let before = "# mine\nautomation = \"review\" # for now\n\n[plan] # how many\nconcurrency = 2 # cores\n\n[[validation]]\nrun = \"x\"\n";
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let values = [
            count(SettingKey::PlanConcurrency, 8),
            SettingChange::Setting(SettingKey::Automation, SettingValue::Word("auto".into())),
            count(SettingKey::RetentionDays, 9),
        ];
        set(&path, FileLevel::User, &values).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        assert_eq!(
            after,
            "# mine\nautomation = \"auto\" # for now\n\n[plan] # how many\nconcurrency = 8 # cores\n\n[[validation]]\nrun = \"x\"\n\n[retention]\ndays = 9\n"
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_file_is_its_owners_and_a_dotted_spelling_is_kept() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("deep/config.toml");
        set(&path, FileLevel::User, &[count(SettingKey::PlanConcurrency, 8)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[plan]\nconcurrency = 8\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "plan.concurrency = 3\nretention = { days = 1 }\n").unwrap();
        set(
            &path,
            FileLevel::User,
            &[count(SettingKey::PlanConcurrency, 4), count(SettingKey::RetentionDays, 2)],
        )
        .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "plan.concurrency = 4\nretention = { days = 2 }\n");
    }

    #[test]
    fn a_link_to_the_file_stays_a_link() {
        let dir = TempDir::new().unwrap();
        let (real, link) = (dir.path().join("real.toml"), dir.path().join("config.toml"));
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        set(&link, FileLevel::User, &[count(SettingKey::PlanConcurrency, 8)]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "[plan]\nconcurrency = 8\n");
    }

    #[test]
    fn a_file_that_is_wrong_already_is_not_touched() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("config.toml");
        fs::write(&path, "plan = 3\n").unwrap();
        assert!(set(&path, FileLevel::User, &[count(SettingKey::PlanConcurrency, 8)]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "plan = 3\n");
    }

    #[test]
    fn a_setting_is_removed_with_the_tables_that_it_leaves_empty() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("config.toml");
        let before = "# mine\nautomation = \"review\"\n\n[plan]\nconcurrency = 2\n\n[prices.\"a/b.c\"]\ninput = 3\noutput = 4\n";
        fs::write(&path, before).unwrap();
        let removal = |name: &str| SettingChange::Removal(name.to_owned());
        assert_eq!(set(&path, FileLevel::User, &[removal("limits.time")]).unwrap(), ["limits.time"]);
        // The rest has to be valid: a price has both.
        assert!(set(&path, FileLevel::User, &[removal("prices.a/b.c.output")]).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let all = [removal("plan.concurrency"), removal("prices.a/b.c"), removal("automation")];
        assert!(set(&path, FileLevel::User, &all).unwrap().is_empty());
        let after = fs::read_to_string(&path).unwrap();
        assert_eq!(after.trim(), "", "{after}");
    }

    #[test]
    fn a_project_file_is_refused_what_protects_the_user() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("config.toml");
        let value = SettingChange::Setting(SettingKey::PolicyTrust, SettingValue::Word("all".into()));
        let refused = set(&path, FileLevel::Project, &[value]);
        assert!(matches!(refused, Err(ConfigError::NotAllowedHere { .. })), "{refused:?}");
        assert!(!path.exists());
        set(&path, FileLevel::Project, &[count(SettingKey::CaptureMaxFileMb, 3)]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[capture]\nmax_file_mb = 3\n");
    }
}
