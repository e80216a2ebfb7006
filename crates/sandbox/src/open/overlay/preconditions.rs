//! Checks that an overlay can work, as far as that is known before it is tried; the reasons are words for the
//! user.
//!
//! # Not here
//! Reasons that only an attempt reveals: the process that mounts reports them.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;

const OVERLAYFS: u64 = 0x794c_7630;

/// File systems that others write to behind the kernel's back, or that cannot be the lower layer.
const UNFIT_BELOW: [(u64, &str); 12] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4d44, "FAT"),
];

/// Returns an error with the reason if an overlay over this project is impossible.
pub(super) fn of_project(
    project: BorrowedFd<'_>,
    path: &Path,
    in_user_namespace: bool,
) -> Result<(), String> {
    let kind = file_system(project)?;
    if let Some((_, name)) = UNFIT_BELOW.iter().find(|(unfit, _)| *unfit == kind) {
        return Err(format!("{} is on {name}", path.display()));
    }
    if let Some(mount) = mounts_below(path)?.first() {
        return Err(format!("{} is mounted below the project", mount.display()));
    }
    if in_user_namespace {
        let stat = rustix::fs::fstat(project).map_err(|errno| errno.to_string())?;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if (stat.st_uid, stat.st_gid) != (uid, gid) {
            return Err(format!(
                "{} belongs to {}:{}, and a user namespace has only {uid}:{gid}",
                path.display(),
                stat.st_uid,
                stat.st_gid
            ));
        }
    }
    Ok(())
}

/// Returns an error with the reason if the changes cannot be stored in this directory.
pub(super) fn of_upper(upper: BorrowedFd<'_>, path: &Path) -> Result<(), String> {
    if file_system(upper)? == OVERLAYFS {
        return Err(format!("{} is on an overlay itself", path.display()));
    }
    let readable = rustix::fs::openat(
        upper,
        c".",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|errno| errno.to_string())?;
    let name = c"user.overlay.probe";
    rustix::fs::fsetxattr(&readable, name, b"y", XattrFlags::empty())
        .and_then(|()| rustix::fs::fremovexattr(&readable, name))
        .map_err(|errno| format!("{} does not support user attributes: {errno}", path.display()))
}

/// Returns true if this is an overlay.
pub(super) fn is_overlay(dir: impl AsFd) -> bool {
    file_system(dir.as_fd()) == Ok(OVERLAYFS)
}

#[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
fn file_system(dir: BorrowedFd<'_>) -> Result<u64, String> {
    let statfs = rustix::fs::fstatfs(dir).map_err(|errno| errno.to_string())?;
    // Some magic numbers have their highest bit set, and the field may be signed.
    Ok(statfs.f_type as u64 & 0xffff_ffff)
}

/// Returns the mount points strictly below a path.
fn mounts_below(path: &Path) -> Result<Vec<PathBuf>, String> {
    let points = mount_points().map_err(|source| format!("the table of mounts cannot be read: {source}"))?;
    Ok(points.into_iter().filter(|point| point != path && point.starts_with(path)).collect())
}

/// Every mount point of this mount namespace, parents first.
pub(crate) fn mount_points() -> std::io::Result<Vec<PathBuf>> {
    Ok(points_in(&std::fs::read("/proc/self/mountinfo")?).collect())
}

/// The fifth field of each line, with its escapes undone.
fn points_in(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(4)?;
        Some(PathBuf::from(std::ffi::OsString::from_vec(unescape(point))))
    })
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

/// Bytes of a path.
pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes_undone() {
        let table = b"36 35 98:0 / /mnt/a\\040b\\011\\012\\134 rw - ext4 /dev/sda rw\n\
                      37 35 0:5 / /\xff rw - tmpfs tmpfs rw\n";
        let points: Vec<PathBuf> = points_in(table).collect();
        let expected = [&b"/mnt/a b\t\n\\"[..], b"/\xff"];
        assert_eq!(points, expected.map(|point| PathBuf::from(std::ffi::OsString::from_vec(point.to_vec()))));
    }
}
