//! Which worker processes live: each holds a lock on a file of its own while it does.
//!
//! The kernel drops the lock when the process is gone, however it went. So a dead worker is known at once, and nobody
//! has to wait for its leases.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::WorkerId;
use rustix::fs::{FlockOperation, flock};
use store::{JobStore, JobStoreError};

/// The life sign of one worker of this process; dropped, it is gone.
#[derive(Debug)]
pub(super) struct Presence {
    path: PathBuf,
    _lock: File,
    /// Whether the file stays, as that of one who died.
    stays: bool,
}

impl Presence {
    /// Shows that `worker` lives.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub(super) fn show(data_dir: &Path, worker: WorkerId) -> io::Result<Self> {
        let dir = workers_dir(data_dir);
        fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{worker}.lock"));
        // It gets its name when it is locked: whoever looks for the dead never meets it before.
        let beside = dir.join(format!("{worker}.new"));
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&beside, &path)?;
        Ok(Self { path, _lock: lock, stays: false })
    }

    /// The worker goes with jobs that it could not settle: it is to be found dead, so that nobody waits for its leases.
    pub(super) fn die(mut self) {
        self.stays = true;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // Unlinked while locked: whoever opens it later makes a new one.
        if !self.stays {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether this worker lives, as far as its life sign tells.
pub(super) fn is_present(data_dir: &Path, worker: WorkerId) -> bool {
    match File::open(workers_dir(data_dir).join(format!("{worker}.lock"))) {
        Ok(sign) => flock(&sign, FlockOperation::NonBlockingLockShared).is_err(),
        Err(_) => false,
    }
}

/// Ends the leases of workers that are gone; says how many leases.
///
/// # Errors
/// The store failed. What cannot be read of the directory is left for the next time.
pub(super) async fn bury_the_dead(data_dir: &Path, store: &dyn JobStore) -> Result<usize, JobStoreError> {
    let mut freed = 0;
    for (worker, path, lock) in dead_workers(data_dir) {
        freed += store.free_leases(worker).await?;
        let _ = fs::remove_file(path);
        drop(lock);
    }
    Ok(freed)
}

/// The workers that are gone and not buried yet.
pub(super) fn gone_workers(data_dir: &Path) -> Vec<WorkerId> {
    dead_workers(data_dir).into_iter().map(|(worker, ..)| worker).collect()
}

fn dead_workers(data_dir: &Path) -> Vec<(WorkerId, PathBuf, File)> {
    let Ok(files) = fs::read_dir(workers_dir(data_dir)) else { return Vec::new() };
    let mut dead = Vec::new();
    for file in files.flatten() {
        let name = file.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".lock")).and_then(|id| id.parse().ok());
        let (Some(worker), Ok(lock)) = (id, File::open(file.path())) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            dead.push((worker, file.path(), lock));
        }
    }
    dead
}

fn workers_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("workers")
}
