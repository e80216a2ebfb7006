//! A stored sandbox: its strategy, the reason for that strategy, and its place.

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
    /// The time when it was opened.
    pub opened: WallMs,
    /// The time when it was closed; `None` while it is open, and if its owner died.
    pub closed: Option<WallMs>,
    /// The files that capture left out.
    pub not_captured: CaptureOmissions,
    /// The changes in the user's tree that the plan did not make; `None` if the tree was not looked at.
    pub tree: Option<TreeChanges>,
}

/// The user's tree at the end of a run, compared with its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeChanges {
    /// Files and directories that changed, came or left, as people name them.
    pub moved: Vec<String>,
    /// The number of further ones.
    pub more: u64,
    /// True if all of the tree was looked at.
    pub is_whole: bool,
}

impl TreeChanges {
    /// Returns whether something changed.
    pub fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }
}

/// The omissions of capture, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureOmissions {
    /// Build output and the like, that git ignores.
    pub scratch: u64,
    /// Below a protected directory.
    pub protected: u64,
    /// Neither file, link nor directory.
    pub special: u64,
    /// True if ignore files have more patterns than are heeded, so that more was captured than git would
    /// take.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patterns_left_out: bool,
    /// Files that lost a set-user-id or set-group-id bit which they did not have before.
    pub set_id: u64,
    /// Extended attributes and access control lists that were set.
    pub attributes: u64,
    /// Names that are hard links in the sandbox and become files of their own.
    pub hard_links: u64,
    /// New files in repositories, which are among the protected ones.
    pub repository: u64,
    /// Projects whose own directory has another mode in the sandbox.
    pub root_modes: u64,
    /// Some of the last five, by name.
    pub named: Vec<OmittedPart>,
}

/// Something of a captured file that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmittedPart {
    /// The kind of the part.
    pub kind: OmissionKind,
    /// The file, as people call it.
    pub path: String,
    /// The mode that it had, the name of the attribute, or the other name of the file; empty if all of it was
    /// left out.
    pub what: String,
}

/// The kind of a thing that was left out of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionKind {
    /// A file that is ignored.
    Scratch,
    /// A file that is never written.
    Protected,
    /// A device, a socket or a pipe.
    Special,
    /// A set-user-id or set-group-id bit.
    SetId,
    /// An extended attribute or access control list.
    Attribute,
    /// That two names are one file.
    HardLink,
    /// A new file in a repository.
    Repository,
    /// The mode of a project's own directory.
    RootMode,
}
