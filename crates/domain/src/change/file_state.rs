//! The state of a file at one moment, as far as a change is concerned: kind, mode and content.
//!
//! # Invariants
//! Equal content has an equal [`struct@Hash`], wherever and by whichever process it was read.
//!
//! # Not here
//! The content itself, which is stored once under its hash.

use std::fmt;

/// The length of the beginning of a file that distinguishes text from binary.
pub const TEXT_PROBE_BYTES: usize = 8 * 1024;

/// The size above which a file is never taken for text, because it is not merged line by line.
pub const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

const MODE_BITS: u16 = 0o7777;

/// The BLAKE3 hash of a content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of these bytes.
    pub fn from_content(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// A hash that was computed before.
    pub const fn from_bytes(bytes: [u8; 32]) -> Hash {
        Hash(bytes)
    }

    /// Its 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// The kind of an entry at a path. Nothing else is ever captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A symbolic link; its content is its target.
    Symlink,
    /// A directory.
    Dir,
}

/// A file, link or directory at one moment.
///
/// ```
/// use domain::{FileState, Hash, Kind};
///
/// let state = FileState::file(b"fn main() {}\n", 0o644);
/// assert_eq!(state.hash, Hash::from_content(b"fn main() {}\n"));
/// assert_eq!((state.kind, state.mode, state.size, state.text), (Kind::File, 0o644, 13, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileState {
    /// File, link or directory.
    pub kind: Kind,
    /// Permission bits, within `0o7777`.
    pub mode: u16,
    /// Bytes of content.
    pub size: u64,
    /// The hash of the content or of the link target.
    pub hash: Hash,
    /// True if it can be shown and merged by lines.
    pub text: bool,
}

impl FileState {
    /// A regular file with this content.
    pub fn file(bytes: &[u8], mode: u16) -> FileState {
        let size = bytes.len() as u64;
        FileState {
            kind: Kind::File,
            mode: mode & MODE_BITS,
            size,
            hash: Hash::from_content(bytes),
            text: is_text(bytes, size),
        }
    }

    /// A symbolic link. The mode of a link means nothing, so all links have the same.
    pub fn symlink(target: &[u8]) -> FileState {
        FileState {
            kind: Kind::Symlink,
            mode: 0o777,
            size: target.len() as u64,
            hash: Hash::from_content(target),
            text: false,
        }
    }

    /// A directory, without its content.
    pub fn dir(mode: u16) -> FileState {
        FileState {
            kind: Kind::Dir,
            mode: mode & MODE_BITS,
            size: 0,
            hash: Hash::from_content(b""),
            text: false,
        }
    }
}

/// Returns whether a file is text: no NUL in its first 8 KiB, and at most 4 MiB long.
///
/// `first_8_kib` is the file's beginning, all of it if it is shorter. Bytes beyond it play no part.
pub fn is_text(first_8_kib: &[u8], size: u64) -> bool {
    size <= TEXT_BYTES_MAX && !first_8_kib.iter().take(TEXT_PROBE_BYTES).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_HASH: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

    #[test]
    fn a_hash_is_blake3_in_hexadecimal() {
        assert_eq!(Hash::from_content(b"").to_string(), EMPTY_HASH);
        assert_eq!(format!("{:?}", Hash::from_content(b"")), format!("Hash({EMPTY_HASH})"));
        assert_eq!(Hash::from_bytes(*Hash::from_content(b"x").as_bytes()), Hash::from_content(b"x"));
        assert_ne!(Hash::from_content(b"x"), Hash::from_content(b"y"));
    }

    #[test]
    fn text_has_no_nul_in_its_first_8_kib_and_at_most_4_mib() {
        let nul_at = |place: usize| [vec![b'a'; place], vec![0]].concat();
        assert!(is_text(b"", 0));
        assert!(is_text(b"caf\xe9", 4));
        assert!(!is_text(b"\0", 1));
        assert!(!is_text(&nul_at(8191), 8192));
        assert!(is_text(&nul_at(8192), 8193));
        assert!(is_text(b"a", 4 * 1024 * 1024));
        assert!(!is_text(b"a", 4 * 1024 * 1024 + 1));
    }

    #[test]
    fn each_kind_of_file_has_its_state() {
        assert_eq!(
            FileState::file(b"a\0", 0o10_0755),
            FileState {
                kind: Kind::File,
                mode: 0o755,
                size: 2,
                hash: Hash::from_content(b"a\0"),
                text: false
            }
        );
        assert_eq!(
            FileState::symlink(b"../target"),
            FileState {
                kind: Kind::Symlink,
                mode: 0o777,
                size: 9,
                hash: Hash::from_content(b"../target"),
                text: false
            }
        );
        assert_eq!(
            FileState::dir(0o4_2755),
            FileState { kind: Kind::Dir, mode: 0o2755, size: 0, hash: Hash::from_content(b""), text: false }
        );
    }
}
