//! Definitions that begin with a keyword: `modifier* keyword name`.
//!
//! # Invariants
//! 1. A keyword counts only in the languages that have it: prose in a string seldom passes for a definition.
//! 2. Variables, and the constants of languages that write them in every function, count at the margin only.

use super::{FoundDefinition, is_name_byte};
use crate::index::facts::DefKind;
use crate::index::language::Language;

/// The meaning of the first words of a line.
pub(super) enum Lead<'l> {
    /// A definition.
    Defines(FoundDefinition<'l>),
    /// No keyword; this is the line after its modifiers.
    Nothing {
        /// The text after the modifiers.
        unmodified: &'l [u8],
    },
}

/// Reads the modifiers, the keyword and the name at the beginning of a line.
pub(super) fn lead(language: Language, text: &[u8], indent: usize) -> Lead<'_> {
    let mut rest = text;
    loop {
        let word = first_word(rest);
        if word.is_empty() {
            return Lead::Nothing { unmodified: rest };
        }
        let mut after = &rest[word.len()..];
        if word == b"enum" && language != Language::Rust {
            // C++'s `enum class` is one word in two.
            let both = [&b" class"[..], b" struct"].into_iter().find_map(|second| after.strip_prefix(second));
            let both = both.filter(|rest| rest.starts_with(b" "));
            after = both.unwrap_or(after);
        }
        if let Some(kind) = keyword(language, word, indent)
            && !(is_also_modifier(word) && modifies(language, after, indent))
        {
            return match name_after(language, kind, after) {
                Some(found) => Lead::Defines(found),
                None => Lead::Nothing { unmodified: rest },
            };
        }
        let is_followed = after.first().is_some_and(u8::is_ascii_whitespace) || word == b"pub";
        if !(is_modifier(word) && is_followed) {
            return Lead::Nothing { unmodified: rest };
        }
        rest = skip_qualifier(word, after).trim_ascii_start();
    }
}

fn first_word(text: &[u8]) -> &[u8] {
    let len = text.iter().take_while(|byte| is_name_byte(**byte)).count();
    // Rust's one keyword with a mark.
    if &text[..len] == b"macro_rules" && text.get(len) == Some(&b'!') { &text[..=len] } else { &text[..len] }
}

/// The `(crate)` of `pub(crate)`, the `"C"` of `extern "C"`.
fn skip_qualifier<'l>(word: &[u8], after: &'l [u8]) -> &'l [u8] {
    let trimmed = after.trim_ascii_start();
    match (word, trimmed.first()) {
        (b"pub", Some(b'(')) => super::after_closing(&trimmed[1..], b'(', b')'),
        (b"extern", Some(b'"')) => {
            let end = trimmed[1..].iter().position(|byte| *byte == b'"');
            end.map_or(b"", |end| &trimmed[end + 2..])
        }
        _ => after,
    }
}

fn is_modifier(word: &[u8]) -> bool {
    matches!(
        word,
        b"pub"
            | b"export"
            | b"default"
            | b"async"
            | b"unsafe"
            | b"public"
            | b"private"
            | b"protected"
            | b"internal"
            | b"abstract"
            | b"final"
            | b"sealed"
            | b"override"
            | b"extern"
            | b"virtual"
            | b"inline"
            | b"declare"
            | b"partial"
            | b"static"
            | b"const"
            | b"readonly"
            | b"local"
            | b"open"
            | b"data"
            | b"suspend"
            | b"crate"
            | b"typedef"
            | b"case"
            | b"implicit"
            | b"lazy"
            | b"fileprivate"
            | b"mutating"
            | b"synchronized"
            | b"native"
            | b"constexpr"
            | b"explicit"
            | b"companion"
            | b"annotation"
            | b"operator"
            | b"infix"
            | b"tailrec"
            | b"auto"
            | b"get"
            | b"set"
            | b"strictfp"
            | b"required"
            | b"convenience"
            | b"nonisolated"
            | b"friend"
    )
}

/// `const fn`, `static class`: there the word says how, not what.
fn is_also_modifier(word: &[u8]) -> bool {
    matches!(word, b"const" | b"static")
}

fn modifies(language: Language, after: &[u8], indent: usize) -> bool {
    let after = after.trim_ascii_start();
    let next = first_word(after);
    let is_word = is_modifier(next) || keyword(language, next, indent).is_some();
    // `const data = 1` defines `data`, whatever else the word may mean.
    let then = after[next.len()..].trim_ascii_start();
    is_word && then.first().is_some_and(|byte| is_name_byte(*byte) || *byte == b'"')
}

/// Returns the kind that a keyword of a language defines; `None` if it defines nothing.
#[allow(clippy::wildcard_enum_match_arm, reason = "a pair that is not named is no keyword of its language")]
fn keyword(language: Language, word: &[u8], indent: usize) -> Option<DefKind> {
    let at_margin = indent == 0;
    let kind = match (language, word) {
        (Language::Rust, b"fn") => DefKind::Function,
        (Language::Rust, b"struct" | b"union") => DefKind::Struct,
        (Language::Rust, b"trait") => DefKind::Trait,
        (Language::Rust, b"macro_rules!") => DefKind::Macro,
        (Language::Rust, b"mod") => DefKind::Module,
        (Language::Rust, b"const" | b"static") => DefKind::Constant,
        (Language::Python, b"def") => DefKind::Function,
        (Language::Go | Language::Swift, b"func") => DefKind::Function,
        (Language::Go, b"const") => DefKind::Constant,
        (Language::Go, b"var") if at_margin => DefKind::Variable,
        (
            Language::JavaScript
            | Language::TypeScript
            | Language::Tsx
            | Language::Html
            | Language::Php
            | Language::Lua
            | Language::Shell,
            b"function",
        ) => DefKind::Function,
        (Language::JavaScript | Language::TypeScript | Language::Tsx | Language::Html, b"const")
            if at_margin =>
        {
            DefKind::Constant
        }
        (Language::JavaScript | Language::TypeScript | Language::Tsx | Language::Html, b"let" | b"var")
            if at_margin =>
        {
            DefKind::Variable
        }
        (Language::TypeScript | Language::Tsx, b"namespace" | b"module") => DefKind::Module,
        (Language::Cpp | Language::CSharp | Language::Php, b"namespace") => DefKind::Module,
        (Language::C | Language::Cpp | Language::CSharp | Language::Swift, b"struct") => DefKind::Struct,
        (Language::C | Language::Cpp, b"union") => DefKind::Struct,
        (Language::Java | Language::CSharp, b"record") => DefKind::Struct,
        (Language::Ruby, b"def") => DefKind::Function,
        (Language::Ruby, b"module") => DefKind::Module,
        (Language::Php, b"const") => DefKind::Constant,
        (Language::Kotlin, b"fun") => DefKind::Function,
        (Language::Kotlin | Language::Swift, b"typealias") => DefKind::Type,
        (Language::Kotlin | Language::Scala, b"object") => DefKind::Module,
        (Language::Kotlin | Language::Scala, b"val" | b"var") if at_margin => DefKind::Variable,
        (Language::Swift, b"let" | b"var") if at_margin => DefKind::Variable,
        (Language::Swift, b"protocol") => DefKind::Trait,
        (Language::Swift, b"actor") => DefKind::Class,
        (Language::Scala | Language::Elixir, b"def") => DefKind::Function,
        (Language::Elixir, b"defp") => DefKind::Function,
        (Language::Elixir, b"defmacro") => DefKind::Macro,
        (Language::Elixir, b"defmodule") => DefKind::Module,
        (Language::Perl, b"sub") => DefKind::Function,
        (Language::Perl, b"package") => DefKind::Module,
        (Language::Protobuf, b"message") => DefKind::Message,
        (Language::Protobuf, b"service") => DefKind::Service,
        (Language::Protobuf, b"rpc") => DefKind::Rpc,
        (Language::Sql, b"create" | b"CREATE" | b"Create") => DefKind::Table,
        (Language::Php | Language::Scala, b"trait") => DefKind::Trait,
        (
            Language::TypeScript
            | Language::Tsx
            | Language::Java
            | Language::CSharp
            | Language::Php
            | Language::Kotlin
            | Language::Go,
            b"interface",
        ) => DefKind::Interface,
        (Language::Rust | Language::TypeScript | Language::Tsx | Language::Go | Language::Scala, b"type") => {
            DefKind::Type
        }
        (
            Language::Python
            | Language::JavaScript
            | Language::TypeScript
            | Language::Tsx
            | Language::Html
            | Language::Java
            | Language::Cpp
            | Language::CSharp
            | Language::Ruby
            | Language::Php
            | Language::Kotlin
            | Language::Swift
            | Language::Scala,
            b"class",
        ) => DefKind::Class,
        (
            Language::Rust
            | Language::TypeScript
            | Language::Tsx
            | Language::Java
            | Language::C
            | Language::Cpp
            | Language::CSharp
            | Language::Php
            | Language::Kotlin
            | Language::Swift
            | Language::Scala
            | Language::Protobuf,
            b"enum",
        ) => DefKind::Enum,
        _ => return None,
    };
    Some(kind)
}

/// The name that a keyword gives, if what follows has the look of a definition.
fn name_after(language: Language, kind: DefKind, after: &[u8]) -> Option<FoundDefinition<'_>> {
    if language == Language::Sql {
        return created_table(after);
    }
    let is_apart = after.first().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'(' | b'*' | b'<'));
    if !is_apart {
        return None;
    }
    let mut rest = after.trim_ascii_start();
    if language == Language::Go && kind == DefKind::Function && after.starts_with(b" (") {
        rest = super::after_closing(&rest[1..], b'(', b')').trim_ascii_start();
    }
    if rest.starts_with(b"<") {
        rest = super::after_closing(&rest[1..], b'<', b'>').trim_ascii_start();
    }
    rest = rest.strip_prefix(b"*").or_else(|| rest.strip_prefix(b"&")).unwrap_or(rest).trim_ascii_start();
    rest = rest.strip_prefix(b"mut ").unwrap_or(rest).trim_ascii_start();
    let (name, tail) = last_of_path(rest)?;
    let is_definition = match (language, kind) {
        (Language::Go, DefKind::Function) => matches!(tail.first(), Some(b'(' | b'[')),
        (Language::C | Language::Cpp, DefKind::Struct | DefKind::Enum | DefKind::Class) => opens(tail),
        (Language::TypeScript | Language::Tsx, DefKind::Type) => {
            matches!(tail.trim_ascii_start().first(), Some(b'=' | b'<') | None)
        }
        (Language::TypeScript | Language::Tsx, DefKind::Module) => {
            matches!(tail.trim_ascii_start().first(), Some(b'{'))
        }
        _ => true,
    };
    (is_definition && name != b"_").then(|| FoundDefinition { name, kind: refine_kind(language, kind, tail) })
}

/// In C, `struct name` is a definition only when its body follows; else it is the type of something.
fn opens(tail: &[u8]) -> bool {
    let tail = tail.trim_ascii();
    tail.is_empty()
        || matches!(tail.first(), Some(b'{' | b':')) && !tail.starts_with(b"::")
        || tail.starts_with(b"final")
}

/// The last name of `a.b`, `a::b` or `a:b`, and what follows it.
fn last_of_path(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = text;
    loop {
        let len = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
        let (name, tail) = rest.split_at(len);
        if name.first().is_none_or(u8::is_ascii_digit) {
            return None;
        }
        let after = if tail.starts_with(b"<") { super::after_closing(&tail[1..], b'<', b'>') } else { tail };
        // `List<T>.each` extends a type; of every other name the `<` is its own.
        let tail = if after.starts_with(b".") { after } else { tail };
        let skipped = tail.iter().take_while(|byte| matches!(byte, b'.' | b':')).count();
        let goes_on = (1..=2).contains(&skipped)
            && tail.get(skipped).is_some_and(|byte| is_name_byte(*byte) && !byte.is_ascii_digit());
        if !goes_on {
            return Some((name, tail));
        }
        rest = &tail[skipped..];
    }
}

/// Go says after the name what a type is.
fn refine_kind(language: Language, kind: DefKind, tail: &[u8]) -> DefKind {
    match (language, kind) {
        (Language::Go, DefKind::Type) => match first_word(tail.trim_ascii_start()) {
            b"struct" => DefKind::Struct,
            b"interface" => DefKind::Interface,
            _ => DefKind::Type,
        },
        _ => kind,
    }
}

/// `create [or replace] [unique] table [if not exists] name`.
fn created_table(after: &[u8]) -> Option<FoundDefinition<'_>> {
    let mut rest = after;
    let mut kind = None;
    loop {
        let skip =
            rest.iter().take_while(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'`')).count();
        rest = &rest[skip..];
        let word = first_word(rest);
        match (word.to_ascii_lowercase().as_slice(), kind) {
            (b"", _) => return None,
            (
                b"or" | b"replace" | b"unique" | b"temporary" | b"temp" | b"materialized" | b"virtual",
                None,
            ) => {}
            (b"if" | b"not" | b"exists" | b"concurrently", Some(_)) => {}
            (b"table" | b"view" | b"index" | b"trigger" | b"schema", None) => kind = Some(DefKind::Table),
            (b"function" | b"procedure", None) => kind = Some(DefKind::Function),
            (b"type", None) => kind = Some(DefKind::Type),
            (_, None) => return None,
            (_, Some(kind)) => return last_of_path(rest).map(|(name, _)| FoundDefinition { name, kind }),
        }
        rest = &rest[word.len()..];
    }
}
