//! A net change as the text of a patch that `git apply` takes.
//!
//! # Invariants
//! 1. Applied by git to the state before, the patch gives the state after, as far as git stores it.
//! 2. The patch also has the changes that git does not store, in places that git skips. These are directories
//!    that were made, removed or given another mode. Permission bits other than "may be run" are in
//!    parentheses after git's own. A patch of such changes alone shows what changed, but git cannot apply it.
//! 3. A content without lines is named as differing, which git refuses to apply.
//!
//! # Not here
//! Redaction: give redacted hunks to [`unified_from`].

use crate::change::file_state::{FileState, Kind};
use crate::change::net::NetChange;
use crate::path::RelPath;

use super::hunks::{Hunk, HunkLine, LineTag, hunks};
use super::quote::quote;

const NO_NEWLINE: &[u8] = b"\\ No newline at end of file\n";

/// The patch of `change`, whose contents are `before` and `after`.
///
/// ```
/// use domain::{Base, FileState, NetChange, RelPath, RootIndex, unified};
///
/// let change = NetChange {
///     root: RootIndex(0), path: RelPath::new("f")?, from: None, base: Base::Known, calls: vec![],
///     before: None, after: Some(FileState::file(b"hi\n", 0o644)),
/// };
/// let patch = "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+hi\n";
/// assert_eq!(unified(&change, None, Some(b"hi\n")), patch.as_bytes());
/// # Ok::<(), domain::PathError>(())
/// ```
pub fn unified(change: &NetChange, before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<u8> {
    unified_from(change, &hunks(before, after, change))
}

/// The patch of `change` with these hunks: chosen ones, or redacted ones.
pub fn unified_from(change: &NetChange, hunks: &[Hunk]) -> Vec<u8> {
    unified_with(change, hunks, &PatchOptions::default())
}

/// The parts of a patch that the change itself does not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions<'a> {
    /// The directory before each path: the project, if a patch has several. `git apply -p2` takes it away.
    pub directory: Option<&'a str>,
    /// The similarity of a rename in percent; `None` for the one by its hunks.
    pub similarity: Option<u8>,
}

/// The same with these options.
pub fn unified_with(change: &NetChange, hunks: &[Hunk], options: &PatchOptions<'_>) -> Vec<u8> {
    let old = change.before.filter(in_git);
    let new = change.after.filter(in_git);
    let mut out = Vec::new();
    let path = options.name(&change.path);
    directories(&mut out, change, &path);
    match (old, new) {
        (None, None) => {}
        (Some(old), Some(new)) if old.kind == new.kind => edit(&mut out, change, (old, new), hunks, options),
        // Git shows another kind of file as a file that went and another that came.
        (old, new) => {
            if let Some(old) = old {
                let from = change.from.as_ref().map_or_else(|| path.clone(), |from| options.name(from));
                removal(&mut out, &from, old, hunks);
            }
            if let Some(new) = new {
                creation(&mut out, &path, new, hunks);
            }
        }
    }
    out
}

impl PatchOptions<'_> {
    fn name(&self, path: &RelPath) -> Vec<u8> {
        match self.directory {
            Some(directory) => [directory.as_bytes(), b"/", path.as_bytes()].concat(),
            None => path.as_bytes().to_vec(),
        }
    }
}

fn in_git(state: &FileState) -> bool {
    match state.kind {
        Kind::File | Kind::Symlink => true,
        Kind::Dir => false,
    }
}

fn git_mode(state: FileState) -> &'static str {
    match state.kind {
        Kind::Symlink => "120000",
        Kind::File if state.mode & 0o100 != 0 => "100755",
        Kind::File | Kind::Dir => "100644",
    }
}

/// Git's mode, and behind it the true one if git's does not show it.
fn format_mode(state: FileState) -> String {
    let git = git_mode(state);
    let is_told = match state.kind {
        Kind::File => matches!(state.mode, 0o644 | 0o755),
        Kind::Symlink | Kind::Dir => true,
    };
    if is_told { git.to_owned() } else { full_mode(state) }
}

fn full_mode(state: FileState) -> String {
    format!("{} ({:04o})", git_mode(state), state.mode)
}

/// Prints the changes of directories, in lines that git passes over: they have no head of a patch.
fn directories(out: &mut Vec<u8>, change: &NetChange, path: &[u8]) {
    let dir =
        |state: Option<FileState>| state.filter(|state| state.kind == Kind::Dir).map(|state| state.mode);
    let told = match (dir(change.before), dir(change.after)) {
        (None, None) => return,
        (Some(old), Some(new)) if old == new => return,
        (Some(old), Some(new)) => format!("old mode {old:04o}\nnew mode {new:04o}"),
        (None, Some(new)) => format!("new directory mode {new:04o}"),
        (Some(old), None) => format!("deleted directory mode {old:04o}"),
    };
    line(out, &[b"directory ", &quote(b"", path)]);
    line(out, &[told.as_bytes()]);
}

fn edit(
    out: &mut Vec<u8>,
    change: &NetChange,
    (old, new): (FileState, FileState),
    hunks: &[Hunk],
    options: &PatchOptions<'_>,
) {
    let (from, path) =
        (options.name(change.from.as_ref().unwrap_or(&change.path)), options.name(&change.path));
    let same_content = old.hash == new.hash;
    let same_mode = git_mode(old) == git_mode(new) && (old.kind == Kind::Symlink || old.mode == new.mode);
    if same_content && same_mode && change.from.is_none() {
        return;
    }
    let is_for_git = !same_content || git_mode(old) != git_mode(new) || change.from.is_some();
    // Git refuses a head below which nothing changes for it.
    match is_for_git {
        true => begin(out, &from, &path),
        false => line(out, &[b"file ", &quote(b"", &path)]),
    }
    if !same_mode {
        let is_git_s = git_mode(old) != git_mode(new);
        let mode = |state: FileState| if is_git_s { format_mode(state) } else { full_mode(state) };
        line(out, &[b"old mode ", mode(old).as_bytes()]);
        line(out, &[b"new mode ", mode(new).as_bytes()]);
    }
    if change.from.is_some() {
        let similarity = match options.similarity {
            _ if same_content => 100,
            Some(percent) => u64::from(percent),
            None => similarity(old, new, hunks),
        };
        line(out, &[format!("similarity index {similarity}%").as_bytes()]);
        line(out, &[b"rename from ", &quote(b"", &from)]);
        line(out, &[b"rename to ", &quote(b"", &path)]);
    }
    if same_content {
        return;
    }
    let (old_name, new_name) = (quote(b"a/", &from), quote(b"b/", &path));
    contents(out, &old_name, &new_name, hunks, &[LineTag::Context, LineTag::Removed, LineTag::Added]);
}

fn removal(out: &mut Vec<u8>, path: &[u8], old: FileState, hunks: &[Hunk]) {
    begin(out, path, path);
    line(out, &[b"deleted file mode ", git_mode(old).as_bytes()]);
    if old.size > 0 {
        contents(out, &quote(b"a/", path), b"/dev/null", hunks, &[LineTag::Removed]);
    }
}

fn creation(out: &mut Vec<u8>, path: &[u8], new: FileState, hunks: &[Hunk]) {
    begin(out, path, path);
    line(out, &[b"new file mode ", format_mode(new).as_bytes()]);
    if new.size > 0 {
        contents(out, b"/dev/null", &quote(b"b/", path), hunks, &[LineTag::Added]);
    }
}

/// The lines of `hunks` with one of `tags`, below the names of both sides.
fn contents(out: &mut Vec<u8>, old_name: &[u8], new_name: &[u8], hunks: &[Hunk], tags: &[LineTag]) {
    let shown: Vec<(u32, Vec<&HunkLine>)> = hunks
        .iter()
        .map(|hunk| (hunk_begin(hunk), hunk.lines.iter().filter(|line| tags.contains(&line.tag)).collect()))
        .filter(|(_, lines): &(u32, Vec<&HunkLine>)| !lines.is_empty())
        .collect();
    if shown.is_empty() {
        line(out, &[b"Binary files ", old_name, b" and ", new_name, b" differ"]);
        return;
    }
    line(out, &[b"--- ", old_name, name_end(old_name)]);
    line(out, &[b"+++ ", new_name, name_end(new_name)]);
    // Counted again, because hunks may have been left out.
    let mut grown = 0;
    for (old_begin, lines) in shown {
        let count = |without: LineTag| lines.iter().filter(|line| line.tag != without).count() as i64;
        let (old_lines, new_lines) = (count(LineTag::Added), count(LineTag::Removed));
        let (old_begin, new_begin) = (i64::from(old_begin), i64::from(old_begin) + grown);
        let header = format!("@@ -{} +{} @@", span(old_begin, old_lines), span(new_begin, new_lines));
        line(out, &[header.as_bytes()]);
        lines.iter().for_each(|one| patch_line(out, one));
        grown += new_lines - old_lines;
    }
}

/// Returns the number of old lines above the hunk.
fn hunk_begin(hunk: &Hunk) -> u32 {
    if hunk.old_lines == 0 { hunk.old_start } else { hunk.old_start.saturating_sub(1) }
}

/// As git writes it: counted from 1, the line above where there are none, one line without its count.
fn span(begin: i64, lines: i64) -> String {
    match lines {
        0 => format!("{begin},0"),
        1 => format!("{}", begin + 1),
        _ => format!("{},{lines}", begin + 1),
    }
}

fn patch_line(out: &mut Vec<u8>, line: &HunkLine) {
    out.push(match line.tag {
        LineTag::Context => b' ',
        LineTag::Removed => b'-',
        LineTag::Added => b'+',
    });
    out.extend_from_slice(&line.bytes);
    if !line.bytes.ends_with(b"\n") {
        out.push(b'\n');
        out.extend_from_slice(NO_NEWLINE);
    }
}

/// A name with a space ends with a tab, so that readers do not take what follows a space for a date.
fn name_end(name: &[u8]) -> &'static [u8] {
    if name.contains(&b' ') { b"\t" } else { b"" }
}

fn begin(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    line(out, &[b"diff --git ", &quote(b"a/", old), b" ", &quote(b"b/", new)]);
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'\n');
}

/// Returns how much of the old content is in the new one, for readers: git goes by the lines.
fn similarity(old: FileState, new: FileState, hunks: &[Hunk]) -> u64 {
    let removed = hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.tag == LineTag::Removed);
    let removed: u64 = removed.map(|line| line.bytes.len() as u64).sum();
    let kept = old.size.saturating_sub(removed);
    let percent = kept.saturating_mul(100).checked_div(old.size.max(new.size)).unwrap_or(100);
    percent.min(99)
}
