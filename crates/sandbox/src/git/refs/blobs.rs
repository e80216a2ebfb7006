//! Stores contents in a repository as blobs.
//!
//! # Invariants
//! 1. Contents pass through git's own conversions (line endings, encodings), as `git add` would pass them.
//!    The many that none touches are added by one call.
//! 2. A program that a filter names does not run as git's child. `git-lfs` is known by name, and git starts
//!    it within walls in which it can write the repository and reach no network. Every other program belongs
//!    to the repository as far as this program knows, and runs as a command of the plan does
//!    ([`CleanFilter`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::{FileState, Kind, RelPath};

use super::IndexEntry;
use super::build_commit::CommitBuilder;
use super::program::GitError;
use crate::git::GitDir;
use crate::journal::{FileImage, ImageBytes};

/// The size limit of one committed file: git holds it in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The plan's change to one path of the repository.
pub(super) struct IndexChange {
    pub(super) path: RelPath,
    pub(super) before: Option<IndexEntry>,
    pub(super) after: Option<IndexEntry>,
}

impl CommitBuilder<'_> {
    /// Adds the contents to the repository.
    pub(super) fn store_blobs(&self, prefix: &str) -> Result<Vec<IndexChange>, GitError> {
        let filters = self.filters()?;
        let mut plain = Vec::new();
        let mut sides = Vec::new();
        for (number, file) in self.request.files.iter().enumerate() {
            let path =
                RelPath::new([prefix.as_bytes(), file.path.as_bytes()].concat()).map_err(io::Error::other)?;
            let mut side = |image: Option<&FileImage>,
                            which: &str|
             -> Result<Option<PendingBlob>, GitError> {
                let Some(image) = image.filter(|image| image.state.kind != Kind::Dir) else {
                    return Ok(None);
                };
                let bytes = self.bytes(image)?;
                let mode = mode_of(&image.state);
                if mode != LINK && filters.apply(&file.path, &bytes) {
                    let oid = self.filtered(prefix, &file.path, filters.programs.get(&file.path), &bytes)?;
                    return Ok(Some(PendingBlob::Stored(IndexEntry { mode, oid })));
                }
                let copy = self.scratch.join(format!("{number}-{which}"));
                fs::write(&copy, bytes)?;
                plain.push(copy);
                Ok(Some(PendingBlob::Plain { mode, index: plain.len() - 1 }))
            };
            let before = side(file.before.as_ref(), "before")?;
            sides.push((path, before, side(file.after.as_ref(), "after")?));
        }
        let oids = self.store_plain(&plain)?;
        let entry = |pending: Option<PendingBlob>| match pending {
            None => Ok(None),
            Some(PendingBlob::Stored(entry)) => Ok(Some(entry)),
            Some(PendingBlob::Plain { mode, index }) => match oids.get(index) {
                Some(oid) => Ok(Some(IndexEntry { mode, oid: oid.clone() })),
                None => Err(GitError::Io {
                    source: io::Error::other("git named fewer objects than it was given"),
                }),
            },
        };
        let joined = sides.into_iter().map(|(path, before, after)| {
            Ok(IndexChange { path, before: entry(before)?, after: entry(after)? })
        });
        joined.collect()
    }

    fn bytes(&self, image: &FileImage) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        match &image.bytes {
            ImageBytes::Here(here) => return Ok(here.clone()),
            ImageBytes::Content => {
                self.request.content.open(&image.state.hash)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
            }
            ImageBytes::AsFound => {
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

    /// Adds a content as git's conversions and the path's filter make it.
    fn filtered(
        &self,
        prefix: &str,
        path: &RelPath,
        filter: Option<&FilterProgram>,
        bytes: &[u8],
    ) -> Result<String, GitError> {
        let argument = std::str::from_utf8(path.as_bytes()).map_err(io::Error::other)?;
        let arguments = ["hash-object", "-w", "--stdin", "--path", argument];
        match filter {
            None => self.git.line(&arguments, bytes),
            Some(filter) if filter.is_lfs() => {
                let clean = format!("filter.{}.clean=git-lfs clean -- %f", filter.name);
                let process = format!("filter.{}.process=git-lfs filter-process", filter.name);
                // An empty one would count as one that does nothing.
                let process = (!filter.process.is_empty()).then_some(process);
                let git = self.git.with_settings([clean].into_iter().chain(process));
                git.starting_programs().line(&arguments, bytes)
            }
            Some(filter) => {
                let from_top = RelPath::new([prefix.as_bytes(), path.as_bytes()].concat());
                let from_top = from_top.map_err(io::Error::other)?;
                let top = GitDir::around(self.request.root).map(|(top, _)| top);
                let top = top.as_deref().unwrap_or(self.request.root);
                let cleaned = self.request.cleaner.clean(filter, top, &from_top, bytes);
                let cleaned = cleaned.map_err(|why| GitError::Filter {
                    name: filter.name.clone(),
                    path: path.clone(),
                    why,
                })?;
                let off = ["clean=", "process=", "required=false"];
                let git = self.git.with_settings(off.map(|off| format!("filter.{}.{off}", filter.name)));
                git.line(&arguments, &cleaned)
            }
        }
    }

    /// The programs that filters name, by filter.
    fn filter_programs(&self) -> Result<BTreeMap<String, FilterProgram>, GitError> {
        let (_, printed) =
            self.git.output(&["config", "-z", "--get-regexp", "^(filter|lfs[.]extension)[.]"], b"")?;
        let mut programs: BTreeMap<String, FilterProgram> = BTreeMap::new();
        let mut has_extensions = false;
        for entry in String::from_utf8_lossy(&printed).split('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
            has_extensions |= key.starts_with("lfs.extension.");
            let Some((name, what)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            let program = programs.entry(name.to_owned()).or_default();
            name.clone_into(&mut program.name);
            match what {
                "clean" => value.clone_into(&mut program.clean),
                "process" => value.clone_into(&mut program.process),
                _ => {}
            }
        }
        programs.retain(|_, program| !program.clean.is_empty() || !program.process.is_empty());
        programs.values_mut().for_each(|program| program.starts_extensions = has_extensions);
        Ok(programs)
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

    /// Returns the paths that git would filter.
    fn filters(&self) -> Result<Filters, GitError> {
        let mut list = Vec::new();
        for file in self.request.files {
            list.extend(file.path.as_bytes());
            list.push(0);
        }
        let attributes = ["filter", "ident", "working-tree-encoding", "text", "eol", "crlf"];
        let arguments = [&["check-attr", "-z", "--stdin"], &attributes[..]].concat();
        let printed = self.git.run_with(&arguments, &list)?;
        let mut filters = Filters::default();
        let programs = self.filter_programs()?;
        let mut fields = printed.split(|byte| *byte == 0);
        while let (Some(path), Some(name), Some(value)) = (fields.next(), fields.next(), fields.next()) {
            if matches!(value, b"unspecified" | b"unset") {
                continue;
            }
            match name {
                b"text" | b"eol" | b"crlf" => {
                    filters.lines.insert(path.to_vec());
                }
                b"filter" => {
                    let named = programs.get(String::from_utf8_lossy(value).as_ref());
                    if let (Some(program), Ok(path)) = (named, RelPath::new(path)) {
                        filters.always.insert(path.as_bytes().to_vec());
                        filters.programs.insert(path, program.clone());
                    }
                }
                _ => {
                    filters.always.insert(path.to_vec());
                }
            }
        }
        let (_, setting) = self.git.output(&["config", "--get", "core.autocrlf"], b"")?;
        filters.all_lines = matches!(setting.trim_ascii(), b"true" | b"input");
        Ok(filters)
    }
}

/// The program that a filter of git's configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterProgram {
    /// The filter.
    pub name: String,
    /// `filter.NAME.clean`: a line for the shell, in which `%f` is the path.
    pub clean: String,
    /// `filter.NAME.process`.
    pub process: String,
    /// True if the configuration names programs that git-lfs would start (`lfs.extension.NAME.clean`).
    pub starts_extensions: bool,
}

impl FilterProgram {
    /// Returns true if it is the one that `git lfs install` sets up, and it starts no program that the
    /// repository names.
    fn is_lfs(&self) -> bool {
        let clean = ["git-lfs clean -- %f", "git-lfs clean %f", "git lfs clean -- %f", "git lfs clean %f"];
        let process = ["", "git-lfs filter-process", "git lfs filter-process"];
        let is_plain = clean.contains(&self.clean.as_str()) && process.contains(&self.process.as_str());
        is_plain && !self.starts_extensions
    }

    /// The line for the shell that cleans a file at `path`; none if the filter speaks git's protocol only.
    pub fn clean_line(&self, path: &RelPath) -> Option<Vec<u8>> {
        if self.clean.is_empty() {
            return None;
        }
        let mut line = Vec::new();
        let mut parts = self.clean.split('%');
        line.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        while let Some(part) = parts.next() {
            if let Some(rest) = part.strip_prefix('f') {
                line.extend(quoted(path.as_bytes()));
                line.extend_from_slice(rest.as_bytes());
            } else if part.is_empty() {
                line.push(b'%');
                line.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
            } else {
                line.push(b'%');
                line.extend_from_slice(part.as_bytes());
            }
        }
        Some(line)
    }
}

/// A word of a line for the shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Runs the program of a filter, apart from the rest of the machine.
pub trait CleanFilter {
    /// Returns what the program makes of a content of the file at `path` below `top`, the working tree.
    ///
    /// # Errors
    /// Why it made nothing.
    fn clean(
        &self,
        filter: &FilterProgram,
        top: &Path,
        path: &RelPath,
        content: &[u8],
    ) -> Result<Vec<u8>, String>;
}

/// A content on its way into the repository.
enum PendingBlob {
    Stored(IndexEntry),
    Plain { mode: String, index: usize },
}

/// The paths that git's filters change.
#[derive(Default)]
struct Filters {
    /// Line endings of every text are changed.
    all_lines: bool,
    /// Paths with a filter.
    always: BTreeSet<Vec<u8>>,
    /// Paths whose line endings are changed.
    lines: BTreeSet<Vec<u8>>,
    /// The programs of paths with a filter that has one.
    programs: BTreeMap<RelPath, FilterProgram>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_filter_names_the_path_as_one_word() {
        let line = |clean: &str, path: &str| {
            let filter = FilterProgram { clean: clean.to_owned(), ..FilterProgram::default() };
            filter.clean_line(&RelPath::new(path).unwrap()).map(|line| String::from_utf8(line).unwrap())
        };
        assert_eq!(line("a --x %f | b", "it's $(x)").unwrap(), r"a --x 'it'\''s $(x)' | b");
        assert_eq!(line("a 100%% %%f %d %", "p").unwrap(), "a 100% %f %d %");
        assert_eq!(line("", "p"), None);
    }

    #[test]
    fn only_the_lines_that_git_lfs_sets_up_are_its_own() {
        let program = |clean: &str, process: &str| FilterProgram {
            name: "lfs".into(),
            clean: clean.into(),
            process: process.into(),
            starts_extensions: false,
        };
        let is_lfs = |clean: &str, process: &str| program(clean, process).is_lfs();
        assert!(is_lfs("git-lfs clean -- %f", "git-lfs filter-process"));
        assert!(!is_lfs("./git-lfs clean -- %f", ""));
        assert!(!is_lfs("git-lfs clean -- %f; evil", ""));
        assert!(!is_lfs("git-lfs clean -- %f", "evil"));
        let extended = FilterProgram { starts_extensions: true, ..program("git-lfs clean -- %f", "") };
        assert!(!extended.is_lfs());
    }
}
