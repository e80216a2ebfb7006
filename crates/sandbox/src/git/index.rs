//! The names in a git index, read without git: no program runs, and a repository's configuration plays no
//! part.
//!
//! # Invariants
//! 1. Every length that the file states is checked against the file: a wrong one is an error.
//! 2. An index that names other files to be read with it (a split index) is not read by halves:
//!    [`IndexNames::Elsewhere`].
//!
//! # Not here
//! Objects, times and modes: callers that need them ask git.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::fs::regular_file::read_regular;

/// A longer index is not read.
const INDEX_BYTES_MAX: u64 = 1 << 30;

/// The bytes of a file's record before the name of its object.
const STAT_BYTES: usize = 40;
/// The offset of the mode among them.
const MODE_AT: usize = 24;
/// The names of objects: SHA-1 and SHA-256.
const HASH_BYTES: [usize; 2] = [20, 32];

const FLAG_EXTENDED: u16 = 0x4000;
const MODE_DIRECTORY: u32 = 0o040_000;

/// The names in an index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IndexNames {
    /// These paths.
    Here {
        /// Files and submodules.
        files: BTreeSet<Vec<u8>>,
        /// Directories of a sparse index, each with a slash at its end: all that they hold is tracked.
        directories: Vec<Vec<u8>>,
    },
    /// Not in this file alone.
    Elsewhere,
}

/// Reads the names in the index at `path`.
///
/// Returns an error if it cannot be read, is no regular file, or is damaged.
pub(crate) fn read_names(path: &Path) -> io::Result<IndexNames> {
    let bytes = read_regular(path, INDEX_BYTES_MAX)?;
    let read = HASH_BYTES.into_iter().find_map(|hash_bytes| parse(&bytes, hash_bytes));
    read.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not a git index"))
}

/// Reads an index whose objects have names of this length; none if it is none.
fn parse(bytes: &[u8], hash_bytes: usize) -> Option<IndexNames> {
    let end = bytes.len().checked_sub(hash_bytes)?;
    let mut cursor = Cursor { bytes: bytes.get(..end)?, at: 0 };
    if cursor.take(4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (cursor.number()?, cursor.number()?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut files, mut directories, mut name) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let begin = cursor.at;
        let mode = number_at(cursor.take(STAT_BYTES)?, MODE_AT)?;
        cursor.take(hash_bytes)?;
        let flags = u16::from_be_bytes(cursor.take(2)?.try_into().ok()?);
        if version >= 3 && flags & FLAG_EXTENDED != 0 {
            cursor.take(2)?;
        }
        if version == 4 {
            let kept = name.len().checked_sub(cursor.varint()?)?;
            name.truncate(kept);
            name.extend_from_slice(cursor.until_nul()?);
        } else {
            name = cursor.until_nul()?.to_vec();
            let padded = (cursor.at - begin).next_multiple_of(8);
            cursor.take(begin + padded - cursor.at)?;
        }
        match mode {
            MODE_DIRECTORY => directories.push(name.clone()),
            _ => files.push(name.clone()),
        }
    }
    let mut is_elsewhere = false;
    while cursor.at < cursor.bytes.len() {
        let signature = cursor.take(4)?;
        let len = usize::try_from(cursor.number()?).ok()?;
        cursor.take(len)?;
        // One that begins with a capital letter may be passed over.
        is_elsewhere |= !signature.first()?.is_ascii_uppercase() && signature != b"sdir";
    }
    if is_elsewhere {
        return Some(IndexNames::Elsewhere);
    }
    Some(IndexNames::Here { files: files.into_iter().collect(), directories })
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A place in the file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        number_at(self.take(4)?, 0)
    }

    /// A number of as many bytes as it needs: seven bits each, and one more for each byte that follows.
    fn varint(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        }
        Some(value)
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|byte| *byte == 0)?;
        self.at += len + 1;
        rest.get(..len)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("git");
        command.arg("-C").arg(dir).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        let output = command.args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn names(dir: &Path) -> io::Result<IndexNames> {
        read_names(&dir.join(".git/index"))
    }

    fn repository(options: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &[&["init", "-q"], options].concat());
        let long = format!("deep/{}/name", "x".repeat(200));
        for path in ["a", "ab", "b/one", "b/two", "b/ümläut\n", "c", &long] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["rm", "-q", "--cached", "c"]);
        git(dir.path(), &["add", "-N", "c"]);
        dir
    }

    fn listed(dir: &Path) -> BTreeSet<Vec<u8>> {
        crate::git::paths_in(&git(dir, &["ls-files", "-z"]))
    }

    #[test]
    fn the_names_are_those_that_git_lists_in_every_version_and_format() {
        for format in ["--object-format=sha1", "--object-format=sha256"] {
            let dir = repository(&[format]);
            for version in ["2", "3", "4"] {
                git(dir.path(), &["update-index", "--index-version", version]);
                let IndexNames::Here { files, directories } = names(dir.path()).unwrap() else { panic!() };
                assert_eq!(files, listed(dir.path()), "{format} {version}");
                assert_eq!(files.len(), 7);
                assert!(directories.is_empty());
            }
        }
    }

    #[test]
    fn a_sparse_index_names_its_directories_and_a_split_one_is_left_to_git() {
        let dir = repository(&[]);
        git(dir.path(), &["commit", "-q", "-m", "all"]);
        git(dir.path(), &["sparse-checkout", "set", "--cone", "--sparse-index", "deep"]);
        let IndexNames::Here { directories, .. } = names(dir.path()).unwrap() else { panic!() };
        assert_eq!(directories, [b"b/".to_vec()]);
        git(dir.path(), &["sparse-checkout", "disable"]);
        git(dir.path(), &["update-index", "--split-index"]);
        assert_eq!(names(dir.path()).unwrap(), IndexNames::Elsewhere);
    }

    #[test]
    fn no_damage_is_a_panic_or_a_large_allocation() {
        let dir = repository(&[]);
        let bytes = std::fs::read(dir.path().join(".git/index")).unwrap();
        for len in 0..bytes.len() {
            for hash_bytes in HASH_BYTES {
                let _ = parse(&bytes[..len], hash_bytes);
            }
        }
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                for hash_bytes in HASH_BYTES {
                    let _ = parse(&damaged, hash_bytes);
                }
            }
        }
    }
}
