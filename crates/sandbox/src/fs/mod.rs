//! Files beneath a root: opened, listed and removed by descriptor, without following links out of it.

pub mod beneath;
pub(crate) mod exact_path;
pub(crate) mod listing;
pub(crate) mod regular_file;
pub(crate) mod remove;
pub(crate) mod sparse_file;
