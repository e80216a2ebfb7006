//! The redactor of this data directory: made when it is first needed, with a key that stays.
//!
//! # Invariants
//! 1. Keys of providers that are in the environment, and passwords in their addresses, are known from the
//!    start. Keys in files are known as soon as this process has read them.
//! 2. The values of variables that are passed to commands are known from the moment that a plan names them.
//!    Other processes know them by prints: keyed hashes that are stored with the data.
//! 3. A known secret stays known, and has the same mark. If no key can be stored, this holds as long as the
//!    process runs.
//! 4. Prints are of use under their own key only. So the data directory is not opened with another key
//!    ([`check_key`]): known secrets would be shown.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use actors::model::{ProviderSettings, url_secrets};
use domain::{Redactor, SECRET_BYTES_MIN, SecretPrint, key_fingerprint};
use serde_json::Value;
use sync::primitives::lock;

use crate::data_files::open_file;

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

/// Names of variables that hold no secret, whichever plan passes them on.
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

/// The file with the key.
const KEY_FILE: &str = "redaction.key";
/// The file with the prints of values that were passed on, and with the fingerprint of the key that they were
/// made with.
const PRINTS_FILE: &str = "redaction.known";
/// The beginning of a line with a fingerprint.
const KEY_LINE: &str = "key ";
/// The number of characters of a fingerprint.
const FINGERPRINT_CHARS: usize = 32;
/// The most bytes of it that are read.
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

/// Takes secrets out of answers, as they are known at that moment. Contents and outputs are redacted before,
/// by what they are; this finds secrets in names of files, which are stored exactly.
#[derive(Clone)]
pub struct SecretFilter(Arc<Secrets>);

impl SecretFilter {
    pub(crate) fn new(secrets: &Arc<Secrets>) -> SecretFilter {
        SecretFilter(Arc::clone(secrets))
    }

    /// The text without its secrets.
    pub fn text(&self, text: Vec<u8>) -> Vec<u8> {
        match self.0.redactor() {
            Some(redactor) => redactor.redact(&text).into_owned(),
            None => text,
        }
    }

    /// The same of words.
    pub fn words(&self, text: String) -> String {
        match self.0.redactor() {
            Some(redactor) => redactor.redact_str(&text).into_owned(),
            None => text,
        }
    }

    /// A value without the secrets in its strings and names.
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
            Value::String(text) => Value::String(self.words(text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.into_iter().map(|(name, value)| (self.words(name), self.value(value))).collect(),
            ),
        }
    }
}

impl std::fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretFilter").finish_non_exhaustive()
    }
}

impl Secrets {
    pub(crate) fn new(data_dir: &Path, providers: &BTreeMap<String, ProviderSettings>) -> Self {
        Self {
            key_file: data_dir.join(KEY_FILE),
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
    pub(crate) fn register_secrets(&self, keys: &[String]) {
        self.learn(keys);
    }

    /// From now on the values of these variables are secrets: they are passed to a command. Other processes
    /// find them by their prints.
    pub(crate) fn register_passed<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let is_secret = |name: &&str| {
            !PLAIN_NAMES.contains(name) && !PLAIN_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        };
        let values = names.into_iter().filter(is_secret).filter_map(|name| std::env::var(name).ok());
        let values: Vec<String> = values.filter(|value| value.trim().len() >= SECRET_BYTES_MIN).collect();
        if let Some(redactor) = self.learn(&values) {
            // A secret that cannot be stored is known as long as this process runs.
            let _ = read_key(&self.key_file)
                .and_then(|key| store_prints(&self.prints_file, &key, &redactor, &values));
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

    /// The text without its secrets. When no redactor can be made, nothing of the text is left: it is never
    /// shown raw.
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

    /// The beginning and the end of an output without its secrets. They are taken out first, so that no part
    /// of one is left where the output is cut.
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
        // If no engine was opened, the key has not been checked yet.
        check_files(&self.key_file, &self.prints_file).ok()?;
        let key = read_or_make_key(&self.key_file).ok()?;
        let names = SECRET_NAMES.iter().copied().chain(self.named.iter().map(String::as_str));
        let mut keys: Vec<String> = names.filter_map(|name| std::env::var(name).ok()).collect();
        keys.extend(self.in_urls.iter().cloned());
        let redactor = Redactor::new(key, keys).ok()?;
        let prints = read_prints(&self.prints_file);
        Some(if prints.is_empty() { redactor } else { redactor.knowing_prints(&prints) })
    }
}

/// Returns an error if the key is damaged, or is not the one that the prints were made with. It names the
/// file, and the way out where the key is lost.
pub(crate) fn check_key(data_dir: &Path) -> io::Result<()> {
    check_files(&data_dir.join(KEY_FILE), &data_dir.join(PRINTS_FILE))
}

fn check_files(key_file: &Path, prints_file: &Path) -> io::Result<()> {
    let lines = read_lines(prints_file);
    // A line that was cut, on a full disk or by a kill, says nothing.
    let mut keys = lines.lines().filter_map(|line| line.strip_prefix(KEY_LINE)).filter(is_whole).peekable();
    let has_prints = lines.lines().any(|line| SecretPrint::parse(line).is_some());
    let refused = |what: &str| {
        let (key, known) = (key_file.display(), prints_file.display());
        let why = format!(
            "{key} {what}, and without it, values of variables that were passed to commands would be shown: \
             restore it, or, if it is lost, remove it and {known}: those values are then no longer recognised"
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    match read_key(key_file) {
        Ok(key) => {
            let own = key_fingerprint(&key);
            if keys.peek().is_none() && has_prints {
                // Of an older version, which stored none. If it cannot be added, it is added with the next
                // prints.
                let _ = append(prints_file, &format!("{KEY_LINE}{own}\n"));
            }
            if keys.all(|key| key == own) { Ok(()) } else { refused("is not the key that was used before") }
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => refused("is too short"),
        Err(error) if is_no_key(&error) => refused(&format!("cannot be read ({error})")),
        Err(error) if has_prints && error.kind() == io::ErrorKind::NotFound => refused("is gone"),
        Err(error) if has_prints => refused(&format!("cannot be read ({error})")),
        // Nothing was marked with it that a person would recognise.
        Err(_) => Ok(()),
    }
}

/// Returns true if a fingerprint is whole.
fn is_whole(fingerprint: &&str) -> bool {
    fingerprint.len() == FINGERPRINT_CHARS && fingerprint.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The prints that are stored, the newest last. Lines that are no prints are skipped.
fn read_prints(file: &Path) -> Vec<SecretPrint> {
    read_lines(file).lines().filter_map(SecretPrint::parse).collect()
}

/// The lines of the file with the prints, the newest last.
fn read_lines(file: &Path) -> String {
    let is_file = std::fs::symlink_metadata(file).is_ok_and(|found| found.is_file());
    let Some(mut found) = std::fs::File::open(file).ok().filter(|_| is_file) else { return String::new() };
    let length = found.metadata().map_or(0, |found| found.len());
    let mut bytes = Vec::new();
    let newest = length.saturating_sub(PRINTS_BYTES_MAX);
    let read = found
        .seek(SeekFrom::Start(newest))
        .and_then(|_| found.take(PRINTS_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

/// Adds the prints of these values, and with them which key they are made with. All is written at once, so
/// that two processes do not mix their lines.
fn store_prints(file: &Path, key: &[u8; 32], redactor: &Redactor, values: &[String]) -> io::Result<()> {
    let known = read_prints(file);
    let new = values.iter().flat_map(|value| redactor.prints(value)).filter(|print| !known.contains(print));
    let lines: String = new.map(|print| print.to_line() + "\n").collect();
    if lines.is_empty() {
        return Ok(());
    }
    if std::fs::metadata(file).is_ok_and(|stored| stored.len() > PRINTS_BYTES_MAX) {
        // The oldest half goes; a process that adds to it at this moment adds again with its next command.
        let newest: Vec<String> = known[known.len() / 2..].iter().map(SecretPrint::to_line).collect();
        OpenOptions::new().write(true).open(file)?.set_len(0)?;
        append(file, &(newest.join("\n") + "\n"))?;
    }
    append(file, &format!("{KEY_LINE}{}\n{lines}", key_fingerprint(key)))
}

fn append(file: &Path, lines: &str) -> io::Result<()> {
    let mut stored = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    // A line before it that was cut must not swallow the first of these.
    stored.write_all(format!("\n{lines}").as_bytes())
}

fn read_key(file: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    open_file(file)?.read_exact(&mut key)?;
    Ok(key)
}

/// Returns true if something is there that is no key: too short, or no file.
fn is_no_key(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput)
}

fn read_or_make_key(file: &Path) -> io::Result<[u8; 32]> {
    match read_key(file) {
        Ok(key) => return Ok(key),
        // A file that is there and is no key is not replaced.
        Err(error) if is_no_key(&error) => return Err(error),
        // None is there, or it cannot be reached.
        Err(_) => {}
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
    match keep_key(file, &key) {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_key(file),
        // Marks hold as long as the process then, and so does all that is made with them: no store is there either.
        Err(_) => Ok(key),
    }
}

fn keep_key(file: &Path, key: &[u8]) -> io::Result<()> {
    // Written to a file next to it and linked: of two processes that make one, both end up with the first.
    let beside = file.with_extension(format!("key-{}", std::process::id()));
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    new.write_all(key)?;
    let linked = std::fs::hard_link(&beside, file);
    std::fs::remove_file(&beside)?;
    linked
}
