//! Keys of providers: read from the environment or a file of the user's own, shown nowhere.
//!
//! # Invariants
//! 1. A [`ProviderKey`] cannot be serialised, and prints as where it came from.
//! 2. A file that others may read is refused, with what to type. It is looked at after it was opened, so that
//!    it is the file that is read.
//! 3. A key has visible ASCII characters only: it fits into a header, and looks the same inside JSON.
//!
//! # Not here
//! The assignment of keys to providers: [`Providers`](super::Providers).

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY_BYTES_MAX: usize = 16 * 1024;
const OTHERS: u32 = 0o077;
/// The replacement of a key.
const HIDDEN: &str = "[key]";

/// A provider's key.
///
/// It does not show itself:
///
/// ```compile_fail,E0277
/// fn stored(value: &impl serde::Serialize) {}
/// fn of(key: actors::model::ProviderKey) { stored(&key) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey {
    value: Arc<str>,
    from: Arc<str>,
}

/// The reason why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is nowhere.
    #[error("the key is missing: set the environment variable {variable}")]
    Missing {
        /// The variable that would have it.
        variable: String,
    },
    /// The file cannot be read.
    #[error("the key file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The file is no file.
    #[error("the key file {} is not a regular file", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the file.
    #[error("the key file {path} can be read by others (mode {mode:04o}): type `chmod 600 {path}`", path = path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no key.
    #[error("the key from {from} is {what}")]
    Malformed {
        /// A variable or a file.
        from: String,
        /// The problem.
        what: &'static str,
    },
}

impl ProviderKey {
    /// A key; `from` says where it came from.
    ///
    /// # Errors
    /// Returns an error if the value is empty, too long, or has characters that no key has.
    pub fn new(value: &str, from: &str) -> Result<ProviderKey, KeyError> {
        let value = value.trim();
        let malformed = |what| Err(KeyError::Malformed { from: from.to_owned(), what });
        if value.is_empty() {
            return malformed("empty");
        }
        if value.len() > KEY_BYTES_MAX {
            return malformed("longer than 16 KiB");
        }
        if !value.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')) {
            return malformed("not a key: it has spaces, quotes or characters beyond ASCII");
        }
        Ok(ProviderKey { value: value.into(), from: from.into() })
    }

    /// The key in a file that only its owner may read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, others may read it, or it holds no key.
    pub fn from_file(path: &Path) -> Result<ProviderKey, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        // Without O_NONBLOCK a pipe in its place would wait for a writer.
        let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() {
            return Err(KeyError::NoFile { path: path.to_owned() });
        }
        let mode = found.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(KeyError::TooOpen { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        let bound = u64::try_from(KEY_BYTES_MAX + 2).unwrap_or(u64::MAX);
        file.take(bound).read_to_string(&mut text).map_err(unreadable)?;
        ProviderKey::new(&text, &path.display().to_string())
    }

    /// The key itself, for a header and for the redactor only.
    pub(super) fn reveal(&self) -> &str {
        &self.value
    }

    /// Its origin: a variable of the environment, or a file.
    pub(crate) fn origin(&self) -> &str {
        &self.from
    }

    /// The text with `[key]` wherever it had this key.
    pub fn hide_in(&self, text: &str) -> String {
        text.replace(&*self.value, HIDDEN)
    }
}

/// Its origin.
impl fmt::Display for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[key from {}]", self.from)
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const SECRET: &str = "sk-very-secret-value";

    #[test]
    fn a_key_shows_where_it_came_from_and_never_itself() {
        let key = ProviderKey::new(SECRET, "OPENAI_API_KEY").unwrap();
        assert_eq!(
            (key.to_string(), format!("{key:?}")),
            ("[key from OPENAI_API_KEY]".to_owned(), "Key(OPENAI_API_KEY)".to_owned())
        );
        assert_eq!(key.hide_in(&format!("a {SECRET} b {SECRET}")), "a [key] b [key]");
        assert_eq!(key.reveal(), SECRET);
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_shown() {
        for (value, what) in [
            (" \n", "empty"),
            ("a b-secret", "not a key"),
            ("schlüssel", "not a key"),
            ("a\"secret", "not a key"),
        ] {
            let error = ProviderKey::new(value, "X_KEY").unwrap_err().to_string();
            assert!(error.starts_with("the key from X_KEY is ") && error.contains(what), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(ProviderKey::new(&"a".repeat(KEY_BYTES_MAX + 1), "X").is_err());
        assert!(ProviderKey::new(&"a".repeat(KEY_BYTES_MAX), "X").is_ok());
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_what_to_type() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o610, 0o601] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = ProviderKey::from_file(&path).unwrap_err().to_string();
            let expected = format!(
                "the key file {path} can be read by others (mode {mode:04o}): type `chmod 600 {path}`",
                path = path.display()
            );
            assert_eq!(error, expected);
        }
        for mode in [0o600, 0o400] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(ProviderKey::from_file(&path).unwrap().reveal(), SECRET);
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(ProviderKey::from_file(dir.path()), Err(KeyError::NoFile { .. })));
        assert!(matches!(ProviderKey::from_file(&dir.path().join("none")), Err(KeyError::Unreadable { .. })));
    }
}
