//! Contents on their way into a repository.
//!
//! # Invariants
//! Contents pass through git's own filters (line endings, LFS, encodings), as `git add` would pass them. The many that no
//! filter touches are added by one call.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use domain::{FileState, Kind, RelPath};

use super::IndexEntry;
use super::build::Building;
use super::program::GitError;
use crate::journal::{Bytes, Image};

/// How many bytes of one file are committed: git holds them in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What the plan did to a path of the repository.
pub(super) struct Sides {
    pub(super) path: RelPath,
    pub(super) before: Option<IndexEntry>,
    pub(super) after: Option<IndexEntry>,
}

impl Building<'_> {
    /// Adds the contents to the repository.
    pub(super) fn store_blobs(&self, prefix: &str) -> Result<Vec<Sides>, GitError> {
        let filters = self.filters()?;
        let mut plain = Vec::new();
        let mut sides = Vec::new();
        for (number, file) in self.request.files.iter().enumerate() {
            let path =
                RelPath::new([prefix.as_bytes(), file.path.as_bytes()].concat()).map_err(io::Error::other)?;
            let mut side = |image: Option<&Image>, which: &str| -> Result<Option<Pending>, GitError> {
                let Some(image) = image.filter(|image| image.state.kind != Kind::Dir) else {
                    return Ok(None);
                };
                let bytes = self.bytes(image)?;
                let mode = mode_of(&image.state);
                if mode != LINK && filters.apply(&file.path, &bytes) {
                    return Ok(Some(Pending::Stored(IndexEntry {
                        mode,
                        oid: self.filtered(&file.path, &bytes)?,
                    })));
                }
                let copy = self.scratch.join(format!("{number}-{which}"));
                fs::write(&copy, bytes)?;
                plain.push(copy);
                Ok(Some(Pending::Plain { mode, index: plain.len() - 1 }))
            };
            let before = side(file.before.as_ref(), "before")?;
            sides.push((path, before, side(file.after.as_ref(), "after")?));
        }
        let oids = self.store_plain(&plain)?;
        let entry = |pending: Option<Pending>| match pending {
            None => Ok(None),
            Some(Pending::Stored(entry)) => Ok(Some(entry)),
            Some(Pending::Plain { mode, index }) => match oids.get(index) {
                Some(oid) => Ok(Some(IndexEntry { mode, oid: oid.clone() })),
                None => Err(GitError::Io {
                    source: io::Error::other("git named fewer objects than it was given"),
                }),
            },
        };
        let joined = sides
            .into_iter()
            .map(|(path, before, after)| Ok(Sides { path, before: entry(before)?, after: entry(after)? }));
        joined.collect()
    }

    fn bytes(&self, image: &Image) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        match &image.bytes {
            Bytes::Here(here) => return Ok(here.clone()),
            Bytes::Content => {
                self.request.content.open(&image.state.hash)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
            }
            Bytes::AsFound => {
                return Err(GitError::Io {
                    source: io::Error::other("the content of a plan is never in the tree"),
                });
            }
        }
        if bytes.len() as u64 != image.state.size {
            return Err(GitError::Io { source: io::ErrorKind::FileTooLarge.into() });
        }
        Ok(bytes)
    }

    fn filtered(&self, path: &RelPath, bytes: &[u8]) -> Result<String, GitError> {
        let argument = std::str::from_utf8(path.as_bytes()).map_err(io::Error::other)?;
        self.git.line(&["hash-object", "-w", "--stdin", "--path", argument], bytes)
    }

    /// Adds files as they are, all by one call.
    fn store_plain(&self, files: &[PathBuf]) -> Result<Vec<String>, GitError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let mut list = Vec::new();
        for file in files {
            list.extend(file.as_os_str().as_encoded_bytes());
            list.push(b'\n');
        }
        let printed = self.git.run_with(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &list)?;
        Ok(String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect())
    }

    /// Which paths git would filter.
    fn filters(&self) -> Result<Filters, GitError> {
        let mut list = Vec::new();
        for file in self.request.files {
            list.extend(file.path.as_bytes());
            list.push(0);
        }
        let attributes = ["filter", "ident", "working-tree-encoding", "text", "eol", "crlf"];
        let arguments = [&["check-attr", "-z", "--stdin"], &attributes[..]].concat();
        let printed = self.git.run_with(&arguments, &list)?;
        let mut filters = Filters { all_lines: false, always: BTreeSet::new(), lines: BTreeSet::new() };
        let mut fields = printed.split(|byte| *byte == 0);
        while let (Some(path), Some(name), Some(value)) = (fields.next(), fields.next(), fields.next()) {
            if matches!(value, b"unspecified" | b"unset") {
                continue;
            }
            match name {
                b"text" | b"eol" | b"crlf" => filters.lines.insert(path.to_vec()),
                _ => filters.always.insert(path.to_vec()),
            };
        }
        let setting = self.git.output(&["config", "--get", "core.autocrlf"], b"")?;
        filters.all_lines = matches!(setting.stdout.trim_ascii(), b"true" | b"input");
        Ok(filters)
    }
}

/// A content on its way into the repository.
enum Pending {
    Stored(IndexEntry),
    Plain { mode: String, index: usize },
}

/// Which paths git's filters change.
struct Filters {
    /// Line endings of every text are changed.
    all_lines: bool,
    /// Paths with a filter.
    always: BTreeSet<Vec<u8>>,
    /// Paths whose line endings are changed.
    lines: BTreeSet<Vec<u8>>,
}

impl Filters {
    fn apply(&self, path: &RelPath, bytes: &[u8]) -> bool {
        let path = path.as_bytes();
        self.always.contains(path)
            || ((self.all_lines || self.lines.contains(path)) && bytes.contains(&b'\r'))
    }
}

const LINK: &str = "120000";

fn mode_of(state: &FileState) -> String {
    let mode = match state.kind {
        Kind::Symlink => LINK,
        Kind::File | Kind::Dir if state.mode & 0o100 != 0 => "100755",
        Kind::File | Kind::Dir => "100644",
    };
    mode.to_owned()
}
