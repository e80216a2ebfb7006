//! Reads owner, group and extended attributes, and sets them on a new file.
//!
//! # Invariants
//! What may not be put on (another owner without privilege, a label that policy refuses) is left off, never
//! an error: the content matters more. Capabilities of a file that is edited or moved are the exception:
//! without the right to set them nothing is begun.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::CapabilitySet;

use super::observe_file::permission_bits;
use super::request::Attributes;

/// The most bytes of attributes that are stored of one file.
const EXTENDED_BYTES_MAX: usize = 1 << 20;

/// A name for an open file that takes calls which refuse `O_PATH`.
fn name_of(handle: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Owner and attributes of what is open, be it by `O_PATH`. Of a link there are none but the owner.
pub(crate) fn read(handle: BorrowedFd<'_>) -> io::Result<Attributes> {
    let stat = rustix::fs::fstat(handle)?;
    let is_link = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink;
    let extended = if is_link { Vec::new() } else { read_extended(&name_of(handle))? };
    Ok(Attributes { uid: stat.st_uid, gid: stat.st_gid, extended })
}

fn read_extended(path: &str) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let length = match rustix::fs::listxattr_query(path) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    if length == 0 {
        return Ok(Vec::new());
    }
    let mut names = vec![0_u8; length];
    let length = rustix::fs::listxattr(path, &mut names[..])?;
    let mut extended = Vec::new();
    let mut total = 0;
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Some(value) = read_one(path, name)? else { continue };
        total += name.len() + value.len();
        if total > EXTENDED_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many extended attributes"));
        }
        extended.push((name.to_vec(), value));
    }
    Ok(extended)
}

/// The value of one attribute; none when it is gone, or not for us to read.
fn read_one(path: &str, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let name = CString::new(name)?;
    let mut value = vec![0_u8; 64 << 10];
    match rustix::fs::getxattr(path, name.as_c_str(), &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The attribute with the capabilities that a program gains from its file. The kernel takes it away when the
/// file is written.
const CAPABILITIES: &[u8] = b"security.capability";

impl Attributes {
    /// The capabilities among them.
    pub(super) fn capabilities(&self) -> Option<&[u8]> {
        let found = self.extended.iter().find(|(name, _)| name == CAPABILITIES);
        found.map(|(_, value)| value.as_slice())
    }
}

/// The capabilities of what is open, be it by `O_PATH`; none if it has none.
pub(super) fn read_capabilities(handle: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    read_one(&name_of(handle), CAPABILITIES)
}

/// Gives a file these capabilities, unless it has them.
pub(super) fn put_capabilities(handle: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    if read_capabilities(handle)?.as_deref() == Some(value) {
        return Ok(());
    }
    let name = CString::new(CAPABILITIES)?;
    Ok(rustix::fs::setxattr(name_of(handle), name.as_c_str(), value, XattrFlags::empty())?)
}

/// Returns true if this process may give capabilities to files.
pub(super) fn may_put_capabilities() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETFCAP))
}

/// The owner that a new file or directory gets.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewFileOwner<'a> {
    /// Whom what is made in this directory belongs to: when we are root, its owner.
    OfDirectory(&'a OwnedFd),
    /// As it was written down.
    As(&'a Attributes),
}

/// Gives a new file or directory its owner, its attributes and last its mode, since the others change the
/// mode.
pub(super) fn apply_attributes(handle: BorrowedFd<'_>, owner: NewFileOwner<'_>, mode: u16) -> io::Result<()> {
    let path = name_of(handle);
    match owner {
        NewFileOwner::OfDirectory(directory) => {
            if rustix::process::geteuid().is_root() {
                let above = rustix::fs::fstat(directory)?;
                change_owner(&path, above.st_uid, above.st_gid)?;
            }
        }
        NewFileOwner::As(attributes) => {
            change_owner(&path, attributes.uid, attributes.gid)?;
            put_extended(&path, attributes)?;
        }
    }
    set_mode(handle, mode)
}

/// Gives a link its owner; it has no mode that means anything.
pub(super) fn own_link(parent: &OwnedFd, name: &CString, owner: NewFileOwner<'_>) -> io::Result<()> {
    let (uid, gid) = match owner {
        NewFileOwner::OfDirectory(_) if !rustix::process::geteuid().is_root() => return Ok(()),
        NewFileOwner::OfDirectory(directory) => {
            let above = rustix::fs::fstat(directory)?;
            (above.st_uid, above.st_gid)
        }
        NewFileOwner::As(attributes) => (attributes.uid, attributes.gid),
    };
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    tolerate(rustix::fs::chownat(parent, name.as_c_str(), uid, gid, AtFlags::SYMLINK_NOFOLLOW))
}

fn change_owner(path: &str, uid: u32, gid: u32) -> io::Result<()> {
    let stat = rustix::fs::stat(path)?;
    if (stat.st_uid, stat.st_gid) == (uid, gid) {
        return Ok(());
    }
    let both =
        rustix::fs::chownat(CWD, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::empty());
    match both {
        // Without privilege a file cannot be given away, but its group may be one of ours.
        Err(Errno::PERM) => {
            tolerate(rustix::fs::chownat(CWD, path, None, Some(Gid::from_raw(gid)), AtFlags::empty()))
        }
        other => tolerate(other),
    }
}

fn put_extended(path: &str, attributes: &Attributes) -> io::Result<()> {
    for (name, value) in &attributes.extended {
        let name = CString::new(name.as_slice())?;
        tolerate(rustix::fs::setxattr(path, name.as_c_str(), value, XattrFlags::empty()))?;
    }
    Ok(())
}

fn tolerate(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets the permission bits of what is open, be it by `O_PATH`.
pub(super) fn set_mode(handle: BorrowedFd<'_>, mode: u16) -> io::Result<()> {
    if permission_bits(rustix::fs::fstat(handle)?.st_mode) == mode {
        return Ok(());
    }
    let bits = Mode::from_raw_mode(u32::from(mode));
    Ok(rustix::fs::chmodat(CWD, name_of(handle), bits, AtFlags::empty())?)
}
