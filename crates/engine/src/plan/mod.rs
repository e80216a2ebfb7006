//! The commands on a plan: create it, execute it, move it on, detach, cancel, guide, revise and roll it back.

pub(crate) mod advance;
pub(crate) mod built_in_decisions;
pub(crate) mod cancel;
pub(crate) mod create;
mod detach;
pub(crate) mod discard;
pub(crate) mod edit;
pub(crate) mod execute;
pub(crate) mod follow_up;
pub(crate) mod gates;
pub(crate) mod guidance;
pub(crate) mod limits;
pub(crate) mod notes;
mod replan;
pub(crate) mod revise;
pub(crate) mod rollback;
pub(crate) mod shell;
pub(crate) mod tool_policy;
pub(crate) mod transition;
mod trust;
