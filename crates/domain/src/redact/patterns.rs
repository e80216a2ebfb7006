//! Secrets that are known by their shape, at any place.
//!
//! # Not here
//! The search for the patterns: the sibling `secret_rule`.

use super::mark::SecretKind;
use super::private_key::PrivateKeys;
use super::secret_rule::{Patterns, SecretRule};
use super::spans::SecretSpan;

/// The words in the names of keys and variables that have a secret.
pub(super) const SECRET_WORDS: &[&str] = &["secret", "token", "pass", "pwd", "api", "access", "credential"];

const RULES: &[SecretRule] = &[
    SecretRule {
        kind: SecretKind::AwsKey,
        words: &["akia", "asia"],
        pattern: r"(?-u)(?:^|[^0-9A-Za-z])((?:AKIA|ASIA)[0-9A-Z]{16})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::GithubToken,
        words: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        pattern: r"(?-u)(gh[pousr]_[A-Za-z0-9]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::GithubToken,
        words: &["github_pat_"],
        pattern: r"(?-u)(github_pat_[A-Za-z0-9_]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::GitlabToken,
        words: &["glpat-"],
        pattern: r"(?-u)(glpat-[A-Za-z0-9_.-]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["sk-"],
        pattern: r"(?-u)\b(sk-[A-Za-z0-9_-]{16,})",
        check: has_digit,
    },
    SecretRule {
        kind: SecretKind::SlackToken,
        words: &["xox"],
        pattern: r"(?-u)\b(xox[a-z]-[A-Za-z0-9-]{10,})",
        check: has_digit,
    },
    SecretRule {
        kind: SecretKind::GoogleKey,
        words: &["aiza"],
        pattern: r"(?-u)\b(AIza[A-Za-z0-9_-]{35})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::Jwt,
        words: &["eyj"],
        pattern: r"(?-u)\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
        check: any,
    },
    SecretRule {
        kind: SecretKind::Authorization,
        words: &["authorization"],
        pattern: r#"(?i-u)authorization[\\"']*[ \t]*[:=][ \t]*[\\"']*(?:bearer|basic|token|apikey|negotiate)[ \t]+([A-Za-z0-9._~+/=|-]{8,})"#,
        check: any,
    },
    SecretRule {
        kind: SecretKind::Authorization,
        words: &["authorization", "bearer"],
        pattern: r#"(?i-u)(?:authorization[\\"']*[ \t]*[:=]|\bbearer)[ \t]*[\\"']*([A-Za-z0-9._~+/=|-]{16,})"#,
        check: has_digit,
    },
    SecretRule {
        kind: SecretKind::UrlPassword,
        words: &["://"],
        pattern: r#"(?-u)://[^\s/:@"'<>\\]*:([^\s/"'<>\\]+)@"#,
        check: is_literal,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["hf_"],
        pattern: r"(?-u)\b(hf_[A-Za-z0-9]{20,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["npm_"],
        pattern: r"(?-u)\b(npm_[A-Za-z0-9]{30,})",
        check: has_digit,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["pypi-"],
        pattern: r"(?-u)\b(pypi-[A-Za-z0-9_-]{32,})",
        check: has_digit,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["dckr_pat_"],
        pattern: r"(?-u)\b(dckr_pat_[A-Za-z0-9_-]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["sg."],
        pattern: r"(?-u)\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["k_live_", "k_test_", "whsec_"],
        pattern: r"(?-u)\b((?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["sq0"],
        pattern: r"(?-u)\b(sq0(?:csp|atp|idp)-[A-Za-z0-9_-]{20,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::PrivateKey,
        words: &["age-secret-key-"],
        pattern: r"(?i-u)(AGE-SECRET-KEY-[A-Z0-9-]{20,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::ApiKey,
        words: &["hvs.", "hvb.", "hvr."],
        pattern: r"(?-u)\b(hv[sbr]\.[A-Za-z0-9_-]{20,})",
        check: any,
    },
    SecretRule {
        kind: SecretKind::Value,
        words: &["accountkey", "sharedaccesskey", "secret"],
        pattern: r#"(?i-u)(?:AccountKey|SharedAccessKey|aws_?secret_?access_?key)[\\"']*[ \t]*[:=][ \t]*[\\"']*([A-Za-z0-9+/]{20,}={0,2})"#,
        check: has_digit,
    },
    // On a command line, in a query, in an environment. Short words are names of arguments more often than secrets.
    SecretRule {
        kind: SecretKind::Value,
        words: SECRET_WORDS,
        pattern: r#"(?i-u)(?:(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|credential)[A-Za-z0-9_-]*=|--[a-z0-9-]*(?:secret|token|passw(?:or)?d|passphrase|api-?key|access-?key)[a-z0-9-]*[ \t]+)[\\"']*([^\s\\"'`;&|<>(){}\[\],$]{12,})"#,
        check: is_random,
    },
];

#[derive(Debug)]
pub(super) struct SecretShapes {
    rules: Patterns,
    private_keys: PrivateKeys,
}

impl SecretShapes {
    pub(super) fn new() -> SecretShapes {
        SecretShapes { rules: Patterns::new(RULES), private_keys: PrivateKeys::new() }
    }

    /// The secrets in `text`, in no order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretSpan> {
        let mut spans = self.rules.find(text);
        spans.extend(self.private_keys.find(text));
        spans
    }
}

fn any(_: &[u8]) -> bool {
    true
}

/// Names of styles and variables have the same letters as keys, but keys have digits too.
fn has_digit(secret: &[u8]) -> bool {
    secret.iter().any(u8::is_ascii_digit)
}

/// Returns whether it is written as people write passwords and not as they write words, names, paths and
/// addresses: with digits, signs, or capitals within.
pub(super) fn is_password(value: &[u8]) -> bool {
    let is_place = value.starts_with(b"/") || value.starts_with(b"~") || value.starts_with(b".");
    let is_code = [&b"://"[..], b"::", b"->", b"=="].iter().any(|sign| contains(value, sign));
    let is_sign = |byte: &u8| b"!@#$%^&*+=?~/".contains(byte);
    let is_odd =
        has_digit(value) || value.iter().any(is_sign) || value.iter().skip(1).any(u8::is_ascii_uppercase);
    is_literal(value) && !is_place && !is_code && is_odd
}

/// Returns whether it is made of letters and digits as only machines mix them.
fn is_random(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    is_password(value) && digits >= 2 && letters >= 4 && !value.contains(&b':')
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|bytes| bytes == part)
}

/// Returns whether it is a value itself, not the place of one: `${PASSWORD}`, `<password>`, `{{ password }}`,
/// `***`.
pub(super) fn is_literal(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return false };
    let is_place = matches!(first, b'$' | b'{' | b'<' | b'%');
    !is_place && value.iter().any(|byte| byte != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::secret_rule::tests::{check_lengths, check_rules};

    const SAMPLES: &[&str] = &[
        "AKIAIOSFODNN7EXAMPLE",
        " ASIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghij0123456789",
        "gho_abcdefghij0123456789 ghu_abcdefghij0123456789 ghs_abcdefghij0123456789 ghr_abcdefghij0123456789",
        "github_pat_abcdefghij0123456789",
        "glpat-abcdefghij0123456789",
        "sk-abcdefghij0123456789",
        "xoxb-1234567890-abc",
        "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "Authorization: Bearer abcdef0123456789",
        "BEARER abcdef0123456789abcd",
        "postgres://user:hunter2pass@host/db",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAwLTAwMDAtMDA",
        "dckr_pat_abcdefghij0123456789",
        "SG.abcdefghij0123456789.abcdefghij0123456789",
        "sk_live_abcdefghij0123456789",
        "rk_test_abcdefghij0123456789",
        "whsec_abcdefghij0123456789",
        "sq0csp-abcdefghij0123456789abcd",
        "AGE-SECRET-KEY-1ABCDEFGHIJ0123456789",
        "hvs.abcdefghij0123456789abcd",
        "hvb.abcdefghij0123456789abcd hvr.abcdefghij0123456789abcd",
        "AccountKey=abcdefghij0123456789ABCDEFGHIJ==",
        "SharedAccessKey: abcdefghij0123456789ABCDEFGHIJ",
        "AWS_SECRET_ACCESS_KEY=abcdefghij0123456789ABCDEFGHIJ",
        "awsSecretAccessKey: abcdefghij0123456789ABCDEFGHIJ",
        "curl 'x?access-key=abc123def456ghi'",
        "tool --api-key abc123def456ghi",
        "PASSWD=abc123def456ghi DB_PWD=abc123def456ghi MY_CREDENTIAL=abc123def456ghi",
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
