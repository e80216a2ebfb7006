//! A journal as a whole: the joint content of its frames, and the marks that are added to it.
//!
//! # Damage
//! A frame may be wrong in any place: a bad block, a page that reads as zeros, a file that was cut. Header,
//! ops and the number of ops are stored twice. A reader joins all sound frames. Only if these are not
//! complete is the journal [`JournalIntegrity::Damaged`].
//!
//! # Invariants
//! 1. The order is `H (B | O)* o* h C R? D?`; journals of earlier versions have neither `o` nor `h`.
//! 2. Two frames that disagree are damage, never a choice. So is an op that names a root, an image or a name
//!    that is not the journal's.
//! 3. A mark behind damage counts only if nothing but sound frames follows it: bytes that look like one may
//!    be part of a user's file.
//! 4. A mark is appended behind the last frame that counts. Half a mark of a process that was killed is cut
//!    off first; if there is other damage nothing is cut off.
//! 5. The file is locked as long as the log exists. Only the process that has the lock carries the
//!    journal out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use domain::{Hash, RelPath, RootIndex};

use super::codec::{self, BackMark, DoneMark};
use super::content_links::{self, ContentLinks, LinkReader};
use super::frame::{self, FrameKind, FrameReader, FrameSpan, ImageReader};
use super::journal_file::JournalFile;
use super::op::{ByteSource, JournalOp, SavedState};
use super::request::JournalHeader;

/// The last mark of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// No commit that was found.
    Open,
    /// It shall be carried out.
    Committed,
    /// It is to be rolled back.
    Back(BackMark),
    /// It is over.
    Done(DoneMark),
}

/// The integrity of a journal's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalIntegrity {
    /// Its header and all its ops are there.
    Whole,
    /// It ends where nothing is wrong, and does not say how many ops it should have: it was being written.
    Begun,
    /// Something is missing, or contradicts itself.
    Damaged,
}

/// A locked journal.
#[derive(Debug)]
pub(super) struct JournalLog {
    /// The file, locked.
    pub(super) file: JournalFile,
    /// The header; `None` if not even that was written.
    pub(super) header: Option<JournalHeader>,
    /// The ops, in order.
    pub(super) ops: Arc<[JournalOp]>,
    /// The numbers of the ops of each path.
    pub(super) by_place: BTreeMap<(RootIndex, RelPath), Vec<u32>>,
    /// The progress of the journal.
    pub(super) mark: Mark,
    /// The offset of the next mark.
    pub(super) end: u64,
    /// The integrity of the journal.
    pub(super) wholeness: JournalIntegrity,
    /// The contents that it has outside of its own file.
    pub(super) links: ContentLinks,
    /// Contents that are not what their hashes say. Frames have sums, so a bad one is an error where it is
    /// wrong; a linked content has none, so all of it is.
    pub(super) bad: BTreeSet<Hash>,
}

/// Reads a content of a journal.
pub(super) enum ContentReader<'a> {
    /// From its frames.
    Inline(ImageReader<'a>),
    /// From a linked file.
    Linked(LinkReader),
    /// Not at all: it is known to be damaged.
    Bad,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ContentReader::Inline(reader) => reader.read(buffer),
            ContentReader::Linked(reader) => reader.read(buffer),
            ContentReader::Bad => Err(content_links::damaged()),
        }
    }
}

impl JournalLog {
    /// Reads all that counts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read(file: JournalFile, links: ContentLinks) -> io::Result<JournalLog> {
        (&*file).seek(SeekFrom::Start(0))?;
        let length = file.metadata()?.len();
        let mut reading = LogScan::default();
        let mut frames = FrameReader::of_file(&file);
        let mut payload = Vec::new();
        let mut end = 0;
        loop {
            while let Some(read) = frames.next(&mut payload)? {
                reading.take(read.kind, read.at, &payload);
                end = read.end;
            }
            if end >= length {
                break;
            }
            let Some(next) = frame::find_sound(&file, end)? else { break };
            reading.skip_damaged();
            frames = FrameReader::from_place(&file, next)?;
        }
        drop(frames);
        let is_cut = end < length;
        let (header, ops, mark, wholeness) = reading.summarize(is_cut);
        if wholeness == JournalIntegrity::Damaged {
            end = length;
        }
        Ok(JournalLog { wholeness, ..JournalLog::new(file, header, ops, mark, end, links) })
    }

    /// Makes a log from the parts that were read, or written.
    pub(super) fn new(
        file: JournalFile,
        header: Option<JournalHeader>,
        ops: Vec<JournalOp>,
        mark: Mark,
        end: u64,
        links: ContentLinks,
    ) -> JournalLog {
        let mut by_place: BTreeMap<(RootIndex, RelPath), Vec<u32>> = BTreeMap::new();
        for op in &ops {
            by_place.entry((op.root, op.path.clone())).or_default().push(op.n);
        }
        let (ops, wholeness, bad) = (ops.into(), JournalIntegrity::Whole, BTreeSet::new());
        JournalLog { file, header, ops, by_place, mark, end, wholeness, links, bad }
    }

    /// Reads what the journal says about itself, and no further; none when that is not there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read_header(file: &File) -> io::Result<Option<JournalHeader>> {
        let mut payload = Vec::new();
        let first = FrameReader::of_file(file).next(&mut payload)?;
        let is_header = first.is_some_and(|read| read.kind == FrameKind::Header);
        if is_header && let Some(header) = codec::decode_header(&payload) {
            return Ok(Some(header));
        }
        // It is damaged: it says so once more further on.
        let mut at = 0;
        while let Some(next) = frame::find_sound(file, at)? {
            let mut frames = FrameReader::from_place(file, next)?;
            at = next;
            while let Some(read) = frames.next(&mut payload)? {
                if read.kind == FrameKind::HeaderCopy
                    && let Some((_, header)) = codec::decode_header_copy(&payload)
                {
                    return Ok(Some(header));
                }
                at = read.end;
            }
        }
        Ok(None)
    }

    /// Appends a mark and waits until it is on the disk.
    pub(super) fn append(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        // Only if something is there: cutting would give up the space that is reserved for marks.
        if self.file.metadata()?.len() != self.end {
            self.file.set_len(self.end)?;
        }
        let frame = frame::frame(kind, payload)?;
        self.file.write_all_at(&frame, self.end)?;
        self.file.sync_data()?;
        self.end += frame.len() as u64;
        Ok(())
    }

    /// The bytes of an image; of one that was saved without bytes, none.
    pub(super) fn image(&self, saved: &SavedState) -> ContentReader<'_> {
        let hash = &saved.state.hash;
        match saved.bytes {
            Some(ByteSource::Linked) if self.bad.contains(hash) => ContentReader::Bad,
            Some(ByteSource::Linked) => ContentReader::Linked(self.links.read(hash, saved.state.size)),
            Some(ByteSource::Inline(span)) => ContentReader::Inline(ImageReader::new(&self.file, span)),
            None => ContentReader::Inline(ImageReader::new(&self.file, FrameSpan { at: 0, len: 0 })),
        }
    }

    /// Returns true if contents are linked.
    pub(super) fn has_links(&self) -> bool {
        let mut images = self.ops.iter().flat_map(|op| op.how.pre().into_iter().chain(op.how.post()));
        images.any(|saved| saved.bytes == Some(ByteSource::Linked))
    }
}

/// The frames so far.
#[derive(Default)]
struct LogScan {
    header: Option<JournalHeader>,
    ops: BTreeMap<u32, (JournalOp, u64)>,
    /// The number of ops that there should be.
    count: Option<u32>,
    marks: Vec<Mark>,
    /// Marks behind damage, which count if nothing wrong follows.
    marks_behind: Vec<Mark>,
    is_behind: bool,
    /// True if something does not go together.
    is_wrong: bool,
}

impl LogScan {
    /// One more frame, that begins at `at`.
    fn take(&mut self, kind: FrameKind, at: u64, payload: &[u8]) {
        let known = match kind {
            FrameKind::Header => codec::decode_header(payload).map(|header| self.take_header(header)),
            FrameKind::HeaderCopy => codec::decode_header_copy(payload).map(|(count, header)| {
                self.take_count(count);
                self.take_header(header);
            }),
            FrameKind::Bytes => Some(()),
            FrameKind::Op | FrameKind::OpCopy => codec::decode_op(payload).map(|op| self.take_op(op, at)),
            FrameKind::Commit => codec::decode_commit(payload).map(|count| {
                self.take_count(count);
                self.take_mark(Mark::Committed);
            }),
            FrameKind::Back => codec::decode_back(payload).map(|mark| self.take_mark(Mark::Back(mark))),
            FrameKind::Done => codec::decode_done(payload).map(|mark| self.take_mark(Mark::Done(mark))),
        };
        self.is_wrong |= known.is_none();
    }

    fn take_header(&mut self, header: JournalHeader) {
        match &self.header {
            Some(first) => self.is_wrong |= *first != header,
            None => self.header = Some(header),
        }
    }

    fn take_count(&mut self, count: u32) {
        self.is_wrong |= *self.count.get_or_insert(count) != count;
    }

    fn take_op(&mut self, op: JournalOp, at: u64) {
        match self.ops.get(&op.n) {
            Some((first, _)) => self.is_wrong |= *first != op,
            None => {
                self.ops.insert(op.n, (op, at));
            }
        }
    }

    fn take_mark(&mut self, mark: Mark) {
        let marks = if self.is_behind { &mut self.marks_behind } else { &mut self.marks };
        marks.push(mark);
    }

    /// Something wrong was passed over.
    fn skip_damaged(&mut self) {
        self.is_wrong |= !self.marks_behind.is_empty();
        self.is_behind = true;
    }

    /// Combines the frames. `is_cut` if something wrong follows the last of them.
    fn summarize(mut self, is_cut: bool) -> (Option<JournalHeader>, Vec<JournalOp>, Mark, JournalIntegrity) {
        // Marks between two places that are wrong may be real or not.
        self.is_wrong |= is_cut && !self.marks_behind.is_empty();
        if !is_cut {
            self.marks.append(&mut self.marks_behind);
        }
        let is_known =
            |op: &JournalOp, at: u64| self.header.as_ref().is_some_and(|header| check(header, op, at));
        self.is_wrong |= !self.ops.values().all(|(op, at)| is_known(op, *at));
        let in_order = (0_u32..).zip(self.ops.keys()).all(|(n, other)| n == *other);
        let has_all = self.count.is_some_and(|count| count as usize == self.ops.len()) && in_order;
        let ops: Vec<JournalOp> = self.ops.into_values().map(|(op, _)| op).collect();
        let rank = |mark: &Mark| match mark {
            Mark::Open => 0,
            Mark::Committed => 1,
            Mark::Back(_) => 2,
            Mark::Done(_) => 3,
        };
        let known = |mark: &Mark| match mark {
            Mark::Open | Mark::Committed => true,
            Mark::Back(back) => back.reached as usize <= ops.len(),
            Mark::Done(done) => done.left.iter().chain(&done.replaced).all(|n| (*n as usize) < ops.len()),
        };
        let mark = self.marks.into_iter().filter(known).max_by_key(rank).unwrap_or(Mark::Open);
        let wholeness = match (self.header.is_some(), has_all) {
            _ if self.is_wrong => JournalIntegrity::Damaged,
            (true, true) => JournalIntegrity::Whole,
            (_, _) if mark == Mark::Open && !self.is_behind && !is_cut => JournalIntegrity::Begun,
            (_, _) => JournalIntegrity::Damaged,
        };
        (self.header, ops, mark, wholeness)
    }
}

/// Returns true if an op, whose frame begins at `at`, names what is there, and is of this journal.
fn check(header: &JournalHeader, op: &JournalOp, at: u64) -> bool {
    let images = op.how.pre().into_iter().chain(op.how.post());
    let inside = |bytes: ByteSource| match bytes {
        ByteSource::Inline(span) => span.end().is_some_and(|end| end <= at),
        ByteSource::Linked => true,
    };
    let parked = format!(".agents-{}-{}", header.id, op.n);
    header.roots.iter().any(|root| root.no == op.root)
        && op.parked.file_name() == parked.as_bytes()
        && op.cleared_by.is_none_or(|n| n < op.n)
        && images.filter_map(|saved| saved.bytes).all(inside)
}
