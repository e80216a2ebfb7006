//! Runs a command of a plan: its inputs and its result.
//!
//! # How a command runs
//! 1. The caller makes a [`CommandSpec`], with the [`environment`] that commands see and nothing else.
//! 2. [`Isolation::start`](crate::isolation::Isolation::start) runs it in the sandbox's view and gives a
//!    [`RunningCommand`], once the program itself has begun.
//! 3. [`RunningCommand::wait`] returns when the whole tree of processes is dead; [`RunningCommand::killer`]
//!    makes that happen soon.
//!
//! A program that is spoken to ([`Stdin::Spoken`]) has its ends taken from [`RunningCommand::take_pipes`]
//! before that.
//!
//! The process that takes a job over kills the remaining commands of an owner that died or is stopped:
//! [`kill_job`].
//!
//! # Invariants
//! 1. An [`CommandExit`] means that no process of the command is alive, not even one that it put into a
//!    session of its own.
//! 2. The output of a command costs bounded memory and disk, however much it is, and never makes it wait for
//!    us.
//!
//! # Not here
//! The isolation of a command from the rest of the machine: [`isolation`](crate::isolation).

mod bounds;
mod drain;
mod environment;
mod kill_job;
mod network_failure;
mod output;
mod pipes;
mod process;
mod spec;

pub use bounds::{LimitHit, ResourceLimits};
pub use environment::{EnvSpec, environment};
pub(crate) use environment::{FENCE, JOB};
pub use kill_job::{KillJobError, kill_job};
pub use output::{BOUNDED_HEAD_BYTES, BOUNDED_TAIL_BYTES, Output};
pub use pipes::PipedStreams;
pub use process::{CommandExit, ExitKind, Killer, RunningCommand};
pub use spec::{CommandSpec, IsolationExceptions, KEEP_BYTES_MAX, KILL_GRACE, OutputSpec, Stdin, WorkDir};

pub use crate::isolation::child_run;
pub(crate) use drain::Drains;
pub(crate) use environment::marks;
pub(crate) use process::LaunchedCommand;
