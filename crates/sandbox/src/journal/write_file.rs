//! Writes bytes into files: in place where that is possible, else into a new file that is swapped in.
//!
//! # Invariants
//! 1. A file gets new bytes only after its present ones were found to be the expected ones, through the same
//!    descriptor. If the kernel grants a write lease, no other process has the file open meanwhile, and a
//!    process that opens it waits.
//! 2. In place, a file is at every moment `new[..k]` followed by the old bytes from `k` on. Or it is a
//!    beginning of `new` that is longer than the old bytes. Pieces are written from the front, and the end is
//!    cut last.
//! 3. A swap loses nothing: the old file is compared after it, and swapped back if it was not the one
//!    expected.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::attributes;
use super::attributes::NewFileOwner;
use super::frame::PIECE_BYTES;
use super::hooks::{HookPoint, JournalStep};
use super::observe_file::{ContentStamp, EntryLocation, ObservedKind, OpError, observe, permission_bits};
use super::op::{JournalOp, SavedState};
use super::replay::JournalReplay;
use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};
use crate::fs::sparse_file;

/// The source of bytes to be written.
#[derive(Clone, Copy)]
pub(super) enum WriteSource<'a> {
    /// An image of the journal.
    Image(&'a SavedState),
    /// Memory.
    Bytes(&'a [u8]),
}

impl WriteSource<'_> {
    fn stamp(&self) -> ContentStamp {
        match self {
            WriteSource::Image(saved) => ContentStamp::of_state(&saved.state),
            WriteSource::Bytes(bytes) => ContentStamp::of_bytes(bytes),
        }
    }
}

/// The treatment of a file that turned out to have been renamed or replaced while it was written.
#[derive(Clone, Copy)]
pub(super) enum ReplacedFilePolicy<'a> {
    /// Give it these bytes back: whatever its name is now, it should not have been written.
    PutBack(&'a SavedState),
    /// Nothing: what it had was half written.
    Leave,
}

impl JournalReplay {
    /// Gives the file at the op's path other bytes, if its present ones are the expected ones.
    pub(super) fn rewrite(
        &mut self,
        op: &JournalOp,
        expected: ContentStamp,
        source: WriteSource<'_>,
        mistake: ReplacedFilePolicy<'_>,
    ) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let root = self.roots.get(op.root)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match beneath::open(root, &op.path, flags, Mode::empty(), LinkPolicy::Refuse) {
            Ok(file) => self.write_in_place(op, File::from(file), expected, source, mistake),
            Err(BeneathError::Escapes { .. }) => Err(OpError::Escapes),
            Err(BeneathError::Io { source: error, .. }) => match Errno::from_io_error(&error) {
                Some(Errno::TXTBSY | Errno::ACCESS) => self.replace(op, expected, source),
                Some(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO) => Err(OpError::Changed),
                _ => Err(error.into()),
            },
        }
    }

    fn write_in_place(
        &mut self,
        op: &JournalOp,
        file: File,
        expected: ContentStamp,
        source: WriteSource<'_>,
        mistake: ReplacedFilePolicy<'_>,
    ) -> Result<(), OpError> {
        let before = file.metadata()?;
        if !before.is_file() {
            return Err(OpError::Changed);
        }
        let lease = WriteLease::take(&file);
        let inode = (before.dev(), before.ino());
        let now = ContentStamp::of_file(&file)?;
        if now != expected {
            // Another name of a file that this journal has just given the same bytes.
            let done = now == source.stamp() && self.written.contains(&inode);
            return if done { Ok(()) } else { Err(OpError::Changed) };
        }
        let capabilities = self.capabilities_to_keep(op, file.as_fd())?;
        self.op_step(op, HookPoint::Checked)?;
        self.written.insert(inode);
        self.write_contents(op, source, &file)?;
        // Writing takes set-user-id bits and capabilities away; a predecessor may have been killed before it
        // put them back.
        let mode = self.mode_to_keep(op, permission_bits(before.mode()));
        let put_back = || {
            attributes::set_mode(file.as_fd(), mode)?;
            capabilities.as_ref().map_or(Ok(()), |value| attributes::put_capabilities(file.as_fd(), value))
        };
        put_back()?;
        self.op_step(op, HookPoint::Verify)?;
        let now = observe(self.roots.get(op.root)?, &op.path)?;
        drop(lease);
        if now.is_some_and(|seen| seen.inode == inode) {
            return Ok(());
        }
        match mistake {
            ReplacedFilePolicy::PutBack(saved) => {
                self.write_contents(op, WriteSource::Image(saved), &file)?;
                put_back()?;
            }
            ReplacedFilePolicy::Leave => {}
        }
        Err(OpError::Changed)
    }

    /// Writes all bytes of the source from the front, then gives the file their length. Zeros are not written
    /// into holes: a file that ends before them has them when it gets its length.
    pub(super) fn write_contents(
        &self,
        op: &JournalOp,
        source: WriteSource<'_>,
        file: &File,
    ) -> io::Result<()> {
        let (mut image, mut bytes);
        let from: &mut dyn Read = match source {
            WriteSource::Image(saved) => {
                image = self.log.image(saved);
                &mut image
            }
            WriteSource::Bytes(slice) => {
                bytes = slice;
                &mut bytes
            }
        };
        let mut piece = Vec::new();
        let mut at = 0;
        loop {
            piece.clear();
            (&mut *from).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            if !piece.is_empty() {
                self.op_step(op, HookPoint::Piece)?;
                sparse_file::write_all_at(file, &piece, at)?;
                at += piece.len() as u64;
            }
            if piece.len() < PIECE_BYTES {
                break;
            }
        }
        match file.metadata()?.len().cmp(&at) {
            Ordering::Less => file.set_len(at),
            Ordering::Equal => Ok(()),
            Ordering::Greater => {
                self.op_step(op, HookPoint::Cut)?;
                file.set_len(at)
            }
        }
    }

    /// Replaces a file that cannot be written (a running program, a read-only file) or must not be written
    /// (it has other names). The old one stays parked until the final mark.
    pub(super) fn replace(
        &mut self,
        op: &JournalOp,
        expected: ContentStamp,
        source: WriteSource<'_>,
    ) -> Result<(), OpError> {
        let root = self.roots.get(op.root)?;
        let seen = observe(root, &op.path)?
            .filter(|seen| seen.kind == ObservedKind::File)
            .ok_or(OpError::Changed)?;
        let old = seen.open_file()?;
        if ContentStamp::of_file(&old)? != expected {
            return Err(OpError::Changed);
        }
        self.op_step(op, HookPoint::Checked)?;
        let spot = EntryLocation::open(root, &op.path)?;
        let parked = EntryLocation::open(root, &op.parked)?;
        let new = stage(&parked)?;
        self.write_contents(op, source, &new)?;
        let worn = attributes::read(seen.handle.as_fd())?;
        attributes::apply_attributes(new.as_fd(), NewFileOwner::As(&worn), seen.mode)?;
        self.op_step(op, HookPoint::Swap)?;
        self.replaced.insert(op.n);
        if !swap(&parked, &spot)? {
            // This file system cannot swap: the moment between the comparison and the rename stays open.
            if ContentStamp::of_file(&old)? != expected {
                parked.unlink()?;
                return Err(OpError::Changed);
            }
            rustix::fs::renameat(&parked.parent, parked.name.as_c_str(), &spot.parent, spot.name.as_c_str())?;
            return Ok(());
        }
        self.op_step(op, HookPoint::Swapped)?;
        let out = observe(self.roots.get(op.root)?, &op.parked)?;
        let is_old =
            out.is_some_and(|out| out.inode == seen.inode) && ContentStamp::of_file(&old)? == expected;
        if is_old {
            return Ok(());
        }
        swap(&parked, &spot)?;
        parked.unlink()?;
        Err(OpError::Changed)
    }

    /// Makes a file where nothing is. It appears with all its bytes, its owner and its mode.
    pub(super) fn create_file(&mut self, op: &JournalOp, saved: &SavedState) -> Result<(), OpError> {
        self.op_step(op, HookPoint::Begin)?;
        let root = self.roots.get(op.root)?;
        let spot = open_spot(EntryLocation::open(root, &op.path))?;
        let owner =
            saved.attributes.as_ref().map_or(NewFileOwner::OfDirectory(&spot.parent), NewFileOwner::As);
        let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&spot.parent, c".", nameless, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let file = File::from(file);
                self.write_contents(op, WriteSource::Image(saved), &file)?;
                attributes::apply_attributes(file.as_fd(), owner, saved.state.mode)?;
                self.op_step(op, HookPoint::Swap)?;
                let name = format!("/proc/self/fd/{}", file.as_raw_fd());
                let flags = AtFlags::SYMLINK_FOLLOW;
                map_occupied(rustix::fs::linkat(CWD, name, &spot.parent, spot.name.as_c_str(), flags))
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let parked = EntryLocation::open(root, &op.parked)?;
                let file = stage(&parked)?;
                self.write_contents(op, WriteSource::Image(saved), &file)?;
                attributes::apply_attributes(file.as_fd(), owner, saved.state.mode)?;
                self.op_step(op, HookPoint::Swap)?;
                move_in(&parked, &spot).inspect_err(|_| drop(parked.unlink()))
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Maps a missing parent to [`OpError::Changed`]: another process removed it.
pub(super) fn open_spot(spot: Result<EntryLocation, OpError>) -> Result<EntryLocation, OpError> {
    match spot {
        Err(OpError::Io(error))
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Err(OpError::Changed)
        }
        other => other,
    }
}

/// A new file at a parked name. A file that was there was staged by a process that was killed.
fn stage(parked: &EntryLocation) -> Result<File, OpError> {
    parked.unlink()?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file: OwnedFd = rustix::fs::openat(&parked.parent, parked.name.as_c_str(), flags, mode)?;
    Ok(File::from(file))
}

fn map_occupied(result: rustix::io::Result<()>) -> Result<(), OpError> {
    match result {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(OpError::Changed),
        Err(errno) => Err(errno.into()),
    }
}

/// Exchanges the entries at the two names; returns false if the file system cannot.
pub(super) fn swap(a: &EntryLocation, b: &EntryLocation) -> Result<bool, OpError> {
    let (from, to) = (a.name.as_c_str(), b.name.as_c_str());
    match rustix::fs::renameat_with(&a.parent, from, &b.parent, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(Errno::NOENT) => Err(OpError::Changed),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves the entry at `from` to `to`, where nothing may be.
pub(super) fn move_in(from: &EntryLocation, to: &EntryLocation) -> Result<(), OpError> {
    let (old, new) = (from.name.as_c_str(), to.name.as_c_str());
    match rustix::fs::renameat_with(&from.parent, old, &to.parent, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL) => {
            map_occupied(rustix::fs::linkat(&from.parent, old, &to.parent, new, AtFlags::empty()))?;
            from.unlink()
        }
        result => map_occupied(result),
    }
}

/// A write lease: as long as it is held, no other process opens the file. Not granted if another process has
/// it open, or on a file system without leases. Then the comparison and the write have a moment between them.
struct WriteLease<'a>(Option<&'a File>);

impl<'a> WriteLease<'a> {
    fn take(file: &'a File) -> WriteLease<'a> {
        let fd = file.as_raw_fd();
        // A process that opens the file makes the kernel send us a signal. SIGIO would end the process.
        // SIGURG is ignored unless a handler is installed, so no handler of the process has to be changed.
        // SAFETY: fcntl on a descriptor that `file` holds open; it takes integers only.
        let told = unsafe { libc::fcntl(fd, SET_SIGNAL, libc::SIGURG) } == 0;
        // SAFETY: as above.
        let granted = told && unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } == 0;
        WriteLease(granted.then_some(file))
    }
}

/// `F_SETSIG`, which the libc crate does not name for every target.
const SET_SIGNAL: libc::c_int = 10;

impl Drop for WriteLease<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            // SAFETY: fcntl on a descriptor that the borrowed file holds open; it takes integers only.
            // Closing the file would end the lease too, so a failure costs nothing.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
        }
    }
}

impl JournalReplay {
    /// Announces how far an op is.
    pub(super) fn op_step(&self, op: &JournalOp, at: HookPoint) -> io::Result<()> {
        self.journals.hooks.step(JournalStep::Op { n: op.n, at })
    }
}
