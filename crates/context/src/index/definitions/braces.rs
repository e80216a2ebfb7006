//! Functions that no keyword announces: `… name(…) … {`, also with the brace on the next line or the
//! parameters on many.
//!
//! # Invariants
//! 1. At most one function is begun and not yet decided; it is given up after [`UNDECIDED_LINES_MAX`] lines.
//! 2. A call whose arguments hold a block is no definition: the brace is inside its parentheses.

use super::is_name_byte;
use crate::index::language::Language;

/// The number of lines the parameters of a function may take.
const UNDECIDED_LINES_MAX: u32 = 24;

/// Words before a parenthesis or a name that make something else of the line than a definition.
const CONTROL_WORDS: [&[u8]; 34] = [
    b"if",
    b"for",
    b"while",
    b"switch",
    b"catch",
    b"match",
    b"return",
    b"else",
    b"do",
    b"try",
    b"with",
    b"foreach",
    b"elif",
    b"using",
    b"lock",
    b"fixed",
    b"unless",
    b"until",
    b"loop",
    b"guard",
    b"when",
    b"case",
    b"sizeof",
    b"new",
    b"await",
    b"yield",
    b"throw",
    b"typeof",
    b"assert",
    b"function",
    b"fn",
    b"func",
    b"super",
    b"delete",
];

/// Looks for functions without a keyword.
pub(super) struct Braces {
    style: Style,
    begun: Option<Undecided>,
}

/// The text that a language allows before the name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// No such functions.
    None,
    /// Types, at the margin only.
    C,
    /// Types, at any depth.
    Typed,
    /// Modifiers only.
    Script,
    /// Nothing.
    Shell,
}

/// A function whose name has been seen, but not yet its brace.
struct Undecided {
    function: FunctionStart,
    depth: u32,
    /// The parameters are over.
    is_closed: bool,
    /// True if a colon follows them: a type, or the initializers of a constructor.
    is_typed: bool,
    lines_left: u32,
}

/// A function and where it begins.
pub(super) struct FunctionStart {
    pub(super) name: Vec<u8>,
    pub(super) line: u32,
    pub(super) start: u32,
}

/// The effect of a line on a function.
enum LineVerdict {
    Defined,
    Undecided,
    Not,
}

impl Braces {
    pub(super) fn new(language: Language) -> Braces {
        let style = match language {
            Language::C => Style::C,
            Language::Cpp | Language::Java | Language::CSharp => Style::Typed,
            Language::JavaScript
            | Language::TypeScript
            | Language::Tsx
            | Language::Html
            | Language::Swift => Style::Script,
            Language::Shell => Style::Shell,
            Language::Text
            | Language::Rust
            | Language::Python
            | Language::Go
            | Language::Ruby
            | Language::Php
            | Language::Kotlin
            | Language::Scala
            | Language::Lua
            | Language::Perl
            | Language::Elixir
            | Language::Protobuf
            | Language::Sql
            | Language::Css
            | Language::Markdown
            | Language::Rst
            | Language::AsciiDoc
            | Language::Toml
            | Language::Yaml
            | Language::Json
            | Language::Ini
            | Language::Xml
            | Language::Make
            | Language::Docker => Style::None,
        };
        Braces { style, begun: None }
    }

    /// Nothing is begun: something else was defined.
    pub(super) fn forget(&mut self) {
        self.begun = None;
    }

    /// Looks at a line; `unmodified` is its end, from behind its modifiers.
    pub(super) fn line(
        &mut self,
        text: &[u8],
        unmodified: &[u8],
        indent: usize,
        line: u32,
        start: u32,
    ) -> Option<FunctionStart> {
        if self.style == Style::None {
            return None;
        }
        if let Some(open) = self.name_in(unmodified, indent) {
            let (name, tail) = (unmodified[open.clone()].to_vec(), &unmodified[open.end..]);
            let function = FunctionStart { name, line, start };
            let mut undecided = Undecided::new(function);
            return match undecided.reads(tail, self.style) {
                LineVerdict::Defined => Some(undecided.function),
                LineVerdict::Undecided => {
                    self.begun = Some(undecided);
                    None
                }
                LineVerdict::Not => None,
            };
        }
        let mut undecided = self.begun.take()?;
        match undecided.reads(text, self.style) {
            LineVerdict::Defined => Some(undecided.function),
            LineVerdict::Undecided => {
                self.begun = Some(undecided);
                None
            }
            LineVerdict::Not => None,
        }
    }

    /// Returns the range of a function's name; `None` if the line has none before its first parenthesis.
    fn name_in(&self, text: &[u8], indent: usize) -> Option<std::ops::Range<usize>> {
        if self.style == Style::C && indent > 0 || !text.first().is_some_and(|byte| self.may_begin(*byte)) {
            return None;
        }
        let paren = text.iter().position(|byte| *byte == b'(')?;
        let before = text[..paren].trim_ascii_end();
        let before = without_generics(before);
        let name_len = before.iter().rev().take_while(|byte| is_name_byte(**byte)).count();
        let (lead, name) = before.split_at(before.len() - name_len);
        let is_name =
            name.first().is_some_and(|byte| !byte.is_ascii_digit()) && !CONTROL_WORDS.contains(&name);
        (is_name && self.may_lead(lead)).then_some(lead.len()..before.len())
    }

    fn may_begin(&self, byte: u8) -> bool {
        let is_name = is_name_byte(byte) && !byte.is_ascii_digit();
        is_name || matches!(byte, b'~' | b'*' | b'<' | b':') || byte == b'#' && self.style == Style::Script
    }

    /// Returns true if this text may precede the name in a definition.
    fn may_lead(&self, lead: &[u8]) -> bool {
        let has_operator = lead.iter().any(|byte| {
            matches!(
                byte,
                b'=' | b'"' | b'\'' | b'`' | b'.' | b'!' | b';' | b'}' | b'{' | b'+' | b'/' | b'%' | b'|'
            )
        });
        if has_operator || lead.ends_with(b"->") {
            return false;
        }
        let mut words = lead.split(|byte| !is_name_byte(*byte)).filter(|word| !word.is_empty());
        match self.style {
            Style::None => false,
            Style::C | Style::Typed => !words.any(|word| CONTROL_WORDS.contains(&word)),
            // Modifiers have been taken off before.
            Style::Script | Style::Shell => words.next().is_none(),
        }
    }
}

/// `name<T>` without its `<T>`.
fn without_generics(text: &[u8]) -> &[u8] {
    if text.last() != Some(&b'>') {
        return text;
    }
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b'>' => depth += 1,
            b'<' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &text[..at];
                }
            }
            _ => {}
        }
    }
    text
}

impl Undecided {
    fn new(function: FunctionStart) -> Undecided {
        Undecided { function, depth: 0, is_closed: false, is_typed: false, lines_left: UNDECIDED_LINES_MAX }
    }

    /// Reads on: from the first parenthesis, or a whole further line.
    fn reads(&mut self, text: &[u8], style: Style) -> LineVerdict {
        let mut quote = None;
        for (at, byte) in text.iter().enumerate() {
            match (quote, byte) {
                (Some(open), _) => quote = if *byte == open { None } else { Some(open) },
                (None, b'"' | b'\'' | b'`') => quote = Some(*byte),
                (None, b'/') if text.get(at + 1) == Some(&b'/') => break,
                (None, _) => match self.read_byte(*byte, style) {
                    LineVerdict::Undecided => {}
                    decided @ (LineVerdict::Defined | LineVerdict::Not) => return decided,
                },
            }
        }
        self.lines_left -= 1;
        if self.lines_left == 0 { LineVerdict::Not } else { LineVerdict::Undecided }
    }

    fn read_byte(&mut self, byte: u8, style: Style) -> LineVerdict {
        let is_over = self.is_closed && !self.is_typed;
        match byte {
            b'(' if is_over && style == Style::Script => return LineVerdict::Not,
            b'(' => self.depth += 1,
            b')' if self.depth == 0 => return LineVerdict::Not,
            b')' => {
                self.depth -= 1;
                self.is_closed |= self.depth == 0;
            }
            _ if self.depth > 0 => {}
            b'{' => return if self.is_closed { LineVerdict::Defined } else { LineVerdict::Not },
            b';' => return LineVerdict::Not,
            b':' => self.is_typed |= self.is_closed,
            b' ' | b'\t' => {}
            b'=' | b',' if is_over => return LineVerdict::Not,
            _ if is_over && matches!(style, Style::Script | Style::Shell) => return LineVerdict::Not,
            _ => {}
        }
        LineVerdict::Undecided
    }
}
