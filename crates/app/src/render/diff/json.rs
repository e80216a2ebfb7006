//! A plan's changes as programs read them.
//!
//! # Invariants
//! 1. Each recorded change is a file of its own: a rename that was found is a field of both its ends.
//! 2. A name that is not UTF-8 is given exactly, in addition to the form for people.

use domain::{Base, CaptureOmissions, ChangeOp, FileState, Hunk, HunkAddress, LineTag, RelPath};
use engine::{FileDiff, UnreadContent};
use serde_json::{Value, json};

use super::{DiffSum, ShownDiff, kind_word};

/// Returns the sum of all changes, for programs.
pub fn summary_json(sum: &DiffSum, not_captured: &CaptureOmissions) -> Value {
    json!({
        "files": sum.files, "insertions": sum.insertions, "deletions": sum.deletions, "not_captured": not_captured,
        "renames": sum.renames, "redacted": !sum.redacted.is_empty(),
    })
}

/// All changes as programs read them.
#[cfg(test)]
pub fn to_json(plan: &str, files: &[ShownDiff<'_>], not_captured: &CaptureOmissions) -> Value {
    json!({
        "plan": plan,
        "summary": summary_json(&DiffSum::new(files), not_captured),
        "files": files.iter().map(file_json).collect::<Vec<_>>(),
    })
}

/// One file as programs read it.
pub fn file_json(shown: &ShownDiff<'_>) -> Value {
    let file = &*shown.file;
    let change = &file.change;
    let text = |path: &RelPath| String::from_utf8_lossy(path.as_bytes()).into_owned();
    let mode = |state: &Option<FileState>| state.map(|state| format!("{:04o}", state.mode));
    let kind = change.after.or(change.before).map(|state| kind_word(state.kind));
    let mut value = json!({
        "project": file.alias, "path": text(&change.path), "from": change.from.as_ref().map(text),
        "address": file.address, "op": op_word(file), "kind": kind,
        "mode_before": mode(&change.before), "mode_after": mode(&change.after), "binary": file.binary,
        "unread": match file.unread { UnreadContent::Nothing => None, UnreadContent::Base => Some("before"), UnreadContent::Content => Some("after") },
        "insertions": file.lines.insertions, "deletions": file.lines.deletions,
        "base": match change.base { Base::Known => "known", Base::Moved => "moved" },
        "calls": change.calls, "redacted": shown.is_redacted, "rename": null,
        "hunks": shown.hunks.iter().map(|hunk| hunk_json(file, hunk)).collect::<Vec<_>>(),
    });
    if std::str::from_utf8(change.path.as_bytes()).is_err() {
        value["path_b64"] = base64(change.path.as_bytes()).into();
    }
    value
}

/// The end of a rename that a file is, and the address of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenameOtherEnd {
    /// True if the file is the old one.
    pub is_source: bool,
    /// The address of the other end.
    pub address: String,
    /// The share of the content that is the same, in percent.
    pub similarity: u8,
}

impl RenameOtherEnd {
    /// For programs.
    pub fn to_json(&self) -> Value {
        let (from, to) =
            if self.is_source { (None, Some(&self.address)) } else { (Some(&self.address), None) };
        json!({ "from": from, "to": to, "similarity": self.similarity })
    }
}

fn op_word(file: &FileDiff) -> &'static str {
    let change = &file.change;
    let op = match (&change.from, &change.before, &change.after) {
        (Some(from), ..) => ChangeOp::Rename { from: from.clone() },
        (None, None, _) => ChangeOp::Create,
        (None, Some(_), None) => ChangeOp::Delete,
        (None, Some(before), Some(after)) if before.hash == after.hash && before.kind == after.kind => {
            ChangeOp::Mode
        }
        (None, Some(_), Some(_)) => ChangeOp::Modify,
    };
    match op {
        ChangeOp::Create => "create",
        ChangeOp::Modify => "modify",
        ChangeOp::Delete => "delete",
        ChangeOp::Rename { .. } => "rename",
        ChangeOp::Mode => "mode",
    }
}

fn hunk_json(file: &FileDiff, hunk: &Hunk) -> Value {
    let line = |line: &domain::HunkLine| {
        let sign = match line.tag {
            LineTag::Context => ' ',
            LineTag::Removed => '-',
            LineTag::Added => '+',
        };
        format!("{sign}{}", String::from_utf8_lossy(&line.bytes))
    };
    json!({
        "id": HunkAddress::new(&file.address, hunk.number).to_string(), "old_start": hunk.old_start, "old_lines": hunk.old_lines,
        "new_start": hunk.new_start, "new_lines": hunk.new_lines,
        "lines": hunk.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = BASE64[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_told_in_base_64() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
