//! The locks of an apply: the plan's row, the projects' rows, and the kernel's lock on each root.
//!
//! # Invariants
//! 1. Rows are taken in order of resource, so that two applies never wait for each other in a circle.
//! 2. Rows are renewed while held. The kernel's lock on a root is what guards it from other data directories,
//!    and it goes with the process.
//! 3. The holder of rows is registered with a lock file as long, and its rows name it. So a holder that is
//!    gone is known at once, and no process waits for its leases.
//! 4. A process that writes to a project has the lock of its root, be it an apply or the recovery of one. The
//!    locks of roots come before that of a journal.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{Hash, Lock, LockHeld, LockRequest, LockResource, Plan, WorkerId};
use rustix::fs::{FlockOperation, flock};
use sandbox::journal::JournalRoot;
use store::{LockStoreError, StoreError};
use tokio::task::JoinHandle;

use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::workers::registry::{WorkerRegistration, WorkerScope, is_present};

const LEASE: Duration = Duration::from_secs(2);
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// The longest wait for another apply.
const WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why the locks were not taken.
#[derive(Debug, thiserror::Error)]
pub enum LocksError {
    /// Another process holds one.
    #[error("{what} is locked by {owner}")]
    Held {
        /// The name of the locked object.
        what: String,
        /// By whom.
        owner: String,
    },
    /// A project's root cannot be opened.
    #[error("project {root} cannot be opened: {source}")]
    Root {
        /// Its path.
        root: String,
        /// Why not.
        source: std::io::Error,
    },
    /// This process cannot show to other processes that it is alive.
    #[error("this process cannot be registered as running: {0}")]
    Presence(#[source] std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The locks of one apply.
pub(crate) struct Locks {
    engine: Arc<EngineInner>,
    rows: Vec<Lock>,
    renewing: JoinHandle<()>,
    roots: RootLocks,
    // Dropped last: without it the rows count for nothing.
    _presence: WorkerRegistration,
}

impl Locks {
    /// Takes the locks of the plan and of its projects, and waits for their present holders.
    pub(crate) async fn take(engine: &Arc<EngineInner>, plan: &Plan, what: &str) -> Result<Self, LocksError> {
        let deadline = engine.clock.now().saturating_add(WAIT);
        let holder = WorkerId::from_u128(engine.ids.ulid());
        let registration =
            WorkerRegistration::register(&engine.options.data_dir, holder, WorkerScope::Nobody)
                .map_err(LocksError::Presence)?;
        let owner = format!("{what} of plan {} {}", plan.id, signed(holder));
        let projects = plan
            .projects
            .iter()
            .map(|project| LockResource::Project(Hash::from_content(project.root.as_bytes())));
        let mut resources: Vec<LockResource> = projects.chain([LockResource::Plan(plan.id)]).collect();
        resources.sort();
        let mut rows = Vec::new();
        for resource in resources {
            match take_row(engine, resource, &owner, deadline).await {
                Ok(row) => rows.push(row),
                Err(error) => {
                    release(engine, &rows).await;
                    return Err(error);
                }
            }
        }
        let roots = match lock_roots(engine, plan, deadline).await {
            Ok(roots) => roots,
            Err(error) => {
                release(engine, &rows).await;
                return Err(error);
            }
        };
        let renewing = tokio::spawn(renew(Arc::clone(engine), rows.clone()));
        Ok(Self { engine: Arc::clone(engine), rows, renewing, roots, _presence: registration })
    }

    /// Those of the projects' roots.
    pub(crate) fn roots(&self) -> &RootLocks {
        &self.roots
    }

    /// Frees them.
    pub(crate) async fn release(self) {
        self.renewing.abort();
        release(&self.engine, &self.rows).await;
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// The kernel's locks on the roots of projects.
#[derive(Debug, Default)]
pub(crate) struct RootLocks(Vec<ProjectRootLock>);

#[derive(Debug)]
struct ProjectRootLock {
    path: PathBuf,
    inode: (u64, u64),
    // Held for its lock.
    _root: File,
}

impl RootLocks {
    /// Takes the locks of these roots without waiting, except for those that `held` has. `None` if another
    /// process has one. A root that cannot be opened has nothing to be guarded.
    pub(crate) fn try_take(roots: impl IntoIterator<Item = PathBuf>, held: &RootLocks) -> Option<RootLocks> {
        let mut taken = RootLocks::default();
        for path in roots {
            let Ok(root) = File::open(&path) else { continue };
            let Ok(inode) = inode_of(&root) else { continue };
            if held.0.iter().chain(&taken.0).any(|lock| lock.inode == inode) {
                continue;
            }
            flock(&root, FlockOperation::NonBlockingLockExclusive).ok()?;
            taken.0.push(ProjectRootLock { path, inode, _root: root });
        }
        Some(taken)
    }

    /// Returns true if one of a journal's roots is among these. A directory that was created again in its
    /// place is another.
    pub(crate) fn has_one_of(&self, roots: &[JournalRoot]) -> bool {
        let is =
            |lock: &ProjectRootLock, root: &JournalRoot| lock.path == root.path && lock.inode.1 == root.ino;
        roots.iter().any(|root| self.0.iter().any(|lock| is(lock, root)))
    }
}

fn inode_of(root: &File) -> std::io::Result<(u64, u64)> {
    root.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The words by which a holder of rows is known.
fn signed(holder: WorkerId) -> String {
    format!("(process {}, {holder})", std::process::id())
}

/// The holder that signed so.
fn holder_of(owner: &str) -> Option<WorkerId> {
    owner.strip_suffix(')')?.rsplit_once(", ")?.1.parse().ok()
}

async fn take_row(
    engine: &EngineInner,
    resource: LockResource,
    owner: &str,
    deadline: Duration,
) -> Result<Lock, LocksError> {
    loop {
        let request = LockRequest { resource, owner: owner.to_owned(), boot: engine.boot, lease: LEASE };
        match engine.store.take_lock(request).await {
            Ok(row) => return Ok(row),
            Err(LockStoreError::Store(error)) => return Err(error.into()),
            Err(LockStoreError::Held(held)) => {
                if free_of_the_dead(engine, &held).await? {
                    continue;
                }
                if engine.clock.now() >= deadline {
                    return Err(LocksError::Held { what: held.resource.to_string(), owner: held.owner });
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// Frees a row whose holder is dead; returns whether it is. The row's number ensures that no other holder's
/// row is freed.
async fn free_of_the_dead(engine: &EngineInner, held: &LockHeld) -> Result<bool, StoreError> {
    let is_gone = |holder| !is_present(&engine.options.data_dir, holder);
    if !holder_of(&held.owner).is_some_and(is_gone) {
        return Ok(false);
    }
    let rows = engine.store.locks().await?;
    if let Some(row) = rows.iter().find(|row| row.resource == held.resource && row.owner == held.owner) {
        engine.store.release_lock(row).await?;
    }
    Ok(true)
}

async fn lock_roots(engine: &EngineInner, plan: &Plan, deadline: Duration) -> Result<RootLocks, LocksError> {
    let mut paths: Vec<_> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
    paths.sort();
    let mut roots = RootLocks::default();
    for path in paths {
        let root = open_root(&path)?;
        while flock(&root.1, FlockOperation::NonBlockingLockExclusive).is_err() {
            if engine.clock.now() >= deadline {
                let what = path.display().to_string();
                return Err(LocksError::Held { what, owner: "another process".to_owned() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        roots.0.push(ProjectRootLock { path, inode: root.0, _root: root.1 });
    }
    Ok(roots)
}

fn open_root(path: &Path) -> Result<((u64, u64), File), LocksError> {
    let failed = |source| LocksError::Root { root: path.display().to_string(), source };
    let root = File::open(path).map_err(failed)?;
    Ok((inode_of(&root).map_err(failed)?, root))
}

async fn renew(engine: Arc<EngineInner>, rows: Vec<Lock>) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        for row in &rows {
            // The kernel's lock still guards the files when a renewal fails.
            let _ = engine.store.renew_lock(row, LEASE).await;
        }
    }
}

async fn release(engine: &EngineInner, rows: &[Lock]) {
    for row in rows {
        // A lock that is not released expires.
        let _ = engine.store.release_lock(row).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_known_by_what_it_signed() {
        let holder = WorkerId::from_u128(0x0194_2f3a_0000_0000_0000_0000_0000_0007);
        assert_eq!(holder_of(&format!("apply of plan 01J {}", signed(holder))), Some(holder));
        assert_eq!(holder_of("apply of plan 01J (process 4711)"), None);
        assert_eq!(holder_of("somebody"), None);
    }

    #[test]
    fn the_lock_of_a_root_has_one_holder_and_is_not_asked_for_twice() {
        let dir = std::env::temp_dir();
        let dir = dir.join(format!("agents-locks-{}", std::process::id()));
        let roots = || [dir.join("a"), dir.join("b"), dir.join("absent")];
        for name in ["a", "b"] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        let none = RootLocks::default();
        let held = RootLocks::try_take([dir.join("a")], &none).unwrap();
        assert!(RootLocks::try_take(roots(), &none).is_none(), "somebody has one");
        let rest = RootLocks::try_take(roots(), &held).unwrap();
        assert_eq!(rest.0.iter().map(|lock| &lock.path).collect::<Vec<_>>(), [&dir.join("b")]);
        drop((held, rest));
        assert_eq!(RootLocks::try_take(roots(), &none).unwrap().0.len(), 2);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
