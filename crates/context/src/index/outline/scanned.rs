//! Outlines from the scanner's definitions: the line of each, or the heading and its first sentence.

use super::super::language::FileKind;
use super::super::{Def, Facts, Language};
use super::signature::{cut, doc_line, is_comment, signature};
use super::{Item, SENTENCE_BYTES_MAX};

/// The scanner's definitions as items; those that the text no longer has are left out.
pub(super) fn items(text: &str, facts: &Facts) -> Vec<Item> {
    let lines: Vec<&str> = text.lines().collect();
    let last = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    let there = facts.defs.iter().filter(|def| def.line <= last);
    there.map(|def| item(def, &lines, facts)).collect()
}

fn item(def: &Def, lines: &[&str], facts: &Facts) -> Item {
    let (start, line) = (def.start as usize, def.line as usize);
    let end = (def.end as usize).min(lines.len());
    let doc = match facts.language.kind() {
        FileKind::Code => {
            let comment = lines[start - 1..line - 1].iter().copied();
            doc_line(comment.filter(|text| is_comment(facts.language, text.trim())))
        }
        FileKind::Doc => sentence(&lines[line..end]),
        FileKind::Config | FileKind::Text => None,
    };
    Item {
        kind: def.kind,
        name: def.name.to_string(),
        line: def.line,
        from: def.start,
        to: end as u32,
        signature: of_lines(facts.language, &lines[line - 1..end]),
        doc,
    }
}

/// The line of the definition, and those after it while its parentheses are open.
fn of_lines(language: Language, lines: &[&str]) -> String {
    let mut depth = 0_i32;
    let mut taken = 0;
    for line in lines {
        taken += 1;
        depth += line.matches('(').count() as i32 - line.matches(')').count() as i32;
        if depth <= 0 {
            break;
        }
    }
    signature(language, &lines[..taken].join("\n"))
}

/// The first sentence below a heading.
fn sentence(lines: &[&str]) -> Option<String> {
    let is_said = |line: &&&str| line.chars().any(char::is_alphanumeric) && !line.trim().starts_with("```");
    let line = lines.iter().find(is_said)?.trim();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    Some(cut(&line[..end], SENTENCE_BYTES_MAX).to_owned())
}
