//! The commands on a plan: create it, execute it, move it on, detach, cancel and guide it.

pub(crate) mod advance;
pub(crate) mod built_in_decisions;
pub(crate) mod cancel;
pub(crate) mod create;
mod detach;
pub(crate) mod execute;
pub(crate) mod gates;
pub(crate) mod guidance;
pub(crate) mod limits;
mod replan;
pub(crate) mod transition;
mod trust;
