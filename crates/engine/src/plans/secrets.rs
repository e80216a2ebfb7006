//! The redactor of this data directory: made when it is first needed, with a key that stays.
//!
//! # Invariants
//! 1. Keys of providers that stand in the environment, and passwords in their addresses, are known from the start; keys that
//!    stand in files from the moment that this process has read them.
//! 2. What was known stays known, and has the same mark; where no key can be kept, as long as the process.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use actors::model::{ProviderSettings, url_secrets};
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
    /// Variables that the settings name for keys.
    named: Vec<String>,
    /// Passwords in addresses of the settings.
    in_urls: Vec<String>,
    redactor: OnceLock<Option<Arc<Redactor>>>,
    /// The same, and it knows the keys that were read since.
    full: OnceLock<Option<Arc<Redactor>>>,
}

impl Secrets {
    pub(crate) fn of(data_dir: &Path, providers: &BTreeMap<String, ProviderSettings>) -> Self {
        Self {
            key_file: data_dir.join("redaction.key"),
            named: providers.values().filter_map(|provider| provider.key_env.clone()).collect(),
            in_urls: providers
                .values()
                .filter_map(|own| own.base_url.as_deref())
                .flat_map(url_secrets)
                .collect(),
            redactor: OnceLock::new(),
            full: OnceLock::new(),
        }
    }

    /// From now on these are secrets too. The first call counts: keys are read once.
    pub(crate) fn know(&self, keys: Vec<String>) {
        self.full.get_or_init(|| self.make(keys));
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
        self.made().map(Arc::as_ref)
    }

    /// The redactor as it is now, to be kept for a while.
    pub(crate) fn shared(&self) -> Option<Arc<Redactor>> {
        self.made().cloned()
    }

    fn made(&self) -> Option<&Arc<Redactor>> {
        match self.full.get() {
            Some(full) => full.as_ref(),
            None => self.redactor.get_or_init(|| self.make(Vec::new())).as_ref(),
        }
    }

    fn make(&self, mut keys: Vec<String>) -> Option<Arc<Redactor>> {
        let key = read_or_make_key(&self.key_file).ok()?;
        let names = SECRET_NAMES.iter().copied().chain(self.named.iter().map(String::as_str));
        keys.extend(names.filter_map(|name| std::env::var(name).ok()));
        keys.extend(self.in_urls.iter().cloned());
        Redactor::new(key, keys).ok().map(Arc::new)
    }
}

fn read_or_make_key(file: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    if let Ok(mut existing) = std::fs::File::open(file) {
        existing.read_exact(&mut key)?;
        return Ok(key);
    }
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    match keep_key(file, &key) {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::File::open(file)?.read_exact(&mut key)?;
            Ok(key)
        }
        // Marks hold as long as the process then, and so does all that is made with them: no store is there either.
        Err(_) => Ok(key),
    }
}

fn keep_key(file: &Path, key: &[u8]) -> io::Result<()> {
    // Written beside and linked: of two processes that make one, both end up with the first.
    let beside = file.with_extension(format!("key-{}", std::process::id()));
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    new.write_all(key)?;
    let linked = std::fs::hard_link(&beside, file);
    std::fs::remove_file(&beside)?;
    linked
}
