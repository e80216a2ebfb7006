//! Reads the file at a path, and checks that the user's file there is the base of the plan.
//!
//! # Invariants
//! A file that cannot be read does not keep the others from being captured: it is reported with
//! [`UNKNOWN_CONTENT`]. That a content cannot be stored, for want of space above all, is no fault of its
//! file, and fails the scan.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use domain::{Base, FileState, Hash, Kind, RelPath};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{CaptureError, CaptureRoot, ScanContext, ScanSource, ScannedPath};
use crate::content::ContentSink;
use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};
use crate::fs::listing::{is_absent, kind_of, open_readable, permission_bits, stat_beneath};
use crate::fs::sparse_file::SparseReader;
use crate::open::baseline::Timestamp;

/// The hash of a content that was never read. As a base, which then is [`Base::Moved`]: a content that was
/// overwritten in the user's own tree, or an original that we may not read. As the present content: a file
/// that we cannot read.
pub const UNKNOWN_CONTENT: Hash = Hash::from_bytes([0; 32]);

/// The owner of the file that is read: the user or the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// The user's: as its permissions allow.
    Users,
    /// The plan's: whatever its permissions say.
    Plans,
}

/// Stores the content at a path; returns its state, and its record, taken after the content was read.
///
/// `None` if there is nothing, or an entry that is never captured.
pub(crate) fn read_state(
    root: BorrowedFd<'_>,
    path: &RelPath,
    whose: FileOwner,
    sink: &dyn ContentSink,
    max_file_bytes: u64,
) -> Result<Option<(FileState, Stat)>, CaptureError> {
    let failed = |source: BeneathError| match whose {
        FileOwner::Users => CaptureError::Original { source },
        FileOwner::Plans => CaptureError::Sandbox { source },
    };
    let unreadable = |source: io::Error| failed(BeneathError::Io { path: path.clone(), source });
    let held =
        match beneath::open(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), LinkPolicy::Refuse) {
            Ok(held) => held,
            Err(why) if is_absent(&why) => return Ok(None),
            Err(why) => return Err(failed(why)),
        };
    let stat = rustix::fs::fstat(&held).map_err(|errno| unreadable(errno.into()))?;
    let mode = permission_bits(stat.st_mode);
    match kind_of(&stat) {
        FileType::Directory => Ok(Some((FileState::dir(mode), stat))),
        FileType::Symlink => {
            let target =
                rustix::fs::readlinkat(&held, c"", Vec::new()).map_err(|errno| unreadable(errno.into()))?;
            let mut bytes = target.as_bytes();
            sink.store(&mut bytes).map_err(|source| CaptureError::Content { path: path.clone(), source })?;
            Ok(Some((FileState::symlink(target.as_bytes()), stat)))
        }
        FileType::RegularFile => {
            let opened = match whose {
                FileOwner::Users => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                    beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse)
                }
                FileOwner::Plans => open_readable(root, path, OFlags::RDONLY),
            };
            let file = match opened {
                Ok(file) => File::from(file),
                Err(why) if is_absent(&why) => return Ok(None),
                Err(why) => return Err(failed(why)),
            };
            let mut reading = FailureTrackingReader { file: SparseReader::new(&file, &stat), failed: false };
            let kept = store_content(&mut reading, &stat, sink, max_file_bytes);
            let (hash, size, text) = kept.map_err(|source| match reading.failed {
                true => unreadable(source),
                false => CaptureError::Content { path: path.clone(), source },
            })?;
            let after = rustix::fs::fstat(file.as_fd()).map_err(|errno| unreadable(errno.into()))?;
            Ok(Some((FileState { kind: Kind::File, mode, size, hash, text }, after)))
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(None),
    }
}

/// A file being read, which remembers whether it was the reading that failed.
struct FailureTrackingReader<'a> {
    file: SparseReader<'a>,
    failed: bool,
}

impl Read for FailureTrackingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        self.failed = read.as_ref().is_err_and(|why| why.kind() != io::ErrorKind::Interrupted);
        read
    }
}

/// Returns the state of a file whose content was not read.
fn unread_state(kind: Kind, mode: u16, size: u64) -> FileState {
    FileState { kind, mode, size, hash: UNKNOWN_CONTENT, text: false }
}

/// Returns the state of a file that cannot be read, if that is a matter of this one file; else the error.
pub(super) fn state_if_unreadable(
    why: CaptureError,
    stat: Option<&Stat>,
) -> Result<Option<FileState>, CaptureError> {
    let of_this_file = match &why {
        CaptureError::Sandbox { source } | CaptureError::Original { source } => is_of_one_file(source),
        CaptureError::Content { .. } => false,
    };
    match (of_this_file, stat) {
        (true, Some(stat)) => Ok(known_unread(stat)),
        (true, None) | (false, _) => Err(why),
    }
}

fn known_unread(stat: &Stat) -> Option<FileState> {
    let (mode, size) = (permission_bits(stat.st_mode), u64::try_from(stat.st_size).unwrap_or(0));
    match kind_of(stat) {
        FileType::Directory => Some(FileState::dir(mode)),
        FileType::RegularFile => Some(unread_state(Kind::File, mode, size)),
        FileType::Symlink => Some(unread_state(Kind::Symlink, mode, size)),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => None,
    }
}

/// Returns true if the system said no to this file, and not to us altogether.
pub(super) fn is_of_one_file(why: &BeneathError) -> bool {
    let BeneathError::Io { source, .. } = why else { return false };
    matches!(
        Errno::from_io_error(source),
        Some(
            Errno::ACCESS
                | Errno::PERM
                | Errno::IO
                | Errno::STALE
                | Errno::NXIO
                | Errno::BADMSG
                | Errno::UCLEAN
        )
    )
}

/// Streams a content into the sink. Nothing is read of one that is too large: a sparse file may have more
/// bytes than can ever be read.
fn store_content(
    file: &mut FailureTrackingReader<'_>,
    stat: &Stat,
    sink: &dyn ContentSink,
    max_file_bytes: u64,
) -> io::Result<(Hash, u64, bool)> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size <= max_file_bytes {
        // The size that a file reports need not be true.
        let kept = sink.store(&mut file.take(max_file_bytes.saturating_add(1)))?;
        if kept.size <= max_file_bytes {
            return Ok((kept.hash, kept.size, kept.text));
        }
    }
    let size = size.max(max_file_bytes.saturating_add(1));
    Ok((mark_of_unread(size, stat), size, false))
}

/// Returns a mark in place of the hash of a content that was too large to be read. It differs if the file was
/// written since, by its size and time, and is the hash of no content.
fn mark_of_unread(size: u64, stat: &Stat) -> Hash {
    let modified = Timestamp::modified(stat);
    Hash::from_content(format!("a content that was not read: {size} bytes, of {modified:?}").as_bytes())
}

/// A path is met for the first time: what the user has there, and whether that is what the plan saw.
pub(super) fn observe_first(
    root: &CaptureRoot,
    path: &RelPath,
    scan: ScanContext<'_>,
) -> Result<ScannedPath, CaptureError> {
    let manifest = match &root.changes {
        ScanSource::InPlace(manifest) => return Ok(in_place(manifest.get(path))),
        ScanSource::Copy(manifest) => Some(manifest),
        ScanSource::Upper(_) => None,
    };
    let original = root.original.as_fd();
    let read = match read_state(original, path, FileOwner::Users, scan.sink, scan.rules.max_file_bytes) {
        Ok(read) => read,
        Err(why) => {
            let stat = stat_beneath(original, path).ok().flatten();
            return Ok(ScannedPath::first(state_if_unreadable(why, stat.as_ref())?, Base::Moved));
        }
    };
    // A file that only one of the copy and the user's tree has is not what the plan saw.
    let as_copied = manifest.is_none_or(|manifest| manifest.get(path).is_some() == read.is_some());
    let Some((state, stat)) = read else {
        return Ok(ScannedPath::first(None, if as_copied { Base::Known } else { Base::Moved }));
    };
    let unchanged = match state.kind {
        Kind::Dir => scan.opened.same_directory(original, path, &stat),
        Kind::File | Kind::Symlink => scan.opened.unchanged(original, path, &stat),
    };
    Ok(ScannedPath::first(Some(state), if unchanged && as_copied { Base::Known } else { Base::Moved }))
}

/// In the user's own tree what was there is overwritten by the time it is looked for.
fn in_place(stamp: Option<&crate::fs::listing::FileStamp>) -> ScannedPath {
    let Some(stamp) = stamp else { return ScannedPath::first(None, Base::Known) };
    let lost = |kind| unread_state(kind, stamp.mode(), stamp.size());
    match stamp.kind() {
        FileType::Directory => ScannedPath::first(Some(FileState::dir(stamp.mode())), Base::Known),
        FileType::RegularFile => ScannedPath::first(Some(lost(Kind::File)), Base::Moved),
        FileType::Symlink => ScannedPath::first(Some(lost(Kind::Symlink)), Base::Moved),
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => ScannedPath::first(None, Base::Known),
    }
}
