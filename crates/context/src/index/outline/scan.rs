//! Outlines from the scanner's definitions: the line of each, or the heading and its first sentence.

use domain::text::first_bytes;

use super::signature::{doc_line, is_comment, signature};
use super::{OutlineItem, SENTENCE_BYTES_MAX};
use crate::index::language::FileKind;
use crate::index::{Def, Facts, Language, LineIndex};

/// The scanner's definitions as items; those that the text no longer has are left out.
pub(super) fn items(lines: &LineIndex, facts: &Facts) -> Vec<OutlineItem> {
    let last = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let there = facts.defs().iter().filter(|def| def.line <= last);
    there.map(|def| item(def, lines, facts)).collect()
}

fn item(def: &Def, lines: &LineIndex, facts: &Facts) -> OutlineItem {
    let (start, line) = (def.start as usize, def.line as usize);
    let end = (def.end as usize).min(lines.len());
    let between = |from: usize, to: usize| (from..=to).filter_map(|number| lines.get(number));
    let doc = match facts.language.kind() {
        FileKind::Code => {
            let comment = between(start, line - 1);
            doc_line(comment.filter(|text| is_comment(facts.language, text.trim())))
        }
        FileKind::Doc => sentence(between(line + 1, end)),
        FileKind::Config | FileKind::Text => None,
    };
    OutlineItem {
        kind: def.kind,
        name: def.name.to_string(),
        line: def.line,
        from: def.start,
        to: end as u32,
        signature: of_lines(facts.language, between(line, end)),
        doc,
    }
}

/// The line of the definition, and those after it while its parentheses are open.
fn of_lines<'a>(language: Language, lines: impl Iterator<Item = &'a str>) -> String {
    let mut depth = 0_i32;
    let mut taken = String::new();
    for line in lines {
        if !taken.is_empty() {
            taken.push('\n');
        }
        taken.push_str(line);
        depth += line.matches('(').count() as i32 - line.matches(')').count() as i32;
        if depth <= 0 {
            break;
        }
    }
    signature(language, &taken)
}

/// The first sentence below a heading.
fn sentence<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let is_said = |line: &&str| line.chars().any(char::is_alphanumeric) && !line.trim().starts_with("```");
    let line = lines.find(is_said)?.trim();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    Some(first_bytes(&line[..end], SENTENCE_BYTES_MAX).to_owned())
}
