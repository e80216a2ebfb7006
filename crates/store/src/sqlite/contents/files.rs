//! The files of large contents: `contents/ab/cd…`, named by their hash.
//!
//! # Invariants
//! 1. A file is written under another name and takes its place by a rename. Files have mode 0600, directories
//!    0700.
//! 2. Zeros take no room: they are left out, where the file system knows holes.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use domain::zero_runs;
use domain::{Hash, ZeroRun};

use crate::{STAGED_KEPT, StoreError};

/// The prefix of the names of files that do not have their place yet.
const BESIDE: &str = "new-";

/// The number of bytes that are read at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// The directory of large contents.
#[derive(Clone)]
pub(in crate::sqlite) struct ContentFiles {
    dir: Arc<Path>,
}

/// A content that is written and has not taken its place yet; dropped, it is removed.
pub(super) struct WrittenContent {
    pub(super) hash: Hash,
    pub(super) size: u64,
    beside: PathBuf,
    place: PathBuf,
}

impl ContentFiles {
    pub(in crate::sqlite) fn new(dir: PathBuf) -> Self {
        Self { dir: dir.into() }
    }

    pub(super) fn place(&self, hash: &Hash) -> PathBuf {
        let digits = hash.to_string();
        let (first, rest) = digits.split_at(2);
        self.dir.join(first).join(rest)
    }

    /// Writes `head` and then all that the reader gives.
    pub(super) fn write_beside(&self, head: &[u8], reader: &mut dyn Read) -> io::Result<WrittenContent> {
        let (file, beside) = self.create_beside()?;
        let mut written =
            WrittenContent { hash: Hash::from_content(&[]), size: 0, beside, place: PathBuf::new() };
        let mut hasher = blake3::Hasher::new();
        let mut reader = head.chain(reader);
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        // Whole chunks, so that each begins at a block.
        while reader.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk)? > 0 {
            hasher.update(&chunk);
            let mut at = written.size;
            for run in zero_runs(&chunk) {
                let bytes = match run {
                    ZeroRun::Zeros(zeros) => zeros,
                    ZeroRun::Other(bytes) => {
                        file.write_all_at(bytes, at)?;
                        bytes
                    }
                };
                at += bytes.len() as u64;
            }
            written.size = at;
            chunk.clear();
        }
        file.set_len(written.size)?;
        written.hash = Hash::from_bytes(*hasher.finalize().as_bytes());
        written.place = self.place(&written.hash);
        Ok(written)
    }

    fn create_beside(&self) -> io::Result<(File, PathBuf)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        make_dir(&self.dir)?;
        loop {
            let name = format!("{BESIDE}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let beside = self.dir.join(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside) {
                Ok(file) => return Ok((file, beside)),
                // Left by an earlier process of this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn open(&self, hash: &Hash) -> io::Result<File> {
        open_regular(&self.place(hash))
    }

    /// Removes a content; one that is not there is removed already.
    pub(super) fn remove(&self, hash: &Hash) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.place(hash)))
    }

    /// Makes sure that these are on the disk, by their content and by their names. One that is missing cannot
    /// be.
    pub(super) fn sync(&self, hashes: BTreeSet<Hash>) -> io::Result<()> {
        let mut dirs = BTreeSet::new();
        for hash in hashes {
            let place = self.place(&hash);
            absent_is_fine(open_regular(&place).and_then(|file| file.sync_all()))?;
            dirs.extend(place.parent().map(Path::to_owned));
        }
        if !dirs.is_empty() {
            dirs.insert(self.dir.to_path_buf());
            dirs.extend(self.dir.parent().map(Path::to_owned));
        }
        dirs.iter().try_for_each(|dir| absent_is_fine(File::open(dir).and_then(|dir| dir.sync_all())))
    }

    /// Removes what killed processes left half-written, as seen at this wall time in milliseconds.
    pub(super) fn remove_left_over(&self, now_ms: u64) -> io::Result<()> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().starts_with(BESIDE.as_bytes()) {
                continue;
            }
            // One that took its place, or went, since it was listed.
            let Ok(metadata) = entry.metadata() else { continue };
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            if modified.saturating_add(STAGED_KEPT).as_millis() < u128::from(now_ms) {
                absent_is_fine(fs::remove_file(entry.path()))?;
            }
        }
        Ok(())
    }
}

impl WrittenContent {
    /// Puts the content under its hash.
    pub(super) fn take_place(self) -> io::Result<()> {
        let is_there = fs::metadata(&self.place).is_ok_and(|known| known.len() == self.size);
        if is_there {
            return Ok(());
        }
        self.place.parent().map_or(Ok(()), make_dir)?;
        fs::rename(&self.beside, &self.place)
    }
}

impl Drop for WrittenContent {
    fn drop(&mut self) {
        // Gone when it took its place; else what is left is removed by a later collect.
        let _ = fs::remove_file(&self.beside);
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Opens a content. Something else in its place, such as a pipe, is not waited for.
fn open_regular(path: &Path) -> io::Result<File> {
    match fs::symlink_metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a regular file", path.display()),
        )),
    }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// An error of the file system in the store's words.
pub(super) fn said(error: &io::Error) -> StoreError {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        StoreError::Full
    } else {
        StoreError::Broken { why: format!("a content could not be stored: {error}") }
    }
}
