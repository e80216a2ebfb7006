//! Passwords and tokens in scripts, pages and notes: literals behind a word that says that they are secret.
//!
//! Such a text is not data: the same words are names of variables, fields and functions there. So a literal
//! counts only if it looks like a password. It must also be in quotes, in an element, or alone behind a colon
//! or an equals sign.

use super::mark::SecretKind;
use super::patterns::{SECRET_WORDS, is_password};
use super::secret_rule::{Patterns, SecretRule};
use super::spans::SecretSpan;

const RULES: &[SecretRule] = &[
    // password = "…", 'token': '…', secret => `…`
    SecretRule {
        kind: SecretKind::Value,
        words: SECRET_WORDS,
        pattern: r#"(?i-u)(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|credential)[A-Za-z0-9_-]*[\\"'`]*[ \t]*(?:=>|:=|[:=])[ \t]*\\?["'`]([^\s"'`\\<>]{8,})\\?["'`]"#,
        check: is_password,
    },
    // <password>…</password>
    SecretRule {
        kind: SecretKind::Value,
        words: SECRET_WORDS,
        pattern: r#"(?i-u)<[A-Za-z0-9:_.-]*(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|credential)[A-Za-z0-9_-]*[^<>]*>[ \t\r\n]*([^<>\s]{8,})[ \t\r\n]*</"#,
        check: is_password,
    },
    // PASSWORD=… at the beginning of a line of a shell
    SecretRule {
        kind: SecretKind::Value,
        words: SECRET_WORDS,
        pattern: r#"(?im-u)^[ \t]*(?:export[ \t]+|set[ \t]+)?[A-Za-z0-9_]*(?:secret|token|passw(?:or)?d|passphrase|pwd|api_?key|access_?key|credential)[A-Za-z0-9_]*=([^\s"'`;&|<>(){}$]{8,})"#,
        check: is_password,
    },
    // Password: …, in notes, also in bold and in a span of code
    SecretRule {
        kind: SecretKind::Value,
        words: SECRET_WORDS,
        pattern: r#"(?im-u)\b(?:password|passphrase|pwd|api[ _-]?key|secret|token)\b[*_`]*[ \t]*:[*_`]*[ \t]+[*_`]*([^\s"'`*;&|<>(){},$]{8,})[*_`]*[ \t]*\r?$"#,
        check: is_password,
    },
];

#[derive(Debug)]
pub(super) struct ScriptValues(Patterns);

impl ScriptValues {
    pub(super) fn new() -> ScriptValues {
        ScriptValues(Patterns::new(RULES))
    }

    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretSpan> {
        self.0.find(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::secret_rule::tests::{check_lengths, check_rules};

    const SAMPLES: &[&str] = &[
        "password = \"hunter2-X9\"",
        "'accessKey': 'hunter2-X9'",
        "<db-pwd kind='x'>hunter2-X9</db-pwd>",
        "export API_KEY=hunter2-X9",
        "**Passphrase**: `hunter2-X9`",
        "Credential => 'hunter2-X9'",
    ];

    #[test]
    fn no_word_keeps_a_rule_from_its_secrets() {
        check_rules(RULES, SAMPLES);
    }

    #[test]
    fn short_and_long_texts_have_the_same_secrets() {
        check_lengths(RULES, SAMPLES);
    }
}
