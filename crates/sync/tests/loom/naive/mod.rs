//! Naive versions: the seeds' bugs and other tempting mistakes, retained so that the explorer must find them.

pub(crate) mod breaker;
pub(crate) mod gate;
pub(crate) mod histories;
pub(crate) mod token;
