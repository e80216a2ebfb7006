//! The footprint of a plan: its net changes, with the lines that each replaces, in one piece.
//!
//! It is made once, when the plan's work is done, and stored with the plan. So a forecast reads neither
//! entries nor contents.
//!
//! # Invariants
//! 1. A footprint is of one attempt and one number of entries; the store returns no other as that of a plan.
//! 2. Bytes that cannot be read are no footprint: it is made again.
//! 3. That a plan changes too many files for a footprint is stored in its place, so that it is found out
//!    once.

use std::io::Read;

use domain::{Base, FileState, Hash, Kind, NetChange, RelPath, ReplacedLines, RootIndex, replaced_lines};
use sandbox::content::ContentSource;

/// The lines of larger texts are not compared beforehand.
const LINES_BYTES_MAX: u64 = 1 << 20;
/// Bytes of another version are not read.
const VERSION: u8 = 1;
/// In place of a version: the plan changes too many files to be compared.
const TOO_LARGE: u8 = 0;

/// A footprint as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// The files that the plan changes.
    Files(Vec<TouchedFile>),
    /// Too many files.
    TooLarge,
}

/// The footprint of a plan that changes too many files.
pub(super) fn too_large() -> Vec<u8> {
    vec![TOO_LARGE]
}

/// A change, and the lines that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TouchedFile {
    pub(super) change: NetChange,
    /// `None` if they are not known: not a text on both sides, too large, or a content that is not stored.
    pub(super) lines: Option<Vec<ReplacedLines>>,
}

impl TouchedFile {
    pub(super) fn new(change: NetChange, contents: &dyn ContentSource) -> Self {
        let lines = edited_text(&change).and_then(|(before, after)| {
            let (before, after) = (read(contents, &before)?, read(contents, &after)?);
            Some(replaced_lines(&before, &after))
        });
        Self { change, lines }
    }
}

/// The states of a text whose path and mode stay the same and whose lines change.
pub(super) fn edited_text(change: &NetChange) -> Option<(FileState, FileState)> {
    let (before, after) = (change.before?, change.after?);
    let is_text = |state: &FileState| state.kind == Kind::File && state.text;
    let is_edited = change.from.is_none()
        && is_text(&before)
        && is_text(&after)
        && before.mode == after.mode
        && before.hash != after.hash;
    is_edited.then_some((before, after))
}

fn read(contents: &dyn ContentSource, state: &FileState) -> Option<Vec<u8>> {
    if state.size > LINES_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    contents.open(&state.hash).ok()?.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

pub(super) fn to_bytes(files: &[TouchedFile]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    for TouchedFile { change, lines } in files {
        bytes.extend(change.root.0.to_le_bytes());
        put_path(&mut bytes, Some(&change.path));
        put_path(&mut bytes, change.from.as_ref());
        put_state(&mut bytes, change.before.as_ref());
        put_state(&mut bytes, change.after.as_ref());
        let Some(lines) = lines else {
            bytes.extend(u32::MAX.to_le_bytes());
            continue;
        };
        bytes.extend(u32::try_from(lines.len()).unwrap_or(u32::MAX - 1).to_le_bytes());
        for ReplacedLines { start, end, text } in lines {
            bytes.extend(start.to_le_bytes());
            bytes.extend(end.to_le_bytes());
            bytes.extend(text.to_le_bytes());
        }
    }
    bytes
}

fn put_path(bytes: &mut Vec<u8>, path: Option<&RelPath>) {
    let path = path.map(RelPath::as_bytes).unwrap_or_default();
    bytes.extend(u32::try_from(path.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(path);
}

fn put_state(bytes: &mut Vec<u8>, state: Option<&FileState>) {
    let Some(FileState { kind, mode, size, hash, text }) = state else { return bytes.push(0) };
    bytes.push(match kind {
        Kind::File => 1,
        Kind::Symlink => 2,
        Kind::Dir => 3,
    });
    bytes.extend(mode.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(hash.as_bytes());
    bytes.push(u8::from(*text));
}

/// `None` if they are of another version, or damaged.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<Footprint> {
    let mut rest = match bytes {
        [TOO_LARGE] => return Some(Footprint::TooLarge),
        [VERSION, rest @ ..] => rest,
        _ => return None,
    };
    let mut files = Vec::new();
    while !rest.is_empty() {
        let from = &mut rest;
        let root = RootIndex(u16::from_le_bytes(take(from)?));
        let path = path_or_none(from)??;
        let moved_from = path_or_none(from)?;
        let (before, after) = (state(from)?, state(from)?);
        let change =
            NetChange { root, path, from: moved_from, before, after, base: Base::Known, calls: Vec::new() };
        let lines = match u32::from_le_bytes(take(from)?) {
            u32::MAX => None,
            count => Some((0..count).map(|_| replaced(from)).collect::<Option<Vec<_>>>()?),
        };
        files.push(TouchedFile { change, lines });
    }
    Some(Footprint::Files(files))
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*taken)
}

fn path_or_none(from: &mut &[u8]) -> Option<Option<RelPath>> {
    let bytes = usize::try_from(u32::from_le_bytes(take(from)?)).ok()?;
    let (path, rest) = from.split_at_checked(bytes)?;
    *from = rest;
    if path.is_empty() { Some(None) } else { RelPath::new(path).ok().map(Some) }
}

fn state(from: &mut &[u8]) -> Option<Option<FileState>> {
    let kind = match u8::from_le_bytes(take(from)?) {
        0 => return Some(None),
        1 => Kind::File,
        2 => Kind::Symlink,
        3 => Kind::Dir,
        _ => return None,
    };
    let (mode, size) = (u16::from_le_bytes(take(from)?), u64::from_le_bytes(take(from)?));
    let (hash, text) = (Hash::from_bytes(take(from)?), take::<1>(from)? == [1]);
    Some(Some(FileState { kind, mode, size, hash, text }))
}

fn replaced(from: &mut &[u8]) -> Option<ReplacedLines> {
    let (start, end) = (u32::from_le_bytes(take(from)?), u32::from_le_bytes(take(from)?));
    Some(ReplacedLines { start, end, text: u64::from_le_bytes(take(from)?) })
}
