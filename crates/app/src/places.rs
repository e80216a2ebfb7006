//! Where the program keeps things on this machine.
//!
//! # Invariants
//! 1. The data directory is `--data-dir`, else `CLEVERAGENTS_DATA_DIR`, else `cleveragents` in the XDG data directory,
//!    and only its owner can enter it.
//! 2. Nothing is made before it is needed.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use engine::plans::ProviderSettings;

use crate::failure::{Failure, codes};

/// Below the XDG directories.
const FOLDER: &str = "cleveragents";
/// Only its owner enters.
const DATA_DIR_MODE: u32 = 0o700;

/// The variables of the environment that are text.
pub type Env = BTreeMap<String, String>;

/// The user's config file; none without a home.
pub fn user_config(env: &Env) -> Option<PathBuf> {
    Some(xdg(env, "XDG_CONFIG_HOME", ".config")?.join(FOLDER).join("config.toml"))
}

/// The data directory that was asked for.
///
/// # Errors
/// Nothing says where it could be.
pub fn data_dir(flag: Option<&Path>, env: &Env) -> Result<PathBuf, Failure> {
    let named = flag.map(Path::to_owned).or_else(|| set(env, "CLEVERAGENTS_DATA_DIR").map(PathBuf::from));
    let found = named.or_else(|| Some(xdg(env, "XDG_DATA_HOME", ".local/share")?.join(FOLDER)));
    let found = found.ok_or_else(|| {
        Failure::new(&codes::USAGE, "neither HOME nor XDG_DATA_HOME says where data can be kept")
            .hint("name a directory with `--data-dir DIR`")
    })?;
    std::path::absolute(&found).map_err(|error| cannot(&found, "found", &error))
}

/// Makes the data directory, if it is not there, for its owner only.
///
/// # Errors
/// It cannot be made or written, or others could enter it and that cannot be changed.
pub fn make_data_dir(dir: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(DATA_DIR_MODE)
        .create(dir)
        .map_err(|error| cannot(dir, "made", &error))?;
    let found = std::fs::metadata(dir).map_err(|error| cannot(dir, "read", &error))?;
    if found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(DATA_DIR_MODE))
            .map_err(|error| cannot(dir, "closed to others", &error))?;
    }
    // The store would only say that it cannot be opened.
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| cannot(dir, "written", &errno.into()))
}

fn cannot(dir: &Path, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(&codes::IO_FAILED, format!("the data directory {} cannot be {what}: {error}", dir.display()))
        .hint("name another one with `--data-dir DIR`")
}

/// A path of a setting, in which `~/` is the user's home.
pub fn expanded(path: &str, env: &Env) -> PathBuf {
    match (path.strip_prefix("~/"), set(env, "HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        (Some(_) | None, _) => PathBuf::from(path),
    }
}

/// The providers of settings, with the files of their keys where they are.
pub fn providers(
    mut providers: BTreeMap<String, ProviderSettings>,
    env: &Env,
) -> BTreeMap<String, ProviderSettings> {
    for file in providers.values_mut().filter_map(|provider| provider.key_file.as_mut()) {
        *file = expanded(&file.to_string_lossy(), env);
    }
    providers
}

/// An XDG directory: one that is not absolute counts as not set, as the standard asks.
fn xdg(env: &Env, name: &str, below_home: &str) -> Option<PathBuf> {
    let named = set(env, name).map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(Path::new(set(env, "HOME")?).join(below_home)))
}

fn set<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    env.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_data_directory_is_the_flags_then_the_variables_then_xdgs() {
        let find = |flag: Option<&str>, pairs: &[(&str, &str)]| {
            data_dir(flag.map(Path::new), &env(pairs)).map(|dir| dir.display().to_string()).ok()
        };
        let all = [("CLEVERAGENTS_DATA_DIR", "/v"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(find(Some("/f"), &all).as_deref(), Some("/f"));
        assert_eq!(find(None, &all).as_deref(), Some("/v"));
        assert_eq!(find(None, &all[1..]).as_deref(), Some("/x/cleveragents"));
        assert_eq!(find(None, &all[2..]).as_deref(), Some("/h/.local/share/cleveragents"));
        assert_eq!(
            find(None, &[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]).as_deref(),
            Some("/h/.local/share/cleveragents")
        );
        assert_eq!(find(None, &[("CLEVERAGENTS_DATA_DIR", "")]), None);
        assert_eq!(user_config(&env(&all)), Some("/h/.config/cleveragents/config.toml".into()));
    }

    #[test]
    fn only_its_owner_enters_the_data_directory() {
        let dir = tempfile::TempDir::new().unwrap();
        let (made, open) = (dir.path().join("a/b"), dir.path().join("open"));
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        for path in [&made, &open] {
            make_data_dir(path).unwrap();
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_tilde_is_the_home() {
        assert_eq!(expanded("~/.ssh", &env(&[("HOME", "/h")])), Path::new("/h/.ssh"));
        assert_eq!(expanded("/a/~/b", &env(&[("HOME", "/h")])), Path::new("/a/~/b"));
    }
}
