//! Hunks: the parts of a net change that can be taken or left, each with a number.
//!
//! # Invariants
//! 1. Numbers run from 1 without gaps, and the same change always has the same ones.
//! 2. All hunks applied to `before` are `after`; none applied is `before`.
//! 3. A change that cannot be taken in parts is one [`Whole`](HunkPart::Whole) hunk. Such changes are: a file
//!    created, deleted or without lines; a link, a directory, another kind; a mode change alone, a move
//!    alone.
//! 4. A mode that changed along with lines is the last hunk, so that hunks of lines have the same numbers
//!    with and without it. A move goes along with any hunk of its file.
//!
//! # Not here
//! The choice of hunks: [`crate::ChangeSelection`].

use std::collections::BTreeSet;
use std::ops::Range;

use crate::change::file_state::{FileState, Kind};
use crate::change::net::NetChange;
use crate::change::selection::{ChangeChoice, TakenShare};
use crate::merge::Region;

use super::lines::{LineChange, line_changes, lines_in, split_lines};

/// Unchanged lines shown around a change.
const CONTEXT_LINES: u32 = 3;

/// A part of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Its address within the file, from 1.
    pub number: u32,
    /// The part of the change.
    pub part: HunkPart,
    /// The first line in the old content, from 1; without old lines, the line before.
    pub old_start: u32,
    /// The number of lines of the old content that it covers.
    pub old_lines: u32,
    /// The first line in the new content, from 1; without new lines, the line before.
    pub new_start: u32,
    /// The number of lines of the new content that it covers.
    pub new_lines: u32,
    /// The lines, those removed before those added. None when there are none to show.
    pub lines: Vec<HunkLine>,
}

/// The part of a change to which a hunk belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunkPart {
    /// Some lines of a content.
    Lines,
    /// The mode, in addition to hunks of lines.
    Mode,
    /// Nothing: it is the whole change.
    Whole,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// On which side it is.
    pub tag: LineTag,
    /// Its bytes, with the `\n` if it has one.
    pub bytes: Vec<u8>,
}

/// On which side a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineTag {
    /// On both.
    Context,
    /// On the old side.
    Removed,
    /// On the new side.
    Added,
}

/// The numbers of added and removed lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesChanged {
    /// Lines of the new content that are not in the old.
    pub insertions: u64,
    /// Lines of the old content that are not in the new.
    pub deletions: u64,
}

/// The hunks of `change`, whose contents are `before` and `after`. A content that is not at hand is none, and
/// the change then is whole and shows no lines.
///
/// ```
/// use domain::{Base, FileState, HunkPart, NetChange, RelPath, RootIndex, hunks};
///
/// let (old, new) = (b"a\nb\n", b"a\nc\n");
/// let change = NetChange {
///     root: RootIndex(0), path: RelPath::new("f")?, from: None, base: Base::Known, calls: vec![],
///     before: Some(FileState::file(old, 0o644)), after: Some(FileState::file(new, 0o644)),
/// };
/// let hunks = hunks(Some(old), Some(new), &change);
/// assert_eq!((hunks.len(), hunks[0].part, hunks[0].lines.len()), (1, HunkPart::Lines, 3));
/// # Ok::<(), domain::PathError>(())
/// ```
pub fn hunks(before: Option<&[u8]>, after: Option<&[u8]>, change: &NetChange) -> Vec<Hunk> {
    match (change.before, change.after) {
        (Some(old), Some(new)) if in_lines(&old) && in_lines(&new) && old.hash != new.hash => {
            match (before, after) {
                (Some(before), Some(after)) => edited(before, after, old.mode != new.mode),
                (None, _) | (_, None) => vec![whole(Vec::new())],
            }
        }
        (old, new) if old == new && change.from.is_none() => Vec::new(),
        // The content is the same, or has no lines, or belongs to two kinds of file.
        (Some(old), Some(new)) if old.kind == new.kind && !is_link(&old) => vec![whole(Vec::new())],
        (Some(_), Some(_)) | (None, _) | (_, None) => vec![whole(both_sides(before, after, change))],
    }
}

/// The chosen lines applied to `before`. A removed line that is not chosen stays; an added line that is not
/// chosen does not come.
pub fn apply_hunks(before: &[u8], after: &[u8], choice: &ChangeChoice) -> Vec<u8> {
    let (old, new) = (split_lines(before), split_lines(after));
    let mut out = Vec::with_capacity(before.len().max(after.len()));
    let mut done = 0;
    for (group, number) in groups(line_changes(before, after)).iter().zip(1_u32..) {
        match choice.hunk(number) {
            TakenShare::None => continue,
            TakenShare::All | TakenShare::Some => {}
        }
        let mut line = 1;
        for change in group {
            push_whole(&mut out, lines_in(&old, done..change.before.start));
            let (removed, added) =
                (lines_in(&old, change.before.clone()), lines_in(&new, change.after.clone()));
            let (first_added, next) = (line + count_of(removed), line + count_of(removed) + count_of(added));
            let kept = removed.iter().zip(line..).map(|(text, no)| (*text, !choice.is_taken(number, no)));
            let come = added.iter().zip(first_added..).map(|(text, no)| (*text, choice.is_taken(number, no)));
            if removed.len() == added.len() {
                // Each new line is in the place of the old one.
                let pairs = kept.zip(come).flat_map(|(old, new)| [old, new]);
                push_chosen(&mut out, pairs);
            } else {
                push_chosen(&mut out, kept.chain(come));
            }
            (done, line) = (change.before.end, next);
        }
    }
    push_whole(&mut out, lines_in(&old, done..u32::MAX));
    out
}

fn count_of(lines: &[&[u8]]) -> u32 {
    u32::try_from(lines.len()).unwrap_or(u32::MAX)
}

fn push_whole(out: &mut Vec<u8>, lines: &[&[u8]]) {
    push_chosen(out, lines.iter().map(|line| (*line, true)));
}

/// Adds the lines that are wanted. A last line without a line end gets one if another line follows.
fn push_chosen<'a>(out: &mut Vec<u8>, lines: impl Iterator<Item = (&'a [u8], bool)>) {
    for (line, _) in lines.filter(|(_, is_wanted)| *is_wanted) {
        if out.last().is_some_and(|byte| *byte != b'\n') {
            out.push(b'\n');
        }
        out.extend_from_slice(line);
    }
}

/// The new text of a hunk: its lines but those that it removes.
pub fn new_text(hunk: &Hunk) -> Vec<u8> {
    let lines = hunk.lines.iter().filter(|line| line.tag != LineTag::Removed);
    lines.flat_map(|line| line.bytes.iter().copied()).collect()
}

/// The content `after` with another text in place of the new text of a hunk. The text gets a line end if lines
/// follow it.
pub fn with_new_text(after: &[u8], hunk: &Hunk, text: &[u8]) -> Vec<u8> {
    let lines = split_lines(after);
    let start = if hunk.new_lines > 0 { hunk.new_start.saturating_sub(1) } else { hunk.new_start };
    let rest = lines_in(&lines, start.saturating_add(hunk.new_lines)..u32::MAX);
    let mut out = lines_in(&lines, 0..start).concat();
    push_chosen(&mut out, std::iter::once((text, !text.is_empty())));
    push_whole(&mut out, rest);
    let had_end = after.last().is_some_and(|byte| *byte == b'\n');
    if had_end && out.last().is_some_and(|byte| *byte != b'\n') {
        out.push(b'\n');
    }
    out
}

/// The numbers of the hunks that have a part in these conflicts of a merge upon `before`.
pub fn hunks_in_conflict(before: &[u8], after: &[u8], conflicts: &[Region]) -> BTreeSet<u32> {
    hunks_by_conflict(before, after, conflicts).into_iter().flatten().collect()
}

/// The same for each of the conflicts.
pub fn hunks_by_conflict(before: &[u8], after: &[u8], conflicts: &[Region]) -> Vec<BTreeSet<u32>> {
    let groups = groups(line_changes(before, after));
    let meets = |group: &[LineChange], region: &Region| {
        let touches = |change: &LineChange| {
            change.before.start <= region.base.end && region.base.start <= change.before.end
        };
        group.iter().any(touches)
    };
    let numbers = |region: &Region| {
        let met = groups.iter().zip(1_u32..).filter(|(group, _)| meets(group, region));
        met.map(|(_, number)| number).collect()
    };
    conflicts.iter().map(numbers).collect()
}

/// The lines that the hunks add and remove.
pub fn lines_changed(hunks: &[Hunk]) -> LinesChanged {
    let mut changed = LinesChanged::default();
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        match line.tag {
            LineTag::Context => {}
            LineTag::Removed => changed.deletions += 1,
            LineTag::Added => changed.insertions += 1,
        }
    }
    changed
}

/// Returns whether a change of this file can be taken line by line.
pub(crate) fn in_lines(state: &FileState) -> bool {
    state.kind == Kind::File && state.text
}

fn is_link(state: &FileState) -> bool {
    state.kind == Kind::Symlink
}

fn edited(before: &[u8], after: &[u8], mode_changed: bool) -> Vec<Hunk> {
    let (old, new) = (split_lines(before), split_lines(after));
    let groups = groups(line_changes(before, after));
    let mut hunks: Vec<Hunk> =
        groups.iter().zip(1_u32..).map(|(group, number)| hunk_of(group, number, &old, &new)).collect();
    if mode_changed || hunks.is_empty() {
        let number = u32::try_from(hunks.len()).unwrap_or(u32::MAX).saturating_add(1);
        let part = if hunks.is_empty() { HunkPart::Whole } else { HunkPart::Mode };
        hunks.push(Hunk { number, part, ..whole(Vec::new()) });
    }
    hunks
}

/// Changes so near to each other that their context would meet are one hunk.
fn groups(changes: Vec<LineChange>) -> Vec<Vec<LineChange>> {
    let mut groups: Vec<Vec<LineChange>> = Vec::new();
    for change in changes {
        let near = |last: &LineChange| change.before.start - last.before.end <= 2 * CONTEXT_LINES;
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(near) => group.push(change),
            Some(_) | None => groups.push(vec![change]),
        }
    }
    groups
}

fn hunk_of(group: &[LineChange], number: u32, old: &[&[u8]], new: &[&[u8]]) -> Hunk {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return Hunk { number, ..whole(Vec::new()) };
    };
    let above = CONTEXT_LINES.min(first.before.start);
    let old_count = u32::try_from(old.len()).unwrap_or(u32::MAX);
    let below = CONTEXT_LINES.min(old_count.saturating_sub(last.before.end));
    let old_range = first.before.start - above..last.before.end + below;
    let new_range = first.after.start - above..last.after.end + below;
    let mut lines = Vec::new();
    let mut done = old_range.start;
    for change in group {
        push(&mut lines, LineTag::Context, lines_in(old, done..change.before.start));
        push(&mut lines, LineTag::Removed, lines_in(old, change.before.clone()));
        push(&mut lines, LineTag::Added, lines_in(new, change.after.clone()));
        done = change.before.end;
    }
    push(&mut lines, LineTag::Context, lines_in(old, done..old_range.end));
    Hunk {
        number,
        part: HunkPart::Lines,
        old_start: first_line(&old_range),
        old_lines: old_range.end - old_range.start,
        new_start: first_line(&new_range),
        new_lines: new_range.end - new_range.start,
        lines,
    }
}

/// As patches count: from 1, and where there are no lines, the line before.
fn first_line(range: &Range<u32>) -> u32 {
    if range.is_empty() { range.start } else { range.start + 1 }
}

fn push(lines: &mut Vec<HunkLine>, tag: LineTag, more: &[&[u8]]) {
    lines.extend(more.iter().map(|bytes| HunkLine { tag, bytes: bytes.to_vec() }));
}

/// The lines of a content that went or came whole, as far as it has lines.
fn both_sides(before: Option<&[u8]>, after: Option<&[u8]>, change: &NetChange) -> Vec<HunkLine> {
    let shown = |state: Option<FileState>| state.is_some_and(|state| in_lines(&state) || is_link(&state));
    let mut lines = Vec::new();
    if let Some(before) = before.filter(|_| shown(change.before)) {
        push(&mut lines, LineTag::Removed, &split_lines(before));
    }
    if let Some(after) = after.filter(|_| shown(change.after)) {
        push(&mut lines, LineTag::Added, &split_lines(after));
    }
    lines
}

fn whole(lines: Vec<HunkLine>) -> Hunk {
    let count =
        |tag: LineTag| u32::try_from(lines.iter().filter(|line| line.tag == tag).count()).unwrap_or(u32::MAX);
    let (old_lines, new_lines) = (count(LineTag::Removed), count(LineTag::Added));
    Hunk {
        number: 1,
        part: HunkPart::Whole,
        old_start: old_lines.min(1),
        old_lines,
        new_start: new_lines.min(1),
        new_lines,
        lines,
    }
}
