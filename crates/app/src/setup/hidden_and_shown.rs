//! The paths of a home that commands see, and those that nothing of a plan sees.
//!
//! # Invariants
//! 1. The settings' directory and every file of a key that the settings name are hidden, whatever
//!    `isolation.hide` says.
//! 2. Hiding wins: a credential below a directory that is shown is not seen.
//!
//! # Not here
//! The built-in lists of paths: `domain::builtin_paths`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use domain::ByteText;
use domain::builtin_paths;

use super::paths;
use super::paths::Env;
use crate::config::{SettingKey, Settings};

/// Returns the home that `~` means in the lists; empty if there is none.
pub fn home(env: &Env) -> ByteText {
    env.get("HOME").map(|home| ByteText::from(home.as_str())).unwrap_or_default()
}

/// Returns the paths of the home that commands see, as a plan stores them: `isolation.show`.
pub fn shown_words(settings: &Settings, env: &Env) -> Vec<ByteText> {
    words(settings, SettingKey::IsolationShow, env)
}

/// Returns the paths that nothing of a plan sees, as a plan stores them: `isolation.hide`, the settings, and
/// the files of keys.
pub fn hidden_words(settings: &Settings, env: &Env) -> Vec<ByteText> {
    let mut hidden = words(settings, SettingKey::IsolationHide, env);
    let text = |path: PathBuf| ByteText(path.as_os_str().as_bytes().to_vec());
    hidden.extend(paths::user_config(env).and_then(|file| Some(text(file.parent()?.to_owned()))));
    let providers = paths::providers(settings.providers.clone(), env);
    hidden.extend(providers.into_values().filter_map(|provider| provider.key_file.map(text)));
    hidden
}

/// Returns the paths that nothing of a plan sees, each written out.
pub fn hidden(settings: &Settings, env: &Env) -> Vec<PathBuf> {
    let paths = builtin_paths::expand(&hidden_words(settings, env), &home(env));
    paths.into_iter().map(|path| PathBuf::from(OsString::from_vec(path.0))).collect()
}

fn words(settings: &Settings, key: SettingKey, env: &Env) -> Vec<ByteText> {
    let paths = settings.words(key).iter().map(|word| paths::expanded(word, env));
    paths.map(|path| ByteText(path.into_os_string().into_vec())).collect()
}
