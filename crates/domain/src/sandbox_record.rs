//! A sandbox as it is kept: which rung it stands on and why, and where it lies.

use serde::{Deserialize, Serialize};

use crate::id::{BootId, PlanId};
use crate::time::WallMs;

/// A sandbox that was opened for one attempt of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRecord {
    /// The plan.
    pub plan: PlanId,
    /// Its attempt.
    pub attempt: u32,
    /// The rung of the ladder: `overlay`, `reflink`, `worktree`, `copy`, `none`.
    pub rung: String,
    /// The rungs that were passed over, each with its true reason.
    pub passed_over: Vec<(String, String)>,
    /// Its directory, as bytes of a path.
    pub dir: Vec<u8>,
    /// The boot in which it was opened.
    pub boot: BootId,
    /// When.
    pub opened: WallMs,
    /// When it was closed; none while it is open, and when its owner died.
    pub closed: Option<WallMs>,
    /// What capture left out.
    pub not_captured: NotCaptured,
}

/// What capture left out, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCaptured {
    /// Build output and the like, that git ignores.
    pub scratch: u64,
    /// Below a protected directory.
    pub protected: u64,
    /// Neither file, link nor directory.
    pub special: u64,
}
