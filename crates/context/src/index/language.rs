//! Detects the language of a file by its name or, if the name does not decide it, by its first line.
//!
//! # Invariants
//! 1. The language depends on the path and the first line only, so equal files under equal names have equal
//!    facts.
//! 2. [`Language::code`] never changes its meaning: it is stored.
//!
//! # Not here
//! The form of a definition in a language: `definitions`. Parsing: `outline`.

use domain::RelPath;

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Anything that is text and has no name here.
    Text,
    /// Rust.
    Rust,
    /// Python, stubs too.
    Python,
    /// JavaScript, with or without JSX.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Go.
    Go,
    /// Java.
    Java,
    /// C, and headers that may be C++.
    C,
    /// C++.
    Cpp,
    /// C#.
    CSharp,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Kotlin.
    Kotlin,
    /// Swift.
    Swift,
    /// Scala.
    Scala,
    /// Shells of the Bourne family.
    Shell,
    /// Lua.
    Lua,
    /// Perl.
    Perl,
    /// Elixir.
    Elixir,
    /// Protocol buffers.
    Protobuf,
    /// SQL.
    Sql,
    /// HTML and what is built on it.
    Html,
    /// Style sheets.
    Css,
    /// Markdown.
    Markdown,
    /// reStructuredText.
    Rst,
    /// AsciiDoc.
    AsciiDoc,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
    /// Sections and keys.
    Ini,
    /// XML.
    Xml,
    /// Rules of make.
    Make,
    /// Instructions to build a container image.
    Docker,
}

/// The purpose of a file, which decides how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A program's source.
    Code,
    /// Words for people, with headings.
    Doc,
    /// Settings.
    Config,
    /// Any other text.
    Text,
}

/// Every language with its stored code and its shown name.
const LANGUAGES: [(Language, u8, &str); 34] = [
    (Language::Text, 0, "text"),
    (Language::Rust, 1, "rust"),
    (Language::Python, 2, "python"),
    (Language::JavaScript, 3, "javascript"),
    (Language::TypeScript, 4, "typescript"),
    (Language::Tsx, 5, "tsx"),
    (Language::Go, 6, "go"),
    (Language::Java, 7, "java"),
    (Language::C, 8, "c"),
    (Language::Cpp, 9, "c++"),
    (Language::CSharp, 10, "c#"),
    (Language::Ruby, 11, "ruby"),
    (Language::Php, 12, "php"),
    (Language::Kotlin, 13, "kotlin"),
    (Language::Swift, 14, "swift"),
    (Language::Scala, 15, "scala"),
    (Language::Shell, 16, "shell"),
    (Language::Lua, 17, "lua"),
    (Language::Perl, 18, "perl"),
    (Language::Elixir, 19, "elixir"),
    (Language::Protobuf, 20, "protobuf"),
    (Language::Sql, 21, "sql"),
    (Language::Html, 22, "html"),
    (Language::Css, 23, "css"),
    (Language::Markdown, 24, "markdown"),
    (Language::Rst, 25, "rst"),
    (Language::AsciiDoc, 26, "asciidoc"),
    (Language::Toml, 27, "toml"),
    (Language::Yaml, 28, "yaml"),
    (Language::Json, 29, "json"),
    (Language::Ini, 30, "ini"),
    (Language::Xml, 31, "xml"),
    (Language::Make, 32, "make"),
    (Language::Docker, 33, "docker"),
];

impl Language {
    /// The language of a file, by its name; if that says nothing, by the program that its first line names.
    ///
    /// ```
    /// use context::index::Language;
    /// use domain::RelPath;
    ///
    /// let of = |path: &str, bytes: &[u8]| Language::detect(&RelPath::new(path).unwrap(), bytes);
    /// assert_eq!(of("src/main.rs", b""), Language::Rust);
    /// assert_eq!(of("bin/serve", b"#!/usr/bin/env python3\n"), Language::Python);
    /// assert_eq!(of("LICENSE", b"Apache"), Language::Text);
    /// ```
    pub fn detect(path: &RelPath, bytes: &[u8]) -> Language {
        let name = path.file_name().to_ascii_lowercase();
        by_name(&name)
            .or_else(|| by_extension(&name))
            .or_else(|| by_first_line(bytes))
            .unwrap_or(Language::Text)
    }

    /// Returns the name of the language in a header.
    pub fn name(self) -> &'static str {
        LANGUAGES.iter().find(|(language, ..)| *language == self).map_or("text", |(_, _, name)| name)
    }

    /// Returns the kind of its files.
    pub fn kind(self) -> FileKind {
        match self {
            Self::Text => FileKind::Text,
            Self::Markdown | Self::Rst | Self::AsciiDoc => FileKind::Doc,
            Self::Toml | Self::Yaml | Self::Json | Self::Ini | Self::Xml => FileKind::Config,
            Self::Rust
            | Self::Python
            | Self::JavaScript
            | Self::TypeScript
            | Self::Tsx
            | Self::Go
            | Self::Java
            | Self::C
            | Self::Cpp
            | Self::CSharp
            | Self::Ruby
            | Self::Php
            | Self::Kotlin
            | Self::Swift
            | Self::Scala
            | Self::Shell
            | Self::Lua
            | Self::Perl
            | Self::Elixir
            | Self::Protobuf
            | Self::Sql
            | Self::Html
            | Self::Css
            | Self::Make
            | Self::Docker => FileKind::Code,
        }
    }

    /// Returns the number of the language on disk.
    pub(crate) fn code(self) -> u8 {
        LANGUAGES.iter().find(|(language, ..)| *language == self).map_or(0, |(_, code, _)| *code)
    }

    /// Returns the language of a stored number; `None` if the number is unknown.
    pub(crate) fn from_code(code: u8) -> Option<Language> {
        LANGUAGES.iter().find(|(_, known, _)| *known == code).map(|(language, ..)| *language)
    }
}

/// Files whose whole name says what they are.
fn by_name(lower: &[u8]) -> Option<Language> {
    match lower {
        b"makefile" | b"gnumakefile" => Some(Language::Make),
        b"dockerfile" | b"containerfile" => Some(Language::Docker),
        b"gemfile" | b"rakefile" | b"vagrantfile" | b"podfile" => Some(Language::Ruby),
        b"build" | b"build.bazel" | b"workspace" | b"sconstruct" => Some(Language::Python),
        b"cargo.lock" => Some(Language::Toml),
        b".editorconfig" | b".gitconfig" | b".gitmodules" => Some(Language::Ini),
        b".bashrc" | b".profile" | b".zshrc" => Some(Language::Shell),
        _ => None,
    }
}

fn by_extension(lower: &[u8]) -> Option<Language> {
    let dot = lower.iter().rposition(|byte| *byte == b'.')?;
    let language = match lower.get(dot + 1..)? {
        b"rs" => Language::Rust,
        b"py" | b"pyi" | b"pyx" | b"bzl" => Language::Python,
        b"js" | b"mjs" | b"cjs" | b"jsx" => Language::JavaScript,
        b"ts" | b"mts" | b"cts" => Language::TypeScript,
        b"tsx" => Language::Tsx,
        b"go" => Language::Go,
        b"java" => Language::Java,
        b"c" | b"h" => Language::C,
        b"cc" | b"cpp" | b"cxx" | b"c++" | b"hh" | b"hpp" | b"hxx" | b"inl" | b"cu" | b"ino" | b"mm"
        | b"m" => Language::Cpp,
        b"cs" => Language::CSharp,
        b"rb" | b"rake" | b"gemspec" => Language::Ruby,
        b"php" => Language::Php,
        b"kt" | b"kts" => Language::Kotlin,
        b"swift" => Language::Swift,
        b"scala" | b"sc" | b"sbt" => Language::Scala,
        b"sh" | b"bash" | b"zsh" | b"ksh" => Language::Shell,
        b"lua" => Language::Lua,
        b"pl" | b"pm" => Language::Perl,
        b"ex" | b"exs" => Language::Elixir,
        b"proto" => Language::Protobuf,
        b"sql" => Language::Sql,
        b"html" | b"htm" | b"vue" | b"svelte" | b"astro" => Language::Html,
        b"css" | b"scss" | b"sass" | b"less" => Language::Css,
        b"md" | b"mdx" | b"markdown" => Language::Markdown,
        b"rst" => Language::Rst,
        b"adoc" | b"asciidoc" => Language::AsciiDoc,
        b"toml" => Language::Toml,
        b"yml" | b"yaml" => Language::Yaml,
        b"json" | b"jsonc" | b"json5" | b"ipynb" => Language::Json,
        b"ini" | b"cfg" | b"conf" | b"properties" => Language::Ini,
        b"xml" | b"xsd" | b"svg" | b"csproj" | b"plist" => Language::Xml,
        b"mk" | b"mak" => Language::Make,
        b"dockerfile" => Language::Docker,
        _ => return None,
    };
    Some(language)
}

/// The number of bytes of a first line that are read.
const FIRST_LINE_BYTES_MAX: usize = 128;

/// The program of a `#!` line, without its version.
fn by_first_line(bytes: &[u8]) -> Option<Language> {
    let line = bytes.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(FIRST_LINE_BYTES_MAX)];
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let mut program = base_name(words.next()?);
    if program == b"env" {
        program = base_name(words.find(|word| !word.starts_with(b"-"))?);
    }
    let plain = program.iter().position(|byte| byte.is_ascii_digit()).map_or(program, |end| &program[..end]);
    match plain {
        b"sh" | b"bash" | b"zsh" | b"ksh" | b"dash" => Some(Language::Shell),
        b"python" | b"pypy" => Some(Language::Python),
        b"node" | b"bun" => Some(Language::JavaScript),
        b"deno" => Some(Language::TypeScript),
        b"ruby" => Some(Language::Ruby),
        b"perl" => Some(Language::Perl),
        b"php" => Some(Language::Php),
        b"lua" => Some(Language::Lua),
        _ => None,
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Names of files that are a module only through the folder that they lie in.
const FOLDER_MODULES: [&[u8]; 6] = [b"mod", b"lib", b"main", b"__init__", b"index", b"__main__"];

/// The name by which other files import a file: its stem, or its folder's name.
///
/// ```
/// use context::index::module_name;
/// use domain::RelPath;
///
/// let of = |path: &str| module_name(&RelPath::new(path).unwrap());
/// assert_eq!(of("src/pack.rs").as_deref(), Some("pack"));
/// assert_eq!(of("src/index/mod.rs").as_deref(), Some("index"));
/// assert_eq!(of("README.md"), None);
/// ```
pub fn module_name(path: &RelPath) -> Option<String> {
    let language = by_extension(&path.file_name().to_ascii_lowercase())?;
    if language.kind() != FileKind::Code {
        return None;
    }
    let stem = |name: &[u8]| name.split(|byte| *byte == b'.').next().unwrap_or_default().to_vec();
    let own = stem(path.file_name());
    let own =
        if FOLDER_MODULES.contains(&own.as_slice()) { path.parent()?.file_name().to_vec() } else { own };
    String::from_utf8(own).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_comes_back_from_its_stored_code() {
        for (place, (language, code, name)) in LANGUAGES.into_iter().enumerate() {
            assert_eq!(usize::from(code), place);
            assert_eq!(Language::from_code(language.code()), Some(language));
            assert_eq!(language.name(), name);
        }
        assert_eq!(Language::from_code(200), None);
    }

    #[test]
    fn names_extensions_and_first_lines_tell_the_language() {
        let table: [(&str, &[u8], Language); 12] = [
            ("a/Makefile", b"", Language::Make),
            ("x.TSX", b"", Language::Tsx),
            ("x.test.ts", b"", Language::TypeScript),
            ("x.h", b"", Language::C),
            (".bashrc", b"", Language::Shell),
            ("run", b"#!/bin/sh -e\necho", Language::Shell),
            ("run", b"#! /usr/bin/env -S python3.11 -u\n", Language::Python),
            ("run", b"#!/opt/node\n", Language::JavaScript),
            ("run", b"#!/opt/unknown\n", Language::Text),
            ("run", b"#!", Language::Text),
            ("rs", b"", Language::Text),
            ("x.", b"", Language::Text),
        ];
        for (path, bytes, language) in table {
            assert_eq!(Language::detect(&RelPath::new(path).unwrap(), bytes), language, "{path}");
        }
    }

    #[test]
    fn a_module_is_named_after_its_stem_or_its_folder() {
        let table = [
            ("src/lib.rs", Some("src")),
            ("main.go", None),
            ("pkg/__init__.py", Some("pkg")),
            ("web/index.test.ts", Some("web")),
            ("a/b.config.js", Some("b")),
            ("notes.txt", None),
        ];
        for (path, name) in table {
            assert_eq!(module_name(&RelPath::new(path).unwrap()).as_deref(), name, "{path}");
        }
    }
}
