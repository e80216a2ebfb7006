//! The workers of this machine: the processes that run plans, and how they learn of each other.

pub(crate) mod breaker_log;
pub(crate) mod notify;
pub(crate) mod pool;
pub(crate) mod registry;
pub(crate) mod store_identity;
