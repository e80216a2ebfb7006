//! A journal as a whole: what its frames say together, and the marks that are added to it.
//!
//! # Invariants
//! 1. The order is `H (B | O)* C R? D?`. The first frame that is out of order, or that names an op, a root or an image
//!    which is not there, ends what counts.
//! 2. A commit mark counts only when it names the number of ops that were read before it.
//! 3. A mark is appended behind what counts: whatever lay there, half a mark of a process that was killed, is cut off
//!    first.
//! 4. The file is locked as long as the log lives. Whoever has the lock is the only one who carries the journal out.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::change::Header;
use super::codec::{self, BackMark, DoneMark};
use super::file::JournalFile;
use super::frame::{self, FrameKind, FrameReader, ImageReader, Span};
use super::op::{Op, Saved};

/// How far a journal has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// No commit: nothing of the user's was touched.
    Open,
    /// It shall be carried out.
    Committed,
    /// It shall be taken back.
    Back(BackMark),
    /// It is over.
    Done(DoneMark),
}

/// A locked journal.
#[derive(Debug)]
pub(super) struct Log {
    /// The file, locked.
    pub(super) file: JournalFile,
    /// What it says about itself; none when not even that was written.
    pub(super) header: Option<Header>,
    /// What shall be done, in order.
    pub(super) ops: Arc<[Op]>,
    /// How far it has come.
    pub(super) mark: Mark,
    /// Where the next mark goes.
    pub(super) end: u64,
}

impl Log {
    /// Reads all that counts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read(file: JournalFile) -> io::Result<Log> {
        (&*file).seek(SeekFrom::Start(0))?;
        let mut reading = Reading::default();
        let mut frames = FrameReader::of_file(&file);
        let mut payload = Vec::new();
        let mut end = 0;
        while let Some(read) = frames.next(&mut payload)? {
            if reading.take(read.kind, read.at, &payload).is_none() {
                break;
            }
            end = read.end;
        }
        drop(frames);
        let Reading { header, ops, mark } = reading;
        Ok(Log { file, header, ops: ops.into(), mark, end })
    }

    /// Reads what the journal says about itself, and no further; none when that is not there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read_header(file: &File) -> io::Result<Option<Header>> {
        let mut payload = Vec::new();
        let first = FrameReader::of_file(file).next(&mut payload)?;
        let is_header = first.is_some_and(|read| read.kind == FrameKind::Header);
        Ok(is_header.then(|| codec::decode_header(&payload)).flatten())
    }

    /// Appends a mark and waits until it is on the disk.
    pub(super) fn append(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
        // Only when something lies there: cutting would give up the room that is set aside for marks.
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
    pub(super) fn image(&self, saved: &Saved) -> ImageReader<'_> {
        ImageReader::new(&self.file, saved.span.unwrap_or(Span { at: 0, len: 0 }))
    }
}

/// The frames so far.
struct Reading {
    header: Option<Header>,
    ops: Vec<Op>,
    mark: Mark,
}

impl Default for Reading {
    fn default() -> Self {
        Reading { header: None, ops: Vec::new(), mark: Mark::Open }
    }
}

impl Reading {
    /// One more frame, that begins at `at`; none when it does not belong here.
    fn take(&mut self, kind: FrameKind, at: u64, payload: &[u8]) -> Option<()> {
        match (kind, &self.mark, &self.header) {
            (FrameKind::Header, Mark::Open, None) => self.header = Some(codec::decode_header(payload)?),
            (FrameKind::Bytes, Mark::Open, Some(_)) => {}
            (FrameKind::Op, Mark::Open, Some(header)) => {
                let op = codec::decode_op(payload)?;
                self.check(header, &op, at)?;
                self.ops.push(op);
            }
            (FrameKind::Commit, Mark::Open, Some(_)) => {
                let count = codec::decode_commit(payload)?;
                self.mark = (count as usize == self.ops.len()).then_some(Mark::Committed)?;
            }
            (FrameKind::Back, Mark::Committed, Some(_)) => {
                let mark = codec::decode_back(payload)?;
                self.mark = (mark.reached as usize <= self.ops.len()).then_some(Mark::Back(mark))?;
            }
            (FrameKind::Done, Mark::Committed | Mark::Back(_), Some(_)) => {
                let mark = codec::decode_done(payload)?;
                let known = mark.left.iter().chain(&mark.replaced).all(|n| (*n as usize) < self.ops.len());
                self.mark = known.then_some(Mark::Done(mark))?;
            }
            (
                FrameKind::Header
                | FrameKind::Bytes
                | FrameKind::Op
                | FrameKind::Commit
                | FrameKind::Back
                | FrameKind::Done,
                Mark::Open | Mark::Committed | Mark::Back(_) | Mark::Done(_),
                _,
            ) => return None,
        }
        Some(())
    }

    fn check(&self, header: &Header, op: &Op, at: u64) -> Option<()> {
        let images = op.how.pre().into_iter().chain(op.how.post());
        let inside = |span: &Span| span.end().is_some_and(|end| end <= at);
        let sound = op.n as usize == self.ops.len()
            && header.roots.iter().any(|root| root.no == op.root)
            && op.cleared_by.is_none_or(|n| n < op.n)
            && images.filter_map(|saved| saved.span.as_ref()).all(inside);
        sound.then_some(())
    }
}
