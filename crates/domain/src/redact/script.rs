//! Passwords and tokens in scripts, pages and notes: literals behind a word that says that they are secret.
//!
//! Such a text is not data: the same words are names of variables, fields and functions there. So only a literal counts
//! that is in quotes, in an element, or alone behind a colon or an equals sign, and that looks like a password.

use super::mark::SecretKind;
use super::shapes::{Patterns, Rule, is_password};
use super::spans::Span;

const RULES: [Rule; 4] = [
    // password = "…", 'token': '…', secret => `…`
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?i-u)(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|credential)[A-Za-z0-9_-]*[\\"'`]*[ \t]*(?:=>|:=|[:=])[ \t]*\\?["'`]([^\s"'`\\<>]{8,})\\?["'`]"#,
        check: is_password,
    },
    // <password>…</password>
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?i-u)<[A-Za-z0-9:_.-]*(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|credential)[A-Za-z0-9_-]*[^<>]*>[ \t\r\n]*([^<>\s]{8,})[ \t\r\n]*</"#,
        check: is_password,
    },
    // PASSWORD=… at the beginning of a line of a shell
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?im-u)^[ \t]*(?:export[ \t]+|set[ \t]+)?[A-Za-z0-9_]*(?:secret|token|passw(?:or)?d|passphrase|pwd|api_?key|access_?key|credential)[A-Za-z0-9_]*=([^\s"'`;&|<>(){}$]{8,})"#,
        check: is_password,
    },
    // Password: …, in notes, also in bold and in a span of code
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?im-u)\b(?:password|passphrase|pwd|api[ _-]?key|secret|token)\b[*_`]*[ \t]*:[*_`]*[ \t]+[*_`]*([^\s"'`*;&|<>(){},$]{8,})[*_`]*[ \t]*\r?$"#,
        check: is_password,
    },
];

#[derive(Debug)]
pub(super) struct ScriptValues(Patterns);

impl ScriptValues {
    pub(super) fn new() -> Result<ScriptValues, regex::Error> {
        Ok(ScriptValues(Patterns::new(&RULES)?))
    }

    pub(super) fn find(&self, text: &[u8]) -> Vec<Span> {
        self.0.find(&RULES, text)
    }
}
