//! Sandboxes of plans: the trees that a plan works in, its changes there, and the journal that applies them.
//!
//! # Where to begin
//! - [`fs::beneath`]: every path is resolved by the kernel, beneath its root.
//! - [`hidden_path_matcher`]: paths of the machine that no part of a plan sees.
//! - [`content`]: the sink that capture writes contents to, and the source that restore reads them from.
//! - [`mod@open`] opens a sandbox, [`open::reopen`] one that was retained; [`sandbox::Sandbox`] is an open
//!   one.
//! - [`file_tools`]: single files of it, read and written without a process.
//! - [`capture`]: the changes in it; [`restore`]: puts recorded changes back into one.
//! - [`descriptors`]: the open-file limit, and the wait for room when the system has none.
//! - [`command`] and [`isolation`]: run a command, and keep it from the rest of the machine.
//! - [`project_tree`] and [`git::log`]: a project's files and newest commits, for callers that read all of
//!   them.
//! - [`TreeStamp`]: detects whether a project's tree is as it was when a sandbox was opened over it.
//! - [`journal`]: applies changes to the user's files, all or none; [`git::refs`]: the commit that goes with
//!   them.
//!
//! # Invariants
//! 1. The user's tree is never written but by the journal, after its commit mark is on disk.
//! 2. Changes are found in the file system, never by the names of tools.
//! 3. Everything that is opened here is gone when its owner is: mounts, processes and namespaces are held by
//!    file descriptors.
//!
//! # Not here
//! Storage (crate `store`), merges (crate `domain`), and the time at which any of it happens (crate
//! `engine`).

pub mod content;
pub mod fs;
pub mod hidden_path_matcher;
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

pub use capture::{CaptureError, CaptureReport, CaptureRules, CapturedChange, UncapturedCounts};
pub use child::{ChildProgram, dispatch, inherit_nothing};
pub use file_tools::{WriteFileError, read_at_hand, read_file};
pub use git::command::{GitRunError, git_version};
pub use hidden_path_matcher::{HiddenInProject, HiddenPathMatcher};
pub use layer::{Layer, LayerError};
pub use open::copy::{CopyWatch, SkippedFiles};
pub use open::dir::{RetainHandle, SweepReport, discard, survey, sweep};
pub use open::lock_record::NOTE_BYTES_MAX;
pub use open::reopen::{is_retained, reopen};
pub use open::strategy::{SandboxStrategy, SkippedSandboxStrategy, StrategyChoice};
pub use open::{OpenRequest, RootSpec, SandboxOpenError, open, open_unless, open_watched, probe};
pub use restore::RestoreError;
pub use sandbox::{NoSuchRoot, Sandbox};
pub use tree_stamp::{TreeComparison, TreeMoves, TreeStamp};
