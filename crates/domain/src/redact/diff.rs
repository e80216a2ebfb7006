//! Hunks without the secrets in their lines.

use std::borrow::Cow;

use crate::change::net::NetChange;
use crate::diff::lines::split_lines;
use crate::diff::{Hunk, HunkLine, LineTag};

use super::{MarkLayout, Redactor, text_of};

impl Redactor {
    /// Redacts the lines of `hunks` of `change`, whose contents are `before` and `after`, and says whether
    /// there was a secret in any. Secrets are found in the whole contents, so that those are seen too that
    /// begin outside of a hunk. Each hunk retains its lines, however many a secret has.
    pub fn redact_hunks(
        &self,
        change: &NetChange,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
        hunks: &mut [Hunk],
    ) -> bool {
        let old_path = change.from.as_ref().unwrap_or(&change.path);
        let redact =
            |path, content| self.redact_text(content, text_of(path), MarkLayout::Kept, &mut |_, _| {});
        let old = before.map(|before| redact(old_path, before)).unwrap_or(Cow::Borrowed(b""));
        let new = after.map(|after| redact(&change.path, after)).unwrap_or(Cow::Borrowed(b""));
        if matches!((&old, &new), (Cow::Borrowed(_), Cow::Borrowed(_))) {
            return false;
        }
        let (old, new) = (split_lines(&old), split_lines(&new));
        let mut found = false;
        for hunk in hunks {
            let mut old = old.iter().skip(begin(hunk.old_start, hunk.old_lines));
            let mut new = new.iter().skip(begin(hunk.new_start, hunk.new_lines));
            for line in &mut hunk.lines {
                found |= match line.tag {
                    LineTag::Removed => replace(line, old.next()),
                    LineTag::Added => replace(line, new.next()),
                    // The text around a line may show a secret on one side only.
                    LineTag::Context => {
                        let (old, new) = (old.next(), new.next());
                        replace(line, old.filter(|old| ***old != *line.bytes).or(new))
                    }
                };
            }
        }
        found
    }
}

/// Returns the number of lines above the hunk.
fn begin(start: u32, lines: u32) -> usize {
    if lines == 0 { start as usize } else { start.saturating_sub(1) as usize }
}

fn replace(line: &mut HunkLine, shown: Option<&&[u8]>) -> bool {
    match shown {
        Some(shown) if **shown != *line.bytes => {
            line.bytes = shown.to_vec();
            true
        }
        Some(_) | None => false,
    }
}
