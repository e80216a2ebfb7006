//! The phases of a plan, and the checks at their end.

pub(crate) mod apply;
mod checks;
pub(crate) mod execute;
pub(crate) mod recheck;
mod repair;
pub(crate) mod strategize;
