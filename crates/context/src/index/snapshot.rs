//! A snapshot of a project: its files by path, and the newest commits.
//!
//! # Invariants
//! 1. A snapshot never changes: a reader that holds one sees one state, whatever is updated meanwhile.
//! 2. Files are sorted by path, and no path occurs twice.
//! 3. A file has a hash exactly if it was read; without one its facts know only its size.
//!
//! # Not here
//! Updating it: `update`. Storing it: `disk`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use domain::{Hash, RelPath};

use super::path_only_files::{PathOnly, before_reading};
use super::{Facts, Language, Scanner};

/// The length of the longest file that is read by default.
pub const FILE_BYTES_MAX_DEFAULT: u64 = 512 * 1024;

/// A file of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its location.
    pub path: RelPath,
    /// The hash of the content; `None` if the file was not read.
    pub hash: Option<Hash>,
    /// The facts of the content.
    pub facts: Arc<Facts>,
    /// The reason why only its path matters, if so.
    pub path_only: Option<PathOnly>,
}

/// The name of a commit, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(Box<str>);

/// The facts about a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    /// Its name.
    pub oid: Oid,
    /// The number of newer commits, including those that are not reported.
    pub rank: u32,
    /// The time when it was made, in seconds since 1970.
    pub at: i64,
    /// The first line of its message.
    pub subject: String,
    /// The terms of its message, sorted by hash.
    pub terms: Vec<(u32, u16)>,
    /// The paths that the commit changed, sorted.
    pub paths: Vec<RelPath>,
}

/// A project at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    files: Vec<File>,
    commits: Arc<[CommitFacts]>,
    partial: bool,
}

impl Oid {
    /// Takes 40 or 64 hexadecimal digits.
    pub fn new(text: &str) -> Option<Oid> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (matches!(text.len(), 40 | 64) && is_hex).then(|| Oid(text.into()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

impl File {
    /// A file that was read.
    pub fn read(path: RelPath, bytes: &[u8], scanner: &mut Scanner) -> File {
        let facts = scanner.scan(Language::detect(&path, bytes), bytes);
        File::scanned(path, Hash::from_content(bytes), Arc::new(facts))
    }

    /// A file with the content that has this hash and these facts.
    pub(crate) fn scanned(path: RelPath, hash: Hash, facts: Arc<Facts>) -> File {
        File { path, hash: Some(hash), path_only: facts.path_only, facts }
    }

    /// A file that is not read, and why.
    pub fn unread(path: RelPath, size: u64, reason: PathOnly) -> File {
        let facts = Facts::unread(Language::detect(&path, b""), size);
        File { path, hash: None, facts: Arc::new(facts), path_only: Some(reason) }
    }

    /// The file with these bytes, read or not as the rules of the index have it.
    pub fn from_bytes(path: RelPath, bytes: &[u8], file_bytes_max: u64, scanner: &mut Scanner) -> File {
        let size = bytes.len() as u64;
        match before_reading(&path, size, file_bytes_max) {
            Some(reason) => File::unread(path, size, reason),
            None => File::read(path, bytes, scanner),
        }
    }
}

impl Snapshot {
    /// A snapshot of these files; of two with one path the later stays.
    pub fn new(files: impl IntoIterator<Item = File>) -> Snapshot {
        let by_path: BTreeMap<RelPath, File> =
            files.into_iter().map(|file| (file.path.clone(), file)).collect();
        Snapshot { files: by_path.into_values().collect(), ..Snapshot::default() }
    }

    /// A snapshot of files in memory, built from nothing.
    ///
    /// ```
    /// use context::index::Snapshot;
    /// use domain::RelPath;
    ///
    /// let path = RelPath::new("src/lib.rs")?;
    /// let snapshot = Snapshot::of_files([(path.clone(), b"pub fn pack() {}\n".to_vec())]);
    /// assert_eq!(snapshot.position(&path), Some(0));
    /// assert_eq!(&*snapshot.files()[0].facts.defs()[0].name, "pack");
    /// # Ok::<(), domain::PathError>(())
    /// ```
    pub fn of_files(files: impl IntoIterator<Item = (RelPath, Vec<u8>)>) -> Snapshot {
        let mut scanner = Scanner::default();
        let read = files
            .into_iter()
            .map(|(path, bytes)| File::from_bytes(path, &bytes, FILE_BYTES_MAX_DEFAULT, &mut scanner));
        Snapshot::new(read)
    }

    /// Files that are sorted by path already.
    pub(crate) fn of_sorted(files: Vec<File>) -> Snapshot {
        Snapshot { files, ..Snapshot::default() }
    }

    /// The same files with these commits, the newest first.
    #[must_use]
    pub fn with_commits(self, commits: impl Into<Arc<[CommitFacts]>>) -> Snapshot {
        Snapshot { commits: commits.into(), ..self }
    }

    /// The same, and whether files may be missing.
    #[must_use]
    pub fn with_partial(self, partial: bool) -> Snapshot {
        Snapshot { partial, ..self }
    }

    /// The same with some files changed, added or, where there is none, removed.
    #[must_use]
    pub fn with_changes(&self, changes: impl IntoIterator<Item = (RelPath, Option<File>)>) -> Snapshot {
        let changes: BTreeMap<RelPath, Option<File>> = changes.into_iter().collect();
        let mut files = Vec::with_capacity(self.files.len() + changes.len());
        let mut kept = self.files.iter().peekable();
        for (path, change) in changes {
            while let Some(file) = kept.next_if(|file| file.path < path) {
                files.push(file.clone());
            }
            kept.next_if(|file| file.path == path);
            files.extend(change);
        }
        files.extend(kept.cloned());
        Snapshot { files, commits: Arc::clone(&self.commits), partial: self.partial }
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the position of a file in [`Snapshot::files`].
    pub fn position(&self, path: &RelPath) -> Option<usize> {
        self.files.binary_search_by(|file| file.path.cmp(path)).ok()
    }

    /// A file.
    pub fn file(&self, path: &RelPath) -> Option<&File> {
        self.position(path).map(|place| &self.files[place])
    }

    /// The newest commits that changed between one and thirty paths, the newest first.
    pub fn commits(&self) -> &[CommitFacts] {
        &self.commits
    }

    /// Returns whether its commits are these, and no copy of them.
    pub(crate) fn is_of(&self, commits: &Arc<[CommitFacts]>) -> bool {
        Arc::ptr_eq(&self.commits, commits)
    }

    /// Returns true if files may be missing: there was no time for all, or there are too many.
    pub fn partial(&self) -> bool {
        self.partial
    }

    /// Returns the approximate memory of the snapshot, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let file = |file: &File| size_of::<File>() + file.path.as_bytes().len() + file.facts.memory_bytes();
        let commit = |commit: &CommitFacts| {
            let paths: usize = commit.paths.iter().map(|path| path.as_bytes().len() + 16).sum();
            size_of::<CommitFacts>() + commit.subject.len() + commit.terms.len() * 8 + paths
        };
        self.files.iter().map(file).sum::<usize>() + self.commits.iter().map(commit).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    fn read(name: &str, text: &str) -> (RelPath, Option<File>) {
        (path(name), Some(File::read(path(name), text.as_bytes(), &mut Scanner::default())))
    }

    #[test]
    fn a_changed_snapshot_is_the_snapshot_of_the_changed_files() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let base = Snapshot::of_files([
            (path("b"), bytes("two")),
            (path("a"), bytes("one")),
            (path("d"), bytes("four")),
        ]);
        let changed = base.with_changes([
            read("b", "zwei"),
            (path("d"), None),
            read("c", "three"),
            (path("zz"), None),
            read("e", "five"),
        ]);
        let rebuilt = Snapshot::of_files([
            (path("a"), bytes("one")),
            (path("b"), bytes("zwei")),
            (path("c"), bytes("three")),
            (path("e"), bytes("five")),
        ]);
        assert_eq!(changed, rebuilt);
        assert_eq!(base.files().len(), 3);
        assert!(Arc::ptr_eq(&changed.files()[0].facts, &base.files()[0].facts));
    }

    #[test]
    fn files_that_are_not_read_have_no_hash() {
        let snapshot = Snapshot::of_files([
            (path(".env"), b"KEY=1".to_vec()),
            (path("big.rs"), vec![b'a'; 512 * 1024 + 1]),
            (path("bin"), b"\0".to_vec()),
        ]);
        let lines: Vec<_> =
            snapshot.files().iter().map(|file| (file.hash.is_some(), file.path_only)).collect();
        assert_eq!(
            lines,
            [
                (false, Some(PathOnly::Secret)),
                (false, Some(PathOnly::TooLarge)),
                (true, Some(PathOnly::Binary))
            ]
        );
        assert_eq!(snapshot.files()[1].facts.bytes, 512 * 1024 + 1);
    }

    #[test]
    fn only_hexadecimal_digits_name_a_commit() {
        assert!(Oid::new(&"a0".repeat(20)).is_some());
        assert!(Oid::new(&"a0".repeat(32)).is_some());
        for text in ["", "a0", &"A0".repeat(20), &"g0".repeat(20), &"a".repeat(41)] {
            assert_eq!(Oid::new(text), None);
        }
    }
}
