//! A plan's changes as a patch, a list or a page for people; as programs read them: `json`.
//!
//! # Invariants
//! 1. The plain form is a patch that `git apply` takes. Where a secret was taken out of it, it warns and is
//!    made so that git refuses it. A mark must never be applied in place of a secret.
//! 2. A hunk has the same address whether secrets are shown or not, unless the name of its file is one.
//! 3. A note says that a file that changed in the user's tree while the plan ran is compared with the user's.
//!    The content that the plan had found is unknown.
//! 4. A rename that was found among deletions and additions is shown as one file. It is chosen by the two
//!    files that were recorded, so its hunks have no addresses.
//! 5. A patch of a plan with several projects has the project's name as the first directory of each path.
//!    `git apply -p2` takes it away, and no other project has such a file.
//! 6. Only the plain form holds bytes of files as they are; what a terminal shows has its control characters
//!    escaped.
//!
//! # Not here
//! The list of secrets: the caller passes a function that takes them out.

mod json;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use domain::{
    Base, CaptureOmissions, ChangeChoice, FileState, Hunk, HunkAddress, HunkLine, HunkPart, Kind, LineTag,
    NetChange, OmissionKind, PatchOptions, RelPath, TEXT_BYTES_MAX, selectable_lines, unified_with,
};
use engine::{FileDiff, UnreadContent};

use crate::output::{OutputStyle, Paint, escape_control_bytes};
use crate::tui::review::{ReviewFile, ReviewHunk, ReviewLine};

#[cfg(test)]
pub use json::to_json;
pub use json::{RenameOtherEnd, file_json, summary_json};

/// The placeholder for lines of which not even the length may be shown.
const WITHHELD: &[u8] = b"[REDACTED]\n";
/// Git takes no patch with such a line where a hunk should begin.
const UNAPPLIABLE: &[u8] = b"@@ redacted: see it with --reveal @@\n";

/// Said of a file that changed in the user's tree meanwhile, where there is little place.
const MOVED: &str = "  (changed in your tree while the plan ran)";
/// The place for the numbers of a few hunks behind a name: `#1-9`.
const HUNK_NUMBERS_WIDTH: usize = 4;
/// Replaces a name that cannot be shown at all.
const WITHHELD_NAME: &str = "[REDACTED]";

/// Takes the secrets out of a content of the file at a path, or of a line of it.
pub type Redact<'a> = dyn Fn(&RelPath, &[u8]) -> Vec<u8> + 'a;

/// A file's change, ready to be shown.
#[derive(Clone, Debug)]
pub struct ShownDiff<'a> {
    file: Cow<'a, FileDiff>,
    /// The address of the file, its secrets included, by which it is chosen.
    address: &'a str,
    hunks: Cow<'a, [Hunk]>,
    is_redacted: bool,
    /// The similarity of both ends in percent, if it is a rename that was found and not recorded.
    similarity: Option<u8>,
}

impl<'a> ShownDiff<'a> {
    /// The same as a rename that was found among a deletion and an addition.
    pub fn as_rename(self, similarity: u8) -> Self {
        Self { similarity: Some(similarity), ..self }
    }

    /// The change with its secrets.
    pub fn revealed(file: &'a FileDiff) -> Self {
        let hunks = Cow::Borrowed(&file.hunks[..]);
        let address = &file.address;
        Self { file: Cow::Borrowed(file), address, hunks, is_redacted: false, similarity: None }
    }

    /// The change without its secrets.
    pub fn redacted(file: &'a FileDiff, redact: &Redact<'_>) -> Self {
        let (path, address) = (&file.change.path, file.address.as_str());
        let named = without_secret_names(file, redact);
        let from = file.change.from.as_ref().unwrap_or(path);
        let (before, after) =
            (VisibleLines::new(&file.before, from, redact), VisibleLines::new(&file.after, path, redact));
        if before.is_clear() && after.is_clear() {
            let is_redacted = named.is_some();
            let shown = named.map_or(Cow::Borrowed(file), Cow::Owned);
            let hunks = Cow::Borrowed(&file.hunks[..]);
            return Self { file: shown, address, hunks, is_redacted, similarity: None };
        }
        let mut hunks = file.hunks.clone();
        let mut is_redacted = named.is_some();
        for line in hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
            let sight = match line.tag {
                LineTag::Removed => &before,
                LineTag::Context | LineTag::Added => &after,
            };
            if !sight.shows(&line.bytes) {
                line.bytes = hidden(&line.bytes, path, redact);
                is_redacted = true;
            }
        }
        let shown = named.map_or(Cow::Borrowed(file), Cow::Owned);
        Self { file: shown, address, hunks: Cow::Owned(hunks), is_redacted, similarity: None }
    }
}

/// The file with marks in place of secrets in its names; none when there are none in them.
fn without_secret_names(file: &FileDiff, redact: &Redact<'_>) -> Option<FileDiff> {
    // A name is text like any other, whatever its file holds.
    let plain = RelPath::new("name").ok()?;
    let shown = |name: &[u8]| redact(&plain, name);
    let change = &file.change;
    let has_secret = |path: &RelPath| shown(path.as_bytes()) != path.as_bytes();
    if !has_secret(&change.path) && !change.from.as_ref().is_some_and(has_secret) {
        return None;
    }
    let withheld = RelPath::new(WITHHELD_NAME).ok()?;
    let path = |path: &RelPath| RelPath::new(shown(path.as_bytes())).unwrap_or_else(|_| withheld.clone());
    let change =
        NetChange { path: path(&change.path), from: change.from.as_ref().map(path), ..change.clone() };
    let address = String::from_utf8_lossy(&shown(file.address.as_bytes())).into_owned();
    Some(FileDiff { change, address, ..file.clone() })
}

/// The lines of a content that may be seen. A secret may span lines, so the content is redacted whole, and
/// the lines that are left may be seen.
struct VisibleLines {
    /// None when there is no secret in it.
    left: Option<HashSet<Vec<u8>>>,
}

impl VisibleLines {
    fn new(content: &Option<Vec<u8>>, path: &RelPath, redact: &Redact<'_>) -> Self {
        let redacted = content.as_ref().map(|content| (content, redact(path, content)));
        let changed = redacted.filter(|(content, redacted)| *content != redacted);
        let lines = |text: Vec<u8>| text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        Self { left: changed.map(|(_, redacted)| lines(redacted)) }
    }

    fn is_clear(&self) -> bool {
        self.left.is_none()
    }

    fn shows(&self, line: &[u8]) -> bool {
        self.left.as_ref().is_none_or(|left| left.contains(line))
    }
}

/// The line with a mark in place of its secret; nothing of it, when only the lines around it tell that it is
/// one.
fn hidden(line: &[u8], path: &RelPath, redact: &Redact<'_>) -> Vec<u8> {
    let mut marked = redact(path, line);
    if marked == line {
        return WITHHELD.to_vec();
    }
    if line.ends_with(b"\n") && !marked.ends_with(b"\n") {
        marked.push(b'\n');
    }
    marked
}

/// The patch of one file.
pub fn patch_of(file: &ShownDiff<'_>) -> Vec<u8> {
    let shown = &*file.file;
    let directory = shown.is_of_several.then_some(shown.alias.as_str());
    let options = PatchOptions { directory, similarity: file.similarity };
    let part = said_unread(unified_with(&shown.change, &file.hunks, &options), shown);
    let part = if file.is_redacted { unappliable(&part) } else { part };
    match moved_words(&file.file) {
        // Git passes over what is before the head of a file.
        Some(words) if !part.is_empty() => [format!("# {words}\n").as_bytes(), &part].concat(),
        Some(_) | None => part,
    }
}

/// Returns the base of the comparison, if the file changed in the user's tree meanwhile.
fn moved_words(file: &FileDiff) -> Option<String> {
    let is_moved = is_moved(file);
    is_moved.then(|| {
        let name = escape_control_bytes(file.address.as_bytes());
        format!("{name} changed in your tree while the plan ran: this compares the plan's file with yours, so lines that you added are shown as removed")
    })
}

/// Returns true if the file changed in the user's tree while the plan ran.
fn is_moved(file: &FileDiff) -> bool {
    match (file.change.base, file.unread) {
        (Base::Moved, UnreadContent::Nothing) => true,
        // Nothing is compared with what could not be read, and it is said.
        (Base::Moved, UnreadContent::Base | UnreadContent::Content) | (Base::Known, _) => false,
    }
}

/// The patch of a file that could not be read says so, where else it would say that the file is binary.
fn said_unread(part: Vec<u8>, file: &FileDiff) -> Vec<u8> {
    let Some(words) = unread_words(file) else { return part };
    let mut text = Vec::with_capacity(part.len());
    for line in part.split_inclusive(|byte| *byte == b'\n') {
        match line.starts_with(b"Binary files ") {
            true => text.extend_from_slice(format!("# {words}\n").as_bytes()),
            false => text.extend_from_slice(line),
        }
    }
    text
}

/// The patch with every hunk's head replaced by one that git refuses.
fn unappliable(part: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(part.len());
    let mut has_hunks = false;
    for line in part.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"@@ -") {
            text.extend_from_slice(UNAPPLIABLE);
            has_hunks = true;
        }
        text.extend_from_slice(line);
    }
    if !has_hunks && !text.is_empty() {
        text.extend_from_slice(UNAPPLIABLE);
        text.extend_from_slice(b"@@ -1 +1 @@\n");
    }
    text
}

/// Its name alone, on a line.
pub fn name_of(file: &ShownDiff<'_>) -> String {
    format!("{}\n", file.file.address)
}

/// A line for one file, its address in a column of this width. With several hunks, their numbers follow it:
/// `src/lib.rs#1-3`, as `--only`, `--reject` and `--take` read it.
pub fn stat_of(file: &ShownDiff<'_>, width: usize, style: &OutputStyle) -> String {
    let lines = match unread_words(&file.file) {
        Some(words) => words.to_owned(),
        None if file.file.binary => without_lines(&file.file).to_owned(),
        None => counts(&file.file, style.paint),
    };
    let moved = if is_moved(&file.file) { MOVED } else { "" };
    let similar = file.similarity.map(|percent| format!("  ({percent}% the same)")).unwrap_or_default();
    let numbers = match file.hunks.last() {
        Some(last) if last.number > 1 && file.similarity.is_none() => format!("#1-{}", last.number),
        Some(_) | None => String::new(),
    };
    let name = format!("{}{numbers}", label(&file.file));
    format!("{}  {name:width$}  {lines}{similar}{moved}\n", letter(&file.file))
}

/// Returns the reason why a file is shown without lines.
fn without_lines(file: &FileDiff) -> &'static str {
    let is_long = |state: &FileState| state.size > TEXT_BYTES_MAX;
    let states = [&file.change.before, &file.change.after];
    if states.into_iter().flatten().any(is_long) { "over 4 MiB, no lines shown" } else { "binary" }
}

/// Returns the width of the column of names.
pub fn stat_width<'a>(changes: impl Iterator<Item = (&'a NetChange, String)>) -> usize {
    let width = |change: &NetChange, address: &str| {
        let has_lines = |state: Option<FileState>| state.is_some_and(|state| state.text);
        let may_have_hunks = has_lines(change.before) && has_lines(change.after);
        label_of(change, address).chars().count() + if may_have_hunks { HUNK_NUMBERS_WIDTH } else { 0 }
    };
    changes.map(|(change, address)| width(change, &address)).max().unwrap_or(0)
}

fn label(file: &FileDiff) -> String {
    label_of(&file.change, &file.address)
}

fn label_of(change: &NetChange, address: &str) -> String {
    match &change.from {
        Some(from) => format!("{from} -> {address}"),
        None => address.to_owned(),
    }
}

fn counts(file: &FileDiff, paint: Paint) -> String {
    let (added, removed) = (format!("+{}", file.lines.insertions), format!("-{}", file.lines.deletions));
    format!("{} {}", paint.green(&added), paint.red(&removed))
}

/// The sum of many changes, added up one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffSum {
    /// The number of files.
    pub files: usize,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// The number of renames among the files.
    pub renames: usize,
    /// The files that secrets were taken out of.
    pub redacted: Vec<String>,
}

impl DiffSum {
    /// Returns the sum of these files.
    #[cfg(test)]
    pub fn new(files: &[ShownDiff<'_>]) -> Self {
        let mut sum = Self::default();
        files.iter().for_each(|file| sum.add(file));
        sum
    }

    /// Adds a file.
    pub fn add(&mut self, file: &ShownDiff<'_>) {
        self.files += 1;
        self.renames += usize::from(file.file.change.from.is_some());
        self.insertions += file.file.lines.insertions;
        self.deletions += file.file.lines.deletions;
        self.redacted.extend(file.is_redacted.then(|| file.file.address.clone()));
    }

    /// On one line.
    pub fn line(&self) -> String {
        let renamed = if self.renames > 0 { format!("  ({} renamed)", self.renames) } else { String::new() };
        format!("{}  +{} -{}{renamed}\n", counted(self.files, "file"), self.insertions, self.deletions)
    }
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Returns a line about files that capture left out; empty if there are none.
pub fn left_out_line(not_captured: &CaptureOmissions) -> String {
    let CaptureOmissions { scratch, protected, special, patterns_left_out, .. } = not_captured;
    let parts: Vec<String> = [(scratch, "scratch"), (protected, "protected"), (special, "special")]
        .into_iter()
        .filter(|(count, _)| **count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut text =
        if parts.is_empty() { String::new() } else { format!("not captured: {}\n", parts.join(", ")) };
    if *patterns_left_out {
        text.push_str("too many ignore patterns: those beyond 20,000 or 1 MiB of the project, and long ones, are not used\n");
    }
    for line in left_out_parts(not_captured) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// Returns the files that capture left out whole, a line for each kind, with some by name.
pub fn left_out_files(not_captured: &CaptureOmissions) -> String {
    let kinds = [
        (OmissionKind::Scratch, not_captured.scratch, "scratch"),
        (OmissionKind::Protected, not_captured.protected, "protected"),
        (OmissionKind::Special, not_captured.special, "special"),
    ];
    let mut text = String::new();
    for (kind, count, word) in kinds {
        let named = not_captured.named.iter().filter(|part| part.kind == kind);
        let names: Vec<String> = named.map(|part| escape_control_bytes(part.path.as_bytes())).collect();
        let more = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(names.len());
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        if !names.is_empty() {
            text.push_str(&format!("  {word}: {}{rest}\n", names.join(", ")));
        }
    }
    text
}

/// Returns the parts that capture left out of captured files, a line for each kind, with some by name.
pub fn left_out_parts(not_captured: &CaptureOmissions) -> Vec<String> {
    let kinds = [
        (OmissionKind::SetId, not_captured.set_id, "set-id bit"),
        (OmissionKind::Attribute, not_captured.attributes, "extended attribute"),
        (OmissionKind::HardLink, not_captured.hard_links, "hard link"),
        (OmissionKind::Repository, not_captured.repository, "new repository file"),
        (OmissionKind::RootMode, not_captured.root_modes, "project directory mode"),
    ];
    let line = |(kind, count, noun): (OmissionKind, u64, &str)| {
        let named = not_captured.named.iter().filter(|part| part.kind == kind);
        let names: Vec<String> = named
            .map(|part| {
                let (path, what) =
                    (escape_control_bytes(part.path.as_bytes()), escape_control_bytes(part.what.as_bytes()));
                match kind {
                    OmissionKind::SetId => format!("{path} (was {what})"),
                    OmissionKind::Attribute => format!("{path} {what}"),
                    OmissionKind::HardLink => format!("{path} (a copy of {what})"),
                    OmissionKind::Scratch
                    | OmissionKind::Protected
                    | OmissionKind::Special
                    | OmissionKind::Repository => path,
                    OmissionKind::RootMode => format!("{path} (was {what})"),
                }
            })
            .collect();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let more = count.saturating_sub(names.len());
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} left out: {}{rest}", counted(count, noun), names.join(", "))
    };
    kinds.into_iter().filter(|(_, count, _)| *count > 0).map(line).collect()
}

/// Returns a warning about files that have other names; `None` if there are none.
pub fn linked_warning(linked: &[String], through: bool) -> Option<String> {
    if linked.is_empty() {
        return None;
    }
    let names = escape_control_bytes(linked.join(", ").as_bytes());
    Some(match through {
        true => format!("hard links are written through, wherever their other names are: {names}"),
        false => format!(
            "hard links get a file of their own, and their other names keep the old content: {names}; to change all names add \
             `--through-links` to `plan apply`"
        ),
    })
}

/// Returns the kind of the change, in a letter.
pub fn letter(file: &FileDiff) -> char {
    match (&file.change.before, &file.change.after, &file.change.from) {
        (_, _, Some(_)) => 'R',
        (None, _, None) => 'A',
        (Some(_), None, None) => 'D',
        (Some(_), Some(_), None) => 'M',
    }
}

/// A file for a person at a terminal, each hunk with the address that `--only` and `--reject` take.
pub fn page_of(file: &ShownDiff<'_>, style: &OutputStyle) -> String {
    let paint = style.paint;
    let head = format!("{} {}", letter(&file.file), label(&file.file));
    let mut text = format!("{}  {}\n", paint.bold(&head), counts(&file.file, paint));
    if let Some(words) = moved_words(&file.file) {
        text.push_str(&format!("{}\n", paint.yellow(&words)));
    }
    if let (Some(percent), Some(from)) = (file.similarity, &file.file.change.from) {
        let from = from_address(&file.file, from);
        let words = format!("{percent}% the same; choose it by both names: {from}, {}", file.file.address);
        text.push_str(&format!("{}\n", paint.cyan(&words)));
    }
    for hunk in file.hunks.iter() {
        let head = match file.similarity {
            Some(_) if hunk.part == HunkPart::Whole => continue,
            Some(_) => hunk_title(&file.file, hunk),
            None => hunk_head(&file.file, hunk),
        };
        text.push_str(&format!("{}\n", paint.cyan(&head)));
        for line in &hunk.lines {
            let shown = escape_control_bytes(line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes));
            text.push_str(&match line.tag {
                LineTag::Context => format!("   {shown}\n"),
                LineTag::Removed => format!("{}\n", paint.red(&format!("  -{shown}"))),
                LineTag::Added => format!("{}\n", paint.green(&format!("  +{shown}"))),
            });
        }
    }
    text.push('\n');
    text
}

/// The address of the file that was renamed.
fn from_address(file: &FileDiff, from: &RelPath) -> String {
    if file.is_of_several { format!("{}:{from}", file.alias) } else { from.to_string() }
}

fn hunk_head(file: &FileDiff, hunk: &Hunk) -> String {
    format!("{}  {}", HunkAddress::new(&file.address, hunk.number), hunk_title(file, hunk))
}

fn hunk_title(file: &FileDiff, hunk: &Hunk) -> String {
    match hunk.part {
        HunkPart::Lines => {
            format!("@@ -{},{} +{},{} @@", hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
        }
        HunkPart::Mode => mode_title(file),
        HunkPart::Whole => match (&file.change.before, &file.change.after) {
            _ if file.unread != UnreadContent::Nothing => {
                let (before, after) = (size(&file.change.before), size(&file.change.after));
                format!("{}, {before} -> {after}", unread_words(file).unwrap_or_default())
            }
            _ if file.binary => {
                let (before, after) = (size(&file.change.before), size(&file.change.after));
                format!("{}, {before} -> {after}", without_lines(file))
            }
            (None, Some(after)) => format!("new {}{}", kind_word(after.kind), unusual_mode(after)),
            (Some(before), None) => format!("deleted {}", kind_word(before.kind)),
            (Some(before), Some(after)) if before.mode != after.mode && before.hash == after.hash => {
                mode_title(file)
            }
            (Some(_), Some(_)) if file.change.from.is_some() => "moved".to_owned(),
            (Some(before), Some(after)) => format!("{} -> {}", kind_word(before.kind), kind_word(after.kind)),
            (None, None) => "nothing".to_owned(),
        },
    }
}

/// Returns the part of the file that could not be read, in words; `None` if all was read.
fn unread_words(file: &FileDiff) -> Option<&'static str> {
    match file.unread {
        UnreadContent::Nothing => None,
        UnreadContent::Base => Some("the content before cannot be read"),
        UnreadContent::Content => Some("the content after cannot be read"),
    }
}

fn mode_title(file: &FileDiff) -> String {
    let mode = |state: &Option<FileState>| state.map_or(0, |state| state.mode);
    format!("mode {:04o} -> {:04o}", mode(&file.change.before), mode(&file.change.after))
}

/// The mode of something new, where it is not what one would expect.
fn unusual_mode(state: &FileState) -> String {
    let is_usual = match state.kind {
        Kind::File => matches!(state.mode, 0o644 | 0o664 | 0o755 | 0o775),
        Kind::Dir => matches!(state.mode, 0o755 | 0o775),
        Kind::Symlink => true,
    };
    if is_usual { String::new() } else { format!(", mode {:04o}", state.mode) }
}

fn size(state: &Option<FileState>) -> String {
    state.map_or_else(|| "none".to_owned(), |state| format!("{} bytes", state.size))
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Symlink => "link",
        Kind::Dir => "directory",
    }
}

/// The changes for a review by hand.
pub fn to_review(files: &[ShownDiff<'_>]) -> Vec<ReviewFile> {
    let review = |shown: &ShownDiff<'_>| {
        let lines = selectable_lines(&shown.file.change, &shown.hunks);
        let hunks = shown.hunks.iter().zip(&lines);
        ReviewFile {
            address: shown.address.to_owned(),
            name: escape_control_bytes(shown.file.address.as_bytes()),
            letter: letter(&shown.file),
            insertions: shown.file.lines.insertions,
            deletions: shown.file.lines.deletions,
            hunks: hunks.map(|(hunk, lines)| review_hunk(shown, hunk, *lines)).collect(),
            choice: ChangeChoice::new(&lines, true),
            conflicts: Vec::new(),
            wins: BTreeSet::new(),
            notes: Vec::new(),
        }
    };
    files.iter().map(review).collect()
}

fn review_hunk(shown: &ShownDiff<'_>, hunk: &Hunk, lines: u32) -> ReviewHunk {
    let (mut old, mut new, mut number) = (hunk.old_start, hunk.new_start, 0);
    let line = |line: &HunkLine| {
        let text = escape_control_bytes(line.bytes.strip_suffix(b"\n").unwrap_or(&line.bytes));
        let (mut line_old, mut line_new, mut line_number) = (0, 0, 0);
        if line.tag != LineTag::Added {
            (line_old, old) = (old, old.saturating_add(1));
        }
        if line.tag != LineTag::Removed {
            (line_new, new) = (new, new.saturating_add(1));
        }
        if line.tag != LineTag::Context {
            number += 1;
            line_number = number;
        }
        ReviewLine::new(line.tag, &text, line_old, line_new, line_number)
    };
    ReviewHunk {
        number: hunk.number,
        title: hunk_title(&shown.file, hunk) + if is_moved(&shown.file) { MOVED } else { "" },
        lines: hunk.lines.iter().map(line).collect(),
        has_choice: lines > 0,
        can_edit: lines > 0,
        is_split: false,
        is_folded: false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use domain::{CallNumber, Hash, RootIndex, hunks, lines_changed};
    use serde_json::json;

    use super::*;
    use crate::output::{ColorWhen, Format};

    /// The lines of all files, as they are written one by one.
    fn stat(files: &[ShownDiff<'_>], not_captured: &CaptureOmissions, style: &OutputStyle) -> String {
        let width = stat_width(files.iter().map(|file| (&file.file.change, file.file.address.clone())));
        let mut text: String = files.iter().map(|file| stat_of(file, width, style)).collect();
        text.push_str(&DiffSum::new(files).line());
        text.push_str(&left_out_line(not_captured));
        text
    }

    fn patch(files: &[ShownDiff<'_>]) -> Vec<u8> {
        files.iter().flat_map(patch_of).collect()
    }

    fn page(files: &[ShownDiff<'_>], not_captured: &CaptureOmissions, style: &OutputStyle) -> String {
        let mut text: String = files.iter().map(|file| page_of(file, style)).collect();
        text.push_str(&DiffSum::new(files).line());
        text.push_str(&left_out_line(not_captured));
        text
    }

    fn diff(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
        let state = |bytes: Option<&[u8]>| bytes.map(|bytes| FileState::file(bytes, 0o644));
        let change = NetChange {
            root: RootIndex(0),
            path: RelPath::new(path).unwrap(),
            from: None,
            before: state(before),
            after: state(after),
            base: Base::Known,
            calls: vec![CallNumber(1)],
        };
        let hunks = hunks(before, after, &change);
        FileDiff {
            address: change.path.to_string(),
            alias: "shop".to_owned(),
            is_of_several: false,
            before: before.map(<[u8]>::to_vec),
            after: after.map(<[u8]>::to_vec),
            lines: lines_changed(&hunks),
            hunks,
            binary: false,
            unread: UnreadContent::Nothing,
            change,
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_called_binary() {
        let mut file = diff("a", Some(b"x\n"), Some(b"y\n"));
        let unread =
            FileState { hash: Hash::from_bytes([0; 32]), text: false, ..file.change.before.unwrap() };
        file.change.before = Some(unread);
        file.before = None;
        file.hunks = hunks(None, Some(b"y\n"), &file.change);
        file.lines = lines_changed(&file.hunks);
        file.unread = UnreadContent::Base;
        let shown = [ShownDiff::revealed(&file)];
        let words = "the content before cannot be read";
        assert_eq!(
            page(&shown, &CaptureOmissions::default(), &style()),
            format!("M a  +0 -0\na#1  {words}, 2 bytes -> 2 bytes\n\n1 file  +0 -0\n")
        );
        assert_eq!(
            stat(&shown, &CaptureOmissions::default(), &style()),
            format!("M  a  {words}\n1 file  +0 -0\n")
        );
        let patch = String::from_utf8(patch(&shown)).unwrap();
        assert!(patch.contains(&format!("# {words}\n")) && !patch.contains("Binary"), "{patch}");
        assert_eq!(to_json("p", &shown, &CaptureOmissions::default())["files"][0]["unread"], "before");
    }

    fn redact(path: &RelPath, content: &[u8]) -> Vec<u8> {
        let redactor = domain::Redactor::new([7; 32], Vec::new()).unwrap();
        redactor.redact_file(path, content).into_owned()
    }

    fn style() -> OutputStyle {
        OutputStyle { width: None, ..OutputStyle::find(Some(Format::Rich), ColorWhen::Never, |_| None) }
    }

    /// Returns whether `git apply` takes a patch in a directory.
    fn git_takes(dir: &Path, patch: &[u8]) -> bool {
        let mut git = Command::new("git");
        git.args(["apply", "-"]).current_dir(dir).env("GIT_CEILING_DIRECTORIES", dir);
        let mut child =
            git.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(patch).unwrap();
        child.wait().unwrap().success()
    }

    #[test]
    fn the_plain_form_is_a_patch_that_git_takes() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::write(dir.path().join("a.txt"), "one\ntwo\nthree").unwrap();
        let files = [
            diff("a.txt", Some(b"one\ntwo\nthree"), Some(b"one\n2\nthree\n")),
            diff("new \"dir\"/b", None, Some(b"caf\xe9\n")),
        ];
        let shown: Vec<_> = files.iter().map(|file| ShownDiff::redacted(file, &redact)).collect();
        assert!(git_takes(dir.path(), &patch(&shown)));
        assert_eq!(std::fs::read(dir.path().join("a.txt")).unwrap(), b"one\n2\nthree\n");
        assert_eq!(std::fs::read(dir.path().join("new \"dir\"/b")).unwrap(), b"caf\xe9\n");
    }

    #[test]
    fn a_patch_without_its_secret_is_refused_by_git_and_leaks_nothing() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::write(dir.path().join("plain"), "a\n").unwrap();
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let content = format!("user = me\ntoken = {secret}\n");
        let files =
            [diff("plain", Some(b"a\n"), Some(b"b\n")), diff("x.env", None, Some(content.as_bytes()))];
        let shown: Vec<_> = files.iter().map(|file| ShownDiff::redacted(file, &redact)).collect();
        let text = patch(&shown);
        assert!(shown[1].is_redacted && !shown[0].is_redacted);
        assert!(!String::from_utf8_lossy(&text).contains(&secret));
        assert!(String::from_utf8_lossy(&text).contains("+user = me\n"));
        assert!(!git_takes(dir.path(), &text));
        assert_eq!(std::fs::read(dir.path().join("plain")).unwrap(), b"a\n");
        let revealed: Vec<_> = files.iter().map(ShownDiff::revealed).collect();
        assert!(String::from_utf8_lossy(&patch(&revealed)).contains(&secret));
        assert!(git_takes(dir.path(), &patch(&revealed)));
    }

    #[test]
    fn a_secret_over_several_lines_is_hidden_line_by_line_with_stable_addresses() {
        let key: String = (0..20).map(|n| format!("{n:02}{}\n", "Qk".repeat(30))).collect();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----\n");
        let before = format!("{pem}{}", "same\n".repeat(20));
        let after = before.replacen("15Qk", "15Zz", 1) + "more\n";
        let file = diff("key.pem", Some(before.as_bytes()), Some(after.as_bytes()));
        let shown = ShownDiff::redacted(&file, &redact);
        let text = page(std::slice::from_ref(&shown), &CaptureOmissions::default(), &style());
        assert!(!text.contains("QkQk"), "{text}");
        assert!(text.contains("key.pem#1") && text.contains("key.pem#2") && text.contains("+more"));
        let numbers: Vec<u32> = shown.hunks.iter().map(|hunk| hunk.number).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn a_page_names_each_hunk_and_is_calm() {
        let file = diff("src/a.rs", Some(b"one\n"), Some(b"\x1b[2Jtwo\n"));
        let not_captured = CaptureOmissions { scratch: 1204, protected: 12, ..CaptureOmissions::default() };
        let text = page(&[ShownDiff::revealed(&file)], &not_captured, &style());
        assert_eq!(
            text,
            "M src/a.rs  +1 -1\nsrc/a.rs#1  @@ -1,1 +1,1 @@\n  -one\n  +\\x1B[2Jtwo\n\n1 file  +1 -1\n\
             not captured: 1204 scratch, 12 protected\n"
        );
    }

    #[test]
    fn programs_read_every_hunk() {
        let files = [diff("a", Some(b"x\n"), Some(b"y\n")), diff("b", Some(b"x\n"), None)];
        let shown: Vec<_> = files.iter().map(ShownDiff::revealed).collect();
        let value = to_json("01JB", &shown, &CaptureOmissions::default());
        assert_eq!(
            value["summary"],
            json!({
                "files": 2, "insertions": 1, "deletions": 2, "renames": 0, "redacted": false,
                "not_captured": {
                    "scratch": 0, "protected": 0, "special": 0, "set_id": 0, "attributes": 0, "hard_links": 0,
                    "repository": 0, "root_modes": 0, "named": [],
                },
            })
        );
        assert_eq!(
            value["files"][0],
            json!({
                "project": "shop", "path": "a", "from": null, "address": "a", "op": "modify", "kind": "file",
                "mode_before": "0644", "mode_after": "0644", "binary": false, "unread": null, "insertions": 1, "deletions": 1,
                "base": "known", "calls": [1], "redacted": false, "rename": null,
                "hunks": [{
                    "id": "a#1", "old_start": 1, "old_lines": 1, "new_start": 1, "new_lines": 1,
                    "lines": ["-x\n", "+y\n"],
                }],
            })
        );
        assert_eq!(
            (&value["files"][1]["op"], &value["files"][1]["mode_after"]),
            (&json!("delete"), &json!(null))
        );
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_given_exactly() {
        let file = FileDiff {
            change: NetChange {
                path: RelPath::new(b"caf\xe9").unwrap(),
                ..diff("x", None, Some(b"a")).change
            },
            ..diff("x", None, Some(b"a"))
        };
        let value = to_json("01JB", &[ShownDiff::revealed(&file)], &CaptureOmissions::default());
        assert_eq!(value["files"][0]["path_b64"], "Y2Fm6Q==");
    }

    #[test]
    fn a_review_begins_with_every_hunk_taken_and_every_line_numbered() {
        let file = diff("a", Some(b"1\n2\n3\n"), Some(b"1\n\ttwo\n2b\n3\n"));
        let review = to_review(&[ShownDiff::revealed(&file)]);
        assert_eq!(review[0].choice.left_out("a"), Vec::<String>::new());
        let lines: Vec<_> = review[0].hunks[0]
            .lines
            .iter()
            .map(|line| (line.tag, line.text.as_str(), line.old, line.new, line.number))
            .collect();
        assert_eq!(
            lines,
            [
                (LineTag::Context, "1", 1, 1, 0),
                (LineTag::Removed, "2", 2, 0, 1),
                (LineTag::Added, "    two", 0, 2, 2),
                (LineTag::Added, "2b", 0, 3, 3),
                (LineTag::Context, "3", 3, 4, 0),
            ]
        );
        assert!(review[0].hunks[0].has_choice && review[0].hunks[0].can_edit);
    }
}
