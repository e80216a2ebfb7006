//! The registry of live workers: each process holds a lock on a file of its own while it is alive.
//!
//! The kernel drops the lock when the process is gone, however it went. So a dead worker is known at once,
//! and no process has to wait for its leases. The file says which plans the worker serves. If the worker
//! takes any plan, the file also names the variables that it was started with, never their values. Keys of
//! models come from there.
//!
//! # Invariants
//! The start and the end of a worker that takes any plan are decided under one lock ([`StartLock`]). Of a job
//! that was detached before, either the worker that ends knows, or the process that detached it knows that
//! the worker ends.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Job, PlanId, WorkerId};
use rustix::fs::{FlockOperation, flock};
use store::{JobStore, JobStoreError};

use crate::data_files::open_file;

/// A temporary lock file that is older belongs to no live process.
const TEMP_FILE_MAX_AGE: Duration = Duration::from_secs(60);

/// The plans that a worker serves. Each is written in as many letters, so that one takes the place of
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerScope {
    /// Any plan that waits.
    Any,
    /// No new plan: it ends.
    Nobody,
    /// This plan.
    One(PlanId),
}

impl WorkerScope {
    fn written(self) -> String {
        match self {
            WorkerScope::Any => format!("{:<26}", "any"),
            WorkerScope::Nobody => format!("{:<26}", "nobody"),
            WorkerScope::One(plan) => format!("{:<26}", plan.to_string()),
        }
    }

    fn read(text: &str) -> Option<WorkerScope> {
        match text.trim_end() {
            "any" => Some(WorkerScope::Any),
            "nobody" => Some(WorkerScope::Nobody),
            plan => plan.parse().ok().map(WorkerScope::One),
        }
    }
}

/// The lock file of one worker of this process; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct WorkerRegistration {
    path: PathBuf,
    lock: File,
    /// True if the file stays, like that of a dead worker.
    stays: bool,
}

impl WorkerRegistration {
    /// Registers `worker` as alive.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub(crate) fn register(data_dir: &Path, worker: WorkerId, serves: WorkerScope) -> io::Result<Self> {
        let dir = workers_dir(data_dir);
        crate::engine::make_private(&dir)?;
        let path = dir.join(format!("{worker}.lock"));
        // It gets its name when it is locked: a process that looks for dead workers never finds it before.
        let beside = dir.join(format!("{worker}.new"));
        let mut lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        lock.write_all(serves.written().as_bytes())?;
        if serves == WorkerScope::Any {
            let names: Vec<String> = own_variables().into_iter().collect();
            lock.write_all(format!("\n{}\n", names.join("\n")).as_bytes())?;
        }
        fs::rename(&beside, &path)?;
        Ok(Self { path, lock, stays: false })
    }

    /// From here on it takes no new plan. A caller that relies on that holds the lock of [`StartLock`].
    pub(crate) fn stop_accepting(&self) {
        // If it cannot be written, the worker is counted on until it is gone, as if it were slow.
        let _ = self.lock.write_all_at(WorkerScope::Nobody.written().as_bytes(), 0);
    }

    /// Leaves the file behind: the worker could not settle its jobs and has to be found dead, so that no
    /// process waits for its leases.
    pub(crate) fn leave_as_dead(mut self) {
        self.stays = true;
    }
}

impl Drop for WorkerRegistration {
    fn drop(&mut self) {
        // Unlinked while locked: a process that opens it later makes a new one.
        if !self.stays {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns true if the lock file of this worker is locked: it is alive.
pub(crate) fn is_present(data_dir: &Path, worker: WorkerId) -> bool {
    match open_file(&workers_dir(data_dir).join(format!("{worker}.lock"))) {
        Ok(sign) => flock(&sign, FlockOperation::NonBlockingLockShared).is_err(),
        Err(_) => false,
    }
}

/// The plans that the live workers serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveWorkers {
    /// The variables that each of those that take any plan was started with.
    pub(crate) any: Vec<BTreeSet<String>>,
    /// The plans that have a worker of their own.
    pub(crate) plans: BTreeSet<PlanId>,
}

impl LiveWorkers {
    /// Returns true if one takes any plan that needs these variables.
    pub(crate) fn has_for(&self, keys: &BTreeSet<String>) -> bool {
        self.any.iter().any(|variables| keys.is_subset(variables))
    }

    /// Returns true if one will claim this job.
    pub(crate) fn has_for_job(&self, job: &Job) -> bool {
        match job.is_held() {
            true => self.plans.contains(&job.plan),
            false => self.has_for(&job.keys),
        }
    }
}

/// The variables of this process that have a value: one that is blank is as good as none.
pub(crate) fn own_variables() -> BTreeSet<String> {
    let is_line = |name: &String| !name.contains(char::is_whitespace);
    let has_value = |value: &OsString| !value.to_string_lossy().trim().is_empty();
    let set = std::env::vars_os().filter(|(_, value)| has_value(value));
    set.filter_map(|(name, _)| name.into_string().ok()).filter(is_line).collect()
}

/// Reads from their lock files what the live workers serve.
pub(crate) fn live_workers(data_dir: &Path) -> LiveWorkers {
    let mut served = LiveWorkers::default();
    let Ok(files) = fs::read_dir(workers_dir(data_dir)) else { return served };
    for file in files.flatten().filter(|file| worker_of(file).is_some()) {
        let Ok(sign) = open_file(&file.path()) else { continue };
        if flock(&sign, FlockOperation::NonBlockingLockShared).is_ok() {
            continue;
        }
        let Ok(text) = io::read_to_string(sign) else { continue };
        let mut lines = text.lines();
        match lines.next().and_then(WorkerScope::read) {
            Some(WorkerScope::Any) => served.any.push(lines.map(str::to_owned).collect()),
            Some(WorkerScope::One(plan)) => drop(served.plans.insert(plan)),
            Some(WorkerScope::Nobody) | None => {}
        }
    }
    served
}

/// The lock under which a process starts, or stops, a worker that takes any plan; dropping it releases the
/// lock.
#[derive(Debug)]
pub struct StartLock {
    _lock: File,
}

impl StartLock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// The lock cannot be made or taken.
    pub(crate) fn take(data_dir: &Path) -> io::Result<StartLock> {
        let dir = workers_dir(data_dir);
        crate::engine::make_private(&dir)?;
        let path = dir.join("starting");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        loop {
            match flock(&lock, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                taken => return taken.map(|()| StartLock { _lock: lock }).map_err(io::Error::from),
            }
        }
    }
}

/// The leases of dead workers that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleasedLeases {
    /// The number of workers that were found.
    pub(crate) workers: usize,
    /// The number of leases of theirs that were ended.
    pub(crate) leases: usize,
}

/// Ends the leases of workers that are gone.
///
/// # Errors
/// The store failed. Files that cannot be read are left for the next time.
pub(crate) async fn release_dead_leases(
    data_dir: &Path,
    store: &dyn JobStore,
) -> Result<ReleasedLeases, JobStoreError> {
    let mut buried = ReleasedLeases::default();
    for (worker, path, lock) in find_dead_workers(data_dir) {
        buried.leases += store.free_leases(worker).await?;
        buried.workers += 1;
        let _ = fs::remove_file(path);
        drop(lock);
    }
    Ok(buried)
}

/// The workers that are dead and whose leases are not released yet.
pub(crate) fn dead_worker_ids(data_dir: &Path) -> Vec<WorkerId> {
    find_dead_workers(data_dir).into_iter().map(|(worker, ..)| worker).collect()
}

fn find_dead_workers(data_dir: &Path) -> Vec<(WorkerId, PathBuf, File)> {
    let Ok(files) = fs::read_dir(workers_dir(data_dir)) else { return Vec::new() };
    let mut dead = Vec::new();
    for file in files.flatten() {
        remove_stale_temp_file(&file);
        let (Some(worker), Ok(lock)) = (worker_of(&file), open_file(&file.path())) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            dead.push((worker, file.path(), lock));
        }
    }
    dead
}

/// Removes the temporary lock file of a worker that died before it was registered. Between its creation and
/// its lock, the file of a live worker looks the same, so it must be of some age.
fn remove_stale_temp_file(file: &fs::DirEntry) {
    let is_new = |name: &str| name.strip_suffix(".new").is_some_and(|id| id.parse::<WorkerId>().is_ok());
    if !file.file_name().to_str().is_some_and(is_new) {
        return;
    }
    let age =
        file.metadata().and_then(|found| found.modified()).map(|made| made.elapsed().unwrap_or_default());
    let is_free = || {
        open_file(&file.path())
            .is_ok_and(|sign| flock(&sign, FlockOperation::NonBlockingLockExclusive).is_ok())
    };
    if age.is_ok_and(|age| age >= TEMP_FILE_MAX_AGE) && is_free() {
        let _ = fs::remove_file(file.path());
    }
}

/// The worker whose lock file this is.
fn worker_of(file: &fs::DirEntry) -> Option<WorkerId> {
    file.file_name().to_str()?.strip_suffix(".lock")?.parse().ok()
}

/// The directory of the lock files and sockets.
pub(crate) fn workers_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("workers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::time::SystemTime;

    #[test]
    fn the_beginning_of_a_life_sign_goes_when_nobody_can_finish_it_any_more() {
        let data_dir = tempfile::tempdir().unwrap();
        let dir = workers_dir(data_dir.path());
        fs::create_dir_all(&dir).unwrap();
        let made = |name: &str, age: Duration| {
            let file = File::create(dir.join(name)).unwrap();
            file.set_times(FileTimes::new().set_modified(SystemTime::now() - age)).unwrap();
            file
        };
        let old = TEMP_FILE_MAX_AGE * 2;
        made("01JB3QK7XM0000000000000001.new", old);
        made("01JB3QK7XM0000000000000002.new", Duration::ZERO);
        let lives = made("01JB3QK7XM0000000000000003.new", old);
        flock(&lives, FlockOperation::NonBlockingLockExclusive).unwrap();
        made("notes.new", old);
        assert_eq!(dead_worker_ids(data_dir.path()), []);
        let mut left: Vec<String> = fs::read_dir(&dir)
            .unwrap()
            .flatten()
            .map(|file| file.file_name().into_string().unwrap())
            .collect();
        left.sort();
        let expected = ["01JB3QK7XM0000000000000002.new", "01JB3QK7XM0000000000000003.new", "notes.new"];
        assert_eq!(left, expected);
    }
}
