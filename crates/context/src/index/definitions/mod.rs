//! Definitions, recognised by the look of single lines: `modifier* keyword name`, `name(…) {`, a heading, a
//! key.
//!
//! No grammar is consulted, so a definition may be missed and a line of a long string taken for one. That is
//! cheap enough for every file and good enough to rank them; what is shown is parsed (`outline`).
//!
//! # Invariants
//! 1. Each line is looked at once, in order, and nothing before it but what a few fields remember.
//! 2. A definition begins at the first of the comment and attribute lines right above it, and ends before the
//!    next.
//!
//! # Not here
//! Which words are keywords of which language: `keywords`. Functions without a keyword: `braces`. Texts and
//! settings: `prose`.

mod braces;
mod keywords;
mod prose;

use super::facts::{Def, DefKind};
use super::language::{FileKind, Language};
use braces::Braces;
use keywords::{Lead, lead};
use prose::Prose;

/// A longer name is cut here: it is a heading of a paragraph's length, or no name.
const NAME_BYTES_MAX: usize = 120;

/// The number of definitions of one file that are retained: more are a table of data.
const DEFS_MAX: usize = 20_000;

/// Looks at the lines of one file.
pub(crate) struct Definitions {
    language: Language,
    /// The number of the line that was looked at last.
    line: u32,
    /// The first of the comments and attributes right above the next line.
    attached: Option<u32>,
    in_block_comment: bool,
    braces: Braces,
    prose: Prose,
    defs: Vec<Def>,
}

/// A definition, as one line shows it.
pub(super) struct FoundDefinition<'l> {
    name: &'l [u8],
    kind: DefKind,
}

impl Definitions {
    pub(crate) fn new(language: Language) -> Definitions {
        Definitions {
            language,
            line: 0,
            attached: None,
            in_block_comment: false,
            braces: Braces::new(language),
            prose: Prose::default(),
            defs: Vec::new(),
        }
    }

    /// Looks at the next line, given without its end.
    pub(crate) fn line(&mut self, line: &[u8]) {
        self.line += 1;
        if self.defs.len() >= DEFS_MAX {
            return;
        }
        match self.language.kind() {
            FileKind::Code => self.code_line(line),
            FileKind::Doc | FileKind::Config => {
                if let Some((name, kind, at)) = self.prose.line(self.language, self.line, line) {
                    self.push(&name, kind, at, at);
                }
            }
            FileKind::Text => {}
        }
    }

    /// All that was found, each ending where the next begins.
    pub(crate) fn finish(mut self, lines: u32) -> Vec<Def> {
        let starts: Vec<u32> = self.defs.iter().map(|def| def.start).collect();
        for (place, def) in self.defs.iter_mut().enumerate() {
            let next = starts.get(place + 1).map_or(lines, |start| start - 1);
            def.end = next.max(def.line);
        }
        self.defs
    }

    fn code_line(&mut self, line: &[u8]) {
        let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let text = line[indent..].trim_ascii_end();
        if text.is_empty() {
            self.attached = None;
            return;
        }
        if self.in_block_comment {
            self.in_block_comment = !contains(text, b"*/");
            return;
        }
        if self.is_comment(text) {
            self.attached.get_or_insert(self.line);
            return;
        }
        let after_attributes = self.skip_attributes(text);
        if after_attributes.is_empty() {
            self.attached.get_or_insert(self.line);
            return;
        }
        self.definition(after_attributes, indent);
        self.attached = None;
    }

    fn definition(&mut self, text: &[u8], indent: usize) {
        let start = self.attached.unwrap_or(self.line);
        let found = match lead(self.language, text, indent) {
            Lead::Defines(found) => Some((found.name.to_vec(), found.kind, self.line, start)),
            Lead::Nothing { unmodified } => self
                .braces
                .line(text, unmodified, indent, self.line, start)
                .map(|begun| (begun.name, DefKind::Function, begun.line, begun.start)),
        };
        if let Some((name, kind, line, start)) = found {
            self.braces.forget();
            self.push(&name, kind, line, start);
        }
    }

    fn push(&mut self, name: &[u8], kind: DefKind, line: u32, start: u32) {
        let text = String::from_utf8_lossy(name);
        let mut end = text.len().min(NAME_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        // A definition that was found late may begin before one that was found meanwhile: it has no own
        // comment.
        let after_last = self.defs.last().map_or(1, |last| last.line + 1);
        if line < after_last {
            return;
        }
        self.defs.push(Def { name: text[..end].into(), kind, line, start: start.max(after_last), end: line });
    }

    /// Returns true if the line is a comment, as a whole.
    fn is_comment(&mut self, text: &[u8]) -> bool {
        match self.language {
            Language::Python
            | Language::Ruby
            | Language::Shell
            | Language::Perl
            | Language::Elixir
            | Language::Make
            | Language::Docker => text.starts_with(b"#"),
            Language::Lua | Language::Sql => text.starts_with(b"--"),
            Language::Php if text.starts_with(b"#") => !text.starts_with(b"#["),
            Language::Rust
            | Language::JavaScript
            | Language::TypeScript
            | Language::Tsx
            | Language::Go
            | Language::Java
            | Language::C
            | Language::Cpp
            | Language::CSharp
            | Language::Php
            | Language::Kotlin
            | Language::Swift
            | Language::Scala
            | Language::Protobuf
            | Language::Html
            | Language::Css => {
                if text.starts_with(b"/*") {
                    self.in_block_comment = !contains(text, b"*/");
                    return self.in_block_comment || text.ends_with(b"*/");
                }
                text.starts_with(b"//")
            }
            Language::Text
            | Language::Markdown
            | Language::Rst
            | Language::AsciiDoc
            | Language::Toml
            | Language::Yaml
            | Language::Json
            | Language::Ini
            | Language::Xml => false,
        }
    }

    /// Returns the text after the attributes and annotations at the beginning of a line.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "annotations look alike in all the others that have them"
    )]
    fn skip_attributes<'l>(&self, text: &'l [u8]) -> &'l [u8] {
        let mut rest = text;
        loop {
            let after = match self.language {
                Language::Rust | Language::Php => {
                    rest.strip_prefix(b"#[").map(|inner| after_closing(inner, b'[', b']'))
                }
                Language::CSharp => rest.strip_prefix(b"[").map(|inner| after_closing(inner, b'[', b']')),
                Language::Cpp if rest.starts_with(b"template") => {
                    let open = rest.iter().position(|byte| *byte == b'<');
                    open.map(|open| after_closing(&rest[open + 1..], b'<', b'>'))
                }
                _ => rest.strip_prefix(b"@").and_then(after_annotation),
            };
            match after {
                Some(after) => rest = after.trim_ascii_start(),
                None => return rest,
            }
        }
    }
}

/// Returns the text after the bracket that closes an open one; nothing if it closes on a later line.
fn after_closing(text: &[u8], open: u8, close: u8) -> &[u8] {
    let mut depth = 1_usize;
    for (at, byte) in text.iter().enumerate() {
        if *byte == open {
            depth += 1;
        } else if *byte == close {
            depth -= 1;
            if depth == 0 {
                return &text[at + 1..];
            }
        }
    }
    b""
}

/// Returns the text after `name` or `name(…)` of an annotation; `None` for Java's `@interface`, which defines
/// one.
fn after_annotation(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().take_while(|byte| is_name_byte(**byte) || **byte == b'.').count();
    if end == 0 || &text[..end] == b"interface" {
        return None;
    }
    match text.get(end) {
        Some(b'(') => Some(after_closing(&text[end + 1..], b'(', b')')),
        Some(_) | None => Some(&text[end..]),
    }
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
