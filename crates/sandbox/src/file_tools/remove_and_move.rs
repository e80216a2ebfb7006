//! Removes and moves files of a sandbox.
//!
//! # Invariants
//! 1. Content that is removed, moved or replaced is stored as its base first.
//! 2. Nothing protected is touched, also not as part of a directory.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;

use domain::{RelPath, RootIndex};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, Stat};
use rustix::io::Errno;

use super::WriteFileError;
use crate::capture::{CaptureRules, ProtectedPaths};
use crate::content::ContentSink;
use crate::fs::beneath;
use crate::fs::beneath::BeneathError;
use crate::fs::listing::{is_absent, kind_of, list, open_dir};
use crate::fs::remove::remove_tree;
use crate::restore::make_parents;
use crate::sandbox::Sandbox;

/// The parts of a file or directory: directories before their entries.
struct TreePaths {
    dirs: Vec<RelPath>,
    files: Vec<RelPath>,
}

impl TreePaths {
    /// Returns the number of files; a directory without any counts as one.
    fn count(&self) -> u64 {
        (self.files.len() as u64).max(1)
    }
}

impl Sandbox {
    /// Removes a file, an empty directory, or with `recursive` a directory with all that is in it; returns
    /// how many files that were. The next scan reports it.
    ///
    /// # Errors
    /// Returns an error if it does not exist, may not or cannot be removed, or cannot be stored.
    pub fn delete_file(
        &mut self,
        no: RootIndex,
        path: &RelPath,
        recursive: bool,
        sink: &dyn ContentSink,
        rules: &CaptureRules,
    ) -> Result<u64, WriteFileError> {
        let parts = self.parts(no, path, &ProtectedPaths::new(rules).and(self.hidden(no)))?;
        let is_dir = !parts.dirs.is_empty();
        if is_dir && !recursive && (parts.dirs.len() > 1 || !parts.files.is_empty()) {
            return Err(WriteFileError::NotEmpty { path: path.clone() });
        }
        for file in &parts.files {
            self.keep_base(no, file, sink, rules)?;
        }
        let at = io_at(path);
        let parent = beneath::open_parent(self.root(no)?, path).map_err(|error| at(error.into_io()))?;
        let name = CString::new(path.file_name()).map_err(|nul| at(nul.into()))?;
        match is_dir {
            true => remove_tree(parent.as_fd(), &name).map_err(at)?,
            false => {
                rustix::fs::unlinkat(&parent, &name, AtFlags::empty()).map_err(|errno| at(errno.into()))?
            }
        }
        Ok(parts.count())
    }

    /// Moves a file or directory, and makes directories that are missing on the way; returns how many files
    /// that were. With `overwrite` it takes the place of a file. The next scan reports it.
    ///
    /// # Errors
    /// Returns an error if it does not exist, something is in the way, or it may not or cannot be moved or
    /// stored.
    pub fn move_file(
        &mut self,
        no: RootIndex,
        (from, to): (&RelPath, &RelPath),
        overwrite: bool,
        sink: &dyn ContentSink,
        rules: &CaptureRules,
    ) -> Result<u64, WriteFileError> {
        let inside = [from.as_bytes(), b"/"].concat();
        if to.as_bytes().starts_with(&inside) {
            return Err(io_at(to)(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is inside the directory that is moved",
            )));
        }
        let protected = ProtectedPaths::new(rules).and(self.hidden(no));
        let parts = self.parts(no, from, &protected)?;
        let dirs = parts.dirs.iter().map(|dir| (dir, true));
        for (part, is_dir) in dirs.chain(parts.files.iter().map(|file| (file, false))) {
            let path = moved_path(from, to, part)?;
            if protected.has(&path, is_dir) {
                return Err(WriteFileError::Protected { path });
            }
        }
        let there = stat(self, no, to)?;
        let in_the_way =
            there.as_ref().is_some_and(|there| !overwrite || kind_of(there) == FileType::Directory);
        if in_the_way || (there.is_some() && !parts.dirs.is_empty()) {
            return Err(WriteFileError::Exists { path: to.clone() });
        }
        for file in parts.files.iter().chain(there.is_some().then_some(to)) {
            self.keep_base(no, file, sink, rules)?;
        }
        make_parents(self.root(no)?, to)?;
        match self.rename(no, from, to, overwrite) {
            // An overlay does not rename a directory of the user's: a new one is made, and its files are
            // moved.
            Err(Errno::XDEV) if !parts.dirs.is_empty() => self.move_parts(no, from, to, &parts)?,
            Err(Errno::EXIST) => return Err(WriteFileError::Exists { path: to.clone() }),
            renamed => renamed.map_err(|errno| io_at(from)(errno.into()))?,
        }
        Ok(parts.count())
    }

    fn rename(&self, no: RootIndex, from: &RelPath, to: &RelPath, overwrite: bool) -> Result<(), Errno> {
        let root = self.root(no).map_err(|_| Errno::NOENT)?;
        let errno = |error: BeneathError| Errno::from_io_error(&error.into_io()).unwrap_or(Errno::ACCESS);
        let (old, new) = (
            beneath::open_parent(root, from).map_err(errno)?,
            beneath::open_parent(root, to).map_err(errno)?,
        );
        let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        rustix::fs::renameat_with(&old, from.file_name(), &new, to.file_name(), flags)
    }

    fn move_parts(
        &self,
        no: RootIndex,
        from: &RelPath,
        to: &RelPath,
        parts: &TreePaths,
    ) -> Result<(), WriteFileError> {
        let moved = |path: &RelPath| moved_path(from, to, path);
        let root = self.root(no)?;
        for dir in &parts.dirs {
            let (new, old) = (moved(dir)?, stat(self, no, dir)?);
            let mode = old.map_or(0o777, |stat| stat.st_mode & 0o7777) | 0o700;
            let parent = beneath::open_parent(root, &new).map_err(|error| io_at(&new)(error.into_io()))?;
            rustix::fs::mkdirat(&parent, new.file_name(), Mode::from_raw_mode(mode))
                .map_err(|errno| io_at(&new)(errno.into()))?;
        }
        for file in &parts.files {
            self.rename(no, file, &moved(file)?, false).map_err(|errno| io_at(file)(errno.into()))?;
        }
        for dir in parts.dirs.iter().rev() {
            let parent = beneath::open_parent(root, dir).map_err(|error| io_at(dir)(error.into_io()))?;
            rustix::fs::unlinkat(&parent, dir.file_name(), AtFlags::REMOVEDIR)
                .map_err(|errno| io_at(dir)(errno.into()))?;
        }
        Ok(())
    }

    /// Returns the entries at a path; an error if one of them is protected.
    fn parts(
        &self,
        no: RootIndex,
        path: &RelPath,
        protected: &ProtectedPaths,
    ) -> Result<TreePaths, WriteFileError> {
        let root = self.root(no)?;
        let mut parts = TreePaths { dirs: Vec::new(), files: Vec::new() };
        let found = stat(self, no, path)?.ok_or_else(|| io_at(path)(Errno::NOENT.into()))?;
        let mut waiting = vec![(path.clone(), kind_of(&found))];
        while let Some((path, kind)) = waiting.pop() {
            if protected.has(&path, kind == FileType::Directory) {
                return Err(WriteFileError::Protected { path });
            }
            if kind != FileType::Directory {
                parts.files.push(path);
                continue;
            }
            let opened = open_dir(root, Some(&path)).map_err(|error| io_at(&path)(error.into_io()))?;
            for entry in list(opened.as_fd()).map_err(io_at(&path))? {
                let inner = entry.path(Some(&path));
                let inner = inner
                    .map_err(|error| io_at(&path)(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
                waiting.push((inner, entry.kind()));
            }
            parts.dirs.push(path);
        }
        Ok(parts)
    }
}

/// Returns the new path of a part of a moved directory.
fn moved_path(from: &RelPath, to: &RelPath, part: &RelPath) -> Result<RelPath, WriteFileError> {
    let below = &part.as_bytes()[from.as_bytes().len()..];
    RelPath::new([to.as_bytes(), below].concat())
        .map_err(|error| io_at(part)(io::Error::new(io::ErrorKind::InvalidInput, error)))
}

fn stat(sandbox: &Sandbox, no: RootIndex, path: &RelPath) -> Result<Option<Stat>, WriteFileError> {
    use rustix::fs::OFlags;
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    match beneath::open(sandbox.root(no)?, path, flags, Mode::empty(), beneath::LinkPolicy::Refuse) {
        Ok(held) => rustix::fs::fstat(&held).map(Some).map_err(|errno| io_at(path)(errno.into())),
        Err(BeneathError::Escapes { path }) => Err(WriteFileError::Escapes { path }),
        Err(why) if is_absent(&why) => Ok(None),
        Err(why) => Err(io_at(path)(why.into_io())),
    }
}

fn io_at(path: &RelPath) -> impl Fn(io::Error) -> WriteFileError + use<> {
    let path = path.clone();
    move |source| WriteFileError::Io { path: path.clone(), source }
}
