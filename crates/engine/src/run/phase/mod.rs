//! The phases of a plan, and the checks at their end.

pub(crate) mod apply;
pub(crate) mod checks;
pub(crate) mod execute;
mod repair;
pub(crate) mod strategize;
