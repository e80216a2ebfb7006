//! Encodes and decodes the payloads of a journal's frames.
//!
//! # Invariants
//! 1. A value that is written is read back the same; bytes left over at the end of a payload make it wrong.
//! 2. No bytes make a reader panic or take memory beyond the payload's own size.
//!
//! # Not here
//! The check that the frames make sense together ([`super::log`]).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use domain::{BootId, Fence, FileState, Hash, Kind, PlanId, RelPath, RootIndex};

use super::frame::FrameSpan;
use super::op::{ByteSource, JournalOp, OpAction, SavedState};
use super::request::{Attributes, JournalHeader, JournalRoot};
use super::{JournalId, JournalKind};
use crate::git::refs::{IndexEntry, IndexMove, RefMove};

/// The mark of a journal's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DoneMark {
    /// All is as asked; otherwise all is as before.
    pub(super) applied: bool,
    /// Ops that left an edit by others, or a directory that was not empty, at their path.
    pub(super) left: Vec<u32>,
    /// Ops that gave a file another inode.
    pub(super) replaced: Vec<u32>,
}

/// The mark that a journal is being rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackMark {
    /// Why, for those who read.
    pub(super) reason: String,
    /// The number of ops that may have been begun: the others are left alone.
    pub(super) reached: u32,
}

/// Builds a payload.
#[derive(Default)]
struct PayloadWriter(Vec<u8>);

impl PayloadWriter {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }
    fn u128(&mut self, value: u128) {
        self.0.extend(value.to_le_bytes());
    }
    fn count(&mut self, count: usize) {
        // A payload has at most 16 MiB, so nothing that fits one has more items than this holds.
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }
    fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }
    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        items.iter().for_each(|item| write(self, item));
    }
}

/// Takes a payload apart; none as soon as something does not fit.
struct PayloadReader<'a>(&'a [u8]);

impl<'a> PayloadReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()? as usize;
        self.take(count)
    }
    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
    fn path(&mut self) -> Option<RelPath> {
        RelPath::new(self.bytes()?).ok()
    }
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Some(items)
    }
    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// The payload of an `H` frame.
pub(super) fn encode_header(header: &JournalHeader) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u128(header.id.as_u128());
    out.u128(header.plan.as_u128());
    out.u8(match header.kind {
        JournalKind::Apply => b'a',
        JournalKind::Undo => b'u',
    });
    out.list(&header.roots, |out, root| {
        out.u16(root.no.0);
        out.bytes(root.path.as_os_str().as_bytes());
        out.u64(root.dev);
        out.u64(root.ino);
    });
    out.u128(header.boot.as_u128());
    out.u64(header.fence.0);
    out.u64(header.time_ms);
    out.0.extend(header.net_hash.as_bytes());
    out.0
}

/// Reads an `H` frame.
pub(super) fn decode_header(payload: &[u8]) -> Option<JournalHeader> {
    let mut from = PayloadReader(payload);
    let header = JournalHeader {
        id: JournalId::from_u128(from.u128()?),
        plan: PlanId::from_u128(from.u128()?),
        kind: match from.u8()? {
            b'a' => JournalKind::Apply,
            b'u' => JournalKind::Undo,
            _ => return None,
        },
        roots: from.list(|from| {
            Some(JournalRoot {
                no: RootIndex(from.u16()?),
                path: OsString::from_vec(from.bytes()?.to_vec()).into(),
                dev: from.u64()?,
                ino: from.u64()?,
            })
        })?,
        boot: BootId::from_u128(from.u128()?),
        fence: Fence(from.u64()?),
        time_ms: from.u64()?,
        net_hash: Hash::from_bytes(from.array()?),
    };
    from.end(header)
}

/// The payload of an `h` frame: how many ops there are, and the header once more.
pub(super) fn encode_header_copy(header: &JournalHeader, ops: u32) -> Vec<u8> {
    [&ops.to_le_bytes()[..], &encode_header(header)].concat()
}

/// Reads an `h` frame.
pub(super) fn decode_header_copy(payload: &[u8]) -> Option<(u32, JournalHeader)> {
    let mut from = PayloadReader(payload);
    let ops = from.u32()?;
    Some((ops, decode_header(from.0)?))
}

/// The payload of an `O` frame.
pub(super) fn encode_op(op: &JournalOp) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u32(op.n);
    out.u16(op.root.0);
    out.bytes(op.path.as_bytes());
    out.option(op.from.as_ref(), |out, from| out.bytes(from.as_bytes()));
    out.bytes(op.parked.as_bytes());
    out.u8(u8::from(op.in_the_way));
    out.option(op.cleared_by.as_ref(), |out, n| out.u32(*n));
    encode_how(&mut out, &op.how);
    out.0
}

/// Reads an `O` frame.
pub(super) fn decode_op(payload: &[u8]) -> Option<JournalOp> {
    let mut from = PayloadReader(payload);
    let op = JournalOp {
        n: from.u32()?,
        root: RootIndex(from.u16()?),
        path: from.path()?,
        from: from.option(PayloadReader::path)?,
        parked: from.path()?,
        in_the_way: from.flag()?,
        cleared_by: from.option(PayloadReader::u32)?,
        how: decode_how(&mut from)?,
    };
    from.end(op)
}

fn encode_how(out: &mut PayloadWriter, how: &OpAction) {
    match how {
        OpAction::Write { pre, post, apart: false } => encode_both(out, b'w', pre, post),
        OpAction::Write { pre, post, apart: true } => encode_both(out, b'a', pre, post),
        OpAction::Create { post } => encode_one(out, b'c', post),
        OpAction::Remove { pre } => encode_one(out, b'r', pre),
        OpAction::MakeDir { post } => encode_one(out, b'm', post),
        OpAction::RemoveDir { pre } => encode_one(out, b'd', pre),
        OpAction::Link { pre: None, post } => encode_one(out, b'l', post),
        OpAction::Link { pre: Some(pre), post } => encode_both(out, b't', pre, post),
        OpAction::Mode { pre, post } => encode_both(out, b'p', pre, post),
        OpAction::Ref(moved) => encode_ref(out, moved),
    }
}

fn encode_one(out: &mut PayloadWriter, letter: u8, saved: &SavedState) {
    out.u8(letter);
    encode_saved(out, saved);
}

fn encode_both(out: &mut PayloadWriter, letter: u8, pre: &SavedState, post: &SavedState) {
    encode_one(out, letter, pre);
    encode_saved(out, post);
}

fn encode_ref(out: &mut PayloadWriter, moved: &RefMove) {
    out.u8(b'g');
    out.bytes(moved.name.as_bytes());
    out.option(moved.old.as_ref(), |out, oid| out.bytes(oid.as_bytes()));
    out.option(moved.new.as_ref(), |out, oid| out.bytes(oid.as_bytes()));
    out.list(&moved.index, |out, entry| {
        out.bytes(entry.path.as_bytes());
        out.option(entry.before.as_ref(), encode_entry);
        out.option(entry.after.as_ref(), encode_entry);
    });
}

fn decode_how(from: &mut PayloadReader<'_>) -> Option<OpAction> {
    Some(match from.u8()? {
        b'w' => OpAction::Write { pre: decode_saved(from)?, post: decode_saved(from)?, apart: false },
        b'a' => OpAction::Write { pre: decode_saved(from)?, post: decode_saved(from)?, apart: true },
        b'c' => OpAction::Create { post: decode_saved(from)? },
        b'r' => OpAction::Remove { pre: decode_saved(from)? },
        b'm' => OpAction::MakeDir { post: decode_saved(from)? },
        b'd' => OpAction::RemoveDir { pre: decode_saved(from)? },
        b'l' => OpAction::Link { pre: None, post: decode_saved(from)? },
        b't' => OpAction::Link { pre: Some(decode_saved(from)?), post: decode_saved(from)? },
        b'p' => OpAction::Mode { pre: decode_saved(from)?, post: decode_saved(from)? },
        b'g' => OpAction::Ref(decode_ref(from)?),
        _ => return None,
    })
}

fn decode_ref(from: &mut PayloadReader<'_>) -> Option<RefMove> {
    Some(RefMove {
        name: from.text()?,
        old: from.option(PayloadReader::text)?,
        new: from.option(PayloadReader::text)?,
        index: from.list(|from| {
            Some(IndexMove {
                path: from.path()?,
                before: from.option(decode_entry)?,
                after: from.option(decode_entry)?,
            })
        })?,
    })
}

fn encode_entry(out: &mut PayloadWriter, entry: &IndexEntry) {
    out.bytes(entry.mode.as_bytes());
    out.bytes(entry.oid.as_bytes());
}

fn decode_entry(from: &mut PayloadReader<'_>) -> Option<IndexEntry> {
    Some(IndexEntry { mode: from.text()?, oid: from.text()? })
}

fn encode_saved(out: &mut PayloadWriter, saved: &SavedState) {
    let FileState { kind, mode, size, hash, text } = saved.state;
    out.u8(match kind {
        Kind::File => b'f',
        Kind::Symlink => b'l',
        Kind::Dir => b'd',
    });
    out.u16(mode);
    out.u64(size);
    out.0.extend(hash.as_bytes());
    out.u8(u8::from(text));
    match saved.bytes {
        None => out.u8(0),
        Some(ByteSource::Inline(span)) => {
            out.u8(1);
            out.u64(span.at);
            out.u64(span.len);
        }
        Some(ByteSource::Linked) => out.u8(2),
    }
    out.option(saved.attributes.as_ref(), |out, attributes| {
        out.u32(attributes.uid);
        out.u32(attributes.gid);
        out.list(&attributes.extended, |out, (name, value)| {
            out.bytes(name);
            out.bytes(value);
        });
    });
}

fn decode_saved(from: &mut PayloadReader<'_>) -> Option<SavedState> {
    let state = FileState {
        kind: match from.u8()? {
            b'f' => Kind::File,
            b'l' => Kind::Symlink,
            b'd' => Kind::Dir,
            _ => return None,
        },
        mode: from.u16()?,
        size: from.u64()?,
        hash: Hash::from_bytes(from.array()?),
        text: from.flag()?,
    };
    let bytes = match from.u8()? {
        0 => None,
        1 => Some(ByteSource::Inline(FrameSpan { at: from.u64()?, len: from.u64()? })),
        2 => Some(ByteSource::Linked),
        _ => return None,
    };
    let attributes = from.option(|from| {
        Some(Attributes {
            uid: from.u32()?,
            gid: from.u32()?,
            extended: from.list(|from| Some((from.bytes()?.to_vec(), from.bytes()?.to_vec())))?,
        })
    })?;
    Some(SavedState { state, bytes, attributes })
}

/// The payload of a `C` frame: how many ops there are.
pub(super) fn encode_commit(ops: u32) -> Vec<u8> {
    ops.to_le_bytes().to_vec()
}

/// Reads a `C` frame.
pub(super) fn decode_commit(payload: &[u8]) -> Option<u32> {
    let mut from = PayloadReader(payload);
    let ops = from.u32()?;
    from.end(ops)
}

/// The payload of an `R` frame.
pub(super) fn encode_back(mark: &BackMark) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u32(mark.reached);
    out.bytes(mark.reason.as_bytes());
    out.0
}

/// Reads an `R` frame.
pub(super) fn decode_back(payload: &[u8]) -> Option<BackMark> {
    let mut from = PayloadReader(payload);
    let mark = BackMark { reached: from.u32()?, reason: from.text()? };
    from.end(mark)
}

/// The payload of a `D` frame.
pub(super) fn encode_done(mark: &DoneMark) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u8(u8::from(mark.applied));
    out.list(&mark.left, |out, n| out.u32(*n));
    out.list(&mark.replaced, |out, n| out.u32(*n));
    out.0
}

/// Reads a `D` frame.
pub(super) fn decode_done(payload: &[u8]) -> Option<DoneMark> {
    let mut from = PayloadReader(payload);
    let mark = DoneMark {
        applied: from.flag()?,
        left: from.list(PayloadReader::u32)?,
        replaced: from.list(PayloadReader::u32)?,
    };
    from.end(mark)
}
