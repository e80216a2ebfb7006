//! The directories of the program on this machine.
//!
//! # Invariants
//! 1. The data directory is `--data-dir`, else `CLEVERAGENTS_DATA_DIR`, else `cleveragents` in the XDG data
//!    directory, and only its owner can enter it.
//! 2. Nothing is made before it is needed.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use engine::ProviderSettings;

use crate::errors::{CommandError, codes, hints};

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
pub fn data_dir(flag: Option<&Path>, env: &Env) -> Result<PathBuf, CommandError> {
    let named = flag.map(Path::to_owned).or_else(|| set(env, "CLEVERAGENTS_DATA_DIR").map(PathBuf::from));
    let found = named.or_else(|| Some(xdg(env, "XDG_DATA_HOME", ".local/share")?.join(FOLDER)));
    let found = found.ok_or_else(|| {
        CommandError::new(&codes::USAGE, "there is no place for data: neither HOME nor XDG_DATA_HOME is set")
            .hint(hints::NAME_DATA_DIR)
    })?;
    std::path::absolute(&found).map_err(|error| cannot(&found, "found", &error))
}

/// The file that plans are stored in.
const STORE: &str = "agents.db";
/// The prefixes of this program's names in its data directory, and the names at the root of a file system.
const NAMES: [&str; 12] = [
    STORE,
    "breakers.jsonl",
    "commit-",
    "contents",
    "index",
    "journal",
    "logs",
    "lost+found",
    "redaction.key",
    "sandboxes",
    "undo",
    "workers",
];

/// The state of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDirState {
    /// Nothing.
    Absent,
    /// A directory without plans, in which nothing else is either.
    Empty,
    /// Plans of this program.
    Ours,
}

/// Looks what is at the place of a data directory, and changes nothing.
///
/// # Errors
/// It cannot be looked at, or it is a directory with other files.
pub fn look_at_data_dir(dir: &Path) -> Result<DataDirState, CommandError> {
    if dir.join(STORE).symlink_metadata().is_ok() {
        return Ok(DataDirState::Ours);
    }
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(DataDirState::Absent),
        Err(error) => return Err(cannot(dir, "read", &error)),
    };
    let is_ours = |name: &str| NAMES.iter().any(|ours| name.starts_with(ours));
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    match names.find(|name| !name.to_str().is_some_and(is_ours)) {
        None => Ok(DataDirState::Empty),
        Some(_) => {
            let message = format!(
                "{} is not a data directory of this program: it holds other files; nothing was changed",
                dir.display()
            );
            Err(CommandError::new(&codes::DATA_DIR_FOREIGN, message))
        }
    }
}

/// Makes the data directory, if it is not there, for its owner only. The mode of one that is there is never
/// changed.
///
/// # Errors
/// It cannot be made or written, or it holds other files.
pub fn make_data_dir(dir: &Path) -> Result<(), CommandError> {
    match look_at_data_dir(dir)? {
        // Whatever is made in it is for its owner only.
        DataDirState::Ours | DataDirState::Empty => {}
        DataDirState::Absent => DirBuilder::new()
            .recursive(true)
            .mode(DATA_DIR_MODE)
            .create(dir)
            .map_err(|error| cannot(dir, "made", &error))?,
    }
    // The store would only say that it cannot be opened.
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| cannot(dir, "written", &errno.into()))
}

/// An empty data directory that is thrown away: for commands that look for data where there is none.
#[derive(Debug)]
pub struct EmptyDir(PathBuf);

impl EmptyDir {
    /// Makes one, for its owner only.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<EmptyDir, CommandError> {
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("agents-empty-{}-{}", std::process::id(), nanos.as_nanos());
        let dir = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(DATA_DIR_MODE).create(&dir);
        made.map_err(|error| cannot(&dir, "made", &error))?;
        Ok(EmptyDir(dir))
    }

    /// Its location.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EmptyDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cannot(dir: &Path, what: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(
        &codes::IO_FAILED,
        format!("the data directory {} cannot be {what}: {error}", dir.display()),
    )
    .hint(hints::OTHER_DATA_DIR)
}

/// A path of a setting, in which `~/` is the user's home.
pub fn expanded(path: &str, env: &Env) -> PathBuf {
    let below = if path == "~" { Some("") } else { path.strip_prefix("~/") };
    match (below, set(env, "HOME")) {
        (Some(""), Some(home)) => PathBuf::from(home),
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
    use std::os::unix::fs::PermissionsExt;

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
    fn only_its_owner_enters_the_data_directory_and_no_mode_is_changed() {
        let dir = tempfile::TempDir::new().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let made = dir.path().join("a/b");
        make_data_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        let (open, ours) = (dir.path().join("open"), dir.path().join("ours"));
        for path in [&open, &ours] {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        make_data_dir(&open).unwrap();
        std::fs::write(ours.join("agents.db"), "").unwrap();
        std::fs::write(ours.join("other"), "").unwrap();
        make_data_dir(&ours).unwrap();
        std::fs::write(open.join("other"), "").unwrap();
        assert_eq!(look_at_data_dir(&open).unwrap_err().code, &codes::DATA_DIR_FOREIGN);
        assert_eq!((mode(&open), mode(&ours)), (0o755, 0o755));
    }

    #[test]
    fn a_tilde_is_the_home() {
        assert_eq!(expanded("~/.ssh", &env(&[("HOME", "/h")])), Path::new("/h/.ssh"));
        assert_eq!(expanded("/a/~/b", &env(&[("HOME", "/h")])), Path::new("/a/~/b"));
    }
}
