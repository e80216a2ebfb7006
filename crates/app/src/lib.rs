//! The `agents` program as a library, so that its tests and the printed docs reach its parts.
//!
//! # Where to begin
//! - [`cli`]: the command line, a file for each command.
//! - [`config`]: what is set, where, and who may set it.
//! - [`setup::definitions`]: actions and actors, found in their directories.
//! - [`output`]: how answers are shown; [`errors`]: what a command could not do, and every code there is.
//!
//! # Invariants
//! 1. Codes, hints and exit status are added here and nowhere below.
//! 2. Nothing is opened, read or started before the command that needs it runs: `agents --version` touches no
//!    file.
//!
//! # Not here
//! Rules (`domain`), plans (`engine`): a command asks the engine and shows what it answers.

#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod errors;
pub mod notify;
pub mod output;
pub mod render;
pub mod setup;
pub mod time;
pub mod tui;
