//! The manifest of a copy: the record of each file when the copy was made, so that a file that differs later
//! was changed.
//!
//! # Invariants
//! The first call begins after the kernel's file clock has passed the making, so no write leaves a record as
//! it was.
//!
//! It is written next to the copy before that: the changes in a retained copy can be found only by its
//! manifest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use domain::RelPath;

use crate::fs::beneath::BeneathError;
use crate::fs::listing::{FileStamp, PermissionGuard, list, open_dir};

/// The record of each path.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    stamps: BTreeMap<RelPath, FileStamp>,
}

impl Manifest {
    /// Makes the manifest of a whole tree of ours, whatever its permissions are.
    pub(crate) fn from_tree(tree: BorrowedFd<'_>) -> Result<Manifest, BeneathError> {
        let mut unlocked = PermissionGuard::in_tree(tree);
        Manifest::with(|dir| unlocked.open_dir(tree, dir).map(Some))
    }

    /// Makes the manifest of all that we may see in the user's tree.
    pub(crate) fn of_users(tree: BorrowedFd<'_>) -> Result<Manifest, BeneathError> {
        Manifest::with(|dir| match open_dir(tree, dir) {
            Ok(opened) => Ok(Some(opened)),
            Err(BeneathError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Ok(None)
            }
            Err(why) => Err(why),
        })
    }

    fn with(
        mut open: impl FnMut(Option<&RelPath>) -> Result<Option<OwnedFd>, BeneathError>,
    ) -> Result<Manifest, BeneathError> {
        let mut stamps = BTreeMap::new();
        let mut dirs = vec![None];
        while let Some(dir) = dirs.pop() {
            let opened = match open(dir.as_ref()) {
                Ok(Some(opened)) => opened,
                Ok(None) => continue,
                Err(why) if why.is_not_found() => continue,
                Err(why) => return Err(why),
            };
            for entry in list(opened.as_fd()).map_err(|source| at(dir.as_ref(), source))? {
                // A path that is too long for a record cannot be captured either.
                let Ok(path) = entry.path(dir.as_ref()) else { continue };
                if entry.kind().is_dir() {
                    dirs.push(Some(path.clone()));
                }
                stamps.insert(path, FileStamp::from_stat(&entry.stat));
            }
        }
        Ok(Manifest { stamps })
    }

    /// Writes it down: of each path its length, itself, the length of its record, its record.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create_new(file)?);
        for (path, stamp) in &self.stamps {
            for part in [path.as_bytes(), &serde_json::to_vec(stamp)?] {
                let length = u16::try_from(part.len()).map_err(io::Error::other)?;
                file.write_all(&length.to_le_bytes())?;
                file.write_all(part)?;
            }
        }
        file.flush()
    }

    /// Reads a manifest from its file.
    pub(crate) fn read(file: &Path) -> io::Result<Manifest> {
        let mut file = BufReader::new(File::open(file)?);
        let mut stamps = BTreeMap::new();
        while let Some(path) = read_part(&mut file)? {
            let stamp = read_part(&mut file)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let path = RelPath::new(path).map_err(io::Error::other)?;
            stamps.insert(path, serde_json::from_slice(&stamp)?);
        }
        Ok(Manifest { stamps })
    }

    pub(crate) fn get(&self, path: &RelPath) -> Option<&FileStamp> {
        self.stamps.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RelPath, &FileStamp)> {
        self.stamps.iter()
    }
}

/// The next part; none at the end.
fn read_part(file: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    match file.read_exact(&mut length) {
        Ok(()) => {}
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(why) => return Err(why),
    }
    let mut part = vec![0; usize::from(u16::from_le_bytes(length))];
    file.read_exact(&mut part)?;
    Ok(Some(part))
}

/// A failure at a directory; none is the root itself.
pub(crate) fn at(dir: Option<&RelPath>, source: std::io::Error) -> BeneathError {
    let path = dir.cloned().unwrap_or_else(crate::fs::listing::root_path);
    BeneathError::Io { path, source }
}
