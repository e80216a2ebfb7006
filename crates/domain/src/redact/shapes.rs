//! Secrets that are known by their shape, wherever they stand.
//!
//! # Invariants
//! A text without any is read twice: by all the patterns together, and for the beginning of a private key.

use regex::bytes::{Captures, Regex, RegexSet};

use super::mark::SecretKind;
use super::private_key::{PRIVATE_KEY_BEGIN, PrivateKeys};
use super::spans::Span;

/// A pattern, the group of which is the secret, and what else must hold for it.
pub(super) struct Rule {
    pub(super) kind: SecretKind,
    pub(super) pattern: &'static str,
    pub(super) check: fn(&[u8]) -> bool,
}

const RULES: [Rule; 22] = [
    Rule {
        kind: SecretKind::AwsKey,
        pattern: r"(?-u)(?:^|[^0-9A-Za-z])((?:AKIA|ASIA)[0-9A-Z]{16})",
        check: any,
    },
    Rule { kind: SecretKind::GithubToken, pattern: r"(?-u)(gh[pousr]_[A-Za-z0-9]{16,})", check: any },
    Rule { kind: SecretKind::GithubToken, pattern: r"(?-u)(github_pat_[A-Za-z0-9_]{16,})", check: any },
    Rule { kind: SecretKind::GitlabToken, pattern: r"(?-u)(glpat-[A-Za-z0-9_.-]{16,})", check: any },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(sk-[A-Za-z0-9_-]{16,})", check: has_digit },
    Rule { kind: SecretKind::SlackToken, pattern: r"(?-u)\b(xox[a-z]-[A-Za-z0-9-]{10,})", check: has_digit },
    Rule { kind: SecretKind::GoogleKey, pattern: r"(?-u)\b(AIza[A-Za-z0-9_-]{35})", check: any },
    Rule {
        kind: SecretKind::Jwt,
        pattern: r"(?-u)\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
        check: any,
    },
    Rule {
        kind: SecretKind::Authorization,
        pattern: r#"(?i-u)authorization[\\"']*[ \t]*[:=][ \t]*[\\"']*(?:bearer|basic|token|apikey|negotiate)[ \t]+([A-Za-z0-9._~+/=|-]{8,})"#,
        check: any,
    },
    Rule {
        kind: SecretKind::Authorization,
        pattern: r#"(?i-u)(?:authorization[\\"']*[ \t]*[:=]|\bbearer)[ \t]*[\\"']*([A-Za-z0-9._~+/=|-]{16,})"#,
        check: has_digit,
    },
    Rule {
        kind: SecretKind::UrlPassword,
        pattern: r#"(?-u)://[^\s/:@"'<>\\]*:([^\s/"'<>\\]+)@"#,
        check: is_literal,
    },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(hf_[A-Za-z0-9]{20,})", check: any },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(npm_[A-Za-z0-9]{30,})", check: has_digit },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(pypi-[A-Za-z0-9_-]{32,})", check: has_digit },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(dckr_pat_[A-Za-z0-9_-]{16,})", check: any },
    Rule {
        kind: SecretKind::ApiKey,
        pattern: r"(?-u)\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
        check: any,
    },
    Rule {
        kind: SecretKind::ApiKey,
        pattern: r"(?-u)\b((?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,})",
        check: any,
    },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(sq0(?:csp|atp|idp)-[A-Za-z0-9_-]{20,})", check: any },
    Rule { kind: SecretKind::PrivateKey, pattern: r"(?i-u)(AGE-SECRET-KEY-[A-Z0-9-]{20,})", check: any },
    Rule { kind: SecretKind::ApiKey, pattern: r"(?-u)\b(hv[sbr]\.[A-Za-z0-9_-]{20,})", check: any },
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?i-u)(?:AccountKey|SharedAccessKey|aws_?secret_?access_?key)[\\"']*[ \t]*[:=][ \t]*[\\"']*([A-Za-z0-9+/]{20,}={0,2})"#,
        check: has_digit,
    },
    // On a command line, in a query, in an environment. Short words are names of arguments more often than secrets.
    Rule {
        kind: SecretKind::Value,
        pattern: r#"(?i-u)(?:(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|credential)[A-Za-z0-9_-]*=|--[a-z0-9-]*(?:secret|token|passw(?:or)?d|passphrase|api-?key|access-?key)[a-z0-9-]*[ \t]+)[\\"']*([^\s\\"'`;&|<>(){}\[\],$]{12,})"#,
        check: is_random,
    },
];

/// Patterns that are looked for together.
#[derive(Debug)]
pub(super) struct Patterns {
    any: RegexSet,
    rules: Vec<Regex>,
}

impl Patterns {
    pub(super) fn new(rules: &[Rule]) -> Result<Patterns, regex::Error> {
        let patterns = rules.iter().map(|rule| rule.pattern);
        let any = RegexSet::new(patterns.clone())?;
        Ok(Patterns { any, rules: patterns.map(Regex::new).collect::<Result<_, _>>()? })
    }

    /// Returns the secrets in `text`, in no order. `rules` are those that it was made from.
    pub(super) fn find(&self, rules: &[Rule], text: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        for at in self.any.matches(text) {
            let (Some(rule), Some(regex)) = (rules.get(at), self.rules.get(at)) else { continue };
            let secret = |found: Captures<'_>| found.get(1).map(|secret| secret.range());
            let found = regex.captures_iter(text).filter_map(secret);
            let real = found.filter(|range| (rule.check)(&text[range.clone()]));
            spans.extend(real.map(|range| Span::new(range, rule.kind)));
        }
        spans
    }
}

#[derive(Debug)]
pub(super) struct Shapes {
    rules: Patterns,
    private_key: Regex,
    private_keys: PrivateKeys,
}

impl Shapes {
    pub(super) fn new() -> Result<Shapes, regex::Error> {
        Ok(Shapes {
            rules: Patterns::new(&RULES)?,
            private_key: Regex::new(PRIVATE_KEY_BEGIN)?,
            private_keys: PrivateKeys::new()?,
        })
    }

    /// The secrets in `text`, in no order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Span> {
        let mut spans = self.rules.find(&RULES, text);
        if self.private_key.is_match(text) {
            spans.extend(self.private_keys.find(text));
        }
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

/// Whether it is written as people write passwords and not as they write words, names, paths and addresses: with digits,
/// signs, or capitals within.
pub(super) fn is_password(value: &[u8]) -> bool {
    let is_place = value.starts_with(b"/") || value.starts_with(b"~") || value.starts_with(b".");
    let is_code = [&b"://"[..], b"::", b"->", b"=="].iter().any(|sign| contains(value, sign));
    let is_sign = |byte: &u8| b"!@#$%^&*+=?~/".contains(byte);
    let is_odd =
        has_digit(value) || value.iter().any(is_sign) || value.iter().skip(1).any(u8::is_ascii_uppercase);
    is_literal(value) && !is_place && !is_code && is_odd
}

/// Whether it is made of letters and digits as only machines mix them.
fn is_random(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    is_password(value) && digits >= 2 && letters >= 4 && !value.contains(&b':')
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|bytes| bytes == part)
}

/// Whether it is a value itself, not the place of one: `${PASSWORD}`, `<password>`, `{{ password }}`, `***`.
pub(super) fn is_literal(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return false };
    let is_place = matches!(first, b'$' | b'{' | b'<' | b'%');
    !is_place && value.iter().any(|byte| byte != first)
}
