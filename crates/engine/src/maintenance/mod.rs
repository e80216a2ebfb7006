//! Looks after the data directory: what the machine offers, what can be removed, what was retained.

pub(crate) mod doctor;
pub(crate) mod gc;
pub(crate) mod retained_sandboxes;
