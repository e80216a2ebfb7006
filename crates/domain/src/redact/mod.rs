//! Redaction: replaces each secret in a text by a mark. When the text is written back to the file that has
//! the secret, the mark is replaced by the secret again.
//!
//! Three kinds of secrets are found. The first are shapes that nothing else has: private keys, provider
//! tokens, JWTs, `Authorization` values, passwords in URLs and on command lines. The second are known values,
//! also in base64, hexadecimal digits and addresses. The third are literals under keys that say that they are
//! secret, if the text is data or a script and not a program. Escape sequences within a secret do not hide
//! it.
//!
//! # Invariants
//! 1. Redacting twice is redacting once: a mark is never redacted, and what is left holds nothing to find.
//! 2. The same secret has the same mark under the same key, so texts can still be compared. Without the key a
//!    mark discloses nothing of its secret.
//! 3. `restore` gives back exactly what `redact` took, or fails: no mark is ever written over a secret.
//!
//! # Not here
//! The choice of texts to redact: the gate, the records, the program. Contents and journals have exact bytes.

mod diff;
mod escapes;
mod keyed_values;
mod known_values;
mod mark;
mod patterns;
mod private_key;
mod script_values;
mod secret_rule;
mod spans;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use crate::path::RelPath;

pub use known_values::{SecretPrint, key_fingerprint};
pub use mark::{SecretKind, contains_mark};

use escapes::UnescapedText;
use keyed_values::KeyedValues;
use known_values::KnownValues;
use mark::{Marker, find_marks};
use patterns::SecretShapes;
use script_values::ScriptValues;
use spans::{SecretSpan, cut_out, join_spans};

/// Shorter values are too likely to be found where they are no secret.
pub const SECRET_BYTES_MIN: usize = 8;

/// The reason why a redactor cannot be made: the known values are too much to search for.
#[derive(Debug, thiserror::Error)]
#[error("the known secrets cannot be searched for")]
pub struct RedactorError(#[from] regex::Error);

/// A mark that represents nothing in the file's present content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{mark}` replaces a secret that the file does not have")]
pub struct UnknownMark {
    /// The mark.
    pub mark: String,
}

/// Finds secrets and puts marks in their place.
///
/// ```
/// use domain::{Redactor, RelPath};
///
/// let redactor = Redactor::new([7; 32], vec!["provider-key-value".to_owned()])?;
/// let shown = redactor.redact_str("key is provider-key-value.");
/// assert!(shown.starts_with("key is [REDACTED:known:") && shown.ends_with("]."));
///
/// let file = b"port = 80\ntoken = \"abcdefgh1234\"\n";
/// let shown = redactor.redact_file(&RelPath::new("app.toml")?, file).into_owned();
/// let edited = String::from_utf8_lossy(&shown).replace("80", "81");
/// assert_eq!(redactor.restore(edited.as_bytes(), file)?, b"port = 81\ntoken = \"abcdefgh1234\"\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Redactor {
    marker: Marker,
    shapes: Arc<SecretShapes>,
    keyed: Arc<KeyedValues>,
    scripts: Arc<ScriptValues>,
    known: KnownValues,
}

/// The kind of a text: it decides which literals under secret keys are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextKind {
    /// They are not.
    Program,
    /// Those are that look like passwords.
    Script,
    /// All are.
    Data,
}

impl Redactor {
    /// A redactor whose marks are made with `key`, and which also finds `known_secrets`: the values of
    /// provider keys. Those under [`SECRET_BYTES_MIN`] are left out.
    ///
    /// # Errors
    /// Returns an error if there are too many known secrets to search for at once.
    pub fn new(key: [u8; 32], known_secrets: Vec<String>) -> Result<Redactor, RedactorError> {
        Ok(Redactor {
            marker: Marker::new(key),
            shapes: Arc::new(SecretShapes::new()),
            keyed: Arc::new(KeyedValues::new()),
            scripts: Arc::new(ScriptValues::new()),
            known: KnownValues::new(&known_secrets)?,
        })
    }

    /// The same, which also finds these values.
    ///
    /// # Errors
    /// Returns an error if there are too many to search for at once.
    pub fn knowing(&self, values: &[String]) -> Result<Redactor, RedactorError> {
        Ok(Redactor { known: self.known.with(values)?, ..self.clone() })
    }

    /// The same, which also finds values that it knows by nothing but their prints.
    #[must_use]
    pub fn knowing_prints(&self, prints: &[SecretPrint]) -> Redactor {
        Redactor { known: self.known.with_prints(self.marker.key(), prints), ..self.clone() }
    }

    /// Returns the prints of a value, by which another process finds it that has the same key.
    pub fn prints(&self, value: &str) -> Vec<SecretPrint> {
        known_values::prints_of(self.marker.key(), value)
    }

    /// Any text without the known values: text with the shape of a secret stays.
    pub fn redact_known<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut shown = Cow::Borrowed(text);
        loop {
            let spans = self.found(&shown, |text| self.known.find(self.marker.key(), text));
            if spans.is_empty() {
                return shown;
            }
            shown = Cow::Owned(self.replace(&shown, &spans, MarkLayout::Joined, &mut |_, _| {}));
        }
    }

    /// Any text without its secrets: messages, output of commands, program text.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.redact_text(text, TextKind::Program, MarkLayout::Joined, &mut |_, _| {})
    }

    /// Any text without its secrets.
    pub fn redact_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A secret may end amid a character only if it is not UTF-8 itself.
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// The content of the file at `path` without its secrets. Its name distinguishes data from program text.
    /// Redact the whole file and show a part, not the other way round: a part may lack what identifies a
    /// secret.
    pub fn redact_file<'a>(&self, path: &RelPath, content: &'a [u8]) -> Cow<'a, [u8]> {
        self.redact_text(content, text_of(path), MarkLayout::Joined, &mut |_, _| {})
    }

    /// As [`Redactor::redact_file`], with as many lines as before: a secret of several lines leaves a mark in
    /// each, so that line numbers stay true.
    pub fn redact_file_lines<'a>(&self, path: &RelPath, content: &'a [u8]) -> Cow<'a, [u8]> {
        self.redact_text(content, text_of(path), MarkLayout::Kept, &mut |_, _| {})
    }

    /// Arguments or results of a call without their secrets: every string below a key that says so, and what
    /// is found in the others.
    pub fn redact_json(&self, value: &Value) -> Value {
        self.redact_value(value, TextKind::Program)
    }

    /// `text` with the secrets of `present` in place of their marks. A mark that `present` itself holds, and
    /// that represents none of its secrets, is text like any other.
    ///
    /// # Errors
    /// Returns the first mark that represents no secret of `present`, or several.
    pub fn restore(&self, text: &[u8], present: &[u8]) -> Result<Vec<u8>, UnknownMark> {
        let marks = find_marks(text);
        if marks.is_empty() {
            return Ok(text.to_vec());
        }
        let secrets = self.secrets_of(present);
        let mut out = Vec::with_capacity(text.len());
        let mut done = 0;
        for mark in marks {
            let shown = &text[mark.clone()];
            out.extend_from_slice(&text[done..mark.start]);
            match secrets.get(shown) {
                Some(Some(secret)) => out.extend_from_slice(secret),
                None if find_marks(present).iter().any(|own| present[own.clone()] == *shown) => {
                    out.extend_from_slice(shown);
                }
                Some(None) | None => {
                    return Err(UnknownMark { mark: String::from_utf8_lossy(shown).into_owned() });
                }
            }
            done = mark.end;
        }
        out.extend_from_slice(&text[done..]);
        Ok(out)
    }

    /// Each mark that `present` could be shown with, and its secret; `None` where two secrets have one mark.
    fn secrets_of(&self, present: &[u8]) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        let mut secrets: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        for text in [TextKind::Program, TextKind::Script, TextKind::Data] {
            self.redact_text(present, text, MarkLayout::Joined, &mut |mark, secret| {
                let kept = secrets.entry(mark.to_vec()).or_insert_with(|| Some(secret.to_vec()));
                if kept.as_deref() != Some(secret) {
                    *kept = None;
                }
            });
        }
        secrets
    }

    /// Replaces until nothing is found: a mark in place of one secret may bring another to light.
    fn redact_text<'a>(
        &self,
        text: &'a [u8],
        kind: TextKind,
        lines: MarkLayout,
        told: &mut impl FnMut(&[u8], &[u8]),
    ) -> Cow<'a, [u8]> {
        let mut shown = Cow::Borrowed(text);
        loop {
            let spans = self.find(&shown, kind);
            if spans.is_empty() {
                return shown;
            }
            shown = Cow::Owned(self.replace(&shown, &spans, lines, told));
        }
    }

    /// The secrets in `text`, rising and apart; none of them holds a byte of a mark.
    fn find(&self, text: &[u8], kind: TextKind) -> Vec<SecretSpan> {
        self.found(text, |text| {
            let mut spans = self.shapes.find(text);
            spans.extend(self.known.find(self.marker.key(), text));
            match kind {
                TextKind::Program => {}
                TextKind::Script => spans.extend(self.scripts.find(text)),
                TextKind::Data => spans.extend(self.keyed.find(text)),
            }
            spans
        })
    }

    /// Returns what `find` finds in `text` as it is, and as it reads without escape sequences.
    fn found(&self, text: &[u8], find: impl Fn(&[u8]) -> Vec<SecretSpan>) -> Vec<SecretSpan> {
        let mut spans = find(text);
        if let Some(unescaped) = UnescapedText::new(text) {
            spans.extend(unescaped.spans(find(&unescaped.text)));
        }
        if spans.is_empty() {
            return spans;
        }
        cut_out(text, join_spans(spans), &find_marks(text))
    }

    fn replace(
        &self,
        text: &[u8],
        spans: &[SecretSpan],
        lines: MarkLayout,
        told: &mut impl FnMut(&[u8], &[u8]),
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut done = 0;
        for SecretSpan { range: Range { start, end }, kind } in spans {
            let secret = &text[*start..*end];
            let mark = self.marker.mark(*kind, secret);
            told(mark.as_bytes(), secret);
            out.extend_from_slice(&text[done..*start]);
            out.extend_from_slice(mark.as_bytes());
            match lines {
                MarkLayout::Joined => {}
                MarkLayout::Kept => {
                    for _ in secret.iter().filter(|byte| **byte == b'\n') {
                        out.push(b'\n');
                        out.extend_from_slice(mark.as_bytes());
                    }
                }
            }
            done = *end;
        }
        out.extend_from_slice(&text[done..]);
        out
    }

    /// All of `text` is one secret, but for marks in it.
    fn redact_whole(&self, text: &str) -> String {
        let bytes = text.as_bytes();
        let spans =
            cut_out(bytes, vec![SecretSpan::new(0..bytes.len(), SecretKind::Value)], &find_marks(bytes));
        String::from_utf8_lossy(&self.replace(bytes, &spans, MarkLayout::Joined, &mut |_, _| {})).into_owned()
    }

    /// `TextKind::Data` here: below a key that says that it is secret.
    fn redact_value(&self, value: &Value, kind: TextKind) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => Value::String(match kind {
                TextKind::Data if KeyedValues::is_secret(text.as_bytes()) => self.redact_whole(text),
                TextKind::Data | TextKind::Script | TextKind::Program => self.redact_str(text).into_owned(),
            }),
            Value::Array(items) => items.iter().map(|item| self.redact_value(item, kind)).collect(),
            Value::Object(fields) => {
                let kind_of = |key: &str| if KeyedValues::is_secret_key(key) { TextKind::Data } else { kind };
                let field = |(key, value): (&String, &Value)| {
                    (self.redact_str(key).into_owned(), self.redact_value(value, kind_of(key)))
                };
                Value::Object(fields.iter().map(field).collect())
            }
        }
    }
}

/// The layout of a secret of several lines: one mark, or a mark in each of its lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkLayout {
    Joined,
    Kept,
}

/// Returns whether a file is data, by its name.
fn text_of(path: &RelPath) -> TextKind {
    const DATA_ENDINGS: [&[u8]; 13] = [
        b"json",
        b"jsonc",
        b"json5",
        b"jsonl",
        b"yaml",
        b"yml",
        b"toml",
        b"ini",
        b"cfg",
        b"conf",
        b"properties",
        b"env",
        b"tfvars",
    ];
    const SCRIPT_ENDINGS: [&[u8]; 24] = [
        b"sh",
        b"bash",
        b"zsh",
        b"fish",
        b"ps1",
        b"bat",
        b"cmd",
        b"js",
        b"jsx",
        b"mjs",
        b"cjs",
        b"ts",
        b"tsx",
        b"md",
        b"markdown",
        b"rst",
        b"txt",
        b"xml",
        b"html",
        b"htm",
        b"plist",
        b"php",
        b"sql",
        b"gradle",
    ];
    const DATA_NAMES: [&[u8]; 4] = [b".npmrc", b".pypirc", b"credentials", b".git-credentials"];
    let name = path.file_name().to_ascii_lowercase();
    let ending = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let is_data =
        name.starts_with(b".env") || DATA_ENDINGS.contains(&ending) || DATA_NAMES.contains(&&name[..]);
    let is_script = SCRIPT_ENDINGS.contains(&ending);
    match (is_data, is_script) {
        (true, _) => TextKind::Data,
        (false, true) => TextKind::Script,
        (false, false) => TextKind::Program,
    }
}
