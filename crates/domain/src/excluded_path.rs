//! Paths in a project's folder that belong to no project: the files of version control and of this program.
//!
//! # Not here
//! The other paths that a plan or a view leaves out: their rules.

use crate::RelPath;

/// Names of directories that belong to version control or to this program.
pub const NO_PROJECT: [&[u8]; 5] = [b".git", b".hg", b".svn", b".jj", b".cleveragents"];

/// Letters that HFS+ passes over in a name, so that `.g\u{200c}it` is `.git` there.
const PASSED_OVER: [std::ops::RangeInclusive<char>; 4] =
    ['\u{200c}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{206a}'..='\u{206f}', '\u{feff}'..='\u{feff}'];

/// Returns whether a path is, or is below, such a directory at any depth. It is never captured, written or
/// shown, and naming it does not change that.
///
/// ```
/// use domain::{RelPath, is_of_no_project};
///
/// let of = |path: &str| is_of_no_project(&RelPath::new(path).unwrap());
/// assert!(of("sub/.git/config") && of(".git") && of("a/.GIT/x"));
/// assert!(!of(".gitignore") && !of("git/x"));
/// ```
pub fn is_of_no_project(path: &RelPath) -> bool {
    path.as_bytes().split(|byte| *byte == b'/').any(is_name_of_no_project)
}

/// Returns whether a name is that of such a directory, here or on a file system that reads names otherwise.
/// Such a name may be in any case, with blanks or dots at its end, with a stream or as a short name (NTFS).
/// It may also have letters that the file system skips (HFS+). Git refuses the same spellings of `.git`
/// everywhere.
///
/// ```
/// use domain::is_name_of_no_project;
///
/// for name in [".git", ".GIT", ".Git ", ".git. .", "git~1", "GIT~1 ", ".git::$INDEX_ALLOCATION", "x\\.git", ".Hg."] {
///     assert!(is_name_of_no_project(name.as_bytes()), "{name}");
/// }
/// assert!(is_name_of_no_project(".g\u{200c}it".as_bytes()));
/// for name in [".gitignore", "git", "git~2", ".git x", ".gitmodules", "a.git"] {
///     assert!(!is_name_of_no_project(name.as_bytes()), "{name}");
/// }
/// ```
pub fn is_name_of_no_project(name: &[u8]) -> bool {
    // A name of ASCII letters, as nearly all are, is not copied.
    if name.is_ascii() {
        return is_plain_name_of_no_project(name);
    }
    let is_passed_over = |letter: char| PASSED_OVER.iter().any(|letters| letters.contains(&letter));
    let shown: String =
        String::from_utf8_lossy(name).chars().filter(|letter| !is_passed_over(*letter)).collect();
    is_plain_name_of_no_project(shown.as_bytes())
}

fn is_plain_name_of_no_project(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'\\').any(|part| {
        let whole = part.split(|byte| *byte == b':').next().unwrap_or(part);
        let end = whole.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
        let bare = &whole[..end];
        bare.eq_ignore_ascii_case(b"git~1") || NO_PROJECT.iter().any(|known| bare.eq_ignore_ascii_case(known))
    })
}
