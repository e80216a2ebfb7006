//! The errors of reading and writing settings.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::file::SettingLocation;
use super::setting_table::ENTRIES;
use crate::errors::{CommandError, codes, hints};

/// The reason why settings cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such setting.
    #[error("there is no setting `{key}`{}", at(place))]
    KeyUnknown {
        /// The unknown key.
        key: String,
        /// The location of the key; `None` if it was typed.
        place: Option<SettingLocation>,
    },
    /// The setting cannot have this value.
    #[error("`{key}` cannot be `{value}`{}: it takes {allowed}", at(place))]
    ValueInvalid {
        /// The setting.
        key: String,
        /// The rejected value.
        value: String,
        /// The allowed values.
        allowed: String,
        /// The location of the value, or its variable; `None` if it was typed.
        place: Option<SettingLocation>,
    },
    /// A project sets what only its user may set.
    #[error("`{key}` cannot be set by a project ({place}): it protects the user")]
    NotAllowedHere {
        /// The setting.
        key: String,
        /// The location of the setting.
        place: SettingLocation,
    },
    /// A file is no TOML.
    #[error("{place}: {why}")]
    FileInvalid {
        /// The location at which it stops being TOML.
        place: SettingLocation,
        /// The reason.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be {what}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// There is no place for the user's settings.
    #[error("the settings of the user cannot be found: neither HOME nor XDG_CONFIG_HOME is set")]
    NoHome,
}

impl ConfigError {
    /// Returns the same error for a typed setting, which has no location.
    pub(super) fn typed(self) -> ConfigError {
        match self {
            ConfigError::KeyUnknown { key, .. } => ConfigError::KeyUnknown { key, place: None },
            ConfigError::ValueInvalid { key, value, allowed, .. } => {
                ConfigError::ValueInvalid { key, value, allowed, place: None }
            }
            ConfigError::NotAllowedHere { .. }
            | ConfigError::FileInvalid { .. }
            | ConfigError::Io { .. }
            | ConfigError::NoHome => self,
        }
    }

    pub(super) fn io(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> ConfigError {
        move |source| ConfigError::Io { path: path.to_owned(), what, source }
    }
}

fn at(place: &Option<SettingLocation>) -> impl fmt::Display {
    place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default()
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        let message = error.to_string();
        match error {
            ConfigError::KeyUnknown { key, .. } => {
                let failure = CommandError::new(&codes::CONFIG_KEY_UNKNOWN, message);
                match nearest(&key) {
                    Some(name) => failure.hint(hints::DID_YOU_MEAN).field("nearest", name),
                    None => failure,
                }
            }
            ConfigError::ValueInvalid { .. } => CommandError::new(&codes::CONFIG_VALUE_INVALID, message),
            ConfigError::NotAllowedHere { key, .. } => {
                CommandError::new(&codes::CONFIG_NOT_ALLOWED_HERE, message).field("key", key)
            }
            ConfigError::FileInvalid { .. } => CommandError::new(&codes::CONFIG_FILE_INVALID, message),
            ConfigError::Io { .. } => CommandError::new(&codes::IO_FAILED, message),
            ConfigError::NoHome => CommandError::new(&codes::USAGE, message).hint(hints::SET_HOME),
        }
    }
}

/// The setting that was probably meant.
pub(super) fn nearest(wrong: &str) -> Option<&'static str> {
    domain::nearest(wrong, ENTRIES.iter().map(|entry| entry.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_setting_that_was_meant() {
        assert_eq!(nearest("plan.concurency"), Some("plan.concurrency"));
        assert_eq!(nearest("retention.day"), Some("retention.days"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest("plan.cnocurrency"), Some("plan.concurrency"), "two letters changed places");
    }
}
