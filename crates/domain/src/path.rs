//! Relative paths: the place of a changed file below the root of a project.
//!
//! # Invariants
//! 1. A [`RelPath`] has 1..=4096 bytes, is relative, holds no NUL and no empty, `.` or `..` component.
//! 2. Its shown form is unambiguous: two different paths are never shown alike, and none moves the cursor.
//!
//! # Not here
//! The checks that the path exists, and does not lead out of the root through a link. Only the kernel can do
//! them, when the path is opened.

use std::fmt::{self, Write};

/// Limits how long a path may be.
pub const PATH_BYTES_MAX: usize = 4096;

/// A path below a root, as bytes: file names are not always UTF-8.
///
/// ```
/// use domain::{PathError, RelPath};
///
/// let path = RelPath::new("src/main.rs")?;
/// assert_eq!(path.file_name(), b"main.rs");
/// assert_eq!(path.parent(), Some(RelPath::new("src")?));
/// assert_eq!(RelPath::new("../etc/passwd"), Err(PathError::ParentComponent));
/// assert_eq!(RelPath::new(b"caf\xe9\n")?.to_string(), r"caf\xE9\x0A");
/// # Ok::<(), PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Box<[u8]>);

/// The reason why bytes are not a path below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No bytes at all.
    #[error("a path must not be empty")]
    Empty,
    /// More than [`PATH_BYTES_MAX`].
    #[error("a path has at most 4096 bytes, this has {bytes}")]
    TooLong {
        /// The number of bytes.
        bytes: usize,
    },
    /// It begins at the file system's root.
    #[error("a path must be relative to its project")]
    Absolute,
    /// A NUL byte, which no file name can hold.
    #[error("a path must not contain NUL")]
    Nul,
    /// Two slashes in a row, or one at the end.
    #[error("a path must not contain an empty component")]
    EmptyComponent,
    /// A component `.`, a second name for the same file.
    #[error("a path must not contain the component `.`")]
    CurrentComponent,
    /// A component `..`, which may lead out of the root.
    #[error("a path must not contain the component `..`")]
    ParentComponent,
}

impl RelPath {
    /// Takes the bytes if they are a path below a root.
    ///
    /// # Errors
    /// Returns the first rule that the bytes break.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<RelPath, PathError> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong { bytes: bytes.len() });
        }
        if bytes.starts_with(b"/") {
            return Err(PathError::Absolute);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        for component in bytes.split(|byte| *byte == b'/') {
            match component {
                b"" => return Err(PathError::EmptyComponent),
                b"." => return Err(PathError::CurrentComponent),
                b".." => return Err(PathError::ParentComponent),
                _ => {}
            }
        }
        Ok(RelPath(bytes.into()))
    }

    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The last component.
    pub fn file_name(&self) -> &[u8] {
        match self.last_slash() {
            Some(slash) => &self.0[slash + 1..],
            None => &self.0,
        }
    }

    /// The directory that contains it; `None` if that is the root itself.
    pub fn parent(&self) -> Option<RelPath> {
        self.last_slash().map(|slash| RelPath(self.0[..slash].into()))
    }

    fn last_slash(&self) -> Option<usize> {
        self.0.iter().rposition(|byte| *byte == b'/')
    }
}

impl AsRef<[u8]> for RelPath {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns whether a terminal obeys a character instead of showing it: controls, and the marks that make text
/// run the other way.
pub fn is_obeyed(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns whether a character in a name is not seen as it is. Such a character is obeyed by the terminal,
/// ends a line or a paragraph, or has no width. In prose those without width join letters and emoji, and
/// stay.
pub fn is_unseen(character: char) -> bool {
    is_obeyed(character)
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Text as it is; bytes that are not UTF-8 and characters that are [not seen](is_unseen) as `\xNN`, the
/// backslash as `\\`.
impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character == '\\' {
                    f.write_str(r"\\")?;
                } else if is_unseen(character) {
                    show_bytes(f, character.encode_utf8(&mut [0; 4]).as_bytes())?;
                } else {
                    f.write_char(character)?;
                }
            }
            show_bytes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({self})")
    }
}

fn show_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(bytes: &[u8]) -> RelPath {
        RelPath::new(bytes).unwrap()
    }

    #[test]
    fn a_path_lies_below_its_root() {
        let refused: [(&[u8], PathError); 11] = [
            (b"", PathError::Empty),
            (&[b'a'; 4097], PathError::TooLong { bytes: 4097 }),
            (b"/etc/passwd", PathError::Absolute),
            (b"a\0b", PathError::Nul),
            (b"a//b", PathError::EmptyComponent),
            (b"a/", PathError::EmptyComponent),
            (b".", PathError::CurrentComponent),
            (b"./a", PathError::CurrentComponent),
            (b"..", PathError::ParentComponent),
            (b"a/../b", PathError::ParentComponent),
            (b"a/..", PathError::ParentComponent),
        ];
        for (bytes, why) in refused {
            assert_eq!(RelPath::new(bytes), Err(why));
        }
        for bytes in [&b"a"[..], b"...", b".git/x", b"a..b/.c", b"\xff/ ", &[b'a'; 4096]] {
            assert_eq!(path(bytes).as_bytes(), bytes);
            assert_eq!(path(bytes).as_ref(), bytes);
        }
        assert_eq!(
            PathError::TooLong { bytes: 4097 }.to_string(),
            "a path has at most 4096 bytes, this has 4097"
        );
    }

    #[test]
    fn a_path_knows_its_name_and_its_directory() {
        assert_eq!((path(b"a/b/c").file_name(), path(b"a/b/c").parent()), (&b"c"[..], Some(path(b"a/b"))));
        assert_eq!((path(b"c").file_name(), path(b"c").parent()), (&b"c"[..], None));
    }

    #[test]
    fn a_path_is_shown_without_bytes_that_a_terminal_would_obey() {
        assert_eq!(path("src/naïve.rs".as_bytes()).to_string(), "src/naïve.rs");
        assert_eq!(path(b"a\x1b[2J\\\xff\xfe\n").to_string(), r"a\x1B[2J\\\xFF\xFE\x0A");
        assert_eq!(path("a\u{85}".as_bytes()).to_string(), r"a\xC2\x85");
        for unseen in
            ["\u{200b}", "\u{200f}", "\u{2028}", "\u{2029}", "\u{202e}", "\u{2066}", "\u{2069}", "\u{feff}"]
        {
            let escaped: String = unseen.bytes().map(|byte| format!("\\x{byte:02X}")).collect();
            assert_eq!(path(unseen.as_bytes()).to_string(), escaped);
        }
        assert_eq!(format!("{:?}", path(b"a\x7f")), r"RelPath(a\x7F)");
    }

    #[test]
    fn paths_are_ordered_by_bytes() {
        assert!(path(b"a-b") < path(b"a/b"));
        assert!(path(b"Z") < path(b"a"));
    }

    proptest! {
        #[test]
        fn two_paths_are_never_shown_alike(a: Vec<u8>, b: Vec<u8>) {
            if let (Ok(a), Ok(b)) = (RelPath::new(a), RelPath::new(b)) {
                prop_assert_eq!(a == b, a.to_string() == b.to_string());
            }
        }

        #[test]
        fn the_shown_form_of_any_text_reads_back(text in "[a\\\\\u{1f}-\u{a0}\u{2000}-\u{2070}\u{feff}]{1,20}") {
            if let Ok(path) = RelPath::new(text.as_bytes()) {
                prop_assert_eq!(unescape(&path.to_string()), text.into_bytes());
            }
        }

        #[test]
        fn the_shown_form_reads_back(bytes in proptest::collection::vec(1_u8.., 1..40)) {
            if let Ok(path) = RelPath::new(&bytes) {
                prop_assert_eq!(unescape(&path.to_string()), bytes);
            }
        }
    }

    fn unescape(shown: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = shown.as_bytes();
        while let [first, tail @ ..] = rest {
            (rest, bytes) = match (first, tail) {
                (b'\\', [b'\\', tail @ ..]) => (tail, [&bytes[..], b"\\"].concat()),
                (b'\\', [b'x', high, low, tail @ ..]) => {
                    let digits = String::from_utf8(vec![*high, *low]).unwrap();
                    (tail, [&bytes[..], &[u8::from_str_radix(&digits, 16).unwrap()]].concat())
                }
                (byte, tail) => (tail, [&bytes[..], &[*byte]].concat()),
            };
        }
        bytes
    }
}
