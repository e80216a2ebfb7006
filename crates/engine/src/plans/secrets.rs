//! The redactor of this data directory: made when it is first needed, with a key that stays.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use domain::Redactor;

/// Names of variables whose values are secrets wherever they show up.
const SECRET_NAMES: [&str; 8] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "MISTRAL_API_KEY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
];

/// Takes secrets out of what is stored and shown.
pub(crate) struct Secrets {
    key_file: PathBuf,
    redactor: OnceLock<Option<Redactor>>,
}

impl Secrets {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { key_file: data_dir.join("redaction.key"), redactor: OnceLock::new() }
    }

    /// The text without its secrets. When no redactor can be made, nothing of the text is left: it is never shown raw.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        match self.redactor() {
            Some(redactor) => redactor.redact_str(text).into_owned(),
            None => "[text withheld: no redactor]".to_owned(),
        }
    }

    /// The redactor itself.
    pub(crate) fn redactor(&self) -> Option<&Redactor> {
        let made = self.redactor.get_or_init(|| {
            let key = read_or_make_key(&self.key_file).ok()?;
            let known = SECRET_NAMES.iter().filter_map(|name| std::env::var(name).ok());
            Redactor::new(key, known.collect()).ok()
        });
        made.as_ref()
    }
}

fn read_or_make_key(file: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    if let Ok(mut existing) = std::fs::File::open(file) {
        existing.read_exact(&mut key)?;
        return Ok(key);
    }
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    // Written beside and linked: of two processes that make one, both end up with the first.
    let beside = file.with_extension(format!("key-{}", std::process::id()));
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    new.write_all(&key)?;
    let linked = std::fs::hard_link(&beside, file);
    std::fs::remove_file(&beside)?;
    match linked {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::File::open(file)?.read_exact(&mut key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}
