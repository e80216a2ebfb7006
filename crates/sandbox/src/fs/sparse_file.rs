//! Files with holes: ranges that read as zeros and take no room.
//!
//! # Invariants
//! 1. The bytes that are read and written are the same, whether a file system knows holes or not.
//! 2. A hole is neither read nor, where the written file has one too, written.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use domain::ZeroRun;
use domain::zero_runs;
use rustix::fs::{SeekFrom, Stat};
use rustix::io::Errno;

/// Reads a file from its beginning.
#[derive(Debug)]
pub(crate) struct SparseReader<'a> {
    file: &'a File,
    at: u64,
    range: FileExtent,
}

/// The kind of the bytes up to a place in the file.
#[derive(Clone, Copy, Debug)]
enum FileExtent {
    Data { end: u64 },
    Hole { end: u64 },
}

impl<'a> SparseReader<'a> {
    /// Reads this file, of which `stat` is the record.
    #[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
    pub(crate) fn new(file: &'a File, stat: &Stat) -> SparseReader<'a> {
        const UNIT_BYTES: i64 = 512;
        let may_have_holes = (stat.st_blocks as i64).saturating_mul(UNIT_BYTES) < stat.st_size as i64;
        let end = if may_have_holes { 0 } else { u64::MAX };
        SparseReader { file, at: 0, range: FileExtent::Data { end } }
    }

    /// Returns the extent that begins here. If that cannot be determined, everything is read.
    fn next_extent(&self) -> io::Result<FileExtent> {
        let seek = |to: SeekFrom| rustix::fs::seek(self.file, to);
        Ok(match seek(SeekFrom::Data(self.at)) {
            Ok(data) if data > self.at => FileExtent::Hole { end: data },
            // A hole that was made meanwhile has no data before it: it is read as what it is, zeros.
            Ok(_) => match seek(SeekFrom::Hole(self.at)) {
                Ok(hole) if hole > self.at => FileExtent::Data { end: hole },
                Ok(_) | Err(_) => FileExtent::Data { end: u64::MAX },
            },
            // Nothing but a hole, or the end of the file.
            Err(Errno::NXIO) => match self.file.metadata()?.len() {
                end if end > self.at => FileExtent::Hole { end },
                _ => FileExtent::Data { end: u64::MAX },
            },
            Err(_) => FileExtent::Data { end: u64::MAX },
        })
    }
}

impl Read for SparseReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (FileExtent::Data { end } | FileExtent::Hole { end }) = self.range;
        if self.at >= end {
            self.range = self.next_extent()?;
        }
        let (FileExtent::Data { end } | FileExtent::Hole { end }) = self.range;
        let most = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let part = &mut buffer[..most];
        let read = match self.range {
            FileExtent::Data { .. } => self.file.read_at(part, self.at)?,
            FileExtent::Hole { .. } => {
                part.fill(0);
                part.len()
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Writes bytes at a place that begins a block, but no zeros into a hole. The caller sets the length of the
/// file in the end.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let mut at = at;
    for run in zero_runs(bytes) {
        let length = match run {
            ZeroRun::Zeros(zeros) => {
                if !is_hole(file, at, zeros.len() as u64) {
                    file.write_all_at(zeros, at)?;
                }
                zeros.len()
            }
            ZeroRun::Other(bytes) => {
                file.write_all_at(bytes, at)?;
                bytes.len()
            }
        };
        at += length as u64;
    }
    Ok(())
}

/// Returns true if there is no data in this range, or the file ends before it.
fn is_hole(file: impl AsFd, at: u64, length: u64) -> bool {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data >= at.saturating_add(length),
        Err(errno) => errno == Errno::NXIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_is_read_and_written_as_if_it_were_full() {
        let dir = tempfile::TempDir::new().unwrap();
        let file =
            File::options().read(true).write(true).create_new(true).open(dir.path().join("f")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"here", 300_000).unwrap();
        file.write_all_at(&[7; 5000], (1 << 20) - 9000).unwrap();
        let read = |file: &File| {
            let mut bytes = Vec::new();
            let stat = rustix::fs::fstat(file).unwrap();
            SparseReader::new(file, &stat).read_to_end(&mut bytes).unwrap();
            bytes
        };
        let expected = std::fs::read(dir.path().join("f")).unwrap();
        assert_eq!(read(&file), expected);
        // Over other data every zero counts.
        let other =
            File::options().read(true).write(true).create_new(true).open(dir.path().join("g")).unwrap();
        other.write_all_at(&[1; 1 << 19], 4096).unwrap();
        write_all_at(&other, &expected, 0).unwrap();
        other.set_len(expected.len() as u64).unwrap();
        assert_eq!(std::fs::read(dir.path().join("g")).unwrap(), expected);
        assert_eq!(read(&other), expected);
    }
}
