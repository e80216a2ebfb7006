//! The redactor of this data directory: made when it is first needed, with a key that stays.
//!
//! # Invariants
//! 1. Keys of providers that stand in the environment, and passwords in their addresses, are known from the start; keys that
//!    stand in files from the moment that this process has read them.
//! 2. The values of variables that are passed to commands are known from the moment that a plan names them, and to other
//!    processes by prints: keyed hashes that are stored with the data.
//! 3. What was known stays known, and has the same mark; where no key can be kept, as long as the process.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use actors::model::{ProviderSettings, url_secrets};
use domain::{Redactor, SECRET_BYTES_MIN, SecretPrint};
use sync::primitives::lock;

use super::data_files::open_file;

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

/// Names of variables that hold no secret, whoever passes them on.
const PLAIN_NAMES: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "PWD",
    "OLDPWD",
    "TMPDIR",
    "DISPLAY",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "HOSTNAME",
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "JAVA_HOME",
    "GOPATH",
    "VIRTUAL_ENV",
];
const PLAIN_BEGINNINGS: [&str; 3] = ["LC_", "XDG_", "CARGO_HOME"];

/// The file with the prints of values that were passed on.
const PRINTS_FILE: &str = "redaction.known";
/// How much of it is read.
const PRINTS_BYTES_MAX: u64 = 256 * 1024;

/// Takes secrets out of what is stored and shown.
pub(crate) struct Secrets {
    key_file: PathBuf,
    prints_file: PathBuf,
    /// Variables that the settings name for keys.
    named: Vec<String>,
    /// Passwords in addresses of the settings.
    in_urls: Vec<String>,
    /// The redactor as it is now; `None` inside if none can be made.
    redactor: Mutex<Option<Option<Arc<Redactor>>>>,
}

impl Secrets {
    pub(crate) fn of(data_dir: &Path, providers: &BTreeMap<String, ProviderSettings>) -> Self {
        Self {
            key_file: data_dir.join("redaction.key"),
            prints_file: data_dir.join(PRINTS_FILE),
            named: providers.values().filter_map(|provider| provider.key_env.clone()).collect(),
            in_urls: providers
                .values()
                .filter_map(|own| own.base_url.as_deref())
                .flat_map(url_secrets)
                .collect(),
            redactor: Mutex::new(None),
        }
    }

    /// From now on these are secrets too.
    pub(crate) fn know(&self, keys: &[String]) {
        self.learn(keys);
    }

    /// From now on the values of these variables are secrets: they are passed to a command. Other processes find them by
    /// their prints.
    pub(crate) fn know_passed<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let is_secret = |name: &&str| {
            !PLAIN_NAMES.contains(name) && !PLAIN_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        };
        let values = names.into_iter().filter(is_secret).filter_map(|name| std::env::var(name).ok());
        let values: Vec<String> = values.filter(|value| value.trim().len() >= SECRET_BYTES_MIN).collect();
        if let Some(redactor) = self.learn(&values) {
            // What cannot be stored is known as long as this process lives.
            let _ = store_prints(&self.prints_file, &redactor, &values);
        }
    }

    /// Returns the redactor that knows these values too; `None` if there are none, or none can be made.
    fn learn(&self, values: &[String]) -> Option<Arc<Redactor>> {
        if values.is_empty() {
            return None;
        }
        self.redactor()?;
        let mut place = lock(&self.redactor);
        let known = Arc::new(place.as_ref()?.as_ref()?.knowing(values).ok()?);
        *place = Some(Some(Arc::clone(&known)));
        Some(known)
    }

    /// The text without its secrets. When no redactor can be made, nothing of the text is left: it is never shown raw.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        match self.redactor() {
            Some(redactor) => redactor.redact_str(text).into_owned(),
            None => "[text withheld: no redactor]".to_owned(),
        }
    }

    /// Bytes of an output without the values that are known to be secrets, as they are stored.
    pub(crate) fn redact_known(&self, bytes: &[u8]) -> Vec<u8> {
        match self.redactor() {
            Some(redactor) => redactor.redact_known(bytes).into_owned(),
            None => b"[text withheld: no redactor]\n".to_vec(),
        }
    }

    /// The beginning and the end of an output without its secrets. They are taken out first, so that no part of one is left
    /// where the output is cut.
    pub(crate) fn bounded(&self, output: &sandbox::command::Output, head: usize, tail: usize) -> String {
        output
            .bounded_after(head, tail, |bytes| self.redact_text(&String::from_utf8_lossy(bytes)).into_bytes())
    }

    /// The redactor as it is now.
    pub(crate) fn redactor(&self) -> Option<Arc<Redactor>> {
        if let Some(made) = lock(&self.redactor).as_ref() {
            return made.clone();
        }
        let made = self.make().map(Arc::new);
        lock(&self.redactor).get_or_insert(made).clone()
    }

    fn make(&self) -> Option<Redactor> {
        let key = read_or_make_key(&self.key_file).ok()?;
        let names = SECRET_NAMES.iter().copied().chain(self.named.iter().map(String::as_str));
        let mut keys: Vec<String> = names.filter_map(|name| std::env::var(name).ok()).collect();
        keys.extend(self.in_urls.iter().cloned());
        let redactor = Redactor::new(key, keys).ok()?;
        let prints = read_prints(&self.prints_file);
        Some(if prints.is_empty() { redactor } else { redactor.knowing_prints(&prints) })
    }
}

/// The prints that are stored, the newest last. What is no print is passed over.
fn read_prints(file: &Path) -> Vec<SecretPrint> {
    let is_file = std::fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
    let Some(mut found) = std::fs::File::open(file).ok().filter(|_| is_file) else { return Vec::new() };
    let length = found.metadata().map_or(0, |found| found.len());
    let mut bytes = Vec::new();
    let newest = length.saturating_sub(PRINTS_BYTES_MAX);
    let read = found
        .seek(SeekFrom::Start(newest))
        .and_then(|_| found.take(PRINTS_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).lines().filter_map(SecretPrint::parse).collect(),
        Err(_) => Vec::new(),
    }
}

/// Adds the prints of these values. Each is a line, written at once, so that two processes do not mix theirs.
fn store_prints(file: &Path, redactor: &Redactor, values: &[String]) -> io::Result<()> {
    let known = read_prints(file);
    let new = values.iter().flat_map(|value| redactor.prints(value)).filter(|print| !known.contains(print));
    let lines: String = new.map(|print| print.to_line() + "\n").collect();
    if lines.is_empty() {
        return Ok(());
    }
    let mut stored = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    if stored.metadata()?.len() > PRINTS_BYTES_MAX {
        // The oldest half goes; who adds to it at this moment adds again with its next command.
        let newest: Vec<String> = known[known.len() / 2..].iter().map(SecretPrint::to_line).collect();
        stored.set_len(0)?;
        stored.write_all((newest.join("\n") + "\n").as_bytes())?;
    }
    stored.write_all(lines.as_bytes())
}

fn read_or_make_key(file: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    match open_file(file) {
        Ok(mut existing) => {
            existing.read_exact(&mut key)?;
            return Ok(key);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
        Err(_) => {}
    }
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    match keep_key(file, &key) {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            open_file(file)?.read_exact(&mut key)?;
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
