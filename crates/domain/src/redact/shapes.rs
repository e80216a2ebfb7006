//! Secrets that are known by their shape, wherever they stand.
//!
//! # Invariants
//! A text without any is read once, by all the patterns together.

use regex::bytes::{Captures, Regex, RegexSet};

use super::mark::SecretKind;
use super::private_key::{PRIVATE_KEY_BEGIN, PrivateKeys};
use super::spans::Span;

/// A pattern, the group of which is the secret, and what else must hold for it.
struct Rule {
    kind: SecretKind,
    pattern: &'static str,
    check: fn(&[u8]) -> bool,
}

const RULES: [Rule; 11] = [
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
];

#[derive(Debug)]
pub(super) struct Shapes {
    /// The rules' patterns, and the beginning of a private key.
    any: RegexSet,
    rules: Vec<Regex>,
    private_keys: PrivateKeys,
}

impl Shapes {
    pub(super) fn new() -> Result<Shapes, regex::Error> {
        let patterns = RULES.iter().map(|rule| rule.pattern);
        Ok(Shapes {
            any: RegexSet::new(patterns.clone().chain([PRIVATE_KEY_BEGIN]))?,
            rules: patterns.map(Regex::new).collect::<Result<_, _>>()?,
            private_keys: PrivateKeys::new()?,
        })
    }

    /// The secrets in `text`, in no order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        for at in self.any.matches(text) {
            match (RULES.get(at), self.rules.get(at)) {
                (Some(rule), Some(regex)) => {
                    let secret = |found: Captures<'_>| found.get(1).map(|secret| secret.range());
                    let found = regex.captures_iter(text).filter_map(secret);
                    let real = found.filter(|range| (rule.check)(&text[range.clone()]));
                    spans.extend(real.map(|range| Span::new(range, rule.kind)));
                }
                (None, _) | (_, None) => spans.extend(self.private_keys.find(text)),
            }
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

/// Whether it is a value itself, not the place of one: `${PASSWORD}`, `<password>`, `{{ password }}`, `***`.
pub(super) fn is_literal(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return false };
    let is_place = matches!(first, b'$' | b'{' | b'<' | b'%');
    !is_place && value.iter().any(|byte| byte != first)
}
