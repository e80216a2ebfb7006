//! Locks that are rows: who holds what, until when, under which number.
//!
//! # Invariants
//! 1. A lock has one holder: taking is refused while its lease is valid in this boot.
//! 2. The fence grows with every taking and the row stays, so that a late release frees nothing of others.

use std::fmt;
use std::time::Duration;

use crate::change::file_state::Hash;
use crate::id::{BootId, Fence, PlanId};
use crate::time::Ms;

/// A resource that can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockResource {
    /// A plan.
    Plan(PlanId),
    /// A project, by the hash of its root's path.
    Project(Hash),
}

impl fmt::Display for LockResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockResource::Plan(plan) => write!(f, "plan:{plan}"),
            LockResource::Project(hash) => write!(f, "project:{hash}"),
        }
    }
}

/// A wish to hold a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// The resource to lock.
    pub resource: LockResource,
    /// The owner, in words that a person understands: `apply of plan 01J… (process 4711)`.
    pub owner: String,
    /// The boot in which the lease counts.
    pub boot: BootId,
    /// The time for which the lock is held if it is not renewed.
    pub lease: Duration,
}

/// A stored lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The locked resource.
    pub resource: LockResource,
    /// The present or last holder.
    pub owner: String,
    /// Of the present holder, or of the last one.
    pub fence: Fence,
    /// The boot in which the lease counts.
    pub boot: BootId,
    /// The moment from which it has no holder.
    pub lease_until: Ms,
}

/// Another holder has the lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{resource} is locked by {owner}")]
pub struct LockHeld {
    /// The locked resource.
    pub resource: LockResource,
    /// The holder.
    pub owner: String,
}

impl Lock {
    /// The lock after it was taken by `request`, given what is known of it.
    ///
    /// # Errors
    /// Returns an error if it has another holder.
    pub fn take(known: Option<&Lock>, request: LockRequest, now: Ms) -> Result<Lock, LockHeld> {
        if let Some(lock) = known.filter(|lock| lock.is_held(request.boot, now)) {
            return Err(LockHeld { resource: lock.resource, owner: lock.owner.clone() });
        }
        Ok(Lock {
            resource: request.resource,
            owner: request.owner,
            fence: Fence(known.map_or(0, |lock| lock.fence.0).saturating_add(1)),
            boot: request.boot,
            lease_until: now.saturating_add(request.lease),
        })
    }

    /// Returns whether this is the taking that `held` was: by the same holder, under the same number.
    pub fn is_of(&self, held: &Lock) -> bool {
        self.resource == held.resource && self.fence == held.fence && self.owner == held.owner
    }

    /// Returns whether it has a holder in this boot.
    pub fn is_held(&self, boot: BootId, now: Ms) -> bool {
        self.boot == boot && self.lease_until > now
    }
}
