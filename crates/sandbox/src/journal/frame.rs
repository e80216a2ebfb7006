//! Frames: the pieces of a journal, each of which is whole or not there.
//!
//! A journal begins with [`MAGIC`]; each frame is `u32 length | u32 crc32c(kind, payload) | u8 kind |
//! payload`, little endian. An image is a run of `B` frames, each full but the last, so that its place and
//! length give the offset of every piece.
//!
//! # Invariants
//! 1. A frame that is short, too long, of no known kind or wrong in its sum is no frame. [`find_sound`] finds
//!    the next one behind it; [`super::log`] decides what that means.
//! 2. An error of the disk is an error, never the end of the journal. A reader that cannot read a commit mark
//!    must not conclude that there is none.
//! 3. Memory is bounded by [`PAYLOAD_BYTES_MAX`], whatever a length field says.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use domain::ZeroRun;
use domain::zero_runs;

use super::journal_file::JournalFile;

/// The first bytes of a journal.
pub(super) const MAGIC: &[u8; 8] = b"AGENTJ01";
/// The length limit of a payload.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 20;
/// The number of bytes of an image that one full frame holds.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// Length, sum and kind.
pub(super) const HEAD_BYTES: usize = 9;

const BUFFER_BYTES: usize = 256 << 10;

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// The header.
    Header,
    /// A piece of an image.
    Bytes,
    /// An op.
    Op,
    /// From here on the journal is carried out, or rolled back.
    Commit,
    /// The journal is being rolled back.
    Back,
    /// Nothing is left to be done to the user's files.
    Done,
    /// The header once more, with the number of ops, behind everything.
    HeaderCopy,
    /// An op once more.
    OpCopy,
}

impl FrameKind {
    const ALL: [FrameKind; 8] = [
        FrameKind::Header,
        FrameKind::Bytes,
        FrameKind::Op,
        FrameKind::Commit,
        FrameKind::Back,
        FrameKind::Done,
        FrameKind::HeaderCopy,
        FrameKind::OpCopy,
    ];

    const fn letter(self) -> u8 {
        match self {
            FrameKind::Header => b'H',
            FrameKind::Bytes => b'B',
            FrameKind::Op => b'O',
            FrameKind::Commit => b'C',
            FrameKind::Back => b'R',
            FrameKind::Done => b'D',
            FrameKind::HeaderCopy => b'h',
            FrameKind::OpCopy => b'o',
        }
    }

    fn of_letter(letter: u8) -> Option<FrameKind> {
        FrameKind::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}

fn sum(letter: u8, payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[letter]), payload)
}

/// A frame as bytes.
///
/// # Errors
/// The payload is longer than a reader would take.
pub(super) fn frame(kind: FrameKind, payload: &[u8]) -> io::Result<Vec<u8>> {
    let head = head(kind, payload)?;
    Ok([&head[..], payload].concat())
}

fn head(kind: FrameKind, payload: &[u8]) -> io::Result<[u8; HEAD_BYTES]> {
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= PAYLOAD_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "a frame is too long"))?;
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&sum(kind.letter(), payload).to_le_bytes());
    head[8] = kind.letter();
    Ok(head)
}

/// A run of `B` frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameSpan {
    /// The offset of the first frame.
    pub(super) at: u64,
    /// The length of the image in bytes.
    pub(super) len: u64,
}

impl FrameSpan {
    /// Returns the offset at which the frames end; `None` if it overflows.
    pub(super) fn end(&self) -> Option<u64> {
        let frames = self.len.div_ceil(PIECE_BYTES as u64);
        self.at.checked_add(self.len)?.checked_add(frames.checked_mul(HEAD_BYTES as u64)?)
    }
}

/// Appends frames, buffered.
pub(super) struct FrameWriter {
    out: BufWriter<JournalFile>,
    at: u64,
}

impl FrameWriter {
    /// Begins a journal in an empty file.
    pub(super) fn begin(file: JournalFile) -> io::Result<FrameWriter> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        out.write_all(MAGIC)?;
        Ok(FrameWriter { out, at: MAGIC.len() as u64 })
    }

    /// Appends one frame and says where it begins.
    pub(super) fn append(&mut self, kind: FrameKind, payload: &[u8]) -> io::Result<u64> {
        let at = self.at;
        self.out.write_all(&head(kind, payload)?)?;
        for run in zero_runs(payload) {
            match run {
                // A hole, which the frames behind it make: the file is new.
                ZeroRun::Zeros(zeros) if zeros.len() >= BUFFER_BYTES => {
                    self.out.flush()?;
                    let far = i64::try_from(zeros.len()).map_err(io::Error::other)?;
                    (&**self.out.get_ref()).seek_relative(far)?;
                }
                ZeroRun::Zeros(bytes) | ZeroRun::Other(bytes) => self.out.write_all(bytes)?,
            }
        }
        self.at += (HEAD_BYTES + payload.len()) as u64;
        Ok(at)
    }

    /// Appends an image, piece by piece.
    pub(super) fn append_image(&mut self, bytes: &mut dyn Read) -> io::Result<FrameSpan> {
        let mut span = FrameSpan { at: self.at, len: 0 };
        let mut piece = Vec::new();
        loop {
            piece.clear();
            bytes.take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            if !piece.is_empty() {
                self.append(FrameKind::Bytes, &piece)?;
                span.len += piece.len() as u64;
            }
            if piece.len() < PIECE_BYTES {
                return Ok(span);
            }
        }
    }

    /// Writes out what is buffered and gives the file back, with the place of its end.
    pub(super) fn finish(self) -> io::Result<(JournalFile, u64)> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file, self.at))
    }
}

/// Reads frames from the beginning.
pub(super) struct FrameReader<R> {
    from: R,
    at: u64,
    begun: bool,
}

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRead {
    /// The kind of its payload.
    pub(super) kind: FrameKind,
    /// The offset at which it begins.
    pub(super) at: u64,
    /// The offset at which the next frame would begin.
    pub(super) end: u64,
}

impl<'a> FrameReader<BufReader<&'a File>> {
    /// Reads a file from its present offset, which must be its beginning.
    pub(super) fn of_file(file: &'a File) -> Self {
        FrameReader::new(BufReader::with_capacity(BUFFER_BYTES, file))
    }
}

impl<'a> FrameReader<BufReader<&'a File>> {
    /// Reads a file from a place where a frame begins.
    pub(super) fn from_place(mut file: &'a File, at: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        let from = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(FrameReader { from, at, begun: true })
    }
}

impl<R: Read> FrameReader<R> {
    /// Reads from the beginning of a journal.
    pub(super) fn new(from: R) -> Self {
        FrameReader { from, at: 0, begun: false }
    }

    /// The next whole frame, its payload in `payload`; none at the end of what counts.
    pub(super) fn next(&mut self, payload: &mut Vec<u8>) -> io::Result<Option<FrameRead>> {
        if !self.begun {
            let mut magic = [0; MAGIC.len()];
            if !fill(&mut self.from, &mut magic)? || &magic != MAGIC {
                return Ok(None);
            }
            self.begun = true;
            self.at = MAGIC.len() as u64;
        }
        let mut head = [0; HEAD_BYTES];
        if !fill(&mut self.from, &mut head)? {
            return Ok(None);
        }
        let Some((kind, length, wanted)) = parse_head(&head) else { return Ok(None) };
        payload.clear();
        // Grows as bytes come, so that a wrong length costs no memory.
        (&mut self.from).take(length as u64).read_to_end(payload)?;
        if payload.len() < length || sum(kind.letter(), payload) != wanted {
            return Ok(None);
        }
        let at = self.at;
        self.at += (HEAD_BYTES + length) as u64;
        Ok(Some(FrameRead { kind, at, end: self.at }))
    }
}

fn parse_head(head: &[u8; HEAD_BYTES]) -> Option<(FrameKind, usize, u32)> {
    let [l0, l1, l2, l3, s0, s1, s2, s3, letter] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let kind = FrameKind::of_letter(letter)?;
    (length <= PAYLOAD_BYTES_MAX).then_some((kind, length, u32::from_le_bytes([s0, s1, s2, s3])))
}

/// The number of bytes that the search for a frame reads at once.
const WINDOW_BYTES: usize = 1 << 20;

/// The place of the first whole frame behind `from`, where there is none; none up to the end of the file.
pub(super) fn find_sound(file: &File, from: u64) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    // Mostly its bytes are wrong and its length is not: then the next one is where it should be. Bytes of a
    // user that look like a frame are not looked at.
    if let Some((_, payload, _)) = head_at(file, from, length)? {
        let next = from + (HEAD_BYTES + payload) as u64;
        if next < length && is_sound(file, next, length)? {
            return Ok(Some(next));
        }
    }
    let mut window = vec![0; WINDOW_BYTES + HEAD_BYTES];
    let mut at = from + 1;
    while at < length {
        let count = read_at_most(file, &mut window, at)?;
        let heads = window[..count].windows(HEAD_BYTES).take(WINDOW_BYTES);
        for (place, head) in (at..).zip(heads) {
            let is_head = head
                .try_into()
                .ok()
                .and_then(parse_head)
                .is_some_and(|(kind, length, _)| length <= PIECE_BYTES || kind == FrameKind::Done);
            if is_head && is_sound(file, place, length)? {
                return Ok(Some(place));
            }
        }
        at += WINDOW_BYTES as u64;
    }
    Ok(None)
}

fn head_at(file: &File, at: u64, length: u64) -> io::Result<Option<(FrameKind, usize, u32)>> {
    if at + HEAD_BYTES as u64 > length {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, at)?;
    Ok(parse_head(&head).filter(|(_, payload, _)| at + (HEAD_BYTES + payload) as u64 <= length))
}

fn is_sound(file: &File, at: u64, length: u64) -> io::Result<bool> {
    let Some((kind, size, wanted)) = head_at(file, at, length)? else { return Ok(false) };
    let mut payload = vec![0; size];
    file.read_exact_at(&mut payload, at + HEAD_BYTES as u64)?;
    Ok(sum(kind.letter(), &payload) == wanted)
}

fn read_at_most(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills the buffer; returns false if the end comes first.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads an image out of a journal, one piece in memory at a time.
pub(super) struct ImageReader<'a> {
    file: &'a File,
    at: u64,
    left: u64,
    piece: Vec<u8>,
    used: usize,
}

impl<'a> ImageReader<'a> {
    /// The image at `span`.
    pub(super) fn new(file: &'a File, span: FrameSpan) -> Self {
        ImageReader { file, at: span.at, left: span.len, piece: Vec::new(), used: 0 }
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "an image in the journal is damaged");
        let length = usize::try_from(self.left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut head = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, self.at)?;
        self.piece.resize(length, 0);
        self.file.read_exact_at(&mut self.piece, self.at + HEAD_BYTES as u64)?;
        let expected = (FrameKind::Bytes, length, sum(FrameKind::Bytes.letter(), &self.piece));
        if parse_head(&head) != Some(expected) {
            return Err(wrong());
        }
        self.used = 0;
        self.at += (HEAD_BYTES + length) as u64;
        self.left -= length as u64;
        Ok(())
    }
}

impl Read for ImageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() && self.left > 0 {
            self.next_piece()?;
        }
        let rest = self.piece.get(self.used..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}
