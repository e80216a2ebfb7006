//! Reads plans. Nothing here writes to the store or to files.

pub(crate) mod artifacts;
pub(crate) mod decisions;
pub(crate) mod details;
pub(crate) mod diff;
pub(crate) mod effective_changes;
pub(crate) mod find;
pub(crate) mod forecast;
pub(crate) mod live_output;
pub(crate) mod logs;
pub(crate) mod overview;
pub(crate) mod queue_position;
