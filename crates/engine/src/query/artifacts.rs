//! `artifacts`: the files that a plan made or changed, as they are after it, listed or written out.
//!
//! # Invariants
//! Each exported file is at its path below the named directory, and nowhere else: directories are created one
//! by one, and no link is followed.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use domain::{FileState, Kind, PlanId, fold};
use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use store::{PlanStoreError, StoreError};

use super::diff::aliases;
use crate::engine::{Engine, EngineInner};
use crate::run::plan_sandbox::content::StoreContents;

/// A file that a plan made or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Its name for users.
    pub address: String,
    /// The state of the file.
    pub state: FileState,
}

/// Why artifacts were not listed or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactsError {
    /// The plan cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// One could not be written.
    #[error("{address} cannot be written to {}: {source}", dir.display())]
    Write {
        /// The address of the file.
        address: String,
        /// The target directory.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<StoreError> for ArtifactsError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// The files of a plan's present attempt; written below `out` when one is named, which must not hold them
    /// yet.
    ///
    /// # Errors
    /// There is no such plan, or a file cannot be written.
    pub async fn artifacts(&self, id: PlanId, out: Option<&Path>) -> Result<Vec<Artifact>, ArtifactsError> {
        let plan = self.inner.store.plan(id).await?;
        let names = aliases(&plan);
        let mut artifacts = Vec::new();
        for change in fold(&self.inner.entries(&plan).await?) {
            let Some(state) = change.after else { continue };
            let address = domain::change_address(&change, &names);
            if let Some(dir) = out {
                // With several projects each has a directory of its own.
                let project = names.iter().find(|name| names.len() > 1 && name.root == change.root);
                let home = project.map_or_else(|| dir.to_path_buf(), |project| dir.join(&project.alias));
                let written = self.inner.write_out(&home, change.path.as_bytes(), &state);
                written.map_err(|source| ArtifactsError::Write {
                    address: address.clone(),
                    dir: dir.to_path_buf(),
                    source,
                })?;
            }
            artifacts.push(Artifact { address, state });
        }
        Ok(artifacts)
    }
}

impl EngineInner {
    fn write_out(&self, home: &Path, path: &[u8], state: &FileState) -> io::Result<()> {
        let (dir, name) = make_parents(home, path)?;
        let stored = StoreContents(self.store.as_ref());
        match state.kind {
            Kind::Dir => Ok(mkdirat(&dir, name, Mode::from_raw_mode(0o755))?),
            Kind::Symlink => Ok(symlinkat(stored.read(&state.hash)?.as_slice(), &dir, name)?),
            Kind::File => {
                let mode = Mode::from_raw_mode(u32::from(state.mode & 0o777) | 0o600);
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = fs::File::from(openat(&dir, name, flags, mode)?);
                io::copy(&mut self.store.open_content(&state.hash)?, &mut file)?;
                Ok(())
            }
        }
    }
}

/// Creates the missing directories of `path`; returns the directory that contains it, and the last component.
fn make_parents<'a>(home: &Path, path: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
    fs::create_dir_all(home)?;
    let mut dir = sandbox::fs::beneath::open_root(home)?;
    let mut components: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = components.pop().unwrap_or_default();
    for component in components {
        match mkdirat(&dir, component, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = openat(&dir, component, flags, Mode::empty())?;
    }
    Ok((dir, name))
}
