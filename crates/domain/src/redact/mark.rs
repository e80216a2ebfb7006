//! Marks: the texts that replace secrets.

use std::fmt;
use std::ops::Range;

const MARK_BEGIN: &[u8] = b"[REDACTED:";
const HASH_DIGITS: usize = 8;

/// The kind of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretKind {
    /// A private key in PEM form.
    PrivateKey,
    /// An access key of AWS.
    AwsKey,
    /// A token of GitHub.
    GithubToken,
    /// A token of GitLab.
    GitlabToken,
    /// A key that begins with `sk-`, as those of model providers do.
    ApiKey,
    /// A token of Slack.
    SlackToken,
    /// A key of Google's interfaces.
    GoogleKey,
    /// A JSON web token.
    Jwt,
    /// The value of an `Authorization` header.
    Authorization,
    /// The password in a URL.
    UrlPassword,
    /// A known value.
    Known,
    /// A literal under a key that says that it is secret.
    Value,
}

impl SecretKind {
    /// Its name in a mark.
    pub fn as_str(self) -> &'static str {
        match self {
            SecretKind::PrivateKey => "private_key",
            SecretKind::AwsKey => "aws_key",
            SecretKind::GithubToken => "github_token",
            SecretKind::GitlabToken => "gitlab_token",
            SecretKind::ApiKey => "api_key",
            SecretKind::SlackToken => "slack_token",
            SecretKind::GoogleKey => "google_key",
            SecretKind::Jwt => "jwt",
            SecretKind::Authorization => "authorization",
            SecretKind::UrlPassword => "url_password",
            SecretKind::Known => "known",
            SecretKind::Value => "value",
        }
    }
}

/// Returns whether a text has the mark of a secret in it, or the beginning of one.
pub fn contains_mark(text: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), MARK_BEGIN).is_some()
}

/// Makes marks. The key never shows.
#[derive(Clone)]
pub(super) struct Marker {
    key: [u8; 32],
}

impl Marker {
    pub(super) fn new(key: [u8; 32]) -> Marker {
        Marker { key }
    }

    pub(super) fn key(&self) -> &[u8; 32] {
        &self.key
    }

    pub(super) fn mark(&self, kind: SecretKind, secret: &[u8]) -> String {
        let hash = blake3::keyed_hash(&self.key, secret).to_hex();
        format!("[REDACTED:{}:{}]", kind.as_str(), &hash[..HASH_DIGITS])
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marker").finish_non_exhaustive()
    }
}

/// Returns the ranges of marks in a text: all that has the form of one, whatever its author.
pub(super) fn find_marks(text: &[u8]) -> Vec<Range<usize>> {
    let mut marks = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].iter().position(|byte| *byte == b'[') {
        let begin = at + begin;
        at = match mark_length(&text[begin..]) {
            Some(length) => {
                marks.push(begin..begin + length);
                begin + length
            }
            None => begin + 1,
        };
    }
    marks
}

fn mark_length(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(MARK_BEGIN)?;
    let name = rest.iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
    let end = name + 1 + HASH_DIGITS;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let formed = name > 0
        && rest.get(name) == Some(&b':')
        && rest.get(name + 1..end)?.iter().all(is_digit)
        && rest.get(end) == Some(&b']');
    formed.then_some(MARK_BEGIN.len() + end + 1)
}
