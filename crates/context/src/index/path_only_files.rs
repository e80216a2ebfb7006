//! Files of which only the path is known: secret, too large, or of no use to read.
//!
//! # Invariants
//! 1. The path and the size are judged before a byte is read: a secret file is never opened.
//! 2. The judgement of the bytes depends on nothing else.
//!
//! # Not here
//! The files that a view leaves out: the request.

use domain::{RelPath, TEXT_PROBE_BYTES};

use super::FileKind;

/// The reason why only the path of a file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathOnly {
    /// Its name says that it holds secrets.
    Secret,
    /// It is longer than what is read.
    TooLarge,
    /// It is no text.
    Binary,
    /// The file says that a program wrote it and that it must not be edited.
    Generated,
    /// The lines are too long to be written by hand.
    LongLines,
    /// It records versions for a package manager.
    LockFile,
    /// It could not be read.
    Unreadable,
}

/// Every reason with its stored code.
const CODES: [(PathOnly, u8); 7] = [
    (PathOnly::Secret, 1),
    (PathOnly::TooLarge, 2),
    (PathOnly::Binary, 3),
    (PathOnly::Generated, 4),
    (PathOnly::LongLines, 5),
    (PathOnly::LockFile, 6),
    (PathOnly::Unreadable, 7),
];

/// Lines longer than this on average are not written by people.
const MEAN_LINE_BYTES_MAX: usize = 300;

/// In prose a line may be a paragraph.
const MEAN_PARAGRAPH_BYTES_MAX: usize = 2000;

/// The number of lines that may say that a file is generated.
const MARK_LINES: usize = 5;

/// The number of bytes of those lines that are read.
const MARK_BYTES_MAX: usize = 2048;

const LOCK_FILES: [&[u8]; 24] = [
    b"Cargo.lock",
    b"Gemfile.lock",
    b"Package.resolved",
    b"Pipfile.lock",
    b"Podfile.lock",
    b"bun.lock",
    b"bun.lockb",
    b"cargo.lock",
    b"composer.lock",
    b"deno.lock",
    b"flake.lock",
    b"go.sum",
    b"go.work.sum",
    b"gradle.lockfile",
    b"mix.lock",
    b"npm-shrinkwrap.json",
    b"package-lock.json",
    b"packages.lock.json",
    b"pdm.lock",
    b"pnpm-lock.yaml",
    b"poetry.lock",
    b"pubspec.lock",
    b"uv.lock",
    b"yarn.lock",
];

impl PathOnly {
    pub(crate) fn code(self) -> u8 {
        CODES.iter().find(|(reason, _)| *reason == self).map_or(0, |(_, code)| *code)
    }

    pub(crate) fn from_code(code: u8) -> Option<PathOnly> {
        CODES.iter().find(|(_, known)| *known == code).map(|(reason, _)| *reason)
    }
}

/// Returns the reason why a file is not to be read, by its path and size alone.
pub fn before_reading(path: &RelPath, size: u64, bytes_max: u64) -> Option<PathOnly> {
    if is_secret(path) {
        Some(PathOnly::Secret)
    } else if is_lock_file(path) {
        Some(PathOnly::LockFile)
    } else if size > bytes_max {
        Some(PathOnly::TooLarge)
    } else {
        None
    }
}

/// Returns true if a file holds secrets, by its name.
///
/// ```
/// use context::index::is_secret;
/// use domain::RelPath;
///
/// let of = |path: &str| is_secret(&RelPath::new(path).unwrap());
/// assert!(of("deploy/.env.production"));
/// assert!(!of(".env.example"));
/// ```
pub fn is_secret(path: &RelPath) -> bool {
    let name = path.file_name().to_ascii_lowercase();
    let is_environment = name == b".env" || name.starts_with(b".env.") && !name.ends_with(b".example");
    let is_key = [&b".pem"[..], b".key", b".p12"].iter().any(|ending| name.ends_with(ending));
    let is_identity = name.starts_with(b"id_rsa") || name.starts_with(b"id_ed25519");
    is_environment || is_key || is_identity || name == b".netrc" || name == b".npmrc"
}

fn is_lock_file(path: &RelPath) -> bool {
    LOCK_FILES.contains(&path.file_name())
}

/// Returns true if the bytes are no text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(TEXT_PROBE_BYTES).any(|byte| *byte == 0)
}

/// Returns true if the first lines say "generated" and "do not edit".
pub(super) fn is_generated(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(MARK_BYTES_MAX)];
    let end = head.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(MARK_LINES - 1);
    let head = head[..end.map_or(head.len(), |(place, _)| place)].to_ascii_lowercase();
    let has = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
    has(b"generated") && has(b"do not edit")
}

/// Returns true if the lines are too long to have been written.
pub(super) fn has_long_lines(bytes: usize, lines: u32, kind: FileKind) -> bool {
    let mean_max = match kind {
        FileKind::Doc => MEAN_PARAGRAPH_BYTES_MAX,
        FileKind::Code | FileKind::Config | FileKind::Text => MEAN_LINE_BYTES_MAX,
    };
    bytes > mean_max * (lines.max(1) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    #[test]
    fn secret_files_are_known_by_their_names() {
        for secret in [
            ".env",
            "a/.env.local",
            "x.pem",
            "b/tls.KEY",
            "c.p12",
            "id_rsa",
            "id_rsa.pub",
            "id_ed25519_work",
            ".netrc",
            ".npmrc",
        ] {
            assert!(is_secret(&path(secret)), "{secret}");
        }
        for open in
            [".env.example", "env", ".envrc", "key.rs", "pem", "my_id_rsa", "npmrc", ".env.prod.example"]
        {
            assert!(!is_secret(&path(open)), "{open}");
        }
    }

    #[test]
    fn a_secret_file_is_secret_whatever_its_size() {
        assert_eq!(before_reading(&path(".env"), 1 << 40, 10), Some(PathOnly::Secret));
        assert_eq!(before_reading(&path("a/Cargo.lock"), 1, 10), Some(PathOnly::LockFile));
        assert_eq!(before_reading(&path("a.rs"), 11, 10), Some(PathOnly::TooLarge));
        assert_eq!(before_reading(&path("a.rs"), 10, 10), None);
    }

    #[test]
    fn generated_files_say_so_in_their_first_five_lines() {
        assert!(is_generated(b"// Code generated by protoc. DO NOT EDIT.\npackage x"));
        assert!(is_generated(b"#\n#\n# DO NOT EDIT\n#\n# @generated"));
        assert!(!is_generated(b"\n\n\n\n\n// generated: do not edit"));
        assert!(!is_generated(b"// generated by hand"));
        assert!(!is_generated(b""));
    }

    #[test]
    fn every_reason_comes_back_from_its_stored_code() {
        for (reason, code) in CODES {
            assert_eq!(PathOnly::from_code(code), Some(reason));
            assert_eq!(reason.code(), code);
        }
        assert_eq!(PathOnly::from_code(0), None);
    }

    #[test]
    fn minified_text_has_long_lines() {
        assert!(has_long_lines(301, 1, FileKind::Code));
        assert!(!has_long_lines(300, 1, FileKind::Code));
        assert!(!has_long_lines(600, 2, FileKind::Code));
        assert!(!has_long_lines(0, 0, FileKind::Code));
    }
}
