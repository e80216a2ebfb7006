//! Outlines by tree-sitter: one grammar and one query of ours a language.
//!
//! # Invariants
//! 1. The parser ends: after so many steps of its own it is stopped, and it is never given a text over
//!    [`PARSE_BYTES_MAX`].
//! 2. A tree that is broken for more than a fifth of the text is not believed.
//! 3. Grammars and queries are made once a process. A query that does not fit its grammar turns its language
//!    off, and a test fails.

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tree_sitter::{
    Node, ParseOptions, Parser, Query, QueryCursor, QueryCursorOptions, QueryMatch, StreamingIterator, Tree,
    TreeCursor,
};

use super::super::{DefKind, Language};
use super::OutlineItem;
use super::signature::{CUT, attached_from, doc_line, is_comment, signature};

/// A longer text is not parsed.
const PARSE_BYTES_MAX: usize = 256 * 1024;

/// The number of times that the parser may ask whether to continue, about each hundred of its steps. It is
/// three times the need of ordinary code, which comes to 50 ms for the longest. Steps and not time, because
/// equal texts must have equal outlines.
const fn parse_steps_max(bytes: usize) -> usize {
    64 + bytes / 40
}

/// The same for the query.
const QUERY_STEPS_MAX: usize = 20_000;

/// The part of a text that may be broken.
const BROKEN_PERCENT_MAX: usize = 20;

/// The number of bare tokens a node may hold.
const TOKENS_MAX: usize = 4096;

/// The number of matches a query may keep open at once.
const OPEN_MATCHES_MAX: u32 = 4096;

/// A language that can be parsed.
struct Grammar {
    language: tree_sitter::Language,
    query: Query,
    name: u32,
    body: Option<u32>,
    doc: Option<u32>,
    /// The kind that a capture defines, by its number.
    kinds: Vec<Option<DefKind>>,
}

/// The items of a text; none if it cannot be parsed, or not well enough.
pub(super) fn parse(language: Language, text: &str) -> Option<Vec<OutlineItem>> {
    if text.len() > PARSE_BYTES_MAX {
        return None;
    }
    let grammar = grammar(language)?;
    let tree = tree(grammar, text)?;
    let broken = broken_bytes(tree.walk(), text.len() * BROKEN_PERCENT_MAX / 100);
    let is_sound = broken * 100 <= text.len() * BROKEN_PERCENT_MAX && !has_token_run(tree.walk());
    is_sound.then(|| items(grammar, language, &tree, text))
}

fn tree(grammar: &Grammar, text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&grammar.language).ok()?;
    let mut steps = 0;
    let mut go_on = |_: &tree_sitter::ParseState| go_on_below(parse_steps_max(text.len()), &mut steps);
    let bytes = text.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(ParseOptions::new().progress_callback(&mut go_on)))
}

fn go_on_below(steps_max: usize, steps: &mut usize) -> ControlFlow<()> {
    *steps += 1;
    if *steps > steps_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns the number of bytes that lie in errors; counting ends once there are more than `enough`.
fn broken_bytes(mut cursor: TreeCursor<'_>, enough: usize) -> usize {
    let mut broken = 0;
    loop {
        let node = cursor.node();
        let is_error = node.is_error();
        if is_error {
            broken += node.end_byte() - node.start_byte();
            if broken > enough {
                return broken;
            }
        }
        if !is_error && node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return broken;
            }
        }
    }
}

/// Returns whether a node has so many bare tokens below it that a query, which counts them again at each,
/// would not end in time. Examples are a table of data and a macro's arguments. No token is empty, so only
/// long nodes are visited.
fn has_token_run(mut cursor: TreeCursor<'_>) -> bool {
    loop {
        let node = cursor.node();
        let is_long = node.end_byte() - node.start_byte() > TOKENS_MAX;
        if is_long && node.child_count() as usize - node.named_child_count() > TOKENS_MAX {
            return true;
        }
        if is_long && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
        }
    }
}

fn items(grammar: &Grammar, language: Language, tree: &Tree, text: &str) -> Vec<OutlineItem> {
    let lines: Vec<&str> = text.lines().collect();
    let mut cursor = QueryCursor::new();
    cursor.set_match_limit(OPEN_MATCHES_MAX);
    let mut found: Vec<(usize, usize, OutlineItem)> = Vec::new();
    let mut steps = 0;
    let mut go_on = |_: &tree_sitter::QueryCursorState| go_on_below(QUERY_STEPS_MAX, &mut steps);
    let options = QueryCursorOptions::new().progress_callback(&mut go_on);
    let mut matches = cursor.matches_with_options(&grammar.query, tree.root_node(), text.as_bytes(), options);
    while let Some(one) = matches.next() {
        if let Some((start, item)) = item(grammar, language, one, text, &lines) {
            found.push((start, one.pattern_index, item));
        }
    }
    // Of two patterns that fit one node the first counts.
    found.sort_by(|a, b| (a.0, &a.2.name, a.1).cmp(&(b.0, &b.2.name, b.1)));
    found.dedup_by(|next, kept| next.0 == kept.0 && next.2.name == kept.2.name);
    let mut items: Vec<OutlineItem> = found.into_iter().map(|(_, _, item)| item).collect();
    items.sort_by_key(|item| item.line);
    // Two on one line are shown as one.
    items.dedup_by_key(|item| item.line);
    for place in 1..items.len() {
        let after_last = items[place - 1].line + 1;
        items[place].from = items[place].from.max(after_last);
    }
    items
}

fn item(
    grammar: &Grammar,
    language: Language,
    one: &QueryMatch<'_, '_>,
    text: &str,
    lines: &[&str],
) -> Option<(usize, OutlineItem)> {
    let node = |wanted: Option<u32>| -> Option<Node<'_>> {
        one.captures().iter().find(|capture| Some(capture.index) == wanted).map(|capture| capture.node)
    };
    let (def, kind) = one.captures().iter().find_map(|capture| {
        let kind = *grammar.kinds.get(capture.index as usize)?;
        kind.map(|kind| (capture.node, kind))
    })?;
    let name = node(Some(grammar.name))?;
    let line = line_of(name);
    let from = attached_from(language, lines, line_of(def));
    // The line's beginning may say more than the node: `export`, `pub`.
    let line_start = text[..def.start_byte()].rfind('\n').map_or(0, |at| at + 1);
    let body = node(grammar.body);
    let end = body.map_or(def.end_byte(), |body| body.start_byte());
    let doc = match node(grammar.doc) {
        Some(string) => doc_line(text[string.byte_range()].lines()),
        None => {
            let above = lines.get(from as usize - 1..line_of(def) as usize - 1).unwrap_or_default();
            doc_line(above.iter().copied().filter(|text| is_comment(language, text.trim())))
        }
    };
    let name = text[name.byte_range()].to_owned();
    let mut shown = &text[line_start..end];
    // A definition that opens a block without a body of its own, as an interface of Go does, is shown up to
    // the block.
    if let Some(first) =
        shown.lines().next().filter(|first| body.is_none() && first.trim_end().ends_with('{'))
    {
        shown = first;
    }
    let mut signature = signature(language, shown);
    if !signature.contains(&name) {
        signature = format!("{}{CUT} {name}", signature.trim_end_matches(CUT));
    }
    let item = OutlineItem { kind, name, line, from: from.min(line), to: last_line_of(def), signature, doc };
    Some((def.start_byte(), item))
}

fn line_of(node: Node<'_>) -> u32 {
    node.start_position().row as u32 + 1
}

/// A node that ends with the end of a line does not reach into the next.
fn last_line_of(node: Node<'_>) -> u32 {
    let end = node.end_position();
    let row = if end.column == 0 { end.row } else { end.row + 1 };
    (row as u32).max(line_of(node))
}

/// The grammar of a language, made when it is first needed.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others have no grammar here")]
fn grammar(language: Language) -> Option<&'static Grammar> {
    static RUST: OnceLock<Option<Grammar>> = OnceLock::new();
    static PYTHON: OnceLock<Option<Grammar>> = OnceLock::new();
    static JAVASCRIPT: OnceLock<Option<Grammar>> = OnceLock::new();
    static TYPESCRIPT: OnceLock<Option<Grammar>> = OnceLock::new();
    static TSX: OnceLock<Option<Grammar>> = OnceLock::new();
    static GO: OnceLock<Option<Grammar>> = OnceLock::new();
    static JAVA: OnceLock<Option<Grammar>> = OnceLock::new();
    static C: OnceLock<Option<Grammar>> = OnceLock::new();
    let typescript = include_str!("queries/typescript.scm");
    let (kept, tables, query) = match language {
        Language::Rust => (&RUST, tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm")),
        Language::Python => (&PYTHON, tree_sitter_python::LANGUAGE, include_str!("queries/python.scm")),
        Language::JavaScript => {
            (&JAVASCRIPT, tree_sitter_javascript::LANGUAGE, include_str!("queries/javascript.scm"))
        }
        Language::TypeScript => (&TYPESCRIPT, tree_sitter_typescript::LANGUAGE_TYPESCRIPT, typescript),
        Language::Tsx => (&TSX, tree_sitter_typescript::LANGUAGE_TSX, typescript),
        Language::Go => (&GO, tree_sitter_go::LANGUAGE, include_str!("queries/go.scm")),
        Language::Java => (&JAVA, tree_sitter_java::LANGUAGE, include_str!("queries/java.scm")),
        Language::C => (&C, tree_sitter_c::LANGUAGE, include_str!("queries/c.scm")),
        _ => return None,
    };
    kept.get_or_init(|| Grammar::new(tables.into(), query).ok()).as_ref()
}

impl Grammar {
    fn new(language: tree_sitter::Language, query: &str) -> Result<Grammar, tree_sitter::QueryError> {
        let query = Query::new(&language, query)?;
        let kinds = query.capture_names().iter().map(|name| kind_of(name)).collect();
        let name = query.capture_index_for_name("name").unwrap_or(u32::MAX);
        let (body, doc) = (query.capture_index_for_name("body"), query.capture_index_for_name("doc"));
        Ok(Grammar { language, query, name, body, doc, kinds })
    }
}

/// Returns the kind that `def.fn` and the like define.
fn kind_of(capture: &str) -> Option<DefKind> {
    let kind = match capture.strip_prefix("def.")? {
        "fn" => DefKind::Function,
        "class" => DefKind::Class,
        "struct" => DefKind::Struct,
        "enum" => DefKind::Enum,
        "trait" => DefKind::Trait,
        "interface" => DefKind::Interface,
        "type" => DefKind::Type,
        "mod" => DefKind::Module,
        "macro" => DefKind::Macro,
        "const" => DefKind::Constant,
        "var" => DefKind::Variable,
        "impl" => DefKind::Impl,
        _ => return None,
    };
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_fits_its_grammar() {
        let languages = [
            Language::Rust,
            Language::Python,
            Language::JavaScript,
            Language::TypeScript,
            Language::Tsx,
            Language::Go,
            Language::Java,
            Language::C,
        ];
        for language in languages {
            assert!(grammar(language).is_some(), "{language:?}");
        }
        for (language, query) in [
            (tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm")),
            (tree_sitter_python::LANGUAGE, include_str!("queries/python.scm")),
            (tree_sitter_javascript::LANGUAGE, include_str!("queries/javascript.scm")),
            (tree_sitter_typescript::LANGUAGE_TSX, include_str!("queries/typescript.scm")),
            (tree_sitter_go::LANGUAGE, include_str!("queries/go.scm")),
            (tree_sitter_java::LANGUAGE, include_str!("queries/java.scm")),
            (tree_sitter_c::LANGUAGE, include_str!("queries/c.scm")),
        ] {
            let made = Grammar::new(language.into(), query);
            let made = made.unwrap_or_else(|why| panic!("{why}"));
            assert!(made.name != u32::MAX && made.kinds.iter().any(Option::is_some));
        }
    }

    #[test]
    fn a_long_or_broken_text_is_not_parsed() {
        let long = "fn a() {}\n".repeat(26_215);
        assert!(parse(Language::Rust, &long[..PARSE_BYTES_MAX]).is_some());
        assert_eq!(parse(Language::Rust, &long[..=PARSE_BYTES_MAX]), None);
        assert_eq!(parse(Language::Rust, ")))) ]]]] ???? fn {{{{ (((( ;;;; <<<<"), None);
        assert_eq!(parse(Language::Text, "fn a() {}"), None);
        assert_eq!(parse(Language::Rust, ""), Some(Vec::new()));
    }

    #[test]
    fn any_nesting_comes_to_an_end() {
        let deep = format!("fn a() {{ {} {} }}\n", "(".repeat(100_000), ")".repeat(100_000));
        let _ = parse(Language::Rust, &deep);
        let open = "{".repeat(200_000);
        let _ = parse(Language::JavaScript, &open);
        let _ = parse(Language::C, &open);
    }
}
