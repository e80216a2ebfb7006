//! The locks of an apply: the plan's row, the projects' rows, and the kernel's lock on each root.
//!
//! # Invariants
//! 1. Rows are taken in order of resource, so that two applies never wait for each other in a circle.
//! 2. Rows are renewed while held. The kernel's lock on a root is what guards it from other data directories, and it
//!    goes with the process.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use domain::{Hash, Lock, LockRequest, LockResource, Plan};
use rustix::fs::{FlockOperation, flock};
use store::{LockStoreError, StoreError};
use tokio::task::JoinHandle;

use super::House;
use super::use_plan::path_of;

const LEASE: Duration = Duration::from_secs(2);
const RENEW_EVERY: Duration = Duration::from_millis(500);
/// How long another apply is waited for.
const WAIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why the locks were not taken.
#[derive(Debug, thiserror::Error)]
pub enum LocksError {
    /// Somebody else holds one.
    #[error("{what} is locked by {owner}")]
    Held {
        /// What.
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
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The locks of one apply.
pub(super) struct Locks {
    house: Arc<House>,
    rows: Vec<Lock>,
    renewing: JoinHandle<()>,
    _roots: Vec<File>,
}

impl Locks {
    /// Takes the locks of the plan and of its projects, waiting for whoever has them.
    pub(super) async fn take(house: &Arc<House>, plan: &Plan, what: &str) -> Result<Self, LocksError> {
        let deadline = house.clock.now().saturating_add(WAIT);
        let owner = format!("{what} of plan {} (process {})", plan.id, std::process::id());
        let projects =
            plan.projects.iter().map(|project| LockResource::Project(Hash::of(project.root.as_bytes())));
        let mut resources: Vec<LockResource> = projects.chain([LockResource::Plan(plan.id)]).collect();
        resources.sort();
        let mut rows = Vec::new();
        for resource in resources {
            match take_row(house, resource, &owner, deadline).await {
                Ok(row) => rows.push(row),
                Err(error) => {
                    release(house, &rows).await;
                    return Err(error);
                }
            }
        }
        let roots = match lock_roots(house, plan, deadline).await {
            Ok(roots) => roots,
            Err(error) => {
                release(house, &rows).await;
                return Err(error);
            }
        };
        let renewing = tokio::spawn(renew(Arc::clone(house), rows.clone()));
        Ok(Self { house: Arc::clone(house), rows, renewing, _roots: roots })
    }

    /// Frees them.
    pub(super) async fn release(self) {
        self.renewing.abort();
        release(&self.house, &self.rows).await;
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

async fn take_row(
    house: &House,
    resource: LockResource,
    owner: &str,
    deadline: Duration,
) -> Result<Lock, LocksError> {
    loop {
        let request = LockRequest { resource, owner: owner.to_owned(), boot: house.boot, lease: LEASE };
        match house.store.take_lock(request).await {
            Ok(row) => return Ok(row),
            Err(LockStoreError::Store(error)) => return Err(error.into()),
            Err(LockStoreError::Held(held)) if house.clock.now() >= deadline => {
                return Err(LocksError::Held { what: held.resource.to_string(), owner: held.owner });
            }
            Err(LockStoreError::Held(_)) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

async fn lock_roots(house: &House, plan: &Plan, deadline: Duration) -> Result<Vec<File>, LocksError> {
    let mut paths: Vec<_> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
    paths.sort();
    let mut roots = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        let root = File::open(&path).map_err(|source| LocksError::Root { root: shown.clone(), source })?;
        while flock(&root, FlockOperation::NonBlockingLockExclusive).is_err() {
            if house.clock.now() >= deadline {
                return Err(LocksError::Held { what: shown, owner: "another process".to_owned() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        roots.push(root);
    }
    Ok(roots)
}

async fn renew(house: Arc<House>, rows: Vec<Lock>) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        for row in &rows {
            // The kernel's lock still guards the files when a renewal fails.
            let _ = house.store.renew_lock(row, LEASE).await;
        }
    }
}

async fn release(house: &House, rows: &[Lock]) {
    for row in rows {
        // What is not freed runs out.
        let _ = house.store.release_lock(row).await;
    }
}
