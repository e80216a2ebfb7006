//! Headings of texts, tables and keys of settings.
//!
//! # Invariants
//! 1. A line in a fenced block of Markdown is no heading.
//! 2. Only the margin counts: a nested key is part of its top-level one.

use crate::index::facts::DefKind;
use crate::index::language::Language;

/// The state that the next line needs of those before it.
#[derive(Default)]
pub(super) struct Prose {
    /// The mark that closes the fenced block that is open.
    fence: Option<u8>,
    /// The line before, which an underline would make a title.
    before: Vec<u8>,
}

impl Prose {
    /// Looks at a line; the name of what it defines, its kind and its line.
    #[allow(clippy::wildcard_enum_match_arm, reason = "a language that is not named has nothing of the kind")]
    pub(super) fn line(
        &mut self,
        language: Language,
        number: u32,
        line: &[u8],
    ) -> Option<(Vec<u8>, DefKind, u32)> {
        let line = line.trim_ascii_end();
        let of = |kind: DefKind| move |name: &[u8]| (name.to_vec(), kind, number);
        match language {
            Language::Markdown => self.markdown(line).map(of(DefKind::Heading)),
            Language::Rst => self.underlined(line).map(|title| (title, DefKind::Heading, number - 1)),
            Language::AsciiDoc => heading(line, b'=').map(of(DefKind::Heading)),
            Language::Toml | Language::Ini => table(line).map(of(DefKind::Table)),
            Language::Yaml => key(line).map(of(DefKind::Key)),
            _ => None,
        }
    }

    fn markdown<'l>(&mut self, line: &'l [u8]) -> Option<&'l [u8]> {
        let text = line.trim_ascii_start();
        let mark = [b'`', b'~'].into_iter().find(|mark| text.starts_with(&[*mark; 3]));
        match (self.fence, mark) {
            (None, Some(mark)) => self.fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => self.fence = None,
            (Some(_), Some(_) | None) => {}
            (None, None) => return heading(line, b'#'),
        }
        None
    }

    fn underlined(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let title = std::mem::replace(&mut self.before, line.to_vec());
        let mark = *line.first()?;
        let is_underline = mark.is_ascii_punctuation()
            && line.len() >= 3
            && line.iter().all(|byte| *byte == mark)
            && line.len() >= String::from_utf8_lossy(&title).chars().count();
        let is_title =
            title.first().is_some_and(|byte| !byte.is_ascii_whitespace() && !byte.is_ascii_punctuation());
        (is_underline && is_title).then_some(title)
    }
}

/// One to six marks, a blank, and the text.
fn heading(line: &[u8], mark: u8) -> Option<&[u8]> {
    let level = line.iter().take_while(|byte| **byte == mark).count();
    let text = line.get(level..)?;
    if !(1..=6).contains(&level) || !matches!(text.first(), Some(b' ' | b'\t')) {
        return None;
    }
    let text = text.trim_ascii();
    let closing = text.iter().rev().take_while(|byte| **byte == mark).count();
    let closed = &text[..text.len() - closing];
    let name = if closing > 0 && closed.ends_with(b" ") { closed.trim_ascii_end() } else { text };
    (!name.is_empty()).then_some(name)
}

/// `[name]` or `[[name]]`.
fn table(line: &[u8]) -> Option<&[u8]> {
    let inner = line.strip_prefix(b"[")?;
    let inner = inner.strip_prefix(b"[").unwrap_or(inner);
    let end = inner.iter().position(|byte| *byte == b']')?;
    let name = inner[..end].trim_ascii();
    let is_name = !name.is_empty() && !name.contains(&b',') && !inner[end..].contains(&b',');
    is_name.then_some(name)
}

/// `name:` at the margin.
fn key(line: &[u8]) -> Option<&[u8]> {
    let first = line.first()?;
    if !(first.is_ascii_alphanumeric()
        || matches!(first, b'_' | b'.' | b'"' | b'\'' | b'$')
        || *first >= 0x80)
    {
        return None;
    }
    let colon = line.iter().position(|byte| *byte == b':')?;
    if !matches!(line.get(colon + 1), None | Some(b' ' | b'\t')) {
        return None;
    }
    let name = line[..colon].trim_ascii_end();
    let name = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(name);
    (!name.is_empty() && name.len() <= 80).then_some(name)
}
