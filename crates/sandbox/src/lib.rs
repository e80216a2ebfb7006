//! Where a plan works, what it changed there, and how that reaches the user's files.
//!
//! # Where to begin
//! - [`beneath`]: every path is resolved by the kernel, beneath its root.
//! - [`hidden`]: paths of the machine that nothing of a plan sees.
//! - [`content`]: what capture hands contents to, and restore takes them from.
//! - [`ladder`]: how a sandbox is opened; [`opened::Sandbox`]: what it is; [`mod@reopen`]: one that was kept.
//! - [`file_tools`]: single files of it, read and written without a process.
//! - [`capture`]: what changed in it; [`restore`]: how recorded changes come back into one.
//! - [`descriptors`]: the open-file limit, and the wait for room when the system has none.
//! - [`command`] and [`isolation`]: how a command runs, and what keeps it from the rest of the machine.
//! - [`project_tree`] and [`git_log`]: a project's files and newest commits, for whoever reads all of them.
//! - [`TreeStamp`]: whether a project's tree is as it was when a sandbox was opened over it.
//! - [`journal`]: how changes reach the user's files, all or none; [`git_ref`]: the commit that goes with them.
//!
//! # Invariants
//! 1. The user's tree is never written but by the journal, after its commit mark is on disk.
//! 2. What changed is told from the file system, never from the names of tools.
//! 3. Whatever is opened here is gone when its owner is: mounts, processes and namespaces are held by file
//!    descriptors.
//!
//! # Not here
//! What is stored (crate `store`), what is merged (crate `domain`), and when any of it happens (crate `engine`).

pub mod content;
pub mod fs;
pub mod hidden_paths;
pub mod open;
pub mod sandbox;
pub mod view;

pub mod command;
pub mod isolation;

pub mod child;
pub mod descriptors;
mod forwarder;

pub mod git;

pub mod capture;
pub mod file_tools;
pub mod layer;
pub mod restore;

pub mod journal;

pub mod project_tree;
mod tree_stamp;

pub use capture::{CaptureError, CaptureRules, Captured, CapturedChange, NotCaptured};
pub use child::{ChildProgram, dispatch, inherit_nothing};
pub use file_tools::{WriteFileError, read_at_hand, read_file};
pub use git::command::{GitRunError, git_version};
pub use hidden_paths::{HiddenInProject, HiddenPaths};
pub use layer::{Layer, LayerError};
pub use open::copy::{CopyWatch, Skipped};
pub use open::dir::{Keeper, SweepReport, discard, survey, sweep};
pub use open::lock_record::NOTE_BYTES_MAX;
pub use open::reopen::{is_kept, reopen};
pub use open::strategy::{Choice, PassedOver, Rung};
pub use open::{OpenError, OpenRequest, RootSpec, open, open_unless, open_watched, probe};
pub use restore::RestoreError;
pub use sandbox::{NoSuchRoot, Sandbox};
pub use tree_stamp::{TreeComparison, TreeMoves, TreeStamp};
